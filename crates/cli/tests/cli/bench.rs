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
fn every_workload_runs_on_a_filled_store() {
    let (_dir, store) = scratch();
    fill(&store, &["--group", "50", "--value-bytes", "40"]);
    for workload in [
        "read-hit",
        "read-miss",
        "mixed-blind",
        "mixed-rmw",
        "scan",
        "ycsb-a",
        "ycsb-b",
        "ycsb-c",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
        "overwrite",
    ] {
        let ran =
            run(&["bench", workload, "--dir", &store, "--operations", "500", "--threads", "2", "--json"]);
        let report = ran.ok().json();
        assert_eq!(report["operations"], 500, "{workload}");
        for wrong in ["not_found", "found_unexpectedly", "wrong"] {
            assert_eq!(report[wrong], 0, "{workload}: {wrong}");
        }
    }
    // Two workloads have inserted items, which later ones find.
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
fn a_papers_evaluation_comes_as_tables_plots_and_json() {
    let (dir, place) = scratch();
    std::fs::create_dir(&place).unwrap();
    let out = crate::path(dir.path(), "plots");
    let index = run(&["bench", "slimdb", "--quick", "--only", "index", "--out", &out, "--json"]);
    let index = index.ok().json();
    let figures = index["figures"].as_array().unwrap();
    assert!(figures.iter().any(|figure| figure["paper"] == 2.56), "{index}");
    for figure in figures {
        if figure["source"] == "Table 3" && figure["paper"].is_number() {
            let (ours, paper) = (figure["ours"].as_f64().unwrap(), figure["paper"].as_f64().unwrap());
            assert!(ours <= paper, "more bits per key than the paper's: {figure}");
        }
    }
    for plot in ["table3.svg", "table4.svg"] {
        assert!(std::fs::read_to_string(format!("{out}/{plot}")).unwrap().starts_with("<svg"), "{plot}");
    }
    let args = [
        "bench",
        "slimdb",
        "--quick",
        "--only",
        "system",
        "--items",
        "2000",
        "--seconds",
        "50ms",
        "--out",
        &out,
    ];
    let system = run(&[&args[..], &["--dir", &place]].concat());
    let system = system.ok();
    let text = system.text();
    for source in ["Figure 11", "Table 7", "Figure 14", "Figure 12", "Figure 13"] {
        assert!(text.contains(source), "{source} in {text}");
    }
    nothing_is_left(&place);
}

/// Every source has figures among those shown, and no two figures have one name.
fn figures_are_of(shown: &serde_json::Value, sources: &[&str]) {
    let figures = shown["figures"].as_array().unwrap();
    for source in sources {
        assert!(figures.iter().any(|figure| figure["source"] == *source), "{source} in {shown}");
    }
    let mut names: Vec<String> = (figures.iter())
        .map(|figure| ["source", "title", "row", "column"].map(|part| figure[part].to_string()).concat())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), figures.len(), "figures of one name");
}

fn plots_are_there(dir: &str, plots: &[&str]) {
    for plot in plots {
        assert!(std::fs::read_to_string(format!("{dir}/{plot}")).unwrap().starts_with("<svg"), "{plot}");
    }
}

/// Stores of a measurement are removed when it ends.
fn nothing_is_left(place: &str) {
    let left: Vec<_> = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "stores are left: {left:?}");
}

#[test]
fn silts_tables_and_figures_are_redone() {
    let (dir, place) = scratch();
    std::fs::create_dir(&place).unwrap();
    let out = crate::path(dir.path(), "plots");
    let scale = ["--quick", "--items", "3000", "--seconds", "20ms", "--dir", &place, "--out", &out, "--json"];
    for (part, sources) in [
        ("stores", &["Table 6", "Table 7", "Figure 9", "Figure 10", "Figure 11"][..]),
        ("device", &["Section 6.1"]),
    ] {
        let shown = run(&[&["bench", "silt", "--only", part], &scale[..]].concat()).ok().json();
        figures_are_of(&shown, sources);
    }
    run(&["bench", "silt", "--only", "device", "--items", "1G", "--dir", &place, "--out", &out])
        .fails(&["may take", "--items", "--dir"]);
    plots_are_there(&out, &["table7.svg", "figure9.svg", "figure10.svg", "figure11.svg"]);
    nothing_is_left(&place);
}

