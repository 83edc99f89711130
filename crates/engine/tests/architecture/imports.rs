//! Floors: a module of the engine uses only those below it and, without a circle, those beside it.

use crate::source::blank;
use crate::source::{assert_none, engine_sources, line_of, module_of, paths, without_tests, workspace};
use std::collections::{BTreeMap, BTreeSet};

/// The floors, from the table in `crates/engine/src/lib.rs`: a module uses only those below it and, without a
/// circle, those beside it.
const FLOORS: &[(u8, &[&str])] = &[
    (8, &["lib", "inspect", "fuzzing"]),
    (7, &["db"]),
    (6, &["compaction"]),
    (5, &["version", "region_filter"]),
    (4, &["table", "wal", "memtable", "log_store", "options", "design_text", "resources"]),
    (
        3,
        &[
            "cache",
            "memory",
            "record",
            "segment",
            "operation",
            "entry",
            "merge_operator",
            "compression",
            "value",
            "codec",
            "event_log",
        ],
    ),
    (2, &["io"]),
    (1, &["error", "activity", "stats", "filename", "ids", "events"]),
    (0, &["sync"]),
];

/// Of these none uses another; `db` introduces them.
const STRANGERS: &[&str] = &["wal", "memtable", "log_store", "table"];

/// What only one module may name.
const PRIVILEGES: &[(&str, &str, &str)] = &[
    ("std::fs", "io", "files belong to the disk"),
    ("fs::File", "io", "files belong to the disk"),
    ("std::os", "io", "the operating system belongs to the disk"),
    ("rustix", "io", "the operating system belongs to the disk"),
    ("libc", "io", "the operating system belongs to the disk"),
    ("SystemTime", "io", "the wall clock belongs to the disk, so that tests can set it"),
    ("Instant", "sync", "durations are measured by `Stopwatch`"),
    ("parking_lot", "sync", "a scheduler of tests takes the place of locks"),
    ("arc_swap", "sync", "a scheduler of tests takes the place of published values"),
    ("shuttle", "sync", "a scheduler of tests is met there"),
    ("std::thread", "sync", "a scheduler of tests takes the place of threads"),
];

/// What of `std::sync` only `sync` may name, for the same reason.
const SYNC_ITEMS: &[&str] =
    &["Barrier", "Condvar", "LazyLock", "Mutex", "Once", "OnceLock", "RwLock", "atomic", "mpsc"];

/// The modules that `lib.rs` re-exports items from, by item.
fn reexports(lib: &str) -> BTreeMap<String, String> {
    let lib = blank(lib);
    let mut found = BTreeMap::new();
    for (at, _) in lib.match_indices("pub use ") {
        for path in paths(&lib[at + "pub use ".len()..]) {
            found.insert(path.last().unwrap().clone(), path[0].clone());
        }
    }
    found
}

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(_, modules)| modules.contains(&module)).map(|(floor, _)| *floor)
}

/// Every use of another top-level module in a file of the engine: line and module.
fn uses(file: &str, text: &str, exports: &BTreeMap<String, String>) -> Vec<(usize, String)> {
    let text = without_tests(text);
    let own = module_of(file);
    let mut found = Vec::new();
    for keyword in ["crate::", "super::"] {
        for (at, _) in text.match_indices(keyword) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == ':') {
                continue;
            }
            for path in paths(&text[at..]) {
                let supers = path.iter().take_while(|word| *word == "super").count();
                let mut base = if supers > 0 { own[..own.len() - supers].to_vec() } else { Vec::new() };
                base.extend(path.iter().skip(supers.max(1)).cloned());
                let Some(first) = base.first() else { continue };
                let module = exports.get(first).unwrap_or(first);
                if *module != own[0] {
                    found.push((line_of(&text, at), module.clone()));
                }
            }
        }
    }
    found
}

