//! `CuckooFilter`: decoded from arbitrary bytes, and built from arbitrary keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::filter::cuckoo::CuckooFilter;

fn check(filter: &CuckooFilter, bytes: &[u8], keys: &[u64]) {
    let mut encoded = Vec::new();
    filter.to_bytes(&mut encoded);
    assert_eq!(encoded, bytes);
    let mut found = vec![false; keys.len()];
    filter.may_contain_many(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(filter.may_contain(*key), found);
    }
    assert!((0.0..=1.0).contains(&filter.load()));
    assert!((0.0..=1.0).contains(&filter.expected_false_positive_rate()));
}

fuzz_target!(|data: &[u8]| {
    let (chunks, _) = data.as_chunks::<8>();
    let keys: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
    if let Ok(filter) = CuckooFilter::from_bytes(data) {
        check(&filter, data, &keys);
    }

    let filter = CuckooFilter::build(data.first().copied().unwrap_or(0), &keys);
    assert!(keys.iter().all(|key| filter.may_contain(*key)));
    let mut bytes = Vec::new();
    filter.to_bytes(&mut bytes);
    let decoded = CuckooFilter::from_bytes(&bytes).expect("what was encoded decodes");
    assert_eq!(decoded, filter);
    check(&decoded, &bytes, &keys);
});
