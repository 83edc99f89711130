//! Which bucket a key falls in, and its place inside.
//!
//! The keys' range is stretched over a whole number of buckets by one multiplication: the high word of the
//! product is the bucket, the low word the place within, which the bucket's trie divides by its leading bits.
//! SILT (SOSP 2011, §3.3) buckets by the k leading bits instead; a multiplication allows any number of
//! buckets, so that they are as large as asked for, and a range that begins and ends anywhere.
//!
//! Invariant: (bucket, place) ascends strictly with the key.

/// The stretching of a range of keys over buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) low: u64,
    pub(super) high: u64,
    shift: u32,
    multiplier: u64,
}

impl Spread {
    /// Spreads `low..=high` over `buckets` buckets; wants `low <= high` and `1 <= buckets <= 2^32`.
    pub(super) fn new(low: u64, high: u64, buckets: u64) -> Self {
        let range = high.saturating_sub(low);
        let shift = range.leading_zeros().min(63);
        // At most 2 * 2^32, since the shifted range fills half of a word or more.
        let stretched = u128::from(range << shift).max(1 << 63) + 1;
        let multiplier = ((u128::from(buckets) << 64) / stretched) as u64;
        Spread { low, high, shift, multiplier }
    }

    /// The bucket and the place of a key from the range.
    #[inline]
    pub(super) fn place(&self, key: u64) -> (usize, u64) {
        let product = u128::from(key.wrapping_sub(self.low) << self.shift) * u128::from(self.multiplier);
        ((product >> 64) as usize, product as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_ascend_and_buckets_stay_below_their_number() {
        for low in [0, 1, 1000, u64::MAX - 100_000] {
            for range in [0, 1, 2, 3, 63, 64, 65, 9999, (1 << 40) + 1, u64::MAX >> 1, u64::MAX] {
                let high = low.saturating_add(range);
                for buckets in [1, 2, 3, 7, 1000, 1 << 32] {
                    let spread = Spread::new(low, high, buckets);
                    let step = (high - low) / 500 + 1;
                    let near = (0..3).map(|i| high.saturating_sub(2 - i)).filter(|key| *key >= low);
                    let mut keys: Vec<u64> = (0..=500u64)
                        .map_while(|i| low.checked_add(i.checked_mul(step)?))
                        .filter(|key| *key <= high)
                        .collect();
                    keys.extend(near);
                    keys.sort_unstable();
                    keys.dedup();
                    let places: Vec<_> = keys.iter().map(|key| spread.place(*key)).collect();
                    assert!(places.is_sorted_by(|a, b| a < b), "{low} {high} {buckets}");
                    assert!(places.iter().all(|place| (place.0 as u64) < buckets));
                }
            }
        }
    }
}
