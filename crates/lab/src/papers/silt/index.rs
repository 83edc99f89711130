//! Table 5: the indexes by themselves, in memory; and what §3 says of their sizes.
//!
//! Rates are by processor time of the threads that work, medians of several turns, since others may be at
//! work on the machine.

use super::Args;
use crate::kit::generate::mix;
use crate::kit::sizes::count;
use crate::measure::thread_seconds;
use crate::papers::evaluation::Results;
use crate::program::output::note;
use siltstone_succinct::index::entropy_trie::{Code, EntropyTrie, Spec};
use siltstone_succinct::index::partial_key_cuckoo::{
    Candidates, Form, LANES, MOST_BUCKETS_BY_TAG, PartialKeyCuckoo,
};
use std::hint::black_box;

/// Lookups of each kind; the paper has 10 million.
const LOOKUPS: usize = 4 << 20;
/// Keys asked at once.
const BATCH: usize = 1024;
/// Threads that ask the same index at once.
const THREADS: usize = 2;

/// Turns of which the median counts.
const TURNS: usize = 5;

/// Thousands per second of processor time of `count` things done in each turn of `run`, which returns how
/// many seconds that took.
fn median(count: usize, run: impl FnMut(usize) -> f64) -> f64 {
    let mut seconds: Vec<f64> = (0..TURNS).map(run).collect();
    seconds.sort_unstable_by(f64::total_cmp);
    count as f64 / seconds.get(TURNS / 2).copied().unwrap_or(f64::NAN) / 1e3
}

/// What `run` makes, and the thousands per second of this thread's processor time of the `count` things it
/// does for that.
fn rate<T>(count: usize, mut run: impl FnMut() -> T) -> (f64, Option<T>) {
    let mut made = None;
    let rate = median(count, |_| {
        drop(made.take());
        let started = thread_seconds();
        made = Some(black_box(run()));
        thread_seconds() - started
    });
    (rate, made)
}

/// The same per thread, where [`THREADS`] do `run` at once, each with its number.
fn rate_together(count: usize, run: impl Fn(usize) + Sync) -> f64 {
    median(count, |_| {
        std::thread::scope(|scope| {
            let started = (0..THREADS).map(|number| {
                let run = &run;
                scope.spawn(move || {
                    let started = thread_seconds();
                    run(number);
                    thread_seconds() - started
                })
            });
            let threads: Vec<_> = started.collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).sum()
        })
    })
}

/// A table of the paper's size, filled from key number `first` on until an insertion fails.
fn table(first: u64) -> PartialKeyCuckoo {
    let mut table = PartialKeyCuckoo::new(Form::OtherBucket, MOST_BUCKETS_BY_TAG);
    let mut number = 0;
    while table.insert(mix(first + u64::from(number)), number).is_ok() {
        number += 1;
    }
    table
}

pub fn run(args: &Args, results: &mut Results) {
    for keys in args.keys() {
        indexes(keys, results);
    }
}

/// Both indexes over so many keys.
fn indexes(keys: usize, results: &mut Results) {
    note!("table 5: {keys} keys in partial-key cuckoo tables and in tries");
    let cuckoo = cuckoo(keys);
    if let Some(trie) = trie(keys) {
        show(keys, &cuckoo, &trie, results);
    }
}

/// Thousands per second of a thread: keys put in, and asked for one by one, in batches, and in batches by
/// several threads at once.
struct Rates {
    insertions: f64,
    single: f64,
    at_once: f64,
    together: f64,
}

/// What partial-key cuckoo tables gave.
struct Cuckoo {
    rates: Rates,
    entries: usize,
    lanes: usize,
    false_positives: usize,
}

/// What a trie gave, and its bits per key: as it is, in the paper's code, and pruned.
struct Trie {
    rates: Rates,
    bits: f64,
    paper_bits: f64,
    pruned_bits: f64,
}

