//! Where a bulk build's items go: the trie as the design would have grown it around them.
//!
//! Each region is shown to the planner as it would be with its part of the items in a run on top. Where the
//! planner would leave it, or merge it in place, the run is put there. Where it would push or split the
//! region, the items go on to the children at once, and the runs that lie there go with them, as a push would
//! have it: nothing is written on the way. So no region is full when a build ends, and what was there before
//! stays below what came later.
//!
//! Invariants: regions are asked for in digest order, an ancestor before its descendants; what lies on a path
//! below a run that stays is older than that run.

use super::target;
use super::work::{Amount, Target};
use crate::events::Part;
use crate::version::edit::Step;
use crate::version::{Run, Version};
use siltstone_design::plan::{descendants, plan};
use siltstone_design::redesign::level_below;
use siltstone_design::{Design, RegionShape, RunShape, Shape, Task, TriePath};
use std::sync::Arc;

/// How much of the items belongs to parts of the trie, as far as that is known.
pub(crate) trait Sizes {
    /// Returns about how much belongs to the region `path`, as tables hold it.
    fn amount(&self, path: TriePath) -> Amount;
    /// Returns about how many bytes the largest group of keys in `path` has.
    fn largest_group_bytes(&self, path: TriePath) -> u64;
}

/// A region that gets a run, and about how much that is.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    pub(super) target: Target,
    pub share: Amount,
}

impl Placed {
    /// Returns the first and the last upper digest half of the region.
    pub fn bounds(&self) -> (u64, u64) {
        (self.target.path.first(), self.target.path.last())
    }
}

/// A region that items have come down to.
struct Reached {
    level: usize,
    path: TriePath,
    /// About how much of the runs above comes with them.
    carried: Amount,
}

/// Finds the regions that the items of a bulk build go to, one after the other.
pub(crate) struct Layout<'a> {
    design: &'a Design,
    version: &'a Version,
    /// Regions to look at, the next one last.
    reached: Vec<Reached>,
    /// What becomes of the regions that were passed.
    pub steps: Vec<Step>,
    /// The runs that take part in the merge: by how many bits their regions fix, and by age among their
    /// region's runs.
    pub taken: Vec<Vec<Vec<Arc<Run>>>>,
}

impl<'a> Layout<'a> {
    pub fn new(design: &'a Design, version: &'a Version) -> Self {
        let mut layout = Self { design, version, reached: Vec::new(), steps: Vec::new(), taken: Vec::new() };
        layout.reach(TriePath::ROOT, version.flush_depth(), Amount::default());
        layout
    }

    /// Goes on to the regions at `depth` below `path`.
    fn reach(&mut self, path: TriePath, depth: u8, carried: Amount) {
        let level = self.version.shown_number(depth);
        let mut reached: Vec<_> =
            descendants(path, depth).map(|path| Reached { level, path, carried }).collect();
        reached.reverse();
        self.reached.append(&mut reached);
    }

    /// Returns the next region that gets a run; `None` behind the last.
    pub fn next(&mut self, sizes: &dyn Sizes) -> Option<Placed> {
        loop {
            let reached = self.reached.pop()?;
            let share = sizes.amount(reached.path).and(reached.carried);
            if self.goes_on(&reached, share, sizes) {
                self.pass(&reached);
            } else {
                return Some(Placed { target: self.target(&reached), share });
            }
        }
    }

    /// Returns all that are left.
    pub fn rest(&mut self, sizes: &dyn Sizes) -> Vec<Placed> {
        std::iter::from_fn(|| self.next(sizes)).collect()
    }

    fn pushes(&self, path: TriePath) -> u64 {
        self.version.region(path).map_or(0, |region| region.pushes)
    }

