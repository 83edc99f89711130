//! DUMP and RESTORE: a value as Redis' database files hold it.
//!
//! ```text
//! payload    type u8 · value · version u16 little-endian · CRC-64 (Jones) u64 little-endian
//! length     00xxxxxx · 01xxxxxx x8 · 10000000 u32 big-endian · 10000001 u64 big-endian · 11xxxxxx special
//! string     length · bytes; or special 0, 1, 2: an integer of 8, 16, 32 bits; 3: compressed by LZF
//! ```
//!
//! We write plain encodings, which any Redis reads, and read those that Redis writes for strings, hashes and
//! sets. Invariant: a payload is read to its end or refused.

use super::Context;
use super::arguments::{Options, integer};
use super::spec::{Keys, Spec, flags::*};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::{Collection, Element, KeyState, Kind, Value};
use crate::resp::{Output, Request};

pub const TABLE: &[Spec] = &[
    Spec::on("dump", 2, READONLY, Keys::FIRST, dump).about(
        "generic",
        "2.6.0",
        "Returns a key's value as bytes.",
    ),
    Spec::on("restore", -4, WRITE | DENYOOM | DANGEROUS, Keys::FIRST, restore).about(
        "generic",
        "2.6.0",
        "Makes a key of what DUMP returned.",
    ),
];

const VERSION: u16 = 10;
/// The newest version that is read: Redis 8's.
const NEWEST: u16 = 13;

const STRING: u8 = 0;
const SET: u8 = 2;
const HASH: u8 = 4;
const SET_OF_INTEGERS: u8 = 11;
const HASH_LISTPACK: u8 = 16;
const SET_LISTPACK: u8 = 20;
const HASH_EXPIRING: u8 = 24;

fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u64::from(*byte),
            |crc, _| {
                if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 }
            },
        )
    })
}

fn put_length(to: &mut Vec<u8>, length: usize) {
    match length {
        0..0x40 => to.push(u8::try_from(length).unwrap_or(0)),
        0x40..0x4000 => {
            to.extend_from_slice(&(u16::try_from(length).unwrap_or(0) | 0x4000).to_be_bytes());
        }
        _ => match u32::try_from(length) {
            Ok(length) => {
                to.push(0x80);
                to.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                to.push(0x81);
                to.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
}

fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    put_length(to, bytes.len());
    to.extend_from_slice(bytes);
}

fn put_collection(to: &mut Vec<u8>, collection: &Collection) -> Outcome {
    let entries = collection.all()?;
    let soonest = entries.iter().map(|(_, element)| element.expires_at).filter(|at| *at > 0).min();
    match (collection.kind, soonest) {
        (Kind::Set, _) => to.push(SET),
        (Kind::Hash, None) => to.push(HASH),
        (Kind::Hash, Some(soonest)) => {
            to.push(HASH_EXPIRING);
            to.extend_from_slice(&soonest.to_le_bytes());
        }
    }
    put_length(to, entries.len());
    for (name, element) in &entries {
        if let Some(soonest) = soonest {
            let ttl = if element.expires_at == 0 { 0 } else { element.expires_at - soonest + 1 };
            put_length(to, usize::try_from(ttl).unwrap_or(0));
        }
        put_string(to, name);
        if collection.kind == Kind::Hash {
            put_string(to, &element.value);
        }
    }
    Ok(())
}

/// What DUMP returns of a key; none where it is not there.
///
/// # Errors
/// Those of reading.
pub fn payload(state: &KeyState) -> Outcome<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match state.value() {
        Value::Absent => return Ok(None),
        Value::String(text) => {
            bytes.push(STRING);
            put_string(&mut bytes, text.as_bytes());
        }
        Value::Collection(collection) => put_collection(&mut bytes, collection)?,
    }
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc64(&bytes).to_le_bytes());
    Ok(Some(bytes))
}

fn dump(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    match payload(context.lookup(request.get(1))?)? {
        Some(bytes) => out.bulk(&bytes),
        None => out.null(),
    }
    Ok(())
}

/// Reads a payload from the front.
struct Payload<'a> {
    bytes: &'a [u8],
}

enum Length {
    Plain(usize),
    Special(u8),
}

impl<'a> Payload<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    fn length(&mut self) -> Option<Length> {
        let [first] = self.array()?;
        Some(match first >> 6 {
            0 => Length::Plain(usize::from(first & 0x3f)),
            1 => {
                let [second] = self.array()?;
                Length::Plain(usize::from(u16::from_be_bytes([first & 0x3f, second])))
            }
            2 if first == 0x80 => Length::Plain(u32::from_be_bytes(self.array()?) as usize),
            2 if first == 0x81 => Length::Plain(usize::try_from(u64::from_be_bytes(self.array()?)).ok()?),
            3 => Length::Special(first & 0x3f),
            _ => return None,
        })
    }

    fn count(&mut self) -> Option<usize> {
        match self.length()? {
            // Every element takes a byte at least, so a count beyond that is no count.
            Length::Plain(count) if count <= self.bytes.len() => Some(count),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        match self.length()? {
            Length::Plain(length) => self.take(length).map(<[u8]>::to_vec),
            Length::Special(0) => Some(i8::from_le_bytes(self.array()?).to_string().into_bytes()),
            Length::Special(1) => Some(i16::from_le_bytes(self.array()?).to_string().into_bytes()),
            Length::Special(2) => Some(i32::from_le_bytes(self.array()?).to_string().into_bytes()),
            Length::Special(3) => {
                let (Length::Plain(packed), Length::Plain(length)) = (self.length()?, self.length()?) else {
                    return None;
                };
                unpack(self.take(packed)?, length)
            }
            Length::Special(_) => None,
        }
    }
}

