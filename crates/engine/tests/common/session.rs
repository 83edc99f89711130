//! A store driven beside its model: random operations as values, so that the same ones can be run on many
//! stores.

use super::bulk::{BulkLoad, rebuild};
use super::conditional::Conditional;
use super::walks::{Items, check_walk, check_walks};
use super::*;
use siltstone::io::sim::CrashMode;
use siltstone::{Batch, Durability, ErrorKind, Resources, Snapshot, WriteOptions};
use std::ops::Bound;
use std::time::Duration;

/// The keyspaces of a session.
pub const KEYSPACES: [(&str, Schema); 10] = [
    ("point", Schema::Point),
    ("files", ORDERED),
    ("tags", HASHED),
    ("whole", WHOLE),
    ("long", LONG),
    ("paths", PATHS),
    ("windows", WINDOWS),
    ("joins", JOINS),
    ("lists", ORDERED),
    ("nests", Schema::Point),
];

/// Prefixes end with the second slash.
const LONG: Schema = Schema::SemiSorted {
    prefix: PrefixRule::Delimiter { byte: b'/', count: 2 },
    suffix: SuffixOrder::Ordered,
};

/// Prefixes are the directories of paths.
const PATHS: Schema =
    Schema::SemiSorted { prefix: PrefixRule::LastDelimiter { byte: b'/' }, suffix: SuffixOrder::Ordered };

/// Suffixes are the last three bytes.
const WINDOWS: Schema =
    Schema::SemiSorted { prefix: PrefixRule::AllButLast { bytes: 3 }, suffix: SuffixOrder::Ordered };

/// Prefixes begin with their length.
const JOINS: Schema =
    Schema::SemiSorted { prefix: PrefixRule::LengthPrefixed { width: 1 }, suffix: SuffixOrder::Hashed };

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// A batch; expiry times are relative to the moment it is written.
    Write {
        effects: Vec<Effect>,
        synced: bool,
    },
    Update {
        keyspace: &'static str,
        key: Vec<u8>,
        byte: u8,
    },
    Conditional {
        keyspace: &'static str,
        write: Conditional,
    },
    /// A bulk build, with writes to its keyspaces in the middle of it.
    Ingest(BulkLoad),
    Clear {
        keyspace: &'static str,
    },
    /// A keyspace is built anew of what it holds, in its own order, and replaced by that.
    Rebuild {
        keyspace: &'static str,
    },
    /// The keyspace gets another design.
    Redesign {
        keyspace: &'static str,
        design: Design,
    },
    Step,
    StepAll,
    Flush,
    /// All garbage of a keyspace is cleared away.
    Compact {
        keyspace: &'static str,
    },
    Drain,
    Sync,
    Reopen,
    Kill,
    TakeSnapshot,
    DropSnapshot,
    Wait {
        ms: u64,
    },
    /// Somebody sets the system's clock back.
    SetBack {
        ms: u64,
    },
    Check {
        seed: u64,
    },
}

/// What random operations are made of.
#[derive(Clone, Copy)]
pub struct Mix {
    /// Different keys per keyspace.
    pub variety: u64,
    /// One value in so many takes overflow pages.
    pub large_one_in: u64,
    pub largest_value: u64,
    /// One key in so many is longer than a page.
    pub big_key_one_in: u64,
}

pub const SMALL: Mix = Mix { variety: 80, large_one_in: 30, largest_value: 9_000, big_key_one_in: 200 };
pub const LARGE: Mix = Mix { variety: 30, large_one_in: 4, largest_value: 100_000, big_key_one_in: 6 };

fn any_key(rng: &mut Rng, schema: Schema, mix: &Mix) -> Vec<u8> {
    let mut key = key(rng, schema, mix.variety);
    if rng.one_in(mix.big_key_one_in) {
        // The length follows from the key, so that big keys come again too.
        let lengths = [4_000, 4_040, 4_088, 5_000, 20_000, 65_535];
        let length = lengths[(hash(&key) % 6) as usize];
        let fill = (hash(&key) % 2) as u8 + b'x';
        key.resize(length, fill);
    }
    key
}

fn any_value(rng: &mut Rng, mix: &Mix) -> Vec<u8> {
    let len = match rng.below(mix.large_one_in * 2) {
        0 | 1 => rng.range(4_000, mix.largest_value),
        2 => 0,
        _ => rng.range(1, 300),
    };
    rng.value(len as usize)
}

