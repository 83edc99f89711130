//! LEB128: an unsigned integer in one to ten bytes, seven bits a byte, small numbers in few bytes.
//!
//! Source: the DWARF standard, §7.6 "Variable Length Data" (unsigned LEB128), as LevelDB and Protocol Buffers
//! use it. We differ in one point: each number has exactly one encoding. Overlong forms (a last byte of zero)
//! and numbers past `u64::MAX` are rejected, so that equal bytes and equal values mean the same thing.
//!
//! ```text
//!  byte 0       byte 1            last byte
//! +-+-------+  +-+-------+       +-+-------+
//! |1|b6...b0|  |1|b13..b7|  ...  |0|  ...  |     the top bit says: another byte follows
//! +-+-------+  +-+-------+       +-+-------+
//! ```
//!
//! ```
//! use siltstone_succinct::code::varint;
//!
//! let mut bytes = Vec::new();
//! varint::put_u64(&mut bytes, 300);
//! assert_eq!(bytes, [0xac, 0x02]);
//! assert_eq!(varint::get_u64(&bytes), Some((300, 2)));
//! ```

/// The longest encoding, in bytes.
pub const MAX_BYTES: usize = 10;

/// Appends `value`.
pub fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number at the start of `bytes` and how many bytes it took.
///
/// `None` if `bytes` ends inside the number, if the number needs more than 64 bits, or if it could have been
/// written in fewer bytes.
#[inline]
pub fn get_u64(bytes: &[u8]) -> Option<(u64, usize)> {
    // Most numbers are small, and a single byte can be neither overlong nor too large.
    if let Some(&byte) = bytes.first()
        && byte < 0x80
    {
        return Some((u64::from(byte), 1));
    }
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(MAX_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            let overlong = byte == 0;
            // Nine bytes carry 63 bits, so the tenth may add one.
            let overflow = index == MAX_BYTES - 1 && byte > 1;
            return (!overlong && !overflow).then_some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_u64(&mut bytes, value);
        bytes
    }

    #[test]
    fn every_length_round_trips() {
        for bits in 0..=64u32 {
            let top = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            for value in [top, top.saturating_add(1), top / 3] {
                let bytes = encoded(value);
                assert!(bytes.len() <= MAX_BYTES);
                assert_eq!(get_u64(&bytes), Some((value, bytes.len())));
                for cut in 0..bytes.len() {
                    assert_eq!(get_u64(&bytes[..cut]), None, "{value} cut to {cut} bytes");
                }
            }
        }
    }

    #[test]
    fn trailing_bytes_are_left_alone() {
        assert_eq!(get_u64(&[0x05, 0xff, 0xff]), Some((5, 1)));
    }

    #[test]
    fn overlong_forms_are_rejected() {
        assert_eq!(get_u64(&[0x80, 0x00]), None);
        assert_eq!(get_u64(&[0xff, 0x80, 0x00]), None);
    }

    #[test]
    fn numbers_past_64_bits_are_rejected() {
        let mut bytes = encoded(u64::MAX);
        assert_eq!(bytes.len(), MAX_BYTES);
        bytes[9] = 2;
        assert_eq!(get_u64(&bytes), None);
        bytes[9] = 0x81;
        bytes.push(0);
        assert_eq!(get_u64(&bytes), None);
    }
}
