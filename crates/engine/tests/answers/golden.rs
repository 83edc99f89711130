//! Stores written by every format version there has been, checked in; this program must read them all.
//!
//! | store | made when | holds |
//! |---|---|---|
//! | `golden/v1` | a level's design had one field `filter` | every kind of entry, in tables and in the log |
//! | `golden/v2` | a level has a filter of its tables and one of its regions | every kind of region filter, and its sidecars |
//!
//! A store was made by `cargo test --test answers golden:: -- --ignored`, which writes it beside the build's other
//! temporary files and says where. What changes the bytes of a store gets a directory of its own; an old one
//! is never made again.

use crate::common::*;
use siltstone::{Db, Design, Keyspace, KeyspaceOptions, Options, RegionFilterSpec, Schema, TableFilterSpec};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Longer than anyone will run this test: an item that expires, but not yet.
const AGES: Duration = Duration::from_secs(500 * 365 * 24 * 3600);

/// Copies a checked-in store to `path`.
fn copy_golden(name: &str, path: &Path) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    std::fs::create_dir(path).unwrap();
    let mut bytes = 0;
    for file in std::fs::read_dir(golden).unwrap() {
        let file = file.unwrap();
        bytes += std::fs::copy(file.path(), path.join(file.file_name())).unwrap();
    }
    assert!(bytes < 200_000, "{bytes} bytes are too many to check in");
}

fn keyspaces(db: &Db) -> [Keyspace; 3] {
    [
        ("point", Schema::Point, tiny("leveled")),
        ("files", ORDERED, tiny("stepped-merge")),
        ("tags", HASHED, tiny("stepped-merge")),
    ]
    .map(|(name, schema, design)| db.keyspace(name, keyspace_options(schema, design)).unwrap())
}

/// A value of `len` bytes that depends on `n` only.
fn value(n: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n as usize * 31 + i * 7) as u8).collect()
}

/// Makes a store with every kind of entry, in tables and in the log.
fn write(db: &Db) {
    let [point, files, tags] = keyspaces(db);
    for n in 0..200u32 {
        point.put(format!("key{n}").as_bytes(), value(n, 30)).unwrap();
        files.put(format!("d{}/{n}", n % 4).as_bytes(), value(n, 40)).unwrap();
        tags.put(format!("t{}{n}", n % 3).as_bytes(), value(n, 20)).unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    point.put(b"overflow", value(1, 9000)).unwrap();
    point.put(value(2, 5000), b"big key").unwrap();
    point.put(b"empty", b"").unwrap();
    point.put_with_ttl(b"expires", b"not yet", AGES).unwrap();
    point.put_with_ttl(b"expired", b"gone", Duration::ZERO).unwrap();
    for n in 0..20 {
        point.delete(format!("key{n}").as_bytes()).unwrap();
    }
    files.delete_prefix(b"d1/").unwrap();
    files.put(b"d1/back", b"again").unwrap();
    db.flush().unwrap();
    // From here on in the log only.
    files.delete_prefix(b"d2/").unwrap();
    files.put(b"d2/log", b"unflushed").unwrap();
    point.delete(b"key20").unwrap();
    point.put(b"key21", value(21, 5000)).unwrap();
    point.put_with_ttl(b"expires too", b"not yet", AGES).unwrap();
    tags.put(b"t0", b"").unwrap();
    db.sync().unwrap();
}

type Items = BTreeMap<Vec<u8>, Vec<u8>>;

fn expected() -> [Items; 3] {
    let [mut point, mut files, mut tags] = <[Items; 3]>::default();
    for n in 0..200u32 {
        if n > 20 {
            point.insert(format!("key{n}").into_bytes(), value(n, if n == 21 { 5000 } else { 30 }));
        }
        if n % 4 == 0 || n % 4 == 3 {
            files.insert(format!("d{}/{n}", n % 4).into_bytes(), value(n, 40));
        }
        tags.insert(format!("t{}{n}", n % 3).into_bytes(), value(n, 20));
    }
    point.insert(b"overflow".to_vec(), value(1, 9000));
    point.insert(value(2, 5000), b"big key".to_vec());
    point.insert(b"empty".to_vec(), Vec::new());
    point.insert(b"expires".to_vec(), b"not yet".to_vec());
    point.insert(b"expires too".to_vec(), b"not yet".to_vec());
    files.insert(b"d1/back".to_vec(), b"again".to_vec());
    files.insert(b"d2/log".to_vec(), b"unflushed".to_vec());
    tags.insert(b"t0".to_vec(), Vec::new());
    [point, files, tags]
}

fn check(db: &Db) {
    assert_eq!(db.keyspaces(), ["files", "point", "tags"]);
    for (keyspace, expected) in keyspaces(db).iter().zip(expected()) {
        assert!(contents(keyspace) == expected, "{}", keyspace.name());
        for (key, value) in &expected {
            assert_eq!(keyspace.get(key).unwrap().as_ref(), Some(value));
        }
    }
    let [point, files, _] = keyspaces(db);
    for gone in ["key0", "key20", "expired"] {
        assert_eq!(point.get(gone.as_bytes()).unwrap(), None);
    }
    assert_eq!(files.prefix(b"d1/").unwrap().count(), 1);
    assert_eq!(files.prefix(b"d3/").unwrap().count(), 50);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_store_of_format_version_1_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    copy_golden("v1", &path);
    // A store made by others has a secret of its own, and opens with any options.
    let options = Options { background_threads: 0, ..Options::default() };
    check(&Db::open_read_only(&path, options.clone()).unwrap());
    let db = Db::open(&path, options.clone()).unwrap();
    check(&db);
    db.flush().unwrap();
    while db.step().unwrap() {}
    check(&db);
    db.close().unwrap();
    check(&Db::open(&path, options).unwrap());
}

/// One level of regions with a filter each, so that few items make every kind of sidecar.
fn filtered_design(region_filter: RegionFilterSpec) -> Design {
    let mut design = tiny("stepped-merge");
    for level in &mut design.levels {
        (level.table_filter, level.region_filter) = (TableFilterSpec::None, region_filter);
        level.runs = 6;
    }
    design
}

fn filtered_keyspaces(db: &Db) -> [Keyspace; 3] {
    [
        ("cuckoo", RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits: 12 }),
        ("maplet", RegionFilterSpec::Maplet { remainder_bits: 6 }),
        ("cluster", RegionFilterSpec::BloomCluster { bits_per_key: 12 }),
    ]
    .map(|(name, filter)| {
        let design = Some(filtered_design(filter));
        db.keyspace(name, KeyspaceOptions { schema: Schema::Point, design, ..KeyspaceOptions::default() })
            .unwrap()
    })
}

