//! Keyspaces: the handle through which users read and write, each method a few lines.

use super::catalog::PinnedKeyspace;
use super::catalog::keyspace::OpenKeyspace;
use super::catalog::snapshots::ReadPoint;
use super::env::StoreId;
use super::iter::{Iter, Walked, Wanted};
use super::store::Store;
use super::suffix_range::{SuffixBounds, SuffixRange};
use super::write::operations::Operations;
use crate::activity::Count;
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
    /// The keyspace as it was when the handle was made; another may have taken its place.
    opened: Arc<OpenKeyspace>,
}

/// A keyspace at a moment, and what holds that moment.
pub(super) type Held = (PinnedKeyspace, ReadPoint);

impl Keyspace {
    pub(super) fn new(store: &Arc<Store>, opened: Arc<OpenKeyspace>) -> Self {
        Self { store: Arc::clone(store), opened }
    }

    /// Returns the keyspace as it is now.
    #[inline]
    pub(super) fn current(&self) -> &Arc<OpenKeyspace> {
        self.opened.current()
    }

    /// The keyspace's name.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// assert_eq!(items.name(), "items");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.opened.name
    }

    /// How its keys are ordered.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// assert_eq!(items.schema(), siltstone::Schema::Point);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schema(&self) -> Schema {
        *self.current().encoder.schema()
    }

    /// The name of the operator that carries out its merges; `None` where it takes none.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// assert_eq!(items.merge_operator(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge_operator(&self) -> Option<&str> {
        self.opened.folder.as_ref().map(|folder| folder.name.as_str())
    }

    /// Its layout.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// assert_eq!(items.design(), siltstone::Options::default().default_design);
    /// # Ok(())
    /// # }
    /// ```
    pub fn design(&self) -> Design {
        Design::clone(&self.current().design())
    }

    /// What it has done and holds.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// items.get("a")?;
    /// let stats = items.stats();
    /// assert_eq!((stats.write_buffer_entries, stats.gets, stats.get_hits), (1, 1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> KeyspaceStats {
        self.store.keyspace_stats(self.current())
    }

    pub(super) fn store_id(&self) -> StoreId {
        self.store.env.store
    }

    /// Returns the wall-clock millisecond from which on an item is gone that lives for `ttl`.
    pub(super) fn expiry_after(&self, ttl: Duration) -> u64 {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.store.env.clock.note_use();
        self.store.env.now_ms().saturating_add(ttl_ms).max(1)
    }

    /// Returns the newest value of `key`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// assert_eq!(items.get("a")?.as_deref(), Some(&b"1"[..]));
    /// assert_eq!(items.get("b")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` where the key does not fit the schema, `Corruption` where its page is damaged, `Closed` after
    /// [`Db::close`](crate::Db::close).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_bytes(key.as_ref())
    }

    fn get_bytes(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.newest(key, Wants::Copy)?.map(Value::into_vec))
    }

    /// Returns the newest value of `key`.
    #[inline]
    pub(super) fn newest(&self, key: &[u8], wants: Wants) -> Result<Option<Value>> {
        self.store.env.health.check_open()?;
        loop {
            let keyspace = self.current();
            let found = self.store.searcher.get_newest(keyspace, &keyspace.encode(key)?, wants)?;
            // What another one has taken the place of may have been asked when it was empty by then.
            if !keyspace.is_replaced() {
                return Ok(found);
            }
        }
    }

    /// Sets `key` to `value`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// // Keys and values are anything that is bytes.
    /// items.put("a", 7u32.to_le_bytes())?;
    /// items.put(b"a", vec![8])?;
    /// assert_eq!(items.get("a")?, Some(vec![8]));
    /// # Ok(())
    /// # }
    /// ```
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
        operations.put(self.store_id(), self.current(), key, value, expires_at_ms)?;
        self.write(operations)
    }

    /// Sets `key` to `value`, which is gone after `ttl`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use std::time::Duration;
    ///
    /// items.put_with_ttl("session", "Ada", Duration::from_secs(1800))?;
    /// items.put_with_ttl("gone", "Bob", Duration::ZERO)?;
    /// assert!(items.contains("session")?);
    /// # Ok(())
    /// # }
    /// ```
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
        operations.merge(self.store_id(), self.current(), key, operand)?;
        self.write(operations)
    }

    /// Removes `key`; a missing key is fine.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// items.delete("a")?;
    /// items.delete("never there")?;
    /// assert_eq!(items.get("a")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_bytes(key.as_ref())
    }

    fn delete_bytes(&self, key: &[u8]) -> Result<()> {
        let mut operations = Operations::default();
        operations.delete(self.store_id(), self.current(), key)?;
        self.write(operations)
    }

    /// Removes every key with `prefix` in constant time; compaction frees the space.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let by_path = siltstone::KeyspaceOptions { schema: siltstone::Schema::delimited(b'/'), ..Default::default() };
    /// # let files = db.keyspace("files", by_path)?;
    /// files.put("tmp/a", "")?;
    /// files.put("tmp/b", "")?;
    /// files.delete_prefix("tmp/")?;
    /// assert_eq!(files.len_of("tmp/")?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted, `BadKey` where no key of it can have this
    /// prefix; as [`Keyspace::put`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_bytes(prefix.as_ref())
    }

    fn delete_prefix_bytes(&self, prefix: &[u8]) -> Result<()> {
        let mut operations = Operations::default();
        operations.delete_prefix(self.store_id(), self.current(), prefix)?;
        self.write(operations)
    }

    pub(super) fn write(&self, operations: Operations) -> Result<()> {
        let durability = self.store.env.options.durability;
        self.store.write(Arc::new(operations), durability, Vec::new()).map(|_| ())
    }

    /// Every item whose key has `prefix`: in suffix order, or in the order of suffix hashes if the schema
    /// hashes them.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let by_path = siltstone::KeyspaceOptions { schema: siltstone::Schema::delimited(b'/'), ..Default::default() };
    /// # let files = db.keyspace("files", by_path)?;
    /// files.put("home/b", "2")?;
    /// files.put("home/a", "1")?;
    /// files.put("etc/c", "3")?;
    /// for item in files.prefix("home/")? {
    ///     let (key, value) = item?;
    ///     assert!(key.starts_with(b"home/") && value.len() == 1);
    /// }
    /// assert_eq!(files.prefix("home/")?.count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted, `BadKey` where no key of it can have this
    /// prefix, `Closed` after [`Db::close`](crate::Db::close).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.prefix_at(prefix.as_ref(), SuffixBounds::ALL, self.pin()?)
    }

    /// The items whose key has `prefix` and whose suffix lies in `suffixes`, in suffix order.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let by_path = siltstone::KeyspaceOptions { schema: siltstone::Schema::delimited(b'/'), ..Default::default() };
    /// # let files = db.keyspace("files", by_path)?;
    /// for name in ["log/2025", "log/2026-01", "log/2026-02"] {
    ///     files.put(name, "")?;
    /// }
    /// assert_eq!(files.prefix_range("log/", "2026".."2027")?.count(), 2);
    /// # Ok(())
    /// # }
    /// ```
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
        pinned: Held,
    ) -> Result<Iter> {
        let keyspace = &pinned.0.keyspace;
        keyspace.encode_prefix(prefix)?;
        if !keyspace.encoder.schema().is_ordered() {
            return Err(keyspace.refuses(KeyError::NotOrdered));
        }
        self.prefix_at(prefix, suffixes, pinned)
    }

    /// Every item of the keyspace, in the store's order.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// items.put("b", "2")?;
    /// let all: std::collections::BTreeMap<_, _> = items.iter()?.collect::<Result<_, _>>()?;
    /// assert_eq!(all[&b"b"[..]], b"2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed` after [`Db::close`](crate::Db::close). Those of reading come with the items.
    pub fn iter(&self) -> Result<Iter> {
        Ok(self.iter_at(self.pin()?))
    }

    /// Returns where `key` stands in the keyspace's order, for [`Keyspace::iter_from`]: keys that share a
    /// prefix have one position, and so may, once in 2^64 pairs, keys of different prefixes.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let (first, _) = items.iter_from(items.position("a")?)?.next().unwrap()?;
    /// assert_eq!(first, b"a");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` where the key does not fit the schema.
    pub fn position(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        Ok(self.current().encoder.encode(key.as_ref())?.digest.hi)
    }

    /// Every item of the keyspace from `position` on, in the store's order. The order changes with the schema
    /// alone ([`Keyspace::change_schema`]), so a scan can stop behind a position and go on later, with no
    /// snapshot held meanwhile: what is there all the time is seen once.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// for number in 0..9u8 {
    ///     items.put([number], "value")?;
    /// }
    /// let mut seen = Vec::new();
    /// let mut position = Some(0);
    /// while let Some(from) = position {
    ///     let page: Vec<_> = items.iter_from(from)?.take(4).collect::<Result<_, _>>()?;
    ///     seen.extend(page.iter().take(3).map(|(key, _)| key.clone()));
    ///     position = page.get(3).map(|(key, _)| items.position(key)).transpose()?;
    /// }
    /// seen.sort();
    /// assert_eq!(seen, (0..9u8).map(|number| vec![number]).collect::<Vec<_>>());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::iter`].
    pub fn iter_from(&self, position: u64) -> Result<Iter> {
        Ok(self.walk(self.pin()?, Span::of_hi(position, u64::MAX), Wanted::Everything))
    }

    pub(super) fn iter_at(&self, pinned: Held) -> Iter {
        self.walk(pinned, Span::ALL, Wanted::Everything)
    }

    pub(super) fn prefix_at(&self, prefix: &[u8], suffixes: SuffixBounds, pinned: Held) -> Result<Iter> {
        let keyspace = &pinned.0.keyspace;
        let hi = keyspace.encode_prefix(prefix)?;
        let mut span = Span::of_hi(hi, hi);
        let bound = |suffix: &[u8]| keyspace.encoder.encode_suffix_bound(suffix);
        let bound = |suffix: &[u8]| bound(suffix).map_err(|error| keyspace.refuses(error));
        if let Bound::Included(suffix) | Bound::Excluded(suffix) = &suffixes.from {
            span.first = Digest { hi, lo: bound(suffix)? };
        }
        if let Bound::Included(suffix) | Bound::Excluded(suffix) = &suffixes.to {
            span.last = Digest { hi, lo: bound(suffix)? };
        }
        keyspace.counters.done.add(Count::Scans, 1);
        let wanted = Wanted::Group { prefix: prefix.to_vec(), suffixes };
        Ok(self.walk(pinned, span, wanted))
    }

    /// Walks the wanted keys whose digests lie in `span`.
    pub(super) fn walk(&self, (pinned, point): Held, span: Span, wanted: Wanted) -> Iter {
        let PinnedKeyspace { keyspace, view } = pinned;
        let store = Arc::clone(&self.store);
        Iter::new(Walked { store, keyspace, view, point: Arc::new(point) }, span, wanted)
    }

    /// Pins a view and a sequence number that belong together.
    pub(super) fn pin(&self) -> Result<Held> {
        self.store.env.health.check_open()?;
        Ok(self.store.catalog.pin(&self.opened))
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name()).finish_non_exhaustive()
    }
}
