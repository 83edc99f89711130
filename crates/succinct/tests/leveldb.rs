//! LevelDB's index against a sorted vector searched by halves, and its sizes against SlimDB's table 3.

#![expect(clippy::indexing_slicing, reason = "helpers of tests may panic like tests")]

#[path = "three_level/patterns.rs"]
mod patterns;

use patterns::{ENTRIES, PAPER_BITS, PATTERNS, PER_PAGE, key_bytes, table};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use siltstone_succinct::index::leveldb::{Form, LevelDbBuilder, LevelDbIndex};

type Key = Vec<u8>;

fn build(form: Form, keys: &[Key], per_page: usize) -> LevelDbIndex {
    let mut builder = LevelDbBuilder::new(form);
    for (number, page) in keys.chunks(per_page).enumerate() {
        builder.add_page(&page[0], &page[page.len() - 1], number as u64 * 4096, 4000 + number as u64 % 96);
    }
    builder.finish()
}

fn encoded(index: &LevelDbIndex) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.to_bytes(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_key_finds_its_page(
        keys in btree_set(vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..12), 0..200),
        per_page in 1usize..8,
        absent in vec(any::<u8>(), 0..12),
    ) {
        let keys: Vec<Key> = keys.into_iter().collect();
        for form in Form::ALL {
            let index = build(form, &keys, per_page);
            prop_assert_eq!(index.pages() as usize, keys.chunks(per_page).len());
            for (number, page) in keys.chunks(per_page).enumerate() {
                prop_assert!(page.iter().all(|key| index.find(key) as usize == number), "{form:?}");
                let location = (form != Form::FixedBlock).then_some((number as u64 * 4096, 4000 + number as u64 % 96));
                prop_assert_eq!(index.location(number as u32), location);
            }
            prop_assert_eq!(index.location(index.pages()), None);
            prop_assert!(index.find(&absent) < index.pages().max(1));
            prop_assert_eq!(LevelDbIndex::from_bytes(&encoded(&index)), Ok(index));
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_another_sound_index(
        keys in btree_set(vec(any::<u8>(), 0..6), 1..60),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let keys: Vec<Key> = keys.into_iter().collect();
        for form in Form::ALL {
            let mut bytes = encoded(&build(form, &keys, 2));
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Ok(index) = LevelDbIndex::from_bytes(&bytes) {
                prop_assert!(keys.iter().all(|key| index.find(key) < index.pages()));
                prop_assert_eq!(encoded(&index), bytes);
            }
        }
    }
}

#[test]
fn unsound_bytes_are_refused() {
    let good = encoded(&build(Form::FullKeys, &[b"a".to_vec(), b"b".to_vec()], 1));
    assert!(LevelDbIndex::from_bytes(&good).is_ok());
    for cut in 0..good.len() {
        assert!(LevelDbIndex::from_bytes(&good[..cut]).is_err());
    }
    let refused = |bytes: &[u8]| LevelDbIndex::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(refused(&[3, 0, 0, 0, 0]), "LevelDB index: expected a form below 3, found 3");
    // Four thousand million entries promised by five bytes.
    assert!(refused(&[0, 255, 255, 255, 255]).ends_with("found 5 bytes"));
    // Full keys have locations, so these are no entries without.
    let mut other = good.clone();
    other[0] = 2;
    assert!(refused(&other).contains("an entry of this form"));
}

#[test]
#[should_panic(expected = "overlap the page before")]
fn overlapping_pages_are_refused() {
    build(Form::FixedBlock, &[b"b".to_vec(), b"a".to_vec()], 1);
}

/// The paper's own figures come out, so that the comparison in table 3 is with the same thing. Shortened keys
/// take up to a tenth less: LevelDB leaves keys whole where the first byte that differs does so by one.
#[test]
fn sizes_are_the_papers() {
    for (form, (name, paper)) in Form::ALL.into_iter().rev().zip(&PAPER_BITS[1..]) {
        for (at, (pattern_name, pattern)) in PATTERNS.iter().enumerate() {
            // LevelDB's whole keys end with 8 bytes of sequence number and type; shortened ones mostly lose
            // them.
            let trailer = [1u8; 8];
            let trailer = if form == Form::FullKeys { &trailer[..] } else { &[] };
            let keys = table(*pattern, ENTRIES, 1);
            let keys: Vec<Key> =
                keys.into_iter().map(|key| [&key_bytes(key)[..], trailer].concat()).collect();
            let bits = build(form, &keys, PER_PAGE).memory_bytes() as f64 * 8.0 / ENTRIES as f64;
            println!("{name} {pattern_name}: {bits:.2} bits per key, paper {}", paper[at]);
            let least = if form == Form::FullKeys { 0.995 } else { 0.9 };
            assert!((least..1.005).contains(&(bits / paper[at])), "{name} {pattern_name}: {bits}");
        }
    }
}
