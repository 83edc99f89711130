//! Background work: what is due, in which order, and who does it.
//!
//! A flusher, `background_threads` compactors and a syncer. Without threads the same jobs run inside writes once they would
//! have to wait, and one at a time in [`Db::step`](crate::Db::step): every interleaving of work and use can then be tested.

mod compact;
mod describe;
mod flush;
mod limits;
mod residency;
mod sync;

use super::catalog::Catalog;
use super::catalog::shape::VersionShape;
use super::env::Env;
use super::reporter::Reporter;
use crate::error::{Error, Result};
use compact::{Compaction, Running};
pub(super) use describe::FilterJob;
use limits::RateLimit;
use parking_lot::Mutex;
use residency::Unloaded;
use siltstone_design::plan::plan;
use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long idle threads sleep before they look again, for what comes due by time alone.
const IDLE: Duration = Duration::from_secs(1);
/// How long failed work waits before it is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Decides what background work is due, and does it.
pub(crate) struct Scheduler {
    pub(super) env: Arc<Env>,
    pub(super) catalog: Arc<Catalog>,
    /// Held by whoever flushes.
    flushing: Mutex<()>,
    running: Running,
    flush_limit: RateLimit,
    compaction_limit: RateLimit,
    reporter: Arc<Reporter>,
    pub(super) filters: FilterWork,
}

#[derive(Default)]
pub(super) struct FilterWork {
    pub guiding: Mutex<HashSet<u64>>,
    pub notes: Mutex<Vec<String>>,
}

/// Work other than flushes, the most urgent first.
enum Job {
    /// Filter and index of a table come into memory.
    LoadTable(Unloaded),
    /// A full region is pushed, split or rewritten.
    Compact(Compaction),
}

impl Scheduler {
    pub fn new(env: &Arc<Env>, catalog: &Arc<Catalog>, reporter: &Arc<Reporter>) -> Self {
        Self {
            env: Arc::clone(env),
            catalog: Arc::clone(catalog),
            flushing: Mutex::new(()),
            running: Running::default(),
            flush_limit: RateLimit::new(env.options.flush_bytes_per_second),
            compaction_limit: RateLimit::new(env.options.compaction_bytes_per_second),
            reporter: Arc::clone(reporter),
            filters: FilterWork::default(),
        }
    }

    /// Returns the job that is most urgent, marked as under way; none where nothing is due.
    fn next_job(&self) -> Option<Job> {
        let load = || self.unloaded().map(Job::LoadTable);
        let compact = || self.take_compaction().map(Job::Compact);
        load().or_else(compact)
    }

    fn run(&self, job: Job) -> Result<()> {
        match job {
            Job::LoadTable(unloaded) => self.load_table(&unloaded),
            Job::Compact(compaction) => {
                let outcome = self.compact(compaction);
                self.env.empty_trash();
                return outcome;
            }
        }
        Ok(())
    }

    /// Flushes one write buffer of any keyspace; false where none is sealed.
    fn flush_any(&self) -> Result<bool> {
        self.evict();
        for keyspace in self.catalog.all() {
            if self.flush_one(&keyspace)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does the most urgent job other than a flush; false where nothing is due.
    fn work_once(&self) -> Result<bool> {
        self.evict();
        // What snapshots and iterators have let go since.
        self.env.empty_trash();
        if self.guide_one(0..1) || self.cluster_one(0..1, false) {
            return Ok(true);
        }
        match self.next_job() {
            Some(job) => self.run(job).map(|()| true),
            None => {
                let below = 1..usize::MAX;
                Ok(self.guide_one(below.clone())
                    || self.cluster_one(below, false)
                    || self.check_one_cluster()
                    || self.cluster_one(0..usize::MAX, true))
            }
        }
    }

    /// Runs one due flush or job; false where nothing is due.
    pub fn step(&self) -> Result<bool> {
        if self.flush_any()? {
            self.env.empty_trash();
            return Ok(true);
        }
        self.work_once()
    }

    /// Runs what writers would otherwise have to wait for: the way of stores without threads.
    pub fn catch_up(&self) -> Result<()> {
        for keyspace in self.catalog.all() {
            while keyspace.view.load().sealed.len() >= self.env.options.max_sealed_memtables {
                self.flush_one(&keyspace)?;
            }
            while self.catalog.has_too_many_memtables() && self.flush_one(&keyspace)? {}
            while keyspace.pressure() >= 1.0 && self.work_once()? {}
        }
        self.env.empty_trash();
        Ok(())
    }

    /// Whether no flush or job is due or under way.
    pub fn is_idle(&self) -> bool {
        let now_ms = self.env.now_ms();
        self.running.is_empty()
            && self.unloaded().is_none()
            && self.catalog.all().iter().all(|keyspace| {
                let view = keyspace.view.load();
                let shape = VersionShape { version: &view.version, is_busy: &|_, _| false, now_ms };
                view.sealed.is_empty()
                    && plan(&keyspace.design, &shape).is_none()
                    && self.unguided(keyspace, &view.version, 0..usize::MAX).is_none()
                    && self.unclustered(keyspace, &view.version, 0..usize::MAX, true).is_none()
                    && !self.has_unchecked_clusters(&view.version)
            })
    }

    /// Notes how background work went and says how long to wait before the next try.
    fn note_outcome(&self, result: &Result<bool>) -> Option<Duration> {
        let error = result.as_ref().err();
        self.env.health.note_background(error);
        error.map(|error| {
            self.env.note_full_disk(error);
            RETRY
        })
    }

    fn work_until_closed(&self, mut once: impl FnMut() -> Result<bool>) {
        while !self.env.health.is_over() {
            let result = once();
            let wait = match (self.note_outcome(&result), &result) {
                (Some(retry), _) => retry,
                (None, Ok(true)) => {
                    self.env.signals.wake();
                    continue;
                }
                _ => IDLE,
            };
            self.env.signals.wait_for_work(wait);
        }
    }

    /// Starts the threads that flush, compact and sync; none where the options want none.
    pub fn start(self: &Arc<Self>) -> Result<Vec<JoinHandle<()>>> {
        let mut threads = Vec::new();
        let options = &self.env.options;
        if options.background_threads == 0 {
            return Ok(threads);
        }
        let mut spawn = |name: &str, work: fn(&Self)| {
            let shared = Arc::clone(self);
            let builder = std::thread::Builder::new().name(format!("siltstone-{name}"));
            let spawned = builder.spawn(move || work(&shared));
            threads.push(spawned.map_err(|e| Error::io(&e, "starting a thread for", &self.env.path))?);
            Ok::<(), Error>(())
        };
        spawn("flush", |scheduler| scheduler.work_until_closed(|| scheduler.flush_any()))?;
        for _ in 0..options.background_threads {
            spawn("compact", |scheduler| scheduler.work_until_closed(|| scheduler.work_once()))?;
        }
        if options.sync_interval_ms > 0 {
            spawn("sync", Self::sync_regularly)?;
        }
        Ok(threads)
    }
}
