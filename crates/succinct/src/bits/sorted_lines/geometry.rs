//! How the bits of a line are shared out, and which sharing is best for a list.

use super::{Group, LINE_BITS};

/// Most low bits; one less than fit beside the widest unary part in 64.
const MAX_LOW_BITS: u32 = 54;

/// How the bits of a line are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    heads: u32,
    low_bits: u32,
    is_marked: bool,
    /// Follows from the others; kept since every lookup would have to divide for it.
    capacity: u32,
}

impl Geometry {
    const fn of(heads: u32, low_bits: u32, is_marked: bool) -> Self {
        let mut geometry = Self { heads, low_bits, is_marked, capacity: 0 };
        let free = LINE_BITS.saturating_sub(geometry.header_bits() + heads);
        geometry.capacity = free / (low_bits + 1 + is_marked as u32);
        geometry
    }

    /// Lines that cover `heads << low_bits` values each, whose integers carry marks or don't; `None` if they
    /// would have no room for a single integer.
    pub fn new(heads: u32, low_bits: u32, is_marked: bool) -> Option<Self> {
        if heads == 0 || heads >= LINE_BITS || low_bits > MAX_LOW_BITS {
            return None;
        }
        let geometry = Self::of(heads, low_bits, is_marked);
        (geometry.capacity > 0).then_some(geometry)
    }

    /// The best for integers that are spread evenly: `count` of them below `universe`, as the hash of each
    /// key is.
    ///
    /// A line is filled so far that few spill: a line's number of integers varies by the square root of
    /// itself.
    pub fn for_hashes(count: u64, universe: u64, low_bits: u32) -> Self {
        let per_head = count as f64 / (universe as f64 / (1u64 << low_bits) as f64).max(1.0);
        let fits = |heads: &u32| {
            let inside = f64::from(*heads) * per_head;
            let room = Self::of(*heads, low_bits, false).capacity;
            inside + 2.8 * inside.sqrt() + 1.0 <= f64::from(room)
        };
        let heads = (8..=440).rev().find(fits).unwrap_or(8);
        Self::of(heads, low_bits.min(MAX_LOW_BITS), false)
    }

    /// About the smallest for these groups, tried one by one.
    pub fn smallest(groups: &[Group]) -> Self {
        let is_marked = groups.iter().any(|group| group.marks > 0);
        let count: u64 = groups.iter().map(|group| u64::from(group.plain) + u64::from(group.marks)).sum();
        let universe = groups.last().map_or(0, |group| group.value) as f64 + 1.0;
        let gap = universe / count.max(1) as f64;
        let middle = (gap.log2().max(0.0) as u32).min(MAX_LOW_BITS);
        let room = |low_bits: u32| low_bits + 1 + u32::from(is_marked);
        let header = Self::of(1, 0, is_marked).header_bits();
        let mut best: Option<(u64, Self)> = None;
        for low_bits in middle.saturating_sub(1)..=middle {
            let per_head = count as f64 * (1u64 << low_bits) as f64 / universe;
            // By how many integers a line may pass the average before it spills.
            for slack in [0, 2, 4, 6, 8, 12] {
                let free = f64::from(LINE_BITS - header) - f64::from(room(low_bits) * slack);
                let heads = (free / (1.0 + f64::from(room(low_bits)) * per_head)).max(1.0) as u32;
                let Some(geometry) = Self::new(heads, low_bits, is_marked) else { continue };
                let bits = geometry.bits_for(groups);
                if best.is_none_or(|(least, _)| bits < least) {
                    best = Some((bits, geometry));
                }
            }
        }
        best.map_or(Self::of(64, middle.min(32), is_marked), |(_, geometry)| geometry)
    }

    /// Bits of lines and spill for these groups.
    fn bits_for(self, groups: &[Group]) -> u64 {
        let mut bits = 0u64;
        let (mut line, mut end) = (0u64, self.span());
        let (mut inside, mut distinct) = (0u64, 0u64);
        let spilled = |inside: u64, distinct: u64| {
            let count_bits = 64 - inside.leading_zeros();
            let record = self.value_bits() + count_bits * (1 + u32::from(self.is_marked));
            if inside > u64::from(self.capacity()) { u64::from(record) * (distinct + 1) } else { 0 }
        };
        for group in groups {
            if group.value >= end {
                bits += spilled(inside, distinct);
                (inside, distinct) = (0, 0);
                line = group.value / self.span();
                end = (line + 1).saturating_mul(self.span());
            }
            inside += u64::from(group.plain) + u64::from(group.marks);
            distinct += 1;
        }
        (line + 1).saturating_mul(u64::from(LINE_BITS)).saturating_add(bits + spilled(inside, distinct))
    }

    /// Values that one line covers.
    #[inline]
    pub fn span(self) -> u64 {
        u64::from(self.heads) << self.low_bits
    }

    /// High parts that one line tells apart.
    #[inline]
    pub fn heads(self) -> u32 {
        self.heads
    }

    /// Bits of a value that are not coded in unary.
    #[inline]
    pub fn low_bits(self) -> u32 {
        self.low_bits
    }

    /// Whether integers carry a mark.
    #[inline]
    pub fn is_marked(self) -> bool {
        self.is_marked
    }

    /// Whether a line has nothing but high parts.
    #[inline]
    pub(super) fn is_plain(self) -> bool {
        self.low_bits == 0 && !self.is_marked
    }

    /// Most integers of a line that is not spilled.
    #[inline]
    pub fn capacity(self) -> u32 {
        self.capacity
    }

    #[inline]
    pub(super) const fn header_bits(self) -> u32 {
        if self.is_marked { 65 } else { 33 }
    }

    /// First bit of the low parts.
    #[inline]
    pub(super) fn lows_at(self) -> u32 {
        self.header_bits() + self.heads + self.capacity
    }

    /// First bit of the marks.
    #[inline]
    pub(super) fn marks_at(self) -> u32 {
        self.lows_at() + self.capacity * self.low_bits
    }

    /// Bits of a value within a line.
    #[inline]
    pub(super) fn value_bits(self) -> u32 {
        64 - (self.span() - 1).leading_zeros()
    }
}
