//! Bulk builds: what they write, where it comes to lie, and what it costs to read.

use crate::common::bulk::*;
use crate::common::*;
use siltstone::events::{Event, EventListener, Listeners, Work};
use siltstone::io::sim::{CallKind, CrashMode, SimDisk};
use siltstone::{
    Batch, Db, ErrorKind, Ingest, IngestOptions, IngestReport, Keyspace, KeyspaceOptions, Options, Schema,
    WriteOptions, presets,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[test]
fn unsorted_items_are_written_twice_and_sorted_ones_once() {
    let design = presets::siltstone().scaled_to(256 << 10);
    let options = || Options { memory_budget_bytes: 16 << 20, ..crate::common::options() };
    let items = items(120_000, 96);
    let user_bytes: u64 = items.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    let disk = SimDisk::new();
    let db = open_with(&disk, options());
    let keyspace = create(&db, "unsorted", design.clone());
    let written = |disk: &SimDisk, work: &dyn Fn()| {
        let before = disk.stats().bytes(CallKind::Write);
        work();
        (disk.stats().bytes(CallKind::Write) - before) as f64 / user_bytes as f64
    };
    let unsorted = written(&disk, &|| {
        let report = ingest(&keyspace, &items, 1 << 20);
        assert_eq!((report.items, report.entries), (120_000, 120_000));
        assert_eq!(report.user_bytes, user_bytes);
        assert!(report.temporary_bytes > user_bytes * 9 / 10, "{report:?}");
    });
    assert!((1.9..=2.1).contains(&unsorted), "{unsorted} bytes per byte");
    // Statistics say the same.
    let stats = db.stats();
    assert!((1.9..=2.1).contains(&stats.write_amplification), "{}", stats.write_amplification);
    assert!(!db.step().unwrap(), "nothing is left to do");

    // In the order of the store there is no partition pass.
    let in_order: Items = keyspace.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(in_order.len(), items.len());
    let sorted = create(&db, "sorted", design.clone());
    let once = written(&disk, &|| {
        assert_eq!(ingest(&sorted, &in_order, 1 << 20).temporary_bytes, 0);
    });
    assert!((1.0..=1.1).contains(&once), "{once} bytes per byte");
    while db.step().unwrap() {}
    // Nor where all of them fit into memory.
    let fitting = create(&db, "fitting", design);
    let once = written(&disk, &|| {
        assert_eq!(ingest(&fitting, &items, 64 << 20).temporary_bytes, 0);
    });
    assert!((1.0..=1.1).contains(&once), "{once} bytes per byte");
    for keyspace in [&keyspace, &sorted, &fitting] {
        assert_eq!(contents(keyspace), items.iter().cloned().collect());
    }
    assert_eq!(table_files(&disk), tables(&db), "temporary tables are gone");
    assert_sound(&db);
}

/// Device reads per get of every tenth item, found, and of as many that are not there.
fn reads_per_get(keyspace: &Keyspace, count: u32) -> (f64, f64) {
    let reads = |absent: bool| {
        let before = keyspace.stats().tables_probed;
        for number in (0..count).step_by(10) {
            let mut key = numbered_key(number);
            key[10] ^= u8::from(absent);
            assert_eq!(keyspace.get(key).unwrap().is_some(), !absent);
        }
        (keyspace.stats().tables_probed - before) as f64 / f64::from(count.div_ceil(10))
    };
    (reads(false), reads(true))
}

#[test]
fn gets_cost_what_they_cost_after_a_load_that_was_drained() {
    const COUNT: u32 = 20_000;
    let items = items(COUNT, 60);
    for (name, design) in tiny_designs() {
        let disk = SimDisk::new();
        let db = open_with(&disk, Options { memory_budget_bytes: 32 << 20, ..crate::common::options() });
        let put = create(&db, "put", design.clone());
        for chunk in items.chunks(100) {
            let mut batch = Batch::new();
            chunk.iter().for_each(|(key, value)| batch.put(&put, key, value).unwrap());
            db.write(&batch, &WriteOptions::default()).unwrap();
        }
        db.flush().unwrap();
        while db.step().unwrap() {}
        let ingested = create(&db, "ingested", design.clone());
        ingest(&ingested, &items, 256 << 10);
        while db.step().unwrap() {}
        let (hit, miss) = reads_per_get(&ingested, COUNT);
        let (put_hit, put_miss) = reads_per_get(&put, COUNT);
        assert!(hit <= put_hit + 0.05, "{name}: {hit} tables per hit, {put_hit} after puts");
        // A leaf with one run has no Bloom cluster: reading that would cost what reading the table costs.
        assert!(miss <= (put_miss + 0.05).max(1.0), "{name}: {miss} tables per miss, {put_miss} after puts");
        if name == "siltstone" {
            assert!(hit <= 1.015 && miss <= 0.015, "{hit} tables per hit, {miss} per miss");
        }
        assert_eq!(ingested.stats().items_estimate, u64::from(COUNT), "{name}");
        // The trie is as deep as the other, but for the levels that puts pass through.
        let depth = |keyspace: &Keyspace| keyspace.stats().levels.iter().rposition(|level| level.tables > 0);
        let (deep, put_deep) = (depth(&ingested).unwrap(), depth(&put).unwrap());
        assert!(deep <= put_deep + 1 && deep + 1 >= put_deep, "{name}: {deep} levels, {put_deep} after puts");
        assert_sound(&db);
    }
}

#[test]
fn of_items_with_one_key_the_last_one_counts_and_the_trie_does_not_grow_for_the_others() {
    let disk = SimDisk::new();
    let db = open_with(&disk, Options { memory_budget_bytes: 8 << 20, ..crate::common::options() });
    let repeated = create(&db, "repeated", tiny("siltstone"));
    let mut rng = Rng::new(7);
    let all: Items = (0..60_000u32)
        .map(|n| (numbered_key(rng.below(1000) as u32).to_vec(), n.to_le_bytes().to_vec()))
        .collect();
    let report = ingest(&repeated, &all, 64 << 10);
    let last: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!((report.items, report.entries), (60_000, last.len() as u64));
    assert_eq!(contents(&repeated), last);
    // As many levels as the thousand items by themselves, or one more.
    let once = create(&db, "once", tiny("siltstone"));
    ingest(&once, &last.into_iter().collect(), 64 << 10);
    let levels = |keyspace: &Keyspace| keyspace.stats().levels.len();
    assert!(levels(&repeated) <= levels(&once) + 1, "{} of {}", levels(&repeated), levels(&once));
    assert_sound(&db);
}

#[test]
fn no_item_one_item_and_groups_larger_than_a_table() {
    for (name, design) in tiny_designs() {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let keyspace = create(&db, "items", design.clone());
        assert_eq!(keyspace.ingest(Items::new()).unwrap(), IngestReport::default());
        assert_eq!(contents(&keyspace).len(), 0);
        assert_eq!(keyspace.ingest([("k", "v")]).unwrap().entries, 1);
        assert_eq!(keyspace.get("k").unwrap().unwrap(), b"v", "{name}");
        let files = db.keyspace("files", keyspace_options(ORDERED, design)).unwrap();
        let mut items = Items::new();
        for number in 0..3000u32 {
            // One group of a hundred kilobytes among many small ones.
            let group = if number % 2 == 0 { "large".to_owned() } else { format!("dir{number}") };
            items.push((format!("{group}/{number:05}").into_bytes(), numbered_value(number, 60)));
        }
        for sort_bytes in [0, 1 << 20] {
            ingest(&files, &items, sort_bytes);
            assert_eq!(contents(&files), items.iter().cloned().collect(), "{name}");
            assert_eq!(files.prefix("large/").unwrap().count(), 1500);
            assert_sound(&db);
            while db.step().unwrap() {}
            assert_sound(&db);
        }
    }
}

#[test]
fn budgets_down_to_four_megabytes_hold_any_number_of_items() {
    for budget in [4 << 20, 8 << 20] {
        let disk = SimDisk::new();
        let db = open_with(&disk, Options { memory_budget_bytes: budget, ..crate::common::options() });
        let keyspace = create(&db, "items", presets::siltstone().scaled_to(128 << 10));
        // So many sorted parts that they can't be merged at once.
        let items = items(60_000, 100);
        let report = ingest(&keyspace, &items, 32 << 10);
        assert!(report.temporary_bytes > 2 * report.user_bytes / 3);
        assert_eq!(contents(&keyspace), items.into_iter().collect());
        assert_eq!(table_files(&disk), tables(&db));
        assert_sound(&db);
    }
}

#[test]
fn what_was_there_is_older_and_what_is_written_meanwhile_newer() {
    for (name, design) in tiny_designs() {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let keyspace = create(&db, "items", design);
        let put = |from: u32, to: u32, value: &str| {
            (from..to).for_each(|n| keyspace.put(numbered_key(n), format!("{value}{n}")).unwrap());
        };
        put(0, 300, "before");
        db.flush().unwrap();
        put(200, 400, "buffered");
        let options = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
        let give = |ingest: &mut Ingest<'_>| {
            for n in 100..1000u32 {
                ingest.put(numbered_key(n), format!("ingested{n}"))?;
                if n == 500 {
                    put(450, 600, "meanwhile");
                    (600..650).for_each(|n| keyspace.delete(numbered_key(n)).unwrap());
                    db.flush().unwrap();
                    while db.step().unwrap() {}
                    put(650, 700, "in memory");
                }
            }
            Ok::<_, siltstone::Error>(())
        };
        keyspace.ingest_with(&options, give).unwrap();
        let mut expected = BTreeMap::new();
        for (from, to, value) in
            [(0, 100, "before"), (100, 1000, "ingested"), (450, 600, "meanwhile"), (650, 700, "in memory")]
        {
            expected
                .extend((from..to).map(|n| (numbered_key(n).to_vec(), format!("{value}{n}").into_bytes())));
        }
        (600..650u32).for_each(|n| drop(expected.remove(&numbered_key(n)[..])));
        assert!(contents(&keyspace) == expected, "{name}");
        while db.step().unwrap() {}
        assert!(contents(&keyspace) == expected, "{name} after compactions");
        assert_sound(&db);
        drop((keyspace, db));
        let db = open(&disk.crash(CrashMode::PowerCut, 3)).unwrap();
        let found = contents(&db.get_keyspace("items").unwrap());
        // What was only in memory meanwhile may be lost.
        expected.retain(|_, value| !value.starts_with(b"in memory"));
        assert!(
            expected.iter().all(|(key, value)| found.get(key) == Some(value)),
            "{name} after a power cut"
        );
    }
}

