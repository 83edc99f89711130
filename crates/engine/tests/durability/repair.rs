//! Repair: damage of every kind, and what comes back.

use crate::common::*;
use siltstone::io::Disk;
use siltstone::io::sim::{CrashMode, DiskImage, SimDisk};
use siltstone::{Compression, Db, ErrorKind, KeyspaceOptions, RepairReport, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const NEW: &str = "/new";

type Items = BTreeMap<Vec<u8>, Vec<u8>>;

struct Store {
    image: DiskImage,
    expected: BTreeMap<String, Items>,
    /// Every value that a key ever had.
    written: BTreeMap<(String, Vec<u8>), BTreeSet<Vec<u8>>>,
}

/// A value that compresses, and that is another for every keyspace and number.
fn record(keyspace: &str, number: u32, rng: &mut Rng) -> Vec<u8> {
    format!(
        "{{\"keyspace\":\"{keyspace}\",\"number\":{number},\"kind\":\"file\",\"owner\":{}}}",
        rng.below(1000)
    )
    .into_bytes()
}

/// A store of keyspaces with every table format, two of them compressed, several versions of keys, large
/// values, deletions and an unflushed log, closed or as a killed process leaves it.
fn store(is_closed: bool) -> Store {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let designs =
        [("files", ORDERED, "stepped-merge"), ("lsm", Schema::Point, "lsm-trie"), ("slim", HASHED, "slimdb")];
    let mut keyspaces: Vec<_> = designs
        .iter()
        .map(|(name, schema, design)| db.keyspace(name, keyspace_options(*schema, tiny(design))).unwrap())
        .collect();
    // Their schemas are those of others, so only the tables themselves tell whose they are.
    for (name, schema, design) in
        [("packed", ORDERED, "stepped-merge"), ("pressed", Schema::Point, "siltstone")]
    {
        let design = tiny(design).with_compression(Compression::Dictionary);
        keyspaces.push(db.keyspace(name, keyspace_options(schema, design)).unwrap());
    }
    let silt = log_store_designs().remove(0);
    let options = KeyspaceOptions { schema: Schema::Point, design: Some(silt), ..KeyspaceOptions::default() };
    keyspaces.push(db.keyspace("silt", options).unwrap());
    let mut written: BTreeMap<(String, Vec<u8>), BTreeSet<Vec<u8>>> = BTreeMap::new();
    let mut rng = Rng::new(5);
    for n in 0..300u32 {
        for keyspace in &keyspaces {
            let key = format!("d{}/{}", n % 7, n % 130).into_bytes();
            let is_noise = !["packed", "pressed"].contains(&keyspace.name());
            let value = match n % 50 {
                7 => rng.bytes(6000),
                _ if is_noise => rng.bytes(40),
                _ => record(keyspace.name(), n, &mut rng),
            };
            keyspace.put(&key, &value).unwrap();
            written.entry((keyspace.name().to_owned(), key)).or_default().insert(value);
        }
        if n % 100 == 99 {
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
    }
    keyspaces[0].delete_prefix("d3/").unwrap();
    keyspaces[1].delete("d1/1").unwrap();
    db.flush().unwrap();
    for n in 0..20u32 {
        for keyspace in &keyspaces {
            let (key, value) = (format!("d2/log{n}").into_bytes(), rng.bytes(30));
            keyspace.put(&key, &value).unwrap();
            written.entry((keyspace.name().to_owned(), key)).or_default().insert(value);
        }
    }
    db.sync().unwrap();
    let expected = keyspaces.iter().map(|k| (k.name().to_owned(), contents(k))).collect();
    drop(keyspaces);
    if is_closed {
        db.close().unwrap();
        return Store { image: disk.snapshot(), expected, written };
    }
    Store { image: disk.snapshot(), expected, written }
}

fn repair(disk: &SimDisk) -> RepairReport {
    let before = state_of(disk);
    let report = Db::repair_on(Arc::new(disk.clone()), DIR, NEW, &options(), &mut |_| {}).unwrap();
    assert_eq!(state_of(disk), before, "a repair changed the damaged store");
    report
}

/// All files of the damaged store but the lock.
fn state_of(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    let image = disk.snapshot();
    let names = image.list(DIR).unwrap().into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), image.read_file(format!("{DIR}/{name}")).unwrap())).collect()
}

fn repaired(disk: &SimDisk) -> BTreeMap<String, Items> {
    let db = Db::open_on(Arc::new(disk.clone()), NEW, options()).unwrap();
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    db.keyspaces()
        .into_iter()
        .map(|name| (name.clone(), contents(&db.get_keyspace(&name).unwrap())))
        .collect()
}

