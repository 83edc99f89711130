//! What the model says of a run, beside what was measured, under the same names.
//!
//! The prediction knows what the store was filled with, the design, the budget and what the clients are about
//! to do. It takes the store to be as its fill left it: earlier overwrites of the same store are not known.

use super::WorkloadArgs;
use super::report::Memory;
use crate::clients::client::Load;
use crate::clients::filled::Filled;
use crate::clients::workload::Operation;
use serde::Serialize;
use siltstone::Design;
use siltstone_model::price::{Costs, Device, Mix, Workload, price};

/// Predicted figures; the names are those of the measured ones.
#[derive(Serialize)]
pub struct Predicted {
    pub write_amplification: f64,
    wal_write_amplification: f64,
    /// Of a fill; what overwrites write into each level is not told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification_by_level: Option<Vec<f64>>,
    pub device_reads_per_get: f64,
    device_reads_per_hit: f64,
    device_reads_per_miss: f64,
    device_reads_per_scan: f64,
    memory_bytes: Memory,
    filter_bits_per_item: f64,
    index_bits_per_item: f64,
    space_bytes: u64,
    pub space_amplification: f64,
    pub cpu_us_per_operation: f64,
}

/// Returns the prediction for `operations` operations of a load; `None` where the model knows nothing of such
/// a workload.
pub fn predict(
    args: &WorkloadArgs,
    load: &Load,
    filled: &Filled,
    design: &Design,
    operations: u64,
) -> Option<Predicted> {
    if args.bulk || args.workload.counts() {
        return None;
    }
    let workload = workload(load, filled, operations);
    let costs = price(design, &workload, &Device::default(), args.memory_budget).ok()?;
    Some(Predicted::of(&costs, &workload))
}

/// What is put, and what is done with it.
fn workload(load: &Load, filled: &Filled, operations: u64) -> Workload {
    let mut mix = Mix { hits: 0.0, misses: 0.0, scans: 0.0, puts: 0.0 };
    let first = f64::from(load.mix.first_percent);
    let mut overwriting = 0.0;
    for (operation, percent) in [(load.mix.first, first), (load.mix.second, 100.0 - first)] {
        match operation {
            Operation::Get | Operation::GetWith | Operation::AddExisting | Operation::GetOrInsert => {
                mix.hits += percent;
            }
            Operation::GetMissing => mix.misses += percent,
            Operation::Contains => {
                mix.hits += percent / 2.0;
                mix.misses += percent / 2.0;
            }
            Operation::Scan | Operation::ScanReverse | Operation::ScanKeys => mix.scans += percent,
            Operation::Put | Operation::Insert | Operation::Merge | Operation::Delete => mix.puts += percent,
            // What is read and written counts as both.
            Operation::Update | Operation::Increment | Operation::CompareAndSet | Operation::Transact => {
                mix.hits += percent;
                mix.puts += percent;
            }
            Operation::AddNew => {
                mix.misses += percent;
                mix.puts += percent;
            }
        }
        use Operation::{CompareAndSet, Put, Transact, Update};
        if matches!(operation, Put | Update | CompareAndSet | Transact) {
            overwriting += percent / 100.0;
        }
    }
    Workload {
        items: filled.existing.max(1) as f64,
        overwrites: (operations as f64 * overwriting).floor(),
        skew: load.skew,
        key_bytes: filled.key_bytes as f64,
        value_bytes: filled.value_bytes as f64,
        group_items: filled.group as f64,
        batch_items: load.batch as f64,
        mix,
        ..Workload::default()
    }
}

impl Predicted {
    fn of(costs: &Costs, workload: &Workload) -> Self {
        let mix = workload.mix.normalized();
        let gets = mix.hits + mix.misses;
        let per_get = if gets > 0.0 {
            (mix.hits * costs.reads_per_hit + mix.misses * costs.reads_per_miss) / gets
        } else {
            0.0
        };
        let by_level = costs.levels.iter().map(|level| level.write_amplification).collect();
        let each = [costs.cpu_us_per_hit, costs.cpu_us_per_miss, costs.cpu_us_per_scan, costs.cpu_us_per_put];
        let cpu = workload.mix.shares().iter().zip(each).map(|(share, us)| share * us).sum();
        let memory = &costs.memory_bytes;
        Self {
            write_amplification: costs.change_write_amplification,
            wal_write_amplification: costs.log_amplification,
            write_amplification_by_level: (workload.changes() == 0.0).then_some(by_level),
            device_reads_per_get: per_get,
            device_reads_per_hit: if mix.hits > 0.0 { costs.reads_per_hit } else { 0.0 },
            device_reads_per_miss: if mix.misses > 0.0 { costs.reads_per_miss } else { 0.0 },
            device_reads_per_scan: if mix.scans > 0.0 { costs.reads_per_scan } else { 0.0 },
            memory_bytes: Memory {
                memtable: memory.memtable as u64,
                filter: memory.filter as u64,
                index: memory.index as u64,
                cache: memory.cache as u64,
                compaction: memory.compaction as u64,
                total: memory.total as u64,
                budget: memory.budget as u64,
            },
            filter_bits_per_item: costs.filter_bits_per_item,
            index_bits_per_item: costs.index_bits_per_item,
            space_bytes: costs.table_bytes as u64,
            space_amplification: costs.space_amplification,
            cpu_us_per_operation: cpu,
        }
    }
}
