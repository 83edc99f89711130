//! THE READ PATH.
//!
//! Pin a view → memtables, newest first → per level the one region on the key's path → its runs, newest first, each with at
//! most one table that may hold the key → filter, index, one page. The first answer ends it.
//!
//! Many keys at once ([`Store::get_many`]): each search goes as far as it can with what is in memory and gives up at the
//! first page that is not. Those pages are fetched at the same time, and the searches go on where they stood.

use super::store::{KeyspaceInner, Store, View};
use crate::cache::{Reader, TableId};
use crate::entry::Lookup;
use crate::error::Result;
use crate::memtable::Sequence;
use crate::stats::ReadTrace;
use crate::version::level::{Candidate, Version};
use siltstone_design::EncodedKey;

/// What a search ends with.
#[derive(Default)]
pub(super) struct Found {
    pub value: Option<Vec<u8>>,
    /// The table whose entry ended it; 0 where a memtable's did, or none was found.
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
}

impl Progress {
    /// A search that has come to `level`.
    pub fn at(level: usize) -> Self {
        Self { level, ..Self::default() }
    }

    /// The level where the search ended or failed; beyond all levels where it found nothing.
    pub fn level(&self) -> usize {
        self.level
    }
}

impl Store {
    /// The value of `key` as `sequence` sees it in `view`.
    pub(super) fn get(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.find(keyspace, view, sequence, key)?.value)
    }

    /// The same, with where it was found.
    pub(super) fn find(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Result<Found> {
        let mut progress = Progress::default();
        let found = self.search_parallel(keyspace, view, sequence, key, &mut progress)?.unwrap_or_default();
        keyspace.counters.note_get(found.value.is_some(), &progress.trace);
        Ok(found)
    }

    /// The values of `keys`, in their order, as `sequence` sees them in `view`.
    pub(super) fn get_many(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        keys: &[EncodedKey<'_>],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let reader = self.reader.reading_ahead();
        let mut values = vec![None; keys.len()];
        let mut searches: Vec<_> =
            keys.iter().zip(&mut values).map(|(key, value)| (key, value, Progress::default())).collect();
        while !searches.is_empty() {
            let mut failure = None;
            searches.retain_mut(|(key, value, progress)| {
                match self.search(view, sequence, key, &reader, progress, usize::MAX) {
                    Ok(found) => {
                        let found = found.unwrap_or_default();
                        keyspace.counters.note_get(found.value.is_some(), &progress.trace);
                        **value = found.value;
                        false
                    }
                    Err(_) if reader.gave_up() => true,
                    Err(error) => {
                        failure.get_or_insert(error);
                        false
                    }
                }
            });
            if let Some(error) = failure {
                return Err(error);
            }
            reader.fetch()?;
        }
        Ok(values)
    }

    /// What the memtables say.
    pub(super) fn ask_memtables(
        &self,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Option<Found> {
        let mut answers = view.memtables().map(|memtable| self.answer(memtable.get(key, sequence)));
        answers.find_map(|answer| answer.map(|value| Found { value, table: 0 }))
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
            && let Some(found) = self.ask_memtables(view, sequence, key)
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
                trace.filter_probes += u64::from(region.guide.is_some());
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
                let is_live = expires_at_ms == 0 || self.disk.now_ms() < expires_at_ms;
                Some(is_live.then_some(value))
            }
        }
    }
}
