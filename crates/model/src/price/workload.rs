//! What a store holds, and what is done to it.

use super::sizes::{Sizes, ValueSize};
use crate::ModelError;
use serde::{Deserialize, Serialize};

/// What is assumed where nothing but the memory is known: the bytes of an item, key and value together, and
/// how many bytes of items there are per byte of memory.
const ASSUMED_ITEM_BYTES: f64 = 100.0;
const ASSUMED_DATA_PER_MEMORY: f64 = 16.0;

/// What may be lost where changes are scaled to as many as there are items.
const ROUNDING: f64 = 1e-9;

/// What a store holds and what is done to it. Every field has a default; give those that are known.
///
/// The first fields tell what the store has gone through when its costs are asked for: `items` items were put
/// in random order, and then overwritten and deleted. The mix tells what comes next, for the cost of an
/// operation. As JSON any field may be missing; of a mix that is given, parts that are missing are 0.
///
/// A store that goes on growing has `items_at_end` as well. What it costs on the way there is weighed by
/// [`Pricer::over_time`](super::Pricer::over_time), and so by advice.
///
/// ```
/// use siltstone_model::price::Workload;
///
/// let known = r#"{ "items": 3e7, "group_items": 128, "mix": { "hits": 3, "puts": 1 } }"#;
/// let workload: Workload = serde_json::from_str(known)?;
/// assert_eq!(workload.item_bytes(), 116.0);
/// assert_eq!(workload.mix.shares(), [0.75, 0.0, 0.0, 0.25]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Distinct items that are put, in random order.
    pub items: f64,
    /// Items that there will be at the end of the time that is looked at, where the store grows to as many,
    /// and is changed as often for each item as it was; `None` where it stays as large as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_at_end: Option<f64>,
    /// Puts of keys that are there already, after all items are.
    pub overwrites: f64,
    /// Deletes of keys that are there, among the overwrites.
    pub deletes: f64,
    /// Puts after which an item expires, counted over the whole store; `None` where items last. In a store
    /// that gets the same number of puts a second, this is the time to live times that rate.
    pub expires_after_puts: Option<f64>,
    /// Zipf exponent of which keys the overwrites are for; 0 is uniform, YCSB's is 0.99.
    pub skew: f64,
    /// The same of which items are read; `None` where they are those that are overwritten.
    pub read_skew: Option<f64>,
    /// Bytes of a key.
    pub key_bytes: f64,
    /// Bytes of a value on the average; of no account where there are `sizes`.
    pub value_bytes: f64,
    /// The sizes of values, where they differ much; popular items have them like others.
    #[serde(skip_serializing_if = "Sizes::is_empty")]
    pub sizes: Sizes,
    /// Items that share a prefix; 1 for point keys.
    pub group_items: f64,
    /// Bytes of a prefix; of no account where groups have 1 item.
    pub prefix_bytes: f64,
    /// Items of a batch.
    pub batch_items: f64,
    /// How many times smaller keys and values become in tables that compress; 1 where they do not.
    pub compressed_ratio: f64,
    /// Which operations there are.
    pub mix: Mix,
    /// Puts a second, for the device's lifetime; `None` where nobody knows.
    pub puts_per_second: Option<f64>,
}

/// The shares of operations, in any unit: only their proportions count. As JSON, parts that are missing are
/// 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Gets of items that are there.
    #[serde(default)]
    pub hits: f64,
    /// Gets of keys that are not.
    #[serde(default)]
    pub misses: f64,
    /// Scans of one group.
    #[serde(default)]
    pub scans: f64,
    /// Puts and deletes.
    #[serde(default)]
    pub puts: f64,
}

impl Default for Mix {
    /// As many puts as gets, of which nine in ten find something.
    fn default() -> Self {
        Self { hits: 0.45, misses: 0.05, scans: 0.0, puts: 0.5 }
    }
}

impl Mix {
    /// The shares, which add up to 1.
    pub fn normalized(&self) -> Self {
        let [hits, misses, scans, puts] = self.shares();
        Self { hits, misses, scans, puts }
    }

    /// The shares of hits, misses, scans and puts, which add up to 1.
    pub fn shares(&self) -> [f64; 4] {
        let all = self.hits + self.misses + self.scans + self.puts;
        [self.hits, self.misses, self.scans, self.puts].map(|share| share / all)
    }

    fn check(&self) -> Result<(), ModelError> {
        let shares = [self.hits, self.misses, self.scans, self.puts];
        if shares.iter().any(|share| !(share.is_finite() && *share >= 0.0))
            || shares.iter().sum::<f64>() <= 0.0
        {
            let given = format!("{shares:?} given");
            return Err(ModelError::new(
                "mix",
                format!(
                    "{given} for hits, misses, scans and puts; shares are ≥ 0, and one of them is above 0"
                ),
            ));
        }
        Ok(())
    }
}

impl Default for Workload {
    /// A million items of 16 + 100 bytes without groups, put one by one.
    fn default() -> Self {
        Self {
            items: 1e6,
            items_at_end: None,
            overwrites: 0.0,
            deletes: 0.0,
            expires_after_puts: None,
            skew: 0.0,
            read_skew: None,
            key_bytes: 16.0,
            value_bytes: 100.0,
            sizes: Sizes::default(),
            group_items: 1.0,
            prefix_bytes: 8.0,
            batch_items: 1.0,
            compressed_ratio: 1.0,
            mix: Mix::default(),
            puts_per_second: None,
        }
    }
}

