//! Memory: what filters and indexes take, what of them fits the budget, what is left for caches.
//!
//! The rules are the engine's (`memory.rs` and `db/background/filter_fit.rs` there): a part of the budget is
//! slack, compactions keep what they once held, room is kept for write buffers and for a cache, indexes come
//! before filters. Where filters do not fit, maplets get shorter fingerprints, all the same, as far as
//! lookups then read least; what does not fit beside them is not loaded, the bottom first, so that reads take
//! its place.

use super::costs::LevelCosts;
use super::layout::{Layout, PAGE_BYTES, RunSize};
use super::reads::{Missing, joined_runs};
use super::trie::{Moment, Region, Trie};
use serde::Serialize;
use siltstone_design::WriteBufferSpec;
use siltstone_design::design::LOG_INDEX_ENTRY_BYTES;

/// Memory by what it is for, in bytes, while operations of the workload's mix are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryCosts {
    /// Write buffers, or indexes of log stores; none where nothing is put.
    pub memtable: f64,
    /// Filters of tables and regions, as far as they fit.
    pub filter: f64,
    /// Indexes of tables, as far as they fit.
    pub index: f64,
    /// What is left for cached pages and rows, as far as there are any.
    pub cache: f64,
    /// Buffers of compactions, or what they leave to the allocator; none where nothing is put.
    pub compaction: f64,
    /// All of these.
    pub total: f64,
    /// Bytes of filters that do not fit.
    pub unfitted_filter: f64,
    /// Bytes of indexes that do not fit.
    pub unfitted_index: f64,
    /// The budget.
    pub budget: f64,
}

impl MemoryCosts {
    /// The mean of some.
    pub(super) fn mean<'a>(all: impl ExactSizeIterator<Item = &'a Self>) -> Self {
        let share = 1.0 / all.len().max(1) as f64;
        all.fold(Self::default(), |mean, one| Self {
            memtable: mean.memtable + share * one.memtable,
            filter: mean.filter + share * one.filter,
            index: mean.index + share * one.index,
            cache: mean.cache + share * one.cache,
            compaction: mean.compaction + share * one.compaction,
            total: mean.total + share * one.total,
            unfitted_filter: mean.unfitted_filter + share * one.unfitted_filter,
            unfitted_index: mean.unfitted_index + share * one.unfitted_index,
            budget: mean.budget + share * one.budget,
        })
    }

    /// Whether filters and indexes fit, but for a millionth of the budget: a price is not exact either.
    pub fn fits(&self) -> bool {
        self.unfitted() <= self.budget * UNFITTED_SHARE
    }

    /// Bytes of the budget that nobody has: what the allocator loses, and what may be more than is reckoned.
    pub fn slack(&self) -> f64 {
        (self.budget - self.total).max(0.0)
    }

    /// Bytes of filters and indexes that do not fit, for which pages are read instead.
    pub fn unfitted(&self) -> f64 {
        self.unfitted_filter + self.unfitted_index
    }
}

/// The share of each level that is missing where so many bytes fit: levels at the top have theirs first.
fn missing_by_level(bytes: &[f64], fits: f64) -> Vec<f64> {
    missing_in_order(bytes, 0..bytes.len(), fits)
}

/// The share of each level that is missing where so many bytes fit and levels have theirs in an order.
fn missing_in_order(bytes: &[f64], order: impl IntoIterator<Item = usize>, mut fits: f64) -> Vec<f64> {
    let mut missing = vec![0.0; bytes.len()];
    for level in order {
        let (Some(bytes), Some(missing)) = (bytes.get(level), missing.get_mut(level)) else { continue };
        let held = fits.min(*bytes);
        fits -= held;
        *missing = if *bytes > 0.0 { 1.0 - held / bytes } else { 0.0 };
    }
    missing
}

/// Memory of an entry of a memtable beside its key and value.
const MEMTABLE_ENTRY_BYTES: f64 = 56.0;
/// The share of the budget that filters may lack.
const UNFITTED_SHARE: f64 = 1e-6;
/// The share of the budget that is slack, and what is slack in any case, up to another such share.
const SLACK_SHARE: f64 = 1.0 / 12.0;
const FIXED_SLACK_BYTES: f64 = 6.0 * 1024.0 * 1024.0;
/// The share of the budget that filters and indexes leave to the cache, beside write buffers' part.
const CACHE_SHARE: f64 = 1.0 / 16.0;
/// The shares of their room that filters of regions and of tables leave to what grows.
const SPARE_FOR_REGIONS: f64 = 4.0 / 64.0;
const SPARE_FOR_TABLES: f64 = 1.0 / 64.0;
/// What is kept for write buffers, in write buffers, and the share of the budget that it is at most.
const RESERVED_BUFFERS: f64 = 3.0;
const MOST_RESERVED: f64 = 1.0 / 3.0;
/// The share of the budget that compactions keep at most.
const MOST_FOR_COMPACTION: f64 = 1.0 / 8.0;
/// Files of a compaction and a flush beside the runs that are merged: what both write, and a write buffer.
const FILES_BESIDE_RUNS: f64 = 5.0;
/// Bytes for each that is read of a file at once: it, and where the entries are in it.
const PER_CHUNK_BYTE: f64 = 1.5;
const CHUNK_SHARE: f64 = 1.0 / 256.0;
const LEAST_CHUNK_BYTES: f64 = 32.0 * 1024.0;
const MOST_CHUNK_BYTES: f64 = 1024.0 * 1024.0;

