//! Opening a store: CURRENT → manifest → drop orphans → replay the log.
//!
//! Takes time in the size of the manifest and the log, never in the size of the data: tables are not touched
//! until they are read.

pub(super) mod checkpoint;
pub(crate) mod directory;
mod dropped;
mod into_buffers;
mod opening;
mod read_only;
pub(super) mod verify;
mod verify_table;

pub(super) use directory::Purpose;
pub(super) use read_only::{open_read_only, open_read_only_for};

use super::catalog::CatalogParts;
use super::store::Store;
use super::write_buffer::WriteBuffer;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Reason;
use crate::filename::{self, CURRENT, is_manifest};
use crate::io::Disk;
use crate::io::checked::CheckedDisk;
use crate::options::{IndexLoading, Options};
use crate::record::{LogStart, ManifestEnd};
use crate::region_filter::directory::SidecarDirectory;
use crate::resources::affordable_files;
use crate::version::manifest::{Loaded, Manifest, StoreState};
use crate::wal::{LiveSegment, Replayed, Wal};
use directory::{check_is_store, missing, names, take_lock};
use opening::Opening;
use siltstone_design::HashSecret;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Small log segments that an open leaves to the next one.
const MOST_SEGMENTS: usize = 4;
const SMALL_SEGMENT_BYTES: u64 = 1 << 20;

/// Opens the store in `dir` for reading and writing, creating it where `options` allow.
pub(super) fn open(dir: &Path, options: Options, disk: Arc<dyn Disk>) -> Result<Store> {
    open_for(dir, options, disk, Purpose::Use).map_err(|error| match error.kind() {
        ErrorKind::StorageFull => {
            error.of(format_args!("{} can be opened for reading only until there is room", dir.display()))
        }
        _ => error,
    })
}

/// As [`open`], for one purpose or another.
pub(super) fn open_for(dir: &Path, options: Options, disk: Arc<dyn Disk>, purpose: Purpose) -> Result<Store> {
    options.check()?;
    let disk = Arc::new(CheckedDisk::new(disk, dir));
    prepare_directory(dir, &options, disk.as_ref(), purpose)?;
    let lock = take_lock(disk.as_ref(), dir)?;
    let opening = Opening::new(Arc::clone(&disk), dir, options);
    let loaded = match opening.load()? {
        Some(loaded) => loaded,
        None => Loaded { state: new_state(disk.as_ref(), &opening.options), end: ManifestEnd::default() },
    };
    let found = Found::new(&opening, loaded.state.clone(), loaded.end.number);
    let mut found = found.map_err(|error| opening.blame(error, &loaded))?;
    let secret = HashSecret(found.state.secret);
    let keyspaces = opening.keyspaces(found.state.clone())?;
    let sidecars = opening.sidecars(&secret, true)?;
    let loads = opening.options.index_loading == IndexLoading::OnDemand;
    let reader = opening.reader(&sidecars, affordable_files(opening.options.max_open_files), loads);
    let replayed = opening.replay(&loaded, &keyspaces, &reader)?;

    // From here on the store is changed: first what is to be kept is made safe, then the rest goes.
    if replayed.is_damaged {
        dropped::keep(disk.as_ref(), dir, &replayed, &found.orphaned_tables())?;
    }
    sidecars.settle(disk.as_ref(), dir)?;
    let retained = opening.retained(&loaded, opening.options.tail_retention_bytes)?;
    let mut obsolete: Vec<PathBuf> =
        replayed.obsolete.iter().filter(|path| !is_path_of(&retained, path)).cloned().collect();
    // Others may still be reading what log stores have in segments.
    let is_read = keyspaces.values().any(|keyspace| {
        let version = keyspace.version();
        version.redesign().is_some() || WriteBuffer::reads_from_log(&version.design)
    });
    let spare = if is_read { None } else { obsolete.pop() };
    let mut wal = Wal::start(Arc::clone(&disk), dir, &replayed, spare)?;
    wal.retain(retained, opening.options.tail_retention_bytes, opening.options.max_wal_bytes);
    found.state.log_end = replayed.end_lsn;
    found.state.memory_budget_bytes = opening.memory.total_bytes();
    let manifest = Manifest::create(disk.clone(), dir, found.next_manifest, &found.state)?;
    // It matters only if it is there.
    let _ = wal.note_manifest_end(manifest.synced_end());
    opening.counters.wal_bytes.add(wal.bytes_written());
    found.remove_orphans(&opening, &sidecars, &obsolete)?;

    let (visible, next_id) = (replayed.end_lsn, found.state.next_id);
    let (wal, manifest, segments) = (Some(wal), Some(manifest), Vec::new());
    let catalog = CatalogParts { keyspaces, next_id, visible, wal, segments, manifest };
    let store = Store::new(opening.into_parts(&found.state, Some(lock), reader, catalog));

    store.sidecars.load();
    settle(&store, &replayed)?;
    store.catalog.check_space();
    store.env.check_writable()?;
    Ok(store)
}

/// Whether `path` is that of one of `segments`.
fn is_path_of(segments: &[LiveSegment], path: &Path) -> bool {
    segments.iter().any(|segment| segment.path == path)
}

