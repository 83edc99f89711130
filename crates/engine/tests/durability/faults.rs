//! Calls that fail: once or for a while, with EIO, ENOSPC or half a write, anywhere.
//!
//! Whatever fails, an answer is right or an error; an acknowledged write is there as long as the store lives;
//! what was acknowledged as synced is there after a power cut. `SILTSTONE_LONG=1` runs many more seeds.

use crate::common::operations::{KEYSPACES, Op, SMALL, any_effect, operations};
use crate::common::schemas::schema_to_come;
use crate::common::session::Session;
use crate::common::*;
use siltstone::io::sim::{CallKind, CrashMode, Fault, FaultError, SimDisk};
use siltstone::{Db, Design, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Options, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

const KINDS: [CallKind; 10] = [
    CallKind::Create,
    CallKind::Open,
    CallKind::Rename,
    CallKind::Remove,
    CallKind::SyncDir,
    CallKind::Read,
    CallKind::Write,
    CallKind::Write,
    CallKind::Sync,
    CallKind::Len,
];

fn any_fault(rng: &mut Rng) -> Fault {
    let error = match rng.below(3) {
        0 => FaultError::Io,
        1 => FaultError::StorageFull,
        _ => FaultError::ShortWrite { bytes: rng.below(6000) },
    };
    let fault = match rng.below(6) {
        0 => Fault::on_any(error),
        _ => Fault::new(*rng.pick(&KINDS), error),
    };
    let fault = match rng.below(5) {
        0 => fault.on_path(".wal"),
        1 => fault.on_path(".table"),
        2 => fault.on_path("MANIFEST"),
        _ => fault,
    };
    let times = if rng.one_in(2) { 1 } else { rng.range(2, 12) };
    fault.after(rng.below(40)).times(times)
}

fn is_expected(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::StorageFull | ErrorKind::Poisoned)
}

/// A session with what a power cut may leave of it.
struct Faulty {
    session: Session,
    /// What the store held after each write since it was last known to be synced.
    since_sync: Vec<Print>,
    /// What a write that failed may have left.
    in_doubt: Vec<Print>,
}

impl Faulty {
    fn new(seed: u64) -> Self {
        let mut designs = tiny_presets();
        designs.push(random_design(&mut Rng::new(seed)));
        // Each has its turn with point keys, which come first.
        let turn = seed as usize % designs.len();
        designs.rotate_left(turn);
        let session = Session::new(&designs);
        let since_sync = vec![session.model.print()];
        Self { session, since_sync, in_doubt: Vec::new() }
    }

    fn note(&mut self, is_synced: bool) {
        if is_synced {
            self.since_sync.clear();
        }
        self.since_sync.push(self.session.model.print());
    }

    /// Runs an operation that may fail; true where the store is poisoned now.
    fn run(&mut self, op: &Op) -> bool {
        let mut refused = None;
        match op {
            Op::Write { .. } | Op::Ingest(_) | Op::Clear { .. } => {
                let op = match op {
                    Op::Ingest(load) => Op::Ingest(load.alone()),
                    op => op.clone(),
                };
                let mut with = self.session.model.clone();
                self.session.effects(&op).iter().for_each(|effect| with.apply(effect));
                match (self.session.run(&op), &op) {
                    // A build of nothing writes and syncs nothing.
                    (Ok(()), Op::Ingest(load)) => self.note(!load.is_empty()),
                    (Ok(()), op) => self.note(!matches!(op, Op::Write { synced: false, .. })),
                    (Err(error), op) => {
                        assert!(is_expected(&error), "{error:?}");
                        let is_write = matches!(op, Op::Write { .. });
                        if error.kind() == ErrorKind::StorageFull || !is_write {
                            // An edit may be there if that is what failed, which poisons the store.
                            refused = Some(with.print());
                        } else if self.in_doubt.is_empty() {
                            self.in_doubt.push(with.print());
                        }
                    }
                }
            }
            Op::Sync
            | Op::Flush
            | Op::Step
            | Op::StepAll
            | Op::Redesign { .. }
            | Op::ChangeSchema { .. }
            | Op::Compact { .. }
            | Op::Drain => {
                let done = self.session.run(op);
                if let Err(error) = &done {
                    assert!(is_expected(error), "{op:?}: {error:?}");
                }
                // A keyspace may have got its schema, whatever failed after that.
                self.note(matches!(op, Op::Sync) && done.is_ok());
            }
            // After a crash the store may know of an earlier time.
            Op::SetBack { .. } => {}
            Op::Wait { .. } => self.session.run(op).unwrap(),
            Op::Check { seed } => self.peek(*seed),
            Op::Kill | Op::Reopen | Op::TakeSnapshot | Op::DropSnapshot => {}
            Op::Update { .. } | Op::Conditional { .. } | Op::Rebuild { .. } => {}
        }
        // What poisons the store says what failed; the next call says that it is poisoned.
        let failed = self.session.db().step().is_err();
        let next = || self.session.db().step();
        let poisoned = failed && matches!(next(), Err(error) if error.kind() == ErrorKind::Poisoned);
        // A sync may find the disk full as well; what it should have synced is written.
        self.in_doubt.extend(refused.filter(|_| poisoned));
        if self.session.note_schemas() {
            self.note(false);
        }
        if poisoned {
            self.note_schemas_in_doubt();
        }
        poisoned
    }

