//! Compacting and draining, as a user meets them.

use crate::{run, run_with_input, scratch};

#[test]
fn a_load_ends_drained_and_a_compaction_frees_what_was_deleted() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    let rows: String = (0..20_000).map(|n| format!("key{n:06}\t{}\n", "v".repeat(200))).collect();
    run_with_input(&["load", s, "-", "--format", "tsv", "--preset", "siltstone:64K"], rows.as_bytes()).ok();
    let stats = run(&["stats", s, "--json"]).ok().json();
    let keyspace = &stats["keyspaces"][0];
    assert_eq!(keyspace["write_buffer_entries"], 0, "the log is drained");
    assert_eq!(keyspace["items_estimate"], 20_000);
    assert!(keyspace["levels"][0]["runs"].as_u64().unwrap() <= 16, "{}", keyspace["levels"][0]);

    let drained = run(&["drain", s, "--json"]).ok().json();
    assert!(drained["level_0_runs"].as_u64().unwrap() <= 16);
    assert!(run(&["drain", s]).ok().text().starts_with("drained in "));

    // The same rows once more: half of what is there is garbage, less what was cleared away already. How much
    // that is, background work decides; afterwards there is little over one copy in any case.
    run_with_input(&["load", s, "-", "--format", "tsv"], rows.as_bytes()).ok();
    let compacted = run(&["compact", s, "--json"]).ok().json();
    assert_eq!(compacted["is_complete"], true);
    let space = |of: &str| compacted[of].as_u64().unwrap();
    assert!(space("space_bytes") <= space("space_bytes_before"), "{compacted}");
    assert!(space("space_bytes") < 20_000 * (9 + 200) * 3 / 2, "{compacted}");
    let stats = run(&["stats", s, "--json"]).ok().json();
    assert_eq!(stats["keyspaces"][0]["table_entries"], 20_000);
    assert_eq!(run(&["get", s, "key012345"]).ok().text().trim().len(), 200);
    let again = run(&["compact", s, "--keyspace", "default", "--json"]).ok().json();
    assert_eq!((&again["regions"], &again["bytes_written"]), (&0.into(), &0.into()));
    assert!(run(&["compact", s]).ok().text().starts_with("compacted 0 regions"));

    run(&["compact", s, "--keyspace", "none"]).fails(&["no keyspace \"none\"", "default"]);
    run(&["compact", "./nowhere"]).fails(&["no such directory"]);
}

#[test]
fn a_keyspace_gets_another_schema() {
    let (_dir, store) = scratch();
    let s = store.as_str();
    for key in ["etc/hosts", "etc/passwd", "home/notes"] {
        run(&["put", s, key, "text"]).ok();
    }
    run(&["redesign", s, "--cancel"]).fails(&["default", "no other schema"]);
    run(&["redesign", s, "--schema", "fixed:N"]).exits(2, &["fixed:N"]);
    run(&["redesign", s, "--schema", "named:mine"]).exits(2, &["named:mine"]);
    let changed = run(&["redesign", s, "--schema", "delim:/", "--wait"]).ok();
    let text = changed.text();
    assert!(text.contains("changed from the schema point to delim:/"), "{text}");
    assert_eq!(run(&["scan", s, "etc/"]).ok().text().lines().count(), 2);
    let json = run(&["redesign", s, "--json"]).ok().json();
    let of_schema =
        |json: &serde_json::Value| json["schema"]["semi_sorted"]["prefix"]["delimiter"]["byte"].clone();
    assert_eq!((of_schema(&json), json["schema_change"].is_null()), (b'/'.into(), true));
    // A key that does not fit ends the change, for good.
    run(&["put", s, "a/long/path", "text"]).ok();
    let failed = run(&["redesign", s, "--schema", "fixed:10", "--wait"]).fails(&["etc/hosts", "fixed:10"]);
    assert!(failed.err.contains("keeps its schema"), "{}", failed.err);
    assert_eq!(of_schema(&run(&["redesign", s, "--json"]).ok().json()), b'/');
}
