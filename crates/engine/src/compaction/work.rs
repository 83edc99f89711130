//! What compactions are told, and what they return.

use crate::activity::ValueSizes;
use crate::cache::Reader;
use crate::events::Dropped;
use crate::ids::RunId;
use crate::io::Disk;
use crate::merge_operator::Folder;
use crate::region_filter::FilterLimits;
use crate::region_filter::NewRegionFilter;
use crate::table::Writing;
use crate::version::edit::Step;
use crate::version::{Run, Version};
use siltstone_design::{Design, TriePath};
use std::path::Path;
use std::sync::Arc;

/// What compactions share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The keyspace whose tables are written.
    pub keyspace: u64,
    pub design: &'a Design,
    /// How exact its region filters may be.
    pub filter_limits: &'a FilterLimits,
    /// Carries out the keyspace's merges, if it takes any.
    pub folder: Option<&'a Arc<Folder>>,
    pub disk: &'a dyn Disk,
    pub dir: &'a Path,
    pub reader: &'a Arc<Reader>,
    pub now_ms: u64,
    /// Hands out numbers of tables and runs.
    pub next_id: &'a dyn Fn() -> u64,
    /// Asked now and then; `true` gives the work up.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Told now and then how many bytes of keys and values were written; returns when more may be.
    pub pace: &'a dyn Fn(u64),
    /// How tables are written.
    pub writing: Writing,
    /// Older entries may still come below what is flushed, so that nothing there is the oldest.
    pub awaits_older: bool,
}

/// About how much is partitioned: what comes down to the targets, without the runs that lie there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Amount {
    pub entries: u64,
    pub bytes: u64,
}

impl Amount {
    /// Returns this much and `other` together.
    pub fn and(self, other: Self) -> Self {
        Self { entries: self.entries + other.entries, bytes: self.bytes + other.bytes }
    }

    /// Returns about how much goes to each of so many targets.
    pub fn per_target(self, targets: usize) -> Self {
        let targets = targets.max(1) as u64;
        Self { entries: self.entries / targets, bytes: self.bytes / targets }
    }
}

/// A region that output goes to.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub level: usize,
    pub path: TriePath,
    /// Bytes of the runs there that take part in the merge, in a leveled region.
    pub merged_bytes: u64,
    /// Nothing older lies there or below.
    pub bottom: bool,
    /// Where the new run goes: in the place of this one, below all
    /// ([`OLDEST`](crate::version::edit::OLDEST)), or on top.
    pub replaces: Option<RunId>,
}

impl Target {
    /// Returns the runs that lie there now, newest first.
    pub fn runs<'v>(&self, version: &'v Version) -> &'v [Arc<Run>] {
        version.runs(self.path)
    }

    /// Whether there is such a region.
    pub fn exists(&self, version: &Version) -> bool {
        version.region(self.path).is_some()
    }
}

/// What work did: the steps of its edit, and what its new runs bring to the filters of their regions.
#[derive(Default)]
pub(crate) struct Output {
    pub steps: Vec<Step>,
    pub filters: Vec<NewRegionFilter>,
    /// Tombstones and expired values that were not kept.
    pub dropped: Dropped,
    /// What was written, and what of it to regions with nothing older there or below.
    pub made: Made,
    pub made_at_bottom: Made,
}

/// Entries that were written, the groups that they belong to, counted in each run, the share of all digests
/// that the runs span, in parts of [`WHOLE`](crate::activity::WHOLE), and how large values are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    pub entries: u64,
    pub groups: u64,
    pub share: u64,
    pub values: ValueSizes,
}

impl Made {
    /// Returns these and `other` together.
    pub fn and(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            groups: self.groups + other.groups,
            share: self.share + other.share,
            values: self.values.and(&other.values),
        }
    }
}

impl Output {
    /// Returns the new runs.
    pub fn runs(&self) -> Vec<RunId> {
        let runs = self.steps.iter().filter_map(|step| match step {
            Step::AddRun { run, .. } => Some(run.id),
            _ => None,
        });
        runs.collect()
    }

    /// Takes in what other work on the same version did.
    pub fn join(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.filters.extend(other.filters);
        self.dropped.tombstones += other.dropped.tombstones;
        self.dropped.expired += other.dropped.expired;
        self.made = self.made.and(other.made);
        self.made_at_bottom = self.made_at_bottom.and(other.made_at_bottom);
    }
}
