//! Makes filters of regions, run by run, from keys or from the fingerprints that tables keep.

use super::bloom_cluster::{ClusterBuilder, ClusterSettings};
use super::filter::RegionFilter;
use super::kind::RegionFilterKind;
use super::maplet::MapletBuilder;
use super::multi_level_cuckoo::CuckooBuilder;
use super::run::FilteredRun;
use crate::ids::{RunId, TableId};
use crate::memory::MemoryBudget;
use siltstone_design::{EncodedKey, TriePath};
use siltstone_succinct::filter::maplet::Maplet;
use std::ops::Range;
use std::sync::Arc;

/// Youngest runs of a region that its filter may have missed for a new run to catch up on them.
const MOST_MISSED: usize = 8;

/// The region that a filter is made for.
pub(crate) struct Filtered<'a, R> {
    pub path: TriePath,
    /// Its runs, newest first, and the filter that it has.
    pub runs: &'a [R],
    pub present: Option<&'a RegionFilter>,
}

impl<R> Filtered<'_, R> {
    /// Returns how many runs the region's filter covers, if it is of `kind`.
    fn covered(&self, kind: RegionFilterKind) -> usize {
        self.present.filter(|filter| kind.is_of(filter)).map_or(0, RegionFilter::covered)
    }
}

/// A run that is about to be written.
pub(crate) struct ExpectedRun<'a> {
    /// About how many keys it will have.
    pub keys: u64,
    /// Whether it goes on top of the others, rather than in the place of some.
    pub is_on_top: bool,
    /// Reads the fingerprints that a run of the region, by its place, has kept.
    pub fingerprints: &'a dyn Fn(usize) -> Option<Vec<Maplet>>,
}

/// Makes a filter of a region, or a part of one. The keys of a run come in the store's order.
pub(crate) enum RegionFilterBuilder {
    MultiLevelCuckoo(Box<CuckooBuilder>),
    Maplet(MapletBuilder),
    BloomCluster(ClusterBuilder),
}

impl RegionFilterBuilder {
    /// Begins the filter that a new run brings with it. A filter in memory has to know all runs below the new
    /// one, or all but the youngest, whose tables have kept the fingerprints that it wants; else the run
    /// waits for background work.
    pub fn for_new_run<R: FilteredRun>(
        kind: RegionFilterKind,
        region: &Filtered<'_, R>,
        run: &ExpectedRun<'_>,
        memory: &Arc<MemoryBudget>,
    ) -> Option<Self> {
        if let RegionFilterKind::BloomCluster(settings) = kind {
            return Self::row(settings, region, run.keys, memory);
        }
        let covered = region.covered(kind);
        let missed = region.runs.len().saturating_sub(covered);
        let can_catch_up = covered > 0 && kind.takes_tables() && missed <= MOST_MISSED;
        if !run.is_on_top || (missed > 0 && !can_catch_up) {
            return None;
        }
        let mut builder = Self::on_top(kind, region)?;
        for (place, missed) in region.runs.iter().enumerate().take(missed).rev() {
            if !builder.has_room() {
                return None;
            }
            (run.fingerprints)(place)?.iter().for_each(|table| builder.add_fingerprints(table));
            builder.end_run(missed.id(), missed.table_ids(), missed.user_bytes());
        }
        Some(builder).filter(Self::has_room)
    }

    /// Begins to make what a filter lacks, the run at `lacking` among it: the builder, and the places of the
    /// runs that it is to be given, the last one first; `None` where memory is short.
    pub fn for_missing<R: FilteredRun>(
        kind: RegionFilterKind,
        region: &Filtered<'_, R>,
        lacking: usize,
        memory: &Arc<MemoryBudget>,
    ) -> Option<(Self, Range<usize>)> {
        if let RegionFilterKind::BloomCluster(settings) = kind {
            let keys = region.runs.get(lacking)?.entries();
            return Some((Self::row(settings, region, keys, memory)?, lacking..lacking + 1));
        }
        let mut builder = Self::on_top(kind, region)?;
        let covered = region.covered(kind);
        if covered == 0 {
            // Sized for the oldest run, which may be a small one, the filter might not grow far enough.
            builder.make_room(region.runs.iter().map(FilteredRun::entries).sum());
        }
        Some((builder, 0..region.runs.len().saturating_sub(covered)))
    }

