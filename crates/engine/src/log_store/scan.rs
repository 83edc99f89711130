//! The walk over a log store in the store's order, in bounded memory.
//!
//! The idea: the log is passed over once to learn the digests of all keys, 24 bytes for each entry, which are
//! sorted. Then the contents are fetched a range of digests at a time, each in one pass over the log: reads
//! go forward, and neighbours are read together.
//!
//! Source: ours. SILT writes a hash store's entries to where they belong one by one, through the system's
//! page cache.

use super::read::{MOST_GUESSED_BYTES, damaged};
use super::{LogStore, Piece};
use crate::cache::Reader;
use crate::codec::Decoder;
use crate::entry::{Cursor, EntryRef, Item, ItemParts, Sequence, Span};
use crate::error::Result;
use crate::memory::{Holder, Reservation};
use crate::operation::{self, CHECKED_HEAD_BYTES, Operation};
use siltstone_design::{Digest, EncodedKey, Encoder};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of entries fetched at a time by a walk that may stop soon; then twice as many each time.
const FIRST_RANGE_BYTES: usize = 64 << 10;
/// Most bytes fetched at a time: a sixteenth of the memory budget within these.
const RANGE_BYTES: Range<u64> = 256 << 10..16 << 20;
/// Entries that are no further apart in the log are read together, up to so many bytes.
const NEAR_BYTES: u64 = 16 << 10;
const STRETCH_BYTES: u64 = 1 << 20;

/// Where an entry stands in the order and in the log.
#[derive(Clone, Copy)]
struct Spot {
    digest: Digest,
    position: u32,
    length: u32,
}

/// A log store as one sequence number sees it, in order.
pub(crate) struct LogScan {
    reader: Arc<Reader>,
    encoder: Encoder,
    base: Sequence,
    /// By digest, then from the newest to the oldest.
    spots: Vec<Spot>,
    pieces: Vec<Piece>,
    guess: usize,
    most_bytes: usize,
    is_background: bool,
    _memory: Reservation,
}

impl LogStore {
    /// Puts everything that `sequence` can see in order.
    pub fn scan(&self, sequence: Sequence, reader: &Arc<Reader>, is_background: bool) -> Result<LogScan> {
        let (base, guess, pieces, mut positions) = {
            let state = self.state.read();
            let lanes = state.index.iter().flat_map(|(index, _)| index.lanes().flatten());
            let is_seen = |position: &u32| state.base + u64::from(*position) <= sequence;
            let positions: Vec<u32> = lanes.filter(is_seen).collect();
            let guess = state.longest.clamp(CHECKED_HEAD_BYTES, MOST_GUESSED_BYTES);
            (state.base, guess, state.pieces.clone(), positions)
        };
        positions.sort_unstable();
        let budget = self.budget.total_bytes();
        let most_bytes = (budget / 16).clamp(RANGE_BYTES.start, RANGE_BYTES.end);
        let held = positions.len() * size_of::<Spot>() + most_bytes as usize;
        let mut scan = LogScan {
            reader: Arc::clone(reader),
            encoder: self.encoder,
            base,
            spots: Vec::with_capacity(positions.len()),
            pieces,
            guess,
            most_bytes: most_bytes as usize,
            is_background,
            _memory: self.budget.hold(Holder::Compaction, held as u64),
        };
        let mut spots = std::mem::take(&mut scan.spots);
        scan.read(&positions, &mut |position, length, operation| {
            let digest = scan.encoder.encode(operation.key)?.digest;
            spots.push(Spot { digest, position, length: length as u32 });
            Ok(())
        })?;
        spots.sort_unstable_by_key(|spot| (spot.digest, Reverse(spot.position)));
        scan.spots = spots;
        Ok(scan)
    }
}

