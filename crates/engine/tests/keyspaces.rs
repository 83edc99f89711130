//! Many keyspaces in one store: idle ones cost next to nothing, and a small budget serves hundreds that are
//! written to. Bytes, files and memory are counted; times are not.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Batch, Db, Durability, Keyspace, KeyspaceOptions, Options, ResourceOptions, Resources, WriteOptions,
};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn is_long() -> bool {
    std::env::var_os("SILTSTONE_LONG").is_some_and(|value| value != "0")
}

/// Memory of this process, with that of tests beside this one.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn create(db: &Db, count: usize) -> Vec<Keyspace> {
    let names: Vec<String> = (0..count).map(|number| format!("keyspace {number:05}")).collect();
    db.open_keyspaces(names.iter().map(|name| (name, KeyspaceOptions::default()))).unwrap()
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Puts `items` of 116 bytes evenly into `keyspaces`, checks some, and returns bytes written per byte put.
fn fill(budget: u64, count: usize, items: u64) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: budget, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let keyspaces = create(&db, count);
    let mut batch = Batch::new();
    for number in 0..items {
        batch.put(&keyspaces[number as usize % count], key(number), [number as u8; 100]).unwrap();
        if number % 100 == 99 {
            db.write(&batch, &WriteOptions::default()).unwrap();
            batch.clear();
        }
    }
    db.write(&batch, &WriteOptions::default()).unwrap();
    for number in (0..items).step_by(997) {
        let found = keyspaces[number as usize % count].get(key(number)).unwrap();
        assert_eq!(found, Some(vec![number as u8; 100]), "item {number}");
    }
    let stats = db.stats();
    assert!(stats.memory.memtable <= budget * 5 / 8, "{:?} of {budget}", stats.memory);
    println!("{count} keyspaces in {budget}: {:.2}, {:?}", stats.write_amplification, stats.stalls);
    stats.write_amplification
}

#[test]
fn an_idle_keyspace_takes_no_memory_and_no_file() {
    let disk = SimDisk::new();
    let options =
        Options { background_threads: 0, sync_interval_ms: 0, reserve_bytes: 0, ..Options::default() };
    let db = Db::open_on(Arc::new(disk.clone()), "/db", options).unwrap();
    let files = || siltstone::io::Disk::list(&disk, std::path::Path::new("/db")).unwrap().len();
    let before = files();
    let keyspaces = create(&db, 300);
    assert_eq!((db.stats().memory.memtable, files()), (0, before));

    // What is written takes memory until it is flushed, and a small part of what a large memtable would.
    keyspaces.iter().for_each(|keyspace| keyspace.put(b"key", b"value").unwrap());
    let written = db.stats().memory.memtable;
    assert!((300 * 4096..64 * MIB).contains(&written), "{written}");
    db.flush().unwrap();
    assert_eq!(db.stats().memory.memtable, 0);
    assert!(keyspaces.iter().all(|keyspace| keyspace.get(b"key").unwrap().as_deref() == Some(b"value")));
}

/// Keyspaces that nobody writes to any more hold no part of the log: it is given up once the busy one is
/// flushed.
#[test]
fn idle_keyspaces_keep_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let keyspaces = create(&db, 50);
    db.flush().unwrap();
    for round in 0..20u64 {
        for number in 0..200 {
            keyspaces[7].put(key(round * 200 + number), [1; 1000]).unwrap();
        }
        db.flush().unwrap();
    }
    let stats = db.stats();
    // The segment that is written to, and those that wait to be used again.
    assert!(
        stats.wal_bytes < 3 * 250_000,
        "{} bytes of log after {}",
        stats.wal_bytes,
        stats.wal_bytes_written
    );
}

#[test]
fn three_hundred_keyspaces_fit_the_default_budget() {
    let amplification = fill(256 * MIB, 300, if is_long() { 6_000_000 } else { 2_000_000 });
    assert!(amplification < 4.0, "{amplification}");
}

#[test]
fn twenty_keyspaces_fit_sixteen_megabytes() {
    let amplification = fill(16 * MIB, 20, 300_000);
    assert!(amplification < 4.0, "{amplification}");
}

/// As many as a budget of 1 MiB has room for at all, with the default design made small.
#[test]
fn small_budgets_make_the_default_design_small() {
    for budget in [1, 2, 4, 8] {
        let amplification = fill(budget * MIB, 3, 60_000);
        assert!(amplification < 6.0, "{budget} MiB: {amplification}");
    }
}

