//! Iterators: the engine's, read ahead some items at a time, so that the interpreter lock is released once
//! for all of them.

use crate::error::OrRaise;
use crate::handle::Handle;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::collections::VecDeque;
use std::sync::Mutex;

/// Items and bytes that are read ahead at most. The first time it is a few, since many a group has no more.
const FIRST_AHEAD: usize = 16;
const MOST_AHEAD: usize = 1024;
const MOST_AHEAD_BYTES: usize = 256 << 10;

/// What comes of each item.
#[derive(Clone, Copy)]
pub enum Yields {
    Keys,
    Values,
    Items,
}

/// An iterator over the items of a keyspace, or of one prefix, all of one moment. It pins files of the store
/// until it is used up or closed.
#[pyclass(module = "siltstone")]
pub struct Walk {
    /// None once it has come to its end. Never locked: whoever uses it has it for itself.
    items: Option<Handle<Mutex<siltstone::Iter>>>,
    ahead: VecDeque<siltstone::Result<(Vec<u8>, Vec<u8>)>>,
    next_ahead: usize,
    yields: Yields,
}

impl Walk {
    pub fn new(items: Handle<Mutex<siltstone::Iter>>, yields: Yields) -> Self {
        Self { items: Some(items), ahead: VecDeque::new(), next_ahead: FIRST_AHEAD, yields }
    }

    /// Reads some items ahead, as far as there are any.
    fn fill(&mut self, py: Python<'_>) -> PyResult<()> {
        let Self { items, ahead, next_ahead, .. } = self;
        let Some(handle) = items else { return Ok(()) };
        // A panic while it was used leaves nothing that could be read on.
        let iter = handle.get_mut()?.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ended = py.detach(|| {
            let mut bytes = 0;
            while ahead.len() < *next_ahead && bytes < MOST_AHEAD_BYTES {
                match iter.next() {
                    Some(item) => {
                        bytes += item.as_ref().map_or(0, |(key, value)| key.len() + value.len());
                        ahead.push_back(item);
                    }
                    None => return true,
                }
            }
            false
        });
        *next_ahead = (*next_ahead * 4).min(MOST_AHEAD);
        if ended {
            *items = None;
        }
        Ok(())
    }
}

#[pymethods]
impl Walk {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.ahead.is_empty() {
            self.fill(py)?;
        }
        let Some(item) = self.ahead.pop_front() else { return Ok(None) };
        let (key, value) = item.or_raise(py)?;
        Ok(Some(match self.yields {
            Yields::Keys => PyBytes::new(py, &key).into_any(),
            Yields::Values => PyBytes::new(py, &value).into_any(),
            Yields::Items => PyTuple::new(py, [PyBytes::new(py, &key), PyBytes::new(py, &value)])?.into_any(),
        }))
    }

    /// Lets go of the files that it pins.
    fn close(&mut self, py: Python<'_>) {
        let items = self.items.take();
        self.ahead.clear();
        py.detach(|| drop(items));
    }
}
