//! Writes a list line by line.

use super::{Geometry, Group, Line, MAX_VALUE, SortedLines, Spilled};
use crate::bits::vector::BitVecBuilder;

/// Builds a [`SortedLines`] from integers in order.
#[derive(Debug, Clone)]
pub struct SortedLinesBuilder {
    geometry: Geometry,
    lines: Vec<Line>,
    spill: BitVecBuilder,
    /// Groups of the line that is open, and where its values begin and end.
    open: Vec<Group>,
    first: u64,
    end: u64,
    /// Integers and marks in the lines that are closed.
    count: u32,
    marks: u32,
}

impl SortedLinesBuilder {
    /// A builder of lines laid out as `geometry` says.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            lines: Vec::new(),
            spill: BitVecBuilder::new(),
            open: Vec::new(),
            first: 0,
            end: geometry.span(),
            count: 0,
            marks: 0,
        }
    }

    /// Adds integers that are equal.
    ///
    /// # Panics
    ///
    /// If their value is below the last one or above [`MAX_VALUE`], or if there are more than 2^32 - 1 integers.
    #[inline]
    pub fn push(&mut self, group: Group) {
        assert!(group.value >= self.first, "push: a value below one before");
        assert!(group.value <= MAX_VALUE, "push: a value above 2^63 - 1");
        if group.plain == 0 && group.marks == 0 {
            return;
        }
        if group.value >= self.end {
            self.close_line();
            let line = group.value / self.geometry.span();
            // Lines without integers.
            while (self.lines.len() as u64) < line {
                self.close_line();
            }
        }
        match self.open.last_mut() {
            Some(last) if last.value >= group.value => {
                assert!(last.value == group.value, "push: a value below one before");
                last.plain += group.plain;
                last.marks += group.marks;
            }
            _ => self.open.push(group),
        }
    }

    fn close_line(&mut self) {
        let geometry = self.geometry;
        let mut line = Line::default();
        line.set(0, 32, u64::from(self.count));
        let mut base_marks = 0;
        if geometry.is_marked() {
            line.set(32, 32, u64::from(self.marks));
            base_marks = self.marks;
        }
        let count: u64 = self.open.iter().map(|group| u64::from(group.plain) + u64::from(group.marks)).sum();
        assert!(u64::from(self.count) + count <= u64::from(u32::MAX), "a list has at most 2^32 - 1 integers");
        let count = count as u32;
        if count <= geometry.capacity() {
            self.encode(&mut line);
        } else {
            line.set(geometry.header_bits() - 1, 1, 1);
            let [_, _, at, counts, ..] = &mut line.0;
            *at = self.spill.len() as u64;
            *counts = self.open.len() as u64 | u64::from(count) << 32;
            self.spill_line(&line);
        }
        self.count += count;
        self.marks = base_marks + self.open.iter().map(|group| group.marks).sum::<u32>();
        self.open.clear();
        self.lines.push(line);
        self.first = self.end;
        self.end += geometry.span();
    }

    /// Puts the open integers, which fit, into their line.
    fn encode(&self, line: &mut Line) {
        let geometry = self.geometry;
        let mut rank = 0;
        for group in &self.open {
            let offset = group.value - self.first;
            let head = (offset >> geometry.low_bits()) as u32;
            let low = offset & ((1 << geometry.low_bits()) - 1);
            for number in 0..group.plain + group.marks {
                line.set(geometry.header_bits() + head + rank, 1, 1);
                if geometry.low_bits() > 0 {
                    line.set(geometry.lows_at() + rank * geometry.low_bits(), geometry.low_bits(), low);
                }
                if number >= group.plain {
                    line.set(geometry.marks_at() + rank, 1, 1);
                }
                rank += 1;
            }
        }
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
        for group in &self.open {
            record(group.value - self.first, before, marks_before);
            before += group.plain + group.marks;
            marks_before += group.marks;
        }
        record(0, before, marks_before);
    }

    /// Freezes the list.
    pub fn finish(mut self) -> SortedLines {
        if !self.open.is_empty() {
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
