//! Replaying the log: segment after segment, as far as each continues the one before.
//!
//! What ends the log too early is damage if a later record proves that it had been synced, and otherwise what
//! a crash tore off.

use super::{MAGIC, segment_path};
use crate::error::{Error, Result, readable};
use crate::filename;
use crate::io::{Access, Disk};
use crate::options::WalRecovery;
use crate::record::{self, Epoch, LOG_HEADER_BYTES, LogHeader, LogReader, LogStart, ManifestEnd};
use crate::segment::LogSegment;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What replaying the log found.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// Position after the last good record.
    pub end_lsn: u64,
    /// Largest segment number seen.
    pub last_segment: u64,
    /// Files of segments that hold nothing needed.
    pub obsolete: Vec<PathBuf>,
    /// Segments that were replayed; they stay until their writes are flushed.
    pub live: Vec<LiveSegment>,
    /// Whether records that had been synced are missing, and are given up.
    pub is_damaged: bool,
    /// How far any record, in any segment, says that a manifest is synced.
    pub manifest_end: ManifestEnd,
}

/// A segment that was replayed. Its file stays open only where a log store reads from it: there may be many.
#[derive(Clone, Debug)]
pub(crate) struct LiveSegment {
    pub start: LogStart,
    pub path: PathBuf,
    pub(super) epoch: Epoch,
    /// Position after its last good record.
    pub end_lsn: u64,
}

impl LiveSegment {
    /// Bytes of its records.
    pub fn bytes(&self) -> u64 {
        self.end_lsn - self.start.lsn
    }
}

/// A segment that is open for reading.
#[derive(Clone, Debug)]
pub(crate) struct OpenSegment {
    pub shared: Arc<LogSegment>,
    pub epoch: Epoch,
    /// Position after its last record.
    pub end_lsn: u64,
}

impl LiveSegment {
    /// Opens the segment's file.
    pub fn open(&self, disk: &dyn Disk) -> Result<OpenSegment> {
        let Self { start, path, epoch, end_lsn } = self;
        let file = disk.open(path, Access::Read).map_err(|e| Error::io(&e, "opening", path))?;
        let shared = Arc::new(LogSegment::new(*start, file, path.clone()));
        Ok(OpenSegment { shared, epoch: *epoch, end_lsn: *end_lsn })
    }
}

/// The header of the segment at `path`, if either copy of it is sound.
fn read_header(disk: &dyn Disk, path: &Path) -> Result<Option<LogHeader>> {
    let read = || {
        let file = disk.open(path, Access::Read)?;
        let mut bytes = vec![0; file.len()?.min(LOG_HEADER_BYTES) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|e: std::io::Error| Error::io(&e, "reading", path))?;
    LogHeader::decode(MAGIC, &bytes, path)
}

/// A record that is replayed.
pub(crate) struct Record<'a> {
    pub segment: &'a Arc<LogSegment>,
    /// The LSN at which it begins.
    pub lsn: u64,
    pub payload: &'a [u8],
    /// All bytes of the segment, in which the payload lies.
    pub whole: &'a Arc<Vec<u8>>,
}

/// What takes replayed records.
pub(crate) trait Replaying {
    /// Takes a record, which follows the one before.
    fn take(&mut self, record: &Record<'_>) -> Result<()>;

    /// Lets go of the segment that the records before were of.
    fn end_segment(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Replays the log of `dir`, which was synced up to LSN `synced` at least, from `start` on, handing every
/// record to `target`.
///
/// # Errors
/// `Corruption` where a record is bad that had been synced, unless `recovery` says to stop there.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    start: LogStart,
    synced: u64,
    recovery: WalRecovery,
    target: &mut dyn Replaying,
) -> Result<Replayed> {
    let mut replay = Replay::find(disk, dir, start, synced)?;
    while let Some(segment) = replay.waiting.pop_front() {
        replay.replay_segment(segment, target)?;
    }
    replay.finish(recovery)
}

/// Keeps the furthest of the notes about manifests.
fn note_manifest_end(payload: &[u8], furthest: &mut ManifestEnd) {
    *furthest = ManifestEnd::decode(payload).map_or(*furthest, |end| end.max(*furthest));
}

/// Returns how far any sound record of any segment in `dir` says that a manifest is synced, whatever else is
/// damaged.
pub(crate) fn noted_manifest_end(disk: &dyn Disk, dir: &Path) -> Result<ManifestEnd> {
    let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
    let mut furthest = ManifestEnd::default();
    for name in names.iter().filter(|name| filename::is_wal(name)) {
        let path = dir.join(name);
        let read = crate::io::read_file(disk, &path).map_err(|e| Error::io(&e, "reading", &path));
        let Some(bytes) = readable(read)? else { continue };
        let Ok(Some(header)) = LogHeader::decode(MAGIC, &bytes, &path) else { continue };
        let records = bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]);
        let mut reader = LogReader::new(records, header.first_lsn, header.epoch);
        while let Some((_, payload)) = reader.next_record() {
            note_manifest_end(payload, &mut furthest);
        }
        reader.end_with(&mut |payload| note_manifest_end(payload, &mut furthest));
    }
    Ok(furthest)
}

/// A segment that is to be replayed.
struct FoundSegment {
    header: LogHeader,
    path: PathBuf,
}

impl FoundSegment {
    fn has_records(&self, disk: &dyn Disk) -> Result<bool> {
        let bytes =
            crate::io::read_file(disk, &self.path).map_err(|e| Error::io(&e, "reading", &self.path))?;
        let records = bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]);
        Ok(LogReader::new(records, self.header.first_lsn, self.header.epoch).next_record().is_some())
    }
}

