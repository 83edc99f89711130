//! What a leveled store writes while it grows from nothing, under the same requests that would later keep it
//! steady.
//!
//! Not in the paper, whose models describe a store that holds all its keys already. *Ours*, from the same
//! ideas: after `t` requests the store holds the keys of those. Its levels are full from the top down to the
//! first that has not been reached by enough keys yet; that one, the deepest, holds the keys of all older
//! requests and passes nothing on:
//!
//! ```text
//! older than level l    t − I₀/2 − Σ DInterval(S_i)/2 over the levels above
//! the deepest holds     Unique(that), if that is less than its limit
//! ```
//!
//! Each step then costs what it costs in the steady model with the sizes that the levels have at the time,
//! and the cost is averaged over the requests. A load that inserts every key once is the limit of a uniform
//! distribution over many more keys than requests. Loading in key order is cheaper still: tables then overlap
//! nothing and are moved without being rewritten, which costs 2 in all.

use super::leveldb::{Compaction, LevelDb};
use super::{Cost, Step};
use crate::{ModelError, Primitives};

/// Points of the average over the requests.
const POINTS: usize = 400;

impl LevelDb {
    /// Write amplification of the first `requests` to an empty store.
    ///
    /// ```
    /// use siltstone_model::engines::leveldb::LevelDb;
    /// use siltstone_model::{Direct, Popularity};
    ///
    /// let leveldb = LevelDb::with_defaults(1e7, 1000.0)?;
    /// let keys = Direct::new(&Popularity::uniform(10_000_000)?);
    /// let growing = leveldb.write_amplification_growing(&keys, 1e7)?;
    /// let steady = leveldb.write_amplification(&keys)?;
    /// assert!(growing.write_amplification < steady.write_amplification);
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    pub fn write_amplification_growing(
        &self,
        keys: &impl Primitives,
        requests: f64,
    ) -> Result<Cost, ModelError> {
        self.check()?;
        ModelError::positive("requests", requests)?;
        if self.deletes.fraction > 0.0 {
            return Err(ModelError::new(
                "delete-fraction",
                "not modelled while a store grows; ask for a steady one",
            ));
        }
        let mut sums = vec![0.0; self.level_sizes.len()];
        for point in 0..POINTS {
            let now = requests * (point as f64 + 0.5) / POINTS as f64;
            self.flows_at(keys, now, false, &mut sums);
        }
        let buffer = self.write_buffer / keys.per_request();
        let flushed = if self.flush_dedup { keys.unique(buffer) / self.write_buffer } else { 1.0 };
        let mut steps = vec![Step::new("memtable", "log", 1.0), Step::new("memtable", "level-0", flushed)];
        steps.extend(
            sums.iter().enumerate().map(|(level, sum)| Step::between_levels(level, sum / POINTS as f64)),
        );
        Ok(Cost::new(steps, self.level_sizes.clone(), Vec::new()))
    }

    /// Adds each step's cost per byte inserted after `now` requests.
    ///
    /// With `moves`, tables that overlap nothing of the next level are chosen first and go there unwritten:
    /// then the deepest level costs nothing until it is as large as the one above.
    pub(crate) fn flows_at(&self, keys: &impl Primitives, now: f64, moves: bool, sums: &mut [f64]) {
        let level0 = self.level0_interval(keys);
        let (mut above, mut own, mut size_above) = (0.0, None, 0.0);
        let mut older = now - level0 / 2.0;
        for ((level, &limit), sum) in self.level_sizes.iter().enumerate().zip(sums) {
            if older <= 0.0 {
                return;
            }
            let reached = keys.unique(older);
            let deepest = reached < limit;
            if deepest && moves && reached < size_above {
                return;
            }
            let interval = own.map_or(level0, |own| self.step_interval(above, own, level0, deepest));
            let next_size = reached.min(limit);
            let step = Compaction { interval, next_size, into_last: false, from_level0: level == 0 };
            *sum += self.written(keys, step) / (interval * keys.per_request());
            if deepest {
                return;
            }
            let interval_of_key = self.key_interval(keys, limit);
            older -= interval_of_key / 2.0;
            (above, own, size_above) = (interval, Some(interval_of_key), limit);
        }
    }
}
