//! Single items, and commands that look at a store.

use crate::{command, path, run, run_with_input, scratch, scratch_in_memory};
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn items_are_put_got_and_deleted() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    assert!(run(&["put", s, "city:7", "Uppsala"]).ok().out.is_empty());
    assert_eq!(run(&["get", s, "city:7"]).ok().text(), "Uppsala\n");
    run(&["put", s, "city:7", "-12 °C"]).ok();
    assert_eq!(run(&["get", s, "city:7"]).ok().text(), "-12 °C\n");
    assert_eq!(run(&["get", s, "city:7", "--json"]).ok().json()["value"], "-12 °C");
    let missing = run(&["get", s, "city:8"]).fails(&["city:8", "no such key"]);
    assert!(missing.out.is_empty());
    run(&["del", s, "city:7"]).ok();
    run(&["del", s, "city:7"]).ok();
    run(&["get", s, "city:7"]).fails(&["no such key"]);
    run(&["put", s, "empty", ""]).ok();
    assert_eq!(run(&["get", s, "empty"]).ok().text(), "\n");
    run(&["put", s, "", "v"]).fails(&["empty"]);
    run(&["get", s, "k", "--keyspace", "other"]).fails(&["other", "default"]);
}

#[test]
fn items_are_put_on_a_condition() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "lock", "mine", "--if", "nobody's"]).fails(&[s]);
    assert!(!std::path::Path::new(s).exists());
    run(&["put", s, "lock", "mine", "--if-absent"]).ok();
    run(&["put", s, "lock", "yours", "--if-absent"]).fails(&[
        "lock",
        "a value already",
        "nothing was written",
    ]);
    run(&["put", s, "lock", "yours", "--if", "theirs"]).fails(&["lock", "another value"]);
    run(&["put", s, "key", "yours", "--if", "theirs"]).fails(&["key", "no value"]);
    run(&["get", s, "key"]).fails(&["no such key"]);
    assert_eq!(run(&["get", s, "lock"]).ok().text(), "mine\n");
    run(&["put", s, "lock", "-\\x00", "--if", "mine"]).ok();
    run(&["put", s, "lock", "gone", "--if", "-\\x00", "--ttl", "1ms"]).ok();
    std::thread::sleep(Duration::from_millis(20));
    run(&["put", s, "lock", "new", "--if-absent"]).ok();
    assert_eq!(run(&["get", s, "lock"]).ok().text(), "new\n");
}

#[test]
fn operands_are_merged_as_the_keyspace_says() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    let merge =
        |keyspace: &str, more: &[&str]| run(&[&["merge", s, "k"], more, &["--keyspace", keyspace]].concat());
    merge("hits", &["1"]).fails(&["no such directory"]);
    merge("hits", &["1", "--merge-operator", "sum"]).fails(&["\"sum\"", "add"]);
    merge("hits", &["one", "--merge-operator", "add"]).fails(&["OPERAND", "one", "add"]);
    assert!(!std::path::Path::new(s).exists());
    merge("hits", &["300", "--merge-operator", "add"]).ok();
    merge("hits", &["-44"]).ok();
    assert_eq!(run(&["get", s, "k", "--keyspace", "hits", "--raw"]).ok().out, 256u64.to_le_bytes());
    merge("tags", &["b", "--merge-operator", "set-union"]).ok();
    merge("tags", &["a"]).ok();
    assert_eq!(run(&["get", s, "k", "--keyspace", "tags"]).ok().text(), "\\x01a\\x01b\n");
    merge("lists", &["x", "--merge-operator", "append:2c"]).ok();
    merge("lists", &["y", "--merge-operator", "append:2c"]).ok();
    assert_eq!(run(&["get", s, "k", "--keyspace", "lists"]).ok().text(), "x,y\n");
    assert!(run(&["export", s, "--keyspace", "lists", "--format", "tsv"]).ok().text().contains("x,y"));
    merge("lists", &["z", "--merge-operator", "append"]).fails(&["append:2c"]);
    merge("none", &["1"]).fails(&["none", "--merge-operator"]);
    run(&["put", s, "k", "v"]).ok();
    merge("default", &["1"]).fails(&["default", "takes no merges"]);
    run(&["put", s, "k", "v", "--keyspace", "hits", "--ttl", "1m"]).fails(&["expire"]);
}

