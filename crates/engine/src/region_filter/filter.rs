//! The filter of a region, whatever its kind: the one place that tells the kinds apart when a filter is used.

use super::bloom_cluster::BloomCluster;
use super::candidates::Candidates;
use super::maplet_pair::MapletPair;
use super::run::FilteredRun;
use super::sidecar::{self, KeepRecord, Malformed, PagesTarget, SidecarPages, SidecarRecord};
use super::slotted::{Prefetch, Slotted};
use crate::cache::{PageRef, Pause, Probe, Reader};
use crate::error::Result;
use crate::ids::RunId;
use crate::memory::MemoryBudget;
use siltstone_design::{EncodedKey, TriePath};
use siltstone_succinct::filter::multi_level_cuckoo::MultiLevelCuckooFilter;
use std::sync::Arc;

/// The filter of a region.
#[derive(Debug)]
pub(crate) enum RegionFilter {
    MultiLevelCuckoo(Slotted<MultiLevelCuckooFilter>),
    Maplet(MapletPair),
    BloomCluster(BloomCluster),
}

impl RegionFilter {
    pub fn as_multi_level_cuckoo(&self) -> Option<&Slotted<MultiLevelCuckooFilter>> {
        if let Self::MultiLevelCuckoo(filter) = self { Some(filter) } else { None }
    }

    pub fn as_maplet(&self) -> Option<&MapletPair> {
        if let Self::Maplet(filter) = self { Some(filter) } else { None }
    }

    pub fn as_bloom_cluster(&self) -> Option<&BloomCluster> {
        if let Self::BloomCluster(cluster) = self { Some(cluster) } else { None }
    }

    /// Returns what the filter says of each of a region's `runs` runs as to `key`. A filter on the device may
    /// read a page.
    #[inline]
    pub fn candidates(
        &self,
        key: &EncodedKey<'_>,
        runs: usize,
        probe: &mut Probe<'_>,
    ) -> Result<Candidates, Pause> {
        Ok(match self {
            Self::MultiLevelCuckoo(filter) => Candidates::named(runs, filter.covered(), filter.slots(key)),
            Self::Maplet(filter) => Candidates::named(runs, filter.covered(), filter.slots(key)),
            Self::BloomCluster(cluster) => Candidates::ruled_out(runs, cluster.absent(key, probe)?),
        })
    }

    /// Returns the page that [`RegionFilter::candidates`] reads for `key`; `None` where memory has the
    /// answer.
    pub fn page_for(&self, key: &EncodedKey<'_>) -> Option<PageRef> {
        match self {
            Self::MultiLevelCuckoo(_) | Self::Maplet(_) => None,
            Self::BloomCluster(cluster) => cluster.first_page(key),
        }
    }

    /// Whether the whole filter is in memory, so that asking it is one probe.
    #[inline]
    pub fn is_in_memory(&self) -> bool {
        match self {
            Self::MultiLevelCuckoo(_) | Self::Maplet(_) => true,
            Self::BloomCluster(_) => false,
        }
    }

    /// Whether it names only the newest run that holds a key, and not those with older versions.
    #[inline]
    pub fn names_newest_only(&self) -> bool {
        match self {
            Self::MultiLevelCuckoo(_) => true,
            Self::Maplet(_) | Self::BloomCluster(_) => false,
        }
    }

    /// Brings the memory that a lookup of `key` reads towards the processor's cache: what it reads first, or
    /// what follows from that.
    #[inline]
    pub fn prefetch(&self, key: &EncodedKey<'_>, step: Prefetch) {
        match self {
            Self::MultiLevelCuckoo(filter) => filter.prefetch(key, step),
            Self::Maplet(filter) => filter.prefetch(key, step),
            Self::BloomCluster(_) => {}
        }
    }

    /// Returns this filter for `runs` (newest first), of which some may be new and others gone; `None` where
    /// it says nothing of them.
    pub fn fitted(self: &Arc<Self>, runs: &[impl FilteredRun]) -> Option<Arc<Self>> {
        let changed = match &**self {
            Self::MultiLevelCuckoo(filter) => filter.fitted(runs)?.map(Self::MultiLevelCuckoo),
            Self::Maplet(filter) => filter.fitted(runs)?.map(Self::Maplet),
            Self::BloomCluster(cluster) => Some(Self::BloomCluster(cluster.fitted(runs)?)),
        };
        Some(changed.map_or_else(|| Arc::clone(self), Arc::new))
    }

    /// Returns the filter of a region with `runs` (newest first) once `gain` has come to `present`; `None`
    /// where `gain` is of no use there.
    pub fn joined(
        present: Option<&Arc<Self>>,
        gain: &Arc<Self>,
        runs: &[impl FilteredRun],
    ) -> Option<Arc<Self>> {
        match (present.map(Arc::as_ref), &**gain) {
            (Some(Self::BloomCluster(present)), Self::BloomCluster(gain)) => {
                present.joined(gain, runs).map(|joined| Arc::new(Self::BloomCluster(joined)))
            }
            // The others know a whole stretch of runs, and a filter of another kind is replaced.
            (_, Self::MultiLevelCuckoo(_) | Self::Maplet(_) | Self::BloomCluster(_)) => gain.fitted(runs),
        }
    }

