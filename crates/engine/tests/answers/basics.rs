//! What a keyspace promises, on the ordinary file system and with threads.

use siltstone::{
    Batch, Db, Design, ErrorKind, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder, WriteBufferSpec,
    WriteOptions,
};
use std::collections::BTreeMap;

fn small_design(preset: &str) -> Design {
    let mut design = Design::preset(preset).unwrap();
    design.write_buffer = WriteBufferSpec::MemTable { bytes: 16 << 10 };
    for level in &mut design.levels {
        level.table_bytes = if level.runs == 1 { 64 << 10 } else { 16 << 10 };
    }
    design
}

#[test]
fn a_store_grows_through_its_levels_and_answers() {
    for preset in ["stepped-merge", "leveled", "slimdb", "siltstone"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let schema =
            Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 4 }, suffix: SuffixOrder::Ordered };
        let options =
            KeyspaceOptions { schema, design: Some(small_design(preset)), ..KeyspaceOptions::default() };
        let mut expected = BTreeMap::new();
        {
            let db = Db::open(&path, Options::default()).unwrap();
            let items = db.keyspace("items", options.clone()).unwrap();
            for i in 0u32..40_000 {
                let n = i.wrapping_mul(2_654_435_761) % 30_000;
                let key = [&(n / 100).to_be_bytes()[..], &(n % 100).to_be_bytes()].concat();
                let value = format!("value {i}").into_bytes();
                items.put(&key, &value).unwrap();
                expected.insert(key, value);
            }
            db.wait_until_idle().unwrap();
            let report = db.verify(&mut |_| {}).unwrap();
            assert_eq!(report.problems, Vec::<String>::new());
            let stats = db.stats();
            assert!(stats.keyspaces[0].levels.len() >= 2, "{stats:?}");
            db.close().unwrap();
        }
        let db = Db::open(&path, Options::default()).unwrap();
        let items = db.keyspace("items", options).unwrap();
        for (key, value) in &expected {
            assert_eq!(items.get(key).unwrap().as_ref(), Some(value));
        }
        assert_eq!(items.get(b"none").unwrap(), None);
        let all: BTreeMap<_, _> = items.iter().unwrap().map(Result::unwrap).collect();
        assert_eq!(all, expected);
        for group in [0u32, 7, 299] {
            let prefix = group.to_be_bytes();
            let listed: Vec<_> = items.prefix(prefix).unwrap().map(Result::unwrap).collect();
            let wanted: Vec<_> = expected
                .range(prefix.to_vec()..)
                .take_while(|(key, _)| key.starts_with(&prefix))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            assert_eq!(listed, wanted);
            let (from, to) = (20u32.to_be_bytes().to_vec(), 30u32.to_be_bytes().to_vec());
            let in_range = wanted.iter().filter(|(key, _)| key[4..] >= from[..] && key[4..] < to[..]).count();
            assert_eq!(items.prefix_range(prefix, from..to).unwrap().count(), in_range);
        }
    }
}

#[test]
fn a_batch_is_seen_whole_across_keyspaces() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let a = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let b = db.keyspace("b", KeyspaceOptions::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0u64..2000 {
                let mut batch = Batch::new();
                batch.put(&a, b"n", i.to_le_bytes()).unwrap();
                batch.put(&b, b"n", i.to_le_bytes()).unwrap();
                db.write(&batch, &WriteOptions::default()).unwrap();
            }
        });
        for _ in 0..2000 {
            let snapshot = db.snapshot();
            assert_eq!(snapshot.get(&a, b"n").unwrap(), snapshot.get(&b, b"n").unwrap());
        }
    });
}

#[test]
fn concurrent_updates_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let options =
        KeyspaceOptions { design: Some(small_design("stepped-merge")), ..KeyspaceOptions::default() };
    let counters = db.keyspace("counters", options).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0u64..1000 {
                    let key = (i % 10).to_le_bytes();
                    counters
                        .update(key, |old| {
                            let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
                            Some((old + 1).to_le_bytes().to_vec())
                        })
                        .unwrap();
                }
            });
        }
    });
    for i in 0u64..10 {
        assert_eq!(counters.get(i.to_le_bytes()).unwrap(), Some(400u64.to_le_bytes().to_vec()));
    }
}

