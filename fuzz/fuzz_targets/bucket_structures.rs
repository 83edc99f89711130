//! HashMarks, Bloom filters of buckets and shapes of Bloom clusters: arbitrary bytes are refused, or encode to themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use siltstone_succinct::buckets::hash_marks::HashMarks;
use siltstone_succinct::filter::bloom_cluster::ClusterShape;
use siltstone_succinct::filter::bucket_blooms::BucketBlooms;

fuzz_target!(|data: &[u8]| {
    let mut again = Vec::new();
    if let Ok(marks) = HashMarks::from_bytes(data) {
        let _ = (marks.target(0, 0), marks.target(data.len() as u32, u16::MAX));
        marks.to_bytes(&mut again);
        assert_eq!(again, data);
    }
    if let Ok(filters) = BucketBlooms::from_bytes(data) {
        let _ = (filters.may_contain(0, 1), filters.may_contain(filters.buckets() as u32, 1));
        again.clear();
        filters.to_bytes(&mut again);
        assert_eq!(again, data);
    }
    if let Ok(shape) = ClusterShape::from_bytes(data, 4088) {
        let place = shape.place(shape.columns() - 1);
        assert!(place.page + place.pages <= shape.pages());
        let _ = shape.candidates(data, 1);
        again.clear();
        shape.to_bytes(&mut again);
        assert_eq!(again, data);
    }
});
