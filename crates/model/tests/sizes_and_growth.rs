//! What `price` says where values differ in size, where a store grows and where items expire, and of opening.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing should fail")]

use siltstone_design::{Design, presets};
use siltstone_model::price::{Costs, Device, Mix, Pricer, Sizes, ValueSize, Workload};

const READS: Mix = Mix { hits: 1.0, misses: 0.0, scans: 0.0, puts: 0.0 };

fn price(design: &Design, workload: &Workload, budget_bytes: u64) -> Costs {
    siltstone_model::price::price(design, workload, &Device::default(), budget_bytes).unwrap()
}

fn over_time(design: &Design, workload: &Workload, budget_bytes: u64) -> Costs {
    let pricer = Pricer::new(workload, &Device::default()).unwrap().over_time();
    pricer.price(design, budget_bytes).unwrap()
}

fn sizes(sizes: &[(f64, f64)]) -> Sizes {
    let all: Vec<_> = sizes.iter().map(|&(value_bytes, share)| ValueSize { value_bytes, share }).collect();
    Sizes::new(&all).unwrap()
}

/// Stores that were really filled in one pass with keys of 16 bytes, and what their tables took per byte of
/// items.
#[test]
fn tables_of_values_of_several_sizes_take_what_was_predicted() {
    type Measured = (&'static str, f64, &'static [(f64, f64)], f64);
    let measured: [Measured; 6] = [
        ("siltstone", 4e5, &[(100.0, 0.9), (10_000.0, 0.1)], 1.2103),
        // Many pages end early, since three quarters of one are still wanted.
        ("siltstone", 4e5, &[(100.0, 0.8), (3000.0, 0.2)], 1.2013),
        ("siltstone", 6e5, &[(200.0, 0.97), (2000.0, 0.02), (50_000.0, 0.01)], 1.0663),
        ("lsm-trie", 4e5, &[(100.0, 0.8), (3500.0, 0.2)], 1.1666),
        // Slots are for the small ones, and then for the large.
        ("silt", 6e5, &[(100.0, 0.9), (1000.0, 0.1)], 2.5987),
        ("silt", 4e5, &[(100.0, 0.5), (1000.0, 0.5)], 1.8530),
    ];
    for (name, items, mixture, table_bytes) in measured {
        let workload = Workload { items, sizes: sizes(mixture), mix: READS, ..Workload::default() };
        let costs = price(&Design::preset(name).unwrap(), &workload, 32 << 20);
        let off = (costs.space_amplification / table_bytes - 1.0).abs();
        assert!(off < 0.012, "{name} {mixture:?}: {} {table_bytes}", costs.space_amplification);
    }
}

/// Stores of values of one size that were really filled in batches of 10 and read with 64 MiB: bytes of a
/// value, items, bytes written per byte, and device reads per hit.
#[test]
fn a_value_that_is_longer_than_a_page_takes_one_more_read_that_is_not_cached() {
    for (value_bytes, items, written, reads) in
        [(10_000.0, 1e5, 3.481, 1.031), (100_000.0, 2e4, 3.383, 1.011)]
    {
        let workload = Workload { items, value_bytes, batch_items: 10.0, mix: READS, ..Workload::default() };
        let costs = price(&presets::siltstone(), &workload, 64 << 20);
        assert!((costs.reads_per_hit - reads).abs() < 0.035, "{value_bytes}: {costs:?}");
        assert!((costs.write_amplification / written - 1.0).abs() < 0.04, "{value_bytes}: {costs:?}");
    }
    // Of a mixture, those that are long, in each format that keeps long ones apart.
    let mixture = sizes(&[(100.0, 3.0), (20_000.0, 1.0)]);
    let workload = Workload { items: 1e5, sizes: mixture, mix: READS, ..Workload::default() };
    for name in ["siltstone", "lsm-trie", "silt"] {
        let ample = price(&Design::preset(name).unwrap(), &workload, 16 << 30);
        assert!((ample.reads_per_hit - 0.25).abs() < 0.005, "{name}: {ample:?}");
        // Five pages each, beside the one that leads there.
        assert!((ample.pages_per_hit - 2.25).abs() < 0.05, "{name}: {ample:?}");
    }
    // Scans fetch each of them.
    let scans = Workload { group_items: 16.0, mix: Mix { scans: 1.0, hits: 0.0, ..READS }, ..workload };
    let ample = price(&presets::siltstone(), &scans, 16 << 30);
    assert!((ample.reads_per_scan - 4.0).abs() < 0.1, "{ample:?}");
    assert!(ample.latency_us.scan > 4.0 * Device::default().read_latency_us, "{ample:?}");
}

