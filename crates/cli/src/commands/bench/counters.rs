//! The counters that merges and read-modify-writes count up, side by side.

use crate::failure::{Result, fail};
use siltstone::{Db, Keyspace, KeyspaceOptions};

/// The keyspace of the counters.
const KEYSPACE: &str = "bench-counters";

/// Counters beside the items of a filled store.
pub struct Counters {
    keyspace: Keyspace,
    /// Their sum when the store was opened.
    sum: u64,
}

impl Counters {
    /// The counters of a store, made where there are none, with keys and a layout like those of `items`.
    pub fn open(db: &Db, items: &Keyspace) -> Result<Self> {
        let options = KeyspaceOptions {
            schema: items.schema(),
            design: Some(items.design()),
            merge_operator: Some("add".to_owned()),
        };
        let keyspace = db.keyspace(KEYSPACE, options)?;
        let sum = sum(&keyspace)?;
        Ok(Self { keyspace, sum })
    }

    /// The keyspace that they are in.
    pub fn keyspace(&self) -> Keyspace {
        self.keyspace.clone()
    }

    /// Fails unless all of them together have grown by `counted`.
    pub fn check(&self, counted: u64) -> Result<()> {
        let grown = sum(&self.keyspace)?.wrapping_sub(self.sum);
        if grown != counted {
            fail!(
                "{counted} increments have made all counters together grow by {grown}; that is a defect of the store"
            );
        }
        Ok(())
    }
}

fn sum(keyspace: &Keyspace) -> Result<u64> {
    let mut sum = 0u64;
    for item in keyspace.iter()? {
        let (_, value) = item?;
        sum = sum.wrapping_add(value.try_into().map_or(0, u64::from_le_bytes));
    }
    Ok(sum)
}
