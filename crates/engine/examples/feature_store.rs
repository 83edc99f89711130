//! A feature store: the features of an entity lie together, by name and time.
//!
//! Shows groups (a keyspace whose keys begin with the entity), atomic batches, a scan of one group in order,
//! and ranges of suffixes, with which a model is trained on what was known at a moment and not later.
//!
//! `cargo run -p siltstone --example feature_store -- DIRECTORY`

use siltstone::{
    Batch, Db, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder, WriteOptions,
};
use std::error::Error;
use std::path::Path;

/// A key: eight bytes of entity, the feature's name, a zero, and the time. Numbers are big-endian, so that
/// byte order is theirs.
fn key(entity: u64, feature: &str, time: u64) -> Vec<u8> {
    [&entity.to_be_bytes(), suffix(feature, time).as_slice()].concat()
}

fn suffix(feature: &str, time: u64) -> Vec<u8> {
    [feature.as_bytes(), &[0], &time.to_be_bytes()].concat()
}

/// The value of a feature as it was known at `time`.
fn as_of(features: &Keyspace, entity: u64, feature: &str, time: u64) -> siltstone::Result<Option<Vec<u8>>> {
    let known = suffix(feature, 0)..=suffix(feature, time);
    let latest = features.prefix_range(entity.to_be_bytes(), known)?.last().transpose()?;
    Ok(latest.map(|(_, value)| value))
}

/// Runs the example on a store in `dir`.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let db = Db::open(dir, Options { memory_budget_bytes: 64 << 20, ..Options::default() })?;
    // The first eight bytes of a key are its group, and a group is kept in the order of the rest.
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Ordered };
    let features = db.keyspace("features", KeyspaceOptions { schema, ..KeyspaceOptions::default() })?;

    // One batch per moment: whoever reads sees all of it or nothing.
    for time in [100, 200, 300] {
        let mut batch = Batch::new();
        for entity in 0..1000 {
            batch.put(&features, key(entity, "clicks", time), (entity * time).to_string().as_bytes())?;
            batch.put(&features, key(entity, "country", time), b"SE")?;
        }
        db.write(&batch, &WriteOptions::default())?;
    }

    // All that is known of one entity: one group, read in order.
    let known = features.prefix(7u64.to_be_bytes())?.collect::<Result<Vec<_>, _>>()?;
    println!("entity 7 has {} values", known.len());
    assert_eq!(known.len(), 6);
    assert!(known.windows(2).all(|pair| matches!(pair, [before, after] if before.0 < after.0)));

    // The newest value that is not younger than the moment of training.
    for (time, clicks) in [(99, None), (200, Some("1400")), (250, Some("1400")), (u64::MAX, Some("2100"))] {
        let found = as_of(&features, 7, "clicks", time)?;
        println!("clicks of entity 7 at {time}: {:?}", found.as_deref().map(String::from_utf8_lossy));
        assert_eq!(found.as_deref(), clicks.map(str::as_bytes));
    }
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new(&std::env::args_os().nth(1).ok_or("name a directory for the store")?))
}
