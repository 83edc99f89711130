//! What SILT costs: an entry is written once to a log, once more to a hash table and then by every merge of
//! its sorted store until the next update; lookups pay for false positives of the tags, and memory mostly for
//! tags.
//!
//! Source: Lim, Fan, Andersen, Kaminsky, "SILT: A Memory-Efficient, High-Performance Key-Value Store" (SOSP
//! 2011), section 5, equations 1 to 8 and Figure 8. The paper also prints forms of equations 5 to 7 with
//! rounded coefficients; [`Silt::costs`] uses the unrounded ones and [`Silt::printed_forms`] the rounded
//! ones. What depends on how stores are built is apart ([`Constants`]), so that the same equations price
//! stores that are filled, tagged and indexed otherwise, such as Siltstone's. We keep the paper's 1.075 for 1
//! / 0.93, which it rounds within equation 4, and add what it omits: the inverse (how much to merge for a
//! given memory budget) and how long a device lasts at a given update rate.

use crate::ModelError;
use serde::{Deserialize, Serialize};

/// How full a 4-way cuckoo table gets before an insert fails.
pub const OCCUPANCY: f64 = 0.93;
/// Writes per entry while it is converted from log to hash table: 1 / 0.93, rounded as in the paper.
pub(crate) const CONVERSION_WRITES: f64 = 1.075;
/// Slots a lookup compares tags with: two buckets of four.
pub(crate) const SLOTS_PROBED: f64 = 8.0;
/// Bytes of a log position beside each tag of the log's index.
pub(crate) const LOG_POINTER_BYTES: f64 = 4.0;
/// Bytes per entry of the sorted store's entropy-coded trie.
pub(crate) const SORTED_INDEX_BYTES: f64 = 0.4;
/// Seconds in a year of 365.25 days.
pub(crate) const YEAR_SECONDS: f64 = 365.25 * 86_400.0;

/// A SILT system and its workload: Table 4 of the paper, whose example is the default.
///
/// ```
/// use siltstone_model::cost::silt::Silt;
///
/// let costs = Silt::default().costs()?;
/// assert_eq!(format!("{:.1}", costs.write_amplification), "5.4");
/// assert_eq!(format!("{:.3}", costs.read_amplification), "1.008");
/// assert_eq!(format!("{:.2}", costs.memory_bytes_per_item), "0.73");
/// assert_eq!(format!("{:.2}", costs.lifetime_years), "3.15");
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Silt {
    /// Distinct keys in the whole system (`N`).
    pub keys: f64,
    /// Independent instances, each with its own stores for its range of keys (`P`).
    pub instances: f64,
    /// Entries in one instance's hash stores at which they are merged into its sorted store (`d`).
    pub merge_items: f64,
    /// Bits of a tag (`k`); a table has `2^k` buckets of four, so this also sets how large a store is.
    pub tag_bits: u32,
    /// Bytes of an entry (`c`).
    pub item_bytes: f64,
    /// Updates per second (`U`).
    pub updates_per_second: f64,
    /// Bytes of the device (`F`).
    pub device_bytes: f64,
    /// Times the device's cells can be erased (`E`).
    pub erase_cycles: f64,
}

impl Default for Silt {
    fn default() -> Self {
        Self {
            keys: 1e8,
            instances: 4.0,
            merge_items: 7.5e6,
            tag_bits: 15,
            item_bytes: 1024.0,
            updates_per_second: 5_000.0,
            device_bytes: 256.0 * (1u64 << 30) as f64,
            erase_cycles: 10_000.0,
        }
    }
}

/// What a [`Silt`] costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SiltCosts {
    /// Bytes written to the device per byte updated; the sum of the three fields that follow.
    pub write_amplification: f64,
    /// Of that, writing the log.
    pub log_writes: f64,
    /// Of that, converting logs to hash stores.
    pub conversion_writes: f64,
    /// Of that, merging hash stores into sorted stores.
    pub merge_writes: f64,
    /// Device reads of a lookup that finds its key in the sorted store, the last place looked at.
    pub read_amplification: f64,
    /// Chance that one log or hash store asks for a needless read.
    pub false_positive_rate: f64,
    /// Hash stores per instance, averaged over time.
    pub hash_stores: f64,
    /// Index memory per distinct key, in bytes.
    pub memory_bytes_per_item: f64,
    /// Index memory of the system, in bytes.
    pub memory_bytes: f64,
    /// Years until the device has used up its erase cycles.
    pub lifetime_years: f64,
}

/// What the stores themselves take, in the equations of a [`Silt`]: the paper's by [`Silt::constants`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constants {
    /// Bytes written to a log per byte of an entry.
    pub log_writes: f64,
    /// Bytes of a hash store per byte of its entries.
    pub conversion_writes: f64,
    /// Bytes of a sorted store per byte of its entries.
    pub sorted_writes: f64,
    /// Chance that one log or hash store asks for a needless read (`f`).
    pub false_positive_rate: f64,
    /// Logs that a lookup asks before any hash store: 1, or 0 where what a log holds is in memory.
    pub logs_asked: f64,
    /// Entries of a hash store.
    pub store_items: f64,
    /// Memory of an instance's log index, in bytes.
    pub log_index_bytes: f64,
    /// Memory of a hash store's tags, in bytes.
    pub hash_index_bytes: f64,
    /// Memory of the sorted store's index, in bytes per entry.
    pub sorted_index_bytes: f64,
}

/// Equations 4, 6 and 7 in the simplified forms that the paper prints, coefficients rounded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrintedForms {
    /// Equation 6, right-hand side.
    pub read_amplification: f64,
    /// Equation 7, second line, in bytes.
    pub memory_bytes_per_item: f64,
    /// Equation 5, right-hand side.
    pub hash_stores: f64,
}

