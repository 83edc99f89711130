//! A keyspace's workload, from what it has counted.
//!
//! What a design is chosen for is known best by the store that serves it. Operations, sizes and batches are
//! counted as they come (`activity.rs`). How skewed writes are follows from how many of a write buffer's
//! puts, or of those that level 0 gathers, come to one entry; how large groups are from how many entries of
//! a run there are for each of its groups.

use super::catalog::keyspace::OpenKeyspace;
use super::keyspace::Keyspace;
use crate::activity::{ALL_FLUSHED, Activity, Count, FLUSHED, PUSHED, Repeats, SQUARE, WHOLE};
use crate::stats::KeyspaceStats;
use siltstone_design::{PrefixRule, Schema};
use siltstone_model::price::{Mix, Sizes, ValueSize, Workload, group_items_of, skew_of};

/// Changes per item from which on a store is as if it had been overwritten for ever.
const MOST_CHANGES: f64 = 4.0;
/// Largest share of changes that may delete: something is written before it is deleted.
const MOST_DELETES: f64 = 0.5;
/// Overwrites among so many puts that are not told from the error of the estimate.
const LEAST_OVERWRITES: f64 = 0.03;
/// By which part the number of items may be too large: what was overwritten is estimated.
const ITEMS_ERROR: f64 = 0.15;
/// The share of values and of their bytes below which a size is left out, and how many times the smallest
/// ones the largest have to be to be told apart from them.
const LEAST_OF_SIZE: f64 = 1e-3;
const ALIKE_SIZES: f64 = 4.0;
/// Rounds in which the items that were ever there are worked out.
const ROUNDS: usize = 16;

impl Keyspace {
    /// The workload that the keyspace has had of late, as [`Options::auto_for`](crate::Options::auto_for) and
    /// `siltstone advise` take one: how many items there are, their sizes and groups, how often they are
    /// overwritten and deleted and how skewed that is, and the mix of operations.
    ///
    /// It is counted, and kept across openings from each flush or close on. What was long ago counts ever
    /// less. Nothing is known of which items are *read* most; they are taken to be those that are written
    /// most. Of a keyspace with which nothing was done yet, all is as in `Workload::default()`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let items = db.keyspace("items", KeyspaceOptions::default())?;
    /// for number in 0..100u32 {
    ///     items.put(number.to_be_bytes(), [0; 28])?;
    ///     items.get(7u32.to_be_bytes())?;
    /// }
    /// let workload = items.workload();
    /// assert_eq!((workload.items, workload.key_bytes, workload.value_bytes), (100.0, 4.0, 28.0));
    /// assert_eq!(workload.mix.normalized().puts, 0.5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn workload(&self) -> Workload {
        self.current().workload(self.store.env.now_ms())
    }
}

impl OpenKeyspace {
    /// Its workload at the clock's time `now_ms`.
    pub(super) fn workload(&self, now_ms: u64) -> Workload {
        self.workload_of(&self.stats(now_ms))
    }

    /// Its workload, with what is counted of it.
    pub(super) fn workload_of(&self, stats: &KeyspaceStats) -> Workload {
        self.observed(stats).workload()
    }

    /// How skewed writes to its `items` were from the beginning on.
    pub(super) fn skew_of_all_time(&self, items: f64) -> f64 {
        skew(&self.activity(), items, ALL_FLUSHED)
    }

    fn observed(&self, stats: &KeyspaceStats) -> Observed {
        let live = stats.items_estimate as f64;
        let entries: f64 = stats.table_entries as f64;
        let compressed: u64 = stats.levels.iter().map(|level| level.compressed_bytes).sum();
        let uncompressed: u64 = stats.levels.iter().map(|level| level.uncompressed_bytes).sum();
        Observed {
            activity: self.activity(),
            live,
            stored_bytes: if entries > 0.0 { stats.table_bytes as f64 / entries } else { 0.0 },
            compressed_ratio: if compressed > 0 { uncompressed as f64 / compressed as f64 } else { 1.0 },
            schema: stats.schema,
        }
    }
}