    /// Returns the filter after the neighbouring runs `merged` have become `run`; `None` where it can't be
    /// had from this one.
    pub fn after_rewrite(&self, merged: &[RunId], run: RunId, memory: &Arc<MemoryBudget>) -> Option<Self> {
        match self {
            Self::MultiLevelCuckoo(filter) => {
                filter.after_rewrite(merged, run, memory).map(Self::MultiLevelCuckoo)
            }
            Self::Maplet(filter) => filter.after_rewrite(merged, run, memory).map(Self::Maplet),
            // Its rows name their keys and no runs' places: the new run's row comes with the run.
            Self::BloomCluster(_) => None,
        }
    }

    /// Returns the places in the region, newest first, of the runs that it knows nothing of.
    pub fn missing(&self, runs: usize) -> impl Iterator<Item = usize> {
        let (covered, cluster) = match self {
            Self::MultiLevelCuckoo(filter) => (filter.covered(), None),
            Self::Maplet(filter) => (filter.covered(), None),
            Self::BloomCluster(cluster) => (runs, Some(cluster)),
        };
        (0..runs - covered.min(runs)).chain(cluster.into_iter().flat_map(BloomCluster::missing))
    }

    /// Returns how many runs it knows.
    pub fn covered(&self) -> usize {
        match self {
            Self::MultiLevelCuckoo(filter) => filter.covered(),
            Self::Maplet(filter) => filter.covered(),
            Self::BloomCluster(cluster) => cluster.covered(),
        }
    }

    /// Whether it can't be added to any more, and serves until all is covered anew.
    pub fn is_stale(&self) -> bool {
        match self {
            Self::MultiLevelCuckoo(filter) => filter.knows_gone(),
            Self::Maplet(_) | Self::BloomCluster(_) => false,
        }
    }

    /// Returns the bytes that it takes in memory.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::MultiLevelCuckoo(filter) => filter.memory_bytes(),
            Self::Maplet(filter) => filter.memory_bytes(),
            Self::BloomCluster(cluster) => cluster.row_bytes().held,
        }
    }

    /// Returns the file that it lies in, if it lies in one.
    pub fn pages(&self) -> Option<&Arc<SidecarPages>> {
        match self {
            Self::MultiLevelCuckoo(_) | Self::Maplet(_) => None,
            Self::BloomCluster(cluster) => cluster.pages(),
        }
    }

    /// Returns the filter with fingerprints of `bits` bits; `None` where that can't be had.
    pub fn shortened(&self, bits: u8, memory: &Arc<MemoryBudget>) -> Option<Self> {
        self.as_maplet()?.shortened(bits, memory).map(Self::Maplet)
    }

    /// Returns the filter in one part; `None` where it is, or memory is short.
    pub fn in_one(&self, memory: &Arc<MemoryBudget>) -> Option<Self> {
        self.as_maplet().filter(|maplet| maplet.is_parted())?.in_one(memory).map(Self::Maplet)
    }

    /// Writes what is known into a file and returns the filter of that file; `None` where it can't be had, or
    /// lies in memory alone.
    pub fn write_pages(&self, target: &PagesTarget<'_>, reader: &Reader) -> Result<Option<Self>> {
        match self {
            Self::MultiLevelCuckoo(_) | Self::Maplet(_) => Ok(None),
            Self::BloomCluster(cluster) => Ok(cluster.write(target, reader)?.map(Self::BloomCluster)),
        }
    }

    /// Hands what memory has of it to `keep`, as records of a sidecar: the runs, the kind and the bytes.
    pub fn encode(&self, keep: &mut KeepRecord<'_>) -> std::io::Result<()> {
        match self {
            Self::MultiLevelCuckoo(filter) => filter.encode(keep),
            Self::Maplet(filter) => filter.encode(keep),
            Self::BloomCluster(cluster) => cluster.encode_rows(keep),
        }
    }

    /// Decodes a record that [`RegionFilter::encode`] handed over; `Ok(None)` where memory is short, `Err`
    /// where its bytes make no sense.
    pub fn decode(
        record: &SidecarRecord<'_>,
        memory: &Arc<MemoryBudget>,
    ) -> std::result::Result<Option<Self>, Malformed> {
        let runs = record.runs.clone();
        Ok(match record.kind {
            sidecar::MULTI_LEVEL_CUCKOO => {
                Slotted::decode(runs, record.filter, memory)?.map(Self::MultiLevelCuckoo)
            }
            sidecar::MAPLET => {
                Slotted::decode(runs, record.filter, memory)?.map(MapletPair::whole).map(Self::Maplet)
            }
            sidecar::CLUSTER_ROW => {
                BloomCluster::decode_row(record.path, &runs, record.filter, memory)?.map(Self::BloomCluster)
            }
            _ => return Err(Malformed),
        })
    }

    /// Decodes the record of a filter that lies in the pages of the same sidecar.
    pub fn of_pages(
        record: &SidecarRecord<'_>,
        pages: Arc<SidecarPages>,
    ) -> std::result::Result<Self, Malformed> {
        match record.kind {
            sidecar::CLUSTER_PAGES => BloomCluster::of_pages(record.path, &record.runs, record.filter, pages)
                .map(Self::BloomCluster),
            _ => Err(Malformed),
        }
    }
}

/// A filter, or a part of one, for a region; to be seen once the region's runs are.
#[derive(Clone, Debug)]
pub(crate) struct NewRegionFilter {
    pub path: TriePath,
    pub filter: Arc<RegionFilter>,
}

impl NewRegionFilter {
    pub fn new(path: TriePath, filter: RegionFilter) -> Self {
        Self { path, filter: Arc::new(filter) }
    }
}
