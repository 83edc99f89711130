//! The classic Bloom filter: a set of keys in a few bits each, with false positives at a rate known
//! beforehand.
//!
//! The idea: each key sets `k` bits of one array, spread by hashing. A key whose `k` bits are not all set was
//! never inserted; one whose bits are all set was, or is a false positive.
//!
//! Sources: Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors" (CACM 1970). Kirsch and
//! Mitzenmacher, "Less Hashing, Same Performance: Building a Better Bloom Filter" (ESA 2006): the `k`
//! positions are `h1 + i * h2`, at no loss in the limit. Where we differ, and why:
//!
//! - Keys come as 64-bit fingerprints, hashed once for the whole read path. Both hashes are mixed from the
//!   fingerprint here, so that keys that share digest bits (all keys of a region do) still spread over the
//!   whole array.
//! - `h1 + i * h2` is taken modulo 2^64 and scaled to the array by a multiplication instead of a division
//!   (Lemire, "Fast Random Integer Generation in an Interval", 2019). Any number of bits will do, also above
//!   2^32.
//! - It is not a blocked filter. Those touch one cache line per key, but their rate is worse, and it is not
//!   the one that the formula gives. [`Bloom::may_contain_many`] overlaps the cache misses instead.
//!
//! With `n` keys in `m` bits the false-positive rate is `(1 - e^(-k n / m))^k`; `k = bits per key * ln 2`
//! makes it least.
//!
//! ```text
//!  0   1                8                    8 + 8 * words
//! +---+----------------+--------+--------+---+
//! | k |   words: u56   | word 0 | word 1 |...|    position p is bit p % 64 of word p / 64, counted from the lowest
//! +---+----------------+--------+--------+---+
//! ```
//!
//! Invariants: `1 <= k <= 30`; an inserted key's `k` bits are set; a filter of no keys has no words. The
//! hashing below is part of the format: another constant would be another format.

use crate::code::words::{get_words, put_words, split_word};
use crate::error::DecodeError;

/// The most positions per key.
pub const MAX_HASHES: u8 = 30;
/// The least and the most bits per key that [`BloomBuilder::new`] takes at their word.
pub const BITS_PER_KEY: std::ops::RangeInclusive<f64> = 1.0..=64.0;

/// Keys that [`Bloom::may_contain_many`] keeps in flight: more than the cache misses a core can have
/// outstanding.
const BATCH: usize = u64::BITS as usize;

/// The number of positions per key that makes the rate least.
pub(super) fn hashes_for(bits_per_key: f64) -> u8 {
    ((bits_per_key * std::f64::consts::LN_2).round() as u8).clamp(1, MAX_HASHES)
}

/// The positions of one key: an arithmetic progression modulo 2^64, scaled down to the array.
#[derive(Clone, Copy, Default)]
struct Probe {
    at: u64,
    step: u64,
}

