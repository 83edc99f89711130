//! What a keyspace holds as a whole: cleared, counted, walked from behind, and listed by beginnings of keys.

use crate::common::bulk::{assert_sound, create, items, open_with, table_files};
use crate::common::*;
use siltstone::io::sim::{CallKind, CrashMode, SimDisk};
use siltstone::{
    Batch, Db, ErrorKind, Ingest, IngestOptions, Keyspace, KeyspaceOptions, Options, PrefixRule, PrefixRules,
    RuleName, Schema, SuffixOrder, WriteOptions, presets,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Puts `count` items a few hundred at a time.
fn fill(db: &Db, keyspace: &Keyspace, count: u32, value_bytes: usize) {
    for part in items(count, value_bytes).chunks(300) {
        let mut batch = Batch::new();
        for (key, value) in part {
            batch.put(keyspace, key, value).unwrap();
        }
        db.write(&batch, &WriteOptions::default()).unwrap();
    }
}

/// Every design, with a snapshot and an iterator under way, write buffers in every state, and a reopening.
#[test]
fn a_cleared_keyspace_is_empty_and_snapshots_keep_what_they_saw() {
    for (number, design) in tiny_presets().into_iter().chain(log_store_designs()).enumerate() {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let (keyspace, other) = (create(&db, "items", design.clone()), create(&db, "other", design));
        fill(&db, &other, 50, 20);
        fill(&db, &keyspace, 2000, 60);
        if number % 2 == 0 {
            db.wait_until_idle().unwrap();
        }
        let (snapshot, mut under_way) = (db.snapshot(), keyspace.iter().unwrap());
        under_way.next().unwrap().unwrap();
        keyspace.clear().unwrap();
        assert_eq!((keyspace.len().unwrap(), keyspace.approximate_len().unwrap()), (0, 0));
        assert!(keyspace.is_empty().unwrap() && !keyspace.contains(numbered_key(7)).unwrap());
        assert_eq!((snapshot.len(&keyspace).unwrap(), under_way.count()), (2000, 1999));
        assert_eq!(other.len().unwrap(), 50);
        // What is written afterwards stays.
        keyspace.put(numbered_key(7), "again").unwrap();
        keyspace.clear().unwrap();
        keyspace.put(numbered_key(8), "again").unwrap();
        drop(snapshot);
        while db.step().unwrap() {}
        assert_sound(&db);
        drop((keyspace, other));
        db.close().unwrap();
        let db = open(&disk).unwrap();
        let found = contents(&db.get_keyspace("items").unwrap());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(numbered_key(8).to_vec(), b"again".to_vec())]);
        assert_eq!(db.get_keyspace("other").unwrap().len().unwrap(), 50);
    }
}

#[test]
fn a_clearance_gives_the_files_back() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    fill(&db, &keyspace, 3000, 60);
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    assert!(table_files(&disk) > 3);
    let before = disk.mutating_calls();
    keyspace.clear().unwrap();
    let calls = disk.mutating_calls() - before;
    assert!(calls < 20, "{calls} calls, however much there is");
    while db.step().unwrap() {}
    assert_eq!(table_files(&disk), 0);
    let written = db.stats().keyspaces[0].levels.iter().map(|level| level.bytes_written).sum::<u64>();
    assert_eq!(written, 0, "counted anew");
}