    /// Notes that a keyspace may have got its schema if the store was poisoned by that.
    fn note_schemas_in_doubt(&mut self) {
        for (name, _) in KEYSPACES {
            if let Some(schema) = schema_to_come(&self.session.keyspace(name)) {
                let mut with = self.session.model.clone();
                with.apply(&Effect::Schema { keyspace: name.into(), schema });
                self.in_doubt.push(with.print());
            }
        }
    }

    /// Reads while calls fail: what is answered is right.
    fn peek(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        let now_ms = self.session.now_ms();
        for (name, expected) in &self.session.model.keyspaces {
            let keyspace = self.session.keyspace(name);
            for _ in 0..20 {
                let key = key(&mut rng, expected.schema, 80);
                match keyspace.get(&key) {
                    Ok(found) => assert_eq!(found, expected.get(&key, now_ms)),
                    Err(error) => assert!(is_expected(&error), "{error:?}"),
                }
            }
            let all: Result<std::collections::BTreeMap<_, _>, _> = keyspace.iter().unwrap().collect();
            match all {
                Ok(all) => assert!(all == expected.live(now_ms), "iteration of {name}"),
                Err(error) => assert!(is_expected(&error), "{error:?}"),
            }
        }
    }

    fn finish(mut self, poisoned: bool, seed: u64) {
        self.session.disk.clear_faults();
        self.session.check(seed);
        let now_ms = self.session.now_ms();
        // A power cut leaves what was synced, or more.
        let mut legal: Vec<u64> =
            self.since_sync.iter().chain(&self.in_doubt).map(|print| print.at(now_ms)).collect();
        for mode in [CrashMode::PowerCut, CrashMode::Torn, CrashMode::Reordered] {
            let disk = self.session.disk.crash(mode, seed);
            let db = open(&disk).unwrap_or_else(|error| panic!("seed {seed}, {mode:?}: {error}"));
            assert!(legal.contains(&print_of(&db).unwrap()), "seed {seed}, {mode:?}");
            assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        }
        // Killed, everything acknowledged is there.
        legal.clear();
        legal.push(self.session.model.print().at(now_ms));
        legal.extend(self.in_doubt.iter().filter(|_| poisoned).map(|print| print.at(now_ms)));
        let disk = self.session.disk.crash(CrashMode::Kill, 0);
        let db = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(
            legal.contains(&print_of(&db).unwrap()),
            "seed {seed}: {:?}",
            difference(&db, &self.session.model, now_ms)
        );
        if !poisoned {
            let synced = Op::Write { effects: vec![any_effect(&mut Rng::new(seed), &SMALL)], synced: true };
            self.session.run(&synced).unwrap();
            self.session.run(&Op::StepAll).unwrap();
            self.session.run(&Op::Reopen).unwrap();
            self.session.check(seed);
        }
    }
}

