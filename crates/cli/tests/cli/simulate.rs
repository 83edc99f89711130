//! `siltstone model simulate`: the contract of names and fields, and what is refused.

use crate::run;
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// A store small enough for a debug build.
const SMALL: [&str; 6] = ["model", "simulate", "--keys", "60k", "--item-bytes", "10k"];

fn simulate(more: &[&str]) -> Value {
    run(&[&SMALL[..], more, &["--json"]].concat()).ok().json()
}

#[test]
fn it_answers_as_wa_does_and_near_it() {
    for (engine, at_most) in [("leveldb", 0.06), ("rocksdb-leveled", 0.15), ("rocksdb-universal", 0.15)] {
        let json = simulate(&["--engine", engine]);
        let model = ["model", "wa", "--engine", engine, "--keys", "60k", "--item-bytes", "10k", "--json"];
        let model = run(&model).ok().json();
        let error = number(&model["write_amplification"]) / number(&json["write_amplification"]) - 1.0;
        assert!(error.abs() < at_most, "{engine}: {error}");
        assert_eq!(json["level_sizes_items"], model["level_sizes_items"]);
        let steps = |json: &Value| -> Vec<(Value, Value)> {
            json["steps"].as_array().unwrap().iter().map(|s| (s["from"].clone(), s["to"].clone())).collect()
        };
        assert_eq!(steps(&json), steps(&model));
        assert!(number(&json["items_per_second"]) > 1000.0 && number(&json["requests"]) >= 600_000.0);
    }
}

#[test]
fn seeds_miniatures_and_growth() {
    let total = |more: &[&str]| number(&simulate(more)["write_amplification"]);
    let usual = total(&["--skew", "0.9"]);
    assert_eq!(usual, total(&["--skew", "0.9", "--seed", "1", "--engine", "leveldb"]));
    assert_ne!(usual, total(&["--skew", "0.9", "--seed", "2"]));
    assert!((total(&["--skew", "0.9", "--miniature", "2"]) / usual - 1.0).abs() < 0.05);
    assert!(total(&["--grow"]) < total(&[]));
    assert_eq!(number(&simulate(&["--requests", "100k", "--miniature", "3"])["miniature"]), 3.0);
}

#[test]
fn designs_are_simulated_by_name_and_from_a_file() {
    let json = simulate(&["--design", "leveled"]);
    assert_eq!(json["preset"], "leveled");
    assert!(number(&json["space_amplification"]) >= 1.0);
    assert!(number(&json["most_space_amplification"]) >= number(&json["space_amplification"]));
    for field in ["regions", "runs", "most_runs", "items"] {
        assert!(json["levels"][0][field].is_number(), "{field}");
    }
    for field in ["requests", "space_amplification", "runs_per_region", "compacted_per_request"] {
        assert!(json["timeline"][0][field].is_number(), "{field}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.json");
    let design = siltstone::Design::preset("leveled").unwrap();
    std::fs::write(&file, serde_json::to_string(&design).unwrap()).unwrap();
    let same = simulate(&["--design", file.to_str().unwrap()]);
    assert_eq!(same["steps"], json["steps"]);
    let text = run(&[&SMALL[..], &["--design", "stepped-merge"]].concat()).ok();
    assert!(text.text().contains("runs a region") && text.text().contains("space:"), "{}", text.text());
    std::fs::write(&file, "{}").unwrap();
    run(&[&SMALL[..], &["--design", file.to_str().unwrap()]].concat()).fails(&["mine.json", "no design"]);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (more, words) in [
        (&["--engine", "cola"][..], &["--engine", "rocksdb-universal"][..]),
        (&["--model", "v2"], &["--model"]),
        (&["--miniature", "1M"], &["--miniature"]),
        (&["--design", "unknown"], &["--design", "stepped-merge"]),
        (&["--design", "leveled", "--engine", "leveldb"], &["--design", "--engine"]),
        (&["--design", "leveled", "--level1", "4M"], &["--level1", "part of the design"]),
        (&["--engine", "rocksdb-universal", "--table-bytes", "4M"], &["--table-bytes"]),
        (&["--grow", "--warm-up", "10"], &["--warm-up"]),
        (&["--requests", "0"], &["--requests"]),
    ] {
        run(&[&SMALL[..], more].concat()).exits(2, words);
    }
    run(&["model", "simulate"]).exits(2, &["--keys"]);
}

#[test]
fn the_model_by_tables_is_near_the_simulation() {
    let shape = ["--keys", "60k", "--item-bytes", "10k", "--skew", "1.2", "--json"];
    let wa = |more: &[&str]| {
        let args = [&["model", "wa", "--engine", "leveldb"], &shape[..], more].concat();
        number(&run(&args).ok().json()["write_amplification"])
    };
    let simulated = number(
        &simulate(&["--skew", "1.2", "--warm-up", "300k", "--requests", "300k"])["write_amplification"],
    );
    let (fluid, tables) = (wa(&[]), wa(&["--table-bytes", "2M"]));
    assert_eq!(tables, wa(&["--model", "tables"]));
    assert!((tables / simulated - 1.0).abs() < 0.06, "{tables} {simulated}");
    assert!((tables / simulated - 1.0).abs() < (fluid / simulated - 1.0).abs());
    let cola = ["model", "wa", "--engine", "cola", "--keys", "1M", "--table-bytes", "2M"];
    run(&cola).exits(2, &["--table-bytes"]);
}
