//! Crates depend only downwards.

use crate::source::{assert_none, line_of, paths, sources, without_tests, workspace};
use std::collections::BTreeSet;

/// Names in the `[dependencies]` of a crate.
fn dependencies(krate: &str) -> BTreeSet<String> {
    let manifest = workspace().join("crates").join(krate).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).unwrap();
    let mut section = "";
    let mut names = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && !section.contains("dev-") {
            names.insert(line.split(['.', ' ', '=']).next().unwrap().to_owned());
        }
    }
    names
}

fn assert_dependencies(krate: &str, may: &[&str]) {
    let extra: Vec<_> =
        dependencies(krate).into_iter().filter(|name| !may.contains(&name.as_str())).collect();
    assert!(extra.is_empty(), "crates/{krate}/Cargo.toml: {extra:?} may not be a dependency of it");
}

#[test]
fn crates_depend_only_downwards() {
    assert_dependencies("design", &["serde", "siphasher"]);
    assert_dependencies("succinct", &[]);
    let siltstone = |krate: &str| -> Vec<String> {
        dependencies(krate).into_iter().filter(|name| name.starts_with("siltstone")).collect()
    };
    assert_eq!(siltstone("engine"), ["siltstone-design", "siltstone-model", "siltstone-succinct"]);
    assert_eq!(siltstone("model"), ["siltstone-design"]);
    // Papers' evaluations measure structures and models by themselves; everything else goes through the
    // library.
    assert_eq!(siltstone("lab"), ["siltstone", "siltstone-model", "siltstone-succinct"]);
    assert_eq!(siltstone("cli"), ["siltstone", "siltstone-lab", "siltstone-model"]);
    assert_eq!(siltstone("sim"), ["siltstone", "siltstone-design"]);
}

/// The laboratory's modules in the order of the table in its `lib.rs`: each uses only those after it.
const LAB: &[&str] = &["papers", "advice", "clients", "measure", "program", "kit"];

#[test]
fn the_laboratorys_modules_use_only_those_below() {
    let base = "crates/lab/src/";
    let files = sources(&workspace().join(base));
    let lib = &files.iter().find(|(file, _)| file == "crates/lab/src/lib.rs").unwrap().1;
    let table: Vec<_> =
        lib.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split('`').next()).collect();
    assert_eq!(table, LAB);
    let (mut violations, mut edges) = (Vec::new(), 0);
    for (file, text) in &files {
        let inner = file.strip_prefix(base).unwrap();
        let own = inner.split('/').next().unwrap().trim_end_matches(".rs");
        let Some(own) = LAB.iter().position(|module| *module == own) else { continue };
        let text = without_tests(text);
        for (at, _) in text.match_indices("crate::") {
            for path in paths(&text[at..]) {
                let Some(other) =
                    LAB.iter().position(|module| path.get(1).is_some_and(|name| name == module))
                else {
                    continue;
                };
                edges += 1;
                if other < own {
                    violations.push(format!(
                        "{file}:{}: {} uses {}",
                        line_of(&text, at),
                        LAB[own],
                        LAB[other]
                    ));
                }
            }
        }
    }
    assert!(edges > 50, "the laboratory's sources have moved");
    assert_none(&violations);
}
