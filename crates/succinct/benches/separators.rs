//! Finding a page, decoding and building, for 16-byte digests and for 24-byte keys with a long common prefix.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use siltstone_succinct::index::separators::{Separators, SeparatorsBuilder};

const PAGES: usize = 8192;
const KEYS_PER_PAGE: usize = 32;
const QUESTIONS: usize = 1024;

/// Key number `number`, well-mixed: the SplitMix64 finalizer.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn digest(number: u64) -> Vec<u8> {
    [mixed(number).to_be_bytes(), mixed(!number).to_be_bytes()].concat()
}

fn prefixed(number: u64) -> Vec<u8> {
    format!("tenant42/obj/{:011}", mixed(number) % 100_000_000_000).into_bytes()
}

fn build(keys: &[Vec<u8>]) -> Separators {
    let mut builder = SeparatorsBuilder::new();
    for page in keys.chunks(KEYS_PER_PAGE) {
        if let (Some(first), Some(last)) = (page.first(), page.last()) {
            builder.add_page(first, last);
        }
    }
    builder.finish()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("separators");
    type Key = fn(u64) -> Vec<u8>;
    for (name, key) in [("digest16", digest as Key), ("prefixed24", prefixed)] {
        let mut keys: Vec<Vec<u8>> = (0..(PAGES * KEYS_PER_PAGE) as u64).map(key).collect();
        keys.sort_unstable();
        let index = build(&keys);
        let per_page = index.memory_bytes() as f64 / PAGES as f64;
        eprintln!(
            "{name}: {per_page:.2} bytes per page, {:.2} bits per key at {KEYS_PER_PAGE} keys per page",
            per_page * 8.0 / KEYS_PER_PAGE as f64
        );

        // New keys in each turn, so that the branch predictor can't learn the way.
        let questions: Vec<Vec<u8>> = (0..64 * QUESTIONS as u64).map(|number| key(number * 3)).collect();
        let mut turns = questions.chunks(QUESTIONS).cycle();
        group.throughput(Throughput::Elements(QUESTIONS as u64));
        group.bench_function(BenchmarkId::new("find", name), |b| {
            b.iter(|| {
                let asked = turns.next().unwrap_or_default();
                asked.iter().fold(0, |pages, key| pages ^ index.find(black_box(key)))
            });
        });

        let mut bytes = Vec::new();
        index.to_bytes(&mut bytes);
        group.throughput(Throughput::Elements(PAGES as u64));
        group.bench_function(BenchmarkId::new("from_bytes", name), |b| {
            b.iter(|| Separators::from_bytes(black_box(&bytes)));
        });
        group.bench_function(BenchmarkId::new("build", name), |b| b.iter(|| build(black_box(&keys))));
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}
