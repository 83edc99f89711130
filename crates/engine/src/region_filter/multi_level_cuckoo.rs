//! Multi-level cuckoo filters over the runs of a region.
//!
//! Source: SlimDB (VLDB'17) §3.2; the structure is `multi_level_cuckoo` in `siltstone-succinct`. Where we
//! differ, and why:
//!
//! * What a non-blind write learnt is a *table*, not a yes or no: "the next older version of this key lies in
//!   table T". If T is among the region's runs, that version is the newest here, whatever has been moved
//!   since the write; if it is not, nothing is known. So knowledge may be stale, and is never wrong.

use super::run::FilteredRun;
use super::sidecar;
use super::slotted::{Prefetch, SlotFilter, Slotted};
use crate::ids::{RunId, TableId};
use crate::memory::MemoryBudget;
use siltstone_design::EncodedKey;
use siltstone_succinct::filter::multi_level_cuckoo::{Knowledge, MultiLevelCuckooFilter, Parameters, RunKey};
use std::collections::HashMap;
use std::sync::Arc;

/// Keys handed to the filter together.
const BATCH_KEYS: usize = 256;

/// What the multi-level cuckoo filters of a level are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CuckooSettings {
    fingerprint_bits: u8,
    slot_bits: u8,
}

impl CuckooSettings {
    /// Filters for regions that are full at `runs` runs.
    pub fn new(fingerprint_bits: u8, runs: u16) -> Self {
        // Staggered regions grow to one and a half times their limit.
        let slot_bits = (u32::from(runs) * 3 / 2).max(2).next_power_of_two().ilog2() as u8;
        Self { fingerprint_bits, slot_bits }
    }

    /// Returns the most runs that a filter tells apart.
    pub fn max_runs(self) -> usize {
        1 << self.slot_bits
    }

    /// Returns about what a filter for `keys` keys takes in memory.
    pub fn estimated_bytes(self, keys: u64) -> u64 {
        // Nearly full but for the last step of growth, which is an eighth; growth bits not yet used; the
        // secondary table.
        keys * u64::from(self.fingerprint_bits + self.slot_bits + 3) / 6
    }

    /// Whether runs of regions that are full at so many runs can be added to `filter`: one that was made for
    /// an earlier design may tell fewer apart.
    pub fn suits(self, filter: &Slotted<MultiLevelCuckooFilter>) -> bool {
        filter.filter().parameters().slot_bits >= self.slot_bits
    }

    fn parameters(self) -> Parameters {
        let Self { fingerprint_bits, slot_bits } = self;
        // Room for as many runs of the first one's size as there are slots, and then some at fewer
        // fingerprint bits.
        let floor_bits = fingerprint_bits.saturating_sub(2).max(8);
        Parameters { fingerprint_bits, slot_bits, growth_bits: 3, floor_bits, ..Parameters::default() }
    }
}

impl SlotFilter for MultiLevelCuckooFilter {
    const KIND: u8 = sidecar::MULTI_LEVEL_CUCKOO;

    fn bytes_in_memory(&self) -> u64 {
        self.memory_bytes() as u64
    }

    #[inline]
    fn slots_of(&self, key: &EncodedKey<'_>) -> u64 {
        self.lookup(key.fingerprint, key.key).bits()
    }

    #[inline]
    fn prefetch(&self, key: &EncodedKey<'_>, step: Prefetch) {
        match step {
            Prefetch::First => self.prefetch(key.fingerprint),
            Prefetch::Second => {}
        }
    }

    fn remapped(&self, slots: &[u8]) -> Self {
        let mut filter = self.clone();
        filter.remap(slots);
        filter
    }

