//! Grouped popularities against exact ones: every key by itself, added up.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use siltstone_model::engines::leveldb::LevelDb;
use siltstone_model::{Direct, Grouping, Popularity, Primitives, Tabulated};

const GROUPINGS: [Grouping; 5] = [
    Grouping::PAPER,
    Grouping::Mean { ratio: 1.5 },
    Grouping::Moments { ratio: 1.1 },
    Grouping::Moments { ratio: 1.4 },
    Grouping::Moments { ratio: 2.0 },
];

/// Requests from one to far more than keys, a third more each time.
fn requests() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(1.0), |p| Some(p * 1.31)).take_while(|p| *p < 1e10)
}

/// `unique` over those.
fn curve(keys: &Direct) -> Vec<f64> {
    requests().map(|p| keys.unique(p)).collect()
}

/// The largest relative error.
fn farthest(found: &[f64], exact: &[f64]) -> f64 {
    found.iter().zip(exact).map(|(found, exact)| (found / exact - 1.0).abs()).fold(0.0, f64::max)
}

fn exact(keys: u64, skew: f64) -> Direct {
    Direct::new(&Popularity::zipf_grouped(keys, skew, Grouping::Exact).unwrap())
}

/// Definition 1, written out.
fn unique_by_definition(keys: u64, skew: f64, requests: f64) -> f64 {
    let sum: f64 = (1..=keys).rev().map(|i| (i as f64).powf(-skew)).sum();
    (1..=keys).rev().map(|i| 1.0 - (1.0 - (i as f64).powf(-skew) / sum).powf(requests)).sum()
}

#[test]
fn exact_is_the_definition() {
    for skew in [0.0, 0.5, 0.99, 1.5] {
        let keys = exact(2_000, skew);
        for p in [1.0, 10.0, 500.0, 2_000.0, 100_000.0] {
            let defined = unique_by_definition(2_000, skew, p);
            assert!((keys.unique(p) / defined - 1.0).abs() < 1e-10, "{skew} {p}");
        }
    }
}

#[test]
fn grouping_keeps_its_error_bound() {
    for skew in [0.2, 0.8, 0.99, 1.0, 1.2, 2.0] {
        let exact = curve(&exact(30_000, skew));
        for grouping in GROUPINGS {
            let popularity = Popularity::zipf_grouped(30_000, skew, grouping).unwrap();
            let worst = farthest(&curve(&Direct::new(&popularity)), &exact);
            assert!(worst <= popularity.error_bound(), "{skew} {grouping:?}: {worst:e}");
        }
    }
}

#[test]
fn two_moments_beat_the_mean_with_fewer_numbers() {
    let exact = curve(&exact(200_000, 0.99));
    let worst = |grouping| {
        let popularity = Popularity::zipf_grouped(200_000, 0.99, grouping).unwrap();
        (popularity.groups().len(), farthest(&curve(&Direct::new(&popularity)), &exact))
    };
    let (paper, ours) = (worst(Grouping::PAPER), worst(Grouping::default()));
    assert!(ours.0 < paper.0 && ours.1 < paper.1 / 10.0, "{ours:?} {paper:?}");
}

#[test]
fn write_amplification_hardly_notices_grouping() {
    // About 6e-5 at a tenth, 7e-7 at a hundredth, whatever the number of keys.
    let engine = LevelDb::new(400.0, 4.0, vec![1_000.0, 10_000.0, 100_000.0]);
    let exact = engine.total_with(&exact(100_000, 0.99), &engine.level_sizes);
    let error = |grouping| {
        let keys = Direct::new(&Popularity::zipf_grouped(100_000, 0.99, grouping).unwrap());
        (engine.total_with(&keys, &engine.level_sizes) / exact - 1.0).abs()
    };
    assert!((3e-5..1e-4).contains(&error(Grouping::PAPER)));
    assert!(error(Grouping::Mean { ratio: 1.01 }) < 1.5e-6);
    assert!(error(Grouping::default()) < 3e-6);
}

#[test]
fn closed_forms_agree_with_adding_up_the_ranks() {
    // The same grouping from a histogram of single ranks.
    for (keys, skew) in [(1, 0.99), (2, 1.0), (50, 0.3), (20_000, 0.99), (20_000, 1.7)] {
        for grouping in GROUPINGS {
            let closed = Direct::new(&Popularity::zipf_grouped(keys, skew, grouping).unwrap());
            let ranks = (1..=keys).map(|i| ((i as f64).powf(-skew), 1.0));
            let added = Direct::new(&Popularity::histogram(ranks, grouping).unwrap());
            for p in [1.0, 30.0, 1_000.0, 1e6] {
                // Rounding may move a rank at a border from one group to the next.
                let error = (closed.unique(p) / added.unique(p) - 1.0).abs();
                assert!(
                    error < 1e-4 * grouping.error_bound().max(1e-6) + 1e-9,
                    "{keys} {skew} {grouping:?} {p}: {error:e}"
                );
            }
        }
    }
}

#[test]
fn traces_and_histograms_are_the_same() {
    let trace = [1, 1, 1, 2, 3, 3, 1, 4];
    let from_trace = Popularity::trace(trace, Grouping::Exact).unwrap();
    let counted = Popularity::histogram([(4.0, 1.0), (1.0, 2.0), (2.0, 1.0)], Grouping::Exact).unwrap();
    assert_eq!(from_trace, counted);
    assert_eq!(from_trace.keys(), 4.0);
}

