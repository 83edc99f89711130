//! Crashes at every call.
//!
//! A trace is a few dozen to a few hundred operations on a simulated disk that keeps an image of every call.
//! For every image and every way of stopping, the store is opened again; all keyspaces together must then
//! hold what they held after exactly k operations, with k no less than what had been promised and no more
//! than what had been asked for. The recovered store must verify, take writes, and agree with itself when
//! opened once more; crashes during recovery too.
//!
//! By default a few traces run. `SILTSTONE_LONG=1 cargo test --release --test durability crash:: -- --nocapture` runs 200
//! of at least 100 operations; `SILTSTONE_SEED=n` runs trace n alone.

use crate::common::trace::Trace;
use crate::common::*;
use siltstone::io::sim::{CallInfo, CallKind, CrashMode, DiskImage, SimDisk};
use siltstone::{Db, KeyspaceOptions, Schema};
use std::ops::AddAssign;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    traces: u64,
    operations: u64,
    /// Calls with an image, each crashed in all four modes.
    crash_points: u64,
    recoveries: u64,
    /// Of these, crashes of a recovery.
    nested: u64,
    /// Traces with an event log.
    logged: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.traces += other.traces;
        self.operations += other.operations;
        self.crash_points += other.crash_points;
        self.recoveries += other.recoveries;
        self.nested += other.nested;
        self.logged += other.logged;
    }
}

/// Crash points that look the same under a mode, with the operations that may be the last.
struct Point<'a> {
    call: &'a CallInfo,
    image: &'a DiskImage,
    at_least: usize,
    at_most: usize,
}

struct Checker<'a> {
    trace: &'a Trace,
    tally: Tally,
    rng: Rng,
    /// The disk at the calls of the last recovery, where they were recorded.
    opening: Vec<(CallInfo, DiskImage)>,
}

impl Checker<'_> {
    fn fail(&self, point: &Point<'_>, mode: CrashMode, seed: u64, what: &str) -> ! {
        panic!(
            "trace {}, {:?} with seed {seed} at {} of operation {} ({}): {what}; {} to {} operations may be there",
            self.trace.seed,
            mode,
            point.call,
            point.call.marker,
            self.trace.describe(point.call.marker as usize),
            point.at_least,
            point.at_most
        )
    }

    fn crash(&mut self, point: &Point<'_>, mode: CrashMode, seed: u64) {
        let disk = point.image.crash(mode, seed);
        let nested = self.rng.one_in(if mode == CrashMode::Kill { 40 } else { 150 });
        disk.record_images(nested);
        let k = match self.recover(&disk, point.at_least, point.at_most) {
            Ok(k) => k,
            Err(what) => self.fail(point, mode, seed, &what),
        };
        if nested {
            // A recovery that is cut short must not change what the next one finds.
            let images = std::mem::take(&mut self.opening);
            let (mut at, step) = (0, 1 + images.len() / 12);
            while let Some((call, image)) = images.get(at) {
                for mode in CrashMode::ALL {
                    let again = image.crash(mode, seed ^ at as u64);
                    self.tally.nested += 1;
                    if let Err(what) = self.recover(&again, k, k) {
                        self.fail(point, mode, seed, &format!("then {mode:?} at {call} of recovery: {what}"));
                    }
                }
                at += step;
            }
        }
    }

    /// Opens the store and finds out how many operations it holds; then uses it and opens it once more.
    fn recover(&mut self, disk: &SimDisk, at_least: usize, at_most: usize) -> Result<usize, String> {
        self.tally.recoveries += 1;
        let db = open_traced(disk, self.trace.seed).map_err(|error| format!("does not open: {error}"))?;
        let found = print_of(&db).map_err(|error| format!("can't be read: {error}"))?;
        self.opening = disk.take_recorded();
        disk.record_images(false);
        let now_ms = siltstone::io::Disk::now_ms(disk);
        let holds = |k: &usize| self.trace.prints[*k].at(now_ms) == found;
        let Some(k) = (at_least..=at_most).rev().find(holds) else {
            let other = (0..self.trace.prints.len()).find(holds);
            return Err(match other {
                Some(k) => format!("holds {k} operations"),
                None => {
                    let nearest = (at_least..=at_most).map(|k| {
                        let differs = difference(&db, &self.trace.model_after(k), now_ms);
                        format!("not {k}: {}", differs.unwrap_or_default())
                    });
                    format!("holds no prefix of the operations ({})", nearest.collect::<Vec<_>>().join("; "))
                }
            });
        };
        let error = |doing: &str, error: siltstone::Error| format!("{doing}: {error}");
        let report = db.verify(&mut |_| {}).map_err(|e| error("verify", e))?;
        if !report.problems.is_empty() {
            return Err(format!("verify says {:?}", report.problems));
        }
        self.use_it(&db, found).map_err(|e| error("more work", e))?;
        let written = print_of(&db).map_err(|e| error("reading what was written", e))?;
        drop(db);
        let again = disk.crash(CrashMode::PowerCut, 0);
        let db = open_traced(&again, self.trace.seed).map_err(|e| error("the second opening", e))?;
        if print_of(&db).map_err(|e| error("reading again", e))? != written {
            return Err("the second opening finds something else".into());
        }
        Ok(k)
    }

    /// Writes, and makes it durable in one way or another.
    fn use_it(&mut self, db: &Db, before: u64) -> siltstone::Result<()> {
        let extra = db.keyspace("extra", KeyspaceOptions::default())?;
        for n in 0..3u8 {
            extra.put([n], b"extra")?;
        }
        match self.rng.below(8) {
            0 => db.flush()?,
            1 => {
                for name in db.keyspaces() {
                    let keyspace = db.get_keyspace(&name).unwrap();
                    if let Some((key, value)) = keyspace.iter()?.next().transpose()? {
                        keyspace.put(&key, &value)?;
                    }
                }
                db.flush()?;
                while db.step()? {}
            }
            2 => return Ok(()),
            _ => {}
        }
        db.sync()?;
        assert_ne!(print_of(db)?, before);
        Ok(())
    }
}