#[test]
fn no_failure_makes_an_answer_wrong_or_loses_what_was_acknowledged() {
    let (mut poisonings, seeds) = (0, if is_long() { 20_000 } else { 300 });
    for seed in 0..seeds {
        let mut rng = Rng::new(seed ^ 0xFA17);
        let mut faulty = Faulty::new(seed);
        let ops = operations(&mut rng, 80, &SMALL);
        let mut poisoned = false;
        for (number, op) in ops.iter().enumerate() {
            if number == 20 || rng.one_in(25) {
                faulty.session.disk.inject(any_fault(&mut rng));
            }
            poisoned = faulty.run(op);
            if poisoned {
                let (keyspace, key) = ("point".to_owned(), key(&mut rng, Schema::Point, 80));
                let put = Effect::Put { keyspace, key, value: vec![1], expires_at_ms: 0 };
                let write = faulty.session.write(&[put], false);
                assert_eq!(write.unwrap_err().kind(), ErrorKind::Poisoned);
                faulty.peek(seed);
                poisonings += 1;
                break;
            }
        }
        faulty.finish(poisoned, seed);
    }
    assert!(poisonings > seeds / 20 && poisonings < seeds, "{poisonings} of {seeds}");
}

#[test]
fn an_opening_that_fails_changes_nothing() {
    for seed in 0..if is_long() { 3000 } else { 60 } {
        let mut rng = Rng::new(seed ^ 0x09E2);
        let mut session = Session::new(&tiny_presets());
        for op in operations(&mut rng, 40, &SMALL) {
            session.run(&op).unwrap();
        }
        session.shut();
        for _ in 0..3 {
            let mut fault = any_fault(&mut rng);
            fault.after_calls = rng.below(12);
            session.disk.inject(fault);
            if let Err(error) = open(&session.disk) {
                assert!(is_expected(&error), "seed {seed}: {error:?}");
            }
            session.disk.clear_faults();
            session.disk = session.disk.crash(*rng.pick(&CrashMode::ALL), seed);
        }
        session.db = Some(open(&session.disk).unwrap_or_else(|error| panic!("seed {seed}: {error}")));
        // Everything had been closed in order, and so synced.
        session.check(seed);
    }
}

fn store(disk: &SimDisk, options: Options) -> (Db, siltstone::Keyspace) {
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options).unwrap();
    let items = db.keyspace("items", KeyspaceOptions::default()).unwrap();
    (db, items)
}

#[test]
fn a_failed_sync_poisons_until_the_store_is_reopened() {
    type Doing = fn(&Db, &siltstone::Keyspace) -> siltstone::Result<()>;
    let flush: Doing = |db, _| db.flush();
    let sync: Doing = |db, _| db.sync();
    for (kind, path, doing) in
        [(CallKind::Sync, ".wal", sync), (CallKind::Sync, "MANIFEST", flush), (CallKind::SyncDir, "", flush)]
    {
        let disk = SimDisk::new();
        let (db, items) = store(&disk, Options { durability: Durability::Synced, ..options() });
        items.put(b"synced", b"1").unwrap();
        let mut batch = siltstone::Batch::new();
        batch.put(&items, b"buffered", b"1").unwrap();
        let buffered = siltstone::WriteOptions { durability: Some(Durability::Buffered) };
        db.write(&batch, &buffered).unwrap();
        disk.inject(Fault::new(kind, FaultError::Io).on_path(path).times(1));
        assert_eq!(doing(&db, &items).unwrap_err().kind(), ErrorKind::Io, "{kind:?} {path}");
        let refused = items.put(b"later", b"1").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned);
        assert!(refused.to_string().contains("reopen"), "{refused}");
        assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(items.get(b"buffered").unwrap(), Some(b"1".to_vec()));
        assert_eq!(items.get(b"later").unwrap(), None);
        let disk = disk.crash(CrashMode::PowerCut, 0);
        let (_db, items) = store(&disk, options());
        assert_eq!(items.get(b"synced").unwrap(), Some(b"1".to_vec()));
        assert_eq!(items.get(b"later").unwrap(), None);
        items.put(b"later", b"2").unwrap();
    }
}

