//! Sorted temporary tables below the store's directory, for items of which even a part does not fit memory.
//!
//! They are tables like others, but for what only lookups need. No manifest ever names them, so whatever a
//! crash leaves of them is removed at the next open.

use crate::cache::Reader;
use crate::compaction::Context;
use crate::compaction::merge::{Chain, Merge, Part, Source};
use crate::db::env::Env;
use crate::entry::{Cursor, PrefixTombstones, Span};
use crate::error::Result;
use crate::table::envelope::TableMeta;
use crate::table::{ReadMode, Table, TableBuilder, TableSpec};
use siltstone_design::Encoder;
use std::sync::Arc;

/// Temporary tables that are merged at once, at least.
const LEAST_AT_ONCE: usize = 4;
/// What a merge reads of a table at once, at most.
const MOST_READ_BYTES: usize = 256 << 10;
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
    pub fn source(&self, span: &Span, reader: &Arc<Reader>) -> Result<Source> {
        let tables = self.tables.iter().filter(|table| {
            let meta = table.meta();
            meta.entries > 0 && span.overlaps(meta.first.0, meta.last.0)
        });
        let parts = tables.map(|table| {
            let (table, span, reader) = (Arc::clone(table), span.clone(), Arc::clone(reader));
            Box::new(move || table.stream(span, ReadMode::Compaction, &reader)) as Part
        });
        let cursor = Box::new(Chain::new(parts.collect())?);
        Ok(Source { cursor, tombstones: PrefixTombstones::default() })
    }
}

/// Merges the oldest spills until there are few enough to be merged with what else there is within the memory
/// of a merge.
///
/// `written` hears of each that comes out of it.
pub(super) fn join_spills(
    spills: &mut Vec<Spill>,
    place: SpillPlace<'_>,
    context: &Context<'_>,
    written: &mut dyn FnMut(&Spill),
) -> Result<()> {
    let memory = context.reader.memory();
    let of_each = memory.chunk_bytes().min(MOST_READ_BYTES) * 3 / 2;
    let at_once = (memory.total_bytes() / 4) as usize / of_each;
    let at_once = at_once.max(LEAST_AT_ONCE);
    while spills.len() > at_once {
        // As many as leave as few as possible for the end, which are read once more in any case.
        let count = (spills.len() - at_once + 1).min(at_once);
        // Neighbours in age only, so that of two items with one key the later one still counts.
        let from = smallest_stretch(spills, count);
        let joined = {
            let sources = sources(spills.get(from..from + count).unwrap_or(&[]), &Span::ALL, context.reader)?;
            place.write_all(&mut Merge::new(sources, context.folder.cloned())?)?
        };
        written(&joined);
        spills.splice(from..from + count, [joined]);
        place.env.empty_trash();
    }
    Ok(())
}

/// Returns where `count` neighbours begin that have the fewest bytes.
fn smallest_stretch(spills: &[Spill], count: usize) -> usize {
    let bytes = |stretch: &[Spill]| stretch.iter().map(|spill| spill.bytes).sum::<u64>();
    let stretches = spills.windows(count.max(1)).enumerate();
    stretches.min_by_key(|(_, stretch)| bytes(stretch)).map_or(0, |(at, _)| at)
}

/// Returns `spills`, the oldest first, as sources of a merge, the newest first.
pub(super) fn sources(spills: &[Spill], span: &Span, reader: &Arc<Reader>) -> Result<Vec<Source>> {
    spills.iter().rev().map(|spill| spill.source(span, reader)).collect()
}
