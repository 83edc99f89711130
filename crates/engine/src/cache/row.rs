//! The row cache: answers of tables to the keys that gets ask for most.
//!
//! The idea: digests scatter the keys that are asked for often over all pages, so that a cached page holds
//! one of them and dozens that nobody wants. Kept by itself, such an answer takes its own bytes. Tables never
//! change and their numbers are not used twice, so what a table once said of a key it says for ever: nothing
//! has to be told to this cache when something is written, deleted, compacted or expires. Whoever looks goes
//! the usual way from table to table, and asks here instead of reading a page.
//!
//! Source: S3-FIFO (Yang et al., SOSP 2023): new answers stand in a small queue, those that were asked for
//! again move on to the main one when their time comes, others leave, and one that comes back soon after goes
//! to the main queue at once. Keeping answers by table is RocksDB's row cache. Where we differ, and why:
//!
//! - Answers stand one behind the other in pieces of the store's memory, and leave piece by piece: no
//!   allocation each, and no holes between them.
//! - New answers have no more than their part also while the main queue is not full: pages have the rest
//!   ([`shared`](super::shared)), and those of keys that nobody asks for again would take it from them.
//! - Who left lately is noted in a table that forgets what is overwritten, four bytes an answer, rather than
//!   in a queue.
//!
//! ```text
//!  answer, at a multiple of 8 bytes
//!  0               8          16           18             20     21     22  24
//! +---------------+----------+------------+--------------+------+------+---+-------------+-----+-------+
//! | fingerprint 8 | table: 8 | key len: 2 | value len: 2 | kind | uses | 0 | [expiry: 8] | key | value |
//! +---------------+----------+------------+--------------+------+------+---+-------------+-----+-------+
//! ```
//!
//! Invariants: the directory leads to every answer that can be found, and to no other; a piece ends where its
//! last answer does or with a word of zeros where the next would say its table, which is never zero.

use crate::entry::Answer;
use crate::ids::TableId;
use crate::memory::{MemoryBudget, PIECE_BYTES, Piece};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::value::Wants;
use hashbrown::HashTable;
use siltstone_design::EncodedKey;
use std::collections::VecDeque;
use std::sync::Arc;

/// Memory that a piece of answers takes, with its part of directory and notes.
pub(super) const KEPT_PIECE_BYTES: u64 = PIECE_BYTES as u64 + 512;

const HEAD_BYTES: usize = 24;
const EXPIRY_BYTES: usize = 8;
const USES_AT: usize = 21;
/// Larger answers are not kept: they would leave much of a piece empty.
const MOST_ANSWER_BYTES: usize = PIECE_BYTES / 4;
const MOST_USES: u8 = 3;
/// Part of the pieces that new answers pass through.
const SMALL_SHARE: usize = 10;
/// Pieces of these that there may always be: one to fill, and the one before it.
const LEAST_SMALL: usize = 2;
/// Notes of answers that have left, for each piece: as many as answers of some hundred bytes.
const NOTES_PER_PIECE: usize = 32;
/// Pieces whose answers one insertion may pass on.
const MOST_PASSED: usize = 16;
/// Bytes of the budget for each shard.
const BUDGET_PER_SHARD: u64 = 4 << 20;
const MOST_SHARDS: u64 = 64;
/// Pieces of a shard: fewer than there are numbers for, and as many as make 300 GiB of answers in all.
const MOST_PIECES: u64 = 1 << 20;

const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const DELETED: u8 = 3;
const OPERANDS: u8 = 5;
const ABSENT: u8 = 4;

/// Answers of tables.
pub(crate) struct RowCache {
    shards: Box<[Mutex<Shard>]>,
    /// Pieces of each shard at most.
    most_pieces: AtomicUsize,
    /// Pieces of all shards.
    pieces: AtomicUsize,
    memory: Arc<MemoryBudget>,
}

/// Where an answer stands: one bit for the queue, 22 for the piece's number, nine for its place in words of
/// eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

const NUMBER_BITS: u32 = 22;
const OFFSET_BITS: u32 = 9;

impl Place {
    fn new(is_main: bool, number: u32, offset: usize) -> Self {
        let number = number & ((1 << NUMBER_BITS) - 1);
        Self(u32::from(is_main) << 31 | number << OFFSET_BITS | (offset / 8) as u32)
    }

    fn is_main(self) -> bool {
        self.0 >> 31 == 1
    }

    fn number(self) -> u32 {
        self.0 >> OFFSET_BITS & ((1 << NUMBER_BITS) - 1)
    }

    fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * 8
    }
}

