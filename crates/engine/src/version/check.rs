//! The invariants of a version, checked after every edit in tests and debug builds, and by `verify`.

use super::version::Version;
use std::collections::HashSet;

/// What is wrong with `version`; empty where it is sound. While a redesign is under way there may be levels
/// and runs that its design does not have.
pub(crate) fn problems(version: &Version) -> Vec<String> {
    let is_settled = version.redesign().is_none();
    let mut problems = Vec::new();
    let (mut runs_seen, mut tables_seen) = (HashSet::new(), HashSet::new());
    let mut above = None;
    for level in &version.levels {
        let (number, depth) = (version.shown_number(level.depth), level.depth);
        let spec = version.spec_at(depth);
        if spec.is_none() && is_settled {
            problems.push(format!("there is a level of {depth} bits, which the design has not"));
        }
        if above.is_some_and(|above| above >= depth) {
            problems.push(format!("the level of {depth} bits is out of order"));
        }
        above = Some(depth);
        let mut previous = None;
        for region in &level.regions {
            let path = region.path;
            let mut report = |what: String| problems.push(format!("level {number}, region {path}: {what}"));
            if path.depth() != depth {
                report(format!("its depth is {}, the level's is {depth}", path.depth()));
            }
            if previous.is_some_and(|before| before >= path.first()) {
                report("it is out of order".into());
            }
            previous = Some(path.first());
            if spec.is_some_and(|spec| spec.runs == 1) && region.runs.len() > 1 && is_settled {
                report(format!("{} runs in a leveled region", region.runs.len()));
            }
            if region.shape.has_children != version.has_children(path) {
                report("it is wrong about its children".into());
            }
            for run in &region.runs {
                if !runs_seen.insert(run.id) {
                    report(format!("run {} is there twice", run.id));
                }
                if run.tables.is_empty() {
                    report(format!("run {} is empty", run.id));
                }
                let mut last = None;
                for table in &run.tables {
                    let meta = table.meta();
                    if !tables_seen.insert(meta.id) {
                        report(format!("table {} is there twice", meta.id));
                    }
                    if !(path.contains(meta.first.0.hi) && path.contains(meta.last.0.hi))
                        || meta.first > meta.last
                    {
                        report(format!("table {} lies outside it or ends before it starts", meta.id));
                    }
                    if last.as_ref().is_some_and(|last| *last >= &meta.first) {
                        report(format!("table {} overlaps the one before it", meta.id));
                    }
                    last = Some(&meta.last);
                }
            }
        }
    }
    problems
}
