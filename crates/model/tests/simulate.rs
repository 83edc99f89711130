//! The simulators against what is known otherwise: printed and published simulations, the planner's own
//! promises, and what the same store must do whichever way it is asked.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use serde_json::Value;
use siltstone_design::presets;
use siltstone_model::engines::sizes;
use siltstone_model::simulate::{
    LevelState, Leveled, Load, Measured, Order, Pick, Protocol, Ranks, simulate_design,
};

fn run(store: &Leveled, ranks: &Ranks, protocol: &Protocol) -> Measured {
    store.simulate(ranks, protocol, &mut |_, _| {}).unwrap()
}

/// LevelDB with tables of 210 items and everything else as large for it as by default.
fn small(keys: u64) -> Leveled {
    Leveled::leveldb(sizes::geometric(1048.576, 10.0, keys as f64).unwrap(), 10_000.0).unwrap()
}

#[test]
fn equal_seeds_make_equal_runs() {
    let ranks = Ranks::zipf(50_000, 0.99).unwrap();
    let protocol = Protocol::paper(50_000);
    let measured = |seed| run(&small(50_000), &ranks, &Protocol { seed, ..protocol });
    assert_eq!(measured(7), measured(7));
    assert_ne!(measured(7), measured(8));
    let total = |seed| measured(seed).cost.write_amplification;
    assert!((total(7) / total(8) - 1.0).abs() < 0.02, "seeds differ by chance only");
}

