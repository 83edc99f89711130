//! SlimDB's three-level index: which page of a table holds a key that consists of a prefix and a suffix, in
//! about a bit per key.
//!
//! The idea: keys are sorted by their prefix's hash and then by their suffix, so the first and the last key
//! of the pages repeat few prefixes. Level 1 finds a prefix among those that begin or end a page, level 2
//! says which pages that prefix covers, and level 3 tells these pages apart by the suffix.
//!
//! Source: Ren, Zheng, Arulraj and Gibson, "SlimDB" (VLDB 2017), §3.1, figure 6, and §5.2, tables 3 and 4.
//! Both forms of level 3 are here ([`ThirdLevel`]). Where we differ, and why:
//!
//! - *Every* stored key finds its page, so that a lookup reads one. An entropy-coded trie does not hold its
//!   keys; a prefix that it does not hold, since it lies inside a page, ends up at one of its neighbours, and
//!   the trie can't tell which of the two was asked for. That is harmless if the neighbour covers that page
//!   alone. Where it covers more, level 1 also holds the prefix next to it inside the page (`build.rs`), a
//!   few bits per group of several pages.
//! - For the same reason a trie of the last suffixes alone, as in the paper, sends keys to a page too low or
//!   too high. Ours holds the suffixes on both sides of each border, and pairs those of one page: a trie in
//!   blocks of two does not code what tells a page's first suffix from its last.
//! - All tries of level 3 are one. A group that crosses `n` borders from page `s` on has the numbers from `s`
//!   to `s + n` for its own, into which its suffixes are stretched (`suffixes.rs`). Groups follow one
//!   another, all borders lie equally close, and a group costs nothing but the code of its borders.
//! - A bit per page says whether its border to the page before cuts a group. The paper's level 2 has two
//!   places per page instead, which takes the same bits, but does not count the borders.
//! - Suffixes may tie, if they are not hashed and agree in their first eight bytes. A group where they do has
//!   the whole keys in a separator index, which level 3 gives way to (`ties`).
//!
//! ```text
//!  0         1          5                 5 + 5 * 8
//! +---------+----------+-----------------+----------+--------+-------+----------+------+
//! | form: 1 | pages: 4 | lengths: 5 * 8  | prefixes | starts | inner | suffixes | ties |
//! +---------+----------+-----------------+----------+--------+-------+----------+------+
//!  0 trie               of the five parts  level 1   level 2          level 3
//!  1 partial suffixes
//!
//! prefixes   EntropyTrie of the prefixes
//! starts     BitVec: a one per prefix, and a zero where a page ends and another follows, in order
//! inner      BitVec: bit i is one if pages i - 1 and i share a prefix; bit 0 is zero
//! suffixes   trie: EntropyTrie in blocks of two, empty if no border is coded
//!            partial: lengths of 6 bits as a BitVec, then the partial suffixes as a BitVec
//! ties       nothing, or a BitVec of those inner borders that the separators tell apart, then Separators
//! ```
//!
//! Parts of two pieces begin with the length of the first, eight bytes. Invariants: `starts` has a one for
//! each prefix and begins with one; level 3 codes exactly the borders that are inner and not in `ties`.

mod build;
mod bytes;
mod pages;
mod suffixes;

pub use build::ThreeLevelBuilder;

use super::entropy_trie::{EntropyTrie, Place};
use super::separators::Separators;
use crate::bits::rank_select::RankSelect;
use pages::Pages;
use suffixes::Suffixes;

/// The form of level 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ThirdLevel {
    /// An entropy-coded trie of the suffixes at the borders of pages. Smaller where groups cover many pages;
    /// wants suffixes that are hashed.
    EntropyTrie,
    /// Of each border the shortest partial suffix that tells its sides apart, and its length in 6 bits.
    /// Faster.
    #[default]
    PartialSuffixes,
}

/// Bits that the parts of an index take in memory, beside constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelBits {
    /// Level 1, the prefixes.
    pub prefixes: u64,
    /// Level 2, the pages of each.
    pub pages: u64,
    /// Level 3, the suffixes.
    pub suffixes: u64,
    /// The keys of groups that suffixes do not tell apart.
    pub ties: u64,
}

/// The borders of groups whose suffixes tie, told apart by whole keys.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ties {
    /// Bit i: the border between pages i - 1 and i is one of them.
    borders: RankSelect,
    separators: Separators,
}

