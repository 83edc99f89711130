//! What a new run adds to the filter that spans its region's runs.
//!
//! The one part of a compaction that knows region filters. It is told the run's keys as they are written, and
//! afterwards makes of them what the region's filter takes in.

use super::work::{Context, Output, Target};
use crate::entry::EntryRef;
use crate::memory::Holder;
use crate::region_filter::{
    Asked, Contents, ExpectedRun, Filtered, FilteredRun, NewRegionFilter, PossibleFilter, RegionFilter,
    RegionFilterBuilder, RegionFilterKind,
};
use crate::table::NewTable;
use crate::table::envelope::TableMeta;
use crate::version::edit::RunRecord;
use crate::version::{Run, Version};
use std::sync::Arc;

/// The filter of a region as it grows by a new run.
pub(super) struct RunFilter {
    builder: Option<RegionFilterBuilder>,
    /// Whether it takes keys one by one, and no whole tables' fingerprints.
    takes_keys: bool,
    /// About how many keys the run will have.
    keys: u64,
}

impl RunFilter {
    /// Begins what a new run of `target` with about so many keys adds, if it can add anything.
    pub fn begin(context: &Context<'_>, version: &Version, target: &Target, keys: u64) -> Self {
        let builder = begin(context, version, target, keys);
        let takes_keys = builder.as_ref().is_some_and(|builder| !builder.takes_tables());
        Self { builder, takes_keys, keys }
    }

    /// Adds an entry that the run keeps.
    #[inline]
    pub fn add(&mut self, entry: &EntryRef<'_>) {
        if self.takes_keys
            && let Some(builder) = &mut self.builder
        {
            builder.add(&entry.key, entry.older_in, self.keys);
        }
    }

    /// Adds a table of the run that was written, and passes its description on.
    pub fn end_table(&mut self, table: NewTable) -> TableMeta {
        if let Some(builder) = &mut self.builder {
            builder.add_table(table.fingerprints);
        }
        table.meta
    }

    /// Adds what has come of the filter to `output`, now that all of `run` is written.
    pub fn finish(self, context: &Context<'_>, target: &Target, run: &RunRecord, output: &mut Output) {
        let Some(mut builder) = self.builder else { return };
        let bytes = run.tables.iter().map(|table| table.user_bytes).sum();
        builder.end_run(run.id, run.tables.iter().map(|table| table.id), bytes);
        let filter = builder.finish(context.reader.memory());
        output.filters.extend(filter.map(|filter| NewRegionFilter::new(target.path, filter)));
    }
}

fn begin(
    context: &Context<'_>,
    version: &Version,
    target: &Target,
    keys: u64,
) -> Option<RegionFilterBuilder> {
    let has_children = version.has_children(target.path);
    let kind = RegionFilterKind::of(version.spec_at(target.path.depth())?, has_children)?;
    let region = version.region(target.path);
    let runs = target.runs(version);
    let present = region.and_then(|region| region.filter.as_deref());
    let (asked, contents) = (Asked { path: target.path, has_children }, with_run(runs, keys));
    let possible = PossibleFilter { kind, region: asked, contents, known_bytes: None };
    if possible.is_refused(context.filter_limits) {
        return None;
    }
    let kind = kind.within(context.filter_limits);
    if !asked.is_top() && !leaves_room(context, kind, contents, present) {
        return None;
    }
    let fingerprints = |place: usize| runs.get(place)?.fingerprints(context.reader);
    let run = ExpectedRun { keys, is_on_top: target.replaces.is_none(), fingerprints: &fingerprints };
    let region = Filtered { path: target.path, runs, present };
    RegionFilterBuilder::for_new_run(kind, &region, &run, context.reader.memory())
}

/// Returns what is in a region with `runs` and a run of `keys` keys more.
fn with_run(runs: &[Arc<Run>], keys: u64) -> Contents {
    let before = Contents::of(runs);
    let each = before.bytes as f64 / before.keys.max(1) as f64;
    let keys = before.keys + keys;
    Contents { keys, bytes: (each * keys as f64) as u64, runs: before.runs + 1 }
}

/// Whether the filter of a region with such contents leaves what filters of the uppermost regions will need.
fn leaves_room(
    context: &Context<'_>,
    kind: RegionFilterKind,
    contents: Contents,
    present: Option<&RegionFilter>,
) -> bool {
    let (memory, kept) = (context.reader.memory(), context.filter_limits.kept_for_top());
    if kept == 0 {
        return true;
    }
    let Some(bytes) = kind.estimated_bytes(contents) else { return true };
    let room = memory.room_for(Holder::Filter) + present.map_or(0, RegionFilter::memory_bytes);
    bytes + kept <= room
}
