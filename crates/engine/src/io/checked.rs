//! A disk that remembers what failed on it: no call site has to.
//!
//! Every store wraps the disk it is opened on. Where a call fails after which nothing more can be promised,
//! the wrapper poisons the store: it sets a flag with the cause, which the store asks before it takes a
//! write. redb's `CheckedBackend` does the same. It stops at every error; here a store lives through those
//! that cost nothing.
//!
//! What poisons, and why:
//!
//! * **a failed sync of the store's directory.** The system may have dropped names that it was told to keep,
//!   among them those of log segments, and a second sync that succeeds does not bring them back;
//! * **a failed sync of a file that has been synced before**, or that was there when the store was opened:
//!   what it held may be gone, and something was promised of it;
//! * **a failed rename**, unless it was refused, or failed for want of room: nobody knows which file the name
//!   stands for now, and with it CURRENT may name another manifest than the one that is written to;
//! * of files whose [writes are watched](CheckedDisk::watch_writes), which the log's segments are, also **any
//!   failed sync, a failed write, unless for want of room, and a failed change of length**. Their bytes count
//!   from when they are written, so a part of a record leaves the log in doubt. A write that finds the disk
//!   full is cut off again.
//!
//! What does not:
//!
//! * **the first sync of a new file.** Nothing rests on it yet: a table is named by no manifest, and what it
//!   was made of, in the write buffer, the log or older tables, is still there. Whoever made the file drops
//!   it and makes another. So a disk that proves full when a table is synced passes like any other full disk.
//!   But the file is lost: each later write or sync of it fails too, so that no second sync of the same bytes
//!   is ever believed. Files made by [`Disk::create_streamed`] stay new for good, since each is written once;
//! * **anything outside the store's directory**: checkpoints, and the metadata directory, whose files can be
//!   made anew.
//!
//! Files that are only read are not wrapped, so reading tables costs nothing.

use super::{Access, DirLock, Disk, File};
use crate::error::{Error, is_full_disk};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a store is poisoned, and by what.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    is_set: AtomicBool,
    cause: Mutex<Option<Error>>,
}

impl Poison {
    /// Whether a failure has ended all writing.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Returns the first failure that ended all writing, if one has.
    pub fn cause(&self) -> Option<Error> {
        if self.is_set() { self.cause.lock().clone() } else { None }
    }

    /// Ends all writing because of an error met while `doing` something to `path`; the first cause is kept.
    fn set(&self, error: &io::Error, doing: &'static str, path: &Path) {
        self.set_to(|| Error::io(error, doing, path));
    }

    /// Ends all writing, as `error` leaves in doubt what is in the store; the first cause is kept.
    pub fn doubt(&self, error: &Error) {
        self.set_to(|| error.clone());
    }

    fn set_to(&self, cause: impl FnOnce() -> Error) {
        self.cause.lock().get_or_insert_with(cause);
        self.is_set.store(true, Ordering::Release);
    }
}

/// A store's disk, which poisons the store where a failure leaves it in doubt.
#[derive(Clone, Debug)]
pub(crate) struct CheckedDisk {
    inner: Arc<dyn Disk>,
    dir: PathBuf,
    poison: Arc<Poison>,
}

impl CheckedDisk {
    /// Wraps the disk of the store in `dir`.
    pub fn new(inner: Arc<dyn Disk>, dir: &Path) -> Self {
        Self { inner, dir: dir.to_owned(), poison: Arc::default() }
    }

    /// Returns what tells whether the store is poisoned.
    pub fn poison(&self) -> &Arc<Poison> {
        &self.poison
    }

    /// Returns `file` such that a failed write to it poisons too. What was written before is not in doubt.
    pub fn watch_writes(&self, file: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        self.wrap(file, path, Stakes::Watched)
    }

    fn wrap(&self, inner: Arc<dyn File>, path: &Path, stakes: Stakes) -> Arc<dyn File> {
        if path.parent() != Some(&self.dir) {
            return inner;
        }
        let (poison, path) = (Arc::clone(&self.poison), path.to_owned());
        Arc::new(CheckedFile { inner, path, stakes, state: AtomicU8::new(NEW), poison })
    }

    /// Passes an outcome on; an error poisons the store first, unless `passes` says that it does no harm.
    fn or_poison<T>(
        &self,
        outcome: io::Result<T>,
        passes: impl FnOnce(&io::Error) -> bool,
        doing: &'static str,
        path: &Path,
    ) -> io::Result<T> {
        outcome.inspect_err(|error| {
            if !passes(error) {
                self.poison.set(error, doing, path);
            }
        })
    }
}