    /// Whether the planner would push or split the region if it had `share` on top.
    fn goes_on(&self, reached: &Reached, share: Amount, sizes: &dyn Sizes) -> bool {
        let Reached { level, path, .. } = *reached;
        if self.design.level_at(path.depth()).is_none() {
            return true;
        }
        if share.entries == 0 {
            return false;
        }
        let resident = self.version.runs(path).iter().map(|run| (run.bytes(), run.entries()));
        let mut runs: Vec<RunShape> = std::iter::once((share.bytes, share.entries))
            .chain(resident)
            .map(|(bytes, entries)| RunShape { bytes, entries, ..RunShape::default() })
            .collect();
        if self.design.level(level).runs == 1 {
            let sum = |of: fn(&RunShape) -> u64| runs.iter().map(of).sum();
            let (bytes, entries) = (sum(|run| run.bytes), sum(|run| run.entries));
            runs = vec![RunShape { bytes, entries, ..RunShape::default() }];
        }
        let region = self.version.region(path);
        let group = region.map_or(0, |region| region.shape.largest_group_bytes);
        let shape = RegionShape {
            path,
            runs,
            pushes: self.pushes(path),
            has_children: self.version.has_children(path),
            largest_group_bytes: group.max(sizes.largest_group_bytes(path)),
            ..RegionShape::default()
        };
        let task = plan(self.design, &OneRegion { level, shape });
        matches!(task, Some(Task::Push { .. } | Task::Split { .. }))
    }

    /// Goes on to the children of a region, with the runs that lie there.
    fn pass(&mut self, reached: &Reached) {
        let Reached { level, path, carried } = *reached;
        self.steps.push(Step::Pushed { level, path, pushes: self.pushes(path) + 1 });
        let runs = self.version.runs(path);
        let mut comes = carried;
        for (age, run) in runs.iter().enumerate() {
            comes = comes.and(Amount { entries: run.entries(), bytes: run.bytes() });
            self.take(level, path, age, run);
        }
        // An outgoing level on the way goes along.
        let next = self.design.depth(level_below(self.design, path));
        let outgoing = self.version.outgoing_between(path.depth(), next).next();
        let depth = outgoing.map_or(next, |level| level.depth);
        self.reach(path, depth, comes.per_target(1 << (depth - path.depth())));
    }

    /// Lets a run take part in the merge, and leave its region.
    fn take(&mut self, level: usize, path: TriePath, age: usize, run: &Arc<Run>) {
        let depth = usize::from(path.depth());
        if self.taken.len() <= depth {
            self.taken.resize_with(depth + 1, Vec::new);
        }
        if let Some(of_level) = self.taken.get_mut(depth) {
            if of_level.len() <= age {
                of_level.resize_with(age + 1, Vec::new);
            }
            if let Some(of_age) = of_level.get_mut(age) {
                of_age.push(Arc::clone(run));
            }
        }
        self.steps.push(Step::RemoveRun { level, path, run: run.id });
    }

    /// Returns what the region is to the partition; in a leveled one the run that is there takes part.
    fn target(&mut self, reached: &Reached) -> Target {
        let Reached { level, path, .. } = *reached;
        let target = target(self.design, self.version, (level, path));
        if target.replaces.is_some() {
            for (age, run) in self.version.runs(path).iter().enumerate() {
                self.take(level, path, age, run);
            }
        }
        target
    }

    /// Describes the runs that take part in the merge, by level.
    pub fn inputs(&self) -> Vec<Part> {
        let levels = self.taken.iter().enumerate();
        let parts = levels.map(|(depth, of_level)| {
            let level = self.version.shown_number(depth as u8);
            let mut part = Part { level: Some(level), ..Part::default() };
            for run in of_level.iter().flatten() {
                part.runs.push(run.id);
                part.tables += run.tables.len() as u64;
                part.entries += run.entries();
                part.bytes += run.bytes();
            }
            part
        });
        parts.filter(|part| !part.runs.is_empty()).collect()
    }
}

/// A store of one region.
struct OneRegion {
    level: usize,
    shape: RegionShape,
}

impl Shape for OneRegion {
    fn level_count(&self) -> usize {
        self.level + 1
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        if level == self.level {
            visit(&self.shape);
        }
    }

    fn is_busy(&self, _: usize, _: TriePath) -> bool {
        false
    }
}
