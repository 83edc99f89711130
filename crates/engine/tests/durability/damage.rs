//! Damaged bytes, missing files, foreign directories and bad input.
//!
//! A flipped bit anywhere in a closed store gives an error that names the file, or changes nothing. By
//! default every twenty-third byte of the middles of files is tried; `SILTSTONE_LONG=1` tries every byte.

use crate::common::*;
use siltstone::io::sim::{CrashMode, DiskImage, SimDisk};
use siltstone::{
    Batch, Compression, Db, Durability, ErrorKind, KeyspaceOptions, Options, WalRecovery, WriteBufferSpec,
    WriteOptions,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

type Items = BTreeMap<Vec<u8>, Vec<u8>>;

struct Store {
    image: DiskImage,
    /// What each keyspace holds.
    expected: BTreeMap<String, Items>,
    /// The last writes, which stand in the log, in order.
    in_log: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A store with tables of several levels, overflow pages, deleted prefixes and an unflushed log, closed in
/// order.
fn store() -> Store {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let files = db.keyspace("files", keyspace_options(ORDERED, tiny("stepped-merge"))).unwrap();
    let point = db.keyspace("point", keyspace_options(siltstone::Schema::Point, tiny("leveled"))).unwrap();
    let log = db.keyspace("log", keyspace_options(siltstone::Schema::Point, log_stored("leveled"))).unwrap();
    let compressed = tiny("stepped-merge").with_compression(Compression::Dictionary);
    let text = db.keyspace("text", keyspace_options(ORDERED, compressed)).unwrap();
    let mut rng = Rng::new(11);
    for n in 0..150u32 {
        let len = if n % 40 == 7 { 5000 } else { 60 };
        files.put(format!("d{}/{n}", n % 5).as_bytes(), rng.bytes(len)).unwrap();
        point.put(n.to_be_bytes(), rng.bytes(40)).unwrap();
        let length = if n % 70 == 7 { 9000 } else { 150 };
        text.put(format!("d{}/package-{n}", n % 5), rng.value(length)).unwrap();
        if n % 3 == 0 {
            log.put(n.to_be_bytes(), rng.bytes(40)).unwrap();
        }
        if n % 50 == 49 {
            db.flush().unwrap();
            db.step().unwrap();
        }
    }
    files.delete_prefix(b"d3/").unwrap();
    db.flush().unwrap();
    let mut in_log = Vec::new();
    for n in 0..12u32 {
        let (key, value) = (format!("d3/new{n}").into_bytes(), rng.bytes(50));
        // Some are new, and some overwritten in the log.
        log.put((n % 8).to_be_bytes(), &value).unwrap();
        files.put(&key, &value).unwrap();
        in_log.push((key, value));
        if n == 5 {
            db.sync().unwrap();
        }
    }
    let stats = text.stats();
    assert!(stats.levels.iter().any(|level| level.compressed_bytes > 0), "{stats:?}");
    let expected =
        [&files, &point, &log, &text].map(|keyspace| (keyspace.name().to_owned(), contents(keyspace)));
    drop((files, point, log, text));
    db.close().unwrap();
    Store { image: disk.snapshot(), expected: expected.into(), in_log }
}

/// What happens to a damaged store.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// All answers are right.
    Right,
    /// An error named the file.
    Noticed,
}

/// Opens the store and reads everything; the damaged file is `file`.
fn outcome(disk: &SimDisk, store: &Store, file: &str) -> Outcome {
    let named = |error: &siltstone::Error| {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(file), "{error} does not name {file}");
    };
    let db = match open(disk) {
        Ok(db) => db,
        Err(error) => {
            named(&error);
            return Outcome::Noticed;
        }
    };
    let mut noticed = false;
    assert_eq!(db.keyspaces(), store.expected.keys().cloned().collect::<Vec<_>>());
    for (name, expected) in &store.expected {
        let keyspace = db.get_keyspace(name).unwrap();
        match keyspace.iter().and_then(Iterator::collect::<siltstone::Result<Items>>) {
            Ok(found) => assert!(found == *expected, "a wrong answer after damage to {file}"),
            Err(error) => {
                named(&error);
                noticed = true;
            }
        }
        for (key, value) in expected.iter().step_by(3) {
            match keyspace.get(key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(value)),
                Err(error) => {
                    named(&error);
                    noticed = true;
                }
            }
        }
        match keyspace.get(b"d1/absent") {
            Ok(found) => assert_eq!(found, None),
            Err(error) => named(&error),
        }
    }
    let report = db.verify(&mut |_| {}).unwrap();
    if noticed || (file.ends_with(".table") && !report.problems.is_empty()) {
        assert!(!report.problems.is_empty(), "verify does not see the damage to {file}");
        assert!(report.problems.iter().all(|problem| problem.contains(file)), "{:?}", report.problems);
        return Outcome::Noticed;
    }
    assert_eq!(report.problems, Vec::<String>::new());
    Outcome::Right
}

