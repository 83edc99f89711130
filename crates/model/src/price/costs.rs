//! What a design costs, put together.

use super::layout::{Layout, PAGE_BYTES};
use super::reads::Pages;
use super::trie::Trie;
use super::workload::Workload;
use serde::Serialize;

/// What a design costs for a workload.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Costs {
    /// Bytes written to the device per byte put, the log included.
    pub write_amplification: f64,
    /// Bytes written to the log per byte put.
    pub log_amplification: f64,
    /// The levels, from the top.
    pub levels: Vec<LevelCosts>,
    /// Pages that a get of an item needs, cached or not.
    pub pages_per_hit: f64,
    /// Device reads per get of an item, where items are asked for alike.
    pub reads_per_hit: f64,
    /// Device reads per get of a key that is not there.
    pub reads_per_miss: f64,
    /// Pages that a scan of one group needs, cached or not.
    pub pages_per_scan: f64,
    /// Bytes of memory by what they are for.
    pub memory_bytes: MemoryCosts,
    /// Filter bits in memory per item.
    pub filter_bits_per_item: f64,
    /// Index bits in memory per item.
    pub index_bits_per_item: f64,
    /// Bytes of all tables at the end.
    pub table_bytes: f64,
    /// Bytes of all tables at the end per byte of items.
    pub space_amplification: f64,
    /// The mean over time: while items are overwritten, or while they are put where none are.
    pub mean_space_amplification: f64,
    /// The peak over the same time.
    pub peak_space_amplification: f64,
}

/// What one level holds and has cost.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct LevelCosts {
    /// Bytes written into it per byte put.
    pub write_amplification: f64,
    /// Regions with runs.
    pub regions: f64,
    /// Runs.
    pub runs: f64,
    /// Entries in its tables.
    pub entries: f64,
    /// Bytes of its tables.
    pub bytes: f64,
}

/// Memory by what it is for, in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct MemoryCosts {
    /// Write buffers: one that fills and one that is flushed.
    pub write_buffers: f64,
    /// Filters of tables and regions.
    pub filters: f64,
    /// Indexes of tables.
    pub indexes: f64,
    /// What is left for cached pages and rows.
    pub cache: f64,
    /// What of filters and indexes does not fit, so that pages are read instead.
    pub unfitted: f64,
    /// The budget.
    pub budget: f64,
}

/// Memory of an entry of a memtable beside its key and value.
const MEMTABLE_ENTRY_BYTES: f64 = 56.0;
/// The share of the budget that is left to what nobody accounts for.
const SLACK_SHARE: f64 = 1.0 / 6.0;

pub(super) fn of(trie: &Trie<'_>, layout: &Layout, workload: &Workload, budget_bytes: u64) -> Costs {
    let user_bytes = workload.user_bytes();
    let held = Held::of(trie, layout);
    let memory = held.memory(layout, workload, budget_bytes as f64);
    let missing =
        if held.filters + held.indexes > 0.0 { memory.unfitted / (held.filters + held.indexes) } else { 0.0 };
    let pages = Pages::of(trie, layout, missing);
    let table_bytes = trie.bytes();
    let cached = (memory.cache / held.page_bytes.max(1.0)).clamp(0.0, 1.0);
    let items_bytes = workload.items * workload.item_bytes();
    let log_amplification = layout.logged_bytes() / workload.item_bytes();
    let tables_written: f64 = trie.written.iter().sum();
    Costs {
        write_amplification: log_amplification + tables_written / user_bytes,
        log_amplification,
        levels: held
            .levels
            .into_iter()
            .zip(&trie.written)
            .map(|(level, written)| LevelCosts { write_amplification: written / user_bytes, ..level })
            .collect(),
        pages_per_hit: pages.hit,
        reads_per_hit: pages.hit * (1.0 - cached),
        reads_per_miss: pages.miss * (1.0 - cached),
        pages_per_scan: pages.scan,
        memory_bytes: memory,
        filter_bits_per_item: held.filters * 8.0 / workload.items,
        index_bits_per_item: held.indexes * 8.0 / workload.items,
        table_bytes,
        space_amplification: table_bytes / items_bytes,
        mean_space_amplification: trie.space.mean_bytes() / items_bytes,
        peak_space_amplification: trie.space.peak_bytes / items_bytes,
    }
}

/// What all tables hold.
struct Held {
    levels: Vec<LevelCosts>,
    filters: f64,
    indexes: f64,
    page_bytes: f64,
}

impl Held {
    fn of(trie: &Trie<'_>, layout: &Layout) -> Self {
        let mut held = Self { levels: Vec::new(), filters: 0.0, indexes: 0.0, page_bytes: 0.0 };
        for (number, regions) in trie.levels.iter().enumerate() {
            let (mut at, mut bytes) = ([0.0; 3], 0.0);
            for region in regions {
                let sizes: Vec<_> =
                    region.puts.iter().map(|&puts| trie.run_size(number, region, puts)).collect();
                let entries: f64 = sizes.iter().map(|size| size.entries).sum();
                for size in &sizes {
                    let bits = layout.filter_bits(size, entries, sizes.len() as f64);
                    held.filters += region.weight * size.entries * bits / 8.0;
                    held.indexes += region.weight * size.entries * layout.index_bits(size) / 8.0;
                    held.page_bytes += region.weight * size.entries * layout.page_bytes(size);
                }
                let now = [f64::from(u8::from(!sizes.is_empty())), sizes.len() as f64, entries];
                for (sum, each) in at.iter_mut().zip(now) {
                    *sum += region.weight * each;
                }
                bytes += region.weight * region.shape.bytes() as f64;
            }
            let [regions, runs, entries] = at;
            held.levels.push(LevelCosts { write_amplification: 0.0, regions, runs, entries, bytes });
        }
        held.page_bytes = held.page_bytes.max(PAGE_BYTES);
        held
    }

    fn memory(&self, layout: &Layout, workload: &Workload, budget: f64) -> MemoryCosts {
        let per_put = match layout.design().write_buffer {
            siltstone_design::WriteBufferSpec::MemTable { .. } => {
                workload.item_bytes() + MEMTABLE_ENTRY_BYTES
            }
            siltstone_design::WriteBufferSpec::LogStore { .. } => {
                siltstone_design::design::LOG_INDEX_ENTRY_BYTES as f64
            }
        };
        let write_buffers = 2.0 * layout.write_buffer_puts() * per_put;
        let wanted = self.filters + self.indexes;
        let left = (budget * (1.0 - SLACK_SHARE) - write_buffers).max(0.0);
        let unfitted = (wanted - left).max(0.0);
        let cache = (left - wanted).max(0.0);
        MemoryCosts { write_buffers, filters: self.filters, indexes: self.indexes, cache, unfitted, budget }
    }
}
