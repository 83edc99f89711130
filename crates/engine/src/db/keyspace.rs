//! Keyspaces: the handle through which users read and write, each method a few lines.

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::snapshots::ReadPoint;
use super::catalog::view::View;
use super::env::StoreId;
use super::iter::{Iter, Wanted};
use super::store::Store;
use super::suffix_range::{SuffixBounds, SuffixRange};
use super::write::operations::Operations;
use crate::entry::Span;
use crate::error::Result;
use crate::stats::KeyspaceStats;
use crate::value::{Value, Wants};
use siltstone_design::{Design, Digest, KeyError, Schema};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// A named set of keys within a store, with a schema and a design of its own. Clones are handles to the same
/// one.
#[derive(Clone)]
pub struct Keyspace {
    pub(super) store: Arc<Store>,
    pub(super) inner: Arc<OpenKeyspace>,
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

    /// The name of the operator that carries out its merges; `None` where it takes none.
    pub fn merge_operator(&self) -> Option<&str> {
        self.inner.folder.as_ref().map(|folder| folder.name.as_str())
    }

    /// Its layout.
    pub fn design(&self) -> Design {
        self.inner.design.clone()
    }

    /// What it has done and holds.
    pub fn stats(&self) -> KeyspaceStats {
        self.inner.stats()
    }

    pub(super) fn store_id(&self) -> StoreId {
        self.store.env.store
    }

    /// Returns the wall-clock millisecond from which on an item is gone that lives for `ttl`.
    pub(super) fn expiry_after(&self, ttl: Duration) -> u64 {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.store.env.now_ms().saturating_add(ttl_ms).max(1)
    }

    /// Returns the newest value of `key`.
    ///
    /// # Errors
    /// `BadKey` where the key does not fit the schema, `Corruption` where its page is damaged, `Closed` after
    /// [`Db::close`](crate::Db::close).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_bytes(key.as_ref())
    }

    fn get_bytes(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.store.env.health.check_open()?;
        let key = self.inner.encoder.encode(key)?;
        Ok(self.store.searcher.get_newest(&self.inner, &key, Wants::Copy)?.map(Value::into_vec))
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `BadKey` where the key does not fit the schema, `InvalidInput` where the value is over 1 GiB,
    /// `NoKeyspace` where the keyspace has been dropped; those of [`Db::write`](crate::Db::write).
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until(key.as_ref(), value.as_ref(), 0)
    }

    fn put_until(&self, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        let mut operations = Operations::default();
        operations.put(self.store_id(), &self.inner, key, value, expires_at_ms)?;
        self.write(operations)
    }

    /// Sets `key` to `value`, which is gone after `ttl`.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()> {
        self.put_until(key.as_ref(), value.as_ref(), self.expiry_after(ttl))
    }

    /// Merges `operand` into the value of `key`, as the keyspace's
    /// [merge operator](crate::KeyspaceOptions::merge_operator) does it, without reading the value: what it
    /// comes to is found out when somebody reads it, or on the way down the levels.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let merge_operator = Some("add".to_owned());
    /// let hits = db.create_keyspace("hits", KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() })?;
    /// hits.merge(b"/index.html", 1u64.to_le_bytes())?;
    /// hits.merge(b"/index.html", 2u64.to_le_bytes())?;
    /// assert_eq!(hits.get(b"/index.html")?.as_deref(), Some(&3u64.to_le_bytes()[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace has no merge operator, or the operator can never apply the operand;
    /// as [`Keyspace::put`]. Where the operator fails later, reads of the key do, with `MergeFailed`.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_bytes(key.as_ref(), operand.as_ref())
    }

    fn merge_bytes(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let mut operations = Operations::default();
        operations.merge(self.store_id(), &self.inner, key, operand)?;
        self.write(operations)
    }

    /// Removes `key`; a missing key is fine.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_bytes(key.as_ref())
    }

    fn delete_bytes(&self, key: &[u8]) -> Result<()> {
        let mut operations = Operations::default();
        operations.delete(self.store_id(), &self.inner, key)?;
        self.write(operations)
    }

    /// Removes every key with `prefix` in constant time; compaction frees the space.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted, `BadKey` where no key of it can have this
    /// prefix; as [`Keyspace::put`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_bytes(prefix.as_ref())
    }

    fn delete_prefix_bytes(&self, prefix: &[u8]) -> Result<()> {
        let mut operations = Operations::default();
        operations.delete_prefix(self.store_id(), &self.inner, prefix)?;
        self.write(operations)
    }

    pub(super) fn write(&self, operations: Operations) -> Result<()> {
        let durability = self.store.env.options.durability;
        self.store.write(Arc::new(operations), durability, Vec::new()).map(|_| ())
    }

    /// Every item whose key has `prefix`: in suffix order, or in the order of suffix hashes if the schema
    /// hashes them.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted, `BadKey` where no key of it can have this
    /// prefix, `Closed` after [`Db::close`](crate::Db::close).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.prefix_at(prefix.as_ref(), SuffixBounds::ALL, self.pin()?)
    }

    /// The items whose key has `prefix` and whose suffix lies in `suffixes`, in suffix order.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace does not keep suffixes in order; as [`Keyspace::prefix`].
    pub fn prefix_range(&self, prefix: impl AsRef<[u8]>, suffixes: impl SuffixRange) -> Result<Iter> {
        self.prefix_range_at(prefix.as_ref(), suffixes.into_bounds(), self.pin()?)
    }

    pub(super) fn prefix_range_at(
        &self,
        prefix: &[u8],
        suffixes: SuffixBounds,
        pinned: (Arc<View>, ReadPoint),
    ) -> Result<Iter> {
        self.inner.encoder.check_prefix(prefix)?;
        if !self.schema().is_ordered() {
            return Err(KeyError::NotOrdered.into());
        }
        self.prefix_at(prefix, suffixes, pinned)
    }

    /// Every item of the keyspace, in the store's order.
    ///
    /// # Errors
    /// `Closed` after [`Db::close`](crate::Db::close). Those of reading come with the items.
    pub fn iter(&self) -> Result<Iter> {
        Ok(self.iter_at(self.pin()?))
    }

    pub(super) fn iter_at(&self, pinned: (Arc<View>, ReadPoint)) -> Iter {
        let (store, inner) = (Arc::clone(&self.store), Arc::clone(&self.inner));
        Iter::new(store, inner, pinned, Span::ALL, Wanted::Everything)
    }

    pub(super) fn prefix_at(
        &self,
        prefix: &[u8],
        suffixes: SuffixBounds,
        pinned: (Arc<View>, ReadPoint),
    ) -> Result<Iter> {
        let hi = self.inner.encoder.encode_prefix(prefix)?;
        let mut span = Span::of_hi(hi, hi);
        if let Bound::Included(suffix) | Bound::Excluded(suffix) = &suffixes.from {
            span.first = Digest { hi, lo: self.inner.encoder.encode_suffix_bound(suffix)? };
        }
        if let Bound::Included(suffix) | Bound::Excluded(suffix) = &suffixes.to {
            span.last = Digest { hi, lo: self.inner.encoder.encode_suffix_bound(suffix)? };
        }
        let wanted = Wanted::Group { prefix: prefix.to_vec(), suffixes };
        Ok(Iter::new(Arc::clone(&self.store), Arc::clone(&self.inner), pinned, span, wanted))
    }

    /// Pins a view and a sequence number that belong together.
    pub(super) fn pin(&self) -> Result<(Arc<View>, ReadPoint)> {
        self.store.env.health.check_open()?;
        Ok(self.store.catalog.pin(&self.inner))
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name()).finish_non_exhaustive()
    }
}
