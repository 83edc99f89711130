//! Stores, what several of them share, and snapshots.

use crate::error::{self, OrRaise};
use crate::handle::{Handle, Lease};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDelta, PyInt};
use siltstone::{Backups, Db, Durability, Options, ResourceOptions, Schema, SuffixOrder};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A number of bytes: an integer, or text such as `"64M"` or `"1.5G"`, where K, M, G and T count by 1024.
#[derive(Clone, Copy)]
pub struct Size(pub u64);

impl FromPyObject<'_, '_> for Size {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = given.extract::<u64>() {
            return Ok(Self(bytes));
        }
        if given.is_instance_of::<PyInt>() {
            return Err(error::invalid(format!(
                "{} bytes are no size; give a number from 1 MiB on",
                given.str()?
            )));
        }
        let Ok(text) = given.extract::<String>() else {
            return Err(PyTypeError::new_err("a size is a number of bytes, or text such as \"64M\""));
        };
        let refused =
            || error::invalid(format!("{text:?} is no size; write bytes, or a number with K, M, G or T"));
        let trimmed = text.trim();
        let number = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match trimmed.get(number.len()..).unwrap_or_default().to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(refused()),
        };
        let number: f64 = number.trim().parse().map_err(|_| refused())?;
        let bytes = number * (1u64 << shift) as f64;
        if !(0.0..1e18).contains(&bytes) {
            return Err(refused());
        }
        Ok(Self(bytes as u64))
    }
}

/// A time to live: seconds, or a `timedelta`.
#[derive(Clone, Copy)]
pub struct Ttl(pub Duration);

impl FromPyObject<'_, '_> for Ttl {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let ttl = match given.extract::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => match given.extract::<Duration>() {
                Ok(ttl) => Some(ttl),
                Err(_) if given.is_instance_of::<PyDelta>() => None,
                Err(_) => {
                    let what = "a time to live is a number of seconds, or a datetime.timedelta";
                    return Err(PyTypeError::new_err(what));
                }
            },
        };
        match ttl {
            Some(ttl) if !ttl.is_zero() => Ok(Self(ttl)),
            _ => Err(error::invalid(
                "a time to live is a number of seconds above 0, and not endless; leave it out for ever",
            )),
        }
    }
}

/// What a store may use unless it says so.
const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

/// How durable a write is to be, where it says so.
pub fn durability(sync: Option<bool>) -> siltstone::WriteOptions {
    let durability = sync.map(|sync| if sync { Durability::Synced } else { Durability::Buffered });
    siltstone::WriteOptions { durability }
}

/// Reads a schema as people write it.
pub fn schema(text: &str, ordered: bool) -> PyResult<Schema> {
    let schema = text.parse().map_err(|why: String| error::invalid(why))?;
    Ok(match schema {
        Schema::SemiSorted { prefix, .. } if !ordered => {
            Schema::SemiSorted { prefix, suffix: SuffixOrder::Hashed }
        }
        schema => schema,
    })
}

/// Makes a store in the new directory `path` of a backup in the directory of backups `backups`: the one with
/// this `number`, or the last. Returns its number.
#[pyfunction]
#[pyo3(signature = (backups, path, number=None))]
pub fn restore(py: Python<'_>, backups: PathBuf, path: PathBuf, number: Option<u64>) -> PyResult<u64> {
    py.detach(|| {
        let backups = Backups::open(&backups)?;
        let number = match number {
            Some(number) => number,
            None => backups.list()?.last().map_or(0, |last| last.number),
        };
        Ok::<_, siltstone::Error>(backups.restore(number, &path)?.number)
    })
    .or_raise(py)
}

/// Memory, threads and limits that several stores of a process share: give it to each `siltstone.open`.
#[pyclass(frozen, module = "siltstone")]
pub struct Resources {
    inner: Handle<siltstone::Resources>,
}

#[pymethods]
impl Resources {
    #[new]
    #[pyo3(signature = (memory=Size(DEFAULT_MEMORY_BYTES), *, threads=2, max_open_files=512))]
    fn new(py: Python<'_>, memory: Size, threads: usize, max_open_files: usize) -> PyResult<Self> {
        let options = ResourceOptions {
            memory_budget_bytes: memory.0,
            background_threads: threads,
            max_open_files,
            ..ResourceOptions::default()
        };
        let lease = Lease::new()?;
        Ok(Self { inner: Handle::new(siltstone::Resources::new(options).or_raise(py)?, &lease) })
    }

    /// Bytes that the stores hold together.
    #[getter]
    fn memory_bytes(&self) -> PyResult<u64> {
        Ok(self.inner.get()?.stats().memory.total)
    }

    /// How many stores are open with it.
    #[getter]
    fn stores(&self) -> PyResult<usize> {
        Ok(self.inner.get()?.stats().stores)
    }
}

/// An open store. Made by `siltstone.open`.
#[pyclass(frozen, subclass, module = "siltstone._siltstone")]
pub struct Store {
    db: Handle<Db>,
    is_read_only: bool,
}

impl Store {
    #[inline]
    pub fn db(&self) -> PyResult<&Db> {
        self.db.get()
    }