const FILTERED_ITEMS: u32 = 260;

/// Makes a store whose regions have several runs, filters over them, and sidecars of those.
fn write_filtered(db: &Db) {
    for keyspace in &filtered_keyspaces(db) {
        for n in 0..FILTERED_ITEMS {
            keyspace.put(format!("key{n}").as_bytes(), value(n, 40)).unwrap();
            if n % 60 == 59 {
                db.flush().unwrap();
                while db.step().unwrap() {}
            }
        }
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    // The last run's part of each filter is in memory, and kept by closing.
    for keyspace in &filtered_keyspaces(db) {
        keyspace.delete(b"key7").unwrap();
    }
    db.flush().unwrap();
}

fn check_filtered(db: &Db) {
    assert_eq!(db.keyspaces(), ["cluster", "cuckoo", "maplet"]);
    for keyspace in &filtered_keyspaces(db) {
        for n in 0..FILTERED_ITEMS {
            let expected = (n != 7).then(|| value(n, 40));
            assert_eq!(keyspace.get(format!("key{n}").as_bytes()).unwrap(), expected, "{}", keyspace.name());
        }
        for n in FILTERED_ITEMS..2 * FILTERED_ITEMS {
            assert_eq!(keyspace.get(format!("key{n}").as_bytes()).unwrap(), None);
        }
    }
}

/// Checks that region filters know all runs without background work, and that sidecars are sound.
fn check_sidecars(db: &Db) {
    let report = db.verify(&mut |_| {}).unwrap();
    assert_eq!((report.problems, report.notes), (Vec::new(), Vec::new()));
    assert!(report.sidecars > 0);
    for keyspace in &filtered_keyspaces(db) {
        let levels = keyspace.stats().levels;
        let (runs, known) = levels
            .iter()
            .fold((0, 0), |(runs, known), level| (runs + level.runs, known + level.filtered_runs));
        assert!(runs > 3 && runs == known, "{}: {levels:?}", keyspace.name());
    }
}

#[test]
fn a_store_with_sidecars_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    copy_golden("v2", &path);
    let options = Options { background_threads: 0, ..Options::default() };
    let db = Db::open_read_only(&path, options.clone()).unwrap();
    check_filtered(&db);
    check_sidecars(&db);
    drop(db);
    let db = Db::open(&path, options.clone()).unwrap();
    assert_eq!(db.stats().compaction_bytes_read, 0, "filters come out of sidecars, not out of tables");
    check_sidecars(&db);
    check_filtered(&db);
    for keyspace in &filtered_keyspaces(&db) {
        keyspace.put(b"key7", value(7, 40)).unwrap();
        keyspace.delete(b"key7").unwrap();
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    check_filtered(&db);
    db.close().unwrap();
    let db = Db::open(&path, options).unwrap();
    check_filtered(&db);
    check_sidecars(&db);
}

/// Writes a store to be checked in and closes it.
fn generate(name: &str, write: fn(&Db), check: fn(&Db)) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    let db = Db::open(&path, options()).unwrap();
    write(&db);
    check(&db);
    db.close().unwrap();
    std::fs::remove_file(path.join("LOCK")).unwrap();
    println!("{}", path.display());
}

#[test]
#[ignore = "makes a golden store to be checked in"]
fn generate_all_entries() {
    generate("entries", write, check);
}

#[test]
#[ignore = "makes a golden store to be checked in"]
fn generate_region_filters() {
    generate("v2", write_filtered, |db| {
        check_filtered(db);
        check_sidecars(db);
    });
}
