//! Errors of the engine as exceptions, with their facts. The classes are in `siltstone/errors.py`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use siltstone::{Error, ErrorKind};
use std::error::Error as _;

/// The function of `errors.py` that makes an exception of facts.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn make(py: Python<'_>, facts: impl for<'py> pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = MAKE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("siltstone.errors")?.getattr("from_facts")?.unbind())
    });
    match made.and_then(|make| make.bind(py).call1(facts)) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// What a call came to that runs with the interpreter lock released.
pub enum Failure {
    /// The engine's error.
    Engine(Error),
    /// An exception of the caller's own code.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// Results that can be turned into Python's.
pub trait OrRaise<T> {
    /// Returns the value, or the error as an exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Failure>> OrRaise<T> for Result<T, E> {
    #[inline]
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| match error.into() {
            Failure::Engine(error) => of_engine(py, &error),
            Failure::Python(error) => error,
        })
    }
}

#[cold]
fn of_engine(py: Python<'_>, error: &Error) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::InvalidInput => "InvalidInput",
        ErrorKind::BadKey => "BadKey",
        ErrorKind::NoKeyspace => "NoKeyspace",
        ErrorKind::Closed => "Closed",
        ErrorKind::Io => "Io",
        ErrorKind::Corruption => "Corruption",
        ErrorKind::Locked => "Locked",
        ErrorKind::PositionGone => "PositionGone",
        ErrorKind::StorageFull => "StorageFull",
        ErrorKind::Poisoned => "Poisoned",
        ErrorKind::ReadOnly => "ReadOnly",
        ErrorKind::NotAStore => "NotAStore",
        ErrorKind::MergeFailed => "MergeFailed",
        _ => "Error",
    };
    let path = error.path().map(|path| path.to_string_lossy().into_owned());
    let refusal = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    let errno = refusal.and_then(std::io::Error::raw_os_error);
    make(py, (kind, error.to_string(), path, error.offset(), error.expected(), error.found(), errno))
}

fn said(kind: &'static str, sentence: &str) -> PyErr {
    let nothing = None::<&str>;
    Python::attach(|py| make(py, (kind, sentence, nothing, nothing, nothing, nothing, nothing)))
}

/// Input that can't be used.
#[cold]
pub fn invalid(sentence: impl AsRef<str>) -> PyErr {
    said("InvalidInput", sentence.as_ref())
}

/// A keyspace that is not there.
#[cold]
pub fn no_keyspace(sentence: impl AsRef<str>) -> PyErr {
    said("NoKeyspace", sentence.as_ref())
}

/// A store used after it has been closed.
#[cold]
pub fn closed() -> PyErr {
    said("Closed", "the store has been closed")
}

/// A store used in a forked child.
#[cold]
pub fn forked() -> PyErr {
    said(
        "Forked",
        "this process was forked from the one that opened the store, and a store belongs to one process; open it \
         after the fork, or start processes by \"spawn\" or \"forkserver\"",
    )
}

/// A store opened in a child that was forked while one was open.
#[cold]
pub fn spoiled() -> PyErr {
    said(
        "Forked",
        "this process was forked while a store was open, so it can't open any; close stores before forking, or \
         start processes by \"spawn\" or \"forkserver\"",
    )
}
