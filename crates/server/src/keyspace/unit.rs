//! A unit of work: one command, the commands of a pipeline, or a transaction.
//!
//! The idea: whatever its commands are, a unit locks its keys, reads all of them together by one `multi_get`,
//! lets the commands work on them in memory, and writes what has changed in one batch. So a pipeline costs
//! one round of reads and one commit, a key that it changes many times is written once, and MULTI/EXEC is
//! nothing else. Source: ours; the engine's `multi_get` and its group commit are what it is made for.
//!
//! Invariants: commands see one time throughout; nothing is stored unless all of it is; locks are held until
//! it is visible.

use super::encoding;
use super::state::{self, KeyState, PackLimits, Value};
use super::store::{Database, Store};
use super::tally::Change;
use super::{Body, Element, Kind};
use crate::failure::{Failure, Outcome};
use foldhash::fast::RandomState;
use siltstone::{Batch, Keyspace};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Requests that are carried out without another thread have so many bytes together, at most, and so have
/// the values that they work on.
pub const MOST_CACHED_BYTES: usize = 64 << 10;

/// Whether memory holds what commands on some keys may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// All of it, and it has been read.
    All,
    /// Some of it may be on the device.
    No,
    /// It may, but there is more to do than a look: much to read, or a database to be made.
    Much,
}

/// Keys of one database that a unit works on.
struct Touched {
    number: usize,
    database: Option<Arc<Database>>,
    keys: HashMap<Vec<u8>, KeyState, RandomState>,
}

impl Touched {
    /// Those of `keys` that can be stored and have not been read, in order, each once.
    fn missing<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<&'k [u8]> {
        let is_missing = |key: &&[u8]| key.len() <= encoding::MAX_KEY_BYTES && !self.keys.contains_key(*key);
        let mut missing: Vec<_> = keys.filter(is_missing).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

/// Work on some keys that is committed at once.
pub struct Unit<'a> {
    /// The store.
    pub store: &'a Store,
    /// Milliseconds since 1970, for all commands of the unit.
    pub now: u64,
    /// How large collections may be in one item.
    pub limits: PackLimits,
    /// Whether it only reads: then nothing is stored, not even that elements have expired.
    pub is_read_only: bool,
    touched: Vec<Touched>,
}

impl<'a> Unit<'a> {
    /// A unit that begins now. The caller has locked its keys.
    pub fn new(store: &'a Store, limits: PackLimits) -> Self {
        Self { store, now: crate::now_ms(), limits, is_read_only: false, touched: Vec::new() }
    }

    fn database(&mut self, number: usize) -> Outcome<&mut Touched> {
        if let Some(at) = self.touched.iter().position(|touched| touched.number == number) {
            return self.touched.get_mut(at).ok_or(Failure::coded("ERR DB index is out of range"));
        }
        let database = self.store.database(number);
        self.touched.push(Touched { number, database, keys: HashMap::default() });
        self.touched.last_mut().ok_or(Failure::coded("ERR DB index is out of range"))
    }

    /// The items of database `number`, which is made where it is not there.
    ///
    /// # Errors
    /// Those of making it.
    pub fn items(&mut self, number: usize) -> Outcome<Keyspace> {
        let store = self.store;
        let touched = self.database(number)?;
        if touched.database.is_none() {
            touched.database = Some(store.database_or_new(number)?);
        }
        let database = touched.database.as_ref();
        Ok(database.ok_or(Failure::coded("ERR DB index is out of range"))?.items.clone())
    }

    /// The prefix of the group of `key` in database `number`, which is made where it is not there.
    ///
    /// # Errors
    /// Those of making it; where the key is too long.
    pub fn prefix(&mut self, number: usize, key: &[u8]) -> Outcome<Vec<u8>> {
        self.items(number)?;
        let layout = self.database(number)?.database.as_ref().map(|database| database.layout);
        state::prefix_of(layout.unwrap_or_default(), key)
    }

