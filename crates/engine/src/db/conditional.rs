//! Writes that depend on what is there: read, decide, write, and again where another write came between.
//!
//! The idea: the writer reads a key at a moment that is held, decides, and hands its write to the commit
//! queue with a [`Condition`]: nobody has written the key since. Whoever commits checks that, and where it
//! does not hold nothing is written and the writer begins anew. So no lock is held while a key is read or the
//! caller decides, and of several writers of a key one always gets through.
//!
//! Source: optimistic concurrency control (Kung and Robinson, 1981), with one key for a read set; what reads
//! several is a [transaction](super::transaction). Invariants: what the caller saw is what its write
//! replaces; an item that is replaced keeps its life unless the caller says otherwise.

use super::catalog::PinnedKeyspace;
use super::keyspace::Keyspace;
use super::read::{Found, Moment};
use super::write::operations::Operations;
use super::write::{Committed, Condition};
use crate::error::{Error, Result};
use crate::options::{Durability, WriteOptions};
use crate::value::{Value, Wants};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What a key has when it is [updated](Keyspace::update_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Old<'a> {
    /// The value.
    pub value: &'a [u8],
    /// For how long it will still be there; `None` where it does not expire.
    pub remaining: Option<Duration>,
}

/// What becomes of a key that is [updated](Keyspace::update_with).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// It stays as it is; nothing is written.
    Keep,
    /// It gets this value, and keeps its time to live: what was to expire still does, at the same moment.
    Put(Vec<u8>),
    /// It gets this value, which is gone after so long.
    PutWithTtl(Vec<u8>, Duration),
    /// It gets this value, which does not expire.
    PutForever(Vec<u8>),
    /// It is deleted.
    Delete,
}

/// How a [`Keyspace::compare_and_set`] went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareAndSet {
    /// The key had the expected value, and has the new one.
    Set,
    /// The key has another value, and nothing was done.
    Differs {
        /// What it has.
        present: Option<Vec<u8>>,
    },
}

impl CompareAndSet {
    /// Whether the key has the new value.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// assert!(items.compare_and_set("a", None, Some(b"1"))?.is_set());
    /// assert!(!items.compare_and_set("a", None, Some(b"2"))?.is_set());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_set(&self) -> bool {
        matches!(self, Self::Set)
    }
}

/// What a key has at a moment, and the condition that this is still so.
struct Seen {
    found: Found,
    condition: Condition,
}

impl PinnedKeyspace {
    /// The condition that nobody has written `key` since it was read at `seen`.
    pub(super) fn unchanged(&self, key: &[u8], seen: u64) -> Condition {
        let (keyspace, builds) = (Arc::clone(&self.keyspace), self.view.builds);
        Condition { keyspace, key: key.to_vec(), seen, builds, found_in: 0 }
    }
}

