//! Writing the code of one trie: in one pass over its keys, from the last to the first.
//!
//! The idea: the trie's forks lie between neighbouring keys, each as deep as the bits that the two have in
//! common. Going backwards, a stack holds the forks whose left side is not complete; a fork that is shallower
//! than those on top of it completes them. A fork completes after all below it, its left side after its right
//! one: this is pre-order, backwards. So each node is written, in front of what is there, when its sides are
//! known to the last key.
//!
//! Source: the stack that builds a Cartesian tree (Gabow, Bentley and Tarjan, STOC 1984), over the lengths of
//! common prefixes. SILT (SOSP 2011, algorithm 1) partitions the keys at every node instead.
//!
//! Invariant: depths on the stack ascend strictly, so it never has more entries than keys have bits, and a
//! bottom.

use super::Spec;
use super::lengths::Lengths;
use super::node::Nodes;
use crate::code::bit_stream::BitWriter;

/// A stream of bits that grows at its front.
#[derive(Debug, Clone, Default)]
struct FrontWriter {
    /// The last 64 bits of the stream first.
    words: Vec<u64>,
    /// The first bits of the stream, at the bottom.
    head: u64,
    head_bits: u32,
}

impl FrontWriter {
    #[inline]
    fn len(&self) -> u32 {
        self.words.len() as u32 * 64 + self.head_bits
    }

    /// Puts the lowest `width` bits of `value` in front; the others must be zero, and `width` below 64.
    #[inline]
    fn push(&mut self, value: u64, width: u32) {
        self.head |= value << self.head_bits;
        self.head_bits += width;
        if self.head_bits >= 64 {
            self.words.push(self.head);
            self.head_bits -= 64;
            // By less than 64, since at least one bit of the value fitted, and by at least one.
            self.head = value >> (width - self.head_bits);
        }
    }

    /// Appends the stream to `writer` and empties it.
    fn drain(&mut self, writer: &mut BitWriter) {
        writer.push(self.head, self.head_bits);
        for word in self.words.drain(..).rev() {
            writer.push(word, 64);
        }
        self.head = 0;
        self.head_bits = 0;
    }
}

/// A fork whose left side is not complete.
#[derive(Debug, Clone, Copy)]
struct Fork {
    /// The bits that all keys below it have in common, plus one; the bottom of the stack has 0.
    depth: u32,
    /// The last key of its left side.
    key: u32,
    /// Bits of the stream when its right side was complete.
    bits: u32,
}

/// Writes tries, each from its sorted keys.
#[derive(Debug, Clone)]
pub(super) struct Coder {
    spec: Spec,
    nodes: &'static Nodes,
    lengths: Lengths,
    front: FrontWriter,
    stack: Vec<Fork>,
}

impl Coder {
    pub(super) fn new(spec: Spec, nodes: &'static Nodes, lengths: Lengths) -> Self {
        Coder { spec, nodes, lengths, front: FrontWriter::default(), stack: Vec::with_capacity(66) }
    }

    /// Appends the code of the trie of `keys`, which ascend strictly and are at most `MOST_KEYS`. The first
    /// of them stands `in_block` ranks behind the start of a block.
    pub(super) fn write(&mut self, keys: &[u64], in_block: u32, writer: &mut BitWriter) {
        let Some((mut right, rest)) = keys.split_last() else { return };
        self.stack.clear();
        let mut top = Fork { depth: 0, key: rest.len() as u32, bits: 0 };
        for (index, key) in rest.iter().enumerate().rev() {
            let depth = (key ^ right).leading_zeros() + 1;
            while top.depth > depth {
                top = self.complete(top, depth, index as u32 + 1, in_block, *right);
            }
            self.stack.push(top);
            top = Fork { depth, key: index as u32, bits: self.front.len() };
            right = key;
        }
        while top.depth > 0 {
            top = self.complete(top, 0, 0, in_block, *right);
        }
        self.front.drain(writer);
    }

    /// Writes `fork`, whose left side begins with key number `first`, and the one-sided nodes between it and
    /// the next fork above, which is the one below it on the stack or else `above` bits deep. Returns the one
    /// below.
    #[inline]
    fn complete(&mut self, fork: Fork, above: u32, first: u32, in_block: u32, key: u64) -> Fork {
        let below = self.stack.pop().unwrap_or(Fork { depth: 0, key: 0, bits: 0 });
        // The right side ends where the left side of the fork below does.
        let (left, keys) = (fork.key + 1 - first, below.key + 1 - first);
        if self.spec.pruned(in_block + first, keys) {
            return below;
        }
        let one_sided = fork.depth - 1 - above.max(below.depth);
        if keys >= self.lengths.from_keys {
            self.large(fork, below, left, keys, one_sided, key);
            return below;
        }
        let (bits, width) = self.nodes.write(keys, left);
        self.front.push(bits, width);
        for depth in 1..=one_sided {
            // The bit of all keys that decides this node.
            let bit = key << (fork.depth - 1 - depth) >> 63;
            let (bits, width) = self.nodes.write(keys, if bit == 0 { keys } else { 0 });
            self.front.push(bits, width);
        }
        below
    }

    /// The same for a node that tells the length of its left side.
    #[cold]
    fn large(&mut self, fork: Fork, below: Fork, left: u32, keys: u32, one_sided: u32, key: u64) {
        self.with_length(keys, left, self.front.len() - fork.bits);
        for depth in 1..=one_sided {
            let bit = key << (fork.depth - 1 - depth) >> 63;
            if bit == 0 {
                self.with_length(keys, keys, self.front.len() - below.bits);
            } else {
                self.with_length(keys, 0, 0);
            }
        }
    }

    /// Writes one node, and behind it that its left side takes `bits` bits.
    fn with_length(&mut self, keys: u32, left: u32, bits: u32) {
        let width = self.lengths.width(left);
        self.front.push(self.lengths.field(left, width, bits.into()), width);
        let (bits, width) = self.nodes.write(keys, left);
        self.front.push(bits, width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::bit_stream::peek;

    #[test]
    fn what_is_put_in_front_is_read_first() {
        let mut front = FrontWriter::default();
        let pieces: Vec<(u64, u32)> =
            (1..500u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15), (i * 7 % 63 + 1) as u32)).collect();
        for (value, width) in &pieces {
            front.push(value >> (64 - width), *width);
        }
        let total: u64 = pieces.iter().map(|piece| u64::from(piece.1)).sum();
        assert_eq!(u64::from(front.len()), total);
        let mut writer = BitWriter::default();
        writer.push(5, 3);
        front.drain(&mut writer);
        assert_eq!(writer.len(), total + 3);
        assert_eq!(front.len(), 0);
        let words = writer.into_words();
        let mut position = 3;
        for (value, width) in pieces.iter().rev() {
            assert_eq!(peek(&words, position) >> (64 - width), value >> (64 - width));
            position += u64::from(*width);
        }
    }
}