/// Stopped at every call, with every kind of crash: all is there, or nothing; and what was synced afterwards.
#[test]
fn a_clearance_that_is_stopped_at_any_call_is_whole_or_was_not() {
    let run = |disk: &SimDisk| -> siltstone::Result<()> {
        let db = open(disk)?;
        let keyspace = db.get_keyspace("items").unwrap();
        disk.set_marker(1);
        keyspace.clear()?;
        disk.set_marker(2);
        keyspace.put("later", "value")?;
        db.sync()?;
        disk.set_marker(3);
        while db.step()? {}
        db.close()
    };
    let filled = || {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let keyspace = create(&db, "items", tiny("siltstone"));
        fill(&db, &keyspace, 600, 60);
        db.close().unwrap();
        disk
    };
    let disk = filled();
    disk.record_images(true);
    run(&disk).unwrap();
    let images = disk.take_recorded();
    let mut seen = [0; 3];
    for (call, image) in &images {
        for mode in CrashMode::ALL {
            let disk = image.crash(mode, call.number);
            let db = open(&disk).unwrap();
            let found = contents(&db.get_keyspace("items").unwrap());
            let state = match (found.len(), found.contains_key(&b"later"[..])) {
                (600, false) => 0,
                (0, false) => 1,
                (1, true) => 2,
                what => panic!("{call:?} {mode:?}: {what:?}"),
            };
            assert!(state > 0 || call.marker < 2, "{call:?} {mode:?}: undone");
            assert!(state == 2 || call.marker < 3, "{call:?} {mode:?}: lost");
            seen[state] += 1;
            assert_sound(&db);
        }
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}

#[test]
fn what_is_built_is_not_cleared_and_what_is_gone_neither() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    let give = |ingest: &mut Ingest<'_>| {
        let error = keyspace.clear().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("being built"), "{error}");
        items(2000, 60).iter().try_for_each(|(key, value)| ingest.put(key, value))
    };
    let options = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
    keyspace.ingest_with(&options, give).unwrap();
    assert_eq!(keyspace.len().unwrap(), 2000, "the build goes on");
    let reader =
        Db::open_read_only_on(std::sync::Arc::new(disk.clone()), DIR, crate::common::options()).unwrap();
    let error = reader.get_keyspace("items").unwrap().clear().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    db.drop_keyspace("items").unwrap();
    assert_eq!(keyspace.clear().unwrap_err().kind(), ErrorKind::NoKeyspace);
    db.close().unwrap();
    assert_eq!(keyspace.clear().unwrap_err().kind(), ErrorKind::Closed);
}

/// A read that saw the keyspace before it was cleared is no ground for a write after it.
#[test]
fn a_transaction_over_a_clearance_runs_again() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    for is_flushed in [false, true] {
        keyspace.put("k", "old").unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        let (mut runs, mut seen) = (0, Vec::new());
        db.transaction(&WriteOptions::default(), |tx| {
            runs += 1;
            seen.push(tx.get(&keyspace, "k")?);
            if runs == 1 {
                keyspace.clear()?;
            }
            tx.put(&keyspace, "k2", "new")?;
            Ok::<_, siltstone::Error>(())
        })
        .unwrap();
        assert_eq!((runs, seen.pop().flatten()), (2, None));
        assert_eq!(keyspace.len().unwrap(), 1);
    }
}

/// Writers, compactions, readers and clearances at the same time. Each writer writes its number of the round
/// to all of its keys in one batch; so whatever anybody sees of a writer is whole.
#[test]
fn clearances_beside_writers_readers_and_compactions() {
    const KEYS: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memory_budget_bytes: 4 << 20, background_threads: 2, ..Options::default() };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let design = Some(presets::siltstone().scaled_to(16 << 10));
    let keyspace =
        db.create_keyspace("items", KeyspaceOptions { design, ..KeyspaceOptions::default() }).unwrap();
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let (db, keyspace, is_over, rounds) = (&db, &keyspace, &is_over, &rounds);
    let write = |writer: u64| {
        while !is_over.load(Ordering::Relaxed) {
            let (mut batch, round) = (Batch::new(), rounds.fetch_add(1, Ordering::Relaxed));
            for key in 0..KEYS {
                let value = [round.to_le_bytes().as_slice(), &[7; 200]].concat();
                batch.put(keyspace, [writer.to_be_bytes(), key.to_be_bytes()].concat(), value).unwrap();
            }
            db.write(&batch, &WriteOptions::default()).unwrap();
        }
    };
    let read = |writer: u64| {
        while !is_over.load(Ordering::Relaxed) {
            let keys: Vec<_> =
                (0..KEYS).map(|key| [writer.to_be_bytes(), key.to_be_bytes()].concat()).collect();
            let found = keyspace.multi_get(&keys).unwrap();
            let rounds = found.iter().map(|value| value.as_ref().map(|value| value[..8].to_vec()));
            let rounds: std::collections::BTreeSet<_> = rounds.collect();
            assert_eq!(rounds.len(), 1, "a part of a batch was cleared: {rounds:?}");
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || write(writer));
            scope.spawn(move || read(writer));
        }
        for _ in 0..if is_long() { 300 } else { 40 } {
            keyspace.clear().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(rounds.load(Ordering::Relaxed) > 100);
    db.wait_until_idle().unwrap();
    assert!(db.stats().background_error.is_none());
    assert_sound(db);
    keyspace.clear().unwrap();
    assert!(keyspace.is_empty().unwrap());
}

