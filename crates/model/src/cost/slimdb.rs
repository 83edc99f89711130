//! What SlimDB costs, level by level: each level is leveled or stepped-merge, with or without a filter and a
//! compact index in memory, and pays for that in memory, reads and writes; the search finds the cheapest mix
//! for a budget.
//!
//! Source: Ren, Zheng, Arulraj, Gibson, "SlimDB: A Space-Efficient Key-Value Storage Engine For Semi-Sorted
//! Data" (VLDB 2017), section 4, Table 1 and Figure 9. What the paper leaves open, and how we settle it:
//!
//! - Its sums run to `l`, its store has `l + 1` levels. All levels count, or the last one would be free.
//! - Table 1 charges plain stepped merge (row 4) `r·w/B` per write, which is leveling's price; a stepped
//!   merge writes an entry once a level whatever index it has, `w/B`. [`SteppedWrites`] offers both; no
//!   result below changes.
//! - The budget is in bytes, the memory column in bits.
//! - `S_W` weighs a level's writes by the entries that come to rest at it or below. [`WriteWeights`] also
//!   offers the sum over all levels, which is what an entry pays on its way to the bottom.
//! - `B`, `f` and the operation mixes are not printed: 16 entries a block, 0.1 %, and the mixes below.
//! - "Heuristic search": the cost is a sum over levels, so the exact front of all layouts that no other beats
//!   in both memory and cost comes from extending fronts level by level ([`SlimDb::front`]).
//! - The paper finds one layout for its four workloads from 256 to 900 MB. That takes
//!   [`SlimDb::max_stepped_levels`] = 3; without such a limit a fourth stepped level wins as soon as it fits.

use crate::ModelError;
use serde::{Deserialize, Serialize};

/// One row of Table 1: how a level's data lie, and what of it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// Row 0: one run, nothing in memory.
    Leveled,
    /// Row 1: one run and a cuckoo filter.
    LeveledFilter,
    /// Row 2: one run, a cuckoo filter and a three-level index.
    LeveledFilterIndex,
    /// Row 3: one run and a three-level index.
    LeveledIndex,
    /// Row 4: `r` runs, nothing in memory.
    Stepped,
    /// Row 5: `r` runs and a multi-level cuckoo filter.
    SteppedFilter,
    /// Row 6: `r` runs, a multi-level cuckoo filter and three-level indexes.
    SteppedFilterIndex,
    /// Row 7: `r` runs and three-level indexes.
    SteppedIndex,
}

impl Row {
    /// The rows in the order of Table 1.
    pub const ALL: [Self; 8] = [
        Self::Leveled,
        Self::LeveledFilter,
        Self::LeveledFilterIndex,
        Self::LeveledIndex,
        Self::Stepped,
        Self::SteppedFilter,
        Self::SteppedFilterIndex,
        Self::SteppedIndex,
    ];

    /// The row's number in Table 1.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The row of that number in Table 1.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the level holds several runs.
    pub fn is_stepped(self) -> bool {
        self.number() >= Self::Stepped.number()
    }

    /// The row's name as Table 1 prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leveled => "LSM-Tree",
            Self::LeveledFilter => "LSM+CF",
            Self::LeveledFilterIndex => "LSM+CF+TL",
            Self::LeveledIndex => "LSM+TL",
            Self::Stepped => "Stepped-Merge",
            Self::SteppedFilter => "SM+MLCF",
            Self::SteppedFilterIndex => "SM+MLCF+TL",
            Self::SteppedIndex => "SM+TL",
        }
    }
}

/// What a level costs; reads and writes in random reads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RowCosts {
    /// Memory, in bits per entry of the level.
    pub memory_bits: f64,
    /// Reads of a lookup that finds its key here.
    pub positive_reads: f64,
    /// Reads of a lookup that passes through without finding its key.
    pub negative_reads: f64,
    /// Writing an entry into this level, as often as that happens on its way through.
    pub writes: f64,
}