fn files(image: &DiskImage, part: &str) -> Vec<String> {
    let names = image.list(DIR).unwrap();
    names.into_iter().filter(|name| name.contains(part)).collect()
}

/// Flips a bit at every offset of the files whose name holds `part`, and says at how many it was noticed and
/// tried.
fn flip_everywhere(store: &Store, part: &str) -> (usize, usize) {
    let names = files(&store.image, part);
    assert!(!names.is_empty());
    let mut flips = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let length = store.image.read_file(format!("{DIR}/{name}")).unwrap().len();
        flips.extend((0..length).map(|at| (name, at)).filter(|(_, at)| {
            let is_edge = *at < 100 || at + 400 > length || at % 4096 < 12 || (512..560).contains(at);
            is_long() || (at + number) % 23 == 0 || (is_edge && number < 2)
        }));
    }
    let outcomes = on_two_threads(flips.len() as u64, |number| {
        let (name, at) = flips[number as usize];
        let disk = store.image.crash(CrashMode::Kill, 0);
        disk.flip_bit(format!("{DIR}/{name}"), at as u64, (at % 8) as u8).unwrap();
        outcome(&disk, store, name)
    });
    let noticed = outcomes.iter().filter(|outcome| **outcome == Outcome::Noticed).count();
    println!("{part}: {noticed} of {} flips noticed", flips.len());
    (noticed, flips.len())
}

#[test]
fn a_flipped_bit_in_current_is_noticed() {
    let store = store();
    let (noticed, tried) = flip_everywhere(&store, "CURRENT");
    // Only a checksum's digit in the other case says the same.
    assert!(noticed + 8 >= tried, "{noticed} of {tried}");
}

#[test]
fn a_flipped_bit_in_the_manifest_is_noticed() {
    let store = store();
    let (noticed, tried) = flip_everywhere(&store, "MANIFEST");
    // The header stands twice, and the mark at the end says nothing of its own.
    assert!(noticed + 1100 > tried, "{noticed} of {tried}");
}

#[test]
fn a_flipped_bit_in_the_log_is_noticed() {
    let store = store();
    let (noticed, _) = flip_everywhere(&store, ".wal");
    assert!(noticed > 0);
}

#[test]
fn a_flipped_bit_in_a_table_is_noticed() {
    let store = store();
    let (noticed, tried) = flip_everywhere(&store, ".table");
    assert_eq!(noticed, tried);
}

