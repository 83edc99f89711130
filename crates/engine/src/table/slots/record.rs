//! What stands in a slot: a record, the start of one, or nothing.

use crate::codec::Decoder;
use crate::entry::{EntryRef, Item, ItemParts};
use siltstone_succinct::code::varint;

const DELETED: u64 = 1;
const EXPIRES: u64 = 2;
const OWN_KEY_LENGTH: u64 = 4;
const FLAG_BITS: u32 = 3;
/// The first bytes of a slot below this say that it is empty, or that its record is spilled.
const FIRST_TAG: u64 = 2;
const EMPTY: u8 = 0;
const SPILLED: u8 = 1;
/// Bytes of a spilled slot before the record's start.
pub(crate) const SPILL_HEADER_BYTES: usize = 9;

/// Appends an entry's record but for its value, which is its end, for a table whose keys have `key_bytes`
/// bytes unless told otherwise.
pub(crate) fn encode_before_value(out: &mut Vec<u8>, key_bytes: u32, entry: &EntryRef<'_>) {
    let key = entry.key.key;
    let ItemParts { value, expires_at_ms, deleted } = entry.item.parts();
    let has_own_length = key.len() != key_bytes as usize;
    let mut tag = (value.len() as u64) << FLAG_BITS | if deleted { DELETED } else { 0 };
    tag |= if expires_at_ms > 0 { EXPIRES } else { 0 };
    tag |= if has_own_length { OWN_KEY_LENGTH } else { 0 };
    varint::put_u64(out, tag + FIRST_TAG);
    if has_own_length {
        varint::put_u64(out, key.len() as u64);
    }
    if expires_at_ms > 0 {
        varint::put_u64(out, expires_at_ms);
    }
    out.extend_from_slice(key);
}

/// Appends the slot of a record that does not fit it: the record's `head`, and where the other `tail_len`
/// bytes are.
pub(crate) fn encode_spilled(out: &mut Vec<u8>, page: u32, tail_len: u32, head: &[u8]) {
    out.push(SPILLED);
    out.extend_from_slice(&page.to_le_bytes());
    out.extend_from_slice(&tail_len.to_le_bytes());
    out.extend_from_slice(head);
}

/// A slot's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot<'a> {
    Empty,
    /// A record, and what fills up the slot behind it.
    Whole(&'a [u8]),
    /// The start of a record; the rest has `tail_len` bytes in overflow pages from `page` on.
    Spilled {
        page: u32,
        tail_len: usize,
        head: &'a [u8],
    },
}

impl<'a> Slot<'a> {
    /// What stands in a slot's bytes; `None` where they make no sense.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        match *bytes.first()? {
            EMPTY => Some(Self::Empty),
            SPILLED => {
                let mut from = Decoder::new(bytes.get(1..)?);
                let (page, tail_len) = (from.u32()?, from.u32()? as usize);
                Some(Self::Spilled { page, tail_len, head: bytes.get(SPILL_HEADER_BYTES..)? })
            }
            _ => Some(Self::Whole(bytes)),
        }
    }
}

/// Where the parts of a record lie in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub key_at: usize,
    pub value_at: usize,
    pub end: usize,
    pub expires_at_ms: u64,
    pub deleted: bool,
}

impl Parts {
    /// The parts of the record that `bytes` begin with. They may end behind the bytes, if these are its start
    /// only; `None` where the bytes make no sense, or end before the key.
    #[inline]
    pub fn decode(bytes: &[u8], key_bytes: u32) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let tag = from.varint()?.checked_sub(FIRST_TAG)?;
        let key_len = if tag & OWN_KEY_LENGTH != 0 { from.length()? } else { key_bytes as usize };
        let expires_at_ms = if tag & EXPIRES != 0 { from.varint()? } else { 0 };
        let key_at = bytes.len() - from.remaining();
        let value_at = key_at.checked_add(key_len)?;
        let end = value_at.checked_add(usize::try_from(tag >> FLAG_BITS).ok()?)?;
        Some(Self { key_at, value_at, end, expires_at_ms, deleted: tag & DELETED != 0 })
    }

    /// The key, if all of it is in `bytes`.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.key_at..self.value_at)
    }

    /// What the key maps to, with `value` in the place of what the record holds.
    pub fn item_with<'a>(&self, value: &'a [u8]) -> Item<'a> {
        let Self { expires_at_ms, deleted, .. } = *self;
        ItemParts { value, expires_at_ms, deleted }.item()
    }

    /// What the key maps to, if all of it is in `bytes`.
    pub fn item<'a>(&self, bytes: &'a [u8]) -> Option<Item<'a>> {
        bytes.get(self.value_at..self.end).map(|value| self.item_with(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siltstone_design::{Digest, EncodedKey};

    proptest! {
        #[test]
        fn records_come_back_whole_or_not_at_all(
            key in proptest::collection::vec(any::<u8>(), 1..40),
            value in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)), is_merge in any::<bool>(),
            expires_at_ms in prop_oneof![Just(0u64), any::<u64>()], key_bytes in 0u32..40, cut in any::<prop::sample::Index>(),
        ) {
            let item = match &value {
                Some(value) if is_merge => Item::Operands(value),
                Some(value) => Item::Put { value, expires_at_ms },
                None => Item::Deleted,
            };
            let encoded = EncodedKey { digest: Digest::default(), fingerprint: 0, key: &key, prefix_len: key.len() };
            let mut bytes = Vec::new();
            encode_before_value(&mut bytes, key_bytes, &EntryRef { key: encoded, item, older_in: 0 });
            bytes.extend_from_slice(item.bytes());
            let length = bytes.len();
            bytes.resize(length + 7, 0);
            prop_assert_eq!(Slot::decode(&bytes), Some(Slot::Whole(&bytes)));
            let parts = Parts::decode(&bytes, key_bytes).unwrap();
            prop_assert_eq!(parts.end, length);
            prop_assert_eq!(parts.key(&bytes), Some(key.as_slice()));
            prop_assert_eq!(parts.item(&bytes), Some(item));

            let (head, tail) = bytes[..length].split_at(cut.index(length));
            let mut slot = Vec::new();
            encode_spilled(&mut slot, 77, tail.len() as u32, head);
            prop_assert_eq!(Slot::decode(&slot), Some(Slot::Spilled { page: 77, tail_len: tail.len(), head }));
            if let Some(parts) = Parts::decode(head, key_bytes) {
                prop_assert_eq!(parts.end, length);
                prop_assert!(parts.item(head).is_none() || tail.is_empty());
            }
        }

        #[test]
        fn nonsense_is_refused_or_decoded_but_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..40), key_bytes in any::<u32>(),
        ) {
            let _ = Slot::decode(&bytes);
            if let Some(parts) = Parts::decode(&bytes, key_bytes) {
                prop_assert!(parts.key_at <= parts.value_at && parts.value_at <= parts.end);
                let _ = (parts.key(&bytes), parts.item(&bytes));
            }
        }
    }
}