    /// A builder of a row of a Bloom cluster.
    fn row<R>(
        settings: ClusterSettings,
        region: &Filtered<'_, R>,
        keys: u64,
        memory: &Arc<MemoryBudget>,
    ) -> Option<Self> {
        let present = region.present.and_then(RegionFilter::as_bloom_cluster);
        ClusterBuilder::new(settings, region.path, present, keys, memory).map(Self::BloomCluster)
    }

    /// A builder on top of the filter in memory that a region has, if it has one of this kind.
    fn on_top<R: FilteredRun>(kind: RegionFilterKind, region: &Filtered<'_, R>) -> Option<Self> {
        let present = region.present.filter(|filter| kind.is_of(filter));
        match kind {
            RegionFilterKind::MultiLevelCuckoo(settings) => {
                let present = present.and_then(RegionFilter::as_multi_level_cuckoo);
                let builder = CuckooBuilder::new(settings, present, region.runs);
                Some(Self::MultiLevelCuckoo(Box::new(builder)))
            }
            RegionFilterKind::Maplet(settings) => {
                let present = present.and_then(RegionFilter::as_maplet);
                Some(Self::Maplet(MapletBuilder::new(settings, present)))
            }
            RegionFilterKind::BloomCluster(_) => None,
        }
    }

    /// Whether it can take another run.
    pub fn has_room(&self) -> bool {
        match self {
            Self::MultiLevelCuckoo(builder) => builder.has_room(),
            Self::Maplet(builder) => builder.has_room(),
            Self::BloomCluster(builder) => builder.has_room(),
        }
    }

    /// Adds a key of the run being added, which is expected to have about `expected_keys`.
    #[inline]
    pub fn add(&mut self, key: &EncodedKey<'_>, older_in: TableId, expected_keys: u64) {
        match self {
            Self::MultiLevelCuckoo(builder) => builder.add(key, older_in, expected_keys),
            Self::Maplet(builder) => builder.add(key),
            Self::BloomCluster(builder) => builder.add(key),
        }
    }

    /// Whether it takes whole tables by their fingerprints, so that keys need not be added one by one.
    pub fn takes_tables(&self) -> bool {
        match self {
            Self::Maplet(_) => true,
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => false,
        }
    }

    /// Adds the keys of a new table of the run being added, by their fingerprints in order, where it takes
    /// tables.
    pub fn add_table(&mut self, fingerprints: Vec<u64>) {
        match self {
            Self::Maplet(builder) => builder.add_table(fingerprints),
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => {}
        }
    }

    /// Adds the keys of a table of the run being added by the fingerprints that it has kept.
    pub fn add_fingerprints(&mut self, table: &Maplet) {
        match self {
            Self::Maplet(builder) => builder.add_fingerprints(table),
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => {
                unreachable!("only builders that take tables are given fingerprints")
            }
        }
    }

    /// Makes room for `keys` keys more at once.
    fn make_room(&mut self, keys: u64) {
        match self {
            Self::MultiLevelCuckoo(builder) => builder.make_room(keys),
            Self::Maplet(builder) => builder.make_room(keys),
            Self::BloomCluster(_) => {}
        }
    }

    /// Ends the run being added, whose tables have `user_bytes` bytes of keys and values.
    pub fn end_run(&mut self, run: RunId, tables: impl Iterator<Item = TableId>, user_bytes: u64) {
        match self {
            Self::MultiLevelCuckoo(builder) => builder.end_run(run, tables),
            Self::Maplet(builder) => builder.end_run(run, user_bytes),
            Self::BloomCluster(builder) => builder.end_run(run),
        }
    }

    /// Returns the filter; `None` where there is nothing to filter, it is full or memory is short.
    pub fn finish(self, memory: &Arc<MemoryBudget>) -> Option<RegionFilter> {
        match self {
            Self::MultiLevelCuckoo(builder) => builder.finish(memory).map(RegionFilter::MultiLevelCuckoo),
            Self::Maplet(builder) => builder.finish(memory).map(RegionFilter::Maplet),
            Self::BloomCluster(builder) => builder.finish(memory).map(RegionFilter::BloomCluster),
        }
    }
}
