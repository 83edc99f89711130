//! `siltstone model`: the contract of names and fields, and what is refused.

use crate::{path, run, scratch};

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[test]
fn wa_prints_the_papers_table() {
    let args = ["model", "wa", "--engine", "leveldb", "--keys", "100M", "--item-bytes", "1000", "--json"];
    let json = run(&args).ok().json();
    assert!((number(&json["write_amplification"]) - 25.83).abs() < 0.01);
    let steps = json["steps"].as_array().unwrap();
    let rows: Vec<(&str, &str)> =
        steps.iter().map(|s| (s["from"].as_str().unwrap(), s["to"].as_str().unwrap())).collect();
    assert_eq!(rows[..3], [("memtable", "log"), ("memtable", "level-0"), ("level-0", "level-1")]);
    let sum: f64 = steps.iter().map(|step| number(&step["write_amplification"])).sum();
    assert!((sum - number(&json["write_amplification"])).abs() < 1e-9);
    assert_eq!(number(&json["level_sizes_items"][0]), 10_485.76);
    let text = run(&args[..args.len() - 1]).ok();
    assert!(text.text().contains("25.83") && text.text().contains("level-5"), "{}", text.text());
}

#[test]
fn every_engine_has_a_write_amplification() {
    for engine in ["leveldb", "rocksdb-leveled", "rocksdb-universal", "cola", "samt", "silt"] {
        let json = run(&["model", "wa", "--engine", engine, "--keys", "2M", "--json"]).ok().json();
        let total = number(&json["write_amplification"]);
        assert!((2.0..30.0).contains(&total), "{engine}: {total}");
        assert!(!json["steps"].as_array().unwrap().is_empty());
    }
}

#[test]
fn options_change_the_result_as_they_should() {
    let wa = |more: &[&str]| {
        let args =
            [&["model", "wa", "--engine", "leveldb", "--keys", "10M", "--skew", "0.99", "--json"], more]
                .concat();
        number(&run(&args).ok().json()["write_amplification"])
    };
    let plain = wa(&[]);
    assert!(wa(&["--flush-dedup", "false"]) > plain);
    assert!(wa(&["--aligned-tables"]) < plain);
    assert!(wa(&["--pick", "largest"]) > plain);
    assert!(wa(&["--grow"]) < plain);
    assert!(wa(&["--delete-fraction", "0.3"]) < plain);
    assert!(wa(&["--write-buffer", "64M"]) < plain);
    assert_ne!(wa(&["--model", "v2"]), plain);
    assert_eq!(
        wa(&["--steady", "--level1", "10M", "--growth", "10", "--l0-files", "4", "--model", "paper"]),
        plain
    );
    assert_eq!(wa(&["--level-sizes", "10M,100M,1000M"]), plain);
}

#[test]
fn optimize_reaches_the_papers_optimum() {
    let args =
        ["model", "optimize", "--engine", "leveldb", "--keys", "1e8", "--item-bytes", "1000", "--json"];
    let json = run(&args).ok().json();
    assert!((number(&json["before"]) - 25.83).abs() < 0.01 && (number(&json["after"]) - 23.67).abs() < 0.01);
    assert_eq!(json["level_sizes_items"].as_array().unwrap().len(), 5);
    assert!(number(&json["evaluations"]) > 10.0 && number(&json["seconds"]) > 0.0);
    let fewer = [&args[..], &["--over", "levels", "--max-levels", "7"]].concat();
    assert_eq!(run(&fewer).ok().json()["level_sizes_items"].as_array().unwrap().len(), 6);
}

#[test]
fn ra_and_sweep_answer() {
    let silt = run(&["model", "ra", "--engine", "silt", "--keys", "100M", "--json"]).ok().json();
    assert_eq!(format!("{:.3}", number(&silt["read_amplification"])), "1.008");
    let json =
        run(&["model", "ra", "--engine", "leveldb", "--keys", "10M", "--skew", "0.99", "--json"]).ok().json();
    let shares: f64 = json["steps"].as_array().unwrap().iter().map(|step| number(&step["share"])).sum();
    assert!((shares - 1.0).abs() < 1e-9 && number(&json["read_amplification"]) > 1.0);
    let sweep = [
        "model",
        "sweep",
        "--engine",
        "leveldb",
        "--keys",
        "10M",
        "--vary",
        "skew=0,0.99",
        "--optimize",
        "--json",
    ];
    let json = run(&sweep).ok().json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(number(&rows[0]["write_amplification"]) > number(&rows[1]["write_amplification"]));
    assert!(number(&rows[0]["optimized"]) < number(&rows[0]["write_amplification"]));
}

