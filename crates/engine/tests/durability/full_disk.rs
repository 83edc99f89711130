//! Disks that are full, beside threads: a write is refused or done, and writing goes on once there is room.

use crate::common::hooked_disk::{Hooked, HookedDisk};
use crate::common::*;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{Db, ErrorKind, Keyspace, KeyspaceOptions, Options, presets};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn store(disk: &SimDisk, options: Options) -> (Db, siltstone::Keyspace) {
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    (db, items)
}

#[test]
fn with_threads_a_full_disk_is_called_one_and_writing_resumes_by_itself() {
    let disk = SimDisk::new();
    let threaded =
        Options { background_threads: 1, sync_interval_ms: 20, reserve_bytes: 16 << 10, ..options() };
    let (db, items) = store(&disk, threaded);
    disk.set_capacity(Some(disk.used_bytes() + (60 << 10)));
    let mut model = std::collections::BTreeMap::new();
    let mut n = 0u32;
    let mut write = |model: &mut std::collections::BTreeMap<Vec<u8>, Vec<u8>>| {
        n += 1;
        let (key, value) = (n.to_le_bytes().to_vec(), vec![1; 200]);
        items.put(&key, &value).map(|()| {
            model.insert(key, value);
        })
    };
    let error = loop {
        if let Err(error) = write(&mut model) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    assert!(contents(&items) == model);
    // No room at all: what flushing meets is a full disk as well.
    disk.set_capacity(Some(0));
    if let Err(error) = db.flush() {
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }
    disk.set_capacity(None);
    let started = std::time::Instant::now();
    while write(&mut model).is_err() || db.flush().is_err() {
        assert!(started.elapsed().as_secs() < 20, "writing does not resume");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    db.wait_until_idle().unwrap();
    assert!(contents(&items) == model);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_write_refused_for_want_of_room_does_not_come_back() {
    for round in 0..if is_long() { 3000 } else { 150 } {
        let disk = SimDisk::new();
        // Writers queue up behind a write that takes its time, and are written as a group.
        let slow = HookedDisk::new(&disk, |call| {
            if call == Hooked::Write {
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let db = Db::open_on(Arc::new(slow), DIR, options()).unwrap();
        let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
        items.put(b"first", b"").unwrap();
        disk.set_capacity(Some(disk.used_bytes() + 1000 + 17 * round % 200));
        let refused: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let writers = (0..4u8).map(|thread| {
                let items = items.clone();
                scope.spawn(move || {
                    let mut refused = Vec::new();
                    for n in 0..10u8 {
                        let key = vec![thread, n];
                        match items.put(&key, [n; 40]) {
                            Ok(()) => {}
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                                refused.push(key);
                                break;
                            }
                        }
                    }
                    refused
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let (_db, recovered) = store(&disk.crash(CrashMode::Kill, 0), options());
        let found = contents(&recovered);
        assert!(found == contents(&items), "round {round}: recovery finds what the store did not hold");
        assert!(refused.iter().all(|key| !found.contains_key(key)));
    }
}

/// Puts until the disk is full; returns where that was.
fn fill_up(items: &Keyspace, from: u32, what: &str) -> u32 {
    for n in from.. {
        if let Err(error) = items.put(numbered_key(n), numbered_value(n, 480)) {
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{what}: {error}");
            assert!(error.to_string().contains("delete"), "{what}: {error}");
            return n;
        }
    }
    unreachable!("a disk is full some time")
}

/// Takes every byte that is left in `dir`.
fn take_the_rest(dir: &Path) -> PathBuf {
    use std::io::Write;
    let path = dir.join("others");
    let mut file = std::fs::File::create(&path).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

/// A whole file system of about 100 MB, named by `SILTSTONE_SMALL_DISK`; docs/testing.md says how to make
/// one. Designs are those of the presets as they are.
#[test]
fn a_small_file_system_that_is_full_comes_back_by_deletes() {
    let Some(dir) = std::env::var_os("SILTSTONE_SMALL_DISK").map(PathBuf::from) else {
        println!("not run: SILTSTONE_SMALL_DISK names no file system");
        return;
    };
    let only = std::env::var("SILTSTONE_PRESET").ok();
    for (name, design) in presets::all() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let path = dir.join("db");
        let options = Options { max_wal_bytes: 8 << 20, ..Options::default() };
        let open = || {
            let db = Db::open(&path, options.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let design = Some(design.clone());
            let items =
                db.keyspace("items", KeyspaceOptions { design, ..KeyspaceOptions::default() }).unwrap();
            (db, items)
        };
        let (mut db, mut items) = open();
        let (mut from, mut first) = (0, 0);
        for round in 0..3 {
            let started = std::time::Instant::now();
            let end = fill_up(&items, from, name);
            let what = format!("{name}, round {round}, {} items", end - from);
            first = if round == 0 { end } else { first };
            println!("{what}, {:.1} s", started.elapsed().as_secs_f64());
            assert!(end - from > first / 2, "{what}: less was taken than before");
            // Others take what is left: the store opens all the same, for reading.
            drop((db, items));
            let others = take_the_rest(&dir);
            let read_only = Db::open_read_only(&path, options.clone());
            let read_only = read_only.unwrap_or_else(|error| panic!("{what}, reading: {error}"));
            let found = read_only.get_keyspace("items").unwrap();
            assert_eq!(
                found.get(numbered_key(end - 1)).unwrap(),
                Some(numbered_value(end - 1, 480)),
                "{what}"
            );
            drop((read_only, found));
            // For writing it needs a little.
            let refused = Db::open(&path, options.clone()).map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::StorageFull, "{what}: {refused}");
            let said = refused.to_string();
            assert!(said.contains("for reading only") && said.contains("free some space"), "{what}: {said}");
            std::fs::remove_file(&others).unwrap();
            (db, items) = open();
            assert_eq!(items.get(numbered_key(from)).unwrap(), Some(numbered_value(from, 480)), "{what}");
            for n in from..end {
                items.delete(numbered_key(n)).unwrap_or_else(|error| panic!("{what}: {n}: {error}"));
            }
            db.flush().unwrap_or_else(|error| panic!("{what}: {error}"));
            db.wait_until_idle().unwrap_or_else(|error| panic!("{what}: {error}"));
            drop((db, items));
            (db, items) = open();
            assert_eq!(items.iter().unwrap().count(), 0, "{what}");
            items.put(b"again", b"taken").unwrap_or_else(|error| panic!("{what}: {error}"));
            items.delete(b"again").unwrap();
            println!("{what}: {} bytes of tables are left", items.stats().table_bytes);
            from = end;
        }
        drop((db, items));
        std::fs::remove_dir_all(&path).unwrap();
    }
}

/// A process is killed where the disk is full, by its own doing and by others', and the store is opened while it
/// still is: what was acknowledged is there, for reading at least, and for writing once there is room.
#[test]
fn a_process_killed_on_a_full_disk_loses_nothing() {
    let (mut opened, mut refused) = (0, 0);
    for (name, design) in tiny_designs() {
        for seed in 0..if is_long() { 40 } else { 6 } {
            let disk = SimDisk::new();
            let options = Options { reserve_bytes: if seed % 2 == 0 { 0 } else { 8 << 10 }, ..options() };
            let db = Db::open_on(Arc::new(disk.clone()), DIR, options.clone()).unwrap();
            let design = Some(design.clone());
            let items =
                db.keyspace("items", KeyspaceOptions { design, ..KeyspaceOptions::default() }).unwrap();
            let room = (20 << 10) + 1777 * seed;
            disk.set_capacity(Some(disk.used_bytes() + room));
            let mut end = 0;
            let full = loop {
                match items.put(numbered_key(end), numbered_value(end, 480)) {
                    Ok(()) => end += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(full.kind(), ErrorKind::StorageFull, "{name}: {full}");
            // What was under way when the disk was full goes on, or fails.
            for step in 0..seed {
                if step % 3 == 2 {
                    let _ = db.flush();
                }
                let _ = db.step();
            }
            let killed = disk.crash(CrashMode::Kill, seed);
            killed.set_capacity(Some(if seed % 3 == 0 { 0 } else { disk.used_bytes() }));
            let check = |items: &Keyspace| {
                for n in 0..end {
                    assert_eq!(
                        items.get(numbered_key(n)).unwrap(),
                        Some(numbered_value(n, 480)),
                        "{name} {seed}: {n}"
                    );
                }
            };
            let read_only = Db::open_read_only_on(Arc::new(killed.clone()), DIR, options.clone());
            let read_only = read_only.unwrap_or_else(|error| panic!("{name} {seed}: {error}"));
            check(&read_only.get_keyspace("items").unwrap());
            match Db::open_on(Arc::new(killed.clone()), DIR, options.clone()) {
                Ok(db) => {
                    opened += 1;
                    check(&db.get_keyspace("items").unwrap());
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::StorageFull, "{name} {seed}: {error}");
                }
            }
            let again = killed.crash(CrashMode::Kill, seed);
            again.set_capacity(None);
            let db = Db::open_on(Arc::new(again), DIR, options).unwrap();
            let items = db.get_keyspace("items").unwrap();
            check(&items);
            (0..end).for_each(|n| items.delete(numbered_key(n)).unwrap());
            db.flush().unwrap();
            while db.step().unwrap() {}
            assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new(), "{name} {seed}");
        }
    }
    println!("{opened} openings on a full disk, {refused} refused until there was room");
    assert!(refused > 0);
}
