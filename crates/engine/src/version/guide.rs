//! Guides: one multi-level cuckoo filter per region, which says in which run of the pile a key may be.
//!
//! Source: SlimDB (VLDB'17) §3.2. Where we differ, and why:
//!
//! * A guide belongs to a region and goes with its pile, so no entry ever moves from one level's filter to another's.
//! * A guide is never changed. To add a run the writer copies it, adds the run's keys and publishes the copy with the
//!   version that has the run: readers never wait, and a snapshot keeps the guide that fits its tables.
//! * A guide may cover only the oldest runs of a pile; those above it are simply asked. Nothing depends on having one:
//!   it may be dropped where memory is short, and is built anew from the tables in the background.
//! * What a non-blind write learnt is a *table*, not a yes or no: "the next older version of this key lies in table T".
//!   If T is in the pile, that version is the pile's newest, whatever has been moved since the write; if it is not,
//!   nothing is known. So knowledge may be stale, and is never wrong.
//!
//! Invariants: `runs` are the oldest of the region's pile, oldest first, and the slot of a run is its place there; for
//! every key of these runs the candidates include the newest run that has it.

use super::level::{Run, RunId};
use crate::codec::{Decoder, put_bytes};
use crate::memory::{Holder, MemoryBudget, Reservation};
use siltstone_design::{EncodedKey, FilterSpec, LevelSpec, TriePath};
use siltstone_succinct::code::varint;
use siltstone_succinct::filter::multi_level_cuckoo::{Knowledge, MultiLevelCuckooFilter, Parameters, RunKey};
use std::collections::HashMap;
use std::sync::Arc;

/// Part of the budget that guides leave to others.
const KEPT_FROM_GUIDES: u64 = 4;
/// Keys handed to the filter together.
const BATCH_KEYS: usize = 256;

/// What the guides of a level are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuideSpec {
    fingerprint_bits: u8,
    slot_bits: u8,
}

impl GuideSpec {
    /// `None` where the level has none.
    pub fn of(level: &LevelSpec) -> Option<Self> {
        let FilterSpec::MultiLevelCuckoo { fingerprint_bits } = level.filter else { return None };
        // A staggered pile grows to one and a half times its limit.
        let runs = u32::from(level.runs) * 3 / 2;
        let slot_bits = runs.max(2).next_power_of_two().ilog2() as u8;
        Some(Self { fingerprint_bits, slot_bits })
    }

    /// Most runs that a guide tells apart.
    pub fn max_runs(self) -> usize {
        1 << self.slot_bits
    }

    fn parameters(self) -> Parameters {
        let Self { fingerprint_bits, slot_bits } = self;
        // Room for as many runs of the first one's size as there are slots, and then some at fewer fingerprint bits.
        let floor_bits = fingerprint_bits.saturating_sub(2).max(8);
        Parameters { fingerprint_bits, slot_bits, growth_bits: 3, floor_bits, ..Parameters::default() }
    }

    /// About what a guide for `keys` keys takes in memory.
    pub fn estimated_bytes(self, keys: u64) -> u64 {
        // Nearly full but for the last step of growth, which is an eighth; growth bits not yet used; the secondary table.
        keys * u64::from(self.fingerprint_bits + self.slot_bits + 3) / 6
    }
}

/// A filter over the oldest runs of a region's pile.
#[derive(Debug)]
pub(crate) struct Guide {
    runs: Vec<RunId>,
    filter: MultiLevelCuckooFilter,
    _held: Reservation,
}

impl Guide {
    fn new(runs: Vec<RunId>, filter: MultiLevelCuckooFilter, memory: &Arc<MemoryBudget>) -> Option<Self> {
        let keep_free = memory.total_bytes() / KEPT_FROM_GUIDES;
        let held = memory.try_hold(Holder::Filter, filter.memory_bytes() as u64, keep_free)?;
        Some(Self { runs, filter, _held: held })
    }

    /// How many runs it covers.
    pub fn covered(&self) -> usize {
        self.runs.len()
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.filter.memory_bytes() as u64
    }

    /// Whether it covers the oldest runs of `pile`, which is newest first.
    pub fn fits(&self, pile: &[Arc<Run>]) -> bool {
        self.runs.len() <= pile.len() && pile.iter().rev().zip(&self.runs).all(|(run, id)| run.id == *id)
    }

    /// The slots that may hold the newest version of `key`, as bits.
    #[inline]
    pub fn candidates(&self, key: &EncodedKey<'_>) -> u64 {
        self.filter.lookup(key.fingerprint, key.key).bits()
    }

