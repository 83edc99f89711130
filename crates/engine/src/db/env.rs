//! What every part of an open store uses: its disk, options, reader and memory, and whether it is well.
//!
//! `Env` knows no keyspace. Every wing of `db/` holds it, and none is held by it.

use super::health::Health;
use super::signals::Signals;
use crate::cache::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{DirLock, Disk};
use crate::memory::MemoryBudget;
use crate::options::Options;
use crate::stats::StoreCounters;
use crate::table::envelope::TableMeta;
use crate::table::{Table, Trash};
use parking_lot::Mutex;
use siltstone_design::{Encoder, HashSecret};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// Tells the stores of one process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(u64);

impl StoreId {
    /// Returns a number that no other store of this process has.
    pub fn next() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(1);
        Self(STORES.fetch_add(1, Ordering::Relaxed))
    }
}

/// What every part of an open store uses.
pub(crate) struct Env {
    pub store: StoreId,
    pub path: PathBuf,
    /// Poisons the store where a failure leaves it in doubt: a
    /// [`CheckedDisk`](crate::io::checked::CheckedDisk).
    pub disk: Arc<dyn Disk>,
    pub options: Options,
    pub secret: HashSecret,
    pub reader: Arc<Reader>,
    pub counters: Arc<StoreCounters>,
    pub trash: Arc<Trash>,
    pub health: Health,
    pub signals: Signals,
    /// Held until the store is closed; none where it is read-only.
    pub lock: Mutex<Option<Box<dyn DirLock>>>,
}

impl Env {
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        self.reader.memory()
    }

    pub fn now_ms(&self) -> u64 {
        self.disk.now_ms()
    }

    /// Returns an error if the store takes no writes at all.
    pub fn check_writable(&self) -> Result<()> {
        self.health.check_writable()
    }

    /// Makes a table of its description.
    pub fn open_table(&self, meta: &TableMeta, encoder: Encoder) -> Arc<Table> {
        Arc::new(Table::new(meta.clone(), encoder, Arc::clone(&self.trash)))
    }

    /// Makes the names of new tables durable; their bytes are already.
    pub fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir(&self.path).map_err(|error| Error::io(&error, "syncing directory", &self.path))
    }

    /// Starts a thread, named after what it does.
    pub fn spawn(&self, what: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        let builder = thread::Builder::new().name(format!("siltstone-{what}"));
        builder.spawn(work).map_err(|error| Error::io(&error, "starting a thread for", &self.path))
    }

    /// Removes the files of tables that nobody holds any more.
    pub fn empty_trash(&self) {
        for (table, pages) in self.trash.take() {
            self.reader.forget(table, pages);
            // Left behind, it is removed as an orphan at the next open.
            let _ = self.disk.remove(&self.reader.path(table));
        }
    }

    /// Looks whether the disk has room for more than deletes.
    pub fn check_space(&self) {
        if let Ok(free) = self.disk.free_bytes(&self.path) {
            self.health.set_space_low(free < self.options.reserve_bytes);
        }
    }

    /// Notes that an operation failed if it met a full disk, which passes.
    pub fn note_full_disk(&self, error: &Error) {
        if error.kind() == ErrorKind::StorageFull {
            self.health.set_space_low(true);
        }
    }
}
