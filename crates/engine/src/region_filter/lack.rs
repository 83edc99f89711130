//! What the filter of a region lacks, and what there is to make it with.

use crate::ids::RunId;
use crate::memory::{Holder, MemoryBudget};

/// What background work may use to make a filter.
pub(crate) struct Means<'a> {
    pub memory: &'a MemoryBudget,
    /// Whether a run's keys could not be read, a file with it as the newest run not be written, or there was
    /// no memory for it, with no more room than there is now.
    pub has_failed: &'a dyn Fn(RunId) -> bool,
    /// With fingerprints of how many bits the filter of a region with this newest run has been made anew for
    /// exactness; 0 where it has not.
    pub made_anew_with: &'a dyn Fn(RunId) -> u8,
    /// Bytes that the region's filter has to leave to those above it.
    pub kept_for_top: u64,
    /// Whether there is nothing else to do.
    pub has_time: bool,
    /// Whether, besides, nothing was flushed for a while.
    pub is_calm: bool,
}

impl Means<'_> {
    /// Returns the bytes that region filters can still have.
    pub fn room(&self) -> u64 {
        self.memory.room_for(Holder::Filter).saturating_sub(self.kept_for_top)
    }
}

/// What the filter of a region lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Runs, among them the one at this place, newest first.
    Run(usize),
    /// A file with what is in memory.
    File,
    /// Exactness: memory was short when it was made, and is not any more or less so.
    Exactness,
    /// Nothing but speed: its two parts are to be joined, for lookups to ask but one.
    Join,
    /// Nothing but memory: its fingerprints are to be shortened to so many bits.
    Memory(u8),
}
