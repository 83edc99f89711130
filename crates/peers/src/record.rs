//! What is kept of a run, as JSON: names are stable, scripts read them.

use crate::kernel::Counters;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It did all it should.
    Complete,
    /// The time budget ended it; the figures are those of what it had done.
    OutOfTime,
    /// It failed; there are no figures.
    Failed,
    /// It was not tried: its library is missing or its fill failed.
    Skipped,
}

/// One workload on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The engine's name.
    pub engine: String,
    /// The workload's name.
    pub workload: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, if not complete.
    pub why: Option<String>,
    /// Name and version of the library.
    pub library: String,
    /// Its settings in a sentence.
    pub settings: String,
    /// Whether the memory cap was held by a control group.
    pub capped: bool,
    /// The figures.
    pub figures: Option<Figures>,
}

/// The figures of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Items in the store when it began (fill: when it ended).
    pub items: u64,
    /// Operations: items written, gets, or groups listed; those of all clients.
    pub operations: u64,
    /// Time of the clients, from the end of the warm-up.
    pub seconds: f64,
    /// Operations per second.
    pub operations_per_second: f64,
    /// By kind of operation.
    pub by_operation: BTreeMap<String, Calls>,
    /// Time until background work ended after the last call.
    pub settle_seconds: f64,
    /// Whether it ended within the budget.
    pub settled: bool,
    /// Bytes of keys and values written.
    pub user_bytes_written: u64,
    /// `write_bytes` of the kernel after settling per byte of keys and values.
    pub write_amplification: f64,
    /// The same when the last call had returned.
    pub write_amplification_when_calls_ended: f64,
    /// The engine's count of device reads for gets and scans, per operation that reads.
    pub device_reads_per_read: Option<f64>,
    /// The kernel's count of read requests, per operation that reads; background work included.
    pub kernel_reads_per_read: Option<f64>,
    /// The kernel's count of bytes read, per operation that reads; background work included.
    pub kernel_bytes_per_read: f64,
    /// What the device gave just before and after a run that only reads.
    pub raw: Option<RawRates>,
    /// CPU time after settling per operation, in microseconds; making keys and checking values included.
    pub cpu_us_per_operation: f64,
    /// Of a counted run, items a second of each tenth of the items, from the first.
    #[serde(default)]
    pub tenths: Vec<f64>,
    /// Time until the store was open and had answered one get.
    #[serde(default)]
    pub open_seconds: Option<f64>,
    /// Bytes that the kernel read from the device for that.
    #[serde(default)]
    pub open_read_bytes: u64,
    /// Items that were written before the process was killed.
    #[serde(default)]
    pub written_before_kill: Option<u64>,
    /// Bytes of filters and indexes in memory, as the engine counts them, when it ended.
    #[serde(default)]
    pub structures_bytes: Option<u64>,
    /// Time that the engine spent on choosing compactions.
    #[serde(default)]
    pub planning_seconds: Option<f64>,
    /// The most resident memory, mapped files included.
    pub rss_peak_bytes: u64,
    /// The most anonymous memory, sampled.
    pub anonymous_peak_bytes: u64,
    /// The most memory of the control group, page cache included.
    pub group_peak_bytes: Option<u64>,
    /// Bytes of the store's files after settling.
    pub space_bytes: u64,
    /// The same per byte of keys and values that exist.
    pub space_amplification: f64,
    /// The kernel's counters when the last call had returned.
    pub when_calls_ended: Counters,
    /// The kernel's counters after settling.
    pub after_settling: Counters,
    /// Items that should have been found and were not.
    pub not_found: u64,
    /// Keys that should not have been found and were.
    pub found_unexpectedly: u64,
    /// Values, keys or groups that are not what was written.
    pub wrong: u64,
}

/// Pages of 4 KiB a second that the device gives to readers who do nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RawRates {
    /// With as many reads under way as the run's clients can have: one each, or one for each item of a call.
    pub as_many: f64,
    /// With 32 reads under way from one thread.
    pub depth_32: f64,
}

impl RawRates {
    /// The mean of two moments.
    #[must_use]
    pub fn mean(self, other: Self) -> Self {
        let mean = |one: f64, two: f64| (one + two) / 2.0;
        Self { as_many: mean(self.as_many, other.as_many), depth_32: mean(self.depth_32, other.depth_32) }
    }
}

/// Calls of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Calls.
    pub calls: u64,
    /// Operations: a call that writes a batch counts its items.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Quantiles of a call's latency, in microseconds.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Calls over 50 ms.
    pub stalls: u64,
}

/// Calls over this are stalls.
pub const STALL_NS: u64 = 50_000_000;

impl Calls {
    /// The figures of `latencies` in nanoseconds.
    pub fn new(latencies: &Histogram<u64>, operations: u64, stalls: u64, seconds: f64) -> Self {
        let quantile = |q| latencies.value_at_quantile(q) as f64 / 1e3;
        Self {
            calls: latencies.len(),
            operations,
            per_second: operations as f64 / seconds.max(1e-9),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: latencies.max() as f64 / 1e3,
            stalls,
        }
    }
}

impl Record {
    /// The figures, if the run has any.
    pub fn figures(&self) -> Option<&Figures> {
        self.figures.as_ref()
    }

    /// Whether the store gave an answer that it should not have given.
    pub fn is_wrong(&self) -> bool {
        self.figures().is_some_and(|f| f.not_found + f.found_unexpectedly + f.wrong > 0)
    }
}
