//! Backups and checkpoints: what is copied, what comes back, what damage does, and crashes at every call.

use crate::common::*;
use siltstone::io::Disk;
use siltstone::io::sim::{CallKind, CrashMode, DiskImage, Fault, FaultError, SimDisk};
use siltstone::{BackupOptions, Backups, Db, ErrorKind, KeyspaceOptions, Options, Schema};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const BACKUPS: &str = "/backups";

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn all(db: &Db) -> Contents {
    let of = |name: String| {
        let found = contents(&db.get_keyspace(&name).unwrap());
        (name, found)
    };
    db.keyspaces().into_iter().map(of).collect()
}

/// Writes round `round` into a store of three keyspaces, one of them with a log store.
fn write_round(db: &Db, round: u32) {
    let files = db.keyspace("files", keyspace_options(ORDERED, tiny("stepped-merge"))).unwrap();
    let point = db.keyspace("point", keyspace_options(Schema::Point, tiny("leveled"))).unwrap();
    let log = db.keyspace("log", keyspace_options(Schema::Point, log_stored("leveled"))).unwrap();
    let mut rng = Rng::new(u64::from(round));
    for n in 0..60u32 {
        files.put(format!("d{}/{round}-{n}", n % 5).as_bytes(), rng.bytes(60)).unwrap();
        point.put((n + round * 20).to_be_bytes(), rng.bytes(40)).unwrap();
        log.put(n.to_be_bytes(), rng.bytes(20)).unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    files.delete_prefix(format!("d{}/", round % 5).as_bytes()).unwrap();
    for n in 0..5u32 {
        point.put(n.to_be_bytes(), rng.bytes(30)).unwrap();
    }
}

fn backups(disk: &SimDisk) -> Backups {
    Backups::open_on(Arc::new(disk.clone()), BACKUPS).unwrap()
}

fn sound(disk: &SimDisk) {
    let report = backups(disk).verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Restores a backup and says what it holds.
fn restored(disk: &SimDisk, number: u64, dest: &str) -> Contents {
    backups(disk).restore(number, dest).unwrap();
    let db = Db::open_on(Arc::new(disk.clone()), dest, options()).unwrap();
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    let found = all(&db);
    // It is a store like any other.
    db.get_keyspace("point").unwrap().put(b"more", b"more").unwrap();
    db.close().unwrap();
    found
}

#[test]
fn each_backup_comes_back_and_only_what_changed_is_added() {
    for options in [BackupOptions::default(), BackupOptions::copies()] {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let mut expected = Vec::new();
        let mut added = Vec::new();
        for round in 0..4 {
            write_round(&db, round);
            let info = db.backup_with(BACKUPS, &options, &mut |_| {}).unwrap();
            assert_eq!(info.number, u64::from(round) + 1);
            added.push((info.bytes_added, info.bytes));
            expected.push(all(&db));
        }
        // Nothing has changed but the small files that every backup has.
        let again = db.backup_with(BACKUPS, &options, &mut |_| {}).unwrap();
        expected.push(all(&db));
        assert!(again.bytes_added * 3 < again.bytes, "{again:?}");
        let (first_added, first_bytes) = added[0];
        assert_eq!(first_added, first_bytes);
        // Compaction may have replaced every table between two of them, but not always.
        assert!(added[1..].iter().any(|(added, bytes)| added * 2 < *bytes), "{added:?}");
        println!("added, of: {added:?}, unchanged: {}, {}", again.bytes_added, again.bytes);
        sound(&disk);
        for (number, expected) in (1..).zip(&expected) {
            assert!(restored(&disk, number, &format!("/old{number}")) == *expected, "backup {number}");
        }
        let listed: Vec<u64> = backups(&disk).list().unwrap().iter().map(|info| info.number).collect();
        assert_eq!(listed, [1, 2, 3, 4, 5]);
        // What no other backup needs goes with the one that is deleted.
        let (before, mut freed) = (disk.snapshot().list("/backups/files").unwrap().len(), 0);
        for number in [2, 1, 4] {
            freed += backups(&disk).delete(number).unwrap();
            sound(&disk);
        }
        assert!(freed > 0 && disk.snapshot().list("/backups/files").unwrap().len() < before);
        assert!(restored(&disk, 3, "/third") == expected[2]);
        assert!(restored(&disk, 5, "/fifth") == expected[4]);
        let error = backups(&disk).restore(2, "/none").unwrap_err();
        assert!(error.to_string().contains("there are: 3, 5"), "{error}");
    }
}

#[test]
fn stores_that_parted_share_a_directory_and_are_not_mixed_up() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    db.backup(BACKUPS).unwrap();
    db.close().unwrap();
    // A copy, as `cp -r` makes it: the same numbers will name different tables from here on.
    let image = disk.snapshot();
    siltstone::io::Disk::create_dir_all(&disk, std::path::Path::new("/twin")).unwrap();
    for name in image.list(DIR).unwrap() {
        disk.write_file(format!("/twin/{name}"), &image.read_file(format!("{DIR}/{name}")).unwrap()).unwrap();
    }
    let mut expected = Vec::new();
    for round in 1..4 {
        for (dir, value) in [(DIR, round), ("/twin", round + 100)] {
            let db = Db::open_on(Arc::new(disk.clone()), dir, options()).unwrap();
            // The same keys, other values: tables that differ in nothing else.
            let point = db.get_keyspace("point").unwrap();
            for n in 0..60u32 {
                point.put(n.to_be_bytes(), [value as u8; 40]).unwrap();
            }
            db.flush().unwrap();
            db.backup(BACKUPS).unwrap();
            expected.push(all(&db));
            db.close().unwrap();
        }
    }
    sound(&disk);
    for (number, expected) in (2..).zip(expected) {
        assert!(restored(&disk, number, &format!("/r{number}")) == expected, "backup {number}");
    }
}

#[test]
fn damage_to_a_backup_is_found_and_concerns_those_that_need_the_file() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    for round in 0..3 {
        write_round(&db, round);
        // Copies, so that the store is not damaged with them.
        db.backup_with(BACKUPS, &BackupOptions::copies(), &mut |_| {}).unwrap();
    }
    let image = disk.snapshot();
    let (mut tried, mut noticed) = (0, 0);
    for name in image.list("/backups/files").unwrap() {
        let path = format!("/backups/files/{name}");
        let bytes = image.read_file(&path).unwrap();
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 7) {
            let disk = image.crash(CrashMode::Kill, 0);
            disk.flip_bit(&path, at as u64, (at % 8) as u8).unwrap();
            let report = backups(&disk).verify(&mut |_| {}).unwrap();
            assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
            assert!(report.problems[0].contains(&name), "{:?}", report.problems);
            assert!(!report.damaged.is_empty());
            for number in 1..=3 {
                let outcome = backups(&disk).restore(number, format!("/r{number}"));
                assert_eq!(outcome.is_err(), report.damaged.contains(&number), "flip at {at} of {name}");
            }
            tried += 1;
            noticed += 1;
        }
    }
    println!("{noticed} of {tried} flips in files of backups noticed");
    // A damaged record hides its backup, and nothing is removed that it may need.
    let record = image.list(BACKUPS).unwrap().into_iter().find(|name| name.ends_with(".backup")).unwrap();
    let disk = image.crash(CrashMode::Kill, 0);
    disk.flip_bit(format!("{BACKUPS}/{record}"), 40, 1).unwrap();
    assert_eq!(backups(&disk).list().unwrap().len(), 2);
    assert!(backups(&disk).verify(&mut |_| {}).unwrap().problems[0].contains(&record));
    let files = disk.snapshot().list("/backups/files").unwrap().len();
    assert_eq!(backups(&disk).delete(2).unwrap(), 0);
    assert_eq!(disk.snapshot().list("/backups/files").unwrap().len(), files);
    // Until that backup is deleted as well.
    let damaged = backups(&disk).damaged().unwrap();
    assert!(damaged.len() == 1 && backups(&disk).verify(&mut |_| {}).unwrap().damaged == damaged);
    assert!(backups(&disk).delete(damaged[0]).unwrap() > 0);
    assert!(backups(&disk).damaged().unwrap().is_empty());
    sound(&disk);
}

