//! Runs a planned task: stream, merge, retain, build, sync; the result is an edit.
//!
//! Flush, push, split and rewrite are one operation: entries in the store's order are partitioned
//! by regions, a new run each.

pub(crate) mod build;
mod layout;
pub(crate) mod merge;
mod partition;
pub(crate) mod retain;
mod run_filter;
mod tournament;
mod work;

pub(crate) use layout::{Layout, Placed, Sizes};
pub(crate) use work::{Amount, Context, Output};

use crate::cache::Reader;
use crate::entry::{PrefixTombstones, Span};
use crate::error::Result;
use crate::ids::RunId;
use crate::memory::{Holder, Reservation};
use crate::table::sample::KeySample;
use crate::table::{ReadMode, Table};
use crate::version::edit::Step;
use crate::version::{Run, Version};
use merge::{Chain, Merge, Part, Source};
use partition::Partition;
use siltstone_design::plan::children;
use siltstone_design::{Task, TriePath};
use std::sync::Arc;
use work::Target;

/// The runs that `task` reads, fixed when it is planned: later runs may join the region's runs meanwhile.
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
pub(crate) fn source(run: &Arc<Run>, span: &Span, mode: ReadMode, reader: &Arc<Reader>) -> Result<Source> {
    let parts = run.tables_in(span).map(|table| {
        let (table, span, reader) = (Arc::clone(table), span.clone(), Arc::clone(reader));
        let mode = mode.clone();
        Box::new(move || table.stream(span, mode, &reader)) as Part
    });
    let parts: Vec<Part> = parts.collect();
    Ok(Source { cursor: Box::new(Chain::new(parts)?), tombstones: run.tombstones.clone() })
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
        sources.push(source(run, &span, ReadMode::Compaction, context.reader)?);
    }
    let mut tombstones: Vec<_> = inputs.iter().flat_map(|run| run.tombstones.iter().cloned()).collect();
    let mut steps: Vec<Step> =
        inputs.iter().map(|run| Step::RemoveRun { level, path, run: run.id }).collect();
    let targets = match *task {
        Task::Rewrite { .. } => {
            let runs = version.levels.get(level).and_then(|l| l.region(path)).map_or(&[][..], |r| &r.runs);
            let oldest_is_in = runs.last().map(|run| run.id) == inputs.last().map(|run| run.id);
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
                let region = version.levels.get(child_level).and_then(|l| l.region(child));
                let resident = region.and_then(|region| region.runs.first());
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
                // The children's runs are disjoint: together they are one source, older than the region.
                sources.push(joined(&below, &span, context.reader)?);
            }
            targets
        }
    };
    let merge = Merge::new(sources, context.folder.cloned())?;
    let amount = Amount {
        entries: inputs.iter().map(|run| run.entries()).sum(),
        bytes: inputs.iter().map(|run| run.bytes()).sum(),
    };
    let tombstones = PrefixTombstones::new(tombstones);
    let partition = Partition::new(context, version, &tombstones, amount.per_target(targets.len()));
    let mut output = partition.run(merge, &targets)?;
    steps.append(&mut output.steps);
    Ok(Output { steps, ..output })
}

/// Notes the memory of a merge of `sources`: each has a chunk of its table and where the entries are in it,
/// and so has what is written, twice, since it is gathered in pages first.
fn hold(context: &Context<'_>, sources: usize) -> Reservation {
    let memory = context.reader.memory();
    let chunk = memory.chunk_bytes() as u64;
    memory.hold(Holder::Compaction, (sources as u64 + 2) * chunk * 3 / 2)
}

/// Disjoint runs as one source.
fn joined(runs: &[Arc<Run>], span: &Span, reader: &Arc<Reader>) -> Result<Source> {
    let parts = runs.iter().map(|run| {
        let (run, span, reader) = (Arc::clone(run), span.clone(), Arc::clone(reader));
        let open = move || Ok(source(&run, &span, ReadMode::Compaction, &reader)?.cursor);
        Box::new(open) as Part
    });
    // Nothing is older than these, so what they deleted hides nothing here.
    Ok(Source { cursor: Box::new(Chain::new(parts.collect())?), tombstones: PrefixTombstones::default() })
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
        let bottom = empty && !context.awaits_older && !version.has_data_below(0, path);
        Target { level: 0, path, merged_run: None, bottom, replaces: None }
    });
    let targets: Vec<Target> = regions.collect();
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
