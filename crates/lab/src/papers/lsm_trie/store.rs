//! Whole stores: PUT, write amplification and GET while they grow, what a get reads, and the space that
//! overwrites take.

use super::{Args, scaled};
use crate::clients::client::Load;
use crate::clients::filled::Filled;
use crate::clients::workload::Workload;
use crate::kit::device::RawReads;
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes::{count, ratio};
use crate::papers::evaluation::{Results, Row};
use crate::papers::store::Store;
use crate::program::failure::{Failure, Result};
use crate::program::output::note;
use siltstone::{Design, KeyspaceOptions, Options, Schema};
use std::path::Path;
use std::time::Duration;

/// Moments of growth at which a store is measured.
const STEPS: u64 = 5;
/// Clients of read workloads; the parallel-search paper has eight pairs of threads.
pub(super) const CLIENTS: usize = 8;

/// Opens a store of so many items, or creates it; `existing` of them are there.
pub(super) fn open(path: &Path, design: Design, options: Options, filled: Filled) -> Result<Store> {
    Store::open(
        path,
        options,
        KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() },
        filled,
    )
}

/// So many items to come, none of which is there yet.
pub(super) fn none_of(items: u64) -> Filled {
    Filled { items, seed: 1, key_bytes: 16, value_bytes: 100, group: 1, existing: 0, complete: true }
}

/// One client's batches of writes.
fn writes(workload: Workload, operations: u64) -> Load {
    let mix = workload.mix(50);
    Load { workload, mix, skew: 0.0, threads: 1, batch: 100, deadline: None, operations }
}

/// Inserts items until there are `existing`, and returns how many a second.
pub(super) fn insert(store: &mut Store, existing: u64) -> Result<f64> {
    let operations = existing.saturating_sub(store.filled.existing);
    let outcome = store.work(&writes(Workload::Fill, operations))?;
    Ok(outcome.operations as f64 / outcome.seconds)
}

/// Gets of [`CLIENTS`] clients for `time`, with this skew.
pub(super) fn gets(workload: Workload, time: Duration, skew: f64) -> Load {
    let (mix, deadline) = (workload.mix(50), Some(time));
    Load { workload, mix, skew, threads: CLIENTS, batch: 1, deadline, operations: u64::MAX }
}

/// The same trie with one run a region below the first level, as LevelDB has.
fn leveled_like(trie: &Design) -> Design {
    let mut design = siltstone::presets::leveled();
    design.write_buffer = trie.write_buffer;
    let [first, .., second] = trie.levels.as_slice() else { return design };
    for (number, level) in design.levels.iter_mut().enumerate() {
        level.fanout_bits = if number == 0 { 0 } else { second.fanout_bits };
        level.table_bytes =
            if number == 0 { first.table_bytes } else { first.table_bytes * u64::from(first.runs) };
        level.runs = if number == 0 { first.runs } else { 1 };
    }
    design
}

pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    grow(args, results, dir)?;
    overwrite(args, results, dir)
}

/// What a growing store gave, at each size.
#[derive(Default)]
struct Growth {
    /// Thousands a second.
    put: Vec<f64>,
    written: Vec<f64>,
    /// Thousands a second.
    get: Vec<f64>,
    /// Gets by what as many readers of single pages get from the device below the same files, in per cent.
    of_raw: Vec<f64>,
    levels: Vec<f64>,
    /// In the order of `COSTS`, at the last size.
    costs: Vec<f64>,
}

const COSTS: [&str; 5] = ["reads a hit", "reads a miss", "MB of index a GB", "filter bits an item", "space"];

fn growth(args: &Args, path: &Path, design: Design, sizes: &[u64]) -> Result<Growth> {
    // The paper has 4 GB for up to 250 GB; filters of the upper levels fit.
    let memory_budget_bytes = (args.items() * 4).max(8 << 20);
    let options = Options { memory_budget_bytes, direct_reads: true, ..Options::default() };
    let mut store = open(path, design, options, none_of(args.items()))?;
    let mut growth = Growth::default();
    for size in sizes {
        growth.put.push(insert(&mut store, *size)? / 1000.0);
        store.settle()?;
        growth.written.push(store.db.stats().write_amplification);
        // The device before and after, since what else it does changes.
        let raw = RawReads::of_directory(path).map_err(|e| Failure::at(path, e))?;
        let raw = || raw.per_second(CLIENTS, 1, args.seconds() / 2).map_err(|e| Failure::at(path, e));
        let before = raw()?;
        let read = store.measure(&gets(Workload::ReadHit, args.seconds(), 0.0))?;
        growth.of_raw.push(200.0 * read.per_second / (before + raw()?));
        growth.get.push(read.per_second / 1000.0);
        let stats = store.keyspace.stats();
        growth.levels.push(stats.levels.len() as f64);
        growth.costs = vec![
            read.reads_per_get,
            f64::NAN,
            stats.index_bytes as f64 / 1e6 / (stats.table_bytes as f64 / 1e9),
            stats.filter_bits_per_item,
            stats.table_bytes as f64 / (size * super::ITEM_BYTES) as f64,
        ];
    }
    if let Some(reads_per_miss) = growth.costs.get_mut(1) {
        *reads_per_miss = store.measure(&gets(Workload::ReadMiss, args.seconds(), 0.0))?.reads_per_get;
    }
    Ok(growth)
}

