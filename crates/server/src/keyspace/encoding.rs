//! How Redis' values lie in a keyspace of Siltstone.
//!
//! Every Redis key is a group: its items share the prefix *length · key*. A string, and a collection that is
//! small, is one item, so that reading it takes one read of the device. A large collection is a head and an
//! item for each element; the group lies together, so that listing it is one scan, and deleting it is one
//! deletion of a prefix, however large it is.
//!
//! ```text
//! key        u16 slot, big-endian                             in databases that lie by slot: what follows
//!            u16 length, big-endian · bytes                    of the head: strings and small collections
//!            the same · u32 CRC-32C of the element, big-endian · element      one element of a large one
//!            the same · u32 CRC · SHA-256 of the element       where that is over 1 KiB
//! head       kind u8, low four bits · flags, high four bits
//!            expiry u64 little-endian, milliseconds            with the flag 0x10
//!   string     bytes
//!   packed     count varint · elements, each: name length varint · name · value length × 2 + has expiry varint
//!              · expiry u64 where it has one · value           in the order in which they came
//!   large      count u64 · soonest expiry of an element u64
//! element    nothing, where name and value say all: no expiry, no value, a short name
//!            flags u8 · expiry u64 (0x01) · name length varint · name (0x02) · value
//! ```
//!
//! Elements of large collections are ordered by their CRC, so that a cursor of HSCAN is a number, and a
//! random element is one near a random number.
//!
//! In a cluster a database lies by slot: the slot is the route that keys' places begin with (`PrefixRule`),
//! so that the keys of a slot are neighbours. Invariants: a key whose head is not large has no other items.

use crate::slots::{SLOT_BITS, slot};
use sha2::{Digest as _, Sha256};
use siltstone::PrefixRule;

/// The longest key: the engine's limit less what an element adds.
pub const MAX_KEY_BYTES: usize = 60_000;
/// Elements with longer names are stored under their SHA-256.
const MAX_NAME_BYTES: usize = 1 << 10;

const EXPIRES: u8 = 0x10;
const IS_TABLE: u8 = 0x20;
const ELEMENT_EXPIRES: u8 = 0x01;
const ELEMENT_NAMED: u8 = 0x02;

/// What a stored head is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// A string.
    String,
    /// A hash in one item.
    PackedHash,
    /// A set in one item.
    PackedSet,
    /// A hash of an item for each field.
    Hash,
    /// A set of an item for each member.
    Set,
}

impl HeadKind {
    const ALL: [Self; 5] = [Self::String, Self::PackedHash, Self::PackedSet, Self::Hash, Self::Set];

    /// Whether elements are items of their own.
    pub fn is_large(self) -> bool {
        matches!(self, Self::Hash | Self::Set)
    }
}

/// The head of a key, without what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What follows.
    pub kind: HeadKind,
    /// When the key is gone, in milliseconds since 1970; 0 = never.
    pub expires_at: u64,
    /// Whether a collection once outgrew its compact encoding, which `OBJECT ENCODING` goes on saying.
    pub is_table: bool,
}

impl Head {
    /// Appends the head.
    pub fn write(&self, to: &mut Vec<u8>) {
        let number = HeadKind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        let flags = if self.expires_at > 0 { EXPIRES } else { 0 } | if self.is_table { IS_TABLE } else { 0 };
        to.push(u8::try_from(number).unwrap_or(0) | flags);
        if self.expires_at > 0 {
            to.extend_from_slice(&self.expires_at.to_le_bytes());
        }
    }

    /// Reads a head; what follows it begins at the number returned. `None` where it is none.
    pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let first = *bytes.first()?;
        let kind = *HeadKind::ALL.get(usize::from(first & 0x0f))?;
        let mut reader = Reader { bytes: bytes.get(1..)? };
        let expires_at = if first & EXPIRES == 0 { 0 } else { reader.u64()? };
        let head = Self { kind, expires_at, is_table: first & IS_TABLE != 0 };
        Some((head, bytes.len() - reader.bytes.len()))
    }
}

/// Bytes of a slot, and of a key's length.
const NUMBER_BYTES: usize = 2;

/// In which order the keys of a database lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// In that of their hashes.
    #[default]
    Plain,
    /// By slot, and within one in that of their hashes.
    BySlot,
}

impl Layout {
    /// Returns the rule by which the store tells a group's prefix.
    pub fn rule(self) -> PrefixRule {
        match self {
            Self::Plain => PrefixRule::LengthPrefixed { width: 2 },
            Self::BySlot => PrefixRule::Routed { bits: SLOT_BITS, width: 2 },
        }
    }

    /// Returns the prefix of the group that holds the Redis key `key`, which is also the key of its head.
    pub fn group(self, key: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(key.len() + 2 * NUMBER_BYTES);
        self.put_group(&mut bytes, key);
        bytes
    }

    /// Appends it.
    pub fn put_group(self, bytes: &mut Vec<u8>, key: &[u8]) {
        if self == Self::BySlot {
            bytes.extend_from_slice(&slot(key).to_be_bytes());
        }
        bytes.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend_from_slice(key);
    }

    /// Returns the Redis key of an item's key, and whether it is that of a head.
    pub fn key_of(self, item: &[u8]) -> Option<(&[u8], bool)> {
        let item = match self {
            Self::Plain => item,
            Self::BySlot => item.get(NUMBER_BYTES..)?,
        };
        let (length, rest) = item.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        Some((rest.get(..length)?, rest.len() == length))
    }

