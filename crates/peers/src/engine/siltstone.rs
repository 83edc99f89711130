//! Siltstone, one engine per preset.
//!
//! Groups are semi-sorted keys with an 8-byte prefix and suffixes in byte order, since every peer returns groups in order;
//! hashed suffixes would take less index. The budget is all that the engine manages: memtables, filters, indexes, cache and
//! compaction. One compaction thread beside the flush thread, which is the default and what RocksDB's
//! two background jobs amount to. The log is synced once a second in the background, which is the default as well; the
//! peers with logs never sync them.

use super::{Items, Memory, Setting, Store};
use crate::failure::Result;
use siltstone::{
    Batch, Db, Design, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder, WriteOptions,
};
use siltstone_bench_kit::generate::items::GROUP_PREFIX_BYTES;
use siltstone_bench_kit::sizes;

const KEYSPACE: &str = "peers";

/// The settings for the record.
pub fn settings(design: &Design, memory: Memory) -> String {
    format!(
        "preset {}, budget {}, ordered suffixes, log buffered and synced each second",
        design.preset_name(),
        sizes::bytes(memory.managed_bytes())
    )
}

/// Opens or creates a store.
///
/// # Errors
/// The engine's own.
pub fn open(design: &Design, setting: Setting<'_>) -> Result<Box<dyn Store>> {
    let options = Options { memory_budget_bytes: setting.memory.managed_bytes(), ..Options::default() };
    let db = Db::open(setting.dir, options)?;
    let schema = Schema::SemiSorted {
        prefix: PrefixRule::Fixed { bytes: GROUP_PREFIX_BYTES as u16 },
        suffix: SuffixOrder::Ordered,
    };
    let keyspace = match db.keyspace(KEYSPACE) {
        Some(keyspace) => keyspace,
        None => db.create_keyspace(KEYSPACE, KeyspaceOptions { schema, design: Some(design.clone()) })?,
    };
    Ok(Box::new(Siltstone { db, keyspace }))
}

struct Siltstone {
    db: Db,
    keyspace: Keyspace,
}

impl Store for Siltstone {
    fn write(&self, items: &Items) -> Result<()> {
        if let [(key, value)] = items {
            return Ok(self.keyspace.put(key, value)?);
        }
        let mut batch = Batch::new();
        for (key, value) in items {
            batch.put(&self.keyspace, key, value)?;
        }
        Ok(self.db.write(&batch, &WriteOptions::default())?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.keyspace.get(key)? else { return Ok(false) };
        *value = found;
        Ok(true)
    }

    fn scan(&self, prefix: &[u8], found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for entry in self.keyspace.prefix(prefix)? {
            let (key, value) = entry?;
            found(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.wait_until_idle()?)
    }

    fn device_reads(&self) -> Option<u64> {
        Some(self.db.stats().device_reads)
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.keyspace);
        Ok(self.db.close()?)
    }
}
