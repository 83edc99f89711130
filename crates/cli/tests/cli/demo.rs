//! The demo on a small tree.

use crate::{path, run, scratch};
use std::os::unix::fs::symlink;
use std::path::Path;

/// A tree with files, nested and empty directories, links, a loop and strange names.
fn tree(root: &Path) -> u64 {
    let mut entries = 0;
    for outer in 0..5 {
        for inner in 0..4 {
            let dir = root.join(format!("outer{outer}/inner{inner}"));
            std::fs::create_dir_all(&dir).unwrap();
            for file in 0..20 {
                std::fs::write(dir.join(format!("file{file}")), "x".repeat(file * 7)).unwrap();
            }
            entries += 1 + 20;
        }
        entries += 1;
    }
    std::fs::create_dir(root.join("empty")).unwrap();
    std::fs::write(root.join("tab\there, newline\nthere, å"), "").unwrap();
    symlink("outer0", root.join("link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("..", root.join("outer1/loop")).unwrap();
    std::fs::hard_link(root.join("outer0/inner0/file3"), root.join("hard")).unwrap();
    entries + 6
}

#[test]
fn the_demo_agrees_with_the_file_system() {
    let (dir, store) = scratch();
    let root = dir.path().join("tree");
    let entries = tree(&root);
    let root = root.to_str().unwrap();
    let ran =
        run(&["demo", root, "--dir", &store, "--features", "3000", "--memory-budget", "32M", "--json"]).ok();
    let report = ran.json();
    assert_eq!(report["agreement_percent"], 100.0);
    assert_eq!(report["files"]["items"], entries);
    assert_eq!(report["tree"]["directories"], 1 + 1 + 5 + 20);
    assert_eq!(report["files"]["agreement"]["changed_meanwhile"], 0, "{report}");
    assert!(report["files"]["agreement"]["checked"].as_u64() > Some(3 * entries));
    assert_eq!(report["features"]["items"], 3000);
    assert!(report["features"]["agreement_after_reopening"]["checked"].as_u64() > Some(6000));
    for figure in ["device_reads_per_get_hit", "filter_bits_per_item", "write_amplification_by_level"] {
        assert!(!report["features"][figure].is_null(), "{figure}");
    }
    assert!(report["store"]["write_amplification"].as_f64() > Some(1.0));
    // --dir is kept, and is an ordinary store.
    assert!(run(&["keyspaces", &store]).ok().text().contains("features"));
    run(&["verify", &store]).ok();
    run(&["demo", root, "--dir", &store]).fails(&["not empty"]);
}

#[test]
fn the_demo_cleans_up_and_prints_one_table() {
    let (dir, _) = scratch();
    let root = dir.path().join("tree");
    tree(&root);
    let ran = run(&["demo", root.to_str().unwrap(), "--features", "0"]).ok();
    for words in
        ["agreement after reopening", "100 %", "device reads per get, hit", "inserts", "write amplification"]
    {
        assert!(ran.text().contains(words), "no {words:?} in {}", ran.text());
    }
    let place =
        ran.err.lines().find_map(|line| line.strip_prefix("store: ")).expect("it says where the store is");
    assert!(!Path::new(place.split(' ').next().unwrap()).exists(), "{place}");
}

#[test]
fn the_store_may_lie_in_the_tree_itself() {
    let (dir, _) = scratch();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let store = path(dir.path(), "store");
    let ran =
        run(&["demo", dir.path().to_str().unwrap(), "--dir", &store, "--features", "100", "--json"]).ok();
    assert_eq!(ran.json()["agreement_percent"], 100.0);
    run(&["demo", &path(dir.path(), "file")]).fails(&["not a directory"]);
    run(&["demo", &path(dir.path(), "nothing")]).fails(&["nothing"]);
}