    /// Reads keys of one database together.
    ///
    /// # Errors
    /// Those of reading.
    pub fn load<'k>(&mut self, number: usize, keys: impl Iterator<Item = &'k [u8]>) -> Outcome {
        let now = self.now;
        let touched = self.database(number)?;
        let Some(database) = &touched.database else { return Ok(()) };
        let wanted = touched.missing(keys);
        let prefixes: Vec<Vec<u8>> = wanted.iter().map(|key| database.layout.group(key)).collect();
        let values = match prefixes.as_slice() {
            [] => return Ok(()),
            [prefix] => vec![database.items.get(prefix)?],
            prefixes => database.items.multi_get(prefixes)?,
        };
        for ((key, prefix), value) in wanted.into_iter().zip(prefixes).zip(values) {
            touched.keys.insert(key.to_vec(), KeyState::read(&database.items, prefix, value, now)?);
        }
        Ok(())
    }

    /// The same, where memory holds all that commands on these keys may ask for, and that is little. Where a
    /// thread would wait for the device, or work for long, nothing is read.
    ///
    /// # Errors
    /// As [`Unit::load`].
    pub fn load_cached<'k>(
        &mut self,
        number: usize,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Outcome<Cached> {
        let now = self.now;
        let touched = self.database(number)?;
        let Some(database) = &touched.database else { return Ok(Cached::Much) };
        let wanted = touched.missing(keys);
        let prefixes: Vec<Vec<u8>> = wanted.iter().map(|key| database.layout.group(key)).collect();
        let Some(values) = database.items.multi_get_cached(&prefixes)? else {
            return Ok(Cached::No);
        };
        if values.iter().flatten().map(Vec::len).sum::<usize>() > MOST_CACHED_BYTES {
            return Ok(Cached::Much);
        }
        for ((key, prefix), value) in wanted.into_iter().zip(prefixes).zip(values) {
            touched.keys.insert(key.to_vec(), KeyState::read(&database.items, prefix, value, now)?);
        }
        Ok(Cached::All)
    }

    /// Reads `names` of the collection `key`, as [`Unit::load_elements`], where memory holds them; false
    /// where it does not, or, without names, where the collection has items of its own that may be asked for.
    ///
    /// # Errors
    /// Those of reading.
    pub fn load_elements_cached(&mut self, number: usize, key: &[u8], names: &[&[u8]]) -> Outcome<bool> {
        let touched = self.database(number)?;
        let Some(state) = touched.keys.get_mut(key).filter(|state| state.stored.is_large) else {
            return Ok(true);
        };
        if names.is_empty() {
            return Ok(false);
        }
        state.any_collection().map_or(Ok(true), |collection| collection.prefetch_cached(names))
    }

    /// The key `key` of database `number`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn key(&mut self, number: usize, key: &[u8]) -> Outcome<&mut KeyState> {
        let (now, store) = (self.now, self.store);
        let touched = self.database(number)?;
        if !touched.keys.contains_key(key) {
            if touched.database.is_none() {
                touched.database = store.database(number);
            }
            let state = match &touched.database {
                Some(database) => {
                    let prefix = state::prefix_of(database.layout, key)?;
                    let value = database.items.get(&prefix)?;
                    KeyState::read(&database.items, prefix, value, now)?
                }
                None => {
                    let database = store.database_or_new(number)?;
                    let prefix = state::prefix_of(database.layout, key)?;
                    let state = KeyState::read(&database.items, prefix, None, now)?;
                    touched.database = Some(database);
                    state
                }
            };
            touched.keys.insert(key.to_vec(), state);
        }
        touched.keys.get_mut(key).ok_or(Failure::coded("ERR the key was not read"))
    }

    /// Sees to a collection that has been changed: see [`KeyState::settle`].
    ///
    /// # Errors
    /// Those of making a database.
    pub fn settle(&mut self, number: usize, key: &[u8]) -> Outcome {
        let (items, limits) = (self.items(number)?, self.limits);
        self.key(number, key)?.settle(&items, &limits);
        Ok(())
    }

    /// Makes `key`, which is not there, a collection of `entries`: name, value and expiry.
    ///
    /// # Errors
    /// Those of reading.
    pub fn fill(
        &mut self,
        number: usize,
        key: &[u8],
        kind: Kind,
        entries: &[(Vec<u8>, Vec<u8>, u64)],
    ) -> Outcome {
        let (items, prefix) = (self.items(number)?, self.prefix(number, key)?);
        let is_large = entries.len() > self.limits.packed_elements;
        let state = self.key(number, key)?;
        let collection = state.collection_mut(kind)?;
        if is_large {
            // A packed one is searched from the front for each element.
            collection.unpack(&items, &prefix);
        }
        for (name, value, expires_at) in entries {
            collection.put(name, Element { value, expires_at: *expires_at })?;
        }
        state.is_changed = true;
        self.settle(number, key)
    }

    /// Reads elements of collections together, as far as they are large and have been read themselves.
    ///
    /// # Errors
    /// Those of reading.
    pub fn load_elements(&mut self, number: usize, key: &[u8], names: &[&[u8]]) -> Outcome {
        let touched = self.database(number)?;
        match touched.keys.get_mut(key).and_then(KeyState::any_collection) {
            Some(collection) => collection.prefetch(names),
            None => Ok(()),
        }
    }

    /// Keys of database `number` that the unit has read or changed, whether they are there or not.
    pub fn known(&self, number: usize) -> impl Iterator<Item = (&Vec<u8>, &KeyState)> {
        self.touched.iter().filter(move |touched| touched.number == number).flat_map(|touched| &touched.keys)
    }

    /// Writes what has changed, tells those who watch, and begins anew with nothing read.
    ///
    /// # Errors
    /// Those of the write, after which nothing has changed.
    pub fn commit(&mut self) -> Outcome {
        let touched = std::mem::take(&mut self.touched);
        if self.is_read_only
            || !touched.iter().any(|touched| touched.keys.values().any(|state| state.is_changed))
        {
            return Ok(());
        }
        let mut batch = Batch::new();
        let mut changes = Vec::with_capacity(touched.len());
        for touched in &touched {
            let Some(database) = &touched.database else { continue };
            let mut change = Change::default();
            for (key, state) in touched.keys.iter().filter(|(_, state)| state.is_changed) {
                write_key(&mut batch, database, key, state, self.now, &mut change)?;
            }
            change.commit(&mut batch, &database.counts)?;
            changes.push((Arc::clone(database), change));
        }
        if !batch.is_empty() {
            self.store.db.write(&batch, &self.store.write_options())?;
        }
        for (database, change) in &changes {
            self.store.applied(database, change);
        }
        let mut count = 0;
        for touched in &touched {
            for (key, _) in touched.keys.iter().filter(|(_, state)| state.is_changed) {
                self.store.watchers.changed(touched.number, key);
                count += 1;
            }
        }
        self.store.changes.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }
}

