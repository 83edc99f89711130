//! The caches themselves: pages, answers and open files, of one store or of several that share their memory.
//!
//! Stores number their files each for itself, so everything here is kept under a store's number as well.
//! Numbers are not used again: what a closed store left behind nobody asks for, and it gives way to others.

use super::row::RowCache;
use super::split::{CacheSplit, Held};
use crate::entry::Answer;
use crate::ids::{FileId, TableId};
use crate::io::File;
use crate::memory::{MemoryBudget, PIECE_BYTES, Pooled};
use crate::sync::CacheHasher;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use quick_cache::sync::Cache;
use quick_cache::{UnitWeighter, Weighter};
use siltstone_design::EncodedKey;
use std::sync::Arc;

/// A verified page.
pub(crate) type Page = Arc<Pooled>;

/// Memory a cached page takes, bookkeeping included.
const CACHED_PAGE_BYTES: u64 = PIECE_BYTES as u64 + 96;
/// The cache shrinks no further than this, so that one lookup's pages stay while it needs them.
const LEAST_CACHE_BYTES: u64 = 16 * CACHED_PAGE_BYTES;
/// Answers that have not filled their share leave the rest of it to pages, but for one of so many parts of
/// the cache that is always ready for more of them.
const READY_PARTS: u64 = 64;
/// Pages that the cache has bookkeeping for from the start; it grows where there are more. The budget is no
/// measure of it: that may be far more than there is, and is taken as it is needed.
const PAGES_AT_FIRST: u64 = 1 << 20;
/// Bits of a table's number, in the number under which its answers are kept.
const TABLE_BITS: u32 = 40;
/// Open files that are kept at least.
const LEAST_FILES: usize = 8;

#[derive(Clone)]
pub(super) struct PageWeight;

impl Weighter<PageKey, Page> for PageWeight {
    fn weight(&self, _: &PageKey, _: &Page) -> u64 {
        CACHED_PAGE_BYTES
    }
}

/// A page of a store's file, by [`FileId::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    file: u64,
    store: u32,
    page: u32,
}

/// A store among those that share caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheUser(u32);

impl CacheUser {
    #[inline]
    pub fn page(self, file: FileId, page: u32) -> PageKey {
        PageKey { file: file.key(), store: self.0, page }
    }

    #[inline]
    pub fn file(self, file: FileId) -> (u64, u32) {
        (file.key(), self.0)
    }

    /// The number under which answers of `table` are kept; 0, which is no table's, where they are not.
    #[inline]
    pub fn table(self, table: TableId) -> TableId {
        let is_small = table >> TABLE_BITS == 0 && self.0 >> (u64::BITS - TABLE_BITS) == 0;
        if is_small && table > 0 { u64::from(self.0) << TABLE_BITS | table } else { 0 }
    }
}

/// Open files, by [`CacheUser::file`].
pub(super) type Files = Cache<(u64, u32), Arc<dyn File>, UnitWeighter, CacheHasher>;

/// Open files, of which there are about `count`, and at most so many.
pub(super) fn files(count: usize, at_most: u64) -> Files {
    Files::with(count, at_most, UnitWeighter, CacheHasher::default(), Default::default())
}

/// Caches of pages, answers and open files.
pub(crate) struct Caches {
    pub(super) files: Files,
    pub(super) pages: Cache<PageKey, Page, PageWeight, CacheHasher>,
    pub(super) answers: RowCache,
    split: CacheSplit,
    /// Whether an answer was ever to be kept. Some formats keep none, and then pages have all there is.
    keeps_answers: AtomicBool,
    pub(super) memory: Arc<MemoryBudget>,
    /// What answers and pages have together.
    capacity: AtomicU64,
    /// What pages leave to answers; held while the two are divided anew.
    left_to_answers: Mutex<u64>,
    next_user: AtomicU32,
    /// Stores that use them.
    users: AtomicUsize,
}

impl Caches {
    /// Caches within what `memory` has to spare, and of so many files.
    pub fn new(memory: &Arc<MemoryBudget>, max_open_files: usize) -> Arc<Self> {
        let capacity = memory.free_bytes().max(LEAST_CACHE_BYTES);
        let caches = Self {
            files: files(max_open_files.max(LEAST_FILES), max_open_files.max(LEAST_FILES) as u64),
            pages: Cache::with(
                (capacity / CACHED_PAGE_BYTES).min(PAGES_AT_FIRST) as usize,
                capacity,
                PageWeight,
                CacheHasher::default(),
                Default::default(),
            ),
            answers: RowCache::new(memory),
            split: CacheSplit::default(),
            keeps_answers: AtomicBool::new(false),
            memory: Arc::clone(memory),
            capacity: AtomicU64::new(capacity),
            left_to_answers: Mutex::default(),
            next_user: AtomicU32::new(0),
            users: AtomicUsize::new(0),
        };
        caches.divide(capacity);
        Arc::new(caches)
    }

    /// Stores that use them.
    pub fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// Files that are open.
    pub fn open_files(&self) -> usize {
        self.files.len()
    }

    /// Bytes of cached pages and answers.
    pub fn bytes(&self) -> u64 {
        self.pages.weight() + self.answers.bytes()
    }

    /// Takes in one more store.
    pub(super) fn join(&self) -> CacheUser {
        self.users.fetch_add(1, Ordering::Relaxed);
        CacheUser(self.next_user.fetch_add(1, Ordering::Relaxed))
    }

