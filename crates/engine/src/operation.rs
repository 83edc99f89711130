//! Operations: what a batch is made of, as it stands in the log.
//!
//! ```text
//! operation  kind u8 · keyspace varint · key length varint · key · [expiry varint, ms] · [value length varint · value]
//! kind       1 put   2 put that expires   3 delete   4 delete prefix   6 merge, whose value is operands
//!
//! checked    5 · length varint · crc u32 · operation of kind 1 to 3 or 6, so many bytes, with this CRC-32C
//! ```
//!
//! Keyspaces whose write buffer is a log store write checked operations: one of them can be read from the log
//! by itself, and found sound or not, without the batch around it. They are ours; SILT's records have no
//! checksums.
//!
//! Invariant: a checked operation is accepted only if its bytes have its checksum.

use crate::codec::{Decoder, put_bytes};
use crate::entry::Item;
use crate::merge_operator;
use crc32c::crc32c;
use siltstone_succinct::code::varint;
use std::ops::Range;

const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const DELETE: u8 = 3;
const DELETE_PREFIX: u8 = 4;
const CHECKED: u8 = 5;
const MERGE: u8 = 6;

/// Most bytes before what a checked operation wraps: kind, length and checksum.
pub(crate) const CHECKED_HEAD_BYTES: usize = 1 + varint::MAX_BYTES + 4;

/// An operation decoded from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation<'a> {
    pub keyspace: u64,
    pub key: &'a [u8],
    /// What is written under the key; `None` deletes the prefix `key`.
    pub item: Option<Item<'a>>,
    /// Whether it has a checksum of its own.
    pub is_checked: bool,
}

/// Where an operation stands in a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// All of it.
    pub at: Range<usize>,
    pub key: Range<usize>,
    pub value: Range<usize>,
}

fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn bytes_bytes(bytes: &[u8]) -> usize {
    varint_bytes(bytes.len() as u64) + bytes.len()
}

/// Appends an operation; `item` as in [`Operation`]. Deleted prefixes are never checked.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    keyspace: u64,
    key: &[u8],
    item: Option<Item<'_>>,
    is_checked: bool,
) -> Encoded {
    let start = out.len();
    let (kind, expires_at_ms, value) = match item {
        Some(Item::Put { value, expires_at_ms: 0 }) => (PUT, 0, Some(value)),
        Some(Item::Put { value, expires_at_ms }) => (PUT_EXPIRING, expires_at_ms, Some(value)),
        Some(Item::Operands(operands)) => (MERGE, 0, Some(operands)),
        Some(Item::Deleted) => (DELETE, 0, None),
        None => (DELETE_PREFIX, 0, None),
    };
    let mut crc_at = None;
    if is_checked && kind != DELETE_PREFIX {
        let expiry_bytes = if expires_at_ms > 0 { varint_bytes(expires_at_ms) } else { 0 };
        let length =
            1 + varint_bytes(keyspace) + bytes_bytes(key) + expiry_bytes + value.map_or(0, bytes_bytes);
        out.reserve(CHECKED_HEAD_BYTES + length);
        out.push(CHECKED);
        varint::put_u64(out, length as u64);
        crc_at = Some(out.len());
        out.extend_from_slice(&[0; 4]);
    }
    out.push(kind);
    varint::put_u64(out, keyspace);
    put_bytes(out, key);
    let key_end = out.len();
    if expires_at_ms > 0 {
        varint::put_u64(out, expires_at_ms);
    }
    if let Some(value) = value {
        put_bytes(out, value);
    }
    let end = out.len();
    if let Some(at) = crc_at
        && let Some((place, checked)) = out.get_mut(at..).and_then(|rest| rest.split_first_chunk_mut::<4>())
    {
        *place = crc32c(checked).to_le_bytes();
    }
    let value_len = value.map_or(0, <[u8]>::len);
    Encoded { at: start..end, key: key_end - key.len()..key_end, value: end - value_len..end }
}

/// Decodes the next operation of a payload; `None` where the bytes make no sense.
pub(crate) fn decode<'a>(from: &mut Decoder<'a>) -> Option<Operation<'a>> {
    match from.u8()? {
        CHECKED => {
            let (length, crc) = (from.length()?, from.u32()?);
            let bytes = from.take(length)?;
            if crc32c(bytes) != crc {
                return None;
            }
            let mut inner = Decoder::new(bytes);
            let kind = inner.u8().filter(|kind| *kind != DELETE_PREFIX)?;
            let operation = plain(kind, &mut inner)?;
            inner.is_empty().then_some(Operation { is_checked: true, ..operation })
        }
        kind => plain(kind, from),
    }
}

fn plain<'a>(kind: u8, from: &mut Decoder<'a>) -> Option<Operation<'a>> {
    let (keyspace, key) = (from.varint()?, from.bytes()?);
    let item = match kind {
        PUT => Some(Item::Put { value: from.bytes()?, expires_at_ms: 0 }),
        PUT_EXPIRING => {
            let expires_at_ms = from.varint()?;
            Some(Item::Put { value: from.bytes()?, expires_at_ms })
        }
        MERGE => Some(Item::Operands(from.bytes().filter(|operands| merge_operator::is_one(operands))?)),
        DELETE => Some(Item::Deleted),
        DELETE_PREFIX => None,
        _ => return None,
    };
    Some(Operation { keyspace, key, item, is_checked: false })
}

/// Bytes of the checked operation that begins with `start`, of which the first [`CHECKED_HEAD_BYTES`] do, or
/// all there is; `None` where none does.
pub(crate) fn checked_length(start: &[u8]) -> Option<usize> {
    let mut from = Decoder::new(start);
    if from.u8()? != CHECKED {
        return None;
    }
    let length = from.length()?;
    (start.len() - from.remaining() + 4).checked_add(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_and_a_changed_byte_of_a_checked_one_is_noticed(
            keyspace in any::<u64>(), key in proptest::collection::vec(any::<u8>(), 1..200),
            value in proptest::collection::vec(any::<u8>(), 0..200), expires_at_ms in prop_oneof![Just(0), any::<u64>()],
            which in 0..4, is_checked in any::<bool>(), at in any::<prop::sample::Index>(), flip in 1u8..,
        ) {
            let value = if which == 3 { merge_operator::operand(&value) } else { value };
            let item = match which {
                0 => Some(Item::Put { value: &value, expires_at_ms }),
                1 => Some(Item::Deleted),
                3 => Some(Item::Operands(&value)),
                _ => None,
            };
            let mut bytes = vec![7; 3];
            let encoded = encode(&mut bytes, keyspace, &key, item, is_checked);
            prop_assert_eq!(&bytes[encoded.key.clone()], &key);
            if which == 0 || which == 3 {
                prop_assert_eq!(&bytes[encoded.value.clone()], &value);
            }
            let mut bytes = bytes[encoded.at].to_vec();
            let is_checked = is_checked && which != 2;
            let expected = Operation { keyspace, key: &key, item, is_checked };
            let mut from = Decoder::new(&bytes);
            prop_assert_eq!(decode(&mut from), Some(expected));
            prop_assert!(from.is_empty());
            prop_assert_eq!(checked_length(&bytes[..bytes.len().min(CHECKED_HEAD_BYTES)]), is_checked.then_some(bytes.len()));
            if is_checked {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
                let found = decode(&mut Decoder::new(&bytes));
                prop_assert!(found.is_none_or(|found| !found.is_checked), "{:?}", found);
            }
        }
    }
}
