//! Rank, select and field reads, in a vector that fits the cache and in one that does not.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use siltstone_succinct::bits::rank_select::RankSelect;
use siltstone_succinct::bits::vector::BitVecBuilder;

/// Questions per iteration, at places that a linear congruential generator scatters.
const QUESTIONS: usize = 1024;

fn scattered(below: usize) -> Vec<usize> {
    let mut state = 1u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * below as u128) >> 64) as usize
    })
    .take(QUESTIONS)
    .collect()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("bits");
    group.throughput(Throughput::Elements(QUESTIONS as u64));
    for (name, bits) in [("128KiB", 1usize << 20), ("64MiB", 1 << 29)] {
        let mut builder = BitVecBuilder::with_capacity(bits);
        for word in 0..bits as u64 / 64 {
            // About half the bits are ones.
            builder.push_bits(word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(word as u32), 64);
        }
        let ranked = RankSelect::new(builder.finish());
        let overhead = ranked.memory_bytes() as f64 / ranked.bits().memory_bytes() as f64 - 1.0;
        eprintln!("{name}: overhead of rank and select {:.2} %", 100.0 * overhead);
        let positions = scattered(bits - 64);
        group.bench_function(BenchmarkId::new("get_bits(17)", name), |b| {
            b.iter(|| {
                positions.iter().filter_map(|at| ranked.bits().get_bits(*at, 17)).fold(0, |a, v| a ^ v)
            });
        });
        group.bench_function(BenchmarkId::new("rank1", name), |b| {
            b.iter(|| positions.iter().map(|at| ranked.rank1(black_box(*at))).fold(0, |a, v| a ^ v));
        });
        let ranks = scattered(ranked.count_ones());
        group.bench_function(BenchmarkId::new("select1", name), |b| {
            b.iter(|| ranks.iter().filter_map(|rank| ranked.select1(black_box(*rank))).fold(0, |a, v| a ^ v));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}
