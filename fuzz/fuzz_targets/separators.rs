//! `Separators` against binary search over the separators, rebuilt whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::index::separators::{Separators, SeparatorsBuilder};

fn check(index: &Separators, probes: &[&[u8]]) {
    let separators: Vec<Vec<u8>> = index.iter().collect();
    assert_eq!(separators.len(), index.pages().saturating_sub(1) as usize);
    assert!(separators.is_sorted_by(|a, b| a < b));
    let page_of = |key: &[u8]| separators.partition_point(|separator| &**separator <= key) as u32;
    for key in separators.iter().map(|separator| &**separator).chain(probes.iter().copied()) {
        assert_eq!(index.find(key), page_of(key));
        let above = [key, &[0]].concat();
        assert_eq!(index.find(&above), page_of(&above));
        if let Some((last, before)) = key.split_last() {
            assert_eq!(index.find(before), page_of(before));
            let below = [before, &[last.wrapping_sub(1), 0xff]].concat();
            assert_eq!(index.find(&below), page_of(&below));
        }
    }
    let mut bytes = Vec::new();
    index.to_bytes(&mut bytes);
    assert_eq!(Separators::from_bytes(&bytes).as_ref(), Ok(index));
}

fuzz_target!(|data: &[u8]| {
    let mut keys: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    if let Ok(index) = Separators::from_bytes(data) {
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        assert_eq!(bytes, data);
        check(&index, &keys);
    }

    // The same bytes as lines, sorted, two to a page.
    let probes = keys.clone();
    keys.sort_unstable();
    keys.dedup();
    let mut builder = SeparatorsBuilder::new();
    for page in keys.chunks(2) {
        if let (Some(first), Some(last)) = (page.first(), page.last()) {
            builder.add_page(first, last);
        }
    }
    let index = builder.finish();
    check(&index, &probes);
    for (number, page) in keys.chunks(2).enumerate() {
        assert!(page.iter().all(|key| index.find(key) as usize == number));
    }
});
