//! Figure 7, computed; and Figure 8: write amplification, reads and memory as more is merged at once: the model of §5 beside a running store.
//!
//! The model gets our constants where they are not the paper's: how full hash stores are, how many bits a trie takes, and
//! that every update is written to the log as a record. What it says of merging is the paper's: the sorted stores are
//! written anew, whole, each time as many updates have come as the hash stores hold.

use super::Args;
use super::stores::{KEY_BYTES, Store, VALUE_BYTES, design};
use crate::commands::bench::paper::Results;
use crate::commands::bench::workload::Workload;
use crate::failure::{Failure, Result, fail};
use crate::measure::find;
use crate::output::note;
use crate::plot::{Axis, Chart};
use crate::sizes::ratio;
use siltstone::KeyspaceStats;
use siltstone_model::cost::inlining::Sizes;
use siltstone_model::cost::silt::{Constants, Silt};
use std::path::Path;

/// Exponents of Figure 7's sizes, and the slots that are printed.
const EXPONENTS: [f64; 4] = [0.9, 1.0, 1.1, 1.2];
const SLOTS: [usize; 3] = [64, 1024, 16_384];
/// Hash stores per part at which they are merged.
const RUNS: [u16; 4] = [8, 16, 31, 62];
/// Merges of every part over which writes are counted.
const CYCLES: u64 = 6;
/// Samples of memory and reads per merge.
const SAMPLES: u64 = 4;
const ITEM_BYTES: f64 = (KEY_BYTES + VALUE_BYTES) as f64;
/// A slot is the quarter of a page; hash stores are filled to 0.974.
const SLOT_BYTES: f64 = 1024.0;
const OCCUPANCY: f64 = 0.974;
const TAG_BYTES: f64 = 2.0;
/// A trie pruned to pages of four slots.
const TRIE_BYTES: f64 = 1.72 / 8.0;
const FALSE_POSITIVES: f64 = 8.0 * OCCUPANCY / 32768.0;
/// The parts of a store that are merged each by itself.
const PARTS: f64 = 4.0;

/// Writes per byte updated (tables only), tables looked at per get, bytes of index per item.
type Costs = [f64; 3];

/// What the equations of §5 say of `items`, merged whenever `merged` updates have come in all, in `runs` hash stores a part.
fn modelled(items: f64, merged: f64, runs: f64) -> Result<Costs> {
    let slot = SLOT_BYTES / ITEM_BYTES;
    let (merge_items, store_items) = (merged / PARTS, merged / PARTS / runs);
    let silt = Silt { keys: items, instances: PARTS, merge_items, ..Silt::default() };
    // Writes are those of tables; what the head holds is in memory.
    let constants = Constants {
        log_writes: 0.0,
        conversion_writes: slot / OCCUPANCY,
        sorted_writes: slot,
        false_positive_rate: FALSE_POSITIVES,
        logs_asked: 0.0,
        store_items,
        log_index_bytes: 0.0,
        hash_index_bytes: TAG_BYTES / OCCUPANCY * store_items,
        sorted_index_bytes: TRIE_BYTES,
    };
    let costs = silt.costs_with(&constants).map_err(refused)?;
    Ok([costs.write_amplification, costs.read_amplification, costs.memory_bytes_per_item])
}

fn refused(error: siltstone_model::ModelError) -> Failure {
    Failure::Failed(error.to_string())
}

fn written(stats: &KeyspaceStats) -> u64 {
    stats.levels.iter().map(|level| level.bytes_written).sum()
}

