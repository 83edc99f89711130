//! The change feed: what was written, batch by batch, read from the log.
//!
//! A tail hands on whole batches, in the order in which they became visible, each once, and only those that
//! readers see; unless asked otherwise only those that a power cut can't take back either, so that a copy
//! never has what the store itself has lost. It costs writers nothing: nobody tells a tail of a write, it
//! looks.

use super::batch::Batch;
use super::catalog::log::CommitLog;
use super::keyspace::Keyspace;
use super::store::Store;
use crate::codec::Decoder;
use crate::entry::Item;
use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::rewritten;
use crate::operation;
use crate::record::{HEADER_BYTES, LogReader, Replaced, is_batch};
use crate::stats::Stopwatch;
use crate::wal::OpenSegment;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read from the log at once.
const READ_BYTES: u64 = 256 << 10;
/// How long a tail sleeps before it looks again, at most.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// What an operation does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The key gets this value.
    Put {
        /// The value.
        value: Vec<u8>,
        /// When the item is gone, in milliseconds since the Unix epoch; none where it stays.
        expires_at_ms: Option<u64>,
    },
    /// An operand is merged into the key's value.
    Merge {
        /// The operand.
        operand: Vec<u8>,
    },
    /// The key is deleted.
    Delete,
    /// Every key that begins with the key, which is a prefix, is deleted.
    DeletePrefix,
    /// The keyspace has other contents from here on, which do not stand in the log: it was cleared
    /// ([`Keyspace::clear`](crate::Keyspace::clear)), took over those of another one
    /// ([`Db::replace`](crate::Db::replace)), or a bulk build
    /// ([`Keyspace::ingest`](crate::Keyspace::ingest)) added to them. The key is empty. A copy of the
    /// keyspace is to be made afresh; [`Batch::add`](crate::Batch::add) refuses this change. Where the store
    /// crashed just then, it may be told of what did not happen in the end.
    Replaced,
}

/// One operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailOperation {
    /// Name of the keyspace.
    pub keyspace: Arc<str>,
    /// The key, or the prefix.
    pub key: Vec<u8>,
    /// What happens to it.
    pub change: Change,
}

impl TailOperation {
    /// Makes an operation of what another process has handed on, for [`Batch::add`](crate::Batch::add).
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Batch, Change, Db, KeyspaceOptions, Options, TailOperation, WriteOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let items = db.create_keyspace("items", KeyspaceOptions::default())?;
    /// let change = Change::Put { value: b"1".to_vec(), expires_at_ms: None };
    /// let mut batch = Batch::new();
    /// batch.add(&items, &TailOperation::new("items", "a", change))?;
    /// db.write(&batch, &WriteOptions::default())?;
    /// assert_eq!(items.get("a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(keyspace: impl Into<Arc<str>>, key: impl Into<Vec<u8>>, change: Change) -> Self {
        Self { keyspace: keyspace.into(), key: key.into(), change }
    }
}

/// Operations that happened together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailBatch {
    /// Where in the log it stands.
    pub lsn: u64,
    /// Where a tail goes on that has done with this batch.
    pub next_lsn: u64,
    /// What was done, in order. Empty where all of it was in keyspaces that have been dropped since.
    pub operations: Vec<TailOperation>,
}

/// The changes of a store from one position of its log on; see [`Db::tail`](crate::Db::tail).
///
/// As an iterator it hands on what is there and ends where it has caught up; it can be asked again later.
pub struct Tail {
    store: Arc<Store>,
    position: u64,
    /// Whether a batch has been read: before that, the position is only what somebody gave.
    has_begun: bool,
    is_unsynced: bool,
    /// Keyspaces by number; none where there is no such keyspace any more.
    names: BTreeMap<u64, Option<Arc<str>>>,
    segment: Option<OpenSegment>,
    /// Bytes of the log from `buffer_lsn` on.
    buffer: Vec<u8>,
    buffer_lsn: u64,
    pin: u64,
}

impl Tail {
    pub(super) fn new(store: Arc<Store>, from_lsn: u64) -> Result<Self> {
        // Pinned first, so that nothing is given up between looking and reading.
        let pin = store.catalog.log.pin(from_lsn);
        let mut tail = Self {
            store,
            position: from_lsn,
            has_begun: false,
            is_unsynced: false,
            names: BTreeMap::new(),
            segment: None,
            buffer: Vec::new(),
            buffer_lsn: 0,
            pin,
        };
        tail.find_segment()?;
        Ok(tail)
    }

