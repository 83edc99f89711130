//! `siltstone advise`, and designs from its JSON in `bench --design`.

use crate::{path, run, run_with_input, scratch};
use serde_json::Value;
use siltstone::Design;
use siltstone_model::advise::{Limit, Request};
use siltstone_model::price::{Mix, Workload};

const ARGS: [&str; 9] =
    ["advise", "--items", "1M", "--key-bytes", "16", "--value-bytes", "100", "--memory", "16M"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ARGS[..], more].concat()
}

#[test]
fn advice_is_json_with_the_fields_that_scripts_read() {
    let json = run(&with(&["--group", "64", "--reads", "0.8", "--hits", "0.5", "--json"])).ok().json();
    for field in ["design", "name", "why", "predicted"] {
        assert!(!json["best"][field].is_null(), "{field}");
    }
    for field in [
        "write_amplification",
        "reads_per_hit",
        "reads_per_miss",
        "space_amplification",
        "cpu_us_per_get",
        "cost",
    ] {
        assert!(json["best"]["predicted"][field].is_f64(), "{field}");
        assert!(json["presets"]["lean"][field].is_f64(), "{field}");
    }
    assert!(json["seconds"].is_f64() && !json["front"].as_array().unwrap().is_empty());
    let design: Design = serde_json::from_value(json["best"]["design"].clone()).unwrap();
    design.check().unwrap();
    // One preset alone has the same price as among all.
    let one = run(&with(&["--group", "64", "--reads", "0.8", "--hits", "0.5", "--preset", "lean", "--json"]))
        .ok()
        .json();
    assert_eq!(one["best"]["name"], "lean");
    assert_eq!(one["best"]["predicted"], json["presets"]["lean"]);
}

