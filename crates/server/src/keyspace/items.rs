//! Items as they are stored, in bulk: what goes to another node, and what comes from one.
//!
//! Only in databases that lie by slot, of which a cluster's node has one. Those who call this see to it that
//! no client works on the keys meanwhile, or follow the log behind it.

use super::encoding::{Head, HeadKind, Layout, Reader};
use super::packed::Packed;
use super::store::{Database, Store};
use super::tally::Change;
use crate::failure::{Failure, Outcome};
use siltstone::Batch;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a page of items.
const PAGE_BYTES: usize = 512 << 10;
/// Items of one.
const PAGE_ITEMS: usize = 4_096;

/// A page of items.
pub struct Arrived {
    /// Keys and values.
    pub items: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether there are no more.
    pub is_last: bool,
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug)]
pub enum ItemChange<'a> {
    /// It is there from now on.
    Put {
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// It is gone.
    Delete {
        /// Its key.
        key: &'a [u8],
    },
    /// It and all items of its group are gone.
    DeleteGroup {
        /// The group's prefix.
        key: &'a [u8],
    },
}

impl ItemChange<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::DeleteGroup { key } => key,
        }
    }
}

/// The expiry of each head that is there.
type Heads = HashMap<Vec<u8>, u64>;

/// Whether a key with this expiry counts as there.
fn is_live(expires_at: u64, now: u64) -> bool {
    expires_at == 0 || expires_at > now
}

/// When a collection is to be looked at: once an element, or a large one itself, has expired.
fn due_times(head: Head, rest: &[u8]) -> [u64; 2] {
    let soonest = match head.kind {
        HeadKind::String | HeadKind::PackedSet => 0,
        HeadKind::PackedHash => Packed::read(rest).map_or(0, |packed| packed.soonest()),
        HeadKind::Hash | HeadKind::Set => {
            let mut reader = Reader { bytes: rest };
            reader.u64().and_then(|_| reader.u64()).unwrap_or(0)
        }
    };
    [soonest, if head.kind.is_large() { head.expires_at } else { 0 }]
}

impl Store {
    /// The database whose keys are shared by slots; it is made where it is not there.
    ///
    /// # Errors
    /// Where it does not lie by slot.
    pub fn by_slot(&self) -> Outcome<Arc<Database>> {
        let database = self.database_or_new(0)?;
        if database.layout != Layout::BySlot {
            return Err(Failure::new("the keys of this database do not lie by slot"));
        }
        Ok(database)
    }

