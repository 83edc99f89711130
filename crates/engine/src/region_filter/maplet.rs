//! Maplets over the runs of a region.
//!
//! The maplet is ours; the structure is `maplet` in `siltstone-succinct`. A run is added by merging: its
//! keys' fingerprints are sorted and laid beside those of the runs before it. They come from the keys, or
//! from tables that have kept them, so that a maplet that was lost is made again without reading a key.

use super::maplet_pair::{Growing, MapletPair, slot_bits};
use super::run::{Contents, FilteredRun};
use super::sidecar;
use super::slotted::{Prefetch, SlotFilter};
use crate::ids::RunId;
use crate::memory::MemoryBudget;
use crate::table::filter::maplet_fingerprint_bits;
use siltstone_design::{EncodedKey, LevelSpec};
use siltstone_succinct::filter::maplet::{MAX_SLOT_BITS, Maplet};
use std::sync::Arc;

/// Bits by which fingerprints are longer in maplets of regions that have others below them: above, where few
/// of the items are, a maplet is to lead astray less often, so that only the one at the bottom counts.
const UPPER_BITS: u8 = 3;

/// Runs that a full region has, about.
const FULL_RUNS: usize = 16;
/// About what an entry takes beside its remainder and its slot.
const QUOTIENT_BITS: f64 = 2.7;

/// What the maplets of a level are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapletSettings {
    remainder_bits: u8,
    /// Those among them that upper regions have more.
    upper_bits: u8,
    /// Whether the design says more, and memory is too short for it.
    is_limited: bool,
    level: LevelSpec,
}

impl MapletSettings {
    /// Maplets for regions of `level`.
    pub fn new(remainder_bits: u8, level: &LevelSpec, has_children: bool) -> Self {
        let upper_bits = if has_children { UPPER_BITS } else { 0 };
        Self { remainder_bits: remainder_bits + upper_bits, upper_bits, is_limited: false, level: *level }
    }

    /// The same with `bits` remainder bits at most, and upper regions' as many more.
    pub fn at_most(self, bits: u8) -> Self {
        let limit = bits.max(1).saturating_add(self.upper_bits);
        let is_limited = self.is_limited || limit < self.remainder_bits;
        Self { remainder_bits: self.remainder_bits.min(limit), is_limited, ..self }
    }

    /// Returns the bits of fingerprints in a region that holds `keys` keys in `bytes` bytes.
    fn fingerprint_bits(self, keys: u64, bytes: u64) -> u8 {
        maplet_fingerprint_bits(self.remainder_bits, self.level.region_bytes(), keys, bytes)
    }

    /// Whether `maplet` leads astray far more often than memory is a reason for.
    pub fn is_inexact(self, maplet: &MapletPair) -> bool {
        !self.is_limited && maplet.false_probe_rate() > self.most_false_probes()
    }

    /// The rate of false probes at which a maplet is full: four times the one that was asked for.
    fn most_false_probes(self) -> f64 {
        4.0 * self.false_probes()
    }

    /// The rate of false probes of a full region.
    pub fn false_probes(self) -> f64 {
        2f64.powi(-i32::from(self.remainder_bits))
    }

    /// Returns the bits that the fingerprints of `maplet`, of a region with `bytes` bytes, are to be
    /// shortened to for want of memory; `None` where they are as short.
    pub fn to_shorten(self, maplet: &MapletPair, bytes: u64) -> Option<u8> {
        let bits = self.fingerprint_bits(maplet.entries(), bytes);
        (self.is_limited && maplet.fingerprint_bits() > bits).then_some(bits)
    }

    /// Whether memory was shorter when `maplet` was made, of a region with these runs, than it is now, and is
    /// short still.
    pub fn is_shorter(self, maplet: &MapletPair, runs: &[impl FilteredRun]) -> bool {
        self.is_limited && maplet.fingerprint_bits() < self.bits_anew(runs)
    }

    /// Returns the bits that fingerprints get where a maplet is made anew of a region's runs.
    pub fn bits_anew(self, runs: &[impl FilteredRun]) -> u8 {
        let all_keys = Contents::of(runs).keys;
        let bits = runs.iter().map(|run| self.bits_of_run(run.entries(), run.user_bytes(), all_keys));
        bits.min().unwrap_or(0)
    }

    /// Returns the bits that the fingerprints of a run get, with `keys` keys in `bytes` bytes, of a region
    /// that holds `all_keys` keys: it may be larger than it should be.
    fn bits_of_run(self, keys: u64, bytes: u64, all_keys: u64) -> u8 {
        let all = bytes.saturating_mul(all_keys.max(keys)) / keys.max(1);
        maplet_fingerprint_bits(self.remainder_bits, self.level.region_bytes().max(all), keys, bytes)
    }

    /// Returns the most runs that a maplet tells apart. Slots are as long as there are runs, which may be
    /// many more than is planned while compaction is behind.
    pub fn max_runs(self) -> usize {
        1 << MAX_SLOT_BITS
    }

    /// Returns about what the maplet takes once the region, now with `contents`, is pushed: as soon as it is
    /// full, or has as many runs as it may have, of the size of those that are there.
    pub fn full_bytes(self, contents: Contents) -> u64 {
        let Contents { keys, bytes, runs } = contents;
        let run_bytes = bytes as f64 / runs.max(1) as f64;
        let full = (self.level.runs_per_push(run_bytes) * run_bytes).min(self.level.region_bytes() as f64);
        let item_bytes = bytes as f64 / keys.max(1) as f64;
        let keys = (full / item_bytes.max(1.0)) as u64;
        self.estimated_bytes(Contents { keys, bytes: full as u64, runs: FULL_RUNS.max(runs) })
    }

