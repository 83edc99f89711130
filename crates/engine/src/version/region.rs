//! Region › Run: a node of the trie.

use super::run::Run;
use crate::cache::{Pause, Probe};
use crate::error::Result;
use crate::memory::FilterWorth;
use crate::region_filter::{Asked, Candidates, Contents, PossibleFilter, RegionFilter, RegionFilterKind};
use siltstone_design::{EncodedKey, RegionShape, TriePath};
use std::borrow::Cow;
use std::sync::Arc;

/// A node of the trie with its runs, newest first.
#[derive(Clone)]
pub(crate) struct Region {
    pub path: TriePath,
    pub runs: Vec<Arc<Run>>,
    /// How often its runs have been pushed.
    pub pushes: u64,
    /// What the planner sees, but for what expires with time.
    pub shape: RegionShape,
    /// The clock's time from which the shape is another, for what expires.
    pub(super) shape_until_ms: u64,
    /// Says which of the runs may hold a key.
    pub filter: Option<Arc<RegionFilter>>,
}

impl Region {
    pub fn new(path: TriePath, runs: Vec<Arc<Run>>, pushes: u64) -> Self {
        let shape = RegionShape {
            path,
            runs: runs.iter().map(|run| run.shape()).collect(),
            pushes,
            has_children: false,
            largest_group_bytes: largest_group_bytes(&runs),
            dead_bytes: dead_bytes(&runs),
            ..RegionShape::default()
        };
        let shape_until_ms = shape_until_ms(&runs);
        Self { path, runs, pushes, shape, shape_until_ms, filter: None }
    }

    /// Returns the region with other runs. Its filter stays as it is, and has to be
    /// [fitted](Self::fit_filter) once all of the runs are there.
    pub fn with_runs(&self, runs: Vec<Arc<Run>>, pushes: u64) -> Self {
        let mut region = Self { filter: self.filter.clone(), ..Self::new(self.path, runs, pushes) };
        region.shape.has_children = self.shape.has_children;
        region
    }

    /// Returns it as lookups come to it.
    fn asked(&self) -> Asked {
        Asked { path: self.path, has_children: self.shape.has_children }
    }

    /// Returns the share of all lookups that filters of the run at `place` spare a read.
    pub fn spared_by_filters(&self, place: usize) -> f64 {
        self.asked().in_vain(place, self.runs.len())
    }

    /// Returns what the filters of the run at `place` are worth.
    pub fn filter_worth(&self, place: usize) -> FilterWorth {
        let bytes = self.runs.get(place).map_or(0, |run| run.filter_bytes);
        FilterWorth::of(self.spared_by_filters(place), bytes)
    }

    /// Tells its tables what their filters are worth here.
    pub fn note_filter_worths(&self) {
        for (place, run) in self.runs.iter().enumerate().filter(|(_, run)| run.filter_bytes > 0) {
            let worth = self.filter_worth(place);
            run.tables.iter().for_each(|table| table.set_filter_worth(worth));
        }
    }

    /// Keeps what the filter says of the runs that are here.
    pub fn fit_filter(&mut self) {
        self.filter = self.filter.take().and_then(|filter| filter.fitted(&self.runs));
    }

    /// Returns the filter that it has or may have, of this kind.
    pub fn possible_filter(&self, kind: RegionFilterKind) -> PossibleFilter {
        let is_whole = |filter: &&RegionFilter| {
            kind.is_of(filter) && !filter.is_stale() && filter.covered() >= self.runs.len()
        };
        let stays_so_long = kind.is_in_memory() && !kind.can_be_shortened();
        let present = self.filter.as_deref().filter(|_| stays_so_long).filter(is_whole);
        let known_bytes = present.map(RegionFilter::memory_bytes);
        PossibleFilter { kind, region: self.asked(), contents: Contents::of(&self.runs), known_bytes }
    }

    /// Returns the region with no filter.
    pub fn without_filter(&self) -> Self {
        Self { filter: None, ..self.clone() }
    }

    /// Returns the region with what `gain` adds to its filter, if it is of use here.
    pub fn filtered_by(&self, gain: &Arc<RegionFilter>) -> Option<Self> {
        let filter = RegionFilter::joined(self.filter.as_ref(), gain, &self.runs)?;
        Some(Self { filter: Some(filter), ..self.clone() })
    }

