//! Makes a run's row of a Bloom cluster, and says what a cluster lacks.

use super::super::lack::{Lack, Means};
use super::super::run::FilteredRun;
use super::cluster::{BloomCluster, HeldRow};
use crate::ids::RunId;
use crate::memory::{Holder, MemoryBudget, Reservation};
use siltstone_design::{EncodedKey, TriePath};
use siltstone_succinct::buckets::spread::Spread;
use siltstone_succinct::filter::bloom_cluster::{KEYS_PER_COLUMN, RowBuilder};
use std::sync::Arc;

/// Bytes that a row's builder takes for a key: its fingerprint, and a part of its column's end.
const BUILDER_KEY_BYTES: u64 = 9;
/// Bytes that have to be free for each key of a row to be made, builder and row together.
const FREE_KEY_BYTES: u64 = 12;
/// Part of all filters, as a divisor, that rows in memory may be before a file is due.
const HELD_PART: u64 = 3;

/// What the Bloom clusters of a level are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClusterSettings {
    pub bits_per_key: u8,
}

impl ClusterSettings {
    /// Returns what `present`, the cluster of a region with `runs` (newest first), lacks of what can be had.
    pub fn lack(
        self,
        present: Option<&BloomCluster>,
        runs: &[impl FilteredRun],
        means: &Means<'_>,
    ) -> Option<Lack> {
        let can_make = |at: &usize| {
            runs.get(*at).is_some_and(|run| {
                let room = means.memory.room_for(Holder::Compaction);
                run.entries() > 0 && !(means.has_failed)(run.id()) && room > run.entries() * FREE_KEY_BYTES
            })
        };
        let unknown = match present {
            Some(cluster) => cluster.unknown().find(can_make),
            None => (0..runs.len()).find(can_make),
        };
        if let Some(at) = unknown {
            return Some(Lack::Run(at));
        }
        let bytes = present?.row_bytes();
        let is_due = bytes.held * HELD_PART >= bytes.filed || means.has_time;
        // Whoever failed to write tries again when the region has another run.
        let has_failed = runs.first().is_some_and(|newest| (means.has_failed)(newest.id()));
        (bytes.held > 0 && is_due && !has_failed).then_some(Lack::File)
    }
}

/// Makes the row of a run whose keys come in the store's order.
pub(crate) struct ClusterBuilder {
    spread: Spread,
    builder: RowBuilder,
    /// The run, once it was ended.
    run: Option<RunId>,
    _held: Reservation,
}

impl ClusterBuilder {
    /// A builder for a run of about `keys` keys in region `path`, in the columns of the cluster that is there
    /// if one is; `None` where memory is short.
    pub fn new(
        settings: ClusterSettings,
        path: TriePath,
        present: Option<&BloomCluster>,
        keys: u64,
        memory: &Arc<MemoryBudget>,
    ) -> Option<Self> {
        let held = memory.try_hold(Holder::Compaction, keys.saturating_mul(BUILDER_KEY_BYTES))?;
        let columns = present.map_or_else(
            || (keys / KEYS_PER_COLUMN).clamp(1, u64::from(u32::MAX >> 8)) as u32,
            BloomCluster::columns,
        );
        let spread = Spread::new(path.first(), path.last(), columns);
        Some(Self {
            spread,
            builder: RowBuilder::new(columns, settings.bits_per_key),
            run: None,
            _held: held,
        })
    }

    /// Whether it can take a run.
    pub fn has_room(&self) -> bool {
        self.run.is_none()
    }

    #[inline]
    pub fn add(&mut self, key: &EncodedKey<'_>) {
        debug_assert!(self.run.is_none(), "a row is of one run");
        self.builder.insert(self.spread.bucket(key.digest.hi), key.fingerprint);
    }

    /// Ends the run.
    pub fn end_run(&mut self, run: RunId) {
        assert!(self.run.is_none(), "a row is of one run, and this one has ended");
        self.run = Some(run);
    }

    /// Returns a cluster of the run's row; `None` where memory is short.
    pub fn finish(self, memory: &Arc<MemoryBudget>) -> Option<BloomCluster> {
        let run = self.run?;
        let row = HeldRow::new(self.builder.finish(), memory)?;
        Some(BloomCluster::of_row(self.spread, run, row))
    }
}