impl Silt {
    /// Prices the system by equations 4 to 8, unrounded.
    ///
    /// # Errors
    /// A parameter that is not above 0, or tags outside of 1 to 31 bits.
    pub fn costs(&self) -> Result<SiltCosts, ModelError> {
        self.costs_with(&self.constants())
    }

    /// The paper's stores: cuckoo tables of `2^k` buckets of four, filled to 0.93, tries of 0.4 bytes per
    /// entry.
    pub fn constants(&self) -> Constants {
        let bits = f64::from(self.tag_bits);
        Constants {
            log_writes: 1.0,
            conversion_writes: CONVERSION_WRITES,
            sorted_writes: 1.0,
            false_positive_rate: self.false_positive_rate(),
            logs_asked: 1.0,
            store_items: OCCUPANCY * self.slots(),
            log_index_bytes: ((bits + 1.0) / 8.0 + LOG_POINTER_BYTES) * self.slots(),
            hash_index_bytes: bits / 8.0 * self.slots(),
            sorted_index_bytes: SORTED_INDEX_BYTES,
        }
    }

    /// Prices the system by the same equations, with stores of other constants.
    ///
    /// # Errors
    /// As [`Silt::costs`]; or hash stores without entries.
    pub fn costs_with(&self, constants: &Constants) -> Result<SiltCosts, ModelError> {
        self.check()?;
        ModelError::positive("store_items", constants.store_items)?;
        let merge_writes = constants.sorted_writes * self.keys / (self.merge_items * self.instances);
        let write_amplification = constants.log_writes + constants.conversion_writes + merge_writes;
        let hash_stores = self.merge_items / 2.0 / constants.store_items;
        let memory_bytes_per_item = self.memory_bytes_per_item(constants, hash_stores);
        let writes_per_second = self.updates_per_second * self.item_bytes * write_amplification;
        Ok(SiltCosts {
            write_amplification,
            log_writes: constants.log_writes,
            conversion_writes: constants.conversion_writes,
            merge_writes,
            read_amplification: 1.0 + (constants.logs_asked + hash_stores) * constants.false_positive_rate,
            false_positive_rate: constants.false_positive_rate,
            hash_stores,
            memory_bytes_per_item,
            memory_bytes: memory_bytes_per_item * self.keys,
            lifetime_years: self.device_bytes * self.erase_cycles / writes_per_second / YEAR_SECONDS,
        })
    }

    /// The simplified right-hand sides of equations 5 to 7, for comparison with what the paper prints.
    ///
    /// # Errors
    /// As [`Silt::costs`].
    pub fn printed_forms(&self) -> Result<PrintedForms, ModelError> {
        self.check()?;
        let (bits, buckets) = (f64::from(self.tag_bits), self.buckets());
        let hash_stores_memory = 0.067 * bits * self.merge_items;
        Ok(PrintedForms {
            read_amplification: SLOTS_PROBED / buckets + 1.07 * self.merge_items / (buckets * buckets) + 1.0,
            memory_bytes_per_item: ((16.5 + 0.5 * bits) * buckets + hash_stores_memory) * self.instances
                / self.keys
                + SORTED_INDEX_BYTES,
            hash_stores: 0.134 * self.merge_items / buckets,
        })
    }

    /// This system with `merge_items` chosen so that its indexes take `memory_bytes_per_item`: Figure 8's
    /// axis.
    ///
    /// # Errors
    /// As [`Silt::costs`]; or memory that does not even hold the log's index and the sorted store's.
    pub fn with_memory(mut self, memory_bytes_per_item: f64) -> Result<Self, ModelError> {
        self.check()?;
        let constants = self.constants();
        let floor = self.memory_bytes_per_item(&constants, 0.0);
        let per_store = self.memory_bytes_per_item(&constants, 1.0) - floor;
        let hash_stores = (memory_bytes_per_item - floor) / per_store;
        if !(hash_stores > 0.0 && hash_stores.is_finite()) {
            return Err(ModelError::new(
                "memory_bytes_per_item",
                format!("{memory_bytes_per_item} given; log and sorted store alone take {floor:.3}"),
            ));
        }
        self.merge_items = 2.0 * hash_stores * constants.store_items;
        Ok(self)
    }

    /// Equation 7's first line with `hash_stores` per instance.
    fn memory_bytes_per_item(&self, constants: &Constants, hash_stores: f64) -> f64 {
        let hash = constants.hash_index_bytes * hash_stores;
        (constants.log_index_bytes + hash) * self.instances / self.keys + constants.sorted_index_bytes
    }

    fn false_positive_rate(&self) -> f64 {
        SLOTS_PROBED / self.buckets()
    }

    fn buckets(&self) -> f64 {
        f64::from(self.tag_bits).exp2()
    }

    fn slots(&self) -> f64 {
        4.0 * self.buckets()
    }

    fn check(&self) -> Result<(), ModelError> {
        ModelError::positive("keys", self.keys)?;
        ModelError::positive("instances", self.instances)?;
        ModelError::positive("merge_items", self.merge_items)?;
        ModelError::positive("item_bytes", self.item_bytes)?;
        ModelError::positive("updates_per_second", self.updates_per_second)?;
        ModelError::positive("device_bytes", self.device_bytes)?;
        ModelError::positive("erase_cycles", self.erase_cycles)?;
        if !(1..=31).contains(&self.tag_bits) {
            return Err(ModelError::new("tag_bits", format!("{} given; use 1 to 31", self.tag_bits)));
        }
        Ok(())
    }
}