/// How many items are missing, or have an older value; nothing may have a value that was never written.
fn missing(store: &Store, found: &BTreeMap<String, Items>) -> usize {
    let mut missing = 0;
    for (name, expected) in &store.expected {
        let found = found.get(name).cloned().unwrap_or_default();
        for (key, value) in &found {
            let values = store.written.get(&(name.clone(), key.clone()));
            assert!(values.is_some_and(|values| values.contains(value)), "{name}: a value from nowhere");
        }
        missing += expected.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
    }
    missing
}

#[test]
fn a_sound_store_comes_back_whole() {
    for is_closed in [true, false] {
        let store = store(is_closed);
        let disk = store.image.crash(CrashMode::Kill, 0);
        let report = repair(&disk);
        assert!(
            report.losses.is_empty() && report.manifest.is_none() && report.kept.is_empty(),
            "{report:?}"
        );
        assert!(report.entries > 300 && report.operations >= 80, "{report:?}");
        assert!(repaired(&disk) == store.expected);
    }
}

#[test]
fn a_gap_in_what_was_never_synced_is_told() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    for n in 0..9u8 {
        items.put([n], [n; 700]).unwrap();
    }
    let image = disk.snapshot();
    let name = image.list(DIR).unwrap().into_iter().find(|name| name.ends_with(".wal")).unwrap();
    let path = format!("{DIR}/{name}");
    let length = image.read_file(&path).unwrap().len() as u64;
    let (mut gaps, mut ends) = (0, 0);
    for at in (600..length).step_by(350) {
        let disk = image.crash(CrashMode::Kill, 0);
        disk.flip_bit(&path, at, 3).unwrap();
        let report = repair(&disk);
        let found = repaired(&disk).remove("items").unwrap();
        let first = (0..9u8).take_while(|n| found.contains_key(&[*n][..])).count();
        if found.len() > first {
            assert!(report.losses.iter().any(|loss| loss.file == name && loss.bytes > 0), "{at}: {report:?}");
            gaps += 1;
        } else {
            ends += 1;
        }
    }
    println!("{gaps} gaps, {ends} ends that are cut");
    assert!(gaps > 5 && ends > 0);
}

/// The last table of a run has its deleted prefixes, and hid the items of the tables before it.
#[test]
fn prefixes_that_were_deleted_hide_no_later_item_of_their_run() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut design = tiny("stepped-merge");
    design.write_buffer = siltstone::WriteBufferSpec::MemTable { bytes: 256 << 10 };
    design.levels.iter_mut().for_each(|level| level.table_bytes = 16 << 10);
    let items = db.keyspace("items", keyspace_options(ORDERED, design)).unwrap();
    let mut rng = Rng::new(3);
    let mut fill = || {
        for n in 0..400u32 {
            items.put(format!("d{}/{n}", n % 9), rng.bytes(300)).unwrap();
        }
    };
    fill();
    db.flush().unwrap();
    while db.step().unwrap() {}
    for group in 0..9 {
        items.delete_prefix(format!("d{group}/")).unwrap();
    }
    fill();
    db.flush().unwrap();
    let levels = items.stats().levels;
    assert!(levels.iter().any(|level| level.tables > level.runs), "{levels:?}");
    let expected = contents(&items);
    drop(items);
    db.close().unwrap();
    let image = disk.snapshot();
    let report = repair(&disk);
    assert!(report.losses.is_empty() && report.manifest.is_none(), "{report:?}");
    assert!(repaired(&disk)["items"] == expected);
    // Nor where no manifest says which tables are of one run.
    let disk = image.crash(CrashMode::Kill, 0);
    let name = image.list(DIR).unwrap().into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    disk.remove(Path::new(&format!("{DIR}/{name}"))).unwrap();
    assert!(repair(&disk).manifest.is_some());
    let found = repaired(&disk);
    let is_there = |key: &&Vec<u8>| found.values().any(|items| items.contains_key(*key));
    assert_eq!(expected.keys().filter(is_there).count(), expected.len());
}

