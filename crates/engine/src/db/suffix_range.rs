//! Ranges of suffixes, as [`Keyspace::prefix_range`](super::Keyspace::prefix_range) takes them.
//!
//! A trait of its own, since `..` says nothing of the type of its ends: a function over `RangeBounds<K>` for
//! any `K` of bytes could not be called with it.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Between which suffixes a key's has to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuffixBounds {
    pub(super) from: Bound<Vec<u8>>,
    pub(super) to: Bound<Vec<u8>>,
}

impl SuffixBounds {
    /// All suffixes.
    pub(super) const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded };

    /// Whether `suffix` lies between the bounds.
    #[inline]
    pub(super) fn contain(&self, suffix: &[u8]) -> bool {
        let after = match &self.from {
            Bound::Included(from) => suffix >= from.as_slice(),
            Bound::Excluded(from) => suffix > from.as_slice(),
            Bound::Unbounded => true,
        };
        after
            && match &self.to {
                Bound::Included(to) => suffix <= to.as_slice(),
                Bound::Excluded(to) => suffix < to.as_slice(),
                Bound::Unbounded => true,
            }
    }
}

/// A range of suffixes: one of Rust's ranges, or a pair of [`Bound`]s, over anything that is bytes.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # use siltstone::{Db, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder};
/// # let db = Db::open(dir.path().join("db"), Options::default())?;
/// # let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 1 }, suffix: SuffixOrder::Ordered };
/// # let items = db.create_keyspace("items", KeyspaceOptions { schema, ..KeyspaceOptions::default() })?;
/// for key in ["pa", "pb", "pc"] {
///     items.put(key, "value")?;
/// }
/// assert_eq!(items.prefix_range("p", ..)?.count(), 3);
/// assert_eq!(items.prefix_range("p", "b"..)?.count(), 2);
/// assert_eq!(items.prefix_range(b"p", ..=b"a")?.count(), 1);
/// assert_eq!(items.prefix_range(vec![b'p'], vec![b'a']..vec![b'c'])?.count(), 2);
/// # Ok(())
/// # }
/// ```
pub trait SuffixRange {
    /// Returns the ends of the range.
    fn into_bounds(self) -> SuffixBounds;
}

fn owned(bound: Bound<impl AsRef<[u8]>>) -> Bound<Vec<u8>> {
    bound.map(|suffix| suffix.as_ref().to_vec())
}

impl SuffixRange for SuffixBounds {
    fn into_bounds(self) -> SuffixBounds {
        self
    }
}

impl SuffixRange for RangeFull {
    fn into_bounds(self) -> SuffixBounds {
        SuffixBounds::ALL
    }
}

impl<K: AsRef<[u8]>> SuffixRange for (Bound<K>, Bound<K>) {
    fn into_bounds(self) -> SuffixBounds {
        SuffixBounds { from: owned(self.0), to: owned(self.1) }
    }
}

impl<K: AsRef<[u8]>> SuffixRange for Range<K> {
    fn into_bounds(self) -> SuffixBounds {
        (Bound::Included(self.start), Bound::Excluded(self.end)).into_bounds()
    }
}

impl<K: AsRef<[u8]>> SuffixRange for RangeInclusive<K> {
    fn into_bounds(self) -> SuffixBounds {
        let (start, end) = self.into_inner();
        (Bound::Included(start), Bound::Included(end)).into_bounds()
    }
}

impl<K: AsRef<[u8]>> SuffixRange for RangeFrom<K> {
    fn into_bounds(self) -> SuffixBounds {
        (Bound::Included(self.start), Bound::Unbounded).into_bounds()
    }
}

impl<K: AsRef<[u8]>> SuffixRange for RangeTo<K> {
    fn into_bounds(self) -> SuffixBounds {
        (Bound::Unbounded, Bound::Excluded(self.end)).into_bounds()
    }
}

impl<K: AsRef<[u8]>> SuffixRange for RangeToInclusive<K> {
    fn into_bounds(self) -> SuffixBounds {
        (Bound::Unbounded, Bound::Included(self.end)).into_bounds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_rusts_ranges_hold() {
        let suffixes: Vec<Vec<u8>> = (b'a'..=b'e').map(|byte| vec![byte]).collect();
        let held = |range: SuffixBounds| -> Vec<u8> {
            suffixes.iter().filter(|suffix| range.contain(suffix)).map(|suffix| suffix[0]).collect()
        };
        assert_eq!(held((..).into_bounds()), b"abcde");
        assert_eq!(held(("b".."d").into_bounds()), b"bc");
        assert_eq!(held((b"b"..=b"d").into_bounds()), b"bcd");
        assert_eq!(held((vec![b'c']..).into_bounds()), b"cde");
        assert_eq!(held((.."c").into_bounds()), b"ab");
        assert_eq!(held((..=[b'c']).into_bounds()), b"abc");
        assert_eq!(held((Bound::Excluded("b"), Bound::Excluded("d")).into_bounds()), b"c");
        assert_eq!(held((Bound::Excluded("b"), Bound::Unbounded).into_bounds().into_bounds()), b"cde");
    }
}
