//! What a RocksDB or LevelDB with given settings writes under a workload, in its own bytes.
//!
//! Source: the models of [`crate::engines`], which count items; here items get the sizes that they have in
//! batches, logs and tables, levels the targets that the settings give them, and memtables as many requests
//! as fit. *Ours*: the share of false overlaps that is left where RocksDB cuts tables at the bounds of the
//! next level's, `false_overlap`.

use super::course::Course;
use super::settings::{Priority, Settings, Style};
use super::workload::{ItemBytes, Workload};
use crate::engines::leveldb::{LevelDb, Pick};
use crate::engines::rocksdb_leveled::rocksdb;
use crate::engines::rocksdb_universal::{Tables, Universal, Written};
use crate::engines::{Cost, Step};
use crate::{ModelError, Primitives};
use serde::Serialize;

/// What is left of false overlaps where tables are cut at the bounds of the next level's tables (RocksDB from
/// 7.8 on). Measured, not derived.
const ALIGNED_FALSE_OVERLAP: f64 = 0.5;

/// The same where the table that meets least of the next level goes first as well: next to nothing if the
/// next level is four times as large, since some table then overlaps hardly more than it has to, and all of
/// it at fourteen times. A line through what the runs in docs/models.md ask for (0 to 0.2 at 4 to 5.4 times,
/// 0.5 to 0.8 at ten times).
fn left_of_false_overlap(ratio: f64) -> f64 {
    ((ratio - 4.0) / 10.0).clamp(0.0, 1.0)
}

/// What is predicted for one set of settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// Bytes written to log and tables per byte of the user's batches.
    pub write_amplification: f64,
    /// What it consists of.
    pub steps: Vec<Step>,
    /// Bytes of the levels, from level 1 (in use) to the last; for universal compaction just all data.
    pub level_bytes: Vec<f64>,
    /// Sorted runs that a lookup of a missing key passes, averaged over time, without filters.
    pub sorted_runs: f64,
    /// Bytes of all tables over those of the last level.
    pub space_amplification: f64,
    /// Memory of all memtables, at most.
    pub memtable_bytes: f64,
    /// Bytes that the largest compaction out of level 0 writes.
    pub level0_compaction_bytes: f64,
}

/// Which figures of the LOG the settings in question still share.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Requests per flush.
    pub requests_per_flush: f64,
    /// Level-0 tables per compaction.
    pub level0_tables: f64,
}

impl Frame {
    /// For `settings`, given what the LOG of a store with settings `logged` counted: what changed changes in
    /// proportion.
    pub fn new(settings: &Settings, logged: &Settings, workload: &Workload, keys: &impl Primitives) -> Self {
        let scale = match workload.requests_per_flush {
            Some(counted) => counted / workload.requests_per_flush(logged),
            None => 1.0,
        };
        let requests = |settings: &Settings| scale * workload.requests_per_flush(settings);
        let tables = |settings: &Settings| {
            settings.level0_tables_of(keys.unique(requests(settings)) * workload.item.table)
        };
        let level0_tables = match workload.level0_tables {
            Some(counted) => (counted * tables(settings) / tables(logged)).max(1.0),
            None => tables(settings),
        };
        Self { requests_per_flush: requests(settings), level0_tables }
    }
}

/// Predicts what `settings` write in a course of requests.
///
/// # Errors
/// Settings that describe no working engine, naming them.
pub fn predict(
    settings: &Settings,
    frame: Frame,
    item: ItemBytes,
    course: Course,
    keys: &impl Primitives,
) -> Result<Prediction, ModelError> {
    match settings.style {
        Style::Leveled => leveled(settings, frame, item, course, keys),
        Style::Universal { .. } => universal(settings, frame, item, course, keys),
    }
}

fn leveled(
    settings: &Settings,
    frame: Frame,
    item: ItemBytes,
    course: Course,
    keys: &impl Primitives,
) -> Result<Prediction, ModelError> {
    let last_bytes = course.live(keys) * item.table;
    let level_bytes = settings.level_targets(last_bytes);
    let engine = engine(settings, frame, &level_bytes, item);
    engine.check()?;
    let steps = match course {
        Course::Updates => steps_of_updates(&engine, settings, item, keys)?,
        Course::Load { requests } => steps_of_load(settings, frame, item, requests, keys),
    };
    let flushed = keys.unique(frame.requests_per_flush) * item.table;
    let level0_bytes = flushed * frame.level0_tables;
    let above: f64 = level_bytes.iter().rev().skip(1).sum();
    Ok(Prediction {
        write_amplification: steps.iter().map(|step| step.write_amplification).sum(),
        steps,
        // Level 0 fills up and is emptied: half of it on average.
        sorted_runs: frame.level0_tables / 2.0 + level_bytes.len() as f64,
        space_amplification: 1.0 + (above + level0_bytes / 2.0) / last_bytes,
        memtable_bytes: settings.write_buffer_bytes * settings.write_buffers,
        level0_compaction_bytes: level0_bytes + level_bytes.first().copied().unwrap_or(last_bytes),
        level_bytes,
    })
}

fn steps_of_updates(
    engine: &LevelDb,
    settings: &Settings,
    item: ItemBytes,
    keys: &impl Primitives,
) -> Result<Vec<Step>, ModelError> {
    let cost = engine.write_amplification(keys)?;
    let steps = cost.steps.iter().enumerate().map(|(number, step)| {
        // Steps are: log, flush, out of level 0, out of level 1, …
        let left =
            number.checked_sub(2).map_or(1.0, |level| false_overlap(settings, &engine.level_sizes, level));
        let saved = spared_overlap(&cost, number, keys) * (1.0 - left);
        in_bytes(step, step.write_amplification - saved, item)
    });
    Ok(steps.collect())
}