#[test]
fn a_log_whose_beginning_is_gone_is_told() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put("first", "1").unwrap();
    drop(items);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let items = db.get_keyspace("items").unwrap();
    items.put("second", "2").unwrap();
    let image = disk.snapshot();
    let logs: Vec<_> = image.list(DIR).unwrap().into_iter().filter(|name| name.ends_with(".wal")).collect();
    assert_eq!(logs.len(), 2);
    for (name, lost, kept) in [(&logs[0], "first", Some("second")), (&logs[1], "second", Some("first"))] {
        let disk = image.crash(CrashMode::Kill, 0);
        disk.remove(Path::new(&format!("{DIR}/{name}"))).unwrap();
        let report = repair(&disk);
        let found = &repaired(&disk)["items"];
        assert!(!found.contains_key(lost.as_bytes()));
        assert!(kept.is_none_or(|kept| found.contains_key(kept.as_bytes())));
        if *name == logs[0] {
            assert!(report.losses.iter().any(|loss| loss.file == *name && loss.bytes > 0), "{report:?}");
        }
    }
}

#[test]
fn what_an_opening_gave_up_stays_given_up() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    for n in 0..9u8 {
        items.put([n], [n; 700]).unwrap();
    }
    let torn = disk.snapshot().crash(CrashMode::Kill, 0);
    let names = torn.snapshot().list(DIR).unwrap();
    let name = names.into_iter().find(|name| name.ends_with(".wal")).unwrap();
    // Nothing proves that it was synced, so it is taken for torn.
    torn.flip_bit(format!("{DIR}/{name}"), 3000, 3).unwrap();
    let db = open(&torn).unwrap();
    let items = db.get_keyspace("items").unwrap();
    let kept = contents(&items);
    assert!((1..9).contains(&kept.len()));
    items.put([100], "later").unwrap();
    let expected = contents(&items);
    let disk = torn.snapshot().crash(CrashMode::Kill, 0);
    let report = repair(&disk);
    assert!(report.losses.is_empty(), "{report:?}");
    assert_eq!(repaired(&disk)["items"], expected);
}

#[test]
fn one_damaged_page_costs_what_is_in_it_and_no_more() {
    let store = store(true);
    let (mut tried, mut lost, mut said) = (0, 0, 0);
    let every = if is_long() { 1 } else { 3 };
    let names = store.image.list(DIR).unwrap();
    for name in names.iter().filter(|name| name.ends_with(".table")).step_by(every) {
        let path = format!("{DIR}/{name}");
        let bytes = store.image.read_file(&path).unwrap();
        let pages = bytes.len() / 4096;
        let step = if is_long() { 1 } else { 1 + pages / 3 };
        for at in (0..pages).step_by(step).map(|page| page * 4096 + 50).chain([bytes.len() - 10]) {
            let disk = store.image.crash(CrashMode::Kill, 0);
            disk.flip_bit(&path, at as u64, 3).unwrap();
            let report = repair(&disk);
            let missing = missing(&store, &repaired(&disk));
            let entries: u64 = report.losses.iter().map(|loss| loss.entries).sum();
            // A lost deletion brings something back; nothing else changes without being said.
            assert!(missing as u64 <= entries, "{name} at {at}: {missing} missing, {:?}", report.losses);
            assert!(
                report.losses.iter().all(|loss| loss.file == *name && loss.bytes <= 4096 * 8),
                "{report:?}"
            );
            assert_eq!(report.kept.contains(name), !report.losses.is_empty());
            if !report.losses.is_empty() {
                let kept = disk.read_file(format!("{NEW}/lost+found/{name}")).unwrap();
                assert_eq!(kept, disk.read_file(&path).unwrap());
            }
            tried += 1;
            lost += missing;
            said += entries;
        }
    }
    println!("{tried} damaged tables: {lost} items lost or older, {said} entries said to be lost");
    assert!(tried > 10 && said > 0);
}

#[test]
fn a_manifest_cut_anywhere_loses_no_item() {
    let store = store(true);
    let names = store.image.list(DIR).unwrap();
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let path = format!("{DIR}/{manifest}");
    let bytes = store.image.read_file(&path).unwrap();
    let items: usize = store.expected.values().map(BTreeMap::len).sum();
    let (mut tried, mut older, mut gone) = (0, 0, 0);
    for cut in (0..bytes.len()).step_by(if is_long() { 7 } else { 1 + bytes.len() / 60 }) {
        let disk = store.image.crash(CrashMode::Kill, 0);
        disk.write_file(&path, &bytes[..cut]).unwrap();
        let report = repair(&disk);
        assert!(report.manifest.is_some(), "cut to {cut}");
        let found = repaired(&disk);
        // Where not even the keyspaces are known, the items are in one of their own.
        let unplaced: Vec<_> = found.iter().filter(|(name, _)| name.starts_with("lost+found")).collect();
        for (name, expected) in &store.expected {
            let found = found.get(name).cloned().unwrap_or_default();
            for (key, value) in expected {
                let elsewhere = || unplaced.iter().filter_map(|(_, items)| items.get(key));
                let is_newest = found.get(key).into_iter().chain(elsewhere()).any(|there| there == value);
                let is_there = found.contains_key(key) || elsewhere().next().is_some();
                gone += usize::from(!is_there);
                older += usize::from(is_there && !is_newest);
            }
        }
        assert!(report.kept.len() >= report.unnamed_tables as usize);
        tried += 1;
    }
    println!(
        "{tried} cuts, {items} items each: {gone} keys gone, {older} with a value that is not the newest"
    );
    assert_eq!(gone, 0);
}

