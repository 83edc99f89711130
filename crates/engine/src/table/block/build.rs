//! Writes a block table in one pass.
//!
//! Pages leave as they fill; the index, the filter and the sample grow in memory and follow the pages. Memory
//! is bounded by the largest value, the write buffer and about ten bytes per key.

use super::index::{PageIndexBuilder, common_prefix};
use super::page::{NewEntry, Overflow, decode, encode};
use crate::cache::PAGE_BYTES;
use crate::codec::put_digest;
use crate::codec::sort_key;
use crate::entry::{EntryRef, ItemParts, PrefixTombstones};
use crate::error::Result;
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES};
use crate::table::writer::{NewTable, Sections, TableWriter};
use std::borrow::Cow;

/// Room for the header of an entry that stands in a page.
const MAX_HEADER_BYTES: usize = 32;
/// Largest key that is kept inside a page.
const MAX_PAGE_KEY_BYTES: usize = PAYLOAD_BYTES - 64;

/// Most of a page that is left unused so that it does not end within a cell that a group of keys fills. Keys
/// that share a cell by chance are few, and are moved whatever they take.
const MAX_GROUP_BYTES_MOVED: usize = PAGE_BYTES / 32;

/// Where the open cell of a cell index begins within the page being filled, behind other entries.
struct Border {
    /// Offset of the cell's first entry, and how many entries stand before it.
    at: usize,
    entries: u16,
    /// That entry's key.
    key: Vec<u8>,
}

/// Builds one block table.
pub(crate) struct BlockBuilder {
    pub writer: TableWriter,
    /// The page being filled: its entries, their number, and the first one's place.
    page: Vec<u8>,
    page_entries: u16,
    page_first: Vec<u8>,
    /// Whether the next entry may share with the previous; not after a big key or a page start.
    can_share: bool,
    border: Option<Border>,
    /// Whether two neighbours in the open cell have one upper digest half.
    cell_has_group: bool,
    index: PageIndexBuilder,
}

impl BlockBuilder {
    /// A builder of the table that `writer` writes.
    pub fn new(writer: TableWriter) -> Self {
        let index = PageIndexBuilder::new(writer.spec.index, writer.spec.digests_per_page);
        Self {
            writer,
            page: Vec::with_capacity(PAGE_BYTES),
            page_entries: 0,
            page_first: Vec::new(),
            can_share: false,
            border: None,
            cell_has_group: false,
            index,
        }
    }

    /// Bytes the table's pages take so far.
    pub fn bytes(&self) -> u64 {
        u64::from(self.writer.next_page()) * PAGE_BYTES as u64 + self.page.len() as u64
    }

    /// Adds the next entry; entries come in the store's order, each key once.
    /// A value may be compressed, and has `value_bytes` where it is not.
    pub fn add(&mut self, entry: &EntryRef<'_>, value_bytes: usize) -> Result<()> {
        let ItemParts { value, expires_at_ms, deleted } = entry.item.parts();
        self.place(entry, value, expires_at_ms, deleted)?;
        self.index.add_entry(entry.key.digest, entry.key.key, self.writer.last());
        self.writer.note(entry, value_bytes);
        Ok(())
    }

    /// Encodes an entry into the current page, the next one, or overflow pages.
    fn place(&mut self, entry: &EntryRef<'_>, value: &[u8], expires_at_ms: u64, deleted: bool) -> Result<()> {
        let key = entry.key.key;
        let older_in = if self.writer.spec.keeps_older_in { entry.older_in } else { 0 };
        let value_len = value.len();
        let plain = |shared: usize, tail: &[u8], page: &mut Vec<u8>| {
            let overflow = None;
            encode(
                page,
                &NewEntry { shared, tail, deleted, expires_at_ms, older_in, value_len, value, overflow },
            );
        };
        let fits_a_page = key.len() + value.len() + MAX_HEADER_BYTES <= PAYLOAD_BYTES;
        if fits_a_page {
            if self.page_entries == 0 {
                self.start_page(entry);
            }
            let shared = if self.can_share { common_prefix(key, self.writer.last().1) } else { 0 };
            let mut before = self.page.len();
            let tail = self.writer.encode_key(key.get(shared..).unwrap_or(&[]));
            plain(shared, &tail, &mut self.page);
            if self.page.len() > PAGE_BYTES {
                self.page.truncate(before);
                let moved = self.turn_page(entry, key.len() + value.len() + MAX_HEADER_BYTES)?;
                before = self.page.len();
                if moved || shared == 0 {
                    plain(shared, &tail, &mut self.page);
                } else {
                    plain(0, &self.writer.encode_key(key), &mut self.page);
                }
            }
            self.note_cell(entry, before);
            self.page_entries += 1;
            self.can_share = true;
            return Ok(());
        }
        let is_big_key = key.len() > MAX_PAGE_KEY_BYTES;
        let page = self.writer.write_overflow(if is_big_key { key } else { &[] }, value)?;
        let overflow = Some(Overflow { page, key_len: is_big_key.then_some(key.len()) });
        let mut digest = Vec::new();
        put_digest(&mut digest, entry.key.digest);
        let tail = if is_big_key { Cow::Borrowed(digest.as_slice()) } else { self.writer.encode_key(key) };
        let tail = &*tail;
        let mut encoded = Vec::new();
        let shared = 0;
        let older_in = 0;
        let header =
            NewEntry { shared, tail, deleted, expires_at_ms, older_in, value_len, value: &[], overflow };
        encode(&mut encoded, &header);
        if self.page_entries == 0 {
            self.start_page(entry);
        } else if self.page.len() + encoded.len() > PAGE_BYTES {
            self.turn_page(entry, encoded.len())?;
        }
        self.note_cell(entry, self.page.len());
        self.page.extend_from_slice(&encoded);
        self.page_entries += 1;
        self.can_share = !is_big_key;
        Ok(())
    }

