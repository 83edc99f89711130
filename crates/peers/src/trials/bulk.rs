//! Bulk builds beside batches, and beside RocksDB's table files, of the same items from the same files.
//!
//! Three files of items are made beforehand, so that nobody pays for making them: in random order, in the
//! order of keys, which is RocksDB's, and in Siltstone's, which is that of digests. RocksDB takes table files
//! only in the order of keys, so that who gives it items in no order has to sort them first, within the same
//! memory (`sort.rs`).

use super::contest::Contest;
use super::{Common, Figures};
use crate::engine::rocksdb::{self, files::FileLoad};
use crate::engine::siltstone::{KEYSPACE, Variant};
use crate::engine::{Setting, Store};
use crate::failure::{Failure, Result};
use crate::kernel;
use crate::load;
use serde::{Deserialize, Serialize};
use siltstone::{Db, IngestOptions, Options};
use siltstone_lab::kit::generate::permutation::Permutation;
use siltstone_lab::kit::sizes;
use std::path::{Path, PathBuf};

mod records;
mod sort;

use records::{Reader, Writer};

pub const CONTESTANTS: [&str; 7] = [
    "reading the items",
    "siltstone-bulk",
    "siltstone-bulk-in-order",
    "siltstone-batches",
    "rocksdb-files-sorted-here",
    "rocksdb-files-in-order",
    "rocksdb-batches",
];

/// An empty store in whose order the items are.
const ORDERED_STORE: &str = "empty-store";
/// Items that are asked for in the end.
const ASKED: u64 = 10_000;

/// The trial of bulk builds.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
pub struct Bulk {
    #[command(flatten)]
    pub common: Common,
    /// Items
    #[arg(long, value_name = "COUNT", default_value = "50M", value_parser = sizes::parse_positive)]
    items: u64,
    /// Length of keys
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = sizes::parse_positive)]
    key_bytes: u64,
    /// Length of values
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = sizes::parse_positive)]
    value_bytes: u64,
    /// Items that share an 8-byte prefix
    #[arg(long, value_name = "COUNT", default_value = "128", value_parser = sizes::parse_positive)]
    group: u64,
    /// Items of a batch
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = sizes::parse_positive)]
    batch: u64,
    /// Keep the files of items for the next run of as many
    #[arg(long)]
    keep_items: bool,
}

/// In which order a file has the items.
#[derive(Clone, Copy)]
enum Order {
    Random,
    Keys,
    Digests,
}

impl Bulk {
    fn file(&self, order: Order) -> PathBuf {
        self.common.dir.join(match order {
            Order::Random => "random.items",
            Order::Keys => "keys.items",
            Order::Digests => "digests.items",
        })
    }

    fn reader(&self, order: Order) -> Result<Reader> {
        Reader::open(&self.file(order), (self.key_bytes as usize, self.value_bytes as usize))
    }

    /// Whether what contestants find is to stay.
    pub fn keeps(&self) -> bool {
        self.keep_items
    }

    /// Makes the files, where they are not there. This process has no cap.
    pub fn prepare(&self) -> Result<()> {
        let is_whole = |order| {
            let bytes = std::fs::metadata(self.file(order)).map_or(0, |file| file.len());
            bytes == self.items * (self.key_bytes + self.value_bytes)
        };
        if [Order::Random, Order::Keys, Order::Digests].into_iter().all(is_whole) {
            return Ok(());
        }
        let items = load::items(self.key_bytes, self.value_bytes, self.group, 1, self.items)?;
        let order = Permutation::new(self.items, 1);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut file = Writer::create(&self.file(Order::Random))?;
        for position in 0..self.items {
            let item = order.at(position);
            items.key(item, &mut key);
            items.value(item, 0, &mut value);
            file.add(&key, &value)?;
        }
        file.finish()?;
        let much = 4 << 30;
        let mut file = Writer::create(&self.file(Order::Keys))?;
        sort::sorted(self.reader(Order::Random)?, &self.common.dir, much, &mut |k, v| file.add(k, v))?;
        file.finish()?;
        let dir = self.common.dir.join(ORDERED_STORE);
        let _ = std::fs::remove_dir_all(&dir);
        let db = Db::open(&dir, Options { memory_budget_bytes: much as u64, ..Options::default() })?;
        let keyspace = db.keyspace(KEYSPACE, preset()?.keyspace())?;
        let mut reader = self.reader(Order::Keys)?;
        keyspace.ingest_with(&IngestOptions::default(), |ingest| {
            while let Some((key, value)) = reader.next()? {
                ingest.put(key, value)?;
            }
            Ok::<_, Failure>(())
        })?;
        let mut file = Writer::create(&self.file(Order::Digests))?;
        for item in keyspace.iter()? {
            let (key, value) = item?;
            file.add(&key, &value)?;
        }
        file.finish()?;
        drop(keyspace);
        // The order is that of this store alone, which is kept without the items.
        db.drop_keyspace(KEYSPACE)?;
        db.wait_until_idle()?;
        db.close()?;
        kernel::drop_cached(&self.common.dir)
    }

