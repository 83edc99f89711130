//! What compactions are under way, so that no two work on one region.

use crate::compaction::Inputs;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::write_buffer::WriteBuffer;
use crate::ids::RunId;
use crate::sync::Mutex;
use crate::sync::thread::ThreadId;
use crate::version::Version;
use siltstone_design::{Design, Reason, Task, TriePath};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// A region of a keyspace; its path says of which level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RegionKey {
    pub keyspace: u64,
    pub path: TriePath,
}

/// A compaction that is under way.
pub(super) struct RunningTask {
    pub region: RegionKey,
    /// What it was planned by.
    pub design: Arc<Design>,
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
    pub tasks: Vec<RunningTask>,
    /// Keyspaces whose compactions are held back.
    pub held: HashMap<u64, Held>,
    /// A copy that is merged like a keyspace; see `of_copy`.
    pub copy: Weak<OpenKeyspace>,
}

impl RunningState {
    /// Returns how many work on a keyspace.
    pub fn count(&self, keyspace: u64) -> usize {
        self.tasks.iter().filter(|task| task.region.keyspace == keyspace).count()
    }

    /// Returns the regions of tasks that a design other than `design` has planned, which may lead past
    /// regions of this one: nobody works above or below them.
    pub fn of_other_designs(&self, keyspace: u64, design: &Arc<Design>) -> Vec<TriePath> {
        let of_keyspace = self.tasks.iter().filter(|task| task.region.keyspace == keyspace);
        of_keyspace.filter(|task| !Arc::ptr_eq(&task.design, design)).map(|task| task.region.path).collect()
    }

    /// Whether anybody works on a region of `keyspace` at or below `path` that fixes `depth` bits at most.
    pub fn is_busy(&self, keyspace: u64, path: TriePath, depth: u8) -> bool {
        if depth <= path.depth() {
            return self.busy.contains(&RegionKey { keyspace, path });
        }
        let mut of_keyspace = self.busy.iter().filter(|key| key.keyspace == keyspace);
        of_keyspace.any(|key| path.covers(key.path) && key.path.depth() <= depth)
    }

    /// The same, or on one above or below it for one of the designs whose tasks' regions are `others`.
    pub fn is_busy_beside(&self, others: &[TriePath], keyspace: u64, path: TriePath, depth: u8) -> bool {
        others.iter().any(|other| other.covers(path) || path.covers(*other))
            || self.is_busy(keyspace, path, depth)
    }

    /// Holds a keyspace, `is_brief` for so short a time that others wait for it. Says where somebody does
    /// already whether that is brief.
    pub fn begin_hold(&mut self, keyspace: u64, is_brief: bool) -> Result<(), IsBrief> {
        match self.held.entry(keyspace) {
            Entry::Occupied(held) => Err(IsBrief(held.get().is_brief)),
            Entry::Vacant(place) => {
                place.insert(Held { is_brief, ..Held::by_this_thread() });
                Ok(())
            }
        }
    }

    /// Whether this very thread holds a keyspace, so that it would wait for itself.
    pub fn is_held_here(&self, keyspace: u64) -> bool {
        self.held.get(&keyspace).is_some_and(|held| held.by == crate::sync::thread::current().id())
    }
}

impl Running {
    pub fn is_empty(&self) -> bool {
        self.state.lock().tasks.is_empty()
    }
}

/// Whether somebody holds a keyspace for a moment only.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsBrief(pub bool);

/// What is known of a keyspace that is held.
pub(super) struct Held {
    pub is_brief: bool,
    pub by: ThreadId,
    /// Whether the moment has come at which what is written begins to be newer.
    pub is_marked: bool,
    /// Write buffers of before that moment that are not flushed yet.
    pub older: Vec<WriteBuffer>,
    /// Runs of level 0 that were flushed of later ones.
    pub newer: HashSet<RunId>,
}

impl Held {
    fn by_this_thread() -> Self {
        let by = crate::sync::thread::current().id();
        Self { is_brief: false, by, is_marked: false, older: Vec::new(), newer: HashSet::new() }
    }
}

/// A compaction with everything it needs, marked as under way.
pub(super) struct Compaction {
    pub keyspace: Arc<OpenKeyspace>,
    /// What it was planned for, and when.
    pub version: Arc<Version>,
    pub now_ms: u64,
    pub task: Task,
    /// Why, where a redesign asked for it; else the planner knows.
    pub reason: Option<Reason>,
    pub inputs: Inputs,
    pub regions: Vec<RegionKey>,
    /// Somebody asked for it, and not the planner.
    pub is_by_hand: bool,
}

impl Compaction {
    /// A compaction of what `version` holds, by a task and its reason, that the planner asked for.
    pub fn new(
        keyspace: &Arc<OpenKeyspace>,
        version: Arc<Version>,
        now_ms: u64,
        (task, reason): (Task, Option<Reason>),
    ) -> Self {
        let key = |path| RegionKey { keyspace: keyspace.id, path };
        let regions = Inputs::regions(&version, &task).into_iter().map(key).collect();
        let (keyspace, inputs) = (Arc::clone(keyspace), Inputs::of(&version, &task));
        Self { keyspace, version, now_ms, task, reason, inputs, regions, is_by_hand: false }
    }
}