    /// Returns the place from which on the keys of `slot` lie, up to that of the next one.
    pub fn place_of_slot(slot: u16) -> u64 {
        u64::from(slot) << (u64::BITS - u32::from(SLOT_BITS))
    }

    /// Returns the slot of an item's key in a database that lies by slot.
    pub fn slot_of(item: &[u8]) -> Option<u16> {
        item.first_chunk().map(|slot| u16::from_be_bytes(*slot))
    }
}

/// Where an element stands in the order of its collection.
pub fn place(name: &[u8]) -> u32 {
    crc32c::crc32c(name)
}

/// Returns the key of the element `name` in the group with the prefix `group`.
pub fn element_key(group: &[u8], name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(group.len() + 4 + name.len().min(MAX_NAME_BYTES));
    put_element_key(&mut key, group, name);
    key
}

/// Appends it.
pub fn put_element_key(key: &mut Vec<u8>, group: &[u8], name: &[u8]) {
    key.extend_from_slice(group);
    key.extend_from_slice(&place(name).to_be_bytes());
    if name.len() > MAX_NAME_BYTES {
        key.extend_from_slice(&Sha256::digest(name));
    } else {
        key.extend_from_slice(name);
    }
}

/// An element's value and expiry, as it lies somewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element<'a> {
    /// The value; empty in sets.
    pub value: &'a [u8],
    /// When it is gone; 0 = with its key.
    pub expires_at: u64,
}

/// Appends the value of an element's item.
pub fn put_element(bytes: &mut Vec<u8>, name: &[u8], element: Element<'_>) {
    let is_long = name.len() > MAX_NAME_BYTES;
    if element == Element::default() && !is_long {
        return;
    }
    let expires = if element.expires_at > 0 { ELEMENT_EXPIRES } else { 0 };
    bytes.push(expires | if is_long { ELEMENT_NAMED } else { 0 });
    if element.expires_at > 0 {
        bytes.extend_from_slice(&element.expires_at.to_le_bytes());
    }
    if is_long {
        put_varint(bytes, name.len());
        bytes.extend_from_slice(name);
    }
    bytes.extend_from_slice(element.value);
}

/// Reads an element's item: its name, which `suffix` holds where it is short, and the rest.
pub fn read_element<'a>(suffix: &'a [u8], value: &'a [u8]) -> Option<(&'a [u8], Element<'a>)> {
    let short = suffix.get(4..)?;
    let (name, element) = read_element_value(value)?;
    Some((name.unwrap_or(short), element))
}

/// Reads the value of an element's item: its name, where it is long, and the rest.
pub fn read_element_value(value: &[u8]) -> Option<(Option<&[u8]>, Element<'_>)> {
    let Some((flags, rest)) = value.split_first() else { return Some((None, Element::default())) };
    let mut reader = Reader { bytes: rest };
    let expires_at = if flags & ELEMENT_EXPIRES == 0 { 0 } else { reader.u64()? };
    let name = if flags & ELEMENT_NAMED == 0 {
        None
    } else {
        let length = reader.varint()?;
        Some(reader.take(length)?)
    };
    Some((name, Element { value: reader.bytes, expires_at }))
}

/// Appends a number, seven bits a byte, the low ones first.
pub fn put_varint(to: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        to.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    to.push(u8::try_from(number).unwrap_or(0));
}

/// Reads what was written, from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// What is left.
    pub bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next eight bytes as a number, little-endian.
    pub fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(u64::from_le_bytes(*number))
    }

    /// The next number as [`put_varint`] writes it.
    pub fn varint(&mut self) -> Option<usize> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_elements_read_back() {
        for kind in HeadKind::ALL {
            for (expires_at, is_table) in [(0, false), (7, true)] {
                let head = Head { kind, expires_at, is_table };
                let mut bytes = Vec::new();
                head.write(&mut bytes);
                let length = bytes.len();
                bytes.extend_from_slice(b"rest");
                assert_eq!(Head::read(&bytes), Some((head, length)));
            }
        }
        let long = vec![b'n'; 5000];
        for name in [&b""[..], b"field", &long] {
            for element in [
                Element::default(),
                Element { value: b"v", expires_at: 0 },
                Element { value: b"", expires_at: 9 },
            ] {
                for layout in [Layout::Plain, Layout::BySlot] {
                    let group = layout.group(b"key");
                    let key = element_key(&group, name);
                    assert!(key.len() < 100);
                    assert_eq!(layout.key_of(&key), Some((&b"key"[..], false)));
                    let mut value = Vec::new();
                    put_element(&mut value, name, element);
                    assert_eq!(read_element(&key[group.len()..], &value), Some((name, element)));
                    assert_eq!(layout.key_of(&layout.group(b"")), Some((&b""[..], true)));
                }
            }
        }
        assert_eq!(Layout::slot_of(&Layout::BySlot.group(b"foo")), Some(12_182));
        assert_eq!(Head::read(b"\x0f"), None);
        assert_eq!(Head::read(b"\x10abc"), None);
    }

    #[test]
    fn numbers_read_back() {
        for number in [0, 1, 127, 128, 300, usize::MAX >> 1] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(Reader { bytes: &bytes }.varint(), Some(number));
        }
        assert_eq!(Reader { bytes: &[0xff; 12] }.varint(), None);
    }
}
