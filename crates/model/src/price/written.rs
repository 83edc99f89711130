//! What a store has written, and the space that it has taken, while it was filled.

use siltstone_design::LevelSpec;

/// Bytes on disk over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Space {
    sum: f64,
    samples: f64,
    pub peak_bytes: f64,
}

impl Space {
    pub fn note(&mut self, bytes: f64) {
        self.sum += bytes;
        self.samples += 1.0;
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    pub fn mean_bytes(&self) -> f64 {
        self.sum / self.samples.max(1.0)
    }
}

/// Runs that came into regions which merged nothing in place afterwards: only joins would write them again
/// there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Apart {
    pub bytes: f64,
    pub runs: f64,
}

impl Apart {
    pub fn and(self, more: Self) -> Self {
        Self { bytes: self.bytes + more.bytes, runs: self.runs + more.runs }
    }

    pub fn since(self, before: Self) -> Self {
        Self { bytes: self.bytes - before.bytes, runs: self.runs - before.runs }
    }

    /// What is written again of them where runs are joined, as a binary counter carries: with every second
    /// run of a region, all that are no larger than the younger ones together, but for the last one, with
    /// which the region is full and pushed.
    fn joined_bytes(self, spec: &LevelSpec) -> f64 {
        let full = (spec.region_bytes() as f64 * self.runs / self.bytes).round();
        let runs = full.clamp(1.0, MOST_JOINED) as u64;
        let joined: u64 = (2..runs).step_by(2).map(|number| 1 << number.trailing_zeros()).sum();
        self.bytes * joined as f64 / runs as f64
    }
}

/// Runs of a region that are counted at most.
const MOST_JOINED: f64 = 4096.0;

/// What was written into a level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub bytes: f64,
    pub entries: f64,
    /// Entries times the logarithm of the runs that they were merged from.
    pub compared: f64,
    /// Bytes that were read for it.
    pub read_bytes: f64,
    /// Runs.
    pub runs: f64,
    pub apart: Apart,
    /// Entries whose keys an older run of their region had, where it had some.
    pub present: f64,
}

impl Written {
    /// The same where a share of the regions of a level `spec` join their runs: of what comes apart each
    /// byte is written as often again as its run is joined, two runs at a time, and all entries and runs are
    /// taken to be as large.
    pub fn with_joins(&self, share: f64, spec: &LevelSpec) -> Self {
        if share <= 0.0 || self.apart.bytes <= 0.0 {
            return *self;
        }
        let more_bytes = share * self.apart.joined_bytes(spec);
        let more = more_bytes / self.bytes;
        Self {
            bytes: self.bytes + more_bytes,
            entries: self.entries * (1.0 + more),
            compared: self.compared + self.entries * more,
            read_bytes: self.read_bytes + more_bytes,
            runs: self.runs * (1.0 + more / 2.0),
            ..*self
        }
    }

    /// What was written since it was so much.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            entries: self.entries - before.entries,
            compared: self.compared - before.compared,
            read_bytes: self.read_bytes - before.read_bytes,
            runs: self.runs - before.runs,
            apart: self.apart.since(before.apart),
            present: self.present - before.present,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_design::plan::plan;
    use siltstone_design::{RegionShape, RunShape, Shape, Task, TriePath, presets};

    /// A region of level 0 that has no filter, since memory is short.
    struct Unfiltered(RegionShape);

    impl Shape for Unfiltered {
        fn level_count(&self) -> usize {
            1
        }

        fn visit_regions(&self, _: usize, visit: &mut dyn FnMut(&RegionShape)) {
            visit(&self.0);
        }

        fn is_busy(&self, _: usize, _: TriePath) -> bool {
            false
        }

        fn unfiltered_runs(&self, _: usize, _: TriePath) -> usize {
            self.0.runs.len()
        }
    }

    #[test]
    fn joins_write_what_the_planner_lets_them_write() {
        let design = presets::siltstone();
        let level = design.level(0);
        for runs in 1..=64 {
            let bytes = level.region_bytes().div_ceil(runs);
            let run = RunShape { bytes, entries: 1000, ..RunShape::default() };
            let mut region = Unfiltered(RegionShape { has_children: true, ..RegionShape::default() });
            let (mut came, mut joined) = (0, 0);
            loop {
                region.0.runs.insert(0, run);
                came += run.bytes;
                match plan(&design, &region) {
                    Some(Task::Rewrite { newest, .. }) => {
                        let bytes = region.0.runs.drain(..newest).map(|run| run.bytes).sum();
                        region.0.runs.insert(0, RunShape { bytes, ..run });
                        joined += bytes;
                    }
                    Some(_) => break,
                    None => {}
                }
            }
            let apart = Apart { bytes: came as f64, runs: runs as f64 };
            let written = Written { bytes: 2.0 * came as f64, apart, ..Written::default() };
            let more = written.with_joins(0.5, level).bytes - written.bytes;
            assert!((more - joined as f64 / 2.0).abs() < 1.0, "{runs} runs: {joined} of {came}, {more}");
        }
    }

    #[test]
    fn what_is_merged_is_not_joined() {
        let written = Written { bytes: 1e9, entries: 1e7, runs: 100.0, ..Written::default() };
        let joined = written.with_joins(1.0, presets::siltstone().level(0));
        assert_eq!([joined.bytes, joined.entries, joined.runs], [1e9, 1e7, 100.0]);
    }
}
