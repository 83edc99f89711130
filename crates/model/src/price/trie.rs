//! A store as sizes, filled flush by flush under the engine's own planner.
//!
//! A region here stands for all of its level that are in its phase. Of a new region's children some are
//! followed, with phases as far apart as can be, and their weights say for how many of the level each
//! stands. So a store of 10^9 items takes some hundred regions, whatever its levels hold.
//!
//! A run stands for the puts that it took: a share of the items as they were first put, and so many
//! overwrites. Merging runs adds up both, and `Unique` says how many distinct items that makes (Lim et al.,
//! FAST 2016, §3.4), as digests are independent of how popular a key is.

use super::layout::{Layout, RunSize};
use super::workload::Workload;
use crate::{Direct, ModelError, Popularity, Primitives};
use siltstone_design::plan::plan;
use siltstone_design::{Design, RegionShape, RunShape, Shape, Task, TriePath};

/// Regions that are followed of a level, about.
const FOLLOWED: usize = 32;
/// Most flushes that are followed; a workload of more is refused rather than taking minutes.
const MOST_FLUSHES: f64 = 4e6;
/// The golden section, which spreads phases evenly however many are taken.
const GOLDEN: f64 = 0.618_033_988_749_895;
/// Levels behind the store's own on which the shape shows what followed regions stand for.
const REST_LEVELS: usize = 2;

/// The puts that a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Puts {
    /// Share of all items whose first put is among them.
    pub first: f64,
    /// Overwrites among them, of the whole store.
    pub overwrites: f64,
}

impl Puts {
    pub fn and(self, other: Self) -> Self {
        Self { first: (self.first + other.first).min(1.0), overwrites: self.overwrites + other.overwrites }
    }
}

/// A region that is followed.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub shape: RegionShape,
    /// What its runs took, the newest first, beside the shape's.
    pub puts: Vec<Puts>,
    /// For how many regions of its level it stands.
    pub weight: f64,
    /// Those below it that are followed, by their places in the next level.
    pub children: Vec<usize>,
}

impl Region {
    fn new(path: TriePath, weight: f64) -> Self {
        let shape = RegionShape { path, ..RegionShape::default() };
        Self { shape, puts: Vec::new(), weight, children: Vec::new() }
    }

    /// The share of all digests that it and those it stands for hold.
    pub fn digest_share(&self) -> f64 {
        self.weight * 0.5f64.powi(i32::from(self.shape.path.depth()))
    }
}

/// Bytes on disk over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Space {
    sum: f64,
    samples: f64,
    pub peak_bytes: f64,
}

impl Space {
    fn note(&mut self, bytes: f64) {
        self.sum += bytes;
        self.samples += 1.0;
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    pub fn mean_bytes(&self) -> f64 {
        self.sum / self.samples.max(1.0)
    }
}

/// A store as sizes.
pub(super) struct Trie<'a> {
    layout: &'a Layout,
    design: &'a Design,
    items: f64,
    overwritten: Option<Direct>,
    /// Regions that are followed, by level.
    pub levels: Vec<Vec<Region>>,
    /// Bytes written into each level.
    pub written: Vec<f64>,
    /// Space while items are overwritten; while they are put, where none are.
    pub space: Space,
}

impl<'a> Trie<'a> {
    /// The store after all puts of `workload`.
    pub fn filled(design: &'a Design, workload: &Workload, layout: &'a Layout) -> Result<Self, ModelError> {
        let flushes = (workload.items + workload.overwrites) / layout.write_buffer_puts();
        if flushes > MOST_FLUSHES {
            let given = format!(
                "{:.0} given, which are {flushes:.0} flushes of the design's write buffer",
                workload.items
            );
            return Err(ModelError::new("items", format!("{given}; give fewer, or a larger write buffer")));
        }
        let overwritten = (workload.overwrites > 0.0)
            .then(|| Popularity::zipf(workload.items.ceil() as u64, workload.skew))
            .transpose()?;
        let depth = design.depth(0);
        let root = |n: u64| Region::new(TriePath::of(n.rotate_right(u32::from(depth)), depth), 1.0);
        let mut trie = Self {
            layout,
            design,
            items: workload.items,
            overwritten: overwritten.as_ref().map(Direct::new),
            levels: vec![(0..1u64 << depth).map(root).collect()],
            written: vec![0.0],
            space: Space::default(),
        };
        trie.take(workload.items, |puts| Puts { first: puts / workload.items, overwrites: 0.0 });
        if workload.overwrites > 0.0 {
            trie.space = Space::default();
            trie.take(workload.overwrites, |puts| Puts { first: 0.0, overwrites: puts });
        }
        Ok(trie)
    }