/// Adds what becomes of a key to `batch`.
fn write_key(
    batch: &mut Batch,
    database: &Database,
    key: &[u8],
    state: &KeyState,
    now: u64,
    change: &mut Change,
) -> Outcome {
    let Database { items, due, .. } = database;
    let stored = &state.stored;
    if stored.is_live {
        change.count(stored.expires_at, -1);
    }
    let is_same_group = matches!(state.value(), Value::Collection(collection)
        if matches!(&collection.body, Body::Group(group) if group.is_of_store()));
    if stored.is_large && !is_same_group {
        batch.delete_prefix(items, &state.prefix)?;
    }
    let is_past = state.expires_at > 0 && state.expires_at <= now;
    let Some(item) = state.head_item().filter(|_| !is_past) else {
        if stored.is_large && is_same_group {
            batch.delete_prefix(items, &state.prefix)?;
        } else if stored.has_head && !stored.is_large {
            batch.delete(items, &state.prefix)?;
        }
        return Ok(());
    };
    change.count(state.expires_at, 1);
    let group = match state.value() {
        Value::Collection(collection) => match &collection.body {
            Body::Group(group) => Some(group),
            Body::Packed(_) => None,
        },
        _ => None,
    };
    // One item can be left to the engine to expire; a group can't, or its elements would outlive its head.
    match (group, state.expires_at) {
        (None, at) if at > 0 => {
            batch.put_with_ttl(items, &state.prefix, item, Duration::from_millis(at - now))?;
        }
        _ => batch.put(items, &state.prefix, item)?,
    }
    if let Some(group) = group {
        group.commit(batch)?;
    }
    let soonest = match state.value() {
        Value::Collection(collection) => collection.soonest(),
        _ => 0,
    };
    if soonest > 0 && (soonest != stored.soonest || !stored.is_live) {
        batch.put(due, Database::due_key(soonest, key), b"")?;
    }
    if group.is_some() && state.expires_at > 0 && (state.expires_at != stored.expires_at || !stored.is_large)
    {
        batch.put(due, Database::due_key(state.expires_at, key), b"")?;
    }
    Ok(())
}
