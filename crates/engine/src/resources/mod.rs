//! Resources: memory, threads and limits that several stores of a process share.
//!
//! The idea: a program with a thousand stores has one machine. What each store would have for itself, a
//! budget, threads, caches and a limit on writing, is here a value of its own, which any number of stores are
//! opened with. Whoever is used gets the memory, whoever makes writers wait gets the threads.
//!
//! Invariant: stores know nothing of one another. They share what is here, and one that fails, is poisoned or
//! is closed takes nothing from the others.

pub(crate) mod limit;
pub(crate) mod pool;
mod serve;

use crate::cache::Caches;
use crate::error::{Error, Result};
use crate::memory::{Holder, MemoryBudget};
use crate::stats::MemoryStats;
use limit::RateLimit;
use pool::Pool;
use std::fmt;
use std::sync::Arc;

/// Options of [`Resources`]. Build them from the default: `ResourceOptions { memory_budget_bytes: 1 << 30,
/// ..ResourceOptions::default() }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceOptions {
    /// Memory in bytes for all stores together; as
    /// [`Options::memory_budget_bytes`](crate::Options::memory_budget_bytes) is for one, with the same
    /// [least](crate::Options::LEAST_BUDGET_BYTES) and most. What is said there is not asked beside this.
    pub memory_budget_bytes: u64,
    /// Compaction threads for all stores, beside one that flushes and one that syncs; 1 to 64.
    pub background_threads: usize,
    /// Bytes per second of keys and values that the flushes of all stores write together; 0 = no limit. A
    /// limit holds while writers can go on.
    pub flush_bytes_per_second: u64,
    /// The same of compactions.
    pub compaction_bytes_per_second: u64,
    /// Open files kept for reading tables, of all stores together; at least 8, and at most half of what the
    /// process may open. Each store has about three files open beside these: its lock, its log and its
    /// manifest.
    pub max_open_files: usize,
}

impl Default for ResourceOptions {
    fn default() -> Self {
        Self {
            memory_budget_bytes: 256 << 20,
            background_threads: 2,
            flush_bytes_per_second: 0,
            compaction_bytes_per_second: 0,
            max_open_files: 512,
        }
    }
}

/// Memory, threads and limits that several stores share: one budget, one page cache and row cache, one pool
/// of threads, one limit on background writing, one number of open files. Clones are the same one.
///
/// Give it to every store in [`Options::resources`](crate::Options::resources). Threads start with the first
/// store and end with the last clone.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use siltstone::{Db, KeyspaceOptions, Options, ResourceOptions, Resources};
///
/// let resources = Resources::new(ResourceOptions { memory_budget_bytes: 64 << 20, ..ResourceOptions::default() })?;
/// let open = |name: &str| {
///     let options = Options { resources: Some(resources.clone()), ..Options::default() };
///     Db::open(dir.path().join(name), options)
/// };
/// let stores = [open("orders")?, open("customers")?, open("parts")?];
/// for store in &stores {
///     store.create_keyspace("items", KeyspaceOptions::default())?.put(b"key", b"value")?;
/// }
/// assert_eq!(resources.stats().stores, 3);
/// assert_eq!(resources.stats().memory.budget, 64 << 20);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Resources {
    inner: Arc<Inner>,
}

struct Inner {
    options: ResourceOptions,
    memory: Arc<MemoryBudget>,
    caches: Arc<Caches>,
    pool: Pool,
    flush_limit: Arc<RateLimit>,
    compaction_limit: Arc<RateLimit>,
}

/// What stores that share [`Resources`] hold together.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ResourceStats {
    /// Stores that are open.
    pub stores: usize,
    /// Threads that work in the background for all of them.
    pub threads: usize,
    /// Memory in bytes by holder, of all stores.
    pub memory: MemoryStats,
    /// Files of tables that are kept open for reading.
    pub open_files: usize,
}

