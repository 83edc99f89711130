//! Keyspaces: what is written to them. What is read is in `reader.rs`.

use crate::build::{self, Progress};
use crate::column::{Bytes, Column, zipped};
use crate::error::{self, Failure, OrRaise};
use crate::handle::{Handle, Lease};
use crate::reader::{Reader, Source};
use crate::store::{self, Store, Ttl, durability};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use siltstone::{Batch, Db, KeyspaceOptions, Update, WriteOptions};
use std::sync::Arc;
use std::time::Duration;

/// Items and bytes of one atomic batch of those that many items are written in.
const BATCH_ITEMS: usize = 4096;
const BATCH_BYTES: u64 = 4 << 20;
/// Keys that `add_many` asks for at a time.
const ADDED_TOGETHER: usize = 4096;

/// A keyspace, with what its handle knows beside.
#[pyclass(frozen, subclass, extends = Reader, module = "siltstone._siltstone")]
pub struct Keyspace {
    db: Handle<Db>,
    /// How long items live unless a write says otherwise.
    ttl: Option<Duration>,
}

/// A keyspace in use.
struct Open<'a> {
    db: &'a Db,
    keyspace: &'a siltstone::Keyspace,
    ttl: Option<Duration>,
}

impl Keyspace {
    fn open<'a>(this: &'a PyRef<'_, Self>) -> PyResult<Open<'a>> {
        Ok(Open { db: this.db.get()?, keyspace: &this.as_super().source()?.keyspace, ttl: this.ttl })
    }

    /// Whether it is of the store with this lease.
    pub fn is_of(this: &PyRef<'_, Self>, lease: &Arc<Lease>) -> bool {
        Arc::ptr_eq(this.db.lease(), lease)
    }

    /// Returns the engine's keyspace, and how long items live that are written through this handle.
    pub fn parts<'a>(this: &'a PyRef<'_, Self>) -> PyResult<(&'a siltstone::Keyspace, Option<Duration>)> {
        let open = Self::open(this)?;
        Ok((open.keyspace, open.ttl))
    }
}

/// Adds a put to `batch`.
pub fn put_into(
    batch: &mut Batch,
    keyspace: &siltstone::Keyspace,
    item: (&[u8], &[u8]),
    ttl: Option<Duration>,
) -> siltstone::Result<()> {
    match ttl {
        Some(ttl) => batch.put_with_ttl(keyspace, item.0, item.1, ttl),
        None => batch.put(keyspace, item.0, item.1),
    }
}

impl Open<'_> {
    fn put(
        &self,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        sync: Option<bool>,
    ) -> siltstone::Result<()> {
        if sync.is_some() {
            let mut batch = Batch::new();
            put_into(&mut batch, self.keyspace, (key, value), ttl)?;
            return self.db.write(&batch, &durability(sync));
        }
        match ttl {
            Some(ttl) => self.keyspace.put_with_ttl(key, value, ttl),
            None => self.keyspace.put(key, value),
        }
    }

    fn put_many(
        &self,
        items: &[(&[u8], &[u8])],
        ttl: Option<Duration>,
        sync: Option<bool>,
    ) -> siltstone::Result<()> {
        let mut batch = Batch::new();
        for (number, item) in items.iter().enumerate() {
            put_into(&mut batch, self.keyspace, *item, ttl)?;
            let is_last = number + 1 == items.len();
            if is_last || batch.len() >= BATCH_ITEMS || batch.bytes() >= BATCH_BYTES {
                let options = if is_last { durability(sync) } else { WriteOptions::default() };
                self.db.write(&batch, &options)?;
                batch.clear();
            }
        }
        Ok(())
    }

    /// Changes what `key` has, by a rule that can't fail.
    fn change(
        &self,
        key: &[u8],
        mut rule: impl FnMut(Option<siltstone::Old<'_>>) -> Update,
    ) -> siltstone::Result<()> {
        self.keyspace
            .update_with(key, &WriteOptions::default(), |old| Ok::<_, siltstone::Error>(rule(old)))
            .map(drop)
    }

    /// Removes `key`, and returns what it had.
    fn take(&self, key: &[u8]) -> siltstone::Result<Option<Vec<u8>>> {
        let mut had = None;
        self.change(key, |old| {
            had = old.map(|old| old.value.to_vec());
            Update::Delete
        })?;
        Ok(had)
    }
}

