//! What a keyspace says of its workload, what is predicted beside what was measured, why the two are apart,
//! and keyspaces that look for a better design by themselves. All is counted on a simulated disk.

use crate::common::{DIR, Rng, options};
use siltstone::events::{Event, Listeners};
use siltstone::io::sim::SimDisk;
use siltstone::{
    AutoDesign, Batch, Db, Design, DriftCause, Keyspace, KeyspaceOptions, Options, PrefixRule,
    RedesignReason, Schema, TableFilterSpec, Workload,
};
use std::sync::{Arc, Mutex};

const ITEMS: u64 = 20_000;
const GROUP: u64 = 16;
const BATCH: usize = 10;

fn key(number: u64) -> Vec<u8> {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [(number / GROUP).to_be_bytes(), scattered.to_be_bytes()].concat()
}

/// Zipf-distributed numbers, the popular ones scattered.
struct Popular {
    sums: Vec<f64>,
    rng: Rng,
}

impl Popular {
    fn new(skew: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=ITEMS).map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        });
        Self { sums: sums.collect(), rng: Rng::new(3) }
    }

    fn next(&mut self) -> u64 {
        let at = self.rng.below(1 << 53) as f64 / (1u64 << 53) as f64 * self.sums.last().unwrap();
        let rank = self.sums.partition_point(|sum| *sum < at) as u64;
        rank.wrapping_mul(7_919) % ITEMS
    }
}

fn small(name: &str) -> Design {
    Design::preset(name).unwrap().scaled_to(64 << 10)
}

/// A store with one keyspace.
struct Store {
    disk: SimDisk,
    options: Options,
    db: Db,
    items: Keyspace,
}

impl Store {
    fn new(design: Design, options: Options) -> Self {
        let disk = SimDisk::new();
        let db = Db::open_on(Arc::new(disk.clone()), DIR, options.clone()).unwrap();
        let schema = Schema::fixed(8);
        let given = KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() };
        let items = db.create_keyspace("items", given).unwrap();
        Self { disk, options, db, items }
    }

    /// Puts items of `value_bytes`, and has all work done after each batch if `works`.
    fn put(&self, numbers: impl Iterator<Item = u64>, value_bytes: usize, works: bool) {
        let value = vec![7; value_bytes];
        let numbers: Vec<u64> = numbers.collect();
        for numbers in numbers.chunks(BATCH) {
            let mut batch = Batch::new();
            for number in numbers {
                batch.put(&self.items, key(*number), &value).unwrap();
            }
            self.db.write(&batch, &siltstone::WriteOptions::default()).unwrap();
            while works && self.db.step().unwrap() {}
        }
    }

    fn fill(&self, value_bytes: usize) {
        let mut numbers: Vec<u64> = (0..ITEMS).collect();
        let mut rng = Rng::new(1);
        for last in (1..numbers.len()).rev() {
            numbers.swap(last, rng.below(last as u64 + 1) as usize);
        }
        self.put(numbers.into_iter(), value_bytes, true);
    }

    fn overwrite(&self, count: u64, skew: f64, value_bytes: usize) {
        let mut popular = Popular::new(skew);
        self.put((0..count).map(|_| popular.next()), value_bytes, true);
    }

    fn get(&self, count: u64, skew: f64) {
        let mut popular = Popular::new(skew);
        for _ in 0..count {
            self.items.get(key(popular.next())).unwrap();
        }
    }

    fn reopened(self) -> Self {
        let Self { disk, options, db, .. } = self;
        db.close().unwrap();
        let db = Db::open_on(Arc::new(disk.clone()), DIR, options.clone()).unwrap();
        let items = db.get_keyspace("items").unwrap();
        Self { disk, options, db, items }
    }

    /// The cause of the drift of a figure, if it has drifted.
    fn cause(&self, field: &str) -> Option<DriftCause> {
        let drift = self.items.stats().drift;
        drift.into_iter().find(|drift| drift.field == field).map(|drift| drift.cause)
    }
}

