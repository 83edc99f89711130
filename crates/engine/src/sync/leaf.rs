//! Locks and atomics at which no scheduler switches threads.

pub(crate) use parking_lot::Mutex;
#[cfg(feature = "sim")]
pub(crate) use parking_lot::MutexGuard;
pub(crate) use std::sync::atomic;
