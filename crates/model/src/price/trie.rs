//! A store as sizes, filled flush by flush under the engine's own planner.
//!
//! A region here stands for all of its level that are in its phase. Of a new region's children some are
//! followed, with phases as far apart as can be, and their weights say for how many of the level each
//! stands. So a store of 10^9 items takes some hundred regions, whatever its levels hold.
//!
//! A run stands for the puts that it took ([`Puts`]).

mod moments;
mod rest;
mod shape;

pub(super) use moments::Moment;

use super::layout::{Layout, RunSize};
use super::puts::{Keys, Puts};
use super::workload::Workload;
use super::written::{Apart, Space, Written};
use crate::ModelError;
use rest::Unrest;
use shape::Held;
use siltstone_design::{Design, RegionShape, RunShape, Task, TriePath};
use std::ops::Range;

/// Most flushes that are followed; a workload of more is refused rather than taking minutes.
const MOST_FLUSHES: f64 = 4e6;
/// Flushes from which on a rough price takes several of a fill at once.
const MANY_FLUSHES: f64 = 500.0;
/// What a flush takes beside what is looked at after it, in regions that are looked at; what it takes more
/// where some items are changed more often than others, and for each further size of values.
const LOOKED_AT_PER_FLUSH: f64 = 8.0;
const LOOKED_AT_FOR_SKEW: f64 = 8.0;
const LOOKED_AT_PER_SIZE: f64 = 4.0;
/// What an estimate of garbage takes, in the same.
const LOOKED_AT_PER_ESTIMATE: f64 = 3.0;
/// The golden section, which spreads phases evenly however many are taken.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// A region that is followed.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub shape: RegionShape,
    /// What its runs took, the newest first, beside the shape's.
    pub puts: Vec<Puts>,
    /// For how many regions of its level it stands.
    pub weight: f64,
    /// Those below it that are followed, by their places in the next level.
    pub children: Range<usize>,
    /// The runs that came since it was last pushed; none where it has been merged in place since, as leaves
    /// are for their garbage: joins would only have spared that.
    apart: Option<Apart>,
    /// Its place among those that have changed since the store came to rest.
    changed_at: Option<usize>,
    /// The space that was counted of it, where space counts.
    held: Held,
}

impl Region {
    fn new(path: TriePath, weight: f64) -> Self {
        let shape = RegionShape { path, ..RegionShape::default() };
        Self {
            shape,
            puts: Vec::new(),
            weight,
            children: 0..0,
            apart: Some(Apart::default()),
            changed_at: None,
            held: Held::default(),
        }
    }

    /// The share of all digests that it and those it stands for hold.
    pub fn digest_share(&self) -> f64 {
        self.weight * 0.5f64.powi(i32::from(self.shape.path.depth()))
    }
}

/// How closely a store is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Regions that are followed of a level, about.
    pub followed: usize,
    /// Flushes of the fill that are taken for one where each item is changed afterwards: changes leave little
    /// of what it was like.
    pub fill_at_once: f64,
    /// Moments at which the store is looked at, of which the last is the end.
    pub moments: usize,
    /// Regions that may be looked at for what there is to do.
    pub most_looked_at: f64,
}

/// A store as sizes.
#[derive(Debug)]
pub(super) struct Trie {
    layout: Layout,
    items: f64,
    keys: Keys,
    /// Regions that are followed of a level, about.
    most_followed: usize,
    /// Puts so far.
    now: f64,
    /// Regions that are followed, by level.
    pub levels: Vec<Vec<Region>>,
    /// The same at some moments before the end, and how many puts there were.
    before: Vec<(f64, Vec<Vec<Region>>)>,
    /// What the write buffer holds at each of them that gets read from the log; nothing where only the end is
    /// looked at, when it has been flushed.
    logged: Option<Puts>,
    /// What the last flush took, the size of its run and its bytes.
    flushed: Option<([f64; 2], RunSize, f64)>,
    /// The space that it takes, where space counts, and whether it was crowded when it last came to rest.
    held: Held,
    was_crowded: bool,
    unrest: Unrest,
    /// Regions that were looked at for what there is to do, so far, and how many may be.
    looked_at: f64,
    most_looked_at: f64,
    /// What was written into each level.
    pub written: Vec<Written>,
    /// The same before anything was changed.
    pub written_by_inserts: Vec<Written>,
    /// Space while items are changed; while they are put, where none are.
    pub space: Space,
}

