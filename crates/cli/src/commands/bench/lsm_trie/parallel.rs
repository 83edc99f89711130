//! Parallel search (Cheng et al., SPE 2020): Figures 5 to 8 and Table 3, serial search beside the paper's two threads and beside
//! one submission for both reads, with the upper levels' filters in memory and not.

use super::store::{Store, open};
use super::{Args, scaled};
use crate::commands::bench::paper::Results;
use crate::commands::bench::workload::{Operation, Workload};
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::plot::{Axis, Chart};
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
/// Clients; the paper has eight pairs of threads.
const CLIENTS: usize = 8;

/// What one store, memory, form and distribution gave.
struct Cell {
    thousand_per_second: f64,
    /// Microseconds: mean, 95th, 99th and 99.9th percentile.
    latencies: [f64; 4],
    reads_per_get: f64,
    asked_ahead: f64,
}

fn measure(store: &Store, args: &Args, skew: f64) -> Result<Cell> {
    let before = store.keyspace.stats();
    let measured = store.read(Workload::ReadHit, args.seconds(), CLIENTS, skew)?;
    let after = store.keyspace.stats();
    let gets = measured.outcome.latencies.get(Operation::Get as usize);
    let quantile = |q: f64| gets.map_or(f64::NAN, |gets| gets.value_at_quantile(q) as f64 / 1e3);
    let mean = gets.map_or(f64::NAN, |gets| gets.mean() / 1e3);
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
    let columns: Vec<String> =
        sizes.iter().map(|size| format!("{:.2} M items", *size as f64 / 1e6)).collect();
    let roomy = (items * 6).max(64 << 20);
    // Memtables and little else: the filters of the upper levels do not fit.
    let tight = (design.head_bytes() * 4).max(2 << 20);
    let memories =
        [("figures 5 and 7: filters do not fit", tight), ("figures 6 and 8: filters in memory", roomy)];
    let mut existing = 0;
    // Per memory, distribution and form: a cell for each size.
    let mut cells: Vec<Vec<Cell>> = Vec::new();
    cells.resize_with(memories.len() * DISTRIBUTIONS.len() * MODES.len(), Vec::new);
    for size in sizes {
        note!("parallel search: {size} items");
        let options = Options { memory_budget_bytes: roomy, ..Options::default() };
        let mut store = open(&path, design.clone(), items, options)?;
        store.filled.existing = existing;
        store.grow(size)?;
        store.settle()?;
        existing = store.filled.existing;
        drop(store.keyspace);
        store.db.close()?;
        let mut rows = cells.iter_mut();
        for (memory, memory_budget_bytes) in memories {
            for (distribution, skew) in DISTRIBUTIONS {
                for (name, parallel_search) in MODES {
                    note!("  {memory}, {distribution}, {name}");
                    let options = Options {
                        memory_budget_bytes,
                        parallel_search,
                        direct_reads: true,
                        ..Options::default()
                    };
                    let mut store = open(&path, design.clone(), items, options)?;
                    store.filled.existing = existing;
                    store.db.wait_until_idle()?;
                    let cell = measure(&store, args, skew)?;
                    if let Some(row) = rows.next() {
                        row.push(cell);
                    }
                    drop(store.keyspace);
                    store.db.close()?;
                }
            }
        }
    }
    std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))?;
    report(results, &cells, &sizes, &columns)
}

/// Our Figures 5 to 8 and Table 3 of the cells, which stand by memory, distribution and form.
fn report(results: &mut Results, cells: &[Vec<Cell>], sizes: &[u64], columns: &[String]) -> Result<()> {
    let figures = [
        ("Figure 5", "figure5.svg", "Figure 7", "figure7.svg", "filters do not fit"),
        ("Figure 6", "figure6.svg", "Figure 8", "figure8.svg", "filters in memory"),
    ];
    let per_memory = DISTRIBUTIONS.len() * MODES.len();
    for ((rate, rate_file, latency, latency_file, memory), cells) in
        figures.into_iter().zip(cells.chunks(per_memory))
    {
        let names = DISTRIBUTIONS.iter().flat_map(|(distribution, _)| {
            MODES.iter().map(move |(mode, _)| format!("{distribution}, {mode}"))
        });
        let names: Vec<String> = names.collect();
        let table = |of: &dyn Fn(&Cell) -> f64| -> Vec<_> {
            let rows = names.iter().zip(cells);
            rows.map(|(name, cells)| (name.clone(), cells.iter().map(of).collect::<Vec<f64>>(), Vec::new()))
                .collect()
        };
        for (source, file, title, unit, rows) in [
            (rate, rate_file, "gets", "thousand/s", table(&|cell| cell.thousand_per_second)),
            (latency, latency_file, "95th percentile", "us", table(&|cell| cell.latencies[1])),
        ] {
            let mut chart = Chart::new(&format!("LSM-trie, parallel search, {source}: {memory}"))
                .x(Axis::linear("million items"))
                .y(Axis::linear(unit));
            for (name, row, _) in &rows {
                chart =
                    chart.line(name, sizes.iter().map(|size| *size as f64 / 1e6).zip(row.iter().copied()));
            }
            results.draw(file, &chart)?;
            results.add(source, &format!("{title}, {memory}"), unit, columns, &rows);
        }
        results.add(
            rate,
            &format!("reads a get, {memory}"),
            "reads",
            columns,
            &table(&|cell| cell.reads_per_get),
        );
        results.add(
            rate,
            &format!("asked ahead, {memory}"),
            "share",
            columns,
            &table(&|cell| cell.asked_ahead),
        );
        // The paper's Table 3 has 32 GB: filters in memory.
        let paper = |name: &str| match (memory, name) {
            ("filters in memory", "uniform, serial") => vec![None, Some(803.0), Some(2298.0)],
            ("filters in memory", "uniform, two threads") => vec![None, Some(644.0), Some(1667.0)],
            ("filters in memory", "zipf, serial") => vec![None, Some(588.0), Some(941.0)],
            ("filters in memory", "zipf, two threads") => vec![None, Some(460.0), Some(655.0)],
            _ => Vec::new(),
        };
        let rows: Vec<_> = names
            .iter()
            .zip(cells)
            .filter_map(|(name, cells)| {
                let [mean, _, p99, p999] = cells.last()?.latencies;
                Some((name.clone(), vec![mean, p99, p999], paper(name)))
            })
            .collect();
        let columns = ["mean", "99 %", "99.9 %"].map(str::to_owned);
        results.add("Table 3", &format!("latency of gets, {memory}"), "us", &columns, &rows);
    }
    Ok(())
}
