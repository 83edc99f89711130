//! Snapshots: all keyspaces at one moment.
//!
//! A snapshot pins a view of each keyspace and the sequence number up to which write buffers are read. It
//! costs nothing but the files it keeps from being removed, and overwritten versions in write buffers, so a
//! long one shows its age.

use super::backup::{BackupInfo, BackupOptions, BackupProgress, backup};
use super::catalog::{Pinned, PinnedKeyspace};
use super::iter::Iter;
use super::keyspace::{Held, Keyspace};
use super::lookups::{look_at_many, of_many};
use super::open::checkpoint::checkpoint;
use super::open::verify::{VerifyProgress, VerifyReport, verify};
use super::read::Moment;
use super::store::Store;
use super::suffix_range::{SuffixBounds, SuffixRange};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::stats::Stopwatch;
use crate::value::{Value, Wants};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// All keyspaces of a store as they were when it was taken.
///
/// That goes for time as well: an item that had not expired then is in the snapshot for as long as that
/// lasts.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
/// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
/// items.put(b"k", b"before")?;
/// let snapshot = db.snapshot();
/// items.put(b"k", b"after")?;
/// assert_eq!(snapshot.get(&items, b"k")?.as_deref(), Some(&b"before"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Snapshot {
    store: Arc<Store>,
    pinned: Pinned,
    taken: Stopwatch,
}

impl Snapshot {
    pub(super) fn new(store: Arc<Store>) -> Self {
        let pinned = store.catalog.pin_all();
        Self { store, pinned, taken: Stopwatch::start() }
    }

    /// Makes a store of it in the new directory `dir`; see [`Db::checkpoint`](crate::Db::checkpoint).
    pub(super) fn checkpoint(&self, dir: &Path) -> Result<()> {
        checkpoint(&self.store, &self.pinned, dir)
    }

    /// Makes a backup of it in `dir`; see [`Db::backup`](crate::Db::backup).
    pub(super) fn backup(
        &self,
        dir: &Path,
        options: &BackupOptions,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<BackupInfo> {
        backup(&self.store, &self.pinned, dir, options, progress)
    }

    /// Reads all of it and checks it; see [`Db::verify`](crate::Db::verify).
    pub(super) fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        verify(&self.store, &self.pinned, progress)
    }

    /// How long ago it was taken; files that compaction has replaced since are kept for it.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let snapshot = db.snapshot();
    /// assert!(snapshot.age().as_secs() < 60);
    /// # Ok(())
    /// # }
    /// ```
    pub fn age(&self) -> Duration {
        self.taken.elapsed()
    }

    /// The keyspace as it was when the snapshot was taken.
    pub(super) fn pinned(&self, keyspace: &Keyspace) -> Result<&PinnedKeyspace> {
        self.store.env.health.check_open()?;
        if keyspace.store_id() != self.store.env.store {
            return Err(Error::no_keyspace(format_args!(
                "keyspace {:?} is one of another store",
                keyspace.name()
            )));
        }
        let pinned = self.pinned.keyspaces.get(&keyspace.current().id);
        pinned.ok_or_else(|| {
            Error::no_keyspace(format_args!(
                "keyspace {:?} did not exist when the snapshot was taken",
                keyspace.name()
            ))
        })
    }

    /// The same, for an iterator that may outlive the snapshot.
    pub(super) fn pin(&self, keyspace: &Keyspace) -> Result<Held> {
        Ok((self.pinned(keyspace)?.clone(), self.pinned.point.again()))
    }

