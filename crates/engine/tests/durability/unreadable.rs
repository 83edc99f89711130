//! A device that refuses to read, and what lies in the place of a file and is none: verify tells all of it,
//! and repair saves the rest.

use crate::common::*;
use siltstone::io::Disk;
use siltstone::io::sim::{CallKind, CrashMode, Fault, FaultError, SimDisk};
use siltstone::{Db, RepairReport, Schema, VerifyReport};
use std::path::Path;
use std::sync::Arc;

const ITEMS: u32 = 3000;
const NEW: &str = "/new";

/// Two thirds of its items are in tables, the rest is in the log.
fn store(design: &str) -> SimDisk {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = db.keyspace("items", keyspace_options(Schema::Point, tiny(design))).unwrap();
    for number in 0..ITEMS {
        items.put(number.to_be_bytes(), [7; 100]).unwrap();
        if number == ITEMS / 3 * 2 {
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
    }
    db.sync().unwrap();
    disk.snapshot().crash(CrashMode::Kill, 0)
}

fn names(disk: &SimDisk, end: &str) -> Vec<String> {
    let names = disk.snapshot().list(DIR).unwrap();
    names.into_iter().filter(|name| name.ends_with(end)).collect()
}

fn verify(disk: &SimDisk) -> VerifyReport {
    let db = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    db.verify(&mut |_| {}).unwrap()
}

/// Repairs the store, and counts what comes back.
fn repair(disk: &SimDisk) -> (RepairReport, u32) {
    let report = Db::repair_on(Arc::new(disk.clone()), DIR, NEW, &options(), &mut |_| {}).unwrap();
    disk.clear_faults();
    let db = Db::open_on(Arc::new(disk.clone()), NEW, options()).unwrap();
    let items = db.get_keyspace("items").unwrap();
    let found = (0..ITEMS).filter(|number| {
        let value = items.get(number.to_be_bytes()).unwrap();
        value.is_some_and(|value| {
            assert_eq!(*value, [7; 100]);
            true
        })
    });
    let found = found.count() as u32;
    (report, found)
}

#[test]
fn pages_that_the_device_refuses_are_lost_alone() {
    for design in ["siltstone", "stepped-merge", "silt"] {
        let disk = store(design);
        let table = names(&disk, ".table").pop().unwrap();
        let refusal = || Fault::new(CallKind::Read, FaultError::Io).on_path(&table);
        disk.inject(refusal());
        let told = verify(&disk).problems;
        assert!(told.iter().any(|problem| problem.contains(&table)), "{design}: {told:?}");
        disk.clear_faults();
        disk.inject(refusal().after(1).times(1));
        let (report, found) = repair(&disk);
        assert!(report.losses.iter().any(|loss| loss.file == table), "{design}: {report:?}");
        assert!(found < ITEMS && found > ITEMS / 2, "{design}: {found}");
    }
}

/// What can't be opened is told as any other damage, and what to do.
#[test]
fn verify_tells_of_what_is_no_file() {
    for end in [".wal", ".table"] {
        let disk = store("siltstone");
        let name = names(&disk, end).pop().unwrap();
        disk.remove(&Path::new(DIR).join(&name)).unwrap();
        disk.create_dir_all(&Path::new(DIR).join(&name)).unwrap();
        let report = Db::verify_dir_on(Arc::new(disk), DIR, &options(), &mut |_| {}).unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains(&name)), "{report:?}");
        assert!(report.advice.iter().any(|advice| advice.contains("repair")), "{report:?}");
    }
}

#[test]
fn a_log_that_the_device_refuses_costs_what_is_in_it() {
    let disk = store("siltstone");
    let log = names(&disk, ".wal").pop().unwrap();
    disk.inject(Fault::new(CallKind::Read, FaultError::Io).on_path(&log));
    let (report, found) = repair(&disk);
    let told = report.losses.iter().find(|loss| loss.file == log).unwrap();
    assert!(told.what.contains("can't be read"), "{told:?}");
    assert!((ITEMS / 3 * 2..ITEMS).contains(&found), "{found}");
}