impl LogScan {
    /// Reads the operations at `positions`, which ascend, and hands each to `take` with its length.
    fn read(
        &self,
        positions: &[u32],
        take: &mut dyn FnMut(u32, usize, &Operation<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let mut rest = positions;
        while let Some(&first) = rest.first() {
            let start = self.base + u64::from(first);
            let after = self.pieces.partition_point(|piece| piece.segment.first_lsn <= start);
            let Some(piece) = after.checked_sub(1).and_then(|at| self.pieces.get(at)) else { return Ok(()) };
            let (mut last, mut together) = (start, 1);
            for next in rest.iter().skip(1).map(|position| self.base + u64::from(*position)) {
                if next >= piece.end || next - last > NEAR_BYTES || next - start > STRETCH_BYTES {
                    break;
                }
                (last, together) = (next, together + 1);
            }
            let (now, later) = rest.split_at(together);
            rest = later;
            let end = (last + self.guess as u64).min(piece.end);
            buffer.resize((end - start) as usize, 0);
            self.fetch(piece, start, &mut buffer)?;
            for &position in now {
                let lsn = self.base + u64::from(position);
                let bytes = buffer.get((lsn - start) as usize..).unwrap_or(&[]);
                let length = operation::checked_length(bytes).ok_or_else(|| damaged(&piece.segment, lsn))?;
                let mut own = Vec::new();
                let bytes = match bytes.get(..length) {
                    Some(bytes) => bytes,
                    None if lsn + length as u64 > piece.end => return Err(damaged(&piece.segment, lsn)),
                    None => {
                        own.resize(length, 0);
                        self.fetch(piece, lsn, &mut own)?;
                        &own
                    }
                };
                let decoded = operation::decode(&mut Decoder::new(bytes));
                take(position, length, &decoded.ok_or_else(|| damaged(&piece.segment, lsn))?)?;
            }
        }
        Ok(())
    }

    fn fetch(&self, piece: &Piece, lsn: u64, buf: &mut [u8]) -> Result<()> {
        self.reader.of_log_for_compaction(&piece.segment, piece.segment.offset(lsn), buf)
    }

    /// A walk over the newest version of each key within `span`.
    pub fn stream(self: &Arc<Self>, span: &Span) -> Result<LogCursor> {
        let next = self.spots.partition_point(|spot| spot.digest < span.first);
        let end = self.spots.partition_point(|spot| spot.digest <= span.last);
        let range_bytes = if self.is_background { self.most_bytes } else { FIRST_RANGE_BYTES };
        let mut cursor = LogCursor {
            scan: Arc::clone(self),
            next,
            end,
            range_bytes: range_bytes.min(self.most_bytes),
            range: Vec::new(),
            at: 0,
            arena: Vec::new(),
        };
        cursor.fill()?;
        Ok(cursor)
    }
}

/// An entry whose contents are in memory.
struct Fetched {
    digest: Digest,
    fingerprint: u64,
    prefix_len: usize,
    position: u32,
    key_at: usize,
    value_at: usize,
    end: usize,
    expires_at_ms: u64,
    deleted: bool,
}

/// A cursor over a log store.
pub(crate) struct LogCursor {
    scan: Arc<LogScan>,
    /// Spots that are not yet fetched.
    next: usize,
    end: usize,
    range_bytes: usize,
    range: Vec<Fetched>,
    at: usize,
    arena: Vec<u8>,
}

impl LogCursor {
    /// Fetches the next entries.
    fn fill(&mut self) -> Result<()> {
        self.range.clear();
        self.arena.clear();
        self.at = 0;
        let spots = self.scan.spots.get(self.next..self.end).unwrap_or(&[]);
        let (mut bytes, mut before) = (0, None);
        let in_range = spots.iter().take_while(|spot| {
            bytes += spot.length as usize;
            // Keys of one digest are put in order below, so they come together.
            let belongs = before.is_none_or(|before| bytes <= self.range_bytes || before == spot.digest);
            before = Some(spot.digest);
            belongs
        });
        let mut positions: Vec<u32> = in_range.map(|spot| spot.position).collect();
        self.next += positions.len();
        self.range_bytes = (self.range_bytes * 2).min(self.scan.most_bytes);
        positions.sort_unstable();
        let (range, arena) = (&mut self.range, &mut self.arena);
        self.scan.read(&positions, &mut |position, _, operation| {
            let EncodedKey { digest, fingerprint, prefix_len, .. } =
                self.scan.encoder.encode(operation.key)?;
            let key_at = arena.len();
            arena.extend_from_slice(operation.key);
            let value_at = arena.len();
            let ItemParts { value, expires_at_ms, deleted } = operation.item.unwrap_or(Item::Deleted).parts();
            arena.extend_from_slice(value);
            let end = arena.len();
            range.push(Fetched {
                digest,
                fingerprint,
                prefix_len,
                position,
                key_at,
                value_at,
                end,
                expires_at_ms,
                deleted,
            });
            Ok(())
        })?;
        let key = |fetched: &Fetched| arena.get(fetched.key_at..fetched.value_at).unwrap_or(&[]);
        range.sort_unstable_by(|a, b| {
            (a.digest, key(a)).cmp(&(b.digest, key(b))).then(b.position.cmp(&a.position))
        });
        range.dedup_by(|older, newer| older.digest == newer.digest && key(older) == key(newer));
        Ok(())
    }
}

impl Cursor for LogCursor {
    fn peek(&self) -> Option<EntryRef<'_>> {
        let fetched = self.range.get(self.at)?;
        let key = EncodedKey {
            digest: fetched.digest,
            fingerprint: fetched.fingerprint,
            key: self.arena.get(fetched.key_at..fetched.value_at)?,
            prefix_len: fetched.prefix_len,
        };
        let Fetched { expires_at_ms, deleted, .. } = *fetched;
        let value = self.arena.get(fetched.value_at..fetched.end)?;
        Some(EntryRef { key, item: ItemParts { value, expires_at_ms, deleted }.item(), older_in: 0 })
    }

    fn advance(&mut self) -> Result<Option<Digest>> {
        self.at += 1;
        if self.at >= self.range.len() {
            self.fill()?;
        }
        Ok(self.range.get(self.at).map(|fetched| fetched.digest))
    }
}
