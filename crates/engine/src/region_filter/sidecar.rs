//! Sidecars: files of region filters. They hold what memory has of filters while the store is closed, or the
//! pages of a filter that lies on the device.
//!
//! ```text
//! sidecar  header · record · record · ... · zeros up to a multiple of 4096 · page · page · ...
//!          without pages no zeros
//! header   "SILTSIDE" · version u32 · pages u32 · number u64 · stamp u64 (of the hash secret)
//!          · records' bytes u64 · crc32c u32 of what stands before it
//! record   length u32 · crc32c u32 · payload
//! payload  keyspace varint · level varint · path · runs varint · each run's number varint
//!          · kind u8 · length varint · filter
//! page     as in tables, without entries; its checksum covers the file's number with the highest bit set
//! ```
//!
//! A sidecar with pages has one record, which says what they are; one without has a record for each filter,
//! or part of one.
//!
//! No edit of the manifest names a sidecar, and no answer depends on one. Runs never change and their numbers
//! are not used twice, so a record is right for as long as its runs lie in its region, however old it is; any
//! other is passed over, and what it would have held is made anew from the tables. A sidecar has a larger
//! number than the runs it knows, and counting goes on above it, so that one of a later time, left behind
//! when an older copy of a store is put back, speaks of no run to come.
//!
//! The header is written last, so that a file with a header is whole but for what the system lost; checksums
//! tell.

use crate::cache::{PAGE_BYTES, seal_page};
use crate::codec::{Decoder, put_bytes, put_path};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{FileId, RunId, SidecarId};
use crate::io::{Disk, File};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::table::Trash;
use siltstone_design::TriePath;
use siltstone_succinct::code::varint;
use std::path::Path;
use std::sync::Arc;

pub(crate) const MAGIC: &[u8; 8] = b"SILTSIDE";
const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 44;
const FRAME_BYTES: u64 = 8;
/// Larger records are not believed.
const MAX_RECORD_BYTES: u32 = 1 << 30;
/// Kinds of records.
pub(super) const MULTI_LEVEL_CUCKOO: u8 = 1;
pub(super) const MAPLET: u8 = 2;
pub(super) const CLUSTER_ROW: u8 = 3;
pub(super) const CLUSTER_PAGES: u8 = 4;

/// Returns a record's kind in words.
pub(crate) fn in_words(kind: u8) -> Option<&'static str> {
    Some(match kind {
        MULTI_LEVEL_CUCKOO => "multi-level cuckoo filter",
        MAPLET => "maplet",
        CLUSTER_ROW => "row of a Bloom cluster",
        CLUSTER_PAGES => "Bloom cluster",
        _ => return None,
    })
}

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 1 << 20;

/// Takes the runs, the kind and the bytes of a record.
pub(crate) type KeepRecord<'a> = dyn FnMut(&[RunId], u8, &[u8]) -> std::io::Result<()> + 'a;

/// Bytes that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What a sidecar says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SidecarHeader {
    pub number: SidecarId,
    /// Tells the store that it belongs to.
    pub stamp: u64,
    pub pages: u32,
    records_bytes: u64,
}

impl SidecarHeader {
    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.pages.to_le_bytes());
        for number in [self.number, self.stamp, self.records_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        #[expect(clippy::expect_used, reason = "the lengths above are constants")]
        out.try_into().expect("a header has 44 bytes")
    }

    /// Decodes a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let (magic, version, pages) = (from.take(8)?, from.u32()?, from.u32()?);
        let header = Self { pages, number: from.u64()?, stamp: from.u64()?, records_bytes: from.u64()? };
        let crc = crc32c::crc32c(bytes.get(..HEADER_BYTES - 4)?);
        (magic == MAGIC && version == VERSION && from.u32()? == crc).then_some(header)
    }

    /// Returns where the records end.
    fn records_end(&self) -> Option<u64> {
        (HEADER_BYTES as u64).checked_add(self.records_bytes)
    }

    /// Returns the number of the first page; `None` where numbers do not go so far.
    pub fn first_page(&self) -> Option<u32> {
        u32::try_from(self.records_end()?.div_ceil(PAGE_BYTES as u64)).ok()
    }

    /// Returns the bytes of the whole file; `None` where it would be larger than a file can be.
    pub fn file_bytes(&self) -> Option<u64> {
        if self.pages == 0 {
            return self.records_end();
        }
        let pages = self.first_page()?.checked_add(self.pages)?;
        Some(u64::from(pages) * PAGE_BYTES as u64)
    }
}

