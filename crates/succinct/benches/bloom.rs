//! Bloom lookups one by one and many at once, of members and of strangers, in and out of the cache; and
//! building.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use siltstone_succinct::filter::bloom::BloomBuilder;

const BITS_PER_KEY: f64 = 10.0;
/// Keys asked per iteration.
const QUESTIONS: usize = 1024;

/// Key number `number`, well-mixed: the SplitMix64 finalizer.
fn fingerprint(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("bloom");
    for (name, keys) in [("100K_keys", 100_000u64), ("50M_keys", 50_000_000)] {
        let mut builder = BloomBuilder::new(BITS_PER_KEY);
        builder.extend((0..keys).map(fingerprint));
        if keys < 1_000_000 {
            group.throughput(Throughput::Elements(keys));
            group.bench_function(BenchmarkId::new("finish", name), |b| {
                b.iter_batched(
                    || builder.clone(),
                    |builder| builder.finish(),
                    criterion::BatchSize::LargeInput,
                );
            });
        }
        let bloom = builder.finish();
        let absent = (keys..keys + 200_000).filter(|number| bloom.may_contain(fingerprint(*number))).count();
        let expected = bloom.expected_false_positive_rate(keys);
        eprintln!("{name}: false positives {:.4} %, formula {:.4} %", absent as f64 / 2e3, 100.0 * expected);

        group.throughput(Throughput::Elements(QUESTIONS as u64));
        for (kind, first, stride) in [("members", 0, keys / QUESTIONS as u64), ("strangers", keys, 1)] {
            // A fresh slice of keys each time, or the probed lines would be in the cache.
            let mut turn = 0u64;
            let mut questions = move || -> Vec<u64> {
                turn += 1;
                (0..QUESTIONS as u64)
                    .map(|number| fingerprint(first + (number * stride + turn * 7919) % keys))
                    .collect()
            };
            let mut again = questions;
            group.bench_function(BenchmarkId::new(format!("may_contain/{kind}"), name), |b| {
                b.iter_batched(
                    &mut questions,
                    |asked| asked.iter().filter(|key| bloom.may_contain(black_box(**key))).count(),
                    criterion::BatchSize::SmallInput,
                );
            });
            let mut found = vec![false; QUESTIONS];
            group.bench_function(BenchmarkId::new(format!("may_contain_many/{kind}"), name), |b| {
                b.iter_batched(
                    &mut again,
                    |asked| {
                        bloom.may_contain_many(black_box(&asked), &mut found);
                        found.iter().filter(|found| **found).count()
                    },
                    criterion::BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}
