//! How tests within the engine go through interleavings.

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

const STACK_BYTES: usize = 1 << 20;
const MOST_STEPS: usize = 1_000_000;

fn run(scheduler: impl Scheduler + 'static, body: fn()) -> usize {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    Runner::new(scheduler, config).run(body)
}

/// Runs `body` under so many schedules by chance, and as many by priorities that change once or twice.
/// `SILTSTONE_SCHEDULES` is by how much there are more.
pub(crate) fn explore(schedules: usize, body: fn()) {
    let times = std::env::var("SILTSTONE_SCHEDULES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let schedules = schedules * times;
    run(RandomScheduler::new_from_seed(1, schedules), body);
    run(PctScheduler::new_from_seed(2, 2, schedules / 2), body);
    run(PctScheduler::new_from_seed(3, 3, schedules / 2), body);
    println!("{} schedules", schedules * 2);
}

/// Runs `body` under all schedules there are, or so many at most; it must not depend on time.
pub(crate) fn explore_all(at_most: usize, body: fn()) {
    println!("{} schedules", run(DfsScheduler::new(Some(at_most), false), body));
}
