//! Holds the sources to ARCHITECTURE.md: floors, crate edges, who may touch the operating system, file sizes, `unsafe`.
//!
//! The sources are read as text: comments and strings are blanked, `#[cfg(test)]` modules left out, and every path that
//! begins with `crate::` or `super::` is resolved to the module it leads to. A violation names file and line.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The floors, from the table in `crates/engine/src/lib.rs`: a module uses only those below it and, without a circle, those
/// beside it.
const FLOORS: &[(u8, &[&str])] = &[
    (8, &["lib", "inspect", "fuzzing"]),
    (7, &["db"]),
    (6, &["compaction"]),
    (5, &["version"]),
    (4, &["table", "wal", "memtable", "log_store", "options"]),
    (3, &["cache", "memory", "record", "segment", "operation", "entry", "codec"]),
    (2, &["io"]),
    (1, &["error", "stats"]),
];

/// Of these none uses another; `db` introduces them.
const STRANGERS: &[&str] = &["wal", "memtable", "log_store", "table"];

/// What only one module may name.
const PRIVILEGES: &[(&str, &str, &str)] = &[
    ("std::fs", "io", "files belong to the disk"),
    ("fs::File", "io", "files belong to the disk"),
    ("std::os", "io", "the operating system belongs to the disk"),
    ("rustix", "io", "the operating system belongs to the disk"),
    ("SystemTime", "io", "the wall clock belongs to the disk, so that tests can set it"),
    ("Instant", "stats", "durations are measured by `Stopwatch`"),
];

