//! SlimDB's tables 3 and 4: size and speed of the three-level index and of LevelDB's, over a 32 MB table's
//! keys.
//!
//! Prints both tables with the paper's figures beside ours; a speed is the median of several rounds over a
//! million random stored keys. `cargo bench --bench three_level -- Zipf` runs one pattern.

#[path = "../tests/three_level/patterns.rs"]
mod patterns;

use patterns::{ENTRIES, PAPER_BITS, PAPER_SPEED, PATTERNS, PER_PAGE, Pattern, Random, key_bytes, table};
use siltstone_succinct::index::leveldb::{Form, LevelDbBuilder, LevelDbIndex};
use siltstone_succinct::index::separators::{Separators, SeparatorsBuilder};
use siltstone_succinct::index::three_level::{ThirdLevel, ThreeLevelBuilder, ThreeLevelIndex};
use std::hint::black_box;
use std::time::Instant;

const QUERIES: usize = 1_000_000;
const ROUNDS: usize = 5;

type Key = (u64, u64);

/// Bits per key and thousands of lookups per second of one index.
struct Row {
    name: &'static str,
    bits: f64,
    speed: f64,
}

/// Seconds that this thread has computed, where the system tells; else, since `start`. Leaves out the time
/// that other programs had the processor.
fn seconds(start: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

/// The median of the rounds of `run`, in thousands of `count` things per second.
fn speed(count: usize, mut run: impl FnMut() -> u64) -> f64 {
    let start = Instant::now();
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begun = seconds(start);
            black_box(run());
            seconds(start) - begun
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    count as f64 / rounds.get(ROUNDS / 2).copied().unwrap_or(f64::NAN) / 1000.0
}

fn bits(memory_bytes: usize) -> f64 {
    memory_bytes as f64 * 8.0 / ENTRIES as f64
}

fn three_level(form: ThirdLevel, keys: &[Key]) -> ThreeLevelIndex {
    let mut builder = ThreeLevelBuilder::new(form);
    for page in keys.chunks(PER_PAGE) {
        page.iter().for_each(|(hi, lo)| builder.push(*hi, *lo));
        builder.finish_page(&[], &[]);
    }
    builder.finish()
}

/// Calls `page` with first key, last key and number of each page.
fn pages(keys: &[Key], mut page: impl FnMut([u8; 16], [u8; 16], u64)) {
    for (number, keys) in keys.chunks(PER_PAGE).enumerate() {
        if let (Some(first), Some(last)) = (keys.first(), keys.last()) {
            page(key_bytes(*first), key_bytes(*last), number as u64);
        }
    }
}

fn leveldb(form: Form, keys: &[Key]) -> LevelDbIndex {
    let mut builder = LevelDbBuilder::new(form);
    pages(keys, |first, last, number| builder.add_page(&first, &last, number * 4096, 4090));
    builder.finish()
}

fn separators(keys: &[Key]) -> Separators {
    let mut builder = SeparatorsBuilder::new();
    pages(keys, |first, last, _| builder.add_page(&first, &last));
    builder.finish()
}

/// The rows of one pattern.
fn rows(pattern: Pattern) -> Vec<Row> {
    let keys = table(pattern, ENTRIES, 1);
    let mut random = Random(2);
    let queries: Vec<Key> =
        (0..QUERIES).filter_map(|_| keys.get((random.next() % ENTRIES as u64) as usize).copied()).collect();
    let mut rows = Vec::new();
    let forms = [
        (ThirdLevel::EntropyTrie, "three levels, trie", "the same in batches of 256"),
        (ThirdLevel::PartialSuffixes, "three levels, partial", "the same in batches of 256"),
    ];
    for (form, name, batched) in forms {
        let index = three_level(form, &keys);
        let bits = bits(index.memory_bytes());
        let find = || queries.iter().map(|(hi, lo)| u64::from(index.find(*hi, *lo, &[]))).sum();
        rows.push(Row { name, bits, speed: speed(QUERIES, find) });
        let asked: Vec<(u64, u64, &[u8])> = queries.iter().map(|(hi, lo)| (*hi, *lo, &[][..])).collect();
        let mut found = Vec::new();
        let find = || {
            let batches = asked.chunks(256);
            batches
                .map(|batch| {
                    index.find_batch(batch, &mut found);
                    found.iter().map(|page| u64::from(*page)).sum::<u64>()
                })
                .sum()
        };
        rows.push(Row { name: batched, bits, speed: speed(QUERIES, find) });
    }
    let index = separators(&keys);
    let find = || queries.iter().map(|key| u64::from(index.find(&key_bytes(*key)))).sum();
    rows.push(Row { name: "our separators", bits: bits(index.memory_bytes()), speed: speed(QUERIES, find) });
    let forms = [
        (Form::FixedBlock, "LevelDB, fixed block"),
        (Form::KeyCompressed, "LevelDB, key-compressed"),
        (Form::FullKeys, "LevelDB, default"),
    ];
    for (form, name) in forms {
        let index = leveldb(form, &keys);
        let find = || queries.iter().map(|key| u64::from(index.find(&key_bytes(*key)))).sum();
        rows.push(Row { name, bits: bits(index.memory_bytes()), speed: speed(QUERIES, find) });
    }
    rows
}

fn print(
    title: &str,
    columns: &[(&str, Vec<Row>)],
    paper: &[(&str, [f64; 4])],
    value: impl Fn(&Row) -> String,
) {
    println!("\n{title}");
    print!("{:32}", "");
    columns.iter().for_each(|(name, _)| print!("{name:>10}"));
    println!();
    for (name, figures) in paper {
        print!("paper: {name:25}");
        for (column, _) in columns {
            let at = PATTERNS.iter().position(|(name, _)| name == column);
            let figure = at.and_then(|at| figures.get(at)).copied().unwrap_or(f64::NAN);
            print!("{figure:>10}");
        }
        println!();
    }
    for at in 0..columns.first().map_or(0, |(_, rows)| rows.len()) {
        let rows = || columns.iter().filter_map(|(_, rows)| rows.get(at));
        print!("{:32}", rows().next().map_or("", |row| row.name));
        rows().for_each(|row| print!("{:>10}", value(row)));
        println!();
    }
}

fn main() {
    let asked = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let chosen =
        PATTERNS.iter().filter(|(name, _)| asked.as_ref().is_none_or(|asked| name.contains(asked.as_str())));
    let columns: Vec<(&str, Vec<Row>)> = chosen.map(|(name, pattern)| (*name, rows(*pattern))).collect();
    print("Table 3: bits per key, all memory counted", &columns, &PAPER_BITS, |row| {
        format!("{:.2}", row.bits)
    });
    print("Table 4: thousand lookups per second", &columns, &PAPER_SPEED, |row| format!("{:.0}", row.speed));
    let keys = table(Pattern::Fixed(16), ENTRIES, 1);
    println!("\nbuild, million entries per second, groups of 16");
    for form in [ThirdLevel::EntropyTrie, ThirdLevel::PartialSuffixes] {
        let built =
            speed(20 * ENTRIES, || (0..20).map(|_| u64::from(three_level(form, &keys).pages())).sum());
        println!("{:32}{:>10.1}", format!("{form:?}"), built / 1000.0);
    }
}
