//! Reading: of a keyspace as it is, or as a snapshot has it.

use crate::arrow::ArrowColumn;
use crate::column::{Bytes, Column};
use crate::error::OrRaise;
use crate::handle::{Handle, Lease};
use crate::rows;
use crate::store::Snapshot;
use crate::walk::{Walk, Yields};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::ops::{Bound as Edge, Range};
use std::sync::{Arc, Mutex};

/// A keyspace, and the moment that it is read at: now, unless there is a snapshot.
#[derive(Clone)]
pub struct Source {
    pub keyspace: siltstone::Keyspace,
    pub at: Option<Arc<siltstone::Snapshot>>,
}

impl Source {
    fn get(&self, key: &[u8]) -> siltstone::Result<Option<Vec<u8>>> {
        match &self.at {
            None => self.keyspace.get(key),
            Some(at) => at.get(&self.keyspace, key),
        }
    }

    fn contains(&self, key: &[u8]) -> siltstone::Result<bool> {
        match &self.at {
            None => self.keyspace.contains(key),
            Some(at) => at.contains(&self.keyspace, key),
        }
    }

    fn contains_many(&self, keys: &[&[u8]]) -> siltstone::Result<Vec<bool>> {
        match &self.at {
            None => self.keyspace.contains_many(keys),
            Some(at) => at.contains_many(&self.keyspace, keys),
        }
    }

    /// Lets `look` see the values of `keys`, as [`siltstone::Keyspace::multi_get_with`].
    pub fn multi_get_with(&self, keys: &[&[u8]], look: impl FnMut(usize, &[u8])) -> siltstone::Result<()> {
        match &self.at {
            None => self.keyspace.multi_get_with(keys, look),
            Some(at) => at.multi_get_with(&self.keyspace, keys, look),
        }
    }

    /// Walks over everything.
    pub fn iter(&self) -> siltstone::Result<siltstone::Iter> {
        match &self.at {
            None => self.keyspace.iter(),
            Some(at) => at.iter(&self.keyspace),
        }
    }

    fn prefix(
        &self,
        prefix: &[u8],
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> siltstone::Result<siltstone::Iter> {
        if from.is_none() && to.is_none() {
            return match &self.at {
                None => self.keyspace.prefix(prefix),
                Some(at) => at.prefix(&self.keyspace, prefix),
            };
        }
        let range =
            (from.map_or(Edge::Unbounded, Edge::Included), to.map_or(Edge::Unbounded, Edge::Excluded));
        match &self.at {
            None => self.keyspace.prefix_range(prefix, range),
            Some(at) => at.prefix_range(&self.keyspace, prefix, range),
        }
    }
}

/// Many values, one behind the other.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    spans: Vec<Option<Range<usize>>>,
}

impl Gathered {
    fn of(source: &Source, keys: &[&[u8]]) -> siltstone::Result<Self> {
        let mut gathered = Self { bytes: Vec::new(), spans: vec![None; keys.len()] };
        let Self { bytes, spans } = &mut gathered;
        source.multi_get_with(keys, |number, value| {
            let from = bytes.len();
            bytes.extend_from_slice(value);
            if let Some(span) = spans.get_mut(number) {
                *span = Some(from..bytes.len());
            }
        })?;
        Ok(gathered)
    }

    fn values(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.spans.iter().map(|span| self.bytes.get(span.clone()?))
    }
}

/// What can be read of a keyspace, now or as a snapshot has it.
#[pyclass(frozen, subclass, module = "siltstone._siltstone")]
pub struct Reader {
    source: Handle<Source>,
}

impl Reader {
    pub fn of(source: Source, lease: &Arc<Lease>) -> Self {
        Self { source: Handle::new(source, lease) }
    }

    #[inline]
    pub fn source(&self) -> PyResult<&Source> {
        self.source.get()
    }

    fn walk(&self, py: Python<'_>, yields: Yields) -> PyResult<Walk> {
        let source = self.source()?;
        let items = py.detach(|| source.iter()).or_raise(py)?;
        Ok(Walk::new(Handle::new(Mutex::new(items), self.source.lease()), yields))
    }
}

#[pymethods]
impl Reader {
    #[new]
    fn new(keyspace: &Self, snapshot: &Snapshot) -> PyResult<Self> {
        let keyspace = keyspace.source()?.keyspace.clone();
        let at = Some(Arc::clone(snapshot.get()?));
        Ok(Self::of(Source { keyspace, at }, snapshot.lease()))
    }

