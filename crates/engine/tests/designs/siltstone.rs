//! What our own design promises within the engine, counted: a get that hits looks at one table, a miss at
//! none, however items were written; maplets survive closing, and are merged from the tables' fingerprints
//! where they are lost.

use crate::common::{DIR, Rng, open, options};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Db, Design, IndexLoading, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder,
    WriteBufferSpec,
};
use std::sync::Arc;

const ITEMS: u32 = 6_000;
const SCHEMAS: [Schema; 3] = [
    Schema::Point,
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Hashed },
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Ordered },
];

fn key(number: u32) -> Vec<u8> {
    let scattered = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [u64::from(number / 100).to_be_bytes(), scattered.to_be_bytes()].concat()
}

fn create(db: &Db, schema: Schema) -> Keyspace {
    let mut design = Design::preset("siltstone").unwrap();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 16 << 10 };
    design.levels.iter_mut().for_each(|level| level.table_bytes = 16 << 10);
    db.keyspace("items", KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() })
        .unwrap()
}

/// Puts every item blindly, in an order of its own.
fn fill(db: &Db, items: &Keyspace, seed: u64, value: u8) {
    let mut numbers: Vec<u32> = (0..ITEMS).collect();
    let mut rng = Rng::new(seed);
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for (at, number) in numbers.iter().enumerate() {
        items.put(key(*number), [value; 100]).unwrap();
        while at % 100 == 0 && db.step().unwrap() {}
    }
}

fn settle(db: &Db) {
    db.flush().unwrap();
    while db.step().unwrap() {}
}

/// Tables looked at per get of every item, which has `value`, and of as many absent ones.
fn probes(items: &Keyspace, value: u8) -> (f64, f64) {
    let before = items.stats().tables_probed;
    for number in 0..ITEMS {
        assert_eq!(items.get(key(number)).unwrap(), Some(vec![value; 100]), "item {number}");
    }
    let between = items.stats().tables_probed;
    for number in 0..ITEMS {
        let mut absent = key(number);
        absent[15] ^= 1;
        assert_eq!(items.get(&absent).unwrap(), None);
    }
    let after = items.stats().tables_probed;
    ((between - before) as f64 / f64::from(ITEMS), (after - between) as f64 / f64::from(ITEMS))
}

/// Runs that a filter knows, and all.
fn guided(items: &Keyspace) -> (u64, u64) {
    let levels = items.stats().levels;
    (levels.iter().map(|level| level.filtered_runs).sum(), levels.iter().map(|level| level.runs).sum())
}

#[test]
fn a_hit_looks_at_one_table_and_a_miss_at_none() {
    for schema in SCHEMAS {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let items = create(&db, schema);
        let mut highest = 0;
        for round in 0..4 {
            // Blind overwrites cost no probes: a search ends at the newest.
            fill(&db, &items, u64::from(round), round);
            settle(&db);
            let (hit, miss) = probes(&items, round);
            let piles = items.stats().levels.into_iter().map(|level| level.max_runs_in_a_region);
            highest = piles.fold(highest, u64::max);
            let (guided, runs) = guided(&items);
            assert_eq!(guided, runs);
            assert!(
                hit <= 1.015 && miss <= 0.015,
                "{hit} per hit, {miss} per miss, {schema:?}, round {round}"
            );
        }
        assert!(highest >= 6, "the piles are piles: {highest}");
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn maplets_are_kept_while_a_store_is_closed() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, SCHEMAS[1]);
    fill(&db, &items, 1, 7);
    settle(&db);
    let before = guided(&items);
    assert!(before.0 > 0 && before.0 == before.1);
    drop(items);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let items = create(&db, SCHEMAS[1]);
    assert_eq!(guided(&items), before, "all maplets are back");
    assert_eq!(db.stats().compaction_bytes_read, 0, "and no table was read for them");
    let (hit, miss) = probes(&items, 7);
    assert!(hit <= 1.015 && miss <= 0.015);
    drop(items);
    db.close().unwrap();
    let db = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    assert_eq!(guided(&db.get_keyspace("items").unwrap()), before);
}

