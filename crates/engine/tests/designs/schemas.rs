//! Changes of schemas: from every kind to every other while the store is in use, whatever comes in between,
//! and with a crash at every call.

use super::used::*;
use crate::common::*;
use siltstone::io::sim::{CrashMode, Fault, FaultError};
use siltstone::{
    Batch, Change, Db, Design, ErrorKind, Keyspace, KeyspaceOptions, Options, Schema, WriteOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn change_under_load(from: Schema, to: Schema, merges: bool, seed: u64) {
    println!("{from} to {to}, seed {seed}");
    let mut used = Used::new(from, fitting(tiny("siltstone"), from), merges, seed);
    let keyspace = used.keyspace();
    used.use_it(&keyspace, 900, [1, 3, 10][seed as usize % 3]);
    let (snapshot, then) = (used.db().snapshot(), used.items.clone());
    let mut walk = keyspace.iter().unwrap();
    let design = (seed.is_multiple_of(2)).then(|| fitting(tiny("leveled"), to));
    keyspace.change_schema(to, design.clone()).unwrap();
    assert_eq!(keyspace.schema(), from);
    used.use_it(&keyspace, 30, 0);
    let first = walk.next().unwrap().unwrap();
    if seed % 4 == 1 {
        used.use_it(&keyspace, 20, 5);
        let is_open = keyspace.schema() == from;
        drop((snapshot, walk, keyspace));
        used.reopen(seed % 8 == 1);
        let keyspace = used.keyspace();
        assert_eq!(keyspace.stats().schema_change.is_some(), is_open);
        used.check(&keyspace);
        used.use_it(&keyspace, 200, 3);
        finish(&mut used, &keyspace, to, design);
        return;
    }
    while keyspace.schema() == from {
        used.use_it(&keyspace, 15, 3);
        if used.rng.one_in(4) {
            used.check(&keyspace);
        }
    }
    // Old handles, snapshots and iterators.
    let held: Items = snapshot.iter(&keyspace).unwrap().map(Result::unwrap).collect();
    assert_eq!(held, then);
    for (key, value) in then.iter().step_by(17) {
        assert_eq!(snapshot.get(&keyspace, key).unwrap().as_ref(), Some(value));
    }
    if from != Schema::Point {
        let key = then.keys().next().unwrap();
        let prefix = prefix_of(from, key);
        let of_group = then.keys().filter(|key| prefix_of(from, key) == prefix).count();
        assert_eq!(snapshot.prefix(&keyspace, prefix).unwrap().count(), of_group);
    }
    let mut walked: Items = walk.map(Result::unwrap).collect();
    walked.insert(first.0, first.1);
    assert_eq!(walked, then);
    drop(snapshot);
    finish(&mut used, &keyspace, to, design);
}

fn finish(used: &mut Used, keyspace: &Keyspace, to: Schema, design: Option<Design>) {
    keyspace.wait_for_schema().unwrap();
    assert_eq!(keyspace.schema(), to);
    if let Some(design) = design {
        assert_eq!(keyspace.design(), design);
    }
    if let Some(progress) = keyspace.stats().schema_change {
        assert_eq!((progress.to, progress.done, progress.remaining_bytes), (to, 1.0, 0));
    }
    used.check(keyspace);
    used.use_it(keyspace, 200, 4);
    used.check(keyspace);
    used.verify();
    used.reopen(true);
    let keyspace = used.keyspace();
    assert_eq!(keyspace.schema(), to);
    assert_eq!(keyspace.stats().schema_change, None);
    used.check(&keyspace);
    used.db().flush().unwrap();
    used.db().wait_until_idle().unwrap();
    used.check(&keyspace);
    used.verify();
    used.check_reopened(keyspace);
}

#[test]
fn every_schema_becomes_every_other_under_load() {
    for (seed, (from, to)) in pairs().into_iter().enumerate() {
        let seed = seed as u64;
        change_under_load(from, to, seed % 3 == 2, seed);
        if is_long() {
            (1..12u64)
                .for_each(|more| change_under_load(from, to, more.is_multiple_of(2), seed + more * 100));
        }
    }
}

#[test]
fn threads_write_and_read_while_schemas_change() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: 32 << 20, background_threads: 2, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let design = Some(siltstone::presets::siltstone().scaled_to(64 << 10));
    let made = KeyspaceOptions { schema: Schema::Point, design, merge_operator: None };
    let keyspace = db.create_keyspace("items", made).unwrap();
    const WRITERS: u64 = 3;
    let (is_over, acknowledged) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; WRITERS as usize]);
    let key =
        |writer: u64, number: u64| format!("g{}/w{writer}/{:04}", number % 5, number % 3_000).into_bytes();
    let rounds = if is_long() { 30 } else { 6 };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (keyspace, is_over, acknowledged) =
                (keyspace.clone(), &is_over, &acknowledged[writer as usize]);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    // Of each key the number of its last write; a counter beside, read and written.
                    keyspace.put(key(writer, number), number.to_le_bytes()).unwrap();
                    acknowledged.store(number + 1, Ordering::Release);
                    let count = |old: Option<&[u8]>| {
                        let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
                        Some((old + 1).to_le_bytes().to_vec())
                    };
                    if number.is_multiple_of(8) {
                        keyspace.update(b"g0/all/0000", count).unwrap();
                    }
                }
            });
        }
        // What is built meanwhile into another keyspace stands in the log as well, and is not waited for.
        scope.spawn(|| {
            let built = db.create_keyspace("built", KeyspaceOptions::default()).unwrap();
            for round in 0u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                built.ingest((0..50u64).map(|number| (number.to_be_bytes(), round.to_le_bytes()))).unwrap();
            }
        });
        for _ in 0..2 {
            let (keyspace, is_over, acknowledged) = (keyspace.clone(), &is_over, &acknowledged);
            scope.spawn(move || {
                let mut rng = Rng::new(5);
                while !is_over.load(Ordering::Relaxed) {
                    let writer = rng.below(WRITERS);
                    let done = acknowledged[writer as usize].load(Ordering::Acquire);
                    if done == 0 {
                        continue;
                    }
                    let number = done.saturating_sub(1 + rng.below(3_000.min(done)));
                    let found = keyspace.get(key(writer, number)).unwrap();
                    let found = found.map(|found| u64::from_le_bytes(found.try_into().unwrap()));
                    assert!(found.is_some_and(|found| found >= number), "{number} of {writer}: {found:?}");
                }
            });
        }
        let schemas = schemas();
        for round in 0..rounds {
            let schema = schemas[(round + 1) % schemas.len()];
            keyspace.change_schema(schema, None).unwrap();
            keyspace.wait_for_schema().unwrap();
            assert_eq!(keyspace.schema(), schema);
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let mut updates = 0;
    for writer in 0..WRITERS {
        let done = acknowledged[writer as usize].load(Ordering::Acquire);
        updates += done.div_ceil(8);
        for number in done.saturating_sub(3_000)..done {
            let found = keyspace.get(key(writer, number)).unwrap().unwrap();
            assert_eq!(found, number.to_le_bytes());
        }
    }
    assert_eq!(keyspace.get(b"g0/all/0000").unwrap().unwrap(), updates.to_le_bytes());
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

/// All that a crash may leave of a change at one call: the old keyspace or the new one.
#[test]
fn a_crash_at_any_call_leaves_the_old_keyspace_or_the_new_one() {
    let pairs = [
        (Schema::Point, Schema::delimited(b'/')),
        (Schema::delimited(b'/'), Schema::fixed(6).hashed()),
        (Schema::fixed(3), Schema::Point),
    ];
    let mut recoveries = 0;
    for (seed, (from, to)) in pairs.into_iter().enumerate() {
        let mut used = Used::new(from, fitting(tiny("stepped-merge"), from), seed == 1, seed as u64);
        let keyspace = used.keyspace();
        used.use_it(&keyspace, 250, 5);
        let mut models = vec![used.items.clone()];
        used.disk.record_images(true);
        used.disk.set_marker(0);
        keyspace.change_schema(to, None).unwrap();
        let recorded_at = used.disk.take_recorded().len();
        assert!(recorded_at > 0);
        while keyspace.schema() == from || models.len() < 40 {
            used.disk.set_marker(models.len() as u64);
            used.operate(&keyspace);
            models.push(used.items.clone());
            used.disk.set_marker(models.len() as u64 | 1 << 32);
            used.db().step().unwrap();
        }
        let images = used.disk.take_recorded();
        let step = if is_long() { 1 } else { 3 };
        for (number, (call, image)) in images.iter().enumerate().step_by(step) {
            let is_between = call.marker >> 32 == 1;
            let done = (call.marker & u64::from(u32::MAX)) as usize;
            // Between operations all are acknowledged; within one, it may be there.
            let possible = if is_between { done - 1..=done - 1 } else { done - 1..=done };
            for mode in CrashMode::ALL {
                recoveries += 1;
                let disk = image.crash(mode, number as u64);
                let db = durable(&disk);
                let keyspace = db.get_keyspace("items").unwrap();
                assert_eq!(db.keyspaces(), ["items"]);
                let found = contents(&keyspace);
                let is_possible = possible.clone().any(|count| models.get(count) == Some(&found));
                assert!(is_possible, "{from} to {to}, {mode:?} at {call}, {} acknowledged", possible.start());
                assert!([from, to].contains(&keyspace.schema()));
                if number.is_multiple_of(5) {
                    db.wait_until_idle().unwrap();
                    assert_eq!(keyspace.schema(), to, "{mode:?} at {call}");
                    assert_eq!(contents(&keyspace), found);
                    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
                    db.close().unwrap();
                    let db = durable(&disk);
                    let keyspace = db.get_keyspace("items").unwrap();
                    assert_eq!((keyspace.schema(), contents(&keyspace)), (to, found));
                }
            }
        }
    }
    println!("{recoveries} recoveries");
}

#[test]
fn batches_and_transactions_of_before_are_written_after() {
    for (from, to) in pairs() {
        let mut used = Used::new(from, fitting(tiny("siltstone"), from), false, 3);
        let keyspace = used.keyspace();
        used.use_it(&keyspace, 200, 2);
        let mut batch = Batch::new();
        for number in 0..40 {
            batch.put(&keyspace, key_of(number), [7; 50]).unwrap();
            used.items.insert(key_of(number), vec![7; 50]);
        }
        batch.delete(&keyspace, key_of(41)).unwrap();
        used.items.remove(&key_of(41));
        let mut runs = 0;
        let outcome: Result<(), siltstone::Error> =
            used.db().transaction(&WriteOptions::default(), |transaction| {
                runs += 1;
                let old = transaction.get(&keyspace, key_of(42))?;
                transaction.put(&keyspace, key_of(42), [&old.unwrap_or_default()[..], b"+"].concat())?;
                if runs == 1 {
                    keyspace.change_schema(to, None)?;
                    keyspace.wait_for_schema()?;
                }
                Ok(())
            });
        outcome.unwrap();
        assert_eq!((runs, keyspace.schema()), (2, to));
        let old = used.items.get(&key_of(42)).cloned().unwrap_or_default();
        used.items.insert(key_of(42), [&old[..], b"+"].concat());
        used.db().write(&batch, &WriteOptions::default()).unwrap();
        used.check(&keyspace);
        used.reopen(true);
        let keyspace = used.keyspace();
        used.check(&keyspace);
    }
}

#[test]
fn a_prefix_deleted_in_a_batch_of_before_is_deleted_or_refused() {
    let plain = |schema: Schema| schema.prefix_rule().is_some_and(|rule| rule.is_self_delimiting());
    for (from, to) in pairs().into_iter().filter(|(from, _)| *from != Schema::Point) {
        let mut used = Used::new(from, fitting(tiny("siltstone"), from), false, 9);
        let keyspace = used.keyspace();
        used.use_it(&keyspace, 200, 2);
        let prefix = prefix_of(from, &key_of(5)).to_vec();
        let mut batch = Batch::new();
        batch.delete_prefix(&keyspace, &prefix).unwrap();
        batch.put(&keyspace, key_of(5), b"new").unwrap();
        keyspace.change_schema(to, None).unwrap();
        keyspace.wait_for_schema().unwrap();
        let written = used.db().write(&batch, &WriteOptions::default());
        let is_same = from.prefix_rule() == to.prefix_rule()
            || (plain(from) && plain(to) && to.prefix_len(&prefix) == Ok(prefix.len()));
        if is_same {
            written.unwrap();
            used.items.retain(|key, _| !key.starts_with(&prefix));
            used.items.insert(key_of(5), b"new".to_vec());
        } else {
            let kind = written.unwrap_err().kind();
            assert!([ErrorKind::InvalidInput, ErrorKind::BadKey].contains(&kind), "{from} to {to}: {kind:?}");
        }
        used.check(&keyspace);
    }
}

#[test]
fn a_key_that_does_not_fit_is_refused_or_ends_the_change() {
    let to = Schema::fixed(6);
    let mut used = Used::new(Schema::Point, tiny("siltstone"), false, 4);
    let keyspace = used.keyspace();
    used.use_it(&keyspace, 300, 3);
    keyspace.change_schema(to, None).unwrap();
    let error = keyspace.put("short", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadKey);
    assert!(error.to_string().contains("cancel_schema_change"), "{error}");
    assert!(keyspace.cancel_schema_change().unwrap());
    assert!(!keyspace.cancel_schema_change().unwrap());
    assert_eq!(keyspace.wait_for_schema().unwrap_err().kind(), ErrorKind::InvalidInput);
    keyspace.put("short", "1").unwrap();
    used.items.insert(b"short".to_vec(), b"1".to_vec());
    keyspace.change_schema(to, None).unwrap();
    let error = keyspace.wait_for_schema().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadKey);
    assert!(error.to_string().contains("\"short\"") && error.to_string().contains("items"), "{error}");
    let stats = keyspace.stats().schema_change.unwrap();
    assert!(stats.failure.unwrap().contains("short"));
    assert_eq!((keyspace.schema(), contents(&keyspace)), (Schema::Point, used.items.clone()));
    // It is over for good, and nothing is left of it.
    used.db().wait_until_idle().unwrap();
    used.check_files();
    used.reopen(true);
    let keyspace = used.keyspace();
    assert_eq!(keyspace.stats().schema_change, None);
    keyspace.put("tiny", "1").unwrap();
    // A batch of before the change was asked for is not looked at by it, but what it wrote is.
    let mut batch = Batch::new();
    batch.put(&keyspace, "late", "1").unwrap();
    keyspace.delete("short").unwrap();
    keyspace.delete("tiny").unwrap();
    keyspace.change_schema(to, None).unwrap();
    used.db().write(&batch, &WriteOptions::default()).unwrap();
    assert_eq!(keyspace.wait_for_schema().unwrap_err().kind(), ErrorKind::BadKey);
    assert_eq!(keyspace.get("late").unwrap().as_deref(), Some(&b"1"[..]));
    keyspace.delete("late").unwrap();
    used.items.remove(&b"short"[..]);
    keyspace.change_schema(to, None).unwrap();
    keyspace.wait_for_schema().unwrap();
    used.check(&keyspace);
}

