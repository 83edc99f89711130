//! The walk over a memtable, which copies a few entries at a time so that no shard is locked for long.

use super::MemTable;
use super::shard::Version;
use crate::entry::{Cursor, EntryRef, Item, ItemParts, Sequence, Span};
use crate::error::Result;
use crate::value::Shared;
use siltstone_design::{Digest, EncodedKey, Encoder};
use std::sync::Arc;

/// Entries copied out of a shard at a time, and their bytes, but for the last one's: it is locked meanwhile.
const CHUNK_ENTRIES: usize = 128;
const CHUNK_BYTES: usize = 256 << 10;

/// A place within the cursor's copied bytes.
struct Copied {
    digest: Digest,
    fingerprint: u64,
    prefix_len: usize,
    key_at: usize,
    value_at: usize,
    end: usize,
    /// The value, where it is not copied.
    shared: Option<Shared>,
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
    /// A walk over the newest version of each key within `span` that `sequence` can see.
    pub fn new(table: Arc<MemTable>, span: Span, sequence: Sequence, encoder: Encoder) -> Result<Self> {
        let shard = table.shard_number(span.first.hi);
        let (after, chunk, at, arena) = (None, Vec::new(), 0, Vec::new());
        let mut cursor = Self { table, encoder, span, sequence, shard, after, chunk, at, arena };
        cursor.fill()?;
        Ok(cursor)
    }

    /// Copies the next entries.
    fn fill(&mut self) -> Result<()> {
        self.chunk.clear();
        self.arena.clear();
        self.arena.shrink_to(2 * CHUNK_BYTES);
        self.at = 0;
        let table = Arc::clone(&self.table);
        let last_shard = table.shard_number(self.span.last.hi);
        while self.chunk.is_empty() && self.shard <= last_shard {
            let Some(shard) = table.shard_at(self.shard) else { return Ok(()) };
            let shard = shard.read();
            let (digest, key, sequence) = match self.after.take() {
                // Sequence 0 is older than every version: this begins behind all of the key's.
                Some((digest, key)) => (digest, key, 0),
                None => (self.span.first, Vec::new(), Sequence::MAX),
            };
            std::hint::black_box(shard.prefetch((digest, &key, sequence), self.span.last, CHUNK_ENTRIES));
            let versions = shard.from(digest, &key, sequence);
            let mut previous: Option<Version<'_>> = None;
            for version in versions {
                if version.digest > self.span.last {
                    break;
                }
                let repeats = previous
                    .is_some_and(|previous| previous.digest == version.digest && previous.key == version.key);
                if repeats {
                    // The newest version goes on, with what the oldest one's writer learnt of tables.
                    if let Some(newest) = self.chunk.last_mut() {
                        newest.older_in = version.older_in;
                    }
                } else if version.sequence <= self.sequence {
                    let is_full = self.chunk.len() == CHUNK_ENTRIES || self.arena.len() >= CHUNK_BYTES;
                    if is_full && previous.is_some() {
                        self.after = previous.map(|previous| (previous.digest, previous.key.to_vec()));
                        return Ok(());
                    }
                    self.copy(&version)?;
                    previous = Some(version);
                }
            }
            self.shard += 1;
        }
        Ok(())
    }

    fn copy(&mut self, version: &Version<'_>) -> Result<()> {
        let (digest, fingerprint) = (version.digest, version.fingerprint);
        let prefix_len = self.encoder.prefix_len(version.key)?;
        let key = EncodedKey { digest, fingerprint, key: version.key, prefix_len };
        let hidden =
            self.table.prefix_deleted_at(&key, self.sequence).is_some_and(|at| at > version.sequence);
        let key_at = self.arena.len();
        self.arena.extend_from_slice(key.key);
        let value_at = self.arena.len();
        let item = if hidden { Item::Deleted } else { version.item };
        let ItemParts { value, expires_at_ms, deleted } = item.parts();
        let shared = version.shared.filter(|_| !hidden).cloned();
        if shared.is_none() {
            self.arena.extend_from_slice(value);
        }
        self.chunk.push(Copied {
            digest,
            fingerprint,
            prefix_len,
            key_at,
            value_at,
            end: self.arena.len(),
            shared,
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
        let Copied { expires_at_ms, deleted, .. } = *copied;
        let value = match &copied.shared {
            Some(shared) => shared.bytes(),
            None => self.arena.get(copied.value_at..copied.end)?,
        };
        let item = ItemParts { value, expires_at_ms, deleted }.item();
        Some(EntryRef { key, item, older_in: copied.older_in })
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        self.at += 1;
        if self.at >= self.chunk.len() {
            self.fill()?;
        }
        Ok(self.chunk.get(self.at).map(|copied| copied.digest))
    }
}
