//! Background work: what is due, in which order, and who does it.
//!
//! A flusher, `background_threads` compactors and a syncer. Without threads the same jobs run inside writes
//! once they would have to wait, and one at a time in [`Db::step`](crate::Db::step): every interleaving of
//! work and use can then be tested.

mod auto_design;
mod by_hand;
mod compact;
pub(super) mod describe;
mod drain;
mod filter_fit;
mod filter_job;
mod flush;
pub(super) mod hold;
mod job;
mod large_group;
mod member;
mod of_copy;
mod redesign;
mod region_filters;
mod residency;
mod running;
mod sync;

use super::catalog::Catalog;
use super::catalog::keyspace::OpenKeyspace;
use super::catalog::shape::VersionShape;
use super::env::Env;
use super::health::Chore;
use super::reporter::Reporter;
use super::sidecars::Sidecars;
use crate::error::{Error, Result};
use crate::io::heap;
use crate::options::AutoDesign;
use filter_job::FilterWork;
use job::Job;

use crate::resources::limit::RateLimit;
use crate::stats::Stopwatch;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::JoinHandle;
use crate::sync::{Mutex, RwLock};
pub(super) use by_hand::Told;
pub use by_hand::{CompactProgress, CompactReport};
pub(super) use member::PooledStore;
use running::Running;
use siltstone_design::plan::plan;
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How long idle threads sleep before they look again, for what comes due by time alone.
const IDLE: Duration = Duration::from_secs(1);
/// The same where keyspaces look for better designs: nobody who only reads wakes a thread.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// How long failed work waits before it is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Decides what background work is due, and does it.
pub(crate) struct Scheduler {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    /// Held by whoever flushes.
    flushing: Mutex<()>,
    /// Held for reading by users' threads that write or remove files; the store is closed behind it.
    open: RwLock<()>,
    running: Running,
    flush_limit: Arc<RateLimit>,
    compaction_limit: Arc<RateLimit>,
    sidecars: Arc<Sidecars>,
    filter_work: FilterWork,
    reporter: Arc<Reporter>,
    /// Whether there may be something to find out about designs though there is other work.
    looks_for_designs: AtomicBool,
}

impl Scheduler {
    pub fn new(
        env: &Arc<Env>,
        catalog: &Arc<Catalog>,
        sidecars: &Arc<Sidecars>,
        reporter: &Arc<Reporter>,
    ) -> Self {
        let options = &env.options;
        let (flush_limit, compaction_limit) = match &options.resources {
            Some(shared) => (Arc::clone(shared.flush_limit()), Arc::clone(shared.compaction_limit())),
            None => {
                let limits = [options.flush_bytes_per_second, options.compaction_bytes_per_second];
                let [flush, compaction] = limits.map(|limit| Arc::new(RateLimit::new(limit)));
                (flush, compaction)
            }
        };
        Self {
            env: Arc::clone(env),
            catalog: Arc::clone(catalog),
            flushing: Mutex::new(()),
            open: RwLock::new(()),
            running: Running::default(),
            flush_limit,
            compaction_limit,
            sidecars: Arc::clone(sidecars),
            filter_work: FilterWork::default(),
            reporter: Arc::clone(reporter),
            looks_for_designs: AtomicBool::new(false),
        }
    }

    /// Returns the job that is most urgent, marked as under way; none where nothing is due.
    fn next_job(&self) -> Option<Job> {
        // The end of what is under way may make something due, and hides what others could do.
        let nothing_runs = || self.running.is_empty() && self.filter_work.claim().is_some();
        let was_alone = nothing_runs();
        let due = self.catalog.due();
        let found = self.next_job_in(&due.keyspaces);
        if found.is_none() && was_alone && nothing_runs() {
            self.catalog.none_due(&due);
        }
        found
    }

