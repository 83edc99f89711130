//! What `price` says of stores that were really filled: the engine's own counters, of fills in batches of
//! 100 with items of 16 + 100 and 16 + 16 bytes (`siltstone bench fill`).

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that finds nothing should fail")]

use siltstone_design::design::LOG_STORE_FILL;
use siltstone_design::{Compression, Design, RegionFilterSpec, WriteBufferSpec, presets};
use siltstone_model::ModelError;
use siltstone_model::price::{Costs, Device, Mix, Pricer, Workload};

const BUDGET_BYTES: u64 = 1 << 30;

/// A store that was filled, and what its counters said.
struct Point {
    preset: &'static str,
    workload: Workload,
    write_amplification: f64,
    /// Bytes of tables per byte of keys and values.
    table_bytes: f64,
    index_bits_per_item: f64,
}

fn point(preset: &'static str, items: f64, value_bytes: f64, group_items: f64, measured: [f64; 3]) -> Point {
    let [write_amplification, table_bytes, index_bits_per_item] = measured;
    let workload = Workload { items, value_bytes, group_items, batch_items: 100.0, ..Workload::default() };
    Point { preset, workload, write_amplification, table_bytes, index_bits_per_item }
}

#[rustfmt::skip]
fn points() -> Vec<Point> { vec![
    point("lean", 2e7, 16.0, 128.0, [4.268, 0.891, 0.216]),
    point("lean", 5e6, 100.0, 128.0, [3.958, 0.986, 0.877]),
    point("leveled", 2e7, 16.0, 128.0, [6.118, 0.918, 0.478]),
    point("leveled", 5e6, 100.0, 128.0, [6.288, 0.993, 1.019]),
    point("lsm-trie", 2e7, 16.0, 1.0, [4.611, 1.233, 0.075]),
    point("lsm-trie", 5e6, 100.0, 1.0, [3.740, 1.093, 0.334]),
    point("silt", 2e7, 16.0, 1.0, [4.427, 1.079, 0.226]),
    point("silt", 5e6, 100.0, 1.0, [2.709, 1.061, 0.316]),
    point("siltstone", 2e7, 16.0, 128.0, [3.158, 0.958, 0.199]),
    point("siltstone", 5e6, 100.0, 128.0, [3.000, 1.003, 0.812]),
    point("slimdb", 2e7, 16.0, 128.0, [3.383, 0.893, 0.163]),
    point("slimdb", 5e6, 100.0, 128.0, [3.379, 0.985, 0.508]),
    point("stepped-merge", 2e7, 16.0, 128.0, [3.570, 0.927, 0.480]),
    point("stepped-merge", 5e6, 100.0, 128.0, [3.426, 0.995, 1.568]),
] }

fn price(design: &Design, workload: &Workload, budget_bytes: u64) -> Result<Costs, ModelError> {
    siltstone_model::price::price(design, workload, &Device::default(), budget_bytes)
}