    /// Some items of `slots` in the order of the store, behind the item `after`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn page_of_slots(&self, slots: RangeInclusive<u16>, after: Option<&[u8]>) -> Outcome<Arrived> {
        // Against FLUSHALL, which drops the keyspace.
        let _held = self.locks.keys(std::iter::empty());
        let mut page = Arrived { items: Vec::new(), is_last: true };
        let Some(database) = self.database(0) else { return Ok(page) };
        let mut items = database.items.iter_from(Layout::place_of_slot(*slots.start()))?;
        if let Some(after) = after {
            items = items.after(after)?;
        }
        let mut bytes = 0;
        for item in items {
            let (key, value) = item?;
            if Layout::slot_of(&key).is_none_or(|slot| slot > *slots.end()) {
                break;
            }
            bytes += key.len() + value.len();
            page.items.push((key, value));
            if bytes >= PAGE_BYTES || page.items.len() >= PAGE_ITEMS {
                page.is_last = false;
                break;
            }
        }
        Ok(page)
    }

    /// Carries out what another node says of items that it hands over, in that order.
    ///
    /// # Errors
    /// Those of reading and writing, after which nothing has changed; where `database` is gone.
    pub fn take_items(&self, database: &Arc<Database>, changes: &[ItemChange<'_>]) -> Outcome {
        let _held = self.locks.keys(std::iter::empty());
        let now = crate::now_ms();
        let mut heads = read_heads(database, changes, now)?;
        let (mut batch, mut tally) = (Batch::new(), Change::default());
        for change in changes {
            let key = change.key();
            let (_, is_head) = Layout::BySlot.key_of(key).unwrap_or((&[], false));
            if is_head && let Some(expires_at) = heads.remove(key) {
                tally.count(expires_at, -1);
            }
            match change {
                ItemChange::Delete { .. } => batch.delete(&database.items, key)?,
                ItemChange::DeleteGroup { .. } => batch.delete_prefix(&database.items, key)?,
                ItemChange::Put { value, .. } if !is_head => batch.put(&database.items, key, value)?,
                ItemChange::Put { value, .. } => {
                    if let Some(expires_at) = put_head(&mut batch, database, key, value, now)? {
                        tally.count(expires_at, 1);
                        heads.insert(key.to_vec(), expires_at);
                    }
                }
            }
        }
        self.write_items(database, batch, &tally, changes.iter().map(ItemChange::key))
    }

    /// Deletes the keys that `items`, of which no client knows any more, are of; how many there were.
    ///
    /// # Errors
    /// Those of the write.
    pub fn drop_items(&self, items: &[(Vec<u8>, Vec<u8>)]) -> Outcome<u64> {
        let database = self.by_slot()?;
        let _held = self.locks.keys(std::iter::empty());
        let now = crate::now_ms();
        let (mut batch, mut tally, mut count) = (Batch::new(), Change::default(), 0);
        let mut group = Vec::new();
        for (key, value) in items {
            let Some((name, is_head)) = Layout::BySlot.key_of(key) else { continue };
            let head = if is_head { Head::read(value).map(|(head, _)| head) } else { None };
            if let Some(head) = head {
                count += 1;
                if is_live(head.expires_at, now) {
                    tally.count(head.expires_at, -1);
                }
            }
            if head.is_some_and(|head| !head.kind.is_large()) {
                batch.delete(&database.items, key)?;
                continue;
            }
            let of = Layout::BySlot.group(name);
            if of != group {
                batch.delete_prefix(&database.items, &of)?;
                group = of;
            }
        }
        self.write_items(&database, batch, &tally, items.iter().map(|(key, _)| key.as_slice()))?;
        Ok(count)
    }

    /// Writes a batch, which concerns the items `keys`.
    fn write_items<'k>(
        &self,
        database: &Arc<Database>,
        mut batch: Batch,
        tally: &Change,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
    ) -> Outcome {
        if !self.database(0).is_some_and(|open| Arc::ptr_eq(&open, database)) {
            return Err(Failure::new("the database was emptied meanwhile"));
        }
        tally.commit(&mut batch, &database.counts)?;
        let written = self.db.write(&batch, &self.write_options());
        let count = keys.len();
        keys.filter_map(|item| database.layout.key_of(item)).for_each(|(key, _)| database.forget(key));
        written?;
        self.applied(database, tally);
        self.changes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// The heads that are there of keys which `changes` are about.
fn read_heads(database: &Database, changes: &[ItemChange<'_>], now: u64) -> Outcome<Heads> {
    let is_head = |key: &&[u8]| Layout::BySlot.key_of(key).is_some_and(|(_, is_head)| is_head);
    let mut keys: Vec<&[u8]> = changes.iter().map(ItemChange::key).filter(is_head).collect();
    keys.sort_unstable();
    keys.dedup();
    let values = database.items.multi_get(&keys)?;
    let live = keys.iter().zip(values).filter_map(|(key, value)| {
        let (head, _) = Head::read(value?.as_slice())?;
        is_live(head.expires_at, now).then(|| (key.to_vec(), head.expires_at))
    });
    Ok(live.collect())
}

/// Adds a head to `batch`, as `unit.rs` would; its expiry, or none where it is gone already.
fn put_head(
    batch: &mut Batch,
    database: &Database,
    key: &[u8],
    value: &[u8],
    now: u64,
) -> Outcome<Option<u64>> {
    let damaged = || Failure::new("an item that was handed over can't be read");
    let (head, from) = Head::read(value).ok_or_else(damaged)?;
    let (name, _) = Layout::BySlot.key_of(key).ok_or_else(damaged)?;
    let is_large = head.kind.is_large();
    if !is_live(head.expires_at, now) {
        // Its elements, if it has any, come and go behind it.
        batch.delete(&database.items, key)?;
        if is_large {
            batch.delete_prefix(&database.items, key)?;
        }
        return Ok(None);
    }
    if head.expires_at > 0 && !is_large {
        let ttl = Duration::from_millis(head.expires_at - now);
        batch.put_with_ttl(&database.items, key, value, ttl)?;
    } else {
        batch.put(&database.items, key, value)?;
    }
    for at in due_times(head, value.get(from..).unwrap_or_default()) {
        if at > 0 {
            // What has come late is looked at next: nobody looks at times that have passed.
            batch.put(&database.due, Database::due_key(at.max(now), name), b"")?;
        }
    }
    Ok(Some(head.expires_at))
}
