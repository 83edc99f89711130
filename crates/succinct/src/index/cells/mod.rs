//! The cell index: which page of a table holds a hashed key, in about nine bits per page and one cache miss.
//!
//! The idea: the space of digests is cut into equal cells, some 64 for each page that is expected, and pages
//! are cut at the borders of cells. A border is then a small integer instead of a key, and integers that lie
//! evenly cost little more than the logarithm of their distance
//! ([`sorted_lines`](crate::bits::sorted_lines)).
//!
//! Source: ours. Work to compare with: PaCHash (Kurpicz, Lehmann and Sanders, ALENEX 2023), which keeps the
//! first bin of each page in an Elias-Fano list, reads as many pages as a bin touches, and takes some five
//! bits per page. We read one: a cell is not cut where the page before can as well end a few entries earlier
//! ([`CellsBuilder::end_page_before_cell`]). The floor for pages of k hashed keys is ½ log2(2πk) bits each, 4
//! bits at k = 40.
//!
//! Where a cell has to be cut (a group of keys under one prefix's hash that is larger than a page, or many
//! keys by chance), the page that begins inside it is marked, and a *split* tells it from the page before: as
//! many bytes of the first key's place as are needed, without those that all keys of the cell share
//! (`splits.rs`).
//!
//! A place is the digest's halves, big-endian, and the key. Cell number c of a digest with upper half h is
//! the upper half of the 128-bit product `h * scale`, so any number of cells is possible; cells are numbered
//! from that of the first entry.
//!
//! ```text
//!  0            4             12                  20             28
//! +------------+-------------+-------------------+--------------+--------+---------------------+
//! | pages: u32 | scale: u64  | first cell: u64   | splits: u64  | splits | SortedLines         |
//! +------------+-------------+-------------------+--------------+--------+---------------------+
//!                                                 bytes of         one integer for each page but the first: the cell
//!                                                 the splits       of its first entry, marked if the cell begins before
//! ```
//!
//! Invariants: each *stored* place is found on its page. So is where a walk from any other place has to
//! begin, unless [`Cells::split_pages`] names pages for it.

mod build;
mod splits;

pub use build::CellsBuilder;

use crate::bits::sorted_lines::{Found, SortedLines};
use crate::error::DecodeError;
use splits::Splits;
use std::ops::RangeInclusive;

/// Most cells in the whole space of digests.
const MAX_SCALE: u64 = 1 << 62;
const HEADER_BYTES: usize = 28;

/// The cell of a digest with upper half `hi`, counted from the start of the space.
#[inline]
fn cell_of(hi: u64, scale: u64) -> u64 {
    ((u128::from(hi) * u128::from(scale)) >> 64) as u64
}

/// A place in a table's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place<'a> {
    /// Upper half of the key's digest.
    pub hi: u64,
    /// Lower half.
    pub lo: u64,
    /// The key.
    pub key: &'a [u8],
}

/// The index of a table's pages, by cells of their digests.
///
/// ```
/// use siltstone_succinct::index::cells::{Cells, CellsBuilder, Place};
///
/// let places: Vec<Place> = (0..100).map(|n: u64| Place { hi: n << 57, lo: 0, key: b"" }).collect();
/// let mut builder = CellsBuilder::new(64 * 10);
/// for (number, place) in places.iter().enumerate() {
///     if number % 10 == 0 && number > 0 {
///         builder.end_page();
///     }
///     builder.push(*place, 0);
/// }
/// let index = builder.finish();
/// assert_eq!((index.pages(), index.find(places[57])), (10, 5));
///
/// let mut bytes = Vec::new();
/// index.to_bytes(&mut bytes);
/// assert_eq!(Cells::from_bytes(&bytes)?, index);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells {
    pages: u32,
    scale: u64,
    first_cell: u64,
    starts: SortedLines,
    splits: Splits,
}

