//! How a store that is filled as sizes comes to rest: the planner's tasks are done until there is none.
//!
//! What there is to do about a region depends on the region alone, but where the store is crowded. So each is
//! looked at once after it has changed, rather than before every task, unless the store is crowded: then the
//! planner is shown all of it each time.

use super::Trie;
use crate::ModelError;
use siltstone_design::Task;
use siltstone_design::plan::{Need, need, plan};

/// Compactions after one flush, of some hundred regions that are followed, from which on there is no rest.
const MOST_TASKS: usize = 100_000;

/// A region that has changed since the store came to rest.
#[derive(Clone, Debug)]
struct Changed {
    level: usize,
    number: usize,
    found: Found,
}

/// What the planner has found that a region needs, as it is.
#[derive(Clone, Debug)]
enum Found {
    NotAsked,
    Nothing,
    Needs(Need),
}

/// The regions that have changed since the store came to rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Unrest {
    changed: Vec<Changed>,
}

impl Trie {
    /// Notes that a region has changed.
    pub(super) fn note_changed(&mut self, level: usize, number: usize) {
        let next = self.unrest.changed.len();
        let place = *self.region_mut(level, number).changed_at.get_or_insert(next);
        match self.unrest.changed.get_mut(place) {
            Some(changed) => changed.found = Found::NotAsked,
            None => self.unrest.changed.push(Changed { level, number, found: Found::NotAsked }),
        }
    }

    /// Does all that the planner finds to do.
    pub(super) fn come_to_rest(&mut self) -> Result<(), ModelError> {
        let mut done = 0;
        loop {
            let is_crowded = self.is_crowded();
            self.looked_at += self.looks(is_crowded);
            let task = if is_crowded { plan(self.design(), &*self) } else { self.most_urgent() };
            #[cfg(test)]
            assert_eq!(task, plan(self.design(), &*self), "what all regions need is known");
            let Some(task) = task else { break };
            self.execute(&task);
            done += 1;
            if done > MOST_TASKS {
                let what = format!("{done} compactions after one flush, the last {task:?}; please report it");
                return Err(ModelError::new("design", what));
            }
        }
        let mut changed = std::mem::take(&mut self.unrest.changed);
        for Changed { level, number, .. } in changed.drain(..) {
            self.region_mut(level, number).changed_at = None;
        }
        self.unrest.changed = changed;
        self.was_crowded = self.is_crowded();
        Ok(())
    }

    /// How many regions are looked at for the next task, those that are known to need nothing included.
    fn looks(&self, is_crowded: bool) -> f64 {
        let all = || self.levels.iter().map(Vec::len).sum();
        let shown: usize = if is_crowded { all() } else { self.unrest.changed.len() };
        shown as f64 + 1.0
    }

    /// The most urgent task of a store that is not crowded, as [`plan`] finds it among all regions: of tasks
    /// that are as urgent the one of the upper level, and then of the region that has been there for longer.
    fn most_urgent(&mut self) -> Option<Task> {
        let design = self.layout.design();
        for changed in &mut self.unrest.changed {
            if matches!(changed.found, Found::NotAsked) {
                let region = self.levels.get(changed.level)?.get(changed.number)?;
                let needed = need(design, changed.level, &region.shape);
                changed.found = needed.map_or(Found::Nothing, Found::Needs);
            }
        }
        let needs = self.unrest.changed.iter().filter_map(|changed| match &changed.found {
            Found::Needs(need) => Some((need, changed.level, changed.number)),
            Found::Nothing | Found::NotAsked => None,
        });
        let most = needs.min_by(|(a, level_a, number_a), (b, level_b, number_b)| {
            b.urgency.total_cmp(&a.urgency).then((level_a, number_a).cmp(&(level_b, number_b)))
        });
        most.map(|(need, ..)| need.task)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Effort;
    use super::*;
    use crate::price::puts::Keys;
    use crate::price::workload::Workload;
    use siltstone_design::presets;

    /// Under test, [`Trie::come_to_rest`] compares each task with the one that the planner finds.
    #[test]
    fn the_most_urgent_task_is_the_one_that_the_planner_finds() {
        let workload = Workload { items: 2e6, overwrites: 2e6, deletes: 1e5, ..Workload::default() };
        let keys = Keys::of(&workload).expect("a workload");
        for (name, preset) in presets::all() {
            let design = preset.scaled_to(1 << 18);
            let effort =
                Effort { followed: 32, fill_at_once: 1.0, moments: 1, most_looked_at: f64::INFINITY };
            let trie = Trie::filled(&design, &workload, &keys, effort).expect(name);
            assert!(trie.looked_at() > 1000.0, "{name}");
        }
    }
}