/// A device can write a page where another belongs, of the same table or of another one. The page is whole, so
/// its checksum has to say where it belongs.
#[test]
fn a_misplaced_page_is_noticed() {
    let store = store();
    let tables = files(&store.image, ".table");
    let bytes_of = |name: &str| store.image.read_file(format!("{DIR}/{name}")).unwrap();
    let (mut noticed, mut tried) = (0, 0);
    for (number, name) in tables.iter().enumerate() {
        let own = bytes_of(name);
        let other = bytes_of(&tables[(number + 1) % tables.len()]);
        let starts = |bytes: &[u8]| (0..bytes.len() / PAGE_BYTES).map(|page| page * PAGE_BYTES);
        let page_at = |bytes: &[u8], at: usize| bytes[at..at + PAGE_BYTES].to_vec();
        for at in starts(&own) {
            let of_own = starts(&own).map(|from| page_at(&own, from));
            // From another table, what is at the same place is the likeliest to be taken for what belongs there.
            let of_other = starts(&other).filter(|from| *from == at).map(|from| page_at(&other, from));
            for page in of_own.chain(of_other).filter(|page| own[at..at + PAGE_BYTES] != page[..]) {
                let disk = store.image.crash(CrashMode::Kill, 0);
                disk.corrupt(format!("{DIR}/{name}"), at as u64, &page).unwrap();
                tried += 1;
                noticed += usize::from(outcome(&disk, &store, name) == Outcome::Noticed);
            }
        }
    }
    println!("{noticed} of {tried} misplaced pages noticed");
    assert!(tried > 40 && noticed == tried, "{noticed} of {tried} misplaced pages noticed");
}

#[test]
fn cut_files_are_noticed_or_leave_a_prefix() {
    let store = store();
    for name in files(&store.image, "") {
        let path = format!("{DIR}/{name}");
        let bytes = store.image.read_file(&path).unwrap();
        let lengths = (0..bytes.len()).step_by(if is_long() { 1 } else { bytes.len() / 40 + 1 });
        for length in lengths.chain([bytes.len().saturating_sub(1)]) {
            let disk = store.image.crash(CrashMode::Kill, 0);
            disk.write_file(&path, &bytes[..length]).unwrap();
            if name.ends_with(".wal") || name.starts_with("MANIFEST") {
                // The end of a log may be lost in a crash, so losing it is no sign of damage; but there is no
                // hole.
                let db = match open(&disk) {
                    Ok(db) => db,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                        continue;
                    }
                };
                let Some(keyspace) = db.get_keyspace("files").filter(|_| name.ends_with(".wal")) else {
                    continue;
                };
                let found = contents(&keyspace);
                let kept = store.in_log.iter().take_while(|(key, _)| found.contains_key(key)).count();
                let mut expected = store.expected["files"].clone();
                store.in_log[kept..].iter().for_each(|(key, _)| assert!(expected.remove(key).is_some()));
                assert!(found == expected, "{name} cut to {length} bytes");
            } else if name != "LOCK" {
                assert_eq!(outcome(&disk, &store, &name), Outcome::Noticed, "{name} cut to {length} bytes");
            }
        }
    }
}

#[test]
fn missing_files_are_named() {
    let store = store();
    for name in files(&store.image, "") {
        let disk = store.image.crash(CrashMode::Kill, 0);
        siltstone::io::Disk::remove(&disk, Path::new(&format!("{DIR}/{name}"))).unwrap();
        if name == "CURRENT" || name.starts_with("MANIFEST") || name.ends_with(".table") {
            assert_eq!(outcome(&disk, &store, &name), Outcome::Noticed, "without {name}");
        }
    }
}

#[test]
fn a_missing_table_is_spoken_of_in_one_way() {
    let store = store();
    let name = files(&store.image, ".table").remove(0);
    let disk = store.image.crash(CrashMode::Kill, 0);
    siltstone::io::Disk::remove(&disk, Path::new(&format!("{DIR}/{name}"))).unwrap();
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{DIR}/{name} is missing")), "{error}");
    let read_only = Db::open_read_only_on(Arc::new(disk), DIR, options()).unwrap_err();
    assert_eq!(read_only.to_string(), error);
}

