//! What the model predicts of a keyspace beside what was measured, and why the two are apart where they are.
//!
//! The prediction is for the workload that the keyspace has had (`workload.rs`), so it is only off where
//! something is not as the model takes it to be: work that is behind, a cache that has not filled, a workload
//! that changed, so that tables written before are not as those of now. Each of these leaves a trace that is
//! looked for; the first that explains the figure is named.

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::predicted::{Asked, Predicted};
use super::catalog::shape::VersionShape;
use super::store::Store;
use crate::activity::Count;
use crate::memory::Holder;
use crate::stats::{Drift, DriftCause, Figures, KeyspaceStats};
use siltstone_design::plan;
use siltstone_model::advise::rewriting_us;
use siltstone_model::price::{Costs, Workload};
use std::sync::Arc;

/// Flushes from which on anything is predicted.
const LEAST_FLUSHES: u64 = 4;
/// Gets from which on their reads mean something.
const LEAST_GETS: u64 = 256;
/// What a figure may be off: a share, and for reads this besides.
const SHARE: f64 = 0.15;
const READS: f64 = 0.05;
/// Share of the predicted cache below which it has not filled, and of filters and indexes below which they
/// are not loaded.
const FILLED: f64 = 0.8;
/// How different sizes and skews are that explain anything.
const OTHER_SIZE: f64 = 0.2;
const OTHER_SKEW: f64 = 0.15;
/// The share of what was written, or read, before the last redesign or change of schema from which on figures
/// are of two designs, or of a copy.
const OF_BEFORE: f64 = 0.1;
/// How much longer a history may be than the one that is priced before only its later part counts.
const LONGER: f64 = 1.05;

impl Store {
    /// Returns what is counted of a keyspace, with what is predicted of it.
    pub(super) fn keyspace_stats(&self, keyspace: &OpenKeyspace) -> KeyspaceStats {
        self.with_prediction(keyspace, keyspace.stats(self.env.now_ms()), || self.catalog.table_bytes())
    }

    /// The same of all keyspaces.
    pub(super) fn all_keyspace_stats(&self) -> Vec<KeyspaceStats> {
        let (keyspaces, now_ms) = (self.catalog.all(), self.env.now_ms());
        let stats: Vec<_> = keyspaces.iter().map(|keyspace| keyspace.stats(now_ms)).collect();
        let table_bytes = stats.iter().map(|stats| stats.table_bytes).sum();
        let both = keyspaces.iter().zip(stats);
        both.map(|(keyspace, stats)| self.with_prediction(keyspace, stats, || table_bytes)).collect()
    }

    /// Adds what is predicted of a keyspace, in a store whose tables have `table_bytes` in all.
    fn with_prediction(
        &self,
        keyspace: &OpenKeyspace,
        mut stats: KeyspaceStats,
        table_bytes: impl FnOnce() -> u64,
    ) -> KeyspaceStats {
        let predicted = self.predicted(keyspace, &stats, table_bytes);
        let workload = predicted.as_ref().map(|predicted| predicted.workload);
        stats.measured = measured(keyspace, &stats, workload.as_ref());
        if let Some(redesign) = &mut stats.redesign {
            let bytes = redesign.remaining_bytes as f64;
            let entries = stats.table_entries as f64 * bytes / (stats.table_bytes.max(1)) as f64;
            redesign.remaining_us = rewriting_us(&self.env.options.device, (entries, bytes));
        }
        if let Some(predicted) = predicted
            && let Some(costs) = &predicted.costs
        {
            stats.predicted = figures(keyspace, &predicted.workload, costs);
            stats.drift =
                Judge { store: self, keyspace, stats: &stats, predicted: &predicted, costs }.drift();
        }
        stats
    }

    /// The memory budget under which the figures of a keyspace came about: where the store was only opened to
    /// look at it, that of whoever wrote to it.
    fn priced_budget_bytes(&self, stats: &KeyspaceStats) -> u64 {
        match self.noted_budget_bytes {
            noted if noted > 0 && self.is_looked_at(stats) => noted,
            _ => self.env.memory().total_bytes(),
        }
    }

    /// Whether the figures of a keyspace came about before it was opened.
    fn is_looked_at(&self, stats: &KeyspaceStats) -> bool {
        self.env.health.is_read_only() && stats.gets + stats.scans == 0
    }

