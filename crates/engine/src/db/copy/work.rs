//! A copy that is being made: what it is made of, how far it is, and what becomes of it.

use super::walk::Held;
use crate::db::catalog::Catalog;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::schema_change::SchemaChange;
use crate::db::env::Env;
use crate::db::follow::Follower;
use crate::entry::Sequence;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::Stopwatch;
use std::sync::Arc;
use std::time::Duration;

/// A copy that is being made.
pub(super) struct Work {
    pub env: Arc<Env>,
    pub catalog: Arc<Catalog>,
    pub old: Arc<OpenKeyspace>,
    pub change: Arc<SchemaChange>,
    /// Holds what `old` held at `reached`.
    pub copy: Arc<OpenKeyspace>,
    pub reached: Arc<Held>,
    /// Reads what was written since.
    pub log: Follower,
    /// Where the log ended at `reached`.
    pub position: u64,
    /// How often the copy has caught up while no merges were waited for.
    pub rounds: u32,
    /// How long merges of its level 0 have been waited for, while they are.
    pub unmerged: Option<Stopwatch>,
    /// and how long they are, at most.
    pub longest_merges: Duration,
    /// How often somebody else's flush was in the way of the end.
    pub delays: u32,
    /// Numbers the writes to the copy.
    pub sequence: Sequence,
    /// The copy has taken the place of `old`.
    pub is_done: bool,
}

/// A moment of the keyspace, and where the log ended then.
pub(super) struct Next {
    pub held: Held,
    pub end: u64,
}

/// How far a round came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caught {
    /// The copy holds what the keyspace held at the moment.
    Up,
    /// The keyspace has contents that the log does not tell of: a copy is to be made anew.
    Lost,
}

impl Work {
    /// Whether the keyspace is still to have the schema.
    pub fn is_wanted(&self) -> bool {
        self.change.is_open() && !self.old.is_dropped()
    }

    /// Returns an error where there is nothing to work for any more.
    pub fn check_wanted(&self) -> Result<()> {
        self.env.check_writable()?;
        if !self.is_wanted() {
            return Err(Error::new(ErrorKind::Closed, "the change of the schema has been called off"));
        }
        Ok(())
    }

    /// Returns `error` with what it means where it says that `key` does not fit the schema to come.
    pub fn misfit(&self, key: &[u8], error: Error) -> Error {
        if error.kind() != ErrorKind::BadKey {
            return error;
        }
        let why = self.copy.encoder.encode(key).err();
        let why = why.map_or_else(|| error.to_string(), |why| why.to_string());
        Error::new(
            ErrorKind::BadKey,
            format!(
                "keyspace {:?} keeps its schema, since key \"{}\" does not fit {}: {why}; delete such keys, or choose a schema \
                 that they fit, and ask again",
                self.old.name,
                key.escape_ascii(),
                self.copy.encoder.schema(),
            ),
        )
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Where it is in doubt whether the copy has taken its place, its files stay until that is known.
        if self.is_done || self.env.health.is_poisoned() {
            return;
        }
        self.catalog.discard_copy(&self.copy);
    }
}
