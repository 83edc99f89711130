//! Closed-loop clients: pick a call, prepare it, time it, check it, again.
//!
//! Items are chosen by *position* in the order in which they were written. Position 0 is the most popular (or
//! the last one, where the latest items are preferred); since the order is random, popular items lie
//! scattered over the key space. Inserts take the next position; clients publish the positions they are about
//! to write, so that nobody reads an item that is still on its way.

use super::filled::Filled;
use super::workload::{Mix, Operation, Workload};
use crate::kit::generate::items::Items;
use crate::kit::generate::permutation::Permutation;
use crate::kit::generate::zipf::Zipf;
use crate::program::failure::{Failure, Result, fail};
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone::{Batch, Db, Keyspace, WriteOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Writes that took longer than this are counted.
const LONG_WRITE: Duration = Duration::from_millis(50);
/// Calls a client takes from the common allowance at once.
const CALLS_PER_GRANT: u64 = 16;
/// Latencies a client keeps until it adds them to the histograms of all: histograms of its own would be
/// megabytes.
const KEPT_LATENCIES: usize = 1024;
/// What counters are counted up by.
const ONE: [u8; 8] = 1u64.to_le_bytes();
/// A client that is inserting nothing.
const NOTHING: u64 = u64::MAX;

/// What to run.
pub struct Load {
    /// The workload by name.
    pub workload: Workload,
    /// Its mix of calls.
    pub mix: Mix,
    /// Exponent of the popularity's Zipf distribution.
    pub skew: f64,
    /// Number of clients.
    pub threads: usize,
    /// Items per call.
    pub batch: usize,
    /// When to stop.
    pub deadline: Option<Duration>,
    /// Operations after which to stop.
    pub operations: u64,
}

/// What the clients of one run share.
pub struct Run<'a> {
    pub(super) db: &'a Db,
    pub(super) keyspace: &'a Keyspace,
    pub(super) items: Items,
    /// What to run.
    pub load: &'a Load,
    seed: u64,
    /// Number of this run in the process: a later one chooses other items, which no earlier one has brought
    /// into a cache.
    number: u64,
    pub(super) group: u64,
    value_bytes: u64,
    order: Permutation,
    pub(super) ordered: u64,
    /// Positions below this have been claimed by somebody.
    claimed: AtomicU64,
    /// Per client, the first position it has claimed but not written yet.
    inserting: Vec<AtomicU64>,
    /// Popularity of positions.
    popularity: Zipf,
    pub(super) population: u64,
    granted: AtomicU64,
    /// Tells the clients to stop.
    pub stop: AtomicBool,
    /// Operations done, for progress.
    pub done: AtomicU64,
}

impl<'a> Run<'a> {
    /// A run of `load` on the items of `filled`.
    pub fn new(db: &'a Db, keyspace: &'a Keyspace, items: Items, filled: &Filled, load: &'a Load) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let population = filled.existing.max(1);
        Self {
            db,
            keyspace,
            items,
            load,
            seed: filled.seed,
            number: RUNS.fetch_add(1, Ordering::Relaxed),
            group: filled.group,
            value_bytes: filled.value_bytes,
            order: Permutation::new(filled.items, filled.seed),
            ordered: filled.items,
            claimed: AtomicU64::new(filled.existing),
            inserting: (0..load.threads).map(|_| AtomicU64::new(NOTHING)).collect(),
            popularity: Zipf::new(population, load.skew),
            population,
            granted: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
        }
    }

    /// Positions that exist once the clients have ended.
    pub fn existing(&self) -> u64 {
        self.claimed.load(Ordering::SeqCst)
    }

    /// Notes that all positions up to the allowance are written.
    pub(super) fn claim_all(&self) {
        self.claimed.store(self.load.operations, Ordering::SeqCst);
    }

    /// The item written at `position`.
    pub(super) fn item_at(&self, position: u64) -> u64 {
        if position < self.ordered { self.order.at(position) } else { position }
    }

    /// Positions below this are written: loads what is claimed before what is under way, and claimers publish
    /// before they claim, so that no claim is missed.
    fn visible(&self) -> u64 {
        let claimed = self.claimed.load(Ordering::SeqCst);
        self.inserting.iter().map(|first| first.load(Ordering::SeqCst)).fold(claimed, u64::min)
    }

