//! Buckets of four lanes, packed to the bit, each lane a field and a slot.
//!
//! The idea: the order of the lanes in a bucket says nothing, so they are kept sorted by the lowest four bits
//! of their fields, and of those only the number of the sorted combination is stored: 3,876 combinations fit
//! 12 bits instead of
//! 16. That saves one bit per entry.
//!
//! Source: Fan et al., "Cuckoo Filter" (CoNEXT 2014), §5.2, who call it semi-sorting. Where we differ, and
//! why:
//!
//! - The combination's number is computed (binomials), not looked up in a table of 64 Ki entries; only the
//!   way back takes a table, of 8 KiB.
//! - A lane also carries a slot, and lanes may have any width. With 14-bit fields and 3-bit slots a bucket is
//!   exactly one 64-bit word.
//! - A lookup compares the upper bits of all four fields at once, and looks at the combination only where one
//!   agrees.
//!
//! ```text
//!  bit 0          12                   12 + 4 high             12 + 4 (high + slot)
//! +--------------+------+------+------+------+-------+-- ... -+
//! | combination  | high of lane 0..3         | slot of lane 0..3 |    high = field bits - 4
//! +--------------+------+------+------+------+-------+-- ... -+
//! ```
//!
//! A bucket is a whole number of half bytes and follows the one before without a gap; 16 bytes of zeros
//! behind the last let every bucket be read with one load.
//!
//! Invariants: lanes ascend by the low four bits of their fields, and empty lanes, which are all zeros, come
//! first.

/// Lanes per bucket.
pub(crate) const LANES: usize = 4;
/// Zeros behind the last bucket, so that a load of 16 bytes is always within.
const PADDING_BYTES: usize = 16;
/// Sorted combinations of four half bytes.
const COMBINATIONS: usize = 3876;

/// One lane, arranged so that lanes sort as numbers: the low four bits of the field on top. 0 is an empty
/// lane.
pub(crate) type Lane = u32;

const LOW_SHIFT: u32 = 28;
const SLOT_SHIFT: u32 = 20;

/// The lane of a field of up to 20 bits and a slot.
#[inline]
pub(crate) fn lane(field: u32, slot: u8) -> Lane {
    field.rotate_right(4) | u32::from(slot) << SLOT_SHIFT
}

#[inline]
pub(crate) fn field_of(lane: Lane) -> u32 {
    (lane & !(0xff << SLOT_SHIFT)).rotate_left(4)
}

#[inline]
pub(crate) fn slot_of(lane: Lane) -> u8 {
    (lane >> SLOT_SHIFT) as u8
}

/// The sorted combination with each number: four half bytes, the smallest lowest. Numbers that do not exist
/// give 0.
static DECODE: [u16; 4096] = {
    let mut table = [0u16; 4096];
    let mut number = 0;
    let mut d = 0;
    while d < 16 {
        let mut c = 0;
        while c <= d {
            let mut b = 0;
            while b <= c {
                let mut a = 0;
                while a <= b {
                    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
                    {
                        table[number] = a | b << 4 | c << 8 | d << 12;
                    }
                    number += 1;
                    a += 1;
                }
                b += 1;
            }
            c += 1;
        }
        d += 1;
    }
    assert!(number == COMBINATIONS);
    table
};

/// For each half byte, the combinations of two, of three and of four half bytes that are all smaller.
static BEFORE: [[u16; 16]; 3] = {
    let mut table = [[0; 16]; 3];
    let mut n = 0;
    while n < 16 {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            table[0][n] = (n * (n + 1) / 2) as u16;
            table[1][n] = (n * (n + 1) * (n + 2) / 6) as u16;
            table[2][n] = (n * (n + 1) * (n + 2) * (n + 3) / 24) as u16;
        }
        n += 1;
    }
    table
};

/// The number of a sorted combination, the smallest half byte lowest: how many come before it, the largest
/// compared first.
#[inline]
fn encode(halves: u32) -> u64 {
    let [twos, threes, fours] = &BEFORE;
    let before = |table: &[u16; 16], shift: u32| {
        u64::from(table.get((halves >> shift & 15) as usize).copied().unwrap_or(0))
    };
    u64::from(halves & 15) + before(twos, 4) + before(threes, 8) + before(fours, 12)
}