#[test]
fn nonsense_is_refused_by_name() {
    let wa = ["model", "wa", "--engine", "leveldb", "--keys", "1M"];
    let cases: &[(&[&str], &[&str])] = &[
        (&["--keys", "0"], &["--keys"]),
        (&["--skew", "-1"], &["--skew", "between 0 and"]),
        (&["--skew", "nan"], &["--skew"]),
        (&["--item-bytes", "0"], &["--item-bytes"]),
        (&["--level-sizes", "100M,10M"], &["--level-sizes", "ascend"]),
        (&["--level-sizes", "10M", "--growth", "3"], &["--growth"]),
        (&["--growth", "1"], &["--growth"]),
        (&["--growth", "3", "--levels", "4"], &["--growth", "--levels"]),
        (&["--levels", "0"], &["--levels"]),
        (&["--write-buffer", "0"], &["--write-buffer"]),
        (&["--l0-files", "0"], &["--l0-files"]),
        (&["--delete-fraction", "1"], &["--delete-fraction"]),
        (&["--grow", "--steady"], &["--steady"]),
    ];
    for (more, words) in cases {
        // The last of a repeated flag would be an error of its own, so the first is left out.
        let base: Vec<&str> = if more[0] == "--keys" { wa[..4].to_vec() } else { wa.to_vec() };
        run(&[&base[..], more].concat()).exits(2, words);
    }
    let foreign: &[(&str, &[&str])] = &[
        ("rocksdb-universal", &["--level1", "10M"]),
        ("rocksdb-universal", &["--model", "v2"]),
        ("cola", &["--l0-files", "4"]),
        ("cola", &["--growth", "2.5"]),
        ("samt", &["--pick", "largest"]),
        ("silt", &["--write-buffer", "4M"]),
        ("silt", &["--skew", "0.99"]),
    ];
    for (engine, more) in foreign {
        run(&[&["model", "wa", "--engine", engine, "--keys", "1M"], *more].concat()).exits(2, &[more[0]]);
    }
    run(&["model", "optimize", "--engine", "cola", "--keys", "1M"]).exits(2, &["--engine", "cola"]);
    run(&["model", "optimize", "--engine", "leveldb", "--keys", "1M", "--model", "tables"])
        .exits(2, &["--model"]);
    run(&[&wa[..], &["--model", "v2", "--table-bytes", "2M"]].concat()).exits(2, &["--table-bytes"]);
    run(&[&wa[..], &["--model", "tables", "--grow"]].concat()).exits(2, &["--grow"]);
    run(&["model", "ra", "--engine", "silt", "--keys", "1M", "--absent", "0.5"]).exits(2, &["--absent"]);
    run(&["model", "simulate", "--engine", "silt", "--keys", "1M"]).exits(2, &["silt"]);
    run(&["model", "optimize", "--engine", "leveldb", "--keys", "1M", "--target", "9"])
        .exits(2, &["--target"]);
    run(&["model", "sweep", "--engine", "leveldb", "--keys", "1M", "--vary", "colour=1"])
        .exits(2, &["--vary"]);
}

#[test]
fn the_growth_found_is_the_growth_used_and_large_buffers_are_noted() {
    let store = ["--engine", "leveldb", "--keys", "100M", "--json"];
    let best = run(&[&["model", "optimize", "--over", "growth"], &store[..]].concat()).ok().json();
    let growth = number(&best["growth"]).to_string();
    let same = run(&[&["model", "wa", "--growth", &growth], &store[..]].concat()).ok().json();
    assert!((number(&same["write_amplification"]) - number(&best["after"])).abs() < 1e-9, "{best} {same}");
    assert_eq!(same["level_sizes_items"], best["level_sizes_items"]);
    assert!(same["note"].is_null());
    let large = [&["model", "wa", "--write-buffer", "1G"], &store[..]].concat();
    assert!(run(&large).ok().json()["note"].as_str().unwrap().contains("--model tables"));
    let tables = [&large[..], &["--model", "tables"]].concat();
    assert!(run(&tables).ok().json()["note"].is_null());
}

#[test]
fn a_sweep_is_drawn() {
    let (dir, _) = scratch();
    let file = path(dir.path(), "sweep.svg");
    let sweep =
        ["model", "sweep", "--engine", "leveldb", "--keys", "1M", "--vary", "skew=0,0.5,0.99", "--optimize"];
    run(&[&sweep[..], &["--plot", &file]].concat()).ok();
    let drawn = std::fs::read_to_string(&file).unwrap();
    assert!(
        ["0.99", "writes at the best level sizes", "reads"].iter().all(|text| drawn.contains(text)),
        "{drawn}"
    );
}
