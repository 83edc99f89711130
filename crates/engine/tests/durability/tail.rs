//! The change feed: what it hands on, how far back it goes, and copies that follow it through crashes.

use crate::common::*;
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

/// The log has marks too, of which nobody is told: a tail that has all batches is at the log's position.
#[test]
fn a_tail_that_has_caught_up_is_where_the_log_says_that_it_ends() {
    let disk = SimDisk::new();
    let mut position = 0;
    for round in 0..4 {
        // Opening and closing a store leave marks behind its last batch.
        let db = open_at(&disk, DIR, retaining(1 << 20));
        let point = db.keyspace("point", KeyspaceOptions::default()).unwrap();
        let mut tail = db.tail(position).unwrap().unsynced();
        let mut begun_here = db.tail(db.log_position()).unwrap().unsynced();
        for n in 0..round {
            point.put(format!("{round} {n}"), "1").unwrap();
            if n == 1 {
                db.flush().unwrap();
            }
        }
        assert_eq!(tail.by_ref().map(|batch| batch.unwrap().operations.len()).sum::<usize>(), round);
        assert_eq!(begun_here.by_ref().map(|batch| batch.unwrap().operations.len()).sum::<usize>(), round);
        assert_eq!((tail.position(), begun_here.position()), (db.log_position(), db.log_position()));
        position = tail.position();
        db.close().unwrap();
    }
    // The segment of the last batch may be gone, which leaves a place to begin at.
    let db = open_at(&disk, DIR, options());
    db.flush().unwrap();
    for _ in 0..2 {
        let mut tail = db.tail(db.log_position()).unwrap().unsynced();
        assert!(tail.next_batch(Duration::ZERO).unwrap().is_none());
        assert_eq!(tail.position(), db.log_position());
        db.keyspace("point", KeyspaceOptions::default()).unwrap().put("z", "1").unwrap();
        assert_eq!(tail.next_batch(Duration::ZERO).unwrap().unwrap().operations[0].key, b"z");
        assert_eq!(tail.position(), db.log_position());
        db.flush().unwrap();
    }
}

/// Bytes of the log's segments.
fn held(disk: &SimDisk) -> u64 {
    let image = disk.snapshot();
    let names = image.list(DIR).unwrap().into_iter().filter(|name| name.ends_with(".wal"));
    names.map(|name| image.read_file(format!("{DIR}/{name}")).unwrap().len() as u64).sum()
}

