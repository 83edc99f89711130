//! What the engine's tests share: a repeatable random source, tiny designs, and a model to compare a store
//! with.
//!
//! Everything is derived from seeds, so a failure's seed is all that is needed to see it again. Tests that
//! take long by choice run a part by default and everything with `SILTSTONE_LONG=1`.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod answers;
pub mod bulk;
pub mod conditional;
#[path = "../../src/db/tiny_designs.rs"]
mod designs;
pub mod hooked_disk;
pub mod operations;
pub mod schemas;
pub mod session;
pub mod trace;
pub mod walks;

pub use designs::*;

use siltstone::io::sim::SimDisk;
use siltstone::{
    Compression, Db, Design, Format, IndexSpec, Keyspace, KeyspaceOptions, LevelSpec, MergeOperator,
    MergeOperators, Options, PrefixRule, RegionFilterSpec, Schema, SuffixOrder, TableFilterSpec, ThirdLevel,
    WriteBufferSpec,
};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Whether the long tests are to run in full.
pub fn is_long() -> bool {
    std::env::var("SILTSTONE_LONG").is_ok_and(|value| value == "1")
}

/// Does the work for each number below `count` on two threads, and returns what came of each, in any order.
pub fn on_two_threads<T: Send>(count: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let result = work(number);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers for a seed on every platform and for
/// ever.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xD129_0E52_63A4_9F35) ^ 0x5EED)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from `from` to `to`, both included.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.next().to_le_bytes());
        }
        out.truncate(len);
        out
    }

    /// So many bytes of a value: noise, or text that can be compressed.
    pub fn value(&mut self, len: usize) -> Vec<u8> {
        const WORDS: [&str; 8] = [
            "{\"name\":\"",
            "/usr/share/doc/",
            "package",
            "\",\"size\":",
            "0000000",
            "12345",
            "\"}",
            "abcabcabc",
        ];
        if self.one_in(3) {
            return self.bytes(len);
        }
        let mut out = Vec::with_capacity(len + 16);
        while out.len() < len {
            out.extend_from_slice(self.pick(&WORDS).as_bytes());
        }
        out.truncate(len);
        out
    }
}

/// All scaled-down designs.
pub fn tiny_presets() -> Vec<Design> {
    tiny_designs().into_iter().map(|(_, design)| design).collect()
}

/// Designs with a log store for a write buffer: SILT, stepped merge, and SILT's sorted stores below SlimDB's
/// upper levels. Heads and regions are so small that a few dozen writes are converted and merged.
pub fn log_store_designs() -> Vec<Design> {
    let mut layered = tiny("slimdb");
    layered.levels.truncate(2);
    layered.levels.extend(tiny("silt").levels.last());
    let mut designs = vec![tiny("silt"), tiny("stepped-merge"), layered];
    for design in &mut designs {
        design.write_buffer = WriteBufferSpec::LogStore { entries: 16 };
        design.levels[0].runs = 2;
        design.check().unwrap();
    }
    designs
}

fn random_index(rng: &mut Rng) -> IndexSpec {
    match rng.below(9) {
        7 | 8 => IndexSpec::Cells,
        0 => IndexSpec::LastKeys,
        1 => IndexSpec::LocatedSeparators,
        2 => IndexSpec::ThreeLevel { third: ThirdLevel::EntropyTrie },
        3 => IndexSpec::ThreeLevel { third: ThirdLevel::PartialSuffixes },
        4 => IndexSpec::Paged,
        _ => IndexSpec::Separators,
    }
}

/// Filters of tables and of regions that go together, for a level of at most so many runs per region.
fn random_filters(rng: &mut Rng, runs: u16) -> (TableFilterSpec, RegionFilterSpec) {
    let (table, region) = match rng.below(8) {
        6 | 7 if runs > 1 => {
            let remainder_bits = rng.range(4, 10) as u8;
            return (TableFilterSpec::None, RegionFilterSpec::Maplet { remainder_bits });
        }
        0 => (TableFilterSpec::None, RegionFilterSpec::None),
        5 if runs > 1 => {
            let bits_per_key = rng.range(1, 16) as u8;
            (TableFilterSpec::None, RegionFilterSpec::BloomCluster { bits_per_key })
        }
        1 => (TableFilterSpec::Cuckoo { fingerprint_bits: rng.range(8, 20) as u8 }, RegionFilterSpec::None),
        // Few bits, so that fingerprints collide.
        2 | 3 if runs > 1 => {
            let fingerprint_bits = rng.range(8, 14) as u8;
            (TableFilterSpec::None, RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits })
        }
        _ => (TableFilterSpec::Bloom { bits_per_key: rng.range(1, 16) as u8 }, RegionFilterSpec::None),
    };
    // A table may have a filter of its own beside its region's.
    let both = table == TableFilterSpec::None && region != RegionFilterSpec::None && rng.one_in(4);
    (if both { TableFilterSpec::Bloom { bits_per_key: 6 } } else { table }, region)
}

