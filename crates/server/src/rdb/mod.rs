//! What Redis writes to its database files, and what DUMP returns: the same values.
//!
//! ```text
//! payload    type u8 · value · version u16 little-endian · CRC-64 (Jones) u64 little-endian
//! length     00xxxxxx · 01xxxxxx x8 · 10000000 u32 big-endian · 10000001 u64 big-endian · 11xxxxxx special
//! string     length · bytes; or special 0, 1, 2: an integer of 8, 16, 32 bits; 3: compressed by LZF
//! ```
//!
//! `packs.rs` reads what is packed into one string, `write.rs` writes payloads, `file.rs` reads files.
//! Strings, hashes and sets are read in all encodings that Redis has written; of other types only where they
//! end.
//! Invariant: a value is read to its end or refused. Source: Redis' `rdb.c`.

mod file;
mod packs;
mod write;

pub use file::{File, Record};
pub use write::payload;

use crate::keyspace::Kind;
use packs::{integers, listpack, unpack, ziplist, zipmap};

/// The newest version that is read: Redis 8's.
const NEWEST: u16 = 13;

const STRING: u8 = 0;
const SET: u8 = 2;
const HASH: u8 = 4;
const HASH_ZIPMAP: u8 = 9;
const SET_OF_INTEGERS: u8 = 11;
const HASH_ZIPLIST: u8 = 13;
const HASH_LISTPACK: u8 = 16;
const SET_LISTPACK: u8 = 20;
const HASH_EXPIRING: u8 = 24;
const HASH_EXPIRING_LISTPACK: u8 = 25;

/// What each byte does to the checksum.
const STEPS: [u64; 256] = {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "the compiler checks it")]
        {
            steps[byte] = crc;
        }
        byte += 1;
    }
    steps
};

/// CRC-64 of Jones, reflected, begun with `crc`.
fn crc64_from(crc: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(crc, |crc, byte| {
        let step = STEPS.get(usize::from(*byte ^ crc.to_le_bytes()[0])).copied().unwrap_or(0);
        crc >> 8 ^ step
    })
}

fn crc64(bytes: &[u8]) -> u64 {
    crc64_from(0, bytes)
}

/// Where values are read from, from the front.
trait Source {
    /// The next `length` bytes.
    fn take_owned(&mut self, length: usize) -> Option<Vec<u8>>;

    /// How many bytes there may be at most.
    fn left(&self) -> usize;

    /// The next bytes.
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take_owned(N)?.try_into().ok()
    }
}

/// A payload in memory.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl Source for Bytes<'_> {
    fn take_owned(&mut self, length: usize) -> Option<Vec<u8>> {
        self.take(length).map(<[u8]>::to_vec)
    }

    fn left(&self) -> usize {
        self.0.len()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

enum Length {
    Plain(usize),
    Special(u8),
}

fn length(from: &mut impl Source) -> Option<Length> {
    let [first] = from.array()?;
    Some(match first >> 6 {
        0 => Length::Plain(usize::from(first & 0x3f)),
        1 => {
            let [second] = from.array()?;
            Length::Plain(usize::from(u16::from_be_bytes([first & 0x3f, second])))
        }
        2 if first == 0x80 => Length::Plain(u32::from_be_bytes(from.array()?) as usize),
        2 if first == 0x81 => Length::Plain(usize::try_from(u64::from_be_bytes(from.array()?)).ok()?),
        3 => Length::Special(first & 0x3f),
        _ => return None,
    })
}

/// A length that is a plain number.
fn number(from: &mut impl Source) -> Option<usize> {
    match length(from)? {
        Length::Plain(number) => Some(number),
        Length::Special(_) => None,
    }
}

/// A number of elements.
fn count(from: &mut impl Source) -> Option<usize> {
    // Every element takes a byte at least, so a count beyond that is no count.
    number(from).filter(|count| *count <= from.left())
}

fn string(from: &mut impl Source) -> Option<Vec<u8>> {
    match length(from)? {
        Length::Plain(length) => from.take_owned(length),
        Length::Special(0) => Some(i8::from_le_bytes(from.array()?).to_string().into_bytes()),
        Length::Special(1) => Some(i16::from_le_bytes(from.array()?).to_string().into_bytes()),
        Length::Special(2) => Some(i32::from_le_bytes(from.array()?).to_string().into_bytes()),
        Length::Special(3) => {
            let (packed, length) = (number(from)?, number(from)?);
            unpack(&from.take_owned(packed)?, length)
        }
        Length::Special(_) => None,
    }
}

fn strings(from: &mut impl Source, count: usize) -> Option<Vec<Vec<u8>>> {
    (0..count).map(|_| string(from)).collect()
}

/// Name, value and expiry of an element.
pub type Entry = (Vec<u8>, Vec<u8>, u64);

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// A string.
    String(Vec<u8>),
    /// A hash or a set.
    Collection(Kind, Vec<Entry>),
    /// One of a type that this server has not, by the type's name.
    Other(&'static str),
}

fn pairs(flat: Vec<Vec<u8>>) -> Option<Vec<Entry>> {
    let (pairs, rest) = flat.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[name, value]| (name.clone(), value.clone(), 0)).collect())
}

