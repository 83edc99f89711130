//! What a keyspace has found out about better designs: when it looked, for which workload, and what came of
//! it.
//!
//! A look costs a search of the model, a tenth of a second or more. So there is one only where the workload
//! has changed since the last, and what a search costs is kept a small share of what operations do. A
//! workload that stays is worth a search among all designs, and not only presets. Whether a change is due is
//! asked more often, by what was done since.

use crate::activity::{Activity, Count};
use siltstone_design::Design;
use siltstone_model::advise::{Change, Done, Regret};
use siltstone_model::price::{Mix, OperationCosts, Workload};
use std::time::Duration;

/// Microseconds that operations take between two looks, at least, since less says nothing of their mix; and
/// what a change is taken to cost at least.
const LEAST_US: f64 = 2.5e5;
/// The part of what a change costs that operations take between two looks,
const CHANGE_PER_LOOK: f64 = 8.0;
/// and how many times what a search does: a search may take a quarter as long as what it follows.
const WORK_PER_SEARCH: f64 = 4.0;
/// How many times what a search among presets takes one among all designs does, about.
const FULL_SEARCH: f64 = 32.0;
/// Gets whose reads say something of how skewed they are.
const LEAST_GETS: f64 = 4096.0;
/// What a change has to save for a look to have found that the present design does not suit.
const LEAST_SAVED: f64 = 0.1;
/// What operations are taken to cost before the model was asked.
const USUAL: OperationCosts = OperationCosts { hit: 20.0, miss: 10.0, scan: 200.0, put: 4.0 };
/// By which share workloads may differ that are alike, and by how much their skews and what was overwritten
/// for each item may.
const ALIKE: f64 = 0.2;
const ALIKE_SKEW: f64 = 0.15;
const ALIKE_CHANGES: f64 = 0.5;
/// By which part of the time costs of operations may be shared out otherwise.
const ALIKE_MIX: f64 = 0.1;

/// How much operations before the last look count beside those since.
const PART_OF_LAST_LOOK: f64 = 0.5;
/// How much of the time of operations is that of the mix some time ago, and of each kind at least, which
/// nobody may count on not to come.
const PART_BEFORE: f64 = 0.1;
const PART_TO_COME: f64 = 0.02;
/// The part by which a store has grown that is being filled,
const GROWN: f64 = 1.0 / 8.0;
/// operations for each new item within which it has, at most,
const OPERATIONS_PER_NEW: f64 = 4.0;
/// and how many times its items it is taken to grow to. As far as anyone knows, it is half full.
const GROWS_TO: f64 = 2.0;
/// The share of the time of operations below which puts do not soon move what lies in upper levels.
const FEW_PUTS: f64 = 0.1;

/// What came of looking for a better design.
#[derive(Default)]
pub(crate) struct Considered {
    /// None before the first look.
    regret: Option<Regret>,
    /// What had been counted at the last look.
    counted: Activity,
    /// Operations of late: of each look half as many as of the next count, and looks come after operations
    /// that cost about the same.
    lately: [f64; 4],
    /// Items that there were, and operations that had been counted, when it was seen last whether the store
    /// is being filled; and whether it was.
    grown_from: Option<(f64, f64)>,
    is_filled: bool,
    /// What the model was asked last, and what it said.
    weighed: Option<Weighed>,
}

/// A change that was weighed.
struct Weighed {
    workload: Workload,
    /// How skewed its reads were taken to be.
    read_skew: Option<f64>,
    present: Design,
    budget_bytes: u64,
    change: Change,
    /// Whether it is the best of all designs, and not only of presets.
    is_full: bool,
    /// Seconds that a search among presets takes.
    search_seconds: f64,
    /// Microseconds of operations since.
    worked_us: f64,
    /// Whether a later look found the same workload.
    is_confirmed: bool,
}

/// What was done since the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    done: Done,
    counted: Activity,
}

