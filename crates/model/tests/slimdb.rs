//! SlimDB's model (VLDB 2017, section 4): Table 1, the search against brute force, and both readings of
//! Figure 9.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

use siltstone_model::cost::slimdb::{Mix, Priced, Row, SlimDb, SteppedWrites, WriteWeights};

const PAPER_LAYOUT: [u8; 5] = [6, 6, 6, 2, 3];
const FREE_LAYOUT: [u8; 5] = [6, 6, 6, 6, 3];

fn close(ours: f64, theirs: f64, relative: f64) {
    assert!((ours / theirs - 1.0).abs() <= relative, "{ours} is not {theirs} to {relative}");
}

fn rows(numbers: &[u8]) -> Vec<Row> {
    numbers.iter().map(|&number| Row::from_number(number).unwrap()).collect()
}

fn limited() -> SlimDb {
    SlimDb { max_stepped_levels: Some(3), ..SlimDb::default() }
}

fn best(store: SlimDb, mix: Mix, budget_mb: f64) -> Priced {
    store.best(mix, budget_mb * 1e6).unwrap().unwrap()
}

#[test]
fn table_1() {
    let store = SlimDb { stepped_writes: SteppedWrites::Printed, ..SlimDb::default() };
    let (once, often) = (0.146 / 16.0, 8.0 * 0.146 / 16.0);
    let printed = [
        (Row::Leveled, 0.0, 2.0, 2.0, often),
        (Row::LeveledFilter, 13.0, 2.0, 0.002, often),
        (Row::LeveledFilterIndex, 15.0, 1.0, 0.001, often),
        (Row::LeveledIndex, 2.0, 1.0, 1.0, often),
        (Row::Stepped, 0.0, 9.0, 16.0, often),
        (Row::SteppedFilter, 15.0, 2.0, 0.002, once),
        (Row::SteppedFilterIndex, 17.0, 1.0, 0.001, once),
        (Row::SteppedIndex, 2.0, 4.5, 8.0, once),
    ];
    for (number, (row, memory, positive, negative, writes)) in printed.into_iter().enumerate() {
        let costs = store.row(row);
        assert_eq!(usize::from(row.number()), number);
        assert_eq!(
            (costs.memory_bits, costs.positive_reads, costs.negative_reads),
            (memory, positive, negative)
        );
        close(costs.writes, writes, 1e-12);
    }
    close(SlimDb::default().row(Row::Stepped).writes, once, 1e-12);
}

#[test]
fn the_store_of_figure_9_has_half_a_billion_entries() {
    let items: f64 = SlimDb::default().level_items().iter().sum();
    close(items, 6.135e8, 1e-4);
}

#[test]
fn with_three_stepped_levels_one_layout_serves_all_workloads_from_256_to_900_mb() {
    for (name, mix) in [("creation", Mix::CREATION), ("update", Mix::UPDATE), ("mix", Mix::MIX)] {
        for budget in [281.0, 300.0, 512.0, 900.0, 995.0] {
            assert_eq!(best(limited(), mix, budget).numbers(), PAPER_LAYOUT, "{name} at {budget} MB");
        }
    }
    // The claim starts at 256 MB; the layout itself does not fit before this.
    let layout = limited().price(&rows(&PAPER_LAYOUT), Mix::MIX).unwrap();
    close(layout.memory_bytes, 280.379392e6, 1e-12);
    assert_ne!(best(limited(), Mix::MIX, 280.3).numbers(), PAPER_LAYOUT);
    assert_eq!(best(limited(), Mix::MIX, 280.4).numbers(), PAPER_LAYOUT);
    // A workload without writes gains nothing from stepped levels: same reads with less memory.
    let stat = best(limited(), Mix::STAT, 512.0);
    assert_eq!(stat.numbers(), [2, 2, 2, 2, 3]);
    close(stat.cost, limited().price(&rows(&PAPER_LAYOUT), Mix::STAT).unwrap().cost, 1e-12);
}

#[test]
fn the_papers_layout_costs_the_same_under_every_workload_as_worked_out() {
    for (mix, cost) in
        [(Mix::CREATION, 0.583547), (Mix::UPDATE, 0.583476), (Mix::STAT, 1.003857), (Mix::MIX, 0.793702)]
    {
        close(SlimDb::default().price(&rows(&PAPER_LAYOUT), mix).unwrap().cost, cost, 1e-5);
    }
}

