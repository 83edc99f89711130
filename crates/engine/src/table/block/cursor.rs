//! A walk over a block table's entries in the store's order.
//!
//! Gets and short scans walk through the page cache; flushes, compactions and long scans read many pages at a time
//! around it.

use super::page::{Overflow, RawEntry, decode, page_header};
use super::read::BlockTable;
use crate::cache::{PAGE_BYTES, Page, Reader};
use crate::entry::{Cursor, EntryRef, Item, Span};
use crate::error::Result;
use crate::stats::ReadTrace;
use crate::table::envelope::PAGE_HEADER_BYTES;
use crate::table::{Table, Walk};
use siltstone_design::{Digest, EncodedKey, Encoder};
use std::sync::Arc;

/// Pages read at once by background work.
const COMPACTION_PAGES: usize = 64;
/// Pages read at once by long scans.
const LONG_SCAN_PAGES: usize = 16;

/// The bytes of the page the cursor stands in.
enum Bytes {
    Cached(Page),
    /// A page's place in the chunk.
    Chunk(usize),
}

/// A cursor over one table.
pub(crate) struct BlockCursor {
    /// Keeps the file.
    _table: Arc<Table>,
    block: Arc<BlockTable>,
    reader: Arc<Reader>,
    encoder: Encoder,
    walk: Walk,
    span: Span,
    /// File pages read together, the first one's number, and how many there are.
    chunk: Vec<u8>,
    chunk_first: u32,
    chunk_pages: usize,
    bytes: Option<Bytes>,
    /// File page to read next, and how many data pages are left.
    next_page: u32,
    data_pages_left: u32,
    /// Place in the page.
    at: usize,
    used: usize,
    entries_left: u16,
    /// The current entry.
    entry: Option<RawEntry>,
    key: Vec<u8>,
    place: (Digest, u64, usize),
    big_value: Vec<u8>,
}

impl BlockCursor {
    /// A cursor on the first entry of `span`.
    pub fn new(
        (table, block): (&Arc<Table>, &Arc<BlockTable>),
        reader: &Arc<Reader>,
        encoder: Encoder,
        span: Span,
        walk: Walk,
    ) -> Result<Self> {
        let mut cursor = Self {
            _table: Arc::clone(table),
            block: Arc::clone(block),
            reader: Arc::clone(reader),
            encoder,
            walk,
            span,
            chunk: Vec::new(),
            chunk_first: 0,
            chunk_pages: 0,
            bytes: None,
            next_page: 0,
            data_pages_left: block.meta.data_pages,
            at: 0,
            used: 0,
            entries_left: 0,
            entry: None,
            key: Vec::new(),
            place: Default::default(),
            big_value: Vec::new(),
        };
        let first = cursor.span.first;
        if block.meta.data_pages == 0 || !cursor.span.overlaps(block.meta.first.0, block.meta.last.0) {
            cursor.data_pages_left = 0;
            return Ok(cursor);
        }
        if first > block.meta.first.0 {
            let mut trace = ReadTrace::default();
            let page = block.seek_page((first, &[]), &encoder, reader, &mut trace)?;
            cursor.next_page = block.file_page(page, reader)?;
            cursor.data_pages_left -= page;
        }
        loop {
            cursor.advance()?;
            if cursor.entry.is_none() || cursor.place.0 >= first {
                return Ok(cursor);
            }
        }
    }

    fn page(&self) -> &[u8] {
        match &self.bytes {
            Some(Bytes::Cached(page)) => &page[..],
            Some(Bytes::Chunk(at)) => self.chunk.get(*at..*at + PAGE_BYTES).unwrap_or(&[]),
            None => &[],
        }
    }

    /// Steps to the next page with entries; false at the end.
    fn next_data_page(&mut self) -> Result<bool> {
        let block = Arc::clone(&self.block);
        let meta = &block.meta;
        while self.data_pages_left > 0 && self.next_page < meta.pages {
            let number = self.next_page;
            self.next_page += 1;
            self.read_page(number, meta.pages)?;
            // Overflow pages stand between data pages; their header says so.
            let Some((used, entries)) = page_header(self.page()) else { continue };
            self.data_pages_left -= 1;
            (self.at, self.used, self.entries_left) = (PAGE_HEADER_BYTES, used, entries);
            self.key.clear();
            return Ok(true);
        }
        Ok(false)
    }

