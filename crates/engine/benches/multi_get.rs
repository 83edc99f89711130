//! Fifty keys that are in memory: as fifty gets, and as one `multi_get`.

#![expect(clippy::unwrap_used, reason = "a benchmark that can't run should fail")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use siltstone::{Db, KeyspaceOptions, Options};
use std::hint::black_box;

/// Keys of one call.
const AT_ONCE: u64 = 50;

fn key(number: u64) -> [u8; 16] {
    let mixed =
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn warm(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fifty keys in memory");
    for items in [10_000u64, 1_000_000] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { memory_budget_bytes: 1 << 30, ..Options::default() };
        let db = Db::open(dir.path().join("db"), options).unwrap();
        let keyspace = db.create_keyspace("items", KeyspaceOptions::default()).unwrap();
        keyspace.add_many((0..items).map(|number| (key(number), [7u8; 100]))).unwrap();
        db.flush().unwrap();
        db.wait_until_idle().unwrap();
        (0..items).for_each(|number| assert!(keyspace.contains(key(number)).unwrap()));
        let mut next = 0;
        let mut keys = || {
            next += 1;
            let of = |at: u64| key((next * AT_ONCE + at).wrapping_mul(7919) % items);
            (0..AT_ONCE).map(of).collect::<Vec<_>>()
        };
        group.bench_function(BenchmarkId::new("get", items), |bencher| {
            bencher.iter(|| {
                keys().into_iter().map(|key| keyspace.get(black_box(key)).unwrap()).collect::<Vec<_>>()
            })
        });
        group.bench_function(BenchmarkId::new("multi_get", items), |bencher| {
            bencher.iter(|| keyspace.multi_get(black_box(&keys())).unwrap())
        });
        group.bench_function(BenchmarkId::new("get_with", items), |bencher| {
            bencher.iter(|| {
                let lengths =
                    keys().into_iter().map(|key| keyspace.get_with(black_box(key), <[u8]>::len).unwrap());
                lengths.flatten().sum::<usize>()
            })
        });
        group.bench_function(BenchmarkId::new("multi_get_with", items), |bencher| {
            bencher.iter(|| {
                let mut bytes = 0;
                keyspace.multi_get_with(black_box(&keys()), |_, value| bytes += value.len()).unwrap();
                bytes
            })
        });
    }
}

criterion_group!(benches, warm);
criterion_main!(benches);
