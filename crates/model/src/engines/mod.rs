//! What other log-structured engines write per byte inserted: one file per engine.
//!
//! Source: Lim et al., FAST 2016, §4 (LevelDB), §5 and Appendix C (universal compaction), §7 (RocksDB
//! leveled), and Appendix B (COLA, SAMT). Each model returns a [`Cost`], which names every flow of data and
//! what it adds.

pub mod cola;
mod growth;
pub mod leveldb;
pub mod rocksdb_leveled;
pub mod rocksdb_universal;
pub mod samt;
pub mod sizes;
pub mod table_aware;

use serde::Serialize;

/// One flow of data: what is written to `to` when data arrives from `from`, per byte inserted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// `memtable`, `level-0`, `level-1`, …
    pub from: String,
    /// `log`, `level-0`, `level-1`, …
    pub to: String,
    /// Bytes written per byte inserted.
    pub write_amplification: f64,
}

/// What a layout writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Bytes written per byte inserted, the log included: the sum over the steps.
    pub write_amplification: f64,
    /// The flows it consists of, from the memtable down.
    pub steps: Vec<Step>,
    /// Items each level may hold, from level 1 (levels 1 to L; level 0 is counted in tables).
    pub level_sizes_items: Vec<f64>,
    /// Inserts between two compactions of the same key out of each level, from level 0, as the model has them
    /// (`Interval(l)`); empty where the model has none.
    pub intervals: Vec<f64>,
}

impl Cost {
    /// Sums up the steps.
    pub fn new(steps: Vec<Step>, level_sizes_items: Vec<f64>, intervals: Vec<f64>) -> Self {
        let write_amplification = steps.iter().map(|step| step.write_amplification).sum();
        Self { write_amplification, steps, level_sizes_items, intervals }
    }
}

impl Step {
    /// A step between two named places.
    pub fn new(from: impl Into<String>, to: impl Into<String>, write_amplification: f64) -> Self {
        Self { from: from.into(), to: to.into(), write_amplification }
    }

    /// The step from level `from` to the next.
    pub fn between_levels(from: usize, write_amplification: f64) -> Self {
        Self::new(format!("level-{from}"), format!("level-{}", from + 1), write_amplification)
    }
}
