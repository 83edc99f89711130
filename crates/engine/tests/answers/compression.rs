//! What compression promises, counted: fewer bytes written and held, one page per get, and nothing lost where
//! it gains nothing.

use crate::common::*;
use siltstone::io::sim::SimDisk;
use siltstone::io::{Access, Disk};
use siltstone::{Compression, Db, Design, Keyspace, KeyspaceOptions, KeyspaceStats, Schema};
use std::path::Path;
use std::sync::Arc;

const ITEMS: u64 = 6_000;

fn mixed(number: u64) -> u64 {
    (number ^ 0x5eed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// A record such as programs write, of about 190 bytes.
fn record(number: u64) -> Vec<u8> {
    let (mixed, size) = (mixed(number), mixed(number) >> 44);
    format!(
        "{{\"path\":\"/usr/share/doc/package-{}/examples/file-{number}.txt\",\"kind\":\"file\",\"size\":{size},\"mode\":\"100644\",\
         \"owner\":{{\"uid\":0,\"gid\":{}}},\"modified\":17{:08}.{:09},\"links\":1}}",
        mixed % 397,
        mixed % 3,
        mixed >> 8 & 0x3ff_ffff,
        mixed >> 34
    )
    .into_bytes()
}

fn url(number: u64) -> Vec<u8> {
    format!(
        "https://docs.example.org/crates/package-{}/latest/source/module_{number}.html",
        mixed(number) % 251
    )
    .into_bytes()
}

/// A vector of floats, of 512 bytes.
fn vector(number: u64) -> Vec<u8> {
    let part = |part: u64| (mixed(number * 128 + part) >> 40) as f32 / (1u64 << 24) as f32;
    (0..128).flat_map(|at| part(at).to_le_bytes()).collect()
}

type Item = fn(u64) -> (Vec<u8>, Vec<u8>);

const KINDS: [(&str, Item); 3] = [
    ("records", |number| (mixed(number).to_be_bytes().to_vec(), record(number))),
    ("urls", |number| (url(number), mixed(number).to_le_bytes().to_vec())),
    ("vectors", |number| (mixed(number).to_be_bytes().to_vec(), vector(number))),
];

fn filled(disk: &SimDisk, design: Design, item: Item) -> (Db, Keyspace) {
    let options = siltstone::Options { memory_budget_bytes: 16 << 20, ..options() };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
    let design = Some(design);
    let keyspace = db
        .create_keyspace("items", KeyspaceOptions { schema: Schema::Point, design, ..Default::default() })
        .unwrap();
    for number in 0..ITEMS {
        let (key, value) = item(number);
        keyspace.put(key, value).unwrap();
        while number % 100 == 0 && db.step().unwrap() {}
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    (db, keyspace)
}

/// Bytes written into tables, and bytes of the tables.
fn bytes_of(stats: &KeyspaceStats) -> (u64, u64) {
    (stats.levels.iter().map(|level| level.bytes_written).sum(), stats.table_bytes)
}

#[test]
fn records_and_urls_take_half_and_vectors_what_they_took() {
    for name in ["siltstone", "lean", "lsm-trie", "silt"] {
        for (kind, item) in KINDS {
            let design = Design::preset(name).unwrap().scaled_to(64 << 10);
            let (_db, plain) = filled(&SimDisk::new(), design.clone(), item);
            let disk = SimDisk::new();
            let (db, small) = filled(&disk, design.with_compression(Compression::Dictionary), item);
            let (before, after) = (bytes_of(&plain.stats()), bytes_of(&small.stats()));
            let ratio = |before: u64, after: u64| before as f64 / after as f64;
            let (written, held) = (ratio(before.0, after.0), ratio(before.1, after.1));
            let stats = small.stats();
            let compressed = stats.levels.iter().map(|level| level.compressed_bytes).sum::<u64>();
            let case = format!("{name}, {kind}: written {written:.2}, held {held:.2} times as little");
            println!("{case}");
            // Tables of slots keep keys as they are.
            match (kind, name) {
                ("vectors", _) => {
                    assert_eq!(compressed, 0, "{case}");
                    assert!((0.95..1.05).contains(&held) && (0.95..1.05).contains(&written), "{case}");
                }
                ("urls", "silt") => assert!(held > 0.9, "{case}"),
                _ => assert!(held > 1.6 && written > 1.5, "{case}"),
            }
            let reads = small.stats().tables_probed;
            for number in (0..ITEMS).step_by(7) {
                let (key, value) = item(number);
                assert_eq!(small.get(&key).unwrap(), Some(value), "{case}");
                assert!(small.contains(&key).unwrap());
                assert_eq!(small.get([&key[..], b"?"].concat()).unwrap(), None);
            }
            assert!(small.stats().tables_probed > reads);
            assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new(), "{case}");
        }
    }
}

#[test]
fn a_get_reads_one_page_and_decodes_nothing_for_contains() {
    let disk = SimDisk::new();
    let design =
        Design::preset("lean").unwrap().scaled_to(64 << 10).with_compression(Compression::Dictionary);
    let (db, keyspace) = filled(&disk, design, KINDS[0].1);
    let before = keyspace.stats();
    for number in 0..ITEMS {
        assert!(keyspace.get(KINDS[0].1(number).0).unwrap().is_some());
    }
    let probed = keyspace.stats().tables_probed - before.tables_probed;
    assert!(probed as f64 <= 1.05 * ITEMS as f64, "{probed} tables for {ITEMS} gets");
    drop((keyspace, db));
}

#[test]
fn levels_that_compress_and_levels_that_do_not_live_in_one_store() {
    for compressed_level in [0, 1] {
        let disk = SimDisk::new();
        let mut design = tiny("stepped-merge");
        design.levels[compressed_level].compression = Compression::Dictionary;
        let (db, keyspace) = filled(&disk, design.clone(), KINDS[0].1);
        for level in keyspace.stats().levels.iter().filter(|level| level.entries > 100) {
            let is_compressed = design.level(level.level).compression == Compression::Dictionary;
            assert_eq!(level.compressed_bytes > 0, is_compressed, "{level:?}");
            assert!(!is_compressed || level.uncompressed_bytes > 3 * level.compressed_bytes / 2, "{level:?}");
        }
        drop(keyspace);
        db.close().unwrap();
        let db = Db::open_on(Arc::new(disk.clone()), DIR, options()).unwrap();
        let keyspace = db.get_keyspace("items").unwrap();
        assert_eq!(keyspace.design(), design);
        let found = contents(&keyspace);
        assert_eq!(found.len() as u64, ITEMS);
        for number in 0..ITEMS {
            let (key, value) = KINDS[0].1(number);
            assert_eq!(found.get(&key), Some(&value));
        }
    }
}

/// Where a table's codec and its copy begin; `None` in a table without.
fn codecs(bytes: &[u8]) -> Option<[usize; 2]> {
    const PROBED: usize = 60;
    // It follows the pages, and the copy is the last of the sections.
    (0..bytes.len()).step_by(4096).rev().find_map(|first| {
        let probe = bytes.get(first..first + PROBED).filter(|probe| (1..=3).contains(&probe[0]))?;
        let again = bytes[first + PROBED..].windows(PROBED).rposition(|window| window == probe)?;
        Some([first, first + PROBED + again])
    })
}

/// Changes a byte of these copies of every table's codec; returns how many tables have one.
fn damage_tables(disk: &SimDisk, copies: &[usize]) -> usize {
    let image = disk.snapshot();
    let mut tables = 0;
    for name in image.list(DIR).unwrap().into_iter().filter(|name| name.ends_with(".table")) {
        let path = format!("{DIR}/{name}");
        let bytes = image.read_file(&path).unwrap();
        let Some(places) = codecs(&bytes) else { continue };
        tables += 1;
        let file = disk.open(Path::new(&path), Access::ReadWrite).unwrap();
        for at in copies.iter().map(|copy| places[*copy] + 20) {
            file.write_all_at(&[!bytes[at]], at as u64).unwrap();
        }
    }
    tables
}

#[test]
fn a_damaged_codec_is_read_from_its_copy_and_noticed() {
    for copies in [&[0][..], &[1], &[0, 1]] {
        let disk = SimDisk::new();
        let (db, keyspace) =
            filled(&disk, tiny("siltstone").with_compression(Compression::Dictionary), KINDS[0].1);
        drop(keyspace);
        db.close().unwrap();
        assert!(damage_tables(&disk, copies) > 0);
        let db = open(&disk).unwrap();
        let keyspace = db.get_keyspace("items").unwrap();
        let mut failed = 0;
        for number in 0..ITEMS {
            let (key, value) = KINDS[0].1(number);
            match keyspace.get(&key) {
                Ok(found) => assert_eq!(found, Some(value)),
                Err(error) => {
                    assert_eq!(error.kind(), siltstone::ErrorKind::Corruption);
                    failed += 1;
                }
            }
        }
        assert_eq!(failed > 0, copies.len() == 2, "{copies:?}: {failed} of {ITEMS}");
        assert!(!db.verify(&mut |_| {}).unwrap().problems.is_empty(), "{copies:?}");
    }
}
