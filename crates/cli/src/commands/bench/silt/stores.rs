//! Tables 6 and 7, Figures 9, 10 and 11: stores of one kind each, and the whole of SILT.

use super::Args;
use crate::commands::bench::client::{Load, Outcome, Run};
use crate::commands::bench::filled::Filled;
use crate::commands::bench::paper::Results;
use crate::commands::bench::workload::{Operation, Workload};
use crate::commands::bench::{KEYSPACE, items_of, watch};
use crate::failure::{Failure, Result};
use crate::measure::Reads;
use crate::output::note;
use crate::plot::{Axis, Chart};
use crate::sizes::ratio;
use siltstone::{Db, Design, Head, Keyspace, KeyspaceOptions, Options, Schema, presets};
use std::path::Path;
use std::time::{Duration, Instant};

pub const KEY_BYTES: u64 = 20;
pub const VALUE_BYTES: u64 = 1000;
const ITEM_BYTES: u64 = KEY_BYTES + VALUE_BYTES;
/// Share of the items that lie in hash stores when these are merged, and the hash stores of each part: the paper's.
const SHARE: f64 = 0.3;
const HASH_STORES: u16 = 31;
const LEAST_HEAD_BYTES: u64 = 256 << 10;
const MOST_RUNS: u16 = 256;
/// Slices in which growing stores are looked at.
const SLICES: u64 = 20;

/// SILT for so many items, with `runs` hash stores in each part.
pub fn design(items: u64, runs: u16) -> Design {
    let mut design = presets::silt();
    let share = (items * ITEM_BYTES) as f64 * SHARE / f64::from(HASH_STORES);
    let bytes = (share as u64).max(LEAST_HEAD_BYTES);
    design.head = Head::MemTable { bytes };
    if let Some(hash) = design.levels.first_mut() {
        (hash.runs, hash.table_bytes) = (runs, bytes >> hash.fanout_bits);
    }
    design
}

/// A store and what it is filled with.
pub struct Store {
    pub db: Db,
    pub keyspace: Keyspace,
    pub filled: Filled,
}

impl Store {
    /// An empty store with a sixteenth of the data's size for memory.
    pub fn create(dir: &Path, items: u64, design: Design) -> Result<Self> {
        let budget = (items * ITEM_BYTES / 16).max(3 * design.head_bytes()).max(4 << 20);
        let options = Options { memory_budget_bytes: budget, ..Options::default() };
        let db = Db::open(dir, options)?;
        let options = KeyspaceOptions { schema: Schema::Point, design: Some(design) };
        let keyspace = db.create_keyspace(KEYSPACE, options)?;
        let filled = Filled {
            items,
            seed: 1,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            group: 1,
            existing: 0,
            complete: true,
        };
        Ok(Self { db, keyspace, filled })
    }

    /// Runs `workload` for so many operations, or until the time is over.
    pub fn run(&mut self, workload: Workload, operations: u64, time: Option<Duration>) -> Result<Outcome> {
        let items = items_of(&self.filled).map_err(Failure::Failed)?;
        let writes = matches!(workload, Workload::Fill | Workload::Overwrite);
        let (threads, batch) = if writes { (1, 100) } else { (16, 1) };
        // The paper's mix: nine gets to a put.
        let mix = workload.mix(90);
        let load = Load { workload, mix, skew: 0.0, threads, batch, deadline: time, operations };
        let run = Run::new(&self.db, &self.keyspace, items, &self.filled, &load);
        let outcome = watch::run_clients(&run)?;
        outcome.check_reads()?;
        if workload == Workload::Fill {
            self.filled.existing = run.existing();
        }
        Ok(outcome)
    }

    /// Items per second that are written, up to where nothing is left to do.
    fn fill(&mut self) -> Result<f64> {
        let started = Instant::now();
        self.run(Workload::Fill, self.filled.items, None)?;
        self.settle()?;
        Ok(self.filled.items as f64 / started.elapsed().as_secs_f64())
    }

