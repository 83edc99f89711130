//! A condition variable whose waits may have an end, with the interface of `parking_lot`'s.

use super::clock::Clock;
use super::lock::MutexGuard;
use super::point::scheduling_point;
use super::sleeper::Sleeper;
use crate::sync::leaf;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A condition variable; who waits longest is woken first.
#[derive(Default)]
pub(crate) struct Condvar {
    waiting: leaf::Mutex<VecDeque<Arc<Sleeper>>>,
}

impl Condvar {
    fn sleep_here<T>(&self, guard: &mut MutexGuard<'_, T>, sleep: impl FnOnce(&Arc<Sleeper>)) {
        let sleeper = Sleeper::this_thread();
        self.waiting.lock().push_back(Arc::clone(&sleeper));
        guard.unlocked(|| {
            sleep(&sleeper);
            // Where its time was over, it still stands in line.
            self.waiting.lock().retain(|other| !Arc::ptr_eq(other, &sleeper));
        });
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.sleep_here(guard, |sleeper| sleeper.sleep());
    }

    /// Waits until it is woken, or for as long as given.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, at_most: Duration) {
        let clock = Clock::of_this_run();
        let until = clock.now() + at_most;
        self.sleep_here(guard, |sleeper| clock.sleep_until(sleeper, until));
    }

    /// Waits while `condition` holds, or for as long as given.
    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        at_most: Duration,
    ) {
        let clock = Clock::of_this_run();
        let until = clock.now() + at_most;
        while condition(guard) && clock.now() < until {
            self.sleep_here(guard, |sleeper| clock.sleep_until(sleeper, until));
        }
    }

    fn next_to_wake(&self) -> Option<Arc<Sleeper>> {
        self.waiting.lock().pop_front()
    }

    pub fn notify_one(&self) {
        scheduling_point();
        while let Some(sleeper) = self.next_to_wake() {
            if sleeper.wake() {
                return;
            }
        }
    }

    pub fn notify_all(&self) {
        scheduling_point();
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for sleeper in waiting {
            sleeper.wake();
        }
    }
}
