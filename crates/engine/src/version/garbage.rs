//! What is garbage in a version: what tombstones, deleted prefixes and expired entries doom where they stand
//! and below, and how many items are left.
//!
//! A table knows how many of its entries are tombstones and when the others expire; what it says of older
//! entries is estimated. Within a region, samples of keys tell how much of the older runs a newer one makes
//! dead (`kills` of a run). Of what lies below, a tombstone is taken to delete one entry of mean size: nobody
//! deletes what is not there, mostly. Of a deleted prefix, tables know the largest group's bytes.
//!
//! Error: what is counted of a region is off by the samples' error, some percent. Overwrites of what lies
//! further down are unknown until the two meet; they are taken to be as frequent as merges with the oldest
//! runs found them to be, and as they are among the runs of leaves.

use super::region::Region;
use super::version::Version;
use crate::activity::Count;
use siltstone_design::RegionShape;
use std::borrow::Cow;

/// What lies in some runs: bytes and entries that are no tombstones.
#[derive(Clone, Copy, Default)]
struct Puts {
    bytes: f64,
    entries: f64,
}

impl Puts {
    fn of(region: &Region) -> Self {
        let mut puts = Self::default();
        for run in &region.shape.runs {
            let entries = run.entries.saturating_sub(run.deleted) as f64;
            puts.bytes += run.bytes as f64 * entries / run.entries.max(1) as f64;
            puts.entries += entries;
        }
        puts
    }

    fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, entries: self.entries + other.entries }
    }

    /// Bytes of so many of them, at most of all.
    fn bytes_of(self, entries: f64) -> f64 {
        if self.entries == 0.0 { 0.0 } else { self.bytes * (entries / self.entries).min(1.0) }
    }
}

impl Version {
    /// The shape of a region at the clock's time `now_ms`, with what its deletes and what has
    /// expired doom.
    pub fn shape_at<'v>(&self, region: &'v Region, now_ms: u64) -> Cow<'v, RegionShape> {
        let shape = region.shape_at(now_ms);
        if !shape.has_dead_entries() {
            return shape;
        }
        Cow::Owned(self.doomed(region, shape.into_owned()))
    }

    /// The same, for whoever wants to know what lies below in any case.
    pub fn whole_shape(&self, region: &Region, now_ms: u64) -> RegionShape {
        self.doomed(region, region.shape_at(now_ms).into_owned())
    }

    /// Adds what lies below a region to its shape, and what of all that is doomed.
    fn doomed(&self, region: &Region, mut shape: RegionShape) -> RegionShape {
        let (mut puts, mut below_bytes) = (Puts::default(), 0u64);
        for deeper in self.regions_below(region.path) {
            puts = puts.and(Puts::of(deeper));
            below_bytes += deeper.shape.bytes();
        }
        let mut doomed = 0f64;
        // From the oldest run on: each dooms what is older.
        for (at, run) in shape.runs.iter().enumerate().rev() {
            let per_entry = run.bytes as f64 / run.entries.max(1) as f64;
            let own = run.deleted.saturating_add(run.expired).min(run.entries) as f64;
            doomed += own * per_entry + puts.bytes_of(run.deleted as f64);
            doomed += self.deleted_group_bytes(region, at) as f64;
            let live = run.entries as f64 - own;
            puts = puts.and(Puts { bytes: live * per_entry, entries: live });
        }
        let all = region.shape.bytes() + below_bytes;
        shape.doomed_bytes = (doomed as u64).min(all);
        shape.below_bytes = below_bytes;
        shape
    }

    /// Estimated bytes that the prefixes which run `at` of a region deletes take in what is older.
    fn deleted_group_bytes(&self, region: &Region, at: usize) -> u64 {
        let Some(run) = region.runs.get(at).filter(|run| !run.tombstones.is_empty()) else { return 0 };
        let older = region.runs.iter().skip(at + 1);
        let below = self.regions_below(region.path).flat_map(|deeper| &deeper.runs);
        older.chain(below).map(|older| run.deleted_group_bytes(older)).sum()
    }

    /// Estimated number of entries that no reader sees at `now_ms`: tombstones, what they delete, what has
    /// expired and what was overwritten.
    pub fn dead_entries(&self, now_ms: u64) -> u64 {
        let overwritten = self.overwritten_share();
        let mut dead = 0f64;
        for level in &self.levels {
            for region in level.regions.iter().filter(|region| !region.runs.is_empty()) {
                let is_above = self.regions_below(region.path).any(|deeper| !deeper.runs.is_empty());
                let shape = region.shape_at(now_ms);
                for (run, shape) in region.runs.iter().zip(&shape.runs) {
                    let (entries, deleted) = (shape.entries as f64, shape.deleted.min(shape.entries) as f64);
                    let killed: f64 = run.kills.iter().map(|kill| region.entries_of(kill)).sum();
                    dead += deleted + shape.expired as f64 + killed;
                    if is_above {
                        // What was not found in the region lies further down, if anywhere.
                        let left = (1.0 - killed / entries.max(1.0)).max(0.0);
                        dead += left * (deleted + (entries - deleted) * overwritten);
                    }
                }
            }
        }
        dead as u64
    }

    /// The share of the entries that came to the oldest ones which replaced one of those.
    fn overwritten_share(&self) -> f64 {
        let (mut killed, mut newer) = (0f64, 0f64);
        for region in self.levels.iter().flat_map(|level| &level.regions) {
            if region.shape.has_children {
                continue;
            }
            let runs = region.runs.iter().zip(&region.shape.runs);
            for (run, shape) in runs.take(region.runs.len().saturating_sub(1)) {
                newer += shape.entries as f64;
                killed += run.kills.iter().map(|kill| region.entries_of(kill)).sum::<f64>();
            }
        }
        killed += self.activity.of(Count::Replaced) as f64;
        newer += self.activity.of(Count::Arrived) as f64;
        if newer == 0.0 { 0.0 } else { (killed / newer).min(1.0) }
    }
}

impl Region {
    /// Entries that so many bytes of a run are.
    fn entries_of(&self, (run, bytes): &(u64, u64)) -> f64 {
        let found = self.runs.iter().zip(&self.shape.runs).find(|(known, _)| known.id == *run);
        found.map_or(0.0, |(_, shape)| *bytes as f64 * shape.entries as f64 / shape.bytes.max(1) as f64)
    }
}
