//! A sorted list of integers in cache lines: how many lie before a value, and how many equal it, for one
//! cache miss.
//!
//! The idea: the range of values is cut into stretches of one width, and each stretch has one line of 64
//! bytes. A line says how many integers lie before it and holds its own as an Elias-Fano code: the high part
//! of each in unary, the low bits packed. So a lookup computes its line and needs no other.
//!
//! Sources: Elias (1974) and Fano (1971) for the code; Pibiri and Venturini, "Clustered Elias-Fano Indexes"
//! (2017), for partitioning it. Where we differ, and why:
//!
//! - Lines are cut by value and not by number, so no directory has to be searched first. That wants values
//!   that are spread evenly, as hashes are; how evenly decides how full a line may be on average
//!   (`geometry.rs`).
//! - A line whose integers do not fit says where they are instead (`spill`). Exact for every input, and small
//!   where one value occurs very often.
//! - Integers may carry a mark, one bit each. Among equal ones the plain come before the marked.
//!
//! ```text
//!  0          1            5             9            17               25
//! +----------+------------+-------------+------------+----------------+---------------------+--------------+
//! | marked:1 | low bits:1 | heads: u16  | lines: u32 | spill bits: u64| lines * 64          | spill: BitVec|
//! +----------+------------+-------------+------------+----------------+---------------------+--------------+
//!
//! line, in bits from the lowest of its first word up; c integers in it, at most `capacity` unless spilled
//! +------------------+-----------------------+------------+------------------+------------------+------------------+
//! | integers before  | marks before: 32      | spilled: 1 | heads + capacity | capacity * low   | capacity         |
//! | this line: 32    | (if any are marked)   |            | unary high parts | low bits         | marks (if any)   |
//! +------------------+-----------------------+------------+------------------+------------------+------------------+
//! spilled: word 2 is the first of its bits in `spill`, word 3 the number of its distinct values (u32) and c above it;
//! there stand, for each distinct value and for the end: value in the line · integers before it · [marks before it]
//! ```
//!
//! Invariants: values ascend; a line is spilled only if its integers do not fit; what is not used is zero.

mod build;
mod bytes;
mod geometry;
mod values;

pub use build::SortedLinesBuilder;
pub use geometry::Geometry;
pub use values::Values;

use super::rank_select::select_in_word;
use super::vector::BitVec;

/// The largest integer a list can hold.
pub const MAX_VALUE: u64 = u64::MAX >> 1;

const LINE_WORDS: usize = 8;
const LINE_BITS: u32 = 512;

/// One line, in a cache line of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

impl Line {
    #[inline(always)]
    fn word(&self, index: u32) -> u64 {
        self.0.get(index as usize).copied().unwrap_or(0)
    }

    /// `width` bits, at most 63, from bit `at` on.
    #[inline(always)]
    fn bits(&self, at: u32, width: u32) -> u64 {
        let shift = at % 64;
        let mut value = self.word(at / 64) >> shift;
        if shift + width > 64 {
            value |= self.word(at / 64 + 1) << (64 - shift);
        }
        value & ((1 << width) - 1)
    }

    #[inline(always)]
    fn is_set(&self, at: u32) -> bool {
        self.word(at / 64) >> (at % 64) & 1 == 1
    }

    /// Sets the `width` bits, at most 63, from bit `at` on, which are zero.
    #[expect(clippy::indexing_slicing, reason = "the bits lie within the line, or a value would be lost")]
    fn set(&mut self, at: u32, width: u32, value: u64) {
        let shift = at % 64;
        self.0[at as usize / 64] |= value << shift;
        if shift + width > 64 {
            self.0[at as usize / 64 + 1] |= value >> (64 - shift);
        }
    }

    /// Sets those bits of word `index` that are set in `ones`.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the word lies within the line, or values would be lost")]
    fn set_ones(&mut self, index: u64, ones: u64) {
        self.0[index as usize] |= ones;
    }

    #[expect(clippy::indexing_slicing, reason = "the bit lies within the line")]
    fn clear(&mut self, at: u32) {
        self.0[at as usize / 64] &= !(1 << (at % 64));
    }