fn with_memory(memory_budget_bytes: u64) -> Options {
    Options { memory_budget_bytes, ..options() }
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * b.abs()
}

#[test]
fn a_workload_is_what_was_done() {
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    let nothing = store.items.workload();
    assert_eq!(nothing.mix, Workload::default().mix);
    store.fill(84);
    for number in 0..ITEMS / 2 {
        store.items.get(key(number)).unwrap();
    }
    for number in 0..ITEMS / 4 {
        store.items.get(key(ITEMS + number)).unwrap();
        assert_eq!(store.items.prefix(&key(number % 999)[..8]).unwrap().count() as u64, GROUP);
    }
    let seen = store.items.workload();
    assert_eq!((seen.key_bytes, seen.value_bytes, seen.batch_items), (16.0, 84.0, BATCH as f64));
    assert!(near(seen.items, ITEMS as f64, 0.05), "{seen:?}");
    assert!(near(seen.group_items, GROUP as f64, 0.15), "{seen:?}");
    assert_eq!((seen.overwrites, seen.deletes, seen.skew, seen.prefix_bytes), (0.0, 0.0, 0.0, 8.0));
    let mix = seen.mix;
    for (share, expected) in [(mix.hits, 0.25), (mix.misses, 0.125), (mix.scans, 0.125), (mix.puts, 0.5)] {
        assert!((share - expected).abs() < 0.01, "{mix:?}");
    }
    // It is known after a reopening.
    let store = store.reopened();
    let again = store.items.workload();
    assert_eq!((again.mix, again.group_items, again.batch_items), (mix, seen.group_items, seen.batch_items));
}

#[test]
fn values_of_several_sizes_are_told_apart() {
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    // One in ten has 4000 bytes, the others 84.
    let is_large = |number: &u64| number.is_multiple_of(10);
    store.put((0..ITEMS).filter(|number| !is_large(number)), 84, true);
    store.put((0..ITEMS).filter(is_large), 4000, true);
    store.db.flush().unwrap();
    let check = |store: &Store| {
        let seen = store.items.workload();
        let sizes: Vec<(f64, f64)> = seen.sizes.iter().map(|size| (size.value_bytes, size.share)).collect();
        assert_eq!(sizes.len(), 2, "{seen:?}");
        assert_eq!((sizes[0].0, sizes[1].0), (84.0, 4000.0));
        assert!(near(sizes[1].1, 0.1, 0.05), "{seen:?}");
        assert!(near(seen.mean_value_bytes(), 475.6, 0.05), "{seen:?}");
    };
    check(&store);
    // It is known after a reopening; values that are nearly alike are not told apart.
    check(&store.reopened());
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    store.put((0..ITEMS / 2).filter(is_large), 60, true);
    store.put(0..ITEMS / 2, 70, true);
    store.db.flush().unwrap();
    assert!(store.items.workload().sizes.is_empty());
}

#[test]
fn overwrites_and_deletes_are_told_and_how_skewed_they_are() {
    for (skew, expected) in [(0.0, 0.0..0.25), (0.99, 0.85..1.1)] {
        let store = Store::new(small("siltstone"), with_memory(4 << 20));
        store.fill(84);
        store.overwrite(3 * ITEMS, skew, 84);
        let seen = store.items.workload();
        assert!(expected.contains(&seen.skew), "{skew}: {seen:?}");
        assert!(near(seen.items, ITEMS as f64, 0.12), "{skew}: {seen:?}");
        assert!(near(seen.overwrites, 3.0 * ITEMS as f64, 0.15) && seen.deletes == 0.0, "{skew}: {seen:?}");
    }
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    store.fill(84);
    for number in 0..ITEMS / 4 {
        store.items.delete(key(4 * number)).unwrap();
        while store.db.step().unwrap() {}
    }
    let seen = store.items.workload();
    assert!(seen.deletes > 0.1 * ITEMS as f64 && seen.overwrites < 0.2 * ITEMS as f64, "{seen:?}");
}

