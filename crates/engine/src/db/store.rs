//! What the threads of an open store share, and the one way from a version to the next.
//!
//! Locks, in the order they may be taken: commit → flushing → manifest → switch → wal. Readers take none: they load a view.

use super::head::{Head, Write};
use super::limits::RateLimit;
use super::parallel::{Helpers, UpperReads};
use super::snapshot::Snapshots;
use super::worker::Board;
use super::write::CommitQueue;
use crate::cache::Reader;
use crate::compaction::Output;
use crate::entry::Sequence;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{RunId, SidecarId};
use crate::io::{DirLock, Disk};
use crate::memory::MemoryBudget;
use crate::options::Options;
use crate::record::LogStart;
use crate::stats::{KeyspaceCounters, StoreCounters};
use crate::table::{Table, Trash};
use crate::version::Version;
use crate::version::edit::{Edit, Step};
use crate::version::manifest::{KeyspaceState, Manifest, StoreState};
use crate::wal::Wal;
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use siltstone_design::plan::pressure;
use siltstone_design::{Design, Encoder, HashSecret, RegionShape, Shape, TriePath};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What a reader pins: one keyspace at one moment.
#[derive(Clone)]
pub(crate) struct View {
    /// Takes writes.
    pub active: Head,
    /// Waiting to be flushed, newest first.
    pub sealed: Vec<Head>,
    pub version: Arc<Version>,
}

impl View {
    /// All heads, newest first.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

/// A keyspace of an open store.
pub(crate) struct KeyspaceInner {
    pub id: u64,
    pub name: String,
    pub encoder: Encoder,
    pub design: Design,
    pub view: ArcSwap<View>,
    pub counters: KeyspaceCounters,
    pub upper_reads: UpperReads,
    /// Bits of an `f64`: how far compaction has fallen behind; see `design::plan::pressure`.
    pub pressure: AtomicU64,
    /// Writes before this are in tables.
    pub flushed: Mutex<LogStart>,
    pub dropped: AtomicBool,
}

impl KeyspaceInner {
    /// An empty head for all writes that are newer than `born_at`.
    pub fn new_head(&self, born_at: Sequence, memory: &Arc<MemoryBudget>) -> Head {
        Head::new(&self.design, born_at, self.encoder, memory)
    }

    /// Begins the next head with `write`, which the present one has no room for. Only memory changes, so that nothing can fail.
    pub fn freeze_before(&self, write: &Write<'_>, visible: Sequence, reader: &Reader) -> Head {
        let fresh = self.new_head(write.sequence.saturating_sub(1), reader.memory());
        // An empty head has room.
        let _ = fresh.insert(write, visible, reader);
        self.freeze(fresh.clone());
        fresh
    }

