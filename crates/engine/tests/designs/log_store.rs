//! What log stores promise, counted: one read per hit, hardly any per miss, six bytes of memory per lane, and
//! that snapshots, batches, sealing, recovery and the log itself keep to what is promised of memtables.

use crate::common::{
    DIR, HASHED, Rng, contents, log_stored, numbered_key as key, numbered_value as value, open, options, tiny,
};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Batch, Db, Design, ErrorKind, Keyspace, KeyspaceOptions, Options, Schema, WriteBufferSpec, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn with_entries(entries: u32) -> Design {
    Design { write_buffer: WriteBufferSpec::LogStore { entries }, ..tiny("stepped-merge") }
}

pub fn create(db: &Db, name: &str, design: Design) -> Keyspace {
    db.keyspace(
        name,
        KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() },
    )
    .unwrap()
}

fn roomy() -> Options {
    Options { memory_budget_bytes: 64 << 20, ..options() }
}

fn open_roomy(disk: &SimDisk) -> Db {
    Db::open_on(Arc::new(disk.clone()), DIR, roomy()).unwrap()
}

/// A store with one keyspace, and that.
fn store(entries: u32) -> (SimDisk, Db, Keyspace) {
    let disk = SimDisk::new();
    let db = open_roomy(&disk);
    let items = create(&db, "items", with_entries(entries));
    (disk, db, items)
}

#[test]
fn a_hit_reads_once_and_a_miss_hardly_ever() {
    let (_, _, items) = store(1 << 16);
    let count = 60_000;
    // The next longer item is known before it has to be read.
    let len = |number: u32| 40 + number as usize / 500;
    for number in 0..count {
        items.put(key(number), value(number, len(number))).unwrap();
    }
    let before = items.stats();
    assert_eq!((before.write_buffer_entries, before.table_entries), (u64::from(count), 0));
    for number in 0..count {
        assert_eq!(items.get(key(number)).unwrap(), Some(value(number, len(number))));
    }
    let hits = items.stats();
    for number in count..3 * count {
        assert_eq!(items.get(key(number)).unwrap(), None);
    }
    let misses = items.stats();
    let per_hit = (hits.device_reads_by_hits - before.device_reads_by_hits) as f64 / f64::from(count);
    let per_miss =
        (misses.device_reads_by_misses - hits.device_reads_by_misses) as f64 / f64::from(2 * count);
    println!("{per_hit:.5} reads per hit, {per_miss:.6} per miss");
    assert!((1.0..=1.0005).contains(&per_hit), "{per_hit}");
    // Eight lanes of a tag of 15 bits: 0.0244 % in a full table.
    assert!((0.0001..=0.0005).contains(&per_miss), "{per_miss}");
    assert_eq!(
        misses.filter_false_positives,
        misses.device_reads_by_misses + hits.device_reads_by_hits - u64::from(count)
    );
}

#[test]
fn memory_is_six_bytes_a_lane_however_large_the_items_are() {
    let (_, db, items) = store(8192);
    assert_eq!(items.stats().write_buffer_bytes, 0, "what is not written to takes none");
    let empty = db.stats().memory.memtable;
    for number in 0..7000 {
        items.put(key(number), value(number, 1000)).unwrap();
    }
    let stats = items.stats();
    assert_eq!((stats.write_buffer_entries, stats.table_entries), (7000, 0));
    assert!((8192 * 6..8192 * 6 + 256).contains(&stats.write_buffer_bytes), "{}", stats.write_buffer_bytes);
    assert_eq!(db.stats().memory.memtable - empty, stats.write_buffer_bytes);
    db.flush().unwrap();
    assert_eq!(items.stats().write_buffer_bytes, 0);
    assert_eq!(db.stats().memory.memtable, empty);
}

#[test]
fn a_store_is_sealed_when_95_in_100_of_its_entries_are_taken() {
    for entries in [1024, 1 << 14, 200_000] {
        let (_, db, items) = store(entries);
        let mut number = 0;
        loop {
            items.put(key(number), b"").unwrap();
            number += 1;
            if db.step().unwrap() {
                break;
            }
        }
        assert_eq!(items.stats().table_entries, u64::from(number));
        let fill = f64::from(number) / f64::from(entries);
        println!("{entries} entries: sealed at {fill:.4}");
        assert!((0.93..0.952).contains(&fill), "{fill}");
        assert_eq!(contents(&items).len() as u32, number);
    }
}

