//! Streams of bits with the most significant first, as prefix codes want them: the next 64 bits of the
//! stream, read as a number, compare like the stream itself, and a table of codes is indexed by the topmost
//! few.
//!
//! Source: none needed. [`BitVec`](crate::bits::vector::BitVec) counts bits from the lowest, which suits rank
//! and select; here the first bit of word 0 is its highest.
//!
//! Invariant of both ends: bits past the end read as zeros.

/// Appends bits, and can take back the last of them.
#[derive(Debug, Default, Clone)]
pub struct BitWriter {
    words: Vec<u64>,
    /// The bits that don't fill a word yet, at the top.
    tail: u64,
    /// How many; below 64.
    tail_bits: u32,
}

impl BitWriter {
    /// An empty stream with room for `bits` bits.
    pub fn with_capacity(bits: usize) -> Self {
        BitWriter { words: Vec::with_capacity(bits.div_ceil(64)), ..Self::default() }
    }

    /// Bits written so far.
    #[inline]
    pub fn len(&self) -> u64 {
        self.words.len() as u64 * 64 + u64::from(self.tail_bits)
    }

    /// Appends the lowest `width` bits of `value`, the highest of these first. Higher bits of `value` must be
    /// zero and `width` at most 64.
    #[inline]
    pub fn push(&mut self, value: u64, width: u32) {
        debug_assert!(
            width <= 64 && (width == 64 || value >> width == 0),
            "{value:#x} does not fit {width} bits"
        );
        let free = 64 - self.tail_bits;
        if width < free {
            // Two shifts, since a width of zero would make one of 64.
            self.tail |= (value << (free - width - 1)) << 1;
            self.tail_bits += width;
        } else {
            let over = width - free;
            self.words.push(self.tail | value >> over);
            self.tail = if over == 0 { 0 } else { value << (64 - over) };
            self.tail_bits = over;
        }
    }

    /// Drops everything from position `len` on, which must not be past the end.
    pub fn truncate(&mut self, len: u64) {
        debug_assert!(len <= self.len(), "a stream of {} bits can't be cut to {len}", self.len());
        let (word, bits) = ((len / 64) as usize, (len % 64) as u32);
        let partial = self.words.get(word).copied().unwrap_or(self.tail);
        self.words.truncate(word);
        self.tail = if bits == 0 { 0 } else { partial >> (64 - bits) << (64 - bits) };
        self.tail_bits = bits;
    }

    /// The words, the last filled up with zeros.
    pub fn into_words(mut self) -> Vec<u64> {
        if self.tail_bits > 0 {
            self.words.push(self.tail);
        }
        self.words
    }
}

/// The 64 bits from `position` on.
#[inline]
pub fn peek(words: &[u64], position: u64) -> u64 {
    let (index, shift) = ((position / 64) as usize, position % 64);
    match words.get(index..) {
        Some([word, next, ..]) => word << shift | (next >> 1) >> (63 - shift),
        Some([word]) => word << shift,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = BitWriter::default();
        let pieces: Vec<(u64, u32)> =
            (0..400u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15), (i * 7 % 65) as u32)).collect();
        for (value, width) in &pieces {
            writer.push(if *width == 0 { 0 } else { value >> (64 - width) }, *width);
        }
        let total: u64 = pieces.iter().map(|piece| u64::from(piece.1)).sum();
        assert_eq!(writer.len(), total);
        let words = writer.into_words();
        let mut position = 0;
        for (value, width) in pieces {
            if width > 0 {
                assert_eq!(peek(&words, position) >> (64 - width), value >> (64 - width));
            }
            position += u64::from(width);
        }
        assert_eq!(peek(&words, total), 0);
        assert_eq!(peek(&words, total + 1000), 0);
    }

    #[test]
    fn truncating_takes_back() {
        for keep in 0..200u64 {
            let mut writer = BitWriter::default();
            for _ in 0..5 {
                writer.push(0x1_ffff_ffff, 33);
            }
            let keep = keep.min(writer.len());
            writer.truncate(keep);
            assert_eq!(writer.len(), keep);
            writer.push(0, 3);
            writer.push(1, 1);
            let ones: u32 = writer.into_words().iter().map(|word| word.count_ones()).sum();
            assert_eq!(u64::from(ones), keep + 1);
        }
    }
}
