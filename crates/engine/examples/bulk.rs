//! The same items loaded by batches, by a bulk build, and by one in the store's order.
//!
//! Shows `ingest`, whose items become tables without log and write buffer, and says how fast each way was and
//! what it wrote.
//!
//! `cargo run --release -p siltstone --example bulk -- DIRECTORY [ITEMS]`

use siltstone::{Batch, Db, IngestOptions, KeyspaceOptions, Options, WriteOptions};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const ITEMS_PER_BATCH: u64 = 100;

/// Item number `number`, in an order that has nothing to do with the keys'.
fn item(number: u64) -> ([u8; 16], [u8; 100]) {
    let (mut key, mut value) = ([0; 16], [7; 100]);
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    value[..8].copy_from_slice(&number.to_be_bytes());
    (key, value)
}

/// Runs `load` and says what it took.
fn measured(
    db: &Db,
    what: &str,
    items: u64,
    load: impl FnOnce() -> siltstone::Result<()>,
) -> siltstone::Result<()> {
    let (before, started) = (db.stats(), Instant::now());
    load()?;
    let (after, seconds) = (db.stats(), started.elapsed().as_secs_f64());
    let user = after.user_bytes_written - before.user_bytes_written;
    let device = after.device_bytes_written - before.device_bytes_written;
    let (rate, amplification) = (items as f64 / seconds, device as f64 / user as f64);
    println!("{what:<20} {rate:>12.0} items/s, {amplification:.2} bytes written per byte");
    Ok(())
}

/// Loads some thousands of items in all three ways.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    Ok(load(dir, 20_000)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("name a directory for the store")?;
    match arguments.next() {
        Some(items) => Ok(load(Path::new(&dir), items.parse()?)?),
        None => run(Path::new(&dir)),
    }
}

/// Loads so many items in all three ways.
fn load(dir: &Path, items: u64) -> siltstone::Result<()> {
    let db = Db::open(dir, Options { memory_budget_bytes: 512 << 20, ..Options::default() })?;
    for name in ["batches", "bulk", "bulk in order"] {
        if db.get_keyspace(name).is_some() {
            db.drop_keyspace(name)?;
        }
    }
    let create = |name: &str| db.create_keyspace(name, KeyspaceOptions::default());
    let bulk = create("bulk")?;
    measured(&db, "bulk, unsorted", items, || bulk.ingest((0..items).map(item)).map(drop))?;
    // The order of one keyspace is that of all with its schema.
    let sorted = create("bulk in order")?;
    measured(&db, "bulk, in order", items, || {
        sorted.ingest_with(&IngestOptions::default(), |ingest| {
            bulk.iter()?.try_for_each(|item| item.and_then(|(key, value)| ingest.put(key, value)))
        })?;
        Ok(())
    })?;
    let batches = create("batches")?;
    measured(&db, "batches", items, || {
        for first in (0..items).step_by(ITEMS_PER_BATCH as usize) {
            let mut batch = Batch::new();
            for (key, value) in (first..items.min(first + ITEMS_PER_BATCH)).map(item) {
                batch.put(&batches, key, value)?;
            }
            db.write(&batch, &WriteOptions::default())?;
        }
        db.flush()?;
        db.wait_until_idle()
    })?;
    for number in (0..items).step_by(997) {
        let (key, value) = item(number);
        for keyspace in [&batches, &bulk, &sorted] {
            assert_eq!(
                keyspace.get(key)?.as_deref(),
                Some(&value[..]),
                "item {number} of {}",
                keyspace.name()
            );
        }
    }
    db.close()
}
