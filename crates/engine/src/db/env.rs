//! What every part of an open store uses: its disk, options, reader and memory, and whether it is well.
//!
//! `Env` knows no keyspace. Every wing of `db/` holds it, and none is held by it.

use super::clock::StoreClock;
use super::health::Health;
use super::signals::Signals;
use crate::cache::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::io::Disk;
use crate::memory::MemoryBudget;
use crate::options::Options;
use crate::stats::StoreCounters;
use crate::sync::atomic::Ordering;
use crate::sync::leaf;
use crate::sync::thread::{self, JoinHandle};
use crate::table::envelope::TableMeta;
use crate::table::{Table, Trash};
use siltstone_design::{Design, Encoder, HashSecret, WriteBufferSpec};
use std::path::PathBuf;
use std::sync::Arc;

/// Tells the stores of one process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(u64);

impl StoreId {
    /// Returns a number that no other store of this process has.
    pub fn next() -> Self {
        static STORES: leaf::atomic::AtomicU64 = leaf::atomic::AtomicU64::new(1);
        Self(STORES.fetch_add(1, Ordering::Relaxed))
    }
}

/// Write buffers that the reserve has room for, whatever the options say.
const RESERVED_BUFFERS: u64 = 3;
/// Bytes that an item of a log store is taken to have.
const LOGGED_ITEM_BYTES: u64 = 64;

/// Free bytes of the disk from which on nobody asks how many are needed, if they were not many before.
const AMPLE_BYTES: u64 = 16 << 30;

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
    pub clock: StoreClock,
}

impl Env {
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        self.reader.memory()
    }

    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
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

    /// Bytes of the disk that work may fill, where these are few.
    pub fn free_bytes(&self) -> u64 {
        if !self.health.space_is_low() {
            return u64::MAX;
        }
        self.disk.free_bytes(&self.path).unwrap_or(u64::MAX)
    }

    /// Looks whether the disk has room for more than deletes, of which background work needs `needed` bytes.
    /// Where much is free, `needed` is not asked.
    pub fn check_space(&self, needed: impl FnOnce() -> u64) {
        let Ok(free) = self.disk.free_bytes(&self.path) else { return };
        let known = self.reserve_bytes();
        if free < AMPLE_BYTES.max(known.saturating_mul(4)) {
            let least = self.buffer_bytes().max(self.options.reserve_bytes);
            self.health.reserve_bytes.store(needed().max(least), Ordering::Relaxed);
        }
        self.health.set_space_low(free < self.reserve_bytes());
    }

    /// Bytes of the disk below which nothing but deletes is taken.
    pub fn reserve_bytes(&self) -> u64 {
        self.health.reserve_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are kept free for write buffers that become tables.
    pub fn buffer_bytes(&self) -> u64 {
        self.health.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Keeps room for the write buffers of a keyspace of `design`: what is in them when the disk is full has
    /// to become tables before anything of the log can go, and so has what deletes it.
    pub fn keep_room_for(&self, design: &Design) {
        let buffer_bytes = match design.write_buffer {
            WriteBufferSpec::MemTable { bytes } => bytes,
            WriteBufferSpec::LogStore { entries } => u64::from(entries) * LOGGED_ITEM_BYTES,
        };
        let bytes = buffer_bytes.saturating_mul(RESERVED_BUFFERS);
        self.health.buffer_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Notes that an operation failed if it met a full disk, which passes.
    pub fn note_full_disk(&self, error: &Error) {
        if error.kind() == ErrorKind::StorageFull {
            self.health.set_space_low(true);
        }
    }
}
