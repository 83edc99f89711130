//! Sources as text: comments and strings blanked, test modules left out, paths in them found.

use std::path::{Path, PathBuf};

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every `.rs` file below `dir`, with its path from the workspace on.
pub fn sources(dir: &Path) -> Vec<(String, String)> {
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

pub fn crate_sources() -> Vec<(String, String)> {
    let crates = std::fs::read_dir(workspace().join("crates")).unwrap();
    let dirs = crates.map(|entry| entry.unwrap().path().join("src")).filter(|src| src.is_dir());
    dirs.flat_map(|dir| sources(&dir)).collect()
}

/// The text with comments and the insides of strings blanked; lines and columns stay.
pub fn blank(text: &str) -> String {
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
pub fn without_tests(text: &str) -> String {
    let mut out = blank(text);
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test, siltstone_shuttle))]\nmod "];
    while let Some(at) = tests.iter().find_map(|test| out.find(test)) {
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

pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// `a::{b, c::d}` at the start of `text` as paths: `a::b`, `a::c::d`.
pub fn paths(text: &str) -> Vec<Vec<String>> {
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

/// `crates/engine/src/db/read.rs` is module `["db", "read"]`.
pub fn module_of(file: &str) -> Vec<String> {
    let inner = file.strip_prefix("crates/engine/src/").unwrap().strip_suffix(".rs").unwrap();
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    inner.split('/').map(str::to_owned).collect()
}

pub fn engine_sources() -> Vec<(String, String)> {
    sources(&workspace().join("crates/engine/src"))
}

pub fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n  {}\n", violations.join("\n  "));
}
