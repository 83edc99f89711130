//! HTables against a sorted map: every lookup, every walk, whole and with filter and marks damaged; and the
//! counts that the format is judged by.

use crate::cache::{Caches, Probe, Reader, fetch};
use crate::codec::sort_key;
use crate::entry::{Answer, EntryRef, Item, PrefixTombstones, Span};
use crate::error::Result;
use crate::io::sim::SimDisk;
use crate::io::{Access, Disk};
use crate::memory::{Holder, MemoryBudget};
use crate::stats::ReadTrace;
use crate::table::envelope::{Section, TableMeta};
use crate::table::filter::KeptKeys;
use crate::table::{ReadMode, Table, TableBuilder, TableSpec, Writing};
use crate::value::Value;
use proptest::prelude::*;
use siltstone_design::{
    Compression, Digest, Encoder, Format, HashSecret, IndexSpec, PrefixRule, Schema, SuffixOrder,
    TableFilterSpec,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Items = BTreeMap<Vec<u8>, Option<(Vec<u8>, u64)>>;

struct Made {
    disk: SimDisk,
    meta: TableMeta,
    encoder: Encoder,
}

const BLOOM: TableFilterSpec = TableFilterSpec::Bloom { bits_per_key: 16 };

fn sorted(encoder: &Encoder, items: &Items) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = items.keys().cloned().collect();
    keys.sort_by_key(|key| sort_key(encoder.encode(key).unwrap().digest, key));
    keys
}

fn make(schema: Schema, items: &Items, filter: TableFilterSpec) -> Made {
    let disk = SimDisk::new();
    let dir = Path::new("/t");
    disk.create_dir_all(dir).unwrap();
    let spec = TableSpec {
        id: 7,
        keyspace: 3,
        format: Format::HTable,
        index: IndexSpec::None,
        kept_keys: KeptKeys::Filter(filter),
        keeps_older_in: true,
        digests_per_page: 1 << 50,
        region_bytes: 0,
        chunk_bytes: 1 << 20,
        writing: Writing::Cached,
        compression: Compression::None,
    };
    let encoder = Encoder::new(schema, HashSecret(*b"sixteen byte key"));
    let mut builder = TableBuilder::create(&disk, dir, spec).unwrap();
    for key in sorted(&encoder, items) {
        let item = match &items[&key] {
            Some((value, expires_at_ms)) => Item::Put { value, expires_at_ms: *expires_at_ms },
            None => Item::Deleted,
        };
        builder.add(&EntryRef { key: encoder.encode(&key).unwrap(), item, older_in: 0 }).unwrap();
    }
    let meta = builder.finish(PrefixTombstones::default()).unwrap().meta;
    Made { disk, meta, encoder }
}

impl Made {
    fn open(&self, budget: u64) -> (Arc<Table>, Arc<Reader>) {
        let memory = MemoryBudget::new(budget);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let reader = Reader::new(disk, "/t".into(), Caches::new(&memory, 8), Arc::default());
        (Arc::new(Table::new(self.meta.clone(), self.encoder, Arc::default())), Arc::new(reader))
    }

    /// What a table says of a key, and what that cost.
    fn get(&self, table: &Table, reader: &Reader, key: &[u8]) -> Result<(Answer, ReadTrace)> {
        let key = self.encoder.encode(key).unwrap();
        Probe::waiting(reader, &self.encoder).complete(|probe| Ok((table.get(&key, probe)?, probe.trace)))
    }

    fn damage(&self, section: Section) {
        let file = self.disk.open(Path::new("/t/00000007.table"), Access::ReadWrite).unwrap();
        let mut byte = [0];
        let at = section.offset + section.length / 2;
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    }

