//! The separator index against a sorted vector searched by halves.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use siltstone_succinct::index::separators::{Separators, SeparatorsBuilder, shortest};

type Key = Vec<u8>;

/// Sorted distinct keys: few letters and long common prefixes, so that prefixes, extensions and neighbours
/// abound.
fn keys(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Key>> {
    let key = prop_oneof![
        vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255)], 0..8),
        vec(any::<u8>(), 0..24),
        (0u32..5000).prop_map(|id| format!("tenant/object/{id:08}").into_bytes()),
        (0usize..40, any::<u8>()).prop_map(|(length, last)| {
            let mut key = vec![b'a'; length];
            key.push(last);
            key
        }),
    ];
    btree_set(key, count).prop_map(|keys| keys.into_iter().collect())
}

/// Cuts sorted keys into pages of one to four.
fn cut(keys: &[Key], sizes: &[usize]) -> Vec<(Key, Key)> {
    let mut pages = Vec::new();
    let mut rest = keys;
    for size in sizes.iter().cycle() {
        let (page, behind) = rest.split_at((*size).min(rest.len()));
        let [first, ..] = page else { break };
        pages.push((first.clone(), page.last().unwrap_or(first).clone()));
        rest = behind;
    }
    pages
}

fn build(pages: &[(Key, Key)]) -> Separators {
    let mut builder = SeparatorsBuilder::new();
    for (first, last) in pages {
        builder.add_page(first, last);
    }
    let encoded_bytes = builder.encoded_bytes();
    let index = builder.finish();
    assert_eq!(encoded(&index).len(), encoded_bytes);
    index
}

fn encoded(index: &Separators) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.to_bytes(&mut bytes);
    bytes
}

