//! The memtable: what has been written and not yet flushed, in the store's order.
//!
//! Skip lists without locks, sharded by the top bits of the digest so that each stays short: many may write, and
//! readers never wait. Entries carry a sequence number, the only place where Siltstone has one: it lets a snapshot
//! share the memtable with later writers. Tables hold one entry per key, and recency is position.

use crate::entry::{Cursor, EntryRef, Item, Lookup, PrefixTombstone, PrefixTombstones, Span};
use crate::error::Result;
use crate::memory::{Holder, MemoryBudget, Reservation};
use crate::record::LogStart;
use crossbeam_skiplist::SkipMap;
use parking_lot::{Mutex, RwLock};
use siltstone_design::{Digest, EncodedKey, Encoder};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::sync::{Arc, OnceLock};

/// Number of a write; later writes have larger ones.
pub(crate) type Sequence = u64;

/// Bytes of keys and values per shard: few enough that a search touches few cache lines.
const SHARD_BYTES: u64 = 16 << 10;
/// Most top digest bits that choose the shard.
const MAX_SHARD_BITS: u32 = 10;
/// Memory of an empty shard.
const SHARD_OVERHEAD_BYTES: u64 = 640;
/// Memory an entry takes beside its key and value: skip-list node, place, allocations.
const ENTRY_OVERHEAD_BYTES: u64 = 112;

/// A key's version: ordered by place, then newest first.
#[derive(Debug)]
struct Version {
    digest: Digest,
    fingerprint: u64,
    sequence: Sequence,
    expires_at_ms: u64,
    /// The key, then the value.
    bytes: Box<[u8]>,
    key_len: u32,
    deleted: bool,
    /// See [`EntryRef::older_in`].
    older_in: u64,
}

impl Version {
    fn probe(digest: Digest, key: &[u8], sequence: Sequence) -> Self {
        let key_len = key.len() as u32;
        Self {
            digest,
            fingerprint: 0,
            sequence,
            expires_at_ms: 0,
            bytes: key.into(),
            key_len,
            deleted: false,
            older_in: 0,
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.bytes.get(..self.key_len as usize).unwrap_or(&[])
    }

    #[inline]
    fn item(&self) -> Item<'_> {
        if self.deleted {
            return Item::Deleted;
        }
        let value = self.bytes.get(self.key_len as usize..).unwrap_or(&[]);
        Item::Put { value, expires_at_ms: self.expires_at_ms }
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.digest
            .cmp(&other.digest)
            .then_with(|| self.key().cmp(other.key()))
            .then_with(|| other.sequence.cmp(&self.sequence))
    }
}

/// A memtable.
pub(crate) struct MemTable {
    shards: Vec<SkipMap<Version, ()>>,
    shard_bits: u32,
    /// Deleted prefixes by digest half, with the sequence number of their deletion.
    deleted_prefixes: RwLock<BTreeMap<u64, Vec<(Sequence, PrefixTombstone)>>>,
    has_deleted_prefixes: AtomicU64,
    entries: AtomicU64,
    user_bytes: AtomicU64,
    memory: Mutex<Reservation>,
    memory_bytes: AtomicU64,
    /// First log segment that holds its writes; unset while it is empty.
    log_start: OnceLock<LogStart>,
    /// Sequence number that was visible when the memtable was made: everything in it is newer.
    pub born_at: Sequence,
}

impl MemTable {
    /// An empty memtable whose writes are all newer than `born_at`, sharded for about `head_bytes` of keys and values.
    pub fn new(born_at: Sequence, head_bytes: u64, budget: &Arc<MemoryBudget>) -> Self {
        let shard_bits = (head_bytes / SHARD_BYTES).max(1).ilog2().min(MAX_SHARD_BITS);
        let empty_bytes = SHARD_OVERHEAD_BYTES << shard_bits;
        Self {
            shards: (0..1 << shard_bits).map(|_| SkipMap::new()).collect(),
            shard_bits,
            deleted_prefixes: RwLock::new(BTreeMap::new()),
            has_deleted_prefixes: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            user_bytes: AtomicU64::new(0),
            memory: Mutex::new(budget.hold(Holder::Memtable, empty_bytes)),
            memory_bytes: AtomicU64::new(empty_bytes),
            log_start: OnceLock::new(),
            born_at,
        }
    }

    #[inline]
    fn shard_number(&self, hi: u64) -> usize {
        // Shifting in two steps, since a shift by 64 is none.
        (hi >> 1 >> (63 - self.shard_bits)) as usize
    }

