//! The shortest chain of moves that makes room in a cuckoo table, whatever its entries are.
//!
//! The idea: from the buckets of a new entry on, the buckets to which entries could move are visited breadth
//! first until one with an empty lane is found. Source: Li et al., "Algorithmic Improvements for Fast
//! Concurrent Cuckoo Hashing" (EuroSys 2014), §4.3. Nothing is moved before a whole chain is known, so an
//! insertion that fails leaves its table as it was.

use super::buckets::LANES;

/// A bucket that the search has reached, and from which lane of which bucket before.
#[derive(Debug, Clone, Copy, Default)]
struct Reached {
    bucket: u32,
    /// Index of the bucket before; its own for one of the two that the search began with.
    from: u16,
    from_lane: u8,
}

/// One step of a chain: the entry of `lane` in `from` moves to `to`, its other bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: u32,
    pub(crate) lane: u8,
    pub(crate) to: u32,
}

/// A chain of moves, in the order in which they can be carried out.
#[derive(Debug)]
pub(crate) struct Chain<const N: usize> {
    reached: [Reached; N],
    /// The step to be taken next: its place in `reached`, its lane and its target.
    next: Option<(u16, u8, u32)>,
}

/// Buckets that the search has seen: a bit for each, that some share. One that is taken to be seen is not
/// visited, which leaves thousands of others.
#[derive(Debug, Default)]
struct Seen([u64; 32]);

impl Seen {
    /// Notes a bucket. False if it was seen.
    #[inline]
    fn is_new(&mut self, bucket: u32) -> bool {
        let bit = bucket.wrapping_mul(0x9e37_79b1) >> 21;
        let Some(bits) = self.0.get_mut(bit as usize / 64) else { return true };
        let was = *bits;
        *bits |= 1 << (bit % 64);
        was != *bits
    }
}

impl<const N: usize> Chain<N> {
    /// The nearest empty lane from any of `starts`, looking into `N` buckets.
    ///
    /// `others` names, lane by lane, the buckets to which the entries of a full bucket could move.
    pub(crate) fn find(
        starts: [u32; 2],
        others: impl Fn(u32) -> [u32; LANES],
        has_room: impl Fn(u32) -> bool,
    ) -> Option<Self> {
        let mut reached = [Reached::default(); N];
        let mut seen = Seen::default();
        let mut end = 0u16;
        for bucket in starts {
            // Both may be one bucket; starting there twice would do no harm but cost.
            if let Some(start) = reached.get_mut(usize::from(end)) {
                *start = Reached { bucket, from: end, from_lane: 0 };
                end += 1;
                seen.is_new(bucket);
            }
        }
        let mut next = 0u16;
        while next < end {
            let bucket = reached.get(usize::from(next))?.bucket;
            for (from_lane, other) in (0u8..).zip(others(bucket)) {
                // Copies of an entry all move to one bucket, and back.
                if other == bucket || !seen.is_new(other) {
                    continue;
                }
                if has_room(other) {
                    return Some(Chain { reached, next: Some((next, from_lane, other)) });
                }
                if let Some(place) = reached.get_mut(usize::from(end)) {
                    *place = Reached { bucket: other, from: next, from_lane };
                    end += 1;
                }
            }
            next += 1;
        }
        None
    }
}

impl<const N: usize> Iterator for Chain<N> {
    type Item = Move;

    /// From the end: the last entry goes into the empty lane, the one before into the lane that it left, and
    /// so on.
    fn next(&mut self) -> Option<Move> {
        let (index, lane, to) = self.next?;
        let step = self.reached.get(usize::from(index)).copied().unwrap_or_default();
        self.next = (step.from != index).then_some((step.from, step.from_lane, step.bucket));
        Some(Move { from: step.bucket, lane, to })
    }
}