#[test]
fn weights_count_bytes() {
    // Half of the keys hold 100 bytes, half 900; popularity is the same.
    let entries = [(1.0, 500.0, 100.0), (1.0, 500.0, 900.0)];
    let bytes = Direct::new(&Popularity::weighted_histogram(entries, Grouping::default()).unwrap());
    let items = Direct::new(&Popularity::uniform(1_000).unwrap());
    assert!((bytes.total() - 500_000.0).abs() < 1e-6 && (bytes.per_request() - 500.0).abs() < 1e-9);
    for p in [1.0, 100.0, 5_000.0] {
        assert!((bytes.unique(p) - 500.0 * items.unique(p)).abs() < 1e-6 * bytes.unique(p));
    }
    // And so the model in bytes is the model in items.
    let engine =
        |scale: f64| LevelDb::new(10.0 * scale, 4.0, vec![50.0 * scale, 300.0 * scale, 1_000.0 * scale]);
    let in_items = engine(1.0).write_amplification(&items).unwrap().write_amplification;
    let in_bytes = engine(500.0).write_amplification(&bytes).unwrap().write_amplification;
    assert!((in_items / in_bytes - 1.0).abs() < 1e-9, "{in_items} {in_bytes}");
}

#[test]
fn large_popular_items_weigh_more_per_request() {
    let entries = [(99.0, 10.0, 10_000.0), (1.0, 990.0, 100.0)];
    let bytes = Popularity::weighted_histogram(entries, Grouping::default()).unwrap();
    // 990 requests for large items and 990 for small ones, of 1,980.
    assert!((bytes.weight_per_request() - 5_050.0).abs() < 1e-6);
}

#[test]
fn inverses_invert() {
    for skew in [0.0, 0.5, 0.99, 1.0, 1.2, 3.0] {
        let keys = Direct::new(&Popularity::zipf(100_000_000, skew).unwrap());
        let table = Tabulated::new(&keys);
        let mut share = 1e-7;
        while share < 0.999_998 {
            let size = share * keys.total();
            let requests = keys.unique_inverse(size);
            assert!((keys.unique(requests) / size - 1.0).abs() < 1e-9, "unique, skew {skew}, share {share}");
            let interval = keys.dinterval(size);
            assert!((keys.size_of_interval(interval) / size - 1.0).abs() < 1e-9, "interval, {skew}, {share}");
            assert!((table.unique_inverse(size) / requests - 1.0).abs() < 1e-6, "table, {skew}, {share}");
            assert!((table.dinterval(size) / interval - 1.0).abs() < 1e-6, "table, {skew}, {share}");
            assert!((table.unique(requests) / size - 1.0).abs() < 1e-6, "table, {skew}, {share}");
            share = (share * 1.5).min(share + 0.5 * (1.0 - share));
        }
        assert_eq!(keys.unique_inverse(keys.total()), f64::INFINITY);
        assert_eq!(keys.unique(f64::INFINITY), keys.unique(1e300));
        assert_eq!((keys.unique(0.0), keys.unique_inverse(0.0), keys.dinterval(0.0)), (0.0, 0.0, 0.0));
    }
}

#[test]
fn dinterval_solves_the_papers_sum() {
    // Theorem 3 and Lemma 2, added up over the distances.
    let keys = exact(3_000, 0.8);
    for size in [30.0, 300.0, 1_500.0, 2_800.0] {
        let interval = keys.dinterval(size);
        let steps = 3_000;
        let density = |d: usize| keys.unique(interval * (d as f64 + 0.5) / f64::from(steps)) / 3_000.0;
        let sum: f64 = (0..steps as usize).map(density).sum();
        assert!((sum / size - 1.0).abs() < 1e-4, "{size}: {sum}");
    }
}

#[test]
fn merging_is_adding_requests() {
    let keys = Direct::new(&Popularity::zipf(10_000_000, 0.99).unwrap());
    for (p, q) in [(100.0, 5_000.0), (1e5, 1e6), (1e7, 1e7)] {
        let merged = keys.merge(keys.unique(p), keys.unique(q));
        assert!((merged / keys.unique(p + q) - 1.0).abs() < 1e-9);
        let three = keys.merge_all(&[keys.unique(p), keys.unique(q), keys.unique(p)]);
        assert!((three / keys.unique(2.0 * p + q) - 1.0).abs() < 1e-9);
    }
    assert_eq!(keys.merge(1e6, 1e7), keys.unique(f64::INFINITY));
}

#[test]
fn nonsense_is_refused_by_name() {
    let parameter = |result: Result<Popularity, siltstone_model::ModelError>| result.unwrap_err().parameter();
    assert_eq!(parameter(Popularity::uniform(0)), "keys");
    assert_eq!(parameter(Popularity::uniform(u64::MAX)), "keys");
    for skew in [-1.0, f64::NAN, f64::INFINITY, 100.0] {
        assert_eq!(parameter(Popularity::zipf(10, skew)), "skew");
    }
    assert_eq!(parameter(Popularity::zipf_grouped(10, 1.0, Grouping::Mean { ratio: 1.0 })), "grouping");
    assert_eq!(parameter(Popularity::histogram([], Grouping::default())), "histogram");
    assert_eq!(parameter(Popularity::histogram([(-1.0, 1.0)], Grouping::default())), "histogram");
    assert_eq!(parameter(Popularity::histogram([(0.0, 1.0)], Grouping::default())), "histogram");
    assert_eq!(parameter(Popularity::trace(Vec::<u8>::new(), Grouping::default())), "trace");
    let one = Popularity::zipf(1, 0.99).unwrap();
    assert_eq!(one.keys(), 1.0);
    assert_eq!(parameter(one.reweighted(|_| 0.0)), "weights");
    let key = Direct::new(&one);
    assert!((key.unique(1.0) - 1.0).abs() < 1e-12);
}
