//! Open files around the system's page cache: read directly, or written so from front to back.

use super::file::{OsFile, creating};
use super::{Access, File};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Alignment that every device and file system is content with.
#[doc(hidden)]
pub const ALIGNMENT: usize = 4096;

/// Most bytes of the buffer by way of which memory that is not aligned is read or written.
const BUFFER_BYTES: usize = 1 << 20;

/// The file, opened for direct reads or writes; `None` where the file system has none.
#[cfg(target_os = "linux")]
pub(super) fn open_direct(path: &Path, access: Access) -> io::Result<Option<fs::File>> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let mut options = fs::OpenOptions::new();
    options.read(true).write(access == Access::ReadWrite).custom_flags(flags);
    match options.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_direct(_: &Path, _: Access) -> io::Result<Option<fs::File>> {
    Ok(None)
}

/// A file that is read directly.
#[derive(Debug)]
pub(super) struct DirectFile {
    pub(super) file: fs::File,
}

pub(super) fn is_aligned(buf: &[u8], offset: u64) -> bool {
    buf.as_ptr().addr().is_multiple_of(ALIGNMENT)
        && buf.len().is_multiple_of(ALIGNMENT)
        && offset.is_multiple_of(ALIGNMENT as u64)
}

impl DirectFile {
    /// Reads by way of aligned memory, a stretch at a time.
    fn read_unaligned(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        let within = (offset % ALIGNMENT as u64) as usize;
        let stretch = (within + buf.len()).next_multiple_of(ALIGNMENT).min(BUFFER_BYTES);
        let mut memory = vec![0; stretch + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let Some(memory) = memory.get_mut(start..start.saturating_add(stretch)) else {
            return Err(io::Error::other("memory that can't be aligned"));
        };
        while !buf.is_empty() {
            let within = (offset % ALIGNMENT as u64) as usize;
            // Short where the file ends, and whoever asked may be content with that.
            let read = match self.file.read_at(memory, offset - within as u64) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read?,
            };
            let bytes = memory.get(within..read).unwrap_or_default();
            let taken = bytes.len().min(buf.len());
            if taken == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let (now, later) = buf.split_at_mut(taken);
            now.copy_from_slice(bytes.get(..taken).unwrap_or_default());
            (buf, offset) = (later, offset + taken as u64);
        }
        Ok(())
    }
}

impl File for DirectFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if !is_aligned(buf, offset) {
            return self.read_unaligned(buf, offset);
        }
        match self.file.read_exact_at(buf, offset) {
            // After a part of the read, the rest need not be aligned.
            Err(error) if error.kind() == ErrorKind::InvalidInput => self.read_unaligned(buf, offset),
            read => read,
        }
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::Error::new(ErrorKind::PermissionDenied, "the file was opened for reading"))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn as_direct_fd(&self, _: u64, _: usize) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::Error::new(ErrorKind::PermissionDenied, "the file was opened for reading"))
    }
}

/// A file that is written once, from front to back: its whole pages go around the page cache.
#[derive(Debug)]
pub(super) struct Streamed {
    ordinary: OsFile,
    /// The same file for whole pages, where there is such a thing.
    direct: Option<DirectFile>,
    /// The device has refused a direct write.
    refused: AtomicBool,
    /// Memory that can be written from; kept until the file is synced, since it is much.
    memory: Mutex<Vec<u8>>,
}

impl Streamed {
    /// Creates the file, or truncates it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = creating().truncate(true).open(path)?;
        let direct = open_direct(path, Access::ReadWrite)?.map(|file| DirectFile { file });
        let (refused, memory) = Default::default();
        Ok(Self { ordinary: OsFile { file }, direct, refused, memory })
    }

    fn direct(&self) -> Option<&DirectFile> {
        self.direct.as_ref().filter(|_| !self.refused.load(Ordering::Relaxed))
    }

    /// Writes the whole pages that `bytes` begins with directly, where that can be done, and returns their
    /// number of bytes.
    fn write_pages(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let whole = bytes.len() - bytes.len() % ALIGNMENT;
        let Some(DirectFile { file }) =
            self.direct().filter(|_| whole > 0 && offset.is_multiple_of(ALIGNMENT as u64))
        else {
            return Ok(0);
        };
        let mut memory = self.memory.lock();
        let wanted = whole.min(BUFFER_BYTES) + ALIGNMENT;
        if memory.len() < wanted {
            *memory = vec![0; wanted];
        }
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let mut written = 0;
        for piece in bytes.get(..whole).unwrap_or_default().chunks(BUFFER_BYTES) {
            let Some(aligned) = memory.get_mut(start..start.saturating_add(piece.len())) else {
                return Err(io::Error::other("memory that can't be aligned"));
            };
            aligned.copy_from_slice(piece);
            match file.write_all_at(aligned, offset + written as u64) {
                // The device wants more than pages, or took a part of the piece: the page cache does for the
                // rest.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    self.refused.store(true, Ordering::Relaxed);
                    return Ok(written);
                }
                outcome => outcome?,
            }
            written += piece.len();
        }
        Ok(written)
    }
}

impl File for Streamed {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let are_pages = buf.len().is_multiple_of(ALIGNMENT) && offset.is_multiple_of(ALIGNMENT as u64);
        match self.direct().filter(|_| are_pages) {
            Some(direct) => direct.read_exact_at(buf, offset),
            None => self.ordinary.read_exact_at(buf, offset),
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let written = self.write_pages(bytes, offset)?;
        let rest = bytes.get(written..).unwrap_or_default();
        self.ordinary.write_all_at(rest, offset + written as u64)
    }

    fn sync(&self) -> io::Result<()> {
        *self.memory.lock() = Vec::new();
        self.ordinary.sync_and_drop()
    }

    fn len(&self) -> io::Result<u64> {
        self.ordinary.len()
    }

    fn will_need(&self, offset: u64, length: u64) -> bool {
        self.ordinary.will_need(offset, length)
    }

    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> bool {
        self.ordinary.read_cached_at(buf, offset)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ordinary.as_fd()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.ordinary.set_len(bytes)
    }
}
