//! Compactions that somebody asked for: level by level from the top, region by region, on the thread of
//! whoever asks. What there is to do about a region, `siltstone_design::plan::compact` says.
//!
//! Nothing is noted of how far it came: a region that is in order needs nothing, so that beginning again goes
//! on. Others work on other regions meanwhile; one that they work on is waited for. What a redesign has left
//! of earlier designs is rewritten first.

use super::Scheduler;
use super::job::Redesigned;
use super::running::Compaction;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::VersionShape;
use crate::error::{Error, Result};
use serde::Serialize;
use siltstone_design::plan::compact;
use siltstone_design::{Shape, Task, TriePath, redesign};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for a region that others work on before looking again.
const LOOK: Duration = Duration::from_millis(20);

/// How far a compaction by hand has come; see [`Db::compact_with`](crate::Db::compact_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CompactProgress {
    /// The keyspace that is being compacted.
    pub keyspace: String,
    /// The level of it, 0 at the top.
    pub level: usize,
    /// Regions of that level that are done.
    pub regions_done: u64,
    /// Regions of that level.
    pub regions_total: u64,
    /// Bytes of tables that were replaced, in all keyspaces so far.
    pub bytes_read: u64,
    /// Bytes of keys and values that were written, in all keyspaces so far.
    pub bytes_written: u64,
}

/// What a compaction by hand did; see [`Db::compact`](crate::Db::compact).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CompactReport {
    /// Regions that were merged or pushed; those that were in order are not counted.
    pub regions: u64,
    /// Bytes of tables that were replaced.
    pub bytes_read: u64,
    /// Bytes of keys and values that were written.
    pub bytes_written: u64,
    /// Whether all was done; not so where it was cancelled.
    pub is_complete: bool,
}

/// Who hears of a compaction by hand, and may end it.
pub(crate) struct Told<'a> {
    tell: RefCell<&'a mut dyn FnMut(CompactProgress) -> ControlFlow<()>>,
    progress: RefCell<CompactProgress>,
    regions: Cell<u64>,
    is_cancelled: Cell<bool>,
}

impl<'a> Told<'a> {
    pub fn new(tell: &'a mut dyn FnMut(CompactProgress) -> ControlFlow<()>) -> Self {
        let (progress, regions, is_cancelled) = Default::default();
        Self { tell: RefCell::new(tell), progress, regions, is_cancelled }
    }

    /// Notes what has changed and tells it; false where it is to end.
    fn tell(&self, change: impl FnOnce(&mut CompactProgress)) -> bool {
        change(&mut self.progress.borrow_mut());
        let progress = self.progress.borrow().clone();
        if !self.is_cancelled.get() && (*self.tell.borrow_mut())(progress).is_break() {
            self.is_cancelled.set(true);
        }
        !self.is_cancelled.get()
    }

    /// What was done in all.
    pub fn report(&self) -> CompactReport {
        let CompactProgress { bytes_read, bytes_written, .. } = *self.progress.borrow();
        let is_complete = !self.is_cancelled.get();
        CompactReport { regions: self.regions.get(), bytes_read, bytes_written, is_complete }
    }
}

/// What a look at a region finds.
enum Turn {
    /// It is in order.
    Done,
    /// Others work on it, or on what it needs.
    Busy,
    Take(Compaction),
}

impl Scheduler {
    /// Compacts what is in tables of `keyspace`; false where whoever is told of it has ended it.
    pub fn compact_by_hand(&self, keyspace: &Arc<OpenKeyspace>, told: &Told<'_>) -> Result<bool> {
        if !self.end_redesign(keyspace, told)? {
            return Ok(false);
        }
        let mut level = 0;
        loop {
            let version = keyspace.version();
            if level >= VersionShape::of_sizes(&version).level_count() {
                return Ok(true);
            }
            let regions = version.numbered(level).map_or(&[][..], |level| &level.regions);
            let paths: Vec<TriePath> = regions.iter().map(|region| region.path).collect();
            drop(version);
            let goes_on = told.tell(|progress| {
                let (name, total) = (keyspace.name.clone(), paths.len() as u64);
                (progress.keyspace, progress.level) = (name, level);
                (progress.regions_done, progress.regions_total) = (0, total);
            });
            if !goes_on {
                return Ok(false);
            }
            for path in paths {
                self.compact_all(keyspace, told, || self.take_region(keyspace, level, path))?;
                if !told.tell(|progress| progress.regions_done += 1) {
                    return Ok(false);
                }
            }
            level += 1;
        }
    }

