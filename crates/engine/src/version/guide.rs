//! Guides: one filter per region, which says in which run of the pile a key may be: a multi-level cuckoo filter, or a maplet.
//!
//! Source: SlimDB (VLDB'17) §3.2 for the cuckoo filter; the maplet is ours, and adds a run by merging. Where we differ, and
//! why:
//!
//! * A guide belongs to a region and goes with its pile, so no entry ever moves from one level's filter to another's.
//! * A guide is never changed. To add a run the writer copies it, adds the run's keys and publishes the copy with the
//!   version that has the run: readers never wait, and a snapshot keeps the guide that fits its tables.
//! * A guide may cover only the oldest runs of a pile; those above it are simply asked. Nothing depends on having one:
//!   it may be dropped where memory is short, and is built anew from the tables in the background.
//! * To the cuckoo filter, what a non-blind write learnt is a *table*, not a yes or no: "the next older version of this key lies in table T".
//!   If T is in the pile, that version is the pile's newest, whatever has been moved since the write; if it is not,
//!   nothing is known. So knowledge may be stale, and is never wrong.
//!
//! Invariants: `runs` are the oldest of the region's pile, oldest first, and the slot of a run is its place there; for
//! every key of these runs the candidates include the newest run that has it.

use super::level::{Run, RunId};
use crate::codec::put_bytes;
use crate::memory::{Holder, MemoryBudget, Reservation};
use crate::table::filter::maplet_fingerprint_bits;
use siltstone_design::{EncodedKey, FilterSpec, LevelSpec, TriePath};
use siltstone_succinct::code::varint;
use siltstone_succinct::filter::maplet::{MAX_SLOT_BITS, Maplet};
use siltstone_succinct::filter::multi_level_cuckoo::{Knowledge, MultiLevelCuckooFilter, Parameters, RunKey};
use std::collections::HashMap;
use std::sync::Arc;

/// Part of the budget that guides leave to others.
const KEPT_FROM_GUIDES: u64 = 4;
/// Bits by which fingerprints are longer in maplets of regions that have others below them.
const UPPER_BITS: u8 = 3;
/// Keys handed to the filter together.
const BATCH_KEYS: usize = 256;

/// What the guides of a level are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuideSpec {
    kind: Kind,
    slot_bits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    MultiLevelCuckoo { fingerprint_bits: u8 },
    Maplet { remainder_bits: u8, pile_bytes: u64 },
}

impl GuideSpec {
    /// Of a region of `level`; `None` where the level has none. Above others, where few of the items are, a maplet is to
    /// lead astray less often, so that only the one at the bottom counts.
    pub fn of(level: &LevelSpec, has_children: bool) -> Option<Self> {
        let kind = match level.filter {
            FilterSpec::MultiLevelCuckoo { fingerprint_bits } => Kind::MultiLevelCuckoo { fingerprint_bits },
            FilterSpec::Maplet { remainder_bits } => {
                let upper_bits = if has_children { UPPER_BITS } else { 0 };
                Kind::Maplet { remainder_bits: remainder_bits + upper_bits, pile_bytes: level.pile_bytes() }
            }
            FilterSpec::None
            | FilterSpec::Bloom { .. }
            | FilterSpec::Cuckoo { .. }
            | FilterSpec::Fragments { .. }
            | FilterSpec::BloomCluster { .. } => return None,
        };
        let slot_bits = match kind {
            // A staggered pile grows to one and a half times its limit.
            Kind::MultiLevelCuckoo { .. } => {
                (u32::from(level.runs) * 3 / 2).max(2).next_power_of_two().ilog2() as u8
            }
            // Slots are as long as the pile is high, which may be much higher while compaction is behind.
            Kind::Maplet { .. } => MAX_SLOT_BITS,
        };
        Some(Self { kind, slot_bits })
    }

    /// Most runs that a guide tells apart.
    pub fn max_runs(self) -> usize {
        1 << self.slot_bits
    }

    /// Whether guides are merged from the fingerprints that tables keep.
    pub fn wants_fingerprints(self) -> bool {
        matches!(self.kind, Kind::Maplet { .. })
    }

