//! A shard of the memtable: versions of keys in order, in two kinds of memory that are allotted a few
//! kilobytes at a time.
//!
//! The idea: a node per entry costs an allocation, and a walk over nodes a cache miss per step. Here the keys
//! and values go to the end of a block, which is a piece of the store's pooled memory, one behind the other,
//! and what is kept in order are places of 24 bytes, in chunks of at most [`CHUNK_PLACES`]: finding one
//! touches a handful of cache lines, inserting one moves a few hundred bytes. The rest of the time goes into
//! waiting for memory that is not in the processor's cache; so a block is brought there as a whole when it is
//! begun, and a walk touches many versions before it reads the first.
//!
//! ```text
//!  version, in a block:
//!  0             8                16            20              24
//! +-------------+----------------+-------------+---------------+ ... --------+-----+-------+
//! | sequence u64| fingerprint u64| key len u32 | value len u32 | extras      | key | value |
//! +-------------+----------------+-------------+---------------+ ... --------+-----+-------+
//!  bit 31 of the key's length: deleted.  Bit 30: extras follow, expiry and older table, a u64 each.
//! ```
//!
//! Source: ours; the chunks are the leaves of a B-tree of two levels. Invariants: places ascend by (digest,
//! key), then from the newest version to the oldest; no chunk is empty, and `firsts` has the digest of each
//! one's first place; no version spans blocks, and one that is larger than a piece is a block by itself.

use crate::entry::{Item, Sequence};
use crate::memory::{MemoryBudget, PIECE_BYTES, Piece};
use siltstone_design::Digest;
use std::cmp::Ordering;

/// Places in a chunk at most; a full one is halved.
const CHUNK_PLACES: usize = 32;
/// Bytes before a key, and of the extras.
const HEAD_BYTES: usize = 24;
const EXTRA_BYTES: usize = 16;
/// Bytes that come into the processor's cache together.
const LINE_BYTES: usize = 64;
const DELETED: u32 = 1 << 31;
const EXTRAS: u32 = 1 << 30;

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version<'a> {
    pub digest: Digest,
    pub fingerprint: u64,
    pub sequence: Sequence,
    pub key: &'a [u8],
    pub item: Item<'a>,
    /// See [`EntryRef::older_in`](crate::entry::EntryRef::older_in).
    pub older_in: u64,
}

/// Where a version lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    digest: Digest,
    block: u32,
    offset: u32,
}

/// Versions in order.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// The digest of each chunk's first place, as a number.
    firsts: Vec<u128>,
    chunks: Vec<Vec<Place>>,
    blocks: Vec<Block>,
    /// Bytes in use of the block that is being filled.
    filled: usize,
    /// Number of that block.
    filling: usize,
}

#[derive(Debug)]
enum Block {
    Piece(Piece),
    /// A version that fits no piece.
    Large(Box<[u8]>),
}

impl Block {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Piece(piece) => &piece[..],
            Self::Large(bytes) => bytes,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn half_word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Copies `parts` one behind the other to the beginning of `target`.
#[inline]
fn copy_all(mut target: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        // Without room for it, a part of a version would be lost: this panics.
        let (place, rest) = target.split_at_mut(part.len());
        place.copy_from_slice(part);
        target = rest;
    }
}

impl Shard {
    /// Adds a version. No other of its key may have its sequence number.
    pub fn insert(&mut self, version: &Version<'_>, memory: &MemoryBudget) {
        let place = self.write(version, memory);
        let (chunk, index) = self.lower_bound((version.digest, version.key, version.sequence));
        let Some(places) = self.chunks.get_mut(chunk) else {
            let mut places = Vec::with_capacity(CHUNK_PLACES);
            places.push(place);
            self.chunks.push(places);
            self.firsts.push(place.digest.as_number());
            return;
        };
        places.insert(index.min(places.len()), place);
        if let (0, Some(first)) = (index, self.firsts.get_mut(chunk)) {
            *first = place.digest.as_number();
        }
        if places.len() >= CHUNK_PLACES {
            let mut upper = Vec::with_capacity(CHUNK_PLACES);
            upper.extend(places.drain(CHUNK_PLACES / 2..));
            let first = upper.first().map_or(0, |place| place.digest.as_number());
            self.firsts.insert(chunk + 1, first);
            self.chunks.insert(chunk + 1, upper);
        }
    }

