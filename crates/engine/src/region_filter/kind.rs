//! Kinds of region filters: what those of a level are like, and what the filter of a region lacks.

use super::bloom_cluster::ClusterSettings;
use super::filter::RegionFilter;
use super::lack::{Lack, Means};
use super::limits::FilterLimits;
use super::maplet::MapletSettings;
use super::maplet_pair::MapletPair;
use super::multi_level_cuckoo::CuckooSettings;
use super::run::{Contents, FilteredRun};
use siltstone_design::{LevelSpec, RegionFilterSpec};

/// The part of a filter for which there is to be room beside it before it is built: sizes are estimates.
const SPARE: u64 = 8;

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
                Some(Self::Maplet(MapletSettings::new(remainder_bits, level, has_children)))
            }
            RegionFilterSpec::BloomCluster { bits_per_key } => {
                Some(Self::BloomCluster(ClusterSettings { bits_per_key }))
            }
        }
    }

    /// Returns the same as exact as memory allows.
    pub fn within(self, limits: &FilterLimits) -> Self {
        self.at_most(limits.most_bits())
    }

    /// Returns the same with fingerprints that tell keys apart by `bits` bits at most.
    pub fn at_most(self, bits: u8) -> Self {
        match self {
            Self::Maplet(settings) => Self::Maplet(settings.at_most(bits)),
            // They can't be shortened.
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => self,
        }
    }

    /// Returns how many runs a filter names in vain, on the average, as far as fewer bits make them more.
    pub fn false_probes(self) -> f64 {
        match self {
            Self::Maplet(settings) => settings.false_probes(),
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => 0.0,
        }
    }

    /// Returns about what the filter of a region with `contents` takes in memory; `None` of those that lie on
    /// the device.
    pub fn estimated_bytes(self, contents: Contents) -> Option<u64> {
        match self {
            Self::MultiLevelCuckoo(settings) => Some(settings.estimated_bytes(contents.keys)),
            Self::Maplet(settings) => Some(settings.estimated_bytes(contents)),
            Self::BloomCluster(_) => None,
        }
    }

    /// Returns about what it takes once the region, now with `contents`, is full; `None` where nothing tells.
    pub fn full_bytes(self, contents: Contents) -> Option<u64> {
        let Self::Maplet(settings) = self else { return None };
        (contents.keys > 0).then(|| settings.full_bytes(contents))
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

    /// Whether the fingerprints of a filter that is there can be shortened.
    pub fn can_be_shortened(self) -> bool {
        match self {
            Self::Maplet(_) => true,
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => false,
        }
    }

    /// Returns the bits that fingerprints get where the filter is made anew of a region's runs; 0 of those
    /// that are never made anew for longer ones.
    pub fn bits_anew(self, runs: &[impl FilteredRun]) -> u8 {
        match self {
            Self::Maplet(settings) => settings.bits_anew(runs),
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => 0,
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
        let maplet = present.and_then(RegionFilter::as_maplet);
        let most = match self {
            Self::MultiLevelCuckoo(settings) => settings.max_runs(),
            Self::Maplet(settings) => {
                if let Some(bits) =
                    maplet.and_then(|maplet| settings.to_shorten(maplet, Contents::of(runs).bytes))
                {
                    return Some(Lack::Memory(bits));
                }
                settings.max_runs()
            }
            Self::BloomCluster(settings) => {
                return settings.lack(present.and_then(RegionFilter::as_bloom_cluster), runs, means);
            }
        };
        if runs.iter().any(|run| (means.has_failed)(run.id())) {
            return None;
        }
        let (is_covered, newest) = (covered >= runs.len().min(most), runs.first()?.id());
        let is_inexact = || match self {
            Self::Maplet(settings) => {
                let is_inexact = |maplet| {
                    settings.is_inexact(maplet) || means.has_time && settings.is_shorter(maplet, runs)
                };
                maplet.is_some_and(is_inexact) && self.bits_anew(runs) > (means.made_anew_with)(newest)
            }
            Self::MultiLevelCuckoo(_) | Self::BloomCluster(_) => false,
        };
        let lack = match is_covered {
            true if is_inexact() => Lack::Exactness,
            true if means.is_calm && maplet.is_some_and(MapletPair::is_parted) => Lack::Join,
            true => return None,
            false => Lack::Run(runs.len() - covered - 1),
        };
        // What is there goes once another has been made of it.
        let contents = Contents::of(runs);
        let bytes = self.estimated_bytes(contents)?;
        let room = means.room() + present.map_or(0, RegionFilter::memory_bytes);
        (contents.keys > 0 && bytes + bytes / SPARE < room).then_some(lack)
    }
}
