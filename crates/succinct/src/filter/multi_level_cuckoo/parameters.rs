//! What a multi-level cuckoo filter is told beforehand, and how it refuses.

use std::fmt;
use std::ops::RangeInclusive;

use super::FIRST_PER_BLOCK_BITS;

/// Bits that fingerprint and growth may take together at most.
const FIELD_BITS_MOST: u16 = 20;
/// Fewer bits would leave so few units per bucket that tables don't fill.
const FLOOR_BITS_LEAST: u16 = 8;

/// Widths and limits of a [`MultiLevelCuckooFilter`](super::MultiLevelCuckooFilter).
///
/// The default is the paper's: fingerprints of 14 bits, slots of 3. It may grow eightfold at no loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Bits of a fingerprint that are left when growth has taken its share: 8 to 20. The rate of false
    /// positives is `8 * load / 2^fingerprint_bits` then, and less before.
    pub fingerprint_bits: u8,
    /// Bits of a slot, 0 to 6: the filter guides to `2^slot_bits` runs.
    pub slot_bits: u8,
    /// Further bits that are stored at first and that growth consumes: the filter may grow to `2^growth_bits`
    /// times its first size. At most 20 together with `fingerprint_bits`.
    pub growth_bits: u8,
    /// Where those are used up, growth goes on at the cost of fingerprint bits, but not below this many: 8 to
    /// `fingerprint_bits`.
    pub floor_bits: u8,
    /// Bytes that the secondary table may take, in thousandths of the primary's: up to 1000. It may always
    /// take half a kilobyte, unless this is 0, which means that there is none.
    pub secondary_permille: u16,
    /// The share of the primary's lanes, in thousandths, to which it is sized and beyond which it grows: 500
    /// to 965. The last few take long to fill: from 900 to 950 an insertion takes about half as long as from
    /// 915 to 965.
    pub load_permille: u16,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            fingerprint_bits: 14,
            slot_bits: 3,
            growth_bits: 3,
            floor_bits: 12,
            secondary_permille: 50,
            load_permille: 950,
        }
    }
}

impl Parameters {
    /// # Errors
    ///
    /// If a value is out of its range: the error names the first.
    pub fn check(&self) -> Result<(), UnsoundParameters> {
        let within = |field: &'static str, found: u16, range: RangeInclusive<u16>| {
            if range.contains(&found) { Ok(()) } else { Err(UnsoundParameters { field, range, found }) }
        };
        let (fingerprint, floor) = (u16::from(self.fingerprint_bits), u16::from(self.floor_bits));
        within("fingerprint_bits", fingerprint, FLOOR_BITS_LEAST..=FIELD_BITS_MOST)?;
        within("slot_bits", u16::from(self.slot_bits), 0..=6)?;
        within("growth_bits", u16::from(self.growth_bits), 0..=FIELD_BITS_MOST - fingerprint)?;
        within("floor_bits", floor, FLOOR_BITS_LEAST..=fingerprint)?;
        within("secondary_permille", self.secondary_permille, 0..=1000)?;
        within("load_permille", self.load_permille, 500..=965)
    }

    /// Buckets per block at which fingerprints are down to the floor.
    pub(super) fn per_block_most(&self) -> u32 {
        let consumed = self.growth_bits + self.fingerprint_bits - self.floor_bits;
        1 << (FIRST_PER_BLOCK_BITS + u32::from(consumed))
    }

    /// The load as a share, 0 to 1.
    pub(super) fn load(&self) -> f64 {
        f64::from(self.load_permille) / 1000.0
    }
}

/// A value of [`Parameters`] that no filter can be made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsoundParameters {
    field: &'static str,
    range: RangeInclusive<u16>,
    found: u16,
}

impl fmt::Display for UnsoundParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnsoundParameters { field, range, found } = self;
        write!(
            f,
            "multi-level cuckoo filter: {field} is {found}; choose from {} to {}",
            range.start(),
            range.end()
        )
    }
}

impl std::error::Error for UnsoundParameters {}

/// What is known about a key that a new run holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Knowledge {
    /// Nothing, or that no run of the region holds it.
    #[default]
    Unknown,
    /// Its newest version so far is in this slot of the region: somebody read it there. It must be true;
    /// otherwise another key may be lost.
    InSlot(u8),
}

/// One key of a new run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunKey<'a> {
    /// 64 well-mixed bits. All keys may share their top, or their lowest, 28 bits.
    pub hash: u64,
    /// The key itself; always the same one for the same key.
    pub key: &'a [u8],
    /// What is known about it.
    pub knowledge: Knowledge,
}

/// The filter can't take another key: it may not grow further.
///
/// Build a new one from the keys of all runs, for as many keys as that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    pub(super) entries: u64,
    pub(super) floor_bits: u8,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full { entries, floor_bits } = self;
        write!(
            f,
            "multi-level cuckoo filter: full with {entries} entries, since fingerprints may not have fewer "
        )?;
        write!(f, "than {floor_bits} bits; build a larger one from the keys")
    }
}

impl std::error::Error for Full {}
