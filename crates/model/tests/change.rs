//! When a store changes its design: once for one workload, and never to and fro.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use proptest::prelude::*;
use siltstone_design::{Design, presets};
use siltstone_model::advise::{Change, Done, Regret, Request, weigh};
use siltstone_model::price::{Mix, Workload};

const ITEMS: f64 = 1e6;
const MEMORY: u64 = 32 << 20;

fn workload(mix: Mix) -> Workload {
    Workload { items: ITEMS, batch_items: 10.0, mix, ..Workload::default() }
}

fn weighed(workload: Workload, design: &Design) -> Change {
    weigh(&Request::quick(workload, MEMORY), design, (ITEMS, ITEMS * 120.0)).unwrap()
}

/// A store that changes whenever it is told to.
struct Store {
    design: Design,
    regret: Regret,
    changes: usize,
    horizon: f64,
}

impl Store {
    fn new(design: Design, horizon: f64) -> Self {
        Self { design, regret: Regret::default(), changes: 0, horizon }
    }

    fn work(&mut self, workload: Workload, operations: f64) {
        let change = weighed(workload, &self.design);
        if self.regret.note(&change, operations, self.horizon) {
            self.regret.note_change(&change, &self.design);
            self.design = change.design;
            self.changes += 1;
        }
    }
}

/// A design whose leaves have no filters, so small that there are some.
fn lean() -> Design {
    presets::lean().scaled_to(256 << 10)
}

fn reads() -> Workload {
    workload(Mix { hits: 0.1, misses: 0.85, scans: 0.0, puts: 0.05 })
}

fn writes() -> Workload {
    workload(Mix { hits: 0.02, misses: 0.0, scans: 0.0, puts: 0.98 })
}

#[test]
fn workloads_that_alternate_quickly_change_nothing() {
    let (_, start) = presets::all().remove(0);
    let mut store = Store::new(start, 1e9);
    for _ in 0..40 {
        store.work(reads(), 1e6);
    }
    let settled = store.changes;
    // Each phase is too short for staying to cost what changing does.
    let pays = weighed(writes(), &store.design).pays_after();
    for phase in 0..40 {
        let workload = if phase % 2 == 0 { writes() } else { reads() };
        store.work(workload, (pays * 0.5).min(1e6));
    }
    assert_eq!(store.changes, settled);
}

#[test]
fn workloads_that_alternate_slowly_are_followed_ever_less() {
    let mut store = Store::new(lean(), 1e12);
    let mut made = Vec::new();
    for phase in 0..64 {
        let workload = if phase % 2 == 0 { reads() } else { writes() };
        let pays = weighed(workload, &store.design).pays_after();
        let operations = if pays.is_finite() { pays } else { 1e6 };
        for _ in 0..4 {
            store.work(workload, operations);
        }
        made.push(store.changes);
    }
    // The wait doubles with each change, and a phase of one length is soon too short.
    assert!(made[63] <= 4 && made[63] == made[16], "{made:?}");
}

#[test]
fn a_store_that_was_closed_knows_what_it_left() {
    let (change, mut away) = (weighed(reads(), &lean()), weighed(writes(), &lean()));
    let due_after = |regret: &mut Regret| {
        let step = change.pays_after() / 4.0;
        (1..100).find(|_| regret.note(&change, step, 1e12)).unwrap()
    };
    // It went to another design, and back.
    let (lean, other) = (lean(), change.design.clone());
    let changes = [(&lean, &other), (&other, &lean)];
    let mut stayed_open = Regret::default();
    stayed_open.note_change(&change, &lean);
    away.design = lean.clone();
    stayed_open.note_change(&away, &other);
    let mut closed = Regret::after(changes, change.cost_us);
    assert_eq!(due_after(&mut Regret::default()), 4);
    // What the changes have cost is owed, as if it had stayed open.
    assert_eq!(due_after(&mut closed), 11);
    assert_eq!(due_after(&mut stayed_open), 11);
    // Many returns, of which nobody knows how long ago they were, do not tie it down.
    let mut often = Regret::after(changes.repeat(20), change.cost_us);
    assert_eq!(due_after(&mut often), 22);
}