    /// The guide after the neighbouring runs `merged` have become `run`; `None` where it can't be had from this one.
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
        let mut filter = self.filter.clone();
        filter.remap(&slots);
        Self::new(runs, filter, memory)
    }

    /// Appends the guide's bytes: runs varint, each run's number varint, the filter's length varint and bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(out, self.runs.len() as u64);
        self.runs.iter().for_each(|run| varint::put_u64(out, *run));
        let mut filter = Vec::new();
        self.filter.to_bytes(&mut filter);
        put_bytes(out, &filter);
    }

    /// A guide from its bytes; `Ok(None)` where memory is short, `Err` where they make no sense.
    pub fn decode(from: &mut Decoder<'_>, memory: &Arc<MemoryBudget>) -> Result<Option<Self>, ()> {
        let mut runs = Vec::new();
        for _ in 0..from.varint().ok_or(())? {
            runs.push(from.varint().ok_or(())?);
        }
        let filter = MultiLevelCuckooFilter::from_bytes(from.bytes().ok_or(())?).map_err(|_| ())?;
        Ok(Self::new(runs, filter, memory))
    }
}

/// A guide for a region, to be seen once its runs are.
#[derive(Clone, Debug)]
pub(crate) struct NewGuide {
    pub level: usize,
    pub path: TriePath,
    pub guide: Arc<Guide>,
}

impl NewGuide {
    pub fn new(level: usize, path: TriePath, guide: Guide) -> Self {
        Self { level, path, guide: Arc::new(guide) }
    }
}

/// Adds runs to a guide, oldest first.
pub(crate) struct GuideBuilder {
    spec: GuideSpec,
    runs: Vec<RunId>,
    /// Slot of every table of the covered runs.
    tables: HashMap<u64, u8>,
    filter: Option<MultiLevelCuckooFilter>,
    /// Whether the filter has been made, or made larger, for the run being added.
    has_room_for_run: bool,
    /// Keys that wait to be added together: fingerprint, end of the key in `keys`, what is known of it.
    batch: Vec<(u64, usize, Knowledge)>,
    keys: Vec<u8>,
    is_full: bool,
}

impl GuideBuilder {
    /// A builder on top of `guide`, which covers the oldest runs of `pile` (newest first), or of nothing.
    pub fn new(spec: GuideSpec, guide: Option<&Guide>, pile: &[Arc<Run>]) -> Self {
        let mut builder = Self {
            spec,
            runs: Vec::new(),
            tables: HashMap::new(),
            filter: guide.map(|guide| guide.filter.clone()),
            has_room_for_run: false,
            batch: Vec::with_capacity(BATCH_KEYS),
            keys: Vec::new(),
            is_full: false,
        };
        let covered = guide.map_or(0, Guide::covered);
        for run in pile.iter().rev().take(covered) {
            builder.cover(run.id, run.tables.iter().map(|table| table.id()));
        }
        builder
    }

    fn cover(&mut self, run: RunId, tables: impl Iterator<Item = u64>) {
        let slot = self.runs.len() as u8;
        self.tables.extend(tables.map(|table| (table, slot)));
        self.runs.push(run);
    }

    /// Whether it can take another run.
    pub fn has_room(&self) -> bool {
        !self.is_full && self.runs.len() < self.spec.max_runs()
    }

    /// Adds a key of the run being added, which is expected to have about `expected_keys`.
    pub fn add(&mut self, key: &EncodedKey<'_>, older_in: u64, expected_keys: u64) {
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

    /// Sizes the filter for `keys` keys more at once, and a sixteenth larger: the last places of a full table are dear to
    /// find.
    pub fn make_room(&mut self, keys: u64) {
        self.has_room_for_run = true;
        self.filter = match self.filter.take() {
            // Where it may not grow so much, it grows as far as it may.
            Some(filter) => filter.grown(keys + (filter.entries() + keys) / 16).ok().or(Some(filter)),
            // Parameters of a checked design are sound.
            None => MultiLevelCuckooFilter::new(self.spec.parameters(), keys + keys / 16).ok(),
        };
    }

    fn insert_batch(&mut self) {
        let slot = self.runs.len() as u8;
        let mut from = 0;
        let batch = self.batch.drain(..).map(|(hash, end, knowledge)| {
            let key = self.keys.get(from..end).unwrap_or(&[]);
            from = end;
            RunKey { hash, key, knowledge }
        });
        if let Some(filter) = &mut self.filter {
            self.is_full |= filter.insert_run(slot, batch).is_err();
        }
        self.keys.clear();
    }

    /// Ends the run being added.
    pub fn end_run(&mut self, run: RunId, tables: impl Iterator<Item = u64>) {
        self.insert_batch();
        self.cover(run, tables);
        self.has_room_for_run = false;
    }

    /// The guide; `None` where there is nothing to guide, the filter is full or memory is short.
    pub fn finish(self, memory: &Arc<MemoryBudget>) -> Option<Guide> {
        let filter = self.filter.filter(|_| !self.is_full)?;
        Guide::new(self.runs, filter, memory)
    }
}
