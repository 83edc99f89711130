//! Whether an open store is well: closed, read-only, poisoned by a failed sync, short of disk, or failing in
//! the background.

use crate::error::{Error, ErrorKind, Result};
use crate::io::checked::Poison;
use crate::stats::Stopwatch;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Background work by kind. Each kind fails and recovers by itself: that there is nothing to compact says
/// nothing of flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Giving a write buffer that is full to those who flush, which begins another file of the log.
    Seal,
    Flush,
    /// Compactions and all other jobs.
    Job,
    Sync,
    /// Copying keyspaces that get another schema.
    Copy,
}

/// The last failure of one kind of work that goes on failing.
struct Failure {
    error: Error,
    /// Since the first failure in a row.
    since: Stopwatch,
    number: u64,
}

#[derive(Default)]
struct Failures {
    sealing: Option<Failure>,
    flushing: Option<Failure>,
    jobs: Option<Failure>,
    syncing: Option<Failure>,
    copying: Option<Failure>,
    /// All that there have been.
    count: u64,
}

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
    failures: Mutex<Failures>,
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
            failures: Mutex::default(),
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
            let what = "the store is open read-only; open it for writing";
            return Err(Error::new(ErrorKind::ReadOnly, what));
        }
        Ok(())
    }

    /// Whether the store is open for reading alone.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns an error if the store has been closed: its directory may be another's by now.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        // A read that began before the end may see none of it.
        if self.is_closed.load(Ordering::Relaxed) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Ends all writing, as `error` leaves in doubt what is in the store.
    pub fn doubt(&self, error: &Error) {
        self.poison.doubt(error);
    }

    /// Whether a failure has ended all writing.
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
        self.background_error_since(0)
    }

    /// How many failures of background work there have been.
    pub fn failures(&self) -> u64 {
        self.failures.lock().count
    }

    /// Returns the same where it was met after the first `failures`.
    pub fn background_error_since(&self, failures: u64) -> Option<Error> {
        let all = self.failures.lock();
        let of = [&all.sealing, &all.flushing, &all.jobs, &all.syncing, &all.copying];
        let last = of.into_iter().flatten().max_by_key(|failure| failure.number)?;
        (last.number > failures).then(|| last.error.clone())
    }

    /// Returns why what write buffers hold can't be flushed, and for how long that has been so.
    pub fn stuck(&self) -> Option<(Duration, Error)> {
        let all = self.failures.lock();
        let failing = [&all.sealing, &all.flushing].into_iter().flatten();
        let longest = failing.max_by_key(|failure| failure.since.elapsed())?;
        Some((longest.since.elapsed(), longest.error.clone()))
    }

    /// Whether a write buffer could not be given to those who flush; nobody but writers tries again.
    pub fn fails_to_seal(&self) -> bool {
        self.failures.lock().sealing.is_some()
    }

    /// Notes how background work ended.
    pub fn note_background(&self, chore: Chore, error: Option<&Error>) {
        let mut all = self.failures.lock();
        let number = all.count + 1;
        let failure = match chore {
            Chore::Seal => &mut all.sealing,
            Chore::Flush => &mut all.flushing,
            Chore::Job => &mut all.jobs,
            Chore::Sync => &mut all.syncing,
            Chore::Copy => &mut all.copying,
        };
        let Some(error) = error else {
            *failure = None;
            return;
        };
        let since = failure.as_ref().map_or_else(Stopwatch::start, |before| before.since);
        *failure = Some(Failure { error: error.clone(), since, number });
        all.count = number;
    }

    /// Notes that a thread that did background work panicked: it does no more of it.
    pub fn note_panic(&self, chore: Chore) {
        let what = "background work panicked; the store does no more of it, reopen it";
        self.note_background(chore, Some(&Error::new(ErrorKind::Io, what)));
    }
}
