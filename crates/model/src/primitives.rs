//! The functions all models are written in: from requests to distinct keys and back, merging, compaction
//! intervals.
//!
//! Source: Lim et al., FAST 2016, §3.3 (`Unique`, its inverse), §3.4 (`Merge`), §4.3.2 (`DInterval`), §8
//! (weights). `DInterval` is solved from a closed form of `Size(D)` where the paper adds up `Density`
//! numerically: with `a = −ln(1 − f)`, averaging `1 − e^(−a·D·x)` over the distance `x` in `0..1` gives
//!
//! ```text
//! Size(D) = Σ weight · [1 − (1 − e^(−aD)) / (aD)]
//! ```
//!
//! Two implementations: [`Direct`] evaluates the sums (a few hundred nanoseconds each, solved to about
//! 10^-11), and [`Tabulated`] interpolates (a few nanoseconds, about 10^-6), for searches that ask millions
//! of times.

mod direct;
mod exponential;
mod tabulated;

pub use direct::Direct;
pub use tabulated::Tabulated;

/// From this share of all keys on, a table counts as holding all of them: the requests it takes are
/// unbounded.
///
/// Without it, a last level of exactly N items would ask for the logarithm of zero.
pub const SATURATION: f64 = 1.0 - 1e-6;

/// The analytic primitives of a key popularity. Sizes are in items (or in whatever the weights count).
///
/// Arguments below zero count as zero, infinite ones are meant.
///
/// ```
/// use siltstone_model::{Direct, Popularity, Primitives};
///
/// // §3.4 of the paper: merging a tenth of the keys into nine tenths hardly makes the table larger.
/// let keys = Direct::new(&Popularity::zipf(100_000_000, 0.99)?);
/// let merged = keys.merge(1e7, 9e7);
/// assert!((merged / 9.03e7 - 1.0).abs() < 1e-3);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub trait Primitives {
    /// The size of a table that holds every key.
    fn total(&self) -> f64;

    /// The expected size of one request's item; 1 unless weighted.
    fn per_request(&self) -> f64;

    /// The expected size of a table made from so many requests (Definition 1, and 3 if weighted).
    fn unique(&self, requests: f64) -> f64;

    /// The requests that make a table of this size; infinite from [`SATURATION`] on.
    fn unique_inverse(&self, size: f64) -> f64;

    /// The requests between two compactions of the same key, in a level of this size that is compacted
    /// round-robin: `DInterval`, §4.3.2. About twice `unique_inverse`; infinite from [`SATURATION`] on.
    fn dinterval(&self, size: f64) -> f64;

    /// The size of a round-robin level whose keys are compacted once per `interval` requests: inverse of
    /// `dinterval`.
    fn size_of_interval(&self, interval: f64) -> f64;

    /// The expected size of two tables merged (Definition 2).
    fn merge(&self, one: f64, other: f64) -> f64 {
        self.unique(self.unique_inverse(one) + self.unique_inverse(other))
    }

    /// The expected size of any number of tables merged.
    fn merge_all(&self, sizes: &[f64]) -> f64 {
        self.unique(sizes.iter().map(|size| self.unique_inverse(*size)).sum())
    }
}

/// `size` as a share of `total`, or `None` if the table holds every key.
fn share(size: f64, total: f64) -> Option<f64> {
    let share = size.max(0.0) / total;
    // Written so that NaN counts as everything rather than looping.
    (share < SATURATION).then_some(share)
}
