//! Checkpoints: a snapshot made into a store of its own.
//!
//! Tables are hard-linked, what is still in write buffers is written as one run of level 0, and a fresh
//! manifest names it all. CURRENT comes last, and UNFINISHED first: a checkpoint that was cut short is not a
//! store, says so when opened, and can be made again.

use super::directory::{abandon_store, begin_store, finish_store};
use crate::compaction::merge::Source;
use crate::compaction::{Amount, Context, flush};
use crate::db::catalog::{Pinned, PinnedKeyspace};
use crate::db::store::Store;
use crate::db::write_buffer::WriteBuffer;
use crate::entry::Span;
use crate::error::{Error, ErrorKind, Result};
use crate::filename;
use crate::record::LogStart;
use crate::table::envelope::TableMeta;
use crate::table::{Table, Writing};
use crate::version::Version;
use crate::version::edit::{Edit, Step};
use crate::version::manifest::{KeyspaceState, Manifest, StoreState};
use std::path::Path;
use std::sync::Arc;

/// Where the log of a checkpoint begins.
const LOG_START: LogStart = LogStart { segment: 1, lsn: 0 };

/// Makes a store of `pinned` in the new directory `dir`.
pub(in crate::db) fn checkpoint(store: &Store, pinned: &Pinned, dir: &Path) -> Result<()> {
    let disk = store.env.disk.as_ref();
    if dir.starts_with(&store.env.path) {
        return Err(Error::invalid(format_args!(
            "{} lies within the store; name a directory outside it for the checkpoint",
            dir.display()
        )));
    }
    begin_store(disk, dir, "checkpoint")?;
    let result = fill(store, pinned, dir);
    match &result {
        Ok(()) => finish_store(disk, dir),
        // Half a checkpoint is of no use to anyone.
        Err(_) => abandon_store(disk, dir),
    }
    result
}

fn fill(store: &Store, pinned: &Pinned, dir: &Path) -> Result<()> {
    let env = &store.env;
    for of_keyspace in pinned.keyspaces.values() {
        link_files(store, of_keyspace, dir)?;
    }
    let state = state_of(store, pinned, dir)?;
    env.disk.sync_dir(dir).map_err(|e| Error::io(&e, "syncing directory", dir))?;
    Manifest::create(Arc::clone(&env.disk), dir, 1, &state).map(|_| ())
}

/// Describes `pinned` as a store of its own, with what is in write buffers in new tables, which are written
/// into `dir`.
pub(in crate::db) fn state_of(store: &Store, pinned: &Pinned, dir: &Path) -> Result<StoreState> {
    let secret = store.env.secret.0;
    let mut state = StoreState { next_id: 0, secret, log_start: LOG_START, ..StoreState::default() };
    state.clock_ms = store.env.clock.noted_or_now();
    state.memory_budget_bytes = store.env.memory().total_bytes();
    for (id, of_keyspace) in &pinned.keyspaces {
        let version = with_buffers(store, pinned, of_keyspace, dir)?;
        let keyspace = &of_keyspace.keyspace;
        let keyspace_state = KeyspaceState {
            name: keyspace.name.clone(),
            schema: *keyspace.encoder.schema(),
            merge_operator: keyspace.folder.as_ref().map(|folder| folder.name.clone()),
            version,
            flushed: LOG_START,
            schema_to_come: keyspace.open_schema_change().map(|change| change.to_come()),
        };
        state.keyspaces.insert(*id, keyspace_state);
    }
    // Numbers of the checkpoint's own tables start where the store's end, so that none is used twice.
    state.next_id = store.catalog.next_id();
    Ok(state)
}

/// Links the files of a keyspace into `dir`.
fn link_files(store: &Store, pinned: &PinnedKeyspace, dir: &Path) -> Result<()> {
    let (disk, reader) = (store.env.disk.as_ref(), &store.env.reader);
    for table in pinned.view.version.tables() {
        let to = filename::table_path(dir, table.id());
        let linked = disk.hard_link(&reader.path(table.id()), &to);
        linked.map_err(|e| Error::io(&e, "linking a table into the checkpoint", &to))?;
    }
    for pages in pinned.view.version.sidecars() {
        // Without it, as where sidecars lie on another device, the checkpoint makes one of its own.
        let from = reader.path(pages.id);
        let to = from.file_name().map(|name| dir.join(name));
        let _ = to.map(|to| disk.hard_link(&from, &to));
    }
    Ok(())
}

/// Writes what write buffers hold of a keyspace as a run of level 0 into `dir`, and returns the version that
/// has it.
fn with_buffers(store: &Store, pinned: &Pinned, of_keyspace: &PinnedKeyspace, dir: &Path) -> Result<Version> {
    let PinnedKeyspace { keyspace, view } = of_keyspace;
    let env = &store.env;
    let mut sources = Vec::new();
    for buffer in view.buffers().filter(|buffer| !buffer.is_empty()) {
        let scan = buffer.scan(pinned.point.sequence, keyspace.encoder, &env.reader, true)?;
        sources.push(Source { cursor: scan.stream(&Span::ALL)?, tombstones: scan.tombstones });
    }
    let context = Context {
        keyspace: keyspace.id,
        design: &view.version.design,
        filter_limits: &keyspace.filter_limits,
        folder: keyspace.folder.as_ref(),
        disk: env.disk.as_ref(),
        dir,
        reader: &env.reader,
        now_ms: env.now_ms(),
        next_id: &|| store.catalog.next_id(),
        cancelled: &|| false,
        pace: &|_| {},
        writing: Writing::Cached,
        awaits_older: false,
    };
    let amount = Amount {
        entries: view.buffers().map(WriteBuffer::entries).sum(),
        bytes: view.buffers().map(WriteBuffer::user_bytes).sum(),
    };
    let mut steps = flush(&context, &view.version, sources, amount)?.steps;
    // Their bytes were not written into this store's levels.
    steps.retain(|step| !matches!(step, Step::Written { .. }));
    let mut open = |meta: &TableMeta| Arc::new(Table::new(meta.clone(), keyspace.encoder, Arc::default()));
    let edit = Edit { keyspace: keyspace.id, steps };
    let applied = view.version.apply(&edit, &mut open);
    let (version, _) = applied.map_err(|what| Error::new(ErrorKind::Corruption, what))?;
    Ok(version)
}
