//! Level 3: which of a group's pages a suffix falls into, in both forms.
//!
//! Borders within groups are numbered through the table; a group of pages `first..=last` has the next `last -
//! first` of them. Both forms count how many of these lie at or below a suffix.
//!
//! *The trie.* Suffixes of a group over `n` borders are shrunk to `n` parts of `pages` equal ones of all
//! 64-bit numbers, and shifted to where the group begins: about the number of the page, had suffixes spread
//! evenly. The trie holds these numbers for the suffixes at both sides of each border, and zero before all,
//! so that numbers 2b and 2b + 1 belong to the page between borders b - 1 and b, or to two pages of which one
//! has no other key in its group's range. They are blocks of two, and a suffix's block is the number of
//! borders below it.
//!
//! *Partial suffixes.* The sides of a border have `c` leading bits in common, and then a zero and a one. What
//! lies between is those bits and a one; the one is not stored, so that lengths from 0 to 63 take 6 bits and
//! the rest takes `c`. A word per 32 borders says where their bits begin; it is recounted when an index is
//! read.
//!
//! ```text
//! sample of 32 borders:   63               16 15                 0
//!                        +-------------------+--------------------+
//!                        | bits before the 1st| from there to 17th |
//!                        +-------------------+--------------------+
//! ```

use super::ThirdLevel;
use crate::bits::vector::{BitVec, BitVecBuilder};
use crate::error::DecodeError;
use crate::index::entropy_trie::{Code, EntropyTrie, Spec};

/// How tries of suffixes are built. Small buckets, since lookups take time in the size of a bucket.
pub(super) const TRIE: Spec = Spec { code: Code::Strong, block_keys: 2, bucket_keys: 16 };

/// Level 3 of a [`ThreeLevelIndex`](super::ThreeLevelIndex).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Suffixes {
    Trie(TrieSuffixes),
    Partial(PartialSuffixes),
}

impl Suffixes {
    /// How many borders of the group, whose first is `border` and which covers the pages from `span.0` to
    /// `span.1`, are not above `lo`.
    #[inline]
    pub fn find(&self, border: usize, span: (usize, usize), lo: u64) -> usize {
        match self {
            Suffixes::Trie(trie) => {
                let below = trie.trie.block(trie.scale.place(span, lo));
                below.saturating_sub(border).min(span.1 - span.0)
            }
            Suffixes::Partial(partial) => partial.count_not_above(border, span.1 - span.0, lo),
        }
    }

    pub fn form(&self) -> ThirdLevel {
        match self {
            Suffixes::Trie(_) => ThirdLevel::EntropyTrie,
            Suffixes::Partial(_) => ThirdLevel::PartialSuffixes,
        }
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        let held = match self {
            Suffixes::Trie(trie) => trie.trie.memory_bytes() - size_of::<EntropyTrie>(),
            Suffixes::Partial(partial) => {
                let bits = size_of_val(partial.lengths.words()) + size_of_val(partial.bits.words());
                bits + size_of_val(&*partial.samples)
            }
        };
        size_of::<Self>() + held
    }
}

/// Stretches the suffixes of each group into numbers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    /// Numbers per page.
    width: u64,
}

impl Scale {
    /// For a table of this many pages.
    pub fn new(pages: usize) -> Self {
        Scale { width: (u64::MAX - 1) / (pages.max(1) as u64) }
    }

    /// The number of suffix `lo` in the group that covers pages `span.0` to `span.1`. Never sorts two
    /// suffixes of a group the wrong way round, but may not tell them apart. Never 0.
    #[inline]
    pub fn place(self, span: (usize, usize), lo: u64) -> u64 {
        // Pages of one table, so neither product passes `width * pages`.
        let start = (span.0 as u64).wrapping_mul(self.width);
        let width = ((span.1 - span.0) as u64).wrapping_mul(self.width);
        let inside = (u128::from(lo) * u128::from(width)) >> 64;
        start.wrapping_add(inside as u64).wrapping_add(1)
    }
}

