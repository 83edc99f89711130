//! What the engine runs on: `parking_lot`, `arc-swap` and the standard library, under the names of this
//! module.

pub(crate) use arc_swap::ArcSwap as Published;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
pub(crate) use quick_cache::DefaultHashBuilder as CacheHasher;
pub(crate) use std::sync::{OnceLock, atomic, mpsc};
pub(crate) use std::time::Instant as Moment;
pub(crate) use std::{thread, thread_local};

/// Lets a scheduler of tests switch to another thread; nothing here. The simulated disk asks for it.
#[cfg(feature = "sim")]
#[inline(always)]
pub(crate) fn scheduling_point() {}
