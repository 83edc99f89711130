//! What a store was filled with, kept in the store, so that a read of items that are not there is noticed as
//! the mistake it is and not measured as fast misses.

use crate::kit::generate::items::Items;
use crate::program::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use siltstone::{Db, KeyspaceOptions};

const META_KEYSPACE: &str = "bench-meta";
const META_KEY: &[u8] = b"filled";
/// Bytes of the memtable that [`Filled`] goes to: a small budget is for what is measured.
const META_BYTES: u64 = 64 << 10;

/// The items of a filled store: positions `0..existing` of the seed's random order exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Filled {
    /// `--items`: the numbers below this come in the seed's order, later ones in their own.
    pub items: u64,
    /// `--seed`.
    pub seed: u64,
    /// `--key-bytes`.
    pub key_bytes: u64,
    /// `--value-bytes`.
    pub value_bytes: u64,
    /// `--group`.
    pub group: u64,
    /// Positions that have been written.
    pub existing: u64,
    /// Whether the fill came to its end.
    pub complete: bool,
}

impl Filled {
    /// Reads what `db` was filled with; `None` if no fill made it.
    pub fn load(db: &Db) -> Result<Option<Self>> {
        let Some(keyspace) = db.get_keyspace(META_KEYSPACE) else { return Ok(None) };
        let Some(json) = keyspace.get(META_KEY)? else { return Ok(None) };
        serde_json::from_slice(&json).map(Some).map_err(|e| {
            Failure::Failed(format!("cannot read what {} was filled with: {e}", db.path().display()))
        })
    }

    /// Writes it down, for good when this returns.
    pub fn save(&self, db: &Db) -> Result<()> {
        let json = serde_json::to_vec(self).map_err(|e| Failure::Failed(e.to_string()))?;
        let design = Some(siltstone::Design::default().scaled_to(META_BYTES));
        let options = KeyspaceOptions { design, ..KeyspaceOptions::default() };
        db.keyspace(META_KEYSPACE, options)?.put(META_KEY, &json)?;
        Ok(db.sync()?)
    }

    /// Returns the items, or says which option makes them impossible.
    pub fn generator(&self) -> std::result::Result<Items, String> {
        let bytes =
            |what: &str, bytes: u64| usize::try_from(bytes).map_err(|_| format!("--{what} is too large"));
        if self.items > 1 << 48 {
            return Err("--items must be at most 2^48".to_owned());
        }
        if self.value_bytes > 1 << 30 {
            return Err("--value-bytes must be at most 1 GiB".to_owned());
        }
        Items::new(
            bytes("key-bytes", self.key_bytes)?,
            bytes("value-bytes", self.value_bytes)?,
            self.group,
            self.seed,
            self.items,
        )
    }
}
