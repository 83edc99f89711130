//! Lookups in a block table: filter, index, one page.
//!
//! Index and filter are loaded at first use if the memory budget has room. Without the filter a lookup reads the page it
//! might have been spared; without the index it searches the pages by halves, which the page cache makes bearable.

use super::page::{Found, Overflow, PAYLOAD_BYTES, RawEntry, decode, find, page_header};
use crate::cache::{PAGE_BYTES, Page, Reader};
use crate::codec::Decoder;
use crate::entry::Lookup;
use crate::error::{Error, Result};
use crate::memory::{Holder, Reservation};
use crate::stats::ReadTrace;
use crate::table::envelope::{PAGE_HEADER_BYTES, Section, TableMeta};
use crate::table::sort_key;
use siltstone_design::{Digest, EncodedKey, Encoder};
use siltstone_succinct::bits::rank_select::RankSelect;
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::filter::bloom::Bloom;
use siltstone_succinct::index::separators::Separators;
use std::sync::OnceLock;

/// A structure kept in memory with its share of the budget.
type Resident<T> = OnceLock<(T, Reservation)>;

/// An open block table.
pub(crate) struct BlockTable {
    pub meta: TableMeta,
    index: Resident<Separators>,
    filter: Resident<Bloom>,
    page_map: Resident<RankSelect>,
}

/// Part of the budget that filters leave to indexes and pages, and indexes to pages.
const KEPT_FROM_FILTERS: u64 = 4;
const KEPT_FROM_INDEXES: u64 = 16;

impl BlockTable {
    pub fn new(meta: TableMeta) -> Self {
        Self { meta, index: OnceLock::new(), filter: OnceLock::new(), page_map: OnceLock::new() }
    }

    /// A section's checked bytes.
    pub fn section(&self, section: &Section, reader: &Reader) -> Result<Vec<u8>> {
        let bytes = reader.section(self.meta.id, section.offset, section.length as usize)?;
        let found = crc32c::crc32c(&bytes);
        if found == section.crc {
            return Ok(bytes);
        }
        Err(Error::corruption(
            reader.path(self.meta.id).display(),
            section.offset,
            format_args!("a section with checksum {:08x}", section.crc),
            format_args!("{found:08x}"),
        ))
    }

    fn damaged(&self, offset: u64, error: &DecodeError, reader: &Reader) -> Error {
        Error::corruption(reader.path(self.meta.id).display(), offset, error.expected(), error.found())
    }

