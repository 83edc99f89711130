//! A seeded random order of `0..n` that takes no memory.
//!
//! A four-round Feistel network (Luby and Rackoff, 1988) permutes the smallest even-bit domain that holds
//! `n`; images at or above `n` are permuted again until they fall below it (cycle walking: Black and Rogaway,
//! 2002), which keeps it a permutation and takes fewer than four steps on average.

use super::mix;

/// A permutation of `0..n`.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `seed`; `n` is at most 2^62.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let keys = std::array::from_fn(|round| mix(seed ^ mix(round as u64 + 1)));
        Self { n, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// The `index`-th number of the order; `index` is below `n`.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.n);
        let mut x = index;
        loop {
            x = self.round_trip(x);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn round_trip(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_exactly_once() {
        for n in [1, 2, 3, 4, 5, 7, 8, 100, 1000, 1024, 4097, 65_536, 100_003] {
            for seed in [0, 7] {
                let order = Permutation::new(n, seed);
                let mut seen = vec![false; n as usize];
                for i in 0..n {
                    let image = order.at(i) as usize;
                    assert!(!std::mem::replace(&mut seen[image], true), "{image} twice for n = {n}");
                }
            }
        }
    }

    #[test]
    fn the_order_depends_on_the_seed_and_looks_random() {
        let (a, b) = (Permutation::new(10_000, 1), Permutation::new(10_000, 2));
        assert!((0..10_000).filter(|&i| a.at(i) == b.at(i)).count() < 20);
        // Adjacent indexes land far apart: the mean distance of random pairs is n/3.
        let distance: u64 = (1..10_000).map(|i| a.at(i).abs_diff(a.at(i - 1))).sum::<u64>() / 9_999;
        assert!((3_000..3_700).contains(&distance), "{distance}");
    }

    #[test]
    fn large_domains_work() {
        let order = Permutation::new(1 << 40, 3);
        assert!((0..1000).all(|i| order.at(i) < 1 << 40));
    }
}
