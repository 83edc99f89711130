//! Tables whose pages end with cells: every entry is found with one read of one page, whatever the entries
//! are like, and pages are as full as with any other index.

use crate::common::{DIR, Rng, options};
use siltstone::io::sim::SimDisk;
use siltstone::{
    Db, Design, IndexSpec, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder,
    TableFilterSpec, WriteBufferSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn open(disk: &SimDisk) -> siltstone::Result<Db> {
    let options = Options { memory_budget_bytes: 16 << 20, ..options() };
    Db::open_on(Arc::new(disk.clone()), DIR, options)
}

/// One region with one run, so that a get has nothing but the index to go by.
fn design(index: IndexSpec) -> Design {
    let mut design = Design::preset("stepped-merge").unwrap();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 1 << 20 };
    for level in &mut design.levels {
        (level.index, level.table_filter) = (index, TableFilterSpec::None);
    }
    design
}

fn create(db: &Db, schema: Schema, index: IndexSpec) -> Keyspace {
    db.keyspace(
        "items",
        KeyspaceOptions { schema, design: Some(design(index)), ..KeyspaceOptions::default() },
    )
    .unwrap()
}

fn fixed(suffix: SuffixOrder) -> Schema {
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 4 }, suffix }
}

/// Keys in groups of all sizes, values of all sizes, some that overflow their page and keys that do.
fn items(rng: &mut Rng, count: u64, largest: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut items = BTreeMap::new();
    for _ in 0..count {
        let group = if rng.one_in(3) { rng.below(3) } else { rng.below(200) };
        let mut key = [&(group as u32).to_be_bytes()[..], b"a common part"].concat();
        match rng.below(4) {
            0 => key.truncate(4 + rng.below(14) as usize),
            1 => key.extend_from_slice(&rng.below(1000).to_be_bytes()),
            _ => key.extend_from_slice(&rng.next().to_be_bytes()),
        }
        if rng.one_in(80) {
            let length = rng.below(5000) as usize;
            key.extend(rng.bytes(length));
        }
        let length = if rng.one_in(40) { rng.below(9000) } else { rng.below(largest) };
        items.insert(key, rng.bytes(length as usize));
    }
    items
}

#[test]
fn every_entry_is_on_the_page_that_is_read() {
    let schemas = [Schema::Point, fixed(SuffixOrder::Hashed), fixed(SuffixOrder::Ordered)];
    for (seed, schema) in schemas.into_iter().cycle().take(9).enumerate() {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let keyspace = create(&db, schema, IndexSpec::Cells);
        let mut rng = Rng::new(seed as u64);
        let largest = [20, 300, 2500][seed / 3];
        let items = items(&mut rng, 400_000 / (largest + 200), largest);
        for (key, value) in &items {
            keyspace.put(key, value).unwrap();
        }
        db.flush().unwrap();
        for (key, value) in &items {
            assert_eq!(keyspace.get(key).unwrap().as_ref(), Some(value), "{key:x?}");
            let mut absent = key.clone();
            absent.push(7);
            assert_eq!(keyspace.get(&absent).unwrap(), None);
        }
        let mut all: Vec<_> = keyspace.iter().unwrap().map(|item| item.unwrap()).collect();
        all.sort();
        assert!(all.iter().map(|(key, value)| (key, value)).eq(&items));
        if schema != Schema::Point {
            for group in 0..205u32 {
                let prefix = group.to_be_bytes();
                let mut found: Vec<_> = keyspace.prefix(prefix).unwrap().map(|item| item.unwrap()).collect();
                found.sort();
                assert!(
                    found
                        .iter()
                        .map(|(k, v)| (k, v))
                        .eq(items.iter().filter(|(k, _)| k.starts_with(&prefix)))
                );
            }
        }
        if schema == fixed(SuffixOrder::Ordered) {
            for _ in 0..200 {
                let prefix = (rng.below(20) as u32).to_be_bytes();
                let from = [&b"a common part"[..], &rng.below(1000).to_be_bytes()].concat();
                let from = &from[..rng.below(from.len() as u64 + 1) as usize];
                let found: Vec<_> = keyspace
                    .prefix_range(prefix, from.to_vec()..)
                    .unwrap()
                    .map(|item| item.unwrap())
                    .collect();
                let start = [&prefix[..], from].concat();
                let wanted = items.range(start..).filter(|(key, _)| key.starts_with(&prefix));
                assert!(found.iter().map(|(k, v)| (k, v)).eq(wanted), "{prefix:?} from {from:?}");
            }
        }
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn pages_are_full_and_their_index_takes_bits() {
    // 40 and 16 hashed entries to a page, and groups of several pages.
    for (schema, bytes, bits_per_item) in [
        (Schema::Point, 84, 0.45),
        (Schema::Point, 235, 1.1),
        (fixed(SuffixOrder::Hashed), 84, 1.4),
        (fixed(SuffixOrder::Ordered), 84, 1.4),
    ] {
        let mut files = Vec::new();
        for index in [IndexSpec::Separators, IndexSpec::Cells] {
            let disk = SimDisk::new();
            let db = open(&disk).unwrap();
            let keyspace = create(&db, schema, index);
            let items = (900 << 10) / (bytes + 40);
            let mut rng = Rng::new(5);
            for number in 0..items as u32 {
                let key =
                    [(number / 128).to_be_bytes(), (rng.next() as u32).to_be_bytes(), number.to_be_bytes()];
                keyspace.put(key.concat(), rng.bytes(bytes)).unwrap();
            }
            db.flush().unwrap();
            let level = &keyspace.stats().levels[0];
            assert_eq!(level.runs, 1);
            files.push(level.bytes as f64);
            let before = keyspace.stats();
            assert_eq!(keyspace.get([9; 12]).unwrap(), None);
            let memory = db.stats().memory;
            if index == IndexSpec::Cells {
                let bits = memory.index as f64 * 8.0 / items as f64;
                assert!(bits <= bits_per_item, "{bits:.2} bits per item of {bytes} bytes, {schema:?}");
            }
            assert_eq!(keyspace.stats().tables_probed - before.tables_probed, 1);
        }
        assert!(files[1] <= files[0] * 1.01, "{files:?} bytes of {bytes}, {schema:?}");
    }
}
