//! The write-ahead log as an open store shares it: appended to by writers, synced by whoever needs it, cut
//! off by flushes.

use crate::db::env::Env;
use crate::entry::Sequence;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{HEADER_BYTES, LogStart, ManifestEnd, Replaced};
use crate::segment::LogSegment;
use crate::sync::Mutex;
use crate::wal::{LiveSegment, OpenSegment, SyncWork, Wal};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// The log of an open store; absent where the store is read-only.
pub(crate) struct CommitLog {
    env: Arc<Env>,
    wal: Mutex<Option<Wal>>,
    /// Of a log that is only read.
    segments: Vec<LiveSegment>,
    /// Where replacements of contents are announced that readers do not see yet.
    announced: Mutex<BTreeSet<u64>>,
}

/// A keyspace's contents that are about to be replaced, as the log says already: nothing from there on is
/// handed to those who follow it until this is dropped, or they would copy what was there before.
pub(crate) struct Announced<'a> {
    log: &'a CommitLog,
    from_lsn: u64,
    /// Sequence number of the replacement.
    pub sequence: Sequence,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.log.announced.lock().remove(&self.from_lsn);
    }
}

/// Where a group of records stands in the log.
#[derive(Clone, Debug)]
pub(crate) struct LogPlace {
    pub segment: Arc<LogSegment>,
    /// The LSN at which the first record begins.
    pub lsn: u64,
}

impl CommitLog {
    pub fn new(env: Arc<Env>, wal: Option<Wal>, segments: Vec<LiveSegment>) -> Self {
        Self { env, wal: Mutex::new(wal), segments, announced: Mutex::default() }
    }

    /// Asks the log a question; `T`'s default where there is none.
    fn ask<T: Default>(&self, question: impl FnOnce(&Wal) -> T) -> T {
        self.wal.lock().as_ref().map(question).unwrap_or_default()
    }

    /// Appends a group of records, given as payloads with their CRC-32C, and syncs it if `wants_sync`.
    ///
    /// # Errors
    /// `StorageFull` where nothing was appended; after any other failure the store is poisoned.
    pub fn append<'a>(
        &self,
        payloads: impl Iterator<Item = (&'a [u8], u32)> + Clone,
        wants_sync: bool,
    ) -> Result<LogPlace> {
        self.env.check_writable()?;
        let (place, work) = {
            let mut guard = self.wal.lock();
            let Some(wal) = guard.as_mut() else {
                return Err(Error::new(ErrorKind::ReadOnly, "the store has no log to write to"));
            };
            let before = wal.bytes_written();
            let number = wal.segment().segment;
            let (segment, lsn) = wal.append(payloads).inspect_err(|error| self.env.note_full_disk(error))?;
            if wal.segment().segment != number {
                // It had to write over an old segment.
                self.env.health.set_space_low(true);
            }
            self.env.counters.wal_bytes.add(wal.bytes_written() - before);
            (LogPlace { segment, lsn }, if wants_sync { wal.sync_work() } else { None })
        };
        self.run(work)?;
        Ok(place)
    }

