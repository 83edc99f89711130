//! Lookups in a block table: filter, index, one page.
//!
//! Index and filter are loaded at first use if the memory budget has room. Without the filter a lookup reads the page it
//! might have been spared; without the index it searches the pages by interpolation, which takes three or four reads.

use super::index::{PageIndex, Route, with_sort_key};
use super::page::{Found, Overflow, RawEntry, decode, find, page_header};
use super::paged::Part;
use crate::cache::{PAGE_BYTES, Page, Reader};
use crate::codec::Decoder;
use crate::entry::{Lookup, Span};
use crate::error::{Error, Result};
use crate::stats::ReadTrace;
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES, TableMeta};
use crate::table::filter::TableFilter;
use crate::table::parts::{Resident, Worth, damaged, page_nonsense, place_to_look_at, read_overflow};
use crate::table::sort_key;
use siltstone_design::{Digest, EncodedKey, Encoder};
use siltstone_succinct::bits::rank_select::RankSelect;
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::index::separators::Separators;

/// An open block table.
pub(crate) struct BlockTable {
    pub meta: TableMeta,
    index: Resident<PageIndex>,
    filter: Resident<TableFilter>,
    page_map: Resident<RankSelect>,
}

/// Most pages of one table that are asked for ahead of a scan.
const AHEAD_PAGES: u32 = 32;

impl BlockTable {
    pub fn new(meta: TableMeta) -> Self {
        Self { meta, index: Resident::default(), filter: Resident::default(), page_map: Resident::default() }
    }

    fn damaged(&self, offset: u64, error: &DecodeError, reader: &Reader) -> Error {
        damaged(&self.meta, offset, error, reader)
    }

    /// The index, if it fits the budget.
    pub fn index(&self, reader: &Reader) -> Result<Option<&PageIndex>> {
        let decode = |bytes: &[u8]| PageIndex::from_bytes(self.meta.index_spec, bytes);
        self.index.load(&self.meta, &self.meta.index, Worth::Index, reader, decode)
    }

    /// Loads what lookups ask first, as far as it fits the budget.
    pub fn load(&self, reader: &Reader) -> Result<()> {
        self.index(reader)?;
        self.filter.filter(&self.meta, reader)?;
        Ok(())
    }

    /// Bytes of the budget that are held by what lookups can do without.
    pub fn spare_bytes(&self) -> u64 {
        self.index.held_bytes() + self.filter.held_bytes()
    }

    /// The file page of data page `number`.
    pub fn file_page(&self, number: u32, reader: &Reader) -> Result<u32> {
        // Pages of an index stand behind all that hold entries.
        if self.meta.page_map.length == 0 {
            return Ok(number);
        }
        let decode = RankSelect::from_bytes;
        let map = self.page_map.load(&self.meta, &self.meta.page_map, Worth::Needed, reader, decode)?;
        map.and_then(|map| map.select1(number as usize)).and_then(|page| u32::try_from(page).ok()).ok_or_else(
            || {
                let path = reader.path(self.meta.id);
                Error::corruption(&path, self.meta.page_map.offset, "a page map", "too few pages in it")
            },
        )
    }