impl Probe {
    #[inline]
    fn new(fingerprint: u64) -> Self {
        // Multiplication carries upwards only and the scaling looks at the top bits, so the halves are folded
        // first. Odd constants: 2^64 / golden ratio, and the second multiplier of the SplitMix64 finalizer.
        let at = (fingerprint ^ fingerprint >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let step = (at ^ at >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
        Probe { at, step }
    }

    /// The next position, below `bits`.
    #[inline]
    fn advance(&mut self, bits: u64) -> u64 {
        let position = (u128::from(self.at) * u128::from(bits)) >> 64;
        self.at = self.at.wrapping_add(self.step);
        position as u64
    }
}

/// Collects fingerprints, so that their number need not be known beforehand, and makes a [`Bloom`] of them.
///
/// ```
/// use siltstone_succinct::filter::bloom::BloomBuilder;
///
/// let mut builder = BloomBuilder::new(10.0);
/// builder.extend([0x5bd1_e995_9d6b_7f03, 0x1b87_3593_cc9e_2d51]);
/// assert_eq!(builder.len(), 2);
/// assert_eq!(builder.finish().hashes(), 7);
/// ```
#[derive(Debug, Clone)]
pub struct BloomBuilder {
    bits_per_key: f64,
    fingerprints: Vec<u64>,
}

impl BloomBuilder {
    /// A builder that will spend `bits_per_key` bits on each fingerprint.
    ///
    /// A value outside of [`BITS_PER_KEY`] counts as the nearest inside, NaN as the least.
    pub fn new(bits_per_key: f64) -> Self {
        // In this order: max() of NaN and a number is the number, where clamp() would keep NaN.
        let bits_per_key = bits_per_key.max(*BITS_PER_KEY.start()).min(*BITS_PER_KEY.end());
        BloomBuilder { bits_per_key, fingerprints: Vec::new() }
    }

    /// Adds a key, given by 64 well-mixed bits. All keys may share their top, or their lowest, 28 bits.
    pub fn insert(&mut self, fingerprint: u64) {
        self.fingerprints.push(fingerprint);
    }

    /// Keys inserted so far; one inserted twice counts twice.
    pub fn len(&self) -> usize {
        self.fingerprints.len()
    }

    /// True if no key was inserted.
    pub fn is_empty(&self) -> bool {
        self.fingerprints.is_empty()
    }

    /// Sets the bits. The array has `bits_per_key` bits per key, rounded up to a whole word.
    #[expect(
        clippy::indexing_slicing,
        reason = "probes stay below the number of bits; one that did not would make a key pass for absent"
    )]
    pub fn finish(self) -> Bloom {
        let bits = (self.fingerprints.len() as f64 * self.bits_per_key).ceil() as usize;
        let hashes = hashes_for(self.bits_per_key);
        let mut words = vec![0u64; bits.div_ceil(64)].into_boxed_slice();
        let bits = words.len() as u64 * 64;
        for fingerprint in self.fingerprints {
            let mut probe = Probe::new(fingerprint);
            for _ in 0..hashes {
                let position = probe.advance(bits);
                words[(position / 64) as usize] |= 1 << (position % 64);
            }
        }
        Bloom { words, hashes }
    }
}

impl Extend<u64> for BloomBuilder {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, fingerprints: I) {
        self.fingerprints.extend(fingerprints);
    }
}

/// An immutable Bloom filter.
///
/// ```
/// use siltstone_succinct::filter::bloom::{Bloom, BloomBuilder};
///
/// let mut builder = BloomBuilder::new(10.0);
/// builder.insert(0x5bd1_e995_9d6b_7f03);
/// let bloom = builder.finish();
/// assert!(bloom.may_contain(0x5bd1_e995_9d6b_7f03));
///
/// let mut bytes = Vec::new();
/// bloom.to_bytes(&mut bytes);
/// assert_eq!(Bloom::from_bytes(&bytes)?, bloom);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bloom {
    words: Box<[u64]>,
    hashes: u8,
}

impl Bloom {
    /// False if the key was certainly not inserted.
    #[inline]
    pub fn may_contain(&self, fingerprint: u64) -> bool {
        let bits = self.bits();
        let mut probe = Probe::new(fingerprint);
        (0..self.hashes).all(|_| self.is_set(probe.advance(bits)))
    }

