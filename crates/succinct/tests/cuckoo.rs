//! The cuckoo filter: members pass, strangers pass at the rate of the formula, tables are full, bytes are
//! checked.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::filter::cuckoo::{CuckooFilter, CuckooFilterBuilder, FINGERPRINT_BITS};

/// SplitMix64 (Steele, Lea and Flood, 2014): well-mixed and the same on every run.
struct SplitMix(u64);

impl Iterator for SplitMix {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(z ^ (z >> 31))
    }
}

/// The measured rate over the expected one, keys drawn by `shape`.
fn rate_over_expectation(bits: u8, keys: usize, shape: impl Fn(u64) -> u64) -> f64 {
    let mut random = SplitMix(u64::from(bits)).map(shape);
    let members: HashSet<u64> = random.by_ref().take(keys).collect();
    let hashes: Vec<u64> = members.iter().copied().collect();
    let filter = CuckooFilter::build(bits, &hashes);
    assert!(hashes.iter().all(|hash| filter.may_contain(*hash)));
    let strangers: Vec<u64> = random.filter(|key| !members.contains(key)).take(400_000).collect();
    let mut found = vec![false; strangers.len()];
    filter.may_contain_many(&strangers, &mut found);
    let passed = found.iter().filter(|found| **found).count();
    passed as f64 / (filter.expected_false_positive_rate() * strangers.len() as f64)
}

#[test]
fn the_formula_predicts_the_rate() {
    for bits in [5, 8, 10, 12] {
        let ratio = rate_over_expectation(bits, 100_000, |key| key);
        assert!((0.9..1.1).contains(&ratio), "{ratio} with {bits} bits");
    }
}

#[test]
fn keys_that_share_digest_bits_still_spread() {
    type Shape = fn(u64) -> u64;
    let shapes: [(&str, Shape); 4] = [
        ("top bits shared", |key| key >> 28 | 0xabc << 52),
        ("low bits shared", |key| key << 28 | 0xabc),
        ("middle shared", |key| key & 0xffff_0000_000f_ffff),
        ("counting", |key| key >> 40),
    ];
    for (name, shape) in shapes {
        let ratio = rate_over_expectation(10, 50_000, shape);
        assert!((0.85..1.15).contains(&ratio), "{ratio} with {name}");
    }
}

#[test]
fn tables_are_full_at_every_size() {
    for (bits, keys) in [(8, 20_000), (12, 3_000), (12, 20_000), (12, 333_333), (16, 500_000), (20, 100_000)]
    {
        let hashes: Vec<u64> = SplitMix(7).take(keys).collect();
        let filter = CuckooFilter::build(bits, &hashes);
        // Fingerprints that coincide take one lane for two keys, and lanes are counted.
        let lanes = filter.len() as f64 / filter.load();
        assert!(keys as f64 / lanes >= 0.945, "{} of {keys} keys, {bits} bits", keys as f64 / lanes);
        let bits_per_key = filter.memory_bytes() as f64 * 8.0 / keys as f64;
        assert!(bits_per_key < (f64::from(bits) - 1.0) / 0.945 + 0.5, "{bits_per_key} with {bits} bits");
    }
}

#[test]
fn small_filters_and_none() {
    let empty = CuckooFilter::build(12, &[]);
    assert!(empty.is_empty() && !empty.may_contain(0) && !empty.may_contain(u64::MAX));
    assert_eq!(empty.expected_false_positive_rate(), 0.0);
    for keys in 0..300 {
        let mut builder = CuckooFilterBuilder::new(9);
        builder.extend(SplitMix(keys).take(keys as usize));
        builder.insert(5);
        let filter = builder.finish();
        assert!(
            filter.may_contain(5) && SplitMix(keys).take(keys as usize).all(|hash| filter.may_contain(hash))
        );
    }
}

#[test]
fn duplicates_take_one_lane() {
    let mut hashes: Vec<u64> = SplitMix(3).take(1000).collect();
    hashes.extend(SplitMix(3).take(1000).flat_map(|hash| [hash; 20]));
    hashes.extend([99; 5000]);
    let filter = CuckooFilter::build(16, &hashes);
    assert!((990..=1001).contains(&filter.len()), "{}", filter.len());
    assert!(hashes.iter().all(|hash| filter.may_contain(*hash)));
}

#[test]
fn odd_widths_are_brought_into_range() {
    let hashes: Vec<u64> = SplitMix(1).take(100).collect();
    for (given, bits) in [(0, *FINGERPRINT_BITS.start()), (255, *FINGERPRINT_BITS.end())] {
        assert_eq!(CuckooFilter::build(given, &hashes).fingerprint_bits(), bits);
    }
}

#[test]
fn damaged_bytes_are_refused_or_answer() {
    let hashes: Vec<u64> = SplitMix(11).take(200).collect();
    for bits in [5, 12, 13, 16, 17, 20] {
        let mut bytes = Vec::new();
        let filter = CuckooFilter::build(bits, &hashes);
        filter.to_bytes(&mut bytes);
        assert_eq!(CuckooFilter::from_bytes(&bytes).as_ref(), Ok(&filter));
        for at in 0..bytes.len() {
            assert!(CuckooFilter::from_bytes(&bytes[..at]).is_err());
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                if let Ok(damaged) = CuckooFilter::from_bytes(&bytes) {
                    let mut again = Vec::new();
                    damaged.to_bytes(&mut again);
                    assert_eq!(again, bytes);
                    assert!(hashes.iter().filter(|hash| damaged.may_contain(**hash)).count() >= 192);
                }
                bytes[at] ^= 1 << bit;
            }
        }
        bytes.push(0);
        assert!(CuckooFilter::from_bytes(&bytes).is_err());
    }
    for header in [[12, 0, 0, 0, 0], [4, 1, 0, 0, 0], [21, 1, 0, 0, 0], [12, 255, 255, 255, 255]] {
        assert!(CuckooFilter::from_bytes(&header).is_err(), "{header:?}");
    }
}

#[test]
fn the_hashing_is_part_of_the_format() {
    // Computed apart from this code. Such bytes are on users' disks: if this test fails, a new format is
    // needed.
    let mut bytes = Vec::new();
    CuckooFilter::build(12, &[0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 1]).to_bytes(&mut bytes);
    assert_eq!(bytes, [12, 1, 0, 0, 0, 95, 5, 0, 32, 139, 195, 148, 0, 0, 0, 189]);
}

proptest! {
    #[test]
    fn members_pass_and_batches_agree(hashes in vec(0u64..5000, 0..2000), bits in 5u8..=20) {
        let filter = CuckooFilter::build(bits, &hashes);
        let asked: Vec<u64> = (0..6000).collect();
        let mut found = vec![true; asked.len()];
        filter.may_contain_many(&asked, &mut found);
        for (hash, found) in asked.iter().zip(&found) {
            prop_assert_eq!(filter.may_contain(*hash), *found);
        }
        prop_assert!(hashes.iter().all(|hash| found[*hash as usize]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in vec(any::<u8>(), 0..200), blocks in 1u32..20, bits in 5u8..=20) {
        let _ = CuckooFilter::from_bytes(&bytes);
        // With a header that fits, so that buckets are looked at.
        let mut fitting = vec![bits];
        fitting.extend_from_slice(&blocks.to_le_bytes());
        bytes.resize((blocks as usize * 2 * (usize::from(bits) - 1)).div_ceil(2), 0);
        fitting.append(&mut bytes);
        if let Ok(filter) = CuckooFilter::from_bytes(&fitting) {
            let mut again = Vec::new();
            filter.to_bytes(&mut again);
            prop_assert_eq!(again, fitting);
        }
    }
}