    /// The keyspace's name.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.source()?.keyspace.name().to_owned())
    }

    /// The keyspace's schema, as ``Store.keyspace`` takes it, such as ``"delim:/"``.
    #[getter]
    fn schema(&self) -> PyResult<String> {
        Ok(self.source()?.keyspace.schema().name())
    }

    /// The name of the keyspace's merge operator, or None.
    #[getter]
    fn merge_operator(&self) -> PyResult<Option<String>> {
        Ok(self.source()?.keyspace.merge_operator().map(str::to_owned))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes) -> PyResult<Bound<'py, PyBytes>> {
        let (source, bytes) = (self.source()?, &*key);
        match py.detach(|| source.get(bytes)).or_raise(py)? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(PyKeyError::new_err(PyBytes::new(py, bytes).unbind())),
        }
    }

    fn __contains__<'py>(&self, py: Python<'py>, key: Bytes) -> PyResult<bool> {
        let (source, key) = (self.source()?, &*key);
        py.detach(|| source.contains(key)).or_raise(py)
    }

    /// Returns the value of `key`, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (source, key) = (self.source()?, &*key);
        let value = py.detach(|| source.get(key)).or_raise(py)?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Returns the values of `keys`, in their order, all of one moment; None where there is none.
    fn get_many<'py>(&self, py: Python<'py>, keys: Column) -> PyResult<Bound<'py, PyList>> {
        let (source, keys) = (self.source()?, keys.slices()?);
        let found = py.detach(|| Gathered::of(source, &keys)).or_raise(py)?;
        PyList::new(py, found.values().map(|value| value.map(|value| PyBytes::new(py, value))))
    }

    /// As `get_many`, as an Arrow column of binary, null where there is no value.
    fn get_arrow<'py>(&self, py: Python<'py>, keys: Column) -> PyResult<ArrowColumn> {
        let (source, keys) = (self.source()?, keys.slices()?);
        py.detach(|| Ok::<_, siltstone::Error>(ArrowColumn::of_values(Gathered::of(source, &keys)?.values())))
            .or_raise(py)
    }

    /// Returns of each of `keys` whether it has a value, all of one moment.
    fn contains_many<'py>(&self, py: Python<'py>, keys: Column) -> PyResult<Vec<bool>> {
        let (source, keys) = (self.source()?, keys.slices()?);
        py.detach(|| source.contains_many(&keys)).or_raise(py)
    }

    /// Copies the values of `keys` into the rows of `rows`, and notes in `found` which there are.
    fn _read_rows<'py>(
        &self,
        keys: Column,
        rows: &Bound<'py, PyArray2<u8>>,
        found: &Bound<'py, PyArray1<bool>>,
    ) -> PyResult<()> {
        rows::read(self.source()?, &keys, rows, found)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk(py, Yields::Keys)
    }

    fn _values(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk(py, Yields::Values)
    }

    fn _items(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk(py, Yields::Items)
    }

    /// Counts the items, which reads all of them.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let source = self.source()?;
        py.detach(|| {
            let mut count = 0;
            for item in source.iter()? {
                item?;
                count += 1;
            }
            Ok::<_, siltstone::Error>(count)
        })
        .or_raise(py)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let source = self.source()?;
        py.detach(|| source.iter()?.next().transpose()).or_raise(py).map(|first| first.is_some())
    }

    /// Iterates over the items whose keys have `prefix`, as pairs of key and value: in the order of their
    /// suffixes, where the schema keeps that. `start` and `stop` bound the suffixes, `stop` itself excluded.
    #[pyo3(signature = (prefix, *, start=None, stop=None))]
    fn prefix<'py>(
        &self,
        py: Python<'py>,
        prefix: Bytes,
        start: Option<Bytes>,
        stop: Option<Bytes>,
    ) -> PyResult<Walk> {
        let (source, prefix) = (self.source()?, &*prefix);
        let (start, stop) = (start.as_deref(), stop.as_deref());
        let items = py.detach(|| source.prefix(prefix, start, stop)).or_raise(py)?;
        Ok(Walk::new(Handle::new(Mutex::new(items), self.source.lease()), Yields::Items))
    }

    /// The keyspace's statistics, as JSON.
    fn _stats_json(&self) -> PyResult<String> {
        let stats = self.source()?.keyspace.stats();
        serde_json::to_string(&stats).map_err(|e| crate::error::invalid(e.to_string()))
    }
}
