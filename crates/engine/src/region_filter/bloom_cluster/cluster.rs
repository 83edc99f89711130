//! What is known of a region's runs: their rows, in memory or in a file.

use super::super::run::FilteredRun;
use super::super::sidecar::{CLUSTER_ROW, KeepRecord, Malformed, SidecarPages};
use super::file::FiledRows;
use crate::cache::{PageRef, Pause, Probe};
use crate::error::Result;
use crate::ids::RunId;
use crate::memory::{Holder, MemoryBudget, Reservation};
use siltstone_design::{EncodedKey, TriePath};
use siltstone_succinct::buckets::spread::Spread;
use siltstone_succinct::filter::bloom_cluster::{MOST_ROWS, Row};
use std::sync::Arc;

/// A row in memory with its share of the budget.
#[derive(Debug)]
pub(super) struct HeldRow {
    pub row: Row,
    _held: Reservation,
}

impl HeldRow {
    /// Takes a share of the budget for `row`; `None` where memory is short.
    pub fn new(row: Row, memory: &Arc<MemoryBudget>) -> Option<Arc<Self>> {
        let held = memory.try_hold(Holder::Filter, row.memory_bytes() as u64)?;
        Some(Arc::new(Self { row, _held: held }))
    }
}

/// What tells whether a run may hold a key.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Nothing,
    Row(Arc<HeldRow>),
    /// The row with this number in the file.
    File(usize),
}

/// Bytes of a cluster's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowBytes {
    /// Of those in memory.
    pub held: u64,
    /// Of those in the file that are used.
    pub filed: u64,
}

/// What is known of a region's runs.
#[derive(Clone, Debug)]
pub(crate) struct BloomCluster {
    pub(super) spread: Spread,
    pub(super) runs: Vec<(RunId, Source)>,
    pub(super) file: Option<Arc<FiledRows>>,
}

impl BloomCluster {
    /// A cluster of the one row of `run`.
    pub(super) fn of_row(spread: Spread, run: RunId, row: Arc<HeldRow>) -> Self {
        Self { spread, runs: vec![(run, Source::Row(row))], file: None }
    }

    /// Returns what is known of `runs` (newest first), of which some may be new and others gone; `None` where
    /// that is nothing.
    pub fn fitted(&self, runs: &[impl FilteredRun]) -> Option<Self> {
        let source = |run: RunId| {
            let known = self.runs.iter().find(|(known, _)| *known == run).map(|(_, source)| source.clone());
            let in_file = || self.file.as_ref()?.place_of(run);
            match known {
                Some(Source::Row(row)) => Source::Row(row),
                _ => in_file().map_or(Source::Nothing, Source::File),
            }
        };
        let runs: Vec<_> = runs.iter().map(|run| (run.id(), source(run.id()))).collect();
        let uses_file = runs.iter().any(|(_, source)| matches!(source, Source::File(_)));
        let uses_rows = runs.iter().any(|(_, source)| matches!(source, Source::Row(_)));
        (uses_file || uses_rows).then(|| Self {
            spread: self.spread,
            runs,
            file: self.file.clone().filter(|_| uses_file),
        })
    }

    /// Returns what this one and `gain` know of `runs` (newest first); where both know one, `gain` counts.
    /// `None` where `gain` is of no use: its columns are others, and it has no file that could take the place
    /// of all.
    pub fn joined(&self, gain: &Self, runs: &[impl FilteredRun]) -> Option<Self> {
        if self.spread != gain.spread {
            return gain.file.as_ref().and_then(|_| gain.fitted(runs));
        }
        let mut joined = self.clone();
        joined.runs.retain(|(run, _)| gain.runs.iter().all(|(gained, _)| gained != run));
        joined.runs.extend(gain.runs.iter().filter(|(_, source)| matches!(source, Source::Row(_))).cloned());
        // What memory had of the runs in a new file has left `joined` with them.
        joined.file = gain.file.clone().or(joined.file);
        joined.fitted(runs)
    }

    pub fn pages(&self) -> Option<&Arc<SidecarPages>> {
        self.file.as_ref().map(|file| &file.pages)
    }

    pub(super) fn columns(&self) -> u32 {
        self.spread.buckets()
    }

    /// Returns how many runs it has a row of.
    pub fn covered(&self) -> usize {
        self.runs.iter().filter(|(_, source)| !matches!(source, Source::Nothing)).count()
    }

