//! Reading: of a keyspace as it is, or as a snapshot has it.

use crate::arrow::ArrowColumn;
use crate::column::{Bytes, Column};
use crate::error::OrRaise;
use crate::handle::{Handle, Lease};
use crate::rows;
use crate::store::Snapshot;
use crate::walk::{Course, Walk, Yields};
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
    fn iter(&self) -> siltstone::Result<siltstone::Iter> {
        match &self.at {
            None => self.keyspace.iter(),
            Some(at) => at.iter(&self.keyspace),
        }
    }

    fn starting_with(&self, start: &[u8]) -> siltstone::Result<siltstone::Iter> {
        match &self.at {
            None => self.keyspace.starting_with(start),
            Some(at) => at.starting_with(&self.keyspace, start),
        }
    }

    fn len(&self) -> siltstone::Result<u64> {
        match &self.at {
            None => self.keyspace.len(),
            Some(at) => at.len(&self.keyspace),
        }
    }

    fn len_of(&self, prefix: &[u8]) -> siltstone::Result<u64> {
        match &self.at {
            None => self.keyspace.len_of(prefix),
            Some(at) => at.len_of(&self.keyspace, prefix),
        }
    }

    fn is_empty(&self) -> siltstone::Result<bool> {
        match &self.at {
            None => self.keyspace.is_empty(),
            Some(at) => at.is_empty(&self.keyspace),
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

/// Leaves of `items` what lies between two keys.
fn between(
    mut items: siltstone::Iter,
    after: Option<&[u8]>,
    before: Option<&[u8]>,
) -> siltstone::Result<siltstone::Iter> {
    if let Some(key) = after {
        items = items.after(key)?;
    }
    if let Some(key) = before {
        items = items.before(key)?;
    }
    Ok(items)
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

    /// Begins a walk over what `items` opens.
    fn walk(
        &self,
        py: Python<'_>,
        course: Course,
        items: impl Send + FnOnce(&Source) -> siltstone::Result<siltstone::Iter>,
    ) -> PyResult<Walk> {
        let source = self.source()?;
        let items = py.detach(|| items(source)).or_raise(py)?;
        Ok(Walk::new(Handle::new(Mutex::new(course.begin(items)), self.source.lease()), course))
    }

    fn walk_all(&self, py: Python<'_>, yields: Yields, reverse: bool) -> PyResult<Walk> {
        self.walk(py, Course { yields, reverse, limit: None }, Source::iter)
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
        Ok(self.source.get_of_closed()?.keyspace.name().to_owned())
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
        self.walk_all(py, Yields::Keys, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk_all(py, Yields::Keys, true)
    }

    #[pyo3(signature = (*, reverse=false))]
    fn _values(&self, py: Python<'_>, reverse: bool) -> PyResult<Walk> {
        self.walk_all(py, Yields::Values, reverse)
    }

    #[pyo3(signature = (*, reverse=false))]
    fn _items(&self, py: Python<'_>, reverse: bool) -> PyResult<Walk> {
        self.walk_all(py, Yields::Items, reverse)
    }

    /// Counts the items, which walks over all of them. `Keyspace.approximate_len` reads nothing.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let source = self.source()?;
        let count = py.detach(|| source.len()).or_raise(py)?;
        usize::try_from(count).map_err(|e| crate::error::invalid(e.to_string()))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let source = self.source()?;
        Ok(!py.detach(|| source.is_empty()).or_raise(py)?)
    }

    /// Counts the items whose keys have `prefix`, by a walk over them.
    fn len_of(&self, py: Python<'_>, prefix: Bytes) -> PyResult<u64> {
        let (source, prefix) = (self.source()?, &*prefix);
        py.detach(|| source.len_of(prefix)).or_raise(py)
    }

    /// Iterates over the items whose keys have `prefix`, as pairs of key and value: in the order of their
    /// suffixes, where the schema keeps that. `start` and `stop` bound the suffixes, `stop` itself excluded;
    /// the rest is as for `scan`.
    #[pyo3(signature = (
        prefix, *, start=None, stop=None, after=None, before=None, reverse=false, limit=None, keys_only=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named arguments in Python")]
    fn prefix<'py>(
        &self,
        py: Python<'py>,
        prefix: Bytes,
        start: Option<Bytes>,
        stop: Option<Bytes>,
        after: Option<Bytes>,
        before: Option<Bytes>,
        reverse: bool,
        limit: Option<usize>,
        keys_only: bool,
    ) -> PyResult<Walk> {
        let (prefix, start, stop) = (&*prefix, start.as_deref(), stop.as_deref());
        let (after, before) = (after.as_deref(), before.as_deref());
        let course = Course { yields: Yields::items_or_keys(keys_only), reverse, limit };
        self.walk(py, course, |source| between(source.prefix(prefix, start, stop)?, after, before))
    }

    /// Iterates over all items, or those whose keys begin with `starting_with`, as pairs of key and value, in
    /// the store's order. Only what comes after the key `after` and before the key `before` is shown, whether
    /// or not there are such keys: the last key of a page is where the next page begins. With `reverse` the
    /// last item comes first; `limit` is the most items that are shown; with `keys_only` keys come alone, and
    /// values are not read where they lie apart.
    #[pyo3(signature = (
        *, starting_with=None, after=None, before=None, reverse=false, limit=None, keys_only=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named arguments in Python")]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        starting_with: Option<Bytes>,
        after: Option<Bytes>,
        before: Option<Bytes>,
        reverse: bool,
        limit: Option<usize>,
        keys_only: bool,
    ) -> PyResult<Walk> {
        let (start, after, before) = (starting_with.as_deref(), after.as_deref(), before.as_deref());
        let course = Course { yields: Yields::items_or_keys(keys_only), reverse, limit };
        self.walk(py, course, |source| {
            let items = match start {
                None => source.iter()?,
                Some(start) => source.starting_with(start)?,
            };
            between(items, after, before)
        })
    }

    /// The keyspace's statistics, as JSON.
    fn _stats_json(&self) -> PyResult<String> {
        let stats = self.source()?.keyspace.stats();
        serde_json::to_string(&stats).map_err(|e| crate::error::invalid(e.to_string()))
    }
}
