//! An open store: its four parts, and how they are put together and taken down.
//!
//! [`Env`] is what all parts use. [`Catalog`] holds the keyspaces and their versions. [`Committer`] takes
//! writes, [`Scheduler`] works in the background, and [`Searcher`] reads; these three know the other two
//! parts and not one another.

use super::background::{PooledStore, Scheduler};
use super::build::site::Builder;
use super::catalog::{Catalog, CatalogParts};
use super::clock::StoreClock;
use super::copy::{Copier, Stepped};
use super::env::{Env, StoreId};
use super::health::Health;
use super::read::Searcher;
use super::reporter::Reporter;
use super::sidecars::Sidecars;
use super::signals::Signals;
use super::write::operations::Operations;
use super::write::{Committed, Committer, Condition};
use crate::cache::Reader;
use crate::error::Result;
use crate::io::checked::CheckedDisk;
use crate::io::{DirLock, Disk};
use crate::options::{Durability, Options};
use crate::stats::StoreCounters;
use crate::sync::Mutex;
use crate::sync::thread::JoinHandle;
use crate::table::Trash;
use siltstone_design::HashSecret;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An open store; it closes with its last handle.
pub(crate) struct Store {
    pub env: Arc<Env>,
    pub catalog: Arc<Catalog>,
    pub committer: Arc<Committer>,
    pub scheduler: Arc<Scheduler>,
    pub searcher: Arc<Searcher>,
    pub sidecars: Arc<Sidecars>,
    pub copier: Arc<Copier>,
    /// The memory budget of whoever had it open for writing last; 0 where nobody said.
    pub noted_budget_bytes: u64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held until the store is closed; none where it is read-only.
    lock: Mutex<Option<Box<dyn DirLock>>>,
}

/// What opening a store brings together.
pub(crate) struct StoreParts {
    pub path: PathBuf,
    pub disk: Arc<CheckedDisk>,
    pub options: Options,
    pub counters: Arc<StoreCounters>,
    pub trash: Arc<Trash>,
    pub secret: HashSecret,
    /// None where the store is read-only.
    pub lock: Option<Box<dyn DirLock>>,
    pub reader: Arc<Reader>,
    pub catalog: CatalogParts,
    /// How far the store's clock came, as the manifest says.
    pub clock_ms: u64,
    /// The memory budget of whoever had it open for writing last, as the manifest says; 0 if it does not.
    pub noted_budget_bytes: u64,
}

impl Store {
    pub fn new(parts: StoreParts) -> Self {
        let StoreParts { options, disk, path, .. } = &parts;
        let disk: Arc<dyn Disk> = Arc::<CheckedDisk>::clone(disk);
        let reporter = Arc::new(Reporter::new(options, &disk, path, parts.lock.is_none()));
        let reserve_bytes = options.reserve_bytes;
        let is_ticking =
            options.background_threads > 0 && options.resources.is_none() && parts.lock.is_some();
        let clock = StoreClock::new(Arc::clone(&disk), parts.clock_ms, is_ticking);
        let env = Arc::new(Env {
            store: StoreId::next(),
            path: parts.path,
            health: Health::new(parts.lock.is_none(), parts.disk.poison(), reserve_bytes),
            disk: parts.disk,
            options: parts.options,
            secret: parts.secret,
            reader: parts.reader,
            counters: parts.counters,
            trash: parts.trash,
            signals: Signals::default(),
            clock,
        });
        let catalog = Arc::new(Catalog::new(&env, parts.catalog));
        let committer = Arc::new(Committer::new(&env, &catalog, &reporter));
        let sidecars = Arc::new(Sidecars::new(&env, &catalog));
        let scheduler = Arc::new(Scheduler::new(&env, &catalog, &sidecars, &reporter));
        let searcher = Arc::new(Searcher::new(&env, &catalog));
        let copier = Copier::new((&env, &catalog), &committer, &scheduler, &searcher, &reporter);
        let (lock, threads) = (Mutex::new(parts.lock), Mutex::default());
        let (copier, noted_budget_bytes) = (Arc::new(copier), parts.noted_budget_bytes);
        Self {
            env,
            catalog,
            committer,
            scheduler,
            searcher,
            sidecars,
            copier,
            noted_budget_bytes,
            threads,
            lock,
        }
    }

    /// Starts the store's threads: those of one that is open for writing, or the one that makes what a store
    /// for reading lacks.
    pub fn start(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        self.scheduler.fit_filters(&self.catalog.all());
        if self.env.check_writable().is_err() {
            threads.extend(self.scheduler.start_for_reading()?);
        } else {
            threads.extend(self.scheduler.start()?);
            threads.extend(self.searcher.start()?);
            if let Some(resources) = self.env.options.resources.as_ref().filter(|_| self.has_threads()) {
                let committer = Arc::clone(&self.committer);
                let member = PooledStore::new(&self.scheduler, move || committer.flush_largest());
                self.env.signals.join(resources.pool().join(Arc::new(member))?);
            }
            drop(threads);
            if self.catalog.all().iter().any(|keyspace| keyspace.open_schema_change().is_some()) {
                self.copy_in_background()?;
            }
        }
        Ok(())
    }

