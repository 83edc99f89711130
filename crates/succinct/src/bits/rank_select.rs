//! Rank and select: how many ones lie before a position, and where the k-th one lies.
//!
//! The idea: store, for every 1024 bits, the ones before them and the ones before each of their quarters,
//! packed into one word; a rank is then one such word plus the popcount of at most four words of bits. A
//! select jumps to a sampled one near its target, binary-searches the counts up to the next sample, and walks
//! the same quarters.
//!
//! Sources: Jacobson, "Space-efficient Static Trees and Graphs" (FOCS 1989) for the two-level directory;
//! Vigna, "Broadword Implementation of Rank/Select Queries" (WEA 2008) for packing the second level into the
//! word beside the first and for selecting within a word; Zhou, Andersen and Kaminsky, "Space-Efficient,
//! High-Performance Rank and Select Structures on Uncompressed Bit Sequences" (SEA 2013) for sampling every
//! 8192nd one. We differ:
//!
//! - 34 + 3 * 10 bits per 1024 (6.25 %), where Vigna's rank9 takes 64 + 7 * 9 bits per 512 (25 %): a filter's
//!   memory is what Siltstone is about, and four popcounts hide in the shadow of the cache miss.
//! - 34 bits of count limit a vector to 2^34 bits, 2 GiB. In return there is no third level.
//!
//! ```text
//! one word per superblock of 1024 bits:
//!
//!  63                     30 29      20 19      10 9        0
//! +-------------------------+----------+----------+----------+
//! | ones before superblock  | q0+q1+q2 |  q0+q1   |    q0    |   qi: ones in quarter i, 256 bits each
//! +-------------------------+----------+----------+----------+
//! ```
//!
//! On disk this is a [`BitVec`] and nothing else: the counts are rebuilt when it is read, at the speed of
//! memory, so there are no counts that could be wrong.
//!
//! Invariants: `counts[s]` describes superblock `s`; hint `j` is the superblock that holds one (or zero)
//! number `j * 8192`. Together with the hints the overhead is below 6.7 %.

use super::vector::BitVec;
use crate::error::DecodeError;

/// The most bits a [`RankSelect`] can hold: 2^34, that is 2 GiB.
pub const MAX_BITS: u64 = 1 << 34;

const SUPERBLOCK_BITS: usize = 1024;
const SUPERBLOCK_WORDS: usize = SUPERBLOCK_BITS / 64;
const QUARTER_BITS: usize = SUPERBLOCK_BITS / 4;
const QUARTER_WORDS: usize = QUARTER_BITS / 64;
const COUNT_SHIFT: u32 = 30;
/// One hint per so many ones, and per so many zeros.
const HINT_EVERY: usize = 8192;

/// A bit vector with the counts that answer rank and select.
///
/// ```
/// use siltstone_succinct::bits::{rank_select::RankSelect, vector::BitVec};
///
/// let bits: BitVec = [true, false, true, true].into_iter().collect();
/// let ranked = RankSelect::new(bits);
/// assert_eq!(ranked.rank1(3), 2);         // ones before position 3
/// assert_eq!(ranked.select1(2), Some(3)); // the third one, counted from 0, lies at 3
/// assert_eq!(ranked.select0(1), None);    // there is only one zero
/// ```
#[derive(Debug, Clone)]
pub struct RankSelect {
    bits: BitVec,
    counts: Box<[u64]>,
    ones: usize,
    one_hints: Box<[u32]>,
    zero_hints: Box<[u32]>,
}

