//! Runs as region filters see them: a number, some sizes, and fingerprints if its tables have kept them.

use crate::cache::Reader;
use crate::ids::{RunId, TableId};
use siltstone_succinct::filter::maplet::Maplet;
use std::sync::Arc;

/// A run as region filters see it.
pub(crate) trait FilteredRun {
    /// Returns the run's number.
    fn id(&self) -> RunId;
    /// Returns how many entries its tables have.
    fn entries(&self) -> u64;
    /// Returns the bytes of its keys and values.
    fn user_bytes(&self) -> u64;
    /// Returns the numbers of its tables.
    fn table_ids(&self) -> impl Iterator<Item = TableId>;
    /// Returns the fingerprints that its tables keep; `None` where a table has none, or they can't be read.
    fn fingerprints(&self, reader: &Reader) -> Option<Vec<Maplet>>;
}

impl<R: FilteredRun> FilteredRun for Arc<R> {
    fn id(&self) -> RunId {
        R::id(self)
    }

    fn entries(&self) -> u64 {
        R::entries(self)
    }

    fn user_bytes(&self) -> u64 {
        R::user_bytes(self)
    }

    fn table_ids(&self) -> impl Iterator<Item = TableId> {
        R::table_ids(self)
    }

    fn fingerprints(&self, reader: &Reader) -> Option<Vec<Maplet>> {
        R::fingerprints(self, reader)
    }
}

/// What there is in a region to filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    pub runs: usize,
}

impl Contents {
    pub fn of(runs: &[impl FilteredRun]) -> Self {
        let (keys, bytes) = runs.iter().fold((0, 0), |(k, b), run| (k + run.entries(), b + run.user_bytes()));
        Self { keys, bytes, runs: runs.len() }
    }
}
