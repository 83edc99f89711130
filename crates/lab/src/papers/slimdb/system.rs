//! Figures 11 to 14 and Table 7: whole stores in SlimDB's layout and in those it was compared with.

use super::Args;
use crate::clients::client::Load;
use crate::clients::filled::Filled;
use crate::clients::workload::{Operation, Workload};
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes::{self, ratio};
use crate::papers::evaluation::{Results, Row};
use crate::papers::store::{Measured, Store};
use crate::program::failure::{Result, fail};
use crate::program::output::note;
use siltstone::{Design, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder};
use std::path::Path;
use std::time::Duration;

/// What is compared: SlimDB's layout, the LevelDB-like one, and stepped merge with a Bloom filter per table.
const PRESETS: [&str; 3] = ["slimdb", "leveled", "stepped-merge"];
const LEAST_BUDGET: u64 = 64 << 20;
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// A store and what filling it gave.
struct Creation {
    store: Store,
    /// Items inserted per second, write amplification of tables, with the log.
    inserts: f64,
    table_amplification: f64,
    amplification: f64,
}

fn load(workload: Workload, time: Duration, operations: u64) -> Load {
    let (threads, batch) = if workload == Workload::Fill { (1, 100) } else { (2, 1) };
    let deadline = (workload != Workload::Fill).then_some(time);
    Load { workload, mix: workload.mix(50), skew: 0.0, threads, batch, deadline, operations }
}

/// Fills a store of `preset` with 16-byte keys and 100-byte values.
fn fill(dir: &Path, preset: &str, items: u64, group: u64, budget: u64) -> Result<Creation> {
    let Some(design) = Design::preset(preset) else { fail!("there is no preset {preset}") };
    let options = Options { memory_budget_bytes: budget, ..Options::default() };
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Hashed };
    let keyspace = KeyspaceOptions { schema, design: Some(design), ..KeyspaceOptions::default() };
    let filled =
        Filled { items, seed: 1, key_bytes: 16, value_bytes: 100, group, existing: 0, complete: true };
    let mut store = Store::open(&dir.join(format!("{preset}-{group}-{budget}")), options, keyspace, filled)?;
    let outcome = store.work(&load(Workload::Fill, Duration::ZERO, items))?;
    store.settle()?;
    let stats = store.db.stats();
    let table_bytes = stats.device_bytes_written - stats.wal_bytes_written - stats.manifest_bytes_written;
    Ok(Creation {
        store,
        inserts: outcome.operations as f64 / outcome.seconds,
        table_amplification: ratio(table_bytes, stats.user_bytes_written),
        amplification: stats.write_amplification,
    })
}

fn measure(store: &mut Store, workload: Workload, time: Duration) -> Result<Measured> {
    let measured = store.measure(&load(workload, time, u64::MAX))?;
    store.db.wait_until_idle()?;
    Ok(measured)
}

/// The largest memory budget that holds about `share` of the data.
fn budget(items: u64, share: f64) -> u64 {
    ((items as f64 * 116.0 * share) as u64).max(LEAST_BUDGET)
}

pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    whole(args, results, dir)?;
    groups(args, results, dir)?;
    memory(args, results, dir)
}

/// Figure 11, Figure 14 and Table 7.
fn whole(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let mut whole = Whole::default();
    for preset in PRESETS {
        note!("figures 11 and 14, table 7: {} items in {preset}", args.items());
        whole.add(preset, args, dir)?;
    }
    whole.figure_11(results)?;
    whole.table_7(results, args.items());
    whole.figure_14(results)
}

const WORKLOADS: [(&str, Workload); 4] = [
    ("random read", Workload::ReadHit),
    ("50% R + 50% BW", Workload::MixedBlind),
    ("50% R + 50% NBW", Workload::MixedRmw),
    ("random scan", Workload::Scan),
];

/// What the presets gave, row by row.
#[derive(Default)]
struct Whole {
    /// Levels with items, at most.
    levels: usize,
    speeds: Vec<Row>,
    /// What the random reads cost.
    costs: Vec<Row>,
    writes: Vec<Row>,
    latencies: Vec<Row>,
}

impl Whole {
    /// Fills a store of `preset` and runs all workloads on it.
    fn add(&mut self, preset: &str, args: &Args, dir: &Path) -> Result<()> {
        let items = args.items();
        let Creation { mut store, inserts, table_amplification, amplification } =
            fill(dir, preset, items, 128, budget(items, 1.0 / 16.0))?;
        let mut speeds = vec![inserts / 1000.0];
        for (name, workload) in WORKLOADS {
            note!("  {name}");
            let measured = measure(&mut store, workload, args.seconds())?;
            speeds.push(measured.per_second / 1000.0);
            match workload {
                Workload::ReadHit => {
                    self.latencies.push(latencies(preset, "", &measured));
                    let stats = store.keyspace.stats();
                    let costs =
                        vec![measured.reads_per_get, stats.filter_bits_per_item, stats.index_bits_per_item];
                    self.costs.push((preset.to_owned(), costs, Vec::new()));
                }
                Workload::MixedBlind => {
                    self.latencies.push(latencies(preset, ", beside blind writes", &measured));
                }
                _ => {}
            }
        }
        self.speeds.push((preset.to_owned(), speeds, Vec::new()));
        let filled = store.keyspace.stats().levels.iter().filter(|level| level.entries > 0).count();
        self.levels = self.levels.max(filled);
        // The paper's rows: itself, LevelDB; RocksDB is as little like stepped merge as LevelDB is.
        let paper = match preset {
            "slimdb" => vec![Some(40.07), Some(3.74), None],
            "leveled" => vec![Some(11.12), Some(31.80), None],
            _ => Vec::new(),
        };
        let written = vec![inserts / 1000.0, table_amplification, amplification];
        self.writes.push((preset.to_owned(), written, paper));
        store.remove()
    }