#[test]
fn an_overwritten_item_takes_no_second_entry() {
    let (disk, db, items) = store(1024);
    for round in 0..20 {
        for number in 0..300 {
            items.put(key(number), value(number + round, 30)).unwrap();
        }
    }
    for number in 0..100 {
        items.delete(key(number)).unwrap();
    }
    assert_eq!(items.stats().write_buffer_entries, 300);
    let check = |items: &Keyspace| {
        for number in 0..300 {
            let expected = (number >= 100).then(|| value(number + 19, 30));
            assert_eq!(items.get(key(number)).unwrap(), expected, "{number}");
        }
    };
    check(&items);
    drop((items, db));
    let db = open_roomy(&disk.crash(CrashMode::Kill, 0));
    let items = db.get_keyspace("items").unwrap();
    assert_eq!(items.stats().write_buffer_entries, 300, "a replay keeps the newest versions only");
    check(&items);
    db.flush().unwrap();
    check(&items);
}

#[test]
fn snapshots_see_overwritten_versions_and_let_them_go() {
    let (_, db, items) = store(1024);
    let mut snapshots = Vec::new();
    for round in 0..6 {
        for number in 0..50 {
            match (number + round) % 7 {
                0 => items.delete(key(number)).unwrap(),
                _ => items.put(key(number), value(number * 10 + round, 40)).unwrap(),
            }
        }
        // Some rounds are seen by nobody.
        if round % 2 == 0 {
            snapshots.push((round, db.snapshot()));
        }
    }
    let check = |snapshots: &[(u32, siltstone::Snapshot)]| {
        for (round, snapshot) in snapshots {
            let mut expected = BTreeMap::new();
            for number in 0..50 {
                let item = ((number + round) % 7 != 0).then(|| value(number * 10 + round, 40));
                assert_eq!(snapshot.get(&items, key(number)).unwrap(), item, "{number} in round {round}");
                expected.extend(item.map(|item| (key(number).to_vec(), item)));
            }
            let all: BTreeMap<_, _> = snapshot.iter(&items).unwrap().map(Result::unwrap).collect();
            assert_eq!(all, expected, "round {round}");
        }
    };
    check(&snapshots);
    // Versions of rounds 0, 2, 4 and 5.
    assert_eq!(items.stats().write_buffer_entries, 200);
    db.flush().unwrap();
    while db.step().unwrap() {}
    check(&snapshots);
    // Without snapshots the next overwriting takes all old versions out.
    let overwrite = |round| (0..50).for_each(|number| items.put(key(number), value(round, 20)).unwrap());
    overwrite(0);
    let snapshot = db.snapshot();
    overwrite(1);
    overwrite(2);
    assert_eq!(items.stats().write_buffer_entries, 100);
    drop(snapshot);
    assert_eq!(items.stats().write_buffer_entries, 100);
    overwrite(3);
    assert_eq!(items.stats().write_buffer_entries, 50);
}

#[test]
fn an_iterator_keeps_what_it_sees_and_outlives_its_snapshot() {
    let (_, db, items) = store(1024);
    for number in 0..400 {
        items.put(key(number), value(number, 500)).unwrap();
    }
    let mut iterators = vec![items.iter().unwrap(), db.snapshot().iter(&items).unwrap()];
    for iterator in &mut iterators {
        assert!(iterator.next().unwrap().is_ok());
    }
    for number in 0..400 {
        items.put(key(number), b"new").unwrap();
    }
    db.flush().unwrap();
    for _ in 0..3 {
        items.put(key(1), b"newer").unwrap();
        db.flush().unwrap();
    }
    for iterator in iterators {
        let rest: Vec<_> = iterator.map(Result::unwrap).collect();
        assert_eq!(rest.len(), 399);
        for (key, item) in rest {
            let number = u32::from_be_bytes(key[..4].try_into().unwrap());
            assert_eq!(item, value(number, 500));
        }
    }
}

