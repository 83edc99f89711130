//! The secondary table: keys in full, for those whose fingerprint another key had first.
//!
//! The idea: records lie one after the other in one array; an index of tags and offsets finds them by hash.
//! Both are flat, so that a clone is two copies, and a record's key is compared whole, so that an answer is
//! exact.
//!
//! Source: Ren et al., "SlimDB" (VLDB 2017), §3.2 (the secondary table of Figure 8). The paper leaves its
//! form open.
//!
//! ```text
//!  record:  | slot: u8 | tag: u32 | key length: varint | key |        tag: 32 bits mixed from the key's hash
//!  index entry, 0 if empty:  tag << 32 | offset of the record + 1
//! ```
//!
//! Invariants: each key has one record; the index is a power of two of entries, at most three quarters in
//! use, searched from the place that the tag's upper bits give; it is what inserting the records in order
//! makes of it, and is therefore not stored.

use crate::code::varint;
use crate::error::DecodeError;
use crate::filter::cuckoo::geometry::mix;

/// Bytes of a record before its key's length.
const RECORD_HEAD_BYTES: usize = 5;
const INDEX_ENTRIES_LEAST: usize = 8;

/// Keys and their slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Secondary {
    records: Vec<u8>,
    index: Vec<u64>,
    keys: usize,
}

/// What stands in one record.
struct Record<'a> {
    slot: u8,
    tag: u32,
    key: &'a [u8],
    len: usize,
}

/// The record at the start of `bytes`.
fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let (&[slot, a, b, c, d], rest) = bytes.split_first_chunk::<RECORD_HEAD_BYTES>()?;
    let (key_len, len_bytes) = varint::get_u64(rest)?;
    let key = rest.get(len_bytes..)?.get(..usize::try_from(key_len).ok()?)?;
    let len = RECORD_HEAD_BYTES + len_bytes + key.len();
    Some(Record { slot, tag: u32::from_le_bytes([a, b, c, d]), key, len })
}

/// Bits of the hash that the first table does not use in the same way.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (mix(hash).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32) as u32
}

