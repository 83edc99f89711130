//! The entropy-coded trie: the rank of a key among sorted keys, in about 2.5 bits per key and without the
//! keys.
//!
//! The idea: the binary trie over a set of hashed keys has little to say. A node with n keys says how many of
//! them go left, which is binomial, so a Huffman code says it in about two bits; written in pre-order,
//! nothing else is needed. A lookup follows the key's bits, adds up what lies left of it, and skips over the
//! code of that.
//!
//! Source: Lim, Fan, Andersen and Kaminsky, "SILT" (SOSP 2011), §3.3 and figure 6. Where we differ, and why:
//!
//! - A *weak* code (see [`Code`]) that saves 0.44 bits per key where absent keys may get any answer.
//! - Large nodes have a Rice code, and the largest tell how long the code of their left subtree is: lookups
//!   skip that in one step instead of reading it.
//! - Buckets come from a multiplication (`spread.rs`), so their size is free; the directory costs 0.08 bits
//!   per key.
//! - Keys need not be uniform. A bucket that is too full or too long for its keys is cut into chunks by rank,
//!   each with its first key in the open (`build.rs`): any set of keys takes bounded time and at most about
//!   65 bits per key.
//!
//! Files: `node.rs` the code of one node; `lengths.rs` lengths of subtrees; `spread.rs` key to bucket;
//! `directory.rs` where buckets begin; `coder.rs` writing one bucket; `build.rs` all of them; `walk.rs`
//! lookups; `bytes.rs` the encoding and what is checked of it.

mod build;
mod bytes;
mod coder;
mod directory;
mod lengths;
mod node;
mod spread;
mod walk;

pub use build::TrieBuilder;

use directory::Directory;
use lengths::Lengths;
use node::Nodes;
use spread::Spread;
use walk::Root;

/// How nodes are coded, and with that what a trie knows of keys it does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// SILT's own: strong, with Elias gamma for nodes of more than 16 keys. For comparison with the paper.
    Paper,
    /// Tells of absent keys where they left the trie: 2.8 bits per key, and the directory.
    Strong,
    /// A node does not tell whether its keys are all on the left or all on the right, which keys in the trie
    /// have no use for: 2.4 bits per key, and the directory. Absent keys get arbitrary answers.
    Weak,
}

/// The most keys that a block can have.
pub const MOST_BLOCK_KEYS: u32 = 1 << 24;

/// How to build an [`EntropyTrie`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The code of the nodes.
    pub code: Code,
    /// Keys in a block, if it is enough to find a key's block. Ranks `0..block_keys` are block 0 and so on;
    /// what tells apart keys of one block is left out (SILT's sparse index). 1 for exact ranks; at most
    /// [`MOST_BLOCK_KEYS`].
    pub block_keys: u32,
    /// Keys in a bucket on average, from 16 to 8192. More take less directory, fewer take less time.
    pub bucket_keys: u32,
}

impl Spec {
    /// Exact ranks with the given code, and buckets that cost the least memory at good speed.
    pub const fn dense(code: Code) -> Self {
        Spec { code, block_keys: 1, bucket_keys: 256 }
    }

    /// Blocks of `block_keys` keys.
    pub const fn sparse(code: Code, block_keys: u32) -> Self {
        Spec { code, block_keys, bucket_keys: 512 }
    }

    /// How many ranks `rank` is behind the start of its block.
    #[inline]
    fn in_block(&self, rank: u64) -> u32 {
        if self.block_keys == 1 { 0 } else { (rank % u64::from(self.block_keys)) as u32 }
    }

    /// True if a subtree of `keys` keys is not coded: too small to tell anything, or in one block. The first
    /// of them is `in_block` ranks behind the start of some block.
    #[inline]
    fn pruned(&self, in_block: u32, keys: u32) -> bool {
        keys <= 1 || keys <= self.block_keys && in_block % self.block_keys + keys <= self.block_keys
    }
}

/// Where a key stands among the keys of a trie, as far as the trie can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// If the trie holds the key, then its rank is in `rank..rank + keys`; `keys` is at least 1, and exactly
    /// 1 unless blocks have more keys. If it does not hold it, then:
    ///
    /// - under [`Code::Strong`] and [`Code::Paper`] all keys of ranks below `rank` are below the key and all
    ///   from `rank + keys` on are above it. So with `keys == 1` there is a single neighbour left to compare
    ///   with: the insertion point is `rank` if the key is below it and `rank + 1` otherwise;
    /// - under [`Code::Weak`] this says nothing, beyond that `rank + keys` does not exceed the number of
    ///   keys.
    Near {
        /// The lowest rank in question.
        rank: usize,
        /// How many ranks are in question.
        keys: usize,
    },
    /// The trie does not hold the key. Under any code, exactly `rank` keys are below it.
    Gap {
        /// The insertion point, from 0 to the number of keys.
        rank: usize,
    },
}

impl Place {
    /// The lowest rank in question, or the insertion point.
    #[inline]
    pub const fn rank(self) -> usize {
        match self {
            Place::Near { rank, .. } | Place::Gap { rank } => rank,
        }
    }
}

/// A bucket's keys, split by rank. See `build.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chunk {
    /// Its first key.
    first: u64,
    /// How far the keys' distances from the first are shifted up before they enter the chunk's trie.
    shift: u8,
    /// Position of its first bit.
    offset: u64,
}

