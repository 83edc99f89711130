//! The one door to bytes of tables on disk: caches of answers, pages and open files, checksums, counters.
//!
//! Gets and scans read single pages through the cache; compaction reads long stretches around it. Every page
//! that comes from the device is verified before anyone sees it. What tables answered to gets is kept as
//! well, by itself ([`row`]), and memory is divided between the two by what saves more reads ([`split`]).
//!
//! Items that log stores find in the log are read through it too, as they stand there, uncached; log stores
//! check them.
//!
//! Lookups ask for pages through a [`Probe`], which waits for a page or says which one it needs ([`probe`]).
//! Many pages are read at the same time by [`fetch`].

mod fetch;
mod probe;
mod row;
mod shared;
mod split;
mod step;

use crate::entry::Answer;
use crate::error::{Error, Result};
use crate::filename;
pub(crate) use crate::ids::{FileId, TableId};
use crate::io::{Access, Disk, File};
use crate::memory::{FilterWorth, MemoryBudget, Pooled};
use crate::segment::LogSegment;
use crate::stats::{IoCounters, ReadTrace, StoreCounters};
use crate::sync::leaf::atomic::{AtomicU32, Ordering};
use crate::value::Wants;
pub(crate) use fetch::{Arrived, fetch, run_all, run_all_cached};
pub(crate) use probe::Probe;
use shared::{CacheUser, Files};
pub(crate) use shared::{Caches, Page};
use siltstone_design::EncodedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub(crate) use step::{PageRef, Pause, Step};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = crate::memory::PIECE_BYTES;

/// Stored and computed checksum of a page: CRC-32C of all but its first four bytes, salted with the file's
/// and the page's number, so that a page in the wrong place does not pass.
fn page_checksums(file: FileId, page: u32, bytes: &[u8; PAGE_BYTES]) -> (u32, u32) {
    let (stored, rest) = bytes.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    let mut salt = [0u8; 12];
    let (high, low) = salt.split_at_mut(8);
    high.copy_from_slice(&file.key().to_le_bytes());
    low.copy_from_slice(&page.to_le_bytes());
    (u32::from_le_bytes(*stored), crc32c::crc32c_append(crc32c::crc32c(&salt), rest))
}

/// Whether a page's checksum is right.
pub(crate) fn page_is_sound(file: impl Into<FileId>, page: u32, bytes: &[u8; PAGE_BYTES]) -> bool {
    let (stored, found) = page_checksums(file.into(), page, bytes);
    stored == found
}

/// Writes a page's checksum into its first four bytes.
pub(crate) fn seal_page(file: impl Into<FileId>, page: u32, bytes: &mut [u8; PAGE_BYTES]) {
    let (_, sum) = page_checksums(file.into(), page, bytes);
    if let Some(stored) = bytes.first_chunk_mut::<4>() {
        *stored = sum.to_le_bytes();
    }
}

/// Reads tables' bytes.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    /// Whether filters and indexes that are not in memory are loaded.
    loads: bool,
}

/// What all readers of a store share.
struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    metadata_dir: PathBuf,
    caches: Arc<Caches>,
    /// The store's number in them.
    user: CacheUser,
    /// Open files of its own, where the store must not lose any of them.
    own_files: Option<Files>,
    counters: Arc<StoreCounters>,
    /// See [`Reader::filters_refused`].
    filters_refused: AtomicU32,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.caches.leave(self.user);
    }
}

