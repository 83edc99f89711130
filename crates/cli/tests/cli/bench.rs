//! Measured workloads on small stores.

use crate::{run, scratch};

/// The fields that `bench --json` promises.
const FIELDS: &[&str] = &[
    "operations",
    "seconds",
    "operations_per_second",
    "user_bytes_written",
    "device_bytes_written",
    "write_amplification",
    "write_amplification_by_level",
    "device_reads",
    "device_reads_per_get",
    "false_positives",
    "filter_bits_per_item",
    "index_bits_per_item",
    "items",
    "space_bytes",
    "space_amplification",
    "rss_peak_bytes",
    "preset",
    "levels",
    "drain_seconds",
    "put_stalls_over_50ms",
];
const NESTED_FIELDS: &[(&str, &[&str])] = &[
    ("latency_us", &["p50", "p99", "p999", "max"]),
    ("memory_bytes", &["memtable", "filter", "index", "cache", "total"]),
    ("stalls", &["count", "max_ms"]),
];

fn fill(dir: &str, more: &[&str]) -> serde_json::Value {
    run(&[&["bench", "fill", "--dir", dir, "--items", "5000", "--json"], more].concat()).ok().json()
}

#[test]
fn fill_then_read_reports_every_promised_field() {
    let (_dir, store) = scratch();
    let filled = fill(&store, &["--group", "128", "--threads", "2", "--batch", "50"]);
    let read =
        run(&["bench", "read-hit", "--dir", &store, "--operations", "2000", "--items", "5k", "--json"]);
    let read = read.ok().json();
    for report in [&filled, &read] {
        for field in FIELDS {
            assert!(!report[field].is_null(), "{field} in {report}");
        }
        for (object, fields) in NESTED_FIELDS {
            for field in *fields {
                assert!(report[object][field].is_number(), "{object}.{field} in {report}");
            }
        }
        assert_eq!(report["items"], 5000);
        assert_eq!(report["preset"], "siltstone");
    }
    assert_eq!(filled["operations"], 5000);
    assert_eq!(filled["calls"], 100);
    assert!(filled["user_bytes_written"].as_u64() >= Some(5000 * 116));
    assert!(filled["write_amplification"].as_f64() > Some(1.9), "{filled}");
    assert!(filled["write_amplification_by_level"][0].as_f64() > Some(0.9), "{filled}");
    assert_eq!(read["operations"], 2000);
    assert_eq!(read["gets"], 2000);
    assert_eq!(read["device_bytes_written"], 0);
}

#[test]
fn a_store_that_may_be_redesigned_is_opened_for_writing_whatever_is_done() {
    let (_dir, store) = scratch();
    fill(&store, &[]);
    let read = ["bench", "read-hit", "--dir", &store, "--operations", "500"];
    let _writer = siltstone::Db::open(&store, siltstone::Options::default()).unwrap();
    let locked = run(&[&read[..], &["--auto-design", "propose"]].concat());
    assert!(locked.code != Some(0) && locked.err.contains("is locked by"), "{}", locked.err);
    run(&read).ok();
}

#[test]
fn every_workload_runs_on_a_filled_store() {
    let (_dir, store) = scratch();
    fill(&store, &["--group", "50", "--value-bytes", "40"]);
    for workload in [
        "read-hit",
        "read-miss",
        "mixed-blind",
        "mixed-rmw",
        "merge",
        "merge-rmw",
        "scan",
        "ycsb-a",
        "ycsb-b",
        "ycsb-c",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
        "overwrite",
        "get-with",
        "contains",
        "insert-if-absent",
        "compare-and-set",
        "get-or-insert",
        "transaction",
        "delete",
        "scan-reverse",
        "scan-keys",
    ] {
        let ran =
            run(&["bench", workload, "--dir", &store, "--operations", "500", "--threads", "2", "--json"]);
        let report = ran.ok().json();
        assert_eq!(report["operations"], 500, "{workload}");
        for wrong in ["not_found", "found_unexpectedly", "wrong"] {
            assert_eq!(report[wrong], 0, "{workload}: {wrong}");
        }
    }
    for workload in ["contains", "insert-if-absent", "transaction", "delete", "read-hit"] {
        let ran =
            run(&["bench", workload, "--dir", &store, "--operations", "500", "--batch", "20", "--json"]);
        let report = ran.ok().json();
        assert_eq!(report["operations"], 500, "{workload} in batches");
        for wrong in ["not_found", "found_unexpectedly", "wrong"] {
            assert_eq!(report[wrong], 0, "{workload} in batches: {wrong}");
        }
    }
    // Three workloads have inserted items, which later ones find.
    let report = run(&["bench", "read-hit", "--dir", &store, "--operations", "500", "--json"]).ok().json();
    assert!(report["items"].as_u64() > Some(5000));
    let human = run(&["bench", "mixed-rmw", "--dir", &store, "--operations", "500", "--skew", "0.99"]).ok();
    assert!(human.text().contains("write amplification") && human.text().contains("p99.9"));
}

