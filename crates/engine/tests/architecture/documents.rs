//! Documents: the README's example is one that is tested, and links lead somewhere.

use crate::source::{assert_none, line_of, workspace};
use std::path::{Path, PathBuf};

/// The code of the first example in `text`, line by line, without doc comment marks and hidden lines.
fn example(text: &str) -> Vec<String> {
    let plain = text
        .lines()
        .map(|line| line.strip_prefix("///").map_or(line, |doc| doc.strip_prefix(' ').unwrap_or(doc)));
    let code = plain.skip_while(|line| !line.starts_with("```")).skip(1).take_while(|line| *line != "```");
    code.filter(|line| *line != "#" && !line.starts_with("# ")).map(str::to_owned).collect()
}

#[test]
fn the_readme_shows_an_example_that_is_tested() {
    let read = |file: &str| std::fs::read_to_string(workspace().join(file)).unwrap();
    let (readme, db) = (read("README.md"), read("crates/engine/src/db/mod.rs"));
    let in_readme = example(&readme[readme.find("## As a library").unwrap()..]);
    assert!(in_readme.len() > 5);
    assert_eq!(
        in_readme,
        example(&db[db.find("/// An open store.").unwrap()..]),
        "README.md (left) and `Db` (right)"
    );
}

/// The documents of the repository, with their paths from its root on.
fn documents(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = workspace();
    let top = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "UNSAFE.md",
        "fuzz/README.md",
        "bindings/python/README.md",
        "bindings/java/README.md",
        "bindings/kafka-streams/README.md",
    ];
    let mut found: Vec<PathBuf> = top.iter().map(|document| root.join(document)).collect();
    documents(&root.join("docs"), &mut found);
    let readmes = std::fs::read_dir(root.join("crates")).unwrap();
    found.extend(readmes.map(|entry| entry.unwrap().path().join("README.md")).filter(|path| path.exists()));
    let mut violations = Vec::new();
    for document in found {
        let text = std::fs::read_to_string(&document).unwrap();
        let dir = document.parent().unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split([')', '#']).next().unwrap();
            if !target.is_empty() && !target.contains("://") && !dir.join(target).exists() {
                let line = line_of(&text, at);
                violations.push(format!("{}:{line}: there is no {target}", document.display()));
            }
        }
    }
    assert_none(&violations);
}
