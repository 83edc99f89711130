//! The compaction planner: a pure, deterministic function from a design and a store's shape to the next task.
//!
//! * **Push** (SlimDB's stepped merge, LSM-trie's container split): a full region merges all its runs and
//!   partitions them out to its children by the next digest bits. Where the child's level is leveled, the
//!   child's run joins the merge.
//! * **Split**: the same, from a leaf that has outgrown its region; the children are new.
//! * **Rewrite**: runs of one region are merged in place, to free space in a leaf or to join runs too small
//!   to push.
//!   Where memory is short for region filters, runs without one are merged in place as well.
//! * **Drop**: the oldest runs of a region without children go unread, since all that they hold has expired.
//!
//! **Staggering.** Digests are uniform, so all regions of a level would fill up together and the store would
//! compact in bursts. A region's *first* push therefore comes at its own phase, between 0.5 and 1.5 times the
//! limit by the bit-reversed number among its siblings; later pushes follow at the full limit and so keep
//! their distance. None of the papers does this, and LSM-trie's puts stall while the containers of a level
//! split one after the other.
//!
//! **Space.** `max_garbage` bounds what is dead in a leaf, but what lies above the leaves may be newer
//! versions of what they hold as well, and a trie that has just grown a level has much above little. So in
//! designs that say so, where the whole store holds more than 1 / (1 − `max_garbage`) times what is live in
//! its leaves, and things are overwritten at all, the fullest regions are pushed before they are full: the
//! leaves then see what is dead. That writes no byte more than once a level either. In these designs a region
//! of an upper level counts as a leaf as long as nothing lies below it, or a store too small for its levels
//! would have no leaves to reclaim.
//!
//! **Deletes and expiry.** A tombstone in an upper level dooms what lies far below, and a store that only
//! deletes fills no region. So where a region's tombstones and expired entries doom more than `max_garbage`
//! of what lies in it and below it, it is pushed before it is full, or merged in place where nothing lies
//! below; once they have come down to a leaf, the rule for leaves frees the space. Every such push takes
//! entries one level down, and each is caused by deletes of a fixed share of what lies below, so that
//! deletes cost no more than puts of as many entries. Where entries expire in about the order in which they
//! were written, the oldest runs of a leaf expire as a whole, and are dropped without being read.
//!
//! **Pacing.** [`pressure`] says how far the store has fallen behind, from 0 (on time) to 1 (writers must
//! wait), so that writers can be slowed smoothly long before they would have to stop.

use crate::design::{Design, LevelSpec, SMALL_PART};
use crate::digest::TriePath;
use crate::reason::Reason;
use crate::shape::{RegionShape, Shape};

/// One unit of background work on the regions of one keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Merge the `runs` oldest runs of a region and partition them among its children.
    Push {
        /// Level of the region.
        level: usize,
        /// The region.
        path: TriePath,
        /// How many runs, counted from the oldest; all runs as it was when planned.
        runs: usize,
    },
    /// The same from a leaf whose children do not exist yet: the trie grows.
    Split {
        /// Level of the region.
        level: usize,
        /// The region.
        path: TriePath,
        /// How many runs, counted from the oldest.
        runs: usize,
    },
    /// Merge the `newest` newest runs of a region into one, in place.
    Rewrite {
        /// Level of the region.
        level: usize,
        /// The region.
        path: TriePath,
        /// How many runs, counted from the newest.
        newest: usize,
    },
    /// Merge all runs of a region and of all regions below it into one run of the region: the trie, as a
    /// design before this one grew it, is cut off there. Only [`redesign::plan`](crate::redesign::plan) asks
    /// for it.
    Gather {
        /// Level of the region.
        level: usize,
        /// The region.
        path: TriePath,
    },
    /// Drop the `oldest` oldest runs of a region, in which everything has expired or was deleted and below
    /// which nothing lies. Nothing is read or written.
    Drop {
        /// Level of the region.
        level: usize,
        /// The region.
        path: TriePath,
        /// How many runs, counted from the oldest.
        oldest: usize,
    },
}

impl Task {
    /// The region the task works on.
    pub fn region(&self) -> (usize, TriePath) {
        match *self {
            Self::Push { level, path, .. }
            | Self::Split { level, path, .. }
            | Self::Rewrite { level, path, .. }
            | Self::Gather { level, path } => (level, path),
            Self::Drop { level, path, .. } => (level, path),
        }
    }
}

