//! When a store changes its design: once for one workload, and never to and fro.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use proptest::prelude::*;
use siltstone_design::{Design, presets};
use siltstone_model::advise::{Change, Regret, Request, weigh};
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
