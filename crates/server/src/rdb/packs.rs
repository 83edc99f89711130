//! What Redis packs into one string: listpacks, ziplists, zipmaps and intsets, and LZF.
//!
//! Each is read from its first byte to its last, or refused. Source: Redis' `listpack.c`, `ziplist.c`,
//! `zipmap.c`, `intset.c`, and LibLZF.

use super::{Bytes, Source as _};

/// Undoes LZF: literals, and copies of what came before.
pub(super) fn unpack(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
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
pub(super) fn integers(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut payload = Bytes(bytes);
    let width = u32::from_le_bytes(payload.array()?) as usize;
    let count = u32::from_le_bytes(payload.array()?) as usize;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width) != Some(payload.0.len()) {
        return None;
    }
    let number = |bytes: &[u8]| match bytes.len() {
        2 => bytes.try_into().map(|bytes| i64::from(i16::from_le_bytes(bytes))).ok(),
        4 => bytes.try_into().map(|bytes| i64::from(i32::from_le_bytes(bytes))).ok(),
        _ => bytes.try_into().map(i64::from_le_bytes).ok(),
    };
    payload.0.chunks(width).map(|bytes| Some(number(bytes)?.to_string().into_bytes())).collect()
}

/// The entries of a listpack.
pub(super) fn listpack(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut payload = Bytes(bytes);
    if u32::from_le_bytes(payload.array()?) as usize != bytes.len() {
        return None;
    }
    payload.take(2)?;
    let mut entries = Vec::new();
    loop {
        let before = payload.0.len();
        let [first] = payload.array()?;
        let signed =
            |value: i64, bits: u32| if value >> (bits - 1) == 1 { value - (1 << bits) } else { value };
        let text = |number: i64| number.to_string().into_bytes();
        let entry = match first {
            0xff => return payload.0.is_empty().then_some(entries),
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
        let taken = before - payload.0.len();
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

/// The entries of a ziplist, which Redis 6 and older wrote.
pub(super) fn ziplist(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut payload = Bytes(bytes);
    if u32::from_le_bytes(payload.array()?) as usize != bytes.len() {
        return None;
    }
    payload.take(6)?;
    let text = |number: i64| number.to_string().into_bytes();
    let mut entries = Vec::new();
    loop {
        // The length of the entry before, which only a walk from behind needs.
        match payload.array()? {
            [0xff] => return payload.0.is_empty().then_some(entries),
            [0xfe] => drop(payload.take(4)?),
            _ => {}
        }
        let [first] = payload.array()?;
        entries.push(match first {
            0..0x40 => payload.take(usize::from(first))?.to_vec(),
            0x40..0x80 => {
                let [low] = payload.array()?;
                payload.take(usize::from(first & 0x3f) << 8 | usize::from(low))?.to_vec()
            }
            0x80 => {
                let length = u32::from_be_bytes(payload.array()?);
                payload.take(length as usize)?.to_vec()
            }
            0xc0 => text(i64::from(i16::from_le_bytes(payload.array()?))),
            0xd0 => text(i64::from(i32::from_le_bytes(payload.array()?))),
            0xe0 => text(i64::from_le_bytes(payload.array()?)),
            0xf0 => {
                let [a, b, c] = payload.array()?;
                text(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8))
            }
            0xfe => text(i64::from(i8::from_le_bytes(payload.array()?))),
            0xf1..=0xfd => text(i64::from(first & 0x0f) - 1),
            _ => return None,
        });
    }
}

/// The entries of a zipmap, which Redis 2.4 and older wrote: names and values in turn.
pub(super) fn zipmap(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut payload = Bytes(bytes);
    payload.take(1)?;
    let mut entries = Vec::new();
    loop {
        let is_value = entries.len() % 2 == 1;
        let length = match payload.array()? {
            [0xff] => return (payload.0.is_empty() && !is_value).then_some(entries),
            [0xfe] => u32::from_le_bytes(payload.array()?) as usize,
            [length] => usize::from(length),
        };
        let free = if is_value { usize::from(payload.array::<1>()?[0]) } else { 0 };
        entries.push(payload.take(length)?.to_vec());
        payload.take(free)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_of_redis_are_read() {
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

    #[test]
    fn packs_of_older_redis_are_read() {
        // "ab", 12, -2, 300, -70000.
        let list = b"\x1d\0\0\0\x00\0\0\0\x05\0\x00\x02ab\x04\xfd\x02\xfe\xfe\x03\xc0\x2c\x01\x04\xf0\x90\xee\xfe\xff";
        assert_eq!(list.len(), 0x1d);
        assert_eq!(ziplist(list).unwrap(), [&b"ab"[..], b"12", b"-2", b"300", b"-70000"]);
        assert!(ziplist(&list[..28]).is_none());
        let map = b"\x02\x03foo\x03\x00bar\x01a\x02\x01xy\0\xff";
        assert_eq!(zipmap(map).unwrap(), [&b"foo"[..], b"bar", b"a", b"xy"]);
        assert!(zipmap(b"\x01\x01a\xff").is_none());
    }
}