#[test]
fn advice_is_said_in_words_and_limits_are_kept() {
    let page = run(&with(&["--space-at-most", "1.5", "--overwrites", "0.5"])).ok();
    for words in ["write buffer:", "An operation takes", "None of these is beaten", "The presets"] {
        assert!(page.text().contains(words), "{words}: {}", page.text());
    }
    // What was asked for by its name is priced, and says what it breaks.
    let broken = run(&with(&["--preset", "lean", "--space-at-most", "0.5", "--uncertain", "1"])).ok();
    let words = "It breaks the limit on space at the peak: ";
    assert!(broken.text().contains(words) && !broken.text().contains("no design"), "{}", broken.text());
    run(&with(&["--space-at-most", "0.3"])).exits(1, &["--space-at-most", "allow more"]);
    run(&with(&["--reads", "0.9", "--scans", "0.2"])).exits(2, &["--reads"]);
    // One preset is no front, and numbers are rounded.
    let sizes = r#"{"items": 1e6, "key_bytes": 16.000044530536815, "skew": 0.98765, "overwrites": 1e6}"#;
    let args = ["advise", "--memory", "64M", "--workload", "-", "--preset", "siltstone:3000001"];
    let one = run_with_input(&args, sizes.as_bytes()).ok();
    for words in [
        "items of 16 + 100 bytes",
        "skew 0.99",
        "memtable of 2.9 MiB",
        "\n1 design priced in",
        "The preset\n",
    ] {
        assert!(one.text().contains(words), "{words}: {}", one.text());
    }
    assert!(!one.text().contains("None of these"), "{}", one.text());
    run(&with(&["--scans", "0.2"])).exits(2, &["--scans", "--group N"]);
    run_with_input(&["advise", "--memory", "8M", "--workload", "-"], br#"{"mix": {"scans": 1}}"#)
        .exits(2, &["--scans", "--group N"]);
    run(&with(&["--hits", "2"])).exits(2, &["from 0 to 1"]);
}

#[test]
fn what_is_wrong_with_a_flag_is_a_usage_error_that_says_what_to_do() {
    run(&["advise", "--items", "1M", "--memory", "1K"]).exits(2, &["--memory", "at least 1M"]);
    for flag in ["--hit-us-at-most", "--space-at-most", "--scan-reads-at-most"] {
        run(&with(&[flag, "0"])).exits(2, &[flag, "above 0"]);
    }
    run(&with(&["--years-at-least", "0", "--puts-per-second", "1"])).exits(2, &["--years-at-least"]);
    let many = run(&["advise", "--items", "1e12", "--memory", "64M"]).exits(2, &["--items", "give fewer"]);
    assert!(!many.err.contains("write buffer,") && !many.err.contains("or a larger"), "{}", many.err);
    run(&with(&["--keyspace", "users"])).exits(2, &["--keyspace", "--store"]);
    let both = ["advise", "--memory", "8M", "--store", "s", "--items", "3"];
    run(&both).exits(2, &["--store", "--json | siltstone advise --workload - "]);
}

#[test]
fn sizes_growth_and_limits_on_reads_are_told_by_flags() {
    let args = ["advise", "--items", "200k", "--memory", "16M", "--value-bytes", "100:0.9,20K:0.1"];
    let mixed = [&args[..], &["--items-at-end", "2M", "--json"]].concat();
    let json = run(&mixed).ok().json();
    let predicted = &json["best"]["predicted"];
    // One in ten takes a read of its own on top.
    assert!(predicted["reads_per_hit"].as_f64().unwrap() > 0.1, "{predicted}");
    assert_eq!(predicted["live_items"], 2e6);
    assert!(predicted["latency_us"]["hit"].is_f64());
    let mean =
        run(&["advise", "--items", "200k", "--memory", "16M", "--value-bytes", "2138", "--json"]).ok().json();
    assert_eq!(mean["best"]["predicted"]["live_items"], 2e5);
    let page = run(&[&args[..], &["--items-at-end", "2M"]].concat()).ok();
    assert!(page.text().starts_with("200,000 to 2,000,000 items of 16 + 2138 bytes"), "{}", page.text());
    for flag in [
        "--miss-reads-at-most",
        "--scan-reads-at-most",
        "--hit-us-at-most",
        "--miss-us-at-most",
        "--scan-us-at-most",
    ] {
        run(&with(&[flag, "0.000000000000001"])).exits(1, &[flag, "allow more"]);
    }
    run(&with(&["--time-to-live", "1h", "--puts-per-second", "100"])).ok();
    run(&with(&["--time-to-live", "1h"])).exits(2, &["--puts-per-second"]);
    run(&with(&["--items-at-end", "10"])).exits(2, &["--items-at-end"]);
    run(&["advise", "--items", "1M", "--memory", "16M", "--value-bytes", "100:x"])
        .exits(2, &["100:0.9,20K:0.1"]);
}

#[test]
fn a_file_that_is_no_device_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("device.json");
    let with_device = || run(&with(&["--preset", "lean:1M", "--json", "--device", file.to_str().unwrap()]));
    for no_device in ["{}", r#"{"threads": "x"}"#, r#"{"best": {}, "workload": {}}"#, r#"{"sync_us": "x"}"#] {
        std::fs::write(&file, no_device).unwrap();
        with_device().exits(1, &["device.json", "siltstone probe DIR --json > FILE"]);
    }
    std::fs::write(&file, r#"{"random_reads_per_second": 100, "bytes": 3}"#).unwrap();
    let slow = with_device().ok().json()["best"]["predicted"]["cost"].as_f64().unwrap();
    assert!(slow > 1000.0, "{slow}");
}

/// The object that a page carries.
pub fn data_of(page: &str) -> Value {
    let start = page.find("const data = ").unwrap() + "const data = ".len();
    let end = start + page[start..].find(";\n").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

#[test]
fn the_page_agrees_with_the_model_at_every_point() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("advice.html");
    run(&with(&[
        "--reads",
        "0.6",
        "--hits",
        "0.7",
        "--space-at-most",
        "1.07",
        "--html",
        file.to_str().unwrap(),
    ]))
    .ok();
    let page = std::fs::read_to_string(&file).unwrap();
    // Nothing is fetched from anywhere.
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="), "{page}");
    let data = data_of(&page);
    let mix = Mix { hits: 0.42, misses: 0.18, scans: 0.0, puts: 0.4 };
    let workload = Workload { items: 1e6, mix, ..Workload::default() };
    let memory: Vec<u64> = serde_json::from_value(data["memory_bytes"].clone()).unwrap();
    assert_eq!(memory[data["asked"].as_u64().unwrap() as usize], 16 << 20);
    let (mut checked, mut broken) = (0, 0);
    for priced in data["designs"].as_array().unwrap() {
        let design: Design = serde_json::from_value(priced["design"].clone()).unwrap();
        for (bytes, shown) in memory.iter().zip(priced["prices"].as_array().unwrap()) {
            let request = Request { space_at_most: Some(1.07), ..Request::new(workload, *bytes) };
            let costs = request.pricer().unwrap().price(&design, *bytes).unwrap();
            let breaks = request.broken(&design, &costs);
            assert_eq!(shown["breaks"]["limit"], serde_json::to_value(breaks).unwrap());
            broken += usize::from(breaks == Some(Limit::Space));
            let close = |shown: &Value, ours: f64| {
                assert!((shown.as_f64().unwrap() - ours).abs() <= 1e-9 * ours.abs(), "{shown} {ours}");
            };
            close(&shown["operation_cost"]["hit"], costs.operation_cost.hit);
            close(&shown["operation_cost"]["put"], costs.operation_cost.put);
            close(&shown["write_amplification"], costs.write_amplification);
            close(&shown["reads_per_miss"], costs.reads_per_miss);
            close(&shown["filter"], costs.memory_bytes.filter);
            // What the page's script adds up for the mix is the model's cost.
            let each =
                ["hit", "miss", "scan", "put"].map(|kind| shown["operation_cost"][kind].as_f64().unwrap());
            let shares = ["hits", "misses", "scans", "puts"].map(|kind| data["mix"][kind].as_f64().unwrap());
            let cost: f64 = each.iter().zip(shares).map(|(cost, share)| cost * share).sum();
            assert!((cost / costs.cost - 1.0).abs() < 1e-9, "{cost} {}", costs.cost);
            checked += 1;
        }
    }
    assert!(checked >= 13 * 7 && broken >= 13, "{checked} {broken}");
}

#[test]
fn an_advised_design_can_be_run_beside_its_prediction() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("advice.json");
    let advice = run(&["advise", "--items", "20k", "--memory", "8M", "--json"]).ok();
    std::fs::write(&file, advice.text()).unwrap();
    let store = dir.path().join("store");
    let (file, store) = (file.to_str().unwrap(), store.to_str().unwrap());
    let fill = ["bench", "fill", "--dir", store, "--items", "20k", "--design", file, "--json"];
    let filled = run(&fill).ok().json();
    let predicted = &filled["predicted"];
    for field in
        ["write_amplification", "space_amplification", "cpu_us_per_operation", "filter_bits_per_item"]
    {
        assert!(predicted[field].is_number() && filled[field].is_number(), "{field}: {filled}");
    }
    assert!(predicted["memory_bytes"]["filter"].is_number());
    let off =
        predicted["write_amplification"].as_f64().unwrap() / filled["write_amplification"].as_f64().unwrap();
    assert!((0.8..1.25).contains(&off), "{filled}");
    // The same file describes the store, and another design does not.
    let read = ["bench", "read-hit", "--dir", store, "--operations", "100", "--json"];
    let json = run(&[&read[..], &["--design", file]].concat()).ok().json();
    assert!(json["predicted"]["device_reads_per_get"].is_number());
    run(&[&read[..], &["--preset", "lsm-trie"]].concat()).exits(1, &["was filled with the design"]);
    run(&[&read[..], &["--design", "/nowhere.json"]].concat()).exits(1, &["/nowhere.json"]);
    let keyspaces = run(&["keyspaces", store, "--json"]).ok().json();
    let design =
        &keyspaces["keyspaces"].as_array().unwrap().iter().find(|k| k["name"] == "bench").unwrap()["design"];
    let advised: Value = serde_json::from_str(advice.text()).unwrap();
    assert_eq!(design, &advised["best"]["design"]);
}