#[test]
fn an_item_that_can_not_be_stored_is_named_and_nothing_is_changed() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let files = db.keyspace("files", keyspace_options(ORDERED, tiny("siltstone"))).unwrap();
    files.put("a/1", "kept").unwrap();
    let error = files.ingest([("a/1", "new"), ("b/2", "new"), ("no group", "new")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadKey);
    assert!(error.to_string().starts_with("item 3: "), "{error}");
    assert_eq!(contents(&files).len(), 1);
    assert_eq!(files.get("a/1").unwrap().unwrap(), b"kept");
    // A bad item can be passed over, and the giver's own errors end the build as well.
    let give = |ingest: &mut Ingest<'_>| {
        assert_eq!(ingest.put("", "x").unwrap_err().kind(), ErrorKind::BadKey);
        ingest.put("c/3", "new").map_err(|error| error.to_string())
    };
    #[derive(Debug)]
    struct Own;
    impl From<siltstone::Error> for Own {
        fn from(_: siltstone::Error) -> Self {
            Self
        }
    }
    files.ingest_with(&IngestOptions::default(), |ingest| give(ingest).map_err(|_| Own)).unwrap();
    assert_eq!(files.get("c/3").unwrap().unwrap(), b"new");
    let big = items(4000, 60);
    let many = |ingest: &mut Ingest<'_>| -> Result<(), Own> {
        big.iter().for_each(|(key, value)| ingest.put([b"d/", key.as_slice()].concat(), value).unwrap());
        Err(Own)
    };
    let options = IngestOptions { sort_bytes: Some(0), ..IngestOptions::default() };
    files.ingest_with(&options, many).unwrap_err();
    assert_eq!(contents(&files).len(), 2);
    while db.step().unwrap() {}
    assert_eq!(table_files(&disk), tables(&db), "temporary tables are gone");
}

