//! Level › Region: the nodes of the trie at one depth.

use super::region::Region;
use siltstone_design::TriePath;
use std::sync::Arc;

/// The regions at one depth, in digest order; regions that never held data are not there.
#[derive(Clone)]
pub(crate) struct Level {
    /// Digest bits that its regions fix.
    pub depth: u8,
    pub regions: Vec<Arc<Region>>,
    /// Bytes written into the level since the keyspace was created.
    pub bytes_written: u64,
}

impl Level {
    /// A level without regions.
    pub fn new(depth: u8) -> Self {
        Self { depth, regions: Vec::new(), bytes_written: 0 }
    }

    /// Whether any of its regions has runs.
    pub fn has_runs(&self) -> bool {
        self.regions.iter().any(|region| !region.runs.is_empty())
    }

    fn position(&self, path: TriePath) -> std::result::Result<usize, usize> {
        self.regions.binary_search_by_key(&path.first(), |region| region.path.first())
    }

    /// The region of `path`.
    pub fn region(&self, path: TriePath) -> Option<&Arc<Region>> {
        self.position(path).ok().and_then(|at| self.regions.get(at))
    }

    /// The one region that digest half `hi` lies in.
    #[inline]
    pub fn region_of(&self, hi: u64) -> Option<&Arc<Region>> {
        // Where a level is complete, and all of its regions are of one size, as is usual, this is the one.
        let likely = ((u128::from(hi) * self.regions.len() as u128) >> 64) as usize;
        if let Some(region) = self.regions.get(likely).filter(|region| region.path.contains(hi)) {
            return Some(region);
        }
        let past = self.regions.partition_point(|region| region.path.first() <= hi);
        self.regions.get(past.checked_sub(1)?).filter(|region| region.path.contains(hi))
    }

    /// The last digest half up to which nothing changes at this level as one walks on from `hi`: the end of
    /// its region, or the end of the gap it lies in.
    pub fn end_of_stretch(&self, hi: u64) -> u64 {
        if let Some(region) = self.region_of(hi) {
            return region.path.last();
        }
        let past = self.regions.partition_point(|region| region.path.first() <= hi);
        self.regions.get(past).map_or(u64::MAX, |next| next.path.first() - 1)
    }

    /// The regions at or below `path`.
    pub fn below(&self, path: TriePath) -> &[Arc<Region>] {
        let from = self.regions.partition_point(|region| region.path.first() < path.first());
        let to = self.regions.partition_point(|region| region.path.first() <= path.last());
        self.regions.get(from..to).unwrap_or(&[])
    }

    /// Puts a region in its place, over the one that is there.
    pub fn set(&mut self, region: Region) {
        match self.position(region.path) {
            Ok(at) => {
                if let Some(slot) = self.regions.get_mut(at) {
                    *slot = Arc::new(region);
                }
            }
            Err(at) => self.regions.insert(at, Arc::new(region)),
        }
    }
}
