//! The program as a user runs it: small campaigns, interrupted and gone on with.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use std::path::Path;
use std::process::{Command, Output};

fn peers(dir: &Path, arguments: &[&str]) -> Output {
    let line =
        "--quick --items 20000 --seconds 0.2 --threads 2 --memory-cap 128M --results results --dir stores";
    Command::new(env!("CARGO_BIN_EXE_siltstone-peers"))
        .current_dir(dir)
        .args(line.split(' '))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn record(dir: &Path, run: &str) -> serde_json::Value {
    let path = dir.join("results").join(format!("{run}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_campaign_runs_keeps_its_records_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let only = "--only=siltstone-stepped-merge,redb";
    let first = peers(dir.path(), &[only, "--workloads=fill,get-hit,get-miss"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let fill = record(dir.path(), "redb/fill");
    assert_eq!((&fill["outcome"], &fill["figures"]["items"]), (&"complete".into(), &20_000.into()));
    assert_eq!(record(dir.path(), "siltstone-stepped-merge/get-miss")["figures"]["found_unexpectedly"], 0);
    assert!(!dir.path().join("stores/redb").exists(), "a store stayed");
    // More workloads: what is there is kept, and the store is filled again without a second record.
    let before = std::fs::read(dir.path().join("results/redb/fill.json")).unwrap();
    let second = peers(
        dir.path(),
        &[only, "--workloads=fill,get-hit,get-batch,scan,mixed,put-single,overwrite-zipf", "--json"],
    );
    let said = text(&second.stderr);
    assert!(second.status.success(), "{said}");
    assert!(said.contains("redb fill: kept from before") && said.contains("redb: filling a store"), "{said}");
    assert_eq!(std::fs::read(dir.path().join("results/redb/fill.json")).unwrap(), before);
    let json: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(json["records"].as_array().unwrap().len(), 14);
    for record in json["records"].as_array().unwrap() {
        let figures = &record["figures"];
        assert_eq!(record["outcome"], "complete", "{record}");
        assert_eq!([&figures["wrong"], &figures["not_found"]], [0, 0], "{record}");
        assert!(figures["operations"].as_u64().unwrap() > 0, "{record}");
        assert!(figures["cpu_us_per_operation"].as_f64().unwrap() > 0.0, "{record}");
    }
    let zipf = record(dir.path(), "siltstone-stepped-merge/overwrite-zipf");
    assert_eq!(zipf["figures"]["user_bytes_written"], 20_000 * 116);
    let batch = record(dir.path(), "siltstone-stepped-merge/get-batch");
    let calls = &batch["figures"]["by_operation"]["get"];
    assert_eq!(calls["operations"].as_u64().unwrap(), 64 * calls["calls"].as_u64().unwrap());
    assert!(batch["figures"]["raw"]["depth_32"].as_f64().unwrap() > 0.0);
    assert!(zipf["figures"]["raw"].is_null());
    // What is written can't be less than the items by more than what was overwritten in memory.
    assert!(zipf["figures"]["write_amplification"].as_f64().unwrap() > 0.5);
    assert!(dir.path().join("results/writes.svg").exists());
    let report = peers(dir.path(), &["--report"]);
    assert!(text(&report.stdout).contains("\noverwrite-zipf\n"), "{}", text(&report.stdout));
}

#[test]
fn results_of_other_parameters_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(peers(dir.path(), &["--only=redb", "--workloads=fill"]).status.success());
    let other = peers(dir.path(), &["--only=redb", "--workloads=fill", "--seed=2"]);
    assert!(!other.status.success());
    assert!(text(&other.stderr).contains("other parameters"), "{}", text(&other.stderr));
}

#[test]
fn a_kept_store_serves_a_campaign_with_less_memory_to_read_with() {
    let dir = tempfile::tempdir().unwrap();
    let fill = ["--only=redb", "--workloads=fill", "--keep-stores", "--fill-memory-cap=128M"];
    assert!(peers(dir.path(), &fill).status.success());
    let read = ["--only=redb", "--workloads=get-hit", "--keep-stores", "--fill-memory-cap=128M"];
    let less = peers(dir.path(), &[&read[..], &["--memory-cap=96M", "--results=less"]].concat());
    let said = text(&less.stderr);
    assert!(less.status.success() && !said.contains("filling a store"), "{said}");
    assert!(text(&less.stdout).contains("filled with a memory cap of"), "{}", text(&less.stdout));
    let other = peers(dir.path(), &[&read[..], &["--batch=50", "--results=other"]].concat());
    assert!(text(&other.stderr).contains("redb: filling a store"), "{}", text(&other.stderr));
}

#[test]
fn a_missing_library_is_named_and_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_siltstone-peers"))
        .current_dir(dir.path())
        .env("SILTSTONE_PEERS_LEVELDB", "/nowhere/libleveldb.so")
        .args("--quick --items 5000 --only leveldb --workloads fill,get-hit".split(' '))
        .output()
        .unwrap();
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("leveldb fill: skipped, not found"), "{said}");
    assert!(printed.contains("leveldb get-hit: skipped:") && printed.contains("libleveldb-dev"), "{printed}");
    assert!(!dir.path().join("peers-results/leveldb/fill.json").exists());
}

#[test]
fn a_run_that_dies_is_a_record() {
    let dir = tempfile::tempdir().unwrap();
    // A file where the store's directory should be able to hold a table.
    assert!(peers(dir.path(), &["--only=redb", "--workloads=fill", "--keep-stores"]).status.success());
    std::fs::write(dir.path().join("stores/redb/store/items.redb"), b"this was a database").unwrap();
    let output = peers(dir.path(), &["--only=redb", "--workloads=fill,get-hit", "--keep-stores"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let failed = record(dir.path(), "redb/get-hit");
    assert_eq!(failed["outcome"], "failed");
    assert!(!failed["why"].as_str().unwrap().is_empty());
    assert!(text(&output.stdout).contains("redb get-hit: FAILED"), "{}", text(&output.stdout));
}

#[test]
fn trials_answer_with_figures_of_every_contestant() {
    let dir = tempfile::tempdir().unwrap();
    let trial = |line: &str| {
        let ran = Command::new(env!("CARGO_BIN_EXE_siltstone-peers"))
            .current_dir(dir.path())
            .args(line.split(' '))
            .args(["--only=siltstone*", "--json", "--dir=trial", "--memory-cap=128M"])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{line}: {}", text(&ran.stderr));
        serde_json::from_slice::<serde_json::Value>(&ran.stdout).unwrap()
    };
    let bulk = trial("bulk --items 30000 --value-bytes 40");
    assert_eq!(bulk.as_object().unwrap().len(), 3);
    for (name, figures) in bulk.as_object().unwrap() {
        assert!(figures["items/s"].as_f64().unwrap() > 0.0, "{name}: {figures}");
        assert!((0.5..40.0).contains(&figures["space per byte"].as_f64().unwrap()), "{name}: {figures}");
    }
    let merges = trial("merges --increments 5000 --counters 300 --threads 1,3");
    assert_eq!(merges.as_object().unwrap().len(), 4);
    for (name, figures) in merges.as_object().unwrap() {
        assert!(figures["increments/s"].as_f64().unwrap() > 0.0, "{name}: {figures}");
    }
    let stores = trial("stores --stores 20 --items 200 --gets 2000 --shared-memory 32M");
    assert_eq!(stores.as_object().unwrap().len(), 2);
    for (name, figures) in stores.as_object().unwrap() {
        assert!((1.0..40.0).contains(&figures["threads"].as_f64().unwrap()), "{name}: {figures}");
    }
    assert!(!dir.path().join("trial").exists(), "files stayed");
}

#[test]
fn figures_are_followed_from_number_to_number() {
    let dir = tempfile::tempdir().unwrap();
    let scale = |more: &[&str]| {
        let line = "scale --items 8K,4K --only siltstone-siltstone,redb --workloads bulk,fill,get-hit,reopen,overwrite,recover \
                    --seconds 0.3 --overwrites 0.5 --memory-cap 128M --results curves --json";
        let ran = Command::new(env!("CARGO_BIN_EXE_siltstone-peers"))
            .current_dir(dir.path())
            .args(line.split_whitespace())
            .args(more)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        (serde_json::from_slice::<serde_json::Value>(&ran.stdout).unwrap(), text(&ran.stderr))
    };
    let (all, _) = scale(&[]);
    for items in ["4000", "8000"] {
        let ours = &all["engines"]["siltstone-siltstone"][items];
        for figure in ["built/s", "inserts/s", "hits/s", "opened in", "recovered in", "overwritten per byte"]
        {
            assert!(ours[figure].as_f64().unwrap() > 0.0, "{items}, {figure}: {ours}");
        }
        assert!((0.5..20.0).contains(&ours["written per byte"].as_f64().unwrap()), "{ours}");
        assert!(all["engines"]["redb"][items]["built/s"].is_null(), "redb has no way to build a store");
    }
    let recovered: serde_json::Value = serde_json::from_slice(
        &std::fs::read(dir.path().join("curves/8000/siltstone-siltstone/recover.json")).unwrap(),
    )
    .unwrap();
    assert!(recovered["figures"]["written_before_kill"].as_u64().unwrap() > 0);
    assert_eq!(
        recovered["figures"]["not_found"].as_u64().unwrap() + recovered["figures"]["wrong"].as_u64().unwrap(),
        0
    );
    assert!(dir.path().join("curves/hits.svg").exists() && dir.path().join("curves/curves.txt").exists());
    let (again, said) = scale(&[]);
    assert_eq!(again, all);
    assert!(said.contains("recover: kept from before"), "{said}");
    assert!(!dir.path().join("peers-stores/siltstone-siltstone").exists(), "a store stayed");
}
