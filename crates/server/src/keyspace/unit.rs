//! A unit of work: one command, the commands of a pipeline, or a transaction.
//!
//! The idea: whatever its commands are, a unit locks its keys, reads all of them together, those that were
//! not used lately (`recent.rs`) by one `multi_get`, lets the commands work on them in memory, and writes
//! what has changed in one batch. So a pipeline costs one round of reads and one commit, a key that it
//! changes many times is written once, and MULTI/EXEC is nothing else. Source: ours; the engine's `multi_get`
//! and its group commit are what it is made for.
//!
//! Invariants: commands see one time throughout; nothing is stored unless all of it is; locks are held until
//! it is visible.

use super::encoding;
use super::recent::{Item, Owner, Ticket};
use super::state::{self, KeyState, PackLimits, Value};
use super::store::{Database, Store};
use super::tally::Change;
use super::{Element, Group, Kind};
use crate::failure::{Failure, Outcome};
use foldhash::fast::RandomState;
use siltstone::Batch;
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
    /// Whether one of them is a large collection.
    has_large: bool,
}

/// Heads to read: their keys in order, each once, with tickets to keep them.
type Missing<'k> = Vec<(&'k [u8], Ticket)>;

impl Touched {
    /// Learns what heads `keys` have that were used last; those of the others have to be read. Keys that
    /// can't be stored are left out.
    fn recall<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone, now: u64) -> Outcome<Missing<'k>> {
        let Some(database) = self.database.clone() else { return Ok(Vec::new()) };
        let mut missing = Vec::new();
        let count = keys.clone().count();
        if count > 1 {
            self.keys.reserve(count);
            database.recent.prefetch(database.owner, keys.clone());
        }
        for key in keys {
            if key.len() > encoding::MAX_KEY_BYTES || self.keys.contains_key(key) {
                continue;
            }
            match database.recall(key) {
                Ok(item) => self.learn(&database, key, item, now)?,
                Err(ticket) => missing.push((key, ticket)),
            }
        }
        missing.sort_unstable_by_key(|(key, _)| *key);
        missing.dedup_by_key(|(key, _)| *key);
        Ok(missing)
    }

    /// Learns what the store holds of keys that it was asked for.
    fn keep(&mut self, missing: Missing<'_>, values: Vec<Option<Vec<u8>>>, now: u64) -> Outcome {
        let Some(database) = self.database.clone() else { return Ok(()) };
        for ((key, ticket), value) in missing.into_iter().zip(values) {
            let item = database.keep(ticket, key, value);
            self.learn(&database, key, item, now)?;
        }
        Ok(())
    }

    fn learn(&mut self, database: &Arc<Database>, key: &[u8], item: Item, now: u64) -> Outcome {
        let state = KeyState::read(database, key, item, now)?;
        self.has_large |= state.stored.is_large;
        self.keys.insert(key.to_vec(), state);
        Ok(())
    }

    /// Keys that have been changed.
    fn changed(&self) -> impl Iterator<Item = (&Vec<u8>, &KeyState)> {
        self.keys.iter().filter(|(_, state)| state.is_changed)
    }

    /// Keeps what has been committed among the items that were used last.
    fn remember(&self) {
        let Some(database) = &self.database else { return };
        let mut item = Vec::new();
        for (key, state) in self.changed() {
            let is_there = state.head_item(&mut item);
            let group = state.group().filter(|_| is_there);
            let elements = group.map_or(Owner::NOBODY, |group| group.owner);
            database.recent.put(database.owner, key, is_there.then_some(item.as_slice()), elements);
            if let Some(group) = group {
                group.remember();
            }
        }
    }
}

/// Forgets among the items that were used last what is written, unless the write is known to have succeeded.
struct Doubtful<'a>(&'a [Touched]);

