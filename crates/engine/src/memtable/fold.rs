//! Operands in a memtable: they fold as they come in, so that it holds one version of a key however often
//! that is merged.
//!
//! A new version holds all that the memtable knows of its key. The one that it replaces stays until the new
//! one is visible and no snapshot sees the old one, as in a log store. A reader that comes between is told to
//! look again.
//!
//! Invariants: what a prefix deletion hides is not folded over; a version is taken out only once a newer one
//! is visible that was made of it.

use super::MemTable;
use super::shard::{Freed, Version};
use crate::entry::{Item, Sequence};
use crate::merge_operator::{Folded, Folder};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use siltstone_design::Digest;
use std::sync::Arc;

/// What a memtable that folds has beside one that does not.
pub(super) struct Folding {
    folder: Arc<Folder>,
    /// Versions that newer ones replace once these are visible.
    superseded: Mutex<Vec<Superseded>>,
    /// Bytes of versions that were taken out, which wait for others.
    waiting_bytes: AtomicU64,
}

/// A version of a key and the next newer one.
struct Superseded {
    digest: Digest,
    old: Sequence,
    new: Sequence,
}

impl Folding {
    pub fn new(folder: Arc<Folder>) -> Self {
        Self { folder, superseded: Mutex::default(), waiting_bytes: AtomicU64::new(0) }
    }

    /// Notes that so many bytes no longer wait.
    pub fn note_reused(&self, bytes: u64) {
        if bytes > 0 {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }
}

impl MemTable {
    /// Adds `new`, whose operands these are, folded over what there is of its key.
    pub(super) fn insert_operands(&self, new: &Version<'_>, operands: &[u8], folding: &Folding) {
        let shards = self.shards_for_writing();
        let Some(shard) = shards.list.get(shards.number(new.digest.hi)) else { return };
        let deleted_at = self.deleted_prefix_of(new);
        let mut shard = shard.write();
        let newest = shard.from(new.digest, new.key, Sequence::MAX).next();
        let newest = newest.filter(|version| version.digest == new.digest && version.key == new.key);
        let over = match &newest {
            Some(version) if deleted_at.is_none_or(|at| at < version.sequence) => Some(version.item),
            // Its prefix was deleted since, and with it all that is older.
            _ if deleted_at.is_some() => Some(Item::Deleted),
            _ => None,
        };
        // What stands in a memtable was checked when it came from the log, or made here.
        let folded = over.and_then(|older| folding.folder.fold(operands, older).ok());
        let folded = folded.unwrap_or_else(|| Folded::Operands(operands.to_vec()));
        let (old, older_in) = newest.map_or((None, new.older_in), |old| (Some(old.sequence), old.older_in));
        let version = Version { item: folded.item(), shared: None, older_in, ..*new };
        let reused_bytes = shard.insert(&version, &self.budget);
        drop(shard);
        folding.note_reused(reused_bytes);
        if let Some(old) = old {
            folding.superseded.lock().push(Superseded { digest: new.digest, old, new: new.sequence });
        }
        let bytes = (new.key.len() + folded.item().bytes().len()) as u64;
        self.note(bytes);
    }

    /// When the prefix of the key of `version` was last deleted.
    fn deleted_prefix_of(&self, version: &Version<'_>) -> Option<Sequence> {
        if self.has_deleted_prefixes.load(Ordering::Acquire) == 0 {
            return None;
        }
        let deleted = self.deleted_prefixes.read();
        let group = deleted.get(&version.digest.hi)?;
        // Of prefixes with one digest a key begins with its own.
        let of_key = group.iter().filter(|(_, tombstone)| version.key.starts_with(&tombstone.prefix));
        of_key.map(|(at, _)| *at).max()
    }

    /// Takes out versions that were folded into newer ones, now that these are visible, unless `is_wanted`:
    /// some snapshot sees at least the first, but not the second of two sequence numbers.
    pub fn settle(&self, is_wanted: impl Fn(Sequence, Sequence) -> bool) {
        let Some(folding) = &self.folding else { return };
        let superseded = std::mem::take(&mut *folding.superseded.lock());
        for Superseded { digest, old, new } in superseded {
            if is_wanted(old, new) {
                continue;
            }
            let freed = self.shard(digest).and_then(|shard| shard.write().remove(digest, old));
            if let Some(Freed { user_bytes, waiting_bytes }) = freed {
                self.entries.fetch_sub(1, Ordering::Relaxed);
                self.user_bytes.fetch_sub(user_bytes, Ordering::Relaxed);
                folding.waiting_bytes.fetch_add(waiting_bytes, Ordering::Relaxed);
            }
        }
    }
}
