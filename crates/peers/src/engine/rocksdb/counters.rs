//! Counters in RocksDB: its own merge operator that adds numbers of 64 bits.

use super::{RocksDb, Variant, load_library, open_with};
use crate::dynamic::{Handle, functions};
use crate::engine::{Setting, Store};
use crate::failure::Result;
use std::ffi::c_char;
use std::ptr::null_mut;

functions! {
    /// The functions of merges.
    CountersApi:
    rocksdb_options_set_uint64add_merge_operator(Handle);
    rocksdb_merge(Handle, Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
}

/// A database of counters.
pub struct Counters {
    rocks: RocksDb,
    api: CountersApi,
}

impl Counters {
    /// Opens or creates a database.
    ///
    /// # Errors
    /// The library is missing, or the engine's own.
    pub fn open(variant: Variant, setting: Setting<'_>) -> Result<Self> {
        let api = CountersApi::new(load_library()?)?;
        let set = api.rocksdb_options_set_uint64add_merge_operator;
        // SAFETY: the operator is set on options that are there.
        let rocks = unsafe { open_with(variant, setting, &mut |options, _| set(options)) }?;
        Ok(Self { rocks, api })
    }

    /// Adds to a counter without reading it.
    ///
    /// # Errors
    /// The engine's own.
    pub fn add(&self, key: &[u8], count: u64) -> Result<()> {
        let (operand, mut error) = (count.to_le_bytes(), null_mut());
        let (db, write) = (self.rocks.db.0, self.rocks.write.0);
        // SAFETY: key and operand are there during the call, which copies them.
        unsafe {
            let (k, v) = (key.as_ptr(), operand.as_ptr());
            (self.api.rocksdb_merge)(db, write, k, key.len(), v, operand.len(), &mut error);
        }
        self.rocks.check(error)
    }

    /// The database as others see it.
    pub fn store(&self) -> &dyn Store {
        &self.rocks
    }
}
