//! Large values: what memory a process takes that writes, reads, flushes, compacts and replays one of a
//! gibibyte, and many of 100 MB beside a small budget. Values are shared where they would else be copied: by
//! the batch, the log and the memtable, so a process has little more than the value that it gives or gets and
//! the one that the store keeps.
//!
//! Each case is a child process, this test binary run again, which says the most memory that the system has
//! counted as its own. By default values have 64 MiB and 8 MB; `SILTSTONE_LONG=1` takes 1 GiB and 100 MB, and
//! needs some 5 GB of disk.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::{Rng, is_long, keyspace_options, log_store_designs, on_two_threads, tiny_designs};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Db, ErrorKind, Keyspace, KeyspaceOptions, MAX_VALUE_BYTES, Options, PrefixRule, Schema, SuffixOrder,
    presets,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
const STEP_VARIABLE: &str = "SILTSTONE_LARGE_VALUES";
/// The program, its threads and what the system's allocator keeps.
const FIXED_BYTES: u64 = 16 * MIB;

/// Values beside the budget: one that is given or got, and the one that a merge has come to, whatever the
/// number of runs.
const MOST_BESIDE: u64 = 2;

/// Bytes of the one large value, and the budget that is smaller by far.
fn one() -> (usize, u64) {
    if is_long() { (MAX_VALUE_BYTES, 64 * MIB) } else { (64 << 20, 8 * MIB) }
}

/// How many values of how many bytes, and their budget.
fn many() -> (u32, usize, u64) {
    if is_long() { (20, 100_000_000, 256 * MIB) } else { (20, 8_000_000, 20 * MIB) }
}