    /// About what a guide for `keys` keys takes in memory.
    pub fn estimated_bytes(self, keys: u64) -> u64 {
        match self.kind {
            // Nearly full but for the last step of growth, which is an eighth; growth bits not yet used; the secondary table.
            Kind::MultiLevelCuckoo { fingerprint_bits } => {
                keys * u64::from(fingerprint_bits + self.slot_bits + 3) / 6
            }
            // A pile that is not yet full has longer fingerprints.
            Kind::Maplet { remainder_bits, .. } => keys * u64::from(remainder_bits + self.slot_bits + 5) / 8,
        }
    }
}

/// Kinds of filters, as they are kept.
pub(crate) const MULTI_LEVEL_CUCKOO: u8 = 1;
pub(crate) const MAPLET: u8 = 2;

/// The filter of a guide.
#[derive(Clone, Debug)]
enum Filter {
    MultiLevelCuckoo(Arc<MultiLevelCuckooFilter>),
    Maplet(Arc<Maplet>),
}

impl Filter {
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::MultiLevelCuckoo(filter) => filter.memory_bytes() as u64,
            Self::Maplet(maplet) => maplet.memory_bytes() as u64,
        }
    }

    #[inline]
    fn slots(&self, key: &EncodedKey<'_>) -> u64 {
        match self {
            Self::MultiLevelCuckoo(filter) => filter.lookup(key.fingerprint, key.key).bits(),
            Self::Maplet(maplet) => maplet.lookup(key.fingerprint),
        }
    }

    /// See [`Guide::touch`].
    #[inline]
    fn touch(&self, key: &EncodedKey<'_>, step: Touch) {
        match (self, step) {
            (Self::MultiLevelCuckoo(filter), Touch::First) => filter.touch(key.fingerprint),
            (Self::MultiLevelCuckoo(_), Touch::Second) => {}
            (Self::Maplet(maplet), Touch::First) => {
                std::hint::black_box(maplet.touch(key.fingerprint));
            }
            (Self::Maplet(maplet), Touch::Second) => {
                std::hint::black_box(maplet.touch_entries(key.fingerprint));
            }
        }
    }

    /// The filter after slot `s` has become `slots[s]`.
    fn remapped(&self, slots: &[u8]) -> Self {
        match self {
            Self::MultiLevelCuckoo(filter) => {
                let mut filter = MultiLevelCuckooFilter::clone(filter);
                filter.remap(slots);
                Self::MultiLevelCuckoo(Arc::new(filter))
            }
            Self::Maplet(maplet) => Self::Maplet(Arc::new(maplet.remapped(slots))),
        }
    }

    /// The filter without the `gone` lowest slots, those above them moved down; `None` where it can't forget.
    fn without(&self, gone: u32) -> Option<Self> {
        match self {
            _ if gone == 0 => Some(self.clone()),
            Self::MultiLevelCuckoo(_) => None,
            Self::Maplet(maplet) => Some(Self::Maplet(Arc::new(maplet.without_slots_below(gone as u8)))),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        match self {
            Self::MultiLevelCuckoo(filter) => {
                out.push(MULTI_LEVEL_CUCKOO);
                filter.to_bytes(&mut bytes);
            }
            Self::Maplet(maplet) => {
                out.push(MAPLET);
                maplet.to_bytes(&mut bytes);
            }
        }
        put_bytes(out, &bytes);
    }

    fn decode(kind: u8, bytes: &[u8]) -> Option<Self> {
        Some(match kind {
            MULTI_LEVEL_CUCKOO => {
                Self::MultiLevelCuckoo(Arc::new(MultiLevelCuckooFilter::from_bytes(bytes).ok()?))
            }
            MAPLET => Self::Maplet(Arc::new(Maplet::from_trusted_bytes(bytes).ok()?)),
            _ => return None,
        })
    }
}

/// Two steps of bringing memory towards the processor's cache, each for many keys at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    First,
    Second,
}

/// A filter over the oldest runs of a region's pile.
#[derive(Debug)]
pub(crate) struct Guide {
    runs: Vec<RunId>,
    filter: Filter,
    /// Slots below those of `runs`, whose runs have been handed down since.
    gone: u32,
    held: Arc<Reservation>,
}

impl Guide {
    fn new(runs: Vec<RunId>, filter: Filter, memory: &Arc<MemoryBudget>) -> Option<Self> {
        let keep_free = memory.total_bytes() / KEPT_FROM_GUIDES;
        let held = memory.try_hold(Holder::Filter, filter.memory_bytes(), keep_free)?;
        Some(Self { runs, filter, gone: 0, held: Arc::new(held) })
    }

