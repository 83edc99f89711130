//! Parallel search: the last level is asked while the levels above it are.
//!
//! Source: Cheng et al., "Improving LSM-trie performance by parallel search" (SPE 2020): one thread searches
//! the upper levels and another the last; what the upper levels say counts, and only if they say nothing the
//! last level's answer does. Where we differ, and why:
//!
//! * Filters in memory take a microsecond, so a lookup first goes as far as it gets without the device. Only
//!   when an upper level has to read a page does it ask for the last level's page of filters too, and both
//!   are fetched at the same time: one submission and no second thread.
//! * That pays where reads of upper levels are wasted: where their filters are not in memory. Where a read
//!   there mostly finds the item, the other would be wasted. So lookups keep count of how upper reads end,
//!   and ask ahead while most are wasted and the device has room. The paper always searches both.
//! * The paper's form is there as well ([`ParallelSearch::TwoThreads`]), to compare.
//!
//! Both halves read one pinned version, so an item that moves down meanwhile is in one of them; a half that
//! is not waited for owns all it uses.

use super::lookup::{Clock, Found, Lookup, Pinned, Supply};
use super::upper_reads::UpperReads;
use crate::cache::{PageRef, Reader, Step, fetch};
use crate::db::clock::StoreClock;
use crate::error::Result;
use crate::merge_operator::Folder;
use crate::options::ParallelSearch;
use crate::stats::{KeyspaceCounters, ReadTrace};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::mpsc::{Receiver, SyncSender, sync_channel};
use crate::sync::{Condvar, Mutex};
use crate::value::Wants;
use crate::version::Version;
use siltstone_design::{Digest, EncodedKey, Encoder};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Threads that search last levels for others.
pub(super) const HELPERS: usize = 8;
/// Lookups waiting for the device at which it has no room for guesses.
const MOST_WAITING: usize = 24;

/// A last level to be searched by another thread.
struct Job {
    version: Arc<Version>,
    level: usize,
    encoder: Encoder,
    folder: Option<Arc<Folder>>,
    key: OwnedKey,
    wants: Wants,
    /// Where the time stands still, for whoever reads one moment.
    now_ms: Option<u64>,
    answer: SyncSender<Result<(Option<Found>, ReadTrace)>>,
}

/// An encoded key that outlives the call it came with.
struct OwnedKey {
    digest: Digest,
    fingerprint: u64,
    key: Vec<u8>,
    prefix_len: usize,
}

impl OwnedKey {
    fn of(key: &EncodedKey<'_>) -> Self {
        let EncodedKey { digest, fingerprint, prefix_len, .. } = *key;
        Self { digest, fingerprint, key: key.key.to_vec(), prefix_len }
    }

    fn encoded(&self) -> EncodedKey<'_> {
        let Self { digest, fingerprint, prefix_len, .. } = *self;
        EncodedKey { digest, fingerprint, key: &self.key, prefix_len }
    }
}

/// What parallel search keeps in a store: last levels for other threads to search, and how busy the device
/// is.
#[derive(Default)]
pub(super) struct ParallelReads {
    jobs: Mutex<VecDeque<Job>>,
    ready: Condvar,
    /// Threads that take jobs.
    running: AtomicUsize,
    /// Lookups that wait for the device.
    waiting: AtomicUsize,
}

/// The driver of one lookup, which asks the last level beside the others where that pays.
pub(super) struct LastLevel<'a> {
    pub mode: ParallelSearch,
    pub shared: &'a ParallelReads,
    pub upper_reads: &'a UpperReads,
    pub counters: &'a KeyspaceCounters,
}

/// The last level on a key's path, where its filter lies on the device, and that filter's page for the key.
struct Target {
    level: usize,
    page: PageRef,
}

impl Target {
    #[inline]
    fn of(version: &Version, key: &EncodedKey<'_>) -> Option<Self> {
        let levels = version.levels.iter().enumerate().rev();
        let mut regions =
            levels.filter_map(|(number, level)| Some((number, level.region_of(key.digest.hi)?)));
        let (level, region) = regions.find(|(_, region)| !region.runs.is_empty())?;
        // Without a level above it there is nothing to search beside it.
        let filter = region.filter.as_ref().filter(|_| level > 0)?;
        Some(Self { level, page: filter.page_for(key)? })
    }
}

