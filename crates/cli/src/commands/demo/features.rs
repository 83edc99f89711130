//! A million synthetic features, as SlimDB's other example: many small items that belong to entities.
//!
//! Keys are an 8-byte entity and an 8-byte feature, 128 features an entity, values of 100 bytes, written in
//! random order. What every item holds follows from its number, so the check needs no memory.

use super::agreement::Agreement;
use crate::failure::{Failure, Result};
use crate::generate::items::Items;
use crate::generate::permutation::Permutation;
use crate::progress;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone::{Batch, Db, Keyspace, WriteOptions};
use std::time::{Duration, Instant};

/// Features of one entity.
pub const GROUP: u64 = 128;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const SEED: u64 = 7;
/// Items written at once.
const BATCH: u64 = 100;
/// Gets that should hit, and as many that should miss.
const SAMPLES: u64 = 100_000;
/// Entities listed.
const SCANS: u64 = 2_000;

/// Bytes of a feature's key and value.
pub const ITEM_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

fn items(count: u64) -> Result<Items> {
    Items::new(KEY_BYTES, VALUE_BYTES, GROUP, SEED, count).map_err(Failure::Usage)
}

/// Writes `count` features in random order; returns the seconds it took.
pub fn store(db: &Db, keyspace: &Keyspace, count: u64) -> Result<f64> {
    let items = items(count)?;
    let order = Permutation::new(count, SEED);
    let bar = progress::count_bar(Some(count), "writing features:");
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut batch = Batch::new();
    let started = Instant::now();
    for first in (0..count).step_by(BATCH as usize) {
        batch.clear();
        for position in first..count.min(first + BATCH) {
            let item = order.at(position);
            items.key(item, &mut key);
            items.value(item, 0, &mut value);
            batch.put(keyspace, &key, &value)?;
        }
        db.write(&batch, &WriteOptions::default())?;
        bar.set_position(first);
    }
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    Ok(seconds)
}

/// What a round of checks found, and how fast.
#[derive(Default)]
pub struct Round {
    /// All comparisons.
    pub agreement: Agreement,
    /// Gets that should hit.
    pub hits: u64,
    /// Gets that should miss.
    pub misses: u64,
    /// Items listed.
    pub scanned: u64,
    /// Time in gets that should hit.
    pub hit_time: Duration,
    /// Time in gets that should miss.
    pub miss_time: Duration,
    /// Time in scans.
    pub scan_time: Duration,
}

/// Reads random features, random keys that are none, and whole entities.
pub fn check(keyspace: &Keyspace, count: u64) -> Result<Round> {
    let items = items(count)?;
    let mut round = Round::default();
    if count == 0 {
        return Ok(round);
    }
    let mut rng = SmallRng::seed_from_u64(SEED);
    let (mut key, mut scratch) = (Vec::new(), Vec::new());
    let bar = progress::count_bar(
        Some(2 * SAMPLES.min(count) + SCANS.min(items.groups(count))),
        "reading features:",
    );
    for _ in 0..SAMPLES.min(count) {
        let item = rng.random_range(0..count);
        items.key(item, &mut key);
        let started = Instant::now();
        let value = keyspace.get(&key)?;
        round.hit_time += started.elapsed();
        round.hits += 1;
        let right = value.is_some_and(|value| items.is_value_of(item, &value, &mut scratch));
        round.agreement.check(right, || format!("feature {item} is not what was written"));
        bar.inc(1);
    }
    for _ in 0..SAMPLES.min(count) {
        let item = rng.random_range(0..count);
        items.missing_key(item, &mut key);
        let started = Instant::now();
        let found = keyspace.get(&key)?.is_some();
        round.miss_time += started.elapsed();
        round.misses += 1;
        round.agreement.check(!found, || format!("a feature that was not written is there, beside {item}"));
        bar.inc(1);
    }
    for _ in 0..SCANS.min(items.groups(count)) {
        let group = rng.random_range(0..items.groups(count));
        key.clear();
        items.prefix(group, &mut key);
        let started = Instant::now();
        let listed = keyspace.prefix(&key)?.collect::<std::result::Result<Vec<_>, _>>()?;
        round.scan_time += started.elapsed();
        round.scanned += listed.len() as u64;
        let members = group * GROUP..count.min((group + 1) * GROUP);
        check_group(&items, members, &listed, &mut round.agreement);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(round)
}

/// Compares a listed group with its members, in the order of their keys.
fn check_group(
    items: &Items,
    members: std::ops::Range<u64>,
    listed: &[(Vec<u8>, Vec<u8>)],
    agreement: &mut Agreement,
) {
    let mut scratch = Vec::new();
    let mut expected: Vec<(Vec<u8>, u64)> = members
        .map(|item| {
            let mut key = Vec::new();
            items.key(item, &mut key);
            (key, item)
        })
        .collect();
    expected.sort();
    let (found, wanted) = (listed.len(), expected.len());
    agreement.check(found == wanted, || format!("an entity lists {found} features instead of {wanted}"));
    for ((key, item), (listed_key, value)) in expected.iter().zip(listed) {
        let right = key == listed_key && items.is_value_of(*item, value, &mut scratch);
        agreement.check(right, || format!("feature {item} is not listed as it was written"));
    }
}