fn lived(value: Vec<u8>, ttl: Option<Duration>) -> Update {
    match ttl {
        Some(ttl) => Update::PutWithTtl(value, ttl),
        None => Update::PutForever(value),
    }
}

/// A counter's value: a signed number of 8 bytes, little-endian, as the merge operator `add` has it.
fn number(value: Option<&[u8]>) -> Result<i64, Failure> {
    let Some(value) = value else { return Ok(0) };
    let bytes = value.try_into().map_err(|_| {
        error::invalid(format!("the value has {} bytes; a counter has 8, little-endian", value.len()))
    })?;
    Ok(i64::from_le_bytes(bytes))
}

/// The error of a counter that would leave the range of its 8 bytes.
#[cold]
fn past_the_end(counted: i64, by: i64) -> PyErr {
    error::invalid(format!("a counter is a number of 64 bits with a sign, and {counted} and {by} make none"))
}

#[pymethods]
impl Keyspace {
    #[new]
    #[pyo3(signature = (store, name, schema=None, ordered=true, *, preset=None, merge=None, ttl=None, create=true))]
    #[expect(clippy::too_many_arguments, reason = "they are named arguments in Python")]
    fn new(
        py: Python<'_>,
        store: &Store,
        name: &str,
        schema: Option<&str>,
        ordered: bool,
        preset: Option<&str>,
        merge: Option<String>,
        ttl: Option<Ttl>,
        create: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let db = store.db()?;
        if merge.is_some() && ttl.is_some() {
            let what = "items of a keyspace that takes merges can't expire; leave out merge or ttl";
            return Err(error::invalid(what));
        }
        let existing = db.get_keyspace(name);
        if existing.is_none() && (!create || store.is_read_only()) {
            return Err(error::no_keyspace(format!("there is no keyspace {name:?}")));
        }
        let wanted = schema.map(|text| store::schema(text, ordered)).transpose()?;
        let design = preset.map(siltstone::parse_design).transpose().or_raise(py)?;
        let keyspace = match existing {
            Some(existing) if wanted.is_none() && merge.is_none() => existing,
            existing => {
                let schema =
                    wanted.or(existing.map(|keyspace| keyspace.schema())).unwrap_or(siltstone::Schema::Point);
                let options = KeyspaceOptions { schema, design, merge_operator: merge };
                py.detach(|| db.keyspace(name, options)).or_raise(py)?
            }
        };
        let reader = Reader::of(Source { keyspace, at: None }, store.lease());
        let this = Self { db: Handle::new(db.clone(), store.lease()), ttl: ttl.map(|ttl| ttl.0) };
        Ok(PyClassInitializer::from(reader).add_subclass(this))
    }

    /// Seconds that items live which are written through this handle, unless the write says otherwise; None
    /// for ever.
    #[getter]
    fn default_ttl(&self) -> Option<f64> {
        self.ttl.map(|ttl| ttl.as_secs_f64())
    }

