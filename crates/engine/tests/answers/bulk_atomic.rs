//! Bulk builds and replacements are whole or were not: under crashes, errors, readers and writers beside
//! them.

use crate::common::bulk::*;
use crate::common::*;
use siltstone::io::sim::{CallKind, CrashMode, Fault, FaultError, SimDisk};
use siltstone::{Db, ErrorKind, Ingest, IngestOptions, Keyspace, KeyspaceOptions, Options, presets};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn one_build_at_a_time_and_none_after_the_end() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    let other = create(&db, "other", tiny("siltstone"));
    let options = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
    let give = |ingest: &mut Ingest<'_>| {
        let error = keyspace.ingest([("k", "v")]).unwrap_err();
        assert!(error.to_string().contains("built or replaced already"), "{error}");
        assert!(db.replace(&keyspace, other.clone()).is_err());
        assert!(db.replace(&other, keyspace.clone()).is_err());
        items(2000, 60).iter().try_for_each(|(key, value)| ingest.put(key, value))?;
        db.clone().close().unwrap();
        items(2000, 60).iter().try_for_each(|(key, value)| ingest.put(key, value))
    };
    let error = keyspace.ingest_with(&options, give).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let calls = disk.mutating_calls();
    drop((keyspace, other, db));
    assert_eq!(disk.mutating_calls(), calls, "a closed store's directory may be another's");
    let db = open(&disk).unwrap();
    assert_eq!(contents(&db.get_keyspace("items").unwrap()).len(), 0);
    assert_eq!(table_files(&disk), 0, "the next open removes what was left");
}

#[test]
fn a_dropped_keyspace_is_not_built() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    for at in [0, 1500, 2999] {
        let keyspace = if at == 0 { keyspace.clone() } else { create(&db, "items", tiny("siltstone")) };
        let options = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
        let give = |ingest: &mut Ingest<'_>| {
            for (number, (key, value)) in items(3000, 60).iter().enumerate() {
                if number == at {
                    db.drop_keyspace("items").unwrap();
                }
                ingest.put(key, value)?;
            }
            Ok::<_, siltstone::Error>(())
        };
        assert_eq!(keyspace.ingest_with(&options, give).unwrap_err().kind(), ErrorKind::NoKeyspace);
    }
    while db.step().unwrap() {}
    assert_eq!(table_files(&disk), 0);
}

/// A build, as the test of crashes and faults runs it: of a keyspace with items in it, and then a
/// replacement.
fn build_and_replace(disk: &SimDisk, sorted: bool) -> siltstone::Result<()> {
    let db = open(disk)?;
    let keyspace = db.get_keyspace("items").unwrap();
    let mut new: Items = (0..500).map(|n| (numbered_key(n).to_vec(), b"new".to_vec())).collect();
    if sorted {
        // The order of the store is that of any keyspace of the same schema.
        let listed = create(&db, "order", tiny("siltstone"));
        listed.ingest(new.clone())?;
        new = listed.iter()?.collect::<Result<_, _>>()?;
        db.drop_keyspace("order")?;
    }
    let options = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
    let put_all = |ingest: &mut Ingest<'_>| new.iter().try_for_each(|(key, value)| ingest.put(key, value));
    disk.set_marker(1);
    keyspace.ingest_with(&options, put_all)?;
    disk.set_marker(2);
    let next = create(&db, "next", tiny("siltstone"));
    next.ingest_with(&options, |ingest| new.iter().try_for_each(|(key, _)| ingest.put(key, b"replaced")))?;
    next.put("more", "replaced")?;
    disk.set_marker(3);
    db.replace(&keyspace, next)?;
    disk.set_marker(4);
    db.close()
}

/// What a store holds of a build: a name for it.
fn state(db: &Db) -> &'static str {
    let keyspace = db.get_keyspace("items").unwrap();
    let found = contents(&keyspace);
    let of = |value: &[u8]| found.values().filter(|found| found.as_slice() == value).count();
    match (of(b"old"), of(b"new"), of(b"replaced"), found.len()) {
        (300, 0, 0, 300) => "before",
        (200, 500, 0, 700) => "ingested",
        (0, 0, 501, 501) => "replaced",
        what => panic!("something half there: {what:?}"),
    }
}

