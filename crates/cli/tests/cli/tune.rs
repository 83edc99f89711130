//! `siltstone tune`, and the models of SILT and SlimDB, on the command line.

use crate::run;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures").join(name)
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_real_store_is_tuned_and_its_options_written_with_only_the_changes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("OPTIONS-tuned");
    let options = fixture("zipf-dynamic/OPTIONS");
    let log = fixture("zipf-dynamic/LOG");
    let args = ["tune", "--engine", "rocksdb", text_of(&options), "--log", text_of(&log)];
    let json = run(&[&args[..], &["--out", text_of(&out), "--json"]].concat()).ok().json();
    let before = json["before"]["write_amplification"].as_f64().unwrap();
    let after = json["after"]["write_amplification"].as_f64().unwrap();
    let measured = json["measured"]["write_amplification"].as_f64().unwrap();
    assert!((before / measured - 1.0).abs() < 0.15 && after < before);
    let changes = json["changes"].as_array().unwrap();
    let text = std::fs::read_to_string(&options).unwrap();
    let tuned = std::fs::read_to_string(&out).unwrap();
    let changed = text.lines().zip(tuned.lines()).filter(|(old, new)| old != new).count();
    assert_eq!(changed, changes.len());
    assert_eq!(text.lines().count(), tuned.lines().count());
    // Never over a file that is there.
    run(&[&args[..], &["--out", text_of(&out)]].concat()).exits(2, &["exists"]);
    let page = run(&args).ok();
    assert!(json["siltstone"]["write_amplification"].as_f64().unwrap() < before);
    for words in [
        "Siltstone would write",
        "write amplification, predicted",
        "measured since",
        "max_bytes_for_level_base",
        "Zipf 0.99",
    ] {
        assert!(page.text().contains(words), "{words}");
    }
    // The command that it prints works as it stands, for what the line is about.
    let line = page.text().lines().find(|line| line.contains("Siltstone would write")).unwrap();
    let command = line.split('`').nth(1).unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--preset", "siltstone", "--json"]).collect();
    let advice = run(&words).ok().json();
    for part in ["overwrites", "skew"] {
        assert!(advice["workload"][part].as_f64().unwrap() > 0.0, "{command}");
    }
    let of_line = |json: &serde_json::Value, field: &str| json[field].as_f64().unwrap();
    let (told, priced) = (&json["siltstone"], &advice["best"]["predicted"]);
    for field in ["reads_per_hit", "peak_space_amplification"] {
        let off = of_line(priced, field) / of_line(told, field);
        assert!((0.95..1.05).contains(&off), "{field}: {off} by {command}");
    }
}

#[test]
fn a_load_can_be_asked_for() {
    let options = fixture("uniform-fixed/OPTIONS");
    let args =
        ["tune", "--engine", "rocksdb", text_of(&options), "--keys", "500k", "--item-bytes", "250", "--json"];
    let load = run(&[&args[..], &["--load"]].concat()).ok().json();
    let updates = run(&args).ok().json();
    let before = |json: &serde_json::Value| json["before"]["write_amplification"].as_f64().unwrap();
    assert!(before(&load) < before(&updates));
    assert!(load["workload"]["course"]["load"]["requests"].is_number());
    assert_eq!(updates["workload"]["course"], "updates");
    assert!(load["once_loaded"]["now"].as_f64().unwrap() > before(&load) && updates["once_loaded"].is_null());
    let page = run(&[&args[..8], &["--load"]].concat()).ok();
    assert!(page.text().contains("once loaded, of updates") && page.text().contains("after the load"));
    run(&[&args[..], &["--load", "--updates"]].concat()).exits(2, &["--updates"]);
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let options = fixture("uniform-fixed/OPTIONS");
    let rocksdb = ["tune", "--engine", "rocksdb"];
    run(&rocksdb).exits(2, &["OPTIONS"]);
    run(&[&rocksdb[..], &[text_of(&options)]].concat()).exits(2, &["--item-bytes"]);
    run(&[&rocksdb[..], &[text_of(&options), "--item-bytes", "100"]].concat()).exits(2, &["--keys"]);
    run(&[&rocksdb[..], &["/nonexistent"]].concat()).fails(&["/nonexistent"]);
    run(&[&rocksdb[..], &[text_of(&fixture("uniform-fixed"))]].concat()).fails(&["directory"]);
    run(&[&rocksdb[..], &[text_of(&fixture("uniform-fixed/LOG"))]].concat()).fails(&["OPTIONS"]);
    run(&[&rocksdb[..], &[text_of(&options), "--log", text_of(&options)]].concat())
        .fails(&["RocksDB's own LOG"]);
    run(&[&rocksdb[..], &[text_of(&options), "--column-family", "users"]].concat())
        .fails(&["there are: default"]);
    run(&["tune", "--engine", "leveldb", "--out", "x"]).exits(2, &["no OPTIONS file"]);
    run(&["tune", "--engine", "leveldb", "--item-bytes", "100"]).exits(2, &["--keys", "--trace FILE"]);
}

