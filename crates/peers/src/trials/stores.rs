//! Many stores in one process that share one budget of memory and one pool of threads: filled, read, closed
//! and opened again; and the same items in as many keyspaces of one store.

use super::contest::Contest;
use super::{Common, Figures};
use crate::engine::rocksdb::{self, many::Sharing};
use crate::engine::siltstone::{self as adapter, KEYSPACE, Variant};
use crate::engine::{Memory, Setting, Store};
use crate::failure::{Failure, Result};
use crate::kernel;
use crate::load;
use serde::{Deserialize, Serialize};
use siltstone::{Db, Options, ResourceOptions, Resources};
use siltstone_lab::kit::generate::items::Items;
use siltstone_lab::kit::generate::mix;
use siltstone_lab::kit::sizes;
use std::path::{Path, PathBuf};

pub const CONTESTANTS: [&str; 3] = ["siltstone-stores", "siltstone-keyspaces", "rocksdb-stores"];

/// Items of a batch.
const BATCH: u64 = 100;
/// Open files that a process with so many stores may want.
const OPEN_FILES_WANTED: u64 = 65_536;

/// The trial of many stores.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
pub struct Stores {
    #[command(flatten)]
    pub common: Common,
    /// Stores
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = sizes::parse_positive)]
    stores: u64,
    /// Items of each, of 16 + 100 bytes
    #[arg(long, value_name = "COUNT", default_value = "5K", value_parser = sizes::parse_positive)]
    items: u64,
    /// Gets of random items of random stores
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = sizes::parse_positive)]
    gets: u64,
    /// Memory that all stores share
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_size, default_value = "512M")]
    shared_memory: u64,
}

/// All stores of one contestant.
trait Many {
    /// Opens or creates them.
    fn open(&mut self, dir: &Path, count: u64) -> Result<()>;
    /// One of them.
    fn store(&self, number: u64) -> Option<&dyn Store>;
    /// Ends all background work.
    fn settle(&self) -> Result<()>;
    /// Closes all.
    fn close(&mut self) -> Result<()>;
}

fn store_dir(dir: &Path, number: u64) -> Result<PathBuf> {
    let dir = dir.join(format!("{number:04}"));
    std::fs::create_dir_all(&dir).map_err(|e| Failure::at(&dir, e))?;
    Ok(dir)
}

fn preset() -> Result<Variant> {
    Variant::default_preset().ok_or_else(|| Failure::new("there is no preset"))
}

/// Siltstone's, with shared resources.
struct Sharers {
    resources: Resources,
    stores: Vec<adapter::Siltstone>,
}

impl Many for Sharers {
    fn open(&mut self, dir: &Path, count: u64) -> Result<()> {
        let variant = preset()?;
        for number in 0..count {
            let resources = Some(self.resources.clone());
            let memory_bytes = self.resources.options().memory_budget_bytes;
            let options = Options { resources, ..variant.options(memory_bytes) };
            let db = Db::open(store_dir(dir, number)?, options)?;
            let keyspace = db.keyspace(KEYSPACE, variant.keyspace())?;
            self.stores.push(adapter::Siltstone { db, keyspace });
        }
        Ok(())
    }

    fn store(&self, number: u64) -> Option<&dyn Store> {
        self.stores.get(number as usize).map(|store| store as &dyn Store)
    }

    fn settle(&self) -> Result<()> {
        self.stores.iter().try_for_each(Store::settle)
    }

    fn close(&mut self) -> Result<()> {
        self.stores.drain(..).try_for_each(|store| Box::new(store).close())
    }
}

/// As many keyspaces of one store.
struct Keyspaces {
    memory_bytes: u64,
    db: Option<Db>,
    keyspaces: Vec<adapter::Siltstone>,
}

impl Many for Keyspaces {
    fn open(&mut self, dir: &Path, count: u64) -> Result<()> {
        let variant = preset()?;
        let db = Db::open(dir, variant.options(self.memory_bytes))?;
        for number in 0..count {
            let keyspace = db.keyspace(&format!("{number:04}"), variant.keyspace())?;
            self.keyspaces.push(adapter::Siltstone { db: db.clone(), keyspace });
        }
        self.db = Some(db);
        Ok(())
    }

    fn store(&self, number: u64) -> Option<&dyn Store> {
        self.keyspaces.get(number as usize).map(|store| store as &dyn Store)
    }

    fn settle(&self) -> Result<()> {
        self.keyspaces.first().map_or(Ok(()), Store::settle)
    }

    fn close(&mut self) -> Result<()> {
        self.keyspaces.clear();
        Ok(self.db.take().map_or(Ok(()), |db| db.close())?)
    }
}

/// RocksDB's, with a shared cache and shared threads.
struct Databases {
    databases: Vec<rocksdb::RocksDb>,
    sharing: Sharing,
    memory: Memory,
}

impl Many for Databases {
    fn open(&mut self, dir: &Path, count: u64) -> Result<()> {
        for number in 0..count {
            let dir = &store_dir(dir, number)?;
            let setting = Setting { dir, memory: self.memory, user_bytes: 0, only_reads: false };
            self.databases.push(self.sharing.open(rocksdb::Variant::ALL[0], setting)?);
        }
        Ok(())
    }

