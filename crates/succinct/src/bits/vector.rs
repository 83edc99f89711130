//! A packed vector of bits: appended to while it is built, read-only from then on.
//!
//! The idea: bits lie in 64-bit words from the lowest bit up, so that a bit costs one load, and a field of up
//! to 64 bits costs two. Fields of one fixed width make a compact integer array.
//!
//! Source: folklore; the layout is that of Vigna, "Broadword Implementation of Rank/Select Queries" (WEA
//! 2008), §2, so that [`RankSelect`](super::rank_select::RankSelect) can count the words as they lie.
//!
//! ```text
//!  0          8                    8 + 8 * ceil(len / 64)
//! +----------+--------+--------+---+
//! | len: u64 | word 0 | word 1 |...|    bit i is bit i % 64 of word i / 64, counted from the lowest
//! +----------+--------+--------+---+
//! ```
//!
//! Invariants: there are exactly `ceil(len / 64)` words, and the bits past `len` are zero.

use crate::code::words::{get_words, put_words, split_word};
use crate::error::DecodeError;

const WORD_BITS: usize = 64;

/// The lowest `width` bits set. `width` must not exceed 64.
fn low_mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

/// Appends bits and then freezes them into a [`BitVec`].
///
/// ```
/// use siltstone_succinct::bits::vector::BitVecBuilder;
///
/// let mut builder = BitVecBuilder::new();
/// builder.push(true);
/// builder.push_bits(0b101, 3);
/// assert_eq!(builder.len(), 4);
/// assert_eq!(builder.finish().get_bits(1, 3), Some(0b101));
/// ```
#[derive(Debug, Default, Clone)]
pub struct BitVecBuilder {
    words: Vec<u64>,
    len: usize,
}

impl BitVecBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty builder with room for `bits` bits.
    pub fn with_capacity(bits: usize) -> Self {
        BitVecBuilder { words: Vec::with_capacity(bits.div_ceil(WORD_BITS)), len: 0 }
    }

    /// Bits pushed so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no bit was pushed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends one bit.
    pub fn push(&mut self, bit: bool) {
        self.push_bits(u64::from(bit), 1);
    }

    /// Appends the lowest `width` bits of `value`, lowest first; the bits above are ignored.
    ///
    /// # Panics
    ///
    /// If `width` exceeds 64.
    pub fn push_bits(&mut self, value: u64, width: u32) {
        assert!(width <= 64, "push_bits: width is {width}, but a value has 64 bits");
        if width == 0 {
            return;
        }
        let value = value & low_mask(width);
        let used = (self.len % WORD_BITS) as u32;
        match self.words.last_mut() {
            Some(last) if used != 0 => {
                *last |= value << used;
                if used + width > 64 {
                    self.words.push(value >> (64 - used));
                }
            }
            _ => self.words.push(value),
        }
        self.len += width as usize;
    }

    /// Appends the lowest `width` bits of each of `values`, as [`BitVecBuilder::push_bits`] does with one.
    ///
    /// # Panics
    ///
    /// If `width` exceeds 64.
    pub fn push_fields(&mut self, values: &[u64], width: u32) {
        assert!(width <= 64, "push_fields: width is {width}, but a value has 64 bits");
        let mask = low_mask(width);
        self.words.reserve((values.len() * width as usize).div_ceil(WORD_BITS) + 1);
        let mut used = (self.len % WORD_BITS) as u32;
        let mut open = if used == 0 { 0 } else { self.words.pop().unwrap_or(0) };
        for value in values {
            let value = value & mask;
            open |= value << used;
            if used + width < 64 {
                used += width;
            } else {
                self.words.push(open);
                open = value >> 1 >> (63 - used);
                used = used + width - 64;
            }
        }
        if used > 0 {
            self.words.push(open);
        }
        self.len += values.len() * width as usize;
    }

    /// Freezes the bits.
    pub fn finish(self) -> BitVec {
        BitVec { words: self.words.into_boxed_slice(), len: self.len }
    }
}

impl Extend<bool> for BitVecBuilder {
    fn extend<I: IntoIterator<Item = bool>>(&mut self, bits: I) {
        for bit in bits {
            self.push(bit);
        }
    }
}

