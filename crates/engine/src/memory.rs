//! The one memory budget, and who holds how much of it.
//!
//! Memtables, filters, indexes and compaction buffers reserve from the budget; the page cache gets what they leave. Memtables take
//! half of it at most: they are sealed early where it is small, and writers wait for flushes beyond that.
//! A filter or index that does not fit is simply not kept: lookups then read pages instead (SILT, SOSP'11 §5 calls
//! this fail-graceful indexing), and a later lookup asks again.

use parking_lot::Mutex;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a piece of pooled memory: a page of a table.
pub(crate) const PIECE_BYTES: usize = 4096;
/// The share of the budget that may wait in the pool to be used again.
const POOLED_SHARE: u64 = 64;
/// The share of the budget that background work takes per file, within bounds.
const CHUNK_SHARE: u64 = 256;
const LEAST_CHUNK_PAGES: u64 = 8;
const MOST_CHUNK_PAGES: u64 = 256;
/// The share of the budget that neither filters nor memtables get.
const KEPT_FROM_ALL: u64 = 8;

/// Who holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Memtable,
    Filter,
    Index,
    Compaction,
}

/// The budget of one store.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    total_bytes: u64,
    held: [AtomicU64; 4],
    /// What memtables will take, though they may not have it yet.
    reserved_for_memtables: AtomicU64,
    /// Pieces that are in nobody's hands.
    pool: Mutex<Vec<Piece>>,
}

/// Memory of [`PIECE_BYTES`] bytes. Cached pages and memtables are made of such pieces, which go from the one to the
/// other: the allocator, which keeps memory by the thread that asked for it, would fill up with holes between them.
pub(crate) type Piece = Box<[u8; PIECE_BYTES]>;

/// A piece that goes back to the pool when it is dropped.
#[derive(Debug)]
pub(crate) struct Pooled {
    piece: Option<Piece>,
    budget: Arc<MemoryBudget>,
}

impl Deref for Pooled {
    type Target = [u8; PIECE_BYTES];

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.piece.as_deref().unwrap_or(&[0; PIECE_BYTES])
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.budget.give_back(self.piece.take());
    }
}

impl MemoryBudget {
    pub fn new(total_bytes: u64) -> Arc<Self> {
        let (held, reserved_for_memtables, pool) = Default::default();
        Arc::new(Self { total_bytes, held, reserved_for_memtables, pool })
    }

    fn cell(&self, holder: Holder) -> &AtomicU64 {
        let [memtable, filter, index, compaction] = &self.held;
        match holder {
            Holder::Memtable => memtable,
            Holder::Filter => filter,
            Holder::Index => index,
            Holder::Compaction => compaction,
        }
    }

    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub fn held_bytes(&self, holder: Holder) -> u64 {
        self.cell(holder).load(Ordering::Relaxed)
    }

    /// Bytes that nobody has reserved: what the page cache may use.
    pub fn free_bytes(&self) -> u64 {
        let held: u64 = self.held.iter().map(|cell| cell.load(Ordering::Relaxed)).sum();
        self.total_bytes.saturating_sub(held)
    }

    /// What memtables may take together.
    pub fn most_memtable_bytes(&self) -> u64 {
        self.total_bytes / 2
    }

    /// Keeps room for two memtables of `head_bytes` of keys and values, so that filters loaded while memtables are small leave
    /// what they grow by.
    pub fn reserve_for_memtables(&self, head_bytes: u64) {
        let bytes = head_bytes.saturating_mul(3).min(self.most_memtable_bytes());
        self.reserved_for_memtables.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Bytes that background work reads or writes of one file at once: the less, the smaller the budget, so that a merge of many
    /// runs stays within it.
    pub fn chunk_bytes(&self) -> usize {
        let pages = self.total_bytes / CHUNK_SHARE / PIECE_BYTES as u64;
        pages.clamp(LEAST_CHUNK_PAGES, MOST_CHUNK_PAGES) as usize * PIECE_BYTES
    }

    /// A piece of memory, of whatever bytes.
    pub fn piece(&self) -> Piece {
        let pooled = self.pool.lock().pop();
        pooled.unwrap_or_else(|| Box::new([0; PIECE_BYTES]))
    }

    /// A piece that holds `bytes`, and goes back by itself.
    pub fn piece_of(self: &Arc<Self>, bytes: &[u8; PIECE_BYTES]) -> Pooled {
        let mut piece = self.piece();
        *piece = *bytes;
        Pooled { piece: Some(piece), budget: Arc::clone(self) }
    }

    /// Takes pieces back; those beyond a small share of the budget are freed.
    pub fn give_back(&self, pieces: impl IntoIterator<Item = Piece>) {
        let most = self.total_bytes / POOLED_SHARE / PIECE_BYTES as u64;
        let mut pool = self.pool.lock();
        let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(pool.len());
        let mut pieces = pieces.into_iter();
        pool.extend(pieces.by_ref().take(room));
        drop(pool);
        drop(pieces);
    }

    /// Notes `bytes` that are held whatever the budget says, such as a memtable's.
    pub fn hold(self: &Arc<Self>, holder: Holder, bytes: u64) -> Reservation {
        self.cell(holder).fetch_add(bytes, Ordering::Relaxed);
        Reservation { budget: Arc::clone(self), holder, bytes }
    }

    /// Reserves `bytes` if that leaves `keep_free` bytes of the budget to others, and to memtables what is reserved for them.
    pub fn try_hold(self: &Arc<Self>, holder: Holder, bytes: u64, keep_free: u64) -> Option<Reservation> {
        let memtables = self.held_bytes(Holder::Memtable);
        let reserved = self.reserved_for_memtables.load(Ordering::Relaxed) + self.total_bytes / KEPT_FROM_ALL;
        let keep_free = keep_free.max(reserved.saturating_sub(memtables));
        if self.free_bytes() < bytes.saturating_add(keep_free) {
            return None;
        }
        Some(self.hold(holder, bytes))
    }
}

/// A part of the budget; given back on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    holder: Holder,
    bytes: u64,
}

impl Reservation {
    /// Grows the reservation to `bytes`.
    pub fn grow_to(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.cell(self.holder).fetch_add(bytes - self.bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.cell(self.holder).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
