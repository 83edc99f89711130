//! Groups of a Zipf distribution from closed forms: ranges of ranks, whose moments are differences of power
//! sums.
//!
//! Source: the Euler-Maclaurin formula; nothing walks over the keys, so 10^8 of them take as long as 10^15
//! (some tens of microseconds). The first [`DIRECT`] ranks of a range are added one by one, since the formula
//! is asymptotic there.

use super::Group;
use super::grouping::{Grouper, Grouping, Moments};

/// Beyond this skew the tail has probability zero in double precision for any number of keys worth modelling.
pub(super) const MOST_SKEW: f64 = 20.0;

/// Ranks that are summed one by one.
const DIRECT: u64 = 40;

/// The groups of `keys` keys, least popular first. The arguments are checked by the caller.
pub(super) fn groups(keys: u64, skew: f64, grouping: Grouping) -> Vec<Group> {
    let sum = power_sum(1, keys, skew, 1);
    let mut grouper = Grouper::new(grouping);
    let ratio = match grouping {
        Grouping::Exact => {
            for rank in (1..=keys).rev() {
                grouper.add((rank as f64).powf(-skew) / sum, 1.0, 1.0);
            }
            return grouper.finish();
        }
        Grouping::Mean { ratio } | Grouping::Moments { ratio } => ratio,
    };
    let rank_ratio = ratio.powf(-1.0 / skew);
    let mut last = keys;
    while last > 0 {
        // The most popular rank whose probability is within the ratio of the last one's.
        let first = ((last as f64 * rank_ratio).ceil() as u64).clamp(1, last);
        let count = (last - first + 1) as f64;
        // Powers relative to the last rank's: of order one.
        let sums = [
            count,
            scaled_sum(first, last, skew, 1),
            scaled_sum(first, last, skew, 2),
            scaled_sum(first, last, skew, 3),
        ];
        grouper.push(&Moments { unit: (last as f64).powf(-skew) / sum, sums, weight: count });
        last = first - 1;
    }
    grouper.finish()
}

/// Σ (rank / last)^(−skew · power) over the ranks of a range.
fn scaled_sum(first: u64, last: u64, skew: f64, power: u32) -> f64 {
    sum_of_powers(first, last, last as f64, skew * f64::from(power))
}

/// Σ rank^(−skew · power) over the ranks `first..=last`.
fn power_sum(first: u64, last: u64, skew: f64, power: u32) -> f64 {
    sum_of_powers(first, last, 1.0, skew * f64::from(power))
}

/// Σ (rank / unit)^−exponent over `first..=last`.
fn sum_of_powers(first: u64, last: u64, unit: f64, exponent: f64) -> f64 {
    let term = |rank: f64| (rank / unit).powf(-exponent);
    let direct_end = (DIRECT + exponent as u64).min(last);
    let mut sum: f64 = (first..=direct_end).rev().map(|rank| term(rank as f64)).sum();
    let start = first.max(direct_end + 1);
    if start > last {
        return sum;
    }
    if last - start < 8 {
        return sum + (start..=last).map(|rank| term(rank as f64)).sum::<f64>();
    }
    let (a, b) = (start as f64, last as f64);
    // ∫ of x^−e from a to b, exact as e nears 1: a·f(a) · (r^(1−e) − 1)/(1 − e) with r = b/a.
    let log = (b / a).ln();
    let scaled = (1.0 - exponent) * log;
    let expm1_over = if scaled.abs() < 1e-9 { 1.0 + scaled / 2.0 } else { scaled.exp_m1() / scaled };
    sum += a * term(a) * log * expm1_over + (term(a) + term(b)) / 2.0;
    // Bernoulli corrections: B₂/2!·(f'(b) − f'(a)) + B₄/4!·(f‴(b) − f‴(a)) + B₆/6!·(f⁗′…).
    let mut derivative = exponent;
    for (order, coefficient) in [(1, 1.0 / 12.0), (3, -1.0 / 720.0), (5, 1.0 / 30_240.0)] {
        sum += coefficient * derivative * (term(a) / a.powi(order) - term(b) / b.powi(order));
        let order = f64::from(order);
        derivative *= (exponent + order) * (exponent + order + 1.0);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_powers_agree_with_adding_up() {
        for exponent in [0.2, 0.99, 1.0, 1.2, 1.98, 3.6, 20.0] {
            for (first, last) in
                [(1, 1), (1, 7), (1, 100), (1, 100_000), (41, 60), (900, 40_000), (99_990, 100_000)]
            {
                let unit = last as f64;
                let added: f64 = (first..=last).rev().map(|rank| (rank as f64 / unit).powf(-exponent)).sum();
                let closed = sum_of_powers(first, last, unit, exponent);
                let error = (closed / added - 1.0).abs();
                assert!(error < 2e-12, "{first}..={last} ^-{exponent}: {closed} {added}, off by {error:e}");
            }
        }
    }
}
