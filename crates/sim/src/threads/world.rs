//! One store with its threads, and what happens to it.

use super::history::{Bounds, History, Spaces};
use crate::harness::{DIR, Rng, keyspace_options, log_store_designs, options, tiny};
use shuttle::thread;
use siltstone::events::{Event, Listeners};
use siltstone::io::sim::{CrashMode, SimDisk};
use siltstone::{
    Db, Design, ErrorKind, KeyspaceOptions, Options, ResourceOptions, Resources, Result, Schema,
    WriteBufferSpec,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What worlds did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub runs: u64,
    /// Writes that were acknowledged, and reads that were compared.
    pub writes: u64,
    pub reads: u64,
    /// Flushes, compactions and other background work.
    pub jobs: u64,
    /// Moments at which the power failed.
    pub crashes: u64,
    /// Stores that were closed while their threads wrote.
    pub closes: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.writes += other.writes;
        self.reads += other.reads;
        self.jobs += other.jobs;
        self.crashes += other.crashes;
        self.closes += other.closes;
    }
}

/// Who else there is beside writers and readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Nobody,
    Flushes,
    Compacts,
    Syncs,
    Closes,
}

/// A store and its threads, as a seed has them.
#[derive(Clone, Debug)]
pub struct World {
    seed: u64,
    writers: u64,
    writes: u64,
    readers: u64,
    reads: u64,
    background_threads: usize,
    is_shared: bool,
    sync_interval_ms: u64,
    max_sealed_memtables: usize,
    max_open_files: usize,
    memory_budget_bytes: u64,
    design: Design,
    other: Other,
    crashes: usize,
}

/// What one thread does with the store.
type Work = Box<dyn FnOnce(&Db, &Spaces, &History) -> Result<()> + Send>;

