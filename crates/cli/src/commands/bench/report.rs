//! The figures of one run. Their names are stable: scripts read them.

use super::WorkloadArgs;
use super::predicted::Predicted;
use crate::clients::client::{Load, Outcome};
use crate::clients::filled::Filled;
use crate::clients::workload::Operation;
use crate::commands::stats;
use crate::failure::{Result, fail};
use crate::measure::{Reads, find, rss_peak_bytes};
use crate::sizes::{self, ratio};
use crate::table::Table;
use hdrhistogram::Histogram;
use serde::Serialize;
use siltstone::{Drift, KeyspaceStats, LevelStats, MemoryStats, StallStats, Stats};
use std::collections::BTreeMap;
use std::fmt;

/// Statistics around a run.
pub struct Measured<'a> {
    /// Before the first call.
    pub before: &'a Stats,
    /// When the last call had returned.
    pub at_write_end: &'a Stats,
    /// When no background work was left.
    pub after: &'a Stats,
    /// From `at_write_end` to `after`.
    pub drain_seconds: f64,
    /// Processor time of the whole process from `before` to `after`, clients included.
    pub cpu_seconds: f64,
}

/// Quantiles of latencies in microseconds.
#[derive(Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    mean: f64,
    calls: u64,
}

/// Bytes of memory by what they are for.
#[derive(Serialize)]
pub struct Memory {
    pub memtable: u64,
    pub filter: u64,
    pub index: u64,
    pub cache: u64,
    pub compaction: u64,
    pub total: u64,
    pub budget: u64,
}

#[derive(Serialize)]
struct Stalls {
    count: u64,
    max_ms: f64,
    total_ms: f64,
    paced_ms: f64,
}

#[derive(Serialize)]
struct WriteEnd {
    device_bytes_written: u64,
    write_amplification: f64,
    space_bytes: u64,
}

/// The figures of one run; counters are those of the run, sizes those at its end after draining.
#[derive(Serialize)]
pub struct Report {
    workload: String,
    preset: String,
    items: u64,
    key_bytes: u64,
    value_bytes: u64,
    group: u64,
    seed: u64,
    skew: f64,
    threads: usize,
    batch: usize,
    durability: &'static str,
    operations: u64,
    calls: u64,
    seconds: f64,
    operations_per_second: f64,
    drain_seconds: f64,
    cpu_us_per_operation: f64,
    latency_us: Latency,
    latency_us_by_operation: BTreeMap<&'static str, Latency>,
    scanned_items: u64,
    scanned_items_per_second: f64,
    user_bytes_written: u64,
    device_bytes_written: u64,
    write_amplification: f64,
    wal_write_amplification: f64,
    write_amplification_by_level: Vec<f64>,
    at_write_end: WriteEnd,
    gets: u64,
    device_reads: u64,
    device_reads_per_get: f64,
    device_reads_per_hit: f64,
    device_reads_per_miss: f64,
    device_reads_per_scan: f64,
    filter_probes: u64,
    false_positives: u64,
    memory_bytes: Memory,
    filter_bits_per_item: f64,
    index_bits_per_item: f64,
    space_bytes: u64,
    space_amplification: f64,
    stalls: Stalls,
    put_stalls_over_50ms: u64,
    rss_peak_bytes: u64,
    levels: Vec<LevelStats>,
    not_found: u64,
    found_unexpectedly: u64,
    wrong: u64,
    /// The same figures by the model, where it knows the workload.
    predicted: Option<Predicted>,
    /// Figures of the keyspace, over all that it has gone through, that are far from what is predicted of it,
    /// as `stats` has them.
    drift: Vec<Drift>,
}