    /// Lets `fresh` take writes from now on, and what took them so far wait to be flushed. Where snapshots are taken, the caller
    /// holds the switch.
    pub fn freeze(&self, fresh: Head) {
        let mut view = View::clone(&self.view.load());
        view.sealed.insert(0, std::mem::replace(&mut view.active, fresh));
        self.view.store(Arc::new(view));
    }
}

/// An open store.
pub(crate) struct Store {
    /// Tells stores of one process apart.
    pub id: u64,
    pub path: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub options: Options,
    pub secret: HashSecret,
    /// Held until the store is closed; none where it is read-only.
    pub lock: Mutex<Option<Box<dyn DirLock>>>,
    read_only: bool,
    pub reader: Arc<Reader>,
    pub memory: Arc<MemoryBudget>,
    pub counters: Arc<StoreCounters>,
    pub trash: Arc<Trash>,
    pub keyspaces: RwLock<BTreeMap<String, Arc<KeyspaceInner>>>,
    pub next_id: AtomicU64,
    /// Sequence number of the newest write that readers may see.
    pub visible: AtomicU64,
    /// Held by whoever writes to log and heads or seals a head.
    pub commit: Mutex<()>,
    /// Held by whoever flushes.
    pub flushing: Mutex<()>,
    pub queue: CommitQueue,
    /// The log and the manifest; absent where the store is read-only.
    pub wal: Mutex<Option<Wal>>,
    pub manifest: Mutex<Option<Manifest>>,
    /// Held while views change and while snapshots are taken.
    pub switch: Mutex<()>,
    pub board: Board,
    poison: Mutex<Option<Error>>,
    is_poisoned: AtomicBool,
    pub closed: AtomicBool,
    pub background_error: Mutex<Option<Error>>,
    /// Held by whoever makes region filters; runs whose keys can't be read, and so not be covered.
    pub filtering: Mutex<HashSet<RunId>>,
    /// What was found damaged or missing of sidecars when the store was opened.
    pub sidecar_notes: Mutex<Vec<String>>,
    /// Sidecars without pages, which closing writes anew.
    pub kept_sidecars: Mutex<Vec<SidecarId>>,
    /// Threads that search last levels for others, and lookups that wait for the device.
    pub helpers: Helpers,
    pub waiting: AtomicUsize,
    /// Whether the disk is so full that only deletes are taken.
    pub space_is_low: AtomicBool,
    pub flush_limit: RateLimit,
    pub compaction_limit: RateLimit,
    /// Snapshots and iterators that are held.
    pub snapshots: Snapshots,
}

/// What opening a store brings together.
pub(crate) struct Parts {
    pub path: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub options: Options,
    pub secret: HashSecret,
    pub lock: Option<Box<dyn DirLock>>,
    pub reader: Arc<Reader>,
    pub counters: Arc<StoreCounters>,
    pub trash: Arc<Trash>,
    pub next_id: u64,
    pub visible: Sequence,
    pub wal: Option<Wal>,
    pub manifest: Option<Manifest>,
    pub keyspaces: BTreeMap<String, Arc<KeyspaceInner>>,
}

impl Store {
    pub fn new(parts: Parts) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(1);
        Self {
            id: STORES.fetch_add(1, Ordering::Relaxed),
            path: parts.path,
            disk: parts.disk,
            secret: parts.secret,
            read_only: parts.lock.is_none(),
            lock: Mutex::new(parts.lock),
            memory: Arc::clone(parts.reader.memory()),
            reader: parts.reader,
            counters: parts.counters,
            trash: parts.trash,
            keyspaces: RwLock::new(parts.keyspaces),
            next_id: AtomicU64::new(parts.next_id),
            visible: AtomicU64::new(parts.visible),
            commit: Mutex::new(()),
            flushing: Mutex::new(()),
            queue: CommitQueue::default(),
            wal: Mutex::new(parts.wal),
            manifest: Mutex::new(parts.manifest),
            switch: Mutex::new(()),
            board: Board::default(),
            poison: Mutex::new(None),
            is_poisoned: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            background_error: Mutex::new(None),
            filtering: Mutex::default(),
            sidecar_notes: Mutex::default(),
            kept_sidecars: Mutex::default(),
            helpers: Helpers::default(),
            waiting: AtomicUsize::new(0),
            space_is_low: AtomicBool::new(false),
            flush_limit: RateLimit::new(parts.options.flush_bytes_per_second),
            compaction_limit: RateLimit::new(parts.options.compaction_bytes_per_second),
            options: parts.options,
            snapshots: Snapshots::default(),
        }
    }

    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn visible(&self) -> Sequence {
        self.visible.load(Ordering::Acquire)
    }

    pub fn all_keyspaces(&self) -> Vec<Arc<KeyspaceInner>> {
        self.keyspaces.read().values().cloned().collect()
    }