impl Since {
    pub fn operations(&self) -> f64 {
        self.done.count()
    }

    /// Gets that found an item and gets that found none, and the device reads of all; `None` of few.
    pub fn gets(&self) -> Option<(f64, f64, f64)> {
        let [hits, misses, ..] = self.done.operations;
        let [by_hits, by_misses, _] = self.done.reads.filter(|_| hits + misses >= LEAST_GETS)?;
        Some((hits, misses, by_hits + by_misses))
    }

    /// Whether so little was written that what lies in upper levels would stay there.
    pub fn writes_little(&self) -> bool {
        let [.., puts] = self.done.operations;
        USUAL.of_all([0.0, 0.0, 0.0, puts]) <= FEW_PUTS * USUAL.of_all(self.done.operations)
    }

    /// The same where reads say nothing: prices of a store that grows are means over the way, and what was
    /// read is of now.
    pub fn without_reads(self) -> Self {
        Self { done: Done { reads: None, ..self.done }, ..self }
    }

    /// What a change would have saved of it.
    pub fn judge(&self, change: Change) -> Change {
        let mut judged = change.of(&self.done);
        judged.cost_us = judged.cost_us.max(LEAST_US);
        judged
    }
}

/// Among what to look for a better design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// Nothing: what was found last still holds.
    None,
    Presets,
    AllDesigns,
}

impl Weighed {
    /// Whether operations since have taken so long that another search, of this many times a search among
    /// presets, costs little beside them.
    fn has_time_for(&self, searches: f64, worked_us: f64) -> bool {
        worked_us >= self.search_seconds * searches * 1e6 * WORK_PER_SEARCH
    }

    /// Microseconds of operations since, with those of late.
    fn worked_us_with(&self, since: &Since) -> f64 {
        self.worked_us + self.change.taken_by(&since.done)
    }

    fn read_skew(&self) -> f64 {
        self.read_skew.unwrap_or(self.workload.skew)
    }
}

impl Considered {
    /// What was done since the last look, where that is enough for another.
    pub fn since(&self, counted: &Activity) -> Option<Since> {
        let since = counted.since(&self.counted);
        let count = |count| since.of(count) as f64;
        let writes = count(Count::Puts) + count(Count::Deletes);
        let operations = [count(Count::Hits), count(Count::Misses), count(Count::Scans), writes];
        let reads = [Count::ReadsByHits, Count::ReadsByMisses, Count::ReadsByScans].map(count);
        let since = Since { done: Done { operations, reads: Some(reads) }, counted: *counted };
        let (us, least_us) = match &self.weighed {
            Some(Weighed { change, .. }) => (change.taken_by(&since.done), change.cost_us / CHANGE_PER_LOOK),
            None => (USUAL.of_all(operations), 0.0),
        };
        (us >= least_us.max(LEAST_US)).then_some(since)
    }

    /// The mix that a design has to suit: mostly that of late, with some of what was `before` and a little of
    /// what may come. Of those who only write, most will read. Parts are parts of the time that operations
    /// usually take: a scan takes as long as fifty puts.
    pub fn mix(&self, since: &Since, before: &Mix, lists_groups: bool) -> Mix {
        let scans_to_come = if lists_groups { PART_TO_COME } else { 0.0 };
        let to_come = [PART_TO_COME, PART_TO_COME, scans_to_come, PART_TO_COME];
        let rest = 1.0 - PART_BEFORE - to_come.iter().sum::<f64>();
        let mut mix = shares_of_time(self.with(since), &USUAL).map(|share| rest * share);
        let before = shares_of_time(before.shares(), &USUAL).map(|share| PART_BEFORE * share);
        for (((time, before), to_come), us) in mix.iter_mut().zip(before).zip(to_come).zip(USUAL.all()) {
            *time = (*time + before + to_come) / us;
        }
        let [hits, misses, scans, puts] = mix;
        Mix { hits, misses, scans, puts }.normalized()
    }

