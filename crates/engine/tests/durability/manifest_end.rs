//! The end of a manifest: one that was cut off, wherever, is said to be, and nothing else is blamed for it.

use crate::common::*;
use siltstone::io::sim::{CrashMode, DiskImage, SimDisk};
use siltstone::{Db, ErrorKind, Options, Schema, WalRecovery};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A store of several keyspaces and log segments, with the manifest's name and what it holds.
struct Store {
    image: DiskImage,
    manifest: String,
    expected: BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// Fills a store, and closes it or leaves it as a killed process would.
fn store(is_closed: bool) -> Store {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut rng = Rng::new(7);
    let designs = ["stepped-merge", "leveled", "lean", "slimdb"];
    let keyspaces: Vec<_> = designs
        .iter()
        .enumerate()
        .map(|(n, design)| {
            let schema = if n % 2 == 0 { ORDERED } else { Schema::Point };
            db.keyspace(&format!("k{n}"), keyspace_options(schema, tiny(design))).unwrap()
        })
        .collect();
    let log = db.keyspace("log", keyspace_options(Schema::Point, log_stored("leveled"))).unwrap();
    for n in 0..240u32 {
        for (at, keyspace) in keyspaces.iter().enumerate() {
            if (n as usize).is_multiple_of(at + 1) {
                keyspace.put(format!("d{}/{}", n % 5, n % 90).as_bytes(), rng.bytes(50)).unwrap();
            }
        }
        log.put(n.to_be_bytes(), rng.bytes(30)).unwrap();
        if n % 60 == 59 {
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
    }
    for (n, keyspace) in keyspaces.iter().enumerate() {
        keyspace.put(format!("d1/last{n}").as_bytes(), b"in the log").unwrap();
    }
    db.sync().unwrap();
    let expected = db.keyspaces().into_iter().map(|name| {
        let found = contents(&db.get_keyspace(&name).unwrap());
        (name, found)
    });
    let expected = expected.collect();
    drop((keyspaces, log));
    let image = if is_closed {
        db.close().unwrap();
        disk.snapshot()
    } else {
        disk.snapshot()
    };
    let names = image.list(DIR).unwrap();
    let manifest = names.into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    Store { image, manifest, expected }
}

/// Opens a store with a changed manifest in every way; true if it was noticed, and it alone was blamed.
fn is_noticed(store: &Store, change: &str, bytes: &[u8]) -> bool {
    let path = format!("{DIR}/{}", store.manifest);
    let changed = || {
        let disk = store.image.crash(CrashMode::Kill, 0);
        disk.write_file(&path, bytes).unwrap();
        disk
    };
    let stop = Options { wal_recovery: WalRecovery::StopAtDamage, ..options() };
    type Opens = fn(SimDisk, Options) -> siltstone::Result<Db>;
    let read_only: Opens = |disk, options| Db::open_read_only_on(Arc::new(disk), DIR, options);
    let writing: Opens = |disk, options| Db::open_on(Arc::new(disk), DIR, options);
    let mut noticed = 0;
    for (open, options) in [(read_only, options()), (writing, options()), (writing, stop)] {
        let disk = changed();
        let before = disk.snapshot().list(DIR).unwrap();
        match open(disk.clone(), options) {
            Ok(db) => {
                for (name, expected) in &store.expected {
                    let keyspace = db.get_keyspace(name).unwrap_or_else(|| panic!("{change}: no {name}"));
                    assert!(contents(&keyspace) == *expected, "{change}: {name} differs");
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{change}: {error}");
                assert_eq!(error.path().unwrap().to_str(), Some(path.as_str()), "{change}: {error}");
                assert!(!error.to_string().contains("drop-damaged-log"), "{change}: {error}");
                let after: Vec<_> = disk.snapshot().list(DIR).unwrap();
                let after: Vec<_> = after.into_iter().filter(|name| name != "LOCK").collect();
                let before: Vec<_> = before.into_iter().filter(|name| name != "LOCK").collect();
                assert_eq!(after, before, "{change}: a refused store was changed");
                noticed += 1;
            }
        }
    }
    assert!(noticed == 0 || noticed == 3, "{change}: noticed by {noticed} of 3");
    noticed == 3
}

/// Keyspace 0, and the step that says how far the log is synced.
const LOG_END: [u8; 2] = [0, 11];

/// Where the last record ends that is no mark: what a cut behind it takes says nothing. In a store that was
/// not closed the same is true of a last record that only says how far the log is synced, which needs no sync.
fn end_of_edits(bytes: &[u8], is_closed: bool) -> usize {
    let mut at = 1024;
    let mut ends = vec![(at, false)];
    while let Some(length) = bytes.get(at + 4..at + 8) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let is_log_end = bytes[at + 16..].starts_with(&LOG_END) && length <= 12;
        at += 16 + length;
        if length > 0 {
            ends.push((at, is_log_end));
        }
    }
    assert_eq!(at, bytes.len());
    ends.into_iter().rfind(|(_, is_log_end)| is_closed || !is_log_end).unwrap().0
}

#[test]
fn a_manifest_that_is_cut_anywhere_is_blamed_itself() {
    for is_closed in [true, false] {
        let store = store(is_closed);
        let bytes = store.image.read_file(format!("{DIR}/{}", store.manifest)).unwrap();
        let segments = store.image.list(DIR).unwrap().iter().filter(|name| name.ends_with(".wal")).count();
        assert!(segments > 1, "{segments} segments");
        let end = end_of_edits(&bytes, is_closed);
        let (mut tried, mut noticed) = (0, 0);
        let step = if is_long() { 1 } else { 37 };
        for cut in (0..bytes.len()).filter(|cut| cut.is_multiple_of(step) || end.abs_diff(*cut) < 20) {
            tried += 1;
            let is_cut_off = is_noticed(&store, &format!("cut to {cut} of {}", bytes.len()), &bytes[..cut]);
            assert_eq!(is_cut_off, cut < end, "cut to {cut}, edits end at {end}, closed: {is_closed}");
            noticed += usize::from(is_cut_off);
        }
        println!("{noticed} of {tried} cuts noticed, all blamed on the manifest (closed: {is_closed})");
        assert!(tried > 190);
    }
}

#[test]
fn a_flip_in_a_manifest_is_blamed_on_it() {
    let store = store(true);
    let bytes = store.image.read_file(format!("{DIR}/{}", store.manifest)).unwrap();
    let end = end_of_edits(&bytes, true);
    let (mut tried, mut noticed) = (0, 0);
    for at in (0..bytes.len()).step_by(if is_long() { 1 } else { 53 }) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        tried += 1;
        let is_seen = is_noticed(&store, &format!("flip at {at}"), &flipped);
        // The header stands twice.
        assert_eq!(is_seen, (1024..end).contains(&at), "flip at {at}");
        noticed += usize::from(is_seen);
    }
    println!("{noticed} of {tried} flips noticed");
}

#[test]
fn a_checkpoint_has_no_log_and_its_manifest_has_an_end_all_the_same() {
    let first = store(true);
    let disk = first.image.crash(CrashMode::Kill, 0);
    open(&disk).unwrap().checkpoint("/copy").unwrap();
    let path = "/copy/MANIFEST-00000001";
    let bytes = disk.read_file(path).unwrap();
    let end = end_of_edits(&bytes, true);
    for cut in (0..bytes.len()).filter(|cut| cut.is_multiple_of(41) || end.abs_diff(*cut) < 20) {
        disk.write_file(path, &bytes[..cut]).unwrap();
        let opened = Db::open_read_only_on(Arc::new(disk.clone()), "/copy", options());
        match opened {
            Ok(_) => assert!(cut >= end, "cut to {cut} of {}", bytes.len()),
            Err(error) => assert_eq!(error.path().unwrap().to_str(), Some(path), "{error}"),
        }
    }
}