/// An immutable vector of bits.
///
/// ```
/// use siltstone_succinct::bits::vector::BitVec;
///
/// let bits: BitVec = [true, false, true].into_iter().collect();
/// assert_eq!(bits.get(2), Some(true));
/// assert_eq!(bits.get(3), None);
///
/// let mut bytes = Vec::new();
/// bits.to_bytes(&mut bytes);
/// assert_eq!(BitVec::from_bytes(&bytes)?, bits);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BitVec {
    words: Box<[u64]>,
    len: usize,
}

impl BitVec {
    /// Length in bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bit at `index`; `None` past the end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<bool> {
        if index >= self.len {
            return None;
        }
        let word = self.words.get(index / WORD_BITS)?;
        Some(word >> (index % WORD_BITS) & 1 == 1)
    }

    /// The `width` bits from `start` on, the first of them lowest; `None` if they reach past the end or if
    /// `width` exceeds 64.
    #[inline]
    pub fn get_bits(&self, start: usize, width: u32) -> Option<u64> {
        let end = start.checked_add(width as usize)?;
        if end > self.len || width > 64 {
            return None;
        }
        if width == 0 {
            return Some(0);
        }
        let shift = (start % WORD_BITS) as u32;
        let mut value = self.words.get(start / WORD_BITS)? >> shift;
        if shift + width > 64 {
            value |= self.words.get(start / WORD_BITS + 1)? << (64 - shift);
        }
        Some(value & low_mask(width))
    }

    /// Fields of `width` bits, at most 64, from `start` on, without end: past the last bit there are zeros.
    #[inline]
    pub fn fields(&self, start: usize, width: u32) -> impl Iterator<Item = u64> {
        let mask = low_mask(width);
        let mut words = self.words.get(start / WORD_BITS..).unwrap_or_default().iter().copied();
        // What is left of the last word taken: so many bits, zeros above them.
        let used = (start % WORD_BITS) as u32;
        let mut left = 64 - used;
        let mut open = words.next().unwrap_or(0) >> used;
        std::iter::from_fn(move || {
            let mut field = open;
            if left >= width {
                open = open.checked_shr(width).unwrap_or(0);
                left -= width;
            } else {
                let word = words.next().unwrap_or(0);
                field |= word << left;
                open = word.checked_shr(width - left).unwrap_or(0);
                left += 64 - width;
            }
            Some(field & mask)
        })
    }

    /// The words that hold the bits; the bits past the end are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bits in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len).map_while(|index| self.get(index))
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words)
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len as u64).to_le_bytes());
        put_words(out, &self.words);
    }

    /// Decodes what [`BitVec::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If the length in the header and the length of `bytes` disagree, or if a bit past the end is set.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (len, body) = split_word(bytes).ok_or_else(|| {
            let found = format!("{} bytes", bytes.len());
            DecodeError::new("bit vector, header", "at least 8 bytes", found)
        })?;
        let words_expected = len.div_ceil(WORD_BITS as u64);
        let words =
            get_words(body).filter(|words| words.len() as u64 == words_expected).ok_or_else(|| {
                let expected = format!("{words_expected} words of 8 bytes for {len} bits");
                DecodeError::new("bit vector, words", expected, format!("{} bytes", body.len()))
            })?;
        let used = (len % WORD_BITS as u64) as u32;
        if let Some(last) = words.last().filter(|last| used != 0 && **last & !low_mask(used) != 0) {
            let expected = format!("only zeros past bit {used}");
            return Err(DecodeError::new("bit vector, last word", expected, format!("{last:#018x}")));
        }
        // The words are in memory, so a 32-bit machine fails here only within 64 bits of 2^32.
        let len = usize::try_from(len)
            .map_err(|_| DecodeError::new("bit vector, length", format!("at most {}", usize::MAX), len))?;
        Ok(BitVec { words: words.into_boxed_slice(), len })
    }
}

impl FromIterator<bool> for BitVec {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let mut builder = BitVecBuilder::new();
        builder.extend(bits);
        builder.finish()
    }
}
