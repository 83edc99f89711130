//! Runs a planned task: stream, merge, retain, build, sync; the result is an edit.
//!
//! Flush, push, split and rewrite are one operation: entries in the store's order are dealt out to regions, a new run each.

pub(crate) mod merge;
pub(crate) mod retain;
mod tournament;

use crate::cache::{PAGE_BYTES, Reader};
use crate::entry::{Cursor, PrefixTombstones, Span};
use crate::error::Result;
use crate::events::Dropped;
use crate::io::Disk;
use crate::memory::{Holder, Reservation};
use crate::table::envelope::TableMeta;
use crate::table::sample::KeySample;
use crate::table::{NewTable, Table, TableBuilder, TableSpec, Walk};
use crate::version::cluster::{ClusterRowBuilder, NewRow, cluster_bits};
use crate::version::edit::{RunRecord, Step};
use crate::version::guide::{Guide, GuideBuilder, GuideSpec, NewGuide};
use crate::version::level::{Run, RunId, Version};
use merge::{Chain, Merge, Part, Source};
use siltstone_design::plan::children;
use siltstone_design::{Design, Task, TriePath};
use std::path::Path;
use std::sync::Arc;

/// What compactions share.
pub(crate) struct Context<'a> {
    pub design: &'a Design,
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
}

/// The runs that `task` reads, fixed when it is planned: later runs may join the pile meanwhile.
pub(crate) fn inputs(version: &Version, task: &Task) -> Vec<Arc<Run>> {
    let (level, path) = task.region();
    let Some(region) = version.levels.get(level).and_then(|l| l.region(path)) else { return Vec::new() };
    let runs = &region.runs;
    let chosen = match *task {
        Task::Push { runs: oldest, .. } | Task::Split { runs: oldest, .. } => {
            runs.get(runs.len().saturating_sub(oldest)..)
        }
        Task::Rewrite { newest, .. } => runs.get(..newest.min(runs.len())),
    };
    chosen.unwrap_or(&[]).to_vec()
}

/// A run within `span` as one source of a merge.
pub(crate) fn source(run: &Arc<Run>, span: &Span, walk: Walk, reader: &Arc<Reader>) -> Result<Source> {
    let parts = run.tables_in(span).map(|table| {
        let (table, span, reader) = (Arc::clone(table), span.clone(), Arc::clone(reader));
        Box::new(move || table.stream(span, walk, &reader)) as Part
    });
    let parts: Vec<Part> = parts.collect();
    Ok(Source { cursor: Box::new(Chain::new(parts)?), tombstones: run.tombstones.clone() })
}

/// What work did: the steps of its edit, and the guides of the piles that its new runs lie on.
#[derive(Default)]
pub(crate) struct Output {
    pub steps: Vec<Step>,
    pub guides: Vec<NewGuide>,
    pub rows: Vec<NewRow>,
    /// Tombstones and expired values that were not kept.
    pub dropped: Dropped,
}

/// A region that output goes to.
struct Target {
    level: usize,
    path: TriePath,
    /// The run there that takes part in the merge, in a leveled region.
    merged_run: Option<RunId>,
    /// Nothing older lies there or below.
    bottom: bool,
    /// Where the new run goes: in the place of this one, or on top.
    replaces: Option<RunId>,
}

