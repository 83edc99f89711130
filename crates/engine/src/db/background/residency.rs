//! Filters and indexes that come late and go early: loaded by background work, and evicted where memory is
//! short.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), §4, fail-graceful indexing: a store answers before its indexes are
//! in memory, and goes on without some where there is too little of it; either costs reads, and never an
//! answer. That structures which do not fit are not loaded in the first place is `memory.rs`.
//!
//! Nothing that a lookup may be using is changed: a table that lets go is replaced, in the next view, by one
//! of the same file with nothing in memory, and what the old one held is freed when its last reader is done.

use super::Scheduler;
use super::job::Unloaded;
use crate::cache::TableId;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::reporter::Outcome;
use crate::events::{JobInfo, Part, Place, Reason, Work};
use crate::options::IndexLoading;
use crate::table::Table;
use std::collections::HashSet;
use std::sync::Arc;

/// A table with what it holds of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holding {
    bytes: u64,
    keyspace: u64,
    table: TableId,
}

impl Unloaded {
    /// Returns the uppermost such table of a keyspace.
    fn find(keyspace: &Arc<OpenKeyspace>) -> Option<Self> {
        let version = keyspace.version();
        let mut regions = version.levels.iter().flat_map(|of_level| {
            let level = version.shown_number(of_level.depth);
            of_level.regions.iter().map(move |region| (level, region))
        });
        regions.find_map(|(level, region)| {
            let mut tables = region.runs.iter().flat_map(|run| &run.tables);
            let table = Arc::clone(tables.find(|table| !table.was_loaded())?);
            Some(Self { keyspace: Arc::clone(keyspace), level, path: region.path, table })
        })
    }

    fn describe(&self) -> JobInfo {
        let meta = self.table.meta();
        let input = Part {
            level: Some(self.level),
            tables: 1,
            entries: meta.entries,
            bytes: meta.bytes,
            ..Part::default()
        };
        let info = JobInfo::new(Work::LoadTable).of(&self.keyspace.name).because(Reason::NotLoaded);
        info.at(Place::new(self.level, self.path)).reading(vec![input])
    }
}

impl Scheduler {
    /// Returns a table of `keyspaces` that background work is to load, of the uppermost level that has one.
    pub(super) fn unloaded(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Option<Unloaded> {
        if self.env.options.index_loading == IndexLoading::OnDemand {
            return None;
        }
        keyspaces.iter().find_map(Unloaded::find)
    }

    /// Loads filter and index of a table, as far as memory goes.
    pub(super) fn load_table(&self, unloaded: &Unloaded) {
        let meta = unloaded.table.meta();
        let codec_bytes = meta.compressed.map_or(0, |compressed| compressed.codec.length);
        let bytes_read = meta.filter.length + meta.index.length + meta.page_map.length + codec_bytes;
        let load = || unloaded.table.load(&self.env.reader.loading(true));
        // What can't be read, a lookup will report that needs it.
        let _ = self.reporter.job(
            || unloaded.describe(),
            load,
            |()| Outcome { bytes_read, ..Outcome::default() },
        );
    }

    /// Evicts filters and indexes while memtables and they hold more than the budget: the largest first,
    /// since each costs a lookup about as many reads. They come back, on demand, once there is room.
    pub(super) fn evict(&self) {
        let overdrawn = self.env.memory().overdrawn_bytes();
        if overdrawn == 0 {
            return;
        }
        let keyspaces = self.catalog.all();
        let mut held: Vec<Holding> = Vec::new();
        for keyspace in &keyspaces {
            let version = keyspace.version();
            let holdings = version.tables().map(|table| Holding {
                bytes: table.spare_bytes(),
                keyspace: keyspace.id,
                table: table.id(),
            });
            held.extend(holdings.filter(|holding| holding.bytes > 0));
        }
        held.sort_unstable_by(|a, b| b.cmp(a));
        let mut freed = 0;
        let enough = held.iter().take_while(|holding| {
            let goes = freed < overdrawn;
            freed += holding.bytes;
            goes
        });
        let chosen: HashSet<(u64, TableId)> =
            enough.map(|holding| (holding.keyspace, holding.table)).collect();
        for keyspace in &keyspaces {
            if chosen.iter().any(|(id, _)| *id == keyspace.id) {
                let is_chosen = |table: &Table| chosen.contains(&(keyspace.id, table.id()));
                self.catalog.publish(keyspace, |version| version.unload(is_chosen));
            }
        }
        self.env.reader.fit_cache();
    }
}
