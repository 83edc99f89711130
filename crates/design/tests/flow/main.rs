//! A store in numbers: the planner's own choices, carried out on counts, measured over thousands of flushes.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

mod sim;

use proptest::prelude::*;
use siltstone_design::check::MIN_TABLE_BYTES;
use siltstone_design::plan::{plan, pressure};
use siltstone_design::{
    Compression, Design, Format, IndexSpec, LevelSpec, RegionFilterSpec, RegionShape, RunShape, Shape,
    TableFilterSpec, Task, TriePath, WriteBufferSpec, presets,
};
use sim::{Sim, flush_bytes};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Written per byte flushed.
fn amplification(sim: &Sim) -> f64 {
    sim.total_written() as f64 / sim.flushed as f64
}

#[test]
fn stepped_merge_writes_every_byte_once_per_level() {
    let mut sim = Sim::new(presets::stepped_merge());
    // Just short of where leaves of the fourth level begin to split, so that nearly all data has come down to
    // it.
    while sim.levels.len() < 5 {
        sim.tick();
    }
    let mut depth_sum = 0;
    for level in 0..sim.levels.len() {
        // What was written into a level is there or went on; nothing was written twice.
        assert_eq!(sim.written[level], sim.bytes_in(level) + sim.left[level], "level {level}");
        assert_eq!(sim.rewritten[level], 0);
        depth_sum += sim.bytes_in(level) * (level as u64 + 1);
    }
    assert_eq!(sim.total_written(), depth_sum);
    let found = amplification(&sim);
    println!("4 levels, {} flushes: write amplification {found:.3}", sim.flushed / (8 * MIB));
    assert!((found / 4.0 - 1.0).abs() < 0.1, "{found}");
}

/// Bytes of compaction after each of many flushes.
fn ticks(in_step: bool) -> Vec<u64> {
    let mut sim = Sim::new(presets::stepped_merge());
    sim.in_step = in_step;
    (0..6144).map(|_| sim.tick()).collect()
}

/// Most and mean bytes of compaction per byte flushed, over windows of so many flushes, after a warm-up.
fn windows(ticks: &[u64], window: usize) -> (f64, f64) {
    let sums: Vec<u64> = ticks[512..].chunks_exact(window).map(|w| w.iter().sum()).collect();
    let flushed = (window as u64 * 8 * MIB) as f64;
    let most = *sums.iter().max().unwrap() as f64;
    (most / flushed, sums.iter().sum::<u64>() as f64 / sums.len() as f64 / flushed)
}

#[test]
fn staggering_keeps_compaction_flat() {
    let (staggered, in_step) = (ticks(false), ticks(true));
    for window in [64, 16] {
        let ((most, mean), (most_in_step, mean_in_step)) =
            (windows(&staggered, window), windows(&in_step, window));
        let (flat, bursts) = (most / mean, most_in_step / mean_in_step);
        println!(
            "windows of {window} flushes, bytes compacted per byte flushed: {mean:.2} mean, {most:.2} at most ({flat:.2}); \
             in step {mean_in_step:.2} mean, {most_in_step:.2} at most ({bursts:.1})"
        );
        assert!(flat < 1.5 && flat * 3.0 < bursts, "windows of {window}: {flat} against {bursts}");
        // The work is the same, only spread.
        assert!((mean / mean_in_step - 1.0).abs() < 0.25, "{mean} against {mean_in_step}");
    }
}

#[test]
fn leveled_regions_stay_bounded() {
    let mut sim = Sim::new(presets::leveled());
    let limit = 64 * MIB;
    let mut most = 0;
    for _ in 0..3072 {
        sim.tick();
        for level in 1..sim.levels.len() {
            for region in sim.levels[level].values() {
                assert!(region.runs.len() <= 1);
                most = most.max(region.bytes());
            }
        }
    }
    println!(
        "leveled: {} levels, write amplification {:.2}, largest region {:.2} of its limit",
        sim.levels.len(),
        amplification(&sim),
        most as f64 / limit as f64
    );
    // Settled, a region is below the latest phase there is.
    assert!(most < limit * 3 / 2, "{most}");
    let mut into = 0;
    for level in 1..sim.levels.len() {
        into += sim.written[level];
        // Each arrival rewrites at most what a region may hold: the fan-out and a half, and itself.
        assert!(sim.written[level] <= sim.left[level - 1] * 13, "level {level}");
    }
    assert!(into > 0);
}