    fn store(&self, number: u64) -> Option<&dyn Store> {
        self.databases.get(number as usize).map(|store| store as &dyn Store)
    }

    fn settle(&self) -> Result<()> {
        Sharing::settle(&self.databases)
    }

    fn close(&mut self) -> Result<()> {
        self.databases.drain(..).try_for_each(|database| Box::new(database).close())
    }
}

impl Stores {
    /// Runs one contestant.
    pub fn run(&self, contest: &Contest<'_>) -> Result<Figures> {
        allow_files();
        let memory_budget_bytes = self.shared_memory;
        let mut many: Box<dyn Many> = match contest.name {
            "siltstone-stores" => {
                let options = ResourceOptions { memory_budget_bytes, ..ResourceOptions::default() };
                Box::new(Sharers { resources: Resources::new(options)?, stores: Vec::new() })
            }
            "siltstone-keyspaces" => {
                Box::new(Keyspaces { memory_bytes: memory_budget_bytes, db: None, keyspaces: Vec::new() })
            }
            _ => {
                let sharing = Sharing::new(memory_budget_bytes, self.stores as usize)?;
                Box::new(Databases { databases: Vec::new(), sharing, memory: contest.memory })
            }
        };
        self.measure(contest, many.as_mut())
    }

    fn measure(&self, contest: &Contest<'_>, many: &mut dyn Many) -> Result<Figures> {
        let mut figures = Figures::default();
        let items = load::items(16, 100, 1, 1, self.items)?;
        let watch = contest.watch();
        many.open(contest.dir, self.stores)?;
        figures.seconds("created in", contest.seen(&watch).seconds);
        figures.bytes("then resident", resident());
        let watch = contest.watch();
        self.fill(&items, many)?;
        let given = contest.seen(&watch).seconds;
        figures.rate("puts/s", (self.stores * self.items) as f64 / given);
        figures.bytes("while filled", resident());
        figures.count("threads", count_of("/proc/self/task"));
        figures.count("files", count_of("/proc/self/fd"));
        let settling = contest.watch();
        many.settle()?;
        figures.seconds("settled in", contest.seen(&settling).seconds);
        let seen = contest.seen(&watch);
        let user_bytes = self.stores * self.items * 116;
        figures.ratio("written per byte", seen.counters.write_bytes as f64 / user_bytes as f64);
        let watch = contest.watch();
        self.read(&items, many)?;
        figures.rate("gets/s", self.gets as f64 / contest.seen(&watch).seconds);
        figures.bytes("while read", resident());
        figures.ratio("space per byte", kernel::space(contest.dir)? as f64 / user_bytes as f64);
        let watch = contest.watch();
        many.close()?;
        figures.seconds("closed in", contest.seen(&watch).seconds);
        kernel::drop_cached(contest.dir)?;
        let watch = contest.watch();
        many.open(contest.dir, self.stores)?;
        figures.seconds("opened in", contest.seen(&watch).seconds);
        let watch = contest.watch();
        self.read(&items, many)?;
        figures.rate("gets/s then", self.gets as f64 / contest.seen(&watch).seconds);
        figures.bytes("resident then", resident());
        figures.count("files then", count_of("/proc/self/fd"));
        contest.add_memory(&mut figures);
        many.close()?;
        Ok(figures)
    }

    /// Writes a batch into each store, then the next one.
    fn fill(&self, items: &Items, many: &dyn Many) -> Result<()> {
        let mut batch = vec![(Vec::new(), Vec::new()); BATCH as usize];
        for first in (0..self.items).step_by(BATCH as usize) {
            let count = BATCH.min(self.items - first);
            for number in 0..self.stores {
                for ((key, value), item) in batch.iter_mut().zip(first..) {
                    items.key(item, key);
                    items.value(item, number, value);
                }
                let Some(store) = many.store(number) else { continue };
                store.write(batch.get(..count as usize).unwrap_or(&[]))?;
            }
        }
        Ok(())
    }

    fn read(&self, items: &Items, many: &dyn Many) -> Result<()> {
        let (mut key, mut value, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for get in 0..self.gets {
            let random = mix(get ^ 0x9e37_79b9_7f4a_7c15);
            let (number, item) = (random % self.stores, (random >> 32) % self.items);
            items.key(item, &mut key);
            let found = many.store(number).map(|store| store.get(&key, &mut value)).transpose()?;
            items.value(item, number, &mut expected);
            if found != Some(true) || value != expected {
                return Err(Failure::new(format_args!("item {item} of store {number} is not what was put")));
            }
        }
        Ok(())
    }
}

/// Bytes of memory that are resident now.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Entries of a directory that the kernel shows.
fn count_of(dir: &str) -> u64 {
    std::fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}

/// Lets this process open as many files as the system allows, up to what a thousand stores want.
fn allow_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(OPEN_FILES_WANTED).min(OPEN_FILES_WANTED);
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        // Where it is refused, opening says so.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