    /// Compares lookups and walks with `items`.
    fn check(&self, items: &Items, strangers: &[Vec<u8>], budget: u64) {
        let (table, reader) = self.open(budget);
        for (key, expected) in items {
            let found = self.get(&table, &reader, key).map(|(answer, _)| answer);
            let expected = match expected.clone() {
                Some((value, expires_at_ms)) => Answer::Put { value: Value::Copied(value), expires_at_ms },
                None => Answer::Deleted,
            };
            assert_eq!(found.unwrap(), expected);
        }
        for key in strangers.iter().filter(|key| !items.contains_key(*key)) {
            let found = self.get(&table, &reader, key).map(|(answer, _)| answer);
            assert_eq!(found.unwrap(), Answer::Absent);
        }
        let keys = sorted(&self.encoder, items);
        let mut spans = vec![Span::ALL];
        for pair in strangers.windows(2) {
            let mut ends = [&pair[0], &pair[1]].map(|key| self.encoder.encode(key).unwrap().digest);
            ends.sort_unstable();
            spans.push(Span { first: ends[0], last: ends[1] });
        }
        if let (Some(first), Some(last)) = (keys.get(keys.len() / 3), keys.get(keys.len() / 2)) {
            let digest = |key: &[u8]| self.encoder.encode(key).unwrap().digest;
            spans.push(Span { first: digest(first), last: digest(last) });
            spans.push(Span { first: Digest { hi: digest(last).hi, lo: 0 }, last: digest(last) });
        }
        for span in spans {
            let expected = keys.iter().filter(|key| {
                let digest = self.encoder.encode(key).unwrap().digest;
                span.first <= digest && digest <= span.last
            });
            let mut wanted = Vec::new();
            table.want(&span, &reader, &mut wanted).unwrap();
            let arrived = Arc::new(fetch(&reader, wanted).unwrap());
            for mode in [ReadMode::Short(arrived), ReadMode::Long { begins: true }, ReadMode::Compaction] {
                let mut cursor = table.stream(span.clone(), mode, &reader).unwrap();
                for key in expected.clone() {
                    let entry = cursor.peek().unwrap();
                    let place = self.encoder.encode(key).unwrap();
                    assert_eq!((entry.key.key, entry.key.prefix_len), (place.key, place.prefix_len));
                    assert_eq!((entry.key.digest, entry.key.fingerprint), (place.digest, place.fingerprint));
                    let item = match &items[key] {
                        Some((value, expires_at_ms)) => Item::Put { value, expires_at_ms: *expires_at_ms },
                        None => Item::Deleted,
                    };
                    assert_eq!(entry.item, item);
                    cursor.advance().unwrap();
                }
                assert!(cursor.peek().is_none());
            }
        }
    }
}

const DELIMITED: Schema = Schema::SemiSorted {
    prefix: PrefixRule::Delimiter { byte: b'/', count: 1 },
    suffix: SuffixOrder::Ordered,
};