/// Runs updates over a filled store and counts.
fn measured(dir: &Path, items: u64, runs: u16) -> Result<(Costs, f64)> {
    let design = design(items, runs);
    // Memtables are sealed by bytes of keys and values.
    let merged = design.head_bytes() / (KEY_BYTES + VALUE_BYTES) * u64::from(runs);
    let mut store = Store::create(dir, items, design)?;
    store.run(Workload::Fill, items, None)?;
    store.settle()?;
    // Until every part has been merged at its own time for the first time.
    store.run(Workload::Overwrite, merged * 2, None)?;
    store.db.wait_until_idle()?;
    let (mut probes, mut gets, mut memory) = (0, 0, 0.0);
    let before = store.keyspace.stats();
    let mut updates = 0;
    for sample in 1..=CYCLES * SAMPLES {
        let upto = sample * merged / SAMPLES;
        store.run(Workload::Overwrite, upto - updates, None)?;
        updates = upto;
        store.db.wait_until_idle()?;
        memory += store.index_bytes() as f64 / items as f64;
        let was = store.keyspace.stats();
        store.run(Workload::ReadHit, 2_000, None)?;
        let is = store.keyspace.stats();
        probes += is.tables_probed - was.tables_probed;
        gets += is.gets - was.gets;
    }
    let stats = store.db.stats();
    let Some(after) = find(&stats, &before.name) else {
        fail!("the store has no statistics of its keyspace")
    };
    let writes = (written(after) - written(&before)) as f64 / (updates as f64 * ITEM_BYTES);
    store.db.close()?;
    std::fs::remove_dir_all(dir).map_err(|e| Failure::at(dir, e))?;
    let memory = memory / (CYCLES * SAMPLES) as f64;
    Ok(([writes, ratio(probes, gets), memory], merged as f64))
}

/// Figure 7: what slots of one size cost items of many.
fn slots(results: &mut Results) -> Result<()> {
    note!("figure 7: slots for sizes from 4 bytes to 1 MiB");
    let mut chart = Chart::new("SILT figure 7: slots of one size for items of many")
        .x(Axis::logarithmic("bytes on the device per byte of items"))
        .y(Axis::linear("reads per get").from(1.0));
    let mut rows = Vec::new();
    for exponent in EXPONENTS {
        let sizes = Sizes::zipf(exponent).map_err(refused)?;
        let points = (3..=20).map(|bits| sizes.slots(1 << bits));
        let points = points.collect::<std::result::Result<Vec<_>, _>>().map_err(refused)?;
        let line = points.iter().map(|cost| (cost.space_amplification, cost.reads_per_get));
        chart = chart.line(&format!("exponent {exponent}"), line);
        for slot in SLOTS {
            let cost = sizes.slots(slot).map_err(refused)?;
            let name = format!("exponent {exponent}, slots of {slot} bytes");
            rows.push((name, vec![cost.space_amplification, cost.reads_per_get], Vec::new()));
        }
    }
    results.draw("figure7.svg", &chart)?;
    let columns = ["bytes per byte", "reads per get"].map(str::to_owned);
    results.add(
        "Figure 7",
        "items of Zipf sizes in slots of one size, computed",
        "as named",
        &columns,
        &rows,
    );
    Ok(())
}

pub fn run(args: &Args, results: &mut Results, dir: &Path) -> Result<()> {
    slots(results)?;
    let items = args.items() / 4;
    let mut rows = Vec::new();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for runs in RUNS {
        note!("figure 8: {items} items, merged from {runs} hash stores a part");
        let (measured, merged) = measured(&dir.join("model"), items, runs)?;
        let modelled = modelled(items as f64, merged, f64::from(runs))?;
        ours.push((measured[2], measured[0]));
        theirs.push((modelled[2], modelled[0]));
        let off = measured.iter().zip(&modelled).map(|(is, says)| (is / says - 1.0) * 100.0);
        rows.push((format!("{runs} hash stores, measured"), measured.to_vec(), Vec::new()));
        rows.push((format!("{runs} hash stores, modelled"), modelled.to_vec(), Vec::new()));
        rows.push((format!("{runs} hash stores, off by %"), off.collect(), Vec::new()));
    }
    let chart = Chart::new("SILT figure 8: writes against memory")
        .x(Axis::linear("bytes of index per item"))
        .y(Axis::linear("write amplification of tables").from(0.0))
        .points("measured", ours)
        .line("modelled", theirs);
    results.draw("figure8.svg", &chart)?;
    let columns =
        ["writes of tables", "tables looked at per hit", "bytes of index per item"].map(str::to_owned);
    results.add(
        "Figure 8",
        "the model of section 5 with our constants, updates at random",
        "as named",
        &columns,
        &rows,
    );
    Ok(())
}
