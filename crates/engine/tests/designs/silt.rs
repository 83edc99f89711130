//! What SILT's stores promise within the engine, counted: one read per lookup, hit or miss, bits per item,
//! and answers that stay right where filters and tries find no room in memory.

use crate::common::{DIR, Rng, numbered_key as key, numbered_value as value, open, options, tiny};
use siltstone::io::Disk;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Db, Design, ErrorKind, IndexLoading, Keyspace, KeyspaceOptions, KeyspaceStats, LevelSpec, MemoryStats,
    Options, Schema, SuffixOrder, TableFilterSpec, WriteBufferSpec,
};
use siltstone_model::cost::silt::{Constants, Silt};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// SILT with tables of a few hundred items.
fn small() -> Design {
    let mut design = Design::preset("silt").unwrap();
    design.write_buffer = WriteBufferSpec::LogStore { entries: 256 };
    design.levels[0].table_bytes = 16 << 10;
    design.levels[0].runs = 8;
    design
}

fn create(db: &Db, design: Design) -> Keyspace {
    db.keyspace(
        "items",
        KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() },
    )
    .unwrap()
}

/// Writes `items` items of `len` bytes and merges until nothing is due.
fn fill(db: &Db, keyspace: &Keyspace, items: u32, len: impl Fn(u32) -> usize) {
    for number in 0..items {
        keyspace.put(key(number), value(number, len(number))).unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
}

/// Device reads of gets of all items, and of as many that do not exist, per get.
fn reads_per_get(keyspace: &Keyspace, items: u32, len: impl Fn(u32) -> usize) -> (f64, f64) {
    let before = keyspace.stats();
    // In another order than they were written in, or neighbours would share pages.
    for number in (0..items).map(|number| (u64::from(number) * 7919 % u64::from(items)) as u32) {
        let found = keyspace.get(key(number)).unwrap();
        assert!(found == Some(value(number, len(number))), "item {number}");
    }
    for number in items..2 * items {
        assert_eq!(keyspace.get(key(number)).unwrap(), None);
    }
    let after = keyspace.stats();
    let per_item =
        |reads: fn(&KeyspaceStats) -> u64| (reads(&after) - reads(&before)) as f64 / f64::from(items);
    (per_item(|stats| stats.device_reads_by_hits), per_item(|stats| stats.device_reads_by_misses))
}

/// So little memory that few pages are read from the cache twice, and enough for tags and tries.
fn little_memory() -> Options {
    Options { memory_budget_bytes: 1 << 20, default_design: tiny("silt"), ..options() }
}

#[test]
fn a_lookup_reads_once_hit_or_miss() {
    // Slots that begin afresh in each page, and slots that run on across pages.
    for len in [1000, 700, 40] {
        let disk = SimDisk::new();
        let db = Db::open_on(Arc::new(disk.clone()), DIR, little_memory()).unwrap();
        let keyspace = create(&db, small());
        let items = if len == 40 { 60_000 } else { 9_000 };
        fill(&db, &keyspace, items, |_| len);
        let stats = keyspace.stats();
        let leaf = stats.levels.last().unwrap();
        assert!(leaf.entries > u64::from(items) / 2, "most lies in sorted stores: {stats:?}");
        let (hits, misses) = reads_per_get(&keyspace, items, |_| len);
        println!("{len} bytes: {hits:.4} reads per hit, {misses:.4} per miss");
        for reads in [hits, misses] {
            assert!((0.6..=1.01).contains(&reads), "{hits} reads per hit, {misses} per miss, {len} bytes");
        }
        let problems = db.verify(&mut |_| {}).unwrap().problems;
        assert_eq!(problems, Vec::<String>::new());
    }
}

#[test]
fn an_item_takes_seventeen_bits_in_a_hash_store_and_one_or_two_in_a_sorted_store() {
    let disk = SimDisk::new();
    let db =
        Db::open_on(Arc::new(disk), DIR, Options { memory_budget_bytes: 64 << 20, ..options() }).unwrap();
    let mut design = small();
    design.write_buffer = WriteBufferSpec::LogStore { entries: 1 << 14 };
    design.levels[0].table_bytes = 1 << 20;
    let keyspace = create(&db, design);
    fill(&db, &keyspace, 100_000, |_| 250);
    let levels = keyspace.stats().levels;
    let per_item = |bytes: u64, level: usize| bytes as f64 * 8.0 / levels[level].entries as f64;
    let (tags, directory) = (per_item(levels[0].filter_bytes, 0), per_item(levels[0].index_bytes, 0));
    let trie = per_item(levels[1].index_bytes, 1);
    println!("{tags:.2} + {directory:.2} bits per item of hash stores, {trie:.2} of sorted stores");
    assert!(tags <= 17.2 && directory <= 0.5, "{tags} {directory}");
    assert!(trie <= 1.3, "{trie}");
}

#[test]
fn answers_stay_right_without_filters_and_tries_in_memory() {
    // Snapshots pin memtables that take all of the budget.
    let db = Db::open_on(Arc::new(closed_store()), DIR, little_memory()).unwrap();
    let keyspace = db.get_keyspace("items").unwrap();
    let mut snapshots = Vec::new();
    for number in 10_000_000..10_004_000u32 {
        keyspace.put(key(number), [1; 230]).unwrap();
        if number % 100 == 0 {
            snapshots.push(db.snapshot());
        }
    }
    let (hits, misses) = reads_per_get(&keyspace, 30_000, |_| 300);
    let memory = db.stats().memory;
    println!("{hits:.2} reads per hit, {misses:.2} per miss, {memory:?}");
    assert_eq!(memory.filter, 0, "{memory:?}");
    assert_eq!(keyspace.stats().filter_probes, 0);
    // Interpolation finds a slot among thousands in a few reads; hash stores read two buckets each.
    assert!(hits > 1.5 && hits < 30.0 && misses < 30.0, "{hits} {misses}");
}

/// A closed store of 30,000 items of 300 bytes in hash stores and sorted stores.
fn closed_store() -> SimDisk {
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk.clone()), DIR, little_memory()).unwrap();
    let mut design = small();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 512 << 10 };
    design.levels[0].table_bytes = 128 << 10;
    let keyspace = create(&db, design);
    fill(&db, &keyspace, 27_000, |_| 300);
    // The youngest are in hash stores.
    for number in 27_000..30_000 {
        keyspace.put(key(number), value(number, 300)).unwrap();
    }
    db.flush().unwrap();
    assert!(keyspace.stats().levels[0].entries >= 3_000);
    drop(keyspace);
    db.close().unwrap();
    disk
}