    /// Returns what the filter says of each run, newest first, as to the newest version of `key`. A filter in
    /// memory that is asked counts as one probe.
    #[inline]
    pub fn candidates(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<Candidates, Pause> {
        let Some(filter) = &self.filter else { return Ok(Candidates::unknown(self.runs.len())) };
        let candidates = filter.candidates(key, self.runs.len(), probe)?;
        probe.trace.filter_probes += u64::from(filter.is_in_memory());
        Ok(candidates)
    }

    /// Whether asking the filter is a probe of memory.
    #[inline]
    pub fn has_filter_in_memory(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.is_in_memory())
    }

    /// Whether its filter names only the run with a key's newest version, so that nothing is known of those
    /// with older ones.
    #[inline]
    pub fn names_newest_only(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.names_newest_only())
    }

    /// The shape at the clock's time `now_ms`: what has expired is dead too.
    pub fn shape_at(&self, now_ms: u64) -> Cow<'_, RegionShape> {
        if now_ms < self.shape_until_ms {
            return Cow::Borrowed(&self.shape);
        }
        let mut shape = self.shape.clone();
        let (mut expired, mut bytes) = (0u64, 0u64);
        let dead_bytes = shape.dead_bytes.iter_mut();
        for ((run, shape), dead) in self.runs.iter().zip(&mut shape.runs).zip(dead_bytes) {
            for table in &run.tables {
                let meta = table.meta();
                let share = meta.expired_share(now_ms);
                expired += (meta.bytes as f64 * share) as u64;
                shape.expired += (meta.entries as f64 * share).ceil() as u64;
            }
            shape.is_dead = run.is_dead(now_ms);
            bytes += run.bytes();
            *dead = (*dead + expired).min(bytes);
        }
        Cow::Owned(shape)
    }
}

/// The clock's time from which something has expired, or the oldest run, which may then be dropped, is dead.
fn shape_until_ms(runs: &[Arc<Run>]) -> u64 {
    if runs.last().is_some_and(|run| run.is_dead(0)) {
        return 0;
    }
    let tables = runs.iter().flat_map(|run| &run.tables);
    let expiring = tables.map(|table| table.meta()).filter(|meta| meta.expiring > 0);
    expiring.map(|meta| meta.expires_ms.0).min().unwrap_or(u64::MAX)
}

/// Bytes, as they stand in tables, of the largest group that any table has: the sum of that group's over all
/// tables.
fn largest_group_bytes(runs: &[Arc<Run>]) -> u64 {
    let metas = || runs.iter().flat_map(|run| &run.tables).map(|table| table.meta());
    let Some((hi, _)) = metas().map(|meta| meta.largest_group).max_by_key(|(_, bytes)| *bytes) else {
        return 0;
    };
    let same = metas().filter(|meta| meta.largest_group.0 == hi);
    let bytes =
        same.map(|meta| meta.bytes as f64 * meta.largest_group.1 as f64 / meta.user_bytes.max(1) as f64);
    bytes.sum::<f64>() as u64
}

/// `dead[k]`: estimated bytes freed by merging the `k + 1` newest runs. Kills come from the manifest as they
/// are, however large: sums stop at the largest number.
fn dead_bytes(runs: &[Arc<Run>]) -> Vec<u64> {
    let mut dead = Vec::with_capacity(runs.len());
    let mut sum = 0u64;
    for (k, run) in runs.iter().enumerate() {
        let newer = runs.get(..k).unwrap_or(&[]);
        let killed = newer.iter().flat_map(|newer| &newer.kills).filter(|(victim, _)| *victim == run.id);
        sum = killed.fold(sum, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let deleted = newer.iter().map(|newer| newer.deleted_group_bytes(run)).max();
        sum = sum.saturating_add(deleted.unwrap_or(0));
        dead.push(sum);
    }
    // Tombstones go only with the oldest run.
    if let Some(last) = dead.last_mut() {
        for run in runs {
            let (deleted, entries): (u64, u64) =
                run.tables.iter().fold((0, 0), |(d, e), t| (d + t.meta().deleted, e + t.meta().entries));
            let share = deleted as f64 / entries.max(1) as f64;
            *last = last.saturating_add((run.bytes() as f64 * share) as u64);
        }
    }
    dead
}