#[test]
fn a_second_opener_is_told_who_holds_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    let error = Db::open(&path, Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put(b"k", b"v").unwrap();
    let reader = Db::open_read_only(&path, Options::default()).unwrap();
    let read = reader.get_keyspace("items").unwrap();
    assert_eq!(read.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(read.put(b"k", b"w").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop((db, items));
    Db::open(&path, Options::default()).unwrap();
}

#[test]
fn one_giant_group_does_not_sink_through_the_trie() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 1 }, suffix: SuffixOrder::Ordered };
    let design = small_design("stepped-merge");
    let named_levels = design.levels.len();
    let items = db
        .keyspace("items", KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() })
        .unwrap();
    for i in 0u32..30_000 {
        let key = [b"d", &i.wrapping_mul(2_654_435_761).to_be_bytes()[..]].concat();
        items.put(&key, [0; 60]).unwrap();
    }
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert!(stats.keyspaces[0].levels.len() <= named_levels, "{:?}", stats.keyspaces[0].levels);
    assert!(stats.write_amplification < 8.0, "{}", stats.write_amplification);
    assert_eq!(items.prefix(b"d").unwrap().count(), 30_000);
}

#[test]
fn many_short_sessions_leave_a_short_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for i in 0u32..40 {
        let db = Db::open(&path, Options::default()).unwrap();
        let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
        items.put(i.to_be_bytes(), b"v").unwrap();
        db.close().unwrap();
    }
    let names =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let segments = names.filter(|name| name.ends_with(".wal")).count();
    assert!(segments <= 8, "{segments} log segments");
    let db = Db::open(&path, Options::default()).unwrap();
    assert_eq!(db.get_keyspace("items").unwrap().iter().unwrap().count(), 40);
}

#[test]
fn a_log_that_lost_its_end_is_missed() {
    for damage in ["header", "cut", "gone"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        {
            let db = Db::open(&path, Options::default()).unwrap();
            let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
            for i in 0u32..1000 {
                items.put(i.to_be_bytes(), b"v").unwrap();
            }
            db.close().unwrap();
        }
        let segments = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let log = segments.filter(|path| path.extension().is_some_and(|e| e == "wal")).max().unwrap();
        match damage {
            "header" => {
                let mut bytes = std::fs::read(&log).unwrap();
                bytes[..1024].fill(0);
                std::fs::write(&log, bytes).unwrap();
            }
            "cut" => std::fs::File::options().write(true).open(&log).unwrap().set_len(5000).unwrap(),
            _ => std::fs::remove_file(&log).unwrap(),
        }
        let error = Db::open(&path, Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{damage}: {error}");
        let options = Options { wal_recovery: siltstone::WalRecovery::StopAtDamage, ..Options::default() };
        let left = Db::open(&path, options).unwrap().get_keyspace("items").unwrap().iter().unwrap().count();
        assert!(left < 1000, "{damage}: {left}");
        Db::open(&path, Options::default()).unwrap();
    }
}

#[test]
fn a_dropped_keyspace_refuses_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    db.drop_keyspace("items").unwrap();
    for error in [items.put(b"k", b"v").unwrap_err(), items.delete(b"k").unwrap_err()] {
        assert!(error.to_string().contains("dropped"), "{error}");
    }
}