impl Reader {
    /// The reader of a store in `dir`, with caches that it may share with others.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf, caches: Arc<Caches>, counters: Arc<StoreCounters>) -> Self {
        let (metadata_dir, user) = (dir.clone(), caches.join());
        let filters_refused = AtomicU32::new(FilterWorth::NONE.to_bits());
        let shared =
            Shared { disk, dir, metadata_dir, caches, user, own_files: None, counters, filters_refused };
        Self { shared: Arc::new(shared), loads: true }
    }

    /// The reader of a store that keeps sidecars in `metadata_dir`.
    pub fn with_metadata_in(mut self, metadata_dir: PathBuf) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.metadata_dir = metadata_dir;
        }
        self
    }

    /// The reader of a store that keeps every file open that it has opened, of which there are about `count`:
    /// their names may be gone.
    pub fn keeping_files(mut self, count: usize) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            // Each file weighs one, so none ever gives way to others.
            shared.own_files = Some(shared::files(count, u32::MAX.into()));
        }
        self
    }

    /// The same reader, for whoever loads filters and indexes, or leaves it to others.
    pub fn loading(&self, loads: bool) -> Self {
        Self { shared: Arc::clone(&self.shared), loads }
    }

    /// Whether filters and indexes that are not in memory are loaded when they are asked.
    pub fn loads(&self) -> bool {
        self.loads
    }

    /// Filters of tables that are worth no more are not in memory: there is no room for all, and others are
    /// worth more.
    pub fn filters_refused(&self) -> FilterWorth {
        FilterWorth::from_bits(self.shared.filters_refused.load(Ordering::Relaxed))
    }

    /// Refuses memory to filters of tables that are worth no more than this.
    pub fn refuse_filters(&self, worth: FilterWorth) {
        self.shared.filters_refused.store(worth.to_bits(), Ordering::Relaxed);
    }

    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.shared.caches.memory
    }

    /// The path of a file.
    pub fn path(&self, file: impl Into<FileId>) -> PathBuf {
        match file.into() {
            FileId::Table(id) => filename::table_path(&self.shared.dir, id),
            FileId::Sidecar(id) => self.shared.metadata_dir.join(filename::sidecar(id)),
        }
    }

    /// Where sidecars are.
    pub fn metadata_dir(&self) -> &Path {
        &self.shared.metadata_dir
    }

    fn io(&self) -> &IoCounters {
        &self.shared.counters.io
    }

    fn count_read(&self, bytes: usize) {
        self.io().reads.add(1);
        self.io().bytes_read.add(bytes as u64);
    }

    /// Bytes of cached pages and answers, of all stores that share the caches.
    pub fn cached_bytes(&self) -> u64 {
        self.shared.caches.bytes()
    }

    /// What `table` has said of `key` before, if that is kept.
    #[inline]
    pub fn known_answer(&self, table: TableId, key: &EncodedKey<'_>, wants: Wants) -> Option<Answer> {
        let Shared { caches, user, .. } = &*self.shared;
        let answer = caches.answers.get(user.table(table), key, wants)?;
        caches.note_answer();
        Some(answer)
    }

    /// Keeps what `table` says of `key`.
    #[inline]
    pub fn keep_answer(&self, table: TableId, key: &EncodedKey<'_>, answer: &Answer) {
        let Shared { caches, user, .. } = &*self.shared;
        caches.keep_answer(user.table(table), key, answer);
    }

    /// Gives the cache what the budget's other holders leave; called when they change.
    pub fn fit_cache(&self) {
        self.shared.caches.fit();
    }

    /// The open file `file`.
    pub fn file(&self, file: impl Into<FileId>) -> Result<Arc<dyn File>> {
        let id = file.into();
        let user = self.shared.user;
        if let Some(file) = self.files().get(&user.file(id)) {
            return Ok(file);
        }
        let path = self.path(id);
        let file = self.shared.disk.open(&path, Access::Read).map_err(|e| match (e.kind(), id) {
            (std::io::ErrorKind::NotFound, FileId::Table(_)) => Error::missing_table(&path),
            (std::io::ErrorKind::NotFound, FileId::Sidecar(_)) => Error::missing(&path),
            _ => Error::io(&e, "opening", &path),
        })?;
        self.files().insert(user.file(id), Arc::clone(&file));
        Ok(file)
    }

    fn files(&self) -> &Files {
        let Shared { caches, own_files, .. } = &*self.shared;
        own_files.as_ref().unwrap_or(&caches.files)
    }

    /// Forgets a file that goes away.
    pub fn forget(&self, file: impl Into<FileId>, pages: u32) {
        let Shared { caches, user, .. } = &*self.shared;
        let file = file.into();
        self.files().remove(&user.file(file));
        for page in 0..pages {
            caches.pages.remove(&user.page(file, page));
        }
    }

    /// The page of `file` that is cached, if it is.
    #[inline]
    fn cached(&self, file: FileId, page: u32) -> Option<Page> {
        let Shared { caches, user, .. } = &*self.shared;
        let cached = caches.pages.get(&user.page(file, page))?;
        caches.note(0);
        Some(cached)
    }

    /// Whether a page is cached; asking is no use of it.
    pub fn holds(&self, page: &PageRef) -> bool {
        let Shared { caches, user, .. } = &*self.shared;
        matches!(page, PageRef::Page { file, page } if caches.pages.peek(&user.page(*file, *page)).is_some())
    }

    /// Reads a page from the device, verifies it and caches it.
    fn load(&self, file: FileId, page: u32, trace: &mut ReadTrace) -> Result<Page> {
        let mut fresh = self.memory().pooled();
        self.read_exact(file, u64::from(page) * PAGE_BYTES as u64, fresh.bytes_mut())?;
        trace.device_reads += 1;
        self.arrived(file, page, fresh)
    }

    /// Takes a page that came from the device, once it is verified.
    fn arrived(&self, file: FileId, page: u32, bytes: Pooled) -> Result<Page> {
        self.count_read(PAGE_BYTES);
        self.shared.caches.note(1);
        self.verify(file, page, &bytes)?;
        let shared = Arc::new(bytes);
        let Shared { caches, user, .. } = &*self.shared;
        caches.pages.insert(user.page(file, page), Arc::clone(&shared));
        Ok(shared)
    }

    /// Two neighbouring pages of `file`, if both are cached.
    fn cached_pair(&self, file: FileId, first: u32) -> Option<[Page; 2]> {
        let Shared { caches, user, .. } = &*self.shared;
        let page = |number: u32| caches.pages.get(&user.page(file, number));
        Some([page(first)?, page(first.saturating_add(1))?])
    }

    /// Caches a page that was read, and verified, with others.
    fn keep(&self, file: FileId, page: u32, bytes: &[u8; PAGE_BYTES]) -> Page {
        let mut kept = self.memory().pooled();
        kept.bytes_mut().copy_from_slice(bytes);
        let kept = Arc::new(kept);
        let Shared { caches, user, .. } = &*self.shared;
        caches.pages.insert(user.page(file, page), Arc::clone(&kept));
        kept
    }

    /// `buf.len() / PAGE_BYTES` pages from `first` on in one read, verified, around the cache.
    pub fn pages_for_lookup(
        &self,
        file: impl Into<FileId>,
        first: u32,
        buf: &mut [u8],
        trace: &mut ReadTrace,
    ) -> Result<()> {
        let file = file.into();
        self.read_exact(file, u64::from(first) * PAGE_BYTES as u64, buf)?;
        self.count_read(buf.len());
        trace.device_reads += 1;
        self.verify_all(file, first, buf)
    }

    /// As [`Reader::pages_for_lookup`], for background work.
    pub fn pages_for_compaction(&self, file: impl Into<FileId>, first: u32, buf: &mut [u8]) -> Result<()> {
        let file = file.into();
        self.read_exact(file, u64::from(first) * PAGE_BYTES as u64, buf)?;
        self.io().compaction_bytes_read.add(buf.len() as u64);
        self.verify_all(file, first, buf)
    }

    /// Bytes of a table outside its pages; the caller verifies them.
    pub fn section(&self, table: TableId, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact(table.into(), offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `length` bytes of a segment of the log from `offset` on; the caller checks them.
    fn log_bytes(
        &self,
        segment: &LogSegment,
        offset: u64,
        length: usize,
        trace: &mut ReadTrace,
    ) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = segment.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| log_error(&error, segment, offset, length))?;
        self.count_read(length);
        trace.device_reads += 1;
        Ok(bytes)
    }

    /// Reads bytes of the log into `buf`, for background work; the caller checks them.
    pub fn of_log_for_compaction(&self, segment: &LogSegment, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read = segment.file.read_exact_at(buf, offset);
        read.map_err(|error| log_error(&error, segment, offset, buf.len()))?;
        self.io().compaction_bytes_read.add(buf.len() as u64);
        Ok(())
    }

    fn read_exact(&self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read = self.file(file)?.read_exact_at(buf, offset);
        read.map_err(|error| self.read_error(&error, file, offset, buf.len()))
    }

    fn read_error(&self, error: &std::io::Error, file: FileId, offset: u64, length: usize) -> Error {
        read_error(error, &self.path(file), offset, length)
    }

    fn verify_all(&self, file: FileId, first: u32, buf: &[u8]) -> Result<()> {
        let (pages, _) = buf.as_chunks::<PAGE_BYTES>();
        for (number, page) in (first..).zip(pages) {
            self.verify(file, number, page)?;
        }
        Ok(())
    }

    fn verify(&self, file: FileId, page: u32, bytes: &[u8; PAGE_BYTES]) -> Result<()> {
        let (stored, found) = page_checksums(file, page, bytes);
        if stored == found {
            return Ok(());
        }
        Err(Error::corruption(
            &self.path(file),
            u64::from(page) * PAGE_BYTES as u64,
            format_args!("a page with checksum {stored:08x}"),
            format_args!("{found:08x}"),
        ))
    }
}