#[test]
fn a_store_answers_before_its_indexes_are_loaded() {
    let options = Options { index_loading: IndexLoading::InBackground, ..little_memory() };
    let db = Db::open_on(Arc::new(closed_store()), DIR, options).unwrap();
    let keyspace = db.get_keyspace("items").unwrap();
    let (hits, misses) = reads_per_get(&keyspace, 30_000, |_| 300);
    let before = db.stats().memory;
    println!("not loaded: {hits:.2} reads per hit, {misses:.2} per miss, {before:?}");
    // Two buckets of each hash store, of which there are up to eight, and an interpolation in the sorted
    // store.
    assert!(before.filter == 0 && before.index < 1000, "{before:?}");
    assert!((1.5..20.0).contains(&hits) && (1.5..20.0).contains(&misses), "{hits} {misses}");
    while db.step().unwrap() {}
    let loaded = db.stats().memory;
    assert!(loaded.filter > 0 && loaded.index > before.index, "{loaded:?}");
    let (hits, misses) = reads_per_get(&keyspace, 30_000, |_| 300);
    println!("loaded: {hits:.4} reads per hit, {misses:.4} per miss, {loaded:?}");
    assert!(hits <= 1.01 && misses <= 1.01, "{hits} {misses}");
    assert_eq!(db.stats().memory.index, loaded.index, "nothing was left for lookups to load");
}

#[test]
fn sorted_stores_without_tries_are_searched_in_few_reads() {
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk.clone()), DIR, little_memory()).unwrap();
    let mut design = small();
    design.levels[0].runs = 2;
    fill(&db, &create(&db, design), 30_000, |_| 300);
    let leaf = *db.get_keyspace("items").unwrap().stats().levels.last().unwrap();
    assert!(leaf.entries > 29_000, "{leaf:?}");
    db.close().unwrap();
    let options = Options { index_loading: IndexLoading::InBackground, ..little_memory() };
    let db = Db::open_on(Arc::new(disk), DIR, options).unwrap();
    let (hits, misses) = reads_per_get(&db.get_keyspace("items").unwrap(), 30_000, |_| 300);
    println!("{hits:.2} reads per hit, {misses:.2} per miss");
    // By halves it would be eight or nine of the 300 pages of a store.
    assert!(hits < 4.0 && misses < 4.0, "{hits} {misses}");
}

