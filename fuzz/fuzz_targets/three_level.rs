//! `ThreeLevelIndex`: decoded from arbitrary bytes, and built over arbitrary tables, each key of which must find its page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::index::three_level::{ThirdLevel, ThreeLevelBuilder, ThreeLevelIndex};

/// A prefix or suffix of one byte: near zero, near the top, a power of two, or spread out.
fn number(byte: u8) -> u64 {
    let low = u64::from(byte & 0x3f);
    match byte >> 6 {
        0 => low,
        1 => u64::MAX - low,
        2 => 1 << low,
        _ => low.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

fuzz_target!(|data: &[u8]| {
    if let Ok(index) = ThreeLevelIndex::from_bytes(data) {
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        assert_eq!(bytes, data);
        for byte in data.iter().copied() {
            let (hi, lo) = (number(byte), number(byte.rotate_left(3)));
            assert!(index.find(hi, lo, &data[..data.len().min(20)]) < index.pages().max(1));
        }
    }

    // The same bytes as entries of three, the last of which is the key; the first says how many fit a page.
    let Some((first, rest)) = data.split_first() else { return };
    let mut entries: Vec<(u64, u64, [u8; 1])> =
        rest.as_chunks::<3>().0.iter().map(|[hi, lo, key]| (number(*hi), number(*lo), [*key])).collect();
    entries.sort_unstable();
    entries.dedup();
    let per_page = usize::from(first % 8) + 1;
    for form in [ThirdLevel::EntropyTrie, ThirdLevel::PartialSuffixes] {
        let mut builder = ThreeLevelBuilder::new(form);
        for page in entries.chunks(per_page) {
            page.iter().for_each(|(hi, lo, _)| builder.push(*hi, *lo));
            builder.finish_page(&page[0].2, &page[page.len() - 1].2);
        }
        let index = builder.finish();
        for (number, page) in entries.chunks(per_page).enumerate() {
            assert!(page.iter().all(|(hi, lo, key)| index.find(*hi, *lo, key) as usize == number));
        }
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        assert_eq!(ThreeLevelIndex::from_bytes(&bytes), Ok(index));
    }
});
