//! Reading slots and what stands in them.

use super::SlotLayout;
use super::record::{Parts, Slot};
use crate::cache::{PAGE_BYTES, Page, Reader};
use crate::entry::{Item, Lookup};
use crate::error::{Error, Result};
use crate::stats::ReadTrace;
use crate::table::Walk;
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES, TableMeta};
use crate::table::parts::{Resident, Worth, page_nonsense, read_overflow};
use siltstone_succinct::bits::rank_select::RankSelect;

/// A table of slots, whoever decides which slot is whose.
pub(crate) struct SlotFile {
    pub meta: TableMeta,
    pub layout: SlotLayout,
    page_map: Resident<RankSelect>,
}

/// A chunk of a table: slots that lie one after the other in neighbouring pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Its first page, counting those that hold entries.
    pub data_page: u32,
    pub slots: usize,
}

/// The bytes of one slot.
pub(crate) enum SlotBytes {
    Within(Page, usize, usize),
    Across(Vec<u8>),
}

impl std::ops::Deref for SlotBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Within(page, start, end) => page.get(*start..*end).unwrap_or(&[]),
            Self::Across(bytes) => bytes,
        }
    }
}

impl SlotFile {
    pub fn new(meta: TableMeta) -> Self {
        let layout = meta.slots.unwrap_or_default();
        Self { meta, layout, page_map: Resident::default() }
    }

    /// The file page of data page `number`.
    pub fn file_page(&self, number: u32, reader: &Reader) -> Result<u32> {
        if self.meta.page_map.length == 0 {
            return Ok(number);
        }
        let section = &self.meta.page_map;
        let map = self.page_map.load(&self.meta, section, Worth::Needed, reader, RankSelect::from_bytes)?;
        let page = map.and_then(|map| map.select1(number as usize)).and_then(|page| u32::try_from(page).ok());
        page.ok_or_else(|| {
            let path = reader.path(self.meta.id);
            Error::corruption(&path, section.offset, "a page map", "too few pages in it")
        })
    }

    /// Slot `slot` of `chunk`, in one read.
    pub fn slot(
        &self,
        chunk: Chunk,
        slot: usize,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<SlotBytes> {
        let (page, offset) = self.layout.position(slot);
        let first = self.file_page(chunk.data_page.saturating_add(page as u32), reader)?;
        let (start, end) = (PAGE_HEADER_BYTES + offset, PAGE_HEADER_BYTES + offset + self.layout.bytes());
        if end <= PAGE_BYTES {
            return Ok(SlotBytes::Within(reader.page(self.meta.id, first, trace)?, start, end));
        }
        let [first, second] = reader.two_pages(self.meta.id, first, trace)?;
        let mut bytes = first.get(start..).unwrap_or(&[]).to_vec();
        bytes.extend_from_slice(
            second.get(PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + end - PAGE_BYTES).unwrap_or(&[]),
        );
        Ok(SlotBytes::Across(bytes))
    }

    /// The payloads of a chunk's pages, one after the other.
    pub fn chunk(&self, chunk: Chunk, walk: Walk, reader: &Reader) -> Result<Vec<u8>> {
        let first = self.file_page(chunk.data_page, reader)?;
        let pages = self.layout.pages_for(chunk.slots);
        if u64::from(first) + pages as u64 > u64::from(self.meta.pages) {
            return Err(page_nonsense(&self.meta, first, reader));
        }
        let mut raw = vec![0; pages * PAGE_BYTES];
        match walk {
            Walk::Compaction => reader.pages_for_compaction(self.meta.id, first, &mut raw)?,
            _ => reader.pages_for_lookup(self.meta.id, first, &mut raw, &mut ReadTrace::default())?,
        }
        // The headers go, in place.
        for page in 0..pages {
            let from = page * PAGE_BYTES + PAGE_HEADER_BYTES;
            raw.copy_within(from..from + PAYLOAD_BYTES, page * PAYLOAD_BYTES);
        }
        raw.truncate(pages * PAYLOAD_BYTES);
        Ok(raw)
    }

    /// What a slot of `chunk` makes no sense in.
    pub fn nonsense(&self, chunk: Chunk, reader: &Reader) -> Error {
        page_nonsense(&self.meta, chunk.data_page, reader)
    }

    /// The whole record of a slot, without what fills up the slot, and its parts; `None` for an empty one.
    pub fn record<'a>(
        &self,
        chunk: Chunk,
        bytes: &'a [u8],
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Option<(std::borrow::Cow<'a, [u8]>, Parts)>> {
        let nonsense = || self.nonsense(chunk, reader);
        let record = match Slot::decode(bytes).ok_or_else(nonsense)? {
            Slot::Empty => return Ok(None),
            Slot::Whole(record) => std::borrow::Cow::Borrowed(record),
            Slot::Spilled { page, tail_len, head } => {
                let mut record = head.to_vec();
                record.extend(read_overflow(&self.meta, page, tail_len, reader, trace)?);
                std::borrow::Cow::Owned(record)
            }
        };
        let parts = Parts::decode(&record, self.layout.key_bytes).ok_or_else(nonsense)?;
        if parts.end > record.len() {
            return Err(nonsense());
        }
        Ok(Some((record, parts)))
    }

    /// What a slot says about `key`; `Absent` where it is another key's, or empty.
    pub fn lookup(
        &self,
        chunk: Chunk,
        bytes: &[u8],
        key: &[u8],
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Lookup> {
        // What is spilled need not be read where the start of the record shows another key.
        if let Some(Slot::Spilled { head, .. }) = Slot::decode(bytes)
            && let Some(parts) = Parts::decode(head, self.layout.key_bytes)
        {
            let shown = head.get(parts.key_at..parts.value_at.min(head.len())).unwrap_or(&[]);
            if parts.value_at - parts.key_at != key.len() || !key.starts_with(shown) {
                return Ok(Lookup::Absent);
            }
        }
        let Some((record, parts)) = self.record(chunk, bytes, reader, trace)? else {
            return Ok(Lookup::Absent);
        };
        if parts.key(&record) != Some(key) {
            return Ok(Lookup::Absent);
        }
        match parts.item(&record) {
            Some(Item::Put { value, expires_at_ms }) => {
                Ok(Lookup::Put { value: value.to_vec(), expires_at_ms })
            }
            Some(Item::Deleted) => Ok(Lookup::Deleted),
            None => Err(self.nonsense(chunk, reader)),
        }
    }
}
