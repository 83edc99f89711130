//! Spreads, migrations and HashMarks against naive twins, and the counts that the migration is judged by.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use proptest::prelude::*;
use siltstone_succinct::buckets::greedy::{self, Outcome};
use siltstone_succinct::buckets::hash_marks::{HashMarks, HashMarksBuilder};
use siltstone_succinct::buckets::migration::{Item, Migration, Page, Parcel};
use siltstone_succinct::buckets::spread::Spread;

/// What holds of every plan: all fits, and marks ascend.
fn check(items: &[Item], buckets: u32, page: Page, plan: &Migration) {
    let mut used = vec![0u64; buckets as usize];
    let mut moved = 0;
    for item in items {
        let at = plan.target(item.bucket, item.order).unwrap_or(item.bucket);
        used[at as usize] += u64::from(item.bytes);
        moved += u64::from(at != item.bucket);
    }
    assert_eq!(moved, plan.moved());
    for bucket in 0..buckets {
        let parcels = plan.parcels(bucket);
        let notes = u64::from(page.note_bytes) * parcels.len() as u64;
        assert!(used[bucket as usize] + notes <= u64::from(page.capacity), "bucket {bucket} overflows");
        assert!(parcels.windows(2).all(|pair| pair[0].mark < pair[1].mark));
        assert!(parcels.iter().all(|parcel| (parcel.items > 0) == (parcel.target != bucket)));
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

const PAGE: Page = Page { capacity: 4086, note_bytes: 4 };

/// Items of sizes that `size` draws, by bucket, whose bytes fill `fill` of the pages.
fn table(seed: u64, buckets: u32, fill: f64, size: impl Fn(u64) -> u32, order_bits: u32) -> Vec<Item> {
    let mut seed = seed;
    let (mut items, mut left) = (Vec::new(), (f64::from(buckets) * 4096.0 * fill) as i64);
    loop {
        let bytes = size(random(&mut seed));
        left -= i64::from(bytes);
        if left < 0 {
            break;
        }
        let bucket = ((u64::from(buckets) * (random(&mut seed) >> 32)) >> 32) as u32;
        items.push(Item { bucket, order: (random(&mut seed) >> (64 - order_bits)) as u32, bytes });
    }
    items.sort_by_key(|item| item.bucket);
    items
}

fn fixed(_: u64) -> u32 {
    118
}

/// Sizes from 30 to 2048 bytes, most of them small: a lognormal curve cut off at half a page.
fn lognormal(random: u64) -> u32 {
    let normal: f64 =
        (0..8).map(|part| f64::from((random >> (part * 8)) as u8) / 255.0 - 0.5).sum::<f64>() * 1.22;
    (150.0 * normal.exp()).clamp(30.0, 2048.0) as u32
}

#[test]
fn the_migration_fills_pages_further_than_the_greedy_form() {
    type Size = fn(u64) -> u32;
    let sizes: [(&str, Size, f64); 2] = [("fixed", fixed, 0.97), ("lognormal", lognormal, 0.95)];
    for (name, size, fill) in sizes {
        for seed in 0..8 {
            let items = table(seed, 256, fill, size, 16);
            let plan = Migration::plan(&items, 256, PAGE);
            let plan = plan.unwrap_or_else(|| panic!("{name}, seed {seed}: no plan at {fill}"));
            check(&items, 256, PAGE, &plan);
        }
    }
    // The published table's shape, and its fill after a merge.
    for (name, size, _) in sizes {
        let items = table(1, 8191, 0.935, size, 32);
        let Outcome { fits, moved, most_steps } = greedy::migrate(&items, 8191, PAGE);
        let plan = Migration::plan(&items, 8191, PAGE).unwrap();
        check(&items, 8191, PAGE, &plan);
        let share = |moved: u64| moved as f64 / items.len() as f64;
        assert!(fits == (name == "fixed") && most_steps >= 1, "{name}");
        // Items of many sizes move more often, since ends that leave no splinters are preferred.
        let most = if name == "fixed" { share(moved) * 1.05 } else { 0.14 };
        assert!(share(plan.moved()) <= most, "{name}: {} against {}", share(plan.moved()), share(moved));
    }
    // The greedy form gives up where the other does not.
    let items = table(2, 8191, 0.95, lognormal, 32);
    assert!(!greedy::migrate(&items, 8191, PAGE).fits);
    check(&items, 8191, PAGE, &Migration::plan(&items, 8191, PAGE).unwrap());
}

#[test]
fn marks_of_the_largest_givers_cover_most_items() {
    let items = table(3, 8192, 0.96, fixed, 16);
    let plan = Migration::plan(&items, 8192, PAGE).unwrap();
    let mut builder = HashMarksBuilder::default();
    for bucket in 0..8192 {
        let own = items.iter().filter(|item| item.bucket == bucket).count() as u64;
        builder.add_bucket(own, plan.parcels(bucket));
    }
    let marks = builder.finish(0.005, 1.0);
    let two_reads = items.iter().filter(|item| {
        let away = plan.target(item.bucket, item.order);
        let known = marks.target(item.bucket, item.order as u16);
        assert!(known.is_none() || known.map(u32::from) == away);
        away.is_some() && known.is_none()
    });
    assert!(two_reads.count() as f64 <= 0.005 * items.len() as f64);
    // 0.4 MB per GB of pages is 1.6 bytes a page.
    let mut bytes = Vec::new();
    marks.to_bytes(&mut bytes);
    assert!((bytes.len() as f64) < 1.5 * 8192.0, "{} bytes for 8192 pages", bytes.len());
    assert_eq!(marks.len(), HashMarks::from_bytes(&bytes).unwrap().len());
}

proptest! {
    #[test]
    fn every_plan_fits(
        sizes in proptest::collection::vec((0u32..8, 0u32..20, 1u32..60), 0..60), capacity in 40u32..400,
    ) {
        let mut items: Vec<Item> =
            sizes.into_iter().map(|(bucket, order, bytes)| Item { bucket, order, bytes }).collect();
        items.sort_by_key(|item| item.bucket);
        let page = Page { capacity, note_bytes: 4 };
        if let Some(plan) = Migration::plan(&items, 8, page) {
            check(&items, 8, page, &plan);
        } else {
            // Four items of one bucket at most, of a quarter page or less, always find a place in pages half
            // empty.
            let total: u32 = items.iter().map(|item| item.bytes).sum();
            let together = |a: &Item| {
                let same = items.iter().filter(|b| (a.bucket, a.order) == (b.bucket, b.order));
                same.map(|item| item.bytes).sum::<u32>()
            };
            let largest = items.iter().map(together).max();
            let has_room = total * 2 <= capacity * 8 && largest.unwrap_or(0) * 4 <= capacity;
            prop_assert!(!has_room || items.len() > 16);
        }
    }

    #[test]
    fn spreads_rise_and_are_even(first in any::<u64>(), span in any::<u64>(), buckets in 1u32..70_000, at in any::<u64>()) {
        let last = first.saturating_add(span);
        let spread = Spread::new(first, last, buckets);
        prop_assert_eq!(spread.bucket(first), 0);
        prop_assert_eq!(spread.bucket(0), 0);
        let place = first + at % (last - first).saturating_add(1).max(1);
        let exact = (u128::from(place - first) * u128::from(buckets) / (u128::from(last - first) + 1)) as u32;
        prop_assert!(spread.bucket(place).abs_diff(exact) <= 1);
        prop_assert!(spread.bucket(place) <= spread.bucket(last) && spread.bucket(u64::MAX) < buckets);
    }

    #[test]
    fn marks_survive_their_bytes(parcels in proptest::collection::vec((0u32..4, any::<u16>(), any::<u16>(), 1u32..9), 0..200)) {
        let mut builder = HashMarksBuilder::default();
        for &(count, mark, target, items) in &parcels {
            let mark = u32::from(mark);
            let all: Vec<Parcel> = (0..count)
                .map(|n| Parcel { mark: mark / 4 + n, target: u32::from(target), items })
                .collect();
            builder.add_bucket(10, &all);
        }
        let marks = builder.finish(0.0, 1.0);
        let mut bytes = Vec::new();
        marks.to_bytes(&mut bytes);
        let read = HashMarks::from_bytes(&bytes).unwrap();
        for (bucket, &(count, mark, target, _)) in (0..).zip(&parcels) {
            let last = (count > 0).then(|| u32::from(mark) / 4 + count - 1);
            for order in [0, mark / 4, mark, u16::MAX] {
                let expected = last.filter(|last| *last <= u32::from(order)).map(|_| target);
                prop_assert_eq!(read.target(bucket, order), expected);
            }
        }
        prop_assert_eq!(read.target(parcels.len() as u32, 0), None);
        bytes.pop();
        prop_assert!(HashMarks::from_bytes(&bytes).is_err());
    }

    #[test]
    fn bytes_that_are_no_marks_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120), bucket: u32, order: u16) {
        if let Ok(marks) = HashMarks::from_bytes(&bytes) {
            let _ = marks.target(bucket, order);
            let mut again = Vec::new();
            marks.to_bytes(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}
