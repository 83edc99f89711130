//! What can still be read of a table that may be damaged: its pages, one by one, without index and filter.
//!
//! A table's properties stand in its file, so no manifest is needed; keys are stored whole, so neither is the
//! secret. Entries come in the order in which they stand, which is not always that of the store.

use super::block::page::{Overflow, RawEntry, decode, page_header};
use super::coded::{Coded, read_codec};
use super::envelope::{FOOTER_BYTES, PAGE_HEADER_BYTES, TableMeta, decode_footer};
use super::hash_store::read::HashStore;
use super::slots::build::SlotPages;
use super::slots::cursor::Chunked;
use super::slots::read::Chunk;
use super::slots::record::{Parts, Slot};
use super::sorted_store::read::SortedStore;
use crate::cache::{PAGE_BYTES, Reader};
use crate::codec::Decoder;
use crate::entry::Item;
use crate::error::{Error, Result, readable};
use crate::io::File;
use siltstone_design::Format;
use std::path::Path;

/// What was read of a table, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvaged {
    /// Entries that were read.
    pub entries: u64,
    /// Pages that can't be read.
    pub damaged_pages: u64,
    /// Entries whose page can be read, and whose overflow pages can't.
    pub without_value: u64,
}

/// Who is given what is read: a key, and what is said of it.
pub(crate) type Sink<'a> = dyn FnMut(&[u8], Item<'_>) -> Result<()> + 'a;

/// Reads a table's properties from the file itself, and for which keyspace it was written; 0 if that is not
/// said.
///
/// # Errors
/// `Corruption` where footer or properties are damaged.
pub(crate) fn read_meta(file: &dyn File, path: &Path) -> Result<(TableMeta, u64)> {
    let fail = |e: std::io::Error| Error::io(&e, "reading", path);
    let length = file.len().map_err(fail)?;
    let damaged = |at: u64, found: String| Error::corruption(path, at, "a table's footer", found);
    let at = length
        .checked_sub(FOOTER_BYTES as u64)
        .ok_or_else(|| damaged(0, format!("a file of {length} bytes")))?;
    let mut footer = [0; FOOTER_BYTES];
    file.read_exact_at(&mut footer, at).map_err(fail)?;
    let footer = decode_footer(&footer).map_err(|found| damaged(at, found))?;
    let section = footer.properties;
    if section.offset.checked_add(section.length).is_none_or(|end| end > length) {
        return Err(damaged(at, "properties outside of the file".into()));
    }
    let mut bytes = vec![0; section.length as usize];
    file.read_exact_at(&mut bytes, section.offset).map_err(fail)?;
    let meta = TableMeta::decode(&mut Decoder::new(&bytes)).filter(|meta| meta.id == footer.id);
    let is_sound = crc32c::crc32c(&bytes) == section.crc;
    meta.filter(|_| is_sound)
        .map(|meta| (meta, footer.keyspace))
        .ok_or_else(|| Error::corruption(path, section.offset, "a table's properties", "other bytes"))
}

/// Reads what can be read of the table that `meta` describes.
///
/// # Errors
/// Those of `sink`, and `Io` where the process lacks memory or open files.
pub(crate) fn salvage(meta: &TableMeta, reader: &Reader, sink: &mut Sink<'_>) -> Result<Salvaged> {
    // Without the codec nothing of the pages makes sense.
    let Some(codec) = readable(read_codec(meta, reader))? else {
        return Ok(Salvaged { damaged_pages: u64::from(meta.pages), ..Salvaged::default() });
    };
    let coded = Coded { meta, codec: codec.as_ref() };
    let mut salvage = Salvage { meta, coded, reader, found: Salvaged::default(), sink };
    match meta.format {
        Format::Block | Format::HTable => salvage.pages_of_entries()?,
        Format::Hash => salvage.chunks(&HashStore::new(meta.clone()))?,
        Format::Sorted => salvage.chunks(&SortedStore::new(meta.clone()))?,
    }
    Ok(salvage.found)
}

struct Salvage<'a, 'b> {
    meta: &'a TableMeta,
    coded: Coded<'a>,
    reader: &'a Reader,
    found: Salvaged,
    sink: &'a mut Sink<'b>,
}

impl Salvage<'_, '_> {
    /// Page `number`, if it is sound.
    fn page(&self, number: u32, page: &mut [u8; PAGE_BYTES]) -> Result<bool> {
        Ok(readable(self.reader.pages_for_compaction(self.meta.id, number, page))?.is_some())
    }