#[test]
fn a_change_is_cancelled_in_its_midst_and_asked_for_again() {
    let (from, to) = (Schema::delimited(b'/'), Schema::Point);
    for steps in 0..6 {
        let mut used = Used::new(from, fitting(tiny("siltstone"), from), false, steps);
        let keyspace = used.keyspace();
        used.use_it(&keyspace, 400, 3);
        used.db().flush().unwrap();
        used.db().wait_until_idle().unwrap();
        keyspace.change_schema(to, None).unwrap();
        for _ in 0..steps {
            if keyspace.schema() == from {
                used.operate(&keyspace);
            }
            used.db().step().unwrap();
        }
        let was_open = keyspace.schema() == from;
        assert_eq!(keyspace.cancel_schema_change().unwrap(), was_open);
        used.db().wait_until_idle().unwrap();
        used.check(&keyspace);
        drop(keyspace);
        used.reopen(steps.is_multiple_of(2));
        let keyspace = used.keyspace();
        used.check(&keyspace);
        used.check_files();
        let next = if was_open { to } else { from };
        keyspace.change_schema(next, None).unwrap();
        keyspace.wait_for_schema().unwrap();
        assert_eq!(keyspace.schema(), next);
        used.check(&keyspace);
    }
}

#[test]
fn what_comes_between_is_heeded() {
    let (from, to) = (Schema::delimited(b'/'), Schema::fixed(6));
    let mut used = Used::new(from, fitting(tiny("siltstone"), from), false, 2);
    let keyspace = used.keyspace();
    used.use_it(&keyspace, 300, 3);
    keyspace.change_schema(to, None).unwrap();
    // The same once more is the same; another is refused, and so is a design.
    keyspace.change_schema(to, None).unwrap();
    for refused in [
        keyspace.change_schema(Schema::Point, None),
        keyspace.redesign(fitting(tiny("leveled"), from)),
        used.db().keyspace("items", keyspace_options(to, tiny("siltstone"))).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("wait_for_schema"), "{error}");
    }
    while keyspace.stats().schema_change.unwrap().done == 0.0 {
        used.db().step().unwrap();
    }
    // What does not stand in the log: the copy is begun anew.
    let items: Vec<_> = (0..300).map(|n| (key_of(n), numbered_value(n as u32, 40))).collect();
    keyspace.ingest(items.iter().map(|(key, value)| (key, value))).unwrap();
    used.items.extend(items);
    used.use_it(&keyspace, 20, 0);
    keyspace.wait_for_schema().unwrap();
    used.check(&keyspace);
    keyspace.change_schema(from, None).unwrap();
    used.db().step().unwrap();
    keyspace.clear().unwrap();
    used.items.clear();
    used.use_it(&keyspace, 100, 0);
    keyspace.wait_for_schema().unwrap();
    assert_eq!(keyspace.schema(), from);
    used.check(&keyspace);
    // A keyspace that is dropped takes its change with it.
    keyspace.change_schema(to, None).unwrap();
    used.db().step().unwrap();
    used.db().drop_keyspace("items").unwrap();
    used.db().wait_until_idle().unwrap();
    assert_eq!(keyspace.wait_for_schema().unwrap_err().kind(), ErrorKind::NoKeyspace);
    assert_eq!(keyspace.put("g0/s0/0000", "1").unwrap_err().kind(), ErrorKind::NoKeyspace);
}

