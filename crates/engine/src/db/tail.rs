//! The change feed: what was written, batch by batch, read from the log.
//!
//! A tail hands on whole batches, in the order in which they became visible, each once, and only those that
//! readers see; unless asked otherwise only those that a power cut can't take back either, so that a copy
//! never has what the store itself has lost. It costs writers nothing: nobody tells a tail of a write, it
//! looks.

use super::batch::Batch;
use super::follow::{Follower, KeepLog};
use super::keyspace::Keyspace;
use super::store::Store;
use crate::codec::Decoder;
use crate::entry::Item;
use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::rewritten;
use crate::operation;
use crate::record::{Replaced, is_batch};
use crate::stats::Stopwatch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
    log: Follower,
    /// Keyspaces by number; none where there is no such keyspace any more.
    names: BTreeMap<u64, Option<Arc<str>>>,
}

impl Tail {
    pub(super) fn new(store: Arc<Store>, from_lsn: u64) -> Result<Self> {
        let log = Follower::new(&store.env, &store.catalog, from_lsn, KeepLog::Bounded)?;
        Ok(Self { store, log, names: BTreeMap::new() })
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
        self.log.see_unsynced();
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
        self.log.position()
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

    /// Returns the next batch that is there.
    fn try_next(&mut self) -> Result<Option<TailBatch>> {
        while let Some((lsn, payload)) = self.log.next_record()? {
            let operations = match Replaced::decode(&payload) {
                Some(Replaced { keyspace }) => self.replaced(keyspace),
                None if is_batch(&payload) => self.operations(&payload)?,
                None => continue,
            };
            return Ok(Some(TailBatch { lsn, next_lsn: self.log.position(), operations }));
        }
        Ok(None)
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

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("position", &self.position()).finish_non_exhaustive()
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