/// What plain stepped merge (row 4) pays per write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteppedWrites {
    /// `w/B`, as the other stepped rows.
    #[default]
    Once,
    /// `r·w/B`, as Table 1 prints it.
    Printed,
}

/// Which entries pay for writes into a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteWeights {
    /// Those at rest in it or further down: `S_W` as the paper prints it.
    #[default]
    Resting,
    /// All entries: what an entry has cost when it reaches the last level.
    Cumulative,
}

/// Shares of operations; they should add up to 1, so that costs are per operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Share of lookups that find their key.
    pub positive_reads: f64,
    /// Share of lookups that don't.
    pub negative_reads: f64,
    /// Share of writes.
    pub writes: f64,
}

impl Mix {
    /// Creating files in an empty file system: each checks first that the name is free.
    pub const CREATION: Self = Self { positive_reads: 0.0, negative_reads: 0.5, writes: 0.5 };
    /// Updating attributes of files that exist.
    pub const UPDATE: Self = Self { positive_reads: 0.5, negative_reads: 0.0, writes: 0.5 };
    /// Querying attributes.
    pub const STAT: Self = Self { positive_reads: 1.0, negative_reads: 0.0, writes: 0.0 };
    /// Half queries, a quarter creations.
    pub const MIX: Self = Self { positive_reads: 0.5, negative_reads: 0.25, writes: 0.25 };

    /// The four workloads of Figure 9 with their names there.
    pub const FIGURE_9: [(&'static str, Self); 4] =
        [("creation", Self::CREATION), ("update", Self::UPDATE), ("stat", Self::STAT), ("mix", Self::MIX)];
}

/// A store of levels and the device below it; the default is that of Figure 9.
///
/// ```
/// use siltstone_model::cost::slimdb::{Mix, SlimDb};
///
/// let store = SlimDb { max_stepped_levels: Some(3), ..SlimDb::default() };
/// let best = store.best(Mix::MIX, 300e6)?.expect("300 MB hold some layout");
/// assert_eq!(best.numbers(), [6, 6, 6, 2, 3]);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimDb {
    /// Levels, the first one included (`l + 1` in the text).
    pub levels: u32,
    /// Growth from a level to the next, and runs of a stepped level (`r`).
    pub growth: f64,
    /// Entries of the first level (`N_0`).
    pub first_level_items: f64,
    /// Entries in a block (`B`).
    pub block_items: f64,
    /// False-positive rate of a level's filter (`f`).
    pub false_positive_rate: f64,
    /// Sequential write of a block, in random reads of one (`w`).
    pub block_write: f64,
    /// What row 4 pays per write.
    pub stepped_writes: SteppedWrites,
    /// Which entries pay for writes into a level.
    pub write_weights: WriteWeights,
    /// Most levels that may be stepped; `None` for no limit.
    pub max_stepped_levels: Option<u32>,
}

impl Default for SlimDb {
    fn default() -> Self {
        Self {
            levels: 5,
            growth: 8.0,
            first_level_items: 131_072.0,
            block_items: 16.0,
            false_positive_rate: 0.001,
            block_write: 0.146,
            stepped_writes: SteppedWrites::default(),
            write_weights: WriteWeights::default(),
            max_stepped_levels: None,
        }
    }
}

/// A layout and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Priced {
    /// The row chosen for each level, the first level first.
    pub rows: Vec<Row>,
    /// Memory of all filters and indexes, in bytes.
    pub memory_bytes: f64,
    /// Average cost of an operation, in random reads of a block.
    pub cost: f64,
}

impl Priced {
    /// The rows by their numbers in Table 1, as the paper names layouts.
    pub fn numbers(&self) -> Vec<u8> {
        self.rows.iter().map(|row| row.number()).collect()
    }
}

/// Average cost of each kind of operation: `S_PR`, `S_NR` and `S_W`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OperationCosts {
    /// A lookup that finds its key.
    pub positive_read: f64,
    /// A lookup that doesn't.
    pub negative_read: f64,
    /// A write, compaction included.
    pub write: f64,
}