    /// Bytes that guides can have.
    pub fn room(memory: &MemoryBudget) -> u64 {
        memory.room_for(Holder::Filter, memory.total_bytes() / KEPT_FROM_GUIDES)
    }

    /// How many runs it covers.
    pub fn covered(&self) -> usize {
        self.runs.len()
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.filter.memory_bytes()
    }

    /// Whether it covers the oldest runs of `pile`, which is newest first.
    pub fn fits(&self, pile: &[Arc<Run>]) -> bool {
        self.runs.len() <= pile.len() && pile.iter().rev().zip(&self.runs).all(|(run, id)| run.id == *id)
    }

    /// This guide for `pile` (newest first): itself where it [fits](Self::fits), or what is left of it once the oldest runs that it
    /// covers have been handed down while others came on top. What it knew of those stays in the filter until the next run
    /// is added.
    pub fn fitted(self: &Arc<Self>, pile: &[Arc<Run>]) -> Option<Arc<Self>> {
        let oldest = pile.last()?.id;
        let handed_down = self.runs.iter().position(|run| *run == oldest)?;
        let left = match handed_down {
            0 => Arc::clone(self),
            _ => Arc::new(Self {
                runs: self.runs.get(handed_down..)?.to_vec(),
                filter: self.filter.clone(),
                gone: self.gone + handed_down as u32,
                held: Arc::clone(&self.held),
            }),
        };
        Some(left).filter(|left| left.fits(pile))
    }

    /// The runs of the pile that may hold the newest version of `key`, as bits, the oldest lowest.
    #[inline]
    pub fn candidates(&self, key: &EncodedKey<'_>) -> u64 {
        self.filter.slots(key) >> self.gone
    }

    /// Brings what [`Guide::candidates`] reads towards the processor's cache: what it reads first, or what follows from that.
    #[inline]
    pub fn touch(&self, key: &EncodedKey<'_>, step: Touch) {
        self.filter.touch(key, step);
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
        Self::new(runs, self.filter.without(self.gone)?.remapped(&slots), memory)
    }

    /// The guide's bytes: runs varint, each run's number varint, the filter's kind, length varint and bytes. `None` where it knows of
    /// runs that have left and can't forget them.
    pub fn encoded(&self) -> Option<Vec<u8>> {
        let filter = self.filter.without(self.gone)?;
        let mut out = Vec::new();
        varint::put_u64(&mut out, self.runs.len() as u64);
        self.runs.iter().for_each(|run| varint::put_u64(&mut out, *run));
        filter.encode(&mut out);
        Some(out)
    }

    /// A guide over `runs` from its filter's kind and bytes; `Ok(None)` where memory is short, `Err` where they make no sense.
    pub fn decode(
        runs: Vec<RunId>,
        (kind, bytes): (u8, &[u8]),
        memory: &Arc<MemoryBudget>,
    ) -> Result<Option<Self>, ()> {
        let filter = Filter::decode(kind, bytes).ok_or(())?;
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
    growing: Growing,
    is_full: bool,
}

/// The filter being made.
enum Growing {
    MultiLevelCuckoo(Box<CuckooGrowing>),
    Maplet { maplet: Option<Arc<Maplet>>, hashes: Vec<u64>, hash_bits: u8, expected_keys: u64 },
}

impl GuideBuilder {
    /// A builder on top of `guide`, which covers the oldest runs of `pile` (newest first), or of nothing.
    pub fn new(spec: GuideSpec, guide: Option<&Guide>, pile: &[Arc<Run>]) -> Self {
        let filter = guide.and_then(|guide| guide.filter.without(guide.gone));
        let (growing, is_full) = match (spec.kind, filter) {
            (Kind::MultiLevelCuckoo { .. }, Some(Filter::MultiLevelCuckoo(filter))) => {
                (Growing::cuckoo(Some(Arc::unwrap_or_clone(filter))), false)
            }
            (Kind::Maplet { .. }, Some(Filter::Maplet(maplet))) => (Growing::maplet(Some(maplet)), false),
            // A guide of another kind, or one that can't forget runs that have left, can't be added to, and is replaced by one that
            // covers its runs anew.
            (Kind::MultiLevelCuckoo { .. }, _) => (Growing::cuckoo(None), guide.is_some()),
            (Kind::Maplet { .. }, _) => (Growing::maplet(None), guide.is_some()),
        };
        let mut builder = Self { spec, runs: Vec::new(), growing, is_full };
        let covered = guide.map_or(0, Guide::covered);
        for run in pile.iter().rev().take(covered) {
            builder.cover(run.id, run.tables.iter().map(|table| table.id()));
        }
        builder
    }

