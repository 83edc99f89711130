//! A keyspace that looks for a better design by itself.
//!
//! After a flush, once enough was done since the last look, the model is asked what the design that suits the
//! keyspace's workload best would save (`siltstone_model::advise::weigh`). Where staying has cost more than
//! changing would, the change is proposed, or made.

use super::Scheduler;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::events::{DesignEvent, Event};
use crate::options::AutoDesign;
use crate::stats::ProposedDesign;
use siltstone_design::Schema;
use siltstone_model::advise::{Change, Request, weigh};
use std::sync::Arc;

/// Operations between two looks: so many, and one for so many items.
const LEAST_OPERATIONS: u64 = 1 << 14;
const ITEMS_PER_OPERATION: u64 = 8;
/// The horizon where none is given, in operations for each item.
const HORIZON_PER_ITEM: f64 = 64.0;

impl Scheduler {
    /// Looks for a better design of `keyspace`, where it is to and enough was done since the last look.
    pub(super) fn consider_design(&self, keyspace: &Arc<OpenKeyspace>) {
        let mode = self.env.options.auto_design;
        if mode == AutoDesign::Off || keyspace.version().redesign().is_some() {
            return;
        }
        let Some((change, operations)) = self.weigh_change(keyspace) else { return };
        let mut considered = keyspace.considered.lock();
        let horizon = match self.env.options.design_horizon_operations {
            0 => considered.items * HORIZON_PER_ITEM,
            given => given as f64,
        };
        let is_due = considered.regret.note(&change, operations, horizon);
        let present = keyspace.design();
        if change.saved_share <= 0.0 || change.design == *present {
            considered.proposed = None;
            return;
        }
        considered.proposed = Some(ProposedDesign::of(&change, is_due));
        drop(considered);
        if !is_due {
            return;
        }
        let Change { design, saved_share, .. } = change;
        let event = DesignEvent::new(&keyspace.name, &present, &design, Some(saved_share));
        self.reporter.design(|| Event::RedesignProposed(event));
        if mode == AutoDesign::Apply {
            let (schema, takes_merges) = (keyspace.encoder.schema(), keyspace.folder.is_some());
            let usable = self.env.options.usable_design(design, schema, takes_merges);
            // A keyspace that is being built can't be changed; the next look tries again.
            if usable.and_then(|design| self.redesign(keyspace, &design)).unwrap_or(false) {
                keyspace.considered.lock().proposed = None;
            }
        }
    }

    /// Asks the model for a better design, and says how many operations that is about.
    fn weigh_change(&self, keyspace: &OpenKeyspace) -> Option<(Change, f64)> {
        let done = keyspace.counters.activity().operations();
        let operations = {
            let considered = keyspace.considered.lock();
            let operations = done - considered.at_operations.min(done);
            let least = LEAST_OPERATIONS.max(considered.items as u64 / ITEMS_PER_OPERATION);
            (operations >= least).then_some(operations)?
        };
        let stats = keyspace.stats(self.env.now_ms());
        let workload = keyspace.workload_of(&stats);
        {
            let mut considered = keyspace.considered.lock();
            considered.at_operations = done;
            considered.items = workload.items;
        }
        let budget = self.catalog.budget_of(stats.table_bytes, self.catalog.table_bytes());
        let request =
            Request { for_any_schema: stats.schema != Schema::Point, ..Request::quick(workload, budget) };
        let tables = (stats.table_entries as f64, stats.table_bytes as f64);
        let change = weigh(&request, &keyspace.design(), tables).ok()?;
        Some((change, operations as f64))
    }
}
