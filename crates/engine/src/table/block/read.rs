//! Lookups in a block table: filter, index, one page.
//!
//! Index and filter are loaded at first use if the memory budget has room. Without the filter a lookup reads
//! the page it might have been spared; without the index it searches the pages by interpolation, which takes
//! three or four reads.

use super::index::{PageIndex, Route, with_sort_key};
use super::page::{Found, Overflow, RawEntry, decode, find, page_header};
use super::paged::Part;
use crate::cache::{PAGE_BYTES, Page, PageRef, Pause, Probe, Reader};
use crate::codec::Decoder;
use crate::codec::sort_key;
use crate::entry::{Answer, Span};
use crate::error::{Error, Result};
use crate::memory::FilterWorth;
use crate::table::coded::{Coded, TableCodec};
use crate::table::envelope::{PAGE_HEADER_BYTES, PAYLOAD_BYTES, TableMeta};
use crate::table::filter::TableFilter;
use crate::table::parts::{Asked, Resident, Worth, damaged, page_malformed, place_to_look_at, read_overflow};
use crate::table::walk::Described;
use crate::value::Value;
use siltstone_design::{Digest, EncodedKey};
use siltstone_succinct::bits::rank_select::RankSelect;
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::index::separators::Separators;

/// An open block table.
pub(crate) struct BlockTable {
    pub meta: TableMeta,
    index: Resident<PageIndex>,
    filter: Resident<TableFilter>,
    page_map: Resident<RankSelect>,
    codec: TableCodec,
}

/// Most pages of one table that are asked for ahead of a scan.
const AHEAD_PAGES: u32 = 32;

impl Described for BlockTable {
    #[inline]
    fn meta(&self) -> &TableMeta {
        &self.meta
    }
}

impl BlockTable {
    pub fn new(meta: TableMeta) -> Self {
        let (index, filter, page_map) = (Resident::default(), Resident::default(), Resident::default());
        Self { meta, index, filter, page_map, codec: TableCodec::default() }
    }

