//! The write-ahead log: one for all keyspaces, in segments.
//!
//! ```text
//! segment  ┌─────────────────┬────────┬────────┬─────┐
//!          │ log header      │ record │ record │ ... │     header and records: see record.rs; magic "SILTWAL1"
//!          └─────────────────┴────────┴────────┴─────┘
//! ```
//!
//! A position in the log (LSN) counts record bytes from the store's creation; a segment's header says where
//! it starts, so a missing tail of the segment before it is noticed. Obsolete segments are recycled: their
//! blocks are allocated already, which makes syncs cheaper, and their records have another epoch. They are
//! written page by page, or the system would have to read each page of the old file before a part of it is
//! overwritten. Those that log stores read from are removed instead, since a reader, in another process
//! perhaps, may still have them open. New segments are not filled with zeros first; that would write every
//! byte twice.
//!
//! Invariants: records of segment n+1 are replayed only if segment n ends exactly where n+1 starts; a
//! `Synced` write returns only after every earlier byte, in every earlier segment, is synced, and the
//! directory entries too.

mod replay;
mod retained;
pub(crate) mod salvage;

pub(crate) use replay::{LiveSegment, OpenSegment, Record, Replayed, Replaying, noted_manifest_end, replay};
pub(crate) use retained::segments_before;

use crate::error::{Error, ErrorKind, Result};
use crate::filename;
use crate::io::checked::CheckedDisk;
use crate::io::{Access, Disk, File};
use crate::record::{self, Epoch, LOG_HEADER_BYTES, LogHeader, LogStart, ManifestEnd};
use crate::segment::LogSegment;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const MAGIC: &[u8; 8] = b"SILTWAL1";
/// Obsolete segments kept for reuse.
const SPARE_SEGMENTS: usize = 2;
/// Bytes of an obsolete segment that are kept in any case: where others have filled the disk, deletes find
/// room there.
const LEAST_SPARE_BYTES: u64 = 64 << 10;
/// Payloads of so many bytes are not copied to be written.
const LARGE_PAYLOAD_BYTES: usize = 1 << 20;
/// Bytes of its buffer that a log keeps from one sync to the next.
const IDLE_BUFFER_BYTES: usize = 16 << 10;
/// Bytes of a page of the system's cache, or as many as pages have at least.
const PAGE_BYTES: u64 = 4096;

/// The path of segment `number`.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(filename::wal(number))
}

/// The segment that is being written.
#[derive(Clone, Debug)]
struct Segment {
    shared: Arc<LogSegment>,
    /// The same file for marks and notes, of which a failed write leaves nothing in doubt.
    unwatched: Arc<dyn File>,
    epoch: Epoch,
    end_lsn: u64,
    /// Bytes that the file had in an earlier life.
    reused_bytes: u64,
}

/// A segment that takes no more records. Its file stays open only until it is synced: where many keyspaces
/// are flushed in turn there may be as many closed segments, which are not to take an open file each.
#[derive(Debug)]
struct ClosedSegment {
    start: LogStart,
    end_lsn: u64,
    /// End of the last batch in it, or before it.
    batches_end: u64,
    epoch: Epoch,
    path: PathBuf,
    is_kept: bool,
    unsynced: Option<Arc<dyn File>>,
}

impl ClosedSegment {
    /// A segment that was there when the store was opened, with all of it synced. Another process may be
    /// reading it, which opened the store when an earlier writer's log stores read from it.
    fn found(LiveSegment { start, path, epoch, end_lsn }: LiveSegment) -> Self {
        Self { start, end_lsn, batches_end: end_lsn, epoch, path, is_kept: true, unsynced: None }
    }
}

/// The file of an obsolete segment.
#[derive(Clone, Debug)]
pub(crate) struct Spare {
    path: PathBuf,
    bytes: u64,
}

