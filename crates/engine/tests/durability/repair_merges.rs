//! Repair of merges: they wait in tables and in the log, and the manifest that named their operator may be
//! lost.

use crate::common::*;
use siltstone::io::Disk;
use siltstone::io::sim::SimDisk;
use siltstone::{Db, ErrorKind, KeyspaceOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const NEW: &str = "/new";

type Items = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store whose manifest is lost and that was never flushed.
fn without_manifest(merges: &[(&str, &[&str])], puts: &[(&str, &str)]) -> SimDisk {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let merge_operator = Some("append:2c".to_owned());
    let lists = db
        .create_keyspace("lists", KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() })
        .unwrap();
    let plain = db.create_keyspace("plain", KeyspaceOptions::default()).unwrap();
    for (key, operands) in merges {
        operands.iter().for_each(|operand| lists.merge(key, operand).unwrap());
    }
    for (key, value) in puts {
        plain.put(key, value).unwrap();
        plain.put_with_ttl("mortal", value, std::time::Duration::from_secs(3600)).unwrap();
    }
    drop((lists, plain));
    db.close().unwrap();
    let names = disk.snapshot().list(DIR).unwrap();
    for name in names.iter().filter(|name| name.starts_with("MANIFEST")) {
        disk.remove(&Path::new(DIR).join(name)).unwrap();
    }
    disk
}

#[test]
fn merges_in_the_log_are_kept_where_the_manifest_is_lost() {
    let merges: &[(&str, &[&str])] = &[("k1", &["a", "b"]), ("k2", &["c"]), ("k3", &["d", "e", "f"])];
    let expected: Items =
        [("k1", "a,b"), ("k2", "c"), ("k3", "d,e,f")].map(|(k, v)| (k.into(), v.into())).into();
    let disk = without_manifest(merges, &[("p", "1")]);
    let report = Db::repair_on(Arc::new(disk.clone()), DIR, NEW, &options(), &mut |_| {}).unwrap();
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    assert!(report.manifest.is_some() && report.operations == 8, "{report:?}");
    let note = report.notes.iter().find(|note| note.contains("merge")).unwrap();
    assert!(note.contains("lost+found-log-") && note.contains("--merge-operator"), "{note}");
    // Without the operator they are there and not read as something else.
    let db = Db::open_on(Arc::new(disk.clone()), NEW, options()).unwrap();
    let of = |db: &Db, operator: Option<&str>| {
        let names = db.keyspaces();
        let mut found = names.iter().map(|name| db.get_keyspace(name).unwrap());
        found.find(|keyspace| keyspace.merge_operator() == operator).unwrap()
    };
    assert_eq!(of(&db, Some("unknown")).get("k3").unwrap_err().kind(), ErrorKind::MergeFailed);
    let plain = of(&db, None);
    assert_eq!(plain.get("p").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(plain.contains("mortal").unwrap());
    db.flush().unwrap();
    drop(plain);
    db.close().unwrap();
    // With it they make values: at once, or when the repair is made with its name.
    let named = |name: &str| {
        let merge_operators = options().merge_operators.with_unknown(name).unwrap();
        siltstone::Options { merge_operators, ..options() }
    };
    let db = Db::open_on(Arc::new(disk.clone()), NEW, named("append:2c")).unwrap();
    assert_eq!(contents(&of(&db, Some("unknown"))), expected);
    drop(db);
    let again = Path::new("/again");
    let report = Db::repair_on(Arc::new(disk.clone()), DIR, again, &named("append:2c"), &mut |_| {}).unwrap();
    assert!(report.losses.is_empty() && report.notes.is_empty(), "{report:?}");
    let db = Db::open_on(Arc::new(disk.clone()), again, options()).unwrap();
    assert_eq!(contents(&of(&db, Some("append:2c"))), expected);
}

#[test]
fn merges_in_tables_are_kept_where_the_manifest_is_lost_and_nothing_is_said_to_be() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let merge_operator = Some("add".to_owned());
    let sums =
        db.create_keyspace("sums", KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() }).unwrap();
    for number in 0..200u64 {
        sums.merge((number % 50).to_be_bytes(), number.to_le_bytes()).unwrap();
    }
    let expected = contents(&sums);
    db.flush().unwrap();
    drop(sums);
    db.close().unwrap();
    let names = disk.snapshot().list(DIR).unwrap();
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    disk.remove(&Path::new(DIR).join(manifest)).unwrap();
    let merge_operators = options().merge_operators.with_unknown("add").unwrap();
    let named = siltstone::Options { merge_operators, ..options() };
    let report = Db::repair_on(Arc::new(disk.clone()), DIR, NEW, &named, &mut |_| {}).unwrap();
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    assert!(report.unnamed_tables > 0 && report.notes.len() as u64 == report.unnamed_tables, "{report:?}");
    let db = Db::open_on(Arc::new(disk.clone()), NEW, options()).unwrap();
    let names = db.keyspaces();
    let found: Items = names.iter().flat_map(|name| contents(&db.get_keyspace(name).unwrap())).collect();
    // What was flushed in pieces is in several keyspaces, each with its part.
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
}
