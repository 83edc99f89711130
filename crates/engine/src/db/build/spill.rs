//! The partition pass: what does not fit memory is sorted, a batch at a time, and written to temporary tables
//! below the store's directory.
//!
//! They are tables like others, but for what only lookups need. No manifest ever names them, so whatever a
//! crash leaves of them is removed at the next open.

use crate::compaction::merge::{Chain, Part, Source};
use crate::db::env::Env;
use crate::entry::{Cursor, PrefixTombstones, Span};
use crate::error::Result;
use crate::table::envelope::TableMeta;
use crate::table::{ReadMode, Table, TableBuilder, TableSpec};
use siltstone_design::Encoder;
use std::sync::Arc;

/// How often a long pass asks whether to go on.
const ENTRIES_BETWEEN_CHECKS: u64 = 4096;

/// A sorted part of the items, in files that go when it is dropped.
pub(super) struct Spill {
    /// In the store's order.
    tables: Vec<Arc<Table>>,
    pub entries: u64,
    pub bytes: u64,
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.tables.iter().for_each(|table| table.mark_obsolete());
    }
}

/// Where spills are written.
#[derive(Clone, Copy)]
pub(super) struct SpillPlace<'a> {
    pub env: &'a Env,
    pub encoder: Encoder,
    pub next_id: &'a dyn Fn() -> u64,
}

impl SpillPlace<'_> {
    /// Makes a spill of tables that were written, in the store's order.
    pub fn of_tables<'t>(&self, metas: impl Iterator<Item = &'t TableMeta>) -> Spill {
        let mut spill = Spill { tables: Vec::new(), entries: 0, bytes: 0 };
        for meta in metas {
            spill.entries += meta.entries;
            spill.bytes += meta.bytes;
            spill.tables.push(self.env.open_table(meta, self.encoder));
        }
        spill
    }

    /// Writes what `entries` walks over.
    pub fn write_all(&self, entries: &mut dyn Cursor) -> Result<Spill> {
        let Self { env, next_id, .. } = *self;
        let id = next_id();
        let spec = TableSpec::temporary(id, env.memory().chunk_bytes());
        let mut write = || {
            let mut table = TableBuilder::create_temporary(env.disk.as_ref(), &env.path, spec)?;
            let mut written = 0u64;
            while let Some(entry) = entries.peek() {
                table.add(&entry)?;
                entries.advance()?;
                written += 1;
                if written.is_multiple_of(ENTRIES_BETWEEN_CHECKS) {
                    env.check_writable()?;
                }
            }
            table.finish(PrefixTombstones::default())
        };
        let written = write().inspect_err(|_| {
            // What stays behind is removed at the next open.
            let _ = env.disk.remove(&env.reader.path(id));
        })?;
        env.counters.table_bytes.add(written.meta.bytes);
        Ok(self.of_tables(std::iter::once(&written.meta)))
    }
}

impl Spill {
    /// The spill within `span` as one source of a merge.
    pub fn source(&self, span: &Span, env: &Env) -> Result<Source> {
        let tables = self.tables.iter().filter(|table| {
            let meta = table.meta();
            meta.entries > 0 && span.overlaps(meta.first.0, meta.last.0)
        });
        let parts = tables.map(|table| {
            let (table, span, reader) = (Arc::clone(table), span.clone(), Arc::clone(&env.reader));
            Box::new(move || table.stream(span, ReadMode::Compaction, &reader)) as Part
        });
        let cursor = Box::new(Chain::new(parts.collect())?);
        Ok(Source { cursor, tombstones: PrefixTombstones::default() })
    }
}
