//! Entries for which the primary table has no room although it is far from full.
//!
//! The idea: two buckets hold eight entries, and a ninth with the same fingerprint has nowhere to go, however
//! many other buckets there are. Such entries are kept here as a multiset, and mean the same as those in the
//! table.
//!
//! Source: ours; the paper does not say what happens to a ninth. It takes keys that share all bits of hash
//! and fingerprint, or one key written blindly by more than eight runs, so mostly nothing is here.
//!
//! ```text
//!  entry:  | identity: u64 | slot: u8 | copies: u32 |        ascending by identity, then slot
//! ```
//!
//! Invariants: no entry has 0 copies.

use std::collections::BTreeMap;

use crate::error::DecodeError;

pub(super) const ENTRY_BYTES: usize = 13;

/// A multiset of (fingerprint and place, slot).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stash {
    copies: BTreeMap<(u64, u8), u32>,
}

impl Stash {
    pub(super) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Entries that differ.
    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// The slots of an identity, bit by bit.
    pub(super) fn slots(&self, identity: u64) -> u64 {
        let range = (identity, 0)..=(identity, u8::MAX);
        self.copies.range(range).fold(0, |slots, ((_, slot), _)| slots | 1 << slot)
    }

    pub(super) fn add(&mut self, identity: u64, slot: u8) {
        let copies = self.copies.entry((identity, slot)).or_insert(0);
        // Beyond 2^32 copies one more makes no difference that anyone could live to see.
        *copies = copies.saturating_add(1);
    }

    /// Changes the slot of one copy from `old` to `new`. False if there is none.
    pub(super) fn replace(&mut self, identity: u64, old: u8, new: u8) -> bool {
        let Some(copies) = self.copies.get_mut(&(identity, old)) else {
            return false;
        };
        *copies -= 1;
        if *copies == 0 {
            self.copies.remove(&(identity, old));
        }
        self.add(identity, new);
        true
    }

    /// Passes every slot through `map`.
    pub(super) fn remap_slots(&mut self, map: impl Fn(u8) -> u8) {
        for ((identity, slot), copies) in std::mem::take(&mut self.copies) {
            let sum = self.copies.entry((identity, map(slot))).or_insert(0);
            *sum = sum.saturating_add(copies);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Key and value, and about as much again for the tree.
        self.copies.len() * 2 * size_of::<((u64, u8), u32)>()
    }

    pub(super) fn to_bytes(&self, out: &mut Vec<u8>) {
        for ((identity, slot), copies) in &self.copies {
            out.extend_from_slice(&identity.to_le_bytes());
            out.push(*slot);
            out.extend_from_slice(&copies.to_le_bytes());
        }
    }

    /// # Errors
    ///
    /// If the bytes are not ascending entries with slots below `slots` and at least one copy.
    pub(super) fn from_bytes(bytes: &[u8], slots: u32) -> Result<Self, DecodeError> {
        let (chunks, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        let mut stash = Stash::default();
        let mut last = None;
        for &[a, b, c, d, e, f, g, h, slot, i, j, k, l] in chunks {
            let entry = (u64::from_le_bytes([a, b, c, d, e, f, g, h]), slot);
            let copies = u32::from_le_bytes([i, j, k, l]);
            if last >= Some(entry) || u32::from(slot) >= slots || copies == 0 {
                let expected = format!("ascending identities, slots below {slots}, copies");
                return Err(DecodeError::new(
                    "stash, entry",
                    expected,
                    format!("{entry:?}, {copies} copies"),
                ));
            }
            last = Some(entry);
            stash.copies.insert(entry, copies);
        }
        if !rest.is_empty() {
            return Err(DecodeError::new(
                "stash, end",
                "whole entries",
                format!("{} bytes more", rest.len()),
            ));
        }
        Ok(stash)
    }
}