#[inline]
fn decode(combination: u64) -> u32 {
    u32::from(DECODE.get((combination & 0xfff) as usize).copied().unwrap_or(0))
}

/// A bucket as it lies in memory, taken apart.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planes {
    combination: u64,
    highs: u64,
    slots: u64,
}

/// The packed buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Buckets {
    bytes: Box<[u8]>,
    shape: Shape,
}

/// Widths, and masks that follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    half_bytes: usize,
    high_bits: u32,
    /// A little over `2^16 / high_bits`.
    inverse_high_bits: u32,
    slot_bits: u32,
    /// Where the slots begin, in bits.
    slots_at: u32,
    /// Bits 0 of all high parts.
    ones: u64,
    /// All bits of the high parts but their uppermost.
    lows: u64,
    /// One high part, and all four.
    high_mask: u64,
    highs_mask: u64,
    /// One slot, and all four.
    slot_mask: u64,
    slots_mask: u64,
    /// True if one load of 8 bytes gets a bucket, wherever it begins.
    narrow: bool,
}

fn low_mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Shape {
    /// For fields of 5 to 20 bits and slots of up to 6.
    fn new(field_bits: u32, slot_bits: u32) -> Self {
        debug_assert!((5..=20).contains(&field_bits) && slot_bits <= 6);
        let high_bits = field_bits - 4;
        let bits = 12 + 4 * (high_bits + slot_bits);
        let ones = (0..4).fold(0, |ones, lane| ones | 1u64 << (lane * high_bits));
        let highs_mask = low_mask(4 * high_bits);
        Shape {
            half_bytes: bits as usize / 4,
            high_bits,
            inverse_high_bits: 65536 / high_bits + 1,
            slot_bits,
            slots_at: 12 + 4 * high_bits,
            ones,
            lows: highs_mask & !(ones << (high_bits - 1)),
            high_mask: low_mask(high_bits),
            highs_mask,
            slot_mask: low_mask(slot_bits),
            slots_mask: low_mask(4 * slot_bits),
            // 64 bits begin at whole bytes, since they are an even number of half bytes; others may be off by
            // half.
            narrow: bits <= 60 || bits == 64,
        }
    }

    /// The lane in whose high part this bit is: a division by the width, by a multiplication that is exact up
    /// to 64.
    #[inline]
    fn lane_of(&self, bit: u32) -> u32 {
        (bit * self.inverse_high_bits) >> 16
    }
}

impl Buckets {
    /// Empty buckets with room for fields of `field_bits` (5 to 20) and slots of `slot_bits` (up to 6).
    pub(crate) fn new(buckets: u32, field_bits: u32, slot_bits: u32) -> Self {
        let shape = Shape::new(field_bits, slot_bits);
        let bytes = Self::bytes_for(buckets, field_bits, slot_bits) + PADDING_BYTES;
        Buckets { bytes: vec![0; bytes].into_boxed_slice(), shape }
    }

    /// Bytes that so many buckets take, without what is read behind them.
    pub(crate) fn bytes_for(buckets: u32, field_bits: u32, slot_bits: u32) -> usize {
        (buckets as usize * Shape::new(field_bits, slot_bits).half_bytes).div_ceil(2)
    }