fn random(seed: &mut u64) -> u64 {
    *seed = siltstone_design::digest::mix64(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
    *seed
}

/// Items of many sizes, a few of them large; keys of a few prefixes.
fn mixed(seed: u64, count: u64, largest: u64) -> Items {
    let mut seed = seed;
    let mut items = Items::new();
    for n in 0..count {
        let mut key = format!("dir{}/suffix__{n}", random(&mut seed) % 3).into_bytes();
        if random(&mut seed).is_multiple_of(97) {
            key.resize(5000, b'k');
        }
        let length = match random(&mut seed) % 40 {
            0 => random(&mut seed) % largest,
            1 => 2900 + random(&mut seed) % 300,
            _ => random(&mut seed) % 150,
        };
        let value = vec![n as u8; length as usize];
        let item = (!random(&mut seed).is_multiple_of(11)).then(|| (value, random(&mut seed) % 2 * (n + 1)));
        items.insert(key, item);
    }
    items
}

#[test]
fn every_lookup_and_walk_is_right_for_point_and_for_semi_sorted_keys() {
    for schema in [Schema::Point, DELIMITED] {
        for (seed, count, largest) in
            [(1, 0, 1), (2, 1, 100), (3, 60, 9000), (4, 3000, 20_000), (5, 15_000, 3000)]
        {
            let items = mixed(seed, count, largest);
            let strangers: Vec<Vec<u8>> =
                (0..9).map(|n| format!("dir{}/none{n}", n % 4).into_bytes()).collect();
            for filter in [BLOOM, TableFilterSpec::None, TableFilterSpec::Cuckoo { fingerprint_bits: 12 }] {
                if count > 10_000 && filter != BLOOM {
                    continue;
                }
                make(schema, &items, filter).check(&items, &strangers, 64 << 20);
            }
        }
    }
}

#[test]
fn damaged_and_unloaded_filters_and_marks_cost_reads_and_no_answers() {
    let items = mixed(9, 12_000, 2000);
    let strangers: Vec<Vec<u8>> = (0..9).map(|n| format!("dir{}/none{n}", n % 4).into_bytes()).collect();
    let made = make(Schema::Point, &items, BLOOM);
    assert!(made.meta.page_map.length > 0, "no marks");
    made.check(&items, &strangers, 1 << 10);
    made.damage(made.meta.filter);
    made.check(&items, &strangers, 64 << 20);
    made.damage(made.meta.page_map);
    made.check(&items, &strangers, 64 << 20);
    let (table, reader) = made.open(64 << 20);
    assert!(!table.verify_sections(&reader).unwrap().is_empty(), "verification finds it all the same");
}

/// 16-byte keys with values of `size`, filling about `bytes`.
fn filling(bytes: u64, size: impl Fn(u64) -> u64) -> Items {
    let (mut items, mut seed, mut left) = (Items::new(), 77, bytes as i64);
    while left > 0 {
        let key = [random(&mut seed).to_be_bytes(), random(&mut seed).to_be_bytes()].concat();
        let length = size(random(&mut seed));
        left -= length as i64 + 16;
        items.insert(key, Some((vec![1; length as usize], 0)));
    }
    items
}

#[test]
fn pages_are_full_one_read_leads_to_an_item_and_marks_take_little() {
    let lognormal = |random: u64| {
        let sum: f64 = (0..8).map(|part| f64::from((random >> (part * 8)) as u8) / 255.0 - 0.5).sum();
        (150.0 * (sum * 1.22).exp()).clamp(30.0, 2000.0) as u64
    };
    // The more sizes differ, the more moves, and fewer of the marks that takes are kept.
    type Size<'a> = &'a dyn Fn(u64) -> u64;
    let sizes: [(&str, Size<'_>, f64); 3] = [
        ("100 bytes", &|_| 100, 1.01),
        ("30 to 1000 bytes", &|random| 30 + random % 970, 1.10),
        ("lognormal", &lognormal, 1.06),
    ];
    for (name, size, most_reads) in sizes {
        let items = filling(16 << 20, size);
        let made = make(Schema::Point, &items, BLOOM);
        // What the entries take, without the page's own header: three or four bytes each beside key and
        // value.
        let entries: u64 = items.values().flatten().map(|(value, _)| 16 + value.len() as u64 + 3).sum();
        let fill = entries as f64 / (u64::from(made.meta.pages) * 4096) as f64;
        assert!(fill >= 0.95, "{name}: pages are {fill:.3} full");
        let (table, reader) = made.open(64 << 20);
        made.get(&table, &reader, items.keys().next().unwrap()).unwrap();
        let bytes = f64::from(made.meta.pages) * 4096.0;
        let index_mb_per_gb = reader.memory().held_bytes(Holder::Index) as f64 / 1e6 / (bytes / 1e9);
        assert!(index_mb_per_gb <= 0.4, "{name}: {index_mb_per_gb:.3} MB of marks and directory a GB");
        // A cache of no pages: what the device is asked for.
        let (table, reader) = made.open(1 << 20);
        let (mut device, mut seed, keys) = (0, 5, items.keys().collect::<Vec<_>>());
        for _ in 0..4000 {
            let key = keys[(random(&mut seed) % keys.len() as u64) as usize];
            let (_, trace) = made.get(&table, &reader, key).unwrap();
            device += trace.device_reads;
        }
        assert!(device as f64 / 4000.0 <= most_reads, "{name}: {device} reads of 4000 lookups");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_items_have_a_table(
        keys in proptest::collection::btree_map(
            proptest::collection::vec(0u8..4, 1..6), (0usize..5000, 0u64..3, any::<bool>()), 0..200,
        ),
        is_point: bool,
    ) {
        let schema = if is_point {
            Schema::Point
        } else {
            Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 1 }, suffix: SuffixOrder::Ordered }
        };
        let items: Items = keys
            .into_iter()
            .map(|(key, (length, expires, live))| (key.clone(), live.then(|| (vec![key[0]; length], expires))))
            .collect();
        let strangers: Vec<Vec<u8>> = (0..8u8).map(|n| vec![n, 9, n]).collect();
        make(schema, &items, BLOOM).check(&items, &strangers, 4 << 20);
    }
}