#[test]
fn any_bytes_go_in_and_come_out() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    run_with_input(&["put", s, "tab\\there\\xff", "-"], &bytes).ok();
    assert_eq!(run(&["get", s, "tab\\there\\xff", "--raw"]).ok().out, bytes);
    let json = run(&["get", s, "tab\\there\\xff", "--json"]).ok().json();
    assert!(json["key_base64"].is_string() && json["value_base64"].is_string());
    let shown = run(&["get", s, "tab\\there\\xff"]).ok();
    assert!(shown.text().starts_with("\\x00\\x01") && shown.text().lines().count() == 1);
}

#[test]
fn groups_are_scanned_in_order() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    for (key, value) in [("u7/name", "Ann"), ("u7/age", "37"), ("u8/name", "Bo"), ("u7/zip", "75 310")] {
        run(&["put", s, key, value, "--keyspace", "users", "--schema", "delim:/"]).ok();
    }
    // The keyspace exists: its schema need not be said again, but may not be said differently.
    run(&["put", s, "u7/mail", "a@b", "--keyspace", "users"]).ok();
    run(&["put", s, "u7/x", "y", "--keyspace", "users", "--schema", "fixed:2"]).fails(&["schema"]);
    let scan = |more: &[&str]| run(&[&["scan", s, "u7/", "--keyspace", "users"], more].concat()).ok();
    assert_eq!(scan(&[]).text(), "u7/age\t37\nu7/mail\ta@b\nu7/name\tAnn\nu7/zip\t75 310\n");
    assert_eq!(scan(&["--limit", "2"]).text(), "u7/age\t37\nu7/mail\ta@b\n");
    let json = scan(&["--json"]).json();
    assert_eq!((&json["count"], &json["items"][2]["value"]), (&4.into(), &"Ann".into()));
    let nobody = run(&["scan", s, "u9/", "--keyspace", "users", "--json"]).ok().json();
    assert_eq!((nobody["count"].as_u64(), nobody["items"].as_array().unwrap().len()), (Some(0), 0));
    // What is no whole prefix is refused, with those there are, unless it may be any beginning.
    run(&["scan", s, "u7", "--keyspace", "users"]).fails(&["\"users\"", "delim:/", "u7/, u8/", "--anywhere"]);
    assert_eq!(run(&["scan", s, "u7", "--keyspace", "users", "--anywhere"]).ok().text(), scan(&[]).text());
    assert_eq!(scan(&["--reverse", "--keys", "--limit", "2"]).text(), "u7/zip\nu7/name\n");
    assert_eq!(scan(&["--after", "u7/age", "--limit", "1"]).text(), "u7/mail\ta@b\n");
    assert_eq!(scan(&["--after", "u7/name", "--reverse", "--limit", "1"]).text(), "u7/mail\ta@b\n");
    assert_eq!(scan(&["--keys", "--json"]).json()["items"][0], serde_json::json!({ "key": "u7/age" }));
    assert_eq!(run(&["scan", s, "--keyspace", "users"]).ok().text().lines().count(), 5);
    for (more, count) in [(&[][..], "5\n"), (&["u7/"], "4\n"), (&["u7/", "--approximate"], "4\n")] {
        assert_eq!(run(&[&["count", s, "--keyspace", "users"], more].concat()).ok().text(), count);
    }
    // A mistyped name makes no keyspace.
    let typo = ["put", s, "u7/x", "y", "--keyspace", "user"];
    run(&typo).fails(&["\"user\"", "there are: users", "--create"]);
    run(&["put", s, "k", "v", "--keyspace", "spare", "--create"]).ok();
    run(&["clear", s, "--keyspace", "spar"]).fails(&["there are: spare, users"]);
    run(&["clear", s, "--keyspace", "spare"]).ok();
    assert_eq!(run(&["count", s, "--keyspace", "spare", "--json"]).ok().json()["items"], 0);
    run(&["put", s, "no delimiter", "v", "--keyspace", "users"]).fails(&["delimiter"]);
    run(&["put", s, "k", "v"]).ok();
    run(&["scan", s, "k"]).fails(&["point"]);
    let names = run(&["keyspaces", s, "--json"]).ok().json();
    let names: Vec<_> = names["keyspaces"].as_array().unwrap().iter().map(|k| k["name"].clone()).collect();
    assert_eq!(names, ["default", "spare", "users"]);
    assert!(run(&["keyspaces", s]).ok().text().contains("delim:/, ordered suffixes"));
}