/// A replay under way.
struct Replay<'a> {
    disk: &'a dyn Disk,
    /// Segments that are still to be read, by their numbers.
    waiting: VecDeque<FoundSegment>,
    replayed: Replayed,
    /// How far any record, in any segment, proves the log to have been synced.
    proven_synced: u64,
    /// Where the good prefix ends: a file and an offset in it.
    end: (PathBuf, u64),
}

impl<'a> Replay<'a> {
    /// Looks for the segments of `dir` from `start` on.
    fn find(disk: &'a dyn Disk, dir: &Path, start: LogStart, synced: u64) -> Result<Self> {
        let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
        let mut found = Vec::new();
        let mut replayed = Replayed {
            end_lsn: start.lsn,
            last_segment: start.segment,
            obsolete: Vec::new(),
            live: Vec::new(),
            is_damaged: false,
            manifest_end: ManifestEnd::default(),
        };
        for name in names.iter().filter(|name| filename::is_wal(name)) {
            let (path, number) = (dir.join(name), filename::wal_number(name));
            let header = read_header(disk, &path)?;
            replayed.last_segment = replayed.last_segment.max(number.unwrap_or(0));
            match header {
                Some(header) if header.number >= start.segment => found.push(FoundSegment { header, path }),
                _ => replayed.obsolete.push(path),
            }
        }
        found.sort_by_key(|segment| segment.header.number);
        let end = (segment_path(dir, start.segment), LOG_HEADER_BYTES);
        Ok(Self { disk, waiting: found.into(), replayed, proven_synced: synced, end })
    }

    /// Replays one segment, whole in memory: the log may be larger than memory should be.
    fn replay_segment(&mut self, segment: FoundSegment, target: &mut dyn Replaying) -> Result<()> {
        let FoundSegment { header, path } = segment;
        self.replayed.last_segment = self.replayed.last_segment.max(header.number);
        let fail = |e: std::io::Error| Error::io(&e, "reading", &path);
        let file = self.disk.open(&path, Access::Read).map_err(fail)?;
        let bytes =
            Arc::new(crate::io::read_whole(file.as_ref(), filename::most_bytes(&path)).map_err(fail)?);
        let records = bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]);
        let mut reader = LogReader::new(records, header.first_lsn, header.epoch);
        let mut limit = self.next_start_from(header.first_lsn);
        // A segment that does not continue the good prefix belongs to what a crash tore off, now or earlier.
        if self.replayed.end_lsn == header.first_lsn {
            let start = LogStart { segment: header.number, lsn: header.first_lsn };
            let shared = Arc::new(LogSegment::new(start, file, path.clone()));
            self.replay_records(&mut reader, &mut limit, (&shared, &bytes), target)?;
            target.end_segment()?;
            let end_lsn = self.replayed.end_lsn;
            self.end = (path.clone(), shared.offset(end_lsn));
            self.replayed.live.push(LiveSegment { start, path, epoch: header.epoch, end_lsn });
        } else {
            self.replayed.obsolete.push(path);
        }
        // Behind the end of a segment that another continues, there is nothing to prove.
        let is_continued = self.replayed.end_lsn == limit;
        let manifest_end = &mut self.replayed.manifest_end;
        let proven = if is_continued {
            reader.proven_synced()
        } else {
            let mut visit = |payload: &[u8]| note_manifest_end(payload, manifest_end);
            reader.end_with(&mut visit).proven_synced
        };
        self.proven_synced = self.proven_synced.max(proven);
        Ok(())
    }

    /// Hands the records of a segment to `target`, up to `limit`, where another segment begins.
    fn replay_records(
        &mut self,
        reader: &mut LogReader<'_>,
        limit: &mut u64,
        (segment, whole): (&Arc<LogSegment>, &Arc<Vec<u8>>),
        target: &mut dyn Replaying,
    ) -> Result<()> {
        while let Some((lsn, payload)) = reader.next_record() {
            if lsn >= *limit {
                // Where a next one could not be begun but for its header, this one was written further.
                if self.has_records_from(*limit)? {
                    break;
                }
                *limit = self.next_start_from(lsn + 1);
            }
            if let Some(end) = ManifestEnd::decode(payload) {
                self.replayed.manifest_end = self.replayed.manifest_end.max(end);
            } else if record::is_batch(payload) {
                target.take(&Record { segment, lsn, payload, whole })?;
            }
            self.replayed.end_lsn = lsn + (record::HEADER_BYTES + payload.len()) as u64;
        }
        Ok(())
    }

    /// Returns the first LSN from `lsn` on at which a later segment begins; the largest there is where none
    /// does. It begins where the one before does, where that got no record.
    fn next_start_from(&self, lsn: u64) -> u64 {
        let starts = self.waiting.iter().map(|next| next.header.first_lsn);
        starts.filter(|&start| start >= lsn).min().unwrap_or(u64::MAX)
    }

    /// Whether a later segment that begins at `lsn` holds a record.
    fn has_records_from(&self, lsn: u64) -> Result<bool> {
        for next in self.waiting.iter().filter(|next| next.header.first_lsn == lsn) {
            if next.has_records(self.disk)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells a torn log from a damaged one.
    fn finish(mut self, recovery: WalRecovery) -> Result<Replayed> {
        self.replayed.is_damaged = self.proven_synced > self.replayed.end_lsn;
        if self.replayed.is_damaged && recovery == WalRecovery::Strict {
            let (path, offset) = &self.end;
            let error = Error::corruption(path, *offset, "a log record that had been synced", "none");
            return Err(error.and(
                "restore the log from a copy, or read all that can be read, also behind the damage, into a new store: \
                 `siltstone repair DIR NEW`; `siltstone repair DIR --drop-damaged-log`, or WalRecovery::StopAtDamage in the \
                 library, gives up all that follows",
            ));
        }
        Ok(self.replayed)
    }
}
