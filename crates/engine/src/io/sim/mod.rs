//! A disk in memory that can crash, fail, fill up and rot, always the same way for the same seed.
//!
//! [`SimDisk`] keeps apart what programs see and what a power cut would leave, by the three rules of
//! [`crate::io`]. A test runs the engine on it and asks at any moment, or at every call, "what if the machine
//! stopped here?":
//!
//! * [`SimDisk::snapshot`] gives a [`DiskImage`] in constant time, and [`DiskImage::crash`] a new, healthy
//!   disk with what survives one way of stopping ([`CrashMode`]) under one seed;
//! * [`SimDisk::record_images`] keeps such an image for every call that changes the disk;
//! * [`SimDisk::halt_after`] makes every call fail from one call on, as if the machine were gone;
//! * [`SimDisk::inject`] makes chosen calls fail, [`SimDisk::set_capacity`] fills the disk up, and
//!   [`SimDisk::flip_bit`] damages bytes at rest.
//!
//! ```
//! use siltstone::io::sim::{CrashMode, SimDisk};
//! use siltstone::io::Disk;
//! use std::path::Path;
//!
//! let disk = SimDisk::new();
//! disk.create_dir_all(Path::new("/db"))?;
//! let file = disk.create(Path::new("/db/log"))?;
//! disk.sync_dir(Path::new("/db"))?;
//! file.write_all_at(b"kept", 0)?;
//! file.sync()?;
//! file.write_all_at(b" or not", 4)?;
//!
//! let image = disk.snapshot();
//! assert_eq!(image.crash(CrashMode::Kill, 0).read_file("/db/log")?, b"kept or not");
//! assert_eq!(image.crash(CrashMode::PowerCut, 0).read_file("/db/log")?, b"kept");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Where the model is stricter or milder than a real system:
//! * syncing a new file does not make its name durable (ext4 does so in practice; POSIX does not promise it);
//! * directories are durable as soon as [`Disk::create_dir_all`] returns, which `OsDisk` ensures by syncing
//!   parents;
//! * a rename between two directories is two operations, and is not atomic; only files can be renamed;
//! * unsynced bytes are held twice, as contents and as history, until they are synced.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sync::leaf::{Mutex, MutexGuard};
use crate::sync::scheduling_point;
use rustix::io::Errno;

use self::crash::SplitMix64;
use self::image::{Image, InodeId, normalize};
use self::state::State;
use super::{Access, DirLock, Disk, File};

mod content;
mod crash;
mod fault;
mod history;
mod image;
mod state;
#[cfg(test)]
mod tests;

pub use self::crash::{CrashMode, SECTOR_BYTES};
pub use self::fault::{CallInfo, CallKind, Fault, FaultError, SimStats, Tally};