#[test]
fn items_expire() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "short", "v", "--ttl", "1ms"]).ok();
    run(&["put", s, "long", "v", "--ttl", "2d"]).ok();
    std::thread::sleep(Duration::from_millis(1100));
    run(&["get", s, "short"]).fails(&["no such key"]);
    run(&["get", s, "long"]).ok();
}

#[test]
fn a_store_can_be_looked_at_copied_and_verified() {
    let (dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "k", "v"]).ok();
    let stats = run(&["stats", s, "--json"]).ok().json();
    for field in ["keyspaces", "write_amplification", "memory", "space_bytes", "stalls"] {
        assert!(!stats[field].is_null(), "{field} in {stats}");
    }
    assert_eq!(stats["keyspaces"][0]["name"], "default");
    assert!(run(&["stats", s]).ok().text().contains("keyspace default (point"));
    let verified = run(&["verify", s, "--json"]).ok().json();
    assert_eq!((&verified["sound"], &verified["problems"]), (&true.into(), &serde_json::json!([])));
    assert!(run(&["verify", s]).ok().text().starts_with("sound"));

    let copy = path(dir.path(), "copy");
    run(&["checkpoint", s, &copy]).ok();
    run(&["put", s, "k", "later"]).ok();
    assert_eq!(run(&["get", &copy, "k"]).ok().text(), "v\n");
    run(&["verify", &copy]).ok();
    run(&["checkpoint", s, &copy]).fails(&["copy"]);
    run(&["checkpoint", s, &format!("{s}/within")]).fails(&["lies within the store"]);

    let current = path(std::path::Path::new(s), "CURRENT");
    assert_eq!(run(&["inspect", &current, "--json"]).ok().json()["kind"], "current");
    assert!(run(&["inspect", &current]).ok().text().contains("kind: current"));
}

#[test]
fn every_file_of_a_store_can_be_inspected() {
    let (_dir, store) = scratch();
    run(&["bench", "fill", "--dir", &store, "--items", "500", "--preset", "slimdb", "--json"]).ok();
    run(&["put", &store, "k", "v"]).ok();
    let mut files = vec![std::path::PathBuf::from(&store)];
    let mut kinds = Vec::new();
    while let Some(at) = files.pop() {
        if at.is_dir() {
            files.extend(std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let ran = run(&["inspect", at.to_str().unwrap(), "--json"]).ok();
            kinds.push(ran.json()["kind"].as_str().unwrap().to_owned());
            run(&["inspect", at.to_str().unwrap()]).ok();
            if kinds.last().unwrap() == "table" {
                let mut bytes = std::fs::read(&at).unwrap();
                bytes[50] ^= 1;
                std::fs::write(&at, bytes).unwrap();
                let damaged = run(&["inspect", at.to_str().unwrap(), "--json"]);
                assert_eq!(damaged.json()["damaged_pages"], serde_json::json!([0]));
                damaged.exits(1, &[]);
            }
        }
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, ["current", "events", "lock", "manifest", "sidecar", "table", "wal"]);
}

/// A store with Bloom clusters, and the path of the sidecar of one of them.
fn clustered(store: &str) -> std::path::PathBuf {
    // The last level begins at so many tables, whatever their size; large values need fewer items for them.
    let fill = ["bench", "fill", "--dir", store, "--items", "6K", "--value-bytes", "1000"];
    let preset = ["--preset", "lsm-trie:4K", "--json"];
    let preset = run(&[&fill[..], &preset[..]].concat()).ok().json().get("preset").cloned();
    assert_eq!(preset, Some("lsm-trie:4K".into()));
    let files = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == "sidecar")).min().expect("a sidecar")
}

