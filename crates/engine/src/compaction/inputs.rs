//! What a compaction reads.
//!
//! Beside its region's own runs these are the runs of the children that are to hold one, and, while a
//! redesign is under way, those of outgoing levels that lie on the way, or of all levels below a region that
//! takes them in.

use super::work::Amount;
use crate::entry::PrefixTombstones;
use crate::version::edit::Step;
use crate::version::level::Level;
use crate::version::{Run, Version};
use siltstone_design::redesign::level_below;
use siltstone_design::{Task, TriePath};
use std::sync::Arc;

/// The runs that a task reads, fixed when it is planned: later runs may join the region's runs meanwhile.
pub(crate) struct Inputs {
    level: usize,
    path: TriePath,
    /// The region's own, newest first.
    pub own: Vec<Arc<Run>>,
    /// Those from below, newer ones first.
    pub below: Vec<RunsBelow>,
}

/// Runs of one age of one level, in digest order.
pub(crate) struct RunsBelow {
    /// The number by which users know the level.
    pub level: usize,
    /// Their regions.
    pub paths: Vec<TriePath>,
    pub runs: Vec<Arc<Run>>,
    /// Whether these are older than all that the task makes room for: the children's own.
    pub are_residents: bool,
}

impl Inputs {
    /// Returns what `task` reads of `version`, which it was planned for.
    pub fn of(version: &Version, task: &Task) -> Self {
        let (level, path) = task.region();
        let runs = version.runs(path);
        let mut below = Vec::new();
        let own = match *task {
            Task::Push { runs: oldest, .. } | Task::Split { runs: oldest, .. } => {
                let number = level_below(&version.design, path);
                let depth = version.design.depth(number);
                let outgoing = version.outgoing_between(path.depth(), depth);
                below.extend(outgoing.flat_map(|level| by_age(version, level, path, false)));
                if version.design.level(number).runs == 1 {
                    let children = version.level_at(depth);
                    below.extend(children.into_iter().flat_map(|level| by_age(version, level, path, true)));
                }
                runs.get(runs.len().saturating_sub(oldest)..)
            }
            Task::Rewrite { newest, .. } => runs.get(..newest.min(runs.len())),
            Task::Drop { oldest, .. } => runs.get(runs.len().saturating_sub(oldest)..),
            Task::Gather { .. } => {
                let deeper = version.levels.iter().filter(|level| level.depth > path.depth());
                below.extend(deeper.flat_map(|level| by_age(version, level, path, false)));
                Some(runs)
            }
        };
        Self { level, path, own: own.unwrap_or(&[]).to_vec(), below }
    }

    /// Returns the regions whose runs the task reads or replaces, which nobody else may work on; those that
    /// do not exist yet and are to hold one run among them.
    pub fn regions(version: &Version, task: &Task) -> Vec<TriePath> {
        let path = task.region().1;
        let mut regions = vec![path];
        regions.extend(Self::of(version, task).below.into_iter().flat_map(|runs| runs.paths));
        if let Task::Push { .. } | Task::Split { .. } = task {
            let number = level_below(&version.design, path);
            if version.design.level(number).runs == 1 {
                let depth = version.design.depth(number);
                regions.extend(siltstone_design::plan::descendants(path, depth));
            }
        }
        regions
    }

    /// Returns the steps that take them from their regions.
    pub fn removals(&self) -> impl Iterator<Item = Step> {
        let Self { level, path, .. } = *self;
        let own = self.own.iter().map(move |run| Step::RemoveRun { level, path, run: run.id });
        let below = self.below.iter().flat_map(|below| {
            let regions = below.paths.iter().zip(&below.runs);
            regions.map(|(path, run)| Step::RemoveRun { level: below.level, path: *path, run: run.id })
        });
        own.chain(below)
    }

    /// Returns how many entries there are in all, and how many of them in the runs that are older than the
    /// others: what lies in the regions that they go to, or the last of their region's own.
    pub fn entries(&self) -> (u64, u64) {
        let count = |runs: &[Arc<Run>]| -> u64 { runs.iter().map(|run| run.entries()).sum() };
        let below: u64 = self.below.iter().map(|below| count(&below.runs)).sum();
        let residents: u64 =
            self.below.iter().filter(|below| below.are_residents).map(|below| count(&below.runs)).sum();
        let oldest =
            if self.below.is_empty() { self.own.last().map_or(0, |run| run.entries()) } else { residents };
        (count(&self.own) + below, oldest)
    }

    /// Returns about how much comes to the regions that they go to.
    pub fn amount(&self) -> Amount {
        let below = self.below.iter().filter(|below| !below.are_residents).flat_map(|below| &below.runs);
        let mut amount = Amount::default();
        for run in self.own.iter().chain(below) {
            amount = amount.and(Amount { entries: run.entries(), bytes: run.bytes() });
        }
        amount
    }

    /// Returns the prefixes that they delete.
    pub fn tombstones(&self) -> PrefixTombstones {
        let below = self.below.iter().flat_map(|below| &below.runs);
        let runs = self.own.iter().chain(below);
        PrefixTombstones::new(runs.flat_map(|run| run.tombstones.iter().cloned()).collect())
    }
}

/// Returns the runs of `level` below `path`, by age among their region's runs.
fn by_age(version: &Version, level: &Level, path: TriePath, are_residents: bool) -> Vec<RunsBelow> {
    let mut ages: Vec<RunsBelow> = Vec::new();
    for region in level.below(path) {
        for (age, run) in region.runs.iter().enumerate() {
            if ages.len() <= age {
                let level = version.shown_number(level.depth);
                ages.push(RunsBelow { level, paths: Vec::new(), runs: Vec::new(), are_residents });
            }
            if let Some(of_age) = ages.get_mut(age) {
                of_age.paths.push(region.path);
                of_age.runs.push(Arc::clone(run));
            }
        }
    }
    ages
}