impl Drop for Doubtful<'_> {
    fn drop(&mut self) {
        for touched in self.0 {
            let Some(database) = &touched.database else { continue };
            touched.changed().for_each(|(key, _)| database.forget(key));
        }
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
        let (database, keys) = (self.store.database(number), HashMap::default());
        self.touched.push(Touched { number, database, keys, has_large: false });
        self.touched.last_mut().ok_or(Failure::coded("ERR DB index is out of range"))
    }

    /// Database `number`, which is made where it is not there.
    ///
    /// # Errors
    /// Those of making it.
    pub fn database_or_new(&mut self, number: usize) -> Outcome<Arc<Database>> {
        let store = self.store;
        let touched = self.database(number)?;
        let database = match touched.database.take() {
            Some(database) => database,
            None => store.database_or_new(number)?,
        };
        Ok(Arc::clone(touched.database.insert(database)))
    }

    /// Reads keys of one database together.
    ///
    /// # Errors
    /// Those of reading.
    pub fn load<'k>(&mut self, number: usize, keys: impl Iterator<Item = &'k [u8]> + Clone) -> Outcome {
        let now = self.now;
        let touched = self.database(number)?;
        let Some(database) = touched.database.clone() else { return Ok(()) };
        let missing = touched.recall(keys, now)?;
        let heads: Vec<Vec<u8>> = missing.iter().map(|(key, _)| database.layout.group(key)).collect();
        if heads.is_empty() {
            return Ok(());
        }
        touched.keep(missing, super::collection::read_all(&database.items, &heads)?, now)
    }

    /// The same, where memory holds all that commands on these keys may ask for, and that is little. Where a
    /// thread would wait for the device, or work for long, nothing is read.
    ///
    /// # Errors
    /// As [`Unit::load`].
    pub fn load_cached<'k>(
        &mut self,
        number: usize,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Outcome<Cached> {
        let now = self.now;
        let touched = self.database(number)?;
        let Some(database) = touched.database.clone() else { return Ok(Cached::Much) };
        let missing = touched.recall(keys, now)?;
        if missing.is_empty() {
            return Ok(Cached::All);
        }
        let heads: Vec<Vec<u8>> = missing.iter().map(|(key, _)| database.layout.group(key)).collect();
        let Some(values) = database.items.multi_get_cached(&heads)? else { return Ok(Cached::No) };
        if values.iter().flatten().map(Vec::len).sum::<usize>() > MOST_CACHED_BYTES {
            return Ok(Cached::Much);
        }
        touched.keep(missing, values, now)?;
        Ok(Cached::All)
    }

    /// Whether any key of database `number` that has been read has items beside its head.
    pub fn has_large(&self, number: usize) -> bool {
        self.touched.iter().any(|touched| touched.number == number && touched.has_large)
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
        if !self.database(number)?.keys.contains_key(key) {
            self.read(number, key)?;
        }
        let touched = self.database(number)?;
        touched.keys.get_mut(key).ok_or(Failure::coded("ERR the key was not read"))
    }

    /// Reads one key; a database that is not there is made for it.
    fn read(&mut self, number: usize, key: &[u8]) -> Outcome {
        state::check_key(key)?;
        self.database_or_new(number)?;
        self.load(number, std::iter::once(key))
    }

    /// Sees to a collection that has been changed: see [`KeyState::settle`].
    ///
    /// # Errors
    /// Those of making a database.
    pub fn settle(&mut self, number: usize, key: &[u8]) -> Outcome {
        let (database, limits) = (self.database_or_new(number)?, self.limits);
        self.key(number, key)?.settle(&database, key, &limits);
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
        let database = self.database_or_new(number)?;
        let is_large = entries.len() > self.limits.packed_elements;
        let state = self.key(number, key)?;
        let collection = state.collection_mut(kind)?;
        if is_large {
            // A packed one is searched from the front for each element.
            collection.unpack(&database, key);
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
        if self.is_read_only || !touched.iter().any(|touched| touched.changed().next().is_some()) {
            return Ok(());
        }
        let mut batch = Batch::new();
        let mut changes = Vec::with_capacity(touched.len());
        for touched in &touched {
            let Some(database) = &touched.database else { continue };
            let (mut change, mut writing) = (Change::default(), Writing::default());
            for (key, state) in touched.changed() {
                writing.write_key(&mut batch, database, key, state, &mut change)?;
            }
            change.commit(&mut batch, &database.counts)?;
            changes.push((Arc::clone(database), change));
        }
        if !batch.is_empty() {
            let doubtful = Doubtful(&touched);
            self.store.db.write(&batch, &self.store.write_options())?;
            std::mem::forget(doubtful);
        }
        for (database, change) in &changes {
            self.store.applied(database, change);
        }
        let mut count = 0;
        for touched in &touched {
            touched.remember();
            for (key, _) in touched.changed() {
                self.store.watchers.changed(touched.number, key);
                count += 1;
            }
        }
        self.store.changes.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes keys into a batch.
#[derive(Default)]
struct Writing {
    /// The key and the value of a head.
    head: Vec<u8>,
    item: Vec<u8>,
}

impl Writing {
    /// Adds what becomes of a key to `batch`.
    fn write_key(
        &mut self,
        batch: &mut Batch,
        database: &Database,
        key: &[u8],
        state: &KeyState,
        change: &mut Change,
    ) -> Outcome {
        let Self { head, item } = self;
        let Database { items, due, .. } = database;
        let (stored, group) = (&state.stored, state.group());
        head.clear();
        database.layout.put_group(head, key);
        if stored.is_live {
            change.count(stored.expires_at, -1);
        }
        let is_same_group = group.is_some_and(Group::is_of_store);
        let is_there = state.head_item(item);
        if stored.is_large && !(is_same_group && is_there) {
            batch.delete_prefix(items, &*head)?;
        }
        if !is_there {
            if stored.has_head && !stored.is_large {
                batch.delete(items, &*head)?;
            }
            return Ok(());
        }
        change.count(state.expires_at, 1);
        // One item can be left to the engine to expire; a group can't, or its elements would outlive its
        // head.
        match (group, state.expires_at) {
            (None, at) if at > 0 => {
                batch.put_with_ttl(items, &*head, &*item, Duration::from_millis(at - state.now()))?;
            }
            _ => batch.put(items, &*head, &*item)?,
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
        let is_new_expiry = state.expires_at != stored.expires_at || !stored.is_large;
        if group.is_some() && state.expires_at > 0 && is_new_expiry {
            batch.put(due, Database::due_key(state.expires_at, key), b"")?;
        }
        Ok(())
    }
}
