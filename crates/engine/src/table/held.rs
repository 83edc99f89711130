//! An entry of a new table that is held back until the first of them have shown what is best for all.

use crate::entry::{EntryRef, ItemParts};
use siltstone_design::{Digest, EncodedKey};

/// An entry with bytes of its own.
pub(super) struct Held {
    place: (Digest, u64),
    prefix_len: usize,
    /// The key, then the value.
    bytes: Vec<u8>,
    key_len: usize,
    expires_at_ms: u64,
    deleted: bool,
    older_in: u64,
}

impl Held {
    pub fn of(entry: &EntryRef<'_>) -> Self {
        let ItemParts { value, expires_at_ms, deleted } = entry.item.parts();
        Self {
            place: (entry.key.digest, entry.key.fingerprint),
            prefix_len: entry.key.prefix_len,
            bytes: [entry.key.key, value].concat(),
            key_len: entry.key.key.len(),
            expires_at_ms,
            deleted,
            older_in: entry.older_in,
        }
    }

    pub fn entry(&self) -> EntryRef<'_> {
        let (digest, fingerprint) = self.place;
        let key = EncodedKey { digest, fingerprint, key: self.key(), prefix_len: self.prefix_len };
        let Self { expires_at_ms, deleted, older_in, .. } = *self;
        let value = self.value();
        EntryRef { key, item: ItemParts { value, expires_at_ms, deleted }.item(), older_in }
    }

    pub fn digest(&self) -> Digest {
        self.place.0
    }

    pub fn key(&self) -> &[u8] {
        self.bytes.get(..self.key_len).unwrap_or(&[])
    }

    pub fn value(&self) -> &[u8] {
        self.bytes.get(self.key_len..).unwrap_or(&[])
    }

    /// Bytes of key and value.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
