//! The smallest head among the sources of a merge.
//!
//! A winner tree (Knuth, TAOCP vol. 3, §5.4.1): each node holds the smaller of its children's heads, so that
//! a source that moves on plays once per level, against neighbours whose places are known beforehand. Choices
//! are made without branches, since nobody can foretell them: sixteen runs of random keys cost four
//! comparisons an entry. Where any source may move on at any time, and equal heads are to be found, this
//! beats the tree of losers.
//!
//! ```text
//!            1          nodes, for three sources: the children of n are 2n and 2n + 1,
//!        2       3      the leaf of source s is 3 + s
//!      4   5
//! ```
//!
//! Invariant: a node is the smaller of its children by (digest, what `is_before` says of two sources with one
//! digest).

use siltstone_design::Digest;
use std::hint::{cold_path, select_unpredictable};

/// Where a source stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteBufferSpec {
    /// All ones past the end; a source can stand on that digest all the same.
    digest: u128,
    source: u32,
}

impl WriteBufferSpec {
    fn new(source: usize, digest: Option<Digest>) -> Self {
        Self { digest: digest.map_or(u128::MAX, Digest::as_number), source: source as u32 }
    }

    /// The number of the source.
    pub fn source(self) -> usize {
        self.source as usize
    }

    /// The digest that the source stands on; `None` if it has to be asked whether it stands on any.
    pub fn digest(self) -> Option<Digest> {
        (self.digest != u128::MAX).then(|| Digest::of_number(self.digest))
    }
}

/// The heads of all sources.
pub(super) struct Tournament {
    /// From 1 on; 0 is not used.
    nodes: Vec<WriteBufferSpec>,
    sources: usize,
}

impl Tournament {
    /// Between `heads`, in the order of the sources' numbers.
    pub fn new(heads: &[Option<Digest>], is_before: impl Fn(usize, usize) -> bool) -> Self {
        let leaves = heads.iter().enumerate().map(|(source, digest)| WriteBufferSpec::new(source, *digest));
        let mut nodes = vec![WriteBufferSpec::new(0, None); heads.len()];
        nodes.extend(leaves);
        let mut tournament = Self { nodes, sources: heads.len() };
        for node in (1..heads.len()).rev() {
            tournament.play(node, &is_before);
        }
        tournament
    }

    /// The smallest head; `None` without sources.
    #[inline]
    pub fn first(&self) -> Option<WriteBufferSpec> {
        self.nodes.get(1).copied()
    }

    /// Notes that a source stands on another digest, or at its end.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "every node has a place, and all but the first a sibling; a result lost on the way up would reorder entries"
    )]
    pub fn update(
        &mut self,
        source: usize,
        digest: Option<Digest>,
        is_before: impl Fn(usize, usize) -> bool,
    ) {
        let mut node = self.sources + source;
        let mut winner = WriteBufferSpec::new(source, digest);
        loop {
            self.nodes[node] = winner;
            if node <= 1 {
                return;
            }
            winner = smaller(winner, self.nodes[node ^ 1], &is_before);
            node /= 2;
        }
    }

    #[expect(clippy::indexing_slicing, reason = "an inner node has two children")]
    fn play(&mut self, node: usize, is_before: &impl Fn(usize, usize) -> bool) {
        self.nodes[node] = smaller(self.nodes[2 * node], self.nodes[2 * node + 1], is_before);
    }

    /// Whether any other source stands on the digest of the first.
    #[inline]
    pub fn is_tied(&self) -> bool {
        let Some(first) = self.first() else { return false };
        // Whoever is as small as the first lost to it directly, or to one that did.
        let mut node = self.sources + first.source();
        let mut is_tied = false;
        while node > 1 {
            is_tied |= self.nodes.get(node ^ 1).is_some_and(|other| other.digest == first.digest);
            node /= 2;
        }
        is_tied
    }

    /// Whether two sources stand on one digest.
    pub fn are_tied(&self, a: usize, b: usize) -> bool {
        let digest = |source: usize| self.nodes.get(self.sources + source).map(|head| head.digest);
        digest(a) == digest(b)
    }
}

#[inline]
fn smaller(
    a: WriteBufferSpec,
    b: WriteBufferSpec,
    is_before: &impl Fn(usize, usize) -> bool,
) -> WriteBufferSpec {
    if a.digest == b.digest {
        cold_path();
        return if is_before(b.source(), a.source()) { b } else { a };
    }
    let second = b.digest < a.digest;
    WriteBufferSpec {
        digest: select_unpredictable(second, b.digest, a.digest),
        source: select_unpredictable(second, b.source, a.source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_smallest(
            mut heads in proptest::collection::vec(proptest::option::of(0u64..5), 1..40),
            moves in proptest::collection::vec((any::<u16>(), proptest::option::of(0u64..5)), 0..60),
        ) {
            let digest = |head: Option<u64>| head.map(|lo| Digest { hi: 7, lo });
            let all: Vec<_> = heads.iter().map(|head| digest(*head)).collect();
            let mut tournament = Tournament::new(&all, |a, b| a < b);
            for (source, head) in moves {
                let source = usize::from(source) % heads.len();
                heads[source] = head;
                tournament.update(source, digest(head), |a, b| a < b);
                let order = |(source, head): (usize, &Option<u64>)| (head.is_none(), *head, source);
                let least = heads.iter().enumerate().map(order).min().unwrap();
                let first = tournament.first().unwrap();
                prop_assert_eq!((first.source(), first.digest()), (least.2, digest(least.1)));
                let equal = heads.iter().filter(|head| **head == least.1).count();
                prop_assert_eq!(tournament.is_tied(), equal > 1);
            }
        }
    }
}