/// Any valid design with small tables.
pub fn random_design(rng: &mut Rng) -> Design {
    let count = rng.range(1, 4);
    let mut levels = Vec::new();
    for level in 0..count {
        let runs = if level == 0 { rng.range(2, 6) as u16 } else { rng.range(1, 5) as u16 };
        let format = *rng.pick(&[Format::Block, Format::Block, Format::HTable, Format::Hash, Format::Sorted]);
        let (table_filter, region_filter) = match format {
            Format::Hash => (TableFilterSpec::None, RegionFilterSpec::None),
            Format::Sorted if runs > 1 && rng.one_in(2) => {
                let fragment_bits = rng.range(2, 12) as u8;
                (TableFilterSpec::Fragments { fragment_bits }, RegionFilterSpec::None)
            }
            _ => random_filters(rng, runs),
        };
        levels.push(LevelSpec {
            fanout_bits: if level == 0 && count > 1 { rng.below(3) as u8 } else { rng.range(1, 3) as u8 },
            runs,
            format,
            index: if format == Format::Block { random_index(rng) } else { IndexSpec::None },
            table_filter,
            region_filter,
            table_bytes: (4 << 10) << rng.below(3),
            compression: if rng.one_in(2) { Compression::Dictionary } else { Compression::None },
        });
    }
    let design = Design {
        write_buffer: match rng.below(3) {
            0 => WriteBufferSpec::LogStore { entries: 16 << rng.below(4) },
            _ => WriteBufferSpec::MemTable { bytes: (4 << 10) << rng.below(2) },
        },
        levels,
        max_garbage: 0.05 + 0.85 * (rng.below(100) as f64 / 100.0),
        pushes_early: rng.below(2) == 0,
    };
    design.check().unwrap();
    design
}

/// The design, or the one most like it that suits keys of `schema`.
pub fn fitting(mut design: Design, schema: Schema) -> Design {
    for level in design.levels.iter_mut().filter(|level| level.format == Format::Sorted) {
        if schema != Schema::Point {
            (level.format, level.index) = (Format::Block, IndexSpec::Separators);
            if matches!(level.table_filter, TableFilterSpec::Fragments { .. }) {
                level.table_filter = TableFilterSpec::None;
            }
        }
    }
    if schema != Schema::Point && matches!(design.write_buffer, WriteBufferSpec::LogStore { .. }) {
        design.write_buffer = WriteBufferSpec::MemTable { bytes: 4 << 10 };
    }
    design.check_for(&schema).unwrap();
    design
}

/// Options under which the same calls always do the same.
pub fn options() -> Options {
    Options {
        memory_budget_bytes: 1 << 20,
        sync_interval_ms: 0,
        background_threads: 0,
        default_design: tiny("siltstone"),
        reserve_bytes: 0,
        max_sealed_memtables: 2,
        max_open_files: 16,
        hash_secret: Some(*b"sixteen byte key"),
        merge_operators: MergeOperators::default().with("nest", Nest).unwrap(),
        ..Options::default()
    }
}

/// The store's directory on simulated disks.
pub const DIR: &str = "/db";

/// Opens the store of trace `seed`: every other one keeps an event log, so short that it is rotated.
pub fn open_traced(disk: &SimDisk, seed: u64) -> siltstone::Result<Db> {
    let event_log_bytes = if seed.is_multiple_of(2) { 8 << 10 } else { 0 };
    Db::open_on(Arc::new(disk.clone()), DIR, Options { event_log_bytes, ..options() })
}

pub fn open(disk: &SimDisk) -> siltstone::Result<Db> {
    Db::open_on(Arc::new(disk.clone()), DIR, options())
}

pub const ORDERED: Schema = Schema::SemiSorted {
    prefix: PrefixRule::Delimiter { byte: b'/', count: 1 },
    suffix: SuffixOrder::Ordered,
};
pub const HASHED: Schema =
    Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 2 }, suffix: SuffixOrder::Hashed };
pub const WHOLE: Schema = Schema::SemiSorted { prefix: PrefixRule::WholeKey, suffix: SuffixOrder::Ordered };

pub fn keyspace_options(schema: Schema, design: Design) -> KeyspaceOptions {
    KeyspaceOptions { schema, design: Some(fitting(design, schema)), ..KeyspaceOptions::default() }
}