/// Undoes LZF: literals, and copies of what came before.
fn unpack(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // LZF makes of a byte no more than 264, so that a short payload can't ask for much memory.
    if length > packed.len().saturating_mul(264) {
        return None;
    }
    let mut bytes: Vec<u8> = Vec::with_capacity(length);
    while let Some((&control, rest)) = packed.split_first() {
        packed = rest;
        if control < 32 {
            let (literal, rest) = packed.split_at_checked(usize::from(control) + 1)?;
            bytes.extend_from_slice(literal);
            packed = rest;
            continue;
        }
        let mut count = usize::from(control >> 5);
        if count == 7 {
            let (more, rest) = packed.split_first()?;
            count += usize::from(*more);
            packed = rest;
        }
        let (low, rest) = packed.split_first()?;
        packed = rest;
        let back = (usize::from(control & 0x1f) << 8 | usize::from(*low)) + 1;
        let from = bytes.len().checked_sub(back)?;
        for at in from..from + count + 2 {
            bytes.push(*bytes.get(at)?);
        }
        if bytes.len() > length {
            return None;
        }
    }
    (bytes.len() == length).then_some(bytes)
}

/// The members of an intset.
fn integers(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut payload = Payload { bytes };
    let width = u32::from_le_bytes(payload.array()?) as usize;
    let count = u32::from_le_bytes(payload.array()?) as usize;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width) != Some(payload.bytes.len()) {
        return None;
    }
    let number = |bytes: &[u8]| match bytes.len() {
        2 => bytes.try_into().map(|bytes| i64::from(i16::from_le_bytes(bytes))).ok(),
        4 => bytes.try_into().map(|bytes| i64::from(i32::from_le_bytes(bytes))).ok(),
        _ => bytes.try_into().map(i64::from_le_bytes).ok(),
    };
    payload.bytes.chunks(width).map(|bytes| Some(number(bytes)?.to_string().into_bytes())).collect()
}

/// The entries of a listpack.
fn listpack(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut payload = Payload { bytes };
    if u32::from_le_bytes(payload.array()?) as usize != bytes.len() {
        return None;
    }
    payload.take(2)?;
    let mut entries = Vec::new();
    loop {
        let before = payload.bytes.len();
        let [first] = payload.array()?;
        let signed =
            |value: i64, bits: u32| if value >> (bits - 1) == 1 { value - (1 << bits) } else { value };
        let text = |number: i64| number.to_string().into_bytes();
        let entry = match first {
            0xff => return payload.bytes.is_empty().then_some(entries),
            0..0x80 => text(i64::from(first)),
            0x80..0xc0 => payload.take(usize::from(first & 0x3f))?.to_vec(),
            0xc0..0xe0 => {
                let [low] = payload.array()?;
                text(signed(i64::from(first & 0x1f) << 8 | i64::from(low), 13))
            }
            0xe0..0xf0 => {
                let [low] = payload.array()?;
                payload.take(usize::from(first & 0x0f) << 8 | usize::from(low))?.to_vec()
            }
            0xf0 => {
                let length = u32::from_le_bytes(payload.array()?);
                payload.take(length as usize)?.to_vec()
            }
            0xf1 => text(i64::from(i16::from_le_bytes(payload.array()?))),
            0xf2 => {
                let [a, b, c] = payload.array()?;
                text(signed(i64::from(u32::from_le_bytes([a, b, c, 0])), 24))
            }
            0xf3 => text(i64::from(i32::from_le_bytes(payload.array()?))),
            0xf4 => text(i64::from_le_bytes(payload.array()?)),
            _ => return None,
        };
        let taken = before - payload.bytes.len();
        // Each entry says its length once more behind it, seven bits a byte.
        payload.take(match taken {
            0..128 => 1,
            128..16_384 => 2,
            16_384..2_097_152 => 3,
            2_097_152..268_435_456 => 4,
            _ => 5,
        })?;
        entries.push(entry);
    }
}

/// Name, value and expiry of an element.
type Entry = (Vec<u8>, Vec<u8>, u64);

/// What a payload holds.
enum Restored {
    String(Vec<u8>),
    Collection(Kind, Vec<Entry>),
}

fn pairs(flat: Vec<Vec<u8>>) -> Option<Vec<Entry>> {
    let (pairs, rest) = flat.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[name, value]| (name.clone(), value.clone(), 0)).collect())
}