    /// The position of the zero number `rank` from bit `from` on, where there is one.
    #[inline(always)]
    fn select_zero(&self, from: u32, mut rank: u32) -> u32 {
        let mut index = from / 64;
        let mut zeros = !self.word(index) & (u64::MAX << (from % 64));
        loop {
            let inside = zeros.count_ones();
            if rank < inside {
                return index * 64 + select_in_word(zeros, rank);
            }
            rank -= inside;
            index += 1;
            zeros = !self.word(index);
        }
    }

    /// How many ones follow one another from bit `at` on.
    #[inline(always)]
    fn ones_from(&self, at: u32) -> u32 {
        let mut ones = (self.word(at / 64) >> (at % 64)).trailing_ones();
        while (at + ones).is_multiple_of(64) && self.is_set(at + ones) {
            ones += self.word((at + ones) / 64).trailing_ones();
        }
        ones
    }

    /// Ones among the `count` bits from bit `from` on.
    #[inline(always)]
    fn ones(&self, from: u32, count: u32) -> u32 {
        let end = from + count;
        let mut ones = 0;
        let mut at = from;
        while at < end {
            let width = (64 - at % 64).min(end - at);
            let word = self.word(at / 64) >> (at % 64);
            ones += if width == 64 { word } else { word & ((1 << width) - 1) }.count_ones();
            at += width;
        }
        ones
    }
}

/// What a list holds of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Integers below the value.
    pub before: u32,
    /// Integers equal to it.
    pub equal: u32,
    /// Marked integers below the value.
    pub marks_before: u32,
    /// Marked integers equal to it.
    pub marks: u32,
}

/// Equal integers of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Group {
    /// Their value.
    pub value: u64,
    /// How many are not marked.
    pub plain: u32,
    /// How many are.
    pub marks: u32,
}

/// A sorted list of integers.
///
/// ```
/// use siltstone_succinct::bits::sorted_lines::{Geometry, Group, SortedLinesBuilder};
///
/// let mut builder = SortedLinesBuilder::new(Geometry::new(100, 5, false).unwrap());
/// for value in [3, 70, 70, 5000] {
///     builder.push(Group { value, plain: 1, marks: 0 });
/// }
/// let list = builder.finish();
/// assert_eq!((list.find(70).before, list.find(70).equal), (1, 2));
/// assert_eq!((list.find(71).before, list.find(71).equal), (3, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedLines {
    geometry: Geometry,
    /// 2^64 through the values of a line, rounded down.
    reciprocal: u64,
    lines: Box<[Line]>,
    spill: BitVec,
    count: u32,
    marks: u32,
}

impl SortedLines {
    /// How many integers there are.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many of them are marked.
    pub fn marks(&self) -> u32 {
        self.marks
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<BitVec>() + size_of_val(&*self.lines) + self.spill.memory_bytes()
    }

    /// Brings the line of `value` towards the cache; the result is of no use but to keep the compiler from
    /// leaving this out.
    #[inline]
    #[must_use]
    pub fn prefetch(&self, value: u64) -> u64 {
        self.lines.get(self.line_of(value).0 as usize).map_or(0, |line| line.word(0))
    }

    /// The number of the line that `value` belongs to, and its place there.
    #[inline(always)]
    fn line_of(&self, value: u64) -> (u64, u64) {
        // A division, as a multiplication that may come out one too low.
        let line = ((u128::from(value) * u128::from(self.reciprocal)) >> 64) as u64;
        let (span, rest) = (self.geometry.span(), value - line * self.geometry.span());
        if rest >= span { (line + 1, rest - span) } else { (line, rest) }
    }

    /// What the list holds of `value`.
    ///
    /// Ones of words are counted: nearly every processor does it by one instruction, which programs for
    /// x86-64 may not assume, so that this one is asked.
    #[inline]
    pub fn find(&self, value: u64) -> Found {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has the instruction, the only one that the function asks for.
            return unsafe { self.find_counting(value) };
        }
        self.find_anywhere(value)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn find_counting(&self, value: u64) -> Found {
        self.find_anywhere(value)
    }