impl Trie {
    /// The store after all puts of `workload`.
    ///
    /// # Errors
    /// A design that would be followed for too long.
    pub fn filled(
        design: &Design,
        workload: &Workload,
        keys: &Keys,
        Effort { followed, fill_at_once, moments, most_looked_at }: Effort,
    ) -> Result<Self, ModelError> {
        let layout = Layout::new(design, workload);
        let flushes = (workload.items + workload.changes()) / layout.write_buffer_puts();
        if flushes > MOST_FLUSHES {
            let given = format!(
                "{:.0} given, which are {flushes:.0} flushes of the design's write buffer with all overwrites",
                workload.items
            );
            let how = format!("give fewer: {MOST_FLUSHES:.0} flushes can be followed");
            return Err(ModelError::new("items", format!("{given}; {how}")));
        }
        let depth = design.depth(0);
        let root = |n: u64| Region::new(TriePath::of(n.rotate_right(u32::from(depth)), depth), 1.0);
        let mut trie = Self {
            layout,
            items: workload.items,
            keys: keys.clone(),
            most_followed: followed,
            now: 0.0,
            levels: vec![(0..1u64 << depth).map(root).collect()],
            before: Vec::new(),
            logged: None,
            flushed: None,
            held: Held::default(),
            was_crowded: true,
            unrest: Unrest::default(),
            looked_at: 0.0,
            most_looked_at,
            written: vec![Written::default()],
            written_by_inserts: Vec::new(),
            space: Space::default(),
        };
        let at_once = trie.layout.write_buffer_puts();
        let first = |puts, made| Puts::first(puts / workload.items, made);
        let moments_of_fill = if workload.changes() > 0.0 { 1 } else { moments };
        let is_coarse = workload.is_changed_throughout() && flushes > MANY_FLUSHES;
        let fill_at_once = if is_coarse { fill_at_once } else { 1.0 };
        trie.take(workload.items, at_once * fill_at_once, moments_of_fill, first)?;
        trie.written_by_inserts = trie.written.clone();
        // What merges do to changes says nothing of what was put before.
        let apart = trie.levels.iter_mut().flatten().filter_map(|region| region.apart.as_mut());
        apart.for_each(|apart| *apart = Apart::default());
        if workload.changes() > 0.0 {
            trie.space = Space::default();
            let overwrites = trie.layout.overwrites_in_write_buffer();
            let at_once = if overwrites { trie.keys.changes_touching(at_once) } else { at_once };
            trie.take(workload.changes(), at_once, moments, Puts::changes)?;
        }
        trie.logged = if moments > 1 { trie.half_a_log_store() } else { None };
        Ok(trie)
    }

    /// What was written into each level after all items were there.
    pub fn written_by_changes(&self) -> Vec<Written> {
        let before = self.written_by_inserts.iter().copied().chain(std::iter::repeat(Written::default()));
        self.written.iter().zip(before).map(|(after, before)| after.since(&before)).collect()
    }

    /// Regions that were looked at for what there was to do.
    pub fn looked_at(&self) -> f64 {
        self.looked_at
    }

