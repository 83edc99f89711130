//! Inserted items per second of the simulators: the goal is 10 million per core.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use siltstone_design::presets;
use siltstone_model::engines::sizes;
use siltstone_model::simulate::{Leveled, Protocol, Ranks, simulate_design};

const KEYS: u64 = 1_000_000;
const REQUESTS: u64 = 5_000_000;

fn leveled(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("leveldb");
    group.sample_size(10).throughput(Throughput::Elements(REQUESTS));
    let store = Leveled::leveldb(sizes::geometric(10_485.76, 10.0, KEYS as f64).unwrap(), 1000.0).unwrap();
    for (skew, miniature) in [(0.0, 1), (0.99, 1), (0.0, 10), (0.99, 10)] {
        let ranks = Ranks::zipf(KEYS, skew).unwrap();
        let protocol = Protocol { requests: REQUESTS, miniature, ..Protocol::paper(KEYS) };
        let name = BenchmarkId::new(format!("skew {skew}"), format!("1 key in {miniature}"));
        group.bench_function(name, |b| b.iter(|| store.simulate(&ranks, &protocol, &mut |_, _| {}).unwrap()));
    }
}

fn design(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("design");
    group.sample_size(10).throughput(Throughput::Elements(REQUESTS));
    for (name, design) in presets::all() {
        let ranks = Ranks::zipf(KEYS, 0.99).unwrap();
        let protocol = Protocol { requests: REQUESTS, ..Protocol::paper(KEYS) };
        group.bench_function(name, |b| {
            b.iter(|| simulate_design(&design, 1000.0, &ranks, &protocol, &mut |_, _| {}).unwrap());
        });
    }
}

criterion_group!(benches, leveled, design);
criterion_main!(benches);