/// A key that fits `schema`, out of about `variety`, so that keys come again.
pub fn key(rng: &mut Rng, schema: Schema, variety: u64) -> Vec<u8> {
    let n = rng.below(variety);
    match schema {
        Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes }, .. } => {
            let mut key = vec![b'a' + (n % 7) as u8; usize::from(bytes)];
            key.extend_from_slice(format!("{}", n / 7).as_bytes());
            key
        }
        Schema::SemiSorted { prefix: PrefixRule::Delimiter { byte, count }, .. } => {
            let mut key = Vec::new();
            for _ in 0..count {
                key.extend_from_slice(format!("dir{}", n % 5).as_bytes());
                key.push(byte);
            }
            // Many suffixes agree in their first eight bytes, where the digest can't tell them apart.
            key.extend_from_slice(
                format!("{}{}", ["", "suffix__", "suffix__long"][(n % 3) as usize], n).as_bytes(),
            );
            key
        }
        Schema::SemiSorted { prefix: PrefixRule::LastDelimiter { byte }, .. } => {
            // Groups of one depth lie below groups of another.
            let mut key = vec![byte];
            for part in 0..n % 3 {
                key.extend_from_slice(format!("dir{}", (n + part) % 4).as_bytes());
                key.push(byte);
            }
            key.extend_from_slice(format!("{n}").as_bytes());
            key
        }
        Schema::SemiSorted { prefix: PrefixRule::AllButLast { bytes }, .. } => {
            let mut key = b"window"[..(n % 7) as usize].to_vec();
            let suffix = format!("{n:0width$}", width = usize::from(bytes));
            key.extend_from_slice(&suffix.as_bytes()[suffix.len() - usize::from(bytes)..]);
            key
        }
        Schema::SemiSorted { prefix: PrefixRule::LengthPrefixed { width: 1 }, .. } => {
            let group = &b"foreign"[..(n % 5) as usize];
            [&[group.len() as u8], group, format!("{n}").as_bytes()].concat()
        }
        _ => format!("key{n}").into_bytes(),
    }
}

/// A prefix of `schema` that keys from [`key`] have.
pub fn prefix(rng: &mut Rng, schema: Schema, variety: u64) -> Vec<u8> {
    prefix_by(rng, schema, (schema, variety))
}

/// A prefix that keys from [`key`] have by a schema other than that which they are made for.
pub fn prefix_by(rng: &mut Rng, by: Schema, (schema, variety): (Schema, u64)) -> Vec<u8> {
    let key = key(rng, schema, variety);
    let length = by.prefix_len(&key).unwrap();
    key[..length].to_vec()
}

/// A merge operator that joins nothing, and whose values tell in which order operands came, and onto what.
pub struct Nest;

impl MergeOperator for Nest {
    fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
        Ok([b"(", value.unwrap_or(b"."), operand, b")"].concat())
    }
}

/// The merge operator of the keyspace `name`, where it takes merges.
pub fn merge_operator_of(name: &str) -> Option<String> {
    let operators = [("lists", "append:2c"), ("nests", "nest")];
    operators.iter().find(|(keyspace, _)| *keyspace == name).map(|(_, operator)| (*operator).to_owned())
}

/// What a merge makes of `old` in the keyspace `name`.
pub fn merged(name: &str, old: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    match (name, old) {
        ("lists", None) => operand.to_vec(),
        ("lists", Some(old)) => [old, b",", operand].concat(),
        (_, old) => [b"(", old.unwrap_or(b"."), operand, b")"].concat(),
    }
}

/// What a write does, for the model.
#[derive(Clone, Debug)]
pub enum Effect {
    Put { keyspace: String, key: Vec<u8>, value: Vec<u8>, expires_at_ms: u64 },
    Delete { keyspace: String, key: Vec<u8> },
    DeletePrefix { keyspace: String, prefix: Vec<u8> },
    Merge { keyspace: String, key: Vec<u8>, operand: Vec<u8> },
    Create { keyspace: String, schema: Schema },
    Schema { keyspace: String, schema: Schema },
    Drop { keyspace: String },
}

/// A keyspace of the model: items with the millisecond at which they expire, or 0.
#[derive(Clone, Debug)]
pub struct ModelKeyspace {
    pub schema: Schema,
    pub items: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
}

impl ModelKeyspace {
    pub fn live(&self, now_ms: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let live = self.items.iter().filter(|(_, (_, expires))| *expires == 0 || now_ms < *expires);
        live.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }

    pub fn get(&self, key: &[u8], now_ms: u64) -> Option<Vec<u8>> {
        let (value, expires) = self.items.get(key)?;
        (*expires == 0 || now_ms < *expires).then(|| value.clone())
    }
}

/// What a store should hold.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub keyspaces: BTreeMap<String, ModelKeyspace>,
}