impl Workload {
    /// What is assumed where nothing but the memory is known: items of 100 bytes, sixteen times as many bytes
    /// of them as there is memory, as many gets as puts, and nine gets in ten that find something.
    ///
    /// ```
    /// use siltstone_model::price::Workload;
    ///
    /// let assumed = Workload::of_memory(100 << 20);
    /// assert_eq!((assumed.item_bytes(), assumed.items), (100.0, 16.0 * f64::from(1 << 20)));
    /// ```
    pub fn of_memory(memory_bytes: u64) -> Self {
        let usual = Self::default();
        let value_bytes = ASSUMED_ITEM_BYTES - usual.key_bytes;
        Self { value_bytes, ..usual }.with_items_of_memory(memory_bytes)
    }

    /// The same with as many items as are assumed where only their sizes and the memory are known: sixteen
    /// times as many bytes of them as there is memory.
    #[must_use]
    pub fn with_items_of_memory(self, memory_bytes: u64) -> Self {
        let bytes = memory_bytes as f64 * ASSUMED_DATA_PER_MEMORY;
        Self { items: (bytes / self.item_bytes().max(1.0)).max(1.0), ..self }
    }

    /// Bytes of an item's key and value, on the average.
    pub fn item_bytes(&self) -> f64 {
        self.key_bytes + self.mean_value_bytes()
    }

    /// Bytes of a value on the average, by its sizes where there are any.
    pub fn mean_value_bytes(&self) -> f64 {
        if self.sizes.is_empty() { self.value_bytes } else { self.sizes.mean_bytes() }
    }

    /// The sizes of values; the mean where that is all that is known.
    pub(super) fn value_sizes(&self) -> impl Iterator<Item = ValueSize> {
        let mean = ValueSize { value_bytes: self.value_bytes, share: 1.0 };
        self.sizes.iter().chain(self.sizes.is_empty().then_some(mean))
    }

    /// Items on the average over the time that is looked at.
    pub fn mean_items(&self) -> f64 {
        f64::midpoint(self.items, self.items_at_end.unwrap_or(self.items))
    }

    /// The workload of the same store when it has come to so many items.
    pub(super) fn grown_to(&self, items: f64) -> Self {
        let times = items / self.items;
        let (overwrites, deletes) = (self.overwrites * times, self.deletes * times);
        Self { items, overwrites, deletes, items_at_end: None, ..*self }
    }

    /// Puts and deletes of keys that are there already.
    pub fn changes(&self) -> f64 {
        self.overwrites + self.deletes
    }

    /// The same store once there were as many changes as items, if there are any at all: only then have most
    /// designs been through all that changes do to them.
    pub(crate) fn changed_throughout(&self) -> Self {
        let changes = self.changes();
        let times = if changes > 0.0 { (self.items / changes).max(1.0) } else { 1.0 };
        Self { overwrites: self.overwrites * times, deletes: self.deletes * times, ..*self }
    }

    /// Whether there were as many changes as items, but for what rounding takes.
    pub(super) fn is_changed_throughout(&self) -> bool {
        self.changes() >= self.items * (1.0 - ROUNDING)
    }

    /// The share of the changes that delete.
    pub fn delete_share(&self) -> f64 {
        if self.deletes > 0.0 { self.deletes / self.changes() } else { 0.0 }
    }

    /// Bytes of all keys and values that are put, and of keys that are deleted.
    pub fn user_bytes(&self) -> f64 {
        self.items * self.item_bytes() + self.change_bytes()
    }

    /// The same of the changes alone.
    pub fn change_bytes(&self) -> f64 {
        self.overwrites * self.item_bytes() + self.deletes * self.key_bytes
    }

    /// Whether several items share a prefix.
    pub fn is_grouped(&self) -> bool {
        self.group_items > 1.0
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        ModelError::positive("items", self.items)?;
        ModelError::positive("key-bytes", self.key_bytes)?;
        ModelError::positive("group", self.group_items)?;
        ModelError::positive("batch", self.batch_items)?;
        ModelError::positive("compressed-ratio", self.compressed_ratio)?;
        if self.compressed_ratio < 1.0 {
            let given = format!(
                "{} given; tables that do not become smaller are not compressed: 1 at least",
                self.compressed_ratio
            );
            return Err(ModelError::new("compressed-ratio", given));
        }
        for (name, value) in [
            ("overwrites", self.overwrites),
            ("deletes", self.deletes),
            ("value-bytes", self.value_bytes),
            ("prefix-bytes", self.prefix_bytes),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(ModelError::new(name, format!("{value} given; it must be finite and ≥ 0")));
            }
        }
        for (name, value) in
            [("expires-after-puts", self.expires_after_puts), ("puts-per-second", self.puts_per_second)]
        {
            value.map_or(Ok(0.0), |value| ModelError::positive(name, value))?;
        }
        if let Some(at_end) =
            self.items_at_end.filter(|at_end| !(at_end.is_finite() && *at_end >= self.items))
        {
            let given = format!("{at_end} given; there have to be as many as now at least ({})", self.items);
            return Err(ModelError::new("items-at-end", given));
        }
        self.mix.check()?;
        if self.is_grouped() && self.prefix_bytes >= self.key_bytes {
            let given = format!(
                "{} given; prefixes of groups are shorter than keys ({})",
                self.prefix_bytes, self.key_bytes
            );
            return Err(ModelError::new("prefix-bytes", given));
        }
        Ok(())
    }
}
