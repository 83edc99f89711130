//! Iterators: the engine's, read ahead some items at a time, so that the interpreter lock is released once
//! for all of them.

use crate::error::OrRaise;
use crate::handle::Handle;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
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

impl Yields {
    pub fn items_or_keys(keys_only: bool) -> Self {
        if keys_only { Self::Keys } else { Self::Items }
    }
}

/// How a walk goes.
#[derive(Clone, Copy)]
pub struct Course {
    pub yields: Yields,
    /// Whether the last item comes first.
    pub reverse: bool,
    /// Most items that are shown.
    pub limit: Option<usize>,
}

impl Course {
    /// Takes the walk that the engine has for it.
    pub fn begin(&self, items: siltstone::Iter) -> Items {
        match self.yields {
            Yields::Keys => Items::Keys(items.keys()),
            Yields::Values | Yields::Items => Items::Pairs(items),
        }
    }
}

/// The engine's iterators.
pub enum Items {
    Pairs(siltstone::Iter),
    Keys(siltstone::Keys),
}

/// Items that were read ahead, one behind the other.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    /// Bytes of each item's key and of its value.
    lengths: Vec<(usize, usize)>,
    /// How many items, and how many bytes, were shown.
    shown: (usize, usize),
}

impl Ahead {
    fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.shown = (0, 0);
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.lengths.push((key.len(), value.len()));
    }

    /// Reads an item from `items`; false where there is none.
    fn read(&mut self, items: &mut Items, reverse: bool) -> siltstone::Result<bool> {
        match (items, reverse) {
            (Items::Pairs(items), false) => {
                let Some((key, value)) = items.next_ref()? else { return Ok(false) };
                self.push(key, value);
            }
            (Items::Keys(keys), false) => {
                let Some(key) = keys.next_ref()? else { return Ok(false) };
                self.push(key, &[]);
            }
            (Items::Pairs(items), true) => {
                let Some((key, value)) = items.next_back().transpose()? else { return Ok(false) };
                self.push(&key, &value);
            }
            (Items::Keys(keys), true) => {
                let Some(key) = keys.next_back().transpose()? else { return Ok(false) };
                self.push(&key, &[]);
            }
        }
        Ok(true)
    }

    /// Shows the next item.
    fn next(&mut self) -> Option<(&[u8], &[u8])> {
        let (number, at) = &mut self.shown;
        let (key, value) = self.lengths.get(*number)?;
        let item = self.bytes.get(*at..*at + key + value)?.split_at_checked(*key);
        *number += 1;
        *at += key + value;
        item
    }
}

/// An iterator over the items of a keyspace, or of one prefix, all of one moment. It pins files of the store
/// until it is used up or closed.
#[pyclass(module = "siltstone")]
pub struct Walk {
    /// None once it has come to its end. Never locked: whoever uses it has it for itself.
    items: Option<Handle<Mutex<Items>>>,
    ahead: Ahead,
    next_ahead: usize,
    course: Course,
    /// Raised once what was read ahead of it has been shown.
    failed: Option<siltstone::Error>,
}

impl Walk {
    pub fn new(items: Handle<Mutex<Items>>, course: Course) -> Self {
        let next_ahead = FIRST_AHEAD;
        Self { items: Some(items), ahead: Ahead::default(), next_ahead, course, failed: None }
    }

    /// Reads some items ahead, as far as there are any.
    fn fill(&mut self, py: Python<'_>) -> PyResult<()> {
        let Self { items, ahead, next_ahead, course, failed } = self;
        ahead.clear();
        let Some(handle) = items else { return Ok(()) };
        // A panic while it was used leaves nothing that could be read on.
        let inner = handle.get_mut()?.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let most = course.limit.unwrap_or(usize::MAX).min(*next_ahead);
        let read = py.detach(|| {
            while ahead.lengths.len() < most && ahead.bytes.len() < MOST_AHEAD_BYTES {
                if !ahead.read(inner, course.reverse)? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        *next_ahead = (*next_ahead * 4).min(MOST_AHEAD);
        let is_over = course.limit.as_mut().is_some_and(|left| {
            *left -= ahead.lengths.len();
            *left == 0
        });
        let ended = read.unwrap_or_else(|error| {
            *failed = Some(error);
            true
        });
        if ended || is_over {
            let over = items.take();
            py.detach(|| drop(over));
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
        if let Some(items) = &self.items {
            items.get()?;
        }
        if self.ahead.shown.0 == self.ahead.lengths.len() {
            self.fill(py)?;
        }
        let Some((key, value)) = self.ahead.next() else {
            return self.failed.take().map_or(Ok(None), |error| Err(error).or_raise(py));
        };
        Ok(Some(match self.course.yields {
            Yields::Keys => PyBytes::new(py, key).into_any(),
            Yields::Values => PyBytes::new(py, value).into_any(),
            Yields::Items => PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])?.into_any(),
        }))
    }

    /// Lets go of the files that it pins.
    fn close(&mut self, py: Python<'_>) {
        let items = self.items.take();
        (self.ahead, self.failed) = (Ahead::default(), None);
        py.detach(|| drop(items));
    }
}
