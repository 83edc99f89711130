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
use crate::memory::FilterWorth;
use crate::options::IndexLoading;
use crate::table::Table;
use crate::version::{Region, Version};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A table with what it holds of the budget, those first that spare lookups least for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holding {
    /// As the bits of a [`FilterWorth`].
    worth: u32,
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

    /// Evicts filters and indexes while memtables and they hold more than the budget: those first that spare
    /// lookups least for their bytes. They come back, on demand, once there is room.
    pub(super) fn evict(&self) {
        let overdrawn = self.env.memory().overdrawn_bytes();
        if overdrawn == 0 {
            return;
        }
        let keyspaces = self.catalog.all();
        let mut held: Vec<Holding> = Vec::new();
        for keyspace in &keyspaces {
            let version = keyspace.version();
            for (region, run, table) in version.tables_in_place() {
                let bytes = table.spare_bytes();
                if bytes > 0 {
                    let worth = FilterWorth::of(region.spared_by_filters(run), bytes).to_bits();
                    held.push(Holding { worth, bytes, keyspace: keyspace.id, table: table.id() });
                }
            }
        }
        held.sort_unstable();
        let mut freed = 0;
        let enough = held.iter().take_while(|holding| {
            let goes = freed < overdrawn;
            freed += holding.bytes;
            goes
        });
        let chosen: HashSet<(u64, TableId)> =
            enough.map(|holding| (holding.keyspace, holding.table)).collect();
        for keyspace in &keyspaces {
            let is_chosen = |_: &Region, _, table: &Table| chosen.contains(&(keyspace.id, table.id()));
            self.unload(keyspace, &keyspace.version(), is_chosen, |_| ());
        }
        self.env.reader.fit_cache();
    }

    /// Lets go of the filters of tables that are worth no more than `refused`; their indexes stay.
    pub(super) fn let_go_of_filters(&self, keyspace: &OpenKeyspace, version: &Version, refused: FilterWorth) {
        let is_refused = |region: &Region, run, table: &Table| {
            table.filter_bytes() > 0 && region.filter_worth(run) <= refused
        };
        let reader = self.env.reader.loading(true);
        // What can't be read, a lookup will report that needs it.
        self.unload(keyspace, version, is_refused, |table| drop(table.load(&reader)));
    }

    /// Puts tables with nothing in memory in the places of those that `is_meant` names, once `prepare` has
    /// seen them.
    fn unload(
        &self,
        keyspace: &OpenKeyspace,
        version: &Version,
        is_meant: impl Fn(&Region, usize, &Table) -> bool,
        prepare: impl Fn(&Table),
    ) {
        let meant = version.tables_in_place().filter(|(region, run, table)| is_meant(region, *run, table));
        let unloaded: HashMap<TableId, Arc<Table>> = meant
            .map(|(region, run, table)| (table.id(), table.unloaded(region.filter_worth(run))))
            .collect();
        if !unloaded.is_empty() {
            unloaded.values().for_each(|table| prepare(table));
            self.catalog.publish(keyspace, |version| version.replace_tables(&unloaded));
        }
    }
}
