//! The engines: what all of them are asked to do, and which there are.
//!
//! One file per engine, which opens with its settings and the reason for each. They share three rules, so
//! that nobody is tuned and nobody starved: the memory that an engine manages itself is one number for all
//! ([`Memory`]); nothing is compressed, since the values are noise; and a write survives a killed process,
//! not a power cut.

pub mod fjall;
pub mod leveldb;
pub mod lmdb;
pub mod redb;
pub mod rocksdb;
pub mod siltstone;

use crate::failure::Result;
use std::path::Path;

/// Items that are written together: keys and values.
pub type Items = [(Vec<u8>, Vec<u8>)];

/// What puts the item of a number into key and value.
pub type Make<'a> = dyn FnMut(u64, &mut Vec<u8>, &mut Vec<u8>) + 'a;

/// One open store, as the workloads use it.
pub trait Store: Send + Sync {
    /// Writes items, all or none, so that they survive a killed process.
    ///
    /// # Errors
    /// The engine's own.
    fn write(&self, items: &Items) -> Result<()>;

    /// Puts the value of `key` into `value` and says whether there is one.
    ///
    /// # Errors
    /// The engine's own.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Puts the value of each of `keys`, or that there is none, into `values`, which are as many: by whatever
    /// the engine has for getting many at once, and else one by one.
    ///
    /// # Errors
    /// The engine's own.
    fn get_many(&self, keys: &[Vec<u8>], values: &mut [Option<Vec<u8>>]) -> Result<()> {
        for (key, value) in keys.iter().zip(values) {
            let mut buffer = value.take().unwrap_or_default();
            *value = self.get(key, &mut buffer)?.then_some(buffer);
        }
        Ok(())
    }

    /// Shows every item whose key begins with `prefix`, in the order of keys.
    ///
    /// # Errors
    /// The engine's own.
    fn scan(&self, prefix: &[u8], found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Hands what is in memory to the device and waits for background work, as far as the engine can be asked
    /// to.
    ///
    /// # Errors
    /// The engine's own.
    fn settle(&self) -> Result<()>;

    /// Writes `count` items by the engine's own way to build a store of what comes in no order; `item` puts
    /// the one of a number into key and value. Says whether there is such a way; nothing is done without.
    ///
    /// # Errors
    /// The engine's own.
    fn build(&self, _count: u64, _item: &mut Make<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Bytes of filters and indexes in memory, where the engine counts them.
    fn structures_bytes(&self) -> Option<u64> {
        None
    }

    /// Seconds that the engine has spent on choosing compactions, where it counts them.
    fn planning_seconds(&self) -> Option<f64> {
        None
    }

    /// Reads for gets and scans that went past the engine's own cache, where the engine counts them.
    fn device_reads(&self) -> Option<u64> {
        None
    }

    /// Closes the store.
    ///
    /// # Errors
    /// The engine's own.
    fn close(self: Box<Self>) -> Result<()>;
}

/// How much memory an engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The cap on the whole process, its page cache included.
    pub cap_bytes: u64,
}

impl Memory {
    /// What the engine manages itself: half of the cap. Engines take up to 1.6 times what they are told, in
    /// fragments and in buffers that they do not count; the rest is the kernel's page cache, through which
    /// most of them read.
    pub fn managed_bytes(self) -> u64 {
        self.cap_bytes / 2
    }

    /// Of it, all write buffers together: two fifths, at most two of 64 MiB, which is RocksDB's and fjall's
    /// default.
    pub fn write_buffers_bytes(self) -> u64 {
        (self.managed_bytes() / 5 * 2).min(128 << 20)
    }

    /// One of two write buffers: one is filled while the other is flushed.
    pub fn write_buffer_bytes(self) -> u64 {
        self.write_buffers_bytes() / 2
    }

    /// The rest of what the engine manages: its cache, and filters and indexes where the cache holds them.
    pub fn cache_bytes(self) -> u64 {
        self.managed_bytes() - self.write_buffers_bytes()
    }
}

/// What opening a store takes.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Its directory; it exists.
    pub dir: &'a Path,
    /// Memory.
    pub memory: Memory,
    /// Bytes of keys and values that will be written at most, for engines that reserve address space.
    pub user_bytes: u64,
    /// Whether nothing will be written: an engine that finds the store in another shape than it would give it
    /// now is not to rewrite it meanwhile.
    pub only_reads: bool,
}