/// Partial-key cuckoo tables of the paper's size, filled until they are full.
fn cuckoo(keys: usize) -> Cuckoo {
    let tables = keys / (LANES * MOST_BUCKETS_BY_TAG as usize);
    let first = |table: usize| (table as u64) << 32;
    let lanes = tables * LANES * MOST_BUCKETS_BY_TAG as usize;
    let (insertions, cuckoo) =
        rate(lanes, || (0..tables).map(|number| table(first(number))).collect::<Vec<_>>());
    let cuckoo = cuckoo.unwrap_or_default();
    let entries: usize = cuckoo.iter().map(PartialKeyCuckoo::len).sum();
    let asked = LOOKUPS / tables.max(1);
    let questions: Vec<Vec<u64>> = (0..tables)
        .map(|number| (0..asked).map(|n| mix(first(number) + mix(n as u64) % 110_000)).collect())
        .collect();
    // Every table in turn, so that none stays in a near cache.
    let (single, _) = rate(asked * tables, || {
        let all =
            (0..asked).flat_map(|n| cuckoo.iter().zip(&questions).map(move |(t, keys)| (t, keys.get(n))));
        all.filter_map(|(table, key)| Some(table.candidates(*key?).len())).sum::<usize>()
    });
    let batched = |number: usize, of: usize| {
        let mut found = vec![Candidates::default(); BATCH];
        for batch in 0..asked.div_ceil(BATCH) {
            for (table, keys) in cuckoo.iter().zip(&questions).skip(number).step_by(of) {
                let keys = keys.chunks(BATCH).nth(batch).unwrap_or_default();
                let found = found.get_mut(..keys.len()).unwrap_or_default();
                table.candidates_many(keys, found);
                black_box(found);
            }
        }
    };
    let (at_once, _) = rate(asked * tables, || batched(0, 1));
    let together = rate_together(asked * tables, |number| batched(number, THREADS));
    let strangers = (0..LOOKUPS as u64).map(|n| mix(1 << 60 | n));
    let false_positives: usize = match cuckoo.first() {
        Some(table) => strangers.map(|key| table.candidates(key).len()).sum(),
        None => 0,
    };
    let insertions = insertions * entries as f64 / lanes as f64;
    Cuckoo { rates: Rates { insertions, single, at_once, together }, entries, lanes, false_positives }
}

/// A trie of so many keys.
fn trie(keys: usize) -> Option<Trie> {
    let mut sorted: Vec<u64> = (0..keys as u64).map(mix).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let (insertions, trie) = rate(sorted.len(), || EntropyTrie::build(Spec::dense(Code::Weak), &sorted));
    let trie = trie?;
    let bits = |trie: &EntropyTrie| trie.bits() as f64 / trie.len().max(1) as f64;
    let paper_bits = bits(&EntropyTrie::build(Spec::dense(Code::Paper), &sorted));
    let pruned_bits = bits(&EntropyTrie::build(Spec::sparse(Code::Weak, 4), &sorted));
    drop(sorted);
    let questions: Vec<u64> = (0..LOOKUPS as u64).map(|n| mix(mix(n) % keys as u64)).collect();
    let (single, _) = rate(LOOKUPS, || questions.iter().map(|key| trie.rank(*key)).sum::<usize>());
    let batched = |number: usize, of: usize| {
        let mut answers = Vec::new();
        for keys in questions.chunks(BATCH).skip(number).step_by(of) {
            trie.rank_batch(keys, &mut answers);
            black_box(&answers);
        }
    };
    let (at_once, _) = rate(LOOKUPS, || batched(0, 1));
    let together = rate_together(LOOKUPS, |number| batched(number, THREADS));
    let rates = Rates { insertions, single, at_once, together };
    Some(Trie { rates, bits: bits(&trie), paper_bits, pruned_bits })
}

fn show(keys: usize, cuckoo: &Cuckoo, trie: &Trie, results: &mut Results) {
    let both = |of: fn(&Rates) -> f64| vec![of(&cuckoo.rates), of(&trie.rates)];
    let columns = ["partial-key cuckoo", "trie"].map(str::to_owned);
    let rows = vec![
        (
            "insertion, one by one; in bulk".to_owned(),
            both(|rates| rates.insertions),
            vec![Some(10_182.0), Some(7_603.0)],
        ),
        ("lookup".to_owned(), both(|rates| rates.single), vec![Some(1_840.0), Some(208.0)]),
        (format!("lookup, {BATCH} at once"), both(|rates| rates.at_once), Vec::new()),
        (
            format!("lookup, {BATCH} at once, by {THREADS} threads, each"),
            both(|rates| rates.together),
            Vec::new(),
        ),
    ];
    let title = format!(
        "indexes in memory, {} keys, by processor time, medians of {TURNS} turns",
        count(keys as u64)
    );
    results.add("Table 5", &title, "thousand/s", &columns, &rows);
    let (entries, lanes) = (cuckoo.entries as f64, cuckoo.lanes as f64);
    let columns = ["ours".to_owned()];
    let rows = vec![
        ("occupancy at the first failure, %".to_owned(), vec![100.0 * entries / lanes], vec![Some(93.0)]),
        (
            "false positives, %".to_owned(),
            vec![100.0 * cuckoo.false_positives as f64 / LOOKUPS as f64],
            vec![Some(0.024)],
        ),
        (
            "log store's index, bytes per key".to_owned(),
            vec![6.0 * lanes / entries.max(1.0)],
            vec![Some(6.5)],
        ),
        ("hash filter, bits per key".to_owned(), vec![16.0 * lanes / entries.max(1.0)], vec![Some(16.12)]),
        ("trie, bits per key".to_owned(), vec![trie.bits], vec![Some(3.1)]),
        ("trie in the paper's code".to_owned(), vec![trie.paper_bits], vec![Some(3.1)]),
        ("trie pruned to pages of four".to_owned(), vec![trie.pruned_bits], Vec::new()),
    ];
    let title = format!("what the indexes hold, {} keys", count(keys as u64));
    results.add("Section 3", &title, "as named", &columns, &rows);
}