/// A region's filter, or a part of it, as it stands in a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SidecarRecord<'a> {
    pub keyspace: u64,
    pub level: usize,
    pub path: TriePath,
    pub runs: Vec<RunId>,
    pub kind: u8,
    pub filter: &'a [u8],
}

impl<'a> SidecarRecord<'a> {
    /// Returns the record with its length and checksum; `None` where it is too long for one.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut payload = Vec::with_capacity(self.filter.len() + 64);
        varint::put_u64(&mut payload, self.keyspace);
        varint::put_u64(&mut payload, self.level as u64);
        put_path(&mut payload, self.path);
        varint::put_u64(&mut payload, self.runs.len() as u64);
        self.runs.iter().for_each(|run| varint::put_u64(&mut payload, *run));
        payload.push(self.kind);
        put_bytes(&mut payload, self.filter);
        let length = u32::try_from(payload.len()).ok().filter(|length| *length <= MAX_RECORD_BYTES)?;
        let mut record = length.to_le_bytes().to_vec();
        record.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
        record.append(&mut payload);
        Some(record)
    }

    /// Decodes a record's payload.
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        let mut from = Decoder::new(payload);
        let (keyspace, level, path) = (from.varint()?, from.length()?, from.path()?);
        let count = from.length().filter(|count| *count <= payload.len())?;
        let runs = (0..count).map(|_| from.varint()).collect::<Option<_>>()?;
        let (kind, filter) = (from.u8()?, from.bytes()?);
        from.is_empty().then_some(Self { keyspace, level, path, runs, kind, filter })
    }

    /// Returns the bytes of the whole record.
    pub fn bytes(&self) -> u64 {
        self.encode().map_or(0, |record| record.len() as u64)
    }
}

/// What reading a sidecar came to: what it said of itself, if that made sense, and what is wrong with it, if
/// anything is.
pub(crate) struct SidecarRead {
    pub header: Option<SidecarHeader>,
    pub damage: Option<Error>,
}

/// Reads header and records of the sidecar at `path`, and hands each record to `each`, which refuses those
/// that make no sense. Those before damage have been handed over. The pages are not read.
///
/// # Errors
/// Where the device fails; damage is none.
pub(crate) fn read(
    path: &Path,
    file: &dyn File,
    each: &mut dyn FnMut(&SidecarHeader, &SidecarRecord<'_>) -> std::result::Result<(), Malformed>,
) -> Result<SidecarRead> {
    let mut header = None;
    match read_all(path, file, &mut header, each) {
        Ok(()) => Ok(SidecarRead { header, damage: None }),
        Err(error) if error.kind() == ErrorKind::Corruption => {
            Ok(SidecarRead { header, damage: Some(error) })
        }
        Err(error) => Err(error),
    }
}

fn read_all(
    path: &Path,
    file: &dyn File,
    header: &mut Option<SidecarHeader>,
    each: &mut dyn FnMut(&SidecarHeader, &SidecarRecord<'_>) -> std::result::Result<(), Malformed>,
) -> Result<()> {
    let fail = |error: std::io::Error| Error::io(&error, "reading", path);
    let damaged = |at: u64, expected: &str, found: &str| Error::corruption(path, at, expected, found);
    let length = file.len().map_err(fail)?;
    let mut bytes = [0; HEADER_BYTES];
    if length < HEADER_BYTES as u64 {
        return Err(damaged(0, "the header of a sidecar", &format!("{length} bytes in all")));
    }
    file.read_exact_at(&mut bytes, 0).map_err(fail)?;
    let found = SidecarHeader::decode(&bytes)
        .ok_or_else(|| damaged(0, "the header of a sidecar of this version", "something else"))?;
    *header = Some(found);
    let (Some(end), Some(file_bytes)) = (found.records_end(), found.file_bytes()) else {
        return Err(damaged(0, "a header of a file that can be", "sizes beyond all"));
    };
    let mut at = HEADER_BYTES as u64;
    while at < end {
        let mut frame = [0; FRAME_BYTES as usize];
        if length.min(end) - at < FRAME_BYTES {
            return Err(damaged(at, "a record", "the end of the records"));
        }
        file.read_exact_at(&mut frame, at).map_err(fail)?;
        let mut from = Decoder::new(&frame);
        let (bytes, crc) = from.u32().zip(from.u32()).unwrap_or_default();
        if bytes > MAX_RECORD_BYTES || u64::from(bytes) > length.min(end) - at - FRAME_BYTES {
            return Err(damaged(at, "a record that ends within the file", "a longer one"));
        }
        let mut payload = vec![0; bytes as usize];
        file.read_exact_at(&mut payload, at + FRAME_BYTES).map_err(fail)?;
        if crc32c::crc32c(&payload) != crc {
            return Err(damaged(at, "a record with its checksum", "another checksum"));
        }
        let record = SidecarRecord::decode(&payload).ok_or(Malformed);
        record
            .and_then(|record| each(&found, &record))
            .map_err(|Malformed| damaged(at, "a filter", "bytes that make no sense"))?;
        at += FRAME_BYTES + u64::from(bytes);
    }
    if length != file_bytes {
        return Err(damaged(0, &format!("{file_bytes} bytes in all"), &format!("{length}")));
    }
    let mut zeros = vec![0; (end.next_multiple_of(PAGE_BYTES as u64).min(length) - end) as usize];
    file.read_exact_at(&mut zeros, end).map_err(fail)?;
    match zeros.iter().position(|byte| *byte != 0) {
        Some(byte) => Err(damaged(end + byte as u64, "zeros up to the first page", "something else")),
        None => Ok(()),
    }
}

/// The pages of a sidecar. Once marked obsolete, the file is removed when the last holder lets go.
pub(crate) struct SidecarPages {
    pub id: FileId,
    /// The first page of the filter, and how many there are.
    pub first: u32,
    pub count: u32,
    /// Whether every page is known to have been as it should be.
    is_checked: AtomicBool,
    is_damaged: AtomicBool,
    obsolete: AtomicBool,
    trash: Arc<Trash>,
}

impl std::fmt::Debug for SidecarPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pages of {:?}", self.count, self.id)
    }
}

