//! A page walk: how the cursors of all formats get the pages of their table.
//!
//! Short scans go page by page through the cache, with what was fetched for them; long scans and background
//! work read many pages at a time around it. A cursor either turns to one page after the other, and the walk
//! reads ahead, or names the stretch of pages that it wants at once, as formats do whose entries do not stand
//! in order.

use super::envelope::TableMeta;
use super::file::TableFile;
use super::page::{PAGE_HEADER_BYTES, PAYLOAD_BYTES};
use super::parts::page_malformed;
use crate::cache::{Arrived, PAGE_BYTES, Page, Pause, Probe, Reader};
use crate::entry::Span;
use crate::error::{Error, Result};
use siltstone_design::Encoder;
use std::sync::Arc;

/// Pages read at once by background work.
const COMPACTION_PAGES: usize = 64;
/// Pages read at once by long scans: to begin with, and then twice as many each time, up to the latter. A
/// scan holds so many of each run that it walks, and many scans are given up after a few items.
const FIRST_SCAN_PAGES: usize = 2;
const LONG_SCAN_PAGES: usize = 16;

/// Where the current page is.
enum Current {
    Nowhere,
    Cached(Page),
    /// In the stretch, from this byte on.
    InStretch(usize),
}

/// How a cursor reads.
#[derive(Clone, Debug)]
pub(crate) enum ReadMode {
    /// Page by page, through the page cache, where a page was not fetched before.
    Short(Arc<Arrived>),
    /// Many pages at a time, around the cache; a few where the scan begins.
    Long { begins: bool },
    /// The same for background work, which is counted by itself.
    Compaction,
}

/// Which values a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    All,
    /// Those that stand beside their keys; others are shown as if they were empty.
    AtHand,
}

/// How a cursor reads, and what.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub mode: ReadMode,
    pub values: Values,
}

impl From<ReadMode> for Reading {
    fn from(mode: ReadMode) -> Self {
        Self { mode, values: Values::All }
    }
}

/// A table that has a description.
pub(crate) trait Described {
    fn meta(&self) -> &TableMeta;
}

/// What a walk begins with.
pub(crate) struct WalkStart {
    /// Stays while the walk lasts.
    pub file: Arc<TableFile>,
    pub reader: Arc<Reader>,
    pub encoder: Encoder,
    pub span: Span,
    pub reading: Reading,
}

/// The pages of one table on the way through it.
pub(crate) struct PageWalk<T> {
    pub table: Arc<T>,
    _file: Arc<TableFile>,
    pub reader: Arc<Reader>,
    pub encoder: Encoder,
    pub span: Span,
    pub values: Values,
    mode: ReadMode,
    /// Pages that were read together, and the first one's number.
    stretch: Vec<u8>,
    first: u32,
    current: Current,
    /// Pages that are read next.
    at_once: usize,
}

impl<T: Described> PageWalk<T> {
    pub fn new(table: &Arc<T>, start: WalkStart) -> Self {
        let WalkStart { file, reader, encoder, span, reading: Reading { mode, values } } = start;
        let (stretch, first, current) = (Vec::new(), 0, Current::Nowhere);
        let (table, _file) = (Arc::clone(table), file);
        let at_once = match mode {
            ReadMode::Short(_) => 1,
            ReadMode::Long { begins: true } => FIRST_SCAN_PAGES,
            ReadMode::Long { begins: false } => LONG_SCAN_PAGES,
            ReadMode::Compaction => COMPACTION_PAGES.min(reader.memory().chunk_bytes() / PAGE_BYTES).max(1),
        };
        Self { table, _file, reader, encoder, span, values, mode, stretch, first, current, at_once }
    }

    fn meta(&self) -> &TableMeta {
        self.table.meta()
    }

    /// Whether the table has no entries within the span.
    pub fn is_outside(&self) -> bool {
        let meta = self.meta();
        meta.entries == 0 || !self.span.overlaps(meta.first.0, meta.last.0)
    }

    /// Runs `part` of a lookup, and waits for what it needs.
    pub fn complete<R>(&self, part: impl FnMut(&mut Probe<'_>) -> Result<R, Pause>) -> Result<R> {
        self.probe().complete(part)
    }

    fn probe(&self) -> Probe<'_> {
        match &self.mode {
            ReadMode::Short(arrived) => Probe::asking(&self.reader, &self.encoder, arrived).and_wait(),
            ReadMode::Long { .. } | ReadMode::Compaction => Probe::waiting(&self.reader, &self.encoder),
        }
    }

    /// Makes page `number` the current one.
    pub fn turn_to(&mut self, number: u32) -> Result<()> {
        if let ReadMode::Short(_) = self.mode {
            self.current = Current::Cached(self.complete(|probe| probe.page(self.meta().id, number))?);
            return Ok(());
        }
        let held = self.first..self.first + (self.stretch.len() / PAGE_BYTES) as u32;
        if !held.contains(&number) {
            let pages = self.meta().pages;
            self.read(number, self.at_once.min(pages.saturating_sub(number) as usize))?;
            if let ReadMode::Long { .. } = self.mode {
                self.at_once = LONG_SCAN_PAGES.min(2 * self.at_once);
            }
        }
        self.current = Current::InStretch((number - self.first) as usize * PAGE_BYTES);
        Ok(())
    }

    /// The current page; empty before the first.
    #[inline]
    pub fn page(&self) -> &[u8] {
        match &self.current {
            Current::Cached(page) => &page[..],
            Current::InStretch(at) => self.stretch.get(*at..*at + PAGE_BYTES).unwrap_or(&[]),
            Current::Nowhere => &[],
        }
    }

    /// Reads `count` pages from `first` on at once.
    pub fn read(&mut self, first: u32, count: usize) -> Result<()> {
        let id = self.meta().id;
        if u64::from(first) + count as u64 > u64::from(self.meta().pages) {
            return Err(self.malformed(first));
        }
        self.stretch.resize(count * PAGE_BYTES, 0);
        self.first = first;
        match self.mode {
            ReadMode::Compaction => self.reader.pages_for_compaction(id, first, &mut self.stretch),
            _ => self.reader.pages_for_lookup(id, first, &mut self.stretch, &mut Default::default()),
        }
    }

    /// The pages that were read at once, with their numbers.
    pub fn pages(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (self.first..).zip(self.stretch.chunks_exact(PAGE_BYTES))
    }

    /// Page `at` of those that were read at once.
    #[inline]
    pub fn page_at(&self, at: u32) -> &[u8] {
        let start = at as usize * PAGE_BYTES;
        self.stretch.get(start..start + PAGE_BYTES).unwrap_or(&[])
    }

    /// Puts the payloads of the pages that were read at once one after the other into `out`.
    pub fn payload(&self, out: &mut Vec<u8>) {
        out.clear();
        out.reserve(self.stretch.len() / PAGE_BYTES * PAYLOAD_BYTES);
        for page in self.stretch.chunks_exact(PAGE_BYTES) {
            out.extend_from_slice(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
    }

    /// What to say of page `number` whose entries make no sense.
    pub fn malformed(&self, number: u32) -> Error {
        page_malformed(self.meta(), number, &self.reader)
    }
}