#[test]
fn without_the_limit_a_fourth_stepped_level_wins_as_soon_as_it_fits() {
    let layout = SlimDb::default().price(&rows(&FREE_LAYOUT), Mix::MIX).unwrap();
    close(layout.memory_bytes, 297.156608e6, 1e-12);
    for mix in [Mix::CREATION, Mix::UPDATE, Mix::MIX] {
        assert_ne!(best(SlimDb::default(), mix, 297.1).numbers(), FREE_LAYOUT);
        for budget in [297.2, 300.0, 512.0, 900.0] {
            assert_eq!(best(SlimDb::default(), mix, budget).numbers(), FREE_LAYOUT);
        }
        let (ours, theirs) = (
            SlimDb::default().price(&rows(&FREE_LAYOUT), mix).unwrap(),
            SlimDb::default().price(&rows(&PAPER_LAYOUT), mix).unwrap(),
        );
        assert!(ours.cost < theirs.cost);
    }
    // Just below, layouts with a smaller filter in one of the upper levels fit already; the paper's comes
    // before those.
    assert_eq!(best(SlimDb::default(), Mix::MIX, 294.0).numbers(), PAPER_LAYOUT);
}

#[test]
fn the_front_is_what_trying_all_layouts_finds() {
    for stepped_writes in [SteppedWrites::Once, SteppedWrites::Printed] {
        for write_weights in [WriteWeights::Resting, WriteWeights::Cumulative] {
            for max_stepped_levels in [None, Some(0), Some(1), Some(2)] {
                let store = SlimDb {
                    levels: 4,
                    stepped_writes,
                    write_weights,
                    max_stepped_levels,
                    ..SlimDb::default()
                };
                for (_, mix) in Mix::FIGURE_9 {
                    compare_with_all_layouts(&store, mix);
                }
            }
        }
    }
}

fn compare_with_all_layouts(store: &SlimDb, mix: Mix) {
    let limit = store.max_stepped_levels.unwrap_or(4) as usize;
    let mut all: Vec<Priced> = (0..8u32.pow(4))
        .map(|code| rows(&[0, 3, 6, 9].map(|shift| (code >> shift & 7) as u8)))
        .filter(|layout| layout.iter().filter(|row| row.is_stepped()).count() <= limit)
        .map(|layout| store.price(&layout, mix).unwrap())
        .collect();
    all.sort_by(|a, b| a.memory_bytes.total_cmp(&b.memory_bytes));
    let front = store.front(mix).unwrap();
    for pair in front.windows(2) {
        assert!(pair[0].memory_bytes < pair[1].memory_bytes && pair[0].cost > pair[1].cost);
    }
    let mut least = f64::INFINITY;
    for (at, layout) in all.iter().enumerate() {
        least = least.min(layout.cost);
        // Compare once per memory size, after the last layout of that size.
        if all.get(at + 1).is_some_and(|next| next.memory_bytes == layout.memory_bytes) {
            continue;
        }
        let found = store.best(mix, layout.memory_bytes).unwrap().unwrap();
        assert!((found.cost - least).abs() <= 1e-12 * least, "{} against {least}", found.cost);
    }
}

#[test]
fn more_memory_never_costs_more() {
    let store = SlimDb::default();
    for (_, mix) in Mix::FIGURE_9 {
        let costs: Vec<f64> = (0..30).map(|step| best(store, mix, 50.0 * f64::from(step)).cost).collect();
        assert!(costs.windows(2).all(|pair| pair[1] <= pair[0]));
    }
    // "For other workloads dominated by positive reads, one disk read is the lower bound."
    close(best(store, Mix::STAT, 2000.0).cost, 1.0, 5e-3);
}

#[test]
fn cumulative_weights_charge_every_entry_for_every_level() {
    let store = SlimDb { write_weights: WriteWeights::Cumulative, ..SlimDb::default() };
    let costs = store.operation_costs(&rows(&[6, 6, 6, 6, 3])).unwrap();
    close(costs.write, (4.0 + 8.0) * 0.146 / 16.0, 1e-12);
    assert!(SlimDb::default().operation_costs(&rows(&[6, 6, 6, 6, 3])).unwrap().write < costs.write);
}

#[test]
fn deep_stores_are_searched_in_no_time() {
    let store = SlimDb { levels: 8, first_level_items: 1000.0, ..SlimDb::default() };
    let front = store.front(Mix::MIX).unwrap();
    assert!(front.len() > 100 && front.iter().all(|layout| layout.rows.len() == 8));
}

#[test]
fn nonsense_is_refused_by_name() {
    let base = SlimDb::default();
    for (store, name) in [
        (SlimDb { levels: 0, ..base }, "levels"),
        (SlimDb { levels: 9, ..base }, "levels"),
        (SlimDb { growth: 1.0, ..base }, "growth"),
        (SlimDb { first_level_items: 0.0, ..base }, "first_level_items"),
        (SlimDb { block_items: f64::NAN, ..base }, "block_items"),
        (SlimDb { block_write: -0.1, ..base }, "block_write"),
        (SlimDb { false_positive_rate: 1.5, ..base }, "false_positive_rate"),
    ] {
        assert_eq!(store.front(Mix::MIX).unwrap_err().parameter(), name);
    }
    assert_eq!(base.price(&rows(&[0, 0]), Mix::MIX).unwrap_err().parameter(), "rows");
    assert!(base.best(Mix::MIX, -1.0).unwrap().is_none());
}
