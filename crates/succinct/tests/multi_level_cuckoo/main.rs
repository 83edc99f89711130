//! The multi-level cuckoo filter: against a map from keys to slots, by its figures, and fed damaged bytes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod bytes;
mod figures;
mod model;

/// SplitMix64 (Steele, Lea and Flood, 2014): well-mixed and the same on every run.
pub struct SplitMix(pub u64);

impl Iterator for SplitMix {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Some(mix(self.0))
    }
}

/// The finalizer of SplitMix64: numbers to well-mixed hashes, one to one.
pub fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