#[test]
fn batched_and_timed_reads_work() {
    let (_dir, store) = scratch();
    fill(&store, &["--preset", "leveled", "--key-bytes", "8"]);
    let args = [
        "bench",
        "read-hit",
        "--dir",
        &store,
        "--batch",
        "64",
        "--seconds",
        "200ms",
        "--skew",
        "0.99",
        "--json",
    ];
    let report = run(&args).ok().json();
    assert_eq!(report["preset"], "leveled");
    assert_eq!(report["calls"].as_u64().unwrap() * 64, report["operations"].as_u64().unwrap());
    let seconds = report["seconds"].as_f64().unwrap();
    assert!((0.2..5.0).contains(&seconds), "{seconds}");
    let missing =
        run(&["bench", "read-miss", "--dir", &store, "--batch", "64", "--operations", "640", "--json"]);
    assert_eq!(missing.ok().json()["found_unexpectedly"], 0);
}

#[test]
fn reads_of_other_items_are_refused() {
    let (_dir, store) = scratch();
    fill(&store, &[]);
    let read =
        |more: &[&str]| run(&[&["bench", "read-hit", "--dir", &store, "--operations", "10"], more].concat());
    read(&["--items", "5001"]).fails(&["--items 5000"]);
    read(&["--seed", "2"]).fails(&["--seed 1"]);
    read(&["--key-bytes", "20"]).fails(&["--key-bytes 16"]);
    read(&["--preset", "leveled"]).fails(&["siltstone"]);
    read(&["--items", "5000", "--seed", "1", "--key-bytes", "16", "--preset", "siltstone"]).ok();
    run(&["bench", "scan", "--dir", &store]).fails(&["--group"]);
}

