//! Bloom clusters: the filters of all runs for one stretch of digests side by side, so that one read fetches
//! them all.
//!
//! The digests of a region are spread to *columns*. A run has one small Bloom filter per column, its *row*;
//! what all rows have in one column is a *box*. Boxes lie in pages on the device; a lookup reads the box of
//! its key's column and learns which of the region's runs may have the key.
//!
//! Source: LSM-trie (Wu et al., ATC'15), "Clustering Bloom filters". Where we differ, and why:
//!
//! - There a column is a bucket of the tables, boxes are as large as their filters, and memory holds the last
//!   bucket of every page. Here a column is a part of the digest space, whatever tables lie there, and a
//!   row's filters are equally large; so all boxes are, and a column's place follows from its number: nothing
//!   is held in memory. Digests are uniform; what a crowded column loses is noted in the tests.
//! - A cluster is never changed, but may be written again with more rows: rows not written yet are held in
//!   memory.
//!
//! ```text
//! shape   ┌──────────────┬───────────┬─────────────────────────────┐
//!         │ columns: u32 │ rows: u16 │ per row: hashes u8 · width u16 │
//!         └──────────────┴───────────┴─────────────────────────────┘
//! box     ┌──────────────┬──────────────┬─────┐
//!         │ row 0: width │ row 1: width │ ... │      several boxes to a page, or a box over several pages
//!         └──────────────┴──────────────┴─────┘
//! row     ┌──────────────┬────────────┬────────────┬───────────────┬─────┐
//!         │ columns: u32 │ hashes: u8 │ width: u16 │ column 0: width │ ... │      a row by itself
//!         └──────────────┴────────────┴────────────┴───────────────┴─────┘
//! ```

use super::bloom::{MAX_HASHES, hashes_for};
use super::bucket_blooms::{passes, set};
use crate::error::DecodeError;

/// Rows of a cluster at most: answers are bits of a `u128`.
pub const MOST_ROWS: usize = 128;
/// Keys that a column should have in a run: their filter is worth a few cache lines.
pub const KEYS_PER_COLUMN: u64 = 32;

/// Collects a run's keys, column by column.
#[derive(Debug)]
pub struct RowBuilder {
    bits_per_key: f64,
    columns: u32,
    /// Keys of all columns so far, and where the columns' stretches end.
    fingerprints: Vec<u64>,
    ends: Vec<u64>,
}

impl RowBuilder {
    /// A builder for a run over `columns` columns.
    pub fn new(columns: u32, bits_per_key: u8) -> Self {
        let bits_per_key = f64::from(bits_per_key.max(1));
        Self { bits_per_key, columns: columns.max(1), fingerprints: Vec::new(), ends: Vec::new() }
    }

    /// Adds a key; columns must not descend.
    pub fn insert(&mut self, column: u32, fingerprint: u64) {
        debug_assert!(column < self.columns && column as usize >= self.ends.len(), "columns must ascend");
        self.ends.resize(column as usize, self.fingerprints.len() as u64);
        self.fingerprints.push(fingerprint);
    }

    /// The row.
    pub fn finish(mut self) -> Row {
        self.ends.resize(self.columns as usize, self.fingerprints.len() as u64);
        let bytes = self.fingerprints.len() as f64 * self.bits_per_key / 8.0 / f64::from(self.columns);
        let shape = RowShape {
            hashes: hashes_for(self.bits_per_key),
            width: (bytes.ceil() as u64).clamp(1, u64::from(u16::MAX)) as u16,
        };
        let width = usize::from(shape.width);
        let mut bits = vec![0; width * self.columns as usize];
        let mut from = 0;
        for (filter, &end) in bits.chunks_exact_mut(width).zip(&self.ends) {
            #[expect(
                clippy::indexing_slicing,
                reason = "columns end one behind the other; a key left out would be lost"
            )]
            let keys = &self.fingerprints[from..end as usize];
            keys.iter().for_each(|key| set(filter, shape.hashes, *key));
            from = end as usize;
        }
        Row { shape, bits: bits.into() }
    }
}

