//! Threads: writers, readers, scanners and snapshots on tiny designs, so that flushes and compactions come
//! all the time.

use crate::common::*;
use siltstone::io::sim::SimDisk;
use siltstone::{Batch, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Options, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 200;

fn threaded(threads: usize) -> Options {
    Options { background_threads: threads, sync_interval_ms: 20, ..options() }
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

fn padded(n: u64) -> Vec<u8> {
    let mut value = n.to_le_bytes().to_vec();
    value.resize(60 + (n % 50) as usize, 3);
    value
}

/// Readers must never see a key go back; each key's values only grow.
fn run_mixed(db: &Db, point: siltstone::Design, seconds: u64, step_too: bool) {
    let a = db.keyspace("a", keyspace_options(ORDERED, tiny("stepped-merge"))).unwrap();
    let b = db.keyspace("b", keyspace_options(siltstone::Schema::Point, point)).unwrap();
    let key = |n: u64| format!("d{}/{n}", n % 4).into_bytes();
    let done = AtomicBool::new(false);
    let written: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let (reads, started) = (AtomicU64::new(0), Instant::now());
    let running = || !done.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (a, b, written) = (&a, &b, &written);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let mut n = 1;
                while running() {
                    // Each writer has keys of its own, so that it knows their last values.
                    let at = rng.below(KEYS / 2) * 2 + thread;
                    let mut batch = Batch::new();
                    batch.put(a, key(at), padded(n)).unwrap();
                    batch.put(b, key(at), padded(n)).unwrap();
                    let durability = rng.one_in(200).then_some(Durability::Synced);
                    db.write(&batch, &WriteOptions { durability }).unwrap();
                    written[at as usize].store(n, Ordering::Release);
                    n += 1;
                    if step_too && rng.one_in(5) {
                        db.step().unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut rng = Rng::new(77);
            let mut last = vec![0; KEYS as usize];
            while running() {
                let at = rng.below(KEYS);
                let least = written[at as usize].load(Ordering::Acquire).max(last[at as usize]);
                let keyspace = if rng.one_in(2) { &a } else { &b };
                let found = number(keyspace.get(key(at)).unwrap());
                assert!(found >= least, "key {at} went back from {least} to {found}");
                last[at as usize] = found;
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            while running() {
                let least: Vec<u64> = written.iter().map(|w| w.load(Ordering::Acquire)).collect();
                let found = contents(&b);
                for (at, least) in least.iter().enumerate() {
                    let found = number(found.get(&key(at as u64)).cloned());
                    assert!(found >= *least, "a scan finds {found} for key {at} after {least}");
                }
                let prefix: Vec<_> = a.prefix(b"d1/").unwrap().map(Result::unwrap).collect();
                assert!(prefix.is_sorted(), "a prefix scan out of order");
            }
        });
        scope.spawn(|| {
            let mut rng = Rng::new(78);
            while running() {
                let snapshot = db.snapshot();
                let first: Vec<_> = snapshot.iter(&a).unwrap().map(Result::unwrap).collect();
                for _ in 0..50 {
                    let at = key(rng.below(KEYS));
                    let (x, y) = (snapshot.get(&a, &at).unwrap(), snapshot.get(&b, &at).unwrap());
                    assert_eq!(number(x), number(y), "a batch is seen by halves");
                }
                let again: Vec<_> = snapshot.iter(&a).unwrap().map(Result::unwrap).collect();
                assert!(first == again, "a snapshot has changed");
            }
        });
        while started.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(50));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) > 100);
    for (at, written) in written.iter().enumerate() {
        assert_eq!(number(a.get(key(at as u64)).unwrap()), written.load(Ordering::Acquire));
    }
    db.wait_until_idle().unwrap();
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

fn seconds() -> u64 {
    if is_long() { 60 } else { 2 }
}

#[test]
fn everyone_at_once_on_files() {
    for threads in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), threaded(threads)).unwrap();
        let point = if threads == 1 { tiny("leveled") } else { log_stored("leveled") };
        run_mixed(&db, point, seconds(), false);
    }
}

#[test]
fn everyone_at_once_on_the_simulated_disk() {
    for point in [tiny("leveled"), log_stored("siltstone")] {
        let db = Db::open_on(Arc::new(SimDisk::new()), DIR, threaded(2)).unwrap();
        run_mixed(&db, point, seconds(), false);
    }
}

#[test]
fn without_threads_many_may_do_the_work() {
    for point in [tiny("leveled"), log_stored("stepped-merge")] {
        run_mixed(&open(&SimDisk::new()).unwrap(), point, seconds(), true);
    }
}