/// A simulated disk. Clones are handles on the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk without limits or faults. Its clock stands at a fixed moment in 2023 until it is moved.
    pub fn new() -> Self {
        Self::holding(Image::empty(1_700_000_000_000))
    }

    fn holding(image: Image) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(image))) }
    }

    /// The disk as it is now, in constant time: later changes copy only what they touch.
    pub fn snapshot(&self) -> DiskImage {
        DiskImage { image: self.state.lock().share() }
    }

    /// What survives if everything stops now; see [`DiskImage::crash`].
    pub fn crash(&self, mode: CrashMode, seed: u64) -> Self {
        self.snapshot().crash(mode, seed)
    }

    /// Starts or stops keeping an image for every mutating call; stopping forgets those kept.
    ///
    /// An image shows the disk with the call's effects applied *but not durable*: the disk for a crash during
    /// or just after the call. For a sync, of a file or a directory, it is taken before the sync takes
    /// effect; where the call before was no sync, it [is the same](DiskImage::is_same) as that call's
    /// image. Making directories is durable at once. Failed calls have images too.
    /// To cover a whole trace, add a [`SimDisk::snapshot`] at its end.
    pub fn record_images(&self, on: bool) {
        self.state.lock().recorded = on.then(Vec::new);
    }

    /// The images kept since recording began or since the last take, in the order of the calls.
    pub fn take_recorded(&self) -> Vec<(CallInfo, DiskImage)> {
        self.state.lock().recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Tags the calls that follow, so that a test can tell from an image what had been acknowledged by then.
    pub fn set_marker(&self, marker: u64) {
        self.state.lock().marker = marker;
    }

    /// How many mutating calls there have been, failed ones included.
    pub fn mutating_calls(&self) -> u64 {
        self.state.lock().mutating_calls
    }

    /// How many calls a fault has met, and how many writes a full disk.
    pub fn failed_calls(&self) -> u64 {
        self.state.lock().failed_calls
    }

    /// Lets `mutating_calls` more calls change the disk; the next one and every call after it, reads
    /// included, fail with [`io::ErrorKind::Other`], "simulated crash". Nothing more changes, so
    /// [`SimDisk::crash`] can follow in peace.
    pub fn halt_after(&self, mutating_calls: u64) {
        let mut state = self.state.lock();
        state.halt_at = Some(state.mutating_calls + mutating_calls);
    }

    /// Whether [`SimDisk::halt_after`] has struck.
    pub fn is_halted(&self) -> bool {
        self.state.lock().halted
    }

    /// Lets calls succeed again after, or in spite of, [`SimDisk::halt_after`].
    pub fn resume(&self) {
        let mut state = self.state.lock();
        (state.halt_at, state.halted) = (None, false);
    }

    /// Adds a rule that makes calls fail.
    ///
    /// A sync of a file that fails loses all its unsynced bytes: they stay readable, but a later sync that
    /// succeeds does not make them durable. Until that later sync, [`CrashMode::Torn`] and
    /// [`CrashMode::Reordered`] may still find them on the disk. A sync of a directory that fails loses
    /// nothing: a later one makes its names durable.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().faults.add(fault);
    }

    /// Removes all rules.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// Limits the sum of all files' lengths; `None` lifts the limit. A write beyond it writes what fits and
    /// fails with [`io::ErrorKind::StorageFull`]. A removed file frees its bytes once it is closed.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity_bytes = bytes;
    }

    /// The sum of the lengths of all files that have a name or are open.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// Inverts one bit (0 is the lowest) of the byte at `offset`, in what is read and in what is durable.
    pub fn flip_bit(&self, path: impl AsRef<Path>, offset: u64, bit: u8) -> io::Result<()> {
        self.damage(path.as_ref(), offset, |byte| byte ^ (1 << (bit % 8)))
    }

    /// Overwrites bytes at rest, past all syncs and histories: in what is read and in what is durable.
    pub fn corrupt(&self, path: impl AsRef<Path>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (at, new) in (offset..).zip(bytes) {
            self.damage(path.as_ref(), at, |_| *new)?;
        }
        Ok(())
    }

    fn damage(&self, path: &Path, offset: u64, change: impl Fn(u8) -> u8) -> io::Result<()> {
        let path = normalize(path)?;
        let mut state = self.state.lock();
        let id = state.image().lookup(&path)?;
        let inode = state.image_mut().inode_mut(id)?;
        if offset >= inode.current.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for content in [&mut inode.current, &mut inode.durable] {
            if offset < content.len() {
                let mut byte = [0];
                content.read(offset, &mut byte);
                content.write(offset, &byte.map(&change));
            }
        }
        Ok(())
    }

    /// A file's bytes, without counting as a call.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.snapshot().read_file(path)
    }

    /// Replaces or makes a file, durable at once, without counting as a call. Its directory must exist, and
    /// unsynced names of that directory become durable too.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = normalize(path.as_ref())?;
        let mut state = self.state.lock();
        let image = state.image_mut();
        let inode = image.create(&path)?;
        image.write(inode, 0, bytes)?;
        image.settle_file(inode)?;
        image.sync_dir(path.parent().unwrap_or(Path::new("/")))
    }

    /// Makes everything durable as it reads now: a settled state for a test to begin from.
    pub fn settle(&self) {
        self.state.lock().image_mut().settle();
    }

    /// What has been asked of the disk since it was made, or since [`SimDisk::reset_stats`].
    pub fn stats(&self) -> SimStats {
        self.state.lock().stats.clone()
    }

    /// Starts counting anew.
    pub fn reset_stats(&self) {
        self.state.lock().stats = SimStats::default();
    }

    /// Begins the numbers of [`Disk::random_u64`] anew. They follow from `seed`, from how many were asked for
    /// and, after a crash, from its seed; those of a [`SimDisk::new`] from 0.
    pub fn set_random_seed(&self, seed: u64) {
        self.state.lock().image_mut().random = SplitMix64(seed);
    }

    /// Sets the clock that [`Disk::now_ms`] reads.
    pub fn set_now_ms(&self, now_ms: u64) {
        self.state.lock().image_mut().now_ms = now_ms;
    }

    /// Moves the clock on.
    pub fn advance_ms(&self, ms: u64) {
        self.state.lock().image_mut().now_ms += ms;
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Printing must not wait for the disk: it may happen while the disk is locked.
        let calls = self.state.try_lock().map(|state| state.mutating_calls);
        f.debug_struct("SimDisk").field("mutating_calls", &calls).finish_non_exhaustive()
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let dir = normalize(dir)?;
        self.call().mutate(CallKind::CreateDir, &dir, None, |image| image.create_dir_all(&dir))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let path = normalize(path)?;
        let mut state = self.call();
        let inode = state.mutate(CallKind::Create, &path, None, |image| image.create(&path))?;
        Ok(Arc::new(self.hold(&mut state, inode, path, Access::ReadWrite)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let path = normalize(path)?;
        let mut state = self.call();
        let inode = state.ask(CallKind::Open, &path, 0, |image| image.lookup(&path))?;
        Ok(Arc::new(self.hold(&mut state, inode, path, access)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normalize(from)?, normalize(to)?);
        self.call().mutate(CallKind::Rename, &from, Some(&to), |image| image.rename(&from, &to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = normalize(path)?;
        self.call().mutate(CallKind::Remove, &path, None, |image| image.remove(&path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normalize(from)?, normalize(to)?);
        self.call().mutate(CallKind::HardLink, &from, Some(&to), |image| image.hard_link(&from, &to))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = normalize(dir)?;
        self.call().ask(CallKind::List, &dir, 0, |image| image.list(&dir))
    }

    fn canonical(&self, dir: &Path) -> io::Result<PathBuf> {
        let dir = normalize(dir)?;
        self.call().ask(CallKind::List, &dir, 0, |image| image.dir(&dir).map(|_| ()))?;
        Ok(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call().sync_dir(&normalize(dir)?)
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Box<dyn DirLock>> {
        let path = normalize(path)?;
        let mut state = self.call();
        let inode = state.acquire(&path, owner)?;
        Ok(Box::new(SimLock { file: self.hold(&mut state, inode, path, Access::ReadWrite) }))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let dir = normalize(dir)?;
        let mut state = self.call();
        state.ask(CallKind::FreeBytes, &dir, 0, |image| image.dir(&dir).map(|_| ()))?;
        Ok(state.free_bytes())
    }

    fn now_ms(&self) -> u64 {
        self.state.lock().image().now_ms
    }

    fn random_u64(&self) -> u64 {
        self.state.lock().image_mut().random.next()
    }
}

impl SimDisk {
    /// The disk's state, for a call: between two of them other threads may run.
    fn call(&self) -> MutexGuard<'_, State> {
        scheduling_point();
        self.state.lock()
    }

    fn hold(&self, state: &mut State, inode: InodeId, path: PathBuf, access: Access) -> SimFile {
        *state.handles.entry(inode).or_default() += 1;
        SimFile { disk: self.clone(), inode, path, access }
    }
}

/// An open file of a simulated disk; it keeps its inode alive.
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: InodeId,
    path: PathBuf,
    access: Access,
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read => Err(Errno::BADF.into()),
        }
    }
}

impl File for SimFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.call().ask(CallKind::Read, &self.path, buf.len() as u64, |image| {
            let content = &image.inode(self.inode)?.current;
            let end = offset.checked_add(buf.len() as u64);
            if !buf.is_empty() && end.is_none_or(|end| end > content.len()) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            content.read(offset, buf);
            Ok(())
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.call().write(self.inode, &self.path, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.call().sync(self.inode, &self.path)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.call();
        state.ask(CallKind::Len, &self.path, 0, |image| Ok(image.inode(self.inode)?.current.len()))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.call().set_len(self.inode, &self.path, bytes)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.state.lock().release(self.inode);
    }
}

/// A held lock; it belongs to the inode, like `flock`.
#[derive(Debug)]
struct SimLock {
    file: SimFile,
}

impl DirLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.file.disk.state.lock().locks.remove(&self.file.inode);
    }
}

/// A simulated disk at one moment; cheap to keep, since images share what did not change between them.
#[derive(Clone)]
pub struct DiskImage {
    image: Arc<Image>,
}

impl DiskImage {
    /// A new disk holding what survives when everything stops at this moment in this way.
    ///
    /// Everything on it is durable. It has the clock of the old disk, but none of its locks, faults or
    /// limits. The same image, mode and seed always give the same disk; [`CrashMode::Kill`] and
    /// [`CrashMode::PowerCut`] leave none of the old disk to chance, and the seed decides only what the new
    /// one's [`Disk::random_u64`] gives.
    pub fn crash(&self, mode: CrashMode, seed: u64) -> SimDisk {
        SimDisk::holding(crash::crash(&self.image, mode, seed))
    }

    /// How many changes of bytes and names a power cut would put at risk; 0 means that all modes give the
    /// same disk, unless a sync has failed.
    pub fn unsynced_ops(&self) -> usize {
        self.image.unsynced_ops()
    }

    /// Whether both are the very same image, with no change in between. Cheap; may miss equal contents.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.image, &other.image)
    }

    /// A file's bytes as programs saw them.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let inode = self.image.lookup(&normalize(path.as_ref())?)?;
        Ok(self.image.inode(inode)?.current.to_vec())
    }

    /// The sorted names in a directory as programs saw them.
    pub fn list(&self, dir: impl AsRef<Path>) -> io::Result<Vec<String>> {
        self.image.list(&normalize(dir.as_ref())?)
    }
}

impl fmt::Debug for DiskImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskImage").field("unsynced_ops", &self.unsynced_ops()).finish_non_exhaustive()
    }
}
