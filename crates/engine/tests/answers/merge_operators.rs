//! Merges: operands fold wherever they meet, readers see their own moment, and nothing is lost by an operator
//! that fails or is missing.

use crate::common::*;
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Batch, Db, Design, ErrorKind, Keyspace, KeyspaceOptions, Options, Schema, WriteBufferSpec, WriteOptions,
    decode_set, encode_set,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn counting(schema: Schema, design: Design) -> KeyspaceOptions {
    KeyspaceOptions { merge_operator: Some("add".to_owned()), ..keyspace_options(schema, design) }
}

fn counters(disk: &SimDisk, design: Design) -> (Db, Keyspace) {
    let db = open(disk).unwrap();
    let counters = db.keyspace("counters", counting(Schema::Point, design)).unwrap();
    (db, counters)
}

fn count(keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Option<u64> {
    keyspace.get(key).unwrap().map(|value| u64::from_le_bytes(value.try_into().unwrap()))
}

fn all_designs() -> Vec<Design> {
    let mut designs = tiny_presets();
    designs.extend(log_store_designs());
    designs
}

/// Runs with operands of one key in each of many runs: no filter may hide the older ones.
#[test]
fn operands_in_many_runs_add_up_in_every_design() {
    for design in all_designs() {
        let disk = SimDisk::new();
        let (db, counters) = counters(&disk, design.clone());
        for round in 1..=12u64 {
            for key in 0..60u64 {
                counters.merge(key.to_be_bytes(), (round * (key + 1)).to_le_bytes()).unwrap();
            }
            if round == 5 {
                // Zero again for some, nothing for others.
                (0..60u64).step_by(7).for_each(|key| counters.put(key.to_be_bytes(), [0; 8]).unwrap());
                (0..60u64).step_by(5).for_each(|key| counters.delete(key.to_be_bytes()).unwrap());
            }
            db.flush().unwrap();
            if round % 4 == 0 {
                db.wait_until_idle().unwrap();
            }
            let keys: Vec<_> = (0..60u64).map(u64::to_be_bytes).collect();
            let many = counters.multi_get(&keys).unwrap();
            let listed = contents(&counters);
            for key in 0..60u64 {
                let is_reset = round >= 5 && (key % 7 == 0 || key % 5 == 0);
                let from = if is_reset { 6 } else { 1 };
                let sum: u64 = (from..=round).map(|round| round * (key + 1)).sum();
                let expected = if is_reset && round == 5 && key % 5 == 0 { None } else { Some(sum) };
                let name = key.to_be_bytes();
                assert_eq!(count(&counters, name), expected, "{key} after {round} rounds, {design:?}");
                assert_eq!(many[key as usize], expected.map(|sum| sum.to_le_bytes().to_vec()));
                assert_eq!(listed.get(&name[..]), many[key as usize].as_ref());
            }
        }
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        let killed = disk.crash(CrashMode::Kill, 0);
        let again = open(&killed).unwrap();
        assert_eq!(contents(&again.get_keyspace("counters").unwrap()), contents(&counters), "{design:?}");
    }
}

#[test]
fn increments_take_no_more_memory_than_counters() {
    let disk = SimDisk::new();
    let mut design = tiny("siltstone");
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 64 << 10 };
    let (db, counters) = counters(&disk, design);
    for n in 0..50_000u64 {
        counters.merge((n % 500).to_be_bytes(), 1u64.to_le_bytes()).unwrap();
    }
    let stats = counters.stats();
    // Fifty thousand versions would fill it a dozen times.
    assert_eq!((stats.write_buffer_entries, stats.table_count), (500, 0), "{stats:?}");
    assert!(stats.write_buffer_bytes < 128 << 10, "{stats:?}");
    assert_eq!(contents(&counters).len(), 500);
    assert!(contents(&counters).values().all(|value| value[..] == 100u64.to_le_bytes()));
    drop((db, counters));
    // Replayed likewise.
    let db = open(&disk.crash(CrashMode::Kill, 0)).unwrap();
    assert_eq!(count(&db.get_keyspace("counters").unwrap(), 7u64.to_be_bytes()), Some(100));
}