/// A store with little memory, and another keyspace whose iterators can pin more memtables than there is memory.
struct Short {
    disk: SimDisk,
    db: Db,
    keyspace: Keyspace,
    ballast: Keyspace,
}

impl Short {
    fn open() -> Self {
        let disk = closed_store();
        let db = Db::open_on(Arc::new(disk.clone()), DIR, little_memory()).unwrap();
        let keyspace = db.get_keyspace("items").unwrap();
        let design = Design { write_buffer: WriteBufferSpec::MemTable { bytes: 64 << 10 }, ..tiny("silt") };
        let of_ballast =
            KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() };
        let ballast = db.keyspace("ballast", of_ballast).unwrap();
        Self { disk, db, keyspace, ballast }
    }

    /// Pins memtables until these alone come to more than the budget; returns what was held before.
    fn overdraw(&self, pins: &mut Vec<siltstone::Iter>) -> MemoryStats {
        reads_per_get(&self.keyspace, 30_000, |_| 300);
        let full = self.db.stats().memory;
        assert!(full.filter > 0 && full.index > 0, "{full:?}");
        for number in 0..100_000 {
            self.ballast.put(key(number), [1; 230]).unwrap();
            if number % 100 == 0 {
                pins.push(self.ballast.iter().unwrap());
                let memory = self.db.stats().memory;
                if memory.memtable + memory.filter + memory.index > memory.budget + (128 << 10) {
                    return full;
                }
            }
        }
        panic!("{:?}", self.db.stats().memory);
    }
}

#[test]
fn filters_and_tries_go_when_memory_is_short_and_come_back() {
    let short = Short::open();
    let (db, keyspace) = (&short.db, &short.keyspace);
    let mut pins = Vec::new();
    let full = short.overdraw(&mut pins);
    db.step().unwrap();
    let less = db.stats().memory;
    println!("full {full:?}, short {less:?}");
    // Of the indexes some are the ballast's own.
    assert!(less.filter < full.filter, "{full:?} {less:?}");
    let (hits, _) = reads_per_get(keyspace, 30_000, |_| 300);
    assert!(hits > 1.2, "some tries are gone: {hits}");
    drop(std::mem::take(&mut pins));
    db.flush().unwrap();
    while db.step().unwrap() {}
    let (hits, misses) = reads_per_get(keyspace, 30_000, |_| 300);
    assert!(hits <= 1.01 && misses <= 1.01, "{hits} {misses}");
}