/// From behind, in groups of many sizes, with suffixes that share their first bytes and some that are long.
#[test]
fn groups_of_any_size_are_walked_from_behind() {
    let disk = SimDisk::new();
    let options = Options { memory_budget_bytes: 64 << 20, ..options() };
    let db = open_with(&disk, options);
    let keyspace = db.create_keyspace("items", keyspace_options(ORDERED, tiny("siltstone"))).unwrap();
    let mut rng = Rng::new(7);
    let sizes = [("one/", 1u32), ("many/", 9000), ("few/", 40)];
    for (group, size) in sizes {
        let mut batch = Batch::new();
        for number in 0..size {
            let suffix = match number % 3 {
                0 => format!("2026-11-{number:06}"),
                1 => format!("{number}"),
                _ => format!("{:08x}", rng.next() as u32),
            };
            let value = rng.bytes(if number % 500 == 0 { 20_000 } else { 30 });
            batch.put(&keyspace, format!("{group}{suffix}"), value).unwrap();
        }
        db.write(&batch, &WriteOptions::default()).unwrap();
    }
    db.wait_until_idle().unwrap();
    for (group, size) in sizes {
        let forth: Vec<_> = keyspace.prefix(group).unwrap().map(Result::unwrap).collect();
        assert!(forth.len() > size as usize * 9 / 10);
        let back: Vec<_> = keyspace.prefix(group).unwrap().rev().map(Result::unwrap).collect();
        assert!(back.iter().eq(forth.iter().rev()), "{group}: {} of {}", back.len(), forth.len());
    }
    // The last item of a large group costs little of a walk over it.
    let reads = || db.stats().device_reads;
    let before = reads();
    keyspace.prefix("many/").unwrap().keys().next_back().unwrap().unwrap();
    let last = reads() - before;
    drop(db.snapshot());
    assert!(last < 200, "{last} reads for the last of 9000 items");
}

/// More than fits of one digest: the walk begins again, and shows all once.
#[test]
fn suffixes_that_agree_in_their_first_bytes_are_walked_from_behind() {
    let disk = SimDisk::new();
    let db = open_with(&disk, Options { memory_budget_bytes: 64 << 20, ..options() });
    let keyspace = db.create_keyspace("items", keyspace_options(ORDERED, tiny("siltstone"))).unwrap();
    let value = vec![1; 50_000];
    for number in 0..300u32 {
        keyspace.put(format!("g/same first bytes {number:05}"), &value).unwrap();
    }
    let back: Vec<_> = keyspace.prefix("g/").unwrap().keys().rev().map(Result::unwrap).collect();
    assert_eq!(back.len(), 300);
    assert!(back.is_sorted_by(|a, b| a > b));
    let items: Vec<_> = keyspace.prefix("g/").unwrap().rev().map(Result::unwrap).collect();
    assert!(items.len() == 300 && items.iter().all(|(_, found)| *found == value));
}

/// Keys alone: values that lie apart are not read.
#[test]
fn keys_are_listed_without_long_values() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let keyspace = create(&db, "items", tiny("siltstone"));
    for number in 0..30 {
        keyspace.put(numbered_key(number), vec![number as u8; 40_000]).unwrap();
    }
    db.flush().unwrap();
    let read = |walk: &dyn Fn() -> usize| {
        let before = db.stats().device_bytes_read;
        assert_eq!(walk(), 30);
        db.stats().device_bytes_read - before
    };
    let keys = read(&|| keyspace.iter().unwrap().keys().map(Result::unwrap).count());
    let all = read(&|| keyspace.iter().unwrap().map(Result::unwrap).count());
    let counted = read(&|| keyspace.len().unwrap() as usize);
    println!("keys: {keys} bytes, counted: {counted}, all: {all}");
    assert!(all > 30 * 40_000 && keys < all * 2 / 3 && counted < all * 2 / 3, "{keys} {counted} {all}");
}

