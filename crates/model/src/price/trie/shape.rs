//! What the planner sees of a store that is filled as sizes.
//!
//! What there is to do about a region depends on the region alone, but where space counts. So those that have
//! not changed since the planner came to rest are not shown; where space counts all are, and what followed
//! regions stand for behind them, as levels of their own.

use super::{Region, Trie};
use siltstone_design::plan::{EARLY_PART, Space, stagger};
use siltstone_design::{RegionShape, RunShape, Shape, TriePath};

/// Levels behind the store's own on which the shape shows what followed regions stand for.
const REST_LEVELS: usize = 2;

impl Trie {
    /// How many regions the planner looks at for the next task: those that have changed; where space counts
    /// all, for their space and for what there is to do.
    pub fn looks(&self) -> f64 {
        let shown = self.levels.iter().flatten().filter(|region| self.shows(region)).count() as f64;
        if self.design().pushes_early { 2.0 * shown + 1.0 } else { shown + 1.0 }
    }

    fn shows(&self, region: &Region) -> bool {
        self.design().pushes_early || region.has_changed
    }

    /// Whether overwrites can make it so large that regions are pushed early.
    pub fn space_counts(&self) -> bool {
        self.keys.make_garbage() && self.design().pushes_early
    }

    /// Bytes of level 0, where that is no leaf.
    pub fn level_0_bytes(&self) -> u64 {
        self.levels.first().into_iter().flatten().map(|region| region.shape.bytes()).sum()
    }

    /// Whether the planner could find anything to do after a flush, where it had found nothing before.
    pub fn may_be_due(&self) -> bool {
        let design = self.design();
        if self.keys.make_garbage() && design.levels.len() == 1 {
            return true;
        }
        self.may_be_crowded()
            || self.levels.first().into_iter().flatten().any(|region| {
                let (runs, most) = (region.shape.runs.len() as f64, f64::from(design.level(0).runs));
                runs >= most * self.level_0_limit(region) || self.fills_level_0(region, 1.0)
            })
    }

    /// How many times its level's limits a region of level 0 may hold, a little less than the planner says.
    fn level_0_limit(&self, region: &Region) -> f64 {
        stagger(self.design().level(0), &region.shape) * (1.0 - 1e-9)
    }

    /// Whether a region of level 0 has so large a part of the bytes that it may have.
    fn fills_level_0(&self, region: &Region, part: f64) -> bool {
        let most = self.design().level(0).region_bytes() as f64 * self.level_0_limit(region);
        region.shape.bytes() as f64 >= most * part
    }

    /// Whether a flush may have made some region one to be pushed early: level 0's, which has grown, or any
    /// other, where the store was not crowded before.
    fn may_be_crowded(&self) -> bool {
        if !self.space_counts() {
            return false;
        }
        let Some((at_rest, level_0_bytes)) = self.at_rest else { return true };
        let design = self.design();
        let grown = self.level_0_bytes().saturating_sub(level_0_bytes);
        let now = Space { all: at_rest.all.saturating_add(grown), ..at_rest };
        if !now.is_crowded(design) {
            return false;
        }
        let mut level_0 = self.levels.first().into_iter().flatten();
        !at_rest.is_crowded(design) || level_0.any(|region| self.fills_level_0(region, EARLY_PART))
    }

    /// What followed regions stand for beside themselves, as one region that is a leaf or is not.
    fn rest(&self, of_leaves: bool) -> RegionShape {
        let (mut bytes, mut dead) = (0.0, 0.0);
        for (level, regions) in self.levels.iter().enumerate() {
            for region in regions {
                if self.design().is_leaf(level, region.shape.has_children) == of_leaves {
                    bytes += (region.weight - 1.0) * region.shape.bytes() as f64;
                    let garbage = region.shape.dead_bytes.last().copied().unwrap_or(0);
                    dead += (region.weight - 1.0) * garbage as f64;
                }
            }
        }
        RegionShape {
            runs: vec![RunShape { bytes: bytes as u64, ..RunShape::default() }],
            dead_bytes: vec![dead as u64],
            has_children: !of_leaves,
            ..RegionShape::default()
        }
    }

    /// The first of the levels that show the rest: below all that the design names, so that a region without
    /// children is a leaf there.
    fn rest_level(&self) -> usize {
        self.levels.len().max(self.design().levels.len())
    }
}

impl Shape for Trie {
    fn level_count(&self) -> usize {
        if self.design().pushes_early { self.rest_level() + REST_LEVELS } else { self.levels.len() }
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        if let Some(regions) = self.levels.get(level) {
            regions
                .iter()
                .filter(|region| !region.shape.runs.is_empty() && self.shows(region))
                .for_each(|region| visit(&region.shape));
        } else if level >= self.rest_level() {
            visit(&self.rest(level == self.rest_level()));
        }
    }

    fn is_busy(&self, level: usize, _: TriePath) -> bool {
        // Nothing is to be done about the rest.
        level >= self.rest_level()
    }
}
