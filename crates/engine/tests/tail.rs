//! The change feed: what it hands on, how far back it goes, and copies that follow it through crashes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::*;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{Batch, Change, Db, Durability, ErrorKind, KeyspaceOptions, Options, Schema, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const COPY: &str = "/copy";
const PROGRESS: &str = "progress";

fn retaining(bytes: u64) -> Options {
    Options { tail_retention_bytes: bytes, ..options() }
}

fn open_at(disk: &SimDisk, dir: &str, options: Options) -> Db {
    Db::open_on(Arc::new(disk.clone()), dir, options).unwrap()
}

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// What a store holds, but for how far it has followed another.
fn all(db: &Db) -> Contents {
    let names = db.keyspaces().into_iter().filter(|name| name != PROGRESS);
    let found = names.map(|name| (name.clone(), contents(&db.get_keyspace(&name).unwrap())));
    found.filter(|(_, items)| !items.is_empty()).collect()
}

/// Takes over what `from` has written since `to` last did, and returns how many batches that were.
fn follow(from: &Db, to: &Db, patience: Duration) -> siltstone::Result<u64> {
    let progress = to.keyspace(PROGRESS, KeyspaceOptions::default())?;
    let noted = progress.get("position")?.map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
    let mut tail = from.tail(noted.unwrap_or_else(|| from.oldest_log_position()))?;
    let mut batches = 0;
    while let Some(changes) = tail.next_batch(patience)? {
        assert!(changes.lsn < changes.next_lsn && changes.next_lsn == tail.position());
        let mut batch = Batch::new();
        for operation in &changes.operations {
            let source = from.get_keyspace(&operation.keyspace).unwrap();
            let options = KeyspaceOptions {
                schema: source.schema(),
                design: Some(source.design()),
                ..KeyspaceOptions::default()
            };
            batch.add(&to.keyspace(&operation.keyspace, options)?, operation)?;
        }
        batch.put(&progress, "position", changes.next_lsn.to_be_bytes())?;
        to.write(&batch, &WriteOptions::default())?;
        batches += 1;
    }
    Ok(batches)
}

/// Writes round `n` of a mixed load: batches over keyspaces, deletions, prefixes, times to live.
fn write_round(db: &Db, n: u32) {
    let files = db.keyspace("files", keyspace_options(ORDERED, tiny("stepped-merge"))).unwrap();
    let point = db.keyspace("point", keyspace_options(Schema::Point, tiny("leveled"))).unwrap();
    let log = db.keyspace("log", keyspace_options(Schema::Point, log_stored("leveled"))).unwrap();
    let mut rng = Rng::new(u64::from(n));
    let mut batch = Batch::new();
    for at in 0..6u32 {
        batch.put(&files, format!("d{}/{}", at % 3, rng.below(20)), rng.bytes(30)).unwrap();
        batch.put(&log, rng.below(30).to_be_bytes(), rng.bytes(20)).unwrap();
    }
    batch.delete(&point, rng.below(30).to_be_bytes()).unwrap();
    db.write(&batch, &WriteOptions::default()).unwrap();
    point.put(rng.below(30).to_be_bytes(), rng.bytes(25)).unwrap();
    point.put_with_ttl(b"mortal", rng.bytes(9), Duration::from_secs(3600)).unwrap();
    if n % 5 == 4 {
        files.delete_prefix(format!("d{}/", n % 3)).unwrap();
    }
    log.delete(rng.below(30).to_be_bytes()).unwrap();
}