#[test]
fn what_goes_when_memory_is_short_a_snapshot_keeps() {
    let short = Short::open();
    let Short { disk, db, keyspace, ballast } = &short;
    let mut pins = Vec::new();
    // A snapshot keeps its tables, whatever they let go of and whatever is merged meanwhile.
    let snapshot = db.snapshot();
    short.overdraw(&mut pins);
    drop(pins);
    while db.step().unwrap() {}
    for number in 0..10_000 {
        keyspace.put(key(number), value(number, 300)).unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    for number in (0..30_000).step_by(97) {
        assert_eq!(snapshot.get(keyspace, key(number)).unwrap(), Some(value(number, 300)));
    }
    drop(snapshot);
    while db.step().unwrap() {}
    reads_per_get(keyspace, 30_000, |_| 300);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    // Files of tables that several values stood for are removed all the same, and no earlier.
    let files = disk.list(DIR.as_ref()).unwrap();
    let files = files.iter().filter(|name| name.ends_with(".table")).count();
    assert_eq!(files as u64, keyspace.stats().table_count + ballast.stats().table_count);
}

/// A store whose level 0 is one region of `runs` hash stores, not yet merged, and the bytes of items it
/// holds.
fn piled_up(limits: Options, runs: u32) -> (Db, u64) {
    let db = Db::open_on(Arc::new(SimDisk::new()), DIR, Options { memory_budget_bytes: 8 << 20, ..limits })
        .unwrap();
    let mut design = small();
    design.levels[0].fanout_bits = 0;
    let keyspace = create(&db, design);
    let mut bytes = 0;
    for number in 0..runs * 60 {
        keyspace.put(key(number), value(number, 1000)).unwrap();
        bytes += 1020;
        if number % 60 == 59 {
            db.flush().unwrap();
        }
    }
    assert_eq!(keyspace.stats().levels[0].runs, u64::from(runs));
    (db, bytes)
}

/// How long all that is due takes.
fn time_to_rest(db: &Db) -> Duration {
    let started = Instant::now();
    while db.step().unwrap() {}
    started.elapsed()
}

#[test]
fn background_work_keeps_to_its_limits_while_writers_can_go_on() {
    const RATE: u64 = 400_000;
    let started = Instant::now();
    let (db, bytes) = piled_up(Options { flush_bytes_per_second: RATE, ..options() }, 8);
    let at_limit = |bytes: u64| Duration::from_secs_f64(bytes as f64 / RATE as f64 * 0.8);
    assert!(started.elapsed() >= at_limit(bytes), "{:?} for {bytes} bytes", started.elapsed());
    // Compactions have a limit of their own.
    assert!(time_to_rest(&db) < at_limit(bytes));

    let (db, bytes) = piled_up(Options { compaction_bytes_per_second: RATE, ..options() }, 8);
    let took = time_to_rest(&db);
    assert!(took >= at_limit(bytes), "{took:?} for {bytes} bytes");
    assert_eq!(db.get_keyspace("items").unwrap().stats().levels[0].runs, 0);

    // A region that slows writers is merged as fast as it can be: at this limit it would take a quarter of an
    // hour.
    let (db, bytes) = piled_up(Options { compaction_bytes_per_second: 1000, ..options() }, 14);
    let took = time_to_rest(&db);
    assert!(took < Duration::from_secs(bytes / 1000 / 4), "{took:?} for {bytes} bytes");
    assert_eq!(db.get_keyspace("items").unwrap().stats().levels[0].runs, 0);
}

#[test]
fn inserts_do_not_wait_for_limits() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Options {
        memory_budget_bytes: 8 << 20,
        flush_bytes_per_second: 100_000,
        compaction_bytes_per_second: 100_000,
        ..Options::default()
    };
    let db = Db::open(dir.path().join("db"), limits).unwrap();
    let mut design = small();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 1 << 20 };
    design.levels[0].table_bytes = 256 << 10;
    let keyspace = create(&db, design);
    let started = Instant::now();
    for number in 0..20_000 {
        keyspace.put(key(number), value(number, 1000)).unwrap();
    }
    // At the limits it would be more than three minutes.
    let (took, stalls) = (started.elapsed(), db.stats().stalls);
    println!("{took:?}, {stalls:?}");
    assert!(took < Duration::from_secs(100), "{took:?}, {stalls:?}");
}

