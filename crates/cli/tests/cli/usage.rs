//! Mistakes on the command line and in the choice of a directory.

use crate::{path, run, scratch};

#[test]
fn usage_errors_exit_with_2() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["frobnicate"], "frobnicate"),
        (&["get"], "DIR"),
        (&["put", s, "k", "v", "--schema", "fixed:0"], "fixed:N"),
        (&["put", s, "k", "v", "--preset", "nope"], "stepped-merge"),
        (&["put", s, "k", "v", "--suffix", "hashed"], "--schema"),
        (&["put", s, "k\\q", "v"], "unknown escape"),
        (&["put", s, "k", "v", "--ttl", "soon"], "90s"),
        (&["scan", s, "p", "--limit", "many"], "10M"),
        (&["load", s, "-"], "--format"),
        (&["load", s, "-", "--format", "xml"], "tsv"),
        (&["load", s, "rows.xml"], "--format tsv, jsonl or csv"),
        (&["load", s, "rows.csv", "--raw"], "--raw is a form of TSV"),
        (&["load", s, "rows.tsv", "--header"], "--header is for CSV"),
        (&["export", s, "--raw", "--format", "csv"], "--raw is a form of TSV"),
        (&["put", s, "k", "v", "--schema", "named:mine"], "Options::prefix_rules"),
        (&["repair", s, "--merge-operator", "add"], "TARGET"),
        (&["repair", s, "new", "--merge-operator", "mine"], "\"add\""),
        (&["scan", s, "--anywhere"], "PREFIX"),
        (&["clear", s], "--keyspace"),
        (&["load", s, "-", "--format", "tsv", "--batch", "0"], "at least 1"),
        (&["bench", "fill"], "--dir"),
        (&["bench", "fall", "--dir", s], "fill"),
        (&["bench", "fill", "--dir", s, "--memory-budget", "64Q"], "64M"),
        (&["bench", "fill", "--dir", s, "--group", "128", "--key-bytes", "8"], "--key-bytes"),
        (&["bench", "fill", "--dir", s, "--skew", "-1"], "skew"),
        (&["bench", "fill", "--dir", s, "--threads", "0"], "1..=1024"),
        (&["bench", "scan", "--dir", s, "--overwrite-dir"], "fill"),
        (&["demo", "--features", "1.5"], "1e8"),
        (&["demo", "--preset", "silt"], "groups"),
        (&["bench", "fill", "--dir", s, "--preset", "silt", "--group", "8"], "groups"),
        (&["bench", "fill", "--dir", s, "--preset", "nope"], "sm+mlcf"),
    ];
    for (args, word) in cases {
        run(args).exits(2, &[word]);
    }
    assert!(!std::path::Path::new(s).exists(), "a usage error has created the store");
}

#[test]
fn help_is_everywhere_and_has_examples() {
    for command in [
        "demo",
        "put",
        "get",
        "del",
        "scan",
        "count",
        "clear",
        "load",
        "export",
        "keyspaces",
        "stats",
        "verify",
        "checkpoint",
        "backup",
        "tail",
        "inspect",
        "redesign",
        "repair",
        "bench",
        "probe",
    ] {
        let help = run(&[command, "--help"]).ok();
        assert!(help.text().contains("Examples:"), "{command}");
        assert!(help.err.is_empty());
    }
    assert!(run(&["--version"]).ok().text().starts_with("siltstone "));
}

#[test]
fn a_missing_directory_is_refused_and_not_created() {
    let (dir, store) = scratch();
    let s = store.as_str();
    let target = path(dir.path(), "copy");
    let commands: &[&[&str]] = &[
        &["get", s, "k"],
        &["del", s, "k"],
        &["scan", s, "k"],
        &["count", s],
        &["clear", s, "--keyspace", "default"],
        &["export", s, "--format", "tsv"],
        &["keyspaces", s],
        &["stats", s],
        &["verify", s],
        &["checkpoint", s, &target],
        &["inspect", s],
        &["repair", s],
        &["redesign", s],
        &["redesign", s, "--preset", "lean"],
        &["redesign", s, "--schema", "delim:/"],
        &["backup", "create", s, &target],
        &["tail", s],
        &["bench", "read-hit", "--dir", s],
        &["bench", "overwrite", "--dir", s],
    ];
    for args in commands {
        let ran = run(args).fails(&["error: ", s]);
        assert!(ran.out.is_empty());
        assert!(ran.err.lines().count() <= 2, "{}", ran.err);
    }
    assert!(!std::path::Path::new(s).exists());
    run(&["load", s, &path(dir.path(), "no-such-file"), "--format", "tsv"]).fails(&["no-such-file"]);
    assert!(!std::path::Path::new(s).exists(), "a mistyped file name has created the store");
}

#[test]
fn a_foreign_directory_is_refused_and_left_alone() {
    let (dir, _) = scratch();
    let foreign = path(dir.path(), "photos");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(format!("{foreign}/cat.jpg"), "meow").unwrap();
    let f = foreign.as_str();
    let commands: &[&[&str]] = &[
        &["put", f, "k", "v"],
        &["get", f, "k"],
        &["del", f, "k"],
        &["load", f, "-", "--format", "tsv"],
        &["stats", f],
        &["verify", f],
        &["bench", "fill", "--dir", f, "--items", "10"],
        &["bench", "fill", "--dir", f, "--items", "10", "--overwrite-dir"],
        &["bench", "read-hit", "--dir", f],
        &["demo", f, "--dir", f],
    ];
    for args in commands {
        run(args).fails(&["error: ", "photos"]);
        let left: Vec<_> = std::fs::read_dir(f).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["cat.jpg"], "after {args:?}");
    }
    let told = run(&["stats", f]).fails(&["is not a Siltstone store", "check the path"]);
    assert!(!told.err.contains("new directory"), "{}", told.err);
    run(&["put", f, "k", "v"]).fails(&["name an empty or a new directory"]);
    let file = format!("{foreign}/cat.jpg");
    run(&["put", &file, "k", "v"]).fails(&["not a directory"]);
    run(&["get", &file, "k"]).fails(&["not a directory"]);
    run(&["inspect", &file]).fails(&["cat.jpg"]);
    assert_eq!(std::fs::read(file).unwrap(), b"meow");
}
