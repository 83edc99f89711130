//! The one memory budget, and who holds how much of it.
//!
//! Memtables, filters, indexes and compaction buffers reserve from the budget; the page cache gets what they
//! leave, a sixteenth of it at least. Memtables take half of it at most: they are sealed early where it is
//! small, and writers wait for flushes beyond that. Part of it is left to what nobody accounts for: the
//! allocator's leftovers, stacks of threads, the program itself. And what compactions once held is kept free
//! for the next, since the allocator mostly keeps their buffers as well. Indexes come before filters, which
//! are many times as large and spare a lookup less. A filter or index that does not fit is simply not kept:
//! lookups then read pages instead (SILT, SOSP'11 §5 calls this fail-graceful indexing), and a later lookup
//! asks again. Which filters those are is `db/background/filter_fit.rs`.

use crate::io::direct::ALIGNMENT;
use crate::io::pages::{self, PageMemory};
use crate::sync::leaf::Mutex;
use crate::sync::leaf::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes of a piece of pooled memory: a page of a table.
pub(crate) const PIECE_BYTES: usize = ALIGNMENT;
/// The share of the budget that may wait in the pool whatever else is held.
const POOLED_SHARE: u64 = 64;
/// The share of the budget that background work takes per file, within bounds.
const CHUNK_SHARE: u64 = 256;
const LEAST_CHUNK_PAGES: u64 = 8;
const MOST_CHUNK_PAGES: u64 = 256;
/// The share of the budget that neither filters and indexes nor memtables get: the cache's.
const CACHE_SHARE: u64 = 16;
/// The share of the budget that who makes a filter of many keys leaves to others.
const KEPT_FROM_BUILDERS: u64 = 4;
/// The share of the budget that filters leave to indexes, at most: without a table's index a lookup reads
/// more than without its filter.
const INDEX_SHARE: u64 = 2;
/// The part of a memtable that is not made of pieces, at most: the places of its entries.
const PLACES_SHARE: u64 = 3;

/// The share of the budget that is left to what is not accounted for and grows with it, such as what an
/// allocator keeps.
const SLACK_SHARE: u64 = 12;
/// What is left for what does not, the program and its threads' stacks, and the share of a small budget that
/// it is at most.
const FIXED_SLACK_BYTES: u64 = 6 << 20;
const FIXED_SLACK_SHARE: u64 = 12;
/// The share of the budget that stays free for the next compaction, at most.
const COMPACTION_SHARE: u64 = 8;

/// What a filter spares for the memory that it takes: of a table the share of all lookups that need not read
/// it, per byte, and of a region the reads of a lookup. Which filters are kept where not all of them fit goes
/// by it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct FilterWorth(f32);

impl FilterWorth {
    /// Of a filter that is worth nothing.
    pub const NONE: Self = Self(0.0);
    /// Of a filter that is worth hardly anything.
    pub const LEAST: Self = Self(f32::MIN_POSITIVE);
    /// Of a filter of which nothing is known: it is kept.
    pub const UNKNOWN: Self = Self(f32::INFINITY);

    /// Of filters of so many bytes that spare so many reads of a lookup.
    pub fn of(spared: f64, bytes: u64) -> Self {
        Self((spared / bytes.max(1) as f64) as f32)
    }

    /// The smaller of the two.
    pub fn at_most(self, most: Self) -> Self {
        Self(self.0.min(most.0))
    }

    /// The larger of the two.
    pub fn at_least(self, least: Self) -> Self {
        Self(self.0.max(least.0))
    }

    /// Its bits, which are in the order of worths.
    pub fn to_bits(self) -> u32 {
        self.0.to_bits()
    }

    /// The worth with these bits.
    pub fn from_bits(bits: u32) -> Self {
        Self(f32::from_bits(bits))
    }
}

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
    /// Memtables that have been written to and not let go.
    memtables: AtomicU64,
    /// How many keyspaces have write buffers of so many bytes of keys and values,
    write_buffers: Mutex<BTreeMap<u64, usize>>,
    /// and what memtables will take by the largest, though they may not have it yet.
    reserved_for_memtables: AtomicU64,
    /// What the indexes of all tables take, in memory or not.
    index_bytes: AtomicU64,
    /// Pieces that are in nobody's hands.
    pool: Mutex<Vec<Piece>>,
    /// Pieces in somebody's hands.
    pieces: AtomicU64,
    /// The most that compactions have held.
    compaction_peak: AtomicU64,
    /// Whether memtables never grow: the store is open for reading only.
    is_for_reading: AtomicBool,
}

/// Memory of [`PIECE_BYTES`] bytes, to be [given back](MemoryBudget::give_back). Cached pages and memtables
/// are made of such pieces, which go from the one to the other, and to the system where the budget has other
/// uses for them.
pub(crate) type Piece = PageMemory;

/// The write buffer of a keyspace, for which there is room as long as this is there.
#[derive(Debug)]
pub(crate) struct ExpectedBuffer {
    bytes: u64,
    budget: Arc<MemoryBudget>,
}