impl Drop for SidecarPages {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.trash.put(self.id, self.end());
        }
    }
}

impl SidecarPages {
    /// The pages of the sidecar with `header`, which has some; `None` where its sizes make no sense.
    pub fn new(header: &SidecarHeader, trash: Arc<Trash>) -> Option<Self> {
        let id = FileId::sidecar(header.number)?;
        let first = header.first_page()?;
        header.file_bytes()?;
        let (is_checked, is_damaged, obsolete) = Default::default();
        Some(Self { id, first, count: header.pages, is_checked, is_damaged, obsolete, trash })
    }

    /// Returns the number of the page behind the last.
    pub fn end(&self) -> u32 {
        self.first + self.count
    }

    /// Returns the bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        u64::from(self.end()) * PAGE_BYTES as u64
    }

    pub fn is_checked(&self) -> bool {
        self.is_checked.load(Ordering::Relaxed)
    }

    pub fn mark_checked(&self) {
        self.is_checked.store(true, Ordering::Relaxed);
    }

    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Lets the file go once nobody reads it.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Passes over damage, which costs this file and no answer.
    pub fn spared<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Err(error) if error.kind() == ErrorKind::Corruption => {
                self.is_damaged.store(true, Ordering::Relaxed);
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}

/// What the one record of a sidecar with pages says, but for where it belongs.
pub(crate) struct PagesPlan<'a> {
    pub runs: &'a [RunId],
    pub kind: u8,
    pub filter: &'a [u8],
    pub count: u32,
}

/// Where a sidecar with pages is to be written, and for which region.
pub(crate) struct PagesTarget<'a> {
    pub disk: &'a dyn Disk,
    pub path: &'a Path,
    pub number: SidecarId,
    pub stamp: u64,
    pub keyspace: u64,
    pub level: usize,
    pub region: TriePath,
    pub trash: &'a Arc<Trash>,
    /// Asked now and then; `true` gives the work up.
    pub is_given_up: &'a dyn Fn() -> bool,
}