#[test]
fn long_lists_take_memory_in_proportion() {
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk.clone()), DIR, Options { memory_budget_bytes: 8 << 20, ..options() })
        .unwrap();
    let mut design = tiny("siltstone");
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 1 << 20 };
    let merge_operator = Some("append".to_owned());
    let lists = db
        .keyspace("lists", KeyspaceOptions { merge_operator, ..keyspace_options(Schema::Point, design) })
        .unwrap();
    for n in 0..20_000u64 {
        lists.merge((n % 100).to_be_bytes(), [n as u8; 20]).unwrap();
    }
    // 400,000 bytes; each version kept would be a hundred times as many.
    assert!(db.stats().memory.memtable < 4 << 20, "{:?}", db.stats().memory);
    assert!(contents(&lists).values().all(|list| list.len() == 4_000));
}

#[test]
fn snapshots_and_scans_see_their_own_moment() {
    let disk = SimDisk::new();
    let (db, counters) = counters(&disk, tiny("siltstone"));
    let mut taken = Vec::new();
    for n in 0..200u64 {
        counters.merge(b"a", 1u64.to_le_bytes()).unwrap();
        if n % 10 == 0 {
            taken.push((n + 1, db.snapshot(), counters.iter().unwrap()));
        }
        if n % 37 == 0 {
            db.flush().unwrap();
        }
    }
    for (sum, snapshot, iter) in taken {
        assert_eq!(snapshot.get(&counters, b"a").unwrap().unwrap(), sum.to_le_bytes());
        let listed: Vec<_> = iter.map(Result::unwrap).collect();
        assert_eq!(listed, [(b"a".to_vec(), sum.to_le_bytes().to_vec())]);
    }
}

#[test]
fn a_batch_is_seen_whole_and_may_merge_a_key_again_and_again() {
    let disk = SimDisk::new();
    let (db, counters) = counters(&disk, tiny("siltstone"));
    let mut batch = Batch::new();
    for n in 0..10u64 {
        batch.merge(&counters, b"a", n.to_le_bytes()).unwrap();
        batch.merge(&counters, b"b", 1u64.to_le_bytes()).unwrap();
    }
    batch.put(&counters, b"c", 7u64.to_le_bytes()).unwrap();
    batch.merge(&counters, b"c", 1u64.to_le_bytes()).unwrap();
    batch.merge(&counters, b"d", 1u64.to_le_bytes()).unwrap();
    batch.delete(&counters, b"d").unwrap();
    db.write(&batch, &WriteOptions::default()).unwrap();
    let found = [b"a", b"b", b"c", b"d"].map(|key| count(&counters, key));
    assert_eq!(found, [Some(45), Some(10), Some(8), None]);
}

#[test]
fn deleted_prefixes_are_not_merged_into() {
    for design in tiny_presets() {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let counters = db.keyspace("counters", counting(ORDERED, design)).unwrap();
        let one = 1u64.to_le_bytes();
        // Deleted within a memtable, between memtables, and below the operands.
        for flushes in 0..8 {
            let key = format!("d{flushes}/k");
            let prefix = format!("d{flushes}/");
            counters.merge(&key, one).unwrap();
            if flushes & 1 != 0 {
                db.flush().unwrap();
            }
            counters.delete_prefix(&prefix).unwrap();
            if flushes & 2 != 0 {
                db.flush().unwrap();
            }
            assert_eq!(count(&counters, &key), None);
            counters.merge(&key, one).unwrap();
            if flushes & 4 != 0 {
                db.flush().unwrap();
            }
            counters.merge(&key, one).unwrap();
            assert_eq!(count(&counters, &key), Some(2));
            assert_eq!(
                counters.prefix(&prefix).unwrap().map(Result::unwrap).next().unwrap().1,
                2u64.to_le_bytes()
            );
        }
        db.flush().unwrap();
        db.wait_until_idle().unwrap();
        assert!(contents(&counters).values().all(|value| value[..] == 2u64.to_le_bytes()));
        assert_eq!(contents(&counters).len(), 8);
    }
}

