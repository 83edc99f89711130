//! Locks and atomics at which no scheduler switches threads.

pub(crate) use parking_lot::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic;