    /// Runs one contestant.
    pub fn run(&self, contest: &Contest<'_>) -> Result<Figures> {
        let user_bytes = self.items * (self.key_bytes + self.value_bytes);
        let Contest { name, dir, memory, .. } = *contest;
        if name == "siltstone-bulk-in-order" {
            let from = self.common.dir.join(ORDERED_STORE);
            for entry in std::fs::read_dir(&from).map_err(|e| Failure::at(&from, e))? {
                let entry = entry?;
                std::fs::copy(entry.path(), dir.join(entry.file_name()))?;
            }
        }
        let setting = Setting { dir, memory, user_bytes, only_reads: false };
        let watch = contest.watch();
        let store: Option<Box<dyn Store>> = match name {
            "siltstone-bulk" => Some(self.ingest(setting, Order::Random)?),
            "siltstone-bulk-in-order" => Some(self.ingest(setting, Order::Digests)?),
            "siltstone-batches" => Some(self.put(crate::engine::siltstone::open(&preset()?, setting)?)?),
            "rocksdb-batches" => Some(self.put(rocksdb::open(rocksdb::Variant::ALL[0], setting)?)?),
            "rocksdb-files-sorted-here" => Some(self.take_in(setting, Order::Random)?),
            "rocksdb-files-in-order" => Some(self.take_in(setting, Order::Keys)?),
            _ => {
                let mut reader = self.reader(Order::Random)?;
                while reader.next()?.is_some() {}
                None
            }
        };
        let given = contest.seen(&watch);
        if let Some(store) = &store {
            store.settle()?;
        }
        let seen = contest.seen(&watch);
        let mut figures = Figures::default();
        figures.rate("items/s", self.items as f64 / given.seconds);
        figures.rate("items/s until idle", self.items as f64 / seen.seconds);
        figures.seconds("ready after", given.seconds);
        figures.ratio("written per byte", seen.counters.write_bytes as f64 / user_bytes as f64);
        figures.ratio("of it cancelled", seen.counters.cancelled_write_bytes as f64 / user_bytes as f64);
        figures.ratio("processor us an item", seen.counters.cpu_seconds * 1e6 / self.items as f64);
        contest.add_memory(&mut figures);
        if let Some(store) = store {
            figures.ratio("space per byte", kernel::space(dir)? as f64 / user_bytes as f64);
            self.check(store.as_ref())?;
            store.close()?;
        }
        Ok(figures)
    }

    fn ingest(&self, setting: Setting<'_>, order: Order) -> Result<Box<dyn Store>> {
        let store = crate::engine::siltstone::open_store(&preset()?, setting)?;
        let mut reader = self.reader(order)?;
        store.keyspace.ingest_with(&IngestOptions::default(), |ingest| {
            while let Some((key, value)) = reader.next()? {
                ingest.put(key, value)?;
            }
            Ok::<_, Failure>(())
        })?;
        Ok(Box::new(store))
    }

    fn put(&self, store: Box<dyn Store>) -> Result<Box<dyn Store>> {
        let mut reader = self.reader(Order::Random)?;
        let mut batch = vec![(Vec::new(), Vec::new()); self.batch as usize];
        loop {
            let mut count = 0;
            for (key, value) in &mut batch {
                let Some((k, v)) = reader.next()? else { break };
                key.clear();
                key.extend_from_slice(k);
                value.clear();
                value.extend_from_slice(v);
                count += 1;
            }
            match batch.get(..count) {
                Some(items) if count > 0 => store.write(items)?,
                _ => return Ok(store),
            }
        }
    }

    /// Lets RocksDB take in files of the items, which are sorted first where they are not.
    fn take_in(&self, setting: Setting<'_>, order: Order) -> Result<Box<dyn Store>> {
        let mut load = FileLoad::open(rocksdb::Variant::ALL[0], setting)?;
        let mut reader = self.reader(order)?;
        match order {
            Order::Random => {
                // As much as Siltstone may take; a half of the cap, like all.
                let memory_bytes = setting.memory.managed_bytes() as usize;
                sort::sorted(reader, &self.common.dir, memory_bytes, &mut |k, v| load.add(k, v))?;
            }
            Order::Keys | Order::Digests => {
                while let Some((key, value)) = reader.next()? {
                    load.add(key, value)?;
                }
            }
        }
        load.finish()
    }

    /// Asks for some of the items.
    fn check(&self, store: &dyn Store) -> Result<()> {
        let mut reader = self.reader(Order::Random)?;
        let every = (self.items / ASKED).max(1);
        let (mut at, mut found) = (0u64, Vec::new());
        while let Some((key, value)) = reader.next()? {
            if at.is_multiple_of(every) && (!store.get(key, &mut found)? || found != value) {
                return Err(Failure::new(format_args!("item {at} was not found as it was given")));
            }
            at += 1;
        }
        Ok(())
    }
}

fn preset() -> Result<Variant> {
    Variant::default_preset().ok_or_else(|| Failure::new("there is no preset"))
}

/// Where a file of sorted items is put for a while.
fn run_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("sorted-{number}.items"))
}