    /// Answers [`Bloom::may_contain`] for each of `fingerprints` into the same place of `found`.
    ///
    /// Keys advance side by side, so that their cache misses overlap and no branch waits for one. That pays
    /// where most keys are absent: in a filter that fits the cache, less than half the time of asking one by
    /// one; in one that does not, somewhat less than the time. Where most keys are present,
    /// [`Bloom::may_contain`] in a loop is faster: its branches all go the same way, and the processor
    /// overlaps the misses unasked.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn may_contain_many(&self, fingerprints: &[u64], found: &mut [bool]) {
        assert_eq!(fingerprints.len(), found.len(), "may_contain_many: one answer per fingerprint");
        for (fingerprints, found) in fingerprints.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            self.may_contain_batch(fingerprints, found);
        }
    }

    /// [`Bloom::may_contain_many`] for at most [`BATCH`] keys.
    fn may_contain_batch(&self, fingerprints: &[u64], found: &mut [bool]) {
        let bits = self.bits();
        let mut probes = [Probe::default(); BATCH];
        for (probe, fingerprint) in probes.iter_mut().zip(fingerprints) {
            *probe = Probe::new(*fingerprint);
        }
        // One bit per key not yet ruled out. Within a round neither a branch nor an address depends on the
        // bits loaded, so nothing keeps the loads from running at once. (Moving the survivors together did:
        // later loads had to wait for the addresses of those stores.)
        let mut alive = u64::MAX >> (BATCH - fingerprints.len().clamp(1, BATCH));
        let mut left = self.hashes;
        while left > 0 {
            // The end of a round waits for its slowest load. Two positions per key and round make fewer ends,
            // and a stranger takes two on average anyhow.
            let positions = left.min(2);
            left -= positions;
            let mut turns = alive;
            while turns != 0 {
                let key = turns.trailing_zeros();
                turns &= turns - 1;
                if let Some(probe) = probes.get_mut(key as usize) {
                    let set = (0..positions).fold(true, |set, _| set & self.is_set(probe.advance(bits)));
                    alive &= !(u64::from(!set) << key);
                }
            }
        }
        for (key, found) in found.iter_mut().enumerate() {
            *found = alive >> key & 1 == 1;
        }
    }

    #[inline]
    fn is_set(&self, position: u64) -> bool {
        // A filter without words has no position: nothing is set.
        self.words.get((position / 64) as usize).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Length of the array in bits: the formula's `m`.
    pub fn bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    /// Positions per key: the formula's `k`.
    pub fn hashes(&self) -> u8 {
        self.hashes
    }

    /// Bits spent per key if `keys` keys were inserted; 0 if none were.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        if keys == 0 { 0.0 } else { self.bits() as f64 / keys as f64 }
    }

    /// The share of absent keys that pass, from 0 to 1, if `keys` distinct keys were inserted.
    ///
    /// ```
    /// use siltstone_succinct::filter::bloom::BloomBuilder;
    ///
    /// let mut builder = BloomBuilder::new(10.0);
    /// builder.extend((0..1000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    /// let rate = builder.finish().expected_false_positive_rate(1000);
    /// assert!((0.0080..0.0083).contains(&rate));
    /// ```
    pub fn expected_false_positive_rate(&self, keys: u64) -> f64 {
        if keys == 0 || self.words.is_empty() {
            return 0.0;
        }
        let hashes = f64::from(self.hashes);
        // -expm1(-x) is 1 - e^-x without the cancellation when x is small.
        let share_set = -(-hashes * keys as f64 / self.bits() as f64).exp_m1();
        share_set.powf(hashes)
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words)
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        let header = (self.words.len() as u64) << 8 | u64::from(self.hashes);
        out.extend_from_slice(&header.to_le_bytes());
        put_words(out, &self.words);
    }

    /// Decodes what [`Bloom::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If the number of hashes is out of range, or if the number of words and the length of `bytes` disagree.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (header, body) = split_word(bytes).ok_or_else(|| {
            let found = format!("{} bytes", bytes.len());
            DecodeError::new("Bloom filter, header", "at least 8 bytes", found)
        })?;
        let hashes = (header & 0xff) as u8;
        if !(1..=MAX_HASHES).contains(&hashes) {
            return Err(DecodeError::new("Bloom filter, hashes", format!("1 to {MAX_HASHES}"), hashes));
        }
        let words_expected = header >> 8;
        let words =
            get_words(body).filter(|words| words.len() as u64 == words_expected).ok_or_else(|| {
                let expected = format!("{words_expected} words of 8 bytes");
                DecodeError::new("Bloom filter, words", expected, format!("{} bytes", body.len()))
            })?;
        Ok(Bloom { words: words.into_boxed_slice(), hashes })
    }
}
