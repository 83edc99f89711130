//! A coordinated sample of a run's keys, from which garbage is estimated without reading the keys again.
//!
//! The sample holds the `SAMPLE_KEYS` smallest values of a hash of the keys (bottom-k, Cohen and Kaplan
//! 2007). Samples of different runs pick the same keys where both hold them, so the overlap of two runs is
//! estimated from their samples alone. SlimDB and LSM-trie have no such estimate: the former learns of
//! overwrites only while merging, the latter never reclaims its last level. Filters could give one too, but
//! filterless leaves have none, and this costs 2 KiB of disk a table and no memory.
//!
//! ```text
//! encoding  ┌───────────────┬──────────────────────────────┐
//!           │ complete (u8) │ u64 little-endian, ascending │
//!           └───────────────┴──────────────────────────────┘
//! ```
//!
//! Error: with k keys sampled, an overlap of share g is off by about √(g(1−g)/k): 3 % at g = 0.33.

use siltstone_design::digest::mix64;
use std::collections::BinaryHeap;

/// Keys kept per table.
const SAMPLE_KEYS: usize = 256;

/// The smallest key hashes of a table or run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySample {
    /// Ascending.
    hashes: Vec<u64>,
    /// Hashes up to this one are complete: every key of the run below it is in the sample.
    threshold: u64,
}

/// Gathers a [`KeySample`].
#[derive(Debug, Default)]
pub(crate) struct SampleBuilder {
    largest_first: BinaryHeap<u64>,
    dropped: bool,
}

impl SampleBuilder {
    #[inline]
    pub fn insert(&mut self, fingerprint: u64) {
        // Filters use the fingerprint itself; the sample must not lean on the same bits.
        let hash = mix64(fingerprint ^ 0x5a3b_1e5a_3b1e_5a3b);
        if self.largest_first.len() < SAMPLE_KEYS {
            self.largest_first.push(hash);
        } else if self.largest_first.peek().is_some_and(|&largest| hash < largest) {
            self.largest_first.pop();
            self.largest_first.push(hash);
            self.dropped = true;
        } else {
            self.dropped = true;
        }
    }

    pub fn finish(self) -> KeySample {
        let hashes = self.largest_first.into_sorted_vec();
        let threshold = if self.dropped { hashes.last().copied().unwrap_or(u64::MAX) } else { u64::MAX };
        KeySample { hashes, threshold }
    }
}

impl KeySample {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.hashes.len() * 8);
        out.push(u8::from(self.threshold == u64::MAX));
        for hash in &self.hashes {
            out.extend_from_slice(&hash.to_le_bytes());
        }
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&complete, rest) = bytes.split_first()?;
        let (chunks, tail) = rest.as_chunks::<8>();
        let hashes: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
        if complete > 1 || !tail.is_empty() || !hashes.is_sorted() {
            return None;
        }
        let threshold = if complete == 1 { u64::MAX } else { hashes.last().copied()? };
        Some(Self { hashes, threshold })
    }

    /// The sample of several tables with no key in common.
    pub fn union(parts: impl IntoIterator<Item = Self>) -> Self {
        let (mut hashes, mut threshold) = (Vec::new(), u64::MAX);
        for part in parts {
            threshold = threshold.min(part.threshold);
            hashes.extend(part.hashes);
        }
        hashes.retain(|&hash| hash <= threshold);
        hashes.sort_unstable();
        Self { hashes, threshold }
    }

    /// Estimated number of keys that `self` and `older` share and none of the runs `between` them holds.
    ///
    /// ```text
    /// keys ≈ (sampled keys in both) · 2^64 / (the smaller threshold)
    /// ```
    pub fn overlap(&self, older: &Self, between: &[Self]) -> f64 {
        let threshold = self.threshold.min(older.threshold);
        let shared = self
            .hashes
            .iter()
            .take_while(|&&hash| hash <= threshold)
            .filter(|hash| older.hashes.binary_search(hash).is_ok())
            .filter(|hash| !between.iter().any(|run| run.hashes.binary_search(hash).is_ok()))
            .count();
        let rate = (threshold as f64 + 1.0) / 2f64.powi(64);
        shared as f64 / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(keys: std::ops::Range<u64>) -> KeySample {
        let mut builder = SampleBuilder::default();
        keys.for_each(|key| builder.insert(mix64(key)));
        builder.finish()
    }

    #[test]
    fn small_runs_overlap_exactly() {
        let (a, b) = (sample(0..100), sample(60..200));
        assert!((a.overlap(&b, &[]) - 40.0).abs() < 1e-6);
        assert!((a.overlap(&b, &[sample(90..95)]) - 35.0).abs() < 1e-6);
    }

    #[test]
    fn large_runs_overlap_within_the_stated_error() {
        let (a, b) = (sample(0..100_000), sample(67_000..167_000));
        assert!((a.overlap(&b, &[]) / 33_000.0 - 1.0).abs() < 0.25);
        assert!(sample(0..50_000).overlap(&sample(50_000..100_000), &[]) < 1.0);
    }

    #[test]
    fn unions_and_bytes_keep_the_sample() {
        let whole = sample(0..5_000);
        let parts = KeySample::union([sample(0..2_000), sample(2_000..5_000)]);
        assert!(parts.hashes.iter().all(|hash| *hash > whole.threshold || whole.hashes.contains(hash)));
        assert_eq!(KeySample::from_bytes(&whole.to_bytes()), Some(whole));
        let small = sample(0..3);
        assert_eq!(KeySample::from_bytes(&small.to_bytes()), Some(small));
        assert_eq!(KeySample::from_bytes(&[0]), None);
        assert_eq!(KeySample::from_bytes(&[1, 2, 3]), None);
    }
}
