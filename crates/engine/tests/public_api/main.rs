//! Holds the public face of the libraries to what `docs/public-api/` says of it.
//!
//! Each file there lists what a program can name in one crate, a line each. A change of the face is thus a
//! change of a file that a reviewer sees. Where the change is meant, run this test with `SILTSTONE_BLESS=1`
//! to write the files anew, and say in CHANGELOG.md what users have to do. The rules are those of
//! docs/api-stability.md.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

mod walk;

use std::path::{Path, PathBuf};

/// Crates with promises: folder below `crates/`, and name in programs.
const CRATES: [(&str, &str); 4] = [
    ("engine", "siltstone"),
    ("design", "siltstone_design"),
    ("model", "siltstone_model"),
    ("succinct", "siltstone_succinct"),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Lines of one that the other has not, with their sign.
fn difference(written: &str, found: &str) -> Vec<String> {
    let less = written.lines().filter(|line| !found.lines().any(|other| other == *line));
    let more = found.lines().filter(|line| !written.lines().any(|other| other == *line));
    less.map(|line| format!("- {line}")).chain(more.map(|line| format!("+ {line}"))).collect()
}

fn face(folder: &str, name: &str) -> walk::Face {
    walk::face(&workspace().join("crates").join(folder).join("src/lib.rs"), name)
}

/// Those who read a method's documentation want to see it used. `cargo test --doc` runs what they see.
#[test]
fn every_public_function_of_the_engine_has_an_example() {
    let found = face("engine", "siltstone");
    assert!(found.lines.iter().any(|line| line.starts_with("fn siltstone::Keyspace::get(")));
    let lacking = found.without_example;
    assert!(lacking.is_empty(), "give these an example in their documentation:\n{}", lacking.join("\n"));
}

#[test]
fn the_public_face_is_what_is_written() {
    let bless = std::env::var_os("SILTSTONE_BLESS").is_some();
    let mut changes = Vec::new();
    for (folder, name) in CRATES {
        let lines = face(folder, name).lines;
        assert!(lines.len() > 40, "the sources of {name} have moved");
        let found = lines.join("\n") + "\n";
        let file = workspace().join("docs/public-api").join(format!("{}.txt", name.replace('_', "-")));
        if bless {
            std::fs::write(&file, &found).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        changes.extend(difference(&written, &found));
        assert!(
            written.len() == found.len() || !changes.is_empty(),
            "{}: lines in another order",
            file.display()
        );
    }
    assert!(
        changes.is_empty(),
        "the public face has changed; see docs/api-stability.md, then bless it with SILTSTONE_BLESS=1:\n{}",
        changes.join("\n")
    );
}

#[test]
fn the_walker_sees_what_programs_can_name() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "lib.rs",
        "mod inner; pub mod outer; #[doc(hidden)] pub mod secret { pub fn unseen() {} }
         pub use inner::{Thing as Renamed, Shape}; pub use other::Foreign; pub(crate) fn hidden() {}
         #[cfg(test)] mod tests { pub fn no() {} }",
    );
    write(
        "inner.rs",
        "pub struct Unreachable; #[derive(Clone, Debug)] #[non_exhaustive] pub struct Thing<T> { pub a: u8, b: T }
         impl<T> Thing<T> { pub fn new(b: T) -> Self { todo!() } fn private(&self) {} }
         impl<T> Drop for Thing<T> { fn drop(&mut self) {} } pub enum Shape { Round { radius: u32 }, Flat(u8) }",
    );
    write(
        "outer.rs",
        "use crate::inner::Shape; pub trait Draws { const SIDES: u8; fn draw(&mut self, on: &Shape) -> bool { true } }
         impl Draws for Shape { const SIDES: u8 = 0; } pub const MOST: usize = 7; pub struct Pair(pub u8, u8);
         impl Shape { pub const fn area(&self) -> u32 { 0 } #[cfg(test)] pub fn test_only(&self) {} }",
    );
    let lines = walk::face(&dir.path().join("lib.rs"), "it").lines;
    let expected = [
        "const fn it::Shape::area(&self) -> u32",
        "const it::outer::Draws::SIDES: u8",
        "const it::outer::MOST: usize",
        "enum it::Shape",
        "enum it::Shape::Flat(u8)",
        "enum it::Shape::Round { radius: u32 }",
        "field it::Renamed::a: u8",
        "field it::outer::Pair::0: u8",
        "fn it::Renamed::new(b: T) -> Self",
        "fn it::outer::Draws::draw(&mut self, on: &Shape) -> bool (provided)",
        "impl it::Renamed: Clone, Debug, Drop",
        "impl it::Shape: Draws",
        "mod it::outer",
        "struct it::Renamed<T> (non_exhaustive)",
        "struct it::outer::Pair",
        "trait it::outer::Draws",
        "use other::Foreign as it::Foreign",
    ];
    assert_eq!(lines, expected);
    assert_eq!(difference("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    write("lib.rs", "/// ```\n/// it::shown();\n/// ```\npub fn shown() {} /// Bare.\npub fn bare() {}");
    assert_eq!(walk::face(&dir.path().join("lib.rs"), "it").without_example, ["it::bare"]);
}
