//! `kill -9` on the real file system: a child writes and says what was acknowledged, the parent kills it at
//! any moment, opens the store and looks.
//!
//! The child is this test binary run again. Eight rounds by default, 60 with `SILTSTONE_LONG=1`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::*;
use siltstone::{Batch, Db, Durability, KeyspaceOptions, Options, Schema, WriteOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const DIR_VARIABLE: &str = "SILTSTONE_KILL_DIR";
const WRITERS: u64 = 3;

fn threaded() -> Options {
    Options { background_threads: 2, sync_interval_ms: 15, ..options() }
}

fn key(writer: u64, n: u64) -> Vec<u8> {
    format!("w{writer}/{n:08}").into_bytes()
}

fn value(writer: u64, n: u64) -> Vec<u8> {
    let mut value = hash(&(writer, n)).to_le_bytes().to_vec();
    value.resize(20 + (n % 97) as usize, writer as u8);
    value
}

fn keyspaces(db: &Db) -> (siltstone::Keyspace, siltstone::Keyspace) {
    let items = keyspace_options(ORDERED, tiny("stepped-merge"));
    let last = keyspace_options(Schema::Point, tiny("leveled"));
    (db.keyspace("items", items).unwrap(), db.keyspace("last", last).unwrap())
}

/// How many items the writer has written, as the store says.
fn count_of(last: &siltstone::Keyspace, writer: u64) -> u64 {
    let value = last.get(writer.to_le_bytes()).unwrap();
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
}

/// The child: writes until it is killed. Run by itself it does nothing.
#[test]
#[ignore = "the other test runs it"]
fn child() {
    let Ok(dir) = std::env::var(DIR_VARIABLE) else { return };
    let db = Db::open(Path::new(&dir), threaded()).unwrap();
    let (items, last) = keyspaces(&db);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, items, last) = (&db, &items, &last);
            scope.spawn(move || {
                for n in count_of(last, writer).. {
                    let mut batch = Batch::new();
                    batch.put(items, key(writer, n), value(writer, n)).unwrap();
                    batch.put(last, writer.to_le_bytes(), (n + 1).to_le_bytes()).unwrap();
                    let synced = n % 50 == 0;
                    let durability = Some(if synced { Durability::Synced } else { Durability::Buffered });
                    db.write(&batch, &WriteOptions { durability }).unwrap();
                    // One write call, so that a line is there whole or not at all.
                    std::io::stdout().write_all(format!("written {writer} {}\n", n + 1).as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Runs a child for a while and kills it; returns how many items of each writer it has acknowledged.
fn run_and_kill(dir: &Path, after: Duration) -> [u64; WRITERS as usize] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n');
    let mut acknowledged = [0; WRITERS as usize];
    let mut note = |line: Vec<u8>| {
        let line = String::from_utf8(line).unwrap();
        let mut words = line.split(' ').skip_while(|word| *word != "written").skip(1);
        if let (Some(writer), Some(count)) = (words.next(), words.next()) {
            acknowledged[writer.parse::<usize>().unwrap()] = count.parse().unwrap();
        }
    };
    // The store is open once the first write is through; a reader of its own keeps the pipe from filling up.
    for line in lines.by_ref().take(5) {
        note(line.unwrap());
    }
    let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap().into_iter().for_each(&mut note);
    acknowledged
}

#[test]
fn a_killed_process_loses_nothing_it_was_told_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut rng = Rng::new(9);
    let mut total = 0;
    let rounds = if is_long() { 60 } else { 8 };
    for round in 0..rounds {
        let acknowledged = run_and_kill(&path, Duration::from_millis(rng.below(120)));
        let db = Db::open(&path, threaded()).unwrap();
        let (items, last) = keyspaces(&db);
        let mut expected = 0;
        for (writer, acknowledged) in (0..WRITERS).zip(acknowledged) {
            let count = count_of(&last, writer);
            assert!(count >= acknowledged, "round {round}: {count} of {acknowledged} of writer {writer}");
            let found = items.prefix(format!("w{writer}/").as_bytes()).unwrap();
            for (n, item) in (0..count).zip(found) {
                assert_eq!(item.unwrap(), (key(writer, n), value(writer, n)), "round {round}");
            }
            expected += count;
        }
        assert_eq!(items.iter().unwrap().map(Result::unwrap).count() as u64, expected);
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        total = expected;
    }
    println!("{rounds} kills, {total} items");
    assert!(total > rounds * 10);
}

#[test]
fn a_killed_creation_can_be_repeated() {
    for after_us in [0, 300, 1000, 3000, 8000] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(DIR_VARIABLE, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(after_us));
        child.kill().unwrap();
        child.wait().unwrap();
        let db = Db::open(&path, threaded()).unwrap();
        db.keyspace("new", KeyspaceOptions::default()).unwrap().put(b"k", b"v").unwrap();
    }
}
