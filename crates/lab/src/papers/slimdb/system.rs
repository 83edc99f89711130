//! Figures 11 to 14 and Table 7: whole stores in SlimDB's layout and in those it was compared with.

use super::Args;
use crate::clients::client::{Load, Outcome, Run};
use crate::clients::filled::Filled;
use crate::clients::workload::{Operation, Workload};
use crate::clients::{KEYSPACE, watch};
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes::{self, ratio};
use crate::measure::{Reads, find};
use crate::papers::evaluation::Results;
use crate::program::failure::{Failure, Result, fail};
use crate::program::output::note;
use siltstone::{Db, Design, Keyspace, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder};
use std::path::Path;
use std::time::Duration;

/// What is compared: SlimDB's layout, the LevelDB-like one, and stepped merge with a Bloom filter per table.
const PRESETS: [&str; 3] = ["slimdb", "leveled", "stepped-merge"];
const LEAST_BUDGET: u64 = 64 << 20;
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// A store and what it was filled with.
struct Store {
    db: Db,
    keyspace: Keyspace,
    filled: Filled,
    /// Items inserted per second, write amplification of tables, with the log.
    inserts: f64,
    table_amplification: f64,
    amplification: f64,
}

/// What one workload gave.
struct Measured {
    outcome: Outcome,
    per_second: f64,
    reads_per_get: f64,
}

fn load(workload: Workload, time: Duration, operations: u64) -> Load {
    let (threads, batch) = if workload == Workload::Fill { (1, 100) } else { (2, 1) };
    let deadline = (workload != Workload::Fill).then_some(time);
    Load { workload, mix: workload.mix(50), skew: 0.0, threads, batch, deadline, operations }
}

/// Fills a store of `preset` with 16-byte keys and 100-byte values.
fn fill(dir: &Path, preset: &str, items: u64, group: u64, budget: u64) -> Result<Store> {
    let Some(design) = Design::preset(preset) else { fail!("there is no preset {preset}") };
    let options = Options { memory_budget_bytes: budget, ..Options::default() };
    let db = Db::open(dir.join(format!("{preset}-{group}-{budget}")), options)?;
    let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Hashed };
    let keyspace = db.create_keyspace(KEYSPACE, KeyspaceOptions { schema, design: Some(design) })?;
    let mut filled =
        Filled { items, seed: 1, key_bytes: 16, value_bytes: 100, group, existing: 0, complete: true };
    let of = filled.generator().map_err(Failure::Failed)?;
    let load = load(Workload::Fill, Duration::ZERO, items);
    let run = Run::new(&db, &keyspace, of, &filled, &load);
    let outcome = watch::run_clients(&run)?;
    db.flush()?;
    db.wait_until_idle()?;
    filled.existing = run.existing();
    let stats = db.stats();
    let table_bytes = stats.device_bytes_written - stats.wal_bytes_written - stats.manifest_bytes_written;
    Ok(Store {
        inserts: outcome.operations as f64 / outcome.seconds,
        table_amplification: ratio(table_bytes, stats.user_bytes_written),
        amplification: stats.write_amplification,
        db,
        keyspace,
        filled,
    })
}

