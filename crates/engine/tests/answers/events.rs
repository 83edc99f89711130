//! Events: what listeners hear of background work is what was done.

use crate::common::*;
use siltstone::events::{
    Event, EventListener, JobEnd, JobInfo, Listeners, LoggedEvent, Reason, RegionReason, Work,
};
use siltstone::inspect::{Inspection, file};
use siltstone::io::sim::{CallKind, Fault, FaultError, SimDisk};
use siltstone::{Db, ErrorKind, IndexLoading, Keyspace, KeyspaceOptions, Options};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Keeps every event.
#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Recorder {
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// The jobs that ended, of those taken.
    fn take_ends(&self) -> Vec<JobEnd> {
        ends(self.take())
    }
}

fn ends(events: Vec<Event>) -> Vec<JobEnd> {
    let end = |event| if let Event::JobEnded(end) = event { Some(end) } else { None };
    events.into_iter().filter_map(end).collect()
}

fn listened(recorder: &Arc<Recorder>) -> Options {
    let listener: Arc<dyn EventListener> = Arc::clone(recorder) as _;
    Options { listeners: Listeners::default().with(listener), ..options() }
}

fn open_with(disk: &SimDisk, options: Options) -> Db {
    Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap()
}

fn users(db: &Db, preset: &str) -> Keyspace {
    let options = KeyspaceOptions { design: Some(tiny(preset)), ..KeyspaceOptions::default() };
    db.keyspace("users", options).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("user{n:06}").into_bytes()
}

/// Writes, overwrites and deletes `items` items, and does what is due after every few.
fn fill(db: &Db, users: &Keyspace, items: u64) {
    let mut rng = Rng::new(7);
    for n in 0..items {
        users.put(key(rng.below(items)), rng.bytes(40)).unwrap();
        if n % 5 == 0 {
            users.delete(key(rng.below(items))).unwrap();
        }
        if n % 16 == 0 {
            while db.step().unwrap() {}
        }
    }
    db.flush().unwrap();
    while db.step().unwrap() {}
}

/// Every beginning is followed by its end, and no number is used twice.
fn assert_paired(events: &[Event]) {
    let mut under_way: HashMap<u64, &JobInfo> = HashMap::new();
    let mut seen = BTreeSet::new();
    for event in events {
        match event {
            Event::JobBegan(info) => {
                assert!(seen.insert(info.job), "{info} twice");
                under_way.insert(info.job, info);
            }
            Event::JobEnded(end) => assert_eq!(under_way.remove(&end.info.job), Some(&end.info)),
            Event::WritersStalled(_) | Event::GroupHoldsMost(_) => {}
            Event::RedesignBegan(_) | Event::RedesignSettled(_) => {}
            other => panic!("{other}"),
        }
    }
    assert!(under_way.is_empty(), "{under_way:?} never end");
}

