//! `siltstone inspect DIR`: what a store consists of, and the designs that its keyspaces have had.

use crate::{path, run, scratch_in_memory};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A store of two designs: what is left of the first is being rewritten. Takes little memory, so that there
/// are tables of several levels.
fn redesigned(store: &str) {
    let size = ["--items", "20k", "--memory-budget", "4M", "--preset", "stepped-merge:64K"];
    run(&[&["bench", "fill", "--dir", store][..], &size].concat()).ok();
    run(&["redesign", store, "-k", "bench", "--preset", "leveled:64K", "--wait"]).ok();
    run(&["redesign", store, "-k", "bench", "--preset", "lean:64K"]).ok();
}

fn inspected(store: &str) -> Value {
    run(&["inspect", store, "--json"]).ok().json()
}

/// The files of a kind.
fn files<'a>(shown: &'a Value, kind: &str) -> &'a Value {
    shown["files"].as_array().unwrap().iter().find(|files| files["kind"] == kind).unwrap()
}

fn tables(store: &str) -> Vec<PathBuf> {
    let names = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "table")).collect()
}

#[test]
fn a_store_is_shown_with_its_files_levels_and_designs() {
    let (_dir, store) = scratch_in_memory();
    redesigned(&store);
    let shown = inspected(&store);
    assert_eq!((&shown["kind"], &shown["damage"]), (&"store".into(), &Value::Array(Vec::new())));
    let bytes: u64 = tables(&store).iter().map(|table| table.metadata().unwrap().len()).sum();
    let found = files(&shown, "table");
    assert_eq!((&found["files"], &found["bytes"]), (&tables(&store).len().into(), &bytes.into()));
    assert_eq!(found["unneeded"], 0);
    let bench = shown["keyspaces"].as_array().unwrap().iter().find(|k| k["name"] == "bench").unwrap();
    assert_eq!((&bench["preset"], &bench["schema"]), (&"lean:64K".into(), &"point".into()));
    // The levels are those of statistics, which come from the open store.
    let stats = run(&["stats", &store, "--json"]).ok().json();
    let counted = stats["keyspaces"].as_array().unwrap().iter().find(|k| k["name"] == "bench").unwrap();
    for (level, counted) in
        bench["levels"].as_array().unwrap().iter().zip(counted["levels"].as_array().unwrap())
    {
        for field in [
            "level",
            "depth",
            "is_outgoing",
            "regions",
            "runs",
            "tables",
            "entries",
            "bytes",
            "bytes_written",
        ] {
            assert_eq!(level[field], counted[field], "{field}");
        }
    }
    // And the history is that of `redesign`: when, from what, to what, and why.
    let history = run(&["redesign", &store, "-k", "bench", "--json"]).ok().json()["history"].clone();
    assert_eq!(bench["history"], history);
    assert_eq!(history.as_array().unwrap().len(), 2);
    for change in history.as_array().unwrap() {
        assert!(change["at_ms"].as_u64().unwrap() > 1_600_000_000_000 && change["from"]["levels"].is_array());
        assert_eq!(change["why"], "it was asked for");
    }
    assert_eq!(history[0]["to"], history[1]["from"]);
    assert_eq!(bench["design"], history[1]["to"]);
    let text = run(&["inspect", &store]).ok();
    for words in [
        "the manifest is MANIFEST-",
        "keyspace bench (point; preset lean:64K)",
        " from stepped-merge:64K to leveled:64K: it was asked for; settled ",
        " from leveled:64K to lean:64K: it was asked for; ",
    ] {
        assert!(text.text().contains(words), "{words}: {}", text.text());
    }
}