fn measure(store: &Store, workload: Workload, time: Duration) -> Result<Measured> {
    let items = store.filled.generator().map_err(Failure::Failed)?;
    let load = load(workload, time, u64::MAX);
    let before = store.db.stats();
    let outcome = watch::run_clients(&Run::new(&store.db, &store.keyspace, items, &store.filled, &load))?;
    outcome.check_reads()?;
    store.db.wait_until_idle()?;
    let after = store.db.stats();
    let (Some(was), Some(is)) = (find(&before, KEYSPACE), find(&after, KEYSPACE)) else {
        fail!("the store has no statistics of its keyspace");
    };
    let reads = Reads::between(was, is);
    Ok(Measured {
        per_second: outcome.operations as f64 / outcome.seconds,
        reads_per_get: ratio(reads.by_hits + reads.by_misses, reads.hits + reads.misses),
        outcome,
    })
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
    let (items, time) = (args.items(), args.seconds());
    let workloads = [
        ("random read", Workload::ReadHit),
        ("50% R + 50% BW", Workload::MixedBlind),
        ("50% R + 50% NBW", Workload::MixedRmw),
        ("random scan", Workload::Scan),
    ];
    let mut levels = 0;
    let (mut speeds, mut latencies, mut writes, mut memory) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for preset in PRESETS {
        note!("figures 11 and 14, table 7: {items} items in {preset}");
        let store = fill(dir, preset, items, 128, budget(items, 1.0 / 16.0))?;
        let mut row = vec![store.inserts / 1000.0];
        for (name, workload) in workloads {
            note!("  {name}");
            let measured = measure(&store, workload, time)?;
            row.push(measured.per_second / 1000.0);
            if let Workload::ReadHit | Workload::MixedBlind = workload {
                let gets = measured.outcome.latencies.get(Operation::Get as usize);
                let quantile = |(q, _): (f64, &str)| {
                    gets.map_or(f64::NAN, |gets| gets.value_at_quantile(q) as f64 / 1e6)
                };
                let beside = if workload == Workload::ReadHit { "" } else { ", beside blind writes" };
                latencies.push((format!("{preset}{beside}"), QUANTILES.map(quantile).to_vec()));
            }
            if workload == Workload::ReadHit {
                let stats = store.keyspace.stats();
                let bits =
                    vec![measured.reads_per_get, stats.filter_bits_per_item, stats.index_bits_per_item];
                memory.push((preset.to_owned(), bits, Vec::new()));
            }
        }
        speeds.push((preset.to_owned(), row, Vec::new()));
        levels = levels.max(store.keyspace.stats().levels.iter().filter(|level| level.entries > 0).count());
        // The paper's rows: itself, LevelDB; RocksDB is as little like stepped merge as LevelDB is.
        let paper = match preset {
            "slimdb" => vec![Some(40.07), Some(3.74), None],
            "leveled" => vec![Some(11.12), Some(31.80), None],
            _ => Vec::new(),
        };
        let written = vec![store.inserts / 1000.0, store.table_amplification, store.amplification];
        writes.push((preset.to_owned(), written, paper));
        let path = store.db.path().to_owned();
        drop(store.keyspace);
        store.db.close()?;
        std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))?;
    }
    let columns: Vec<String> =
        std::iter::once("creation").chain(workloads.map(|(name, _)| name)).map(str::to_owned).collect();
    let mut chart = Chart::new("SlimDB figure 11: five workloads")
        .x(Axis::named("", columns.iter().cloned()))
        .y(Axis::logarithmic("thousand operations per second"));
    for (preset, row, _) in &speeds {
        chart = chart.bars(preset, row.iter().copied());
    }
    results.draw("figure11.svg", &chart)?;
    results.add("Figure 11", "five workloads", "thousand/s", &columns, &speeds);
    let columns = ["reads per get", "filter bits per item", "index bits per item"].map(str::to_owned);
    results.add("Figure 11", "what the random reads cost", "as named", &columns, &memory);
    let columns = ["thousand inserts/s", "amplification of tables", "with the log"].map(str::to_owned);
    let title = format!(
        "creation of {} items, which fill {levels} levels at most (the paper's: 450 million, 4 levels; its LevelDB beside \
         leveled); an item that has not moved down yet has not been written again",
        sizes::count(items)
    );
    results.add("Table 7", &title, "as named", &columns, &writes);

    let columns = QUANTILES.map(|(_, name)| name.to_owned());
    let mut chart = Chart::new("SlimDB figure 14: latency of random reads")
        .x(Axis::logarithmic("milliseconds"))
        .y(Axis::linear("share of the reads"));
    for (preset, row) in &latencies {
        chart = chart.line(preset, row.iter().copied().zip(QUANTILES.map(|(q, _)| q)));
    }
    results.draw("figure14.svg", &chart)?;
    // The text prints one of its points.
    let paper =
        |preset: &str| if preset == "slimdb" { vec![None, None, None, Some(0.33)] } else { Vec::new() };
    let rows: Vec<_> =
        latencies.into_iter().map(|(preset, row)| (preset.clone(), row, paper(&preset))).collect();
    results.add("Figure 14", "latency of random reads", "ms", &columns, &rows);
    Ok(())
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
            let store = fill(dir, preset, items, group, budget(items, 1.0 / 16.0))?;
            insert_row.push(store.inserts / 1000.0);
            scan_row.push(measure(&store, Workload::Scan, time)?.per_second / 1000.0);
        }
        inserts.push((format!("creation, {preset}"), insert_row, Vec::new()));
        scans.push((format!("scans, {preset}"), scan_row, Vec::new()));
    }
    let rows: Vec<_> = inserts.into_iter().chain(scans).collect();
    let columns = sizes.map(|size| format!("groups of {size}"));
    let mut chart = Chart::new("SlimDB figure 12: size of groups")
        .x(Axis::named("", columns.iter().cloned()))
        .y(Axis::logarithmic("thousand operations per second"));
    for (name, row, _) in &rows {
        chart = chart.bars(name, row.iter().copied());
    }
    results.draw("figure12.svg", &chart)?;
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
            let store = fill(&dir, preset, items, 128, budget(items, 1.0 / share))?;
            inserts.push(store.inserts / 1000.0);
            reads.push(measure(&store, Workload::ReadHit, time)?.per_second / 1000.0);
        }
        rows.push((format!("creation, {preset}"), inserts, Vec::new()));
        rows.push((format!("random read, {preset}"), reads, Vec::new()));
    }
    let columns = shares.map(|share| format!("1/{share} of the data"));
    let mut chart = Chart::new("SlimDB figure 13: memory")
        .x(Axis::named("memory budget, at least 64 MiB", columns.iter().cloned()))
        .y(Axis::logarithmic("thousand operations per second"));
    for (name, row, _) in &rows {
        chart = chart.bars(name, row.iter().copied());
    }
    results.draw("figure13.svg", &chart)?;
    let floor = budget(items, 1.0 / shares[0]) == LEAST_BUDGET;
    let floor =
        if floor { "; no less than 64 MiB here, so that columns may be alike: take more items" } else { "" };
    let title = format!("memory (the paper: 2, 4 and 8 GB for 10 GB{floor})");
    results.add("Figure 13", &title, "thousand/s", &columns, &rows);
    Ok(())
}
