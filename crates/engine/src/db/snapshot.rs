//! Snapshots: all keyspaces at one moment.
//!
//! A snapshot pins a view of each keyspace and the sequence number up to which heads are read. It costs nothing but the files it
//! keeps from being removed, and overwritten versions in heads, so a long one shows its age.

use super::store::{KeyspaceInner, Store, View};
use super::{Handle, Iter, Keyspace};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::stats::Stopwatch;
use parking_lot::Mutex;
use siltstone_design::KeyError;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

/// The sequence numbers at which somebody reads, with since when.
#[derive(Default)]
pub(crate) struct Snapshots {
    held: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    next: u64,
    by_number: BTreeMap<u64, (Sequence, Stopwatch)>,
}

impl Snapshots {
    /// The age of the oldest.
    pub fn oldest_age(&self) -> Option<Duration> {
        self.held.lock().by_number.values().map(|(_, since)| since.elapsed()).max()
    }

    /// Calls `work` with a function that says whether anybody sees the first of two sequence numbers and not the second. Nobody
    /// begins to read meanwhile.
    pub fn while_still<T>(&self, work: impl FnOnce(&dyn Fn(Sequence, Sequence) -> bool) -> T) -> T {
        let held = self.held.lock();
        work(&|old, new| held.by_number.values().any(|(at, _)| (old..new).contains(at)))
    }
}

/// A sequence number at which somebody reads: what it sees stays readable until this is dropped.
pub(crate) struct Held {
    store: Arc<Store>,
    number: u64,
    pub sequence: Sequence,
}

impl Held {
    /// What is visible now.
    pub fn now(store: &Arc<Store>) -> Self {
        // Whoever takes old versions out does so with the registry locked, once the newer ones are visible.
        Self::begin(store, || store.visible())
    }

    /// The same moment once more.
    pub fn again(&self) -> Self {
        Self::begin(&self.store, || self.sequence)
    }

    fn begin(store: &Arc<Store>, sequence: impl FnOnce() -> Sequence) -> Self {
        let mut held = store.snapshots.held.lock();
        let (sequence, number) = (sequence(), held.next);
        held.next += 1;
        held.by_number.insert(number, (sequence, Stopwatch::start()));
        drop(held);
        Self { store: Arc::clone(store), number, sequence }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.store.snapshots.held.lock().by_number.remove(&self.number);
    }
}

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
    pub(super) held: Held,
    taken: Stopwatch,
}

impl Snapshot {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        let (views, held) = {
            let _switch = handle.store.switch.lock();
            let keyspaces = handle.store.all_keyspaces().into_iter();
            let views = keyspaces.map(|k| (k.id, (Arc::clone(&k), k.view.load_full())));
            (views.collect(), Held::now(&handle.store))
        };
        Self { handle, views, held, taken: Stopwatch::start() }
    }

    /// How long ago it was taken; files that compaction has replaced since are kept for it.
    pub fn age(&self) -> Duration {
        self.taken.elapsed()
    }

    fn view(&self, keyspace: &Keyspace) -> Result<Arc<View>> {
        let same_store = keyspace.store_id() == self.handle.store.id;
        let view = self.views.get(&keyspace.id()).filter(|_| same_store);
        let (_, view) = view.ok_or_else(|| {
            Error::invalid(format_args!(
                "keyspace {:?} did not exist when the snapshot was taken",
                keyspace.name()
            ))
        })?;
        Ok(Arc::clone(view))
    }

    /// The view, for an iterator that may outlive the snapshot.
    fn pin(&self, keyspace: &Keyspace) -> Result<(Arc<View>, Held)> {
        Ok((self.view(keyspace)?, self.held.again()))
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `InvalidInput` where the keyspace did not exist.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = keyspace.encoder().encode(key)?;
        let view = self.view(keyspace)?;
        Ok(self.handle.store.find(&keyspace.inner, &view, self.held.sequence, &key)?.value)
    }

    /// As [`Keyspace::prefix`], as it was.
    ///
    /// # Errors
    /// As [`Keyspace::prefix`]; `InvalidInput` where the keyspace did not exist.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Result<Iter> {
        keyspace.prefix_at(prefix, Bound::Unbounded, Bound::Unbounded, self.pin(keyspace)?)
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
        keyspace.prefix_at(prefix, from, to, self.pin(keyspace)?)
    }

    /// As [`Keyspace::iter`], as it was.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace did not exist.
    pub fn iter(&self, keyspace: &Keyspace) -> Result<Iter> {
        Ok(keyspace.iter_at(self.pin(keyspace)?))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("age", &self.age()).finish_non_exhaustive()
    }
}
