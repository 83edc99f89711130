//! Filters of regions as edits change the regions' runs.

use super::Version;
use super::edit::{Edit, RunRecord, Step};
use crate::ids::RunId;
use crate::memory::MemoryBudget;
use crate::region_filter::test_run::TestRun;
use crate::region_filter::{Filtered, Means, NewRegionFilter, RegionFilterBuilder, RegionFilterKind};
use siltstone_design::{Design, Encoder, HashSecret, Schema, TriePath};

const LEVEL: usize = 1;

fn path() -> TriePath {
    TriePath::of(0, 4)
}

fn add(id: RunId, replaces: Option<RunId>) -> Step {
    let run = RunRecord { id, tables: Vec::new(), kills: Vec::new() };
    Step::AddRun { level: LEVEL, path: path(), run, replaces }
}

fn remove(run: RunId) -> Step {
    Step::RemoveRun { level: LEVEL, path: path(), run }
}

fn after(version: &Version, steps: Vec<Step>) -> Version {
    let mut open = |_: &_| unreachable!("the runs have no tables");
    version.apply(&Edit { keyspace: 1, steps }, &mut open).unwrap().0
}

/// How many runs the region's filter covers, and how many there are.
fn covered(version: &Version) -> (usize, usize) {
    let region = version.region(path()).unwrap();
    (region.filter.as_ref().map_or(0, |filter| filter.covered()), region.runs.len())
}

/// Whether background work would cover runs of the region.
fn lacks(preset: &str, version: &Version) -> bool {
    let region = version.region(path()).unwrap();
    let memory = MemoryBudget::new(64 << 20);
    let means = Means {
        memory: &memory,
        has_failed: &|_| false,
        made_anew_with: &|_| 0,
        kept_for_top: 0,
        has_time: true,
        is_calm: true,
    };
    // Runs without tables have no entries, and nothing is made for them.
    let runs: Vec<TestRun> = region.runs.iter().map(|run| TestRun(run.id)).collect();
    kind(preset).lack(region.filter.as_deref(), &runs, &means).is_some()
}

fn kind(preset: &str) -> RegionFilterKind {
    RegionFilterKind::of(Design::preset(preset).unwrap().level(LEVEL), false).unwrap()
}

/// A version of one region with runs 1 to 5, and a filter over all of them.
fn filtered(preset: &str) -> Version {
    let mut version = after(&Version::default(), (1..=5).map(|id| add(id, None)).collect());
    let memory = MemoryBudget::new(64 << 20);
    let region = version.region(path()).unwrap();
    let region = Filtered { path: path(), runs: &region.runs, present: None };
    let (mut builder, places) = RegionFilterBuilder::for_missing(kind(preset), &region, 0, &memory).unwrap();
    assert_eq!(places, 0..5);
    let encoder = Encoder::new(Schema::Point, HashSecret([1; 16]));
    for run in 1..=5u64 {
        for key in run * 10..run * 10 + 10 {
            builder.add(&encoder.encode(&key.to_be_bytes()).unwrap(), 0, 10);
        }
        builder.end_run(run, std::iter::empty(), 1_000);
    }
    let filter = builder.finish(&memory).unwrap();
    version.filter_by(&[NewRegionFilter::new(path(), filter)]);
    assert_eq!(covered(&version), (5, 5));
    version
}

#[test]
fn a_filter_stays_with_the_runs_that_a_push_leaves() {
    for preset in ["siltstone", "slimdb"] {
        let version = filtered(preset);
        // Runs that were flushed meanwhile lie on top; those pushed leave in any order.
        for pushed in [[3, 2, 1], [1, 2, 3], [2, 1, 3]] {
            let mut steps: Vec<Step> = pushed.into_iter().map(remove).collect();
            steps.push(Step::Pushed { level: LEVEL, path: path(), pushes: 1 });
            steps.push(add(6, None));
            assert_eq!(covered(&after(&version, steps)), (2, 3), "{preset}: {pushed:?}");
        }
        // One that can't forget what left is made anew, although it covers what is left.
        let left = after(&version, [3, 2, 1].map(remove).to_vec());
        assert_eq!(covered(&left), (2, 2));
        assert_eq!(lacks(preset, &left), preset == "slimdb");
        assert!(!lacks(preset, &version));
        // A gap is no push, and nothing is said of what lies below.
        assert_eq!(covered(&after(&version, vec![remove(3)])), (0, 4), "{preset}");
    }
}

#[test]
fn a_filter_follows_runs_that_are_merged_in_place() {
    for preset in ["siltstone", "slimdb"] {
        let version = filtered(preset);
        let steps = vec![add(9, Some(5)), remove(5), remove(4)];
        let mut next = after(&version, steps.clone());
        assert_eq!(covered(&next), (0, 4), "{preset}");
        next.filter_by(&version.filters_after_rewrites(&steps, &MemoryBudget::new(64 << 20)));
        assert_eq!(covered(&next), (4, 4), "{preset}");
    }
}