#[test]
fn a_sidecar_is_shown_and_damage_to_it_is_a_note() {
    let (_dir, store) = scratch_in_memory();
    let s = store.as_str();
    let file = clustered(s);
    let cluster = file.to_str().unwrap();
    let shown = run(&["inspect", cluster, "--json"]).ok().json();
    assert_eq!((&shown["kind"], &shown["damage"]), (&"sidecar".into(), &serde_json::Value::Null));
    let filters = shown["filters"].as_array().unwrap();
    assert_eq!((filters.len(), &filters[0]["level"]), (1, &4.into()));
    assert!(shown["pages"].as_u64().unwrap() > 0 && filters[0]["columns"].as_u64().unwrap() > 0);
    let rows = filters[0]["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["bits_per_key"] == 15.9), "{rows:?}");
    assert!(run(&["inspect", cluster]).ok().text().contains("box_bytes: "));
    let sound = run(&["verify", s, "--json"]).ok().json();
    assert_eq!(sound["notes"], serde_json::json!([]));
    assert!(sound["clusters"].as_u64().unwrap() > 0 && sound["cluster_bytes"].as_u64().unwrap() > 8000);
    assert!(run(&["verify", s]).ok().text().contains("sidecars of filters"));

    let bytes = std::fs::read(&file).unwrap();
    let mut damaged = bytes.clone();
    damaged[5000] ^= 1;
    for (what, bytes) in
        [("a page", damaged), ("cut short", bytes[..6000].to_vec()), ("zeros", vec![0; bytes.len()])]
    {
        std::fs::write(&file, bytes).unwrap();
        let inspected = run(&["inspect", cluster, "--json"]);
        assert_eq!(inspected.code, Some(1), "{what}: {}", inspected.err);
        assert!(!inspected.err.contains("no file of a Siltstone store"), "{}", inspected.err);
        let verified = run(&["verify", s]).ok();
        assert!(verified.text().starts_with("sound"), "{what}: {}", verified.text());
        assert!(verified.err.contains("answers are unaffected"), "{what}: {}", verified.err);
        let verified = run(&["verify", s, "--json"]).ok().json();
        assert_eq!((&verified["sound"], &verified["problems"]), (&true.into(), &serde_json::json!([])));
        assert!(verified["notes"][0].as_str().unwrap().contains(cluster), "{what}: {verified}");
    }
    // What only has the name of a sidecar is none.
    let (directory, link) =
        (file.with_file_name("00000007.sidecar"), file.with_file_name("00000009.sidecar"));
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    run(&["inspect", directory.to_str().unwrap()])
        .fails(&["there is no Siltstone store in", "00000007.sidecar"]);
    run(&["inspect", link.to_str().unwrap()]).fails(&["00000009.sidecar: is a link that leads nowhere"]);
    let verified = run(&["verify", s]).ok();
    assert!(verified.text().starts_with("sound"), "{}", verified.text());
    assert!(verified.err.contains("00000007.sidecar is a directory"), "{}", verified.err);
    assert!(!verified.err.contains("00000009"), "{}", verified.err);
    // Opened for writing, with time to spare, the store mends itself.
    run(&["bench", "overwrite", "--dir", s, "--operations", "1000"]).ok();
    std::fs::remove_dir(&directory).unwrap();
    assert!(!link.is_symlink());
    assert_eq!(run(&["verify", s, "--json"]).ok().json()["notes"], serde_json::json!([]));
}

#[test]
fn damage_outside_a_tables_pages_is_told() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["bench", "fill", "--dir", s, "--items", "3000", "--preset", "lsm-trie:64K"]).ok();
    let tables = std::fs::read_dir(s).unwrap().map(|entry| entry.unwrap().path());
    let tables = tables.filter(|path| path.extension().is_some_and(|e| e == "table"));
    let table = tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let shown = run(&["inspect", table.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!(shown["damage"], serde_json::json!([]));
    let bytes = std::fs::read(&table).unwrap();

    std::fs::write(&table, [&bytes[..], b"surplus"].concat()).unwrap();
    let verified = run(&["verify", s]).fails(&["7 bytes follow the table's end"]);
    assert_eq!(verified.err.matches("problem: ").count(), 1, "{}", verified.err);
    let inspected = run(&["inspect", table.to_str().unwrap(), "--json"]);
    assert_eq!(inspected.code, Some(1));
    let damage = inspected.json()["damage"][0].as_str().unwrap().to_owned();
    assert_eq!(damage, format!("7 bytes follow the table's end at byte {}", bytes.len()));

    // The filter stands behind the pages and the index.
    let number = |field: &str| shown[field].as_u64().unwrap() as usize;
    let mut damaged = bytes.clone();
    damaged[number("pages") * 4096 + number("index_bytes")] ^= 1;
    std::fs::write(&table, damaged).unwrap();
    run(&["verify", s]).fails(&["a section with checksum"]);
    let inspected = run(&["inspect", table.to_str().unwrap(), "--json"]);
    assert_eq!(inspected.code, Some(1));
    assert!(
        inspected.json()["damage"][0].as_str().unwrap().starts_with("the filter, "),
        "{}",
        inspected.text()
    );

    std::fs::write(&table, &bytes[..4096]).unwrap();
    let verified = run(&["verify", s]).fails(&["the first is damaged at byte 4096"]);
    assert_eq!(verified.err.matches("problem: ").count(), 1, "{}", verified.err);

    std::fs::remove_file(&table).unwrap();
    let missing = |ran: crate::Ran| {
        ran.fails(&[&format!(
            "{} is missing, and the store needs it; restore the file from a copy",
            table.display()
        )])
    };
    for read in [&["verify", s][..], &["stats", s], &["get", s, "k"], &["put", s, "k", "v"]] {
        missing(run(read));
    }
}

#[test]
fn all_damage_is_told_at_once_and_what_to_do() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["bench", "fill", "--dir", s, "--items", "20000", "--preset", "lsm-trie:64K"]).ok();
    let tables = std::fs::read_dir(s).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<_> = tables.filter(|path| path.extension().is_some_and(|e| e == "table")).collect();
    tables.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
    let [gone, damaged, ..] = &tables[..] else { panic!("{} tables", tables.len()) };
    let shown = run(&["inspect", damaged.to_str().unwrap(), "--json"]).ok().json();
    let number = |field: &str| shown[field].as_u64().unwrap() as usize;
    let mut bytes = std::fs::read(damaged).unwrap();
    // A page, and the filter behind the pages and the index.
    bytes[700] ^= 1;
    bytes[number("pages") * 4096 + number("index_bytes")] ^= 1;
    std::fs::write(damaged, bytes).unwrap();
    std::fs::remove_file(gone).unwrap();
    let verified = run(&["verify", s, "--json"]);
    assert_eq!(verified.code, Some(1));
    let said = verified.json();
    assert_eq!(said["sound"], serde_json::json!(false));
    let problems = said["problems"].as_array().unwrap();
    let of = |path: &std::path::Path| {
        let path = path.to_str().unwrap();
        problems.iter().filter(|problem| problem.as_str().unwrap().contains(path)).count()
    };
    assert_eq!((of(gone), of(damaged), problems.len()), (1, 2, 3), "{problems:?}");
    assert!(said["advice"][0].as_str().unwrap().contains("siltstone repair"), "{said}");
    assert!(said["entries"].as_u64().unwrap() > 0, "the other tables were read: {said}");
}

