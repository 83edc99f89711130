//! Whether a store is being loaded or only updated, and who writes what while it is loaded.
//!
//! A store that is loaded from nothing writes less than one that takes updates, since the levels it will have
//! are not there or not full yet; a prediction has to be for the right one of the two. RocksDB's LOG tells:
//! it began with an empty store, and writes since were not many times what the store holds now.
//!
//! *Ours*: two counts give the popularity of what is loaded. What a flush keeps of its writes says how often
//! keys repeat at short range, what the store holds in the end how often they repeat at long range; uniform
//! keys repeat alike at both. So the number of keys that will ever be written, most of which may not have
//! been yet, and the Zipf skew follow.

use super::log::LogSummary;
use super::workload::{ItemBytes, MOST_SKEW};
use crate::{Direct, ModelError, Popularity, Primitives};
use serde::Serialize;

/// What the writes do that a prediction is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Course {
    /// They update a store that holds all keys.
    Updates,
    /// They fill an empty store.
    Load {
        /// How many.
        requests: f64,
    },
}

impl Course {
    /// Keys that the store holds in the end, in units of the popularity's weights.
    pub fn live(self, keys: &impl Primitives) -> f64 {
        match self {
            Self::Updates => keys.total(),
            Self::Load { requests } => keys.unique(requests),
        }
    }
}

/// A load with more writes than so many times what is there in the end is mostly updates.
const MOST_REQUESTS_PER_ITEM: f64 = 3.0;
/// From this share of moved tables on, the load was in key order, which hardly rewrites anything.
const ORDERED_MOVES: f64 = 0.5;

/// A load, as the LOG shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    /// Writes.
    pub requests: f64,
    /// Entries in all tables at the end: a little more than there are keys.
    items: f64,
    /// Writes per flush, and the share of them that it kept.
    per_flush: f64,
    kept: f64,
}

impl Loaded {
    /// What the LOG says of a load, if it shows one; the second is true where it was in key order.
    pub fn of(log: &LogSummary, item: ItemBytes) -> Option<(Self, bool)> {
        let events = &log.events;
        let items = log.levels.iter().map(|level| level.bytes).sum::<f64>() / item.table;
        let requests = events.flush_requests;
        let is_load = events.began_empty == Some(true) && items >= 1.0 && events.flushes > 0.0;
        if !is_load || requests > MOST_REQUESTS_PER_ITEM * items {
            return None;
        }
        let ordered = events.moved_bytes > ORDERED_MOVES * events.flushed_bytes;
        let (per_flush, kept) = (requests / events.flushes, events.flushed_items / requests);
        Some((Self { requests, items: items.min(requests), per_flush, kept }, ordered))
    }

    /// Keys that are being written, those not written yet included, where their skew is known.
    pub fn keys(&self, skew: f64) -> Result<u64, ModelError> {
        // The number of keys at which so many requests leave so many items; more keys leave more.
        let (mut low, mut high) = (self.items.ln(), (self.items * 1e3).ln());
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            let keys = Direct::new(&Popularity::zipf(middle.exp() as u64 + 1, skew)?);
            if keys.unique(self.requests) < self.items {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(high.exp().round() as u64)
    }

    /// Keys and skew that explain what was kept at short range and at long.
    pub fn keys_and_skew(&self) -> Result<(u64, f64), ModelError> {
        let uniform = uniform_keys(self.per_flush, self.kept, self.requests * 100.0).max(self.items * 0.5);
        let distinct = -uniform * (-self.requests / uniform).exp_m1();
        // Tables hold some keys twice, so what uniform keys would leave may fall that much short.
        if distinct >= 0.8 * self.items {
            return Ok((uniform.round() as u64, 0.0));
        }
        let (mut low, mut high) = (0.0, MOST_SKEW);
        for _ in 0..20 {
            let middle = 0.5 * (low + high);
            let keys = Direct::new(&Popularity::zipf(self.keys(middle)?, middle)?);
            if keys.unique(self.per_flush) / self.per_flush > self.kept {
                low = middle;
            } else {
                high = middle;
            }
        }
        let skew = 0.5 * (low + high);
        Ok((self.keys(skew)?, skew))
    }
}

/// How many uniform keys there are where a flush of so many writes keeps such a share of them: at most
/// `most`, which is what no repetition at all gives.
pub(super) fn uniform_keys(per_flush: f64, kept: f64, most: f64) -> f64 {
    let (mut low, mut high) = ((per_flush * 0.1).ln(), most.max(per_flush).ln());
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let keys: f64 = middle.exp();
        if -keys * (-per_flush / keys).exp_m1() / per_flush < kept {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.exp()
}