impl ExpectedBuffer {
    /// Expects a write buffer of so many bytes rather than that of before.
    pub fn change_to(&mut self, bytes: u64) {
        *self = self.budget.expect_write_buffer(bytes);
    }
}

impl Drop for ExpectedBuffer {
    fn drop(&mut self) {
        let mut buffers = self.budget.write_buffers.lock();
        if let Some(count) = buffers.get_mut(&self.bytes) {
            *count -= 1;
            if *count == 0 {
                buffers.remove(&self.bytes);
            }
        }
        self.budget.reserve_for(&buffers);
    }
}

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

impl Pooled {
    /// Its bytes, to be filled; all of them.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.piece.as_deref_mut().map_or(&mut [], |piece| &mut piece[..])
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.budget.give_back(self.piece.take());
    }
}

impl MemoryBudget {
    pub fn new(total_bytes: u64) -> Arc<Self> {
        let (held, write_buffers, reserved_for_memtables, index_bytes, pool) = Default::default();
        let (pieces, compaction_peak, memtables, is_for_reading) = Default::default();
        Arc::new(Self {
            total_bytes,
            held,
            memtables,
            write_buffers,
            reserved_for_memtables,
            index_bytes,
            pool,
            pieces,
            compaction_peak,
            is_for_reading,
        })
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
        self.usable_bytes().saturating_sub(self.lasting_bytes() + self.compaction_bytes())
    }

    /// What memtables, filters and indexes hold.
    fn lasting_bytes(&self) -> u64 {
        [Holder::Memtable, Holder::Filter, Holder::Index].map(|holder| self.held_bytes(holder)).iter().sum()
    }

    /// The budget less its slack.
    fn usable_bytes(&self) -> u64 {
        let fixed = FIXED_SLACK_BYTES.min(self.total_bytes / FIXED_SLACK_SHARE);
        self.total_bytes - self.total_bytes / SLACK_SHARE - fixed
    }

    /// What compactions hold, or have made the allocator keep.
    fn compaction_bytes(&self) -> u64 {
        let kept = self.compaction_peak.load(Ordering::Relaxed).min(self.total_bytes / COMPACTION_SHARE);
        self.held_bytes(Holder::Compaction).max(kept)
    }