/// PUT, write amplification and GET at five sizes, beside the slides': LevelDB's where ours is laid out like
/// it.
fn grow(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    const NAMES: [&str; 2] = ["lsm-trie", "leveled"];
    let trie = scaled(args.items());
    let leveled = leveled_like(&trie);
    let sizes: Vec<u64> = (1..=STEPS).map(|step| args.items() * step / STEPS).collect();
    let mut both = Vec::new();
    for (name, design) in NAMES.into_iter().zip([trie, leveled]) {
        note!("put, write amplification, get: {} items in {name}", args.items());
        let path = dir.join(name);
        both.push(growth(args, &path, design, &sizes)?);
        std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))?;
    }
    let millions: Vec<f64> = sizes.iter().map(|size| *size as f64 / 1e6).collect();
    let columns: Vec<String> = sizes.iter().map(|size| format!("{} items", count(*size))).collect();
    let everywhere = |value: f64| vec![Some(value); sizes.len()];
    let rows = |of: fn(&Growth) -> &Vec<f64>, papers: [Option<f64>; 2]| -> Vec<Row> {
        let rows = NAMES.into_iter().zip(&both).zip(papers);
        rows.map(|((name, growth), paper)| {
            (name.to_owned(), of(growth).clone(), paper.map_or_else(Vec::new, everywhere))
        })
        .collect()
    };
    let mut put = rows(|growth| &growth.put, [None, None]);
    let written = rows(|growth| &growth.written, [Some(5.0), Some(45.0)]);
    let get = rows(|growth| &growth.get, [None, None]);
    let of_raw = rows(|growth| &growth.of_raw, [Some(50.0), None]);
    let levels = rows(|growth| &growth.levels, [Some(5.0), Some(5.0)]);
    for (file, title, unit, rows) in [
        ("put.svg", "LSM-trie: PUT", "thousand puts a second", &put),
        ("write-amplification.svg", "LSM-trie: write amplification", "bytes written per byte put", &written),
        ("get.svg", "LSM-trie: GET", "thousand gets a second", &get),
        ("get-of-raw.svg", "LSM-trie: GET, of the device's raw rate", "per cent", &of_raw),
    ] {
        let mut chart = Chart::new(title).x(Axis::linear("million items")).y(Axis::linear(unit).from(0.0));
        for (name, ours, paper) in rows {
            chart = chart.line(name, millions.iter().copied().zip(ours.iter().copied()));
            if let Some(paper) = paper.last().copied().flatten() {
                let last = millions.last().copied().unwrap_or(f64::NAN);
                chart = chart.printed(&format!("{name}, the slides'"), [(last, paper)]);
            }
        }
        results.draw(file, &chart)?;
    }
    if let [(_, trie, _), (_, leveled, _)] = put.as_slice() {
        // The slides have two to three times.
        let ratio = trie.iter().zip(leveled).map(|(trie, leveled)| trie / leveled).collect();
        put.push(("lsm-trie by leveled".to_owned(), ratio, everywhere(2.0)));
    }
    results.add("PUT", "one client, batches of 100, with a log", "thousand/s", &columns, &put);
    let title = "all writes, the log's included; the paper's has none";
    results.add("WA", title, "bytes/byte", &columns, &written);
    results.add("Levels", "levels with data", "levels", &columns, &levels);
    results.add("GET", "8 clients, uniform, around the page cache", "thousand/s", &columns, &get);
    let title = "of as many single-page reads of the same files, without a store";
    results.add("GET", title, "%", &columns, &of_raw);
    let papers = [vec![Some(2.0), Some(1.0), Some(0.4)], Vec::new()];
    let costs: Vec<Row> = (NAMES.into_iter().zip(&both).zip(papers))
        .map(|((name, growth), paper)| (name.to_owned(), growth.costs.clone(), paper))
        .collect();
    let title = "at the last size; space in bytes of tables a byte of items";
    results.add("Costs", title, "as named", &COSTS.map(str::to_owned), &costs);
    Ok(())
}

/// Space and write amplification while items are overwritten; the published system reclaims nothing.
fn overwrite(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let items = args.items() / 4;
    note!("overwrites: {items} items, each five times");
    let path = dir.join("overwrite");
    let options = Options { memory_budget_bytes: (items * 8).max(64 << 20), ..Options::default() };
    let mut store = open(&path, scaled(items), options, none_of(items))?;
    insert(&mut store, items)?;
    store.settle()?;
    let rounds = 5;
    let (mut space, mut written) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = store.db.stats();
        store.work(&writes(Workload::Overwrite, items))?;
        store.settle()?;
        let after = store.db.stats();
        written.push(ratio(
            after.device_bytes_written - before.device_bytes_written,
            after.user_bytes_written - before.user_bytes_written,
        ));
        let table_bytes = store.keyspace.stats().table_bytes;
        space.push(table_bytes as f64 / (items * super::ITEM_BYTES) as f64);
    }
    let columns: Vec<String> = (1..=rounds).map(|round| format!("round {round}")).collect();
    let rows =
        [("space".to_owned(), space, Vec::new()), ("write amplification".to_owned(), written, Vec::new())];
    results.add(
        "Overwrites",
        "bytes of tables a live byte; bytes written a byte put",
        "bytes/byte",
        &columns,
        &rows,
    );
    store.remove()
}
