//! Where threads of a store wait for one another: for work to do, and for work that was done.

use crate::resources::pool::Membership;
use parking_lot::{Condvar, Mutex};
use std::sync::OnceLock;
use std::time::Duration;

/// Two conditions under one lock, which nobody holds while working.
#[derive(Default)]
pub(crate) struct Signals {
    lock: Mutex<()>,
    /// Something may need doing.
    work: Condvar,
    /// Something was done.
    progress: Condvar,
    /// The store's place in a pool of threads that it shares with others.
    pool: OnceLock<Membership>,
}

impl Signals {
    /// Wakes whoever waits for work or progress.
    pub fn wake(&self) {
        drop(self.lock.lock());
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

    /// Waits until something may need doing, or for as long as given.
    pub fn wait_for_work(&self, at_most: Duration) {
        self.work.wait_for(&mut self.lock.lock(), at_most);
    }
}
