//! Tests that a search which starts elsewhere comes to what suits a workload, whatever it is in a design.

use super::Request;
use super::moves::of_structure;
use super::search::{Found, Search};
use crate::price::{Costs, Device, Mix, Workload};
use siltstone_design::{Compression, Design, Format, LevelSpec, TableFilterSpec, WriteBufferSpec, presets};

const MIB: u64 = 1 << 20;

/// The best that is found by changes from one design alone, and what that one costs.
fn from(start: &Design, request: &Request) -> (Design, Costs, f64) {
    let pricer = request.pricer().unwrap();
    let mut search = Search::new(request, &pricer, &[]);
    search.consider(start, "start");
    search.change_the_best();
    let Found { best, considered, .. } = search.finish(&[]).unwrap();
    let cost = pricer.price(start, request.memory_bytes).unwrap().cost;
    println!("{considered} designs: {cost:.3} to {:.3} µs, {:?}", best.costs.cost, best.design);
    (best.design, best.costs, cost)
}

fn points(items: f64, mix: [f64; 4]) -> Workload {
    let [hits, misses, scans, puts] = mix;
    Workload { items, mix: Mix { hits, misses, scans, puts }, ..Workload::default() }
}

fn has_format(design: &Design, format: Format) -> bool {
    design.levels.iter().any(|level| level.format == format)
}

#[test]
fn block_tables_become_hash_stores() {
    // Where tables stay as they are, and nearly all that is asked of them is absent.
    let workload = points(5e6, [0.1, 0.9, 0.0, 0.0]);
    let request = Request::new(workload, 256 * MIB);
    let (design, costs, before) = from(&presets::leveled().scaled_to(1 << 20), &request);
    assert!(has_format(&design, Format::Hash), "{design:?}");
    assert!(costs.cost < before);
    // Keys of a group stay in tables that keep them together.
    let grouped = Workload { group_items: 64.0, ..workload };
    let (design, ..) = from(&presets::leveled().scaled_to(1 << 20), &Request::new(grouped, 256 * MIB));
    assert!(design.levels.iter().all(|level| level.format == Format::Block), "{design:?}");
}

/// Whatever a design can say, some change of a design says it, and the engine can run what comes of it.
#[test]
fn changes_reach_all_that_a_design_can_say() {
    let workload = Workload { compressed_ratio: 2.0, ..Workload::default() };
    for (name, preset) in presets::all() {
        let changed: Vec<Design> =
            of_structure(&preset, &workload).into_iter().map(|(_, changed)| changed).collect();
        assert!(changed.iter().all(|design| design.check().is_ok()), "{name}");
        for format in [Format::Block, Format::HTable, Format::Hash, Format::Sorted] {
            let has = |design: &Design| has_format(design, format);
            assert!(has(&preset) || changed.iter().any(has), "{name}: {format:?}");
        }
        for is_log_store in [false, true] {
            let has = |design: &Design| {
                matches!(design.write_buffer, WriteBufferSpec::LogStore { .. }) == is_log_store
            };
            assert!(changed.iter().any(has), "{name}: {is_log_store}");
        }
        let is_compressed = |level: &LevelSpec| level.compression == Compression::Dictionary;
        let some = |design: &&Design| design.levels.iter().filter(|level| is_compressed(level)).count() == 1;
        let all = |design: &&Design| design.levels.iter().all(is_compressed);
        assert!(changed.iter().find(some).is_some() && changed.iter().find(all).is_some(), "{name}");
    }
}

#[test]
fn sorted_stores_give_way_where_most_gets_find_nothing() {
    for memory_mib in [16, 32] {
        let request = Request::new(points(5e6, [0.1, 0.8, 0.0, 0.1]), memory_mib * MIB);
        let (design, ..) = from(&presets::silt().scaled_to(1 << 20), &request);
        assert!(!has_format(&design, Format::Sorted), "{memory_mib} MiB: {design:?}");
    }
}

#[test]
fn a_memtable_becomes_a_log_store_where_memory_is_short() {
    let request = Request::new(points(5e6, [0.2, 0.0, 0.0, 0.8]), 4 * MIB);
    let (design, ..) = from(&presets::lean().scaled_to(1 << 20), &request);
    assert!(matches!(design.write_buffer, WriteBufferSpec::LogStore { .. }), "{design:?}");
}

#[test]
fn bloom_filters_become_cuckoo_filters() {
    let is_cuckoo = |level: &LevelSpec| matches!(level.table_filter, TableFilterSpec::Cuckoo { .. });
    for memory_mib in [64, 128] {
        let request = Request::new(points(5e6, [0.1, 0.8, 0.0, 0.1]), memory_mib * MIB);
        let (design, ..) = from(&presets::leveled().scaled_to(1 << 20), &request);
        assert!(design.levels.iter().any(is_cuckoo), "{memory_mib} MiB: {design:?}");
    }
}

#[test]
fn values_that_can_be_compressed_are_where_writing_is_dear() {
    let slow = Device {
        sequential_write_bytes_per_second: 50e6,
        sequential_read_bytes_per_second: 50e6,
        ..Device::default()
    };
    let workload = Workload { compressed_ratio: 3.0, ..points(5e6, [0.3, 0.1, 0.0, 0.6]) };
    let request = Request { device: slow, ..Request::new(workload, 64 * MIB) };
    let (design, ..) = from(&presets::siltstone().scaled_to(1 << 20), &request);
    assert!(design.levels.iter().any(|level| level.compression == Compression::Dictionary), "{design:?}");
    // And are not where they can't.
    let request = Request { workload: Workload { compressed_ratio: 1.0, ..workload }, ..request };
    let (design, ..) = from(&presets::siltstone().scaled_to(1 << 20), &request);
    assert!(design.levels.iter().all(|level| level.compression == Compression::None), "{design:?}");
}

#[test]
fn popular_items_are_not_kept_in_a_log_store() {
    let workload = Workload { skew: 0.99, overwrites: 5e6, ..points(1e6, [0.2, 0.0, 0.0, 0.8]) };
    let request = Request::new(workload, 16 * MIB);
    let (design, ..) = from(&presets::lean().scaled_to(1 << 20), &request);
    assert!(matches!(design.write_buffer, WriteBufferSpec::MemTable { .. }), "{design:?}");
}
