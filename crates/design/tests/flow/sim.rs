//! The simulator: a store that knows no keys.
//!
//! Where items are new, a merge adds up bytes. Where they overwrite one another,
//! every run is a uniform sample of a fixed population, so the union of runs holding shares f1, f2, .. of a
//! region's items holds 1 − (1 − f1)(1 − f2).. of them, and what a newer run makes dead is known without
//! looking. Digests are uniform, so a push deals equal parts to all children, unless `hot` sends everything
//! down one path.

use siltstone_design::plan::{children, plan};
use siltstone_design::{Design, RegionShape, RunShape, Shape, Task, TriePath, WriteBufferSpec};
use std::collections::{BTreeMap, HashSet};

/// A store that exists only as sizes.
pub struct Sim {
    pub design: Design,
    pub levels: Vec<BTreeMap<TriePath, RegionShape>>,
    pub busy: HashSet<(usize, TriePath)>,
    /// Bytes of all distinct items, where writes overwrite them at random; otherwise every item is new.
    pub population: Option<u64>,
    /// The one path that everything goes down.
    pub hot: Option<u64>,
    /// Whether what goes down it is known to be one group of keys.
    pub one_group: bool,
    /// Whether regions start as if they had pushed before, which switches their phases off.
    pub in_step: bool,
    /// Bytes written into each level.
    pub written: Vec<u64>,
    /// Bytes that left each level for the one below.
    pub left: Vec<u64>,
    /// Bytes written by rewrites, per level.
    pub rewritten: Vec<u64>,
    pub flushed: u64,
    pub tasks: u64,
}

impl Shape for Sim {
    fn level_count(&self) -> usize {
        self.levels.len()
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        self.levels[level].values().filter(|region| !region.runs.is_empty()).for_each(visit);
    }

    fn is_busy(&self, level: usize, path: TriePath) -> bool {
        self.busy.contains(&(level, path))
    }
}

/// Bytes of one flush, where items of a log store have 250.
pub fn flush_bytes(design: &Design) -> u64 {
    match design.write_buffer {
        WriteBufferSpec::MemTable { bytes } => bytes,
        WriteBufferSpec::LogStore { .. } => design.write_buffer.items(1.0) as u64 * 250,
    }
}

impl Sim {
    pub fn new(design: Design) -> Self {
        design.check().unwrap();
        Self {
            design,
            levels: Vec::new(),
            busy: HashSet::new(),
            population: None,
            hot: None,
            one_group: false,
            in_step: false,
            written: Vec::new(),
            left: Vec::new(),
            rewritten: Vec::new(),
            flushed: 0,
            tasks: 0,
        }
    }

    /// Distinct bytes in the region's share of the digest space.
    pub fn distinct(&self, path: TriePath) -> f64 {
        self.population.map_or(f64::INFINITY, |all| all as f64 / 2f64.powi(i32::from(path.depth())))
    }

    /// Bytes that remain of runs of these sizes when they are merged.
    pub fn union(&self, path: TriePath, runs: impl Iterator<Item = u64>) -> u64 {
        let distinct = self.distinct(path);
        if distinct.is_infinite() {
            return runs.sum();
        }
        let missing: f64 = runs.map(|bytes| 1.0 - (bytes as f64 / distinct).min(1.0)).product();
        (distinct * (1.0 - missing)).round() as u64
    }

    /// Puts a run on a region's runs, or merges it with the run that is there, and keeps the books.
    pub fn deliver(&mut self, level: usize, path: TriePath, bytes: u64) {
        while self.levels.len() <= level {
            self.levels.push(BTreeMap::new());
            self.written.push(0);
            self.left.push(0);
            self.rewritten.push(0);
        }
        let pushes = u64::from(self.in_step);
        let fresh = || RegionShape { path, pushes, ..RegionShape::default() };
        let resident = self.levels[level].entry(path).or_insert_with(fresh).runs.first().copied();
        let leveled = level > 0 && self.design.level(level).runs == 1;
        if bytes > 0 {
            let merged = if leveled {
                self.union(path, resident.into_iter().map(|run| run.bytes).chain([bytes]))
            } else {
                bytes
            };
            self.written[level] += merged;
            let run = RunShape { bytes: merged, entries: merged / 128 + 1, ..RunShape::default() };
            let region = self.levels[level].get_mut(&path).unwrap();
            if leveled {
                region.runs.clear();
            }
            region.runs.insert(0, run);
        }
        self.refresh(level, path);
    }

    /// Recomputes what depends on a region's runs.
    pub fn refresh(&mut self, level: usize, path: TriePath) {
        let has_children = self.levels.get(level + 1).is_some_and(|below| {
            below
                .range(TriePath::of(path.first(), path.depth())..)
                .next()
                .is_some_and(|(p, _)| path.covers(*p))
        });
        let is_leaf = self.design.is_leaf(level, has_children);
        let region = &self.levels[level][&path];
        let sizes: Vec<u64> = region.runs.iter().map(|run| run.bytes).collect();
        let dead = (0..sizes.len()).map(|k| {
            let young = || sizes[..=k].iter().copied();
            if is_leaf { young().sum::<u64>().saturating_sub(self.union(path, young())) } else { 0 }
        });
        let dead_bytes = dead.collect();
        let region = self.levels[level].get_mut(&path).unwrap();
        region.has_children = has_children;
        region.largest_group_bytes = if self.one_group { region.bytes() } else { 0 };
        region.dead_bytes = dead_bytes;
    }