/// A steady state of random overwrites: space per distinct byte (mean and peak), bytes written into leaves
/// per byte that arrives there, and the mean number of runs between rewrites.
fn overwrites(max_garbage: f64, population: u64, flushes: usize) -> (f64, f64, f64) {
    let mut design = presets::stepped_merge();
    design.max_garbage = max_garbage;
    let mut sim = Sim::new(design);
    sim.population = Some(population);
    for _ in 0..flushes {
        sim.tick();
    }
    // Leaves sit on several levels once some have split, so all levels at or below the design's last count.
    let leaves = sim.design.levels.len() - 1;
    let books = |sim: &Sim| {
        let written: u64 = sim.written[leaves..].iter().sum();
        (written, sim.left[leaves - 1], sim.left[leaves..].iter().sum::<u64>())
    };
    let (written, arrived, passed) = books(&sim);
    let (mut peak, mut sum) = (0f64, 0f64);
    for _ in 0..flushes {
        sim.tick();
        // Upper levels hold a few regions of what is yet to arrive, whatever the population.
        let space = (leaves..sim.levels.len()).map(|level| leaf_bytes(&sim, level)).sum::<u64>() as f64;
        let covered = (leaves..sim.levels.len()).map(|level| leaf_space(&sim, level)).sum::<f64>();
        let space = space / (population as f64 * covered);
        peak = peak.max(space);
        sum += space;
    }
    let (written_after, arrived_after, passed_after) = books(&sim);
    let cost = (written_after - written) as f64 / (arrived_after - arrived) as f64;
    // What inner regions of the last level passed on was written there once more on its way.
    let passed = (passed_after - passed) as f64 / (arrived_after - arrived) as f64;
    (sum / flushes as f64, peak, cost - passed)
}

fn leaf_bytes(sim: &Sim, level: usize) -> u64 {
    sim.levels[level].values().filter(|region| !region.has_children).map(RegionShape::bytes).sum()
}

/// Share of the digest space that the level's leaves cover.
fn leaf_space(sim: &Sim, level: usize) -> f64 {
    let leaves = sim.levels[level].values().filter(|region| !region.has_children);
    leaves.map(|region| 0.5f64.powi(i32::from(region.path.depth()))).sum()
}

#[test]
fn overwrites_stay_within_space_and_cost() {
    for (g, population) in
        [(0.33, 64 * 24 * MIB), (0.33, 64 * 12 * MIB), (0.2, 64 * 24 * MIB), (0.5, 64 * 16 * MIB)]
    {
        let (mean, peak, cost) = overwrites(g, population, 2048);
        let expected = 1.0 + (1.0 - g) / g;
        println!(
            "g {g}, {} MiB a leaf: space {mean:.2} mean, {peak:.2} peak (1/(1-g) = {:.2}); leaf cost {cost:.2} (1+(1-g)/g = {expected:.2})",
            population / 64 / MIB,
            1.0 / (1.0 - g)
        );
        assert!(peak <= 1.0 / (1.0 - g) + 0.15, "peak space {peak} at g = {g}");
        assert!(cost <= expected * 1.15, "leaf cost {cost} at g = {g}, not {expected}");
    }
}

/// A steady state of random overwrites of `population` bytes: space of the whole store per distinct byte,
/// mean and peak, and bytes written per byte flushed, flushes included.
fn small_store(design: &Design, population: u64) -> (f64, f64, f64) {
    let mut sim = Sim::new(design.clone());
    sim.population = Some(population);
    let flushes = (8 * population / design.write_buffer_bytes()).max(400);
    for _ in 0..flushes {
        sim.tick();
    }
    let (written, flushed) = (sim.total_written(), sim.flushed);
    let (mut sum, mut peak) = (0.0, 0f64);
    for _ in 0..flushes {
        sim.tick();
        let space = sim.bytes() as f64 / population as f64;
        sum += space;
        peak = peak.max(space);
    }
    let amplification = (sim.total_written() - written) as f64 / (sim.flushed - flushed) as f64;
    (sum / flushes as f64, peak, amplification)
}

#[test]
fn small_stores_take_little_more_than_their_items() {
    let presets: BTreeMap<_, _> = presets::all().into_iter().collect();
    for name in ["lsm-trie", "siltstone", "slimdb", "stepped-merge"] {
        let early = Design { pushes_early: true, ..presets[name].clone() };
        let waits = Design { pushes_early: false, ..early.clone() };
        for population in [100, 300, 1000, 3000] {
            let (before, peak_before, written_before) = small_store(&waits, population * MIB);
            let (mean, peak, written) = small_store(&early, population * MIB);
            println!(
                "{name}, {population} MiB overwritten: space {mean:.2} mean, {peak:.2} peak, {written:.2} written per byte; where \
                 piles wait {before:.2}, {peak_before:.2} and {written_before:.2}"
            );
            // The largest regions of a small store are of the memtables' size.
            let bounds = match (name, population) {
                ("lsm-trie", 100) => (1.3, 1.6),
                ("lsm-trie", 1000) => (1.3, 1.47),
                ("lsm-trie", _) => (1.25, 1.26),
                (_, 100) => (1.65, 2.25),
                _ => (1.65, 1.5),
            };
            assert!(
                mean <= bounds.0 && peak <= bounds.1,
                "{name}, {population} MiB: {mean} mean, {peak} peak"
            );
            assert!(written <= 5.6, "{name}, {population} MiB: {written}");
        }
    }
}

