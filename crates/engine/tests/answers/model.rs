//! The store beside a `BTreeMap`: random operations, with reopening, killing, background steps, waiting and
//! snapshots among them, and every way of reading compared at every check.
//!
//! `SILTSTONE_LONG=1` runs many more seeds.

use crate::common::operations::{LARGE, Mix, Op, SMALL, operations};
use crate::common::session::Session;
use crate::common::*;
use siltstone::{KeyspaceOptions, ResourceOptions, Resources};

/// Returns how often keyspaces got another schema.
fn run(seed: u64, count: usize, mix: &Mix) -> u64 {
    let mut rng = Rng::new(seed);
    let mut designs = tiny_presets();
    designs.extend([random_design(&mut rng), random_design(&mut rng)]);
    // Each has its turn with point keys, which come first.
    let turn = seed as usize % designs.len();
    designs.rotate_left(turn);
    let mut session = Session::new(&designs);
    for (number, op) in operations(&mut rng, count, mix).iter().enumerate() {
        let name = format!("{op:?}");
        let context = || format!("seed {seed}, operation {number}: {}", &name[..name.len().min(60)]);
        let guard = Said(Some(context()));
        session.run(op).unwrap_or_else(|error| panic!("{}: {error}", context()));
        guard.defuse();
    }
    assert_eq!(session.db().verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    session.schema_changes
}

/// Three stores that share a budget and its caches, in turn: what one does, or how it ends, is nothing to the
/// others, and what the caches keep of one is never another's.
#[test]
fn stores_that_share_resources_do_not_meet() {
    for seed in 30_000..30_000 + if is_long() { 300 } else { 8 } {
        let mut rng = Rng::new(seed);
        let budget = ResourceOptions { memory_budget_bytes: 2 << 20, ..ResourceOptions::default() };
        let resources = Resources::new(budget).unwrap();
        let mut designs = tiny_presets();
        let turn = seed as usize % designs.len();
        designs.rotate_left(turn);
        let share = || Some(resources.clone());
        let mut sessions: Vec<_> = (0..3).map(|_| Session::sharing(&designs, share())).collect();
        for (number, op) in operations(&mut rng, 400, &SMALL).iter().enumerate() {
            let store = rng.below(3) as usize;
            let guard = Said(Some(format!("seed {seed}, operation {number} of store {store}: {op:?}")));
            sessions[store].run(op).unwrap();
            guard.defuse();
        }
        sessions.iter_mut().for_each(|session| session.check(seed));
        drop(sessions);
        assert_eq!((resources.stats().stores, resources.stats().memory.memtable), (0, 0));
    }
}

/// Says where a test was when it panicked.
struct Said(Option<String>);

impl Said {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        if let Some(context) = &self.0 {
            eprintln!("at {context}");
        }
    }
}

#[test]
fn small_items_in_many_shapes() {
    let changes = (0..if is_long() { 2000 } else { 40 }).map(|seed| run(seed, 250, &SMALL)).sum::<u64>();
    println!("{changes} changes of schemas");
    assert!(changes > 0);
}

#[test]
fn large_values_and_keys() {
    for seed in 10_000..10_000 + if is_long() { 200 } else { 6 } {
        run(seed, 120, &LARGE);
    }
}

#[test]
fn long_histories_grow_deep_tries() {
    let mix = Mix { variety: 3000, ..SMALL };
    for seed in 20_000..20_000 + if is_long() { 50 } else { 2 } {
        run(seed, 1500, &mix);
    }
}

#[test]
fn a_group_larger_than_its_region_settles() {
    for preset in ["stepped-merge", "leveled", "slimdb", "siltstone"] {
        let disk = siltstone::io::sim::SimDisk::new();
        let db = open(&disk).unwrap();
        let files = db.keyspace("files", keyspace_options(ORDERED, tiny(preset))).unwrap();
        let mut steps = 0;
        for n in 0..2000u32 {
            files.put(format!("one/{n:08}").as_bytes(), [7; 100]).unwrap();
            if n % 50 == 0 {
                while db.step().unwrap() {
                    steps += 1;
                    assert!(steps < 5000, "compaction of one group goes on for ever ({preset})");
                }
            }
        }
        let levels = db.stats().keyspaces[0].levels.len();
        assert!(levels < 64, "one group has made {levels} levels ({preset})");
        assert_eq!(files.prefix(b"one/").unwrap().count(), 2000);
        db.close().unwrap();
        assert_eq!(contents(&open(&disk).unwrap().get_keyspace("files").unwrap()).len(), 2000);
    }
}

#[test]
fn what_has_been_deleted_gives_its_space_back() {
    for preset in ["stepped-merge", "leveled", "slimdb", "siltstone"] {
        let disk = siltstone::io::sim::SimDisk::new();
        let db = open(&disk).unwrap();
        let options =
            KeyspaceOptions { schema: ORDERED, design: Some(tiny(preset)), ..KeyspaceOptions::default() };
        let files = db.keyspace("files", options).unwrap();
        let fill = |from: u32| {
            for n in from..from + 1000 {
                files.put(format!("d{}/{n}", n % 20).as_bytes(), [1; 100]).unwrap();
            }
            db.flush().unwrap();
            db.wait_until_idle().unwrap();
        };
        fill(0);
        let full = disk.used_bytes();
        for round in 1..=8 {
            for dir in 0..20 {
                files.delete_prefix(format!("d{dir}/").as_bytes()).unwrap();
            }
            assert_eq!(contents(&files).len(), 0);
            fill(round * 1000);
            assert_eq!(contents(&files).len(), 1000);
        }
        let used = disk.used_bytes();
        assert!(used < full * 6, "{full} bytes after one round, {used} after nine ({preset})");
    }
}

#[test]
fn expired_items_are_gone_from_every_read_and_from_disk() {
    let mut session = Session::new(&tiny_presets());
    let mut rng = Rng::new(3);
    for n in 0..400u32 {
        let key = format!("key{n}").into_bytes();
        let expires_at_ms = if n % 2 == 0 { 0 } else { 1 + u64::from(n) };
        let effect = Effect::Put { keyspace: "point".into(), key, value: rng.bytes(60), expires_at_ms };
        session.write(&[effect], false).unwrap();
    }
    for op in [Op::Flush, Op::Wait { ms: 200 }, Op::Check { seed: 1 }, Op::StepAll, Op::Wait { ms: 201 }] {
        session.run(&op).unwrap();
    }
    session.check(2);
    session.run(&Op::StepAll).unwrap();
    session.run(&Op::Kill).unwrap();
    session.check(3);
    assert_eq!(contents(&session.keyspace("point")).len(), 200);
}
