//! A walk over a table of slots in the store's order.
//!
//! A chunk is read at a time, its entries' places computed, and, where slots lie in another order, sorted:
//! chunks follow one another in the store's order in every format. So a merge reads hash stores sequentially
//! and in bounded memory.

use super::build::SlotPages;
use super::read::{Chunk, SlotFile};
use super::record::{Parts, Slot};
use crate::cache::Reader;
use crate::entry::{Cursor, EntryRef, LARGE_VALUE_BYTES};
use crate::error::{Error, Result};
use crate::table::walk::{Described, PageWalk};
use siltstone_design::{Digest, EncodedKey, Encoder};
use std::borrow::Cow;
use std::sync::Arc;

/// A table of slots whose chunks are in the store's order.
pub(crate) trait Chunked: Described + Send + Sync {
    fn file(&self) -> &SlotFile;
    /// Chunk number `number`; `None` past the last.
    fn chunk(&self, number: usize, reader: &Reader) -> Result<Option<Chunk>>;
    /// A chunk in which, or behind which, the first entry at or after `digest` is.
    fn seek(&self, digest: Digest, encoder: &Encoder, reader: &Reader) -> Result<usize>;
}

/// A cursor over one table.
pub(crate) struct SlotCursor<T> {
    walk: PageWalk<T>,
    next_chunk: usize,
    chunk: Chunk,
    payload: Vec<u8>,
    /// Digest, fingerprint, and offset in the payload of every entry of the chunk, in order; the next one's
    /// number.
    entries: Vec<(Digest, u64, u32)>,
    next: usize,
    current: Option<(Digest, u64, Parts)>,
    prefix_len: usize,
    /// Where the current record starts in the payload, or all of it if it is spilled.
    record_at: usize,
    spilled: Option<Vec<u8>>,
    /// Whether that is still to be read, but for its start with the key.
    value_waits: bool,
    /// The current entry's value where it was compressed.
    decoded: Option<Vec<u8>>,
}

impl<T: Chunked> SlotCursor<T> {
    /// A cursor on the first entry of the walk's span.
    pub fn new(walk: PageWalk<T>) -> Result<Self> {
        let store = Arc::clone(&walk.table);
        let mut cursor = Self {
            walk,
            next_chunk: 0,
            chunk: Chunk::default(),
            payload: Vec::new(),
            entries: Vec::new(),
            next: 0,
            current: None,
            prefix_len: 0,
            record_at: 0,
            spilled: None,
            value_waits: false,
            decoded: None,
        };
        if cursor.walk.is_outside() {
            cursor.next_chunk = usize::MAX;
            return Ok(cursor);
        }
        let PageWalk { reader, encoder, span, .. } = &cursor.walk;
        let first = span.first;
        if !store.file().coded(reader)?.has_plain_values() {
            cursor.decoded = Some(Vec::new());
        }
        if first > store.file().meta.first.0 {
            cursor.next_chunk = store.seek(first, encoder, reader)?;
        }
        loop {
            cursor.advance()?;
            if cursor.current.is_none_or(|(digest, ..)| digest >= first) {
                return Ok(cursor);
            }
        }
    }

    /// Reads the next chunk; false at the end.
    fn load_chunk(&mut self) -> Result<bool> {
        let Some(chunk) = self.walk.table.chunk(self.next_chunk, &self.walk.reader)? else {
            return Ok(false);
        };
        self.next_chunk += 1;
        let table = Arc::clone(&self.walk.table);
        let file = table.file();
        self.chunk = chunk;
        let first = file.file_page(chunk.data_page, &self.walk.reader)?;
        self.walk.read(first, file.layout.pages_for(chunk.slots))?;
        self.walk.payload(&mut self.payload);
        self.entries.clear();
        self.next = 0;
        for slot in 0..chunk.slots {
            let at = SlotPages::offset(&file.layout, slot);
            let bytes = self.payload.get(at..at + file.layout.bytes());
            let bytes = bytes.ok_or_else(|| self.malformed())?;
            // Of a spilled record the start mostly holds the key.
            let parts = match Slot::decode(bytes) {
                Some(Slot::Empty) => continue,
                Some(Slot::Spilled { head, .. }) => {
                    Parts::decode(head, file.layout.key_bytes).map(|parts| (head, parts))
                }
                Some(Slot::Whole(record)) => {
                    Parts::decode(record, file.layout.key_bytes).map(|parts| (record, parts))
                }
                None => return Err(self.malformed()),
            };
            let place = match parts.and_then(|(record, parts)| parts.key(record)) {
                Some(key) => self.walk.encoder.encode(key).map(|key| (key.digest, key.fingerprint))?,
                None => {
                    let record = self.walk.complete(|probe| file.record(chunk, bytes, probe))?;
                    let key = record.as_ref().and_then(|(record, parts)| parts.key(record));
                    let key = key.ok_or_else(|| self.malformed())?;
                    self.walk.encoder.encode(key).map(|key| (key.digest, key.fingerprint))?
                }
            };
            self.entries.push((place.0, place.1, at as u32));
        }
        if !self.entries.is_sorted_by_key(|(digest, ..)| *digest) {
            self.entries.sort_by_key(|(digest, ..)| *digest);
        }
        self.order_equal_digests()
    }

