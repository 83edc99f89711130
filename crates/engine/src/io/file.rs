//! Open files of the operating system, through its page cache.

use super::File;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Checks that there is a file at `path`, or a link to one: opening a pipe would wait for its other end, and
/// a device may have no end.
pub(super) fn check_is_file(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "there is something else than a file of that name"))
}

/// Returns options to create a file with, or to empty it: not what a symbolic link leads to, which may be
/// anything.
pub(super) fn creating() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options
}

/// An open file of the operating system.
#[derive(Debug)]
pub(super) struct OsFile {
    pub(super) file: fs::File,
}

impl File for OsFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, offset: u64, length: u64) -> bool {
        // Only a hint: where it is refused, the reads that follow take their time.
        let length = std::num::NonZeroU64::new(length);
        rustix::fs::fadvise(&self.file, offset, length, rustix::fs::Advice::WillNeed).is_ok()
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> bool {
        let length = buf.len();
        let bufs = &mut [io::IoSliceMut::new(buf)];
        let read = rustix::io::preadv2(&self.file, bufs, offset, rustix::io::ReadWriteFlags::NOWAIT);
        read.is_ok_and(|read| read == length)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl OsFile {
    /// Syncs, and lets go of what the page cache holds of it.
    pub(super) fn sync_and_drop(&self) -> io::Result<()> {
        self.sync()?;
        #[cfg(target_os = "linux")]
        {
            // Only a hint; where it is refused, the system drops the pages when it needs to.
            let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        }
        Ok(())
    }
}