    /// Deals `bytes` out to `targets` as digests would fall.
    pub fn deal(&mut self, level: usize, targets: &[TriePath], bytes: u64) {
        let count = targets.len() as u64;
        for (i, &path) in (0u64..).zip(targets) {
            let share = match self.hot {
                Some(hi) => u64::from(path.contains(hi)) * bytes,
                None => bytes / count + u64::from(i < bytes % count),
            };
            self.deliver(level, path, share);
        }
    }

    /// A memtable of `bytes` becomes a run of level 0.
    pub fn flush(&mut self, bytes: u64) {
        let depth = self.design.depth(0);
        let regions: Vec<_> =
            (0..1u64 << depth).map(|n| TriePath::of(n.rotate_right(u32::from(depth)), depth)).collect();
        self.flushed += bytes;
        self.deal(0, &regions, bytes);
    }

    /// The next task, checked against what a planner may ask for.
    pub fn plan(&self) -> Option<Task> {
        let task = plan(&self.design, self);
        let (level, path) = task?.region();
        assert!(!self.is_busy(level, path), "busy: {task:?}");
        let region = self.levels.get(level).and_then(|l| l.get(&path)).unwrap_or_else(|| panic!("{task:?}"));
        match task? {
            Task::Push { runs, .. } => {
                assert_eq!(runs, region.runs.len());
                let leveled = self.design.level(level + 1).runs == 1;
                let busy = children(&self.design, level, path).any(|child| self.is_busy(level + 1, child));
                assert!(!(leveled && busy), "a leveled child is busy: {task:?}");
            }
            Task::Split { runs, .. } => {
                assert_eq!(runs, region.runs.len());
                assert!(!self.one_group, "a group can't be divided: {task:?}");
                assert!(self.design.is_leaf(level, region.has_children), "no leaf: {task:?}");
                assert!(children(&self.design, level, path).count() > 1, "nothing to split into: {task:?}");
            }
            Task::Rewrite { newest, .. } => {
                assert!((1..=region.runs.len()).contains(&newest), "{task:?}");
                assert!(newest > 1 || region.dead_bytes[0] > 0, "rewrites one run for nothing: {task:?}");
            }
            Task::Gather { .. } => panic!("nothing is gathered while the design stays: {task:?}"),
            Task::Drop { .. } => unreachable!("nothing expires: {task:?}"),
        }
        task
    }

    pub fn execute(&mut self, task: Task) {
        self.tasks += 1;
        let (level, path) = task.region();
        let region = self.levels[level].get_mut(&path).unwrap();
        match task {
            Task::Push { runs, .. } | Task::Split { runs, .. } => {
                let moved = region.runs.split_off(region.runs.len() - runs);
                region.pushes += 1;
                let bytes = self.union(path, moved.iter().map(|run| run.bytes));
                self.left[level] += bytes;
                let targets: Vec<_> = children(&self.design, level, path).collect();
                self.deal(level + 1, &targets, bytes);
            }
            Task::Drop { .. } => unreachable!("nothing expires"),
            Task::Rewrite { newest, .. } => {
                let old = region.runs.split_off(newest);
                let young = std::mem::replace(&mut region.runs, old);
                let bytes = self.union(path, young.iter().map(|run| run.bytes));
                self.written[level] += bytes;
                self.rewritten[level] += bytes;
                let run = RunShape { bytes, entries: bytes / 128 + 1, ..RunShape::default() };
                self.levels[level].get_mut(&path).unwrap().runs.insert(0, run);
            }
            Task::Gather { .. } => panic!("nothing is gathered while the design stays: {task:?}"),
        }
        self.refresh(level, path);
    }

    /// Works until nothing is due; `None` if that takes more than `at_most` tasks.
    pub fn settle(&mut self, at_most: usize) -> Option<Vec<Task>> {
        let mut done = Vec::new();
        while let Some(task) = self.plan() {
            if done.len() == at_most {
                return None;
            }
            self.execute(task);
            done.push(task);
        }
        Some(done)
    }

    /// A flush and all the work it makes due; the bytes that work wrote.
    pub fn tick(&mut self) -> u64 {
        self.flush(flush_bytes(&self.design));
        let before: u64 = self.written.iter().sum();
        self.settle(100_000).expect("work ends");
        self.written.iter().sum::<u64>() - before
    }

    pub fn total_written(&self) -> u64 {
        self.written.iter().sum()
    }

    pub fn bytes_in(&self, level: usize) -> u64 {
        self.levels[level].values().map(RegionShape::bytes).sum()
    }

    pub fn bytes(&self) -> u64 {
        (0..self.levels.len()).map(|level| self.bytes_in(level)).sum()
    }

    pub fn regions(&self) -> Vec<(usize, TriePath)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, regions)| regions.keys().map(move |path| (level, *path))).collect()
    }
}
