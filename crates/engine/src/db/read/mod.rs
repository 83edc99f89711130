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

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::snapshots::ReadPoint;
use super::catalog::view::View;
use super::catalog::{Catalog, PinnedKeyspace};
use super::env::Env;
use crate::entry::Sequence;
use crate::error::Result;
use crate::options::ParallelSearch;
use crate::stats::KeyspaceCounters;
use crate::sync::thread::JoinHandle;
use crate::value::{Value, Wants};
use lookup::{Clock, Lookup, Pinned};
use parallel::{HELPERS, LastLevel, ParallelReads};
use siltstone_design::EncodedKey;
use std::sync::Arc;

pub(super) use lookup::Found;

/// A keyspace at a moment that is held.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub keyspace: &'a OpenKeyspace,
    pub view: &'a View,
    pub point: &'a ReadPoint,
}

impl<'a> Moment<'a> {
    /// The moment at which `pinned` was pinned.
    pub fn of((pinned, point): &'a (PinnedKeyspace, ReadPoint)) -> Self {
        Self { keyspace: &pinned.keyspace, view: &pinned.view, point }
    }
}

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
    pub fn get_newest(
        &self,
        keyspace: &OpenKeyspace,
        key: &EncodedKey<'_>,
        wants: Wants,
    ) -> Result<Option<Value>> {
        loop {
            let view = keyspace.view.load();
            let (sequence, clock) = (self.catalog.visible(), Clock::Now(&self.env.clock));
            let pinned = self.pinned(keyspace, &view, (sequence, clock), wants);
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

    /// Returns the value that `key` has `at` a moment, and where it was found.
    pub fn find(&self, at: Moment<'_>, key: &EncodedKey<'_>, wants: Wants) -> Result<Found> {
        let pinned = self.pinned_at(at, wants);
        let mut lookup = Lookup::new(&pinned, key);
        let found = self.last_level(at.keyspace).complete(&mut lookup)?;
        at.keyspace.counters.note_get(found.value.is_some(), &lookup.trace);
        Ok(found)
    }

    /// Looks up what `keys` have `at` a moment, and hands it to `take` with the key's number, in any order.
    pub fn find_many(
        &self,
        at: Moment<'_>,
        keys: &[EncodedKey<'_>],
        wants: Wants,
        take: impl FnMut(usize, Found),
    ) -> Result<()> {
        batch::find_many(&self.pinned_at(at, wants), keys, &at.keyspace.counters, take)
    }

    /// As [`find_many`](Self::find_many), for work of the store's own, which counts as nobody's.
    pub fn find_uncounted(
        &self,
        at: Moment<'_>,
        keys: &[EncodedKey<'_>],
        take: impl FnMut(usize, Found),
    ) -> Result<()> {
        batch::find_many(&self.pinned_at(at, Wants::Copy), keys, &KeyspaceCounters::default(), take)
    }

    /// Looks up what `keys` have `at` a moment, where that takes no read of the device; `None` where it does.
    pub fn find_cached(
        &self,
        at: Moment<'_>,
        keys: &[EncodedKey<'_>],
        wants: Wants,
    ) -> Result<Option<Vec<Found>>> {
        batch::find_cached(&self.pinned_at(at, wants), keys, &at.keyspace.counters)
    }

    /// Searches last levels for other threads until the store is closed.
    fn help(&self) {
        let Env { reader, clock, health, .. } = &*self.env;
        self.parallel.help(reader, clock, || health.is_closed());
    }

    fn pinned_at<'a>(&'a self, at: Moment<'a>, wants: Wants) -> Pinned<'a> {
        let Moment { keyspace, view, point } = at;
        self.pinned(keyspace, view, (point.sequence, Clock::At(point.now_ms)), wants)
    }

    fn pinned<'a>(
        &'a self,
        keyspace: &'a OpenKeyspace,
        view: &'a View,
        (sequence, clock): (Sequence, Clock<'a>),
        wants: Wants,
    ) -> Pinned<'a> {
        let (encoder, version, reader) = (&keyspace.encoder, &view.version, &self.env.reader);
        let folder = keyspace.folder.as_ref();
        // Operands fold with the value below them, which has to be read for that.
        let wants = if folder.is_some() { Wants::Copy } else { wants };
        Pinned { buffers: Some(view), version, sequence, encoder, reader, clock, wants, folder }
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
