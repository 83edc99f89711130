//! The one door to bytes of tables on disk: page cache, open-file cache, checksums, counters.
//!
//! Gets and scans read single pages through the cache; compaction reads long stretches around it. Every page that
//! comes from the device is verified before anyone sees it.

use crate::error::{Error, Result};
use crate::io::{Access, Disk, File};
use crate::memory::MemoryBudget;
use crate::stats::{IoCounters, ReadTrace, StoreCounters};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// A verified page.
pub(crate) type Page = Arc<[u8; PAGE_BYTES]>;

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
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: Cache<TableId, Arc<dyn File>>,
    pages: Cache<(u64, u32), Page, PageWeight>,
    memory: Arc<MemoryBudget>,
    cache_capacity: AtomicU64,
    counters: Arc<StoreCounters>,
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
        Self {
            disk,
            dir,
            files: Cache::new(max_open_files.max(8)),
            pages,
            memory,
            cache_capacity: AtomicU64::new(capacity),
            counters,
        }
    }

    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    pub fn path(&self, table: TableId) -> PathBuf {
        table_path(&self.dir, table)
    }

    fn io(&self) -> &IoCounters {
        &self.counters.io
    }

    /// Bytes of cached pages.
    pub fn cached_bytes(&self) -> u64 {
        self.pages.weight()
    }

    /// Gives the cache what the budget's other holders leave; called when they change.
    pub fn fit_cache(&self) {
        let capacity = self.memory.free_bytes().max(LEAST_CACHE_BYTES);
        let before = self.cache_capacity.load(Ordering::Relaxed);
        // Small changes are not worth the cache's rebalancing.
        if capacity.abs_diff(before) > before / 32 {
            self.cache_capacity.store(capacity, Ordering::Relaxed);
            self.pages.set_capacity(capacity);
        }
    }

    /// The open file of `table`.
    pub fn file(&self, table: TableId) -> Result<Arc<dyn File>> {
        if let Some(file) = self.files.get(&table) {
            return Ok(file);
        }
        let path = self.path(table);
        let file = self.disk.open(&path, Access::Read).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                Error::corruption(path.display(), 0, "a table file", "no such file")
            }
            _ => Error::io(&e, "opening", &path),
        })?;
        self.files.insert(table, Arc::clone(&file));
        Ok(file)
    }

    /// Forgets a table whose file goes away.
    pub fn forget(&self, table: TableId, pages: u32) {
        self.files.remove(&table);
        for page in 0..pages {
            self.pages.remove(&(table, page));
        }
    }

    /// One page of `table`, from the cache or verified from the device.
    #[inline]
    pub fn page(&self, table: TableId, page: u32, trace: &mut ReadTrace) -> Result<Page> {
        if let Some(cached) = self.pages.get(&(table, page)) {
            return Ok(cached);
        }
        let mut bytes = [0u8; PAGE_BYTES];
        self.read_exact(table, u64::from(page) * PAGE_BYTES as u64, &mut bytes)?;
        self.io().reads.add(1);
        self.io().bytes_read.add(PAGE_BYTES as u64);
        trace.device_reads += 1;
        self.verify(table, page, &bytes)?;
        let shared = Arc::new(bytes);
        self.pages.insert((table, page), Arc::clone(&shared));
        Ok(shared)
    }

    /// Lets the device fetch `pages` of `table` while others are asked for, unless the first of them is cached.
    pub fn prefetch(&self, table: TableId, pages: std::ops::Range<u32>) -> Result<()> {
        if !pages.is_empty() && self.pages.peek(&(table, pages.start)).is_none() {
            let (first, count) = (u64::from(pages.start), u64::from(pages.end - pages.start));
            self.file(table)?.will_need(first * PAGE_BYTES as u64, count * PAGE_BYTES as u64);
        }
        Ok(())
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
        self.io().reads.add(1);
        self.io().bytes_read.add(buf.len() as u64);
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

    fn read_exact(&self, table: TableId, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file(table)?.read_exact_at(buf, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::corruption(
                self.path(table).display(),
                offset,
                format_args!("{} bytes", buf.len()),
                "the end of the file",
            ),
            _ => Error::io(&e, "reading", &self.path(table)),
        })
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
            self.path(table).display(),
            u64::from(page) * PAGE_BYTES as u64,
            format_args!("a page with checksum {stored:08x}"),
            format_args!("{found:08x}"),
        ))
    }
}