    /// Counts `bytes` more for `holder`.
    fn add(&self, holder: Holder, bytes: u64) {
        let now = self.cell(holder).fetch_add(bytes, Ordering::Relaxed) + bytes;
        if holder == Holder::Compaction {
            self.compaction_peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// What memtables may take together.
    pub fn most_memtable_bytes(&self) -> u64 {
        self.total_bytes / 2
    }

    /// Notes a memtable that is written to for the first time, and returns what it may take if all such take
    /// as much.
    pub fn begin_memtable(&self) -> u64 {
        self.most_memtable_bytes() / (self.memtables.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Notes that such a memtable is gone.
    pub fn end_memtable(&self) {
        self.memtables.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps room for two memtables of `bytes` of keys and values, or of the largest write buffer there is,
    /// so that filters loaded while memtables are small leave what they grow by; a third of the budget at
    /// most, since they seldom take all that they may.
    pub fn expect_write_buffer(self: &Arc<Self>, bytes: u64) -> ExpectedBuffer {
        let mut buffers = self.write_buffers.lock();
        *buffers.entry(bytes).or_default() += 1;
        self.reserve_for(&buffers);
        ExpectedBuffer { bytes, budget: Arc::clone(self) }
    }

    fn reserve_for(&self, buffers: &BTreeMap<u64, usize>) {
        let largest = buffers.keys().next_back().copied().unwrap_or(0);
        let bytes = largest.saturating_mul(3).min(self.total_bytes / 3);
        self.reserved_for_memtables.store(bytes, Ordering::Relaxed);
    }

    /// Keeps nothing free for memtables, which never grow in a store that is open for reading only.
    pub fn expect_no_writes(&self) {
        self.is_for_reading.store(true, Ordering::Relaxed);
    }

    /// Notes a table whose index takes `bytes`, in memory or not.
    pub fn expect_index(&self, bytes: u64) {
        self.index_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that such a table is gone.
    pub fn expect_index_no_more(&self, bytes: u64) {
        self.index_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that `holder` can have now: the cache keeps its part, and memtables what is reserved for them.
    /// Filters leave room for all indexes as well, within bounds: an index takes a tenth of what a filter
    /// does, and without it every read of a table takes two or three more.
    pub fn room_for(&self, holder: Holder) -> u64 {
        let growth = self.reserved_bytes().saturating_sub(self.held_bytes(Holder::Memtable));
        let kept = match holder {
            Holder::Compaction => growth.max(self.total_bytes / KEPT_FROM_BUILDERS),
            Holder::Memtable | Holder::Filter | Holder::Index => growth + self.total_bytes / CACHE_SHARE,
        };
        let missing = self.index_bytes.load(Ordering::Relaxed).saturating_sub(self.held_bytes(Holder::Index));
        let indexes = if holder == Holder::Filter { missing.min(self.total_bytes / INDEX_SHARE) } else { 0 };
        self.free_bytes().saturating_sub(kept + indexes)
    }

    /// What memtables may come to hold, as far as it is known.
    fn reserved_bytes(&self) -> u64 {
        let is_for_reading = self.is_for_reading.load(Ordering::Relaxed);
        if is_for_reading { 0 } else { self.reserved_for_memtables.load(Ordering::Relaxed) }
    }

    /// Bytes that filters can have in the long run, whatever memtables and compactions hold just now.
    pub fn room_for_filters(&self) -> u64 {
        let compactions =
            self.compaction_peak.load(Ordering::Relaxed).min(self.total_bytes / COMPACTION_SHARE);
        let indexes = self.index_bytes.load(Ordering::Relaxed).min(self.total_bytes / INDEX_SHARE);
        let others = self.total_bytes / CACHE_SHARE + self.reserved_bytes() + compactions + indexes;
        self.usable_bytes().saturating_sub(others)
    }

    /// Bytes that background work reads or writes of one file at once: the less, the smaller the budget, so
    /// that a merge of many runs stays within it.
    pub fn chunk_bytes(&self) -> usize {
        let pages = self.total_bytes / CHUNK_SHARE / PIECE_BYTES as u64;
        pages.clamp(LEAST_CHUNK_PAGES, MOST_CHUNK_PAGES) as usize * PIECE_BYTES
    }

    /// Bytes that memtables, filters and indexes hold beyond the budget. Buffers of compactions do not count:
    /// they are gone soon, by themselves.
    pub fn overdrawn_bytes(&self) -> u64 {
        self.lasting_bytes().saturating_sub(self.total_bytes)
    }

    /// A piece of memory, of whatever bytes.
    pub fn piece(&self) -> Piece {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        let pooled = self.pool.lock().pop();
        pooled.unwrap_or_else(pages::take)
    }

    /// A piece of whatever bytes that goes back by itself.
    pub fn pooled(self: &Arc<Self>) -> Pooled {
        Pooled { piece: Some(self.piece()), budget: Arc::clone(self) }
    }

    /// Takes pieces back, to be used again.
    pub fn give_back(&self, pieces: impl IntoIterator<Item = Piece>) {
        let mut pool = self.pool.lock();
        let before = pool.len();
        pool.extend(pieces);
        self.pieces.fetch_sub((pool.len() - before) as u64, Ordering::Relaxed);
        drop(pool);
        self.trim();
    }

    /// Lets the system have what waits in the pool and would take the process over the budget.
    pub fn trim(&self) {
        // The rest of what memtables hold are pieces.
        let places = self.held_bytes(Holder::Memtable) / PLACES_SHARE;
        let held = self.held_bytes(Holder::Filter) + self.held_bytes(Holder::Index) + self.compaction_bytes();
        let in_use = self.pieces.load(Ordering::Relaxed) * PIECE_BYTES as u64 + held + places;
        let room = self.usable_bytes().saturating_sub(in_use).max(self.total_bytes / POOLED_SHARE);
        let most = usize::try_from(room / PIECE_BYTES as u64).unwrap_or(usize::MAX);
        let mut pool = self.pool.lock();
        let beyond = if pool.len() > most { pool.split_off(most) } else { Vec::new() };
        drop(pool);
        pages::release(beyond);
    }

    /// Notes `bytes` that are held whatever the budget says, such as a memtable's.
    pub fn hold(self: &Arc<Self>, holder: Holder, bytes: u64) -> Reservation {
        self.add(holder, bytes);
        Reservation { budget: Arc::clone(self), holder, bytes }
    }

    /// Reserves `bytes` if there is [room](Self::room_for).
    pub fn try_hold(self: &Arc<Self>, holder: Holder, bytes: u64) -> Option<Reservation> {
        (bytes <= self.room_for(holder)).then(|| self.hold(holder, bytes))
    }
}

impl Drop for MemoryBudget {
    fn drop(&mut self) {
        pages::release(std::mem::take(self.pool.get_mut()));
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
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows the reservation to `bytes`.
    pub fn grow_to(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.add(self.holder, bytes - self.bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.cell(self.holder).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept_for_the_largest_write_buffer_that_there_is() {
        let budget = MemoryBudget::new(64 << 20);
        let kept = || budget.reserved_bytes();
        let small = budget.expect_write_buffer(1 << 20);
        assert_eq!(kept(), 3 << 20);
        let mut changes = budget.expect_write_buffer(4 << 20);
        let large = budget.expect_write_buffer(4 << 20);
        assert_eq!(kept(), 12 << 20);
        drop(large);
        assert_eq!(kept(), 12 << 20);
        // A keyspace is redesigned.
        changes.change_to(2 << 20);
        assert_eq!(kept(), 6 << 20);
        drop((small, changes));
        assert_eq!(kept(), 0);
        // Never more than a third.
        let _huge = budget.expect_write_buffer(64 << 20);
        assert_eq!(kept(), (64 << 20) / 3);
    }
}
