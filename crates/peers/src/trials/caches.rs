//! What caches spare: a store's own, which keeps answers and pages, beside libraries that keep as many bytes
//! of rows or of pages.
//!
//! A trace of gets and listings is the same for all. The store's reads are its device's. A library that keeps
//! pages reads those of a table in which items lie in the order of their numbers; one that keeps rows reads a
//! page for each row that it lacks, and all pages of a listing, for which rows are of no use.

mod libraries;
mod trace;

use super::contest::{Contest, Progress};
use super::{Common, Figures};
use crate::engine::siltstone::{self, KEYSPACE, Siltstone, Variant};
use crate::engine::{Memory, Setting, Store};
use crate::failure::{Failure, Result};
use crate::load;
use ::siltstone::Db;
use libraries::{Kept, Library};
use serde::{Deserialize, Serialize};
use siltstone_lab::kit::generate::items::Items;
use siltstone_lab::kit::sizes;
use trace::{Step, Trace, Traffic};

const KEY_BYTES: u64 = 16;
/// Items that share a prefix, and that a listing returns.
const GROUP: u64 = 128;
const SEED: u64 = 1;
const PAGE_BYTES: u64 = 4096;
/// Items of a batch of the fill.
const BATCH: u64 = 100;
/// Memory of the process that fills the store, of which it manages a part.
const FILL_MEMORY: Memory = Memory { cap_bytes: 512 << 20 };
/// Operations after which progress is told.
const TOLD_AT_ONCE: u64 = 10_000;

/// The trial of caches.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
pub struct Caches {
    #[command(flatten)]
    pub common: Common,
    /// Items
    #[arg(long, value_name = "COUNT", default_value = "2M", value_parser = sizes::parse_positive)]
    items: u64,
    /// Length of values; keys have 16 bytes
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = sizes::parse_positive)]
    value_bytes: u64,
    /// Memory of each cache
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = sizes::parse_size)]
    cache: u64,
    /// Operations of each trace; as many go before, uncounted
    #[arg(long, value_name = "COUNT", default_value = "2M", value_parser = sizes::parse_positive)]
    operations: u64,
    /// Exponent of the popularity of items
    #[arg(long, default_value = "0.99")]
    skew: f64,
}

/// What carries out steps of a trace.
trait Serving {
    /// Gets an item.
    fn get(&mut self, item: u64) -> Result<()>;
    /// Lists a group.
    fn list(&mut self, group: u64) -> Result<()>;
    /// Pages read so far.
    fn reads(&self) -> u64;
    /// Bytes that the cache holds.
    fn cached_bytes(&self) -> u64;
}

impl Caches {
    /// The store, and each library with rows and with pages.
    pub fn contestants(&self) -> Vec<String> {
        let libraries = Library::NAMES.iter();
        let both = libraries.flat_map(|name| ["rows", "pages"].map(|kept| format!("{name}-{kept}")));
        std::iter::once("siltstone".to_owned()).chain(both).collect()
    }

    fn look(&self) -> Result<Items> {
        load::items(KEY_BYTES, self.value_bytes, GROUP, SEED, self.items)
    }

    /// Runs one contestant on all traces.
    pub fn run(&self, contest: &Contest<'_>) -> Result<Figures> {
        if contest.name == "siltstone" {
            let variant = Variant::default_preset().ok_or_else(|| Failure::new("there is no preset"))?;
            let budget_bytes = self.fill(contest, &variant)?;
            return self.replay(contest, || self.open(contest, &variant, budget_bytes));
        }
        let (name, kept) = contest.name.rsplit_once('-').unwrap_or((contest.name, ""));
        let kept = if kept == "rows" { Kept::Rows } else { Kept::Pages };
        let item_bytes = KEY_BYTES + self.value_bytes;
        self.replay(contest, || {
            let library = Library::new(name, self.cache, kept, item_bytes);
            library.ok_or_else(|| Failure::new(format_args!("there is no library {name}")))
        })
    }

