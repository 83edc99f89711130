//! Where each bucket begins, in ranks and in bits: 21.3 bits per bucket.
//!
//! The idea: buckets of uniform keys begin about where one expects them to. Twenty-four of them share a line
//! of the cache, which says by how much the one in the middle is off, from the start of the trie, and by how
//! much each of the others is off from that one. The offset is predicted from the rank, since both move
//! together. A line whose buckets don't fit stores them all in full.
//!
//! Source: ours, in the place of SILT's semi-direct-16 (SOSP 2011, §3.3; 20 bits per bucket in the published
//! code, which has no sound escape). A lookup waits for one line.
//!
//! ```text
//!          63     62             37 36            0
//!         +------+-----------------+---------------+
//! word 0  | 0    | rank off by     | offset off by |    of the middle, from the expectation
//!         | 1    | index into `full`               |    the line is stored in full there
//!         +------+-----------------+---------------+
//! words 1 to 7: for every other bucket 19 bits, the first ones lowest: 10 bits of offset above 9 bits of rank; both
//! say by how much they are off from what follows from the middle
//! ```
//!
//! Numbers are stored with half their range added. On disk there are only the lengths of buckets; lines are
//! made when they are read.
//!
//! Invariants: there is one entry more than buckets, the end of all; a split bucket is in a full line.

/// Buckets in a line, and the one that the others refer to.
const LINE: usize = 24;
const MIDDLE: usize = 12;
const WORDS: usize = 8;
const RANK_BITS: u32 = 9;
const OFFSET_BITS: u32 = 10;
const PAIR_BITS: u32 = RANK_BITS + OFFSET_BITS;
const BASE_RANK_BITS: u32 = 26;
const BASE_OFFSET_BITS: u32 = 37;
/// The top bit of word 0 marks a full line, that of an offset in a full line a split bucket.
const MARK: u64 = 1 << 63;

/// As many bytes as a line of the cache, and in one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(align(64))]
struct Line([u64; WORDS]);

/// One bucket as the directory knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Keys in the buckets before.
    pub(super) rank: u64,
    /// Keys in this one.
    pub(super) keys: u64,
    /// Where its code begins and ends, in bits.
    pub(super) offset: u64,
    pub(super) end: u64,
    /// True if its keys are split into chunks by rank.
    pub(super) split: bool,
}

/// Collects the beginnings of buckets.
#[derive(Debug, Clone, Default)]
pub(super) struct DirectoryBuilder {
    starts: Vec<(u64, u64)>,
}

impl DirectoryBuilder {
    /// Adds the next bucket; the last one added is the end of all.
    pub(super) fn push(&mut self, rank: u64, offset: u64, split: bool) {
        self.starts.push((rank, offset | if split { MARK } else { 0 }));
    }

    /// Makes the lines.
    pub(super) fn finish(self) -> Directory {
        let (keys, bits) = self.starts.last().copied().unwrap_or_default();
        let buckets = (self.starts.len() as u64).saturating_sub(1).max(1);
        let ratio = |part: u64, whole: u64| ((u128::from(part) << 32) / u128::from(whole)) as u64;
        let mut directory = Directory {
            keys_per_bucket: ratio(keys, buckets),
            bits_per_key: ratio(bits, keys.max(1)),
            lines: Vec::with_capacity(self.starts.len().div_ceil(LINE)),
            full: Vec::new(),
        };
        for (number, starts) in self.starts.chunks(LINE).enumerate() {
            let line = directory.line(number as u64, starts).unwrap_or_else(|| {
                let mut full = [(keys, bits); LINE];
                full.iter_mut().zip(starts).for_each(|(full, start)| *full = *start);
                directory.full.push(full);
                Line([MARK | (directory.full.len() - 1) as u64, 0, 0, 0, 0, 0, 0, 0])
            });
            directory.lines.push(line);
        }
        directory
    }
}

/// `distance` with half of the range of `bits` bits added; `None` if it does not fit.
fn centred(distance: u64, bits: u32) -> Option<u64> {
    let moved = distance.wrapping_add(1 << (bits - 1));
    (moved >> bits == 0).then_some(moved)
}

