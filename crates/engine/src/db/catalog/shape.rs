//! A version as the planner sees it.

use crate::version::Version;
use siltstone_design::{RegionShape, Shape, TriePath};

/// A version, what of it is being worked on, and the time, which decides what has expired.
pub(crate) struct VersionShape<'a> {
    pub version: &'a Version,
    pub is_busy: &'a dyn Fn(usize, TriePath) -> bool,
    pub now_ms: u64,
}

impl Shape for VersionShape<'_> {
    fn level_count(&self) -> usize {
        self.version.levels.len()
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        for region in self.version.levels.get(level).map_or(&[][..], |l| &l.regions) {
            if !region.runs.is_empty() {
                visit(&region.shape_at(self.now_ms));
            }
        }
    }

    fn is_busy(&self, level: usize, path: TriePath) -> bool {
        (self.is_busy)(level, path)
    }
}