/// Byte `at` of value `number`.
fn byte(number: u32, at: usize) -> u8 {
    ((at as u64 + u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn value(number: u32, bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes);
    value.extend((0..bytes).map(|at| byte(number, at)));
    value
}

fn check(keyspace: &Keyspace, number: u32, bytes: usize) {
    let found = keyspace.get(number.to_be_bytes()).unwrap().unwrap();
    assert_eq!(found.len(), bytes, "value {number}");
    let differs = found.iter().enumerate().find(|(at, found)| **found != byte(number, *at));
    assert_eq!(differs, None, "value {number}");
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

fn open(dir: &str, preset: &str, budget: u64) -> (Db, Keyspace) {
    let options = Options { memory_budget_bytes: budget, ..Options::default() };
    let db = Db::open(Path::new(dir), options).unwrap();
    let design = presets::all().into_iter().find(|(name, _)| *name == preset).unwrap().1.scaled_to(1 << 20);
    let options = KeyspaceOptions { design: Some(design), ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("items", options).unwrap();
    (db, keyspace)
}

/// One step of a case, in a process of its own: `step preset directory`. Run by itself it does nothing.
#[test]
#[ignore = "the other tests run it"]
fn child() {
    let Ok(text) = std::env::var(STEP_VARIABLE) else { return };
    let mut words = text.splitn(3, ' ');
    let mut next = || words.next().unwrap();
    let (step, preset, dir) = (next(), next(), next());
    match step {
        // Killed, so that the next opening replays it.
        "put" => {
            let (bytes, budget) = one();
            let (db, items) = open(dir, preset, budget);
            items.put(0u32.to_be_bytes(), value(0, bytes)).unwrap();
            db.sync().unwrap();
            println!("peak {}", peak_bytes());
            std::process::abort();
        }
        "replay" => {
            let (bytes, budget) = one();
            let (_db, items) = open(dir, preset, budget);
            assert_eq!(items.len().unwrap(), 1);
            println!("peak {}", peak_bytes());
            check(&items, 0, bytes);
            std::process::abort();
        }
        "flush" => {
            let (_, budget) = one();
            let (db, items) = open(dir, preset, budget);
            db.flush().unwrap();
            drop(items);
            db.close().unwrap();
        }
        "compact" => {
            let (_, budget) = one();
            let (db, items) = open(dir, preset, budget);
            items.put("beside it", "small").unwrap();
            db.flush().unwrap();
            items.compact().unwrap();
            // Verifying reads the value twice by itself.
            db.wait_until_idle().unwrap();
            assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
            drop(items);
            db.close().unwrap();
        }
        "get" => {
            let (bytes, budget) = one();
            let (_db, items) = open(dir, preset, budget);
            check(&items, 0, bytes);
        }
        "scan" => {
            let (bytes, budget) = one();
            let (_db, items) = open(dir, preset, budget);
            let found: Vec<usize> = items.iter().unwrap().map(|item| item.unwrap().1.len()).collect();
            assert_eq!(found.iter().sum::<usize>(), bytes + 5);
        }
        "many" => {
            let (count, bytes, budget) = many();
            let (db, items) = open(dir, preset, budget);
            let mut given = Vec::with_capacity(bytes);
            for number in 0..count {
                given.clear();
                given.extend((0..bytes).map(|at| byte(number, at)));
                items.put(number.to_be_bytes(), &given).unwrap();
            }
            drop(given);
            println!("{} after the puts", peak_bytes());
            db.flush().unwrap();
            db.drain().unwrap();
            println!("{} after the flush", peak_bytes());
            (0..count).for_each(|number| check(&items, number, bytes));
            drop(items);
            db.close().unwrap();
        }
        other => panic!("no step {other}"),
    }
    println!("peak {}", peak_bytes());
}

/// The most memory of a process that makes a step.
fn peak_of(step: &str, preset: &str, dir: &Path) -> u64 {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(STEP_VARIABLE, format!("{step} {preset} {}", dir.display()))
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    said.lines().filter(|line| line.contains(" after the ")).for_each(|line| println!("{preset}: {line}"));
    let peak = said.lines().find_map(|line| line.split_once("peak ")).map(|(_, peak)| peak.trim().parse());
    peak.unwrap_or_else(|| panic!("{step} of {preset} says {said}")).unwrap()
}

#[test]
fn a_value_of_the_greatest_size_takes_little_more_memory_than_itself() {
    let (bytes, budget) = one();
    let mut beyond = Vec::new();
    for (preset, _) in presets::all() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("db");
        // How many times the value a process has at most, that which it gives or is given included.
        for (step, times) in
            [("put", 2.1), ("replay", 2.1), ("flush", 3.1), ("compact", 3.2), ("get", 2.1), ("scan", 3.1)]
        {
            let peak = peak_of(step, preset, &dir);
            println!("{preset}, {step}: {:.2} times the value", peak as f64 / bytes as f64);
            let most = (times * bytes as f64) as u64 + budget + FIXED_BYTES;
            if peak > most {
                beyond.push(format!("{preset}, {step}: {peak} bytes for a value of {bytes}, {most} at most"));
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}

#[test]
fn many_large_values_stay_within_a_budget_that_holds_two_of_them() {
    let (count, bytes, budget) = many();
    for preset in ["siltstone", "silt"] {
        let scratch = tempfile::tempdir().unwrap();
        let peak = peak_of("many", preset, &scratch.path().join("db"));
        println!("{preset}: {count} values of {bytes} bytes and {budget} bytes of budget: {peak} at most");
        let most = budget + budget / 10 + MOST_BESIDE * bytes as u64 + FIXED_BYTES;
        assert!(peak <= most, "{preset}: {peak} bytes, {most} at most");
    }
}

/// What a keyspace holds, by every way of reading it.
fn compare(items: &Keyspace, model: &BTreeMap<Vec<u8>, Vec<u8>>, what: &str) {
    for (key, value) in model {
        assert!(items.get(key).unwrap().as_ref() == Some(value), "a get, {what}");
    }
    let listed: BTreeMap<_, _> = items.iter().unwrap().map(Result::unwrap).collect();
    assert!(listed == *model, "a walk, {what}: {} items of {}", listed.len(), model.len());
    let mut back: Vec<_> = items.iter().unwrap().rev().map(Result::unwrap).collect();
    back.reverse();
    assert!(items.iter().unwrap().map(Result::unwrap).eq(back), "a walk back, {what}");
    for group in 0..3u8 {
        let found: BTreeMap<_, _> = items.prefix([group; 2]).unwrap().map(Result::unwrap).collect();
        let expected = model.iter().filter(|(key, _)| key.starts_with(&[group; 2]));
        assert!(found.iter().eq(expected), "group {group}, {what}");
    }
}

/// Values of all sizes around that from which on they wait to be read, with keys of all sizes, through every
/// kind of table, write buffer and merge.
#[test]
fn values_that_wait_to_be_read_come_through_merges() {
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 2 }, suffix: SuffixOrder::Ordered };
    let designs = tiny_designs().into_iter().map(|(_, design)| design).chain(log_store_designs());
    let designs: Vec<_> = designs.collect();
    on_two_threads(designs.len() as u64, |number| {
        let design = &designs[number as usize];
        let (mut rng, disk, mut model) = (Rng::new(number), SimDisk::new(), BTreeMap::new());
        let options = || Options { background_threads: 0, hash_secret: Some([7; 16]), ..Options::default() };
        let open = |disk: &SimDisk| Db::open_on(std::sync::Arc::new(disk.clone()), "/db", options()).unwrap();
        let db = open(&disk);
        let of_items = KeyspaceOptions {
            merge_operator: Some("append".to_owned()),
            ..keyspace_options(schema, design.clone())
        };
        let items = db.keyspace("items", of_items).unwrap();
        for round in 0..if is_long() { 7 } else { 5 } {
            for _ in 0..9 {
                let group = rng.below(3) as u8;
                let mut key = vec![group; 2];
                key.extend(std::iter::repeat_n(rng.below(4) as u8, *rng.pick(&[3, 40, 9_000])));
                let bytes = *rng.pick(&[0, 10, 5_000, 65_535, 65_536, 65_537, 150_000]);
                let value = rng.value(bytes as usize);
                match rng.below(12) {
                    0 => {
                        items.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    1..=3 => {
                        items.merge(&key, &value).unwrap();
                        model.entry(key).or_insert_with(Vec::new).extend(value);
                    }
                    4 if round > 3 => {
                        items.delete_prefix([group; 2]).unwrap();
                        model.retain(|key: &Vec<u8>, _| key[0] != group);
                    }
                    _ => {
                        items.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                }
            }
            db.flush().unwrap();
            compare(&items, &model, &format!("round {round}, {design:?}"));
        }
        db.wait_until_idle().unwrap();
        compare(&items, &model, &format!("idle, {design:?}"));
        items.compact().unwrap();
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new(), "{design:?}");
        compare(&items, &model, &format!("compacted, {design:?}"));
        let again = open(&disk.crash(CrashMode::Kill, 0));
        compare(&again.get_keyspace("items").unwrap(), &model, &format!("reopened, {design:?}"));
    });
}

#[test]
fn a_value_beyond_the_limit_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (db, items) = open(&scratch.path().join("db").display().to_string(), "siltstone", 8 * MIB);
    // Zeros that were never touched take no memory.
    let refused = items.put("key", vec![0; MAX_VALUE_BYTES + 1]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    assert!(refused.to_string().contains("1 GiB"), "{refused}");
    assert_eq!(items.len().unwrap(), 0);
    drop(items);
    db.close().unwrap();
}