fn run(trace: &Trace) -> Tally {
    let mut checker =
        Checker { trace, tally: Tally::default(), rng: Rng::new(trace.seed ^ 0xC4A5), opening: Vec::new() };
    let last = trace.prints.len() - 1;
    let bounds = |call: &CallInfo, mode: CrashMode| {
        let done = (call.marker as usize).saturating_sub(1);
        let at_least = if mode == CrashMode::Kill { done } else { trace.floors[done] };
        (at_least, (call.marker as usize).min(last))
    };
    fn between<'a>(
        call: &'a CallInfo,
        image: &'a DiskImage,
        first: (usize, usize),
        last: (usize, usize),
    ) -> Point<'a> {
        // Operations between the two made no call, so they changed nothing.
        Point { call, image, at_least: last.0, at_most: first.1.max(last.0) }
    }
    // Images that are the very same disk count as one, with the demands of all of them.
    let mut distinct: Vec<&[(CallInfo, DiskImage)]> = Vec::new();
    for same in trace.images.chunk_by(|a, b| a.1.is_same(&b.1)) {
        distinct.push(same);
    }
    for same in &distinct {
        let ((first, _), (call, image)) = (&same[0], &same[same.len() - 1]);
        for mode in [CrashMode::Kill, CrashMode::Torn, CrashMode::Reordered] {
            let seeds = match mode {
                CrashMode::Kill => 1,
                _ if image.unsynced_ops() == 0 => 0,
                _ => 2,
            };
            let point = between(call, image, bounds(first, mode), bounds(call, mode));
            for seed in 0..seeds {
                let seed = trace.seed ^ (call.number << 8) ^ seed;
                checker.crash(&point, mode, seed);
            }
        }
    }
    // What a power cut leaves changes with syncs only: all images up to the next sync are one crash point to
    // it.
    let is_sync =
        |call: &CallInfo| matches!(call.kind, CallKind::Sync | CallKind::SyncDir | CallKind::CreateDir);
    for group in trace.images.chunk_by(|a, b| !is_sync(&a.0) && b.0.kind != CallKind::CreateDir) {
        let ((first, _), (call, image)) = (&group[0], &group[group.len() - 1]);
        let mode = CrashMode::PowerCut;
        let point = between(call, image, bounds(first, mode), bounds(call, mode));
        checker.crash(&point, mode, 0);
    }
    checker.tally.traces = 1;
    checker.tally.logged = u64::from(trace.disk.read_file("/db/EVENTS").is_ok_and(|log| !log.is_empty()));
    checker.tally.operations = last as u64;
    checker.tally.crash_points = trace.images.len() as u64;
    checker.tally
}

