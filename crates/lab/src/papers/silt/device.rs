//! Gets out of cache, as a share of what the device gives to readers that do nothing else (§6.1: 46 K of 48 K
//! a second).
//!
//! The device is busy with others' work at times, so both are measured in turns, with as many reads under
//! way, and the median of the rounds counts. The raw reads are of pages of the store's own files. Memory is
//! for a 256th of the items, so that what the cache spares is a few reads in a thousand; clients ask for
//! other items in every turn.

use super::Args;
use super::store::{Clients, HASH_STORES, ITEM_BYTES, design};
use crate::clients::workload::Workload;
use crate::kit::device::{PAGE_BYTES, RawReads};
use crate::kit::sizes::ratio;
use crate::measure::{Reads, process_bytes_read};
use crate::papers::evaluation::{Results, Row};
use crate::papers::store::Store;
use crate::program::failure::{Failure, Result};
use crate::program::output::note;
use siltstone::Options;
use std::path::Path;
use std::time::Duration;

/// The part of the items that there is memory for: one in so many.
const MEMORY: u64 = 256;
/// Readers, and reads that each of them has under way.
const SHAPES: [Clients; 4] = [
    Clients { threads: 1, batch: 32 },
    Clients { threads: 2, batch: 32 },
    Clients { threads: 2, batch: 64 },
    Clients { threads: 16, batch: 1 },
];

/// What one round gave.
#[derive(Clone, Copy, Default)]
struct Round {
    raw: f64,
    per_second: f64,
    /// Gets by raw reads.
    share: f64,
    /// Reads per get by our counters, and by the kernel's.
    reads: f64,
    kernel_reads: f64,
}

fn median(rounds: &[Round], of: fn(&Round) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(of).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

fn round(
    store: &mut Store,
    raw: &RawReads,
    workload: Workload,
    clients: Clients,
    time: Duration,
) -> Result<Round> {
    let path = store.db.path().to_owned();
    let rate = || raw.per_second(clients.threads, clients.batch, time / 2).map_err(|e| Failure::at(&path, e));
    let first = rate()?;
    let (was, was_bytes) = (store.keyspace.stats(), process_bytes_read());
    let outcome = store.run_by(workload, clients, u64::MAX, Some(time))?;
    let (is, is_bytes) = (store.keyspace.stats(), process_bytes_read());
    let raw = (first + rate()?) / 2.0;
    let reads = Reads::between(&was, &is);
    let gets = reads.hits + reads.misses;
    let per_second = outcome.operations as f64 / outcome.seconds;
    Ok(Round {
        raw: raw / 1e3,
        per_second: per_second / 1e3,
        share: 100.0 * per_second / raw,
        reads: ratio(reads.by_hits + reads.by_misses, gets),
        kernel_reads: ratio(is_bytes.saturating_sub(was_bytes), gets * PAGE_BYTES),
    })
}

pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    let items = args.items();
    note!("gets beside the device: {items} items");
    let mut store = Store::create(&dir.join("device"), items, design(items, HASH_STORES))?;
    store.fill()?;
    let mut store = store.reopened(MEMORY, Options::default())?;
    let raw = RawReads::of_directory(store.db.path()).map_err(|e| Failure::at(store.db.path(), e))?;
    let rounds = if args.is_quick() { 3 } else { 7 };
    let time = args.seconds() / 5;
    // Hosts cache what is read; filters and tries are loaded.
    store.run(Workload::ReadHit, u64::MAX, Some(time))?;
    let mut rows: Vec<Row> = Vec::new();
    for (name, workload) in [("hits", Workload::ReadHit), ("misses", Workload::ReadMiss)] {
        let mut by_shape = SHAPES.map(|shape| (shape, Vec::new()));
        for number in 1..=rounds {
            note!("{name}, round {number} of {rounds}");
            for (shape, measured) in &mut by_shape {
                measured.push(round(&mut store, &raw, workload, *shape, time)?);
            }
        }
        for (Clients { threads, batch }, measured) in by_shape {
            let of = |part: fn(&Round) -> f64| median(&measured, part);
            let row = vec![
                of(|round| round.per_second),
                of(|round| round.raw),
                of(|round| round.share),
                of(|round| round.reads),
                of(|round| round.kernel_reads),
            ];
            // The paper's SSD, with 16 clients.
            let paper = match (name, threads) {
                ("hits", 16) => vec![Some(46.0), Some(48.0), Some(96.0), Some(1.01)],
                _ => Vec::new(),
            };
            rows.push((format!("{name}, {threads} clients, {batch} keys a call"), row, paper));
        }
    }
    let columns = [
        "thousand gets/s",
        "raw, thousand reads/s",
        "% of raw",
        "reads per get",
        "the kernel's pages per get",
    ]
    .map(str::to_owned);
    let cached = store.db.stats().memory.cache as f64 / (items * ITEM_BYTES) as f64 * 100.0;
    let title = format!(
        "gets beside the raw rate of the same files, {cached:.2} % of the items in the cache, medians of {rounds} turns"
    );
    results.add("Section 6.1", &title, "as named", &columns, &rows);
    store.remove()
}
