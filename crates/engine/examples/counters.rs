//! Counters: many threads add to the same numbers, and none of what they add is lost.
//!
//! Shows `update`, which reads, changes and writes a key in one step, `multi_get`, and what a write survives:
//! these are synced once at the end, so that a power cut before that may take the newest of them.
//!
//! `cargo run -p siltstone --example counters -- DIRECTORY`

use siltstone::{Db, Keyspace, KeyspaceOptions, Options};
use std::error::Error;
use std::path::Path;

const PAGES: [&str; 3] = ["/", "/docs", "/download"];
const THREADS: u64 = 4;
const VISITS: u64 = 500;

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Adds to a counter and returns its new value.
fn add(counters: &Keyspace, name: &str, more: u64) -> siltstone::Result<u64> {
    // The closure may run again where another thread comes first, so it only computes.
    let new = counters
        .update(name.as_bytes(), |old| Some((old.map_or(0, number) + more).to_le_bytes().to_vec()))?;
    Ok(new.as_deref().map_or(0, number))
}

/// Runs the example on a store in `dir`.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir, Options::default())?;
    let counters = db.keyspace("visits", KeyspaceOptions::default())?;
    let count = || -> siltstone::Result<Vec<u64>> {
        let found = counters.multi_get(&PAGES)?;
        Ok(found.iter().map(|value| value.as_deref().map_or(0, number)).collect())
    };
    let before = count()?;
    std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| -> siltstone::Result<()> {
                    for page in PAGES.iter().cycle().take(VISITS as usize * PAGES.len()) {
                        add(&counters, page, 1)?;
                    }
                    Ok(())
                })
            })
            .collect();
        visitors.into_iter().try_for_each(|visitor| {
            visitor.join().map_err(|_| "a visitor panicked")?.map_err(Box::<dyn Error>::from)
        })
    })?;
    db.sync()?;
    for ((page, before), after) in PAGES.iter().zip(before).zip(count()?) {
        println!("{page}: {after} visits");
        assert_eq!(after - before, THREADS * VISITS);
    }
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new(&std::env::args_os().nth(1).ok_or("name a directory for the store")?))
}
