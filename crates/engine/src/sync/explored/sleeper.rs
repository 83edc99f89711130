//! A thread that sleeps until another wakes it or its time is over.

use shuttle::thread::{Thread, current, park};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const ASLEEP: u8 = 0;
const WOKEN: u8 = 1;
const TIMED_OUT: u8 = 2;

/// A thread in one sleep.
pub(super) struct Sleeper {
    thread: Thread,
    state: AtomicU8,
}

impl Sleeper {
    pub fn this_thread() -> Arc<Self> {
        Arc::new(Self { thread: current(), state: AtomicU8::new(ASLEEP) })
    }

    fn end(&self, state: u8) -> bool {
        let ended = self.state.compare_exchange(ASLEEP, state, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if ended {
            self.thread.unpark();
        }
        ended
    }

    /// Wakes the thread; false where it sleeps no longer.
    pub fn wake(&self) -> bool {
        self.end(WOKEN)
    }

    /// Ends a sleep whose time is over.
    pub fn time_out(&self) {
        self.end(TIMED_OUT);
    }

    /// Sleeps.
    pub fn sleep(&self) {
        while self.state.load(Ordering::SeqCst) == ASLEEP {
            park();
        }
    }
}