/// What is known of a keyspace.
struct Observed {
    activity: Activity,
    /// Items that are there.
    live: f64,
    /// Bytes that an entry takes in tables; 0 where there are none.
    stored_bytes: f64,
    compressed_ratio: f64,
    schema: Schema,
}

/// The Zipf exponent of writes that overwrite among `items` items, by how often keys come again.
fn skew(activity: &Activity, items: f64, [again, squared, once]: Repeats) -> f64 {
    let (all, once) = (activity.of(again) as f64, activity.of(once) as f64);
    if once == 0.0 {
        return 0.0;
    }
    // Keys come again in proportion to the square of the writes: those of many count for more.
    let requests = activity.of(squared) as f64 * SQUARE as f64 / all;
    let distinct = (requests * once / all).max(1.0);
    let among = |items: f64| skew_of(items, requests, distinct, all / requests).unwrap_or(0.0);
    // With fewer items, keys come again as often without any skew.
    if among(items * (1.0 - ITEMS_ERROR)) == 0.0 { 0.0 } else { among(items) }
}

/// What its keyspace has gone through.
struct Lived {
    items: f64,
    overwrites: f64,
    deletes: f64,
}

impl Observed {
    fn workload(&self) -> Workload {
        let usual = Workload::default();
        let (key_bytes, value_bytes) = self.sizes();
        let Lived { items, overwrites, deletes } = self.lived();
        let count = |count| self.activity.of(count) as f64;
        let seconds = count(Count::Milliseconds) / 1e3;
        let writes = count(Count::Puts) + count(Count::Deletes);
        let puts_per_second = (seconds >= 1.0 && writes > 0.0).then(|| writes / seconds);
        let to_live = self.activity.ratio(Count::SecondsToLive, Count::ExpiringPuts);
        let most_expire = 2 * self.activity.of(Count::ExpiringPuts) > self.activity.of(Count::Puts);
        let expires_after = to_live.zip(puts_per_second).map(|(to_live, rate)| (to_live * rate).max(1.0));
        Workload {
            items,
            overwrites,
            deletes,
            expires_after_puts: expires_after.filter(|_| most_expire),
            skew: self.skew(items),
            key_bytes,
            value_bytes,
            sizes: self.value_sizes(),
            group_items: self.group_items(items),
            prefix_bytes: self.prefix_bytes(key_bytes),
            batch_items: if writes > 0.0 { (writes / count(Count::Batches).max(1.0)).max(1.0) } else { 1.0 },
            compressed_ratio: self.compressed_ratio.max(1.0),
            mix: self.mix(),
            puts_per_second,
            ..usual
        }
    }

    /// The sizes of values, where they are not about alike.
    fn value_sizes(&self) -> Sizes {
        let values = self.activity.values();
        let (count, bytes) = values.iter().fold((0, 0), |(n, of), (count, bytes)| (n + count, of + bytes));
        let is_much = |part: u64, all: u64| part as f64 >= LEAST_OF_SIZE * all as f64;
        let often = values.iter().filter(|of_size| is_much(of_size.0, count) || is_much(of_size.1, bytes));
        let size =
            |(count, bytes)| ValueSize { value_bytes: bytes as f64 / count as f64, share: count as f64 };
        let sizes: Vec<ValueSize> = often.map(size).collect();
        let far_apart = sizes
            .first()
            .zip(sizes.last())
            .is_some_and(|(least, most)| most.value_bytes >= ALIKE_SIZES * least.value_bytes.max(1.0));
        if far_apart { Sizes::new(&sizes).unwrap_or_default() } else { Sizes::default() }
    }

