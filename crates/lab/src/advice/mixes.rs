//! Endure's fifteen expected workloads.
//!
//! Source: Huynh, Chaudhari, Terzi and Athanassoulis, "Endure: A Robust Tuning Paradigm for LSM Trees Under
//! Workload Uncertainty" (VLDB 2022), in the order of the configuration that its authors published: all kinds
//! alike, then one, two and three kinds that have nearly all operations, each other kind 1 %. Shares of point
//! reads that find nothing, point reads that find something, range reads, writes.

use siltstone_model::price::Mix;

/// Shares in per cent, as the paper orders them: misses, hits, scans, puts.
const ENDURE: [[u32; 4]; 15] = [
    [25, 25, 25, 25],
    [97, 1, 1, 1],
    [1, 97, 1, 1],
    [1, 1, 97, 1],
    [1, 1, 1, 97],
    [49, 49, 1, 1],
    [49, 1, 49, 1],
    [49, 1, 1, 49],
    [1, 49, 49, 1],
    [1, 49, 1, 49],
    [1, 1, 49, 49],
    [33, 33, 33, 1],
    [33, 33, 1, 33],
    [33, 1, 33, 33],
    [1, 33, 33, 33],
];

/// The mixes, w0 to w14.
pub fn endure() -> [Mix; 15] {
    ENDURE.map(|[misses, hits, scans, puts]| {
        let [misses, hits, scans, puts] = [misses, hits, scans, puts].map(f64::from);
        Mix { hits, misses, scans, puts }
    })
}

/// The shares of a mix in per cent, as the paper orders them.
pub fn in_words(mix: &Mix) -> String {
    let Mix { hits, misses, scans, puts } = *mix;
    format!("{misses}/{hits}/{scans}/{puts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_no_mix_is_there_twice() {
        for (number, shares) in ENDURE.iter().enumerate() {
            assert_eq!(shares.iter().sum::<u32>(), 100, "w{number}");
            assert!(!ENDURE[..number].contains(shares));
        }
        assert_eq!(in_words(&endure()[2]), "1/97/1/1");
    }
}