/// Word and bit of the pair of bucket number `index` of a line, which is not the middle.
#[inline]
fn pair_at(index: usize) -> (usize, u32) {
    let bit = (index - usize::from(index > MIDDLE)) * PAIR_BITS as usize;
    (1 + bit / 64, (bit % 64) as u32)
}

/// `value` times a ratio of 1/2^32.
#[inline]
fn times(value: u64, ratio: u64) -> u64 {
    ((u128::from(value) * u128::from(ratio)) >> 32) as u64
}

/// The lowest `bits` bits of `field` with half of their range taken away.
#[inline]
fn uncentred(field: u64, bits: u32) -> u64 {
    (field & ((1 << bits) - 1)).wrapping_sub(1 << (bits - 1))
}

/// The buckets of a trie.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Directory {
    /// In 1/2^32.
    keys_per_bucket: u64,
    bits_per_key: u64,
    lines: Vec<Line>,
    full: Vec<[(u64, u64); LINE]>,
}

impl Directory {
    /// Line number `number` for buckets that begin at `starts`; `None` if these don't fit.
    fn line(&self, number: u64, starts: &[(u64, u64)]) -> Option<Line> {
        if starts.iter().any(|start| start.1 & MARK != 0) {
            return None;
        }
        let (rank, offset) = match (starts.get(MIDDLE), starts.last()) {
            (Some(middle), _) => *middle,
            // The last line, and short: the middle is where it would be if there were more of the same.
            (None, Some(last)) => {
                let keys = times((MIDDLE + 1 - starts.len()) as u64, self.keys_per_bucket);
                (last.0 + keys, last.1 + times(keys, self.bits_per_key))
            }
            (None, None) => return None,
        };
        let (expected_rank, expected_offset) = self.expected(number);
        let base_rank = centred(rank.wrapping_sub(expected_rank), BASE_RANK_BITS)?;
        let base_offset = centred(offset.wrapping_sub(expected_offset), BASE_OFFSET_BITS)?;
        let mut line = [0; WORDS];
        line[0] = base_rank << BASE_OFFSET_BITS | base_offset;
        for (index, start) in starts.iter().enumerate().filter(|(index, _)| *index != MIDDLE) {
            let keys = start.0.wrapping_sub(rank);
            let off = keys.wrapping_sub(self.keys_from_middle(index));
            let off_bits = start.1.wrapping_sub(offset).wrapping_sub(self.bits_of(keys));
            let pair = centred(off_bits, OFFSET_BITS)? << RANK_BITS | centred(off, RANK_BITS)?;
            let (word, shift) = pair_at(index);
            *line.get_mut(word)? |= pair << shift;
            if shift + PAIR_BITS > 64 {
                *line.get_mut(word + 1)? |= pair >> (64 - shift);
            }
        }
        Some(Line(line))
    }

    /// Where the middle of a line is expected to begin.
    #[inline]
    fn expected(&self, line: u64) -> (u64, u64) {
        let rank = times(line * LINE as u64 + MIDDLE as u64, self.keys_per_bucket);
        (rank, times(rank, self.bits_per_key))
    }

    /// How many keys bucket number `index` of a line is expected to be behind the middle: as a wrapping
    /// number.
    #[inline]
    fn keys_from_middle(&self, index: usize) -> u64 {
        let buckets = index as i64 - MIDDLE as i64;
        ((i128::from(buckets) * i128::from(self.keys_per_bucket)) >> 32) as u64
    }

    /// The bits that `keys` keys are expected to take; both are wrapping numbers.
    #[inline]
    fn bits_of(&self, keys: u64) -> u64 {
        ((i128::from(keys as i64) * i128::from(self.bits_per_key)) >> 32) as u64
    }

