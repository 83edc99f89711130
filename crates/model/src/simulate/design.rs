//! Item-level simulation of Siltstone's own designs: every run is the list of its keys' digests, and what to
//! do next is asked of [`siltstone_design::plan()`](siltstone_design::plan::plan), the function that runs the
//! engine.
//!
//! Digests are uniform whatever the popularity, so a key is a 32-bit digest. What overwrites what is exact,
//! and so is the garbage in a leaf, which the engine can only estimate from samples. In a leaf, a run's list
//! keeps only the keys that no younger run of the region holds; merging any number of the youngest runs then
//! merges disjoint lists, and what it would free is known without merging.
//!
//! The simulator in `crates/design/tests/flow` drives the same planner on counts alone: it reaches stores
//! of thousands of regions in a second but knows overwrites only as uniform.
//!
//! Invariants: a run's list ascends strictly and is not longer than the entries the planner is shown; in a
//! leaf the lists of a region are disjoint. Every task is carried out before the next memtable is flushed.

use super::keys::{Ranks, Sampler};
use super::protocol::{Load, Protocol};
use super::tables::{sort_distinct, subtract, union};
use crate::ModelError;
use crate::engines::{Cost, Step};
use siltstone_design::plan::{children, plan};
use siltstone_design::{Design, RegionShape, RunShape, Shape, Task, TriePath};
use std::collections::BTreeMap;

/// One level when the simulation ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelState {
    /// Regions with runs.
    pub regions: u64,
    /// Runs in all of them.
    pub runs: u64,
    /// Runs in the region with most.
    pub most_runs: u64,
    /// Entries, overwritten ones included.
    pub items: f64,
}

/// The store at one moment, all due work done.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Moment {
    /// Requests since the measurement began.
    pub requests: u64,
    /// Entries per distinct key.
    pub space_amplification: f64,
    /// Runs per region, of the regions that have any.
    pub runs_per_region: f64,
    /// Items that compaction wrote per request since the moment before.
    pub compacted_per_request: f64,
}

/// What a simulation of a design found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DesignMeasured {
    /// Write amplification by step: pushes from each level to the next, and rewrites from a level to itself.
    pub cost: Cost,
    /// Requests measured.
    pub requests: u64,
    /// Entries per distinct key: the mean over the flushes.
    pub space_amplification: f64,
    /// The most there were after any flush.
    pub most_space_amplification: f64,
    /// Every level, from the top, at the end.
    pub levels: Vec<LevelState>,
    /// About a hundred moments, evenly spaced.
    pub timeline: Vec<Moment>,
}

/// Runs `design` through `protocol` under requests as popular as `ranks` says, items being `item_bytes` long.
///
/// `progress` hears the requests done so far and those to do, about every memtable. [`Load::Sequential`]
/// loads every key once; its order means nothing here, since digests have none.
///
/// # Errors
/// If a parameter makes no store, or there are 2^32 keys or more.
///
/// ```
/// use siltstone_design::presets;
/// use siltstone_model::simulate::{Protocol, Ranks, simulate_design};
///
/// // Growth alone: every item is written once to the log and once a level, but for what is yet to sink.
/// let (ranks, protocol) = (Ranks::uniform(400_000)?, Protocol::growth(400_000));
/// let measured = simulate_design(&presets::stepped_merge(), 4096.0, &ranks, &protocol, &mut |_, _| {})?;
/// assert!((3.0..4.0).contains(&measured.cost.write_amplification));
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn simulate_design(
    design: &Design,
    item_bytes: f64,
    ranks: &Ranks,
    protocol: &Protocol,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<DesignMeasured, ModelError> {
    design.check().map_err(|error| ModelError::new("design", error.to_string()))?;
    ModelError::positive("item-bytes", item_bytes)?;
    protocol.check(ranks)?;
    let one_in = f64::from(protocol.miniature);
    let sampler = Sampler::new(ranks, protocol.miniature, protocol.seed).spread();
    let requests_per_memtable = design.write_buffer.items(item_bytes).ceil().max(1.0) as u64;
    let mut store = Store::new(design, item_bytes * one_in, sampler);
    if protocol.load == Load::Sequential {
        store.load((requests_per_memtable as f64 / one_in).ceil() as u32);
    }
    let mut books = Books::new(one_in, protocol.requests);
    let total = protocol.warm_up + protocol.requests;
    let mut done = 0;
    store.forget_written();
    while done < total {
        if done >= protocol.warm_up && books.requests == 0 {
            store.forget_written();
        }
        store.requests(requests_per_memtable);
        if done >= protocol.warm_up {
            books.note(&store, requests_per_memtable);
        }
        done += requests_per_memtable;
        progress(done.min(total), total);
    }
    Ok(books.close(&store))
}

/// A node of the trie with its runs.
#[derive(Debug, Default)]
struct Region {
    shape: RegionShape,
    /// Keys of the runs, newest first; in a leaf only those that no newer run holds.
    runs: Vec<Vec<u32>>,
}

struct Store<'a> {
    design: &'a Design,
    item_bytes: f64,
    sampler: Sampler,
    /// Which keys were ever written, by index.
    seen: Vec<u64>,
    distinct: u64,
    levels: Vec<BTreeMap<TriePath, Region>>,
    /// Items pushed into each level, and rewritten in it.
    pushed: Vec<u64>,
    rewritten: Vec<u64>,
    memtable: Vec<u32>,
    scratch: Vec<u32>,
}

