//! Space that comes back: after deletes and expiry, by itself and by hand, and on a disk that is full.

use crate::common::*;
use siltstone::io::sim::SimDisk;
use siltstone::{Db, ErrorKind, Keyspace, KeyspaceOptions, Options, presets};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Presets with tables of so many bytes.
fn scaled(bytes: u64) -> Vec<(&'static str, siltstone::Design)> {
    presets::all().into_iter().map(|(name, design)| (name, design.scaled_to(bytes))).collect()
}

/// A store with a budget for buffers of 64 KiB.
fn store(disk: &SimDisk, design: &siltstone::Design) -> (Db, Keyspace) {
    let options = Options { memory_budget_bytes: 4 << 20, max_wal_bytes: 512 << 10, ..options() };
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
    let created = KeyspaceOptions { design: Some(design.clone()), ..KeyspaceOptions::default() };
    let items = db.keyspace("items", created).unwrap();
    (db, items)
}

fn fill(items: &Keyspace, range: std::ops::Range<u32>, bytes: usize) {
    range.for_each(|n| items.put(numbered_key(n), numbered_value(n, bytes)).unwrap());
}

fn delete(items: &Keyspace, range: std::ops::Range<u32>) {
    range.for_each(|n| items.delete(numbered_key(n)).unwrap());
}

#[test]
fn an_idle_store_does_not_keep_what_was_deleted() {
    for (name, design) in scaled(64 << 10) {
        // From a store that fits level 0 to one of several levels.
        for count in [300u32, 3_000, 20_000] {
            let disk = SimDisk::new();
            let (db, items) = store(&disk, &design);
            fill(&items, 0..count, 200);
            db.flush().unwrap();
            db.wait_until_idle().unwrap();
            let full = disk.used_bytes();
            assert!(full > u64::from(count) * 200, "{name}: {full}");
            delete(&items, 0..count);
            db.flush().unwrap();
            db.wait_until_idle().unwrap();
            let stats = items.stats();
            let found = (stats.table_bytes, stats.tombstones, stats.items_estimate);
            assert_eq!(found, (0, 0, 0), "{name}, {count} items");
            let left = disk.used_bytes();
            assert!(
                left < (200 << 10).max(full / 16),
                "{name}, {count} items: {left} of {full} bytes are left"
            );
        }
    }
}

#[test]
fn deletes_of_a_part_leave_no_more_garbage_than_the_design_allows() {
    for (name, design) in scaled(64 << 10) {
        let disk = SimDisk::new();
        let (db, items) = store(&disk, &design);
        fill(&items, 0..20_000, 200);
        db.drain().unwrap();
        let full = items.stats().table_bytes;
        delete(&items, 0..14_000);
        db.drain().unwrap();
        let stats = items.stats();
        let live = full as f64 * 0.3;
        let most = live / (1.0 - design.max_garbage) * 1.25;
        assert!((stats.table_bytes as f64) < most, "{name}: {} of {full} bytes", stats.table_bytes);
        let estimate = stats.items_estimate as f64;
        assert!((estimate / 6_000.0 - 1.0).abs() < 0.35, "{name}: {estimate} items are estimated");
        assert_eq!(contents(&items).len(), 6_000);
    }
}

#[test]
fn items_are_counted_once_however_often_they_are_written() {
    for (name, design) in scaled(64 << 10) {
        let disk = SimDisk::new();
        let (db, items) = store(&disk, &design);
        for _ in 0..3 {
            fill(&items, 0..2_000, 100);
            db.flush().unwrap();
        }
        let estimate = items.stats().items_estimate;
        assert!((1_600..=2_600).contains(&estimate), "{name}: {estimate} of 2000 items are estimated");
    }
}