impl PartialEq for RankSelect {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl Eq for RankSelect {}

impl RankSelect {
    /// Counts `bits`.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_BITS`] bits.
    pub fn new(bits: BitVec) -> Self {
        assert!(bits.len() as u64 <= MAX_BITS, "RankSelect: {} bits, but the limit is 2^34", bits.len());
        let mut counts = Vec::with_capacity(bits.len().div_ceil(SUPERBLOCK_BITS));
        let mut one_hints = Vec::new();
        let mut zero_hints = Vec::new();
        let mut ones = 0usize;
        for (superblock, words) in bits.words().chunks(SUPERBLOCK_WORDS).enumerate() {
            let mut packed = (ones as u64) << COUNT_SHIFT;
            let mut inside = 0usize;
            for quarter in 0..4 {
                // Quarter 0 has nothing before it and no field.
                if quarter > 0 {
                    packed |= (inside as u64) << (10 * (quarter - 1));
                }
                let words = words.iter().skip(quarter * QUARTER_WORDS).take(QUARTER_WORDS);
                inside += words.map(|word| word.count_ones() as usize).sum::<usize>();
            }
            counts.push(packed);
            ones += inside;
            let end = ((superblock + 1) * SUPERBLOCK_BITS).min(bits.len());
            // Superblocks number at most 2^24.
            while one_hints.len() * HINT_EVERY < ones {
                one_hints.push(superblock as u32);
            }
            while zero_hints.len() * HINT_EVERY < end - ones {
                zero_hints.push(superblock as u32);
            }
        }
        RankSelect {
            bits,
            counts: counts.into_boxed_slice(),
            ones,
            one_hints: one_hints.into_boxed_slice(),
            zero_hints: zero_hints.into_boxed_slice(),
        }
    }

    /// The bits themselves.
    pub fn bits(&self) -> &BitVec {
        &self.bits
    }

    /// Length in bits.
    pub fn len(&self) -> usize {
        self.bits.len()
    }

    /// True if there are no bits.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// How many bits are one.
    pub fn count_ones(&self) -> usize {
        self.ones
    }

    /// How many bits are zero.
    pub fn count_zeros(&self) -> usize {
        self.len() - self.ones
    }

    /// Ones before `index`, that is among the bits `0..index`; all of them if `index` is past the end.
    #[inline]
    pub fn rank1(&self, index: usize) -> usize {
        if index >= self.len() {
            return self.ones;
        }
        let word = index / 64;
        let quarter = word / QUARTER_WORDS;
        let packed = self.counts.get(index / SUPERBLOCK_BITS).copied().unwrap_or(0);
        let mut rank = (packed >> COUNT_SHIFT) as usize + ones_before_quarter(packed, quarter % 4);
        let words = self.bits.words();
        for full in words.get(quarter * QUARTER_WORDS..word).unwrap_or(&[]) {
            rank += full.count_ones() as usize;
        }
        let below = words.get(word).copied().unwrap_or(0) & ((1 << (index % 64)) - 1);
        rank + below.count_ones() as usize
    }

    /// Zeros before `index`, that is among the bits `0..index`; all of them if `index` is past the end.
    #[inline]
    pub fn rank0(&self, index: usize) -> usize {
        index.min(self.len()) - self.rank1(index)
    }

    /// The position of the one number `rank`, counted from 0; `None` if there are not that many.
    ///
    /// Inverse of rank: `rank1(select1(k)) == k`.
    #[inline]
    pub fn select1(&self, rank: usize) -> Option<usize> {
        if rank >= self.ones { None } else { self.select::<true>(rank, &self.one_hints) }
    }

    /// The position of the zero number `rank`, counted from 0; `None` if there are not that many.
    #[inline]
    pub fn select0(&self, rank: usize) -> Option<usize> {
        if rank >= self.count_zeros() { None } else { self.select::<false>(rank, &self.zero_hints) }
    }

    /// Selects among the ones or the zeros. `rank` must be below their number.
    #[inline]
    fn select<const ONES: bool>(&self, rank: usize, hints: &[u32]) -> Option<usize> {
        // Bits of the wanted kind in a prefix of `bits` bits, of which `ones` are one.
        let wanted = |bits: usize, ones: usize| if ONES { ones } else { bits - ones };

        // The target lies in one of the `span` superblocks from `low` on. Halving the span, rather than
        // moving one of two ends, leaves no branch to mispredict.
        let hint = rank / HINT_EVERY;
        let mut low = *hints.get(hint)? as usize;
        let mut span = hints.get(hint + 1).map_or(self.counts.len(), |next| *next as usize + 1) - low;
        while span > 1 {
            let half = span / 2;
            let ones = (self.counts.get(low + half)? >> COUNT_SHIFT) as usize;
            low += if wanted((low + half) * SUPERBLOCK_BITS, ones) <= rank { half } else { 0 };
            span -= half;
        }

        let packed = *self.counts.get(low)?;
        let mut left = rank - wanted(low * SUPERBLOCK_BITS, (packed >> COUNT_SHIFT) as usize);
        let before = |quarter| wanted(quarter * QUARTER_BITS, ones_before_quarter(packed, quarter));
        let quarter = (1..4).map(|quarter| usize::from(before(quarter) <= left)).sum();
        left -= before(quarter);

        let mut index = low * SUPERBLOCK_WORDS + quarter * QUARTER_WORDS;
        let word = |index: usize| self.bits.words().get(index).map(|word| if ONES { *word } else { !*word });
        for _ in 1..QUARTER_WORDS {
            let inside = word(index)?.count_ones() as usize;
            if left < inside {
                break;
            }
            left -= inside;
            index += 1;
        }
        Some(index * 64 + select_in_word(word(index)?, left as u32) as usize)
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<BitVec>()
            + self.bits.memory_bytes()
            + size_of_val(&*self.counts)
            + size_of_val(&*self.one_hints)
            + size_of_val(&*self.zero_hints)
    }