impl Shape for Store<'_> {
    fn level_count(&self) -> usize {
        self.levels.len()
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        let regions = self.levels.get(level).into_iter().flat_map(BTreeMap::values);
        regions.filter(|region| !region.runs.is_empty()).for_each(|region| visit(&region.shape));
    }

    fn is_busy(&self, _: usize, _: TriePath) -> bool {
        false
    }
}

impl<'a> Store<'a> {
    fn new(design: &'a Design, item_bytes: f64, sampler: Sampler) -> Self {
        let words = (sampler.keys() as usize).div_ceil(64);
        Self {
            design,
            item_bytes,
            sampler,
            seen: vec![0; words],
            distinct: 0,
            levels: Vec::new(),
            pushed: Vec::new(),
            rewritten: Vec::new(),
            memtable: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Writes every key once, in an order that has nothing to do with the digests'.
    fn load(&mut self, keys_per_memtable: u32) {
        let keys = self.sampler.keys();
        for first in (0..keys).step_by(keys_per_memtable.max(1) as usize) {
            for index in first..first.saturating_add(keys_per_memtable).min(keys) {
                self.write(index);
            }
            self.flush();
        }
    }

    /// A memtable's worth of requests.
    fn requests(&mut self, requests: u64) {
        for _ in 0..self.sampler.kept_of(requests) {
            let index = self.sampler.draw_index();
            self.write(index);
        }
        self.flush();
    }

    fn write(&mut self, index: u32) {
        if let Some(word) = self.seen.get_mut(index as usize / 64) {
            let bit = 1 << (index % 64);
            self.distinct += u64::from(*word & bit == 0);
            *word |= bit;
        }
        self.memtable.push(self.sampler.key_at(index));
    }

    /// Makes the memtable a run of level 0 and does all work that makes due.
    fn flush(&mut self) {
        let mut keys = std::mem::take(&mut self.memtable);
        sort_distinct(&mut keys, &mut self.scratch, u32::BITS);
        let depth = self.design.depth(0);
        let top: Vec<TriePath> =
            (0..1u64 << depth).map(|n| TriePath::of(n.rotate_right(depth.into()), depth)).collect();
        self.deal(0, top, &keys);
        keys.clear();
        self.memtable = keys;
        while let Some(task) = plan(self.design, self) {
            self.execute(task);
        }
    }

    fn execute(&mut self, task: Task) {
        let (level, path) = task.region();
        let design = self.design;
        let Some(region) = self.levels.get_mut(level).and_then(|regions| regions.get_mut(&path)) else {
            return;
        };
        match task {
            Task::Push { runs, .. } | Task::Split { runs, .. } => {
                let moved = region.runs.split_off(region.runs.len().saturating_sub(runs));
                let kept = region.runs.len();
                region.shape.runs.truncate(kept);
                region.shape.pushes += 1;
                region.shape.has_children = true;
                region.shape.dead_bytes.clear();
                let targets = children(self.design, level, path).collect();
                self.deal(level + 1, targets, &union(&moved));
            }
            Task::Drop { oldest, .. } => {
                let kept = region.runs.len().saturating_sub(oldest);
                region.runs.truncate(kept);
                region.shape.runs.truncate(kept);
                region.shape.dead_bytes.truncate(kept);
            }
            Task::Rewrite { newest, .. } => {
                let older = region.runs.split_off(newest.min(region.runs.len()));
                let merged = union(&region.runs);
                if let Some(rewritten) = self.rewritten.get_mut(level) {
                    *rewritten += merged.len() as u64;
                }
                let run = self.item_bytes.run(merged.len());
                region.shape.runs.splice(..newest, [run]);
                region.runs = std::iter::once(merged).chain(older).collect();
                let is_leaf = design.is_leaf(level, region.shape.has_children);
                region.estimate_garbage(is_leaf, self.item_bytes);
            }
            Task::Gather { .. } => unreachable!("nothing is gathered while the design stays"),
        }
    }

    /// Hands ascending `keys` to the regions of `level` that they fall into.
    fn deal(&mut self, level: usize, regions: Vec<TriePath>, keys: &[u32]) {
        while self.levels.len() <= level {
            self.levels.push(BTreeMap::new());
            self.pushed.push(0);
            self.rewritten.push(0);
        }
        let mut rest = keys;
        for path in regions {
            let until = rest.partition_point(|key| u64::from(*key) << 32 <= path.last());
            let (share, beyond) = rest.split_at(until);
            rest = beyond;
            if !share.is_empty() {
                self.deliver(level, path, share);
            }
        }
    }

    /// Puts a run on a region's runs, or merges it with the run that is there.
    fn deliver(&mut self, level: usize, path: TriePath, keys: &[u32]) {
        let Some(regions) = self.levels.get_mut(level) else { return };
        let region = regions.entry(path).or_insert_with(|| Region {
            shape: RegionShape { path, ..RegionShape::default() },
            runs: Vec::new(),
        });
        let is_leaf = self.design.is_leaf(level, region.shape.has_children);
        let run = if level > 0 && self.design.level(level).runs == 1 {
            region.shape.runs.clear();
            region.runs.push(keys.to_vec());
            let merged = union(&region.runs);
            region.runs.clear();
            merged
        } else {
            if is_leaf {
                region.runs.iter_mut().for_each(|older| subtract(older, keys));
            }
            keys.to_vec()
        };
        if let Some(pushed) = self.pushed.get_mut(level) {
            *pushed += run.len() as u64;
        }
        region.shape.runs.insert(0, self.item_bytes.run(run.len()));
        region.runs.insert(0, run);
        region.estimate_garbage(is_leaf, self.item_bytes);
    }

    fn forget_written(&mut self) {
        self.pushed.fill(0);
        self.rewritten.fill(0);
    }

    /// Items that compaction wrote.
    fn compacted(&self) -> u64 {
        self.pushed.iter().skip(1).chain(&self.rewritten).sum()
    }

    fn level_states(&self) -> impl Iterator<Item = LevelState> {
        self.levels.iter().map(|regions| {
            let piles = || regions.values().map(|region| &region.shape.runs).filter(|runs| !runs.is_empty());
            LevelState {
                regions: piles().count() as u64,
                runs: piles().map(|runs| runs.len() as u64).sum(),
                most_runs: piles().map(|runs| runs.len() as u64).max().unwrap_or(0),
                items: piles().flatten().map(|run| run.entries as f64).sum(),
            }
        })
    }
}

impl Region {
    /// What merging the newest runs would free, as far as the planner is told.
    fn estimate_garbage(&mut self, is_leaf: bool, item_bytes: f64) {
        if !is_leaf {
            return;
        }
        let mut dead = 0;
        let dead_bytes = self.shape.runs.iter().zip(&self.runs).map(|(run, live)| {
            dead += run.entries - live.len() as u64;
            (dead as f64 * item_bytes).round() as u64
        });
        self.shape.dead_bytes = dead_bytes.collect();
    }
}

/// What a run of so many items of a size looks like.
trait ItemBytes {
    fn run(self, entries: usize) -> RunShape;
}

impl ItemBytes for f64 {
    fn run(self, entries: usize) -> RunShape {
        let bytes = (self * entries as f64).round() as u64;
        RunShape { bytes, entries: entries as u64, ..RunShape::default() }
    }
}

/// What is measured while it goes on.
struct Books {
    one_in: f64,
    requests: u64,
    flushes: u64,
    space_sum: f64,
    most_space: f64,
    moment_every: u64,
    compacted: u64,
    timeline: Vec<Moment>,
}

impl Books {
    fn new(one_in: f64, requests: u64) -> Self {
        Self {
            one_in,
            requests: 0,
            flushes: 0,
            space_sum: 0.0,
            most_space: 0.0,
            moment_every: requests.div_ceil(100),
            compacted: 0,
            timeline: Vec::new(),
        }
    }

    fn note(&mut self, store: &Store<'_>, requests: u64) {
        self.requests += requests;
        self.flushes += 1;
        let states = || store.level_states();
        let space = states().map(|level| level.items).sum::<f64>() / store.distinct.max(1) as f64;
        self.space_sum += space;
        self.most_space = self.most_space.max(space);
        let last = self.timeline.last().map_or(0, |moment| moment.requests);
        if self.requests - last >= self.moment_every {
            let (runs, regions) =
                states().fold((0, 0), |(runs, regions), l| (runs + l.runs, regions + l.regions));
            let compacted = store.compacted();
            let written = (compacted - self.compacted) as f64 * self.one_in;
            self.compacted = compacted;
            self.timeline.push(Moment {
                requests: self.requests,
                space_amplification: space,
                runs_per_region: runs as f64 / regions.max(1) as f64,
                compacted_per_request: written / (self.requests - last) as f64,
            });
        }
    }

    fn close(self, store: &Store<'_>) -> DesignMeasured {
        let per_request = |items: u64| items as f64 * self.one_in / self.requests as f64;
        let mut steps = vec![Step::new("memtable", "log", 1.0)];
        for (level, (&pushed, &rewritten)) in store.pushed.iter().zip(&store.rewritten).enumerate() {
            steps.push(match level {
                0 => Step::new("memtable", "level-0", per_request(pushed)),
                _ => Step::between_levels(level - 1, per_request(pushed)),
            });
            if rewritten > 0 {
                let name = format!("level-{level}");
                steps.push(Step::new(name.clone(), name, per_request(rewritten)));
            }
        }
        let scaled = |level: LevelState| LevelState { items: level.items * self.one_in, ..level };
        DesignMeasured {
            cost: Cost::new(steps, Vec::new(), Vec::new()),
            requests: self.requests,
            space_amplification: self.space_sum / self.flushes as f64,
            most_space_amplification: self.most_space,
            levels: store.level_states().map(scaled).collect(),
            timeline: self.timeline,
        }
    }
}
