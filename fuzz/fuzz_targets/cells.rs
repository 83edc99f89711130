//! `Cells` against the table it is built over, and as decoded from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::index::cells::{Cells, CellsBuilder, Place};

fuzz_target!(|data: &[u8]| {
    if let Ok(index) = Cells::from_bytes(data) {
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        assert_eq!(bytes, data);
        for chunk in data.chunks(20) {
            let mut digest = [0; 16];
            digest.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            let (hi, lo) = (u128::from_be_bytes(digest) >> 64, u128::from_be_bytes(digest));
            let place = Place { hi: hi as u64, lo: lo as u64, key: chunk };
            assert!(index.find(place) < index.pages().max(1));
            if let Some(pages) = index.split_pages(place.hi) {
                assert!(pages.contains(&index.find(place)));
            }
        }
    }

    // The same bytes as entries: two bytes for each digest half, the rest the key; a page ends after some of them.
    let Some((&cells, data)) = data.split_first() else { return };
    let half = |bytes: &[u8]| bytes.iter().fold(0u64, |half, byte| half << 8 | u64::from(*byte)) << 48;
    let mut entries: Vec<(u64, u64, &[u8])> = data
        .split(|byte| *byte == b'\n')
        .filter(|line| line.len() >= 4)
        .map(|line| (half(&line[..2]), half(&line[2..4]), &line[4..]))
        .collect();
    entries.sort_unstable();
    entries.dedup();
    let mut builder = CellsBuilder::new(1 << (cells % 64));
    let mut pages = Vec::new();
    let (mut page, mut on_page, mut cell_at) = (0u32, 0, 0);
    for (at, &(hi, lo, key)) in entries.iter().enumerate() {
        let begins_cell = builder.begins_cell(hi);
        if on_page > 0 && (key.len() + on_page) % 3 == 0 {
            page += 1;
            let back = at - cell_at;
            if !begins_cell && back < on_page {
                builder.end_page_before_cell();
                pages[cell_at..].fill(page);
                on_page = back;
            } else {
                builder.end_page();
                on_page = 0;
            }
        }
        if begins_cell {
            cell_at = at;
        }
        let before: &[u8] = at.checked_sub(1).map_or(&[], |before| entries[before].2);
        builder.push(Place { hi, lo, key }, before.iter().zip(key).take_while(|(a, b)| a == b).count());
        pages.push(page);
        on_page += 1;
    }
    let index = builder.finish();
    for (&(hi, lo, key), page) in entries.iter().zip(&pages) {
        assert_eq!(index.find(Place { hi, lo, key }), *page);
    }
    let mut bytes = Vec::new();
    index.to_bytes(&mut bytes);
    assert_eq!(Cells::from_bytes(&bytes), Ok(index));
});
