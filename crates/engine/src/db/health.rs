//! Whether an open store is well: closed, read-only, poisoned by a failed sync, short of disk, or failing in
//! the background.

use crate::error::{Error, ErrorKind, Result};
use crate::io::checked::Poison;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The health of an open store.
pub(crate) struct Health {
    is_read_only: bool,
    is_closed: AtomicBool,
    /// Set by the store's disk where a failure leaves the store in doubt.
    poison: Arc<Poison>,
    /// Whether the disk is so full that only deletes are taken.
    space_is_low: AtomicBool,
    /// Bytes of the disk that are kept free, as it was when that was looked at last.
    pub reserve_bytes: AtomicU64,
    /// See [`Env::keep_room_for`](super::env::Env::keep_room_for).
    pub buffer_bytes: AtomicU64,
    background_error: Mutex<Option<Error>>,
}

impl Health {
    pub fn new(is_read_only: bool, poison: &Arc<Poison>, reserve_bytes: u64) -> Self {
        Self {
            is_read_only,
            is_closed: AtomicBool::new(false),
            poison: Arc::clone(poison),
            space_is_low: AtomicBool::new(false),
            reserve_bytes: AtomicU64::new(reserve_bytes),
            buffer_bytes: AtomicU64::new(0),
            background_error: Mutex::new(None),
        }
    }

    /// Returns an error if the store takes no writes at all.
    pub fn check_writable(&self) -> Result<()> {
        if let Some(cause) = self.poison.cause() {
            return Err(Error::poisoned(&cause));
        }
        if self.is_closed() {
            return Err(Error::closed());
        }
        if self.is_read_only {
            let what = "the store is open read-only; open it with Db::open to write";
            return Err(Error::new(ErrorKind::ReadOnly, what));
        }
        Ok(())
    }

    /// Returns an error if the store has been closed: its directory may be another's by now.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        // A read that began before the end may see none of it.
        if self.is_closed.load(Ordering::Relaxed) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Whether a failed sync has ended all writing.
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Marks the store as closed; false where it was already.
    pub fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::AcqRel)
    }

    /// Whether background work has to end.
    pub fn is_over(&self) -> bool {
        self.is_closed() || self.is_poisoned()
    }

    pub fn space_is_low(&self) -> bool {
        self.space_is_low.load(Ordering::Relaxed)
    }

    pub fn set_space_low(&self, is_low: bool) {
        self.space_is_low.store(is_low, Ordering::Relaxed);
    }

    /// Returns the error that background work met last, while it goes on meeting it.
    pub fn background_error(&self) -> Option<Error> {
        self.background_error.lock().clone()
    }

    /// Notes how background work ended.
    pub fn note_background(&self, error: Option<&Error>) {
        *self.background_error.lock() = error.cloned();
    }
}
