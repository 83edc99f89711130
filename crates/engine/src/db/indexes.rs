//! Filters and indexes that come late and go early: loaded by background work, and let go of where memory is short.
//!
//! Source: Lim et al., "SILT" (SOSP 2011), §4, fail-graceful indexing: a store answers before its indexes are in memory, and
//! goes on without some where there is too little of it; either costs reads, and never an answer. That structures which do not fit
//! are not loaded in the first place is `memory.rs`.
//!
//! Nothing that a lookup may be using is changed: a table that lets go is replaced, in the next view, by one of the same file
//! with nothing in memory, and what the old one held is freed when its last reader is done.

use super::store::Store;
use crate::cache::TableId;
use crate::options::IndexLoading;
use crate::table::Table;
use std::collections::HashSet;
use std::sync::Arc;

impl Store {
    /// A table that background work is to load, of the uppermost level that has one.
    fn unloaded(&self) -> Option<Arc<Table>> {
        if self.options.index_loading == IndexLoading::OnDemand {
            return None;
        }
        let keyspaces = self.all_keyspaces();
        let mut found = keyspaces.iter().filter_map(|keyspace| {
            let version = Arc::clone(&keyspace.view.load().version);
            version.tables().find(|table| !table.was_loaded()).cloned()
        });
        found.next()
    }

    /// Whether filters or indexes wait to be loaded.
    pub(super) fn has_unloaded(&self) -> bool {
        self.unloaded().is_some()
    }

    /// Loads filter and index of one table; false where no table waits for that.
    pub(super) fn load_one(&self) -> bool {
        let Some(table) = self.unloaded() else { return false };
        // What can't be read, a lookup will report that needs it.
        let _ = table.load(&self.reader.loading(true));
        true
    }

    /// Lets go of filters and indexes while memtables and they hold more than the budget: the largest first, since each costs
    /// a lookup about as many reads. They come back, on demand, once there is room.
    pub(super) fn shed(&self) {
        let overdrawn = self.memory.overdrawn_bytes();
        if overdrawn == 0 {
            return;
        }
        let keyspaces = self.all_keyspaces();
        let mut held: Vec<(u64, u64, TableId)> = Vec::new();
        for keyspace in &keyspaces {
            let version = Arc::clone(&keyspace.view.load().version);
            let tables = version.tables().map(|table| (table.spare_bytes(), keyspace.id, table.id()));
            held.extend(tables.filter(|(bytes, ..)| *bytes > 0));
        }
        held.sort_unstable_by(|a, b| b.cmp(a));
        let mut freed = 0;
        let enough = held.iter().take_while(|(bytes, ..)| {
            let goes = freed < overdrawn;
            freed += bytes;
            goes
        });
        let chosen: HashSet<(u64, TableId)> =
            enough.map(|(_, keyspace, table)| (*keyspace, *table)).collect();
        for keyspace in &keyspaces {
            if chosen.iter().any(|(id, _)| *id == keyspace.id) {
                let is_chosen = |table: &Table| chosen.contains(&(keyspace.id, table.id()));
                self.publish(keyspace, |version| version.unload(is_chosen));
            }
        }
        self.reader.fit_cache();
    }
}