impl Disk for CheckedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.create(path)?, path, Stakes::NoneUntilSynced))
    }

    fn create_streamed(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.create_streamed(path)?, path, Stakes::None))
    }

    fn create_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.create_uncached(path)?, path, Stakes::None))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let file = self.inner.open(path, access)?;
        match access {
            Access::Read => Ok(file),
            Access::ReadWrite => Ok(self.wrap(file, path, Stakes::Synced)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let renamed = self.inner.rename(from, to);
        let passes =
            |error: &io::Error| to.parent() != Some(&self.dir) || is_full_disk(error) || is_refusal(error);
        self.or_poison(renamed, passes, "renaming a file to", to)
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
        let synced = self.inner.sync_dir(dir);
        self.or_poison(synced, |_| dir != self.dir, "syncing directory", dir)
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

    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }
}

/// Whether a call was refused for what it asked, before anything was done.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | IsADirectory | NotADirectory | PermissionDenied)
}

/// What is lost with a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stakes {
    /// The file alone.
    None,
    /// The file alone until it has been synced.
    NoneUntilSynced,
    /// What was promised when it was synced.
    Synced,
    /// What was written, whether it is synced or not.
    Watched,
}

/// It has not been synced by this store.
const NEW: u8 = 0;
const SYNCED: u8 = 1;
/// Its first sync has failed.
const LOST: u8 = 2;

/// A file that is written to, in the store's directory.
#[derive(Debug)]
struct CheckedFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    stakes: Stakes,
    state: AtomicU8,
    poison: Arc<Poison>,
}

impl CheckedFile {
    /// Returns an error if the file has been lost.
    fn check_kept(&self) -> io::Result<()> {
        if self.state.load(Ordering::Relaxed) == LOST {
            return Err(io::Error::other("an earlier sync of it failed"));
        }
        Ok(())
    }

    /// Whether a failed sync leaves the store in doubt.
    fn is_promised(&self) -> bool {
        match self.stakes {
            Stakes::None => false,
            Stakes::NoneUntilSynced => self.state.load(Ordering::Relaxed) == SYNCED,
            Stakes::Synced | Stakes::Watched => true,
        }
    }

    /// Passes the outcome of a change of bytes on; where those are watched, an error poisons the store first.
    fn changed(&self, outcome: io::Result<()>, passes_if_full: bool) -> io::Result<()> {
        outcome.inspect_err(|error| {
            if self.stakes == Stakes::Watched && !(passes_if_full && is_full_disk(error)) {
                self.poison.set(error, "writing", &self.path);
            }
        })
    }
}