    /// Takes so many puts, which are of the kind that `kind` makes.
    fn take(&mut self, puts: f64, kind: impl Fn(f64) -> Puts) {
        let at_once = self.layout.write_buffer_puts();
        let mut left = puts;
        while left > 0.5 {
            let now = at_once.min(left);
            left -= now;
            for region in 0..self.levels.first().map_or(0, Vec::len) {
                self.deliver(0, region, kind(now));
            }
            while let Some(task) = plan(self.design, &*self) {
                self.execute(&task);
            }
            self.space.note(self.bytes());
        }
    }

    /// The share of all items that are among `puts`.
    pub fn density(&self, puts: Puts) -> f64 {
        let untouched =
            self.overwritten.as_ref().map_or(1.0, |items| 1.0 - items.unique(puts.overwrites) / self.items);
        1.0 - (1.0 - puts.first) * untouched
    }

    /// The size of a run that took `puts` in a region of `level`.
    pub fn run_size(&self, level: usize, region: &Region, puts: Puts) -> RunSize {
        let density = self.density(puts);
        let share = 0.5f64.powi(i32::from(region.shape.path.depth()));
        let has_children = !region.children.is_empty();
        RunSize { level, has_children, entries: self.items * share * density, density }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> f64 {
        let regions = self.levels.iter().flatten();
        regions.map(|region| region.weight * region.shape.bytes() as f64).sum()
    }

    #[expect(clippy::indexing_slicing, reason = "a region that is followed is so for good")]
    fn region(&self, level: usize, number: usize) -> &Region {
        &self.levels[level][number]
    }

    #[expect(clippy::indexing_slicing, reason = "a region that is followed is so for good")]
    fn region_mut(&mut self, level: usize, number: usize) -> &mut Region {
        &mut self.levels[level][number]
    }

    /// Gives a region another run, or merges it with the one that is there.
    fn deliver(&mut self, level: usize, number: usize, puts: Puts) {
        let is_leveled = level > 0 && self.design.level(level).runs == 1;
        let region = self.region_mut(level, number);
        let resident = if is_leveled { region.puts.pop() } else { None };
        let puts = resident.map_or(puts, |resident| resident.and(puts));
        region.puts.insert(0, puts);
        self.note_run(level, number, is_leveled);
    }

    /// Shows the planner the newest run of a region, and counts it as written.
    fn note_run(&mut self, level: usize, number: usize, replaces_all: bool) {
        let region = self.region(level, number);
        let Some(&newest) = region.puts.first() else { return };
        let size = self.run_size(level, region, newest);
        let (bytes, weight) = (self.layout.run_bytes(&size), region.weight);
        let dead_bytes = self.dead_bytes(level, region);
        if let Some(written) = self.written.get_mut(level) {
            *written += bytes * weight;
        }
        let region = self.region_mut(level, number);
        if replaces_all {
            region.shape.runs.clear();
        }
        let run = RunShape { bytes: bytes as u64, entries: size.entries as u64 };
        region.shape.runs.insert(0, run);
        region.shape.dead_bytes = dead_bytes;
    }

    /// What merging the newest runs of a leaf would free, for each number of them.
    fn dead_bytes(&self, level: usize, region: &Region) -> Vec<u64> {
        let is_leaf = self.design.is_leaf(level, !region.children.is_empty());
        if !is_leaf || self.overwritten.is_none() {
            return vec![0; region.puts.len()];
        }
        let bytes = |puts: Puts| self.layout.run_bytes(&self.run_size(level, region, puts));
        let (mut merged, mut all) = (Puts::default(), 0.0);
        let dead = region.puts.iter().map(|&puts| {
            merged = merged.and(puts);
            all += bytes(puts);
            (all - bytes(merged)).max(0.0) as u64
        });
        dead.collect()
    }

    fn execute(&mut self, task: &Task) {
        let (level, path) = task.region();
        let regions = self.levels.get(level).into_iter().flatten();
        let number = regions.map(|region| region.shape.path).position(|at| at == path);
        let Some(number) = number else { return };
        match *task {
            Task::Push { runs, .. } | Task::Split { runs, .. } => self.push(level, number, runs),
            Task::Rewrite { newest, .. } => {
                let region = self.region_mut(level, number);
                let merged = region.puts.drain(..newest).fold(Puts::default(), Puts::and);
                region.shape.runs.drain(..newest);
                region.puts.insert(0, merged);
                self.note_run(level, number, false);
            }
        }
    }

    /// Merges the oldest runs of a region and partitions them among its children.
    fn push(&mut self, level: usize, number: usize, runs: usize) {
        self.add_children(level, number);
        let region = self.region_mut(level, number);
        let kept = region.puts.len().saturating_sub(runs);
        let merged = region.puts.split_off(kept).into_iter().fold(Puts::default(), Puts::and);
        region.shape.runs.truncate(kept);
        region.shape.pushes += 1;
        let children = region.children.clone();
        let dead_bytes = self.dead_bytes(level, self.region(level, number));
        self.region_mut(level, number).shape.dead_bytes = dead_bytes;
        for child in children {
            self.deliver(level + 1, child, merged);
        }
    }

    /// Begins to follow children of a region that has none.
    fn add_children(&mut self, level: usize, number: usize) {
        if self.levels.len() == level + 1 {
            self.levels.push(Vec::new());
            self.written.push(0.0);
        }
        let depth = self.design.depth(level + 1);
        let (peers, below) = (self.followed(level), self.followed(level + 1));
        let region = self.region_mut(level, number);
        if !region.children.is_empty() {
            return;
        }
        let all = 1usize << (depth - region.shape.path.depth());
        let followed = (FOLLOWED / peers.max(1)).clamp(1, all);
        region.shape.has_children = true;
        region.children = (below..below + followed).collect();
        let (weight, first) = (region.weight * all as f64 / followed as f64, region.shape.path.first());
        let fresh = (0..followed).map(|i| {
            let phase = (number as f64 * GOLDEN + i as f64 / followed as f64).fract();
            let child = (phase * all as f64) as u64;
            Region::new(TriePath::of(first | child << (64 - u32::from(depth)), depth), weight)
        });
        if let Some(regions) = self.levels.get_mut(level + 1) {
            regions.extend(fresh);
        }
    }

    /// How many regions of a level are followed.
    fn followed(&self, level: usize) -> usize {
        self.levels.get(level).map_or(0, Vec::len)
    }

    /// What followed regions stand for beside themselves, as one region that is a leaf or is not.
    fn rest(&self, of_leaves: bool) -> RegionShape {
        let (mut bytes, mut dead) = (0.0, 0.0);
        for (level, regions) in self.levels.iter().enumerate() {
            for region in regions {
                if self.design.is_leaf(level, region.shape.has_children) == of_leaves {
                    bytes += (region.weight - 1.0) * region.shape.bytes() as f64;
                    let garbage = region.shape.dead_bytes.last().copied().unwrap_or(0);
                    dead += (region.weight - 1.0) * garbage as f64;
                }
            }
        }
        RegionShape {
            runs: vec![RunShape { bytes: bytes as u64, ..RunShape::default() }],
            dead_bytes: vec![dead as u64],
            has_children: !of_leaves,
            ..RegionShape::default()
        }
    }

    /// The first of the levels that show the rest: below all that the design names, so that a region without
    /// children is a leaf there.
    fn rest_level(&self) -> usize {
        self.levels.len().max(self.design.levels.len())
    }
}

impl Shape for Trie<'_> {
    fn level_count(&self) -> usize {
        if self.design.pushes_early { self.rest_level() + REST_LEVELS } else { self.levels.len() }
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        if let Some(regions) = self.levels.get(level) {
            regions
                .iter()
                .filter(|region| !region.shape.runs.is_empty())
                .for_each(|region| visit(&region.shape));
        } else if level >= self.rest_level() {
            visit(&self.rest(level == self.rest_level()));
        }
    }

    fn is_busy(&self, level: usize, _: TriePath) -> bool {
        // Nothing is to be done about the rest.
        level >= self.rest_level()
    }
}