    #[inline(always)]
    fn find_anywhere(&self, value: u64) -> Found {
        let geometry = self.geometry;
        let (index, offset) = self.line_of(value);
        let Some(line) = self.lines.get(index as usize) else {
            return Found { before: self.count, equal: 0, marks_before: self.marks, marks: 0 };
        };
        let header = geometry.header_bits();
        if line.is_set(header - 1) {
            return self.find_spilled(line, offset);
        }
        let head = (offset >> geometry.low_bits()) as u32;
        let mut at = if head == 0 { header } else { line.select_zero(header, head - 1) + 1 };
        let mut rank = at - header - head;
        let equal = if geometry.low_bits() == 0 {
            line.ones_from(at)
        } else {
            let low = offset & ((1 << geometry.low_bits()) - 1);
            let low_of =
                |rank: u32| line.bits(geometry.lows_at() + rank * geometry.low_bits(), geometry.low_bits());
            while line.is_set(at) && low_of(rank) < low {
                (at, rank) = (at + 1, rank + 1);
            }
            let mut end = at;
            while line.is_set(end) && low_of(rank + end - at) == low {
                end += 1;
            }
            end - at
        };
        let before = (line.word(0) as u32).wrapping_add(rank);
        if !geometry.is_marked() {
            return Found { before, equal, ..Found::default() };
        }
        let marks_before = ((line.word(0) >> 32) as u32).wrapping_add(line.ones(geometry.marks_at(), rank));
        let marks = line.ones(geometry.marks_at() + rank, equal);
        Found { before, equal, marks_before, marks }
    }

    fn find_spilled(&self, line: &Line, offset: u64) -> Found {
        let spilled = Spilled::new(self.geometry, line);
        // The first distinct value that is not below.
        let (mut low, mut high) = (0, spilled.distinct);
        while low < high {
            let middle = low + (high - low) / 2;
            if spilled.get(&self.spill, middle).0 < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (value, before, marks_before) = spilled.get(&self.spill, low);
        let mut found = Found {
            before: (line.word(0) as u32).wrapping_add(before),
            marks_before: spilled.marks_base.wrapping_add(marks_before),
            ..Found::default()
        };
        if low < spilled.distinct && value == offset {
            let (_, next, next_marks) = spilled.get(&self.spill, low + 1);
            found.equal = next.wrapping_sub(before);
            found.marks = next_marks.wrapping_sub(marks_before);
        }
        found
    }

    /// The integers in order, equal ones together.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        let mut groups = Vec::new();
        let mut line = 0;
        let mut next = 0;
        std::iter::from_fn(move || {
            loop {
                if let Some(group) = groups.get(next) {
                    next += 1;
                    return Some(*group);
                }
                groups.clear();
                next = 0;
                self.decode_line(line, &mut groups)?;
                line += 1;
            }
        })
    }

    /// Appends the groups of line `index`; `None` where there is no such line, or it makes no sense.
    fn decode_line(&self, index: usize, groups: &mut Vec<Group>) -> Option<()> {
        let line = self.lines.get(index)?;
        let first = (index as u64).checked_mul(self.geometry.span())?;
        if line.is_set(self.geometry.header_bits() - 1) {
            Spilled::new(self.geometry, line).decode(&self.spill, first, groups)
        } else {
            line.decode(self.geometry, first, groups)
        }
    }
}

impl Line {
    /// Appends the groups of a line that is not spilled and whose values begin at `first`; `None` where they
    /// make no sense.
    fn decode(&self, geometry: Geometry, first: u64, groups: &mut Vec<Group>) -> Option<()> {
        let mut is_sound = true;
        self.each_head(geometry, |head, rank| {
            let is_inside = head < geometry.heads() && rank < geometry.capacity();
            let value = first.checked_add(self.offset(geometry, head, rank)).filter(|_| is_inside);
            let Some(value) = value else {
                is_sound = false;
                return;
            };
            let is_mark = geometry.is_marked() && self.is_set(geometry.marks_at() + rank);
            match groups.last_mut() {
                Some(group) if group.value == value => {
                    group.plain += u32::from(!is_mark);
                    group.marks += u32::from(is_mark);
                }
                _ => groups.push(Group { value, plain: u32::from(!is_mark), marks: u32::from(is_mark) }),
            }
        });
        is_sound.then_some(())
    }