#[test]
fn a_batch_larger_than_its_store_is_sealed_in_the_middle_and_stays_whole() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, "items", with_entries(16));
    let other = create(&db, "other", tiny("leveled"));
    items.put(key(1000), b"before").unwrap();
    let snapshot = db.snapshot();
    let mut batch = Batch::new();
    for number in 0..200 {
        batch.put(&items, key(number), value(number, 25)).unwrap();
        // The same key again and again is one entry.
        batch.put(&items, key(5000), value(number, 30)).unwrap();
        batch.put(&other, key(number), b"other").unwrap();
    }
    batch.delete(&items, key(1000)).unwrap();
    db.write(&batch, &WriteOptions::default()).unwrap();
    let check = |db: &Db| {
        let items = db.get_keyspace("items").unwrap();
        for number in 0..200 {
            assert_eq!(items.get(key(number)).unwrap(), Some(value(number, 25)), "{number}");
        }
        assert_eq!(items.get(key(5000)).unwrap(), Some(value(199, 30)));
        assert_eq!(items.get(key(1000)).unwrap(), None);
        assert_eq!(contents(&items).len(), 201);
        assert_eq!(contents(&db.get_keyspace("other").unwrap()).len(), 200);
    };
    check(&db);
    assert_eq!(snapshot.get(&items, key(1000)).unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(snapshot.iter(&items).unwrap().count(), 1);
    // Flushed one by one, and killed after each. What a power cut leaves is the whole batch or nothing of it.
    for step in 0.. {
        check(&open(&disk.crash(CrashMode::Kill, 0)).unwrap());
        for mode in [CrashMode::PowerCut, CrashMode::Torn, CrashMode::Reordered] {
            let left = open(&disk.crash(mode, step)).unwrap();
            let [items, other] =
                ["items", "other"].map(|name| contents(&left.get_keyspace(name).unwrap()).len());
            assert!([(0, 0), (1, 0), (201, 200)].contains(&(items, other)), "{mode:?}: {items} and {other}");
        }
        if !db.step().unwrap() {
            break;
        }
        check(&db);
        assert_eq!(snapshot.iter(&items).unwrap().count(), 1);
    }
    drop((snapshot, items, other));
    db.close().unwrap();
    check(&open(&disk).unwrap());
}

#[test]
fn items_of_all_sizes_are_read_from_the_log() {
    let (disk, db, items) = store(1024);
    let len = |number: u32| match number % 10 {
        0 => 100_000,
        1 => 17_000,
        2 => 0,
        _ => number as usize,
    };
    let long = |number: u32| vec![number as u8; 60_000];
    for number in 0..120 {
        items.put(key(number), value(number, len(number))).unwrap();
        items.put(long(number), value(number, 10)).unwrap();
    }
    let check = |items: &Keyspace| {
        let keys: Vec<_> = (0..130).flat_map(|number| [key(number).to_vec(), long(number)]).collect();
        for (many, number) in items.multi_get(&keys).unwrap().chunks(2).zip(0..) {
            let expected =
                [value(number, len(number)), value(number, 10)].map(|v| (number < 120).then_some(v));
            assert!(many == expected, "multi_get {number}");
            assert!(items.get(key(number)).unwrap() == expected[0], "get {number}");
            assert!(items.get(long(number)).unwrap() == expected[1], "get {number}");
        }
        assert_eq!(contents(items).len(), 240);
    };
    check(&items);
    check(&open_roomy(&disk.crash(CrashMode::Kill, 0)).get_keyspace("items").unwrap());
    db.flush().unwrap();
    check(&items);
}

#[test]
fn many_keys_are_read_at_the_same_time_and_each_is_counted_once() {
    let (_, _, items) = store(4096);
    for number in 0..3000 {
        items.put(key(number), value(number, 100)).unwrap();
    }
    let keys: Vec<_> = (0..2000).map(key).collect();
    let before = items.stats();
    let found = items.multi_get(&keys).unwrap();
    assert!((0..2000).zip(found).all(|(number, found)| found == Some(value(number, 100))));
    let after = items.stats();
    let reads = after.device_reads_by_hits - before.device_reads_by_hits;
    assert!((2000..=2004).contains(&reads), "{reads}");
}