    /// An error if writes can't be taken at all.
    pub fn check_writable(&self) -> Result<()> {
        if self.is_poisoned.load(Ordering::Acquire)
            && let Some(cause) = &*self.poison.lock()
        {
            return Err(Error::poisoned(cause));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::invalid("the store has been closed"));
        }
        if self.read_only {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the store is open read-only; open it with Db::open to write",
            ));
        }
        Ok(())
    }

    /// After this no write is taken: the operating system may have lost what it said it had.
    pub fn poison(&self, cause: &Error) {
        self.poison.lock().get_or_insert_with(|| cause.clone());
        self.is_poisoned.store(true, Ordering::Release);
        self.board.wake();
    }

    /// Whether a failed sync has ended all writing.
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Acquire)
    }

    /// Syncs the log as far as it is written.
    pub fn sync_wal(&self) -> Result<()> {
        let work = self.wal.lock().as_ref().and_then(Wal::sync_work);
        self.run_sync(work)
    }

    /// Runs a sync prepared under the log's lock.
    pub fn run_sync(&self, work: Option<crate::wal::SyncWork>) -> Result<()> {
        let Some(work) = work else { return Ok(()) };
        work.run().inspect_err(|error| self.poison(error))?;
        if let Some(wal) = self.wal.lock().as_mut() {
            wal.synced(&work);
        }
        Ok(())
    }

    /// A table from its description.
    pub fn open_table(&self, meta: &crate::table::envelope::TableMeta, encoder: Encoder) -> Arc<Table> {
        Arc::new(Table::new(meta.clone(), encoder, Arc::clone(&self.trash)))
    }

    /// Makes `output` happen to `keyspace`: on disk first, then for readers. `flushed` is the head that is now in tables,
    /// if one is.
    pub fn commit_steps(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        output: Output,
        flushed: Option<&Head>,
    ) -> Result<()> {
        let Output { steps, filters } = output;
        let mut guard = self.manifest.lock();
        let Some(manifest) = guard.as_mut() else { return self.check_writable() };
        if keyspace.dropped.load(Ordering::Acquire) {
            self.remove_new_tables(&steps);
            return Ok(());
        }
        let base = Arc::clone(&keyspace.view.load().version);
        let edit = Edit { keyspace: keyspace.id, steps: absolute(&base, steps) };
        let mut open = |meta: &crate::table::envelope::TableMeta| self.open_table(meta, keyspace.encoder);
        let (mut next, removed) = base.apply(&edit, &mut open).map_err(|what| {
            Error::new(ErrorKind::Corruption, format!("an edit does not fit the store as it is: {what}"))
        })?;
        next.filter_by(&filters);
        next.filter_by(&base.filters_after_rewrites(&edit.steps, &self.memory));
        debug_check(&next, &keyspace.design);
        manifest.append(&edit).inspect_err(|error| {
            // A full disk took a part of the edit at most, and needs the room. After any other failure the whole of it may
            // be there, and a crash may find it; its tables then have to be there too.
            if error.kind() == ErrorKind::StorageFull {
                self.remove_new_tables(&edit.steps);
            }
        })?;
        manifest.sync().inspect_err(|error| self.poison(error))?;
        let next = Arc::new(next);
        {
            let _switch = self.switch.lock();
            let mut view = View::clone(&keyspace.view.load());
            view.version = Arc::clone(&next);
            if let Some(flushed) = flushed {
                view.sealed.retain(|head| !head.is(flushed));
            }
            keyspace.view.store(Arc::new(view));
        }
        base.retire_sidecars(&next);
        for table in &removed {
            table.mark_obsolete();
        }
        for step in &edit.steps {
            if let Step::Flushed { start, .. } = step {
                *keyspace.flushed.lock() = *start;
            }
        }
        self.refresh_pressure(keyspace);
        self.reader.fit_cache();
        if flushed.is_some() {
            self.advance_log_start(manifest)?;
        }
        if manifest.wants_rewrite() {
            let state = self.state();
            match manifest.rewrite(&state) {
                // The old manifest is as good; the next edit tries again.
                Err(error) if error.kind() == ErrorKind::StorageFull => {}
                rewritten => rewritten.inspect_err(|error| self.poison(error))?,
            }
        }
        Ok(())
    }

    /// Shows readers a version that differs from the present one in what no manifest speaks of: region filters, what is in memory.
    /// Sidecars that it no longer uses go.
    pub fn publish(&self, keyspace: &KeyspaceInner, change: impl FnOnce(&mut Version)) {
        // Versions change under the manifest's lock.
        let _manifest = self.manifest.lock();
        let _switch = self.switch.lock();
        let mut view = View::clone(&keyspace.view.load());
        let before = Arc::clone(&view.version);
        let mut version = Version::clone(&before);
        change(&mut version);
        before.retire_sidecars(&version);
        view.version = Arc::new(version);
        keyspace.view.store(Arc::new(view));
        self.reader.fit_cache();
    }

    /// Removes the files of tables that `steps` would have added.
    fn remove_new_tables(&self, steps: &[Step]) {
        for step in steps {
            let Step::AddRun { run, .. } = step else { continue };
            for table in &run.tables {
                self.reader.forget(table.id, 0);
                // Left behind, it would be removed as an orphan at the next open.
                let _ = self.disk.remove(&self.reader.path(table.id));
            }
        }
    }

    /// Writes a keyspace's creation or end to the manifest, then lets `publish` show it. The manifest stays locked
    /// meanwhile: one that is written afresh must not miss what it replaces.
    pub fn commit_keyspace(&self, edit: &Edit, publish: impl FnOnce()) -> Result<()> {
        // What was written before must not be lost where this is kept.
        self.sync_wal()?;
        let mut guard = self.manifest.lock();
        let Some(manifest) = guard.as_mut() else { return self.check_writable() };
        manifest.append(edit)?;
        manifest.sync().inspect_err(|error| self.poison(error))?;
        publish();
        Ok(())
    }

    /// Where the oldest unflushed write of any keyspace may stand.
    fn log_start(&self) -> LogStart {
        let _switch = self.switch.lock();
        let current = self.wal.lock().as_ref().map(Wal::segment).unwrap_or_default();
        let starts = self.all_keyspaces().into_iter().filter_map(|keyspace| {
            let view = keyspace.view.load();
            view.sealed.last().unwrap_or(&view.active).log_start()
        });
        starts.min().unwrap_or(current).min(current)
    }

    /// Records how much of the log is no longer needed, then gives that part up.
    fn advance_log_start(&self, manifest: &mut Manifest) -> Result<()> {
        let start = self.log_start();
        let is_new = self.wal.lock().as_ref().is_some_and(|wal| wal.has_segments_before(start.segment));
        if !is_new {
            return Ok(());
        }
        manifest.append(&Edit { keyspace: 0, steps: vec![Step::LogStart(start)] })?;
        manifest.sync().inspect_err(|error| self.poison(error))?;
        let retired =
            self.wal.lock().as_mut().map(|wal| wal.retire_before(start.segment)).unwrap_or_default();
        for path in retired {
            // Left behind, it would be removed at the next open.
            let _ = self.disk.remove(&path);
        }
        Ok(())
    }

    /// Writes down, in the log and in the manifest, that the log is synced to its end: the next open can then tell damage
    /// from a torn tail, and miss what is missing. A failure loses nothing.
    pub fn note_log_end(&self) {
        let synced = {
            let mut wal = self.wal.lock();
            let Some(wal) = wal.as_mut() else { return };
            let synced = wal.synced_lsn();
            let _ = wal.mark_synced();
            synced
        };
        if let Some(manifest) = self.manifest.lock().as_mut()
            && manifest.append(&Edit { keyspace: 0, steps: vec![Step::LogEnd(synced)] }).is_ok()
        {
            let _ = manifest.sync();
        }
    }

    /// The state that a fresh manifest would describe.
    pub fn state(&self) -> StoreState {
        let keyspaces = self.all_keyspaces().into_iter().map(|keyspace| {
            let state = KeyspaceState {
                name: keyspace.name.clone(),
                schema: *keyspace.encoder.schema(),
                design: keyspace.design.clone(),
                version: Version::clone(&keyspace.view.load().version),
                flushed: *keyspace.flushed.lock(),
            };
            (keyspace.id, state)
        });
        StoreState {
            next_id: self.next_id.load(Ordering::Relaxed),
            secret: self.secret.0,
            keyspaces: keyspaces.collect(),
            log_start: self.log_start(),
            log_end: self.wal.lock().as_ref().map_or(0, Wal::synced_lsn),
        }
    }

    /// Recomputes how far `keyspace` has fallen behind.
    pub fn refresh_pressure(&self, keyspace: &KeyspaceInner) {
        let view = keyspace.view.load();
        let shape = VersionShape { version: &view.version, busy: &|_, _| false, now_ms: 0 };
        let pressure = pressure(&keyspace.design, &shape);
        keyspace.pressure.store(pressure.to_bits(), Ordering::Relaxed);
    }

    /// Removes files that nobody holds any more.
    pub fn empty_trash(&self) {
        for (file, pages) in self.trash.take() {
            self.reader.forget(file, pages);
            // Left behind, it would be removed as an orphan at the next open.
            let _ = self.disk.remove(&self.reader.path(file));
        }
    }

    /// Looks whether the disk has room for more than deletes.
    pub fn check_space(&self) {
        if let Ok(free) = self.disk.free_bytes(&self.path) {
            self.space_is_low.store(free < self.options.reserve_bytes, Ordering::Relaxed);
        }
    }
}

