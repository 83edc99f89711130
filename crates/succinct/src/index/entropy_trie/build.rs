//! Writing a trie: one bucket at a time, as its keys come by.
//!
//! A bucket that fills beyond four times its intended size, or whose code turns out longer than any uniform
//! keys would make it, is split into chunks of 128 keys. A chunk keeps its first key and a trie over the
//! distances from it, which are shifted up as far as they go, so that the bits which all keys of a cluster
//! share cost nothing.
//!
//! Invariants: a bucket's keys are written as a whole; at no time are more keys held than the limit of a
//! bucket.

use super::coder::Coder;
use super::directory::DirectoryBuilder;
use super::lengths::Lengths;
use super::node::{MOST_KEYS, nodes};
use super::spread::Spread;
use super::{CHUNK_KEYS, Chunk, EntropyTrie, MOST_BLOCK_KEYS, Spec};
use crate::code::bit_stream::BitWriter;

/// A bucket is split if it takes more bits than this many per key, and [`SLACK_BITS`].
const BITS_PER_KEY: u64 = 6;
/// What small buckets may take beyond that: chains of one-sided nodes above few keys.
const SLACK_BITS: u64 = 512;

/// Takes keys in ascending order and makes an [`EntropyTrie`] of them. Holds the output and one bucket.
///
/// ```
/// use siltstone_succinct::index::entropy_trie::{Code, Spec, TrieBuilder};
///
/// let mut builder = TrieBuilder::new(Spec::dense(Code::Weak), 1000, 0..=u64::MAX);
/// for number in 0..1000u64 {
///     builder.push(number << 54 | 77);
/// }
/// let trie = builder.finish();
/// assert_eq!(trie.rank(500 << 54 | 77), 500);
/// ```
#[derive(Debug, Clone)]
pub struct TrieBuilder {
    spec: Spec,
    coder: Coder,
    buckets: u64,
    spread: Spread,
    directory: DirectoryBuilder,
    split: Vec<(u64, u64)>,
    chunks: Vec<Chunk>,
    writer: BitWriter,
    /// Keys pushed, and how many of them are in buckets before the current one.
    keys: u64,
    rank: u64,
    /// Where the current bucket's code starts, and its number.
    offset: u64,
    bucket: usize,
    /// True if the current bucket has been split; the keys before the pending ones are in chunks already.
    splitting: bool,
    /// The keys of the current bucket, and their places, that are not written yet.
    pending: Vec<u64>,
    places: Vec<u64>,
}