    /// Returns what the model says of a keyspace, asked again only where enough has happened.
    fn predicted(
        &self,
        keyspace: &OpenKeyspace,
        stats: &KeyspaceStats,
        table_bytes: impl FnOnce() -> u64,
    ) -> Option<Arc<Predicted>> {
        let activity = keyspace.activity();
        if activity.of(Count::AllFlushes) < LEAST_FLUSHES || stats.table_entries == 0 {
            return None;
        }
        let total = self.priced_budget_bytes(stats);
        let budget = self.catalog.budget_of(total, stats.table_bytes, table_bytes());
        let asked = Asked::new(&keyspace.design(), budget, &activity);
        let mut kept = keyspace.predicted.lock();
        if let Some(known) = kept.as_ref().filter(|known| known.answers(&asked)) {
            return Some(Arc::clone(known));
        }
        let predicted = Arc::new(Predicted::new(asked, keyspace.workload_of(stats), self.env.options.device));
        *kept = Some(Arc::clone(&predicted));
        Some(predicted)
    }
}

/// What was measured of what is predicted.
fn measured(keyspace: &OpenKeyspace, stats: &KeyspaceStats, workload: Option<&Workload>) -> Figures {
    let (version, activity) = (keyspace.version(), keyspace.activity());
    let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
    let written: u64 = stats.levels.iter().map(|level| level.bytes_written).sum();
    let misses = stats.gets - stats.get_hits.min(stats.gets);
    let in_tables = stats.items_estimate.saturating_sub(stats.write_buffer_entries);
    let item_bytes = workload.map(Workload::item_bytes);
    Figures {
        write_amplification: ratio(written, version.user_bytes),
        reads_per_hit: ratio(stats.device_reads_by_hits, stats.get_hits)
            .or_else(|| activity.ratio(Count::ReadsByHits, Count::Hits)),
        reads_per_miss: ratio(stats.device_reads_by_misses, misses)
            .or_else(|| activity.ratio(Count::ReadsByMisses, Count::Misses)),
        reads_per_scan: ratio(stats.device_reads_by_scans, stats.scans)
            .or_else(|| activity.ratio(Count::ReadsByScans, Count::Scans).filter(|reads| *reads > 0.0)),
        memory_bytes: (stats.table_entries > 0).then(|| (stats.filter_bytes + stats.index_bytes) as f64),
        space_amplification: item_bytes
            .filter(|_| in_tables > 0)
            .map(|item_bytes| stats.table_bytes as f64 / (in_tables as f64 * item_bytes)),
    }
}

/// The same as predicted.
fn figures(keyspace: &OpenKeyspace, workload: &Workload, costs: &Costs) -> Figures {
    let activity = keyspace.activity();
    let writes = (activity.of(Count::AllPuts) + activity.of(Count::AllDeletes)) as f64;
    // A keyspace that was overwritten for long is priced as one that was so a few times.
    let is_longer = writes > LONGER * (workload.items + workload.changes());
    let written = if is_longer { costs.change_write_amplification } else { costs.write_amplification };
    let memory = &costs.memory_bytes;
    Figures {
        write_amplification: Some(written - costs.log_amplification),
        reads_per_hit: Some(costs.reads_per_hit),
        reads_per_miss: Some(costs.reads_per_miss),
        reads_per_scan: (workload.mix.scans > 0.0).then_some(costs.reads_per_scan),
        memory_bytes: Some(memory.filter + memory.index + memory.unfitted()),
        space_amplification: Some(costs.space_amplification),
    }
}

/// What a figure is about.
#[derive(Clone, Copy, PartialEq)]
enum About {
    Writes,
    Hits,
    Misses,
    Scans,
    Memory,
    Space,
}

/// Looks for figures that are off, and for why.
struct Judge<'a> {
    store: &'a Store,
    keyspace: &'a OpenKeyspace,
    stats: &'a KeyspaceStats,
    predicted: &'a Predicted,
    costs: &'a Costs,
}