fn read_error(error: &std::io::Error, path: &Path, offset: u64, length: usize) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::corruption(path, offset, format_args!("{length} bytes"), "the end of the file")
        }
        _ => Error::io(error, "reading", path),
    }
}

fn log_error(error: &std::io::Error, segment: &LogSegment, offset: u64, length: usize) -> Error {
    read_error(error, &segment.path, offset, length)
}

#[cfg(all(test, siltstone_shuttle))]
mod interleavings {
    use super::*;
    use crate::io::sim::SimDisk;
    use crate::memory::Holder;
    use crate::sync::{explore, thread};
    use siltstone_design::{Encoder, HashSecret, Schema};

    const PAGES: u32 = 12;

    /// What a page of a table holds.
    fn bytes_of(table: TableId, page: u32) -> [u8; PAGE_BYTES] {
        let mut bytes = [(table * u64::from(PAGES)) as u8 + page as u8; PAGE_BYTES];
        seal_page(table, page, &mut bytes);
        bytes
    }

    fn read_all(reader: &Reader, from: u32) {
        let encoder = Encoder::new(Schema::Point, HashSecret([5; 16]));
        let mut held: Vec<(TableId, u32, Page)> = Vec::new();
        for step in 0..PAGES {
            let (table, page) = (1 + TableId::from((from + step) % 2), (from + step * 5) % PAGES);
            let mut probe = Probe::waiting(reader, &encoder);
            let Ok(found) = probe.page(table, page) else { panic!("page {page} of table {table}") };
            held.push((table, page, found));
            // A page in somebody's hands stays what it is, whatever becomes of its place in the cache.
            for (table, page, found) in &held {
                assert_eq!(found[..], bytes_of(*table, *page)[..], "page {page} of table {table}");
            }
            held.drain(..held.len().saturating_sub(3));
        }
    }