#[test]
fn keyspaces_come_and_go_while_others_write() {
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk.clone()), DIR, threaded(2)).unwrap();
    let steady = db.keyspace("steady", KeyspaceOptions::default()).unwrap();
    let done = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                while !done.load(Ordering::Relaxed) {
                    let name = format!("k{}", rng.below(3));
                    match rng.below(4) {
                        0 => match db.drop_keyspace(&name) {
                            Ok(()) => {}
                            Err(error) => assert_eq!(error.kind(), ErrorKind::NoKeyspace, "{error}"),
                        },
                        _ => {
                            let keyspace = db.keyspace(&name, KeyspaceOptions::default()).unwrap();
                            for n in 0..30u64 {
                                // The other thread may drop it meanwhile; nothing else may go wrong.
                                if let Err(error) = keyspace.put(n.to_le_bytes(), [1; 100]) {
                                    assert_eq!(error.kind(), ErrorKind::NoKeyspace, "{error}");
                                    break;
                                }
                            }
                            let found = keyspace.iter().unwrap().map(Result::unwrap).count();
                            assert!(found <= 30);
                        }
                    }
                }
            });
        }
        let (mut n, started) = (0u64, Instant::now());
        while started.elapsed() < Duration::from_secs(seconds()) {
            steady.put(n.to_le_bytes(), padded(n)).unwrap();
            n += 1;
        }
        done.store(true, Ordering::Relaxed);
        n
    });
    let kept: Vec<(String, usize)> = db
        .keyspaces()
        .into_iter()
        .map(|name| (name.clone(), contents(&db.get_keyspace(&name).unwrap()).len()))
        .collect();
    drop(steady);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let found: Vec<(String, usize)> = db
        .keyspaces()
        .into_iter()
        .map(|name| (name.clone(), contents(&db.get_keyspace(&name).unwrap()).len()))
        .collect();
    assert_eq!(found, kept);
    assert!(found.contains(&("steady".into(), count as usize)));
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn handles_dropped_in_any_order_close_the_store() {
    type Parts = (Db, Keyspace, siltstone::Snapshot, siltstone::Iter);
    let orders: [fn(Parts); 5] = [
        |(db, keyspace, snapshot, iter)| drop((db, keyspace, snapshot, iter)),
        |(db, keyspace, snapshot, iter)| {
            drop(iter);
            drop(snapshot);
            drop(keyspace);
            drop(db);
        },
        |(db, keyspace, snapshot, iter)| {
            drop(db);
            keyspace.put(b"k2", b"the keyspace keeps it open").unwrap();
            drop(keyspace);
            assert_eq!(iter.count(), 1);
            drop(snapshot);
        },
        |(db, keyspace, snapshot, iter)| {
            db.close().unwrap();
            let error = keyspace.put(b"k3", b"").unwrap_err();
            assert!(error.to_string().contains("closed"), "{error}");
            drop((keyspace, iter, snapshot));
        },
        |(db, keyspace, snapshot, iter)| {
            drop((db, keyspace, iter));
            drop(snapshot);
        },
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for order in orders {
        let db = Db::open(&path, threaded(2)).unwrap();
        let keyspace = db.keyspace("items", KeyspaceOptions::default()).unwrap();
        keyspace.put(b"k", b"v").unwrap();
        keyspace.delete(b"k2").unwrap();
        let (snapshot, iter) = (db.snapshot(), keyspace.iter().unwrap());
        order((db, keyspace, snapshot, iter));
        // Neither locked nor busy.
        let again = Db::open(&path, threaded(1)).unwrap();
        assert_eq!(again.get_keyspace("items").unwrap().get(b"k").unwrap(), Some(b"v".to_vec()));
    }
}

#[test]
fn a_store_whose_manifest_grows_meanwhile_opens_for_reading() {
    let disk = SimDisk::new();
    // Nothing is flushed.
    let Options { memory_budget_bytes, default_design, .. } = Options::default();
    let options = |threads| Options {
        memory_budget_bytes,
        default_design: default_design.clone(),
        ..threaded(threads)
    };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options(1)).unwrap();
    let items = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
    // What an opening replays takes it longer than the manifest takes to grow.
    for n in (0..10_000u64).step_by(100) {
        let mut batch = Batch::new();
        (n..n + 100).for_each(|n| batch.put(&items, n.to_be_bytes(), padded(n)).unwrap());
        db.write(&batch, &WriteOptions::default()).unwrap();
    }
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(10_000));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                drop(db.create_keyspace("other", KeyspaceOptions::default()).unwrap());
                db.drop_keyspace("other").unwrap();
                // The log notes how far the manifest has come.
                let mut batch = Batch::new();
                let n = written.load(Ordering::Relaxed);
                batch.put(&items, n.to_be_bytes(), padded(n)).unwrap();
                db.write(&batch, &WriteOptions { durability: Some(Durability::Synced) }).unwrap();
                written.store(n + 1, Ordering::Release);
            }
        });
        let finish = defer(|| is_over.store(true, Ordering::Relaxed));
        for _ in 0..10 {
            let least = written.load(Ordering::Acquire);
            let reading = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options(0)).unwrap();
            let items = reading.get_keyspace("items").unwrap();
            let found = items.len().unwrap();
            assert!(found >= least, "{found} of {least}");
            assert!(items.contains((found - 1).to_be_bytes()).unwrap());
        }
        drop(finish);
    });
}

#[test]
fn a_store_that_is_open_for_reading_keeps_all_its_files() {
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    let items = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
    for n in 0..5_000u64 {
        items.put(n.to_be_bytes(), padded(n)).unwrap();
    }
    db.drain().unwrap();
    let tables = items.stats().levels.iter().map(|level| level.tables).sum::<u64>();
    let reading = Db::open_read_only_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    assert!(tables as usize > 2 * options().max_open_files, "{tables}");
    items.clear().unwrap();
    db.drain().unwrap();
    // Their names are gone.
    let seen = reading.get_keyspace("items").unwrap();
    assert_eq!((items.len().unwrap(), seen.len().unwrap()), (0, 5_000));
    assert!((0..5_000u64).all(|n| seen.get(n.to_be_bytes()).unwrap() == Some(padded(n))));
}

/// Does `work` when it is dropped, also where a check has failed.
fn defer(work: impl FnOnce()) -> impl Drop {
    struct Deferred<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Deferred<F> {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(|work| work());
        }
    }
    Deferred(Some(work))
}