#[test]
fn a_read_workload_leaves_the_directory_as_it_is() {
    let (_dir, store) = scratch();
    fill(&store, &["--group", "100"]);
    let state = || {
        let mut files: Vec<_> = std::fs::read_dir(&store)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = state();
    for workload in ["read-hit", "read-miss", "scan", "ycsb-c"] {
        run(&["bench", workload, "--dir", &store, "--operations", "100"]).ok();
        assert_eq!(state(), before, "{workload} has written");
    }
}

#[test]
fn fill_replaces_only_its_own_stores() {
    let (_dir, store) = scratch();
    fill(&store, &[]);
    run(&["bench", "fill", "--dir", &store, "--items", "10"]).fails(&["not empty", "--overwrite-dir"]);
    let again = run(&["bench", "fill", "--dir", &store, "--items", "10", "--overwrite-dir", "--json"]).ok();
    assert_eq!(again.json()["items"], 10);
    let (_other_dir, other) = scratch();
    run(&["put", &other, "precious", "data"]).ok();
    run(&["bench", "fill", "--dir", &other, "--items", "10", "--overwrite-dir"]).fails(&["not overwritten"]);
    run(&["bench", "read-hit", "--dir", &other]).fails(&["fill"]);
    assert_eq!(run(&["get", &other, "precious"]).ok().text(), "data\n");
}

#[test]
fn direct_reads_and_many_keys_at_once_find_the_same() {
    let (_dir, store) = scratch();
    fill(&store, &["--group", "64", "--direct-reads"]);
    let more = ["--batch", "64", "--operations", "6400", "--direct-reads", "--drop-page-cache", "--json"];
    let read = run(&[&["bench", "read-hit", "--dir", &store], &more[..]].concat()).ok().json();
    assert_eq!(read["calls"], 100);
    assert_eq!(read["wrong"], 0);
}

#[test]
fn probe_measures_and_leaves_nothing_behind() {
    let (dir, _) = scratch();
    let place = dir.path().to_str().unwrap();
    let probed = run(&["probe", place, "--bytes", "2M", "--seconds", "20ms", "--json"]).ok().json();
    let rates = probed["random_reads"].as_array().unwrap();
    assert!(rates.iter().all(|shape| shape["reads_per_second"].as_f64() > Some(0.0)), "{probed}");
    assert!(probed["sync_us"]["p50"].as_f64() > Some(0.0));
    assert!(probed["processor_time"].as_f64() > Some(0.0), "{probed}");
    // What it says is what advice reckons with.
    let file = dir.path().join("device.json");
    let cost = |device: &serde_json::Value| {
        std::fs::write(&file, device.to_string()).unwrap();
        let advice = ["advise", "--items", "100K", "--memory", "16M", "--json", "--device"];
        let advised = run(&[&advice[..], &[file.to_str().unwrap()]].concat()).ok().json();
        advised["presets"]["lean"]["cost"].as_f64().unwrap()
    };
    let mut slower = probed.clone();
    slower["processor_time"] = (probed["processor_time"].as_f64().unwrap() * 2.0).into();
    assert!(cost(&slower) > 1.1 * cost(&probed), "{probed}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    run(&["probe", place, "--bytes", "1000T"]).fails(&["too little", "--bytes"]);
    run(&["probe", &format!("{place}/none")]).fails(&["not a directory"]);
}

#[test]
fn a_small_budget_is_for_what_is_measured() {
    let (_dir, store) = scratch();
    let small = ["--memory-budget", "1M"];
    fill(&store, &[&["--preset", "lsm-trie:64K"], &small[..]].concat());
    let read = ["bench", "read-hit", "--dir", &store, "--operations", "500", "--json"];
    assert_eq!(run(&[&read[..], &small[..]].concat()).ok().json()["not_found"], 0);
    let (_dir, other) = scratch();
    let refused = run(&[&["bench", "fill", "--dir", &other, "--preset", "siltstone"], &small[..]].concat());
    refused.fails(&["memory_budget_bytes", "--preset", "siltstone:64K"]);
    // Without a preset the default one is made as small as the budget.
    assert_eq!(fill(&other, &small)["preset"], "siltstone:128K");
}

#[test]
fn many_stores_share_memory_and_threads() {
    let (_dir, stores) = scratch();
    let few = ["--stores", "20", "--items", "2000", "--memory-budget", "16M", "--json"];
    let report = run(&[&["bench", "stores", "--dir", &stores], &few[..]].concat()).ok().json();
    let phases = report["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(names, ["create", "fill", "read", "close", "open again", "read again"]);
    // The program's own, and two that compact, one that flushes, one that syncs.
    let most = phases.iter().map(|phase| phase["threads"].as_u64().unwrap()).max();
    assert!(most <= Some(6), "{report}");
    assert_eq!(phases[1]["operations"], 40_000);
    assert!(report["write_amplification"].as_f64() > Some(1.0), "{report}");
    let text = ["bench", "stores", "--dir", &stores, "--stores", "2"];
    run(&text).fails(&["new or empty directory"]);
}

#[test]
fn a_fill_in_bulk_is_read_like_any_other() {
    let (_dir, store) = scratch();
    let filled = fill(&store, &["--group", "64", "--bulk"]);
    for field in FIELDS {
        assert!(!filled[field].is_null(), "{field} in {filled}");
    }
    assert_eq!((filled["operations"].as_u64(), filled["items"].as_u64()), (Some(5000), Some(5000)));
    let read = run(&["bench", "read-hit", "--dir", &store, "--operations", "2000", "--json"]).ok().json();
    assert_eq!(read["operations"].as_u64(), Some(2000));
    run(&["bench", "read-hit", "--dir", &store, "--bulk"]).exits(2, &["options of fill"]);
}