    /// Rewrites what earlier designs have left; false where whoever is told of it has ended it.
    fn end_redesign(&self, keyspace: &Arc<OpenKeyspace>, told: &Told<'_>) -> Result<bool> {
        while keyspace.version().redesign().is_some() {
            self.compact_all(keyspace, told, || self.take_leftover(keyspace))?;
            if !told.tell(|_| {}) {
                return Ok(false);
            }
            let _open = self.keep_open()?;
            self.settle(&Redesigned { keyspace: Arc::clone(keyspace), design: keyspace.design() })?;
        }
        Ok(true)
    }

    /// Carries out what `take` finds, or waits for others to do it.
    fn compact_all(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        told: &Told<'_>,
        take: impl Fn() -> Turn,
    ) -> Result<()> {
        loop {
            let open = self.keep_open()?;
            keyspace.check_exists()?;
            match take() {
                Turn::Done => return Ok(()),
                Turn::Take(compaction) => return self.compact_taken(&compaction, told),
                Turn::Busy => drop(open),
            }
            if self.running.state.lock().is_held_here(keyspace.id) {
                return Err(Error::invalid(format_args!(
                    "keyspace {:?} is being built by the thread that is to compact it; compact it when the build has ended",
                    keyspace.name
                )));
            }
            self.env.signals.wait_for_progress(LOOK);
            if !told.tell(|_| {}) {
                return Ok(());
            }
        }
    }

    fn compact_taken(&self, compaction: &Compaction, told: &Told<'_>) -> Result<()> {
        let keyspace = &compaction.keyspace;
        let below = compaction.inputs.below.iter().flat_map(|below| &below.runs);
        let bytes_read: u64 = compaction.inputs.own.iter().chain(below).map(|run| run.bytes()).sum();
        let pace = |bytes| {
            self.pace_compaction(keyspace, bytes);
            told.tell(|progress| progress.bytes_written += bytes);
        };
        let cancelled = || self.is_given_up(keyspace) || !told.tell(|_| {});
        match self.compact_watched(compaction, &pace, &cancelled) {
            // The store is open: whoever is told of it has ended it.
            Err(_) if told.is_cancelled.get() => Ok(()),
            result => {
                result.inspect_err(|error: &Error| self.env.note_full_disk(error))?;
                told.regions.set(told.regions.get() + 1);
                told.tell(|progress| progress.bytes_read += bytes_read);
                Ok(())
            }
        }
    }

    /// Takes a piece of what earlier designs have left, and marks the work on it as under way.
    fn take_leftover(&self, keyspace: &Arc<OpenKeyspace>) -> Turn {
        let mut running = self.running.state.lock();
        let (version, now_ms) = (keyspace.version(), self.env.now_ms());
        let others = running.of_other_designs(keyspace.id, &version.design);
        let is_busy = |path: TriePath, depth: u8| running.is_busy_beside(&others, keyspace.id, path, depth);
        let shape = VersionShape { is_busy: &is_busy, ..VersionShape::at(&version, now_ms) };
        if !self.may_begin(&running, keyspace) {
            return Turn::Busy;
        }
        let Some(left) = redesign::plan(&version.design, &shape) else {
            let is_done = redesign::leftovers(&version.design, &shape).is_empty() && others.is_empty();
            return if is_done { Turn::Done } else { Turn::Busy };
        };
        let task = (left.task, Some(left.reason));
        let compaction = Compaction::new(keyspace, Arc::clone(&version), now_ms, task);
        let compaction = Compaction { is_by_hand: true, ..compaction };
        self.begin(&mut running, &compaction);
        Turn::Take(compaction)
    }

    /// Takes a region that is not in order, and marks the work on it as under way.
    fn take_region(&self, keyspace: &Arc<OpenKeyspace>, level: usize, path: TriePath) -> Turn {
        let mut running = self.running.state.lock();
        let (version, now_ms) = (keyspace.version(), self.env.now_ms());
        let others = running.of_other_designs(keyspace.id, &version.design);
        let is_busy = |path: TriePath, depth: u8| running.is_busy_beside(&others, keyspace.id, path, depth);
        let shape = VersionShape { is_busy: &is_busy, ..VersionShape::at(&version, now_ms) };
        if !self.may_begin(&running, keyspace) || Shape::is_busy(&shape, level, path) {
            return Turn::Busy;
        }
        let region = version.region(path);
        let task = region.and_then(|region| compact(level, &version.whole_shape(region, now_ms)));
        let Some(task): Option<Task> = task else { return Turn::Done };
        let compaction = Compaction::new(keyspace, Arc::clone(&version), now_ms, (task, None));
        if compaction.regions.iter().any(|region| running.busy.contains(region)) {
            return Turn::Busy;
        }
        let compaction = Compaction { is_by_hand: true, ..compaction };
        self.begin(&mut running, &compaction);
        Turn::Take(compaction)
    }
}
