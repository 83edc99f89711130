//! The one door to bytes of tables on disk: caches of answers, pages and open files, checksums, counters.
//!
//! Gets and scans read single pages through the cache; compaction reads long stretches around it. Every page that
//! comes from the device is verified before anyone sees it. What tables answered to gets is kept as well, by itself
//! ([`hot`]), and memory is divided between the two by what saves more reads ([`share`]).
//!
//! Items that log stores find in the log are read through it too, as they stand there, uncached; log stores check them.
//!
//! Lookups of many keys, and scans, read ahead: [`ahead`].

mod ahead;
mod hot;
mod share;

use crate::entry::Lookup;
use crate::error::{Error, Result};
use crate::io::{Access, Disk, File};
use crate::memory::{MemoryBudget, Pooled};
use crate::segment::LogSegment;
use crate::stats::{IoCounters, ReadTrace, StoreCounters};
use ahead::Ahead;
use hot::HotAnswers;
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use share::Share;
use siltstone_design::EncodedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = crate::memory::PIECE_BYTES;

/// A verified page.
pub(crate) type Page = Arc<Pooled>;

/// Memory a cached page takes, bookkeeping included.
const CACHED_PAGE_BYTES: u64 = PAGE_BYTES as u64 + 96;
/// The cache shrinks no further than this, so that one lookup's pages stay while it needs them.
const LEAST_CACHE_BYTES: u64 = 16 * CACHED_PAGE_BYTES;

#[derive(Clone)]
struct PageWeight;

impl Weighter<(u64, u32), Page> for PageWeight {
    fn weight(&self, _: &(u64, u32), _: &Page) -> u64 {
        CACHED_PAGE_BYTES
    }
}

/// Number of a table file, unique within a store.
pub(crate) type TableId = u64;

/// Stored and computed checksum of a page: CRC-32C of all but its first four bytes, salted with the table and the
/// page number, so that a page in the wrong place does not pass.
fn page_checksums(table: TableId, page: u32, bytes: &[u8; PAGE_BYTES]) -> (u32, u32) {
    let (stored, rest) = bytes.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    let mut salt = [0u8; 12];
    let (high, low) = salt.split_at_mut(8);
    high.copy_from_slice(&table.to_le_bytes());
    low.copy_from_slice(&page.to_le_bytes());
    (u32::from_le_bytes(*stored), crc32c::crc32c_append(crc32c::crc32c(&salt), rest))
}

/// Whether a page's checksum is right.
pub(crate) fn page_is_sound(table: TableId, page: u32, bytes: &[u8; PAGE_BYTES]) -> bool {
    let (stored, found) = page_checksums(table, page, bytes);
    stored == found
}

/// Writes a page's checksum into its first four bytes.
pub(crate) fn seal_page(table: TableId, page: u32, bytes: &mut [u8; PAGE_BYTES]) {
    let (_, sum) = page_checksums(table, page, bytes);
    if let Some(stored) = bytes.first_chunk_mut::<4>() {
        *stored = sum.to_le_bytes();
    }
}

/// Set in the numbers of files that hold Bloom clusters instead of tables.
pub(crate) const CLUSTER: TableId = 1 << 63;

/// The file name of the cluster file `id`, with or without its mark.
pub(crate) fn cluster_name(id: TableId) -> String {
    format!("{:08}.cluster", id & !CLUSTER)
}

/// The file name of table `id`.
pub(crate) fn table_name(id: TableId) -> String {
    format!("{id:08}.table")
}

/// The path of table `id`.
pub(crate) fn table_path(dir: &Path, id: TableId) -> PathBuf {
    dir.join(table_name(id))
}

/// Reads tables' bytes.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    /// Pages fetched ahead, where that is done.
    ahead: Option<Mutex<Ahead>>,
    /// Whether filters and indexes that are not in memory are loaded.
    loads: bool,
}

/// What all readers of a store share.
struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    metadata_dir: PathBuf,
    files: Cache<TableId, Arc<dyn File>>,
    pages: Cache<(u64, u32), Page, PageWeight>,
    answers: HotAnswers,
    share: Share,
    memory: Arc<MemoryBudget>,
    /// What answers and pages have together.
    cache_capacity: AtomicU64,
    counters: Arc<StoreCounters>,
}

impl Shared {
    /// Divides `capacity` bytes between answers and pages.
    fn divide(&self, capacity: u64) {
        let answers = self.share.of(capacity.saturating_sub(LEAST_CACHE_BYTES));
        self.answers.set_capacity(answers);
        self.pages.set_capacity(capacity - answers);
    }