    /// Has keyspaces copied that are to have another schema: in a thread that ends with that, or step by step
    /// where the store has no threads.
    pub(super) fn copy_in_background(&self) -> Result<()> {
        if self.copier.request() && self.has_threads() {
            let copier = Arc::clone(&self.copier);
            let work = move || {
                if catch_unwind(AssertUnwindSafe(|| copier.work_until_done())).is_err() {
                    copier.note_panic();
                }
            };
            let mut threads = self.threads.lock();
            // Whoever closes the store waits for those that are there by then.
            self.env.check_writable()?;
            threads.push(self.env.spawn("copy", work).inspect_err(|_| self.copier.has_no_thread())?);
        }
        Ok(())
    }

    /// Runs one due piece of background work; false where nothing is due.
    pub fn step(&self) -> Result<bool> {
        Ok(self.scheduler.step()? || self.copier.step()? == Stepped::Worked)
    }

    /// Returns what bulk builds use of the store.
    pub(super) fn builder(&self) -> Builder<'_> {
        let Self { env, catalog, committer, scheduler, .. } = self;
        Builder { env, catalog, committer, scheduler }
    }

    /// Whether threads work for the store, its own or a pool's.
    fn has_threads(&self) -> bool {
        self.builder().has_threads()
    }

    /// Writes a batch and returns once it is visible and as durable as asked.
    pub fn write(
        &self,
        operations: Arc<Operations>,
        durability: Durability,
        conditions: Vec<Condition>,
    ) -> Result<Committed> {
        self.committer.check(&operations)?;
        if self.env.options.background_threads == 0 {
            // Errors stay with the work; it is tried again before the next write.
            let _ = self.scheduler.catch_up();
        }
        self.committer.write(operations, durability, conditions)
    }

    /// Waits until `is_done`, and works towards it where the store has no threads.
    pub fn wait_until(&self, mut is_done: impl FnMut() -> bool) -> Result<()> {
        // What failed before may have been mended, and is tried again.
        let failures = self.env.health.failures();
        while !is_done() {
            if self.env.options.background_threads == 0 {
                if !self.step()? {
                    break;
                }
                continue;
            }
            if !self.env.health.is_read_only() {
                self.env.check_writable()?;
            }
            self.env.health.check_open()?;
            if let Some(error) = self.env.health.background_error_since(failures) {
                return Err(error);
            }
            self.env.signals.wake();
            self.env.signals.wait_for_progress(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Stops the threads, makes everything written survive a power cut, and lets go of the directory.
    pub fn close(&self) -> Result<()> {
        let Env { health, signals, .. } = &*self.env;
        if !health.close() {
            return Ok(());
        }
        signals.wake();
        // Whoever writes by now is waited for, and whoever comes later finds the store closed: the directory
        // may be another process's soon.
        drop(self.committer.lock());
        if let Some(pool) = signals.pool() {
            pool.leave();
        }
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has nothing left to say.
            let _ = thread.join();
        }
        self.scheduler.wait_for_builds();
        self.copier.give_up();
        let synced = if health.is_poisoned() { Ok(()) } else { self.catalog.log.sync() };
        if synced.is_ok() && !health.is_poisoned() {
            self.catalog.note_log_end();
        }
        self.env.empty_trash();
        self.sidecars.save();
        *self.lock.lock() = None;
        synced
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Nobody is left to tell; whoever wants to know calls `Db::close`.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use crate::io::sim::SimDisk;
    use crate::{Db, ErrorKind, Options};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_close_waits_for_whoever_writes() {
        let disk = SimDisk::new();
        let options = || Options { background_threads: 0, reserve_bytes: 0, ..Options::default() };
        let open = || Db::open_on(Arc::new(disk.clone()), "/db", options());
        let db = open().unwrap();
        let writing = db.store.committer.lock();
        let closing = db.clone();
        let closer = std::thread::spawn(move || closing.close());
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            assert!(!closer.is_finished(), "somebody writes");
        }
        assert_eq!(open().unwrap_err().kind(), ErrorKind::Locked);
        // What comes later is refused before it changes a file.
        assert_eq!(db.store.catalog.log.rotate().unwrap_err().kind(), ErrorKind::Closed);
        drop(writing);
        closer.join().unwrap().unwrap();
        open().unwrap();
    }
}
