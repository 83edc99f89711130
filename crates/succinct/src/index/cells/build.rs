//! Builds a cell index from a table's entries and where its pages end.

use super::splits::{Splits, put_split};
use super::{Cells, MAX_SCALE, Place, cell_of};
use crate::bits::sorted_lines::{Geometry, Group, SortedLinesBuilder};

fn digest_of(place: Place<'_>) -> u128 {
    u128::from(place.hi) << 64 | u128::from(place.lo)
}

/// Bytes that two places have in common whose keys, if the digests are equal, share `shared`.
fn shared_bytes(a: u128, b: u128, shared: usize) -> usize {
    (a ^ b).leading_zeros() as usize / 8 + if a == b { shared } else { 0 }
}

/// Builds a [`Cells`] from entries in order.
///
/// Whoever fills the pages asks [`CellsBuilder::begins_cell`] where he may end them at no cost.
#[derive(Debug, Clone)]
pub struct CellsBuilder {
    scale: u64,
    /// Entries so far: the first one's cell, the last one's, and its digest.
    first_cell: Option<u64>,
    cell: u64,
    previous: u128,
    /// The digest that the open cell begins with.
    cell_begin: u128,
    /// The last cell in which digests are equal, and bytes that keys with equal ones share there.
    tied_cell: u64,
    tied_shared: usize,
    /// Whether the next entry begins a page.
    ended: bool,
    pages: u32,
    /// First cells of the pages but the first.
    starts: Vec<Group>,
    /// Splits of closed cells, and of the open one, in full, each with its end.
    splits: Vec<u8>,
    open_splits: Vec<u8>,
    open_ends: Vec<usize>,
}

impl CellsBuilder {
    /// A builder with about `cells` cells in the whole space of digests: some 64 for each page that would
    /// fill it.
    ///
    /// Fewer make smaller numbers, but pages have to end earlier to end with a cell, or split one.
    pub fn new(cells: u64) -> Self {
        Self {
            scale: cells.clamp(1, MAX_SCALE),
            first_cell: None,
            cell: 0,
            previous: 0,
            cell_begin: 0,
            tied_cell: u64::MAX,
            tied_shared: 0,
            ended: false,
            pages: 0,
            starts: Vec::new(),
            splits: Vec::new(),
            open_splits: Vec::new(),
            open_ends: Vec::new(),
        }
    }

    /// Whether an entry with upper digest half `hi` would lie in another cell than the last one.
    #[inline]
    pub fn begins_cell(&self, hi: u64) -> bool {
        self.first_cell.is_none() || cell_of(hi, self.scale) != self.cell
    }

    /// Adds the next entry. `shared` is how many bytes its key has in common with that of the entry before;
    /// it is looked at only where both have the same digest.
    ///
    /// # Panics
    ///
    /// If the entry's digest is below the last one's, or if there are 2^32 - 1 pages already.
    #[inline]
    pub fn push(&mut self, place: Place<'_>, shared: usize) {
        let digest = digest_of(place);
        let cell = cell_of(place.hi, self.scale);
        if self.first_cell.is_none() {
            (self.first_cell, self.cell, self.pages) = (Some(cell), cell, 1);
            (self.cell_begin, self.previous) = (digest, digest);
            self.ended = false;
            return;
        }
        assert!(self.previous <= digest, "push: entries must ascend");
        // Most entries begin a cell, by chance, and some do not: what every entry needs is done without
        // asking.
        let begins_cell = cell != self.cell;
        if self.ended | (digest == self.previous) | (begins_cell & !self.open_ends.is_empty()) {
            self.note(place, shared, begins_cell);
        }
        self.cell_begin = if begins_cell { digest } else { self.cell_begin };
        self.cell = cell;
        self.previous = digest;
    }

    /// Adds what an entry says of pages and splits.
    #[inline(never)]
    fn note(&mut self, place: Place<'_>, shared: usize, begins_cell: bool) {
        let cell = cell_of(place.hi, self.scale);
        let number = cell - self.first_cell.unwrap_or(0);
        let is_first = std::mem::take(&mut self.ended);
        if begins_cell {
            self.close_cell();
        } else if digest_of(place) == self.previous {
            let so_far = if self.tied_cell == cell { self.tied_shared } else { usize::MAX };
            (self.tied_cell, self.tied_shared) = (cell, so_far.min(shared));
        }
        if is_first {
            self.start_page(number, !begins_cell);
            if !begins_cell {
                self.split_at(place, shared_bytes(self.previous, digest_of(place), shared));
            }
        }
    }

    /// Keeps the part of a page's first place that tells it from the place before, with which it shares
    /// `shared` bytes.
    fn split_at(&mut self, place: Place<'_>, shared: usize) {
        let bytes = place.hi.to_be_bytes().into_iter().chain(place.lo.to_be_bytes());
        self.open_splits.extend(bytes.chain(place.key.iter().copied()).take(shared + 1));
        self.open_ends.push(self.open_splits.len());
    }

    fn start_page(&mut self, cell: u64, is_inside: bool) {
        assert!(self.pages < u32::MAX, "a table has at most 2^32 - 1 pages");
        self.pages += 1;
        let (plain, marks) = (u32::from(!is_inside), u32::from(is_inside));
        match self.starts.last_mut() {
            Some(last) if last.value == cell => {
                last.plain += plain;
                last.marks += marks;
            }
            _ => self.starts.push(Group { value: cell, plain, marks }),
        }
    }

    fn close_cell(&mut self) {
        if self.open_ends.is_empty() {
            return;
        }
        // Places ascend: what the first and the last share, all do.
        let shared = shared_bytes(self.cell_begin, self.previous, self.tied_shared);
        let mut from = 0;
        for end in self.open_ends.drain(..) {
            put_split(&mut self.splits, shared, self.open_splits.get(from..end).unwrap_or(&[]));
            from = end;
        }
        self.open_splits.clear();
    }

    /// Ends the page after the last entry: the next one begins another.
    pub fn end_page(&mut self) {
        self.ended = self.first_cell.is_some();
    }

    /// Ends the page before the open cell, whose entries, all that were added since
    /// [`CellsBuilder::begins_cell`] was last true, so are on the next page. There must be others on the page
    /// before them.
    pub fn end_page_before_cell(&mut self) {
        if let Some(first_cell) = self.first_cell {
            self.start_page(self.cell - first_cell, false);
        }
        self.ended = false;
    }

    /// Freezes the index.
    pub fn finish(mut self) -> Cells {
        self.close_cell();
        let mut starts = SortedLinesBuilder::new(Geometry::smallest(&self.starts));
        self.starts.iter().for_each(|group| starts.push(*group));
        let starts = starts.finish();
        let splits = Splits::new(self.splits);
        Cells {
            pages: self.pages,
            scale: self.scale,
            first_cell: self.first_cell.unwrap_or(0),
            starts,
            splits,
        }
    }
}
