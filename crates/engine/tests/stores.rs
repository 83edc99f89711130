//! Several stores in one process that share a budget, caches and threads: each holds what it should, whatever
//! the others do, and a thousand of them take no more threads and memory than one. Threads and memory are
//! counted as the system counts them, in child processes: this test binary run again.
//!
//! With `SILTSTONE_LONG=1` there are 1,000 stores with 512 MiB in all, which need some 4,000 open files.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::{is_long, tiny};
use siltstone::io::sim::{CallKind, CrashMode, Fault, FaultError, SimDisk};
use siltstone::{
    Batch, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Options, ResourceOptions, Resources,
    WriteOptions,
};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn share(memory_budget_bytes: u64) -> Resources {
    Resources::new(ResourceOptions { memory_budget_bytes, ..ResourceOptions::default() }).unwrap()
}

fn options(resources: &Resources) -> Options {
    Options { resources: Some(resources.clone()), reserve_bytes: 0, ..Options::default() }
}

fn items(db: &Db) -> Keyspace {
    db.keyspace("items", KeyspaceOptions::default()).unwrap()
}

fn key(store: usize, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&(number ^ (store as u64) << 48).to_be_bytes());
    key
}

fn value(store: usize, number: u64) -> [u8; 100] {
    [(store as u64 * 31 + number) as u8; 100]
}

/// Threads of stores that this process has.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.starts_with("siltstone")).count()
}

/// A number of kilobytes from the process's status, in bytes.
fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// The child: fills so many stores, reads them, opens them again and reads. Run by itself it does nothing.
#[test]
#[ignore = "other tests run it"]
fn child() {
    let Ok(case) = std::env::var("SILTSTONE_STORES_CASE") else { return };
    let mut words = case.splitn(4, ' ');
    let mut next = || words.next().unwrap();
    let (stores, each, budget): (usize, u64, u64) =
        (next().parse().unwrap(), next().parse().unwrap(), next().parse().unwrap());
    let dir = next().to_owned();
    let resources = share(budget);
    let open = || -> Vec<(Db, Keyspace)> {
        let open = |store: usize| {
            let db = Db::open(Path::new(&dir).join(format!("store {store}")), options(&resources)).unwrap();
            let keyspace = items(&db);
            (db, keyspace)
        };
        (0..stores).map(open).collect()
    };
    let begun = Instant::now();
    let dbs = open();
    println!("made after {:?}, {} bytes resident", begun.elapsed(), status_bytes("VmRSS"));
    for first in (0..each).step_by(100) {
        for (store, (db, keyspace)) in dbs.iter().enumerate() {
            let mut batch = Batch::new();
            for number in first..each.min(first + 100) {
                batch.put(keyspace, key(store, number), value(store, number)).unwrap();
            }
            db.write(&batch, &WriteOptions::default()).unwrap();
        }
    }
    let written: f64 = dbs.iter().map(|(db, _)| db.stats().device_bytes_written as f64).sum();
    let user: f64 = dbs.iter().map(|(db, _)| db.stats().user_bytes_written as f64).sum();
    println!("filled after {:?}, write amplification {}", begun.elapsed(), written / user);
    let read = |dbs: &[(Db, Keyspace)]| {
        for round in 0..each.min(400) / 4 {
            for (store, (_, keyspace)) in dbs.iter().enumerate() {
                let number = round * 0x9e37_79b1 % each;
                let found = keyspace.get(key(store, number)).unwrap();
                assert_eq!(found.as_deref(), Some(&value(store, number)[..]), "item {number} of {store}");
                assert_eq!(keyspace.get(key(store, each + round)).unwrap(), None);
            }
        }
    };
    read(&dbs);
    println!("read after {:?}", begun.elapsed());
    let most_threads = threads();
    for (db, keyspace) in dbs {
        drop(keyspace);
        db.close().unwrap();
    }
    assert_eq!((resources.stats().stores, resources.stats().memory.memtable), (0, 0));
    println!("closed after {:?}", begun.elapsed());
    let dbs = open();
    println!("opened again after {:?}", begun.elapsed());
    read(&dbs);
    let stats = resources.stats();
    println!(
        "threads {} {}, peak {}, amplification {}, {:?}",
        most_threads,
        threads(),
        status_bytes("VmHWM"),
        written / user,
        stats.memory
    );
    drop(dbs);
    drop(resources);
    assert_eq!(threads(), 0);
}

