//! What all parts of one bulk build use.

use super::options::{IngestOptions, IngestProgress, IngestReport};
use crate::db::background::Scheduler;
use crate::db::catalog::Catalog;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::env::Env;
use crate::db::write::Committer;
use crate::entry::PrefixTombstones;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::table::Writing;
use crate::version::Version;
use std::sync::Arc;

/// How far a build is, for whoever wants to hear of it.
pub(super) struct Told<'a> {
    options: &'a IngestOptions,
    items: AtomicU64,
    user_bytes: AtomicU64,
    placed_bytes: AtomicU64,
}

impl<'a> Told<'a> {
    pub fn new(options: &'a IngestOptions) -> Self {
        let (items, user_bytes, placed_bytes) = Default::default();
        Self { options, items, user_bytes, placed_bytes }
    }

    pub fn placed(&self, bytes: u64) {
        self.placed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    pub fn given(&self, report: &IngestReport) {
        self.items.store(report.items, Ordering::Relaxed);
        self.user_bytes.store(report.user_bytes, Ordering::Relaxed);
        self.tell();
    }

    fn tell(&self) {
        if let Some(progress) = &self.options.progress {
            let [items, user_bytes, placed_bytes] = [&self.items, &self.user_bytes, &self.placed_bytes]
                .map(|count| count.load(Ordering::Relaxed));
            progress(IngestProgress { items, user_bytes, placed_bytes });
        }
    }
}

/// The parts of a store that builds use.
#[derive(Clone, Copy)]
pub(in crate::db) struct Builder<'a> {
    pub env: &'a Arc<Env>,
    pub catalog: &'a Arc<Catalog>,
    pub committer: &'a Committer,
    pub scheduler: &'a Scheduler,
}

impl Builder<'_> {
    /// Whether threads work for the store, its own or a pool's.
    pub fn has_threads(&self) -> bool {
        self.env.options.background_threads > 0
    }
}

/// Where a build works.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub store: Builder<'a>,
    pub keyspace: &'a Arc<OpenKeyspace>,
    /// What the keyspace held when the build began.
    pub base: &'a Version,
    pub told: &'a Told<'a>,
    pub no_tombstones: &'a PrefixTombstones,
}

impl Site<'_> {
    /// How its tables are written.
    pub fn writing(&self) -> Writing {
        if self.store.has_threads() { Writing::Behind } else { Writing::Uncached }
    }
}
