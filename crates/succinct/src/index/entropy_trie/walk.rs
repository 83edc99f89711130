//! Lookups: down the key's path, over the code of what lies left of it.
//!
//! The left subtree of a large node is skipped by the length that stands beside it (`lengths.rs`), that of a
//! small one by a table which takes several nodes at once (`node.rs`). Only between the two are nodes read
//! one by one.
//!
//! Invariant: the code was written by a builder or went through a [`Checker`], so every subtree has an end
//! within it, and large nodes are at most 64 levels deep.

use super::directory::Bucket;
use super::lengths::Lengths;
use super::node::{DESCENDED, Nodes, PENDING_BITS, SKIP_BITS, SKIPPABLE, Split};
use super::{CHUNK_KEYS, EntropyTrie, Place, Spec};
use crate::code::bit_stream::peek;

/// The bits of one subtree on the stack of [`Walk::skip_small`].
const PENDING_MASK: u32 = (1 << PENDING_BITS) - 1;

/// A trie's code, ready to be read.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    spec: &'a Spec,
    nodes: &'a Nodes,
    lengths: &'a Lengths,
    words: &'a [u64],
}

/// A node on the path of a lookup.
#[derive(Clone, Copy)]
struct Node {
    /// The key's bits from here on.
    path: u64,
    /// Keys of the subtree, and keys of the trie left of it.
    keys: u32,
    before: u32,
    /// Where its code begins.
    position: u64,
}

/// Where a lookup starts, or that it needs no more.
#[derive(Clone, Copy)]
pub(super) enum Root {
    /// At the root of a trie with `keys` keys from rank `rank` on, whose code begins at `position`; the key's
    /// bits from there on are `path`, the first one highest.
    At { path: u64, rank: u64, keys: u32, position: u64 },
    /// The answer is known.
    Known(Place),
}

impl EntropyTrie {
    #[inline]
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk { spec: &self.spec, nodes: self.nodes, lengths: &self.lengths, words: &self.words }
    }

    /// Where the lookup of `key` starts.
    #[inline]
    pub(super) fn root(&self, key: u64) -> Root {
        if key < self.spread.low || self.keys == 0 {
            return Root::Known(Place::Gap { rank: 0 });
        }
        if key > self.spread.high {
            return Root::Known(Place::Gap { rank: self.len() });
        }
        let (number, path) = self.spread.place(key);
        let Bucket { rank, keys, offset, end, split } = self.directory.bucket(number);
        if split {
            return self.root_in_chunks(key, number as u64, rank, keys);
        }
        // A bucket mostly lies in two lines of the cache; let both come at once.
        for position in [offset, end] {
            std::hint::black_box(self.words.get((position / 64) as usize).copied());
        }
        Root::At { path, rank, keys: keys as u32, position: offset }
    }

    /// Starts to bring into the cache what [`EntropyTrie::root`] will read for each of `keys`.
    #[inline]
    pub(super) fn prefetch(&self, keys: &[u64]) {
        for key in keys {
            if (self.spread.low..=self.spread.high).contains(key) {
                self.directory.prefetch(self.spread.place(*key).0);
            }
        }
    }

    /// Where the lookup of `key` starts in split bucket number `bucket`.
    #[cold]
    fn root_in_chunks(&self, key: u64, bucket: u64, rank: u64, keys: u64) -> Root {
        let split = self.split.partition_point(|split| split.0 < bucket);
        let first = self.split.get(split).map_or(0, |split| split.1 as usize);
        let count = keys.div_ceil(CHUNK_KEYS) as usize;
        let chunks = self.chunks.get(first..first + count).unwrap_or(&[]);
        let after = chunks.partition_point(|chunk| chunk.first <= key);
        let Some((number, chunk)) = after.checked_sub(1).and_then(|n| Some((n as u64, chunks.get(n)?)))
        else {
            return Root::Known(Place::Gap { rank: rank as usize });
        };
        let before = number * CHUNK_KEYS;
        let keys = (keys - before).min(CHUNK_KEYS);
        let distance = key - chunk.first;
        if distance > u64::MAX >> chunk.shift {
            return Root::Known(Place::Gap { rank: (rank + before + keys) as usize });
        }
        let path = distance << chunk.shift;
        Root::At { path, rank: rank + before, keys: keys as u32, position: chunk.offset }
    }
}