    /// The table with what its entries are decoded with.
    #[inline]
    pub fn coded(&self, reader: &Reader) -> Result<Coded<'_>> {
        self.codec.coded(&self.meta, reader)
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
        self.coded(reader)?;
        Ok(())
    }

    /// Notes what the filter is worth.
    pub fn set_filter_worth(&self, worth: FilterWorth) {
        self.filter.set_worth(worth);
    }

    /// Bytes of the budget that the filter holds.
    pub fn filter_bytes(&self) -> u64 {
        self.filter.held_bytes()
    }

    /// Bytes of the budget that are held by what lookups can do without.
    pub fn spare_bytes(&self) -> u64 {
        self.index.held_bytes() + self.filter_bytes()
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
    pub fn find_page(&self, place: (Digest, &[u8]), probe: &mut Probe<'_>) -> Result<u32, Pause> {
        let (digest, key) = place;
        if let Some(index) = self.index(probe.reader)? {
            return match index.route(digest, key) {
                Route::Page(page) => Ok(page),
                Route::Part(part) => self.find_in_part(part, place, probe),
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
            let (page_first, page_last) = self.page_places(middle as u32, probe)?;
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
    /// Most indexes lead there. One that knows only the places of entries is checked against the pages
    /// themselves: the page it names is read by the walk anyhow, and seldom another.
    pub fn seek_page(&self, place: (Digest, &[u8]), probe: &mut Probe<'_>) -> Result<u32, Pause> {
        let guess = self.find_page(place, probe)?;
        let Some(pages) = self.index(probe.reader)?.and_then(|index| index.uncertainty(place.0)) else {
            return Ok(guess);
        };
        let place = sort_key(place.0, place.1);
        let (mut low, mut high) = pages.into_inner();
        // By steps that double from the guess on.
        let (mut at, mut step) = (guess.clamp(low, high), 1);
        while low < high {
            let (first, last) = self.page_places(at, probe)?;
            if first > place && at > low {
                high = at - 1;
                at = at.saturating_sub(step).clamp(low, high);
            } else if first > place || last >= place || at == high {
                return Ok(at);
            } else {
                low = at + 1;
                at = at.saturating_add(step).clamp(low, high);
            }
            step *= 2;
        }
        Ok(low)
    }

    /// The places of a data page's first and last entry.
    fn page_places(&self, page: u32, probe: &mut Probe<'_>) -> Result<(Vec<u8>, Vec<u8>), Pause> {
        let reader = probe.reader;
        let number = self.file_page(page, reader)?;
        let bytes = probe.page(self.meta.id, number)?;
        let page = NumberedPage { number, bytes: &bytes };
        let (used, entries) = page_header(&bytes[..]).ok_or_else(|| self.page_malformed(number, reader))?;
        let (mut at, mut key, mut last) = (PAGE_HEADER_BYTES, Vec::new(), None);
        let coded = self.coded(reader)?;
        for _ in 0..entries {
            let entry = decode(&bytes[..], at, used).ok_or_else(|| self.page_malformed(number, reader))?;
            at = entry.end;
            key.truncate(entry.shared);
            if entry.overflow.is_some_and(|overflow| overflow.key_len.is_some()) {
                key.clear();
            } else {
                let whole = coded.key_onto(&bytes[..], &entry, &mut key);
                whole.ok_or_else(|| self.page_malformed(number, reader))?;
            }
            last = Some(entry);
        }
        let first = self.first_place(page, probe)?;
        let last = last.ok_or_else(|| self.page_malformed(number, reader))?;
        let last = match last.overflow {
            Some(Overflow { key_len: Some(_), .. }) => self.big_place(page, &last, probe)?,
            _ => sort_key(probe.encoder.encode(&key)?.digest, &key),
        };
        Ok((first, last))
    }

    /// Adds the pages of `span` that are not cached to `wanted`, up to a few dozen, where the index in memory
    /// tells which they are.
    pub fn want(&self, span: &Span, reader: &Reader, wanted: &mut Vec<PageRef>) -> Result<()> {
        let Some(index) = self.index(reader)? else { return Ok(()) };
        // No key of this digest comes after it in all practice, and this is a hint.
        let after = [0xff; 64];
        let (first, last) = (index.route(span.first, &[]), index.route(span.last, &after));
        let (Route::Page(first), Route::Page(last)) = (first, last) else { return Ok(()) };
        let last = last.min(first.saturating_add(AHEAD_PAGES - 1));
        let (first, last) = (self.file_page(first, reader)?, self.file_page(last.max(first), reader)?);
        let file = self.meta.id;
        let pages = (first..=last).map(|page| PageRef::Page { file: file.into(), page });
        wanted.extend(pages.filter(|page| !reader.holds(page)));
        Ok(())
    }

    /// About how many entries lie within `span`, by the pages that the index names; all where there is none
    /// in memory.
    pub fn entries_within(&self, span: &Span, reader: &Reader) -> Result<u64> {
        let all = self.meta.entries;
        let Some(index) = self.index(reader)? else { return Ok(all) };
        let (first, last) = (index.route(span.first, &[]), index.route(span.last, &[0xff; 64]));
        let (Route::Page(first), Route::Page(last)) = (first, last) else { return Ok(all) };
        let (pages, of) = (u64::from(last.saturating_sub(first)), u64::from(self.meta.data_pages.max(1)));
        Ok(all * pages.min(of) / of)
    }

    /// Searches a part of the index that lies on the device.
    fn find_in_part(
        &self,
        part: Part,
        (digest, key): (Digest, &[u8]),
        probe: &mut Probe<'_>,
    ) -> Result<u32, Pause> {
        let mut bytes = Vec::with_capacity(part.bytes as usize);
        for page in part.page..part.page.saturating_add(part.bytes.div_ceil(PAYLOAD_BYTES as u32)) {
            let page = probe.page(self.meta.id, page)?;
            bytes.extend_from_slice(page.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
        bytes.truncate(part.bytes as usize);
        let offset = u64::from(part.page) * PAGE_BYTES as u64;
        let separators =
            Separators::from_bytes(&bytes).map_err(|e| self.damaged(offset, &e, probe.reader))?;
        Ok(part.first_data_page + with_sort_key(digest, key, |place| separators.find(place)))
    }

    /// The place of a page's first entry, for the search without an index.
    fn first_place(&self, page: NumberedPage<'_>, probe: &mut Probe<'_>) -> Result<Vec<u8>, Pause> {
        let entry = page_header(&page.bytes[..])
            .filter(|&(_, entries)| entries > 0)
            .and_then(|(used, _)| decode(&page.bytes[..], PAGE_HEADER_BYTES, used))
            .ok_or_else(|| self.page_malformed(page.number, probe.reader))?;
        if let Some(Overflow { key_len: Some(_), .. }) = entry.overflow {
            return self.big_place(page, &entry, probe);
        }
        let tail = self.coded(probe.reader)?.key(&page.bytes[..], &entry);
        let tail = tail.ok_or_else(|| self.page_malformed(page.number, probe.reader))?;
        Ok(sort_key(probe.encoder.encode(&tail)?.digest, &tail))
    }

    /// The place of an entry whose key stands in overflow pages.
    fn big_place(
        &self,
        page: NumberedPage<'_>,
        entry: &RawEntry,
        probe: &mut Probe<'_>,
    ) -> Result<Vec<u8>, Pause> {
        let tail = self.tail(page, entry, probe.reader)?;
        let digest = Decoder::new(tail).digest().unwrap_or_default();
        Ok(sort_key(digest, &overflowed_key(&self.meta, entry, probe)?))
    }

    pub fn page_malformed(&self, page: u32, reader: &Reader) -> Error {
        page_malformed(&self.meta, page, reader)
    }

    /// The part of an entry's key that stands in its page, as it stands there.
    fn tail<'a>(&self, page: NumberedPage<'a>, entry: &RawEntry, reader: &Reader) -> Result<&'a [u8]> {
        let tail = page.bytes.get(entry.tail_at..entry.tail_at + entry.tail_len);
        tail.ok_or_else(|| self.page_malformed(page.number, reader))
    }

    /// Returns what this table says about `key`, after at most one filter probe, one index search and one
    /// page (two reads for a value that overflows its page).
    pub fn get(&self, key: &EncodedKey<'_>, probe: &mut Probe<'_>) -> Result<Answer, Pause> {
        let passes = self.filter.passes(&self.meta, key.fingerprint, probe.reader)?;
        let asked = Asked { table: &self.meta, passes, keeps_answer: true };
        asked.answer(key, probe, |probe| {
            let page = self.find_page((key.digest, key.key), probe)?;
            let number = self.file_page(page, probe.reader)?;
            let page = probe.page(self.meta.id, number)?;
            look_up(self.coded(probe.reader)?, NumberedPage { number, bytes: &page }, key, probe)
        })
    }
}

/// The digest half that a place begins with.
fn hi_of(place: &[u8]) -> u64 {
    Decoder::new(place).digest().unwrap_or_default().hi
}

/// A page of a table and where it stands there.
#[derive(Clone, Copy)]
pub(crate) struct NumberedPage<'a> {
    pub number: u32,
    pub bytes: &'a Page,
}

/// Returns key (empty if it stands in the entry) and value of an overflowing entry, in one read.
pub(crate) fn overflow(
    table: Coded<'_>,
    entry: &RawEntry,
    probe: &mut Probe<'_>,
) -> Result<(Vec<u8>, Vec<u8>), Pause> {
    let Some(Overflow { page, key_len }) = entry.overflow else { return Ok((Vec::new(), Vec::new())) };
    let key_len = key_len.unwrap_or(0);
    let length = key_len.saturating_add(entry.value_len);
    let mut payload = read_overflow(table.meta, page, length, probe)?;
    // Mostly there is no key, and what was read is the value.
    let value = if key_len == 0 {
        std::mem::take(&mut payload)
    } else {
        payload.split_off(key_len.min(payload.len()))
    };
    let value = table.value(value).ok_or_else(|| table.malformed(page, probe))?;
    Ok((payload, value))
}

/// Returns the key of an entry whose key overflows; empty if it does not.
pub(crate) fn overflowed_key(
    table: &TableMeta,
    entry: &RawEntry,
    probe: &mut Probe<'_>,
) -> Result<Vec<u8>, Pause> {
    match entry.overflow {
        Some(Overflow { page, key_len: Some(key_len) }) => read_overflow(table, page, key_len, probe),
        _ => Ok(Vec::new()),
    }
}

/// Returns what a page of a table says about `key`; one read more for a value that overflows it, where it is
/// wanted.
pub(crate) fn look_up(
    table: Coded<'_>,
    page: NumberedPage<'_>,
    key: &EncodedKey<'_>,
    probe: &mut Probe<'_>,
) -> Result<Answer, Pause> {
    let mut big = Ok(None);
    let found = find(&page.bytes[..], table.keys(), (key.key, key.digest), |entry| {
        if big.is_err() {
            return false;
        }
        big = if probe.wants.nothing() {
            overflowed_key(table.meta, entry, probe).map(|key| Some((key, Value::Unread)))
        } else {
            overflow(table, entry, probe).map(|(key, value)| Some((key, Value::Copied(value))))
        };
        matches!(&big, Ok(Some((big_key, _))) if big_key == key.key)
    });
    let overflowed = big?;
    let entry = match found {
        Found::Entry(entry) => entry,
        Found::Absent => return Ok(Answer::Absent),
        Found::Damaged => return Err(table.malformed(page.number, probe).into()),
    };
    if entry.is_tombstone() {
        return Ok(Answer::Deleted);
    }
    let value = match (entry.overflow, overflowed) {
        (Some(Overflow { key_len: Some(_), .. }), Some((_, value))) => value,
        (Some(_), _) if probe.wants.nothing() => Value::Unread,
        (Some(_), _) => Value::Copied(overflow(table, &entry, probe)?.1),
        (None, _) => table
            .take_from(probe.wants, page.bytes, entry.value_at..entry.value_at + entry.value_len)
            .ok_or_else(|| table.malformed(page.number, probe))?,
    };
    Ok(if entry.deleted {
        Answer::Operands(value.into_vec())
    } else {
        Answer::Put { value, expires_at_ms: entry.expires_at_ms }
    })
}
