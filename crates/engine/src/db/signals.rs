//! Where threads of a store wait for one another: for work to do, and for work that was done.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Two conditions under one lock, which nobody holds while working.
#[derive(Default)]
pub(crate) struct Signals {
    lock: Mutex<()>,
    /// Something may need doing.
    work: Condvar,
    /// Something was done.
    progress: Condvar,
}

impl Signals {
    /// Wakes whoever waits for work or progress.
    pub fn wake(&self) {
        drop(self.lock.lock());
        self.work.notify_all();
        self.progress.notify_all();
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