/// The most urgent task of the store, or `None` where nothing needs doing.
///
/// Urgency is how full a region is for its limit; ties go to the upper level, then to the smaller path.
/// Regions with work under way are passed over, and so are pushes into a leveled child with work under way.
///
/// ```
/// use siltstone_design::{presets, plan::plan, RegionShape, RunShape, Shape, Task, TriePath};
///
/// struct Pile(RegionShape);
/// impl Shape for Pile {
///     fn level_count(&self) -> usize { 1 }
///     fn visit_regions(&self, _: usize, visit: &mut dyn FnMut(&RegionShape)) { visit(&self.0) }
///     fn is_busy(&self, _: usize, _: TriePath) -> bool { false }
/// }
/// let run = RunShape { bytes: 8 << 20, entries: 70_000, ..RunShape::default() };
/// let full = Pile(RegionShape { runs: vec![run; 8], ..RegionShape::default() });
/// let task = plan(&presets::stepped_merge(), &full);
/// assert_eq!(task, Some(Task::Push { level: 0, path: TriePath::ROOT, runs: 8 }));
/// ```
pub fn plan(design: &Design, shape: &dyn Shape) -> Option<Task> {
    let is_crowded = is_crowded(design, shape);
    let free = shape.free_bytes();
    let mut best: Option<(Rank, Task)> = None;
    for level in 0..shape.level_count() {
        shape.visit_regions(level, &mut |region| {
            if region.runs.is_empty() || shape.is_busy(level, region.path) {
                return;
            }
            let choice = choose(design, shape, level, region, is_crowded);
            let Some(Choice { urgency, task, .. }) = choice else { return };
            let rank = Rank::of(urgency, new_bytes(region, &task), free);
            let better = best.as_ref().is_none_or(|(so_far, _)| rank > *so_far);
            if better && !waits_for_a_child(design, shape, &task) {
                best = Some((rank, task));
            }
        });
    }
    best.map(|(_, task)| task)
}

/// What one region needs by itself. In a store that is not crowded, that has room on disk and memory for its
/// filters, and where no region is busy, [`plan`] takes the most urgent of these: of those that are as urgent
/// the one that it is shown first.
///
/// ```
/// use siltstone_design::{presets, plan::{Need, need}, RegionShape, RunShape, Task, TriePath};
///
/// let run = RunShape { bytes: 8 << 20, entries: 70_000, ..RunShape::default() };
/// let full = RegionShape { runs: vec![run; 8], ..RegionShape::default() };
/// let task = Task::Push { level: 0, path: TriePath::ROOT, runs: 8 };
/// assert_eq!(need(&presets::stepped_merge(), 0, &full), Some(Need { urgency: 1.0, task }));
/// ```
pub fn need(design: &Design, level: usize, region: &RegionShape) -> Option<Need> {
    if region.runs.is_empty() {
        return None;
    }
    consider(design, level, region, false).map(|Choice { urgency, task, .. }| Need { urgency, task })
}

/// What a region needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// How pressing it is: 1 where the region is just full.
    pub urgency: f64,
    /// What is to be done.
    pub task: Task,
}

/// How tasks are compared: those that there is room for by their urgency, before the others, of which the one
/// that needs least may just fit.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Rank {
    NeedsRoom { less_than: f64 },
    Fits { urgency: f64 },
}

impl Rank {
    fn of(urgency: f64, new_bytes: u64, free: u64) -> Self {
        if new_bytes <= free {
            Self::Fits { urgency }
        } else {
            Self::NeedsRoom { less_than: -(new_bytes as f64) }
        }
    }
}

/// Estimated bytes that a task writes before what it read can go.
fn new_bytes(region: &RegionShape, task: &Task) -> u64 {
    let merged = |newest: usize| region.runs.iter().take(newest).map(|run| run.bytes).sum::<u64>();
    match *task {
        Task::Drop { .. } => 0,
        Task::Push { .. } | Task::Split { .. } => region.bytes(),
        Task::Gather { .. } => region.bytes() + region.below_bytes,
        Task::Rewrite { newest, .. } => {
            let dead = newest.checked_sub(1).and_then(|last| region.dead_bytes.get(last).copied());
            let doomed = if newest == region.runs.len() { region.doomed_bytes } else { 0 };
            merged(newest).saturating_sub(dead.unwrap_or(0).max(doomed))
        }
    }
}

