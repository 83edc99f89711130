//! The log read while it is written: record by record, each once, and only what readers see.
//!
//! Whoever follows it hears of nothing, it looks. What it has still to read is kept.

use super::catalog::Catalog;
use super::catalog::log::CommitLog;
use super::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{HEADER_BYTES, LogReader};
use crate::segment::LogSegment;
use crate::wal::OpenSegment;
use std::sync::Arc;

/// Bytes read from the log at once.
const READ_BYTES: u64 = 256 << 10;

/// How much of the log is kept for a follower that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepLog {
    /// As much as the options say.
    Bounded,
    /// All of it.
    All,
}

/// Reads the log from one position on.
pub(super) struct Follower {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    position: u64,
    /// Whether a record has been read: before that, the position is only what somebody gave.
    has_begun: bool,
    is_unsynced: bool,
    sees_withheld: bool,
    segment: Option<OpenSegment>,
    /// Bytes of the log from `buffer_lsn` on.
    buffer: Vec<u8>,
    buffer_lsn: u64,
    pin: u64,
}

impl Follower {
    pub fn new(env: &Arc<Env>, catalog: &Arc<Catalog>, from_lsn: u64, keep: KeepLog) -> Result<Self> {
        // Pinned first, so that nothing is given up between looking and reading.
        let pin = catalog.log.pin(from_lsn, keep == KeepLog::Bounded);
        let mut follower = Self {
            env: Arc::clone(env),
            catalog: Arc::clone(catalog),
            position: from_lsn,
            has_begun: false,
            is_unsynced: false,
            sees_withheld: false,
            segment: None,
            buffer: Vec::new(),
            buffer_lsn: 0,
            pin,
        };
        follower.find_segment()?;
        Ok(follower)
    }

    /// Reads also what a power cut could still take back.
    pub fn see_unsynced(&mut self) {
        self.is_unsynced = true;
    }

    /// Reads also what stands behind the note of contents that are yet to come to a keyspace.
    pub fn see_withheld(&mut self) {
        self.sees_withheld = true;
    }

    /// Returns where the next record will be looked for.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the segment that it reads.
    pub fn segment(&self) -> Option<&Arc<LogSegment>> {
        self.segment.as_ref().map(|segment| &segment.shared)
    }

    fn log(&self) -> &CommitLog {
        &self.catalog.log
    }

    /// Finds the segment that has the position, or goes on behind it where only marks are gone.
    fn find_segment(&mut self) -> Result<&OpenSegment> {
        let found = self.log().segment_at(self.position)?.ok_or_else(|| self.gone())?;
        self.position = self.position.max(found.shared.first_lsn);
        if self.has_begun {
            self.log().move_pin(self.pin, Some(self.position));
        }
        self.buffer.clear();
        Ok(self.segment.insert(found))
    }

    fn gone(&self) -> Error {
        let (position, (first, end)) = (self.position, self.log().bounds());
        let what = if position > end {
            format!(
                "position {position} lies past the end of the log, which is {end}: the store has lost what was read there, or \
                 is another one; copy the store afresh and follow it from there"
            )
        } else {
            format!(
                "position {position} is no longer in the log, which begins at {first}; copy the store afresh and follow it from \
                 there; the program that writes it keeps more of the log by Options::tail_retention_bytes"
            )
        };
        Error::new(ErrorKind::PositionGone, what)
    }

    /// Returns the next record that may be handed on, and goes behind it.
    pub fn next_record(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let lsn = self.position;
        // Of a group of batches the sequence numbers are shown at once, and each lies behind its record's
        // start.
        if lsn >= self.catalog.visible() || (!self.sees_withheld && self.log().is_withheld(lsn)) {
            return Ok(None);
        }
        let is_behind = |segment: &OpenSegment| lsn < segment.shared.first_lsn || lsn >= segment.end_lsn;
        if self.segment.as_ref().is_none_or(is_behind) {
            let is_behind = is_behind(self.find_segment()?);
            if self.position > lsn {
                return self.next_record();
            }
            if is_behind {
                return Ok(None);
            }
        }
        let Some(segment) = self.segment.clone() else { return Ok(None) };
        let head = self.bytes(&segment, lsn, HEADER_BYTES as u64)?;
        let length = head.get(4..8).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
        let bytes = HEADER_BYTES as u64 + u64::from(length);
        if lsn + bytes > segment.end_lsn {
            return Err(self.not_a_record(&segment));
        }
        if !self.is_unsynced && self.is_written() && lsn + bytes > self.log().synced_lsn() {
            return Ok(None);
        }
        let record = self.bytes(&segment, lsn, bytes)?;
        let read =
            LogReader::new(record, lsn, segment.epoch).next_record().map(|(_, payload)| payload.to_vec());
        let payload = read.ok_or_else(|| self.not_a_record(&segment))?;
        self.position = lsn + bytes;
        self.has_begun = true;
        Ok(Some((lsn, payload)))
    }

    /// Whether the store is open for writing, so that what is at the end of the log may not be synced.
    fn is_written(&self) -> bool {
        self.env.check_writable().is_ok()
    }

    fn not_a_record(&self, segment: &OpenSegment) -> Error {
        if !self.has_begun {
            let position = self.position;
            return Error::invalid(format_args!(
                "no batch begins at position {position} of the log; give a position that the store or a tail of it returned"
            ));
        }
        let offset = segment.shared.offset(self.position);
        Error::corruption(&segment.shared.path, offset, "a record of the log", "something else")
    }

    /// Returns `length` bytes of the log from `lsn` on, all of which are in `segment`.
    fn bytes(&mut self, segment: &OpenSegment, lsn: u64, length: u64) -> Result<&[u8]> {
        let end = self.buffer_lsn + self.buffer.len() as u64;
        if self.buffer.is_empty() || lsn < self.buffer_lsn || lsn + length > end {
            let available = segment.end_lsn.saturating_sub(lsn);
            let wanted = READ_BYTES.max(length).min(available);
            self.buffer.resize(wanted as usize, 0);
            self.buffer_lsn = lsn;
            let shared = &segment.shared;
            let read = shared.file.read_exact_at(&mut self.buffer, shared.offset(lsn));
            if let Err(error) = read {
                self.buffer.clear();
                return Err(Error::io(&error, "reading", &shared.path));
            }
        }
        let at = (lsn - self.buffer_lsn) as usize;
        match self.buffer.get(at..at + length as usize) {
            Some(bytes) => Ok(bytes),
            None => Err(Error::corruption(
                &segment.shared.path,
                segment.shared.offset(lsn),
                "a record",
                "the end",
            )),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.log().move_pin(self.pin, None);
    }
}