    /// Returns the value that `key` had.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// items.put("a", "2")?;
    /// items.put("b", "2")?;
    /// assert_eq!(snapshot.get(&items, "a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `NoKeyspace` where the keyspace did not exist.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_bytes(keyspace, key.as_ref())
    }

    fn get_bytes(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.find(keyspace, key, Wants::Copy)?.map(Value::into_vec))
    }

    fn find(&self, keyspace: &Keyspace, key: &[u8], wants: Wants) -> Result<Option<Value>> {
        let at = self.moment(keyspace)?;
        Ok(self.store.searcher.find(at, &at.keyspace.encode(key)?, wants)?.value)
    }

    fn moment(&self, keyspace: &Keyspace) -> Result<Moment<'_>> {
        let PinnedKeyspace { keyspace, view } = self.pinned(keyspace)?;
        Ok(Moment { keyspace, view, point: &self.pinned.point })
    }

    /// The sequence number of the newest write that it sees.
    pub(super) fn sequence(&self) -> Sequence {
        self.pinned.point.sequence
    }

    /// As [`Keyspace::get_with`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// items.put("a", "2")?;
    /// items.put("b", "2")?;
    /// assert_eq!(snapshot.get_with(&items, "a", |value| value.len())?, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_with<R>(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        Ok(self.find(keyspace, key.as_ref(), Wants::Look)?.map(|value| value.look(look)))
    }

    /// As [`Keyspace::contains`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// items.put("a", "2")?;
    /// items.put("b", "2")?;
    /// assert!(snapshot.contains(&items, "a")? && !snapshot.contains(&items, "b")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.find(keyspace, key.as_ref(), Wants::Presence)?.is_some())
    }

    /// As [`Keyspace::multi_get`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// items.delete("a")?;
    /// assert_eq!(snapshot.multi_get(&items, &["a", "b"])?, [Some(b"1".to_vec()), None]);
    /// assert_eq!(snapshot.contains_many(&items, &["a", "b"])?, [true, false]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`], for the first key that fails.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let at = self.moment(keyspace)?;
        of_many(keyspace, at, keys, Wants::Copy, |value| value.map(Value::into_vec))
    }

    /// As [`Keyspace::multi_get_with`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let (snapshot, mut seen) = (db.snapshot(), Vec::new());
    /// items.clear()?;
    /// snapshot.multi_get_with(&items, &["a", "b"], |number, value| seen.push((number, value.to_vec())))?;
    /// assert_eq!(seen, [(0, b"1".to_vec())]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`], for the first key that fails.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        look: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        look_at_many(keyspace, self.moment(keyspace)?, keys, look)
    }

    /// As [`Keyspace::contains_many`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// items.put("a", "2")?;
    /// items.put("b", "2")?;
    /// assert_eq!(snapshot.contains_many(&items, &["a", "b"])?, [true, false]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`], for the first key that fails.
    pub fn contains_many<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<bool>> {
        let at = self.moment(keyspace)?;
        of_many(keyspace, at, keys, Wants::Presence, |value| value.is_some())
    }

    /// As [`Keyspace::prefix`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let by_path = siltstone::KeyspaceOptions { schema: siltstone::Schema::delimited(b'/'), ..Default::default() };
    /// # let files = db.keyspace("files", by_path)?;
    /// files.put("home/a", "")?;
    /// let snapshot = db.snapshot();
    /// files.put("home/b", "")?;
    /// assert_eq!(snapshot.prefix(&files, "home/")?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::prefix`]; `NoKeyspace` where the keyspace did not exist.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        keyspace.prefix_at(prefix.as_ref(), SuffixBounds::ALL, self.pin(keyspace)?)
    }

    /// As [`Keyspace::prefix_range`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let by_path = siltstone::KeyspaceOptions { schema: siltstone::Schema::delimited(b'/'), ..Default::default() };
    /// # let files = db.keyspace("files", by_path)?;
    /// files.put("home/a", "")?;
    /// let snapshot = db.snapshot();
    /// files.put("home/b", "")?;
    /// assert_eq!(snapshot.prefix_range(&files, "home/", "a"..="b")?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::prefix_range`]; `NoKeyspace` where the keyspace did not exist.
    pub fn prefix_range(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
        suffixes: impl SuffixRange,
    ) -> Result<Iter> {
        keyspace.prefix_range_at(prefix.as_ref(), suffixes.into_bounds(), self.pin(keyspace)?)
    }

    /// As [`Keyspace::iter`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// items.put("a", "2")?;
    /// items.put("b", "2")?;
    /// assert_eq!(snapshot.iter(&items)?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::iter`]; `NoKeyspace` where the keyspace did not exist.
    pub fn iter(&self, keyspace: &Keyspace) -> Result<Iter> {
        Ok(keyspace.iter_at(self.pin(keyspace)?))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("age", &self.age()).finish_non_exhaustive()
    }
}
