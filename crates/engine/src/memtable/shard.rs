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
//!  Bit 29: the value is operands.
//! ```
//!
//! Where operands fold, a version is taken out once a newer one has replaced it, and another of about its
//! size takes its bytes: so counters that are counted up again and again take no more memory.
//!
//! Source: ours; the chunks are the leaves of a B-tree of two levels. Invariants: places ascend by (digest,
//! key), then from the newest version to the oldest; no chunk is empty, and `firsts` has the digest of each
//! one's first place; no version spans blocks, and one that is larger than a piece is a block by itself.

use crate::entry::{Item, Sequence};
use crate::memory::{MemoryBudget, PIECE_BYTES, Piece};
use crate::value::Shared;
use siltstone_design::{Digest, EncodedKey};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Places in a chunk at most; a full one is halved.
const CHUNK_PLACES: usize = 32;
/// Bytes before a key, and of the extras.
const HEAD_BYTES: usize = 24;
const EXTRA_BYTES: usize = 16;
/// Bytes that come into the processor's cache together.
const LINE_BYTES: usize = 64;
const DELETED: u32 = 1 << 31;
const EXTRAS: u32 = 1 << 30;
const OPERANDS: u32 = 1 << 29;
/// Where numbers of blocks wait whose large version was taken out; no version is so short.
const LARGE: usize = 0;

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    pub digest: Digest,
    pub fingerprint: u64,
    pub sequence: Sequence,
    pub key: &'a [u8],
    pub item: Item<'a>,
    /// The item's value, where it is not copied.
    pub shared: Option<&'a Shared>,
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
    /// Places of versions that were taken out, by the bytes that a new one may take.
    free: BTreeMap<usize, Vec<(u32, u32)>>,
    /// Whether versions are taken out, so that they take bytes in sizes of which there are few.
    folds: bool,
}

#[derive(Debug)]
enum Block {
    Piece(Piece),
    /// A version that fits no piece.
    Large(Box<[u8]>),
    /// One without its value, which is not copied.
    Shared(Box<[u8]>, Shared),
}

impl Block {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Piece(piece) => &piece[..],
            Self::Large(bytes) | Self::Shared(bytes, _) => bytes,
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

/// The bytes that a version of so many takes where others are to fit its place: at most a quarter more.
fn size_class(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(8);
    bytes.next_multiple_of(step).min(PIECE_BYTES.max(bytes))
}

/// What taking a version out has freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    /// Of key and value.
    pub user_bytes: u64,
    /// Of memory that waits for another version.
    pub waiting_bytes: u64,
}

impl Shard {
    /// A shard whose versions are taken out once newer ones replace them.
    pub fn folding() -> Self {
        Self { folds: true, ..Self::default() }
    }

    /// Adds a version. No other of its key may have its sequence number. Returns the bytes that it took where
    /// one was that has been taken out.
    pub fn insert(&mut self, version: &Version<'_>, memory: &MemoryBudget) -> u64 {
        let (place, reused_bytes) = self.write(version, memory);
        self.put_in_order(place, version);
        reused_bytes
    }

