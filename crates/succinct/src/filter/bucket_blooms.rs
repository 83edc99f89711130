//! A Bloom filter for every bucket of a hash table, side by side in one array.
//!
//! A lookup knows its key's home bucket and asks that bucket's filter: one or two cache lines, however large
//! the table.
//!
//! Source: LSM-trie (Wu et al., ATC'15) has a filter per bucket, so that those of one bucket's column can be
//! gathered into a cluster. Where we differ, and why: each filter has the size that its bucket's keys ask
//! for, so that crowded buckets are no worse than others; home is where the filter says, whatever has moved
//! to which page.
//!
//! ```text
//! ┌───────────┬──────────────┬─────────────────────────────────────┬──────────────────────┐
//! │ hashes u8 │ buckets: u32 │ bytes of each filter: varint, ...   │ the filters' bytes   │
//! └───────────┴──────────────┴─────────────────────────────────────┴──────────────────────┘
//! ```
//!
//! Position p of a filter is bit p % 8 of its byte p / 8. A bucket without keys has no bytes, and no key
//! passes there.
//!
//! Positions are drawn one by one, where [`bloom`](super::bloom) takes an arithmetic progression: in filters
//! of a few hundred bits progressions meet so often that four times as many strangers pass.

use super::bloom::{MAX_HASHES, hashes_for};
use crate::code::varint;
use crate::error::DecodeError;

/// Bytes of one filter at most; a bucket with more keys than that is worth has fewer bits for each.
pub const MOST_FILTER_BYTES: usize = 8191;
/// Buckets that share a base: their filters' bytes are counted from there in 16 bits.
const GROUP: usize = 8;

/// Collects the keys of one bucket after the other.
#[derive(Debug)]
pub struct BucketBloomsBuilder {
    bits_per_key: f64,
    hashes: u8,
    lengths: Vec<usize>,
    bits: Vec<u8>,
}

impl BucketBloomsBuilder {
    /// A builder that spends `bits_per_key` bits on each key.
    pub fn new(bits_per_key: u8) -> Self {
        let bits_per_key = f64::from(bits_per_key.max(1));
        Self { bits_per_key, hashes: hashes_for(bits_per_key), lengths: Vec::new(), bits: Vec::new() }
    }

    /// Adds the next bucket with its keys, each given by 64 well-mixed bits.
    pub fn add_bucket(&mut self, fingerprints: &[u64]) {
        let length = (fingerprints.len() as f64 * self.bits_per_key / 8.0).ceil() as usize;
        let length = length.min(MOST_FILTER_BYTES);
        let start = self.bits.len();
        self.bits.resize(start + length, 0);
        self.lengths.push(length);
        let filter = self.bits.get_mut(start..).unwrap_or(&mut []);
        fingerprints.iter().for_each(|fingerprint| set(filter, self.hashes, *fingerprint));
    }

    /// The filters.
    pub fn finish(self) -> BucketBlooms {
        BucketBlooms::new(self.hashes, &self.lengths, self.bits.into())
    }
}

/// The positions of one key: a chain of hashes, each scaled to the filter.
struct Positions(u64);

impl Positions {
    #[inline]
    fn next(&mut self, bits: u64) -> u64 {
        // Multiplication carries upwards only and the scaling looks at the top bits, so what is above is
        // folded down.
        self.0 = (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(self.0) * u128::from(bits)) >> 64) as u64
    }
}

/// Sets the bits of a key.
#[expect(
    clippy::indexing_slicing,
    reason = "a filter for a key has bits; a key without any would pass for absent"
)]
pub(super) fn set(filter: &mut [u8], hashes: u8, fingerprint: u64) {
    let bits = filter.len() as u64 * 8;
    let mut positions = Positions(fingerprint);
    for _ in 0..hashes {
        let position = positions.next(bits);
        filter[(position / 8) as usize] |= 1 << (position % 8);
    }
}

/// Whether all bits of a key are set; never in an empty filter.
#[inline]
pub(super) fn passes(filter: &[u8], hashes: u8, fingerprint: u64) -> bool {
    let bits = filter.len() as u64 * 8;
    let mut positions = Positions(fingerprint);
    (0..hashes).all(|_| {
        let position = positions.next(bits);
        filter.get((position / 8) as usize).is_some_and(|byte| byte >> (position % 8) & 1 == 1)
    })
}

