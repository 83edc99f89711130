//! The primitives by their sums, and their inverses by Newton's method from an interpolated guess.
//!
//! Source: as in the parent module. Newton runs on logarithms: with `h = −ln(1 − Unique/N)`, `ln h` against
//! `ln requests` is a line for a uniform distribution and close to one for others, at both ends and between,
//! so that one or two steps from a guess suffice. The guesses come from [`GUIDE`] points computed when the
//! distribution is loaded.

use super::exponential::complement_and_exp;
use super::{Primitives, share};
use crate::Popularity;
use crate::popularity::Group;

/// Points of the two guides.
const GUIDE: usize = 120;

/// A step in the logarithm below this is the last: what it leaves is about its square.
const LAST_STEP: f64 = 1e-6;

/// Newton's method never took more than 7 steps; this bounds it if a distribution is stranger than all
/// tested.
const MOST_STEPS: usize = 60;

/// The primitives of a popularity, evaluated directly.
///
/// ```
/// use siltstone_model::{Direct, Popularity, Primitives};
///
/// let keys = Direct::new(&Popularity::uniform(1_000_000)?);
/// let requests = keys.unique_inverse(500_000.0);
/// assert!((requests - 693_147.0).abs() < 1.0); // N·ln 2
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Direct {
    /// The groups, least popular first, four side by side so that sums over them vectorise.
    blocks: Vec<Block>,
    slowest_rate: f64,
    total: f64,
    per_request: f64,
    unique_guide: Vec<Knot>,
    interval_guide: Vec<Knot>,
}

/// Groups side by side; the last block is padded with groups of weight zero.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// `−ln(1 − probability)` of each group.
    rates: [f64; LANES],
    weights: [f64; LANES],
}

const LANES: usize = 4;

/// A point of an increasing function in logarithms, with the slope of the inverse.
#[derive(Clone, Copy, Debug)]
struct Knot {
    /// Logarithm of the value.
    value: f64,
    /// Logarithm of the argument.
    argument: f64,
    /// d argument / d value.
    slope: f64,
}

/// What one pass over the groups gives for a number of requests.
struct Sums {
    unique: f64,
    /// Σ weight · e^−x: what is missing.
    missing: f64,
    /// Σ weight · x · e^−x: derivative of unique by the logarithm of the requests.
    slope: f64,
}

impl Direct {
    /// Prepares a popularity; takes some tens of microseconds.
    pub fn new(popularity: &Popularity) -> Self {
        // A key that takes all requests has an infinite rate; any large one does the same.
        let rate = |group: &Group| (-(-group.probability).ln_1p()).min(700.0);
        let block = |groups: &[Group]| {
            let mut block = Block { rates: [1.0; LANES], weights: [0.0; LANES] };
            for ((to_rate, to_weight), group) in block.rates.iter_mut().zip(&mut block.weights).zip(groups) {
                (*to_rate, *to_weight) = (rate(group), group.weight);
            }
            block
        };
        let slowest = popularity.groups().iter().map(rate).fold(f64::INFINITY, f64::min);
        let mut direct = Self {
            blocks: popularity.groups().chunks(LANES).map(block).collect(),
            slowest_rate: slowest,
            total: popularity.total_weight(),
            per_request: popularity.weight_per_request(),
            unique_guide: Vec::new(),
            interval_guide: Vec::new(),
        };
        // From a fraction of a request to where nothing is missing any more, and for intervals a thousandfold
        // more.
        let grid = |from: f64, to: f64| {
            let step = (to / from).ln() / (GUIDE - 1) as f64;
            (0..GUIDE).map(move |i| from.ln() + step * i as f64)
        };
        let unique_guide: Vec<Knot> = grid(1e-3, 20.0 / slowest)
            .map(|argument| {
                let (value, slope) = direct.unique_logarithms(argument);
                Knot { value, argument, slope: 1.0 / slope }
            })
            .collect();
        let interval_guide: Vec<Knot> = grid(1e-3, 1e7 / slowest)
            .map(|argument| {
                let (value, slope) = direct.size_logarithms(argument);
                Knot { value, argument, slope: 1.0 / slope }
            })
            .collect();
        direct.unique_guide = unique_guide;
        direct.interval_guide = interval_guide;
        direct
    }

    /// The slowest rate at which any key comes: of the order of 1/N for mild skews.
    pub(super) fn slowest_rate(&self) -> f64 {
        self.slowest_rate
    }

    /// Adds up what `terms` gives for the rate and weight of each group, K sums at once.
    #[inline(always)]
    fn add_up<const K: usize>(&self, terms: impl Fn(f64, f64) -> [f64; K]) -> [f64; K] {
        let mut lanes = [[0.0; LANES]; K];
        for block in &self.blocks {
            // Written so that the compiler keeps one register of lanes per sum.
            let mut products = [[0.0; LANES]; K];
            for (lane, (rate, weight)) in block.rates.into_iter().zip(block.weights).enumerate() {
                for (sum, term) in products.iter_mut().zip(terms(rate, weight)) {
                    if let Some(to) = sum.get_mut(lane) {
                        *to = term;
                    }
                }
            }
            for (sums, products) in lanes.iter_mut().zip(products) {
                for (sum, product) in sums.iter_mut().zip(products) {
                    *sum += product;
                }
            }
        }
        lanes.map(|sums| sums.iter().sum())
    }