/// The naive twin: how many separators are not above the key.
fn page_of(separators: &[Key], key: &[u8]) -> u32 {
    separators.partition_point(|separator| &**separator <= key) as u32
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_key_finds_its_page(keys in keys(0..300), sizes in vec(1usize..5, 1..20), others in keys(0..50)) {
        let pages = cut(&keys, &sizes);
        let index = build(&pages);
        let separators: Vec<Key> =
            pages.windows(2).map(|pair| shortest(&pair[0].1, &pair[1].0).to_vec()).collect();
        prop_assert_eq!(index.pages() as usize, pages.len());
        prop_assert!(index.iter().eq(separators.iter().cloned()));
        for (page, (first, last)) in pages.iter().enumerate() {
            prop_assert_eq!(index.find(first) as usize, page);
            prop_assert_eq!(index.find(last) as usize, page);
        }
        for key in keys.iter().chain(&others).chain(&separators) {
            prop_assert_eq!(index.find(key), page_of(&separators, key));
            // Just above the key.
            let above = [key, &[0][..]].concat();
            prop_assert_eq!(index.find(&above), page_of(&separators, &above));
            // Just below it, or nearly so.
            if let Some((last, before)) = key.split_last() {
                let below = [before, &[last.wrapping_sub(1), 255][..]].concat();
                prop_assert_eq!(index.find(&below), page_of(&separators, &below));
                prop_assert_eq!(index.find(before), page_of(&separators, before));
            }
        }
        prop_assert_eq!(Separators::from_bytes(&encoded(&index)), Ok(index));
    }

    #[test]
    fn a_separator_separates_and_is_the_shortest(keys in keys(2..30)) {
        for pair in keys.windows(2) {
            let (last, first) = (&pair[0], &pair[1]);
            let separator = shortest(last, first);
            prop_assert!(&**last < separator && separator <= &**first);
            prop_assert!(first.starts_with(separator));
            prop_assert!(separator[..separator.len() - 1] <= **last);
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_another_sound_index(
        keys in keys(0..100),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let mut bytes = encoded(&build(&cut(&keys, &[1])));
        let at = at.index(bytes.len());
        if at > 3 || keys.len() > 1 {
            prop_assert!(Separators::from_bytes(&bytes[..at]).is_err());
        }
        bytes[at] ^= flip;
        if let Ok(index) = Separators::from_bytes(&bytes) {
            let separators: Vec<Key> = index.iter().collect();
            prop_assert!(separators.is_sorted());
            for key in keys.iter().chain(&separators) {
                prop_assert_eq!(index.find(key), page_of(&separators, key));
            }
            prop_assert_eq!(encoded(&index), bytes);
        }
    }

    #[test]
    fn any_bytes_are_errors_or_a_sound_index(pages in 0u32..40, entries in vec(0u8..40, 0..200)) {
        let bytes = [&pages.to_le_bytes()[..], &entries].concat();
        if let Ok(index) = Separators::from_bytes(&bytes) {
            let separators: Vec<Key> = index.iter().collect();
            prop_assert!(separators.iter().all(|separator| index.find(separator) == page_of(&separators, separator)));
        }
    }
}

#[test]
fn no_page_and_one_page() {
    for pages in [0u32, 1] {
        let mut builder = SeparatorsBuilder::new();
        if pages == 1 {
            builder.add_page(b"", b"");
        }
        let index = builder.finish();
        assert_eq!(
            (index.pages(), index.find(b""), index.find(b"x"), index.iter().count()),
            (pages, 0, 0, 0)
        );
        assert_eq!(encoded(&index), pages.to_le_bytes());
        assert_eq!(Separators::from_bytes(&encoded(&index)), Ok(index));
    }
}

#[test]
fn keys_of_64_kib_that_differ_in_their_last_bytes() {
    let key = |id: u16| [vec![7u8; 65_534], id.to_be_bytes().to_vec()].concat();
    let pages: Vec<(Key, Key)> = (0..100).map(|page| (key(page * 10), key(page * 10 + 9))).collect();
    let index = build(&pages);
    for id in 0..1000 {
        assert_eq!(index.find(&key(id)), u32::from(id / 10));
    }
    // Seven restarts stand whole and their prefix once more; the others cost a few bytes each.
    assert!(index.memory_bytes() < 9 * 65_536);
    assert_eq!(Separators::from_bytes(&encoded(&index)), Ok(index));
}

#[test]
fn restarts_that_their_heads_do_not_tell_apart() {
    // Two lone keys at the ends keep the common prefix empty, and all heads between are equal, or end in
    // zeros.
    for stem in [&b"tenant42/obj/"[..], &[0; 7], &[]] {
        let key = |id: u32| [stem, &[0; 3], &id.to_be_bytes()].concat();
        let mut pages = vec![(vec![], vec![])];
        pages.extend((1..500).map(|page| (key(page * 10), key(page * 10 + 9))));
        pages.push((vec![254], vec![255]));
        let index = build(&pages);
        for id in 10..5000 {
            assert_eq!(index.find(&key(id)), id / 10);
        }
        let separators: Vec<Key> = index.iter().collect();
        for length in 0..stem.len() + 7 {
            for id in [0u32, 1, 2560, 65_536] {
                let key = &key(id)[..length];
                assert_eq!(index.find(key), page_of(&separators, key));
            }
        }
        assert_eq!(index.find(&[255; 30]), 500);
    }
}

#[test]
fn each_form_of_the_length_nibbles() {
    // Shared and added lengths on both sides of the escape and of a varint's second byte.
    for shared in [0usize, 1, 14, 15, 16, 142, 143, 300] {
        for added in [1usize, 2, 15, 16, 17, 143, 144, 300] {
            // A separator is one byte longer than what its page shares with the last key of the page before.
            let below_low = [vec![5; shared.saturating_sub(1)], vec![4]].concat();
            let low = [vec![5; shared + added], vec![0]].concat();
            let below_middle = [vec![5; shared], vec![6; added - 1], vec![5, 255]].concat();
            let middle = [vec![5; shared], vec![6; added]].concat();
            let high = [vec![5; shared], vec![6; added - 1], vec![7; 2]].concat();
            let pages =
                [(vec![], below_low), (low, below_middle), (middle.clone(), middle), (high.clone(), high)];
            let index = build(&pages);
            let lengths: Vec<usize> = index.iter().map(|separator| separator.len()).collect();
            assert_eq!(lengths, [shared.max(1), shared + added, shared + added]);
            for (page, (first, last)) in pages.iter().enumerate() {
                assert_eq!(index.find(first) as usize, page, "{shared} shared, {added} added");
                assert_eq!(index.find(last) as usize, page, "{shared} shared, {added} added");
            }
            assert_eq!(Separators::from_bytes(&encoded(&index)), Ok(index));
        }
    }
}

#[test]
fn unsound_entries_are_named() {
    let what = |bytes: &[u8]| Separators::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(what(&[1, 0]), "separators, header: expected at least 4 bytes, found 2 bytes");
    assert_eq!(
        what(&[2, 0, 0, 0]),
        "separators, entry: expected an entry that ends within the bytes, found only 0 bytes in entry 1 of 1"
    );
    assert_eq!(
        what(&[2, 0, 0, 0, 0x10, b'a']),
        "separators, entry: expected a restart to share nothing, found 1 bytes shared in entry 1 of 1"
    );
    assert_eq!(
        what(&[3, 0, 0, 0, 0x00, b'b', 0x20, b'c']),
        "separators, entry: expected at most 1 bytes shared, found 2 in entry 2 of 2"
    );
    for second in [b'a', b'b'] {
        assert_eq!(
            what(&[3, 0, 0, 0, 0x00, b'b', 0x00, second]),
            "separators, entry: expected a separator above the one before, found one that is not in entry 2 of 2"
        );
    }
    assert_eq!(
        what(&[1, 0, 0, 0, 9]),
        "separators, end: expected 0 entries and nothing else, found 1 bytes more"
    );
    // Four thousand million pages promised by four bytes: refused without allocating for them.
    assert!(Separators::from_bytes(&[0xff; 4]).is_err());
    // A length that overflows.
    let overflowing = [&[2, 0, 0, 0, 0x0f][..], &[0xff; 9], &[0x01]].concat();
    assert!(Separators::from_bytes(&overflowing).is_err());
}

#[test]
#[should_panic(expected = "overlap the page before")]
fn overlapping_pages_are_refused() {
    build(&[(b"a".to_vec(), b"c".to_vec()), (b"c".to_vec(), b"d".to_vec())]);
}

#[test]
#[should_panic(expected = "first key is above its last")]
fn a_reversed_page_is_refused() {
    build(&[(b"b".to_vec(), b"a".to_vec())]);
}
