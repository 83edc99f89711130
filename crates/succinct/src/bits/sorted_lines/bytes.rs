//! The list as bytes. What is read is decoded, written again and compared, so that only what a builder could
//! have made passes; or it is taken as it is, where a checksum has said that it is what was written.

use super::{Geometry, LINE_WORDS, Line, MAX_VALUE, SortedLines, SortedLinesBuilder};
use crate::bits::vector::BitVec;
use crate::code::words::{get_words, put_words};
use crate::error::DecodeError;

const HEADER_BYTES: usize = 16;
const LINE_BYTES: usize = LINE_WORDS * 8;

impl SortedLines {
    /// Appends the encoding drawn at the top of `mod.rs`.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        let geometry = self.geometry;
        out.push(u8::from(geometry.is_marked()));
        out.push(geometry.low_bits() as u8);
        out.extend_from_slice(&(geometry.heads() as u16).to_le_bytes());
        out.extend_from_slice(&(self.lines.len() as u32).to_le_bytes());
        let mut spill = Vec::new();
        self.spill.to_bytes(&mut spill);
        out.extend_from_slice(&(spill.len() as u64).to_le_bytes());
        self.lines.iter().for_each(|line| put_words(out, &line.0));
        out.append(&mut spill);
    }

    /// Decodes the list at the start of `bytes` and returns it with the bytes behind it.
    ///
    /// # Errors
    ///
    /// If the bytes are not what [`SortedLines::to_bytes`] writes.
    pub fn from_front(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let wrong = |found: &str| DecodeError::new("sorted lines", "lines as they are written", found);
        let (list, rest) = Self::from_trusted_front(bytes)?;
        let again = list.rebuilt().ok_or_else(|| wrong("lines that make no sense"))?;
        if again != list {
            return Err(wrong("lines that no builder wrote"));
        }
        Ok((list, rest))
    }

    /// The same for bytes that a checksum has shown to be as they were written: a fiftieth of the time. Of
    /// others only lengths are checked; such a list answers something, and never panics.
    ///
    /// # Errors
    ///
    /// If the bytes end too soon or begin with no header.
    pub fn from_trusted_front(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let wrong = |found: &str| DecodeError::new("sorted lines", "lines as they are written", found);
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| wrong("a cut-off header"))?;
        let [marked, low_bits, h0, h1, l0, l1, l2, l3, spill @ ..] = *header;
        let heads = u32::from(u16::from_le_bytes([h0, h1]));
        let geometry = Geometry::new(heads, u32::from(low_bits), marked == 1)
            .filter(|_| marked <= 1)
            .ok_or_else(|| wrong("no sound geometry"))?;
        let count = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let spill_bytes = usize::try_from(u64::from_le_bytes(spill)).unwrap_or(usize::MAX);
        let (lines, rest) = count
            .checked_mul(LINE_BYTES)
            .and_then(|length| rest.split_at_checked(length))
            .ok_or_else(|| wrong("too few lines"))?;
        let (spill, rest) = rest.split_at_checked(spill_bytes).ok_or_else(|| wrong("a cut-off spill"))?;
        let spill = BitVec::from_bytes(spill)?;
        let words = get_words(lines).unwrap_or_default();
        let lines = words.as_chunks::<LINE_WORDS>().0.iter().map(|words| Line(*words)).collect();
        let mut list =
            Self { geometry, reciprocal: u64::MAX / geometry.span(), lines, spill, count: 0, marks: 0 };
        let end = list.end().ok_or_else(|| wrong("a last line that makes no sense"))?;
        (list.count, list.marks) = end;
        Ok((list, rest))
    }

    /// How many integers there are, and how many are marked, by the last line; `None` where that makes no
    /// sense.
    fn end(&self) -> Option<(u32, u32)> {
        let Some(last) = self.lines.len().checked_sub(1) else { return Some((0, 0)) };
        let before = self.find((last as u64).checked_mul(self.geometry.span())?);
        let mut groups = Vec::new();
        self.decode_line(last, &mut groups)?;
        groups.iter().try_fold((before.before, before.marks_before), |(count, marks), group| {
            let marks = marks.checked_add(group.marks)?;
            Some((count.checked_add(group.plain)?.checked_add(group.marks)?, marks))
        })
    }

    /// The list built again from what its lines say.
    fn rebuilt(&self) -> Option<Self> {
        let mut builder = SortedLinesBuilder::new(self.geometry);
        let (mut groups, mut total, mut last) = (Vec::new(), 0u64, None);
        for line in 0..self.lines.len() {
            groups.clear();
            self.decode_line(line, &mut groups)?;
            let end = (line as u64 + 1).saturating_mul(self.geometry.span());
            for group in &groups {
                let is_sorted = last.is_none_or(|last| last < group.value) && group.value < end;
                let inside = u64::from(group.plain) + u64::from(group.marks);
                total += inside;
                if !is_sorted || group.value > MAX_VALUE || inside == 0 || total > u64::from(u32::MAX) {
                    return None;
                }
                last = Some(group.value);
                builder.push(*group);
            }
        }
        Some(builder.finish())
    }
}
