//! The worst mix within a Kullback-Leibler ball, and what it costs.
//!
//! Source: Endure (Huynh, Chaudhari, Terzi and Athanassoulis, "Endure: A Robust Tuning Paradigm for LSM Trees
//! Under Workload Uncertainty", VLDB 2022, §5). The cost of a mix `w` is linear, `w · c`. The dearest mix `v`
//! with `KL(v ‖ w) ≤ R` has, by duality, the cost
//!
//! ```text
//! min over λ > 0 of  λ R + λ ln Σ wᵢ e^(cᵢ / λ)
//! ```
//!
//! a convex function of one number; the mix that reaches it is `vᵢ ∝ wᵢ e^(cᵢ / λ)`. Where we differ: `λ` is
//! found by golden sections of its logarithm rather than by a general solver, since it is all that is left to
//! find for one design, and designs are searched outside of it.

/// The golden section.
const SECTION: f64 = 0.618_033_988_749_895;
/// Sections: they narrow 80 powers of e to a few parts in a million.
const SECTIONS: usize = 70;

/// Returns what an operation costs in the worst mix whose divergence from `mix`, whose shares add up to 1, is
/// at most `radius` nats. Operations that the mix has none of stay away.
///
/// ```
/// use siltstone_model::advise::robust::worst_cost;
///
/// let (mix, costs) = ([0.25; 4], [1.0, 2.0, 3.0, 10.0]);
/// assert!((worst_cost(&mix, &costs, 0.0) - 4.0).abs() < 1e-6);
/// assert!(worst_cost(&mix, &costs, 0.5) > 6.0);
/// assert!((worst_cost(&mix, &costs, 50.0) - 10.0).abs() < 1e-6);
/// ```
pub fn worst_cost(mix: &[f64; 4], costs: &[f64; 4], radius: f64) -> f64 {
    let possible = || mix.iter().zip(costs).filter(|(share, _)| **share > 0.0);
    let centre: f64 = possible().map(|(share, cost)| share * cost).sum();
    let dearest = possible().map(|(_, cost)| *cost).fold(f64::NEG_INFINITY, f64::max);
    let cheapest = possible().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
    let range = dearest - cheapest;
    if radius <= 0.0 || range <= 0.0 {
        return centre;
    }
    let dual = |logarithm: f64| {
        let lambda = range * logarithm.exp();
        // Relative to the dearest, so that no power overflows.
        let sum: f64 = possible().map(|(share, cost)| share * ((cost - dearest) / lambda).exp()).sum();
        lambda * radius + dearest + lambda * sum.ln()
    };
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..SECTIONS {
        let (left, right) = (high - SECTION * (high - low), low + SECTION * (high - low));
        if dual(left) <= dual(right) { high = right } else { low = left }
    }
    dual(f64::midpoint(low, high)).clamp(centre, dearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divergence(mix: &[f64; 4], other: &[f64; 4]) -> f64 {
        let term =
            |(share, other): (&f64, &f64)| if *other > 0.0 { other * (other / share).ln() } else { 0.0 };
        mix.iter().zip(other).map(term).sum()
    }

    /// The dearest mix on a grid over the simplex.
    fn by_force(mix: &[f64; 4], costs: &[f64; 4], radius: f64) -> f64 {
        const PARTS: usize = 120;
        let mut worst = f64::NEG_INFINITY;
        for a in 0..=PARTS {
            for b in 0..=PARTS - a {
                for c in 0..=PARTS - a - b {
                    let other = [a, b, c, PARTS - a - b - c].map(|parts| parts as f64 / PARTS as f64);
                    let possible = mix.iter().zip(&other).all(|(share, other)| *share > 0.0 || *other == 0.0);
                    if possible && divergence(mix, &other) <= radius {
                        let cost = other.iter().zip(costs).map(|(share, cost)| share * cost).sum();
                        worst = worst.max(cost);
                    }
                }
            }
        }
        worst
    }

    #[test]
    fn the_dual_finds_the_worst_mix() {
        let mixes = [[0.25; 4], [0.49, 0.49, 0.01, 0.01], [0.05, 0.05, 0.0, 0.9], [0.33, 0.33, 0.33, 0.01]];
        let costs = [[20.0, 1.0, 60.0, 2.0], [9.0, 8.0, 7.0, 6.5], [1.0, 30.0, 5.0, 5.0]];
        for mix in &mixes {
            for costs in &costs {
                for radius in [0.05, 0.25, 1.0, 2.0] {
                    let (dual, force) = (worst_cost(mix, costs, radius), by_force(mix, costs, radius));
                    // The grid misses the ball's border by up to a step.
                    let step = costs.iter().fold(0.0, |a: f64, b| a.max(*b)) / 60.0;
                    assert!(
                        dual >= force - 1e-6 && dual <= force + step,
                        "{mix:?} {costs:?} {radius}: {dual} {force}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_certain_mix_costs_what_it_costs() {
        let (mix, costs) = ([0.1, 0.2, 0.3, 0.4], [4.0, 3.0, 2.0, 1.0]);
        assert!((worst_cost(&mix, &costs, 0.0) - 2.0).abs() < 1e-12);
        assert!((worst_cost(&mix, &costs, 1e-9) - 2.0).abs() < 1e-3);
        assert_eq!(worst_cost(&mix, &[5.0; 4], 1.0), 5.0);
    }
}
