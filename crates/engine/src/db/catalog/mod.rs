//! The catalog: which keyspaces a store has, what each holds now, and the one way from a version to the next.
//!
//! Locks, in the order they may be taken: commit → flushing → designing → manifest → view lock → log. Readers
//! take none: they load a view.

mod activity;
mod due;
pub(super) mod keyspace;
pub(super) mod log;
pub(super) mod predicted;
mod publish;
mod room;
pub(super) mod schema_change;
mod schemas;
pub(super) mod shape;
pub(super) mod snapshots;
pub(super) mod view;

use crate::db::env::Env;
use crate::entry::Sequence;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Holder;
use crate::record::LogStart;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, RwLock};
use crate::version::Version;
use crate::version::edit::{Edit, Step};
use crate::version::manifest::{KeyspaceState, Manifest, StoreState};
use crate::wal::{LiveSegment, Wal};
use due::Activity;
use keyspace::OpenKeyspace;
use log::{Announced, CommitLog};
use shape::{TopShape, VersionShape};
use siltstone_design::plan::pressure;
use snapshots::{ReadPoint, Snapshots};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use view::View;

/// The keyspaces of an open store, by name.
pub(crate) type Keyspaces = BTreeMap<String, Arc<OpenKeyspace>>;

/// The keyspaces of an open store.
struct Registry {
    by_name: Keyspaces,
    by_number: HashMap<u64, Arc<OpenKeyspace>>,
}

/// All keyspaces at one moment: what a snapshot holds.
pub(crate) struct Pinned {
    pub keyspaces: BTreeMap<u64, PinnedKeyspace>,
    pub point: ReadPoint,
}

/// A keyspace with what it held at one moment.
#[derive(Clone)]
pub(crate) struct PinnedKeyspace {
    pub keyspace: Arc<OpenKeyspace>,
    pub view: Arc<View>,
}

/// What an open store holds, and how that changes.
pub(crate) struct Catalog {
    env: Arc<Env>,
    keyspaces: RwLock<Registry>,
    activity: Activity,
    next_id: AtomicU64,
    /// Sequence number of the newest write that readers may see.
    visible: AtomicU64,
    pub log: CommitLog,
    /// Absent where the store is read-only.
    manifest: Mutex<Option<Manifest>>,
    /// Held while views change and while snapshots are taken.
    view_lock: Mutex<()>,
    pub snapshots: Arc<Snapshots>,
    /// How often keyspaces have got another schema.
    schema_changes: AtomicU64,
}

/// What a catalog begins with.
pub(crate) struct CatalogParts {
    pub keyspaces: Keyspaces,
    pub next_id: u64,
    pub visible: Sequence,
    pub wal: Option<Wal>,
    /// Segments of a log that is only read, oldest first.
    pub segments: Vec<LiveSegment>,
    pub manifest: Option<Manifest>,
}

impl Catalog {
    pub fn new(env: &Arc<Env>, parts: CatalogParts) -> Self {
        let by_name = parts.keyspaces;
        by_name.values().for_each(|keyspace| env.keep_room_for(&keyspace.design()));
        let by_number = by_name.values().map(|keyspace| (keyspace.id, Arc::clone(keyspace))).collect();
        Self {
            env: Arc::clone(env),
            keyspaces: RwLock::new(Registry { by_name, by_number }),
            activity: Activity::default(),
            next_id: AtomicU64::new(parts.next_id),
            visible: AtomicU64::new(parts.visible),
            log: CommitLog::new(Arc::clone(env), parts.wal, parts.segments),
            manifest: Mutex::new(parts.manifest),
            view_lock: Mutex::new(()),
            snapshots: Arc::default(),
            schema_changes: AtomicU64::new(0),
        }
    }

    /// Returns a number that no table, run or keyspace has had.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands out only numbers above `used` from now on.
    pub fn skip_ids_to(&self, used: u64) {
        self.next_id.fetch_max(used + 1, Ordering::Relaxed);
    }

    /// Returns the sequence number of the newest write that readers may see.
    #[inline]
    pub fn visible(&self) -> Sequence {
        self.visible.load(Ordering::Acquire)
    }

    /// Shows readers all writes up to `sequence`.
    pub fn show(&self, sequence: Sequence) {
        self.visible.store(sequence, Ordering::Release);
    }

