//! Writes a list line by line.

use super::{Geometry, Group, Line, MAX_VALUE, SortedLines, Spilled};
use crate::bits::vector::BitVecBuilder;

/// Builds a [`SortedLines`] from integers in order.
#[derive(Debug, Clone)]
pub struct SortedLinesBuilder {
    geometry: Geometry,
    lines: Vec<Line>,
    spill: BitVecBuilder,
    /// Integers and marks in the lines that are closed.
    count: u32,
    marks: u32,
    /// The open line as far as it goes without its header, and where its values begin and end.
    open: Line,
    first: u64,
    end: u64,
    /// Integers and marks in it.
    inside: u32,
    inside_marks: u32,
    /// The last value, and how many of it are marked.
    last: u64,
    last_marks: u32,
    /// The open line's groups, once there are too many integers for it.
    spilling: Vec<Group>,
}

impl SortedLinesBuilder {
    /// A builder of lines laid out as `geometry` says.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            lines: Vec::new(),
            spill: BitVecBuilder::new(),
            count: 0,
            marks: 0,
            open: Line::default(),
            first: 0,
            end: geometry.span(),
            inside: 0,
            inside_marks: 0,
            last: 0,
            last_marks: 0,
            spilling: Vec::new(),
        }
    }

    /// Adds integers that are equal.
    ///
    /// # Panics
    ///
    /// If their value is below the last one or above [`MAX_VALUE`], or if there are more than 2^32 - 1
    /// integers.
    #[inline]
    pub fn push(&mut self, group: Group) {
        assert!(group.value >= self.last, "push: a value below one before");
        assert!(group.value <= MAX_VALUE, "push: a value above 2^63 - 1");
        let many = u64::from(group.plain) + u64::from(group.marks);
        if many == 0 {
            return;
        }
        if group.value >= self.end {
            self.open_line_of(group.value);
        }
        let all = u64::from(self.count) + u64::from(self.inside) + many;
        assert!(all <= u64::from(u32::MAX), "a list has at most 2^32 - 1 integers");
        if u64::from(self.inside) + many > u64::from(self.geometry.capacity()) {
            self.put_aside(group);
        } else if self.geometry.is_plain() {
            self.put_plain(group);
        } else {
            self.put(group);
        }
        if self.last != group.value {
            (self.last, self.last_marks) = (group.value, 0);
        }
        self.last_marks += group.marks;
        self.inside_marks += group.marks;
    }

    /// Adds `value >> shift` for each of `values`, none of them marked.
    ///
    /// # Panics
    ///
    /// As [`SortedLinesBuilder::push`].
    pub fn push_all(&mut self, values: &[u64], shift: u32) {
        let kept = u64::MAX.checked_shr(shift).unwrap_or(0);
        let shifted = |value: &u64| value.wrapping_shr(shift) & kept;
        let mut rest = values;
        while let Some(first) = rest.first() {
            let taken = if self.geometry.is_plain() { self.put_all_plain(rest, shifted) } else { 0 };
            if taken == 0 {
                // The first of a line, or one more than it has room for.
                self.push(Group { value: shifted(first), plain: 1, marks: 0 });
            }
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
    }

    /// Puts those at the front that belong to the open line and find room there; how many.
    #[inline]
    fn put_all_plain(&mut self, values: &[u64], shifted: impl Fn(&u64) -> u64) -> usize {
        let room = self.geometry.capacity().saturating_sub(self.inside) as usize;
        // Bit of the next integer, but for its value.
        let mut base = u64::from(self.geometry.header_bits() + self.inside).wrapping_sub(self.first);
        let (mut last, mut taken, mut ascends) = (self.last, 0, true);
        // The bits of one word that are still to be set there, and where it is.
        let (mut ones, mut word) = (0, 0);
        let end = self.end;
        for value in values.iter().take(room).map(shifted) {
            if value >= end {
                break;
            }
            ascends &= value >= last;
            last = value;
            let at = base.wrapping_add(value);
            if at / 64 != word {
                self.open.set_ones(word, ones);
                (ones, word) = (0, at / 64);
            }
            ones |= 1 << (at % 64);
            base = base.wrapping_add(1);
            taken += 1;
        }
        self.open.set_ones(word, ones);
        assert!(ascends, "push_all: a value below one before");
        assert!(last <= MAX_VALUE, "push_all: a value above 2^63 - 1");
        let all = u64::from(self.count) + u64::from(self.inside) + taken;
        assert!(all <= u64::from(u32::MAX), "a list has at most 2^32 - 1 integers");
        self.last = last;
        self.inside += taken as u32;
        taken as usize
    }

    #[inline(never)]
    fn open_line_of(&mut self, value: u64) {
        self.close_line();
        let line = value / self.geometry.span();
        // Lines without integers.
        while (self.lines.len() as u64) < line {
            self.close_line();
        }
    }

    /// Puts integers into the open line, which has room for them.
    fn put(&mut self, group: Group) {
        let (geometry, from) = (self.geometry, self.inside);
        let offset = group.value - self.first;
        let low = offset & ((1 << geometry.low_bits()) - 1);
        self.put_plain(group);
        for rank in from..self.inside {
            self.open.set(geometry.lows_at() + rank * geometry.low_bits(), geometry.low_bits(), low);
        }
        if geometry.is_marked() {
            // Of equal ones the marked stand at the end, also of those that come one after the other.
            let before = if self.last == group.value { self.last_marks } else { 0 };
            (from - before..from).for_each(|rank| self.open.clear(geometry.marks_at() + rank));
            let marked = self.inside - before - group.marks..self.inside;
            marked.for_each(|rank| self.open.set(geometry.marks_at() + rank, 1, 1));
        }
    }

    /// Puts their high parts, which is all where there are neither low bits nor marks.
    #[inline]
    fn put_plain(&mut self, group: Group) {
        let head = ((group.value - self.first) >> self.geometry.low_bits()) as u32;
        let from = self.geometry.header_bits() + head + self.inside;
        self.inside += group.plain + group.marks;
        for at in from..from + group.plain + group.marks {
            self.open.set(at, 1, 1);
        }
    }

    /// Takes note of integers whose line has no room for them.
    #[cold]
    fn put_aside(&mut self, group: Group) {
        if self.spilling.is_empty() {
            let groups = self.open.decode(self.geometry, self.first, &mut self.spilling);
            debug_assert!(groups.is_some(), "what was put can be read");
        }
        self.inside += group.plain + group.marks;
        match self.spilling.last_mut() {
            Some(last) if last.value == group.value => {
                last.plain += group.plain;
                last.marks += group.marks;
            }
            _ => self.spilling.push(group),
        }
    }

    fn close_line(&mut self) {
        let geometry = self.geometry;
        let mut line = std::mem::take(&mut self.open);
        if !self.spilling.is_empty() {
            line = Line::default();
            line.set(geometry.header_bits() - 1, 1, 1);
            let [_, _, at, counts, ..] = &mut line.0;
            *at = self.spill.len() as u64;
            *counts = self.spilling.len() as u64 | u64::from(self.inside) << 32;
            self.spill_line(&line);
        }
        line.set(0, 32, u64::from(self.count));
        if geometry.is_marked() {
            line.set(32, 32, u64::from(self.marks));
        }
        self.lines.push(line);
        self.count += self.inside;
        self.marks += self.inside_marks;
        (self.inside, self.inside_marks) = (0, 0);
        self.first = self.end;
        // Behind the last value there may be no room for another line.
        self.end = self.end.saturating_add(geometry.span());
    }

    fn spill_line(&mut self, line: &Line) {
        let Spilled { value_bits, count_bits, is_marked, .. } = Spilled::new(self.geometry, line);
        let (mut before, mut marks_before) = (0, 0);
        let spill = &mut self.spill;
        let mut record = |value: u64, before: u32, marks_before: u32| {
            spill.push_bits(value, value_bits);
            spill.push_bits(u64::from(before), count_bits);
            if is_marked {
                spill.push_bits(u64::from(marks_before), count_bits);
            }
        };
        for group in self.spilling.drain(..) {
            record(group.value - self.first, before, marks_before);
            before += group.plain + group.marks;
            marks_before += group.marks;
        }
        record(0, before, marks_before);
    }

    /// Freezes the list.
    pub fn finish(mut self) -> SortedLines {
        if self.inside > 0 {
            self.close_line();
        }
        SortedLines {
            geometry: self.geometry,
            reciprocal: u64::MAX / self.geometry.span(),
            lines: self.lines.into_boxed_slice(),
            spill: self.spill.finish(),
            count: self.count,
            marks: self.marks,
        }
    }
}
