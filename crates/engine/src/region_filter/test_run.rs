//! Runs that region filters can be tested over: they have entries and no tables.

use super::FilteredRun;
use crate::cache::Reader;
use crate::ids::{RunId, TableId};
use siltstone_succinct::filter::maplet::Maplet;

/// A run of ten keys without tables.
#[derive(Clone, Copy)]
pub(crate) struct TestRun(pub RunId);

impl FilteredRun for TestRun {
    fn id(&self) -> RunId {
        self.0
    }

    fn entries(&self) -> u64 {
        10
    }

    fn user_bytes(&self) -> u64 {
        1_000
    }

    fn table_ids(&self) -> impl Iterator<Item = TableId> {
        std::iter::once(self.0)
    }

    fn fingerprints(&self, _: &Reader) -> Option<Vec<Maplet>> {
        None
    }
}