#[test]
fn events_add_up_to_what_the_store_holds_and_has_written() {
    for preset in ["stepped-merge", "leveled", "slimdb", "siltstone", "lsm-trie", "silt"] {
        let (disk, recorder) = (SimDisk::new(), Arc::new(Recorder::default()));
        let db = open_with(&disk, listened(&recorder));
        let users = users(&db, preset);
        fill(&db, &users, 1500);
        let events = recorder.take();
        assert_paired(&events);
        // Runs by level as jobs say that they come and go.
        let mut held: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        let (mut written, mut kinds) = (BTreeMap::new(), BTreeSet::new());
        let (mut read_entries, mut kept_entries, mut dropped_entries) = (0, 0, 0);
        for end in ends(events) {
            assert_eq!((end.error.as_ref(), end.info.keyspace.as_deref()), (None, Some("users")), "{end}");
            kinds.insert(format!("{}", end.info.work));
            if !matches!(end.info.work, Work::Flush | Work::Push | Work::Split | Work::Rewrite) {
                continue;
            }
            assert!(end.info.reason.is_some(), "{end}");
            for part in end.info.inputs.iter().filter(|part| part.level.is_some()) {
                let runs = held.get_mut(&part.level.unwrap()).unwrap();
                assert!(part.runs.iter().all(|run| runs.remove(run)), "{preset}: {end}: not all of {runs:?}");
            }
            for part in &end.outputs {
                held.entry(part.level.unwrap()).or_default().extend(&part.runs);
                *written.entry(part.level.unwrap()).or_insert(0) += part.bytes;
            }
            let entries =
                |parts: &[siltstone::events::Part]| parts.iter().map(|part| part.entries).sum::<u64>();
            let (read, kept) = (entries(&end.info.inputs), entries(&end.outputs));
            assert_eq!(read - kept, end.dropped.entries, "{end}");
            let dropped = end.dropped;
            assert_eq!(dropped.entries, dropped.overwritten + dropped.tombstones + dropped.expired, "{end}");
            assert_eq!(end.bytes_written, end.outputs.iter().map(|part| part.bytes).sum::<u64>(), "{end}");
            if end.info.work == Work::Flush {
                read_entries += read;
            }
            dropped_entries += dropped.entries;
            kept_entries = kept_entries + kept - if end.info.work == Work::Flush { 0 } else { read };
        }
        let stats = users.stats();
        for level in &stats.levels {
            let runs = held.get(&level.level).map_or(0, |runs| runs.len() as u64);
            assert_eq!(runs, level.runs, "{preset}: level {}", level.level);
            let written = written.get(&level.level).copied().unwrap_or(0);
            assert_eq!(written, level.bytes_written, "{preset}: level {}", level.level);
        }
        assert_eq!(kept_entries, stats.table_entries, "{preset}");
        assert_eq!(read_entries, kept_entries + dropped_entries, "{preset}");
        assert!(kinds.contains("flush") && kinds.contains("push"), "{preset}: {kinds:?}");
    }
}

#[test]
fn the_events_of_a_small_store_are_exact() {
    let run = || {
        let recorder = Arc::new(Recorder::default());
        let db = open_with(&SimDisk::new(), listened(&recorder));
        let users = users(&db, "stepped-merge");
        // Four flushes fill the top region, which is pushed to its children.
        for flush in 0..4 {
            for n in 0..20 {
                users.put(key(n), [flush; 40]).unwrap();
            }
            db.flush().unwrap();
        }
        while db.step().unwrap() {}
        recorder.take_ends()
    };
    let ends = run();
    let lines: Vec<String> = ends.iter().map(|end| end.info.to_string()).collect();
    assert_eq!(
        lines,
        [
            "[JOB 1] flush \"users\": 20 entries 1000 B begins; because the user asked for it",
            "[JOB 2] flush \"users\": 20 entries 1000 B begins; because the user asked for it",
            "[JOB 3] flush \"users\": 20 entries 1000 B begins; because the user asked for it",
            "[JOB 4] flush \"users\": 20 entries 1000 B begins; because the user asked for it",
            "[JOB 5] push \"users\" L0/root: 4 runs 17.4 KiB begins; because the region is full (17.4 KiB of 16.0 KiB)",
        ]
    );
    let push = &ends[4];
    assert_eq!(push.info.inputs[0].runs.len(), 4);
    let flushed: Vec<u64> = ends[..4].iter().rev().map(|end| end.outputs[0].runs[0]).collect();
    assert_eq!(push.info.inputs[0].runs, flushed, "the newest first");
    assert_eq!((push.dropped.entries, push.dropped.overwritten), (60, 60));
    assert_eq!((push.outputs.len(), push.outputs[0].level, push.outputs[0].entries), (1, Some(1), 20));
    assert_eq!(push.bytes_read - push.bytes_written, push.dropped.bytes);
    // The same calls make the same events, but for the time that they take.
    let timeless = |ends: Vec<JobEnd>| -> Vec<JobEnd> {
        let of = |mut end: JobEnd| {
            end.duration_us = 0;
            end
        };
        ends.into_iter().map(of).collect()
    };
    assert_eq!(timeless(ends), timeless(run()));
}

