//! Every use of `unsafe` has a reason beside it and a row in UNSAFE.md.

use crate::source::{assert_none, blank, crate_sources, line_of, workspace};
use std::collections::BTreeMap;

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