impl Cells {
    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Pages that begin inside a cell.
    pub fn splits(&self) -> u32 {
        self.starts.marks()
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<SortedLines>() - size_of::<Splits>()
            + self.starts.memory_bytes()
            + self.splits.memory_bytes()
    }

    /// The cell of `hi`, as the list counts them; `None` before the first.
    #[inline]
    fn cell(&self, hi: u64) -> Option<u64> {
        cell_of(hi, self.scale).checked_sub(self.first_cell)
    }

    /// The page that holds `place` if any does.
    #[inline]
    pub fn find(&self, place: Place<'_>) -> u32 {
        let Some(cell) = self.cell(place.hi) else { return 0 };
        let Found { before, equal, marks_before, marks } = self.starts.find(cell);
        if marks == 0 {
            return before + equal;
        }
        before + (equal - marks) + self.splits.find(marks_before, marks, place)
    }

    /// Answers [`Cells::find`] for each of `places` into the same place of `pages`.
    ///
    /// All lines are asked for before the first is read, so that their cache misses overlap.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn find_many(&self, places: &[Place<'_>], pages: &mut [u32]) {
        assert_eq!(places.len(), pages.len(), "find_many: one page per place");
        for (places, pages) in places.chunks(BATCH).zip(pages.chunks_mut(BATCH)) {
            let touched = places
                .iter()
                .fold(0, |all, place| all ^ self.starts.prefetch(self.cell(place.hi).unwrap_or(0)));
            std::hint::black_box(touched);
            for (place, page) in places.iter().zip(pages) {
                *page = self.find(*place);
            }
        }
    }

    /// The pages among which the first entry at or after an absent place with upper half `hi` may be, where
    /// [`Cells::find`] is sure of stored places only; `None` where it is sure of all.
    pub fn split_pages(&self, hi: u64) -> Option<RangeInclusive<u32>> {
        let Found { before, equal, marks, .. } = self.starts.find(self.cell(hi)?);
        let first = before + (equal - marks);
        (marks > 0).then(|| first..=first + marks)
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pages.to_le_bytes());
        out.extend_from_slice(&self.scale.to_le_bytes());
        out.extend_from_slice(&self.first_cell.to_le_bytes());
        out.extend_from_slice(&(self.splits.bytes().len() as u64).to_le_bytes());
        out.extend_from_slice(self.splits.bytes());
        self.starts.to_bytes(out);
    }

    /// Decodes what [`Cells::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If the parts are malformed or do not fit one another.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let wrong = |expected: &str, found: &dyn std::fmt::Display| {
            DecodeError::new("cell index", expected, found.to_string())
        };
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(|| wrong("a header of 28 bytes", &format_args!("{} bytes", bytes.len())))?;
        let [p0, p1, p2, p3, numbers @ ..] = *header;
        let pages = u32::from_le_bytes([p0, p1, p2, p3]);
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut number = || numbers.next().unwrap_or(0);
        let (scale, first_cell, splits) = (number(), number(), number());
        if scale > MAX_SCALE || first_cell > scale {
            return Err(wrong("cells within the space of digests", &format_args!("{first_cell} of {scale}")));
        }
        let splits = usize::try_from(splits).unwrap_or(usize::MAX);
        let (splits, lines) =
            rest.split_at_checked(splits).ok_or_else(|| wrong("all splits", &"a cut-off part of them"))?;
        let (starts, rest) = SortedLines::from_front(lines)?;
        if !rest.is_empty() {
            return Err(wrong("nothing behind the lines", &format_args!("{} bytes", rest.len())));
        }
        if starts.len() != pages.saturating_sub(1) {
            return Err(wrong("a border for each page but the first", &starts.len()));
        }
        if starts.groups().any(|group| group.plain > 1) {
            return Err(wrong("at most one page that begins a cell", &"several"));
        }
        let splits = Splits::from_bytes(splits, starts.marks())?;
        Ok(Self { pages, scale, first_cell, starts, splits })
    }
}

/// Places that [`Cells::find_many`] keeps in flight.
const BATCH: usize = 32;