/// The log's writing end.
pub(crate) struct Wal {
    disk: Arc<CheckedDisk>,
    dir: PathBuf,
    current: Segment,
    /// Earlier segments that may hold unflushed writes, oldest first.
    closed: Vec<ClosedSegment>,
    /// Earlier ones, kept for those who follow the log.
    retained: retained::Retained,
    /// Obsolete segments' files, to be renamed and overwritten.
    spare: Vec<Spare>,
    /// Everything before this LSN is synced, with its directory entries.
    synced_lsn: u64,
    /// Number of the last segment whose directory entry is synced.
    named_segment: u64,
    /// End of the last record with a batch: the marks and notes behind it need no sync.
    batches_end: u64,
    /// End of the last batch that is no longer in the log: behind it only marks and notes are gone.
    gone_batches_end: u64,
    /// The furthest LSN that some record says is synced.
    proven_lsn: u64,
    /// Number of the last segment of which the manifest knows that records of it are synced.
    noted_segment: u64,
    buffer: Vec<u8>,
    bytes_written: u64,
}

/// What a sync has to touch; taken under the log's lock, worked on outside it.
pub(crate) struct SyncWork {
    files: Vec<(Arc<dyn File>, PathBuf)>,
    dir: Option<PathBuf>,
    disk: Arc<CheckedDisk>,
    lsn: u64,
    segment: u64,
}

impl SyncWork {
    /// Syncs. A failure poisons the store: the operating system may have dropped the bytes.
    pub fn run(&self) -> Result<()> {
        for (file, path) in &self.files {
            file.sync().map_err(|e| Error::io(&e, "syncing the write-ahead log", path))?;
        }
        if let Some(dir) = &self.dir {
            self.disk.sync_dir(dir).map_err(|e| Error::io(&e, "syncing directory", dir))?;
        }
        Ok(())
    }
}