    fn cover(&mut self, run: RunId, tables: impl Iterator<Item = u64>) {
        if let Growing::MultiLevelCuckoo(growing) = &mut self.growing {
            let slot = self.runs.len() as u8;
            growing.tables.extend(tables.map(|table| (table, slot)));
        }
        self.runs.push(run);
    }

    /// Whether it can take another run.
    pub fn has_room(&self) -> bool {
        !self.is_full && self.runs.len() < self.spec.max_runs()
    }

    /// Adds a key of the run being added, which is expected to have about `expected_keys`.
    pub fn add(&mut self, key: &EncodedKey<'_>, older_in: u64, expected_keys: u64) {
        match &mut self.growing {
            Growing::MultiLevelCuckoo(growing) => {
                let slot = self.runs.len() as u8;
                self.is_full |= growing.add(self.spec, slot, key, older_in, expected_keys).is_err();
            }
            Growing::Maplet { hashes, .. } => hashes.push(key.fingerprint),
        }
    }

    /// Whether [`GuideBuilder::add_table`] adds a new table's keys, which need not be added one by one then.
    pub fn takes_tables(&self) -> bool {
        self.spec.wants_fingerprints()
    }

    /// Adds all keys of a new table of the run being added, whose fingerprints these are, in order; only where they are wanted.
    pub fn add_table(&mut self, mut fingerprints: Vec<u64>) {
        if let Growing::Maplet { hashes, .. } = &mut self.growing {
            hashes.append(&mut fingerprints);
        }
    }

    /// Adds all keys of a table of the run being added by the fingerprints that it keeps; only where they are wanted.
    pub fn add_fingerprints(&mut self, table: &Maplet) {
        if let Growing::Maplet { hashes, hash_bits, .. } = &mut self.growing {
            *hash_bits = (*hash_bits).min(table.fingerprint_bits());
            let shift = 64 - u32::from(table.fingerprint_bits());
            hashes.extend(table.entries().map(|(fingerprint, _)| fingerprint << shift));
        }
    }

    /// Makes room for `keys` keys more at once.
    pub fn make_room(&mut self, keys: u64) {
        match &mut self.growing {
            Growing::MultiLevelCuckoo(growing) => growing.make_room(self.spec, keys),
            Growing::Maplet { expected_keys, .. } => *expected_keys = keys,
        }
    }

    /// Ends the run being added, whose tables, by number, have `bytes` bytes of keys and values.
    pub fn end_run(&mut self, run: RunId, tables: impl Iterator<Item = u64>, bytes: u64) {
        let slot = self.runs.len() as u8;
        match &mut self.growing {
            Growing::MultiLevelCuckoo(growing) => self.is_full |= growing.end_run(slot).is_err(),
            Growing::Maplet { maplet, hashes, hash_bits, expected_keys } => {
                // Mostly they are sorted, or a few sorted stretches: tables hand theirs over in order.
                hashes.sort();
                let Kind::Maplet { remainder_bits, pile_bytes } = self.spec.kind else { return };
                let before = maplet.take().unwrap_or_else(|| {
                    let keys = hashes.len() as u64;
                    // The whole pile, where it is covered at once and larger than it should be.
                    let all = bytes.saturating_mul((*expected_keys).max(keys)) / keys.max(1);
                    let pile_bytes = pile_bytes.max(all);
                    let bits = maplet_fingerprint_bits(remainder_bits, pile_bytes, keys, bytes);
                    Arc::new(Maplet::new(bits, 0))
                });
                // Where runs were merged, slots are longer than they would have to be.
                let slot_bits = (u32::from(slot) + 1).next_power_of_two().ilog2() as u8;
                let slot_bits = slot_bits.max(before.slot_bits());
                let after = before.with_run_in(slot_bits, slot, *hash_bits, hashes);
                // Full at four times the rate that was asked for; built anew, it may get longer fingerprints.
                self.is_full |= after.false_probe_rate() > 2f64.powi(2 - i32::from(remainder_bits));
                *maplet = Some(Arc::new(after));
                hashes.clear();
                *hash_bits = u64::BITS as u8;
            }
        }
        self.cover(run, tables);
    }

