//! Entries of one page: encoding, decoding, and the search for a key.

use crate::cache::PAGE_BYTES;
use crate::codec::Decoder;
use crate::compression::symbols::Symbols;
use crate::entry::{Item, ItemParts};
use crate::table::envelope::{OVERFLOW_MARK, PAGE_HEADER_BYTES};
use siltstone_design::Digest;
use siltstone_succinct::code::varint;

const DELETED: u64 = 1;
const EXPIRES: u64 = 2;
const OVERFLOW: u64 = 4;
/// With `OVERFLOW`: the key stands in the overflow pages too. Without it: the table with the older version
/// follows.
const BIG_KEY: u64 = 8;
const FLAG_BITS: u32 = 4;

/// Where the bytes of an overflowing entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow {
    /// First of the contiguous pages.
    pub page: u32,
    /// Length of the key at the start of those pages; `None` where the key stands in the entry.
    pub key_len: Option<usize>,
}

/// An entry's header and where its parts lie in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawEntry {
    pub shared: usize,
    /// The key's tail, or a big key's digest: offset in the page.
    pub tail_at: usize,
    pub tail_len: usize,
    pub deleted: bool,
    pub expires_at_ms: u64,
    /// Table with the key's next older version, 0 where nothing is known of it.
    pub older_in: u64,
    pub value_len: usize,
    pub value_at: usize,
    pub overflow: Option<Overflow>,
    /// Offset of the next entry.
    pub end: usize,
}

impl RawEntry {
    /// Whether it is a tombstone, whose value need not be read.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.deleted && self.expires_at_ms == 0
    }

    /// What it maps its key to, with its value's bytes.
    #[inline]
    pub fn item<'a>(&self, value: &'a [u8]) -> Item<'a> {
        ItemParts { value, expires_at_ms: self.expires_at_ms, deleted: self.deleted }.item()
    }
}

/// What is to be encoded; the key is cut into what it shares with the previous one and the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    pub shared: usize,
    pub tail: &'a [u8],
    pub deleted: bool,
    pub expires_at_ms: u64,
    /// Table with the key's next older version, or 0; overflowing entries have no room for it.
    pub older_in: u64,
    pub value_len: usize,
    /// The value where it is inline.
    pub value: &'a [u8],
    pub overflow: Option<Overflow>,
}

/// Appends an entry.
pub(crate) fn encode(out: &mut Vec<u8>, entry: &NewEntry<'_>) {
    let mut tag = (entry.value_len as u64) << FLAG_BITS;
    tag |= if entry.deleted { DELETED } else { 0 };
    tag |= if entry.expires_at_ms > 0 { EXPIRES } else { 0 };
    if let Some(overflow) = &entry.overflow {
        tag |= OVERFLOW | if overflow.key_len.is_some() { BIG_KEY } else { 0 };
    } else if entry.older_in > 0 {
        tag |= BIG_KEY;
    }
    match (entry.shared, entry.tail.len(), tag) {
        // As varints, but at once: nearly every entry is like this.
        (shared @ ..0x80, tail @ ..0x80, 0x80..0x4000) => {
            out.extend_from_slice(&[shared as u8, tail as u8, tag as u8 | 0x80, (tag >> 7) as u8]);
        }
        (shared, tail, tag) => {
            varint::put_u64(out, shared as u64);
            varint::put_u64(out, tail as u64);
            varint::put_u64(out, tag);
        }
    }
    if entry.expires_at_ms > 0 {
        varint::put_u64(out, entry.expires_at_ms);
    }
    if let Some(overflow) = &entry.overflow {
        varint::put_u64(out, u64::from(overflow.page));
        if let Some(key_len) = overflow.key_len {
            varint::put_u64(out, key_len as u64);
        }
    } else if entry.older_in > 0 {
        varint::put_u64(out, entry.older_in);
    }
    out.extend_from_slice(entry.tail);
    out.extend_from_slice(entry.value);
}

/// Decodes the entry at `at` of a page's `used` bytes; `None` where the bytes make no sense.
#[inline(always)]
pub(crate) fn decode(page: &[u8], at: usize, used: usize) -> Option<RawEntry> {
    let bytes = page.get(at..used)?;
    // Nearly every entry has three header bytes or four; the general decoder below handles the rest.
    let (shared, tail_len, tag, header) = match *bytes {
        [shared @ ..0x80, tail @ ..0x80, tag @ ..0x80, ..] => {
            (usize::from(shared), usize::from(tail), u64::from(tag), 3)
        }
        [shared @ ..0x80, tail @ ..0x80, low, high @ 1..0x80, ..] => {
            (usize::from(shared), usize::from(tail), u64::from(low & 0x7f) | u64::from(high) << 7, 4)
        }
        _ => {
            let mut from = Decoder::new(bytes);
            let (shared, tail, tag) = (from.length()?, from.length()?, from.varint()?);
            (shared, tail, tag, bytes.len() - from.remaining())
        }
    };
    let value_len = usize::try_from(tag >> FLAG_BITS).ok()?;
    let mut tail_at = at + header;
    let (mut expires_at_ms, mut older_in, mut overflow) = (0, 0, None);
    if tag & (EXPIRES | OVERFLOW | BIG_KEY) != 0 {
        let mut from = Decoder::new(page.get(tail_at..used)?);
        let before = from.remaining();
        if tag & EXPIRES != 0 {
            expires_at_ms = from.varint()?;
        }
        if tag & OVERFLOW != 0 {
            let page = u32::try_from(from.varint()?).ok()?;
            let key_len = if tag & BIG_KEY != 0 { Some(from.length()?) } else { None };
            overflow = Some(Overflow { page, key_len });
        } else if tag & BIG_KEY != 0 {
            older_in = from.varint()?;
        }
        tail_at += before - from.remaining();
    }
    let value_at = tail_at.checked_add(tail_len)?;
    let end = if overflow.is_some() { value_at } else { value_at.checked_add(value_len)? };
    let big_key_is_whole = overflow.is_none_or(|o| o.key_len.is_none() || (shared == 0 && tail_len == 16));
    (end <= used && big_key_is_whole).then_some(RawEntry {
        shared,
        tail_at,
        tail_len,
        deleted: tag & DELETED != 0,
        expires_at_ms,
        older_in,
        value_len,
        value_at,
        overflow,
        end,
    })
}

