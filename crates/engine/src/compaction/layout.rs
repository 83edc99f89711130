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

use super::work::{Amount, Target};
use crate::events::Part;
use crate::version::edit::Step;
use crate::version::{Run, Version};
use siltstone_design::plan::{children, plan};
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
    /// The runs that take part in the merge: by level, and by age among their region's runs.
    pub taken: Vec<Vec<Vec<Arc<Run>>>>,
}

impl<'a> Layout<'a> {
    pub fn new(design: &'a Design, version: &'a Version) -> Self {
        let mut layout = Self { design, version, reached: Vec::new(), steps: Vec::new(), taken: Vec::new() };
        let depth = design.depth(0);
        let top = (0..1u64 << depth).rev();
        layout.reached.extend(top.map(|n| Reached {
            level: 0,
            path: TriePath::of(if depth == 0 { 0 } else { n << (64 - depth) }, depth),
            carried: Amount::default(),
        }));
        layout
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

    fn runs(&self, level: usize, path: TriePath) -> &'a [Arc<Run>] {
        let region = self.version.levels.get(level).and_then(|level| level.region(path));
        region.map_or(&[], |region| &region.runs)
    }

    fn pushes(&self, level: usize, path: TriePath) -> u64 {
        self.version.levels.get(level).and_then(|level| level.region(path)).map_or(0, |region| region.pushes)
    }

    /// Whether the planner would push or split the region if it had `share` on top.
    fn goes_on(&self, reached: &Reached, share: Amount, sizes: &dyn Sizes) -> bool {
        let Reached { level, path, .. } = *reached;
        if share.entries == 0 {
            return false;
        }
        let resident = self.runs(level, path).iter().map(|run| (run.bytes(), run.entries()));
        let mut runs: Vec<RunShape> = std::iter::once((share.bytes, share.entries))
            .chain(resident)
            .map(|(bytes, entries)| RunShape { bytes, entries })
            .collect();
        if self.design.level(level).runs == 1 {
            let sum = |of: fn(&RunShape) -> u64| runs.iter().map(of).sum();
            runs = vec![RunShape { bytes: sum(|run| run.bytes), entries: sum(|run| run.entries) }];
        }
        let region = self.version.levels.get(level).and_then(|level| level.region(path));
        let group = region.map_or(0, |region| region.shape.largest_group_bytes);
        let shape = RegionShape {
            path,
            runs,
            pushes: self.pushes(level, path),
            has_children: self.version.has_children(level, path),
            largest_group_bytes: group.max(sizes.largest_group_bytes(path)),
            dead_bytes: Vec::new(),
        };
        let task = plan(self.design, &OneRegion { level, shape });
        matches!(task, Some(Task::Push { .. } | Task::Split { .. }))
    }

    /// Goes on to the children of a region, with the runs that lie there.
    fn pass(&mut self, reached: &Reached) {
        let Reached { level, path, carried } = *reached;
        self.steps.push(Step::Pushed { level, path, pushes: self.pushes(level, path) + 1 });
        let runs = self.runs(level, path);
        let mut comes = carried;
        for (age, run) in runs.iter().enumerate() {
            comes = comes.and(Amount { entries: run.entries(), bytes: run.bytes() });
            self.take(level, path, age, run);
        }
        let below: Vec<TriePath> = children(self.design, level, path).collect();
        let carried = comes.per_target(below.len());
        let reached = below.into_iter().rev().map(|path| Reached { level: level + 1, path, carried });
        self.reached.extend(reached);
    }

    /// Lets a run take part in the merge, and leave its region.
    fn take(&mut self, level: usize, path: TriePath, age: usize, run: &Arc<Run>) {
        if self.taken.len() <= level {
            self.taken.resize_with(level + 1, Vec::new);
        }
        if let Some(of_level) = self.taken.get_mut(level) {
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
        let resident = self.runs(level, path).first();
        let merged = resident.filter(|_| self.design.level(level).runs == 1);
        let bottom = (merged.is_some() || resident.is_none()) && !self.version.has_data_below(level, path);
        if let Some(run) = merged {
            self.take(level, path, 0, run);
        }
        let merged_run = merged.map(|run| run.id);
        Target { level, path, merged_run, bottom, replaces: merged_run }
    }

    /// Describes the runs that take part in the merge, by level.
    pub fn inputs(&self) -> Vec<Part> {
        let levels = self.taken.iter().enumerate();
        let parts = levels.map(|(level, of_level)| {
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