    /// Says in the log that `keyspace` gets contents that do not stand in it; those who follow the log hear
    /// of it once what this returns is dropped.
    pub fn announce(&self, _commit: &MutexGuard<'_, ()>, keyspace: &OpenKeyspace) -> Result<Announced<'_>> {
        let announced = self.log.announce(keyspace.id)?;
        self.show(announced.sequence);
        Ok(announced)
    }

    /// Returns all keyspaces, by name.
    pub fn all(&self) -> Vec<Arc<OpenKeyspace>> {
        self.keyspaces.read().by_name.values().cloned().collect()
    }

    /// Returns all keyspaces, by number.
    fn all_by_number(&self) -> Vec<Arc<OpenKeyspace>> {
        let mut keyspaces: Vec<_> = self.keyspaces.read().by_number.values().cloned().collect();
        keyspaces.sort_unstable_by_key(|keyspace| keyspace.id);
        keyspaces
    }

    /// Returns the keyspace `name`, if it exists.
    pub fn get(&self, name: &str) -> Option<Arc<OpenKeyspace>> {
        self.keyspaces.read().by_name.get(name).cloned()
    }

    /// Returns the keyspace of this number, if it exists.
    pub fn by_number(&self, number: u64) -> Option<Arc<OpenKeyspace>> {
        self.keyspaces.read().by_number.get(&number).cloned()
    }

    /// Returns the names of the keyspaces, sorted.
    pub fn names(&self) -> Vec<String> {
        self.keyspaces.read().by_name.keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.keyspaces.read().by_name.len()
    }

    /// Bytes of the tables of all keyspaces.
    pub fn table_bytes(&self) -> u64 {
        let bytes = |keyspace: &Arc<OpenKeyspace>| -> u64 {
            keyspace.version().tables().map(|table| table.meta().bytes).sum()
        };
        self.all().iter().map(bytes).sum()
    }

    /// The part of a memory budget of `total` bytes that is a keyspace's own whose tables take `table_bytes`:
    /// as much as it has of `all`, the bytes of all tables.
    pub fn budget_of(&self, total: u64, table_bytes: u64, all: u64) -> u64 {
        (total as f64 * table_bytes as f64 / all.max(table_bytes).max(1) as f64) as u64
    }

    /// Holds views and snapshots as they are.
    pub fn lock_views(&self) -> MutexGuard<'_, ()> {
        self.view_lock.lock()
    }

    /// Pins a keyspace as it is now, its view and a sequence number that belong together.
    pub fn pin(&self, keyspace: &Arc<OpenKeyspace>) -> (PinnedKeyspace, ReadPoint) {
        let _views = self.view_lock.lock();
        let keyspace = Arc::clone(keyspace.current());
        let view = keyspace.view.load_full();
        (PinnedKeyspace { keyspace, view }, self.read_point())
    }

    /// Pins the views of all keyspaces, and the sequence number that belongs to them.
    pub fn pin_all(&self) -> Pinned {
        let _views = self.view_lock.lock();
        let keyspaces = self.all().into_iter().map(|keyspace| {
            let view = keyspace.view.load_full();
            (keyspace.id, PinnedKeyspace { keyspace, view })
        });
        Pinned { keyspaces: keyspaces.collect(), point: self.read_point() }
    }

    /// Holds what is visible now. The caller holds the view lock where it pins views too.
    pub fn read_point(&self) -> ReadPoint {
        self.snapshots.hold(self.env.now_ms(), || self.visible())
    }

