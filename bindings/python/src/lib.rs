//! The extension module of the Python package `siltstone`: stores as Python sees them, bytes in and bytes
//! out.
//!
//! What is here is what has to be: calls into the engine with the interpreter lock released, and columns of
//! items (lists, NumPy, Arrow) that go there without an object for each item. Mappings, codecs, `asyncio` and
//! adapters are Python, in `python/siltstone/`, in classes made of these.
//!
//! Invariants: no call of the engine is made while the lock is held, but for closing a store with its last
//! handle; and none in a process that was forked from the one that opened the store ([`handle`]).

mod arrow;
mod batch;
mod build;
mod column;
mod error;
mod handle;
mod keyspace;
mod reader;
mod rows;
mod store;
mod walk;

use pyo3::prelude::*;

/// The module `siltstone._siltstone`.
#[pymodule]
mod _siltstone {
    #[pymodule_export]
    use crate::arrow::ArrowColumn;
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::handle::note_fork;
    #[pymodule_export]
    use crate::keyspace::Keyspace;
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::store::{Resources, Snapshot, Store, restore};
    #[pymodule_export]
    use crate::walk::Walk;
}
