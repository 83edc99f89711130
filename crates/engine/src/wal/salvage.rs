//! What can still be read of a log that may be damaged: all good records of all segments, also those behind
//! bad ones.

use super::MAGIC;
use crate::error::{Error, Result};
use crate::filename;
use crate::io::{Disk, read_file};
use crate::record::{LOG_HEADER_BYTES, LogHeader, LogReader, LogStart, is_batch};
use std::ops::Range;
use std::path::Path;

/// A segment of a log; by default one that nothing was read of.
#[derive(Debug, Default)]
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
    /// How many of the payloads stand in the good part.
    good: usize,
    /// Bytes between the good part and the first record that was read behind it, if any was.
    hole: Option<u64>,
}

/// How many bytes at the beginning of a log are missing, where the log begins at `start` and is known to have
/// been synced up to `synced`.
pub(crate) fn missing_before(segments: &[Segment], start: LogStart, synced: u64) -> u64 {
    let live = || segments.iter().filter(|segment| segment.number >= start.segment);
    if live().any(|segment| segment.damage.is_some() && !segment.is_readable) {
        // That is told already.
        return 0;
    }
    let first = live().filter(|segment| !segment.payloads.is_empty()).map(|segment| segment.first_lsn).min();
    let is_there = live().any(|segment| segment.is_readable && segment.first_lsn <= start.lsn);
    match first {
        _ if is_there => 0,
        Some(first) => first.saturating_sub(start.lsn),
        None => synced.saturating_sub(start.lsn),
    }
}

/// Reads all segments in `dir`, by their numbers; what lies in the place of one and can't be read has damage.
/// `synced` is how far the log is known to have been synced.
pub(crate) fn read_segments(disk: &dyn Disk, dir: &Path, synced: u64) -> Result<Vec<Segment>> {
    let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
    let mut segments = Vec::new();
    for name in names.iter() {
        let Some(number) = filename::wal_number(name) else { continue };
        let path = dir.join(name);
        segments.push(match read_file(disk, &path).map_err(|e| Error::io(&e, "reading", &path)) {
            Ok(bytes) => read_segment(number, &bytes, &path),
            Err(error) if error.is_loss() => {
                let damage = Some(format!("it can't be read: {error}"));
                Segment { number, damage, ..Segment::default() }
            }
            Err(error) => return Err(error),
        });
    }
    segments.sort_by_key(|segment| segment.number);
    let mut proven = synced;
    let mut next_start = None;
    // The same, where a record was read there or further on.
    let mut behind = None;
    for segment in segments.iter_mut().rev() {
        if !segment.is_readable {
            continue;
        }
        if next_start.is_some_and(|next| next <= segment.first_lsn) {
            // An opening gave all of it up, and went on before it.
            segment.payloads.clear();
            continue;
        }
        proven = proven.max(segment.proven_synced);
        if next_start == Some(segment.end_lsn) {
            // An opening gave up what is behind, and went on in the next segment.
            segment.payloads.truncate(segment.good);
            segment.hole = None;
        }
        // Another segment goes on where this one should have ended, or something proves it longer.
        let should_end = next_start.unwrap_or(proven).min(proven.max(segment.first_lsn));
        if should_end > segment.end_lsn {
            segment.lost_bytes = should_end - segment.end_lsn;
            segment.damage = Some(format!(
                "damaged at byte {}: records that had been synced can't be read; good ones behind them were read",
                LOG_HEADER_BYTES + (segment.end_lsn - segment.first_lsn)
            ));
        }
        // Records of a later segment are behind a gap as well.
        let before_next = behind.map_or(0, |next: u64| next.saturating_sub(segment.end_lsn));
        let hole = segment.hole.or((before_next > 0).then_some(before_next));
        if segment.damage.is_none()
            && let Some(bytes) = hole
        {
            // Nothing says that they had been synced; but what was read has a gap, which is to be known.
            segment.lost_bytes = bytes;
            segment.damage = Some(format!(
                "{bytes} bytes at byte {} can't be read, and nothing says that they had been synced; records behind them \
                 were read",
                LOG_HEADER_BYTES + (segment.end_lsn - segment.first_lsn)
            ));
        }
        next_start = Some(segment.first_lsn);
        if !segment.payloads.is_empty() || behind.is_some() {
            behind = next_start;
        }
    }
    Ok(segments)
}

fn read_segment(number: u64, bytes: &[u8], path: &Path) -> Segment {
    let mut segment = Segment { number, bytes: bytes.len() as u64, ..Segment::default() };
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
        let is_batch = is_batch(payload);
        let at = payload.as_ptr() as usize - base;
        payloads.extend(is_batch.then(|| at..at + payload.len()));
        is_batch
    };
    while let Some((_, payload)) = reader.next_record() {
        segment.good += usize::from(add(payload));
    }
    let mut behind = None;
    let end = reader.end_with(&mut |payload: &[u8]| {
        if add(payload) {
            behind.get_or_insert(payload.as_ptr() as usize - base);
        }
    });
    (segment.end_lsn, segment.proven_synced) = (end.position, end.proven_synced);
    let good = LOG_HEADER_BYTES + (end.position - header.first_lsn);
    segment.hole = behind.map(|at| (at as u64).saturating_sub(good));
    segment.payloads = payloads;
    segment
}
