//! RocksDB through its C interface, as the system's library: leveled and universal compaction, and what its
//! tuning guide offers for point lookups out of cache.
//!
//! | setting | value | why |
//! |---|---|---|
//! | write buffers | 2, each half of the share | 64 MiB and 2 are the defaults; smaller under a small cap |
//! | `max_bytes_for_level_base`, `target_file_size_base` | 4 write buffers, 1 | the proportions of the defaults |
//! | `level_compaction_dynamic_level_bytes` | on | recommended, and the default of later versions |
//! | block cache | the rest of the managed memory, with indexes and filters in it, those of level 0 pinned | the guide's way to bound memory |
//! | filter | Bloom of 10 bits, whole keys, format version 5 | the guide's; Ribbon saves a third of it for more CPU |
//! | prefix filters | none | every group has items in nearly every file, so that they would only double the filters |
//! | direct reads, direct I/O for flush and compaction | on, but for one variant | the cap counts the page cache: twice cached is half as much cached |
//! | block size | 4 KiB | the default, and the page size of all others |
//! | automatic compaction | off in runs that only read | file and level sizes follow the memory, so that a store filled with more would be rewritten when it is opened with less |
//! | background jobs | 2 | the default, and the number of cores |
//! | log | on, not synced | the default: survives a killed process |
//! | compression | none | values are noise |
//!
//! Its own count of device reads is that of blocks read by gets and iterators, filters and indexes included,
//! from the calling thread's performance context; counting costs no clock reads.

pub mod counters;
pub mod files;
pub mod many;

use super::{Items, Memory, Setting, Store, above};
use crate::dynamic::{self, Handle, Shared, c_string, functions};
use crate::failure::{Failure, Result};
use siltstone_lab::kit::sizes;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uchar};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Names of the library, newest first where there is no development package.
const NAMES: [&str; 8] = [
    "librocksdb.so",
    "librocksdb.so.10",
    "librocksdb.so.9.10",
    "librocksdb.so.9",
    "librocksdb.so.8.9",
    "librocksdb.so.8",
    "librocksdb.so.7.8",
    "librocksdb.dylib",
];

/// `rocksdb_enable_count`.
const COUNT_ONLY: c_int = 2;
/// `rocksdb_block_read_count`.
const BLOCK_READ_COUNT: c_int = 2;
/// `rocksdb_level_compaction`, `rocksdb_universal_compaction`.
const LEVEL_COMPACTION: c_int = 0;
const UNIVERSAL_COMPACTION: c_int = 1;
/// `rocksdb_block_based_table_index_type_two_level_index_search`.
const TWO_LEVEL_INDEX: c_int = 2;