/// An engine with its settings, by name.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The name on the command line, in results and in charts.
    pub name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Siltstone(Box<siltstone::Variant>),
    RocksDb(rocksdb::Variant),
    LevelDb,
    Fjall,
    Redb,
    Lmdb,
}

impl Engine {
    /// Every engine, in the order of reports.
    pub fn all() -> Vec<Self> {
        let engine = |name: &str, kind| Self { name: name.to_owned(), kind };
        siltstone::Variant::all()
            .into_iter()
            .map(|variant| engine(&variant.name(), Kind::Siltstone(Box::new(variant))))
            .chain(rocksdb::Variant::ALL.map(|variant| engine(variant.name(), Kind::RocksDb(variant))))
            .chain([
                engine("leveldb", Kind::LevelDb),
                engine("fjall", Kind::Fjall),
                engine("redb", Kind::Redb),
                engine("lmdb", Kind::Lmdb),
            ])
            .collect()
    }

    /// The engine called `name`.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|engine| engine.name == name)
    }

    /// Whether it has a way of its own to build a store ([`Store::build`]).
    pub fn builds(&self) -> bool {
        matches!(self.kind, Kind::Siltstone(_))
    }

    /// The version that would run, or why none would.
    ///
    /// # Errors
    /// The engine's library is missing.
    pub fn version(&self) -> std::result::Result<String, String> {
        match &self.kind {
            Kind::Siltstone(variant) => variant.version(),
            Kind::RocksDb(_) => rocksdb::version(),
            Kind::LevelDb => leveldb::version(),
            Kind::Fjall => Ok("fjall 3.1".to_owned()),
            Kind::Redb => Ok("redb 4.5".to_owned()),
            Kind::Lmdb => Ok(lmdb::version()),
        }
    }

    /// The settings that matter, for the record.
    pub fn settings(&self, memory: Memory) -> String {
        match &self.kind {
            Kind::Siltstone(variant) => variant.settings(memory),
            Kind::RocksDb(variant) => variant.settings(memory),
            Kind::LevelDb => leveldb::settings(memory),
            Kind::Fjall => fjall::settings(memory),
            Kind::Redb => redb::settings(memory),
            Kind::Lmdb => lmdb::settings(memory),
        }
    }

    /// Opens the store in `setting.dir`, creating it where there is none.
    ///
    /// # Errors
    /// The library is missing, or the engine's own.
    pub fn open(&self, setting: Setting<'_>) -> Result<Box<dyn Store>> {
        match &self.kind {
            Kind::Siltstone(variant) => siltstone::open(variant, setting),
            Kind::RocksDb(variant) => rocksdb::open(*variant, setting),
            Kind::LevelDb => leveldb::open(setting),
            Kind::Fjall => fjall::open(setting),
            Kind::Redb => redb::open(setting),
            Kind::Lmdb => lmdb::open(setting),
        }
    }
}

/// The least byte string above everything that begins with `prefix`; empty where there is none.
fn above(prefix: &[u8]) -> Vec<u8> {
    let mut bound = prefix.to_vec();
    while let Some(last) = bound.pop() {
        if last < u8::MAX {
            bound.push(last + 1);
            break;
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_above_a_prefix_is_the_least() {
        assert_eq!(above(b"ab"), b"ac");
        assert_eq!(above(b"a\xff\xff"), b"b");
        assert_eq!(above(b"\xff\xff"), b"");
    }

    #[test]
    fn memory_is_divided_without_rest() {
        for cap_bytes in [64 << 20, 96 << 20, 512 << 20, 16 << 30] {
            let memory = Memory { cap_bytes };
            assert_eq!(memory.write_buffers_bytes() + memory.cache_bytes(), memory.managed_bytes());
            assert!(memory.write_buffer_bytes() <= 64 << 20 && memory.managed_bytes() < cap_bytes);
        }
    }

    #[test]
    fn names_are_different() {
        let all = Engine::all();
        let names: std::collections::BTreeSet<_> = all.iter().map(|engine| engine.name.clone()).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.iter().all(|name| Engine::find(name).is_some()));
    }
}