impl Report {
    /// Puts the figures together.
    pub fn new(
        args: &WorkloadArgs,
        load: &Load,
        filled: &Filled,
        outcome: &Outcome,
        measured: &Measured<'_>,
        predicted: Option<Predicted>,
        keyspace: &str,
    ) -> Result<Self> {
        let Measured { before, at_write_end, after, drain_seconds, cpu_seconds } = *measured;
        let (Some(was), Some(is)) = (find(before, keyspace), find(after, keyspace)) else {
            fail!("the store has no statistics of keyspace {keyspace:?}");
        };
        let user_bytes = after.user_bytes_written.saturating_sub(before.user_bytes_written);
        let device_bytes = after.device_bytes_written.saturating_sub(before.device_bytes_written);
        let log_bytes = after.wal_bytes_written.saturating_sub(before.wal_bytes_written);
        let (reads, seconds) = (Reads::between(was, is), outcome.seconds.max(1e-9));
        let live_bytes = filled.existing * (filled.key_bytes + filled.value_bytes);
        Ok(Self {
            workload: load.workload.name(),
            preset: is.preset.to_string(),
            items: filled.existing,
            key_bytes: filled.key_bytes,
            value_bytes: filled.value_bytes,
            group: filled.group,
            seed: filled.seed,
            skew: load.skew,
            threads: load.threads,
            batch: load.batch,
            durability: args.durability.name(),
            operations: outcome.operations,
            calls: outcome.calls,
            seconds: outcome.seconds,
            operations_per_second: outcome.operations as f64 / seconds,
            drain_seconds,
            cpu_us_per_operation: cpu_seconds * 1e6 / outcome.operations.max(1) as f64,
            latency_us: all_latencies(outcome)?,
            latency_us_by_operation: latencies_by_operation(outcome),
            scanned_items: outcome.scanned_items,
            scanned_items_per_second: outcome.scanned_items as f64 / seconds,
            user_bytes_written: user_bytes,
            device_bytes_written: device_bytes,
            write_amplification: ratio(device_bytes, user_bytes),
            wal_write_amplification: ratio(log_bytes, user_bytes),
            write_amplification_by_level: by_level(was, is, user_bytes),
            at_write_end: WriteEnd::of(before, at_write_end, user_bytes),
            gets: reads.hits + reads.misses,
            device_reads: after.device_reads.saturating_sub(before.device_reads),
            device_reads_per_get: ratio(reads.by_hits + reads.by_misses, reads.hits + reads.misses),
            device_reads_per_hit: ratio(reads.by_hits, reads.hits),
            device_reads_per_miss: ratio(reads.by_misses, reads.misses),
            device_reads_per_scan: ratio(reads.by_scans, reads.scans),
            filter_probes: is.filter_probes.saturating_sub(was.filter_probes),
            false_positives: is.filter_false_positives.saturating_sub(was.filter_false_positives),
            memory_bytes: Memory::of(&after.memory),
            filter_bits_per_item: is.filter_bits_per_item,
            index_bits_per_item: is.index_bits_per_item,
            space_bytes: after.space_bytes,
            space_amplification: ratio(after.space_bytes, live_bytes),
            stalls: Stalls::between(&before.stalls, &after.stalls),
            put_stalls_over_50ms: outcome.long_writes,
            rss_peak_bytes: rss_peak_bytes(),
            levels: is.levels.clone(),
            not_found: outcome.missing,
            found_unexpectedly: outcome.unexpected,
            wrong: outcome.wrong,
            predicted,
            drift: is.drift.clone(),
        })
    }
}

/// Returns the latencies of all operations together.
fn all_latencies(outcome: &Outcome) -> Result<Latency> {
    let mut all = Outcome::new()?;
    for latencies in &outcome.latencies {
        if let Some(sum) = all.latencies.first_mut() {
            // Same bounds, so this cannot fail.
            let _ = sum.add(latencies);
        }
    }
    Ok(all.latencies.first().map_or_else(Latency::none, Latency::of))
}

/// Returns the latencies of each operation that was called.
fn latencies_by_operation(outcome: &Outcome) -> BTreeMap<&'static str, Latency> {
    let called = Operation::ALL.iter().zip(&outcome.latencies).filter(|(_, latencies)| !latencies.is_empty());
    called.map(|(operation, latencies)| (operation.name(), Latency::of(latencies))).collect()
}

impl WriteEnd {
    fn of(before: &Stats, at_write_end: &Stats, user_bytes: u64) -> Self {
        let device_bytes = at_write_end.device_bytes_written.saturating_sub(before.device_bytes_written);
        Self {
            device_bytes_written: device_bytes,
            write_amplification: ratio(device_bytes, user_bytes),
            space_bytes: at_write_end.space_bytes,
        }
    }
}

impl Memory {
    fn of(memory: &MemoryStats) -> Self {
        Self {
            memtable: memory.memtable,
            filter: memory.filter,
            index: memory.index,
            cache: memory.cache,
            compaction: memory.compaction,
            total: memory.total,
            budget: memory.budget,
        }
    }
}

impl Stalls {
    fn between(before: &StallStats, after: &StallStats) -> Self {
        Self {
            count: after.count.saturating_sub(before.count),
            max_ms: after.max_ms,
            total_ms: after.total_ms - before.total_ms,
            paced_ms: after.paced_ms - before.paced_ms,
        }
    }
}

/// Bytes written into each level between two moments, per byte that users wrote; top first.
fn by_level(was: &KeyspaceStats, is: &KeyspaceStats, user_bytes: u64) -> Vec<f64> {
    is.levels
        .iter()
        .map(|level| {
            let before = was.levels.iter().find(|l| l.level == level.level).map_or(0, |l| l.bytes_written);
            ratio(level.bytes_written.saturating_sub(before), user_bytes)
        })
        .collect()
}

impl Latency {
    fn of(latencies: &Histogram<u64>) -> Self {
        let quantile = |q| latencies.value_at_quantile(q) as f64 / 1e3;
        Self {
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: latencies.max() as f64 / 1e3,
            mean: latencies.mean() / 1e3,
            calls: latencies.len(),
        }
    }

    fn none() -> Self {
        Self { p50: 0.0, p99: 0.0, p999: 0.0, max: 0.0, mean: 0.0, calls: 0 }
    }
}

/// A row of the figures: what it shows, and the figures.
type Row = [String; 2];

fn row(name: &str, figures: String) -> Row {
    [name.to_owned(), figures]
}