/// What a new backup has read takes the place of what lies there under its name.
#[test]
fn a_backup_mends_the_files_that_it_brings() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    db.flush().unwrap();
    db.backup_with(BACKUPS, &BackupOptions::copies(), &mut |_| {}).unwrap();
    let names = disk.snapshot().list("/backups/files").unwrap();
    let tables: Vec<_> = names.into_iter().filter(|name| name.ends_with(".table")).collect();
    assert!(!tables.is_empty());
    for is_removed in [false, true] {
        for name in &tables {
            let path = format!("/backups/files/{name}");
            if is_removed {
                disk.remove(Path::new(&path)).unwrap();
            } else {
                disk.flip_bit(&path, 100, 1).unwrap();
            }
        }
        assert!(!backups(&disk).verify(&mut |_| {}).unwrap().problems.is_empty());
        if !is_removed {
            // The store has lost its note that these files are in the directory.
            disk.remove(Path::new("/db/BACKUP")).unwrap();
        }
        db.backup_with(BACKUPS, &BackupOptions::copies(), &mut |_| {}).unwrap();
        sound(&disk);
    }
}

#[test]
fn a_damaged_table_is_not_backed_up_as_if_it_were_sound() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    let names = disk.snapshot().list(DIR).unwrap();
    let table = names.iter().find(|name| name.ends_with(".table")).unwrap();
    disk.flip_bit(format!("{DIR}/{table}"), 700, 1).unwrap();
    let error = db.backup(BACKUPS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.path().unwrap().ends_with(table), "{error}");
    assert!(backups(&disk).list().unwrap().is_empty());
}

