//! Files of backups: copied, linked, and told by a hash of their bytes.

use super::record::Stored;
use crate::cache::{PAGE_BYTES, page_is_sound};
use crate::error::{Error, Result};
use crate::io::{Access, Disk, File};
use siltstone_design::HashSecret;
use std::path::Path;
use std::sync::Arc;

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A hash of a file's bytes, chunk by chunk: of each chunk behind the hash of all before it.
struct ContentHash {
    /// The hash so far, and the present chunk.
    buffer: Vec<u8>,
}

impl ContentHash {
    fn new() -> Self {
        Self { buffer: vec![0; 16] }
    }

    /// Adds the next chunk.
    fn add(&mut self, chunk: &[u8]) {
        self.buffer.truncate(16);
        self.buffer.extend_from_slice(chunk);
        let mut hash = [0u8; 16];
        for (number, half) in hash.chunks_exact_mut(8).enumerate() {
            let key = HashSecret([0x5b ^ number as u8; 16]);
            half.copy_from_slice(&key.hash64(&self.buffer).to_le_bytes());
        }
        self.buffer.truncate(0);
        self.buffer.extend_from_slice(&hash);
    }

    fn in_words(&self) -> String {
        self.buffer.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A table whose pages are checked while it is read.
#[derive(Clone, Copy)]
pub(super) struct Checked {
    pub id: u64,
    pub pages: u32,
}

/// What is read on the way from one place to another.
pub(super) struct Source<'a> {
    pub file: &'a dyn File,
    pub path: &'a Path,
    /// The number that the stored file gets.
    pub number: u64,
    /// Pages to be checked.
    pub table: Option<Checked>,
}

impl Source<'_> {
    /// Reads all of it, shows `put` every chunk with its offset, and returns what it is.
    pub fn read(&self, put: &mut dyn FnMut(&[u8], u64) -> Result<()>) -> Result<Stored> {
        let fail = |e: std::io::Error| Error::io(&e, "reading", self.path);
        let bytes = self.file.len().map_err(fail)?;
        let mut hash = ContentHash::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(CHUNK_BYTES as u64) as usize;
            let Some(part) = chunk.get_mut(..length) else { break };
            self.file.read_exact_at(part, at).map_err(fail)?;
            self.check(part, at)?;
            hash.add(part);
            put(part, at)?;
            at += length as u64;
        }
        Ok(Stored { number: self.number, bytes, hash: hash.in_words() })
    }

    /// Checks the pages of a table among `chunk`, which begins at byte `at`.
    fn check(&self, chunk: &[u8], at: u64) -> Result<()> {
        let Some(Checked { id, pages }) = self.table else { return Ok(()) };
        let first = (at / PAGE_BYTES as u64) as u32;
        for (number, page) in (first..pages).zip(chunk.chunks(PAGE_BYTES)) {
            if !page.first_chunk().is_some_and(|page| page_is_sound(id, number, page)) {
                let offset = u64::from(number) * PAGE_BYTES as u64;
                let error = Error::corruption(self.path, offset, "a page with its checksum", "another");
                return Err(
                    error.and("`siltstone verify` says what else is damaged; backups made before are whole")
                );
            }
        }
        Ok(())
    }

    /// Copies it to `to`, and syncs that.
    pub fn copy(&self, disk: &dyn Disk, to: &Path) -> Result<Stored> {
        let fail = |e: std::io::Error| Error::io(&e, "writing", to);
        // A file that is there may be this one under a second name, and making it anew would empty both.
        remove(disk, to)?;
        let target = disk.create(to).map_err(fail)?;
        let stored = self.read(&mut |chunk, at| target.write_all_at(chunk, at).map_err(fail))?;
        target.sync().map_err(fail)?;
        Ok(stored)
    }

    /// Gives it a second name, `to`, where `links` and the file system allow that; else copies it.
    pub fn link_or_copy(&self, disk: &dyn Disk, to: &Path, links: bool) -> Result<Stored> {
        if links && disk.hard_link(self.path, to).is_ok() {
            let linked = self.read(&mut |_, _| Ok(()));
            if linked.is_err() {
                let _ = disk.remove(to);
            }
            return linked;
        }
        self.copy(disk, to)
    }
}

/// Opens a file for reading.
pub(super) fn open(disk: &dyn Disk, path: &Path) -> Result<Arc<dyn File>> {
    disk.open(path, Access::Read).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::missing(path),
        _ => Error::io(&error, "opening", path),
    })
}

/// Removes a file, if it is there.
pub(super) fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(&error, "removing", path))
        }
        _ => Ok(()),
    }
}

/// Writes `bytes` to `to`, whole or not at all: under the name `new` until they are synced.
pub(super) fn write_whole(disk: &dyn Disk, bytes: &[u8], new: &Path, to: &Path) -> Result<()> {
    let fail = |e: std::io::Error| Error::io(&e, "writing", to);
    let file = disk.create(new).map_err(fail)?;
    file.write_all_at(bytes, 0).map_err(fail)?;
    file.sync().map_err(fail)?;
    disk.rename(new, to).map_err(fail)
}

/// Makes the names in `dir` durable.
pub(super) fn sync_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    disk.sync_dir(dir).map_err(|e| Error::io(&e, "syncing directory", dir))
}