    /// Takes operations from the common allowance.
    fn grant(&self, operations: u64) -> u64 {
        let before = self.granted.fetch_add(operations, Ordering::Relaxed);
        self.load.operations.saturating_sub(before).min(operations)
    }
}

/// What the clients of one run saw.
#[derive(Default)]
pub struct Outcome {
    /// Latencies of calls in nanoseconds, by [`Operation`].
    pub latencies: Vec<Histogram<u64>>,
    /// Operations, counted in items (scans: in scans).
    pub operations: u64,
    /// Calls.
    pub calls: u64,
    /// Items that scans returned.
    pub scanned_items: u64,
    /// Writes that took longer than 50 ms.
    pub long_writes: u64,
    /// Items that should have been found and were not.
    pub missing: u64,
    /// Keys that should not have been found and were.
    pub unexpected: u64,
    /// Values, keys or groups that are not what was written.
    pub wrong: u64,
    /// Time from the start until the last client ended.
    pub seconds: f64,
}

impl Outcome {
    /// An outcome that nothing has been added to.
    pub fn new() -> Result<Self> {
        // Three digits; grows with the latencies it meets, so that kinds that do not occur cost no memory.
        let histogram =
            || Histogram::new(3).map_err(|e| Failure::Failed(format!("cannot measure latencies: {e}")));
        let latencies = Operation::ALL.iter().map(|_| histogram()).collect::<Result<_>>()?;
        Ok(Self { latencies, ..Self::default() })
    }

    /// Adds what another client saw.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(theirs).map_err(|e| Failure::Failed(format!("cannot merge latencies: {e}")))?;
        }
        self.operations += other.operations;
        self.calls += other.calls;
        self.scanned_items += other.scanned_items;
        self.long_writes += other.long_writes;
        self.missing += other.missing;
        self.unexpected += other.unexpected;
        self.wrong += other.wrong;
        self.seconds = self.seconds.max(other.seconds);
        Ok(())
    }

    /// Fails if a read did not return what was written.
    pub fn check_reads(&self) -> Result<()> {
        if self.missing == 0 && self.unexpected == 0 && self.wrong == 0 {
            return Ok(());
        }
        fail!(
            "reads disagree with what was filled: {} items not found, {} found that were never written, {} wrong\n\
             was the store changed by something else? `siltstone verify` checks it; \
             `siltstone bench fill --overwrite-dir` starts afresh",
            self.missing,
            self.unexpected,
            self.wrong
        );
    }
}

/// One client and its buffers.
pub struct Client<'a> {
    pub(super) run: &'a Run<'a>,
    number: usize,
    pub(super) rng: SmallRng,
    /// What this client saw but for latencies, which go to `all`.
    pub(super) outcome: Outcome,
    all: &'a Mutex<Outcome>,
    recent: Vec<(Operation, u64)>,
    allowance: u64,
    pub(super) chosen: Vec<u64>,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) value: Vec<u8>,
    batch: Batch,
}

impl<'a> Client<'a> {
    /// The `number`-th client of `run`, which adds its latencies to those of `all`.
    pub fn new(run: &'a Run<'a>, number: usize, all: &'a Mutex<Outcome>) -> Self {
        Self {
            run,
            number,
            rng: SmallRng::seed_from_u64(
                run.seed ^ crate::kit::generate::mix(run.number << 32 | (number as u64 + 1)),
            ),
            outcome: Outcome::default(),
            all,
            recent: Vec::with_capacity(KEPT_LATENCIES),
            allowance: 0,
            chosen: Vec::new(),
            keys: vec![Vec::new(); run.load.batch],
            value: Vec::new(),
            batch: Batch::new(),
        }
    }