#[test]
fn directories_with_something_else_are_refused() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    disk.write_file("/mine", b"").unwrap();
    siltstone::io::Disk::create_dir_all(&disk, std::path::Path::new("/other")).unwrap();
    disk.write_file("/other/notes.txt", b"mine").unwrap();
    assert_eq!(db.backup("/other").unwrap_err().kind(), ErrorKind::NotAStore);
    assert_eq!(db.backup("/db/backups").unwrap_err().kind(), ErrorKind::InvalidInput);
    db.backup(BACKUPS).unwrap();
    assert_eq!(backups(&disk).restore(1, "/other").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(disk.snapshot().list("/other").unwrap(), ["notes.txt"]);
}

/// What the disk holds after a crash at every call that `work` makes, in every mode.
fn crashes(disk: &SimDisk, work: impl FnOnce()) -> Vec<(String, SimDisk)> {
    disk.take_recorded();
    disk.record_images(true);
    work();
    let mut images: Vec<(String, DiskImage)> =
        disk.take_recorded().into_iter().map(|(call, image)| (call.to_string(), image)).collect();
    disk.record_images(false);
    images.push(("the end".into(), disk.snapshot()));
    let mut found = Vec::new();
    for (call, image) in images {
        for (seed, mode) in (0..).zip(CrashMode::ALL) {
            found.push((format!("{mode:?} at {call}"), image.crash(mode, seed)));
        }
    }
    found
}

#[test]
fn a_backup_that_is_cut_short_at_any_call_leaves_the_earlier_ones_whole() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut expected = Vec::new();
    for round in 0..2 {
        write_round(&db, round);
        db.sync().unwrap();
        db.backup(BACKUPS).unwrap();
        expected.push(all(&db));
    }
    write_round(&db, 2);
    db.sync().unwrap();
    expected.push(all(&db));
    let crashed = crashes(&disk, || {
        db.backup(BACKUPS).unwrap();
        backups(&disk).delete(1).unwrap();
    });
    let (mut whole, count) = ([0; 4], crashed.len());
    for (when, disk) in crashed {
        let listed: Vec<u64> = backups(&disk).list().unwrap().iter().map(|info| info.number).collect();
        assert!([&[1, 2][..], &[1, 2, 3], &[2, 3]].contains(&listed.as_slice()), "{when}: {listed:?}");
        sound(&disk);
        for number in &listed {
            whole[*number as usize] += 1;
            let dest = format!("/r{number}");
            assert!(restored(&disk, *number, &dest) == expected[*number as usize - 1], "{when}: {number}");
        }
        // It can simply be made again.
        let db = open(&disk).unwrap_or_else(|error| panic!("{when}: {error}"));
        let now = all(&db);
        let info = db.backup(BACKUPS).unwrap_or_else(|error| panic!("{when}: {error}"));
        sound(&disk);
        assert!(restored(&disk, info.number, "/again") == now, "{when}");
        let files = disk.snapshot().list("/backups/files").unwrap();
        assert!(!files.iter().any(|name| name.ends_with(".new")), "{when}: {files:?}");
    }
    println!("{count} crashes of backup and delete; backups found whole: {whole:?}");
    assert!(whole[1] > 0 && whole[3] > 0 && whole[2] == count);
}

