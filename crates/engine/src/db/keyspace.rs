//! Keyspaces: the handle through which users read and write, each method a few lines.

use super::Handle;
use super::batch::Batch;
use super::read::Found;
use super::scan::{Iter, Wanted};
use super::snapshot::Held;
use super::store::{KeyspaceInner, Store, View};
use super::write::{Committed, Condition};
use crate::entry::Span;
use crate::error::{Error, Result};
use crate::stats::KeyspaceStats;
use siltstone_design::{Design, Digest, EncodedKey, Encoder, KeyError, Schema};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

/// A named set of keys within a store, with a schema and a design of its own. Clones are handles to the same one.
#[derive(Clone)]
pub struct Keyspace {
    pub(super) handle: Arc<Handle>,
    pub(super) inner: Arc<KeyspaceInner>,
}

impl Keyspace {
    /// The keyspace's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How its keys are ordered.
    pub fn schema(&self) -> Schema {
        *self.inner.encoder.schema()
    }

    /// Its layout.
    pub fn design(&self) -> Design {
        self.inner.design.clone()
    }

    /// What it has done and holds.
    pub fn stats(&self) -> KeyspaceStats {
        self.inner.stats()
    }

    fn store(&self) -> &Arc<Store> {
        &self.handle.store
    }

    pub(super) fn store_id(&self) -> u64 {
        self.store().id
    }

    pub(super) fn id(&self) -> u64 {
        self.inner.id
    }

    pub(super) fn encoder(&self) -> &Encoder {
        &self.inner.encoder
    }

    /// An error if the keyspace has been dropped.
    pub(super) fn check_exists(&self) -> Result<()> {
        if self.inner.is_dropped() {
            return Err(Error::invalid(format_args!("keyspace {:?} has been dropped", self.name())));
        }
        Ok(())
    }

    /// Where `key` goes, if it can be written.
    pub(super) fn place_for_write<'a>(&self, key: &'a [u8]) -> Result<EncodedKey<'a>> {
        self.check_exists()?;
        Ok(self.encoder().encode(key)?)
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.store().disk.now_ms()
    }

    /// The newest value of `key`.
    ///
    /// # Errors
    /// `InvalidInput` where the key does not fit the schema, `Corruption` where its page is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = self.encoder().encode(key)?;
        self.store().get_newest(&self.inner, &key)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of `keys`, in their order, all of one moment. What has to come from the device is read at the same time,
    /// a page that several keys need once.
    ///
    /// # Errors
    /// As [`Keyspace::get`], for the first key that fails.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let encoded: std::result::Result<Vec<_>, KeyError> =
            keys.iter().map(|key| self.encoder().encode(key.as_ref())).collect();
        let (view, held) = self.pin();
        self.store().get_many(&self.inner, &view, held.sequence, &encoded?)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidInput` where the key does not fit the schema or the value is over 1 GiB; those of [`Db::write`](crate::Db::write).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(self, key, value)?;
        self.write(batch)
    }

    /// Sets `key` to `value`, which is gone after `ttl`.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        let mut batch = Batch::new();
        batch.put_with_ttl(self, key, value, ttl)?;
        self.write(batch)
    }

    /// Removes `key`; a missing key is fine.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(self, key)?;
        self.write(batch)
    }

    /// Removes every key with `prefix` in constant time; compaction frees the space.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted or no key of it can have this prefix.
    pub fn delete_prefix(&self, prefix: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_prefix(self, prefix)?;
        self.write(batch)
    }

    /// Reads `key`, lets `change` make a new value of the old one, and writes it, atomically: no other write to the key
    /// comes between. `None` deletes. If one did, `change` runs again, so it must not rely on running once.
    ///
    /// Returns the new value. Unlike a put, this tells the store whether the key is new (SlimDB's non-blind write).
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
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let encoded = self.encoder().encode(key)?;
        loop {
            let (view, held) = self.pin();
            let seen = held.sequence;
            let Found { value: old, table: found_in } =
                self.store().find(&self.inner, &view, seen, &encoded)?;
            drop((view, held));
            let new = change(old.as_deref());
            let mut batch = Batch::new();
            match &new {
                Some(value) => batch.put(self, key, value)?,
                None if old.is_none() => return Ok(None),
                None => batch.delete(self, key)?,
            }
            let keyspace = Arc::clone(&self.inner);
            let condition = Condition { keyspace, key: key.to_vec(), seen, found_in };
            let durability = self.store().options.durability;
            if self.store().write(batch, durability, Some(condition))? == Committed::Yes {
                return Ok(new);
            }
        }
    }

    fn write(&self, batch: Batch) -> Result<()> {
        self.store().write(batch, self.store().options.durability, None).map(|_| ())
    }

    /// Every item whose key has `prefix`: in suffix order, or in the order of suffix hashes if the schema hashes them.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted or no key of it can have this prefix.
    pub fn prefix(&self, prefix: &[u8]) -> Result<Iter> {
        self.prefix_at(prefix, Bound::Unbounded, Bound::Unbounded, self.pin())
    }

    /// The items whose key has `prefix` and whose suffix lies in `suffixes`, in suffix order.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace does not keep suffixes in order or no key of it can have this prefix.
    pub fn prefix_range(&self, prefix: &[u8], suffixes: impl RangeBounds<Vec<u8>>) -> Result<Iter> {
        self.schema().check_prefix(prefix)?;
        if !self.schema().is_ordered() {
            return Err(KeyError::NotOrdered.into());
        }
        self.prefix_at(prefix, suffixes.start_bound().cloned(), suffixes.end_bound().cloned(), self.pin())
    }

    /// Every item of the keyspace, in the store's order.
    ///
    /// # Errors
    /// Those of reading come with the items.
    pub fn iter(&self) -> Result<Iter> {
        Ok(self.iter_at(self.pin()))
    }

    pub(super) fn iter_at(&self, pinned: (Arc<View>, Held)) -> Iter {
        let (handle, inner) = (Arc::clone(&self.handle), Arc::clone(&self.inner));
        Iter::new(handle, inner, pinned, Span::ALL, Wanted::Everything)
    }

    pub(super) fn prefix_at(
        &self,
        prefix: &[u8],
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
        pinned: (Arc<View>, Held),
    ) -> Result<Iter> {
        let hi = self.encoder().encode_prefix(prefix)?;
        let mut span = Span::of_hi(hi, hi);
        if let Bound::Included(suffix) | Bound::Excluded(suffix) = &from {
            span.first = Digest { hi, lo: self.encoder().encode_suffix_bound(suffix)? };
        }
        if let Bound::Included(suffix) | Bound::Excluded(suffix) = &to {
            span.last = Digest { hi, lo: self.encoder().encode_suffix_bound(suffix)? };
        }
        let wanted = Wanted::Group { prefix: prefix.to_vec(), from, to };
        Ok(Iter::new(Arc::clone(&self.handle), Arc::clone(&self.inner), pinned, span, wanted))
    }

    /// A view and a sequence number that belong together.
    pub(super) fn pin(&self) -> (Arc<View>, Held) {
        let _switch = self.store().switch.lock();
        (self.inner.view.load_full(), Held::now(self.store()))
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name()).finish_non_exhaustive()
    }
}