impl LastLevel<'_> {
    /// Runs `lookup` to its end.
    #[inline]
    pub fn complete(&self, lookup: &mut Lookup<'_>) -> Result<Found> {
        let target = match self.mode {
            ParallelSearch::Serial => None,
            _ => Target::of(lookup.pinned.version, lookup.key),
        };
        let found = match target {
            None => lookup.complete(),
            Some(target) if self.has_helpers() => self.search_with_a_helper(lookup, target.level),
            Some(target) => self.search_ahead(lookup, target),
        };
        Ok(found?.unwrap_or_default())
    }

    fn has_helpers(&self) -> bool {
        self.mode == ParallelSearch::TwoThreads && self.shared.running.load(Ordering::Relaxed) > 0
    }

    /// Stops at the first page that is not in memory, fetches it and the last level's at once, and goes on.
    fn search_ahead(&self, lookup: &mut Lookup<'_>, target: Target) -> Result<Option<Found>> {
        let needed = match lookup.advance(Supply::Arrived(&Default::default()))? {
            Step::Done(found) => return Ok(found),
            Step::Needs(page) => page,
        };
        let is_above = lookup.level() < target.level;
        let waiting = self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let asks_ahead = is_above
            && match self.mode {
                ParallelSearch::Always => true,
                _ => waiting < MOST_WAITING && self.upper_reads.are_mostly_wasted(),
            };
        let reader = lookup.pinned.reader;
        let ahead = Some(target.page).filter(|page| asks_ahead && !reader.holds(page));
        let arrived = fetch(reader, [needed].into_iter().chain(ahead));
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        let arrived = arrived?;
        lookup.trace.device_reads += arrived.reads();
        let found = loop {
            if let Step::Done(found) = lookup.advance(Supply::ArrivedOrWait(&arrived))? {
                break found;
            }
        };
        if is_above {
            let ended_above = lookup.level() < target.level;
            self.upper_reads.note(ended_above);
            if asks_ahead {
                self.counters.asked_ahead.add(1);
                self.counters.asked_wasted.add(u64::from(ended_above));
            }
        }
        Ok(found)
    }

    /// The paper's form: another thread searches the last level from the start.
    fn search_with_a_helper(&self, lookup: &mut Lookup<'_>, level: usize) -> Result<Option<Found>> {
        // The write buffers are asked first: they are in memory.
        lookup.stop_before(0);
        if let Some(found) = lookup.complete()? {
            return Ok(Some(found));
        }
        let answered = self.post(lookup, level);
        self.counters.asked_ahead.add(1);
        lookup.stop_before(level);
        if let Some(found) = lookup.complete()? {
            self.counters.asked_wasted.add(1);
            return Ok(Some(found));
        }
        if lookup.has_operands() {
            // What the helper found is only what they fold over.
            lookup.stop_before(usize::MAX);
            return lookup.complete();
        }
        match answered.recv() {
            Ok(outcome) => {
                let (found, trace) = outcome?;
                lookup.trace.add(&trace);
                Ok(found)
            }
            // The helpers have stopped, since the store is closing.
            Err(_) => {
                lookup.stop_before(usize::MAX);
                lookup.complete()
            }
        }
    }

    /// Asks a helper to search from `level` on, and returns where it will answer.
    fn post(&self, lookup: &Lookup<'_>, level: usize) -> Receiver<Result<(Option<Found>, ReadTrace)>> {
        let (answer, answered) = sync_channel(1);
        let Pinned { version, encoder, wants, clock, folder, .. } = *lookup.pinned;
        let (version, encoder, key) = (Arc::clone(version), *encoder, OwnedKey::of(lookup.key));
        let now_ms = if let Clock::At(now_ms) = clock { Some(now_ms) } else { None };
        let folder = folder.cloned();
        let job = Job { version, level, encoder, folder, key, wants, now_ms, answer };
        self.shared.jobs.lock().push_back(job);
        self.shared.ready.notify_one();
        answered
    }
}

impl ParallelReads {
    /// Searches last levels for other threads until the store is closed.
    pub fn help(&self, reader: &Reader, clock: &StoreClock, is_closed: impl Fn() -> bool) {
        self.running.fetch_add(1, Ordering::Relaxed);
        while !is_closed() {
            let job = {
                let mut jobs = self.jobs.lock();
                if jobs.is_empty() {
                    self.ready.wait_for(&mut jobs, Duration::from_millis(100));
                }
                jobs.pop_front()
            };
            let Some(Job { version, level, encoder, folder, key, wants, now_ms, answer }) = job else {
                continue;
            };
            let (version, encoder) = (&version, &encoder);
            let (clock, folder) = (now_ms.map_or(Clock::Now(clock), Clock::At), folder.as_ref());
            let pinned =
                Pinned { buffers: None, version, sequence: 0, encoder, reader, clock, wants, folder };
            let key = key.encoded();
            let mut lookup = Lookup::from_level(&pinned, &key, level);
            let found = lookup.complete();
            // Whoever found the item above no longer listens.
            let _ = answer.send(found.map(|found| (found, lookup.trace)));
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.jobs.lock().clear();
    }
}
