//! What a new table is to be.

use super::filter::KeptKeys;
use crate::ids::TableId;
use siltstone_design::{Compression, Design, Format, IndexSpec, TableFilterSpec};

/// How a table's file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// By way of the system's page cache.
    Cached,
    /// Around it: there is more to write than it has room for.
    Uncached,
    /// Around it, by a thread beside the one that makes the table.
    Behind,
}

/// What a new table is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSpec {
    pub id: TableId,
    /// The keyspace that it is written for; 0 says nothing of it.
    pub keyspace: u64,
    pub format: Format,
    pub index: IndexSpec,
    pub kept_keys: KeptKeys,
    /// Whether entries keep what their writer learnt of older versions.
    pub keeps_older_in: bool,
    /// How far apart in the upper digest half two pages are expected to begin. Only a hint: it costs bits of
    /// the index where it is wrong.
    pub digests_per_page: u64,
    /// Bytes of a full region of runs like the table's, which its keys are told apart in by a maplet.
    pub region_bytes: u64,
    /// Bytes written at once, and entries' bytes in a segment where the format has segments.
    pub chunk_bytes: usize,
    /// Whether entries are compressed, where that pays.
    pub compression: Compression,
    pub writing: Writing,
}

impl TableSpec {
    /// A table that is read once, from front to back, and then removed: without filter, and with the smallest
    /// index there is.
    pub fn temporary(id: TableId, chunk_bytes: usize) -> Self {
        Self {
            id,
            keyspace: 0,
            format: Format::Block,
            index: IndexSpec::Separators,
            kept_keys: KeptKeys::Filter(TableFilterSpec::None),
            keeps_older_in: false,
            digests_per_page: 1,
            region_bytes: 0,
            chunk_bytes,
            compression: Compression::None,
            writing: Writing::Uncached,
        }
    }

    /// A table of level `level` of `design`, written in chunks of `chunk_bytes`.
    pub fn new(
        id: TableId,
        (design, level): (&Design, usize),
        digests_per_page: u64,
        chunk_bytes: usize,
    ) -> Self {
        let spec = design.level(level);
        Self {
            id,
            keyspace: 0,
            format: spec.format,
            index: spec.index,
            kept_keys: KeptKeys::of(spec),
            keeps_older_in: design.keeps_older_versions_from(level),
            digests_per_page,
            region_bytes: spec.region_bytes(),
            chunk_bytes,
            compression: spec.compression,
            writing: Writing::Cached,
        }
    }
}