#[test]
fn a_directory_in_the_place_of_a_file_stops_no_repair() {
    for (end, unnamed) in [(".wal", None), (".table", None), (".table", Some("00009999.table"))] {
        let disk = store("siltstone");
        let name = unnamed.map_or_else(|| names(&disk, end).pop().unwrap(), str::to_owned);
        let path = Path::new(DIR).join(&name);
        if unnamed.is_none() {
            disk.remove(&path).unwrap();
        } else {
            // Only then are tables looked for that no manifest names.
            let manifest = names(&disk, "").into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
            let bytes = disk.read_file(format!("{DIR}/{manifest}")).unwrap();
            disk.write_file(format!("{DIR}/{manifest}"), &bytes[..bytes.len() - 200]).unwrap();
        }
        disk.create_dir_all(&path).unwrap();
        let (report, found) = repair(&disk);
        assert!(report.losses.iter().any(|loss| loss.file == name), "{name}: {report:?}");
        assert!(report.notes.iter().any(|note| note.contains(&name)), "{name}: {report:?}");
        assert!(found > ITEMS / 3, "{name}: {found}");
    }
}

/// Beside a manifest that is whole, CURRENT says nothing that repair needs.
#[test]
fn a_lost_current_hides_no_other_loss_and_makes_none_up() {
    let current = Path::new(DIR).join("CURRENT");
    let disk = store("siltstone");
    disk.remove(&current).unwrap();
    let (report, found) = repair(&disk);
    assert!(report.manifest.is_some() && report.losses.is_empty() && report.kept.is_empty(), "{report:?}");
    assert_eq!(found, ITEMS);
    for damage in ["gone", "header"] {
        let disk = store("siltstone");
        disk.remove(&current).unwrap();
        let log = names(&disk, ".wal").pop().unwrap();
        let path = Path::new(DIR).join(&log);
        if damage == "gone" {
            disk.remove(&path).unwrap();
        } else {
            disk.corrupt(&path, 0, &[0; 1024]).unwrap();
        }
        let (report, found) = repair(&disk);
        assert!(report.losses.iter().any(|loss| loss.file.ends_with(".wal")), "{damage}: {report:?}");
        assert_eq!(report.kept.contains(&log), damage == "header", "{report:?}");
        assert!((ITEMS / 3 * 2..ITEMS).contains(&found), "{damage}: {found}");
    }
}

/// Where no manifest says which segments count, those that can't be believed are told and kept.
#[test]
fn segments_before_a_gap_are_told_where_the_manifest_is_lost() {
    let mut disk = SimDisk::new();
    for number in 0..4u32 {
        let db = open(&disk).unwrap();
        let items = db.keyspace("items", keyspace_options(Schema::Point, tiny("siltstone"))).unwrap();
        (0..9).for_each(|key| items.put((number * 9 + key).to_be_bytes(), [7; 100]).unwrap());
        db.sync().unwrap();
        disk = disk.snapshot().crash(CrashMode::Kill, 0);
    }
    let logs = names(&disk, ".wal");
    assert!(logs.len() >= 4, "{logs:?}");
    let manifest = names(&disk, "").into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    disk.remove(&Path::new(DIR).join(manifest)).unwrap();
    disk.corrupt(Path::new(DIR).join(&logs[2]), 0, &[0; 1024]).unwrap();
    let report = Db::repair_on(Arc::new(disk.clone()), DIR, NEW, &options(), &mut |_| {}).unwrap();
    assert!(report.losses.iter().any(|loss| loss.file == logs[2]), "{report:?}");
    for earlier in &logs[..2] {
        let is_noted = report.notes.iter().any(|note| note.contains(earlier.as_str()));
        let is_lost = report.losses.iter().any(|loss| loss.file == *earlier);
        assert!(is_noted || is_lost, "{earlier}: {report:?}");
    }
    assert!(logs[..3].iter().all(|log| report.kept.contains(log)), "{report:?}");
}

#[test]
fn tables_that_have_changed_names_are_told() {
    let disk = store("siltstone");
    let tables = names(&disk, ".table");
    let [first, second] =
        [&tables[0], &tables[1]].map(|name| disk.read_file(Path::new(DIR).join(name)).unwrap());
    disk.write_file(Path::new(DIR).join(&tables[0]), &second).unwrap();
    disk.write_file(Path::new(DIR).join(&tables[1]), &first).unwrap();
    let (report, _) = repair(&disk);
    for (name, other) in [(&tables[0], &tables[1]), (&tables[1], &tables[0])] {
        let loss = report.losses.iter().find(|loss| loss.file == *name).unwrap();
        assert!(loss.what.contains(&format!("it is {other}")), "{loss:?}");
    }
}
