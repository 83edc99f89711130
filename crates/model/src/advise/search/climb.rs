//! Climbs: from a seed, one change at a time as long as it helps.
//!
//! A round of all changes takes a tenth of what a search may do. So a climb goes on with the changes that
//! helped in the round before, and tries all again once none of these does: don't-look bits (Bentley, ORSA
//! Journal on Computing 1992).

use super::super::moves::{self, Move};
use super::{Candidate, Search, firsts_and_others};
use siltstone_design::Design;

/// Climbs that are begun together.
const FIRST_CLIMBS: usize = 6;
/// The least that a round of changes has to save for another.
const LEAST_SAVING: f64 = 1e-3;

/// A design that is being changed.
struct Climb {
    best: Candidate,
    /// The changes that helped in the round before; `None` where all are to be tried.
    helped: Option<Vec<Move>>,
}

impl Search<'_> {
    /// Changes filters of the first starts, then all of most of them, and after each round of the better
    /// half; the others once no change of the last one helps, and then further starts, as far as there is
    /// work left.
    pub fn change_the_best(&mut self) {
        let mut starts = self.starts().into_iter();
        let mut climbing: Vec<Climb> =
            starts.by_ref().take(FIRST_CLIMBS).filter_map(|at| self.begin(at)).collect();
        let mut waiting = Vec::new();
        // Filters take no other store, so that they soon tell starts apart; but not where a price is of
        // several sizes.
        if self.pricer.sizes_at_once() == 1.0 {
            climbing.iter_mut().for_each(|climb| self.change_filters(climb));
            let kept = (climbing.len() * 2).div_ceil(3);
            waiting.extend(set_aside(&mut climbing, kept));
        }
        loop {
            climbing.retain_mut(|climb| self.change(climb));
            let kept = climbing.len().div_ceil(2);
            waiting.extend(set_aside(&mut climbing, kept));
            if climbing.is_empty() {
                waiting.sort_by(|a, b| b.best.objective.total_cmp(&a.best.objective));
                climbing.extend(waiting.pop().or_else(|| starts.find_map(|at| self.begin(at))));
            }
            if climbing.is_empty() || self.work > self.most_work {
                return;
            }
        }
    }

    /// The places of what is changed first: the best that was made of each preset, and then others, the best
    /// first. Sizes of one preset end in much the same place.
    fn starts(&self) -> Vec<usize> {
        let origin = |at: usize| self.accepted.get(at).map(|candidate| candidate.origin);
        let (mut starts, others) = firsts_and_others(self.ranked(), origin);
        starts.extend(others);
        starts
    }

    fn begin(&self, at: usize) -> Option<Climb> {
        self.accepted.get(at).map(|start| Climb { best: start.clone(), helped: None })
    }

    /// Takes each change that helps, of those that helped in the round before or of all, and goes on with the
    /// next from there. Says whether another round may help.
    fn change(&mut self, climb: &mut Climb) -> bool {
        let before = climb.best.objective;
        let last = climb.helped.take();
        let is_tried = |of: &Move| last.as_ref().is_none_or(|last| last.contains(of));
        let of_filters = moves::of_filters(&climb.best.design);
        let mut helped = self.take(climb, of_filters, is_tried);
        let of_structure = moves::of_structure(&climb.best.design, &self.request.workload);
        helped.extend(self.take(climb, of_structure, is_tried));
        let has_helped = climb.best.objective <= before * (1.0 - LEAST_SAVING);
        climb.helped = has_helped.then_some(helped);
        has_helped || last.is_some()
    }

    fn change_filters(&mut self, climb: &mut Climb) {
        let of_filters = moves::of_filters(&climb.best.design);
        self.take(climb, of_filters, |_| true);
    }

    /// Takes each of `changes` that is to be tried and helps, and returns which did.
    fn take(
        &mut self,
        climb: &mut Climb,
        changes: Vec<(Move, Design)>,
        is_tried: impl Fn(&Move) -> bool,
    ) -> Vec<Move> {
        let mut helped = Vec::new();
        for (of, changed) in changes {
            if is_tried(&of) && self.try_change(&mut climb.best, &changed) {
                helped.push(of);
            }
        }
        helped
    }

    /// Goes on with a design where it is better, and says whether it is.
    fn try_change(&mut self, best: &mut Candidate, changed: &Design) -> bool {
        let at = self.consider(changed, best.origin);
        let better = at.and_then(|at| self.accepted.get(at));
        let better =
            better.filter(|changed| changed.objective < best.objective * (1.0 - LEAST_SAVING / 10.0));
        better.map(|better| *best = better.clone()).is_some()
    }
}

/// Leaves so many of the best, and returns the others.
fn set_aside(climbing: &mut Vec<Climb>, kept: usize) -> Vec<Climb> {
    climbing.sort_by(|a, b| a.best.objective.total_cmp(&b.best.objective));
    climbing.split_off(kept.min(climbing.len()))
}
