//! Ordinary files beside a clock that an experiment sets.

use siltstone::io::os::OsDisk;
use siltstone::io::{Access, DirLock, Disk, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The operating system's file system, where time passes as the experiment says.
#[derive(Clone, Debug)]
pub struct ClockedDisk {
    disk: OsDisk,
    now_ms: Arc<AtomicU64>,
}

impl ClockedDisk {
    /// A disk whose clock says `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self { disk: OsDisk, now_ms: Arc::new(AtomicU64::new(now_ms)) }
    }

    /// Sets the clock.
    pub fn set_now_ms(&self, now_ms: u64) {
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }
}

impl Disk for ClockedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.create(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.disk.open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn canonical(&self, dir: &Path) -> io::Result<PathBuf> {
        self.disk.canonical(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Box<dyn DirLock>> {
        self.disk.lock(path, owner)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}