#[test]
fn every_flush_says_why_its_buffer_was_sealed() {
    let recorder = Arc::new(Recorder::default());
    let disk = SimDisk::new();
    let reasons = || -> Vec<Reason> {
        let flushes = recorder.take_ends().into_iter().filter(|end| end.info.work == Work::Flush);
        flushes.map(|end| end.info.reason.unwrap()).collect()
    };
    let db = open_with(&disk, listened(&recorder));
    let users = users(&db, "stepped-merge");
    users.put(b"large", [7; 5000]).unwrap();
    while db.step().unwrap() {}
    assert_eq!(reasons(), [Reason::BufferFull { bytes: 5005, entries: 1 }]);
    users.put(b"small", [7; 50]).unwrap();
    db.flush().unwrap();
    assert_eq!(reasons(), [Reason::Requested]);
    drop((users, db));

    // A log longer than it may be makes its oldest part a table.
    let db = open_with(&disk, Options { max_wal_bytes: 600, ..listened(&recorder) });
    let users = db.get_keyspace("users").unwrap();
    for n in 0..10 {
        users.put(key(n), [1; 100]).unwrap();
    }
    while db.step().unwrap() {}
    let found = reasons();
    assert!(matches!(found[..], [Reason::LogTooLong { bytes: 601.., at_most: 600 }, ..]), "{found:?}");
    drop((users, db));

    // A log in many small segments is one after opening.
    for n in 0..5 {
        let db = open_with(&disk, listened(&recorder));
        db.get_keyspace("users").unwrap().put(key(n), b"1").unwrap();
    }
    let found = reasons();
    assert!(matches!(found[..], [Reason::LogScattered { segments: 4.. }]), "{found:?}");

    // Many keyspaces share the memory of one.
    let roomy = Options { max_wal_bytes: 1 << 30, ..listened(&recorder) };
    let db = open_with(&SimDisk::new(), roomy);
    let mut design = tiny("stepped-merge");
    design.write_buffer = siltstone::WriteBufferSpec::MemTable { bytes: 500 << 10 };
    let keyspaces: Vec<Keyspace> = (0..4)
        .map(|n| {
            let options = KeyspaceOptions { design: Some(design.clone()), ..KeyspaceOptions::default() };
            db.keyspace(&format!("k{n}"), options).unwrap()
        })
        .collect();
    for n in 0..1500 {
        keyspaces[n as usize % 4].put(key(n), [1; 400]).unwrap();
    }
    while db.step().unwrap() {}
    let found = reasons();
    let memory = |reason: &Reason| matches!(reason, Reason::MemoryBound { bytes: 1.., at_most: 1.. });
    assert!(found.iter().any(memory), "{found:?}");
}

#[test]
fn a_rewrite_says_how_much_garbage_there_was() {
    let recorder = Arc::new(Recorder::default());
    let db = open_with(&SimDisk::new(), listened(&recorder));
    let users = users(&db, "stepped-merge");
    let mut rng = Rng::new(3);
    for _ in 0..6000 {
        users.put(key(rng.below(150)), rng.bytes(60)).unwrap();
        while db.step().unwrap() {}
    }
    let ends = recorder.take_ends();
    let most = users.design().max_garbage;
    let garbage: Vec<&JobEnd> = ends
        .iter()
        .filter(|end| matches!(end.info.reason, Some(Reason::Planned(RegionReason::Garbage { .. }))))
        .collect();
    assert!(!garbage.is_empty());
    for end in garbage {
        assert_eq!(end.info.work, Work::Rewrite);
        let Some(Reason::Planned(RegionReason::Garbage { garbage, at_most })) = end.info.reason else {
            panic!()
        };
        assert!(garbage >= at_most && at_most == most, "{end}");
        assert!(end.dropped.entries > 0, "{end}");
    }
}

fn remove_sidecars(disk: &SimDisk) {
    let names = siltstone::io::Disk::list(disk, Path::new(DIR)).unwrap();
    let sidecars = names.iter().filter(|name| name.ends_with(".sidecar"));
    let removed = sidecars.map(|name| siltstone::io::Disk::remove(disk, &Path::new(DIR).join(name)).unwrap());
    assert!(removed.count() > 0);
}

