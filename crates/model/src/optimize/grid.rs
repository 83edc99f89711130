//! The best level sizes on a logarithmic grid, by dynamic programming from the last level up.
//!
//! What lies below level `l` costs, given the interval `I` of the step into it, an amount that no earlier
//! choice changes otherwise: `V_l(I) = min over S of [step(I, S) + V_{l+1}(I + D(S))]`, where `V` of the last
//! step is that step's cost. States are intervals, choices are sizes; both are spaced evenly in the logarithm
//! of the interval, since a size near all keys and one half as large differ most there. `V` is interpolated
//! between states.
//!
//! Sizes have to ascend, which the recursion does not know; a smaller level below a larger one only adds
//! writes, so it does not choose one (tests check this), and [`Grid::best`] puts a stray one right.

use super::LARGEST_SHARE;
use crate::engines::leveldb::{Compaction, LevelDb};
use crate::{ModelError, Primitives, Tabulated};

/// Choices of a size.
const CHOICES: usize = 240;
/// States: intervals.
const STATES: usize = 160;

/// A size a level may have.
#[derive(Clone, Copy, Debug)]
struct Choice {
    size: f64,
    /// Requests between compactions of the same key.
    interval: f64,
}

/// The tables of the recursion.
pub(super) struct Grid {
    choices: Vec<Choice>,
    /// Logarithm of the first state's interval, and the distance between states.
    first: f64,
    spacing: f64,
    /// `values[k]`, by state: the least cost of all below, with `k` levels still to choose above the last.
    values: Vec<Vec<f64>>,
    level0_interval: f64,
    /// Steps of the model evaluated.
    pub steps: u64,
}

impl Grid {
    /// Solves the recursion for up to `most_levels` levels.
    pub fn new(engine: &LevelDb, keys: &Tabulated, most_levels: usize) -> Result<Self, ModelError> {
        let level0_interval = engine.level0_interval(keys);
        let largest = engine.key_interval(keys, keys.total() * LARGEST_SHARE * 0.999_999);
        let smallest = engine.key_interval(keys, 1.0_f64.min(keys.total() * 0.01)).max(largest * 1e-15);
        if !(largest.is_finite() && smallest > 0.0) {
            return Err(ModelError::new("keys", "too few distinct keys to choose level sizes for"));
        }
        let step = (largest / smallest).ln() / (CHOICES - 1) as f64;
        let choices = (0..CHOICES)
            .map(|i| {
                let interval = smallest * (step * i as f64).exp();
                Choice { size: engine.size_of_key_interval(keys, interval), interval }
            })
            .collect();
        let first = level0_interval.ln();
        let end = (level0_interval + most_levels as f64 * largest).ln();
        let spacing = (end - first) / (STATES - 1) as f64;
        let mut grid = Self { choices, first, spacing, values: Vec::new(), level0_interval, steps: 0 };
        grid.solve(engine, keys, most_levels);
        Ok(grid)
    }

    fn solve(&mut self, engine: &LevelDb, keys: &Tabulated, most_levels: usize) {
        let intervals: Vec<f64> = (0..STATES).map(|i| (self.first + self.spacing * i as f64).exp()).collect();
        // Levels chosen: none. The step into the last level, at the interval it has.
        let last = intervals.iter().map(|&interval| last_step(engine, keys, interval, false)).collect();
        self.values.push(last);
        self.steps += STATES as u64;
        // A step costs the same whichever level it leads into, so it is computed once per state and choice.
        let costs: Vec<Vec<f64>> = intervals
            .iter()
            .map(|&interval| {
                self.choices.iter().map(|choice| step(engine, keys, interval, choice.size, false)).collect()
            })
            .collect();
        self.steps += (STATES * CHOICES) as u64;
        for levels in 1..most_levels.saturating_sub(1) {
            let row = intervals
                .iter()
                .zip(&costs)
                .map(|(&interval, costs)| {
                    let choices = self.choices.iter().zip(costs);
                    choices
                        .map(|(choice, cost)| cost + self.rest(engine, levels, interval, choice))
                        .fold(f64::INFINITY, f64::min)
                })
                .collect();
            self.values.push(row);
        }
    }

    /// The cost of everything below a choice that is the `levels`-th above the last level.
    fn rest(&self, engine: &LevelDb, levels: usize, interval: f64, choice: &Choice) -> f64 {
        let next = engine.step_interval(interval, choice.interval, self.level0_interval, levels == 1);
        self.value(levels - 1, next)
    }

    /// `V` with so many levels to choose, interpolated.
    fn value(&self, levels: usize, interval: f64) -> f64 {
        let place = ((interval.ln() - self.first) / self.spacing).max(0.0);
        let below = (place as usize).min(STATES - 2);
        let t = place - below as f64;
        let row = self.values.get(levels).map(Vec::as_slice).unwrap_or_default();
        match (row.get(below), row.get(below + 1)) {
            (Some(a), Some(b)) => a + (b - a) * t.min(1.0),
            _ => f64::INFINITY,
        }
    }

    /// The best sizes for a number of levels, at the grid's resolution: forwards, with intervals as they are.
    pub fn best(&self, engine: &LevelDb, keys: &Tabulated, levels: usize) -> Vec<f64> {
        let mut sizes = Vec::with_capacity(levels);
        let mut interval = self.level0_interval;
        for below in (1..levels).rev() {
            let best = self
                .choices
                .iter()
                .map(|choice| {
                    let own = step(engine, keys, interval, choice.size, sizes.is_empty());
                    (own + self.rest(engine, below, interval, choice), choice)
                })
                .min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, choice)) = best {
                sizes.push(choice.size.max(sizes.last().copied().unwrap_or(0.0)));
                interval = engine.step_interval(interval, choice.interval, self.level0_interval, false);
            }
        }
        sizes.push(keys.total());
        sizes
    }
}

fn step(engine: &LevelDb, keys: &Tabulated, interval: f64, next_size: f64, from_level0: bool) -> f64 {
    engine.written(keys, Compaction { interval, next_size, into_last: false, from_level0 }) / interval
}

fn last_step(engine: &LevelDb, keys: &Tabulated, interval: f64, from_level0: bool) -> f64 {
    let next_size = keys.total();
    engine.written(keys, Compaction { interval, next_size, into_last: true, from_level0 }) / interval
}
