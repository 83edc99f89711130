//! The Bloom filter against a set, and its false-positive rate against the formula.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::filter::bloom::{Bloom, BloomBuilder, MAX_HASHES};

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

fn build(fingerprints: impl IntoIterator<Item = u64>, bits_per_key: f64) -> Bloom {
    let mut builder = BloomBuilder::new(bits_per_key);
    builder.extend(fingerprints);
    builder.finish()
}

/// The measured rate over the formula's, with `keys` keys drawn by `shape` and as many absent ones, over
/// `rounds` filters.
fn rate_over_formula(keys: u64, rounds: u64, bits_per_key: f64, shape: impl Fn(u64) -> u64) -> f64 {
    let mut random = SplitMix(keys).map(shape);
    let (mut found, mut expected) = (0u64, 0.0);
    for _ in 0..rounds {
        let members: HashSet<u64> = random.by_ref().take(keys as usize).collect();
        let bloom = build(members.iter().copied(), bits_per_key);
        assert!(members.iter().all(|member| bloom.may_contain(*member)));
        let absent: Vec<u64> =
            random.by_ref().filter(|key| !members.contains(key)).take(2 * keys as usize).collect();
        found += absent.iter().filter(|key| bloom.may_contain(**key)).count() as u64;
        expected += bloom.expected_false_positive_rate(members.len() as u64) * absent.len() as f64;
    }
    found as f64 / expected
}

#[test]
fn the_formula_predicts_the_rate() {
    for bits_per_key in [4.0, 10.0, 14.5] {
        let ratio = rate_over_formula(200_000, 1, bits_per_key, |key| key);
        assert!((0.85..1.15).contains(&ratio), "{ratio} at {bits_per_key} bits per key");
    }
}

#[test]
fn keys_that_share_digest_bits_still_spread() {
    // All keys of a region share the top bits of their digest; of a bucket, perhaps the low ones.
    type Shape = fn(u64) -> u64;
    let shapes: [(&str, Shape); 3] = [
        ("top bits shared", |key| key >> 28 | 0xabc << 52),
        ("low bits shared", |key| key << 28 | 0xabc),
        ("middle shared", |key| key & 0xffff_0000_000f_ffff),
    ];
    for (name, shape) in shapes {
        let ratio = rate_over_formula(100_000, 1, 10.0, shape);
        assert!((0.85..1.15).contains(&ratio), "{ratio} with {name}");
    }
}

#[test]
fn small_filters_come_close_to_the_formula() {
    // The formula is a limit for many keys, and double hashing meets it in the limit only.
    for (keys, limit) in [(64, 1.5), (500, 1.2), (4000, 1.15)] {
        let ratio = rate_over_formula(keys, 800_000 / keys, 10.0, |key| key);
        assert!((0.85..limit).contains(&ratio), "{ratio} with {keys} keys");
    }
}

#[test]
fn no_keys_means_no_bits_and_no_answer() {
    let bloom = build([], 10.0);
    assert_eq!((bloom.bits(), bloom.bits_per_key(0), bloom.expected_false_positive_rate(0)), (0, 0.0, 0.0));
    assert!(!bloom.may_contain(0) && !bloom.may_contain(u64::MAX));
    let mut found = [true; 3];
    bloom.may_contain_many(&[1, 2, 3], &mut found);
    assert_eq!(found, [false; 3]);
    let mut bytes = Vec::new();
    bloom.to_bytes(&mut bytes);
    assert_eq!(Bloom::from_bytes(&bytes), Ok(bloom));
}

#[test]
fn odd_bits_per_key_are_brought_into_range() {
    for (given, hashes, bits) in
        [(-3.0, 1, 128), (f64::NAN, 1, 128), (0.1, 1, 128), (1e300, MAX_HASHES, 6400)]
    {
        let bloom = build(0..100, given);
        assert_eq!((bloom.hashes(), bloom.bits()), (hashes, bits), "{given}");
    }
    assert_eq!(build(0..100, 10.0).hashes(), 7);
}

#[test]
fn the_hashing_is_part_of_the_format() {
    // Computed apart from this code. Such bytes are on users' disks: if this test fails, a new format is
    // needed.
    let mut bytes = Vec::new();
    build([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 1], 20.0).to_bytes(&mut bytes);
    assert_eq!(bytes, [14, 1, 0, 0, 0, 0, 0, 0, 55, 14, 121, 220, 210, 228, 88, 139]);
}

#[test]
fn headers_that_lie_are_errors() {
    assert_eq!(Bloom::from_bytes(&[7; 7]).unwrap_err().what(), "Bloom filter, header");
    for hashes in [0, MAX_HASHES + 1, 255] {
        let bytes = u64::from(hashes).to_le_bytes();
        assert_eq!(Bloom::from_bytes(&bytes).unwrap_err().what(), "Bloom filter, hashes");
    }
    let error = Bloom::from_bytes(&[7, 255, 255, 255, 255, 255, 255, 255, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Bloom filter, words: expected 72057594037927935 words of 8 bytes, found 1 bytes"
    );
}

#[test]
#[should_panic(expected = "one answer per fingerprint")]
fn an_answer_for_each_fingerprint() {
    build([1], 10.0).may_contain_many(&[1, 2], &mut [false]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn members_are_always_found(members in vec(any::<u64>(), 0..500), bits_per_key in 0.5f64..70.0) {
        let bloom = build(members.iter().copied(), bits_per_key);
        prop_assert!(members.iter().all(|member| bloom.may_contain(*member)));
        let mut bytes = Vec::new();
        bloom.to_bytes(&mut bytes);
        let decoded = Bloom::from_bytes(&bytes).unwrap();
        prop_assert!(members.iter().all(|member| decoded.may_contain(*member)));
        prop_assert_eq!(decoded, bloom);
    }

    #[test]
    fn asking_many_at_once_gives_the_same_answers(
        members in vec(any::<u64>(), 0..300),
        others in vec(any::<u64>(), 0..300),
        bits_per_key in 1.0f64..12.0,
    ) {
        let bloom = build(members.iter().copied(), bits_per_key);
        let mut asked = [members, others].concat();
        asked.sort_unstable();
        let mut found = vec![false; asked.len()];
        bloom.may_contain_many(&asked, &mut found);
        let one_by_one: Vec<bool> = asked.iter().map(|key| bloom.may_contain(*key)).collect();
        prop_assert_eq!(found, one_by_one);
    }

    #[test]
    fn damaged_bytes_never_panic(members in vec(any::<u64>(), 0..40), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut bytes = Vec::new();
        build(members.iter().copied(), 10.0).to_bytes(&mut bytes);
        let at = at.index(bytes.len());
        prop_assert!(Bloom::from_bytes(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        if let Ok(bloom) = Bloom::from_bytes(&bytes) {
            let mut found = vec![false; members.len()];
            bloom.may_contain_many(&members, &mut found);
            for (member, found) in members.iter().zip(found) {
                prop_assert_eq!(bloom.may_contain(*member), found);
            }
        }
    }
}
