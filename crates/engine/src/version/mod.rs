//! Versions: which tables make up a keyspace, and the log of edits that says so.
//!
//! A version is immutable; readers pin one and never see half a compaction. An [`edit::Edit`] leads from one version to
//! the next and is on disk before the new version is seen.

pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod edit;
pub(crate) mod guide;
pub(crate) mod level;
pub(crate) mod manifest;