/// The share of lookups that are taken to be of absent keys when memory is divided among filters.
const MISS_SHARE: f64 = 1.0 / 8.0;

/// Fewest and most bits that are tried for the remainders of maplets.
const REMAINDER_BITS: std::ops::RangeInclusive<u8> = 1..=24;

/// What tables hold at a moment, and what of it is in memory with a budget.
#[derive(Debug)]
pub(super) struct Fitted<'a> {
    pub moment: Moment<'a>,
    /// How entries lie, with filters as exact as there is room for.
    pub layout: Layout,
    pub held: Held,
    pub memory: MemoryCosts,
    /// What of it is not.
    pub missing: Missing,
}

impl<'a> Fitted<'a> {
    /// That of a store at each of the moments at which it is looked at.
    pub fn of(trie: &'a Trie, layout: &Layout, budget: f64) -> Vec<Self> {
        trie.moments().map(|moment| Self::at(trie, moment, layout, budget)).collect()
    }

    fn at(trie: &Trie, moment: Moment<'a>, layout: &Layout, budget: f64) -> Self {
        let regions = region_sizes(trie, &moment);
        let with = |layout: Layout, held: Held| {
            let memory = held.memory(&layout, budget);
            let missing = held.missing(&layout, &memory);
            Self { moment, layout, held, memory, missing }
        };
        let whole = with(layout.clone(), Held::of(&regions, layout));
        if whole.memory.unfitted_filter <= 0.0 {
            return whole;
        }
        // From the longest on, until all fit. Regions go without only where the shortest are too long.
        let asked = |Self { layout, held, memory, missing, .. }: &Self| {
            (!held.regions_fit(layout, memory), held.reads_in_vain(layout, memory, missing))
        };
        let mut least = asked(&whole);
        let mut best = whole;
        for shorter in REMAINDER_BITS.rev().filter_map(|bits| layout.shortened(bits)) {
            let held = best.held.with_filters(filter_bytes(&regions, &shorter));
            let tried = with(shorter, held);
            let (all_fit, reads) = (tried.memory.unfitted_filter <= 0.0, asked(&tried));
            if reads < least {
                (best, least) = (tried, reads);
            }
            if all_fit {
                break;
            }
        }
        best
    }
}

/// A region at a moment, with all items of the store.
struct RegionSizes {
    /// For how many it stands.
    weight: f64,
    runs: Vec<RunSize>,
    entries: f64,
    bytes: f64,
}

/// The regions of each level at a moment.
fn region_sizes(trie: &Trie, moment: &Moment<'_>) -> Vec<Vec<RegionSizes>> {
    let grown = trie.leaves_grown_since(moment);
    let of_region = |level: usize, region: &Region| {
        let grown = if region.children.is_empty() { grown } else { 1.0 };
        let runs: Vec<RunSize> = region.puts.iter().map(|&puts| trie.run_size(level, region, puts)).collect();
        let entries = runs.iter().map(|run| run.entries).sum();
        RegionSizes { weight: region.weight * grown, runs, entries, bytes: region.shape.bytes() as f64 }
    };
    let levels = moment.levels.iter().enumerate();
    levels.map(|(level, regions)| regions.iter().map(|region| of_region(level, region)).collect()).collect()
}

/// Bytes of the filters of each level.
fn filter_bytes(levels: &[Vec<RegionSizes>], layout: &Layout) -> Vec<f64> {
    let of_region = |region: &RegionSizes| {
        let count = region.runs.len() as f64;
        let bits = region.runs.iter().map(|run| run.entries * layout.filter_bits(run, region.entries, count));
        region.weight * bits.sum::<f64>() / 8.0
    };
    levels.iter().map(|regions| regions.iter().map(of_region).sum()).collect()
}

