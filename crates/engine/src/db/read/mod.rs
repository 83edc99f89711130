//! THE READ PATH.
//!
//! Pin a view → heads, newest first → per level the one region on the key's path → its runs, newest first,
//! each with at most one table that may hold the key → filter, index, one page. The first answer ends it.
//!
//! A lookup is a state machine ([`lookup`]), which goes as far as memory takes it and then says which page it
//! needs. Three drivers run it: a get waits for its pages one by one; [`parallel`] fetches the last level's
//! page beside the first that is needed; and [`batch`] has the pages of many lookups under way at the same
//! time.

mod batch;
mod lookup;
mod parallel;
#[cfg(test)]
mod tests;

use super::store::{KeyspaceInner, Store, View};
use crate::entry::Sequence;
use crate::error::Result;
use lookup::{Lookup, Pinned};
use parallel::LastLevel;
use siltstone_design::EncodedKey;

pub(super) use lookup::Found;
pub(super) use parallel::{HELPERS, ParallelReads, UpperReads};

impl Store {
    /// Returns the newest value of `key`.
    pub(super) fn get_newest(
        &self,
        keyspace: &KeyspaceInner,
        key: &EncodedKey<'_>,
    ) -> Result<Option<Vec<u8>>> {
        loop {
            let view = keyspace.view.load();
            let pinned = self.pinned(keyspace, &view, self.visible());
            let mut lookup = Lookup::new(&pinned, key);
            let found = self.last_level(keyspace).complete(&mut lookup)?;
            // The version to be seen may have given way to one that became visible meanwhile. Whoever holds a
            // snapshot is spared.
            if lookup.newer.is_none_or(|newer| newer > self.visible()) {
                keyspace.counters.note_get(found.value.is_some(), &lookup.trace);
                return Ok(found.value);
            }
        }
    }

    /// Returns the value of `key`, and where it was found, as `sequence`, which is held, sees it in `view`.
    pub(super) fn find(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        key: &EncodedKey<'_>,
    ) -> Result<Found> {
        let pinned = self.pinned(keyspace, view, sequence);
        let mut lookup = Lookup::new(&pinned, key);
        let found = self.last_level(keyspace).complete(&mut lookup)?;
        keyspace.counters.note_get(found.value.is_some(), &lookup.trace);
        Ok(found)
    }

    /// Returns the values of `keys`, in their order, as `sequence`, which is held, sees them in `view`.
    pub(super) fn get_many(
        &self,
        keyspace: &KeyspaceInner,
        view: &View,
        sequence: Sequence,
        keys: &[EncodedKey<'_>],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        batch::get_many(&self.pinned(keyspace, view, sequence), keys, &keyspace.counters)
    }

    /// Searches last levels for other threads until the store is closed.
    pub(super) fn help(&self) {
        self.parallel.help(&self.reader, &*self.disk, &self.closed);
    }

    fn pinned<'a>(&'a self, keyspace: &'a KeyspaceInner, view: &'a View, sequence: Sequence) -> Pinned<'a> {
        let (encoder, version) = (&keyspace.encoder, &view.version);
        Pinned { heads: Some(view), version, sequence, encoder, reader: &self.reader, clock: &*self.disk }
    }

    fn last_level<'a>(&'a self, keyspace: &'a KeyspaceInner) -> LastLevel<'a> {
        LastLevel {
            mode: self.options.parallel_search,
            shared: &self.parallel,
            upper_reads: &keyspace.upper_reads,
            counters: &keyspace.counters,
        }
    }
}