#[test]
fn what_is_nearly_as_good_is_left() {
    // Between the mixes for which two designs are best there is one where they are equally good.
    let best = |share: f64| {
        let mix = Mix { hits: 0.0, misses: share, scans: 0.0, puts: 1.0 - share };
        (workload(mix), weighed(workload(mix), &lean()).design)
    };
    let (mut low, mut high) = (0.0, 1.0);
    let (first, last) = (best(0.0).1, best(1.0).1);
    assert_ne!(first, last);
    for _ in 0..12 {
        let middle = f64::midpoint(low, high);
        if best(middle).1 == first { low = middle } else { high = middle }
    }
    let mut store = Store::new(first, 1e12);
    for step in 0..60 {
        let share = if step % 2 == 0 { low - 0.002 } else { high + 0.002 };
        let mix =
            Mix { hits: 0.0, misses: share.clamp(0.0, 1.0), scans: 0.0, puts: 1.0 - share.clamp(0.0, 1.0) };
        store.work(workload(mix), 1e9);
    }
    assert_eq!(store.changes, 0);
}

#[test]
fn a_change_that_does_not_pay_within_the_horizon_is_not_made() {
    let change = weighed(reads(), &lean());
    assert!(change.saved_share > 0.1);
    let mut regret = Regret::default();
    assert!((0..100).all(|_| !regret.note(&change, 1e9, change.pays_after())));
    assert!(Regret::default().note(&change, 1e9, change.pays_after() * 3.0));
}

/// Misses that read this many times what is expected, and what `change` would have saved of them.
fn judged(change: &Change, times: f64) -> Change {
    let (misses, [_, reads, _]) = (1e5, change.reads);
    let reads = Some([0.0, misses * reads * times, 0.0]);
    change.clone().of(&Done { operations: [0.0, misses, 0.0, 0.0], reads })
}

#[test]
fn what_operations_have_read_says_how_much_staying_costs() {
    let change = weighed(reads(), &lean());
    let as_expected = judged(&change, 1.0);
    assert!(as_expected.saved_share > 0.5);
    let uncounted = Done { operations: [0.0, 1e5, 0.0, 0.0], reads: None };
    assert!((change.clone().of(&uncounted).saved_us - as_expected.saved_us).abs() < 1e-9);
    // Fuller levels cost what they read, and the other design's need not be as full.
    let fuller = judged(&change, 1.5);
    let more = 0.5 * change.reads[1] * change.us_per_read;
    assert!((fuller.saved_us - as_expected.saved_us - more).abs() < 1e-6);
    assert!((fuller.saved_share - as_expected.saved_share).abs() < 1e-9);
    // Emptier ones save as large a part of less, as long as they cost more than the other would.
    let emptier = judged(&change, 0.8);
    let part = as_expected.saved_us / as_expected.present_us;
    assert!((emptier.saved_us - part * emptier.present_us).abs() < 1e-6);
    assert!(emptier.saved_share < as_expected.saved_share);
    // A cold cache is no reason to believe anything.
    assert!((judged(&change, 100.0).present_us - 2.0 * as_expected.present_us).abs() < 1e-6);
}

#[test]
fn a_store_that_does_better_than_expected_stays() {
    // The model expects the other design to save 15 % of what is read half as often as it expects.
    let mut change = weighed(reads(), &lean());
    change.changed.miss = change.present.miss * 0.85;
    let (done, mut regret) = (judged(&change, 0.5), Regret::default());
    assert!(judged(&change, 1.0).saved_share > 0.1 && done.saved_share < 0.0);
    assert!((0..100).all(|_| !regret.note(&done, 1e6, 1e12)));
    let mut regret = Regret::default();
    assert!((0..100).any(|_| regret.note(&judged(&change, 1.0), 1e6, 1e12)));
}

#[test]
fn a_change_is_better_than_another_where_it_saves_clearly_more() {
    let change = weighed(reads(), &lean());
    let after = change.present_us - change.saved_us;
    let saves_more = |by: f64| {
        let mut other = change.clone();
        other.saved_us += by * after;
        other
    };
    assert!(saves_more(0.06).is_better_than(&change));
    assert!(!saves_more(0.04).is_better_than(&change) && !change.is_better_than(&change));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn one_workload_leads_to_one_change_at_most(
        shares in prop::array::uniform3(0.0f64..1.0),
        skew in prop::sample::select(vec![0.0, 0.99]),
        changed in prop::sample::select(vec![0.0, 1.0]),
        preset in 0usize..7,
        operations in 1e5f64..1e9,
    ) {
        let [hits, misses, puts] = shares;
        let mix = Mix { hits: hits + 0.01, misses, scans: 0.0, puts };
        let workload = Workload { skew, overwrites: changed * ITEMS, ..workload(mix) };
        let all = presets::all();
        let (_, design) = all[preset % all.len()].clone();
        let mut store = Store::new(design, 1e11);
        for _ in 0..12 {
            store.work(workload, operations);
        }
        prop_assert!(store.changes <= 1, "{} changes", store.changes);
    }
}