fn costs(preset: &str, workload: &Workload) -> Costs {
    price(&Design::preset(preset).unwrap(), workload, BUDGET_BYTES).unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn fills_write_and_take_what_was_predicted() {
    let (mut writes, mut space, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
    for Point { preset, workload, write_amplification, table_bytes, index_bits_per_item } in points() {
        let costs = costs(preset, &workload);
        let off = |predicted: f64, measured: f64| (predicted / measured - 1.0).abs();
        let errors = [
            off(costs.write_amplification, write_amplification),
            off(costs.space_amplification, table_bytes),
            off(costs.index_bits_per_item, index_bits_per_item),
        ];
        println!("{preset} {} of {} bytes: {errors:.3?}", workload.items, workload.item_bytes());
        // When a region is pushed depends on how far merges are behind, and a small store is a few pushes.
        assert!(errors[0] < 0.09 && errors[1] < 0.03 && errors[2] < 0.2, "{preset}: {errors:.3?}");
        writes.push(errors[0]);
        space.push(errors[1]);
        indexes.push(errors[2]);
    }
    let medians = [median(writes), median(space), median(indexes)];
    println!("medians: {medians:.4?}");
    assert!(medians[0] < 0.03 && medians[1] < 0.01 && medians[2] < 0.06, "{medians:?}");
}

#[test]
fn a_larger_store_writes_more_by_the_logarithm() {
    let write =
        |items: f64| costs("siltstone", &Workload { items, ..Workload::default() }).write_amplification;
    let (million, billion) = (write(1e6), write(1e9));
    assert!(million < billion && billion < million + 4.0, "{million} {billion}");
}

#[test]
fn overwrites_make_garbage_that_stays_within_bounds() {
    for (name, design) in presets::all() {
        let grown = Workload { items: 4e6, ..Workload::default() };
        let workload = Workload { overwrites: 2e7, ..grown };
        let before = costs(name, &grown);
        let after = price(&design, &workload, BUDGET_BYTES).unwrap();
        println!(
            "{name}: grown {:.2} ({:.2}), overwritten {:.2} ({:.2} mean, {:.2} peak)",
            before.write_amplification,
            before.space_amplification,
            after.write_amplification,
            after.mean_space_amplification,
            after.peak_space_amplification
        );
        assert!(after.mean_space_amplification <= after.peak_space_amplification + 1e-9);
        assert!(after.space_amplification >= before.space_amplification * 0.98, "{name}");
        // Popular keys meet in the write buffer, so less is written.
        let skewed = price(&design, &Workload { skew: 0.99, ..workload }, BUDGET_BYTES).unwrap();
        assert!(skewed.write_amplification < after.write_amplification, "{name}");
    }
}

#[test]
fn filters_spare_reads_until_they_do_not_fit() {
    let workload = Workload { items: 2e7, group_items: 128.0, ..Workload::default() };
    let ample = price(&presets::siltstone(), &workload, 1 << 30).unwrap();
    assert!(ample.pages_per_hit < 1.02 && ample.reads_per_miss < 0.02, "{ample:?}");
    assert!(ample.reads_per_hit < ample.pages_per_hit && ample.memory_bytes.unfitted() == 0.0);
    // Maplets get shorter as long as that helps, and cuckoo filters are done without.
    let small = |preset: Design| preset.scaled_to(1 << 20);
    let shorter = price(&small(presets::siltstone()), &workload, 48 << 20).unwrap();
    assert!(shorter.memory_bytes.unfitted() == 0.0, "{shorter:?}");
    assert!(shorter.filter_bits_per_item < ample.filter_bits_per_item, "{shorter:?}");
    assert!(shorter.pages_per_hit > ample.pages_per_hit && shorter.pages_per_hit < 1.6, "{shorter:?}");
    let without = price(&small(presets::slimdb()), &workload, 48 << 20).unwrap();
    assert!(without.memory_bytes.unfitted() > 0.0, "{without:?}");
    // Where not even one bit fits, runs are joined: fewer are read, and more is written.
    let joined = price(&small(presets::siltstone()), &workload, 16 << 20).unwrap();
    assert!(joined.memory_bytes.unfitted() > 0.0, "{joined:?}");
    assert!(joined.pages_per_miss < 8.0, "{joined:?}");
    let reading = Mix { hits: 1.0, misses: 0.0, scans: 0.0, puts: 0.0 };
    let unjoined = Workload { mix: reading, ..workload };
    let unjoined = price(&small(presets::siltstone()), &unjoined, 8 << 20).unwrap();
    assert!(joined.write_amplification > unjoined.write_amplification, "{unjoined:?}");
    assert!(joined.pages_per_miss < unjoined.pages_per_miss, "{unjoined:?}");
    // One run a leaf and no filter: a page for a hit and a page for a miss.
    let lean = price(&presets::lean(), &workload, 64 << 20).unwrap();
    assert!(lean.pages_per_hit < 1.05 && (0.8..1.05).contains(&lean.reads_per_miss), "{lean:?}");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let of = |workload: Workload| price(&presets::siltstone(), &workload, 1 << 30).unwrap_err();
    assert_eq!(of(Workload { items: 0.0, ..Workload::default() }).parameter(), "items");
    assert_eq!(of(Workload { overwrites: f64::NAN, ..Workload::default() }).parameter(), "overwrites");
    let prefix = Workload { group_items: 8.0, prefix_bytes: 16.0, ..Workload::default() };
    assert_eq!(of(prefix).parameter(), "prefix-bytes");
    let mut design = presets::siltstone();
    design.levels.clear();
    assert_eq!(price(&design, &Workload::default(), 1 << 30).unwrap_err().parameter(), "design");
}

#[test]
fn deletes_and_expiry_make_room() {
    for (name, design) in presets::all() {
        let grown = Workload { items: 2e6, ..Workload::default() };
        let of = |workload: &Workload| price(&design, workload, BUDGET_BYTES).unwrap();
        let before = of(&grown);
        // A third of two million items is deleted, again and again.
        let deleted = of(&Workload { deletes: 1e6, ..grown });
        assert!((deleted.live_items / (2e6 * (-0.5f64).exp()) - 1.0).abs() < 1e-3, "{name}: {deleted:?}");
        // Tombstones are small, and what they delete leaves.
        let grown_by = deleted.table_bytes / before.table_bytes;
        assert!(grown_by < 1.5, "{name}: {grown_by}");
        // Of twenty million puts the last million is there: far less than all of them take.
        let all = of(&Workload { items: 2e7, ..grown });
        let expiring = of(&Workload { items: 2e7, expires_after_puts: Some(1e6), ..grown });
        assert_eq!(expiring.live_items, 1e6, "{name}");
        assert!(
            expiring.table_bytes < all.table_bytes,
            "{name}: {} {}",
            expiring.table_bytes,
            all.table_bytes
        );
        // Leaves are rewritten to let go of what has expired, and there is less to push.
        assert!(expiring.write_amplification < 2.0 * all.write_amplification, "{name}");
    }
}

/// A rewrite of a level 0 that is the only one kept its garbage, and was due again for ever.
#[test]
fn stores_of_one_level_come_to_rest() {
    let deletes = Workload { overwrites: 2e5, deletes: 1e5, ..Workload::default() };
    let expiry = Workload { expires_after_puts: Some(3e5), ..Workload::default() };
    for preset in ["siltstone", "lsm-trie", "slimdb", "silt"] {
        for max_garbage in [0.1, 0.4, 0.9] {
            let mut design = Design::preset(preset).unwrap();
            design.levels.drain(..design.levels.len() - 1);
            design.levels[0].runs = design.levels[0].runs.max(4);
            design.max_garbage = max_garbage;
            for workload in [&deletes, &expiry] {
                let costs = price(&design, workload, BUDGET_BYTES).unwrap();
                let space = costs.space_amplification;
                assert!(space < 1.5 / (1.0 - max_garbage), "{preset}, {max_garbage}: {space}");
            }
        }
    }
}

#[test]
fn a_better_device_and_more_memory_cost_less() {
    let workload = Workload { items: 1e7, group_items: 128.0, ..Workload::default() };
    let device = Device::default();
    let of = |device: &Device, budget| {
        siltstone_model::price::price(&presets::siltstone(), &workload, device, budget).unwrap()
    };
    let slow = Device { random_reads_per_second: 1e3, processor_time: 2.0, ..device };
    let (usual, slow) = (of(&device, 64 << 20), of(&slow, 64 << 20));
    assert!(slow.cost > usual.cost && (slow.cpu_us_per_put / usual.cpu_us_per_put - 2.0).abs() < 1e-9);
    let mut last = f64::INFINITY;
    for budget in [16u64, 24, 32, 48, 64, 128, 256, 1024] {
        let costs = of(&device, budget << 20);
        let m = &costs.memory_bytes;
        assert!(costs.operation_cost.hit <= last * 1.0001, "{budget} MiB: {costs:?}");
        assert!(
            m.total <= m.budget
                && (m.memtable + m.filter + m.index + m.cache + m.compaction - m.total).abs() < 1.0
        );
        last = costs.operation_cost.hit;
    }
    // The cost of a mix is that of its parts.
    let parts = usual.operation_cost;
    assert!((parts.of(&workload.mix) / usual.cost - 1.0).abs() < 1e-12);
}

#[test]
fn a_probed_device_has_a_lifetime() {
    let probed = r#"{ "bytes": 1073741824, "random_reads": [{ "threads": 1, "batch": 1, "reads_per_second": 20000.0 },
        { "threads": 1, "batch": 32, "reads_per_second": 90000.0 }], "capacity_bytes": 1e12, "endurance_bytes": 6e14,
        "sync_us": { "p50": 100.0, "p99": 200.0, "max": 300.0 } }"#;
    let device = Device::from_json(probed).unwrap();
    assert_eq!(device.random_reads_per_second, 90_000.0);
    assert_eq!((device.read_latency_us, device.sync_us), (50.0, 100.0));
    // What a device is written as is read again.
    assert_eq!(Device::from_json(&serde_json::to_string(&device).unwrap()).unwrap(), device);
    let workload = Workload { puts_per_second: Some(1e4), ..Workload::default() };
    let costs = siltstone_model::price::price(&presets::siltstone(), &workload, &device, 1 << 28).unwrap();
    let day = 1e4 * 116.0 * 86_400.0 * costs.change_write_amplification;
    assert!((costs.drive_writes_per_day.unwrap() / (day / 1e12) - 1.0).abs() < 1e-9);
    assert!((costs.device_years.unwrap() / (6e14 / day / 365.25) - 1.0).abs() < 1e-9);
    let idle = Workload::default();
    let costs = siltstone_model::price::price(&presets::siltstone(), &idle, &device, 1 << 28).unwrap();
    assert_eq!((costs.drive_writes_per_day, costs.device_years), (None, None));
    for no_device in [
        "",
        "[]",
        "{}",
        r#"{ "threads": "x" }"#,
        r#"{ "best": { "design": {} }, "seconds": 1.0, "workload": { "items": 3.0 } }"#,
        r#"{ "random_reads": [] }"#,
        r#"{ "read_latency_us": "x" }"#,
        r#"{ "random_reads": [{ "threads": "x", "reads_per_second": 3.0 }] }"#,
        r#"{ "sync_us": { "p99": 3.0 } }"#,
    ] {
        let wrong = Device::from_json(no_device).unwrap_err();
        assert_eq!(wrong.parameter(), "device");
        assert!(wrong.message().contains("siltstone probe DIR --json > FILE"), "{no_device}: {wrong}");
    }
    let wrong = Device::from_json(r#"{ "processor_time": 0 }"#).unwrap_err();
    assert_eq!(wrong.parameter(), "processor_time");
}

#[test]
fn compression_saves_writes_and_space_where_the_workload_can_be_compressed() {
    let design = presets::siltstone();
    let compressed = design.with_compression(Compression::Dictionary);
    let plain = Workload { items: 2e7, value_bytes: 200.0, ..Workload::default() };
    let text = Workload { compressed_ratio: 2.2, ..plain };
    let cost = |design: &Design, workload: &Workload| price(design, workload, BUDGET_BYTES).unwrap();
    let (before, after) = (cost(&design, &text), cost(&compressed, &text));
    let held = before.table_bytes / after.table_bytes;
    assert!((1.9..2.3).contains(&held), "{held}");
    let tables = |costs: &Costs| costs.write_amplification - costs.log_amplification;
    let written = tables(&before) / tables(&after);
    assert!((1.7..3.0).contains(&written), "{written}");
    // The log holds what was put, and more of the pages fit the cache.
    assert_eq!(before.log_amplification, after.log_amplification);
    assert!((before.pages_per_hit - after.pages_per_hit).abs() < 0.05);
    assert!(after.reads_per_hit <= before.reads_per_hit);
    assert!(after.cpu_us_per_put > before.cpu_us_per_put, "encoding takes time");
    // Where nothing is gained, tables store items as they are.
    assert_eq!(cost(&design, &plain), cost(&compressed, &plain));
}

/// Stores of five million items of 16 + 100 bytes that were really filled, overwritten twice and read, with too
/// little memory for their filters: the preset, and device reads per hit and per miss (docs/predictions.md).
#[test]
fn filters_that_do_not_fit_are_shorter_or_those_of_the_deepest_levels_lack() {
    let measured = [("siltstone", 1.010, 0.037), ("slimdb", 0.999, 1.000)];
    for (name, hit, miss) in measured {
        let design = Design::preset(name).unwrap().scaled_to(2 << 20);
        let mix = Mix { hits: 1.0, misses: 0.0, scans: 0.0, puts: 0.0 };
        let workload = Workload { items: 5e6, overwrites: 1e7, mix, ..Workload::default() };
        let workload = Workload { group_items: 64.0, batch_items: 100.0, ..workload };
        let costs = price(&design, &workload, 16 << 20).unwrap();
        assert_eq!(costs.memory_bytes.unfitted() > 0.0, name == "slimdb", "{name}");
        let off = [costs.reads_per_hit - hit, costs.reads_per_miss - miss].map(f64::abs);
        assert!(off[0] < 0.02 + 0.05 * hit && off[1] < 0.02 + 0.05 * miss, "{name}: {off:?}");
    }
}

/// Stores of five million items that were really filled, overwritten and read: the preset, bytes of a value,
/// the skew, the budget, and device reads per hit and per miss (docs/predictions.md).
#[test]
fn pages_that_are_asked_for_more_than_others_stay_in_the_cache() {
    let measured = [
        // Items that are asked for often lie together in young runs.
        ("lsm-trie", 32.0, 0.99, 60_000_000, 0.227, 0.001),
        ("lsm-trie", 32.0, 0.99, 20_000_000, 0.383, 0.002),
        // Filters of young runs are wrong as often as others', and the runs have few pages.
        ("leveled", 100.0, 0.0, 145_000_000, 0.858, 0.017),
        ("leveled", 100.0, 0.0, 48_333_333, 0.969, 0.025),
        ("stepped-merge", 100.0, 0.0, 48_333_333, 1.004, 0.061),
    ];
    for (name, value_bytes, skew, budget, hit, miss) in measured {
        let table_bytes = if value_bytes == 32.0 { 1 << 20 } else { 2 << 20 };
        let design = Design::preset(name).unwrap().scaled_to(table_bytes);
        let mix = Mix { hits: 0.9, misses: 0.1, scans: 0.0, puts: 0.0 };
        let group_items = if name == "lsm-trie" { 1.0 } else { 64.0 };
        let batch_items = 100.0;
        let workload = Workload { items: 5e6, overwrites: 1e7, skew, value_bytes, ..Workload::default() };
        let workload = Workload { group_items, batch_items, mix, ..workload };
        let costs = price(&design, &workload, budget).unwrap();
        let off = [costs.reads_per_hit - hit, costs.reads_per_miss - miss].map(f64::abs);
        assert!(off[0] < 0.02 + 0.05 * hit && off[1] < 0.02 + 0.05 * miss, "{name}, {budget}: {off:?}");
        if skew > 0.0 {
            // If others are read than are written, they lie anywhere.
            let elsewhere = Workload { read_skew: Some(skew), ..workload };
            assert!(price(&design, &elsewhere, budget).unwrap().reads_per_hit > 1.1 * costs.reads_per_hit);
        }
    }
}

/// Groups of popular items are listed again and again: stores of five million items that were really
/// overwritten and read, with device reads of a scan (docs/predictions.md).
#[test]
fn groups_of_popular_items_stay_in_the_cache() {
    let measured = [("lean", 60_000_000, 0.71), ("lean", 20_000_000, 1.04), ("leveled", 60_000_000, 1.02)];
    for (name, budget, scan) in measured {
        let mix = Mix { hits: 0.0, misses: 0.0, scans: 1.0, puts: 0.0 };
        let workload = Workload { items: 5e6, overwrites: 1e7, value_bytes: 32.0, ..Workload::default() };
        let workload = Workload { skew: 0.99, group_items: 64.0, batch_items: 100.0, mix, ..workload };
        let design = Design::preset(name).unwrap().scaled_to(1 << 20);
        let reads = |read_skew| {
            let pricer = Pricer::new(&Workload { read_skew, ..workload }, &Device::default()).unwrap();
            pricer.over_time().price(&design, budget).unwrap().reads_per_scan
        };
        let (popular, any) = (reads(None), reads(Some(0.0)));
        assert!((popular / scan - 1.0).abs() < 0.15, "{name}, {budget}: {popular} of {scan}");
        assert!(any > 1.5 * popular, "{name}, {budget}: {any}, {popular}");
    }
}

/// Where everything else is cached, but for what was merged just now, what gets read of the device is what
/// lies in a log store: half a log store's items over time, and nothing when it has been flushed.
#[test]
fn items_of_a_log_store_are_read_from_the_log() {
    let mix = Mix { hits: 0.98, misses: 0.0, scans: 0.0, puts: 0.02 };
    let workload = Workload { items: 1e6, overwrites: 2e6, mix, ..Workload::default() };
    let reads = |entries: Option<u32>, skew: f64| {
        let mut design = presets::lean().scaled_to(1 << 20);
        if let Some(entries) = entries {
            design.write_buffer = WriteBufferSpec::LogStore { entries };
        }
        let workload = Workload { skew, ..workload };
        let over_time = Pricer::new(&workload, &Device::default()).unwrap().over_time();
        let at_the_end = price(&design, &workload, BUDGET_BYTES).unwrap();
        assert!(at_the_end.reads_per_hit < 0.01, "{entries:?}, {skew}: {}", at_the_end.reads_per_hit);
        over_time.price(&design, BUDGET_BYTES).unwrap().reads_per_hit
    };
    let without = reads(None, 0.0);
    assert!(without < 0.01 && reads(None, 0.99) < 0.01);
    let half = LOG_STORE_FILL * 65_536.0 / 2.0 / 1e6;
    let uniformly = reads(Some(65_536), 0.0) - without;
    assert!((uniformly / half - 1.0).abs() < 0.05, "{uniformly} of {half}");
    // Popular items are nearly all there.
    let skewed = reads(Some(65_536), 0.99);
    assert!((0.4..0.8).contains(&skewed), "{skewed}");
    // And half of all items at most, however large it is.
    let most = reads(Some(2_000_000), 0.0);
    assert!((0.45..=1.0).contains(&most), "{most}");
}

/// However large a cache is, it does not hold what was merged since it was last asked for: the more so the more
/// is put, and the more is written of it.
#[test]
fn new_tables_are_read_once_more() {
    let reads = |design: &Design, puts: f64, budget: u64| {
        let mix = Mix { hits: 1.0 - puts, misses: 0.0, scans: 0.0, puts };
        let workload = Workload { items: 1e6, overwrites: 2e6, skew: 0.99, mix, ..Workload::default() };
        let pricer = Pricer::new(&workload, &Device::default()).unwrap().over_time();
        pricer.price(&design.scaled_to(1 << 20), budget).unwrap().reads_per_hit
    };
    for budget in [16 << 20, BUDGET_BYTES] {
        let mut last = reads(&presets::leveled(), 0.0, budget);
        if budget == BUDGET_BYTES {
            assert!(last < 1e-3, "{last}");
        }
        for puts in [0.02, 0.1, 0.5, 0.9] {
            let [ours, leveled] = [presets::siltstone(), presets::leveled()].map(|d| reads(&d, puts, budget));
            println!("{budget}, {puts}: {ours:.3}, {leveled:.3}");
            assert!(leveled > last + 0.003 && leveled < 1.0, "{puts}: {leveled}, {last} with less");
            assert!(leveled > 1.02 * ours, "{puts}: {leveled}, {ours} where less is written");
            last = leveled;
        }
    }
}

/// A put of a key that the region has costs a multi-level cuckoo filter an entry more, and a maplet nothing.
#[test]
fn keys_that_a_region_has_cost_its_cuckoo_filter_more() {
    let extra = |overwrites: f64| {
        let workload = Workload { items: 2e6, overwrites, ..Workload::default() };
        let cuckoo = presets::slimdb().scaled_to(1 << 20);
        let mut maplets = cuckoo.clone();
        let in_memory = |filter| matches!(filter, RegionFilterSpec::MultiLevelCuckoo { .. });
        for level in maplets.levels.iter_mut().filter(|level| in_memory(level.region_filter)) {
            level.region_filter = RegionFilterSpec::Maplet { remainder_bits: 8 };
        }
        let [cuckoo, maplets] = [cuckoo, maplets].map(|design| price(&design, &workload, BUDGET_BYTES));
        cuckoo.unwrap().cpu_us_per_put - maplets.unwrap().cpu_us_per_put
    };
    let (new, overwritten) = (extra(0.0), extra(4e6));
    assert!(new.abs() < 0.02 && overwritten > 0.05 + new, "{new}, {overwritten}");
}

#[test]
fn more_memory_and_more_skew_spare_reads() {
    let mix = Mix { hits: 0.8, misses: 0.1, scans: 0.1, puts: 0.0 };
    for name in ["siltstone", "lean", "leveled"] {
        let design = Design::preset(name).unwrap().scaled_to(1 << 20);
        let mut by_skew = [f64::INFINITY; 2];
        for skew in [0.0, 0.5, 0.99, 1.2] {
            let workload = Workload { items: 2e6, overwrites: 2e6, skew, mix, ..Workload::default() };
            let mut last = f64::INFINITY;
            let mut at = [0.0; 2];
            for (budget, place) in [(24 << 20, 0), (48 << 20, 0), (96 << 20, 1), (192 << 20, 1)] {
                let costs = price(&design, &workload, budget).unwrap();
                let reads = mix.hits * costs.reads_per_hit + mix.misses * costs.reads_per_miss;
                assert!(reads <= last + 1e-3, "{name}, skew {skew}, {budget}: {reads} after {last}");
                last = reads;
                at[place] = reads;
            }
            assert!(at.iter().zip(by_skew).all(|(now, before)| *now < before), "{name}, {skew}: {at:?}");
            by_skew = at;
        }
    }
}
