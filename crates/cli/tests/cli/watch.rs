//! `stats --watch` and `stats --events` beside a process that writes.

use crate::{command, path, run, scratch};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// Makes a store of small tables, and a file of `count` rows to load into it.
fn prepare(dir: &Path, store: &str, count: u32) -> String {
    run(&["put", store, "first", "1", "--preset", "stepped-merge:64K"]).ok();
    let mut rows = String::new();
    for n in 0..count {
        let _ = writeln!(rows, "key{n:06}\t{:0>40}", n.wrapping_mul(7919) % count);
    }
    let file = path(dir, "rows.tsv");
    std::fs::write(&file, rows).unwrap();
    file
}

#[test]
fn a_watch_shows_what_another_process_does_until_it_is_interrupted() {
    let (dir, store) = scratch();
    // So many that writers wait for pushes: some are done before the load is.
    let rows = prepare(dir.path(), &store, 150_000);
    let mut watch = command(&["stats", &store, "--watch", "--json", "--interval", "100ms", "--for", "60s"]);
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| {
        let line = line.unwrap();
        serde_json::from_str::<Value>(&line).unwrap_or_else(|e| panic!("{e} in {line:?}"))
    });
    let first = lines.next().unwrap();
    let runs = |refresh: &Value| refresh["stats"]["keyspaces"][0]["table_entries"].as_u64().unwrap();
    assert_eq!(runs(&first), 0);
    run(&["load", &store, &rows, "--format", "tsv"]).ok();

    // Until flushes and pushes were seen, and then figures that hold what they wrote.
    let (mut works, mut refreshed) = (Vec::new(), 0);
    for line in lines.by_ref() {
        if line["event"] == "job_ended" {
            assert!(line["at_ms"].as_u64() > Some(1_600_000_000_000), "{line}");
            // The load may close its store while a job runs, which the job then says; no other error.
            if let Some(error) = line["error"].as_str() {
                assert!(error.contains("store is closing"), "{line}");
                continue;
            }
            works.push(format!("{}: {}", line["work"], line["reason"]["because"]));
        } else if !line["stats"].is_null() {
            refreshed += 1;
            if runs(&line) > 10_000 && works.iter().any(|work| work.starts_with("\"push\"")) {
                break;
            }
        }
    }
    assert!(refreshed > 0);
    assert!(works.contains(&"\"flush\": \"buffer_full\"".to_owned()), "{works:?}");
    assert!(
        works.iter().any(|work| work.starts_with("\"push\": \"") && work.ends_with("_full\"")),
        "{works:?}"
    );
    let interrupted = Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    lines.for_each(drop);
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watch_that_no_one_sees_prints_lines() {
    let (dir, store) = scratch();
    let rows = prepare(dir.path(), &store, 20_000);
    run(&["load", &store, &rows, "--format", "tsv"]).ok();
    let seen =
        run(&["stats", &store, "--watch", "--for", "300ms", "--interval", "100ms", "--events", "3"]).ok();
    let lines: Vec<&str> = seen.text().lines().collect();
    let figures = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
    // Nothing changes, so that figures are shown once.
    assert_eq!((figures("default L0: "), figures("default write buffers: ")), (1, 1), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains(" [JOB ")).count(), 3, "{lines:?}");
    assert!(!seen.text().contains('\x1b'));
    let empty = run(&["stats", &store, "--watch", "--interval", "1ms"]);
    empty.exits(2, &["at least 50ms"]);
    run(&["stats", &store, "--for", "1s"]).exits(2, &["--watch"]);
}

#[test]
fn the_last_events_are_printed() {
    let (dir, store) = scratch();
    let rows = prepare(dir.path(), &store, 20_000);
    assert!(run(&["stats", &store, "--events"]).ok().err.contains("no event log"));
    run(&["load", &store, &rows, "--format", "tsv"]).ok();
    let text = run(&["stats", &store, "--events", "2"]).ok();
    assert_eq!(text.text().lines().count(), 2);
    assert!(text.text().lines().all(|line| line.starts_with("20") && line.contains("] ")), "{}", text.text());
    let json = run(&["stats", &store, "--events", "1000", "--json"]).ok();
    let events: Vec<Value> = json.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let began = events.iter().filter(|event| event["event"] == "job_began").count();
    assert!(began >= 5 && events.len() >= 2 * began, "{began} of {}", events.len());
    let shown = run(&["inspect", &path(Path::new(&store), "EVENTS")]).ok();
    assert!(shown.text().starts_with("kind: events\n"), "{}", shown.text());
    assert!(shown.text().contains("] flush \"default\": ") && shown.text().contains("; because "));
    let inspected = run(&["inspect", &path(Path::new(&store), "EVENTS"), "--json"]).ok().json();
    assert_eq!(inspected["events"].as_array().unwrap().len(), events.len());
    run(&["stats", &path(dir.path(), "none"), "--events"]).fails(&["no such directory"]);
}
