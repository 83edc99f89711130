//! Whoever drives a lookup, it finds the same and costs the same: pages that arrive one at a time, or for
//! many lookups at once, against a lookup that waits for each. In all presets, with filters and indexes in
//! memory and without, with values and keys that overflow their pages, deleted and expiring items, and items
//! that are still in write buffers.

use super::lookup::{Clock, Found, Lookup, Pinned, Supply};
use super::{batch, parallel::LastLevel};
use crate::cache::{Caches, Reader, Step, run_all};
use crate::db::catalog::view::View;
use crate::db::tiny_designs::{tiny, tiny_designs};
use crate::db::{Db, Keyspace};
use crate::io::Disk;
use crate::io::sim::SimDisk;
use crate::memory::{FilterWorth, MemoryBudget};
use crate::options::{KeyspaceOptions, Options, ParallelSearch};
use crate::stats::{KeyspaceCounters, ReadTrace, StoreCounters};
use crate::value::{Value, Wants};
use crate::version::Version;
use proptest::prelude::*;
use siltstone_design::{Design, EncodedKey, PrefixRule, Schema, SuffixOrder, WriteBufferSpec};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";
const GROUPED: Schema =
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 2 }, suffix: SuffixOrder::Ordered };

/// A store of one keyspace, and what is in it.
struct Made {
    disk: SimDisk,
    db: Db,
    keyspace: Keyspace,
    expected: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// How a store's tables and pages are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Nothing but what can't be done without.
    Short,
    /// All filters and indexes; pages are not cached at first.
    Ample,
}

fn key_of(number: u64) -> Vec<u8> {
    let mut key = vec![b'a' + (number % 5) as u8, b'-'];
    key.extend_from_slice(&(number / 5).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    if number % 37 == 5 {
        // A key that does not fit a page.
        key.resize(5_000, number as u8);
    }
    key
}

fn value_of(number: u64, round: u64) -> Vec<u8> {
    let length = if number % 23 == 7 { 6_000 + number as usize } else { 20 + (number % 60) as usize };
    vec![(number + round) as u8; length]
}

/// Writes `count` items, overwrites and deletes some, and lets the store work until nothing is due; then
/// writes a few more.
fn make(design: Design, schema: Schema, count: u64) -> Made {
    let disk = SimDisk::new();
    disk.set_now_ms(1_000);
    let options = Options { background_threads: 0, sync_interval_ms: 0, ..Options::default() };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
    let keyspace = db
        .create_keyspace(
            "items",
            KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() },
        )
        .unwrap();
    let mut expected = BTreeMap::new();
    for round in 0..3 {
        for number in (0..count).filter(|number| round == 0 || number % 4 == round) {
            let (key, value) = (key_of(number), value_of(number, round));
            match (number + round) % 11 {
                1 => keyspace.delete(&key).unwrap(),
                2 => keyspace.put_with_ttl(&key, &value, Duration::from_millis(5)).unwrap(),
                3 => keyspace.put_with_ttl(&key, &value, Duration::from_secs(9)).unwrap(),
                _ => keyspace.put(&key, &value).unwrap(),
            }
            let lives = !matches!((number + round) % 11, 1 | 2);
            expected.insert(key, lives.then_some(value));
            while round < 2 && number % 8 == 0 && db.step().unwrap() {}
        }
        // The last round stays in write buffers, in part.
        while round < 2 && db.step().unwrap() {}
    }
    disk.set_now_ms(2_000);
    Made { disk, db, keyspace, expected }
}

impl Made {
    /// A reader that has no pages yet.
    fn reader(&self, memory: Memory) -> (Reader, Arc<StoreCounters>) {
        let budget = MemoryBudget::new(if memory == Memory::Ample { 64 << 20 } else { 1 });
        let (disk, counters): (Arc<dyn Disk>, _) = (Arc::new(self.disk.clone()), Arc::default());
        (Reader::new(disk, DIR.into(), Caches::new(&budget, 1000), Arc::clone(&counters)), counters)
    }

    /// The view, of tables with nothing in memory yet.
    fn view(&self) -> View {
        let mut view = View::clone(&self.keyspace.current().view.load());
        let mut version = Version::clone(&view.version);
        let unloaded = version.tables().map(|table| (table.id(), table.unloaded(FilterWorth::UNKNOWN)));
        version.replace_tables(&unloaded.collect());
        view.version = Arc::new(version);
        view
    }

    fn pinned<'a>(&'a self, view: &'a View, reader: &'a Reader) -> Pinned<'a> {
        let (version, encoder) = (&view.version, &self.keyspace.current().encoder);
        let (sequence, clock) = (self.db.store.catalog.visible(), Clock::Now(&self.db.store.env.clock));
        Pinned {
            buffers: Some(view),
            version,
            sequence,
            encoder,
            reader,
            clock,
            wants: Wants::Copy,
            folder: None,
        }
    }

    fn encoded<'a>(&self, keys: &'a [Vec<u8>]) -> Vec<EncodedKey<'a>> {
        keys.iter().map(|key| self.keyspace.current().encoder.encode(key).unwrap()).collect()
    }

    /// Every key there is, and as many that are not there.
    fn keys(&self) -> Vec<Vec<u8>> {
        let strangers = (0..self.expected.len() as u64).map(|number| key_of(number * 3 + 1_000_000));
        self.expected.keys().cloned().chain(strangers).collect()
    }
}

