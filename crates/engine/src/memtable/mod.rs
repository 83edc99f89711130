//! The memtable: what has been written and not yet flushed, in the store's order.
//!
//! Sharded by the top bits of the digest: a shard is short (`shard.rs`), and locked for the part of a
//! microsecond that an insertion or a lookup takes, so that readers and writers hardly ever meet. Entries
//! carry a sequence number, as only write buffers' do: it lets a snapshot share the memtable with later
//! writers. Tables hold one entry per key, and recency is position.

mod cursor;
mod fold;
mod shard;

pub(crate) use cursor::MemCursor;
pub(crate) use shard::Version;

use crate::entry::{Answer, Item, PrefixTombstone, PrefixTombstones, Sequence, Span};
use crate::error::Result;
use crate::memory::{Holder, MemoryBudget, Reservation};
use crate::merge_operator::Folder;
use crate::record::LogStart;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::value::Wants;
use fold::Folding;
use shard::Shard;
use siltstone_design::{Digest, EncodedKey, Encoder};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of keys and values per shard.
const SHARD_BYTES: u64 = 64 << 10;
/// Most top digest bits that choose the shard.
const MAX_SHARD_BITS: u32 = 10;
/// Memory of a shard beside its entries: half a block, half a chunk, and the shard itself.
const SHARD_OVERHEAD_BYTES: u64 = 4 << 10;
/// Memory an entry takes beside its key and value: its write buffer, and its place in a chunk three quarters
/// full.
const ENTRY_OVERHEAD_BYTES: u64 = 56;

/// Most bytes by which a memtable may have grown before the budget is told.
const MOST_STEP_BYTES: u64 = 64 << 10;

/// The shards of a memtable that has been written to.
struct Shards {
    list: Box<[RwLock<Shard>]>,
    /// Top digest bits that choose one.
    bits: u32,
}

impl Shards {
    /// Shards for about `bytes` of keys and values, which fold operands or take none.
    fn new(bytes: u64, folds: bool) -> Self {
        let bits = (bytes / SHARD_BYTES).max(1).ilog2().min(MAX_SHARD_BITS);
        let shard = if folds { Shard::folding } else { Shard::default };
        Self { list: (0..1 << bits).map(|_| RwLock::new(shard())).collect(), bits }
    }

    #[inline]
    fn number(&self, hi: u64) -> usize {
        // Shifting in two steps, since a shift by 64 is none.
        (hi >> 1 >> (63 - self.bits)) as usize
    }

    /// Memory that they take beside their entries.
    fn overhead_bytes(&self) -> u64 {
        SHARD_OVERHEAD_BYTES << self.bits
    }
}

/// A memtable.
pub(crate) struct MemTable {
    /// Made with the first write, so that a keyspace that is not written to takes no memory; and as many as
    /// the memtable's part of the budget is worth, so that hundreds of small memtables fit.
    shards: OnceLock<Shards>,
    write_buffer_bytes: u64,
    /// Deleted prefixes by digest half, with the sequence number of their deletion.
    deleted_prefixes: RwLock<BTreeMap<u64, Vec<(Sequence, PrefixTombstone)>>>,
    has_deleted_prefixes: AtomicU64,
    entries: AtomicU64,
    deleted: AtomicU64,
    user_bytes: AtomicU64,
    budget: Arc<MemoryBudget>,
    memory: Mutex<Reservation>,
    /// First log segment that holds its writes; unset while it is empty.
    log_start: OnceLock<LogStart>,
    /// Sequence number that was visible when the memtable was made: everything in it is newer.
    pub born_at: Sequence,
    /// What folds operands, and which versions they have replaced; none where the keyspace takes no merges.
    folding: Option<Folding>,
}