#[test]
fn a_mixture_of_one_size_is_that_size() {
    for value_bytes in [0.0, 100.0, 3000.0, 5000.0] {
        let mean = Workload { value_bytes, compressed_ratio: 2.0, ..Workload::default() };
        let mixture = Workload { sizes: sizes(&[(value_bytes, 7.0)]), value_bytes: 1.0, ..mean };
        for (name, design) in presets::all() {
            assert_eq!(price(&design, &mean, 64 << 20), price(&design, &mixture, 64 << 20), "{name}");
        }
        assert_eq!(mixture.item_bytes(), mean.item_bytes());
    }
    let json = r#"{ "items": 1000, "value_bytes": 7 }"#;
    let workload: Workload = serde_json::from_str(json).unwrap();
    assert_eq!((workload.mean_value_bytes(), workload.sizes.is_empty()), (7.0, true));
    let text = serde_json::to_string(&workload).unwrap();
    assert!(!text.contains("sizes") && !text.contains("items_at_end"), "{text}");
    let sized = Workload { sizes: sizes(&[(1.0, 1.0), (3.0, 1.0)]), ..workload };
    let again: Workload = serde_json::from_str(&serde_json::to_string(&sized).unwrap()).unwrap();
    assert_eq!((again, again.mean_value_bytes()), (sized, 2.0));
    for wrong in [r#"[{ "value_bytes": 1, "share": 0 }]"#, r#"[{ "value_bytes": -1, "share": 1 }]"#] {
        assert!(serde_json::from_str::<Sizes>(wrong).is_err(), "{wrong}");
    }
    assert_eq!(Sizes::new(&[ValueSize::default(); 9]).unwrap_err().parameter(), "sizes");
}

#[test]
fn what_a_growing_store_costs_lies_between_its_ends() {
    let workload = Workload { items: 2e6, group_items: 64.0, ..Workload::default() };
    let (small, large) = (workload, Workload { items: 2e7, ..workload });
    let growing = Workload { items_at_end: Some(2e7), ..workload };
    for (name, budget) in [("siltstone", 64 << 20), ("lean", 64 << 20), ("leveled", 16 << 20)] {
        let design = Design::preset(name).unwrap().scaled_to(1 << 20);
        let [first, last, way] = [small, large, growing].map(|of| over_time(&design, &of, budget));
        for (what, of) in [
            ("cost", (|costs| costs.cost) as fn(&Costs) -> f64),
            ("written", |costs| costs.write_amplification),
            ("reads", |costs| costs.reads_per_hit + costs.reads_per_miss),
        ] {
            let (low, high) = (of(&first).min(of(&last)), of(&first).max(of(&last)));
            assert!(
                (low - 1e-9..=high + 1e-9).contains(&of(&way)),
                "{name} {what}: {low} {} {high}",
                of(&way)
            );
        }
        // Limits are for the worst of it, and the store is as large as it ends.
        assert_eq!(
            way.memory_bytes.unfitted(),
            last.memory_bytes.unfitted().max(first.memory_bytes.unfitted())
        );
        let peak = first.peak_space_amplification.max(last.peak_space_amplification);
        assert!(way.peak_space_amplification >= peak);
        assert_eq!((way.table_bytes, way.live_items), (last.table_bytes, 2e7), "{name}");
        // Without time there is no way.
        assert_eq!(price(&design, &growing, budget), price(&design, &small, budget));
    }
    let same = Workload { items_at_end: Some(2e6), ..workload };
    let design = presets::siltstone();
    assert_eq!(over_time(&design, &same, 64 << 20), over_time(&design, &small, 64 << 20));
    let fewer = Workload { items_at_end: Some(1e6), ..workload };
    assert_eq!(Pricer::new(&fewer, &Device::default()).unwrap_err().parameter(), "items-at-end");
}

