//! Locks with the interface of `parking_lot`'s: not poisoned by panics, and given up by a wait.

use shuttle::sync as locks;
use std::fmt::{self, Debug};
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

/// A lock that one thread holds.
#[derive(Default)]
pub(crate) struct Mutex<T> {
    inner: locks::Mutex<T>,
}

/// A lock that is held.
pub(crate) struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    /// `None` while it waits.
    held: Option<locks::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self { inner: locks::Mutex::new(value) }
    }

    fn hold(&self) -> locks::MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { lock: self, held: Some(self.hold()) }
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.inner.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { lock: self, held: Some(held) })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Debug> Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> MutexGuard<'_, T> {
    /// Gives the lock up while `wait` waits.
    pub fn unlocked(&mut self, wait: impl FnOnce()) {
        self.held = None;
        wait();
        self.held = Some(self.lock.hold());
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "it is borrowed while it waits")]
    fn deref(&self) -> &T {
        self.held.as_ref().expect("the lock is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[expect(clippy::expect_used, reason = "it is borrowed while it waits")]
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the lock is held")
    }
}

/// A lock that one thread holds for writing, or several for reading.
#[derive(Default)]
pub(crate) struct RwLock<T> {
    inner: locks::RwLock<T>,
}

pub(crate) type RwLockReadGuard<'a, T> = locks::RwLockReadGuard<'a, T>;

impl<T> RwLock<T> {
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self { inner: locks::RwLock::new(value) }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> locks::RwLockWriteGuard<'_, T> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Debug> Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