impl Resources {
    /// Makes what stores can share. No thread starts before the first store is opened.
    ///
    /// ```
    /// use siltstone::{ResourceOptions, Resources};
    ///
    /// let options = ResourceOptions { memory_budget_bytes: 64 << 20, ..ResourceOptions::default() };
    /// let resources = Resources::new(options)?;
    /// assert_eq!(resources.stats().memory.budget, 64 << 20);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` for options that can't work; the message names the field.
    pub fn new(options: ResourceOptions) -> Result<Self> {
        check_budget(options.memory_budget_bytes)?;
        if !(1..=64).contains(&options.background_threads) {
            return Err(Error::invalid("background_threads: use 1 to 64"));
        }
        if options.max_open_files < 8 {
            return Err(Error::invalid("max_open_files: use at least 8"));
        }
        let memory = MemoryBudget::new(options.memory_budget_bytes);
        let inner = Inner {
            caches: Caches::new(&memory, affordable_files(options.max_open_files)),
            pool: Pool::new(&memory, options.background_threads),
            flush_limit: Arc::new(RateLimit::new(options.flush_bytes_per_second)),
            compaction_limit: Arc::new(RateLimit::new(options.compaction_bytes_per_second)),
            memory,
            options,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The options that it was made with.
    ///
    /// ```
    /// use siltstone::{ResourceOptions, Resources};
    ///
    /// let resources = Resources::new(ResourceOptions::default())?;
    /// assert_eq!(resources.options().background_threads, 2);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn options(&self) -> &ResourceOptions {
        &self.inner.options
    }

    /// What the stores hold together.
    ///
    /// ```
    /// use siltstone::{ResourceOptions, Resources};
    ///
    /// let resources = Resources::new(ResourceOptions::default())?;
    /// assert_eq!((resources.stats().stores, resources.stats().threads), (0, 0));
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn stats(&self) -> ResourceStats {
        let Inner { memory, caches, pool, .. } = &*self.inner;
        let held = |holder| memory.held_bytes(holder);
        let (memtable, filter, index) = (held(Holder::Memtable), held(Holder::Filter), held(Holder::Index));
        let (cache, compaction) = (caches.bytes(), held(Holder::Compaction));
        let total = memtable + filter + index + cache + compaction;
        let budget = memory.total_bytes();
        let memory = MemoryStats { memtable, filter, index, cache, compaction, total, budget };
        let open_files = caches.open_files();
        ResourceStats { stores: caches.users(), threads: pool.threads(), memory, open_files }
    }

    pub(crate) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.inner.memory
    }

    pub(crate) fn caches(&self) -> &Arc<Caches> {
        &self.inner.caches
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    pub(crate) fn flush_limit(&self) -> &Arc<RateLimit> {
        &self.inner.flush_limit
    }

    pub(crate) fn compaction_limit(&self) -> &Arc<RateLimit> {
        &self.inner.compaction_limit
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("options", &self.inner.options)
            .field("stores", &self.inner.caches.users())
            .finish_non_exhaustive()
    }
}

/// The least memory budget, of one store or of several.
pub(crate) const LEAST_BUDGET_BYTES: u64 = 1 << 20;

/// The most: what a process can address.
const MOST_BUDGET_BYTES: u64 = 1 << 46;

/// Checks that a memory budget is not too small for any store, and one that there could be.
pub(crate) fn check_budget(bytes: u64) -> Result<()> {
    if bytes > MOST_BUDGET_BYTES {
        return Err(Error::invalid(format_args!(
            "memory_budget_bytes: {bytes} is more than a process can address; use at most {MOST_BUDGET_BYTES} (64 TiB)"
        )));
    }
    if bytes < LEAST_BUDGET_BYTES {
        return Err(Error::invalid(format_args!(
            "memory_budget_bytes: {bytes} is too little; use at least {LEAST_BUDGET_BYTES} (1 MiB)"
        )));
    }
    Ok(())
}

/// Of `wanted` open files for tables, as many as the process may have: half of its limit, since logs,
/// manifests, what is being written and the program itself need some too.
pub(crate) fn affordable_files(wanted: usize) -> usize {
    let limit = crate::io::limits::most_open_files().map_or(u64::MAX, |limit| limit / 2);
    wanted.min(usize::try_from(limit).unwrap_or(usize::MAX))
}