/// What is wrong with the imports of these files of the engine.
fn import_violations(files: &[(String, String)], exports: &BTreeMap<String, String>) -> Vec<String> {
    let mut violations = Vec::new();
    let mut beside: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in files {
        let own = module_of(file)[0].clone();
        let Some(own_floor) = floor(&own) else {
            violations.push(format!("{file}: module {own} has no floor; add it to FLOORS and to lib.rs"));
            continue;
        };
        if own == "lib" {
            continue;
        }
        for (line, other) in uses(file, text, exports) {
            let what = match floor(&other) {
                None => format!("{other} is neither a module nor re-exported"),
                Some(floor) if floor > own_floor => {
                    format!("{own} (floor {own_floor}) uses {other} (floor {floor})")
                }
                Some(_) if STRANGERS.contains(&own.as_str()) && STRANGERS.contains(&other.as_str()) => {
                    format!("{own} and {other} are not to know one another")
                }
                Some(floor) => {
                    if floor == own_floor {
                        beside.entry(own.clone()).or_default().insert(other);
                    }
                    continue;
                }
            };
            violations.push(format!("{file}:{line}: {what}"));
        }
    }
    // Modules of one floor may use one another as long as none comes back to itself.
    for start in beside.keys() {
        let (mut reached, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(module) = next.pop() {
            for other in beside.get(module).into_iter().flatten() {
                if reached.insert(other) {
                    next.push(other);
                }
            }
        }
        if reached.contains(start) {
            violations.push(format!("{start}: it uses {reached:?}, which lead back to it"));
        }
    }
    violations
}

/// What files name that only one module may.
fn privilege_violations(files: &[(String, String)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (file, text) in files {
        let text = without_tests(text);
        for (name, owner, why) in PRIVILEGES.iter().filter(|(_, owner, _)| module_of(file)[0] != *owner) {
            for (at, _) in text.match_indices(name) {
                let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                if !word(text[..at].chars().next_back()) && !word(text[at + name.len()..].chars().next()) {
                    let line = line_of(&text, at);
                    violations.push(format!("{file}:{line}: {name} is for {owner} alone: {why}"));
                }
            }
        }
    }
    violations
}

/// What files but those of `sync` take from `std::sync` that is not theirs to take, and who but `stats` takes
/// the time.
fn sync_violations(files: &[(String, String)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| module_of(file)[0] != "sync") {
        let text = without_tests(text);
        for (at, _) in text.match_indices("std::sync::") {
            for path in paths(&text[at..]).iter().filter(|path| SYNC_ITEMS.contains(&path[2].as_str())) {
                let line = line_of(&text, at);
                violations.push(format!("{file}:{line}: {} is for sync alone", path.join("::")));
            }
        }
        if text.contains("sync::Moment") && module_of(file)[0] != "stats" {
            violations
                .push(format!("{file}: the time is for stats alone: durations are measured by `Stopwatch`"));
        }
    }
    violations
}

#[test]
fn each_floor_uses_only_those_below() {
    let files = engine_sources();
    assert!(files.len() > 30, "the engine's sources have moved");
    let lib = &files.iter().find(|(file, _)| file.ends_with("src/lib.rs")).unwrap().1;
    assert_none(&import_violations(&files, &reexports(lib)));
}

#[test]
fn the_table_in_lib_rs_shows_these_floors() {
    let lib = std::fs::read_to_string(workspace().join("crates/engine/src/lib.rs")).unwrap();
    for (floor, modules) in FLOORS {
        let start = format!("//! | {floor} |");
        let row = lib.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {start}"));
        let named = row.split('|').nth(2).unwrap();
        for module in modules.iter().filter(|module| !["lib", "inspect", "fuzzing"].contains(module)) {
            assert!(named.contains(&format!("`{module}`")), "{module} is not on floor {floor}: {row}");
        }
    }
}

#[test]
fn only_io_meets_the_operating_system_and_only_sync_threads_and_clock() {
    assert_none(&privilege_violations(&engine_sources()));
}

#[test]
fn locks_and_threads_come_from_one_module() {
    assert_none(&sync_violations(&engine_sources()));
    let file = |name: &str, text: &str| (format!("crates/engine/src/{name}.rs"), text.to_owned());
    let found = sync_violations(&[
        file("db/mod", "use std::sync::Arc;\nuse std::sync::{Arc, atomic::{AtomicBool, Ordering}, Mutex};"),
        file("cache", "fn f(lock: &std::sync::RwLock<u8>) {} // std::sync::mpsc"),
        file("memory", "use crate::sync::Moment;"),
        file("sync/system", "use std::sync::mpsc;"),
        file("wal", "#[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}"),
    ]);
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn the_reader_of_imports_sees_what_it_should() {
    let file = |name: &str, text: &str| (format!("crates/engine/src/{name}.rs"), text.to_owned());
    let exports = reexports("pub use db::{Batch, Db};\npub use error::Result; // pub use io::Nothing;");
    let judge = |files: &[(String, String)]| import_violations(files, &exports);
    let ok = [
        file("db/read", "use super::store::Store;\nuse crate::{table::Table, wal::Wal};\nuse crate::Result;"),
        file(
            "table/block/page",
            "//! use crate::db::Db;\nuse super::super::envelope::X;\nlet s = \"crate::db\";",
        ),
        file("wal", "use crate::io::Disk;\n#[cfg(test)]\nmod tests {\n    use crate::memtable::M;\n}"),
        file("cache", "use crate::memory::MemoryBudget;"),
    ];
    assert_eq!(judge(&ok), Vec::<String>::new());
    let bad: &[(&str, &str, &str)] = &[
        (
            "record",
            "use crate::{\n    codec::Decoder,\n    wal::{Wal, replay},\n};",
            "record.rs:1: record (floor 3) uses wal (floor 4)",
        ),
        ("wal", "\nuse crate::memtable::MemTable;", "wal.rs:2: wal and memtable are not to know one another"),
        (
            "io/os",
            "fn f() -> crate::Result<()> { super::super::cache::g() }",
            "io/os.rs:1: io (floor 2) uses cache (floor 3)",
        ),
        ("cache", "fn f(db: &crate::Attic) {}", "cache.rs:1: Attic is neither"),
        ("cache", "fn f(batch: &crate::Batch) {}", "cache.rs:1: cache (floor 3) uses db (floor 7)"),
        ("attic", "", "attic.rs: module attic has no floor"),
    ];
    for (name, text, expected) in bad {
        let found = judge(&[file(name, text)]);
        assert!(found.iter().any(|v| v.contains(expected)), "{name}: {found:?}");
    }
    let circle = [file("cache", "use crate::memory::M;"), file("memory", "use crate::cache::C;")];
    assert_eq!(judge(&circle).len(), 2);
    let found = privilege_violations(&[
        file("db/mod", "use std::time::{Duration, Instant};\nstd::fs::read(p); // std::fs"),
        file("io/os", "use std::fs;\nuse std::time::SystemTime;"),
        file("sync", "use std::time::Instant;\nlet instant = InstantNoodles;"),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("crates/engine/src/db/mod.rs:2: std::fs"), "{found:?}");
    assert!(found[1].starts_with("crates/engine/src/db/mod.rs:1: Instant"), "{found:?}");
}