/// Pieces with answers, oldest first.
#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// Number of the oldest.
    first: u32,
    /// Bytes in use of the youngest.
    filled: usize,
}

impl Queue {
    fn piece(&self, number: u32) -> Option<&Piece> {
        let at = number.wrapping_sub(self.first) & ((1 << NUMBER_BITS) - 1);
        self.pieces.get(at as usize)
    }

    fn piece_mut(&mut self, number: u32) -> Option<&mut Piece> {
        let at = number.wrapping_sub(self.first) & ((1 << NUMBER_BITS) - 1);
        self.pieces.get_mut(at as usize)
    }

    /// Appends the bytes of an answer and returns the number of its piece and its place there.
    fn push(&mut self, parts: &[&[u8]], memory: &MemoryBudget) -> (u32, usize) {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.pieces.is_empty() || self.filled + bytes > PIECE_BYTES {
            self.pieces.push_back(memory.piece());
            self.filled = 0;
        }
        let (number, offset) = (self.first.wrapping_add(self.pieces.len() as u32 - 1), self.filled);
        self.filled = (offset + bytes).next_multiple_of(8);
        let mut at = offset;
        if let Some(piece) = self.pieces.back_mut() {
            for part in parts {
                if let Some(place) = piece.get_mut(at..at + part.len()) {
                    place.copy_from_slice(part);
                }
                at += part.len();
            }
            // What the piece was used for before must not look like another answer.
            piece.iter_mut().skip(at).take(HEAD_BYTES).for_each(|byte| *byte = 0);
        }
        (number, offset)
    }

    /// Takes the oldest piece, with its number.
    fn pop(&mut self) -> Option<(Piece, u32)> {
        let piece = self.pieces.pop_front()?;
        let number = self.first;
        self.first = self.first.wrapping_add(1);
        Some((piece, number))
    }
}

#[derive(Default)]
struct Shard {
    directory: HashTable<Place>,
    small: Queue,
    main: Queue,
    /// Upper halves of the hashes of answers that have left, each at the place that its lower half gives.
    left: Vec<u32>,
}

/// An answer as it stands in a piece.
#[derive(Clone, Copy)]
struct Kept<'a> {
    bytes: &'a [u8],
    fingerprint: u64,
    table: TableId,
    kind: u8,
    uses: u8,
    key: &'a [u8],
    value: &'a [u8],
    expires_at_ms: u64,
}

impl<'a> Kept<'a> {
    /// The answer at the front of `bytes`; `None` behind the last of a piece.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
        let (fingerprint, table, key_len, value_len) = (word(0)?, word(8)?, half(16)?, half(18)?);
        let (kind, uses) = (*bytes.get(20)?, *bytes.get(USES_AT)?);
        if table == 0 {
            return None;
        }
        let (expires_at_ms, key_at) = if kind == PUT_EXPIRING {
            (word(HEAD_BYTES)?, HEAD_BYTES + EXPIRY_BYTES)
        } else {
            (0, HEAD_BYTES)
        };
        let end = key_at + key_len + value_len;
        let (key, value) = bytes.get(key_at..end)?.split_at_checked(key_len)?;
        let bytes = bytes.get(..end)?;
        Some(Self { bytes, fingerprint, table, kind, uses, key, value, expires_at_ms })
    }

    fn lookup(&self, wants: Wants) -> Answer {
        match self.kind {
            ABSENT => Answer::Absent,
            DELETED => Answer::Deleted,
            OPERANDS => Answer::Operands(self.value.to_vec()),
            _ => Answer::Put { value: wants.take(self.value), expires_at_ms: self.expires_at_ms },
        }
    }
}