    pub fn settle(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.wait_until_idle()?)
    }

    /// Bytes of filters and indexes.
    pub fn index_bytes(&self) -> u64 {
        let stats = self.keyspace.stats();
        stats.filter_bytes + stats.index_bytes
    }

    /// Gets of one kind: thousands per second, reads per get, milliseconds at the median and the 99th percentile.
    fn gets(&mut self, workload: Workload, time: Duration) -> Result<[f64; 4]> {
        let before = self.keyspace.stats();
        let outcome = self.run(workload, u64::MAX, Some(time))?;
        let reads = Reads::between(&before, &self.keyspace.stats());
        let kind = if workload == Workload::ReadMiss { Operation::GetMissing } else { Operation::Get };
        let latencies = outcome.latencies.get(kind as usize);
        let at = |q: f64| latencies.map_or(f64::NAN, |all| all.value_at_quantile(q) as f64 / 1e6);
        let per_get = ratio(reads.by_hits + reads.by_misses, reads.hits + reads.misses);
        Ok([outcome.operations as f64 / outcome.seconds / 1e3, per_get, at(0.5), at(0.99)])
    }
}

fn remove(store: Store) -> Result<()> {
    let path = store.db.path().to_owned();
    drop(store.keyspace);
    store.db.close()?;
    std::fs::remove_dir_all(&path).map_err(|e| Failure::at(&path, e))
}

/// A design whose hash stores are never merged.
fn hash_only(items: u64) -> Design {
    let mut design = design(items, MOST_RUNS);
    if let Some(hash) = design.levels.first_mut() {
        hash.table_bytes *= 8;
    }
    design
}

/// A design without hash stores worth the name: every second flush is merged.
fn sorted_only(items: u64) -> Design {
    design(items, 2)
}

pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    kinds(args, results, dir)?;
    growth(args, results, dir)?;
    throughput(args, results, dir)
}

/// Tables 6 and 7, Figure 11.
fn kinds(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let (items, time) = (args.items(), args.seconds());
    let head_items = design(items, HASH_STORES).head_bytes() / ITEM_BYTES / 2;
    let kinds = [
        ("head", head_items, design(items, HASH_STORES), [204.6, 46.79, 7086.0]),
        ("hash stores", items / 4, hash_only(items), [67.96, 44.93, 7264.0]),
        ("sorted stores", items, sorted_only(items), [26.76, 46.57, 46.61]),
    ];
    let (mut built, mut queried, mut cost, mut latency) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, items, design, [paper_built, paper_hit, paper_miss]) in kinds {
        note!("tables 6 and 7: {items} items in {name}");
        let mut store = Store::create(&dir.join("kind"), items, design)?;
        let rate = if name == "head" {
            let outcome = store.run(Workload::Fill, items, None)?;
            outcome.operations as f64 / outcome.seconds
        } else {
            store.fill()?
        };
        let hit = store.gets(Workload::ReadHit, time)?;
        let miss = store.gets(Workload::ReadMiss, time)?;
        built.push((name.to_owned(), vec![rate / 1e3], vec![Some(paper_built)]));
        queried.push((name.to_owned(), vec![hit[0], miss[0]], vec![Some(paper_hit), Some(paper_miss)]));
        cost.push((name.to_owned(), vec![hit[1], miss[1]], Vec::new()));
        latency.push((name.to_owned(), vec![hit[2], hit[3]], Vec::new()));
        remove(store)?;
    }
    let columns = ["items written to rest".to_owned()];
    results.add(
        "Table 6",
        "construction (ours from puts, all work included)",
        "thousand/s",
        &columns,
        &built,
    );
    let columns = ["get, hit", "get, miss"].map(str::to_owned);
    results.add("Table 7", "queries by 16 threads", "thousand/s", &columns, &queried);
    results.add("Table 7", "device reads of these queries", "reads per get", &columns, &cost);
    let mut chart = Chart::new("SILT table 7: queries by kind of store")
        .x(Axis::named("", columns.iter().cloned()))
        .y(Axis::logarithmic("thousand gets per second"));
    for (name, row, _) in &queried {
        chart = chart.bars(name, row.iter().copied());
    }
    results.draw("table7.svg", &chart)?;
    let columns = ["median", "p99"].map(str::to_owned);
    results.add("Figure 11", "latency by where the item is", "ms", &columns, &latency);
    Ok(())
}

