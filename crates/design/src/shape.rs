//! What the planner may see of a store: counts and sizes, never files.
//!
//! The engine's version and the model's simulators both wear this shape, so the planner that runs the store
//! is the very function that the simulators drive.

use crate::design::Design;
use crate::digest::TriePath;

/// Share of the live bytes that has to be dead in the leaves before overwrites are taken to be the rule.
const OVERWRITTEN: f64 = 0.02;

/// One run of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunShape {
    /// Bytes of its tables.
    pub bytes: u64,
    /// Entries in its tables, tombstones included.
    pub entries: u64,
    /// Tombstones among them, and prefixes that the run deletes.
    pub deleted: u64,
    /// Estimated number of entries that have expired.
    pub expired: u64,
    /// Whether every entry is a tombstone or has expired: that is known, not estimated.
    pub is_dead: bool,
}

/// One region: a node of the trie with its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionShape {
    /// The node.
    pub path: TriePath,
    /// Its runs, the newest first.
    pub runs: Vec<RunShape>,
    /// How often the region has pushed its runs to its children; 0 means that its stagger phase is still
    /// ahead.
    pub pushes: u64,
    /// Whether any region below holds or has held data.
    pub has_children: bool,
    /// Bytes of its largest group of keys with one digest half, which no split can divide.
    pub largest_group_bytes: u64,
    /// `dead_bytes[k]`: estimated bytes that merging the `k + 1` newest runs in place would free.
    ///
    /// Empty where it is not estimated: only leaves are rewritten to reclaim space.
    pub dead_bytes: Vec<u64>,
    /// Bytes that lie in the regions below.
    pub below_bytes: u64,
    /// Estimated bytes, here and below, that go once what the region has deleted and what has expired in it
    /// has come down to the leaves: tombstones, what they delete, and expired entries. 0 where there is
    /// nothing of the kind.
    pub doomed_bytes: u64,
}

impl RegionShape {
    /// Bytes in the region's runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Share of the region's bytes that a rewrite of all runs is estimated to free.
    pub fn garbage(&self) -> f64 {
        let bytes = self.bytes();
        let dead = self.dead_bytes.last().copied().unwrap_or(0);
        if bytes == 0 { 0.0 } else { dead as f64 / bytes as f64 }
    }

    /// Share of the bytes in the region and below it that its tombstones and expired entries doom.
    pub fn doomed(&self) -> f64 {
        let bytes = self.bytes().saturating_add(self.below_bytes);
        if bytes == 0 { 0.0 } else { self.doomed_bytes as f64 / bytes as f64 }
    }

    /// Whether a merge of all its runs would drop anything that was deleted or has expired.
    pub fn has_dead_entries(&self) -> bool {
        self.runs.iter().any(|run| run.deleted > 0 || run.expired > 0)
    }
}

/// The space that a store takes, by which its regions are pushed early.
///
/// ```
/// use siltstone_design::{presets, shape::Space};
///
/// let design = presets::siltstone();
/// let store = Space { all: 100, live: 95, dead: 5 };
/// assert!(!store.is_crowded(&design));
/// assert!(Space { all: 100 + 70, ..store }.is_crowded(&design));
/// // Without overwrites early pushes free nothing.
/// assert!(!Space { all: 100 + 70, dead: 0, ..store }.is_crowded(&design));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all tables.
    pub all: u64,
    /// Bytes of leaves that are no garbage,
    pub live: u64,
    /// and those that are.
    pub dead: u64,
}

impl Space {
    /// This and that of one more region.
    #[must_use]
    pub fn with(self, design: &Design, level: usize, region: &RegionShape) -> Self {
        let bytes = region.bytes();
        let all = self.all.saturating_add(bytes);
        if !design.is_leaf(level, region.has_children) {
            return Self { all, ..self };
        }
        let garbage = region.dead_bytes.last().copied().unwrap_or(0).min(bytes);
        let live = self.live.saturating_add(bytes - garbage);
        Self { all, live, dead: self.dead.saturating_add(garbage) }
    }

    /// Whether the store takes more space than the garbage that leaves may hold would make it take, and
    /// overwrites are why.
    pub fn is_crowded(&self, design: &Design) -> bool {
        let (all, live, dead) = (self.all as f64, self.live as f64, self.dead as f64);
        dead > live * OVERWRITTEN && all * (1.0 - design.max_garbage) > live
    }
}

/// A store as the planner sees it.
pub trait Shape {
    /// Number of levels that exist, empty ones above the deepest included.
    fn level_count(&self) -> usize;
    /// Calls `visit` for every region of `level` that has runs, in digest order.
    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape));
    /// Whether running work already reads or replaces the region's runs.
    fn is_busy(&self, level: usize, path: TriePath) -> bool;
    /// How many of a region's runs, from the newest, its filter knows nothing of, and can't for want of
    /// memory.
    fn unfiltered_runs(&self, _level: usize, _path: TriePath) -> usize {
        0
    }
    /// The space that it takes, with `design`.
    fn space(&self, design: &Design) -> Space {
        let mut space = Space::default();
        for level in 0..self.level_count() {
            self.visit_regions(level, &mut |region| space = space.with(design, level, region));
        }
        space
    }
    /// Bytes that work may write before it frees any: where the disk is nearly full, what fits comes first.
    fn free_bytes(&self) -> u64 {
        u64::MAX
    }
}
