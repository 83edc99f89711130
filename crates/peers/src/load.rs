//! Closed-loop clients: prepare a call, time it, check what it returned, again.
//!
//! Items are chosen by their *position* in the order in which the fill wrote them; position 0 is the most
//! popular. The order is random, so popular items lie scattered over the key space. Nothing is remembered of
//! what was written: keys and values follow from an item's number, and every value that is read is checked.

use crate::engine::Store;
use crate::failure::{Failure, Result};
use crate::record::STALL_NS;
use crate::workload::{Clients, Operation};
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone_lab::kit::generate::items::Items;
use siltstone_lab::kit::generate::mix;
use siltstone_lab::kit::generate::permutation::Permutation;
use siltstone_lab::kit::generate::zipf::Zipf;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Which items there are.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// What they look like.
    pub items: Items,
    /// Their number once all are written.
    pub all: u64,
    /// Positions that have been written.
    pub existing: u64,
    /// Items of a group.
    pub group: u64,
    /// The seed of order and choices.
    pub seed: u64,
    /// Exponent of the popularity.
    pub skew: f64,
}

/// What the clients of a run share.
pub struct Load<'a> {
    store: &'a dyn Store,
    population: Population,
    order: Permutation,
    popularity: Zipf,
    /// Operations of writers after which to stop.
    most_written: u64,
    claimed: AtomicU64,
    /// Whether calls count; they do not while the store warms up.
    pub measuring: AtomicBool,
    /// Tells the clients to stop.
    pub stop: AtomicBool,
    /// Operations done, for progress.
    pub done: AtomicU64,
}

/// What clients saw of one kind of operation.
pub struct Seen {
    /// Latencies of calls in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Operations.
    pub operations: u64,
    /// Calls over 50 ms.
    pub stalls: u64,
}

/// What clients saw.
#[derive(Default)]
pub struct Sight {
    /// By operation.
    pub by_operation: BTreeMap<Operation, Seen>,
    /// Items that should have been found and were not.
    pub not_found: u64,
    /// Keys that should not have been found and were.
    pub found_unexpectedly: u64,
    /// Values, keys or groups that are not what was written.
    pub wrong: u64,
}

impl Sight {
    fn note(&mut self, operation: Operation, operations: u64, nanoseconds: u64) -> Result<()> {
        let seen = match self.by_operation.entry(operation) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Seen { latencies: Histogram::new(3)?, operations: 0, stalls: 0 })
            }
        };
        seen.operations += operations;
        seen.stalls += u64::from(nanoseconds > STALL_NS);
        // It grows as needed; an hour is more than any call takes.
        let _ = seen.latencies.record(nanoseconds.min(3_600_000_000_000));
        Ok(())
    }

    /// Adds what another client saw.
    ///
    /// # Errors
    /// Histograms of different make, which there are none of.
    pub fn add(&mut self, other: Self) -> Result<()> {
        for (operation, theirs) in other.by_operation {
            match self.by_operation.entry(operation) {
                std::collections::btree_map::Entry::Vacant(entry) => _ = entry.insert(theirs),
                std::collections::btree_map::Entry::Occupied(entry) => {
                    let mine = entry.into_mut();
                    mine.latencies.add(&theirs.latencies)?;
                    mine.operations += theirs.operations;
                    mine.stalls += theirs.stalls;
                }
            }
        }
        self.not_found += other.not_found;
        self.found_unexpectedly += other.found_unexpectedly;
        self.wrong += other.wrong;
        Ok(())
    }
}

impl<'a> Load<'a> {
    /// A run on `population`, whose writers stop after `most_written` items.
    pub fn new(store: &'a dyn Store, population: Population, most_written: u64) -> Self {
        Self {
            store,
            population,
            order: Permutation::new(population.all, population.seed),
            popularity: Zipf::new(population.existing.max(1), population.skew),
            most_written,
            claimed: AtomicU64::new(0),
            measuring: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
        }
    }

    /// Items that writers have written, or have begun to.
    pub fn written(&self) -> u64 {
        self.claimed.load(Ordering::SeqCst).min(self.most_written)
    }

    /// Whole tenths of what writers are to write that they have written.
    pub fn tenths_done(&self) -> usize {
        let done = self.done.load(Ordering::Relaxed).min(self.most_written);
        (u128::from(done) * 10 / u128::from(self.most_written.max(1))) as usize
    }

    /// Takes the next `count` positions to write: the first and how many there are left.
    fn claim(&self, count: u64) -> (u64, u64) {
        let first = self.claimed.fetch_add(count, Ordering::SeqCst);
        (first, self.most_written.saturating_sub(first).min(count))
    }

    /// Runs one client until it is told to stop or has nothing left to write. `number` tells clients apart.
    ///
    /// # Errors
    /// The store's.
    pub fn client(&self, clients: Clients, number: usize) -> Result<Sight> {
        let mut client = Client {
            load: self,
            rng: SmallRng::seed_from_u64(self.population.seed ^ mix(number as u64 + 1)),
            sight: Sight::default(),
            batch: vec![(Vec::new(), Vec::new()); clients.batch],
            key: Vec::new(),
            value: Vec::new(),
            asked: Vec::new(),
            keys: vec![Vec::new(); clients.batch],
            values: vec![None; clients.batch],
            expected: Vec::new(),
        };
        while !self.stop.load(Ordering::Relaxed) {
            let counts = self.measuring.load(Ordering::Relaxed);
            let Some((operations, nanoseconds)) = client.call(clients.operation)? else { break };
            if counts {
                client.sight.note(clients.operation, operations, nanoseconds)?;
            }
            self.done.fetch_add(operations, Ordering::Relaxed);
        }
        Ok(client.sight)
    }
}

