//! Reading around the system's page cache, and many keys at once: the same answers, and no page read twice.

use siltstone::{
    Db, Design, ErrorKind, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder,
    WriteBufferSpec,
};
use std::path::Path;

const ITEMS: u32 = 20_000;

fn key(number: u32) -> Vec<u8> {
    [&(number / 64).to_be_bytes()[..], &number.wrapping_mul(2_654_435_761).to_be_bytes()].concat()
}

fn value(number: u32) -> Vec<u8> {
    // Some values take overflow pages.
    vec![number as u8; if number % 500 == 7 { 9_000 } else { 60 + number as usize % 50 }]
}

fn options(direct_reads: bool) -> Options {
    Options { direct_reads, ..Options::default() }
}

/// A store of all items, closed.
fn fill(path: &Path, preset: &str, direct_reads: bool) {
    let mut design = Design::preset(preset).unwrap();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 64 << 10 };
    for level in &mut design.levels {
        level.table_bytes = 128 << 10;
    }
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 4 }, suffix: SuffixOrder::Ordered };
    let db = Db::open(path, options(direct_reads)).unwrap();
    let items = db
        .keyspace("items", KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() })
        .unwrap();
    for number in 0..ITEMS {
        items.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    db.close().unwrap();
}

/// Pages read for gets and scans, by the store's own count, while `run` runs on a freshly opened store.
fn reads(path: &Path, direct_reads: bool, run: impl FnOnce(&Keyspace)) -> u64 {
    let db = Db::open(path, options(direct_reads)).unwrap();
    run(&db.get_keyspace("items").unwrap());
    db.stats().device_reads
}

#[test]
fn many_keys_at_once_read_no_page_twice_and_answer_the_same() {
    for preset in ["stepped-merge", "slimdb"] {
        for direct in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("db");
            fill(&path, preset, direct);
            let keys: Vec<Vec<u8>> = (0..ITEMS).map(key).collect();
            let one_by_one = reads(&path, direct, |items| {
                for (number, key) in (0..).zip(&keys) {
                    assert_eq!(items.get(key).unwrap(), Some(value(number)), "{preset}");
                }
            });
            for batch in [1, 3, 700, ITEMS as usize] {
                let at_once = reads(&path, direct, |items| {
                    for (first, keys) in (0..ITEMS).step_by(batch).zip(keys.chunks(batch)) {
                        for (number, found) in (first..).zip(items.multi_get(keys).unwrap()) {
                            assert_eq!(found, Some(value(number)), "{preset}, {batch} at once");
                        }
                    }
                });
                assert_eq!(at_once, one_by_one, "{preset}, {batch} at once");
            }
            // Absent keys, doubled keys, no keys.
            let db = Db::open(&path, options(direct)).unwrap();
            let items = db.get_keyspace("items").unwrap();
            let mixed = [key(5), key(ITEMS + 5), key(5), key(ITEMS + 64)];
            assert_eq!(items.multi_get(&mixed).unwrap(), [Some(value(5)), None, Some(value(5)), None]);
            assert_eq!(items.multi_get::<Vec<u8>>(&[]).unwrap(), Vec::<Option<Vec<u8>>>::new());
            let group: Vec<_> = items.prefix(3u32.to_be_bytes()).unwrap().map(Result::unwrap).collect();
            let mut expected: Vec<_> = (192..256).map(|number| (key(number), value(number))).collect();
            expected.sort();
            assert_eq!(group, expected);
        }
    }
}

#[test]
fn a_damaged_page_is_named_however_it_is_read() {
    for direct in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        fill(&path, "stepped-merge", direct);
        for entry in std::fs::read_dir(&path).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().ends_with(".table") {
                let mut bytes = std::fs::read(entry.path()).unwrap();
                bytes[100] ^= 1;
                std::fs::write(entry.path(), bytes).unwrap();
            }
        }
        let db = Db::open(&path, options(direct)).unwrap();
        let keys: Vec<Vec<u8>> = (0..ITEMS).map(key).collect();
        let error = db.get_keyspace("items").unwrap().multi_get(&keys).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(".table"), "{error}");
    }
}
