//! What can still be read of a log that may be damaged: all good records of all segments, also those behind
//! bad ones.

use super::MAGIC;
use crate::error::{Error, Result};
use crate::filename;
use crate::io::{Disk, read_file};
use crate::record::{LOG_HEADER_BYTES, LogHeader, LogReader, ManifestEnd};
use std::ops::Range;
use std::path::Path;

/// A segment of a log.
#[derive(Debug)]
pub(crate) struct Segment {
    /// That in its name, which its header has too.
    pub number: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether its header is sound.
    pub is_readable: bool,
    /// Where in the file the payloads of batches stand.
    pub payloads: Vec<Range<usize>>,
    /// Bytes that can't be read and had been synced, as far as can be told.
    pub lost_bytes: u64,
    /// What is damaged.
    pub damage: Option<String>,
    first_lsn: u64,
    /// Position after the good part.
    end_lsn: u64,
    /// How far a record proves the log to have been synced.
    proven_synced: u64,
}

/// Reads all segments in `dir`, by their numbers.
/// `synced` is how far the log is known to have been synced.
pub(crate) fn read_segments(disk: &dyn Disk, dir: &Path, synced: u64) -> Result<Vec<Segment>> {
    let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
    let mut segments = Vec::new();
    for name in names.iter() {
        let Some(number) = filename::wal_number(name) else { continue };
        let path = dir.join(name);
        let bytes = read_file(disk, &path).map_err(|e| Error::io(&e, "reading", &path))?;
        segments.push(read_segment(number, &bytes, &path));
    }
    segments.sort_by_key(|segment| segment.number);
    let mut proven = synced;
    let mut next_start = None;
    for segment in segments.iter_mut().rev() {
        if !segment.is_readable {
            continue;
        }
        proven = proven.max(segment.proven_synced);
        // Another segment goes on where this one should have ended, or something proves it longer.
        let should_end = next_start.unwrap_or(proven).min(proven.max(segment.first_lsn));
        if should_end > segment.end_lsn {
            segment.lost_bytes = should_end - segment.end_lsn;
            segment.damage = Some(format!(
                "damaged at byte {}: records that had been synced can't be read; good ones behind them were read",
                LOG_HEADER_BYTES + (segment.end_lsn - segment.first_lsn)
            ));
        }
        next_start = Some(segment.first_lsn);
    }
    Ok(segments)
}

fn read_segment(number: u64, bytes: &[u8], path: &Path) -> Segment {
    let mut segment = Segment {
        number,
        bytes: bytes.len() as u64,
        is_readable: false,
        payloads: Vec::new(),
        lost_bytes: 0,
        damage: None,
        first_lsn: 0,
        end_lsn: 0,
        proven_synced: 0,
    };
    let header = LogHeader::decode(MAGIC, bytes, path).ok().flatten();
    let Some(header) = header.filter(|header| header.number == number) else {
        // One that was being begun, or recycled, when the store stopped looks so too.
        if bytes.len() as u64 > LOG_HEADER_BYTES {
            segment.lost_bytes = bytes.len() as u64;
            segment.damage = Some("its header can't be read, so nothing in it can".to_owned());
        }
        return segment;
    };
    segment.is_readable = true;
    segment.first_lsn = header.first_lsn;
    let records = bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]);
    let mut reader = LogReader::new(records, header.first_lsn, header.epoch);
    let base = bytes.as_ptr() as usize;
    let mut payloads = Vec::new();
    let mut add = |payload: &[u8]| {
        if !payload.is_empty() && ManifestEnd::decode(payload).is_none() {
            let at = payload.as_ptr() as usize - base;
            payloads.push(at..at + payload.len());
        }
    };
    while let Some((_, payload)) = reader.next_record() {
        add(payload);
    }
    let end = reader.end_with(&mut add);
    (segment.end_lsn, segment.proven_synced) = (end.position, end.proven_synced);
    segment.payloads = payloads;
    segment
}