/// A remark in the log matters only if it is there: the failure to write one ended all writing.
#[test]
fn a_remark_that_can_not_be_written_to_the_log_ends_nothing() {
    let mut failed = 0;
    for after in 0..6 {
        for error in [FaultError::Io, FaultError::ShortWrite { bytes: 20 }] {
            let disk = SimDisk::new();
            let (db, items) = store(&disk, options());
            items.put("before", "1").unwrap();
            let writes = Fault::new(CallKind::Write, error).on_path(".wal").after(after).times(2);
            disk.inject(writes);
            // Nothing but remarks and new segments is written to the log here.
            let (flushed, synced) = (db.flush(), db.sync());
            if disk.failed_calls() == 0 || flushed.is_err() || synced.is_err() {
                continue;
            }
            disk.clear_faults();
            failed += 1;
            items.put("after", "2").unwrap();
            db.sync().unwrap();
            for mode in CrashMode::ALL {
                let disk = disk.crash(mode, after);
                let (_db, items) = store(&disk, options());
                assert_eq!(contents(&items).len(), 2, "{mode:?}");
            }
        }
    }
    assert!(failed > 0, "no remark was met");
}

/// Of two keyspaces that were to be flushed the second could begin no segment of the log, and then the remark in that
/// of the first was refused but for its bytes. The next segment begins where the empty one does. A power cut that kept the
/// remark made it a record; the next segment did not go on from there, and what was synced in it was missed.
#[test]
fn a_remark_that_failed_is_not_read_where_the_next_segment_begins() {
    let mut failed = 0;
    for after in 0..6 {
        let disk = SimDisk::new();
        let (db, items) = store(&disk, options());
        let others = db.keyspace("others", KeyspaceOptions::default()).unwrap();
        items.put("before", "1").unwrap();
        others.put("other", "2").unwrap();
        // It needs the log from its beginning.
        db.keyspace("waiting", KeyspaceOptions::default()).unwrap().put("waits", "3").unwrap();
        let whole = FaultError::ShortWrite { bytes: 1000 };
        disk.inject(Fault::new(CallKind::Write, whole).on_path(".wal").after(after).times(2));
        let flushed = db.flush();
        failed += u64::from(flushed.is_err());
        db.step().unwrap();
        disk.clear_faults();
        others.ingest([("built", "4")]).unwrap();
        items.put("after", "3").unwrap();
        db.sync().unwrap();
        for seed in 0..20 {
            let (_db, items) = store(&disk.crash(CrashMode::Torn, seed), options());
            assert_eq!(contents(&items).len(), 2, "{after}, {seed}");
        }
    }
    assert!(failed > 0, "every segment could be begun");
}

/// Writers wait for flushes, and not for ever where these fail.
#[test]
fn a_writer_is_told_that_flushes_fail_and_writing_goes_on_by_itself() {
    let disk = SimDisk::new();
    let small = Options { memory_budget_bytes: 1 << 20, ..Options::default() };
    let (db, items) = store(&disk, small.clone());
    disk.inject(Fault::new(CallKind::Create, FaultError::Io).on_path(".table"));
    let put = |n: u32| items.put(n.to_le_bytes(), [7; 100]);
    let (taken, refused) = (0..1_000_000).find_map(|n| put(n).err().map(|error| (n, error))).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Io);
    let said = refused.to_string();
    assert!(said.starts_with("writing has stopped, since flushes have failed for "), "{said}");
    assert!(said.ends_with("writing goes on by itself once they succeed, and what was written can be read"));
    assert!(db.stats().background_error.is_some());
    disk.clear_faults();
    // They are tried again every so often.
    let begun = std::time::Instant::now();
    while put(taken).is_err() {
        assert!(begun.elapsed().as_secs() < 60);
    }
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().background_error, None);
    drop((items, db));
    let (_db, items) = store(&disk, small);
    assert_eq!(items.len().unwrap(), u64::from(taken) + 1);
}

