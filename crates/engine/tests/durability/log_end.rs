//! The end of a log: a last segment that is removed as a whole is missed once records of it were synced, and
//! what was never synced may be lost without a word, as a power cut loses it.

use crate::common::*;
use siltstone::io::Disk;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{Batch, Db, Durability, ErrorKind, Keyspace, Options, WalRecovery, WriteOptions};
use std::path::Path;
use std::sync::Arc;

fn store(disk: &SimDisk) -> (Db, Keyspace) {
    let db = open(disk).unwrap();
    let items = db.keyspace("items", Default::default()).unwrap();
    (db, items)
}

/// Names of the log's segments, by number.
fn segments(disk: &SimDisk) -> Vec<String> {
    let names = disk.list(Path::new(DIR)).unwrap();
    names.into_iter().filter(|name| name.ends_with(".wal")).collect()
}

/// The disk as a killed process leaves it, without the log's last segment.
fn without_the_last(disk: &SimDisk) -> (SimDisk, String) {
    let disk = disk.crash(CrashMode::Kill, 0);
    let last = segments(&disk).pop().unwrap();
    disk.remove(&Path::new(DIR).join(&last)).unwrap();
    (disk, last)
}

/// A way to write to a store so that the log is synced.
type Way<'a> = &'a dyn Fn(&Db, &Keyspace);

/// Nothing said that there was one, and the store opened as if what was synced had never been written.
#[test]
fn a_last_segment_that_was_synced_is_missed() {
    let synced = WriteOptions { durability: Some(Durability::Synced) };
    let write_synced = |db: &Db, items: &Keyspace| {
        let mut batch = Batch::new();
        batch.put(items, "synced", "1").unwrap();
        db.write(&batch, &synced).unwrap();
    };
    let ways: [(&str, Way<'_>); 3] = [
        ("a synced write", &write_synced),
        ("a sync", &|db, items| {
            items.put("synced", "1").unwrap();
            db.sync().unwrap();
        }),
        ("a flush and then a synced write", &|db, items| {
            items.put("flushed", "1").unwrap();
            db.flush().unwrap();
            write_synced(db, items);
        }),
    ];
    for (way, write) in ways {
        let disk = SimDisk::new();
        let (db, items) = store(&disk);
        write(&db, &items);
        items.put("not synced", "1").unwrap();
        let (without, last) = without_the_last(&disk);
        for read_only in [false, true] {
            let opened = if read_only {
                Db::open_read_only_on(Arc::new(without.clone()), DIR, options()).map(drop)
            } else {
                open(&without).map(drop)
            };
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{way}: {error}");
            assert!(error.to_string().contains(".wal"), "{way}: {error} does not name {last}");
        }
        // Whoever gives it up has the rest, and another opening has nothing to say.
        let stopped = Options { wal_recovery: WalRecovery::StopAtDamage, ..options() };
        let db = Db::open_on(Arc::new(without.clone()), DIR, stopped).unwrap();
        let items = db.get_keyspace("items").unwrap();
        assert_eq!(items.get("synced").unwrap(), None, "{way}");
        assert_eq!(items.get("flushed").unwrap().is_some(), way.contains("flush"), "{way}");
        drop(items);
        db.close().unwrap();
        open(&without).unwrap();
    }
}

#[test]
fn a_background_sync_is_enough_to_miss_the_last_segment() {
    let disk = SimDisk::new();
    let threaded = Options { background_threads: 1, sync_interval_ms: 1, ..options() };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, threaded).unwrap();
    let items = db.keyspace("items", Default::default()).unwrap();
    items.put("synced", "1").unwrap();
    let started = std::time::Instant::now();
    loop {
        let (without, _) = without_the_last(&disk);
        match open(&without) {
            Err(error) => break assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
            Ok(_) => assert!(started.elapsed().as_secs() < 60, "nothing says that the log was synced"),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_last_segment_that_was_never_synced_may_be_lost() {
    let disk = SimDisk::new();
    let (db, items) = store(&disk);
    items.put("flushed", "1").unwrap();
    db.flush().unwrap();
    items.put("not synced", "1").unwrap();
    let (without, _) = without_the_last(&disk);
    let (_db, found) = store(&without);
    assert_eq!(found.get("flushed").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(found.get("not synced").unwrap(), None);
    // Nor does a power cut, at any call, look like damage.
    for mode in CrashMode::ALL {
        for seed in 0..20 {
            let (_db, found) = store(&disk.crash(mode, seed));
            assert!(found.get("flushed").unwrap().is_some(), "{mode:?} {seed}");
        }
    }
}

/// The note costs one small write for each segment, and no sync.
#[test]
fn the_manifest_is_told_once_for_each_segment() {
    let disk = SimDisk::new();
    let (db, items) = store(&disk);
    db.sync().unwrap();
    let before = db.stats().manifest_bytes_written;
    items.put("0", "1").unwrap();
    db.sync().unwrap();
    let once = db.stats().manifest_bytes_written - before;
    assert!(once > 0 && once < 64, "{once} bytes");
    for number in 1..100u32 {
        items.put(number.to_be_bytes(), "1").unwrap();
        db.sync().unwrap();
    }
    assert_eq!(db.stats().manifest_bytes_written - before, once);
}
