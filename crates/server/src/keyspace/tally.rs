//! How many keys a database has, exact without counting them.
//!
//! Each commit adds to counters what it changes, in the same batch, by the engine's merge operator `add`:
//! to the number of keys, and, for keys that expire, to the number of those that are gone by a certain
//! second. So keys that expire unseen are subtracted when their second has passed, and nobody has to find
//! them.
//!
//! ```text
//! key    "n"                          keys, those that expire included
//!        "e" · u64 big-endian         keys that are gone by this second
//! value  i64 little-endian, as the operator adds them
//! ```
//!
//! Invariant: a key that has expired is taken out of the counters by its second and by nothing else.

use crate::failure::Outcome;
use siltstone::{Batch, Keyspace};
use std::collections::BTreeMap;

/// What a commit changes of the counters.
#[derive(Debug, Default)]
pub struct Change {
    keys: i64,
    by_second: BTreeMap<u64, i64>,
}

/// The first whole second at which a key that expires at `at` milliseconds is gone.
fn second(at: u64) -> u64 {
    at.div_ceil(1000)
}

impl Change {
    /// Counts a key in (`by` 1) or out (`by` -1).
    pub fn count(&mut self, expires_at: u64, by: i64) {
        self.keys += by;
        if expires_at > 0 {
            *self.by_second.entry(second(expires_at)).or_default() += by;
        }
    }

    /// Adds the change to `batch`.
    ///
    /// # Errors
    /// Those of the batch.
    pub fn commit(&self, batch: &mut Batch, counts: &Keyspace) -> Outcome {
        if self.keys != 0 {
            batch.merge(counts, b"n", self.keys.to_le_bytes())?;
        }
        for (second, by) in self.by_second.iter().filter(|(_, by)| **by != 0) {
            batch.merge(counts, second_key(*second), by.to_le_bytes())?;
        }
        Ok(())
    }
}

fn second_key(second: u64) -> [u8; 9] {
    let mut key = [b'e'; 9];
    if let Some(rest) = key.get_mut(1..) {
        rest.copy_from_slice(&second.to_be_bytes());
    }
    key
}

/// The counters of one database, as they are stored.
#[derive(Debug, Default)]
pub struct Tally {
    keys: i64,
    by_second: BTreeMap<u64, i64>,
}

impl Tally {
    /// Reads the counters.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(counts: &Keyspace) -> Outcome<Self> {
        let mut tally = Self::default();
        for item in counts.iter()? {
            let (key, value) = item?;
            let Ok(value) = value.try_into().map(i64::from_le_bytes) else { continue };
            match key.split_first() {
                Some((b'e', rest)) => {
                    let Ok(second) = rest.try_into().map(u64::from_be_bytes) else { continue };
                    tally.by_second.insert(second, value);
                }
                _ => tally.keys = value,
            }
        }
        Ok(tally)
    }

    /// Takes in what has been committed.
    pub fn apply(&mut self, change: &Change) {
        self.keys += change.keys;
        for (second, by) in &change.by_second {
            *self.by_second.entry(*second).or_default() += by;
        }
    }

    /// Takes in what another server has done to the counter `key`.
    pub fn follow(&mut self, key: &[u8], change: &siltstone::Change) {
        let by = super::apply::addend(change);
        match (key.split_first(), by) {
            (Some((b'e', second)), by) => {
                let Ok(second) = second.try_into().map(u64::from_be_bytes) else { return };
                match by {
                    Some(by) => *self.by_second.entry(second).or_default() += by,
                    None => drop(self.by_second.remove(&second)),
                }
            }
            (_, by) => self.keys += by.unwrap_or(0),
        }
    }

    /// Number of keys at `now`.
    pub fn keys(&self, now: u64) -> u64 {
        let gone: i64 = self.by_second.range(..=now / 1000).map(|(_, count)| count).sum();
        u64::try_from(self.keys - gone).unwrap_or(0)
    }

    /// Number of keys that will expire, and their mean time to live in milliseconds.
    pub fn expiring(&self, now: u64) -> (u64, u64) {
        let mut keys = 0u64;
        let mut sum = 0u128;
        for (second, count) in self.by_second.range(now / 1000 + 1..) {
            let count = u64::try_from(*count).unwrap_or(0);
            keys += count;
            sum += u128::from(second.saturating_mul(1000).saturating_sub(now)) * u128::from(count);
        }
        let mean = sum.checked_div(u128::from(keys)).unwrap_or(0);
        (keys, u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Takes the seconds that passed before `now` out of the counters, and adds that to `batch`. Returns how
    /// many keys expired.
    ///
    /// # Errors
    /// Those of the batch.
    pub fn fold(&mut self, now: u64, batch: &mut Batch, counts: &Keyspace) -> Outcome<u64> {
        // Who began just before the second ended may still take a key out of it.
        const GRACE_SECONDS: u64 = 10;
        let later = self.by_second.split_off(&(now / 1000).saturating_sub(GRACE_SECONDS));
        let passed = std::mem::replace(&mut self.by_second, later);
        let gone: i64 = passed.values().sum();
        for second in passed.keys() {
            batch.delete(counts, second_key(*second))?;
        }
        if gone != 0 {
            self.keys -= gone;
            batch.merge(counts, b"n", (-gone).to_le_bytes())?;
        }
        Ok(u64::try_from(gone).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_expire_are_counted_until_their_second_has_passed() {
        let mut tally = Tally::default();
        let mut change = Change::default();
        change.count(0, 1);
        change.count(5_500, 1);
        change.count(9_000, 1);
        tally.apply(&change);
        assert_eq!((tally.keys(0), tally.keys(5_900), tally.keys(6_000), tally.keys(9_000)), (3, 3, 2, 1));
        assert_eq!(tally.expiring(5_000), (2, 2_500));
        let mut deleted = Change::default();
        deleted.count(9_000, -1);
        tally.apply(&deleted);
        let merge = |by: i64| siltstone::Change::Merge { operand: by.to_le_bytes().to_vec() };
        let mut copy = Tally::default();
        for (second, by) in [(6, 1), (9, 1), (9, -1)] {
            copy.follow(b"n", &merge(by));
            copy.follow(&second_key(second), &merge(by));
        }
        copy.follow(b"n", &merge(1));
        assert_eq!((copy.keys(5_900), copy.keys(6_000), copy.keys(9_000)), (2, 1, 1));
        copy.follow(&second_key(6), &siltstone::Change::Delete);
        assert_eq!(copy.keys(6_000), 2);
        assert_eq!((tally.keys(6_000), tally.keys(9_000)), (1, 1));
    }
}
