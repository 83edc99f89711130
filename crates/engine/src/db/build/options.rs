//! How a bulk build is done, and what it has done.

use std::fmt;
use std::sync::Arc;

/// How items are ingested.
///
/// ```
/// use siltstone::IngestOptions;
///
/// let options = IngestOptions { sort_bytes: Some(64 << 20), ..IngestOptions::default() };
/// # assert!(options.progress.is_none());
/// ```
#[derive(Clone, Default)]
pub struct IngestOptions {
    /// Bytes of memory in which items are sorted, one half while the other is filled; a quarter of the
    /// store's budget unless said.
    pub sort_bytes: Option<usize>,
    /// Hears now and then how far the build is, in a thread that builds.
    pub progress: Option<Arc<dyn Fn(IngestProgress) + Send + Sync>>,
}

impl fmt::Debug for IngestOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_progress = self.progress.is_some();
        f.debug_struct("IngestOptions")
            .field("sort_bytes", &self.sort_bytes)
            .field("has_progress", &has_progress)
            .finish()
    }
}

/// How far a bulk build is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestProgress {
    /// Items given so far.
    pub items: u64,
    /// Bytes of keys and values given so far.
    pub user_bytes: u64,
    /// Bytes of keys and values that are in tables where they are to stay.
    pub placed_bytes: u64,
}

/// What a bulk build has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// Items given.
    pub items: u64,
    /// Bytes of their keys and values.
    pub user_bytes: u64,
    /// Bytes of temporary tables that were written; 0 where items came in order or fitted memory.
    pub temporary_bytes: u64,
    /// Bytes of tables that were written to stay.
    pub table_bytes: u64,
    /// How many such tables.
    pub tables: u64,
    /// Entries in them; items with one key are one entry.
    pub entries: u64,
}