functions! {
    /// The functions of `rocksdb/c.h` that every workload calls.
    Api:
    rocksdb_free(Handle);
    rocksdb_open_column_families(Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, *mut *mut c_char) -> Handle;
    rocksdb_column_family_handle_destroy(Handle);
    rocksdb_close(Handle);
    rocksdb_put(Handle, Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
    rocksdb_write(Handle, Handle, Handle, *mut *mut c_char);
    rocksdb_get_pinned(Handle, Handle, *const u8, usize, *mut *mut c_char) -> Handle;
    rocksdb_batched_multi_get_cf(Handle, Handle, Handle, usize, *const *const u8, *const usize, *mut Handle, *mut *mut c_char, c_uchar);
    rocksdb_pinnableslice_value(Handle, *mut usize) -> *const u8;
    rocksdb_pinnableslice_destroy(Handle);
    rocksdb_writebatch_create() -> Handle;
    rocksdb_writebatch_put(Handle, *const u8, usize, *const u8, usize);
    rocksdb_writebatch_destroy(Handle);
    rocksdb_create_iterator(Handle, Handle) -> Handle;
    rocksdb_iter_seek(Handle, *const u8, usize);
    rocksdb_iter_valid(Handle) -> c_uchar;
    rocksdb_iter_next(Handle);
    rocksdb_iter_key(Handle, *mut usize) -> *const u8;
    rocksdb_iter_value(Handle, *mut usize) -> *const u8;
    rocksdb_iter_get_error(Handle, *mut *mut c_char);
    rocksdb_iter_destroy(Handle);
    rocksdb_flushoptions_create() -> Handle;
    rocksdb_flushoptions_set_wait(Handle, c_uchar);
    rocksdb_flushoptions_destroy(Handle);
    rocksdb_flush(Handle, Handle, *mut *mut c_char);
    rocksdb_property_int(Handle, *const c_char, *mut u64) -> c_int;
    rocksdb_options_create() -> Handle;
    rocksdb_options_destroy(Handle);
    rocksdb_options_set_create_if_missing(Handle, c_uchar);
    rocksdb_options_set_compression(Handle, c_int);
    rocksdb_options_set_compaction_style(Handle, c_int);
    rocksdb_options_set_write_buffer_size(Handle, usize);
    rocksdb_options_set_max_write_buffer_number(Handle, c_int);
    rocksdb_options_set_max_bytes_for_level_base(Handle, u64);
    rocksdb_options_set_target_file_size_base(Handle, u64);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(Handle, c_uchar);
    rocksdb_options_set_max_background_jobs(Handle, c_int);
    rocksdb_options_set_disable_auto_compactions(Handle, c_int);
    rocksdb_options_set_use_direct_reads(Handle, c_uchar);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(Handle, c_uchar);
    rocksdb_options_set_block_based_table_factory(Handle, Handle);
    rocksdb_block_based_options_create() -> Handle;
    rocksdb_block_based_options_destroy(Handle);
    rocksdb_block_based_options_set_block_cache(Handle, Handle);
    rocksdb_block_based_options_set_filter_policy(Handle, Handle);
    rocksdb_block_based_options_set_format_version(Handle, c_int);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(Handle, c_uchar);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(Handle, c_uchar);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(Handle, c_uchar);
    rocksdb_block_based_options_set_pin_top_level_index_and_filter(Handle, c_uchar);
    rocksdb_block_based_options_set_index_type(Handle, c_int);
    rocksdb_block_based_options_set_partition_filters(Handle, c_uchar);
    rocksdb_filterpolicy_create_bloom_full(f64) -> Handle;
    rocksdb_filterpolicy_create_ribbon(f64) -> Handle;
    rocksdb_cache_create_lru(usize) -> Handle;
    rocksdb_cache_destroy(Handle);
    rocksdb_readoptions_create() -> Handle;
    rocksdb_readoptions_destroy(Handle);
    rocksdb_readoptions_set_iterate_upper_bound(Handle, *const u8, usize);
    rocksdb_writeoptions_create() -> Handle;
    rocksdb_writeoptions_destroy(Handle);
    rocksdb_set_perf_level(c_int);
    rocksdb_perfcontext_create() -> Handle;
    rocksdb_perfcontext_metric(Handle, c_int) -> u64;
}

/// A way to set RocksDB up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    name: &'static str,
    universal: bool,
    ribbon: bool,
    partitioned: bool,
    direct: bool,
}

impl Variant {
    /// Leveled and universal, then one change at a time.
    pub const ALL: [Self; 6] = {
        let plain = Self {
            name: "rocksdb-leveled",
            universal: false,
            ribbon: false,
            partitioned: false,
            direct: true,
        };
        [
            plain,
            Self { name: "rocksdb-universal", universal: true, ..plain },
            Self { name: "rocksdb-leveled-ribbon", ribbon: true, ..plain },
            Self { name: "rocksdb-leveled-partitioned", partitioned: true, ..plain },
            Self { name: "rocksdb-leveled-page-cache", direct: false, ..plain },
            Self {
                name: "rocksdb-universal-ribbon-partitioned",
                universal: true,
                ribbon: true,
                partitioned: true,
                ..plain
            },
        ]
    };

    /// The engine's name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Without direct I/O the page cache holds blocks; the engine's own only filters, indexes and hot blocks.
    fn cache_bytes(self, memory: Memory) -> u64 {
        if self.direct { memory.cache_bytes() } else { memory.cache_bytes() / 2 }
    }

    /// The settings for the record.
    pub fn settings(self, memory: Memory) -> String {
        format!(
            "{} compaction, 2 write buffers of {}, block cache {}, {} filters of 10 bits{}, {}, log not synced",
            if self.universal { "universal" } else { "leveled" },
            sizes::bytes(memory.write_buffer_bytes()),
            sizes::bytes(self.cache_bytes(memory)),
            if self.ribbon { "Ribbon" } else { "Bloom" },
            if self.partitioned { ", filters and indexes partitioned" } else { "" },
            if self.direct { "direct I/O" } else { "I/O through the page cache" },
        )
    }
}

fn load_library() -> std::result::Result<libloading::Library, String> {
    dynamic::load(&NAMES, "SILTSTONE_PEERS_ROCKSDB", "librocksdb-dev")
}

fn load() -> std::result::Result<Api, String> {
    Api::new(load_library()?)
}

/// The library's version, as far as it can be told: the C interface has no function for it, the file's name
/// has.
///
/// # Errors
/// There is no such library.
pub fn version() -> std::result::Result<String, String> {
    load()?;
    Ok(dynamic::loaded_version("librocksdb").map_or_else(|| "RocksDB".to_owned(), |v| format!("RocksDB {v}")))
}

