//! What is large: keys, batches, groups, and what a snapshot keeps. `SILTSTONE_LONG=1` takes sizes as large
//! as they are promised.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::*;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{Batch, Db, ErrorKind, KeyspaceOptions, MAX_KEY_BYTES, Options, Schema};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn keys_of_all_lengths_up_to_the_longest_are_kept_by_every_design() {
    let lengths = [1, 4_000, 4_096, 32_768, MAX_KEY_BYTES - 1, MAX_KEY_BYTES];
    let keys: Vec<_> = (0..24usize).map(|n| vec![b'a' + n as u8; lengths[n % lengths.len()]]).collect();
    for (name, design) in tiny_designs() {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let items = db.keyspace("items", keyspace_options(Schema::Point, design)).unwrap();
        for round in 0..3u8 {
            for key in &keys {
                items.put(key, [round, key[0]]).unwrap();
            }
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
        let refused = items.put(vec![1; MAX_KEY_BYTES + 1], "value").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadKey, "{name}: {refused}");
        assert!(refused.to_string().contains("65536"), "{name}: {refused}");
        assert!(items.get(vec![1; MAX_KEY_BYTES + 1]).is_err(), "{name}");
        drop(items);
        db.close().unwrap();
        let db = open(&disk).unwrap();
        let items = db.get_keyspace("items").unwrap();
        let found = contents(&items);
        assert_eq!(found.len(), keys.len(), "{name}");
        for key in &keys {
            assert_eq!(found[key], [2, key[0]], "{name}");
            assert_eq!(items.get(key).unwrap().as_deref(), Some(&[2, key[0]][..]), "{name}");
        }
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_batch_of_a_million_operations_is_there_whole_or_not_at_all() {
    let count = if is_long() { 1_000_000u32 } else { 100_000 };
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| {
        let options = Options { memory_budget_bytes: 256 << 20, background_threads: 0, ..Options::default() };
        let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
        let keyspaces = ["even", "odd"].map(|name| db.keyspace(name, KeyspaceOptions::default()).unwrap());
        (db, keyspaces)
    };
    let (db, keyspaces) = open(&disk);
    db.sync().unwrap();
    let mut batch = Batch::new();
    for n in 0..count {
        batch.put(&keyspaces[n as usize % 2], n.to_be_bytes(), n.to_le_bytes()).unwrap();
    }
    assert_eq!(batch.len(), count as usize);
    disk.record_images(true);
    db.write(&batch, &siltstone::WriteOptions::default()).unwrap();
    let mut images: Vec<_> = disk.take_recorded().into_iter().map(|(_, image)| image).collect();
    images.push(disk.snapshot());
    disk.record_images(false);
    let counted = |keyspaces: &[siltstone::Keyspace; 2]| -> usize {
        keyspaces.iter().map(|keyspace| keyspace.iter().unwrap().map(Result::unwrap).count()).sum()
    };
    assert_eq!(counted(&keyspaces), count as usize);
    let (mut whole, mut none) = (0, 0);
    for (at, image) in images.iter().enumerate() {
        for mode in CrashMode::ALL {
            let (_db, keyspaces) = open(&image.crash(mode, at as u64));
            match counted(&keyspaces) {
                0 => none += 1,
                found if found == count as usize => whole += 1,
                found => panic!("{mode:?} left {found} of {count} operations"),
            }
        }
    }
    assert!(whole > 0 && none > 0, "{whole} whole, {none} without it");
    let deleted = keyspaces[1].get(1u32.to_be_bytes()).unwrap();
    assert_eq!(deleted.as_deref(), Some(&1u32.to_le_bytes()[..]));
}

#[test]
fn a_group_of_ten_million_items_is_one_group() {
    let count = if is_long() { 10_000_000u32 } else { 200_000 };
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: 64 << 20, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let groups = KeyspaceOptions { schema: ORDERED, ..KeyspaceOptions::default() };
    let items = db.keyspace("items", groups).unwrap();
    let key = |group: &str, n: u32| [group.as_bytes(), b"/", &n.to_be_bytes()].concat();
    for n in 0..count {
        // Not in their order.
        items.put(key("large", n.wrapping_mul(2_654_435_761)), n.to_le_bytes()).unwrap();
        if n % 1000 == 0 {
            items.put(key("small", n), "beside it").unwrap();
        }
    }
    db.flush().unwrap();
    db.drain().unwrap();
    let mut before: Option<Vec<u8>> = None;
    let mut found = 0u32;
    for item in items.prefix("large/").unwrap() {
        let (key, _) = item.unwrap();
        assert!(before.is_none_or(|before| before < key));
        before = Some(key);
        found += 1;
    }
    assert_eq!(found, count);
    for n in (0..count).step_by(count as usize / 1000) {
        let value = items.get(key("large", n.wrapping_mul(2_654_435_761))).unwrap();
        assert_eq!(value.as_deref(), Some(&n.to_le_bytes()[..]));
    }
    assert_eq!(items.prefix_range("large/", ..(1u32 << 20).to_be_bytes()).unwrap().count(), {
        (0..count).filter(|n| n.wrapping_mul(2_654_435_761) < 1 << 20).count()
    });
    let written = db.stats().wal_bytes_written;
    items.delete_prefix("large/").unwrap();
    assert!(db.stats().wal_bytes_written - written < 200, "a group is deleted by one operation");
    assert_eq!(items.prefix("large/").unwrap().count(), 0);
    assert_eq!(items.iter().unwrap().count() as u32, count.div_ceil(1000));
    db.flush().unwrap();
    items.compact().unwrap();
    assert_eq!(items.stats().table_entries, u64::from(count.div_ceil(1000)));
}

/// Bytes of the tables in a directory; the log's, which are kept for reuse, are half of a store so small.
fn bytes_in(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let tables = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "table"));
    tables.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

