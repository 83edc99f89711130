//! Calls beside gets, puts and scans: conditional writes, looks without a copy, answers without values.

use super::client::{Client, Run};
use crate::program::failure::Result;
use rand::RngExt;
use siltstone::{CompareAndSet, WriteOptions};
use std::time::{Duration, Instant};

impl Client<'_> {
    /// Looks at an item's value where it stands.
    pub(super) fn get_with(&mut self) -> Result<Duration> {
        let run = self.run;
        let item = self.choose();
        let Some(key) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        run.items.key(item, key);
        let scratch = &mut self.value;
        let started = Instant::now();
        let is_right = run.keyspace.get_with(key, |value| run.items.is_value_of(item, value, scratch))?;
        let latency = started.elapsed();
        self.outcome.missing += u64::from(is_right.is_none());
        self.outcome.wrong += u64::from(is_right == Some(false));
        Ok(latency)
    }

    /// Asks in one call which of existing items and missing keys are there, by turns.
    pub(super) fn contains(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        let run = self.run;
        let odd = self.rng.random_range(0..2);
        let exists = |at: usize| (at + odd).is_multiple_of(2);
        for (at, (item, key)) in self.chosen.iter().zip(&mut self.keys).enumerate() {
            if exists(at) { run.items.key(*item, key) } else { run.items.missing_key(*item, key) }
        }
        let keys = self.keys.get(..count as usize).unwrap_or(&self.keys);
        let started = Instant::now();
        let found = match keys {
            [key] => vec![run.keyspace.contains(key)?],
            keys => run.keyspace.contains_many(keys)?,
        };
        let latency = started.elapsed();
        for (at, found) in found.into_iter().enumerate() {
            self.outcome.missing += u64::from(exists(at) && !found);
            self.outcome.unexpected += u64::from(!exists(at) && found);
        }
        Ok(latency)
    }

    /// Puts the chosen items in one call where they are not there, which `are_new` says of all.
    fn add_chosen(&mut self, are_new: bool) -> Result<Duration> {
        let run = self.run;
        let mut items = Vec::with_capacity(self.chosen.len());
        for item in &self.chosen {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            run.items.key(*item, &mut key);
            run.items.value(*item, self.rng.random(), &mut value);
            items.push((key, value));
        }
        let started = Instant::now();
        let added = match items.as_slice() {
            [(key, value)] => vec![run.keyspace.insert_if_absent(key, value)?],
            _ => run.keyspace.add_many(items)?,
        };
        let latency = started.elapsed();
        let other = added.into_iter().filter(|added| *added != are_new).count() as u64;
        if are_new {
            self.outcome.unexpected += other;
        } else {
            self.outcome.missing += other;
        }
        Ok(latency)
    }

    /// Adds items that are there.
    pub(super) fn add_existing(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        self.add_chosen(false)
    }

    /// Adds items that are not.
    pub(super) fn add_new(&mut self, count: u64) -> Result<Duration> {
        self.insert_by(count, |client| client.add_chosen(true))
    }

    /// Reads an item and writes its next version where nobody else has.
    pub(super) fn compare_and_set(&mut self) -> Result<Duration> {
        let run = self.run;
        let item = self.choose();
        let version = self.rng.random();
        let Some(key) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        run.items.key(item, key);
        run.items.value(item, version, &mut self.value);
        let mut scratch = Vec::new();
        let started = Instant::now();
        loop {
            let old = run.keyspace.get(&*key)?;
            let set = run.keyspace.compare_and_set(&*key, old.as_deref(), Some(&self.value))?;
            let latency = started.elapsed();
            self.outcome.missing += u64::from(old.is_none());
            let is_right = old.is_some_and(|old| run.items.is_value_of(item, &old, &mut scratch));
            self.outcome.wrong += u64::from(!is_right);
            // Else another client was quicker.
            if set == CompareAndSet::Set {
                return Ok(latency);
            }
        }
    }

    /// Gets an item, which would be made if it were not there.
    pub(super) fn get_or_insert(&mut self) -> Result<Duration> {
        let run = self.run;
        let item = self.choose();
        let Some(key) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        run.items.key(item, key);
        let mut made = false;
        let started = Instant::now();
        let value = run.keyspace.get_or_insert_with(&*key, || {
            made = true;
            let mut value = Vec::new();
            run.items.value(item, 0, &mut value);
            value
        })?;
        let latency = started.elapsed();
        self.outcome.missing += u64::from(made);
        self.outcome.wrong += u64::from(!run.items.is_value_of(item, &value, &mut self.value));
        Ok(latency)
    }

    /// Reads items and writes their next versions in one transaction.
    pub(super) fn transact(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        let run = self.run;
        for (item, key) in self.chosen.iter().zip(&mut self.keys) {
            run.items.key(*item, key);
        }
        let version = self.rng.random();
        let (mut new, mut scratch) = (Vec::new(), Vec::new());
        let started = Instant::now();
        let [missing, wrong] = run.db.transaction(&WriteOptions::default(), |transaction| {
            let [mut missing, mut wrong] = [0, 0];
            for (item, key) in self.chosen.iter().zip(&self.keys) {
                let old = transaction.get(run.keyspace, key)?;
                missing += u64::from(old.is_none());
                wrong += u64::from(old.is_some_and(|old| !run.items.is_value_of(*item, &old, &mut scratch)));
                run.items.value(*item, version, &mut new);
                transaction.put(run.keyspace, key, &new)?;
            }
            Ok::<_, siltstone::Error>([missing, wrong])
        })?;
        let latency = started.elapsed();
        self.outcome.missing += missing;
        self.outcome.wrong += wrong;
        Ok(latency)
    }

    /// Deletes items in one call, and puts them again, which does not count.
    pub(super) fn delete(&mut self, count: u64) -> Result<Duration> {
        self.choose_all(count);
        let run = self.run;
        for (item, key) in self.chosen.iter().zip(&mut self.keys) {
            run.items.key(*item, key);
        }
        let keys = self.keys.get(..count as usize).unwrap_or(&self.keys);
        let started = Instant::now();
        match keys {
            [key] => run.keyspace.delete(key)?,
            keys => run.keyspace.delete_many(keys)?,
        }
        let latency = started.elapsed();
        self.write_chosen()?;
        Ok(latency)
    }

    /// Lists a group's keys, backwards or without values.
    pub(super) fn scan_keys(&mut self, backwards: bool) -> Result<Duration> {
        let run = self.run;
        let group = self.choose() / run.group;
        let Some(prefix) = self.keys.first_mut() else { return Ok(Duration::ZERO) };
        prefix.clear();
        run.items.prefix(group, prefix);
        let (mut found, mut wrong) = (0u64, 0u64);
        let mut note = |key: &[u8]| {
            wrong += u64::from(!key.starts_with(prefix));
            found += 1;
        };
        let started = Instant::now();
        if backwards {
            for entry in run.keyspace.prefix(&*prefix)?.rev() {
                note(&entry?.0);
            }
        } else {
            for key in run.keyspace.prefix(&*prefix)?.keys() {
                note(&key?);
            }
        }
        let latency = started.elapsed();
        self.outcome.wrong += wrong;
        self.note_scanned(group, found, u64::MAX);
        Ok(latency)
    }

    /// Notes how many items a scan of a group has found, which ends after `limit`.
    pub(super) fn note_scanned(&mut self, group: u64, found: u64, limit: u64) {
        let Run { load, population, ordered, group: members, .. } = *self.run;
        // How many a group holds is only known while nothing is inserted into a complete fill.
        let settled = !load.workload.inserts() && population == ordered;
        let members = members.min(ordered.saturating_sub(group * members)).min(limit);
        let expected = if settled { members } else { 1 };
        self.outcome.missing += expected.saturating_sub(found);
        self.outcome.unexpected += if settled { found.saturating_sub(expected) } else { 0 };
        self.outcome.scanned_items += found;
    }
}
