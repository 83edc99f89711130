//! Page indexes of block tables: which one a table has, how it is built, and what it says.
//!
//! An index maps a place in the store's order to the one page that holds it if any does. How its bytes lie is
//! told in `siltstone_succinct::index`, one file per structure.

use super::paged::{PagedBuilder, PagedIndex, Part};
use crate::cache::PAGE_BYTES;
use crate::codec::sort_key;
use siltstone_design::{Digest, IndexSpec, ThirdLevel};
use siltstone_succinct::error::DecodeError;
use siltstone_succinct::index::cells::{Cells, CellsBuilder, Place};
use siltstone_succinct::index::leveldb::{Form, LevelDbBuilder, LevelDbIndex};
use siltstone_succinct::index::separators::{Separators, SeparatorsBuilder};
use siltstone_succinct::index::three_level::{self, ThreeLevelBuilder, ThreeLevelIndex};
use std::ops::RangeInclusive;

/// Where an index sends a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To a data page.
    Page(u32),
    /// To a part of the index that lies on the device.
    Part(Part),
}

/// A table's page index in memory.
pub(crate) enum PageIndex {
    Separators(Separators),
    LevelDb(LevelDbIndex),
    ThreeLevel(Box<ThreeLevelIndex>),
    Paged(PagedIndex),
    Cells(Box<Cells>),
}

impl PageIndex {
    /// Decodes the index of a table laid out as `spec` says.
    pub fn from_bytes(spec: IndexSpec, bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(match spec {
            IndexSpec::Cells => Self::Cells(Box::new(Cells::from_bytes(bytes)?)),
            IndexSpec::Paged => Self::Paged(PagedIndex::from_bytes(bytes)?),
            IndexSpec::ThreeLevel { .. } => Self::ThreeLevel(Box::new(ThreeLevelIndex::from_bytes(bytes)?)),
            IndexSpec::LastKeys | IndexSpec::LocatedSeparators => {
                Self::LevelDb(LevelDbIndex::from_bytes(bytes)?)
            }
            // A checked design gives every block table an index.
            IndexSpec::Separators | IndexSpec::None => Self::Separators(Separators::from_bytes(bytes)?),
        })
    }

    /// The way to the place `(digest, key)`.
    #[inline]
    pub fn route(&self, digest: Digest, key: &[u8]) -> Route {
        match self {
            Self::Separators(index) => Route::Page(with_sort_key(digest, key, |place| index.find(place))),
            Self::LevelDb(index) => Route::Page(with_sort_key(digest, key, |place| index.find(place))),
            Self::ThreeLevel(index) => Route::Page(index.find(digest.hi, digest.lo, key)),
            Self::Cells(index) => Route::Page(index.find(Place { hi: digest.hi, lo: digest.lo, key })),
            Self::Paged(index) => {
                let part = with_sort_key(digest, key, |place| index.part(place));
                part.map_or(Route::Page(0), Route::Part)
            }
        }
    }
}

impl PageIndex {
    /// The pages among which the first entry at or after a place that no entry has may be, where
    /// [`PageIndex::route`] leads only the places of entries to their pages; `None` where it leads all places
    /// right.
    pub fn uncertainty(&self, digest: Digest) -> Option<RangeInclusive<u32>> {
        match self {
            Self::Separators(_) | Self::LevelDb(_) | Self::Paged(_) => None,
            Self::ThreeLevel(index) => {
                let (first, last) = index.span(digest.hi);
                Some(first..=last)
            }
            Self::Cells(index) => index.split_pages(digest.hi),
        }
    }
}

/// Calls `search` with the place as bytes, without allocating for keys of common lengths.
#[inline]
pub(crate) fn with_sort_key<T>(digest: Digest, key: &[u8], search: impl FnOnce(&[u8]) -> T) -> T {
    let mut buffer = [0u8; 256];
    let Some(short) = buffer.get_mut(..16 + key.len()) else {
        return search(&sort_key(digest, key));
    };
    let (hi, rest) = short.split_at_mut(8);
    let (lo, tail) = rest.split_at_mut(8);
    hi.copy_from_slice(&digest.hi.to_be_bytes());
    lo.copy_from_slice(&digest.lo.to_be_bytes());
    tail.copy_from_slice(key);
    search(short)
}

/// Gathers the pages of a table for its index.
pub(crate) enum PageIndexBuilder {
    Separators(SeparatorsBuilder),
    LevelDb(LevelDbBuilder),
    ThreeLevel(ThreeLevelBuilder),
    Paged(PagedBuilder),
    Cells(CellsBuilder),
}

/// Cells for each page that is expected. More make larger numbers; fewer leave more room unused at the ends
/// of pages: at 64 and 40 hashed keys a page it is 0.8 %.
const CELLS_PER_PAGE: u128 = 64;