/// Lines a source file may have.
const MOST_LINES: usize = 600;
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every `.rs` file below `dir`, with its path from the workspace on.
fn sources(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn crate_sources() -> Vec<(String, String)> {
    let crates = std::fs::read_dir(workspace().join("crates")).unwrap();
    let dirs = crates.map(|entry| entry.unwrap().path().join("src")).filter(|src| src.is_dir());
    dirs.flat_map(|dir| sources(&dir)).collect()
}

/// The text with comments and the insides of strings blanked; lines and columns stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    let wipe = |out: &mut Vec<u8>, from: usize, to: usize| {
        for byte in &mut out[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let find = |from: usize, what: &[u8]| {
        let found = bytes[from..].windows(what.len()).position(|window| window == what);
        found.map_or(bytes.len(), |offset| from + offset + what.len())
    };
    while at < bytes.len() {
        let rest = &bytes[at..];
        let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        let end = if rest.starts_with(b"//") {
            find(at, b"\n").saturating_sub(1).max(at + 2)
        } else if rest.starts_with(b"/*") {
            find(at, b"*/")
        } else if !word_before && (rest.starts_with(b"r\"") || rest.starts_with(b"r#")) {
            let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
            if rest.get(1 + hashes) != Some(&b'"') {
                at += 1;
                continue;
            }
            find(at + 2 + hashes, &[&b"\""[..], &vec![b'#'; hashes]].concat())
        } else if rest[0] == b'"' {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            end + 1
        } else if rest.starts_with(b"'\\") {
            find(at + 3, b"'")
        } else if rest[0] == b'\'' && rest.get(2) == Some(&b'\'') {
            at + 3
        } else {
            at += 1;
            continue;
        };
        wipe(&mut out, at, end.min(bytes.len()));
        at = end;
    }
    String::from_utf8(out).unwrap()
}

/// The blanked text without modules that are compiled for tests only.
fn without_tests(text: &str) -> String {
    let mut out = blank(text);
    while let Some(at) = out.find("#[cfg(test)]\nmod ") {
        let open = at + out[at..].find(['{', ';']).unwrap();
        let mut end = open + 1;
        if out.as_bytes()[open] == b'{' {
            let mut depth = 1;
            while depth > 0 {
                match out.as_bytes()[end] {
                    b'{' => depth += 1,
                    b'}' => depth -= 1,
                    _ => {}
                }
                end += 1;
            }
        }
        let blanked: String = out[at..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
        out.replace_range(at..end, &blanked);
    }
    out
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// `a::{b, c::d}` at the start of `text` as paths: `a::b`, `a::c::d`.
fn paths(text: &str) -> Vec<Vec<String>> {
    fn tree(text: &str, prefix: &[String], out: &mut Vec<Vec<String>>) -> usize {
        let mut path = prefix.to_vec();
        let mut at = 0;
        loop {
            at += text[at..].len() - text[at..].trim_start().len();
            if text[at..].starts_with('{') {
                at += 1;
                loop {
                    at += tree(&text[at..], &path, out);
                    at += text[at..].len() - text[at..].trim_start().len();
                    match text[at..].chars().next() {
                        Some(',') => at += 1,
                        Some('}') => return at + 1,
                        _ => return text.len(),
                    }
                }
            }
            let word = text[at..].chars().take_while(|c| c.is_alphanumeric() || "_*".contains(*c)).count();
            if word == 0 {
                return at;
            }
            path.push(text[at..at + word].to_owned());
            at += word;
            if text[at..].starts_with("::") {
                at += 2;
            } else {
                out.push(path);
                let rename = text[at..].strip_prefix(" as ");
                let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').count();
                return at + rename.map_or(0, |rest| 4 + name(rest));
            }
        }
    }
    let mut out = Vec::new();
    tree(text, &[], &mut out);
    out
}

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

/// `crates/engine/src/db/read.rs` is module `["db", "read"]`.
fn module_of(file: &str) -> Vec<String> {
    let inner = file.strip_prefix("crates/engine/src/").unwrap().strip_suffix(".rs").unwrap();
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    inner.split('/').map(str::to_owned).collect()
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

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n  {}\n", violations.join("\n  "));
}

fn engine_sources() -> Vec<(String, String)> {
    sources(&workspace().join("crates/engine/src"))
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
fn only_io_meets_the_operating_system_and_only_stats_the_clock() {
    assert_none(&privilege_violations(&engine_sources()));
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
        file("stats", "use std::time::Instant;\nlet instant = InstantNoodles;"),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("crates/engine/src/db/mod.rs:2: std::fs"), "{found:?}");
    assert!(found[1].starts_with("crates/engine/src/db/mod.rs:1: Instant"), "{found:?}");
}

/// Names in the `[dependencies]` of a crate.
fn dependencies(krate: &str) -> BTreeSet<String> {
    let manifest = workspace().join("crates").join(krate).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).unwrap();
    let mut section = "";
    let mut names = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && !section.contains("dev-") {
            names.insert(line.split(['.', ' ', '=']).next().unwrap().to_owned());
        }
    }
    names
}

fn assert_dependencies(krate: &str, may: &[&str]) {
    let extra: Vec<_> =
        dependencies(krate).into_iter().filter(|name| !may.contains(&name.as_str())).collect();
    assert!(extra.is_empty(), "crates/{krate}/Cargo.toml: {extra:?} may not be a dependency of it");
}

#[test]
fn crates_depend_only_downwards() {
    assert_dependencies("design", &["serde", "siphasher"]);
    assert_dependencies("succinct", &[]);
    let siltstone = |krate: &str| -> Vec<String> {
        dependencies(krate).into_iter().filter(|name| name.starts_with("siltstone")).collect()
    };
    assert_eq!(siltstone("engine"), ["siltstone-design", "siltstone-succinct"]);
    assert_eq!(siltstone("model"), ["siltstone-design"]);
    // Papers' evaluations measure structures and models by themselves; everything else goes through the library.
    assert_eq!(siltstone("lab"), ["siltstone", "siltstone-model", "siltstone-succinct"]);
    assert_eq!(siltstone("cli"), ["siltstone", "siltstone-lab", "siltstone-model"]);
}

/// The laboratory's modules in the order of the table in its `lib.rs`: each uses only those after it.
const LAB: &[&str] = &["papers", "clients", "measure", "program", "kit"];

#[test]
fn the_laboratorys_modules_use_only_those_below() {
    let base = "crates/lab/src/";
    let files = sources(&workspace().join(base));
    let lib = &files.iter().find(|(file, _)| file == "crates/lab/src/lib.rs").unwrap().1;
    let table: Vec<_> =
        lib.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split('`').next()).collect();
    assert_eq!(table, LAB);
    let (mut violations, mut edges) = (Vec::new(), 0);
    for (file, text) in &files {
        let inner = file.strip_prefix(base).unwrap();
        let own = inner.split('/').next().unwrap().trim_end_matches(".rs");
        let Some(own) = LAB.iter().position(|module| *module == own) else { continue };
        let text = without_tests(text);
        for (at, _) in text.match_indices("crate::") {
            for path in paths(&text[at..]) {
                let Some(other) =
                    LAB.iter().position(|module| path.get(1).is_some_and(|name| name == module))
                else {
                    continue;
                };
                edges += 1;
                if other < own {
                    violations.push(format!(
                        "{file}:{}: {} uses {}",
                        line_of(&text, at),
                        LAB[own],
                        LAB[other]
                    ));
                }
            }
        }
    }
    assert!(edges > 50, "the laboratory's sources have moved");
    assert_none(&violations);
}

