//! From what a store counts to what its workload must be like: the primitives, solved for a parameter.

use crate::{Direct, ModelError, Popularity, Primitives};

/// The largest skew that is looked for.
const MOST_SKEW: f64 = 1.6;
/// Steps of bisection: to a thousandth.
const STEPS: usize = 12;
/// How many deviations, and which share of them, repeats have to be off to count as more than chance.
const DEVIATIONS: f64 = 3.0;
const LEAST_SHARE: f64 = 0.05;
/// The largest group that is looked for, as a power of two.
const MOST_GROUP_BITS: f64 = 24.0;

/// Returns the Zipf exponent with which `requests` requests for `items` items name `distinct` of them: 0
/// where that is no fewer than if all items were asked for alike. Counts are means of `samples` samples.
///
/// ```
/// use siltstone_model::price::skew_of;
///
/// // Of 100,000 writes to a million items, uniform ones repeat 4,837, and those of YCSB 61,033.
/// assert_eq!(skew_of(1e6, 1e5, 95_163.0, 10.0)?, 0.0);
/// assert!((skew_of(1e6, 1e5, 38_967.0, 10.0)? - 0.99).abs() < 0.02);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
///
/// # Errors
/// Numbers that are not above 0.
pub fn skew_of(items: f64, requests: f64, distinct: f64, samples: f64) -> Result<f64, ModelError> {
    ModelError::positive("items", items)?;
    ModelError::positive("requests", requests)?;
    ModelError::positive("samples", samples)?;
    let items = items.ceil().max(2.0);
    let unique = |skew: f64| -> Result<f64, ModelError> {
        if skew == 0.0 {
            return Ok(-items * (-requests / items).exp_m1());
        }
        Ok(Direct::new(&Popularity::zipf(items as u64, skew)?).unique(requests))
    };
    let by_chance = requests - unique(0.0)?;
    let deviation = (by_chance.max(1.0) / samples).sqrt();
    if requests - distinct <= by_chance * (1.0 + LEAST_SHARE) + DEVIATIONS * deviation {
        return Ok(0.0);
    }
    let (mut low, mut high) = (0.0, MOST_SKEW);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if unique(middle)? > distinct { low = middle } else { high = middle }
    }
    Ok(f64::midpoint(low, high))
}

/// Returns how many items a group has, where a share `density` of all items is there, and `together` of a
/// group that is there at all: the inverse of `g d / (1 − (1 − d)^g)`.
///
/// ```
/// use siltstone_model::price::group_items_of;
///
/// // Where all is there, groups are seen as they are; of one tenth, one sees more than a tenth of each.
/// assert!((group_items_of(64.0, 1.0) - 64.0).abs() < 0.1);
/// assert!((group_items_of(6.408, 0.1) - 64.0).abs() < 0.5);
/// assert_eq!(group_items_of(1.0, 0.1), 1.0);
/// ```
pub fn group_items_of(together: f64, density: f64) -> f64 {
    let density = density.clamp(1e-9, 1.0);
    let seen = |group: f64| group * density / (1.0 - (1.0 - density).powf(group));
    let (mut low, mut high) = (0.0, MOST_GROUP_BITS);
    if together <= 1.0 || !together.is_finite() {
        return 1.0;
    }
    for _ in 0..2 * MOST_GROUP_BITS as usize {
        let middle = f64::midpoint(low, high);
        if seen(middle.exp2()) < together { low = middle } else { high = middle }
    }
    f64::midpoint(low, high).exp2()
}
