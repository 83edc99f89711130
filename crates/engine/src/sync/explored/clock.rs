//! Time as a scheduler has it: a microsecond a step, and as far as the next sleeper waits for where nobody
//! else can run, or where chance has it, as if all others were slow.
//!
//! A task of its own, the keeper, ends the sleeps whose time is over. It runs beside the threads of the test
//! while anybody sleeps, and does not keep the test from ending.

use super::sleeper::Sleeper;
use crate::sync::leaf;
use shuttle::current::context_switches;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{Thread, current, park, yield_now};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One in so many looks of the keeper moves the time on although others run.
const SELDOM: u32 = 48;
/// Looks in a row between which nobody else ran, after which nobody else is taken to be able to.
const LONELY_LOOKS: u32 = 24;
/// By how much chance moves the time on at most.
const LEAP: Duration = Duration::from_secs(1);

shuttle::lazy_static! {
    static ref CLOCK: Clock = Clock::default();
}

/// The clock of one run of a test.
#[derive(Default)]
pub(super) struct Clock {
    state: leaf::Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the time was moved on by, beside the steps.
    moved: Duration,
    sleepers: BTreeMap<(Duration, usize), Arc<Sleeper>>,
    slept: usize,
    has_keeper: bool,
    /// The keeper, while it waits for somebody to sleep.
    idle_keeper: Option<Thread>,
}

impl State {
    fn now(&self) -> Duration {
        self.moved + Duration::from_micros(context_switches() as u64)
    }
}

impl Clock {
    pub fn of_this_run() -> &'static Self {
        &CLOCK
    }

    /// The time since the run began.
    pub fn now(&self) -> Duration {
        self.state.lock().now()
    }

    /// Sleeps until somebody wakes the sleeper, or until the time given.
    pub fn sleep_until(&'static self, sleeper: &Arc<Sleeper>, until: Duration) {
        let mut state = self.state.lock();
        state.slept += 1;
        let key = (until, state.slept);
        state.sleepers.insert(key, Arc::clone(sleeper));
        let is_first = !std::mem::replace(&mut state.has_keeper, true);
        let idle_keeper = state.idle_keeper.take();
        drop(state);
        if is_first {
            // Dropping its handle detaches it.
            drop(shuttle::future::spawn(async { Self::of_this_run().keep() }));
        }
        if let Some(keeper) = idle_keeper {
            keeper.unpark();
        }
        sleeper.sleep();
        self.state.lock().sleepers.remove(&key);
    }

    fn keep(&self) {
        let mut lonely_looks = 0;
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state.sleepers.first_key_value().map(|((until, _), _)| *until);
                if next.is_none() {
                    state.idle_keeper = Some(current());
                }
                next
            };
            let Some(next) = next else {
                park();
                continue;
            };
            let before = context_switches();
            yield_now();
            lonely_looks = if context_switches() <= before + 1 { lonely_looks + 1 } else { 0 };
            let is_alone = lonely_looks >= LONELY_LOOKS;
            let leaps = !is_alone && thread_rng().gen_range(0..SELDOM) == 0;
            if is_alone || leaps {
                let mut state = self.state.lock();
                let left = next.saturating_sub(state.now());
                state.moved += if is_alone { left } else { left.min(LEAP) };
            }
            self.wake_those_due();
        }
    }

    fn wake_those_due(&self) {
        loop {
            let sleeper = {
                let mut state = self.state.lock();
                let now = state.now();
                let is_due = state.sleepers.first_key_value().is_some_and(|((until, _), _)| *until <= now);
                is_due.then(|| state.sleepers.pop_first()).flatten()
            };
            let Some((_, sleeper)) = sleeper else { return };
            sleeper.time_out();
        }
    }
}

/// A moment of a run, from which on time is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub fn now() -> Self {
        Self(Clock::of_this_run().now())
    }

    pub fn elapsed(self) -> Duration {
        Clock::of_this_run().now().saturating_sub(self.0)
    }
}

/// Sleeps for as long as given.
pub(crate) fn sleep(duration: Duration) {
    let clock = Clock::of_this_run();
    clock.sleep_until(&Sleeper::this_thread(), clock.now() + duration);
}
