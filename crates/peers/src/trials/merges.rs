//! Increments of counters: blind, by merge operators, and by reading and writing.
//!
//! RocksDB has no read-modify-write of its own outside of transactions; several threads share locks for it
//! here, as its users would. All counters are summed up at the end.

use super::contest::{Contest, Progress};
use super::{Common, Figures};
use crate::engine::Setting;
use crate::engine::rocksdb::{self, counters::Counters};
use crate::engine::siltstone::Variant;
use crate::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use siltstone::{Db, Keyspace, KeyspaceOptions};
use siltstone_lab::kit::generate::mix;
use siltstone_lab::kit::sizes;
use std::sync::{Mutex, PoisonError};

/// Locks that readers and writers of RocksDB share.
const LOCKS: u64 = 1024;
/// A thread says after so many increments that it has made them.
const SAID_AT_ONCE: u64 = 50_000;

/// The trial of merges.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
pub struct Merges {
    #[command(flatten)]
    pub common: Common,
    /// Increments
    #[arg(long, value_name = "COUNT", default_value = "10M", value_parser = sizes::parse_positive)]
    increments: u64,
    /// Counters
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = sizes::parse_positive)]
    counters: u64,
    /// Threads, each of them by itself, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    threads: Vec<u64>,
}

/// A store of counters of 64 bits.
trait Counting: Sync {
    /// Adds one without reading.
    fn add(&self, key: &[u8]) -> Result<()>;
    /// Reads a counter and writes one more.
    fn update(&self, counter: u64, key: &[u8]) -> Result<()>;
    /// The counter, if there is one.
    fn get(&self, key: &[u8]) -> Result<Option<u64>>;
    /// Ends background work.
    fn settle(&self) -> Result<()>;
}

const ONE: [u8; 8] = 1u64.to_le_bytes();

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl Counting for (Db, Keyspace) {
    fn add(&self, key: &[u8]) -> Result<()> {
        Ok(self.1.merge(key, ONE)?)
    }

    fn update(&self, _: u64, key: &[u8]) -> Result<()> {
        self.1.update(key, |old| Some((old.map_or(0, number) + 1).to_le_bytes().to_vec()))?;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.1.get(key)?.map(|value| number(&value)))
    }

    fn settle(&self) -> Result<()> {
        self.0.flush()?;
        Ok(self.0.wait_until_idle()?)
    }
}

struct Rocks {
    counters: Counters,
    locks: Vec<Mutex<()>>,
}

impl Counting for Rocks {
    fn add(&self, key: &[u8]) -> Result<()> {
        self.counters.add(key, 1)
    }

    fn update(&self, counter: u64, key: &[u8]) -> Result<()> {
        let lock = self.locks.get((counter % LOCKS) as usize);
        let _held = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        let now = self.get(key)?.unwrap_or(0) + 1;
        self.counters.store().write(&[(key.to_vec(), now.to_le_bytes().to_vec())])
    }

    fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        let mut value = Vec::new();
        Ok(self.counters.store().get(key, &mut value)?.then(|| number(&value)))
    }

    fn settle(&self) -> Result<()> {
        self.counters.store().settle()
    }
}

impl Merges {
    /// Two engines in two ways, with each number of threads.
    pub fn contestants(&self) -> Vec<String> {
        let mut names = Vec::new();
        for engine in ["siltstone", "rocksdb"] {
            for way in ["merge", "update"] {
                names.extend(self.threads.iter().map(|threads| format!("{engine}-{way}-{threads}")));
            }
        }
        names
    }

    /// Runs one contestant.
    pub fn run(&self, contest: &Contest<'_>) -> Result<Figures> {
        let mut parts = contest.name.split('-');
        let (engine, way) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let threads = parts.next().and_then(|threads| threads.parse().ok()).unwrap_or(1);
        let Contest { dir, memory, .. } = *contest;
        let setting = Setting { dir, memory, user_bytes: self.increments * 24, only_reads: false };
        if engine == "siltstone" {
            let variant = Variant::default_preset().ok_or_else(|| Failure::new("there is no preset"))?;
            let db = Db::open(dir, variant.options(memory.managed_bytes()))?;
            let merge_operator = Some("add".to_owned());
            let keyspace = db.keyspace("counters", KeyspaceOptions { merge_operator, ..variant.points() })?;
            self.count(contest, &(db, keyspace), way == "merge", threads)
        } else {
            let counters = Counters::open(rocksdb::Variant::ALL[0], setting)?;
            let locks = (0..LOCKS).map(|_| Mutex::new(())).collect();
            self.count(contest, &Rocks { counters, locks }, way == "merge", threads)
        }
    }

    fn count(
        &self,
        contest: &Contest<'_>,
        store: &dyn Counting,
        blind: bool,
        threads: u64,
    ) -> Result<Figures> {
        let watch = contest.watch();
        let share = |thread: u64| self.increments * thread / threads;
        let progress = &Progress::new("increments", self.increments);
        std::thread::scope(|scope| {
            let work = |thread: u64| -> Result<()> {
                for at in share(thread)..share(thread + 1) {
                    let counter = mix(at) % self.counters;
                    let key = key(counter);
                    if blind {
                        store.add(&key)?
                    } else {
                        store.update(counter, &key)?
                    }
                    if at % SAID_AT_ONCE == SAID_AT_ONCE - 1 {
                        progress.add(SAID_AT_ONCE);
                    }
                }
                Ok(())
            };
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            running.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::new("a thread of the trial has panicked")))
            })
        })?;
        let given = contest.seen(&watch);
        store.settle()?;
        let seen = contest.seen(&watch);
        let mut figures = Figures::default();
        figures.rate("increments/s", self.increments as f64 / given.seconds);
        figures.rate("until idle", self.increments as f64 / seen.seconds);
        figures.ratio("processor us each", seen.counters.cpu_seconds * 1e6 / self.increments as f64);
        let user_bytes = self.increments * 24;
        figures.ratio("written per byte", seen.counters.write_bytes as f64 / user_bytes as f64);
        contest.add_memory(&mut figures);
        let watch = contest.watch();
        let mut sum = 0;
        for counter in 0..self.counters {
            sum += store.get(&key(counter))?.unwrap_or(0);
        }
        figures.rate("gets/s afterwards", self.counters as f64 / contest.seen(&watch).seconds);
        if sum != self.increments {
            return Err(Failure::new(format_args!("the counters' sum is {sum}, not {}", self.increments)));
        }
        Ok(figures)
    }
}

fn key(counter: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(counter).to_be_bytes());
    key[8..].copy_from_slice(&counter.to_be_bytes());
    key
}
