//! Holds the crates to what a published package needs, and to the one compiler that all of this is tested
//! with.

use std::path::{Path, PathBuf};

/// Crates that can be published; `peers`, `fuzz` and `sim` are not.
const PUBLISHED: [&str; 6] = ["design", "succinct", "model", "engine", "lab", "cli"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = workspace().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The value of `key = "value"` or `key = […]`, as it is written.
fn value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    let of_key = |line: &'a str| line.strip_prefix(key)?.trim_start().strip_prefix('=').map(str::trim);
    manifest.lines().find_map(of_key)
}

fn text<'a>(manifest: &'a str, key: &str) -> &'a str {
    value(manifest, key).unwrap_or_else(|| panic!("no {key}")).trim_matches('"')
}

#[test]
fn every_manifest_asks_for_the_tested_compiler() {
    let toolchain = read("rust-toolchain.toml");
    let channel = text(&toolchain, "channel");
    let (minor, _) = channel.rsplit_once('.').unwrap();
    assert_eq!(channel.split('.').count(), 3, "a whole version is tested, not {channel}");
    for manifest in ["Cargo.toml", "crates/peers/Cargo.toml"] {
        assert_eq!(text(&read(manifest), "rust-version"), minor, "{manifest}");
    }
    for name in PUBLISHED {
        let manifest = read(format!("crates/{name}/Cargo.toml"));
        assert_eq!(value(&manifest, "rust-version.workspace"), Some("true"), "{name}");
    }
}

#[test]
fn every_published_crate_says_what_it_is() {
    for name in PUBLISHED {
        let dir = PathBuf::from("crates").join(name);
        let manifest = read(dir.join("Cargo.toml"));
        assert!((20..=160).contains(&text(&manifest, "description").len()), "{name}: description");
        assert_eq!(value(&manifest, "license.workspace"), Some("true"), "{name}");
        for (key, most) in [("keywords", 5), ("categories", 5)] {
            let listed = value(&manifest, key).unwrap_or_else(|| panic!("{name} has no {key}"));
            assert!((1..=most).contains(&listed.split(',').count()), "{name}: {key} = {listed}");
        }
        assert!(
            read(dir.join(text(&manifest, "readme"))).starts_with("# "),
            "{name}: its readme has no title"
        );
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert_eq!(read(dir.join(license)), read(license), "{name}: {license}");
        }
        assert!(name == "cli" || manifest.contains("[package.metadata.docs.rs]"), "{name}: docs.rs");
        assert_eq!(value(&manifest, "publish"), None, "{name}");
    }
    for name in ["crates/peers/Cargo.toml", "crates/sim/Cargo.toml", "fuzz/Cargo.toml"] {
        assert_eq!(value(&read(name), "publish"), Some("false"), "{name}");
    }
}

#[test]
fn every_crate_of_the_workspace_is_published_with_the_same_version() {
    let root = read("Cargo.toml");
    let members = value(&root, "members").unwrap();
    assert!(members.contains("crates/sim"));
    assert_eq!(members.matches("crates/").count(), PUBLISHED.len() + 1, "{members}");
    let version = text(&root, "version");
    let mut pinned = 0;
    for line in root.lines().filter(|line| line.contains("{ path = \"crates/")) {
        assert!(line.contains(&format!("version = \"={version}\"")), "not released together: {line}");
        pinned += 1;
    }
    assert_eq!(pinned, PUBLISHED.len() - 1);
}
