//! A few worlds, the same on every run; and that what goes wrong in one is found, made smaller and printed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use clap::ValueEnum;
use siltstone_sim::hunt::{Hunt, attempt, hunt, quiet_panics};
use siltstone_sim::world::{Settings, Trouble, World};

fn settings(operations: usize) -> Settings {
    Settings { operations, depth: 4, troubles: Trouble::value_variants().to_vec() }
}

#[test]
fn some_worlds_with_everything_that_goes_wrong() {
    quiet_panics();
    let worlds = if std::env::var("SILTSTONE_LONG").is_ok_and(|value| value == "1") { 2000 } else { 12 };
    let found = hunt(
        &Hunt { seed: 1_000_000, worlds, time: None, threads: 2, stops: false, settings: settings(100) },
        &|text| println!("FAILED {text}"),
    );
    println!("{}", found.summary());
    assert!(found.failures.is_empty());
    assert_eq!(found.worlds, worlds);
    let tally = found.tally;
    assert!(tally.crashes > worlds * 4 && tally.damages > worlds && tally.faults > worlds / 2, "{tally:?}");
    assert!(tally.noticed * 2 > tally.damages && tally.failures > 0 && tally.clocks > 0, "{tally:?}");
}

#[test]
fn a_world_is_the_same_whenever_it_is_run() {
    for seed in 7..10 {
        let world = World::new(seed, &settings(60));
        let runs = [attempt(&world).unwrap(), attempt(&world).unwrap()];
        assert_eq!(format!("{:?}", runs[0]), format!("{:?}", runs[1]), "seed {seed}");
    }
}

#[test]
fn a_killed_child_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_siltstone-sim"))
        .args(["stress", "--seconds", "4", "--threads", "2", "--seed", "3", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success() && said.contains("kills"), "{said}{}", String::from_utf8_lossy(&run.stderr));
}