impl TrieBuilder {
    /// A builder for about `keys` keys, all of them within `range`.
    ///
    /// A wrong number of keys, or a range wider than what the keys span, makes buckets smaller or larger than
    /// asked for, which costs space or time and nothing else.
    ///
    /// # Panics
    ///
    /// If `spec` is out of its bounds, if the range is empty, or if there would be more than 2^32 buckets.
    pub fn new(spec: Spec, keys: usize, range: std::ops::RangeInclusive<u64>) -> Self {
        assert!(
            (1..=MOST_BLOCK_KEYS).contains(&spec.block_keys),
            "block_keys is {}, but must be from 1 to {MOST_BLOCK_KEYS}",
            spec.block_keys
        );
        assert!(
            (16..=8192).contains(&spec.bucket_keys),
            "bucket_keys is {}, but must be from 16 to 8192",
            spec.bucket_keys
        );
        assert!(!range.is_empty(), "the range of keys is empty");
        let buckets = (keys as u64).div_ceil(u64::from(spec.bucket_keys)).max(1);
        assert!(buckets <= 1 << 32, "{buckets} buckets, but the limit is 2^32: raise bucket_keys");
        TrieBuilder {
            spec,
            coder: Coder::new(spec, nodes(spec.code), Lengths::new(&spec)),
            buckets,
            spread: Spread::new(*range.start(), *range.end(), buckets),
            directory: DirectoryBuilder::default(),
            split: Vec::new(),
            chunks: Vec::new(),
            writer: BitWriter::with_capacity(keys * 5 / 2 / spec.block_keys.isqrt() as usize),
            keys: 0,
            rank: 0,
            offset: 0,
            bucket: 0,
            splitting: false,
            pending: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Appends the next key.
    ///
    /// # Panics
    ///
    /// If `key` is not above the one before, or outside the range.
    #[inline]
    pub fn push(&mut self, key: u64) {
        assert!(
            (self.spread.low..=self.spread.high).contains(&key),
            "key {key} is outside of the range {}..={}",
            self.spread.low,
            self.spread.high
        );
        let (bucket, place) = self.spread.place(key);
        if bucket != self.bucket {
            assert!(bucket > self.bucket, "key {key} is not above the one before");
            self.close_bucket();
            self.open_bucket(bucket);
        } else if let Some(last) = self.pending.last() {
            assert!(key > *last, "key {key} is not above the one before, {last}");
        }
        self.pending.push(key);
        self.places.push(place);
        self.keys += 1;
        if self.pending.len() as u64 > self.most_pending() {
            self.write_full_chunks();
        }
    }

    /// Keys pushed so far.
    pub fn len(&self) -> usize {
        self.keys as usize
    }

    /// True if no key was pushed.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Freezes the trie.
    pub fn finish(mut self) -> EntropyTrie {
        self.close_bucket();
        self.open_bucket(self.buckets as usize);
        let code_bits = self.writer.len();
        self.directory.push(self.keys, code_bits, false);
        EntropyTrie {
            spec: self.spec,
            keys: self.keys,
            buckets: self.buckets,
            spread: self.spread,
            nodes: nodes(self.spec.code),
            lengths: Lengths::new(&self.spec),
            directory: self.directory.finish(),
            split: self.split,
            chunks: self.chunks,
            words: self.writer.into_words(),
            code_bits,
        }
    }

    /// The most keys of a bucket that is not split.
    fn most_pending(&self) -> u64 {
        u64::from(self.spec.bucket_keys * 4).min(u64::from(MOST_KEYS))
    }

    /// Writes what is pending and notes the current bucket in the directory.
    fn close_bucket(&mut self) {
        if !self.splitting {
            let in_block = self.spec.in_block(self.rank);
            self.coder.write(&self.places, in_block, &mut self.writer);
            let limit = self.pending.len() as u64 * BITS_PER_KEY + SLACK_BITS;
            self.splitting = self.writer.len() - self.offset > limit;
            if self.splitting {
                self.writer.truncate(self.offset);
                self.split.push((self.bucket as u64, self.chunks.len() as u64));
            } else {
                self.pending.clear();
            }
        }
        if self.splitting {
            self.write_full_chunks();
            let rest = std::mem::take(&mut self.pending);
            self.write_chunk(&rest);
        }
        self.directory.push(self.rank, self.offset, self.splitting);
        self.pending.clear();
        self.places.clear();
    }

    /// Starts bucket number `next`; those between are empty.
    fn open_bucket(&mut self, next: usize) {
        self.rank = self.keys;
        self.offset = self.writer.len();
        for _ in self.bucket + 1..next {
            self.directory.push(self.rank, self.offset, false);
        }
        self.bucket = next;
        self.splitting = false;
    }

    /// Splits the current bucket, if it is not yet, and writes its pending keys but for less than a chunk.
    fn write_full_chunks(&mut self) {
        if !self.splitting {
            self.splitting = true;
            self.split.push((self.bucket as u64, self.chunks.len() as u64));
        }
        let pending = std::mem::take(&mut self.pending);
        let (chunks, rest) = pending.as_chunks::<{ CHUNK_KEYS as usize }>();
        for chunk in chunks {
            self.write_chunk(chunk);
        }
        self.pending = rest.to_vec();
        self.places.clear();
    }

    /// Writes one chunk, unless it is empty.
    fn write_chunk(&mut self, keys: &[u64]) {
        let ([first, .., last] | [first @ last]) = keys else { return };
        let shift = (last - first).leading_zeros().min(63);
        let first_chunk = self.split.last().map_or(0, |split| split.1);
        let rank = self.rank + (self.chunks.len() as u64 - first_chunk) * CHUNK_KEYS;
        self.chunks.push(Chunk { first: *first, shift: shift as u8, offset: self.writer.len() });
        self.places.clear();
        self.places.extend(keys.iter().map(|key| (key - first) << shift));
        self.coder.write(&self.places, self.spec.in_block(rank), &mut self.writer);
    }
}
