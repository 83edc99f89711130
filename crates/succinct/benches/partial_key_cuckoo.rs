//! Partial-key cuckoo tables (SILT, SOSP 2011, Table 5): insertions one by one, lookups one by one and in
//! batches.
//!
//! The paper fills tables of 128 Ki entries until 126 million are in, and looks up 10 million of them; here
//! it is so many tables that they do not fit the cache: 64, unless `SILTSTONE_TABLES` says otherwise. Each
//! rate is the median of `SILTSTONE_REPEATS` (5) runs on one thread, by the seconds that it ran.

#![allow(clippy::indexing_slicing, reason = "a benchmark that goes wrong should stop")]

use std::hint::black_box;
use std::time::Instant;

use siltstone_succinct::index::partial_key_cuckoo::{
    Candidates, Form, HashFilter, MOST_BUCKETS_BY_TAG, PartialKeyCuckoo,
};

/// Well-mixed: the SplitMix64 finalizer.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Seconds that this thread has run, where the system tells (Linux): what neighbours take does not count.
fn thread_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_ascii_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

/// Millions of operations per second: the median over repeats.
fn rate<T>(operations: usize, repeats: u64, mut run: impl FnMut() -> T) -> f64 {
    let mut rates: Vec<f64> = (0..repeats)
        .map(|_| {
            let (start, thread_start) = (Instant::now(), thread_seconds());
            black_box(run());
            let clock = start.elapsed().as_secs_f64();
            let seconds = thread_start.zip(thread_seconds()).map_or(clock, |(from, to)| to - from);
            operations as f64 / seconds / 1e6
        })
        .collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// A table filled with keys from `first` on until one finds no room.
fn filled(form: Form, first: u64) -> PartialKeyCuckoo {
    let mut table = PartialKeyCuckoo::new(form, MOST_BUCKETS_BY_TAG);
    for number in 0..table.capacity() as u32 {
        if table.insert(mixed(first + u64::from(number)), number).is_err() {
            break;
        }
    }
    table
}

fn main() {
    let (tables, repeats) = (setting("SILTSTONE_TABLES", 64), setting("SILTSTONE_REPEATS", 5));
    for form in [Form::OtherBucket, Form::Mixed] {
        let all: Vec<PartialKeyCuckoo> = (0..tables).map(|table| filled(form, table << 32)).collect();
        let filters: Vec<HashFilter> = all.iter().map(PartialKeyCuckoo::filter).collect();
        let entries: usize = all.iter().map(PartialKeyCuckoo::len).sum();
        let lanes: usize = all.iter().map(PartialKeyCuckoo::capacity).sum();
        let insertions =
            rate(entries, repeats, || (0..tables).map(|t| filled(form, t << 32).len()).sum::<usize>());
        // Every table is asked for keys of its own, in an order that has nothing to do with the table's.
        let questions: Vec<u64> = (0..1u64 << 17).map(|n| mixed(n) % 110_000).collect();
        let ask = |table: u64| questions.iter().map(move |number| mixed((table << 32) + number));
        let singles = rate(questions.len() * all.len(), repeats, || {
            let tables = all.iter().zip(0..);
            tables
                .map(|(t, number)| ask(number).map(|hash| t.candidates(hash).len()).sum::<usize>())
                .sum::<usize>()
        });
        let mut found = vec![Candidates::default(); 1024];
        let hashes: Vec<Vec<u64>> = (0..tables).map(|table| ask(table).collect()).collect();
        let batches = rate(questions.len() * all.len(), repeats, || {
            for (table, hashes) in all.iter().zip(&hashes) {
                for hashes in hashes.chunks(1024) {
                    table.candidates_many(hashes, &mut found[..hashes.len()]);
                    black_box(&found);
                }
            }
        });
        let mut passed = vec![false; 1024];
        let filtering = rate(questions.len() * all.len(), repeats, || {
            for (filter, hashes) in filters.iter().zip(&hashes) {
                for hashes in hashes.chunks(1024) {
                    filter.may_contain_many(hashes, &mut passed[..hashes.len()]);
                    black_box(&passed);
                }
            }
        });
        println!(
            "{form:?}: {entries} keys in {tables} tables, {:.2} % of the lanes; insertions {insertions:.1} M/s; lookups \
             {singles:.1} M/s, in batches {batches:.1} M/s, of the filter alone {filtering:.1} M/s",
            100.0 * entries as f64 / lanes as f64
        );
    }
}
