//! Building a table of slots: the first entries are held back until they show what size of slot suits them.
//!
//! Memory is bounded by the sample and a chunk; values larger than a sample go to their pages as they come.

use super::choose::choose;
use super::record::{SPILL_HEADER_BYTES, encode_before_value, encode_spilled};
use super::{MAX_SLOT_BYTES, SlotLayout};
use crate::cache::PAGE_BYTES;
use crate::entry::{EntryRef, PrefixTombstones};
use crate::error::Result;
use crate::table::envelope::PAYLOAD_BYTES;
use crate::table::held::Held;
use crate::table::writer::{NewTable, Sections, TableWriter};
use siltstone_design::{Digest, TableFilterSpec};

/// Pages that are written together: slots that run on do so within them.
pub(crate) const CHUNK_PAGES: usize = 128;
/// Entries and bytes at which the sample ends.
const SAMPLE_ENTRIES: usize = 4096;
const SAMPLE_BYTES: usize = 256 << 10;

/// Where an entry's slot comes to lie: what hash stores and sorted stores differ in.
pub(crate) trait Placement {
    /// Whether all entries of a table need different upper digest halves.
    const IS_DISTINCT: bool;
    /// Takes the slot, of which `content` is filled, of the next entry in the store's order.
    fn place(&mut self, place: (Digest, u64), content: &[u8], pages: &mut SlotPages) -> Result<()>;
    /// Writes what is left; returns the index, and the filter if the format has its own.
    fn finish(self, pages: &mut SlotPages) -> Result<(Vec<u8>, Option<Vec<u8>>)>;
    /// Bytes held back so far.
    fn held_bytes(&self) -> usize;
}

/// The file being written, and how its slots are cut.
pub(crate) struct SlotPages {
    writer: TableWriter,
    pub layout: SlotLayout,
}

impl SlotPages {
    /// Writes a chunk: `payload` holds the payloads of its pages one after the other.
    pub fn write(&mut self, payload: &[u8]) -> Result<()> {
        for page in payload.chunks(PAYLOAD_BYTES) {
            let slots = page.len() / self.layout.bytes();
            self.writer.write_page(page, slots as u16)?;
        }
        Ok(())
    }

    /// Where the payload of a chunk takes up a slot of `layout`.
    pub fn offset(layout: &SlotLayout, slot: usize) -> usize {
        let (page, offset) = layout.position(slot);
        page * PAYLOAD_BYTES + offset
    }
}

/// Builds one table of slots.
pub(crate) struct SlotBuilder<P> {
    pages: SlotPages,
    sample: Vec<Held>,
    sample_bytes: usize,
    /// Present once the slots' size is known.
    placement: Option<P>,
    start: fn(SlotLayout, TableFilterSpec) -> P,
    record: Vec<u8>,
    slot: Vec<u8>,
}

impl<P: Placement> SlotBuilder<P> {
    /// A builder of the table that `writer` writes; `start` is asked for where its slots go.
    pub fn new(writer: TableWriter, start: fn(SlotLayout, TableFilterSpec) -> P) -> Self {
        Self {
            pages: SlotPages { writer, layout: SlotLayout::default() },
            sample: Vec::new(),
            sample_bytes: 0,
            placement: None,
            start,
            record: Vec::new(),
            slot: Vec::new(),
        }
    }

    /// What writes the table's file.
    pub fn writer(&mut self) -> &mut TableWriter {
        &mut self.pages.writer
    }

    /// Bytes the table takes so far.
    pub fn bytes(&self) -> u64 {
        let held = self.placement.as_ref().map_or(self.sample_bytes, Placement::held_bytes);
        u64::from(self.pages.writer.next_page()) * PAGE_BYTES as u64 + held as u64
    }

    /// Whether the table can hold an entry of this digest behind those it has.
    pub fn takes(&self, digest: Digest) -> bool {
        !P::IS_DISTINCT || self.bytes() == 0 || digest.hi != self.pages.writer.last().0.hi
    }

    /// Adds the next entry; entries come in the store's order, each key once.
    /// A value may be compressed, and has `value_bytes` where it is not.
    pub fn add(&mut self, entry: &EntryRef<'_>, value_bytes: usize) -> Result<()> {
        if self.placement.is_none() {
            let bytes = self.sample_bytes + 2 * entry.key.key.len() + entry.item.bytes().len();
            if self.sample.len() + 1 < SAMPLE_ENTRIES && bytes < SAMPLE_BYTES {
                self.pages.writer.note(entry, value_bytes);
                self.sample.push(Held::of(entry));
                self.sample_bytes = bytes;
                return Ok(());
            }
            self.end_sample(Some(entry))?;
        }
        self.place(entry)?;
        self.pages.writer.note(entry, value_bytes);
        Ok(())
    }

    /// Chooses the slots' size, by what was held back and by `next`, and places what was held back.
    fn end_sample(&mut self, next: Option<&EntryRef<'_>>) -> Result<()> {
        let sample = std::mem::take(&mut self.sample);
        let entries = || sample.iter().map(Held::entry).chain(next.copied());
        let first_length = entries().next().map_or(0, |entry| entry.key.key.len());
        let has_one_length = entries().all(|entry| entry.key.key.len() == first_length);
        let key_bytes = if has_one_length { first_length as u32 } else { 0 };
        let sizes = entries().map(|entry| {
            self.record.clear();
            encode_before_value(&mut self.record, key_bytes, &entry);
            self.record.len() + entry.item.bytes().len()
        });
        self.pages.layout = choose(sizes.collect(), key_bytes);
        self.placement = Some((self.start)(self.pages.layout, self.pages.writer.spec.kept_keys.own_filter()));
        sample.iter().try_for_each(|held| self.place(&held.entry()))
    }

    fn place(&mut self, entry: &EntryRef<'_>) -> Result<()> {
        self.record.clear();
        encode_before_value(&mut self.record, self.pages.layout.key_bytes, entry);
        let (slot_bytes, value) = (self.pages.layout.bytes(), entry.item.bytes());
        self.slot.clear();
        if self.record.len() + value.len() <= slot_bytes {
            self.slot.extend_from_slice(&self.record);
            self.slot.extend_from_slice(value);
        } else {
            let head_bytes = slot_bytes - SPILL_HEADER_BYTES;
            let (of_value, rest) = value.split_at(head_bytes.saturating_sub(self.record.len()));
            self.record.extend_from_slice(of_value);
            let (head, tail) = self.record.split_at(head_bytes);
            let page = self.pages.writer.write_overflow(tail, rest)?;
            encode_spilled(&mut self.slot, page, (tail.len() + rest.len()) as u32, head);
        }
        if self.record.capacity() > 16 * MAX_SLOT_BYTES as usize {
            self.record = Vec::new();
        }
        let place = (entry.key.digest, entry.key.fingerprint);
        match &mut self.placement {
            Some(placement) => placement.place(place, &self.slot, &mut self.pages),
            None => Ok(()),
        }
    }

    /// Writes what is left, syncs the file and says what it holds.
    pub fn finish(mut self, tombstones: PrefixTombstones) -> Result<NewTable> {
        if self.placement.is_none() {
            self.end_sample(None)?;
        }
        let (index, filter) = match self.placement {
            Some(placement) => placement.finish(&mut self.pages)?,
            None => Default::default(),
        };
        let SlotPages { mut writer, layout } = self.pages;
        let page_map = writer.page_map();
        writer.finish(Sections { index, filter, page_map, slots: Some(layout) }, tombstones)
    }
}