/// Bytes of data at which the last level of five gets its first items, and from which on it holds half of
/// them.
#[test]
fn the_last_of_five_levels_begins_at_thousands_of_tables() {
    let mut sim = Sim::new(presets::lsm_trie());
    let (mut first, mut half) = (None, None);
    while half.is_none() {
        sim.tick();
        let tables = sim.bytes() / (8 * MIB);
        let last = if sim.levels.len() > 4 { sim.bytes_in(4) } else { 0 };
        if last > 0 {
            first.get_or_insert(tables);
        }
        if 2 * last > sim.bytes() {
            half = Some(tables);
        }
    }
    println!(
        "first items at {} tables' worth of data, half of them from {} on",
        first.unwrap(),
        half.unwrap()
    );
    assert!(
        (2200..2400).contains(&first.unwrap()) && (4900..5300).contains(&half.unwrap()),
        "{first:?} {half:?}"
    );
}

/// A store of 8 GiB that all lie on one path; as one group of keys, or as groups that differ only past any
/// trie's depth.
fn one_path(name: &str, design: Design, one_group: bool) -> Sim {
    let mut sim = Sim::new(design);
    (sim.hot, sim.one_group) = (Some(0x0123_4567_89ab_cdef), one_group);
    for _ in 0..1024 {
        sim.tick();
    }
    println!(
        "{name}, 8 GiB {}: {} levels, write amplification {:.1}",
        if one_group { "in one group" } else { "on one path" },
        sim.levels.len(),
        amplification(&sim)
    );
    assert_eq!(sim.bytes(), sim.flushed);
    assert_eq!(pressure(&sim.design, &sim), 0.0, "{name}: writers are held up for work that can't be done");
    sim
}

#[test]
fn data_that_no_digest_bit_divides_comes_to_rest() {
    for (name, design) in presets::all() {
        let levels = design.levels.len();
        // Where regions without children are leaves, a group stays where it is first.
        let sunk = if design.pushes_early { 2 } else { levels };
        assert_eq!(one_path(name, design.clone(), true).levels.len(), sunk, "a group sinks no deeper");
        // Leaves that may hold everything never split.
        let never_splits = design.levels.last().is_some_and(|leaf| leaf.table_bytes > 8 << 30);
        let steps = 48usize.div_ceil(usize::from(design.levels.last().unwrap().fanout_bits));
        let deepest = if never_splits { levels } else { steps + 1 };
        assert_eq!(
            one_path(name, design, false).levels.len(),
            deepest,
            "as deep as a trie can be, and no deeper"
        );
    }
    // With runs to join, each byte of the group is rewritten a number of times logarithmic in its size.
    let stepped = one_path("stepped-merge", presets::stepped_merge(), true);
    assert!(amplification(&stepped) < 3.0 + 4.0, "{}", amplification(&stepped));
}

#[test]
fn the_same_flow_makes_the_same_plans() {
    let flow = || {
        let mut sim = Sim::new(presets::stepped_merge());
        sim.population = Some(900 * MIB);
        let mut tasks = Vec::new();
        for _ in 0..700 {
            sim.flush(flush_bytes(&sim.design));
            tasks.extend(sim.settle(10_000).unwrap());
        }
        tasks
    };
    let tasks = flow();
    assert!(tasks.iter().any(|task| matches!(task, Task::Push { .. })));
    assert!(tasks.iter().any(|task| matches!(task, Task::Rewrite { .. })));
    assert_eq!(tasks, flow());
}

fn level_spec(least_bits: u8, least_runs: u16) -> impl Strategy<Value = LevelSpec> {
    let runs = prop_oneof![Just(1u16), 2u16..9, Just(40)].prop_map(move |runs| runs.max(least_runs));
    (least_bits..=4, runs, 0u64..5).prop_map(|(fanout_bits, runs, size)| LevelSpec {
        fanout_bits,
        runs,
        format: Format::Block,
        index: IndexSpec::Separators,
        table_filter: TableFilterSpec::None,
        region_filter: RegionFilterSpec::None,
        table_bytes: MIN_TABLE_BYTES << size,
        compression: Compression::None,
    })
}

