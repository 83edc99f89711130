//! Level 2: the pages that a prefix covers.
//!
//! A walk over the table writes a one where a prefix of level 1 is met first, and a zero at each border of
//! pages. The number of zeros before the one of a prefix is its first page; the zeros behind it, up to the
//! next one, are the borders that lie behind its start and before the next prefix's. It crosses all of them
//! but perhaps the last, and the bit of that border in `inner` says whether it crosses that too.

use crate::bits::rank_select::RankSelect;

/// Level 2 of a [`ThreeLevelIndex`](super::ThreeLevelIndex).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pages {
    /// Ones: prefixes. Zeros: borders of pages.
    pub starts: RankSelect,
    /// Bit i: pages i - 1 and i share a prefix.
    pub inner: RankSelect,
}

impl Pages {
    /// Number of pages.
    pub fn count(&self) -> usize {
        self.inner.len()
    }

    /// First and last page of the prefix of this rank; of the last prefix, if there are not that many.
    #[inline]
    pub fn span(&self, prefix: usize) -> (usize, usize) {
        let prefix = prefix.min(self.starts.count_ones().saturating_sub(1));
        let Some(at) = self.starts.select1(prefix) else { return (0, 0) };
        let first = at - prefix;
        let behind = self.next_one(at, prefix) - at - 1;
        let last = first + behind;
        if behind > 0 && self.inner.bits().get(last) != Some(true) {
            return (first, last - 1);
        }
        (first, last)
    }

    /// The position of the one behind that at `at`, which is number `prefix`; the end if there is none.
    #[inline]
    fn next_one(&self, at: usize, prefix: usize) -> usize {
        // Mostly within the same word.
        let word = self.starts.bits().words().get(at / 64).copied().unwrap_or(0);
        let above = (word >> (at % 64)) & !1;
        if above != 0 {
            return at + above.trailing_zeros() as usize;
        }
        self.starts.select1(prefix + 1).unwrap_or(self.starts.len())
    }

    /// Inner borders to the left of the pages before `page`: the number of the border between it and the page
    /// before.
    #[inline]
    pub fn inner_before(&self, page: usize) -> usize {
        self.inner.rank1(page)
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        self.starts.memory_bytes() + self.inner.memory_bytes()
    }
}