/// What all tables hold at a moment, with all items of the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub levels: Vec<LevelCosts>,
    /// Bytes of filters by level.
    filters: Vec<f64>,
    /// Bytes of indexes by level.
    indexes: Vec<f64>,
    /// Runs by level, where those of each region were joined as often as can be.
    joined_runs: Vec<f64>,
    /// Bytes of pages.
    pub page_bytes: f64,
}

impl Held {
    fn of(levels: &[Vec<RegionSizes>], layout: &Layout) -> Self {
        let mut held = Self::default().with_filters(filter_bytes(levels, layout));
        for regions in levels {
            let (mut level, mut indexes, mut joined) = (LevelCosts::default(), 0.0, 0.0);
            for RegionSizes { weight, runs, entries, bytes } in regions {
                for run in runs {
                    indexes += weight * run.entries * layout.index_bits(run) / 8.0;
                    held.page_bytes += weight * run.entries * layout.stored(run).page_bytes;
                }
                level.regions += weight * f64::from(u8::from(!runs.is_empty()));
                level.runs += weight * runs.len() as f64;
                joined += weight * joined_runs(runs.len());
                level.entries += weight * entries;
                level.bytes += weight * bytes;
            }
            held.levels.push(level);
            held.indexes.push(indexes);
            held.joined_runs.push(joined);
        }
        held.page_bytes = held.page_bytes.max(PAGE_BYTES);
        held
    }

    /// The same with filters of so many bytes.
    fn with_filters(&self, filters: Vec<f64>) -> Self {
        Self { filters, ..self.clone() }
    }

