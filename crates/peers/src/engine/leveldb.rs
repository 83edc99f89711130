//! LevelDB through its C interface, as the system's library.
//!
//! | setting | value | why |
//! |---|---|---|
//! | write buffer | half of the share | it keeps one beside the one it flushes, like the others; its default is 4 MiB |
//! | block cache | the rest of the managed memory | used for tables that are not mapped: it maps the first thousand, which then live in the page cache |
//! | open files | 10,000 | the default of 1,000 would open tables again and again at 30 million items; their size is left at the default as its header advises |
//! | filter | Bloom of 10 bits | its documentation's example |
//! | log | on, not synced | the default: survives a killed process |
//! | compression | none | values are noise |
//!
//! It has no function that waits for compactions, so [`Store::settle`] does nothing, and a run waits until
//! the process is quiet. It does not count device reads; the kernel's count stands for them.

use super::{Items, Memory, Setting, Store};
use crate::dynamic::{self, Handle, Shared, c_string, functions};
use crate::failure::{Failure, Result};
use siltstone_lab::kit::sizes;
use std::ffi::{c_char, c_int, c_uchar};
use std::ptr::null_mut;

const NAMES: [&str; 4] = ["libleveldb.so", "libleveldb.so.1d", "libleveldb.so.1", "libleveldb.dylib"];

