//! Seconds that advice takes: the goal is two at 500 million items. How many designs it looks at, and what
//! the best one costs, is printed before.

#![allow(clippy::unwrap_used, reason = "a bench that finds nothing should fail")]

use criterion::{Criterion, criterion_group, criterion_main};
use siltstone_model::advise::{Request, advise};
use siltstone_model::price::{Mix, Sizes, ValueSize, Workload};

fn searches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("500 M items");
    group.sample_size(10);
    let points = Workload { items: 5e8, ..Workload::default() };
    let mix = Mix { hits: 0.3, misses: 0.5, scans: 0.0, puts: 0.2 };
    let size = |value_bytes: f64, share: f64| ValueSize { value_bytes, share };
    let sizes = Sizes::new(&[size(100.0, 9.0), size(20_000.0, 1.0)]).unwrap();
    let requests = [
        ("points", Request::new(points, 1 << 30)),
        ("points, little memory", Request::new(points, 128 << 20)),
        ("groups", Request::new(Workload { group_items: 128.0, ..points }, 1 << 30)),
        ("groups, overwritten", {
            Request::new(Workload { group_items: 64.0, overwrites: 2e9, ..points }, 2 << 30)
        }),
        ("skewed", Request::new(Workload { overwrites: 5e8, skew: 0.99, ..points }, 1 << 30)),
        (
            "uncertain",
            Request { uncertainty: Some(1.0), ..Request::new(Workload { mix, ..points }, 1 << 30) },
        ),
        ("values of two sizes", Request::new(Workload { sizes, ..points }, 1 << 30)),
        // A terabyte, of which each preset's write buffer is flushed hundreds of thousands of times.
        ("values of two sizes, skewed", {
            Request::new(Workload { sizes, overwrites: 5e8, skew: 0.99, ..points }, 1 << 30)
        }),
        ("growing tenfold", {
            Request::new(Workload { items: 5e7, items_at_end: Some(5e8), ..points }, 1 << 30)
        }),
    ];
    for (name, request) in requests {
        let advice = advise(&request).unwrap();
        println!("{name}: {} designs, {:.2} us an operation", advice.considered, advice.best.worst_cost);
        group.bench_function(name, |b| b.iter(|| advise(&request).unwrap()));
    }
}

criterion_group!(benches, searches);
criterion_main!(benches);
