//! Transactions: reads and writes of several keys, in any keyspaces, as if nobody else wrote meanwhile.
//!
//! The idea: a transaction reads a snapshot and gathers its writes in a batch. It remembers which keys it has
//! read, and the batch is written only if nobody has written one of these since the snapshot
//! ([`Condition`]); otherwise all of it runs again. So it behaves as if it ran at one moment, the one at
//! which it is committed. Nothing is locked, readers and other writers never wait for it, and of several that
//! conflict one always gets through.
//!
//! Source: optimistic concurrency control (Kung and Robinson, 1981), backward validation. Where we differ:
//! the read set is made of keys; scans are left out, since what a scan did not find would have to be
//! remembered too.

use super::batch::Batch;
use super::keyspace::Keyspace;
use super::snapshot::Snapshot;
use super::write::Condition;
use crate::error::Result;
use std::collections::HashMap;
use std::time::Duration;

/// Reads and writes that happen together; see [`Db::transaction`](crate::Db::transaction).
pub struct Transaction {
    snapshot: Snapshot,
    batch: Batch,
    /// What has been read from the snapshot, by keyspace and key.
    read: HashMap<(u64, Vec<u8>), Condition>,
    /// What it has written; none where it has deleted the key.
    written: HashMap<(u64, Vec<u8>), Option<Put>>,
}

/// A value that a transaction has written.
struct Put {
    value: Vec<u8>,
    /// When it is gone, unless that is 0.
    expires_at_ms: u64,
}

impl Transaction {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let (batch, read, written) = Default::default();
        Self { snapshot, batch, read, written }
    }

    /// Returns what is to be written, and on which conditions.
    pub(super) fn into_parts(self) -> (Batch, Vec<Condition>) {
        (self.batch, self.read.into_values().collect())
    }

    /// Returns the value of `key`: the one that this transaction has written, or else what it was when the
    /// transaction began. If another writer changes it before the end, the transaction runs again.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.transaction(&siltstone::WriteOptions::default(), |tx| {
    ///     tx.put(&items, "b", "2")?;
    ///     assert_eq!(tx.get(&items, "a")?.as_deref(), Some(&b"1"[..]));
    ///     assert_eq!(tx.get(&items, "b")?.as_deref(), Some(&b"2"[..]), "what it has written itself");
    ///     Ok::<_, siltstone::Error>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `NoKeyspace` where the keyspace did not exist when the transaction began.
    pub fn get(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let place = (keyspace.current().id, key.as_ref().to_vec());
        if let Some(written) = self.written(keyspace, &place) {
            return Ok(written.map(<[u8]>::to_vec));
        }
        let value = self.snapshot.get(keyspace, key)?;
        self.note_read(keyspace, place)?;
        Ok(value)
    }

    /// Whether `key` has a value, likewise.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.transaction(&siltstone::WriteOptions::default(), |tx| {
    ///     assert!(tx.contains(&items, "a")? && !tx.contains(&items, "b")?);
    ///     Ok::<_, siltstone::Error>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let place = (keyspace.current().id, key.as_ref().to_vec());
        if let Some(written) = self.written(keyspace, &place) {
            return Ok(written.is_some());
        }
        let is_there = self.snapshot.contains(keyspace, key)?;
        self.note_read(keyspace, place)?;
        Ok(is_there)
    }

    /// Returns what it has written under a key, if it has: a value, or that there is none. One whose time has
    /// come is none, as for readers afterwards.
    fn written(&self, keyspace: &Keyspace, place: &(u64, Vec<u8>)) -> Option<Option<&[u8]>> {
        let lives = |put: &&Put| put.expires_at_ms == 0 || put.expires_at_ms > keyspace.store.env.now_ms();
        let written = self.written.get(place)?;
        Some(written.as_ref().filter(lives).map(|put| put.value.as_slice()))
    }

    fn put_until(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        self.batch.put_until(keyspace, key, value, expires_at_ms)?;
        let put = Put { value: value.to_vec(), expires_at_ms };
        self.written.insert((keyspace.current().id, key.to_vec()), Some(put));
        Ok(())
    }

    fn note_read(&mut self, keyspace: &Keyspace, place: (u64, Vec<u8>)) -> Result<()> {
        let condition = self.snapshot.pinned(keyspace)?.unchanged(&place.1, self.snapshot.sequence());
        self.read.entry(place).or_insert(condition);
        Ok(())
    }

    /// Sets `key` to `value` when the transaction ends.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.transaction(&siltstone::WriteOptions::default(), |tx| {
    ///     let copy = tx.get(&items, "a")?.unwrap_or_default();
    ///     tx.put(&items, "b", copy)?;
    ///     Ok::<_, siltstone::Error>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), 0)
    }

    /// Sets `key` to `value`, which is gone after `ttl`, when the transaction ends.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.transaction(&siltstone::WriteOptions::default(), |tx| {
    ///     tx.put_with_ttl(&items, "lock", "Ada", std::time::Duration::from_secs(5))?;
    ///     Ok::<_, siltstone::Error>(())
    /// })?;
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

    /// Removes `key` when the transaction ends; a missing key is fine.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.transaction(&siltstone::WriteOptions::default(), |tx| {
    ///     if tx.contains(&items, "a")? {
    ///         tx.delete(&items, "a")?;
    ///     }
    ///     Ok::<_, siltstone::Error>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::delete`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.batch.delete(keyspace, key.as_ref())?;
        self.written.insert((keyspace.current().id, key.as_ref().to_vec()), None);
        Ok(())
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (reads, writes) = (self.read.len(), self.batch.len());
        f.debug_struct("Transaction").field("reads", &reads).field("writes", &writes).finish_non_exhaustive()
    }
}
