//! What tells the pages of a cut cell apart: for each page that begins inside a cell, some bytes of its first
//! place.
//!
//! ```text
//! split    one byte: s in its upper five bits, l below · [varint skip - 31, if s = 31] · [varint length - 8, if l = 7] · bytes
//!          s = min(skip, 31)     l = min(length - 1, 7)
//! ```
//!
//! `skip` bytes are shared by all places of the cell and left out; the bytes follow them in the page's first
//! place. They end with the first byte in which it differs from the place before it. Splits of one cell
//! follow one another, so all but the first of every 16 are found by walking; a cell with many is searched by
//! halves first.

use super::Place;
use crate::code::varint;
use crate::error::DecodeError;
use std::cmp::Ordering;

/// Of `skip` and of `length - 1`: what says that more follows.
const SKIP_ESCAPE: usize = 31;
const LENGTH_ESCAPE: usize = 7;
const LENGTH_BITS: u32 = 3;
/// One offset is kept for so many splits.
const OFFSET_EVERY: u32 = 16;
const DIGEST_BYTES: usize = 16;

/// Splits in the order of their pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Splits {
    bytes: Box<[u8]>,
    offsets: Box<[u32]>,
}

/// One split as it lies in the bytes.
struct Split<'a> {
    skip: usize,
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Split<'a> {
    #[inline]
    fn parse(from: &'a [u8]) -> Option<Self> {
        let (&header, rest) = from.split_first()?;
        let (skip, rest) = number(usize::from(header >> LENGTH_BITS), SKIP_ESCAPE, rest)?;
        let (more, rest) = number(usize::from(header) & LENGTH_ESCAPE, LENGTH_ESCAPE, rest)?;
        let (bytes, rest) = rest.split_at_checked(more.checked_add(1)?)?;
        Some(Self { skip, bytes, rest })
    }

    /// Whether a place of the cell is at or behind the split.
    #[inline]
    fn is_at_most(&self, digest: &[u8; DIGEST_BYTES], key: &[u8]) -> bool {
        let Some(digest) = digest.get(self.skip..).filter(|left| !left.is_empty()) else {
            return key.get(self.skip - DIGEST_BYTES..).unwrap_or(&[]) >= self.bytes;
        };
        let (here, behind) = self.bytes.split_at(self.bytes.len().min(digest.len()));
        match digest.get(..here.len()).unwrap_or(&[]).cmp(here) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => key >= behind,
        }
    }
}

#[inline]
fn number(start: usize, escape: usize, rest: &[u8]) -> Option<(usize, &[u8])> {
    if start < escape {
        return Some((start, rest));
    }
    let (more, taken) = varint::get_u64(rest)?;
    Some((usize::try_from(more).ok()?.checked_add(escape)?, rest.get(taken..)?))
}

/// Appends a split: `bytes`, which is not empty, without its first `skip`.
pub(super) fn put_split(out: &mut Vec<u8>, skip: usize, bytes: &[u8]) {
    let bytes = bytes.get(skip..).unwrap_or(&[]);
    debug_assert!(!bytes.is_empty(), "a split differs from the place before it behind what the cell shares");
    let more = bytes.len().saturating_sub(1);
    out.push((skip.min(SKIP_ESCAPE) << LENGTH_BITS | more.min(LENGTH_ESCAPE)) as u8);
    for (value, escape) in [(skip, SKIP_ESCAPE), (more, LENGTH_ESCAPE)] {
        if value >= escape {
            varint::put_u64(out, (value - escape) as u64);
        }
    }
    out.extend_from_slice(bytes);
}

impl Splits {
    /// Splits as they were put.
    ///
    /// # Panics
    ///
    /// If they take more than 4 GiB.
    pub fn new(bytes: Vec<u8>) -> Self {
        assert!(u32::try_from(bytes.len()).is_ok(), "the splits of a table take at most 4 GiB");
        let mut offsets = Vec::new();
        let (mut rest, mut number) = (bytes.as_slice(), 0u32);
        while let Some(split) = Split::parse(rest) {
            if number.is_multiple_of(OFFSET_EVERY) {
                offsets.push((bytes.len() - rest.len()) as u32);
            }
            (rest, number) = (split.rest, number + 1);
        }
        Self { bytes: bytes.into_boxed_slice(), offsets: offsets.into_boxed_slice() }
    }

    /// `count` splits from their bytes.
    pub fn from_bytes(bytes: &[u8], count: u32) -> Result<Self, DecodeError> {
        let wrong = |found: &str| DecodeError::new("cell index, splits", format!("{count} splits"), found);
        if u32::try_from(bytes.len()).is_err() {
            return Err(wrong("more than 4 GiB"));
        }
        let mut rest = bytes;
        for _ in 0..count {
            rest = Split::parse(rest).ok_or_else(|| wrong("too few"))?.rest;
        }
        if !rest.is_empty() {
            return Err(wrong("bytes behind the last"));
        }
        Ok(Self::new(bytes.to_vec()))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + size_of_val(&*self.offsets)
    }

    /// The bytes of block `block` and all behind it.
    #[inline]
    fn block(&self, block: u32) -> &[u8] {
        self.offsets.get(block as usize).and_then(|&at| self.bytes.get(at as usize..)).unwrap_or(&[])
    }

    /// How many of the `count` splits from `first` on, all of one cell, `place` is at or behind.
    pub fn find(&self, first: u32, count: u32, place: Place<'_>) -> u32 {
        let mut digest = [0; DIGEST_BYTES];
        let (hi, lo) = digest.split_at_mut(8);
        hi.copy_from_slice(&place.hi.to_be_bytes());
        lo.copy_from_slice(&place.lo.to_be_bytes());
        let end = first + count;
        // The last block that begins inside the cell with a split not above the place; else the one with
        // `first`.
        let mut low = first / OFFSET_EVERY;
        let mut high = end.div_ceil(OFFSET_EVERY);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let split = Split::parse(self.block(middle));
            if split.is_some_and(|split| split.is_at_most(&digest, place.key)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut at = low * OFFSET_EVERY;
        let mut rest = self.block(low);
        let mut found = at.saturating_sub(first);
        while at < end {
            let Some(split) = Split::parse(rest) else { break };
            if at >= first {
                if !split.is_at_most(&digest, place.key) {
                    break;
                }
                found = at + 1 - first;
            }
            rest = split.rest;
            at += 1;
        }
        found
    }
}
