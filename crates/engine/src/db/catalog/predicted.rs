//! What the model says of a keyspace, kept until enough has happened for it to say something else.

use crate::activity::{Activity, Count};
use crate::sync::OnceLock;
use siltstone_design::Design;
use siltstone_model::price::{Costs, Device, Workload, price};
use std::sync::Arc;

/// The part by which a number may change before the model is asked again.
const PART: u64 = 16;
/// Zipf exponents of reads that are tried to explain what was measured.
const READ_SKEWS: [f64; 7] = [0.0, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3];

/// What a prediction is for.
#[derive(Clone)]
pub(crate) struct Asked {
    design: Arc<Design>,
    budget_bytes: u64,
    flushes: u64,
    merges: u64,
    operations: u64,
}

impl Asked {
    pub fn new(design: &Arc<Design>, budget_bytes: u64, activity: &Activity) -> Self {
        Self {
            design: Arc::clone(design),
            budget_bytes,
            flushes: activity.of(Count::AllFlushes),
            merges: activity.of(Count::BottomEntries) + activity.of(Count::PushedOnce),
            operations: activity.operations(),
        }
    }

    /// Whether the answer to `other` is one to this as well.
    fn is_about(&self, other: &Self) -> bool {
        let near = |a: u64, b: u64| a.abs_diff(b) <= a.max(b) / PART;
        Arc::ptr_eq(&self.design, &other.design)
            && near(self.budget_bytes, other.budget_bytes)
            && near(self.flushes, other.flushes)
            && near(self.merges, other.merges)
            && near(self.operations, other.operations)
    }
}

/// What the model says.
pub(crate) struct Predicted {
    asked: Asked,
    pub workload: Workload,
    device: Device,
    /// None where the model can't say.
    pub costs: Option<Costs>,
    by_read_skew: OnceLock<Vec<(f64, f64)>>,
}

impl Predicted {
    /// Prices the design for `workload` on `device`.
    pub fn new(asked: Asked, workload: Workload, device: Device) -> Self {
        let costs = price(&asked.design, &workload, &device, asked.budget_bytes).ok();
        Self { asked, workload, device, costs, by_read_skew: OnceLock::new() }
    }

    /// Whether it answers `asked` as well.
    pub fn answers(&self, asked: &Asked) -> bool {
        self.asked.is_about(asked)
    }

    /// The skew of reads with which they would take about as many from the device as they do.
    pub fn read_skew_for(&self, reads_per_hit: f64) -> Option<(f64, f64)> {
        let by_skew = self.by_read_skew.get_or_init(|| {
            let priced = READ_SKEWS.iter().filter_map(|skew| {
                let workload = Workload { read_skew: Some(*skew), ..self.workload };
                let costs = price(&self.asked.design, &workload, &self.device, self.asked.budget_bytes);
                Some((*skew, costs.ok()?.reads_per_hit))
            });
            priced.collect()
        });
        let off = |reads: f64| (reads - reads_per_hit).abs();
        by_skew.iter().copied().min_by(|a, b| off(a.1).total_cmp(&off(b.1)))
    }
}