/// Moments of a load at which the flows are computed.
const MOMENTS: u32 = 60;

/// The mean over the load of what is written with the levels that the store has by then: with level sizes
/// that follow the last level's, those change all the time.
fn steps_of_load(
    settings: &Settings,
    frame: Frame,
    item: ItemBytes,
    requests: f64,
    keys: &impl Primitives,
) -> Vec<Step> {
    let moves = settings.priority == Priority::LeastOverlap;
    let mut sums: Vec<f64> = Vec::new();
    for moment in 0..MOMENTS {
        let now = requests * (f64::from(moment) + 0.5) / f64::from(MOMENTS);
        let targets = settings.level_targets(keys.unique(now) * item.table);
        let mut engine = engine(settings, frame, &targets, item);
        sums.resize(sums.len().max(targets.len()), 0.0);
        for aligned_tables in [false, true] {
            engine.aligned_tables = aligned_tables;
            let mut flows = vec![0.0; targets.len()];
            engine.flows_at(keys, now, moves, &mut flows);
            for (level, (sum, flow)) in sums.iter_mut().zip(flows).enumerate() {
                let left = false_overlap(settings, &engine.level_sizes, level);
                *sum += flow * if aligned_tables { 1.0 - left } else { left } / f64::from(MOMENTS);
            }
        }
    }
    let flushed = match settings.flush_dedup {
        true => keys.unique(frame.requests_per_flush) / (frame.requests_per_flush * keys.per_request()),
        false => 1.0,
    };
    let memtable = [("log", 1.0), ("level-0", flushed)];
    let memtable =
        memtable.map(|(to, amplification)| (Step::new("memtable", to, amplification), amplification));
    let levels = sums.iter().enumerate().map(|(level, &sum)| (Step::between_levels(level, sum), sum));
    memtable.into_iter().chain(levels).map(|(step, sum)| in_bytes(&step, sum, item)).collect()
}

fn engine(settings: &Settings, frame: Frame, level_bytes: &[f64], item: ItemBytes) -> LevelDb {
    let sizes = level_bytes.iter().map(|bytes| bytes / item.table).collect();
    let pick = match settings.priority {
        Priority::Largest => Pick::Largest,
        Priority::LeastOverlap | Priority::RoundRobin | Priority::Oldest => Pick::RoundRobin,
    };
    let mut engine = rocksdb(frame.requests_per_flush, sizes, pick);
    engine.level0_tables = frame.level0_tables;
    engine.flush_dedup = settings.flush_dedup;
    engine
}

/// The share of the model's false overlap that is left in the step out of `level`, counted from 0.
fn false_overlap(settings: &Settings, level_sizes: &[f64], level: usize) -> f64 {
    if !settings.aligned_tables {
        return 1.0;
    }
    match settings.priority {
        Priority::Largest => 1.0,
        Priority::RoundRobin | Priority::Oldest => ALIGNED_FALSE_OVERLAP,
        Priority::LeastOverlap => {
            let size = level.checked_sub(1).and_then(|above| level_sizes.get(above));
            match (size, level_sizes.get(level)) {
                (Some(size), Some(next)) => left_of_false_overlap(next / size),
                _ => 1.0,
            }
        }
    }
}

/// What the model counts as false overlap in a step, per byte inserted: `Unique(Interval) / Interval`, for
/// compactions out of level 1 and below.
fn spared_overlap(cost: &Cost, step: usize, keys: &impl Primitives) -> f64 {
    // Steps are: log, flush, out of level 0, out of level 1, …
    let Some(level) = step.checked_sub(2).filter(|level| *level > 0) else { return 0.0 };
    match cost.intervals.get(level) {
        Some(&interval) if interval.is_finite() => keys.unique(interval) / (interval * keys.per_request()),
        _ => 0.0,
    }
}

/// A step of the model, which counts items, in bytes of the user's batches.
fn in_bytes(step: &Step, items: f64, item: ItemBytes) -> Step {
    let size = if step.to == "log" { item.log } else { item.table };
    Step::new(step.from.clone(), step.to.clone(), items * size / item.batch)
}

fn universal(
    settings: &Settings,
    frame: Frame,
    item: ItemBytes,
    course: Course,
    keys: &impl Primitives,
) -> Result<Prediction, ModelError> {
    let Style::Universal { size_ratio_percent, max_size_amplification_percent } = settings.style else {
        return Err(ModelError::new("compaction_style", "not universal"));
    };
    let trigger = settings.level0_tables.clamp(2.0, 10_000.0) as usize;
    let engine = Universal {
        level0_file_num_compaction_trigger: trigger,
        // A store that keeps up never waits; the model needs some limit above the trigger.
        level0_stop_writes_trigger: trigger + 2,
        max_size_amplification_percent,
        size_ratio: size_ratio_percent,
        ..Universal::new(frame.requests_per_flush)
    };
    let cost = match course {
        Course::Updates => engine.write_amplification(keys)?,
        Course::Load { requests } => {
            let mut tables = Tables::new(engine)?;
            tables.insert(keys, requests);
            tables.cost_since(&Written::default())
        }
    };
    let steps: Vec<Step> =
        cost.steps.iter().map(|step| in_bytes(step, step.write_amplification, item)).collect();
    let last_bytes = course.live(keys) * item.table;
    Ok(Prediction {
        write_amplification: steps.iter().map(|step| step.write_amplification).sum(),
        steps,
        level_bytes: vec![last_bytes],
        sorted_runs: settings.level0_tables,
        space_amplification: 1.0 + max_size_amplification_percent / 100.0,
        memtable_bytes: settings.write_buffer_bytes * settings.write_buffers,
        level0_compaction_bytes: last_bytes,
    })
}
