//! Checkpoints: a snapshot made into a store of its own.
//!
//! Tables are hard-linked, what is still in heads is written as one run of level 0, and a fresh manifest names it all.
//! CURRENT comes last: a checkpoint that was cut short is not a store, and says so when opened.

use super::Snapshot;
use super::head::Head;
use crate::compaction::merge::Source;
use crate::compaction::{Amount, Context, flush};
use crate::entry::Span;
use crate::error::{Error, Result};
use crate::filename::{self, is_ours};
use crate::record::LogStart;
use crate::table::Table;
use crate::version::Version;
use crate::version::edit::{Edit, Step};
use crate::version::manifest::{KeyspaceState, Manifest, StoreState};
use std::path::Path;
use std::sync::Arc;

impl Snapshot {
    pub(super) fn checkpoint(&self, dir: &Path) -> Result<()> {
        let store = &self.handle.store;
        let disk = store.disk.as_ref();
        if dir.starts_with(&store.path) {
            return Err(Error::invalid(format_args!(
                "{} lies within the store; name a directory outside it for the checkpoint",
                dir.display()
            )));
        }
        match disk.list(dir) {
            Ok(names) if !names.is_empty() => {
                return Err(Error::invalid(format_args!(
                    "{} is not empty; name a new directory for the checkpoint",
                    dir.display()
                )));
            }
            Ok(_) => {}
            Err(_) => disk.create_dir_all(dir).map_err(|e| Error::io(&e, "creating directory", dir))?,
        }
        let result = self.checkpoint_into(dir);
        if result.is_err() {
            // Half a checkpoint is of no use to anyone.
            for name in disk.list(dir).unwrap_or_default().iter().filter(|name| is_ours(name)) {
                let _ = disk.remove(&dir.join(name));
            }
        }
        result
    }

    fn checkpoint_into(&self, dir: &Path) -> Result<()> {
        let store = &self.handle.store;
        let disk = store.disk.as_ref();
        // Numbers of the checkpoint's own tables start where the store's end, so that none is used twice.
        let start = LogStart { segment: 1, lsn: 0 };
        let mut state =
            StoreState { next_id: 0, secret: store.secret.0, log_start: start, ..StoreState::default() };
        for (keyspace, view) in self.views.values() {
            for table in view.version.tables() {
                let to = filename::table_path(dir, table.id());
                disk.hard_link(&store.reader.path(table.id()), &to)
                    .map_err(|e| Error::io(&e, "linking a table into the checkpoint", &to))?;
            }
            for pages in view.version.sidecars() {
                // Without it, as where sidecars lie on another device, the checkpoint makes one of its own.
                let from = store.reader.path(pages.id);
                let to = from.file_name().map(|name| dir.join(name));
                let _ = to.map(|to| disk.hard_link(&from, &to));
            }
            let mut sources = Vec::new();
            for head in view.heads().filter(|head| !head.is_empty()) {
                let scan = head.scan(self.held.sequence, keyspace.encoder, &store.reader, true)?;
                sources.push(Source { cursor: scan.stream(&Span::ALL)?, tombstones: scan.tombstones });
            }
            let context = Context {
                design: &keyspace.design,
                disk,
                dir,
                reader: &store.reader,
                now_ms: disk.now_ms(),
                next_id: &|| store.next_id(),
                cancelled: &|| false,
                pace: &|_| {},
            };
            let amount = Amount {
                entries: view.heads().map(Head::entries).sum(),
                bytes: view.heads().map(Head::user_bytes).sum(),
            };
            let mut steps = flush(&context, &view.version, sources, amount)?.steps;
            // Their bytes were not written into this store's levels.
            steps.retain(|step| !matches!(step, Step::Written { .. }));
            let mut open = |meta: &crate::table::envelope::TableMeta| {
                Arc::new(Table::new(meta.clone(), keyspace.encoder, Arc::default()))
            };
            let edit = Edit { keyspace: keyspace.id, steps };
            let (version, _): (Version, _) = view
                .version
                .apply(&edit, &mut open)
                .map_err(|what| Error::new(crate::ErrorKind::Corruption, what))?;
            let keyspace_state = KeyspaceState {
                name: keyspace.name.clone(),
                schema: *keyspace.encoder.schema(),
                design: keyspace.design.clone(),
                version,
                flushed: start,
            };
            state.keyspaces.insert(keyspace.id, keyspace_state);
        }
        state.next_id = store.next_id();
        disk.sync_dir(dir).map_err(|e| Error::io(&e, "syncing directory", dir))?;
        Manifest::create(Arc::clone(&store.disk), dir, 1, &state).map(|_| ())
    }
}