/// Opens or creates a store.
///
/// # Errors
/// The library is missing, or the engine's own.
pub fn open(variant: Variant, setting: Setting<'_>) -> Result<Box<dyn Store>> {
    // SAFETY: the options stay as they are.
    Ok(Box::new(unsafe { open_with(variant, setting, &mut |_, _| {}) }?))
}

/// Makes the options of a store; `adjust` sets some of them, and of its tables', last.
///
/// SAFETY: whoever gets them destroys them. `adjust` hands them to the library's functions for options, and
/// keeps them nowhere.
unsafe fn make_options(
    api: &Api,
    variant: Variant,
    (memory, only_reads): (Memory, bool),
    adjust: &mut dyn FnMut(Handle, Handle),
) -> Handle {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let buffer = memory.write_buffer_bytes();
    // SAFETY: options are made and set here, each by the functions of its kind; a filter policy belongs to
    // the table options from the moment it is set, a cache is counted by reference, and options copy what
    // they are told of tables.
    unsafe {
        let cache = (api.rocksdb_cache_create_lru)(size(variant.cache_bytes(memory)));
        let filter = if variant.ribbon {
            (api.rocksdb_filterpolicy_create_ribbon)(10.0)
        } else {
            (api.rocksdb_filterpolicy_create_bloom_full)(10.0)
        };
        let table = (api.rocksdb_block_based_options_create)();
        (api.rocksdb_block_based_options_set_block_cache)(table, cache);
        (api.rocksdb_block_based_options_set_filter_policy)(table, filter);
        (api.rocksdb_block_based_options_set_format_version)(table, 5);
        (api.rocksdb_block_based_options_set_cache_index_and_filter_blocks)(table, 1);
        (api.rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority)(table, 1);
        (api.rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache)(table, 1);
        if variant.partitioned {
            (api.rocksdb_block_based_options_set_index_type)(table, TWO_LEVEL_INDEX);
            (api.rocksdb_block_based_options_set_partition_filters)(table, 1);
            (api.rocksdb_block_based_options_set_pin_top_level_index_and_filter)(table, 1);
        }
        let style = if variant.universal { UNIVERSAL_COMPACTION } else { LEVEL_COMPACTION };
        let options = (api.rocksdb_options_create)();
        (api.rocksdb_options_set_create_if_missing)(options, 1);
        (api.rocksdb_options_set_compression)(options, 0);
        (api.rocksdb_options_set_compaction_style)(options, style);
        (api.rocksdb_options_set_write_buffer_size)(options, size(buffer));
        (api.rocksdb_options_set_max_write_buffer_number)(options, 2);
        (api.rocksdb_options_set_max_bytes_for_level_base)(options, 4 * buffer);
        (api.rocksdb_options_set_target_file_size_base)(options, buffer);
        (api.rocksdb_options_set_level_compaction_dynamic_level_bytes)(options, 1);
        (api.rocksdb_options_set_max_background_jobs)(options, 2);
        (api.rocksdb_options_set_disable_auto_compactions)(options, only_reads.into());
        (api.rocksdb_options_set_use_direct_reads)(options, variant.direct.into());
        (api.rocksdb_options_set_use_direct_io_for_flush_and_compaction)(options, variant.direct.into());
        adjust(options, table);
        (api.rocksdb_options_set_block_based_table_factory)(options, table);
        (api.rocksdb_block_based_options_destroy)(table);
        (api.rocksdb_cache_destroy)(cache);
        options
    }
}

/// Opens or creates a store whose options, and those of its tables, `adjust` sets last.
///
/// # Errors
/// The library is missing, or the engine's own.
///
/// SAFETY: `adjust` hands the options to the library's functions for options, and keeps them nowhere.
unsafe fn open_with(
    variant: Variant,
    setting: Setting<'_>,
    adjust: &mut dyn FnMut(Handle, Handle),
) -> Result<RocksDb> {
    let api = load()?;
    let Setting { dir, memory, only_reads, .. } = setting;
    let path = c_string(&dir.to_string_lossy())?;
    let mut error = null_mut();
    // The one column family there is, by handle: the batched form of getting wants one.
    let (name, mut family) = (c_string("default")?, null_mut());
    // SAFETY: `rocksdb_open_column_families` copies what it is told, and the options are destroyed here.
    let (db, read, write) = unsafe {
        let options = make_options(&api, variant, (memory, only_reads), adjust);
        let (names, families) = ([name.as_ptr()], [options]);
        let db = (api.rocksdb_open_column_families)(
            options,
            path.as_ptr(),
            1,
            names.as_ptr(),
            families.as_ptr(),
            &mut family,
            &mut error,
        );
        (api.rocksdb_options_destroy)(options);
        (Shared(db), Shared((api.rocksdb_readoptions_create)()), Shared((api.rocksdb_writeoptions_create)()))
    };
    let rocks = RocksDb { api, db, family: Shared(family), read, write, blocks_read: AtomicU64::new(0) };
    rocks.check(error)?;
    Ok(rocks)
}

