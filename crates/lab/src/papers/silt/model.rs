//! Figure 7, computed; and Figure 8: write amplification, reads and memory as more is merged at once: the
//! model of §5 beside a running store.
//!
//! The model gets our constants where they are not the paper's: how full hash stores are, how many bits a
//! trie takes, that an item overwritten while it is in a log store is converted once. They follow from the
//! design and from how stores are laid out, not from the run. What it says of merging is the paper's: the
//! sorted stores are written anew, whole, each time as much has come as the hash stores hold. It knows no
//! lateness, so updates come a log store's worth at a time, and the next ones when conversion and merging
//! have come to rest.

use super::Args;
use super::store::{ITEM_BYTES, design, head_items};
use crate::clients::workload::Workload;
use crate::kit::plot::{Axis, Chart};
use crate::kit::sizes::ratio;
use crate::measure::find;
use crate::papers::evaluation::Results;
use crate::papers::store::Store;
use crate::program::failure::{Failure, Result, fail};
use crate::program::output::note;
use siltstone::{Design, KeyspaceStats};
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
/// Gets after each log store's worth.
const GETS: u64 = 500;
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

/// Updates at random of so many items until a log store has taken as many different ones as it holds.
fn updates_per_log(items: f64, design: &Design) -> f64 {
    -items * (1.0 - head_items(design) as f64 / items).ln()
}

/// What the equations of §5 say of `items`, merged from `runs` hash stores a part.
fn modelled(items: f64, design: &Design, runs: f64) -> Result<Costs> {
    let slot = SLOT_BYTES / ITEM_BYTES as f64;
    let each = head_items(design) as f64;
    let store_items = each / PARTS;
    let silt = Silt { keys: items, instances: PARTS, merge_items: store_items * runs, ..Silt::default() };
    // Writes are those of tables.
    let constants = Constants {
        log_writes: 0.0,
        conversion_writes: slot / OCCUPANCY,
        sorted_writes: slot,
        false_positive_rate: FALSE_POSITIVES,
        logs_asked: 0.0,
        store_items,
        log_index_bytes: design.write_buffer_bytes() as f64 / PARTS,
        hash_index_bytes: TAG_BYTES / OCCUPANCY * store_items,
        sorted_index_bytes: TRIE_BYTES,
    };
    let costs = silt.costs_with(&constants).map_err(refused)?;
    let writes = costs.write_amplification * each / updates_per_log(items, design);
    Ok([writes, costs.read_amplification, costs.memory_bytes_per_item])
}

fn refused(error: siltstone_model::ModelError) -> Failure {
    Failure::Failed(error.to_string())
}

fn written(stats: &KeyspaceStats) -> u64 {
    stats.levels.iter().map(|level| level.bytes_written).sum()
}

/// Runs updates over a filled store and counts.
fn measured(dir: &Path, items: u64, design: Design) -> Result<Costs> {
    let runs = design.levels.first().map_or(0, |hash| u64::from(hash.runs));
    let each = updates_per_log(items as f64, &design);
    let mut store = Store::create(dir, items, design)?;
    store.fill()?;
    let (mut logs, mut updates) = (0u64, 0);
    let mut update = |store: &mut Store| -> Result<u64> {
        logs += 1;
        let more = (logs as f64 * each) as u64 - updates;
        updates += more;
        store.run(Workload::Overwrite, more, None)?;
        store.db.wait_until_idle()?;
        Ok(more)
    };
    // Until every part has been merged at its own time for the first time.
    for _ in 0..runs * 2 {
        update(&mut store)?;
    }
    let (mut probes, mut gets, mut memory, mut updated) = (0, 0, 0.0, 0);
    let before = store.keyspace.stats();
    let samples = CYCLES * runs;
    for _ in 0..samples {
        updated += update(&mut store)?;
        memory += store.index_bytes() as f64 / items as f64 / samples as f64;
        let was = store.keyspace.stats();
        store.run(Workload::ReadHit, GETS, None)?;
        let is = store.keyspace.stats();
        probes += is.tables_probed - was.tables_probed;
        gets += is.gets - was.gets;
    }
    let stats = store.db.stats();
    let Some(after) = find(&stats, &before.name) else {
        fail!("the store has no statistics of its keyspace")
    };
    let writes = ratio(written(after) - written(&before), updated * ITEM_BYTES);
    store.remove()?;
    Ok([writes, ratio(probes, gets), memory])
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
        let design = design(items, runs);
        let modelled = modelled(items as f64, &design, f64::from(runs))?;
        let measured = measured(&dir.join("model"), items, design)?;
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