    fn __setitem__<'py>(this: PyRef<'py, Self>, key: Bytes, value: Bytes) -> PyResult<()> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let (key, value) = (&*key, &*value);
        py.detach(|| open.put(key, value, open.ttl, None)).or_raise(py)
    }

    fn __delitem__<'py>(this: PyRef<'py, Self>, key: Bytes) -> PyResult<()> {
        let (py, open, bytes) = (this.py(), Self::open(&this)?, &*key);
        let existed = py.detach(|| {
            let mut existed = false;
            open.change(bytes, |old| {
                existed = old.is_some();
                Update::Delete
            })?;
            Ok::<_, siltstone::Error>(existed)
        });
        match existed.or_raise(py)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(PyBytes::new(py, bytes).unbind())),
        }
    }

    /// Sets `key` to `value`; gone after `ttl` seconds, if given. With `sync` it is on the device before this
    /// returns.
    #[pyo3(signature = (key, value, *, ttl=None, sync=None))]
    fn put<'py>(
        this: PyRef<'py, Self>,
        key: Bytes,
        value: Bytes,
        ttl: Option<Ttl>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let (key, value, ttl) = (&*key, &*value, ttl.map(|ttl| ttl.0).or(open.ttl));
        py.detach(|| open.put(key, value, ttl, sync)).or_raise(py)
    }

    /// Removes `key`; a missing key is fine, and is not looked for.
    fn delete<'py>(this: PyRef<'py, Self>, key: Bytes) -> PyResult<()> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        py.detach(|| open.keyspace.delete(key)).or_raise(py)
    }

    /// Removes `keys`, all together or none; missing ones are fine.
    fn delete_many<'py>(this: PyRef<'py, Self>, keys: Column) -> PyResult<()> {
        let (py, open, keys) = (this.py(), Self::open(&this)?, keys.slices()?);
        py.detach(|| open.keyspace.delete_many(&keys)).or_raise(py)
    }

    /// Removes every key with `prefix`, in constant time.
    fn delete_prefix<'py>(this: PyRef<'py, Self>, prefix: Bytes) -> PyResult<()> {
        let (py, open, prefix) = (this.py(), Self::open(&this)?, &*prefix);
        py.detach(|| open.keyspace.delete_prefix(prefix)).or_raise(py)
    }

    /// Removes everything, at once for readers, and in a crash wholly or not at all. That takes as long
    /// whatever the keyspace holds; snapshots and iterators keep what they saw.
    fn clear(this: PyRef<'_, Self>) -> PyResult<()> {
        let (py, open) = (this.py(), Self::open(&this)?);
        py.detach(|| open.keyspace.clear()).or_raise(py)
    }

    /// Gives the keyspace another design while it is in use: the name of a preset, or a design as JSON, as
    /// `siltstone advise --json` prints it. What is written from now on is laid out by it, and what is there
    /// is rewritten in the background, which `stats()` shows as `redesign`. Raises InvalidInputError
    /// where there is no such design, or it does not suit the schema or the memory budget.
    fn redesign(this: PyRef<'_, Self>, design: &str) -> PyResult<()> {
        let (py, open, design) =
            (this.py(), Self::open(&this)?, siltstone::parse_design(design).or_raise(this.py())?);
        py.detach(|| open.keyspace.redesign(design)).or_raise(py)
    }

    /// Gives the keyspace another schema while it is in use, and the design of a preset with it if one is
    /// named. Returns at once: all items are copied in the background, and until the keyspace has the schema
    /// it is read by the old one, and keys that are written have to fit both. `wait_for_schema` waits for it,
    /// and raises BadKeyError where a key that is there does not fit. Raises InvalidInputError where the
    /// design does not suit the schema or the memory budget, and where another change of the schema is under
    /// way.
    #[pyo3(signature = (schema, ordered=true, *, preset=None))]
    fn change_schema(
        this: PyRef<'_, Self>,
        schema: &str,
        ordered: bool,
        preset: Option<&str>,
    ) -> PyResult<()> {
        let (py, open, schema) = (this.py(), Self::open(&this)?, store::schema(schema, ordered)?);
        let design = preset.map(siltstone::parse_design).transpose().or_raise(py)?;
        py.detach(|| open.keyspace.change_schema(schema, design)).or_raise(py)
    }

    /// Waits until the keyspace has the schema that it was last given. Raises BadKeyError where an item's key
    /// does not fit that schema, MergeFailedError where the merges of one can't be carried out,
    /// InvalidInputError where the change was cancelled, NoKeyspaceError where the keyspace was dropped, and
    /// ReadOnlyError where the change is under way and the store is open for reading.
    fn wait_for_schema(this: PyRef<'_, Self>) -> PyResult<()> {
        let (py, open) = (this.py(), Self::open(&this)?);
        py.detach(|| open.keyspace.wait_for_schema()).or_raise(py)
    }

    /// Lets the keyspace keep its schema, if a change of it is under way; says whether one was. Raises
    /// NoKeyspaceError where the keyspace was dropped, and the errors of writing to the store.
    fn cancel_schema_change(this: PyRef<'_, Self>) -> PyResult<bool> {
        let (py, open) = (this.py(), Self::open(&this)?);
        py.detach(|| open.keyspace.cancel_schema_change()).or_raise(py)
    }

    /// Returns about how many items there are, or how many have `prefix`. Of all items nothing is read: it
    /// is exact where no key was ever written twice, deleted or expired. Those of a prefix are counted up to
    /// a few thousand, and beyond that reckoned from the pages that hold them.
    #[pyo3(signature = (prefix=None))]
    fn approximate_len<'py>(this: PyRef<'py, Self>, prefix: Option<Bytes>) -> PyResult<u64> {
        let (py, open, prefix) = (this.py(), Self::open(&this)?, prefix.as_deref());
        py.detach(|| match prefix {
            None => open.keyspace.approximate_len(),
            Some(prefix) => open.keyspace.approximate_len_of(prefix),
        })
        .or_raise(py)
    }

    /// The workload that it has had of late, as JSON.
    fn _workload_json(this: PyRef<'_, Self>) -> PyResult<String> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let workload = py.detach(|| open.keyspace.workload());
        serde_json::to_string(&workload).map_err(|e| error::invalid(e.to_string()))
    }

    /// Sets `keys` to `values`, in batches that are each atomic.
    #[pyo3(signature = (keys, values, *, ttl=None, sync=None))]
    fn _put_columns<'py>(
        this: PyRef<'py, Self>,
        keys: Column,
        values: Column,
        ttl: Option<Ttl>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let (items, ttl) = (zipped(&keys, &values)?, ttl.map(|ttl| ttl.0).or(open.ttl));
        py.detach(|| open.put_many(&items, ttl, sync)).or_raise(py)
    }

    /// Adds those of `keys` that have no value yet; returns of each whether it was new.
    #[pyo3(signature = (keys, values=None))]
    fn _add_columns<'py>(
        this: PyRef<'py, Self>,
        keys: Column,
        values: Option<Column>,
    ) -> PyResult<Vec<bool>> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let items = match &values {
            Some(values) => zipped(&keys, values)?,
            None => keys.slices()?.into_iter().map(|key| (key, &[] as &[u8])).collect(),
        };
        py.detach(|| {
            let mut is_new = Vec::with_capacity(items.len());
            for chunk in items.chunks(ADDED_TOGETHER) {
                match open.ttl {
                    None => is_new.extend(open.keyspace.add_many(chunk.iter().copied())?),
                    Some(_) => {
                        for (key, value) in chunk {
                            is_new.push(insert(&open, key, value, open.ttl)?);
                        }
                    }
                }
            }
            Ok::<_, siltstone::Error>(is_new)
        })
        .or_raise(py)
    }

    /// Sets `key` to `value` unless it has one; returns whether it was new.
    #[pyo3(signature = (key, value=Bytes::Copied(Vec::new()), *, ttl=None))]
    fn insert_if_absent<'py>(
        this: PyRef<'py, Self>,
        key: Bytes,
        value: Bytes,
        ttl: Option<Ttl>,
    ) -> PyResult<bool> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let (key, value, ttl) = (&*key, &*value, ttl.map(|ttl| ttl.0).or(open.ttl));
        py.detach(|| insert(&open, key, value, ttl)).or_raise(py)
    }

    /// Sets `key` to `new` if it has the value `expected`, and returns whether it did; None stands for no
    /// value, both ways. A time to live stays as it is.
    fn compare_and_set<'py>(
        this: PyRef<'py, Self>,
        key: Bytes,
        expected: Option<Bytes>,
        new: Option<Bytes>,
    ) -> PyResult<bool> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        let (expected, new) = (expected.as_deref(), new.as_deref());
        let compared = match (expected, new, open.ttl) {
            (None, Some(new), Some(_)) => py.detach(|| {
                let mut is_set = false;
                let inserted = |old: Option<siltstone::Old<'_>>| {
                    is_set = old.is_none();
                    if is_set { lived(new.to_vec(), open.ttl) } else { Update::Keep }
                };
                open.change(key, inserted).map(|()| is_set)
            }),
            _ => py.detach(|| Ok(open.keyspace.compare_and_set(key, expected, new)?.is_set())),
        };
        compared.or_raise(py)
    }

    /// Sets `key` to what `change` makes of its value, None where it has none, atomically; where that is
    /// None, removes it. Returns the new value. Where another writer came between, `change` runs again, so it
    /// must not write to `key` itself. A time to live stays as it is.
    fn modify<'py>(
        this: PyRef<'py, Self>,
        key: Bytes,
        change: Py<PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        let new = py.detach(|| {
            open.keyspace.update_with(key, &WriteOptions::default(), |old| {
                Python::attach(|py| {
                    let is_new = old.is_none();
                    let old = old.map(|old| PyBytes::new(py, old.value));
                    let new: Option<Bytes> = change.bind(py).call1((old,))?.extract()?;
                    Ok::<_, Failure>(match new {
                        None => Update::Delete,
                        Some(new) if is_new => lived(new.to_vec(), open.ttl),
                        Some(new) => Update::Put(new.to_vec()),
                    })
                })
            })
        });
        Ok(new.or_raise(py)?.map(|new| PyBytes::new(py, &new)))
    }

    /// Removes `key` and returns its value, or `None`.
    fn _take<'py>(this: PyRef<'py, Self>, key: Bytes) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        Ok(py.detach(|| open.take(key)).or_raise(py)?.map(|value| PyBytes::new(py, &value)))
    }

    /// Returns the value of `key`; where it has none, sets it to `default`, and returns that.
    fn _get_or_insert<'py>(
        this: PyRef<'py, Self>,
        key: Bytes,
        default: Bytes,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let (key, default) = (&*key, &*default);
        let mut found = default.to_vec();
        py.detach(|| {
            open.change(key, |old| match old {
                Some(old) => {
                    found = old.value.to_vec();
                    Update::Keep
                }
                None => lived(default.to_vec(), open.ttl),
            })
        })
        .or_raise(py)?;
        Ok(PyBytes::new(py, &found))
    }

    /// Returns the seconds that `key` has still to live, None where it does not expire. Raises KeyError where
    /// it has no value.
    fn ttl<'py>(this: PyRef<'py, Self>, key: Bytes) -> PyResult<Option<f64>> {
        let (py, open, bytes) = (this.py(), Self::open(&this)?, &*key);
        let mut remaining = None;
        py.detach(|| {
            open.change(bytes, |old| {
                remaining = old.map(|old| old.remaining);
                Update::Keep
            })
        })
        .or_raise(py)?;
        let missing = || PyKeyError::new_err(PyBytes::new(py, bytes).unbind());
        Ok(remaining.ok_or_else(missing)?.map(|left| left.as_secs_f64()))
    }

    /// Lets `key` live for `ttl` seconds from now, or for ever with None; returns whether it has a value.
    #[pyo3(signature = (key, ttl))]
    fn expire<'py>(this: PyRef<'py, Self>, key: Bytes, ttl: Option<Ttl>) -> PyResult<bool> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        let mut existed = false;
        py.detach(|| {
            open.change(key, |old| match old {
                Some(old) => {
                    existed = true;
                    lived(old.value.to_vec(), ttl.map(|ttl| ttl.0))
                }
                None => Update::Keep,
            })
        })
        .or_raise(py)?;
        Ok(existed)
    }

    /// Merges `operand` into the value of `key`, as the keyspace's merge operator does it, without reading
    /// it.
    fn merge<'py>(this: PyRef<'py, Self>, key: Bytes, operand: Bytes) -> PyResult<()> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let (key, operand) = (&*key, &*operand);
        py.detach(|| open.keyspace.merge(key, operand)).or_raise(py)
    }

    /// Adds `by` to the counter `key`, without reading it, modulo 2^64. The keyspace has the merge operator
    /// "add".
    #[pyo3(signature = (key, by=1))]
    fn count<'py>(this: PyRef<'py, Self>, key: Bytes, by: i64) -> PyResult<()> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        py.detach(|| open.keyspace.merge(key, by.to_le_bytes())).or_raise(py)
    }

    /// Returns the counter `key`; 0 where it has no value.
    fn counter<'py>(this: PyRef<'py, Self>, key: Bytes) -> PyResult<i64> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        let value = py.detach(|| open.keyspace.get(key)).or_raise(py)?;
        number(value.as_deref()).or_raise(py)
    }

    /// Adds `by` to the counter `key`, atomically, and returns what it comes to, a signed number of 64 bits. Any
    /// keyspace has counters.
    #[pyo3(signature = (key, by=1))]
    fn increment<'py>(this: PyRef<'py, Self>, key: Bytes, by: i64) -> PyResult<i64> {
        let (py, open, key) = (this.py(), Self::open(&this)?, &*key);
        let new = py.detach(|| {
            open.keyspace.update_with(key, &WriteOptions::default(), |old| {
                let counted = number(old.map(|old| old.value))?;
                let sum = counted.checked_add(by).ok_or_else(|| past_the_end(counted, by))?;
                let sum = sum.to_le_bytes().to_vec();
                Ok::<_, Failure>(match (old, open.ttl) {
                    (None, Some(ttl)) => Update::PutWithTtl(sum, ttl),
                    _ => Update::Put(sum),
                })
            })
        });
        number(new.or_raise(py)?.as_deref()).or_raise(py)
    }

    /// Builds tables of the items that `chunks` yields; see `build.rs`. Returns what that took.
    #[pyo3(signature = (chunks, *, key, value, ttl=None, sort_memory=None, progress=None))]
    fn _bulk_build<'py>(
        this: PyRef<'py, Self>,
        chunks: Bound<'py, PyAny>,
        key: &str,
        value: &str,
        ttl: Option<Ttl>,
        sort_memory: Option<store::Size>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, open) = (this.py(), Self::open(&this)?);
        let names = build::Names { key: key.to_owned(), value: value.to_owned() };
        let ttl = ttl.map(|ttl| ttl.0).or(open.ttl);
        let options = siltstone::IngestOptions {
            sort_bytes: sort_memory.map(|size| usize::try_from(size.0).unwrap_or(usize::MAX)),
            progress: None,
        };
        build::build(py, open.keyspace, &chunks, &names, ttl, options, progress.map(Progress::new))
    }

    /// Replaces what this keyspace holds by what `built`, another one of the store with the same schema,
    /// holds, which is gone then: at once for readers, and in a crash wholly or not at all.
    fn replace_by(this: PyRef<'_, Self>, built: PyRef<'_, Self>) -> PyResult<()> {
        let (py, open, built) = (this.py(), Self::open(&this)?, Self::open(&built)?.keyspace.clone());
        py.detach(|| open.db.replace(open.keyspace, built)).or_raise(py)
    }
}

/// Sets `key` to `value` unless it has one; returns whether it was new.
fn insert(open: &Open<'_>, key: &[u8], value: &[u8], ttl: Option<Duration>) -> siltstone::Result<bool> {
    if ttl.is_none() {
        return open.keyspace.insert_if_absent(key, value);
    }
    let mut is_new = false;
    open.change(key, |old| {
        is_new = old.is_none();
        if is_new { lived(value.to_vec(), ttl) } else { Update::Keep }
    })?;
    Ok(is_new)
}