    fn figure_11(&self, results: &mut Results) -> Result<()> {
        let names = std::iter::once("creation").chain(WORKLOADS.map(|(name, _)| name));
        let columns: Vec<String> = names.map(str::to_owned).collect();
        let chart =
            Chart::new("SlimDB figure 11: five workloads").x(Axis::named("", columns.iter().cloned()));
        results.draw("figure11.svg", &with_bars(chart, &self.speeds))?;
        results.add("Figure 11", "five workloads", "thousand/s", &columns, &self.speeds);
        let columns = ["reads per get", "filter bits per item", "index bits per item"].map(str::to_owned);
        results.add("Figure 11", "what the random reads cost", "as named", &columns, &self.costs);
        Ok(())
    }

    fn table_7(&self, results: &mut Results, items: u64) {
        let columns = ["thousand inserts/s", "amplification of tables", "with the log"].map(str::to_owned);
        let title = format!(
            "creation of {} items, which fill {} levels at most (the paper's: 450 million, 4 levels; its LevelDB \
             beside leveled); an item that has not moved down yet has not been written again",
            sizes::count(items),
            self.levels
        );
        results.add("Table 7", &title, "as named", &columns, &self.writes);
    }

    fn figure_14(&self, results: &mut Results) -> Result<()> {
        let columns = QUANTILES.map(|(_, name)| name.to_owned());
        let mut chart = Chart::new("SlimDB figure 14: latency of random reads")
            .x(Axis::logarithmic("milliseconds"))
            .y(Axis::linear("share of the reads"));
        for (name, row, _) in &self.latencies {
            chart = chart.line(name, row.iter().copied().zip(QUANTILES.map(|(q, _)| q)));
        }
        results.draw("figure14.svg", &chart)?;
        results.add("Figure 14", "latency of random reads", "ms", &columns, &self.latencies);
        Ok(())
    }
}

/// The latencies of gets as a row named after the preset and what went on `beside` them.
fn latencies(preset: &str, beside: &str, measured: &Measured) -> Row {
    let gets = measured.latencies(Operation::Get);
    let row = QUANTILES.map(|(q, _)| gets.map_or(f64::NAN, |gets| gets.value_at_quantile(q) as f64 / 1e6));
    // The text prints one of its points.
    let is_printed = preset == "slimdb" && beside.is_empty();
    let paper = if is_printed { vec![None, None, None, Some(0.33)] } else { Vec::new() };
    (format!("{preset}{beside}"), row.to_vec(), paper)
}

/// Adds rows of rates to a chart, as bars.
fn with_bars(chart: Chart, rows: &[Row]) -> Chart {
    let chart = chart.y(Axis::logarithmic("thousand operations per second"));
    rows.iter().fold(chart, |chart, (name, row, _)| chart.bars(name, row.iter().copied()))
}

/// Figure 12: groups of 128, 256 and 512 items.
fn groups(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let (items, time) = (args.items() / 4, args.seconds() / 2);
    let sizes = [128u64, 256, 512];
    let (mut inserts, mut scans) = (Vec::new(), Vec::new());
    for preset in PRESETS {
        let (mut insert_row, mut scan_row) = (Vec::new(), Vec::new());
        for group in sizes {
            note!("figure 12: groups of {group} in {preset}");
            let mut made = fill(dir, preset, items, group, budget(items, 1.0 / 16.0))?;
            insert_row.push(made.inserts / 1000.0);
            scan_row.push(measure(&mut made.store, Workload::Scan, time)?.per_second / 1000.0);
        }
        inserts.push((format!("creation, {preset}"), insert_row, Vec::new()));
        scans.push((format!("scans, {preset}"), scan_row, Vec::new()));
    }
    let rows: Vec<_> = inserts.into_iter().chain(scans).collect();
    let columns = sizes.map(|size| format!("groups of {size}"));
    let chart = Chart::new("SlimDB figure 12: size of groups").x(Axis::named("", columns.iter().cloned()));
    results.draw("figure12.svg", &with_bars(chart, &rows))?;
    results.add("Figure 12", "size of groups", "thousand/s", &columns, &rows);
    Ok(())
}

/// Figure 13: more and less memory for the same data.
fn memory(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let (items, time) = (args.items() / 2, args.seconds() / 2);
    let shares = [32.0, 16.0, 8.0];
    let mut rows = Vec::new();
    for preset in PRESETS {
        let (mut inserts, mut reads) = (Vec::new(), Vec::new());
        for share in shares {
            note!("figure 13: memory of 1/{share} of the data for {preset}");
            let dir = dir.join(format!("memory-{share}"));
            let mut made = fill(&dir, preset, items, 128, budget(items, 1.0 / share))?;
            inserts.push(made.inserts / 1000.0);
            reads.push(measure(&mut made.store, Workload::ReadHit, time)?.per_second / 1000.0);
        }
        rows.push((format!("creation, {preset}"), inserts, Vec::new()));
        rows.push((format!("random read, {preset}"), reads, Vec::new()));
    }
    let columns = shares.map(|share| format!("1/{share} of the data"));
    let chart = Chart::new("SlimDB figure 13: memory")
        .x(Axis::named("memory budget, at least 64 MiB", columns.iter().cloned()));
    results.draw("figure13.svg", &with_bars(chart, &rows))?;
    let floor = budget(items, 1.0 / shares[0]) == LEAST_BUDGET;
    let floor =
        if floor { "; no less than 64 MiB here, so that columns may be alike: take more items" } else { "" };
    let title = format!("memory (the paper: 2, 4 and 8 GB for 10 GB{floor})");
    results.add("Figure 13", &title, "thousand/s", &columns, &rows);
    Ok(())
}
