//! What a device gives to readers that do nothing else: the measure beside which a store's rates mean
//! something.

use crate::kit::generate::mix;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use siltstone::io::direct::{AlignedPage, DirectDisk};
use siltstone::io::reads::{Read, Reads, read_all};
use siltstone::io::{Access, Disk, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
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

    /// The files of a directory and of those in it: a store's tables, mostly. What is removed meanwhile is
    /// left out.
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

    /// A page chosen at random: its file, and where it begins.
    fn choose(&self, rng: &mut SmallRng) -> Option<(Arc<dyn File>, u64)> {
        let number = rng.random_range(0..*self.ends.last()?);
        let place = self.ends.partition_point(|end| *end <= number);
        let before = place.checked_sub(1).and_then(|before| self.ends.get(before)).unwrap_or(&0);
        Some((Arc::clone(self.files.get(place)?), (number - before) * PAGE_BYTES))
    }

    /// Random pages a second, read by `threads` readers each of which has `depth` reads under way.
    pub fn per_second(&self, threads: usize, depth: usize, time: Duration) -> io::Result<f64> {
        let started = Instant::now();
        let reader = |number: usize| -> io::Result<u64> {
            let mut reader = RawReader {
                reads: self,
                rng: SmallRng::seed_from_u64(mix(number as u64)),
                idle: vec![Page::default(); depth],
                ends_at: started + time,
                done: Ok(0),
            };
            read_all(&mut reader);
            reader.done
        };
        let pages: io::Result<u64> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..threads).map(|number| scope.spawn(move || reader(number))).collect();
            readers.into_iter().try_fold(0, |pages, reader| match reader.join() {
                Ok(read) => Ok(pages + read?),
                Err(panic) => std::panic::resume_unwind(panic),
            })
        });
        Ok(pages? as f64 / started.elapsed().as_secs_f64())
    }
}

/// Memory for a page.
#[derive(Clone, Default)]
struct Page(Box<AlignedPage>);

impl AsMut<[u8]> for Page {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0.0
    }
}

/// One of those who read.
struct RawReader<'a> {
    reads: &'a RawReads,
    rng: SmallRng,
    /// Memory of reads that are not under way.
    idle: Vec<Page>,
    ends_at: Instant,
    /// Pages read, or what went wrong.
    done: io::Result<u64>,
}

impl Reads for RawReader<'_> {
    type Buf = Page;

    fn next(&mut self) -> Option<Read<Page>> {
        if self.done.is_err() || Instant::now() >= self.ends_at {
            return None;
        }
        let buf = self.idle.pop()?;
        let (file, offset) = self.reads.choose(&mut self.rng)?;
        Some(Read { file, offset, buf })
    }

    fn done(&mut self, read: Read<Page>, outcome: io::Result<()>) {
        self.idle.push(read.buf);
        if let Ok(pages) = &mut self.done {
            match outcome {
                Ok(()) => *pages += 1,
                Err(error) => self.done = Err(error),
            }
        }
    }
}