impl SlimDb {
    /// Table 1 for this store.
    pub fn row(&self, row: Row) -> RowCosts {
        let (runs, false_positives) = (self.growth, self.false_positive_rate);
        let once = self.block_write / self.block_items;
        let (memory_bits, positive_reads, negative_reads) = match row {
            Row::Leveled => (0.0, 2.0, 2.0),
            Row::LeveledFilter => (13.0, 2.0, 2.0 * false_positives),
            Row::LeveledFilterIndex => (15.0, 1.0, false_positives),
            Row::LeveledIndex => (2.0, 1.0, 1.0),
            Row::Stepped => (0.0, runs + 1.0, 2.0 * runs),
            Row::SteppedFilter => (15.0, 2.0, 2.0 * false_positives),
            Row::SteppedFilterIndex => (17.0, 1.0, false_positives),
            Row::SteppedIndex => (2.0, (runs + 1.0) / 2.0, runs),
        };
        let printed = row == Row::Stepped && self.stepped_writes == SteppedWrites::Printed;
        let writes = if row.is_stepped() && !printed { once } else { runs * once };
        RowCosts { memory_bits, positive_reads, negative_reads, writes }
    }

    /// Entries of each level, the first level first.
    pub fn level_items(&self) -> Vec<f64> {
        (0..self.levels).map(|level| self.first_level_items * self.growth.powi(level as i32)).collect()
    }

    /// What operations cost with `rows`, one per level.
    ///
    /// # Errors
    /// A parameter that makes no sense, or a number of rows other than that of levels.
    pub fn operation_costs(&self, rows: &[Row]) -> Result<OperationCosts, ModelError> {
        self.check()?;
        self.check_rows(rows)?;
        let mut sum = OperationCosts::default();
        for (row, level) in rows.iter().zip(self.weighted_levels()) {
            let at = level.operations(&self.row(*row));
            sum.positive_read += at.positive_read;
            sum.negative_read += at.negative_read;
            sum.write += at.write;
        }
        Ok(sum)
    }

    /// Prices `rows`, one per level, for `mix`.
    ///
    /// # Errors
    /// As [`SlimDb::operation_costs`].
    pub fn price(&self, rows: &[Row], mix: Mix) -> Result<Priced, ModelError> {
        let costs = self.operation_costs(rows)?;
        let bits: f64 =
            rows.iter().zip(self.level_items()).map(|(row, items)| self.row(*row).memory_bits * items).sum();
        Ok(Priced { rows: rows.to_vec(), memory_bytes: bits / 8.0, cost: mix.cost(costs) })
    }

    /// Every layout that no other beats in both memory and cost, by rising memory and falling cost.
    ///
    /// Exact: a layout's memory and cost are sums over its levels, so a part of a layout that is beaten by
    /// another part of as many levels and no more stepped ones is never part of a layout on the front.
    ///
    /// # Errors
    /// A parameter that makes no sense.
    pub fn front(&self, mix: Mix) -> Result<Vec<Priced>, ModelError> {
        self.check()?;
        let limit = self.max_stepped_levels.unwrap_or(self.levels).min(self.levels) as usize;
        // One front per number of stepped levels; without a limit that number does not matter.
        let counted = self.max_stepped_levels.is_some();
        let mut fronts: Vec<Vec<Part>> = vec![Vec::new(); if counted { limit + 1 } else { 1 }];
        if let Some(first) = fronts.first_mut() {
            first.push(Part { bits: 0.0, cost: 0.0, rows: 0 });
        }
        for level in self.weighted_levels() {
            let mut next: Vec<Vec<Part>> = vec![Vec::new(); fronts.len()];
            for (stepped, parts) in fronts.iter().enumerate() {
                for row in Row::ALL {
                    let stepped = stepped + usize::from(counted && row.is_stepped());
                    let Some(target) = next.get_mut(stepped) else { continue };
                    let costs = self.row(row);
                    let (bits, cost) = (costs.memory_bits * level.items, mix.cost(level.operations(&costs)));
                    target.extend(parts.iter().map(|part| part.extended(row, bits, cost)));
                }
            }
            fronts = next.into_iter().map(undominated).collect();
        }
        let parts = undominated(fronts.into_iter().flatten().collect());
        parts.iter().map(|part| self.price(&part.rows(self.levels), mix)).collect()
    }