impl<'a> PagesTarget<'a> {
    /// Creates the file of a filter as `plan` says.
    pub fn begin(&self, plan: &PagesPlan<'_>) -> Result<PagesWriter<'a>> {
        let record = SidecarRecord {
            keyspace: self.keyspace,
            level: self.level,
            path: self.region,
            runs: plan.runs.to_vec(),
            kind: plan.kind,
            filter: plan.filter,
        };
        let invalid = |what: &str| Error::invalid(format_args!("{}: {what}", self.path.display()));
        let record = record.encode().ok_or_else(|| invalid("the record of a filter is too long"))?;
        let header = SidecarHeader {
            number: self.number,
            stamp: self.stamp,
            pages: plan.count,
            records_bytes: record.len() as u64,
        };
        let pages = SidecarPages::new(&header, Arc::clone(self.trash))
            .ok_or_else(|| invalid("a filter has more pages than numbers go"))?;
        let file = self.disk.create_streamed(self.path);
        let file = file.map_err(|error| Error::io(&error, "creating", self.path))?;
        let (next, out_at) = (pages.first, pages.first);
        Ok(PagesWriter {
            disk: self.disk,
            path: self.path,
            file,
            header,
            record,
            pages,
            next,
            out: Vec::new(),
            out_at,
        })
    }
}

/// Writes a sidecar with pages: the pages first, then what says that they are there.
pub(crate) struct PagesWriter<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    file: Arc<dyn File>,
    header: SidecarHeader,
    record: Vec<u8>,
    pages: SidecarPages,
    next: u32,
    /// Bytes gathered, and the page they start with.
    out: Vec<u8>,
    out_at: u32,
}

impl PagesWriter<'_> {
    fn fail(&self, error: &std::io::Error) -> Error {
        Error::io(error, "writing", self.path)
    }

    /// Writes the next page.
    pub fn page(&mut self, payload: &[u8]) -> Result<()> {
        assert!(self.next < self.pages.end(), "a filter has more pages than its plan says");
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        self.out.extend_from_slice(&[0; 2]);
        self.out.extend_from_slice(payload);
        assert!(self.out.len() <= start + PAGE_BYTES, "a page's payload is too long");
        self.out.resize(start + PAGE_BYTES, 0);
        #[expect(clippy::expect_used, reason = "a page was appended above")]
        let page = self.out.last_chunk_mut::<PAGE_BYTES>().expect("a page has been appended");
        seal_page(self.pages.id, self.next, page);
        self.next += 1;
        if self.out.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let at = u64::from(self.out_at) * PAGE_BYTES as u64;
        self.file.write_all_at(&self.out, at).map_err(|error| self.fail(&error))?;
        self.out.clear();
        self.out_at = self.next;
        Ok(())
    }

    /// Writes header and record, and makes the file durable.
    pub fn finish(mut self) -> Result<SidecarPages> {
        assert_eq!(self.next, self.pages.end(), "a filter has fewer pages than its plan says");
        self.flush()?;
        self.file.sync().map_err(|error| self.fail(&error))?;
        let mut front = self.header.encode().to_vec();
        front.extend_from_slice(&self.record);
        front.resize(self.pages.first as usize * PAGE_BYTES, 0);
        self.file.write_all_at(&front, 0).map_err(|error| self.fail(&error))?;
        self.file.sync().map_err(|error| self.fail(&error))?;
        if let Some(dir) = self.path.parent() {
            self.disk.sync_dir(dir).map_err(|error| self.fail(&error))?;
        }
        self.pages.mark_checked();
        Ok(self.pages)
    }
}

/// Writes a sidecar of records.
pub(crate) struct RecordsWriter {
    file: Arc<dyn File>,
    header: SidecarHeader,
}

impl RecordsWriter {
    /// Creates sidecar `number` at `path`.
    pub fn create(disk: &dyn Disk, path: &Path, number: SidecarId, stamp: u64) -> std::io::Result<Self> {
        let header = SidecarHeader { number, stamp, pages: 0, records_bytes: 0 };
        Ok(Self { file: disk.create(path)?, header })
    }

    /// Appends a record; one that is too long is left out.
    pub fn add(&mut self, record: &SidecarRecord<'_>) -> std::io::Result<()> {
        let Some(bytes) = record.encode() else { return Ok(()) };
        self.file.write_all_at(&bytes, HEADER_BYTES as u64 + self.header.records_bytes)?;
        self.header.records_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the header.
    pub fn finish(self) -> std::io::Result<()> {
        self.file.write_all_at(&self.header.encode(), 0)
    }
}
