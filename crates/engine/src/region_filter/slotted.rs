//! Filters in memory that name runs by slots.
//!
//! A slot is a run's place among the runs that the filter covers, the oldest first. Runs leave a region at
//! the old end, when they are pushed; their slots stay in the filter, and are passed over, until the next run
//! is added.
//!
//! Invariants: `runs` are the oldest of the region's, oldest first, and the slot of a run is its place there
//! plus `gone`; for every key of these runs the slots include that of the newest run that has it.

use super::run::FilteredRun;
use super::sidecar::{KeepRecord, Malformed};
use crate::ids::RunId;
use crate::memory::{Holder, MemoryBudget, Reservation};
use siltstone_design::EncodedKey;
use std::sync::Arc;

/// Two steps of bringing memory towards the processor's cache, each for many keys at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefetch {
    First,
    Second,
}

/// A filter that names slots.
pub(crate) trait SlotFilter: Clone {
    /// How records of sidecars name it.
    const KIND: u8;

    /// Returns the bytes that it takes in memory.
    fn bytes_in_memory(&self) -> u64;
    /// Returns the slots that may hold the newest version of `key`, as bits.
    fn slots_of(&self, key: &EncodedKey<'_>) -> u64;
    /// Brings what [`SlotFilter::slots_of`] reads towards the processor's cache.
    fn prefetch(&self, key: &EncodedKey<'_>, step: Prefetch);
    /// Returns the filter after slot `s` has become `slots[s]`.
    fn remapped(&self, slots: &[u8]) -> Self;
    /// Returns the filter without the slots below `gone`, those above moved down; `None` where it can't
    /// forget.
    fn without_slots_below(&self, gone: u8) -> Option<Self>;
    /// Appends its bytes.
    fn encode(&self, out: &mut Vec<u8>);
    /// Decodes what [`SlotFilter::encode`] wrote.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// A filter over the oldest runs of a region.
#[derive(Debug)]
pub(crate) struct Slotted<F> {
    runs: Vec<RunId>,
    filter: Arc<F>,
    /// Slots below those of `runs`, whose runs have been pushed since.
    gone: u32,
    held: Arc<Reservation>,
}

impl<F> Clone for Slotted<F> {
    fn clone(&self) -> Self {
        let (runs, filter, held) = (self.runs.clone(), Arc::clone(&self.filter), Arc::clone(&self.held));
        Self { runs, filter, gone: self.gone, held }
    }
}

impl<F: SlotFilter> Slotted<F> {
    /// A filter over `runs`, oldest first; `None` where memory is short.
    pub fn new(runs: Vec<RunId>, filter: Arc<F>, memory: &Arc<MemoryBudget>) -> Option<Self> {
        assert!(runs.len() <= u64::BITS as usize, "a filter names 64 runs at most, here are {}", runs.len());
        let held = memory.try_hold(Holder::Filter, filter.bytes_in_memory())?;
        Some(Self { runs, filter, gone: 0, held: Arc::new(held) })
    }

    /// Returns the filter itself.
    pub fn filter(&self) -> &F {
        &self.filter
    }

    /// Returns the runs that it covers, oldest first.
    pub fn runs(&self) -> &[RunId] {
        &self.runs
    }

    /// Returns how many runs it covers.
    #[inline]
    pub fn covered(&self) -> usize {
        self.runs.len()
    }

    /// Whether it knows of runs that have left: one that can't forget them can't be added to, nor be kept
    /// while the store is closed.
    pub fn knows_gone(&self) -> bool {
        self.gone > 0
    }

    pub fn memory_bytes(&self) -> u64 {
        self.filter.bytes_in_memory()
    }

    /// Whether it covers the oldest of `runs`, which are newest first.
    pub fn fits(&self, runs: &[impl FilteredRun]) -> bool {
        self.runs.len() <= runs.len() && runs.iter().rev().zip(&self.runs).all(|(run, id)| run.id() == *id)
    }

    /// Returns what is left of it for `runs` (newest first) once the oldest that it covers have been pushed
    /// while others came on top; `Some(None)` where it fits as it is, `None` where nothing of it does.
    pub fn fitted(&self, runs: &[impl FilteredRun]) -> Option<Option<Self>> {
        let oldest = runs.last()?.id();
        let pushed = self.runs.iter().position(|run| *run == oldest)?;
        if pushed == 0 {
            return self.fits(runs).then_some(None);
        }
        let left = Self {
            runs: self.runs.get(pushed..)?.to_vec(),
            filter: Arc::clone(&self.filter),
            gone: self.gone + pushed as u32,
            held: Arc::clone(&self.held),
        };
        left.fits(runs).then_some(Some(left))
    }

    /// Returns the runs that may hold the newest version of `key`, as bits, the oldest lowest.
    #[inline]
    pub fn slots(&self, key: &EncodedKey<'_>) -> u64 {
        self.filter.slots_of(key) >> self.gone
    }

    #[inline]
    pub fn prefetch(&self, key: &EncodedKey<'_>, step: Prefetch) {
        self.filter.prefetch(key, step);
    }

    /// Returns the filter of just the runs that it covers; `None` where it knows of others and can't forget
    /// them.
    pub fn of_present_runs(&self) -> Option<Arc<F>> {
        if self.gone == 0 {
            return Some(Arc::clone(&self.filter));
        }
        // More slots than a filter has names for have never left one.
        self.filter.without_slots_below(u8::try_from(self.gone).ok()?).map(Arc::new)
    }

    /// Returns the filter after the neighbouring runs `merged` have become `run`; `None` where it can't be
    /// had from this one.
    ///
    /// Keys that the merge dropped stay in the filter: they cost a probe, never an answer.
    pub fn after_rewrite(&self, merged: &[RunId], run: RunId, memory: &Arc<MemoryBudget>) -> Option<Self> {
        let is_merged = |id: &RunId| merged.contains(id);
        let first = self.runs.iter().position(is_merged)?;
        let after = first + merged.len();
        if !self.runs.get(first..after)?.iter().all(is_merged) {
            return None;
        }
        let mut runs = self.runs.clone();
        runs.splice(first..after, [run]);
        let slot = |old: usize| match old {
            _ if old < first => old,
            _ if old < after => first,
            _ => old + 1 - merged.len(),
        };
        let slots: Vec<u8> = (0..self.runs.len()).map(|old| slot(old) as u8).collect();
        Self::new(runs, Arc::new(self.of_present_runs()?.remapped(&slots)), memory)
    }

    /// The same over what `changed` makes of the filter, which takes no more memory; `None` where it knows of
    /// runs that have left and can't forget them.
    pub fn smaller(&self, memory: &Arc<MemoryBudget>, changed: impl FnOnce(&F) -> F) -> Option<Self> {
        let filter = Arc::new(changed(&*self.of_present_runs()?));
        // The one that it replaces goes in a moment.
        let held = Arc::new(memory.hold(Holder::Filter, filter.bytes_in_memory()));
        Some(Self { runs: self.runs.clone(), filter, gone: 0, held })
    }

    /// Hands its runs, its kind and its bytes to `keep`; nothing where it knows of runs that have left and
    /// can't forget them.
    pub fn encode(&self, keep: &mut KeepRecord<'_>) -> std::io::Result<()> {
        let Some(filter) = self.of_present_runs() else { return Ok(()) };
        keep_filter(&self.runs, &*filter, keep)
    }

    /// Decodes a filter over `runs`; `Ok(None)` where memory is short.
    pub fn decode(
        runs: Vec<RunId>,
        bytes: &[u8],
        memory: &Arc<MemoryBudget>,
    ) -> Result<Option<Self>, Malformed> {
        if runs.is_empty() || runs.len() > u64::BITS as usize {
            return Err(Malformed);
        }
        let filter = F::decode(bytes).ok_or(Malformed)?;
        Ok(Self::new(runs, Arc::new(filter), memory))
    }
}

/// Hands a filter over `runs`, oldest first, to `keep`.
pub(super) fn keep_filter<F: SlotFilter>(
    runs: &[RunId],
    filter: &F,
    keep: &mut KeepRecord<'_>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    keep(runs, F::KIND, &bytes)
}
