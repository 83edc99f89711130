//! Tables 6 and 7, Figures 9, 10 and 11: stores of one kind each, and the whole of SILT.

use super::Args;
use crate::commands::bench::client::{Load, Outcome, Run};
use crate::commands::bench::filled::Filled;
use crate::commands::bench::paper::{Results, Row};
use crate::commands::bench::workload::{Operation, Workload};
use crate::commands::bench::{KEYSPACE, items_of, watch};
use crate::failure::{Failure, Result};
use crate::measure::Reads;
use crate::output::note;
use crate::plot::{Axis, Chart};
use crate::sizes::{count, ratio};
use siltstone::{Db, Design, Head, Keyspace, KeyspaceOptions, Options, Schema, presets};
use std::path::Path;
use std::time::{Duration, Instant};

pub const KEY_BYTES: u64 = 20;
pub const VALUE_BYTES: u64 = 1000;
pub const ITEM_BYTES: u64 = KEY_BYTES + VALUE_BYTES;
/// Share of the items that lie in hash stores when these are merged, and the hash stores of each part: the paper's.
const SHARE: f64 = 0.3;
pub const HASH_STORES: u16 = 31;
const LEAST_HEAD_BYTES: u64 = 256 << 10;
const MOST_RUNS: u16 = 256;
/// Slices in which growing stores are looked at.
const SLICES: u64 = 20;
/// Conversions after which every part is due to be merged, those that are late for their first time too.
const CONVERSIONS: u64 = 44;
/// A log store's index has six bytes a lane, of which 0.974 are filled.
const LOG_INDEX_BYTES: f64 = 6.0 / 0.974;