#[test]
fn inserts_at_the_papers_rate_never_stop_within_the_papers_limits() {
    // §6.1: 3,000 items of 1 KiB come each second, 10,000 are converted and 20,000 merged at most, one
    // partition at a time.
    const PER_SECOND: u32 = 3000;
    const ITEMS: u32 = 5 * PER_SECOND;
    const ITEM_BYTES: u64 = 1020;
    let dir = tempfile::tempdir().unwrap();
    let limits = Options {
        memory_budget_bytes: 8 << 20,
        flush_bytes_per_second: 10_000 * ITEM_BYTES,
        compaction_bytes_per_second: 20_000 * ITEM_BYTES,
        compactions_at_once: 1,
        ..Options::default()
    };
    let db = Db::open(dir.path().join("db"), limits).unwrap();
    let mut design = small();
    // Four regions of four stores are merged every second or so.
    design.write_buffer = WriteBufferSpec::LogStore { entries: 1000 };
    (design.levels[0].runs, design.levels[0].table_bytes) = (4, 320 << 10);
    let keyspace = create(&db, design);
    let started = Instant::now();
    for number in 0..ITEMS {
        keyspace.put(key(number), value(number, 1000)).unwrap();
        if number % 30 == 0 {
            let due = Duration::from_secs_f64(f64::from(number) / f64::from(PER_SECOND));
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
    }
    let (stats, levels) = (db.stats(), keyspace.stats().levels);
    println!("{:?} for {ITEMS} items, {:?}", started.elapsed(), stats.stalls);
    assert!(levels[1].bytes_written > u64::from(ITEMS) / 2 * ITEM_BYTES, "little is merged: {levels:?}");
    assert_eq!(stats.stalls.count, 0, "{:?}", stats.stalls);
    db.wait_until_idle().unwrap();
    reads_per_get(&keyspace, ITEMS, |_| 1000);
}

#[test]
fn one_partition_is_merged_at_a_time_if_that_is_asked() {
    for (at_once, expected) in [(1, 1..=1), (2, 2..=2), (0, 2..=4)] {
        let dir = tempfile::tempdir().unwrap();
        let limits = Options {
            memory_budget_bytes: 8 << 20,
            background_threads: 4,
            compactions_at_once: at_once,
            // So slow that four partitions are due before one is merged.
            compaction_bytes_per_second: 1 << 20,
            ..Options::default()
        };
        let db = Db::open(dir.path().join("db"), limits).unwrap();
        let keyspace = create(&db, small());
        for number in 0..1_500 {
            keyspace.put(key(number), value(number, 1000)).unwrap();
        }
        db.flush().unwrap();
        db.wait_until_idle().unwrap();
        let most = db.stats().most_compactions_at_once;
        assert!(expected.contains(&most), "{most} at once, {at_once} allowed");
        assert_eq!(keyspace.iter().unwrap().count(), 1_500);
    }
}

#[test]
fn writes_reads_and_memory_are_what_the_model_says() {
    // SILT's equations 4 to 7 with the constants of our stores, beside counted bytes, reads and memory: one
    // partition, items updated at random, over four merges of everything.
    const ITEMS: u32 = 30_000;
    const STORES: u32 = 40;
    const EACH: u32 = 200;
    const ITEM_BYTES: u64 = 1020;
    let db = Db::open_on(Arc::new(SimDisk::new()), DIR, little_memory()).unwrap();
    let mut design = small();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: u64::from(EACH) * ITEM_BYTES };
    design.levels[0].fanout_bits = 0;
    // Stores are counted, not measured.
    (design.levels[0].runs, design.levels[0].table_bytes) = (STORES as u16, u64::from(EACH) * ITEM_BYTES * 2);
    let keyspace = create(&db, design);
    fill(&db, &keyspace, ITEMS, |_| 1000);
    let mut rng = Rng::new(0x51);
    let mut update = |stores: u32| {
        for _ in 0..stores * EACH {
            let number = rng.below(u64::from(ITEMS)) as u32;
            keyspace.put(key(number), value(number, 1000)).unwrap();
        }
        db.flush().unwrap();
        while db.step().unwrap() {}
    };
    // To where everything has just been merged.
    while keyspace.stats().levels[0].runs > 0 {
        update(1);
    }
    let (before, stats_before) = (keyspace.stats(), db.stats());
    let mut memory = 0.0;
    let samples = 4 * STORES;
    let mut ask = Rng::new(0x52);
    for _ in 0..samples {
        update(1);
        let stats = keyspace.stats();
        memory += (stats.filter_bytes + stats.index_bytes) as f64 / f64::from(ITEMS) / f64::from(samples);
        for _ in 0..100 {
            let number = ask.below(u64::from(ITEMS)) as u32;
            assert_eq!(keyspace.get(key(number)).unwrap(), Some(value(number, 1000)));
        }
    }
    let (after, stats_after) = (keyspace.stats(), db.stats());
    let updated = f64::from(samples * EACH) * ITEM_BYTES as f64;
    let tables = |stats: &KeyspaceStats| stats.levels.iter().map(|level| level.bytes_written).sum::<u64>();
    let written =
        tables(&after) - tables(&before) + stats_after.wal_bytes_written - stats_before.wal_bytes_written;
    let reads = (after.device_reads_by_hits - before.device_reads_by_hits) as f64
        / (after.get_hits - before.get_hits) as f64;

    // Slots are quarters of a page, cuckoo tables are filled to 0.974 and the last of a store to 0.95.
    let (slot, occupancy) = (1024.0 / ITEM_BYTES as f64, 0.96);
    let store_items = f64::from(EACH);
    let constants = Constants {
        log_writes: 1.0,
        conversion_writes: slot / occupancy,
        sorted_writes: slot,
        false_positive_rate: 8.0 * occupancy / 32768.0,
        logs_asked: 0.0,
        store_items,
        log_index_bytes: 0.0,
        hash_index_bytes: 2.0 * store_items / occupancy,
        sorted_index_bytes: 1.72 / 8.0,
    };
    let merge_items = f64::from(STORES * EACH);
    let silt = Silt { keys: f64::from(ITEMS), instances: 1.0, merge_items, ..Silt::default() };
    let model = silt.costs_with(&constants).unwrap();
    for (what, counted, modelled) in [
        ("writes", written as f64 / updated, model.write_amplification),
        ("reads", reads, model.read_amplification),
        ("memory", memory, model.memory_bytes_per_item),
    ] {
        println!("{what}: {counted:.3} counted, {modelled:.3} modelled");
        assert!((counted / modelled - 1.0).abs() <= 0.05, "{what}: {counted} counted, {modelled} modelled");
    }
}