impl Report {
    /// What the calls did.
    fn work(&self) -> Vec<Row> {
        let done = format!(
            "{} in {}: {}",
            sizes::count(self.operations),
            sizes::seconds(self.seconds),
            sizes::rate(self.operations_per_second)
        );
        let mut rows = vec![row("operations", done)];
        if self.scanned_items > 0 {
            let rate = sizes::rate(self.scanned_items_per_second);
            rows.push(row("scanned items", format!("{}: {rate}", sizes::count(self.scanned_items))));
            rows.push(row("device reads per scan", format!("{:.2}", self.device_reads_per_scan)));
        }
        rows
    }

    /// What was written, and what writers waited for.
    fn writes(&self) -> Vec<Row> {
        if self.user_bytes_written == 0 {
            return Vec::new();
        }
        let levels: Vec<String> =
            self.write_amplification_by_level.iter().map(|wa| format!("{wa:.2}")).collect();
        let written = format!(
            "{} for {}; {:.2} × when the calls ended",
            sizes::bytes(self.device_bytes_written),
            sizes::bytes(self.user_bytes_written),
            self.at_write_end.write_amplification,
        );
        let amplification = format!(
            "{:.2} = log {:.2} + levels {} + manifest, after {} of draining",
            self.write_amplification,
            self.wal_write_amplification,
            levels.join(" + "),
            sizes::seconds(self.drain_seconds)
        );
        let stalls = format!(
            "{}, longest {:.1} ms; {} writes over 50 ms",
            self.stalls.count, self.stalls.max_ms, self.put_stalls_over_50ms
        );
        vec![row("written", written), row("write amplification", amplification), row("stalls", stalls)]
    }

    /// What gets took.
    fn reads(&self) -> Vec<Row> {
        if self.gets == 0 {
            return Vec::new();
        }
        let per_get = format!(
            "{:.4} (hit {:.4}, miss {:.4}); {} in all",
            self.device_reads_per_get,
            self.device_reads_per_hit,
            self.device_reads_per_miss,
            sizes::count(self.device_reads)
        );
        let filters = format!(
            "{} false positives in {} probes",
            sizes::count(self.false_positives),
            sizes::count(self.filter_probes)
        );
        vec![row("device reads per get", per_get), row("filters", filters)]
    }

    /// What the store takes in memory and on disk.
    fn sizes(&self) -> Vec<Row> {
        let bits = format!("filter {:.2}, index {:.2}", self.filter_bits_per_item, self.index_bits_per_item);
        let m = &self.memory_bytes;
        let memory = format!(
            "{} of {} (memtables {}, filters {}, indexes {}, cache {}); process at most {}",
            sizes::bytes(m.total),
            sizes::bytes(m.budget),
            sizes::bytes(m.memtable),
            sizes::bytes(m.filter),
            sizes::bytes(m.index),
            sizes::bytes(m.cache),
            sizes::bytes(self.rss_peak_bytes)
        );
        let space =
            format!("{}, {:.2} × the items", sizes::bytes(self.space_bytes), self.space_amplification);
        vec![row("bits per item", bits), row("memory", memory), row("space", space)]
    }

    /// What the model had said.
    fn predictions(&self) -> Vec<Row> {
        let Some(predicted) = &self.predicted else { return Vec::new() };
        let mut parts = Vec::new();
        if self.user_bytes_written > 0 {
            parts.push(format!("write amplification {:.2}", predicted.write_amplification));
        }
        if self.gets > 0 {
            parts.push(format!("reads per get {:.4}", predicted.device_reads_per_get));
        }
        parts.push(format!("space {:.2} ×", predicted.space_amplification));
        parts.push(format!("processor {:.2} µs an operation", predicted.cpu_us_per_operation));
        let processor = format!("{:.2} µs an operation, clients included", self.cpu_us_per_operation);
        vec![row("processor", processor), row("the model predicted", parts.join(", "))]
    }

    /// What is far from what is predicted of the keyspace.
    fn drifts(&self) -> Vec<Row> {
        self.drift.iter().map(|drift| row("not as predicted", stats::drift(drift))).collect()
    }

    fn latencies(&self) -> Table {
        let mut latencies =
            Table::new(["latency of a call", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "calls"]);
        for (name, l) in &self.latency_us_by_operation {
            latencies.row([
                (*name).to_owned(),
                format!("{:.1}", l.p50),
                format!("{:.1}", l.p99),
                format!("{:.1}", l.p999),
                format!("{:.1}", l.max),
                sizes::count(l.calls),
            ]);
        }
        latencies
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {} items of {}+{} bytes (group {}, preset {}), {} threads, batch {}, skew {}, {}",
            self.workload,
            sizes::count(self.items),
            self.key_bytes,
            self.value_bytes,
            self.group,
            self.preset,
            self.threads,
            self.batch,
            self.skew,
            self.durability,
        )?;
        let mut figures = Table::new(["", ""]).left(2);
        let parts =
            [self.work(), self.writes(), self.reads(), self.sizes(), self.predictions(), self.drifts()];
        parts.into_iter().flatten().for_each(|row| _ = figures.row(row));
        write!(f, "{figures}\n{}", self.latencies())
    }
}
