//! Reads a list in order, a line at a time.

use super::{Group, SortedLines, Spilled};

/// Most integers decoded at once: as many as a line has bits, so that one always fits.
const CHUNK: usize = super::LINE_BITS as usize;

/// The integers of a list in order: see [`SortedLines::values`].
#[derive(Debug, Clone)]
pub struct Values<'a> {
    list: &'a SortedLines,
    next_line: usize,
    /// What is still to come of a spilled line, from the last group to the next.
    spilled: Vec<Group>,
    chunk: [u64; CHUNK],
    /// Integers in the chunk, and how many of them were handed out.
    filled: usize,
    given: usize,
}

impl SortedLines {
    /// The integers in order, each as often as it is there.
    pub fn values(&self) -> Values<'_> {
        Values { list: self, next_line: 0, spilled: Vec::new(), chunk: [0; CHUNK], filled: 0, given: 0 }
    }
}

impl Values<'_> {
    /// Decodes the next integers, those of a line mostly, in place of what was decoded before; none at the
    /// end of the list.
    ///
    /// They may be changed; the iterator then hands out what they were changed to.
    pub(crate) fn next_chunk(&mut self) -> &mut [u64] {
        (self.filled, self.given) = (0, 0);
        while self.filled == 0 {
            if self.spilled.is_empty() {
                if self.next_line().is_none() {
                    break;
                }
            } else {
                self.take_spilled();
            }
        }
        self.chunk.get_mut(..self.filled).unwrap_or_default()
    }

    /// The next of those that were decoded.
    #[inline]
    pub(crate) fn next_of_chunk(&mut self) -> Option<u64> {
        let value = self.chunk.get(..self.filled)?.get(self.given)?;
        self.given += 1;
        Some(*value)
    }

    fn next_line(&mut self) -> Option<()> {
        let geometry = self.list.geometry;
        let line = self.list.lines.get(self.next_line)?;
        let first = (self.next_line as u64).wrapping_mul(geometry.span());
        self.next_line += 1;
        if line.is_set(geometry.header_bits() - 1) {
            Spilled::new(geometry, line).decode(&self.list.spill, first, &mut self.spilled)?;
            self.spilled.reverse();
            return Some(());
        }
        let chunk = &mut self.chunk;
        let filled = line.each_head(geometry, |head, rank| {
            if let Some(value) = chunk.get_mut(rank as usize % CHUNK) {
                *value = first.wrapping_add(line.offset(geometry, head, rank));
            }
        });
        self.filled = filled as usize;
        Some(())
    }

    fn take_spilled(&mut self) {
        for value in &mut self.chunk {
            let Some(group) = self.spilled.last_mut() else { return };
            *value = group.value;
            match (&mut group.plain, &mut group.marks) {
                (0, marks) => *marks = marks.saturating_sub(1),
                (plain, _) => *plain -= 1,
            }
            if group.plain == 0 && group.marks == 0 {
                self.spilled.pop();
            }
            self.filled += 1;
        }
    }
}

impl Iterator for Values<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        loop {
            if let Some(value) = self.next_of_chunk() {
                return Some(value);
            }
            if self.next_chunk().is_empty() {
                return None;
            }
        }
    }
}
