//! The budget holds: a child process fills a store and reads it with a given budget, and says how much memory
//! the system has counted as its own at most. That is to be no more than the budget and a tenth, and some
//! megabytes for the program and the stacks of a dozen threads, which no budget makes smaller. The system's
//! allocator has an arena for each thread up to eight a core, and keeps what was freed in each; so the child
//! has two of them, or the figure would be one of how threads happened to run.
//!
//! The child is this test binary run again. By default it has 600,000 items and 64 MiB; with
//! `SILTSTONE_LONG=1` also 100 and 300 million small ones and 256 MiB, in about 6 and 11 GB below the temporary
//! directory.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use siltstone::{
    Batch, Db, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder, WriteOptions, presets,
};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const CASE_VARIABLE: &str = "SILTSTONE_MEMORY_CASE";
const MIB: u64 = 1 << 20;
/// For what does not depend on the budget.
const FIXED_BYTES: u64 = 6 * MIB;

fn is_long() -> bool {
    std::env::var_os("SILTSTONE_LONG").is_some_and(|value| value != "0")
}

/// What a child does, as it is told in a variable of its environment.
#[derive(Debug, PartialEq)]
struct Case {
    dir: String,
    preset: String,
    items: u64,
    value_bytes: usize,
    budget: u64,
}

impl Case {
    fn to_text(&self) -> String {
        let Self { dir, preset, items, value_bytes, budget } = self;
        format!("{items} {value_bytes} {budget} {preset} {dir}")
    }

    fn from_text(text: &str) -> Self {
        let mut words = text.splitn(5, ' ');
        let mut next = || words.next().unwrap();
        let (items, value_bytes) = (next().parse().unwrap(), next().parse().unwrap());
        let (budget, preset) = (next().parse().unwrap(), next().to_owned());
        Self { dir: next().to_owned(), preset, items, value_bytes, budget }
    }
}

/// Item number `number`: groups of a hundred, in an order of their own.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(number / 100).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&(number % 100).to_be_bytes());
    key
}

/// A permutation of the items: a step that has no factor in common with their number.
fn scattered(number: u64, items: u64) -> u64 {
    (u128::from(number) * 0x9e37_79b9_7f4a_7c55 % u128::from(items)) as u64
}

/// The most memory that the system has counted as this process's.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// The child: fills, overwrites, reads, scans, opens again and reads, each from several threads. Run by
/// itself it does nothing.
#[test]
#[ignore = "the other tests run it"]
fn child() {
    let Ok(text) = std::env::var(CASE_VARIABLE) else { return };
    let case = Case::from_text(&text);
    let open = || {
        // The system's page cache is nobody's, so it makes no difference here.
        let options = Options { memory_budget_bytes: case.budget, ..Options::default() };
        let db = Db::open(Path::new(&case.dir), options).unwrap();
        let prefix = PrefixRule::Fixed { bytes: 8 };
        let schema = Schema::SemiSorted { prefix, suffix: SuffixOrder::Ordered };
        let design = presets::all().into_iter().find(|(name, _)| *name == case.preset).unwrap().1;
        let items = db
            .keyspace("items", KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() })
            .unwrap();
        (db, items)
    };
    let value = |number: u64| vec![(number % 251) as u8; case.value_bytes];
    let (db, items) = open();
    let written = AtomicU64::new(0);
    let writes = case.items + case.items / 4;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let first = written.fetch_add(100, Ordering::Relaxed);
                    if first >= writes {
                        return;
                    }
                    let mut batch = Batch::new();
                    for number in first..writes.min(first + 100) {
                        let number = scattered(number, case.items);
                        batch.put(&items, key(number), value(number)).unwrap();
                    }
                    db.write(&batch, &WriteOptions::default()).unwrap();
                }
            });
        }
    });
    let read = |items: &siltstone::Keyspace| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (case, value) = (&case, &value);
                scope.spawn(move || {
                    for question in 0..case.items.min(240_000) / 8 {
                        let number = scattered(8 * question + thread, case.items);
                        assert_eq!(items.get(key(number)).unwrap(), Some(value(number)), "item {number}");
                        if question.is_multiple_of(64) {
                            assert_eq!(items.prefix(&key(number)[..8]).unwrap().count(), 100);
                        }
                    }
                });
            }
        });
    };
    read(&items);
    drop((items, db));
    let (db, items) = open();
    read(&items);
    println!("peak {} bytes, {:?}", peak_bytes(), db.stats().memory);
}

/// Runs a child and returns what it said of its memory.
fn peak_of(preset: &str, items: u64, value_bytes: usize, budget: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let (preset, dir) = (preset.to_owned(), dir.path().join("db").display().to_string());
    let case = Case { dir, preset, items, value_bytes, budget };
    assert_eq!(Case::from_text(&case.to_text()), case);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CASE_VARIABLE, case.to_text())
        .env("MALLOC_ARENA_MAX", "2")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    // With one processor the test's name stands before it on the line.
    let (_, peak) = said.split_once("peak ").unwrap();
    println!("{case:?}: peak {}", peak.lines().next().unwrap());
    peak.split(' ').next().unwrap().parse().unwrap()
}

fn assert_holds(preset: &str, items: u64, value_bytes: usize, budget: u64) {
    let peak = peak_of(preset, items, value_bytes, budget);
    assert!(peak <= budget + budget / 10 + FIXED_BYTES, "{preset}: {peak} bytes of {budget}");
}

#[test]
fn a_process_stays_within_the_budget() {
    for preset in ["siltstone", "stepped-merge"] {
        assert_holds(preset, 600_000, 100, 64 * MIB);
    }
}

#[test]
fn a_process_with_a_hundred_million_items_stays_within_the_budget() {
    if is_long() {
        assert_holds("siltstone", 100_000_000, 16, 256 * MIB);
    }
}

/// Half an hour or more, and 11 GB below the temporary directory.
#[test]
fn a_process_with_three_hundred_million_items_stays_within_the_budget() {
    if is_long() {
        assert_holds("siltstone", 300_000_000, 8, 256 * MIB);
    }
}
