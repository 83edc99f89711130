//! A keyspace's workload, from what it has counted.
//!
//! What a design is chosen for is known best by the store that serves it. Operations, sizes and batches are
//! counted as they come (`activity.rs`). How skewed writes are follows from how many of a write buffer's
//! puts, or of those that level 0 gathers, come to one entry; how large groups are from how many entries of
//! a run there are for each of its groups.

use super::catalog::keyspace::OpenKeyspace;
use super::keyspace::Keyspace;
use crate::activity::{Activity, Count};
use crate::stats::KeyspaceStats;
use siltstone_design::{PrefixRule, Schema};
use siltstone_model::price::{Mix, Workload, group_items_of, skew_of};

/// Changes per item from which on a store is as if it had been overwritten for ever.
const MOST_CHANGES: f64 = 4.0;
/// Largest share of changes that may delete: something is written before it is deleted.
const MOST_DELETES: f64 = 0.5;
/// Overwrites among so many puts that are not told from the error of the estimate.
const LEAST_OVERWRITES: f64 = 0.03;
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
        self.inner.workload(self.store.env.now_ms())
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

    /// How skewed writes were from the beginning on.
    pub(super) fn skew_of_all_time(&self, stats: &KeyspaceStats) -> f64 {
        let observed = self.observed(stats);
        let items = observed.lived().items;
        let count = |count| observed.activity.of(count) as f64;
        let overwrites = 1.0 - (items / count(Count::AllPuts).max(1.0)).min(1.0);
        let flushes = count(Count::AllFlushes);
        let of = |all| count(all) / flushes.max(1.0);
        let repeated = Repeated {
            requests: of(Count::AllFlushedPuts),
            distinct: of(Count::AllFlushedEntries),
            samples: flushes,
            overwrites,
        };
        repeated.skew(items)
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

/// How many of some writes were for the same keys.
struct Repeated {
    /// Writes of one sample, and the entries that they came to, as means of so many samples.
    requests: f64,
    distinct: f64,
    samples: f64,
    /// The share of the writes that are for keys that were there.
    overwrites: f64,
}

impl Repeated {
    /// The Zipf exponent of those that overwrite among `items` items.
    fn skew(&self, items: f64) -> f64 {
        if self.overwrites < LEAST_OVERWRITES || self.samples == 0.0 {
            return 0.0;
        }
        let new = self.requests * (1.0 - self.overwrites);
        let (requests, distinct) = (self.requests - new, (self.distinct - new).max(1.0));
        skew_of(items, requests, distinct, self.samples).unwrap_or(0.0)
    }
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
            group_items: self.group_items(items),
            prefix_bytes: self.prefix_bytes(key_bytes),
            batch_items: if writes > 0.0 { (writes / count(Count::Batches).max(1.0)).max(1.0) } else { 1.0 },
            compressed_ratio: self.compressed_ratio.max(1.0),
            mix: self.mix(),
            puts_per_second,
            ..usual
        }
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

    /// How skewed writes are, by how many of them come to one entry.
    fn skew(&self, items: f64) -> f64 {
        let count = |count| self.activity.of(count) as f64;
        let (flushes, pushes) = (count(Count::Flushes), count(Count::Pushes));
        let (puts, new) = (count(Count::Puts), count(Count::NewItems) + count(Count::Deletes));
        let overwrites = if puts > 0.0 { 1.0 - (new / puts).min(1.0) } else { 0.0 };
        if flushes == 0.0 {
            return 0.0;
        }
        let flushed = count(Count::FlushedPuts) / flushes;
        // What level 0 gathers is more, and tells more.
        let (requests, distinct, samples) = if pushes > 0.0 {
            (flushed * count(Count::PushedFlushes) / pushes, count(Count::PushedEntries) / pushes, pushes)
        } else {
            (flushed, count(Count::FlushedEntries) / flushes, flushes)
        };
        Repeated { requests, distinct, samples, overwrites }.skew(items)
    }

    /// How many items share a prefix.
    fn group_items(&self, items: f64) -> f64 {
        if self.schema == Schema::Point {
            return 1.0;
        }
        if let Some(together) = self.activity.ratio(Count::BottomEntries, Count::BottomGroups) {
            return together.max(1.0);
        }
        let flushed = self.activity.ratio(Count::FlushedEntries, Count::Flushes).unwrap_or(0.0);
        let together = self.activity.ratio(Count::FlushedEntries, Count::FlushedGroups).unwrap_or(1.0);
        group_items_of(together, flushed / items.max(1.0)).min(items)
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