#[test]
fn years_of_a_growing_store_are_those_of_what_it_writes() {
    let workload =
        Workload { items: 2e6, items_at_end: Some(2e7), puts_per_second: Some(1e4), ..Workload::default() };
    let costs = over_time(&presets::siltstone().scaled_to(1 << 20), &workload, 64 << 20);
    let device = Device::default();
    let years = device.endurance_bytes.unwrap()
        / (costs.drive_writes_per_day.unwrap() * device.capacity_bytes.unwrap() * 365.25);
    assert!((costs.device_years.unwrap() / years - 1.0).abs() < 1e-9, "{costs:?}");
}

#[test]
fn items_that_are_overwritten_live_on() {
    let design = presets::siltstone().scaled_to(1 << 20);
    let overwritten = Workload { items: 1e6, overwrites: 2e7, ..Workload::default() };
    let expiring = Workload { expires_after_puts: Some(1e6), ..overwritten };
    let (all, some) = (price(&design, &overwritten, 64 << 20), price(&design, &expiring, 64 << 20));
    // Of a million items as many are there as a million puts touch.
    assert!((some.live_items / (1e6 * -(-1f64).exp_m1()) - 1.0).abs() < 1e-6, "{}", some.live_items);
    assert!(some.table_bytes < all.table_bytes, "{} {}", some.table_bytes, all.table_bytes);
    // What has expired takes room until it is merged away at the bottom.
    assert!(some.space_amplification > 1.05 && some.mean_space_amplification > 1.1, "{some:?}");
}

#[test]
fn gets_find_what_has_not_expired_in_young_runs() {
    let design = presets::stepped_merge().scaled_to(1 << 20);
    let grown = Workload { items: 2e7, mix: READS, ..Workload::default() };
    let expiring = Workload { expires_after_puts: Some(1e6), ..grown };
    let (all, some) = (over_time(&design, &grown, 64 << 20), over_time(&design, &expiring, 64 << 20));
    // They are a twentieth, and in runs that are asked first: fewer wrong filters before, and more in the
    // cache.
    assert!(some.pages_per_hit < all.pages_per_hit, "{} {}", some.pages_per_hit, all.pages_per_hit);
    assert!(some.reads_per_hit < 0.8 * all.reads_per_hit, "{} {}", some.reads_per_hit, all.reads_per_hit);
    // What has expired and lies there yet is scanned all the same.
    let scans = Mix { scans: 1.0, hits: 0.0, ..READS };
    let grouped = Workload { group_items: 2e4, mix: scans, ..expiring };
    // As many of a group are there that have not expired.
    let fewer = Workload { items: 1e6, group_items: 1e3, expires_after_puts: None, ..grouped };
    let [expiring, fewer] = [grouped, fewer].map(|of| over_time(&design, &of, 64 << 20).pages_per_scan);
    assert!(expiring > 1.15 * fewer, "{expiring} {fewer}");
}

/// The store that grew to a thousand million items of 16 + 16 bytes with 512 MiB, closed and opened again
/// (docs/measured/growth-1G.json): nearly all of the time goes to filters.
#[test]
fn stores_open_in_about_the_time_that_was_measured() {
    let measured = [(1e7, 0.053), (3e7, 0.159), (1e8, 0.343), (3e8, 0.597), (1e9, 0.690)];
    let mut predicted = Vec::new();
    for (items, seconds) in measured {
        let workload = Workload { items, value_bytes: 16.0, group_items: 128.0, ..Workload::default() };
        let device = Device { processor_time: 0.72, ..Device::default() };
        let pricer = Pricer::new(&workload, &device).unwrap();
        let costs = pricer.price(&presets::siltstone(), 512 << 20).unwrap();
        println!("{items}: {:.3} {seconds}", costs.open_seconds);
        assert!((0.9..1.9).contains(&(costs.open_seconds / seconds)), "{items}: {}", costs.open_seconds);
        predicted.push(costs.open_seconds);
    }
    // Without filters there is little to read.
    let workload = Workload { items: 1e8, value_bytes: 16.0, group_items: 128.0, ..Workload::default() };
    let without = price(&presets::leveled(), &workload, 512 << 20);
    assert!(without.open_seconds < predicted[2] / 4.0, "{}", without.open_seconds);
}
