//! A store that was made outside of a cluster, or before keys lay by slot, becomes one of a cluster's node.
//!
//! The items are built anew in bulk, by slot, beside the old ones; one write says that they are the database
//! from then on. A conversion that broke off leaves the store as it was, and the next opening drops what it
//! had made.

use super::encoding::{Head, Layout};
use super::store::{Store, directory_key};
use crate::failure::{Failure, Outcome};
use siltstone::{Ingest, IngestOptions, Keyspace};
use std::time::Duration;

/// Puts the keys of the database by slot; how many items there were.
///
/// # Errors
/// Where they lie so already, or there are several databases; those of reading and writing.
pub fn convert(store: &Store) -> Outcome<u64> {
    let others = (1..store.count()).filter(|number| store.keys(*number, crate::now_ms()) > 0);
    if let Some(number) = others.min() {
        return Err(Failure::new(format!(
            "a cluster's node has one database, and there are keys in {number}"
        )));
    }
    let Some(old) = store.database(0) else { return Err(Failure::new("there are no keys to convert")) };
    if old.layout == Layout::BySlot {
        return Err(Failure::new("the keys lie by slot already"));
    }
    let _held = store.locks.all();
    let generation = store.new_generation(Layout::BySlot);
    let new = store.of_generation(generation)?;
    let mut items = 0;
    new.items.ingest_with(&IngestOptions::default(), |ingest| {
        for item in old.items.iter()? {
            let (key, value) = item?;
            put(ingest, &key, &value)?;
            items += 1;
        }
        Outcome::Ok(())
    })?;
    copy(&old.due, &new.due)?;
    // Counters are operands of a merge; what they add up to is a value.
    copy(&old.counts, &new.counts)?;
    store.db.sync()?;
    store.directory.put(directory_key(0), generation.to_be_bytes())?;
    store.db.sync()?;
    store.refresh()?;
    Ok(items)
}

fn copy(from: &Keyspace, to: &Keyspace) -> Outcome {
    for item in from.iter()? {
        let (key, value) = item?;
        to.put(key, value)?;
    }
    Ok(())
}

fn put(ingest: &mut Ingest<'_>, key: &[u8], value: &[u8]) -> Outcome {
    let damaged = || Failure::new("an item can't be read: was it written by something else?");
    let (name, is_head) = Layout::Plain.key_of(key).ok_or_else(damaged)?;
    let mut new = Layout::BySlot.group(name);
    new.extend_from_slice(key.get(Layout::Plain.group(name).len()..).unwrap_or_default());
    let head = if is_head { Some(Head::read(value).ok_or_else(damaged)?.0) } else { None };
    match head {
        Some(head) if head.expires_at > 0 && !head.kind.is_large() => {
            let now = crate::now_ms();
            if head.expires_at > now {
                ingest.put_with_ttl(new, value, Duration::from_millis(head.expires_at - now))?;
            }
        }
        _ => ingest.put(new, value)?,
    }
    Ok(())
}
