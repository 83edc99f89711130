//! What a new run adds to the filters that span its region's runs.
//!
//! The one part of a compaction that knows region filters. It is told the run's keys as they are written, and
//! afterwards makes of them what the region's filter takes in.

use super::work::{Context, Output, Target};
use crate::entry::EntryRef;
use crate::table::NewTable;
use crate::table::envelope::TableMeta;
use crate::version::cluster::{ClusterRowBuilder, cluster_bits};
use crate::version::edit::RunRecord;
use crate::version::guide::{Guide, GuideBuilder, GuideSpec, NewGuide};
use crate::version::level::Version;

/// The filters of a region as they grow by a new run.
pub(super) struct RunFilters {
    guide: Option<GuideBuilder>,
    /// Whether the guide takes whole tables' fingerprints, and no keys.
    takes_tables: bool,
    row: Option<ClusterRowBuilder>,
    /// About how many keys the run will have.
    keys: u64,
}

impl RunFilters {
    /// Begins what a new run of `target` with about so many keys adds.
    pub fn begin(context: &Context<'_>, version: &Version, target: &Target, keys: u64) -> Self {
        let guide = extend_guide(context, version, target);
        let takes_tables = guide.as_ref().is_some_and(GuideBuilder::takes_tables);
        let row = begin_row(context, version, target, keys);
        Self { guide, takes_tables, row, keys }
    }

    /// Adds an entry that the run keeps.
    #[inline]
    pub fn add(&mut self, entry: &EntryRef<'_>) {
        if let Some(guide) = &mut self.guide
            && !self.takes_tables
        {
            guide.add(&entry.key, entry.older_in, self.keys);
        }
        if let Some(row) = &mut self.row {
            row.add(&entry.key);
        }
    }

    /// Adds a table of the run that was written, and passes its description on.
    pub fn end_table(&mut self, table: NewTable) -> TableMeta {
        if let Some(guide) = &mut self.guide {
            guide.add_table(table.fingerprints);
        }
        table.meta
    }

    /// Adds what has come of the filters to `output`, now that all of `run` is written.
    pub fn finish(self, context: &Context<'_>, target: &Target, run: &RunRecord, output: &mut Output) {
        let memory = context.reader.memory();
        if let Some(mut guide) = self.guide {
            let bytes = run.tables.iter().map(|table| table.user_bytes).sum();
            guide.end_run(run.id, run.tables.iter().map(|table| table.id), bytes);
            let guide = guide.finish(memory);
            output.guides.extend(guide.map(|guide| NewGuide::new(target.level, target.path, guide)));
        }
        let row = self.row.and_then(|row| row.finish((target.level, target.path), run.id, memory));
        output.rows.extend(row);
    }
}

/// Youngest runs of a pile that its guide may have missed for a new run to catch up on them.
const MOST_MISSED: usize = 8;

/// Begins the guide of the pile that a new run of `target` will lie on: where the level has guides and the
/// one that is there covers the whole pile, or all but the youngest runs, whose tables have kept the
/// fingerprints that it wants.
fn extend_guide(context: &Context<'_>, version: &Version, target: &Target) -> Option<GuideBuilder> {
    let has_children = version.has_children(target.level, target.path);
    let spec = GuideSpec::of(context.design.level(target.level), has_children)?;
    if target.replaces.is_some() {
        return None;
    }
    let region = version.levels.get(target.level).and_then(|l| l.region(target.path));
    let (pile, guide) = region.map_or((&[][..], None), |r| (r.runs.as_slice(), r.guide.as_deref()));
    let covered = guide.map_or(0, Guide::covered);
    let missed = || pile.iter().rev().skip(covered);
    let can_catch_up = covered > 0 && spec.wants_fingerprints() && missed().len() <= MOST_MISSED;
    if covered < pile.len() && !can_catch_up {
        return None;
    }
    let mut builder = GuideBuilder::new(spec, guide, pile);
    for run in missed() {
        if !builder.has_room() {
            return None;
        }
        run.fingerprints(context.reader)?.iter().for_each(|table| builder.add_fingerprints(table));
        let bytes = run.tables.iter().map(|table| table.meta().user_bytes).sum();
        builder.end_run(run.id, run.tables.iter().map(|table| table.id()), bytes);
    }
    Some(builder).filter(GuideBuilder::has_room)
}

/// Begins the row of a new run in the cluster of `target`, where the level has clusters.
fn begin_row(
    context: &Context<'_>,
    version: &Version,
    target: &Target,
    keys: u64,
) -> Option<ClusterRowBuilder> {
    let bits_per_key = cluster_bits(context.design.level(target.level))?;
    let region = version.levels.get(target.level).and_then(|l| l.region(target.path));
    let cluster = region.and_then(|region| region.cluster.as_deref());
    ClusterRowBuilder::new(target.path, bits_per_key, cluster, (keys, context.reader.memory()))
}