/// Remembers what work ended, and how much it wrote.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(Work, u64, u64)>>);

impl EventListener for Heard {
    fn on_event(&self, event: &Event) {
        if let Event::JobEnded(end) = event {
            let entries = end.info.inputs.iter().map(|part| part.entries).sum();
            self.0.lock().unwrap().push((end.info.work, entries, end.bytes_written));
        }
    }
}

#[test]
fn listeners_and_progress_hear_of_a_build() {
    let disk = SimDisk::new();
    let heard = Arc::new(Heard::default());
    let listeners = Listeners::default().with(Arc::<Heard>::clone(&heard));
    let db =
        open_with(&disk, Options { listeners, memory_budget_bytes: 8 << 20, ..crate::common::options() });
    let keyspace = create(&db, "items", tiny("siltstone"));
    let most = Arc::new(Mutex::new((0, 0)));
    let told = Arc::clone(&most);
    let options = IngestOptions {
        sort_bytes: Some(96 << 10),
        progress: Some(Arc::new(move |progress| {
            let mut most = told.lock().unwrap();
            assert!(progress.items >= most.0 && progress.placed_bytes >= most.1);
            *most = (progress.items, progress.placed_bytes);
        })),
    };
    let items = items(6000, 60);
    let report = keyspace
        .ingest_with(&options, |ingest| items.iter().try_for_each(|(key, value)| ingest.put(key, value)))
        .unwrap();
    assert_eq!(*most.lock().unwrap(), (6000, report.user_bytes));
    let heard = heard.0.lock().unwrap();
    let of = |work: Work| heard.iter().filter(move |(heard, ..)| *heard == work);
    let sorted: u64 = of(Work::SortItems).map(|(_, entries, _)| entries).sum();
    assert!(of(Work::SortItems).count() > 5 && sorted == 6000, "each item is divided off once");
    assert_eq!(of(Work::SortItems).map(|(.., bytes)| bytes).sum::<u64>(), report.temporary_bytes);
    let ingested: Vec<_> = of(Work::Ingest).collect();
    assert_eq!(ingested, [&(Work::Ingest, 6000, report.table_bytes)]);
}

