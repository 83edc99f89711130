//! fjall, an LSM tree in Rust; a crate, so it is always there.
//!
//! | setting | value | why |
//! |---|---|---|
//! | memtable | one write buffer | the default is 64 MiB, which is what it is at a large cap |
//! | cache | the rest of the managed memory | indexes and filters live in it; its documentation asks for a fifth to a quarter of the memory at least |
//! | compression | none | values are noise |
//! | filters | default: 0.01 % false positives in the uppermost level, 10 bits below | chosen by its developers |
//! | worker threads | default: one per core, at most four | |
//! | journal | default: handed to the system on each write, not synced | survives a killed process |

use super::{Items, Memory, Setting, Store};
use crate::failure::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use siltstone_lab::kit::sizes;
use std::time::Duration;

/// The settings for the record.
pub fn settings(memory: Memory) -> String {
    format!(
        "memtables of {}, cache {}, default filters, no compression, journal not synced",
        sizes::bytes(memory.write_buffer_bytes()),
        sizes::bytes(memory.cache_bytes())
    )
}

/// Opens or creates a store.
///
/// # Errors
/// The engine's own.
pub fn open(setting: Setting<'_>) -> Result<Box<dyn Store>> {
    let Setting { dir, memory, .. } = setting;
    let db = Database::builder(dir).cache_size(memory.cache_bytes()).open()?;
    let items = db.keyspace("items", || {
        KeyspaceCreateOptions::default().max_memtable_size(memory.write_buffer_bytes())
    })?;
    Ok(Box::new(Fjall { db, items }))
}

struct Fjall {
    db: Database,
    items: Keyspace,
}

impl Store for Fjall {
    fn write(&self, items: &Items) -> Result<()> {
        if let [(key, value)] = items {
            return Ok(self.items.insert(key.as_slice(), value.as_slice())?);
        }
        let mut batch = self.db.batch();
        for (key, value) in items {
            batch.insert(&self.items, key.as_slice(), value.as_slice());
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.items.get(key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(&self, prefix: &[u8], found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for item in self.items.prefix(prefix) {
            let (key, value) = item.into_inner()?;
            found(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.items.rotate_memtable_and_wait()?;
        self.db.persist(PersistMode::SyncAll)?;
        // Compactions start one after another; three quiet looks in a row are the end of them.
        let mut quiet = 0;
        while quiet < 3 {
            std::thread::sleep(Duration::from_millis(100));
            quiet = if self.db.active_compactions() == 0 { quiet + 1 } else { 0 };
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.persist(PersistMode::SyncAll)?;
        drop(self);
        Ok(())
    }
}
