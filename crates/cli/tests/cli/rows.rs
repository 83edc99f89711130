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
    assert_eq!(run(&["export", &store]).ok().out, exported.out, "TSV is the default");
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

#[test]
fn a_bulk_load_is_all_or_nothing_and_quick_to_read() {
    let (dir, store) = scratch();
    let s = store.as_str();
    let bulk = ["load", s, "-", "--format", "tsv", "--bulk", "--json"];
    run_with_input(&bulk, b"a\t1\nb\t2\nno tab here\n").fails(&["line 3", "no tab", "nothing is loaded"]);
    // Nothing is left of it, so it may be tried with another schema.
    run(&["get", s, "a"]).fails(&["holds no keyspaces"]);
    let loaded = run_with_input(&[&bulk[..], &["--on-error", "skip"]].concat(), ROWS).ok();
    for words in ["line 3", "line 4: keyspace \"default\": the key is empty", "line 5"] {
        assert!(loaded.err.contains(words), "no {words:?} in {}", loaded.err);
    }
    let summary = loaded.json();
    assert_eq!((summary["rows"].as_u64(), summary["bad_rows"].as_u64()), (Some(3), Some(3)));
    assert_eq!((summary["entries"].as_u64(), summary["tables"].as_u64()), (Some(3), Some(1)));
    assert_eq!(run(&["get", s, "d"]).ok().text(), "4\n");
    // Of rows with one key the last counts, however many there are, and in whatever memory.
    let file = path(dir.path(), "many.tsv");
    let row = |n: u32| format!("key {}\tvalue {n} {}\n", n % 50_000, "x".repeat(60));
    std::fs::write(&file, (0..150_000).map(row).collect::<String>()).unwrap();
    // The other store's memtables do not fit so small a budget.
    let small_store = path(dir.path(), "small");
    let s = small_store.as_str();
    let small = ["load", s, &file, "--format", "tsv", "--bulk", "--keyspace", "many", "--json"];
    let small = [&small[..], &["--memory-budget", "8M", "--preset", "siltstone:256K"]].concat();
    let summary = run(&small).ok().json();
    assert_eq!((summary["rows"].as_u64(), summary["entries"].as_u64()), (Some(150_000), Some(50_000)));
    assert!(summary["temporary_bytes"].as_u64().unwrap() > 0, "{summary}");
    assert!(run(&["get", s, "key 7", "--keyspace", "many"]).ok().text().starts_with("value 100007 "));
    run(&["verify", s]).ok();
    run(&["load", s, &file, "--format", "tsv", "--bulk", "--batch", "7"]).exits(2, &["--bulk", "--batch"]);
}

#[test]
fn the_format_is_that_of_the_files_name() {
    let (dir, store) = scratch();
    let s = store.as_str();
    for (name, text) in [
        ("a.tsv", "a\t1\n"),
        ("b.ndjson", "{\"key\": \"b\", \"value\": \"2\"}\n"),
        ("c.csv", "c,3\n"),
        ("d.txt", "d,4\n"),
    ] {
        let file = path(dir.path(), name);
        std::fs::write(&file, text).unwrap();
        let load = run(&["load", s, &file]);
        if name == "d.txt" {
            load.exits(2, &["--format"]);
            run(&["load", s, &file, "--format", "csv"]).ok();
        } else {
            load.ok();
        }
    }
    assert_eq!(run(&["scan", s, "--json"]).ok().json()["count"], 4);
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
        assert_eq!(run(&["get", s, key]).ok().text(), format!("{value}\n"));
    }
}

#[test]
fn foreign_rows_are_not_rewritten_or_are_counted() {
    let (dir, store) = scratch();
    let s = store.as_str();
    let file = path(dir.path(), "paths.tsv");
    let rows = b"C:\\temp\tone\nC:\\x2d\ttwo\tcolumns\n";
    std::fs::write(&file, rows).unwrap();
    run(&["load", s, &file]).fails(&["line 2", "3 columns"]);
    run(&["load", s, &file, "--on-error", "skip"]).ok();
    let loaded = run(&["load", s, &file, "--on-error", "skip"]).ok();
    assert!(loaded.err.contains("1 fields") && loaded.err.contains("--raw"), "{}", loaded.err);
    let loaded = run(&["load", s, &file, "--on-error", "skip", "--bulk", "--json"]).ok().json();
    assert_eq!(loaded["rewritten_fields"], 1);
    let loaded = run(&["load", s, &file, "--raw", "--keyspace", "raw", "--json"]).ok().json();
    assert_eq!((&loaded["rows"], &loaded["rewritten_fields"]), (&2.into(), &0.into()));
    assert_eq!(run(&["get", s, "C:\\\\x2d", "--keyspace", "raw", "--raw"]).ok().out, b"two\tcolumns");
    let exported = run(&["export", s, "--keyspace", "raw", "--raw"]).ok().out;
    let lines = |text: &[u8]| {
        text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(lines(&exported), lines(rows));
    run(&["put", s, "line", "feed\\n", "--keyspace", "raw"]).ok();
    run(&["export", s, "--keyspace", "raw", "--raw"]).fails(&["line", "--raw"]);
    // CSV brings any bytes back.
    let csv = run(&["export", s, "--keyspace", "raw", "--format", "csv"]).ok().out;
    let copy = path(dir.path(), "copy");
    run_with_input(&["load", &copy, "-", "--format", "csv"], &csv).ok();
    assert_eq!(run(&["get", &copy, "line", "--raw"]).ok().out, b"feed\n");
    let with_header = [b"key,value\n".as_slice(), &csv].concat();
    let loaded = run_with_input(&["load", &copy, "-", "--format", "csv", "--header", "--json"], &with_header);
    assert_eq!(loaded.ok().json()["rows"], 3);
}

#[test]
fn a_schema_that_divides_nothing_is_told() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    let rows: String = (0..20_000).map(|n| format!("/usr/share/{}/{n}\t{:0100}\n", n % 7, n)).collect();
    let load = |keyspace: &str, schema: &str, more: &[&str]| {
        let args = ["load", s, "-", "--format", "tsv", "--keyspace", keyspace, "--schema", schema];
        run_with_input(&[&args[..], more].concat(), rows.as_bytes()).ok().err
    };
    for (keyspace, more) in [("first", &[][..]), ("bulk", &["--bulk"])] {
        let told = load(keyspace, "delim:/", more);
        assert!(
            told.contains("20,000 of 20,000 rows have the prefix /,") && told.contains("last-delim:"),
            "{told}"
        );
    }
    let told = load("last", "last-delim:/", &[]);
    assert!(!told.contains("prefix"), "{told}");
    let stats = run(&["stats", s]).ok();
    assert_eq!(stats.text().matches("one group has 100 % of it").count(), 2, "{}", stats.text());
    let events = run(&["stats", s, "--events", "100"]).ok();
    assert!(events.text().contains("[GROUP] the prefix \"/\" has"), "{}", events.text());
}