#[test]
fn an_edit_whose_write_failed_after_all_its_bytes_does_no_harm() {
    for after in 0..4 {
        let disk = SimDisk::new();
        let (db, items) = store(&disk, options());
        for n in 0..60u32 {
            items.put(n.to_le_bytes(), [1; 100]).unwrap();
        }
        let whole = FaultError::ShortWrite { bytes: 1 << 20 };
        disk.inject(Fault::new(CallKind::Write, whole).on_path("MANIFEST").after(after).times(1));
        let _ = db.flush();
        let crashed = disk.crash(CrashMode::Kill, 0);
        let (again, recovered) = store(&crashed, options());
        assert_eq!(contents(&recovered).len(), 60, "write {after} of the flush");
        assert_eq!(again.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        assert_eq!(contents(&items).len(), 60);
    }
}

/// A crash would find what was refused, and not what was written since.
#[test]
fn what_can_be_neither_written_nor_withdrawn_ends_writing() {
    type Change = fn(&Db, &Keyspace) -> siltstone::Result<()>;
    let changes: [(&str, Change); 4] = [
        ("build", |_, items| items.ingest([(7u32.to_le_bytes(), [2; 9])]).map(|_| ())),
        ("clear", |_, items| items.clear()),
        ("drop", |db, items| db.drop_keyspace(items.name())),
        ("create", |db, _| db.create_keyspace("new", KeyspaceOptions::default()).map(|_| ())),
    ];
    for (name, change) in changes {
        for times in [1, 2] {
            let disk = SimDisk::new();
            let (db, items) = store(&disk, options());
            items.put(1u32.to_le_bytes(), [1; 9]).unwrap();
            db.flush().unwrap();
            let whole = FaultError::ShortWrite { bytes: 1 << 20 };
            disk.inject(Fault::new(CallKind::Write, whole).on_path("MANIFEST").times(times));
            assert_eq!(change(&db, &items).unwrap_err().kind(), ErrorKind::Io, "{name}");
            let put = items.put(2u32.to_le_bytes(), [1; 9]).map_err(|error| error.kind());
            assert_eq!(put, if times == 1 { Ok(()) } else { Err(ErrorKind::Poisoned) }, "{name}");
        }
    }
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_once_there_is_room() {
    for reserve_bytes in [0, 32 << 10] {
        for seed in 0..if is_long() { 200 } else { 8 } {
            let mut rng = Rng::new(seed);
            let disk = SimDisk::new();
            disk.set_capacity(Some(rng.range(60, 300) << 10));
            let (db, items) = store(&disk, Options { reserve_bytes, ..options() });
            let mut model = std::collections::BTreeMap::new();
            for round in 0..3 {
                let mut refused = 0;
                while refused < 5 {
                    let (key, value) =
                        (rng.below(2000).to_le_bytes(), vec![round; rng.range(1, 900) as usize]);
                    match items.put(key, &value) {
                        Ok(()) => {
                            model.insert(key.to_vec(), value);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                            assert!(error.to_string().contains("free some space"), "{error}");
                            refused += 1;
                        }
                    }
                    match db.step() {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}"),
                    }
                }
                if let Err(error) = db.flush() {
                    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                }
                assert!(contents(&items) == model, "seed {seed}, round {round}");
                if reserve_bytes > 0 {
                    // The reserve is for deletes, among others.
                    let key = model.keys().next().unwrap().clone();
                    items.delete(&key).unwrap();
                    model.remove(&key);
                }
                let free = siltstone::io::Disk::free_bytes(&disk, std::path::Path::new("/db")).unwrap();
                let more = rng.range(200, 400) << 10;
                disk.set_capacity(Some(disk.used_bytes() + free + more));
                items.put(b"room", b"again").unwrap();
                model.insert(b"room".to_vec(), b"again".to_vec());
            }
            disk.set_capacity(None);
            db.wait_until_idle().unwrap();
            db.flush().unwrap();
            db.wait_until_idle().unwrap();
            assert!(contents(&items) == model);
            let tables = db.verify(&mut |_| {}).unwrap().tables;
            let names = disk.snapshot().list(DIR).unwrap();
            let files = names.iter().filter(|name| name.ends_with(".table")).count() as u64;
            assert_eq!(files, tables, "failed work has left tables behind");
            let (_db, items) = store(&disk.crash(CrashMode::Kill, 0), options());
            assert!(contents(&items) == model);
        }
    }
}

/// Writes that are logged, converted or due to be merged, and what they leave.
fn written(design: &Design) -> (SimDisk, Db, siltstone::Keyspace, BTreeMap<Vec<u8>, Vec<u8>>) {
    let disk = SimDisk::new();
    let db = Db::open_on(Arc::new(disk.clone()), DIR, options()).unwrap();
    let created = KeyspaceOptions { design: Some(design.clone()), ..KeyspaceOptions::default() };
    let items = db.keyspace("items", created).unwrap();
    let (mut model, mut rng) = (BTreeMap::new(), Rng::new(0xF011));
    for round in 0..5u8 {
        for _ in 0..14 {
            let key = rng.below(120).to_le_bytes().to_vec();
            if rng.one_in(6) {
                items.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = vec![round; rng.range(1, 900) as usize];
                items.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        // The last round stays in the log.
        if round < 4 {
            db.flush().unwrap();
        }
    }
    (disk, db, items, model)
}

#[test]
fn a_disk_full_at_any_call_of_a_conversion_or_merge_loses_nothing() {
    for design in log_store_designs() {
        let (_, db, items, _) = written(&design);
        while db.step().unwrap() {}
        db.flush().unwrap();
        while db.step().unwrap() {}
        let levels = items.stats().levels;
        assert!(levels.iter().skip(1).any(|level| level.bytes_written > 0), "nothing is merged: {levels:?}");
        for kind in [CallKind::Create, CallKind::Write, CallKind::Sync] {
            let mut failures = 0;
            for after in 0.. {
                let (disk, db, items, model) = written(&design);
                let fault = Fault::new(kind, FaultError::StorageFull).on_path(".table");
                disk.inject(fault.after(after).times(3));
                let mut failed = 0;
                // What is due, then the conversion of what is in the log, then what is due by that.
                for _ in 0..200 {
                    match db
                        .step()
                        .and_then(|worked| if worked { Ok(true) } else { db.flush().map(|()| false) })
                    {
                        Ok(true) => {}
                        Ok(false) if items.stats().write_buffer_entries == 0 => break,
                        Ok(false) => {}
                        Err(error) => {
                            assert!(is_expected(&error), "{error:?}");
                            failed += 1;
                            if error.kind() == ErrorKind::Poisoned {
                                break;
                            }
                        }
                    }
                    assert!(contents(&items) == model, "{design:?}, {kind:?} {after}");
                }
                for n in 0..120u64 {
                    let key = n.to_le_bytes();
                    assert_eq!(items.get(key).unwrap().as_ref(), model.get(&key[..]), "{kind:?} {after}");
                }
                disk.clear_faults();
                // A sync that fails, for whatever reason, poisons; other calls leave nothing behind.
                if kind != CallKind::Sync {
                    db.flush().unwrap();
                    while db.step().unwrap() {}
                    let tables = db.verify(&mut |_| {}).unwrap().tables;
                    let names = disk.snapshot().list(DIR).unwrap();
                    let files = names.iter().filter(|name| name.ends_with(".table")).count() as u64;
                    assert_eq!(files, tables, "failed work has left tables behind");
                }
                for mode in [CrashMode::Kill, CrashMode::Torn] {
                    let again = open(&disk.crash(mode, after)).unwrap();
                    let items = again.get_keyspace("items").unwrap();
                    // What was in the log alone had not been synced.
                    if mode == CrashMode::Kill || kind != CallKind::Sync {
                        assert!(contents(&items) == model, "{design:?}, {kind:?} {after}, {mode:?}");
                    }
                    assert_eq!(again.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
                }
                if failed == 0 {
                    break;
                }
                failures += 1;
            }
            println!("{kind:?}: {failures} places to fail");
            assert!(failures >= 2, "{design:?}: {kind:?} failed {failures} times");
        }
    }
}
