//! Preconditions of writes: nobody has written a key since its value was read.

use crate::cache::TableId;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::entry::Sequence;
use siltstone_design::Digest;
use std::collections::HashSet;
use std::sync::Arc;

/// A precondition: nobody has written `key` since `seen`.
pub(crate) struct Condition {
    pub keyspace: Arc<OpenKeyspace>,
    pub key: Vec<u8>,
    pub seen: Sequence,
    /// How many bulk builds the view of the read had seen.
    pub builds: u64,
    /// The table in which the value was found; 0 where it was in a write buffer, where there was none, or
    /// where the write is of another key.
    pub found_in: TableId,
}

/// What earlier batches of a group write: keyspaces and digests.
pub(super) type Written = HashSet<(u64, Digest)>;

impl Condition {
    /// Whether the key may have been written since its value was read, or is by an earlier batch of the
    /// group.
    pub(super) fn is_violated(&self, written: &Written) -> bool {
        // What was written to the one that has taken its place can't be told from it.
        if self.keyspace.is_replaced() {
            return true;
        }
        let Ok(key) = self.keyspace.encoder.encode(&self.key) else { return true };
        let prefix_place = Digest { hi: key.digest.hi, lo: 0 };
        if written.contains(&(self.keyspace.id, key.digest))
            || written.contains(&(self.keyspace.id, prefix_place))
        {
            return true;
        }
        let view = self.keyspace.view.load();
        // What was flushed or built since can't be asked any more.
        view.builds != self.builds
            || view.oldest_buffer().born_at() > self.seen
            || view.buffers().any(|buffer| buffer.changed_since(&key, self.seen))
    }
}