/// What the filters of a row are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowShape {
    /// Positions per key.
    pub hashes: u8,
    /// Bytes of every filter.
    pub width: u16,
}

impl RowShape {
    /// Whether a key with this fingerprint may be in the column that `filter` is of.
    #[inline]
    pub fn may_contain(&self, filter: &[u8], fingerprint: u64) -> bool {
        passes(filter, self.hashes, fingerprint)
    }
}

/// A run's filters, a column each.
///
/// ```
/// use siltstone_succinct::filter::bloom_cluster::RowBuilder;
///
/// let mut builder = RowBuilder::new(4, 16);
/// builder.insert(1, 0x5bd1_e995_9d6b_7f03);
/// builder.insert(3, 0x1b87_3593_cc9e_2d51);
/// let row = builder.finish();
/// assert!(row.may_contain(3, 0x1b87_3593_cc9e_2d51));
/// assert!(!row.may_contain(2, 0x1b87_3593_cc9e_2d51));
/// ```
#[derive(Debug)]
pub struct Row {
    shape: RowShape,
    bits: Box<[u8]>,
}

impl Row {
    /// What its filters are like.
    pub fn shape(&self) -> RowShape {
        self.shape
    }

    /// The filter of `column`.
    #[inline]
    pub fn filter(&self, column: u32) -> &[u8] {
        let width = usize::from(self.shape.width);
        let start = column as usize * width;
        self.bits.get(start..start + width).unwrap_or(&[])
    }

    /// False if the key was certainly not in `column` of the run.
    #[inline]
    pub fn may_contain(&self, column: u32, fingerprint: u64) -> bool {
        self.shape.may_contain(self.filter(column), fingerprint)
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bits.len()
    }

    /// Number of columns.
    pub fn columns(&self) -> u32 {
        (self.bits.len() / usize::from(self.shape.width).max(1)) as u32
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.columns().to_le_bytes());
        out.push(self.shape.hashes);
        out.extend_from_slice(&self.shape.width.to_le_bytes());
        out.extend_from_slice(&self.bits);
    }

    /// Decodes what [`Row::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are no row.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let what = "Bloom cluster, row";
        let wrong =
            || DecodeError::new(what, "a filter for each column", format_args!("{} bytes", bytes.len()));
        let (&[a, b, c, d, hashes, e, f], bits) = bytes.split_first_chunk::<7>().ok_or_else(wrong)?;
        let (columns, width) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
        if !(1..=MAX_HASHES).contains(&hashes) {
            return Err(DecodeError::new(what, format_args!("1 to {MAX_HASHES} hashes"), hashes));
        }
        if columns == 0 || width == 0 || u64::from(columns) * u64::from(width) != bits.len() as u64 {
            return Err(wrong());
        }
        Ok(Self { shape: RowShape { hashes, width }, bits: bits.into() })
    }
}

/// How the boxes of a cluster lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterShape {
    columns: u32,
    rows: Vec<RowShape>,
    box_bytes: usize,
    /// Bytes of a page that boxes may take.
    page_bytes: usize,
}

/// Where a column's box is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxPlace {
    /// First of its pages.
    pub page: u32,
    /// How many it takes.
    pub pages: u32,
    /// Where it starts in the first.
    pub offset: usize,
}

impl ClusterShape {
    /// The shape of a cluster of these rows, at most [`MOST_ROWS`], in pages that have `page_bytes` bytes for
    /// boxes; `None` where it would have more pages than numbers go.
    pub fn new(columns: u32, rows: Vec<RowShape>, page_bytes: usize) -> Option<Self> {
        let box_bytes = rows.iter().map(|row| usize::from(row.width)).sum();
        let shape = Self { columns, rows, box_bytes, page_bytes };
        let pages = u64::from(columns.div_ceil(shape.boxes_per_page())) * u64::from(shape.pages_per_box());
        (shape.rows.len() <= MOST_ROWS && columns > 0 && pages < u64::from(u32::MAX)).then_some(shape)
    }