/// Runs a child and returns its threads, its peak of memory and its write amplification.
fn run_stores(stores: usize, each: u64, budget: u64) -> (u64, u64, f64) {
    let dir = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("SILTSTONE_STORES_CASE", format!("{stores} {each} {budget} {}", dir.path().display()))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    println!("{stores} stores of {each} items in {budget}: {said}");
    assert!(child.status.success());
    let line = said.lines().find(|line| line.starts_with("threads ")).unwrap();
    let numbers: Vec<f64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers[0], numbers[1]);
    (numbers[0] as u64, numbers[2] as u64, numbers[3])
}

/// What stores take beside the budget: the program, and for each store its manifest, its names and the
/// description of its tables.
fn most_resident(stores: usize, budget: u64) -> u64 {
    budget + budget / 10 + 8 * MIB + stores as u64 * (64 << 10)
}

#[test]
fn many_stores_share_memory_and_threads() {
    let (stores, each, budget) = if is_long() { (1_000, 20_000, 512 * MIB) } else { (100, 5_000, 32 * MIB) };
    let (threads, peak, amplification) = run_stores(stores, each, budget);
    assert_eq!(threads, 4, "two that compact, one that flushes, one that syncs");
    assert!(peak <= most_resident(stores, budget), "{peak} bytes of {budget}");
    assert!(amplification < 4.0, "{amplification}");
}

/// Under `ulimit -n 64` a store fills, compacts and is read.
#[test]
fn few_open_files_are_enough() {
    let dir = tempfile::tempdir().unwrap();
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" --exact few_files_child --ignored --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env("SILTSTONE_FEW_FILES_DIR", dir.path().join("db"))
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

#[test]
#[ignore = "another test runs it"]
fn few_files_child() {
    let Some(dir) = std::env::var_os("SILTSTONE_FEW_FILES_DIR") else { return };
    let design = tiny("siltstone").scaled_to(64 << 10);
    let options = Options { default_design: design, memory_budget_bytes: 16 * MIB, ..Options::default() };
    let db = Db::open(&dir, options.clone()).unwrap();
    let keyspace = items(&db);
    for number in 0..200_000 {
        keyspace.put(key(0, number), value(0, number)).unwrap();
    }
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    assert!(keyspace.stats().table_count > 64, "{}", keyspace.stats().table_count);
    for number in (0..200_000).step_by(7) {
        assert_eq!(keyspace.get(key(0, number)).unwrap().as_deref(), Some(&value(0, number)[..]));
    }
    // Where the process has used its files up, the error says so and what to do.
    let held: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let error = Db::open(Path::new(&dir).with_extension("other"), options).unwrap_err().to_string();
    assert!(error.contains("ulimit -n") && error.contains("max_open_files"), "{error}");
    drop(held);
}

/// Stores are opened, written, closed and opened again while others are written to all the time.
#[test]
fn stores_come_and_go_beside_others() {
    let dir = tempfile::tempdir().unwrap();
    let resources = share(16 * MIB);
    let is_over = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for store in 0..2 {
            let (resources, is_over, written) = (&resources, &is_over, &written);
            let dir = dir.path().join(format!("steady {store}"));
            scope.spawn(move || {
                let db = Db::open(dir, options(resources)).unwrap();
                let keyspace = items(&db);
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) || number < 50_000 {
                    keyspace.put(key(store, number), value(store, number)).unwrap();
                    number += 1;
                    written.fetch_add(1, Ordering::Relaxed);
                }
                db.flush().unwrap();
                for number in 0..number {
                    let found = keyspace.get(key(store, number)).unwrap();
                    assert_eq!(found.as_deref(), Some(&value(store, number)[..]));
                }
            });
        }
        let visitors: Vec<_> = (2..5)
            .map(|store| {
                let (resources, dir) = (&resources, dir.path().join(format!("visitor {store}")));
                scope.spawn(move || {
                    for round in 0..8u64 {
                        let db = Db::open(&dir, options(resources)).unwrap();
                        let keyspace = items(&db);
                        for number in 0..round * 2_000 {
                            let found = keyspace.get(key(store, number)).unwrap();
                            assert_eq!(found.as_deref(), Some(&value(store, number)[..]));
                        }
                        for number in round * 2_000..(round + 1) * 2_000 {
                            keyspace.put(key(store, number), value(store, number)).unwrap();
                        }
                        if round % 2 == 0 {
                            db.close().unwrap();
                        }
                    }
                })
            })
            .collect();
        visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(written.load(Ordering::Relaxed) >= 100_000);
    assert_eq!(resources.stats().memory.memtable, 0);
    assert_eq!(resources.stats().stores, 0);
}