/// What a lookup found, what that cost, and where it ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    found: Option<Found>,
    trace: ReadTrace,
    level: usize,
}

fn serial(pinned: &Pinned<'_>, key: &EncodedKey<'_>) -> Outcome {
    let mut lookup = Lookup::new(pinned, key);
    let found = lookup.complete().unwrap();
    Outcome { found, trace: lookup.trace, level: lookup.level() }
}

/// Lets one page arrive after the other, and counts how often the lookup stopped.
fn stepped(pinned: &Pinned<'_>, key: &EncodedKey<'_>) -> (Outcome, u64) {
    let (mut lookup, mut outcome, mut pauses) = (Lookup::new(pinned, key), None, 0);
    run_all(pinned.reader, 1, |_, reads, arrived| {
        lookup.trace.device_reads += reads;
        Ok(match lookup.advance(Supply::Arrived(arrived))? {
            Step::Done(found) => {
                outcome = Some(Outcome { found, trace: lookup.trace, level: lookup.level() });
                Step::Done(())
            }
            Step::Needs(page) => {
                pauses += 1;
                Step::Needs(page)
            }
        })
    })
    .unwrap();
    (outcome.unwrap(), pauses)
}

/// Compares all drivers on every key; returns how often lookups that did not wait stopped.
fn check(made: &Made, memory: Memory) -> u64 {
    let view = made.view();
    let (keys, mut pauses) = (made.keys(), 0);
    let encoded = made.encoded(&keys);
    if memory == Memory::Ample {
        let (reader, _) = made.reader(memory);
        view.version.tables().for_each(|table| table.load(&reader).unwrap());
    }
    for (key, encoded) in keys.iter().zip(&encoded) {
        let ((waiting, _), (stopping, _)) = (made.reader(memory), made.reader(memory));
        let outcome = serial(&made.pinned(&view, &waiting), encoded);
        let value = outcome.found.as_ref().and_then(|found| found.value.as_ref());
        assert_eq!(value.map(Value::bytes), made.expected.get(key).and_then(Option::as_deref));
        let (by_steps, stops) = stepped(&made.pinned(&view, &stopping), encoded);
        assert_eq!(by_steps, outcome);
        // All that it read it was stopped for, but for very long values.
        assert_eq!(stops, outcome.trace.device_reads);
        pauses += stops;
        check_ahead(made, &view, memory, encoded, &outcome);
    }
    check_batches(made, &view, memory, &encoded);
    check_cached(made, &view, memory, &encoded);
    pauses
}

/// The driver that asks the last level ahead finds the same, and reads at most that one page more.
fn check_ahead(made: &Made, view: &View, memory: Memory, key: &EncodedKey<'_>, expected: &Outcome) {
    for mode in [ParallelSearch::Learned, ParallelSearch::Always] {
        let (reader, counters) = made.reader(memory);
        let pinned = made.pinned(view, &reader);
        let gets = KeyspaceCounters::default();
        let (shared, upper_reads) = (&made.db.store.searcher.parallel, &Default::default());
        let last_level = LastLevel { mode, shared, upper_reads, counters: &gets };
        let mut lookup = Lookup::new(&pinned, key);
        let found = last_level.complete(&mut lookup).unwrap();
        assert_eq!(Some(found), expected.found.clone().or_else(|| Some(Found::default())));
        let wasted = gets.asked_wasted.get();
        let device_reads = expected.trace.device_reads + wasted;
        assert_eq!(lookup.trace, ReadTrace { device_reads, ..expected.trace });
        assert_eq!(counters.io.reads.get(), device_reads);
    }
}

