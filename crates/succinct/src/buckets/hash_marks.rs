//! HashMarks in memory: for the buckets that gave most, from which order on their items are elsewhere.
//!
//! A lookup of an item beyond its bucket's mark goes to the target at once; without the mark it would read
//! the home page first, which says the same. So the marks only save reads, and a few of them save most.
//!
//! Source: LSM-trie (Wu et al., ATC'15), "Caching HashMarks": the largest givers, until 99 % of lookups are
//! covered. There an entry has eight bytes (source, target, mark). Where we differ: sources are bits of a
//! rank vector and marks have 16 bits, so that an entry takes four bytes and each bucket one bit and a bit
//! more; twice as many marks in the same memory.
//!
//! ```text
//! ┌───────────────────┬──────────────────────────────┬──────────────────────────────────┐
//! │ givers: u32 bytes │ givers: a bit vector's bytes │ per giver: mark u16 · target u16 │
//! └───────────────────┴──────────────────────────────┴──────────────────────────────────┘
//! ```

use super::migration::Parcel;
use crate::bits::rank_select::RankSelect;
use crate::bits::vector::BitVecBuilder;
use crate::error::DecodeError;

/// Marks of some buckets.
#[derive(Debug)]
pub struct HashMarks {
    givers: RankSelect,
    /// Mark in the upper half, target in the lower.
    marks: Box<[u32]>,
}

/// Gathers the parcels of a table and keeps the largest.
#[derive(Debug, Default)]
pub struct HashMarksBuilder {
    buckets: u32,
    /// Items, bucket, mark and target of every bucket's last parcel.
    parcels: Vec<(u32, u32, u16, u16)>,
    /// Items in parcels that are not any bucket's last.
    uncovered: u64,
    items: u64,
}

impl HashMarksBuilder {
    /// Adds the next bucket, with its items at home and away, and its parcels by ascending marks.
    ///
    /// Orders and targets have 16 bits; the marks of a bucket with others are not kept.
    pub fn add_bucket(&mut self, items: u64, parcels: &[Parcel]) {
        let bucket = self.buckets;
        self.buckets += 1;
        self.items += items;
        // The last parcel has no end but that of all orders, so one mark says which items are in it.
        let Some((last, others)) = parcels.split_last() else { return };
        self.uncovered += others.iter().map(|parcel| u64::from(parcel.items)).sum::<u64>();
        match (u16::try_from(last.mark), u16::try_from(last.target)) {
            // It only ends the one before.
            _ if last.items == 0 => {}
            (Ok(mark), Ok(target)) => self.parcels.push((last.items, bucket, mark, target)),
            _ => self.uncovered += u64::from(last.items),
        }
    }

    /// The marks of the largest givers, as many as it takes until at most `uncovered_share` of all items are
    /// away from home and not covered, but no more than `most_share` of the buckets have.
    pub fn finish(mut self, uncovered_share: f64, most_share: f64) -> HashMarks {
        self.parcels.sort_unstable_by_key(|&(items, bucket, ..)| (std::cmp::Reverse(items), bucket));
        let allowed = (self.items as f64 * uncovered_share) as u64;
        let mut away = self.uncovered + self.parcels.iter().map(|parcel| u64::from(parcel.0)).sum::<u64>();
        let most = (f64::from(self.buckets) * most_share) as usize;
        let mut kept = 0;
        for (items, ..) in self.parcels.iter().take(most) {
            if away <= allowed {
                break;
            }
            away -= u64::from(*items);
            kept += 1;
        }
        self.parcels.truncate(kept);
        self.parcels.sort_unstable_by_key(|parcel| parcel.1);
        let mut givers = BitVecBuilder::new();
        let mut marks = Vec::with_capacity(kept);
        let mut parcels = self.parcels.iter().peekable();
        for bucket in 0..self.buckets {
            let parcel = parcels.next_if(|parcel| parcel.1 == bucket);
            givers.push(parcel.is_some());
            marks.extend(parcel.map(|&(_, _, mark, target)| u32::from(mark) << 16 | u32::from(target)));
        }
        HashMarks { givers: RankSelect::new(givers.finish()), marks: marks.into() }
    }
}

impl HashMarks {
    /// The bucket where an item of `bucket` with this order is, if it is known to be away.
    #[inline]
    pub fn target(&self, bucket: u32, order: u16) -> Option<u16> {
        let bucket = bucket as usize;
        if !self.givers.bits().get(bucket)? {
            return None;
        }
        let mark = *self.marks.get(self.givers.rank1(bucket))?;
        ((mark >> 16) as u16 <= order).then_some(mark as u16)
    }

    /// Buckets whose mark is known.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether no mark is known.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Appends the structure's bytes.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        let mut givers = Vec::new();
        self.givers.to_bytes(&mut givers);
        out.extend_from_slice(&(givers.len() as u32).to_le_bytes());
        out.extend_from_slice(&givers);
        for mark in &self.marks {
            out.extend_from_slice(&((mark >> 16) as u16).to_le_bytes());
            out.extend_from_slice(&(*mark as u16).to_le_bytes());
        }
    }

    /// The structure that one [`HashMarks::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let short =
            || DecodeError::new("hash marks", "a header and givers", format_args!("{} bytes", bytes.len()));
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let (givers, marks) =
            rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
        let givers = RankSelect::from_bytes(givers)?;
        let (chunks, tail) = marks.as_chunks::<4>();
        if !tail.is_empty() || chunks.len() != givers.count_ones() {
            return Err(DecodeError::new(
                "hash marks, marks",
                format_args!("{} of 4 bytes", givers.count_ones()),
                format_args!("{} bytes", marks.len()),
            ));
        }
        let mark = |&[a, b, c, d]: &[u8; 4]| {
            u32::from(u16::from_le_bytes([a, b])) << 16 | u32::from(u16::from_le_bytes([c, d]))
        };
        Ok(Self { givers, marks: chunks.iter().map(mark).collect() })
    }
}
