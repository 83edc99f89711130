//! The planner's choices, drawn as text: a store's levels on the left, the expected pick on the right.
//!
//! Each file in `tests/planner/` holds cases, divided by blank lines:
//!
//! ```text
//! # what the case shows, in words
//! design stepped-merge runs=4            a preset, then overrides: runs, table, bits, head, garbage, levels
//! L0 root: 8M 8M 2M                      a region's runs, newest run first
//! L1 010: 8M | pushes=1 children dead=0  flags: pushes=N, children, busy, dead=A,B,.., group=A (the largest group),
//!                                        below=A, doomed=A, deleted=N,M,.. (tombstones), expired=N (oldest runs),
//!                                        unfiltered=N (newest runs, for want of memory)
//! free 3M                                bytes of the disk that are free
//! => push L0 root 3                      or split, rewrite, none; any number of `=>` lines
//! => because the region is full (3 of 3 runs)
//! => pressure 0.25
//! => compact rewrite L0 root 2           what a compaction by hand does first
//! ```
//!
//! A second `=>` line with a task is the pick once the region of the one before is busy. `because` gives the
//! reason for the pick above it; every pick has one.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that finds nothing should fail")]

use siltstone_design::plan::{compact, plan, pressure, reason};
use siltstone_design::{Design, RegionShape, RunShape, Shape, Task, TriePath, WriteBufferSpec};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

struct Drawn {
    design: Design,
    levels: Vec<BTreeMap<TriePath, RegionShape>>,
    busy: RefCell<HashSet<(usize, TriePath)>>,
    free_bytes: u64,
    unfiltered: BTreeMap<(usize, TriePath), usize>,
}

impl Shape for Drawn {
    fn level_count(&self) -> usize {
        self.levels.len()
    }

    fn visit_regions(&self, level: usize, visit: &mut dyn FnMut(&RegionShape)) {
        self.levels[level].values().filter(|region| !region.runs.is_empty()).for_each(visit);
    }

    fn is_busy(&self, level: usize, path: TriePath) -> bool {
        self.busy.borrow().contains(&(level, path))
    }

    fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    fn unfiltered_runs(&self, level: usize, path: TriePath) -> usize {
        self.unfiltered.get(&(level, path)).copied().unwrap_or(0)
    }
}

fn bytes(text: &str) -> u64 {
    let (number, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) => (number, text.as_bytes()[text.len() - 1]),
        None => (text, b'1'),
    };
    let unit = match unit {
        b'K' => 1u64 << 10,
        b'M' => 1 << 20,
        b'G' => 1 << 30,
        _ => 1,
    };
    (number.parse::<f64>().unwrap_or_else(|_| panic!("{text:?} is no size")) * unit as f64) as u64
}

fn path(text: &str) -> TriePath {
    if text == "root" {
        return TriePath::ROOT;
    }
    let prefix = u64::from_str_radix(text, 2).unwrap_or_else(|_| panic!("{text:?} is no path"));
    TriePath::of(prefix << (64 - text.len()), text.len() as u8)
}

/// `L1` or `L1.runs`-like scopes are not needed: an override applies to every level that has the same kind.
fn design(words: &str) -> Design {
    let mut words = words.split_whitespace();
    let name = words.next().expect("a preset");
    let mut design = Design::preset(name).unwrap_or_else(|| panic!("no preset {name:?}"));
    for word in words {
        let (name, value) = word.split_once('=').expect("name=value");
        let number = || value.parse::<u16>().expect("a number");
        match name {
            "runs" => design.levels.iter_mut().for_each(|level| level.runs = number()),
            "table" => design.levels.iter_mut().for_each(|level| level.table_bytes = bytes(value)),
            "bits" => design.levels.iter_mut().skip(1).for_each(|level| level.fanout_bits = number() as u8),
            "top-bits" => design.levels[0].fanout_bits = number() as u8,
            "levels" => design.levels.truncate(usize::from(number())),
            "head" => design.write_buffer = WriteBufferSpec::MemTable { bytes: bytes(value) },
            "garbage" => design.max_garbage = value.parse().expect("a share"),
            _ => panic!("no override {name:?}"),
        }
    }
    design.check().expect("a sound design");
    design
}