    /// The guide; `None` where there is nothing to guide, the filter is full or memory is short.
    pub fn finish(self, memory: &Arc<MemoryBudget>) -> Option<Guide> {
        let filter = match self.growing {
            Growing::MultiLevelCuckoo(growing) => Filter::MultiLevelCuckoo(Arc::new(growing.filter?)),
            Growing::Maplet { maplet, .. } => Filter::Maplet(maplet?),
        };
        if self.is_full { None } else { Guide::new(self.runs, filter, memory) }
    }
}

impl Growing {
    fn cuckoo(filter: Option<MultiLevelCuckooFilter>) -> Self {
        Self::MultiLevelCuckoo(Box::new(CuckooGrowing::new(filter)))
    }

    fn maplet(maplet: Option<Arc<Maplet>>) -> Self {
        Self::Maplet { maplet, hashes: Vec::new(), hash_bits: u64::BITS as u8, expected_keys: 0 }
    }
}

/// A multi-level cuckoo filter to which keys are added in batches.
struct CuckooGrowing {
    /// Slot of every table of the covered runs.
    tables: HashMap<u64, u8>,
    filter: Option<MultiLevelCuckooFilter>,
    /// Whether the filter has been made, or made larger, for the run being added.
    has_room_for_run: bool,
    /// Keys that wait to be added together: fingerprint, end of the key in `keys`, what is known of it.
    batch: Vec<(u64, usize, Knowledge)>,
    keys: Vec<u8>,
}

/// The filter can take no more.
struct Full;

impl CuckooGrowing {
    fn new(filter: Option<MultiLevelCuckooFilter>) -> Self {
        let (tables, batch) = (HashMap::new(), Vec::with_capacity(BATCH_KEYS));
        Self { tables, filter, has_room_for_run: false, batch, keys: Vec::new() }
    }

    fn add(
        &mut self,
        spec: GuideSpec,
        slot: u8,
        key: &EncodedKey<'_>,
        older_in: u64,
        expected_keys: u64,
    ) -> Result<(), Full> {
        if !self.has_room_for_run {
            self.make_room(spec, expected_keys);
        }
        let knowledge = match self.tables.get(&older_in) {
            Some(slot) => Knowledge::InSlot(*slot),
            None => Knowledge::Unknown,
        };
        self.keys.extend_from_slice(key.key);
        self.batch.push((key.fingerprint, self.keys.len(), knowledge));
        if self.batch.len() == BATCH_KEYS { self.insert_batch(slot) } else { Ok(()) }
    }

    /// Sizes the filter for `keys` keys more at once, and a sixteenth larger: the last places of a full table are dear to
    /// find.
    fn make_room(&mut self, spec: GuideSpec, keys: u64) {
        self.has_room_for_run = true;
        self.filter = match self.filter.take() {
            // Where it may not grow so much, it grows as far as it may.
            Some(filter) => filter.grown(keys + (filter.entries() + keys) / 16).ok().or(Some(filter)),
            // Parameters of a checked design are sound.
            None => MultiLevelCuckooFilter::new(parameters(spec), keys + keys / 16).ok(),
        };
    }

    fn insert_batch(&mut self, slot: u8) -> Result<(), Full> {
        let mut from = 0;
        let batch = self.batch.drain(..).map(|(hash, end, knowledge)| {
            let key = self.keys.get(from..end).unwrap_or(&[]);
            from = end;
            RunKey { hash, key, knowledge }
        });
        let inserted = match &mut self.filter {
            Some(filter) => filter.insert_run(slot, batch).map_err(|_| Full),
            None => Ok(()),
        };
        self.keys.clear();
        inserted
    }

    fn end_run(&mut self, slot: u8) -> Result<(), Full> {
        self.has_room_for_run = false;
        self.insert_batch(slot)
    }
}

fn parameters(spec: GuideSpec) -> Parameters {
    let GuideSpec { kind, slot_bits } = spec;
    let Kind::MultiLevelCuckoo { fingerprint_bits } = kind else { return Parameters::default() };
    // Room for as many runs of the first one's size as there are slots, and then some at fewer fingerprint bits.
    let floor_bits = fingerprint_bits.saturating_sub(2).max(8);
    Parameters { fingerprint_bits, slot_bits, growth_bits: 3, floor_bits, ..Parameters::default() }
}

#[cfg(test)]
mod tests;
