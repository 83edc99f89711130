//! THE READ PATH.
//!
//! Pin a view → heads, newest first → per level the one region on the key's path → its runs, newest first, each with at
//! most one table that may hold the key → filter, index, one page. The first answer ends it.
//!
//! Many keys at once ([`Store::get_many`]): each search goes as far as it can with what is in memory and gives up at the
//! first page that is not. While it is fetched others are searched for, and the search goes on where it stood.

mod parallel;
pub(super) mod upper_reads;

use super::catalog::Catalog;
use super::catalog::keyspace::OpenKeyspace;
use super::catalog::view::View;
use super::env::Env;
use super::write_buffer::Asking;
use crate::cache::{Reader, TableId};
use crate::entry::{Lookup, Sequence};
use crate::error::{Error, Result};
use crate::options::ParallelSearch;
use crate::region_filter::Candidate;
use crate::stats::ReadTrace;
use crate::version::Version;
use parallel::{HELPERS, Helpers};
use siltstone_design::EncodedKey;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

/// Keys whose filters are brought towards the processor's cache together: as many as it has misses under way.
const TOUCHED_TOGETHER: usize = 16;

/// What a search ends with.
#[derive(Default)]
pub(super) struct Found {
    pub value: Option<Vec<u8>>,
    /// The table whose entry ended it; 0 where a head's did, or none was found.
    pub table: TableId,
}

/// How far a search has come, and what it has cost.
#[derive(Default)]
pub(super) struct Progress {
    pub trace: ReadTrace,
    /// It failed at the table of run `run` of `level`, and goes on there.
    failed: bool,
    level: usize,
    run: usize,
    /// Tables probed before the region it stands in.
    probed_above: u64,
    /// Sequence number of the oldest version that it passed over because it can't see it; see
    /// [`LogStore::get`](crate::log_store::LogStore::get).
    newer: Option<Sequence>,
}

impl Progress {
    /// A search that has come to `level`.
    pub fn at(level: usize) -> Self {
        Self { level, ..Self::default() }
    }

    /// Goes on at `level`.
    pub fn move_to(&mut self, level: usize) {
        (self.failed, self.level, self.run) = (false, level, 0);
    }

    /// The level where the search ended or failed; beyond all levels where it found nothing.
    pub fn level(&self) -> usize {
        self.level
    }
}

/// Looks keys up.
pub(crate) struct Searcher {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    /// Threads that search last levels for others, and lookups that wait for the device.
    helpers: Helpers,
    waiting: AtomicUsize,
}

