//! The cuckoo filter: a set of fingerprints, each in one of two buckets of four.
//!
//! The idea: a key is represented by a few bits of its hash, which stand in one of two buckets that follow
//! from the hash; from one bucket and the fingerprint the other follows, so that entries can make room for
//! others without their keys. A lookup reads two buckets, that is two cache lines, whatever the rate of false
//! positives.
//!
//! Source: Fan et al., "Cuckoo Filter: Practically Better Than Bloom" (CoNEXT 2014); it is also "CF" in Ren
//! et al., "SlimDB" (VLDB 2017), Table 1 and §5.3. Where we differ, and why:
//!
//! - Any even number of buckets will do, not only powers of two; see `cuckoo/geometry.rs`.
//! - Buckets are semi-sorted and packed to the bit: a fingerprint of `f` bits costs `f - 1`; see
//!   `cuckoo/buckets.rs`.
//! - Room is made by a search for the shortest chain of moves, which could fill a table to 0.97; see
//!   `cuckoo/table.rs`.
//! - Nothing can be deleted, so a fingerprint that is there already is not added again. Any number of
//!   duplicates is fine.
//!
//! With fingerprints of `f` bits the rate of false positives is `8 * load / 2^f`.
//!
//! ```text
//!  0                    1             5
//! +--------------------+-------------+---------+
//! | fingerprint bits u8| blocks: u32 | buckets |    two buckets a block, packed as drawn in cuckoo/buckets.rs
//! +--------------------+-------------+---------+
//! ```
//!
//! Invariants: an inserted key's fingerprint stands in one of its two buckets; no fingerprint stands twice in
//! the buckets of a key. The hashing is part of the format.

pub(crate) mod buckets;
pub(crate) mod geometry;
pub(crate) mod search;
pub(crate) mod table;

use crate::error::DecodeError;
use geometry::{Geometry, Seat};
use table::{Inserted, Table, buckets_for};

/// The fewest and the most fingerprint bits.
pub const FINGERPRINT_BITS: std::ops::RangeInclusive<u8> = 5..=20;
/// The share of the lanes that a filter is sized to fill. Up to 0.97 would do, but the last entries take long
/// to place.
pub const LOAD: f64 = 0.95;

/// A block of two buckets with two units: the unit is the bucket, and nothing but the core is stored.
const UNIT_BITS: u32 = 1;
const PER_BLOCK: u32 = 2;
/// Keys whose cache lines are fetched together.
const BATCH: usize = 32;
/// How much larger the next attempt is where one fails.
const GROWTH: f64 = 1.02;

/// Collects hashes, so that their number need not be known beforehand, and makes a [`CuckooFilter`] of them.
///
/// ```
/// use siltstone_succinct::filter::cuckoo::CuckooFilterBuilder;
///
/// let mut builder = CuckooFilterBuilder::new(12);
/// builder.extend([0x5bd1_e995_9d6b_7f03, 0x1b87_3593_cc9e_2d51]);
/// assert_eq!(builder.len(), 2);
/// assert!(builder.finish().may_contain(0x1b87_3593_cc9e_2d51));
/// ```
#[derive(Debug, Clone)]
pub struct CuckooFilterBuilder {
    fingerprint_bits: u8,
    hashes: Vec<u64>,
}

impl CuckooFilterBuilder {
    /// A builder of filters with so many bits per fingerprint; outside of [`FINGERPRINT_BITS`] the nearest
    /// inside counts.
    pub fn new(fingerprint_bits: u8) -> Self {
        CuckooFilterBuilder { fingerprint_bits, hashes: Vec::new() }
    }

    /// Adds a key, given by 64 well-mixed bits. All keys may share their top, or their lowest, 28 bits.
    pub fn insert(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    /// Keys inserted so far; one inserted twice counts twice.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// True if no key was inserted.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Builds the filter.
    pub fn finish(self) -> CuckooFilter {
        CuckooFilter::build(self.fingerprint_bits, &self.hashes)
    }
}

impl Extend<u64> for CuckooFilterBuilder {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, hashes: I) {
        self.hashes.extend(hashes);
    }
}

/// An immutable cuckoo filter.
///
/// ```
/// use siltstone_succinct::filter::cuckoo::CuckooFilter;
///
/// let filter = CuckooFilter::build(12, &[0x5bd1_e995_9d6b_7f03, 0x1b87_3593_cc9e_2d51]);
/// assert!(filter.may_contain(0x5bd1_e995_9d6b_7f03));
///
/// let mut bytes = Vec::new();
/// filter.to_bytes(&mut bytes);
/// assert_eq!(CuckooFilter::from_bytes(&bytes)?, filter);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuckooFilter {
    table: Table,
}

impl CuckooFilter {
    /// The filter of the keys with these hashes, of which each has 64 well-mixed bits.
    ///
    /// All keys may share their top, or their lowest, 28 bits. `fingerprint_bits` outside of
    /// [`FINGERPRINT_BITS`] counts as the nearest inside. The table is sized for [`LOAD`]; where the last
    /// keys find no room, which is rare, it is built once more and a little larger.
    pub fn build(fingerprint_bits: u8, hashes: &[u64]) -> Self {
        let bits = fingerprint_bits.clamp(*FINGERPRINT_BITS.start(), *FINGERPRINT_BITS.end());
        let mut buckets = buckets_for(hashes.len() as u64, LOAD);
        loop {
            if let Some(table) = Self::attempt(bits, hashes, buckets) {
                return CuckooFilter { table };
            }
            buckets = (buckets as f64 * GROWTH) as u64 + 2;
        }
    }

