//! The stores that are really run: every preset and two mixtures, three histories each.

use super::stage::Contents;
use siltstone::{Design, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec, presets};
use siltstone_model::price::Workload;

/// Flushes that a fill has, about, so that a small store has as many levels as a large one.
const FLUSHES: u64 = 400;
/// Smallest tables.
const LEAST_TABLE_BYTES: u64 = 64 << 10;
/// Keys and groups.
const KEY_BYTES: u64 = 16;
const GROUP_ITEMS: u64 = 64;
/// Moments at which a store that is overwritten is looked at.
pub const MOMENTS: u32 = 4;
/// Bytes of items per byte of the memory budgets.
pub const DATA_PER_MEMORY: [u64; 3] = [4, 12, 36];

/// What a store goes through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum History {
    /// It is filled.
    Growth,
    /// And then each item is overwritten twice on the average, at this skew.
    Overwritten(f64),
}

/// A store to run.
#[derive(Clone, Debug)]
pub struct Story {
    pub name: String,
    pub design: Design,
    pub items: u64,
    pub value_bytes: u64,
    pub group: u64,
    pub history: History,
}

/// The stores of `items` items.
pub fn stories(items: u64) -> Vec<Story> {
    let mut all = Vec::new();
    for (name, design) in presets::all().into_iter().chain(mixtures()) {
        for history in [History::Growth, History::Overwritten(0.0), History::Overwritten(0.99)] {
            // Items of another size in every third store.
            let value_bytes = if history == History::Overwritten(0.99) { 32 } else { 100 };
            let is_for_groups = !matches!(name, "silt" | "lsm-trie");
            let group = if is_for_groups { GROUP_ITEMS } else { 1 };
            let bytes = items * (KEY_BYTES + value_bytes) / FLUSHES;
            let table_bytes = bytes.next_power_of_two().max(LEAST_TABLE_BYTES);
            let design = design.scaled_to(table_bytes);
            all.push(Story { name: name.to_owned(), design, items, value_bytes, group, history });
        }
    }
    all
}

/// Designs that are no preset: parts of several.
fn mixtures() -> Vec<(&'static str, Design)> {
    let mut bloomed = presets::siltstone();
    for level in &mut bloomed.levels {
        *level = LevelSpec {
            runs: 8,
            index: IndexSpec::Separators,
            table_filter: TableFilterSpec::Bloom { bits_per_key: 8 },
            region_filter: RegionFilterSpec::None,
            ..*level
        };
    }
    let mut maplets = presets::stepped_merge();
    for level in &mut maplets.levels {
        level.table_filter = TableFilterSpec::None;
        level.region_filter = RegionFilterSpec::Maplet { remainder_bits: 8 };
        level.index = IndexSpec::Cells;
    }
    maplets.max_garbage = 0.25;
    maplets.pushes_early = true;
    vec![("blooms of 8 runs", bloomed), ("maplets of 8 runs", maplets)]
}

impl Story {
    /// What tells it apart from the others.
    pub fn key(&self) -> String {
        format!("{}, {}", self.name, self.history.name())
    }

    pub fn contents(&self) -> Contents {
        let Self { items, value_bytes, group, .. } = *self;
        Contents { items, key_bytes: KEY_BYTES, value_bytes, group }
    }

    pub fn key_bytes(&self) -> u64 {
        KEY_BYTES
    }

    pub fn item_bytes(&self) -> u64 {
        KEY_BYTES + self.value_bytes
    }

    pub fn overwrites(&self) -> u64 {
        if self.history == History::Growth { 0 } else { 2 * self.items }
    }

    pub fn skew(&self) -> f64 {
        match self.history {
            History::Growth => 0.0,
            History::Overwritten(skew) => skew,
        }
    }

    /// Items that are overwritten from one moment to the next at which it is looked at, so that these are
    /// spread over the cycle of level 1, and over that of level 0.
    pub fn overwritten_between(&self) -> u64 {
        let [of_level_0, of_level_1] = self.contents().cycles(&self.design);
        let part = 1.0 / f64::from(MOMENTS);
        let cycles = (of_level_1 * part / of_level_0).floor() + part;
        ((cycles * of_level_0) as u64).min(self.items / u64::from(MOMENTS))
    }

    /// Memory budgets: where all filters fit, where few do, and between.
    pub fn budgets(&self) -> [u64; 3] {
        let least = (8 * self.design.write_buffer_bytes()).max(2 << 20);
        DATA_PER_MEMORY.map(|part| (self.items * self.item_bytes() / part).max(least))
    }

    /// The same for the model.
    pub fn workload(&self, batch: u64) -> Workload {
        Workload {
            items: self.items as f64,
            overwrites: self.overwrites() as f64,
            skew: self.skew(),
            key_bytes: KEY_BYTES as f64,
            value_bytes: self.value_bytes as f64,
            group_items: self.group as f64,
            batch_items: batch as f64,
            ..Workload::default()
        }
    }
}

impl History {
    pub fn name(self) -> String {
        match self {
            Self::Growth => "growth".to_owned(),
            Self::Overwritten(skew) => format!("overwritten, skew {skew}"),
        }
    }
}