/// A store whose sync fails is poisoned, and one whose disk refuses tables goes on failing; a third fills the
/// budget many times over beside them, and does not wait for what they hold.
#[test]
fn stores_that_fail_stop_no_others() {
    let resources = share(4 * MIB);
    let disks = [SimDisk::new(), SimDisk::new(), SimDisk::new()];
    let open = |disk: &SimDisk| Db::open_on(Arc::new(disk.clone()), "/db", options(&resources)).unwrap();
    let dbs: Vec<Db> = disks.iter().map(open).collect();
    let keyspaces: Vec<Keyspace> = dbs.iter().map(items).collect();
    disks[0].inject(Fault::new(CallKind::Sync, FaultError::Io));
    disks[1].inject(Fault::on_any(FaultError::Io).on_path(".table"));
    for number in 0..3_000 {
        for (store, keyspace) in keyspaces.iter().enumerate().take(2) {
            let _ = keyspace.put(key(store, number), value(store, number));
        }
    }
    assert!(dbs[0].sync().is_err());
    assert!(keyspaces[0].put(b"key", b"value").is_err());
    let begun = Instant::now();
    for number in 0..100_000 {
        keyspaces[2].put(key(2, number), value(2, number)).unwrap();
    }
    dbs[2].flush().unwrap();
    dbs[2].wait_until_idle().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(120));
    assert!(dbs[2].stats().keyspaces[0].table_entries >= 100_000);
    for (store, keyspace) in keyspaces.iter().enumerate() {
        let found = keyspace.get(key(store, 17)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(store, 17)[..]), "what store {store} holds can be read");
    }
    // The one that failed goes on by itself, and the poisoned one once it is reopened.
    disks[1].clear_faults();
    dbs[1].flush().unwrap();
    disks[0].clear_faults();
    drop(keyspaces);
    drop(dbs);
    let again = open(&disks[0]);
    items(&again).put(b"key", b"value").unwrap();
}