    /// Pages give way to others, to filters and to memtables, whose pieces are written over, while they are
    /// read; and a table is forgotten meanwhile.
    #[test]
    fn pages_are_those_of_their_tables_while_memory_comes_and_goes() {
        explore(2_000, || {
            let (disk, dir) = (Arc::new(SimDisk::new()), PathBuf::from("/db"));
            disk.create_dir_all(&dir).unwrap();
            let memory = MemoryBudget::new(1 << 20);
            let caches = Caches::new(&memory, 8);
            let reader = Reader::new(disk.clone(), dir, caches, Arc::default());
            for table in 1..=2 {
                let file = disk.create(&reader.path(table)).unwrap();
                let bytes: Vec<u8> = (0..PAGES).flat_map(|page| bytes_of(table, page)).collect();
                file.write_all_at(&bytes, 0).unwrap();
            }
            let readers = [0, 3].map(|from| {
                let reader = reader.loading(true);
                thread::spawn(move || read_all(&reader, from))
            });
            for round in 0..3u8 {
                let filter = memory.hold(Holder::Filter, 900 << 10);
                reader.fit_cache();
                let pieces: Vec<_> = (0..8).map(|_| memory.piece()).collect();
                let written = pieces.into_iter().map(|piece| {
                    piece.fill(0xee ^ round);
                    piece
                });
                memory.give_back(written);
                reader.forget(FileId::Table(1), PAGES);
                drop(filter);
                reader.fit_cache();
            }
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}
