//! From one design to another: what of a store the new one would not have made, and the next task that ends
//! some of it.
//!
//! Nothing of a store has to be changed before it can be read or written under another design. What is
//! flushed goes on top, so it is newer than all that is there; each table says itself how it is made; and
//! levels are told by how many digest bits their regions fix, whatever design they came from. So the levels
//! of both designs lie in one trie, in the order of their depths, and five rules lead from the one to the
//! other for every pair of designs:
//!
//! * A region where the new design has no level is **pushed** to the next level that it has. A push from
//!   above takes along what lies between, so that nothing newer comes to lie below it.
//! * Where all that lies below a region of the levels at which leaves stay fits into it, it is **gathered**
//!   there: a trie that was grown for smaller regions is cut off.
//! * A region that is to hold one run and has several is **rewritten**.
//! * So are runs with tables of another format, index or filter.
//! * Where little is written, what is older than the design and lies above other runs is **pushed** as well:
//!   upper levels would keep it, though the design is one for levels that fill up and empty.
//!
//! All else is the planner's: a region too full for the new design is due by its own rules.
//!
//! Invariant: all of this follows from the design, its record and the shape, so whoever stops in the middle
//! can go on from what is there. Each task makes less of what is left.

use crate::design::Design;
use crate::digest::{MAX_DEPTH, TriePath};
use crate::plan::Task;
use crate::reason::Reason;
use crate::shape::RegionShape;
use std::collections::BTreeMap;

/// Part of its capacity to which a region is filled when all below is gathered in it: so that it is not soon
/// split again.
const GATHERED_PART: f64 = 1.0 / 3.0;

/// A region with runs as a redesign sees it.
#[derive(Clone, Copy, Debug)]
pub struct Stratum<'a> {
    /// The region.
    pub region: &'a RegionShape,
    /// How many of its runs, counted from the newest, reach down to the oldest one that has a table unlike
    /// those of the design's level; 0 where none has.
    pub unlike: usize,
    /// Whether it is to be pushed though the design has its level: some of what lies there is older than the
    /// design, and would stay.
    pub is_pushed: bool,
}

