//! Parallel search: the last level is asked while the levels above it are.
//!
//! Source: Cheng et al., "Improving LSM-trie performance by parallel search" (SPE 2020): one thread searches the upper levels and
//! another the last; what the upper levels say counts, and only if they say nothing the last level's answer does. Where we
//! differ, and why:
//!
//! * Filters in memory take a microsecond, so a lookup first goes as far as it gets without the device. Only when an upper level
//!   has to read a page does it ask for the last level's page of filters too, and both are fetched at the same time: one
//!   submission and no second thread.
//! * That pays where upper levels read in vain: where their filters are not in memory. Where a read there mostly finds the
//!   item, the other would be wasted. So lookups keep count of how upper reads end, and ask ahead while most are in vain and the
//!   device has room. The paper always searches both.
//! * The paper's form is there as well ([`ParallelSearch::TwoThreads`]), to compare.
//!
//! Both halves read one pinned version, so an item that moves down meanwhile is in one of them; a half that is not waited for
//! owns all it uses.

use super::{Found, Progress, Searcher};
use crate::cache::FileId;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::view::View;
use crate::entry::Sequence;
use crate::error::Result;
use crate::options::ParallelSearch;
use crate::stats::ReadTrace;
use crate::version::Version;
use parking_lot::{Condvar, Mutex};
use siltstone_design::{Digest, EncodedKey};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Threads that search last levels for others.
pub(super) const HELPERS: usize = 8;
/// Lookups waiting for the device at which it has no room for guesses.
const MOST_WAITING: usize = 24;

/// A last level to be searched by another thread.
struct Job {
    version: Arc<Version>,
    level: usize,
    key: Vec<u8>,
    place: (Digest, u64, usize),
    answer: SyncSender<Result<(Option<Found>, ReadTrace)>>,
}

/// Where threads that search for others wait.
#[derive(Default)]
pub(super) struct Helpers {
    jobs: Mutex<VecDeque<Job>>,
    ready: Condvar,
    running: AtomicUsize,
}

impl Searcher {
    /// The number of the level on `key`'s path whose cluster lies on the device, and that cluster's page for the key.
    fn last_level(&self, version: &Version, key: &EncodedKey<'_>) -> Option<(usize, (FileId, u32))> {
        let levels = version.levels.iter().enumerate().rev();
        let mut regions =
            levels.filter_map(|(number, level)| Some((number, level.region_of(key.digest.hi)?)));
        let (number, region) = regions.find(|(_, region)| !region.runs.is_empty())?;
        Some((number, region.filter.as_ref()?.page_for(key)?))
    }

    /// The lookup of a key, with the last level asked ahead where that pays.
    pub(super) fn search_parallel(
        &self,
        keyspace: &OpenKeyspace,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
        progress: &mut Progress,
    ) -> Result<Option<Found>> {
        let mode = self.env.options.parallel_search;
        let last = match mode {
            ParallelSearch::Serial => None,
            _ => self.last_level(&view.version, key).filter(|(level, _)| *level > 0),
        };
        match last {
            None => self.search(view, sequence, key, &self.env.reader, progress, usize::MAX),
            Some((level, _))
                if mode == ParallelSearch::TwoThreads && self.helpers.running.load(Ordering::Relaxed) > 0 =>
            {
                self.search_with_a_helper(keyspace, view, sequence, key, progress, level)
            }
            Some(last) => self.search_ahead(keyspace, view, sequence, key, progress, last),
        }
    }

    /// Gives up at the first page that is not in memory, fetches it and the last level's at once, and goes on.
    fn search_ahead(
        &self,
        keyspace: &OpenKeyspace,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
        progress: &mut Progress,
        (level, (file, page)): (usize, (FileId, u32)),
    ) -> Result<Option<Found>> {
        let reader = self.env.reader.reading_ahead();
        match self.search(view, sequence, key, &reader, progress, usize::MAX) {
            Err(_) if reader.gave_up() => {}
            found_or_failed => return found_or_failed,
        }
        let is_above = progress.level() < level;
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let asks_ahead = is_above
            && match self.env.options.parallel_search {
                ParallelSearch::Always => true,
                _ => waiting < MOST_WAITING && keyspace.upper_reads.are_mostly_in_vain(),
            };
        if asks_ahead {
            reader.want(file, page..page + 1);
        }
        let fetched = reader.fetch();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        fetched?;
        reader.wait_for_the_rest();
        let found = self.search(view, sequence, key, &reader, progress, usize::MAX)?;
        if is_above {
            let ended_above = progress.level() < level;
            keyspace.upper_reads.note(ended_above);
            if asks_ahead {
                // A page that nobody asked for was read all the same.
                progress.trace.device_reads += u64::from(ended_above);
                keyspace.counters.asked_ahead.add(1);
                keyspace.counters.asked_in_vain.add(u64::from(ended_above));
            }
        }
        Ok(found)
    }

    /// The paper's form: another thread searches the last level from the start.
    fn search_with_a_helper(
        &self,
        keyspace: &OpenKeyspace,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
        progress: &mut Progress,
        level: usize,
    ) -> Result<Option<Found>> {
        if let Some(found) = self.ask_heads(view, sequence, key, &self.env.reader, progress)? {
            return Ok(Some(found));
        }
        let (answer, answered) = sync_channel(1);
        let job = Job {
            version: Arc::clone(&view.version),
            level,
            key: key.key.to_vec(),
            place: (key.digest, key.fingerprint, key.prefix_len),
            answer,
        };
        self.helpers.jobs.lock().push_back(job);
        self.helpers.ready.notify_one();
        keyspace.counters.asked_ahead.add(1);
        if let Some(found) = self.search_levels(&view.version, key, &self.env.reader, progress, level)? {
            keyspace.counters.asked_in_vain.add(1);
            return Ok(Some(found));
        }
        match answered.recv() {
            Ok(outcome) => {
                let (found, trace) = outcome?;
                progress.trace.add(&trace);
                Ok(found)
            }
            // The helpers have stopped, since the store is closing.
            Err(_) => {
                progress.move_to(level);
                self.search_levels(&view.version, key, &self.env.reader, progress, usize::MAX)
            }
        }
    }

    /// Searches last levels for other threads until the store is closed.
    pub(super) fn help(&self) {
        self.helpers.running.fetch_add(1, Ordering::Relaxed);
        while !self.env.health.is_closed() {
            let job = {
                let mut jobs = self.helpers.jobs.lock();
                if jobs.is_empty() {
                    self.helpers.ready.wait_for(&mut jobs, Duration::from_millis(100));
                }
                jobs.pop_front()
            };
            let Some(Job { version, level, key, place, answer }) = job else { continue };
            let (digest, fingerprint, prefix_len) = place;
            let key = EncodedKey { digest, fingerprint, key: &key, prefix_len };
            let mut progress = Progress::at(level);
            let found = self.search_levels(&version, &key, &self.env.reader, &mut progress, usize::MAX);
            // Whoever found the item above no longer listens.
            let _ = answer.send(found.map(|found| (found, progress.trace)));
        }
        self.helpers.running.fetch_sub(1, Ordering::Relaxed);
        self.helpers.jobs.lock().clear();
    }
}
