//! What was written since the copy's moment is brought to the copy.
//!
//! The idea: the log says which keys were touched, and what these have is read from the keyspace at a later
//! moment. So the copy goes from one moment to the next as a whole, whatever was written in between: merges
//! come as values, and a deleted prefix touches the keys that the group had at the moment before.

use super::Copier;
use super::walk::{Held, LiveItem, each_live};
use super::work::{Caught, Next, Work};
use crate::codec::Decoder;
use crate::db::read::{Found, Moment};
use crate::db::write_buffer::Write;
use crate::entry::{Item, Span};
use crate::error::{Error, Result};
use crate::events::Reason;
use crate::operation;
use crate::record::{Replaced, is_batch};
use crate::segment::LogSegment;
use crate::sync::MutexGuard;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys that are looked up at the same time.
const LOOKED_UP_AT_ONCE: usize = 64;

/// Keys that were touched, on their way into the copy.
struct Touched<'a> {
    copier: &'a Copier,
    /// The lock on flushes, where the caller holds it.
    flushing: Option<&'a MutexGuard<'a, ()>>,
    next: &'a Held,
    keys: BTreeSet<Vec<u8>>,
    bytes: usize,
    most_bytes: usize,
}

impl Copier {
    /// Brings the copy to the next moment. `flushing` is the lock on flushes, where the caller holds it.
    pub(super) fn catch_up(
        &self,
        work: &mut Work,
        next: Next,
        flushing: Option<&MutexGuard<'_, ()>>,
    ) -> Result<Caught> {
        let most_bytes = self.env.memory().chunk_bytes();
        let (keys, bytes) = Default::default();
        let mut touched = Touched { copier: self, flushing, next: &next.held, keys, bytes, most_bytes };
        while work.log.position() < next.end {
            let Some((_, payload)) = work.log.next_record()? else { break };
            if let Some(Replaced { keyspace }) = Replaced::decode(&payload) {
                if keyspace == work.old.id {
                    return Ok(Caught::Lost);
                }
            } else if is_batch(&payload) {
                touched.note_batch(work, &payload)?;
            }
            work.check_wanted()?;
            work.change.note_remaining(next.end.saturating_sub(work.log.position()));
        }
        touched.bring(work)?;
        if work.log.position() < next.end.min(next.held.1.sequence) {
            // Batches lie before what the moment sees.
            return Err(Error::invalid("the log could not be followed as far as the keyspace is written"));
        }
        self.flush(work, flushing)?;
        (work.reached, work.position) = (Arc::new(next.held), next.end);
        work.rounds += 1;
        Ok(Caught::Up)
    }

    /// Makes tables of what was written to the copy.
    fn flush(&self, work: &Work, flushing: Option<&MutexGuard<'_, ()>>) -> Result<()> {
        {
            // Whoever merges the copy shows what comes of it meanwhile.
            let _views = self.catalog.lock_views();
            work.copy.seal_with(work.copy.new_memtable(0, self.env.memory()), Reason::Requested);
        }
        match flushing {
            Some(flushing) => self.scheduler.flush_copy(&work.copy, flushing),
            None => {
                let flushed = self.scheduler.flush_copy(&work.copy, &self.scheduler.lock_flushes());
                // A merge may be due.
                self.env.signals.wake();
                flushed
            }
        }
    }

    /// Writes what `key` has to the copy.
    fn write(&self, work: &mut Work, segment: &Arc<LogSegment>, key: &[u8], found: &Found) -> Result<()> {
        let place = match work.copy.encode(key) {
            Ok(place) => (place.digest, place.fingerprint),
            // It can't be there.
            Err(_) if found.value.is_none() => return Ok(()),
            Err(error) => return Err(work.misfit(key, error)),
        };
        let item = found.value.as_ref().map_or(Item::Deleted, |value| Item::Put {
            value: value.bytes(),
            expires_at_ms: found.expires_at_ms,
        });
        work.sequence += 1;
        let (sequence, length, shared, older_in, is_checked) = (work.sequence, 0, None, 0, false);
        let write = Write { sequence, segment, length, place, key, item, shared, older_in, is_checked };
        let written = work.copy.view.load().active.insert(&write, 0, &self.env.reader);
        debug_assert!(written.is_ok(), "a memtable has room");
        Ok(())
    }
}

impl Touched<'_> {
    /// Notes the keys that a batch of the log touches.
    fn note_batch(&mut self, work: &mut Work, payload: &[u8]) -> Result<()> {
        let mut from = Decoder::new(payload);
        while !from.is_empty() {
            let Some(found) = operation::decode(&mut from) else {
                return Err(Error::invalid("the log holds an operation that this program can't read"));
            };
            if found.keyspace != work.old.id {
                continue;
            }
            if found.item.is_some() {
                self.note(found.key);
            } else {
                self.note_group(work, found.key)?;
            }
            self.bring_if_many(work)?;
        }
        Ok(())
    }

    fn note(&mut self, key: &[u8]) {
        if self.keys.insert(key.to_vec()) {
            self.bytes += key.len() + size_of::<Vec<u8>>();
        }
    }

    /// Notes the keys that the group of `prefix` had; those that came to it since are noted as they come.
    fn note_group(&mut self, work: &mut Work, prefix: &[u8]) -> Result<()> {
        let (old, reached, reader) =
            (Arc::clone(&work.old), Arc::clone(&work.reached), &self.copier.env.reader);
        let hi = old.encode_prefix(prefix)?;
        each_live(&reached, Span::of_hi(hi, hi), reader, |LiveItem { key, .. }| {
            if old.encode(key)?.prefix() != prefix {
                return Ok(());
            }
            self.note(key);
            // A group may be larger than memory.
            self.bring_if_many(work)
        })
    }

    fn bring_if_many(&mut self, work: &mut Work) -> Result<()> {
        if self.bytes >= self.most_bytes { self.bring(work) } else { Ok(()) }
    }

    /// Brings what the keys have at the next moment to the copy.
    fn bring(&mut self, work: &mut Work) -> Result<()> {
        let keys: Vec<Vec<u8>> = std::mem::take(&mut self.keys).into_iter().collect();
        self.bytes = 0;
        let Some(segment) = work.log.segment().cloned() else { return Ok(()) };
        for keys in keys.chunks(LOOKED_UP_AT_ONCE) {
            work.check_wanted()?;
            let at = Moment::of(self.next);
            let encoded = keys.iter().map(|key| at.keyspace.encode(key)).collect::<Result<Vec<_>>>()?;
            let mut written = Ok(());
            self.copier.searcher.find_uncounted(at, &encoded, |number, found| {
                if let (Ok(()), Some(key)) = (&written, keys.get(number)) {
                    written = self.copier.write(work, &segment, key, &found);
                }
            })?;
            written?;
            if work.copy.view.load().active.fill(&work.change.design) >= 1.0 {
                self.copier.flush(work, self.flushing)?;
            }
        }
        Ok(())
    }
}
