//! The stores that are measured: SILT with log stores and hash stores as large beside its items as the
//! paper's.

use crate::clients::client::{Load, Outcome};
use crate::clients::filled::Filled;
use crate::clients::workload::{Operation, Workload};
use crate::papers::store::Store;
use crate::program::failure::Result;
use siltstone::{Design, KeyspaceOptions, Options, Schema, WriteBufferSpec, presets};
use std::path::Path;
use std::time::Duration;

pub const KEY_BYTES: u64 = 20;
pub const VALUE_BYTES: u64 = 1000;
pub const ITEM_BYTES: u64 = KEY_BYTES + VALUE_BYTES;
/// Share of the items that lie in hash stores when these are merged, and the hash stores of each part: the
/// paper's.
const SHARE: f64 = 0.3;
pub const HASH_STORES: u16 = 31;
const LEAST_BUDGET_BYTES: u64 = 4 << 20;
const LEAST_HEAD_ITEMS: f64 = 250.0;
/// Bytes of an item in the log, keyspace, lengths and checksums included, at most.
const LOGGED_BYTES: u64 = ITEM_BYTES + 64;

/// Clients, and items in each of their calls.
#[derive(Clone, Copy)]
pub struct Clients {
    pub threads: usize,
    pub batch: usize,
}

/// Who writes.
const WRITER: Clients = Clients { threads: 1, batch: 100 };
/// Who gets: as many as the paper's.
const GETTERS: Clients = Clients { threads: 16, batch: 1 };

/// SILT for so many items, with `runs` hash stores in each part.
pub fn design(items: u64, runs: u16) -> Design {
    let mut design = presets::silt();
    let each = (items as f64 * SHARE / f64::from(HASH_STORES)).max(LEAST_HEAD_ITEMS);
    let taken = WriteBufferSpec::LogStore { entries: 1 << 20 }.items(ITEM_BYTES as f64) / f64::from(1 << 20);
    design.write_buffer = WriteBufferSpec::LogStore { entries: (each / taken).ceil() as u32 };
    if let Some(hash) = design.levels.first_mut() {
        // A little more than they take, so that stores are counted and not measured.
        (hash.runs, hash.table_bytes) = (runs, ((each as u64 * ITEM_BYTES) >> hash.fanout_bits) * 5 / 4);
    }
    design
}

/// Items that a log store takes until it is sealed.
pub fn head_items(design: &Design) -> u64 {
    design.write_buffer.items(ITEM_BYTES as f64) as u64
}

/// SILT's stores, as its evaluation fills and asks them.
impl Store {
    /// An empty store with a sixteenth of the data's size for memory, read around the system's page cache.
    pub fn create(dir: &Path, items: u64, design: Design) -> Result<Self> {
        Self::create_with(dir, items, design, Options::default())
    }

    /// The same with other options.
    pub fn create_with(dir: &Path, items: u64, design: Design, options: Options) -> Result<Self> {
        let filled = Filled {
            items,
            seed: 1,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            group: 1,
            existing: 0,
            complete: true,
        };
        open(dir, filled, 16, design, options)
    }

    /// The same store, closed and opened again with other options and one part in `share` of its data's size
    /// for memory.
    pub fn reopened(self, share: u64, options: Options) -> Result<Self> {
        let (path, design) = (self.db.path().to_owned(), self.keyspace.design().clone());
        let filled = self.filled.clone();
        self.close()?;
        open(&path, filled, share, design, options)
    }

    /// Runs `workload` for so many operations, or until the time is over: puts by one client in batches, gets
    /// by the paper's 16.
    pub fn run(&mut self, workload: Workload, operations: u64, time: Option<Duration>) -> Result<Outcome> {
        let writes = matches!(workload, Workload::Fill | Workload::Overwrite);
        self.run_by(workload, if writes { WRITER } else { GETTERS }, operations, time)
    }

    /// The same by so many clients with so many items a call.
    pub fn run_by(
        &mut self,
        workload: Workload,
        clients: Clients,
        operations: u64,
        time: Option<Duration>,
    ) -> Result<Outcome> {
        self.work(&load(workload, clients, operations, time))
    }

    /// Writes all items, up to where nothing is left to do.
    pub fn fill(&mut self) -> Result<()> {
        self.run(Workload::Fill, self.filled.items, None)?;
        self.settle()
    }

    /// Bytes of filters and indexes, those of log stores included.
    pub fn index_bytes(&self) -> u64 {
        let stats = self.keyspace.stats();
        stats.write_buffer_bytes + stats.filter_bytes + stats.index_bytes
    }

    /// Gets of one kind: thousands per second, reads per get, milliseconds on average, at the median and the
    /// 99th percentile.
    pub fn gets(&mut self, workload: Workload, time: Duration) -> Result<[f64; 5]> {
        let measured = self.measure(&load(workload, GETTERS, u64::MAX, Some(time)))?;
        let kind = if workload == Workload::ReadMiss { Operation::GetMissing } else { Operation::Get };
        let latencies = measured.latencies(kind);
        let at = |q: f64| latencies.map_or(f64::NAN, |all| all.value_at_quantile(q) as f64 / 1e6);
        let mean = latencies.map_or(f64::NAN, |all| all.mean() / 1e6);
        Ok([measured.per_second / 1e3, measured.reads_per_get, mean, at(0.5), at(0.99)])
    }
}

fn load(workload: Workload, clients: Clients, operations: u64, time: Option<Duration>) -> Load {
    // The paper's mix: nine gets to a put.
    let mix = workload.mix(90);
    let Clients { threads, batch } = clients;
    Load { workload, mix, skew: 0.0, threads, batch, deadline: time, operations }
}

/// Opens a store with one part in `share` of its items' size for memory, read around the system's page cache.
fn open(dir: &Path, filled: Filled, share: u64, design: Design, options: Options) -> Result<Store> {
    let memory_budget_bytes =
        (filled.items * ITEM_BYTES / share).max(6 * design.write_buffer_bytes()).max(LEAST_BUDGET_BYTES);
    // A log for all log stores that may wait, so that none is sealed for its length.
    let logs = options.max_sealed_memtables as u64 + 2;
    let max_wal_bytes = logs * (head_items(&design) + 1) * LOGGED_BYTES;
    let options = Options { memory_budget_bytes, max_wal_bytes, direct_reads: true, ..options };
    let keyspace =
        KeyspaceOptions { schema: Schema::Point, design: Some(design), ..KeyspaceOptions::default() };
    Store::open(dir, options, keyspace, filled)
}
