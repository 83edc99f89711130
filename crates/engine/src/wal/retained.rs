//! Segments that no keyspace needs any more and that are kept for those who follow the log.
//!
//! As many bytes are kept as the retention asks for, and what a tail has still to read, up to a bound. Given
//! up are always the oldest, so what is there has no gap.

use super::{ClosedSegment, LiveSegment, MAGIC, OpenSegment, Segment, Wal};
use crate::error::{Error, Result};
use crate::filename;
use crate::io::{Disk, read_file};
use crate::record::{LogHeader, LogStart};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a follower of the log is.
#[derive(Clone, Copy, Debug)]
struct Pin {
    lsn: u64,
    /// Whether it can be left behind.
    is_bounded: bool,
}

/// Segments kept for tails.
#[derive(Debug, Default)]
pub(super) struct Retained {
    segments: VecDeque<ClosedSegment>,
    /// Bytes that are kept anyway.
    bytes: u64,
    /// Bytes that are kept at most, for tails that are behind.
    most_bytes: u64,
    /// Where each follower is, by its number.
    pins: BTreeMap<u64, Pin>,
    next_pin: u64,
}

impl Retained {
    /// Whether anyone wants segments kept.
    fn is_wanted(&self) -> bool {
        self.bytes > 0 || !self.pins.is_empty() || !self.segments.is_empty()
    }

    /// Takes out the next segment that is not wanted.
    fn give_up_one(&mut self) -> Option<ClosedSegment> {
        let held: u64 = self.segments.iter().map(|segment| segment.end_lsn - segment.start.lsn).sum();
        let first = self.segments.front()?;
        let mut pins = self.pins.values().filter(|pin| pin.lsn < first.end_lsn);
        let most = match pins.next() {
            Some(pin) if !pin.is_bounded || pins.any(|pin| !pin.is_bounded) => return None,
            Some(_) => self.most_bytes,
            None => self.bytes,
        };
        if held > most { self.segments.pop_front() } else { None }
    }
}

impl Wal {
    /// Keeps `bytes` of what is retired, and up to `most_bytes` for tails; `segments` are those kept so far,
    /// oldest first.
    pub fn retain(&mut self, segments: Vec<LiveSegment>, bytes: u64, most_bytes: u64) {
        self.retained.segments = segments.into_iter().map(ClosedSegment::found).collect();
        (self.retained.bytes, self.retained.most_bytes) = (bytes, most_bytes.max(bytes));
    }

    /// Takes a retired segment, and returns those that nobody wants.
    pub(super) fn retire(&mut self, mut segment: ClosedSegment) -> Vec<ClosedSegment> {
        if !self.retained.is_wanted() {
            return vec![segment];
        }
        // Recycled it could not be read, and it is to stay readable.
        segment.is_kept = true;
        self.retained.segments.push_back(segment);
        std::iter::from_fn(|| self.retained.give_up_one()).collect()
    }

    /// Returns the LSN of the oldest record that is there.
    pub fn oldest_lsn(&self) -> u64 {
        let oldest = self.retained.segments.front().or(self.closed.first());
        oldest.map_or(self.current.shared.first_lsn, |segment| segment.start.lsn)
    }

    /// Returns the LSN at which the next record will begin.
    pub fn end_lsn(&self) -> u64 {
        self.current.end_lsn
    }

    /// Returns how far those who follow the log can come: behind the last batch. What marks and notes stand
    /// there are read with the next one.
    pub fn end_of_batches(&self) -> u64 {
        // The segment in which that was may be gone, with nothing but marks behind it.
        self.batches_end.max(self.oldest_lsn())
    }

    /// Opens the segment in which the record at `lsn` begins, or would; `None` where it is gone. Where only
    /// marks and notes are gone, it is the one that goes on behind them.
    pub fn segment_at(&mut self, lsn: u64) -> Result<Option<OpenSegment>> {
        let oldest = self.oldest_lsn();
        let lsn = if (self.gone_batches_end..oldest).contains(&lsn) { oldest } else { lsn };
        let Segment { shared, epoch, end_lsn, .. } = &self.current;
        if (shared.first_lsn..=*end_lsn).contains(&lsn) {
            shared.keep();
            return Ok(Some(OpenSegment { shared: Arc::clone(shared), epoch: *epoch, end_lsn: *end_lsn }));
        }
        let mut earlier = self.retained.segments.iter_mut().chain(&mut self.closed);
        let found = earlier.find(|segment| (segment.start.lsn..segment.end_lsn).contains(&lsn));
        let Some(ClosedSegment { start, end_lsn, epoch, path, is_kept, .. }) = found else { return Ok(None) };
        // Recycled it could not be read.
        *is_kept = true;
        let (start, path, epoch, end_lsn) = (*start, path.clone(), *epoch, *end_lsn);
        LiveSegment { start, path, epoch, end_lsn }.open(self.disk.as_ref()).map(Some)
    }

    /// Keeps what follows `lsn` for a follower, whose number is returned; where that `is_bounded`, no more of
    /// it than is kept for tails.
    pub fn pin(&mut self, lsn: u64, is_bounded: bool) -> u64 {
        let number = self.retained.next_pin;
        self.retained.next_pin += 1;
        self.retained.pins.insert(number, Pin { lsn, is_bounded });
        number
    }

    /// Notes that follower `number` has come to `lsn`.
    pub fn move_pin(&mut self, number: u64, lsn: u64) {
        if let Some(pin) = self.retained.pins.get_mut(&number) {
            pin.lsn = lsn;
        }
    }

    /// Notes that follower `number` is gone.
    pub fn unpin(&mut self, number: u64) {
        self.retained.pins.remove(&number);
    }
}

/// Finds the segments in `dir` that lead up to `start` without a gap, oldest first, of `most_bytes` together
/// at most.
pub(crate) fn segments_before(
    disk: &dyn Disk,
    dir: &Path,
    start: LogStart,
    most_bytes: u64,
) -> Result<Vec<LiveSegment>> {
    let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
    let mut found: BTreeMap<u64, (LogHeader, PathBuf)> = BTreeMap::new();
    for name in names.iter() {
        let Some(number) = filename::wal_number(name).filter(|number| *number < start.segment) else {
            continue;
        };
        let path = dir.join(name);
        // It may be gone by now, or be recycled, where another process writes.
        let Ok(bytes) = read_file(disk, &path) else { continue };
        if let Ok(Some(header)) = LogHeader::decode(MAGIC, &bytes, &path)
            && header.number == number
        {
            found.insert(number, (header, path));
        }
    }
    let (mut next, mut bytes, mut segments) = (start, 0, Vec::new());
    while let Some((header, path)) = next.segment.checked_sub(1).and_then(|number| found.remove(&number)) {
        bytes += next.lsn.saturating_sub(header.first_lsn);
        if header.first_lsn > next.lsn || bytes > most_bytes {
            break;
        }
        let start = LogStart { segment: header.number, lsn: header.first_lsn };
        segments.push(LiveSegment { start, path, epoch: header.epoch, end_lsn: next.lsn });
        next = start;
    }
    segments.reverse();
    Ok(segments)
}