/// Returns why [`plan`] chose `task` for a store of this shape; `None` where the shape has changed so that it
/// would not now.
///
/// ```
/// use siltstone_design::{presets, plan::{plan, reason}, RegionShape, RunShape, Shape, TriePath};
///
/// struct Pile(RegionShape);
/// impl Shape for Pile {
///     fn level_count(&self) -> usize { 1 }
///     fn visit_regions(&self, _: usize, visit: &mut dyn FnMut(&RegionShape)) { visit(&self.0) }
///     fn is_busy(&self, _: usize, _: TriePath) -> bool { false }
/// }
/// let run = RunShape { bytes: 4 << 20, entries: 35_000, ..RunShape::default() };
/// let full = Pile(RegionShape { runs: vec![run; 8], ..RegionShape::default() });
/// let design = presets::stepped_merge();
/// let task = plan(&design, &full).unwrap();
/// assert_eq!(reason(&design, &full, &task).unwrap().to_string(), "the region is full (8 of 8 runs)");
/// ```
pub fn reason(design: &Design, shape: &dyn Shape, task: &Task) -> Option<Reason> {
    let (level, path) = task.region();
    let mut found = None;
    shape.visit_regions(level, &mut |region| {
        if region.path == path {
            // What is done in a store that is not crowded as well, is not done because it is.
            let mut choices = [false, true]
                .into_iter()
                .filter_map(|is_crowded| choose(design, shape, level, region, is_crowded));
            found = choices.find(|choice| choice.task == *task).map(|choice| choice.reason);
        }
    });
    found
}

/// Whether any region of `level` needs something, busy or not.
///
/// ```
/// use siltstone_design::{presets, plan::is_due, RegionShape, RunShape, Shape, TriePath};
///
/// struct Pile(RegionShape);
/// impl Shape for Pile {
///     fn level_count(&self) -> usize { 1 }
///     fn visit_regions(&self, _: usize, visit: &mut dyn FnMut(&RegionShape)) { visit(&self.0) }
///     fn is_busy(&self, _: usize, _: TriePath) -> bool { true }
/// }
/// let run = RunShape { bytes: 8 << 20, entries: 70_000, ..RunShape::default() };
/// let full = Pile(RegionShape { runs: vec![run; 8], ..RegionShape::default() });
/// assert!(is_due(&presets::stepped_merge(), &full, 0));
/// assert!(!is_due(&presets::siltstone(), &full, 0));
/// ```
pub fn is_due(design: &Design, shape: &dyn Shape, level: usize) -> bool {
    let is_crowded = is_crowded(design, shape);
    let mut is_due = false;
    shape.visit_regions(level, &mut |region| {
        is_due = is_due || choose(design, shape, level, region, is_crowded).is_some();
    });
    is_due
}

/// What a compaction by hand does with one region, level after level from the top: where anything lies below,
/// all runs are pushed; else they are merged into one, without what was deleted or has expired. `None` where
/// that is how it is already.
///
/// ```
/// use siltstone_design::{plan::compact, RegionShape, RunShape, Task, TriePath};
///
/// let run = RunShape { bytes: 1 << 20, entries: 9_000, ..RunShape::default() };
/// let one = RegionShape { runs: vec![run], ..RegionShape::default() };
/// assert_eq!(compact(0, &one), None);
/// let above = RegionShape { below_bytes: 1 << 30, ..one.clone() };
/// assert_eq!(compact(0, &above), Some(Task::Push { level: 0, path: TriePath::ROOT, runs: 1 }));
/// let deleted = RegionShape { runs: vec![RunShape { deleted: 1, ..run }], ..one };
/// assert_eq!(compact(0, &deleted), Some(Task::Rewrite { level: 0, path: TriePath::ROOT, newest: 1 }));
/// ```
pub fn compact(level: usize, region: &RegionShape) -> Option<Task> {
    let (path, count) = (region.path, region.runs.len());
    if count == 0 {
        None
    } else if region.below_bytes > 0 {
        Some(Task::Push { level, path, runs: count })
    } else {
        (count > 1 || region.has_dead_entries()).then_some(Task::Rewrite { level, path, newest: count })
    }
}

