//! One operation read from the log.
//!
//! Most operations of a store are about as long as its longest, so that many bytes are read at once, up to
//! [`MOST_GUESSED_BYTES`]; a longer one takes a second read for its rest.

use super::LogStore;
use crate::cache::{Pause, Probe};
use crate::codec::Decoder;
use crate::entry::{Answer, Sequence};
use crate::error::{Error, Result};
use crate::operation::{self, CHECKED_HEAD_BYTES, Operation};
use crate::segment::LogSegment;
use siltstone_design::EncodedKey;
use std::sync::Arc;

/// Most bytes read before it is known how long an operation is.
pub(super) const MOST_GUESSED_BYTES: usize = 16 << 10;

/// Where an operation stands.
pub(super) struct Place {
    pub sequence: Sequence,
    pub segment: Arc<LogSegment>,
    /// LSN before which it ends.
    pub end: u64,
}

/// What the index says of a key.
#[derive(Default)]
pub(super) struct Candidates {
    /// Operations that may be its, newest first.
    pub places: Vec<Place>,
    /// The oldest of those that may be its and are too new to be asked for.
    pub newer: Option<Sequence>,
    /// Bytes to read of each.
    pub guess: usize,
}

/// The error of an operation at `lsn` that makes no sense.
pub(super) fn damaged(segment: &LogSegment, lsn: u64) -> Error {
    let offset = segment.offset(lsn);
    Error::corruption(&segment.path, offset, "an operation with its checksum", "other bytes")
}

impl Place {
    /// Reads the operation's bytes, beginning with `guess` of them.
    pub fn read(&self, guess: usize, probe: &mut Probe<'_>) -> Result<Vec<u8>, Pause> {
        let (offset, most) = (self.segment.offset(self.sequence), (self.end - self.sequence) as usize);
        let mut bytes = probe.log(&self.segment, offset, guess.min(most))?;
        let length = operation::checked_length(&bytes).filter(|length| *length <= most);
        let length = length.ok_or_else(|| damaged(&self.segment, self.sequence))?;
        if let Some(missing) = length.checked_sub(bytes.len()).filter(|missing| *missing > 0) {
            let rest = probe.log(&self.segment, offset + bytes.len() as u64, missing)?;
            bytes.extend_from_slice(&rest);
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// The operation that was read, if it is sound.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Operation<'a>> {
        operation::decode(&mut Decoder::new(bytes)).ok_or_else(|| damaged(&self.segment, self.sequence))
    }
}

impl LogStore {
    /// The operations up to `sequence` that may be of a key with this fingerprint.
    pub(super) fn candidates(&self, fingerprint: u64, sequence: Sequence) -> Candidates {
        let state = self.state.read();
        let Some((index, _)) = &state.index else { return Candidates::default() };
        let guess = state.longest.clamp(CHECKED_HEAD_BYTES, MOST_GUESSED_BYTES);
        let mut found = Candidates { guess, ..Candidates::default() };
        for &number in index.candidates(fingerprint).iter() {
            let candidate = state.base + u64::from(number);
            if candidate > sequence {
                found.newer = Some(found.newer.map_or(candidate, |newer| newer.min(candidate)));
                continue;
            }
            let after = state.pieces.partition_point(|piece| piece.segment.first_lsn <= candidate);
            if let Some(piece) = after.checked_sub(1).and_then(|at| state.pieces.get(at)) {
                let (segment, end) = (Arc::clone(&piece.segment), piece.end);
                found.places.push(Place { sequence: candidate, segment, end });
            }
        }
        found.places.sort_unstable_by_key(|place| std::cmp::Reverse(place.sequence));
        found
    }

    /// The newest version of `key` that `sequence` can see. `newer` becomes the sequence number of the oldest
    /// that may be the key's and that it can't see: a get whose `sequence` is not held for it has to look
    /// again once that is visible, since the version it should have seen may be gone. Of several it is the
    /// oldest that took its place; others may not be visible yet.
    pub fn get(
        &self,
        key: &EncodedKey<'_>,
        sequence: Sequence,
        probe: &mut Probe<'_>,
        newer: &mut Option<Sequence>,
    ) -> Result<Answer, Pause> {
        let candidates = self.candidates(key.fingerprint, sequence);
        *newer = newer.iter().copied().chain(candidates.newer).min();
        let (mut answer, mut others) = (Answer::Absent, 0);
        for place in &candidates.places {
            let bytes = place.read(candidates.guess, probe)?;
            let operation = place.decode(&bytes)?;
            if operation.key == key.key {
                answer = operation.item.map_or(Answer::Deleted, |item| Answer::of(item, probe.wants));
                break;
            }
            others += 1;
        }
        // An empty store has no index to ask.
        probe.trace.filter_probes += u64::from(candidates.guess > 0);
        probe.trace.false_positives += others;
        Ok(answer)
    }
}