#[test]
fn a_copy_that_follows_is_equal_through_flushes_and_openings() {
    let disk = SimDisk::new();
    let mut db = open_at(&disk, DIR, retaining(1 << 20));
    let mut batches = 0;
    for n in 0..60 {
        write_round(&db, n);
        if n % 7 == 3 {
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
        if n % 20 == 19 {
            db.close().unwrap();
            db = open_at(&disk, DIR, retaining(1 << 20));
        }
        if n % 9 == 0 {
            db.sync().unwrap();
            let copy = open_at(&disk, COPY, options());
            batches += follow(&db, &copy, Duration::ZERO).unwrap();
            assert!(all(&copy) == all(&db), "round {n}");
            copy.close().unwrap();
        }
    }
    db.sync().unwrap();
    let copy = open_at(&disk, COPY, options());
    batches += follow(&db, &copy, Duration::ZERO).unwrap();
    assert!(all(&copy) == all(&db));
    // Another one, from the beginning, sees every batch once.
    let whole = open_at(&disk, "/whole", options());
    assert_eq!(db.oldest_log_position(), 0);
    assert_eq!(follow(&db, &whole, Duration::ZERO).unwrap(), batches);
    assert!(all(&whole) == all(&db));
    // A reader beside the writer, and one of the closed store, see the same.
    let seen = |db: &Db| db.tail(0).unwrap().map(|batch| batch.unwrap()).collect::<Vec<_>>();
    let beside = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    let expected = seen(&db);
    assert_eq!(expected.len() as u64, batches);
    assert_eq!(seen(&beside), expected);
    db.close().unwrap();
    let closed = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    assert_eq!(seen(&closed), expected);
    let mortal = |change: &Change| matches!(change, Change::Put { expires_at_ms: Some(at), .. } if *at > 0);
    let operations = || expected.iter().flat_map(|batch| &batch.operations);
    assert_eq!(operations().filter(|op| mortal(&op.change)).count(), 60);
    assert_eq!(operations().filter(|op| op.change == Change::DeletePrefix).count(), 12);
    println!("{batches} batches, {} operations", operations().count());
}

#[test]
fn only_what_is_visible_and_synced_is_handed_on() {
    let disk = SimDisk::new();
    let db = open_at(&disk, DIR, Options { sync_interval_ms: 0, ..options() });
    let point = db.keyspace("point", KeyspaceOptions::default()).unwrap();
    let start = db.log_position();
    point.put("a", "1").unwrap();
    let mut tail = db.tail(start).unwrap();
    let mut eager = db.tail(start).unwrap().unsynced();
    assert!(tail.next_batch(Duration::ZERO).unwrap().is_none());
    let batch = eager.next_batch(Duration::ZERO).unwrap().unwrap();
    assert_eq!(batch.operations[0].key, b"a");
    db.sync().unwrap();
    assert_eq!(tail.next_batch(Duration::ZERO).unwrap().unwrap(), batch);
    assert!(tail.next_batch(Duration::from_millis(3)).unwrap().is_none());
    let synced = WriteOptions { durability: Some(Durability::Synced) };
    let mut write = Batch::new();
    write.put(&point, "b", "2").unwrap();
    db.write(&write, &synced).unwrap();
    assert_eq!(tail.next_batch(Duration::ZERO).unwrap().unwrap().operations[0].key, b"b");
    // Of a keyspace that is gone nothing is told, and the batch is there all the same.
    db.drop_keyspace("point").unwrap();
    let batches: Vec<_> = db.tail(start).unwrap().map(|batch| batch.unwrap()).collect();
    assert!(batches.len() == 2 && batches.iter().all(|batch| batch.operations.is_empty()), "{batches:?}");
    db.close().unwrap();
    assert_eq!(tail.next_batch(Duration::ZERO).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn the_log_is_kept_for_tails_and_for_the_retention_and_no_longer() {
    let held = |disk: &SimDisk| -> u64 {
        let image = disk.snapshot();
        let names = image.list(DIR).unwrap().into_iter().filter(|name| name.ends_with(".wal"));
        names.map(|name| image.read_file(format!("{DIR}/{name}")).unwrap().len() as u64).sum()
    };
    let run = |options: Options, tails: bool| {
        let disk = SimDisk::new();
        let db = open_at(&disk, DIR, options);
        write_round(&db, 0);
        let mut tail = db.tail(0).unwrap();
        tail.next_batch(Duration::ZERO).unwrap();
        let tail = Some(tail).filter(|_| tails);
        for n in 1..80 {
            write_round(&db, n);
            db.flush().unwrap();
        }
        db.sync().unwrap();
        (disk, db, tail)
    };
    // Nobody wants it: it goes, and a position in it is said to be gone.
    let (disk, db, _) = run(options(), false);
    let unwanted = held(&disk);
    let error = db.tail(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PositionGone);
    assert!(error.to_string().contains("tail_retention_bytes"), "{error}");
    // A tail that is open keeps it.
    let (disk, db_with_tail, tail) = run(options(), true);
    let pinned = held(&disk);
    assert!(pinned > 2 * unwanted, "{pinned} with a tail, {unwanted} without");
    let seen = tail.unwrap().filter(Result::is_ok).count();
    assert!(seen > 300, "{seen}");
    for n in 80..84 {
        write_round(&db_with_tail, n);
        db_with_tail.flush().unwrap();
    }
    assert!(held(&disk) < pinned / 2, "{} are left once it is gone", held(&disk));
    // So does the retention, up to its bytes, and at the next opening too.
    let bound = 20_000;
    let (disk, kept, _) = run(retaining(bound), false);
    let oldest = kept.oldest_log_position();
    assert!(oldest > 0 && kept.log_position() - oldest > bound / 2);
    assert!(kept.tail(oldest).unwrap().filter(Result::is_ok).count() > 20);
    kept.close().unwrap();
    let kept = open_at(&disk, DIR, retaining(bound));
    assert!(kept.oldest_log_position() >= oldest);
    assert!(kept.log_position() - kept.oldest_log_position() > bound / 2);
    // A tail that falls behind further than the bound is told so.
    let bounded = Options { max_wal_bytes: 10_000, ..options() };
    let (_, db_bounded, tail) = run(bounded, true);
    let error = tail.unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::PositionGone, "{error}");
    // Positions that no batch begins at, and those behind the end.
    assert_eq!(db_bounded.tail(u64::MAX / 2).unwrap_err().kind(), ErrorKind::PositionGone);
    let within = db.log_position() - 3;
    let outcome = db.tail(within).and_then(|mut tail| tail.next_batch(Duration::ZERO));
    assert!(outcome.is_err() || outcome.unwrap().is_none());
}

#[test]
fn a_copy_follows_writers_that_go_on() {
    let disk = SimDisk::new();
    let options = Options { background_threads: 1, sync_interval_ms: 1, ..retaining(1 << 16) };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options.clone()).unwrap();
    let copy = Db::open_on(Arc::new(disk.clone()), COPY, options).unwrap();
    write_round(&db, 0);
    follow(&db, &copy, Duration::ZERO).unwrap();
    let is_done = AtomicBool::new(false);
    let batches = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut batches = 0;
            while !is_done.load(Ordering::Acquire) {
                batches += follow(&db, &copy, Duration::from_millis(2)).unwrap();
            }
            batches
        });
        let writers: Vec<_> = (0..3u32)
            .map(|writer| {
                let db = db.clone();
                scope.spawn(move || {
                    for n in 0..60 {
                        write_round(&db, 1 + writer * 1000 + n);
                        std::thread::sleep(Duration::from_micros(300));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::Release);
        follower.join().unwrap()
    });
    db.sync().unwrap();
    follow(&db, &copy, Duration::ZERO).unwrap();
    assert!(all(&copy) == all(&db));
    println!("{batches} batches were taken over while writers went on");
    assert!(batches > 100, "{batches}");
}

#[test]
fn a_copy_is_equal_again_after_a_crash_at_any_call() {
    let disk = SimDisk::new();
    let options = Options { sync_interval_ms: 0, ..retaining(1 << 20) };
    let db = open_at(&disk, DIR, options.clone());
    let copy = open_at(&disk, COPY, common::options());
    disk.record_images(true);
    for n in 0..14 {
        write_round(&db, n);
        match n % 4 {
            1 => db.sync().unwrap(),
            3 => {
                db.flush().unwrap();
                db.step().unwrap();
            }
            _ => {}
        }
        follow(&db, &copy, Duration::ZERO).unwrap();
        if n % 6 == 5 {
            copy.flush().unwrap();
        }
    }
    let images = disk.take_recorded();
    disk.record_images(false);
    let (mut tried, mut behind) = (0, 0);
    let step = if is_long() { 1 } else { 1 + images.len() / 150 };
    for (at, (call, image)) in images.iter().enumerate().step_by(step) {
        for mode in CrashMode::ALL {
            let disk = image.crash(mode, at as u64);
            let db = open_at(&disk, DIR, options.clone());
            let copy = open_at(&disk, COPY, common::options());
            let is_equal = all(&copy) == all(&db);
            follow(&db, &copy, Duration::ZERO).unwrap_or_else(|error| panic!("{mode:?} at {call}: {error}"));
            assert!(all(&copy) == all(&db), "{mode:?} at {call}");
            behind += usize::from(!is_equal);
            tried += 1;
        }
    }
    println!("{tried} crashes, after {behind} of which the copy was behind; equal after all");
    assert!(behind > 0);
}