/// Whether regions are pushed early.
fn is_crowded(design: &Design, shape: &dyn Shape) -> bool {
    design.pushes_early && shape.space(design).is_crowded(design)
}

/// Part of its limit that a region must have to be pushed early: its children get runs of so small a part of
/// theirs.
pub const EARLY_PART: f64 = 0.125;

/// Whether a region can't be partitioned: it is as deep as the trie can be, or a leaf that is mostly one
/// group of keys, which would sink through the levels below undivided, rewritten at each.
fn is_indivisible(design: &Design, level: usize, region: &RegionShape) -> bool {
    let is_leaf = design.is_leaf(level, region.has_children);
    design.depth(level + 1) == design.depth(level)
        || (is_leaf && region.largest_group_bytes.saturating_mul(2) > region.bytes())
}

/// What one region needs.
struct Choice {
    /// How pressing it is: 1 where the region is just full.
    urgency: f64,
    task: Task,
    reason: Reason,
}

/// Returns what is to be done with one region: what it needs, or else what spares lookups reads.
fn choose(
    design: &Design,
    shape: &dyn Shape,
    level: usize,
    region: &RegionShape,
    is_crowded: bool,
) -> Option<Choice> {
    consider(design, level, region, is_crowded).or_else(|| join(shape, level, region))
}

/// Returns what one region needs, if anything.
fn consider(design: &Design, level: usize, region: &RegionShape, is_crowded: bool) -> Option<Choice> {
    let path = region.path;
    let spec = design.level(level);
    let is_indivisible = is_indivisible(design, level, region);
    let is_leaf = is_indivisible || design.is_leaf(level, region.has_children);
    let count = region.runs.len();
    let bytes = region.bytes();
    let runs = count as u64;

    if let Some(choice) = reclaim(design, level, region, is_leaf) {
        return Some(choice);
    }
    let stagger = stagger(spec, region);
    let run_limit = f64::from(spec.runs.max(1)) * stagger;
    let capacity = f64::from(spec.runs.max(1)) * spec.table_bytes as f64;
    let by_bytes = bytes as f64 / (capacity * stagger);
    // A leveled region holds one run whatever its size; only its bytes say that it is full.
    let by_count = if spec.runs <= 1 { 0.0 } else { count as f64 / run_limit };
    let urgency = by_bytes.max(by_count);
    let most_bytes = (capacity * stagger) as u64;
    if urgency < 1.0 {
        let is_early = is_crowded && !is_leaf && by_bytes >= EARLY_PART && design.level(level + 1).runs > 1;
        // The fullest first, and all behind what is due anyhow.
        let reason = Reason::Crowded { bytes, at_most: most_bytes };
        return is_early.then_some(Choice { urgency, task: Task::Push { level, path, runs: count }, reason });
    }
    if is_indivisible {
        // One group of keys can outgrow any region: only its runs can be joined.
        let task = Task::Rewrite { level, path, newest: young_runs(region) };
        let reason = Reason::OneGroup { runs };
        return (by_count >= 1.0 && count >= 2).then_some(Choice { urgency, task, reason });
    }
    let dead = region.dead_bytes.last().copied().unwrap_or(0);
    let live = bytes.saturating_sub(dead) as f64;
    // Full by count only. Runs too small to be worth partitioning are joined first, and so is a leaf that is
    // not full of live data: splitting it would add a level for nothing.
    let small = bytes as f64 <= capacity * SMALL_PART;
    let sparse_leaf = is_leaf && live < capacity / 2.0;
    if by_bytes < 1.0 && (small || sparse_leaf) && count >= 2 {
        let reason = if small {
            Reason::SmallRuns { runs, bytes }
        } else {
            Reason::SparseLeaf { runs, live_bytes: live as u64 }
        };
        return Some(Choice {
            urgency,
            task: Task::Rewrite { level, path, newest: young_runs(region) },
            reason,
        });
    }
    if is_leaf {
        let reason = Reason::LeafOutgrown { bytes, at_most: most_bytes, runs };
        return Some(Choice { urgency, task: Task::Split { level, path, runs: count }, reason });
    }
    let reason = if by_count >= by_bytes {
        Reason::RunsFull { runs, at_most: run_limit.ceil() as u64 }
    } else {
        Reason::BytesFull { bytes, at_most: most_bytes }
    };
    Some(Choice { urgency, task: Task::Push { level, path, runs: count }, reason })
}

