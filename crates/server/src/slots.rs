//! Slots: which of the 16,384 parts of a cluster's keys a key is in. Source: Redis Cluster's specification.

use std::fmt::Write as _;

/// How many there are.
pub const SLOTS: usize = 16_384;

/// Bits of a slot's number.
pub const SLOT_BITS: u8 = 14;

/// What each byte does to the checksum.
const STEPS: [u16; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
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

/// CRC-16 of XMODEM: polynomial 0x1021, nothing reflected, begun with 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let step = STEPS.get(usize::from(crc >> 8) ^ usize::from(*byte));
        crc << 8 ^ step.copied().unwrap_or(0)
    })
}

/// The part of a key that decides its slot: what stands between its first `{` and the next `}`, if anything.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = key.get(open + 1..).unwrap_or_default();
    match rest.iter().position(|byte| *byte == b'}') {
        Some(close) if close > 0 => rest.get(..close).unwrap_or_default(),
        _ => key,
    }
}

/// The slot of `key`.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS as u16
}

/// Writes slots in order as ranges, `0-99 120`, with `between` between them.
pub fn write_ranges(slots: impl Iterator<Item = u16>, between: &str) -> String {
    let mut text = String::new();
    for (first, last) in ranges(slots) {
        if !text.is_empty() {
            text.push_str(between);
        }
        // Writing to a string can't fail.
        let _ = if first == last { write!(text, "{first}") } else { write!(text, "{first}-{last}") };
    }
    text
}

/// Slots in order as ranges, both ends included.
pub fn ranges(slots: impl Iterator<Item = u16>) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// Reads one range, `120` or `0-99`.
pub fn read_range(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && usize::from(last) < SLOTS).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16_384);
        assert_eq!(slot(b"foo{{bar}}zap"), crc16(b"{bar") % 16_384);
        assert_eq!(slot(b"foo{bar}{zap}"), crc16(b"bar") % 16_384);
        assert_eq!(slot(b"{"), crc16(b"{") % 16_384);
    }

    #[test]
    fn ranges_are_written_and_read() {
        assert_eq!(write_ranges([0, 1, 2, 5, 7, 8].into_iter(), " "), "0-2 5 7-8");
        assert_eq!(read_range("7-8"), Some(7..=8));
        assert_eq!(read_range("16383"), Some(16_383..=16_383));
        for wrong in ["", "8-7", "16384", "1-16384", "a", "-1"] {
            assert_eq!(read_range(wrong), None, "{wrong}");
        }
    }
}