#[test]
fn a_log_is_read_past_its_damage() {
    let store = store(true);
    let names = store.image.list(DIR).unwrap();
    let (mut tried, mut noticed) = (0, 0);
    for name in names.iter().filter(|name| name.ends_with(".wal")) {
        let path = format!("{DIR}/{name}");
        let bytes = store.image.read_file(&path).unwrap();
        for at in (1024..bytes.len()).step_by(1 + bytes.len() / 30) {
            let disk = store.image.crash(CrashMode::Kill, 0);
            disk.flip_bit(&path, at as u64, 2).unwrap();
            if open(&store.image.crash(CrashMode::Kill, 0)).is_err() {
                continue;
            }
            let is_refused = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).is_err();
            let report = repair(&disk);
            let missing = missing(&store, &repaired(&disk));
            // One record at most, which holds one item here.
            assert!(missing <= 1, "{name} at {at}: {missing} missing");
            if is_refused {
                assert!(report.losses.iter().any(|loss| loss.file == *name), "{name} at {at}: {report:?}");
                assert!(report.kept.contains(name));
                noticed += 1;
            }
            tried += 1;
        }
    }
    println!("{tried} flips in logs, {noticed} of which refuse an opening: one item lost at most");
    assert!(noticed > 0);
}

#[test]
fn files_that_are_missing_are_named() {
    let store = store(true);
    for name in store.image.list(DIR).unwrap() {
        let disk = store.image.crash(CrashMode::Kill, 0);
        disk.remove(Path::new(&format!("{DIR}/{name}"))).unwrap();
        let report = repair(&disk);
        let found = repaired(&disk);
        if name.ends_with(".table") {
            // One with nothing but deleted prefixes is not missed: the manifest has them too.
            let is_named = report.losses.iter().any(|loss| loss.file == name && loss.entries > 0);
            assert!(is_named || found == store.expected, "without {name}: {report:?}");
            missing(&store, &found);
        } else if name == "CURRENT" {
            assert!(report.manifest.unwrap().contains("CURRENT"));
            assert!(found["files"].len() >= store.expected["files"].len(), "without {name}");
        } else if name.starts_with("MANIFEST") {
            let expected: BTreeSet<_> = store.expected.values().flat_map(BTreeMap::keys).collect();
            let unplaced: Vec<_> = found.iter().filter(|(name, _)| name.starts_with("lost+found")).collect();
            let is_there = |key: &&&Vec<u8>| unplaced.iter().any(|(_, items)| items.contains_key(**key));
            let gone = expected.iter().filter(|key| !is_there(key)).count();
            assert_eq!(gone, 0, "without {name}");
        }
    }
}

