//! Writes that depend on what is there, in threads, and reads that want less than a copy of the value.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing should fail")]

use siltstone::{Db, ErrorKind, KeyspaceOptions, Options, Update, WriteOptions};
use std::sync::Arc;
use std::time::Duration;

use siltstone::io::sim::SimDisk;

fn open(disk: &SimDisk) -> Db {
    let options = Options { background_threads: 0, sync_interval_ms: 0, ..Options::default() };
    Db::open_on(Arc::new(disk.clone()), "/db", options).unwrap()
}

/// Runs `work` with the numbers of four threads, which all have `db`.
fn in_threads<T: Send>(work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn({
                    let work = &work;
                    move || work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn of_many_who_add_a_key_one_does() {
    let db = open(&SimDisk::new());
    let seen = db.keyspace("seen", KeyspaceOptions::default()).unwrap();
    let added = in_threads(|number| {
        let mut added = 0;
        for round in 0..100u64 {
            let keys: Vec<_> = (round * 3..round * 3 + 7).map(|key| key.to_be_bytes()).collect();
            let value = number.to_be_bytes();
            let new = seen.add_many(keys.iter().map(|key| (key, value))).unwrap();
            added += new.into_iter().filter(|is_new| *is_new).count();
            let own = (1_000_000 + round).to_be_bytes();
            added += usize::from(seen.insert_if_absent(own, value).unwrap());
        }
        added
    });
    assert_eq!(added.iter().sum::<usize>(), seen.iter().unwrap().count());
    assert_eq!(seen.iter().unwrap().count(), 99 * 3 + 7 + 100);
}

#[test]
fn no_change_is_lost() {
    let db = open(&SimDisk::new());
    let counters = db.keyspace("counters", KeyspaceOptions::default()).unwrap();
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    in_threads(|_| {
        for _ in 0..100 {
            counters.update("a", |old| Some((old.map_or(0, number) + 1).to_be_bytes().to_vec())).unwrap();
            loop {
                let old = counters.get("b").unwrap();
                let new = (old.as_deref().map_or(0, number) + 1).to_be_bytes();
                if counters.compare_and_set("b", old.as_deref(), Some(&new)).unwrap().is_set() {
                    break;
                }
            }
        }
    });
    assert_eq!(number(&counters.get("a").unwrap().unwrap()), 400);
    assert_eq!(number(&counters.get("b").unwrap().unwrap()), 400);
}

#[test]
fn transactions_keep_what_holds_of_several_keys() {
    let db = open(&SimDisk::new());
    let left = db.keyspace("left", KeyspaceOptions::default()).unwrap();
    let right = db.keyspace("right", KeyspaceOptions::default()).unwrap();
    left.put("k", [100]).unwrap();
    right.put("k", [100]).unwrap();
    in_threads(|number| {
        for round in 0..50 {
            db.transaction(&WriteOptions::default(), |tx| {
                let (a, b) = (tx.get(&left, "k")?.unwrap()[0], tx.get(&right, "k")?.unwrap()[0]);
                assert_eq!(a + b, 200, "a transaction saw half of another");
                let amount = ((number * 7 + round) % 5) as u8;
                if a >= amount && round % 2 == 0 {
                    tx.put(&left, "k", [a - amount])?;
                    tx.put(&right, "k", [b + amount])?;
                } else if b >= amount {
                    tx.put(&right, "k", [b - amount])?;
                    tx.put(&left, "k", [a + amount])?;
                }
                Ok::<_, siltstone::Error>(())
            })
            .unwrap();
        }
    });
    assert_eq!(left.get("k").unwrap().unwrap()[0] + right.get("k").unwrap().unwrap()[0], 200);
}

#[test]
fn a_users_error_ends_a_change_and_nothing_is_written() {
    #[derive(Debug, PartialEq)]
    enum Refusal {
        TooPoor,
        Store(ErrorKind),
    }
    impl From<siltstone::Error> for Refusal {
        fn from(error: siltstone::Error) -> Self {
            Self::Store(error.kind())
        }
    }
    let db = open(&SimDisk::new());
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put("k", "v").unwrap();
    let options = WriteOptions::default();
    assert_eq!(items.update_with("k", &options, |_| Err(Refusal::TooPoor)), Err(Refusal::TooPoor));
    let refused = db.transaction(&options, |tx| {
        tx.put(&items, "k", "w")?;
        Err::<(), _>(Refusal::TooPoor)
    });
    assert_eq!(refused, Err(Refusal::TooPoor));
    assert_eq!(items.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    let kept = items.update_with("", &options, |_| Ok::<_, Refusal>(Update::Keep));
    assert_eq!(kept, Err(Refusal::Store(ErrorKind::BadKey)));
}

/// A value of 8 MiB overflows its page: asking whether it is there reads that page alone, once.
#[test]
fn contains_reads_no_overflow_pages() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put("large", vec![7; 8 << 20]).unwrap();
    items.put("small", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let items = db.get_keyspace("items").unwrap();
    let bytes_read = || db.stats().device_bytes_read;
    let before = bytes_read();
    assert!(items.contains("large").unwrap());
    assert_eq!(items.contains_many(&["large", "none"]).unwrap(), [true, false]);
    assert!(!items.insert_if_absent("large", "").unwrap());
    assert!(db.snapshot().contains(&items, "large").unwrap());
    assert!(bytes_read() - before <= 2 * 4096, "{} bytes read", bytes_read() - before);
    // A get does read it.
    assert_eq!(items.get_with("large", <[u8]>::len).unwrap(), Some(8 << 20));
    assert!(bytes_read() - before >= 8 << 20);
}

/// Whoever looks at a value may use the store meanwhile.
#[test]
fn a_look_may_write_and_look_again() {
    let db = open(&SimDisk::new());
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put("a", "outer").unwrap();
    items.put("b", "inner").unwrap();
    for _ in 0..3 {
        let seen = items.get_with("a", |outer| {
            items.put("a", outer).unwrap();
            let inner = items.get_with("b", <[u8]>::to_vec).unwrap().unwrap();
            [outer, &inner].concat()
        });
        assert_eq!(seen.unwrap().as_deref(), Some(&b"outerinner"[..]));
        db.flush().unwrap();
    }
}

/// A snapshot, and an iterator, keep what had not expired when they were taken; an update keeps the life.
#[test]
fn snapshots_and_updates_keep_lives() {
    let disk = SimDisk::new();
    disk.set_now_ms(1_000);
    let db = open(&disk);
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put_with_ttl("k", "v", Duration::from_millis(100)).unwrap();
    items.update("k", |_| Some(b"w".to_vec())).unwrap();
    let (snapshot, iter) = (db.snapshot(), items.iter().unwrap());
    disk.set_now_ms(1_100);
    assert_eq!(items.get("k").unwrap(), None, "the update dropped the time to live");
    db.flush().unwrap();
    assert_eq!(snapshot.get(&items, "k").unwrap().as_deref(), Some(&b"w"[..]));
    assert_eq!(snapshot.iter(&items).unwrap().count(), 1);
    assert_eq!(iter.count(), 1);
    assert!(items.insert_if_absent("k", "again").unwrap());
}

#[test]
fn closed_and_opened_twice_are_said_plainly() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    let twice = Db::open(dir.path().join("db"), Options::default()).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Locked);
    assert!(twice.to_string().contains("open in this process already"), "{twice}");
    db.close().unwrap();
    assert_eq!(items.get("k").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(items.put("k", "v").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(items.add_many([("k", "v")]).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(items.contains("k").unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_transaction_that_only_reads_runs_on_a_store_that_is_only_read() {
    let disk = SimDisk::new();
    let db = open(&disk);
    db.create_keyspace("items", KeyspaceOptions::default()).unwrap().put("k", "v").unwrap();
    db.close().unwrap();
    let db = Db::open_read_only_on(Arc::new(disk), "/db", Options::default()).unwrap();
    let items = db.get_keyspace("items").unwrap();
    let options = WriteOptions::default();
    let read = db.transaction(&options, |tx| tx.get(&items, "k")).unwrap();
    assert_eq!(read.as_deref(), Some(&b"v"[..]));
    let refused = db.transaction(&options, |tx| tx.put(&items, "k", "w")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_transaction_does_not_read_what_it_wrote_and_has_expired() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let items = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put("gone", "older").unwrap();
    let hour = Duration::from_secs(3600);
    db.transaction(&WriteOptions::default(), |tx| {
        tx.put_with_ttl(&items, "gone", "v", Duration::ZERO)?;
        tx.put_with_ttl(&items, "soon", "v", Duration::from_millis(5))?;
        tx.put_with_ttl(&items, "late", "v", hour)?;
        assert!(!tx.contains(&items, "gone")? && tx.get(&items, "gone")?.is_none());
        disk.set_now_ms(db.clock_ms() + 60_000);
        assert!(tx.get(&items, "soon")?.is_none() && tx.contains(&items, "late")?);
        Ok::<_, siltstone::Error>(())
    })
    .unwrap();
    assert_eq!(items.contains_many(&["gone", "soon", "late"]).unwrap(), [false, false, true]);
}

#[test]
fn what_a_bulk_build_has_brought_since_a_read_is_noticed() {
    let db = open(&SimDisk::new());
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    items.put("g", "1").unwrap();
    let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap_or_default()).unwrap();
    // Nothing else is written between the read and the build, nor between the build and the write.
    let mut runs = 0;
    db.transaction(&WriteOptions::default(), |tx| {
        runs += 1;
        let before = text(tx.get(&items, "g")?);
        if runs == 1 {
            items.ingest([("g", "100")])?;
        }
        tx.put(&items, "g", before + "+1")
    })
    .unwrap();
    assert_eq!((text(items.get("g").unwrap()).as_str(), runs), ("100+1", 2));
    let mut runs = 0;
    items
        .update("g", |before| {
            runs += 1;
            if runs == 1 {
                items.ingest([("g", "200"), ("h", "1")]).unwrap();
            }
            Some([before.unwrap_or_default(), b"+1"].concat())
        })
        .unwrap();
    assert_eq!((text(items.get("g").unwrap()).as_str(), runs), ("200+1", 2));
    assert!(!items.insert_if_absent("h", "2").unwrap());
}