impl MemTable {
    /// An empty memtable whose writes are all newer than `born_at`, for about `write_buffer_bytes` of keys
    /// and values; it folds operands with `folder`. It takes no memory to speak of before the first of them.
    pub fn new(
        born_at: Sequence,
        write_buffer_bytes: u64,
        folder: Option<Arc<Folder>>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        Self {
            shards: OnceLock::new(),
            write_buffer_bytes,
            deleted_prefixes: RwLock::new(BTreeMap::new()),
            has_deleted_prefixes: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            user_bytes: AtomicU64::new(0),
            budget: Arc::clone(budget),
            memory: Mutex::new(budget.hold(Holder::Memtable, 0)),
            log_start: OnceLock::new(),
            born_at,
            folding: folder.map(Folding::new),
        }
    }

    /// The shards, made if there are none yet.
    #[inline]
    fn shards_for_writing(&self) -> &Shards {
        match self.shards.get() {
            Some(shards) => shards,
            None => self.make_shards(),
        }
    }

    #[cold]
    fn make_shards(&self) -> &Shards {
        let shards = self.shards.get_or_init(|| {
            let share = self.budget.begin_memtable();
            Shards::new(self.write_buffer_bytes.min(share), self.folding.is_some())
        });
        self.memory.lock().grow_to(self.memory_bytes());
        shards
    }

    /// Number of the shard that digests with this upper half are in.
    #[inline]
    fn shard_number(&self, hi: u64) -> usize {
        self.shards.get().map_or(0, |shards| shards.number(hi))
    }

    /// The shard of this number; none where there is none, or nothing was written yet.
    #[inline]
    fn shard_at(&self, number: usize) -> Option<&RwLock<Shard>> {
        self.shards.get()?.list.get(number)
    }

    #[inline]
    fn shard(&self, digest: Digest) -> Option<&RwLock<Shard>> {
        let shards = self.shards.get()?;
        shards.list.get(shards.number(digest.hi))
    }

    /// Where in the log its writes begin; `None` while there are none.
    pub fn log_start(&self) -> Option<LogStart> {
        self.log_start.get().copied()
    }

    /// Notes that a write that is in the log segment starting at `start` comes next.
    pub fn note_log_start(&self, start: LogStart) {
        self.log_start.get_or_init(|| start);
    }

    /// Adds an entry. Of two with the same key the one with the larger sequence number is newer.
    pub fn insert(&self, version: &Version<'_>) {
        let Version { digest, key, item, .. } = *version;
        if item == Item::Deleted {
            self.deleted.fetch_add(1, Ordering::Relaxed);
        }
        if let (Item::Operands(operands), Some(folding)) = (item, &self.folding) {
            return self.insert_operands(version, operands, folding);
        }
        let shards = self.shards_for_writing();
        if let Some(shard) = shards.list.get(shards.number(digest.hi)) {
            let reused_bytes = shard.write().insert(version, &self.budget);
            self.folding.iter().for_each(|folding| folding.note_reused(reused_bytes));
        }
        self.note((key.len() + item.bytes().len()) as u64);
    }

    /// Deletes a prefix: hides older entries here and in everything below.
    pub fn delete_prefix(&self, sequence: Sequence, hi: u64, prefix: &[u8]) {
        let tombstone = PrefixTombstone { hi, prefix: prefix.into() };
        self.deleted_prefixes.write().entry(hi).or_default().push((sequence, tombstone));
        self.has_deleted_prefixes.fetch_add(1, Ordering::Release);
        self.note(prefix.len() as u64);
    }

    fn note(&self, user_bytes: u64) {
        let entries = self.entries.fetch_add(1, Ordering::Relaxed);
        let bytes = self.user_bytes.fetch_add(user_bytes, Ordering::Relaxed);
        let before = self.memory_of(entries, bytes);
        let after = self.memory_of(entries + 1, bytes + user_bytes);
        // Tell the budget in steps; a lock per entry would be waste. What many small memtables do not tell
        // adds up, so theirs are short.
        let step = self.overhead_bytes().clamp(SHARD_OVERHEAD_BYTES, MOST_STEP_BYTES);
        if before / step != after / step {
            self.memory.lock().grow_to(after);
        }
    }