#[test]
fn what_is_half_made_says_so_and_is_made_again() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    db.backup(BACKUPS).unwrap();
    let expected = all(&db);
    let crashed = crashes(&disk, || {
        db.checkpoint("/copy").unwrap();
        backups(&disk).restore(1, "/restored").unwrap();
    });
    let (mut unfinished, mut finished, count) = (0, 0, crashed.len());
    for (when, disk) in crashed {
        for dir in ["/copy", "/restored"] {
            let is_there = disk.snapshot().list(dir).is_ok_and(|names| !names.is_empty());
            let opened = Db::open_on(Arc::new(disk.clone()), dir, options());
            match opened {
                Ok(db) if db.keyspaces().is_empty() => {
                    // The crash came before anything was written; opening made an empty store.
                    assert!(!is_there, "{when}: {dir}: {:?}", disk.snapshot().list(dir));
                    continue;
                }
                Ok(db) => {
                    assert!(all(&db) == expected, "{when}: {dir}");
                    assert!(!disk.snapshot().list(dir).unwrap().contains(&"UNFINISHED".to_owned()), "{when}");
                    finished += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotAStore, "{when}: {error}");
                    assert!(error.to_string().contains("was not finished"), "{when}: {error}");
                    unfinished += 1;
                    if dir == "/copy" {
                        open(&disk).unwrap().checkpoint(dir).unwrap();
                    } else {
                        backups(&disk).restore(1, dir).unwrap();
                    }
                    let db = Db::open_on(Arc::new(disk.clone()), dir, options()).unwrap();
                    assert!(all(&db).len() == expected.len(), "{when}: {dir} made again");
                }
            }
        }
    }
    println!("{count} crashes: {unfinished} times unfinished, {finished} times whole");
    assert!(unfinished > 0 && finished > 0);
}

#[test]
fn a_checkpoint_that_failed_is_never_taken_for_a_damaged_store() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    let expected = all(&db);
    db.close().unwrap();
    let (image, mut failed) = (disk.snapshot(), 0);
    for kind in [CallKind::Write, CallKind::HardLink, CallKind::Sync, CallKind::SyncDir, CallKind::Rename] {
        for after in 0..6 {
            let disk = image.crash(CrashMode::Kill, 0);
            let db = open(&disk).unwrap();
            disk.inject(Fault::new(kind, FaultError::Io).on_path("/copy").after(after));
            if db.checkpoint("/copy").is_ok() {
                continue;
            }
            failed += 1;
            for seed in 0..40 {
                let crashed = disk.crash(CrashMode::Reordered, seed);
                let existing = Options { create_if_missing: false, ..options() };
                match Db::open_on(Arc::new(crashed), "/copy", existing) {
                    // It was whole, and what took it away again is lost.
                    Ok(copy) => assert!(all(&copy) == expected, "{kind:?} {after}, seed {seed}"),
                    Err(error) => {
                        assert_eq!(
                            error.kind(),
                            ErrorKind::NotAStore,
                            "{kind:?} {after}, seed {seed}: {error}"
                        );
                    }
                }
            }
        }
    }
    assert!(failed > 6, "{failed} checkpoints failed");
}

