//! Item-level simulation of leveled stores: LevelDB and RocksDB's leveled compaction, table by table and key
//! by key.
//!
//! Every table is the sorted list of its keys, so what overwrites what, how tables overlap and where they are
//! cut is exact; only values are missing. Source: Lim et al., FAST 2016, §4.5 (their simulator follows
//! LevelDB's design document) and §7 (RocksDB's choice of the largest table). Where details differ between
//! the authors' simulator and the engines they are parameters: see [`Leveled`].
//!
//! *Ours*: the sampler is exact, miniatures ([`Protocol::miniature`]) draw only the requests they keep, and
//! merging runs at memory speed, so that a run of the paper's takes seconds instead of most of an hour.
//!
//! Invariants: tables of a level are disjoint and never empty; a level's count of items is the sum over its
//! tables; after every flush no level but the last holds as many items as its size, and level 0 fewer tables
//! than its limit.

use super::keys::{Ranks, Sampler};
use super::level::{Level, last_key};
use super::protocol::{Load, Measured, Protocol};
use super::tables::{Merged, sort_distinct};
use crate::ModelError;
use std::collections::VecDeque;

/// Which table of a level is compacted next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The first table that *begins* after the last key compacted: LevelDB's design document and the authors'
    /// simulator.
    RoundRobinByFirstKey,
    /// The first table that *ends* after the last key compacted: LevelDB's code, RocksDB's `kRoundRobin`.
    RoundRobinByLastKey,
    /// The table with most items: RocksDB's `kByCompensatedSize`, its default when the paper was written.
    /// Among the many that are full it takes any, since an engine's tables differ by bytes that items do not
    /// tell.
    Largest,
    /// The table that overlaps least of the next level for its size: RocksDB's `kMinOverlappingRatio`, its
    /// default now.
    LeastOverlap,
}

/// Which level is compacted next, where several are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The uppermost: the authors' simulator.
    Uppermost,
    /// The one that is fullest for its size: LevelDB and RocksDB.
    Fullest,
}

/// A leveled store. Sizes are items.
#[derive(Clone, Debug, PartialEq)]
pub struct Leveled {
    /// Requests after which the memtable is flushed.
    pub write_buffer: f64,
    /// Tables at which level 0 is compacted.
    pub level0_tables: usize,
    /// Sizes of levels 1 to L at which they are compacted; the last is never.
    pub level_sizes: Vec<f64>,
    /// Items at which a table is finished.
    pub table: f64,
    /// Which table of a level goes next.
    pub pick: Pick,
    /// Which level goes next.
    pub order: Order,
    /// Whether a flush drops overwritten items: RocksDB does, LevelDB writes each as often as it came.
    pub flush_dedup: bool,
    /// A table is also finished when it would overlap more than so many full tables of the level below the
    /// next; LevelDB's limit is 10. The authors' simulator has it only with LevelDB's own level sizes.
    pub grandparent_tables: Option<f64>,
    /// Whether a compaction takes more tables of its own level where that costs no more of the next:
    /// LevelDB's and RocksDB's code do, the design document and the authors' simulator do not.
    pub expand_inputs: bool,
    /// Whether a table that overlaps nothing of the next level goes there without being written again:
    /// LevelDB's and RocksDB's code do so, the authors' simulator does not.
    pub trivial_moves: bool,
}

impl Leveled {
    /// LevelDB as its design document has it, with its defaults: 4 MiB log, 4 tables in level 0, tables of 2
    /// MiB. The authors' simulator is the same.
    ///
    /// `level_sizes` are those of levels 1 to L in items.
    pub fn leveldb(level_sizes: Vec<f64>, item_bytes: f64) -> Result<Self, ModelError> {
        ModelError::positive("item-bytes", item_bytes)?;
        let leveled = Self {
            write_buffer: (4u64 << 20) as f64 / item_bytes,
            level0_tables: 4,
            level_sizes,
            table: (2u64 << 20) as f64 / item_bytes,
            pick: Pick::RoundRobinByFirstKey,
            order: Order::Uppermost,
            flush_dedup: true,
            grandparent_tables: Some(10.0),
            expand_inputs: false,
            trivial_moves: false,
        };
        leveled.check()?;
        Ok(leveled)
    }