    /// How entries lie in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn design(&self) -> &Design {
        self.layout.design()
    }

    /// Takes so many puts, some `at_once`, which are of the kind that `kind` makes, and looks at itself at so
    /// many moments.
    fn take(
        &mut self,
        puts: f64,
        at_once: f64,
        moments: usize,
        kind: impl Fn(f64, (f64, f64)) -> Puts,
    ) -> Result<(), ModelError> {
        let mut moments: Vec<f64> =
            self.flushes_before_end(moments, at_once, puts).map(|flushes| flushes * at_once).collect();
        moments.sort_unstable_by(f64::total_cmp);
        let (mut left, mut bytes) = (puts, self.bytes());
        let for_skew = if self.keys.are_skewed() { LOOKED_AT_FOR_SKEW } else { 0.0 };
        let further_sizes = self.layout.workload().value_sizes().skip(1).count();
        let per_flush = LOOKED_AT_PER_FLUSH + for_skew + further_sizes as f64 * LOOKED_AT_PER_SIZE;
        self.check_work(puts / at_once * per_flush)?;
        while left > 0.5 {
            let now = at_once.min(left);
            left -= now;
            let made = (self.now, self.now + now);
            self.now += now;
            for region in 0..self.levels.first().map_or(0, Vec::len) {
                self.deliver(0, region, kind(now, made), 1);
            }
            self.looked_at += per_flush;
            self.check_work(0.0)?;
            // What a flush leaves short of level 0's limits gives nothing to do, which the planner need
            // not be asked.
            if self.may_be_due() {
                self.come_to_rest()?;
                bytes = self.bytes();
            } else {
                let newest = |region: &Region| region.shape.runs.first().map_or(0, |run| run.bytes);
                let flushed = self.levels.first().into_iter().flatten().map(newest);
                bytes += flushed.sum::<u64>() as f64;
            }
            self.space.note(bytes);
            while left > 0.5 && moments.pop_if(|moment| left <= *moment + 0.5).is_some() {
                self.before.push((self.now, self.levels.clone()));
            }
        }
        Ok(())
    }

    /// Refuses to look at so many regions more, if these are too many.
    fn check_work(&self, more: f64) -> Result<(), ModelError> {
        if self.looked_at + more > self.most_looked_at {
            return Err(ModelError::new("design", "it takes too long to follow".to_owned()));
        }
        Ok(())
    }

    /// Whether items ever expire.
    pub fn expires(&self) -> bool {
        self.keys.expire()
    }

    /// The share of the items among `puts` that have not expired after `now` puts.
    pub fn unexpired(&self, puts: Puts, now: f64) -> f64 {
        self.keys.unexpired(puts, now)
    }

    /// The share of all items that are among `puts`.
    pub fn met(&self, puts: Puts) -> f64 {
        self.keys.met(puts)
    }

    /// How many items are there at the end.
    pub fn live_items(&self) -> f64 {
        self.keys.live_items((self.now - self.items).max(0.0))
    }

    /// The size of a run that took `puts` in a region of `level`.
    pub fn run_size(&self, level: usize, region: &Region, puts: Puts) -> RunSize {
        let (density, tombstones) = self.keys.held(puts);
        let share = 0.5f64.powi(i32::from(region.shape.path.depth()));
        let has_children = !region.children.is_empty();
        RunSize { level, has_children, entries: self.items * share * density, density, tombstones }
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
    fn deliver(&mut self, level: usize, number: usize, puts: Puts, sources: usize) {
        let is_leveled = level > 0 && self.design().level(level).runs == 1;
        let region = self.region_mut(level, number);
        let resident = if is_leveled { region.puts.pop() } else { None };
        if resident.is_some() {
            let bytes = region.shape.bytes() as f64 * region.weight;
            self.note_read(level, bytes);
        }
        let merged = resident.map_or(puts, |resident| resident.and(puts));
        let sources = sources + usize::from(resident.is_some());
        let before = self.written.get(level).copied().unwrap_or_default();
        // A flush keeps what it got.
        if level == 0 {
            self.add_run(level, number, merged, sources);
        } else {
            self.add_merged(level, number, merged, sources);
        }
        if resident.is_none() {
            self.note_apart(level, number, &before);
        }
    }

    /// Counts what was written into a region of a level since `before` as apart, if the region merges nothing
    /// in place.
    fn note_apart(&mut self, level: usize, number: usize, before: &Written) {
        let (regions, written) = (self.levels.get_mut(level), self.written.get_mut(level));
        let region = regions.and_then(|regions| regions.get_mut(number));
        if let (Some(apart), Some(written)) = (region.and_then(|region| region.apart.as_mut()), written) {
            let came = Apart { bytes: written.bytes - before.bytes, runs: written.runs - before.runs };
            *apart = apart.and(came);
            written.apart = written.apart.and(came);
        }
    }

    /// Makes what a compaction merged the newest run of a region: without garbage, where nothing older lies
    /// there or below.
    fn add_merged(&mut self, level: usize, number: usize, puts: Puts, sources: usize) {
        let region = self.region(level, number);
        let is_last = region.puts.is_empty() && region.children.is_empty();
        let kept = if is_last { puts.reclaimed(&self.keys, self.now) } else { puts };
        self.add_run(level, number, kept, sources);
    }

    /// Makes a run the newest of a region.
    fn add_run(&mut self, level: usize, number: usize, puts: Puts, sources: usize) {
        let region = self.region_mut(level, number);
        let replaces_all = region.puts.is_empty();
        region.puts.insert(0, puts);
        self.note_run(level, number, replaces_all, sources);
    }

    /// The size of a run that took `puts` in a region of `level`, and its bytes: known of the last flush, as
    /// all of them are alike.
    fn newest_size(&self, level: usize, region: &Region, puts: Puts) -> (RunSize, f64) {
        match self.flushed {
            Some((took, size, bytes))
                if level == 0
                    && puts.as_flushed() == Some(took)
                    && size.has_children != region.children.is_empty() =>
            {
                (size, bytes)
            }
            _ => {
                let size = self.run_size(level, region, puts);
                (size, self.layout.run_bytes(&size))
            }
        }
    }

    fn note_read(&mut self, level: usize, bytes: f64) {
        if let Some(written) = self.written.get_mut(level) {
            written.read_bytes += bytes;
        }
    }

    /// Shows the planner the newest run of a region, and counts it as written.
    fn note_run(&mut self, level: usize, number: usize, replaces_all: bool, sources: usize) {
        let region = self.region(level, number);
        let Some(&newest) = region.puts.first() else { return };
        let (size, bytes) = self.newest_size(level, region, newest);
        let weight = region.weight;
        if level == 0 {
            self.flushed = newest.as_flushed().map(|took| (took, size, bytes));
        }
        let present = size.entries * self.share_in_older(level, number);
        if let Some(written) = self.written.get_mut(level) {
            written.bytes += bytes * weight;
            written.entries += size.entries * weight;
            written.runs += weight;
            written.present += present * weight;
            written.compared += size.entries * weight * (sources as f64).log2();
        }
        self.note_changed(level, number);
        let region = self.region_mut(level, number);
        if replaces_all {
            region.shape.runs.clear();
        }
        let run = RunShape { bytes: bytes as u64, entries: size.entries as u64, ..RunShape::default() };
        region.shape.runs.insert(0, run);
        if self.estimates_garbage(level, self.region(level, number)) {
            self.looked_at += LOOKED_AT_PER_ESTIMATE * self.region(level, number).puts.len() as f64;
        }
        self.note_garbage(level, number);
        self.note_space(level, number);
    }

    /// The share of the items of a region's newest run that its older ones have as well.
    fn share_in_older(&self, level: usize, number: usize) -> f64 {
        // There are no changes yet, and first puts are of other items in each run: it need not be asked.
        if self.now <= self.items {
            return 0.0;
        }
        let mut runs = self.region(level, number).puts.iter().copied();
        let Some(newest) = runs.next() else { return 0.0 };
        self.keys.share_also_in(newest, runs.fold(Puts::default(), Puts::and))
    }

    /// Whether it counts what merging runs of a region would free.
    fn estimates_garbage(&self, level: usize, region: &Region) -> bool {
        self.keys.make_garbage() && self.design().is_leaf(level, !region.children.is_empty())
    }

    /// Shows the planner what merging the newest runs of a region would free: of other regions than leaves,
    /// nothing.
    fn note_garbage(&mut self, level: usize, number: usize) {
        let mut dead_bytes = std::mem::take(&mut self.region_mut(level, number).shape.dead_bytes);
        dead_bytes.clear();
        let region = self.region(level, number);
        if self.estimates_garbage(level, region) {
            dead_bytes.extend(self.dead_bytes(level, region));
        } else {
            dead_bytes.resize(region.puts.len(), 0);
        }
        self.region_mut(level, number).shape.dead_bytes = dead_bytes;
    }

    /// What merging the newest runs of a leaf would free, for each number of them.
    fn dead_bytes(&self, level: usize, region: &Region) -> impl Iterator<Item = u64> {
        let (mut merged, mut all, mut seen) = (Puts::default(), 0, 0);
        region.puts.iter().zip(&region.shape.runs).map(move |(&puts, run)| {
            merged = merged.and(puts);
            all += run.bytes;
            seen += 1;
            let is_all = seen == region.puts.len();
            let kept = if is_all { merged.reclaimed(&self.keys, self.now) } else { merged };
            let kept_bytes = self.layout.run_bytes(&self.run_size(level, region, kept));
            (all as f64 - kept_bytes).max(0.0) as u64
        })
    }

    /// Carries out a task on the region of its level with this number.
    fn execute(&mut self, number: usize, task: &Task) {
        let (level, _) = task.region();
        match *task {
            Task::Push { runs, .. } | Task::Split { runs, .. } => self.push(level, number, runs),
            Task::Rewrite { newest, .. } => {
                let region = self.region_mut(level, number);
                let apart = region.apart.take().unwrap_or_default();
                let merged = region.puts.drain(..newest).fold(Puts::default(), Puts::and);
                let read: u64 = region.shape.runs.drain(..newest).map(|run| run.bytes).sum();
                let bytes = read as f64 * region.weight;
                self.note_read(level, bytes);
                if let Some(written) = self.written.get_mut(level) {
                    written.apart = written.apart.since(apart);
                }
                self.add_merged(level, number, merged, newest);
            }
            Task::Gather { .. } => unreachable!("nothing is gathered while the design stays"),
            Task::Drop { oldest, .. } => {
                self.note_changed(level, number);
                let region = self.region_mut(level, number);
                let kept = region.puts.len().saturating_sub(oldest);
                region.puts.truncate(kept);
                region.shape.runs.truncate(kept);
                region.shape.dead_bytes.truncate(kept);
                self.note_space(level, number);
            }
        }
    }

    /// Merges the oldest runs of a region and partitions them among its children.
    fn push(&mut self, level: usize, number: usize, runs: usize) {
        self.add_children(level, number);
        self.note_changed(level, number);
        let region = self.region_mut(level, number);
        let kept = region.puts.len().saturating_sub(runs);
        let sources = region.puts.len() - kept;
        let merged = region.puts.drain(kept..).fold(Puts::default(), Puts::and);
        let read: u64 = region.shape.runs.iter().skip(kept).map(|run| run.bytes).sum();
        let bytes = read as f64 * region.weight;
        region.shape.runs.truncate(kept);
        region.shape.pushes += 1;
        region.apart = Some(Apart::default());
        let children = region.children.clone();
        self.note_garbage(level, number);
        self.note_space(level, number);
        self.note_read(level + 1, bytes);
        for child in children {
            self.deliver(level + 1, child, merged, sources);
        }
    }

    /// Begins to follow children of a region that has none.
    fn add_children(&mut self, level: usize, number: usize) {
        if self.levels.len() == level + 1 {
            self.levels.push(Vec::new());
            self.written.push(Written::default());
        }
        let depth = self.design().depth(level + 1);
        let (peers, below) = (self.followed(level), self.followed(level + 1));
        let most_followed = self.most_followed;
        let region = self.region_mut(level, number);
        if !region.children.is_empty() {
            return;
        }
        let all = 1usize << (depth - region.shape.path.depth());
        let followed = (most_followed / peers.max(1)).clamp(1, all);
        region.shape.has_children = true;
        region.children = below..below + followed;
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
}
