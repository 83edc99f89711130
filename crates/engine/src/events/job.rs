//! Jobs as data: what a job works on and why, and what became of it.

use serde::{Deserialize, Serialize};
use siltstone_design::Reason as RegionReason;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Work {
    /// Writes a sealed write buffer as a run of level 0.
    Flush,
    /// Merges the runs of a region and partitions them among its children.
    Push,
    /// Does the same to a leaf, whose children are new.
    Split,
    /// Merges runs of a region in place.
    Rewrite,
    /// All runs of a region and below it become one run of the region, after a redesign.
    Gather,
    /// Lets go of runs in which everything was deleted or has expired, unread.
    DropRuns,
    /// Sorts a part of a bulk build's items and writes it to a temporary table.
    SortItems,
    /// Writes the items of a bulk build where they are to stay.
    Ingest,
    /// Makes a region filter, in memory.
    BuildFilter,
    /// Adds runs to a region filter in memory.
    ExtendFilter,
    /// Makes one part of the two of a region filter in memory.
    JoinFilter,
    /// Shortens the fingerprints of a region filter in memory.
    ShortenFilter,
    /// Writes a file of region filters.
    WriteFilterFile,
    /// Loads filter and index of a table.
    LoadTable,
    /// Makes buffered writes survive a power cut.
    SyncLog,
    /// Reads a sidecar file that was found at opening, to see whether it is sound.
    CheckSidecar,
}

/// Why a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The write buffer has taken as much as the design lets it.
    BufferFull {
        /// Bytes of keys and values in it.
        bytes: u64,
        /// Entries in it.
        entries: u64,
    },
    /// Write buffers take so much memory that one of them is flushed early.
    MemoryBound {
        /// Bytes of memory that this one takes.
        bytes: u64,
        /// Bytes that all of them may take.
        at_most: u64,
    },
    /// The log is so long that its oldest part has to become a table.
    LogTooLong {
        /// Bytes of the log that are needed.
        bytes: u64,
        /// Bytes that may be.
        at_most: u64,
    },
    /// Opening found the log in many small segments, which a flush makes one run of.
    LogScattered {
        /// The segments.
        segments: u64,
    },
    /// The user asked for it.
    Requested,
    /// The keyspace has another design.
    Redesigned,
    /// Runs of the region are not in its filter.
    FilterMissing {
        /// How many.
        runs: u64,
    },
    /// Memory is short for filters as the design has them.
    MemoryShort,
    /// Memory was short for the filter when it was made, and is not any more.
    MemoryFree,
    /// Nothing was flushed for a while.
    Calm,
    /// Region filters that are in memory belong in a file.
    FileDue {
        /// Bytes of them.
        bytes: u64,
    },
    /// Filter and index of the table are not in memory yet.
    NotLoaded,
    /// Nobody has read the file since the store was opened.
    Unchecked,
    /// The time of a regular job has come.
    Interval {
        /// Milliseconds from one to the next.
        ms: u64,
    },
    /// The planner chose the region.
    #[serde(untagged)]
    Planned(RegionReason),
}

/// A region, or a whole level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Place {
    /// Number of the level, 0 at the top.
    pub level: usize,
    /// The digest bits that the region's keys begin with; `root` where there are none.
    pub region: String,
}

impl Place {
    pub(crate) fn new(level: usize, region: impl std::fmt::Display) -> Self {
        Self { level, region: region.to_string() }
    }
}

/// A part of what a job reads or writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    /// Number of the level; none of a write buffer, of the log and of files that lie on no level.
    pub level: Option<usize>,
    /// Numbers of the runs.
    pub runs: Vec<u64>,
    /// Tables of the runs.
    pub tables: u64,
    /// Entries, tombstones included; of a write buffer those that were replaced too.
    pub entries: u64,
    /// Bytes of the tables; of a write buffer those of keys and values.
    pub bytes: u64,
}

/// A job as it is known when it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its number, from 1 since the store was opened.
    pub job: u64,
    /// What it does.
    pub work: Work,
    /// The keyspace that it works for; none where it works for all.
    pub keyspace: Option<String>,
    /// The region that it works on, if there is one.
    pub place: Option<Place>,
    /// Why it runs; none where that can't be said.
    pub reason: Option<Reason>,
    /// What it reads, the region's own level first.
    pub inputs: Vec<Part>,
}

impl JobInfo {
    /// Describes `work`; the reporter numbers it.
    pub(crate) fn new(work: Work) -> Self {
        Self { job: 0, work, keyspace: None, place: None, reason: None, inputs: Vec::new() }
    }

    pub(crate) fn of(self, keyspace: &str) -> Self {
        Self { keyspace: Some(keyspace.to_owned()), ..self }
    }

    pub(crate) fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    pub(crate) fn because(self, reason: impl Into<Option<Reason>>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    pub(crate) fn reading(self, inputs: Vec<Part>) -> Self {
        Self { inputs, ..self }
    }
}

/// Entries that a flush or compaction did not keep, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Dropped {
    /// All of them.
    pub entries: u64,
    /// Bytes of tables that a compaction wrote less than it read.
    pub bytes: u64,
    /// Entries with a newer version, or of a prefix that was deleted later.
    pub overwritten: u64,
    /// Tombstones with nothing left to hide.
    pub tombstones: u64,
    /// Expired entries with nothing left to hide.
    pub expired: u64,
}

impl Dropped {
    pub(crate) fn new(entries: u64, tombstones: u64, expired: u64) -> Self {
        let overwritten = entries.saturating_sub(tombstones + expired);
        Self { entries, bytes: 0, overwritten, tombstones, expired }
    }
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobEnd {
    /// What was known when it began.
    #[serde(flatten)]
    pub info: JobInfo,
    /// What it wrote, the uppermost level first; nothing where it failed.
    pub outputs: Vec<Part>,
    /// Bytes of the tables and files that it read; 0 where it failed.
    pub bytes_read: u64,
    /// Bytes of the tables and files that it wrote, or of the log that it synced; 0 where it failed.
    pub bytes_written: u64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// What a flush or compaction did not keep.
    pub dropped: Dropped,
    /// Runs that a flush or compaction added to region filters as it wrote them.
    pub filtered_runs: u64,
    /// Why it failed, if it did. Failed work is tried again.
    pub error: Option<String>,
}
