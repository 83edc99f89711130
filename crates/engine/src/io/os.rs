//! Ordinary files: [`OsDisk`] passes each call to the operating system, through its page cache.
//!
//! Nothing is retried, translated or cached here; an error is the operating system's own. Two choices matter:
//!
//! * `sync` is `fdatasync`. It skips time stamps but does flush the file's length whenever that changed,
//!   because the length is needed to read the bytes back; so appended bytes are covered. On Apple systems the
//!   standard library asks for a full flush of the drive's cache.
//! * a name survives only once its directory is synced, so [`Disk::create_dir_all`] syncs the parent of every
//!   directory that it makes. No other call syncs anything by itself.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::around::Streamed;
use super::file::{OsFile, check_is_file, creating};
use super::{Access, DirLock, Disk, File, HeldBy};

/// What the system says of a file system of a network without locks, beside that they are not supported.
const NO_LOCKS: i32 = rustix::io::Errno::NOLCK.raw_os_error();

/// Bytes that are read of what a lock's holder has left in it.
const MOST_OWNER_BYTES: u64 = 256;

/// The operating system's file system, with buffered reads and writes.
///
/// ```
/// use siltstone::io::{Disk, os::OsDisk};
///
/// let path = std::env::temp_dir().join("siltstone-os-disk-example");
/// let file = OsDisk.create(&path)?;
/// file.write_all_at(b"silt", 0)?;
/// file.sync()?;
/// assert_eq!(file.len()?, 4);
/// OsDisk.remove(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()).collect();
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Ok(()) => {}
                // Another process was quicker; it may not have synced the parent yet.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
                Err(error) => return Err(error),
            }
            let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.sync_dir(parent.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = creating().truncate(true).open(path)?;
        Ok(Arc::new(OsFile { file }))
    }

    fn create_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Streamed::create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        check_is_file(path)?;
        let file = fs::OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path)?;
        Ok(Arc::new(OsFile { file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Of what a symbolic link leads to: a second name for the link would be of no use elsewhere.
        let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
        Ok(rustix::fs::linkat(rustix::fs::CWD, from, rustix::fs::CWD, to, follow)?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // Every name the engine makes is ASCII, so a name that is not UTF-8 is somebody else's file.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn canonical(&self, dir: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Box<dyn DirLock>> {
        // Truncated only once the lock is ours: until then the text belongs to the holder.
        let file = creating().truncate(false).open(path)?;
        check_is_file(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = Vec::new();
                file.take(MOST_OWNER_BYTES).read_to_end(&mut holder)?;
                return Err(HeldBy::error(&holder));
            }
            Err(fs::TryLockError::Error(error)) if error.raw_os_error() == Some(NO_LOCKS) => {
                return Err(io::Error::new(ErrorKind::Unsupported, error));
            }
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all_at(owner.as_bytes(), 0)?;
        Ok(Box::new(OsLock { file, process: std::process::id() }))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        // `f_bavail` leaves out what is reserved for root, which the engine cannot count on.
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn now_ms(&self) -> u64 {
        // A clock set before 1970 counts as 1970: items then live longer instead of vanishing.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}

/// An advisory lock that lasts as long as the file stays open; the system releases it when a process dies.
#[derive(Debug)]
struct OsLock {
    file: fs::File,
    process: u32,
}

impl Drop for OsLock {
    /// Unlocks, beside closing the file: processes that were forked from this one have it open as well, and
    /// would keep the lock. What they let go of themselves does not count, since the lock is not theirs.
    fn drop(&mut self) {
        if std::process::id() == self.process {
            // Where it fails, closing the file unlocks it.
            let _ = self.file.unlock();
        }
    }
}

impl DirLock for OsLock {}