    /// Where bucket number `index` begins; the top bit of the offset says if it is split.
    #[inline]
    fn start(&self, index: usize) -> (u64, u64) {
        let (number, index) = (index / LINE, index % LINE);
        let Some(Line(line)) = self.lines.get(number) else { return (0, 0) };
        if line[0] & MARK != 0 {
            return self.start_in_full(line[0] & !MARK, index);
        }
        let (rank, offset) = self.expected(number as u64);
        let rank = rank.wrapping_add(uncentred(line[0] >> BASE_OFFSET_BITS, BASE_RANK_BITS));
        let offset = offset.wrapping_add(uncentred(line[0], BASE_OFFSET_BITS));
        if index == MIDDLE {
            return (rank, offset);
        }
        let (word, shift) = pair_at(index);
        let low = line.get(word).copied().unwrap_or(0) >> shift;
        // Two shifts, since one by 64 would be none.
        let pair = low | (line.get(word + 1).copied().unwrap_or(0) << 1) << (63 - shift);
        let keys = self.keys_from_middle(index).wrapping_add(uncentred(pair, RANK_BITS));
        let bits = self.bits_of(keys).wrapping_add(uncentred(pair >> RANK_BITS, OFFSET_BITS));
        (rank.wrapping_add(keys), offset.wrapping_add(bits))
    }

    #[cold]
    fn start_in_full(&self, line: u64, index: usize) -> (u64, u64) {
        self.full.get(line as usize).and_then(|line| line.get(index)).copied().unwrap_or_default()
    }

    /// Bucket number `index`, which must exist.
    #[inline]
    pub(super) fn bucket(&self, index: usize) -> Bucket {
        let (rank, offset) = self.start(index);
        let (next, end) = self.start(index + 1);
        let keys = next.wrapping_sub(rank);
        Bucket { rank, keys, offset: offset & !MARK, end: end & !MARK, split: offset & MARK != 0 }
    }

    /// Starts to bring the line of bucket number `index` into the cache.
    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        std::hint::black_box(self.lines.get(index / LINE).map_or(0, |line| line.0[0]));
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a directory of buckets with so many (keys, bits, split), and asks for all of them.
    fn check(buckets: &[(u64, u64, bool)]) -> Directory {
        let mut builder = DirectoryBuilder::default();
        let (mut rank, mut offset) = (0, 0);
        let mut expected = Vec::new();
        for (keys, bits, split) in buckets {
            builder.push(rank, offset, *split);
            expected.push(Bucket { rank, keys: *keys, offset, end: offset + bits, split: *split });
            rank += keys;
            offset += bits;
        }
        builder.push(rank, offset, false);
        let directory = builder.finish();
        for (index, bucket) in expected.iter().enumerate() {
            assert_eq!(directory.bucket(index), *bucket, "bucket {index} of {}", buckets.len());
        }
        directory
    }

    #[test]
    fn regular_buckets_fit_their_lines() {
        let noise = |index: u64, of: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 & (of - 1);
        for count in [1, 2, 11, 12, 13, 14, 23, 24, 25, 26, 47, 48, 49, 1000] {
            let keys = |index| 500 + noise(index, 32);
            let buckets: Vec<_> =
                (0..count).map(|i| (keys(i), keys(i) * 5 / 2 + noise(!i, 32), false)).collect();
            assert!(check(&buckets).full.is_empty(), "{count}");
        }
    }

    #[test]
    fn any_buckets_are_exact() {
        check(&[(0, 0, false)]);
        check(&[(u64::from(u32::MAX), 1 << 40, true)]);
        for period in [2, 3, 16, 17, 100] {
            let bucket = |i: u64| {
                if i.is_multiple_of(period) { (1 << 33, 1 << 36, i.is_multiple_of(4)) } else { (0, 0, false) }
            };
            check(&(0..300).map(bucket).collect::<Vec<_>>());
            let bucket = |i: u64| ((i % period) * 40, (i % 7) * 90, false);
            check(&(0..300).map(bucket).collect::<Vec<_>>());
        }
        let descending: Vec<_> = (0..500).map(|i| (100_000 / (i + 1), 300_000 / (i + 1), i == 0)).collect();
        check(&descending);
    }
}
