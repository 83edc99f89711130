//! Parallel search (Cheng et al., SPE 2020): Figures 5 to 8 and Table 3, serial search beside the paper's two
//! threads and beside one submission for both reads, with the upper levels' filters in memory and not.

use super::store::{gets, insert, none_of, open};
use super::{Args, scaled};
use crate::clients::workload::{Operation, Workload};
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes::count;
use crate::papers::evaluation::Results;
use crate::papers::store::Store;
use crate::program::failure::{Failure, Result};
use crate::program::output::note;
use siltstone::{Options, ParallelSearch};
use std::path::Path;

const MODES: [(&str, ParallelSearch); 4] = [
    ("serial", ParallelSearch::Serial),
    ("two threads", ParallelSearch::TwoThreads),
    ("always", ParallelSearch::Always),
    ("learned", ParallelSearch::Learned),
];
/// The paper's EUNI and EZIP.
const DISTRIBUTIONS: [(&str, f64); 2] = [("uniform", 0.0), ("zipf", 0.99)];

/// Every form is measured this often, by turns, so that what else the machine does meets all of them; medians
/// are reported.
const ROUNDS: usize = 3;
/// What the paper says of Figure 6: gets a second after its fifth level has data, on average over sizes, in
/// per cent more.
const PAPERS_GAIN: f64 = 71.55;

/// What the upper levels' filters have, and the figures that show it.
struct Memory {
    name: &'static str,
    fits: bool,
    rates: (&'static str, &'static str),
    latencies: (&'static str, &'static str),
}

const MEMORIES: [Memory; 2] = [
    Memory {
        name: "filters do not fit",
        fits: false,
        rates: ("Figure 5", "figure5"),
        latencies: ("Figure 7", "figure7"),
    },
    Memory {
        name: "filters in memory",
        fits: true,
        rates: ("Figure 6", "figure6"),
        latencies: ("Figure 8", "figure8"),
    },
];

/// What one store, memory, distribution and form gave.
#[derive(Clone, Copy)]
struct Cell {
    thousand_per_second: f64,
    /// Microseconds: mean, 95th, 99th and 99.9th percentile.
    latencies: [f64; 4],
    reads_per_get: f64,
    asked_ahead: f64,
}

impl Cell {
    /// The median of each figure.
    fn median(rounds: &[Self]) -> Self {
        let of = |figure: &dyn Fn(&Self) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(figure).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
        };
        Self {
            thousand_per_second: of(&|cell| cell.thousand_per_second),
            latencies: std::array::from_fn(|at| {
                of(&|cell| cell.latencies.get(at).copied().unwrap_or(f64::NAN))
            }),
            reads_per_get: of(&|cell| cell.reads_per_get),
            asked_ahead: of(&|cell| cell.asked_ahead),
        }
    }
}

/// A memory's cells: by distribution, form and size.
type Cells = [[Vec<Cell>; MODES.len()]; DISTRIBUTIONS.len()];

fn measure(store: &mut Store, args: &Args, skew: f64) -> Result<Cell> {
    let before = store.keyspace.stats();
    let measured = store.measure(&gets(Workload::ReadHit, args.seconds() / ROUNDS as u32, skew))?;
    let after = store.keyspace.stats();
    let latencies = measured.latencies(Operation::Get);
    let quantile = |q: f64| latencies.map_or(f64::NAN, |all| all.value_at_quantile(q) as f64 / 1e3);
    let mean = latencies.map_or(f64::NAN, |all| all.mean() / 1e3);
    Ok(Cell {
        thousand_per_second: measured.per_second / 1000.0,
        latencies: [mean, quantile(0.95), quantile(0.99), quantile(0.999)],
        reads_per_get: measured.reads_per_get,
        asked_ahead: (after.asked_ahead - before.asked_ahead) as f64
            / (after.gets - before.gets).max(1) as f64,
    })
}

pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let items = args.items();
    let design = scaled(items);
    let path = dir.join("store");
    let sizes = [items / 3, items * 2 / 3, items];
    let roomy = (items * 6).max(64 << 20);
    // Memtables and little else: the filters of the upper levels do not fit.
    let tight = (design.write_buffer_bytes() * 4).max(2 << 20);
    let mut filled = none_of(items);
    let mut cells: [Cells; MEMORIES.len()] = Default::default();
    for size in sizes {
        note!("parallel search: {size} items");
        let options = Options { memory_budget_bytes: roomy, ..Options::default() };
        let mut store = open(&path, design.clone(), options, filled)?;
        insert(&mut store, size)?;
        store.settle()?;
        filled = store.filled.clone();
        store.close()?;
        for (memory, cells) in MEMORIES.iter().zip(&mut cells) {
            for ((distribution, skew), cells) in DISTRIBUTIONS.into_iter().zip(cells) {
                note!("  {}, {distribution}", memory.name);
                let mut rounds = MODES.map(|_| Vec::with_capacity(ROUNDS));
                for _ in 0..ROUNDS {
                    for ((_, parallel_search), rounds) in MODES.into_iter().zip(&mut rounds) {
                        let options = Options {
                            memory_budget_bytes: if memory.fits { roomy } else { tight },
                            parallel_search,
                            direct_reads: true,
                            ..Options::default()
                        };
                        let mut store = open(&path, design.clone(), options, filled.clone())?;
                        store.db.wait_until_idle()?;
                        rounds.push(measure(&mut store, args, skew)?);
                        store.close()?;
                    }
                }
                for (cells, rounds) in cells.iter_mut().zip(&rounds) {
                    cells.push(Cell::median(rounds));
                }
            }
        }
    }
    std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))?;
    for (memory, cells) in MEMORIES.iter().zip(&cells) {
        figures(results, memory, cells, &sizes)?;
        table3(results, memory, cells);
    }
    Ok(())
}

