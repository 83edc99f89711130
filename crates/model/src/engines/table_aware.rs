//! A leveled store whose tables have a size: the third form of the model, for small levels, large buffers and
//! strong skew.
//!
//! [`Form::Paper`](super::leveldb::Form::Paper) and [`Form::V2`](super::leveldb::Form::V2) treat a level as a
//! fluid that is compacted at one moving point. Held against an item-level simulation step by step, that is
//! off where a level is only a few tables, or where what arrives at once is not small beside it. Three facts
//! about tables account for it; none is fitted to anything:
//!
//! 1. **A level stands half a table short.** It is compacted until it is below its size, so it comes to rest
//!    between one table below and its size: `S' = S − T/2` on average. Under skew this matters much more than
//!    it looks, since the requests that fill a level grow faster than the level.
//! 2. **Going round skips.** Whenever what arrives from above rewrites a level's tables, their borders move,
//!    and the first table that begins after the last compacted key lies half a table further on. With `b`
//!    items compacted between two such moves, a share `q = (T/2) / (b + T/2)` of the densest part is left for
//!    the next round. A key then waits for `j + 1` rounds with probability `(1 − q) q^j`, and the level holds
//!    `S' = Σ (1−q) q^j ∫₀¹ Unique((j + x) D) dx`, which reads as the paper's equation for `D` where `q = 0`.
//! 3. **False overlaps need something to overlap.** What arrives at once, `B` items, empties the share `B /
//!    (S' + B)` of the next level by the time the next lot comes; only the rest adds a table's worth per
//!    table moved.
//!
//! ```text
//! I_l    = D / (1 − q) + I_{l−1}                                       as in the paper where q = 0
//! moved  = Σ (1−q) q^j Unique((j + 1) D + I_{l−1})
//! write  = Merge(moved, S'_{l+1}) + moved · S'_{l+1} / (S'_{l+1} + B)   B = moved · I₀ / I_l;  last level: all overlaps
//! ```
//!
//! docs/models.md has the measured errors of all three forms.

use super::leveldb::{LevelDb, Pick};
use super::{Cost, Step};
use crate::{ModelError, Primitives};

/// LevelDB's tables, in bytes.
pub const DEFAULT_TABLE_BYTES: f64 = 2_097_152.0;

/// Rounds that a key may be passed over; what lies beyond is below a millionth.
const MOST_ROUNDS: usize = 64;
const NEGLIGIBLE: f64 = 1e-6;

impl LevelDb {
    /// Write amplification where tables hold `table` items, whatever [`LevelDb::form`] says.
    ///
    /// ```
    /// use siltstone_model::engines::leveldb::LevelDb;
    /// use siltstone_model::{Direct, Popularity};
    ///
    /// // Skew 1.2 with LevelDB's level 1 of five tables: simulation gives 3.5, the fluid models 3.2.
    /// let keys = Direct::new(&Popularity::zipf(1_000_000, 1.2)?);
    /// let leveldb = LevelDb::with_defaults(1e6, 1000.0)?;
    /// let fluid = leveldb.write_amplification(&keys)?.write_amplification;
    /// let tables = leveldb.write_amplification_by_tables(&keys, 2097.152)?.write_amplification;
    /// assert!(fluid < 3.3 && tables > 3.4);
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    ///
    /// # Errors
    /// If a parameter describes no engine; deletions, aligned tables and picking the largest table are not
    /// modelled.
    pub fn write_amplification_by_tables(
        &self,
        keys: &impl Primitives,
        table: f64,
    ) -> Result<Cost, ModelError> {
        self.check()?;
        ModelError::positive("table-bytes", table)?;
        if self.pick != Pick::RoundRobin {
            return Err(ModelError::new("pick", "not modelled by tables; use round-robin, or another form"));
        }
        if self.aligned_tables {
            return Err(ModelError::new("aligned-tables", "not modelled by tables; use another form"));
        }
        if self.deletes.fraction > 0.0 {
            return Err(ModelError::new("delete-fraction", "not modelled by tables; use another form"));
        }
        let flushed = if self.flush_dedup { keys.unique(self.write_buffer) / self.write_buffer } else { 1.0 };
        let mut steps = vec![Step::new("memtable", "log", 1.0), Step::new("memtable", "level-0", flushed)];
        let level0 = self.write_buffer * self.level0_tables;
        let mut intervals = Vec::new();
        let mut source = Source { interval: level0, moved: keys.unique(level0) };
        let held = |size: f64| (size - table / 2.0).max(size / 2.0);
        for (level, &size) in self.level_sizes.iter().enumerate() {
            if let Some(&own) = level.checked_sub(1).and_then(|above| self.level_sizes.get(above)) {
                source = Source::of_level(keys, held(own), table, source.interval);
            }
            let into_last = level + 1 == self.level_sizes.len();
            let merged = if into_last {
                keys.total()
            } else {
                keys.unique(keys.unique_inverse(source.moved) + keys.unique_inverse(held(size)))
            };
            let at_once = source.moved * level0 / source.interval;
            let overlapped = if into_last { 1.0 } else { held(size) / (held(size) + at_once) };
            let false_overlap = if level == 0 { 0.0 } else { source.moved * overlapped };
            steps.push(Step::between_levels(level, (merged + false_overlap) / source.interval));
            intervals.push(source.interval);
        }
        Ok(Cost::new(steps, self.level_sizes.clone(), intervals))
    }
}