/// Checks that `dir` is a store's, or makes it.
fn prepare_directory(dir: &Path, options: &Options, disk: &dyn Disk, purpose: Purpose) -> Result<()> {
    match names(disk, dir)? {
        Some(_) if purpose == Purpose::Repair => {}
        Some(names) => {
            check_is_store(&names, dir, options.create_if_missing)?;
            if !options.create_if_missing && !names.iter().any(|name| name == CURRENT) {
                return Err(missing(dir));
            }
        }
        None if options.create_if_missing => {
            disk.create_dir_all(dir).map_err(|e| Error::io(&e, "creating directory", dir))?;
        }
        None => return Err(missing(dir)),
    }
    if let Some(metadata_dir) = &options.metadata_dir {
        let fail = |error: std::io::Error| Error::io(&error, "creating directory", metadata_dir);
        disk.create_dir_all(metadata_dir).map_err(fail)?;
    }
    Ok(())
}

/// Describes a store that has never held anything.
fn new_state(disk: &dyn Disk, options: &Options) -> StoreState {
    let mut secret = [0u8; 16];
    let (a, b) = secret.split_at_mut(8);
    a.copy_from_slice(&disk.random_u64().to_le_bytes());
    b.copy_from_slice(&disk.random_u64().to_le_bytes());
    let secret = options.hash_secret.unwrap_or(secret);
    let log_start = LogStart { segment: 1, lsn: 0 };
    StoreState { next_id: 1, secret, log_start, ..StoreState::default() }
}

/// What an opening for writing finds.
struct Found {
    state: StoreState,
    names: Vec<String>,
    /// Tables that the manifest names.
    live: HashSet<u64>,
    next_manifest: u64,
}

impl Found {
    /// Looks at the directory of a store that the manifest describes by `state`.
    fn new(opening: &Opening, mut state: StoreState, manifest_number: u64) -> Result<Self> {
        for keyspace in state.keyspaces.values() {
            let checked = opening.options.check_design(&keyspace.version.design, &keyspace.schema);
            checked.map_err(|error| error.of(format_args!("keyspace {:?}", keyspace.name)))?;
        }
        let names = names(opening.disk.as_ref(), &opening.dir)?.unwrap_or_default();
        let numbered = names.iter().filter_map(|name| filename::table_number(name));
        let largest = numbered.max().unwrap_or(0).max(largest_id(&state));
        state.next_id = state.next_id.max(largest + 1);
        let tables = state.keyspaces.values().flat_map(|keyspace| keyspace.version.tables());
        let live: HashSet<u64> = tables.map(|table| table.id()).collect();
        if let Some(missing) = live.iter().find(|id| names.binary_search(&filename::table(**id)).is_err()) {
            return Err(Error::missing_table(&filename::table_path(&opening.dir, *missing)));
        }
        // The numbers of manifests that a crash left behind are passed over too.
        let manifests = names.iter().filter_map(|name| filename::manifest_number(name));
        let next_manifest = manifests.max().unwrap_or(0).max(manifest_number) + 1;
        Ok(Self { state, names, live, next_manifest })
    }

    /// Names of tables that the manifest does not name.
    fn orphaned_tables(&self) -> Vec<String> {
        let is_orphan =
            |name: &&String| filename::table_number(name).is_some_and(|id| !self.live.contains(&id));
        self.names.iter().filter(is_orphan).cloned().collect()
    }

    /// Removes files that nothing names any more.
    fn remove_orphans(
        &self,
        opening: &Opening,
        sidecars: &SidecarDirectory,
        obsolete: &[PathBuf],
    ) -> Result<()> {
        let Opening { disk, dir, .. } = opening;
        let keep_manifest = filename::manifest(self.next_manifest);
        let is_orphan = |name: &&String| {
            filename::table_number(name).is_some_and(|id| !self.live.contains(&id))
                || (is_manifest(name) && **name != keep_manifest)
                || (sidecars.dir != *dir && filename::is_sidecar(name))
                || *name == filename::UNFINISHED
        };
        let orphans = self.names.iter().filter(is_orphan).map(|name| dir.join(name));
        for path in orphans.chain(obsolete.iter().cloned()) {
            // What stays behind is an orphan at the next open too.
            let _ = disk.remove(&path);
        }
        disk.sync_dir(dir).map_err(|e| Error::io(&e, "syncing directory", dir))
    }
}

/// Returns the largest number that any table, run or keyspace of `state` has.
fn largest_id(state: &StoreState) -> u64 {
    let runs = state.keyspaces.values().flat_map(|keyspace| {
        let regions = keyspace.version.levels.iter().flat_map(|level| &level.regions);
        regions.flat_map(|region| &region.runs).map(|run| run.id)
    });
    let tables = state.keyspaces.values().flat_map(|k| k.version.tables()).map(|table| table.id());
    runs.chain(tables).chain(state.keyspaces.keys().copied()).max().unwrap_or(0)
}

/// Seals write buffers that the replay has filled, and flushes a log in many pieces, as many short sessions
/// leave it.
fn settle(store: &Store, replayed: &Replayed) -> Result<()> {
    let small = replayed.live.iter().filter(|segment| segment.bytes() < SMALL_SEGMENT_BYTES);
    let segments = small.count();
    let is_scattered = segments >= MOST_SEGMENTS;
    for keyspace in store.catalog.all() {
        store.catalog.refresh_pressure(&keyspace);
        // A log longer than a memtable is flushed as one.
        if keyspace.view.load().active.fill(&keyspace.design()) >= 1.0 {
            store.committer.seal_one(&keyspace, keyspace.buffer_is_full())?;
        } else if is_scattered {
            let segments = segments as u64;
            store.committer.seal_one(&keyspace, Reason::LogScattered { segments })?;
        }
        // A failure (a full disk) leaves the log as it is.
        while is_scattered && store.scheduler.flush_one(&keyspace).unwrap_or(false) {}
    }
    Ok(())
}
