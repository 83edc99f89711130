//! How the writes of the log come into write buffers again.
//!
//! The idea: the log has writes in the order of their time, and each belongs somewhere else in the memtable,
//! in memory that the processor has not seen for long. A few thousand are gathered first and go in by the
//! order of their digests, so that neighbours find each other's memory warm. A memtable does not care: what
//! is newer is told by the sequence number. Where order matters, of operands, of deleted prefixes and in log
//! stores, what was gathered goes in before.
//!
//! Invariant: what is gathered is of one segment of the log, whose bytes are in memory.

use crate::cache::Reader;
use crate::codec::Decoder;
use crate::db::catalog::Keyspaces;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::write_buffer::{Full, Write, WriteBuffer};
use crate::entry::{Item, Sequence};
use crate::error::{Error, Result};
use crate::operation::{self, Operation};
use crate::record::HEADER_BYTES;
use crate::segment::LogSegment;
use crate::value::Shared;
use crate::wal::{Record, Replaying};
use siltstone_design::Digest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes that are gathered: with keys and values of some hundred bytes, what a processor's cache holds.
const MOST_GATHERED: usize = 4096;

/// Writes of the log on their way into the keyspaces' write buffers.
pub(super) struct IntoBuffers<'a> {
    keyspaces: BTreeMap<u64, Target<'a>>,
    gathered: Vec<Gathered>,
    /// The segment that those are of, and its bytes.
    segment: Option<(Arc<LogSegment>, Arc<Vec<u8>>)>,
    reader: &'a Reader,
}

/// A keyspace whose writes are replayed.
struct Target<'a> {
    keyspace: &'a OpenKeyspace,
    /// Segments before this one are in its tables.
    needed_from: u64,
    /// Its write buffer, as long as no other takes its place.
    buffer: WriteBuffer,
}

/// An operation of the log and where it stands.
struct Logged<'a> {
    operation: &'a Operation<'a>,
    segment: &'a Arc<LogSegment>,
    /// All bytes of the segment.
    whole: &'a Arc<Vec<u8>>,
    sequence: Sequence,
    length: usize,
}

/// A write of the segment, which is decoded once more when it goes in.
struct Gathered {
    keyspace: u64,
    place: (Digest, u64),
    sequence: Sequence,
    length: usize,
}

impl<'a> IntoBuffers<'a> {
    pub fn new(keyspaces: &'a Keyspaces, reader: &'a Reader) -> Self {
        let target = |keyspace: &'a Arc<OpenKeyspace>| Target {
            keyspace,
            needed_from: keyspace.flushed().segment,
            buffer: keyspace.view.load().active.clone(),
        };
        let keyspaces = keyspaces.values().map(|keyspace| (keyspace.id, target(keyspace))).collect();
        Self { keyspaces, gathered: Vec::new(), segment: None, reader }
    }

    fn insert_gathered(&mut self) -> Result<()> {
        let Some((segment, whole)) = &self.segment else { return Ok(()) };
        self.gathered.sort_unstable_by_key(|write| (write.keyspace, write.place.0));
        for Gathered { keyspace, place, sequence, length } in self.gathered.drain(..) {
            let from = usize::try_from(segment.offset(sequence)).unwrap_or(usize::MAX);
            let bytes = whole.get(from..).and_then(|bytes| bytes.get(..length)).unwrap_or(&[]);
            let operation = operation::decode(&mut Decoder::new(bytes)).ok_or_else(|| strange(segment))?;
            if let (Some(target), Some(item)) = (self.keyspaces.get_mut(&keyspace), operation.item) {
                let logged = Logged { operation: &operation, segment, whole, sequence, length };
                target.insert(&logged, item, place, self.reader);
            }
        }
        Ok(())
    }
}

impl Replaying for IntoBuffers<'_> {
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        let Record { segment, lsn, payload, whole } = *record;
        if self.segment.is_none() {
            self.segment = Some((Arc::clone(segment), Arc::clone(whole)));
        }
        let mut from = Decoder::new(payload);
        while !from.is_empty() {
            let at = payload.len() - from.remaining();
            let operation = operation::decode(&mut from).ok_or_else(|| strange(segment))?;
            let length = payload.len() - from.remaining() - at;
            // Writes of dropped keyspaces, and those that are in tables already, are passed over.
            let Some(target) = self.keyspaces.get_mut(&operation.keyspace) else { continue };
            if segment.number < target.needed_from {
                continue;
            }
            let sequence = lsn + (HEADER_BYTES + at) as u64;
            let waits = matches!(operation.item, Some(Item::Put { .. } | Item::Deleted));
            if waits && matches!(target.buffer, WriteBuffer::Table(_)) {
                let place = target.place(operation.key)?;
                let keyspace = operation.keyspace;
                self.gathered.push(Gathered { keyspace, place, sequence, length });
                if self.gathered.len() >= MOST_GATHERED {
                    self.insert_gathered()?;
                }
                continue;
            }
            self.insert_gathered()?;
            if let Some(target) = self.keyspaces.get_mut(&operation.keyspace) {
                let logged = Logged { operation: &operation, segment, whole, sequence, length };
                target.apply(&logged, self.reader)?;
            }
        }
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        self.insert_gathered()?;
        self.segment = None;
        Ok(())
    }
}

fn strange(segment: &LogSegment) -> Error {
    Error::corruption(&segment.path, 0, "a batch", "operations this program can't read")
}

impl Target<'_> {
    /// Digest and fingerprint of a key.
    fn place(&self, key: &[u8]) -> Result<(Digest, u64)> {
        let key = self.keyspace.encoder.encode(key)?;
        Ok((key.digest, key.fingerprint))
    }

    /// Replays one operation.
    fn apply(&mut self, logged: &Logged<'_>, reader: &Reader) -> Result<()> {
        let key = logged.operation.key;
        let Some(item) = logged.operation.item else {
            let prefix = self.keyspace.encoder.encode_prefix(key)?;
            self.buffer.delete_prefix(logged.sequence, logged.segment, prefix, key);
            return Ok(());
        };
        self.insert(logged, item, self.place(key)?, reader);
        if let Item::Operands(_) = item {
            self.buffer.settle(|_, _| false);
        }
        Ok(())
    }

    /// Lets a write go into the write buffer, or into the next one.
    fn insert(&mut self, logged: &Logged<'_>, item: Item<'_>, place: (Digest, u64), reader: &Reader) {
        let Logged { operation: &Operation { key, is_checked, .. }, segment, whole, sequence, length } =
            *logged;
        let (shared, older_in) = (Shared::part_of(whole, item.bytes()), 0);
        let write = Write { sequence, segment, length, place, key, item, shared, older_in, is_checked };
        // Nobody has seen anything yet, so that of a key's versions the newest is enough.
        if self.buffer.insert(&write, 0, reader) == Err(Full) {
            self.buffer = self.keyspace.seal_before(&write, 0, reader);
        }
    }
}
