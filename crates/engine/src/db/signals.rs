//! Where threads of a store wait for one another: for work to do, and for work that was done.

use crate::resources::pool::Membership;
use crate::sync::OnceLock;
use crate::sync::{Condvar, Mutex};
use std::time::Duration;

/// Two conditions under one lock, which nobody holds while working.
#[derive(Default)]
pub(crate) struct Signals {
    lock: Mutex<Seen>,
    /// Something may need doing.
    work: Condvar,
    /// Something was done.
    progress: Condvar,
    /// The store's place in a pool of threads that it shares with others.
    pool: OnceLock<Membership>,
}

/// How often it was said that something may need doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Signals {
    /// Wakes whoever waits for work or progress.
    pub fn wake(&self) {
        self.lock.lock().0 += 1;
        self.work.notify_all();
        self.progress.notify_all();
        if let Some(pool) = self.pool.get() {
            pool.wake();
        }
    }

    /// Wakes whoever waits for progress.
    pub fn tell_progress(&self) {
        drop(self.lock.lock());
        self.progress.notify_all();
    }

    /// Has the threads of a pool work for the store from now on.
    pub fn join(&self, pool: Membership) {
        let _ = self.pool.set(pool);
    }

    /// Returns the store's place in a pool, if it is in one.
    pub fn pool(&self) -> Option<&Membership> {
        self.pool.get()
    }

    /// Waits until something was done, or for as long as given.
    pub fn wait_for_progress(&self, at_most: Duration) {
        self.progress.wait_for(&mut self.lock.lock(), at_most);
    }

    /// What was said so far of work to do; taken before one looks for it.
    pub fn seen(&self) -> Seen {
        *self.lock.lock()
    }

    /// Waits until it is said again that something may need doing, or for as long as given.
    pub fn wait_for_more_work(&self, at_most: Duration) {
        self.wait_for_work(self.seen(), at_most);
    }

    /// Waits until something may need doing that was not said yet when `seen` was taken, or for as long as
    /// given.
    pub fn wait_for_work(&self, seen: Seen, at_most: Duration) {
        self.work.wait_while_for(&mut self.lock.lock(), |said| *said == seen, at_most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_was_said_before_the_wait_is_not_waited_for() {
        let signals = Signals::default();
        let seen = signals.seen();
        // Between a look for work that found none and the wait.
        signals.wake();
        let started = Instant::now();
        signals.wait_for_work(seen, Duration::from_secs(60));
        assert!(started.elapsed() < Duration::from_secs(30));
        // What was seen is waited out.
        signals.wait_for_more_work(Duration::from_millis(1));
    }
}

#[cfg(all(test, siltstone_shuttle))]
mod interleavings {
    use super::*;
    use crate::stats::Stopwatch;
    use crate::sync::atomic::{AtomicUsize, Ordering};
    use crate::sync::{explore, thread};
    use std::sync::Arc;

    /// Work that is said to be there is not slept through: time passes by itself only where all sleep.
    #[test]
    fn nobody_sleeps_through_what_was_said() {
        explore(10_000, || {
            let (signals, work) = (Arc::new(Signals::default()), Arc::new(AtomicUsize::new(0)));
            let worker = {
                let (signals, work) = (Arc::clone(&signals), Arc::clone(&work));
                thread::spawn(move || {
                    let started = Stopwatch::start();
                    let mut done = 0;
                    while done < 4 {
                        let seen = signals.seen();
                        match work.swap(0, Ordering::SeqCst) {
                            0 => signals.wait_for_work(seen, Duration::from_secs(3600)),
                            found => done += found,
                        }
                    }
                    assert!(started.elapsed() < Duration::from_secs(1800));
                })
            };
            let tellers: Vec<_> = (0..2)
                .map(|_| {
                    let (signals, work) = (Arc::clone(&signals), Arc::clone(&work));
                    thread::spawn(move || {
                        for _ in 0..2 {
                            work.fetch_add(1, Ordering::SeqCst);
                            signals.wake();
                        }
                    })
                })
                .collect();
            tellers.into_iter().chain([worker]).for_each(|thread| thread.join().unwrap());
        });
    }
}