    /// Bytes of a key and of a value.
    fn sizes(&self) -> (f64, f64) {
        let of = |bytes| self.activity.ratio(bytes, Count::Puts);
        if let Some((key, value)) = of(Count::KeyBytes).zip(of(Count::ValueBytes)) {
            return (key.max(1.0), value);
        }
        let usual = Workload::default();
        if self.stored_bytes == 0.0 {
            return (usual.key_bytes, usual.value_bytes);
        }
        // Of items that were loaded in bulk, only what tables say is known.
        let key = usual.key_bytes.min(self.stored_bytes / 2.0).max(1.0);
        (key, (self.stored_bytes * self.compressed_ratio - key).max(0.0))
    }

    /// How many items were put first, and then overwritten and deleted, for as many to be there as are.
    fn lived(&self) -> Lived {
        let live = self.live.max(1.0);
        let (puts, deletes) = (self.activity.of(Count::AllPuts), self.activity.of(Count::AllDeletes));
        let writes = puts as f64 + deletes as f64;
        let mut lived = Lived { items: live, overwrites: 0.0, deletes: 0.0 };
        // Puts of keys that a delete had taken away count as overwrites.
        for _ in 0..ROUNDS {
            let changes = (writes - lived.items).max(0.0);
            let share = (deletes as f64 / changes.max(1.0)).min(MOST_DELETES);
            let touched = -(-changes / lived.items).exp_m1();
            lived.items = live / (1.0 - share * touched);
            (lived.deletes, lived.overwrites) = (changes * share, changes * (1.0 - share));
        }
        // The number of items is an estimate.
        if lived.overwrites + lived.deletes < LEAST_OVERWRITES * lived.items {
            return Lived { items: live, overwrites: 0.0, deletes: 0.0 };
        }
        let too_many = ((lived.overwrites + lived.deletes) / (MOST_CHANGES * lived.items)).max(1.0);
        lived.overwrites /= too_many;
        lived.deletes /= too_many;
        lived
    }

    /// How skewed writes are.
    fn skew(&self, items: f64) -> f64 {
        // What level 0 gathers is more, and tells more.
        let counts = if self.activity.of(Count::PushedAgain) > 0 { PUSHED } else { FLUSHED };
        let again = self.activity.ratio(Count::FlushedAgain, Count::FlushedPuts).unwrap_or(0.0);
        if again < LEAST_OVERWRITES { 0.0 } else { skew(&self.activity, items, counts) }
    }

    /// How many items share a prefix.
    fn group_items(&self, items: f64) -> f64 {
        if self.schema == Schema::Point {
            return 1.0;
        }
        let items = items.max(1.0);
        let flushed = self.activity.ratio(Count::FlushedEntries, Count::Flushes).unwrap_or(0.0);
        let at_once = self.activity.ratio(Count::FlushedEntries, Count::FlushedGroups).unwrap_or(1.0);
        let spanned = self.activity.ratio(Count::BottomEntries, Count::BottomShare);
        let together = self.activity.ratio(Count::BottomEntries, Count::BottomGroups);
        let Some((spanned, together)) = spanned.zip(together) else {
            return group_items_of(at_once, flushed / items).min(items);
        };
        // A run at the bottom may still lack what newer ones hold. Items of a group that come at once, as a
        // flush shows, are in the same run.
        let at_once = at_once.clamp(1.0, together.max(1.0));
        (at_once * group_items_of(together / at_once, spanned * WHOLE as f64 / items)).min(items)
    }

    fn prefix_bytes(&self, key_bytes: f64) -> f64 {
        let whole = match self.schema {
            Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes }, .. } => f64::from(bytes),
            _ => Workload::default().prefix_bytes,
        };
        whole.min(key_bytes / 2.0)
    }

    fn mix(&self) -> Mix {
        let count = |count| self.activity.of(count) as f64;
        if self.activity.operations() == 0 {
            return Mix::default();
        }
        Mix {
            hits: count(Count::Hits),
            misses: count(Count::Misses),
            scans: count(Count::Scans),
            puts: count(Count::Puts) + count(Count::Deletes),
        }
        .normalized()
    }
}
