//! Whole stores: PUT, write amplification and GET while they grow, what a get reads, and the space that overwrites take.

use super::{Args, scaled};
use crate::commands::bench::client::{Load, Outcome, Run};
use crate::commands::bench::filled::Filled;
use crate::commands::bench::paper::Results;
use crate::commands::bench::workload::Workload;
use crate::commands::bench::{KEYSPACE, items_of, watch};
use crate::failure::{Failure, Result, fail};
use crate::measure::{Reads, find};
use crate::output::note;
use crate::plot::{Axis, Chart};
use crate::sizes::ratio;
use siltstone::{Db, Design, Keyspace, KeyspaceOptions, Options, Schema};
use std::path::Path;
use std::time::Duration;

/// Moments of growth at which a store is measured.
const STEPS: u64 = 5;

/// A store that is being filled.
pub(super) struct Store {
    pub db: Db,
    pub keyspace: Keyspace,
    pub filled: Filled,
}

/// What a read workload gave.
pub(super) struct Measured {
    pub outcome: Outcome,
    pub per_second: f64,
    pub reads_per_get: f64,
}

pub(super) fn open(path: &Path, design: Design, items: u64, options: Options) -> Result<Store> {
    let db = Db::open(path, options)?;
    let point = KeyspaceOptions { schema: Schema::Point, design: Some(design) };
    let keyspace = db.create_keyspace(KEYSPACE, point)?;
    let filled =
        Filled { items, seed: 1, key_bytes: 16, value_bytes: 100, group: 1, existing: 0, complete: true };
    Ok(Store { db, keyspace, filled })
}

impl Store {
    fn run(&self, load: &Load) -> Result<(Outcome, u64)> {
        let items = items_of(&self.filled).map_err(Failure::Failed)?;
        let run = Run::new(&self.db, &self.keyspace, items, &self.filled, load);
        let outcome = watch::run_clients(&run)?;
        Ok((outcome, run.existing()))
    }

    /// Inserts items until there are `existing`, and returns how many a second.
    pub fn grow(&mut self, existing: u64) -> Result<f64> {
        let workload = Workload::Fill;
        let operations = existing.saturating_sub(self.filled.existing);
        let load = Load {
            workload,
            mix: workload.mix(50),
            skew: 0.0,
            threads: 1,
            batch: 100,
            deadline: None,
            operations,
        };
        let (outcome, existing) = self.run(&load)?;
        self.filled.existing = existing;
        Ok(outcome.operations as f64 / outcome.seconds)
    }

    /// Reads for `time`, by `threads` clients with this skew.
    pub fn read(&self, workload: Workload, time: Duration, threads: usize, skew: f64) -> Result<Measured> {
        let mix = workload.mix(50);
        let load =
            Load { workload, mix, skew, threads, batch: 1, deadline: Some(time), operations: u64::MAX };
        let before = self.db.stats();
        let (outcome, _) = self.run(&load)?;
        outcome.check_reads()?;
        let after = self.db.stats();
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

    pub fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.wait_until_idle()?)
    }
}

