//! What a device gives to readers that do nothing else: the measure beside which a store's rates mean something.

use crate::generate::mix;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone::io::direct::{AlignedPage, DirectDisk};
use siltstone::io::{Access, Disk, File, ReadRequest};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a random read.
pub const PAGE_BYTES: u64 = 4096;

/// Files to be read at random, around the system's page cache.
pub struct RawReads {
    disk: DirectDisk,
    files: Vec<Arc<dyn File>>,
    /// Pages of the files up to each, its own included.
    ends: Vec<u64>,
}

impl RawReads {
    /// The one file at `path`.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut reads = Self::none();
        reads.add(path)?;
        reads.unless_empty()
    }

    /// The files of a directory and of those in it: a store's tables, mostly. What is removed meanwhile is left out.
    pub fn of_directory(dir: &Path) -> io::Result<Self> {
        let mut reads = Self::none();
        let mut dirs = vec![dir.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir)? {
                let path = entry?.path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    match reads.add(&path) {
                        Err(gone) if gone.kind() == io::ErrorKind::NotFound => {}
                        outcome => outcome?,
                    }
                }
            }
        }
        reads.unless_empty()
    }

    fn none() -> Self {
        Self { disk: DirectDisk::default(), files: Vec::new(), ends: Vec::new() }
    }

    fn add(&mut self, path: &Path) -> io::Result<()> {
        let file = self.disk.open(path, Access::Read)?;
        let pages = file.len()? / PAGE_BYTES;
        if pages > 0 {
            self.files.push(file);
            self.ends.push(self.ends.last().unwrap_or(&0) + pages);
        }
        Ok(())
    }

    fn unless_empty(self) -> io::Result<Self> {
        if self.files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no page to read"));
        }
        Ok(self)
    }

    fn request<'a>(&'a self, rng: &mut SmallRng, page: &'a mut AlignedPage) -> Option<ReadRequest<'a>> {
        let number = rng.random_range(0..*self.ends.last()?);
        let place = self.ends.partition_point(|end| *end <= number);
        let before = place.checked_sub(1).and_then(|before| self.ends.get(before)).unwrap_or(&0);
        let offset = (number - before) * PAGE_BYTES;
        Some(ReadRequest { file: &**self.files.get(place)?, offset, buf: &mut page.0, result: Ok(()) })
    }

    /// Random pages a second, read by `threads` readers each of which issues `batch` reads together and waits for them.
    pub fn per_second(&self, threads: usize, batch: usize, time: Duration) -> io::Result<f64> {
        let (started, done) = (Instant::now(), AtomicU64::new(0));
        let reader = |number: usize| -> io::Result<()> {
            let mut rng = SmallRng::seed_from_u64(mix(number as u64));
            let mut pages = vec![AlignedPage::default(); batch];
            while started.elapsed() < time {
                let mut requests: Vec<_> =
                    pages.iter_mut().filter_map(|page| self.request(&mut rng, page)).collect();
                self.disk.read_many(&mut requests);
                requests.into_iter().try_for_each(|request| request.result)?;
                done.fetch_add(batch as u64, Ordering::Relaxed);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..threads).map(|number| scope.spawn(move || reader(number))).collect();
            readers.into_iter().try_for_each(|reader| match reader.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok(done.into_inner() as f64 / started.elapsed().as_secs_f64())
    }
}
