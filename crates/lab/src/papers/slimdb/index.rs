//! Tables 3 and 4: memory and speed of the page indexes of a 32 MB table, for four patterns of groups.

use crate::kit::generate::mix;
use crate::kit::plot::{Axis, Chart};
use crate::papers::evaluation::Results;
use crate::program::failure::Result;
use crate::program::output::note;
use siltstone_succinct::index::leveldb::{Form, LevelDbBuilder, LevelDbIndex};
use siltstone_succinct::index::three_level::{ThirdLevel, ThreeLevelBuilder, ThreeLevelIndex};
use std::hint::black_box;
use std::time::Instant;

/// Entries of the paper's table, and of one of its pages.
const ENTRIES: usize = 148_639;
const PER_PAGE: usize = 17;
const LOOKUPS: u64 = 1_000_000;

const NAMES: [&str; 4] = ["Fix.16", "Fix.32", "Fix.64", "Zipf"];

/// Entries of the groups of pattern `name`. Of its Zipf pattern the paper says that there are 26 groups of at
/// most 8,000; `8000 / k^0.14` adds up to its table.
fn group_sizes(pattern: &str) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut left = ENTRIES;
    while left > 0 {
        let size = match pattern {
            "Fix.16" => 16,
            "Fix.32" => 32,
            "Fix.64" => 64,
            _ => (8000.0 * (sizes.len() as f64 + 1.0).powf(-0.14)).round() as usize,
        };
        sizes.push(size.min(left));
        left -= size.min(left);
    }
    sizes
}

/// The table's keys as hashes of prefix and suffix, in order.
fn keys(pattern: &str) -> Vec<(u64, u64)> {
    let mut keys = Vec::with_capacity(ENTRIES);
    for (group, size) in group_sizes(pattern).into_iter().enumerate() {
        let prefix = mix(group as u64 + 1);
        keys.extend((0..size as u64).map(|suffix| (prefix, mix(prefix ^ suffix))));
    }
    keys.sort_unstable();
    keys
}

fn bytes((hi, lo): (u64, u64)) -> [u8; 16] {
    (u128::from(hi) << 64 | u128::from(lo)).to_be_bytes()
}

fn three_level(keys: &[(u64, u64)], third: ThirdLevel) -> ThreeLevelIndex {
    let mut builder = ThreeLevelBuilder::new(third);
    for page in keys.chunks(PER_PAGE) {
        page.iter().for_each(|(hi, lo)| builder.push(*hi, *lo));
        builder.finish_page(&[], &[]);
    }
    builder.finish()
}

fn leveldb(keys: &[(u64, u64)], form: Form) -> LevelDbIndex {
    let mut builder = LevelDbBuilder::new(form);
    for (number, page) in keys.chunks(PER_PAGE).enumerate() {
        if let (Some(first), Some(last)) = (page.first(), page.last()) {
            builder.add_page(&bytes(*first), &bytes(*last), number as u64 * 4096, 4096);
        }
    }
    builder.finish()
}

/// Thousands of lookups of stored keys per second; every answer is checked.
fn speed(keys: &[(u64, u64)], find: impl Fn(u64, u64) -> u32) -> f64 {
    let mut rates: Vec<f64> = (0..3u64)
        .map(|round| {
            let started = Instant::now();
            let mut wrong = 0u64;
            for lookup in 0..LOOKUPS {
                let at = ((u128::from(mix(lookup ^ round << 40)) * keys.len() as u128) >> 64) as usize;
                let Some((hi, lo)) = keys.get(at) else { continue };
                wrong += u64::from(find(*hi, *lo) as usize != at / PER_PAGE);
            }
            assert_eq!(black_box(wrong), 0, "an index sent a stored key to another page");
            LOOKUPS as f64 / started.elapsed().as_secs_f64() / 1000.0
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.get(1).copied().unwrap_or(f64::NAN)
}

pub fn run(results: &mut Results) -> Result<()> {
    note!("tables 3 and 4: page indexes");
    let paper_bits: [(&str, [Option<f64>; 4]); 5] = [
        ("three-level, tries", [Some(2.56), Some(1.94), Some(1.57), Some(1.56)]),
        ("three-level, partial suffixes", [None; 4]),
        ("LevelDB, fixed block", [Some(7.58), Some(7.82), Some(8.18), Some(8.43)]),
        ("LevelDB, key-compressed", [Some(10.37), Some(10.61), Some(10.98), Some(11.23)]),
        ("LevelDB, default", [Some(17.39); 4]),
    ];
    let paper_speed: [[Option<f64>; 4]; 3] = [
        [Some(147.5), Some(143.6), Some(149.5), Some(288.5)],
        [None; 4],
        [Some(1042.7), Some(1019.4), Some(1016.3), Some(1046.0)],
    ];
    let (mut bits, mut speeds) = (vec![Vec::new(); 5], vec![Vec::new(); 3]);
    for pattern in NAMES {
        let keys = keys(pattern);
        let per_key = |memory_bytes: usize| memory_bytes as f64 * 8.0 / ENTRIES as f64;
        let tries = three_level(&keys, ThirdLevel::EntropyTrie);
        let partial = three_level(&keys, ThirdLevel::PartialSuffixes);
        let forms = [Form::FixedBlock, Form::KeyCompressed, Form::FullKeys].map(|form| leveldb(&keys, form));
        let memory = [tries.memory_bytes(), partial.memory_bytes()].into_iter();
        let memory = memory.chain(forms.iter().map(LevelDbIndex::memory_bytes));
        bits.iter_mut().zip(memory).for_each(|(row, bytes)| row.push(per_key(bytes)));
        let [_, _, default] = &forms;
        let rates = [
            speed(&keys, |hi, lo| tries.find(hi, lo, &[])),
            speed(&keys, |hi, lo| partial.find(hi, lo, &[])),
            speed(&keys, |hi, lo| default.find(&bytes((hi, lo)))),
        ];
        speeds.iter_mut().zip(rates).for_each(|(row, rate)| row.push(rate));
    }
    let columns: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let rows = |values: Vec<Vec<f64>>, paper: Vec<(&str, [Option<f64>; 4])>| -> Vec<_> {
        let rows = paper.into_iter().zip(values);
        rows.map(|((name, paper), ours)| (name.to_owned(), ours, paper.to_vec())).collect()
    };
    let table_3 = rows(bits, paper_bits.to_vec());
    let names = ["three-level, tries", "three-level, partial suffixes", "LevelDB, default"];
    let table_4 = rows(speeds, names.into_iter().zip(paper_speed).collect());
    for (file, title, unit, table) in [
        ("table3.svg", "SlimDB table 3: memory of page indexes", "bits per key", &table_3),
        ("table4.svg", "SlimDB table 4: speed of page indexes", "thousand lookups per second", &table_4),
    ] {
        let mut chart = Chart::new(title).x(Axis::named("", NAMES)).y(Axis::linear(unit).from(0.0));
        for (name, ours, _) in table {
            chart = chart.bars(name, ours.iter().copied());
        }
        results.draw(file, &chart)?;
    }
    results.add("Table 3", "memory of page indexes", "bits per key", &columns, &table_3);
    results.add("Table 4", "speed of page indexes", "thousand lookups/s", &columns, &table_4);
    Ok(())
}