#[test]
fn a_build_that_failed_is_repeated_with_another_schema_and_other_items() {
    let dir = tempfile::tempdir().unwrap();
    let build = |options: KeyspaceOptions, items: &[(&str, &str)]| {
        Db::build(dir.path().join("store"), Options::default(), "paths", options, items.iter().copied())
    };
    let refused = build(KeyspaceOptions::default(), &[("a", "1"), ("", "2")]);
    let refused = refused.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadKey, "{refused}");
    // A process that was killed leaves an empty keyspace.
    let db = Db::open(dir.path().join("store"), Options::default()).unwrap();
    assert!(db.get_keyspace("paths").is_none());
    drop(db.create_keyspace("paths", KeyspaceOptions::default()).unwrap());
    db.close().unwrap();
    let by_path = || KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    assert_eq!(build(by_path(), &[("a/b", "1"), ("a/c", "2")]).unwrap().items, 2);
    // What holds something stays.
    assert_eq!(build(by_path(), &[("a/d", "1")]).map(drop).unwrap_err().kind(), ErrorKind::KeyspaceExists);
    let db = Db::open_read_only(dir.path().join("store"), Options::default()).unwrap();
    assert_eq!(db.get_keyspace("paths").unwrap().prefix("a/").unwrap().count(), 2);
}

#[test]
fn a_build_that_compacts_what_it_builds_is_told_so_and_waits_for_nothing() {
    let disk = SimDisk::new();
    let db = open_with(&disk, crate::common::options());
    let keyspace = create(&db, "built", presets::siltstone().scaled_to(64 << 10));
    keyspace.put("before", "1").unwrap();
    keyspace
        .ingest_with(&IngestOptions::default(), |ingest| {
            ingest.put("a", "1")?;
            for refused in [keyspace.compact().unwrap_err(), db.compact().unwrap_err()] {
                assert_eq!(refused.kind(), ErrorKind::InvalidInput);
                assert!(refused.to_string().contains("is being built"), "{refused}");
            }
            ingest.put("b", "2")
        })
        .unwrap();
    db.compact().unwrap();
    assert_eq!(keyspace.iter().unwrap().count(), 3);
}