#[test]
fn a_build_that_is_stopped_at_any_call_is_whole_or_was_not() {
    for sorted in [false, true] {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let keyspace = create(&db, "items", tiny("siltstone"));
        (400..700u32).for_each(|n| keyspace.put(numbered_key(n), "old").unwrap());
        drop(keyspace);
        db.close().unwrap();
        disk.settle();
        disk.record_images(true);
        build_and_replace(&disk, sorted).unwrap();
        let images = disk.take_recorded();
        assert!(images.len() > 100, "{} calls", images.len());
        let mut seen: HashMap<&'static str, u64> = HashMap::new();
        for (number, (call, image)) in images.iter().enumerate() {
            for mode in [CrashMode::Kill, CrashMode::PowerCut] {
                let crashed = image.crash(mode, number as u64);
                let db = open(&crashed).unwrap();
                let state = state(&db);
                *seen.entry(state).or_default() += 1;
                let may_be: &[&str] = match call.marker {
                    0 => &["before"],
                    1 => &["before", "ingested"],
                    2 => &["ingested"],
                    3 => &["ingested", "replaced"],
                    _ => &["replaced"],
                };
                assert!(may_be.contains(&state), "{call:?}: {state} after {mode:?}");
                assert_eq!(table_files(&crashed), tables(&db), "{call:?}: files of half a build are left");
                if number % 16 == 0 {
                    assert_sound(&db);
                }
            }
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
    }
}

#[test]
fn a_build_that_meets_errors_changes_nothing_or_is_whole() {
    let mut failed = 0;
    let kinds = [CallKind::Write, CallKind::Create, CallKind::Sync, CallKind::SyncDir];
    for (error, kind) in
        kinds.into_iter().flat_map(|kind| [(FaultError::StorageFull, kind), (FaultError::Io, kind)])
    {
        for call in 0.. {
            let disk = SimDisk::new();
            let db = open(&disk).unwrap();
            let keyspace = create(&db, "items", tiny("siltstone"));
            (400..700u32).for_each(|n| keyspace.put(numbered_key(n), "old").unwrap());
            db.flush().unwrap();
            let options = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
            disk.inject(Fault::new(kind, error).after(call).times(1));
            let outcome = keyspace.ingest_with(&options, |ingest| {
                (0..500u32).try_for_each(|n| ingest.put(numbered_key(n), "new"))
            });
            disk.clear_faults();
            let is_poisoned = keyspace.put("more", "x").is_err();
            if !is_poisoned {
                keyspace.delete("more").unwrap();
                let expected = if outcome.is_ok() { "ingested" } else { "before" };
                assert_eq!(state(&db), expected, "{error:?} at {kind:?} {call}");
                while db.step().unwrap() {}
                // An edit that failed otherwise than by a full disk may be there all the same, so its tables
                // stay.
                if error == FaultError::StorageFull {
                    assert_eq!(table_files(&disk), tables(&db), "{error:?} at {kind:?} {call}");
                }
            }
            failed += u32::from(outcome.is_err());
            drop(keyspace);
            let _ = db.close();
            let db = open(&disk).unwrap();
            let found = state(&db);
            assert!(outcome.is_err() || found == "ingested", "{error:?} at {kind:?} {call}: {found}");
            assert_eq!(table_files(&disk), tables(&db), "{error:?} at {kind:?} {call}");
            if outcome.is_ok() && !is_poisoned {
                // Later calls meet no fault.
                break;
            }
        }
    }
    assert!(failed > 20, "{failed} builds failed");
}

#[test]
fn readers_and_snapshots_see_one_whole_or_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        memory_budget_bytes: 8 << 20,
        background_threads: 2,
        reserve_bytes: 0,
        ..Options::default()
    };
    let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
    let design = presets::siltstone().scaled_to(64 << 10);
    let keyspace = create(&db, "items", design.clone());
    let generation = |number: u32| (0..8000u32).map(move |n| (numbered_key(n), number.to_le_bytes()));
    keyspace.ingest(generation(0)).unwrap();
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (keyspace, db, is_over, rounds) = (&keyspace, &db, &is_over, &rounds);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                while !is_over.load(Ordering::Relaxed) {
                    let keys: Vec<_> = (0..50).map(|_| numbered_key(rng.below(8000) as u32)).collect();
                    let snapshot = db.snapshot();
                    let in_snapshot = snapshot.get(keyspace, keys[0]).unwrap().unwrap();
                    let found = keyspace.multi_get(&keys).unwrap();
                    assert!(found.iter().all(|value| *value == found[0]), "a mixture of generations");
                    assert_eq!(snapshot.get(keyspace, keys[1]).unwrap().unwrap(), in_snapshot);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..12u32 {
            let sorting = IngestOptions { sort_bytes: Some(100 << 10), ..IngestOptions::default() };
            let give = |ingest: &mut Ingest<'_>| {
                generation(number).try_for_each(|(key, value)| ingest.put(key, value))
            };
            if number % 2 == 0 {
                keyspace.ingest_with(&sorting, give).unwrap();
            } else {
                let next = create(&db, "next", design.clone());
                next.ingest_with(&sorting, give).unwrap();
                db.replace(&keyspace, next).unwrap();
            }
            assert_eq!(db.keyspaces(), ["items"]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(rounds.load(Ordering::Relaxed) > 10);
    db.wait_until_idle().unwrap();
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    // The directory can be moved and read by many at once.
    std::fs::rename(dir.path().join("db"), dir.path().join("shipped")).unwrap();
    let readers: Vec<_> =
        (0..3).map(|_| Db::open_read_only(dir.path().join("shipped"), options.clone()).unwrap()).collect();
    for db in &readers {
        assert_eq!(
            db.get_keyspace("items").unwrap().get(numbered_key(77)).unwrap().unwrap(),
            11u32.to_le_bytes()
        );
    }
}

#[test]
fn writers_go_on_beside_a_build() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: 8 << 20, reserve_bytes: 0, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let keyspace = create(&db, "items", presets::siltstone().scaled_to(64 << 10));
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let number = written.fetch_add(1, Ordering::Relaxed) as u32;
                keyspace.put(numbered_key(number), b"written").unwrap();
            }
        });
        let mut last = 0;
        for round in 0..4u32 {
            last = written.load(Ordering::Relaxed);
            let items = (0..40_000u32).map(|n| (numbered_key(n), round.to_le_bytes()));
            keyspace.ingest(items).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        // What was written before the last build began is older than it, what was written later newer.
        let before = (last.saturating_sub(1)).min(39_999);
        for number in 0..before as u32 {
            assert_eq!(keyspace.get(numbered_key(number)).unwrap().unwrap(), 3u32.to_le_bytes());
        }
    });
    let written = written.load(Ordering::Relaxed) as u32;
    assert_eq!(keyspace.get(numbered_key(written - 1)).unwrap().unwrap(), b"written");
    db.wait_until_idle().unwrap();
    assert_sound(&db);
    assert_eq!(contents(&keyspace).len() as u32, written.max(40_000));
}

