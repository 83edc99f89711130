//! What a run took, and how much of it is still there.
//!
//! A run stands for the puts that it took: a share of the items as they were first put, and so many changes
//! of items that were there, which are overwrites and deletes alike. Merging runs adds up both, and `Unique`
//! says how many distinct items that makes (Lim et al., FAST 2016, §3.4), as digests are independent of how
//! popular a key is. An item whose last change was a delete has a tombstone, until the run lies where nothing
//! older can: there merging drops it, and what has expired as well.

use super::workload::Workload;
use crate::{Direct, ModelError, Popularity, Primitives, Tabulated};
use std::sync::Arc;

/// The puts that a run took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Puts {
    /// Share of all items whose first put is among them.
    pub first: f64,
    /// Overwrites and deletes among them, of the whole store.
    pub changes: f64,
    /// Changes whose tombstones have been dropped.
    dropped: f64,
    /// When the oldest and the newest of them were made, in puts of the whole store.
    made: (f64, f64),
    /// Those made before this have been dropped, since they had expired.
    live_from: f64,
}

impl Default for Puts {
    fn default() -> Self {
        Self {
            first: 0.0,
            changes: 0.0,
            dropped: 0.0,
            made: (f64::INFINITY, f64::NEG_INFINITY),
            live_from: f64::NEG_INFINITY,
        }
    }
}

impl Puts {
    /// First puts of a share of all items, made between two times.
    pub fn first(share: f64, made: (f64, f64)) -> Self {
        Self { first: share, made, ..Self::default() }
    }

    /// Changes, made between two times.
    pub fn changes(changes: f64, made: (f64, f64)) -> Self {
        Self { changes, made, ..Self::default() }
    }

    /// First puts and changes, where nothing of them has been dropped: what the size of their run depends on.
    pub fn as_flushed(&self) -> Option<[f64; 2]> {
        let is_whole = self.dropped == 0.0 && self.live_from == f64::NEG_INFINITY;
        is_whole.then_some([self.first, self.changes])
    }

    /// Those of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            first: (self.first + other.first).min(1.0),
            changes: self.changes + other.changes,
            dropped: self.dropped + other.dropped,
            made: (self.made.0.min(other.made.0), self.made.1.max(other.made.1)),
            live_from: self.live_from.max(other.live_from),
        }
    }

    /// What a merge keeps of them at the time `now` where nothing older lies below.
    pub fn reclaimed(self, keys: &Keys, now: f64) -> Self {
        Self { dropped: self.changes, live_from: self.live_from.max(now - keys.expires_after), ..self }
    }

    /// Those of them that were made from a time on, of a store that first gets all its `items`. What is
    /// dropped is dropped of all alike.
    fn since(self, time: f64, items: f64) -> Self {
        let (oldest, newest) = self.made;
        let share = |from: f64, to: f64| {
            if to <= from {
                return f64::from(u8::from(to >= time));
            }
            ((to - time.max(from)) / (to - from)).clamp(0.0, 1.0)
        };
        let of_changes = share(oldest.max(items), newest);
        Self {
            first: self.first * share(oldest, newest.min(items)),
            changes: self.changes * of_changes,
            dropped: self.dropped * of_changes,
            ..self
        }
    }
}

/// The share of all items beyond which changes hardly touch new ones.
const MOST_TOUCHED: f64 = 0.99;

/// The items as far as changes are concerned.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    items: f64,
    touched: Touched,
    /// The share of changes that are deletes.
    delete_share: f64,
    /// Puts after which an item has expired; infinite where none does.
    expires_after: f64,
}

/// Which items changes are for.
#[derive(Clone, Debug)]
enum Touched {
    Nothing,
    Uniformly,
    Skewed(Arc<Tabulated>),
}

impl Keys {
    pub fn of(workload: &Workload) -> Result<Self, ModelError> {
        let touched = if workload.changes() <= 0.0 {
            Touched::Nothing
        } else if workload.skew == 0.0 {
            Touched::Uniformly
        } else {
            let popularity = Popularity::zipf(workload.items.ceil() as u64, workload.skew)?;
            Touched::Skewed(Arc::new(Tabulated::new(&Direct::new(&popularity))))
        };
        Ok(Self {
            items: workload.items,
            touched,
            delete_share: workload.delete_share(),
            expires_after: workload.expires_after_puts.unwrap_or(f64::INFINITY),
        })
    }

    /// Whether a merge can ever free anything.
    pub fn make_garbage(&self) -> bool {
        !matches!(self.touched, Touched::Nothing) || self.expires_after.is_finite()
    }

    /// Whether some items are changed more often than others.
    pub fn are_skewed(&self) -> bool {
        matches!(self.touched, Touched::Skewed(_))
    }

    /// The share of all items that so many changes touch.
    fn touched(&self, changes: f64) -> f64 {
        match &self.touched {
            Touched::Nothing => 0.0,
            Touched::Uniformly => -(-changes / self.items).exp_m1(),
            Touched::Skewed(items) => items.unique(changes) / self.items,
        }
    }

    /// The changes that touch so many items.
    pub fn changes_touching(&self, items: f64) -> f64 {
        match &self.touched {
            Touched::Nothing => items,
            Touched::Uniformly => -self.items * (-(items / self.items).min(MOST_TOUCHED)).ln_1p(),
            Touched::Skewed(touched) => touched.unique_inverse(items.min(self.items * MOST_TOUCHED)),
        }
    }

    /// The share of all items that are among `puts`, dropped or not.
    pub fn met(&self, puts: Puts) -> f64 {
        1.0 - (1.0 - puts.first) * (1.0 - self.touched(puts.changes))
    }

    /// The share of the items among `puts` that are among `others` as well; first puts are of other items in
    /// each.
    pub fn share_also_in(&self, puts: Puts, others: Puts) -> f64 {
        if puts.changes + others.changes <= 0.0 || others.first + others.changes <= 0.0 {
            return 0.0;
        }
        let (met, of_others) = (self.met(puts), self.met(others));
        if met <= 0.0 {
            return 0.0;
        }
        let of_both = self.met(puts.and(others));
        ((met + of_others - of_both) / met).clamp(0.0, 1.0)
    }

    /// Whether items ever expire.
    pub fn expire(&self) -> bool {
        self.expires_after.is_finite()
    }

    /// The share of the items among `puts` that have not expired at the time `now`, dropped or not.
    pub fn unexpired(&self, puts: Puts, now: f64) -> f64 {
        let met = self.met(puts);
        if met > 0.0 { self.met(puts.since(now - self.expires_after, self.items)) / met } else { 1.0 }
    }

    /// The share of all items that a run which took `puts` holds an entry of, and the share of these that are
    /// tombstones.
    pub fn held(&self, puts: Puts) -> (f64, f64) {
        let puts = puts.since(puts.live_from, self.items);
        let met = self.met(puts);
        if self.delete_share == 0.0 {
            return (met, 0.0);
        }
        let (touched, dropped) = (self.touched(puts.changes), self.touched(puts.dropped));
        let held = (met - self.delete_share * dropped).max(0.0);
        let tombstones = self.delete_share * (touched - dropped).max(0.0);
        (held, if held > 0.0 { (tombstones / held).min(1.0) } else { 0.0 })
    }

    /// How many items are there after so many changes: those that were not deleted and have not expired.
    pub fn live_items(&self, changes: f64) -> f64 {
        let latest = self.expires_after.min(changes);
        let first = ((self.expires_after - changes) / self.items).clamp(0.0, 1.0);
        let touched = self.touched(latest);
        self.items * (touched * (1.0 - self.delete_share) + (1.0 - touched) * first)
    }
}