    /// Hands on batches as soon as readers see them, also those that a power cut could still take back. Right
    /// for caches that end with the process, wrong for copies: after a power cut the store may write
    /// something else at the same position.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let mut tail = db.tail(db.oldest_log_position())?.unsynced();
    /// assert!(tail.next_batch(std::time::Duration::ZERO)?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn unsynced(mut self) -> Self {
        self.is_unsynced = true;
        self
    }

    /// Returns where the next batch will be looked for: what to give [`Db::tail`](crate::Db::tail) to go on
    /// here.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let mut tail = db.tail(db.oldest_log_position())?.unsynced();
    /// let before = tail.position();
    /// tail.next_batch(std::time::Duration::ZERO)?;
    /// assert!(tail.position() > before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next batch, for which it waits up to `timeout`; none where nothing has come.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let mut tail = db.tail(db.oldest_log_position())?.unsynced();
    /// let changes = tail.next_batch(std::time::Duration::ZERO)?.unwrap();
    /// assert_eq!(changes.operations[0].key, b"a");
    /// assert!(tail.next_batch(std::time::Duration::from_millis(1))?.is_none(), "nothing more in a millisecond");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `PositionGone` where the log no longer has what comes next, `InvalidInput` where no batch begins at
    /// the position that the tail was given, `Corruption` where the log is damaged, `Closed` after the store
    /// was.
    pub fn next_batch(&mut self, timeout: Duration) -> Result<Option<TailBatch>> {
        let waited = Stopwatch::start();
        let mut sleep = Duration::from_micros(200);
        loop {
            self.store.env.health.check_open()?;
            if let Some(batch) = self.try_next()? {
                return Ok(Some(batch));
            }
            let left = timeout.saturating_sub(waited.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            crate::sync::thread::sleep(sleep.min(left));
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        }
    }

    fn log(&self) -> &CommitLog {
        &self.store.catalog.log
    }

    /// Returns the next batch that is there.
    fn try_next(&mut self) -> Result<Option<TailBatch>> {
        while let Some((lsn, payload)) = self.next_record()? {
            let operations = match Replaced::decode(&payload) {
                Some(Replaced { keyspace }) => self.replaced(keyspace),
                None if is_batch(&payload) => self.operations(&payload)?,
                None => continue,
            };
            return Ok(Some(TailBatch { lsn, next_lsn: self.position, operations }));
        }
        Ok(None)
    }

    /// Finds the segment that has the position.
    fn find_segment(&mut self) -> Result<&OpenSegment> {
        let found = self.log().segment_at(self.position)?.ok_or_else(|| self.gone())?;
        if self.has_begun {
            self.log().move_pin(self.pin, Some(self.position));
        }
        self.buffer.clear();
        Ok(self.segment.insert(found))
    }

    fn gone(&self) -> Error {
        let (position, (first, end)) = (self.position, self.log().bounds());
        let what = if position > end {
            format!(
                "position {position} lies past the end of the log, which is {end}: the store has lost what was read there, or \
                 is another one; copy the store afresh and follow it from there"
            )
        } else {
            format!(
                "position {position} is no longer in the log, which begins at {first}; copy the store afresh and follow it from \
                 there; the program that writes it keeps more of the log by Options::tail_retention_bytes"
            )
        };
        Error::new(ErrorKind::PositionGone, what)
    }

    /// Returns the next record that may be handed on, and goes behind it.
    fn next_record(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let lsn = self.position;
        // Of a group of batches the sequence numbers are shown at once, and each lies behind its record's
        // start.
        if lsn >= self.store.catalog.visible() || self.log().is_withheld(lsn) {
            return Ok(None);
        }
        let is_behind = |segment: &OpenSegment| lsn < segment.shared.first_lsn || lsn >= segment.end_lsn;
        if self.segment.as_ref().is_none_or(is_behind) && is_behind(self.find_segment()?) {
            return Ok(None);
        }
        let Some(segment) = self.segment.clone() else { return Ok(None) };
        let head = self.bytes(&segment, lsn, HEADER_BYTES as u64)?;
        let length = head.get(4..8).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
        let bytes = HEADER_BYTES as u64 + u64::from(length);
        if lsn + bytes > segment.end_lsn {
            return Err(self.not_a_record(&segment));
        }
        if !self.is_unsynced && self.is_written() && lsn + bytes > self.log().synced_lsn() {
            return Ok(None);
        }
        let record = self.bytes(&segment, lsn, bytes)?;
        let read =
            LogReader::new(record, lsn, segment.epoch).next_record().map(|(_, payload)| payload.to_vec());
        let payload = read.ok_or_else(|| self.not_a_record(&segment))?;
        self.position = lsn + bytes;
        self.has_begun = true;
        Ok(Some((lsn, payload)))
    }

    /// Whether the store is open for writing, so that what is at the end of the log may not be synced.
    fn is_written(&self) -> bool {
        self.store.env.check_writable().is_ok()
    }

    fn not_a_record(&self, segment: &OpenSegment) -> Error {
        if !self.has_begun {
            let position = self.position;
            return Error::invalid(format_args!(
                "no batch begins at position {position} of the log; give a position that the store or a tail of it returned"
            ));
        }
        let offset = segment.shared.offset(self.position);
        Error::corruption(&segment.shared.path, offset, "a record of the log", "something else")
    }

    /// Returns `length` bytes of the log from `lsn` on, all of which are in `segment`.
    fn bytes(&mut self, segment: &OpenSegment, lsn: u64, length: u64) -> Result<&[u8]> {
        let end = self.buffer_lsn + self.buffer.len() as u64;
        if self.buffer.is_empty() || lsn < self.buffer_lsn || lsn + length > end {
            let available = segment.end_lsn.saturating_sub(lsn);
            let wanted = READ_BYTES.max(length).min(available);
            self.buffer.resize(wanted as usize, 0);
            self.buffer_lsn = lsn;
            let shared = &segment.shared;
            let read = shared.file.read_exact_at(&mut self.buffer, shared.offset(lsn));
            if let Err(error) = read {
                self.buffer.clear();
                return Err(Error::io(&error, "reading", &shared.path));
            }
        }
        let at = (lsn - self.buffer_lsn) as usize;
        match self.buffer.get(at..at + length as usize) {
            Some(bytes) => Ok(bytes),
            None => Err(Error::corruption(
                &segment.shared.path,
                segment.shared.offset(lsn),
                "a record",
                "the end",
            )),
        }
    }

    /// What is told of a keyspace whose contents were replaced.
    fn replaced(&mut self, number: u64) -> Vec<TailOperation> {
        let operation = |keyspace| TailOperation { keyspace, key: Vec::new(), change: Change::Replaced };
        self.name(number).map(operation).into_iter().collect()
    }

    /// Decodes a batch.
    fn operations(&mut self, payload: &[u8]) -> Result<Vec<TailOperation>> {
        let mut from = Decoder::new(payload);
        let mut operations = Vec::new();
        while !from.is_empty() {
            let Some(found) = operation::decode(&mut from) else {
                let what =
                    "the log holds an operation that this program can't read; use the program that wrote it";
                return Err(Error::new(ErrorKind::InvalidInput, what));
            };
            let Some(keyspace) = self.name(found.keyspace) else { continue };
            let change = match found.item {
                Some(Item::Put { value, expires_at_ms }) => Change::Put {
                    value: value.to_vec(),
                    expires_at_ms: Some(expires_at_ms).filter(|&expires| expires > 0),
                },
                Some(Item::Deleted) => Change::Delete,
                Some(Item::Operands(operands)) => {
                    let one = rewritten(operands).and_then(|merges| merges.operands.first().copied());
                    Change::Merge { operand: one.unwrap_or_default().to_vec() }
                }
                None => Change::DeletePrefix,
            };
            operations.push(TailOperation { keyspace, key: found.key.to_vec(), change });
        }
        Ok(operations)
    }

    /// The name of keyspace `number`.
    fn name(&mut self, number: u64) -> Option<Arc<str>> {
        if let Some(known) = self.names.get(&number) {
            return known.clone();
        }
        let all = self.store.catalog.all();
        let name = all.iter().find(|keyspace| keyspace.id == number).map(|k| Arc::from(k.name.as_str()));
        self.names.insert(number, name.clone());
        name
    }
}