#[test]
fn a_damaged_item_is_an_error_that_names_file_and_offset_and_others_are_not_touched() {
    let (disk, db, items) = store(1024);
    for number in 0..100 {
        items.put(key(number), value(number, 60)).unwrap();
    }
    let name = disk.snapshot().list(DIR).unwrap().into_iter().find(|name| name.ends_with(".wal")).unwrap();
    let path = format!("{DIR}/{name}");
    let bytes = disk.read_file(&path).unwrap();
    let at = bytes.windows(20).position(|window| window == key(50)).unwrap();
    // Before the key: kind 5, length, checksum, kind 1, keyspace, the key's length.
    let start = at - (1 + 1 + 4 + 1 + 1 + 1);
    assert_eq!(bytes[start], 5);
    for byte in start..at + 20 + 60 {
        disk.flip_bit(&path, byte as u64, 3).unwrap();
        let error = items.get(key(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(&format!("{name} is damaged at byte {start}")), "{error}");
        assert_eq!(items.multi_get(&[key(50)]).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(items.get(key(49)).unwrap(), Some(value(49, 60)));
        assert_eq!(items.get(key(51)).unwrap(), Some(value(51, 60)));
        assert!(items.iter().unwrap().any(|item| item.is_err()));
        let problems = db.verify(&mut |_| {}).unwrap().problems;
        assert!(problems.len() == 1 && problems[0].contains(&name), "{problems:?}");
        disk.flip_bit(&path, byte as u64, 3).unwrap();
    }
    // What can't be read is not flushed, and not given up either.
    disk.flip_bit(&path, at as u64, 3).unwrap();
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Corruption);
    disk.flip_bit(&path, at as u64, 3).unwrap();
    db.flush().unwrap();
    assert_eq!(contents(&items).len(), 100);
}

#[test]
fn an_idle_store_does_not_pin_the_log_of_others() {
    let disk = SimDisk::new();
    let options = Options { max_wal_bytes: 64 << 10, ..options() };
    let db = Db::open_on(Arc::new(disk), DIR, options).unwrap();
    let idle = create(&db, "idle", with_entries(1024));
    let busy = [create(&db, "log", with_entries(64)), create(&db, "table", tiny("leveled"))];
    idle.put(key(1), b"idle").unwrap();
    for number in 0..4000 {
        busy[number as usize % 2].put(key(number), value(number, 100)).unwrap();
        db.step().unwrap();
    }
    assert_eq!(idle.stats().table_entries, 1);
    let wal = db.stats().wal_bytes;
    assert!(wal < 256 << 10, "{wal}");
    assert_eq!(idle.get(key(1)).unwrap().as_deref(), Some(&b"idle"[..]));
}

#[test]
fn segments_that_someone_reads_are_never_overwritten() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, "items", with_entries(64));
    let other = create(&db, "other", tiny("leveled"));
    for number in 0..40 {
        items.put(key(number), value(number, 100)).unwrap();
    }
    // Another process, as it were: what it opened lies in segments that the writer gives up.
    let reading = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    let snapshot = db.snapshot();
    for number in 0..2000 {
        items.put(key(number % 60), b"new").unwrap();
        other.put(key(number), value(number, 90)).unwrap();
        if number % 100 == 0 {
            db.flush().unwrap();
        }
        while db.step().unwrap() {}
    }
    let read = reading.get_keyspace("items").unwrap();
    for number in 0..40 {
        assert_eq!(read.get(key(number)).unwrap(), Some(value(number, 100)));
        assert_eq!(snapshot.get(&items, key(number)).unwrap(), Some(value(number, 100)));
    }
    assert_eq!(contents(&read).len(), 40);
}

#[test]
fn updates_and_checkpoints_go_through_the_log() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = create(&db, "items", log_stored("siltstone"));
    for _ in 0..30 {
        for number in 0..20 {
            let add = |old: Option<&[u8]>| Some(vec![old.map_or(1, |old| old[0] + 1)]);
            items.update(key(number), add).unwrap();
        }
    }
    assert!((0..20).all(|number| items.get(key(number)).unwrap() == Some(vec![30])));
    db.checkpoint("/copy").unwrap();
    let copy = Db::open_on(Arc::new(disk), "/copy", options()).unwrap();
    assert_eq!(contents(&copy.get_keyspace("items").unwrap()), contents(&items));
}