#[test]
fn files_that_a_crash_leaves_are_no_strangers() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "k", "v"]).ok();
    for name in
        ["CURRENT.new", "00000077.table", "00000077.wal", "00000077.sidecar", "MANIFEST-00000077", "SIDECARS"]
    {
        let file = std::path::Path::new(s).join(name);
        for content in [&b""[..], b"torn"] {
            std::fs::write(&file, content).unwrap();
            run(&["inspect", file.to_str().unwrap()]).fails(&[name, "is damaged at byte 0"]);
        }
    }
    for name in ["GUIDES", "00000078.cluster"] {
        let file = path(std::path::Path::new(s), name);
        std::fs::write(&file, b"filters").unwrap();
        run(&["inspect", &file]).fails(&[name, "as an earlier program wrote them"]);
    }
    let lock = path(std::path::Path::new(s), "LOCK");
    assert!(run(&["inspect", &lock]).ok().text().contains("opened_by: process "));
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let (dir, store) = scratch();
    let s = store.as_str();
    let rows = path(dir.path(), "rows.tsv");
    std::fs::write(&rows, "no tab in it\nk\tv\n").unwrap();
    run(&["load", s, &rows, "--format", "tsv"]).fails(&["line 1", "nothing is loaded"]);
    std::fs::write(&rows, "no-slash\tv\n").unwrap();
    run(&["load", s, &rows, "--format", "tsv", "--schema", "delim:/"]).fails(&["line 1", "delimiter"]);
    run(&["put", s, "k", "v", "--preset", "silt", "--schema", "fixed:1"]).exits(2, &["silt", "point"]);
    run(&["put", s, "k", "v", "--preset", "lsm-trie:200M"]).fails(&["memory_budget_bytes"]);
    run(&["load", s, &rows, "--format", "tsv", "--preset", "siltstone:200M"]).fails(&["memory_budget_bytes"]);
    let small = ["--memory-budget", "12M"];
    run(&[&["bench", "fill", "--dir", s, "--preset", "lsm-trie"], &small[..]].concat())
        .fails(&["memory_budget_bytes"]);
    run(&["bench", "fill", "--dir", s, "--preset", "silt", "--group", "8"]).exits(2, &["groups"]);
    run(&["demo", "/usr/include", "--dir", s, "--memory-budget", "512K"])
        .fails(&["memory_budget_bytes", "1 MiB"]);
    assert!(!std::path::Path::new(s).exists());

    // A fill that is refused does not clear what it was to replace.
    run(&["bench", "fill", "--dir", s, "--items", "100"]).ok();
    run(&[&["bench", "fill", "--dir", s, "--overwrite-dir", "--preset", "siltstone"], &small[..]].concat())
        .fails(&["memory_budget_bytes"]);
    run(&["bench", "read-hit", "--dir", s, "--operations", "50"]).ok();

    // Nor does a load leave an empty keyspace in a store that is there.
    run(&["load", s, &rows, "--format", "tsv", "--schema", "delim:/", "--keyspace", "new"])
        .fails(&["line 1"]);
    assert!(!run(&["keyspaces", s]).ok().text().contains("new"));
}