/// The trie form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrieSuffixes {
    pub scale: Scale,
    pub trie: EntropyTrie,
}

impl TrieSuffixes {
    /// The places of a group's borders, two each; `None` if they do not tell its pages apart. Wants `left <=
    /// right` and each border not below the one before.
    pub fn places(
        scale: Scale,
        span: (usize, usize),
        borders: impl Iterator<Item = (u64, u64)>,
    ) -> Option<Vec<u64>> {
        let mut places: Vec<u64> = Vec::new();
        for (left, right) in borders {
            let (mut left, right) = (scale.place(span, left), scale.place(span, right));
            // A page of one key, or of keys too close to be told apart, has twice the same place. The number
            // above will do for the second: of the two, a trie in blocks of two sends both to this page.
            if places.last() == Some(&left) {
                left = left.checked_add(1)?;
            }
            if left >= right {
                return None;
            }
            places.extend([left, right]);
        }
        Some(places)
    }
}

/// Borders per sample.
const SAMPLE: usize = 32;
/// Borders that a sample's second half begins with.
const HALF: usize = SAMPLE / 2;
const LENGTH_BITS: u32 = 6;

/// The form of partial suffixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartialSuffixes {
    pub lengths: BitVec,
    pub bits: BitVec,
    samples: Box<[u64]>,
}

/// Writes [`PartialSuffixes`].
#[derive(Debug, Default)]
pub(super) struct PartialBuilder {
    lengths: BitVecBuilder,
    bits: BitVecBuilder,
}

impl PartialBuilder {
    /// Adds a border. Wants `left < right`.
    pub fn push(&mut self, left: u64, right: u64) {
        let shared = (left ^ right).leading_zeros().min(63);
        self.lengths.push_bits(u64::from(shared), LENGTH_BITS);
        self.bits.push_bits(right.unbounded_shr(64 - shared), shared);
    }

    pub fn finish(self) -> PartialSuffixes {
        PartialSuffixes::count(self.lengths.finish(), self.bits.finish()).0
    }
}

impl PartialSuffixes {
    /// Decodes `borders` borders.
    pub fn new(borders: usize, lengths: BitVec, bits: BitVec) -> Result<Self, DecodeError> {
        if Some(lengths.len()) != borders.checked_mul(LENGTH_BITS as usize) {
            let expected = format!("{borders} lengths of 6 bits");
            let found = format!("{} bits", lengths.len());
            return Err(DecodeError::new("three-level index, partial suffixes", expected, found));
        }
        let found = bits.len();
        let (partial, total) = Self::count(lengths, bits);
        if total != found {
            let expected = format!("{total} bits, as the lengths say");
            return Err(DecodeError::new("three-level index, partial suffixes", expected, found));
        }
        Ok(partial)
    }

    /// Takes the samples, and tells the bits that the lengths add up to.
    fn count(lengths: BitVec, bits: BitVec) -> (Self, usize) {
        let borders = lengths.len() / LENGTH_BITS as usize;
        let mut samples = Vec::with_capacity(borders.div_ceil(SAMPLE));
        let mut total = 0;
        for start in (0..borders).step_by(SAMPLE) {
            let half = sum_lengths(&lengths, start, HALF.min(borders - start));
            samples.push((total as u64) << 16 | half as u64);
            let rest = (borders - start).min(SAMPLE).saturating_sub(HALF);
            total += half + sum_lengths(&lengths, start + HALF, rest);
        }
        (PartialSuffixes { lengths, bits, samples: samples.into_boxed_slice() }, total)
    }

    /// Where the bits of `border` begin.
    #[inline]
    fn offset(&self, border: usize) -> usize {
        let sample = self.samples.get(border / SAMPLE).copied().unwrap_or(0);
        let inside = border % SAMPLE;
        let second = usize::from(inside >= HALF);
        let half = second * (sample & 0xffff) as usize;
        let start = border - inside % HALF;
        (sample >> 16) as usize + half + sum_lengths(&self.lengths, start, inside % HALF)
    }

