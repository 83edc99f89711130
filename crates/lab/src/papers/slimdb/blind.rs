//! Blind updates, of which the paper (§3.2) says what the filter does and prints no measurement: keys of
//! eight levels, of which a share is written anew in each, by writers who did not look. The filter can't tell
//! such a key from another with the same fingerprint, so it keeps what it can in full in the secondary table
//! and else names several levels.

use super::Args;
use super::filters::{LEVELS, bytes, key};
use crate::kit::generate::mix;
use crate::papers::evaluation::{Results, Row};
use crate::program::failure::{Failure, Result};
use crate::program::output::note;
use siltstone_succinct::filter::multi_level_cuckoo::{Knowledge, MultiLevelCuckooFilter, Parameters, RunKey};

const SHARES: [u64; 6] = [0, 1, 5, 10, 30, 90];

/// Bits per distinct key, the share of them in the secondary table, levels named per key that is there.
fn measure(keys: u64, percent: u64) -> Result<[f64; 3]> {
    let shared = keys * percent / 100;
    let distinct = keys + (LEVELS - 1) * (keys - shared);
    let failed = |e: &dyn std::fmt::Display| Failure::Failed(format!("cannot build the filter: {e}"));
    let mut filter = MultiLevelCuckooFilter::new(Parameters::default(), keys).map_err(|e| failed(&e))?;
    for level in 0..LEVELS {
        let run: Vec<[u8; 16]> = (0..keys).map(|at| bytes(key(level, at, keys, shared))).collect();
        let run = (0..keys).zip(&run).map(|(at, bytes)| RunKey {
            hash: mix(!key(level, at, keys, shared)),
            key: bytes,
            knowledge: Knowledge::Unknown,
        });
        // The number of a level fits a slot: there are eight.
        filter.insert_run(level as u8, run).map_err(|e| failed(&e))?;
    }
    let (mut asked, mut named) = (0u64, 0u64);
    for level in 0..LEVELS {
        // A key that all levels have is asked about once.
        for at in (if level == 0 { 0 } else { shared })..keys {
            let key = key(level, at, keys, shared);
            asked += 1;
            named += filter.lookup(mix(!key), &bytes(key)).count() as u64;
        }
    }
    let bits = filter.memory_bytes() as f64 * 8.0 / distinct as f64;
    Ok([bits, filter.secondary_keys() as f64 / distinct as f64, named as f64 / asked as f64])
}

pub fn run(args: &Args, results: &mut Results) -> Result<()> {
    let keys = args.keys_per_level() / 4;
    let names = ["bits per key", "share in the secondary", "levels named per key"];
    let mut rows: Vec<Row> = names.map(|name| (name.to_owned(), Vec::new(), Vec::new())).to_vec();
    for percent in SHARES {
        note!("section 3.2: blind updates of {percent} %");
        for (row, value) in rows.iter_mut().zip(measure(keys, percent)?) {
            row.1.push(value);
        }
    }
    let columns = SHARES.map(|percent| format!("{percent} %"));
    results.add("Section 3.2", "blind updates by share of duplicates", "as named", &columns, &rows);
    Ok(())
}