fn read(bytes: &[u8]) -> Option<Restored> {
    let mut payload = Payload { bytes };
    let [kind] = payload.array()?;
    let members = |names: Vec<Vec<u8>>| names.into_iter().map(|name| (name, Vec::new(), 0)).collect();
    let restored = match kind {
        STRING => Restored::String(payload.string()?),
        SET => {
            let count = payload.count()?;
            let names: Option<Vec<_>> = (0..count).map(|_| payload.string()).collect();
            Restored::Collection(Kind::Set, members(names?))
        }
        SET_OF_INTEGERS => Restored::Collection(Kind::Set, members(integers(&payload.string()?)?)),
        SET_LISTPACK => Restored::Collection(Kind::Set, members(listpack(&payload.string()?)?)),
        HASH => {
            let count = payload.count()?;
            let flat: Option<Vec<_>> = (0..count * 2).map(|_| payload.string()).collect();
            Restored::Collection(Kind::Hash, pairs(flat?)?)
        }
        HASH_LISTPACK => Restored::Collection(Kind::Hash, pairs(listpack(&payload.string()?)?)?),
        HASH_EXPIRING => {
            let soonest = u64::from_le_bytes(payload.array()?);
            let count = payload.count()?;
            let mut entry = || {
                let Length::Plain(ttl) = payload.length()? else { return None };
                let at = if ttl == 0 { 0 } else { soonest.checked_add(ttl as u64 - 1)? };
                Some((payload.string()?, payload.string()?, at))
            };
            let entries: Option<Vec<_>> = (0..count).map(|_| entry()).collect();
            Restored::Collection(Kind::Hash, entries?)
        }
        _ => return None,
    };
    payload.bytes.is_empty().then_some(restored)
}

/// The value within a payload, if its version and checksum are right.
fn checked(payload: &[u8]) -> Option<&[u8]> {
    let (bytes, crc) = payload.split_last_chunk()?;
    let (value, version) = bytes.split_last_chunk()?;
    let is_right = u64::from_le_bytes(*crc) == crc64(bytes) && u16::from_le_bytes(*version) <= NEWEST;
    is_right.then_some(value)
}

fn restore(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let (key, now) = (request.get(1), context.unit.now);
    let (mut replaces, mut is_absolute) = (false, false);
    let mut options = Options::new(request.from(4));
    while let Some(option) = options.next() {
        match option.as_str() {
            "REPLACE" => replaces = true,
            "ABSTTL" => is_absolute = true,
            "IDLETIME" if options.integer()? < 0 => {
                return Err(Failure::coded("ERR Invalid IDLETIME value, must be >= 0"));
            }
            "FREQ" if !(0..=255).contains(&options.integer()?) => {
                return Err(Failure::coded("ERR Invalid FREQ value, must be >= 0 and <= 255"));
            }
            "IDLETIME" | "FREQ" => {}
            _ => return Err(SYNTAX),
        }
    }
    if !replaces && context.key(key)?.is_live() {
        return Err(Failure::coded("BUSYKEY Target key name already exists."));
    }
    let ttl = u64::try_from(integer(request.get(2))?);
    let ttl = ttl.map_err(|_| Failure::coded("ERR Invalid TTL value, must be >= 0"))?;
    let value =
        checked(request.get(3)).ok_or(Failure::coded("ERR DUMP payload version or checksum are wrong"))?;
    let restored = read(value).ok_or(Failure::coded("ERR Bad data format"))?;
    let expires_at = if ttl == 0 || is_absolute { ttl } else { now.saturating_add(ttl) };
    context.key(key)?.remove();
    if expires_at == 0 || expires_at > now {
        match restored {
            Restored::String(bytes) => context.key(key)?.set_string(bytes),
            Restored::Collection(kind, entries) => context.change(key, kind, |collection| {
                for (name, value, expires_at) in &entries {
                    collection.put(name, Element { value, expires_at: *expires_at })?;
                }
                Ok(())
            })?,
        }
        context.key(key)?.expires_at = expires_at;
    }
    out.ok();
    Ok(())
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
        let payload = b"\x00\xc0\n\x0a\x00";
        assert!(checked(payload).is_none());
        assert!(matches!(read(b"\x00\xc0\n"), Some(Restored::String(bytes)) if bytes == b"10"));
        assert!(read(b"\x00\xc0\nx").is_none());
        let packed = [2, b'a', b'b', b'c', 0x20, 2, 1, b'x', b'y'];
        assert_eq!(unpack(&packed, 8).unwrap(), b"abcabcxy");
        assert_eq!(unpack(&packed, 9), None);
        let pack = b"\x11\0\0\0\x03\0\x81a\x02\x05\x01\xc1\x00\x02\xff";
        assert!(listpack(pack).is_none(), "its length is wrong");
        let pack = b"\x0f\0\0\0\x03\0\x81a\x02\x05\x01\xc1\x00\x02\xff";
        assert_eq!(listpack(pack).unwrap(), [&b"a"[..], b"5", b"256"]);
        let set = b"\x02\0\0\0\x02\0\0\0\x01\0\xff\xff";
        assert_eq!(integers(set).unwrap(), [&b"1"[..], b"-1"]);
    }
}
