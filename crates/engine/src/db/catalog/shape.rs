//! A version as the planners see it.

use crate::ids::RunId;
use crate::table::envelope::TableMeta;
use crate::version::{Region, Version};
use siltstone_design::redesign::{Strata, Stratum};
use siltstone_design::{LevelSpec, RegionFilterSpec, RegionShape, Shape, TriePath};
use std::sync::Arc;

/// A version, what of it is being worked on, and the time, which decides what has expired. The planner is
/// shown the levels of the design; outgoing ones are those of a redesign.
pub(crate) struct VersionShape<'a> {
    pub version: &'a Version,
    /// Whether anybody works on a region at or below a path that fixes so many bits at most.
    pub is_busy: &'a dyn Fn(TriePath, u8) -> bool,
    /// `None` where sizes are enough.
    pub now_ms: Option<u64>,
    /// Bytes of the disk that are free, where that matters.
    pub free_bytes: u64,
    /// Whether memory is short for region filters, however short their fingerprints.
    pub is_memory_short: bool,
}

impl<'a> VersionShape<'a> {
    /// A version of which nothing is being worked on, at the clock's time `now_ms`.
    pub fn at(version: &'a Version, now_ms: u64) -> Self {
        Self { now_ms: Some(now_ms), ..Self::of_sizes(version) }
    }

    /// A version without what is garbage in it.
    pub fn of_sizes(version: &'a Version) -> Self {
        Self { version, is_busy: &|_, _| false, now_ms: None, free_bytes: u64::MAX, is_memory_short: false }
    }
}

impl Shape for VersionShape<'_> {
    fn level_count(&self) -> usize {
        let Some(deepest) = self.version.levels.last() else { return 0 };
        self.version.shown_number(deepest.depth) + 1
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        for region in self.version.numbered(level).map_or(&[][..], |l| &l.regions) {
            match self.now_ms {
                _ if region.runs.is_empty() => {}
                Some(now_ms) => visit(&self.version.shape_at(region, now_ms)),
                None => visit(&region.shape),
            }
        }
    }

    fn is_busy(&self, level: usize, path: TriePath) -> bool {
        // What lies between this level and the next one goes with a push.
        let depth = path.depth();
        let below = self.version.outgoing_between(depth, self.version.design.depth(level + 1)).last();
        (self.is_busy)(path, below.map_or(depth, |level| level.depth))
    }

    fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    fn unfiltered_runs(&self, level: usize, path: TriePath) -> usize {
        let has_filters = || self.version.design.level(level).region_filter != RegionFilterSpec::None;
        if !self.is_memory_short || !has_filters() {
            return 0;
        }
        self.version.region(path).map_or(0, |region| match &region.filter {
            Some(filter) => region.runs.len().saturating_sub(filter.covered()),
            None => region.runs.len(),
        })
    }
}

impl Strata for VersionShape<'_> {
    fn visit(&self, visit: &mut dyn FnMut(Stratum<'_>)) {
        let version = self.version;
        let pushes = |run: RunId| version.redesign().is_some_and(|change| change.pushes(run));
        for level in &version.levels {
            let spec = version.spec_at(level.depth);
            for region in level.regions.iter().filter(|region| !region.runs.is_empty()) {
                let has_runs = |region: &Arc<Region>| !region.runs.is_empty();
                let is_pushed = region.runs.iter().any(|run| pushes(run.id))
                    && version.regions_below(region.path).any(has_runs);
                let unlike = spec.map_or(0, |spec| unlike(region, spec));
                visit(Stratum { region: &region.shape, unlike, is_pushed });
            }
        }
    }

    fn is_busy(&self, path: TriePath, depth: u8) -> bool {
        (self.is_busy)(path, depth)
    }
}

/// Returns how many of a region's runs, from the newest, reach down to the oldest with a table that is not as
/// `spec` has it.
fn unlike(region: &Region, spec: &LevelSpec) -> usize {
    let is_unlike = |meta: &TableMeta| meta.entries > 0 && !meta.is_as(spec);
    region
        .runs
        .iter()
        .rposition(|run| run.tables.iter().any(|table| is_unlike(table.meta())))
        .map_or(0, |oldest| oldest + 1)
}

/// The uppermost level alone, with those above it that are in the way of flushes.
///
/// While a redesign is under way this is what writers may have to wait for, and what is worked on first.
pub(crate) struct TopShape<'a> {
    pub of: &'a VersionShape<'a>,
    /// Runs with smaller numbers are not shown, but those of levels above the first are; none where it is
    /// planned, for the first level alone.
    pub first_run: Option<RunId>,
}

impl Shape for TopShape<'_> {
    fn level_count(&self) -> usize {
        self.of.level_count().min(1)
    }

    fn visit_regions(&self, _: usize, visit: &mut dyn FnMut(&RegionShape)) {
        let Some(first_run) = self.first_run else { return self.of.visit_regions(0, visit) };
        let Version { levels, design, .. } = self.of.version;
        let first = design.depth(0);
        let upper = levels.iter().filter(|level| level.depth <= first);
        for region in upper.flat_map(|level| &level.regions) {
            let is_shown = |place: &usize| region.runs.get(*place).is_some_and(|run| run.id >= first_run);
            let runs = region.shape.runs.iter().enumerate();
            let runs: Vec<_> = runs.filter(|(place, _)| is_shown(place)).map(|(_, run)| *run).collect();
            if !runs.is_empty() {
                visit(&RegionShape { runs, ..region.shape.clone() });
            }
        }
    }

    fn is_busy(&self, level: usize, path: TriePath) -> bool {
        Shape::is_busy(self.of, level, path)
    }

    fn free_bytes(&self) -> u64 {
        self.of.free_bytes
    }
}