    /// Lets go of what a store that is gone has here. Its answers leave when their time comes.
    pub(super) fn leave(&self, user: CacheUser) {
        if self.users.fetch_sub(1, Ordering::Relaxed) > 1 {
            self.files.retain(|(_, store), _| *store != user.0);
            self.pages.retain(|page, _| page.store != user.0);
        }
    }

    /// Divides `capacity` bytes between answers and pages.
    fn divide(&self, capacity: u64) {
        let mut left = self.left_to_answers.lock();
        let share = self.share_of_answers(capacity);
        self.answers.set_capacity(share);
        self.make_pages_leave(&mut left, share, capacity);
    }

    /// Has pages leave to answers what these hold and a little more, of their `share` of `capacity` bytes.
    fn make_pages_leave(&self, left: &mut u64, share: u64, capacity: u64) {
        *left = share.min(self.answers.bytes() + capacity / READY_PARTS);
        self.pages.set_capacity(capacity - *left);
    }

    /// What answers have once they fill it.
    fn share_of_answers(&self, capacity: u64) -> u64 {
        let is_divided = self.keeps_answers.load(Ordering::Relaxed);
        if is_divided { self.split.of(capacity.saturating_sub(LEAST_CACHE_BYTES)) } else { 0 }
    }

    /// Has pages leave more to answers, which have taken more memory.
    fn follow_answers(&self) {
        // Whoever holds it does the same.
        let Some(mut left) = self.left_to_answers.try_lock() else { return };
        let capacity = self.capacity.load(Ordering::Relaxed);
        let is_short = self.answers.bytes() + capacity / READY_PARTS / 2 > *left;
        let share = self.share_of_answers(capacity);
        if is_short && *left < share {
            self.make_pages_leave(&mut left, share, capacity);
        }
    }

    /// Keeps what `table` says of `key`.
    pub(super) fn keep_answer(&self, table: TableId, key: &EncodedKey<'_>, answer: &Answer) {
        self.expect_answers();
        if self.answers.insert(table, key, answer) {
            self.follow_answers();
        }
    }

    /// Makes room for answers, the first time that there is one.
    #[inline]
    fn expect_answers(&self) {
        if !self.keeps_answers.load(Ordering::Relaxed) && !self.keeps_answers.swap(true, Ordering::Relaxed) {
            self.divide(self.capacity.load(Ordering::Relaxed));
        }
    }

    /// Notes a question that an answer has answered.
    #[inline]
    pub(super) fn note_answer(&self) {
        self.split.note_answer();
        self.note(0);
    }

    /// Notes a question that took `reads` from the device.
    #[inline]
    pub(super) fn note(&self, reads: u64) {
        let capacity = self.capacity.load(Ordering::Relaxed);
        let held = || Held { answers: self.answers.bytes(), pages: self.pages.weight() };
        if self.split.note(1, reads, capacity, held) {
            self.divide(capacity);
        }
    }

    /// Gives the caches what the budget's other holders leave; called when they change.
    pub(super) fn fit(&self) {
        self.memory.trim();
        let capacity = self.memory.free_bytes().max(LEAST_CACHE_BYTES);
        let before = self.capacity.load(Ordering::Relaxed);
        // Small changes are not worth the cache's rebalancing.
        if capacity.abs_diff(before) > before / 32 {
            self.capacity.store(capacity, Ordering::Relaxed);
            self.divide(capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use siltstone_design::{Encoder, HashSecret, Schema};

    #[test]
    fn pages_have_what_answers_do_not_fill() {
        let memory = MemoryBudget::new(64 << 20);
        let caches = Caches::new(&memory, 8);
        let all = caches.capacity.load(Ordering::Relaxed);
        let pages = || caches.pages.capacity();
        // It divides its capacity among shards, and rounds.
        assert!(pages().abs_diff(all) < CACHED_PAGE_BYTES);
        let encoder = Encoder::new(Schema::Point, HashSecret([5; 16]));
        let value = Answer::Put { value: Value::Copied(vec![7; 500]), expires_at_ms: 0 };
        let mut keep = |number: u64| {
            let key = number.to_be_bytes();
            caches.keep_answer(1, &encoder.encode(&key).unwrap(), &value);
        };
        keep(0);
        assert!(pages() > all * 9 / 10, "{} of {all}", pages());
        // Keys that nobody asks for again take no more than the part of new answers.
        (1..200_000).for_each(&mut keep);
        assert!(pages() > all * 9 / 10, "{} of {all}", pages());
        // Others fill their half.
        for _ in 0..20 {
            (0..60_000).for_each(&mut keep);
            assert!(pages() + caches.answers.bytes() <= all + CACHED_PAGE_BYTES);
        }
        assert!(pages().abs_diff(all / 2) < all / 16, "{} of {all}", pages());
        assert!(caches.answers.bytes() > all * 2 / 5);
    }

    #[test]
    fn stores_have_answers_of_their_own() {
        let numbers = [CacheUser(0), CacheUser(1), CacheUser(0x00ff_ffff)].map(|user| user.table(7));
        assert_eq!(numbers, [7, 1 << 40 | 7, 0x00ff_ffff << 40 | 7]);
        // What does not fit is not kept, rather than kept as another's.
        assert_eq!(CacheUser(0x0100_0000).table(7), 0);
        assert_eq!(CacheUser(3).table(1 << 40), 0);
        assert_eq!(CacheUser(3).table(0), 0);
    }
}
