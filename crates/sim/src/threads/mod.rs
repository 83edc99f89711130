//! Stores with threads under a scheduler that a seed decides; built with `--cfg siltstone_shuttle` alone.
//!
//! A [`World`] is a store on the simulated disk with its background threads, writers, readers and somebody
//! who flushes, compacts or closes. All of it follows from a seed, and so does which thread runs when, so a
//! seed repeats a failure. What every writer was told is kept beside ([`History`]), and every call to the
//! disk is a moment at which the power may fail: some of them are looked at afterwards.

mod history;
mod world;

pub use history::{Bounds, History};
pub use world::{Tally, World};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Steps after which a schedule counts as one that never ends.
const MOST_STEPS: usize = 3_000_000;
const STACK_BYTES: usize = 1 << 20;

/// How it is decided which thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By chance, at every step.
    Random,
    /// By priorities that change at so many moments less one: Burckhardt et al., ASPLOS 2010.
    Priorities(usize),
}

/// The configuration that all runs have.
pub fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    config
}

/// Runs `body` under so many schedules that follow from `seed`; returns how many steps they had.
pub fn explore(order: Order, seed: u64, schedules: usize, body: impl Fn() + Send + Sync + 'static) -> u64 {
    match order {
        Order::Random => run(RandomScheduler::new_from_seed(seed, schedules), body),
        Order::Priorities(depth) => run(PctScheduler::new_from_seed(seed, depth, schedules), body),
    }
}

/// Runs `body` under the schedules of `scheduler`; returns how many steps they had.
pub fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) -> u64 {
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    Runner::new(scheduler, config()).run(move || {
        body();
        counted.fetch_add(shuttle::current::context_switches() as u64, Ordering::Relaxed);
    });
    steps.load(Ordering::Relaxed)
}

/// Schedules of each kind that a world is run under.
const SCHEDULES: usize = 4;

/// Worlds one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// Seed of the first world; each has the next.
    pub seed: u64,
    /// Schedules at most.
    pub schedules: u64,
    pub time: Option<Duration>,
}

/// What worlds did.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub worlds: u64,
    pub steps: u64,
    pub tally: Tally,
    /// The seed of a world that failed, and how.
    pub failure: Option<(u64, String)>,
}

/// Runs a world under some schedules by chance and some by priorities; returns what it did, and their steps.
pub fn run_world(seed: u64) -> (Tally, u64) {
    let (tally, mut steps) = (Arc::new(Mutex::new(Tally::default())), 0);
    for order in [Order::Random, Order::Priorities(3)] {
        let (world, tally) = (World::new(seed), Arc::clone(&tally));
        steps += explore(order, seed, SCHEDULES, move || world.run(&tally));
    }
    let tally = *tally.lock().unwrap();
    (tally, steps)
}

/// Runs worlds until the first that fails.
pub fn hunt(hunt: &Hunt) -> Found {
    let (started, mut found) = (Instant::now(), Found::default());
    for seed in hunt.seed.. {
        let is_late = hunt.time.is_some_and(|time| started.elapsed() >= time);
        if found.tally.runs >= hunt.schedules || is_late {
            break;
        }
        match catch_unwind(AssertUnwindSafe(|| run_world(seed))) {
            Ok((tally, steps)) => {
                found.worlds += 1;
                found.steps += steps;
                found.tally.add(&tally);
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
                found.failure = Some((seed, text.to_owned()));
                break;
            }
        }
    }
    found
}