/// What leaves a level.
#[derive(Clone, Copy)]
struct Source {
    /// Requests between two compactions of the same key, on average.
    interval: f64,
    /// Items compacted meanwhile.
    moved: f64,
}

impl Source {
    /// For a level that holds `held` items in tables of `table`, rewritten from above every `arrival`
    /// requests.
    fn of_level(keys: &impl Primitives, held: f64, table: f64, arrival: f64) -> Self {
        let mut skipped = 0.0;
        let mut round = keys.dinterval(held);
        let mut source = Self { interval: 0.0, moved: 0.0 };
        // The share that is skipped follows from what is moved, and that from the share; each pass gains a
        // digit.
        for _ in 0..8 {
            let moved =
                rounds(skipped).map(|(weight, j)| weight * keys.unique((j + 1.0) * round + arrival)).sum();
            source = Self { interval: round / (1.0 - skipped) + arrival, moved };
            let between_moves = source.moved * (arrival / source.interval).min(1.0);
            let share = 0.5 * table / (between_moves + 0.5 * table);
            let settled = (share - skipped).abs() < 1e-5;
            if settled {
                break;
            }
            skipped = share;
            round = round_of(keys, held, skipped, round);
        }
        source
    }
}

/// How likely a key waits for `j` rounds beyond the first, with `j`.
fn rounds(skipped: f64) -> impl Iterator<Item = (f64, f64)> {
    let weights = std::iter::successors(Some(1.0 - skipped), move |weight| Some(weight * skipped));
    weights.take_while(|weight| *weight > NEGLIGIBLE).take(MOST_ROUNDS).zip((0u32..).map(f64::from))
}

/// Items that a level holds where a round takes so many requests.
fn held_at(keys: &impl Primitives, round: f64, skipped: f64) -> f64 {
    let mut below = 0.0;
    rounds(skipped).fold(0.0, |held, (weight, j)| {
        let up_to = (j + 1.0) * keys.size_of_interval((j + 1.0) * round);
        let within = up_to - below;
        below = up_to;
        held + weight * within
    })
}

/// The round at which a level holds `held` items: by secants, kept within a bracket.
fn round_of(keys: &impl Primitives, held: f64, skipped: f64, guess: f64) -> f64 {
    // What is skipped only adds to what a level holds, so a round is no longer than without.
    let (mut low, mut high) = (0.0, keys.dinterval(held));
    let mut round = guess.min(high);
    for _ in 0..60 {
        let found = held_at(keys, round, skipped);
        if (found / held - 1.0).abs() < 1e-9 {
            break;
        }
        if found < held {
            low = round;
        } else {
            high = round;
        }
        let scaled = round * held / found;
        round = if scaled > low && scaled < high { scaled } else { 0.5 * (low + high) };
    }
    round
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direct, Popularity};

    #[test]
    fn tiny_tables_are_a_fluid() {
        let keys = Direct::new(&Popularity::zipf(1_000_000, 0.8).unwrap());
        let leveldb = LevelDb::new(100.0, 4.0, vec![10_485.76, 104_857.6, 1e6]);
        let paper = leveldb.write_amplification(&keys).unwrap();
        let tables = leveldb.write_amplification_by_tables(&keys, 1e-3).unwrap();
        // With small buffers nothing arrives at once either, so all three corrections vanish.
        for (a, b) in paper.steps.iter().zip(&tables.steps) {
            let (a, b) = (a.write_amplification, b.write_amplification);
            assert!((a - b).abs() < 0.01 * a, "{a} {b}");
        }
    }

    #[test]
    fn a_round_holds_what_it_was_solved_for() {
        let keys = Direct::new(&Popularity::zipf(1_000_000, 1.2).unwrap());
        for skipped in [0.0, 0.1, 0.5, 0.9] {
            for held in [5_000.0, 90_000.0, 600_000.0] {
                let round = round_of(&keys, held, skipped, 1e9);
                assert!((held_at(&keys, round, skipped) / held - 1.0).abs() < 1e-6, "{skipped} {held}");
            }
        }
    }

    #[test]
    fn what_is_not_modelled_is_refused() {
        let keys = Direct::new(&Popularity::uniform(100_000).unwrap());
        let leveldb = LevelDb::with_defaults(1e5, 1000.0).unwrap();
        let refused = |leveldb: &LevelDb, table| {
            leveldb.write_amplification_by_tables(&keys, table).unwrap_err().parameter()
        };
        assert_eq!(refused(&leveldb, 0.0), "table-bytes");
        assert_eq!(refused(&LevelDb { pick: Pick::Largest, ..leveldb.clone() }, 1.0), "pick");
        assert_eq!(refused(&LevelDb { aligned_tables: true, ..leveldb.clone() }, 1.0), "aligned-tables");
        let deletes = crate::engines::leveldb::Deletes { fraction: 0.1, tombstone_size: 0.0 };
        assert_eq!(refused(&LevelDb { deletes, ..leveldb }, 1.0), "delete-fraction");
    }
}