    /// Operations of late, those since the last look among them.
    fn with(&self, since: &Since) -> [f64; 4] {
        let mut all = since.done.operations;
        all.iter_mut().zip(self.lately).for_each(|(now, before)| *now += before * PART_OF_LAST_LOOK);
        all
    }

    /// Whether so much was done since the model was asked last that another search costs little beside it.
    pub fn has_time_to_search(&self, since: &Since) -> bool {
        self.weighed.as_ref().is_none_or(|weighed| weighed.has_time_for(1.0, weighed.worked_us_with(since)))
    }

    /// What the model has to be asked, where what was weighed last says nothing of this, or not enough;
    /// `None` where it is too early to ask it again. How skewed reads are is part of the workload, where
    /// `read_skew` knows it.
    pub fn search(
        &self,
        since: &Since,
        (workload, read_skew): (&Workload, Option<f64>),
        (present, budget_bytes): (&Design, u64),
    ) -> Option<Search> {
        let Some(weighed) = &self.weighed else { return Some(Search::Presets) };
        let worked_us = weighed.worked_us_with(since);
        let has_room = (weighed.budget_bytes as f64 / budget_bytes.max(1) as f64 - 1.0).abs() <= ALIKE;
        let is_as_skewed = read_skew.is_none_or(|skew| (weighed.read_skew() - skew).abs() <= ALIKE_SKEW);
        if has_room
            && is_as_skewed
            && weighed.present == *present
            && are_alike(&weighed.workload, workload, &weighed.change.present)
        {
            let is_due = !weighed.is_full && weighed.has_time_for(FULL_SEARCH, worked_us);
            return Some(if is_due { Search::AllDesigns } else { Search::None });
        }
        self.has_time_to_search(since).then_some(Search::Presets)
    }

    /// How many items there will be in a store that is being filled and has so many; `None` in others.
    pub fn items_at_end(&mut self, since: &Since, items: f64) -> Option<f64> {
        let now = since.counted.operations() as f64;
        let (before, counted) = *self.grown_from.get_or_insert((items, now));
        let has_grown = items >= before * (1.0 + GROWN);
        let most = |new: f64| now - counted <= new * OPERATIONS_PER_NEW;
        if has_grown || !most(items * GROWN) {
            self.is_filled = has_grown && most(items - before);
            self.grown_from = Some((items, now));
        }
        let [hits, misses, scans, puts] = since.done.operations;
        (self.is_filled && puts >= hits + misses + scans).then_some(items * GROWS_TO)
    }

    /// How skewed reads were taken to be when the model was asked last.
    pub fn read_skew(&self) -> Option<f64> {
        self.weighed.as_ref()?.read_skew
    }

    /// Takes note of what the model said of a workload whose reads were taken to be so skewed.
    pub fn note_search(
        &mut self,
        (workload, read_skew): (Workload, Option<f64>),
        (present, budget_bytes): (Design, u64),
        mut change: Change,
        (search, took): (Search, Duration),
    ) {
        change.cost_us = change.cost_us.max(LEAST_US);
        let is_full = search == Search::AllDesigns;
        // What two looks have found, in a workload that changes still, is no accident.
        let is_confirmed = self
            .weighed
            .as_ref()
            .is_some_and(|before| before.present == present && before.change.saved_share >= LEAST_SAVED);
        self.weighed = Some(Weighed {
            workload,
            read_skew,
            present,
            budget_bytes,
            change,
            is_full,
            search_seconds: took.as_secs_f64() / if is_full { FULL_SEARCH } else { 1.0 },
            worked_us: 0.0,
            is_confirmed,
        });
    }

