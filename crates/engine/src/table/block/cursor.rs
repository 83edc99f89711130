//! A walk over a block table's entries in the store's order.

use super::page::{RawEntry, decode, page_header};
use super::read::{BlockTable, overflow, overflowed_key};
use crate::entry::{Cursor, EntryRef, Item, LARGE_VALUE_BYTES};
use crate::error::Result;
use crate::table::envelope::PAGE_HEADER_BYTES;
use crate::table::walk::{PageWalk, Values};
use siltstone_design::{Digest, EncodedKey};
use std::sync::Arc;

/// A cursor over one table.
pub(crate) struct BlockCursor {
    walk: PageWalk<BlockTable>,
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
    /// Whether that of the current entry is still to be read.
    value_waits: bool,
    /// The current entry's value where it was compressed.
    decoded: Option<Vec<u8>>,
}

impl BlockCursor {
    /// A cursor on the first entry of the walk's span.
    pub fn new(walk: PageWalk<BlockTable>) -> Result<Self> {
        let block = &Arc::clone(&walk.table);
        let mut cursor = Self {
            walk,
            next_page: 0,
            data_pages_left: block.meta.data_pages,
            at: 0,
            used: 0,
            entries_left: 0,
            entry: None,
            key: Vec::new(),
            place: Default::default(),
            big_value: Vec::new(),
            value_waits: false,
            decoded: None,
        };
        let first = cursor.walk.span.first;
        if !block.coded(&cursor.walk.reader)?.has_plain_values() {
            cursor.decoded = Some(Vec::new());
        }
        if block.meta.data_pages == 0 || cursor.walk.is_outside() {
            cursor.data_pages_left = 0;
            return Ok(cursor);
        }
        if first > block.meta.first.0 {
            let page = cursor.walk.complete(|probe| block.seek_page((first, &[]), probe))?;
            cursor.next_page = block.file_page(page, &cursor.walk.reader)?;
            cursor.data_pages_left -= page;
        }
        loop {
            cursor.advance()?;
            if cursor.entry.is_none() || cursor.place.0 >= first {
                return Ok(cursor);
            }
        }
    }

    /// Steps to the next page with entries; false at the end.
    fn next_data_page(&mut self) -> Result<bool> {
        while self.data_pages_left > 0 && self.next_page < self.walk.table.meta.pages {
            let number = self.next_page;
            self.next_page += 1;
            self.walk.turn_to(number)?;
            // Overflow pages stand between data pages; their header says so.
            let Some((used, entries)) = page_header(self.walk.page()) else { continue };
            self.data_pages_left -= 1;
            (self.at, self.used, self.entries_left) = (PAGE_HEADER_BYTES, used, entries);
            self.key.clear();
            return Ok(true);
        }
        Ok(false)
    }

    fn malformed(&self) -> crate::error::Error {
        self.walk.malformed(self.next_page.saturating_sub(1))
    }

    /// Takes over the entry at `self.at`.
    fn read_entry(&mut self) -> Result<()> {
        let entry = decode(self.walk.page(), self.at, self.used).ok_or_else(|| self.malformed())?;
        self.at = entry.end;
        self.entries_left -= 1;
        let table = Arc::clone(&self.walk.table);
        let coded = table.coded(&self.walk.reader)?;
        let has_big_key = entry.overflow.is_some_and(|overflow| overflow.key_len.is_some());
        self.value_waits = entry.overflow.is_some() && self.walk.values == Values::All;
        if self.value_waits && entry.value_len < LARGE_VALUE_BYTES {
            let (key, value) = self.walk.complete(|probe| overflow(coded, &entry, probe))?;
            (self.value_waits, self.big_value) = (false, value);
            if has_big_key {
                self.key = key;
            }
        } else if has_big_key {
            self.key = self.walk.complete(|probe| overflowed_key(&table.meta, &entry, probe))?;
        }
        if has_big_key {
            self.encode(0)?;
            self.entry = Some(entry);
            return Ok(());
        }
        if entry.shared > self.key.len() {
            return Err(self.malformed());
        }
        let mut key = std::mem::take(&mut self.key);
        key.truncate(entry.shared);
        coded.key_onto(self.walk.page(), &entry, &mut key).ok_or_else(|| self.malformed())?;
        self.key = key;
        if let Some(decoded) = self.decoded.as_mut().filter(|_| entry.overflow.is_none()) {
            let stored = self.walk.page().get(entry.value_at..entry.value_at + entry.value_len);
            let value = stored.and_then(|stored| coded.value_in(stored, decoded));
            if value.is_none() {
                return Err(self.malformed());
            }
        }
        self.encode(entry.shared)?;
        self.entry = Some(entry);
        Ok(())
    }

    fn encode(&mut self, shared: usize) -> Result<()> {
        let encoded = self.walk.encoder.encode_after(&self.key, shared, (self.place.0, self.place.2))?;
        self.place = (encoded.digest, encoded.fingerprint, encoded.prefix_len);
        Ok(())
    }
}

impl Cursor for BlockCursor {
    fn peek(&self) -> Option<EntryRef<'_>> {
        let entry = self.entry.as_ref()?;
        let (digest, fingerprint, prefix_len) = self.place;
        let key = EncodedKey { digest, fingerprint, key: &self.key, prefix_len };
        let item = if entry.is_tombstone() {
            Item::Deleted
        } else {
            let value = if entry.overflow.is_some() {
                &self.big_value
            } else if let Some(decoded) = &self.decoded {
                decoded
            } else {
                self.walk.page().get(entry.value_at..entry.value_at + entry.value_len)?
            };
            entry.item(value)
        };
        Some(EntryRef { key, item, older_in: entry.older_in })
    }

    fn load_value(&mut self) -> Result<()> {
        if let Some(entry) = self.entry.filter(|_| self.value_waits) {
            let table = Arc::clone(&self.walk.table);
            let coded = table.coded(&self.walk.reader)?;
            self.big_value = self.walk.complete(|probe| overflow(coded, &entry, probe))?.1;
            self.value_waits = false;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        (self.big_value, self.value_waits) = (Vec::new(), false);
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
        if self.place.0 > self.walk.span.last {
            self.entry = None;
            (self.entries_left, self.data_pages_left) = (0, 0);
            return Ok(None);
        }
        Ok(Some(self.place.0))
    }
}
