//! The one floor that touches the operating system.
//!
//! Everything above speaks to two small traits: [`Disk`], a namespace of files, and [`File`], positioned
//! reads and writes plus `sync`. Three rules give them a meaning that can be simulated and crashed:
//!
//! * bytes written are visible to every later read at once, but survive a power cut only after
//!   [`File::sync`];
//! * names created, renamed, linked or removed are visible at once, but survive a power cut only after
//!   [`Disk::sync_dir`] of their directory;
//! * between those calls a power cut may keep any subset of the unsynced sectors and name changes.
//!
//! A failed sync may have lost what it should have made durable, and a later sync that succeeds does not
//! bring it back; so it is never retried, and a store stops promising durability. `checked.rs` sees to that,
//! for every store.
//!
//! [`os::OsDisk`] is the real thing, [`direct::DirectDisk`] the same around the system's page cache; the
//! simulated disk, `sim::SimDisk`, is there for tests (feature `sim`). `conformance.rs` holds all of them,
//! bare and checked, to the same behaviour.

use crate::filename;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod around;
pub(crate) mod behind;
pub(crate) mod checked;
#[cfg(test)]
mod conformance;
pub mod direct;
mod file;
pub(crate) mod heap;
pub(crate) mod limits;
pub mod os;
pub(crate) mod pages;
pub(crate) mod processor;
// Public for the measuring of devices, and promised to nobody.
#[doc(hidden)]
pub mod reads;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(target_os = "linux")]
mod uring;

/// How an existing file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes in place.
    ReadWrite,
}

/// A held directory lock; dropping it releases the lock.
pub trait DirLock: Send + Sync + fmt::Debug {}

/// The error of a lock that is held elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy {
    /// The text that the holder wrote into the locked file.
    pub owner: String,
}

impl HeldBy {
    /// Makes the error of a lock on a file that holds `text`.
    pub(crate) fn error(text: &[u8]) -> io::Error {
        let owner = String::from_utf8_lossy(text).into_owned();
        io::Error::new(io::ErrorKind::WouldBlock, Self { owner })
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.owner)
    }
}

impl std::error::Error for HeldBy {}

/// A namespace of files: an ordinary file system or a simulated disk.
///
/// Errors are plain [`io::Error`]s; the engine adds the file's name and what to do about it.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates `dir` and its missing parents; an existing directory is fine, a file in the way gives
    /// [`io::ErrorKind::AlreadyExists`].
    ///
    /// The directories made here survive a power cut once this returns, unlike the names of files.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates `path`, or truncates it where it exists, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// As [`Disk::create`], for a file that is written once, from front to back and in large pieces, and then
    /// only read.
    fn create_streamed(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create(path)
    }
    /// As [`Disk::create_streamed`], around the system's page cache where that can be done: for what is
    /// larger than memory, or read once.
    fn create_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create_streamed(path)
    }
    /// Opens an existing file; [`io::ErrorKind::NotFound`] where there is none.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;
    /// Renames a file, replacing `to` where it exists. Files already open stay usable.
    ///
    /// Within one directory a crash leaves `to` naming the old file or the new one, never neither. Where
    /// `from` and `to` already name the same file, both stay.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Files already open stay readable.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Gives an existing file a second name on the same file system; [`io::ErrorKind::AlreadyExists`] where
    /// `to` exists.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Names of the entries of `dir`, sorted; [`io::ErrorKind::NotFound`] where there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// The one absolute path of an existing directory that all its names lead to; [`io::ErrorKind::NotFound`]
    /// where there is none.
    fn canonical(&self, dir: &Path) -> io::Result<PathBuf>;
    /// Makes name changes in `dir` survive a power cut.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the exclusive lock on the file `path`, creating it where needed, and writes `owner` into it.
    ///
    /// A lock held elsewhere gives [`io::ErrorKind::WouldBlock`], with a [`HeldBy`] in it that has the
    /// holder's text.
    fn lock(&self, path: &Path, owner: &str) -> io::Result<Box<dyn DirLock>>;
    /// Bytes that can still be written below `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Wall-clock milliseconds since the Unix epoch: what items' times to live are counted in.
    fn now_ms(&self) -> u64;
    /// A number that nobody can guess, from the operating system's randomness: what tells logs, backups and
    /// stores apart.
    fn random_u64(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish()
    }
}

/// An open file with positioned access; safe to share between threads.
pub trait File: Send + Sync + fmt::Debug {
    /// Fills `buf` from `offset`; [`io::ErrorKind::UnexpectedEof`] where the file ends first.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, extending the file (zero-filled) where needed.
    ///
    /// After an error, any part of `bytes` may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the file's bytes and length survive a power cut.
    fn sync(&self) -> io::Result<()>;
    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Hints that `length` bytes from `offset` on will be read soon, so that several reads can be under way
    /// at once.
    ///
    /// Returns at once; nothing depends on it. False where such hints have no effect.
    fn will_need(&self, offset: u64, length: u64) -> bool {
        let _ = (offset, length);
        false
    }
    /// Fills `buf` from `offset` where the operating system has these bytes in memory, and says whether it
    /// did; it never waits for the device.
    ///
    /// Whatever is wrong shows in [`File::read_exact_at`] alone.
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> bool {
        let _ = (buf, offset);
        false
    }
    /// What the operating system knows the file by, where there is such a thing.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The same for reads around the system's page cache, which have to be of whole aligned pages, where
    /// these bytes are read so.
    fn as_direct_fd(&self, offset: u64, length: usize) -> Option<BorrowedFd<'_>> {
        let _ = (offset, length);
        None
    }
    /// Cuts or zero-extends the file to `bytes`.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}

/// A whole file of a store's, which is no longer than its name allows.
pub(crate) fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    read_whole(disk.open(path, Access::Read)?.as_ref(), filename::most_bytes(path))
}

/// All bytes of an open file, of which there are `most_bytes` at most.
pub(crate) fn read_whole(file: &dyn File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.len()?;
    if length > most_bytes {
        let what = format!("it has {length} bytes, and no such file of a store has more than {most_bytes}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let length = usize::try_from(length).map_err(io::Error::other)?;
    // Memory that there is not would end the process.
    Vec::<u8>::new().try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