#[test]
fn readers_in_threads_never_miss_an_item_that_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: 16 << 20, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let items = create(&db, "items", with_entries(4096));
    let count = 64;
    let write = |round: u32| {
        // All of a round at once, and a key twice, so that versions come and go before anyone sees them.
        let mut batch = Batch::new();
        for number in 0..count {
            batch.put(&items, key(number), b"unseen").unwrap();
            batch.put(&items, key(number), round.to_be_bytes()).unwrap();
        }
        db.write(&batch, &WriteOptions::default()).unwrap();
    };
    write(0);
    let done = AtomicBool::new(false);
    let round = |found: Option<Vec<u8>>| u32::from_be_bytes(found.unwrap().try_into().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (items, db, done) = (&items, &db, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let now = round(items.get(key(rng.below(64) as u32)).unwrap());
                    assert!(now >= last, "round {now} after {last}");
                    last = now;
                    let keys: Vec<_> = (0..count).map(key).collect();
                    let seen: Vec<_> = items.multi_get(&keys).unwrap().into_iter().map(round).collect();
                    assert!(seen.iter().all(|round| *round == seen[0]), "part of a batch: {seen:?}");
                    if rng.one_in(8) {
                        let snapshot = db.snapshot();
                        std::thread::yield_now();
                        let seen: Vec<_> =
                            (0..count).map(|n| round(snapshot.get(items, key(n)).unwrap())).collect();
                        assert!(seen.iter().all(|round| *round == seen[0]), "part of a batch: {seen:?}");
                    }
                }
            });
        }
        for round in 1..if crate::common::is_long() { 50_000 } else { 5000 } {
            write(round);
            if round % 200 == 0 {
                db.flush().unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_key_with_more_versions_than_lanes_seals_its_store() {
    let (_, db, items) = store(1024);
    let mut snapshots = Vec::new();
    for round in 0..40 {
        items.put(key(7), value(round, 10)).unwrap();
        items.put(key(100 + round), b"other").unwrap();
        snapshots.push(db.snapshot());
    }
    let check = || {
        for (snapshot, round) in snapshots.iter().zip(0..) {
            assert_eq!(snapshot.get(&items, key(7)).unwrap(), Some(value(round, 10)), "round {round}");
            assert_eq!(snapshot.iter(&items).unwrap().count() as u32, round + 2);
        }
    };
    check();
    assert!(db.step().unwrap(), "a sealed store waits to be flushed");
    while db.step().unwrap() {}
    check();
}

#[test]
fn what_is_in_tables_is_not_replayed_where_batches_are_larger_than_stores() {
    let (disk, db, items) = store(256);
    for first in (0..20_000).step_by(1000) {
        let mut batch = Batch::new();
        for number in first..first + 1000 {
            batch.put(&items, key(number), b"value").unwrap();
        }
        db.write(&batch, &WriteOptions::default()).unwrap();
        while db.step().unwrap() {}
    }
    let (in_head, in_tables) = (items.stats().write_buffer_entries, items.stats().table_entries);
    assert_eq!(in_head + in_tables, 20_000);
    drop(items);
    db.close().unwrap();
    let items = open(&disk).unwrap().get_keyspace("items").unwrap();
    let again = items.stats().write_buffer_entries;
    assert!(again <= in_head + 1000, "{again} of 20,000 were replayed, {in_head} were in the head");
    assert_eq!(contents(&items).len(), 20_000);
}

#[test]
fn keyspaces_with_prefixes_are_refused() {
    let db = open(&SimDisk::new()).unwrap();
    let refused = db.keyspace(
        "items",
        KeyspaceOptions { schema: HASHED, design: Some(with_entries(64)), ..KeyspaceOptions::default() },
    );
    let error = refused.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("design.write_buffer: a log store finds keys one by one"), "{error}");
}
