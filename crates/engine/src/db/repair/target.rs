//! The store that a repair fills.

use crate::db::batch::Batch;
use crate::db::keyspace::Keyspace;
use crate::error::Result;
use crate::options::KeyspaceOptions;
use siltstone_design::PrefixRules;
use std::path::Path;

/// The store that a repair fills.
pub(in crate::db) trait Target {
    /// Returns the keyspace `name`, made where there is none.
    fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace>;
    /// Writes a batch.
    fn write(&self, batch: &Batch) -> Result<()>;
    /// Names of its keyspaces.
    fn names(&self) -> Vec<String>;
    /// Its directory.
    fn dir(&self) -> &Path;
    /// Name of the operator of merges that come without one.
    fn unknown_operator(&self) -> &str;
    /// Prefix rules of the program's own.
    fn prefix_rules(&self) -> &PrefixRules;
}