/// Runs `task` on `inputs` and returns the steps of its edit.
///
/// On error, files already written are removed.
pub(crate) fn execute(
    context: &Context<'_>,
    version: &Version,
    task: &Task,
    inputs: &[Arc<Run>],
) -> Result<Output> {
    let (level, path) = task.region();
    let span = Span::of_hi(path.first(), path.last());
    let _memory = hold(context, inputs.len() + 1);
    let mut sources = Vec::new();
    for run in inputs {
        sources.push(source(run, &span, Walk::Compaction, context.reader)?);
    }
    let mut tombstones: Vec<_> = inputs.iter().flat_map(|run| run.tombstones.iter().cloned()).collect();
    let mut steps: Vec<Step> =
        inputs.iter().map(|run| Step::RemoveRun { level, path, run: run.id }).collect();
    let targets = match *task {
        Task::Rewrite { .. } => {
            let pile = version.levels.get(level).and_then(|l| l.region(path)).map_or(&[][..], |r| &r.runs);
            let oldest_is_in = pile.last().map(|run| run.id) == inputs.last().map(|run| run.id);
            let bottom = oldest_is_in && !version.has_data_below(level, path);
            let replaces = inputs.first().map(|run| run.id);
            vec![Target { level, path, merged_run: None, bottom, replaces }]
        }
        Task::Push { .. } | Task::Split { .. } => {
            let child_level = level + 1;
            let leveled = context.design.level(child_level).runs == 1;
            let pushes = version.levels.get(level).and_then(|l| l.region(path)).map_or(0, |r| r.pushes);
            steps.push(Step::Pushed { level, path, pushes: pushes + 1 });
            let mut targets = Vec::new();
            let mut below = Vec::new();
            for child in children(context.design, level, path) {
                let pile = version.levels.get(child_level).and_then(|l| l.region(child));
                let resident = pile.and_then(|region| region.runs.first());
                let merged = if leveled { resident } else { None };
                let bottom =
                    (merged.is_some() || resident.is_none()) && !version.has_data_below(child_level, child);
                if let Some(run) = merged {
                    steps.push(Step::RemoveRun { level: child_level, path: child, run: run.id });
                    tombstones.extend(run.tombstones.iter().cloned());
                    below.push(Arc::clone(run));
                }
                let merged_run = merged.map(|run| run.id);
                targets.push(Target {
                    level: child_level,
                    path: child,
                    merged_run,
                    bottom,
                    replaces: merged_run,
                });
            }
            if !below.is_empty() {
                // The children's runs are disjoint: together they are one source, older than the pile.
                sources.push(joined(&below, &span, context.reader)?);
            }
            targets
        }
    };
    let merge = Merge::new(sources)?;
    let amount = Amount {
        entries: inputs.iter().map(|run| run.entries()).sum(),
        bytes: inputs.iter().map(|run| run.bytes()).sum(),
    };
    let mut output = deal(context, version, (merge, amount), &PrefixTombstones::new(tombstones), &targets)?;
    steps.append(&mut output.steps);
    Ok(Output { steps, ..output })
}

/// Notes the memory of a merge of `sources`: each has a chunk of its table and where the entries are in it, and so has what is
/// written, twice, since it is gathered in pages first.
fn hold(context: &Context<'_>, sources: usize) -> Reservation {
    let memory = context.reader.memory();
    let chunk = memory.chunk_bytes() as u64;
    memory.hold(Holder::Compaction, (sources as u64 + 2) * chunk * 3 / 2)
}

/// Disjoint runs as one source.
fn joined(runs: &[Arc<Run>], span: &Span, reader: &Arc<Reader>) -> Result<Source> {
    let parts = runs.iter().map(|run| {
        let (run, span, reader) = (Arc::clone(run), span.clone(), Arc::clone(reader));
        let open = move || Ok(source(&run, &span, Walk::Compaction, &reader)?.cursor);
        Box::new(open) as Part
    });
    // Nothing is older than these, so what they deleted hides nothing here.
    Ok(Source { cursor: Box::new(Chain::new(parts.collect())?), tombstones: PrefixTombstones::default() })
}

/// About how much is dealt out: what comes down to the targets, without the runs that lie there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Amount {
    pub entries: u64,
    pub bytes: u64,
}

/// How far apart pages begin if `bytes` are spread over the digests of `path`.
fn digests_per_page(path: TriePath, bytes: u64) -> u64 {
    let pages = (bytes as f64 / PAGE_BYTES as f64).max(1.0);
    (2f64.powi(64 - i32::from(path.depth())) / pages) as u64
}