#[test]
fn region_filters_and_loads_are_reported() {
    let recorder = Arc::new(Recorder::default());
    for (preset, expected) in [
        ("siltstone", &[Work::BuildFilter][..]),
        ("lsm-trie", &[Work::BuildFilter, Work::WriteFilterFile, Work::CheckSidecar]),
    ] {
        let disk = SimDisk::new();
        let db = open_with(&disk, options());
        fill(&db, &users(&db, preset), 3000);
        drop(db);
        // Without what was kept, filters are made anew, and tables are loaded first.
        if preset == "siltstone" {
            remove_sidecars(&disk);
        }
        let background = Options { index_loading: IndexLoading::InBackground, ..listened(&recorder) };
        let db = open_with(&disk, background);
        while db.step().unwrap() {}
        let events = recorder.take();
        assert_paired(&events);
        let ends = ends(events);
        let tables = db.get_keyspace("users").unwrap().stats().table_count;
        let count = |work| ends.iter().filter(|end| end.info.work == work).count() as u64;
        assert_eq!(count(Work::LoadTable), tables, "{preset}");
        if preset == "lsm-trie" {
            // A file that lasts is checked; without one of its files a region gets another.
            assert!(count(Work::CheckSidecar) > 0);
            drop(db);
            remove_sidecars(&disk);
            let db = open_with(&disk, listened(&recorder));
            while db.step().unwrap() {}
        }
        let kinds: BTreeSet<String> =
            ends.iter().chain(&recorder.take_ends()).map(|end| end.info.work.to_string()).collect();
        for work in expected {
            assert!(kinds.contains(&work.to_string()), "{preset}: no {work} in {kinds:?}");
        }
        assert!(ends.iter().all(|end| end.error.is_none()));
    }
}

#[test]
fn a_job_that_fails_says_why_and_is_tried_again() {
    let (disk, recorder) = (SimDisk::new(), Arc::new(Recorder::default()));
    let db = open_with(&disk, listened(&recorder));
    let users = users(&db, "stepped-merge");
    for n in 0..60 {
        users.put(key(n), [1; 40]).unwrap();
    }
    disk.inject(Fault::new(CallKind::Create, FaultError::StorageFull).on_path(".table").times(1));
    let error = db.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    disk.clear_faults();
    db.flush().unwrap();
    let events = recorder.take();
    assert_paired(&events);
    let flushes: Vec<JobEnd> = ends(events).into_iter().filter(|end| end.info.work == Work::Flush).collect();
    let (failed, done) = (&flushes[0], flushes.last().unwrap());
    assert!(failed.error.as_ref().unwrap().contains("the disk is full"), "{failed}");
    assert_eq!((failed.outputs.len(), failed.bytes_written), (0, 0));
    assert_eq!((done.error.as_ref(), &done.info.inputs), (None, &failed.info.inputs));
    assert!(done.bytes_written > 0);
}

#[test]
fn listeners_may_read_and_hear_every_job_of_threads_begin_and_end() {
    let recorder = Arc::new(Recorder::default());
    let reads = Arc::new(AtomicU64::new(0));
    let handle: Arc<OnceLock<(Db, Keyspace)>> = Arc::default();
    let (reader, counter) = (Arc::clone(&handle), Arc::clone(&reads));
    let reading = move |_: &Event| {
        let Some((db, users)) = reader.get() else { return };
        users.get(key(1)).unwrap();
        db.snapshot().get(users, key(2)).unwrap();
        users.iter().unwrap().take(3).for_each(|item| drop(item.unwrap()));
        assert!(db.stats().keyspaces.len() == 1);
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let base = listened(&recorder);
    let threads = Options {
        background_threads: 2,
        sync_interval_ms: 1,
        max_sealed_memtables: 1,
        listeners: base.listeners.clone().with(Arc::new(reading)),
        ..base
    };
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), threads).unwrap();
    let users = users(&db, "siltstone");
    assert!(handle.set((db.clone(), users.clone())).is_ok());
    let slowed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (db, users, slowed) = (&db, &users, &slowed);
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                for _ in 0..6000 {
                    slowed.fetch_or(db.is_slowed(), Ordering::Relaxed);
                    users.put(key(rng.below(3000)), rng.bytes(60)).unwrap();
                }
            });
        }
    });
    db.flush().unwrap();
    db.wait_until_idle().unwrap();
    let stalls = db.stats().stalls.count;
    assert!(slowed.load(Ordering::Relaxed) && !db.is_slowed());
    db.close().unwrap();
    let events = recorder.take();
    assert_paired(&events);
    let count = |work| {
        events.iter().filter(|event| matches!(event, Event::JobEnded(end) if end.info.work == work)).count()
    };
    assert!(count(Work::Flush) > 50 && count(Work::Push) > 10 && count(Work::SyncLog) > 0);
    let stalled = events.iter().filter(|event| matches!(event, Event::WritersStalled(_))).count();
    assert_eq!(stalled as u64, stalls);
    assert!(reads.load(Ordering::Relaxed) > 100);
}