impl Judge<'_> {
    fn drift(&self) -> Vec<Drift> {
        let (measured, predicted) = (&self.stats.measured, &self.stats.predicted);
        let activity = self.keyspace.activity();
        let has = |count: Count, counted: u64| counted.max(activity.of(count)) >= LEAST_GETS;
        let misses = self.stats.gets - self.stats.get_hits.min(self.stats.gets);
        let pair = |of: fn(&Figures) -> Option<f64>| of(measured).zip(of(predicted));
        let figures = [
            ("write_amplification", About::Writes, pair(|f| f.write_amplification), true),
            ("reads_per_hit", About::Hits, pair(|f| f.reads_per_hit), has(Count::Hits, self.stats.get_hits)),
            ("reads_per_miss", About::Misses, pair(|f| f.reads_per_miss), has(Count::Misses, misses)),
            ("reads_per_scan", About::Scans, pair(|f| f.reads_per_scan), has(Count::Scans, self.stats.scans)),
            ("memory_bytes", About::Memory, pair(|f| f.memory_bytes), true),
            ("space_amplification", About::Space, pair(|f| f.space_amplification), true),
        ];
        let off = figures.into_iter().filter(|figure| figure.3).filter_map(|(field, about, pair, _)| {
            let (measured, predicted) = pair?;
            let besides =
                if matches!(about, About::Hits | About::Misses | About::Scans) { READS } else { 0.0 };
            let is_off = (measured - predicted).abs() > besides + SHARE * measured.abs();
            is_off.then(|| (field.to_owned(), about, measured, predicted))
        });
        off.map(|(field, about, measured, predicted)| {
            let cause = self.cause(about, measured, predicted);
            Drift { field, measured, predicted, cause }
        })
        .collect()
    }

    /// The first thing found that explains why a figure is off.
    fn cause(&self, about: About, measured: f64, predicted: f64) -> DriftCause {
        let is_read = matches!(about, About::Hits | About::Misses | About::Scans);
        if self.stats.redesign.as_ref().is_some_and(|redesign| redesign.done < 1.0) {
            return DriftCause::Redesign;
        }
        let before = match about {
            About::Writes | About::Space => self.written_before(),
            About::Hits | About::Misses | About::Scans => self.read_before(),
            About::Memory => None,
        };
        let cold = || if is_read && measured > predicted { self.cold() } else { None };
        if let Some(cause) = before.or_else(cold) {
            return cause;
        }
        if about != About::Memory && self.is_behind() {
            return DriftCause::WorkBehind;
        }
        self.changed().or_else(|| self.read_skew(about, measured)).unwrap_or(DriftCause::Unknown)
    }

    /// How much was written before the last redesign, or was copied, where that is a good part.
    fn written_before(&self) -> Option<DriftCause> {
        let version = self.keyspace.version();
        let visible = self.store.catalog.visible().max(1) as f64;
        let redesigned = version.history.changes().last().map_or(0.0, |last| last.sequence as f64 / visible);
        let copied = self.keyspace.activity().ratio(Count::CopiedPuts, Count::AllPuts).unwrap_or(0.0);
        let (share, cause) = if copied < redesigned {
            (redesigned, DriftCause::EarlierDesign { share: redesigned })
        } else {
            (copied, DriftCause::Copied { share: copied })
        };
        (share > OF_BEFORE).then_some(cause)
    }

    /// How much was read before the last redesign was over, where that is a good part.
    fn read_before(&self) -> Option<DriftCause> {
        let share = self.keyspace.share_read_before();
        (share > OF_BEFORE).then_some(DriftCause::EarlierDesign { share })
    }

    /// Whether there is work that is due.
    fn is_behind(&self) -> bool {
        let version = self.keyspace.version();
        self.keyspace.pressure() > 0.0
            || !self.keyspace.view.load().sealed.is_empty()
            || plan::plan(&version.design, &VersionShape::of_sizes(&version)).is_some()
    }

    /// What is not in memory that the model takes to be there.
    fn cold(&self) -> Option<DriftCause> {
        if self.store.is_looked_at(self.stats) {
            // What is in memory now says nothing of then.
            return None;
        }
        let held = |holder| self.store.env.memory().held_bytes(holder) as f64;
        let memory = &self.costs.memory_bytes;
        if held(Holder::Filter) + held(Holder::Index) < FILLED * (memory.filter + memory.index) {
            return Some(DriftCause::FiltersNotLoaded);
        }
        let (bytes, of_bytes) = (self.store.env.reader.cached_bytes(), memory.cache as u64);
        ((bytes as f64) < FILLED * memory.cache).then_some(DriftCause::ColdCache { bytes, of_bytes })
    }

    /// What of the workload is not as it was.
    fn changed(&self) -> Option<DriftCause> {
        let activity = self.keyspace.activity();
        // Of puts, as before: flushes, which tell sizes apart, know of one put for each key.
        let now = self.predicted.workload.key_bytes + self.predicted.workload.value_bytes;
        let before = activity.ratio(Count::AllBytes, Count::AllPuts).unwrap_or(now);
        if (now - before).abs() > OTHER_SIZE * before {
            return Some(DriftCause::ItemSize { before, now });
        }
        let (before, now) =
            (self.keyspace.skew_of_all_time(self.predicted.workload.items), self.predicted.workload.skew);
        ((now - before).abs() > OTHER_SKEW).then_some(DriftCause::Skew { before, now })
    }

    /// Another skew of reads that explains them.
    fn read_skew(&self, about: About, measured: f64) -> Option<DriftCause> {
        let (reads, taken) = (about == About::Hits).then(|| self.predicted.read_skew_for(measured))??;
        let writes = self.predicted.workload.skew;
        let explains = (taken - measured).abs() <= READS + SHARE * measured;
        (explains && (reads - writes).abs() > OTHER_SKEW).then_some(DriftCause::ReadSkew { reads, writes })
    }
}
