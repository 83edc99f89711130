//! Deals out a range of numbers to buckets in order: a multiplication and a shift, no division.
//!
//! Source: LSM-trie (Wu et al., ATC'15) takes the bucket from hash bits of its own, modulo the number of buckets. Here it
//! rises with the digest, so that a table of buckets can be written and read in digest order, and merging stays one
//! k-way merge (multiply-shift as in Lemire, "Fast Random Integer Generation in an Interval", 2019).
//!
//! Invariants: buckets never descend as numbers ascend; equally long parts of the range have equally many buckets, up to
//! rounding.

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
    shift: u32,
    multiplier: u64,
    buckets: u32,
}

impl Spread {
    /// The numbers from `first` to `last`, both included, over `buckets` buckets, at least one.
    pub fn new(first: u64, last: u64, buckets: u32) -> Self {
        let span = last.saturating_sub(first);
        let shift = span.leading_zeros().min(63);
        // The range is stretched to 63 bits at least, so that rounding down costs no bucket its share.
        let stretched = (u128::from(span) + 1) << shift;
        let multiplier = (u128::from(buckets.max(1)) << 64) / stretched;
        Self { first, span, shift, multiplier: multiplier as u64, buckets: buckets.max(1) }
    }

    /// The bucket of `number`, which is below the number of buckets; numbers outside the range have the first or the last.
    #[inline]
    pub fn bucket(&self, number: u64) -> u32 {
        let offset = u128::from(number.saturating_sub(self.first).min(self.span)) << self.shift;
        let bucket = (offset * u128::from(self.multiplier)) >> 64;
        (bucket as u32).min(self.buckets - 1)
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }
}