#[test]
fn another_preset_than_a_keyspace_has_is_refused() {
    let (dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "k", "v", "--preset", "lsm-trie:1M"]).ok();
    run(&["put", s, "k", "w", "--preset", "lsm-trie:1M"]).ok();
    run(&["put", s, "k", "x", "--preset", "lsm-trie"]).fails(&["lsm-trie:1M, not lsm-trie", "--preset"]);
    let rows = path(dir.path(), "rows.tsv");
    std::fs::write(&rows, "k\ty\n").unwrap();
    let load = ["load", s, &rows, "--format", "tsv", "--schema", "point", "--preset", "siltstone"];
    run(&load).fails(&["lsm-trie:1M, not siltstone"]);
    assert_eq!(run(&["get", s, "k"]).ok().text(), "w\n");
    assert!(run(&["stats", s]).ok().text().contains("preset lsm-trie:1M"));
    run(&["put", s, "k", "v", "--preset", "lsm-trie:1Q"]).exits(2, &["64M"]);
}

#[test]
fn a_second_process_is_told_who_holds_the_store() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "k", "v"]).ok();
    // A load whose input does not end holds the store open; it is up when its first bad row is reported.
    let mut holder = command(&["load", s, "-", "--format", "tsv", "--on-error", "skip"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = holder.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"bad row\n").unwrap();
    let mut first = [0; 1];
    holder.stderr.as_mut().unwrap().read_exact(&mut first).unwrap();
    let refused = run(&["put", s, "k", "w"]).fails(&["locked"]);
    assert!(refused.err.contains(&holder.id().to_string()), "{}", refused.err);
    run(&["del", s, "k"]).fails(&["locked"]);
    // Readers are let in.
    assert_eq!(run(&["get", s, "k"]).ok().text(), "v\n");
    run(&["stats", s]).ok();
    run(&["verify", s]).ok();
    drop(input);
    assert!(holder.wait().unwrap().success());
    run(&["put", s, "k", "w"]).ok();
}

