//! Documents: the README's example is one that is tested, and links lead somewhere.

use crate::source::{assert_none, line_of, workspace};
use std::path::Path;

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

#[test]
fn links_in_documents_lead_somewhere() {
    let root = workspace();
    let mut violations = Vec::new();
    for document in
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "UNSAFE.md", "docs/format.md", "docs/testing.md"]
    {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        let dir = Path::new(document).parent().unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            if !target.contains("://") && !root.join(dir).join(target).exists() {
                violations.push(format!("{document}:{}: there is no {target}", line_of(&text, at)));
            }
        }
    }
    assert_none(&violations);
}
