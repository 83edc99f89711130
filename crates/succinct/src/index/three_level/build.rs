//! Building a three-level index in one pass over a table's entries.
//!
//! Entries are pushed one by one, which costs a comparison each; a page's first, second, last but one and
//! last prefix are all that is kept of it, and the suffixes on both sides of a border within a group. Level 3
//! is made at the end, once the number of pages is known: 24 bytes a page, and 24 more per border within a
//! group, until then.
//!
//! Why the second prefix and the last but one: let `p` be a prefix inside a page, and K its neighbour in
//! level 1, where the trie may send it. K is the first prefix of the page or its last, or level 1 would hold
//! another between them. If K covered several pages, then level 3 would choose among them by a suffix that is
//! none of K's. So if the page's first prefix began on an earlier page, level 1 holds the second too, and if
//! its last goes on, the last but one: then every prefix inside has neighbours that lie in this page only.

use super::pages::Pages;
use super::suffixes::{PartialBuilder, Scale, Suffixes, TRIE, TrieSuffixes};
use super::{ThirdLevel, ThreeLevelIndex, Ties};
use crate::bits::rank_select::RankSelect;
use crate::bits::vector::{BitVec, BitVecBuilder};
use crate::index::entropy_trie::{Code, EntropyTrie, Spec};
use crate::index::separators::{SeparatorsBuilder, shortest};

/// How the trie of prefixes is built. Small buckets, since lookups take time in the size of a bucket.
pub(super) const TRIE_OF_PREFIXES: Spec = Spec { code: Code::Strong, block_keys: 1, bucket_keys: 16 };

/// The prefixes of one page that level 1 may need.
#[derive(Debug, Clone, Copy, Default)]
struct Edge {
    first: u64,
    /// The second prefix, and the last but one, if there is more than one.
    inner: Option<(u64, u64)>,
    last: u64,
    /// Whether the first began on the page before.
    joined: bool,
}

/// A border between two pages that share a prefix.
#[derive(Debug, Clone, Copy)]
struct Border {
    /// The page behind it.
    page: u32,
    hi: u64,
    /// The suffixes before and behind it.
    left: u64,
    right: u64,
    /// Where in `tie_bytes` what tells the keys apart ends, if the suffixes are equal.
    ties_end: usize,
}

/// Takes the entries of a table in order and makes a [`ThreeLevelIndex`] of them; see there for an example.
#[derive(Debug, Clone)]
pub struct ThreeLevelBuilder {
    third: ThirdLevel,
    pages: u32,
    /// The page being filled: its prefixes, its first suffix and its last entry.
    page: Option<(Edge, u64)>,
    last: (u64, u64),
    /// The page before, and its last entry and key.
    before: Option<Edge>,
    before_last: (u64, u64),
    before_key: Vec<u8>,
    prefixes: Vec<u64>,
    starts: BitVecBuilder,
    inner: BitVecBuilder,
    borders: Vec<Border>,
    tie_bytes: Vec<u8>,
}

impl ThreeLevelBuilder {
    /// A builder without pages.
    pub fn new(third: ThirdLevel) -> Self {
        ThreeLevelBuilder {
            third,
            pages: 0,
            page: None,
            last: (0, 0),
            before: None,
            before_last: (0, 0),
            before_key: Vec::new(),
            prefixes: Vec::new(),
            starts: BitVecBuilder::new(),
            inner: BitVecBuilder::new(),
            borders: Vec::new(),
            tie_bytes: Vec::new(),
        }
    }

    /// Adds the next entry of the current page: its prefix's hash and its suffix, or the suffix's hash.
    ///
    /// # Panics
    ///
    /// If the entry is below the one before: the caller's table is not sorted, and an index over it would
    /// lose keys.
    #[inline]
    pub fn push(&mut self, hi: u64, lo: u64) {
        assert!((hi, lo) >= self.last, "push: the entry is below the one before");
        match &mut self.page {
            None => self.page = Some((Edge { first: hi, last: hi, ..Edge::default() }, lo)),
            Some((edge, _)) if edge.last != hi => {
                edge.inner = Some((edge.inner.map_or(hi, |(second, _)| second), edge.last));
                edge.last = hi;
            }
            Some(_) => {}
        }
        self.last = (hi, lo);
    }

    /// Ends the current page, which holds the entries pushed since the page before. `first` and `last` are
    /// its first and its last key, which decide the order where prefix and suffix are equal.
    ///
    /// # Panics
    ///
    /// If the page is empty, if `first` belongs before the last key of the page before, or if there are 2^32
    /// - 1 pages.
    pub fn finish_page(&mut self, first: &[u8], last: &[u8]) {
        assert!(self.pages < u32::MAX - 1, "finish_page: more than 2^32 - 2 pages");
        let page = self.page.take();
        assert!(page.is_some(), "finish_page: the page has no entries");
        let Some((mut edge, first_lo)) = page else { return };
        let (hi, left) = self.before_last;
        edge.joined = self.pages > 0 && hi == edge.first;
        self.put_page_before(edge.joined);
        self.inner.push(edge.joined);
        if edge.joined {
            if left == first_lo {
                assert!(*self.before_key < *first, "finish_page: the first key is below the page before");
                self.tie_bytes.extend_from_slice(shortest(&self.before_key, first));
            }
            let ties_end = self.tie_bytes.len();
            self.borders.push(Border { page: self.pages, hi, left, right: first_lo, ties_end });
        }
        self.pages += 1;
        self.before = Some(edge);
        self.before_last = self.last;
        self.before_key.clear();
        self.before_key.extend_from_slice(last);
    }