/// Turns the bytes written of `steps`, which count what they add, into totals, as edits hold them.
fn absolute(base: &Version, steps: Vec<Step>) -> Vec<Step> {
    let mut added: BTreeMap<usize, u64> = BTreeMap::new();
    let mut out = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Written { level, bytes } => *added.entry(level).or_default() += bytes,
            other => out.push(other),
        }
    }
    for (level, bytes) in added {
        let before = base.levels.get(level).map_or(0, |level| level.bytes_written);
        out.push(Step::Written { level, bytes: before + bytes });
    }
    out
}

/// In tests and debug builds every new version is checked.
fn debug_check(version: &Version, design: &Design) {
    if cfg!(debug_assertions) {
        let problems = crate::version::check::problems(version, design);
        assert!(problems.is_empty(), "an edit broke the version: {problems:?}");
    }
}

/// A version as the planner sees it.
pub(crate) struct VersionShape<'a> {
    pub version: &'a Version,
    pub busy: &'a dyn Fn(usize, TriePath) -> bool,
    pub now_ms: u64,
}

impl Shape for VersionShape<'_> {
    fn level_count(&self) -> usize {
        self.version.levels.len()
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        for region in self.version.levels.get(level).map_or(&[][..], |l| &l.regions) {
            if !region.runs.is_empty() {
                visit(&region.shape_at(self.now_ms));
            }
        }
    }

    fn is_busy(&self, level: usize, path: TriePath) -> bool {
        (self.busy)(level, path)
    }
}

/// Regions that running work reads or replaces: keyspace, level, path.
pub(crate) type Busy = HashSet<(u64, usize, TriePath)>;
