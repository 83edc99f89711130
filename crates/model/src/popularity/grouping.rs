//! Groups of keys whose probabilities differ little, and what stands for the keys of a group.
//!
//! Source: Lim et al., FAST 2016, §6.2: from the least popular key up, a new group begins where the
//! probability exceeds the group's least by a given ratio. The paper stores the mean; [`Grouping::Moments`]
//! is ours.
//!
//! Error bounds. Let a group span probabilities from `f` to `r·f`, and let `g(f) = 1 − (1 − f)^p`, of which
//! `unique` is the sum. The mean of `g` over the group differs from `g` at the mean by at most `max|g''|/2`
//! times the variance, which is at most a quarter of the width squared. A two-point Gauss rule leaves
//! `max|g⁗|/4!` times the integral of the square of the monic orthogonal quadratic, which no monic quadratic
//! undercuts, so at most Chebyshev's `(width²/8)²`. With `|g⁽ⁿ⁾(f)| ≤ pⁿ·e^(−pf)` and relative to `g` itself,
//! with `x = pf`:
//!
//! ```text
//! mean      sup x²e⁻ˣ/(1 − e⁻ˣ) · (r − 1)²/8     ≤ 0.0811·(r − 1)²
//! moments   sup x⁴e⁻ˣ/(1 − e⁻ˣ) · (r − 1)⁴/1536  ≤ 0.00312·(r − 1)⁴
//! ```

use super::Group;
use crate::ModelError;

/// How keys are grouped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Grouping {
    /// Every key (of a histogram, every entry) by itself: the oracle the others are tested against.
    Exact,
    /// The paper's: one mean per group; probabilities in a group differ by at most this ratio.
    Mean {
        /// Largest probability of a group over its smallest; above 1.
        ratio: f64,
    },
    /// Two values per group with the group's first three moments.
    Moments {
        /// Largest probability of a group over its smallest; above 1.
        ratio: f64,
    },
}

impl Grouping {
    /// The paper's: 172 groups for 10^8 keys of skew 0.99.
    pub const PAPER: Self = Self::Mean { ratio: 1.1 };

    /// An upper bound on the relative error in `unique`, for any number of requests; 0 if exact.
    ///
    /// ```
    /// use siltstone_model::Grouping;
    /// assert!(Grouping::default().error_bound() < 8.1e-5);
    /// assert!(Grouping::PAPER.error_bound() < 8.2e-4);
    /// ```
    pub fn error_bound(self) -> f64 {
        match self {
            Self::Exact => 0.0,
            Self::Mean { ratio } => 0.0811 * (ratio - 1.0).powi(2),
            Self::Moments { ratio } => 0.00312 * (ratio - 1.0).powi(4),
        }
    }

    pub(super) fn check(self) -> Result<(), ModelError> {
        match self {
            Self::Mean { ratio } | Self::Moments { ratio } if !(ratio.is_finite() && ratio > 1.0) => Err(
                ModelError::new("grouping", format!("ratio {ratio} given; it must be above 1 and finite")),
            ),
            _ => Ok(()),
        }
    }
}

impl Default for Grouping {
    fn default() -> Self {
        Self::Moments { ratio: 1.4 }
    }
}

/// Sums over the keys of one group, in units of its least probability so that nothing cancels needlessly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    /// The unit: a probability of the group.
    pub unit: f64,
    /// Σ of (probability / unit)^k over the keys, for k = 0, 1, 2, 3.
    pub sums: [f64; 4],
    /// Σ of the weights.
    pub weight: f64,
}

impl Moments {
    /// One value with the group's mean.
    pub fn mean(&self) -> Group {
        let [keys, first, ..] = self.sums;
        Group { keys, probability: (first / keys * self.unit).min(1.0), weight: self.weight }
    }

    /// The two-point Gauss rule; one point where all keys are alike.
    pub fn gauss(&self) -> impl Iterator<Item = Group> + use<> {
        let [keys, first, second, third] = self.sums;
        let mean = first / keys;
        let variance = second / keys - mean * mean;
        // Below this, rounding has eaten the third moment; so near together, the mean alone is exact.
        if keys < 1.5 || variance <= 1e-10 * mean * mean {
            return [Some(self.mean()), None].into_iter().flatten();
        }
        let deviation = variance.sqrt();
        let central = third / keys - 3.0 * mean * variance - mean.powi(3);
        let half_skewness = 0.5 * central / (variance * deviation);
        let spread = half_skewness.hypot(1.0);
        let share = 0.5 * (1.0 + half_skewness / spread);
        let group = |share: f64, at: f64| Group {
            keys: keys * share,
            probability: (at * self.unit).min(1.0),
            weight: self.weight * share,
        };
        let low = group(share, mean + deviation * (half_skewness - spread));
        let high = group(1.0 - share, mean + deviation * (half_skewness + spread));
        [Some(low), Some(high)].into_iter().flatten()
    }
}

/// Forms groups from entries in ascending order of probability.
pub(super) struct Grouper {
    grouping: Grouping,
    open: Option<Moments>,
    groups: Vec<Group>,
}

impl Grouper {
    pub fn new(grouping: Grouping) -> Self {
        Self { grouping, open: None, groups: Vec::new() }
    }

    /// Adds `keys` keys of one probability, which is at least that of those before.
    pub fn add(&mut self, probability: f64, keys: f64, weight: f64) {
        let ratio = match self.grouping {
            Grouping::Exact => {
                self.groups.push(Group { keys, probability: probability.min(1.0), weight });
                return;
            }
            Grouping::Mean { ratio } | Grouping::Moments { ratio } => ratio,
        };
        if self.open.is_some_and(|open| probability > open.unit * ratio) {
            self.close();
        }
        let open = self.open.get_or_insert(Moments { unit: probability, sums: [0.0; 4], weight: 0.0 });
        let mut power = keys;
        for sum in &mut open.sums {
            *sum += power;
            power *= probability / open.unit;
        }
        open.weight += weight;
    }

    /// Closes the group in hand, if any.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.push(&open);
        }
    }

    /// Adds a whole group by its moments.
    pub fn push(&mut self, moments: &Moments) {
        match self.grouping {
            Grouping::Exact | Grouping::Mean { .. } => self.groups.push(moments.mean()),
            Grouping::Moments { .. } => self.groups.extend(moments.gauss()),
        }
    }

    pub fn finish(mut self) -> Vec<Group> {
        self.close();
        self.groups
    }
}