/// What is left of it could not be removed either, but for the name that says what it is.
#[test]
fn a_checkpoint_that_can_not_be_taken_away_says_what_it_is() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    db.close().unwrap();
    let image = disk.snapshot();
    let mut failed = 0;
    for kind in [CallKind::Write, CallKind::HardLink, CallKind::SyncDir, CallKind::Rename] {
        for (after, stays) in [(0, ".table"), (1, ".table"), (0, "MANIFEST"), (0, "CURRENT")] {
            let disk = image.crash(CrashMode::Kill, 0);
            let db = open(&disk).unwrap();
            disk.inject(Fault::new(kind, FaultError::Io).on_path("/copy").after(after));
            disk.inject(Fault::new(CallKind::Remove, FaultError::Io).on_path(stays));
            if db.checkpoint("/copy").is_ok() {
                continue;
            }
            disk.clear_faults();
            failed += 1;
            match Db::open_read_only_on(Arc::new(disk.crash(CrashMode::Kill, 0)), "/copy", options()) {
                // CURRENT stays, and with it all that it names.
                Ok(copy) => assert!(stays == "CURRENT" && all(&copy).len() == 3, "{kind:?} {after}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotAStore, "{kind:?} {after} {stays}: {error}");
                }
            }
            db.checkpoint("/other").unwrap();
        }
    }
    assert!(failed > 8, "{failed} checkpoints failed");
}

/// The name under which a backup begins was a second one of the store's own table, and was made anew.
#[test]
fn what_a_backup_left_unfinished_is_never_written_over() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    let expected = all(&db);
    // The first table was linked, and did not get its name.
    disk.inject(Fault::new(CallKind::Rename, FaultError::Io).on_path(BACKUPS).times(1));
    assert!(db.backup(BACKUPS).is_err());
    let files = disk.snapshot().list(format!("{BACKUPS}/files")).unwrap();
    assert!(files.iter().any(|name| name.ends_with(".table.new")), "{files:?}");
    disk.inject(Fault::new(CallKind::Remove, FaultError::Io).on_path(BACKUPS).times(1));
    let refused = db.backup(BACKUPS);
    assert!(all(&db) == expected);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Io);
    let number = db.backup(BACKUPS).unwrap().number;
    assert!(restored(&disk, number, "/restored") == expected);
}

/// Options of a store with room for write buffers.
fn roomy() -> Options {
    Options { memory_budget_bytes: 64 << 20, default_design: siltstone::presets::siltstone(), ..options() }
}

fn open_roomy(disk: &SimDisk, dir: &str) -> siltstone::Result<Db> {
    Db::open_on(Arc::new(disk.clone()), dir, roomy())
}

/// Restores a backup of such a store and says what it holds.
fn restored_roomy(disk: &SimDisk, number: u64, dest: &str) -> Contents {
    backups(disk).restore(number, dest).unwrap();
    all(&open_roomy(disk, dest).unwrap())
}

/// A store whose write buffers hold so many kilobytes that no table has.
fn with_kilobytes(disk: &SimDisk, kilobytes: u32) -> Db {
    let db = open_roomy(disk, DIR).unwrap();
    let point = db.keyspace("point", KeyspaceOptions::default()).unwrap();
    let mut rng = Rng::new(1);
    for n in 0..kilobytes {
        point.put(n.to_be_bytes(), rng.bytes(1020)).unwrap();
    }
    db.sync().unwrap();
    db
}

#[test]
fn what_write_buffers_hold_is_brought_once() {
    for copies in [false, true] {
        let options = if copies { BackupOptions::copies() } else { BackupOptions::default() };
        let disk = SimDisk::new();
        let db = with_kilobytes(&disk, 300);
        assert!(db.stats().keyspaces[0].write_buffer_entries > 200);
        let first = db.backup_with(BACKUPS, &options, &mut |_| {}).unwrap();
        assert!(first.bytes_added > 300 << 10, "{first:?}");
        for _ in 0..3 {
            let again = db.backup_with(BACKUPS, &options, &mut |_| {}).unwrap();
            assert!(again.bytes_added < 8 << 10, "nothing has changed: {again:?}");
        }
        // A little is taken as it is, each time, and no run is made of it.
        let runs = db.stats().keyspaces[0].table_entries;
        db.get_keyspace("point").unwrap().put(b"more", [7; 30]).unwrap();
        let little = db.backup_with(BACKUPS, &options, &mut |_| {}).unwrap();
        assert!(little.bytes_added < 32 << 10, "{little:?}");
        assert_eq!(db.stats().keyspaces[0].table_entries, runs);
        sound(&disk);
        assert!(restored_roomy(&disk, 5, "/fifth") == all(&db));
    }
}