    /// Pages finished so far.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Puts the page before into levels 1 and 2, now that it is known whether its last prefix goes on.
    fn put_page_before(&mut self, goes_on: bool) {
        let Some(edge) = self.before.take() else { return };
        if self.pages > 1 {
            self.starts.push(false);
        }
        let second = edge.inner.filter(|_| edge.joined).map(|(second, _)| second);
        let last_but_one = edge.inner.filter(|_| goes_on).map(|(_, last_but_one)| last_but_one);
        for prefix in [Some(edge.first), second, last_but_one, Some(edge.last)].into_iter().flatten() {
            if self.prefixes.last().is_none_or(|last| *last < prefix) {
                self.prefixes.push(prefix);
                self.starts.push(true);
            }
        }
    }

    /// Freezes the index.
    ///
    /// # Panics
    ///
    /// If entries were pushed since the last page was finished.
    pub fn finish(mut self) -> ThreeLevelIndex {
        assert!(self.page.is_none(), "finish: the last page is not finished");
        self.put_page_before(false);
        let inner = std::mem::take(&mut self.inner).finish();
        let (suffixes, ties) = ThirdBuilder::new(self.third, &self).finish();
        ThreeLevelIndex {
            prefixes: EntropyTrie::build(TRIE_OF_PREFIXES, &self.prefixes),
            pages: Pages { starts: RankSelect::new(self.starts.finish()), inner: RankSelect::new(inner) },
            suffixes,
            ties: ties.map(Box::new),
        }
    }
}

/// Makes level 3 of the borders within groups.
struct ThirdBuilder<'a> {
    source: &'a ThreeLevelBuilder,
    third: ThirdLevel,
    scale: Scale,
    places: Vec<u64>,
    partial: PartialBuilder,
    tied: Vec<bool>,
    separators: SeparatorsBuilder,
    any_tied: bool,
}

impl<'a> ThirdBuilder<'a> {
    fn new(third: ThirdLevel, source: &'a ThreeLevelBuilder) -> Self {
        let pages = source.pages as usize;
        let mut separators = SeparatorsBuilder::new();
        separators.add_separator(&[]);
        ThirdBuilder {
            source,
            third,
            scale: Scale::new(pages),
            places: Vec::new(),
            partial: PartialBuilder::default(),
            tied: vec![false; pages],
            separators,
            any_tied: false,
        }
    }

    fn finish(mut self) -> (Suffixes, Option<Ties>) {
        let mut number = 0;
        for group in self.source.borders.chunk_by(|a, b| a.hi == b.hi) {
            if !self.code(group) {
                self.tie(number, group);
            }
            number += group.len();
        }
        let suffixes = match self.third {
            ThirdLevel::PartialSuffixes => Suffixes::Partial(self.partial.finish()),
            ThirdLevel::EntropyTrie => {
                let trie = EntropyTrie::build(TRIE, &self.places);
                Suffixes::Trie(TrieSuffixes { scale: self.scale, trie })
            }
        };
        let ties = self.any_tied.then(|| {
            let borders: BitVec = self.tied.into_iter().collect();
            Ties { borders: RankSelect::new(borders), separators: self.separators.finish() }
        });
        (suffixes, ties)
    }

    /// Codes a group's borders; false, and nothing done, if suffixes do not tell its pages apart.
    fn code(&mut self, group: &[Border]) -> bool {
        if group.iter().any(|border| border.left == border.right) {
            return false;
        }
        match self.third {
            ThirdLevel::PartialSuffixes => {
                group.iter().for_each(|border| self.partial.push(border.left, border.right));
                true
            }
            ThirdLevel::EntropyTrie => {
                let (Some(first), Some(last)) = (group.first(), group.last()) else { return true };
                let span = (first.page as usize - 1, last.page as usize);
                let borders = group.iter().map(|border| (border.left, border.right));
                let Some(places) = TrieSuffixes::places(self.scale, span, borders) else { return false };
                if self.places.is_empty() {
                    self.places.push(0);
                }
                self.places.extend(places);
                true
            }
        }
    }

    /// Leaves a group, whose first border has this number, to separators.
    #[expect(
        clippy::indexing_slicing,
        reason = "borders are numbered, and their ties stand one behind the other"
    )]
    fn tie(&mut self, number: usize, group: &[Border]) {
        self.any_tied = true;
        let source = self.source;
        let mut bytes_start = match number.checked_sub(1) {
            Some(before) => source.borders[before].ties_end,
            None => 0,
        };
        for border in group {
            self.tied[border.page as usize] = true;
            let hi = border.hi.to_be_bytes();
            let (left, right) = (border.left.to_be_bytes(), border.right.to_be_bytes());
            let bytes = &source.tie_bytes[bytes_start..border.ties_end];
            bytes_start = border.ties_end;
            let suffix = if border.left == border.right { &right[..] } else { shortest(&left, &right) };
            self.separators.add_separator(&[&hi[..], suffix, bytes].concat());
        }
    }
}