/// The filters of a table's buckets.
///
/// ```
/// use siltstone_succinct::filter::bucket_blooms::BucketBloomsBuilder;
///
/// let mut builder = BucketBloomsBuilder::new(16);
/// builder.add_bucket(&[0x5bd1_e995_9d6b_7f03]);
/// builder.add_bucket(&[0x1b87_3593_cc9e_2d51]);
/// let filters = builder.finish();
/// assert!(filters.may_contain(1, 0x1b87_3593_cc9e_2d51));
/// assert!(!filters.may_contain(0, 0x1b87_3593_cc9e_2d51));
/// ```
#[derive(Debug)]
pub struct BucketBlooms {
    hashes: u8,
    /// Where every group's first filter starts.
    bases: Box<[u64]>,
    /// Where each filter ends, from its group's base on.
    ends: Box<[u16]>,
    bits: Box<[u8]>,
}

impl BucketBlooms {
    fn new(hashes: u8, lengths: &[usize], bits: Box<[u8]>) -> Self {
        let (mut bases, mut ends) = (Vec::new(), Vec::with_capacity(lengths.len()));
        let mut at = 0u64;
        for group in lengths.chunks(GROUP) {
            bases.push(at);
            let mut end = 0u16;
            for length in group {
                end += *length as u16;
                ends.push(end);
            }
            at += u64::from(end);
        }
        Self { hashes, bases: bases.into(), ends: ends.into(), bits }
    }

    fn filter(&self, bucket: usize) -> &[u8] {
        let end = self.ends.get(bucket).copied().unwrap_or(0);
        let is_first = bucket.is_multiple_of(GROUP);
        let start = if is_first { 0 } else { self.ends.get(bucket - 1).copied().unwrap_or(end) };
        let base = self.bases.get(bucket / GROUP).copied().unwrap_or(0) as usize;
        self.bits.get(base + usize::from(start)..base + usize::from(end)).unwrap_or(&[])
    }

    /// False if the key was certainly not in `bucket`.
    #[inline]
    pub fn may_contain(&self, bucket: u32, fingerprint: u64) -> bool {
        passes(self.filter(bucket as usize), self.hashes, fingerprint)
    }

    /// Number of buckets.
    pub fn buckets(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bits.len() + self.ends.len() * 2 + self.bases.len() * 8
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(self.hashes);
        out.extend_from_slice(&(self.ends.len() as u32).to_le_bytes());
        for bucket in 0..self.ends.len() {
            varint::put_u64(out, self.filter(bucket).len() as u64);
        }
        out.extend_from_slice(&self.bits);
    }

    /// Decodes what [`BucketBlooms::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let what = "Bloom filters of buckets";
        let short = || DecodeError::new(what, "a header and lengths", format_args!("{} bytes", bytes.len()));
        let (&[hashes, a, b, c, d], mut rest) = bytes.split_first_chunk::<5>().ok_or_else(short)?;
        if !(1..=MAX_HASHES).contains(&hashes) {
            return Err(DecodeError::new(what, format_args!("1 to {MAX_HASHES} hashes"), hashes));
        }
        let buckets = u32::from_le_bytes([a, b, c, d]) as usize;
        if buckets > rest.len() {
            return Err(short());
        }
        let (mut lengths, mut total) = (Vec::with_capacity(buckets), 0);
        for _ in 0..buckets {
            let (length, taken) = varint::get_u64(rest).ok_or_else(short)?;
            if length > MOST_FILTER_BYTES as u64 {
                return Err(DecodeError::new(
                    what,
                    format_args!("{MOST_FILTER_BYTES} bytes at most"),
                    length,
                ));
            }
            lengths.push(length as usize);
            total += length as usize;
            rest = rest.get(taken..).unwrap_or(&[]);
        }
        if rest.len() != total {
            return Err(DecodeError::new(
                what,
                format_args!("{total} bytes of filters"),
                format_args!("{} bytes", rest.len()),
            ));
        }
        Ok(Self::new(hashes, &lengths, rest.into()))
    }
}