/// A store that can begin no further file of its log, or make no table, holds all that write buffers may hold.
/// Its own writers are told so after a while, and others go on: they do not wait for memory that nobody can
/// flush. It goes on by itself too, once the cause is gone.
#[test]
fn a_store_that_can_not_flush_stops_itself_and_no_others() {
    for (kind, path) in [(CallKind::Create, ".wal"), (CallKind::Write, ".table")] {
        let what = format!("{kind:?} {path}");
        let resources = share(4 * MIB);
        let disk = SimDisk::new();
        let stuck = Db::open_on(Arc::new(disk.clone()), "/db", options(&resources)).unwrap();
        let keyspaces: Vec<Keyspace> = (0..8)
            .map(|n| stuck.keyspace(&format!("items {n}"), KeyspaceOptions::default()).unwrap())
            .collect();
        disk.inject(Fault::new(kind, FaultError::Io).on_path(path));
        // One more than it may hold, so that others find no room.
        let mut taken = 0;
        while resources.stats().memory.memtable < MIB {
            keyspaces[taken as usize % 8].put(key(0, taken), value(0, taken)).unwrap();
            taken += 1;
        }
        let begun = Instant::now();
        let other = Db::open_on(Arc::new(SimDisk::new()), "/db", options(&resources)).unwrap();
        let theirs = items(&other);
        for number in 0..50_000 {
            theirs.put(key(1, number), value(1, number)).unwrap();
        }
        other.flush().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        let refused = (taken..taken + 1_000_000).find_map(|number| {
            let result = keyspaces[number as usize % 8].put(key(0, number), value(0, number));
            taken = number;
            result.err()
        });
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), ErrorKind::Io, "{what}: {refused}");
        assert!(refused.to_string().contains("flushes have failed for"), "{what}: {refused}");
        // Who comes later is told at once, and what was taken is there.
        let again = Instant::now();
        assert!(keyspaces[1].put(key(0, 1), value(0, 1)).is_err());
        assert!(again.elapsed() < Duration::from_secs(2), "{what}");
        assert_eq!(keyspaces[0].get(key(0, 0)).unwrap().as_deref(), Some(&value(0, 0)[..]));
        disk.clear_faults();
        stuck.flush().unwrap();
        keyspaces[1].put(key(0, 1), value(0, 1)).unwrap();
        drop((keyspaces, stuck));
        let stuck = Db::open_on(Arc::new(disk.clone()), "/db", options(&resources)).unwrap();
        for number in 0..taken {
            let keyspace =
                stuck.keyspace(&format!("items {}", number % 8), KeyspaceOptions::default()).unwrap();
            assert_eq!(
                keyspace.get(key(0, number)).unwrap().as_deref(),
                Some(&value(0, number)[..]),
                "{what}"
            );
        }
    }
}

