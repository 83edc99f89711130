//! Rank, select and field reads, in a vector that fits the cache and in one that does not.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use siltstone_succinct::bits::rank_select::RankSelect;
use siltstone_succinct::bits::vector::BitVecBuilder;

/// Questions per iteration.
const QUESTIONS: usize = 1024;
/// Iterations until the questions come again: together they touch more lines than the cache holds.
const TURNS: usize = 1024;

/// Numbers below `below`, scattered by a linear congruential generator.
fn scattered(below: usize) -> Vec<usize> {
    let mut state = 1u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * below as u128) >> 64) as usize
    })
    .take(TURNS * QUESTIONS)
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
        let ranks = scattered(ranked.count_ones());
        type Ask = fn(&RankSelect, usize) -> Option<usize>;
        let questions: [(&str, &[usize], Ask); 3] = [
            ("get_bits(17)", &positions, |ranked, at| {
                ranked.bits().get_bits(at, 17).map(|value| value as usize)
            }),
            ("rank1", &positions, |ranked, at| Some(ranked.rank1(at))),
            ("select1", &ranks, |ranked, rank| ranked.select1(rank)),
        ];
        for (question, places, ask) in questions {
            let mut turns = places.chunks(QUESTIONS).cycle();
            group.bench_function(BenchmarkId::new(question, name), |b| {
                b.iter(|| {
                    let places = turns.next().unwrap_or_default();
                    places.iter().filter_map(|place| ask(black_box(&ranked), *place)).fold(0, |a, v| a ^ v)
                });
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
