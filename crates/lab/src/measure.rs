//! Figures that the bench and the demo both report.

use siltstone::{Db, KeyspaceStats, Stats};
use std::cell::Cell;

/// The statistics of the keyspace `name`.
pub fn find<'a>(stats: &'a Stats, keyspace: &str) -> Option<&'a KeyspaceStats> {
    stats.keyspaces.iter().find(|k| k.name == keyspace)
}

/// Gets and scans between two moments, and the device reads they took.
pub struct Reads {
    /// Gets that found an item.
    pub hits: u64,
    /// Gets that did not.
    pub misses: u64,
    /// Device reads of the hits.
    pub by_hits: u64,
    /// Device reads of the misses.
    pub by_misses: u64,
    /// Scans of one group.
    pub scans: u64,
    /// Device reads of the scans.
    pub by_scans: u64,
}

impl Reads {
    /// The difference between two moments.
    pub fn between(was: &KeyspaceStats, is: &KeyspaceStats) -> Self {
        let hits = is.get_hits.saturating_sub(was.get_hits);
        Self {
            hits,
            misses: is.gets.saturating_sub(was.gets).saturating_sub(hits),
            by_hits: is.device_reads_by_hits.saturating_sub(was.device_reads_by_hits),
            by_misses: is.device_reads_by_misses.saturating_sub(was.device_reads_by_misses),
            scans: is.scans.saturating_sub(was.scans),
            by_scans: is.device_reads_by_scans.saturating_sub(was.device_reads_by_scans),
        }
    }
}

/// Bytes that the kernel has fetched from devices for this process, where it says so.
pub fn process_bytes_read() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = counters.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

/// Seconds of processor time that this thread has taken: what neighbours on the machine take does not count.
pub fn thread_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Seconds of processor time that all threads of this process have taken, those that have ended included.
pub fn process_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The largest amount of memory this process has had, where the system says so.
pub fn rss_peak_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// The memory that this process has now, where the system says so.
pub fn rss_bytes() -> u64 {
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Processor time of this process without what looking at a store takes, which is no part of what is looked
/// at: the store prices its design for those who look.
#[derive(Debug, Default)]
pub struct Worked {
    looked: Cell<f64>,
}

impl Worked {
    /// Looks at a store.
    pub fn stats(&self, db: &Db) -> Stats {
        let began = thread_seconds();
        let stats = db.stats();
        self.looked.set(self.looked.get() + thread_seconds() - began);
        stats
    }

    /// Seconds of it so far.
    pub fn seconds(&self) -> f64 {
        process_seconds() - self.looked.get()
    }
}