/// Finds the page of a key.
///
/// ```
/// use siltstone_succinct::index::three_level::{ThirdLevel, ThreeLevelBuilder, ThreeLevelIndex};
///
/// // A key is a hashed prefix, a suffix (or its hash), and the bytes that decide when both are equal.
/// let pages = [[(3, 7, b"a"), (3, 9, b"b")], [(3, 12, b"c"), (5, 1, b"d")], [(8, 2, b"e"), (9, 9, b"f")]];
/// let mut builder = ThreeLevelBuilder::new(ThirdLevel::PartialSuffixes);
/// for page in &pages {
///     for (prefix, suffix, _) in page {
///         builder.push(*prefix, *suffix);
///     }
///     builder.finish_page(page[0].2, page[1].2);
/// }
/// let index = builder.finish();
/// assert_eq!(index.pages(), 3);
/// assert_eq!(index.find(3, 9, b"b"), 0);
/// assert_eq!(index.find(3, 12, b"c"), 1);
/// assert_eq!(index.find(8, 2, b"e"), 2);
///
/// let mut bytes = Vec::new();
/// index.to_bytes(&mut bytes);
/// assert_eq!(ThreeLevelIndex::from_bytes(&bytes)?, index);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreeLevelIndex {
    prefixes: EntropyTrie,
    pages: Pages,
    suffixes: Suffixes,
    ties: Option<Box<Ties>>,
}

impl ThreeLevelIndex {
    /// The only page that may hold the key of prefix hash `hi`, suffix `lo` and bytes `key`. Bytes are looked
    /// at only where suffixes tie. For a key that no page holds, some page; 0 if there are no pages.
    ///
    /// Takes O(log pages) steps. Allocates nothing, unless suffixes tie and the key has more than 240 bytes.
    #[inline]
    pub fn find(&self, hi: u64, lo: u64, key: &[u8]) -> u32 {
        let prefix = match self.prefixes.place(hi) {
            Place::Near { rank, .. } => rank,
            // Between two prefixes that surround it: if a page holds it, then both begin or end in there.
            Place::Gap { rank } => rank.saturating_sub(1),
        };
        self.find_in(prefix, hi, lo, key)
    }

    /// Levels 2 and 3, for the prefix that level 1 gave.
    #[inline]
    fn find_in(&self, prefix: usize, hi: u64, lo: u64, key: &[u8]) -> u32 {
        let (first, last) = self.pages.span(prefix);
        if first >= last {
            return first as u32;
        }
        let mut border = self.pages.inner_before(first + 1);
        if let Some(ties) = &self.ties {
            let tied = ties.borders.rank1(first + 1);
            if ties.borders.bits().get(first + 1) == Some(true) {
                let below = ties.separators.find_place(hi, lo, key) as usize;
                return (first + below.saturating_sub(tied)).min(last) as u32;
            }
            border = border.saturating_sub(tied);
        }
        (first + self.suffixes.find(border, (first, last), lo)) as u32
    }

    /// Puts the answer of [`ThreeLevelIndex::find`] to each `(hi, lo, key)` into `pages`, which is cleared
    /// first.
    ///
    /// Asks level 1 for many keys before level 2 for any, so that waiting for memory overlaps.
    pub fn find_batch(&self, keys: &[(u64, u64, &[u8])], pages: &mut Vec<u32>) {
        const TURN: usize = 32;
        pages.clear();
        pages.reserve(keys.len());
        let mut prefixes = [0usize; TURN];
        for keys in keys.chunks(TURN) {
            for (prefix, (hi, ..)) in prefixes.iter_mut().zip(keys) {
                *prefix = match self.prefixes.place(*hi) {
                    Place::Near { rank, .. } => rank,
                    Place::Gap { rank } => rank.saturating_sub(1),
                };
            }
            let asked = prefixes.iter().zip(keys);
            pages.extend(asked.map(|(prefix, (hi, lo, key))| self.find_in(*prefix, *hi, *lo, key)));
        }
    }

    /// The first and the last page among which the keys of prefix hash `hi` lie if there are any, and where a
    /// walk over what comes after them begins if there are none: entries before the first of these pages are
    /// all below `hi`, those behind the last are all above it. Both 0 if there are no pages.
    pub fn span(&self, hi: u64) -> (u32, u32) {
        let (low, high) = match self.prefixes.place(hi) {
            Place::Near { rank, .. } => (rank, rank),
            Place::Gap { rank } => (rank.saturating_sub(1), rank.min(self.prefixes.len().saturating_sub(1))),
        };
        (self.pages.span(low).0 as u32, self.pages.span(high).1 as u32)
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.pages.count() as u32
    }

    /// The form of level 3.
    pub fn third_level(&self) -> ThirdLevel {
        self.suffixes.form()
    }

    /// What each level takes in memory, in bits, without this value's own size.
    pub fn level_bits(&self) -> LevelBits {
        let ties = self.ties.as_ref();
        LevelBits {
            prefixes: self.prefixes.bits(),
            pages: (self.pages.memory_bytes() - size_of::<Pages>()) as u64 * 8,
            suffixes: (self.suffixes.memory_bytes() - size_of::<Suffixes>()) as u64 * 8,
            ties: ties
                .map_or(0, |ties| (ties.borders.memory_bytes() + ties.separators.memory_bytes()) as u64 * 8),
        }
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        let bits = self.level_bits();
        size_of::<Self>() + (bits.prefixes + bits.pages + bits.suffixes + bits.ties) as usize / 8
    }
}