/// Joins runs that each cost a lookup a read, since memory is short for a filter: as the carries of a binary
/// counter, so that a byte takes part in a number of joins logarithmic in how many runs there would be, and
/// as many runs are left.
fn join(shape: &dyn Shape, level: usize, region: &RegionShape) -> Option<Choice> {
    let unfiltered = shape.unfiltered_runs(level, region.path).min(region.runs.len());
    let newest = equal_runs(region.runs.iter().take(unfiltered).map(|run| run.bytes))?;
    let task = Task::Rewrite { level, path: region.path, newest };
    // Behind all that is due anyhow.
    Some(Choice { urgency: JOIN_URGENCY, task, reason: Reason::Unfiltered { runs: unfiltered as u64 } })
}

/// How pressing it is to join runs without a filter.
const JOIN_URGENCY: f64 = 0.5;

/// How many runs to join, of which the newest come first: from the newest on, up to the last that is no
/// larger than all younger ones together; `None` where none is.
fn equal_runs(sizes: impl Iterator<Item = u64>) -> Option<usize> {
    let (mut joined, mut newest) = (0u64, None);
    for (place, bytes) in sizes.enumerate() {
        if place > 0 && bytes <= joined {
            newest = Some(place + 1);
        }
        joined = joined.saturating_add(bytes);
    }
    newest
}

/// What frees space in a region, or brings down what will: where too much is garbage.
fn reclaim(design: &Design, level: usize, region: &RegionShape, is_leaf: bool) -> Option<Choice> {
    let dropped = drop_dead(level, region);
    if dropped.is_some() || !is_leaf {
        return dropped.or_else(|| bring_down_deletes(design, level, region));
    }
    let newest = best_reclaim(design, region)?;
    // Space is not as pressing as a region that blocks what is above it, so its urgency grows from 1 slowly.
    let urgency = 1.0 + (region.garbage() - design.max_garbage);
    let reason = Reason::Garbage { garbage: region.garbage(), at_most: design.max_garbage };
    Some(Choice { urgency, task: Task::Rewrite { level, path: region.path, newest }, reason })
}

/// Drops the oldest runs of a region without children in which everything was deleted or has expired.
fn drop_dead(level: usize, region: &RegionShape) -> Option<Choice> {
    let dead = || region.runs.iter().rev().take_while(|run| run.is_dead);
    let oldest = dead().count();
    if oldest == 0 || region.has_children {
        return None;
    }
    let reason = Reason::Expired { runs: oldest as u64, bytes: dead().map(|run| run.bytes).sum() };
    // It frees space and costs nothing.
    Some(Choice { urgency: DROP_URGENCY, task: Task::Drop { level, path: region.path, oldest }, reason })
}

/// Pushes a region whose tombstones and expired entries doom too much of what lies below, or merges it where
/// nothing does. What a leaf holds is garbage of its own.
fn bring_down_deletes(design: &Design, level: usize, region: &RegionShape) -> Option<Choice> {
    let garbage = region.doomed();
    if region.doomed_bytes == 0 || garbage < design.max_garbage {
        return None;
    }
    let (path, count) = (region.path, region.runs.len());
    let task = if region.has_children {
        Task::Push { level, path, runs: count }
    } else {
        Task::Rewrite { level, path, newest: count }
    };
    let reason = Reason::Deleted { garbage, at_most: design.max_garbage };
    Some(Choice { urgency: 1.0 + (garbage - design.max_garbage), task, reason })
}

/// How pressing it is to drop what is dead.
const DROP_URGENCY: f64 = 2.0;

/// For a leaf with too much garbage: how many of its newest runs to merge for the best bytes freed per byte
/// written.
///
/// Expected leaf write cost is 1 − 1/m + (1 − g)/g for m runs between rewrites at garbage g.
fn best_reclaim(design: &Design, region: &RegionShape) -> Option<usize> {
    if region.garbage() < design.max_garbage {
        return None;
    }
    let mut merged = 0u64;
    let mut best: Option<(f64, usize)> = None;
    for (k, (run, &dead)) in region.runs.iter().zip(&region.dead_bytes).enumerate() {
        merged += run.bytes;
        let written = merged.saturating_sub(dead).max(1);
        let ratio = dead as f64 / written as f64;
        // Ties go to the longer merge, which leaves fewer runs.
        if dead > 0 && best.is_none_or(|(so_far, _)| ratio >= so_far) {
            best = Some((ratio, k + 1));
        }
    }
    best.map(|(_, newest)| newest)
}

