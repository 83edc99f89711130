//! Crates depend only downwards.

use crate::source::workspace;
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
    assert_eq!(siltstone("engine"), ["siltstone-design", "siltstone-succinct"]);
    assert_eq!(siltstone("model"), ["siltstone-design"]);
    // Stores are used through the library alone; structures and models are measured by themselves.
    assert_eq!(
        siltstone("cli"),
        ["siltstone", "siltstone-bench-kit", "siltstone-model", "siltstone-succinct"]
    );
    // Of the engine it uses how files are read, to measure devices with.
    assert_eq!(siltstone("bench-kit"), ["siltstone"]);
}