/// The workload that advice is for.
fn workload_of(args: &[&str], input: &str) -> Value {
    run_with_input(args, input.as_bytes()).ok().json()["workload"].clone()
}

#[test]
fn a_workload_comes_from_a_file_and_flags_stand_over_it() {
    let advise = |more: &[&'static str], input: &str| {
        workload_of(&[&["advise", "--memory", "8M", "--preset", "lean:1M", "--json"], more].concat(), input)
    };
    // What is not in the file is as if nothing was said.
    let parts =
        r#"{"items": 20000, "mix": {"hits": 3, "misses": 1, "scans": 0, "puts": 4}, "read_skew": 0.5}"#;
    let read = advise(&["--workload", "-"], parts);
    let known: Workload = serde_json::from_str(parts).unwrap();
    assert_eq!(read, serde_json::to_value(known).unwrap());
    // Of a mix that is given, what is missing is 0; without one it is the usual one.
    let given = advise(&["--workload", "-"], r#"{"items": 20000, "mix": {"hits": 0.5, "puts": 0.3}}"#);
    assert_eq!(given["mix"], serde_json::json!({"hits": 0.5, "misses": 0.0, "scans": 0.0, "puts": 0.3}));
    let usual = advise(&["--workload", "-"], r#"{"items": 20000}"#);
    assert_eq!(usual["mix"], serde_json::to_value(Mix::default()).unwrap());
    run_with_input(&["advise", "--memory", "8M", "--workload", "-"], br#"{"mix": {}}"#)
        .exits(1, &["mix", "one of them is above 0"]);
    // All that can be said is said by flags, and comes back from what was printed.
    let flags = [
        "--items=30K",
        "--key-bytes=24",
        "--value-bytes=50:0.5,70:0.5",
        "--items-at-end=300K",
        "--group=8",
        "--prefix-bytes=10",
        "--reads=0.5",
        "--hits=0.8",
        "--scans=0.1",
        "--overwrites=0.5",
        "--deletes=0.1",
        "--skew=0.9",
        "--read-skew=0.3",
        "--batch=7",
        "--expires-after=1M",
        "--compressed-ratio=1.5",
        "--puts-per-second=100",
    ];
    let said = advise(&flags, "");
    let default = serde_json::to_value(Workload::default()).unwrap();
    for (part, value) in said.as_object().unwrap() {
        assert_ne!(*value, default[part], "no flag says {part}");
    }
    assert_eq!(advise(&["--workload", "-"], &said.to_string()), said);
    let advice = format!(r#"{{"best": {{}}, "workload": {said}}}"#);
    assert_eq!(advise(&["--workload", "-"], &advice), said);
    // A flag changes its part and no other; shares that belong together are kept.
    for (flag, part, value) in [
        ("--items=40K", "items", 40_000.0),
        ("--read-skew=0", "read_skew", 0.0),
        ("--compressed-ratio=3", "compressed_ratio", 3.0),
        ("--prefix-bytes=9", "prefix_bytes", 9.0),
    ] {
        let mut expected = said.clone();
        expected[part] = value.into();
        assert_eq!(advise(&["--workload", "-", flag], &said.to_string()), expected, "{flag}");
    }
    let changed = advise(&["--workload", "-", "--hits=0.5", "--deletes=0.2"], &said.to_string());
    let close = |value: &Value, expected: f64| (value.as_f64().unwrap() / expected - 1.0).abs() < 1e-9;
    assert!(close(&changed["mix"]["hits"], 0.25) && close(&changed["mix"]["misses"], 0.25), "{changed}");
    assert!(close(&changed["mix"]["scans"], 0.1) && close(&changed["mix"]["puts"], 0.4), "{changed}");
    // Half of the writes overwrite, a fifth delete, so three tenths are new.
    assert!(close(&changed["overwrites"], 50_000.0) && close(&changed["deletes"], 20_000.0), "{changed}");
    run_with_input(&["advise", "--memory", "8M", "--workload", "-"], br#"{"itms": 3}"#)
        .exits(1, &["is no workload", "itms"]);
    run(&["advise", "--memory", "8M", "--workload", "/nowhere.json"]).exits(1, &["/nowhere.json"]);
    run(&with(&["--workload", "-", "--store", "s"])).exits(2, &["--store"]);
    run(&with(&["--years-at-least", "3"])).exits(2, &["--puts-per-second"]);
}

#[test]
fn the_memory_is_enough_to_be_told_and_what_is_assumed_is_said() {
    let advise = |more: &[&'static str], input: &str| {
        let args = [&["advise", "--memory", "8M", "--preset", "lean:256K", "--json"], more].concat();
        run_with_input(&args, input.as_bytes()).ok().json()
    };
    let assumed = |json: &Value| {
        let said = json["best"]["why"][0].as_str().unwrap().contains("--items");
        assert_eq!(json["front"][0]["why"], json["best"]["why"]);
        said.then(|| serde_json::from_value::<Workload>(json["workload"].clone()).unwrap())
    };
    let auto = Workload::of_memory(8 << 20);
    assert_eq!(assumed(&advise(&[], "")), Some(auto));
    assert_eq!(assumed(&advise(&["--workload", "-"], "{}")), Some(auto));
    let skewed = Workload { read_skew: Some(0.5), ..auto };
    assert_eq!(assumed(&advise(&["--workload", "-"], r#"{"read_skew": 0.5}"#)), Some(skewed));
    // Of other sizes there are as many bytes.
    let larger = Workload { value_bytes: 1008.0, items: auto.items * 100.0 / 1024.0, ..auto };
    assert_eq!(assumed(&advise(&["--value-bytes", "1008"], "")), Some(larger));
    assert_eq!(assumed(&advise(&["--workload", "-"], r#"{"value_bytes": 1008}"#)), Some(larger));
    // What was said is not assumed.
    assert_eq!(assumed(&advise(&["--items", "20K"], "")), None);
    assert_eq!(assumed(&advise(&["--workload", "-"], r#"{"items": 20000}"#)), None);
    let page = run(&["advise", "--memory", "8M", "--preset", "lean:256K"]).ok();
    assert!(page.text().contains("1,342,177 of 16 + 84 bytes are assumed"), "{}", page.text());
}

#[test]
fn what_is_wrong_with_a_workload_is_a_flag_that_there_is() {
    let help = run(&["advise", "--help"]).ok();
    // Keys of the usual prefix's length have a shorter one.
    let short = ["advise", "--items", "20K", "--memory", "8M", "--key-bytes", "8", "--group", "4"];
    assert_eq!(run(&[&short[..], &["--json"]].concat()).ok().json()["workload"]["prefix_bytes"], 4.0);
    run(&[&short[..], &["--prefix-bytes", "8"]].concat()).exits(2, &["--prefix-bytes", "shorter than keys"]);
    for wrong in [
        r#"{"items": 0}"#,
        r#"{"key_bytes": 0}"#,
        r#"{"value_bytes": -1}"#,
        r#"{"group_items": 0}"#,
        r#"{"group_items": 4, "prefix_bytes": 16}"#,
        r#"{"batch_items": 0}"#,
        r#"{"compressed_ratio": 0}"#,
        r#"{"overwrites": -1}"#,
        r#"{"deletes": -1}"#,
        r#"{"expires_after_puts": 0}"#,
        r#"{"puts_per_second": 0}"#,
        r#"{"skew": -1, "overwrites": 10}"#,
    ] {
        let refused = run_with_input(&["advise", "--memory", "8M", "--workload", "-"], wrong.as_bytes());
        let refused = refused.exits(2, &["error: --"]);
        let flag = refused.err.split([':', ' ']).find(|word| word.starts_with("--")).unwrap();
        assert!(help.text().contains(&format!("{flag} <")), "{wrong}: {}", refused.err);
    }
}

#[test]
fn a_store_that_counted_no_reads_is_advised_with_a_word_on_that() {
    let (_dir, store) = scratch();
    run(&["put", &store, "k", "v"]).ok();
    run(&["get", &store, "k"]).ok();
    let ask = ["advise", "--store", &store, "--memory", "8M", "--json"];
    let advice = run(&ask).ok();
    let first = |json: &Value| json["best"]["why"][0].as_str().unwrap().to_owned();
    let said = first(&advice.json());
    assert!(said.contains("has counted no reads") && said.contains("--workload - --reads"), "{said}");
    let page = run(&ask[..5]).ok();
    assert!(page.text().contains(&said), "{}", page.text());
    // What it says to do works.
    let args = ["advise", "--workload", "-", "--reads", "0.5", "--hits", "0.9", "--memory", "8M", "--json"];
    let changed = run_with_input(&args, advice.text().as_bytes()).ok().json();
    assert_eq!(changed["workload"]["mix"]["hits"], 0.45);
    assert!(!first(&changed).contains("no reads"), "{}", first(&changed));
}

#[test]
fn auto_takes_what_suits_the_memory_where_a_keyspace_is_made() {
    let (dir, s) = scratch();
    let design_of = |store: &str, name: &str| {
        let all = run(&["keyspaces", store, "--json"]).ok().json();
        let all = all["keyspaces"].as_array().unwrap();
        let design = all.iter().find(|k| k["name"] == name).unwrap()["design"].clone();
        serde_json::from_value::<Design>(design).unwrap()
    };
    let auto = |memory: u64| siltstone::Options::auto(memory).default_design;
    assert!(auto(256 << 20) != auto(16 << 20));
    run(&["put", &s, "k", "v", "--preset", "auto"]).ok();
    assert_eq!(design_of(&s, "default"), auto(256 << 20));
    // It is the same design the next time, and one for another budget is another.
    run(&["put", &s, "k", "w", "--preset", "auto"]).ok();
    let (rows, loaded) = (path(dir.path(), "rows.tsv"), path(dir.path(), "loaded"));
    std::fs::write(&rows, "a\tb\n").unwrap();
    run(&["load", &loaded, &rows, "--format", "tsv", "--preset", "auto", "--memory-budget", "16M"]).ok();
    assert_eq!(design_of(&loaded, "default"), auto(16 << 20));
    run(&["put", &loaded, "k", "v", "--preset", "auto"]).fails(&["exists with the preset", "redesign"]);
    let filled = path(dir.path(), "filled");
    let fill = ["bench", "fill", "--dir", &filled, "--items", "500", "--group", "8"];
    run(&[&fill[..], &["--preset", "auto", "--memory-budget", "16M"]].concat()).ok();
    assert_eq!(design_of(&filled, "bench"), auto(16 << 20));
    run(&["put", &s, "k", "v", "--preset", "autos"]).exits(2, &["stepped-merge", "auto takes"]);
}

#[test]
fn a_redesign_takes_what_advise_prints() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("advice.json"), dir.path().join("store"));
    let advice = run(&["advise", "--items", "20k", "--memory", "8M", "--preset", "lean:256K", "--json"]).ok();
    std::fs::write(&file, advice.text()).unwrap();
    let (file, store) = (file.to_str().unwrap(), store.to_str().unwrap());
    run(&["put", store, "k", "v"]).ok();
    let told = run(&["redesign", store, "--design", file, "--wait", "--json"]).ok().json();
    assert_eq!(
        (&told["to"], &told["done"], &told["remaining_us"]),
        (&"lean:256K".into(), &1.0.into(), &0.0.into())
    );
    assert_eq!(told["history"][0]["to"], advice.json()["best"]["design"]);
    assert_eq!(told["history"][0]["why"], "it was asked for");
    std::fs::write(file, "{}").unwrap();
    run(&["redesign", store, "--design", file]).exits(1, &["is no design"]);
}
