//! What opening for writing and opening for reading share: the manifest loaded, and the log replayed into
//! write buffers.

use super::into_buffers::IntoBuffers;
use crate::cache::{Caches, Reader};
use crate::db::catalog::keyspace::{KeyspaceParts, OpenKeyspace};
use crate::db::catalog::schema_change::SchemaChange;
use crate::db::catalog::{CatalogParts, Keyspaces};
use crate::db::store::StoreParts;
use crate::error::{Error, ErrorKind, Result};
use crate::io::checked::CheckedDisk;
use crate::io::{DirLock, heap};
use crate::memory::MemoryBudget;
use crate::options::Options;
use crate::region_filter::directory::SidecarDirectory;
use crate::stats::StoreCounters;
use crate::table::envelope::TableMeta;
use crate::table::{Table, Trash};
use crate::version::manifest::{Loaded, SchemaToCome, StoreState, load};
use crate::wal::{LiveSegment, Replayed, noted_manifest_end, replay, segments_before};
use siltstone_design::{Encoder, HashSecret, Schema};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a store is made of while it is being opened.
pub(super) struct Opening {
    pub disk: Arc<CheckedDisk>,
    pub dir: PathBuf,
    pub options: Options,
    pub memory: Arc<MemoryBudget>,
    /// Those of other stores as well, where they are shared.
    caches: Option<Arc<Caches>>,
    pub counters: Arc<StoreCounters>,
    pub trash: Arc<Trash>,
}

impl Opening {
    pub fn new(disk: Arc<CheckedDisk>, dir: &Path, options: Options) -> Self {
        heap::return_large_pieces();
        let options = options.with_shared();
        let (memory, caches) = match &options.resources {
            Some(shared) => (Arc::clone(shared.memory()), Some(Arc::clone(shared.caches()))),
            None => (MemoryBudget::new(options.memory_budget_bytes), None),
        };
        let trash = Arc::new(Trash::new(Arc::clone(&memory)));
        Self { disk, dir: dir.to_owned(), memory, caches, options, counters: Arc::default(), trash }
    }

    /// Reads CURRENT and the manifest; `None` where there is no store yet.
    pub fn load(&self) -> Result<Option<Loaded>> {
        let mut open = |meta: &TableMeta, schema: &Schema, state: &StoreState| {
            let encoder = Encoder::new(*schema, HashSecret(state.secret));
            // A rule that is missing is an error when the keyspace is made.
            let encoder = encoder.with_rules(&self.options.prefix_rules).unwrap_or(encoder);
            Arc::new(Table::new(meta.clone(), encoder, Arc::clone(&self.trash)))
        };
        load(self.disk.as_ref(), &self.dir, &mut open)
    }

    /// Makes keyspaces of what the manifest says, with empty write buffers.
    ///
    /// # Errors
    /// `InvalidInput` where a keyspace has a prefix rule or a merge operator that the options do not give.
    pub fn keyspaces(&self, state: StoreState) -> Result<Keyspaces> {
        let secret = HashSecret(state.secret);
        let keyspaces = state.keyspaces.into_iter().map(|(id, keyspace)| {
            let encoder = Encoder::new(keyspace.schema, secret).with_rules(&self.options.prefix_rules);
            let named = |error| Error::from(error).of(format_args!("keyspace {:?}", keyspace.name));
            let to_come = keyspace.schema_to_come.map(|SchemaToCome { schema, design, at_ms }| {
                let encoder = Encoder::new(schema, secret).with_rules(&self.options.prefix_rules)?;
                Ok(Arc::new(SchemaChange::new(keyspace.schema, encoder, design, at_ms)))
            });
            let folder = self.options.folder(keyspace.merge_operator.as_deref(), &keyspace.name);
            let parts = KeyspaceParts {
                id,
                name: keyspace.name.clone(),
                encoder: encoder.map_err(named)?,
                folder: folder.map_err(|error| error.of(format_args!("keyspace {:?}", keyspace.name)))?,
                version: keyspace.version,
                flushed: keyspace.flushed,
                schema_change: to_come.transpose().map_err(named)?,
                earlier_schemas: Vec::new(),
            };
            Ok((keyspace.name, OpenKeyspace::new(parts, 0, &self.memory)))
        });
        keyspaces.collect()
    }

