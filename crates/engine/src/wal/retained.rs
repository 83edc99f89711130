//! Segments that no keyspace needs any more and that are kept for those who follow the log.
//!
//! As many bytes are kept as the retention asks for, and what a tail has still to read, up to a bound. Given
//! up are always the oldest, so what is there has no gap.

use super::{LiveSegment, MAGIC, Segment, Wal};
use crate::error::{Error, Result};
use crate::filename;
use crate::io::{Access, Disk, read_file};
use crate::record::{LogHeader, LogStart};
use crate::segment::LogSegment;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Segments kept for tails.
#[derive(Debug, Default)]
pub(super) struct Retained {
    segments: VecDeque<Segment>,
    /// Bytes that are kept anyway.
    bytes: u64,
    /// Bytes that are kept at most, for tails that are behind.
    most_bytes: u64,
    /// Where each tail is, by its number.
    pins: BTreeMap<u64, u64>,
    next_pin: u64,
}

impl Retained {
    /// Whether anyone wants segments kept.
    fn is_wanted(&self) -> bool {
        self.bytes > 0 || !self.pins.is_empty() || !self.segments.is_empty()
    }

    /// Takes out the next segment that is not wanted.
    fn give_up_one(&mut self) -> Option<Segment> {
        let held: u64 = self.segments.iter().map(|segment| segment.end_lsn - segment.shared.first_lsn).sum();
        let first = self.segments.front()?;
        let is_pinned = self.pins.values().any(|&lsn| lsn < first.end_lsn);
        let most = if is_pinned { self.most_bytes } else { self.bytes };
        if held > most { self.segments.pop_front() } else { None }
    }
}

impl Wal {
    /// Keeps `bytes` of what is retired, and up to `most_bytes` for tails; `segments` are those kept so far,
    /// oldest first.
    pub fn retain(&mut self, segments: Vec<LiveSegment>, bytes: u64, most_bytes: u64) {
        let to_segment = |LiveSegment { shared, epoch, end_lsn }| {
            // Another process may be reading it.
            shared.keep();
            Segment { shared, epoch, end_lsn, reused_bytes: 0 }
        };
        self.retained.segments = segments.into_iter().map(to_segment).collect();
        (self.retained.bytes, self.retained.most_bytes) = (bytes, most_bytes.max(bytes));
    }

    /// Takes a retired segment, and returns those that nobody wants.
    pub(super) fn retire(&mut self, segment: Segment) -> Vec<Segment> {
        if !self.retained.is_wanted() {
            return vec![segment];
        }
        // Recycled it could not be read, and it is to stay readable.
        segment.shared.keep();
        self.retained.segments.push_back(segment);
        std::iter::from_fn(|| self.retained.give_up_one()).collect()
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.retained.segments.iter().chain(&self.closed).chain([&self.current])
    }

    /// Returns the LSN of the oldest record that is there.
    pub fn oldest_lsn(&self) -> u64 {
        self.segments().next().map_or(0, |segment| segment.shared.first_lsn)
    }

    /// Returns the LSN at which the next record will begin.
    pub fn end_lsn(&self) -> u64 {
        self.current.end_lsn
    }

    /// Returns the segment in which the record at `lsn` begins, or would.
    pub fn segment_at(&self, lsn: u64) -> Option<LiveSegment> {
        let is_last = |segment: &Segment| segment.shared.number == self.current.shared.number;
        let found = self.segments().find(|segment| {
            segment.shared.first_lsn <= lsn
                && (lsn < segment.end_lsn || is_last(segment) && lsn == segment.end_lsn)
        })?;
        found.shared.keep();
        let Segment { shared, epoch, end_lsn, .. } = found;
        Some(LiveSegment { shared: Arc::clone(shared), epoch: *epoch, end_lsn: *end_lsn })
    }

    /// Keeps what follows `lsn` for a tail, whose number is returned.
    pub fn pin(&mut self, lsn: u64) -> u64 {
        let number = self.retained.next_pin;
        self.retained.next_pin += 1;
        self.retained.pins.insert(number, lsn);
        number
    }

    /// Notes that tail `number` has come to `lsn`.
    pub fn move_pin(&mut self, number: u64, lsn: u64) {
        self.retained.pins.insert(number, lsn);
    }

    /// Notes that tail `number` is gone.
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
        let Ok(file) = disk.open(&path, Access::Read) else { break };
        let before = LogStart { segment: header.number, lsn: header.first_lsn };
        let shared = Arc::new(LogSegment::new(before, file, path));
        segments.push(LiveSegment { shared, epoch: header.epoch, end_lsn: next.lsn });
        next = before;
    }
    segments.reverse();
    Ok(segments)
}