impl Model {
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Put { keyspace, key, value, expires_at_ms } => {
                if let Some(keyspace) = self.keyspaces.get_mut(keyspace) {
                    keyspace.items.insert(key.clone(), (value.clone(), *expires_at_ms));
                }
            }
            Effect::Merge { keyspace: name, key, operand } => {
                if let Some(keyspace) = self.keyspaces.get_mut(name) {
                    let old = keyspace.items.get(key).map(|(value, _)| &value[..]);
                    let new = merged(name, old, operand);
                    keyspace.items.insert(key.clone(), (new, 0));
                }
            }
            Effect::Delete { keyspace, key } => {
                if let Some(keyspace) = self.keyspaces.get_mut(keyspace) {
                    keyspace.items.remove(key);
                }
            }
            Effect::DeletePrefix { keyspace, prefix } => {
                if let Some(ModelKeyspace { schema, items }) = self.keyspaces.get_mut(keyspace) {
                    items.retain(|key, _| key[..schema.prefix_len(key).unwrap()] != prefix[..]);
                }
            }
            Effect::Create { keyspace, schema } => {
                let new = ModelKeyspace { schema: *schema, items: BTreeMap::new() };
                self.keyspaces.entry(keyspace.clone()).or_insert(new);
            }
            Effect::Schema { keyspace, schema } => {
                if let Some(keyspace) = self.keyspaces.get_mut(keyspace) {
                    keyspace.schema = *schema;
                }
            }
            Effect::Drop { keyspace } => {
                self.keyspaces.remove(keyspace);
            }
        }
    }

    /// The model in short: what it is at any moment from now on, if nothing is written.
    pub fn print(&self) -> Print {
        let mut print = Print::default();
        for (name, keyspace) in &self.keyspaces {
            print.add(hash(&(name, format!("{:?}", keyspace.schema))), 0);
            for (key, (value, expires)) in &keyspace.items {
                print.add(hash(&(name, key, value)), *expires);
            }
        }
        print
    }
}

/// A fingerprint of a state that knows what will expire.
#[derive(Clone, Debug, Default)]
pub struct Print {
    sum: u64,
    expiring: Vec<(u64, u64)>,
}

impl Print {
    pub fn add(&mut self, hash: u64, expires_at_ms: u64) {
        if expires_at_ms == 0 {
            self.sum = self.sum.wrapping_add(hash);
        } else {
            self.expiring.push((expires_at_ms, hash));
        }
    }

    pub fn at(&self, now_ms: u64) -> u64 {
        let alive = self.expiring.iter().filter(|(expires, _)| now_ms < *expires);
        alive.fold(self.sum, |sum, (_, hash)| sum.wrapping_add(*hash))
    }
}

pub fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The fingerprint of what a store holds now.
pub fn print_of(db: &Db) -> siltstone::Result<u64> {
    let mut print = Print::default();
    for name in db.keyspaces() {
        let keyspace = db.get_keyspace(&name).unwrap();
        print.add(hash(&(&name, format!("{:?}", keyspace.schema()))), 0);
        for item in keyspace.iter()? {
            let (key, value) = item?;
            print.add(hash(&(&name, &key, &value)), 0);
        }
    }
    Ok(print.at(0))
}

/// Everything in a keyspace.
pub fn contents(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    for item in keyspace.iter().unwrap() {
        let (key, value) = item.unwrap();
        assert!(all.insert(key, value).is_none(), "a key came twice");
    }
    all
}

/// A key of twenty bytes.
pub fn numbered_key(number: u32) -> [u8; 20] {
    let mut key = [7; 20];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key
}

/// `len` bytes that belong to a number.
pub fn numbered_value(number: u32, len: usize) -> Vec<u8> {
    Rng::new(u64::from(number)).bytes(len)
}

/// Says what a store and a model differ in; `None` where they agree.
pub fn difference(db: &Db, model: &Model, now_ms: u64) -> Option<String> {
    let wanted: Vec<_> = model.keyspaces.keys().cloned().collect();
    if db.keyspaces() != wanted {
        return Some(format!("keyspaces {:?} instead of {wanted:?}", db.keyspaces()));
    }
    for (name, expected) in &model.keyspaces {
        let (found, expected) = (contents(&db.get_keyspace(name).unwrap()), expected.live(now_ms));
        let short = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).into_owned();
        for (key, value) in &expected {
            if found.get(key) != Some(value) {
                let got = found.get(key).map(|v| short(v));
                return Some(format!("{name}: {:?} is {got:?} instead of {:?}", short(key), short(value)));
            }
        }
        if let Some(key) = found.keys().find(|key| !expected.contains_key(*key)) {
            return Some(format!("{name}: {:?} should not be there", short(key)));
        }
    }
    None
}