#[test]
fn a_read_only_directory_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, store) = scratch();
    let s = store.as_str();
    run(&["put", s, "k", "v"]).ok();
    let chmod = |mode_of_files, mode_of_dir| {
        for entry in std::fs::read_dir(s).unwrap() {
            let path = entry.unwrap().path();
            let mode = if path.is_dir() { mode_of_dir } else { mode_of_files };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::set_permissions(s, std::fs::Permissions::from_mode(mode_of_dir)).unwrap();
    };
    let before = listing(s);
    chmod(0o444, 0o555);
    assert_eq!(run(&["get", s, "k"]).ok().text(), "v\n");
    run(&["verify", s]).ok();
    // The superuser may write anywhere.
    if std::fs::write(format!("{s}/probe"), "").is_ok() {
        std::fs::remove_file(format!("{s}/probe")).unwrap();
    } else {
        run(&["put", s, "k", "w"]).fails(&["error: "]);
    }
    assert_eq!(listing(s), before, "reading has changed the directory");
    chmod(0o644, 0o755);
}

#[test]
fn a_damaged_log_is_named_and_given_up_only_when_asked() {
    let (_dir, store) = scratch();
    let rows: String = (0..2_000).map(|n| format!("key{n:04}\tvalue\n")).collect();
    // A load that ends with a bad row leaves what it took in the log.
    let load = ["load", &store, "-", "--format", "tsv", "--batch", "10"];
    run_with_input(&load, format!("{rows}no tab\n").as_bytes()).fails(&["rows before it are loaded"]);
    assert!(run(&["repair", &store]).ok().text().contains("nothing to repair"));
    let log = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|e| e == "wal")).max().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let place = bytes.windows(7).position(|w| w == b"key1000").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&log, bytes).unwrap();

    run(&["get", &store, "key0000"]).fails(&["damaged", ".wal"]);
    run(&["put", &store, "key0000", "x"]).fails(&["damaged"]);
    run(&["repair", &store]).fails(&["damaged", "--drop-damaged-log"]);
    let repaired = run(&["repair", &store, "--drop-damaged-log", "--json"]).ok();
    assert_eq!(repaired.json()["repaired"], true);
    assert_eq!(run(&["get", &store, "key0999"]).ok().text(), "value\n");
    run(&["get", &store, "key1000"]).fails(&["no such key"]);
    run(&["put", &store, "key1000", "again"]).ok();
    assert_eq!(run(&["get", &store, "key1000"]).ok().text(), "again\n");
    assert_eq!(run(&["export", &store, "--format", "tsv"]).ok().text().lines().count(), 1001);
    run(&["verify", &store]).ok();
}

fn listing(dir: &str) -> Vec<(std::ffi::OsString, u64)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let (_dir, store) = scratch();
    let rows: String = (0..20_000).map(|n| format!("key{n}\t{}\n", "x".repeat(100))).collect();
    run_with_input(&["load", &store, "-", "--format", "tsv"], rows.as_bytes()).ok();
    let started = Instant::now();
    let mut child = command(&["export", &store, "--format", "tsv"]).spawn().unwrap();
    let mut few = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut few).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_put_that_does_not_fit_leaves_nothing_behind() {
    let (_dir, store) = scratch();
    run(&["put", &store, "", "v"]).fails(&["empty"]);
    assert!(!std::path::Path::new(&store).exists());
    run(&["put", &store, "k", "v", "--keyspace", "a", "--schema", "fixed:4"]).fails(&["4 bytes"]);
    run(&["put", &store, "k", "v", "--keyspace", "a", "--schema", "fixed:1"]).ok();
}