impl Iterator for Tail {
    type Item = Result<TailBatch>;

    fn next(&mut self) -> Option<Result<TailBatch>> {
        self.next_batch(Duration::ZERO).transpose()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.log().move_pin(self.pin, None);
    }
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("position", &self.position).finish_non_exhaustive()
    }
}

impl Batch {
    /// Adds an operation that a [`Tail`] handed on, as it was: with the same moment of expiry.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let mut tail = db.tail(db.oldest_log_position())?.unsynced();
    /// let mut batch = siltstone::Batch::new();
    /// let copied = db.keyspace("copy", siltstone::KeyspaceOptions::default())?;
    /// for operation in &tail.next_batch(std::time::Duration::ZERO)?.unwrap().operations {
    ///     batch.add(&copied, operation)?;
    /// }
    /// db.write(&batch, &siltstone::WriteOptions::default())?;
    /// assert!(copied.contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Batch::put`], [`Batch::merge`], [`Batch::delete`] and [`Batch::delete_prefix`]; `InvalidInput`
    /// for [`Change::Replaced`], which is no operation: the keyspace is to be copied afresh.
    pub fn add(&mut self, keyspace: &Keyspace, operation: &TailOperation) -> Result<()> {
        match &operation.change {
            Change::Put { value, expires_at_ms } => {
                self.put_until(keyspace, &operation.key, value, expires_at_ms.unwrap_or(0))
            }
            Change::Merge { operand } => self.merge(keyspace, &operation.key, operand),
            Change::Delete => self.delete(keyspace, &operation.key),
            Change::DeletePrefix => self.delete_prefix(keyspace, &operation.key),
            Change::Replaced => Err(Error::invalid(format_args!(
                "the contents of keyspace {:?} were replaced by what does not stand in the log; copy the keyspace afresh, and \
                 follow it from there",
                operation.keyspace
            ))),
        }
    }
}
