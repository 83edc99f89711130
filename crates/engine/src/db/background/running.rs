//! What compactions are under way, so that no two work on one region.

use crate::db::catalog::keyspace::OpenKeyspace;
use crate::version::Version;
use parking_lot::Mutex;
use siltstone_design::{Task, TriePath};
use std::collections::HashSet;
use std::sync::Arc;

/// A region of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RegionKey {
    pub keyspace: u64,
    pub level: usize,
    pub path: TriePath,
}

/// What compactions are under way.
#[derive(Default)]
pub(super) struct Running {
    pub state: Mutex<RunningState>,
}

#[derive(Default)]
pub(super) struct RunningState {
    /// Regions that they read or replace.
    pub busy: HashSet<RegionKey>,
    /// Their keyspaces.
    pub keyspaces: Vec<u64>,
}

impl Running {
    pub fn is_empty(&self) -> bool {
        self.state.lock().keyspaces.is_empty()
    }
}

/// A compaction with everything it needs, marked as under way.
pub(super) struct Compaction {
    pub keyspace: Arc<OpenKeyspace>,
    /// What it was planned for, and when.
    pub version: Arc<Version>,
    pub now_ms: u64,
    pub task: Task,
    pub regions: Vec<RegionKey>,
}