    /// Notes a question that took `reads` from the device.
    #[inline]
    fn note(&self, reads: u64) {
        let capacity = self.cache_capacity.load(Ordering::Relaxed);
        if self.share.note(1, reads, capacity) {
            self.divide(capacity);
        }
    }
}

impl Reader {
    pub fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        max_open_files: usize,
        memory: Arc<MemoryBudget>,
        counters: Arc<StoreCounters>,
    ) -> Self {
        let capacity = memory.free_bytes().max(LEAST_CACHE_BYTES);
        let pages = Cache::with_weighter((capacity / CACHED_PAGE_BYTES) as usize, capacity, PageWeight);
        let files = Cache::new(max_open_files.max(8));
        let cache_capacity = AtomicU64::new(capacity);
        let metadata_dir = dir.clone();
        let (answers, share) = (HotAnswers::new(&memory), Share::default());
        let shared = Shared {
            disk,
            dir,
            metadata_dir,
            files,
            pages,
            answers,
            share,
            memory,
            cache_capacity,
            counters,
        };
        shared.divide(capacity);
        Self { shared: Arc::new(shared), ahead: None, loads: true }
    }

    /// The reader of a store that keeps clusters in `metadata_dir`.
    pub fn with_metadata_in(mut self, metadata_dir: PathBuf) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.metadata_dir = metadata_dir;
        }
        self
    }

    /// The same reader, for whoever loads filters and indexes, or leaves it to others.
    pub fn loading(&self, loads: bool) -> Self {
        Self { shared: Arc::clone(&self.shared), ahead: None, loads }
    }

    /// Whether filters and indexes that are not in memory are loaded when they are asked.
    pub fn loads(&self) -> bool {
        self.loads
    }

    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.shared.memory
    }

    /// The path of a table, or of a cluster file.
    pub fn path(&self, table: TableId) -> PathBuf {
        if table & CLUSTER == 0 {
            table_path(&self.shared.dir, table)
        } else {
            self.shared.metadata_dir.join(cluster_name(table))
        }
    }

    /// Where files of clusters are.
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

    /// Bytes of cached pages and answers.
    pub fn cached_bytes(&self) -> u64 {
        self.shared.pages.weight() + self.shared.answers.bytes()
    }

    /// What `table` has said of `key` before, if that is kept.
    #[inline]
    pub fn known_answer(&self, table: TableId, key: &EncodedKey<'_>) -> Option<Lookup> {
        let answer = self.shared.answers.get(table, key)?;
        self.shared.note(0);
        Some(answer)
    }

    /// Keeps what `table` says of `key`.
    #[inline]
    pub fn keep_answer(&self, table: TableId, key: &EncodedKey<'_>, answer: &Lookup) {
        self.shared.answers.insert(table, key, answer);
    }

    /// Gives the cache what the budget's other holders leave; called when they change.
    pub fn fit_cache(&self) {
        self.shared.memory.trim();
        let capacity = self.shared.memory.free_bytes().max(LEAST_CACHE_BYTES);
        let before = self.shared.cache_capacity.load(Ordering::Relaxed);
        // Small changes are not worth the cache's rebalancing.
        if capacity.abs_diff(before) > before / 32 {
            self.shared.cache_capacity.store(capacity, Ordering::Relaxed);
            self.shared.divide(capacity);
        }
    }

    /// The open file of `table`.
    pub fn file(&self, table: TableId) -> Result<Arc<dyn File>> {
        if let Some(file) = self.shared.files.get(&table) {
            return Ok(file);
        }
        let path = self.path(table);
        let file = self.shared.disk.open(&path, Access::Read).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound if table & CLUSTER == 0 => Error::missing_table(&path),
            std::io::ErrorKind::NotFound => Error::missing(&path),
            _ => Error::io(&e, "opening", &path),
        })?;
        self.shared.files.insert(table, Arc::clone(&file));
        Ok(file)
    }

    /// Forgets a table whose file goes away.
    pub fn forget(&self, table: TableId, pages: u32) {
        self.shared.files.remove(&table);
        for page in 0..pages {
            self.shared.pages.remove(&(table, page));
        }
    }

    /// One page of `table`, from the cache or verified from the device.
    #[inline]
    pub fn page(&self, table: TableId, page: u32, trace: &mut ReadTrace) -> Result<Page> {
        if let Some(page) = self.page_ahead(table, page, trace)? {
            return Ok(page);
        }
        if let Some(cached) = self.shared.pages.get(&(table, page)) {
            self.shared.note(0);
            return Ok(cached);
        }
        let mut fresh = self.shared.memory.pooled();
        self.read_exact(table, u64::from(page) * PAGE_BYTES as u64, fresh.bytes_mut())?;
        trace.device_reads += 1;
        self.arrived(table, page, fresh)
    }

    /// A page that came from the device, once it is verified.
    fn arrived(&self, table: TableId, page: u32, bytes: Pooled) -> Result<Page> {
        self.count_read(PAGE_BYTES);
        self.shared.note(1);
        self.verify(table, page, &bytes)?;
        let shared = Arc::new(bytes);
        self.shared.pages.insert((table, page), Arc::clone(&shared));
        Ok(shared)
    }

    /// Two neighbouring pages of `table`, from the cache or verified from the device in one read.
    pub fn two_pages(&self, table: TableId, first: u32, trace: &mut ReadTrace) -> Result<[Page; 2]> {
        let second = first.saturating_add(1);
        if self.ahead.is_some() {
            // Both are asked for before either is waited for.
            let pages = [self.page(table, first, trace), self.page(table, second, trace)];
            let [first, second] = pages;
            return Ok([first?, second?]);
        }
        let cached = [first, second].map(|page| self.shared.pages.get(&(table, page)));
        if let [Some(first), Some(second)] = cached {
            return Ok([first, second]);
        }
        let mut bytes = [[0u8; PAGE_BYTES]; 2];
        self.pages_for_lookup(table, first, bytes.as_flattened_mut(), trace)?;
        let [first_bytes, second_bytes] = &bytes;
        Ok([(first, first_bytes), (second, second_bytes)].map(|(number, bytes)| {
            let mut page = self.shared.memory.pooled();
            page.bytes_mut().copy_from_slice(bytes);
            let page = Arc::new(page);
            self.shared.pages.insert((table, number), Arc::clone(&page));
            page
        }))
    }

    /// `buf.len() / PAGE_BYTES` pages from `first` on in one read, verified, around the cache.
    pub fn pages_for_lookup(
        &self,
        table: TableId,
        first: u32,
        buf: &mut [u8],
        trace: &mut ReadTrace,
    ) -> Result<()> {
        self.read_exact(table, u64::from(first) * PAGE_BYTES as u64, buf)?;
        self.count_read(buf.len());
        trace.device_reads += 1;
        self.verify_all(table, first, buf)
    }

    /// As [`Reader::pages_for_lookup`], for background work.
    pub fn pages_for_compaction(&self, table: TableId, first: u32, buf: &mut [u8]) -> Result<()> {
        self.read_exact(table, u64::from(first) * PAGE_BYTES as u64, buf)?;
        self.io().compaction_bytes_read.add(buf.len() as u64);
        self.verify_all(table, first, buf)
    }

    /// Bytes of a table outside its pages; the caller verifies them.
    pub fn section(&self, table: TableId, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact(table, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// `length` bytes of a segment of the log from `offset` on; the caller checks them.
    pub fn of_log(
        &self,
        segment: &Arc<LogSegment>,
        offset: u64,
        length: usize,
        trace: &mut ReadTrace,
    ) -> Result<Vec<u8>> {
        if let Some(bytes) = self.log_ahead(segment, offset, length, trace)? {
            return Ok(bytes);
        }
        let mut bytes = vec![0; length];
        let read = segment.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| log_error(&error, segment, offset, length))?;
        self.count_read(length);
        trace.device_reads += 1;
        Ok(bytes)
    }

    /// As [`Reader::of_log`], for background work, into `buf`.
    pub fn of_log_for_compaction(&self, segment: &LogSegment, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read = segment.file.read_exact_at(buf, offset);
        read.map_err(|error| log_error(&error, segment, offset, buf.len()))?;
        self.io().compaction_bytes_read.add(buf.len() as u64);
        Ok(())
    }

    fn read_exact(&self, table: TableId, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read = self.file(table)?.read_exact_at(buf, offset);
        read.map_err(|error| self.read_error(&error, table, offset, buf.len()))
    }

    fn read_error(&self, error: &std::io::Error, table: TableId, offset: u64, length: usize) -> Error {
        read_error(error, &self.path(table), offset, length)
    }

    fn verify_all(&self, table: TableId, first: u32, buf: &[u8]) -> Result<()> {
        let (pages, _) = buf.as_chunks::<PAGE_BYTES>();
        for (number, page) in (first..).zip(pages) {
            self.verify(table, number, page)?;
        }
        Ok(())
    }

    fn verify(&self, table: TableId, page: u32, bytes: &[u8; PAGE_BYTES]) -> Result<()> {
        let (stored, found) = page_checksums(table, page, bytes);
        if stored == found {
            return Ok(());
        }
        Err(Error::corruption(
            &self.path(table),
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
