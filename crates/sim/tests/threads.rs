//! Threads under a scheduler: whole stores, whose every interleaving follows from a seed. Built with
//! `RUSTFLAGS="--cfg siltstone_shuttle"` alone; see "Threads" in docs/testing.md.
#![cfg(siltstone_shuttle)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use siltstone_sim::harness::is_long;
use siltstone_sim::threads::{Hunt, hunt, run_world};

#[test]
fn whole_stores_keep_what_was_acknowledged_whatever_the_order_of_threads() {
    let schedules = if is_long() { 20_000 } else { 400 };
    let found = hunt(&Hunt { seed: 1, schedules, time: None });
    println!("{found:?}");
    assert!(found.failure.is_none());
    let tally = found.tally;
    assert!(tally.runs >= schedules && tally.closes > 0, "{tally:?}");
    assert!(tally.jobs > tally.runs && tally.crashes > tally.runs / 2, "{tally:?}");
    assert!(found.steps > tally.runs * 100, "{} steps", found.steps);
}

#[test]
fn a_seed_repeats_a_schedule() {
    for seed in 500..506 {
        assert_eq!(run_world(seed), run_world(seed), "seed {seed}");
    }
}
