//! The rate of `multi_get` from Rust on a store that `bench.py` has made: the same keys in the same order, by the
//! same number at a time.
//!
//!     siltstone-rate DIR MEMORY KEYS BATCH     KEYS is a file of keys of 16 bytes, one behind the other
//!
//! Prints the nanoseconds of processor time of this thread, for all keys.

use siltstone::{Db, Options};
use std::error::Error;

/// Nanoseconds that this thread has been on a processor.
fn on_processor() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().unwrap_or_default().parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, memory, keys, batch] = arguments.as_slice() else {
        return Err("siltstone-rate DIR MEMORY KEYS BATCH".into());
    };
    let db = Db::open(dir, Options { memory_budget_bytes: memory.parse()?, ..Options::default() })?;
    let items = db.get_keyspace("items").ok_or("there is no keyspace \"items\"")?;
    let keys = std::fs::read(keys)?;
    let keys: Vec<&[u8]> = keys.chunks_exact(16).collect();
    // Once to fill the caches.
    for round in 0..2 {
        let (mut found, from) = (0, on_processor()?);
        for some in keys.chunks(batch.parse()?) {
            found += items.multi_get(some)?.iter().flatten().count();
        }
        if round == 1 {
            println!("{}", on_processor()? - from);
        }
        if found != keys.len() {
            return Err(format!("found {found} of {} keys", keys.len()).into());
        }
    }
    Ok(())
}
