//! `Bloom`: decoded from arbitrary bytes, and built from arbitrary keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::filter::bloom::{Bloom, BloomBuilder};

fn check(bloom: &Bloom, bytes: &[u8], keys: &[u64]) {
    let mut encoded = Vec::new();
    bloom.to_bytes(&mut encoded);
    assert_eq!(encoded, bytes);
    let mut found = vec![false; keys.len()];
    bloom.may_contain_many(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(bloom.may_contain(*key), found);
    }
    let rate = bloom.expected_false_positive_rate(keys.len() as u64);
    assert!((0.0..=1.0).contains(&rate), "{rate}");
}

fuzz_target!(|data: &[u8]| {
    let (chunks, _) = data.as_chunks::<8>();
    let keys: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
    if let Ok(bloom) = Bloom::from_bytes(data) {
        check(&bloom, data, &keys);
    }

    // The first key doubles as bits per key, so that every bit pattern of a float comes by.
    let mut builder = BloomBuilder::new(f64::from_bits(keys.first().copied().unwrap_or(0)));
    builder.extend(keys.iter().copied());
    let bloom = builder.finish();
    assert!(keys.iter().all(|key| bloom.may_contain(*key)));
    let mut bytes = Vec::new();
    bloom.to_bytes(&mut bytes);
    let decoded = Bloom::from_bytes(&bytes).expect("what was encoded decodes");
    assert_eq!(decoded, bloom);
    check(&decoded, &bytes, &keys);
});