    fn sums(&self, requests: f64) -> Sums {
        let [unique, missing, slope] = self.add_up(|rate, weight| {
            let x = rate * requests;
            let (complement, exp) = complement_and_exp(x);
            [weight * complement, weight * exp, weight * x * exp]
        });
        Sums { unique, missing, slope }
    }

    /// `unique` and its derivative by the requests.
    pub(crate) fn unique_and_slope(&self, requests: f64) -> (f64, f64) {
        let sums = self.sums(requests);
        (sums.unique, sums.slope / requests)
    }

    /// Size of a level, the rest up to the total, and the unique keys of the interval.
    pub(super) fn size_rest_unique(&self, interval: f64) -> (f64, f64, f64) {
        let [size, rest, unique] = self.add_up(|rate, weight| {
            let x = rate * interval;
            let (complement, _) = complement_and_exp(x);
            let mean_missing = complement / x;
            // The difference loses digits where x is small; there the series has them all.
            let series = x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 24.0 - x * (1.0 / 120.0))));
            let (filled, missing) =
                if x < 2e-3 { (series, 1.0 - series) } else { (1.0 - mean_missing, mean_missing) };
            [weight * filled, weight * missing, weight * complement]
        });
        (size, rest, unique)
    }

    /// ln h of unique at the argument `ln requests`, with h = −ln(1 − unique/total), and its derivative.
    fn unique_logarithms(&self, argument: f64) -> (f64, f64) {
        let sums = self.sums(argument.exp());
        let h = if sums.unique < sums.missing {
            -(-sums.unique / self.total).ln_1p()
        } else {
            -(sums.missing / self.total).ln()
        };
        (h.ln(), sums.slope / (sums.missing * h))
    }

    /// ln (size / (total − size)) at the argument `ln interval`, and its derivative.
    fn size_logarithms(&self, argument: f64) -> (f64, f64) {
        let (size, rest, unique) = self.size_rest_unique(argument.exp());
        // D · dSize/dD = unique − size, since D · Size(D) is the integral of unique.
        ((size / rest).ln(), (unique - size) * self.total / (size * rest))
    }
}

/// Solves `function(x) = value` for an increasing function of logarithms, from the guide's guess.
fn solve(guide: &[Knot], value: f64, function: impl Fn(f64) -> (f64, f64)) -> f64 {
    let mut x = guess(guide, value);
    for _ in 0..MOST_STEPS {
        let (at, slope) = function(x);
        // Half a unit of the logarithm's scale is trusted at a time if the guess was far off.
        let step = ((value - at) / slope).clamp(-4.0, 4.0);
        x += step;
        if step.abs() < LAST_STEP {
            break;
        }
    }
    x.exp()
}

/// Cubic Hermite interpolation between the neighbouring knots; a line beyond the ends.
fn guess(guide: &[Knot], value: f64) -> f64 {
    let after = guide.partition_point(|knot| knot.value < value);
    let below = after.checked_sub(1).and_then(|before| guide.get(before));
    match (below, guide.get(after)) {
        (Some(a), Some(b)) if b.value > a.value => {
            let width = b.value - a.value;
            let t = (value - a.value) / width;
            let (rise, left, right) = (b.argument - a.argument, a.slope * width, b.slope * width);
            let curve = left - rise - t * (left + right - 2.0 * rise);
            a.argument + t * (rise + (1.0 - t) * curve)
        }
        (Some(end), _) | (None, Some(end)) => end.argument + (value - end.value) * end.slope,
        (None, None) => 0.0,
    }
}

impl Primitives for Direct {
    fn total(&self) -> f64 {
        self.total
    }

    fn per_request(&self) -> f64 {
        self.per_request
    }

    fn unique(&self, requests: f64) -> f64 {
        let requests = requests.max(0.0);
        let [unique] = self.add_up(|rate, weight| [weight * complement_and_exp(rate * requests).0]);
        unique
    }

    fn unique_inverse(&self, size: f64) -> f64 {
        match share(size, self.total) {
            None => f64::INFINITY,
            Some(0.0) => 0.0,
            Some(share) => {
                let value = (-(-share).ln_1p()).ln();
                solve(&self.unique_guide, value, |x| self.unique_logarithms(x))
            }
        }
    }

    fn dinterval(&self, size: f64) -> f64 {
        match share(size, self.total) {
            None => f64::INFINITY,
            Some(0.0) => 0.0,
            Some(share) => {
                let value = (share / (1.0 - share)).ln();
                solve(&self.interval_guide, value, |x| self.size_logarithms(x))
            }
        }
    }

    fn size_of_interval(&self, interval: f64) -> f64 {
        if interval.is_infinite() {
            return self.total;
        }
        if interval <= 0.0 {
            return 0.0;
        }
        self.size_rest_unique(interval).0
    }
}