/// A budget is a bound, not a measure of what is taken at once: the largest takes no more than a usual one.
#[test]
fn the_largest_budget_takes_what_is_used() {
    let before = resident_bytes();
    fill(1 << 46, 2, 10_000);
    let taken = resident_bytes().saturating_sub(before);
    // Tests beside this one have their budgets too.
    assert!(taken < 2048 * MIB, "{taken} bytes");
    for budget in [(1 << 46) + 1, u64::MAX] {
        let refused = ResourceOptions { memory_budget_bytes: budget, ..ResourceOptions::default() };
        let refused = Resources::new(refused).unwrap_err().to_string();
        assert!(refused.starts_with("memory_budget_bytes") && refused.contains("64 TiB"), "{refused}");
        let options = Options { memory_budget_bytes: budget, ..Options::default() };
        assert!(Db::open("nowhere", options).unwrap_err().to_string().contains(&refused));
    }
}

/// A thousand keyspaces and ten times as many: each takes as long as before, counted in calls to the disk and
/// bytes written.
#[test]
fn creation_takes_as_many_calls_however_many_there_are() {
    let calls_for = |count: usize| {
        let disk = SimDisk::new();
        let options =
            Options { background_threads: 0, sync_interval_ms: 0, reserve_bytes: 0, ..Options::default() };
        let db = Db::open_on(Arc::new(disk.clone()), "/db", options).unwrap();
        let before = disk.mutating_calls();
        create(&db, count);
        let calls = disk.mutating_calls() - before;
        assert_eq!(db.keyspaces().len(), count);
        drop(db);
        let again =
            Db::open_on(Arc::new(disk), "/db", Options { background_threads: 0, ..Options::default() });
        assert_eq!(again.unwrap().keyspaces().len(), count);
        calls
    };
    assert_eq!(calls_for(10), calls_for(2_000));
}

/// What a crash leaves of keyspaces that are created together is the first of them, and each can be used.
#[test]
fn creation_of_many_survives_crashes() {
    let options =
        || Options { background_threads: 0, sync_interval_ms: 0, reserve_bytes: 0, ..Options::default() };
    let steps = {
        let disk = SimDisk::new();
        let db = Db::open_on(Arc::new(disk.clone()), "/db", options()).unwrap();
        let before = disk.mutating_calls();
        create(&db, 20);
        disk.mutating_calls() - before
    };
    for at in (0..steps).flat_map(|call| [call; 4].into_iter().enumerate()) {
        let (mode, at) = (CrashMode::ALL[at.0], at.1);
        let disk = SimDisk::new();
        let db = Db::open_on(Arc::new(disk.clone()), "/db", options()).unwrap();
        disk.halt_after(at);
        let names: Vec<String> = (0..20).map(|number| format!("keyspace {number:05}")).collect();
        let created = db.open_keyspaces(names.iter().map(|name| (name, KeyspaceOptions::default())));
        drop(db);
        let db = Db::open_on(Arc::new(disk.crash(mode, at)), "/db", options()).unwrap();
        let left = db.keyspaces();
        assert_eq!(left, names[..left.len()], "call {at}");
        assert!(created.is_err() || left.len() == names.len(), "call {at}");
        for keyspace in create(&db, 20) {
            keyspace.put(b"key", b"value").unwrap();
            assert_eq!(keyspace.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        }
    }
}

/// Puts to single keyspaces of very many: what a put costs does not grow with the keyspaces beside it.
#[test]
fn a_put_beside_ten_thousand_keyspaces_is_a_put() {
    let dir = tempfile::tempdir().unwrap();
    let db =
        Db::open(dir.path().join("db"), Options { durability: Durability::Buffered, ..Options::default() })
            .unwrap();
    let count = if is_long() { 10_000 } else { 2_000 };
    let (begun, before) = (std::time::Instant::now(), resident_bytes());
    let keyspaces = create(&db, count);
    let created = begun.elapsed();
    let idle = resident_bytes().saturating_sub(before) / count as u64;
    println!("an idle keyspace takes {idle} bytes");
    for (number, keyspace) in keyspaces.iter().enumerate() {
        keyspace.put(key(number as u64), b"one").unwrap();
        keyspace.put(key(number as u64), b"two").unwrap();
    }
    let put = begun.elapsed();
    db.flush().unwrap();
    println!("{count}: created in {created:?}, put twice after {put:?}, flushed after {:?}", begun.elapsed());
    drop((db, keyspaces));
    let begun = std::time::Instant::now();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    println!("opened in {:?}", begun.elapsed());
    for (number, name) in db.keyspaces().iter().enumerate().step_by(97) {
        let keyspace = db.get_keyspace(name).unwrap();
        assert_eq!(keyspace.get(key(number as u64)).unwrap().as_deref(), Some(&b"two"[..]));
    }
}