functions! {
    /// The functions of `leveldb/c.h` that are called here.
    Api:
    leveldb_free(Handle);
    leveldb_major_version() -> c_int;
    leveldb_minor_version() -> c_int;
    leveldb_open(Handle, *const c_char, *mut *mut c_char) -> Handle;
    leveldb_close(Handle);
    leveldb_put(Handle, Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
    leveldb_write(Handle, Handle, Handle, *mut *mut c_char);
    leveldb_get(Handle, Handle, *const u8, usize, *mut usize, *mut *mut c_char) -> *mut u8;
    leveldb_writebatch_create() -> Handle;
    leveldb_writebatch_put(Handle, *const u8, usize, *const u8, usize);
    leveldb_writebatch_destroy(Handle);
    leveldb_create_iterator(Handle, Handle) -> Handle;
    leveldb_iter_seek(Handle, *const u8, usize);
    leveldb_iter_valid(Handle) -> c_uchar;
    leveldb_iter_next(Handle);
    leveldb_iter_key(Handle, *mut usize) -> *const u8;
    leveldb_iter_value(Handle, *mut usize) -> *const u8;
    leveldb_iter_get_error(Handle, *mut *mut c_char);
    leveldb_iter_destroy(Handle);
    leveldb_options_create() -> Handle;
    leveldb_options_destroy(Handle);
    leveldb_options_set_create_if_missing(Handle, c_uchar);
    leveldb_options_set_compression(Handle, c_int);
    leveldb_options_set_write_buffer_size(Handle, usize);
    leveldb_options_set_max_open_files(Handle, c_int);
    leveldb_options_set_cache(Handle, Handle);
    leveldb_options_set_filter_policy(Handle, Handle);
    leveldb_filterpolicy_create_bloom(c_int) -> Handle;
    leveldb_filterpolicy_destroy(Handle);
    leveldb_cache_create_lru(usize) -> Handle;
    leveldb_cache_destroy(Handle);
    leveldb_readoptions_create() -> Handle;
    leveldb_readoptions_destroy(Handle);
    leveldb_writeoptions_create() -> Handle;
    leveldb_writeoptions_destroy(Handle);
}

fn load() -> std::result::Result<Api, String> {
    Api::new(dynamic::load(&NAMES, "SILTSTONE_PEERS_LEVELDB", "libleveldb-dev")?)
}

/// The library's version.
///
/// # Errors
/// There is no such library.
pub fn version() -> std::result::Result<String, String> {
    let api = load()?;
    // SAFETY: they take nothing and return a number.
    let (major, minor) = unsafe { ((api.leveldb_major_version)(), (api.leveldb_minor_version)()) };
    Ok(format!("LevelDB {major}.{minor}"))
}

/// The settings for the record.
pub fn settings(memory: Memory) -> String {
    format!(
        "write buffer {}, block cache {}, Bloom filters of 10 bits, log not synced",
        sizes::bytes(memory.write_buffer_bytes()),
        sizes::bytes(memory.cache_bytes())
    )
}

/// Opens or creates a store.
///
/// # Errors
/// The library is missing, or the engine's own.
pub fn open(setting: Setting<'_>) -> Result<Box<dyn Store>> {
    let api = load()?;
    let Setting { dir, memory, .. } = setting;
    let path = c_string(&dir.to_string_lossy())?;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut error = null_mut();
    // SAFETY: options are made, set and destroyed by the functions of their kind; cache and filter policy are
    // kept until the database is closed, which uses them until then.
    let level = unsafe {
        let cache = (api.leveldb_cache_create_lru)(size(memory.cache_bytes()));
        let filter = (api.leveldb_filterpolicy_create_bloom)(10);
        let options = (api.leveldb_options_create)();
        (api.leveldb_options_set_create_if_missing)(options, 1);
        (api.leveldb_options_set_compression)(options, 0);
        (api.leveldb_options_set_write_buffer_size)(options, size(memory.write_buffer_bytes()));
        (api.leveldb_options_set_max_open_files)(options, 10_000);
        (api.leveldb_options_set_cache)(options, cache);
        (api.leveldb_options_set_filter_policy)(options, filter);
        let db = (api.leveldb_open)(options, path.as_ptr(), &mut error);
        (api.leveldb_options_destroy)(options);
        let (read, write) =
            (Shared((api.leveldb_readoptions_create)()), Shared((api.leveldb_writeoptions_create)()));
        LevelDb { api, db: Shared(db), cache: Shared(cache), filter: Shared(filter), read, write }
    };
    level.check(error)?;
    Ok(Box::new(level))
}

struct LevelDb {
    api: Api,
    /// Null where opening failed.
    db: Shared,
    cache: Shared,
    filter: Shared,
    read: Shared,
    write: Shared,
}

impl LevelDb {
    fn check(&self, error: *mut c_char) -> Result<()> {
        // SAFETY: the message came from the library, whose function frees it.
        dynamic::check(error, |message| unsafe { (self.api.leveldb_free)(message) }).map_err(Failure::new)
    }
}

impl Store for LevelDb {
    fn write(&self, items: &Items) -> Result<()> {
        let api = &self.api;
        let mut error = null_mut();
        // SAFETY: keys and values are there during the calls, which copy them; the batch is made and
        // destroyed here.
        unsafe {
            if let [(key, value)] = items {
                let (k, v) = (key.as_ptr(), value.as_ptr());
                (api.leveldb_put)(self.db.0, self.write.0, k, key.len(), v, value.len(), &mut error);
            } else {
                let batch = (api.leveldb_writebatch_create)();
                for (key, value) in items {
                    (api.leveldb_writebatch_put)(batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                }
                (api.leveldb_write)(self.db.0, self.write.0, batch, &mut error);
                (api.leveldb_writebatch_destroy)(batch);
            }
        }
        self.check(error)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut error = null_mut();
        let mut length = 0;
        // SAFETY: the key is there during the call; a value that is not null is ours, with that length, until
        // freed.
        let found = unsafe {
            let (k, n) = (key.as_ptr(), key.len());
            let bytes = (self.api.leveldb_get)(self.db.0, self.read.0, k, n, &mut length, &mut error);
            if !bytes.is_null() {
                value.clear();
                value.extend_from_slice(std::slice::from_raw_parts(bytes, length));
                (self.api.leveldb_free)(bytes.cast());
            }
            !bytes.is_null()
        };
        self.check(error)?;
        Ok(found)
    }

    fn scan(&self, prefix: &[u8], found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let api = &self.api;
        let mut error = null_mut();
        // SAFETY: keys and values of a valid iterator stay until it moves on, and it moves on when `found`
        // has returned.
        unsafe {
            let iterator = (api.leveldb_create_iterator)(self.db.0, self.read.0);
            (api.leveldb_iter_seek)(iterator, prefix.as_ptr(), prefix.len());
            while (api.leveldb_iter_valid)(iterator) != 0 {
                let (mut key_length, mut value_length) = (0, 0);
                let key = (api.leveldb_iter_key)(iterator, &mut key_length);
                let key = std::slice::from_raw_parts(key, key_length);
                if !key.starts_with(prefix) {
                    break;
                }
                let value = (api.leveldb_iter_value)(iterator, &mut value_length);
                found(key, std::slice::from_raw_parts(value, value_length));
                (api.leveldb_iter_next)(iterator);
            }
            (api.leveldb_iter_get_error)(iterator, &mut error);
            (api.leveldb_iter_destroy)(iterator);
        }
        self.check(error)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handles; cache and filter go after the database that uses them.
        unsafe {
            if !self.db.0.is_null() {
                (self.api.leveldb_close)(self.db.0);
            }
            (self.api.leveldb_readoptions_destroy)(self.read.0);
            (self.api.leveldb_writeoptions_destroy)(self.write.0);
            (self.api.leveldb_cache_destroy)(self.cache.0);
            (self.api.leveldb_filterpolicy_destroy)(self.filter.0);
        }
    }
}