#[test]
fn leveldb_needs_no_file_and_a_trace_tells_popularity() {
    let args = ["tune", "--engine", "leveldb", "--item-bytes", "1000", "--json"];
    let log = fixture("leveldb/LOG");
    let json = run(&[&args[..], &["--keys", "200k", "--log", text_of(&log)]].concat()).ok().json();
    assert!(json["measured"]["write_amplification"].as_f64().unwrap() > 5.0);

    let dir = tempfile::tempdir().unwrap();
    // 10,000 keys four times each, and one key as often as a tenth of all.
    let keys =
        (0..40_000).map(|n| format!("{}\n", if n % 10 == 0 { 0 } else { n % 10_000 })).collect::<String>();
    let trace = dir.path().join("trace");
    std::fs::write(&trace, keys).unwrap();
    let traced = [&args[..], &["--trace", text_of(&trace)]].concat();
    let json = run(&traced).ok().json();
    assert!(json["workload"]["keys"].as_f64().unwrap() < 10_001.0);
    assert!(json["workload"]["skew"].is_null());
    run(&[&traced[..], &["--skew", "1"]].concat()).exits(2, &["--trace"]);
}

#[test]
fn silt_and_slimdb_print_their_papers_examples() {
    let json = run(&["model", "silt", "--json"]).ok().json();
    assert_eq!(format!("{:.2}", json["write_amplification"].as_f64().unwrap()), "5.41");
    assert_eq!(format!("{:.2}", json["lifetime_years"].as_f64().unwrap()), "3.15");
    assert!(run(&["model", "silt"]).ok().text().contains("0.734"));
    run(&["model", "silt", "--memory-per-item", "0.4"]).exits(2, &["memory"]);

    let slimdb = ["model", "slimdb", "--memory", "300MB", "--mix", "0.5,0.25,0.25", "--json"];
    let layout = |args: &[&str]| run(args).ok().json()["workloads"][0]["best"][0]["layout"].to_string();
    assert_eq!(layout(&slimdb), "[6,6,6,6,3]");
    assert_eq!(layout(&[&slimdb[..], &["--max-stepped-levels", "3"]].concat()), "[6,6,6,2,3]");
    run(&["model", "slimdb", "--mix", "0.5,0.5"]).exits(2, &["--mix"]);
    run(&["model", "slimdb", "--mix", "0.5,0.5,0.5"]).exits(2, &["add up to 1"]);
    run(&["model", "slimdb", "--levels", "20"]).exits(2, &["levels"]);
}

#[test]
fn figures_are_drawn_with_a_line_each() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("drawn");
    let args = ["model", "figures", "--out", text_of(&out), "--json", "--only"];
    for (name, files, words) in
        [("fast16-table1", 1, "23.67"), ("slimdb-figure9", 2, "280.4 MB"), ("silt-figure8", 2, "5.41")]
    {
        let json = run(&[&args[..], &[name]].concat()).ok().json();
        let figures = json["figures"].as_array().unwrap();
        assert_eq!(figures.len(), 1);
        assert!(figures[0]["comparison"].as_str().unwrap().contains(words), "{name}");
        let drawn = figures[0]["files"].as_array().unwrap();
        assert_eq!(drawn.len(), files);
        for file in drawn {
            let svg = std::fs::read_to_string(file.as_str().unwrap()).unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("Figure") || svg.contains("Table 1"));
        }
    }
    run(&[&args[..], &["fast99"]].concat()).exits(2, &["fast16-figure4"]);
}