/// Keys of a batch whose cache misses overlap.
const BATCH: usize = 16;

/// Keys in a chunk; the last of a bucket may have fewer.
const CHUNK_KEYS: u64 = 128;

/// The ranks of a set of distinct keys, without the keys.
///
/// ```
/// use siltstone_succinct::index::entropy_trie::{Code, EntropyTrie, Place, Spec};
///
/// let keys = [3, 14, 15, 92, 653];
/// let trie = EntropyTrie::build(Spec::dense(Code::Strong), &keys);
/// assert_eq!(trie.rank(15), 2);
/// assert_eq!(trie.place(15), Place::Near { rank: 2, keys: 1 });
/// assert_eq!(trie.place(2), Place::Gap { rank: 0 });
/// assert_eq!(trie.place(700), Place::Gap { rank: 5 });
///
/// let mut bytes = Vec::new();
/// trie.to_bytes(&mut bytes);
/// assert_eq!(EntropyTrie::from_bytes(&bytes)?, trie);
/// # Ok::<(), siltstone_succinct::error::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntropyTrie {
    spec: Spec,
    keys: u64,
    /// The number of buckets asked for, from which the spread follows.
    buckets: u64,
    spread: Spread,
    nodes: &'static Nodes,
    lengths: Lengths,
    directory: Directory,
    /// (bucket, its first chunk) of every split bucket, in order.
    split: Vec<(u64, u64)>,
    chunks: Vec<Chunk>,
    /// The code of all buckets, one after another.
    words: Vec<u64>,
    code_bits: u64,
}

impl EntropyTrie {
    /// Builds the trie of `keys`, which must ascend strictly.
    ///
    /// # Panics
    ///
    /// If the keys don't ascend strictly, or if the spec is out of its bounds.
    pub fn build(spec: Spec, keys: &[u64]) -> Self {
        let range = match keys {
            [first, .., last] => *first..=*last,
            [only] => *only..=*only,
            [] => 0..=0,
        };
        let mut builder = TrieBuilder::new(spec, keys.len(), range);
        for key in keys {
            builder.push(*key);
        }
        builder.finish()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys as usize
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// What the trie was built to.
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// Number of blocks: ranks divided by the keys of a block, rounded up.
    pub fn blocks(&self) -> usize {
        self.keys.div_ceil(u64::from(self.spec.block_keys)) as usize
    }

    /// The rank of a key of the trie: how many keys are below it. Exact if blocks have one key; otherwise
    /// some rank of its block.
    ///
    /// A key that is not in the trie gets, with [`Code::Strong`] and [`Code::Paper`], the rank of
    /// [`EntropyTrie::place`]: its insertion point (up to the number of keys) where the trie can tell it,
    /// else that of the neighbour which it may be on either side of. With [`Code::Weak`] it gets any rank
    /// below the number of keys, 0 if there are none.
    #[inline]
    pub fn rank(&self, key: u64) -> usize {
        self.rank_of(self.place(key))
    }

    /// What [`EntropyTrie::rank`] says of a key at `place`.
    #[inline]
    fn rank_of(&self, place: Place) -> usize {
        match self.spec.code {
            Code::Weak => place.rank().min(self.len().saturating_sub(1)),
            Code::Paper | Code::Strong => place.rank(),
        }
    }

    /// The block of a key of the trie, exactly. For an absent key the block of the rank that
    /// [`EntropyTrie::rank`] gives, at most the last one; 0 if there are none. With [`Code::Strong`] and
    /// [`Code::Paper`], no key of another block can be equal to an absent key's neighbours within the block
    /// in question.
    #[inline]
    pub fn block(&self, key: u64) -> usize {
        let rank = self.place(key).rank().min(self.len().saturating_sub(1));
        rank / self.spec.block_keys as usize
    }

    /// Where `key` stands, as far as the trie can tell; see [`Place`].
    #[inline]
    pub fn place(&self, key: u64) -> Place {
        self.walk().place(self.root(key))
    }

    /// Puts [`EntropyTrie::rank`] of each key into `ranks`, which is cleared first. Waits for the memory of
    /// several keys at a time, so that it takes less time per key than asking one by one.
    pub fn rank_batch(&self, keys: &[u64], ranks: &mut Vec<usize>) {
        ranks.clear();
        ranks.reserve(keys.len());
        for keys in keys.chunks(BATCH) {
            self.prefetch(keys);
            let mut roots = [Root::Known(Place::Gap { rank: 0 }); BATCH];
            for (root, key) in roots.iter_mut().zip(keys) {
                *root = self.root(*key);
            }
            let walk = self.walk();
            ranks.extend(roots.iter().take(keys.len()).map(|root| self.rank_of(walk.place(*root))));
        }
    }

    /// Bits of memory that all but this value itself takes: code, directory and chunks.
    pub fn bits(&self) -> u64 {
        (self.memory_bytes() - size_of::<Self>()) as u64 * 8
    }

    /// Bits of the code alone, without directory and chunks.
    pub fn code_bits(&self) -> u64 {
        self.code_bits
    }

    /// Bytes of memory held, this value's own included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.directory.memory_bytes()
            + size_of_val(&*self.split)
            + size_of_val(&*self.chunks)
            + size_of_val(&*self.words)
    }
}