#[test]
fn no_source_file_is_too_long() {
    let mut violations = Vec::new();
    for (file, text) in crate_sources() {
        let lines = text.lines().count();
        if lines > MOST_LINES {
            violations
                .push(format!("{file}: {lines} lines, {MOST_LINES} at most; give a part a file of its own"));
        }
    }
    assert_none(&violations);
}

/// Rows of UNSAFE.md: how many uses of `unsafe` each file is granted.
fn granted_unsafe() -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(workspace().join("UNSAFE.md")).unwrap();
    let mut granted = BTreeMap::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("| `crates/")) {
        let (file, _) = row.split_once('`').unwrap();
        *granted.entry(format!("crates/{file}")).or_default() += 1;
    }
    granted
}

#[test]
fn every_unsafe_block_has_a_reason_and_a_row() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut violations = Vec::new();
    for (file, text) in crate_sources() {
        let code = blank(&text);
        let lines: Vec<_> = text.lines().collect();
        for (at, _) in code.match_indices("unsafe") {
            let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            if word(code[..at].chars().next_back()) || word(code[at + 6..].chars().next()) {
                continue;
            }
            *found.entry(file.clone()).or_default() += 1;
            let line = line_of(&code, at);
            let above =
                lines[..line - 1].iter().rev().take_while(|above| above.trim_start().starts_with("//"));
            if !above.into_iter().any(|comment| comment.contains("SAFETY:")) {
                violations.push(format!("{file}:{line}: `unsafe` without a SAFETY: comment above it"));
            }
        }
    }
    assert_none(&violations);
    assert_eq!(found, granted_unsafe(), "uses of `unsafe` (left) and rows of UNSAFE.md (right) by file");
}

/// The code of the first example in `text`, line by line, without doc comment marks and hidden lines.
fn example(text: &str) -> Vec<String> {
    let plain = text
        .lines()
        .map(|line| line.strip_prefix("///").map_or(line, |doc| doc.strip_prefix(' ').unwrap_or(doc)));
    let code = plain.skip_while(|line| !line.starts_with("```")).skip(1).take_while(|line| *line != "```");
    code.filter(|line| *line != "#" && !line.starts_with("# ")).map(str::to_owned).collect()
}

#[test]
fn the_readme_shows_an_example_that_is_tested() {
    let read = |file: &str| std::fs::read_to_string(workspace().join(file)).unwrap();
    let (readme, db) = (read("README.md"), read("crates/engine/src/db/mod.rs"));
    let in_readme = example(&readme[readme.find("## As a library").unwrap()..]);
    assert!(in_readme.len() > 5);
    assert_eq!(
        in_readme,
        example(&db[db.find("/// An open store.").unwrap()..]),
        "README.md (left) and `Db` (right)"
    );
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = workspace();
    let mut violations = Vec::new();
    for document in
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "UNSAFE.md", "docs/format.md", "docs/testing.md"]
    {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        let dir = Path::new(document).parent().unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            if !target.contains("://") && !root.join(dir).join(target).exists() {
                violations.push(format!("{document}:{}: there is no {target}", line_of(&text, at)));
            }
        }
    }
    assert_none(&violations);
}
