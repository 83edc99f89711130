//! The parameters at which a leveled engine writes least: level sizes, level count, growth factor, write
//! buffer.
//!
//! Source: Lim et al., FAST 2016, §6. The paper hands its model to a general nonlinear solver, over `Size`
//! (primal) and over `Unique⁻¹(Size)` (dual), and takes the better result. *Ours*: the model's steps are
//! linked by one number only, the interval of the step above, so `optimize/grid.rs` finds the best of all
//! size sequences on a logarithmic grid by dynamic programming, for every level count at once;
//! `optimize/polish.rs` then improves it with Newton's method in both coordinates. The result does not depend
//! on a starting point, and takes milliseconds.
//!
//! Sizes stay at or below [`LARGEST_SHARE`] of all keys. In the model an inner level of almost all keys costs
//! nothing, since it is compacted almost never: where the search puts a level there, the level is not needed.

mod grid;
mod polish;

use crate::engines::leveldb::LevelDb;
use crate::engines::sizes;
use crate::{Direct, ModelError, Primitives, Tabulated};
use grid::Grid;
use serde::Serialize;

/// No inner level is made larger than this share of all keys.
pub const LARGEST_SHARE: f64 = 1.0 - 1e-5;

/// Two level counts whose costs differ by less count as equal, and the smaller wins.
const INDIFFERENCE: f64 = 1e-4;

/// The parameters found, and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Optimum {
    /// Write amplification at these parameters.
    pub write_amplification: f64,
    /// Levels 1 to L.
    pub level_sizes_items: Vec<f64>,
    /// The growth factor, where that is what was sought.
    pub growth: Option<f64>,
    /// The write buffer in items.
    pub write_buffer_items: f64,
    /// How often the whole model was evaluated.
    pub evaluations: u64,
    /// How often single steps of it were, on the grid.
    pub grid_steps: u64,
}

/// A search over the parameters of one engine under one popularity. Making it tabulates the primitives.
///
/// ```
/// use siltstone_model::engines::leveldb::LevelDb;
/// use siltstone_model::optimize::Optimizer;
/// use siltstone_model::{Direct, Popularity};
///
/// // Table 1 of the paper: 25.82 becomes 23.67 with the same number of levels.
/// let keys = Direct::new(&Popularity::uniform(100_000_000)?);
/// let leveldb = LevelDb::with_defaults(1e8, 1000.0)?;
/// let best = Optimizer::new(&keys).level_sizes(&leveldb)?;
/// assert!((best.write_amplification - 23.67).abs() < 0.02);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Optimizer {
    table: Tabulated,
}

impl Optimizer {
    /// Prepares searches under a popularity.
    pub fn new(keys: &Direct) -> Self {
        Self { table: Tabulated::new(keys) }
    }

    /// The best sizes for as many levels as the engine has.
    pub fn level_sizes(&self, engine: &LevelDb) -> Result<Optimum, ModelError> {
        engine.check()?;
        self.for_levels(
            engine,
            &Grid::new(engine, &self.table, engine.level_sizes.len())?,
            engine.level_sizes.len(),
        )
    }

    /// The best sizes for each number of levels from 1 to `most_levels`.
    pub fn each_level_count(&self, engine: &LevelDb, most_levels: usize) -> Result<Vec<Optimum>, ModelError> {
        engine.check()?;
        if !(1..=sizes::MOST_LEVELS).contains(&most_levels) {
            let message = format!("{most_levels} given; there must be 1 to {}", sizes::MOST_LEVELS);
            return Err(ModelError::new("levels", message));
        }
        let grid = Grid::new(engine, &self.table, most_levels)?;
        (1..=most_levels).map(|levels| self.for_levels(engine, &grid, levels)).collect()
    }

    /// The fewest levels, up to `most_levels`, that cost no more than any other number, and their best sizes.
    pub fn level_count(&self, engine: &LevelDb, most_levels: usize) -> Result<Optimum, ModelError> {
        let all = self.each_level_count(engine, most_levels)?;
        let evaluations = all.iter().map(|o| o.evaluations).sum();
        let least = all.iter().map(|o| o.write_amplification).fold(f64::INFINITY, f64::min);
        let best = all.into_iter().find(|o| o.write_amplification <= least * (1.0 + INDIFFERENCE));
        let best = best.ok_or_else(|| ModelError::new("levels", "no number of them has a finite cost"))?;
        Ok(Optimum { evaluations, ..best })
    }

