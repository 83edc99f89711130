//! The three-level index against the table it was built from: every stored key, of every small table and of
//! many others.

#![expect(clippy::indexing_slicing, reason = "helpers of tests may panic like tests")]

mod patterns;
mod sizes;

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_succinct::index::three_level::{ThirdLevel, ThreeLevelBuilder, ThreeLevelIndex};

type Entry = (u64, u64, Vec<u8>);

const FORMS: [ThirdLevel; 2] = [ThirdLevel::EntropyTrie, ThirdLevel::PartialSuffixes];

fn build(form: ThirdLevel, pages: &[&[Entry]]) -> ThreeLevelIndex {
    let mut builder = ThreeLevelBuilder::new(form);
    for page in pages {
        page.iter().for_each(|(hi, lo, _)| builder.push(*hi, *lo));
        builder.finish_page(&page[0].2, &page[page.len() - 1].2);
    }
    assert_eq!(builder.pages() as usize, pages.len());
    builder.finish()
}

fn encoded(index: &ThreeLevelIndex) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.to_bytes(&mut bytes);
    bytes
}

/// Asserts that every stored key is routed to its page.
fn check(index: &ThreeLevelIndex, pages: &[&[Entry]]) {
    assert_eq!(index.pages() as usize, pages.len());
    for (number, page) in pages.iter().enumerate() {
        for (hi, lo, key) in *page {
            assert_eq!(
                index.find(*hi, *lo, key) as usize,
                number,
                "{:?}: key {:?} of {pages:?}",
                index.third_level(),
                (hi, lo, key)
            );
        }
    }
}

/// Both forms of the index over `pages`, checked.
fn check_both(pages: &[&[Entry]]) {
    for form in FORMS {
        check(&build(form, pages), pages);
    }
}

/// Every subset of `universe`, cut into pages in every way.
fn check_all_tables(universe: &[Entry]) {
    for subset in 1u32..1 << universe.len() {
        let entries: Vec<Entry> = universe
            .iter()
            .enumerate()
            .filter(|(bit, _)| subset >> bit & 1 == 1)
            .map(|(_, entry)| entry.clone())
            .collect();
        for cuts in 0u32..1 << (entries.len() - 1) {
            let mut pages = Vec::new();
            let mut start = 0;
            for end in 1..=entries.len() {
                if end == entries.len() || cuts >> (end - 1) & 1 == 1 {
                    pages.push(&entries[start..end]);
                    start = end;
                }
            }
            check_both(&pages);
        }
    }
}

/// All combinations, in order.
fn universe(prefixes: &[u64], suffixes: &[u64], keys: &[&str]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for hi in prefixes {
        for lo in suffixes {
            entries.extend(keys.iter().map(|key| (*hi, *lo, key.as_bytes().to_vec())));
        }
    }
    entries
}

const TOP: u64 = u64::MAX;

#[test]
fn every_small_table_of_many_prefixes() {
    let spread = TOP / 5;
    check_all_tables(&universe(&[0, spread, 2 * spread, 3 * spread, TOP], &[0, TOP], &[""]));
    check_all_tables(&universe(&[7, 8, 9, 10, 11], &[5, 6], &[""]));
    check_all_tables(&universe(&[0, 1, TOP / 2, TOP / 2 + 1, TOP], &[1 << 63, 3 << 62], &[""]));
}

#[test]
fn every_small_table_of_many_suffixes() {
    check_all_tables(&universe(&[3], &[0, 1, 2, 3, 1 << 40, 1 << 62, 1 << 63, 3 << 62, TOP - 1, TOP], &[""]));
    check_all_tables(&universe(&[0, TOP], &[0, 1, 1 << 63, TOP - 1, TOP], &[""]));
    check_all_tables(&universe(&[1 << 20, 1 << 60, 5 << 60], &[9, 1 << 61, 7 << 61], &[""]));
}

#[test]
fn every_small_table_with_ties() {
    check_all_tables(&universe(&[4], &[0, 8, 1 << 63], &["", "a", "b"]));
    check_all_tables(&universe(&[4, 5], &[8], &["", "long/a", "long/b", "long/b0", "q"]));
    check_all_tables(&universe(&[0, 1 << 63, TOP], &[TOP], &["x", "y", "z"]));
}

/// A number that is one of a few, near another, or anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => any::<u64>(),
        2 => (0u64..6).prop_map(|n| n),
        1 => (0u64..6).prop_map(|n| TOP - n),
        2 => (0u32..64, 0u64..4).prop_map(|(shift, n)| n << shift),
        1 => (0u64..3).prop_map(|n| 0x6162_6364_6566_6700 + n),
    ]
}

/// Entries in order, in groups of very different sizes.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let size = prop_oneof![6 => 1usize..4, 3 => 1usize..20, 1 => 50usize..200];
    let group = (number(), size, any::<u64>(), 0u8..4);
    vec(group, 1..30).prop_map(|groups| {
        let mut entries = Vec::new();
        for (hi, size, seed, kind) in groups {
            let mut random = patterns::Random(seed);
            for at in 0..size as u64 {
                let lo = match kind {
                    // Hashed; in sequence; a few, so that they tie; hashed, but of the same beginning.
                    0 => random.next(),
                    1 => at,
                    2 => random.next() % 3,
                    _ => 0xabcd << 48 | random.next() >> 40,
                };
                entries.push((hi, lo, (random.next() % 1000).to_string().into_bytes()));
            }
        }
        entries.sort();
        entries.dedup();
        entries
    })
}