#[test]
fn a_store_that_lacks_something_is_shown_with_the_damage() {
    let (dir, store) = scratch_in_memory();
    redesigned(&store);
    let shown = |words: &[&str]| {
        let ran = run(&["inspect", &store, "--json"]);
        let (code, json) = (ran.code, ran.json());
        assert_eq!(code, Some(1), "{json}");
        let damage = json["damage"].as_array().unwrap().iter().map(|what| what.as_str().unwrap());
        let damage = damage.collect::<Vec<_>>().join("\n");
        words.iter().for_each(|word| assert!(damage.contains(word), "{word}: {damage}"));
        assert!(run(&["inspect", &store]).exits(1, &[]).text().contains("\ndamage: "));
        json
    };
    let [first, second, ..] = &tables(&store)[..] else { panic!("there are tables") };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    // What nothing names is of no use, and no damage.
    std::fs::copy(first, path(Path::new(&store), "09999999.table")).unwrap();
    assert_eq!(files(&inspected(&store), "table")["unneeded"], 1);
    std::fs::remove_file(first).unwrap();
    shown(&[&format!("{} is missing", name(first))]);
    let bytes = std::fs::read(second).unwrap();
    std::fs::write(second, &bytes[..bytes.len() - 1]).unwrap();
    shown(&[&format!("{} has {} bytes, and {} by the manifest", name(second), bytes.len() - 1, bytes.len())]);
    // A manifest that is damaged is read as far as it goes.
    let manifest = inspected_manifest(&store);
    let mut bytes = std::fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let json = shown(&[&name(&manifest), "is damaged at byte"]);
    assert_eq!(json["manifest"], name(&manifest).as_str());
    std::fs::write(path(Path::new(&store), "CURRENT"), "siltstone 1\nnonsense\n").unwrap();
    assert!(shown(&["CURRENT", "the name of a manifest"])["manifest"].is_null());
    // Without any it is no store.
    let empty = path(dir.path(), "empty");
    std::fs::create_dir(&empty).unwrap();
    run(&["inspect", &empty]).fails(&["there is no Siltstone store in", "empty"]);
}

fn inspected_manifest(store: &str) -> PathBuf {
    let current = run(&["inspect", &path(Path::new(store), "CURRENT"), "--json"]).ok().json();
    Path::new(store).join(current["manifest"].as_str().unwrap())
}

#[test]
fn what_is_left_of_a_redesign_is_told_in_time_and_drift_with_its_cause() {
    let (_dir, store) = scratch_in_memory();
    let size = ["--items", "200k", "--memory-budget", "4M", "--preset", "stepped-merge:64K"];
    let filled = run(&[&["bench", "fill", "--dir", &store, "--json"][..], &size].concat()).ok().json();
    assert!(filled["drift"].is_array(), "{filled}");
    run(&["redesign", &store, "-k", "bench", "--preset", "lean:64K"]).ok();
    let stats = run(&["stats", &store, "--json"]).ok().json();
    let bench = stats["keyspaces"].as_array().unwrap().iter().find(|k| k["name"] == "bench").unwrap().clone();
    let left = &bench["redesign"];
    assert!(left["remaining_bytes"].as_u64().unwrap() > 0 && left["remaining_us"].as_f64().unwrap() > 0.0);
    let text = run(&["stats", &store]).ok();
    assert!(text.text().contains(" to rewrite, which takes "), "{}", text.text());
    assert!(text.text().contains(" was predicted; likely cause: a redesign is under way"), "{}", text.text());
    // A bench that only reads has the same drift of what was written.
    let read = ["bench", "read-hit", "--dir", &store, "--operations", "100", "--memory-budget", "4M"];
    let json = run(&[&read[..], &["--json"]].concat()).ok().json();
    let of = |stats: &Value| {
        let drift = stats["drift"].as_array().unwrap().iter();
        drift.filter(|drift| drift["field"] == "write_amplification").cloned().collect::<Vec<_>>()
    };
    assert_eq!(of(&json)[0]["cause"], "a redesign is under way");
    assert_eq!(of(&json)[0]["measured"], of(&bench)[0]["measured"]);
    let text = run(&read).ok();
    assert!(text.text().contains("not as predicted"), "{}", text.text());
}
