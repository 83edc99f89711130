//! What a store is to do.

use crate::ModelError;

/// What a store holds and what is done to it. Every field has a default; give those that are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Distinct items that are put, in random order.
    pub items: f64,
    /// Puts of keys that are there already, after all items are.
    pub overwrites: f64,
    /// Zipf exponent of which keys the overwrites are for; 0 is uniform, YCSB's is 0.99.
    pub skew: f64,
    /// Bytes of a key.
    pub key_bytes: f64,
    /// Bytes of a value.
    pub value_bytes: f64,
    /// Items that share a prefix; 1 for point keys.
    pub group_items: f64,
    /// Bytes of a prefix; of no account where groups have 1 item.
    pub prefix_bytes: f64,
    /// Items of a batch.
    pub batch_items: f64,
}

impl Default for Workload {
    /// A million items of 16 + 100 bytes without groups, put one by one.
    fn default() -> Self {
        Self {
            items: 1e6,
            overwrites: 0.0,
            skew: 0.0,
            key_bytes: 16.0,
            value_bytes: 100.0,
            group_items: 1.0,
            prefix_bytes: 8.0,
            batch_items: 1.0,
        }
    }
}

impl Workload {
    /// Bytes of an item's key and value.
    pub fn item_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    /// Bytes of all keys and values that are put.
    pub fn user_bytes(&self) -> f64 {
        (self.items + self.overwrites) * self.item_bytes()
    }

    /// Whether several items share a prefix.
    pub fn is_grouped(&self) -> bool {
        self.group_items > 1.0
    }

    pub(super) fn check(&self) -> Result<(), ModelError> {
        ModelError::positive("items", self.items)?;
        ModelError::positive("key-bytes", self.key_bytes)?;
        ModelError::positive("group", self.group_items)?;
        ModelError::positive("batch", self.batch_items)?;
        for (name, value) in [
            ("overwrites", self.overwrites),
            ("value-bytes", self.value_bytes),
            ("prefix-bytes", self.prefix_bytes),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(ModelError::new(name, format!("{value} given; it must be finite and ≥ 0")));
            }
        }
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