/// Bytes used in a page and its number of entries; `None` for an overflow page or malformed.
#[inline]
pub(crate) fn page_header(page: &[u8]) -> Option<(usize, u16)> {
    let header = page.first_chunk::<PAGE_HEADER_BYTES>()?;
    let [_, _, _, _, u0, u1, c0, c1] = *header;
    let used = PAGE_HEADER_BYTES + usize::from(u16::from_le_bytes([u0, u1]));
    let entries = u16::from_le_bytes([c0, c1]);
    (used <= PAGE_BYTES && entries != OVERFLOW_MARK).then_some((used, entries))
}

/// What a search within a page finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The key's entry.
    Entry(RawEntry),
    /// No entry has this key, unless a big key with this digest, at one of the entries passed to `big`, is
    /// it.
    Absent,
    /// The page's bytes make no sense.
    Damaged,
}

/// Looks for `key` in a page whose tails are compressed with `symbols`, if there are any. Entries of big keys
/// with its digest are handed to `big`, which says whether one matches.
pub(crate) fn find(
    page: &[u8],
    symbols: Option<&Symbols>,
    (key, digest): (&[u8], Digest),
    mut big: impl FnMut(&RawEntry) -> bool,
) -> Found {
    let Some((used, entries)) = page_header(page) else { return Found::Damaged };
    let mut at = PAGE_HEADER_BYTES;
    // How many leading bytes of the wanted key the previous entry's key has.
    let mut matched = 0usize;
    for _ in 0..entries {
        let Some(entry) = decode(page, at, used) else { return Found::Damaged };
        at = entry.end;
        let tail = page.get(entry.tail_at..entry.tail_at + entry.tail_len).unwrap_or(&[]);
        if entry.overflow.is_some_and(|overflow| overflow.key_len.is_some()) {
            matched = 0;
            let mut from = Decoder::new(tail);
            if from.digest() == Some(digest) && big(&entry) {
                return Found::Entry(entry);
            }
            continue;
        }
        if entry.shared > matched {
            // It differs from the wanted key where the previous one did.
            continue;
        }
        let Some(rest) = key.get(entry.shared..) else {
            matched = entry.shared.min(key.len());
            continue;
        };
        if let Some(symbols) = symbols {
            match symbols.compare(tail, rest) {
                Some((_, true)) => return Found::Entry(entry),
                Some((same, false)) => matched = entry.shared + same,
                None => return Found::Damaged,
            }
            continue;
        }
        if tail == rest {
            return Found::Entry(entry);
        }
        matched = entry.shared + tail.iter().zip(rest).take_while(|(a, b)| a == b).count();
    }
    Found::Absent
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page_of(keys: &[Vec<u8>]) -> Vec<u8> {
        let mut page = vec![0; PAGE_HEADER_BYTES];
        let mut previous: &[u8] = &[];
        for key in keys {
            let shared = key.iter().zip(previous).take_while(|(a, b)| a == b).count();
            let entry = NewEntry {
                shared,
                tail: &key[shared..],
                deleted: false,
                expires_at_ms: key.len() as u64 % 3,
                older_in: key.len() as u64 % 4 * 1000,
                value_len: key.len(),
                value: key,
                overflow: None,
            };
            encode(&mut page, &entry);
            previous = key;
        }
        let used = (page.len() - PAGE_HEADER_BYTES) as u16;
        page[4..6].copy_from_slice(&used.to_le_bytes());
        page[6..8].copy_from_slice(&(keys.len() as u16).to_le_bytes());
        page
    }

    proptest! {
        #[test]
        fn finds_exactly_what_is_there(
            keys in proptest::collection::hash_set(proptest::collection::vec(0u8..3, 0..6), 0..40),
            absent in proptest::collection::vec(0u8..3, 0..7),
        ) {
            let keys: Vec<_> = keys.into_iter().collect();
            let page = page_of(&keys);
            for key in keys.iter().chain([&absent]) {
                match find(&page, None, (key, Digest::default()), |_| false) {
                    Found::Entry(entry) => {
                        prop_assert!(keys.contains(key));
                        prop_assert_eq!(&page[entry.value_at..entry.value_at + entry.value_len], key.as_slice());
                        prop_assert_eq!(entry.expires_at_ms, key.len() as u64 % 3);
                        prop_assert_eq!(entry.older_in, key.len() as u64 % 4 * 1000);
                    }
                    Found::Absent => prop_assert!(!keys.contains(key)),
                    Found::Damaged => prop_assert!(false),
                }
            }
        }

        #[test]
        fn nonsense_is_refused_or_decoded_but_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..80), key in proptest::collection::vec(any::<u8>(), 0..8),
        ) {
            let mut page = bytes;
            page.resize(PAGE_BYTES, 7);
            let _ = find(&page, None, (&key, Digest::default()), |_| true);
            for at in 0..100 {
                if let Some(entry) = decode(&page, at, PAGE_BYTES) {
                    prop_assert!(entry.end <= PAGE_BYTES && entry.tail_at + entry.tail_len <= entry.end);
                }
            }
        }
    }
}