    /// Hands over the high part and the number of each integer of a line that is not spilled; how many there
    /// are.
    #[inline]
    fn each_head(&self, geometry: Geometry, mut take: impl FnMut(u32, u32)) -> u32 {
        let (header, end) = (geometry.header_bits(), geometry.lows_at());
        let from_bit = |bit: u32| u64::MAX.checked_shl(bit).unwrap_or(0);
        let mut rank = 0;
        for (at, word) in (0..LINE_BITS).step_by(64).zip(self.0) {
            let mut ones = word & from_bit(header.saturating_sub(at)) & !from_bit(end.saturating_sub(at));
            while ones != 0 {
                take(at + ones.trailing_zeros() - header - rank, rank);
                ones &= ones - 1;
                rank += 1;
            }
        }
        rank
    }

    /// How far integer number `rank`, of high part `head`, lies behind the first value of a line that is not
    /// spilled.
    #[inline]
    fn offset(&self, geometry: Geometry, head: u32, rank: u32) -> u64 {
        let low_bits = geometry.low_bits();
        if low_bits == 0 {
            return u64::from(head);
        }
        u64::from(head) << low_bits | self.bits(geometry.lows_at() + rank * low_bits, low_bits)
    }
}

/// Where and how the integers of a spilled line stand.
struct Spilled {
    at: u64,
    distinct: u32,
    marks_base: u32,
    value_bits: u32,
    count_bits: u32,
    is_marked: bool,
}

impl Spilled {
    #[inline]
    fn new(geometry: Geometry, line: &Line) -> Self {
        let is_marked = geometry.is_marked();
        let (distinct, count) = (line.word(3) as u32, (line.word(3) >> 32) as u32);
        Self {
            at: line.word(2),
            distinct,
            marks_base: if is_marked { (line.word(0) >> 32) as u32 } else { 0 },
            value_bits: geometry.value_bits(),
            count_bits: 32 - count.leading_zeros(),
            is_marked,
        }
    }

    fn record_bits(&self) -> u32 {
        self.value_bits + self.count_bits * (1 + u32::from(self.is_marked))
    }

    /// Distinct value `index`: the value, the integers and the marks before it in the line.
    fn get(&self, spill: &BitVec, index: u32) -> (u64, u32, u32) {
        // Damaged bytes may say any place: one past the end reads as zeros.
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let at = at.saturating_add(index as usize * self.record_bits() as usize);
        let field = |at: usize, width: u32| spill.get_bits(at, width).unwrap_or(0);
        let before_at = at.saturating_add(self.value_bits as usize);
        let before = field(before_at, self.count_bits) as u32;
        let marks = if self.is_marked {
            field(before_at.saturating_add(self.count_bits as usize), self.count_bits) as u32
        } else {
            0
        };
        (field(at, self.value_bits), before, marks)
    }

    /// Appends the groups of a line whose values begin at `first`; `None` where they make no sense.
    fn decode(&self, spill: &BitVec, first: u64, groups: &mut Vec<Group>) -> Option<()> {
        let bits = u64::from(self.record_bits()).checked_mul(u64::from(self.distinct) + 1)?;
        if self.at.checked_add(bits)? > spill.len() as u64 {
            return None;
        }
        for index in 0..self.distinct {
            let (value, before, marks_before) = self.get(spill, index);
            let (_, next, next_marks) = self.get(spill, index + 1);
            let marks = next_marks.checked_sub(marks_before)?;
            let plain = next.checked_sub(before)?.checked_sub(marks)?;
            groups.push(Group { value: first.checked_add(value)?, plain, marks });
        }
        Some(())
    }
}
