//! Deals out a range of numbers to buckets in order: two multiplications and no division.
//!
//! Source: LSM-trie (Wu et al., ATC'15) takes the bucket from hash bits of its own, modulo the number of
//! buckets. Here it rises with the digest, so that a table of buckets can be written and read in digest
//! order, and merging stays one k-way merge (multiply-shift as in Lemire, "Fast Random Integer Generation in
//! an Interval", 2019).
//!
//! Invariants: buckets never descend as numbers ascend; equally long parts of the range have equally many
//! buckets, up to rounding.

/// A range of numbers over a number of buckets.
///
/// ```
/// use siltstone_succinct::buckets::spread::Spread;
///
/// let spread = Spread::new(1000, 1999, 10);
/// assert_eq!([1000, 1099, 1100, 1999].map(|number| spread.bucket(number)), [0, 0, 1, 9]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    first: u64,
    span: u64,
    /// Stretches the range to between 2^63 and 2^64 numbers.
    shift: u32,
    /// 2^127 divided by the stretched range, rounded up since products are rounded down.
    reciprocal: u64,
    buckets: u32,
}

impl Spread {
    /// The numbers from `first` to `last`, both included, over `buckets` buckets, at least one.
    pub fn new(first: u64, last: u64, buckets: u32) -> Self {
        let span = last.saturating_sub(first);
        let shift = span.leading_zeros().min(63);
        let reciprocal = (1u128 << 127).div_ceil((u128::from(span) + 1) << shift);
        // It is 2^64 for a range of one number, which has the first bucket whatever stands here.
        let reciprocal = u64::try_from(reciprocal).unwrap_or(u64::MAX);
        Self { first, span, shift, reciprocal, buckets: buckets.max(1) }
    }

    /// The bucket of `number`, which is below the number of buckets; numbers outside the range have the first
    /// or the last.
    #[inline]
    pub fn bucket(&self, number: u64) -> u32 {
        let offset = u128::from(number.saturating_sub(self.first).min(self.span)) << self.shift;
        // The number's share of the range, in units of 2^-64 and rounded up: borders are where they should
        // be.
        let share = ((offset * u128::from(self.reciprocal)) >> 63) + 1;
        let bucket = (share * u128::from(self.buckets)) >> 64;
        (bucket as u32).min(self.buckets - 1)
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }
}
