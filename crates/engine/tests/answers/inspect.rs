//! `inspect` sees what is wrong with a single file, wherever in it that is.

use crate::common::{Rng, is_long, options, tiny};
use siltstone::inspect::{Inspection, file};
use siltstone::{Db, ErrorKind, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};

/// A closed store with tables of every format, filters, indexes and overflow pages among them.
fn store(dir: &Path) {
    let db = Db::open(dir, options()).unwrap();
    let mut rng = Rng::new(7);
    for preset in ["siltstone", "slimdb", "stepped-merge", "lsm-trie", "silt"] {
        let design = KeyspaceOptions { design: Some(tiny(preset)), ..KeyspaceOptions::default() };
        let items = db.keyspace(preset, design).unwrap();
        for number in 0..300u32 {
            items.put(number.to_be_bytes(), rng.bytes(if number % 60 == 7 { 5000 } else { 60 })).unwrap();
        }
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
    // Hash stores are made by flushes, and gone once they are merged.
    let silt = db.get_keyspace("silt").unwrap();
    (300..340u32).for_each(|number| silt.put(number.to_be_bytes(), rng.bytes(60)).unwrap());
    db.flush().unwrap();
    drop(silt);
    db.close().unwrap();
}

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = names.filter(|path| path.to_str().unwrap().ends_with(ending)).collect();
    files.sort();
    files
}

fn is_noticed(path: &Path, bytes: &[u8]) -> bool {
    std::fs::write(path, bytes).unwrap();
    match file(path) {
        Ok(inspection) => inspection.is_damaged(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
            true
        }
    }
}

#[test]
fn damage_anywhere_in_a_table_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    store(&dir.path().join("db"));
    let tables = files(&dir.path().join("db"), ".table");
    let mut formats = std::collections::BTreeSet::new();
    for (number, table) in tables.iter().enumerate() {
        let Inspection::Table(sound) = file(table).unwrap() else { panic!("{} is a table", table.display()) };
        assert!(sound.damaged_pages.is_empty() && sound.damage.is_empty(), "{sound:?}");
        formats.insert(sound.design);
        let bytes = std::fs::read(table).unwrap();
        let copy = dir.path().join(table.file_name().unwrap());
        // Behind the pages every byte is tried, in some tables.
        let pages_end = sound.pages as usize * 4096;
        for at in 0..bytes.len() {
            let is_due = (at + number) % 97 == 0 || (at >= pages_end && (at + number) % 7 == 0);
            if !is_due && !is_long() {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(is_noticed(&copy, &damaged), "bit {} of byte {at} of {}", at % 8, table.display());
        }
        for surplus in [1, 48, 4096] {
            assert!(is_noticed(&copy, &[&bytes[..], &vec![0; surplus]].concat()), "{surplus} bytes more");
            let Inspection::Table(longer) = file(&copy).unwrap() else { panic!("still a table") };
            let surplus_found = format!("{surplus} bytes follow the table's end at byte {}", bytes.len());
            assert_eq!(longer.damage, [surplus_found]);
            assert!(is_noticed(&copy, &bytes[..bytes.len() - surplus.min(bytes.len())]), "{surplus} fewer");
        }
        std::fs::remove_file(copy).unwrap();
    }
    for format in ["Block", "HTable", "Hash", "Sorted"] {
        assert!(formats.iter().any(|design| design.starts_with(format)), "no {format}: {formats:?}");
    }
}

#[test]
fn the_damaged_section_is_named() {
    let dir = tempfile::tempdir().unwrap();
    store(&dir.path().join("db"));
    let with_filter =
        files(&dir.path().join("db"), ".table").into_iter().find_map(|path| match file(&path) {
            Ok(Inspection::Table(table)) if table.filter_bytes > 0 && table.index_bytes > 0 => {
                Some((path, table))
            }
            _ => None,
        });
    let (path, table) = with_filter.unwrap();
    // The index stands first behind the pages, and the filter next.
    let index_at = table.pages as usize * 4096;
    for (name, at) in [("index", index_at), ("filter", index_at + table.index_bytes as usize)] {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= 1;
        let copy = dir.path().join(path.file_name().unwrap());
        std::fs::write(&copy, &bytes).unwrap();
        let Inspection::Table(damaged) = file(&copy).unwrap() else { panic!("a table") };
        assert_eq!(damaged.damage.len(), 1, "{:?}", damaged.damage);
        assert!(damaged.damage[0].starts_with(&format!("the {name}, ")), "{:?}", damaged.damage);
    }
}

#[test]
fn a_lock_with_anything_else_in_it_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    std::fs::write(&path, b"process 12").unwrap();
    assert!(matches!(file(&path).unwrap(), Inspection::Lock { opened_by } if opened_by == "process 12"));
    for text in [&b"process \x1b[31m"[..], b"\xff\xfe", b"process 12\n", &[b'1'; 100_000]] {
        std::fs::write(&path, text).unwrap();
        let error = file(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("the lock on the file counts"), "{error}");
    }
}

#[test]
fn the_directory_of_sidecars_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let metadata_dir = Some(dir.path().join("metadata"));
    let path = dir.path().join("db");
    Db::open(&path, Options { metadata_dir, ..options() }).unwrap().close().unwrap();
    let found = std::fs::read_dir(dir.path().join("metadata")).unwrap().next().unwrap().unwrap().file_name();
    let record = path.join("SIDECARS");
    let Inspection::Sidecars { directory } = file(&record).unwrap() else { panic!("SIDECARS") };
    assert_eq!(directory, found.to_str().unwrap());
    let bytes = std::fs::read(&record).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(is_noticed(&record, &damaged), "byte {at}");
    }
}