#[test]
fn a_store_that_can_not_be_flushed_is_backed_up_all_the_same() {
    let disk = SimDisk::new();
    let db = with_kilobytes(&disk, 200);
    let expected = all(&db);
    disk.inject(Fault::new(CallKind::Create, FaultError::Io).on_path(".table").times(1));
    let failed = db.backup(BACKUPS).unwrap();
    disk.clear_faults();
    assert_eq!(db.stats().keyspaces[0].table_entries, 0, "it was flushed");
    assert!(restored_roomy(&disk, failed.number, "/failed") == expected);
    db.close().unwrap();
    let reader = Db::open_read_only_on(Arc::new(disk.clone()), DIR, roomy()).unwrap();
    let number = reader.backup(BACKUPS).unwrap().number;
    assert!(restored_roomy(&disk, number, "/read") == expected);
}

#[test]
fn a_backup_that_flushes_is_cut_short_at_any_call() {
    let disk = SimDisk::new();
    let db = with_kilobytes(&disk, 80);
    let expected = all(&db);
    let crashed = crashes(&disk, || {
        db.backup(BACKUPS).unwrap();
        db.backup(BACKUPS).unwrap();
    });
    let (count, mut whole) = (crashed.len(), 0);
    for (when, disk) in crashed {
        let db = open_roomy(&disk, DIR).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert!(all(&db) == expected, "{when}");
        if disk.snapshot().list(BACKUPS).is_ok() {
            for info in backups(&disk).list().unwrap() {
                assert!(
                    restored_roomy(&disk, info.number, &format!("/r{}", info.number)) == expected,
                    "{when}"
                );
                whole += 1;
            }
        }
        let number = db.backup(BACKUPS).unwrap_or_else(|error| panic!("{when}: {error}")).number;
        assert!(restored_roomy(&disk, number, "/again") == expected, "{when}");
    }
    println!("{count} crashes, {whole} backups whole");
    assert!(whole > 0);
}

#[test]
fn a_number_is_given_once() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    let make = |expected: u64| assert_eq!(db.backup(BACKUPS).unwrap().number, expected);
    (1..=3).for_each(make);
    backups(&disk).delete(3).unwrap();
    make(4);
    for number in [2, 4, 1] {
        backups(&disk).delete(number).unwrap();
    }
    assert!(backups(&disk).list().unwrap().is_empty());
    make(5);
    make(6);
    // What says so goes when a record does.
    let names = disk.snapshot().list(BACKUPS).unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".last")).count(), 0, "{names:?}");
    // Wherever the deletion of the newest is cut short, its number names nothing else.
    for (when, disk) in crashes(&disk, || assert!(backups(&disk).delete(6).unwrap() > 0)) {
        let is_there = backups(&disk).list().unwrap().len() == 2;
        let db = open(&disk).unwrap();
        assert_eq!(db.backup(BACKUPS).unwrap().number, 7, "{when}; still there: {is_there}");
        sound(&disk);
    }
}

#[test]
fn who_makes_a_backup_beside_another_is_told_so() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    write_round(&db, 0);
    db.backup(BACKUPS).unwrap();
    let mut refused = Vec::new();
    db.backup_with(BACKUPS, &BackupOptions::default(), &mut |_| {
        refused.push(db.backup(BACKUPS).unwrap_err());
        refused.push(backups(&disk).delete(1).unwrap_err());
    })
    .unwrap();
    assert!(!refused.is_empty());
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Locked);
        let text = error.to_string();
        assert!(text.contains("a backup is being made in /backups") && text.contains("wait"), "{text}");
    }
}
