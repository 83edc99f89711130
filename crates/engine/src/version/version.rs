//! Version › Level: the tables of one keyspace at one moment.
//!
//! Levels follow one another by depth, and what lies deeper is older for every key. Those of the design are
//! all there down to the deepest; between them, while a redesign is under way, there may be *outgoing* ones,
//! of depths that only designs before this one have.

use super::designs::{DesignChange, DesignHistory};
use super::level::Level;
use super::region::Region;
use super::run::Run;
use crate::activity::Activity;
use crate::ids::{FileId, TableId};
use crate::region_filter::sidecar::SidecarPages;
use crate::region_filter::{NewRegionFilter, Prefetch};
use crate::table::Table;
use siltstone_design::redesign::level_above;
use siltstone_design::{Design, EncodedKey, LevelSpec, TriePath};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The tables of one keyspace at one moment.
#[derive(Clone)]
pub(crate) struct Version {
    /// What is written from now on is laid out as this says.
    pub design: Arc<Design>,
    pub history: DesignHistory,
    /// By depth, from the top.
    pub levels: Vec<Level>,
    /// Bytes of keys and values written to the keyspace since it was created, as far as they are flushed.
    pub user_bytes: u64,
    /// What was done with the keyspace, as far as that is written down.
    pub activity: Activity,
}

impl Default for Version {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Version {
    /// A version of `design` without tables.
    pub fn new(design: Arc<Design>) -> Self {
        Self {
            design,
            history: DesignHistory::default(),
            levels: Vec::new(),
            user_bytes: 0,
            activity: Activity::default(),
        }
    }

    /// Returns this version as that of a keyspace which held `old`, of the same design, and keeps its
    /// history.
    pub fn in_place_of(self, old: &Self) -> Self {
        // What is left of earlier designs in the one that comes is to be ended all the same.
        let is_open = self.redesign().is_some();
        let history = if is_open { self.history.clone() } else { old.history.settled(0) };
        Self { history, ..self }
    }

    /// Returns this version as that of a keyspace which held `old`, by another schema, until sequence number
    /// and time were these. What was done with the keyspace goes on, and its history.
    pub fn following(self, old: &Self, (sequence, at_ms): (u64, u64)) -> Self {
        let history = if self.design == old.design {
            old.history.settled(at_ms)
        } else {
            let (from, to) = (Arc::clone(&old.design), Arc::clone(&self.design));
            // Nothing of the design before is in it.
            let (first_run, settled_ms, chosen) = (0, Some(at_ms), None);
            let change = DesignChange { from, to, sequence, at_ms, first_run, settled_ms, chosen };
            old.history.with(change)
        };
        Self { history, user_bytes: old.user_bytes, activity: old.activity, ..self }
    }

    /// Returns the redesign that is under way.
    pub fn redesign(&self) -> Option<&DesignChange> {
        self.history.open()
    }

    /// Returns the level whose regions fix so many bits.
    pub fn level_at(&self, depth: u8) -> Option<&Level> {
        self.levels.iter().find(|level| level.depth == depth)
    }

    /// Returns the level of the design with this number.
    pub fn numbered(&self, number: usize) -> Option<&Level> {
        // Where there are no outgoing levels, as is usual, it has that place.
        let depth = self.design.depth(number);
        self.levels.get(number).filter(|level| level.depth == depth).or_else(|| self.level_at(depth))
    }

    /// Returns the region of `path`.
    pub fn region(&self, path: TriePath) -> Option<&Arc<Region>> {
        self.level_at(path.depth())?.region(path)
    }

    /// Returns the runs of the region of `path`, newest first.
    pub fn runs(&self, path: TriePath) -> &[Arc<Run>] {
        self.region(path).map_or(&[], |region| &region.runs)
    }

    /// Returns what the design says of regions of so many bits; `None` of an outgoing level.
    pub fn spec_at(&self, depth: u8) -> Option<&LevelSpec> {
        Some(self.design.level(self.design.level_at(depth)?))
    }

    /// Returns the number by which users know the level of so many bits: of an outgoing one that of the
    /// design's level above it.
    pub fn shown_number(&self, depth: u8) -> usize {
        level_above(&self.design, depth)
    }

    /// Whether `level` is of an earlier design.
    pub fn is_outgoing(&self, level: &Level) -> bool {
        self.design.level_at(level.depth).is_none()
    }

    /// Whether a redesign is under way, or levels of earlier designs are left.
    pub fn is_changing(&self) -> bool {
        self.redesign().is_some() || self.levels.iter().any(|level| self.is_outgoing(level))
    }

    /// Returns the outgoing levels between two depths.
    pub fn outgoing_between(&self, above: u8, below: u8) -> impl Iterator<Item = &Level> {
        let between = self.levels.iter().filter(move |level| above < level.depth && level.depth < below);
        between.filter(|level| self.is_outgoing(level))
    }

    /// Returns the depth to which write buffers are flushed: the design's, or above that as long as something
    /// older lies there.
    pub fn flush_depth(&self) -> u8 {
        let first = self.design.depth(0);
        let uppermost = self.levels.iter().find(|level| level.has_runs());
        uppermost.map_or(first, |level| level.depth.min(first))
    }