/// SILT for so many items, with `runs` hash stores in each part.
pub fn design(items: u64, runs: u16) -> Design {
    let mut design = presets::silt();
    let share = (items * ITEM_BYTES) as f64 * SHARE / f64::from(HASH_STORES);
    let bytes = (share as u64).max(LEAST_HEAD_BYTES);
    design.head = Head::MemTable { bytes };
    if let Some(hash) = design.levels.first_mut() {
        // A little more than they take, so that stores are counted and not measured.
        (hash.runs, hash.table_bytes) = (runs, (bytes >> hash.fanout_bits) * 5 / 4);
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
    /// An empty store with a sixteenth of the data's size for memory, read around the system's page cache.
    pub fn create(dir: &Path, items: u64, design: Design) -> Result<Self> {
        Self::create_with(dir, items, design, Options::default())
    }

    fn create_with(dir: &Path, items: u64, design: Design, options: Options) -> Result<Self> {
        let budget = (items * ITEM_BYTES / 16).max(3 * design.head_bytes()).max(4 << 20);
        let db = Db::open(dir, Options { memory_budget_bytes: budget, direct_reads: true, ..options })?;
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

    /// Runs `workload` for so many operations, or until the time is over: puts by one client in batches, gets by the paper's 16.
    pub fn run(&mut self, workload: Workload, operations: u64, time: Option<Duration>) -> Result<Outcome> {
        let writes = matches!(workload, Workload::Fill | Workload::Overwrite);
        self.run_by(workload, if writes { (1, 100) } else { (16, 1) }, operations, time)
    }

    /// The same by so many clients with so many items a call.
    pub fn run_by(
        &mut self,
        workload: Workload,
        (threads, batch): (usize, usize),
        operations: u64,
        time: Option<Duration>,
    ) -> Result<Outcome> {
        let items = items_of(&self.filled).map_err(Failure::Failed)?;
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

    /// Writes all items, up to where nothing is left to do.
    pub fn fill(&mut self) -> Result<()> {
        self.run(Workload::Fill, self.filled.items, None)?;
        self.settle()
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

    /// Gets of one kind: thousands per second, reads per get, milliseconds on average, at the median and the 99th percentile.
    fn gets(&mut self, workload: Workload, time: Duration) -> Result<[f64; 5]> {
        let before = self.keyspace.stats();
        let outcome = self.run(workload, u64::MAX, Some(time))?;
        let reads = Reads::between(&before, &self.keyspace.stats());
        let kind = if workload == Workload::ReadMiss { Operation::GetMissing } else { Operation::Get };
        let latencies = outcome.latencies.get(kind as usize);
        let at = |q: f64| latencies.map_or(f64::NAN, |all| all.value_at_quantile(q) as f64 / 1e6);
        let mean = latencies.map_or(f64::NAN, |all| all.mean() / 1e6);
        let per_get = ratio(reads.by_hits + reads.by_misses, reads.hits + reads.misses);
        Ok([outcome.operations as f64 / outcome.seconds / 1e3, per_get, mean, at(0.5), at(0.99)])
    }
}

pub fn remove(store: Store) -> Result<()> {
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

pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    kinds(args, results, dir)?;
    growth(args, results, dir)?;
    throughput(args, results, dir)
}

/// What was measured of stores of one kind.
struct Kind {
    name: &'static str,
    /// Thousand items a second that were made into them.
    built: f64,
    hit: [f64; 5],
    miss: [f64; 5],
    /// The paper's: thousand a second built, got, missed; milliseconds a get.
    paper: [Option<f64>; 4],
}

/// Tables 6 and 7, Figure 11: one store is taken through the three kinds, each step by itself and timed.
fn kinds(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let (items, time) = (args.items(), args.seconds());
    let design = design(items, HASH_STORES);
    // One item less than what seals a memtable.
    let each = design.head_bytes() / ITEM_BYTES - 1;
    let options = Options { background_threads: 0, ..Options::default() };
    let mut store = Store::create_with(&dir.join("kinds"), items, design, options)?;
    let ask = |store: &mut Store| -> Result<[[f64; 5]; 2]> {
        Ok([store.gets(Workload::ReadHit, time)?, store.gets(Workload::ReadMiss, time)?])
    };
    let rate = |items: u64, seconds: f64| items as f64 / seconds / 1e3;

    note!("tables 6 and 7: {each} items in the head");
    let outcome = store.run(Workload::Fill, each, None)?;
    let [hit, miss] = ask(&mut store)?;
    let built = outcome.operations as f64 / outcome.seconds / 1e3;
    let paper = [Some(204.6), Some(46.79), Some(7086.0), Some(0.309)];
    let mut kinds = vec![Kind { name: "head", built, hit, miss, paper }];

    note!("tables 6 and 7: {CONVERSIONS} heads of {each} items become hash stores");
    let mut seconds = 0.0;
    for number in 0..CONVERSIONS {
        if number > 0 {
            store.run(Workload::Fill, each, None)?;
        }
        let started = Instant::now();
        store.db.flush()?;
        seconds += started.elapsed().as_secs_f64();
    }
    let [hit, miss] = ask(&mut store)?;
    let (built, paper) =
        (rate(store.filled.existing, seconds), [Some(67.96), Some(44.93), Some(7264.0), None]);
    kinds.push(Kind { name: "hash stores", built, hit, miss, paper });

    note!("tables 6 and 7: the hash stores are merged");
    let started = Instant::now();
    while store.db.step()? {}
    let built = rate(store.filled.existing, started.elapsed().as_secs_f64());
    let [hit, miss] = ask(&mut store)?;
    kinds.push(Kind {
        name: "sorted stores",
        built,
        hit,
        miss,
        paper: [Some(26.76), Some(46.57), Some(46.61), None],
    });
    remove(store)?;

    let rows = |ours: fn(&Kind) -> Vec<f64>, paper: fn(&Kind) -> Vec<Option<f64>>| -> Vec<Row> {
        kinds.iter().map(|kind| (kind.name.to_owned(), ours(kind), paper(kind))).collect()
    };
    let columns = ["construction"].map(str::to_owned);
    let title = "by puts and their log, by conversion, by merging; each alone";
    results.add("Table 6", title, "thousand/s", &columns, &rows(|k| vec![k.built], |k| vec![k.paper[0]]));
    let columns = ["get, hit", "get, miss"].map(str::to_owned);
    let queried = rows(|k| vec![k.hit[0], k.miss[0]], |k| vec![k.paper[1], k.paper[2]]);
    results.add("Table 7", "queries by 16 threads", "thousand/s", &columns, &queried);
    let cost = rows(|k| vec![k.hit[1], k.miss[1]], |_| Vec::new());
    results.add("Table 7", "device reads of these queries", "reads per get", &columns, &cost);
    let mut chart = Chart::new("SILT table 7: queries by kind of store")
        .x(Axis::named("", columns.iter().cloned()))
        .y(Axis::logarithmic("thousand gets per second"));
    for (name, row, paper) in &queried {
        chart = chart.bars(name, row.iter().copied());
        chart = chart.bars(&format!("{name}, the paper's"), paper.iter().flatten().copied());
    }
    results.draw("table7.svg", &chart)?;
    let columns = ["mean", "median", "p99"].map(str::to_owned);
    let latency = rows(|k| k.hit[2..].to_vec(), |k| vec![k.paper[3]]);
    results.add("Figure 11", "latency by where the item is, 16 threads", "ms", &columns, &latency);
    let mut chart = Chart::new("SILT figure 11: latency by where the item is")
        .x(Axis::named("", columns.iter().cloned()))
        .y(Axis::logarithmic("milliseconds"));
    for (name, row, _) in &latency {
        chart = chart.bars(name, row.iter().copied());
    }
    results.draw("figure11.svg", &chart)
}

/// What a growing store holds at one moment, in items and bytes.
#[derive(Clone, Copy)]
struct Moment {
    seconds: f64,
    items: f64,
    head_items: f64,
    hash_items: f64,
    hash_bytes: f64,
    sorted_bytes: f64,
}

impl Moment {
    /// With a log store as head, whose index has six bytes a lane and 0.974 of the lanes filled: computed where the head is a
    /// memtable.
    fn silt(&self) -> f64 {
        self.head_items * LOG_INDEX_BYTES + self.hash_bytes + self.sorted_bytes
    }

    /// What is in hash stores, in log stores instead.
    fn without_hash_stores(&self) -> f64 {
        (self.head_items + self.hash_items) * LOG_INDEX_BYTES + self.sorted_bytes
    }

    fn logs_only(&self) -> f64 {
        self.items * LOG_INDEX_BYTES
    }
}

/// Fills half of the items and merges them; then looks at the store while the other half comes, at a pace that conversion and
/// merging keep up with, as the paper's does with 3,000 a second: before every memtable's worth they have come to rest.
fn grow(dir: &Path, items: u64, design: Design) -> Result<Vec<Moment>> {
    let mut store = Store::create(dir, items, design)?;
    store.run(Workload::Fill, items / 2, None)?;
    store.settle()?;
    let started = Instant::now();
    let mut moments = Vec::new();
    let slices = (items / 2 * ITEM_BYTES).div_ceil(store.keyspace.design().head_bytes()).max(SLICES);
    for slice in 0..=slices {
        store.db.wait_until_idle()?;
        let upto = items / 2 + slice * items / 2 / slices;
        store.run(Workload::Fill, upto - store.filled.existing, None)?;
        let stats = store.keyspace.stats();
        let hash = stats.levels.first().copied().unwrap_or_default();
        let sorted = stats.levels.iter().skip(1);
        moments.push(Moment {
            seconds: started.elapsed().as_secs_f64(),
            items: store.filled.existing as f64,
            head_items: store.filled.existing.saturating_sub(stats.table_entries) as f64,
            hash_items: hash.entries as f64,
            hash_bytes: (hash.filter_bytes + hash.index_bytes) as f64,
            sorted_bytes: sorted.map(|level| level.filter_bytes + level.index_bytes).sum::<u64>() as f64,
        });
    }
    remove(store)?;
    Ok(moments)
}

/// Figure 10: memory of indexes while as many new items come as there are.
fn growth(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let items = 2 * args.items();
    note!("figure 10: {} items into as many, SILT", items / 2);
    let silt = grow(&dir.join("growth"), items, design(items, HASH_STORES))?;
    note!("figure 10: the same into hash stores only");
    let hash = grow(&dir.join("growth"), items, hash_only(items))?;
    let series = [
        ("log stores only (computed)", &silt, Moment::logs_only as fn(&Moment) -> f64, None),
        ("log and hash stores", &hash, Moment::silt, None),
        ("log and sorted stores (log's part computed)", &silt, Moment::without_hash_stores, None),
        ("log, hash and sorted stores: SILT", &silt, Moment::silt, Some(0.69)),
    ];
    let mut chart = Chart::new("SILT figure 10: index memory while as many items are inserted as there are")
        .x(Axis::linear("seconds"))
        .y(Axis::linear("megabytes of index").from(0.0));
    let mut rows = Vec::new();
    let end = items as f64;
    for (name, moments, bytes, paper) in series {
        let of = |moment: Option<&Moment>| moment.map_or(f64::NAN, bytes);
        let most = moments.iter().map(bytes).fold(0.0, f64::max) / end;
        let (first, last) = (of(moments.first()), of(moments.last()));
        let seconds = moments.last().map_or(f64::NAN, |moment| moment.seconds);
        rows.push((name.to_owned(), vec![most, first / (end / 2.0), last / end, seconds], vec![paper]));
        chart = chart.line(name, moments.iter().map(|moment| (moment.seconds, bytes(moment) / 1e6)));
    }
    results.draw("figure10.svg", &chart)?;
    let columns =
        ["at most, by the items of the end", "at the start", "at the end", "seconds"].map(str::to_owned);
    let title = format!("index memory, {} items into as many (the paper: 50 million)", count(items / 2));
    results.add("Figure 10", &title, "bytes per item; seconds", &columns, &rows);
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
