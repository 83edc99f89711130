//! What the planner sees of a store that is filled as sizes.
//!
//! What space the store takes is summed up as regions change.

use super::{Region, Trie};
use siltstone_design::plan::{EARLY_PART, stagger};
use siltstone_design::shape::Space;
use siltstone_design::{Design, RegionShape, Shape, TriePath};

/// Bytes of regions and of what they stand for: of all, of leaves that are no garbage, and of garbage there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Held {
    all: f64,
    live: f64,
    dead: f64,
}

impl Held {
    fn of(region: &Region, design: &Design, level: usize) -> Self {
        let Space { all, live, dead } = Space::default().with(design, level, &region.shape);
        let [all, live, dead] = [all, live, dead].map(|bytes| region.weight * bytes as f64);
        Self { all, live, dead }
    }

    /// This with so much `more`, which took the place of `before`.
    fn changed(self, more: Self, before: Self) -> Self {
        Self {
            all: self.all + (more.all - before.all),
            live: self.live + (more.live - before.live),
            dead: self.dead + (more.dead - before.dead),
        }
    }
}

impl Trie {
    /// Whether regions are pushed early.
    pub(super) fn is_crowded(&self) -> bool {
        self.space_counts() && self.space_now().is_crowded(self.design())
    }

    /// The space that it takes.
    fn space_now(&self) -> Space {
        let Held { all, live, dead } = self.held;
        Space { all: all as u64, live: live as u64, dead: dead as u64 }
    }

    /// Counts a region's space, which has changed.
    pub(super) fn note_space(&mut self, level: usize, number: usize) {
        if !self.space_counts() {
            return;
        }
        let now = Held::of(self.region(level, number), self.design(), level);
        let before = std::mem::replace(&mut self.region_mut(level, number).held, now);
        self.held = self.held.changed(now, before);
    }

    /// Whether overwrites can make it so large that regions are pushed early.
    pub fn space_counts(&self) -> bool {
        self.keys.make_garbage() && self.design().pushes_early
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
        if !self.is_crowded() {
            return false;
        }
        let mut level_0 = self.levels.first().into_iter().flatten();
        !self.was_crowded || level_0.any(|region| self.fills_level_0(region, EARLY_PART))
    }
}

impl Shape for Trie {
    fn level_count(&self) -> usize {
        self.levels.len()
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        let regions = self.levels.get(level).into_iter().flatten();
        regions.filter(|region| !region.shape.runs.is_empty()).for_each(|region| visit(&region.shape));
    }

    fn is_busy(&self, _: usize, _: TriePath) -> bool {
        false
    }

    fn space(&self, _: &Design) -> Space {
        self.space_now()
    }
}