/// The young runs to join when a region is full of small runs: from the newest on while the next older run is
/// no larger than all younger ones together, so that a byte takes part in a number of joins logarithmic in
/// the region's size.
fn young_runs(region: &RegionShape) -> usize {
    equal_runs(region.runs.iter().map(|run| run.bytes)).unwrap_or(2.min(region.runs.len()))
}

/// The factor on a region's limit that keeps it out of step with its siblings: 0.5 to 1.5 before its first
/// push, then 1.
///
/// ```
/// use siltstone_design::{presets, plan::stagger, RegionShape, TriePath};
///
/// let design = presets::stepped_merge();
/// let region = |c: u64| RegionShape { path: TriePath::of(c << 61, 3), ..RegionShape::default() };
/// let first: Vec<f64> = (0..8).map(|c| stagger(design.level(1), &region(c))).collect();
/// assert_eq!(first, [0.5625, 1.0625, 0.8125, 1.3125, 0.6875, 1.1875, 0.9375, 1.4375]);
/// ```
pub fn stagger(spec: &LevelSpec, region: &RegionShape) -> f64 {
    let bits = spec.fanout_bits.min(region.path.depth());
    if region.pushes > 0 || bits == 0 {
        return 1.0;
    }
    let reversed = region.path.sibling_index(bits).reverse_bits() >> (64 - bits);
    let siblings = f64::from(1u32 << bits);
    0.5 + (reversed as f64 + 0.5) / siblings
}

/// Whether the task would merge with a leveled child that other work holds.
fn waits_for_a_child(design: &Design, shape: &dyn Shape, task: &Task) -> bool {
    let Task::Push { level, path, .. } = *task else { return false };
    let child = design.level(level + 1);
    child.runs == 1 && children(design, level, path).any(|child| shape.is_busy(level + 1, child))
}

/// The children of region `path` of `level`, in digest order.
pub fn children(design: &Design, level: usize, path: TriePath) -> impl Iterator<Item = TriePath> {
    descendants(path, design.depth(level + 1))
}

/// The nodes at `depth` that lie in region `path`, in digest order.
pub fn descendants(path: TriePath, depth: u8) -> impl Iterator<Item = TriePath> {
    let bits = depth.saturating_sub(path.depth());
    (0..1u64 << bits).map(move |child| {
        let offset = if bits == 0 { 0 } else { child << (64 - u32::from(depth)) };
        TriePath::of(path.first() | offset, depth)
    })
}

/// How far the store has fallen behind: 0 on time, 1 where writers have to wait.
///
/// The top level counts by its region, which every lookup pays for; the levels below by the bytes that are
/// over their limits, in units of what one top-level region holds, so that debt cannot hide further down.
pub fn pressure(design: &Design, shape: &dyn Shape) -> f64 {
    let top = design.level(0);
    let top_bytes = f64::from(top.runs) * top.table_bytes as f64;
    let (mut worst, mut overdue) = (0f64, 0f64);
    for level in 0..shape.level_count() {
        let spec = design.level(level);
        let capacity = f64::from(spec.runs.max(1)) * spec.table_bytes as f64;
        shape.visit_regions(level, &mut |region| {
            if is_indivisible(design, level, region) {
                // However large, nothing can be done about it; writers would wait for ever.
            } else if level == 0 {
                let count = region.runs.len() as f64 / f64::from(spec.runs);
                worst = worst.max((count - ON_TIME) / (LATEST - ON_TIME));
            } else {
                let limit = capacity * stagger(spec, region) * ON_TIME;
                overdue += (region.bytes() as f64 - limit).max(0.0);
            }
        });
    }
    worst.max(overdue / (top_bytes * OVERDUE_REGIONS)).clamp(0.0, 1.0)
}

/// Fullness of level 0 up to which a store counts as on time.
const ON_TIME: f64 = 1.5;
/// Fullness of level 0 at which writers have to wait.
const LATEST: f64 = 4.0;
/// Overdue bytes below level 0, in top-level regions, at which writers have to wait.
const OVERDUE_REGIONS: f64 = 4.0;
