//! Compactions of a copy that is to take a keyspace's place (`db/copy/`). The copy is in no registry, so it
//! is named here; what is due in it comes behind what is due in keyspaces. In a store without threads
//! whoever makes the copy merges it.

use super::Scheduler;
use super::hold::Hold;
use super::running::Compaction;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::VersionShape;
use crate::error::Result;
use siltstone_design::plan::is_due;
use std::sync::Arc;

impl Scheduler {
    /// Has `copy` merged in the background, for as long as somebody keeps it and it is not marked as dropped.
    pub fn merge_in_background(&self, copy: &Arc<OpenKeyspace>) {
        self.running.state.lock().copy = Arc::downgrade(copy);
        self.env.signals.wake();
    }

    /// Carries out the most urgent compaction of `copy`; false where none is due.
    ///
    /// # Errors
    /// Those of a compaction.
    pub fn merge_once(&self, copy: &Arc<OpenKeyspace>) -> Result<bool> {
        let due = self.take_compaction(std::slice::from_ref(copy));
        due.map_or(Ok(false), |compaction| self.compact(&compaction).map(|()| true))
    }

    /// Takes the most urgent compaction of the copy, and marks it as under way.
    pub(super) fn take_compaction_of_copy(&self) -> Option<Compaction> {
        let copy = self.running.state.lock().copy.upgrade().filter(|copy| !copy.is_dropped());
        self.take_compaction(copy.as_slice())
    }

    /// Whether level 0 of `copy` has no more runs than its design lets it have.
    pub fn is_merged(&self, copy: &OpenKeyspace) -> bool {
        let version = copy.version();
        !is_due(&version.design, &VersionShape::at(&version, self.env.now_ms()), 0)
    }

    /// Gives up the compactions of `copy` that are under way, and lets none begin.
    ///
    /// # Errors
    /// What has ended the store.
    pub fn stop_merging(&self, copy: &Arc<OpenKeyspace>) -> Result<Hold<'_>> {
        let hold = self.hold_and_give_up(copy)?;
        // None is left, and flushes go on.
        copy.set_being_cleared(false);
        Ok(hold)
    }
}