    fn boxes_per_page(&self) -> u32 {
        self.page_bytes.checked_div(self.box_bytes).unwrap_or(1).max(1) as u32
    }

    fn pages_per_box(&self) -> u32 {
        self.box_bytes.div_ceil(self.page_bytes.max(1)).max(1) as u32
    }

    /// Number of columns.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// The rows, in the order in which they stand in each box.
    pub fn rows(&self) -> &[RowShape] {
        &self.rows
    }

    /// Bytes of a box.
    pub fn box_bytes(&self) -> usize {
        self.box_bytes
    }

    /// Pages of all boxes.
    pub fn pages(&self) -> u32 {
        self.columns.div_ceil(self.boxes_per_page()) * self.pages_per_box()
    }

    /// Where the box of `column` is.
    #[inline]
    pub fn place(&self, column: u32) -> BoxPlace {
        let (per_page, pages) = (self.boxes_per_page(), self.pages_per_box());
        let offset = (column % per_page) as usize * self.box_bytes;
        BoxPlace { page: column / per_page * pages, pages, offset }
    }

    /// The rows that may hold the key with this fingerprint, as bits, by its column's box.
    #[inline]
    pub fn candidates(&self, filters: &[u8], fingerprint: u64) -> u128 {
        let (mut found, mut rest) = (0, filters);
        for (at, row) in self.rows.iter().enumerate() {
            let (filter, after) = rest.split_at_checked(usize::from(row.width)).unwrap_or((&[], &[]));
            found |= u128::from(row.may_contain(filter, fingerprint)) << at;
            rest = after;
        }
        found
    }

    /// The parts of a box, a row each.
    pub fn split<'a>(&self, filters: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = filters;
        self.rows.iter().map(move |row| {
            let (filter, after) = rest.split_at_checked(usize::from(row.width)).unwrap_or((&[], &[]));
            rest = after;
            filter
        })
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.columns.to_le_bytes());
        out.extend_from_slice(&(self.rows.len() as u16).to_le_bytes());
        for row in &self.rows {
            out.push(row.hashes);
            out.extend_from_slice(&row.width.to_le_bytes());
        }
    }

    /// Decodes what [`ClusterShape::to_bytes`] wrote, for pages with `page_bytes` bytes for boxes.
    ///
    /// # Errors
    /// If the bytes are no shape.
    pub fn from_bytes(bytes: &[u8], page_bytes: usize) -> Result<Self, DecodeError> {
        let what = "Bloom cluster, shape";
        let short = || DecodeError::new(what, "columns and rows", format_args!("{} bytes", bytes.len()));
        let (&[a, b, c, d, e, f], rest) = bytes.split_first_chunk::<6>().ok_or_else(short)?;
        let (columns, count) = (u32::from_le_bytes([a, b, c, d]), usize::from(u16::from_le_bytes([e, f])));
        let (chunks, tail) = rest.as_chunks::<3>();
        if chunks.len() != count || !tail.is_empty() {
            return Err(short());
        }
        let rows: Vec<RowShape> = chunks
            .iter()
            .map(|&[hashes, a, b]| RowShape { hashes, width: u16::from_le_bytes([a, b]) })
            .collect();
        if let Some(row) = rows.iter().find(|row| !(1..=MAX_HASHES).contains(&row.hashes) || row.width == 0) {
            return Err(DecodeError::new(what, "rows with hashes and a width", format_args!("{row:?}")));
        }
        Self::new(columns, rows, page_bytes)
            .ok_or_else(|| DecodeError::new(what, format_args!("at most {MOST_ROWS} rows"), count))
    }
}