#[test]
fn old_habits_fade() {
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    store.fill(84);
    store.get(20 * ITEMS, 0.0);
    // Counts fade when they are written down, with a flush.
    store.overwrite(ITEMS, 0.0, 84);
    store.get(40 * ITEMS, 0.0);
    store.overwrite(ITEMS / 4, 0.0, 84);
    assert!(store.items.workload().mix.hits > 0.9, "{:?}", store.items.workload().mix);
}

#[test]
fn what_is_measured_is_near_what_is_predicted() {
    for name in ["siltstone", "stepped-merge", "slimdb"] {
        let store = Store::new(small(name), with_memory(4 << 20));
        assert_eq!(store.items.stats().predicted.write_amplification, None);
        // More than the cache takes.
        store.fill(400);
        store.get(4 * ITEMS, 0.0);
        // The cache has to come to know them, too.
        for number in 0..ITEMS {
            store.items.prefix(&key(number * 7_919 % ITEMS)[..8]).unwrap().for_each(drop);
        }
        let stats = store.items.stats();
        let (measured, predicted) = (stats.measured, stats.predicted);
        let pairs = [
            (measured.write_amplification, predicted.write_amplification),
            (measured.space_amplification, predicted.space_amplification),
            (measured.reads_per_hit, predicted.reads_per_hit),
            (measured.reads_per_scan, predicted.reads_per_scan),
        ];
        for (measured, predicted) in pairs {
            let (measured, predicted) = (measured.unwrap(), predicted.unwrap());
            assert!((measured - predicted).abs() < 0.05 + 0.25 * measured, "{name}: {stats:#?}");
        }
    }
}

/// Whoever only looks at a store sees figures of its writer, under whose budget they came about.
#[test]
fn a_store_that_is_only_looked_at_is_priced_for_its_writers_memory() {
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    store.fill(400);
    store.get(4 * ITEMS, 0.0);
    let written = store.items.stats();
    let Store { disk, options, db, items } = store;
    drop(items);
    db.close().unwrap();
    let other = Options { memory_budget_bytes: 256 << 20, ..options };
    let db = Db::open_read_only_on(Arc::new(disk), DIR, other).unwrap();
    let items = db.get_keyspace("items").unwrap();
    let seen = items.stats();
    let reads = |of: &siltstone::KeyspaceStats| of.predicted.reads_per_hit.unwrap();
    assert!(near(reads(&seen), reads(&written), 0.1), "{seen:#?}");
    assert!(seen.measured.reads_per_hit.unwrap() > 0.5, "{seen:#?}");
    assert_eq!(seen.drift.iter().find(|drift| drift.field == "reads_per_hit"), None, "{seen:#?}");
    // What it reads itself it reads with its own.
    for number in 0..ITEMS {
        items.get(key(number)).unwrap();
    }
    assert!(reads(&items.stats()) < 0.1, "{:#?}", items.stats());
}

#[test]
fn drift_is_due_to_larger_items() {
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    store.fill(24);
    store.overwrite(6 * ITEMS, 0.0, 24);
    // Half of the items become larger, while most puts were of small ones.
    store.overwrite(ITEMS / 2, 0.0, 300);
    let cause = store.cause("space_amplification");
    let is_size =
        matches!(cause, Some(DriftCause::ItemSize { before, now }) if now > before && before < 70.0);
    assert!(is_size, "{:#?}", store.items.stats());
}

#[test]
fn drift_is_due_to_another_skew() {
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    store.fill(84);
    store.overwrite(10 * ITEMS, 0.0, 84);
    store.overwrite(5 * ITEMS, 1.3, 84);
    let cause = store.cause("write_amplification");
    let is_skew = matches!(cause, Some(DriftCause::Skew { before, now }) if now > before + 0.15);
    assert!(is_skew, "{:#?}", store.items.stats());
}

