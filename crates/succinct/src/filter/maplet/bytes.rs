//! The maplet as bytes.

use super::{MAX_FINGERPRINT_BITS, MAX_SLOT_BITS, Maplet};
use crate::bits::sorted_lines::SortedLines;
use crate::bits::vector::BitVec;
use crate::error::DecodeError;

const HEADER_BYTES: usize = 12;

impl Maplet {
    /// Appends the encoding drawn at the top of `mod.rs`.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.fingerprint_bits, self.quotient_bits, self.slot_bits, 0]);
        let mut lines = Vec::new();
        self.quotients.to_bytes(&mut lines);
        out.extend_from_slice(&(lines.len() as u64).to_le_bytes());
        out.append(&mut lines);
        self.entries.to_bytes(out);
    }

    /// Decodes what [`Maplet::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If the parts are malformed, do not fit one another, or hold entries out of order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let wrong = |expected: &str, found: &str| DecodeError::new("maplet", expected, found);
        let maplet = Self::decode(bytes, SortedLines::from_front)?;
        let (quotients, quotient_bits) = (&maplet.quotients, maplet.quotient_bits);
        if quotients.groups().any(|group| group.marks > 0 || group.value >> quotient_bits > 0) {
            return Err(wrong("quotients within their bits", "larger ones"));
        }
        // One value of an entry's bits cannot repeat, so a quotient has no more entries than these bits have
        // values.
        let most = 1u64.checked_shl(maplet.entry_bits()).unwrap_or(u64::MAX);
        if quotients.groups().any(|group| u64::from(group.plain) > most) {
            return Err(wrong("distinct entries", "more of a quotient than there can be"));
        }
        if !maplet.entries().is_sorted_by(|a, b| a < b) {
            return Err(wrong("entries in order", "others"));
        }
        Ok(maplet)
    }

    /// The same for bytes that a checksum has shown to be as they were written: a fiftieth of the time. Of
    /// others only lengths are checked; such a maplet answers something, and never panics.
    ///
    /// # Errors
    ///
    /// If the parts are cut off or do not fit one another.
    pub fn from_trusted_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(bytes, SortedLines::from_trusted_front)
    }

    fn decode(
        bytes: &[u8],
        lines_from_front: impl Fn(&[u8]) -> Result<(SortedLines, &[u8]), DecodeError>,
    ) -> Result<Self, DecodeError> {
        let wrong = |expected: &str, found: &str| DecodeError::new("maplet", expected, found);
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(|| wrong("a header of 12 bytes", "fewer"))?;
        let [fingerprint_bits, quotient_bits, slot_bits, zero, length @ ..] = *header;
        let is_sound = (1..=MAX_FINGERPRINT_BITS).contains(&fingerprint_bits)
            && quotient_bits <= fingerprint_bits
            && slot_bits <= MAX_SLOT_BITS
            && zero == 0;
        if !is_sound {
            return Err(wrong("bits of fingerprints, quotients and slots", "others than there can be"));
        }
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        let (lines, entries) =
            rest.split_at_checked(length).ok_or_else(|| wrong("quotients", "a cut-off part of them"))?;
        let (quotients, behind) = lines_from_front(lines)?;
        let entries = BitVec::from_bytes(entries)?;
        let width = u64::from(fingerprint_bits - quotient_bits + slot_bits);
        if !behind.is_empty() || entries.len() as u64 != u64::from(quotients.len()) * width {
            return Err(wrong("one entry for each quotient", "another number of them"));
        }
        Ok(Self { fingerprint_bits, quotient_bits, slot_bits, quotients, entries })
    }
}