#[test]
fn a_listener_that_panics_is_heard_no_more() {
    let recorder = Arc::new(Recorder::default());
    let calls = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&calls);
    let panicking = move |_: &Event| {
        counter.fetch_add(1, Ordering::Relaxed);
        panic!("a listener's own trouble");
    };
    let base = listened(&recorder);
    let listeners = Listeners::default().with(Arc::new(panicking));
    let listeners = base.listeners.iter().fold(listeners, |all, one| all.with(Arc::clone(one)));
    let db = open_with(&SimDisk::new(), Options { listeners, ..base });
    let users = users(&db, "stepped-merge");
    fill(&db, &users, 900);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(recorder.take().len() > 10);
    assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn the_event_log_holds_what_listeners_hear() {
    let recorder = Arc::new(Recorder::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let logged = |recorder: &Arc<Recorder>| Options { event_log_bytes: 1 << 20, ..listened(recorder) };
    let db = Db::open(&path, logged(&recorder)).unwrap();
    fill(&db, &users(&db, "stepped-merge"), 500);
    db.checkpoint(dir.path().join("copy")).unwrap();
    db.close().unwrap();
    let db = Db::open(&path, logged(&recorder)).unwrap();
    fill(&db, &db.get_keyspace("users").unwrap(), 500);
    db.close().unwrap();
    let Inspection::Events(found) = file(&path.join("EVENTS")).unwrap() else { panic!("an event log") };
    assert_eq!(
        (found.unreadable_lines, found.bytes),
        (0, std::fs::metadata(path.join("EVENTS")).unwrap().len())
    );
    let events: Vec<Event> = found.events.iter().map(|logged: &LoggedEvent| logged.event.clone()).collect();
    assert_eq!(events, recorder.take());
    assert!(
        found.events.is_sorted_by_key(|logged| logged.at_ms) && found.events[0].at_ms > 1_600_000_000_000
    );
    assert!(!dir.path().join("copy/EVENTS").exists());
    // A directory with nothing else of a store's is still one to make a store in.
    std::fs::create_dir(dir.path().join("new")).unwrap();
    std::fs::copy(path.join("EVENTS"), dir.path().join("new/EVENTS.old")).unwrap();
    Db::open(dir.path().join("new"), options()).unwrap();
}

#[test]
fn work_goes_on_where_the_event_log_can_not_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    // A directory is in the way.
    std::fs::create_dir_all(path.join("EVENTS")).unwrap();
    let db = Db::open(&path, Options { event_log_bytes: 1 << 20, ..options() }).unwrap();
    fill(&db, &users(&db, "stepped-merge"), 300);
    assert_eq!(db.stats().background_error, None);
    std::fs::remove_dir(path.join("EVENTS")).unwrap();
    users(&db, "stepped-merge").put(b"k", b"v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let Inspection::Events(found) = file(&path.join("EVENTS")).unwrap() else { panic!("an event log") };
    assert!(found.events.len() >= 2, "{found:?}");
}