#[test]
fn checkpoints_backups_and_read_only_openings_take_a_change_along() {
    let (from, to) = (Schema::Point, Schema::delimited(b'/'));
    let mut used = Used::new(from, tiny("siltstone"), false, 21);
    let keyspace = used.keyspace();
    used.use_it(&keyspace, 500, 3);
    keyspace.change_schema(to, None).unwrap();
    used.db().checkpoint("/copy").unwrap();
    let reading = Db::open_read_only_on(Arc::new(used.disk.clone()), DIR, options()).unwrap();
    let read = reading.get_keyspace("items").unwrap();
    assert_eq!((read.schema(), contents(&read)), (from, used.items.clone()));
    assert_eq!(read.stats().schema_change.unwrap().to, to);
    let copy = Db::open_on(Arc::new(used.disk.clone()), "/copy", options()).unwrap();
    let copied = copy.get_keyspace("items").unwrap();
    assert_eq!(copied.schema(), from);
    copied.wait_for_schema().unwrap();
    assert_eq!((copied.schema(), contents(&copied)), (to, used.items.clone()));
    keyspace.wait_for_schema().unwrap();
    let reading = Db::open_read_only_on(Arc::new(used.disk.clone()), DIR, options()).unwrap();
    let read = reading.get_keyspace("items").unwrap();
    assert_eq!((read.schema(), contents(&read)), (to, used.items.clone()));
}

