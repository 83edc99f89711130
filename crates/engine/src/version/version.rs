//! Version › Level: the tables of one keyspace at one moment.

use super::level::Level;
use super::region::Region;
use super::run::Run;
use crate::ids::FileId;
use crate::region_filter::sidecar::SidecarPages;
use crate::region_filter::{NewRegionFilter, Prefetch};
use crate::table::Table;
use siltstone_design::{EncodedKey, TriePath};
use std::collections::HashSet;
use std::sync::Arc;

/// The tables of one keyspace at one moment.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub levels: Vec<Level>,
    /// Bytes of keys and values written to the keyspace since it was created, as far as they are flushed.
    pub user_bytes: u64,
}

impl Version {
    /// Whether any region below `path` of `level` has runs.
    pub fn has_data_below(&self, level: usize, path: TriePath) -> bool {
        let deeper = self.levels.iter().skip(level + 1);
        deeper.flat_map(|l| l.below(path)).any(|region| !region.runs.is_empty())
    }

    /// Whether any region below `path` of `level` exists.
    pub fn has_children(&self, level: usize, path: TriePath) -> bool {
        self.levels.get(level + 1).is_some_and(|l| !l.below(path).is_empty())
    }

    /// Brings what `gains` know to the filters of their regions, where it is of use.
    pub fn filter_by(&mut self, gains: &[NewRegionFilter]) {
        for gain in gains {
            let Some(level) = self.levels.get_mut(gain.level) else { continue };
            if let Some(region) = level.region(gain.path).and_then(|region| region.filtered_by(&gain.filter))
            {
                level.set(region);
            }
        }
    }

    /// Returns the filters that lie in files, by their pages.
    pub fn sidecars(&self) -> impl Iterator<Item = &Arc<SidecarPages>> {
        let regions = self.levels.iter().flat_map(|level| &level.regions);
        regions.filter_map(|region| region.filter.as_ref()?.pages())
    }

    /// Marks the sidecars that this version uses and `next` does not.
    pub fn retire_sidecars(&self, next: &Self) {
        let kept: HashSet<FileId> = next.sidecars().map(|pages| pages.id).collect();
        let retired = self.sidecars().filter(|pages| !kept.contains(&pages.id));
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

    /// Lets go of what is in memory of the tables that `is_meant` names.
    pub fn unload(&mut self, is_meant: impl Fn(&Table) -> bool) {
        let regions = self.levels.iter_mut().flat_map(|level| &mut level.regions);
        for region in regions {
            let tables = || region.runs.iter().flat_map(|run| &run.tables);
            if !tables().any(|table| is_meant(table)) {
                continue;
            }
            let runs = region.runs.iter().map(|run| {
                let tables = run.tables.iter().map(|table| {
                    if is_meant(table) { Arc::new(table.unloaded()) } else { Arc::clone(table) }
                });
                Arc::new(Run::new(run.id, tables.collect(), run.kills.clone()))
            });
            *region = Arc::new(Region { runs: runs.collect(), ..Region::clone(region) });
        }
    }

    /// Every table, level by level.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let regions = self.levels.iter().flat_map(|level| &level.regions);
        regions.flat_map(|region| &region.runs).flat_map(|run| &run.tables)
    }
}