    /// Takes note of what was done, and returns the change that was weighed last and whether it is due, where
    /// it has to pay within so many operations. Of a workload that begins, another look has to show that it
    /// stays.
    pub fn note(&mut self, since: &Since, horizon: f64) -> Option<(Change, bool)> {
        self.skip(since.counted);
        self.lately = self.with(since);
        let (weighed, regret) = (self.weighed.as_mut()?, self.regret.get_or_insert_default());
        weighed.worked_us = weighed.worked_us_with(since);
        let change = since.judge(weighed.change.clone());
        let is_due = regret.note(&change, since.operations(), horizon) && weighed.is_confirmed;
        weighed.is_confirmed = true;
        Some((change, is_due))
    }

    /// Takes note of the changes that the keyspace made by itself before it was opened, where this is the
    /// first look.
    pub fn recall<'a>(&mut self, changes: impl IntoIterator<Item = (&'a Design, &'a Design)>, cost_us: f64) {
        self.regret.get_or_insert_with(|| Regret::after(changes, cost_us.max(LEAST_US)));
    }

    /// Takes note that a change was made, away from a design.
    pub fn note_change(&mut self, change: &Change, from: &Design) {
        self.regret.get_or_insert_default().note_change(change, from);
    }

    /// Whether a change costs so much that a search of all designs for it costs little beside it.
    pub fn has_time_for_more(&self) -> bool {
        self.weighed.as_ref().is_some_and(|weighed| {
            !weighed.is_full && weighed.has_time_for(FULL_SEARCH, weighed.change.cost_us)
        })
    }

    /// Leaves out what has been done until now.
    pub fn skip(&mut self, counted: Activity) {
        self.counted = counted;
    }
}

/// The shares of the time of so many operations that each kind takes, where they cost so much.
fn shares_of_time(mut operations: [f64; 4], costs: &OperationCosts) -> [f64; 4] {
    let all = costs.of_all(operations).max(f64::MIN_POSITIVE);
    operations.iter_mut().zip(costs.all()).for_each(|(operations, cost)| *operations *= cost / all);
    operations
}

