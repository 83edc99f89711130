//! Batches: writes that happen together. How they stand in the log is said in `operation.rs`.

use super::keyspace::Keyspace;
use super::write::operations::Operations;
use crate::error::Result;
use std::sync::Arc;
use std::time::Duration;

/// Writes to any keyspaces of one store that become visible, and survive crashes, together or not at all.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use siltstone::{Batch, Db, KeyspaceOptions, Options, WriteOptions};
///
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let (users, index) =
///     (db.create_keyspace("users", KeyspaceOptions::default())?, db.create_keyspace("index", KeyspaceOptions::default())?);
/// let mut batch = Batch::new();
/// batch.put(&users, b"u1", b"Ada")?;
/// batch.put(&index, b"Ada", b"u1")?;
/// db.write(&batch, &WriteOptions::default())?;
/// assert_eq!(index.get(b"Ada")?.as_deref(), Some(&b"u1"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Shared with the commit queue while they are written.
    operations: Arc<Operations>,
}

impl Batch {
    /// An empty batch.
    ///
    /// ```
    /// assert!(siltstone::Batch::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of operations.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put(&items, "a", "12")?;
    /// assert_eq!(batch.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.operations.list.len()
    }

    /// Whether there are no operations.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put(&items, "a", "12")?;
    /// assert!(!batch.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.operations.list.is_empty()
    }

    /// Bytes of keys and values.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put(&items, "a", "12")?;
    /// assert_eq!(batch.bytes(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bytes(&self) -> u64 {
        self.operations.user_bytes
    }

    /// Forgets the operations and keeps the memory.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put(&items, "a", "12")?;
    /// db.write(&batch, &siltstone::WriteOptions::default())?;
    /// batch.clear();
    /// assert!(batch.is_empty() && items.contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&mut self) {
        match Arc::get_mut(&mut self.operations) {
            Some(operations) => operations.clear(),
            // A clone, or the end of a write, still holds them.
            None => self.operations = Arc::default(),
        }
    }

    /// Sets `key` to `value`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put(&items, "a", "12")?;
    /// assert!(!items.contains("a")?, "nothing is written yet");
    /// db.write(&batch, &siltstone::WriteOptions::default())?;
    /// assert!(items.contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` where the key does not fit the keyspace's schema, `InvalidInput` where the value is over 1
    /// GiB, `NoKeyspace` where the keyspace has been dropped.
    #[inline]
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), 0)
    }

    /// Sets `key` to `value`, which is gone from `expires_at_ms` on unless that is 0.
    pub(super) fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expires_at_ms: u64,
    ) -> Result<()> {
        self.change().put(keyspace.store_id(), keyspace.current(), key, value, expires_at_ms)
    }

    /// Sets `key` to `value`, which is gone after `ttl`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.put_with_ttl(&items, "session", "Ada", std::time::Duration::from_secs(1800))?;
    /// db.write(&batch, &siltstone::WriteOptions::default())?;
    /// assert!(items.contains("session")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), keyspace.expiry_after(ttl))
    }

    /// Merges `operand` into the value of `key`, as the keyspace's merge operator does it. A batch may merge
    /// a key several times.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use siltstone::{Batch, Db, KeyspaceOptions, Options, WriteOptions};
    /// # let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let merge_operator = Some("append:2c".to_owned());
    /// let trips = db.create_keyspace("trips", KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() })?;
    /// let mut batch = Batch::new();
    /// batch.merge(&trips, "ann", "Lund")?;
    /// batch.merge(&trips, "ann", "Uppsala")?;
    /// db.write(&batch, &WriteOptions::default())?;
    /// assert_eq!(trips.get("ann")?.as_deref(), Some(&b"Lund,Uppsala"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::merge`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.change().merge(keyspace.store_id(), keyspace.current(), key.as_ref(), operand.as_ref())
    }

    /// Removes `key`; a missing key is fine.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("old", "1")?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.delete(&items, "old")?;
    /// batch.put(&items, "new", "1")?;
    /// db.write(&batch, &siltstone::WriteOptions::default())?;
    /// assert_eq!(items.contains_many(&["old", "new"])?, [false, true]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` where the key does not fit the keyspace's schema, `NoKeyspace` where the keyspace has been
    /// dropped.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.change().delete(keyspace.store_id(), keyspace.current(), key.as_ref())
    }

    /// Removes every key with this prefix, in constant time; compaction frees the space.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let by_path = siltstone::KeyspaceOptions { schema: siltstone::Schema::delimited(b'/'), ..Default::default() };
    /// # let files = db.keyspace("files", by_path)?;
    /// files.put("a/old", "")?;
    /// let mut batch = siltstone::Batch::new();
    /// batch.delete_prefix(&files, "a/")?;
    /// batch.put(&files, "a/new", "")?;
    /// db.write(&batch, &siltstone::WriteOptions::default())?;
    /// assert_eq!(files.len_of("a/")?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted, `BadKey` where no key of it can have this
    /// prefix, `NoKeyspace` where the keyspace has been dropped.
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.change().delete_prefix(keyspace.store_id(), keyspace.current(), prefix.as_ref())
    }

    fn change(&mut self) -> &mut Operations {
        Arc::make_mut(&mut self.operations)
    }

    /// Returns the operations, to be written.
    pub(super) fn operations(&self) -> Arc<Operations> {
        Arc::clone(&self.operations)
    }
}