/// Cuts entries into pages of the given sizes, over and over.
fn cut<'a>(entries: &'a [Entry], sizes: &[usize]) -> Vec<&'a [Entry]> {
    let mut pages = Vec::new();
    let mut rest = entries;
    for size in sizes.iter().cycle() {
        let (page, behind) = rest.split_at((*size).min(rest.len()));
        if page.is_empty() {
            break;
        }
        pages.push(page);
        rest = behind;
    }
    pages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_stored_key_finds_its_page(
        entries in entries(),
        sizes in vec(prop_oneof![1usize..4, 1usize..30], 1..8),
        absent in vec((number(), number()), 0..50),
    ) {
        let pages = cut(&entries, &sizes);
        for form in FORMS {
            let index = build(form, &pages);
            check(&index, &pages);
            for (hi, lo) in &absent {
                prop_assert!(index.find(*hi, *lo, b"5") < index.pages());
            }
            let keys: Vec<_> = entries.iter().map(|(hi, lo, key)| (*hi, *lo, &key[..])).collect();
            let mut found = Vec::new();
            index.find_batch(&keys, &mut found);
            prop_assert!(found.iter().copied().eq(keys.iter().map(|(hi, lo, key)| index.find(*hi, *lo, key))));
            let bytes = encoded(&index);
            prop_assert_eq!(ThreeLevelIndex::from_bytes(&bytes), Ok(index));
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_another_sound_index(
        entries in entries(),
        size in 1usize..6,
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let pages = cut(&entries, &[size]);
        for form in FORMS {
            let mut bytes = encoded(&build(form, &pages));
            let at = at.index(bytes.len());
            prop_assert!(ThreeLevelIndex::from_bytes(&bytes[..at]).is_err());
            bytes[at] ^= flip;
            if let Ok(index) = ThreeLevelIndex::from_bytes(&bytes) {
                for (hi, lo, key) in &entries {
                    prop_assert!(index.find(*hi, *lo, key) < index.pages());
                }
                prop_assert_eq!(encoded(&index), bytes);
            }
        }
    }
}

#[test]
fn no_page() {
    for form in FORMS {
        let index = build(form, &[]);
        assert_eq!((index.pages(), index.find(1, 2, b"x")), (0, 0));
        assert_eq!(ThreeLevelIndex::from_bytes(&encoded(&index)), Ok(index));
    }
}

#[test]
fn one_group_fills_the_table() {
    // Hashed suffixes, and ordered ones that count up: at the start, at the end, and behind eight equal
    // bytes.
    let mut random = patterns::Random(5);
    let mut hashed: Vec<Entry> = (0..20_000).map(|_| (9, random.next(), vec![])).collect();
    hashed.sort();
    let counted = |shift: u32| (0..20_000u64).map(|at| (9, at << shift, vec![])).collect::<Vec<Entry>>();
    let tied: Vec<Entry> = (0..20_000).map(|at| (9, 9, format!("suffix{at:06}").into_bytes())).collect();
    for entries in [hashed, counted(48), counted(0), tied] {
        let pages: Vec<&[Entry]> = entries.chunks(17).collect();
        check_both(&pages);
    }
}

#[test]
fn long_keys_that_tie() {
    let key = |at: u32| [vec![b'k'; 5000], at.to_be_bytes().to_vec()].concat();
    let entries: Vec<Entry> = (0..300).map(|at| (1, u64::from(at / 100), key(at))).collect();
    let pages: Vec<&[Entry]> = entries.chunks(7).collect();
    check_both(&pages);
}

#[test]
#[should_panic(expected = "below the one before")]
fn entries_out_of_order_are_refused() {
    build(ThirdLevel::EntropyTrie, &[&[(2, 0, vec![]), (1, 9, vec![])]]);
}

#[test]
#[should_panic(expected = "below the page before")]
fn keys_out_of_order_are_refused() {
    build(ThirdLevel::EntropyTrie, &[&[(2, 0, vec![7])], &[(2, 0, vec![7])]]);
}

#[test]
fn unsound_parts_are_named() {
    let what = |bytes: &[u8]| ThreeLevelIndex::from_bytes(bytes).unwrap_err().what();
    assert_eq!(what(&[]), "three-level index, header");
    assert_eq!(what(&[1, 0, 0]), "three-level index, header");
    assert_eq!(what(&[2]), "three-level index, form");
    assert_eq!(what(&[&[1, 0, 0, 0, 0][..], &[0xff; 40]].concat()), "three-level index, part");
    let entries: Vec<Entry> = (0..100).map(|at| (at / 10, at, vec![])).collect();
    let pages: Vec<&[Entry]> = entries.chunks(3).collect();
    for form in FORMS {
        let bytes = encoded(&build(form, &pages));
        assert_eq!(what(&[&bytes[..], &[0]].concat()), "three-level index, bytes behind the last part");
        let mut more_pages = bytes.clone();
        more_pages[1] += 1;
        assert_eq!(what(&more_pages), "three-level index, pages of level 2");
        // The bytes of one form are not taken for the other.
        let mut other = bytes;
        other[0] ^= 1;
        assert!(ThreeLevelIndex::from_bytes(&other).is_err());
    }
}
