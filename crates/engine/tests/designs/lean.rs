//! What the design for little memory promises, counted: a get looks at one table, whether its key is there or
//! not, and filters and indexes take four bits an item at most.

use crate::common::open;
use siltstone::io::sim::SimDisk;
use siltstone::{Db, Design, Keyspace, KeyspaceOptions, PrefixRule, Schema, SuffixOrder};

const ITEMS: u64 = 100_000;
const VALUE: [u8; 100] = [7; 100];
/// So that the upper levels hold as large a part of the items as tables of 8 MiB do of some five gigabytes.
const TABLE_BYTES: u64 = 16 << 10;
const SCHEMAS: [Schema; 2] = [
    Schema::Point,
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Ordered },
];

fn key(number: u64) -> Vec<u8> {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [(number / 20).to_be_bytes(), scattered.to_be_bytes()].concat()
}

fn filled(db: &Db, schema: Schema) -> Keyspace {
    let design = Some(Design::preset("lean").unwrap().scaled_to(TABLE_BYTES));
    let items =
        db.keyspace("items", KeyspaceOptions { schema, design, ..KeyspaceOptions::default() }).unwrap();
    for at in 0..ITEMS {
        items.put(key(at * 7_919 % ITEMS), VALUE).unwrap();
        while at % 100 == 0 && db.step().unwrap() {}
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    items
}

/// Tables looked at per get of keys that `change` makes of the items'.
fn tables_per_get(items: &Keyspace, exist: bool, change: impl Fn(&mut Vec<u8>)) -> f64 {
    let before = items.stats().tables_probed;
    for number in (0..ITEMS).step_by(4) {
        let mut key = key(number);
        change(&mut key);
        assert_eq!(items.get(&key).unwrap().is_some(), exist, "item {number}");
    }
    (items.stats().tables_probed - before) as f64 / (ITEMS / 4) as f64
}

#[test]
fn a_get_looks_at_one_table_for_four_bits_an_item() {
    for schema in SCHEMAS {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let items = filled(&db, schema);
        let hit = tables_per_get(&items, true, |_| ());
        let miss = tables_per_get(&items, false, |key| key[15] ^= 1);
        assert!(hit <= 1.01, "{hit} tables per hit, {schema:?}");
        assert!((0.99..=1.01).contains(&miss), "{miss} tables per miss, {schema:?}");
        let memory = db.stats().memory;
        let bits = 8.0 * (memory.filter + memory.index) as f64 / ITEMS as f64;
        assert!(bits <= 4.0, "{bits} bits an item, {schema:?}: {memory:?}");
        let levels = items.stats().levels;
        assert_eq!(levels.len(), 3);
        assert_eq!(levels[2].max_runs_in_a_region, 1);
        assert!(levels[0].runs > 0 && levels[1].runs > 16, "there is something above the leaves: {levels:?}");
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}