    /// Whether it was opened for reading alone.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The store's lease.
    pub fn lease(&self) -> &Arc<Lease> {
        self.db.lease()
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (
        path, memory=None, *, create=true, read_only=false, durability="buffered", sync_interval=1.0,
        threads=1, preset=None, auto_design=None, direct=false, max_open_files=512,
        log_limit=Size(256 << 20), resources=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named arguments in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        memory: Option<Size>,
        create: bool,
        read_only: bool,
        durability: &str,
        sync_interval: f64,
        threads: usize,
        preset: Option<&str>,
        auto_design: Option<&str>,
        direct: bool,
        max_open_files: usize,
        log_limit: Size,
        resources: Option<&Resources>,
    ) -> PyResult<Self> {
        if memory.is_some() && resources.is_some() {
            return Err(error::invalid("memory is what the resources say; give one or the other"));
        }
        let durability = match durability {
            "buffered" => Durability::Buffered,
            "synced" => Durability::Synced,
            other => {
                return Err(error::invalid(format!(
                    "durability is \"buffered\" or \"synced\", not {other:?}"
                )));
            }
        };
        let Ok(sync_interval) = Duration::try_from_secs_f64(sync_interval) else {
            return Err(error::invalid("sync_interval is a number of seconds; 0 for no background syncs"));
        };
        let mut options = Options {
            create_if_missing: create,
            memory_budget_bytes: memory.map_or(DEFAULT_MEMORY_BYTES, |memory| memory.0),
            max_wal_bytes: log_limit.0,
            durability,
            sync_interval_ms: u64::try_from(sync_interval.as_millis()).unwrap_or(u64::MAX),
            background_threads: threads,
            direct_reads: direct,
            max_open_files,
            ..Options::default()
        };
        if let Some(shared) = resources {
            options.resources = Some(shared.inner.get()?.clone());
        }
        if let Some(name) = preset {
            options = py.detach(|| options.with_preset(name)).or_raise(py)?;
        }
        if let Some(text) = auto_design {
            let read = text.parse().map_err(|why| error::invalid(format!("auto_design: {why}")));
            options.auto_design = read?;
        }
        let open = || if read_only { Db::open_read_only(&path, options) } else { Db::open(&path, options) };
        let lease = Lease::new()?;
        Ok(Self { db: Handle::new(py.detach(open).or_raise(py)?, &lease), is_read_only: read_only })
    }

    /// The store's directory.
    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        Ok(self.db.get_of_closed()?.path().to_owned())
    }

    /// Returns the names of the keyspaces, sorted.
    fn keyspaces(&self) -> PyResult<Vec<String>> {
        Ok(self.db()?.keyspaces())
    }

    /// Removes a keyspace with everything in it. Who still has it can read what was there; writes raise
    /// NoKeyspaceError.
    fn drop_keyspace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let db = self.db()?;
        py.detach(|| db.drop_keyspace(name)).or_raise(py)
    }

    /// Makes everything written so far survive a power cut.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.db()?;
        py.detach(|| db.sync()).or_raise(py)
    }

    /// Writes the write buffers of all keyspaces to tables, and waits for it.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.db()?;
        py.detach(|| db.flush()).or_raise(py)
    }

    /// Waits until no flush or compaction is due.
    fn wait_until_idle(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.db()?;
        py.detach(|| db.wait_until_idle()).or_raise(py)
    }

    /// Makes a store in the new directory `path` that holds what this one holds now, mostly by hard links.
    fn checkpoint(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let db = self.db()?;
        py.detach(|| db.checkpoint(path)).or_raise(py)
    }

    /// Adds a backup of what the store holds now to the directory of backups `path`, and returns its number.
    /// Only what changed since the last one is brought there. `siltstone.restore` makes a store of it.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let db = self.db()?;
        Ok(py.detach(|| db.backup(path)).or_raise(py)?.number)
    }

    /// Reads every byte and checks it; returns what is wrong, a line each, or an empty list.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let db = self.db()?;
        Ok(py.detach(|| db.verify(&mut |_| {})).or_raise(py)?.problems)
    }

    /// The store's statistics, as JSON.
    fn _stats_json(&self, py: Python<'_>) -> PyResult<String> {
        let db = self.db()?;
        let stats = py.detach(|| db.stats());
        serde_json::to_string(&stats).map_err(|e| error::invalid(e.to_string()))
    }

    /// Closes the store for everyone who uses it. What is asked of it afterwards raises `ClosedError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.db.get_of_closed()?.clone();
        let closed = py.detach(|| db.close());
        self.lease().end();
        closed.or_raise(py)
    }
}

/// All keyspaces of a store as they were at one moment. Made by `Store.snapshot`. It pins files of the store
/// until it is closed or forgotten.
#[pyclass(frozen, subclass, module = "siltstone._siltstone")]
pub struct Snapshot {
    inner: Handle<Arc<siltstone::Snapshot>>,
}

impl Snapshot {
    #[inline]
    pub fn get(&self) -> PyResult<&Arc<siltstone::Snapshot>> {
        self.inner.get()
    }

    /// The lease of its store.
    pub fn lease(&self) -> &Arc<Lease> {
        self.inner.lease()
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(py: Python<'_>, store: &Store) -> PyResult<Self> {
        let db = store.db()?;
        let snapshot = Arc::new(py.detach(|| db.snapshot()));
        Ok(Self { inner: Handle::new(snapshot, store.lease()) })
    }

    /// Seconds since it was taken.
    #[getter]
    fn age(&self) -> PyResult<f64> {
        Ok(self.get()?.age().as_secs_f64())
    }
}
