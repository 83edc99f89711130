//! A cache on disk whose items expire by themselves.
//!
//! Shows `put_with_ttl`, after whose time an item is no longer found, a keyspace laid out for little memory,
//! and statistics. A cache is allowed to forget: writes are buffered, and nothing waits for the disk.
//!
//! `cargo run -p siltstone --example cache_with_ttl -- DIRECTORY`

use siltstone::{Db, Keyspace, KeyspaceOptions, Options, presets};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(200);

/// Returns what is cached for a key, or makes it and keeps it for `ttl`.
fn get_or_make(
    cache: &Keyspace,
    key: &[u8],
    ttl: Duration,
    make: impl FnOnce() -> Vec<u8>,
) -> siltstone::Result<Vec<u8>> {
    if let Some(found) = cache.get(key)? {
        return Ok(found);
    }
    let made = make();
    cache.put_with_ttl(key, &made, ttl)?;
    Ok(made)
}

/// Runs the example on a store in `dir`.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir, Options { memory_budget_bytes: 32 << 20, ..Options::default() })?;
    let lean = KeyspaceOptions { design: Some(presets::lean()), ..KeyspaceOptions::default() };
    let cache = db.keyspace("pages", lean)?;
    cache.delete(b"/weather")?;

    let page = |text: &'static str| move || text.as_bytes().to_vec();
    assert_eq!(get_or_make(&cache, b"/weather", MOMENT, page("rain"))?, b"rain");
    // Other items, which stay for an hour.
    for number in 0..5000u32 {
        cache.put_with_ttl(format!("/article/{number}").as_bytes(), [b'x'; 100], HOUR)?;
    }
    std::thread::sleep(MOMENT * 2);
    // The old page has expired, so the next request makes a new one.
    assert!(!cache.contains(b"/weather")?);
    assert_eq!(get_or_make(&cache, b"/weather", HOUR, page("sun"))?, b"sun");
    assert_eq!(get_or_make(&cache, b"/weather", HOUR, page("snow"))?, b"sun");
    assert!(cache.contains(b"/article/4999")?);

    let stats = cache.stats();
    println!("{} gets, {} of them found an item", stats.gets, stats.get_hits);
    assert!(stats.get_hits >= 1 && stats.get_hits < stats.gets);
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new(&std::env::args_os().nth(1).ok_or("name a directory for the store")?))
}