#[test]
fn a_closed_store_answers_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 1 }, suffix: SuffixOrder::Ordered };
    let items =
        db.keyspace("items", KeyspaceOptions { schema, design: None, ..KeyspaceOptions::default() }).unwrap();
    for n in 0u8..10 {
        items.put([b'p', n], b"value").unwrap();
    }
    db.flush().unwrap();
    let (snapshot, mut iter) = (db.snapshot(), items.iter().unwrap());
    let (mut back, mut lent) = (items.iter().unwrap(), items.iter().unwrap().keys());
    assert!(back.next_back().is_some_and(|item| item.is_ok()) && lent.next_ref().unwrap().is_some());
    assert!(iter.next().is_some_and(|item| item.is_ok()));
    let mut ended = items.iter().unwrap();
    assert_eq!(ended.by_ref().count(), 10);
    let mut batch = Batch::new();
    batch.put(&items, b"pq", b"value").unwrap();
    db.clone().close().unwrap();

    fn refused<T>(result: siltstone::Result<T>) {
        assert_eq!(result.map(|_| ()).unwrap_err().kind(), ErrorKind::Closed);
    }
    refused(items.get([b'p', 0]));
    refused(items.contains([b'p', 0]));
    refused(items.multi_get(&[[b'p', 0]]));
    refused(items.put(b"pq", b"value"));
    refused(items.put_with_ttl(b"pq", b"value", std::time::Duration::from_secs(1)));
    refused(items.delete(b"pq"));
    refused(items.delete_prefix(b"p"));
    refused(items.update(b"pq", |_| None));
    let options = WriteOptions::default();
    refused(items.update_with(b"pq", &options, |_| Ok::<_, siltstone::Error>(siltstone::Update::Keep)));
    refused(items.insert_if_absent("pq", "value"));
    refused(items.compare_and_set("pq", None, None));
    refused(items.get_or_insert_with("pq", Vec::new));
    refused(items.add_many([("pq", "value")]));
    refused(items.delete_many(&["pq"]));
    refused(items.get_with("pq", |value| value.len()));
    refused(items.contains_many(&["pq"]));
    refused(items.ingest([("pq", "value")]));
    refused(items.starting_with("p"));
    refused(items.len());
    refused(items.len_of("p"));
    refused(items.is_empty());
    refused(items.approximate_len());
    refused(items.approximate_len_of("p"));
    refused(items.clear());
    refused(snapshot.get_with(&items, "pq", |value| value.len()));
    refused(snapshot.contains(&items, "pq"));
    refused(snapshot.contains_many(&items, &["pq"]));
    refused(snapshot.multi_get(&items, &["pq"]));
    refused(snapshot.len(&items));
    refused(snapshot.is_empty(&items));
    refused(snapshot.starting_with(&items, "p"));
    refused(db.transaction(&options, |tx| tx.get(&items, "pq")));
    refused(db.keyspace("items", KeyspaceOptions { schema, ..KeyspaceOptions::default() }));
    refused(db.open_keyspaces([("more", KeyspaceOptions::default())]));
    refused(db.backup(dir.path().join("backups")));
    refused(db.tail(db.log_position()));
    refused(db.wait_until_idle());
    refused(items.iter());
    refused(items.prefix(b"p"));
    refused(items.prefix_range(b"p", ..));
    refused(snapshot.get(&items, b"pq"));
    refused(snapshot.iter(&items));
    refused(snapshot.prefix(&items, b"p"));
    refused(snapshot.prefix_range(&items, b"p", ..));
    refused(db.snapshot().get(&items, b"pq"));
    refused(db.write(&batch, &WriteOptions::default()));
    refused(db.keyspace("more", KeyspaceOptions::default()));
    refused(db.drop_keyspace("items"));
    refused(db.sync());
    refused(db.flush());
    refused(db.step());
    refused(db.verify(&mut |_| {}));
    refused(db.checkpoint(dir.path().join("copy")));
    // An iterator says so once, unless it had come to its end.
    refused(iter.next().unwrap());
    assert!(iter.next().is_none());
    assert!(ended.next().is_none());
    refused(back.next_back().unwrap());
    assert!(back.next_back().is_none() && back.next().is_none());
    refused(lent.next_ref().map(|_| ()));
    // It is closed once, and whoever opens it next finds all of it.
    db.close().unwrap();
    let db = Db::open(&path, Options::default()).unwrap();
    assert_eq!(db.get_keyspace("items").unwrap().iter().unwrap().count(), 10);
}