struct Client<'a> {
    load: &'a Load<'a>,
    rng: SmallRng,
    sight: Sight,
    batch: Vec<(Vec<u8>, Vec<u8>)>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Items asked for in one call, their keys, and what was found.
    asked: Vec<u64>,
    keys: Vec<Vec<u8>>,
    values: Vec<Option<Vec<u8>>>,
    expected: Vec<u8>,
}

impl Client<'_> {
    /// An item that exists.
    fn choose(&mut self) -> u64 {
        self.load.order.at(self.load.popularity.sample(&mut self.rng))
    }

    /// One call: its operations and how long it took; `None` if nothing is left to do.
    fn call(&mut self, operation: Operation) -> Result<Option<(u64, u64)>> {
        match operation {
            Operation::Insert | Operation::Put => self.write(operation),
            Operation::Get if self.keys.len() > 1 => self.get_many().map(Some),
            Operation::Get => self.get(true).map(Some),
            Operation::GetMissing => self.get(false).map(Some),
            Operation::Scan => self.scan().map(Some),
        }
    }

    fn write(&mut self, operation: Operation) -> Result<Option<(u64, u64)>> {
        let load = self.load;
        let (first, count) = load.claim(self.batch.len() as u64);
        if count == 0 {
            return Ok(None);
        }
        for at in 0..count {
            let item = if operation == Operation::Insert { load.order.at(first + at) } else { self.choose() };
            let version = self.rng.random();
            if let Some((key, value)) = self.batch.get_mut(at as usize) {
                load.population.items.key(item, key);
                load.population.items.value(item, version, value);
            }
        }
        let items = self.batch.get(..count as usize).unwrap_or(&self.batch);
        let started = Instant::now();
        load.store.write(items)?;
        Ok(Some((count, nanoseconds(started))))
    }

    fn get(&mut self, exists: bool) -> Result<(u64, u64)> {
        let item = self.choose();
        let items = &self.load.population.items;
        if exists {
            items.key(item, &mut self.key)
        } else {
            items.missing_key(item, &mut self.key)
        }
        let started = Instant::now();
        let found = self.load.store.get(&self.key, &mut self.value)?;
        let took = nanoseconds(started);
        match (exists, found) {
            (true, false) => self.sight.not_found += 1,
            (false, true) => self.sight.found_unexpectedly += 1,
            (true, true) if !items.is_value_of(item, &self.value, &mut self.expected) => {
                self.sight.wrong += 1
            }
            _ => {}
        }
        Ok((1, took))
    }

    fn get_many(&mut self) -> Result<(u64, u64)> {
        let items = &self.load.population.items;
        self.asked.clear();
        for at in 0..self.keys.len() {
            let item = self.choose();
            self.asked.push(item);
            if let Some(key) = self.keys.get_mut(at) {
                items.key(item, key);
            }
        }
        let started = Instant::now();
        self.load.store.get_many(&self.keys, &mut self.values)?;
        let took = nanoseconds(started);
        for (item, value) in self.asked.iter().zip(&self.values) {
            match value {
                None => self.sight.not_found += 1,
                Some(value) if !items.is_value_of(*item, value, &mut self.expected) => self.sight.wrong += 1,
                Some(_) => {}
            }
        }
        Ok((self.keys.len() as u64, took))
    }

    fn scan(&mut self) -> Result<(u64, u64)> {
        let Population { items, all, existing, group, .. } = self.load.population;
        let chosen = self.choose() / group;
        self.expected.clear();
        items.prefix(chosen, &mut self.expected);
        self.key.clear();
        let (mut count, mut wrong) = (0u64, 0u64);
        let (prefix, last) = (&self.expected, &mut self.key);
        let started = Instant::now();
        self.load.store.scan(prefix, &mut |key, _| {
            wrong += u64::from(!key.starts_with(prefix) || key <= last.as_slice());
            last.clear();
            last.extend_from_slice(key);
            count += 1;
        })?;
        let took = nanoseconds(started);
        // Of a store that was not filled to the end a group may be there in part.
        let whole = group.min(all - chosen * group);
        wrong += u64::from(if existing == all { count != whole } else { count == 0 || count > whole });
        self.sight.wrong += wrong;
        Ok((1, took))
    }
}

fn nanoseconds(started: Instant) -> u64 {
    started.elapsed().as_nanos().min(u128::from(u64::MAX)) as u64
}

/// Items of these sizes.
///
/// # Errors
/// Sizes that do not fit together.
pub fn items(key_bytes: u64, value_bytes: u64, group: u64, seed: u64, all: u64) -> Result<Items> {
    let size = |bytes: u64| usize::try_from(bytes).map_err(Failure::new);
    Items::new(size(key_bytes)?, size(value_bytes)?, group, seed, all).map_err(Failure::new)
}