    fn start_page(&mut self, entry: &EntryRef<'_>) {
        self.page.clear();
        self.page.resize(PAGE_HEADER_BYTES, 0);
        self.page_entries = 0;
        self.page_first = sort_key(entry.key.digest, entry.key.key);
    }

    /// Notes whether `entry`, which comes to stand at offset `at` of the page, begins a cell.
    fn note_cell(&mut self, entry: &EntryRef<'_>, at: usize) {
        if !self.index.begins_cell(entry.key.digest) {
            self.cell_has_group |= entry.key.digest.hi == self.writer.last().0.hi;
            return;
        }
        self.cell_has_group = false;
        if !matches!(self.index, PageIndexBuilder::Cells(_)) || self.page_entries == 0 {
            self.border = None;
            return;
        }
        let mut key = self.border.take().map(|border| border.key).unwrap_or_default();
        key.clear();
        key.extend_from_slice(entry.key.key);
        self.border = Some(Border { at, entries: self.page_entries, key });
    }

    /// Ends the page, on which `entry` found no room, and begins the next with what is to stand there before
    /// it: nothing, or the entries of its cell. True where there are any.
    fn turn_page(&mut self, entry: &EntryRef<'_>, bytes: usize) -> Result<bool> {
        let moved = if self.index.begins_cell(entry.key.digest) { None } else { self.moved(entry, bytes) };
        let Some((page, border)) = moved else {
            self.finish_page()?;
            self.start_page(entry);
            return Ok(false);
        };
        let entries = self.page_entries - border.entries;
        self.page.truncate(border.at);
        self.page_entries = border.entries;
        self.index.end_page_before_cell();
        self.emit_page()?;
        (self.page, self.page_entries) = (page, entries);
        Ok(true)
    }

    /// The next page with the entries of the open cell, and where they begin on this one; `None` if they had
    /// better stay.
    fn moved(&mut self, entry: &EntryRef<'_>, bytes: usize) -> Option<(Vec<u8>, Border)> {
        let border = self.border.take()?;
        let is_group = self.cell_has_group || entry.key.digest.hi == self.writer.last().0.hi;
        if is_group && self.page.len() - border.at > MAX_GROUP_BYTES_MOVED {
            return None;
        }
        // The first of them stands without an entry before it now, the rest as they were.
        let first = decode(&self.page, border.at, self.page.len())?;
        let is_big_key = first.overflow.is_some_and(|overflow| overflow.key_len.is_some());
        let tail = self.page.get(first.tail_at..first.tail_at + first.tail_len)?;
        let whole = if is_big_key { Cow::Borrowed(tail) } else { self.writer.encode_key(&border.key) };
        let alone = NewEntry {
            shared: 0,
            tail: &whole,
            deleted: first.deleted,
            expires_at_ms: first.expires_at_ms,
            older_in: first.older_in,
            value_len: first.value_len,
            value: self.page.get(first.value_at..first.end)?,
            overflow: first.overflow,
        };
        let mut page = Vec::with_capacity(PAGE_BYTES);
        page.resize(PAGE_HEADER_BYTES, 0);
        encode(&mut page, &alone);
        page.extend_from_slice(self.page.get(first.end..)?);
        (page.len() + bytes <= PAGE_BYTES).then_some((page, border))
    }

    fn finish_page(&mut self) -> Result<()> {
        if self.page_entries == 0 {
            return Ok(());
        }
        let (digest, key) = self.writer.last();
        let last = sort_key(digest, key);
        self.index.add_page(&self.page_first, &last, self.writer.next_page());
        self.emit_page()?;
        self.can_share = false;
        Ok(())
    }

    /// Writes the page as it is.
    #[expect(clippy::indexing_slicing, reason = "a page begins with room for its header")]
    fn emit_page(&mut self) -> Result<()> {
        let (page, entries) = (std::mem::take(&mut self.page), self.page_entries);
        self.writer.write_page(&page[PAGE_HEADER_BYTES..], entries)?;
        self.page = page;
        self.page.clear();
        self.page_entries = 0;
        self.border = None;
        Ok(())
    }

    /// Writes what follows the pages, syncs the file and says what it holds.
    pub fn finish(mut self, tombstones: PrefixTombstones) -> Result<NewTable> {
        self.finish_page()?;
        // Pages of the index stand behind all that hold entries, and need no map.
        let page_map = self.writer.page_map();
        let mut index = Vec::new();
        self.index.finish(&mut index, |part| self.writer.write_overflow(&[], part))?;
        self.writer.finish(Sections { index, filter: None, page_map, slots: None }, tombstones)
    }
}