#[test]
fn whoever_inspects_a_store_sees_the_schema_to_come() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options { background_threads: 0, ..Options::default() }).unwrap();
    let items = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
    let seen = || siltstone::inspect::store(dir.path()).unwrap().keyspaces.remove(0);
    assert_eq!((seen().schema, seen().schema_to_come), (Schema::Point, None));
    items.change_schema(Schema::fixed(3), None).unwrap();
    assert_eq!((seen().schema, seen().schema_to_come), (Schema::Point, Some(Schema::fixed(3))));
    items.wait_for_schema().unwrap();
    assert_eq!((seen().schema, seen().schema_to_come), (Schema::fixed(3), None));
}

#[test]
fn a_tail_sees_each_write_once_over_a_change() {
    let (from, to) = (Schema::delimited(b'/'), Schema::fixed(6).hashed());
    let mut used = Used::new(from, fitting(tiny("siltstone"), from), false, 8);
    let mut tail = used.db().tail(used.db().log_position()).unwrap();
    let keyspace = used.keyspace();
    let mut copy = Items::new();
    let mut follow = |schema: Schema| {
        for batch in tail.by_ref() {
            for operation in batch.unwrap().operations {
                assert_eq!(&*operation.keyspace, "items");
                match operation.change {
                    Change::Put { value, .. } => drop(copy.insert(operation.key, value)),
                    Change::Delete => drop(copy.remove(&operation.key)),
                    Change::DeletePrefix => {
                        copy.retain(|key, _| prefix_of(schema, key) != operation.key);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        copy.clone()
    };
    used.use_it(&keyspace, 200, 3);
    keyspace.change_schema(to, None).unwrap();
    while keyspace.schema() == from {
        assert_eq!(follow(from), used.items);
        used.use_it(&keyspace, 10, 3);
        follow(keyspace.schema());
    }
    used.use_it(&keyspace, 100, 3);
    assert_eq!(follow(to), used.items);
}

#[test]
fn a_full_disk_lets_go_of_the_copy_and_it_is_begun_again() {
    let (from, to) = (Schema::Point, Schema::delimited(b'/'));
    let mut used = Used::new(from, tiny("siltstone"), false, 5);
    let keyspace = used.keyspace();
    used.use_it(&keyspace, 1_500, 10);
    used.db().flush().unwrap();
    used.db().wait_until_idle().unwrap();
    let before = used.disk.used_bytes();
    used.disk.set_capacity(Some(before + before / 8));
    keyspace.change_schema(to, None).unwrap();
    assert!(keyspace.wait_for_schema().is_err());
    assert_eq!(keyspace.schema(), from);
    used.check(&keyspace);
    assert!(used.disk.used_bytes() < before + before / 16, "the copy takes no room");
    used.disk.set_capacity(None);
    keyspace.wait_for_schema().unwrap();
    assert_eq!(keyspace.schema(), to);
    used.check(&keyspace);
}

/// A call fails in the midst of a change. Either the copy is begun anew, or the store is in doubt and is
/// opened again; the items are what they were, and in the end the keyspace has the schema.
#[test]
fn a_call_that_fails_costs_no_more_than_a_copy() {
    let (from, to) = (Schema::delimited(b'/'), Schema::fixed(6).hashed());
    let (mut met, mut reopened) = (0, 0);
    // More than the change takes.
    let calls = 120;
    for after in (0..calls).step_by(if is_long() { 1 } else { 3 }) {
        let mut used = Used::new(from, fitting(tiny("siltstone"), from), false, after);
        let keyspace = used.keyspace();
        used.use_it(&keyspace, 150, 3);
        keyspace.change_schema(to, None).unwrap();
        used.disk.inject(Fault::on_any(FaultError::Io).after(after).times(1));
        for _ in 0..30 {
            let _ = used.db().step();
        }
        met += used.disk.failed_calls();
        used.disk.clear_faults();
        if keyspace.put("g0/s0/0000", "after").is_ok() {
            used.items.insert(b"g0/s0/0000".to_vec(), b"after".to_vec());
            used.check(&keyspace);
        } else {
            reopened += 1;
            drop(keyspace);
            used.reopen(true);
        }
        let keyspace = used.keyspace();
        used.check(&keyspace);
        keyspace.wait_for_schema().unwrap();
        assert_eq!(keyspace.schema(), to, "a failure at call {after}");
        used.check(&keyspace);
        used.verify();
        used.check_reopened(keyspace);
    }
    println!("{met} calls failed, and {reopened} times the store was opened again");
    assert!(met > 10, "{met} calls failed");
    assert!(reopened > 0, "some failures leave a store in doubt");
}

/// Write buffers, tables and filters of every kind are copied from and built.
#[test]
fn every_design_comes_with_a_schema_and_goes_with_one() {
    let grouped = Schema::delimited(b'/');
    for (number, design) in tiny_presets().into_iter().chain(log_store_designs()).enumerate() {
        let number = number as u64;
        let mut used = Used::new(grouped, fitting(tiny("siltstone"), grouped), false, number);
        let keyspace = used.keyspace();
        used.use_it(&keyspace, 500, 4);
        for (to, design) in [(Schema::Point, design.clone()), (grouped, fitting(design, grouped))] {
            let from = keyspace.schema();
            keyspace.change_schema(to, Some(design.clone())).unwrap();
            while keyspace.schema() == from {
                used.use_it(&keyspace, 10, 3);
            }
            assert_eq!((keyspace.schema(), keyspace.design()), (to, design));
            used.check(&keyspace);
            used.use_it(&keyspace, 120, 2);
            used.check(&keyspace);
            used.verify();
        }
        drop(keyspace);
        used.reopen(number.is_multiple_of(2));
        let keyspace = used.keyspace();
        used.check(&keyspace);
        used.db().flush().unwrap();
        used.db().wait_until_idle().unwrap();
        used.check(&keyspace);
        used.verify();
    }
}
