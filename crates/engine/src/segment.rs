//! A segment of the write-ahead log as those hold it who read from it while it is written.
//!
//! Invariant: the file of a segment that was [kept](LogSegment::keep) is never overwritten, only removed;
//! whoever has it open, in this process or another, reads what was written.

use crate::io::File;
use crate::record::{LOG_HEADER_BYTES, LogStart};
use crate::sync::atomic::{AtomicBool, Ordering};
use std::path::PathBuf;
use std::sync::Arc;

/// A segment's file and where in the log it begins.
#[derive(Debug)]
pub(crate) struct LogSegment {
    pub number: u64,
    /// LSN of its first record.
    pub first_lsn: u64,
    pub file: Arc<dyn File>,
    pub path: PathBuf,
    is_kept: AtomicBool,
}

impl LogSegment {
    pub fn new(start: LogStart, file: Arc<dyn File>, path: PathBuf) -> Self {
        let LogStart { segment: number, lsn: first_lsn } = start;
        Self { number, first_lsn, file, path, is_kept: AtomicBool::new(false) }
    }

    pub fn start(&self) -> LogStart {
        LogStart { segment: self.number, lsn: self.first_lsn }
    }

    /// Where in the file the byte with this LSN stands.
    pub fn offset(&self, lsn: u64) -> u64 {
        LOG_HEADER_BYTES + lsn.saturating_sub(self.first_lsn)
    }

    /// Notes that someone reads items from the file.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }
}