    fn next_job_in(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Option<Job> {
        self.fit_filters(keyspaces);
        let below = 1..usize::MAX;
        // What is read most comes first; filters of lower levels wait until the regions are in order.
        let load = || self.unloaded(keyspaces).map(Job::LoadTable);
        let filter_above = || self.filter_job(keyspaces, 0..1, false).map(Job::Filter);
        let compact = || self.take_compaction(keyspaces).map(Job::Compact);
        let compact_copy = || self.take_compaction_of_copy().map(Job::Compact);
        let filter_below = || self.filter_job(keyspaces, below, false).map(Job::Filter);
        // Where there is time, files are written that hold little.
        let write_files = || self.filter_job(keyspaces, 0..usize::MAX, true).map(Job::Filter);
        load()
            .or_else(filter_above)
            .or_else(compact)
            .or_else(compact_copy)
            .or_else(filter_below)
            .or_else(|| self.redesigned(keyspaces).map(Job::Settle))
            .or_else(|| self.sidecar_to_check(keyspaces))
            .or_else(write_files)
    }

    fn sidecar_to_check(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Option<Job> {
        let pages = self.sidecars.unchecked(keyspaces)?;
        Some(Job::CheckSidecar(pages, self.filter_work.claim()?))
    }

    fn run(&self, job: Job) -> Result<()> {
        match job {
            Job::LoadTable(unloaded) => self.load_table(&unloaded),
            Job::Filter(job) => self.make_filter(&job),
            Job::CheckSidecar(pages, _claim) => self.check_sidecar(&pages),
            Job::Settle(redesigned) => self.settle(&redesigned)?,
            Job::Compact(compaction) => {
                let outcome = self.compact(&compaction);
                // It holds the version that had the tables it replaced.
                drop(compaction);
                self.env.empty_trash();
                heap::return_free_pages();
                return outcome;
            }
        }
        Ok(())
    }

    /// Flushes one write buffer of any keyspace, of the one that has most of them first; false where none is
    /// sealed.
    fn flush_any(&self) -> Result<bool> {
        self.evict();
        let mut behind = self.catalog.behind();
        behind.sort_by_cached_key(|keyspace| {
            let view = keyspace.view.load();
            (Reverse(view.sealed.len()), view.oldest_buffer().log_start())
        });
        for keyspace in behind {
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
        if self.looks_for_designs.swap(false, Ordering::Relaxed) && self.consider_designs() {
            return Ok(true);
        }
        match self.next_job() {
            Some(job) => self.run(job).map(|()| true),
            // Who only reads leaves nothing else to do.
            None => Ok(self.consider_designs()),
        }
    }

    /// Runs one due flush or job; false where nothing is due.
    pub fn step(&self) -> Result<bool> {
        if self.flush_any()? {
            self.env.empty_trash();
            return Ok(true);
        }
        if self.work_once()? {
            return Ok(true);
        }
        // Time may have passed.
        self.catalog.look_again(true);
        self.work_once()
    }

    /// Runs what writers would otherwise have to wait for: the way of stores without threads.
    pub fn catch_up(&self) -> Result<()> {
        for keyspace in self.catalog.behind() {
            while keyspace.view.load().sealed.len() >= self.env.options.max_sealed_memtables {
                self.flush_one(&keyspace)?;
            }
            while self.catalog.has_too_many_memtables() && self.flush_one(&keyspace)? {}
            while keyspace.pressure() >= 1.0 && self.work_once()? {}
        }
        // Where the disk is nearly full, what frees space is not put off.
        while self.env.health.space_is_low() && (self.flush_any()? || self.work_once()?) {}
        self.env.empty_trash();
        Ok(())
    }

    /// Whether no flush or job is due or under way.
    pub fn is_idle(&self) -> bool {
        let now_ms = self.env.now_ms();
        let keyspaces = self.catalog.all();
        if self.env.health.is_read_only() {
            // What is due otherwise is the writer's.
            return self.env.options.background_threads == 0
                || (self.filter_work.claim().is_some() && !self.lacks_filters(true));
        }
        if !self.running.is_empty() {
            return false;
        }
        let is_idle = self.unloaded(&keyspaces).is_none()
            && self.sidecars.unchecked(&keyspaces).is_none()
            && keyspaces.iter().all(|keyspace| {
                let view = keyspace.view.load();
                let is_memory_short = keyspace.filter_limits.leave_some_without();
                let shape = VersionShape { is_memory_short, ..VersionShape::at(&view.version, now_ms) };
                view.sealed.is_empty()
                    && view.version.redesign().is_none()
                    && plan(&view.version.design, &shape).is_none()
                    && self.wanting(keyspace, 0..usize::MAX, true).is_none()
            });
        if !is_idle {
            // Whoever asks waits for it: it may have come due by time alone.
            self.catalog.look_again(true);
        }
        is_idle
    }

    /// Whether the filter of any region lacks something that can be had; where there is time, whether one
    /// could be better as well.
    pub fn lacks_filters(&self, has_time: bool) -> bool {
        let all_levels = 0..usize::MAX;
        let lacks =
            |keyspace: &Arc<OpenKeyspace>| self.wanting(keyspace, all_levels.clone(), has_time).is_some();
        self.catalog.all().iter().any(lacks)
    }

    /// Notes how background work went and says how long to wait before the next try.
    fn note_outcome(&self, chore: Chore, result: &Result<bool>) -> Option<Duration> {
        let error = result.as_ref().err();
        self.env.health.note_background(chore, error);
        error.map(|error| {
            self.env.note_full_disk(error);
            RETRY
        })
    }

    fn work_until_closed(&self, chore: Chore, mut once: impl FnMut() -> Result<bool>) {
        let mut looked = Stopwatch::start();
        loop {
            let seen = self.env.signals.seen();
            if self.env.health.is_over() {
                return;
            }
            if looked.elapsed() >= IDLE {
                // Something may have come due by time alone.
                self.catalog.look_again(false);
                self.catalog.note_clock();
                looked = Stopwatch::start();
            }
            // So that readers need not look at the system's clock.
            self.env.now_ms();
            let result = once();
            let (seen, wait) = match (self.note_outcome(chore, &result), &result) {
                // What was said while it failed is no reason to try at once.
                (Some(retry), _) => (self.env.signals.seen(), retry),
                (None, Ok(true)) => {
                    self.env.signals.wake();
                    continue;
                }
                _ if self.env.options.auto_design != AutoDesign::Off => (seen, BETWEEN_LOOKS),
                _ => (seen, IDLE),
            };
            self.env.signals.wait_for_work(seen, wait);
        }
    }

    /// Starts the threads that flush, compact and sync; none where the options want none, or a pool's are
    /// used.
    pub fn start(self: &Arc<Self>) -> Result<Vec<JoinHandle<()>>> {
        let mut threads = Vec::new();
        let options = &self.env.options;
        if options.background_threads == 0 || options.resources.is_some() {
            return Ok(threads);
        }
        let mut spawn = |name: &str, chore: Chore, work: fn(&Self)| {
            let shared = Arc::clone(self);
            let work = move || {
                if catch_unwind(AssertUnwindSafe(|| work(&shared))).is_err() {
                    shared.env.health.note_panic(chore);
                }
            };
            threads.push(self.env.spawn(name, work)?);
            Ok::<(), Error>(())
        };
        let flush = |scheduler: &Self| scheduler.work_until_closed(Chore::Flush, || scheduler.flush_any());
        let compact = |scheduler: &Self| scheduler.work_until_closed(Chore::Job, || scheduler.work_once());
        spawn("flush", Chore::Flush, flush)?;
        for _ in 0..options.background_threads {
            spawn("compact", Chore::Job, compact)?;
        }
        if options.sync_interval_ms > 0 {
            spawn("sync", Chore::Sync, Self::sync_regularly)?;
        }
        Ok(threads)
    }
}
