//! From near the best level sizes to the best, by damped Newton steps on finite differences.
//!
//! Source: Lim et al., FAST 2016, §6.2, for the two coordinates: the logarithm of `Size` (primal) and of the
//! interval between compactions of a key, which is `Unique⁻¹(Size)` up to non-uniformity (dual). The cost is
//! smooth in both, flat near its minimum, and has few variables, so that full second differences are cheap.
//!
//! Invariant: sizes ascend and stay within [`LARGEST_SHARE`] of all keys; a step that would leave this is cut
//! back.

use super::LARGEST_SHARE;
use crate::engines::leveldb::LevelDb;
use crate::{Direct, Primitives};

/// Step of the finite differences in a logarithm: truncation and rounding both stay far below what matters.
const DIFFERENCE: f64 = 1e-3;
/// Newton converges in about five; this bounds it.
const MOST_STEPS: usize = 40;
/// An improvement below this share of the cost ends the search.
const ENOUGH: f64 = 1e-11;

/// The best found.
pub(super) struct Found {
    pub cost: f64,
    pub sizes: Vec<f64>,
    pub evaluations: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinates {
    Primal,
    Dual,
}

/// The best reached from any of the starts in either coordinates.
pub(super) fn polish(engine: &LevelDb, keys: &Direct, starts: &[Vec<f64>]) -> Found {
    let mut search = Search { engine, keys, evaluations: 0 };
    let mut best = Found { cost: f64::INFINITY, sizes: Vec::new(), evaluations: 0 };
    for start in starts {
        // The second coordinates go on from where the first end: mostly they confirm it.
        let (_, sizes) = search.descend(Coordinates::Dual, start);
        let (cost, sizes) = search.descend(Coordinates::Primal, &sizes);
        if cost < best.cost {
            best = Found { cost, sizes, evaluations: 0 };
        }
    }
    Found { evaluations: search.evaluations, ..best }
}

struct Search<'a> {
    engine: &'a LevelDb,
    keys: &'a Direct,
    evaluations: u64,
}

impl Search<'_> {
    fn descend(&mut self, coordinates: Coordinates, start: &[f64]) -> (f64, Vec<f64>) {
        let mut at: Vec<f64> =
            start.iter().rev().skip(1).rev().map(|&size| self.encode(coordinates, size)).collect();
        let mut cost = self.cost(coordinates, &at);
        let mut damping = 1e-3;
        for _ in 0..MOST_STEPS {
            let (gradient, hessian) = self.differences(coordinates, &at, cost);
            let mut improved = false;
            for _ in 0..12 {
                let step = solve(&hessian, &gradient, damping);
                let to: Vec<f64> = at.iter().zip(&step).map(|(x, step)| x - step.clamp(-1.0, 1.0)).collect();
                let to = self.within(coordinates, to);
                let there = self.cost(coordinates, &to);
                if there < cost {
                    improved = cost - there > ENOUGH * cost;
                    (at, cost) = (to, there);
                    damping *= 0.1;
                    break;
                }
                damping = (damping * 8.0).max(1e-6);
            }
            if !improved {
                break;
            }
        }
        (cost, self.sizes(coordinates, &at))
    }

    fn encode(&self, coordinates: Coordinates, size: f64) -> f64 {
        let size = size.min(self.keys.total() * LARGEST_SHARE);
        match coordinates {
            Coordinates::Primal => size.ln(),
            Coordinates::Dual => self.engine.key_interval(self.keys, size).ln(),
        }
    }

    /// Moves coordinates so that sizes ascend and none is too large.
    fn within(&self, coordinates: Coordinates, mut at: Vec<f64>) -> Vec<f64> {
        let largest = self.encode(coordinates, self.keys.total());
        let mut least = f64::NEG_INFINITY;
        for x in &mut at {
            *x = x.max(least).min(largest);
            least = *x;
        }
        at
    }

    fn sizes(&self, coordinates: Coordinates, at: &[f64]) -> Vec<f64> {
        let inner = at.iter().map(|x| match coordinates {
            Coordinates::Primal => x.exp(),
            Coordinates::Dual => self.engine.size_of_key_interval(self.keys, x.exp()),
        });
        inner.chain([self.keys.total()]).collect()
    }

    fn cost(&mut self, coordinates: Coordinates, at: &[f64]) -> f64 {
        self.evaluations += 1;
        let cost = self.engine.total_with(self.keys, &self.sizes(coordinates, at));
        if cost.is_nan() { f64::INFINITY } else { cost }
    }

    /// Gradient and Hessian by central differences.
    fn differences(&mut self, coordinates: Coordinates, at: &[f64], cost: f64) -> (Vec<f64>, Vec<Vec<f64>>) {
        let shifted = |moves: &[(usize, f64)]| {
            let mut to = at.to_vec();
            for &(axis, by) in moves {
                if let Some(x) = to.get_mut(axis) {
                    *x += by;
                }
            }
            to
        };
        let h = DIFFERENCE;
        let axes = at.len();
        let ends: Vec<(f64, f64)> = (0..axes)
            .map(|i| {
                (self.cost(coordinates, &shifted(&[(i, -h)])), self.cost(coordinates, &shifted(&[(i, h)])))
            })
            .collect();
        let gradient = ends.iter().map(|(low, high)| (high - low) / (2.0 * h)).collect();
        let mut hessian = vec![vec![0.0; axes]; axes];
        for i in 0..axes {
            for j in 0..=i {
                let second = if i == j {
                    ends.get(i).map_or(0.0, |(low, high)| (high - 2.0 * cost + low) / (h * h))
                } else {
                    let mut corner = |a, b| self.cost(coordinates, &shifted(&[(i, a), (j, b)]));
                    (corner(h, h) - corner(h, -h) - corner(-h, h) + corner(-h, -h)) / (4.0 * h * h)
                };
                for (row, column) in [(i, j), (j, i)] {
                    if let Some(cell) = hessian.get_mut(row).and_then(|r| r.get_mut(column)) {
                        *cell = second;
                    }
                }
            }
        }
        (gradient, hessian)
    }
}

/// Solves `(hessian + damping) · step = gradient`, the damping raised until the matrix is positive definite.
fn solve(hessian: &[Vec<f64>], gradient: &[f64], damping: f64) -> Vec<f64> {
    let mut damping = damping;
    loop {
        if let Some(step) = cholesky(hessian, gradient, damping) {
            return step;
        }
        damping = (damping * 4.0).max(1e-3);
        if damping > 1e12 {
            return vec![0.0; gradient.len()];
        }
    }
}

/// Solves a symmetric system, or `None` if it is not positive definite.
#[expect(clippy::indexing_slicing, reason = "square matrices of one size, indexed by loops over that size")]
fn cholesky(matrix: &[Vec<f64>], right: &[f64], damping: f64) -> Option<Vec<f64>> {
    let n = right.len();
    let mut lower = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            let diagonal = if i == j { damping } else { 0.0 };
            let rest = matrix[i][j] + diagonal - known;
            if i != j {
                lower[i][j] = rest / lower[j][j];
            } else if rest > 1e-12 {
                lower[i][i] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    let mut solution = right.to_vec();
    for i in 0..n {
        let known: f64 = (0..i).map(|k| lower[i][k] * solution[k]).sum();
        solution[i] = (solution[i] - known) / lower[i][i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| lower[k][i] * solution[k]).sum();
        solution[i] = (solution[i] - known) / lower[i][i];
    }
    Some(solution)
}