    #[inline]
    fn shard(&self, digest: Digest) -> Option<&SkipMap<Version, ()>> {
        self.shards.get(self.shard_number(digest.hi))
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
    pub fn insert(
        &self,
        sequence: Sequence,
        (digest, fingerprint): (Digest, u64),
        key: &[u8],
        item: Item<'_>,
        older_in: u64,
    ) {
        let (value, expires_at_ms, deleted) = match item {
            Item::Put { value, expires_at_ms } => (value, expires_at_ms, false),
            Item::Deleted => (&[][..], 0, true),
        };
        let mut bytes = Vec::with_capacity(key.len() + value.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        let key_len = key.len() as u32;
        let version = Version {
            digest,
            fingerprint,
            sequence,
            expires_at_ms,
            bytes: bytes.into_boxed_slice(),
            key_len,
            deleted,
            older_in,
        };
        if let Some(shard) = self.shard(digest) {
            shard.insert(version, ());
        }
        self.note((key.len() + value.len()) as u64);
    }

    /// Deletes a prefix: hides older entries here and in everything below.
    pub fn delete_prefix(&self, sequence: Sequence, hi: u64, prefix: &[u8]) {
        let tombstone = PrefixTombstone { hi, prefix: prefix.into() };
        self.deleted_prefixes.write().entry(hi).or_default().push((sequence, tombstone));
        self.has_deleted_prefixes.fetch_add(1, Atomic::Release);
        self.note(prefix.len() as u64);
    }

    fn note(&self, user_bytes: u64) {
        self.entries.fetch_add(1, Atomic::Relaxed);
        self.user_bytes.fetch_add(user_bytes, Atomic::Relaxed);
        let memory = self.memory_bytes.fetch_add(user_bytes + ENTRY_OVERHEAD_BYTES, Atomic::Relaxed);
        // Tell the budget in steps; a lock per entry would be waste.
        const STEP: u64 = 64 << 10;
        if memory / STEP != (memory + user_bytes + ENTRY_OVERHEAD_BYTES) / STEP {
            self.memory.lock().grow_to(memory + user_bytes + ENTRY_OVERHEAD_BYTES);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.load(Atomic::Relaxed) == 0
    }

    /// Entries added, replaced ones included.
    pub fn entries(&self) -> u64 {
        self.entries.load(Atomic::Relaxed)
    }

    /// Bytes of keys and values added.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes.load(Atomic::Relaxed)
    }

    /// Sequence number of the newest deletion of the key's prefix that `sequence` can see.
    fn prefix_deleted_at(&self, key: &EncodedKey<'_>, sequence: Sequence) -> Option<Sequence> {
        if self.has_deleted_prefixes.load(Atomic::Acquire) == 0 {
            return None;
        }
        let deleted = self.deleted_prefixes.read();
        let group = deleted.get(&key.digest.hi)?;
        let seen = group.iter().filter(|(at, t)| *at <= sequence && *t.prefix == *key.prefix());
        seen.map(|(at, _)| *at).max()
    }

    /// The newest version of `key` that `sequence` can see.
    pub fn get(&self, key: &EncodedKey<'_>, sequence: Sequence) -> Lookup {
        let hidden_up_to = self.prefix_deleted_at(key, sequence);
        let probe = Version::probe(key.digest, key.key, sequence);
        let found = self.shard(key.digest).and_then(|shard| shard.lower_bound(Bound::Included(&probe)));
        match found {
            Some(entry) if entry.key().digest == key.digest && entry.key().key() == key.key => {
                let version = entry.key();
                if hidden_up_to.is_some_and(|at| at > version.sequence) {
                    return Lookup::Deleted;
                }
                match version.item() {
                    Item::Put { value, expires_at_ms } => {
                        Lookup::Put { value: value.to_vec(), expires_at_ms }
                    }
                    Item::Deleted => Lookup::Deleted,
                }
            }
            _ if hidden_up_to.is_some() => Lookup::Deleted,
            _ => Lookup::Absent,
        }
    }

    /// Whether the key, or its prefix, was written after `sequence`.
    pub fn changed_since(&self, key: &EncodedKey<'_>, sequence: Sequence) -> bool {
        if self.prefix_deleted_at(key, Sequence::MAX).is_some_and(|at| at > sequence) {
            return true;
        }
        let probe = Version::probe(key.digest, key.key, Sequence::MAX);
        let found = self.shard(key.digest).and_then(|shard| shard.lower_bound(Bound::Included(&probe)));
        found.is_some_and(|entry| {
            let version = entry.key();
            version.digest == key.digest && version.key() == key.key && version.sequence > sequence
        })
    }

    /// The prefixes deleted as far as `sequence` can see; they hide what is older than this memtable.
    pub fn tombstones(&self, sequence: Sequence) -> PrefixTombstones {
        if self.has_deleted_prefixes.load(Atomic::Acquire) == 0 {
            return PrefixTombstones::default();
        }
        let deleted = self.deleted_prefixes.read();
        let seen = deleted.values().flatten().filter(|(at, _)| *at <= sequence);
        PrefixTombstones::new(seen.map(|(_, tombstone)| tombstone.clone()).collect())
    }

    /// A walk over the newest visible version of each key within `span`.
    pub fn stream(self: &Arc<Self>, span: Span, sequence: Sequence, encoder: Encoder) -> Result<MemCursor> {
        let mut cursor = MemCursor {
            table: Arc::clone(self),
            encoder,
            span,
            sequence,
            shard: 0,
            after: None,
            chunk: Vec::new(),
            at: 0,
            arena: Vec::new(),
        };
        cursor.shard = self.shard_number(cursor.span.first.hi);
        cursor.fill()?;
        Ok(cursor)
    }
}

/// Entries copied out of the skip list at a time: borrowing them for longer would pin its memory.
const CHUNK_ENTRIES: usize = 128;

/// A place within the cursor's copied bytes.
struct Copied {
    digest: Digest,
    fingerprint: u64,
    prefix_len: usize,
    key_at: usize,
    value_at: usize,
    end: usize,
    expires_at_ms: u64,
    deleted: bool,
    older_in: u64,
}

/// A cursor over a memtable as one sequence number sees it.
pub(crate) struct MemCursor {
    table: Arc<MemTable>,
    encoder: Encoder,
    span: Span,
    sequence: Sequence,
    shard: usize,
    /// The last key copied from the current shard.
    after: Option<(Digest, Vec<u8>)>,
    chunk: Vec<Copied>,
    at: usize,
    arena: Vec<u8>,
}

impl MemCursor {
    /// Copies the next entries.
    fn fill(&mut self) -> Result<()> {
        self.chunk.clear();
        self.arena.clear();
        self.at = 0;
        let table = Arc::clone(&self.table);
        let last_shard = table.shard_number(self.span.last.hi);
        while self.chunk.is_empty() && self.shard <= last_shard {
            let Some(shard) = table.shards.get(self.shard) else { return Ok(()) };
            let from = match self.after.take() {
                // Sequence 0 is older than every version: the probe stands behind all of the key's.
                Some((digest, key)) => Version::probe(digest, &key, 0),
                None => Version::probe(self.span.first, &[], Sequence::MAX),
            };
            let mut previous: Option<(Digest, Vec<u8>)> = None;
            let mut next = shard.lower_bound(Bound::Excluded(&from));
            while let Some(entry) = next {
                let version = entry.key();
                if version.digest > self.span.last {
                    break;
                }
                let repeats = previous
                    .as_ref()
                    .is_some_and(|(digest, key)| *digest == version.digest && key == version.key());
                if repeats {
                    // The newest version goes on, with what the oldest one's writer learnt of tables.
                    if let Some(newest) = self.chunk.last_mut() {
                        newest.older_in = version.older_in;
                    }
                } else if version.sequence <= self.sequence {
                    if self.chunk.len() == CHUNK_ENTRIES {
                        self.after = previous;
                        return Ok(());
                    }
                    self.copy(version)?;
                    previous = Some((version.digest, version.key().to_vec()));
                }
                next = entry.next();
            }
            self.shard += 1;
        }
        Ok(())
    }

    fn copy(&mut self, version: &Version) -> Result<()> {
        let (digest, fingerprint) = (version.digest, version.fingerprint);
        let prefix_len = self.encoder.schema().prefix_len(version.key())?;
        let key = EncodedKey { digest, fingerprint, key: version.key(), prefix_len };
        let hidden =
            self.table.prefix_deleted_at(&key, self.sequence).is_some_and(|at| at > version.sequence);
        let key_at = self.arena.len();
        self.arena.extend_from_slice(key.key);
        let value_at = self.arena.len();
        let (mut expires_at_ms, mut deleted) = (0, true);
        if let (false, Item::Put { value, expires_at_ms: at }) = (hidden, version.item()) {
            self.arena.extend_from_slice(value);
            (expires_at_ms, deleted) = (at, false);
        }
        self.chunk.push(Copied {
            digest,
            fingerprint,
            prefix_len,
            key_at,
            value_at,
            end: self.arena.len(),
            expires_at_ms,
            deleted,
            older_in: version.older_in,
        });
        Ok(())
    }
}

impl Cursor for MemCursor {
    fn peek(&self) -> Option<EntryRef<'_>> {
        let copied = self.chunk.get(self.at)?;
        let key = EncodedKey {
            digest: copied.digest,
            fingerprint: copied.fingerprint,
            key: self.arena.get(copied.key_at..copied.value_at)?,
            prefix_len: copied.prefix_len,
        };
        let item = if copied.deleted {
            Item::Deleted
        } else {
            let value = self.arena.get(copied.value_at..copied.end)?;
            Item::Put { value, expires_at_ms: copied.expires_at_ms }
        };
        Some(EntryRef { key, item, older_in: copied.older_in })
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at >= self.chunk.len() {
            self.fill()?;
        }
        Ok(())
    }
}