    fn without_slots_below(&self, _: u8) -> Option<Self> {
        None
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.to_bytes(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_bytes(bytes).ok()
    }
}

/// Adds runs to a filter, oldest first, in batches of keys.
pub(crate) struct CuckooBuilder {
    settings: CuckooSettings,
    runs: Vec<RunId>,
    /// Slot of every table of the covered runs.
    tables: HashMap<TableId, u8>,
    filter: Option<MultiLevelCuckooFilter>,
    /// The filter can take no more.
    is_full: bool,
    /// Whether the filter has been made, or made larger, for the run being added.
    has_room_for_run: bool,
    /// Keys that wait to be added together: fingerprint, end of the key in `keys`, what is known of it.
    batch: Vec<(u64, usize, Knowledge)>,
    keys: Vec<u8>,
}

impl CuckooBuilder {
    /// A builder on top of `present`, which covers the oldest of `runs` (newest first), or of nothing.
    pub fn new(
        settings: CuckooSettings,
        present: Option<&Slotted<MultiLevelCuckooFilter>>,
        runs: &[impl FilteredRun],
    ) -> Self {
        let fitting = present.filter(|filter| filter.covered() <= settings.max_runs());
        let filter = fitting.and_then(Slotted::of_present_runs);
        let covered = if filter.is_some() { present.map_or(0, Slotted::covered) } else { 0 };
        let mut builder = Self {
            settings,
            runs: Vec::new(),
            tables: HashMap::new(),
            // What can't be added to, or can't forget runs that have left, is replaced by a filter that
            // covers all anew.
            is_full: present.is_some() && filter.is_none(),
            filter: filter.map(Arc::unwrap_or_clone),
            has_room_for_run: false,
            batch: Vec::with_capacity(BATCH_KEYS),
            keys: Vec::new(),
        };
        for run in runs.iter().rev().take(covered) {
            builder.cover(run.id(), run.table_ids());
        }
        builder
    }

    fn slot(&self) -> u8 {
        assert!(self.runs.len() < self.settings.max_runs(), "no slot is left for another run");
        self.runs.len() as u8
    }

    fn cover(&mut self, run: RunId, tables: impl Iterator<Item = TableId>) {
        let slot = self.slot();
        self.tables.extend(tables.map(|table| (table, slot)));
        self.runs.push(run);
    }

    /// Whether it can take another run.
    pub fn has_room(&self) -> bool {
        !self.is_full && self.runs.len() < self.settings.max_runs()
    }

    /// Adds a key of the run being added, which is expected to have about `expected_keys`.
    pub fn add(&mut self, key: &EncodedKey<'_>, older_in: TableId, expected_keys: u64) {
        if !self.has_room_for_run {
            self.make_room(expected_keys);
        }
        let knowledge = match self.tables.get(&older_in) {
            Some(slot) => Knowledge::InSlot(*slot),
            None => Knowledge::Unknown,
        };
        self.keys.extend_from_slice(key.key);
        self.batch.push((key.fingerprint, self.keys.len(), knowledge));
        if self.batch.len() == BATCH_KEYS {
            self.insert_batch();
        }
    }

    /// Sizes the filter for `keys` keys more at once, and a sixteenth larger: the last places of a full table
    /// are dear to find.
    pub fn make_room(&mut self, keys: u64) {
        self.has_room_for_run = true;
        self.filter = match self.filter.take() {
            // Where it may not grow so much, it grows as far as it may.
            Some(filter) => filter.grown(keys + (filter.entries() + keys) / 16).ok().or(Some(filter)),
            // Parameters of a checked design are sound; more keys than there can be do not fit.
            None => MultiLevelCuckooFilter::new(self.settings.parameters(), keys + keys / 16).ok(),
        };
        self.is_full |= self.filter.is_none();
    }

    fn insert_batch(&mut self) {
        let slot = self.slot();
        let mut from = 0;
        let batch = self.batch.drain(..).map(|(hash, end, knowledge)| {
            #[expect(clippy::indexing_slicing, reason = "each key's end was noted as it was added")]
            let key = &self.keys[from..end];
            from = end;
            RunKey { hash, key, knowledge }
        });
        if let Some(filter) = &mut self.filter {
            self.is_full |= filter.insert_run(slot, batch).is_err();
        }
        self.keys.clear();
    }

    /// Ends the run being added, which has these tables.
    pub fn end_run(&mut self, run: RunId, tables: impl Iterator<Item = TableId>) {
        self.has_room_for_run = false;
        self.insert_batch();
        self.cover(run, tables);
    }

    /// Returns the filter; `None` where it has no runs, is full or memory is short.
    pub fn finish(self, memory: &Arc<MemoryBudget>) -> Option<Slotted<MultiLevelCuckooFilter>> {
        assert!(self.batch.is_empty() && self.keys.is_empty(), "the last run was not ended");
        let filter = self.filter.filter(|_| !self.is_full)?;
        Slotted::new(self.runs, Arc::new(filter), memory)
    }
}
