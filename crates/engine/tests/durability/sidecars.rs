//! Files in which earlier programs kept filters of regions give way to sidecars, and change no answer.

use crate::common::*;
use siltstone::io::Disk;
use siltstone::io::sim::SimDisk;
use siltstone::{Db, KeyspaceOptions, Options, RegionFilterSpec, Schema, TableFilterSpec};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const ITEMS: u32 = 400;

fn with_metadata() -> Options {
    Options { metadata_dir: Some("/metadata".into()), memory_budget_bytes: 16 << 20, ..options() }
}

/// A store with Bloom clusters in a directory of its own, closed; returns that directory.
fn clustered(disk: &SimDisk) -> String {
    let mut design = tiny("stepped-merge");
    for level in &mut design.levels {
        level.table_filter = TableFilterSpec::None;
        level.region_filter = RegionFilterSpec::BloomCluster { bits_per_key: 12 };
    }
    let db = Db::open_on(Arc::new(disk.clone()), DIR, with_metadata()).unwrap();
    let options =
        KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() };
    let items = db.keyspace("items", options).unwrap();
    for number in 0..ITEMS {
        items.put(number.to_be_bytes(), [7; 40]).unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    drop(items);
    db.close().unwrap();
    let [dir] = &disk.list(Path::new("/metadata")).unwrap()[..] else { panic!("one directory") };
    format!("/metadata/{dir}")
}

fn check(db: &Db) {
    let items = db.get_keyspace("items").unwrap();
    for number in 0..ITEMS {
        assert_eq!(items.get(number.to_be_bytes()).unwrap(), Some(vec![7; 40]), "{number}");
        assert_eq!(items.get((number + ITEMS).to_be_bytes()).unwrap(), None);
    }
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

fn names(disk: &SimDisk, dir: &str) -> Vec<String> {
    disk.list(Path::new(dir)).unwrap()
}

#[test]
fn filters_of_earlier_programs_are_noted_and_removed() {
    let disk = SimDisk::new();
    let elsewhere = clustered(&disk);
    let old =
        ["/db/GUIDES", "/db/00000007.cluster", &format!("{elsewhere}/00000009.cluster")].map(str::to_owned);
    for path in &old {
        disk.write_file(path, b"filters").unwrap();
    }
    let reader = Db::open_read_only_on(Arc::new(disk.clone()), DIR, with_metadata()).unwrap();
    let notes = reader.verify(&mut |_| {}).unwrap().notes;
    assert_eq!(notes.len(), old.len(), "{notes:?}");
    for path in &old {
        assert!(
            notes.iter().any(|note| note.contains(path) && note.contains("unaffected")),
            "{path}: {notes:?}"
        );
    }
    check(&reader);
    drop(reader);
    assert!(old.iter().all(|path| disk.read_file(path).is_ok()), "nothing changes for a reader");
    let db = Db::open_on(Arc::new(disk.clone()), DIR, with_metadata()).unwrap();
    check(&db);
    while db.step().unwrap() {}
    assert_eq!(db.verify(&mut |_| {}).unwrap().notes, Vec::<String>::new());
    assert!(old.iter().all(|path| disk.read_file(path).is_err()), "{:?}", names(&disk, DIR));
}

#[test]
fn the_directory_that_an_earlier_program_chose_is_kept() {
    let disk = SimDisk::new();
    let elsewhere = clustered(&disk);
    let sidecars = names(&disk, &elsewhere);
    // As an earlier program wrote it: another name, another first line.
    let text = String::from_utf8(disk.read_file("/db/SIDECARS").unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "siltsidecars 1"));
    let old = format!("siltclusters 1\n{}\n{}\n", lines[1], lines[2]);
    let old = format!("{old}{:08x}\n", crc32c::crc32c(old.as_bytes()));
    disk.remove(Path::new("/db/SIDECARS")).unwrap();
    disk.write_file("/db/CLUSTERS", old.as_bytes()).unwrap();

    let reader = Db::open_read_only_on(Arc::new(disk.clone()), DIR, with_metadata()).unwrap();
    let report = reader.verify(&mut |_| {}).unwrap();
    assert!(report.sidecars > 0 && report.notes.is_empty(), "{report:?}");
    drop(reader);
    let db = Db::open_on(Arc::new(disk.clone()), DIR, with_metadata()).unwrap();
    assert!(db.verify(&mut |_| {}).unwrap().sidecars > 0);
    check(&db);
    db.close().unwrap();
    assert!(disk.read_file("/db/CLUSTERS").is_err());
    assert_eq!(disk.read_file("/db/SIDECARS").unwrap(), text.as_bytes());
    assert_eq!(names(&disk, "/metadata").len(), 1);
    assert!(names(&disk, &elsewhere).iter().any(|name| sidecars.contains(name)));

    // An opening that does not use the directory takes both names away.
    disk.write_file("/db/CLUSTERS", old.as_bytes()).unwrap();
    let db =
        Db::open_on(Arc::new(disk.clone()), DIR, Options { metadata_dir: None, ..with_metadata() }).unwrap();
    check(&db);
    db.close().unwrap();
    assert!(disk.read_file("/db/CLUSTERS").is_err() && disk.read_file("/db/SIDECARS").is_err());
}