#[test]
fn lsm_tries_evaluation_comes_as_tables_and_plots() {
    let (dir, place) = scratch();
    std::fs::create_dir(&place).unwrap();
    let out = crate::path(dir.path(), "plots");
    let scale = ["--quick", "--items", "3000", "--seconds", "20ms", "--out", &out, "--dir", &place];
    let all = run(&[&["bench", "lsm-trie", "--json"], &scale[..]].concat()).ok().json();
    assert_eq!(all["quick"], true);
    let sources = ["HTable", "PUT", "WA", "GET", "Costs", "Overwrites", "Figure 5", "Figure 8", "Table 3"];
    figures_are_of(&all, &sources);
    plots_are_there(
        &out,
        &["migration.svg", "write-amplification.svg", "figure5-uniform.svg", "figure8-zipf.svg"],
    );
    nothing_is_left(&place);
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
    let refused = run(&[&["bench", "fill", "--dir", &other], &small[..]].concat());
    refused.fails(&["memory_budget_bytes", "--preset", "siltstone:64K"]);
}

#[test]
fn a_place_that_takes_no_stores_or_plots_is_refused_before_any_work() {
    let (dir, place) = scratch();
    std::fs::create_dir(&place).unwrap();
    let file = crate::path(dir.path(), "file");
    std::fs::write(&file, "").unwrap();
    let (out, nowhere) = (crate::path(dir.path(), "plots/of/it"), crate::path(dir.path(), "nowhere"));
    for (paper, only) in
        [("slimdb", "index"), ("silt", "index"), ("lsm-trie", "tables"), ("lsm-trie", "stores")]
    {
        let bench = |dir: &str, out: &str| {
            run(&["bench", paper, "--quick", "--only", only, "--items", "3000", "--dir", dir, "--out", out])
        };
        for bad in [&nowhere, &file] {
            let refused = bench(bad, &out).fails(&[bad, "is not a directory"]);
            assert!(refused.out.is_empty() && !refused.err.contains("figure"), "{}", refused.err);
        }
        for bad in [file.clone(), format!("{file}/plots")] {
            bench(&place, &bad).fails(&[&bad]);
        }
        assert!(
            !std::fs::exists(crate::path(dir.path(), "plots")).unwrap(),
            "{paper}: an empty directory is left"
        );
    }
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn an_interrupted_evaluation_leaves_nothing_behind() {
    for (paper, only, signal) in
        [("slimdb", "system", "-INT"), ("silt", "stores", "-TERM"), ("lsm-trie", "stores", "-INT")]
    {
        let (dir, place) = scratch();
        std::fs::create_dir(&place).unwrap();
        let out = crate::path(dir.path(), "plots");
        let args = ["bench", paper, "--only", only, "--items", "3M", "--dir", &place, "--out", &out];
        let mut child = crate::command(&args).spawn().unwrap();
        // Once there is a store, with files in it, within a directory of its own.
        let has_files = || {
            let within = |dir: &std::path::Path| -> Vec<_> {
                std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
            };
            within(std::path::Path::new(&place))
                .iter()
                .flat_map(|dir| within(dir))
                .any(|dir| within(&dir).len() > 2)
        };
        while !has_files() {
            assert_eq!(child.try_wait().unwrap(), None, "{paper} has ended by itself");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{paper}: {said}");
        assert!(said.contains("interrupted; ") && said.contains(&place), "{paper}: {said}");
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "{paper}: {said}");
        assert!(!std::fs::exists(&out).unwrap(), "{paper}: an empty directory is left");
    }
}