/// Names, values and expiries, one behind the other.
fn triples(flat: Vec<Vec<u8>>) -> Option<Vec<Entry>> {
    let (triples, rest) = flat.as_chunks::<3>();
    let entry = |[name, value, at]: &[Vec<u8>; 3]| {
        let at = std::str::from_utf8(at).ok()?.parse().ok()?;
        Some((name.clone(), value.clone(), at))
    };
    if rest.is_empty() { triples.iter().map(entry).collect() } else { None }
}

/// A hash of which fields expire, each with its time behind the soonest one.
fn expiring(from: &mut impl Source) -> Option<Vec<Entry>> {
    let soonest = u64::from_le_bytes(from.array()?);
    let count = count(from)?;
    let mut entry = || {
        let ttl = number(from)?;
        let at = if ttl == 0 { 0 } else { soonest.checked_add(ttl as u64 - 1)? };
        Some((string(from)?, string(from)?, at))
    };
    (0..count).map(|_| entry()).collect()
}

/// Reads a value of the type `kind`.
fn value(kind: u8, from: &mut impl Source) -> Option<Restored> {
    let members = |names: Vec<Vec<u8>>| {
        let members = names.into_iter().map(|name| (name, Vec::new(), 0)).collect();
        Some(Restored::Collection(Kind::Set, members))
    };
    let hash = |entries: Option<Vec<Entry>>| entries.map(|entries| Restored::Collection(Kind::Hash, entries));
    match kind {
        STRING => string(from).map(Restored::String),
        SET => {
            let count = count(from)?;
            members(strings(from, count)?)
        }
        SET_OF_INTEGERS => members(integers(&string(from)?)?),
        SET_LISTPACK => members(listpack(&string(from)?)?),
        HASH => {
            let count = count(from)?;
            hash(pairs(strings(from, count * 2)?))
        }
        HASH_ZIPMAP => hash(pairs(zipmap(&string(from)?)?)),
        HASH_ZIPLIST => hash(pairs(ziplist(&string(from)?)?)),
        HASH_LISTPACK => hash(pairs(listpack(&string(from)?)?)),
        HASH_EXPIRING => hash(expiring(from)),
        HASH_EXPIRING_LISTPACK => {
            from.array::<8>()?;
            hash(triples(listpack(&string(from)?)?))
        }
        _ => None,
    }
}

/// The name of a type that this server has not.
fn other(kind: u8) -> Option<&'static str> {
    Some(match kind {
        1 | 10 | 14 | 18 => "list",
        3 | 5 | 12 | 17 => "zset",
        15 | 19 | 21 => "stream",
        6 | 7 => "module",
        _ => return None,
    })
}

/// Reads what DUMP returned; none where its version or checksum are wrong.
pub fn checked(payload: &[u8]) -> Option<&[u8]> {
    let (bytes, crc) = payload.split_last_chunk()?;
    let (value, version) = bytes.split_last_chunk()?;
    let is_right = u64::from_le_bytes(*crc) == crc64(bytes) && u16::from_le_bytes(*version) <= NEWEST;
    is_right.then_some(value)
}

/// Reads the value within a payload, as [`checked`] returned it.
pub fn read(bytes: &[u8]) -> Option<Restored> {
    let (kind, rest) = bytes.split_first()?;
    if let Some(other) = other(*kind) {
        return Some(Restored::Other(other));
    }
    let mut from = Bytes(rest);
    value(*kind, &mut from).filter(|_| from.0.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_redis_checksum() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn payloads_of_redis_are_read() {
        // DUMP of "10" in Redis 7: an integer of 8 bits.
        assert!(checked(b"\x00\xc0\n\x0a\x00").is_none());
        assert_eq!(read(b"\x00\xc0\n"), Some(Restored::String(b"10".to_vec())));
        assert!(read(b"\x00\xc0\nx").is_none());
        assert_eq!(read(b"\x0aanything"), Some(Restored::Other("list")));
    }
}