pub fn any_effect(rng: &mut Rng, mix: &Mix) -> Effect {
    let &(keyspace, schema) = rng.pick(&KEYSPACES);
    let keyspace = keyspace.to_owned();
    let key = any_key(rng, schema, mix);
    let merges = merge_operator_of(&keyspace).is_some();
    match rng.below(20) {
        5..15 if merges => {
            let length = rng.below(40) as usize;
            Effect::Merge { keyspace, key, operand: rng.bytes(length) }
        }
        0..4 => Effect::Delete { keyspace, key },
        4 if schema != Schema::Point => {
            Effect::DeletePrefix { keyspace, prefix: prefix(rng, schema, mix.variety) }
        }
        5..7 => {
            let value = any_value(rng, mix);
            Effect::Put { keyspace, key, value, expires_at_ms: rng.range(1, 5000) }
        }
        _ => Effect::Put { keyspace, key, value: any_value(rng, mix), expires_at_ms: 0 },
    }
}

/// `count` random operations.
pub fn operations(rng: &mut Rng, count: usize, mix: &Mix) -> Vec<Op> {
    let mut ops = Vec::with_capacity(count);
    for _ in 0..count {
        ops.push(match rng.below(100) {
            0..46 => {
                let size = if rng.one_in(2) { 1 } else { rng.range(2, 12) };
                let mut effects = Vec::new();
                for _ in 0..size {
                    effects.push(any_effect(rng, mix));
                }
                Op::Write { effects, synced: rng.one_in(10) }
            }
            46..52 => {
                let &(keyspace, schema) = rng.pick(&KEYSPACES);
                Op::Conditional { keyspace, write: Conditional::any(rng, |rng| any_key(rng, schema, mix)) }
            }
            52..58 => {
                let &(keyspace, schema) = rng.pick(&KEYSPACES);
                Op::Update { keyspace, key: any_key(rng, schema, mix), byte: rng.next() as u8 }
            }
            58..72 => Op::Step,
            72 => Op::StepAll,
            73..75 => Op::Flush,
            75..77 => Op::Sync,
            77..79 => Op::Reopen,
            79..82 => Op::Kill,
            82..85 => Op::TakeSnapshot,
            85..87 => Op::DropSnapshot,
            90..93 => Op::Ingest(BulkLoad::any(rng, mix)),
            94 => Op::Clear { keyspace: rng.pick(&KEYSPACES).0 },
            93 => Op::Rebuild { keyspace: rng.pick(&KEYSPACES).0 },
            95 => {
                let &(keyspace, schema) = rng.pick(&KEYSPACES);
                Op::Redesign { keyspace, design: fitting(random_design(rng), schema) }
            }
            96 => Op::Compact { keyspace: rng.pick(&KEYSPACES).0 },
            97 => Op::Drain,
            87..89 => Op::Wait { ms: rng.below(4000) },
            89 => Op::SetBack { ms: rng.below(4000) },
            _ => Op::Check { seed: rng.next() },
        });
    }
    ops.push(Op::Check { seed: 0 });
    ops
}

/// A store and what it should hold.
pub struct Session {
    pub disk: SimDisk,
    pub db: Option<Db>,
    pub model: Model,
    /// With what was there, and when.
    pub snapshots: Vec<(Snapshot, Model, u64)>,
    designs: Vec<Design>,
    /// What the store is opened with.
    options: Options,
    /// The order of all items at every check: the same whatever the design.
    pub orders: Vec<u64>,
}

impl Session {
    /// A store whose keyspaces take `designs` in turn.
    pub fn new(designs: &[Design]) -> Self {
        Self::sharing(designs, None)
    }

    /// The same of a store that shares `resources` with others.
    pub fn sharing(designs: &[Design], resources: Option<Resources>) -> Self {
        Self::with(designs, Options { resources, ..options() })
    }