    /// Replays the log of the store that `loaded` describes into the keyspaces' write buffers.
    ///
    /// # Errors
    /// `Corruption` where the log or the manifest is damaged; a log that knows of more than the manifest has
    /// says so of the latter.
    pub fn replay(&self, loaded: &Loaded, keyspaces: &Keyspaces, reader: &Reader) -> Result<Replayed> {
        let replayed = self.replay_log(loaded, keyspaces, reader)?;
        loaded.check_end(&self.dir, replayed.manifest_end)?;
        Ok(replayed)
    }

    /// The same, beside a writer: the log may know of what the manifest has come to since.
    pub fn replay_log(&self, loaded: &Loaded, keyspaces: &Keyspaces, reader: &Reader) -> Result<Replayed> {
        let mut buffers = IntoBuffers::new(keyspaces, reader);
        let (start, synced) = (loaded.state.needed_log(), loaded.state.log_end);
        let recovery = self.options.wal_recovery;
        let replayed = replay(self.disk.as_ref(), &self.dir, start, synced, recovery, &mut buffers);
        replayed.map_err(|error| self.blame(error, loaded))
    }

    /// Returns the log's segments before those that were replayed, of `most_bytes` together at most.
    pub fn retained(&self, loaded: &Loaded, most_bytes: u64) -> Result<Vec<LiveSegment>> {
        if most_bytes == 0 {
            return Ok(Vec::new());
        }
        segments_before(self.disk.as_ref(), &self.dir, loaded.state.needed_log(), most_bytes)
    }

    /// Returns what is damaged where `error` was met with the store that `loaded` describes: a manifest that
    /// is cut off speaks of logs and tables that are gone, and not they are to blame.
    pub fn blame(&self, error: Error, loaded: &Loaded) -> Error {
        if error.kind() != ErrorKind::Corruption {
            return error;
        }
        let noted = noted_manifest_end(self.disk.as_ref(), &self.dir);
        match noted.and_then(|noted| loaded.check_end(&self.dir, noted)) {
            Err(blamed) if blamed.kind() == ErrorKind::Corruption => blamed,
            _ => error,
        }
    }

    /// Finds the directory of the store's sidecars.
    pub fn sidecars(&self, secret: &HashSecret, may_write: bool) -> Result<SidecarDirectory> {
        let metadata_dir = self.options.metadata_dir.as_deref();
        SidecarDirectory::find(self.disk.as_ref(), &self.dir, metadata_dir, secret, may_write)
    }

    pub fn reader(&self, sidecars: &SidecarDirectory, max_open_files: usize, loads: bool) -> Arc<Reader> {
        let caches = self.caches.clone().unwrap_or_else(|| Caches::new(&self.memory, max_open_files));
        let counters = Arc::clone(&self.counters);
        let reader = Reader::new(self.disk.clone(), self.dir.clone(), caches, counters);
        Arc::new(reader.with_metadata_in(sidecars.dir.clone()).loading(loads))
    }

    /// The same of a store that has to keep so many files open: their names may be removed by others.
    pub fn reader_of_kept_files(&self, sidecars: &SidecarDirectory, files: usize) -> Arc<Reader> {
        let caches = self.caches.clone().unwrap_or_else(|| Caches::new(&self.memory, 0));
        let counters = Arc::clone(&self.counters);
        let reader = Reader::new(self.disk.clone(), self.dir.clone(), caches, counters);
        Arc::new(reader.keeping_files(files).with_metadata_in(sidecars.dir.clone()))
    }

    /// Returns what the store is put together from, whose manifest says `state`.
    pub fn into_parts(
        self,
        state: &StoreState,
        lock: Option<Box<dyn DirLock>>,
        reader: Arc<Reader>,
        catalog: CatalogParts,
    ) -> StoreParts {
        let Self { disk, dir: path, options, counters, trash, .. } = self;
        let (secret, clock_ms) = (HashSecret(state.secret), state.clock_ms);
        let noted_budget_bytes = state.memory_budget_bytes;
        StoreParts {
            path,
            disk,
            options,
            counters,
            trash,
            secret,
            lock,
            reader,
            catalog,
            clock_ms,
            noted_budget_bytes,
        }
    }
}
