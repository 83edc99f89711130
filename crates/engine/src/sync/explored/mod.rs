//! The same names under a scheduler of the crate `shuttle`, which runs one thread at a time and decides at
//! every lock, atomic and wait which one goes on.
//!
//! Where this differs from what the engine runs on:
//!
//! - All memory orders are the strictest: what a weaker one would allow is not seen here.
//! - Time is counted, not measured ([`clock`]): it passes a little with every step, and far enough for the
//!   next wait to end where nothing else can run, or now and then when chance has it.
//! - A thread that holds a lock for reading must not take it again, which a waiting writer may forbid.

mod clock;
mod condvar;
mod lock;
mod once;
mod point;
mod published;
mod sleeper;
#[cfg(test)]
mod testing;

pub(crate) use clock::Moment;
pub(crate) use condvar::Condvar;
pub(crate) use lock::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
pub(crate) use once::OnceLock;
pub(crate) use point::scheduling_point;
pub(crate) use published::Published;
pub(crate) use shuttle::sync::{atomic, mpsc};
pub(crate) use shuttle::thread_local;
#[cfg(test)]
pub(crate) use testing::{explore, explore_all};

/// Hashes that are the same in every run, so that caches let go of the same.
pub(crate) type CacheHasher = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// Threads that a scheduler runs.
pub(crate) mod thread {
    pub(crate) use super::clock::sleep;
    pub(crate) use shuttle::thread::*;
    pub(crate) use std::thread::available_parallelism;
}
