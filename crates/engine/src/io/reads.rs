//! Many reads under way at once: [`read_all`] begins reads as long as there are any, and hands over each as
//! it completes.
//!
//! The idea: a device serves dozens of reads in the time of two or three, and a thread that reads one page
//! after the other never asks it to. Whoever needs many pages says which, one by one, and is told as they
//! arrive; what it does meanwhile, to find out which page comes next or what to make of one, costs no time as
//! long as the device is busy.
//!
//! On Linux one io_uring per reading thread carries the reads (`uring.rs`). Where rings are refused (old
//! kernels, containers), and for files that are none of the operating system's, the reads are made one by
//! one, the system being told beforehand what is coming.

use super::File;
use std::io;
use std::iter;
use std::sync::Arc;

/// Reads that are under way at the same time: more than devices gain from.
pub const MOST_AT_ONCE: usize = 128;

/// A read, with the memory that it fills.
#[derive(Debug)]
pub struct Read<B> {
    /// What to read.
    pub file: Arc<dyn File>,
    /// From which byte on.
    pub offset: u64,
    /// What to fill, all of it.
    pub buf: B,
}

impl<B: AsMut<[u8]>> Read<B> {
    /// Makes the read in the ordinary way.
    pub(super) fn make(&mut self) -> io::Result<()> {
        self.file.read_exact_at(self.buf.as_mut(), self.offset)
    }
}

/// Whoever has something to read, and does something with it.
pub trait Reads {
    /// The memory that reads fill.
    type Buf: AsMut<[u8]>;

    /// The next read to be begun; `None` where there is none, or none until another is done.
    fn next(&mut self) -> Option<Read<Self::Buf>>;

    /// Takes a read that was made, as [`File::read_exact_at`] has it, or failed.
    fn done(&mut self, read: Read<Self::Buf>, outcome: io::Result<()>);
}

/// Makes all of `reads`, up to [`MOST_AT_ONCE`] at the same time and in any order.
///
/// ```
/// use siltstone::io::reads::{Read, Reads, read_all};
/// use siltstone::io::{Disk, File, os::OsDisk};
/// use std::{io, sync::Arc};
///
/// /// The length of each line of a file, whose ends are at `ends`.
/// struct Lines {
///     file: Arc<dyn File>,
///     ends: Vec<u64>,
///     lines: Vec<(u64, io::Result<Vec<u8>>)>,
/// }
///
/// impl Reads for Lines {
///     type Buf = Vec<u8>;
///
///     fn next(&mut self) -> Option<Read<Vec<u8>>> {
///         let end = self.ends.pop()?;
///         let offset = self.ends.last().copied().unwrap_or(0);
///         Some(Read { file: Arc::clone(&self.file), offset, buf: vec![0; (end - offset) as usize] })
///     }
///
///     fn done(&mut self, read: Read<Vec<u8>>, outcome: io::Result<()>) {
///         self.lines.push((read.offset, outcome.map(|()| read.buf)));
///     }
/// }
///
/// # fn main() -> io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// let file = OsDisk.create(&dir.path().join("lines"))?;
/// file.write_all_at(b"one\nthree\n", 0)?;
/// let mut lines = Lines { file, ends: vec![4, 10], lines: Vec::new() };
/// read_all(&mut lines);
/// lines.lines.sort_by_key(|(at, _)| *at);
/// assert_eq!(lines.lines.remove(1).1?, b"three\n");
/// # Ok(())
/// # }
/// ```
pub fn read_all<R: Reads>(reads: &mut R) {
    #[cfg(target_os = "linux")]
    if super::uring::read_all(reads) {
        return;
    }
    read_one_by_one(reads);
}

/// The same where nothing happens at the same time.
fn read_one_by_one<R: Reads>(reads: &mut R) {
    loop {
        let mut wave: Vec<_> = iter::from_fn(|| reads.next()).take(MOST_AT_ONCE).collect();
        if wave.is_empty() {
            return;
        }
        if wave.len() > 1 {
            for read in &mut wave {
                let length = read.buf.as_mut().len() as u64;
                read.file.will_need(read.offset, length);
            }
        }
        for mut read in wave {
            let outcome = read.make();
            reads.done(read, outcome);
        }
    }
}

/// Makes all of `reads` one after the other as long as the operating system has in memory what they want;
/// false, with the rest not made, where one would wait for the device.
pub(crate) fn read_all_cached<R: Reads>(reads: &mut R) -> bool {
    while let Some(mut read) = reads.next() {
        if !read.file.read_cached_at(read.buf.as_mut(), read.offset) {
            return false;
        }
        reads.done(read, Ok(()));
    }
    true
}