#[test]
fn a_repair_that_is_cut_short_is_no_store_and_is_made_again() {
    let store = store(true);
    let disk = store.image.crash(CrashMode::Kill, 0);
    let table = store.image.list(DIR).unwrap().into_iter().find(|name| name.ends_with(".table")).unwrap();
    disk.flip_bit(format!("{DIR}/{table}"), 60, 1).unwrap();
    let source = state_of(&disk);
    disk.record_images(true);
    let losses = repair(&disk).losses.len();
    let expected = disk.snapshot().crash(CrashMode::Kill, 0);
    let images = disk.take_recorded();
    disk.record_images(false);
    let expected = repaired(&expected);
    let (mut finished, mut unfinished) = (0, 0);
    let step = if is_long() { 1 } else { 1 + images.len() / 40 };
    let last = images.len() - 1;
    for (at, (call, image)) in images.iter().enumerate().filter(|(at, _)| at % step == 0 || at + 6 > last) {
        for mode in CrashMode::ALL {
            let disk = image.crash(mode, at as u64);
            assert_eq!(state_of(&disk), source, "{mode:?} at {call}");
            let is_begun = disk.snapshot().list(NEW).is_ok_and(|names| !names.is_empty());
            match Db::open_read_only_on(Arc::new(disk.clone()), NEW, options()) {
                Ok(_) => {
                    assert!(repaired(&disk) == expected, "{mode:?} at {call}");
                    finished += 1;
                }
                Err(error) => {
                    assert!(
                        !is_begun
                            || error.kind() == ErrorKind::NotAStore && error.to_string().contains("repair"),
                        "{mode:?} at {call}: {error}"
                    );
                    unfinished += 1;
                    if at % (step * 4) == 0 {
                        assert_eq!(repair(&disk).losses.len(), losses);
                        assert!(repaired(&disk) == expected, "{mode:?} at {call}, repaired again");
                    }
                }
            }
        }
    }
    println!("{} calls: {unfinished} crashes left no store, {finished} a whole one", images.len());
    assert!(unfinished > 0 && finished > 0);
}

#[test]
fn what_is_no_store_or_not_empty_is_refused() {
    let store = store(true);
    let disk = store.image.crash(CrashMode::Kill, 0);
    let try_it = |dir: &str, dest: &str| {
        Db::repair_on(Arc::new(disk.clone()), dir, dest, &options(), &mut |_| {}).unwrap_err().kind()
    };
    disk.create_dir_all(Path::new("/other")).unwrap();
    disk.write_file("/other/notes.txt", b"mine").unwrap();
    assert_eq!(try_it("/other", NEW), ErrorKind::NotAStore);
    assert_eq!(try_it(DIR, "/other"), ErrorKind::InvalidInput);
    assert_eq!(try_it(DIR, "/db/new"), ErrorKind::InvalidInput);
    let db = open(&disk).unwrap();
    assert_eq!(try_it(DIR, NEW), ErrorKind::Locked);
    drop(db);
}

#[test]
fn verification_lists_all_damage_of_a_store_that_does_not_open() {
    let store = store(true);
    let disk = store.image.crash(CrashMode::Kill, 0);
    let names = store.image.list(DIR).unwrap();
    let tables: Vec<_> = names.iter().filter(|name| name.ends_with(".table")).collect();
    let large = |name: &&String| store.image.read_file(format!("{DIR}/{name}")).unwrap().len() > 8192;
    let damaged: Vec<_> = tables.into_iter().filter(large).take(4).collect();
    for (at, name) in damaged.iter().enumerate() {
        let path = format!("{DIR}/{name}");
        if at % 2 == 0 {
            disk.remove(Path::new(&path)).unwrap();
        } else {
            disk.flip_bit(&path, 4096 + 90, 1).unwrap();
        }
    }
    assert!(Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).is_err());
    let verify =
        |disk: &SimDisk| Db::verify_dir_on(Arc::new(disk.clone()), DIR, &options(), &mut |_| {}).unwrap();
    let report = verify(&disk);
    for name in &damaged {
        let said = report.problems.iter().filter(|problem| problem.contains(name.as_str())).count();
        assert_eq!(said, 1, "{name}: {:?}", report.problems);
    }
    assert_eq!(report.problems.len(), damaged.len(), "{:?}", report.problems);
    assert!(report.advice.iter().any(|advice| advice.contains("repair")));
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let bytes = store.image.read_file(format!("{DIR}/{manifest}")).unwrap();
    disk.write_file(format!("{DIR}/{manifest}"), &bytes[..bytes.len() / 2]).unwrap();
    let report = verify(&disk);
    assert!(
        report.problems.len() == 1 && report.problems[0].contains(manifest.as_str()),
        "{:?}",
        report.problems
    );
}

#[test]
fn merges_that_wait_in_tables_are_repaired_as_merges() {
    for (name, design) in tiny_designs() {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let options = KeyspaceOptions {
            merge_operator: merge_operator_of("lists"),
            ..keyspace_options(Schema::Point, design)
        };
        let lists = db.create_keyspace("lists", options).unwrap();
        for round in 0..3u32 {
            for number in 0..40u32 {
                lists.merge(number.to_be_bytes(), format!("operand {round} of {number}")).unwrap();
            }
            db.flush().unwrap();
        }
        let expected = contents(&lists);
        drop(lists);
        db.close().unwrap();
        repair(&disk);
        assert_eq!(repaired(&disk)["lists"], expected, "{name}");
    }
}