    /// The table, if all hashes found room in it.
    fn attempt(bits: u8, hashes: &[u64], buckets: u64) -> Option<Table> {
        // 2^32 buckets are reached by some ten billion keys only; there the table is as full as it gets.
        let blocks = buckets.div_ceil(u64::from(PER_BLOCK)).clamp(1, u64::from(u32::MAX / PER_BLOCK)) as u32;
        let mut table = Table::new(Self::geometry(bits, blocks)?, 0, LOAD);
        let mut seats = [[Seat::default(); 2]; BATCH];
        for hashes in hashes.chunks(BATCH) {
            for (seats, hash) in seats.iter_mut().zip(hashes) {
                *seats = table.geometry.seats(table.geometry.spot(*hash));
            }
            table.prefetch(&seats);
            if table.is_crowded() {
                table.touch_moves(&seats);
            }
            for (seats, _) in seats.iter().zip(hashes) {
                if table.insert_if_absent(seats, 0) == Inserted::NoRoom {
                    return None;
                }
            }
        }
        Some(table)
    }

    fn geometry(fingerprint_bits: u8, blocks: u32) -> Option<Geometry> {
        Geometry::new(blocks, PER_BLOCK, UNIT_BITS, u32::from(fingerprint_bits))
    }

    /// False if the key was certainly not inserted.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.table.contains(&self.table.geometry.seats(self.table.geometry.spot(hash)))
    }

    /// Answers [`CuckooFilter::may_contain`] for each of `hashes` into the same place of `found`.
    ///
    /// The cache lines of many keys are fetched side by side, which pays where the filter does not fit the
    /// cache.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn may_contain_many(&self, hashes: &[u64], found: &mut [bool]) {
        assert_eq!(hashes.len(), found.len(), "may_contain_many: one answer per hash");
        let mut seats = [[Seat::default(); 2]; BATCH];
        for (hashes, found) in hashes.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            for (seats, hash) in seats.iter_mut().zip(hashes) {
                *seats = self.table.geometry.seats(self.table.geometry.spot(*hash));
            }
            self.table.prefetch(&seats);
            for (found, seats) in found.iter_mut().zip(&seats) {
                *found = self.table.contains_branchless(seats);
            }
        }
    }

    /// Fingerprints held. Keys inserted twice, or with equal fingerprints and buckets, count once.
    pub fn len(&self) -> u64 {
        self.table.entries()
    }

    /// True if no key was inserted.
    pub fn is_empty(&self) -> bool {
        self.table.entries() == 0
    }

    /// Bits per fingerprint: the formula's `f`.
    pub fn fingerprint_bits(&self) -> u8 {
        self.table.geometry.field_bits() as u8
    }

    /// The share of lanes in use, from 0 to 1.
    pub fn load(&self) -> f64 {
        self.table.entries() as f64 / self.table.capacity() as f64
    }

    /// The share of absent keys that pass, from 0 to 1.
    pub fn expected_false_positive_rate(&self) -> f64 {
        expected_false_positive_rate(&self.table)
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.table.memory_bytes()
    }

    /// Appends the encoding drawn at the top of this file.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        out.push(self.fingerprint_bits());
        out.extend_from_slice(&self.table.geometry.blocks().to_le_bytes());
        out.extend_from_slice(self.table.as_bytes());
    }

    /// Decodes what [`CuckooFilter::to_bytes`] wrote; `bytes` must hold that and nothing else.
    ///
    /// # Errors
    ///
    /// If the header is out of range, does not agree with the length of `bytes`, or if a bucket is none that
    /// could have been written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let header = |found: String| {
            let expected = format!("{FINGERPRINT_BITS:?} bits and 1 to 2^31 - 1 blocks");
            DecodeError::new("cuckoo filter, header", expected, found)
        };
        let Some((&[bits, a, b, c, d], body)) = bytes.split_first_chunk() else {
            return Err(header(format!("{} bytes", bytes.len())));
        };
        let blocks = u32::from_le_bytes([a, b, c, d]);
        let geometry = Some(bits)
            .filter(|bits| FINGERPRINT_BITS.contains(bits))
            .and_then(|bits| Self::geometry(bits, blocks))
            .ok_or_else(|| header(format!("{bits} bits and {blocks} blocks")))?;
        Ok(CuckooFilter { table: Table::from_bytes(body, geometry, 0, LOAD)? })
    }
}

/// Each lane in use of the two buckets agrees by chance with probability `2^-f`; since no fingerprint stands
/// there twice, the chances add up.
pub(crate) fn expected_false_positive_rate(table: &Table) -> f64 {
    let lanes = 8.0 * table.entries() as f64 / table.capacity() as f64;
    (lanes * (-table.geometry.effective_bits()).exp2()).min(1.0)
}