#[test]
fn a_position_is_not_gone_where_only_marks_behind_it_are() {
    for later in 0..2 {
        let disk = SimDisk::new();
        let db = open_at(&disk, DIR, Options { sync_interval_ms: 1, background_threads: 1, ..options() });
        let point = db.keyspace("point", KeyspaceOptions::default()).unwrap();
        let (bytes, before) = (held(&disk), db.log_position());
        point.put("a", "1").unwrap();
        let batch = db.tail(before).unwrap().unsynced().next_batch(Duration::ZERO).unwrap().unwrap();
        let position = batch.next_lsn;
        // The log is synced in the background, which leaves a mark behind the batch.
        let began = std::time::Instant::now();
        while held(&disk) <= bytes + (position - batch.lsn) {
            assert!(began.elapsed() < Duration::from_secs(60), "never marked");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nobody needs the segment any more, and another one is written to.
        db.flush().unwrap();
        for n in 0..later {
            point.put(format!("b{n}"), "2").unwrap();
        }
        assert!(db.oldest_log_position() > position);
        let tail = db.tail(position).unwrap().unsynced();
        assert_eq!(tail.map(|batch| batch.unwrap().operations.len()).sum::<usize>(), later);
        assert_eq!(db.tail(before).unwrap_err().kind(), ErrorKind::PositionGone);
    }
}

#[test]
fn the_log_is_kept_for_tails_and_for_the_retention_and_no_longer() {
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
    let copy = open_at(&disk, COPY, crate::common::options());
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
            let copy = open_at(&disk, COPY, crate::common::options());
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

/// What a tail says of the first keyspace, as letters and keys.
fn heard(tail: &mut siltstone::Tail) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(batch) = tail.next_batch(Duration::ZERO).unwrap() {
        assert!(batch.lsn < batch.next_lsn && batch.next_lsn == siltstone::Tail::position(tail));
        for operation in batch.operations {
            let key = String::from_utf8(operation.key.clone()).unwrap();
            heard.push(match operation.change {
                Change::Put { .. } => format!("put {key}"),
                Change::Replaced => format!("{} replaced{key}", operation.keyspace),
                other => panic!("{other:?}"),
            });
        }
    }
    heard
}

#[test]
fn a_tail_is_told_where_contents_do_not_go_through_the_log() {
    let disk = SimDisk::new();
    let db = open_at(&disk, DIR, retaining(1 << 20));
    let items = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put("a", "1").unwrap();
    items.clear().unwrap();
    items.put("b", "1").unwrap();
    items.ingest([("c", "1"), ("d", "1")]).unwrap();
    items.put("e", "1").unwrap();
    let built = db.create_keyspace("built", KeyspaceOptions::default()).unwrap();
    built.put("f", "1").unwrap();
    db.replace(&items, built).unwrap();
    items.put("g", "1").unwrap();
    db.sync().unwrap();
    let expected = ["put a", "items replaced", "put b", "items replaced", "put e", "items replaced", "put g"];
    let mut tail = db.tail(0).unwrap();
    assert_eq!(heard(&mut tail), expected);
    // A position behind it does not hear it again, and one before it does.
    let mut positions = vec![0];
    positions.extend(db.tail(0).unwrap().map(|batch| batch.unwrap().next_lsn));
    assert!(positions.len() > expected.len());
    let of = |db: &Db, position: u64| heard(&mut db.tail(position).unwrap());
    let left: Vec<_> = positions.iter().map(|position| of(&db, *position).len()).collect();
    assert!(
        left.is_sorted_by(|a, b| a >= b) && left.first() == Some(&7) && left.last() == Some(&0),
        "{left:?}"
    );
    // A copy that takes it for an operation is stopped.
    let batches: Vec<_> = db.tail(0).unwrap().map(|batch| batch.unwrap()).collect();
    let replaced = batches.iter().flat_map(|batch| &batch.operations);
    let replaced = replaced.clone().find(|operation| operation.change == Change::Replaced).unwrap();
    let error = Batch::new().add(&items, replaced).unwrap_err();
    assert!(error.to_string().contains("\"items\"") && error.to_string().contains("copy"), "{error}");
    // The same after another opening, and beside it.
    let expected = &expected[..];
    assert_eq!(of(&Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap(), 0), expected);
    drop(items);
    db.close().unwrap();
    let db = open_at(&disk, DIR, retaining(1 << 20));
    assert_eq!(of(&db, 0), expected);
    let left = contents(&db.get_keyspace("items").unwrap());
    assert_eq!(left.keys().map(|key| key.as_slice()).collect::<Vec<_>>(), [b"f", b"g"]);
}

/// A copy that is made afresh where the tail says so, and takes over the rest.
struct Copied {
    items: BTreeMap<Vec<u8>, Vec<u8>>,
    position: u64,
}

impl Copied {
    fn of(db: &Db) -> Self {
        let position = db.log_position();
        Self { items: db.get_keyspace("items").map(|items| contents(&items)).unwrap_or_default(), position }
    }

    fn follow(&mut self, db: &Db) {
        let batches: Vec<_> = db.tail(self.position).unwrap().map(|batch| batch.unwrap()).collect();
        for batch in batches {
            if batch.operations.iter().any(|operation| operation.change == Change::Replaced) {
                *self = Self::of(db);
                return;
            }
            for operation in batch.operations.into_iter().filter(|op| &*op.keyspace == "items") {
                match operation.change {
                    Change::Put { value, .. } => drop(self.items.insert(operation.key, value)),
                    other => panic!("{other:?}"),
                }
            }
            self.position = batch.next_lsn;
        }
    }
}

#[test]
fn a_copy_is_equal_whatever_call_a_replacement_is_cut_short_at() {
    type Work = fn(&Db);
    let works: [Work; 3] = [
        |db| db.get_keyspace("items").unwrap().clear().unwrap(),
        |db| {
            db.get_keyspace("items").unwrap().ingest([("x", "1"), ("a", "2")]).unwrap();
        },
        |db| db.replace(&db.get_keyspace("items").unwrap(), db.get_keyspace("built").unwrap()).unwrap(),
    ];
    let (mut count, mut done) = (0, 0);
    for work in works {
        let disk = SimDisk::new();
        let db = open_at(&disk, DIR, retaining(1 << 20));
        let items = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
        let built = db.create_keyspace("built", KeyspaceOptions::default()).unwrap();
        items.add_many([("a", "1"), ("b", "1")]).unwrap();
        built.put("y", "1").unwrap();
        db.sync().unwrap();
        let before = Copied::of(&db);
        disk.take_recorded();
        disk.record_images(true);
        work(&db);
        let images = disk.take_recorded();
        for (call, image) in images {
            for (seed, mode) in (0..).zip(CrashMode::ALL) {
                let disk = image.crash(mode, seed);
                let db = open_at(&disk, DIR, retaining(1 << 20));
                db.keyspace("items", KeyspaceOptions::default()).unwrap().put("z", "1").unwrap();
                db.sync().unwrap();
                let mut copy = Copied { items: before.items.clone(), position: before.position };
                copy.follow(&db);
                let expected = Copied::of(&db).items;
                assert_eq!(copy.items, expected, "{mode:?} at {call}");
                done += usize::from(!expected.contains_key(&b"b"[..]) || expected.contains_key(&b"x"[..]));
                count += 1;
            }
        }
    }
    println!("{count} crashes, {done} of them behind the replacement");
    assert!(done > 0 && done < count);
}

#[test]
fn a_copy_is_not_made_of_what_a_build_is_about_to_replace() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options { tail_retention_bytes: 1 << 20, ..Options::default() }).unwrap();
    let items = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..40u32 {
                items.put(format!("p{n}"), n.to_be_bytes()).unwrap();
                match n % 3 {
                    0 => assert_eq!(items.ingest([(format!("i{n}"), "1")]).unwrap().items, 1),
                    1 => items.put("q", n.to_be_bytes()).unwrap(),
                    _ => items.clear().unwrap(),
                }
            }
            db.sync().unwrap();
            is_over.store(true, Ordering::Release);
        });
        let mut copies = vec![Copied::of(&db)];
        while !is_over.load(Ordering::Acquire) {
            copies.iter_mut().for_each(|copy| copy.follow(&db));
            copies.push(Copied::of(&db));
        }
        let expected = contents(&items);
        let count = copies.len();
        for mut copy in copies {
            let mut position = None;
            while position.replace(copy.position) != Some(copy.position) {
                copy.follow(&db);
            }
            assert_eq!(copy.items, expected);
        }
        println!("{count} copies are equal");
    });
}