    /// Sends calls until the allowance, the time or the run ends.
    pub fn work(mut self, started: Instant) -> Result<Outcome> {
        let mix = self.run.load.mix;
        while !self.run.stop.load(Ordering::Relaxed) {
            if self.allowance == 0 {
                self.allowance = self.run.grant(CALLS_PER_GRANT * self.run.load.batch as u64);
                if self.allowance == 0 {
                    break;
                }
            }
            let first = mix.first_percent == 100 || self.rng.random_range(0..100) < mix.first_percent;
            let operation = if first { mix.first } else { mix.second };
            let count =
                if operation.takes_batches() { self.allowance.min(self.run.load.batch as u64) } else { 1 };
            let latency = self.call(operation, count)?;
            if operation.writes() && latency > LONG_WRITE {
                self.outcome.long_writes += 1;
            }
            // An hour is more than any call takes.
            self.recent.push((operation, latency.as_nanos().min(3_600_000_000_000) as u64));
            if self.recent.len() == KEPT_LATENCIES {
                self.hand_in_latencies();
            }
            self.allowance -= count;
            self.outcome.operations += count;
            self.outcome.calls += 1;
            self.run.done.fetch_add(count, Ordering::Relaxed);
        }
        self.outcome.seconds = started.elapsed().as_secs_f64();
        self.hand_in_latencies();
        Ok(self.outcome)
    }

    /// One call, of `count` items where it takes several.
    fn call(&mut self, operation: Operation, count: u64) -> Result<Duration> {
        match operation {
            Operation::Get => self.get(count),
            Operation::GetMissing => self.get_missing(count),
            Operation::Put => self.put(count),
            Operation::Update => self.update(),
            Operation::Insert => self.insert(count),
            Operation::Scan => self.scan(),
            Operation::Merge => self.merge(count),
            Operation::Increment => self.increment(),
            Operation::GetWith => self.get_with(),
            Operation::Contains => self.contains(count),
            Operation::AddExisting => self.add_existing(count),
            Operation::AddNew => self.add_new(count),
            Operation::CompareAndSet => self.compare_and_set(),
            Operation::GetOrInsert => self.get_or_insert(),
            Operation::Transact => self.transact(count),
            Operation::Delete => self.delete(count),
            Operation::ScanReverse => self.scan_keys(true),
            Operation::ScanKeys => self.scan_keys(false),
        }
    }

    fn hand_in_latencies(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for (operation, nanoseconds) in self.recent.drain(..) {
            if let Some(histogram) = all.latencies.get_mut(operation as usize) {
                // It grows as needed.
                let _ = histogram.record(nanoseconds);
            }
        }
    }

    /// Chooses an item that exists.
    pub(super) fn choose(&mut self) -> u64 {
        let rank = self.run.popularity.sample(&mut self.rng);
        let position = if self.run.load.workload.prefers_latest() {
            // Ranks are those of the population at the start; all of it stays in reach.
            self.run.visible().max(self.run.population) - 1 - rank
        } else {
            rank
        };
        self.run.item_at(position)
    }

    pub(super) fn choose_all(&mut self, count: u64) {
        self.chosen.clear();
        for _ in 0..count {
            let item = self.choose();
            self.chosen.push(item);
        }
    }

    fn get(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        for (item, key) in self.chosen.iter().zip(&mut self.keys) {
            self.run.items.key(*item, key);
        }
        let (values, latency) = self.fetch(count)?;
        for (item, value) in self.chosen.iter().zip(&values) {
            match value {
                Some(value) if self.run.items.is_value_of(*item, value, &mut self.value) => {}
                Some(_) => self.outcome.wrong += 1,
                None => self.outcome.missing += 1,
            }
        }
        Ok(latency)
    }

    fn get_missing(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        for (item, key) in self.chosen.iter().zip(&mut self.keys) {
            self.run.items.missing_key(*item, key);
        }
        let (values, latency) = self.fetch(count)?;
        self.outcome.unexpected += values.iter().flatten().count() as u64;
        Ok(latency)
    }

    /// Gets the first `count` keys in one call.
    fn fetch(&mut self, count: u64) -> Result<(Vec<Option<Vec<u8>>>, Duration)> {
        let keys = self.keys.get(..count as usize).unwrap_or(&self.keys);
        let started = Instant::now();
        let values = match keys {
            [key] => vec![self.run.keyspace.get(key)?],
            keys => self.run.keyspace.multi_get(keys)?,
        };
        let latency = started.elapsed();
        // A short answer is as wrong as a wrong one.
        self.outcome.missing += keys.len().saturating_sub(values.len()) as u64;
        Ok((values, latency))
    }

    fn put(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        self.write_chosen()
    }

    fn insert(&mut self, count: u64) -> Result<Duration> {
        self.insert_by(count, Self::write_chosen)
    }