#[test]
fn a_snapshot_held_during_overwrites_costs_what_it_shows_and_no_more() {
    let (items_count, rounds) = if is_long() { (1_000_000u32, 100u32) } else { (20_000, 30) };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    // Buffers so small that each round is flushed several times.
    let options =
        Options { memory_budget_bytes: if is_long() { 64 << 20 } else { 1 << 20 }, ..Options::default() };
    let db = Db::open(&path, options).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    let write = |round: u32| {
        for n in 0..items_count {
            items.put(n.to_be_bytes(), [round; 16].map(|round| round as u8)).unwrap();
        }
    };
    // Files that other threads are removing are gone a moment after all is in order.
    let settled = |expected: u64| {
        db.drain().unwrap();
        let patience = Instant::now() + Duration::from_secs(30);
        while bytes_in(&path) >= expected && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        bytes_in(&path)
    };
    write(0);
    let once = settled(u64::MAX);
    let snapshot = db.snapshot();
    let mut most = 0;
    for round in 1..=rounds {
        write(round);
        most = most.max(bytes_in(&path));
        if round % 10 == 0 {
            let n = round * 7 % items_count;
            assert_eq!(snapshot.get(&items, n.to_be_bytes()).unwrap(), Some(vec![0; 16]));
            assert_eq!(items.get(n.to_be_bytes()).unwrap(), Some(vec![round as u8; 16]));
        }
    }
    // Of what is overwritten again and again nothing else is left.
    items.compact().unwrap();
    let held = settled(2 * once + once / 2);
    let seen = snapshot.iter(&items).unwrap().map(Result::unwrap);
    assert_eq!(seen.filter(|(_, value)| *value == [0; 16]).count() as u32, items_count);
    drop(snapshot);
    let after = settled(once + once / 2);
    println!(
        "{items_count} items overwritten {rounds} times: {once} bytes once, {most} at most, {held} with the snapshot, \
         {after} without"
    );
    // What it shows is kept once, whatever was written since.
    assert!(held > once + once / 2, "{held} bytes where a snapshot keeps {once}");
    assert!(held < 2 * once + once / 2, "{held} bytes with the snapshot, {once} before it");
    // Meanwhile a store so small holds several times what is live, by the garbage of its upper levels; never
    // what each round has written.
    assert!(most < 8 * once, "{most} bytes at most, {once} before");
    assert!(after < once + once / 2, "{after} bytes after the snapshot, {once} before it");
    assert_eq!(items.iter().unwrap().count() as u32, items_count);
}

const TABLES_VARIABLE: &str = "SILTSTONE_MANY_TABLES_DIR";

/// How many regions the deepest level of a store of many tables has, each with a table.
fn many_regions() -> u64 {
    if is_long() { 8u64.pow(6) } else { 8u64.pow(4) }
}
/// Files that the process of a store of many tables may have open.
const FEW_FILES: u32 = 256;

/// Every so many items of `count` one is written once more: so few that the time goes to what is there, since
/// each compaction looks at all regions.
fn written_step(count: u64) -> usize {
    (count / 80) as usize
}

#[test]
#[ignore = "another test runs it"]
fn many_tables_child() {
    let Some(dir) = std::env::var_os(TABLES_VARIABLE) else { return };
    let (regions, dir) = (many_regions(), Path::new(&dir));
    let mut design = tiny("leveled");
    let (table_bytes, fanout_bits) = (16 << 10, 3);
    for level in design.levels.iter_mut().skip(1) {
        (level.table_bytes, level.fanout_bits) = (table_bytes, fanout_bits);
    }
    let options = Options { memory_budget_bytes: 32 << 20, ..Options::default() };
    let value = |n: u64| vec![n as u8; 300];
    // A few more than the level above the deepest has room for, so that the regions are far from full.
    let count = (regions >> fanout_bits) * table_bytes / 300 * 6 / 5;
    {
        let db = Db::open(dir, options.clone()).unwrap();
        let items = db.keyspace("items", keyspace_options(Schema::Point, design)).unwrap();
        items.ingest((0..count).map(|n| (n.to_be_bytes(), value(n)))).unwrap();
        (0..count)
            .step_by(written_step(count))
            .for_each(|n| items.put(n.to_be_bytes(), value(n + 1)).unwrap());
        db.flush().unwrap();
        db.drain().unwrap();
        let found = items.stats().table_count;
        assert!(found >= regions / 2, "{found} tables");
        drop(items);
        db.close().unwrap();
    }
    let opened = std::time::Instant::now();
    let db = Db::open(dir, options.clone()).unwrap();
    println!("a store of {} tables opens in {:?}", db.stats().keyspaces[0].table_count, opened.elapsed());
    let items = db.get_keyspace("items").unwrap();
    for n in (0..count).step_by(13) {
        let newer = if n.is_multiple_of(written_step(count) as u64) { n + 1 } else { n };
        assert_eq!(items.get(n.to_be_bytes()).unwrap(), Some(value(newer)), "item {n}");
    }
    assert_eq!(items.len().unwrap(), count);
    assert!(db.stats().memory.total <= 32 << 20, "{:?}", db.stats().memory);
    drop(items);
    db.close().unwrap();
    // Who opens it for reading beside a writer holds all files, and is told where that can't be.
    let refused = Db::open_read_only(dir, options).unwrap_err().to_string();
    assert!(refused.contains("ulimit -n"), "{refused}");
}

#[test]
fn a_hundred_thousand_tables_need_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        format!("ulimit -n {FEW_FILES} && exec \"$0\" --exact many_tables_child --ignored --nocapture");
    let child = std::process::Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(TABLES_VARIABLE, dir.path().join("db"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    println!("{said}");
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
}