#[test]
fn neighbouring_damaged_pages_are_one_problem() {
    let store = store();
    // The table with most pages.
    let tables = files(&store.image, ".table");
    let length = |name: &String| store.image.read_file(format!("{DIR}/{name}")).unwrap().len();
    let name = tables.iter().max_by_key(|name| length(name)).unwrap();
    let path = format!("{DIR}/{name}");
    let bytes = store.image.read_file(&path).unwrap();
    let problems = |bytes: &[u8]| {
        let disk = store.image.crash(CrashMode::Kill, 0);
        disk.write_file(&path, bytes).unwrap();
        open(&disk).unwrap().verify(&mut |_| {}).unwrap().problems
    };
    let cut = problems(&bytes[..5000]);
    assert_eq!(cut.len(), 1, "{cut:?}");
    assert!(
        cut[0].starts_with("pages 1-") && cut[0].contains(": the first is damaged at byte 4096"),
        "{cut:?}"
    );
    let mut two_places = bytes.clone();
    two_places[100] ^= 1;
    two_places[2 * 4096] ^= 1;
    let two_places = problems(&two_places);
    assert_eq!(two_places.len(), 2, "{two_places:?}");
    for problem in cut.iter().chain(&two_places) {
        assert_eq!(problem.matches(name).count(), 1, "the file is named once: {problem}");
    }
    let longer = problems(&[&bytes[..], b"more"].concat());
    assert_eq!(longer, [format!("{path}: 4 bytes follow the table's end at byte {}", bytes.len())]);
}

#[test]
fn stop_at_damage_opens_with_what_precedes_it_and_goes_on() {
    let store = store();
    let stop = Options { wal_recovery: WalRecovery::StopAtDamage, ..options() };
    let mut stopped = 0;
    for name in files(&store.image, ".wal") {
        let path = format!("{DIR}/{name}");
        let length = store.image.read_file(&path).unwrap().len();
        for at in (0..length).step_by(if is_long() { 1 } else { 13 }) {
            let disk = store.image.crash(CrashMode::Kill, 0);
            disk.flip_bit(&path, at as u64, 3).unwrap();
            let Err(error) = open(&disk) else { continue };
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains("StopAtDamage"), "{error}");
            stopped += 1;
            let db = Db::open_on(Arc::new(disk.clone()), DIR, stop.clone()).unwrap();
            let files = db.get_keyspace("files").unwrap();
            let found = contents(&files);
            let kept = store.in_log.iter().take_while(|(key, _)| found.contains_key(key)).count();
            assert!(kept < store.in_log.len());
            assert!(store.in_log[kept..].iter().all(|(key, _)| !found.contains_key(key)), "a hole");
            files.put(b"d9/after", b"").unwrap();
            let now = contents(&files);
            drop(files);
            db.close().unwrap();
            // Once given up, the damage is no longer in the way.
            let db = open(&disk).unwrap_or_else(|error| panic!("byte {at} of {name}, opened again: {error}"));
            assert!(contents(&db.get_keyspace("files").unwrap()) == now);
        }
    }
    assert!(stopped > 0);
}