    /// The mean of some.
    pub fn mean<'a>(all: impl ExactSizeIterator<Item = &'a Self>) -> Self {
        let share = 1.0 / all.len().max(1) as f64;
        let mut mean = Self::default();
        for one in all {
            if mean.levels.len() < one.levels.len() {
                mean.levels.resize(one.levels.len(), LevelCosts::default());
            }
            for (level, of_one) in mean.levels.iter_mut().zip(&one.levels) {
                level.regions += share * of_one.regions;
                level.runs += share * of_one.runs;
                level.entries += share * of_one.entries;
                level.bytes += share * of_one.bytes;
            }
            add(&mut mean.filters, &one.filters, share);
            add(&mut mean.indexes, &one.indexes, share);
            add(&mut mean.joined_runs, &one.joined_runs, share);
            mean.page_bytes += share * one.page_bytes;
        }
        mean
    }

    /// Bytes of all filters.
    pub fn filters(&self) -> f64 {
        self.filters.iter().sum()
    }

    /// Bytes of the largest region's filters: so much is there twice while they are replaced, by a merge or,
    /// of filters that regions have, where they are made shorter.
    fn replaced_filters(&self, layout: &Layout, has_puts: bool) -> f64 {
        let of_levels = self.filters.iter().zip(&self.levels).enumerate();
        let replaced = of_levels.filter(|(level, _)| has_puts || layout.has_region_filters_in_memory(*level));
        replaced.map(|(_, (bytes, level))| bytes / level.regions.max(1.0)).fold(0.0, f64::max)
    }

    /// Bytes of all indexes.
    pub fn indexes(&self) -> f64 {
        self.indexes.iter().sum()
    }

    /// The shares of each level's filters and indexes that are not in `memory`.
    fn missing(&self, layout: &Layout, memory: &MemoryCosts) -> Missing {
        let joins = layout.workload().mix.puts > 0.0;
        let filters = self.missing_filters(layout, memory);
        Missing { joins, filters, indexes: missing_by_level(&self.indexes, memory.index) }
    }

    /// The shares of each level's filters that are not in `memory`: those of regions come first where they
    /// all fit, and those of the top before those of the bottom.
    fn missing_filters(&self, layout: &Layout, memory: &MemoryCosts) -> Vec<f64> {
        if !self.regions_fit(layout, memory) {
            return missing_by_level(&self.filters, memory.filter);
        }
        let of_regions = |level: &usize| layout.has_region_filters_in_memory(*level);
        let levels = 0..self.filters.len();
        let order = levels.clone().filter(of_regions).chain(levels.filter(|level| !of_regions(level)));
        missing_in_order(&self.filters, order, memory.filter)
    }

    /// Whether the filters of all regions are in `memory`, if it has them first.
    fn regions_fit(&self, layout: &Layout, memory: &MemoryCosts) -> bool {
        self.region_filters(layout) <= memory.filter
    }

    /// Bytes of the filters of all regions.
    fn region_filters(&self, layout: &Layout) -> f64 {
        self.region_filters_by_level(layout).map(|(_, bytes)| bytes).sum()
    }

    /// Levels whose regions have filters in memory, and how many bytes they take.
    pub fn region_filters_by_level(&self, layout: &Layout) -> impl Iterator<Item = (usize, f64)> {
        let levels = self.filters.iter().copied().enumerate();
        levels.filter(|(level, _)| layout.has_region_filters_in_memory(*level))
    }

    /// Reads that a lookup does in vain, as the engine reckons when it divides memory among filters: the runs
    /// that a maplet names wrongly, and those that have no filter in memory; of what has nothing below it,
    /// only lookups of absent keys. A region that goes without has its runs joined, so that they are fewer
    /// than while it had one. The engine weighs those that there are: of some regions before, and of others
    /// after; here each counts as half-way between.
    fn reads_in_vain(&self, layout: &Layout, memory: &MemoryCosts, missing: &Missing) -> f64 {
        let are_joined = !self.regions_fit(layout, memory);
        let last = self.levels.iter().rposition(|level| level.runs > 0.0);
        let of_level = |(number, level): (usize, &LevelCosts)| {
            let is_last = Some(number) == last;
            let joined = self.joined_runs.get(number).copied().unwrap_or(0.0);
            let is_joined = are_joined && layout.has_region_filters_in_memory(number);
            let runs = if is_joined { f64::midpoint(level.runs, joined) } else { level.runs };
            let runs = runs / level.regions.max(1.0);
            let missing = Missing::of(&missing.filters, number);
            let asked = if is_last { (runs - 1.0).max(0.0) + MISS_SHARE } else { runs };
            layout.named_wrongly(number, !is_last) * (1.0 - missing) + asked * missing
        };
        self.levels.iter().enumerate().map(of_level).sum()
    }

    /// Divides a budget among those who want of it.
    pub fn memory(&self, layout: &Layout, budget: f64) -> MemoryCosts {
        let workload = layout.workload();
        let per_put = match layout.design().write_buffer {
            WriteBufferSpec::MemTable { .. } => workload.item_bytes() + MEMTABLE_ENTRY_BYTES,
            WriteBufferSpec::LogStore { .. } => LOG_INDEX_ENTRY_BYTES as f64,
        };
        // One fills while the other is flushed; on the average they take what one full one does.
        let buffer = layout.write_buffer_puts() * per_put;
        let puts = workload.mix.puts > 0.0;
        let memtable = if puts { buffer.min(budget / 2.0) } else { 0.0 };
        let usable = budget * (1.0 - SLACK_SHARE) - FIXED_SLACK_BYTES.min(budget * SLACK_SHARE);
        let files = layout.design().levels.iter().map(|level| f64::from(level.runs)).fold(0.0, f64::max);
        let chunk = (budget * CHUNK_SHARE).clamp(LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES);
        let buffers = (files + FILES_BESIDE_RUNS) * chunk * PER_CHUNK_BYTE;
        let compaction = if puts { buffers.min(budget * MOST_FOR_COMPACTION) } else { 0.0 };
        // A store that is only read keeps nothing for write buffers.
        let buffers = RESERVED_BUFFERS * layout.design().write_buffer_bytes() as f64;
        let buffers = buffers.min(budget * MOST_RESERVED) + budget * CACHE_SHARE;
        let reserved = if puts { buffers.max(memtable) } else { 0.0 };
        let room = (usable - compaction - reserved.max(budget * CACHE_SHARE)).max(0.0);
        let index = self.indexes().min(room);
        let (of_regions, replaced) = (self.region_filters(layout), self.replaced_filters(layout, puts));
        let for_filters = if of_regions <= (room - index) * (1.0 - SPARE_FOR_REGIONS) - replaced {
            (room - index) * (1.0 - SPARE_FOR_TABLES) - replaced
        } else {
            // Some region goes without, and those that have one give it up before another is made.
            ((room - index) * (1.0 - SPARE_FOR_TABLES)).min(of_regions - 1.0)
        };
        let filter = self.filters().min(for_filters.max(0.0));
        let left = (usable - compaction - memtable - index - filter).max(0.0);
        let cache = left.min(self.page_bytes * CACHED_PAGE_SPACE);
        MemoryCosts {
            memtable,
            filter,
            index,
            cache,
            compaction,
            total: memtable + filter + index + cache + compaction,
            unfitted_filter: self.filters() - filter,
            unfitted_index: self.indexes() - index,
            budget,
        }
    }
}

/// Adds a share of each of `more` to what stands in the same place.
fn add(all: &mut Vec<f64>, more: &[f64], share: f64) {
    all.resize(all.len().max(more.len()), 0.0);
    all.iter_mut().zip(more).for_each(|(all, more)| *all += share * more);
}

/// Memory of a cached page per byte of it.
const CACHED_PAGE_SPACE: f64 = (4096.0 + 96.0) / 4096.0;