    /// Whether the sizes make a store.
    fn check(&self) -> Result<(), ModelError> {
        for (parameter, size) in [("write-buffer", self.write_buffer), ("table-bytes", self.table)] {
            if !(1.0..=f64::from(u32::MAX)).contains(&size) {
                return Err(ModelError::new(
                    parameter,
                    format!("{size} items given; it must hold 1 to 2^32"),
                ));
            }
        }
        if self.level0_tables == 0 {
            return Err(ModelError::new("l0-files", "0 given; compaction needs at least 1 table"));
        }
        if self.level_sizes.is_empty() || !self.level_sizes.iter().all(|size| *size >= 1.0) {
            let message = "there must be at least one level, and each must hold at least 1 item";
            return Err(ModelError::new("level-sizes", message));
        }
        Ok(())
    }

    /// Runs the store through `protocol` under requests as popular as `ranks` says.
    ///
    /// `progress` hears the requests done so far and those to do, about every memtable.
    ///
    /// # Errors
    /// If a parameter makes no store, or there are 2^32 keys or more.
    ///
    /// ```
    /// use siltstone_model::simulate::{Leveled, Protocol, Ranks};
    ///
    /// let store = Leveled::leveldb(vec![1_000.0, 10_000.0, 100_000.0], 10_000.0)?;
    /// let protocol = Protocol::paper(100_000);
    /// let measured = store.simulate(&Ranks::uniform(100_000)?, &protocol, &mut |_, _| {})?;
    /// assert!((12.0..14.5).contains(&measured.cost.write_amplification));
    /// # Ok::<(), siltstone_model::ModelError>(())
    /// ```
    pub fn simulate(
        &self,
        ranks: &Ranks,
        protocol: &Protocol,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Measured, ModelError> {
        self.check()?;
        protocol.check(ranks)?;
        let one_in = f64::from(protocol.miniature);
        let mut sampler = Sampler::new(ranks, protocol.miniature, protocol.seed);
        let mut store = Store::new(self, one_in);
        load(&mut store, &sampler, protocol.load);
        store.reset_counts();
        let total = protocol.warm_up + protocol.requests;
        let (mut done, mut measured) = (0u64, 0u64);
        let key_bits = sampler.key_bits();
        while done < total {
            let requests = self.write_buffer.ceil() as u64;
            store.memtable.clear();
            sampler.draw_of(requests, &mut store.memtable);
            store.flush(requests as f64 / one_in, key_bits);
            done += requests;
            measured += requests;
            if done >= protocol.warm_up && done - requests < protocol.warm_up {
                store.reset_counts();
                measured = 0;
            }
            progress(done.min(total), total);
        }
        Ok(store.measured(self, measured, one_in))
    }
}

/// Fills the store before measuring.
fn load(store: &mut Store, sampler: &Sampler, load: Load) {
    if load == Load::Sequential {
        let keys: Vec<u32> = (0..sampler.keys()).collect();
        for chunk in keys.chunks(store.write_buffer.max(1)) {
            store.memtable.clear();
            store.memtable.extend_from_slice(chunk);
            store.flush(chunk.len() as f64, sampler.key_bits());
        }
    }
}

/// A store being simulated; in a miniature all limits are divided already.
struct Store {
    pick: Pick,
    order: Order,
    flush_dedup: bool,
    expand_inputs: bool,
    trivial_moves: bool,
    write_buffer: usize,
    level0_tables: usize,
    table: usize,
    grandparent_items: Option<f64>,
    sizes: Vec<f64>,
    memtable: Vec<u32>,
    /// Level 0, oldest first.
    level0: VecDeque<Vec<u32>>,
    /// Levels 1 to L.
    levels: Vec<Level>,
    /// Items written into level 0, 1, ….
    written: Vec<f64>,
    scratch: Vec<u32>,
    merged: Merged,
    other: Merged,
    spare: Vec<Vec<u32>>,
}

impl Store {
    fn new(design: &Leveled, one_in: f64) -> Self {
        let table = (design.table / one_in).ceil().max(1.0);
        Self {
            pick: design.pick,
            order: design.order,
            flush_dedup: design.flush_dedup,
            expand_inputs: design.expand_inputs,
            trivial_moves: design.trivial_moves,
            write_buffer: (design.write_buffer / one_in).ceil() as usize,
            level0_tables: design.level0_tables,
            table: table as usize,
            grandparent_items: design.grandparent_tables.map(|tables| tables * table),
            sizes: design.level_sizes.iter().map(|size| size / one_in).collect(),
            memtable: Vec::new(),
            level0: VecDeque::new(),
            levels: design.level_sizes.iter().map(|_| Level::default()).collect(),
            written: vec![0.0; design.level_sizes.len() + 1],
            scratch: Vec::new(),
            merged: Merged::default(),
            other: Merged::default(),
            spare: Vec::new(),
        }
    }