/// Two stores on one pool, each on a disk of its own that is stopped at some call: each is found again as a
/// prefix of what was written to it, with everything that was synced.
#[test]
fn two_stores_on_one_pool_survive_crashes() {
    for seed in 0..if is_long() { 400 } else { 40u64 } {
        let resources = share(MIB);
        let open = |disk: &SimDisk| {
            let design = tiny("siltstone");
            let options = Options { default_design: design, max_wal_bytes: 64 << 10, ..options(&resources) };
            Db::open_on(Arc::new(disk.clone()), "/db", options)
        };
        let disks = [SimDisk::new(), SimDisk::new()];
        let synced: Vec<u64> = std::thread::scope(|scope| {
            let writers = disks.iter().enumerate().map(|(store, disk)| {
                scope.spawn(move || {
                    let db = open(disk).unwrap();
                    let keyspace = items(&db);
                    disk.halt_after(50 + seed * 37 % 1_500 + store as u64 * 100);
                    // Nothing is flushed any more then: who waits for that is told so by closing the store.
                    let (waiting, watched) = (db.clone(), disk.clone());
                    std::thread::spawn(move || {
                        while !watched.is_halted() {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        let _ = waiting.close();
                    });
                    let (mut synced, mut number) = (0, 0);
                    loop {
                        let durability = (number % 50 == 49).then_some(Durability::Synced);
                        let mut batch = Batch::new();
                        batch.put(&keyspace, key(store, number), value(store, number)).unwrap();
                        if db.write(&batch, &WriteOptions { durability }).is_err() {
                            return synced;
                        }
                        number += 1;
                        if durability.is_some() {
                            synced = number;
                        }
                    }
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        for (store, disk) in disks.iter().enumerate() {
            let mode = CrashMode::ALL[(seed as usize + store) % 4];
            let found = disk.crash(mode, seed);
            found.resume();
            let db = open(&found).unwrap();
            let keyspace = items(&db);
            let count = keyspace.iter().unwrap().map(Result::unwrap).count() as u64;
            assert!(count >= synced[store], "seed {seed}: {count} of {} in store {store}", synced[store]);
            for number in 0..count {
                let found = keyspace.get(key(store, number)).unwrap();
                assert_eq!(found.as_deref(), Some(&value(store, number)[..]), "seed {seed}, store {store}");
            }
            assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        }
    }
}

/// Memtables of idle stores are flushed too when a busy one needs the memory.
#[test]
fn the_largest_write_buffer_of_any_store_is_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let resources = share(16 * MIB);
    let open = |store: usize| Db::open(dir.path().join(store.to_string()), options(&resources)).unwrap();
    let dbs: Vec<Db> = (0..4).map(open).collect();
    let keyspaces: Vec<Keyspace> = dbs.iter().map(items).collect();
    // Three stores with 2 MB each, of 8 that all may take; nobody writes to them any more.
    for (store, keyspace) in keyspaces.iter().enumerate().take(3) {
        for number in 0..12_000 {
            keyspace.put(key(store, number), value(store, number)).unwrap();
        }
    }
    for number in 0..100_000 {
        keyspaces[3].put(key(3, number), value(3, number)).unwrap();
    }
    // The busy one has its turn once the others' are smaller than its own.
    let idle = &dbs[..3];
    let flushed = idle.iter().filter(|db| db.stats().keyspaces[0].table_count > 0).count();
    assert!(flushed >= 1, "nothing was flushed of stores that nobody writes to");
    assert!(resources.stats().memory.memtable <= 9 * MIB, "{:?}", resources.stats());
    for (store, keyspace) in keyspaces.iter().enumerate() {
        for number in 0..12_000 {
            let found = keyspace.get(key(store, number)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(store, number)[..]));
        }
    }
}

/// Stores with equal tables, down to their numbers, in one cache: each gets its own values.
#[test]
fn equal_numbers_of_tables_are_told_apart() {
    let resources = share(32 * MIB);
    let disks = [SimDisk::new(), SimDisk::new()];
    let open = |disk: &SimDisk| {
        let options = Options { hash_secret: Some([7; 16]), background_threads: 0, ..options(&resources) };
        Db::open_on(Arc::new(disk.clone()), "/db", options).unwrap()
    };
    for round in 0..3u8 {
        let dbs: Vec<Db> = disks.iter().map(open).collect();
        for (store, db) in dbs.iter().enumerate() {
            let keyspace = items(db);
            for number in 0..2_000u64 {
                keyspace.put(number.to_be_bytes(), [store as u8 + 10 * round; 50]).unwrap();
            }
            db.flush().unwrap();
        }
        for _ in 0..3 {
            for number in 0..2_000u64 {
                for (store, db) in dbs.iter().enumerate() {
                    let found = items(db).get(number.to_be_bytes()).unwrap();
                    assert_eq!(found.as_deref(), Some(&[store as u8 + 10 * round; 50][..]));
                }
            }
        }
    }
}

/// A store that is open for reading only holds its tables open, whatever other stores read meanwhile with the
/// same resources: the writer may remove their names.
#[test]
fn readers_keep_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let few =
        ResourceOptions { max_open_files: 8, memory_budget_bytes: 8 * MIB, ..ResourceOptions::default() };
    let resources = Resources::new(few).unwrap();
    let design = tiny("siltstone");
    let options = || Options { default_design: design.clone(), ..options(&resources) };
    let db = Db::open(dir.path().join("db"), options()).unwrap();
    let keyspace = items(&db);
    let put = |round: u64| {
        for number in 0..5_000 {
            keyspace.put(key(0, number), value(0, number + round)).unwrap();
        }
        db.flush().unwrap();
        db.wait_until_idle().unwrap();
    };
    put(0);
    let reader = Db::open_read_only(dir.path().join("db"), options()).unwrap();
    assert!(reader.stats().keyspaces[0].table_count > 16, "{:?}", reader.stats().keyspaces[0].table_count);
    assert_eq!(resources.stats().stores, 2);
    for round in 1..4 {
        put(round);
    }
    let seen = reader.get_keyspace("items").unwrap();
    for number in 0..5_000 {
        assert_eq!(seen.get(key(0, number)).unwrap().as_deref(), Some(&value(0, number)[..]));
        assert_eq!(keyspace.get(key(0, number)).unwrap().as_deref(), Some(&value(0, number + 3)[..]));
    }
}
