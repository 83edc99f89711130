//! Tables 5 and 6 and Figure 10: one multi-level cuckoo filter against a cuckoo filter per level, over eight
//! levels, at several shares of keys that every level has anew.

use super::Args;
use crate::kit::generate::mix;
use crate::kit::plot::{Axis, Chart};
use crate::papers::evaluation::Results;
use crate::program::failure::{Failure, Result};
use crate::program::output::note;
use siltstone_succinct::filter::cuckoo::CuckooFilter;
use siltstone_succinct::filter::multi_level_cuckoo::{
    Candidates, Knowledge, MultiLevelCuckooFilter, Parameters, RunKey,
};
use std::hint::black_box;
use std::time::Instant;

pub const LEVELS: u64 = 8;
/// Bits of the fingerprints of the filters per level, as in the paper.
const CUCKOO_BITS: u8 = 16;
/// Keys asked about together.
const BATCH: usize = 64;
const DUPLICATION: [(u64, f64, f64); 6] = [
    (0, 2.0, 0.86),
    (10, 2.05, 0.90),
    (30, 2.05, 0.98),
    (50, 2.05, 1.11),
    (70, 2.05, 1.31),
    (90, 2.05, 1.40),
];

/// The key in place `at` of `level` (0: the oldest): the first `shared` keys of every level are the same.
pub fn key(level: u64, at: u64, keys: u64, shared: u64) -> u64 {
    if at < shared { at } else { level * keys + at }
}

pub fn bytes(key: u64) -> [u8; 16] {
    (u128::from(mix(key)) << 64 | u128::from(key)).to_be_bytes()
}

/// What one share of duplicates gave.
#[derive(Default)]
struct Measured {
    bits: [f64; 2],
    false_positives: [f64; 2],
    inserts: [f64; 2],
    hits: [f64; 2],
    misses: [f64; 2],
}

