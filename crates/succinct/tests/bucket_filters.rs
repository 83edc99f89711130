//! Bloom filters of buckets and Bloom clusters against sets of keys, and their rates of false positives.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use proptest::prelude::*;
use siltstone_succinct::filter::bloom_cluster::{ClusterShape, MOST_ROWS, Row, RowBuilder, RowShape};
use siltstone_succinct::filter::bucket_blooms::{BucketBlooms, BucketBloomsBuilder};

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// `keys` random keys over `columns` columns.
fn row(seed: u64, keys: u64, columns: u32) -> (Row, Vec<(u32, u64)>) {
    let mut seed = seed;
    let mut all: Vec<(u32, u64)> =
        (0..keys).map(|_| ((random(&mut seed) % u64::from(columns)) as u32, random(&mut seed))).collect();
    all.sort_unstable();
    let mut builder = RowBuilder::new(columns, 16);
    all.iter().for_each(|&(column, key)| builder.insert(column, key));
    (builder.finish(), all)
}

/// The boxes of a cluster of `rows`, page after page.
fn pages(shape: &ClusterShape, rows: &[Row], page_bytes: usize) -> Vec<u8> {
    let mut out = vec![0; shape.pages() as usize * page_bytes];
    for column in 0..shape.columns() {
        let place = shape.place(column);
        let mut at = place.page as usize * page_bytes + place.offset;
        for row in rows {
            out[at..at + row.filter(column).len()].copy_from_slice(row.filter(column));
            at += row.filter(column).len();
        }
        assert!(at <= (place.page + place.pages) as usize * page_bytes, "a box leaves its pages");
    }
    out
}

#[test]
fn a_cluster_leads_to_every_key_and_seldom_elsewhere() {
    for (runs, page_bytes) in [(3, 4088), (32, 4088), (100, 4088), (100, 500)] {
        let columns = 300;
        let made: Vec<_> = (0..runs).map(|run| row(run, 32 * u64::from(columns), columns)).collect();
        let (rows, keys): (Vec<Row>, Vec<_>) = made.into_iter().unzip();
        let shape = ClusterShape::new(columns, rows.iter().map(Row::shape).collect(), page_bytes).unwrap();
        let bytes = pages(&shape, &rows, page_bytes);
        let mut strangers = (0u64, 0u64);
        for (run, keys) in keys.iter().enumerate() {
            for &(column, key) in keys {
                let place = shape.place(column);
                let from = place.page as usize * page_bytes + place.offset;
                let filters = &bytes[from..from + shape.box_bytes()];
                let found = shape.candidates(filters, key);
                assert!(found >> run & 1 == 1);
                assert!(rows[run].may_contain(column, key));
                strangers.0 += u64::from(found.count_ones()) - 1;
                strangers.1 += rows.len() as u64 - 1;
            }
        }
        // 16 bits a key promise 0.046 %; columns of equal width over a random number of keys cost some of it.
        let rate = strangers.0 as f64 / strangers.1 as f64;
        assert!(rate < 0.0012, "{runs} runs: {rate}");
    }
}

#[test]
fn filters_of_buckets_keep_the_rate_where_buckets_are_crowded() {
    let mut seed = 7;
    let mut builder = BucketBloomsBuilder::new(16);
    let buckets: Vec<Vec<u64>> =
        (0..2000).map(|bucket| (0..bucket % 70).map(|_| random(&mut seed)).collect()).collect();
    buckets.iter().for_each(|keys| builder.add_bucket(keys));
    let filters = builder.finish();
    let (mut passed, mut asked) = (0u64, 0u64);
    for (bucket, keys) in (0..).zip(&buckets) {
        assert!(keys.iter().all(|key| filters.may_contain(bucket, *key)));
        for _ in 0..100 {
            passed += u64::from(filters.may_contain(bucket, random(&mut seed)));
            asked += 1;
        }
    }
    assert!((passed as f64 / asked as f64) < 0.0012, "{passed} of {asked}");
    let keys: usize = buckets.iter().map(Vec::len).sum();
    assert!((filters.memory_bytes() as f64) < keys as f64 * 2.15, "bytes a key");
}

proptest! {
    #[test]
    fn filters_of_buckets_survive_their_bytes(
        buckets in proptest::collection::vec(proptest::collection::vec(any::<u64>(), 0..40), 0..40), bits in 0u8..70,
    ) {
        let mut builder = BucketBloomsBuilder::new(bits);
        buckets.iter().for_each(|keys| builder.add_bucket(keys));
        let mut bytes = Vec::new();
        builder.finish().to_bytes(&mut bytes);
        let filters = BucketBlooms::from_bytes(&bytes).unwrap();
        prop_assert_eq!(filters.buckets(), buckets.len());
        for (bucket, keys) in (0..).zip(&buckets) {
            prop_assert!(keys.iter().all(|key| filters.may_contain(bucket, *key)));
            prop_assert!(!keys.is_empty() || !filters.may_contain(bucket, 7));
        }
        prop_assert!(!filters.may_contain(buckets.len() as u32, 7));
        bytes.push(0);
        prop_assert!(BucketBlooms::from_bytes(&bytes).is_err());
    }

    #[test]
    fn nonsense_is_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..60), bucket: u32, key: u64) {
        if let Ok(filters) = BucketBlooms::from_bytes(&bytes) {
            let _ = filters.may_contain(bucket, key);
            let mut again = Vec::new();
            filters.to_bytes(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        if let Ok(shape) = ClusterShape::from_bytes(&bytes, 4088) {
            let place = shape.place(shape.columns() - 1);
            prop_assert!(place.page + place.pages <= shape.pages());
            let _ = shape.candidates(&bytes, key);
            let mut again = Vec::new();
            shape.to_bytes(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn boxes_neither_overlap_nor_leave_their_pages(
        columns in 1u32..500, widths in proptest::collection::vec(1u16..900, 0..20), page_bytes in 64usize..5000,
    ) {
        let rows = widths.iter().map(|&width| RowShape { hashes: 3, width }).collect();
        let shape = ClusterShape::new(columns, rows, page_bytes).unwrap();
        let mut end = 0;
        for column in 0..columns {
            let place = shape.place(column);
            let start = place.page as usize * page_bytes + place.offset;
            prop_assert!(start >= end);
            end = start + shape.box_bytes();
            prop_assert!(end <= (place.page + place.pages) as usize * page_bytes);
            prop_assert!(place.page + place.pages <= shape.pages());
        }
        let too_many = vec![RowShape { hashes: 1, width: 1 }; MOST_ROWS + 1];
        prop_assert!(ClusterShape::new(1, too_many, 4088).is_none());
    }
}
