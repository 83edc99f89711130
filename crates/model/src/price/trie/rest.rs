//! How a store that is filled as sizes comes to rest: the planner's tasks are done until there is none.
//!
//! What there is to do about a region depends on the region alone. So each is looked at once after it has
//! changed, rather than before every task. Only where the store is crowded is the planner shown all of it
//! each time.

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
    /// Tasks that were looked for in a crowded store.
    #[cfg(test)]
    crowded: usize,
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
            self.looked_at += self.work_of_task(is_crowded);
            let found = if is_crowded { self.planned() } else { self.most_urgent() };
            #[cfg(test)]
            {
                assert_eq!(found, self.planned(), "what all regions need is known");
                self.unrest.crowded += usize::from(is_crowded);
            }
            let Some((number, task)) = found else { break };
            self.execute(number, &task);
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

    /// What finding the next task counts as work: regions that the planner would be shown for it.
    fn work_of_task(&self, is_crowded: bool) -> f64 {
        let all = || self.levels.iter().map(Vec::len).sum();
        let shown: usize = if is_crowded { all() } else { self.unrest.changed.len() };
        shown as f64 + 1.0
    }

    /// The task that the planner finds among all regions, with the number of its region.
    fn planned(&self) -> Option<(usize, Task)> {
        let task = plan(self.design(), self)?;
        let (level, path) = task.region();
        let number = self.levels.get(level)?.iter().position(|region| region.shape.path == path)?;
        Some((number, task))
    }

    /// The same of a store that is not crowded, from what is known of each region: of tasks that are as
    /// urgent the one of the upper level, and then of the region that has been there for longer.
    fn most_urgent(&mut self) -> Option<(usize, Task)> {
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
        most.map(|(need, _, number)| (number, need.task))
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
        let filled = Workload { items: 2e6, ..Workload::default() };
        let workloads = [
            filled,
            Workload { overwrites: 2e6, deletes: 1e5, ..filled },
            Workload { overwrites: 4e6, skew: 0.99, ..filled },
            Workload { expires_after_puts: Some(5e5), ..filled },
        ];
        let mut crowded = 0;
        for workload in workloads {
            let keys = Keys::of(&workload).expect("a workload");
            for (name, preset) in presets::all() {
                for (followed, fill_at_once, moments) in [(32, 1.0, 1), (8, 4.0, 6)] {
                    let effort = Effort { followed, fill_at_once, moments, most_looked_at: f64::INFINITY };
                    let design = preset.scaled_to(1 << 18);
                    let trie = Trie::filled(&design, &workload, &keys, effort).expect(name);
                    assert!(trie.looked_at() > 100.0, "{name}");
                    crowded += trie.unrest.crowded;
                }
            }
        }
        assert!(crowded > 0);
    }
}