impl File for CheckedFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_kept()?;
        self.changed(self.inner.write_all_at(bytes, offset), true)
    }

    fn sync(&self) -> io::Result<()> {
        self.check_kept()?;
        match self.inner.sync() {
            Ok(()) => self.state.store(SYNCED, Ordering::Relaxed),
            Err(error) if self.is_promised() => {
                self.poison.set(&error, "syncing", &self.path);
                return Err(error);
            }
            Err(error) => {
                self.state.store(LOST, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> bool {
        self.inner.read_cached_at(buf, offset)
    }

    fn will_need(&self, offset: u64, length: u64) -> bool {
        self.inner.will_need(offset, length)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }

    fn as_direct_fd(&self, offset: u64, length: usize) -> Option<BorrowedFd<'_>> {
        self.inner.as_direct_fd(offset, length)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check_kept()?;
        self.changed(self.inner.set_len(bytes), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::io::sim::{CallKind, Fault, FaultError, SimDisk};

    const DIR: &str = "/db";

    /// A checked disk, and the simulated one below it.
    fn disks() -> (CheckedDisk, SimDisk) {
        let sim = SimDisk::new();
        for dir in [DIR, "/elsewhere"] {
            sim.create_dir_all(Path::new(dir)).unwrap();
        }
        (CheckedDisk::new(Arc::new(sim.clone()), Path::new(DIR)), sim)
    }

    fn path(name: &str) -> PathBuf {
        Path::new(DIR).join(name)
    }

    fn fail_next(sim: &SimDisk, kind: CallKind, error: FaultError) {
        sim.inject(Fault::new(kind, error).times(1));
    }

    #[test]
    fn a_failed_sync_of_what_was_promised_poisons_and_names_the_file() {
        let (disk, sim) = disks();
        let file = disk.create(&path("MANIFEST-1")).unwrap();
        file.write_all_at(b"1", 0).unwrap();
        file.sync().unwrap();
        assert!(disk.poison().cause().is_none());
        // Its being full does not save it: what it held may be gone.
        fail_next(&sim, CallKind::Sync, FaultError::StorageFull);
        file.sync().unwrap_err();
        let cause = disk.poison().cause().unwrap();
        assert_eq!((cause.kind(), cause.path()), (ErrorKind::StorageFull, Some(&*path("MANIFEST-1"))));
        // The first cause is kept.
        fail_next(&sim, CallKind::SyncDir, FaultError::Io);
        disk.sync_dir(Path::new(DIR)).unwrap_err();
        assert_eq!(disk.poison().cause().unwrap().path(), Some(&*path("MANIFEST-1")));
    }

    #[test]
    fn files_that_were_there_and_the_directory_are_promised() {
        let (disk, sim) = disks();
        disk.create(&path("a")).unwrap().sync().unwrap();
        let (again, other) = (disk.clone(), CheckedDisk::new(Arc::new(sim.clone()), Path::new(DIR)));
        fail_next(&sim, CallKind::Sync, FaultError::Io);
        disk.open(&path("a"), Access::ReadWrite).unwrap().sync().unwrap_err();
        assert!(again.poison().is_set(), "clones share it");
        fail_next(&sim, CallKind::SyncDir, FaultError::Io);
        other.sync_dir(Path::new(DIR)).unwrap_err();
        assert!(other.poison().is_set());
    }

    #[test]
    fn a_new_file_whose_sync_fails_is_lost_alone() {
        for error in [FaultError::Io, FaultError::StorageFull] {
            let (disk, sim) = disks();
            let streamed = disk.create_streamed(&path("1.table")).unwrap();
            for file in [disk.create(&path("MANIFEST-2")).unwrap(), Arc::clone(&streamed)] {
                file.write_all_at(b"1", 0).unwrap();
                fail_next(&sim, CallKind::Sync, error);
                file.sync().unwrap_err();
                // No second sync is believed.
                file.sync().unwrap_err();
                file.write_all_at(b"2", 1).unwrap_err();
                file.set_len(0).unwrap_err();
            }
            disk.create_streamed(&path("1.table")).unwrap().sync().unwrap();
            // A cluster's file is synced twice, the second time with its header.
            let twice = disk.create_streamed(&path("1.cluster")).unwrap();
            twice.sync().unwrap();
            fail_next(&sim, CallKind::Sync, error);
            twice.sync().unwrap_err();
            assert!(!disk.poison().is_set());
        }
    }

    #[test]
    fn failed_writes_poison_where_they_are_watched_and_not_for_want_of_room() {
        let (disk, sim) = disks();
        let (log, other) = (disk.create(&path("1.wal")).unwrap(), disk.create(&path("a")).unwrap());
        fail_next(&sim, CallKind::Write, FaultError::Io);
        log.write_all_at(b"header", 0).unwrap_err();
        let log = disk.watch_writes(log, &path("1.wal"));
        for (file, error) in [(&log, FaultError::StorageFull), (&other, FaultError::Io)] {
            fail_next(&sim, CallKind::Write, error);
            file.write_all_at(b"1", 0).unwrap_err();
        }
        assert!(!disk.poison().is_set());
        fail_next(&sim, CallKind::Write, FaultError::Io);
        log.write_all_at(b"1", 0).unwrap_err();
        assert!(disk.poison().is_set());

        for kind in [CallKind::Sync, CallKind::SetLen] {
            let (disk, sim) = disks();
            let log = disk.watch_writes(disk.create(&path("1.wal")).unwrap(), &path("1.wal"));
            fail_next(&sim, kind, FaultError::StorageFull);
            let failed = if kind == CallKind::Sync { log.sync() } else { log.set_len(0) };
            failed.unwrap_err();
            assert!(disk.poison().is_set(), "{kind:?}");
        }
    }

    #[test]
    fn a_failed_rename_poisons_if_it_may_have_happened() {
        let (disk, sim) = disks();
        disk.create(&path("CURRENT.new")).unwrap();
        let rename = || disk.rename(&path("CURRENT.new"), &path("CURRENT")).unwrap_err();
        fail_next(&sim, CallKind::Rename, FaultError::StorageFull);
        rename();
        disk.rename(&path("none"), &path("CURRENT")).unwrap_err();
        assert!(!disk.poison().is_set());
        fail_next(&sim, CallKind::Rename, FaultError::Io);
        rename();
        assert!(disk.poison().is_set());
    }

    #[test]
    fn what_lies_elsewhere_is_no_concern_of_the_store() {
        let (disk, sim) = disks();
        let dir = Path::new("/elsewhere");
        let file = disk.create(&dir.join("MANIFEST-1")).unwrap();
        file.sync().unwrap();
        fail_next(&sim, CallKind::Sync, FaultError::Io);
        file.sync().unwrap_err();
        fail_next(&sim, CallKind::SyncDir, FaultError::Io);
        disk.sync_dir(dir).unwrap_err();
        fail_next(&sim, CallKind::Rename, FaultError::Io);
        disk.rename(&dir.join("MANIFEST-1"), &dir.join("a")).unwrap_err();
        assert!(!disk.poison().is_set());
    }
}
