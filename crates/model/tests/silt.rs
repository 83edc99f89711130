//! SILT's model against what its paper prints (SOSP 2011, section 5 and Figure 8), and against itself.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use siltstone_model::cost::silt::Silt;

fn close(ours: f64, theirs: f64, relative: f64) {
    assert!((ours / theirs - 1.0).abs() <= relative, "{ours} is not {theirs} to {relative}");
}

#[test]
fn the_example_of_section_5() {
    let costs = Silt::default().costs().unwrap();
    // As printed, to the printed digits.
    assert_eq!(format!("{:.1}", costs.write_amplification), "5.4");
    assert_eq!(format!("{:.0}", costs.hash_stores), "31");
    assert_eq!(format!("{:.3}", costs.read_amplification), "1.008");
    assert_eq!(format!("{:.2}", costs.memory_bytes_per_item), "0.73");
    assert_eq!(format!("{:.0}", costs.memory_bytes / 1e6), "73");
    assert_eq!(format!("{:.0}", costs.lifetime_years), "3");
    assert_eq!(costs.false_positive_rate, 1.0 / 4096.0);
    // Worked through, unrounded.
    close(costs.write_amplification, 5.408333333333333, 1e-9);
    close(costs.hash_stores, 30.763687626, 1e-9);
    close(costs.read_amplification, 1.0077548065, 1e-9);
    close(costs.memory_bytes_per_item, 0.7338766348, 1e-9);
    close(costs.lifetime_years, 3.1456, 1e-4);
}

#[test]
fn the_simplified_forms_differ_only_by_rounding() {
    let (costs, printed) = (Silt::default().costs().unwrap(), Silt::default().printed_forms().unwrap());
    close(printed.memory_bytes_per_item, 0.73295728, 1e-9);
    close(printed.read_amplification, 1.0077180043, 1e-9);
    close(costs.hash_stores, printed.hash_stores, 5e-3);
    for tag_bits in 10..=20 {
        for merge_items in [1e6, 7.5e6, 5e7] {
            let silt = Silt { tag_bits, merge_items, ..Silt::default() };
            let (costs, printed) = (silt.costs().unwrap(), silt.printed_forms().unwrap());
            close(costs.read_amplification - 1.0, printed.read_amplification - 1.0, 1e-2);
            close(costs.memory_bytes_per_item, printed.memory_bytes_per_item, 1e-2);
        }
    }
}

#[test]
fn figure_8_merging_less_often_takes_memory_and_spares_writes() {
    let mut last = None;
    for step in 1..=40 {
        let merge_items = 5e5 * f64::from(step);
        let costs = Silt { merge_items, ..Silt::default() }.costs().unwrap();
        if let Some((writes, reads, memory)) = last {
            assert!(costs.write_amplification < writes);
            assert!(costs.read_amplification > reads && costs.memory_bytes_per_item > memory);
        }
        last = Some((costs.write_amplification, costs.read_amplification, costs.memory_bytes_per_item));
    }
    // Twice the entries per merge halve what merging writes and nothing else.
    let doubled = Silt { merge_items: 1.5e7, ..Silt::default() }.costs().unwrap();
    close(doubled.merge_writes, Silt::default().costs().unwrap().merge_writes / 2.0, 1e-12);
    close(doubled.log_writes + doubled.conversion_writes, 2.075, 1e-12);
}

#[test]
fn a_memory_budget_gives_the_merge_size_back() {
    let costs = Silt::default().costs().unwrap();
    let back = Silt { merge_items: 1.0, ..Silt::default() }.with_memory(costs.memory_bytes_per_item).unwrap();
    close(back.merge_items, 7.5e6, 1e-9);
    let error = Silt::default().with_memory(0.41).unwrap_err();
    assert_eq!(error.parameter(), "memory_bytes_per_item");
    assert!(error.to_string().contains("alone take 0.4"), "{error}");
}

#[test]
fn longer_tags_read_less_and_take_more() {
    // With as many entries per store, that is per bucket count, tags would only cost memory; here k sets
    // both.
    let at = |tag_bits| Silt { tag_bits, ..Silt::default() }.costs().unwrap();
    assert!(at(16).read_amplification < at(15).read_amplification);
    assert!(at(16).hash_stores < at(15).hash_stores);
    assert_eq!(at(16).write_amplification, at(15).write_amplification);
    assert!(at(18).memory_bytes_per_item > at(15).memory_bytes_per_item);
}

#[test]
fn nonsense_is_refused_by_name() {
    let base = Silt::default();
    for (silt, name) in [
        (Silt { keys: 0.0, ..base }, "keys"),
        (Silt { instances: f64::NAN, ..base }, "instances"),
        (Silt { merge_items: -1.0, ..base }, "merge_items"),
        (Silt { item_bytes: f64::INFINITY, ..base }, "item_bytes"),
        (Silt { updates_per_second: 0.0, ..base }, "updates_per_second"),
        (Silt { device_bytes: 0.0, ..base }, "device_bytes"),
        (Silt { erase_cycles: 0.0, ..base }, "erase_cycles"),
        (Silt { tag_bits: 0, ..base }, "tag_bits"),
        (Silt { tag_bits: 32, ..base }, "tag_bits"),
    ] {
        assert_eq!(silt.costs().unwrap_err().parameter(), name);
    }
}