/// A design of which a few writes fill write buffers, and a few flushes a region.
fn small_design(rng: &mut Rng) -> Design {
    let presets = ["siltstone", "slimdb", "stepped-merge", "lsm-trie", "silt"];
    let mut design =
        if rng.one_in(5) { rng.pick(&log_store_designs()).clone() } else { tiny(rng.pick::<&str>(&presets)) };
    match &mut design.write_buffer {
        WriteBufferSpec::MemTable { bytes } => *bytes = 4 << 10,
        WriteBufferSpec::LogStore { entries } => *entries = 8,
    }
    let runs = rng.range(2, 3) as u16;
    design.levels.iter_mut().for_each(|level| level.runs = level.runs.min(runs));
    if design.check().is_err() {
        design = tiny("siltstone");
    }
    design
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let others = [Other::Nobody, Other::Flushes, Other::Compacts, Other::Syncs, Other::Closes];
        Self {
            seed,
            writers: rng.range(1, 3),
            writes: rng.range(4, 14),
            readers: rng.range(0, 2),
            reads: rng.range(1, 5),
            background_threads: rng.range(1, 2) as usize,
            is_shared: rng.one_in(4),
            sync_interval_ms: rng.below(2) * 5,
            max_sealed_memtables: rng.range(1, 2) as usize,
            max_open_files: if rng.one_in(2) { 8 } else { 64 },
            memory_budget_bytes: (1 << 20) << rng.below(3),
            design: small_design(&mut rng),
            other: *rng.pick(&others),
            crashes: rng.range(0, 3) as usize,
        }
    }

    fn options(&self) -> Options {
        let resources = ResourceOptions {
            memory_budget_bytes: self.memory_budget_bytes,
            background_threads: self.background_threads,
            max_open_files: self.max_open_files,
            ..ResourceOptions::default()
        };
        Options {
            memory_budget_bytes: self.memory_budget_bytes,
            background_threads: self.background_threads,
            sync_interval_ms: self.sync_interval_ms,
            max_sealed_memtables: self.max_sealed_memtables,
            max_open_files: self.max_open_files,
            resources: self.is_shared.then(|| Resources::new(resources).unwrap()),
            ..options()
        }
    }

    fn open(&self, disk: &SimDisk, options: Options) -> Result<(Db, Spaces)> {
        let db = Db::open_on(Arc::new(disk.clone()), DIR, options)?;
        let items = db.keyspace("items", keyspace_options(Schema::Point, self.design.clone()))?;
        let merge_operator = Some("add".to_owned());
        let sums = KeyspaceOptions { merge_operator, ..keyspace_options(Schema::Point, self.design.clone()) };
        let sums = db.keyspace("sums", sums)?;
        Ok((db, Spaces { items, sums }))
    }

    /// Runs it once, under a scheduler.
    pub fn run(&self, tally: &Mutex<Tally>) {
        let disk = SimDisk::new();
        disk.set_random_seed(self.seed);
        let history = Arc::new(History::new(self.seed, self.writers, &disk));
        let jobs = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&jobs);
        let count = move |event: &Event| {
            counted.fetch_add(u64::from(matches!(event, Event::JobEnded(_))), Ordering::Relaxed);
        };
        let listeners = Listeners::default().with(Arc::new(count));
        let (db, spaces) = self.open(&disk, Options { listeners, ..self.options() }).unwrap();
        disk.record_images(true);
        let mut done = Tally { runs: 1, ..self.use_it(&db, &spaces, &history) };
        drop(spaces);
        let before_close = history.now();
        let closed = db.close();
        assert!(closed.is_ok(), "closing says {closed:?}");
        history.note_synced(&before_close);
        done.jobs = jobs.load(Ordering::Relaxed);
        done.crashes = self.crash(&disk, &history);
        self.reopen(&disk.crash(CrashMode::PowerCut, self.seed), &history.now(), &history);
        tally.lock().unwrap().add(&done);
    }

    /// Lets writers, readers and whoever else there is use the store, and waits for all of them.
    fn use_it(&self, db: &Db, spaces: &Spaces, history: &Arc<History>) -> Tally {
        let (writes, reads) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        let mut start = |work: Work| {
            let (db, spaces, history) = (db.clone(), spaces.clone(), Arc::clone(history));
            threads.push(thread::spawn(move || match work(&db, &spaces, &history) {
                Err(error) if error.kind() == ErrorKind::Closed => {}
                outcome => outcome.unwrap(),
            }));
        };
        for writer in 0..self.writers {
            let (count, done) = (self.writes, Arc::clone(&writes));
            start(Box::new(move |db, spaces, history| {
                (0..count).try_for_each(|_| {
                    history.write(db, spaces, writer)?;
                    done.fetch_add(1, Ordering::Relaxed);
                    history.look(spaces, writer)
                })
            }));
        }
        for reader in 0..self.readers {
            let (world, done) = (self.clone(), Arc::clone(&reads));
            start(Box::new(move |db, spaces, history| {
                let mut rng = Rng::new(world.seed ^ (reader + 1) << 40);
                (0..world.reads).try_for_each(|_| {
                    world.read(db, spaces, history, &mut rng)?;
                    done.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
            }));
        }
        let other = self.other;
        start(Box::new(move |db, _, history| match other {
            Other::Nobody => Ok(()),
            Other::Flushes => db.flush().and_then(|()| db.flush()),
            Other::Compacts => db.compact().map(drop),
            Other::Syncs => {
                let before = history.now();
                db.sync()?;
                history.note_synced(&before);
                Ok(())
            }
            Other::Closes => {
                let before = history.now();
                db.clone().close()?;
                history.note_synced(&before);
                Ok(())
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let closes = u64::from(other == Other::Closes);
        let (writes, reads) = (writes.load(Ordering::Relaxed), reads.load(Ordering::Relaxed));
        Tally { writes, reads, closes, ..Tally::default() }
    }

    fn read(&self, db: &Db, spaces: &Spaces, history: &History, rng: &mut Rng) -> Result<()> {
        if rng.one_in(2) {
            return history.look(spaces, rng.below(self.writers));
        }
        let before = history.now();
        let snapshot = db.snapshot();
        let after = history.now();
        let came = history.check(&snapshot, spaces)?;
        for (writer, came) in came.iter().enumerate() {
            let bounds = before[writer].done..=after[writer].begun;
            assert!(bounds.contains(came), "a snapshot sees {came} of writer {writer}, and not {bounds:?}");
        }
        assert_eq!(history.check(&snapshot, spaces)?, came, "a snapshot has changed");
        Ok(())
    }

    /// Looks at some of the moments at which the power might have failed.
    fn crash(&self, disk: &SimDisk, history: &History) -> u64 {
        let images = disk.take_recorded();
        let mut rng = Rng::new(self.seed ^ 0xc4a5);
        for _ in 0..self.crashes.min(images.len()) {
            // Which moment it is follows from the seed, and what was done by then from the schedule.
            let (call, image) = &images[rng.below(images.len() as u64) as usize];
            let mode = *rng.pick(&CrashMode::ALL);
            let mut bounds = history.at(call.marker);
            if mode == CrashMode::Kill {
                bounds.iter_mut().for_each(|bounds| bounds.synced = bounds.done);
            }
            self.reopen(&image.crash(mode, rng.next()), &bounds, history);
        }
        self.crashes.min(images.len()) as u64
    }

    /// Opens what was found after a crash: every writer came as far as what was synced says, and what was
    /// done is there with all that goes with it.
    fn reopen(&self, disk: &SimDisk, bounds: &[Bounds], history: &History) {
        let alone = Options { background_threads: 0, resources: None, ..self.options() };
        let (db, spaces) = self.open(disk, alone).unwrap();
        let came = history.check(&db.snapshot(), &spaces).unwrap();
        for (writer, came) in came.iter().enumerate() {
            let bounds = bounds[writer].synced..=bounds[writer].begun;
            assert!(
                bounds.contains(came),
                "after a crash writer {writer} has {came} writes, and not {bounds:?}"
            );
        }
        while db.step().unwrap() {}
        assert_eq!(
            history.check(&db.snapshot(), &spaces).unwrap(),
            came,
            "background work has changed something"
        );
        assert_eq!(db.verify(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}
