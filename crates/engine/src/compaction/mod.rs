//! Runs a planned task: stream, merge, retain, build, sync; the result is an edit.
//!
//! Flush, push, split and rewrite are one operation: entries in the store's order are partitioned
//! by regions, a new run each.

pub(crate) mod build;
mod inputs;
mod layout;
pub(crate) mod merge;
mod partition;
pub(crate) mod retain;
mod run_filter;
mod tournament;
mod work;

pub(crate) use inputs::Inputs;
pub(crate) use layout::{Layout, Placed, Sizes};
pub(crate) use work::{Amount, Context, Made, Output};

use crate::cache::Reader;
use crate::entry::{PrefixTombstones, Span};
use crate::error::Result;
use crate::ids::RunId;
use crate::memory::{Holder, Reservation};
use crate::table::sample::KeySample;
use crate::table::{ReadMode, Reading, Table};
use crate::version::edit::{OLDEST, Step};
use crate::version::{Run, Version};
use merge::{Chain, Merge, Part, Source};
use partition::Partition;
use siltstone_design::plan::descendants;
use siltstone_design::redesign::level_below;
use siltstone_design::{Design, Task, TriePath};
use std::sync::Arc;
use work::Target;

/// A run within `span` as one source of a merge.
pub(crate) fn source(
    run: &Arc<Run>,
    span: &Span,
    reading: impl Into<Reading>,
    reader: &Arc<Reader>,
) -> Result<Source> {
    let reading = reading.into();
    let parts = run.tables_in(span).enumerate().map(|(at, table)| {
        let (table, span, reader) = (Arc::clone(table), span.clone(), Arc::clone(reader));
        let mut reading = reading.clone();
        if let (1.., ReadMode::Long { begins }) = (at, &mut reading.mode) {
            *begins = false;
        }
        Box::new(move || table.stream(span, reading, &reader)) as Part
    });
    let parts: Vec<Part> = parts.collect();
    Ok(Source { cursor: Box::new(Chain::new(parts)?), tombstones: run.tombstones.clone() })
}

/// Disjoint runs of one level, in digest order, as one source.
fn of_age(runs: &[Arc<Run>], span: &Span, reader: &Arc<Reader>) -> Result<Source> {
    let parts = runs.iter().map(|run| {
        let (run, span, reader) = (Arc::clone(run), span.clone(), Arc::clone(reader));
        let open = move || Ok(source(&run, &span, ReadMode::Compaction, &reader)?.cursor);
        Box::new(open) as Part
    });
    let deleted = runs.iter().flat_map(|run| run.tombstones.iter().cloned());
    let tombstones = PrefixTombstones::new(deleted.collect());
    Ok(Source { cursor: Box::new(Chain::new(parts.collect())?), tombstones })
}

/// Runs `task` on `inputs` and returns the steps of its edit.
///
/// On error, files already written are removed.
pub(crate) fn execute(
    context: &Context<'_>,
    version: &Version,
    task: &Task,
    inputs: &Inputs,
) -> Result<Output> {
    let (level, path) = task.region();
    if let Task::Drop { .. } = task {
        return Ok(dropped(level, path, &inputs.own));
    }
    let span = Span::of_hi(path.first(), path.last());
    let _memory = hold(context, inputs.own.len() + inputs.below.len() + 1);
    let mut sources = Vec::new();
    for run in &inputs.own {
        sources.push(source(run, &span, ReadMode::Compaction, context.reader)?);
    }
    for runs in &inputs.below {
        sources.push(of_age(&runs.runs, &span, context.reader)?);
    }
    let mut steps: Vec<Step> = inputs.removals().collect();
    let targets = match *task {
        Task::Rewrite { .. } => {
            let oldest_is_in =
                version.runs(path).last().map(|run| run.id) == inputs.own.last().map(|run| run.id);
            let bottom = oldest_is_in && !version.has_data_below(path);
            let replaces = inputs.own.first().map(|run| run.id);
            vec![Target { level, path, merged_bytes: 0, bottom, replaces }]
        }
        Task::Gather { .. } => {
            // It takes in all that is as old as the oldest of its own runs, or older.
            steps.push(Step::Gathered { level, path });
            vec![Target { level, path, merged_bytes: 0, bottom: true, replaces: Some(OLDEST) }]
        }
        Task::Push { .. } | Task::Split { .. } | Task::Drop { .. } => {
            if context.design.level_at(path.depth()).is_some() {
                let pushes = version.region(path).map_or(0, |region| region.pushes);
                steps.push(Step::Pushed { level, path, pushes: pushes + 1 });
            }
            let below = level_below(context.design, path);
            descendants(path, context.design.depth(below))
                .map(|child| target(context.design, version, (below, child)))
                .collect()
        }
    };
    let merge = Merge::new(sources, context.folder.cloned())?;
    let tombstones = inputs.tombstones();
    let partition = Partition::new(context, version, &tombstones, inputs.amount().per_target(targets.len()));
    let mut output = partition.run(merge, &targets)?;
    steps.append(&mut output.steps);
    Ok(Output { steps, ..output })
}

/// The child at `path` as the target of a push. Where the design's level `level` holds one run, what is there
/// takes part.
fn target(design: &Design, version: &Version, (level, path): (usize, TriePath)) -> Target {
    let residents = version.runs(path);
    let is_merged = design.level(level).runs == 1;
    let bottom = (is_merged || residents.is_empty()) && !version.has_data_below(path);
    let merged = residents.iter().filter(|_| is_merged);
    Target {
        level,
        path,
        merged_bytes: merged.clone().map(|run| run.bytes()).sum(),
        bottom,
        replaces: merged.map(|run| run.id).next(),
    }
}

/// Lets go of runs in which nothing lives, and below which nothing lies: unread.
fn dropped(level: usize, path: TriePath, runs: &[Arc<Run>]) -> Output {
    let steps = runs.iter().map(|run| Step::RemoveRun { level, path, run: run.id }).collect();
    let mut output = Output { steps, ..Output::default() };
    for meta in runs.iter().flat_map(|run| &run.tables).map(|table| table.meta()) {
        output.dropped.tombstones += meta.deleted;
        output.dropped.expired += meta.entries.saturating_sub(meta.deleted);
    }
    output
}

/// Notes the memory of a merge of `sources`: each has a chunk of its table and where the entries are in it,
/// and so has what is written, twice, since it is gathered in pages first.
fn hold(context: &Context<'_>, sources: usize) -> Reservation {
    let memory = context.reader.memory();
    let chunk = memory.chunk_bytes() as u64;
    memory.hold(Holder::Compaction, (sources as u64 + 2) * chunk * 3 / 2)
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
    let regions = descendants(TriePath::ROOT, version.flush_depth());
    let targets: Vec<Target> = regions
        .map(|path| {
            let is_empty = version.runs(path).is_empty();
            let bottom = is_empty && !context.awaits_older && !version.has_data_below(path);
            Target { level: 0, path, merged_bytes: 0, bottom, replaces: None }
        })
        .collect();
    let tombstones = PrefixTombstones::new(tombstones);
    let partition = Partition::new(context, version, &tombstones, amount.per_target(targets.len()));
    partition.run(Merge::new(sources, context.folder.cloned())?, &targets)
}

/// The sample of a run's keys, read from its tables.
fn run_sample(tables: &[Arc<Table>], reader: &Reader) -> Result<KeySample> {
    let samples: Result<Vec<_>> = tables.iter().map(|table| table.sample(reader)).collect();
    Ok(KeySample::union(samples?))
}

/// Estimates which bytes of the region `older` (newest first) a new run on top of it makes dead.
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