impl Keyspace {
    /// Reads `key`, lets `change` make a new value of the old one, and writes it, atomically: no other write
    /// to the key comes between. `None` deletes. If one did, `change` runs again, so it must not rely on
    /// running once.
    ///
    /// An item that was to expire still does, at the same moment; [`Keyspace::update_with`] can choose.
    /// Returns the new value. Unlike a put, this tells the store whether the key is new (SlimDB's non-blind
    /// write).
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let counters = db.create_keyspace("counters", siltstone::KeyspaceOptions::default())?;
    /// let add_one = |old: Option<&[u8]>| {
    ///     let old = old.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    ///     Some((old + 1).to_le_bytes().to_vec())
    /// };
    /// counters.update(b"visits", add_one)?;
    /// assert_eq!(counters.update(b"visits", add_one)?, Some(2u64.to_le_bytes().to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`] and [`Keyspace::put`].
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let durability = self.store.env.options.durability;
        self.change(key.as_ref(), durability, |old| {
            Ok(change(old.map(|old| old.value)).map_or(Update::Delete, Update::Put))
        })
    }

    /// As [`Keyspace::update`], for changes that look at the time to live or set one, that may leave the item
    /// as it is, that may fail, or that have to be as durable as `options` say.
    ///
    /// Returns the value that the key has afterwards. Where `change` fails, nothing is written, and its error
    /// is returned.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use siltstone::{Durability, Update, WriteOptions};
    /// use std::time::Duration;
    ///
    /// let tokens = db.create_keyspace("tokens", siltstone::KeyspaceOptions::default())?;
    /// tokens.put_with_ttl(b"t1", b"Ada", Duration::from_secs(60))?;
    /// let synced = WriteOptions { durability: Some(Durability::Synced) };
    /// let renewed = tokens.update_with(b"t1", &synced, |old| match old {
    ///     // What does not expire has no time left to compare, and stays as it is.
    ///     Some(old) if old.remaining.is_some_and(|left| left < Duration::from_secs(3600)) => {
    ///         Ok::<_, siltstone::Error>(Update::PutWithTtl(old.value.to_vec(), Duration::from_secs(3600)))
    ///     }
    ///     _ => Ok(Update::Keep),
    /// })?;
    /// assert_eq!(renewed.as_deref(), Some(&b"Ada"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`] and [`Keyspace::put`], and that of `change`.
    pub fn update_with<E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
        change: impl FnMut(Option<Old<'_>>) -> std::result::Result<Update, E>,
    ) -> std::result::Result<Option<Vec<u8>>, E> {
        let durability = options.durability.unwrap_or(self.store.env.options.durability);
        self.change(key.as_ref(), durability, change)
    }

    fn change<E: From<Error>>(
        &self,
        key: &[u8],
        durability: Durability,
        mut change: impl FnMut(Option<Old<'_>>) -> std::result::Result<Update, E>,
    ) -> std::result::Result<Option<Vec<u8>>, E> {
        loop {
            let Seen { found, condition } = self.see(key, Wants::Copy)?;
            let expires_at_ms = if found.value.is_some() { found.expires_at_ms } else { 0 };
            let now_ms = self.store.env.now_ms();
            let remaining =
                (expires_at_ms > 0).then(|| Duration::from_millis(expires_at_ms.saturating_sub(now_ms)));
            let old = found.value.map(Value::into_vec);
            let (new, expires_at_ms) = match change(old.as_deref().map(|value| Old { value, remaining }))? {
                Update::Keep => return Ok(old),
                Update::Delete if old.is_none() => return Ok(None),
                Update::Delete => (None, 0),
                Update::Put(value) => (Some(value), expires_at_ms),
                Update::PutWithTtl(value, ttl) => (Some(value), self.expiry_after(ttl)),
                Update::PutForever(value) => (Some(value), 0),
            };
            if self.write_seen(condition, new.as_deref(), expires_at_ms, durability)? {
                return Ok(new);
            }
        }
    }

    /// Sets `key` to `value` unless it has one. Returns whether it was new.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let seen = db.create_keyspace("seen", siltstone::KeyspaceOptions::default())?;
    /// assert!(seen.insert_if_absent("https://example.org/", "")?);
    /// assert!(!seen.insert_if_absent("https://example.org/", "")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`] and [`Keyspace::put`].
    pub fn insert_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.insert_bytes(key.as_ref(), value.as_ref())
    }

    fn insert_bytes(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        loop {
            let Seen { found, condition } = self.see(key, Wants::Presence)?;
            if found.value.is_some() {
                return Ok(false);
            }
            if self.write_seen(condition, Some(value), 0, self.store.env.options.durability)? {
                return Ok(true);
            }
        }
    }

    /// Sets `key` to `new` if it has the value `expected`; `None` stands for no value, both ways. An item
    /// that was to expire still does, at the same moment.
    ///
    /// | `expected` | `new` | what it does |
    /// |---|---|---|
    /// | `None` | `Some` | adds the key, if it has no value |
    /// | `Some` | `Some` | replaces the value, if it is this one |
    /// | `Some` | `None` | deletes the key, if it has this value |
    /// | `None` | `None` | says whether the key has no value, and writes nothing |
    ///
    /// An empty value is a value: `Some(b"")` is not `None`. What has expired is no value.
    ///
    /// Values are slices, and not anything that has bytes as keys are: of a plain `None` the compiler could
    /// not tell which type it lacks. Give `Some(text.as_bytes())` for a string.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use siltstone::CompareAndSet;
    ///
    /// let jobs = db.create_keyspace("jobs", siltstone::KeyspaceOptions::default())?;
    /// // Added, where there was nothing.
    /// assert!(jobs.compare_and_set("j1", None, Some(b"queued"))?.is_set());
    /// // Replaced, and not again: the value is another by then.
    /// assert!(jobs.compare_and_set("j1", Some(b"queued"), Some(b"running"))?.is_set());
    /// let late = jobs.compare_and_set("j1", Some(b"queued"), Some(b"running"))?;
    /// assert_eq!(late, CompareAndSet::Differs { present: Some(b"running".to_vec()) });
    /// // Deleted.
    /// assert!(jobs.compare_and_set("j1", Some(b"running"), None)?.is_set());
    /// // Only asked: there is no value. One that is empty would differ.
    /// assert!(jobs.compare_and_set("j1", None, None)?.is_set());
    /// jobs.put("j1", "")?;
    /// assert_eq!(
    ///     jobs.compare_and_set("j1", None, None)?,
    ///     CompareAndSet::Differs { present: Some(Vec::new()) }
    /// );
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`] and [`Keyspace::put`].
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSet> {
        self.compare_and_set_bytes(key.as_ref(), expected, new)
    }

    fn compare_and_set_bytes(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSet> {
        loop {
            let Seen { found, condition } = self.see(key, Wants::Copy)?;
            if found.value.as_ref().map(Value::bytes) != expected {
                return Ok(CompareAndSet::Differs { present: found.value.map(Value::into_vec) });
            }
            if expected.is_none() && new.is_none() {
                return Ok(CompareAndSet::Set);
            }
            let expires_at_ms = if expected.is_some() { found.expires_at_ms } else { 0 };
            if self.write_seen(condition, new, expires_at_ms, self.store.env.options.durability)? {
                return Ok(CompareAndSet::Set);
            }
        }
    }

    /// Returns the value of `key`; where it has none, sets it to what `make` returns, and returns that.
    /// `make` runs at most once; another writer may set the key meanwhile, whose value is returned then. It
    /// makes a `Vec`, since that is what is returned.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let sums = db.create_keyspace("sums", siltstone::KeyspaceOptions::default())?;
    /// assert_eq!(sums.get_or_insert_with(b"2+2", || b"4".to_vec())?, b"4");
    /// assert_eq!(sums.get_or_insert_with(b"2+2", || unreachable!("it is known"))?, b"4");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`] and [`Keyspace::put`].
    pub fn get_or_insert_with(
        &self,
        key: impl AsRef<[u8]>,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>> {
        let key = key.as_ref();
        // One that is there needs no moment held.
        if let Some(value) = self.get(key)? {
            return Ok(value);
        }
        let made = make();
        loop {
            let Seen { found, condition } = self.see(key, Wants::Copy)?;
            if let Some(value) = found.value {
                return Ok(value.into_vec());
            }
            if self.write_seen(condition, Some(&made), 0, self.store.env.options.durability)? {
                return Ok(made);
            }
        }
    }

    /// Adds those of `items`, keys with their values, whose keys have no value yet, all together or none.
    /// Returns of each, in their order, whether its key was new. Of items with the same key the first counts.
    ///
    /// All keys are looked up in one submission, as by [`Keyspace::contains_many`], and what is new is
    /// written in one atomic batch. Where another writer came between, both are done again; so a call should
    /// hold hundreds or thousands of items, not millions.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let seen = db.create_keyspace("seen", siltstone::KeyspaceOptions::default())?;
    /// assert_eq!(seen.add_many([("a", "1"), ("b", "1"), ("a", "2")])?, [true, true, false]);
    /// // A set of keys needs no values.
    /// assert_eq!(seen.add_many(["b", "c"].map(|key| (key, "")))?, [false, true]);
    /// assert_eq!(seen.get("a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`] and [`Keyspace::put`]; nothing is added then.
    pub fn add_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        items: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Vec<bool>> {
        let items: Vec<(K, V)> = items.into_iter().collect();
        let durability = self.store.env.options.durability;
        loop {
            let (pinned, seen, mut is_new) = self.absent(items.iter().map(|(key, _)| key.as_ref()))?;
            let (mut operations, mut conditions) = (Operations::default(), Vec::new());
            let mut added = HashSet::new();
            for ((key, value), is_new) in items.iter().zip(&mut is_new) {
                let (key, value) = (key.as_ref(), value.as_ref());
                *is_new &= added.insert(key);
                if *is_new {
                    operations.put(self.store_id(), self.current(), key, value, 0)?;
                    conditions.push(pinned.unchanged(key, seen));
                }
            }
            if self.store.write(Arc::new(operations), durability, conditions)? == Committed::Yes {
                return Ok(is_new);
            }
        }
    }

    /// Removes `keys`, all together or none; missing ones are fine.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let seen = db.create_keyspace("seen", siltstone::KeyspaceOptions::default())?;
    /// seen.add_many([("a", ""), ("b", "")])?;
    /// seen.delete_many(&["a", "c"])?;
    /// assert_eq!(seen.contains_many(&["a", "b", "c"])?, [false, true, false]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`]; nothing is removed then.
    pub fn delete_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        let mut operations = Operations::default();
        for key in keys {
            operations.delete(self.store_id(), self.current(), key.as_ref())?;
        }
        self.write(operations)
    }

    /// Returns of each key whether it has no value, and the view and the sequence number that say so.
    fn absent<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(PinnedKeyspace, u64, Vec<bool>)> {
        let pinned = self.pin()?;
        let at = Moment::of(&pinned);
        let encoded = keys.map(|key| at.keyspace.encode(key)).collect::<Result<Vec<_>>>()?;
        let mut is_absent = vec![false; encoded.len()];
        self.store.searcher.find_many(at, &encoded, Wants::Presence, |number, found| {
            if let Some(is_absent) = is_absent.get_mut(number) {
                *is_absent = found.value.is_none();
            }
        })?;
        let (pinned, point) = pinned;
        Ok((pinned, point.sequence, is_absent))
    }

    /// Returns what `key` has now, with the condition that nobody writes it meanwhile.
    fn see(&self, key: &[u8], wants: Wants) -> Result<Seen> {
        let pinned = self.pin()?;
        let at = Moment::of(&pinned);
        let found = self.store.searcher.find(at, &at.keyspace.encode(key)?, wants)?;
        let condition = Condition { found_in: found.table, ..pinned.0.unchanged(key, pinned.1.sequence) };
        Ok(Seen { found, condition })
    }

    /// Sets the key of `condition` to `new`, or deletes it, unless the condition is violated. Returns whether
    /// it was done.
    fn write_seen(
        &self,
        condition: Condition,
        new: Option<&[u8]>,
        expires_at_ms: u64,
        durability: Durability,
    ) -> Result<bool> {
        let (mut operations, key) = (Operations::default(), &condition.key);
        match new {
            Some(value) => operations.put(self.store_id(), self.current(), key, value, expires_at_ms)?,
            None => operations.delete(self.store_id(), self.current(), key)?,
        }
        Ok(self.store.write(Arc::new(operations), durability, vec![condition])? == Committed::Yes)
    }
}