/// Writes the entries of a memtable, or of several, as the newest runs of level 0.
pub(crate) fn flush(
    context: &Context<'_>,
    version: &Version,
    sources: Vec<Source>,
    amount: Amount,
) -> Result<Output> {
    let tombstones: Vec<_> = sources.iter().flat_map(|s| s.tombstones.iter().cloned()).collect();
    let _memory = hold(context, sources.len());
    let depth = context.design.depth(0);
    let regions = (0..1u64 << depth).map(|n| {
        let path = TriePath::of(if depth == 0 { 0 } else { n << (64 - depth) }, depth);
        let empty = version.levels.first().and_then(|l| l.region(path)).is_none_or(|r| r.runs.is_empty());
        let bottom = empty && !version.has_data_below(0, path);
        Target { level: 0, path, merged_run: None, bottom, replaces: None }
    });
    let targets: Vec<Target> = regions.collect();
    deal(context, version, (Merge::new(sources)?, amount), &PrefixTombstones::new(tombstones), &targets)
}

/// Removes the files of tables that will not be used, unless told to keep them.
struct Unfinished<'a> {
    context: &'a Context<'a>,
    tables: Vec<u64>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        for &id in &self.tables {
            // What can't be removed now is removed as an orphan at the next open.
            let _ = self.context.disk.remove(&crate::cache::table_path(self.context.dir, id));
        }
    }
}

/// How often work is held back, if it is.
const BYTES_BETWEEN_PACES: u64 = 64 << 10;
/// How often a long merge asks whether to go on.
const ENTRIES_BETWEEN_CHECKS: u32 = 4096;

/// Youngest runs of a pile that its guide may have missed for a new run to catch up on them.
const MOST_MISSED: usize = 8;

/// Begins the guide of the pile that a new run of `target` will lie on: where the level has guides and the one that is
/// there covers the whole pile, or all but the youngest runs, whose tables have kept the fingerprints that it wants.
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

/// Adds the keys of a table that was written to the guide that takes them so.
fn end_table(table: NewTable, guide: &mut Option<GuideBuilder>) -> TableMeta {
    if let Some(guide) = guide {
        guide.add_table(table.fingerprints);
    }
    table.meta
}