    /// Lets `write` write the next items that do not exist yet.
    pub(super) fn insert_by(
        &mut self,
        count: u64,
        write: impl FnOnce(&mut Self) -> Result<Duration>,
    ) -> Result<Duration> {
        let run = self.run;
        let published = run.inserting.get(self.number);
        if let Some(published) = published {
            published.store(run.claimed.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let first = run.claimed.fetch_add(count, Ordering::SeqCst);
        self.chosen.clear();
        self.chosen.extend((first..first + count).map(|position| run.item_at(position)));
        let latency = write(self)?;
        if let Some(published) = published {
            published.store(NOTHING, Ordering::SeqCst);
        }
        Ok(latency)
    }

    /// Writes the chosen items in one call.
    pub(super) fn write_chosen(&mut self) -> Result<Duration> {
        let run = self.run;
        let Some(key) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        if let [item] = self.chosen.as_slice() {
            run.items.key(*item, key);
            run.items.value(*item, self.rng.random(), &mut self.value);
            let started = Instant::now();
            run.keyspace.put(key, &self.value)?;
            return Ok(started.elapsed());
        }
        self.batch.clear();
        for item in &self.chosen {
            run.items.key(*item, key);
            run.items.value(*item, self.rng.random(), &mut self.value);
            self.batch.put(run.keyspace, &*key, &self.value)?;
        }
        let started = Instant::now();
        run.db.write(&self.batch, &WriteOptions::default())?;
        Ok(started.elapsed())
    }

    fn update(&mut self) -> Result<Duration> {
        let run = self.run;
        let item = self.choose();
        let Some(key) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        run.items.key(item, key);
        let (mut missing, mut wrong) = (false, false);
        let scratch = &mut self.value;
        let started = Instant::now();
        run.keyspace.update(key, |old| {
            (missing, wrong) =
                (old.is_none(), old.is_some_and(|old| !run.items.is_value_of(item, old, scratch)));
            let version = old.and_then(|old| old.get(8..16)?.try_into().ok()).map_or(0, u64::from_le_bytes);
            let mut new = Vec::with_capacity(run.value_bytes as usize);
            run.items.value(item, version.wrapping_add(1), &mut new);
            Some(new)
        })?;
        let latency = started.elapsed();
        self.outcome.missing += u64::from(missing);
        self.outcome.wrong += u64::from(wrong);
        Ok(latency)
    }

    /// Adds one to counters in one call.
    fn merge(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        let run = self.run;
        let Some(key) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        if let [item] = self.chosen.as_slice() {
            run.items.key(*item, key);
            let started = Instant::now();
            run.keyspace.merge(key, ONE)?;
            return Ok(started.elapsed());
        }
        self.batch.clear();
        for item in &self.chosen {
            run.items.key(*item, key);
            self.batch.merge(run.keyspace, &*key, ONE)?;
        }
        let started = Instant::now();
        run.db.write(&self.batch, &WriteOptions::default())?;
        Ok(started.elapsed())
    }

    /// Reads a counter and writes one more.
    fn increment(&mut self) -> Result<Duration> {
        let run = self.run;
        let item = self.choose();
        let Some(key) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        run.items.key(item, key);
        let started = Instant::now();
        run.keyspace.update(key, |old| {
            let old = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_le_bytes);
            Some(old.wrapping_add(1).to_le_bytes().to_vec())
        })?;
        Ok(started.elapsed())
    }

    fn scan(&mut self) -> Result<Duration> {
        let run = self.run;
        let group = self.choose() / run.group;
        let longest = run.load.workload.longest_scan().map(|most| self.rng.random_range(1..=most));
        let Some(prefix) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        prefix.clear();
        run.items.prefix(group, prefix);
        let limit = longest.unwrap_or(u64::MAX);
        let (mut found, mut wrong) = (0u64, 0u64);
        let started = Instant::now();
        for entry in run.keyspace.prefix(&*prefix)?.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let (key, value) = entry?;
            wrong += u64::from(!key.starts_with(prefix) || value.len() as u64 != run.value_bytes);
            found += 1;
        }
        let latency = started.elapsed();
        self.note_scanned(group, found, limit);
        self.outcome.wrong += wrong;
        Ok(latency)
    }
}