    /// The same of a store that is opened with `options`.
    pub fn with(designs: &[Design], options: Options) -> Self {
        let disk = SimDisk::new();
        let mut session = Self {
            disk,
            db: None,
            model: Model::default(),
            snapshots: Vec::new(),
            designs: designs.to_vec(),
            options,
            orders: Vec::new(),
        };
        session.db = Some(session.open(&session.disk).unwrap());
        for (i, (name, schema)) in KEYSPACES.into_iter().enumerate() {
            let design = session.designs[i % session.designs.len()].clone();
            let merge_operator = merge_operator_of(name);
            let options = KeyspaceOptions { merge_operator, ..keyspace_options(schema, design) };
            session.db().keyspace(name, options).unwrap();
            session.model.apply(&Effect::Create { keyspace: name.into(), schema });
        }
        session
    }

    /// Opens the store as it lies on `disk`.
    pub fn open(&self, disk: &SimDisk) -> siltstone::Result<Db> {
        Db::open_on(Arc::new(disk.clone()), DIR, self.options.clone())
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    pub fn keyspace(&self, name: &str) -> Keyspace {
        self.db().get_keyspace(name).unwrap()
    }

    /// Lets go of the store and of everything that keeps it open.
    pub fn shut(&mut self) {
        self.snapshots.clear();
        self.db = None;
    }

    /// The time by the store's clock.
    pub fn now_ms(&self) -> u64 {
        self.db().clock_ms()
    }

    /// What an operation writes, where it succeeds.
    pub fn effects(&self, op: &Op) -> Vec<Effect> {
        let now_ms = self.now_ms();
        match op {
            Op::Write { effects, .. } => {
                let mut absolute = effects.clone();
                for effect in &mut absolute {
                    if let Effect::Put { expires_at_ms, .. } = effect
                        && *expires_at_ms != 0
                    {
                        *expires_at_ms += now_ms;
                    }
                }
                absolute
            }
            Op::Update { keyspace, key, byte } => {
                let model = &self.model.keyspaces[*keyspace];
                let (old, keyspace, key) = (model.get(key, now_ms), (*keyspace).to_owned(), key.clone());
                // What was to expire still does.
                let expires_at_ms = if old.is_some() { model.items[&key].1 } else { 0 };
                match updated(old.as_deref(), *byte) {
                    Some(value) => vec![Effect::Put { keyspace, key, value, expires_at_ms }],
                    None if old.is_some() => vec![Effect::Delete { keyspace, key }],
                    None => Vec::new(),
                }
            }
            Op::Conditional { keyspace, write } => {
                let merges = merge_operator_of(keyspace).is_some();
                write.effects(keyspace, merges, &self.model.keyspaces[*keyspace], now_ms)
            }
            Op::Ingest(load) => load.effects(now_ms),
            Op::Clear { keyspace } => {
                let keyspace = (*keyspace).to_owned();
                let schema = self.model.keyspaces[&keyspace].schema;
                vec![Effect::Drop { keyspace: keyspace.clone() }, Effect::Create { keyspace, schema }]
            }
            Op::Rebuild { keyspace } => {
                let (name, model) = ((*keyspace).to_owned(), &self.model.keyspaces[*keyspace]);
                let create = Effect::Create { keyspace: name.clone(), schema: model.schema };
                let drop = Effect::Drop { keyspace: name.clone() };
                let items = model.live(now_ms).into_iter().map(|(key, value)| Effect::Put {
                    keyspace: name.clone(),
                    key,
                    value,
                    expires_at_ms: 0,
                });
                [drop, create].into_iter().chain(items).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Writes a batch to the store, and to the model if the store took it.
    pub fn write(&mut self, effects: &[Effect], synced: bool) -> siltstone::Result<()> {
        self.run(&Op::Write { effects: effects.to_vec(), synced })
    }

    fn put(&self, effects: &[Effect], synced: bool) -> siltstone::Result<()> {
        let mut batch = Batch::new();
        for effect in effects {
            match effect {
                Effect::Put { keyspace, key, value, expires_at_ms } => {
                    let keyspace = self.keyspace(keyspace);
                    if *expires_at_ms == 0 {
                        batch.put(&keyspace, key, value)?;
                    } else {
                        let ttl = Duration::from_millis(*expires_at_ms);
                        batch.put_with_ttl(&keyspace, key, value, ttl)?;
                    }
                }
                Effect::Merge { keyspace, key, operand } => {
                    batch.merge(&self.keyspace(keyspace), key, operand)?;
                }
                Effect::Delete { keyspace, key } => batch.delete(&self.keyspace(keyspace), key)?,
                Effect::DeletePrefix { keyspace, prefix } => {
                    batch.delete_prefix(&self.keyspace(keyspace), prefix)?;
                }
                Effect::Create { .. } | Effect::Drop { .. } => unreachable!("no write"),
            }
        }
        let durability = Some(if synced { Durability::Synced } else { Durability::Buffered });
        self.db().write(&batch, &WriteOptions { durability })
    }

    fn ingest(&self, load: &BulkLoad) -> siltstone::Result<()> {
        load.run(&self.keyspace(load.keyspace), self.now_ms(), || {
            if load.besides.is_empty() {
                return Ok(());
            }
            // The model takes the items first: what is written meanwhile is newer.
            let mut batch = Batch::new();
            for effect in &load.besides {
                let Effect::Put { keyspace, key, value, .. } = effect else { unreachable!("only puts") };
                batch.put(&self.keyspace(keyspace), key, value)?;
            }
            self.db().write(&batch, &WriteOptions::default())?;
            match load.meanwhile {
                0 => self.db().flush(),
                1 => self.db().step().map(drop),
                _ => Ok(()),
            }
        })
        .map(drop)
    }

    /// Compacts a keyspace, which then holds an entry for each of its items and nothing else.
    fn compact(&self, name: &str) -> siltstone::Result<()> {
        let keyspace = self.keyspace(name);
        assert!(keyspace.compact()?.is_complete);
        let stats = keyspace.stats();
        let live = self.model.keyspaces[name].live(self.now_ms()).len() as u64;
        let found =
            (stats.write_buffer_entries, stats.table_entries, stats.tombstones, stats.expired_estimate);
        assert_eq!(found, (0, live, 0, 0), "{name} after a compaction");
        assert_eq!(stats.items_estimate, live, "{name} after a compaction");
        Ok(())
    }

    /// Runs an operation on the store, and on the model if the store took it.
    pub fn run(&mut self, op: &Op) -> siltstone::Result<()> {
        let effects = self.effects(op);
        self.run_on_store(op)?;
        effects.iter().for_each(|effect| self.model.apply(effect));
        Ok(())
    }

    fn run_on_store(&mut self, op: &Op) -> siltstone::Result<()> {
        match op {
            Op::Write { effects, synced } => self.put(effects, *synced)?,
            Op::Update { keyspace, key, byte } => {
                let expected = self.model.keyspaces[*keyspace].get(key, self.now_ms());
                let mut seen = None;
                let new = self.keyspace(keyspace).update(key, |old| {
                    seen = old.map(<[u8]>::to_vec);
                    updated(old, *byte)
                })?;
                assert_eq!(seen, expected, "update of {keyspace} sees another value");
                assert_eq!(new, updated(expected.as_deref(), *byte));
            }
            Op::Conditional { keyspace, write } => {
                let model = &self.model.keyspaces[*keyspace];
                write.run(self.db(), &self.keyspace(keyspace), model, self.now_ms())?;
            }
            Op::Ingest(load) => self.ingest(load)?,
            Op::Rebuild { keyspace } => rebuild(self, keyspace)?,
            Op::Clear { keyspace } => self.keyspace(keyspace).clear()?,
            Op::Redesign { keyspace, design } => self.keyspace(keyspace).redesign(design.clone())?,
            Op::Step => {
                self.db().step()?;
            }
            Op::StepAll => self.db().wait_until_idle()?,
            Op::Flush => self.db().flush()?,
            Op::Compact { keyspace } => self.compact(keyspace)?,
            Op::Drain => self.db().drain()?,
            Op::Sync => self.db().sync()?,
            Op::Reopen => {
                self.snapshots.clear();
                self.db.take().unwrap().close()?;
                self.db = Some(self.open(&self.disk)?);
            }
            Op::Kill => {
                self.snapshots.clear();
                // The manifest need not know how late it was.
                self.disk.set_now_ms(self.now_ms());
                let disk = self.disk.crash(CrashMode::Kill, 0);
                self.db = Some(self.open(&disk)?);
                self.disk = disk;
            }
            Op::TakeSnapshot => {
                if self.snapshots.len() < 4 {
                    self.snapshots.push((self.db().snapshot(), self.model.clone(), self.now_ms()));
                }
            }
            Op::DropSnapshot => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(0);
                }
            }
            Op::Wait { ms } => {
                self.disk.advance_ms(*ms);
                // Where the system's clock is behind, how far the store's goes on depends on when it is asked.
                self.now_ms();
            }
            Op::SetBack { ms } => {
                let before = self.now_ms();
                let system_ms = siltstone::io::Disk::now_ms(&self.disk);
                self.disk.set_now_ms(system_ms.saturating_sub(*ms));
                assert_eq!(self.now_ms(), before, "the store's clock never goes back");
            }
            Op::Check { seed } => self.check(*seed),
        }
        Ok(())
    }

    /// Compares every way of reading with the model.
    pub fn check(&mut self, seed: u64) {
        let mut rng = Rng::new(seed);
        if let Some(what) = difference(self.db(), &self.model, self.now_ms()) {
            panic!("{what}");
        }
        let mut order = Vec::new();
        for (name, schema) in KEYSPACES {
            let keyspace = self.keyspace(name);
            let live = self.model.keyspaces[name].live(self.now_ms());
            order.extend(keyspace.iter().unwrap().map(|item| hash(&item.unwrap())));
            let keys = probes(&mut rng, schema, &live);
            let found = keyspace.multi_get(&keys).unwrap();
            let there = keyspace.contains_many(&keys).unwrap();
            let mut seen = vec![None; keys.len()];
            keyspace.multi_get_with(&keys, |number, value| seen[number] = Some(value.to_vec())).unwrap();
            assert_eq!(seen, found, "multi_get_with in {name}");
            for ((key, found), is_there) in keys.iter().zip(found).zip(there) {
                assert_eq!(is_there, found.is_some(), "contains_many in {name}");
                assert_eq!(keyspace.get_with(key, <[u8]>::to_vec).unwrap(), found, "get_with in {name}");
                assert_eq!(found.as_ref(), live.get(key), "multi_get in {name}");
                assert_eq!(keyspace.get(key).unwrap(), found, "get in {name}");
                assert_eq!(keyspace.contains(key).unwrap(), found.is_some());
            }
            if rng.one_in(6) {
                check_walks(&mut rng, &keyspace, &live);
            }
            if schema != Schema::Point {
                check_prefixes(&mut rng, &keyspace, &live);
            }
        }
        self.orders.push(hash(&order));
        for (snapshot, model, taken_ms) in &self.snapshots {
            self.check_snapshot(&mut rng, snapshot, model, *taken_ms);
        }
    }

    fn check_snapshot(&self, rng: &mut Rng, snapshot: &Snapshot, model: &Model, taken_ms: u64) {
        for (name, schema) in KEYSPACES {
            let keyspace = self.keyspace(name);
            // What had not expired then is still there.
            let live = model.keyspaces[name].live(taken_ms);
            let all: BTreeMap<_, _> = snapshot.iter(&keyspace).unwrap().map(Result::unwrap).collect();
            assert!(all == live, "a snapshot of {name} has changed");
            assert_eq!(snapshot.len(&keyspace).unwrap(), live.len() as u64);
            assert_eq!(snapshot.is_empty(&keyspace).unwrap(), live.is_empty());
            let back: Items = snapshot.iter(&keyspace).unwrap().rev().map(Result::unwrap).collect();
            let forth: Items = snapshot.iter(&keyspace).unwrap().map(Result::unwrap).collect();
            assert!(back.iter().eq(forth.iter().rev()), "a snapshot of {name} from behind");
            let keys = probes(rng, schema, &live);
            let many = snapshot.multi_get(&keyspace, &keys).unwrap();
            let there = snapshot.contains_many(&keyspace, &keys).unwrap();
            let mut seen = vec![None; keys.len()];
            let look = |number: usize, value: &[u8]| seen[number] = Some(value.to_vec());
            snapshot.multi_get_with(&keyspace, &keys, look).unwrap();
            assert_eq!(seen, many, "multi_get_with of a snapshot of {name}");
            for ((key, found), is_there) in keys.iter().zip(many).zip(there) {
                assert_eq!(found.as_ref(), live.get(key), "multi_get of a snapshot of {name}");
                assert_eq!(snapshot.get(&keyspace, key).unwrap(), found);
                assert_eq!(snapshot.get_with(&keyspace, key, <[u8]>::to_vec).unwrap(), found);
                assert_eq!(snapshot.contains(&keyspace, key).unwrap(), found.is_some());
                assert_eq!(is_there, found.is_some());
            }
            if schema != Schema::Point {
                let prefix = prefix(rng, schema, 40);
                let found: BTreeMap<_, _> =
                    snapshot.prefix(&keyspace, &prefix).unwrap().map(Result::unwrap).collect();
                assert!(found == with_prefix(&keyspace, &live, &prefix).into_iter().collect());
            }
        }
    }
}

/// What an update with `byte` makes of a value.
fn updated(old: Option<&[u8]>, byte: u8) -> Option<Vec<u8>> {
    (byte > 60).then(|| [old.unwrap_or(b""), &[byte]].concat())
}

/// Keys that are there and keys that are not.
fn probes(rng: &mut Rng, schema: Schema, live: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = live.keys().filter(|_| rng.one_in(4)).cloned().collect();
    for _ in 0..10 {
        let mut key = key(rng, schema, 120);
        if rng.one_in(2) {
            key.push(b'?');
        }
        keys.push(key);
    }
    keys
}

fn with_prefix(keyspace: &Keyspace, live: &BTreeMap<Vec<u8>, Vec<u8>>, prefix: &[u8]) -> Items {
    let schema = keyspace.schema();
    let group = live.iter().filter(|(key, _)| key[..schema.prefix_len(key).unwrap()] == *prefix);
    group.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn check_prefixes(rng: &mut Rng, keyspace: &Keyspace, live: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for _ in 0..4 {
        let prefix = prefix(rng, keyspace.schema(), 80);
        let expected = with_prefix(keyspace, live, &prefix);
        let mut found: Items = keyspace.prefix(&prefix).unwrap().map(Result::unwrap).collect();
        let bounds = (bound(rng, &expected, prefix.len()), bound(rng, &expected, prefix.len()));
        let range = keyspace.prefix_range(&prefix, bounds.clone());
        if keyspace.schema().is_ordered() {
            let in_range: Items = range.unwrap().map(Result::unwrap).collect();
            let expected: Items = expected
                .iter()
                .filter(|(key, _)| {
                    let suffix = &key[prefix.len()..];
                    let after = match &bounds.0 {
                        Bound::Included(from) => suffix >= from.as_slice(),
                        Bound::Excluded(from) => suffix > from.as_slice(),
                        Bound::Unbounded => true,
                    };
                    after
                        && match &bounds.1 {
                            Bound::Included(to) => suffix <= to.as_slice(),
                            Bound::Excluded(to) => suffix < to.as_slice(),
                            Bound::Unbounded => true,
                        }
                })
                .cloned()
                .collect();
            assert!(in_range == expected, "prefix_range {bounds:?} in {}", keyspace.name());
        } else {
            assert_eq!(range.unwrap_err().kind(), ErrorKind::InvalidInput);
            found.sort();
        }
        assert!(found == expected, "prefix scan in {}", keyspace.name());
        assert_eq!(keyspace.len_of(&prefix).unwrap(), expected.len() as u64);
        assert_eq!(keyspace.approximate_len_of(&prefix).unwrap(), expected.len() as u64);
        if rng.one_in(4) {
            let in_order: Items = keyspace.prefix(&prefix).unwrap().map(Result::unwrap).collect();
            check_walk(rng, || keyspace.prefix(&prefix).unwrap(), &in_order);
        }
    }
}

/// A bound at, just before or just after a suffix that is there, or anywhere.
fn bound(rng: &mut Rng, group: &[(Vec<u8>, Vec<u8>)], prefix_len: usize) -> Bound<Vec<u8>> {
    let mut suffix = match group.len() {
        0 => b"suffix__3".to_vec(),
        _ => rng.pick(group).0[prefix_len..].to_vec(),
    };
    suffix.truncate(4100);
    match rng.below(6) {
        0 => suffix.push(0),
        1 => {
            suffix.pop();
        }
        2 => suffix = b"suffix__".to_vec(),
        _ => {}
    }
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(suffix),
        _ => Bound::Included(suffix),
    }
}
