//! Open files of the operating system, through its page cache.

use super::File;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

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
