//! Papers' evaluations on small stores: every figure is there, and nothing else stays.

use crate::{command, path, run, scratch};

#[test]
fn a_papers_evaluation_comes_as_tables_plots_and_json() {
    let (dir, place) = scratch();
    let out = path(dir.path(), "plots");
    let index = run(&["slimdb", "--quick", "--only", "index", "--out", &out, "--json"]);
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
    let args =
        ["slimdb", "--quick", "--only", "system", "--items", "2000", "--seconds", "50ms", "--out", &out];
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
    let out = path(dir.path(), "plots");
    let scale = ["--quick", "--items", "3000", "--seconds", "20ms", "--dir", &place, "--out", &out, "--json"];
    for (part, sources) in [
        ("stores", &["Table 6", "Table 7", "Figure 9", "Figure 10", "Figure 11"][..]),
        ("device", &["Section 6.1"]),
    ] {
        let shown = run(&[&["silt", "--only", part], &scale[..]].concat()).ok().json();
        figures_are_of(&shown, sources);
    }
    run(&["silt", "--only", "device", "--items", "1G", "--dir", &place, "--out", &out])
        .fails(&["may take", "--items", "--dir"]);
    plots_are_there(&out, &["table7.svg", "figure9.svg", "figure10.svg", "figure11.svg"]);
    nothing_is_left(&place);
}

#[test]
fn lsm_tries_evaluation_comes_as_tables_and_plots() {
    let (dir, place) = scratch();
    let out = path(dir.path(), "plots");
    let scale = ["--quick", "--items", "3000", "--seconds", "20ms", "--out", &out, "--dir", &place];
    let all = run(&[&["lsm-trie", "--json"], &scale[..]].concat()).ok().json();
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
fn a_place_that_takes_no_stores_or_plots_is_refused_before_any_work() {
    let (dir, place) = scratch();
    let file = path(dir.path(), "file");
    std::fs::write(&file, "").unwrap();
    let (out, nowhere) = (path(dir.path(), "plots/of/it"), path(dir.path(), "nowhere"));
    for (paper, only) in
        [("slimdb", "index"), ("silt", "index"), ("lsm-trie", "tables"), ("lsm-trie", "stores")]
    {
        let bench = |dir: &str, out: &str| {
            run(&[paper, "--quick", "--only", only, "--items", "3000", "--dir", dir, "--out", out])
        };
        for bad in [&nowhere, &file] {
            let refused = bench(bad, &out).fails(&[bad, "is not a directory"]);
            assert!(refused.out.is_empty() && !refused.err.contains("figure"), "{}", refused.err);
        }
        for bad in [file.clone(), format!("{file}/plots")] {
            bench(&place, &bad).fails(&[&bad]);
        }
        assert!(!std::fs::exists(path(dir.path(), "plots")).unwrap(), "{paper}: an empty directory is left");
    }
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn an_interrupted_evaluation_leaves_nothing_behind() {
    for (paper, only, signal) in
        [("slimdb", "system", "-INT"), ("silt", "stores", "-TERM"), ("lsm-trie", "stores", "-INT")]
    {
        let (dir, place) = scratch();
        let out = path(dir.path(), "plots");
        let args = [paper, "--only", only, "--items", "1M", "--dir", &place, "--out", &out];
        let mut child = command(&args).spawn().unwrap();
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

#[test]
fn upkeep_is_measured_and_leaves_nothing_behind() {
    let (_dir, place) = scratch();
    let told = run(&["upkeep", "--items", "3000", "--preset", "lean", "--dir", &place, "--json"]).ok().json();
    figures_are_of(&told, &["Upkeep"]);
    let figures: Vec<_> = told["figures"].as_array().unwrap().iter().collect();
    let of = |row: &str| {
        let figure = figures.iter().find(|figure| figure["row"].as_str().unwrap().trim().starts_with(row));
        figure.unwrap_or_else(|| panic!("no {row}"))["ours"].as_f64().unwrap()
    };
    for row in [
        "batches of 100",
        "compact",
        "checkpoint",
        "first backup",
        "restore",
        "verify",
        "repair",
        "change feed",
    ] {
        assert!(of(row) > 0.0 && of(row).is_finite(), "{row}: {}", of(row));
    }
    // A backup brings what has changed.
    assert!(of("% of bytes that the same adds") < 50.0);
    nothing_is_left(&place);
}

#[test]
fn a_store_that_is_killed_is_opened_again_with_all_that_was_written() {
    let (_dir, place) = scratch();
    let told = run(&["reopen", "--items", "5000", "--kills", "2", "--dir", &place, "--json"]).ok().json();
    figures_are_of(&told, &["Reopen"]);
    let of = |row: &str, column: &str| {
        let mut figures = told["figures"].as_array().unwrap().iter();
        let figure = figures.find(|figure| figure["row"] == row && figure["column"] == column);
        figure.unwrap_or_else(|| panic!("no {row} {column}"))["ours"].as_f64().unwrap()
    };
    for (column, items) in [("after a close", 0.0), ("after kill 1", 5.0), ("after kill 2", 5.0)] {
        assert_eq!(of("items replayed, K", column), items, "{column}");
        assert!(of("open, s", column) > 0.0 && of("memory when open, MB", column) > 0.0, "{column}");
    }
    nothing_is_left(&place);
}