/// One open database.
pub struct RocksDb {
    api: Api,
    /// Null where opening failed.
    db: Shared,
    /// Null as well then.
    family: Shared,
    read: Shared,
    write: Shared,
    /// Blocks read by gets and scans of all threads.
    blocks_read: AtomicU64,
}

thread_local! {
    /// This thread's performance context and the blocks it had read when last asked. The context is never
    /// destroyed: it is a few bytes for each thread of a process that ends with its run.
    static BLOCKS: Cell<(Handle, u64)> = const { Cell::new((null_mut(), 0)) };
}

impl RocksDb {
    fn check(&self, error: *mut c_char) -> Result<()> {
        // SAFETY: the message came from the library, whose function frees it.
        dynamic::check(error, |message| unsafe { (self.api.rocksdb_free)(message) }).map_err(Failure::new)
    }

    /// Before a read: this thread counts from now on.
    fn count_blocks(&self) {
        if BLOCKS.get().0.is_null() {
            // SAFETY: all three concern the calling thread alone.
            let (context, now) = unsafe {
                (self.api.rocksdb_set_perf_level)(COUNT_ONLY);
                let context = (self.api.rocksdb_perfcontext_create)();
                (context, (self.api.rocksdb_perfcontext_metric)(context, BLOCK_READ_COUNT))
            };
            BLOCKS.set((context, now));
        }
    }

    /// After a read: adds the blocks it took.
    fn note_blocks(&self) {
        let (context, before) = BLOCKS.get();
        // SAFETY: the context was made by this thread and lives as long as it does.
        let now = unsafe { (self.api.rocksdb_perfcontext_metric)(context, BLOCK_READ_COUNT) };
        if now != before {
            self.blocks_read.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            BLOCKS.set((context, now));
        }
    }

    /// Copies what a slice holds into `value` and frees it; whether there is one.
    ///
    /// SAFETY: `slice` is null, or came from the library and is used nowhere else.
    unsafe fn take_slice(&self, slice: Handle, value: &mut Vec<u8>) -> bool {
        if slice.is_null() {
            return false;
        }
        let mut length = 0;
        // SAFETY: a slice holds its value until it is destroyed, which happens here and by the promise above
        // only here.
        unsafe {
            let bytes = (self.api.rocksdb_pinnableslice_value)(slice, &mut length);
            value.clear();
            value.extend_from_slice(std::slice::from_raw_parts(bytes, length));
            (self.api.rocksdb_pinnableslice_destroy)(slice);
        }
        true
    }

    fn property(&self, name: &str) -> Result<u64> {
        let name = c_string(name)?;
        let mut value = 0;
        // SAFETY: an open database, a C string, and a number that is there.
        let _ = unsafe { (self.api.rocksdb_property_int)(self.db.0, name.as_ptr(), &mut value) };
        Ok(value)
    }

    /// Writes out what is in memory.
    fn flush(&self) -> Result<()> {
        let mut error = null_mut();
        // SAFETY: the options are made and destroyed here.
        unsafe {
            let options = (self.api.rocksdb_flushoptions_create)();
            (self.api.rocksdb_flushoptions_set_wait)(options, 1);
            (self.api.rocksdb_flush)(self.db.0, options, &mut error);
            (self.api.rocksdb_flushoptions_destroy)(options);
        }
        self.check(error)
    }

    /// Flushes and compactions that run.
    fn running(&self) -> Result<u64> {
        let compactions = self.property("rocksdb.num-running-compactions")?;
        Ok(self.property("rocksdb.num-running-flushes")? + compactions)
    }
}

/// Waits until no database works in the background. Universal compaction may have one pending that it never
/// starts, so only what runs counts. The next starts soon after the last; ten quiet looks are the end.
fn settle(databases: &[RocksDb]) -> Result<()> {
    let mut quiet = 0;
    while quiet < 10 {
        std::thread::sleep(Duration::from_millis(50));
        let mut running = 0;
        for database in databases {
            running += database.running()?;
        }
        quiet = if running == 0 { quiet + 1 } else { 0 };
    }
    Ok(())
}

