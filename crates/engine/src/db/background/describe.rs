//! Background work as events describe it: what jobs are and why they run, what they read, and what became of
//! them.

use super::filter_job::{FilterJob, Wanting};
use super::running::Compaction;
use crate::compaction::Output;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::VersionShape;
use crate::db::catalog::view::SealedBuffer;
use crate::db::reporter::Outcome;
use crate::db::write_buffer::WriteBuffer;
use crate::events::{Dropped, JobInfo, Part, Place, Reason, Work};
use crate::region_filter::{Lack, RegionFilter};
use crate::table::envelope::TableMeta;
use crate::version::Run;
use crate::version::edit::Step;
use siltstone_design::Task;
use siltstone_design::plan::reason;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A part that gathers runs of a level.
fn part(level: usize) -> Part {
    Part { level: Some(level), ..Part::default() }
}

fn add_run<'a>(part: &mut Part, run: u64, tables: impl Iterator<Item = &'a TableMeta>) {
    part.runs.push(run);
    for table in tables {
        part.tables += 1;
        part.entries += table.entries;
        part.bytes += table.bytes;
    }
}

/// Returns what `runs` of a level hold.
fn part_of<'a>(level: usize, runs: impl Iterator<Item = &'a Arc<Run>>) -> Part {
    let mut all = part(level);
    runs.for_each(|run| add_run(&mut all, run.id, run.tables.iter().map(|table| table.meta())));
    all
}

/// Returns what `steps` add to each level, the uppermost first.
fn outputs(steps: &[Step]) -> Vec<Part> {
    let mut levels: BTreeMap<usize, Part> = BTreeMap::new();
    for step in steps {
        if let Step::AddRun { level, run, .. } = step {
            add_run(levels.entry(*level).or_insert_with(|| part(*level)), run.id, run.tables.iter());
        }
    }
    levels.into_values().collect()
}

/// Says what became of a flush or compaction that read `inputs`.
pub(in crate::db) fn outcome(inputs: &[Part], bytes_read: u64, output: &Output) -> Outcome {
    let outputs = outputs(&output.steps);
    let sum = |parts: &[Part], of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
    let entries = |part: &Part| part.entries;
    let bytes = |part: &Part| part.bytes;
    let bytes_written = sum(&outputs, bytes);
    let lost = sum(inputs, entries).saturating_sub(sum(&outputs, entries));
    let dropped = Dropped::new(lost, output.dropped.tombstones, output.dropped.expired);
    let dropped = Dropped { bytes: bytes_read.saturating_sub(bytes_written), ..dropped };
    let filtered_runs = output.filters.len() as u64;
    Outcome { outputs, bytes_read, bytes_written, dropped, filtered_runs, problem: None }
}

/// Returns what a flush of `buffer` reads.
pub(super) fn buffer_part(buffer: &WriteBuffer) -> Part {
    Part { entries: buffer.entries(), bytes: buffer.user_bytes(), ..Part::default() }
}

/// Describes the flush of a sealed write buffer.
pub(super) fn flush(keyspace: &OpenKeyspace, sealed: &SealedBuffer) -> JobInfo {
    let info = JobInfo::new(Work::Flush).of(&keyspace.name).because(sealed.reason);
    info.reading(vec![buffer_part(&sealed.buffer)])
}

/// Returns what a compaction reads: runs of its region, and those of the children that take part.
pub(super) fn compaction_inputs(compaction: &Compaction) -> Vec<Part> {
    let Compaction { task, inputs, .. } = compaction;
    let (level, _) = task.region();
    let mut parts = vec![part_of(level, inputs.own.iter())];
    for below in &inputs.below {
        let of_level = parts.iter_mut().skip(1).find(|part| part.level == Some(below.level));
        match of_level {
            Some(part) => {
                let add = |run: &Arc<Run>| add_run(part, run.id, run.tables.iter().map(|t| t.meta()));
                below.runs.iter().for_each(add);
            }
            None => parts.push(part_of(below.level, below.runs.iter())),
        }
    }
    parts.retain(|part| !part.runs.is_empty());
    parts
}

