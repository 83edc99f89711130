//! A value that is set once, at whose making other threads may run.

use super::lock::Mutex;
use super::point::scheduling_point;

/// A place for a value that is set once.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    making: Mutex<()>,
}

impl<T> OnceLock<T> {
    #[track_caller]
    pub const fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), making: Mutex::new(()) }
    }

    pub fn get(&self) -> Option<&T> {
        scheduling_point();
        self.value.get()
    }

    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        scheduling_point();
        self.value.set(value)
    }

    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _making = self.making.lock();
        match self.value.get() {
            Some(value) => value,
            // Made by now, so that nothing is waited for within.
            None => {
                let made = make();
                self.value.get_or_init(|| made)
            }
        }
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}