#[test]
fn large_groups_are_reckoned() {
    let disk = SimDisk::new();
    let db = open_with(&disk, Options { memory_budget_bytes: 64 << 20, ..options() });
    let design = presets::siltstone().scaled_to(64 << 10);
    let keyspace = db.create_keyspace("items", keyspace_options(ORDERED, design)).unwrap();
    for group in 0..20u32 {
        let mut batch = Batch::new();
        for number in 0..(if group == 3 { 30_000u32 } else { 500 }) {
            batch.put(&keyspace, format!("group {group}/{number:08}"), [1; 40]).unwrap();
        }
        db.write(&batch, &WriteOptions::default()).unwrap();
    }
    db.wait_until_idle().unwrap();
    let about = keyspace.approximate_len_of("group 3/").unwrap();
    assert!((25_000..35_000).contains(&about), "{about} of 30000");
    assert_eq!(keyspace.approximate_len_of("group 4/").unwrap(), 500);
    assert_eq!(keyspace.approximate_len_of("group 99/").unwrap(), 0);
}

#[test]
fn what_does_not_fit_names_its_keyspace_and_what_does() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let files = db.create_keyspace("files", keyspace_options(ORDERED, tiny("siltstone"))).unwrap();
    let points = create(&db, "points", tiny("siltstone"));
    let snapshot = db.snapshot();
    let long = [0; 65_536];
    let errors = [
        files.get("none").unwrap_err(),
        files.put("none", "").unwrap_err(),
        files.delete("none").unwrap_err(),
        files.contains("none").unwrap_err(),
        files.multi_get(&["a/b", "none"]).unwrap_err(),
        files.insert_if_absent("none", "").unwrap_err(),
        files.add_many([("none", "")]).unwrap_err(),
        files.ingest([("a/b", ""), ("none", "")]).unwrap_err(),
        files.prefix("none").unwrap_err(),
        files.delete_prefix("none").unwrap_err(),
        files.prefix("a/").unwrap().after("none").unwrap_err(),
        snapshot.get(&files, "none").unwrap_err(),
        Batch::new().put(&files, long, "").unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::BadKey, "{error}");
        assert!(error.to_string().contains("keyspace \"files\""), "{error}");
    }
    let error = files.prefix("none").unwrap_err().to_string();
    assert!(error.contains("walk over the keys starting with"), "{error}");
    let error = points.prefix("none").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("keyspace \"points\""), "{error}");
}

/// Up to and including the first byte that is no digit, which none of the engine's own rules can say.
fn leading_digits(key: &[u8]) -> Option<usize> {
    key.iter().position(|byte| !byte.is_ascii_digit()).map(|end| end + 1)
}