/// Runs traces `from..to` on two threads.
fn run_all(from: u64, to: u64, record: impl Fn(u64) -> Trace + Sync) -> Tally {
    let mut total = Tally::default();
    for tally in on_two_threads(to - from, |number| run(&record(from + number))) {
        total += tally;
    }
    total
}

/// Else no failure could be looked at twice.
#[test]
fn a_seed_gives_the_same_bytes_twice() {
    let files = |seed| {
        let image = Trace::record(seed, 60).disk.snapshot();
        // The event log says how long things took.
        let names = image.list(DIR).unwrap().into_iter().filter(|name| !name.starts_with("EVENTS"));
        let read = |name: String| (image.read_file(format!("{DIR}/{name}")).unwrap(), name);
        names.map(read).collect::<Vec<_>>()
    };
    for seed in 0..6 {
        let (once, twice) = (files(seed), files(seed));
        let differ = once.iter().zip(&twice).find(|(once, twice)| once != twice);
        let differ = differ.map(|((once, a), (twice, b))| (a, once.len(), b, twice.len()));
        assert!(once.len() == twice.len() && differ.is_none(), "seed {seed}: {differ:?}");
    }
}

#[test]
fn every_crash_leaves_a_prefix_that_holds_what_was_promised() {
    let seed = std::env::var("SILTSTONE_SEED").ok().and_then(|seed| seed.parse().ok());
    let (from, to, operations) = match seed {
        Some(seed) => (seed, seed + 1, if is_long() { 100 } else { 40 }),
        None if is_long() => (0, 200, 100),
        None => (1000, 1006, 40),
    };
    let started = std::time::Instant::now();
    let tally = run_all(from, to, |seed| Trace::record(seed, operations));
    println!("{tally:?} in {:.1} s", started.elapsed().as_secs_f64());
    assert_eq!(tally.traces, to - from);
    assert!(tally.logged > 0 || seed.is_some());
    assert!(tally.crash_points > tally.operations);
}

#[test]
fn what_log_stores_hold_survives_every_crash_of_conversions_and_merges() {
    let designs = log_store_designs();
    let started = std::time::Instant::now();
    let (rounds, operations) = if is_long() { (20, 120) } else { (1, 30) };
    let count = designs.len() as u64;
    let tally = run_all(0, rounds * count, |number| {
        let design = &designs[(number % count) as usize];
        let keyspaces = [("point", Schema::Point, Some(design.clone()))];
        let mut traces = (0..).map(|n| Trace::record_on(&keyspaces, 7000 + number * 100 + n, operations));
        let merges = |trace: &Trace| {
            let stats = open(&trace.disk).unwrap().get_keyspace("point").unwrap().stats();
            let mut written = stats.levels.iter().map(|level| level.bytes_written);
            written.next() > Some(0) && written.any(|bytes| bytes > 0)
        };
        traces.find(merges).unwrap()
    });
    println!("{tally:?} in {:.1} s", started.elapsed().as_secs_f64());
    assert!(tally.crash_points > tally.operations);
}

#[test]
fn a_finished_checkpoint_survives_every_crash() {
    for seed in 0..if is_long() { 50 } else { 5 } {
        let trace = Trace::record(5000 + seed, 60);
        let db = open(&trace.disk).unwrap();
        let expected = print_of(&db).unwrap();
        db.checkpoint("/copy").unwrap();
        let image = trace.disk.snapshot();
        for mode in CrashMode::ALL {
            let disk = image.crash(mode, seed);
            let copy = Db::open_on(Arc::new(disk), "/copy", options()).unwrap();
            assert_eq!(print_of(&copy).unwrap(), expected, "trace {seed}, {mode:?}");
            assert_eq!(copy.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        }
    }
}