    /// The packed bytes, without what is read behind them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        let len = self.bytes.len().saturating_sub(PADDING_BYTES);
        self.bytes.get(..len).unwrap_or_default()
    }

    /// Takes over packed bytes; they are not checked here. `None` if they are not [`Buckets::bytes_for`]
    /// many.
    pub(crate) fn from_bytes(bytes: &[u8], buckets: u32, field_bits: u32, slot_bits: u32) -> Option<Self> {
        if bytes.len() != Self::bytes_for(buckets, field_bits, slot_bits) {
            return None;
        }
        let mut padded = Vec::with_capacity(bytes.len() + PADDING_BYTES);
        padded.extend_from_slice(bytes);
        padded.resize(bytes.len() + PADDING_BYTES, 0);
        Some(Buckets { bytes: padded.into_boxed_slice(), shape: Shape::new(field_bits, slot_bits) })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// First byte of a bucket, and 4 if it begins with that byte's upper half.
    #[inline]
    fn position(&self, bucket: u32) -> (usize, u32) {
        let half_byte = bucket as usize * self.shape.half_bytes;
        (half_byte / 2, (half_byte as u32 & 1) * 4)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    #[inline]
    fn wide_word(&self, at: usize) -> u128 {
        let bytes = self.bytes.get(at..at + 16).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u128::from_le_bytes(*bytes))
    }

    /// Something of the bucket, so that its cache line is on the way when the bucket is needed.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: u32) -> u64 {
        self.word(self.position(bucket).0)
    }

    /// The bucket's planes.
    #[inline]
    pub(crate) fn load(&self, bucket: u32) -> Planes {
        let shape = &self.shape;
        let (at, shift) = self.position(bucket);
        if shape.narrow {
            let word = self.word(at) >> shift;
            Planes {
                combination: word & 0xfff,
                highs: word >> 12 & shape.highs_mask,
                // Without slots the shift could be 64; the mask is 0 then, and any shift will do.
                slots: word >> (shape.slots_at & 63) & shape.slots_mask,
            }
        } else {
            let word = self.wide_word(at) >> shift;
            Planes {
                combination: word as u64 & 0xfff,
                highs: (word >> 12) as u64 & shape.highs_mask,
                slots: (word >> shape.slots_at) as u64 & shape.slots_mask,
            }
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "every bucket has its bytes, with room behind them; an entry without any would be lost"
    )]
    fn put(&mut self, bucket: u32, planes: Planes) {
        let Shape { slots_at, half_bytes, narrow, .. } = self.shape;
        let (at, shift) = self.position(bucket);
        if narrow {
            let value = planes.combination | planes.highs << 12 | planes.slots << (slots_at & 63);
            let word = self.word(at) & !(low_mask(half_bytes as u32 * 4) << shift) | value << shift;
            self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        } else {
            let value = u128::from(planes.combination)
                | u128::from(planes.highs) << 12
                | u128::from(planes.slots) << slots_at;
            let mask = (1u128 << (half_bytes * 4)) - 1;
            let word = self.wide_word(at) & !(mask << shift) | value << shift;
            self.bytes[at..at + 16].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// A bit for each lane whose high part agrees with `high`: the uppermost bit of that part.
    #[inline]
    fn agreeing_highs(&self, highs: u64, high: u64) -> u64 {
        let lows = self.shape.lows;
        let differing = highs ^ high.wrapping_mul(self.shape.ones);
        // Adding carries into the uppermost bit of a part if any lower bit of it is set, and never further.
        !(((differing & lows) + lows) | differing | lows) & self.shape.highs_mask
    }

    /// The lanes of `planes` that hold `field`, as bits 0 to 3. `field` must not be 0.
    #[inline]
    pub(crate) fn find(&self, planes: Planes, field: u32) -> u32 {
        let mut agreeing = self.agreeing_highs(planes.highs, u64::from(field >> 4));
        let mut found = 0;
        // Mostly none agrees; and of those that do, mostly all are what was looked for.
        while agreeing != 0 {
            let lane = self.shape.lane_of(agreeing.trailing_zeros());
            found |= u32::from(decode(planes.combination) >> (4 * lane) & 15 == field & 15) << lane;
            agreeing &= agreeing - 1;
        }
        found
    }

    /// The slot of a lane.
    #[inline]
    pub(crate) fn slot(&self, planes: Planes, lane: u32) -> u8 {
        (planes.slots >> (lane * self.shape.slot_bits) & self.shape.slot_mask) as u8
    }

    /// Empty lanes, 0 to 4.
    #[inline]
    pub(crate) fn room(&self, planes: Planes) -> u32 {
        // Empty lanes come first.
        let highs = self.shape.lane_of(planes.highs.trailing_zeros());
        if highs == 0 {
            return 0;
        }
        let lows = decode(planes.combination).trailing_zeros() / 4;
        highs.min(lows).min(LANES as u32)
    }

    /// The four lanes, empty ones first.
    #[inline]
    pub(crate) fn lanes(&self, planes: Planes) -> [Lane; LANES] {
        let Shape { high_bits, slot_bits, .. } = self.shape;
        let (high_mask, slot_mask) = (self.shape.high_mask as u32, self.shape.slot_mask as u32);
        let combination = decode(planes.combination);
        let lane = |number: u32| {
            let high = (planes.highs >> (number * high_bits)) as u32 & high_mask;
            let slot = (planes.slots >> (number * slot_bits)) as u32 & slot_mask;
            high | slot << SLOT_SHIFT | combination >> (4 * number) << LOW_SHIFT
        };
        [lane(0), lane(1), lane(2), lane(3)]
    }

    /// Writes the four lanes, in whatever order they come.
    #[inline]
    pub(crate) fn store(&mut self, bucket: u32, lanes: [Lane; LANES]) {
        let planes = self.pack(lanes);
        self.put(bucket, planes);
    }

    /// Puts an entry into a bucket of which `planes` says that `room` lanes, at least one, are empty.
    #[inline]
    pub(crate) fn add(&mut self, bucket: u32, planes: Planes, room: u32, field: u32, slot: u8) {
        let Shape { high_bits, slot_bits, .. } = self.shape;
        let low = field & 15;
        let halves = decode(planes.combination);
        // The first lane is empty and goes. The others move down as far as they belong below the entry: those
        // with smaller half bytes, and those that are empty.
        let smaller = [4, 8, 12].into_iter().map(|shift| u32::from(halves >> shift & 15 < low)).sum::<u32>();
        let place = smaller.max(room - 1);
        let splice = |plane: u64, width: u32, value: u64| {
            let others = plane >> width;
            let below = (1 << (place * width)) - 1;
            others & below | value << (place * width) | (others & !below) << width
        };
        let planes = Planes {
            combination: encode(splice(u64::from(halves), 4, u64::from(low)) as u32),
            highs: splice(planes.highs, high_bits, u64::from(field >> 4)),
            slots: splice(planes.slots, slot_bits, u64::from(slot)),
        };
        self.put(bucket, planes);
    }

    /// Changes the slot of a lane.
    #[inline]
    pub(crate) fn set_slot(&mut self, bucket: u32, planes: Planes, lane: u32, slot: u8) {
        let shift = lane * self.shape.slot_bits;
        let slots = planes.slots & !(self.shape.slot_mask << shift) | u64::from(slot) << shift;
        self.put(bucket, Planes { slots, ..planes });
    }

    #[inline]
    fn pack(&self, lanes: [Lane; LANES]) -> Planes {
        let Shape { high_bits, slot_bits, .. } = self.shape;
        let [a, b, c, d] = sort(lanes);
        let low = |lane: Lane| lane >> LOW_SHIFT;
        let combination = encode(low(a) | low(b) << 4 | low(c) << 8 | low(d) << 12);
        let high = |lane: Lane| u64::from(lane & ((1 << SLOT_SHIFT) - 1));
        let highs = ((high(d) << high_bits | high(c)) << high_bits | high(b)) << high_bits | high(a);
        let slot = |lane: Lane| u64::from(slot_of(lane));
        let slots = ((slot(d) << slot_bits | slot(c)) << slot_bits | slot(b)) << slot_bits | slot(a);
        Planes { combination, highs, slots }
    }

    /// True if the bucket holds a combination that exists, and no empty lane behind one that is not.
    pub(crate) fn is_sound(&self, bucket: u32) -> bool {
        let planes = self.load(bucket);
        let empty_behind = self.lanes(planes).into_iter().skip_while(|lane| *lane == 0).any(|lane| lane == 0);
        (planes.combination as usize) < COMBINATIONS && !empty_behind
    }

    /// True if nothing is set behind the last of `buckets` buckets.
    pub(crate) fn ends_clean(&self, buckets: u32) -> bool {
        let (at, shift) = self.position(buckets);
        self.wide_word(at) >> shift == 0
    }
}

/// Sorts four numbers with five comparisons, without branches.
#[inline]
fn sort([a, b, c, d]: [u32; LANES]) -> [u32; LANES] {
    let (a, b) = (a.min(b), a.max(b));
    let (c, d) = (c.min(d), c.max(d));
    let (a, c) = (a.min(c), a.max(c));
    let (b, d) = (b.min(d), b.max(d));
    let (b, c) = (b.min(c), b.max(c));
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_numbered_without_gaps() {
        let mut seen = 0;
        for d in 0..16 {
            for c in 0..=d {
                for b in 0..=c {
                    for a in 0..=b {
                        let halves = a | b << 4 | c << 8 | d << 12;
                        assert_eq!(encode(halves), seen);
                        assert_eq!(decode(seen), halves);
                        seen += 1;
                    }
                }
            }
        }
        assert_eq!(seen as usize, COMBINATIONS);
    }

    #[test]
    fn every_width_keeps_what_is_stored() {
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        for field_bits in 5..=20 {
            for slot_bits in 0..=6 {
                let mut buckets = Buckets::new(50, field_bits, slot_bits);
                let mut twin = vec![[0; LANES]; 50];
                for _ in 0..400 {
                    let bucket = next() % 50;
                    let lanes = [(); LANES].map(|()| match next() % 5 {
                        0 => 0,
                        _ => lane(
                            1 + next() % ((1 << field_bits) - 1),
                            (next() & ((1 << slot_bits) - 1)) as u8,
                        ),
                    });
                    buckets.store(bucket, lanes);
                    twin[bucket as usize] = lanes;
                }
                for (bucket, lanes) in (0u32..).zip(&twin) {
                    let planes = buckets.load(bucket);
                    let mut expected = *lanes;
                    expected.sort();
                    assert_eq!(buckets.lanes(planes), expected, "{field_bits} + {slot_bits} bits");
                    assert_eq!(
                        buckets.room(planes) as usize,
                        lanes.iter().filter(|lane| **lane == 0).count()
                    );
                    assert!(buckets.is_sound(bucket));
                    let room = buckets.room(planes);
                    if room > 0 {
                        let mut added = buckets.clone();
                        let field = 1 + next() % ((1 << field_bits) - 1);
                        let slot = (next() & ((1 << slot_bits) - 1)) as u8;
                        added.add(bucket, planes, room, field, slot);
                        let mut expected = expected;
                        expected[0] = lane(field, slot);
                        expected.sort();
                        let mut found = added.lanes(added.load(bucket));
                        assert!(added.is_sound(bucket));
                        found.sort();
                        assert_eq!(found, expected);
                    }
                    let mut again = buckets.clone();
                    for number in (0u32..4).filter(|number| expected[*number as usize] != 0) {
                        let slot = (next() & ((1 << slot_bits) - 1)) as u8;
                        again.set_slot(bucket, again.load(bucket), number, slot);
                        let changed = again.lanes(again.load(bucket))[number as usize];
                        assert_eq!(
                            (field_of(changed), slot_of(changed)),
                            (field_of(expected[number as usize]), slot)
                        );
                    }
                    for (number, lane) in (0u32..).zip(expected).filter(|(_, lane)| *lane != 0) {
                        let twins =
                            (0u32..).zip(expected).filter(|(_, other)| field_of(*other) == field_of(lane));
                        assert_eq!(
                            buckets.find(planes, field_of(lane)),
                            twins.fold(0, |m, (n, _)| m | 1 << n)
                        );
                        assert_eq!(buckets.slot(planes, number), slot_of(lane));
                        let absent = field_of(lane) ^ 1 << (next() % field_bits);
                        let is_there = expected.iter().any(|other| field_of(*other) == absent);
                        assert!(absent == 0 || (buckets.find(planes, absent) != 0) == is_there);
                    }
                }
                assert!(buckets.ends_clean(50));
                let again = Buckets::from_bytes(buckets.as_bytes(), 50, field_bits, slot_bits);
                assert_eq!(again.as_ref(), Some(&buckets));
            }
        }
    }
}