    fn reset_counts(&mut self) {
        self.written.fill(0.0);
    }

    fn measured(&self, design: &Leveled, requests: u64, one_in: f64) -> Measured {
        let levels = self.levels.iter().map(|level| level.items as f64 * one_in).collect();
        let written = self.written.iter().map(|items| items * one_in).collect();
        Measured::new(requests, written, levels, design.level_sizes.clone())
    }

    fn count(&mut self, level: usize, items: usize) {
        if let Some(written) = self.written.get_mut(level) {
            *written += items as f64;
        }
    }

    /// Makes the memtable, which took `requests`, a table of level 0, and does all work that makes due.
    fn flush(&mut self, requests: f64, key_bits: u32) {
        sort_distinct(&mut self.memtable, &mut self.scratch, key_bits);
        if !self.memtable.is_empty() {
            if self.flush_dedup {
                self.count(0, self.memtable.len());
            } else if let Some(written) = self.written.first_mut() {
                *written += requests;
            }
            let mut table = self.spare.pop().unwrap_or_default();
            table.extend_from_slice(&self.memtable);
            self.level0.push_back(table);
        }
        while let Some(level) = self.full_level() {
            if level == 0 { self.compact_level0() } else { self.compact(level) }
        }
    }

    /// The level to compact next, if any.
    fn full_level(&self) -> Option<usize> {
        let level0 = (0, self.level0.len() as f64 / self.level0_tables as f64);
        let inner = self.levels.len() - 1;
        let scores =
            (1..).zip(self.levels.iter().zip(&self.sizes).take(inner).map(|(l, s)| l.items as f64 / s));
        let mut full = std::iter::once(level0).chain(scores).filter(|&(_, score)| score >= 1.0);
        let first = full.next()?;
        let fullest = |best: (usize, f64), other: (usize, f64)| if other.1 > best.1 { other } else { best };
        let chosen = if self.order == Order::Uppermost { first } else { full.fold(first, fullest) };
        Some(chosen.0)
    }

    /// Merges the oldest table of level 0, and all that overlap it, into level 1.
    fn compact_level0(&mut self) {
        let Some(oldest) = self.level0.pop_front() else { return };
        let (mut low, mut high) = (oldest.first().copied().unwrap_or(0), last_key(&oldest));
        let mut inputs = vec![oldest];
        loop {
            let overlaps = |t: &Vec<u32>| t.first().is_some_and(|f| *f <= high) && last_key(t) >= low;
            let Some(at) = self.level0.iter().position(overlaps) else { break };
            let Some(table) = self.level0.remove(at) else { break };
            low = low.min(table.first().copied().unwrap_or(low));
            high = high.max(last_key(&table));
            inputs.push(table);
        }
        if inputs.len() == 1 && self.moves_down(0, low, high) {
            inputs.into_iter().for_each(|table| self.put(1, table));
            return;
        }
        self.other.clear();
        let mut union = std::mem::take(&mut self.other);
        for table in inputs {
            self.merged.clear();
            self.merged.append_union(union.keys(), &table);
            std::mem::swap(&mut union, &mut self.merged);
            self.recycle(table);
        }
        self.merge_into(1, union.keys());
        self.other = union;
    }

    /// Whether a single table of `level` can go down without being rewritten.
    fn moves_down(&self, level: usize, low: u32, high: u32) -> bool {
        let items_below = |below: usize| -> Option<usize> {
            self.levels.get(below).map(|l| l.overlapping(low, high).map(|(_, table)| table.len()).sum())
        };
        self.trivial_moves
            && items_below(level) == Some(0)
            && self.grandparent_items.is_none_or(|limit| items_below(level + 1).unwrap_or(0) as f64 <= limit)
    }