    fn memory_of(&self, entries: u64, user_bytes: u64) -> u64 {
        let waiting = self.folding.as_ref().map_or(0, Folding::waiting_bytes);
        self.overhead_bytes() + entries * ENTRY_OVERHEAD_BYTES + user_bytes + waiting
    }

    #[inline]
    fn overhead_bytes(&self) -> u64 {
        self.shards.get().map_or(0, Shards::overhead_bytes)
    }

    /// Entries added, replaced ones included.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Tombstones among them.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Bytes of keys and values added.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory that it takes; none before the first write.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_of(self.entries(), self.user_bytes())
    }

    /// Sequence number of the newest deletion of the key's prefix that `sequence` can see.
    fn prefix_deleted_at(&self, key: &EncodedKey<'_>, sequence: Sequence) -> Option<Sequence> {
        if self.has_deleted_prefixes.load(Ordering::Acquire) == 0 {
            return None;
        }
        let deleted = self.deleted_prefixes.read();
        let group = deleted.get(&key.digest.hi)?;
        let seen = group.iter().filter(|(at, t)| *at <= sequence && *t.prefix == *key.prefix());
        seen.map(|(at, _)| *at).max()
    }

    /// The newest version of `key` that `sequence` can see. Where operands fold, it lowers `newer` to the
    /// oldest that `sequence` can't see: the one that it should have seen may have given way to it.
    pub fn get(
        &self,
        key: &EncodedKey<'_>,
        sequence: Sequence,
        wants: Wants,
        newer: &mut Option<Sequence>,
    ) -> Answer {
        let hidden_up_to = self.prefix_deleted_at(key, sequence);
        let shard = self.shard(key.digest).map(RwLock::read);
        if let (Some(shard), true) = (&shard, self.folding.is_some()) {
            let unseen = shard.unseen(key, sequence);
            *newer = newer.iter().copied().chain(unseen).min();
        }
        let newest = shard.as_ref().and_then(|shard| shard.from(key.digest, key.key, sequence).next());
        match newest.filter(|version| version.digest == key.digest && version.key == key.key) {
            Some(version) if hidden_up_to.is_some_and(|at| at > version.sequence) => Answer::Deleted,
            Some(version) => Answer::of(version.item, wants),
            None if hidden_up_to.is_some() => Answer::Deleted,
            None => Answer::Absent,
        }
    }

    /// Whether the key, or its prefix, was written after `sequence`.
    pub fn changed_since(&self, key: &EncodedKey<'_>, sequence: Sequence) -> bool {
        if self.prefix_deleted_at(key, Sequence::MAX).is_some_and(|at| at > sequence) {
            return true;
        }
        let shard = self.shard(key.digest).map(RwLock::read);
        let newest = shard.as_ref().and_then(|shard| shard.from(key.digest, key.key, Sequence::MAX).next());
        newest.is_some_and(|version| {
            version.digest == key.digest && version.key == key.key && version.sequence > sequence
        })
    }

    /// The prefixes deleted as far as `sequence` can see; they hide what is older than this memtable.
    pub fn tombstones(&self, sequence: Sequence) -> PrefixTombstones {
        if self.has_deleted_prefixes.load(Ordering::Acquire) == 0 {
            return PrefixTombstones::default();
        }
        let deleted = self.deleted_prefixes.read();
        let seen = deleted.values().flatten().filter(|(at, _)| *at <= sequence);
        PrefixTombstones::new(seen.map(|(_, tombstone)| tombstone.clone()).collect())
    }

    /// A walk over the newest visible version of each key within `span`.
    pub fn stream(self: &Arc<Self>, span: Span, sequence: Sequence, encoder: Encoder) -> Result<MemCursor> {
        MemCursor::new(Arc::clone(self), span, sequence, encoder)
    }
}

impl Drop for MemTable {
    fn drop(&mut self) {
        let Some(shards) = self.shards.take() else { return };
        for shard in shards.list {
            self.budget.give_back(shard.into_inner().into_pieces());
        }
        self.budget.end_memtable();
    }
}
