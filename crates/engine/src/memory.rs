//! The one memory budget, and who holds how much of it.
//!
//! Memtables, filters, indexes and compaction buffers reserve from the budget; the page cache gets what they leave.
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
        Arc::new(Self { total_bytes, held: Default::default(), pool: Mutex::default() })
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

    /// Reserves `bytes` if that leaves `keep_free` bytes of the budget to others.
    pub fn try_hold(self: &Arc<Self>, holder: Holder, bytes: u64, keep_free: u64) -> Option<Reservation> {
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