#[test]
fn a_directory_that_is_no_store_is_left_alone() {
    let disk = SimDisk::new();
    siltstone::io::Disk::create_dir_all(&disk, Path::new(DIR)).unwrap();
    disk.write_file("/db/notes.txt", b"mine").unwrap();
    let error = open(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAStore);
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(disk.snapshot().list(DIR).unwrap(), ["notes.txt"]);
    disk.write_file("/file", b"").unwrap();
    let error = Db::open_on(Arc::new(disk.clone()), "/file", options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAStore, "{error}");

    let missing = Options { create_if_missing: false, ..options() };
    for dir in ["/nowhere", "/empty"] {
        let error = Db::open_on(Arc::new(disk.clone()), dir, missing.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAStore, "{error}");
        let error = Db::open_read_only_on(Arc::new(disk.clone()), dir, missing.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAStore, "{error}");
        siltstone::io::Disk::create_dir_all(&disk, Path::new("/empty")).unwrap();
    }
    let db = Db::open_on(Arc::new(disk), "/empty", options()).unwrap();
    assert!(db.keyspaces().is_empty());
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let point = db.keyspace("point", KeyspaceOptions::default()).unwrap();
    let files = db.keyspace("files", keyspace_options(ORDERED, tiny("leveled"))).unwrap();
    let tags = db.keyspace("tags", keyspace_options(HASHED, tiny("leveled"))).unwrap();
    point.put(b"k", b"v").unwrap();
    let refused = |result: siltstone::Result<()>, kind: ErrorKind, says: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error:?} does not say {says:?}");
    };
    let invalid = |result, says: &str| refused(result, ErrorKind::InvalidInput, says);
    let bad_key = |result, says: &str| refused(result, ErrorKind::BadKey, says);
    bad_key(point.put(b"", b"v"), "empty");
    bad_key(point.get(b"").map(|_| ()), "empty");
    bad_key(point.put([0; 65_536], b"v"), "65535");
    bad_key(point.delete([0; 65_536]), "65535");
    point.put([0; 65_535], b"v").unwrap();
    invalid(point.put(b"big", vec![0; (1 << 30) + 1]), "1 GiB");
    invalid(point.delete_prefix(b"k"), "point schema");
    invalid(point.prefix(b"k").map(|_| ()), "point schema");
    bad_key(files.put(b"no-slash", b"v"), "delimiter");
    bad_key(files.delete_prefix(b"dir"), "delimiter");
    bad_key(files.prefix(b"a/b").map(|_| ()), "delimiter");
    bad_key(tags.put(b"a", b""), "prefix of 2 bytes");
    bad_key(tags.prefix(b"abc").map(|_| ()), "length");
    invalid(tags.prefix_range(b"ab", ..).map(|_| ()), "ordered");
    for name in ["", "tab\t", &"x".repeat(256)] {
        invalid(db.keyspace(name, KeyspaceOptions::default()).map(|_| ()), "name");
    }
    let other = KeyspaceOptions { schema: HASHED, design: None, ..KeyspaceOptions::default() };
    invalid(db.keyspace("files", other).map(|_| ()), "schema");
    refused(db.drop_keyspace("none"), ErrorKind::NoKeyspace, "none");
    let mut design = tiny("leveled");
    design.levels[1].runs = 0;
    let options = KeyspaceOptions { design: Some(design), ..KeyspaceOptions::default() };
    invalid(db.keyspace("new", options).map(|_| ()), "levels[1].runs");
    let mut design = tiny("leveled");
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 1 << 20 };
    let options = KeyspaceOptions { design: Some(design), ..KeyspaceOptions::default() };
    invalid(db.keyspace("new", options).map(|_| ()), "memory_budget_bytes");
    let elsewhere = open(&SimDisk::new()).unwrap();
    let foreign = elsewhere.create_keyspace("point", KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&point, b"a", b"").unwrap();
    batch.put(&foreign, b"a", b"").unwrap();
    let synced = WriteOptions { durability: Some(Durability::Synced) };
    invalid(db.write(&batch, &synced), "another store");
    let error = db.snapshot().get(&foreign, b"k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoKeyspace);
    let key_error = std::error::Error::source(&point.put(b"", b"v").unwrap_err()).map(ToString::to_string);
    assert_eq!(key_error, Some(siltstone::KeyError::Empty.to_string()));
    assert_eq!(db.keyspaces(), ["files", "point", "tags"]);
    assert_eq!(contents(&point).len(), 2);
}

#[test]
fn a_budget_too_small_for_a_keyspace_names_it() {
    let disk = SimDisk::new();
    let mut design = tiny("leveled");
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 2 << 20 };
    let keyspace = KeyspaceOptions { design: Some(design), ..KeyspaceOptions::default() };
    let roomy = Options { memory_budget_bytes: 8 << 20, ..options() };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, roomy).unwrap();
    db.keyspace("small", KeyspaceOptions::default()).unwrap();
    db.keyspace("large", keyspace.clone()).unwrap();
    db.close().unwrap();
    let tight = Options { memory_budget_bytes: 2 << 20, ..options() };
    let error = Db::open_on(Arc::new(disk), DIR, tight.clone()).unwrap_err().to_string();
    assert!(
        error.starts_with("keyspace \"large\": design.write_buffer.bytes")
            && error.contains("memory_budget_bytes"),
        "{error}"
    );
    let db = Db::open_on(Arc::new(SimDisk::new()), DIR, tight).unwrap();
    let refused = db.keyspace("other", keyspace).unwrap_err().to_string();
    assert!(refused.starts_with("keyspace \"other\": design.write_buffer.bytes"), "{refused}");
}

