//! A value that one thread replaces and others read, with the interface of `arc-swap`'s.

use super::point::scheduling_point;
use crate::sync::leaf;
use std::ops::Deref;
use std::sync::Arc;

/// A published value.
pub(crate) struct Published<T> {
    value: leaf::Mutex<Arc<T>>,
}

/// The value as it was when it was looked at.
pub(crate) struct Guard<T>(Arc<T>);

impl<T> Deref for Guard<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T> Published<T> {
    pub fn from_pointee(value: T) -> Self {
        Self { value: leaf::Mutex::new(Arc::new(value)) }
    }

    pub fn load_full(&self) -> Arc<T> {
        scheduling_point();
        Arc::clone(&self.value.lock())
    }

    pub fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    pub fn store(&self, value: Arc<T>) {
        scheduling_point();
        let before = std::mem::replace(&mut *self.value.lock(), value);
        // What it held goes once the lock is let go.
        drop(before);
    }
}