#[test]
fn progress_reaches_the_end() {
    let mut heard = Vec::new();
    let protocol = Protocol::steady(10_000);
    let ranks = Ranks::uniform(10_000).unwrap();
    small(10_000).simulate(&ranks, &protocol, &mut |done, total| heard.push((done, total))).unwrap();
    assert!(heard.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert_eq!(heard.last(), Some(&(100_000, 100_000)));
}

#[test]
fn levels_come_to_rest_within_their_sizes() {
    let ranks = Ranks::zipf(100_000, 0.5).unwrap();
    for order in [Order::Uppermost, Order::Fullest] {
        for pick in [Pick::RoundRobinByFirstKey, Pick::RoundRobinByLastKey, Pick::Largest, Pick::LeastOverlap]
        {
            let measured = run(&Leveled { pick, order, ..small(100_000) }, &ranks, &Protocol::paper(100_000));
            let levels = measured.level_items.iter().zip(&measured.cost.level_sizes_items);
            assert!(levels.clone().rev().skip(1).all(|(items, size)| items < size), "{pick:?}: {measured:?}");
            assert!(measured.level_items.iter().sum::<f64>() >= 99_000.0, "nothing is lost");
        }
    }
}

#[test]
fn the_log_takes_each_request_and_a_flush_each_version_where_asked() {
    let ranks = Ranks::zipf(50_000, 0.99).unwrap();
    let step = |flush_dedup: bool, step: usize| {
        let store = Leveled { flush_dedup, ..small(50_000) };
        run(&store, &ranks, &Protocol::paper(50_000)).cost.steps[step].write_amplification
    };
    assert_eq!(step(true, 0), 1.0);
    assert_eq!(step(false, 1), 1.0);
    assert!((0.4..0.9).contains(&step(true, 1)));
    assert_eq!(step(true, 2), step(false, 2), "what is merged into level 1 is the same");
}

#[test]
fn options_change_what_they_say() {
    let ranks = Ranks::uniform(200_000).unwrap();
    let total = |change: &dyn Fn(&mut Leveled)| {
        let mut store = small(200_000);
        change(&mut store);
        run(&store, &ranks, &Protocol::paper(200_000)).cost.write_amplification
    };
    let base = total(&|_| {});
    // §7: round-robin saves up to 32 % of what picking the largest table writes.
    let largest = total(&|store| store.pick = Pick::Largest);
    assert!((0.15..0.35).contains(&(1.0 - base / largest)), "{base} {largest}");
    // Fewer false overlaps; no rewriting where nothing overlaps.
    let expanded = total(&|store| store.expand_inputs = true);
    assert!(expanded < base, "{expanded} {base}");
    let moved = total(&|store| {
        store.trivial_moves = true;
        store.grandparent_tables = None;
    });
    let unmoved = total(&|store| store.grandparent_tables = None);
    assert!(moved < unmoved, "{moved} {unmoved}");
}

#[test]
fn growth_costs_less_than_updates() {
    let ranks = Ranks::uniform(300_000).unwrap();
    let growth = run(&small(300_000), &ranks, &Protocol::growth(300_000)).cost.write_amplification;
    let steady = run(&small(300_000), &ranks, &Protocol::steady(300_000)).cost.write_amplification;
    assert!(growth < steady * 0.9, "{growth} {steady}");
    assert_eq!(Protocol::growth(1).load, Load::Empty);
}

#[test]
fn a_miniature_is_like_the_store() {
    for skew in [0.0, 0.99] {
        let ranks = Ranks::zipf(1_000_000, skew).unwrap();
        let store = Leveled::leveldb(sizes::geometric(10_485.76, 10.0, 1e6).unwrap(), 1000.0).unwrap();
        let total = |miniature| {
            let protocol = Protocol { miniature, requests: 3_000_000, ..Protocol::paper(1_000_000) };
            run(&store, &ranks, &protocol).cost.write_amplification
        };
        let bias = total(10) / total(1) - 1.0;
        println!("skew {skew}: 1 key in 10 is off by {:+.2} %", 100.0 * bias);
        assert!(bias.abs() < 0.03, "{bias}");
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    let ranks = Ranks::uniform(1000).unwrap();
    let protocol = Protocol::paper(1000);
    let refused = |store: &Leveled, protocol: &Protocol| {
        store.simulate(&ranks, protocol, &mut |_, _| {}).unwrap_err().parameter()
    };
    assert_eq!(refused(&Leveled { write_buffer: 0.0, ..small(1000) }, &protocol), "write-buffer");
    assert_eq!(refused(&Leveled { table: f64::NAN, ..small(1000) }, &protocol), "table-bytes");
    assert_eq!(refused(&Leveled { level0_tables: 0, ..small(1000) }, &protocol), "l0-files");
    assert_eq!(refused(&Leveled { level_sizes: vec![], ..small(1000) }, &protocol), "level-sizes");
    assert_eq!(refused(&small(1000), &Protocol { requests: 0, ..protocol }), "requests");
    assert_eq!(refused(&small(1000), &Protocol { miniature: 0, ..protocol }), "miniature");
    assert_eq!(refused(&small(1000), &Protocol { miniature: 1001, ..protocol }), "miniature");
    assert!(
        Ranks::uniform(0).is_err() && Ranks::zipf(10, -1.0).is_err() && Ranks::zipf(10, f64::NAN).is_err()
    );
    assert!(Ranks::groups(vec![(3, 0.0)]).is_err() && Ranks::groups(vec![]).is_err());
}

/// The published simulator's runs, and the paper's, against ours: `total`, and every step that adds 2 % or
/// more.
fn check_reference(at_most: f64) {
    let file: Value = serde_json::from_str(include_str!("reference/models.json")).unwrap();
    let mut checked = 0;
    for point in file["points"].as_array().unwrap() {
        let id = point["id"].as_str().unwrap();
        let (inputs, expect) = (&point["inputs"], &point["expect"]);
        let number = |value: &Value| value.as_f64().unwrap();
        let keys = inputs["N"].as_f64().unwrap_or(f64::INFINITY);
        // The authors' modes 2 and 3 pick tables as no engine does; the paper's own runs are of 100 million
        // keys, and the optimised one does not print its sizes.
        let other = id.ends_with("mode2") || id.ends_with("mode3") || id == "paper-t1-sim-opt";
        if point["kind"] != "simulator" || other || keys > at_most {
            continue;
        }
        let custom = inputs["level_threshold_bytes"].as_array().filter(|_| id.ends_with("opt"));
        let level_sizes = match custom {
            Some(bytes) => bytes.iter().map(|size| number(size) / 1000.0).collect(),
            None => sizes::geometric(10_485.76, 10.0, keys).unwrap(),
        };
        let mut store = Leveled::leveldb(level_sizes, 1000.0).unwrap();
        if let Some(bytes) = inputs["wal_bytes"].as_f64() {
            store.write_buffer = bytes / 1000.0;
        }
        if custom.is_some() {
            // The authors' simulator drops this limit with sizes of one's own.
            store.grandparent_tables = None;
        }
        if id.ends_with("exact_real") {
            store.pick = Pick::RoundRobinByLastKey;
        }
        let skew = number(&inputs["s"]);
        let measured = run(&store, &Ranks::zipf(keys as u64, skew).unwrap(), &Protocol::paper(keys as u64));
        let (ours, theirs) = (measured.cost.write_amplification, number(&expect["total"]));
        // Their Zipf sampler is about 2 % light in the tail, and their limit on grandparents is not
        // documented.
        let exact_sampler = id.contains("exact") || skew == 0.0;
        let tolerance = if exact_sampler { 0.01 } else { 0.025 };
        println!("{id}: {ours:.4}, published {theirs:.4} ({:+.2} %)", 100.0 * (ours / theirs - 1.0));
        assert!((ours / theirs - 1.0).abs() <= tolerance, "{id}: {ours} {theirs}");
        for (step, published) in measured.cost.steps.iter().zip(expect["wa_levels"].as_array().unwrap()) {
            let off = (step.write_amplification - number(published)).abs();
            assert!(off <= 0.02 * theirs, "{id}, {} to {}: off by {off}", step.from, step.to);
        }
        checked += 1;
    }
    assert!(checked >= 6, "{checked}");
}

#[test]
fn published_simulations_are_reproduced() {
    check_reference(1e6);
}

#[test]
#[ignore = "minutes: all published runs up to 33 million keys; SILTSTONE_LONG=1 adds the paper's of 100 million"]
fn all_published_simulations_are_reproduced() {
    check_reference(if std::env::var_os("SILTSTONE_LONG").is_some() { 1e8 } else { 3.3e7 });
}

#[test]
fn a_design_that_only_grows_writes_each_item_once_a_level() {
    let design = presets::stepped_merge();
    let ranks = Ranks::uniform(2_000_000).unwrap();
    // Every key once: nothing is overwritten, so nothing is dropped and nothing dead.
    let protocol = Protocol { load: Load::Sequential, warm_up: 0, requests: 1, seed: 3, miniature: 1 };
    let measured = simulate_design(&design, 2048.0, &ranks, &protocol, &mut |_, _| {}).unwrap();
    assert!((measured.space_amplification - 1.0).abs() < 0.01, "{measured:?}");
    let items: f64 = measured.levels.iter().map(|level| level.items).sum();
    assert!((items / 2e6 - 1.0).abs() < 0.01);
    for (level, state) in measured.levels.iter().enumerate() {
        let limit = u64::from(design.level(level).runs) * 3 / 2 + 1;
        assert!(state.most_runs <= limit, "level {level}: {state:?}");
    }
}

#[test]
fn overwrites_in_a_design_stay_within_its_garbage() {
    let ranks = Ranks::zipf(1_000_000, 0.5).unwrap();
    // SILT's hash stores alone take as much as a store of this size.
    let bounded = presets::all().into_iter().filter(|(name, _)| *name != "silt");
    for (name, design) in bounded {
        let protocol = Protocol { requests: 2_000_000, ..Protocol::steady(1_000_000) };
        let run = |miniature| {
            let protocol = Protocol { miniature, ..protocol };
            simulate_design(&design, 1000.0, &ranks, &protocol, &mut |_, _| {}).unwrap()
        };
        let measured = run(10);
        println!(
            "{name}: {:.3}, space {:.3}",
            measured.cost.write_amplification, measured.space_amplification
        );
        // Dead data in leaves is bounded, and above them lies at most a region or two per region. In levels
        // that are no leaves nothing is reclaimed: a store too small to reach its leaves holds whole regions.
        let runs = |state: &LevelState| state.runs as f64 / state.regions.max(1) as f64;
        let most_space = if measured.levels.len() >= design.levels.len() {
            1.0 / (1.0 - design.max_garbage) + 0.5
        } else {
            measured.levels.iter().map(runs).fold(1.0, f64::max)
        };
        assert!(measured.most_space_amplification < most_space, "{name}: {measured:?}");
        assert!(measured.space_amplification <= measured.most_space_amplification);
        assert!((60..=101).contains(&measured.timeline.len()), "{}", measured.timeline.len());
        let steps: f64 = measured.cost.steps.iter().map(|step| step.write_amplification).sum();
        assert!((steps - measured.cost.write_amplification).abs() < 1e-9 && steps > 2.0);
        assert_eq!(measured, run(10));
    }
}
