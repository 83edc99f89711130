//! The maplet over eight runs: size, rate, adding the eighth run, one lookup after the other, and batches.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use siltstone_succinct::filter::maplet::Maplet;

const QUESTIONS: usize = 1024;

/// Key number `number`, well-mixed: the SplitMix64 finalizer.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn run(slot: u64, keys: u64) -> Vec<u64> {
    (slot * keys..(slot + 1) * keys).map(mixed).collect()
}

fn sorted(mut run: Vec<u64>) -> Vec<u64> {
    run.sort_unstable();
    run
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("maplet");
    group.sample_size(10);
    // In the cache, and beyond it.
    for (keys, bits) in [(120_000u64, 28u8), (2_000_000, 32), (2_000_000, 34)] {
        let total = 8 * keys;
        let name = format!("{total} entries, {bits} bits");
        let seven = (0..7).fold(Maplet::new(bits, 3), |maplet, slot| {
            maplet.with_run(slot as u8, 64, &sorted(run(slot, keys)))
        });
        let eighth = run(7, keys);
        let maplet = seven.with_run(7, 64, &sorted(eighth.clone()));
        let wrong: u32 = (0..1_000_000u64).map(|n| maplet.lookup(mixed(!n)).count_ones()).sum();
        eprintln!(
            "{name}: {:.3} bits per entry, {:.4} % false probes",
            maplet.memory_bytes() as f64 * 8.0 / total as f64,
            f64::from(wrong) / 1e4
        );
        group.throughput(Throughput::Elements(total));
        group.bench_function(BenchmarkId::new("sort and add the eighth run", &name), |b| {
            b.iter(|| seven.with_run(7, 64, &sorted(black_box(&eighth).clone())));
        });
        group.throughput(Throughput::Elements(QUESTIONS as u64));
        let mut seed = 0u64;
        group.bench_function(BenchmarkId::new("lookup, each after the other", &name), |b| {
            b.iter(|| {
                for number in 0..QUESTIONS as u64 {
                    // The next question waits for the answer to this one.
                    seed = mixed((seed ^ number ^ maplet.lookup(mixed(seed))) % (2 * total));
                }
                seed
            });
        });
        let questions: Vec<u64> =
            (0..256 * QUESTIONS as u64).map(|n| mixed(mixed(n) % (2 * total))).collect();
        let mut turns = questions.chunks(QUESTIONS).cycle();
        let mut slots = vec![0; QUESTIONS];
        group.bench_function(BenchmarkId::new("lookup_many", &name), |b| {
            b.iter(|| {
                maplet.lookup_many(turns.next().unwrap_or_default(), &mut slots);
                black_box(&mut slots);
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}