#[test]
fn drift_is_due_to_work_that_is_behind() {
    let store = Store::new(small("leveled"), Options { max_sealed_memtables: 64, ..with_memory(16 << 20) });
    let mut rng = Rng::new(5);
    store.put((0..ITEMS).map(|_| rng.below(ITEMS)), 84, false);
    store.db.flush().unwrap();
    assert_eq!(
        store.cause("write_amplification"),
        Some(DriftCause::WorkBehind),
        "{:#?}",
        store.items.stats()
    );
}

#[test]
fn drift_is_due_to_a_cold_cache_and_passes() {
    let store = Store::new(small("siltstone"), with_memory(8 << 20));
    store.fill(84);
    store.get(2 * ITEMS, 0.0);
    let store = store.reopened();
    store.get(300, 0.0);
    let cause = store.cause("reads_per_hit");
    assert!(
        matches!(cause, Some(DriftCause::ColdCache { .. } | DriftCause::FiltersNotLoaded)),
        "{:#?}",
        store.items.stats()
    );
    store.get(40 * ITEMS, 0.0);
    assert_eq!(store.cause("reads_per_hit"), None, "{:#?}", store.items.stats());
}

/// Snapshots hold files of before, and nothing in what is merged since.
#[test]
fn snapshots_make_for_no_drift() {
    let store = Store::new(small("siltstone"), with_memory(4 << 20));
    store.fill(84);
    let snapshots: Vec<_> = (0..8)
        .map(|_| {
            let snapshot = store.db.snapshot();
            store.overwrite(ITEMS, 0.0, 84);
            snapshot
        })
        .collect();
    let stats = store.items.stats();
    assert_eq!(stats.drift, [], "{stats:#?}");
    assert!(stats.table_entries < 2 * ITEMS, "{stats:#?}");
    drop(snapshots);
}

/// Whoever reads other items than are written has other figures than are predicted.
#[test]
fn drift_is_due_to_reads_of_other_items_than_are_written() {
    let store = Store::new(small("siltstone"), with_memory(1 << 20));
    store.fill(400);
    store.overwrite(6 * ITEMS, 1.2, 400);
    for number in 0..8 * ITEMS {
        store.items.get(key(number * 7_919 % ITEMS)).unwrap();
    }
    let cause = store.cause("reads_per_hit");
    let is_reads = matches!(cause, Some(DriftCause::ReadSkew { reads, writes }) if writes > reads + 0.5);
    assert!(is_reads, "{cause:?} {:#?}", store.items.stats());
}

#[test]
fn drift_is_due_to_a_redesign_under_way() {
    let store = Store::new(small("stepped-merge"), with_memory(4 << 20));
    store.fill(84);
    store.items.redesign(small("lean")).unwrap();
    let stats = store.items.stats();
    assert!(stats.redesign.unwrap().done < 1.0);
    assert!(!stats.drift.is_empty());
    assert!(stats.drift.iter().all(|drift| drift.cause == DriftCause::Redesign), "{:?}", stats.drift);
    let json = serde_json::to_value(store.items.stats()).unwrap();
    assert_eq!(json["drift"][0]["cause"], "a redesign is under way");
}

#[test]
fn drift_after_a_redesign_is_due_to_the_design_before() {
    let store = Store::new(small("stepped-merge"), with_memory(4 << 20));
    store.fill(84);
    store.items.redesign(small("lean")).unwrap();
    store.db.flush().unwrap();
    store.db.wait_until_idle().unwrap();
    let stats = store.items.stats();
    assert_eq!(stats.redesign.unwrap().done, 1.0);
    let written = stats.drift.iter().find(|drift| drift.field == "write_amplification");
    let cause = written.map(|drift| drift.cause);
    assert!(matches!(cause, Some(DriftCause::EarlierDesign { share }) if share > 0.9), "{:?}", stats.drift);
}

