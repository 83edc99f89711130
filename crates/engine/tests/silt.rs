//! What SILT's stores promise within the engine, counted: one read per lookup, hit or miss, bits per item, and answers that
//! stay right where filters and tries find no room in memory.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::{DIR, Rng, open, options, tiny};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Db, Design, ErrorKind, FilterSpec, Head, Keyspace, KeyspaceOptions, KeyspaceStats, LevelSpec, Options,
    Schema, SuffixOrder,
};
use std::sync::Arc;

/// SILT with tables of a few hundred items.
fn small() -> Design {
    let mut design = Design::preset("silt").unwrap();
    design.head = Head::LogStore { entries: 256 };
    design.levels[0].table_bytes = 16 << 10;
    design.levels[0].runs = 8;
    design
}

fn key(number: u32) -> [u8; 20] {
    let mut key = [7; 20];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u32, len: usize) -> Vec<u8> {
    Rng::new(u64::from(number)).bytes(len)
}

fn create(db: &Db, design: Design) -> Keyspace {
    db.create_keyspace("items", KeyspaceOptions { schema: Schema::Point, design: Some(design) }).unwrap()
}

/// Writes `items` items of `len` bytes and merges until nothing is due.
fn fill(db: &Db, keyspace: &Keyspace, items: u32, len: impl Fn(u32) -> usize) {
    for number in 0..items {
        keyspace.put(&key(number), &value(number, len(number))).unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
}

/// Device reads of gets of all items, and of as many that do not exist, per get.
fn reads_per_get(keyspace: &Keyspace, items: u32, len: impl Fn(u32) -> usize) -> (f64, f64) {
    let before = keyspace.stats();
    for number in 0..items {
        let found = keyspace.get(&key(number)).unwrap();
        assert!(found == Some(value(number, len(number))), "item {number}");
    }
    for number in items..2 * items {
        assert_eq!(keyspace.get(&key(number)).unwrap(), None);
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
    design.head = Head::LogStore { entries: 1 << 14 };
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
    let disk = SimDisk::new();
    {
        let db = Db::open_on(Arc::new(disk.clone()), DIR, little_memory()).unwrap();
        let mut design = small();
        design.head = Head::MemTable { bytes: 512 << 10 };
        design.levels[0].table_bytes = 128 << 10;
        fill(&db, &create(&db, design), 30_000, |_| 300);
        db.close().unwrap();
    }
    // Snapshots pin memtables that take all of the budget.
    let db = Db::open_on(Arc::new(disk), DIR, little_memory()).unwrap();
    let keyspace = db.keyspace("items").unwrap();
    let mut snapshots = Vec::new();
    for number in 10_000_000..10_004_000u32 {
        keyspace.put(&key(number), &[1; 230]).unwrap();
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
    reads_per_get(&db.keyspace("items").unwrap(), 8_000, len);
}

#[test]
fn sorted_stores_with_filters_may_pile_up() {
    // Several sorted stores per region below SlimDB's upper levels: a filter spares the reads of all but one.
    let silt = small();
    let mut design = tiny("slimdb");
    design.levels.truncate(2);
    design.levels.push(LevelSpec {
        runs: 4,
        fanout_bits: 1,
        table_bytes: 64 << 10,
        filter: FilterSpec::Cuckoo { fingerprint_bits: 12 },
        ..silt.levels[1]
    });
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk), DIR, little_memory()).unwrap();
    let keyspace = create(&db, design);
    fill(&db, &keyspace, 6_000, |_| 100);
    let levels = keyspace.stats().levels;
    assert!(levels.iter().skip(2).any(|level| level.max_runs_in_a_region > 1), "{levels:?}");
    let (hits, misses) = reads_per_get(&keyspace, 6_000, |_| 100);
    assert!(hits <= 1.02 && misses <= 0.02, "{hits} {misses}");
}

#[test]
fn keyspaces_with_prefixes_are_refused() {
    let db = open(&SimDisk::new()).unwrap();
    let design = Design { head: Head::MemTable { bytes: 64 << 10 }, ..small() };
    let schema = Schema::SemiSorted {
        prefix: siltstone::PrefixRule::Fixed { bytes: 2 },
        suffix: SuffixOrder::Ordered,
    };
    let refused = db.create_keyspace("items", KeyspaceOptions { schema, design: Some(design) });
    let error = refused.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("levels[1].format"), "{error}");
}
