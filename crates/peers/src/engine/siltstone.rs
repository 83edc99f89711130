//! Siltstone, one engine per preset.
//!
//! | setting | value | why |
//! |---|---|---|
//! | budget | all of the managed memory | it covers memtables, filters, indexes, cache and compaction |
//! | direct reads | on, but for one variant | as RocksDB's: the cap counts the page cache |
//! | schema | 8-byte prefixes, suffixes in byte order | every peer returns groups in order; hashed suffixes would take less index |
//! | background threads | 1 beside the flush thread | the default, and what RocksDB's two background jobs amount to |
//! | log | on, synced each second in the background | the default; the peers with logs never sync theirs |

use super::{Items, Make, Memory, Setting, Store};
use crate::failure::{Failure, Result};
use siltstone::{
    Batch, Db, Design, IngestOptions, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder,
    WriteOptions, presets,
};
use siltstone_lab::kit::generate::items::GROUP_PREFIX_BYTES;
use siltstone_lab::kit::sizes;

/// The keyspace of the items.
pub const KEYSPACE: &str = "peers";
const SCHEMA: Schema = Schema::SemiSorted {
    prefix: PrefixRule::Fixed { bytes: GROUP_PREFIX_BYTES as u16 },
    suffix: SuffixOrder::Ordered,
};

/// A preset, read directly or through the page cache.
#[derive(Clone, Debug)]
pub struct Variant {
    preset: &'static str,
    design: Design,
    direct: bool,
}

impl Variant {
    /// Every preset, and the default one through the page cache.
    pub fn all() -> Vec<Self> {
        let direct = presets::all().into_iter().map(|(preset, design)| Self { preset, design, direct: true });
        let mut all: Vec<_> = direct.collect();
        let through_page_cache = all.first().map(|first| Self { direct: false, ..first.clone() });
        all.extend(through_page_cache);
        all
    }

    /// The default preset, with the settings of all runs.
    pub fn default_preset() -> Option<Self> {
        Self::all().into_iter().next()
    }

    /// Options of a store that manages so much memory.
    pub fn options(&self, memory_budget_bytes: u64) -> Options {
        Options { memory_budget_bytes, direct_reads: self.direct, ..Options::default() }
    }

    /// Options of a keyspace of the workloads' items.
    pub fn keyspace(&self) -> KeyspaceOptions {
        let design = Some(self.design.clone());
        KeyspaceOptions { schema: SCHEMA, design, ..KeyspaceOptions::default() }
    }

    /// The same of single keys, which form no groups.
    pub fn points(&self) -> KeyspaceOptions {
        KeyspaceOptions { schema: Schema::Point, ..self.keyspace() }
    }

    /// The engine's name.
    pub fn name(&self) -> String {
        format!("siltstone-{}{}", self.preset, if self.direct { "" } else { "-page-cache" })
    }

    /// The version, or why the preset can't hold groups: some are for point keys alone, and are named and
    /// passed over.
    ///
    /// # Errors
    /// The preset's reason.
    pub fn version(&self) -> std::result::Result<String, String> {
        self.design.check_for(&SCHEMA).map_err(|why| why.to_string())?;
        Ok(format!("Siltstone {}", env!("CARGO_PKG_VERSION")))
    }

    /// The settings for the record.
    pub fn settings(&self, memory: Memory) -> String {
        format!(
            "preset {}, budget {}, reads {}, ordered suffixes, log synced each second",
            self.preset,
            sizes::bytes(memory.managed_bytes()),
            if self.direct { "direct" } else { "through the page cache" }
        )
    }
}

/// Opens or creates a store.
///
/// # Errors
/// The engine's own.
pub fn open(variant: &Variant, setting: Setting<'_>) -> Result<Box<dyn Store>> {
    Ok(Box::new(open_store(variant, setting)?))
}

/// The same, as what it is.
///
/// # Errors
/// The engine's own.
pub fn open_store(variant: &Variant, setting: Setting<'_>) -> Result<Siltstone> {
    let db = Db::open(setting.dir, variant.options(setting.memory.managed_bytes()))?;
    let keyspace = db.keyspace(KEYSPACE, variant.keyspace())?;
    Ok(Siltstone { db, keyspace })
}

/// A store and its keyspace of items.
pub struct Siltstone {
    /// The store.
    pub db: Db,
    /// The keyspace.
    pub keyspace: Keyspace,
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

    fn get_many(&self, keys: &[Vec<u8>], values: &mut [Option<Vec<u8>>]) -> Result<()> {
        for (value, found) in values.iter_mut().zip(self.keyspace.multi_get(keys)?) {
            *value = found;
        }
        Ok(())
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

    fn build(&self, count: u64, item: &mut Make<'_>) -> Result<bool> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.keyspace.ingest_with(&IngestOptions::default(), |ingest| {
            for number in 0..count {
                item(number, &mut key, &mut value);
                ingest.put(&key, &value)?;
            }
            Ok::<_, Failure>(())
        })?;
        Ok(true)
    }

    fn structures_bytes(&self) -> Option<u64> {
        let memory = self.db.stats().memory;
        Some(memory.filter + memory.index)
    }

    fn planning_seconds(&self) -> Option<f64> {
        Some(self.db.stats().planning_ms / 1e3)
    }

    fn device_reads(&self) -> Option<u64> {
        Some(self.db.stats().device_reads)
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.keyspace);
        Ok(self.db.close()?)
    }
}