/// Describes a compaction, with the planner's reason.
pub(super) fn compaction(compaction: &Compaction, inputs: &[Part]) -> JobInfo {
    let Compaction { keyspace, version, task, now_ms, is_by_hand, .. } = compaction;
    let (level, path) = task.region();
    let why = if *is_by_hand {
        Some(Reason::Requested)
    } else {
        let known = compaction.reason;
        // Memory may have become short, or not be any more, since it was planned.
        let shape = VersionShape { is_memory_short: true, ..VersionShape::at(version, *now_ms) };
        let why = known.or_else(|| reason(&version.design, &shape, task));
        debug_assert!(why.is_some(), "the planner has a reason for what it chose: {task:?}");
        why.map(Reason::Planned)
    };
    let work = match task {
        Task::Push { .. } => Work::Push,
        Task::Split { .. } => Work::Split,
        Task::Rewrite { .. } => Work::Rewrite,
        Task::Gather { .. } => Work::Gather,
        Task::Drop { .. } => Work::DropRuns,
    };
    let info = JobInfo::new(work).of(&keyspace.name).at(Place::new(level, path));
    info.because(why).reading(inputs.to_vec())
}

/// Describes the sorting of a part of a bulk build's items.
pub(in crate::db) fn sort(keyspace: &OpenKeyspace, items: Part) -> JobInfo {
    JobInfo::new(Work::SortItems).of(&keyspace.name).because(Reason::Requested).reading(vec![items])
}

/// Says what became of it: a temporary table.
pub(in crate::db) fn sorted(entries: u64, bytes: u64) -> Outcome {
    let output = Part { entries, bytes, tables: 1, ..Part::default() };
    Outcome { outputs: vec![output], bytes_written: bytes, ..Outcome::default() }
}

/// Describes a bulk build whose items were all given.
pub(in crate::db) fn ingest(keyspace: &OpenKeyspace, items: Part) -> JobInfo {
    JobInfo::new(Work::Ingest).of(&keyspace.name).because(Reason::Requested).reading(vec![items])
}

/// Describes work on the filter of a region.
pub(super) fn filter(job: &FilterJob) -> JobInfo {
    let FilterJob { keyspace, wanting, .. } = job;
    let Wanting { level, region, lack, .. } = wanting;
    let (runs, present) = (wanting.runs_to_read(), region.filter.as_ref());
    let missing = Reason::FilterMissing { runs: runs.len() as u64 };
    let (work, why) = match lack {
        Lack::File => {
            let bytes = present.map_or(0, |filter| filter.memory_bytes());
            (Work::WriteFilterFile, Reason::FileDue { bytes })
        }
        Lack::Exactness => (Work::BuildFilter, Reason::MemoryFree),
        Lack::Join => (Work::JoinFilter, Reason::Calm),
        Lack::Memory(_) => (Work::ShortenFilter, Reason::MemoryShort),
        Lack::Run(_) if present.is_some() => (Work::ExtendFilter, missing),
        Lack::Run(_) => (Work::BuildFilter, missing),
    };
    let info = JobInfo::new(work).of(&keyspace.name).at(Place::new(*level, region.path)).because(why);
    info.reading(if runs.is_empty() { Vec::new() } else { vec![part_of(*level, runs.iter())] })
}

/// Says what became of work on the filter of a region.
pub(super) fn filter_outcome(job: &FilterJob, made: Option<&RegionFilter>) -> Outcome {
    let Some(filter) = made else {
        let problem = "the filter could not be made now; lookups ask the runs themselves".to_owned();
        return Outcome { problem: Some(problem), ..Outcome::default() };
    };
    let bytes_read = job.wanting.runs_to_read().iter().map(|run| run.bytes()).sum();
    let written = filter.pages().filter(|_| matches!(job.wanting.lack, Lack::File));
    let Some(bytes_written) = written.map(|pages| pages.file_bytes()) else {
        return Outcome { bytes_read, ..Outcome::default() };
    };
    let output = Part { bytes: bytes_written, ..Part::default() };
    Outcome { outputs: vec![output], bytes_read, bytes_written, ..Outcome::default() }
}

/// Describes the check of a sidecar.
pub(super) fn check(bytes: u64) -> JobInfo {
    let input = Part { bytes, ..Part::default() };
    JobInfo::new(Work::CheckSidecar).because(Reason::Unchecked).reading(vec![input])
}
