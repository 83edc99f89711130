//! What a lookup reads where memory is too short for the filters that the design names: a little more for each
//! bit of memory less, and never a page for every run.

use crate::common::is_long;
use siltstone::io::sim::SimDisk;
use siltstone::{
    Batch, Db, Design, Keyspace, KeyspaceOptions, Options, PrefixRule, RegionFilterSpec, Schema, SuffixOrder,
    TableFilterSpec, WriteOptions,
};
use std::sync::Arc;

const GROUP: u64 = 64;
const BATCH: usize = 1000;
const GETS: u64 = 4000;
const NONE: TableFilterSpec = TableFilterSpec::None;

fn key(number: u64) -> [u8; 16] {
    let group = (number / GROUP).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 16];
    let (prefix, suffix) = key.split_at_mut(8);
    prefix.copy_from_slice(&group.to_be_bytes());
    suffix.copy_from_slice(&(number % GROUP).to_be_bytes());
    key
}

/// Every number below `items`, which 7919 does not divide, in another order.
fn shuffled(items: u64) -> impl Iterator<Item = u64> {
    (0..items).map(move |number| number * 7919 % items)
}

fn options(memory_budget_bytes: u64) -> Options {
    Options { memory_budget_bytes, ..Options::default() }
}

fn fill(disk: &SimDisk, items: u64, options: Options, design: Option<Design>) -> Db {
    let db = Db::open_on(Arc::new(disk.clone()), "/db", options).unwrap();
    let schema = match &design {
        Some(_) => Schema::Point,
        None => Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Ordered },
    };
    let keyspace = KeyspaceOptions { schema, design, ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("items", keyspace).unwrap();
    let mut batch = Batch::new();
    for number in shuffled(items) {
        batch.put(&keyspace, key(number), [7; 16]).unwrap();
        if batch.len() == BATCH {
            db.write(&batch, &WriteOptions::default()).unwrap();
            batch.clear();
        }
    }
    db.write(&batch, &WriteOptions::default()).unwrap();
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    db
}

/// Pages that a get reads, of a key that is there and of one that is not.
fn pages(db: &Db, items: u64) -> (f64, f64) {
    let keyspace = db.get_keyspace("items").unwrap();
    let per_get = |get: &dyn Fn(&Keyspace, u64)| {
        let before = db.stats().device_reads;
        (0..GETS).for_each(|number| get(&keyspace, number.wrapping_mul(0x2545_f491_4f6c_dd1d) % items));
        (db.stats().device_reads - before) as f64 / GETS as f64
    };
    let hit = per_get(&|keyspace, number| assert!(keyspace.get(key(number)).unwrap().is_some()));
    let miss = per_get(&|keyspace, number| assert!(keyspace.get(key(number + items)).unwrap().is_none()));
    (hit, miss)
}

/// Fills and reads stores of `items` items with each budget, and checks what gets read.
fn sweep(items: u64, design: Option<&Design>, budgets: &[(u64, f64, f64)]) {
    for &(budget, most_hit, most_miss) in budgets {
        // Without threads, so that it goes the same way each time.
        let options = Options { background_threads: 0, ..options(budget) };
        let db = fill(&SimDisk::new(), items, options, design.cloned());
        let (hit, miss) = pages(&db, items);
        let written = db.stats().write_amplification;
        let bits = budget * 8 / items;
        println!(
            "{bits} bits an item: {hit:.2} pages a hit, {miss:.2} a miss, {written:.2} bytes written per byte"
        );
        assert!(
            hit <= most_hit && miss <= most_miss,
            "{bits} bits an item: {hit} pages a hit, {miss} a miss"
        );
    }
}

#[test]
fn less_memory_costs_a_little_more_and_never_a_page_a_run() {
    sweep(
        1_000_000,
        None,
        &[(8 << 20, 1.0, 0.1), (4 << 20, 1.1, 0.3), (2 << 20, 1.1, 0.5), (1 << 20, 1.2, 1.1)],
    );
}

/// Filters of tables at every level, and of regions at some: where not all fit, those of the bottom are missing,
/// which only misses notice, and never those of the top, which every lookup asks.
#[test]
fn filters_that_spare_most_reads_are_kept_where_memory_is_short() {
    let leveled = Design::preset("leveled").unwrap().scaled_to(1 << 18);
    let stepped = Design::preset("stepped-merge").unwrap().scaled_to(1 << 18);
    let mut mixed = Design::preset("slimdb").unwrap().scaled_to(1 << 16);
    let [top, second, ..] = &mut mixed.levels[..] else { panic!("slimdb has five levels") };
    (top.table_filter, top.region_filter) = (NONE, RegionFilterSpec::Maplet { remainder_bits: 6 });
    second.table_filter = TableFilterSpec::Bloom { bits_per_key: 10 };
    second.region_filter = RegionFilterSpec::None;
    for design in [leveled, stepped] {
        sweep(500_000, Some(&design), &[(8 << 20, 1.0, 0.1), (2 << 20, 1.1, 0.1), (1 << 20, 1.1, 0.9)]);
    }
    sweep(500_000, Some(&mixed), &[(8 << 20, 1.0, 0.1), (2 << 20, 1.1, 0.5), (1 << 20, 1.6, 1.4)]);
}

#[test]
fn two_bits_an_item_are_enough_for_two_pages_a_get() {
    if !is_long() {
        return;
    }
    sweep(
        4_000_000,
        None,
        &[(8 << 20, 1.1, 0.5), (4 << 20, 1.2, 1.1), (2 << 20, 1.2, 1.2), (1 << 20, 1.6, 1.8)],
    );
}

/// Filters that were made short are longer where memory is less short, though not all of them fit whole.
#[test]
fn filters_are_as_long_as_memory_allows_whoever_wrote_them() {
    let (disk, items) = (SimDisk::new(), 1_000_000);
    let writing = Options { background_threads: 0, ..options(3 << 19) };
    fill(&disk, items, writing, None).close().unwrap();
    let read = |budget: u64| {
        let db = Db::open_read_only_on(Arc::new(disk.clone()), "/db", options(budget)).unwrap();
        db.wait_until_idle().unwrap();
        pages(&db, items).1
    };
    // With fingerprints as they were written it was 0.12, 0.10 and 0.09.
    let few = [(6, 0.11), (7, 0.05), (8, 0.03)];
    for (quarters, most) in few {
        let pages = read(quarters << 18);
        assert!(pages < most, "{pages} pages a miss with {quarters} x 256 KiB");
    }
}

#[test]
fn a_store_for_reading_makes_what_its_writer_had_no_memory_for() {
    let (disk, items) = (SimDisk::new(), 500_000);
    fill(&disk, items, options(1 << 20), None).close().unwrap();
    let short = Db::open_read_only_on(Arc::new(disk.clone()), "/db", options(1 << 20)).unwrap();
    let ample = Db::open_read_only_on(Arc::new(disk.clone()), "/db", options(16 << 20)).unwrap();
    ample.wait_until_idle().unwrap();
    let (_, short) = pages(&short, items);
    let (_, ample) = pages(&ample, items);
    assert!(ample < 0.1 && ample <= short, "{ample} pages a miss with memory, {short} without");
}