    /// Appends a version to a block.
    #[expect(
        clippy::indexing_slicing,
        reason = "the block was begun if there was none with room; a version without one would be lost"
    )]
    fn write(&mut self, version: &Version<'_>, memory: &MemoryBudget) -> Place {
        let (value, expires_at_ms, deleted) = match version.item {
            Item::Put { value, expires_at_ms } => (value, expires_at_ms, false),
            Item::Deleted => (&[][..], 0, true),
        };
        let extras = expires_at_ms != 0 || version.older_in != 0;
        // Keys have up to 2^16 bytes and values up to 2^30.
        let flags = if deleted { DELETED } else { 0 } | if extras { EXTRAS } else { 0 };
        let lengths = u64::from(version.key.len() as u32 | flags) | (value.len() as u64) << 32;
        let words = [version.sequence, version.fingerprint, lengths, expires_at_ms, version.older_in];
        let mut head = [0; HEAD_BYTES + EXTRA_BYTES];
        for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        let head = if extras { &head[..] } else { &head[..HEAD_BYTES] };
        let parts = [head, version.key, value];
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if bytes > PIECE_BYTES {
            self.blocks.push(Block::Large(parts.concat().into_boxed_slice()));
            return Place { digest: version.digest, block: self.blocks.len() as u32 - 1, offset: 0 };
        }
        let has_room = matches!(self.blocks.get(self.filling), Some(Block::Piece(_)))
            && self.filled + bytes <= PIECE_BYTES;
        if !has_room {
            (self.filling, self.filled) = (self.blocks.len(), 0);
            // Its last user was another thread, a while ago: line by line, each version would wait for two or
            // three.
            let piece = memory.piece();
            piece.fill(0);
            self.blocks.push(Block::Piece(piece));
        }
        match &mut self.blocks[self.filling] {
            Block::Piece(piece) => copy_all(&mut piece[self.filled..], &parts),
            Block::Large(_) => unreachable!("pieces are filled"),
        }
        let place = Place { digest: version.digest, block: self.filling as u32, offset: self.filled as u32 };
        self.filled += bytes;
        place
    }

    /// The memory of its blocks, for the pool.
    pub fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.blocks.into_iter().filter_map(|block| match block {
            Block::Piece(piece) => Some(piece),
            Block::Large(_) => None,
        })
    }

    #[expect(clippy::indexing_slicing, reason = "what stands at a place was written there")]
    fn version(&self, place: Place) -> Version<'_> {
        let bytes = &self.blocks[place.block as usize].bytes()[place.offset as usize..];
        let lengths = half_word(bytes, 16);
        let key_len = (lengths & !(DELETED | EXTRAS)) as usize;
        let (expires_at_ms, older_in, key_at) = if lengths & EXTRAS == 0 {
            (0, 0, HEAD_BYTES)
        } else {
            (word(bytes, HEAD_BYTES), word(bytes, HEAD_BYTES + 8), HEAD_BYTES + EXTRA_BYTES)
        };
        let value_at = key_at + key_len;
        let value = &bytes[value_at..value_at + half_word(bytes, 20) as usize];
        Version {
            digest: place.digest,
            fingerprint: word(bytes, 8),
            sequence: word(bytes, 0),
            key: &bytes[key_at..value_at],
            item: if lengths & DELETED == 0 { Item::Put { value, expires_at_ms } } else { Item::Deleted },
            older_in,
        }
    }

    fn compare(&self, place: Place, (digest, key, sequence): (Digest, &[u8], Sequence)) -> Ordering {
        place.digest.cmp(&digest).then_with(|| {
            let version = self.version(place);
            version.key.cmp(key).then_with(|| sequence.cmp(&version.sequence))
        })
    }

    /// Chunk, and index in it, of the first place at or after `target`, or behind the last place of the chunk
    /// in front of it.
    fn lower_bound(&self, target: (Digest, &[u8], Sequence)) -> (usize, usize) {
        let digest = target.0.as_number();
        // In the last chunk that begins before the target, or right behind it.
        let after = self.firsts.partition_point(|first| *first < digest);
        let chunk = after.saturating_sub(1);
        let places = if after == 0 { &[] } else { self.chunks.get(chunk).map_or(&[][..], Vec::as_slice) };
        let index = places.partition_point(|place| place.digest.as_number() < digest);
        let next = places.get(index).map(|place| place.digest.as_number());
        if next.as_ref().or_else(|| self.firsts.get(after)) == Some(&digest) {
            return self.lower_bound_of_equals(target);
        }
        (chunk, index)
    }

    /// The same where other places have the target's digest.
    fn lower_bound_of_equals(&self, target: (Digest, &[u8], Sequence)) -> (usize, usize) {
        let is_before = |place: &Place| self.compare(*place, target).is_lt();
        let after = self.chunks.partition_point(|places| places.first().is_some_and(is_before));
        let Some(chunk) = after.checked_sub(1) else { return (0, 0) };
        let index = self.chunks.get(chunk).map_or(0, |places| places.partition_point(is_before));
        (chunk, index)
    }

    /// Brings the first `versions` from `from` up to the digest `last` towards the processor's cache, their
    /// beginnings at least, all at once. What comes back is of no use but to keep the compiler from leaving
    /// this out.
    #[must_use]
    pub fn prefetch(&self, from: (Digest, &[u8], Sequence), last: Digest, versions: usize) -> u8 {
        let (chunk, index) = self.lower_bound(from);
        let places = self.chunks.get(chunk..).unwrap_or(&[]).iter().flatten().skip(index);
        let wanted = places.take(versions).take_while(|place| place.digest <= last);
        wanted.fold(0, |all, place| {
            let block = self.blocks.get(place.block as usize).map_or(&[][..], Block::bytes);
            let version = block.get(place.offset as usize..).unwrap_or(&[]);
            let line = |number: usize| version.get(number * LINE_BYTES).copied().unwrap_or(0);
            all ^ line(0) ^ line(1) ^ line(2)
        })
    }

    /// Versions at or after (digest, key, version), in order.
    pub fn from<'a>(
        &'a self,
        digest: Digest,
        key: &[u8],
        sequence: Sequence,
    ) -> impl Iterator<Item = Version<'a>> + use<'a> {
        let (chunk, index) = self.lower_bound((digest, key, sequence));
        let first = self.chunks.get(chunk).and_then(|places| places.get(index..)).unwrap_or(&[]);
        let rest = self.chunks.get(chunk + 1..).unwrap_or(&[]).iter().flatten();
        first.iter().chain(rest).map(|place| self.version(*place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    /// Random versions, many of them of one digest or one key, beside a map.
    #[test]
    fn versions_stand_in_order() {
        let mut state = 7u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for spread in [1, 3, 50, 1 << 30] {
            let memory = MemoryBudget::new(1 << 20);
            let mut shard = Shard::default();
            let mut twin = BTreeMap::new();
            for sequence in 1..2_000u64 {
                let digest = Digest { hi: next(spread), lo: next(3) };
                let key = vec![b'k'; next(40) as usize];
                let value = vec![sequence as u8; if next(100) == 0 { 20_000 } else { next(60) as usize }];
                let item = match next(4) {
                    0 => Item::Deleted,
                    _ => Item::Put { value: &value, expires_at_ms: next(2) * 1_000 },
                };
                let older_in = next(2) * 77;
                let version =
                    Version { digest, fingerprint: sequence * 3, sequence, key: &key, item, older_in };
                shard.insert(&version, &memory);
                let kept = match item {
                    Item::Put { expires_at_ms, .. } => Some((value.clone(), expires_at_ms)),
                    Item::Deleted => None,
                };
                twin.insert((digest, key.clone(), Reverse(sequence)), (kept, older_in));
            }
            let mut probes: Vec<_> = twin.keys().step_by(37).cloned().collect();
            probes.push((Digest { hi: 0, lo: 0 }, Vec::new(), Reverse(u64::MAX)));
            probes.push((Digest { hi: u64::MAX, lo: 0 }, Vec::new(), Reverse(0)));
            for (digest, key, Reverse(sequence)) in probes {
                let found: Vec<_> = (shard.from(digest, &key, sequence))
                    .map(|version| {
                        let kept = match version.item {
                            Item::Put { value, expires_at_ms } => Some((value.to_vec(), expires_at_ms)),
                            Item::Deleted => None,
                        };
                        assert_eq!(version.fingerprint, version.sequence * 3);
                        (
                            (version.digest, version.key.to_vec(), Reverse(version.sequence)),
                            (kept, version.older_in),
                        )
                    })
                    .collect();
                let from = (digest, key, Reverse(sequence));
                let expected: Vec<_> =
                    twin.range(from..).map(|(place, kept)| (place.clone(), kept.clone())).collect();
                assert!(found == expected, "{} of {} versions", found.len(), expected.len());
            }
        }
    }
}
