//! Jobs: what background work can be due beside flushes.

use super::filter_job::{Claim, FilterJob};
use super::running::Compaction;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::region_filter::sidecar::SidecarPages;
use crate::table::Table;
use siltstone_design::{Design, TriePath};
use std::sync::Arc;

/// Work other than flushes.
pub(super) enum Job {
    /// Filter and index of a table come into memory.
    LoadTable(Unloaded),
    /// The filter of a region gets what it lacks.
    Filter(FilterJob),
    /// A full region is pushed, split or rewritten, or what is left of an earlier design is.
    Compact(Compaction),
    /// Nothing is left of the designs before, which is noted.
    Settle(Redesigned),
    /// A sidecar that was found at opening is read through.
    CheckSidecar(Arc<SidecarPages>, Claim),
}

/// A keyspace, and the design of which it has everything.
pub(super) struct Redesigned {
    pub keyspace: Arc<OpenKeyspace>,
    pub design: Arc<Design>,
}

/// A table whose filter and index background work is to load, and where it lies.
pub(super) struct Unloaded {
    pub keyspace: Arc<OpenKeyspace>,
    pub level: usize,
    pub path: TriePath,
    pub table: Arc<Table>,
}
