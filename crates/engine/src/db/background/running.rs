//! What compactions are under way, so that no two work on one region.

use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::write_buffer::WriteBuffer;
use crate::ids::RunId;
use crate::version::Version;
use parking_lot::Mutex;
use siltstone_design::{Task, TriePath};
use std::collections::{HashMap, HashSet};
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
    /// Keyspaces whose compactions are held back.
    pub held: HashMap<u64, Held>,
}

impl RunningState {
    /// Holds a keyspace; false where somebody does already.
    pub fn begin_hold(&mut self, keyspace: u64) -> bool {
        let is_free = !self.held.contains_key(&keyspace);
        self.held.entry(keyspace).or_default();
        is_free
    }
}

impl Running {
    pub fn is_empty(&self) -> bool {
        self.state.lock().keyspaces.is_empty()
    }
}

/// What is known of a keyspace that is held.
#[derive(Default)]
pub(super) struct Held {
    /// Whether the moment has come at which what is written begins to be newer.
    pub is_marked: bool,
    /// Write buffers of before that moment that are not flushed yet.
    pub older: Vec<WriteBuffer>,
    /// Runs of level 0 that were flushed of later ones.
    pub newer: HashSet<RunId>,
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