#[test]
fn options_that_can_not_work_are_refused_by_name() {
    let cases: [(Options, &str); 5] = [
        (Options { memory_budget_bytes: 1000, ..options() }, "memory_budget_bytes"),
        (Options { max_sealed_memtables: 0, ..options() }, "max_sealed_memtables"),
        (Options { background_threads: 65, ..options() }, "background_threads"),
        (Options { max_open_files: 0, ..options() }, "max_open_files"),
        (
            Options {
                default_design: siltstone::Design { levels: Vec::new(), ..tiny("leveled") },
                ..options()
            },
            "levels",
        ),
    ];
    for (options, field) in cases {
        let disk = SimDisk::new();
        let error = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(field), "{error}");
        assert!(disk.snapshot().list("/").unwrap().is_empty());
    }
}

#[test]
fn a_damaged_index_or_filter_fails_no_get() {
    let store = store();
    let dir = tempfile::tempdir().unwrap();
    let (mut tried, mut searched) = (0, 0);
    for name in files(&store.image, ".table") {
        let path = format!("{DIR}/{name}");
        let disk = store.image.crash(CrashMode::Kill, 0);
        let copy = dir.path().join(&name);
        std::fs::write(&copy, disk.read_file(&path).unwrap()).unwrap();
        let found = siltstone::inspect::file(&copy).unwrap();
        let siltstone::inspect::Inspection::Table(table) = found else { panic!("{name} is no table") };
        let at = u64::from(table.pages) * 4096;
        for at in [at + table.index_bytes / 2, at + table.index_bytes + table.filter_bytes / 2] {
            let disk = store.image.crash(CrashMode::Kill, 0);
            disk.flip_bit(&path, at, 2).unwrap();
            let db = open(&disk).unwrap();
            for (name, expected) in &store.expected {
                let keyspace = db.get_keyspace(name).unwrap();
                for (key, value) in expected {
                    assert_eq!(keyspace.get(key).unwrap().as_ref(), Some(value), "byte {at} of {path}");
                    searched += 1;
                }
            }
            let problems = db.verify(&mut |_| {}).unwrap().problems;
            assert!(problems.len() == 1 && problems[0].contains(&name), "byte {at} of {path}: {problems:?}");
            tried += 1;
        }
    }
    println!("{searched} gets right beside {tried} damaged indexes and filters");
    assert!(tried > 4);
}

#[test]
fn a_damaged_segment_whose_writes_are_in_tables_does_not_refuse_the_opening() {
    // A crash between the note that a buffer is in tables and the note that the log begins later leaves such
    // segments: every call of a flush is tried, with the log's first segment damaged.
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let point = db.keyspace("point", keyspace_options(siltstone::Schema::Point, tiny("leveled"))).unwrap();
    for n in 0..30u32 {
        point.put(n.to_be_bytes(), [7; 40]).unwrap();
    }
    db.sync().unwrap();
    // What follows proves that it was.
    point.put(b"next", b"proof").unwrap();
    let expected = contents(&point);
    let segment = files(&disk.snapshot(), ".wal").remove(0);
    let path = format!("{DIR}/{segment}");
    disk.record_images(true);
    db.flush().unwrap();
    let images = disk.take_recorded();
    let (mut refused, mut opened) = (0, 0);
    for (call, image) in &images {
        let disk = image.crash(CrashMode::Kill, 0);
        if disk.flip_bit(&path, 1024 + 40, 1).is_err() {
            continue;
        }
        match open(&disk) {
            Ok(db) => {
                assert!(contents(&db.get_keyspace("point").unwrap()) == expected, "{call}");
                opened += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains(&segment), "{call}: {error}");
                assert_eq!(opened, 0, "{call}: refused once it is no longer needed");
                refused += 1;
            }
        }
    }
    println!("{refused} crashes of a flush need the damaged segment, {opened} no longer");
    assert!(refused > 0 && opened > 0);
}
