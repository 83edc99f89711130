//! Batches: writes that happen together. How they stand in the log is said in `operation.rs`.

use super::Keyspace;
use super::head::Head;
use crate::entry::Item;
use crate::error::{Error, Result};
use crate::operation::{self, Encoded};
use siltstone_design::Digest;
use std::time::Duration;

/// Longest value in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// Writes to any keyspaces of one store that become visible, and survive crashes, together or not at all.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use siltstone::{Batch, Db, KeyspaceOptions, Options, WriteOptions};
///
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let (users, index) =
///     (db.create_keyspace("users", KeyspaceOptions::default())?, db.create_keyspace("index", KeyspaceOptions::default())?);
/// let mut batch = Batch::new();
/// batch.put(&users, b"u1", b"Ada")?;
/// batch.put(&index, b"Ada", b"u1")?;
/// db.write(&batch, &WriteOptions::default())?;
/// assert_eq!(index.get(b"Ada")?.as_deref(), Some(&b"u1"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The operations as they stand in the log.
    pub(super) payload: Vec<u8>,
    /// Where each stands, with what is needed to apply it without decoding.
    pub(super) operations: Vec<Operation>,
    /// Bytes of keys and values.
    pub(super) user_bytes: u64,
    /// Stores whose keyspaces take part; more than one is refused when written.
    pub(super) stores: Vec<u64>,
    /// Whether anything is put, as opposed to deleted.
    pub(super) puts: bool,
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub keyspace: u64,
    pub kind: Kind,
    pub digest: Digest,
    pub fingerprint: u64,
    /// Where in the payload it stands.
    pub encoded: Encoded,
}

impl Operation {
    /// The key's digest and fingerprint.
    pub fn place(&self) -> (Digest, u64) {
        (self.digest, self.fingerprint)
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Put { expires_at_ms: u64 },
    Delete,
    DeletePrefix,
}

impl Kind {
    fn item(self, value: &[u8]) -> Option<Item<'_>> {
        match self {
            Self::Put { expires_at_ms } => Some(Item::Put { value, expires_at_ms }),
            Self::Delete => Some(Item::Deleted),
            Self::DeletePrefix => None,
        }
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Forgets the operations and keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.operations.clear();
        self.stores.clear();
        self.user_bytes = 0;
        self.puts = false;
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidInput` where the key does not fit the keyspace's schema or the value is over 1 GiB.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_until(keyspace, key, value, 0)
    }

    /// Sets `key` to `value`, which is gone after `ttl`.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        let now = keyspace.now_ms();
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.put_until(keyspace, key, value, now.saturating_add(ttl_ms).max(1))
    }

    fn put_until(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        if value.len() > MAX_VALUE_BYTES {
            return Err(Error::invalid(format_args!(
                "the value has {} bytes; values have at most {MAX_VALUE_BYTES} (1 GiB), split it over several keys",
                value.len()
            )));
        }
        let place = keyspace.place_for_write(key)?;
        self.puts = true;
        self.add(keyspace, Kind::Put { expires_at_ms }, (place.digest, place.fingerprint), key, value);
        Ok(())
    }

    /// Removes `key`; a missing key is fine.
    ///
    /// # Errors
    /// `InvalidInput` where the key does not fit the keyspace's schema.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        let place = keyspace.place_for_write(key)?;
        self.add(keyspace, Kind::Delete, (place.digest, place.fingerprint), key, &[]);
        Ok(())
    }

    /// Removes every key with this prefix, in constant time; compaction frees the space.
    ///
    /// # Errors
    /// `InvalidInput` where the keyspace is not semi-sorted or no key of it can have this prefix.
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: &[u8]) -> Result<()> {
        keyspace.check_exists()?;
        let hi = keyspace.encoder().encode_prefix(prefix)?;
        self.add(keyspace, Kind::DeletePrefix, (Digest { hi, lo: 0 }, 0), prefix, &[]);
        Ok(())
    }

    fn add(&mut self, keyspace: &Keyspace, kind: Kind, place: (Digest, u64), key: &[u8], value: &[u8]) {
        let item = kind.item(value);
        let is_checked = Head::reads_from_log(&keyspace.inner.design);
        let encoded = operation::encode(&mut self.payload, keyspace.id(), key, item, is_checked);
        self.user_bytes += (key.len() + value.len()) as u64;
        self.operations.push(Operation {
            keyspace: keyspace.id(),
            kind,
            digest: place.0,
            fingerprint: place.1,
            encoded,
        });
        let store = keyspace.store_id();
        if !self.stores.contains(&store) {
            self.stores.push(store);
        }
    }

    /// The operation's key.
    pub(super) fn key(&self, operation: &Operation) -> &[u8] {
        self.payload.get(operation.encoded.key.clone()).unwrap_or(&[])
    }

    /// What the operation writes under its key; nothing for a deleted prefix.
    pub(super) fn item(&self, operation: &Operation) -> Option<Item<'_>> {
        operation.kind.item(self.payload.get(operation.encoded.value.clone()).unwrap_or(&[]))
    }
}