    /// Replays every trace on a fresh cache.
    fn replay<S: Serving>(&self, contest: &Contest<'_>, open: impl Fn() -> Result<S>) -> Result<Figures> {
        let mut figures = Figures::default();
        let progress = &Progress::new("operations", 2 * self.operations * Traffic::ALL.len() as u64);
        for traffic in Traffic::ALL {
            let mut serving = open()?;
            let mut trace = Trace::new(traffic, self.items, GROUP, self.skew, self.operations);
            let mut run = |serving: &mut S| -> Result<()> {
                for number in 1..=self.operations {
                    match trace.step() {
                        Step::Get(item) => serving.get(item)?,
                        Step::List(group) => serving.list(group)?,
                    }
                    if number.is_multiple_of(TOLD_AT_ONCE) {
                        progress.add(TOLD_AT_ONCE);
                    }
                }
                Ok(())
            };
            run(&mut serving)?;
            let (before, watch) = (serving.reads(), contest.watch());
            run(&mut serving)?;
            let (reads, seen) = (serving.reads() - before, contest.seen(&watch));
            let each = |amount: f64| amount / self.operations as f64;
            figures.add(
                &format!("{}: reads", traffic.name()),
                each(reads as f64),
                format!("{:.3}", each(reads as f64)),
            );
            let us = each(seen.counters.cpu_seconds * 1e6);
            figures.add(&format!("{}: CPU us", traffic.name()), us, format!("{us:.2}"));
            if traffic == Traffic::Skewed {
                figures.bytes("in the cache", serving.cached_bytes());
            }
        }
        contest.add_memory(&mut figures);
        Ok(figures)
    }

    /// Fills the store, and returns the budget with which its caches have the memory that they are to have.
    fn fill(&self, contest: &Contest<'_>, variant: &Variant) -> Result<u64> {
        let items = self.look()?;
        let (dir, user_bytes) = (contest.dir, self.items * (KEY_BYTES + self.value_bytes));
        let setting = Setting { dir, memory: FILL_MEMORY, user_bytes, only_reads: false };
        let store = siltstone::open(variant, setting)?;
        let mut batch = vec![(Vec::new(), Vec::new()); BATCH as usize];
        for first in (0..self.items).step_by(BATCH as usize) {
            batch.truncate((self.items - first) as usize);
            for (item, (key, value)) in (first..).zip(&mut batch) {
                items.key(item, key);
                items.value(item, 0, value);
            }
            store.write(&batch)?;
        }
        store.settle()?;
        store.close()?;
        // Filters, indexes and what is kept free come before the caches: once with too much, to see what they
        // take.
        let generous = self.cache * 2 + FILL_MEMORY.managed_bytes();
        let mut serving = self.open(contest, variant, generous)?;
        let mut trace = Trace::new(Traffic::Skewed, self.items, GROUP, self.skew, self.operations);
        for _ in 0..self.operations / 10 {
            if let Step::Get(item) = trace.step() {
                serving.get(item)?;
            }
        }
        let memory = serving.store.db.stats().memory;
        // A twelfth is kept free, and as much again of a small budget.
        let needed = memory.filter + memory.index + self.cache;
        Ok(needed + needed / 5)
    }

    fn open(&self, contest: &Contest<'_>, variant: &Variant, budget_bytes: u64) -> Result<Reading> {
        let db = Db::open_read_only(contest.dir, variant.options(budget_bytes))?;
        let keyspace = db.get_keyspace(KEYSPACE).ok_or_else(|| Failure::new("the store has no items"))?;
        let (key, value, scratch) = Default::default();
        Ok(Reading { store: Siltstone { db, keyspace }, items: self.look()?, key, value, scratch })
    }
}

/// A store that is only read.
struct Reading {
    store: Siltstone,
    items: Items,
    key: Vec<u8>,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

impl Serving for Reading {
    fn get(&mut self, item: u64) -> Result<()> {
        self.items.key(item, &mut self.key);
        let is_there = self.store.get(&self.key, &mut self.value)?;
        if is_there && self.items.is_value_of(item, &self.value, &mut self.scratch) {
            return Ok(());
        }
        Err(Failure::new(format_args!("item {item} has another value, or none")))
    }

    fn list(&mut self, group: u64) -> Result<()> {
        self.key.clear();
        self.items.prefix(group, &mut self.key);
        let mut count = 0;
        self.store.scan(&self.key, &mut |_, _| count += 1)?;
        if count == GROUP { Ok(()) } else { Err(Failure::new(format_args!("a group of {count}"))) }
    }

    fn reads(&self) -> u64 {
        self.store.device_reads().unwrap_or(0)
    }

    fn cached_bytes(&self) -> u64 {
        self.store.db.stats().memory.cache
    }
}
