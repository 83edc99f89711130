//! `PartialKeyCuckoo` against a map, and the decoder of its `HashFilter` against arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::index::partial_key_cuckoo::{Form, HashFilter, PartialKeyCuckoo};
use std::collections::BTreeMap;

fuzz_target!(|data: &[u8]| {
    let (chunks, _) = data.as_chunks::<8>();
    let keys: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
    if let Ok(filter) = HashFilter::from_bytes(data) {
        let mut bytes = Vec::new();
        filter.to_bytes(&mut bytes);
        assert_eq!(bytes, data);
        let mut found = vec![false; keys.len()];
        filter.may_contain_many(&keys, &mut found);
        for (key, found) in keys.iter().zip(found) {
            let lanes = filter.candidates(*key);
            assert_eq!(found, !lanes.is_empty());
            assert!(lanes.iter().all(|lane| *lane < filter.buckets() * 4));
        }
    }

    // The same bytes as keys: few buckets, so that insertions fail; what is in has to stay.
    let choice = data.first().copied().unwrap_or(0);
    let form = if choice & 1 == 0 { Form::OtherBucket } else { Form::Mixed };
    let mut table = PartialKeyCuckoo::new(form, u32::from(choice >> 1) + 1);
    let mut twin = BTreeMap::<u64, Vec<u32>>::new();
    for (key, number) in keys.iter().zip(0..) {
        if number % 7 == 6
            && let Some(old) = twin.get_mut(key).and_then(Vec::pop)
        {
            assert!(table.remove(*key, old));
            continue;
        }
        let before = twin.get(key).map_or(0, Vec::len);
        if table.insert(*key, number).is_ok() {
            twin.entry(*key).or_default().push(number);
        } else {
            // Full for one copy is full for all eight only where the buckets hold nothing else.
            assert!(before <= 8);
        }
    }
    assert_eq!(table.len(), twin.values().map(Vec::len).sum::<usize>());
    for (key, numbers) in &twin {
        let candidates = table.candidates(*key);
        assert!(numbers.iter().all(|number| candidates.contains(number)));
    }
    let filter = table.filter();
    let mut bytes = Vec::new();
    filter.to_bytes(&mut bytes);
    assert_eq!(HashFilter::from_bytes(&bytes).as_ref(), Ok(&filter));
});
