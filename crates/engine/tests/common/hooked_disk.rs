//! A simulated disk that calls the test before each write, and whenever it is asked for the time: so a test
//! slows writes down, or lets others do something in the middle of a call.

use siltstone::io::sim::SimDisk;
use siltstone::io::{Access, DirLock, Disk, File};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the disk is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooked {
    Write,
    Clock,
}

type Hook = Arc<dyn Fn(Hooked) + Send + Sync>;

#[derive(Clone)]
pub struct HookedDisk {
    disk: SimDisk,
    hook: Hook,
}

struct HookedFile {
    file: Arc<dyn File>,
    hook: Hook,
}

impl HookedDisk {
    pub fn new(disk: &SimDisk, hook: impl Fn(Hooked) + Send + Sync + 'static) -> Self {
        Self { disk: disk.clone(), hook: Arc::new(hook) }
    }

    fn hooked(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(HookedFile { file, hook: Arc::clone(&self.hook) })
    }
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookedDisk").field(&self.disk).finish()
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookedFile").field(&self.file).finish()
    }
}

impl Disk for HookedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.hooked(self.disk.create(path)?))
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.hooked(Disk::open(&self.disk, path, access)?))
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
        (self.hook)(Hooked::Clock);
        self.disk.now_ms()
    }
    fn random_u64(&self) -> u64 {
        self.disk.random_u64()
    }
}

impl File for HookedFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (self.hook)(Hooked::Write);
        self.file.write_all_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
}