    /// The lowest suffix above the border, with the bits from `offset` on, and how many these are.
    #[inline]
    fn separator(&self, border: usize, offset: usize) -> (u64, u32) {
        let length = self.lengths.get_bits(border * LENGTH_BITS as usize, LENGTH_BITS).unwrap_or(0) as u32;
        let bits = self.bits.get_bits(offset, length).unwrap_or(0);
        ((bits << 1 | 1) << (63 - length), length)
    }

    /// How many of the `count` borders from `first` on are not above `lo`.
    #[inline]
    fn count_not_above(&self, first: usize, count: usize, lo: u64) -> usize {
        let (mut border, end) = (first, first + count);
        // The last half sample that begins in the group and with a border that is not above. Halving the
        // span, rather than moving one of two ends, leaves no branch to mispredict.
        let start = first / HALF;
        let mut span = (end - 1) / HALF - start + 1;
        let mut low = start;
        while span > 1 {
            let half = span / 2;
            let at = (low + half) * HALF;
            low += if self.separator(at, self.offset(at)).0 <= lo { half } else { 0 };
            span -= half;
        }
        border = border.max(low * HALF);
        let end = end.min((low + 1) * HALF);
        let mut offset = self.offset(border);
        while border < end {
            let (separator, length) = self.separator(border, offset);
            if separator > lo {
                break;
            }
            offset += length as usize;
            border += 1;
        }
        border - first
    }
}

/// The sum of `count` lengths, at most [`HALF`], from that of border `start` on.
#[inline]
fn sum_lengths(lengths: &BitVec, start: usize, count: usize) -> usize {
    // Ten fit a word; there are at most 16.
    let first = count.min(10);
    let sum = |start: usize, count: usize| {
        let fields = lengths.get_bits(start * LENGTH_BITS as usize, count as u32 * LENGTH_BITS);
        sum_fields(fields.unwrap_or(0)) as usize
    };
    let head = sum(start, first);
    if count > 10 { head + sum(start + 10, count - 10) } else { head }
}

/// The sum of the ten fields of 6 bits in the lowest 60 bits.
#[inline]
fn sum_fields(fields: u64) -> u64 {
    const EVEN: u64 = 0x003f_03f0_3f03_f03f;
    // Neighbours, five sums of 12 bits. Times five ones, the top field gathers all.
    let pairs = (fields & EVEN) + (fields >> 6 & EVEN);
    pairs.wrapping_mul(0x0001_0010_0100_1001) >> 48 & 0xfff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_add_up() {
        let mut state = 1u64;
        for round in 0..1000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let word = [state, u64::MAX, state | state << 3, 0][round % 4] & ((1 << 60) - 1);
            assert_eq!(sum_fields(word), (0..10).map(|field| word >> (6 * field) & 63).sum(), "{word:#x}");
        }
    }

    #[test]
    fn each_length_separates() {
        // A border for every number of shared bits, in ascending order of the right side.
        let mut borders: Vec<(u64, u64)> =
            (0..64u32).map(|shared| (0, 1u64 << (63 - shared))).rev().collect();
        borders.iter_mut().fold(0, |left, border| {
            border.0 = left.max(border.1 - 1);
            border.1
        });
        borders.dedup_by_key(|border| border.1);
        let mut builder = PartialBuilder::default();
        borders.iter().for_each(|(left, right)| builder.push(*left, *right));
        let partial = builder.finish();
        for first in 0..borders.len() {
            for end in first + 1..=borders.len() {
                for lo in borders.iter().flat_map(|(left, right)| [*left, *right]) {
                    let not_above = borders[first..end].iter().filter(|(_, right)| *right <= lo).count();
                    assert_eq!(partial.count_not_above(first, end - first, lo), not_above);
                }
            }
        }
    }
}