    /// Says in the log that keyspace `number` gets other contents, synced with all that comes before. The
    /// caller holds the commit lock.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn announce(&self, number: u64) -> Result<Announced<'_>> {
        let from_lsn = self.end_of_batches();
        self.announced.lock().insert(from_lsn);
        let mut announced = Announced { log: self, from_lsn, sequence: 0 };
        let payload = Replaced { keyspace: number }.encode();
        let place = self.append(std::iter::once((payload.as_slice(), crc32c::crc32c(&payload))), true)?;
        announced.sequence = place.lsn + HEADER_BYTES as u64;
        Ok(announced)
    }

    /// Returns where the log ends for those who follow it.
    pub fn end_to_follow(&self) -> u64 {
        let end = self.end_of_batches();
        self.announced.lock().first().map_or(end, |announced| end.min(*announced))
    }

    /// Returns the LSN behind the last batch; of a log that is only read, behind all of it.
    fn end_of_batches(&self) -> u64 {
        let end = self.wal.lock().as_ref().map(Wal::end_of_batches);
        end.unwrap_or_else(|| self.bounds().1)
    }

    /// Whether `lsn` lies behind a replacement that readers do not see yet.
    pub fn is_withheld(&self, lsn: u64) -> bool {
        self.announced.lock().first().is_some_and(|announced| lsn >= *announced)
    }

    /// Syncs the log as far as it is written.
    pub fn sync(&self) -> Result<()> {
        self.run(self.ask(Wal::sync_work))
    }

    /// Syncs the log if any of it before `segment` is not.
    pub fn sync_before(&self, segment: u64) -> Result<()> {
        self.run(self.ask(|wal| wal.sync_work_before(segment)))
    }

    /// Runs a sync that was prepared under the log's lock.
    fn run(&self, work: Option<SyncWork>) -> Result<()> {
        let Some(work) = work else { return Ok(()) };
        work.run()?;
        if let Some(wal) = self.wal.lock().as_mut() {
            wal.synced(&work);
        }
        Ok(())
    }

    /// Begins the next segment. The caller holds the commit lock.
    pub fn rotate(&self) -> Result<()> {
        self.env.check_writable()?;
        let mut guard = self.wal.lock();
        let Some(wal) = guard.as_mut() else { return self.env.check_writable() };
        let before = wal.bytes_written();
        wal.rotate().inspect_err(|error| self.env.note_full_disk(error))?;
        self.env.counters.wal_bytes.add(wal.bytes_written() - before);
        Ok(())
    }

    /// Returns where the segment that is being written begins.
    pub fn segment(&self) -> LogStart {
        self.ask(Wal::segment)
    }

    /// Returns the bytes of records in the segment that is being written.
    pub fn segment_bytes(&self) -> u64 {
        self.ask(Wal::segment_bytes)
    }

    /// Returns the bytes of records that are still needed.
    pub fn live_bytes(&self) -> u64 {
        self.ask(Wal::live_bytes)
    }

    /// Returns the LSN up to which the log is synced.
    pub fn synced_lsn(&self) -> u64 {
        self.ask(Wal::synced_lsn)
    }

    /// Whether everything that matters is synced.
    pub fn is_synced(&self) -> bool {
        self.wal.lock().as_ref().is_none_or(Wal::is_synced)
    }

    /// Leaves word in the log of how far it is synced, and returns that LSN. It needs no sync of its own, and
    /// a failure loses nothing: it matters only if it is there.
    pub fn mark_synced(&self) -> Option<u64> {
        let mut guard = self.wal.lock();
        let wal = guard.as_mut()?;
        let synced = wal.synced_lsn();
        let _ = wal.mark_synced();
        Some(synced)
    }

    /// Whether records of the last segment are synced, and the manifest does not know that.
    pub fn has_unnoted_segment(&self) -> bool {
        self.ask(Wal::has_unnoted_segment)
    }

    /// Returns how far the log is synced where the manifest is to be told, which it is from then on.
    pub fn note_segment(&self) -> Option<u64> {
        let mut guard = self.wal.lock();
        let wal = guard.as_mut().filter(|wal| wal.has_unnoted_segment())?;
        wal.note_segment();
        Some(wal.synced_lsn())
    }

    /// Leaves word in the log of how far the manifest is synced. As with [`mark_synced`](Self::mark_synced),
    /// a failure loses nothing.
    pub fn note_manifest_end(&self, end: ManifestEnd) {
        let mut guard = self.wal.lock();
        let Some(wal) = guard.as_mut() else { return };
        let before = wal.bytes_written();
        let _ = wal.note_manifest_end(end);
        self.env.counters.wal_bytes.add(wal.bytes_written() - before);
    }

    /// Whether segments before `number` are kept.
    pub fn has_segments_before(&self, number: u64) -> bool {
        self.ask(|wal| wal.has_segments_before(number))
    }

    /// Returns the LSN of the oldest record that is there, and the one at which the next will begin.
    pub fn bounds(&self) -> (u64, u64) {
        match self.wal.lock().as_ref() {
            Some(wal) => (wal.oldest_lsn(), wal.end_lsn()),
            None => {
                let first = self.segments.first().map_or(0, |segment| segment.start.lsn);
                (first, self.segments.last().map_or(0, |segment| segment.end_lsn))
            }
        }
    }

    /// Opens the segment in which the record at `lsn` begins, or would; `None` where it is gone.
    pub fn segment_at(&self, lsn: u64) -> Result<Option<OpenSegment>> {
        if let Some(wal) = self.wal.lock().as_mut() {
            return wal.segment_at(lsn);
        }
        let found = self.segments.iter().find(|s| s.start.lsn <= lsn && lsn < s.end_lsn);
        let found = found.or(self.segments.last()).filter(|s| s.start.lsn <= lsn && lsn <= s.end_lsn);
        found.map(|segment| segment.open(self.env.disk.as_ref())).transpose()
    }

    /// Keeps what follows `lsn` for a follower, whatever that takes unless `is_bounded`, and returns its
    /// number there.
    pub fn pin(&self, lsn: u64, is_bounded: bool) -> u64 {
        self.wal.lock().as_mut().map_or(0, |wal| wal.pin(lsn, is_bounded))
    }

    /// Notes that follower `number` has come to `lsn`, or is gone.
    pub fn move_pin(&self, number: u64, lsn: Option<u64>) {
        if let Some(wal) = self.wal.lock().as_mut() {
            match lsn {
                Some(lsn) => wal.move_pin(number, lsn),
                None => wal.unpin(number),
            }
        }
    }

    /// Gives up the segments before `number` and returns the paths of those to be removed; of the others,
    /// about `spare_bytes` are kept for reuse.
    pub fn retire_before(&self, number: u64, spare_bytes: u64) -> Vec<PathBuf> {
        let mut wal = self.wal.lock();
        wal.as_mut().map(|wal| wal.retire_before(number, spare_bytes)).unwrap_or_default()
    }

    /// Keeps about `spare_bytes()` of the segments that are kept for reuse, where there are many, and returns
    /// the paths of those to be removed.
    pub fn trim_spares(&self, spare_bytes: impl FnOnce() -> u64) -> Vec<PathBuf> {
        if self.ask(Wal::excess_spare_bytes) == 0 {
            return Vec::new();
        }
        let spare_bytes = spare_bytes();
        self.wal.lock().as_mut().map(|wal| wal.trim_spares(spare_bytes)).unwrap_or_default()
    }
}