    fn load<'a, T>(
        &self,
        slot: &'a Resident<T>,
        section: &Section,
        holder: Holder,
        keep_free: Option<u64>,
        reader: &Reader,
        decode: impl Fn(&[u8]) -> std::result::Result<T, DecodeError>,
    ) -> Result<Option<&'a T>> {
        if let Some((loaded, _)) = slot.get() {
            return Ok(Some(loaded));
        }
        // What the structure takes in memory differs little from its encoding.
        let held = match keep_free {
            Some(keep_free) => reader.memory().try_hold(holder, section.length, keep_free),
            None => Some(reader.memory().hold(holder, section.length)),
        };
        let Some(held) = held else { return Ok(None) };
        let bytes = self.section(section, reader)?;
        let decoded = decode(&bytes).map_err(|e| self.damaged(section.offset, &e, reader))?;
        reader.fit_cache();
        Ok(Some(&slot.get_or_init(|| (decoded, held)).0))
    }

    /// The filter, if the table has one and it fits the budget.
    pub fn filter(&self, reader: &Reader) -> Result<Option<&Bloom>> {
        if self.meta.filter.length == 0 {
            return Ok(None);
        }
        let keep = reader.memory().total_bytes() / KEPT_FROM_FILTERS;
        self.load(&self.filter, &self.meta.filter, Holder::Filter, Some(keep), reader, Bloom::from_bytes)
    }

    /// The index, if it fits the budget.
    pub fn index(&self, reader: &Reader) -> Result<Option<&Separators>> {
        let keep = reader.memory().total_bytes() / KEPT_FROM_INDEXES;
        self.load(&self.index, &self.meta.index, Holder::Index, Some(keep), reader, Separators::from_bytes)
    }

    /// The file page of data page `number`.
    pub fn file_page(&self, number: u32, reader: &Reader) -> Result<u32> {
        if self.meta.data_pages == self.meta.pages {
            return Ok(number);
        }
        let decode = RankSelect::from_bytes;
        let map = self.load(&self.page_map, &self.meta.page_map, Holder::Index, None, reader, decode)?;
        map.and_then(|map| map.select1(number as usize)).and_then(|page| u32::try_from(page).ok()).ok_or_else(
            || {
                let path = reader.path(self.meta.id);
                Error::corruption(
                    path.display(),
                    self.meta.page_map.offset,
                    "a page map",
                    "too few pages in it",
                )
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
            let mut buffer = [0u8; 256];
            let Some(short) = buffer.get_mut(..16 + key.len()) else {
                return Ok(index.find(&sort_key(digest, key)));
            };
            let (hi, rest) = short.split_at_mut(8);
            let (lo, tail) = rest.split_at_mut(8);
            hi.copy_from_slice(&digest.hi.to_be_bytes());
            lo.copy_from_slice(&digest.lo.to_be_bytes());
            tail.copy_from_slice(key);
            return Ok(index.find(short));
        }
        // The last page whose first entry is not past the place.
        let (mut low, mut high) = (0, self.meta.data_pages.max(1));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let page = self.file_page(middle, reader)?;
            let bytes = reader.page(self.meta.id, page, trace)?;
            if self.first_place(&bytes, page, encoder, reader, trace)? <= sort_key(digest, key) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
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
        let tail = self.slice(bytes, entry.tail_at, entry.tail_len, page, reader)?;
        if let Some(Overflow { key_len: Some(_), .. }) = entry.overflow {
            let digest = Decoder::new(tail).digest().unwrap_or_default();
            let (key, _) = self.overflow(&entry, reader, trace)?;
            return Ok(sort_key(digest, &key));
        }
        Ok(sort_key(encoder.encode(tail)?.digest, tail))
    }

    pub fn page_nonsense(&self, page: u32, reader: &Reader) -> Error {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        Error::corruption(
            reader.path(self.meta.id).display(),
            offset,
            "a page of entries",
            "malformed entries",
        )
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
        let Some(Overflow { page, key_len }) = entry.overflow else { return Ok((Vec::new(), Vec::new())) };
        let key_len = key_len.unwrap_or(0);
        let payload_len = key_len.saturating_add(entry.value_len);
        let pages = payload_len.div_ceil(PAYLOAD_BYTES);
        if u64::from(page) + pages as u64 > u64::from(self.meta.pages) {
            return Err(self.page_nonsense(page, reader));
        }
        let mut raw = vec![0; pages * PAGE_BYTES];
        reader.pages_for_lookup(self.meta.id, page, &mut raw, trace)?;
        let mut payload = Vec::with_capacity(pages * PAYLOAD_BYTES);
        for bytes in raw.chunks_exact(PAGE_BYTES) {
            payload.extend_from_slice(bytes.get(PAGE_HEADER_BYTES..).unwrap_or(&[]));
        }
        payload.truncate(payload_len);
        let value = payload.split_off(key_len.min(payload.len()));
        Ok((payload, value))
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
        let mut filtered = false;
        if let Some(filter) = self.filter(reader)? {
            trace.filter_probes += 1;
            if !filter.may_contain(key.fingerprint) {
                return Ok(Lookup::Absent);
            }
            filtered = true;
        }
        let number =
            self.file_page(self.find_page((key.digest, key.key), encoder, reader, trace)?, reader)?;
        let page = reader.page(self.meta.id, number, trace)?;
        let mut big = Ok(None);
        let found = find(&page[..], key.key, key.digest, |entry| {
            if big.is_err() {
                return false;
            }
            big = self.overflow(entry, reader, trace).map(Some);
            matches!(&big, Ok(Some((big_key, _))) if big_key == key.key)
        });
        let overflowed = big?;
        let entry = match found {
            Found::Entry(entry) => entry,
            Found::Absent => {
                trace.false_positives += u64::from(filtered);
                return Ok(Lookup::Absent);
            }
            Found::Damaged => return Err(self.page_nonsense(number, reader)),
        };
        if entry.deleted {
            return Ok(Lookup::Deleted);
        }
        let value = match (entry.overflow, overflowed) {
            (Some(Overflow { key_len: Some(_), .. }), Some((_, value))) => value,
            (Some(_), _) => self.overflow(&entry, reader, trace)?.1,
            (None, _) => self.slice(&page, entry.value_at, entry.value_len, number, reader)?.to_vec(),
        };
        Ok(Lookup::Put { value, expires_at_ms: entry.expires_at_ms })
    }
}