    /// Puts entries of equal digests in the order of their keys.
    fn order_equal_digests(&mut self) -> Result<bool> {
        let mut entries = std::mem::take(&mut self.entries);
        for equal in entries.chunk_by_mut(|a, b| a.0 == b.0).filter(|equal| equal.len() > 1) {
            let mut keyed = Vec::with_capacity(equal.len());
            for entry in equal.iter() {
                keyed.push((self.key_at(entry.2 as usize)?, *entry));
            }
            keyed.sort();
            equal.iter_mut().zip(keyed).for_each(|(entry, (_, sorted))| *entry = sorted);
        }
        self.entries = entries;
        Ok(true)
    }

    /// The key of the record at an offset of the payload.
    fn key_at(&self, at: usize) -> Result<Vec<u8>> {
        let file = self.walk.table.file();
        let bytes = self.payload.get(at..at + file.layout.bytes()).unwrap_or(&[]);
        let record = self.walk.complete(|probe| file.record(self.chunk, bytes, probe))?;
        let key = record.as_ref().and_then(|(record, parts)| parts.key(record));
        key.map(<[u8]>::to_vec).ok_or_else(|| self.malformed())
    }

    fn malformed(&self) -> Error {
        self.walk.table.file().malformed(self.chunk, &self.walk.reader)
    }

    fn record(&self) -> &[u8] {
        match &self.spilled {
            Some(record) => record,
            None if self.value_waits => self.large_head().map_or(&[], |(head, _)| head),
            None => self.payload.get(self.record_at..).unwrap_or(&[]),
        }
    }
}

impl<T: Chunked> Cursor for SlotCursor<T> {
    fn peek(&self) -> Option<EntryRef<'_>> {
        let (digest, fingerprint, parts) = self.current?;
        let record = self.record();
        let key = EncodedKey { digest, fingerprint, key: parts.key(record)?, prefix_len: self.prefix_len };
        let item = match &self.decoded {
            _ if self.value_waits => parts.item_with(&[]),
            Some(value) => parts.item_with(value),
            None => parts.item(record)?,
        };
        Some(EntryRef { key, item, older_in: 0 })
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        (self.current, self.spilled, self.value_waits) = (None, None, false);
        while self.next == self.entries.len() {
            if !self.load_chunk()? {
                self.next_chunk = usize::MAX;
                self.entries.clear();
                self.next = 0;
                return Ok(None);
            }
        }
        let Some(&(digest, fingerprint, at)) = self.entries.get(self.next) else { return Ok(None) };
        self.next += 1;
        if digest > self.walk.span.last {
            self.entries.clear();
            (self.next, self.next_chunk) = (0, usize::MAX);
            return Ok(None);
        }
        self.record_at = at as usize;
        if let Some((head, parts)) = self.large_head() {
            self.prefix_len = self.walk.encoder.prefix_len(parts.key(head).unwrap_or(&[]))?;
            (self.current, self.value_waits) = (Some((digest, fingerprint, parts)), true);
        } else {
            self.read_record(digest, fingerprint)?;
        }
        Ok(Some(digest))
    }

    fn load_value(&mut self) -> Result<()> {
        match self.current.filter(|_| self.value_waits) {
            Some((digest, fingerprint, _)) => self.read_record(digest, fingerprint),
            None => Ok(()),
        }
    }
}

impl<T: Chunked> SlotCursor<T> {
    /// The start of a record whose key it shows, and whose value is large.
    fn large_head(&self) -> Option<(&[u8], Parts)> {
        let layout = &self.walk.table.file().layout;
        let slot = self.payload.get(self.record_at..self.record_at + layout.bytes())?;
        let Slot::Spilled { head, .. } = Slot::decode(slot)? else { return None };
        let parts = Parts::decode(head, layout.key_bytes)?;
        let is_large = parts.end - parts.value_at >= LARGE_VALUE_BYTES;
        (is_large && parts.key(head).is_some()).then_some((head, parts))
    }

    /// Reads the current record to its end.
    fn read_record(&mut self, digest: Digest, fingerprint: u64) -> Result<()> {
        let table = Arc::clone(&self.walk.table);
        let file = table.file();
        let bytes = self.payload.get(self.record_at..self.record_at + file.layout.bytes()).unwrap_or(&[]);
        let record = self.walk.complete(|probe| file.record(self.chunk, bytes, probe))?;
        let Some((record, parts)) = record else { return Err(self.malformed()) };
        self.prefix_len = self.walk.encoder.prefix_len(parts.key(&record).unwrap_or(&[]))?;
        if let Some(decoded) = &mut self.decoded {
            let stored = parts.item(&record).map(|item| item.bytes());
            let value =
                stored.and_then(|stored| file.coded(&self.walk.reader).ok()?.value_in(stored, decoded));
            if value.is_none() {
                return Err(self.malformed());
            }
        }
        if let Cow::Owned(record) = record {
            self.spilled = Some(record);
        }
        (self.current, self.value_waits) = (Some((digest, fingerprint, parts)), false);
        Ok(())
    }
}
