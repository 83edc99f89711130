//! The sets of keyspaces that there is something to do about; [`activity`](super::activity) keeps them.

use super::keyspace::OpenKeyspace;
use crate::sync::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type ByNumber = BTreeMap<u64, Arc<OpenKeyspace>>;

/// Which keyspaces there is something to do about.
#[derive(Default)]
pub(super) struct Activity {
    /// Those with writes that are not in tables.
    pub written: RwLock<ByNumber>,
    /// Those with write buffers that wait for their flush, and those whose compaction is late.
    pub behind: RwLock<ByNumber>,
    /// Those in which jobs may be due.
    pub due: Mutex<Due>,
}

/// Keyspaces in which jobs may be due.
#[derive(Default)]
pub(super) struct Due {
    /// Counts notes.
    pub note: u64,
    /// With the last note of each.
    pub keyspaces: BTreeMap<u64, (u64, Arc<OpenKeyspace>)>,
    /// Number of the keyspace from which on the next look begins.
    pub look_from: u64,
}

/// Keyspaces in which jobs may be due, as it was at one moment.
pub(crate) struct DueKeyspaces {
    pub keyspaces: Vec<Arc<OpenKeyspace>>,
    pub(super) note: u64,
}

impl Due {
    /// Notes that jobs may be due in `keyspace`.
    pub fn note(&mut self, keyspace: &Arc<OpenKeyspace>) {
        self.note += 1;
        self.keyspaces.insert(keyspace.id, (self.note, Arc::clone(keyspace)));
    }
}