#[test]
fn a_keyspace_is_replaced_by_one_of_its_kind_only() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    let refused = |built: Keyspace, why: &str| {
        let error = db.replace(&keyspace, built).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(keyspace.clone(), "by itself");
    refused(create(&db, "lean", tiny("lean")), "differ in schema, design");
    let merge_operator = Some("add".to_owned());
    let merging =
        KeyspaceOptions { merge_operator, ..keyspace_options(keyspace.schema(), tiny("siltstone")) };
    refused(db.keyspace("merging", merging).unwrap(), "or merge operator");
    let files = keyspace_options(ORDERED, tiny("siltstone"));
    refused(db.keyspace("files", files).unwrap(), "differ in schema, design");
    let other = open(&SimDisk::new()).unwrap();
    refused(create(&other, "items", tiny("siltstone")), "of this store");
    // A snapshot keeps what was, an update that began before is made again, and the log does not bring old
    // writes back.
    keyspace.put("a", "old").unwrap();
    let next = create(&db, "next", tiny("siltstone"));
    next.put_with_ttl("b", "new", Duration::from_secs(1000)).unwrap();
    let (snapshot, mut calls) = (db.snapshot(), 0);
    let mut next = Some(next);
    let new = keyspace.update("b", |old| {
        calls += 1;
        if let Some(next) = next.take() {
            assert_eq!(old, None);
            db.replace(&keyspace, next).unwrap();
        }
        Some([old.unwrap_or(b"nothing"), b"!"].concat())
    });
    assert_eq!((new.unwrap().unwrap(), calls), (b"new!".to_vec(), 2));
    assert_eq!(snapshot.get(&keyspace, "a").unwrap().unwrap(), b"old");
    assert_eq!(keyspace.get("a").unwrap(), None);
    drop((snapshot, keyspace));
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let keyspace = db.get_keyspace("items").unwrap();
    assert_eq!(keyspace.get("a").unwrap(), None);
    assert_eq!(keyspace.get("b").unwrap().unwrap(), b"new!");
}

#[test]
fn a_full_disk_at_the_end_of_a_build_leaves_what_was_written_meanwhile() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    let give = |ingest: &mut Ingest<'_>| {
        (0..20u32).try_for_each(|n| ingest.put(numbered_key(n), "ingested"))?;
        (0..30u32).for_each(|n| keyspace.put(numbered_key(n), "meanwhile").unwrap());
        db.flush().unwrap();
        disk.inject(Fault::new(CallKind::Write, FaultError::StorageFull).on_path("MANIFEST").times(1));
        Ok::<_, siltstone::Error>(())
    };
    let error = keyspace.ingest_with(&IngestOptions::default(), give).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    disk.clear_faults();
    let is_whole = |keyspace: &Keyspace| {
        let found = contents(keyspace);
        assert!(found.len() == 30 && found.values().all(|value| value == b"meanwhile"));
    };
    is_whole(&keyspace);
    assert_eq!(table_files(&disk), tables(&db));
    // Once there is room the same build lies below them.
    keyspace.put("more", "before").unwrap();
    keyspace.delete("more").unwrap();
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    is_whole(&db.get_keyspace("items").unwrap());
    assert_sound(&db);
}
