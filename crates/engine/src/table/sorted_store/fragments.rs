//! Fragments of keys' hashes in the order of a sorted store's slots: what spares the reads of all but one of
//! several stores.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), §3.3, "application of false positive filters": the trie names a
//! slot for every key, stored or not, so that a few bits of the slot's own key tell most absent ones without
//! a search of their own. An absent key is taken for a stored one at a rate of 2 to the minus `width`.
//!
//! Invariant: there are as many fragments as slots.

use siltstone_design::TableFilterSpec;
use siltstone_succinct::bits::vector::{BitVec, BitVecBuilder};
use siltstone_succinct::error::DecodeError;

/// Bits of the fragments that a filter's specification asks for, if it asks for any.
pub(crate) fn fragment_bits(filter: TableFilterSpec) -> Option<u8> {
    match filter {
        TableFilterSpec::Fragments { fragment_bits } => Some(fragment_bits),
        TableFilterSpec::None | TableFilterSpec::Bloom { .. } | TableFilterSpec::Cuckoo { .. } => None,
    }
}

/// The part of a key's fingerprint that is kept. Digests lead to the slot, so the fingerprint is what is left
/// to tell.
fn fragment(fingerprint: u64, width: u32) -> u64 {
    fingerprint.checked_shr(u64::BITS.saturating_sub(width)).unwrap_or(0)
}

/// Gathers the fragments of a store.
pub(crate) struct FragmentsBuilder {
    bits: BitVecBuilder,
    width: u32,
}

impl FragmentsBuilder {
    pub fn new(width: u8) -> Self {
        Self { bits: BitVecBuilder::new(), width: u32::from(width) }
    }

    /// Adds the key of the next slot.
    pub fn push(&mut self, fingerprint: u64) {
        self.bits.push_bits(fragment(fingerprint, self.width), self.width);
    }

    pub fn finish(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.bits.finish().to_bytes(&mut bytes);
        bytes
    }
}

/// The fragments of a store.
pub(crate) struct Fragments {
    bits: BitVec,
    width: u32,
}

impl Fragments {
    /// The fragments of `entries` slots, of `width` bits each.
    pub fn from_bytes(bytes: &[u8], width: u8, entries: u64) -> Result<Self, DecodeError> {
        let (bits, width) = (BitVec::from_bytes(bytes)?, u32::from(width));
        let needed = entries.checked_mul(u64::from(width));
        if needed != Some(bits.len() as u64) {
            let expected = format!("{width} bits for each of {entries} slots");
            return Err(DecodeError::new(
                "sorted store, fragments",
                expected,
                format!("{} bits", bits.len()),
            ));
        }
        Ok(Self { bits, width })
    }

    /// Whether the entry in `slot` may be that of the key with this fingerprint.
    #[inline]
    pub fn may_hold(&self, slot: usize, fingerprint: u64) -> bool {
        let kept = slot.checked_mul(self.width as usize).and_then(|at| self.bits.get_bits(at, self.width));
        kept == Some(fragment(fingerprint, self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slot_holds_its_own_key_and_few_others(
            keys in proptest::collection::vec(any::<u64>(), 0..200), width in 2u8..=32, other in any::<u64>(),
        ) {
            let mut builder = FragmentsBuilder::new(width);
            keys.iter().for_each(|key| builder.push(*key));
            let bytes = builder.finish();
            let fragments = Fragments::from_bytes(&bytes, width, keys.len() as u64).unwrap();
            for (slot, key) in keys.iter().enumerate() {
                prop_assert!(fragments.may_hold(slot, *key));
                prop_assert_eq!(fragments.may_hold(slot, other), key >> (64 - width) == other >> (64 - width));
            }
            prop_assert!(!fragments.may_hold(keys.len(), other) && !fragments.may_hold(usize::MAX, other));
            prop_assert!(Fragments::from_bytes(&bytes, width, keys.len() as u64 + 1).is_err());
        }
    }
}