impl Walk<'_> {
    /// Where the key stands whose lookup starts at `root`.
    #[inline]
    pub(super) fn place(&self, root: Root) -> Place {
        match root {
            Root::Known(place) => place,
            // Two copies, so that exact ranks pay nothing for blocks.
            Root::At { path, rank, keys, position } if self.spec.block_keys == 1 => {
                self.descend::<false>(path, rank, keys, position)
            }
            Root::At { path, rank, keys, position } => self.descend::<true>(path, rank, keys, position),
        }
    }

    /// True if a subtree is not coded; see [`Spec::pruned`].
    #[inline]
    fn pruned<const BLOCKS: bool>(&self, in_block: u32, keys: u32) -> bool {
        if BLOCKS { self.spec.pruned(in_block, keys) } else { keys <= 1 }
    }

    /// Follows the bits of `path` from a root with `keys` keys whose code begins at `position`.
    #[inline]
    fn descend<const BLOCKS: bool>(&self, path: u64, rank: u64, keys: u32, position: u64) -> Place {
        let in_block = if BLOCKS { self.spec.in_block(rank) } else { 0 };
        let mut node = Node { path, keys, before: 0, position };
        while !self.pruned::<BLOCKS>(in_block + node.before, node.keys) {
            if !BLOCKS && node.keys <= DESCENDED {
                let window = peek(self.words, node.position);
                let descent = self.nodes.read_descent(node.keys, window, node.path);
                if descent.bits() > 0 {
                    node.path <<= descent.path_bits();
                    node.position += u64::from(descent.bits());
                    node.before += descent.before();
                    node.keys = descent.keys();
                    continue;
                }
            }
            node = self.step::<BLOCKS>(node, in_block);
        }
        let rank = (rank + u64::from(node.before)) as usize;
        if node.keys == 0 { Place::Gap { rank } } else { Place::Near { rank, keys: node.keys as usize } }
    }

    /// One level down.
    #[inline]
    fn step<const BLOCKS: bool>(&self, node: Node, in_block: u32) -> Node {
        let Node { path, keys, before, position } = node;
        let window = peek(self.words, position);
        let (split, width) = self.nodes.read(keys, window);
        let position = position + u64::from(width);
        let below = path << 1;
        let Split::Left(left) = split else { return Node { path: below, keys, before, position } };
        let field = self.field(keys, left);
        let position = position + u64::from(field);
        if path >> 63 == 0 {
            return Node { path: below, keys: left, before, position };
        }
        let position = match self.told(field, left, window << width) {
            Some(bits) => position + bits,
            None => self.skip::<BLOCKS>(in_block + before, left, position),
        };
        Node { path: below, keys: keys - left, before: before + left, position }
    }

    /// Width of the field behind the split of a node with `keys` keys, 0 if it has none.
    #[inline]
    fn field(&self, keys: u32, left: u32) -> u32 {
        if keys >= self.lengths.from_keys { self.lengths.width(left) } else { 0 }
    }

    /// What the field of `field` bits which `window` begins with tells of the bits of a left side of `left`
    /// keys.
    #[inline]
    fn told(&self, field: u32, left: u32, window: u64) -> Option<u64> {
        if field == 0 { None } else { self.lengths.bits(left, field, window >> (64 - field)) }
    }

    /// The position behind the subtree of `keys` keys whose code begins at `position`.
    #[inline]
    fn skip<const BLOCKS: bool>(&self, in_block: u32, keys: u32, position: u64) -> u64 {
        if !BLOCKS && keys <= SKIPPABLE {
            self.skip_small(keys, position, u64::MAX)
        } else {
            self.skip_large::<BLOCKS>(in_block, keys, position)
        }
    }

    /// [`Walk::skip`] node by node, down to those that tell their length or that the table skips.
    fn skip_large<const BLOCKS: bool>(&self, in_block: u32, mut keys: u32, mut position: u64) -> u64 {
        let mut before = 0;
        while !self.pruned::<BLOCKS>(in_block + before, keys) {
            if !BLOCKS && keys <= SKIPPABLE {
                return self.skip_small(keys, position, u64::MAX);
            }
            let window = peek(self.words, position);
            let (split, width) = self.nodes.read(keys, window);
            position += u64::from(width);
            let Split::Left(left) = split else { continue };
            let field = self.field(keys, left);
            position += u64::from(field);
            position = match self.told(field, left, window << width) {
                Some(bits) => position + bits,
                None => self.skip::<BLOCKS>(in_block + before, left, position),
            };
            before += left;
            keys -= left;
        }
        position
    }

    /// [`Walk::skip`] for up to [`SKIPPABLE`] keys in blocks of one: several nodes at a step. Gives up behind
    /// `end`.
    #[inline]
    fn skip_small(&self, keys: u32, mut position: u64, end: u64) -> u64 {
        // Subtrees still to be skipped, the next one lowest.
        let mut stack = if keys > 1 { u64::from(keys) } else { 0 };
        while stack != 0 && position <= end {
            let window = peek(self.words, position);
            let mut taken = 0;
            while stack != 0 && taken <= u64::BITS - SKIP_BITS {
                let skip = self.nodes.read_skip(stack as u32 & PENDING_MASK, window << taken);
                if skip.bits() == 0 {
                    break;
                }
                taken += skip.bits();
                stack = skip.replace_top(stack);
            }
            position += u64::from(taken);
            if taken == 0 {
                (stack, position) = self.skip_one(stack, position);
            }
        }
        position
    }

    /// Reads the node on top of the stack of [`Walk::skip_small`], whose symbol is longer than what the table
    /// knows.
    #[cold]
    fn skip_one(&self, stack: u64, position: u64) -> (u64, u64) {
        let keys = stack as u32 & PENDING_MASK;
        let (split, width) = self.nodes.read(keys, peek(self.words, position));
        let position = position + u64::from(width);
        let Split::Left(left) = split else { return (stack, position) };
        let push =
            |stack: u64, keys: u32| if keys > 1 { stack << PENDING_BITS | u64::from(keys) } else { stack };
        (push(push(stack >> PENDING_BITS, keys - left), left), position)
    }
}