impl Searcher {
    pub fn new(env: &Arc<Env>, catalog: &Arc<Catalog>) -> Self {
        Self {
            env: Arc::clone(env),
            catalog: Arc::clone(catalog),
            helpers: Helpers::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Starts the threads that search last levels for others, where the options want some.
    pub fn start(self: &Arc<Self>) -> Result<Vec<JoinHandle<()>>> {
        let mut threads = Vec::new();
        let options = &self.env.options;
        if options.background_threads == 0 || options.parallel_search != ParallelSearch::TwoThreads {
            return Ok(threads);
        }
        for _ in 0..HELPERS {
            let shared = Arc::clone(self);
            let spawned =
                std::thread::Builder::new().name("siltstone-search".to_owned()).spawn(move || shared.help());
            threads.push(spawned.map_err(|e| Error::io(&e, "starting a thread for", &self.env.path))?);
        }
        Ok(threads)
    }

    /// The newest value of `key`.
    pub(super) fn get_newest(
        &self,
        keyspace: &OpenKeyspace,
        key: &EncodedKey<'_>,
    ) -> Result<Option<Vec<u8>>> {
        loop {
            let view = keyspace.view.load();
            let mut progress = Progress::default();
            let found = self.search_parallel(keyspace, &view, self.catalog.visible(), key, &mut progress)?;
            // The version to be seen may have given way to one that became visible meanwhile. Whoever holds a snapshot is spared.
            if progress.newer.is_none_or(|newer| newer > self.catalog.visible()) {
                let value = found.unwrap_or_default().value;
                keyspace.counters.note_get(value.is_some(), &progress.trace);
                return Ok(value);
            }
        }
    }

    /// The value of `key`, and where it was found, as `sequence`, which is held, sees it in `view`.
    pub(super) fn find(
        &self,
        keyspace: &OpenKeyspace,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Result<Found> {
        let mut progress = Progress::default();
        let found = self.search_parallel(keyspace, view, sequence, key, &mut progress)?.unwrap_or_default();
        keyspace.counters.note_get(found.value.is_some(), &progress.trace);
        Ok(found)
    }

    /// The values of `keys`, in their order, as `sequence`, which is held, sees them in `view`.
    pub(super) fn get_many(
        &self,
        keyspace: &OpenKeyspace,
        view: &View,
        sequence: Sequence,
        keys: &[EncodedKey<'_>],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let reader = self.env.reader.reading_ahead();
        let mut values = vec![None; keys.len()];
        let mut searches: Vec<_> =
            keys.iter().zip(&mut values).map(|found| Some((found, Progress::default()))).collect();
        let mut touched = 0;
        reader.fetch_for(keys.len(), |number| {
            // One that has ended may be called again, for what it wanted as well.
            let Some(place) = searches.get_mut(number) else { return Ok(()) };
            let Some(((key, value), progress)) = place else { return Ok(()) };
            if number == touched {
                touched += TOUCHED_TOGETHER;
                view.version.prefetch(keys.get(number..touched.min(keys.len())).unwrap_or_default());
            }
            match self.search(view, sequence, key, &reader, progress, usize::MAX) {
                Ok(found) => {
                    **value = found.unwrap_or_default().value;
                    keyspace.counters.note_get(value.is_some(), &progress.trace);
                    *place = None;
                    Ok(())
                }
                Err(_) if reader.gave_up() => Ok(()),
                Err(error) => Err(error),
            }
        })?;
        Ok(values)
    }

    /// What the heads say. After an error `progress` is as before, but for what the device has done.
    pub(super) fn ask_heads(
        &self,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
        reader: &Reader,
        progress: &mut Progress,
    ) -> Result<Option<Found>> {
        let before = progress.trace;
        for head in view.buffers() {
            let mut asking = Asking { reader, trace: &mut progress.trace, newer: &mut progress.newer };
            let lookup = head.get(key, sequence, &mut asking).inspect_err(|_| {
                progress.trace = ReadTrace { device_reads: progress.trace.device_reads, ..before };
            })?;
            if let Some(value) = self.answer(lookup) {
                return Ok(Some(Found { value, table: 0 }));
            }
        }
        Ok(None)
    }

    /// Searches from where `progress` stands, up to but not including level `end`; after an error it stands at the table that
    /// failed. `None` where nothing is said of the key.
    pub(super) fn search(
        &self,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
        reader: &Reader,
        progress: &mut Progress,
        end: usize,
    ) -> Result<Option<Found>> {
        if !progress.failed
            && let Some(found) = self.ask_heads(view, sequence, key, reader, progress)?
        {
            return Ok(Some(found));
        }
        self.search_levels(&view.version, key, reader, progress, end)
    }

    /// The same in tables alone.
    pub(super) fn search_levels(
        &self,
        version: &Version,
        key: &EncodedKey<'_>,
        reader: &Reader,
        progress: &mut Progress,
        end: usize,
    ) -> Result<Option<Found>> {
        let resumes = progress.failed;
        for (depth, level) in version.levels.iter().enumerate().take(end).skip(progress.level) {
            let Some(region) = level.region_of(key.digest.hi) else { continue };
            let trace = &mut progress.trace;
            let first = if resumes && depth == progress.level { progress.run } else { 0 };
            if !(resumes && depth == progress.level) {
                progress.probed_above = trace.tables_probed;
                trace.filter_probes += u64::from(region.has_filter_in_memory());
            }
            let before = *trace;
            let candidates = region.candidates(key, reader, trace).inspect_err(|_| {
                (progress.failed, progress.level, progress.run, *trace) = (true, depth, first, before);
            })?;
            for (number, (run, is_candidate)) in region.runs.iter().zip(candidates).enumerate().skip(first) {
                if is_candidate != Candidate::No
                    && let Some(table) = run.table_for(key.digest, key.key)
                {
                    let before = *trace;
                    let lookup = table.get(key, reader, trace).inspect_err(|_| {
                        (progress.failed, progress.level, progress.run, *trace) =
                            (true, depth, number, before);
                    })?;
                    let found = self.answer(lookup);
                    trace.note_region(progress.probed_above);
                    if let Some(value) = found {
                        progress.level = depth;
                        return Ok(Some(Found { value, table: table.id() }));
                    }
                    trace.false_positives += u64::from(is_candidate == Candidate::Yes);
                }
                if run.tombstones.hides(key) {
                    progress.level = depth;
                    return Ok(Some(Found::default()));
                }
            }
        }
        progress.level = usize::MAX;
        Ok(None)
    }

    /// What a lookup means for a get; the clock is read only for values that expire.
    fn answer(&self, lookup: Lookup) -> Option<Option<Vec<u8>>> {
        match lookup {
            Lookup::Absent => None,
            Lookup::Deleted => Some(None),
            Lookup::Put { value, expires_at_ms } => {
                let is_live = expires_at_ms == 0 || self.env.now_ms() < expires_at_ms;
                Some(is_live.then_some(value))
            }
        }
    }
}
