//! Snapshots: all keyspaces at one moment.
//!
//! A snapshot pins a view of each keyspace and the sequence number up to which memtables are read. It costs nothing but the
//! files it keeps from being removed, so a long one shows its age.

use super::store::{KeyspaceInner, View};
use super::{Handle, Iter, Keyspace};
use crate::error::{Error, Result};
use crate::memtable::Sequence;
use crate::stats::Stopwatch;
use siltstone_design::KeyError;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

/// All keyspaces of a store as they were when it was taken.
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
    pub(super) handle: Arc<Handle>,
    pub(super) views: BTreeMap<u64, (Arc<KeyspaceInner>, Arc<View>)>,
    pub(super) sequence: Sequence,
    taken: Stopwatch,
    number: u64,
}

impl Snapshot {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        let (views, sequence) = {
            let _switch = handle.store.switch.lock();
            let keyspaces = handle.store.all_keyspaces().into_iter();
            let views = keyspaces.map(|k| (k.id, (Arc::clone(&k), k.view.load_full())));
            (views.collect(), handle.store.visible())
        };
        let number = handle.store.pin_snapshot();
        Self { handle, views, sequence, taken: Stopwatch::start(), number }
    }

    /// How long ago it was taken; files that compaction has replaced since are kept for it.
    pub fn age(&self) -> Duration {
        self.taken.elapsed()
    }

    fn view(&self, keyspace: &Keyspace) -> Result<(Arc<View>, Sequence)> {
        let same_store = keyspace.store_id() == self.handle.store.id;
        let view = self.views.get(&keyspace.id()).filter(|_| same_store);
        let (_, view) = view.ok_or_else(|| {
            Error::invalid(format_args!(
                "keyspace {:?} did not exist when the snapshot was taken",
                keyspace.name()
            ))
        })?;
        Ok((Arc::clone(view), self.sequence))
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `InvalidInput` where the keyspace did not exist.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = keyspace.encoder().encode(key)?;
        let (view, sequence) = self.view(keyspace)?;
        self.handle.store.get(&keyspace.inner, &view, sequence, &key)
    }

    /// As [`Keyspace::prefix`], as it was.
    ///
    /// # Errors
    /// As [`Keyspace::prefix`]; `InvalidInput` where the keyspace did not exist.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Result<Iter> {
        keyspace.prefix_at(prefix, Bound::Unbounded, Bound::Unbounded, self.view(keyspace)?)
    }

    /// As [`Keyspace::prefix_range`], as it was.
    ///
    /// # Errors
    /// As [`Keyspace::prefix_range`]; `InvalidInput` where the keyspace did not exist.
    pub fn prefix_range(
        &self,
        keyspace: &Keyspace,
        prefix: &[u8],
        suffixes: impl RangeBounds<Vec<u8>>,
    ) -> Result<Iter> {
        if !keyspace.schema().is_ordered() {
            return Err(KeyError::NotOrdered.into());
        }
        let (from, to) = (suffixes.start_bound().cloned(), suffixes.end_bound().cloned());
        keyspace.prefix_at(prefix, from, to, self.view(keyspace)?)
    }

    /// As [`Keyspace::iter`], as it was.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace did not exist.
    pub fn iter(&self, keyspace: &Keyspace) -> Result<Iter> {
        Ok(keyspace.iter_at(self.view(keyspace)?))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.handle.store.unpin_snapshot(self.number);
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("age", &self.age()).finish_non_exhaustive()
    }
}