impl Wal {
    /// Starts a new log, or goes on after a replay: with a new segment where the good prefix ended. The
    /// replayed segments are synced first, since what is promised from now on rests on them.
    ///
    /// `spare` may be the file of an obsolete segment, which is begun anew where there is no room for more.
    pub fn start(
        disk: Arc<CheckedDisk>,
        dir: &Path,
        replayed: &Replayed,
        spare: Option<PathBuf>,
    ) -> Result<Self> {
        let mut closed = Vec::new();
        for live in &replayed.live {
            let LiveSegment { start, path, end_lsn, .. } = live;
            let fail = |e: std::io::Error| Error::io(&e, "syncing the write-ahead log", path);
            let file = disk.open(path, Access::ReadWrite).map_err(fail)?;
            if replayed.is_damaged {
                // What was given up must not be found again: the next opening would take it for damage once
                // more.
                file.set_len(LOG_HEADER_BYTES + (end_lsn - start.lsn)).map_err(fail)?;
            }
            file.sync().map_err(fail)?;
            closed.push(ClosedSegment::found(live.clone()));
        }
        let (number, first_lsn) = (replayed.last_segment + 1, replayed.end_lsn);
        let mut spare: Vec<Spare> = spare.into_iter().filter_map(|path| Spare::of(&disk, path)).collect();
        let current = match new_segment(disk.as_ref(), dir, number, first_lsn, &mut Vec::new()) {
            Err(error) if error.kind() == ErrorKind::StorageFull && !spare.is_empty() => {
                new_segment(disk.as_ref(), dir, number, first_lsn, &mut spare)?
            }
            created => created?,
        };
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            current,
            closed,
            retained: retained::Retained::default(),
            spare,
            synced_lsn: first_lsn,
            named_segment: 0,
            batches_end: first_lsn,
            gone_batches_end: first_lsn,
            proven_lsn: 0,
            noted_segment: 0,
            buffer: Vec::new(),
            bytes_written: LOG_HEADER_BYTES,
        })
    }

    /// Where the segment being written starts.
    pub fn segment(&self) -> LogStart {
        self.current.shared.start()
    }

    /// Bytes of records in the segment being written.
    pub fn segment_bytes(&self) -> u64 {
        self.current.end_lsn - self.current.shared.first_lsn
    }

    /// Whether everything that matters is synced.
    pub fn is_synced(&self) -> bool {
        self.synced_lsn >= self.batches_end
    }

    /// Whether records of the segment being written are synced, and the manifest does not know.
    pub fn has_unnoted_segment(&self) -> bool {
        let Segment { shared, .. } = &self.current;
        self.noted_segment < shared.number && self.synced_lsn > shared.first_lsn
    }

    /// Notes that the manifest knows.
    pub fn note_segment(&mut self) {
        self.noted_segment = self.current.shared.number;
    }

    /// LSN up to which the log is synced.
    pub fn synced_lsn(&self) -> u64 {
        self.synced_lsn
    }

    /// Bytes written since the log was started, headers included.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Bytes of live records.
    pub fn live_bytes(&self) -> u64 {
        let first = self.closed.first().map(|segment| segment.start.lsn);
        self.current.end_lsn - first.unwrap_or(self.current.shared.first_lsn)
    }

    /// Appends records, given as payloads with their CRC-32C, in one write, and says in which segment they
    /// stand and at which LSN the first begins; each follows the one before. Where the disk is full, an
    /// obsolete segment's file is written over. After an error nothing was appended.
    pub fn append<'a>(
        &mut self,
        payloads: impl Iterator<Item = (&'a [u8], u32)> + Clone,
    ) -> Result<(Arc<LogSegment>, u64)> {
        let appended = match self.append_records(payloads.clone()) {
            Err(error) if error.kind() == ErrorKind::StorageFull && !self.spare.is_empty() => {
                self.rotate()?;
                self.append_records(payloads)?
            }
            appended => appended?,
        };
        self.batches_end = self.current.end_lsn;
        Ok(appended)
    }

    fn append_records<'a>(
        &mut self,
        payloads: impl Iterator<Item = (&'a [u8], u32)>,
    ) -> Result<(Arc<LogSegment>, u64)> {
        let start = self.current.end_lsn;
        let segment = Arc::clone(&self.current.shared);
        let offset = segment.offset(start);
        match self.write_records(payloads, segment.file.as_ref()) {
            Ok(bytes) => self.appended(bytes),
            Err(e) => return Err(self.take_back(offset, &e)),
        }
        Ok((segment, start))
    }

    /// Appends a record that matters only if it is there, and needs no sync. Where writing it fails, what
    /// there is of it says nothing wrong, and the next record is written over it.
    fn append_remark(&mut self, payload: &[u8]) -> Result<()> {
        let file = Arc::clone(&self.current.unwatched);
        let written = self.write_records(std::iter::once((payload, crc32c::crc32c(payload))), file.as_ref());
        let fail =
            |e: std::io::Error| Error::io(&e, "writing the write-ahead log", &self.current.shared.path);
        let bytes = written.map_err(fail)?;
        self.appended(bytes);
        Ok(())
    }

    /// Writes records at the log's end, through `file`, and returns how many bytes they are; zeros may follow
    /// them. All are one write, but for large payloads, which are written from where they lie: until such a
    /// one is there as a whole, its record is none.
    fn write_records<'a>(
        &mut self,
        payloads: impl Iterator<Item = (&'a [u8], u32)>,
        file: &dyn File,
    ) -> std::io::Result<u64> {
        self.buffer.clear();
        let Segment { epoch, end_lsn: start, reused_bytes, .. } = self.current;
        let offset = self.current.shared.offset(start);
        let mut written = 0;
        for (payload, crc) in payloads {
            let lsn = start + written + self.buffer.len() as u64;
            if payload.len() < LARGE_PAYLOAD_BYTES {
                record::append_with_crc(&mut self.buffer, epoch, lsn, self.synced_lsn, payload, crc);
                continue;
            }
            record::append_header(&mut self.buffer, epoch, lsn, self.synced_lsn, payload.len(), crc);
            for part in [self.buffer.as_slice(), payload] {
                file.write_all_at(part, offset + written)?;
                written += part.len() as u64;
            }
            self.buffer.clear();
        }
        let bytes = written + self.buffer.len() as u64;
        self.buffer.resize(self.buffer.len() + zeros_after(offset, bytes, reused_bytes), 0);
        if !self.buffer.is_empty() {
            file.write_all_at(&self.buffer, offset + written)?;
        }
        Ok(bytes)
    }

    /// Notes that the records which were laid out are written, so many bytes.
    fn appended(&mut self, bytes: u64) {
        self.current.end_lsn += bytes;
        self.proven_lsn = self.synced_lsn;
        self.bytes_written += bytes;
        if self.buffer.capacity() > 8 << 20 {
            self.buffer = Vec::new();
        }
    }

    /// Cuts off what a write that found the disk full left at `offset`: of a group there may be whole
    /// records, and a crash must not bring back what was refused. Other failures leave the log in doubt
    /// anyway.
    fn take_back(&self, offset: u64, error: &std::io::Error) -> Error {
        let LogSegment { file, path, .. } = &*self.current.shared;
        let error = Error::io(error, "writing the write-ahead log", path);
        if error.kind() == ErrorKind::StorageFull
            && let Err(e) = file.set_len(offset).and_then(|()| file.sync())
        {
            return Error::io(&e, "cutting off a failed write of", path).after(&error);
        }
        error
    }

    /// What has to be synced before `segment` for other keyspaces' writes to be as durable as a flush makes
    /// one's.
    pub fn sync_work_before(&self, segment: u64) -> Option<SyncWork> {
        let work = self.sync_work()?;
        let unsynced = self.closed.iter().any(|s| s.start.segment < segment && s.end_lsn > self.synced_lsn);
        unsynced.then_some(work)
    }

    /// What has to be synced for everything appended so far to survive a power cut; `None` where it does
    /// already.
    pub fn sync_work(&self) -> Option<SyncWork> {
        if self.is_synced() {
            return None;
        }
        let closed = self.closed.iter().filter(|segment| segment.end_lsn > self.synced_lsn);
        let closed = closed.filter_map(|s| Some((Arc::clone(s.unsynced.as_ref()?), s.path.clone())));
        let current = &self.current.shared;
        let files = closed.chain([(Arc::clone(&current.file), current.path.clone())]);
        Some(SyncWork {
            files: files.collect(),
            dir: (self.named_segment < self.current.shared.number).then(|| self.dir.clone()),
            disk: Arc::clone(&self.disk),
            lsn: self.current.end_lsn,
            segment: self.current.shared.number,
        })
    }

    /// Notes that `work` has run.
    pub fn synced(&mut self, work: &SyncWork) {
        self.synced_lsn = self.synced_lsn.max(work.lsn);
        for segment in self.closed.iter_mut().filter(|segment| segment.end_lsn <= work.lsn) {
            segment.unsynced = None;
        }
        self.named_segment = self.named_segment.max(work.segment);
    }

    /// Appends an empty record that says how far the log is synced, so that later damage before it is told
    /// from a torn tail. It needs no sync of its own: it matters only if it is there.
    pub fn mark_synced(&mut self) -> Result<()> {
        if self.buffer.capacity() > IDLE_BUFFER_BYTES {
            // There may be a thousand stores, of which few are written to just now.
            self.buffer = Vec::new();
        }
        if self.is_synced() && self.proven_lsn < self.synced_lsn {
            self.append_remark(&[])?;
        }
        Ok(())
    }

    /// Appends a record that says how far the manifest is synced, so that one that is cut off later is not
    /// taken for whole. Like a mark it needs no sync.
    pub fn note_manifest_end(&mut self, end: ManifestEnd) -> Result<()> {
        self.append_remark(&end.encode())
    }

    /// Closes the current segment and starts the next.
    pub fn rotate(&mut self) -> Result<()> {
        let next = new_segment(
            self.disk.as_ref(),
            &self.dir,
            self.current.shared.number + 1,
            self.current.end_lsn,
            &mut self.spare,
        )?;
        self.bytes_written += LOG_HEADER_BYTES;
        let Segment { shared, end_lsn, epoch, .. } = std::mem::replace(&mut self.current, next);
        let unsynced = (end_lsn > self.synced_lsn).then(|| Arc::clone(&shared.file));
        let (start, path, is_kept) = (shared.start(), shared.path.clone(), shared.is_kept());
        let batches_end = self.batches_end;
        self.closed.push(ClosedSegment { start, end_lsn, batches_end, epoch, path, is_kept, unsynced });
        Ok(())
    }

    /// Whether there are segments before `number`.
    pub fn has_segments_before(&self, number: u64) -> bool {
        self.closed.first().is_some_and(|segment| segment.start.segment < number)
    }

    /// Gives up the segments before `number`: some are kept for reuse, of about `spare_bytes` together at
    /// most, and the paths of the others are returned for removal.
    pub fn retire_before(&mut self, number: u64, spare_bytes: u64) -> Vec<PathBuf> {
        let live = self.closed.partition_point(|segment| segment.start.segment < number);
        let mut to_remove = Vec::new();
        let mut retired = Vec::new();
        for segment in self.closed.drain(..live).collect::<Vec<_>>() {
            // Retired bytes need no sync any more.
            self.synced_lsn = self.synced_lsn.max(segment.end_lsn);
            retired.extend(self.retire(segment));
        }
        for segment in retired {
            self.gone_batches_end = self.gone_batches_end.max(segment.batches_end);
            let reused = if segment.is_kept { None } else { Spare::of(&self.disk, segment.path.clone()) };
            match reused {
                Some(spare) => self.spare.push(spare),
                None => to_remove.push(segment.path),
            }
        }
        to_remove.extend(self.trim_spares(spare_bytes));
        to_remove
    }

    /// Bytes of the files that are kept for reuse, beyond those that are kept in any case.
    pub fn excess_spare_bytes(&self) -> u64 {
        self.spare.iter().map(|spare| spare.bytes).sum::<u64>().saturating_sub(LEAST_SPARE_BYTES)
    }

    /// Keeps about `spare_bytes` of the files that are kept for reuse, and returns the paths of the others.
    pub fn trim_spares(&mut self, spare_bytes: u64) -> Vec<PathBuf> {
        let mut to_remove = Vec::new();
        let at_most = spare_bytes.max(LEAST_SPARE_BYTES);
        let held = |spare: &[Spare]| spare.iter().map(|spare| spare.bytes).sum::<u64>();
        while self.spare.len() > SPARE_SEGMENTS || (self.spare.len() > 1 && held(&self.spare) > at_most) {
            to_remove.push(self.spare.remove(0).path);
        }
        if let Some(last) = self.spare.first_mut().filter(|spare| spare.bytes > at_most) {
            let cut = self.disk.open(&last.path, Access::ReadWrite);
            if cut.and_then(|file| file.set_len(LEAST_SPARE_BYTES)).is_ok() {
                last.bytes = LEAST_SPARE_BYTES;
            }
        }
        to_remove
    }
}

