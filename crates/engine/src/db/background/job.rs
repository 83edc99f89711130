//! Jobs: what background work can be due beside flushes.

use super::filter_job::{Claim, FilterJob};
use super::running::Compaction;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::region_filter::sidecar::SidecarPages;
use crate::table::Table;
use siltstone_design::TriePath;
use std::sync::Arc;

/// Work other than flushes.
pub(super) enum Job {
    /// Filter and index of a table come into memory.
    LoadTable(Unloaded),
    /// The filter of a region gets what it lacks.
    Filter(FilterJob),
    /// A full region is pushed, split or rewritten.
    Compact(Compaction),
    /// A sidecar that was found at opening is read through.
    CheckSidecar(Arc<SidecarPages>, Claim),
}

/// A table whose filter and index background work is to load, and where it lies.
pub(super) struct Unloaded {
    pub keyspace: Arc<OpenKeyspace>,
    pub level: usize,
    pub path: TriePath,
    pub table: Arc<Table>,
}
