//! How long files, functions and comments are, and how many fields the parts of an open store have.

use crate::source::{assert_none, blank, crate_sources, engine_sources, line_of, without_tests};

/// Lines a source file may have.
const MOST_LINES: usize = 600;
/// Lines a function may have, its signature included.
const MOST_FUNCTION_LINES: usize = 70;
/// Columns a comment may reach.
const MOST_COMMENT_COLUMNS: usize = 110;
/// What an open store is made of, and how many fields each may have.
const PARTS: &[&str] = &["Store", "Env", "Catalog", "Committer", "Scheduler", "Searcher"];
const MOST_FIELDS: usize = 11;

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

/// Where the braces close that open at `open`.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// Where the body opens of the function whose signature begins at `at`; none where it has only a signature.
fn body_of(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Functions with more than the lines they may have: line, name and length.
fn long_functions(code: &str) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') || name.is_empty() {
            continue;
        }
        let Some(open) = body_of(code, at) else { continue };
        let lines = line_of(code, closing(code, open)) - line_of(code, at) + 1;
        if lines > MOST_FUNCTION_LINES {
            found.push((line_of(code, at), name, lines));
        }
    }
    found
}

#[test]
fn functions_fit_a_screen() {
    let mut violations = Vec::new();
    for (file, text) in crate_sources() {
        for (line, name, lines) in long_functions(&without_tests(&text)) {
            violations
                .push(format!("{file}:{line}: {name} has {lines} lines, {MOST_FUNCTION_LINES} at most"));
        }
    }
    assert_none(&violations);
}

/// Comments that reach too far: line and columns. Tables, and what stands between code fences, can't be
/// broken.
fn wide_comments(text: &str) -> Vec<(usize, usize)> {
    let code = blank(text);
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (number, (line, code)) in text.lines().zip(code.lines()).enumerate() {
        // Blanking turns a comment into spaces, and leaves the `//` that begins a string's line.
        if !line.trim_start().starts_with("//") || !code.trim().is_empty() {
            is_fenced = false;
            continue;
        }
        let words = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        is_fenced ^= words.starts_with("```");
        let columns = line.chars().count();
        if columns > MOST_COMMENT_COLUMNS && !is_fenced && !words.starts_with('|') {
            found.push((number + 1, columns));
        }
    }
    found
}

#[test]
fn comments_are_not_too_wide() {
    let mut violations = Vec::new();
    for (file, text) in crate_sources() {
        for (line, columns) in wide_comments(&text) {
            violations.push(format!("{file}:{line}: {columns} columns, {MOST_COMMENT_COLUMNS} at most"));
        }
    }
    assert_none(&violations);
}

/// The fields of struct `name` in `code`, if it is there.
fn fields(code: &str, name: &str) -> Option<usize> {
    let at = code.find(&format!("struct {name} {{"))?;
    let open = at + code[at..].find('{')?;
    let body = &code[open + 1..closing(code, open)];
    let mut depth = 0i32;
    let mut fields = 0;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if body.as_bytes().get(at.wrapping_sub(1)) != Some(&b'-') => depth -= 1,
            b')' | b']' | b'}' => depth -= 1,
            b':' if depth == 0 && body.as_bytes()[at + 1] == b' ' => fields += 1,
            _ => {}
        }
    }
    Some(fields)
}

#[test]
fn the_parts_of_a_store_stay_small() {
    let sources: Vec<_> =
        engine_sources().into_iter().filter(|(file, _)| file.contains("/src/db/")).collect();
    let mut violations = Vec::new();
    for part in PARTS {
        let mut found = sources.iter().filter_map(|(file, text)| Some((file, fields(&blank(text), part)?)));
        let (file, count) = found.next().unwrap_or_else(|| panic!("there is no struct {part} in db/"));
        if count > MOST_FIELDS {
            violations.push(format!("{file}: {part} has {count} fields, {MOST_FIELDS} at most"));
        }
    }
    assert_none(&violations);
}

#[test]
fn lengths_are_measured_as_they_are() {
    let body = "    x();\n".repeat(MOST_FUNCTION_LINES - 2);
    assert!(long_functions(&format!("fn fits() {{\n{body}}}\n")).is_empty());
    let long = long_functions(&format!("fn f(a: [u8; 2]);\nfn long(a: [u8; 2]) {{\n    x();\n{body}}}\n"));
    assert_eq!(long, [(2, "long".to_owned(), MOST_FUNCTION_LINES + 1)]);
    let wide = format!("let a = 1;\n// {}\nlet b = \"// {}\";\n", "x".repeat(108), "y".repeat(200));
    assert_eq!(wide_comments(&wide), [(2, 111)]);
    let diagram = format!("//! ```text\n//! {0}\n//! ```\n//! | {0} |\n//! {0}\n", "x".repeat(120));
    assert_eq!(wide_comments(&diagram), [(5, 124)]);
    let code = "struct A {\n    pub a: u8,\n    b: Map<K, fn(x: u8) -> V>,\n    c: (u8, u8),\n}\nstruct B;";
    assert_eq!(fields(code, "A"), Some(3));
    assert_eq!(fields(code, "C"), None);
}