impl Spare {
    /// The file at `path`; none where it can't be used.
    fn of(disk: &CheckedDisk, path: PathBuf) -> Option<Self> {
        let bytes = disk.open(&path, Access::Read).and_then(|file| file.len()).ok()?;
        Some(Self { path, bytes })
    }
}

/// How many zeros to write behind `bytes` bytes at `offset` of a file that was `reused_bytes` long: up to the
/// end of the page that they end in, where they begin it. What is written to that page later finds it in the
/// system's cache; without the zeros what lay in it before would have to be read from the device first.
fn zeros_after(offset: u64, bytes: u64, reused_bytes: u64) -> usize {
    let end = offset + bytes;
    let page = end - end % PAGE_BYTES;
    let begins_page = offset <= page && page < end;
    if begins_page && page < reused_bytes { (page + PAGE_BYTES - end) as usize } else { 0 }
}

fn new_segment(
    disk: &CheckedDisk,
    dir: &Path,
    number: u64,
    first_lsn: u64,
    spare: &mut Vec<Spare>,
) -> Result<Segment> {
    let path = segment_path(dir, number);
    let fail = |e: std::io::Error| Error::io(&e, "starting a write-ahead log segment", &path);
    let (file, reused_bytes) = match spare.last() {
        Some(old) => {
            disk.rename(&old.path, &path).map_err(fail)?;
            spare.pop();
            let file = disk.open(&path, Access::ReadWrite).map_err(fail)?;
            let bytes = file.len().map_err(fail)?;
            (file, bytes)
        }
        None => (disk.create(&path).map_err(fail)?, 0),
    };
    let epoch = Epoch(disk.random_u64());
    let header = LogHeader { number, epoch, first_lsn };
    let mut header = header.encode(MAGIC);
    header.resize(header.len() + zeros_after(0, LOG_HEADER_BYTES, reused_bytes), 0);
    file.write_all_at(&header, 0).map_err(fail)?;
    // Without its header the segment is begun afresh; from here on a failed write leaves the log in doubt.
    let unwatched = Arc::clone(&file);
    let file = disk.watch_writes(file, &path);
    let start = LogStart { segment: number, lsn: first_lsn };
    Ok(Segment {
        shared: Arc::new(LogSegment::new(start, file, path)),
        unwatched,
        epoch,
        end_lsn: first_lsn,
        reused_bytes,
    })
}

#[cfg(test)]
mod tests;