#[test]
fn items_of_all_sizes_share_a_store() {
    let len = |number: u32| match number % 50 {
        0 => 20_000,
        1 => 3_000,
        2 => 0,
        n => n as usize * 3,
    };
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk.clone()), DIR, little_memory()).unwrap();
    let keyspace = create(&db, small());
    fill(&db, &keyspace, 8_000, len);
    let (hits, _) = reads_per_get(&keyspace, 8_000, len);
    // One in 25 does not fit its slot and costs another read.
    println!(
        "{hits:.3} reads per hit, {} bytes for {}",
        keyspace.stats().table_bytes,
        db.stats().user_bytes_written
    );
    assert!(hits <= 1.08, "{hits}");
    let all: Vec<_> = keyspace.iter().unwrap().map(|item| item.unwrap()).collect();
    assert_eq!(all.len(), 8_000);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    drop(db);
    let db = open(&disk.crash(CrashMode::Kill, 0)).unwrap();
    reads_per_get(&db.get_keyspace("items").unwrap(), 8_000, len);
}

#[test]
fn several_sorted_stores_are_told_apart() {
    // Several sorted stores per region below SlimDB's upper levels: filters spare the reads of all but one.
    let filters = [
        (TableFilterSpec::None, 1.5..6.0, 2.0..8.0),
        (TableFilterSpec::Cuckoo { fingerprint_bits: 12 }, 0.8..1.02, 0.0..0.02),
        // A key is sought in 2^-4, or in 2^-10, of the stores without it, of which there are about five.
        (TableFilterSpec::Fragments { fragment_bits: 4 }, 0.8..1.3, 0.1..0.6),
        (TableFilterSpec::Fragments { fragment_bits: 10 }, 0.8..1.01, 0.0..0.02),
    ];
    for (filter, of_hits, of_misses) in filters {
        let (hits, misses) = pile_up(filter);
        println!("{filter:?}: {hits:.3} reads per hit, {misses:.4} per miss");
        assert!(of_hits.contains(&hits) && of_misses.contains(&misses), "{filter:?}: {hits} {misses}");
    }
}

/// Reads per hit and per miss where sorted stores with `filter` region up.
fn pile_up(filter: TableFilterSpec) -> (f64, f64) {
    let silt = small();
    let mut design = tiny("slimdb");
    design.levels.truncate(2);
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 64 << 10 };
    design.levels.iter_mut().for_each(|level| level.table_bytes = 64 << 10);
    design.levels.push(LevelSpec {
        runs: 12,
        fanout_bits: 1,
        table_bytes: 128 << 10,
        table_filter: filter,
        ..silt.levels[1]
    });
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk), DIR, little_memory()).unwrap();
    let keyspace = create(&db, design);
    for number in 0..25_000 {
        keyspace.put(key(number), value(number, 200)).unwrap();
        if number % 500 == 0 {
            while db.step().unwrap() {}
        }
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    let levels = keyspace.stats().levels;
    assert!(levels.iter().skip(2).any(|level| level.max_runs_in_a_region > 1), "{levels:?}");
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    reads_per_get(&keyspace, 25_000, |_| 200)
}

#[test]
fn keyspaces_with_prefixes_are_refused() {
    let db = open(&SimDisk::new()).unwrap();
    let design = Design { write_buffer: WriteBufferSpec::MemTable { bytes: 64 << 10 }, ..small() };
    let schema = Schema::SemiSorted {
        prefix: siltstone::PrefixRule::Fixed { bytes: 2 },
        suffix: SuffixOrder::Ordered,
    };
    let refused =
        db.keyspace("items", KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() });
    let error = refused.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("levels[1].format"), "{error}");
}
