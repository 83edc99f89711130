//! The cell index over hashed keys, 40 and 16 to a page: size, fill, building, one lookup after the other,
//! and batches.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use siltstone_succinct::index::cells::{Cells, CellsBuilder, Place};

const QUESTIONS: usize = 1024;

/// Key number `number`, well-mixed: the SplitMix64 finalizer.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn at(hi: u64) -> Place<'static> {
    Place { hi, lo: 0, key: b"" }
}

/// Fills pages of `per_page` entries, or a few fewer to end with a cell.
fn build(keys: &[u64], per_page: usize) -> Cells {
    let mut builder = CellsBuilder::new((64 * keys.len() / per_page) as u64);
    let (mut on_page, mut in_cell) = (0, 0);
    for hi in keys {
        if on_page == per_page {
            if builder.begins_cell(*hi) || in_cell == on_page {
                builder.end_page();
                on_page = 0;
            } else {
                builder.end_page_before_cell();
                on_page = in_cell;
            }
        }
        in_cell = if builder.begins_cell(*hi) { 1 } else { in_cell + 1 };
        on_page += 1;
        builder.push(at(*hi), 0);
    }
    builder.finish()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("cells");
    group.sample_size(20);
    for (keys, per_page) in [(1usize << 24, 40), (1 << 24, 16)] {
        let name = format!("{per_page} per page");
        let mut sorted: Vec<u64> = (0..keys as u64).map(mixed).collect();
        sorted.sort_unstable();
        let index = build(&sorted, per_page);
        eprintln!(
            "{name}: {:.4} bits per key, pages {:.2} % full",
            index.memory_bytes() as f64 * 8.0 / keys as f64,
            100.0 * keys as f64 / (f64::from(index.pages()) * per_page as f64)
        );
        group.throughput(Throughput::Elements(keys as u64));
        group.bench_function(BenchmarkId::new("build", &name), |b| {
            b.iter(|| build(black_box(&sorted), per_page));
        });
        group.throughput(Throughput::Elements(QUESTIONS as u64));
        let mut seed = 0u64;
        group.bench_function(BenchmarkId::new("find, each after the other", &name), |b| {
            b.iter(|| {
                for number in 0..QUESTIONS as u64 {
                    // The next question waits for the answer to this one.
                    seed = mixed(seed ^ number ^ u64::from(index.find(at(seed))));
                }
                seed
            });
        });
        let questions: Vec<Place> = (0..256 * QUESTIONS as u64).map(|n| at(mixed(!n))).collect();
        let mut turns = questions.chunks(QUESTIONS).cycle();
        let mut pages = vec![0; QUESTIONS];
        group.bench_function(BenchmarkId::new("find_many", &name), |b| {
            b.iter(|| {
                index.find_many(turns.next().unwrap_or_default(), &mut pages);
                black_box(&mut pages);
            });
        });
        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("from_bytes", &name), |b| {
            b.iter(|| Cells::from_bytes(black_box(&bytes)));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}
