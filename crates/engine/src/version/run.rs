//! Run › Table: a sorted list of tables.

use crate::cache::Reader;
use crate::entry::{PrefixTombstones, Span};
use crate::ids::{RunId, TableId};
use crate::region_filter::FilteredRun;
use crate::table::Table;
use siltstone_design::{Digest, RunShape};
use siltstone_succinct::filter::maplet::Maplet;
use std::sync::Arc;

/// A sorted list of tables that are disjoint in the store's order.
pub(crate) struct Run {
    pub id: RunId,
    pub tables: Vec<Arc<Table>>,
    /// Prefixes deleted by this run, for everything older.
    pub tombstones: PrefixTombstones,
    /// Estimated bytes of older runs of the same leaf region that this run makes dead.
    pub kills: Vec<(RunId, u64)>,
    /// Bytes of its tables' own filters, in memory or not.
    pub filter_bytes: u64,
    /// Entries of its tables, and bytes of their keys and values: background work asks at every look.
    entries: u64,
    user_bytes: u64,
}

impl Run {
    pub fn new(id: RunId, tables: Vec<Arc<Table>>, kills: Vec<(RunId, u64)>) -> Self {
        let tombstones = tables.iter().flat_map(|t| t.meta().tombstones.iter().cloned()).collect();
        let filter_bytes = tables.iter().map(|table| table.meta().own_filter_bytes()).sum();
        let entries = tables.iter().map(|table| table.meta().entries).sum();
        let user_bytes = tables.iter().map(|table| table.meta().user_bytes).sum();
        let tombstones = PrefixTombstones::new(tombstones);
        Self { id, tables, tombstones, kills, filter_bytes, entries, user_bytes }
    }

    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|t| t.meta().bytes).sum()
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// What the planner sees of it, but for what expires with time.
    pub fn shape(&self) -> RunShape {
        let deleted = self.tables.iter().map(|table| table.meta().deletes()).sum();
        RunShape { bytes: self.bytes(), entries: self.entries(), deleted, ..RunShape::default() }
    }

    /// Whether every entry is a tombstone or has expired at `now_ms`.
    pub fn is_dead(&self, now_ms: u64) -> bool {
        self.tables.iter().all(|table| table.meta().is_dead(now_ms))
    }

    /// Estimated bytes of older run `older` that prefixes which this one deletes take.
    pub fn deleted_group_bytes(&self, older: &Self) -> u64 {
        if self.tombstones.is_empty() {
            return 0;
        }
        let of_table = |table: &Arc<Table>| -> u64 {
            let meta = table.meta();
            let deleted = self.tombstones.between(meta.first.0.hi, meta.last.0.hi);
            deleted.iter().map(|tombstone| meta.group_bytes(tombstone.hi)).sum::<u64>().min(meta.bytes)
        };
        older.tables.iter().map(of_table).sum()
    }

    /// The one table that may hold the place `(digest, key)`.
    #[inline]
    pub fn table_for(&self, digest: Digest, key: &[u8]) -> Option<&Arc<Table>> {
        let past = self.tables.partition_point(|table| {
            let (last, last_key) = &table.meta().last;
            (*last, last_key.as_slice()) < (digest, key)
        });
        self.tables.get(past).filter(|table| {
            let meta = table.meta();
            meta.entries > 0 && (meta.first.0, meta.first.1.as_slice()) <= (digest, key)
        })
    }

    /// The tables with entries in `span`, in order.
    pub fn tables_in(&self, span: &Span) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter().filter(|table| {
            let meta = table.meta();
            meta.entries > 0 && span.overlaps(meta.first.0, meta.last.0)
        })
    }
}

impl FilteredRun for Run {
    fn id(&self) -> RunId {
        self.id
    }

    fn entries(&self) -> u64 {
        self.entries
    }

    fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    fn table_ids(&self) -> impl Iterator<Item = TableId> {
        self.tables.iter().map(|table| table.id())
    }

    fn fingerprints(&self, reader: &Reader) -> Option<Vec<Maplet>> {
        let tables = self.tables.iter().filter(|table| table.meta().entries > 0);
        tables.map(|table| table.fingerprints(reader).ok().flatten()).collect()
    }
}
