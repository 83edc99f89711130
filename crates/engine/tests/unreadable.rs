//! A device that refuses to read, and what lies in the place of a file and is none: verify tells all of it,
//! and repair saves the rest.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::*;
use siltstone::io::Disk;
use siltstone::io::sim::{CallKind, Fault, FaultError, SimDisk};
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
    disk.snapshot().crash(siltstone::io::sim::CrashMode::Kill, 0)
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
            disk.write_file(Path::new(DIR).join("CURRENT"), b"nonsense").unwrap();
        }
        disk.create_dir_all(&path).unwrap();
        let (report, found) = repair(&disk);
        assert!(report.losses.iter().any(|loss| loss.file == name), "{name}: {report:?}");
        assert!(report.notes.iter().any(|note| note.contains(&name)), "{name}: {report:?}");
        assert!(found > ITEMS / 3, "{name}: {found}");
    }
}
