//! What a RocksDB or LevelDB with given settings writes under a workload, in its own bytes.
//!
//! Source: the models of [`crate::engines`], which count items; here items get the sizes that they have in batches,
//! logs and tables, levels the targets that the settings give them, and memtables as many requests as fit. *Ours*: the
//! share of false overlaps that is left where RocksDB cuts tables at the bounds of the next level's,
//! [`ALIGNED_FALSE_OVERLAP`].

use super::settings::{Priority, Settings, Style};
use super::workload::{ItemBytes, Workload};
use crate::engines::leveldb::{LevelDb, Pick};
use crate::engines::rocksdb_leveled::rocksdb;
use crate::engines::rocksdb_universal::Universal;
use crate::engines::{Cost, Step};
use crate::{ModelError, Primitives};
use serde::Serialize;

/// What is left of false overlaps where tables are cut at the bounds of the next level's tables and the table that
/// meets least of it goes first (RocksDB from 7.8 on). Measured, not derived: the runs in docs/models.md ask for 0.2 to 0.8.
pub const ALIGNED_FALSE_OVERLAP: f64 = 0.5;

/// What is predicted for one set of settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// For `settings`, given what the LOG of a store with settings `logged` counted: what changed changes in proportion.
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

/// Predicts what `settings` write.
///
/// # Errors
/// Settings that describe no working engine, naming them.
pub fn predict(
    settings: &Settings,
    frame: Frame,
    item: ItemBytes,
    keys: &impl Primitives,
) -> Result<Prediction, ModelError> {
    match settings.style {
        Style::Leveled => leveled(settings, frame, item, keys),
        Style::Universal { .. } => universal(settings, frame, item, keys),
    }
}

fn leveled(
    settings: &Settings,
    frame: Frame,
    item: ItemBytes,
    keys: &impl Primitives,
) -> Result<Prediction, ModelError> {
    let last_bytes = keys.total() * item.table;
    let level_bytes = settings.level_targets(last_bytes);
    let engine = engine(settings, frame, &level_bytes, item);
    let cost = engine.write_amplification(keys)?;
    let overlap = false_overlap(settings);
    let steps = cost.steps.iter().enumerate().map(|(number, step)| {
        let saved = spared_overlap(&cost, number, keys) * (1.0 - overlap);
        in_bytes(step, step.write_amplification - saved, item)
    });
    let steps: Vec<Step> = steps.collect();
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

fn false_overlap(settings: &Settings) -> f64 {
    let aligned = settings.aligned_tables && settings.priority != Priority::Largest;
    if aligned { ALIGNED_FALSE_OVERLAP } else { 1.0 }
}

/// What the model counts as false overlap in a step, per byte inserted: `Unique(Interval) / Interval`, for compactions
/// out of level 1 and below.
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
    let cost = engine.write_amplification(keys)?;
    let steps: Vec<Step> =
        cost.steps.iter().map(|step| in_bytes(step, step.write_amplification, item)).collect();
    let last_bytes = keys.total() * item.table;
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
