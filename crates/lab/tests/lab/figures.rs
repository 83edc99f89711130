//! The figures that models draw, beside what the papers print.

use crate::{path, run, scratch};

#[test]
fn figures_come_as_plots_with_a_comparison() {
    let (dir, _) = scratch();
    let out = path(dir.path(), "plots");
    let drawn = run(&["figures", "--only", "silt-figure8", "--out", &out, "--json"]).ok();
    let shown = drawn.json();
    let [figure] = shown["figures"].as_array().unwrap().as_slice() else { panic!("one figure, not {shown}") };
    assert_eq!(figure["name"], "silt-figure8");
    assert!(figure["comparison"].as_str().unwrap().contains("WA 5.4"), "{figure}");
    let files: Vec<&str> = figure["files"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    assert_eq!(files, ["writes", "reads"].map(|end| format!("{out}/silt-figure8-{end}.svg")));
    for file in files {
        assert!(std::fs::read_to_string(file).unwrap().starts_with("<svg"), "{file}");
    }
    assert!(drawn.err.contains("silt-figure8"), "{}", drawn.err);
}

#[test]
fn the_model_says_what_the_papers_table_says() {
    let (dir, _) = scratch();
    let out = path(dir.path(), "plots");
    let drawn = run(&["figures", "--only", "fast16-table1", "--out", &out]).ok();
    assert!(drawn.text().contains("totals 25.83 and 23.67"), "{}", drawn.text());
}

#[test]
fn a_figure_that_is_none_is_refused_with_the_names_there_are() {
    let (dir, _) = scratch();
    let out = path(dir.path(), "plots");
    let refused =
        run(&["figures", "--only", "fast99", "--out", &out]).exits(2, &["--only", "fast16-figure4"]);
    assert!(refused.out.is_empty() && !std::fs::exists(&out).unwrap());
    run(&["figures", "--quick", "--full"]).exits(2, &["--full"]);
    run(&["levitation"]).exits(2, &["levitation"]);
}