    /// Returns the places, newest first, of runs that neither a file nor memory has a row of.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        let runs = self.runs.iter().enumerate();
        runs.filter(|(_, (_, source))| matches!(source, Source::Nothing)).map(|(at, _)| at)
    }

    /// Returns the places, newest first, of runs of which nothing can be had; a file that is damaged is none.
    pub(super) fn unknown(&self) -> impl Iterator<Item = usize> {
        let is_lost = self.file.as_ref().is_some_and(|file| file.pages.is_damaged());
        let is_unknown = move |source: &Source| match source {
            Source::Nothing => true,
            Source::File(_) => is_lost,
            Source::Row(_) => false,
        };
        self.runs.iter().enumerate().filter(move |(_, (_, source))| is_unknown(source)).map(|(at, _)| at)
    }

    /// Returns what a file of all that is known would hold, newest run first.
    pub(super) fn known(&self) -> impl Iterator<Item = &(RunId, Source)> {
        self.runs.iter().filter(|(_, source)| !matches!(source, Source::Nothing)).take(MOST_ROWS)
    }

    pub fn row_bytes(&self) -> RowBytes {
        let mut bytes = RowBytes::default();
        for (_, source) in &self.runs {
            match source {
                Source::Nothing => {}
                Source::Row(row) => bytes.held += row.row.memory_bytes() as u64,
                Source::File(number) => {
                    let row = self.file.as_ref().and_then(|file| file.shape.rows().get(*number));
                    bytes.filed += row.map_or(0, |row| u64::from(row.width)) * u64::from(self.columns());
                }
            }
        }
        bytes
    }

    /// Returns the page that [`BloomCluster::absent`] reads for `key`, unless rows in memory leave it nothing
    /// to ask.
    pub fn first_page(&self, key: &EncodedKey<'_>) -> Option<PageRef> {
        let filed = self.runs.iter().filter(|(_, source)| matches!(source, Source::File(_))).take(2).count();
        let file = self.file.as_ref().filter(|file| filed > 1 && !file.pages.is_damaged())?;
        let page = file.first_page(self.spread.bucket(key.digest.hi));
        Some(PageRef::Page { file: file.pages.id, page })
    }

    /// Returns the runs that certainly do not hold `key`, as bits by their places, newest first.
    #[inline]
    pub fn absent(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<u128, Pause> {
        let column = self.spread.bucket(key.digest.hi);
        let (mut absent, mut filed, mut possible) = (0u128, 0, 0);
        for (at, (_, source)) in self.runs.iter().enumerate().take(MOST_ROWS) {
            match source {
                Source::Row(row) if !row.row.may_contain(column, key.fingerprint) => absent |= 1 << at,
                Source::File(_) => {
                    filed += 1;
                    possible += 1;
                }
                Source::Row(_) | Source::Nothing => possible += 1,
            }
        }
        // Where only one run is left to ask, asking it is as cheap as asking for its filter.
        if filed > 0
            && possible > 1
            && let Some(file) = &self.file
            && let Some(found) = file.candidates(column, key.fingerprint, probe)?
        {
            for (at, (_, source)) in self.runs.iter().enumerate().take(MOST_ROWS) {
                if let Source::File(number) = source {
                    absent |= u128::from(found >> number & 1 == 0) << at;
                }
            }
        }
        Ok(absent)
    }

    /// Hands the rows that are in memory to `keep`, a record each.
    pub fn encode_rows(&self, keep: &mut KeepRecord<'_>) -> std::io::Result<()> {
        for (run, source) in &self.runs {
            if let Source::Row(held) = source {
                let mut bytes = Vec::new();
                held.row.to_bytes(&mut bytes);
                keep(&[*run], CLUSTER_ROW, &bytes)?;
            }
        }
        Ok(())
    }

    /// Decodes the row of one run of region `path`; `Ok(None)` where memory is short.
    pub fn decode_row(
        path: TriePath,
        runs: &[RunId],
        bytes: &[u8],
        memory: &Arc<MemoryBudget>,
    ) -> std::result::Result<Option<Self>, Malformed> {
        let [run] = *runs else { return Err(Malformed) };
        let row = Row::from_bytes(bytes).map_err(|_| Malformed)?;
        let spread = Spread::new(path.first(), path.last(), row.columns());
        Ok(HeldRow::new(row, memory).map(|row| Self::of_row(spread, run, row)))
    }

    /// Decodes the shape of a cluster whose boxes are `pages`.
    pub fn of_pages(
        path: TriePath,
        runs: &[RunId],
        bytes: &[u8],
        pages: Arc<SidecarPages>,
    ) -> std::result::Result<Self, Malformed> {
        let file = FiledRows::decode(runs, bytes, pages).ok_or(Malformed)?;
        let spread = Spread::new(path.first(), path.last(), file.shape.columns());
        let runs = runs.iter().enumerate().map(|(number, run)| (*run, Source::File(number)));
        Ok(Self { spread, runs: runs.collect(), file: Some(Arc::new(file)) })
    }
}
