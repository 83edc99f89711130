//! COLA, the cache-oblivious lookahead array: a level takes `r − 1` merges, then moves on as one table.
//!
//! Source: Lim et al., FAST 2016, Appendix B, Algorithm 2. The write-ahead log is the first interval; the
//! last level holds all keys. A merge that finds `j` earlier ones in the level writes `Unique(interval · (j +
//! 1))`, since merging tables adds their requests.

use super::{Cost, Step, sizes};
use crate::{ModelError, Primitives};

/// Parameters shared by COLA and SAMT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growing {
    /// Size of the write-ahead log, in items.
    pub write_buffer: f64,
    /// Growth factor r; whole, at least 2.
    pub growth: u32,
    /// Number of levels L.
    pub levels: usize,
}

impl Growing {
    /// Checks the parameters and returns the inserts that fill the log.
    pub(crate) fn check(&self, keys: &impl Primitives) -> Result<f64, ModelError> {
        ModelError::positive("write-buffer", self.write_buffer)?;
        if !(2..=1024).contains(&self.growth) {
            let message = format!("{} given; it must lie between 2 and 1024", self.growth);
            return Err(ModelError::new("growth", message));
        }
        if !(1..=sizes::MOST_LEVELS).contains(&self.levels) {
            let message = format!("{} given; there must be 1 to {}", self.levels, sizes::MOST_LEVELS);
            return Err(ModelError::new("levels", message));
        }
        Ok(self.write_buffer / keys.per_request())
    }

    /// The least number of levels whose last but one takes fewer inserts to fill than all keys do:
    /// ⌈log_r(N/log)⌉ + 1.
    pub fn levels_for(keys: f64, write_buffer: f64, growth: u32) -> usize {
        let mut levels = 1;
        let mut inserts = write_buffer;
        while inserts * f64::from(growth) < keys && levels < sizes::MOST_LEVELS {
            inserts *= f64::from(growth);
            levels += 1;
        }
        levels
    }
}

/// Write amplification of COLA. Level sizes are what each level holds when it moves on; the last, all keys.
///
/// ```
/// use siltstone_model::engines::cola::{Growing, write_amplification};
/// use siltstone_model::{Direct, Popularity};
///
/// let keys = Direct::new(&Popularity::zipf(100_000_000, 0.99)?);
/// let cola = Growing { write_buffer: 4194.304, growth: 2, levels: 15 };
/// assert!((write_amplification(&cola, &keys)?.write_amplification - 5.8946).abs() < 1e-3);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn write_amplification(cola: &Growing, keys: &impl Primitives) -> Result<Cost, ModelError> {
    let log = cola.check(keys)?;
    let per_request = keys.per_request();
    let mut steps = vec![Step::new("memtable", "log", 1.0)];
    let (mut level_sizes, mut intervals) = (Vec::new(), Vec::new());
    let mut interval = log;
    for level in 1..cola.levels {
        let next = interval * f64::from(cola.growth);
        let written: f64 = (1..cola.growth).map(|merges| keys.unique(interval * f64::from(merges))).sum();
        steps.push(arriving(level, written / (next * per_request)));
        level_sizes.push(keys.unique(interval * f64::from(cola.growth - 1)));
        intervals.push(interval);
        interval = next;
    }
    steps.push(arriving(cola.levels, keys.total() / (interval * per_request)));
    level_sizes.push(keys.total());
    intervals.push(interval);
    Ok(Cost::new(steps, level_sizes, intervals))
}

/// The step into a level.
pub(super) fn arriving(level: usize, write_amplification: f64) -> Step {
    match level {
        1 => Step::new("memtable", "level-1", write_amplification),
        _ => Step::between_levels(level - 1, write_amplification),
    }
}