    /// The data page that may hold the place `(digest, key)`; the table is not empty.
    pub fn find_page(
        &self,
        place: (Digest, &[u8]),
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<u32> {
        let (digest, key) = place;
        if let Some(index) = self.index(reader)? {
            return match index.route(digest, key) {
                Route::Page(page) => Ok(page),
                Route::Part(part) => self.find_in_part(part, place, reader, trace),
            };
        }
        // The last page whose first entry is not past the place.
        let wanted = sort_key(digest, key);
        let (mut before, mut from, mut to) = (0, 0, self.meta.data_pages as usize);
        let (mut first, mut last) = (self.meta.first.0.hi, self.meta.last.0.hi);
        for step in 0.. {
            if from >= to {
                break;
            }
            let middle = place_to_look_at(step, &(from..to), (first, last), digest.hi);
            let (page_first, page_last) = self.page_places(middle as u32, encoder, reader, trace)?;
            if page_first > wanted {
                (to, last) = (middle, hi_of(&page_first));
            } else if page_last >= wanted {
                return Ok(middle as u32);
            } else {
                (before, from, first) = (middle, middle + 1, hi_of(&page_last));
            }
        }
        Ok(before as u32)
    }

    /// The data page from which a walk over what is at or after `(digest, key)` has to start.
    ///
    /// Most indexes lead there. One that knows only the places of entries is checked against the pages themselves: the
    /// page it names is read by the walk anyhow, and seldom another.
    pub fn seek_page(
        &self,
        place: (Digest, &[u8]),
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<u32> {
        let guess = self.find_page(place, encoder, reader, trace)?;
        let Some(pages) = self.index(reader)?.and_then(|index| index.uncertainty(place.0)) else {
            return Ok(guess);
        };
        let place = sort_key(place.0, place.1);
        let (mut low, mut high) = pages.into_inner();
        // By steps that double from the guess on.
        let (mut probe, mut step) = (guess.clamp(low, high), 1);
        while low < high {
            let (first, last) = self.page_places(probe, encoder, reader, trace)?;
            if first > place && probe > low {
                high = probe - 1;
                probe = probe.saturating_sub(step).clamp(low, high);
            } else if first > place || last >= place || probe == high {
                return Ok(probe);
            } else {
                low = probe + 1;
                probe = probe.saturating_add(step).clamp(low, high);
            }
            step *= 2;
        }
        Ok(low)
    }

    /// The places of a data page's first and last entry.
    fn page_places(
        &self,
        page: u32,
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let number = self.file_page(page, reader)?;
        let bytes = reader.page(self.meta.id, number, trace)?;
        let (used, entries) = page_header(&bytes[..]).ok_or_else(|| self.page_nonsense(number, reader))?;
        let (mut at, mut key, mut last) = (PAGE_HEADER_BYTES, Vec::new(), None);
        for _ in 0..entries {
            let entry = decode(&bytes[..], at, used).ok_or_else(|| self.page_nonsense(number, reader))?;
            at = entry.end;
            key.truncate(entry.shared);
            if entry.overflow.is_some_and(|overflow| overflow.key_len.is_some()) {
                key.clear();
            } else {
                key.extend_from_slice(self.slice(&bytes, entry.tail_at, entry.tail_len, number, reader)?);
            }
            last = Some(entry);
        }
        let first = self.first_place(&bytes, number, encoder, reader, trace)?;
        let last = last.ok_or_else(|| self.page_nonsense(number, reader))?;
        let last = match last.overflow {
            Some(Overflow { key_len: Some(_), .. }) => {
                self.big_place(&last, &bytes, number, reader, trace)?
            }
            _ => sort_key(encoder.encode(&key)?.digest, &key),
        };
        Ok((first, last))
    }

    /// Asks for the pages of `span` to be fetched, up to a few dozen, where the index in memory tells which they are.
    pub fn want(&self, span: &Span, reader: &Reader) -> Result<()> {
        let Some(index) = self.index(reader)? else { return Ok(()) };
        // No key of this digest comes after it in all practice, and this is a hint.
        let after = [0xff; 64];
        let (first, last) = (index.route(span.first, &[]), index.route(span.last, &after));
        let (Route::Page(first), Route::Page(last)) = (first, last) else { return Ok(()) };
        let last = last.min(first.saturating_add(AHEAD_PAGES - 1));
        let (first, last) = (self.file_page(first, reader)?, self.file_page(last.max(first), reader)?);
        reader.want(self.meta.id, first..last.saturating_add(1));
        Ok(())
    }

    /// Searches a part of the index that lies on the device.
    fn find_in_part(
        &self,
        part: Part,
        (digest, key): (Digest, &[u8]),
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<u32> {
        let mut bytes = Vec::with_capacity(part.bytes as usize);
        for page in part.page..part.page.saturating_add(part.bytes.div_ceil(PAYLOAD_BYTES as u32)) {
            let page = reader.page(self.meta.id, page, trace)?;
            bytes.extend_from_slice(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
        bytes.truncate(part.bytes as usize);
        let offset = u64::from(part.page) * PAGE_BYTES as u64;
        let separators = Separators::from_bytes(&bytes).map_err(|e| self.damaged(offset, &e, reader))?;
        Ok(part.first_data_page + with_sort_key(digest, key, |place| separators.find(place)))
    }

    /// The place of a page's first entry, for the search without an index.
    fn first_place(
        &self,
        bytes: &Page,
        page: u32,
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Vec<u8>> {
        let entry = page_header(&bytes[..])
            .filter(|&(_, entries)| entries > 0)
            .and_then(|(used, _)| decode(&bytes[..], PAGE_HEADER_BYTES, used))
            .ok_or_else(|| self.page_nonsense(page, reader))?;
        if let Some(Overflow { key_len: Some(_), .. }) = entry.overflow {
            return self.big_place(&entry, bytes, page, reader, trace);
        }
        let tail = self.slice(bytes, entry.tail_at, entry.tail_len, page, reader)?;
        Ok(sort_key(encoder.encode(tail)?.digest, tail))
    }

    /// The place of an entry whose key stands in overflow pages.
    fn big_place(
        &self,
        entry: &RawEntry,
        bytes: &Page,
        page: u32,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Vec<u8>> {
        let tail = self.slice(bytes, entry.tail_at, entry.tail_len, page, reader)?;
        let digest = Decoder::new(tail).digest().unwrap_or_default();
        let (key, _) = self.overflow(entry, reader, trace)?;
        Ok(sort_key(digest, &key))
    }

    pub fn page_nonsense(&self, page: u32, reader: &Reader) -> Error {
        page_nonsense(&self.meta, page, reader)
    }

    fn slice<'a>(
        &self,
        page: &'a Page,
        at: usize,
        length: usize,
        number: u32,
        reader: &Reader,
    ) -> Result<&'a [u8]> {
        page.get(at..at + length).ok_or_else(|| self.page_nonsense(number, reader))
    }

    /// Key (empty if it stands in the entry) and value of an overflowing entry, in one read.
    pub fn overflow(
        &self,
        entry: &RawEntry,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        overflow(&self.meta, entry, reader, trace)
    }

    /// What this table says about `key`: at most one filter probe, one index search and one page (two reads for a
    /// value that overflows its page).
    pub fn get(
        &self,
        key: &EncodedKey<'_>,
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Lookup> {
        let passes = self.filter.passes(&self.meta, key.fingerprint, reader, trace)?;
        if passes == Some(false) {
            return Ok(Lookup::Absent);
        }
        let filtered = passes.is_some();
        trace.tables_probed += 1;
        let found = match reader.known_answer(self.meta.id, key) {
            Some(known) => known,
            None => {
                let found = self.look_up(key, encoder, reader, trace)?;
                reader.keep_answer(self.meta.id, key, &found);
                found
            }
        };
        trace.false_positives += u64::from(filtered && found == Lookup::Absent);
        Ok(found)
    }

    /// What the page that may hold `key` says.
    fn look_up(
        &self,
        key: &EncodedKey<'_>,
        encoder: &Encoder,
        reader: &Reader,
        trace: &mut ReadTrace,
    ) -> Result<Lookup> {
        let number =
            self.file_page(self.find_page((key.digest, key.key), encoder, reader, trace)?, reader)?;
        let page = reader.page(self.meta.id, number, trace)?;
        look_up(&self.meta, &page, number, key, reader, trace)
    }
}

/// The digest half that a place begins with.
fn hi_of(place: &[u8]) -> u64 {
    Decoder::new(place).digest().unwrap_or_default().hi
}

/// Key (empty if it stands in the entry) and value of an overflowing entry, in one read.
pub(crate) fn overflow(
    table: &TableMeta,
    entry: &RawEntry,
    reader: &Reader,
    trace: &mut ReadTrace,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let Some(Overflow { page, key_len }) = entry.overflow else { return Ok((Vec::new(), Vec::new())) };
    let key_len = key_len.unwrap_or(0);
    let length = key_len.saturating_add(entry.value_len);
    let mut payload = read_overflow(table, page, length, reader, trace)?;
    let value = payload.split_off(key_len.min(payload.len()));
    Ok((payload, value))
}

/// What page `number` of a table says about `key`; one read more for a value that overflows it.
pub(crate) fn look_up(
    table: &TableMeta,
    page: &Page,
    number: u32,
    key: &EncodedKey<'_>,
    reader: &Reader,
    trace: &mut ReadTrace,
) -> Result<Lookup> {
    let mut big = Ok(None);
    let found = find(&page[..], key.key, key.digest, |entry| {
        if big.is_err() {
            return false;
        }
        big = overflow(table, entry, reader, trace).map(Some);
        matches!(&big, Ok(Some((big_key, _))) if big_key == key.key)
    });
    let overflowed = big?;
    let entry = match found {
        Found::Entry(entry) => entry,
        Found::Absent => return Ok(Lookup::Absent),
        Found::Damaged => return Err(page_nonsense(table, number, reader)),
    };
    if entry.deleted {
        return Ok(Lookup::Deleted);
    }
    let value = match (entry.overflow, overflowed) {
        (Some(Overflow { key_len: Some(_), .. }), Some((_, value))) => value,
        (Some(_), _) => overflow(table, &entry, reader, trace)?.1,
        (None, _) => page
            .get(entry.value_at..entry.value_at + entry.value_len)
            .ok_or_else(|| page_nonsense(table, number, reader))?
            .to_vec(),
    };
    Ok(Lookup::Put { value, expires_at_ms: entry.expires_at_ms })
}
