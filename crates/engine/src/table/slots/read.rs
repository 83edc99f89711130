//! Reading slots and what stands in them.

use super::SlotLayout;
use super::record::{Parts, Slot};
use crate::cache::{PAGE_BYTES, Page, Pause, Probe, Reader};
use crate::entry::{Answer, Item};
use crate::error::{Error, Result};
use crate::table::coded::{Coded, TableCodec};
use crate::table::envelope::{PAGE_HEADER_BYTES, TableMeta};
use crate::table::parts::{Resident, Worth, page_malformed, read_overflow};
use crate::value::{Value, Wants};
use siltstone_succinct::bits::rank_select::RankSelect;
use std::borrow::Cow;
use std::ops::Range;

/// A table of slots, whoever decides which slot is whose.
pub(crate) struct SlotFile {
    pub meta: TableMeta,
    pub layout: SlotLayout,
    page_map: Resident<RankSelect>,
    codec: TableCodec,
}

/// A chunk of a table: slots that lie one after the other in neighbouring pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Its first page, counting those that hold entries.
    pub data_page: u32,
    pub slots: usize,
}

/// The bytes of a record, and where its parts stand in them.
pub(crate) type Record<'a> = (Cow<'a, [u8]>, Parts);

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

impl SlotBytes {
    /// The value at `at` of the slot, where that lies in one page.
    fn lend(&self, at: Range<usize>, (wants, coded): (Wants, Coded<'_>)) -> Option<Value> {
        let Self::Within(page, start, _) = self else { return None };
        coded.take_from(wants, page, start + at.start..start + at.end)
    }
}

impl SlotFile {
    pub fn new(meta: TableMeta) -> Self {
        let layout = meta.slots.unwrap_or_default();
        Self { meta, layout, page_map: Resident::default(), codec: TableCodec::default() }
    }

    /// The table with what its values are decoded with.
    #[inline]
    pub fn coded(&self, reader: &Reader) -> Result<Coded<'_>> {
        self.codec.coded(&self.meta, reader)
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

    /// Returns slot `slot` of `chunk`, in one read.
    pub fn slot(&self, chunk: Chunk, slot: usize, probe: &mut Probe<'_>) -> Result<SlotBytes, Pause> {
        let (page, offset) = self.layout.position(slot);
        let first = self.file_page(chunk.data_page.saturating_add(page as u32), probe.reader)?;
        let (start, end) = (PAGE_HEADER_BYTES + offset, PAGE_HEADER_BYTES + offset + self.layout.bytes());
        if end <= PAGE_BYTES {
            return Ok(SlotBytes::Within(probe.page(self.meta.id, first)?, start, end));
        }
        let [first, second] = probe.two_pages(self.meta.id, first)?;
        let mut bytes = first.get(start..).unwrap_or(&[]).to_vec();
        bytes.extend_from_slice(
            second.get(PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + end - PAGE_BYTES).unwrap_or(&[]),
        );
        Ok(SlotBytes::Across(bytes))
    }

    /// What a slot of `chunk` makes no sense in.
    pub fn malformed(&self, chunk: Chunk, reader: &Reader) -> Error {
        page_malformed(&self.meta, chunk.data_page, reader)
    }

    /// Returns the whole record of a slot, without what fills up the slot, and its parts; `None` for an empty
    /// one.
    pub fn record<'a>(
        &self,
        chunk: Chunk,
        bytes: &'a [u8],
        probe: &mut Probe<'_>,
    ) -> Result<Option<Record<'a>>, Pause> {
        let reader = probe.reader;
        let malformed = || self.malformed(chunk, reader);
        let record = match Slot::decode(bytes).ok_or_else(malformed)? {
            Slot::Empty => return Ok(None),
            Slot::Whole(record) => Cow::Borrowed(record),
            Slot::Spilled { page, tail_len, head } => {
                let mut record = read_overflow(&self.meta, page, tail_len, probe)?;
                // In place, since there may be a gigabyte of it.
                record.resize(tail_len + head.len(), 0);
                record.copy_within(..tail_len, head.len());
                record.iter_mut().zip(head).for_each(|(place, byte)| *place = *byte);
                Cow::Owned(record)
            }
        };
        let parts = Parts::decode(&record, self.layout.key_bytes).ok_or_else(malformed)?;
        if parts.end > record.len() {
            return Err(malformed().into());
        }
        Ok(Some((record, parts)))
    }

    /// What a slot says about `key`; `Absent` where it is another key's, or empty.
    pub fn lookup(
        &self,
        chunk: Chunk,
        bytes: &SlotBytes,
        key: &[u8],
        probe: &mut Probe<'_>,
    ) -> Result<Answer, Pause> {
        // What is spilled need not be read where the start of the record shows another key.
        if let Some(Slot::Spilled { head, .. }) = Slot::decode(bytes)
            && let Some(parts) = Parts::decode(head, self.layout.key_bytes)
        {
            let shown = head.get(parts.key_at..parts.value_at.min(head.len())).unwrap_or(&[]);
            if parts.value_at - parts.key_at != key.len() || !key.starts_with(shown) {
                return Ok(Answer::Absent);
            }
            if probe.wants.nothing() && shown == key {
                let Parts { deleted, expires_at_ms, .. } = parts;
                let put = Answer::Put { value: Value::Unread, expires_at_ms };
                return Ok(if deleted { Answer::Deleted } else { put });
            }
        }
        let Some((record, parts)) = self.record(chunk, bytes, probe)? else {
            return Ok(Answer::Absent);
        };
        if parts.key(&record) != Some(key) {
            return Ok(Answer::Absent);
        }
        let (wants, malformed) = (probe.wants, || self.malformed(chunk, probe.reader));
        let coded = self.coded(probe.reader)?;
        match parts.item(&record).ok_or_else(malformed)? {
            Item::Put { value, expires_at_ms } => {
                let is_in_slot = matches!(record, Cow::Borrowed(_));
                let lent =
                    if is_in_slot { bytes.lend(parts.value_at..parts.end, (wants, coded)) } else { None };
                let value = lent.or_else(|| coded.take(wants, value)).ok_or_else(malformed)?;
                Ok(Answer::Put { value, expires_at_ms })
            }
            item => {
                let mut decoded = Vec::new();
                let item = coded.item(item, &mut decoded).ok_or_else(malformed)?;
                Ok(Answer::of(item, wants))
            }
        }
    }
}
