//! The cell index against the table it is built over.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use siltstone_succinct::index::cells::{Cells, CellsBuilder, Place};

type Entry = (u64, u64, Vec<u8>);

fn place(entry: &Entry) -> Place<'_> {
    Place { hi: entry.0, lo: entry.1, key: &entry.2 }
}

fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hashed keys, groups with hashed or ordered suffixes, keys that share a digest, and all of them at once.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = || vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..5);
    let entry = prop_oneof![
        4 => any::<u64>().prop_map(|n| (mixed(n), mixed(!n), vec![])),
        2 => (0u64..5, any::<u64>()).prop_map(|(group, n)| (mixed(group), mixed(n), vec![])),
        2 => (0u64..3, 0u64..400).prop_map(|(group, n)| (mixed(group), n, n.to_be_bytes().to_vec())),
        2 => (0u64..2, key()).prop_map(|(group, key)| (mixed(group), 7, [&b"a longer common prefix"[..], &key].concat())),
        1 => (0u64..3, 0u64..3, key()).prop_map(|(hi, lo, key)| (u64::MAX - hi, u64::MAX - lo, key)),
        1 => (0u64..3, 0u64..3, key()),
    ];
    btree_set(entry, 0..500).prop_map(|entries| entries.into_iter().collect())
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Puts entries on pages of `sizes` entries, or up to `spare` fewer where that ends a page with a cell.
fn build(entries: &[Entry], cells: u64, sizes: &[usize], spare: usize) -> (Cells, Vec<u32>) {
    let mut builder = CellsBuilder::new(cells);
    let mut pages: Vec<u32> = Vec::new();
    let (mut page, mut on_page, mut cell_at) = (0u32, 0, 0);
    let mut sizes = sizes.iter().cycle();
    let mut size = *sizes.next().unwrap();
    for (at, entry) in entries.iter().enumerate() {
        let begins_cell = builder.begins_cell(entry.0);
        if on_page == size {
            // Where the open cell began on this page.
            let back = at - cell_at;
            page += 1;
            if !begins_cell && back < on_page && back <= spare {
                builder.end_page_before_cell();
                pages[cell_at..].fill(page);
                on_page = back;
            } else {
                builder.end_page();
                on_page = 0;
            }
            size = (*sizes.next().unwrap()).max(on_page + 1);
        }
        if begins_cell {
            cell_at = at;
        }
        let shared = at.checked_sub(1).map_or(0, |before| common_prefix(&entries[before].2, &entry.2));
        builder.push(place(entry), shared);
        pages.push(page);
        on_page += 1;
    }
    (builder.finish(), pages)
}

fn check(index: &Cells, entries: &[Entry], pages: &[u32], strangers: &[Entry]) {
    assert_eq!(index.pages(), pages.last().map_or(0, |last| last + 1));
    let places: Vec<Place> = entries.iter().map(place).collect();
    let mut found = vec![0; places.len()];
    index.find_many(&places, &mut found);
    assert_eq!(found, pages);
    for (place, page) in places.iter().zip(pages) {
        assert_eq!(index.find(*place), *page, "{place:x?}");
    }
    for stranger in strangers {
        let found = index.find(place(stranger));
        // The page that has the first entry behind the stranger, or the one before it, whose end a walk
        // passes.
        let behind = entries.partition_point(|entry| entry < stranger);
        let wanted = pages.get(behind).or(pages.last()).copied().unwrap_or(0);
        match index.split_pages(stranger.0) {
            None => assert!(found == wanted || found + 1 == wanted, "{found}, {wanted}"),
            Some(range) => {
                assert!(range.contains(&found));
                assert!(range.contains(&wanted) || range.end() + 1 == wanted, "{range:?}, {wanted}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_entry_finds_its_page(
        entries in entries(), strangers in entries(), cells in prop_oneof![1u64..2000, any::<u64>(), (0u32..64).prop_map(|b| 1 << b)],
        sizes in vec(1usize..40, 1..6), spare in 0usize..6,
    ) {
        let (index, pages) = build(&entries, cells, &sizes, spare);
        check(&index, &entries, &pages, &strangers);
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        prop_assert_eq!(Cells::from_bytes(&bytes), Ok(index));
        prop_assert!(Cells::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_cell_with_very_many_pages_is_found(count in 1usize..3000, cells in prop_oneof![Just(1u64), Just(1 << 20)]) {
        let entries: Vec<Entry> = (0..count as u64).map(|n| (42 << 40, n << 20, n.to_be_bytes().to_vec())).collect();
        let (index, pages) = build(&entries, cells, &[1, 2], 0);
        check(&index, &entries, &pages, &[]);
    }

    #[test]
    fn changed_bytes_are_refused_or_answer(
        entries in entries(), cells in 1u64..2000, changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (index, _) = build(&entries, cells, &[3, 7], 2);
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(index) = Cells::from_bytes(&bytes) {
            for entry in &entries {
                prop_assert!(index.find(place(entry)) < index.pages().max(1));
                let _ = index.split_pages(entry.0);
            }
            let mut again = Vec::new();
            index.to_bytes(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

/// Bits per key and the share of the places on pages that are filled, for `keys` hashed keys.
fn figures(keys: u64, per_page: usize) -> (f64, f64) {
    let mut entries: Vec<Entry> = (0..keys).map(|n| (mixed(n), mixed(!n), vec![])).collect();
    entries.sort_unstable();
    let cells = 64 * keys / per_page as u64;
    let (index, pages) = build(&entries, cells, &[per_page], per_page / 8 + 2);
    check(&index, &entries, &pages, &[]);
    let fill = keys as f64 / (f64::from(index.pages()) * per_page as f64);
    assert_eq!(index.splits(), 0);
    (index.memory_bytes() as f64 * 8.0 / keys as f64, fill)
}

#[test]
fn it_takes_a_quarter_of_a_bit_per_key() {
    let (bits, fill) = figures(400_000, 40);
    assert!(bits <= 0.25 && fill >= 0.99, "{bits:.3} bits per key at {fill:.4}");
    let (bits, fill) = figures(400_000, 16);
    assert!(bits <= 0.60 && fill >= 0.99, "{bits:.3} bits per key at {fill:.4}");
}

#[test]
fn groups_larger_than_a_page_take_less_than_a_bit_per_key() {
    // 128 keys a group and 35 a page, as in SlimDB's workload.
    for ordered in [false, true] {
        let suffix = |n: u64| if ordered { n } else { mixed(n) };
        let mut entries: Vec<Entry> = (0..2000u64)
            .flat_map(|g| (0..128).map(move |n| (mixed(g), suffix(n + g * 128), vec![])))
            .collect();
        entries.sort_unstable();
        let (index, pages) = build(&entries, 64 * entries.len() as u64 / 35, &[35], 1);
        check(&index, &entries, &pages, &[]);
        let bits = index.memory_bytes() as f64 * 8.0 / entries.len() as f64;
        let fill = entries.len() as f64 / (f64::from(index.pages()) * 35.0);
        assert!(bits <= 1.0 && fill >= 0.99, "{bits:.3} bits per key at {fill:.4}");
    }
}
