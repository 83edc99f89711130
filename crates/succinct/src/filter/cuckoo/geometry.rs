//! Where a key may stand in a cuckoo table, for any number of buckets, and after growth as well as before.
//!
//! The idea: a table is `blocks` blocks of `per_block` buckets. A hash gives a block, a *unit* (a place
//! within the block, finer than a bucket) and a *core*. The unit's bucket is implied by where an entry
//! stands; the rest of the unit, its *remainder*, and the core are stored. So unit and core can always be
//! read back, and a table with more buckets per block follows from one with fewer without asking any key:
//! growth turns remainder into bucket number.
//!
//! Sources: Fan et al., "Cuckoo Filter: Practically Better Than Bloom" (CoNEXT 2014), §3: the second place
//! follows from the first and the fingerprint. Where we differ, and why:
//!
//! - Exclusive-or needs a power of two. Here the other place is `offset(core) - place`, modulo the number of
//!   blocks and of units; it is its own inverse for any number of blocks.
//! - The offset depends on the core only, which growth never touches.
//! - Growth is not by doubling: `per_block` may become any number. An entry moves only within its block.
//!
//! ```text
//!  block b, 2^unit_bits units:   0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
//!  3 buckets per block:         [    bucket 3b    ][  bucket 3b+1  ][ bucket 3b+2 ]
//!  5 buckets per block:         [ 5b       ][ 5b+1  ][ 5b+2   ][ 5b+3  ][ 5b+4    ]
//!
//!  stored field:    remainder << core_bits | core        remainder = unit - first unit of the bucket
//! ```
//!
//! Invariants: a core is never 0, so a field of 0 marks an empty lane; `other(other(spot)) == spot`;
//! `spot_at(seat(spot)) == spot`. The hashing is part of the format.

/// Bits that a unit may have at most: the arithmetic below stays exact up to here.
pub(crate) const UNIT_BITS_MOST: u32 = 18;

/// The shape of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    blocks: u32,
    per_block: u32,
    unit_bits: u32,
    core_bits: u32,
    /// `ceil(2^64 / per_block)`: turns divisions by `per_block` into multiplications.
    inverse: u64,
}

/// One of the two places that a key may take, and what is stored of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spot {
    pub(crate) block: u32,
    pub(crate) unit: u32,
    pub(crate) core: u32,
}

/// A spot as the table has it: a bucket, and the field that stands in one of its lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seat {
    pub(crate) bucket: u32,
    pub(crate) field: u32,
}