    /// Merges one table of `level`, 1 or below, into the next.
    fn compact(&mut self, level: usize) {
        let Some([here, below]) = self.levels.get(level - 1..=level).and_then(|pair| pair.as_array()) else {
            return;
        };
        let picked = match self.pick {
            Pick::RoundRobinByFirstKey => here.round_robin(false),
            Pick::RoundRobinByLastKey => here.round_robin(true),
            Pick::Largest => here.largest(),
            Pick::LeastOverlap => here.least_overlap(below),
        };
        let Some(first) = picked else { return };
        let high = here.tables.get(&first).map_or(first, |table| last_key(table));
        let more =
            if self.expand_inputs { expansion(here, below, first, high, self.table) } else { Vec::new() };
        let moves = more.is_empty() && self.moves_down(level, first, high);
        let Some(here) = self.levels.get_mut(level - 1) else { return };
        let mut inputs: Vec<Vec<u32>> = Vec::new();
        for first in more.into_iter().chain([first]) {
            inputs.extend(here.take(first));
        }
        inputs.sort_unstable_by_key(|table| table.first().copied());
        here.pointer = inputs.last().map(|table| last_key(table));
        if moves {
            inputs.into_iter().for_each(|table| self.put(level + 1, table));
            return;
        }
        let mut source = std::mem::take(&mut self.other);
        source.clear();
        for table in inputs {
            source.append(&table);
            self.recycle(table);
        }
        self.merge_into(level + 1, source.keys());
        self.other = source;
    }

    fn recycle(&mut self, mut table: Vec<u32>) {
        if self.spare.len() < 64 {
            table.clear();
            self.spare.push(table);
        }
    }

    /// Merges `source` with what it overlaps in `level`, 1 or below, and cuts the result into tables.
    fn merge_into(&mut self, level: usize, source: &[u32]) {
        let (Some(&low), Some(&high)) = (source.first(), source.last()) else { return };
        let Some(target) = self.levels.get_mut(level - 1) else { return };
        let overlapped: Vec<u32> = target.overlapping(low, high).map(|(first, _)| first).collect();
        self.merged.clear();
        let mut rest = source;
        for first in overlapped {
            let Some(mut table) = target.take(first) else { continue };
            let until = rest.partition_point(|key| *key <= last_key(&table));
            let (here, beyond) = rest.split_at(until);
            self.merged.append_union(here, &table);
            rest = beyond;
            table.clear();
            self.spare.push(table);
        }
        self.merged.append(rest);
        self.count(level, self.merged.keys().len());
        self.cut(level);
        self.spare.truncate(64);
    }

    /// Makes the merged keys tables of `level`.
    fn cut(&mut self, level: usize) {
        let merged = std::mem::take(&mut self.merged);
        let mut rest = merged.keys();
        while !rest.is_empty() {
            let full = rest.get(..rest.len().min(self.table)).unwrap_or(rest);
            let len = match (self.grandparent_items, self.levels.get(level)) {
                (Some(limit), Some(grandparents)) => grandparents.within(full, limit),
                _ => full.len(),
            };
            let (keys, beyond) = rest.split_at(len);
            let mut table = self.spare.pop().unwrap_or_default();
            table.extend_from_slice(keys);
            self.put(level, table);
            rest = beyond;
        }
        self.merged = merged;
    }

    fn put(&mut self, level: usize, table: Vec<u32>) {
        if let Some(level) = level.checked_sub(1).and_then(|at| self.levels.get_mut(at)) {
            level.put(table);
        }
    }
}

/// More tables of `here` around the one from `low` to `high` that overlap nothing else of `below` than it
/// does.
///
/// At most 25 full tables take part, as in LevelDB.
fn expansion(here: &Level, below: &Level, low: u32, high: u32, table: usize) -> Vec<u32> {
    let range = |level: &Level, low: u32, high: u32| {
        level.overlapping(low, high).fold(None, |range: Option<(u32, u32, usize, usize)>, (first, table)| {
            let (start, _, tables, items) = range.unwrap_or((first, 0, 0, 0));
            Some((start, last_key(table), tables + 1, items + table.len()))
        })
    };
    let Some((start, end, count, items_below)) = range(below, low, high) else { return Vec::new() };
    let Some((wide_low, wide_high, wider, items)) = range(here, start.min(low), end.max(high)) else {
        return Vec::new();
    };
    if wider <= 1 || items + items_below >= 25 * table {
        return Vec::new();
    }
    match range(below, wide_low, wide_high) {
        Some((_, _, same, _)) if same == count => here
            .overlapping(wide_low, wide_high)
            .map(|(first, _)| first)
            .filter(|first| *first != low)
            .collect(),
        _ => Vec::new(),
    }
}