/// Deals entries, about as much as given beside them, out to regions in digest order, a new run each.
fn deal(
    context: &Context<'_>,
    version: &Version,
    (mut entries, amount): (Merge, Amount),
    tombstones: &PrefixTombstones,
    targets: &[Target],
) -> Result<Output> {
    let mut unfinished = Unfinished { context, tables: Vec::new() };
    let (mut steps, mut guides, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut since_pace = 0;
    let mut dropped = Dropped::default();
    let share = amount.entries / targets.len().max(1) as u64;
    let mut since_check = 0;
    for target in targets {
        let spec = context.design.level(target.level);
        let max_bytes = spec.table_bytes.saturating_mul(2);
        let own = if target.bottom {
            PrefixTombstones::default()
        } else {
            PrefixTombstones::new(tombstones.within(target.path.first(), target.path.last()))
        };
        let pile =
            version.levels.get(target.level).and_then(|l| l.region(target.path)).map_or(&[][..], |r| &r.runs);
        let merged = pile.iter().filter(|run| Some(run.id) == target.merged_run).map(|run| run.bytes());
        let bytes = amount.bytes / targets.len().max(1) as u64 + merged.sum::<u64>();
        let spread = digests_per_page(target.path, bytes);
        let chunk_bytes = context.reader.memory().chunk_bytes();
        let new_table = |id| TableSpec::new(id, (context.design, target.level), spread, chunk_bytes);
        let mut tables = Vec::new();
        let mut guide = extend_guide(context, version, target);
        let guide_takes_tables = guide.as_ref().is_some_and(GuideBuilder::takes_tables);
        let mut row = begin_row(context, version, target, share);
        let mut builder: Option<TableBuilder> = None;
        loop {
            // Not moved anywhere: an entry is a hundred bytes, written and read again at once.
            let mut head = entries.peek();
            let Some(entry) = &mut head else { break };
            if !target.path.contains(entry.key.digest.hi) {
                break;
            }
            since_check += 1;
            if since_check == ENTRIES_BETWEEN_CHECKS {
                since_check = 0;
                if (context.cancelled)() {
                    return Err(crate::error::Error::new(
                        crate::error::ErrorKind::Io,
                        "background work was given up because the store is closing",
                    ));
                }
            }
            if retain::retain(&mut entry.item, context.now_ms, target.bottom, &mut dropped) {
                let is_full = |b: &TableBuilder| b.bytes() >= max_bytes || !b.takes(entry.key.digest);
                if builder.as_ref().is_some_and(is_full)
                    && let Some(full) = builder.take()
                {
                    let written = full.finish(PrefixTombstones::default())?;
                    tables.push(end_table(written, &mut guide));
                }
                let builder = match &mut builder {
                    Some(builder) => builder,
                    None => {
                        let id = (context.next_id)();
                        unfinished.tables.push(id);
                        builder.insert(TableBuilder::create(context.disk, context.dir, new_table(id))?)
                    }
                };
                builder.add(entry)?;
                since_pace += entry.user_bytes();
                if since_pace >= BYTES_BETWEEN_PACES {
                    (context.pace)(std::mem::take(&mut since_pace));
                }
                if let Some(guide) = &mut guide
                    && !guide_takes_tables
                {
                    guide.add(&entry.key, entry.older_in, share);
                }
                if let Some(row) = &mut row {
                    row.add(&entry.key);
                }
            }
            entries.advance()?;
        }
        if builder.is_none() && tables.is_empty() && !own.is_empty() {
            let id = (context.next_id)();
            unfinished.tables.push(id);
            builder = Some(TableBuilder::create(context.disk, context.dir, new_table(id))?);
        }
        if let Some(last) = builder {
            tables.push(end_table(last.finish(own)?, &mut guide));
        }
        // A child that gets nothing exists all the same: the trie does not depend on what happens to be in it.
        if tables.is_empty() {
            let exists = version.levels.get(target.level).and_then(|l| l.region(target.path)).is_some();
            if !exists {
                steps.push(Step::Pushed { level: target.level, path: target.path, pushes: 0 });
            }
            continue;
        }
        let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
        steps.push(Step::Written { level: target.level, bytes });
        let run = RunRecord { id: (context.next_id)(), tables, kills: Vec::new() };
        if let Some(mut guide) = guide {
            let bytes = run.tables.iter().map(|table| table.user_bytes).sum();
            guide.end_run(run.id, run.tables.iter().map(|table| table.id), bytes);
            let guide = guide.finish(context.reader.memory());
            guides.extend(guide.map(|guide| NewGuide::new(target.level, target.path, guide)));
        }
        let row =
            row.and_then(|row| row.finish((target.level, target.path), run.id, context.reader.memory()));
        rows.extend(row);
        debug_assert!(target.merged_run.is_none() || target.merged_run == target.replaces);
        steps.push(Step::AddRun { level: target.level, path: target.path, run, replaces: target.replaces });
    }
    debug_assert!(entries.peek().is_none(), "every entry belongs to a region");
    (context.pace)(since_pace);
    unfinished.tables.clear();
    Ok(Output { steps, guides, rows, dropped })
}

/// The sample of a run's keys, read from its tables.
fn run_sample(tables: &[Arc<Table>], reader: &Reader) -> Result<KeySample> {
    let samples: Result<Vec<_>> = tables.iter().map(|table| table.sample(reader)).collect();
    Ok(KeySample::union(samples?))
}

/// Estimates which bytes of the pile `older` (newest first) a new run on top of it makes dead.
pub(crate) fn estimate_kills(
    new: &[Arc<Table>],
    older: &[Arc<Run>],
    reader: &Reader,
) -> Result<Vec<(RunId, u64)>> {
    if older.is_empty() {
        return Ok(Vec::new());
    }
    let sample = run_sample(new, reader)?;
    let mut between = Vec::new();
    let mut kills = Vec::new();
    for run in older {
        let theirs = run_sample(&run.tables, reader)?;
        let keys = sample.overlap(&theirs, &between);
        let bytes = keys * run.bytes() as f64 / run.entries().max(1) as f64;
        if bytes >= 1.0 {
            kills.push((run.id, (bytes as u64).min(run.bytes())));
        }
        between.push(theirs);
    }
    Ok(kills)
}