    /// The `length` bytes of overflow pages from `first` on, if they are sound.
    fn overflow(&self, first: u32, length: usize) -> Result<Option<Vec<u8>>> {
        let payload_bytes = PAGE_BYTES - PAGE_HEADER_BYTES;
        let pages = length.div_ceil(payload_bytes);
        if u64::from(first) + pages as u64 > u64::from(self.meta.pages) {
            return Ok(None);
        }
        let (mut payload, mut page) = (Vec::with_capacity(pages * payload_bytes), [0; PAGE_BYTES]);
        for number in first..first + pages as u32 {
            if !self.page(number, &mut page)? {
                return Ok(None);
            }
            payload.extend_from_slice(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
        payload.truncate(length);
        Ok(Some(payload))
    }

    /// Reads pages whose entries stand one after the other.
    fn pages_of_entries(&mut self) -> Result<()> {
        let mut page = [0; PAGE_BYTES];
        for number in 0..self.meta.pages {
            if !self.page(number, &mut page)? {
                self.found.damaged_pages += 1;
                continue;
            }
            let Some((used, entries)) = page_header(&page) else { continue };
            let (mut at, mut key) = (PAGE_HEADER_BYTES, Vec::new());
            for _ in 0..entries {
                let Some(entry) = decode(&page, at, used).filter(|entry| entry.shared <= key.len()) else {
                    self.found.damaged_pages += 1;
                    break;
                };
                at = entry.end;
                key.truncate(entry.shared);
                let is_big_key = entry.overflow.is_some_and(|overflow| overflow.key_len.is_some());
                if !is_big_key && self.coded.key_onto(&page, &entry, &mut key).is_none() {
                    self.found.damaged_pages += 1;
                    break;
                }
                self.entry(&page, &entry, &key)?;
                if is_big_key {
                    key.clear();
                }
            }
        }
        Ok(())
    }

    /// Hands on an entry of a page, whose key is `key` unless it overflows.
    fn entry(&mut self, page: &[u8], entry: &RawEntry, key: &[u8]) -> Result<()> {
        let Some(Overflow { page: first, key_len }) = entry.overflow else {
            let value = page.get(entry.value_at..entry.value_at + entry.value_len).unwrap_or(&[]);
            return self.hand_on(key, entry.item(value));
        };
        let key_len = key_len.unwrap_or(0);
        let Some(payload) = self.overflow(first, key_len.saturating_add(entry.value_len))? else {
            self.found.without_value += 1;
            return Ok(());
        };
        let (big_key, value) = payload.split_at(key_len.min(payload.len()));
        self.hand_on(if key_len > 0 { big_key } else { key }, entry.item(value))
    }

    /// Hands on an entry, whose value may be compressed.
    fn hand_on(&mut self, key: &[u8], item: Item<'_>) -> Result<()> {
        let mut decoded = Vec::new();
        match self.coded.item(item, &mut decoded) {
            Some(item) => {
                self.found.entries += 1;
                (self.sink)(key, item)
            }
            None => {
                self.found.without_value += 1;
                Ok(())
            }
        }
    }

    /// Reads chunks of slots, as far as the index says where they are.
    fn chunks<T: Chunked>(&mut self, table: &T) -> Result<()> {
        let mut number = 0;
        loop {
            match readable(table.chunk(number, self.reader))? {
                Some(Some(chunk)) => self.chunk(table, chunk)?,
                Some(None) => return Ok(()),
                None => {
                    self.found.damaged_pages += u64::from(self.meta.data_pages);
                    return Ok(());
                }
            }
            number += 1;
        }
    }

    /// Reads the slots of a chunk that lie in sound pages.
    fn chunk<T: Chunked>(&mut self, table: &T, chunk: Chunk) -> Result<()> {
        let file = table.file();
        let Some(first) = readable(file.file_page(chunk.data_page, self.reader))? else {
            self.found.damaged_pages += file.layout.pages_for(chunk.slots) as u64;
            return Ok(());
        };
        let payload_bytes = PAGE_BYTES - PAGE_HEADER_BYTES;
        let pages = file.layout.pages_for(chunk.slots) as u32;
        let (mut payload, mut sound) = (Vec::new(), Vec::new());
        let mut page = [0; PAGE_BYTES];
        for number in first..first + pages {
            let is_sound = number < self.meta.pages && self.page(number, &mut page)?;
            self.found.damaged_pages += u64::from(!is_sound);
            sound.push(is_sound);
            payload.extend_from_slice(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
        let slot_bytes = file.layout.bytes();
        for slot in 0..chunk.slots {
            let at = SlotPages::offset(&file.layout, slot);
            let touched = at / payload_bytes..=(at + slot_bytes - 1) / payload_bytes;
            if sound.get(touched).is_none_or(|pages| pages.contains(&false)) {
                continue;
            }
            let bytes = payload.get(at..at + slot_bytes).unwrap_or(&[]);
            let record = match Slot::decode(bytes) {
                Some(Slot::Whole(record)) => record.to_vec(),
                Some(Slot::Spilled { page, tail_len, head }) => match self.overflow(page, tail_len)? {
                    Some(tail) => [head, &tail].concat(),
                    None => {
                        self.found.without_value += 1;
                        continue;
                    }
                },
                Some(Slot::Empty) | None => continue,
            };
            let parts =
                Parts::decode(&record, file.layout.key_bytes).filter(|parts| parts.end <= record.len());
            let Some((parts, key)) = parts.and_then(|parts| Some((parts, parts.key(&record)?))) else {
                self.found.without_value += 1;
                continue;
            };
            if let Some(item) = parts.item(&record) {
                self.hand_on(key, item)?;
            }
        }
        Ok(())
    }
}