#[test]
fn deleted_groups_give_their_space_back() {
    for name in ["siltstone", "stepped-merge", "slimdb"] {
        let disk = SimDisk::new();
        let db = Db::open_on(
            Arc::new(disk.clone()),
            DIR,
            Options { memory_budget_bytes: 4 << 20, max_wal_bytes: 512 << 10, ..options() },
        )
        .unwrap();
        let design = siltstone::Design::preset(name).unwrap().scaled_to(64 << 10);
        let created = KeyspaceOptions { schema: ORDERED, design: Some(design), ..KeyspaceOptions::default() };
        let files = db.create_keyspace("files", created).unwrap();
        for dir in 0..4 {
            for n in 0..1_000u32 {
                files.put(format!("dir{dir}/{n}"), [1; 200]).unwrap();
            }
        }
        db.drain().unwrap();
        for dir in 0..4 {
            files.delete_prefix(format!("dir{dir}/")).unwrap();
        }
        db.drain().unwrap();
        assert_eq!(files.stats().table_bytes, 0, "{name}");
    }
}

#[test]
fn a_compaction_is_cancelled_and_gone_on_with() {
    for (name, design) in scaled(64 << 10) {
        let disk = SimDisk::new();
        let (db, items) = store(&disk, &design);
        fill(&items, 0..20_000, 200);
        fill(&items, 5_000..10_000, 200);
        delete(&items, 0..1_000);
        let mut calls = 0;
        let mut cancelled = 0;
        while !items
            .compact_with(&mut |_| {
                calls += 1;
                if calls % (40 * (cancelled + 1)) == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap()
            .is_complete
        {
            cancelled += 1;
            calls = 0;
            assert!(cancelled < 200, "{name}: it does not come to an end");
            let files = disk.snapshot().list(DIR).unwrap();
            let tables = files.iter().filter(|name| name.ends_with(".table")).count() as u64;
            assert_eq!(tables, items.stats().table_count, "{name}: cancelled work has left tables behind");
        }
        assert!(cancelled > 0, "{name}");
        let stats = items.stats();
        assert_eq!((stats.table_entries, stats.tombstones), (19_000, 0), "{name}");
        for level in &stats.levels {
            assert!(level.max_runs_in_a_region <= 1, "{name}: {level:?}");
        }
        assert_eq!(contents(&items).len(), 19_000);
        assert_eq!(items.compact().unwrap().regions, 0, "{name}: nothing is left to do");
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn flush_and_drain_end_while_others_write() {
    let disk = SimDisk::new();
    let (_, design) = scaled(16 << 10).remove(0);
    let threaded = Options { background_threads: 2, memory_budget_bytes: 4 << 20, ..options() };
    let db = Db::open_on(Arc::new(disk), DIR, threaded).unwrap();
    let created = KeyspaceOptions { design: Some(design), ..KeyspaceOptions::default() };
    let items = db.create_keyspace("items", created).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (items, is_over) = (items.clone(), &is_over);
            scope.spawn(move || {
                for n in 0u32.. {
                    // Each key once at least, however busy the machine is.
                    if n >= 300 && is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    items.put(numbered_key(n % 300 + thread * 10_000), [7; 300]).unwrap();
                }
            });
        }
        for round in 0..20u32 {
            let key = numbered_key(1_000_000 + round);
            items.put(key, b"mine").unwrap();
            db.flush().unwrap();
            if round % 4 == 0 {
                db.drain().unwrap();
                assert!(items.compact().unwrap().is_complete);
            }
            assert_eq!(items.get(key).unwrap().as_deref(), Some(&b"mine"[..]));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    db.wait_until_idle().unwrap();
    assert_eq!(contents(&items).len(), 620);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

/// Puts until the disk is full, and says how many items that were.
fn fill_up(items: &Keyspace, from: u32, bytes: usize) -> u32 {
    for n in from.. {
        if let Err(error) = items.put(numbered_key(n), numbered_value(n, bytes)) {
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
            assert!(error.to_string().contains("delete"), "{error}");
            return n;
        }
    }
    unreachable!("a disk is full some time")
}

#[test]
fn a_full_store_comes_back_by_deletes() {
    for (name, design) in scaled(64 << 10) {
        for reopens in [false, true] {
            let disk = SimDisk::new();
            let (mut db, mut items) = store(&disk, &design);
            disk.set_capacity(Some(6 << 20));
            let mut from = 0;
            let mut first = 0;
            for round in 0..3 {
                let end = fill_up(&items, from, 480);
                let what = format!("{name}, round {round}, reopened: {reopens}, {} items", end - from);
                first = if round == 0 { end } else { first };
                assert!(end - from > first / 2 && first > 3_000, "{what}: less was taken than before");
                if reopens {
                    drop((db, items));
                    (db, items) = store(&disk, &design);
                }
                for n in from..end {
                    items.delete(numbered_key(n)).unwrap_or_else(|error| panic!("{what}: {n}: {error}"));
                }
                if reopens {
                    drop((db, items));
                    (db, items) = store(&disk, &design);
                } else {
                    db.flush().unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                db.wait_until_idle().unwrap_or_else(|error| panic!("{what}: {error}"));
                items.put(b"again", b"taken").unwrap_or_else(|error| panic!("{what}: {error}"));
                items.delete(b"again").unwrap();
                assert_eq!(contents(&items).len(), 0, "{what}");
                from = end;
            }
        }
    }
}

/// Nothing is flushed meanwhile, as where flushes are behind: the log alone takes the disk.
#[test]
fn puts_are_refused_before_a_log_has_taken_the_whole_disk() {
    for (name, design) in presets::all() {
        let disk = SimDisk::new();
        let options = Options { memory_budget_bytes: 128 << 20, max_wal_bytes: 2 << 20, ..options() };
        let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
        let created = KeyspaceOptions { design: Some(design), ..KeyspaceOptions::default() };
        let items = db.create_keyspace("items", created).unwrap();
        disk.set_capacity(Some(100 << 20));
        let end = fill_up(&items, 0, 480);
        let free = (100 << 20) - disk.used_bytes();
        assert!(free > 8 << 20, "{name}: {free} bytes are left");
        for n in 0..end {
            items.delete(numbered_key(n)).unwrap_or_else(|error| panic!("{name}: {n}: {error}"));
        }
        db.flush().unwrap_or_else(|error| panic!("{name}: {error}"));
        db.wait_until_idle().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((contents(&items).len(), items.stats().table_bytes), (0, 0), "{name}");
        items.put(b"again", b"taken").unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn deletes_are_logged_where_others_have_filled_the_disk() {
    let disk = SimDisk::new();
    let (_, design) = scaled(64 << 10).remove(0);
    let (db, items) = store(&disk, &design);
    fill(&items, 0..5_000, 200);
    db.drain().unwrap();
    // Not a byte is free.
    disk.set_capacity(Some(disk.used_bytes()));
    for n in 0..200 {
        items.delete(numbered_key(n)).unwrap();
    }
    assert_eq!(contents(&items).len(), 4_800);
    let (_db, items) = store(&disk.crash(siltstone::io::sim::CrashMode::Kill, 0), &design);
    assert_eq!(contents(&items).len(), 4_800);
}

#[test]
fn what_expires_gives_its_space_back_within_a_time_to_live() {
    const TTL_MS: u64 = 1_000_000;
    // Items of a time to live at once, of which each tick brings a hundredth.
    const LIVE: u32 = 10_000;
    for (name, design) in scaled(16 << 10) {
        let disk = SimDisk::new();
        let (db, items) = store(&disk, &design);
        let mut number = 0;
        let mut most = 0;
        let mut live_bytes = 0;
        for tick in 0..400 {
            for _ in 0..LIVE / 100 {
                let ttl = Duration::from_millis(TTL_MS);
                items.put_with_ttl(numbered_key(number), numbered_value(number, 200), ttl).unwrap();
                number += 1;
            }
            disk.advance_ms(TTL_MS / 100);
            db.wait_until_idle().unwrap();
            if tick == 99 {
                live_bytes = items.stats().table_bytes;
            }
            if tick >= 100 {
                most = most.max(items.stats().table_bytes);
            }
        }
        let ratio = most as f64 / live_bytes as f64;
        let written = db.stats().write_amplification;
        println!("{name}: {ratio:.2} times what lives at most, {written:.2} bytes written per byte");
        assert!(ratio < 2.0, "{name}: {ratio}");
        let estimate = items.stats().items_estimate as f64;
        assert!((estimate / f64::from(LIVE) - 1.0).abs() < 0.25, "{name}: {estimate} items are estimated");
        // Nobody writes any more, and in the end nothing is left.
        disk.advance_ms(TTL_MS);
        db.drain().unwrap();
        assert_eq!(contents(&items).len(), 0, "{name}");
        let left = items.stats().table_bytes;
        assert!(left < live_bytes / 10, "{name}: {left} of {live_bytes} bytes are left");
    }
}

#[test]
fn what_expires_is_gone_at_its_millisecond_however_it_is_read() {
    let disk = SimDisk::new();
    let (_, design) = scaled(64 << 10).remove(0);
    let (db, items) = store(&disk, &design);
    for is_flushed in [false, true] {
        items.put_with_ttl("key", "here", Duration::from_millis(1_000)).unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        let there = || {
            [
                items.get("key").unwrap().is_some(),
                items.contains("key").unwrap(),
                items.multi_get(&["key"]).unwrap()[0].is_some(),
                items.iter().unwrap().count() == 1,
                items.iter().unwrap().rev().count() == 1,
                db.snapshot().get(&items, "key").unwrap().is_some(),
            ]
        };
        disk.advance_ms(999);
        assert_eq!(there(), [true; 6], "flushed: {is_flushed}");
        disk.advance_ms(1);
        assert_eq!(there(), [false; 6], "flushed: {is_flushed}");
    }
}

#[test]
fn a_clock_that_is_set_back_shows_nothing_that_has_expired() {
    let disk = SimDisk::new();
    disk.set_now_ms(1_000_000_000);
    let (_, design) = scaled(64 << 10).remove(0);
    let (mut db, mut items) = store(&disk, &design);
    let put = |items: &Keyspace, key: &str, ms: u64| {
        items.put_with_ttl(key, "here", Duration::from_millis(ms)).unwrap();
    };
    put(&items, "short", 1_000);
    put(&items, "long", 100_000);
    db.flush().unwrap();
    disk.advance_ms(2_000);
    let there = |items: &Keyspace| ["short", "long"].map(|key| items.contains(key).unwrap());
    assert_eq!(there(&items), [false, true]);
    disk.set_now_ms(900_000_000);
    assert_eq!(there(&items), [false, true]);
    for _ in 0..3 {
        db.close().unwrap();
        (db, items) = store(&disk, &design);
        assert_eq!(there(&items), [false, true], "the manifest says how late it was");
        assert_eq!(items.multi_get(&["short", "long"]).unwrap(), [None, Some(b"here".to_vec())]);
    }
    // What is put now lives for as long as asked, or up to twice as long.
    put(&items, "new", 10_000);
    disk.advance_ms(10_000);
    assert!(items.contains("new").unwrap());
    disk.advance_ms(10_000);
    assert!(!items.contains("new").unwrap());
    // A flush notes it too.
    db.flush().unwrap();
    let killed = disk.crash(siltstone::io::sim::CrashMode::Kill, 0);
    killed.set_now_ms(800_000_000);
    let (db, items) = store(&killed, &design);
    assert!(!items.contains("new").unwrap() && items.contains("long").unwrap());
    assert!(db.clock_ms() >= 1_000_000_000);
    killed.set_now_ms(2_000_000_000);
    assert_eq!((db.clock_ms(), there(&items)), (2_000_000_000, [false, false]));
}
