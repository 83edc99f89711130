//! Handles that know whether they are still in the process that made them.
//!
//! The idea: a forked child has the parent's memory but none of its threads, and writes to the same files. A
//! store that it used, or closed, would damage what the parent relies on. So Python tells of each fork
//! (`os.register_at_fork`), which counts up a number in the child; a handle that was made under another
//! number is refused, and is not dropped, since dropping the last one closes the store.
//!
//! Nor can such a child open a store of its own. The engine's locks keep waiting threads in a table of the
//! process (`parking_lot`); in the child the parent's are still in it, and their memory is given to new ones.
//! So each open store has a [`Lease`], and a child that was forked while there was one is spoiled.

use crate::error;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Forks that lie between this process and the one that loaded the module.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Leases that have not ended.
static LEASES: AtomicU64 = AtomicU64::new(0);
/// Whether this process was forked from one in which a store was open.
static IS_SPOILED: AtomicBool = AtomicBool::new(false);

/// Called in each forked child.
#[pyfunction]
pub fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    if LEASES.swap(0, Ordering::Relaxed) > 0 {
        IS_SPOILED.store(true, Ordering::Relaxed);
    }
}

fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Says that threads of a store may run, from before it is opened until it is closed.
pub struct Lease {
    has_ended: AtomicBool,
    forks: u64,
}

impl Lease {
    /// # Errors
    /// `ForkedError` where no store can be opened.
    pub fn new() -> PyResult<Arc<Self>> {
        if IS_SPOILED.load(Ordering::Relaxed) {
            return Err(error::spoiled());
        }
        LEASES.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { has_ended: AtomicBool::new(false), forks: forks() }))
    }

    /// Ends it, once.
    pub fn end(&self) {
        if !self.has_ended.swap(true, Ordering::Relaxed) && self.forks == forks() {
            LEASES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
    }
}

/// Something of an open store, for use in this process alone.
pub struct Handle<T> {
    /// Always there until it is dropped, before the lease.
    inner: Option<T>,
    lease: Arc<Lease>,
}

impl<T> Handle<T> {
    pub fn new(inner: T, lease: &Arc<Lease>) -> Self {
        Self { inner: Some(inner), lease: Arc::clone(lease) }
    }

    /// The lease of the store that it belongs to.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Returns what it holds.
    ///
    /// # Errors
    /// `ForkedError` in a forked child, `ClosedError` after the store has been closed.
    #[inline]
    pub fn get(&self) -> PyResult<&T> {
        let inner = self.get_of_closed()?;
        if self.lease.has_ended.load(Ordering::Relaxed) { Err(error::closed()) } else { Ok(inner) }
    }

    /// As [`Handle::get`], also after the store has been closed.
    ///
    /// # Errors
    /// `ForkedError` in a forked child.
    #[inline]
    pub fn get_of_closed(&self) -> PyResult<&T> {
        match &self.inner {
            Some(inner) if self.lease.forks == forks() => Ok(inner),
            _ => Err(error::forked()),
        }
    }

    /// As [`Handle::get`], to change it.
    ///
    /// # Errors
    /// As [`Handle::get`].
    pub fn get_mut(&mut self) -> PyResult<&mut T> {
        self.get()?;
        match &mut self.inner {
            Some(inner) if self.lease.forks == forks() => Ok(inner),
            _ => Err(error::forked()),
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if self.lease.forks != forks() {
            std::mem::forget(self.inner.take());
        }
    }
}