/// What memory does not hold is neither read nor counted; what it holds is found, and costs the same.
fn check_cached(made: &Made, view: &View, memory: Memory, keys: &[EncodedKey<'_>]) {
    let (warm, _) = made.reader(memory);
    for key in keys {
        let (cold, counters) = made.reader(memory);
        let gets = KeyspaceCounters::default();
        let (found, one) = (made.pinned(view, &cold), std::slice::from_ref(key));
        let found = batch::find_cached(&found, one, &gets).unwrap();
        assert_eq!((counters.io.reads.get(), gets.gets.get()), (0, u64::from(found.is_some())));
        let outcome = serial(&made.pinned(view, &warm), key);
        let cold = serial(&made.pinned(view, &cold), key);
        assert_eq!(found.is_some(), cold.trace.device_reads == 0);
        let expected = outcome.found.unwrap_or_default();
        assert!(found.is_none_or(|found| found == [expected]));
    }
    if memory == Memory::Short {
        return;
    }
    let (gets, pinned) = (KeyspaceCounters::default(), made.pinned(view, &warm));
    // Values of several pages are never cached.
    let is_cached = |key: &&EncodedKey<'_>| serial(&pinned, key).trace.device_reads == 0;
    let cached: Vec<_> = keys.iter().filter(is_cached).copied().collect();
    assert!(cached.len() >= keys.len() / 2);
    let found = batch::find_cached(&pinned, &cached, &gets).unwrap().unwrap();
    assert_eq!(gets.gets.get(), cached.len() as u64);
    assert_eq!(cached.len() == keys.len(), batch::find_cached(&pinned, keys, &gets).unwrap().is_some());
    for (key, found) in cached.iter().zip(found) {
        let value = found.value.map(Value::into_vec);
        assert_eq!(value.as_ref(), made.expected.get(key.key).and_then(Option::as_ref));
    }
}

/// Batches find the same, with all that is read charged to someone, and read nothing twice.
fn check_batches(made: &Made, view: &View, memory: Memory, keys: &[EncodedKey<'_>]) {
    let run = |keys: &[EncodedKey<'_>]| {
        let (reader, counters) = made.reader(memory);
        let gets = KeyspaceCounters::default();
        let mut values = vec![None; keys.len()];
        let take = |number: usize, found: Found| values[number] = found.value.map(Value::into_vec);
        batch::find_many(&made.pinned(view, &reader), keys, &gets, take).unwrap();
        let reads = counters.io.reads.get();
        assert_eq!(gets.reads_by_hits.get() + gets.reads_by_misses.get(), reads);
        (values, reads, gets)
    };
    let (values, reads, gets) = run(keys);
    let (hits, mut costs) = (values.iter().flatten().count() as u64, ReadTrace::default());
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(value.as_ref(), made.expected.get(key.key).and_then(Option::as_ref));
        let (reader, _) = made.reader(memory);
        costs.add(&serial(&made.pinned(view, &reader), key).trace);
    }
    assert_eq!((gets.gets.get(), gets.hits.get()), (keys.len() as u64, hits));
    assert_eq!(gets.filter_probes.get(), costs.filter_probes);
    assert_eq!(gets.tables_probed.get(), costs.tables_probed);
    assert_eq!(gets.false_positives.get(), costs.false_positives);
    assert_eq!(gets.most_probed_in_region.get(), costs.most_probed_in_region);
    assert!(reads <= costs.device_reads);
    // Every key three times, side by side and far apart.
    let again: Vec<_> = keys.iter().flat_map(|key| [*key, *key]).chain(keys.iter().copied()).collect();
    let (thrice, reads_of_thrice, _) = run(&again);
    assert_eq!(reads_of_thrice, reads);
    for (at, value) in values.iter().enumerate() {
        assert_eq!([&thrice[2 * at], &thrice[2 * at + 1], &thrice[2 * values.len() + at]], [value; 3]);
    }
}

#[test]
fn all_drivers_agree_in_all_presets() {
    for (name, design) in tiny_designs() {
        let schemas: &[Schema] = if matches!(design.write_buffer, WriteBufferSpec::LogStore { .. }) {
            &[Schema::Point]
        } else {
            &[Schema::Point, GROUPED]
        };
        for schema in schemas {
            let made = make(design.clone(), *schema, 160);
            for memory in [Memory::Short, Memory::Ample] {
                let pauses = check(&made, memory);
                assert!(pauses > 100, "{name}: only {pauses} pauses with {memory:?} memory");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn all_drivers_agree_in_any_store(preset in 0usize..64, count in 1u64..400, is_short: bool, is_grouped: bool) {
        let designs = tiny_designs();
        let (_, design) = designs[preset % designs.len()].clone();
        let has_groups = is_grouped && matches!(design.write_buffer, WriteBufferSpec::MemTable { .. });
        let made = make(design, if has_groups { GROUPED } else { Schema::Point }, count);
        check(&made, if is_short { Memory::Short } else { Memory::Ample });
    }
}

/// A lookup that stops before a level goes on there, as parallel search has it.
#[test]
fn a_lookup_goes_on_where_it_was_stopped() {
    let made = make(tiny("siltstone"), Schema::Point, 400);
    let view = made.view();
    let keys = made.keys();
    let encoded = made.encoded(&keys);
    assert!(view.version.levels.len() > 1);
    for key in &encoded {
        let ((whole, _), (parts, _)) = (made.reader(Memory::Ample), made.reader(Memory::Ample));
        let expected = serial(&made.pinned(&view, &whole), key);
        let pinned = made.pinned(&view, &parts);
        let mut lookup = Lookup::new(&pinned, key);
        let mut found = None;
        for end in 0..=view.version.levels.len() {
            lookup.stop_before(end);
            found = lookup.complete().unwrap();
            if found.is_some() {
                break;
            }
            assert_eq!(lookup.level(), end);
        }
        assert_eq!(Outcome { found, trace: lookup.trace, level: lookup.level() }, expected);
    }
}
