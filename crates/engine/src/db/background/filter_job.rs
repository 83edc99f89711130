//! Region filters to be made: whose turn it is, and what a region's filter lacks.

use crate::db::catalog::keyspace::OpenKeyspace;
use crate::ids::RunId;
use crate::region_filter::{Lack, RegionFilterKind};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::version::{Region, Run, Version};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// By which part there has to be more room than there was for what failed for want of it to be tried again.
const MORE_ROOM: u64 = 16;

/// How many runs are kept without a look at which of them are still there.
const FEW_MADE_ANEW: usize = 1 << 12;

/// For how many filters there may be a change before all are fitted again, and the part of their room that
/// may have changed: a flush or a compaction changes a few filters of what may be thousands.
const FILTERS_PER_CHANGE: usize = 128;
const ROOM_PER_CHANGE: u64 = 256;

/// How long nothing is flushed before filters are made one part each: while writers are at work, each of
/// their flushes would have that done again.
const CALM_MS: u64 = 1000;

/// Who makes filters, and what can't be made.
#[derive(Default)]
pub(super) struct FilterWork {
    /// Whether somebody is at it: one at a time, since building takes memory.
    is_claimed: Arc<AtomicBool>,
    failed: Mutex<Failed>,
    /// Filters that were made anew for exactness: once for as many bits is enough.
    pub made_anew: Mutex<MadeAnew>,
    /// When the last flush ended.
    flushed_ms: AtomicU64,
    fitted: Mutex<Fitted>,
}

/// The newest runs of regions whose filters were made anew for exactness.
#[derive(Default)]
pub(super) struct MadeAnew {
    /// Each with the bits of its fingerprints.
    pub bits: HashMap<RunId, u8>,
    /// How many were left at the last look.
    were: usize,
}

/// What filters were fitted to last: whoever looks again at what has hardly changed need not go over all.
#[derive(Default)]
struct Fitted {
    /// Filters of regions and runs that there are, or may be, and the bytes of room for them.
    filters: usize,
    room: u64,
    /// The versions at the last look, and at how many looks since there were others.
    seen: Vec<Weak<Version>>,
    changes: usize,
}

impl Fitted {
    /// Looks at the versions there are, and says whether enough has changed for filters to be fitted again.
    fn look(&mut self, versions: &[Arc<Version>], room: u64) -> bool {
        let is_other_store = self.seen.len() != versions.len();
        // What is pointed to weakly has its place to itself, so no other version has the same.
        if !self.seen.iter().map(Weak::as_ptr).eq(versions.iter().map(Arc::as_ptr)) {
            self.changes += 1;
            self.seen = versions.iter().map(Arc::downgrade).collect();
        }
        is_other_store
            || self.changes > self.filters / FILTERS_PER_CHANGE
            || self.room.abs_diff(room) > room / ROOM_PER_CHANGE
    }
}

/// Runs that can't be covered.
#[derive(Default)]
pub(super) struct Failed {
    /// Those whose keys can't be read, or whose filter not be written.
    unreadable: HashSet<RunId>,
    /// Those for which there was no memory, with the bytes of room beyond which they are tried again.
    without_memory: HashMap<RunId, u64>,
}

impl Failed {
    /// Whether a run is not to be tried where filters can have `room` bytes.
    pub fn has(&self, run: RunId, room: u64) -> bool {
        self.unreadable.contains(&run) || self.without_memory.get(&run).is_some_and(|had| room <= *had)
    }
}