    /// The best single growth factor with the engine's first level: what an engine without free level sizes
    /// can set.
    pub fn growth(&self, engine: &LevelDb) -> Result<Optimum, ModelError> {
        engine.check()?;
        let keys = self.table.total();
        let level1 = engine.level_sizes.first().copied().unwrap_or(keys).min(keys);
        let mut evaluations = 0;
        let mut cost = |growth: f64| -> Result<(f64, Vec<f64>), ModelError> {
            let sizes = sizes::geometric(level1, growth, keys)?;
            evaluations += 1;
            Ok((engine.total_with(self.table.direct(), &sizes), sizes))
        };
        let mut best = (f64::INFINITY, Vec::new(), 10.0);
        // Levels come and go, so the cost has many dips; a fine grid, then a finer one about the best.
        // Factors are thousandths, so that the one shown is the one whose cost is given.
        let mut range = (2.0f64, 200.0f64);
        for points in [400, 200, 100] {
            let step = (range.1 / range.0).powf(1.0 / f64::from(points));
            for point in 0..=points {
                let growth = (range.0 * step.powi(point) * 1000.0).round() / 1000.0;
                let (total, sizes) = cost(growth)?;
                if total < best.0 {
                    best = (total, sizes, growth);
                }
            }
            range = ((best.2 / step / step).max(1.5), best.2 * step * step);
        }
        let (write_amplification, level_sizes_items, growth) = best;
        let write_buffer_items = engine.write_buffer;
        let growth = Some(growth);
        Ok(Optimum {
            write_amplification,
            level_sizes_items,
            growth,
            write_buffer_items,
            evaluations,
            grid_steps: 0,
        })
    }

    /// The smallest write buffer up to `largest` items at which the engine, with the best sizes for its
    /// number of levels, writes at most `target`; an error that says what can be reached if none does.
    pub fn write_buffer(&self, engine: &LevelDb, largest: f64, target: f64) -> Result<Optimum, ModelError> {
        engine.check()?;
        ModelError::positive("max-write-buffer", largest)?;
        ModelError::positive("target", target)?;
        let mut evaluations = 0;
        let mut with = |write_buffer: f64| -> Result<Optimum, ModelError> {
            let best = self.level_sizes(&LevelDb { write_buffer, ..engine.clone() })?;
            evaluations += best.evaluations;
            Ok(best)
        };
        let mut high = with(largest)?;
        if high.write_amplification > target {
            let reached = high.write_amplification;
            let message =
                format!("{target} given; a buffer of {largest:.0} items reaches {reached:.2} at best");
            return Err(ModelError::new("target", message));
        }
        // Cost falls with the buffer; bisect its logarithm to a thousandth.
        let (mut low, mut top) = (1.0f64.min(largest).ln(), largest.ln());
        while top - low > 1e-3 {
            let middle = 0.5 * (low + top);
            let tried = with(middle.exp())?;
            if tried.write_amplification <= target {
                (top, high) = (middle, tried);
            } else {
                low = middle;
            }
        }
        Ok(Optimum { evaluations, ..high })
    }

    fn for_levels(&self, engine: &LevelDb, grid: &Grid, levels: usize) -> Result<Optimum, ModelError> {
        let direct = self.table.direct();
        let coarse = grid.best(engine, &self.table, levels);
        let mut starts = vec![coarse];
        if levels == engine.level_sizes.len() {
            starts.push(engine.level_sizes.clone());
        }
        let found = polish::polish(engine, direct, &starts);
        if !found.cost.is_finite() {
            return Err(ModelError::new(
                "level-sizes",
                "no sizes have a finite cost; check the other parameters",
            ));
        }
        Ok(Optimum {
            write_amplification: found.cost,
            level_sizes_items: found.sizes,
            growth: None,
            write_buffer_items: engine.write_buffer,
            evaluations: found.evaluations,
            grid_steps: grid.steps,
        })
    }
}
