//! No circles between files: within a folder of the engine, following imports from a file never leads back to
//! it.

use crate::source::{assert_none, engine_sources, line_of, module_of, paths, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Folders whose files make no circle.
const FOLDERS: &[&str] = &["db", "version", "table", "region_filter", "cache", "compaction"];

/// The files of a folder by module, with their code.
type Files = BTreeMap<Vec<String>, (String, String)>;

/// What a file re-exports from its children: item to child.
fn reexports(code: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, _) in code.match_indices("use ") {
        let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..at];
        if !line.trim_start().starts_with("pub") {
            continue;
        }
        for path in paths(&code[at + 4..]) {
            if path.len() > 1 && path[0] != "crate" && path[0] != "super" {
                found.insert(path.last().unwrap().clone(), path[..path.len() - 1].join("::"));
            }
        }
    }
    found
}

/// The modules that `code` declares as files of their own.
fn children(code: &str) -> Vec<String> {
    let declared = code.match_indices("mod ").filter_map(|(at, _)| {
        let name: String = code[at + 4..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        code[at + 4 + name.len()..].starts_with(';').then_some(name)
    });
    declared.collect()
}

/// The file that a path of modules and an item leads to.
fn resolve(path: &[String], files: &Files) -> Option<Vec<String>> {
    let mut length = path.len();
    while length > 0 && !files.contains_key(&path[..length]) {
        length -= 1;
    }
    let mut module = path[..length].to_vec();
    if length == 0 {
        return None;
    }
    // An item that a folder's `mod.rs` passes on comes from the file that it takes it from.
    if let Some(item) = path.get(length)
        && let Some(from) = reexports(&files[&module].1).get(item)
    {
        let deeper: Vec<String> = module.iter().cloned().chain(from.split("::").map(str::to_owned)).collect();
        if files.contains_key(&deeper) {
            module = deeper;
        }
    }
    Some(module)
}

/// Which files each file imports from, with the line of one such import.
fn edges(files: &Files) -> BTreeMap<Vec<String>, BTreeMap<Vec<String>, usize>> {
    let mut edges: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (own, (_, code)) in files {
        let children = children(code);
        let starts = ["crate::".to_owned(), "super::".to_owned()].into_iter();
        for start in starts.chain(children.iter().map(|child| format!("{child}::"))) {
            for (at, _) in code.match_indices(&start) {
                let before = code[..at].chars().next_back();
                let is_visibility = code[..at].ends_with("(in ");
                if is_visibility
                    || before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == ':')
                {
                    continue;
                }
                // `pub use child::Item` passes an item on; whoever imports it is charged with it.
                let line_start = code[..at].rfind('\n').map_or(0, |end| end + 1);
                if code[line_start..at].trim_start().starts_with("pub")
                    && code[line_start..at].contains(" use ")
                {
                    continue;
                }
                for path in paths(&code[at..]) {
                    let supers = path.iter().take_while(|word| *word == "super").count();
                    let base: Vec<String> = match path[0].as_str() {
                        "crate" => path[1..].to_vec(),
                        "super" => own[..own.len() - supers].iter().chain(&path[supers..]).cloned().collect(),
                        _ => own.iter().chain(&path).cloned().collect(),
                    };
                    if let Some(other) = resolve(&base, files)
                        && other != *own
                    {
                        edges.entry(own.clone()).or_default().entry(other).or_insert(line_of(code, at));
                    }
                }
            }
        }
    }
    edges
}

/// A sentence for each file that imports lead back to.
fn circles(files: &Files) -> Vec<String> {
    let edges = edges(files);
    let mut violations = Vec::new();
    for start in edges.keys() {
        // The shortest way back, breadth first.
        let mut came_from: BTreeMap<&Vec<String>, &Vec<String>> = BTreeMap::new();
        let mut next = vec![start];
        let mut closed = None;
        while let (false, None) = (next.is_empty(), closed) {
            let mut after = Vec::new();
            for module in next {
                for other in edges.get(module).into_iter().flat_map(BTreeMap::keys) {
                    if other == start {
                        closed.get_or_insert(module);
                    } else if !came_from.contains_key(other) {
                        came_from.insert(other, module);
                        after.push(other);
                    }
                }
            }
            next = after;
        }
        let Some(mut module) = closed else { continue };
        let mut way = vec![files[start].0.clone()];
        while module != start {
            way.push(files[module].0.clone());
            module = came_from[module];
        }
        way.push(files[start].0.clone());
        way.reverse();
        violations.push(way.join(" → "));
    }
    violations
}

fn folder(name: &str, sources: &[(String, String)]) -> Files {
    let own = sources.iter().filter(|(file, _)| module_of(file)[0] == name);
    own.map(|(file, text)| (module_of(file), (file.clone(), without_tests(text)))).collect()
}

#[test]
fn files_of_a_folder_make_no_circle() {
    let sources = engine_sources();
    let mut violations = Vec::new();
    for name in FOLDERS {
        let files = folder(name, &sources);
        assert!(!files.is_empty(), "there is no folder {name}");
        violations.extend(circles(&files));
    }
    assert_none(&violations);
}

#[test]
fn circles_are_found_where_they_are() {
    let file = |name: &str, text: &str| (format!("crates/engine/src/{name}.rs"), text.to_owned());
    let judge = |sources: &[(String, String)]| circles(&folder("db", sources));
    let sound = [
        file("db/mod", "mod read;\nmod store;\npub use read::Reader;\nuse store::Store;"),
        file("db/store", "use super::read::Reader;\nuse crate::cache::Cache;"),
        file(
            "db/read",
            "pub struct Reader;\n#[cfg(test)]\nmod tests {\n    use super::super::store::Store;\n}",
        ),
    ];
    assert_eq!(judge(&sound), Vec::<String>::new());
    let two = [file("db/read", "use super::store::Store;"), file("db/store", "use crate::db::read::Reader;")];
    assert_eq!(judge(&two).len(), 2);
    let parent =
        [file("db/mod", "mod read;\nuse read::Reader;\npub struct Db;"), file("db/read", "use super::Db;")];
    assert_eq!(judge(&parent).len(), 2, "a folder's own file counts");
    let passed_on = [
        file("db/mod", "mod read;\nmod store;\npub use read::Reader;"),
        file("db/read", "use super::store::Store;"),
        file("db/store", "use super::Reader;"),
    ];
    assert_eq!(judge(&passed_on).len(), 2, "an item comes from where it is defined");
    let three = [
        file("db/a", "use super::b::B;"),
        file("db/b", "fn f() -> super::c::C {}"),
        file("db/c", "use super::a::A;"),
    ];
    assert_eq!(judge(&three).len(), 3);
}

#[test]
fn imports_are_resolved_to_files() {
    let file = |name: &str, text: &str| (format!("crates/engine/src/{name}.rs"), text.to_owned());
    let files = folder(
        "db",
        &[
            file("db/mod", ""),
            file("db/write/mod", "mod queue;\npub use queue::Slot;"),
            file("db/write/queue", ""),
        ],
    );
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    let cases: BTreeSet<_> = [
        ("db::write::Slot", Some("db::write::queue")),
        ("db::write::Committer", Some("db::write")),
        ("db::write::queue::Turn", Some("db::write::queue")),
        ("io::Disk", None),
    ]
    .into();
    for (from, to) in cases {
        assert_eq!(resolve(&path(from), &files), to.map(path), "{from}");
    }
}
