//! Commands that are handed over to the laboratory: the same names, the same results, and one line that says
//! so.

use crate::{path, run, scratch};

#[test]
fn a_papers_evaluation_is_handed_over() {
    let (dir, _) = scratch();
    let out = path(dir.path(), "plots");
    let index = run(&["bench", "slimdb", "--quick", "--only", "index", "--out", &out, "--json"]).ok();
    let shown = index.json();
    assert_eq!(shown["quick"], true);
    let figures = shown["figures"].as_array().unwrap();
    assert!(figures.iter().any(|figure| figure["source"] == "Table 3" && figure["paper"] == 2.56), "{shown}");
    assert!(std::fs::exists(format!("{out}/table3.svg")).unwrap());
    let said: Vec<&str> = index.err.lines().filter(|line| line.contains("`siltstone-lab slimdb`")).collect();
    assert_eq!(said.len(), 1, "{}", index.err);
    for paper in ["silt", "lsm-trie", "slimdb"] {
        let help = run(&["bench", paper, "--help"]).ok();
        for word in ["Redo the ", "--quick", "--only", "--out", "--items", "Examples:"] {
            assert!(help.text().contains(word), "no {word:?} in {}", help.text());
        }
    }
    run(&["bench", "silt", "--only", "nothing"]).exits(2, &["device"]);
}

#[test]
fn figures_are_handed_over() {
    let (dir, _) = scratch();
    let out = path(dir.path(), "plots");
    let drawn = run(&["model", "figures", "--only", "silt-figure8", "--out", &out, "--json"]).ok();
    assert_eq!(drawn.json()["figures"][0]["name"], "silt-figure8");
    assert!(drawn.err.contains("`siltstone-lab figures`"), "{}", drawn.err);
    run(&["model", "figures", "--only", "fast99", "--out", &out]).exits(2, &["--only", "silt-figure8"]);
}
