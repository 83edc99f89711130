//! Redesigns: from every preset to every other while the store is in use, whatever comes in between, and
//! without anybody waiting for it.

use crate::common::*;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::presets;
use siltstone::{
    Batch, Db, Design, ErrorKind, Keyspace, Options, Schema, TableFilterSpec, WriteBufferSpec, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Items = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 600;

fn key_of(schema: Schema, number: u64) -> Vec<u8> {
    match schema {
        Schema::Point => numbered_key(number as u32).to_vec(),
        _ => format!("group {:02}/{:04}", number % 23, number).into_bytes(),
    }
}

/// A store with one keyspace, beside what it should hold.
struct Used {
    disk: SimDisk,
    db: Option<Db>,
    schema: Schema,
    items: Items,
    rng: Rng,
}

impl Used {
    fn new(design: &Design, schema: Schema, seed: u64) -> Self {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        db.create_keyspace("items", keyspace_options(schema, design.clone())).unwrap();
        Self { disk, db: Some(db), schema, items: Items::new(), rng: Rng::new(seed) }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn keyspace(&self) -> Keyspace {
        self.db().get_keyspace("items").unwrap()
    }

    /// Writes, overwrites and deletes, and works in between as much as `steps` in ten writes.
    fn write(&mut self, count: u64, steps: u64) {
        let keyspace = self.keyspace();
        for _ in 0..count {
            let key = key_of(self.schema, self.rng.below(KEYS));
            if self.rng.one_in(6) {
                keyspace.delete(&key).unwrap();
                self.items.remove(&key);
            } else if self.schema != Schema::Point && self.rng.one_in(150) {
                let prefix = key[..9].to_vec();
                keyspace.delete_prefix(&prefix).unwrap();
                self.items.retain(|key, _| !key.starts_with(&prefix));
            } else {
                let length = if self.rng.one_in(40) { 5_000 } else { self.rng.range(10, 90) };
                let value = self.rng.bytes(length as usize);
                keyspace.put(&key, &value).unwrap();
                self.items.insert(key, value);
            }
            if self.rng.below(10) < steps {
                self.db().step().unwrap();
            }
        }
    }

    fn check(&mut self) {
        let keyspace = self.keyspace();
        assert_eq!(contents(&keyspace), self.items);
        let keys: Vec<_> = (0..KEYS).map(|number| key_of(self.schema, number)).collect();
        for (key, found) in keys.iter().zip(keyspace.multi_get(&keys).unwrap()) {
            assert_eq!(found.as_ref(), self.items.get(key));
            assert_eq!(keyspace.get(key).unwrap(), found);
        }
        if self.schema != Schema::Point {
            let prefix = &key_of(self.schema, self.rng.below(KEYS))[..9];
            let found: Vec<_> = keyspace.prefix(prefix).unwrap().map(|item| item.unwrap().0).collect();
            let expected: Vec<_> = self.items.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
            let mut sorted = found.clone();
            sorted.sort();
            assert_eq!(sorted, expected);
        }
    }

    /// Bytes of all tables that were written.
    fn written(&self) -> u64 {
        self.keyspace().stats().levels.iter().map(|level| level.bytes_written).sum()
    }

    fn verify(&self) {
        assert_eq!(self.db().verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }

    fn reopen(&mut self) {
        self.db.take().unwrap().close().unwrap();
        self.db = Some(open(&self.disk).unwrap());
    }

    fn crash(&mut self) {
        let disk = self.disk.crash(CrashMode::Kill, 0);
        self.db = Some(open(&disk).unwrap());
        self.disk = disk;
    }

    /// Checks that all is as `design` has it.
    fn check_shape(&self, design: &Design) {
        let stats = self.keyspace().stats();
        let redesign = stats.redesign.unwrap();
        assert_eq!((redesign.done, redesign.remaining_bytes), (1.0, 0));
        for (number, level) in stats.levels.iter().enumerate() {
            assert!(!level.is_outgoing);
            assert_eq!((level.level, level.depth), (number, design.depth(number)));
            let most = u64::from(design.level(number).runs);
            let most = if most == 1 { 1 } else { most + most / 2 };
            assert!(level.max_runs_in_a_region <= most, "level {number}: {}", level.max_runs_in_a_region);
        }
        // What is as deep as that was not written for larger regions.
        let unbounded = design.levels.iter().position(|level| level.table_bytes > 1 << 30);
        if let Some(last) = unbounded {
            assert!(stats.levels.len() <= last + 1 || stats.levels[last + 1].runs == 0);
        }
        self.verify();
    }
}

/// The presets, tiny; the last level of those whose leaves never split never does.
fn designs() -> Vec<(String, Design)> {
    let mut designs: Vec<_> =
        presets::all().into_iter().map(|(name, _)| (name.to_owned(), tiny(name))).collect();
    for name in ["lean", "silt"] {
        let (_, design) = designs.iter_mut().find(|(known, _)| known == name).unwrap();
        design.levels.last_mut().unwrap().table_bytes = 1 << 40;
    }
    designs.push(("stepped-merge with a log store".to_owned(), log_stored("stepped-merge")));
    designs
}

/// Pairs of different designs, with their names.
fn pairs() -> Vec<((String, Design), (String, Design))> {
    let designs = designs();
    let pairs = designs.iter().flat_map(|from| designs.iter().map(move |to| (from.clone(), to.clone())));
    pairs.filter(|(from, to)| from.0 != to.0).collect()
}

fn redesign_under_load(from: &Design, to: &Design, schema: Schema, seed: u64) {
    let mut used = Used::new(from, schema, seed);
    // Stores that have much to do, and others that have nothing.
    let before = [1, 3, 10][seed as usize % 3];
    used.write(900, before);
    if seed.is_multiple_of(2) {
        used.db().wait_until_idle().unwrap();
    }
    let snapshot = used.db().snapshot();
    let (old, then) = (used.keyspace(), used.items.clone());
    used.keyspace().redesign(to.clone()).unwrap();
    used.check();
    for part in 0..4 {
        used.write(60, 2 + part);
        used.check();
        if part == 1 {
            let held: Items = snapshot.iter(&old).unwrap().map(Result::unwrap).collect();
            assert_eq!(held, then);
        }
    }
    drop((snapshot, old));
    if seed.is_multiple_of(3) {
        used.crash()
    } else {
        used.reopen()
    }
    assert_eq!(used.keyspace().design(), *to);
    used.check();
    used.write(200, 4);
    used.check();
    used.verify();
    used.db().wait_until_idle().unwrap();
    used.check_shape(to);
    used.check();
    used.write(100, 5);
    used.reopen();
    used.check();
    used.db().flush().unwrap();
    used.db().wait_until_idle().unwrap();
    used.check_shape(to);
    used.check();
}

#[test]
fn every_preset_becomes_every_other_under_load() {
    for (seed, ((from_name, from), (to_name, to))) in pairs().iter().enumerate() {
        println!("{from_name} to {to_name}");
        redesign_under_load(from, to, Schema::Point, seed as u64);
        if seed.is_multiple_of(2) || is_long() {
            let (from, to) = (fitting(from.clone(), ORDERED), fitting(to.clone(), ORDERED));
            if from != to {
                redesign_under_load(&from, &to, ORDERED, seed as u64 + 1);
            }
        }
    }
}

#[test]
fn any_design_becomes_any_other() {
    for seed in 0..if is_long() { 1000 } else { 30 } {
        let mut rng = Rng::new(seed ^ 0x0DE5);
        let designs = [random_design(&mut rng), random_design(&mut rng), random_design(&mut rng)];
        println!("seed {seed}");
        let mut used = Used::new(&designs[0], Schema::Point, seed);
        used.write(700, 1 + seed % 9);
        // The second redesign begins before the first is over.
        for design in &designs[1..] {
            used.keyspace().redesign(design.clone()).unwrap();
            used.write(rng.below(200), rng.below(6));
            used.check();
            if rng.one_in(3) {
                used.crash();
            }
        }
        used.write(200, 3);
        used.check();
        used.db().wait_until_idle().unwrap();
        used.check();
        used.check_shape(&designs[2]);
        let history = used.keyspace().design_history();
        assert_eq!(history.len(), 2);
        assert_eq!(history[1].from.levels, designs[1].levels);
        assert_eq!(history[1].to.levels, designs[2].levels);
        assert!(history.iter().all(|change| change.settled_ms.is_some()));
    }
}

#[test]
fn nobody_works_or_waits_for_a_redesign_when_writing() {
    for ((from_name, from), (to_name, to)) in pairs() {
        let mut used = Used::new(&from, Schema::Point, 7);
        used.write(1_500, 3);
        // As deep as it gets, and nothing to do but what the new design dislikes.
        used.db().flush().unwrap();
        used.db().wait_until_idle().unwrap();
        let before = used.written();
        used.keyspace().redesign(to).unwrap();
        let smallest = used.keyspace().design().write_buffer_bytes().min(200);
        for number in 0..smallest / 100 {
            used.keyspace().put(numbered_key(number as u32), b"new").unwrap();
            used.items.insert(numbered_key(number as u32).to_vec(), b"new".to_vec());
        }
        assert_eq!(used.written(), before, "{from_name} to {to_name}: writers did the work");
        used.check();
    }
}

#[test]
fn redesigns_in_threads_beside_a_writer_lose_nothing() {
    let designs = [presets::siltstone(), presets::leveled(), presets::silt(), presets::lsm_trie()];
    let designs = designs.map(|design| design.scaled_to(64 << 10));
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: 32 << 20, background_threads: 2, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let keyspace = db.create_keyspace("items", keyspace_options(Schema::Point, designs[3].clone())).unwrap();
    let mut expected = BTreeMap::new();
    for round in 0..8u32 {
        for number in 0..4_000u32 {
            let number = (number * 7 + round * 131) % 9_000;
            keyspace.put(numbered_key(number), round.to_le_bytes().repeat(10)).unwrap();
            expected.insert(number, round);
            if number.is_multiple_of(64) {
                let found = keyspace.get(numbered_key(number)).unwrap().unwrap();
                assert_eq!(found[..4], round.to_le_bytes());
            }
        }
        keyspace.redesign(designs[round as usize % 4].clone()).unwrap();
    }
    db.wait_until_idle().unwrap();
    assert_eq!(keyspace.stats().redesign.unwrap().done, 1.0);
    for (number, round) in &expected {
        let found = keyspace.get(numbered_key(*number)).unwrap().unwrap();
        assert_eq!(found[..4], round.to_le_bytes());
    }
    let report = db.verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn batches_made_before_a_redesign_are_written_after_it() {
    for synced in [false, true] {
        let mut used = Used::new(&tiny("stepped-merge"), Schema::Point, 3);
        used.write(50, 2);
        let keyspace = used.keyspace();
        let mut batch = Batch::new();
        // A log store reads items from the log, and these will stand there in a form that can't be.
        for number in 0..40u32 {
            batch.put(&keyspace, numbered_key(number), [7; 50]).unwrap();
            used.items.insert(numbered_key(number).to_vec(), vec![7; 50]);
        }
        keyspace.redesign(tiny("silt")).unwrap();
        used.db().write(&batch, &WriteOptions::default()).unwrap();
        used.check();
        used.write(100, 1);
        used.check();
        if synced {
            used.db().sync().unwrap();
        }
        used.crash();
        used.check();
        used.db().wait_until_idle().unwrap();
        used.check_shape(&tiny("silt"));
        used.check();
    }
}

#[test]
fn what_a_memtable_held_is_replayed_into_the_new_designs_log_store() {
    let mut used = Used::new(&tiny("stepped-merge"), Schema::Point, 4);
    used.write(30, 0);
    used.keyspace().redesign(tiny("silt")).unwrap();
    used.write(30, 0);
    used.crash();
    used.check();
    used.keyspace().redesign(tiny("leveled")).unwrap();
    used.write(30, 0);
    used.crash();
    used.check();
}

#[test]
fn a_bulk_build_lays_items_in_a_trie_of_two_designs() {
    for ((_, from), (_, to)) in pairs().into_iter().step_by(5) {
        let mut used = Used::new(&from, Schema::Point, 11);
        used.write(1_200, 6);
        used.keyspace().redesign(to.clone()).unwrap();
        used.write(50, 1);
        let items: Vec<_> = (0..900u32).map(|n| (numbered_key(n * 3 % 700), numbered_value(n, 40))).collect();
        used.keyspace().ingest(items.iter().map(|(key, value)| (key, value))).unwrap();
        used.items.extend(items.iter().map(|(key, value)| (key.to_vec(), value.clone())));
        used.check();
        used.verify();
        used.db().wait_until_idle().unwrap();
        used.check();
        used.check_shape(&to);
    }
}

#[test]
fn checkpoints_and_read_only_openings_take_the_middle_of_a_redesign_along() {
    let (from, to) = (tiny("siltstone"), tiny("silt"));
    let mut used = Used::new(&from, Schema::Point, 21);
    used.write(1_500, 5);
    used.keyspace().redesign(to.clone()).unwrap();
    used.write(50, 1);
    used.db().checkpoint("/copy").unwrap();
    let copy = Db::open_on(Arc::new(used.disk.clone()), "/copy", options()).unwrap();
    let keyspace = copy.get_keyspace("items").unwrap();
    assert_eq!((contents(&keyspace), keyspace.design()), (used.items.clone(), to.clone()));
    assert!(keyspace.stats().redesign.unwrap().done < 1.0);
    copy.wait_until_idle().unwrap();
    assert_eq!(keyspace.stats().redesign.unwrap().done, 1.0);
    assert_eq!(contents(&keyspace), used.items);
    let reading = Db::open_read_only_on(Arc::new(used.disk.clone()), DIR, options()).unwrap();
    assert_eq!(contents(&reading.get_keyspace("items").unwrap()), used.items);
    assert_eq!(reading.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn progress_counts_what_is_left() {
    let mut used = Used::new(&tiny("stepped-merge"), Schema::Point, 5);
    assert_eq!(used.keyspace().stats().redesign, None);
    used.write(1_500, 10);
    used.db().flush().unwrap();
    used.db().wait_until_idle().unwrap();
    let to = Design { max_garbage: 0.4, ..tiny("leveled") };
    used.keyspace().redesign(to.clone()).unwrap();
    let mut before = used.keyspace().stats().redesign.unwrap();
    assert!(before.remaining_bytes > 0 && before.remaining_regions > 0 && before.done < 1.0);
    assert_eq!((before.from.as_str(), before.to.as_str()), ("custom", "custom"));
    // The rest takes time in proportion to its bytes.
    let us_per_byte = before.remaining_us / before.remaining_bytes as f64;
    assert!(us_per_byte > 1e-4, "{before:?}");
    while used.db().step().unwrap() {
        let now = used.keyspace().stats().redesign.unwrap();
        assert!(now.remaining_bytes <= before.remaining_bytes, "{now:?} after {before:?}");
        assert!(now.remaining_us <= 1.1 * us_per_byte * now.remaining_bytes as f64, "{now:?}");
        before = now;
    }
    used.check_shape(&to);
    // The same design again is no redesign, and what is as it should be is not rewritten.
    let written = used.written();
    used.keyspace().redesign(to.clone()).unwrap();
    assert_eq!(used.keyspace().design_history().len(), 1);
    let larger = Design { max_garbage: 0.6, ..to };
    used.keyspace().redesign(larger).unwrap();
    used.db().wait_until_idle().unwrap();
    assert_eq!(used.written(), written);
    assert_eq!(used.keyspace().design_history().len(), 2);
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let used = Used::new(&tiny("siltstone"), ORDERED, 6);
    let refused = |design: Design, field: &str| {
        let error = used.keyspace().redesign(design).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(field) && error.to_string().contains("items"), "{error}");
    };
    refused(tiny("silt"), "write_buffer");
    let mut design = tiny("siltstone");
    design.levels[1].table_filter = TableFilterSpec::Bloom { bits_per_key: 0 };
    refused(design, "levels[1].table_filter");
    let design = Design { write_buffer: WriteBufferSpec::MemTable { bytes: 1 << 30 }, ..tiny("siltstone") };
    refused(design, "memory_budget_bytes");
    assert_eq!(used.keyspace().design(), tiny("siltstone"));
    used.db().drop_keyspace("items").unwrap();
    let gone = Used::new(&tiny("siltstone"), ORDERED, 6);
    let handle = gone.keyspace();
    gone.db().drop_keyspace("items").unwrap();
    assert_eq!(handle.redesign(tiny("leveled")).unwrap_err().kind(), ErrorKind::NoKeyspace);
}
