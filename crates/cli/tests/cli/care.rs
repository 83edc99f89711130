//! Backups, repair and the change feed, as a user meets them.

use crate::{path, run, run_with_input, scratch};

fn filled(store: &str) {
    let rows: String = (0..2_000).map(|n| format!("key{n:04}\tvalue{n}\n")).collect();
    run_with_input(&["load", store, "-", "--format", "tsv"], rows.as_bytes()).ok();
}

#[test]
fn backups_are_made_listed_checked_restored_and_deleted() {
    let (dir, store) = scratch();
    let (s, backups) = (store.as_str(), path(dir.path(), "backups"));
    let b = backups.as_str();
    filled(s);
    let first = run(&["backup", "create", s, b, "--json"]).ok().json();
    assert_eq!((first["number"].as_u64(), &first["bytes"]), (Some(1), &first["bytes_added"]));
    run(&["put", s, "key0000", "changed"]).ok();
    assert!(run(&["backup", "create", s, b]).ok().text().starts_with("backup 2 in "));
    let listed = run(&["backup", "list", b, "--json"]).ok().json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert_eq!(run(&["backup", "list", b]).ok().text().lines().count(), 2);
    assert!(run(&["backup", "verify", b]).ok().text().starts_with("sound"));

    let old = path(dir.path(), "old");
    run(&["backup", "restore", b, "1", &old]).ok();
    assert_eq!(run(&["get", &old, "key0000"]).ok().text(), "value0\n");
    run(&["verify", &old]).ok();
    run(&["backup", "restore", b, "1", &old]).fails(&["not empty"]);
    run(&["backup", "restore", b, "7", &path(dir.path(), "none")]).fails(&["no backup 7", "1, 2"]);
    run(&["backup", "list", s]).fails(&["no directory of backups"]);

    run(&["backup", "delete", b, "1"]).ok();
    let file = std::fs::read_dir(path(dir.path(), "backups/files")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let verified = run(&["backup", "verify", b]).fails(&["problem: ", "can't be restored: 2"]);
    assert!(verified.text().starts_with("NOT SOUND"));
    run(&["backup", "restore", b, "2", &path(dir.path(), "new")]).fails(&["damaged"]);
}

#[test]
fn a_cut_manifest_is_named_and_repaired_into_a_new_store() {
    let (dir, store) = scratch();
    let s = store.as_str();
    filled(s);
    run(&["put", s, "other", "x", "--keyspace", "second", "--create"]).ok();
    let manifest = std::fs::read_dir(s).unwrap().map(|entry| entry.unwrap().path());
    let manifest = manifest.filter(|path| path.to_string_lossy().contains("MANIFEST")).max().unwrap();
    let bytes = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &bytes[..bytes.len() - 40]).unwrap();

    run(&["get", s, "key0000"]).fails(&["MANIFEST", "siltstone repair"]);
    run(&["repair", s]).fails(&["MANIFEST"]);
    run(&["repair", s, "--drop-damaged-log"]).fails(&["MANIFEST"]);
    let new = path(dir.path(), "new");
    let report = run(&["repair", s, &new, "--json"]).ok().json();
    assert!(report["manifest"].as_str().is_some_and(|what| what.contains("MANIFEST")));
    assert_eq!(run(&["get", &new, "key1999"]).ok().text(), "value1999\n");
    assert_eq!(run(&["get", &new, "other", "--keyspace", "second"]).ok().text(), "x\n");
    run(&["verify", &new]).ok();
    run(&["repair", s, &new]).fails(&["not empty"]);
    let again = run(&["repair", s, &path(dir.path(), "again")]).ok();
    assert!(again.text().contains("entries"), "{}", again.text());
}

#[test]
fn merges_of_a_lost_manifest_are_repaired_under_a_name() {
    let (dir, store) = scratch();
    let s = store.as_str();
    for (key, by) in [("k1", "5"), ("k2", "5"), ("k3", "5"), ("k3", "2")] {
        run(&["merge", s, key, by, "--keyspace", "sums", "--merge-operator", "add"]).ok();
        run(&["put", s, key, by]).ok();
    }
    for entry in std::fs::read_dir(s).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("MANIFEST") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let kept = run(&["repair", s, &path(dir.path(), "kept")]).ok();
    assert!(
        kept.text()
            .starts_with("CURRENT or the manifest is damaged, and all that was found of items was read")
    );
    assert!(kept.err.contains("--merge-operator") && !kept.err.contains("lost: "), "{}", kept.err);
    let new = path(dir.path(), "new");
    let report = run(&["repair", s, &new, "--merge-operator", "add", "--json"]).ok().json();
    assert_eq!(report["losses"], serde_json::json!([]));
    assert!(!report["notes"].to_string().contains("--merge-operator"), "{}", report["notes"]);
    // Each command has left a table or a part of the log, and each of these is a keyspace.
    let names: Vec<String> = serde_json::from_value(report["keyspaces"].clone()).unwrap();
    let values = names.iter().map(|name| run(&["get", &new, "k3", "--keyspace", name, "--raw"]).out);
    let values: Vec<Vec<u8>> = values.collect();
    let sums = values.iter().filter_map(|value| value.as_slice().try_into().ok().map(u64::from_le_bytes));
    assert_eq!(sums.sum::<u64>(), 7, "{values:?}");
    assert!(values.contains(&b"2".to_vec()), "{values:?}");
}

#[test]
fn the_log_shows_where_a_keyspace_was_cleared() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "a", "1"]).ok();
    run(&["clear", s, "--keyspace", "default"]).ok();
    let text = run(&["tail", s]).ok().text().to_owned();
    assert!(text.lines().last().unwrap().contains("default replaced"), "{text}");
    let last = run(&["tail", s, "--json"]).ok().text().lines().last().unwrap().to_owned();
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["operations"][0]["replaced"], true);
}

#[test]
fn the_log_is_shown_batch_by_batch() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "a", "1"]).ok();
    run(&["put", s, "b", "2"]).ok();
    run(&["del", s, "a"]).ok();
    let text = run(&["tail", s]).ok().text().to_owned();
    let words: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(words, ["default put a 1", "default put b 2", "default delete a"]);
    let lines = run(&["tail", s, "--json"]).ok().text().to_owned();
    let batches: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(batches[1]["operations"][0]["put"], "2");
    let from = batches[1]["next_lsn"].to_string();
    assert_eq!(run(&["tail", s, "--from", &from]).ok().text().lines().count(), 1);
    run(&["tail", s, "--from", "99999999"]).fails(&["past the end of the log"]);
}
