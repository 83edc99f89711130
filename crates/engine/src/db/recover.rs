//! Opening a store: CURRENT → manifest → drop orphans → replay the log.
//!
//! Takes time in the size of the manifest and the log, never in the size of the data: tables are not touched until they
//! are read.

use super::Handle;
use super::head::{Full, Head, Write};
use super::store::{KeyspaceInner, Parts, Store, View};
use crate::cache::Reader;
use crate::codec::Decoder;
use crate::error::{Error, ErrorKind, Result};
use crate::filename::{self, CURRENT, LOCK, is_manifest, is_ours};
use crate::io::{DirLock, Disk};
use crate::memory::MemoryBudget;
use crate::operation::{self, Operation};
use crate::options::{IndexLoading, Options};
use crate::record::{HEADER_BYTES, LogStart};
use crate::region_filter::directory::SidecarDirectory;
use crate::segment::LogSegment;
use crate::stats::{KeyspaceCounters, StoreCounters};
use crate::table::envelope::TableMeta;
use crate::table::{Table, Trash};
use crate::version::manifest::{Loaded, Manifest, StoreState, load};
use crate::wal::{Replayed, Wal, replay};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use siltstone_design::{Encoder, HashSecret, Schema};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Small log segments that an open leaves to the next one.
const MOST_SEGMENTS: usize = 4;
const SMALL_SEGMENT_BYTES: u64 = 1 << 20;
/// How often a read-only open tries to catch the files of a store that another process is writing.
const READ_ONLY_TRIES: usize = 20;