/// A store whose levels may be of several designs.
pub trait Strata {
    /// Calls `visit` for every region that has runs, from the top down, and within a level in digest order.
    fn visit(&self, visit: &mut dyn FnMut(Stratum<'_>));
    /// Whether running work reads or replaces runs of a region at or below `path` that fixes `depth` bits at
    /// most.
    fn is_busy(&self, path: TriePath, depth: u8) -> bool;
}

/// What is left of a design that came before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leftover {
    /// The task that ends it.
    pub task: Task,
    /// Why it is due.
    pub reason: Reason,
    /// Bytes that have to be rewritten for it.
    pub bytes: u64,
}

/// A region that was visited.
struct Visited {
    path: TriePath,
    bytes: u64,
    runs: usize,
    unlike: usize,
    is_pushed: bool,
    is_gathered: bool,
}

/// Returns all that is left of designs before `design`, in the order in which it is ended.
pub fn leftovers(design: &Design, strata: &dyn Strata) -> Vec<Leftover> {
    let mut regions = Vec::new();
    strata.visit(&mut |Stratum { region, unlike, is_pushed }| {
        let (path, bytes, runs) = (region.path, region.bytes(), region.runs.len());
        regions.push(Visited { path, bytes, runs, unlike, is_pushed, is_gathered: false });
    });
    let gathers = gathers(design, &mut regions);
    let rest = regions.iter().filter(|region| !region.is_gathered);
    let mut left: Vec<Leftover> = rest.filter_map(|region| alone(design, region)).collect();
    // What lies above the first level stands in the way of flushes.
    let first = design.depth(0);
    let above = left.iter().take_while(|left| left.task.region().1.depth() < first).count();
    left.splice(above..above, gathers);
    left
}

/// Returns the first thing left of designs before `design` that nobody works on.
///
/// ```
/// use siltstone_design::redesign::{Strata, Stratum, plan};
/// use siltstone_design::{RegionShape, RunShape, Task, TriePath, presets};
///
/// struct Region(RegionShape);
/// impl Strata for Region {
///     fn visit(&self, visit: &mut dyn FnMut(Stratum<'_>)) {
///         visit(Stratum { region: &self.0, unlike: 0, is_pushed: false });
///     }
///     fn is_busy(&self, _: TriePath, _: u8) -> bool { false }
/// }
/// // Stepped merge has a level at 3 digest bits; the default design has none, and pushes to its own at 4.
/// let run = RunShape { bytes: 8 << 20, entries: 70_000, ..RunShape::default() };
/// let path = TriePath::of(0, 3);
/// let store = Region(RegionShape { path, runs: vec![run; 2], ..RegionShape::default() });
/// let left = plan(&presets::siltstone(), &store).unwrap();
/// assert_eq!(left.task, Task::Push { level: 0, path, runs: 2 });
/// assert_eq!(plan(&presets::stepped_merge(), &store), None);
/// ```
pub fn plan(design: &Design, strata: &dyn Strata) -> Option<Leftover> {
    leftovers(design, strata).into_iter().find(|left| {
        let path = left.task.region().1;
        let depth = match left.task {
            Task::Gather { .. } => MAX_DEPTH,
            Task::Rewrite { .. } | Task::Drop { .. } => path.depth(),
            Task::Push { .. } | Task::Split { .. } => {
                let below = level_below(design, path);
                // A child that holds one run is merged with; others get a run on top.
                design.depth(below) - u8::from(design.level(below).runs > 1)
            }
        };
        !strata.is_busy(path, depth)
    })
}

/// The level to which region `path`, of this design or another, is pushed.
pub fn level_below(design: &Design, path: TriePath) -> usize {
    design.level_from(path.depth() + 1)
}

/// The level of the design that regions of `depth` bits belong to, or else lie below.
pub fn level_above(design: &Design, depth: u8) -> usize {
    design.level_from(depth + 1).saturating_sub(1)
}

/// What is due for a region by itself.
fn alone(design: &Design, region: &Visited) -> Option<Leftover> {
    let Visited { path, bytes, runs, unlike, is_pushed, .. } = *region;
    let Some(level) = design.level_at(path.depth()) else {
        let task = Task::Push { level: level_above(design, path.depth()), path, runs };
        return Some(Leftover { task, reason: Reason::NoSuchLevel { depth: path.depth() }, bytes });
    };
    if is_pushed {
        let task = Task::Push { level, path, runs };
        return Some(Leftover { task, reason: Reason::OlderThanDesign { runs: runs as u64 }, bytes });
    }
    if design.level(level).runs <= 1 && runs > 1 {
        let task = Task::Rewrite { level, path, newest: runs };
        return Some(Leftover { task, reason: Reason::ManyRuns { runs: runs as u64 }, bytes });
    }
    let task = Task::Rewrite { level, path, newest: unlike };
    let reason = Reason::OtherTables { runs: unlike as u64 };
    (unlike > 0).then_some(Leftover { task, reason, bytes })
}

/// Finds the regions that take in all that lies below them, the uppermost first, and marks what they take.
fn gathers(design: &Design, regions: &mut [Visited]) -> Vec<Leftover> {
    let deepest = regions.iter().map(|region| region.path.depth()).max().unwrap_or(0);
    let mut found = Vec::new();
    let leaf_level = design.levels.len().saturating_sub(1);
    for level in leaf_level.. {
        let depth = design.depth(level);
        if depth >= deepest {
            break;
        }
        // By first digest: the bytes at and below, and whether any are below.
        let mut nodes: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        let below = |region: &&mut Visited| !region.is_gathered && region.path.depth() >= depth;
        for region in regions.iter_mut().filter(below) {
            let node = nodes.entry(TriePath::of(region.path.first(), depth).first()).or_default();
            node.0 = node.0.saturating_add(region.bytes);
            node.1 |= region.path.depth() > depth;
        }
        let spec = design.level(level);
        let most = f64::from(spec.runs) * spec.table_bytes as f64 * GATHERED_PART;
        nodes.retain(|_, (bytes, has_more)| *has_more && *bytes as f64 <= most);
        for region in regions.iter_mut().filter(below) {
            region.is_gathered |= nodes.contains_key(&TriePath::of(region.path.first(), depth).first());
        }
        found.extend(nodes.into_iter().map(|(first, (bytes, _))| {
            let task = Task::Gather { level, path: TriePath::of(first, depth) };
            Leftover { task, reason: Reason::FitsAbove { bytes }, bytes }
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use crate::shape::RunShape;

    const MIB: u64 = 1 << 20;

    /// Regions, with how many of their runs are unlike the design's; what is busy, and what is to be pushed.
    struct Drawn {
        regions: Vec<(RegionShape, usize)>,
        busy: Vec<TriePath>,
        pushed: Vec<TriePath>,
    }

    impl Strata for Drawn {
        fn visit(&self, visit: &mut dyn FnMut(Stratum<'_>)) {
            for (region, unlike) in &self.regions {
                let is_pushed = self.pushed.contains(&region.path);
                visit(Stratum { region, unlike: *unlike, is_pushed });
            }
        }

        fn is_busy(&self, path: TriePath, depth: u8) -> bool {
            self.busy.iter().any(|busy| path.covers(*busy) && busy.depth() <= depth)
        }
    }

    fn region(path: TriePath, runs: &[u64]) -> RegionShape {
        let runs = runs
            .iter()
            .map(|mib| RunShape { bytes: mib * MIB, entries: mib * 9_000, ..RunShape::default() })
            .collect();
        RegionShape { path, runs, ..RegionShape::default() }
    }

    fn drawn(regions: &[(u8, u64, &[u64], usize)]) -> Drawn {
        let regions = regions.iter().map(|&(depth, number, runs, unlike)| {
            let first = if depth == 0 { 0 } else { number << (64 - u32::from(depth)) };
            (region(TriePath::of(first, depth), runs), unlike)
        });
        Drawn { regions: regions.collect(), busy: Vec::new(), pushed: Vec::new() }
    }

    #[test]
    fn what_the_design_would_have_made_is_left_alone() {
        let stepped = drawn(&[(0, 0, &[8, 8], 0), (3, 1, &[8, 8, 8], 0), (6, 9, &[8], 0)]);
        assert_eq!(leftovers(&presets::stepped_merge(), &stepped), []);
    }

    #[test]
    fn several_runs_become_one_and_unlike_tables_are_rewritten() {
        let store = drawn(&[(0, 0, &[8, 8], 2), (3, 1, &[8, 8, 8], 0), (3, 2, &[8], 0), (6, 9, &[8, 8], 1)]);
        let left = leftovers(&presets::leveled(), &store);
        let tasks: Vec<_> = left.iter().map(|left| left.task).collect();
        let [first, third, _, sixth] = [0, 1, 2, 3].map(|n| store.regions[n].0.path);
        let expected = [
            Task::Rewrite { level: 0, path: first, newest: 2 },
            Task::Rewrite { level: 1, path: third, newest: 3 },
            Task::Rewrite { level: 2, path: sixth, newest: 2 },
        ];
        assert_eq!(tasks, expected);
    }

    #[test]
    fn what_would_stay_above_is_pushed_from_the_top() {
        let mut store = drawn(&[(0, 0, &[8, 8], 0), (3, 1, &[8, 8, 8], 2), (6, 9, &[8], 0)]);
        store.pushed = vec![TriePath::ROOT, store.regions[1].0.path];
        let left = leftovers(&presets::stepped_merge(), &store);
        let tasks: Vec<_> = left.iter().map(|left| (left.task, left.reason)).collect();
        let push = |level: usize, runs: usize| {
            let task = Task::Push { level, path: store.regions[level].0.path, runs };
            (task, Reason::OlderThanDesign { runs: runs as u64 })
        };
        assert_eq!(tasks, [push(0, 2), push(1, 3)]);
    }

    #[test]
    fn a_deep_trie_is_cut_off_where_it_fits() {
        // SILT's sorted stores take any amount, at 3 bits; what lies at 0 and stands in flushes' way goes
        // first.
        let mut store = drawn(&[(0, 0, &[8], 1), (4, 3, &[8, 8], 2), (8, 48, &[8], 1), (8, 250, &[64], 1)]);
        let silt = presets::silt();
        let tasks: Vec<_> = leftovers(&silt, &store).iter().map(|left| left.task).collect();
        let gather = |number: u64| Task::Gather { level: 1, path: TriePath::of(number << 61, 3) };
        let push = Task::Push { level: 0, path: TriePath::ROOT, runs: 1 };
        assert_eq!(tasks, [push, gather(1), gather(7)]);
        // Nobody may work on any of what is gathered, nor on what is pushed.
        store.busy = vec![TriePath::ROOT, TriePath::of(48 << 56, 8)];
        assert_eq!(plan(&silt, &store).unwrap().task, gather(7));
        // Where it does not fit, the trie stays as it is.
        let store = drawn(&[(4, 3, &[8], 0), (8, 48, &[40], 0)]);
        assert_eq!(leftovers(&presets::siltstone(), &store), []);
        let store = drawn(&[(4, 3, &[8], 0), (8, 48, &[30], 0)]);
        assert_eq!(leftovers(&presets::siltstone(), &store).len(), 1);
    }

    #[test]
    fn the_levels_of_all_presets_are_told_by_depth() {
        for (name, design) in presets::all() {
            for level in 0..8 {
                let depth = design.depth(level);
                assert_eq!(design.level_at(depth), Some(level), "{name}");
                assert_eq!(level_above(&design, depth), level, "{name}");
                assert_eq!(level_below(&design, TriePath::of(0, depth)), level + 1, "{name}");
            }
        }
        assert_eq!(presets::siltstone().level_at(3), None);
        assert_eq!(presets::silt().level_at(0), None);
    }
}