/// Whether two workloads are so much alike that they want the same design, where operations of the first cost
/// so much.
fn are_alike(one: &Workload, other: &Workload, costs: &OperationCosts) -> bool {
    let near = |of: fn(&Workload) -> f64| {
        let (one, other) = (of(one), of(other));
        (one - other).abs() <= ALIKE * one.max(other)
    };
    let within = |most: f64, of: fn(&Workload) -> f64| (of(one) - of(other)).abs() <= most;
    let time = |workload: &Workload| shares_of_time(workload.mix.shares(), costs);
    let moved: f64 = time(one).iter().zip(time(other)).map(|(a, b)| (a - b).abs()).sum();
    moved <= 2.0 * ALIKE_MIX
        && near(|workload| workload.items)
        && near(Workload::item_bytes)
        && near(|workload| workload.group_items)
        && within(ALIKE_SKEW, |workload| workload.skew)
        && within(ALIKE_CHANGES, |workload| workload.overwrites / workload.items.max(1.0))
        && within(ALIKE_CHANGES / 2.0, |workload| workload.deletes / workload.items.max(1.0))
        && one.expires_after_puts.is_some() == other.expires_after_puts.is_some()
        && one.items_at_end.is_some() == other.items_at_end.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_design::presets;

    const BUDGET_BYTES: u64 = 1 << 20;

    fn since(operations: [f64; 4]) -> Since {
        Since { done: Done { operations, reads: None }, counted: Activity::default() }
    }

    /// A change away from `siltstone` that saves a share of what operations cost.
    fn change(saved_share: f64) -> Change {
        let request = siltstone_model::advise::Request::quick(Workload::default(), 1 << 26);
        let mut change = siltstone_model::advise::weigh(&request, &presets::siltstone(), (1e6, 1e8)).unwrap();
        change.present = OperationCosts { hit: 20.0, miss: 1.0, scan: 100.0, put: 2.0 };
        change.changed = OperationCosts { hit: 20.0 * (1.0 - saved_share), ..change.present };
        change.of(&Done { operations: [1.0, 0.0, 0.0, 0.0], reads: None })
    }

    fn asked(
        considered: &Considered,
        gets: f64,
        workload: &Workload,
        read_skew: Option<f64>,
    ) -> Option<Search> {
        let at = (&presets::siltstone(), BUDGET_BYTES);
        considered.search(&since([gets, 0.0, 0.0, 0.0]), (workload, read_skew), at)
    }

    fn note(considered: &mut Considered, workload: Workload, saved_share: f64, search: Search) {
        let (at, took) = ((presets::siltstone(), BUDGET_BYTES), Duration::from_millis(100));
        considered.note_search((workload, None), at, change(saved_share), (search, took));
    }

    #[test]
    fn a_workload_that_stays_is_searched_once_more_and_in_full() {
        let mut considered = Considered::default();
        let skewed = Workload { skew: 0.99, ..Workload::default() };
        assert_eq!(asked(&considered, 1.0, &skewed, None), Some(Search::Presets));
        note(&mut considered, skewed, 0.0, Search::Presets);
        // A search takes 0.1 s and one of all designs three: some times as much work has to lie between,
        // of gets of 20 us.
        let for_presets = 0.1 * WORK_PER_SEARCH / 20e-6;
        let for_all = for_presets * FULL_SEARCH;
        assert_eq!(asked(&considered, for_all * 0.9, &skewed, None), Some(Search::None));
        assert_eq!(asked(&considered, for_all * 1.1, &skewed, None), Some(Search::AllDesigns));
        // Reads turn out to be spread evenly.
        assert_eq!(asked(&considered, for_presets * 1.1, &skewed, Some(0.0)), Some(Search::Presets));
        assert_eq!(asked(&considered, for_presets * 0.9, &skewed, Some(0.0)), None);
        note(&mut considered, skewed, 0.0, Search::AllDesigns);
        assert_eq!(asked(&considered, 1e9, &skewed, None), Some(Search::None));
    }

    #[test]
    fn two_looks_that_find_the_design_wanting_confirm_each_other() {
        for (first, is_due) in [(0.0, false), (0.5, true)] {
            let mut considered = Considered::default();
            note(&mut considered, Workload::default(), first, Search::Presets);
            let other = Workload { items: 1e9, ..Workload::default() };
            note(&mut considered, other, 0.5, Search::Presets);
            let (_, due) = considered.note(&since([1e7, 0.0, 0.0, 0.0]), 1e9).unwrap();
            assert_eq!(due, is_due, "{first}");
        }
    }

    #[test]
    fn a_store_that_is_filled_is_taken_to_grow() {
        let mut counted = Activity::default();
        let mut considered = Considered::default();
        let mut grows = |count: Count, operations: u64, items: f64| {
            counted.add(count, operations);
            let mut of_kind = [0.0; 4];
            let [gets, .., puts] = &mut of_kind;
            *if count == Count::Hits { gets } else { puts } = operations as f64;
            let since = Since { done: Done { operations: of_kind, reads: None }, counted };
            considered.items_at_end(&since, items)
        };
        assert_eq!(grows(Count::Puts, 20_000, 100_000.0), None, "what it had before is not known");
        assert_eq!(grows(Count::Puts, 50_000, 150_000.0), Some(300_000.0));
        assert_eq!(grows(Count::Puts, 10_000, 160_000.0), Some(320_000.0), "too early to say otherwise");
        // Whoever reads is not filling it, and overwriting makes it no larger.
        assert_eq!(grows(Count::Hits, 20_000, 160_000.0), None);
        assert_eq!(grows(Count::Puts, 160_000, 160_000.0), None);
        assert_eq!(grows(Count::Puts, 20_000, 180_000.0), Some(360_000.0));
        // What comes to an eighth more once in a while is no filling.
        for round in 1..9 {
            let items = 180_000.0 * 1.13_f64.powi(round);
            assert_eq!(grows(Count::Puts, 200_000 * round as u64, items), None, "{round}");
        }
    }
}