/// `L1 010: 8M 8M | flags`.
fn region(drawn: &mut Drawn, line: &str) {
    let (place, rest) = line.split_once(':').expect("a colon after the region");
    let (level, at) = place.split_once(' ').expect("a level and a path");
    let level: usize = level.strip_prefix('L').and_then(|n| n.parse().ok()).expect("a level such as L1");
    let at = path(at.trim());
    assert_eq!(at.depth(), drawn.design.depth(level), "the path's length does not fit level {level}");
    let (runs, flags) = rest.split_once('|').unwrap_or((rest, ""));
    let runs: Vec<_> = runs
        .split_whitespace()
        .map(|run| RunShape { bytes: bytes(run), entries: (bytes(run) / 128).max(1), ..RunShape::default() })
        .collect();
    let mut shape = RegionShape { path: at, runs, ..RegionShape::default() };
    for flag in flags.split_whitespace() {
        match flag.split_once('=').unwrap_or((flag, "")) {
            ("unfiltered", n) => drop(drawn.unfiltered.insert((level, at), n.parse().expect("a number"))),
            ("pushes", n) => shape.pushes = n.parse().expect("a number"),
            ("children", _) => shape.has_children = true,
            ("group", size) => shape.largest_group_bytes = bytes(size),
            ("busy", _) => drop(drawn.busy.get_mut().insert((level, at))),
            ("dead", list) => shape.dead_bytes = list.split(',').map(bytes).collect(),
            ("below", size) => shape.below_bytes = bytes(size),
            ("doomed", size) => shape.doomed_bytes = bytes(size),
            ("deleted", list) => {
                let counts = list.split(',').map(|n| n.parse().expect("a number"));
                shape.runs.iter_mut().zip(counts).for_each(|(run, deleted)| run.deleted = deleted);
            }
            ("expired", oldest) => {
                let oldest = oldest.parse().expect("a number");
                shape.runs.iter_mut().rev().take(oldest).for_each(|run| run.is_dead = true);
            }
            _ => panic!("no flag {flag:?}"),
        }
    }
    while drawn.levels.len() <= level {
        drawn.levels.push(BTreeMap::new());
    }
    drawn.levels[level].insert(at, shape);
}

fn words(task: Option<Task>) -> String {
    let Some(task) = task else { return "none".into() };
    let (level, path) = task.region();
    let (name, runs) = match task {
        Task::Push { runs, .. } => ("push", runs),
        Task::Split { runs, .. } => ("split", runs),
        Task::Rewrite { newest, .. } => ("rewrite", newest),
        Task::Gather { .. } => ("gather", 0),
        Task::Drop { oldest, .. } => ("drop", oldest),
    };
    format!("{name} L{level} {path} {runs}")
}

/// Runs one case; returns how many expectations it held.
fn run(case: &str) -> usize {
    let mut drawn = None;
    let mut why = None;
    let mut held = 0;
    for line in case.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(preset) = line.strip_prefix("design ") {
            drawn = Some(Drawn {
                design: design(preset),
                levels: vec![BTreeMap::new()],
                busy: RefCell::default(),
                free_bytes: u64::MAX,
                unfiltered: BTreeMap::new(),
            });
            continue;
        }
        let drawn = drawn.as_mut().expect("a design comes first");
        if let Some(free) = line.strip_prefix("free ") {
            drawn.free_bytes = bytes(free.trim());
            continue;
        }
        match line.strip_prefix("=>").map(str::trim) {
            Some(expected) if expected.starts_with("compact") => {
                let regions = drawn.levels.iter().enumerate();
                let mut regions = regions.flat_map(|(level, all)| all.values().map(move |r| (level, r)));
                let task = regions.find_map(|(level, region)| compact(level, region));
                assert_eq!(words(task), expected["compact".len()..].trim(), "in\n{case}");
                held += 1;
            }
            Some(expected) if expected.starts_with("pressure") => {
                let wanted: f64 = expected["pressure".len()..].trim().parse().expect("a pressure");
                let found = pressure(&drawn.design, drawn);
                assert!((found - wanted).abs() < 5e-4, "pressure is {found}, not {wanted}, in\n{case}");
                held += 1;
            }
            Some(expected) if expected.starts_with("because") => {
                let found: Option<String> = why.take();
                assert_eq!(found.as_deref(), Some(expected["because".len()..].trim()), "in\n{case}");
                held += 1;
            }
            Some(expected) => {
                let task = plan(&drawn.design, drawn);
                assert_eq!(words(task), expected, "in\n{case}");
                if let Some(task) = task {
                    let reason = reason(&drawn.design, drawn, &task);
                    why = Some(reason.expect("every pick has a reason").to_string());
                    drawn.busy.get_mut().insert(task.region());
                }
                held += 1;
            }
            None => region(drawn, line),
        }
    }
    assert!(held > 0, "a case without expectations:\n{case}");
    held
}

fn run_file(name: &str, at_least: usize) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/planner").join(name);
    let text = std::fs::read_to_string(&file).unwrap();
    let cases: Vec<&str> = text.split("\n\n").filter(|case| case.contains("=>")).collect();
    assert!(cases.len() >= at_least, "{name} has lost cases: {} of {at_least}", cases.len());
    cases.iter().for_each(|case| assert!(run(case) > 0));
}

#[test]
fn pushes() {
    run_file("push.txt", 9);
}

#[test]
fn leaves() {
    run_file("leaf.txt", 13);
}

#[test]
fn joins() {
    run_file("join.txt", 5);
}

#[test]
fn staggering() {
    run_file("stagger.txt", 5);
}

#[test]
fn space() {
    run_file("space.txt", 4);
}

#[test]
fn urgency() {
    run_file("urgency.txt", 7);
}

#[test]
fn pressures() {
    run_file("pressure.txt", 8);
}

#[test]
fn deletes() {
    run_file("delete.txt", 16);
}

#[test]
fn reasons() {
    run_file("reason.txt", 9);
}

#[test]
fn every_file_of_cases_is_run() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/planner");
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let run = [
        "delete.txt",
        "join.txt",
        "leaf.txt",
        "pressure.txt",
        "push.txt",
        "reason.txt",
        "space.txt",
        "stagger.txt",
        "urgency.txt",
    ];
    assert_eq!(names, run);
}