fn any_design() -> impl Strategy<Value = Design> {
    let below = proptest::collection::vec(level_spec(1, 1), 0..4);
    (level_spec(0, 2), below, 0u64..4, 0.05..0.9, any::<bool>()).prop_map(
        |(mut top, below, head, max_garbage, pushes_early)| {
            if below.is_empty() {
                top.fanout_bits = top.fanout_bits.max(1);
            }
            let levels = std::iter::once(top).chain(below).collect();
            Design {
                write_buffer: WriteBufferSpec::MemTable { bytes: MIN_TABLE_BYTES << head },
                levels,
                max_garbage,
                pushes_early,
            }
        },
    )
}

/// What happens to a simulated store next.
#[derive(Clone, Debug)]
enum Event {
    /// A memtable of so many 64ths of its limit is flushed.
    Flush(u64),
    /// Work on one of the regions begins somewhere else, and ends.
    Busy(usize),
    Idle,
    /// So many tasks are carried out.
    Work(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u64..100).prop_map(Event::Flush),
        2 => any::<usize>().prop_map(Event::Busy),
        1 => Just(Event::Idle),
        2 => (1usize..8).prop_map(Event::Work),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_design_under_any_work_plans_soundly_and_comes_to_rest(
        design in any_design(),
        events in proptest::collection::vec(any_event(), 1..120),
        population in proptest::option::of(1u64 << 12..1 << 22),
        hot in proptest::option::of((any::<u64>(), any::<bool>())),
    ) {
        let mut sim = Sim::new(design);
        sim.population = population;
        (sim.hot, sim.one_group) = (hot.map(|(hi, _)| hi), hot.is_some_and(|(_, one_group)| one_group));
        for event in events {
            match event {
                Event::Flush(part) => sim.flush(flush_bytes(&sim.design) * part / 64),
                Event::Busy(pick) => {
                    let regions = sim.regions();
                    if !regions.is_empty() {
                        sim.busy.insert(regions[pick % regions.len()]);
                    }
                }
                Event::Idle => sim.busy.clear(),
                Event::Work(tasks) => {
                    for _ in 0..tasks {
                        let Some(task) = sim.plan() else { break };
                        prop_assert_eq!(Some(task), sim.plan());
                        sim.execute(task);
                    }
                }
            }
            let pressure = pressure(&sim.design, &sim);
            prop_assert!((0.0..=1.0).contains(&pressure), "{}", pressure);
        }
        sim.busy.clear();
        prop_assert!(sim.settle(50_000).is_some(), "work does not end");
        prop_assert_eq!(pressure(&sim.design, &sim), 0.0, "at rest, and behind all the same");
        if population.is_none() {
            prop_assert_eq!(sim.bytes(), sim.flushed);
        }
        // What is at rest is within its limits: no region below the top holds more than the latest phase
        // allows.
        for (number, level) in sim.levels.iter().enumerate() {
            let spec = sim.design.level(number);
            let deepest = sim.one_group || sim.design.depth(number) == sim.design.depth(number + 1);
            let limit = u64::from(spec.runs) * spec.table_bytes * 3 / 2;
            for region in level.values() {
                prop_assert!(deepest || region.bytes() <= limit, "level {}: {:?}", number, region);
                prop_assert!(region.runs.len() <= usize::from(spec.runs) * 3 / 2 + 1, "level {}: {:?}", number, region);
                prop_assert!(region.garbage() < sim.design.max_garbage + 1e-9);
            }
        }
    }

    #[test]
    fn shapes_that_no_flow_leads_to_are_planned_without_panic(
        design in any_design(),
        piles in proptest::collection::vec(
            (0usize..20, any::<u64>(), proptest::collection::vec(0u64..1 << 40, 0..12),
             proptest::collection::vec(0u64..1 << 42, 0..14), 0u64..3, any::<(bool, bool, u64)>()),
            0..20,
        ),
    ) {
        let mut sim = Sim::new(design);
        for (level, hi, runs, dead_bytes, pushes, (has_children, busy, largest_group_bytes)) in piles {
            while sim.levels.len() <= level {
                sim.levels.push(BTreeMap::new());
            }
            let path = TriePath::of(hi, sim.design.depth(level));
            let runs = runs.into_iter().map(|bytes| RunShape { bytes, entries: bytes / 100, ..RunShape::default() }).collect();
            sim.levels[level].insert(path, RegionShape { path, runs, pushes, has_children, largest_group_bytes, dead_bytes, ..RegionShape::default() });
            if busy {
                sim.busy.insert((level, path));
            }
        }
        if let Some(task) = plan(&sim.design, &sim) {
            let (level, path) = task.region();
            prop_assert!(sim.levels[level].contains_key(&path) && !sim.is_busy(level, path));
        }
        prop_assert!((0.0..=1.0).contains(&pressure(&sim.design, &sim)));
    }
}