    /// Appends the bits, as [`BitVec::to_bytes`] does.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        self.bits.to_bytes(out);
    }

    /// Decodes a [`BitVec`] and counts it.
    ///
    /// # Errors
    ///
    /// As [`BitVec::from_bytes`], and if there are more than [`MAX_BITS`] bits.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bits = BitVec::from_bytes(bytes)?;
        if bits.len() as u64 > MAX_BITS {
            return Err(DecodeError::new("rank/select, length", "at most 2^34 bits", bits.len()));
        }
        Ok(RankSelect::new(bits))
    }
}

/// Ones in the quarters of a superblock before `quarter`, which is below 4.
#[inline]
fn ones_before_quarter(packed: u64, quarter: usize) -> usize {
    // The shift by ten makes the missing field of quarter 0 a zero.
    ((packed << 10) >> (10 * quarter) & 0x3ff) as usize
}

/// The position of the one number `rank` of `word`, which has more ones than that.
#[inline(always)]
pub(super) fn select_in_word(word: u64, rank: u32) -> u32 {
    const BYTES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x80 * BYTES;
    // How many of the bytes of `sums`, none above 64, are at most `rank`: theirs is the top bit that
    // survives.
    let at_most = |sums: u64, rank: u32| ((((u64::from(rank) * BYTES) | TOPS) - sums) & TOPS).count_ones();

    // Ones in each byte, then (by the multiplication) in each byte and all below it.
    let pairs = word - (word >> 1 & (0x55 * BYTES));
    let nibbles = (pairs & (0x33 * BYTES)) + (pairs >> 2 & (0x33 * BYTES));
    let sums = ((nibbles + (nibbles >> 4)) & (0x0f * BYTES)).wrapping_mul(BYTES);
    // The bytes whose sum is at most `rank` are those below the target.
    let byte = at_most(sums, rank) * 8;
    let left = rank - ((sums << 8) >> byte & 0xff) as u32;

    // The same once more, with each bit of that byte in a byte of its own.
    let spread = (word >> byte & 0xff).wrapping_mul(BYTES) & 0x8040_2010_0804_0201;
    let bits = (spread + (TOPS - BYTES)) >> 7 & BYTES;
    byte + at_most(bits.wrapping_mul(BYTES), left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_in_word_agrees_with_counting() {
        let mut word = 1u64;
        // Miri is a thousand times slower.
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        for round in 0..rounds {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(round | 1);
            for word in [word, word & (word >> 7), word | (word << 9), u64::MAX, 1 << (round % 64)] {
                let positions: Vec<u32> = (0..64).filter(|bit| word >> bit & 1 == 1).collect();
                for (rank, position) in positions.iter().enumerate() {
                    assert_eq!(select_in_word(word, rank as u32), *position, "{word:#x}, rank {rank}");
                }
            }
        }
    }

    // A million bits take Miri an hour, and it can't find more wrong with them than with the others.
    #[cfg_attr(miri, ignore)]
    #[test]
    fn overhead_stays_below_seven_percent() {
        let bits: BitVec = (0..1_000_000).map(|index| index % 3 == 0).collect();
        let ranked = RankSelect::new(bits.clone());
        let overhead = ranked.memory_bytes() as f64 / bits.memory_bytes() as f64 - 1.0;
        assert!(overhead < 0.067, "{overhead}");
    }
}