/// Reads all of a trie's code and believes nothing.
pub(super) struct Checker<'a> {
    pub(super) walk: Walk<'a>,
    /// Where all code ends.
    pub(super) end: u64,
}

impl Checker<'_> {
    /// The position behind a subtree; `None` if it goes past the end, if a field does not tell the length
    /// that it should, or if large nodes lie deeper than keys have bits.
    pub(super) fn subtree(
        &self,
        in_block: u32,
        mut keys: u32,
        mut position: u64,
        mut depth: u32,
    ) -> Option<u64> {
        let Walk { spec, nodes, lengths, words } = self.walk;
        let mut before = 0;
        while !spec.pruned(in_block + before, keys) {
            if spec.block_keys == 1 && keys <= SKIPPABLE {
                let end = self.walk.skip_small(keys, position, self.end);
                return (end <= self.end).then_some(end);
            }
            if depth == u64::BITS || position >= self.end {
                return None;
            }
            let (split, width) = nodes.read(keys, peek(words, position));
            position += u64::from(width);
            depth += 1;
            let Split::Left(left) = split else { continue };
            let width = self.walk.field(keys, left);
            let start = position + u64::from(width);
            let end = self.subtree(in_block + before, left, start, depth)?;
            if width > 0 {
                let field = peek(words, position) >> (64 - width);
                if field != lengths.field(left, width, end - start) {
                    return None;
                }
            }
            position = end;
            before += left;
            keys -= left;
        }
        Some(position)
    }
}