    /// Returns about what the maplet of a region with `contents` takes in memory.
    pub fn estimated_bytes(self, contents: Contents) -> u64 {
        let Contents { keys, bytes, runs } = contents;
        // A region that is not yet full has longer fingerprints.
        let remainder = f64::from(self.fingerprint_bits(keys, bytes)) - (keys.max(1) as f64).log2();
        let slot = runs.max(1).next_power_of_two().ilog2().min(u32::from(MAX_SLOT_BITS));
        (keys as f64 * (remainder.max(0.0) + f64::from(slot) + QUOTIENT_BITS) / 8.0) as u64
    }
}

impl SlotFilter for Maplet {
    const KIND: u8 = sidecar::MAPLET;

    fn bytes_in_memory(&self) -> u64 {
        self.memory_bytes() as u64
    }

    #[inline]
    fn slots_of(&self, key: &EncodedKey<'_>) -> u64 {
        self.lookup(key.fingerprint)
    }

    #[inline]
    fn prefetch(&self, key: &EncodedKey<'_>, step: Prefetch) {
        std::hint::black_box(match step {
            Prefetch::First => self.prefetch(key.fingerprint),
            Prefetch::Second => self.prefetch_entries(key.fingerprint),
        });
    }

    fn remapped(&self, slots: &[u8]) -> Self {
        Self::remapped(self, slots)
    }

    fn without_slots_below(&self, gone: u8) -> Option<Self> {
        Some(Self::without_slots_below(self, gone))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.to_bytes(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_trusted_bytes(bytes).ok()
    }
}

/// Adds runs to the maplet of a region, oldest first.
pub(crate) struct MapletBuilder {
    settings: MapletSettings,
    /// `None` before the first run.
    growing: Option<Growing>,
    /// Fingerprints of the run being added, and how many of their bits are known.
    hashes: Vec<u64>,
    hash_bits: u8,
    /// Keys of all runs to come, where that is known.
    expected_keys: u64,
    /// Its fingerprints have become too short for more runs, or what is there can't be added to.
    is_full: bool,
}

impl MapletBuilder {
    /// A builder on top of `present`, or of nothing.
    pub fn new(settings: MapletSettings, present: Option<&MapletPair>) -> Self {
        let growing = present.and_then(MapletPair::growing);
        Self {
            settings,
            is_full: present.is_some() && growing.is_none(),
            growing,
            hashes: Vec::new(),
            hash_bits: u64::BITS as u8,
            expected_keys: 0,
        }
    }

    /// Whether it can take another run.
    pub fn has_room(&self) -> bool {
        !self.is_full && self.growing.as_ref().map_or(0, Growing::covered) < self.settings.max_runs()
    }

    /// Adds a key of the run being added.
    pub fn add(&mut self, key: &EncodedKey<'_>) {
        self.hashes.push(key.fingerprint);
    }

    /// Adds the keys of a new table of the run being added, by their fingerprints in order.
    pub fn add_table(&mut self, mut fingerprints: Vec<u64>) {
        self.hashes.append(&mut fingerprints);
    }

    /// Adds the keys of a table of the run being added by the fingerprints that it has kept.
    pub fn add_fingerprints(&mut self, table: &Maplet) {
        self.hash_bits = self.hash_bits.min(table.fingerprint_bits());
        let shift = u64::BITS - u32::from(table.fingerprint_bits());
        self.hashes.extend(table.entries().map(|(fingerprint, _)| fingerprint << shift));
    }

    /// Expects `keys` keys in all runs to come.
    pub fn make_room(&mut self, keys: u64) {
        self.expected_keys = keys;
    }

    /// Ends the run being added, which has `user_bytes` bytes of keys and values.
    pub fn end_run(&mut self, run: RunId, user_bytes: u64) {
        assert!(self.has_room() || self.is_full, "no slot is left for another run");
        // Mostly they are sorted, or a few sorted stretches: tables hand theirs over in order.
        self.hashes.sort();
        let keys = self.hashes.len() as u64;
        let bits = self.settings.bits_of_run(keys, user_bytes, self.expected_keys);
        if self.settings.is_limited {
            self.hash_bits = self.hash_bits.min(bits);
        }
        let growing = self.growing.get_or_insert_with(|| Growing {
            below: None,
            runs: Vec::new(),
            maplet: Arc::new(Maplet::new(bits, 0)),
        });
        let slot = growing.runs.len() as u8;
        let before = &growing.maplet;
        let slot_bits = slot_bits(growing.runs.len() + 1, before);
        growing.maplet = Arc::new(before.with_run_in(slot_bits, slot, self.hash_bits, &self.hashes));
        growing.runs.push(run);
        // Built anew, it may get longer fingerprints.
        self.is_full |= growing.false_probe_rate() > self.settings.most_false_probes();
        self.hashes.clear();
        self.hash_bits = u64::BITS as u8;
    }

    /// Returns the filter; `None` where it has no runs, is full or memory is short.
    pub fn finish(self, memory: &Arc<MemoryBudget>) -> Option<MapletPair> {
        assert!(self.hashes.is_empty(), "the last run was not ended");
        self.growing.filter(|_| !self.is_full)?.finish(memory)
    }
}
