//! The tables of SlimDB's tables 3 and 4 (VLDB 2017, §5.2): 148,639 entries in groups of one prefix, 17 to a
//! page.
//!
//! Prefixes and suffixes are hashed, 8 bytes each. The paper says of its Zipfian groups only that they have
//! at most 8,000 entries and number 26; `8000 / k^0.14` for k from 1 to 26 adds up to its table.

#![allow(dead_code, reason = "tests and benchmarks each use a part")]

/// Entries of one table.
pub const ENTRIES: usize = 148_639;
/// Entries of one page: 8,744 pages.
pub const PER_PAGE: usize = 17;

/// How entries are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Groups of this many entries.
    Fixed(usize),
    /// The k-th of 26 groups has `8000 / k^0.14` entries.
    Zipf,
}

/// The four columns of both tables.
pub const PATTERNS: [(&str, Pattern); 4] = [
    ("Fix.16", Pattern::Fixed(16)),
    ("Fix.32", Pattern::Fixed(32)),
    ("Fix.64", Pattern::Fixed(64)),
    ("Zipf", Pattern::Zipf),
];

/// Table 3, bits per key.
pub const PAPER_BITS: [(&str, [f64; 4]); 4] = [
    ("SlimDB, three levels", [2.56, 1.94, 1.57, 1.56]),
    ("LevelDB, fixed block", [7.58, 7.82, 8.18, 8.43]),
    ("LevelDB, key-compressed", [10.37, 10.61, 10.98, 11.23]),
    ("LevelDB, default", [17.39, 17.39, 17.39, 17.39]),
];

/// Table 4, thousands of lookups per second.
pub const PAPER_SPEED: [(&str, [f64; 4]); 2] = [
    ("SlimDB, three levels", [147.5, 143.6, 149.5, 288.5]),
    ("LevelDB, default", [1042.7, 1019.4, 1016.3, 1046.0]),
];

/// The SplitMix64 generator.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The sizes of the groups; the last is cut so that all have `entries` entries together.
pub fn group_sizes(pattern: Pattern, entries: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut left = entries;
    while left > 0 {
        let size = match pattern {
            Pattern::Fixed(size) => size,
            Pattern::Zipf => (8000.0 * (sizes.len() as f64 + 1.0).powf(-0.14)).round() as usize,
        };
        sizes.push(size.min(left));
        left -= size.min(left);
    }
    sizes
}

/// A table's entries, (prefix's hash, suffix's hash), in order.
pub fn table(pattern: Pattern, entries: usize, seed: u64) -> Vec<(u64, u64)> {
    let mut random = Random(seed);
    let mut keys = Vec::with_capacity(entries);
    for size in group_sizes(pattern, entries) {
        let prefix = random.next();
        keys.extend((0..size).map(|_| (prefix, random.next())));
    }
    keys.sort_unstable();
    keys
}

/// The 16 bytes of a key.
pub fn key_bytes((hi, lo): (u64, u64)) -> [u8; 16] {
    (u128::from(hi) << 64 | u128::from(lo)).to_be_bytes()
}