#[test]
fn a_rule_of_the_program_divides_keys_as_it_says() {
    let rules = PrefixRules::default().with("leading-digits", leading_digits).unwrap();
    let ruled = || Options { prefix_rules: rules.clone(), ..options() };
    let rule = PrefixRule::Named(RuleName::new("leading-digits").unwrap());
    let schema = Schema::SemiSorted { prefix: rule, suffix: SuffixOrder::Ordered };
    for (at, design) in tiny_presets().into_iter().enumerate() {
        let options = keyspace_options(schema, fitting(design, schema));
        let mut disk = SimDisk::new();
        let mut db = open_with(&disk, ruled());
        let mut keyspace = db.create_keyspace("parts", options.clone()).unwrap();
        // Groups of 1 to 12 digits and a letter; some are the beginnings of others.
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = (0..900u32)
            .map(|n| {
                let group =
                    "123456789012"[..1 + n as usize % 12].to_owned() + ["a", "b"][n as usize / 12 % 2];
                (format!("{group}{n:03}").into_bytes(), numbered_value(n, 40))
            })
            .collect();
        model.iter().for_each(|(key, value)| keyspace.put(key, value).unwrap());
        let error = keyspace.put("12345", "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadKey, "{error}");
        for part in 0..3 {
            if part > 0 {
                drop(keyspace);
                if part == 1 {
                    db.close().unwrap();
                } else {
                    disk = disk.crash(CrashMode::Kill, 0);
                }
                db = open_with(&disk, ruled());
                keyspace = db.get_keyspace("parts").unwrap();
                db.drain().unwrap();
            }
            assert_eq!(contents(&keyspace), model, "design {at}, part {part}");
            for prefix in ["1a", "123b", "123456789012a", "7a"] {
                let expected: Vec<_> =
                    model.iter().filter(|(key, _)| key.starts_with(prefix.as_bytes())).collect();
                let found: Vec<_> = keyspace.prefix(prefix).unwrap().map(Result::unwrap).collect();
                assert!(
                    found.iter().map(|(key, value)| (key, value)).eq(expected.iter().copied()),
                    "{prefix}"
                );
                let from = "500".as_bytes().to_vec();
                let later = keyspace.prefix_range(prefix, from..).unwrap().count();
                let is_later = |key: &&&Vec<u8>| key[prefix.len()..] >= b"500"[..];
                assert_eq!(later, expected.iter().map(|(key, _)| key).filter(is_later).count(), "{prefix}");
            }
            assert_eq!(keyspace.prefix("12").unwrap_err().kind(), ErrorKind::BadKey);
            let gone = ["12a", "1b", "1234a"][part];
            keyspace.delete_prefix(gone).unwrap();
            model.retain(|key, _| !key.starts_with(gone.as_bytes()));
            if part == 1 {
                keyspace.put("1bnew", "1").unwrap();
                model.insert(b"1bnew".to_vec(), b"1".to_vec());
            }
        }
        assert_sound(&db);
        drop(keyspace);
        db.close().unwrap();
        // Whoever opens it gives the rule again.
        let error = open(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let said = error.to_string();
        assert!(said.contains("leading-digits") && said.contains("\"parts\""), "{said}");
        let error = open(&SimDisk::new()).unwrap().create_keyspace("parts", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let said = error.to_string();
        assert!(said.contains("leading-digits") && said.contains("\"parts\""), "{said}");
    }
}

#[test]
fn keyspaces_are_created_once_and_opened_often() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let by_path = || KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    db.create_keyspace("files", by_path()).unwrap();
    let error = db.create_keyspace("files", by_path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyspaceExists);
    assert!(error.to_string().contains("\"files\""), "{error}");
    db.keyspace("files", by_path()).unwrap().put("a/b", "").unwrap();
    let error = db.keyspace("files", KeyspaceOptions::default()).unwrap_err();
    assert!(error.to_string().contains("another schema"), "{error}");
    // All or none.
    let two = [("new", by_path()), ("files", by_path())];
    assert_eq!(db.create_keyspaces(two.clone()).unwrap_err().kind(), ErrorKind::KeyspaceExists);
    assert_eq!(db.keyspaces(), ["files"]);
    assert_eq!(db.open_keyspaces(two).unwrap().len(), 2);
    let error = db.drop_keyspace("flies").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoKeyspace);
    assert!(error.to_string().contains("there are: \"files\", \"new\""), "{error}");
}

#[test]
fn a_scan_that_is_given_up_early_reads_and_holds_little() {
    let disk = SimDisk::new();
    let db = open_with(&disk, Options { memory_budget_bytes: 16 << 20, ..options() });
    let design = presets::siltstone().scaled_to(256 << 10);
    let items = create(&db, "items", design);
    for n in 0..40_000u32 {
        items.put(n.to_be_bytes(), numbered_value(n, 100)).unwrap();
    }
    db.flush().unwrap();
    let read = |most: usize| {
        let before = disk.stats().bytes(CallKind::Read);
        assert_eq!(items.iter().unwrap().take(most).map(Result::unwrap).count(), most);
        disk.stats().bytes(CallKind::Read) - before
    };
    // Indexes are in memory from here on; pages of scans stay out of the cache.
    let all = read(40_000);
    let runs: u64 = items.stats().levels.iter().map(|level| level.max_runs_in_a_region).sum();
    let few = read(1);
    assert!(runs > 1 && few <= runs * 2 * 4096, "{few} bytes for an item of {runs} runs");
    assert!(few > 0 && few * 20 < all && all < 2 * 40_000 * 104, "{few} and {all} bytes");
}
