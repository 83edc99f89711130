//! Many databases in one process: one block cache, one pool of threads.
//!
//! The C interface of this age has no value for a budget that write buffers share, so that each database gets
//! a write buffer of its share.

use super::{RocksDb, Variant, load_library, open_with};
use crate::dynamic::{Handle, functions};
use crate::engine::Setting;
use crate::failure::Result;
use std::ffi::c_int;

functions! {
    /// The functions of what databases share.
    ManyApi:
    rocksdb_create_default_env() -> Handle;
    rocksdb_env_destroy(Handle);
    rocksdb_env_set_background_threads(Handle, c_int);
    rocksdb_env_set_high_priority_background_threads(Handle, c_int);
    rocksdb_options_set_env(Handle, Handle);
    rocksdb_options_set_write_buffer_size(Handle, usize);
    rocksdb_options_set_arena_block_size(Handle, usize);
    rocksdb_options_set_max_open_files(Handle, c_int);
    rocksdb_cache_create_lru(usize) -> Handle;
    rocksdb_cache_destroy(Handle);
    rocksdb_block_based_options_set_block_cache(Handle, Handle);
}

/// Open files that all databases together keep for reading.
const OPEN_FILES: usize = 2000;

/// What databases share.
pub struct Sharing {
    api: ManyApi,
    environment: Handle,
    cache: Handle,
    /// The write buffer of each.
    buffer_bytes: usize,
    open_files: c_int,
}

impl Sharing {
    /// Sharing among so many databases in so many bytes: a half is for write buffers, the rest is cache.
    ///
    /// # Errors
    /// The library is missing.
    pub fn new(memory_bytes: u64, databases: usize) -> Result<Self> {
        let api = ManyApi::new(load_library()?)?;
        let half = usize::try_from(memory_bytes / 2).unwrap_or(usize::MAX);
        // SAFETY: both live until the value is dropped.
        let (environment, cache) = unsafe {
            let environment = (api.rocksdb_create_default_env)();
            (api.rocksdb_env_set_background_threads)(environment, 2);
            (api.rocksdb_env_set_high_priority_background_threads)(environment, 1);
            (environment, (api.rocksdb_cache_create_lru)(half))
        };
        // Two of each database's: one is filled while the other is flushed.
        let buffer_bytes = (half / databases.max(1) / 2).max(64 << 10);
        // It keeps ten of them for itself.
        let open_files = (OPEN_FILES / databases.max(1)).max(12) as c_int;
        Ok(Self { api, environment, cache, buffer_bytes, open_files })
    }

    /// Opens or creates a database.
    ///
    /// # Errors
    /// The engine's own.
    pub fn open(&self, variant: Variant, setting: Setting<'_>) -> Result<RocksDb> {
        let Self { api, environment, cache, buffer_bytes, open_files } = self;
        // SAFETY: options and tables' options are there; cache and environment outlive the databases.
        let adjust = &mut |options, table| unsafe {
            (api.rocksdb_options_set_env)(options, *environment);
            (api.rocksdb_options_set_write_buffer_size)(options, *buffer_bytes);
            (api.rocksdb_options_set_arena_block_size)(options, (*buffer_bytes / 8).max(8 << 10));
            (api.rocksdb_options_set_max_open_files)(options, *open_files);
            (api.rocksdb_block_based_options_set_block_cache)(table, *cache);
        };
        // SAFETY: the options are only set.
        unsafe { open_with(variant, setting, adjust) }
    }

    /// Writes out what is in the memory of all databases, and waits until none works in the background.
    ///
    /// # Errors
    /// The engine's own.
    pub fn settle(databases: &[RocksDb]) -> Result<()> {
        databases.iter().try_for_each(RocksDb::flush)?;
        super::settle(databases)
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        // SAFETY: nobody else has them; databases have counted the cache, and were closed before.
        unsafe {
            (self.api.rocksdb_cache_destroy)(self.cache);
            (self.api.rocksdb_env_destroy)(self.environment);
        }
    }
}