impl Store for RocksDb {
    fn write(&self, items: &Items) -> Result<()> {
        let api = &self.api;
        let mut error = null_mut();
        // SAFETY: keys and values are there during the calls, which copy them; the batch is made and
        // destroyed here.
        unsafe {
            if let [(key, value)] = items {
                let (k, v) = (key.as_ptr(), value.as_ptr());
                (api.rocksdb_put)(self.db.0, self.write.0, k, key.len(), v, value.len(), &mut error);
            } else {
                let batch = (api.rocksdb_writebatch_create)();
                for (key, value) in items {
                    (api.rocksdb_writebatch_put)(batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                }
                (api.rocksdb_write)(self.db.0, self.write.0, batch, &mut error);
                (api.rocksdb_writebatch_destroy)(batch);
            }
        }
        self.check(error)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let api = &self.api;
        self.count_blocks();
        let mut error = null_mut();
        // SAFETY: the key is there during the call; a slice that is not null holds its value until it is
        // destroyed.
        let found = unsafe {
            let slice = (api.rocksdb_get_pinned)(self.db.0, self.read.0, key.as_ptr(), key.len(), &mut error);
            self.take_slice(slice, value)
        };
        self.note_blocks();
        self.check(error)?;
        Ok(found)
    }

    /// `MultiGet` in its batched form, which looks at all keys of a file together and reads blocks that lie
    /// side by side in one go.
    fn get_many(&self, keys: &[Vec<u8>], values: &mut [Option<Vec<u8>>]) -> Result<()> {
        self.count_blocks();
        let starts: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lengths: Vec<usize> = keys.iter().map(Vec::len).collect();
        let mut slices = vec![null_mut(); keys.len()];
        let mut errors = vec![null_mut(); keys.len()];
        // SAFETY: four arrays of as many elements as there are keys, which are there during the call; each
        // slice that is not null is taken once.
        unsafe {
            (self.api.rocksdb_batched_multi_get_cf)(
                self.db.0,
                self.read.0,
                self.family.0,
                keys.len(),
                starts.as_ptr(),
                lengths.as_ptr(),
                slices.as_mut_ptr(),
                errors.as_mut_ptr(),
                0,
            );
            for (slice, value) in slices.into_iter().zip(values) {
                let mut buffer = value.take().unwrap_or_default();
                *value = self.take_slice(slice, &mut buffer).then_some(buffer);
            }
        }
        self.note_blocks();
        errors.into_iter().try_for_each(|error| self.check(error))
    }

    fn scan(&self, prefix: &[u8], found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let api = &self.api;
        self.count_blocks();
        let bound = above(prefix);
        let mut error = null_mut();
        // SAFETY: the bound lives longer than the iterator that looks at it; keys and values of a valid
        // iterator stay until it moves on, and it moves on when `found` has returned.
        unsafe {
            let options = (api.rocksdb_readoptions_create)();
            if !bound.is_empty() {
                (api.rocksdb_readoptions_set_iterate_upper_bound)(options, bound.as_ptr(), bound.len());
            }
            let iterator = (api.rocksdb_create_iterator)(self.db.0, options);
            (api.rocksdb_iter_seek)(iterator, prefix.as_ptr(), prefix.len());
            while (api.rocksdb_iter_valid)(iterator) != 0 {
                let (mut key_length, mut value_length) = (0, 0);
                let key = (api.rocksdb_iter_key)(iterator, &mut key_length);
                let value = (api.rocksdb_iter_value)(iterator, &mut value_length);
                let key = std::slice::from_raw_parts(key, key_length);
                found(key, std::slice::from_raw_parts(value, value_length));
                (api.rocksdb_iter_next)(iterator);
            }
            (api.rocksdb_iter_get_error)(iterator, &mut error);
            (api.rocksdb_iter_destroy)(iterator);
            (api.rocksdb_readoptions_destroy)(options);
        }
        self.note_blocks();
        self.check(error)
    }

    fn settle(&self) -> Result<()> {
        self.flush()?;
        settle(std::slice::from_ref(self))
    }

    fn device_reads(&self) -> Option<u64> {
        Some(self.blocks_read.load(Ordering::Relaxed))
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handles, and iterators and slices end in the calls that make them.
        unsafe {
            (self.api.rocksdb_readoptions_destroy)(self.read.0);
            (self.api.rocksdb_writeoptions_destroy)(self.write.0);
            if !self.db.0.is_null() {
                (self.api.rocksdb_column_family_handle_destroy)(self.family.0);
                (self.api.rocksdb_close)(self.db.0);
            }
        }
    }
}