    /// The cheapest layout for `mix` whose filters and indexes fit `budget_bytes`; `None` if not even an
    /// empty one does.
    ///
    /// # Errors
    /// A parameter that makes no sense.
    pub fn best(&self, mix: Mix, budget_bytes: f64) -> Result<Option<Priced>, ModelError> {
        Ok(self.front(mix)?.into_iter().take_while(|layout| layout.memory_bytes <= budget_bytes).last())
    }

    fn weighted_levels(&self) -> impl Iterator<Item = WeightedLevel> {
        let items = self.level_items();
        let total: f64 = items.iter().sum();
        let cumulative = self.write_weights == WriteWeights::Cumulative;
        let mut below = 1.0;
        items.into_iter().map(move |items| {
            let here = items / total;
            let passing = if cumulative { 1.0 } else { below };
            below = (below - here).max(0.0);
            WeightedLevel { items, here, below, passing }
        })
    }

    fn check(&self) -> Result<(), ModelError> {
        if !(1..=8).contains(&self.levels) {
            return Err(ModelError::new("levels", format!("{} given; use 1 to 8", self.levels)));
        }
        if !(self.growth.is_finite() && self.growth > 1.0) {
            return Err(ModelError::new("growth", format!("{} given; it must be above 1", self.growth)));
        }
        ModelError::positive("first_level_items", self.first_level_items)?;
        ModelError::positive("block_items", self.block_items)?;
        ModelError::positive("block_write", self.block_write)?;
        ModelError::fraction("false_positive_rate", self.false_positive_rate)?;
        Ok(())
    }

    fn check_rows(&self, rows: &[Row]) -> Result<(), ModelError> {
        if rows.len() == self.levels as usize {
            return Ok(());
        }
        let message = format!("{} given for {} levels; name one per level", rows.len(), self.levels);
        Err(ModelError::new("rows", message))
    }
}

impl Mix {
    fn cost(self, costs: OperationCosts) -> f64 {
        self.positive_reads * costs.positive_read
            + self.negative_reads * costs.negative_read
            + self.writes * costs.write
    }
}

/// A level and the shares of all entries that it concerns.
struct WeightedLevel {
    /// Entries of the level.
    items: f64,
    /// Share of entries at rest here: lookups that end here.
    here: f64,
    /// Share of entries further down: lookups that pass through.
    below: f64,
    /// Share of entries that pay for being written here.
    passing: f64,
}

impl WeightedLevel {
    fn operations(&self, row: &RowCosts) -> OperationCosts {
        OperationCosts {
            positive_read: self.here * row.positive_reads + self.below * row.negative_reads,
            negative_read: row.negative_reads,
            write: self.passing * row.writes,
        }
    }
}

/// The upper levels of a layout: rows as octal digits, the last level lowest.
#[derive(Clone, Copy)]
struct Part {
    bits: f64,
    cost: f64,
    rows: u64,
}

impl Part {
    fn extended(&self, row: Row, bits: f64, cost: f64) -> Self {
        let rows = self.rows << 3 | u64::from(row.number());
        Self { bits: self.bits + bits, cost: self.cost + cost, rows }
    }

    fn rows(&self, levels: u32) -> Vec<Row> {
        let digit = |level: u32| (self.rows >> (3 * level) & 7) as u8;
        (0..levels).rev().filter_map(|level| Row::from_number(digit(level))).collect()
    }
}

/// Parts that no other beats, by rising memory. Of equals one stays, and costs that differ by rounding are
/// equal.
fn undominated(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by(|a, b| a.bits.total_cmp(&b.bits).then(a.cost.total_cmp(&b.cost)).then(a.rows.cmp(&b.rows)));
    let mut least = f64::INFINITY;
    parts.retain(|part| {
        let better = part.cost < least * (1.0 - 1e-12);
        least = if better { part.cost } else { least };
        better
    });
    parts
}