#[test]
fn a_new_run_catches_up_on_those_that_its_piles_maplet_has_missed() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, SCHEMAS[1]);
    fill(&db, &items, 1, 7);
    settle(&db);
    // So that no push comes in between: the region is young.
    let (kept, all) = guided(&items);
    assert_eq!(kept, all);
    drop(items);
    db.close().unwrap();
    // What was kept at closing covers the runs of then; a kill loses what was learnt of the next two.
    let db = open(&disk).unwrap();
    let items = create(&db, SCHEMAS[1]);
    for number in 0..2 {
        items.put(key(number), [8; 100]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(guided(&items), (all + 2, all + 2));
    let disk = disk.crash(CrashMode::Kill, 0);
    let db = open(&disk).unwrap();
    let items = create(&db, SCHEMAS[1]);
    assert_eq!(guided(&items), (all, all + 2));
    items.put(key(2), [8; 100]).unwrap();
    db.flush().unwrap();
    assert_eq!(guided(&items), (all + 3, all + 3));
    for number in 0..4 {
        let value = if number < 3 { 8 } else { 7 };
        assert_eq!(items.get(key(number)).unwrap(), Some(vec![value; 100]), "item {number}");
    }
}

#[test]
fn lost_maplets_are_merged_from_the_fingerprints_of_tables() {
    for schema in SCHEMAS {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let items = create(&db, schema);
        fill(&db, &items, 3, 1);
        fill(&db, &items, 4, 9);
        settle(&db);
        // Killed, so nothing was saved.
        let disk = disk.crash(CrashMode::Kill, 0);
        let db = open(&disk).unwrap();
        let items = create(&db, schema);
        assert_eq!(guided(&items).0, 0);
        while db.step().unwrap() {}
        let (guided, runs) = guided(&items);
        assert_eq!(guided, runs);
        assert_eq!(db.stats().compaction_bytes_read, 0, "no keys were read for it");
        let (hit, miss) = probes(&items, 9);
        assert!(hit <= 1.015 && miss <= 0.015, "{hit} per hit, {miss} per miss, {schema:?}");
    }
}

#[test]
fn indexes_come_before_filters_where_memory_is_short() {
    const MANY: u32 = 400_000;
    for schema in [SCHEMAS[0], SCHEMAS[2]] {
        let disk = SimDisk::new();
        let open_with = |budget: u64, index_loading: IndexLoading| {
            let options = Options { memory_budget_bytes: budget, index_loading, ..options() };
            Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap()
        };
        let gets = |db: &Db| {
            let items = db.get_keyspace("items").unwrap();
            for number in (0..MANY).step_by(40) {
                assert_eq!(items.get(key(number)).unwrap(), Some(vec![1; 8]), "item {number}");
            }
            items.stats()
        };
        let db = open_with(64 << 20, IndexLoading::OnDemand);
        let mut design = Design::preset("siltstone").unwrap();
        design.write_buffer = WriteBufferSpec::MemTable { bytes: 128 << 10 };
        design.levels.iter_mut().for_each(|level| level.table_bytes = 64 << 10);
        let items = db
            .keyspace("items", KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() })
            .unwrap();
        for number in 0..MANY {
            items.put(key((u64::from(number) * 7919 % u64::from(MANY)) as u32), [1; 8]).unwrap();
            while number % 1_000 == 0 && db.step().unwrap() {}
        }
        settle(&db);
        assert_eq!(guided(&items).0, guided(&items).1);
        drop(items);
        db.close().unwrap();
        // Filters of all items would take most of it.
        let db = open_with(1 << 20, IndexLoading::OnDemand);
        let stats = gets(&db);
        let (with, all) = guided(&db.get_keyspace("items").unwrap());
        assert!(with < all, "{with} of {all} runs have their filters in memory");
        assert_eq!(db.stats().memory.index, stats.index_bytes, "and all indexes are");
        assert!(stats.device_reads_by_hits <= stats.tables_probed, "so a table takes one read: {stats:?}");
        db.close().unwrap();
        // Without any index in memory, digests say about where a page is.
        let db = open_with(1 << 20, IndexLoading::InBackground);
        let stats = gets(&db);
        assert_eq!(db.stats().memory.index, 0);
        let reads = stats.device_reads_by_hits as f64 / stats.tables_probed as f64;
        assert!(reads <= 1.2, "{reads} per table, {schema:?}");
    }
}