fn names(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<String>>> {
    match disk.list(dir) {
        Ok(names) => Ok(Some(names)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => Err(Error::new(
            ErrorKind::NotAStore,
            format!("{} is a file; a store is a directory", dir.display()),
        )),
        Err(e) => Err(Error::io(&e, "listing", dir)),
    }
}

/// Refuses directories that hold something else.
fn check_is_store(names: &[String], dir: &Path) -> Result<()> {
    if names.iter().any(|name| name == CURRENT) {
        return Ok(());
    }
    if let Some(foreign) = names.iter().find(|name| !is_ours(name)) {
        return Err(Error::new(
            ErrorKind::NotAStore,
            format!(
                "{} is not a Siltstone store: it holds {foreign:?} and no {CURRENT} file; name an empty or a new directory",
                dir.display()
            ),
        ));
    }
    if names.iter().any(|name| filename::is_table(name)) {
        return Err(Error::corruption(
            dir.join(CURRENT).display(),
            0,
            "the file that names the manifest",
            "no such file, although there are tables",
        )
        .and("restore it from a copy"));
    }
    Ok(())
}

fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>> {
    let path = dir.join(LOCK);
    let owner = format!("process {}", std::process::id());
    disk.lock(&path, &owner).map_err(|e| match e.kind() {
        std::io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::Locked,
            format!("{} is locked by {}; close it there, or open it read-only", dir.display(), owner_of(&e)),
        ),
        _ => Error::io(&e, "locking", &path),
    })
}

/// Who holds a lock, where its text is one that [`take_lock`] writes.
fn owner_of(text: &impl std::fmt::Display) -> String {
    let text = text.to_string();
    parse_owner(text.as_bytes()).map_or_else(|| "another process".to_owned(), str::to_owned)
}

/// Reads LOCK's text, which says who opened the store.
pub(crate) fn parse_owner(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let number = text.strip_prefix("process ")?;
    (number.len() <= 20 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// What a store is made of while it is being opened.
struct Opening {
    disk: Arc<dyn Disk>,
    dir: std::path::PathBuf,
    options: Options,
    memory: Arc<MemoryBudget>,
    counters: Arc<StoreCounters>,
    trash: Arc<Trash>,
}

impl Opening {
    fn new(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Self {
        let memory = MemoryBudget::new(options.memory_budget_bytes);
        let trash = Arc::new(Trash::new(Arc::clone(&memory)));
        Self { disk, dir: dir.to_owned(), memory, options, counters: Arc::default(), trash }
    }

    fn load(&self) -> Result<Option<Loaded>> {
        let mut open = |meta: &TableMeta, schema: &Schema, state: &StoreState| {
            let encoder = Encoder::new(*schema, HashSecret(state.secret));
            Arc::new(Table::new(meta.clone(), encoder, Arc::clone(&self.trash)))
        };
        load(self.disk.as_ref(), &self.dir, &mut open)
    }

    fn keyspaces(&self, state: StoreState) -> BTreeMap<String, Arc<KeyspaceInner>> {
        let keyspaces = state.keyspaces.into_iter().map(|(id, keyspace)| {
            let encoder = Encoder::new(keyspace.schema, HashSecret(state.secret));
            let active = Head::new(&keyspace.design, 0, encoder, &self.memory);
            let view = View { active, sealed: Vec::new(), version: Arc::new(keyspace.version) };
            let inner = KeyspaceInner {
                id,
                name: keyspace.name.clone(),
                encoder,
                design: keyspace.design,
                view: ArcSwap::from_pointee(view),
                counters: KeyspaceCounters::default(),
                upper_reads: Default::default(),
                pressure: AtomicU64::new(0),
                flushed: Mutex::new(keyspace.flushed),
                dropped: AtomicBool::new(false),
            };
            (keyspace.name, Arc::new(inner))
        });
        keyspaces.collect()
    }

    /// Replays the log into the keyspaces' heads.
    fn replay(
        &self,
        start: LogStart,
        synced: u64,
        keyspaces: &BTreeMap<String, Arc<KeyspaceInner>>,
        reader: &Reader,
    ) -> Result<Replayed> {
        let by_id: BTreeMap<u64, &Arc<KeyspaceInner>> = keyspaces.values().map(|k| (k.id, k)).collect();
        let mut apply = |segment: &Arc<LogSegment>, lsn: u64, payload: &[u8]| {
            let strange = || {
                let path = segment.path.display();
                Error::corruption(path, 0, "a batch", "operations this program can't read")
            };
            let mut from = Decoder::new(payload);
            while !from.is_empty() {
                let at = payload.len() - from.remaining();
                let operation = operation::decode(&mut from).ok_or_else(strange)?;
                let length = payload.len() - from.remaining() - at;
                // Writes of dropped keyspaces, and those that are in tables already, are passed over.
                let Some(keyspace) = by_id.get(&operation.keyspace) else { continue };
                if segment.number < keyspace.flushed.lock().segment {
                    continue;
                }
                if !keyspace.view.load().active.takes(&operation) {
                    return Err(strange());
                }
                let sequence = lsn + (HEADER_BYTES + at) as u64;
                Self::replay_one(keyspace, &operation, (segment, sequence, length), reader)?;
            }
            Ok(())
        };
        replay(self.disk.as_ref(), &self.dir, start, synced, self.options.wal_recovery, &mut apply)
    }

    /// Replays one operation, so many bytes that stand in a segment.
    fn replay_one(
        keyspace: &KeyspaceInner,
        operation: &Operation<'_>,
        (segment, sequence, length): (&Arc<LogSegment>, u64, usize),
        reader: &Reader,
    ) -> Result<()> {
        let head = keyspace.view.load().active.clone();
        let key = operation.key;
        let Some(item) = operation.item else {
            head.delete_prefix(sequence, segment, keyspace.encoder.encode_prefix(key)?, key);
            return Ok(());
        };
        let place = keyspace.encoder.encode(key)?;
        let place = (place.digest, place.fingerprint);
        let write = Write { sequence, segment, length, place, key, item, older_in: 0 };
        // Nobody has seen anything yet, so that of a key's versions the newest is enough.
        if head.insert(&write, 0, reader) == Err(Full) {
            keyspace.freeze_before(&write, 0, reader);
        }
        Ok(())
    }

    fn sidecars(&self, secret: &HashSecret, may_write: bool) -> Result<SidecarDirectory> {
        let metadata_dir = self.options.metadata_dir.as_deref();
        SidecarDirectory::find(self.disk.as_ref(), &self.dir, metadata_dir, secret, may_write)
    }

    fn reader(&self, sidecars: &SidecarDirectory, max_open_files: usize, loads: bool) -> Arc<Reader> {
        let reader = Reader::new(
            Arc::clone(&self.disk),
            self.dir.clone(),
            max_open_files,
            Arc::clone(&self.memory),
            Arc::clone(&self.counters),
        );
        Arc::new(reader.with_metadata_in(sidecars.dir.clone()).loading(loads))
    }
}

/// The largest number any table, run or keyspace of `state` has.
fn largest_id(state: &StoreState) -> u64 {
    let runs = state.keyspaces.values().flat_map(|keyspace| {
        let regions = keyspace.version.levels.iter().flat_map(|level| &level.regions);
        regions.flat_map(|region| &region.runs).map(|run| run.id)
    });
    let tables = state.keyspaces.values().flat_map(|k| k.version.tables()).map(|table| table.id());
    runs.chain(tables).chain(state.keyspaces.keys().copied()).max().unwrap_or(0)
}

/// Opens the store in `dir` for reading and writing, creating it where `options` allow.
pub(super) fn open(dir: &Path, options: Options, disk: Arc<dyn Disk>) -> Result<Arc<Store>> {
    options.check()?;
    match names(disk.as_ref(), dir)? {
        Some(names) => {
            check_is_store(&names, dir)?;
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
    let lock = take_lock(disk.as_ref(), dir)?;
    let opening = Opening::new(Arc::clone(&disk), dir, options.clone());
    let (mut state, manifest_number) = match opening.load()? {
        Some(loaded) => (loaded.state, loaded.number),
        None => {
            let mut secret = [0u8; 16];
            let (a, b) = secret.split_at_mut(8);
            a.copy_from_slice(&crate::io::random_u64().to_le_bytes());
            b.copy_from_slice(&crate::io::random_u64().to_le_bytes());
            let secret = options.hash_secret.unwrap_or(secret);
            let log_start = LogStart { segment: 1, lsn: 0 };
            (StoreState { next_id: 1, secret, log_start, log_end: 0, keyspaces: BTreeMap::new() }, 0)
        }
    };
    for keyspace in state.keyspaces.values() {
        let checked = options.check_design(&keyspace.design, &keyspace.schema);
        checked.map_err(|error| error.of(format_args!("keyspace {:?}", keyspace.name)))?;
    }
    let names = names(disk.as_ref(), dir)?.unwrap_or_default();
    let numbered = names.iter().filter_map(|name| filename::table_number(name));
    let largest = numbered.max().unwrap_or(0).max(largest_id(&state));
    state.next_id = state.next_id.max(largest + 1);

    let (log_start, log_end) = (state.log_start, state.log_end);
    let (secret, next_id) = (HashSecret(state.secret), state.next_id);
    let live: HashSet<u64> =
        state.keyspaces.values().flat_map(|k| k.version.tables()).map(|table| table.id()).collect();
    if let Some(missing) = live.iter().find(|id| names.binary_search(&filename::table(**id)).is_err()) {
        return Err(Error::missing_table(&filename::table_path(dir, *missing)));
    }
    // The numbers of manifests that a crash left behind are passed over too.
    let left_behind = names.iter().filter_map(|name| filename::manifest_number(name));
    let next_manifest = left_behind.max().unwrap_or(0).max(manifest_number) + 1;
    let keyspaces = opening.keyspaces(state.clone());
    let sidecars = opening.sidecars(&secret, true)?;
    let loads = options.index_loading == IndexLoading::OnDemand;
    let reader = opening.reader(&sidecars, options.max_open_files, loads);
    let replayed = opening.replay(log_start, log_end, &keyspaces, &reader)?;
    let visible = replayed.end_lsn;

    // From here on the store is changed: first what is to be kept is made safe, then the rest goes.
    sidecars.settle(disk.as_ref(), dir)?;
    let wal = Wal::start(Arc::clone(&disk), dir, &replayed)?;
    state.log_end = replayed.end_lsn;
    let manifest = Manifest::create(Arc::clone(&disk), dir, next_manifest, &state)?;
    opening.counters.wal_bytes.add(wal.bytes_written());
    let keep_manifest = filename::manifest(next_manifest);
    let is_orphan = |name: &&String| {
        let table = filename::table_number(name);
        table.is_some_and(|id| !live.contains(&id))
            || (is_manifest(name) && **name != keep_manifest)
            || (sidecars.dir != dir && filename::is_sidecar(name))
    };
    let orphans = names.iter().filter(is_orphan).map(|name| dir.join(name));
    for path in orphans.chain(replayed.obsolete.iter().cloned()) {
        // What stays behind is an orphan at the next open too.
        let _ = disk.remove(&path);
    }
    disk.sync_dir(dir).map_err(|e| Error::io(&e, "syncing directory", dir))?;

    let small = replayed.live.iter().filter(|segment| segment.bytes() < SMALL_SEGMENT_BYTES);
    let is_scattered = small.count() >= MOST_SEGMENTS;
    let store = Arc::new(Store::new(Parts {
        path: dir.to_owned(),
        disk,
        reader,
        options,
        secret,
        lock: Some(lock),
        counters: opening.counters,
        trash: opening.trash,
        next_id,
        visible,
        wal: Some(wal),
        manifest: Some(manifest),
        keyspaces,
    }));
    store.check_space();
    store.load_sidecars();
    for keyspace in store.all_keyspaces() {
        store.refresh_pressure(&keyspace);
        // A log longer than a memtable is flushed as one; so is one in many pieces, as many short sessions leave it.
        if is_scattered || keyspace.view.load().active.fill(&keyspace.design) >= 1.0 {
            let _commit = store.commit.lock();
            store.seal(&keyspace)?;
        }
        // A failure (a full disk) leaves the log as it is.
        while is_scattered && store.flush_one(&keyspace).unwrap_or(false) {}
    }
    store.check_writable()?;
    Ok(store)
}

fn missing(dir: &Path) -> Error {
    Error::new(
        ErrorKind::NotAStore,
        format!(
            "there is no Siltstone store in {}; check the path, or create one by writing to it",
            dir.display()
        ),
    )
}

/// Opens the store in `dir` for reading, beside whoever has it open for writing.
pub(super) fn open_read_only(dir: &Path, options: Options, disk: Arc<dyn Disk>) -> Result<Arc<Store>> {
    options.check()?;
    let names = names(disk.as_ref(), dir)?.ok_or_else(|| missing(dir))?;
    check_is_store(&names, dir)?;
    let mut tries = 0;
    loop {
        tries += 1;
        match try_open_read_only(dir, &options, &disk) {
            Ok(Some(store)) => return Ok(store),
            // The writer moved files under us.
            Ok(None) if tries < READ_ONLY_TRIES => {}
            Ok(None) => {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("{} changes too fast to be opened read-only; try again", dir.display()),
                ));
            }
            // A log that was reused looks damaged, one that was removed is not there.
            Err(error)
                if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io)
                    && tries < READ_ONLY_TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

/// One try; `None` where the manifest changed meanwhile.
fn try_open_read_only(dir: &Path, options: &Options, disk: &Arc<dyn Disk>) -> Result<Option<Arc<Store>>> {
    let opening = Opening::new(Arc::clone(disk), dir, options.clone());
    let Some(Loaded { state, number }) = opening.load()? else { return Err(missing(dir)) };
    let tables: Vec<_> = state.keyspaces.values().flat_map(|k| k.version.tables()).cloned().collect();
    let (log_start, log_end) = (state.log_start, state.log_end);
    let (secret, next_id) = (HashSecret(state.secret), state.next_id);
    let keyspaces = opening.keyspaces(state);
    // Held open, the files stay readable when the writer removes their names.
    let sidecars = opening.sidecars(&secret, false)?;
    let files = disk.list(&sidecars.dir).unwrap_or_default();
    let files = files.iter().filter(|name| filename::is_sidecar(name)).count();
    // Nobody works in the background here.
    let reader = opening.reader(&sidecars, options.max_open_files.max(tables.len() + files + 16), true);
    let visible = opening.replay(log_start, log_end, &keyspaces, &reader)?.end_lsn;
    for table in &tables {
        reader.file(table.id())?;
    }
    let again = opening.load()?;
    if again.is_none_or(|now| now.number != number || now.state.log_start != log_start) {
        return Ok(None);
    }
    let store = Store::new(Parts {
        path: dir.to_owned(),
        disk: Arc::clone(disk),
        options: options.clone(),
        secret,
        lock: None,
        reader,
        counters: opening.counters,
        trash: opening.trash,
        next_id,
        visible,
        wal: None,
        manifest: None,
        keyspaces,
    });
    store.load_sidecars();
    Ok(Some(Arc::new(store)))
}

impl Handle {
    /// Starts the threads of an open store.
    pub(super) fn start(store: Arc<Store>) -> Result<Arc<Self>> {
        let threads = if store.check_writable().is_ok() { super::worker::start(&store)? } else { Vec::new() };
        Ok(Arc::new(Self { store, threads: Mutex::new(threads) }))
    }
}
