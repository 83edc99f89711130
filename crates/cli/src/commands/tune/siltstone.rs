//! What Siltstone would cost for the workload that a RocksDB's or LevelDB's log shows.

use crate::sizes;
use siltstone::presets;
use siltstone_model::Direct;
use siltstone_model::price::{self, Costs, Device, Mix};
use siltstone_model::tune::course::Course;
use siltstone_model::tune::workload::{Reads, Workload};

/// What a batch has beside the key and the value of its one item, by which the log's bytes are counted.
const BATCH_BYTES: f64 = 16.0;
/// Bytes of a key where the log does not say.
const KEY_BYTES: f64 = 16.0;
/// Updates per key after which what is written settles.
const UPDATES_PER_KEY: f64 = 3.0;
/// Memory that has room for all filters, whatever they take; how many times what they take a store is given,
/// and what for everything else.
const AMPLE_BYTES: u64 = 1 << 44;
const TIMES_HELD: f64 = 1.5;
const BESIDES_BYTES: f64 = 32.0 * 1024.0 * 1024.0;

/// The workload in the terms of our own designs.
fn ours(workload: &Workload) -> price::Workload {
    let keys = workload.course.live(&Direct::new(&workload.popularity)).max(1.0);
    let overwrites = match workload.course {
        Course::Updates => keys * UPDATES_PER_KEY,
        Course::Load { requests } => (requests - keys).max(0.0),
    };
    let item_bytes = (workload.item.batch - BATCH_BYTES).max(2.0);
    let key_bytes = workload.key_bytes.unwrap_or(KEY_BYTES).clamp(1.0, item_bytes - 1.0);
    price::Workload {
        items: keys,
        overwrites,
        skew: workload.skew.unwrap_or(0.0),
        key_bytes,
        value_bytes: item_bytes - key_bytes,
        mix: workload.reads.map_or_else(Mix::default, mix),
        ..Default::default()
    }
}

/// The mix of operations, of which some are gets.
fn mix(reads: Reads) -> Mix {
    let Reads { share, found } = reads;
    Mix { hits: share * found, misses: share * (1.0 - found), scans: 0.0, puts: 1.0 - share }
}

/// The default design's costs for the workload; `None` where the model can't follow it.
pub fn costs(workload: &Workload) -> Option<Costs> {
    let ours = ours(workload);
    let with = |bytes| price::price(&presets::siltstone(), &ours, &Device::default(), bytes).ok();
    let held = with(AMPLE_BYTES)?.memory_bytes;
    let costs = with(((held.filter + held.index) * TIMES_HELD + BESIDES_BYTES) as u64)?;
    let is_load = matches!(workload.course, Course::Load { .. });
    let written = if is_load { costs.write_amplification } else { costs.change_write_amplification };
    let mut costs = costs;
    costs.write_amplification = written;
    Some(costs)
}

/// The command that looks for better designs for the workload, with as much memory.
fn command(workload: &Workload, memory_bytes: f64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    let price::Workload { items, overwrites, skew, key_bytes, value_bytes, .. } = ours(workload);
    let mut command = format!(
        "siltstone advise --items {items:.0} --key-bytes {key_bytes:.0} --value-bytes {value_bytes:.0} --memory {:.0}M",
        (memory_bytes / MIB).ceil()
    );
    if overwrites > 0.0 {
        let share = overwrites / (items + overwrites);
        command.push_str(&format!(" --overwrites {share:.2} --skew {skew:.2}"));
    }
    if let Some(Reads { share, found }) = workload.reads {
        command.push_str(&format!(" --reads {share:.2} --hits {found:.2}"));
    }
    command
}

/// The same in one line.
pub fn line(workload: &Workload) -> Option<String> {
    let costs = costs(workload)?;
    Some(format!(
        "Siltstone would write {:.2} bytes per byte of keys and values for this workload, with {} of memory, {:.1} bits an item \
         of it for filters and indexes, {:.2} reads a get and at most {:.2} × the items on disk (its default design, predicted; \
         `{}` looks for better ones)",
        costs.write_amplification,
        sizes::bytes(costs.memory_bytes.budget as u64),
        costs.filter_bits_per_item + costs.index_bits_per_item,
        costs.reads_per_hit,
        costs.peak_space_amplification,
        command(workload, costs.memory_bytes.budget)
    ))
}