#[test]
fn an_update_sees_merges_and_merges_see_it() {
    for design in all_designs() {
        let disk = SimDisk::new();
        let (db, counters) = counters(&disk, design);
        for round in 0..20u64 {
            for key in 0..30u64 {
                counters.merge(key.to_be_bytes(), 1u64.to_le_bytes()).unwrap();
                let mut calls = 0;
                let double = |old: Option<&[u8]>| {
                    calls += 1;
                    if calls == 1 && key == 3 {
                        // Somebody merges between the read and the write, which must not be lost.
                        counters.merge(key.to_be_bytes(), 1u64.to_le_bytes()).unwrap();
                    }
                    Some((u64::from_le_bytes(old.unwrap().try_into().unwrap()) * 2).to_le_bytes().to_vec())
                };
                counters.update(key.to_be_bytes(), double).unwrap();
                assert_eq!(calls, if key == 3 { 2 } else { 1 });
            }
            if round % 3 == 0 {
                db.flush().unwrap();
            }
        }
        // x → 2 (x + 1), twenty times; of key 3 x → 2 (x + 2).
        let expected = (0..20).fold(0u64, |sum, _| 2 * (sum + 1));
        assert_eq!(count(&counters, 5u64.to_be_bytes()), Some(expected));
        assert_eq!(count(&counters, 3u64.to_be_bytes()), Some(2 * expected));
    }
}

#[test]
fn increments_of_many_threads_add_up_while_others_read() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: 8 << 20, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let counters = db.keyspace("counters", counting(Schema::Point, tiny("siltstone"))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..3_000u64 {
                    counters.merge((n % 10).to_be_bytes(), 1u64.to_le_bytes()).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = [0; 10];
                while last.iter().sum::<u64>() < 12_000 {
                    for (key, last) in (0u64..).zip(&mut last) {
                        let now = count(&counters, key.to_be_bytes()).unwrap_or(0);
                        assert!(now >= *last, "a counter went back from {last} to {now}");
                        *last = now;
                    }
                }
            });
        }
    });
    assert!(contents(&counters).values().all(|value| value[..] == 1_200u64.to_le_bytes()));
}

/// Blind merges of two and of eight threads, with flushes and compactions under way the whole time: nothing
/// is lost or counted twice, before the store is closed and after.
#[test]
fn blind_merges_of_two_and_eight_threads_add_up_after_reopening() {
    const KEYS: u64 = 97;
    const EACH: u64 = 4_000;
    for (threads, design) in [
        (2, tiny("siltstone")),
        (8, tiny("siltstone")),
        (8, tiny("lsm-trie")),
        (8, log_store_designs().remove(1)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { memory_budget_bytes: 8 << 20, ..Options::default() };
        let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
        let counters = db.keyspace("counters", counting(Schema::Point, design)).unwrap();
        let left = AtomicU64::new(threads);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (left, counters) = (&left, &counters);
                scope.spawn(move || {
                    for n in 0..EACH {
                        // Each thread goes through the keys in steps of its own, and adds another number.
                        let key = (n * (thread * 2 + 1)) % KEYS;
                        counters.merge(key.to_be_bytes(), (thread + 1).to_le_bytes()).unwrap();
                    }
                    left.fetch_sub(1, Ordering::Release);
                });
            }
            while left.load(Ordering::Acquire) > 0 {
                db.flush().unwrap();
                counters.compact().unwrap();
            }
        });
        let mut expected = BTreeMap::new();
        for (thread, n) in (0..threads).flat_map(|thread| (0..EACH).map(move |n| (thread, n))) {
            *expected.entry((n * (thread * 2 + 1)) % KEYS).or_insert(0) += thread + 1;
        }
        let expected: BTreeMap<_, _> = expected
            .into_iter()
            .map(|(key, sum): (u64, u64)| (key.to_be_bytes().to_vec(), sum.to_le_bytes().to_vec()))
            .collect();
        let stats = counters.stats();
        assert!(stats.levels.iter().any(|level| level.bytes_written > 0), "nothing was flushed beside them");
        assert!(contents(&counters) == expected, "{threads} threads");
        drop(counters);
        db.close().unwrap();
        let db = Db::open(dir.path().join("db"), options).unwrap();
        assert!(contents(&db.get_keyspace("counters").unwrap()) == expected, "{threads} threads, reopened");
    }
}