/// What was read before a redesign says nothing of the design that there is now.
#[test]
fn drift_of_reads_is_due_to_the_design_that_they_were_made_under() {
    let mut store = Store::new(unfiltered(), with_memory(1 << 20));
    store.fill(84);
    let miss = |store: &Store, gets: u64| {
        for number in 0..gets {
            assert_eq!(store.items.get(key(ITEMS + number)).unwrap(), None);
        }
    };
    miss(&store, 2_000);
    store.items.redesign(small("siltstone")).unwrap();
    store.db.flush().unwrap();
    store.db.wait_until_idle().unwrap();
    for _ in 0..2 {
        let cause = store.cause("reads_per_miss");
        assert!(matches!(cause, Some(DriftCause::EarlierDesign { share: 1.0 })), "{cause:?}");
        // It is known after a reopening as well.
        store = store.reopened();
    }
    // What is counted of this opening is of the present design alone.
    miss(&store, 300);
    let cause = store.cause("reads_per_miss");
    assert!(!matches!(cause, Some(DriftCause::EarlierDesign { .. })), "{cause:?}");
}

/// A copy is written in order, and so by fewer bytes than puts are.
#[test]
fn drift_after_a_change_of_schema_is_due_to_the_copy() {
    let store = Store::new(small("leveled"), with_memory(4 << 20));
    store.fill(84);
    let schema = Schema::ordered(PrefixRule::Fixed { bytes: 4 });
    store.items.change_schema(schema, None).unwrap();
    store.db.wait_until_idle().unwrap();
    let stats = store.items.stats();
    assert_eq!((stats.schema, stats.table_entries), (schema, ITEMS));
    let written = stats.drift.iter().find(|drift| drift.field == "write_amplification");
    let cause = written.map(|drift| drift.cause);
    assert_eq!(cause, Some(DriftCause::Copied { share: 1.0 }), "{stats:#?}");
}

/// A design whose gets read a page for each run, whether it has the key or not.
fn unfiltered() -> Design {
    let mut design = small("stepped-merge");
    design.levels.iter_mut().for_each(|level| level.table_filter = TableFilterSpec::None);
    design
}

/// A store that looks for designs, so small of memory that absent keys cost reads, and what it says of them.
fn looking(auto_design: AutoDesign) -> (Store, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let listener = move |event: &Event| match event {
        Event::RedesignProposed(_) => sink.lock().unwrap().push("proposed".to_owned()),
        Event::RedesignBegan(_) => sink.lock().unwrap().push("began".to_owned()),
        Event::RedesignSettled(_) => sink.lock().unwrap().push("settled".to_owned()),
        _ => {}
    };
    let listeners = Listeners::default().with(Arc::new(listener));
    let options = Options { auto_design, listeners, ..with_memory(1 << 20) };
    (Store::new(unfiltered(), options), told)
}

/// Gets of keys that are not there, mostly, with some overwriting in between.
fn miss(store: &Store, rounds: u64) {
    for round in 0..rounds {
        for number in 0..2 * ITEMS {
            store.items.get(key(ITEMS + number)).unwrap();
        }
        store.overwrite(ITEMS / 20 + round % 2, 0.0, 84);
    }
}

#[test]
fn a_keyspace_proposes_and_does_no_more_unless_it_may() {
    let (store, told) = looking(AutoDesign::Propose);
    store.fill(84);
    miss(&store, 30);
    let stats = store.items.stats();
    let proposed = stats.proposed.expect("there are no filters");
    assert!(proposed.saved_share > 0.1, "{proposed:?}");
    assert!(told.lock().unwrap().contains(&"proposed".to_owned()));
    assert!(store.items.design_history().is_empty() && !told.lock().unwrap().contains(&"began".to_owned()));
}

#[test]
fn a_keyspace_redesigns_itself_once_for_one_workload() {
    let (store, told) = looking(AutoDesign::Apply);
    let before = store.items.design();
    store.fill(84);
    miss(&store, 60);
    store.db.wait_until_idle().unwrap();
    let history = store.items.design_history();
    assert_eq!(history.len(), 1, "{:?}", told.lock().unwrap());
    assert_eq!(history[0].from, before);
    assert!(history[0].settled_ms.is_some());
    assert_eq!(*told.lock().unwrap(), ["proposed", "began", "settled"]);
    // Why is written down, also where the manifest is begun afresh.
    let why = history[0].why;
    let is_chosen =
        matches!(why, RedesignReason::Chosen { saved_share } if (0.1..1.0).contains(&saved_share));
    assert!(is_chosen && why.to_string().starts_with("the store chose it"), "{why}");
    let store = store.reopened();
    assert_eq!(store.items.design_history(), history);
    for number in 0..ITEMS {
        assert!(store.items.contains(key(number)).unwrap(), "{number}");
    }
}

