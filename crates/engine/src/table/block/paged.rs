//! An index whose separators lie in pages of their own on the device; memory holds one separator per part.
//!
//! Source: the rows of SlimDB's Table 1 (VLDB'17 §4) without an index in memory, which pay one read for the
//! index block and one for the data block; LevelDB's index blocks and RocksDB's partitioned index do the
//! same. Parts are read through the page cache like any page, so a store with memory to spare keeps the parts
//! it uses.
//!
//! ```text
//! part     the separators of up to 64 neighbouring pages (siltstone_succinct::index::separators), in overflow pages
//! section  length varint · separators between parts · per part: data pages varint · first page varint · bytes varint
//! ```
//!
//! Invariants: parts cover the data pages in order without gaps; a part has at least one page.

use crate::codec::Decoder;
use siltstone_succinct::code::varint;
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::index::separators::{Separators, SeparatorsBuilder};

/// Most data pages per part.
const PART_PAGES: u32 = 64;
/// Bytes at which a part is closed early: it is to fit one page.
const PART_BYTES: usize = 3500;

/// Where a part lies, and the data pages it tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Number of its first data page.
    pub first_data_page: u32,
    pub data_pages: u32,
    /// First of its pages in the file, and its length.
    pub page: u32,
    pub bytes: u32,
}

/// Gathers separators part by part.
#[derive(Debug, Default)]
pub(crate) struct PagedBuilder {
    top: SeparatorsBuilder,
    parts: Vec<SeparatorsBuilder>,
    /// First key of the open part, last key so far.
    first: Vec<u8>,
    last: Vec<u8>,
}

impl PagedBuilder {
    /// Adds the next page with its first and last key.
    pub fn add_page(&mut self, first: &[u8], last: &[u8]) {
        let is_full = |part: &SeparatorsBuilder| {
            part.pages() >= PART_PAGES || part.encoded_bytes() + first.len() + 8 > PART_BYTES
        };
        if self.parts.last().is_none_or(|part| part.pages() > 0 && is_full(part)) {
            self.close_part();
            self.parts.push(SeparatorsBuilder::new());
            self.first = first.to_vec();
        }
        if let Some(part) = self.parts.last_mut() {
            part.add_page(first, last);
        }
        self.last.clear();
        self.last.extend_from_slice(last);
    }

    fn close_part(&mut self) {
        if !self.parts.is_empty() {
            self.top.add_page(&self.first, &self.last);
        }
    }

    /// Writes the parts with `write`, which returns the first page of what it is given, then appends the
    /// section to `out`.
    pub fn finish<E>(
        mut self,
        out: &mut Vec<u8>,
        mut write: impl FnMut(&[u8]) -> Result<u32, E>,
    ) -> Result<(), E> {
        self.close_part();
        let mut top = Vec::new();
        self.top.finish().to_bytes(&mut top);
        varint::put_u64(out, top.len() as u64);
        out.extend_from_slice(&top);
        for part in self.parts {
            let mut bytes = Vec::new();
            let pages = part.pages();
            part.finish().to_bytes(&mut bytes);
            let page = write(&bytes)?;
            for number in [pages, page, bytes.len() as u32] {
                varint::put_u64(out, u64::from(number));
            }
        }
        Ok(())
    }
}

/// What of a paged index is kept in memory.
#[derive(Debug)]
pub(crate) struct PagedIndex {
    top: Separators,
    parts: Vec<Part>,
}

impl PagedIndex {
    /// Decodes the section.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let wrong = |found: &str| DecodeError::new("paged index", "parts that cover the data pages", found);
        let mut from = Decoder::new(bytes);
        let top = from.bytes().ok_or_else(|| wrong("a cut-off top level"))?;
        let top = Separators::from_bytes(top)?;
        let (mut parts, mut data_page) = (Vec::new(), 0u32);
        while !from.is_empty() {
            let mut number = || from.varint().and_then(|n| u32::try_from(n).ok());
            let (Some(data_pages), Some(page), Some(bytes)) = (number(), number(), number()) else {
                return Err(wrong("a malformed part"));
            };
            parts.push(Part { first_data_page: data_page, data_pages, page, bytes });
            data_page = data_page
                .checked_add(data_pages)
                .filter(|_| data_pages > 0)
                .ok_or_else(|| wrong("parts that do not add up"))?;
        }
        if parts.len() != top.pages() as usize {
            return Err(wrong("a top level for another number of parts"));
        }
        Ok(Self { top, parts })
    }

    /// The part that leads to the page of `key`; `None` where there is none.
    pub fn part(&self, key: &[u8]) -> Option<Part> {
        self.parts.get(self.top.find(key) as usize).copied()
    }

    /// The data pages that all parts lead to.
    #[cfg(test)]
    fn data_pages(&self) -> u32 {
        self.parts.last().map_or(0, |part| part.first_data_page + part.data_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Vec<u8> {
        format!("key {number:06}").into_bytes()
    }

    #[test]
    fn every_page_is_found_through_its_part() {
        for pages in [0u32, 1, 63, 64, 65, 1000] {
            let mut builder = PagedBuilder::default();
            (0..pages).for_each(|page| builder.add_page(&key(page * 10), &key(page * 10 + 9)));
            let (mut section, mut written) = (Vec::new(), Vec::new());
            builder
                .finish(&mut section, |bytes| {
                    written.push(bytes.to_vec());
                    Ok::<_, ()>(written.len() as u32 - 1)
                })
                .unwrap();
            let index = PagedIndex::from_bytes(&section).unwrap();
            assert_eq!(index.data_pages(), pages);
            for number in 0..pages * 10 {
                let part = index.part(&key(number)).unwrap();
                let separators = Separators::from_bytes(&written[part.page as usize]).unwrap();
                assert_eq!(part.first_data_page + separators.find(&key(number)), number / 10);
            }
            for cut in 0..section.len() {
                // Cut between two parts it is well-formed, but for another number of parts.
                assert!(PagedIndex::from_bytes(&section[..cut]).is_err(), "{cut} of {}", section.len());
            }
        }
    }
}