/// Millions per second of `count` things done by `run`.
fn rate(count: u64, run: impl FnOnce()) -> f64 {
    let started = Instant::now();
    run();
    count as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn measure(keys: u64, percent: u64) -> Result<Measured> {
    let shared = keys * percent / 100;
    let mut measured = Measured::default();
    let hashes: Vec<Vec<u64>> =
        (0..LEVELS).map(|level| (0..keys).map(|at| mix(!key(level, at, keys, shared))).collect()).collect();

    let mut cuckoo = Vec::new();
    let cuckoo_rate = rate(LEVELS * keys, || {
        cuckoo = hashes.iter().map(|level| CuckooFilter::build(CUCKOO_BITS, level)).collect();
    });
    let distinct = keys + (LEVELS - 1) * (keys - shared);
    let unsound = |e: &dyn std::fmt::Display| Failure::Failed(format!("cannot build the filter: {e}"));
    // The number of keys is known, so nothing is kept for growth, and the filter may be as full as it gets.
    let parameters = Parameters { growth_bits: 0, load_permille: 965, ..Parameters::default() };
    let mut multi = MultiLevelCuckooFilter::new(parameters, distinct).map_err(|e| unsound(&e))?;
    let mut failure = None;
    let key_bytes: Vec<Vec<[u8; 16]>> =
        (0..LEVELS).map(|level| (0..keys).map(|at| bytes(key(level, at, keys, shared))).collect()).collect();
    let multi_rate = rate(LEVELS * keys, || {
        for (level, (hashes, bytes)) in hashes.iter().zip(&key_bytes).enumerate() {
            let known = |at: usize| match level {
                // Whoever wrote the key again had read it from the level before.
                1.. if (at as u64) < shared => Knowledge::InSlot(level as u8 - 1),
                _ => Knowledge::Unknown,
            };
            let run = hashes.iter().zip(bytes).enumerate();
            let run = run.map(|(at, (hash, key))| RunKey { hash: *hash, key, knowledge: known(at) });
            if let Err(full) = multi.insert_run(level as u8, run) {
                failure = Some(unsound(&full));
            }
        }
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    measured.inserts = [cuckoo_rate, multi_rate];
    let all = (LEVELS * keys) as f64;
    let bits = |bytes: usize, of: f64| bytes as f64 * 8.0 / of;
    measured.bits = [
        bits(cuckoo.iter().map(CuckooFilter::memory_bytes).sum(), all),
        bits(multi.memory_bytes(), distinct as f64),
    ];

    lookups(&mut measured, &cuckoo, &multi, keys, shared);
    Ok(measured)
}

/// Asks for keys of all levels, then for keys of none.
fn lookups(
    measured: &mut Measured,
    cuckoo: &[CuckooFilter],
    multi: &MultiLevelCuckooFilter,
    keys: u64,
    shared: u64,
) {
    let asked = LEVELS * keys / 4;
    let question = |number: u64, absent: bool| {
        let at = mix(number);
        let (level, at) = (at % LEVELS, (at >> 8) % keys);
        let key = key(level, at, keys, shared);
        if absent { key + LEVELS * keys * 2 } else { key }
    };
    for absent in [false, true] {
        let questions: Vec<(u64, [u8; 16])> =
            (0..asked).map(|number| question(number, absent)).map(|key| (mix(!key), bytes(key))).collect();
        let (mut found_by_cuckoo, mut found_by_multi) = (0u64, 0u64);
        let cuckoo_rate = rate(asked, || {
            // The newest level first, until one says yes.
            for (hash, _) in &questions {
                found_by_cuckoo += u64::from(cuckoo.iter().rev().any(|filter| filter.may_contain(*hash)));
            }
        });
        let multi_rate = rate(asked, || {
            let mut answers = [Candidates::default(); BATCH];
            for questions in questions.chunks(BATCH) {
                if let Some(answers) = answers.get_mut(..questions.len()) {
                    multi.lookup_many(questions, answers);
                    found_by_multi +=
                        answers.iter().filter(|answer| answer.newest().is_some()).count() as u64;
                }
            }
        });
        let found = [black_box(found_by_cuckoo), black_box(found_by_multi)].map(|n| n as f64 / asked as f64);
        if absent {
            measured.misses = [cuckoo_rate, multi_rate];
            measured.false_positives = found;
        } else {
            measured.hits = [cuckoo_rate, multi_rate];
            assert_eq!(found, [1.0, 1.0], "a filter missed a key");
        }
    }
}

pub fn run(args: &Args, results: &mut Results) -> Result<()> {
    let keys = args.keys_per_level();
    let mut measured = Vec::new();
    for (percent, ..) in DUPLICATION {
        note!("tables 5 and 6, figure 10: filters, {percent} % duplicates");
        measured.push(measure(keys, percent)?);
    }
    let names = ["cuckoo filter per level", "multi-level cuckoo filter"];
    if let Some(none) = measured.first() {
        let [cf, mlcf] = none.bits;
        let [cf_rate, mlcf_rate] = none.false_positives;
        let row = |name: &str, values: [f64; 2], paper: [f64; 2]| {
            (name.to_owned(), values.to_vec(), paper.map(Some).to_vec())
        };
        let columns = ["bits per key", "false positives"].map(str::to_owned);
        let rows =
            [row(names[0], [cf, cf_rate], [16.78, 0.001]), row(names[1], [mlcf, mlcf_rate], [16.67, 0.002])];
        results.add(
            "Table 5",
            "memory and false positives of filters over 8 levels",
            "bits, share",
            &columns,
            &rows,
        );
    }
    let columns: Vec<String> = DUPLICATION.iter().map(|(percent, ..)| format!("{percent} %")).collect();
    let series = |pick: &dyn Fn(&Measured) -> f64| measured.iter().map(pick).collect::<Vec<f64>>();
    let inserts = [
        (names[0].to_owned(), series(&|m| m.inserts[0]), DUPLICATION.map(|(_, cf, _)| Some(cf)).to_vec()),
        (names[1].to_owned(), series(&|m| m.inserts[1]), DUPLICATION.map(|(_, _, mlcf)| Some(mlcf)).to_vec()),
    ];
    results.add("Table 6", "inserts by share of duplicates", "million/s", &columns, &inserts);
    // The paper draws figure 10 and prints no numbers.
    let lookups = [
        ("hits, cuckoo filter per level", series(&|m| m.hits[0])),
        ("hits, multi-level", series(&|m| m.hits[1])),
        ("misses, cuckoo filter per level", series(&|m| m.misses[0])),
        ("misses, multi-level", series(&|m| m.misses[1])),
    ]
    .map(|(name, ours)| (name.to_owned(), ours, Vec::new()));
    results.add("Figure 10", "lookups by share of duplicates", "million/s", &columns, &lookups);

    let shares = || DUPLICATION.iter().map(|(percent, ..)| *percent as f64);
    let mut chart = Chart::new("SlimDB table 6: inserts into filters")
        .x(Axis::linear("duplicates, %"))
        .y(Axis::logarithmic("million inserts per second"));
    for (name, ours, paper) in &inserts {
        chart = chart.line(name, shares().zip(ours.iter().copied()));
        chart = chart.printed("the paper's", shares().zip(paper.iter().flatten().copied()));
    }
    results.draw("table6.svg", &chart)?;
    let mut chart = Chart::new("SlimDB figure 10: lookups in filters")
        .x(Axis::linear("duplicates, %"))
        .y(Axis::linear("million lookups per second").from(0.0));
    for (name, ours, _) in &lookups {
        chart = chart.line(name, shares().zip(ours.iter().copied()));
    }
    results.draw("figure10.svg", &chart)
}