/// Figures 5 and 7, or 6 and 8: a table of both distributions, and a plot for each.
fn figures(results: &mut Results, memory: &Memory, cells: &Cells, sizes: &[u64]) -> Result<()> {
    let millions: Vec<f64> = sizes.iter().map(|size| *size as f64 / 1e6).collect();
    let columns: Vec<String> = sizes.iter().map(|size| format!("{} items", count(*size))).collect();
    let (rates, rates_file) = memory.rates;
    let (latencies, latencies_file) = memory.latencies;
    type Of = fn(&Cell) -> f64;
    let shown: [(&str, Option<&str>, &str, &str, Of); 4] = [
        (rates, Some(rates_file), "gets", "thousand/s", |cell| cell.thousand_per_second),
        (latencies, Some(latencies_file), "95th percentile of gets", "us", |cell| cell.latencies[1]),
        (rates, None, "reads a get", "reads", |cell| cell.reads_per_get),
        (rates, None, "last level's filters asked ahead", "share of gets", |cell| cell.asked_ahead),
    ];
    for (source, file, title, unit, of) in shown {
        let mut rows = Vec::new();
        for ((distribution, _), cells) in DISTRIBUTIONS.into_iter().zip(cells) {
            let mut chart = Chart::new(&format!(
                "Parallel search, {source}: {memory}, {distribution}",
                memory = memory.name
            ))
            .x(Axis::linear("million items"))
            .y(Axis::linear(&format!("{title} [{unit}]")).from(0.0));
            for ((mode, _), cells) in MODES.into_iter().zip(cells) {
                let row: Vec<f64> = cells.iter().map(of).collect();
                chart = chart.line(mode, millions.iter().copied().zip(row.iter().copied()));
                rows.push((format!("{distribution}, {mode}"), row, Vec::new()));
            }
            if let Some(file) = file {
                results.draw(&format!("{file}-{distribution}.svg"), &chart)?;
            }
        }
        results.add(source, &format!("{title}, {}", memory.name), unit, &columns, &rows);
    }
    let mut rows = Vec::new();
    for ((distribution, _), cells) in DISTRIBUTIONS.into_iter().zip(cells) {
        let [serial, others @ ..] = cells;
        for ((mode, _), cells) in MODES.into_iter().skip(1).zip(others) {
            let gains = cells
                .iter()
                .zip(serial)
                .map(|(cell, serial)| (cell.thousand_per_second / serial.thousand_per_second - 1.0) * 100.0);
            let mut row: Vec<f64> = gains.collect();
            row.push(row.iter().sum::<f64>() / row.len() as f64);
            let printed = memory.fits && distribution == "uniform" && mode == "two threads";
            let mut paper = vec![None; row.len() - 1];
            paper.push(printed.then_some(PAPERS_GAIN));
            rows.push((format!("{distribution}, {mode}"), row, paper));
        }
    }
    let columns: Vec<String> = columns.into_iter().chain(["mean".to_owned()]).collect();
    let title = format!("more gets a second than serial search, {}", memory.name);
    results.add(rates, &title, "%", &columns, &rows);
    Ok(())
}

/// Table 3, at the last size. The paper's has 32 GB, and so the filters in memory.
fn table3(results: &mut Results, memory: &Memory, cells: &Cells) {
    let paper = |distribution: &str, mode: &str| match (memory.fits, distribution, mode) {
        (true, "uniform", "serial") => vec![None, Some(803.0), Some(2298.0)],
        (true, "uniform", "two threads") => vec![None, Some(644.0), Some(1667.0)],
        (true, "zipf", "serial") => vec![None, Some(588.0), Some(941.0)],
        (true, "zipf", "two threads") => vec![None, Some(460.0), Some(655.0)],
        _ => Vec::new(),
    };
    let mut rows = Vec::new();
    for ((distribution, _), cells) in DISTRIBUTIONS.into_iter().zip(cells) {
        for ((mode, _), cells) in MODES.into_iter().zip(cells) {
            let Some(cell) = cells.last() else { continue };
            let [mean, _, p99, p999] = cell.latencies;
            let name = format!("{distribution}, {mode}");
            rows.push((name, vec![mean, p99, p999], paper(distribution, mode)));
        }
    }
    let columns = ["mean", "99 %", "99.9 %"].map(str::to_owned);
    results.add("Table 3", &format!("latency of gets, {}", memory.name), "us", &columns, &rows);
}