#[test]
fn sets_and_lists_gather_over_flushes_and_reopening() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let with = |name: &str| {
        let merge_operator = Some(name.to_owned());
        KeyspaceOptions { merge_operator, ..keyspace_options(Schema::Point, tiny("siltstone")) }
    };
    let tags = db.keyspace("tags", with("set-union")).unwrap();
    let ids = db.keyspace("ids", with("set-union:2")).unwrap();
    let lists = db.keyspace("lists", with("append:2c")).unwrap();
    for n in 0..40u8 {
        tags.merge(b"k", encode_set([[n % 5].as_slice(), &[n % 3, 0]])).unwrap();
        ids.merge(b"k", [9, n % 4, 0, n % 6]).unwrap();
        lists.merge(b"k", n.to_string()).unwrap();
        if n % 7 == 0 {
            db.flush().unwrap();
        }
    }
    drop((tags, ids, lists, db));
    let db = open(&disk.crash(CrashMode::Kill, 0)).unwrap();
    let get = |name: &str| db.get_keyspace(name).unwrap().get(b"k").unwrap().unwrap();
    assert_eq!(decode_set(&get("tags")).unwrap().len(), 8);
    assert_eq!(get("ids"), [0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 9, 0, 9, 1, 9, 2, 9, 3]);
    let expected: Vec<_> = (0..40).map(|n: u8| n.to_string()).collect();
    assert_eq!(String::from_utf8(get("lists")).unwrap(), expected.join(","));
}

#[test]
fn a_failing_operator_is_an_error_on_read_and_loses_nothing() {
    let disk = SimDisk::new();
    for design in all_designs() {
        let disk = SimDisk::new();
        let (db, counters) = counters(&disk, design);
        // No number, so that nothing can be added to it.
        counters.put(b"bad", b"text").unwrap();
        counters.merge(b"good", 1u64.to_le_bytes()).unwrap();
        for _ in 0..3 {
            counters.merge(b"bad", 1u64.to_le_bytes()).unwrap();
            db.flush().unwrap();
            let error = counters.get(b"bad").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MergeFailed);
            assert!(
                error.to_string().contains("\"counters\"") && error.to_string().contains("\"add\""),
                "{error}"
            );
            let listed: Vec<_> =
                counters.iter().unwrap().map(|item| item.map_err(|error| error.kind())).collect();
            assert_eq!(listed.iter().filter(|item| **item == Err(ErrorKind::MergeFailed)).count(), 1);
            assert!(listed.contains(&Ok((b"good".to_vec(), 1u64.to_le_bytes().to_vec()))));
            assert_eq!(count(&counters, b"good"), Some(1));
        }
        db.wait_until_idle().unwrap();
        assert_eq!(counters.get(b"bad").unwrap_err().kind(), ErrorKind::MergeFailed);
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        counters.put(b"bad", 5u64.to_le_bytes()).unwrap();
        counters.merge(b"bad", 1u64.to_le_bytes()).unwrap();
        assert_eq!(count(&counters, b"bad"), Some(6));
    }
    // What no operator could ever apply is refused at once.
    let (_db, counters) = counters(&disk, tiny("siltstone"));
    let error = counters.merge(b"k", b"one").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(counters.get(b"k").unwrap(), None);
}

#[test]
fn operators_are_fixed_and_must_be_there() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let with = |name: &str| KeyspaceOptions {
        merge_operator: Some(name.to_owned()),
        ..keyspace_options(Schema::Point, tiny("siltstone"))
    };
    let error = db.keyspace("none", with("nests")).unwrap_err();
    assert!(
        error.to_string().contains("\"nests\"") && error.to_string().contains("when it opens the store"),
        "{error}"
    );
    let nests = db.keyspace("nests", with("nest")).unwrap();
    assert_eq!(nests.merge_operator(), Some("nest"));
    nests.merge(b"k", b"1").unwrap();
    let error = db.keyspace("nests", with("add")).unwrap_err();
    assert!(error.to_string().contains("\"nest\", not \"add\""), "{error}");
    assert!(db.keyspace("nests", with("nest")).is_ok());
    let plain = db.keyspace("plain", keyspace_options(Schema::Point, tiny("siltstone"))).unwrap();
    assert_eq!(plain.merge(b"k", b"1").unwrap_err().kind(), ErrorKind::InvalidInput);
    let error = nests.put_with_ttl(b"k", b"v", Duration::from_secs(1)).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains("expire"), "{error}");
    db.checkpoint("/copy").unwrap();
    drop((nests, plain, db));
    for dir in [DIR, "/copy"] {
        let without = Options { merge_operators: Default::default(), ..options() };
        let error = Db::open_on(Arc::new(disk.clone()), dir, without).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"nest\"") && error.to_string().contains("\"nests\""), "{error}");
        let db = Db::open_on(Arc::new(disk.clone()), dir, options()).unwrap();
        assert_eq!(db.get_keyspace("nests").unwrap().get(b"k").unwrap().unwrap(), b"(.1)");
    }
}
