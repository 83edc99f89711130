//! RocksDB's own way to load much at once: sorted files written outside of the database, then moved into it.

use super::{RocksDb, Variant, load_library, make_options, open_with};
use crate::dynamic::{Handle, c_string, functions};
use crate::engine::{Setting, Store};
use crate::failure::Result;
use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::ptr::null_mut;

functions! {
    /// The functions that write and take in files.
    FilesApi:
    rocksdb_envoptions_create() -> Handle;
    rocksdb_envoptions_destroy(Handle);
    rocksdb_sstfilewriter_create(Handle, Handle) -> Handle;
    rocksdb_sstfilewriter_open(Handle, *const c_char, *mut *mut c_char);
    rocksdb_sstfilewriter_put(Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
    rocksdb_sstfilewriter_finish(Handle, *mut *mut c_char);
    rocksdb_sstfilewriter_destroy(Handle);
    rocksdb_ingestexternalfileoptions_create() -> Handle;
    rocksdb_ingestexternalfileoptions_set_move_files(Handle, u8);
    rocksdb_ingestexternalfileoptions_destroy(Handle);
    rocksdb_ingest_external_file(Handle, *const *const c_char, usize, Handle, *mut *mut c_char);
}

/// Bytes of keys and values of a file: what compaction would give its own.
const FILE_BYTES: u64 = 64 << 20;

/// Takes items in the order of their keys, each key once, for a database that is empty.
pub struct FileLoad {
    rocks: RocksDb,
    api: FilesApi,
    dir: PathBuf,
    options: Handle,
    environment: Handle,
    /// The file that is being written.
    writer: Option<Handle>,
    bytes: u64,
    files: Vec<CString>,
}

impl FileLoad {
    /// Opens a database for such a load.
    ///
    /// # Errors
    /// The library is missing, or the engine's own.
    pub fn open(variant: Variant, setting: Setting<'_>) -> Result<Self> {
        let api = FilesApi::new(load_library()?)?;
        let memory = (setting.memory, false);
        // SAFETY: nothing is adjusted; what is made here is destroyed when the value is dropped.
        unsafe {
            let rocks = open_with(variant, setting, &mut |_, _| {})?;
            let options = make_options(&rocks.api, variant, memory, &mut |_, _| {});
            let environment = (api.rocksdb_envoptions_create)();
            let (dir, files) = (setting.dir.to_owned(), Vec::new());
            Ok(Self { rocks, api, dir, options, environment, writer: None, bytes: 0, files })
        }
    }

    /// Adds the next item.
    ///
    /// # Errors
    /// The engine's own; items that do not ascend.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = null_mut();
        let writer = match self.writer {
            Some(writer) => writer,
            None => {
                let name = format!("load-{:06}.sst", self.files.len());
                let path = c_string(&self.dir.join(name).to_string_lossy())?;
                // SAFETY: the writer keeps options and environment alive by itself and is destroyed in
                // `end_file`.
                let writer = unsafe {
                    let writer = (self.api.rocksdb_sstfilewriter_create)(self.environment, self.options);
                    (self.api.rocksdb_sstfilewriter_open)(writer, path.as_ptr(), &mut error);
                    writer
                };
                self.files.push(path);
                *self.writer.insert(writer)
            }
        };
        // SAFETY: key and value are there during the call, which copies them.
        unsafe {
            if error.is_null() {
                let (k, v) = (key.as_ptr(), value.as_ptr());
                (self.api.rocksdb_sstfilewriter_put)(writer, k, key.len(), v, value.len(), &mut error);
            }
        }
        self.rocks.check(error)?;
        self.bytes += (key.len() + value.len()) as u64;
        if self.bytes >= FILE_BYTES { self.end_file() } else { Ok(()) }
    }

    fn end_file(&mut self) -> Result<()> {
        self.bytes = 0;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let mut error = null_mut();
        // SAFETY: nobody else has the writer.
        unsafe {
            (self.api.rocksdb_sstfilewriter_finish)(writer, &mut error);
            (self.api.rocksdb_sstfilewriter_destroy)(writer);
        }
        self.rocks.check(error)
    }

    /// Ends the last file, and moves all into the database, which is returned.
    ///
    /// # Errors
    /// The engine's own.
    pub fn finish(mut self) -> Result<Box<dyn Store>> {
        self.end_file()?;
        let files: Vec<*const c_char> = self.files.iter().map(|file| file.as_ptr()).collect();
        let mut error = null_mut();
        // SAFETY: the names are there during the call; what is made here is destroyed here.
        unsafe {
            let options = (self.api.rocksdb_ingestexternalfileoptions_create)();
            (self.api.rocksdb_ingestexternalfileoptions_set_move_files)(options, 1);
            let db = self.rocks.db.0;
            (self.api.rocksdb_ingest_external_file)(db, files.as_ptr(), files.len(), options, &mut error);
            (self.api.rocksdb_ingestexternalfileoptions_destroy)(options);
            (self.rocks.api.rocksdb_options_destroy)(self.options);
            (self.api.rocksdb_envoptions_destroy)(self.environment);
        }
        self.rocks.check(error)?;
        Ok(Box::new(self.rocks))
    }
}
