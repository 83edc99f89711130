//! What a repair tells.

use serde::Serialize;

/// What a repair did.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RepairReport {
    /// Items and deletions that were read from tables; a key may have several.
    pub entries: u64,
    /// Operations that were read from the log.
    pub operations: u64,
    /// Tables that were read.
    pub tables: u64,
    /// Tables that no manifest names and that were read all the same.
    pub unnamed_tables: u64,
    /// Keyspaces of the new store.
    pub keyspaces: Vec<String>,
    /// What is wrong with the manifest; none where it is whole.
    pub manifest: Option<String>,
    /// What was lost, or may be.
    pub losses: Vec<Loss>,
    /// What was read and should be looked at, a sentence each: where the place of items was not certain, or
    /// what merges are to be done with.
    pub notes: Vec<String>,
    /// Files of the damaged store that `lost+found` in the new one keeps.
    pub kept: Vec<String>,
}

/// Something that a repair could not read, or not place.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The file that it was in.
    pub file: String,
    /// The keyspace that it belongs to, where that is known.
    pub keyspace: Option<String>,
    /// Bytes that can't be read, as far as can be told.
    pub bytes: u64,
    /// Entries that are missing, as far as can be told.
    pub entries: u64,
    /// What happened, in a sentence.
    pub what: String,
}

/// How far a repair has come.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RepairProgress {
    /// Bytes of tables and logs that were read.
    pub bytes_done: u64,
    /// Bytes of all tables and logs.
    pub bytes_total: u64,
}
