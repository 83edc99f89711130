//! How fast the FAST'16 models are evaluated and optimised; docs/models.md quotes the figures.
//!
//! The paper: 6,613 evaluations a second for uniform and 211 for Zipf popularity of 10^8 keys; optimisation
//! 2.63 s and 79 s.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot start should say so")]

use criterion::{Criterion, criterion_group, criterion_main};
use siltstone_model::engines::leveldb::LevelDb;
use siltstone_model::optimize::Optimizer;
use siltstone_model::{Direct, Popularity, Primitives, Tabulated};
use std::hint::black_box;

const KEYS: u64 = 100_000_000;

fn primitives(c: &mut Criterion) {
    let zipf = Direct::new(&Popularity::zipf(KEYS, 0.99).unwrap());
    let table = Tabulated::new(&zipf);
    let mut group = c.benchmark_group("primitives");
    group.bench_function("group 10^8 Zipf keys", |b| {
        b.iter(|| Popularity::zipf(black_box(KEYS), 0.99).unwrap())
    });
    let popularity = Popularity::zipf(KEYS, 0.99).unwrap();
    group.bench_function("prepare", |b| b.iter(|| Direct::new(black_box(&popularity))));
    group.bench_function("tabulate", |b| b.iter(|| Tabulated::new(black_box(&zipf))));
    group.bench_function("unique", |b| b.iter(|| zipf.unique(black_box(1e6))));
    group.bench_function("unique inverse", |b| b.iter(|| zipf.unique_inverse(black_box(1e6))));
    group.bench_function("dinterval", |b| b.iter(|| zipf.dinterval(black_box(1e6))));
    group.bench_function("unique, tabulated", |b| b.iter(|| table.unique(black_box(1e6))));
    group.bench_function("unique inverse, tabulated", |b| b.iter(|| table.unique_inverse(black_box(1e6))));
    group.finish();
}

fn evaluation(c: &mut Criterion) {
    let engine = LevelDb::with_defaults(KEYS as f64, 1000.0).unwrap();
    let uniform = Direct::new(&Popularity::uniform(KEYS).unwrap());
    let zipf = Direct::new(&Popularity::zipf(KEYS, 0.99).unwrap());
    let table = Tabulated::new(&zipf);
    let mut group = c.benchmark_group("write amplification");
    group.bench_function("uniform", |b| {
        b.iter(|| engine.total_with(&uniform, black_box(&engine.level_sizes)))
    });
    group.bench_function("Zipf", |b| b.iter(|| engine.total_with(&zipf, black_box(&engine.level_sizes))));
    group.bench_function("Zipf, tabulated", |b| {
        b.iter(|| engine.total_with(&table, black_box(&engine.level_sizes)))
    });
    group.finish();
}

fn optimization(c: &mut Criterion) {
    let engine = LevelDb::with_defaults(KEYS as f64, 1000.0).unwrap();
    let mut group = c.benchmark_group("optimize level sizes");
    group.sample_size(10);
    for (name, skew) in [("uniform", 0.0), ("Zipf", 0.99)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let keys = Direct::new(&Popularity::zipf(KEYS, black_box(skew)).unwrap());
                Optimizer::new(&keys).level_sizes(&engine).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, primitives, evaluation, optimization);
criterion_main!(benches);
