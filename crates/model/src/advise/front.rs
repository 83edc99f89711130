//! The Pareto front: designs that no other beats in everything at once.

use crate::price::{Costs, Mix};

/// What designs are compared by, each the smaller the better: bytes written per byte put, device reads per
/// read of the mix, memory without the cache, and space at its peak.
pub(super) fn dimensions(costs: &Costs, mix: &Mix) -> [f64; 4] {
    let shares = mix.normalized();
    let reads = shares.hits + shares.misses + shares.scans;
    let sum = shares.hits * costs.reads_per_hit
        + shares.misses * costs.reads_per_miss
        + shares.scans * costs.reads_per_scan;
    let per_read = if reads > 0.0 { sum / reads } else { costs.reads_per_hit };
    let memory = &costs.memory_bytes;
    let held = memory.memtable + memory.filter + memory.index;
    [costs.write_amplification, per_read, held, costs.peak_space_amplification]
}

/// Whether the first is at least as good in everything, and better in something.
pub(super) fn dominates(one: &[f64; 4], other: &[f64; 4]) -> bool {
    one.iter().zip(other).all(|(one, other)| one <= other) && one != other
}

/// The places of those that none dominates; of equals the first.
pub(super) fn undominated(points: &[[f64; 4]]) -> Vec<usize> {
    let beaten = |at: usize, point: &[f64; 4]| {
        points.iter().enumerate().any(|(by, other)| dominates(other, point) || (by < at && other == point))
    };
    points.iter().enumerate().filter(|(at, point)| !beaten(*at, point)).map(|(at, _)| at).collect()
}

/// At most `most` of the points, as different as can be: beginning with the first, always the one that is
/// farthest from all that were taken, each dimension by its logarithm.
pub(super) fn spread(points: &[[f64; 4]], most: usize) -> Vec<usize> {
    let logarithms: Vec<[f64; 4]> = points.iter().map(|point| point.map(|x| (x + 1e-3).ln())).collect();
    let distance =
        |a: &[f64; 4], b: &[f64; 4]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum() };
    let mut taken: Vec<usize> = if points.is_empty() { Vec::new() } else { vec![0] };
    let Some(first) = logarithms.first() else { return taken };
    let mut nearest: Vec<f64> = logarithms.iter().map(|point| distance(point, first)).collect();
    while taken.len() < most {
        let farthest = nearest.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let Some((at, far)) = farthest.filter(|(_, far)| **far > 1e-4) else { break };
        debug_assert!(*far > 0.0, "what was taken is not taken again");
        taken.push(at);
        if let Some(point) = logarithms.get(at) {
            for (near, other) in nearest.iter_mut().zip(&logarithms) {
                *near = near.min(distance(other, point));
            }
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_of_the_front_is_beaten() {
        let points = [
            [1.0, 4.0, 1.0, 1.0],
            [2.0, 3.0, 1.0, 1.0],
            [2.0, 4.0, 1.0, 1.0],
            [1.0, 4.0, 1.0, 1.0],
            [9.0, 9.0, 0.5, 1.0],
        ];
        assert_eq!(undominated(&points), [0, 1, 4]);
        assert!(dominates(&points[0], &points[2]) && !dominates(&points[0], &points[3]));
    }

    #[test]
    fn a_spread_takes_the_first_and_then_what_differs() {
        let points = [[1.0; 4], [1.001, 1.0, 1.0, 1.0], [8.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 1.0]];
        assert_eq!(spread(&points, 3), [0, 2, 3]);
        assert_eq!(spread(&points, 9), [0, 2, 3]);
        assert!(spread(&[], 3).is_empty());
    }
}