impl PageIndexBuilder {
    /// A builder of what `spec` says, for pages that begin about `digests_per_page` apart.
    pub fn new(spec: IndexSpec, digests_per_page: u64) -> Self {
        match spec {
            IndexSpec::Cells => {
                let cells = (CELLS_PER_PAGE << 64) / u128::from(digests_per_page.max(1));
                Self::Cells(CellsBuilder::new(u64::try_from(cells).unwrap_or(u64::MAX)))
            }
            IndexSpec::Paged => Self::Paged(PagedBuilder::default()),
            IndexSpec::ThreeLevel { third } => Self::ThreeLevel(ThreeLevelBuilder::new(match third {
                ThirdLevel::EntropyTrie => three_level::ThirdLevel::EntropyTrie,
                ThirdLevel::PartialSuffixes => three_level::ThirdLevel::PartialSuffixes,
            })),
            IndexSpec::LastKeys => Self::LevelDb(LevelDbBuilder::new(Form::FullKeys)),
            IndexSpec::LocatedSeparators => Self::LevelDb(LevelDbBuilder::new(Form::KeyCompressed)),
            IndexSpec::Separators | IndexSpec::None => Self::Separators(SeparatorsBuilder::new()),
        }
    }

    /// Notes the next entry of the page being filled; `previous` is the place of the one before.
    #[inline]
    pub fn add_entry(&mut self, digest: Digest, key: &[u8], previous: (Digest, &[u8])) {
        match self {
            Self::ThreeLevel(builder) => builder.push(digest.hi, digest.lo),
            Self::Cells(builder) => {
                let shared = if digest == previous.0 { common_prefix(key, previous.1) } else { 0 };
                builder.push(Place { hi: digest.hi, lo: digest.lo, key }, shared);
            }
            Self::Separators(_) | Self::LevelDb(_) | Self::Paged(_) => {}
        }
    }

    /// Whether the next entry, with this digest, begins a cell: a page had better end before it. Always where
    /// the index does not care.
    #[inline]
    pub fn begins_cell(&self, digest: Digest) -> bool {
        match self {
            Self::Cells(builder) => builder.begins_cell(digest.hi),
            _ => true,
        }
    }

    /// Takes the entries of the open cell off the page being filled, which ends before them; they are the
    /// first of the next.
    pub fn end_page_before_cell(&mut self) {
        if let Self::Cells(builder) = self {
            builder.end_page_before_cell();
        }
    }

    /// Adds the next page, which is file page `number`, with the places of its first and last entry.
    pub fn add_page(&mut self, first: &[u8], last: &[u8], number: u32) {
        match self {
            Self::Separators(builder) => builder.add_page(first, last),
            Self::LevelDb(builder) => {
                let bytes = PAGE_BYTES as u64;
                builder.add_page(first, last, u64::from(number) * bytes, bytes);
            }
            Self::ThreeLevel(builder) => {
                // Behind the digest, which its entries were noted with.
                let (first, last) = (first.get(16..), last.get(16..));
                builder.finish_page(first.unwrap_or(&[]), last.unwrap_or(&[]));
            }
            Self::Paged(builder) => builder.add_page(first, last),
            Self::Cells(builder) => builder.end_page(),
        }
    }

    /// Appends the index's bytes; what is to lie in pages of its own is handed to `write`, which returns the
    /// first page.
    pub fn finish<E>(self, out: &mut Vec<u8>, write: impl FnMut(&[u8]) -> Result<u32, E>) -> Result<(), E> {
        match self {
            Self::Separators(builder) => builder.finish().to_bytes(out),
            Self::LevelDb(builder) => builder.finish().to_bytes(out),
            Self::ThreeLevel(builder) => builder.finish().to_bytes(out),
            Self::Paged(builder) => builder.finish(out, write)?,
            Self::Cells(builder) => builder.finish().to_bytes(out),
        }
        Ok(())
    }
}

/// How many leading bytes two keys share.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (words, others) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let mut shared = 0;
    for (word, other) in words.iter().zip(others) {
        let differing = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return shared + differing.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    let (rest, others) = (a.get(shared..).unwrap_or(&[]), b.get(shared..).unwrap_or(&[]));
    shared + rest.iter().zip(others).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn common_prefixes_end_where_bytes_differ(
            shared in proptest::collection::vec(any::<u8>(), 0..40),
            a in proptest::collection::vec(any::<u8>(), 0..20),
            b in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let (a, b) = ([&shared[..], &a].concat(), [&shared[..], &b].concat());
            let expected = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_prefix(&a, &b), expected);
        }
    }
}