/// A hash of what an answer is kept under.
fn hash(table: TableId, fingerprint: u64) -> u64 {
    // Fingerprints are hashes; tables are told apart by a multiplication that reaches all bits.
    let mixed = (fingerprint ^ table.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

impl Shard {
    fn queue(&self, place: Place) -> &Queue {
        if place.is_main() { &self.main } else { &self.small }
    }

    fn kept(&self, place: Place) -> Option<Kept<'_>> {
        Kept::read(self.queue(place).piece(place.number())?.get(place.offset()..)?)
    }

    fn find(&self, hash: u64, table: TableId, key: &EncodedKey<'_>) -> Option<Place> {
        let is_it = |place: &Place| {
            self.kept(*place).is_some_and(|kept| {
                kept.fingerprint == key.fingerprint && kept.table == table && kept.key == key.key
            })
        };
        self.directory.find(hash, is_it).copied()
    }

    fn get(&mut self, hash: u64, table: TableId, key: &EncodedKey<'_>, wants: Wants) -> Option<Answer> {
        let place = self.find(hash, table, key)?;
        let kept = self.kept(place)?;
        let (answer, uses) = (kept.lookup(wants), kept.uses);
        if uses < MOST_USES {
            let queue = if place.is_main() { &mut self.main } else { &mut self.small };
            let byte = queue.piece_mut(place.number()).and_then(|p| p.get_mut(place.offset() + USES_AT));
            if let Some(byte) = byte {
                *byte = uses + 1;
            }
        }
        Some(answer)
    }

    /// Appends an answer to a queue and enters it in the directory.
    fn push(&mut self, is_main: bool, hash: u64, parts: &[&[u8]], memory: &MemoryBudget) {
        let queue = if is_main { &mut self.main } else { &mut self.small };
        let (number, offset) = queue.push(parts, memory);
        let (small, main) = (&self.small, &self.main);
        let hash_of = |place: &Place| {
            let queue = if place.is_main() { main } else { small };
            let bytes = queue.piece(place.number()).and_then(|piece| piece.get(place.offset()..));
            bytes.and_then(Kept::read).map_or(0, |kept| self::hash(kept.table, kept.fingerprint))
        };
        self.directory.insert_unique(hash, Place::new(is_main, number, offset), hash_of);
    }

    fn pieces(&self) -> usize {
        self.small.pieces.len() + self.main.pieces.len()
    }

    /// Lets go of old answers until at most `most` pieces are left, and of new ones no more than their part.
    fn shrink_to(&mut self, most: usize, memory: &MemoryBudget) {
        let most_small = (most / SMALL_SHARE).max(LEAST_SMALL);
        let mut passed = 0;
        while self.pieces() > most || self.small.pieces.len() > most_small {
            let small = self.small.pieces.len();
            let from_small = small > 0 && (small * SMALL_SHARE > most || self.main.pieces.len() < 2);
            let queue = if from_small { &mut self.small } else { &mut self.main };
            let Some((piece, number)) = queue.pop() else { return };
            // Where all have been asked for, some have to go unjustly, or an insertion would take very long.
            let keeps = most > 0 && passed < MOST_PASSED;
            self.pass_on(&piece[..], !from_small, number, keeps, memory);
            memory.give_back([piece]);
            passed += 1;
        }
    }

    /// Keeps those answers of a piece that has left its queue which have been asked for, if any are to be
    /// kept, and notes the others.
    fn pass_on(&mut self, piece: &[u8], was_main: bool, number: u32, keeps: bool, memory: &MemoryBudget) {
        let mut offset = 0;
        while let Some(kept) = piece.get(offset..).and_then(Kept::read) {
            let place = Place::new(was_main, number, offset);
            let hash = hash(kept.table, kept.fingerprint);
            if let Ok(entry) = self.directory.find_entry(hash, |known| *known == place) {
                entry.remove();
                if keeps && kept.uses > 0 {
                    // In the main queue it stays for as many rounds as it was asked for; there it begins
                    // without any.
                    let uses = if was_main { kept.uses - 1 } else { 0 };
                    let (head, rest) = kept.bytes.split_at_checked(USES_AT).unwrap_or_default();
                    let rest = rest.get(1..).unwrap_or_default();
                    self.push(true, hash, &[head, &[uses], rest], memory);
                } else if !was_main {
                    self.note(hash);
                }
            }
            offset += kept.bytes.len().next_multiple_of(8);
        }
    }

    fn note(&mut self, hash: u64) {
        let notes = self.left.len().max(1) as u64;
        if let Some(note) = self.left.get_mut((hash % notes) as usize) {
            *note = (hash >> 32) as u32;
        }
    }

    /// Whether an answer of this hash has left lately.
    fn has_left(&self, hash: u64) -> bool {
        let notes = self.left.len().max(1) as u64;
        self.left.get((hash % notes) as usize) == Some(&((hash >> 32) as u32))
    }
}

impl RowCache {
    /// A cache that keeps nothing until it is given [room](Self::set_capacity).
    pub fn new(memory: &Arc<MemoryBudget>) -> Self {
        let shards = (memory.total_bytes() / BUDGET_PER_SHARD).clamp(1, MOST_SHARDS).next_power_of_two();
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        let (most_pieces, pieces) = Default::default();
        Self { shards, most_pieces, pieces, memory: Arc::clone(memory) }
    }

    /// Gives it room for `bytes`.
    pub fn set_capacity(&self, bytes: u64) {
        let pieces = (bytes / KEPT_PIECE_BYTES / self.shards.len() as u64).min(MOST_PIECES) as usize;
        // One to fill in each queue, and one to leave.
        let pieces = if pieces < 3 { 0 } else { pieces };
        if self.most_pieces.swap(pieces, Ordering::Relaxed) == pieces {
            return;
        }
        for shard in &self.shards {
            let mut shard = shard.lock();
            let before = shard.pieces();
            shard.shrink_to(pieces, &self.memory);
            self.count(&shard, before);
            // Their places depend on how many there are, so none is kept. Zeros take memory once they are
            // written over.
            shard.left = vec![0; pieces * NOTES_PER_PIECE];
            if pieces == 0 {
                shard.directory = HashTable::new();
            }
        }
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed) as u64 * KEPT_PIECE_BYTES
    }

    #[inline]
    fn shard(&self, hash: u64) -> Option<&Mutex<Shard>> {
        // The lowest and the highest bits serve the directory.
        self.shards.get((hash >> 40) as usize % self.shards.len())
    }

    /// What `table` says of `key`, where that is known.
    #[inline]
    pub fn get(&self, table: TableId, key: &EncodedKey<'_>, wants: Wants) -> Option<Answer> {
        if self.most_pieces.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let hash = hash(table, key.fingerprint);
        self.shard(hash)?.lock().get(hash, table, key, wants)
    }

    /// Keeps what `table` says of `key`; true where it takes more memory for that.
    pub fn insert(&self, table: TableId, key: &EncodedKey<'_>, answer: &Answer) -> bool {
        let most = self.most_pieces.load(Ordering::Relaxed);
        let (kind, value, expires_at_ms): (_, &[u8], _) = match answer {
            Answer::Put { value, .. } if !value.is_read() => return false,
            Answer::Put { value, expires_at_ms: 0 } => (PUT, value.bytes(), 0),
            Answer::Put { value, expires_at_ms } => (PUT_EXPIRING, value.bytes(), *expires_at_ms),
            Answer::Deleted => (DELETED, &[], 0),
            Answer::Operands(operands) => (OPERANDS, operands, 0),
            Answer::Absent => (ABSENT, &[], 0),
        };
        let bytes = HEAD_BYTES + EXPIRY_BYTES + key.key.len() + value.len();
        if most == 0 || table == 0 || bytes > MOST_ANSWER_BYTES {
            return false;
        }
        let mut head = [0; HEAD_BYTES + EXPIRY_BYTES];
        let lengths = (key.key.len() as u64) | (value.len() as u64) << 16 | u64::from(kind) << 32;
        for (place, word) in head.chunks_exact_mut(8).zip([key.fingerprint, table, lengths, expires_at_ms]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let head = if kind == PUT_EXPIRING { &head[..] } else { head.get(..HEAD_BYTES).unwrap_or_default() };
        let hash = hash(table, key.fingerprint);
        let Some(shard) = self.shard(hash) else { return false };
        let mut shard = shard.lock();
        if shard.find(hash, table, key).is_some() {
            return false;
        }
        let (before, is_main) = (shard.pieces(), shard.has_left(hash));
        shard.push(is_main, hash, &[head, key.key, value], &self.memory);
        shard.shrink_to(most, &self.memory);
        self.count(&shard, before);
        shard.pieces() > before
    }

    /// Counts the pieces that a shard has more or fewer than before, while it is locked: before others can
    /// give them back, they are in the sum.
    fn count(&self, shard: &Shard, before: usize) {
        self.pieces.fetch_add(shard.pieces().wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for RowCache {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            let shard = std::mem::take(shard.get_mut());
            self.memory.give_back(shard.small.pieces.into_iter().chain(shard.main.pieces));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use siltstone_design::{Encoder, HashSecret, Schema};
    use std::collections::HashMap;

    struct Draw(u64);

    impl Draw {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }
    }

    fn answer(table: u64, key: u64, draw: &mut Draw) -> Answer {
        let value = vec![
            (table * 31 + key) as u8;
            draw.below(if key.is_multiple_of(50) { 2_000 } else { 200 }) as usize
        ];
        match (table + key) % 7 {
            0 => Answer::Absent,
            1 => Answer::Deleted,
            2 => Answer::Put { value: Value::Copied(value), expires_at_ms: 1 + key },
            _ => Answer::Put { value: Value::Copied(value), expires_at_ms: 0 },
        }
    }

    /// What is found is what was put in, whatever is let go meanwhile; and all memory comes back.
    #[test]
    fn it_says_what_it_was_told() {
        for total in [1u64 << 20, 16 << 20] {
            let memory = MemoryBudget::new(total);
            let rows = RowCache::new(&memory);
            let encoder = Encoder::new(Schema::Point, HashSecret([5; 16]));
            let (mut told, mut draw, mut found) = (HashMap::new(), Draw(total), 0);
            for round in 0..200_000u64 {
                if round.is_multiple_of(20_000) {
                    rows.set_capacity([total / 2, total / 8, 0, total / 64][(round / 20_000 % 4) as usize]);
                }
                let spread = 1 << draw.below(16);
                let number = draw.below(spread);
                let (table, key) = (1 + number % 3, number.to_be_bytes());
                let key = encoder.encode(&key).unwrap();
                if let Some(answer) = rows.get(table, &key, Wants::Copy) {
                    assert_eq!(Some(&answer), told.get(&(table, number)), "table {table}, key {number}");
                    found += 1;
                } else {
                    let fresh = answer(table, number, &mut draw);
                    let answer = told.entry((table, number)).or_insert(fresh).clone();
                    rows.insert(table, &key, &answer);
                }
            }
            assert!(found > 50_000, "{found}");
            rows.set_capacity(0);
            assert_eq!(rows.bytes(), 0);
        }
    }

    /// Keys by Zipf's law, a twentieth of them kept: more than half of the questions are answered, and a walk
    /// over other keys in between changes little.
    #[test]
    fn the_hot_stay() {
        const KEYS: u64 = 100_000;
        let memory = MemoryBudget::new(16 << 20);
        let rows = RowCache::new(&memory);
        rows.set_capacity(KEYS / 20 * 150);
        let encoder = Encoder::new(Schema::Point, HashSecret([6; 16]));
        let value = Answer::Put { value: Value::Copied(vec![7; 100]), expires_at_ms: 0 };
        let mut draw = Draw(1);
        let ask = |number: u64| {
            let key = number.to_be_bytes();
            let key = encoder.encode(&key).unwrap();
            let known = rows.get(1, &key, Wants::Copy).is_some();
            if !known {
                rows.insert(1, &key, &value);
            }
            known
        };
        let mut round = |walk: bool| {
            let mut known = 0;
            for question in 0..200_000u64 {
                // Ranks with a density of 1 / rank.
                let uniform = draw.below(1 << 30) as f64 / (1u64 << 30) as f64;
                known += u32::from(ask((KEYS as f64).powf(uniform) as u64));
                if walk && question.is_multiple_of(4) {
                    ask(KEYS + question);
                }
            }
            f64::from(known) / 200_000.0
        };
        round(false);
        let (alone, beside_a_walk) = (round(false), round(true));
        assert!(alone > 0.65 && beside_a_walk > 0.6, "{alone}, {beside_a_walk}");
    }
}

#[cfg(all(test, siltstone_shuttle))]
mod interleavings {
    use super::*;
    use crate::sync::{explore, thread};
    use crate::value::Value;
    use siltstone_design::{Encoder, HashSecret, Schema};

    fn value_of(table: TableId, key: u8) -> Vec<u8> {
        vec![table as u8 ^ key << 4; 700]
    }

    fn use_it(cache: &RowCache, thread: u8) {
        let encoder = Encoder::new(Schema::Point, HashSecret([5; 16]));
        for n in 0..6u8 {
            let (table, key) = (1 + TableId::from(n % 3), [thread * 2 + n % 4]);
            let encoded = encoder.encode(&key).unwrap();
            match cache.get(table, &encoded, Wants::Copy) {
                None => {
                    let value = Value::Copied(value_of(table, key[0]));
                    cache.insert(table, &encoded, &Answer::Put { value, expires_at_ms: 0 });
                }
                Some(Answer::Put { value, .. }) => assert_eq!(value.bytes(), value_of(table, key[0])),
                Some(answer) => panic!("table {table} is said to have said {answer:?}"),
            }
        }
    }

    /// Answers leave piece by piece, and their memory goes to others, while they are asked for.
    #[test]
    fn answers_are_those_of_their_tables_while_pieces_come_and_go() {
        explore(5_000, || {
            let cache = Arc::new(RowCache::new(&MemoryBudget::new(1 << 20)));
            cache.set_capacity(3 * KEPT_PIECE_BYTES);
            let users = (0..2).map(|number| {
                let cache = Arc::clone(&cache);
                thread::spawn(move || use_it(&cache, number))
            });
            let users: Vec<_> = users.collect();
            cache.set_capacity(0);
            cache.set_capacity(4 * KEPT_PIECE_BYTES);
            users.into_iter().for_each(|user| user.join().unwrap());
        });
    }
}