    fn read_page(&mut self, number: u32, pages: u32) -> Result<()> {
        let at_once = match self.walk {
            Walk::Short => {
                let mut trace = ReadTrace::default();
                self.bytes = Some(Bytes::Cached(self.reader.page(self.block.meta.id, number, &mut trace)?));
                return Ok(());
            }
            Walk::Long => LONG_SCAN_PAGES,
            Walk::Compaction => COMPACTION_PAGES.min(self.reader.memory().chunk_bytes() / PAGE_BYTES),
        };
        let held = self.chunk_first..self.chunk_first + self.chunk_pages as u32;
        if !held.contains(&number) {
            let count = at_once.min((pages - number) as usize);
            self.chunk.resize(count * PAGE_BYTES, 0);
            let id = self.block.meta.id;
            if self.walk == Walk::Compaction {
                self.reader.pages_for_compaction(id, number, &mut self.chunk)?;
            } else {
                self.reader.pages_for_lookup(id, number, &mut self.chunk, &mut ReadTrace::default())?;
            }
            (self.chunk_first, self.chunk_pages) = (number, count);
        }
        self.bytes = Some(Bytes::Chunk((number - self.chunk_first) as usize * PAGE_BYTES));
        Ok(())
    }

    fn nonsense(&self) -> crate::error::Error {
        self.block.page_nonsense(self.next_page.saturating_sub(1), &self.reader)
    }

    /// Takes over the entry at `self.at`.
    fn read_entry(&mut self) -> Result<()> {
        let entry = decode(self.page(), self.at, self.used).ok_or_else(|| self.nonsense())?;
        self.at = entry.end;
        self.entries_left -= 1;
        if entry.overflow.is_some() {
            let (key, value) = self.block.overflow(&entry, &self.reader, &mut ReadTrace::default())?;
            self.big_value = value;
            if let Some(Overflow { key_len: Some(_), .. }) = entry.overflow {
                self.key = key;
                self.encode(0)?;
                self.entry = Some(entry);
                return Ok(());
            }
        }
        if entry.shared > self.key.len() {
            return Err(self.nonsense());
        }
        let mut key = std::mem::take(&mut self.key);
        key.truncate(entry.shared);
        key.extend_from_slice(self.page().get(entry.tail_at..entry.tail_at + entry.tail_len).unwrap_or(&[]));
        self.key = key;
        self.encode(entry.shared)?;
        self.entry = Some(entry);
        Ok(())
    }

    fn encode(&mut self, shared: usize) -> Result<()> {
        let encoded = self.encoder.encode_after(&self.key, shared, (self.place.0, self.place.2))?;
        self.place = (encoded.digest, encoded.fingerprint, encoded.prefix_len);
        Ok(())
    }
}

impl Cursor for BlockCursor {
    fn peek(&self) -> Option<EntryRef<'_>> {
        let entry = self.entry.as_ref()?;
        let (digest, fingerprint, prefix_len) = self.place;
        let key = EncodedKey { digest, fingerprint, key: &self.key, prefix_len };
        let item = if entry.deleted {
            Item::Deleted
        } else {
            let value = if entry.overflow.is_some() {
                &self.big_value
            } else {
                self.page().get(entry.value_at..entry.value_at + entry.value_len)?
            };
            Item::Put { value, expires_at_ms: entry.expires_at_ms }
        };
        Some(EntryRef { key, item, older_in: entry.older_in })
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        self.big_value = Vec::new();
        while self.entries_left == 0 {
            if !self.next_data_page()? {
                self.entry = None;
                return Ok(None);
            }
        }
        // A big key leaves nothing to share with; the builder starts afresh after it.
        if self.entry.is_some_and(|entry| entry.overflow.is_some_and(|o| o.key_len.is_some())) {
            self.key.clear();
        }
        self.read_entry()?;
        if self.place.0 > self.span.last {
            self.entry = None;
            (self.entries_left, self.data_pages_left) = (0, 0);
            return Ok(None);
        }
        Ok(Some(self.place.0))
    }
}
