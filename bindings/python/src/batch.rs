//! Batches: writes to any keyspaces of a store that happen together or not at all.

use crate::column::{Bytes, Column, zipped};
use crate::error::{self, OrRaise};
use crate::handle::Handle;
use crate::keyspace::{Keyspace, put_into};
use crate::store::{Store, Ttl, durability};
use pyo3::prelude::*;
use std::time::Duration;

/// Writes that are gathered, to happen together.
#[pyclass(subclass, module = "siltstone._siltstone")]
pub struct Batch {
    db: Handle<siltstone::Db>,
    batch: Handle<siltstone::Batch>,
}

impl Batch {
    /// Returns the engine's keyspace, which is to be of the batch's store, and how long its items live.
    fn own<'a>(
        &self,
        keyspace: &'a PyRef<'_, Keyspace>,
    ) -> PyResult<(&'a siltstone::Keyspace, Option<Duration>)> {
        if !Keyspace::is_of(keyspace, self.batch.lease()) {
            return Err(error::invalid("the keyspace is of another store; write one batch for each store"));
        }
        Keyspace::parts(keyspace)
    }
}

#[pymethods]
impl Batch {
    #[new]
    fn new(store: &Store) -> PyResult<Self> {
        let (db, lease) = (store.db()?.clone(), store.lease());
        Ok(Self { db: Handle::new(db, lease), batch: Handle::new(siltstone::Batch::new(), lease) })
    }

    /// Sets `key` of `keyspace` to `value`.
    #[pyo3(signature = (keyspace, key, value, *, ttl=None))]
    fn put<'py>(
        &mut self,
        keyspace: PyRef<'py, Keyspace>,
        key: Bytes,
        value: Bytes,
        ttl: Option<Ttl>,
    ) -> PyResult<()> {
        let (inner, usual) = self.own(&keyspace)?;
        let ttl = ttl.map(|ttl| ttl.0).or(usual);
        put_into(self.batch.get_mut()?, inner, (&key, &value), ttl).or_raise(keyspace.py())
    }

    /// Sets keys of `keyspace` to values.
    #[pyo3(signature = (keyspace, keys, values, *, ttl=None))]
    fn _put_columns<'py>(
        &mut self,
        keyspace: PyRef<'py, Keyspace>,
        keys: Column,
        values: Column,
        ttl: Option<Ttl>,
    ) -> PyResult<()> {
        let (inner, usual) = self.own(&keyspace)?;
        let (items, ttl) = (zipped(&keys, &values)?, ttl.map(|ttl| ttl.0).or(usual));
        let batch = self.batch.get_mut()?;
        items.into_iter().try_for_each(|item| put_into(batch, inner, item, ttl)).or_raise(keyspace.py())
    }

    /// Removes `key` of `keyspace`; a missing key is fine.
    fn delete<'py>(&mut self, keyspace: PyRef<'py, Keyspace>, key: Bytes) -> PyResult<()> {
        let (inner, _) = self.own(&keyspace)?;
        self.batch.get_mut()?.delete(inner, &*key).or_raise(keyspace.py())
    }

    /// Removes every key of `keyspace` with `prefix`.
    fn delete_prefix<'py>(&mut self, keyspace: PyRef<'py, Keyspace>, prefix: Bytes) -> PyResult<()> {
        let (inner, _) = self.own(&keyspace)?;
        self.batch.get_mut()?.delete_prefix(inner, &*prefix).or_raise(keyspace.py())
    }

    /// Merges `operand` into the value of `key` of `keyspace`.
    fn merge<'py>(&mut self, keyspace: PyRef<'py, Keyspace>, key: Bytes, operand: Bytes) -> PyResult<()> {
        let (inner, _) = self.own(&keyspace)?;
        self.batch.get_mut()?.merge(inner, &*key, &*operand).or_raise(keyspace.py())
    }

    /// How many writes there are.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.batch.get()?.len())
    }

    /// Bytes of their keys and values.
    #[getter]
    fn bytes(&self) -> PyResult<u64> {
        Ok(self.batch.get()?.bytes())
    }

    /// Forgets the writes.
    fn clear(&mut self) -> PyResult<()> {
        self.batch.get_mut()?.clear();
        Ok(())
    }

    /// Writes all of it, and is empty afterwards.
    #[pyo3(signature = (*, sync=None))]
    fn write(&mut self, py: Python<'_>, sync: Option<bool>) -> PyResult<()> {
        let (db, batch) = (self.db.get()?, self.batch.get_mut()?);
        py.detach(|| db.write(batch, &durability(sync))).or_raise(py)?;
        batch.clear();
        Ok(())
    }
}
