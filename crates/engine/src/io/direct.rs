//! Files around the system's page cache: [`DirectDisk`] is [`OsDisk`] but for how files are read.
//!
//! The idea: a store that has a memory budget should not have its pages cached a second time where no budget
//! counts them, nor the system's memory filled with tables that wait for being written back. Tables are
//! opened with `O_DIRECT` and their whole pages written with it; where a file system knows no such thing
//! (tmpfs), all is as ever. Other writes go through the page cache, since logs append a few bytes at a time.
//! What [`File::sync`] has made durable is dropped from it and read directly from then on; what is not synced
//! yet is there anyway.
//!
//! Source: ours, as other engines do it. Direct reads and writes need offset, length and memory in whole
//! pages. Those that are not so are served by way of a buffer that is, or through the page cache.
//!
//! Invariant: what a file says does not depend on how it was opened or written.

use super::around::{DirectFile, Streamed, open_direct};
use super::file::{OsFile, check_is_file, creating};
use super::os::OsDisk;
use super::{Access, DirLock, Disk, File};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[doc(hidden)]
pub use super::around::ALIGNMENT;

/// Memory that direct reads can fill.
///
/// ```
/// use siltstone::io::direct::{ALIGNMENT, AlignedPage};
///
/// let pages = vec![AlignedPage::default(); 3];
/// assert!(pages.iter().all(|page| page.0.as_ptr().addr() % ALIGNMENT == 0));
/// ```
#[derive(Clone, Debug)]
#[repr(C, align(4096))]
#[doc(hidden)]
pub struct AlignedPage(pub [u8; ALIGNMENT]);

impl Default for AlignedPage {
    fn default() -> Self {
        Self([0; ALIGNMENT])
    }
}

/// The operating system's file system, read around its page cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectDisk {
    inner: OsDisk,
}

impl Disk for DirectDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = creating().truncate(true).open(path)?;
        Ok(Arc::new(Written::new(file, path)?))
    }

    fn create_streamed(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Streamed::create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        check_is_file(path)?;
        if access == Access::ReadWrite {
            let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
            return Ok(Arc::new(Written::new(file, path)?));
        }
        match open_direct(path, access)? {
            Some(file) => Ok(Arc::new(DirectFile { file })),
            None => self.inner.open(path, access),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn canonical(&self, dir: &Path) -> io::Result<PathBuf> {
        self.inner.canonical(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Box<dyn DirLock>> {
        self.inner.lock(path, owner)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }
}

/// Aligned memory for the whole pages around some bytes, so that they can be read directly.
pub(super) struct Window {
    pages: Vec<AlignedPage>,
    /// Where the bytes begin in the first page.
    within: usize,
    /// Where that page begins in the file.
    offset: u64,
}

impl Window {
    /// Memory to read `length` bytes from `offset` on by way of.
    pub fn around(offset: u64, length: usize) -> Self {
        let within = (offset % ALIGNMENT as u64) as usize;
        let pages = vec![AlignedPage::default(); (within + length).div_ceil(ALIGNMENT)];
        Self { pages, within, offset: offset - within as u64 }
    }

    /// Where to read to, how many bytes, and from which byte of the file on.
    pub fn memory(&mut self) -> (*mut u8, usize, u64) {
        (self.pages.as_mut_ptr().cast(), self.pages.len() * ALIGNMENT, self.offset)
    }

    /// Copies the bytes out once so many of the memory are read; false where these are too few, as where a
    /// file ends early.
    pub fn copy_to(&self, buf: &mut [u8], read: usize) -> bool {
        if read < self.within + buf.len() {
            return false;
        }
        let mut left = buf;
        let mut within = self.within;
        for page in &self.pages {
            let bytes = page.0.get(within..).unwrap_or_default();
            let (now, later) = left.split_at_mut(bytes.len().min(left.len()));
            now.copy_from_slice(bytes.get(..now.len()).unwrap_or_default());
            (left, within) = (later, 0);
        }
        left.is_empty()
    }
}

/// A file that may be appended to: written through the page cache, and read around it where it is synced.
#[derive(Debug)]
struct Written {
    ordinary: OsFile,
    direct: Option<DirectFile>,
    /// Bytes up to the end of what was written or was there.
    end: AtomicU64,
    /// Bytes that were synced and not written since. Only a hint: a direct read of others would make the
    /// system write them first, which takes long.
    synced: AtomicU64,
}

impl Written {
    fn new(file: fs::File, path: &Path) -> io::Result<Self> {
        let direct = open_direct(path, Access::Read)?.map(|file| DirectFile { file });
        let end = AtomicU64::new(file.metadata()?.len());
        Ok(Self { ordinary: OsFile { file }, direct, end, synced: AtomicU64::new(0) })
    }

    /// What to read these bytes by around the page cache, where they are synced with the whole of their
    /// pages.
    fn direct(&self, offset: u64, length: usize) -> Option<&DirectFile> {
        let end = offset.saturating_add(length as u64).next_multiple_of(ALIGNMENT as u64);
        self.direct.as_ref().filter(|_| end <= self.synced.load(Ordering::Relaxed))
    }
}

impl File for Written {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match self.direct(offset, buf.len()) {
            Some(direct) => direct.read_exact_at(buf, offset),
            None => self.ordinary.read_exact_at(buf, offset),
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.synced.fetch_min(offset, Ordering::Relaxed);
        self.end.fetch_max(offset + bytes.len() as u64, Ordering::Relaxed);
        self.ordinary.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let end = self.end.load(Ordering::Relaxed);
        self.ordinary.sync_and_drop()?;
        self.synced.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.ordinary.len()
    }

    fn will_need(&self, offset: u64, length: u64) -> bool {
        let length_in_memory = usize::try_from(length).unwrap_or(usize::MAX);
        self.direct(offset, length_in_memory).is_none() && self.ordinary.will_need(offset, length)
    }

    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> bool {
        self.direct(offset, buf.len()).is_none() && self.ordinary.read_cached_at(buf, offset)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ordinary.as_fd()
    }

    fn as_direct_fd(&self, offset: u64, length: usize) -> Option<BorrowedFd<'_>> {
        self.direct(offset, length)?.as_fd()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.synced.fetch_min(bytes, Ordering::Relaxed);
        self.end.store(bytes, Ordering::Relaxed);
        self.ordinary.set_len(bytes)
    }
}