/// Groups that are listed and overwriting want different designs, and each turn is long enough for a change.
#[test]
fn a_keyspace_does_not_go_to_and_fro_also_if_it_is_closed_between() {
    let (mut store, told) = looking(AutoDesign::Apply);
    store.fill(84);
    let mut changes = Vec::new();
    for turn in 0..16 {
        if turn % 2 == 0 {
            for number in 0..ITEMS {
                store.items.prefix(&key(number * 7_919 % ITEMS)[..8]).unwrap().for_each(drop);
                if number % 256 == 0 {
                    while store.db.step().unwrap() {}
                }
            }
        } else {
            store.overwrite(8 * ITEMS, 0.0, 84);
        }
        changes.push(store.items.design_history().len());
        if turn % 3 == 2 {
            store = store.reopened();
        }
    }
    assert!((1..=4).contains(&changes[7]), "{changes:?} {:?}", told.lock().unwrap());
    assert!(changes[15] <= changes[7] + 1, "{changes:?}");
    for number in 0..ITEMS {
        assert!(store.items.contains(key(number)).unwrap(), "{number}");
    }
}

#[test]
fn a_keyspace_that_is_only_read_redesigns_itself() {
    let (store, told) = looking(AutoDesign::Apply);
    store.fill(84);
    store.db.wait_until_idle().unwrap();
    let before = store.items.design_history().len();
    for _ in 0..40 {
        for number in 0..2 * ITEMS {
            store.items.get(key(ITEMS + number)).unwrap();
        }
        while store.db.step().unwrap() {}
        if store.items.design_history().len() > before {
            break;
        }
    }
    assert_eq!(store.items.design_history().len(), before + 1, "{:?}", told.lock().unwrap());
    // What lies at the top would stay there, since nothing is written: it is pushed down, also by a store
    // that was opened again meanwhile.
    let store = store.reopened();
    store.db.wait_until_idle().unwrap();
    let runs: Vec<u64> = store.items.stats().levels.iter().map(|level| level.runs).collect();
    assert!(runs[0] == 0 && runs.len() > 1, "{runs:?}");
    // Reads of absent keys cost nothing any more, and nothing is changed again.
    let reads = store.items.stats().device_reads_by_misses;
    for _ in 0..10 {
        for number in 0..2 * ITEMS {
            store.items.get(key(ITEMS + number)).unwrap();
        }
        while store.db.step().unwrap() {}
    }
    let reads = store.items.stats().device_reads_by_misses - reads;
    assert!(reads < ITEMS, "{reads}");
    assert_eq!(store.items.design_history().len(), before + 1);
    for number in 0..ITEMS {
        assert!(store.items.contains(key(number)).unwrap(), "{number}");
    }
}

/// A cache that gets have filled with answers becomes one of pages once groups are listed.
#[test]
fn the_cache_is_for_scans_once_there_are_only_scans() {
    let (design, options) = (small("siltstone"), with_memory(4 << 20));
    let reads = |gets: u64| {
        let store = Store::new(design.clone(), options.clone());
        store.fill(400);
        store.get(gets, 0.0);
        let list = |count: u64| {
            for number in 0..count {
                store.items.prefix(&key(number * 7_919 % ITEMS)[..8]).unwrap().for_each(drop);
            }
            store.items.stats().device_reads_by_scans
        };
        let before = list(ITEMS / 4);
        (list(ITEMS / 8) - before) as f64
    };
    let (without, with) = (reads(0), reads(4 * ITEMS));
    assert!(with < 1.1 * without, "{with} reads, {without} without gets before");
}
