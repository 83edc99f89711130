//! A keyspace that looks for a better design by itself.
//!
//! Whenever enough was done, be it writes or reads, what staying with the present design has cost since is
//! added up. The model says what the design that suits the keyspace's workload best would save
//! (`siltstone_model::advise::weigh`). Where staying has cost more than changing would, the change is
//! proposed, or made.

use super::Scheduler;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::considered::{Search, Since};
use crate::events::{DesignEvent, Event};
use crate::io::processor::thread_time;
use crate::options::AutoDesign;
use crate::stats::ProposedDesign;
use crate::version::designs::Chosen;
use siltstone_design::{Design, Schema};
use siltstone_model::advise::{Change, Request, rewriting_us, weigh};
use siltstone_model::price::Workload;
use std::sync::Arc;

/// The horizon where none is given, in operations for each item.
const HORIZON_PER_ITEM: f64 = 64.0;

/// How skewed reads are taken to be beside writes, as far as their device reads tell.
const READ_SKEWS: [f64; 3] = [1.0, 0.5, 0.0];

/// The skew of reads that explains best what gets have read of late, where writes are skewed.
fn read_skew(request: &Request, present: &Design, since: &Since) -> Option<f64> {
    let (hits, misses, measured) = since.gets().filter(|_| request.workload.skew > 0.0)?;
    let pricer = request.pricer().ok()?;
    let filled = pricer.filled(present, true).ok()?;
    let off = |skew: f64| {
        let costs = filled.costs_where_read(skew, request.memory_bytes).ok()?;
        Some((hits * costs.reads_per_hit + misses * costs.reads_per_miss - measured).abs())
    };
    let skews = READ_SKEWS.map(|share| share * request.workload.skew);
    let judged = skews.into_iter().filter_map(|skew| Some((skew, off(skew)?)));
    judged.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(skew, _)| skew)
}

impl Scheduler {
    /// Looks for better designs of keyspaces with which enough was done since the last look, and says whether
    /// any was changed.
    pub(super) fn consider_designs(&self) -> bool {
        let mode = self.env.options.auto_design;
        if mode == AutoDesign::Off || self.env.health.is_read_only() {
            return false;
        }
        let keyspaces = self.catalog.all();
        keyspaces.iter().any(|keyspace| self.consider_design(keyspace, mode))
    }

    /// Looks for a better design of `keyspace`, where enough was done since the last look.
    fn consider_design(&self, keyspace: &Arc<OpenKeyspace>, mode: AutoDesign) -> bool {
        // Held until the end, so that nobody looks twice at the same.
        let Some(mut considered) = keyspace.considered.try_lock() else { return false };
        let counted = keyspace.counters.activity();
        let present = keyspace.design();
        if keyspace.version().redesign().is_some() || keyspace.open_schema_change().is_some() {
            considered.skip(counted);
            return false;
        }
        let Some(since) = considered.since(&counted) else { return false };
        let stats = keyspace.stats(self.env.now_ms());
        let for_any_schema = stats.schema != Schema::Point;
        let workload = keyspace.workload_of(&stats);
        let mix = considered.mix(&since, &workload.mix, for_any_schema);
        let items_at_end = considered.items_at_end(&since, workload.items);
        let since = if items_at_end.is_some() { since.without_reads() } else { since };
        let workload = Workload { mix, items_at_end, ..workload };
        let total = self.env.memory().total_bytes();
        let budget_bytes = self.catalog.budget_of(total, stats.table_bytes, self.catalog.table_bytes());
        let device = self.env.options.device;
        let mut request = Request { for_any_schema, device, ..Request::quick(workload, budget_bytes) };
        let tables = (stats.table_entries as f64, stats.table_bytes as f64);
        let version = keyspace.version();
        considered.recall(version.history.chosen(), rewriting_us(&device, tables));
        // Telling costs a part of a search.
        let can_tell = considered.has_time_to_search(&since);
        let skew_of_reads = can_tell.then(|| read_skew(&request, &present, &since)).flatten();
        let search = considered.search(&since, (&workload, skew_of_reads), (&present, budget_bytes));
        let Some(search) = search else { return false };
        if search != Search::None {
            let began = thread_time();
            (request.workload.read_skew, request.is_quick) = (skew_of_reads, search == Search::Presets);
            let Ok(change) = weigh(&request, &present, tables) else {
                considered.skip(counted);
                return false;
            };
            let (asked, at) = ((workload, skew_of_reads), ((*present).clone(), budget_bytes));
            considered.note_search(asked, at, change, (search, thread_time().saturating_sub(began)));
        }
        request.workload.read_skew = considered.read_skew();
        let horizon = match self.env.options.design_horizon_operations {
            0 => workload.items * HORIZON_PER_ITEM,
            given => given as f64,
        };
        let Some((mut change, is_due)) = considered.note(&since, horizon) else { return false };
        if change.saved_share <= 0.0 || change.design == *present {
            *keyspace.proposed.lock() = None;
            return false;
        }
        if is_due && considered.has_time_for_more() {
            // Not only presets are looked at. What is nearly as good is as good, and asks less of the model.
            let in_full = weigh(&Request { is_quick: false, ..request }, &present, tables);
            let in_full = in_full.ok().map(|full| since.judge(full));
            change = in_full.filter(|full| full.is_better_than(&change)).unwrap_or(change);
        }
        if is_due {
            considered.note_change(&change, &present);
        }
        *keyspace.proposed.lock() = Some(ProposedDesign::of(&change, is_due));
        is_due && self.propose(keyspace, (change, since.writes_little()), mode)
    }

    /// Proposes a change that is due, or makes it, and says whether it has. Where little is written, what
    /// is there is pushed down with it.
    fn propose(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        (change, pushes_down): (Change, bool),
        mode: AutoDesign,
    ) -> bool {
        let Change { design, saved_share, .. } = change;
        let event = DesignEvent::new(&keyspace.name, &keyspace.design(), &design, Some(saved_share));
        self.reporter.design(|| Event::RedesignProposed(event));
        if mode != AutoDesign::Apply {
            return false;
        }
        let chosen = Chosen::new(saved_share, pushes_down);
        let (schema, takes_merges) = (keyspace.encoder.schema(), keyspace.folder.is_some());
        let usable = self.env.options.usable_design(design, schema, takes_merges);
        // A keyspace that is being built can't be changed; the next look tries again.
        let is_changed =
            usable.and_then(|design| self.redesign(keyspace, &design, Some(chosen))).unwrap_or(false);
        if is_changed {
            *keyspace.proposed.lock() = None;
        }
        is_changed
    }
}