/// The upper half of a product of 64-bit numbers: scales `a` as a fraction of 2^64 down to `b`.
#[inline]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Spreads every bit of `hash` over all bits of the result (the SplitMix64 finalizer). Keys of one region
/// share digest bits, and it doesn't matter which.
#[inline]
pub(crate) fn mix(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

impl Geometry {
    /// `blocks` blocks of `per_block` buckets each; `None` where an entry could not be numbered or encoded.
    pub(crate) fn new(blocks: u32, per_block: u32, unit_bits: u32, core_bits: u32) -> Option<Self> {
        let sound = (1..=UNIT_BITS_MOST).contains(&unit_bits)
            && (2..=1 << unit_bits).contains(&per_block)
            && (1..=20).contains(&core_bits)
            && blocks > 0
            && blocks.checked_mul(per_block).is_some();
        if !sound {
            return None;
        }
        let inverse = u64::MAX / u64::from(per_block) + 1;
        let geometry = Geometry { blocks, per_block, unit_bits, core_bits, inverse };
        (geometry.field_bits() <= 20).then_some(geometry)
    }

    /// The same blocks with another number of buckets each.
    pub(crate) fn with_per_block(&self, per_block: u32) -> Option<Self> {
        Geometry::new(self.blocks, per_block, self.unit_bits, self.core_bits)
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    pub(crate) fn per_block(&self) -> u32 {
        self.per_block
    }

    pub(crate) fn buckets(&self) -> u32 {
        self.blocks * self.per_block
    }

    /// Bits of a stored field: those of the largest remainder, and the core's.
    pub(crate) fn field_bits(&self) -> u32 {
        let remainders = (1u32 << self.unit_bits).div_ceil(self.per_block);
        self.core_bits + remainders.next_power_of_two().trailing_zeros()
    }

    /// Fields that a bucket can hold, on average over buckets, as a power of two.
    pub(crate) fn effective_bits(&self) -> f64 {
        let cores = f64::from((1u32 << self.core_bits) - 1);
        (cores * f64::from(1u32 << self.unit_bits) / f64::from(self.per_block)).log2()
    }

    /// The first of the two spots of a key.
    #[inline]
    pub(crate) fn spot(&self, hash: u64) -> Spot {
        let first = mix(hash);
        let second = (first ^ first >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let cores = (1u64 << self.core_bits) - 1;
        Spot {
            block: high(first, u64::from(self.blocks)) as u32,
            unit: (second >> (64 - self.unit_bits)) as u32,
            core: (((second & 0xffff_ffff) * cores) >> 32) as u32 + 1,
        }
    }

    /// The other spot of the same key.
    #[inline]
    pub(crate) fn other(&self, spot: Spot) -> Spot {
        let offset = u64::from(spot.core).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let offset = (offset ^ offset >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let block = high(offset, u64::from(self.blocks)) as u32;
        let unit = (offset >> 8) as u32;
        let wrap = if block < spot.block { self.blocks } else { 0 };
        Spot {
            block: block.wrapping_sub(spot.block).wrapping_add(wrap),
            unit: unit.wrapping_sub(spot.unit) & ((1 << self.unit_bits) - 1),
            core: spot.core,
        }
    }

    /// Bucket and field of a spot.
    #[inline]
    pub(crate) fn seat(&self, spot: Spot) -> Seat {
        let scaled = u64::from(spot.unit) * u64::from(self.per_block);
        let within = (scaled >> self.unit_bits) as u32;
        // Counting down from the unit to the first of its bucket takes `per_block` off the fraction at each
        // step.
        let fraction = scaled & ((1 << self.unit_bits) - 1);
        let remainder = high(fraction, self.inverse) as u32;
        Seat { bucket: spot.block * self.per_block + within, field: remainder << self.core_bits | spot.core }
    }

    /// Both seats of the key whose first spot is `spot`.
    #[inline]
    pub(crate) fn seats(&self, spot: Spot) -> [Seat; 2] {
        [self.seat(spot), self.seat(self.other(spot))]
    }

    /// The spot whose seat this is.
    #[inline]
    pub(crate) fn spot_at(&self, seat: Seat) -> Spot {
        let block = high(u64::from(seat.bucket), self.inverse) as u32;
        let within = u64::from(seat.bucket - block * self.per_block);
        // The first unit of the bucket is ceil(within * units / per_block).
        let first = high((within << self.unit_bits) + u64::from(self.per_block) - 1, self.inverse) as u32;
        let remainder = seat.field >> self.core_bits;
        Spot { block, unit: first + remainder, core: seat.field & ((1 << self.core_bits) - 1) }
    }

    /// Where the key that sits there would sit otherwise.
    #[inline]
    pub(crate) fn other_seat(&self, seat: Seat) -> Seat {
        self.seat(self.other(self.spot_at(seat)))
    }

    /// True if some key has this seat.
    pub(crate) fn is_seat(&self, seat: Seat) -> bool {
        let spot = self.spot_at(seat);
        seat.bucket < self.buckets()
            && spot.core != 0
            && spot.unit < 1 << self.unit_bits
            && self.seat(spot) == seat
    }

    /// A number that both spots of a key share, and that no other unit and core have. Growth keeps it.
    pub(crate) fn identity(&self, spot: Spot) -> u64 {
        let place = |spot: Spot| u64::from(spot.block) << self.unit_bits | u64::from(spot.unit);
        place(spot).min(place(self.other(spot))) << self.core_bits | u64::from(spot.core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_and_spots_are_each_others_inverse() {
        for (blocks, per_block, unit_bits, core_bits) in [
            (1, 2, 1, 20),
            (3, 16, 4, 12),
            (1000, 16, 13, 8),
            (77, 17, 13, 8),
            (9, 255, 8, 8),
            (5, 1023, 16, 8),
        ] {
            let geometry = Geometry::new(blocks, per_block, unit_bits, core_bits).unwrap();
            for number in 0..20_000 {
                let spot = geometry.spot(number);
                assert!(spot.block < blocks && spot.unit < 1 << unit_bits && spot.core >> core_bits == 0);
                let other = geometry.other(spot);
                assert!(other.block < blocks && other.unit < 1 << unit_bits);
                assert_eq!(geometry.other(other), spot);
                assert_eq!(geometry.identity(spot), geometry.identity(other));
                for spot in [spot, other] {
                    let seat = geometry.seat(spot);
                    assert!(seat.field >> geometry.field_bits() == 0 && seat.field != 0);
                    assert_eq!(geometry.spot_at(seat), spot);
                    assert!(geometry.is_seat(seat));
                }
                assert_eq!(geometry.other_seat(geometry.seat(spot)), geometry.seat(other));
            }
        }
    }

    #[test]
    fn every_unit_has_its_own_seat() {
        for unit_bits in 1..=10 {
            for per_block in 2..=1 << unit_bits {
                let Some(geometry) = Geometry::new(2, per_block, unit_bits, 8) else { continue };
                let mut last = None;
                for unit in 0..1 << unit_bits {
                    let seat = geometry.seat(Spot { block: 1, unit, core: 3 });
                    assert!(
                        last < Some((seat.bucket, seat.field)),
                        "{per_block} of 2^{unit_bits}: unit {unit}"
                    );
                    assert_eq!(geometry.spot_at(seat).unit, unit);
                    last = Some((seat.bucket, seat.field));
                }
                assert_eq!(last.unwrap().0, 2 * per_block - 1);
            }
        }
    }

    #[test]
    fn what_cannot_be_numbered_is_refused() {
        assert!(Geometry::new(0, 16, 4, 12).is_none());
        assert!(Geometry::new(1, 1, 4, 12).is_none());
        assert!(Geometry::new(1, 17, 4, 12).is_none());
        assert!(Geometry::new(1, 16, 19, 12).is_none());
        assert!(Geometry::new(1, 2, 16, 8).is_none(), "a field of 23 bits");
        assert!(Geometry::new(u32::MAX / 16 + 1, 16, 4, 12).is_none());
    }
}