/// The right to make filters, until it is dropped.
pub(super) struct Claim(Arc<AtomicBool>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl FilterWork {
    /// The runs that can't be covered.
    pub fn failed(&self) -> MutexGuard<'_, Failed> {
        self.failed.lock()
    }

    /// Looks at the versions there are, and says whether enough has changed for filters to be fitted again.
    pub fn look_for_changes(&self, versions: &[Arc<Version>], room: u64) -> bool {
        self.fitted.lock().look(versions, room)
    }

    /// Notes that so many filters are fitted to `room`.
    pub fn note_fitting(&self, filters: usize, room: u64) {
        let mut fitted = self.fitted.lock();
        (fitted.filters, fitted.room, fitted.changes) = (filters, room, 0);
    }

    /// Notes runs whose keys can't be read.
    pub fn note_unreadable(&self, runs: Vec<RunId>) {
        self.failed.lock().unreadable.extend(runs);
    }

    /// Notes runs that can't be covered where filters can have `room` bytes.
    pub fn note_without_memory(&self, runs: Vec<RunId>, room: u64) {
        let least = room + room / MORE_ROOM;
        self.failed.lock().without_memory.extend(runs.into_iter().map(|run| (run, least)));
    }

    /// Notes that the filter of a region was made anew for exactness. Those are let go now and then that are
    /// no more the `newest` runs of any region.
    pub fn note_made_anew(&self, wanting: &Wanting, newest: impl FnOnce() -> HashSet<RunId>) {
        let mut made = self.made_anew.lock();
        let bits = wanting.kind.bits_anew(&wanting.region.runs);
        made.bits.extend(wanting.region.runs.first().map(|run| (run.id, bits)));
        if made.bits.len() > 2 * made.were.max(FEW_MADE_ANEW) {
            let newest = newest();
            made.bits.retain(|run, _| newest.contains(run));
            made.were = made.bits.len();
        }
    }

    /// Notes that a flush has ended.
    pub fn note_flush(&self, now_ms: u64) {
        self.flushed_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Whether nothing was flushed for a while.
    pub fn is_calm(&self, now_ms: u64) -> bool {
        now_ms.abs_diff(self.flushed_ms.load(Ordering::Relaxed)) >= CALM_MS
    }

    /// Claims the making of filters; `None` where another thread is at it.
    pub fn claim(&self) -> Option<Claim> {
        let was_claimed = self.is_claimed.swap(true, Ordering::AcqRel);
        (!was_claimed).then(|| Claim(Arc::clone(&self.is_claimed)))
    }
}

/// A region filter that is to be made.
pub(super) struct FilterJob {
    pub keyspace: Arc<OpenKeyspace>,
    pub wanting: Wanting,
    pub _claim: Claim,
}

/// A region whose filter lacks something.
pub(super) struct Wanting {
    pub level: usize,
    pub region: Arc<Region>,
    pub kind: RegionFilterKind,
    pub lack: Lack,
}

impl Wanting {
    /// Returns the runs that are not to be tried again after a failure: those whose keys were to be read, or
    /// the newest, so that a file is tried again once there is another.
    pub fn tried(&self) -> Vec<RunId> {
        let runs = &self.region.runs;
        let tried = match self.lack {
            Lack::Run(_) if self.kind.is_in_memory() => runs.get(..),
            Lack::Run(place) => runs.get(place..=place),
            Lack::File | Lack::Join | Lack::Exactness | Lack::Memory(_) => runs.get(..1),
        };
        tried.unwrap_or(&[]).iter().map(|run| run.id).collect()
    }

    /// Returns the runs whose keys are to be read.
    pub fn runs_to_read(&self) -> &[Arc<Run>] {
        let runs = &self.region.runs;
        let covered = self.region.filter.as_ref().map_or(0, |filter| filter.covered());
        let to_read = match self.lack {
            Lack::Run(_) if self.kind.is_in_memory() => runs.get(..runs.len().saturating_sub(covered)),
            Lack::Run(place) => runs.get(place..=place),
            Lack::Exactness => runs.get(..),
            Lack::File | Lack::Join | Lack::Memory(_) => None,
        };
        to_read.unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_fitted_again_where_a_part_of_them_or_of_their_room_has_changed() {
        let work = FilterWork::default();
        let versions: Vec<[Arc<Version>; 1]> = (0..4).map(|_| [Arc::default()]).collect();
        let room = 1 << 20;
        assert!(work.look_for_changes(&versions[0], room), "none was fitted");
        work.note_fitting(3 * FILTERS_PER_CHANGE - 1, room);
        let looks: Vec<bool> =
            [0, 1, 1, 2, 2, 3].map(|at: usize| work.look_for_changes(&versions[at], room)).to_vec();
        assert_eq!(looks, [false, false, false, false, false, true]);
        work.note_fitting(FILTERS_PER_CHANGE - 1, room);
        assert!(work.look_for_changes(&versions[0], room), "few filters, and each change counts");
        work.note_fitting(1000 * FILTERS_PER_CHANGE, room);
        let part = room / ROOM_PER_CHANGE;
        let looks = [room, room + part / 2, room + 2 * part, room - 2 * part];
        assert_eq!(looks.map(|room| work.look_for_changes(&versions[0], room)), [false, false, true, true]);
        let two = [Arc::clone(&versions[0][0]), Arc::clone(&versions[1][0])];
        assert!(work.look_for_changes(&two, room), "another keyspace");
    }

    #[test]
    fn what_failed_for_want_of_memory_is_tried_again_where_there_is_more() {
        let work = FilterWork::default();
        work.note_without_memory(vec![1, 2], 1600);
        work.note_unreadable(vec![2]);
        let has = |run, room| work.failed().has(run, room);
        assert_eq!([has(1, 1600), has(1, 1700), has(1, 1701)], [true, true, false]);
        assert_eq!([has(2, u64::MAX), has(3, 0)], [true, false]);
    }
}