/// The same trie with one run a region below the first level, as LevelDB has.
fn leveled_like(trie: &Design) -> Design {
    let mut design = siltstone::presets::leveled();
    design.head = trie.head;
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

/// PUT, write amplification and GET at five sizes.
fn grow(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let trie = scaled(args.items());
    let sizes: Vec<u64> = (1..=STEPS).map(|step| args.items() * step / STEPS).collect();
    let columns: Vec<String> =
        sizes.iter().map(|size| format!("{:.2} M items", *size as f64 / 1e6)).collect();
    let (mut puts, mut written, mut gets, mut reads, mut levels) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, design) in [("lsm-trie", trie.clone()), ("leveled", leveled_like(&trie))] {
        note!("put, write amplification, get: {} items in {name}", args.items());
        let path = dir.join(name);
        // The paper has 4 GB for up to 250 GB; filters of the upper levels fit.
        let memory_budget_bytes = (args.items() * 4).max(64 << 20);
        let options = Options { memory_budget_bytes, direct_reads: true, ..Options::default() };
        let mut store = open(&path, design, args.items(), options)?;
        let (mut put, mut amplification, mut get, mut per_get, mut depth) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for size in &sizes {
            put.push(store.grow(*size)? / 1000.0);
            store.settle()?;
            amplification.push(store.db.stats().write_amplification);
            let measured = store.read(Workload::ReadHit, args.seconds(), 8, 0.0)?;
            get.push(measured.per_second / 1000.0);
            per_get.push(measured.reads_per_get);
            depth.push(store.keyspace.stats().levels.len() as f64);
        }
        let misses = store.read(Workload::ReadMiss, args.seconds(), 8, 0.0)?;
        let stats = store.keyspace.stats();
        let data_gb = stats.table_bytes as f64 / 1e9;
        let costs = vec![
            per_get.last().copied().unwrap_or(f64::NAN),
            misses.reads_per_get,
            stats.index_bytes as f64 / 1e6 / data_gb,
            stats.filter_bits_per_item,
            stats.table_bytes as f64 / (args.items() * super::ITEM_BYTES) as f64,
        ];
        let paper = if name == "lsm-trie" { vec![Some(2.0), Some(1.0), Some(0.4)] } else { Vec::new() };
        reads.push((name.to_owned(), costs, paper));
        let paper = |value: Option<f64>| vec![value; sizes.len()];
        let is_trie = name == "lsm-trie";
        puts.push((name.to_owned(), put, Vec::new()));
        written.push((name.to_owned(), amplification, paper(Some(if is_trie { 5.0 } else { 45.0 }))));
        gets.push((name.to_owned(), get, Vec::new()));
        levels.push((name.to_owned(), depth, paper(Some(5.0))));
        drop(store);
        std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))?;
    }
    for (file, title, unit, rows) in [
        ("put.svg", "LSM-trie: PUT", "thousand a second", &puts),
        ("write-amplification.svg", "LSM-trie: write amplification", "bytes written a byte put", &written),
        ("get.svg", "LSM-trie: GET", "thousand a second", &gets),
    ] {
        let mut chart = Chart::new(title).x(Axis::linear("million items")).y(Axis::linear(unit));
        for (name, row, _) in rows {
            chart = chart.line(name, sizes.iter().map(|size| *size as f64 / 1e6).zip(row.iter().copied()));
        }
        results.draw(file, &chart)?;
    }
    results.add("PUT", "one client, batches of 100, with a log", "thousand/s", &columns, &puts);
    results.add("WA", "all writes, the log's included; the paper has none", "bytes/byte", &columns, &written);
    results.add("Levels", "levels with data", "levels", &columns, &levels);
    results.add("GET", "8 clients, uniform, around the page cache", "thousand/s", &columns, &gets);
    let columns = ["reads a hit", "reads a miss", "MB of index a GB", "filter bits an item", "space"]
        .map(str::to_owned);
    results.add(
        "Costs",
        "at the last size; space in bytes of tables a byte of items",
        "as named",
        &columns,
        &reads,
    );
    Ok(())
}

/// Space and write amplification while items are overwritten; the published system reclaims nothing.
fn overwrite(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let items = args.items() / 4;
    note!("overwrites: {items} items, each five times");
    let path = dir.join("overwrite");
    let options = Options { memory_budget_bytes: (items * 8).max(64 << 20), ..Options::default() };
    let mut store = open(&path, scaled(items), items, options)?;
    store.grow(items)?;
    store.settle()?;
    let rounds = 5;
    let (mut space, mut written) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let workload = Workload::Overwrite;
        let before = store.db.stats();
        let load = Load {
            workload,
            mix: workload.mix(50),
            skew: 0.0,
            threads: 1,
            batch: 100,
            deadline: None,
            operations: items,
        };
        store.run(&load)?;
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
    drop(store);
    std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))?;
    Ok(())
}