    /// Whether any region below `path` has runs.
    pub fn has_data_below(&self, path: TriePath) -> bool {
        self.regions_below(path).any(|region| !region.runs.is_empty())
    }

    /// Whether any region below `path` exists.
    pub fn has_children(&self, path: TriePath) -> bool {
        self.regions_below(path).next().is_some()
    }

    /// Returns the regions below `path`, level by level.
    pub fn regions_below(&self, path: TriePath) -> impl Iterator<Item = &Arc<Region>> {
        let deeper = self.levels.iter().filter(move |level| level.depth > path.depth());
        deeper.flat_map(move |level| level.below(path))
    }

    /// Brings what `gains` know to the filters of their regions, where it is of use.
    pub fn filter_by(&mut self, gains: &[NewRegionFilter]) {
        for gain in gains {
            self.change_region(gain.path, |region| region.filtered_by(&gain.filter));
        }
    }

    /// Takes the filters of regions away.
    pub fn without_filters_of(&mut self, paths: &[TriePath]) {
        for path in paths {
            self.change_region(*path, |region| Some(region.without_filter()));
        }
    }

    /// Puts what `change` returns in the place of a region, if that is there.
    fn change_region(&mut self, path: TriePath, change: impl FnOnce(&Region) -> Option<Region>) {
        let level = self.levels.iter_mut().find(|level| level.depth == path.depth());
        let Some(level) = level else { return };
        if let Some(region) = level.region(path).and_then(|region| change(region)) {
            level.set(region);
        }
    }

    /// Returns the digest half and about how many bytes of tables the group has that is the largest of most
    /// tables.
    pub fn largest_group(&self) -> Option<(u64, u64)> {
        let mut groups: HashMap<u64, u64> = HashMap::new();
        for meta in self.tables().map(|table| table.meta()) {
            let (hi, user_bytes) = meta.largest_group;
            let share = user_bytes as f64 / meta.user_bytes.max(1) as f64;
            *groups.entry(hi).or_default() += (meta.bytes as f64 * share) as u64;
        }
        groups.into_iter().max_by_key(|(hi, bytes)| (*bytes, *hi))
    }

    /// Returns the filters that lie in files, by their pages.
    pub fn sidecars(&self) -> impl Iterator<Item = &Arc<SidecarPages>> {
        let regions = self.levels.iter().flat_map(|level| &level.regions);
        regions.filter_map(|region| region.filter.as_ref()?.pages())
    }

    /// Marks the sidecars that this version uses and `next` does not.
    pub fn retire_sidecars(&self, next: &Self) {
        let mut used = self.sidecars().peekable();
        if used.peek().is_none() {
            return;
        }
        let kept: HashSet<FileId> = next.sidecars().map(|pages| pages.id).collect();
        let retired = used.filter(|pages| !kept.contains(&pages.id));
        retired.for_each(|pages| pages.mark_obsolete());
    }

    /// Brings the memory of region filters that lookups of `keys` will read towards the processor's cache:
    /// for all of them side by side, which takes little longer than for one.
    pub fn prefetch(&self, keys: &[EncodedKey<'_>]) {
        for step in [Prefetch::First, Prefetch::Second] {
            for key in keys {
                let regions = self.levels.iter().filter_map(|level| level.region_of(key.digest.hi));
                let filters = regions.filter_map(|region| region.filter.as_ref());
                filters.for_each(|filter| filter.prefetch(key, step));
            }
        }
    }

    /// Puts tables in the places of those of the same files, as far as these are still there.
    pub fn replace_tables(&mut self, by: &HashMap<TableId, Arc<Table>>) {
        let regions = self.levels.iter_mut().flat_map(|level| &mut level.regions);
        for region in regions {
            let tables = || region.runs.iter().flat_map(|run| &run.tables);
            if !tables().any(|table| by.contains_key(&table.id())) {
                continue;
            }
            let runs = region.runs.iter().map(|run| {
                let tables = run.tables.iter().map(|table| Arc::clone(by.get(&table.id()).unwrap_or(table)));
                Arc::new(Run::new(run.id, tables.collect(), run.kills.clone()))
            });
            *region = Arc::new(Region { runs: runs.collect(), ..Region::clone(region) });
        }
    }

    /// Every table with its region and the place of its run there, level by level.
    pub fn tables_in_place(&self) -> impl Iterator<Item = (&Region, usize, &Arc<Table>)> {
        let regions = self.levels.iter().flat_map(|level| &level.regions).map(|region| &**region);
        regions.flat_map(|region| {
            let runs = region.runs.iter().enumerate();
            runs.flat_map(move |(place, run)| run.tables.iter().map(move |table| (region, place, table)))
        })
    }

    /// Every table, level by level.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let regions = self.levels.iter().flat_map(|level| &level.regions);
        regions.flat_map(|region| &region.runs).flat_map(|run| &run.tables)
    }
}