    /// Creates keyspaces, on disk first, with one sync for all. The caller holds the commit lock.
    pub fn create(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Result<()> {
        let json = |error: serde_json::Error| Error::because(ErrorKind::InvalidInput, error).of("design");
        let edit = |keyspace: &Arc<OpenKeyspace>| {
            let created = Step::Created {
                name: keyspace.name.clone(),
                schema: serde_json::to_string(keyspace.encoder.schema()).map_err(json)?,
                design: serde_json::to_string(&*keyspace.design()).map_err(json)?,
            };
            let flushed = Step::Flushed { start: keyspace.flushed(), user_bytes: 0 };
            let operator = keyspace.folder.as_ref().map(|folder| Step::MergeOperator(folder.name.clone()));
            let steps = [created, flushed].into_iter().chain(operator).collect();
            Ok(Edit { keyspace: keyspace.id, steps })
        };
        let edits = keyspaces.iter().map(edit).collect::<Result<Vec<_>>>()?;
        self.commit_keyspaces(&edits, || {
            let mut registry = self.keyspaces.write();
            for keyspace in keyspaces {
                self.env.keep_room_for(&keyspace.design());
                registry.by_number.insert(keyspace.id, Arc::clone(keyspace));
                registry.by_name.insert(keyspace.name.clone(), Arc::clone(keyspace));
            }
        })
    }

    /// Shows nobody a keyspace any more that is gone on disk.
    fn forget(&self, keyspace: &OpenKeyspace) {
        keyspace.mark_dropped();
        let mut registry = self.keyspaces.write();
        registry.by_name.remove(&keyspace.name);
        registry.by_number.remove(&keyspace.id);
        drop(registry);
        self.forget_activity(keyspace.id);
    }

    /// Removes a keyspace with everything in it, on disk first. The caller holds the commit lock.
    pub fn remove(&self, keyspace: &OpenKeyspace) -> Result<()> {
        let edit = Edit { keyspace: keyspace.id, steps: vec![Step::Dropped] };
        self.commit_keyspaces(&[edit], || {
            self.forget(keyspace);
            let version = keyspace.version();
            version.tables().for_each(|table| table.mark_obsolete());
            version.sidecars().for_each(|pages| pages.mark_obsolete());
        })?;
        self.env.signals.wake();
        Ok(())
    }

    /// Returns where the oldest unflushed write of any keyspace may stand.
    fn log_start(&self) -> LogStart {
        let _views = self.view_lock.lock();
        let current = self.log.segment();
        let keyspaces = self.all().into_iter();
        let starts = keyspaces.filter_map(|keyspace| keyspace.view.load().oldest_buffer().log_start());
        starts.min().unwrap_or(current).min(current)
    }

    /// Describes the store as a fresh manifest would.
    fn state(&self) -> StoreState {
        let keyspaces = self.all().into_iter().map(|keyspace| {
            let state = KeyspaceState {
                name: keyspace.name.clone(),
                schema: *keyspace.encoder.schema(),
                merge_operator: keyspace.folder.as_ref().map(|folder| folder.name.clone()),
                version: Version::clone(&keyspace.version()),
                flushed: keyspace.flushed(),
                schema_to_come: keyspace.open_schema_change().map(|change| change.to_come()),
            };
            (keyspace.id, state)
        });
        StoreState {
            next_id: self.next_id.load(Ordering::Relaxed),
            secret: self.env.secret.0,
            keyspaces: keyspaces.collect(),
            log_start: self.log_start(),
            log_end: self.log.synced_lsn(),
            clock_ms: self.env.clock.noted_or_now(),
            memory_budget_bytes: self.env.memory().total_bytes(),
        }
    }

    /// Returns the bytes written to manifests; `None` where the store is read-only.
    pub fn manifest_bytes_written(&self) -> Option<u64> {
        self.manifest.lock().as_ref().map(Manifest::bytes_written)
    }

    /// Recomputes how far `keyspace` has fallen behind.
    pub fn refresh_pressure(&self, keyspace: &OpenKeyspace) {
        let version = keyspace.version();
        let idle = VersionShape::of_sizes(&version);
        let pressure = match version.redesign() {
            // What designs before have left is no debt of writers.
            Some(change) => {
                pressure(&version.design, &TopShape { of: &idle, first_run: Some(change.first_run) })
            }
            None => pressure(&version.design, &idle),
        };
        keyspace.set_pressure(pressure);
        self.note_changed(keyspace);
    }

    /// Whether memtables take more than their share of the budget and some of them wait to be flushed.
    pub fn has_too_many_memtables(&self) -> bool {
        if let Some(pool) = self.env.signals.pool() {
            return pool.is_short_of_memory();
        }
        let memory = self.env.memory();
        memory.held_bytes(Holder::Memtable) > memory.most_memtable_bytes()
            && self.any_behind(|keyspace| !keyspace.view.load().sealed.is_empty())
    }
}
