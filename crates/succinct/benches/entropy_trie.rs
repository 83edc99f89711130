//! Building the entropy-coded trie, and asking it for ranks one by one and in batches, for 16 M uniform keys;
//! bits per key of all forms are printed. `SILTSTONE_BENCH_KEYS` sets another number of keys.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use siltstone_succinct::index::entropy_trie::{Code, EntropyTrie, Spec, TrieBuilder};

const QUESTIONS: usize = 1024;

/// Well-mixed: the SplitMix64 finalizer.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// About `count` keys as a hash would make them, ascending without being sorted: the gaps of uniform points
/// are exponentially distributed.
fn ascending(count: usize) -> impl Iterator<Item = u64> {
    let mean = 2f64.powi(64) / count as f64;
    (1..).scan(0u64, move |last, number| {
        let uniform = (mixed(number) >> 11) as f64 / 2f64.powi(53);
        *last = last.checked_add(1 + (-mean * (1.0 - uniform).ln()) as u64)?;
        Some(*last)
    })
}

/// Builds from a stream, so that no more than the trie need be in memory.
fn stream(spec: Spec, count: usize) -> EntropyTrie {
    let mut builder = TrieBuilder::new(spec, count, 0..=u64::MAX);
    ascending(count).for_each(|key| builder.push(key));
    builder.finish()
}

fn print_sizes(name: &str, trie: &EntropyTrie) {
    let mut bytes = Vec::new();
    trie.to_bytes(&mut bytes);
    let keys = trie.len() as f64;
    eprintln!(
        "{name}: {:.3} bits per key in memory, of these code {:.3}; {:.3} on disk; {} keys",
        trie.bits() as f64 / keys,
        trie.code_bits() as f64 / keys,
        bytes.len() as f64 * 8.0 / keys,
        trie.len(),
    );
}

fn bench(c: &mut Criterion) {
    let count =
        std::env::var("SILTSTONE_BENCH_KEYS").ok().and_then(|text| text.parse().ok()).unwrap_or(16 << 20);
    for code in [Code::Paper, Code::Strong, Code::Weak] {
        print_sizes(&format!("dense {code:?}"), &stream(Spec::dense(code), count));
        for block_keys in [4, 16, 64] {
            let trie = stream(Spec::sparse(code, block_keys), count);
            print_sizes(&format!("sparse {block_keys} {code:?}"), &trie);
        }
    }

    let keys: Vec<u64> = ascending(count).collect();
    let questions: Vec<u64> = (0..256 * QUESTIONS as u64)
        .filter_map(|number| keys.get(mixed(number) as usize % keys.len()).copied())
        .collect();
    let mut group = c.benchmark_group("entropy_trie");
    let specs = [("dense", Spec::dense(Code::Weak)), ("dense_strong", Spec::dense(Code::Strong))];
    for (name, spec) in specs.into_iter().chain([("sparse16", Spec::sparse(Code::Weak, 16))]) {
        group.sample_size(10).throughput(Throughput::Elements(keys.len() as u64));
        group.bench_function(BenchmarkId::new("build", name), |b| {
            b.iter(|| EntropyTrie::build(spec, black_box(&keys)));
        });
        let trie = EntropyTrie::build(spec, &keys);
        // New keys in each turn, so that neither caches nor the branch predictor can learn them.
        let mut turns = questions.chunks(QUESTIONS).cycle();
        group.sample_size(100).throughput(Throughput::Elements(QUESTIONS as u64));
        group.bench_function(BenchmarkId::new("rank", name), |b| {
            b.iter(|| {
                let asked = turns.next().unwrap_or_default();
                asked.iter().fold(0, |ranks, key| ranks ^ trie.rank(black_box(*key)))
            });
        });
        let mut ranks = Vec::new();
        group.bench_function(BenchmarkId::new("rank_batch", name), |b| {
            b.iter(|| trie.rank_batch(black_box(turns.next().unwrap_or_default()), &mut ranks));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}