/// Figure 10: memory of indexes while as many items come as there are.
fn growth(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let items = args.items();
    let kinds = [
        ("hash stores only", hash_only(items)),
        ("without hash stores", sorted_only(items)),
        ("SILT", design(items, HASH_STORES)),
    ];
    let mut rows = Vec::new();
    let mut chart = Chart::new("SILT figure 10: index memory while items are inserted")
        .x(Axis::linear("items"))
        .y(Axis::logarithmic("bytes of index per item").from(0.1));
    let log = |n: u64| 6.0 / 0.974 * n as f64;
    // A log store's index is six bytes a lane, and 0.974 of the lanes are filled: computed, since there is no such head.
    let points = (1..=SLICES).map(|slice| ((slice * items / SLICES) as f64, log(1)));
    chart = chart.dashes("log store only (computed)", points);
    rows.push(("log store only (computed)".to_owned(), vec![log(1), log(1)], Vec::new()));
    for (name, design) in kinds {
        note!("figure 10: {items} items, {name}");
        let mut store = Store::create(&dir.join("growth"), items, design)?;
        let mut points = Vec::new();
        for slice in 1..=SLICES {
            store.run(Workload::Fill, slice * items / SLICES - store.filled.existing, None)?;
            let bytes = store.index_bytes() as f64 / store.filled.existing.max(1) as f64;
            points.push((store.filled.existing as f64, bytes));
        }
        store.db.wait_until_idle()?;
        // The paper starts from half of the items, merged.
        let late = points.iter().skip(points.len() / 2).map(|(_, bytes)| *bytes);
        let (most, last) = (late.fold(0.0, f64::max), points.last().map_or(0.0, |(_, bytes)| *bytes));
        let paper = if name == "SILT" { vec![Some(0.69)] } else { Vec::new() };
        rows.push((name.to_owned(), vec![most, last], paper));
        chart = chart.line(name, points);
        remove(store)?;
    }
    results.draw("figure10.svg", &chart)?;
    let columns = ["most, in the second half", "at the end"].map(str::to_owned);
    results.add("Figure 10", "index memory by combination of stores", "bytes per item", &columns, &rows);
    Ok(())
}

/// Figure 9: gets beside puts while stores are converted and merged.
fn throughput(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let (items, time) = (args.items(), args.seconds() * 3 / SLICES as u32);
    note!("figure 9: gets beside a tenth of puts");
    let mut store = Store::create(&dir.join("throughput"), items, design(items, HASH_STORES))?;
    store.fill()?;
    let alone = store.gets(Workload::ReadHit, args.seconds())?;
    let mut points = Vec::new();
    for slice in 0..SLICES {
        let outcome = store.run(Workload::MixedBlind, u64::MAX, Some(time))?;
        let gets = outcome.operations as f64 * 0.9 / outcome.seconds / 1e3;
        points.push((slice as f64 * time.as_secs_f64(), gets));
    }
    let chart = Chart::new("SILT figure 9: gets beside a tenth of puts")
        .x(Axis::linear("seconds"))
        .y(Axis::linear("thousand gets per second").from(0.0))
        .line("beside puts", points.iter().copied())
        .dashes("alone", [(0.0, alone[0]), (time.as_secs_f64() * SLICES as f64, alone[0])]);
    results.draw("figure9.svg", &chart)?;
    let mean = points.iter().map(|(_, gets)| gets).sum::<f64>() / points.len().max(1) as f64;
    let least = points.iter().map(|(_, gets)| *gets).fold(f64::INFINITY, f64::min);
    let rows = vec![
        ("gets alone".to_owned(), vec![alone[0]], vec![Some(46.0)]),
        ("gets beside a tenth of puts".to_owned(), vec![mean], vec![Some(33.0)]),
        ("the same, in the worst slice".to_owned(), vec![least], Vec::new()),
    ];
    results.add("Figure 9", "gets by 16 threads", "thousand/s", &["ours".to_owned()], &rows);
    remove(store)
}
