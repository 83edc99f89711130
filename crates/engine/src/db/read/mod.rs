//! THE READ PATH.
//!
//! Pin a view → write buffers, newest first → per level the one region on the key's path → its runs, newest
//! first, each with at most one table that may hold the key → filter, index, one page. The first answer ends
//! it.
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
pub(super) mod upper_reads;

use super::catalog::Catalog;
use super::catalog::keyspace::OpenKeyspace;
use super::catalog::view::View;
use super::env::Env;
use crate::entry::Sequence;
use crate::error::Result;
use crate::options::ParallelSearch;
use lookup::{Lookup, Pinned};
use parallel::{HELPERS, LastLevel, ParallelReads};
use siltstone_design::EncodedKey;
use std::sync::Arc;
use std::thread::JoinHandle;

pub(super) use lookup::Found;

/// Looks keys up.
pub(crate) struct Searcher {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    parallel: ParallelReads,
}

impl Searcher {
    pub fn new(env: &Arc<Env>, catalog: &Arc<Catalog>) -> Self {
        Self { env: Arc::clone(env), catalog: Arc::clone(catalog), parallel: ParallelReads::default() }
    }

    /// Starts the threads that search last levels for others, where the options want some.
    pub fn start(self: &Arc<Self>) -> Result<Vec<JoinHandle<()>>> {
        let options = &self.env.options;
        let wants_helpers = options.parallel_search == ParallelSearch::TwoThreads;
        let count = if wants_helpers && options.background_threads > 0 { HELPERS } else { 0 };
        let start = |_| {
            let shared = Arc::clone(self);
            self.env.spawn("search", move || shared.help())
        };
        (0..count).map(start).collect()
    }

    /// Returns the newest value of `key`.
    pub fn get_newest(&self, keyspace: &OpenKeyspace, key: &EncodedKey<'_>) -> Result<Option<Vec<u8>>> {
        loop {
            let view = keyspace.view.load();
            let pinned = self.pinned(keyspace, &view, self.catalog.visible());
            let mut lookup = Lookup::new(&pinned, key);
            let found = self.last_level(keyspace).complete(&mut lookup)?;
            // The version to be seen may have given way to one that became visible meanwhile. Whoever holds a
            // snapshot is spared.
            if lookup.newer.is_none_or(|newer| newer > self.catalog.visible()) {
                keyspace.counters.note_get(found.value.is_some(), &lookup.trace);
                return Ok(found.value);
            }
        }
    }

    /// Returns the value of `key`, and where it was found, as `sequence`, which is held, sees it in `view`.
    pub fn find(
        &self,
        keyspace: &OpenKeyspace,
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
    pub fn get_many(
        &self,
        keyspace: &OpenKeyspace,
        view: &View,
        sequence: Sequence,
        keys: &[EncodedKey<'_>],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        batch::get_many(&self.pinned(keyspace, view, sequence), keys, &keyspace.counters)
    }

    /// Searches last levels for other threads until the store is closed.
    fn help(&self) {
        let Env { reader, disk, health, .. } = &*self.env;
        self.parallel.help(reader, &**disk, || health.is_closed());
    }

    fn pinned<'a>(&'a self, keyspace: &'a OpenKeyspace, view: &'a View, sequence: Sequence) -> Pinned<'a> {
        let (encoder, version) = (&keyspace.encoder, &view.version);
        let Env { reader, disk, .. } = &*self.env;
        let folder = keyspace.folder.as_ref();
        Pinned { buffers: Some(view), version, sequence, encoder, reader, clock: &**disk, folder }
    }

    fn last_level<'a>(&'a self, keyspace: &'a OpenKeyspace) -> LastLevel<'a> {
        LastLevel {
            mode: self.env.options.parallel_search,
            shared: &self.parallel,
            upper_reads: &keyspace.upper_reads,
            counters: &keyspace.counters,
        }
    }
}
