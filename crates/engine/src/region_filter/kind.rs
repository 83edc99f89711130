//! Kinds of region filters: what those of a level are like, and what the filter of a region lacks.

use super::bloom_cluster::ClusterSettings;
use super::filter::RegionFilter;
use super::lack::{Lack, Means};
use super::maplet::MapletSettings;
use super::multi_level_cuckoo::CuckooSettings;
use super::run::FilteredRun;
use siltstone_design::{LevelSpec, RegionFilterSpec};

/// What the filters of a level's regions are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionFilterKind {
    MultiLevelCuckoo(CuckooSettings),
    Maplet(MapletSettings),
    BloomCluster(ClusterSettings),
}

impl RegionFilterKind {
    /// Returns what the filters of `level`'s regions are like, those with children or those without; `None`
    /// where the level has none.
    pub fn of(level: &LevelSpec, has_children: bool) -> Option<Self> {
        match level.region_filter {
            RegionFilterSpec::None => None,
            RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits } => {
                Some(Self::MultiLevelCuckoo(CuckooSettings::new(fingerprint_bits, level.runs)))
            }
            RegionFilterSpec::Maplet { remainder_bits } => {
                Some(Self::Maplet(MapletSettings::new(remainder_bits, level.region_bytes(), has_children)))
            }
            RegionFilterSpec::BloomCluster { bits_per_key } => {
                Some(Self::BloomCluster(ClusterSettings { bits_per_key }))
            }
        }
    }

    /// Whether `filter` is such a one.
    pub fn is_of(self, filter: &RegionFilter) -> bool {
        match self {
            Self::MultiLevelCuckoo(settings) => {
                filter.as_multi_level_cuckoo().is_some_and(|filter| settings.suits(filter))
            }
            Self::Maplet(_) => filter.as_maplet().is_some(),
            Self::BloomCluster(_) => filter.as_bloom_cluster().is_some(),
        }
    }

    /// Whether such filters are held in memory alone, and kept in a sidecar only while the store is closed.
    pub fn is_in_memory(self) -> bool {
        match self {
            Self::MultiLevelCuckoo(_) | Self::Maplet(_) => true,
            Self::BloomCluster(_) => false,
        }
    }

    /// Whether such filters are made of the fingerprints that tables keep.
    pub fn takes_tables(self) -> bool {
        match self {
            Self::Maplet(_) => true,
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => false,
        }
    }

    /// Returns what `present`, the filter of a region with `runs` (newest first), lacks of what can be had by
    /// `means`.
    pub fn lack(
        self,
        present: Option<&RegionFilter>,
        runs: &[impl FilteredRun],
        means: &Means<'_>,
    ) -> Option<Lack> {
        // A filter that can't be added to any more counts for nothing here: it serves until all is covered
        // anew.
        let serves = |filter: &&RegionFilter| self.is_of(filter) && !filter.is_stale();
        let covered = present.filter(serves).map_or(0, RegionFilter::covered);
        let keys = runs.iter().map(FilteredRun::entries).sum();
        let (most, bytes) = match self {
            Self::MultiLevelCuckoo(settings) => (settings.max_runs(), settings.estimated_bytes(keys)),
            Self::Maplet(settings) => (settings.max_runs(), settings.estimated_bytes(keys)),
            Self::BloomCluster(settings) => {
                return settings.lack(present.and_then(RegionFilter::as_bloom_cluster), runs, means);
            }
        };
        if covered >= runs.len().min(most) || runs.iter().any(|run| (means.has_failed)(run.id())) {
            return None;
        }
        // Building takes as much again.
        (keys > 0 && bytes * 2 < means.room()).then_some(Lack::Run(runs.len() - covered - 1))
    }
}
