//! redb, a copy-on-write B-tree in Rust; a crate, so it is always there.
//!
//! | setting | value | why |
//! |---|---|---|
//! | cache | all of the managed memory | it has no write buffers beside it |
//! | durability | one commit a second is `Immediate`, the others `None` | a commit of every batch would wait for the device, which no engine here does; `None` alone would never free pages. A killed process loses up to a second, the others nothing: redb has no log that would make it survive more cheaply |
//!
//! A get is a read transaction, as its documentation shows it.

use super::{Items, Memory, Setting, Store};
use crate::failure::Result;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use siltstone_lab::kit::sizes;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ITEMS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("items");
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The settings for the record.
pub fn settings(memory: Memory) -> String {
    format!("cache {}, one durable commit a second", sizes::bytes(memory.managed_bytes()))
}

/// Opens or creates a store.
///
/// # Errors
/// The engine's own.
pub fn open(setting: Setting<'_>) -> Result<Box<dyn Store>> {
    let cache = usize::try_from(setting.memory.managed_bytes()).unwrap_or(usize::MAX);
    let db = Database::builder().set_cache_size(cache).create(setting.dir.join("items.redb"))?;
    // Readers expect the table to be there.
    let transaction = db.begin_write()?;
    transaction.open_table(ITEMS)?;
    transaction.commit()?;
    Ok(Box::new(Redb { db, synced: Mutex::new(Instant::now()) }))
}

struct Redb {
    db: Database,
    synced: Mutex<Instant>,
}

impl Redb {
    /// Whether this commit is the durable one of its second.
    fn sync_is_due(&self) -> bool {
        let Ok(mut synced) = self.synced.lock() else { return true };
        let due = synced.elapsed() >= SYNC_INTERVAL;
        if due {
            *synced = Instant::now();
        }
        due
    }
}

impl Store for Redb {
    fn write(&self, items: &Items) -> Result<()> {
        let mut transaction = self.db.begin_write()?;
        let durable = self.sync_is_due();
        transaction.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
        {
            let mut table = transaction.open_table(ITEMS)?;
            for (key, value) in items {
                table.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let table = self.db.begin_read()?.open_table(ITEMS)?;
        let Some(found) = table.get(key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(found.value());
        Ok(true)
    }

    fn scan(&self, prefix: &[u8], found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let table = self.db.begin_read()?.open_table(ITEMS)?;
        for item in table.range(prefix..)? {
            let (key, value) = item?;
            if !key.value().starts_with(prefix) {
                break;
            }
            found(key.value(), value.value());
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        Ok(transaction.commit()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.settle()
    }
}