impl Secondary {
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.records.capacity() + self.index.capacity() * 8
    }

    /// Bytes in use, which is what a clone copies, if a key of `key_len` bytes were added.
    pub(super) fn used_bytes_with(&self, key_len: usize) -> usize {
        let len_bytes = key_len.checked_ilog2().unwrap_or(0) as usize / 7 + 1;
        let index = if self.is_index_full() { Self::index_entries(self.keys + 1) } else { self.index.len() };
        self.records.len() + RECORD_HEAD_BYTES + len_bytes + key_len + index * 8
    }

    /// Entries of an index of `keys` keys: at most three quarters in use.
    fn index_entries(keys: usize) -> usize {
        (keys * 4).div_ceil(3).next_power_of_two().max(INDEX_ENTRIES_LEAST)
    }

    fn is_index_full(&self) -> bool {
        (self.keys + 1) * 4 > self.index.len() * 3
    }

    /// Where the index begins to be searched for a tag.
    fn start(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.index.len() as u64) >> 32) as usize
    }

    /// Offset of the key's record.
    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        if self.keys == 0 {
            return None;
        }
        let tag = tag_of(hash);
        let start = self.start(tag);
        let (before, from) = self.index.split_at_checked(start)?;
        for entry in from.iter().chain(before).take_while(|entry| **entry != 0) {
            if (entry >> 32) as u32 != tag {
                continue;
            }
            let at = (*entry as u32 - 1) as usize;
            if self.records.get(at..).and_then(parse).is_some_and(|record| record.key == key) {
                return Some(at);
            }
        }
        None
    }

    /// The slot of a key.
    #[inline]
    pub(super) fn get(&self, hash: u64, key: &[u8]) -> Option<u8> {
        self.find(hash, key).and_then(|at| self.records.get(at).copied())
    }

    /// Changes the slot of a key. False if it is not here.
    pub(super) fn set(&mut self, hash: u64, key: &[u8], slot: u8) -> bool {
        let found = self.find(hash, key).and_then(|at| self.records.get_mut(at));
        found.is_some_and(|place| {
            *place = slot;
            true
        })
    }

    /// Adds a key that is not here. False if there is no place for it: records may take 4 GiB.
    pub(super) fn insert(&mut self, hash: u64, key: &[u8], slot: u8) -> bool {
        let tag = tag_of(hash);
        let at = self.records.len();
        if u32::try_from(at + key.len() + RECORD_HEAD_BYTES + varint::MAX_BYTES).is_err() {
            return false;
        }
        self.records.push(slot);
        self.records.extend_from_slice(&tag.to_le_bytes());
        varint::put_u64(&mut self.records, key.len() as u64);
        self.records.extend_from_slice(key);
        if self.is_index_full() {
            self.rebuild_index(self.keys + 1);
        } else {
            self.enter(tag, at);
        }
        self.keys += 1;
        true
    }

    fn enter(&mut self, tag: u32, at: usize) {
        let start = self.start(tag);
        let entry = u64::from(tag) << 32 | (at as u64 + 1);
        if let Some((before, from)) = self.index.split_at_mut_checked(start)
            && let Some(place) = from.iter_mut().chain(before).find(|place| **place == 0)
        {
            *place = entry;
        }
    }

    /// Makes an index for `keys` keys out of the records.
    fn rebuild_index(&mut self, keys: usize) {
        self.index = vec![0; Self::index_entries(keys)];
        let mut at = 0;
        while let Some(Record { tag, len, .. }) = self.records.get(at..).and_then(parse) {
            self.enter(tag, at);
            at += len;
        }
    }

    /// Passes every slot through `map`.
    pub(super) fn remap_slots(&mut self, map: impl Fn(u8) -> u8) {
        let mut at = 0;
        while let Some(Record { slot, len, .. }) = self.records.get(at..).and_then(parse) {
            #[expect(clippy::indexing_slicing, reason = "a record was parsed there")]
            let place = &mut self.records[at];
            *place = map(slot);
            at += len;
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.records
    }

    /// Takes over records, and makes their index.
    ///
    /// # Errors
    ///
    /// If the bytes are not a sequence of records with slots below `slots`.
    pub(super) fn from_bytes(bytes: &[u8], slots: u32) -> Result<Self, DecodeError> {
        let error = |at: usize| {
            DecodeError::new(
                "secondary table, record",
                format!("a key and a slot below {slots}"),
                format!("byte {at}"),
            )
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(error(u32::MAX as usize));
        }
        let (mut at, mut keys) = (0, 0);
        while at < bytes.len() {
            let record = bytes.get(at..).and_then(parse).filter(|record| u32::from(record.slot) < slots);
            at += record.ok_or_else(|| error(at))?.len;
            keys += 1;
        }
        let mut secondary = Secondary { records: bytes.to_vec(), index: Vec::new(), keys };
        if keys > 0 {
            secondary.rebuild_index(keys);
        }
        Ok(secondary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_equal_hashes_are_told_apart() {
        let mut table = Secondary::default();
        assert_eq!(table.get(1, b"a"), None);
        for number in 0..1000u32 {
            let hash = u64::from(number / 3);
            assert!(!table.set(hash, &number.to_le_bytes(), 1));
            let expected = table.used_bytes_with(4);
            assert!(table.insert(hash, &number.to_le_bytes(), (number % 7) as u8));
            assert_eq!(table.records.len() + table.index.len() * 8, expected);
        }
        assert!(table.set(4, &13u32.to_le_bytes(), 63));
        table.remap_slots(|slot| if slot == 63 { 9 } else { slot });
        let again = Secondary::from_bytes(table.as_bytes(), 10).unwrap();
        assert_eq!(again, table);
        assert!(Secondary::from_bytes(table.as_bytes(), 9).is_err());
        for number in 0..1000u32 {
            let slot = if number == 13 { 9 } else { (number % 7) as u8 };
            assert_eq!(again.get(u64::from(number / 3), &number.to_le_bytes()), Some(slot));
            // The hash is part of the question.
            assert_eq!(again.get(u64::from(number / 3), &(number + 3).to_le_bytes()), None);
        }
    }

    #[test]
    fn long_and_empty_keys_fit() {
        let mut table = Secondary::default();
        assert!(table.insert(5, b"", 0));
        assert!(table.insert(5, &[7; 70_000], 1));
        assert_eq!((table.get(5, b""), table.get(5, &[7; 70_000])), (Some(0), Some(1)));
        assert_eq!(Secondary::from_bytes(table.as_bytes(), 2).unwrap(), table);
        assert!(Secondary::from_bytes(&table.as_bytes()[..1000], 2).is_err());
    }
}
