//! Loading and exporting rows.

use crate::{path, run, run_with_input, scratch};

const ROWS: &[u8] = b"a\t1\nb\t2\nno tab here\n\t3\nc\t\\q\nd\t4\n";

#[test]
fn bad_rows_end_a_load_and_keep_what_came_before() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    let ran = run_with_input(&["load", s, "-", "--format", "tsv"], ROWS);
    let ran = ran.fails(&["line 3", "no tab", "2 rows before it are loaded", "--on-error skip"]);
    assert!(ran.out.is_empty());
    assert_eq!(run(&["get", s, "b"]).ok().text(), "2\n");
    run(&["get", s, "d"]).fails(&["no such key"]);
}

#[test]
fn bad_rows_can_be_skipped() {
    let (dir, store) = scratch();
    let s = store.as_str();
    let file = path(dir.path(), "rows.tsv");
    let too_long = format!("{}\tv\n", "k".repeat(70_000));
    std::fs::write(&file, [ROWS, too_long.as_bytes(), b"e\t5"].concat()).unwrap();
    let ran =
        run(&["load", s, &file, "--format", "tsv", "--on-error", "skip", "--batch", "2", "--json"]).ok();
    for words in ["line 3", "line 4", "empty", "line 5", "\\q", "line 7", "70000"] {
        assert!(ran.err.contains(words), "no {words:?} in {}", ran.err);
    }
    let summary = ran.json();
    assert_eq!((summary["rows"].as_u64(), summary["bad_rows"].as_u64()), (Some(4), Some(4)));
    for (key, value) in [("a", "1"), ("b", "2"), ("d", "4"), ("e", "5")] {
        assert_eq!(run(&["get", s, key]).ok().text(), format!("{value}\n"));
    }
    let human = run(&["load", s, &file, "--format", "tsv", "--on-error", "skip"]).ok();
    assert!(human.text().contains("loaded 4 rows") && human.text().contains("4 bad rows skipped"));
}

#[test]
fn keys_that_do_not_fit_the_schema_are_bad_rows() {
    let (_dir, store) = scratch();
    let args = ["load", &store, "-", "--format", "jsonl", "--schema", "fixed:4", "--suffix", "hashed"];
    let rows = b"{\"key\": \"abcdef\", \"value\": \"1\"}\n{\"key\": \"abc\", \"value\": \"2\"}\n";
    run_with_input(&args, rows).fails(&["line 2", "prefix of 4 bytes", "1 rows before it"]);
    assert_eq!(run(&["scan", &store, "abcd"]).ok().text(), "abcdef\t1\n");
}

#[test]
fn export_and_load_round_trip() {
    let (dir, store) = scratch();
    let mut rows = Vec::new();
    for n in 0..3000u32 {
        rows.extend_from_slice(
            format!("key {n} \\x00\\xff\\t\tvalue\\n{n} å\\\\{}\n", "·".repeat(n as usize % 50)).as_bytes(),
        );
    }
    run_with_input(&["load", &store, "-", "--format", "tsv", "--batch", "100"], &rows).ok();
    let exported = run(&["export", &store, "--format", "tsv"]).ok();
    let sorted = |text: &[u8]| {
        let mut lines: Vec<_> = text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&exported.out), sorted(&rows));
    let jsonl = run(&["export", &store, "--format", "jsonl"]).ok();
    assert!(jsonl.err.contains("3,000 rows"));
    let copy = path(dir.path(), "copy");
    run_with_input(&["load", &copy, "-", "--format", "jsonl", "--preset", "leveled"], &jsonl.out).ok();
    assert_eq!(sorted(&run(&["export", &copy, "--format", "tsv"]).ok().out), sorted(&rows));
    assert!(run(&["keyspaces", &copy]).ok().text().contains("leveled"));
    run(&["export", &copy, "--format", "tsv", "--keyspace", "none"]).fails(&["none", "default"]);
}

#[test]
fn an_empty_file_loads_nothing() {
    let (dir, store) = scratch();
    assert!(run(&["load", &store, "-", "--format", "jsonl"]).ok().text().contains("loaded 0 rows"));
    assert!(run(&["export", &store, "--format", "tsv"]).ok().out.is_empty());
    let directory = dir.path().to_str().unwrap();
    run(&["load", &store, directory, "--format", "tsv"]).fails(&["is a directory"]);
}
