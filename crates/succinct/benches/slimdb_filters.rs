//! The filters of SlimDB's evaluation: its Tables 5 and 6 and its Figure 10 (Ren et al., VLDB 2017, §5.3).
//!
//! Eight sub-levels of random 16-byte keys, sorted; a share `d` of every sub-level's keys are the same in all
//! of them. "CF" is a cuckoo filter per sub-level, asked newest first; "MLCF" one multi-level cuckoo filter,
//! which knows of a duplicate that it is in the sub-level before. The paper has ten million keys a sub-level;
//! here it is one million, unless `SILTSTONE_LEVEL_KEYS` says otherwise. Each rate is the median of
//! `SILTSTONE_REPEATS` (3) runs on one thread, by the seconds that it ran.

use std::hint::black_box;
use std::time::Instant;

use siltstone_succinct::filter::cuckoo::CuckooFilter;
use siltstone_succinct::filter::multi_level_cuckoo::{
    Candidates, Knowledge, MultiLevelCuckooFilter, Parameters, RunKey,
};

const LEVELS: u64 = 8;
const CF_BITS: u8 = 16;
const DUPLICATION: [u64; 6] = [0, 10, 30, 50, 70, 90];

type Key = (u64, [u8; 16]);

/// Key number `number`: 16 random bytes and their hash (SplitMix64).
fn key(number: u64) -> Key {
    let mix = |number: u64| {
        let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut bytes = [0; 16];
    let (upper, lower) = bytes.split_at_mut(8);
    upper.copy_from_slice(&mix(number).to_be_bytes());
    lower.copy_from_slice(&mix(!number).to_be_bytes());
    (mix(number), bytes)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Seconds that this thread has run, where the system tells (Linux): what neighbours take does not count.
fn thread_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_ascii_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

/// Seconds of this thread that `run` takes, or else of the clock.
fn seconds<T>(run: impl FnOnce() -> T) -> f64 {
    let (start, thread_start) = (Instant::now(), thread_seconds());
    black_box(run());
    let clock = start.elapsed().as_secs_f64();
    thread_start.zip(thread_seconds()).map_or(clock, |(from, to)| to - from)
}

/// Millions of operations per second: the median over repeats.
fn rate<T>(operations: u64, repeats: u64, mut run: impl FnMut() -> T) -> f64 {
    let mut rates: Vec<f64> = (0..repeats).map(|_| operations as f64 / seconds(&mut run) / 1e6).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// What the sub-levels hold, oldest first.
struct Workload {
    shared: Vec<Key>,
    fresh: Vec<Vec<Key>>,
}

impl Workload {
    fn new(level_keys: u64, duplication: u64) -> Self {
        let shared_keys = level_keys * duplication / 100;
        let mut next = 0;
        let mut keys = |count: u64| {
            let mut keys: Vec<Key> = (next..next + count).map(key).collect();
            next += count;
            keys.sort_unstable();
            keys
        };
        let shared = keys(shared_keys);
        let fresh = (0..LEVELS).map(|_| keys(level_keys - shared_keys)).collect();
        Workload { shared, fresh }
    }

    fn distinct(&self) -> u64 {
        (self.shared.len() + self.fresh.iter().map(Vec::len).sum::<usize>()) as u64
    }

    fn cuckoo_filters(&self) -> Vec<CuckooFilter> {
        let build = |fresh: &Vec<Key>| {
            let hashes: Vec<u64> = self.shared.iter().chain(fresh).map(|(hash, _)| *hash).collect();
            CuckooFilter::build(CF_BITS, &hashes)
        };
        self.fresh.iter().map(build).collect()
    }

    /// One filter of all sub-levels, made for `first` keys, with room made before each sub-level.
    fn multi_level(&self, parameters: Parameters, first: u64) -> MultiLevelCuckooFilter {
        let mut filter = MultiLevelCuckooFilter::new(parameters, first).expect("sound parameters");
        for (slot, fresh) in (0u8..).zip(&self.fresh) {
            let room = if slot == 0 { self.shared.len() } else { 0 } + fresh.len();
            if parameters.growth_bits > 0 {
                filter = filter.grown(room as u64).expect("bits to grow by");
            }
            let knowledge = slot.checked_sub(1).map_or(Knowledge::Unknown, Knowledge::InSlot);
            let run_key = |(hash, key), knowledge| RunKey { hash, key, knowledge };
            let shared = self.shared.iter().map(|(hash, key)| run_key((*hash, key), knowledge));
            let fresh = fresh.iter().map(|(hash, key)| run_key((*hash, key), Knowledge::Unknown));
            filter.insert_run(slot, shared.chain(fresh)).expect("room");
        }
        filter
    }

    /// Keys in an order that has nothing to do with where they are.
    fn questions(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.shared.iter().chain(self.fresh.iter().flatten()).copied().collect();
        keys.sort_unstable_by_key(|(hash, _)| hash.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29));
        keys
    }
}

/// The paper's widths, of a filter that is sized for all its keys.
fn full_size(load_permille: u16) -> Parameters {
    Parameters { growth_bits: 0, load_permille, ..Parameters::default() }
}

fn table_5(level_keys: u64) {
    let workload = Workload::new(level_keys, 0);
    let keys = workload.distinct();
    let strangers: Vec<Key> = (keys..2 * keys).map(key).collect();
    let per_key = |bytes: usize| bytes as f64 * 8.0 / keys as f64;
    let share = |found: usize| found as f64 / strangers.len() as f64;
    println!("\nTable 5: {keys} keys in {LEVELS} sub-levels");
    println!("{:34} {:>9} {:>12}", "", "bits/key", "positives");

    let filters = workload.cuckoo_filters();
    let bytes = filters.iter().map(CuckooFilter::memory_bytes).sum();
    let any =
        strangers.iter().filter(|(hash, _)| filters.iter().any(|filter| filter.may_contain(*hash))).count();
    println!(
        "{:34} {:9.2} {:12.5}   (paper 16.78, 0.001)",
        "CF, 16 bits, any of 8",
        per_key(bytes),
        share(any)
    );

    for (name, parameters, first) in [
        ("MLCF, 14 + 3 bits, load 0.965", full_size(965), keys),
        ("MLCF, 14 + 3 bits, load 0.95", full_size(950), keys),
        ("MLCF, 12 + 3 bits, load 0.965", Parameters { fingerprint_bits: 12, ..full_size(965) }, keys),
        ("MLCF, 14 + 3 bits, grown 8 times", Parameters::default(), level_keys),
    ] {
        let filter = workload.multi_level(parameters, first);
        let found = strangers.iter().filter(|(hash, key)| !filter.lookup(*hash, key).is_empty()).count();
        println!(
            "{name:34} {:9.2} {:12.5}   (paper 16.67, 0.002); load {:.4}, {} keys in the secondary, {} stashed",
            per_key(filter.memory_bytes()),
            share(found),
            filter.load(),
            filter.secondary_keys(),
            filter.stashed(),
        );
    }
}

fn table_6(level_keys: u64, repeats: u64) {
    println!("\nTable 6: million insertions per second by duplication");
    print!("{:34}", "");
    DUPLICATION.iter().for_each(|percent| print!(" {percent:>6} %"));
    let row = |name: &str, run: &dyn Fn(&Workload) -> usize| {
        print!("\n{name:34}");
        for duplication in DUPLICATION {
            let workload = Workload::new(level_keys, duplication);
            print!(" {:8.2}", rate(level_keys * LEVELS, repeats, || run(&workload)));
        }
    };
    row("CF", &|workload| workload.cuckoo_filters().len());
    // As in the paper, sized for all keys as if they were distinct.
    let all = level_keys * LEVELS;
    row("MLCF, load 0.965", &|workload| workload.multi_level(full_size(965), all).memory_bytes());
    row("MLCF, load 0.95", &|workload| workload.multi_level(full_size(950), all).memory_bytes());
    // Sized for the keys that are distinct, so that it is full whatever the duplication.
    row("MLCF, load 0.95 of distinct keys", &|workload| {
        workload.multi_level(full_size(950), workload.distinct()).memory_bytes()
    });
    row("MLCF, grown for each sub-level", &|workload| {
        workload.multi_level(Parameters::default(), level_keys).memory_bytes()
    });
    println!("\npaper: CF 2.0 to 2.05, MLCF 0.86 0.90 0.98 1.11 1.31 1.40");
}

fn figure_10(level_keys: u64, repeats: u64) {
    println!("\nFigure 10: million lookups per second by duplication");
    print!("{:34}", "");
    DUPLICATION.iter().for_each(|percent| print!(" {percent:>6} %"));
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    for duplication in DUPLICATION {
        let workload = Workload::new(level_keys, duplication);
        let filters = workload.cuckoo_filters();
        let filter = workload.multi_level(full_size(965), level_keys * LEVELS);
        let members = workload.questions();
        let count = members.len() as u64;
        let strangers: Vec<Key> = (LEVELS * level_keys..LEVELS * level_keys + count).map(key).collect();
        for (kind, asked) in [("present", &members), ("absent", &strangers)] {
            let mut found = vec![Candidates::NONE; asked.len()];
            let rates = [
                rate(count, repeats, || {
                    let newest = |hash: u64| filters.iter().rev().position(|filter| filter.may_contain(hash));
                    asked.iter().filter(|(hash, _)| newest(*hash).is_some()).count()
                }),
                rate(count, repeats, || {
                    asked.iter().filter(|(hash, key)| !filter.lookup(*hash, key).is_empty()).count()
                }),
                rate(count, repeats, || filter.lookup_many(asked, &mut found)),
            ];
            for (name, rate) in ["CF, 8 filters", "MLCF", "MLCF, batched"].into_iter().zip(rates) {
                let name = format!("{kind}: {name}");
                match rows.iter_mut().find(|(row, _)| *row == name) {
                    Some((_, row)) => row.push(rate),
                    None => rows.push((name, vec![rate])),
                }
            }
        }
    }
    for (name, rates) in rows {
        print!("\n{name:34}");
        rates.iter().for_each(|rate| print!(" {rate:8.2}"));
    }
    println!();
}

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let testing = std::env::args().any(|argument| argument == "--test");
    let level_keys = if testing { 2000 } else { setting("SILTSTONE_LEVEL_KEYS", 1_000_000) };
    let repeats = if testing { 1 } else { setting("SILTSTONE_REPEATS", 3).max(1) };
    table_5(level_keys);
    table_6(level_keys, repeats);
    figure_10(level_keys, repeats);
}