    fn put_in_order(&mut self, place: Place, version: &Version<'_>) {
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

    /// Writes a version into a block; returns the bytes of another's place that it took, too.
    #[expect(
        clippy::indexing_slicing,
        reason = "the block was begun if there was none with room; a version without one would be lost"
    )]
    fn write(&mut self, version: &Version<'_>, memory: &MemoryBudget) -> (Place, u64) {
        let (value, expires_at_ms, kind) = match version.item {
            Item::Put { value, expires_at_ms } => (value, expires_at_ms, 0),
            Item::Deleted => (&[][..], 0, DELETED),
            Item::Operands(operands) => (operands, 0, OPERANDS),
        };
        let extras = expires_at_ms != 0 || version.older_in != 0;
        // Keys have up to 2^16 bytes and values up to 2^30.
        let flags = kind | if extras { EXTRAS } else { 0 };
        let lengths = u64::from(version.key.len() as u32 | flags) | (value.len() as u64) << 32;
        let words = [version.sequence, version.fingerprint, lengths, expires_at_ms, version.older_in];
        let mut head = [0; HEAD_BYTES + EXTRA_BYTES];
        for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        let head = if extras { &head[..] } else { &head[..HEAD_BYTES] };
        let parts = [head, version.key, value];
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.folds
            && let Some(place) = self.reuse(version.digest, &parts, bytes)
        {
            return (place, size_class(bytes) as u64);
        }
        let bytes = if self.folds { size_class(bytes) } else { bytes };
        if bytes > PIECE_BYTES {
            let large = match version.shared {
                Some(shared) => Block::Shared([head, version.key].concat().into(), shared.clone()),
                None => Block::Large(parts.concat().into()),
            };
            let block = match self.free.get_mut(&LARGE).and_then(Vec::pop) {
                Some((block, _)) => block as usize,
                None => self.blocks.len(),
            };
            match self.blocks.get_mut(block) {
                Some(left) => *left = large,
                None => self.blocks.push(large),
            }
            return (Place { digest: version.digest, block: block as u32, offset: 0 }, 0);
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
            Block::Large(_) | Block::Shared(..) => unreachable!("pieces are filled"),
        }
        let place = Place { digest: version.digest, block: self.filling as u32, offset: self.filled as u32 };
        self.filled += bytes;
        (place, 0)
    }

    /// Writes a version of so many bytes where one was that has been taken out, if there is such a place.
    #[expect(clippy::indexing_slicing, reason = "a version stood at that place")]
    fn reuse(&mut self, digest: Digest, parts: &[&[u8]], bytes: usize) -> Option<Place> {
        let (block, offset) = self.free.get_mut(&size_class(bytes))?.pop()?;
        match self.blocks.get_mut(block as usize)? {
            Block::Piece(piece) => copy_all(&mut piece[offset as usize..], parts),
            Block::Large(_) | Block::Shared(..) => unreachable!("large versions leave no place"),
        }
        Some(Place { digest, block, offset })
    }

    /// Takes out the version of a key with this digest that has this sequence number.
    pub fn remove(&mut self, digest: Digest, sequence: Sequence) -> Option<Freed> {
        let (mut chunk, mut index) = self.lower_bound((digest, &[], Sequence::MAX));
        let place = loop {
            let places = self.chunks.get(chunk)?;
            match places.get(index) {
                None => (chunk, index) = (chunk + 1, 0),
                Some(place) if place.digest != digest => return None,
                Some(place) if self.version(*place).sequence == sequence => break *place,
                Some(_) => index += 1,
            }
        };
        let version = self.version(place);
        let user_bytes = (version.key.len() + version.item.bytes().len()) as u64;
        let has_extras = version.older_in != 0
            || !matches!(
                version.item,
                Item::Put { expires_at_ms: 0, .. } | Item::Deleted | Item::Operands(_)
            );
        let bytes = HEAD_BYTES + if has_extras { EXTRA_BYTES } else { 0 } + user_bytes as usize;
        let places = self.chunks.get_mut(chunk)?;
        places.remove(index);
        match places.first() {
            Some(first) => *self.firsts.get_mut(chunk)? = first.digest.as_number(),
            None => {
                self.chunks.remove(chunk);
                self.firsts.remove(chunk);
            }
        }
        let bytes = size_class(bytes);
        let waiting_bytes = match self.blocks.get_mut(place.block as usize)? {
            Block::Piece(_) => {
                self.free.entry(bytes).or_default().push((place.block, place.offset));
                bytes as u64
            }
            large => {
                *large = Block::Large(Box::default());
                self.free.entry(LARGE).or_default().push((place.block, 0));
                0
            }
        };
        Some(Freed { user_bytes, waiting_bytes })
    }

    /// The memory of its blocks, for the pool.
    pub fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.blocks.into_iter().filter_map(|block| match block {
            Block::Piece(piece) => Some(piece),
            Block::Large(_) | Block::Shared(..) => None,
        })
    }

    #[expect(clippy::indexing_slicing, reason = "what stands at a place was written there")]
    fn version(&self, place: Place) -> Version<'_> {
        let block = &self.blocks[place.block as usize];
        let shared = if let Block::Shared(_, shared) = block { Some(shared) } else { None };
        let bytes = &block.bytes()[place.offset as usize..];
        let lengths = half_word(bytes, 16);
        let key_len = (lengths & !(DELETED | EXTRAS | OPERANDS)) as usize;
        let (expires_at_ms, older_in, key_at) = if lengths & EXTRAS == 0 {
            (0, 0, HEAD_BYTES)
        } else {
            (word(bytes, HEAD_BYTES), word(bytes, HEAD_BYTES + 8), HEAD_BYTES + EXTRA_BYTES)
        };
        let value_at = key_at + key_len;
        let value = match shared {
            Some(shared) => shared.bytes(),
            None => &bytes[value_at..value_at + half_word(bytes, 20) as usize],
        };
        Version {
            digest: place.digest,
            fingerprint: word(bytes, 8),
            sequence: word(bytes, 0),
            key: &bytes[key_at..value_at],
            item: match lengths & (DELETED | OPERANDS) {
                0 => Item::Put { value, expires_at_ms },
                OPERANDS => Item::Operands(value),
                _ => Item::Deleted,
            },
            shared,
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
        // Counted, not halved: lines of memory that need not wait for one another come at the same time.
        let index = places.iter().map(|place| usize::from(place.digest.as_number() < digest)).sum();
        let next = places.get(index).or_else(|| self.chunks.get(after)?.first());
        match next.filter(|place| place.digest == target.0) {
            // The newest version is mostly the one that is looked for, or the one that is replaced.
            Some(place) if self.compare(*place, target).is_lt() => self.lower_bound_of_equals(target),
            _ => (chunk, index),
        }
    }

    /// The same where a place before the target has its digest.
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

    /// The sequence number of the oldest version of `key` that `sequence` can't see.
    pub fn unseen(&self, key: &EncodedKey<'_>, sequence: Sequence) -> Option<Sequence> {
        let versions = self.from(key.digest, key.key, Sequence::MAX);
        let of_key = versions.take_while(|version| version.digest == key.digest && version.key == key.key);
        of_key.map(|version| version.sequence).take_while(|newer| *newer > sequence).last()
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

    fn kept(item: Item<'_>) -> (Vec<u8>, u64, bool) {
        let parts = item.parts();
        (parts.value.to_vec(), parts.expires_at_ms, parts.deleted)
    }

    /// Random versions, many of them of one digest or one key, beside a map; where the shard folds, some are
    /// taken out.
    #[test]
    fn versions_stand_in_order() {
        let mut state = 7u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for (spread, folds) in
            [1, 3, 50, 1 << 30].into_iter().flat_map(|spread| [(spread, false), (spread, true)])
        {
            let memory = MemoryBudget::new(1 << 20);
            let mut shard = if folds { Shard::folding() } else { Shard::default() };
            let mut twin = BTreeMap::new();
            for sequence in 1..2_000u64 {
                let digest = Digest { hi: next(spread), lo: next(3) };
                let key = vec![b'k'; next(40) as usize];
                let value = vec![sequence as u8; if next(100) == 0 { 20_000 } else { next(60) as usize }];
                let item = match next(4) {
                    0 => Item::Deleted,
                    1 => Item::Operands(&value),
                    _ => Item::Put { value: &value, expires_at_ms: next(2) * 1_000 },
                };
                let older_in = next(2) * 77;
                let version = Version {
                    digest,
                    fingerprint: sequence * 3,
                    sequence,
                    key: &key,
                    item,
                    shared: None,
                    older_in,
                };
                shard.insert(&version, &memory);
                let kept = kept(item);
                twin.insert((digest, key.clone(), Reverse(sequence)), (kept, older_in));
                if folds && next(3) > 0 {
                    let out = twin.keys().nth(next(twin.len() as u64) as usize).cloned().unwrap();
                    let ((value, ..), _) = twin.remove(&out).unwrap();
                    let freed = shard.remove(out.0, out.2.0).unwrap();
                    assert_eq!(freed.user_bytes, (out.1.len() + value.len()) as u64);
                    assert_eq!(shard.remove(out.0, out.2.0), None);
                }
            }
            let mut probes: Vec<_> = twin.keys().step_by(37).cloned().collect();
            probes.push((Digest { hi: 0, lo: 0 }, Vec::new(), Reverse(u64::MAX)));
            probes.push((Digest { hi: u64::MAX, lo: 0 }, Vec::new(), Reverse(0)));
            for (digest, key, Reverse(sequence)) in probes {
                let found: Vec<_> = (shard.from(digest, &key, sequence))
                    .map(|version| {
                        let kept = kept(version.item);
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
