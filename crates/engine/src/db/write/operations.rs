//! The operations of a batch, as they stand in the log, with what is needed to apply them without decoding.

use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::env::StoreId;
use crate::db::write_buffer::WriteBuffer;
use crate::entry::Item;
use crate::error::{Error, Result};
use crate::merge_operator;
use crate::operation::{self, Encoded};
use crate::value::Shared;
use siltstone_design::{Digest, EncodedKey, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest value in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// Writes that happen together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operations {
    /// The operations as they stand in the log.
    pub payload: Vec<u8>,
    /// Where each stands, with what is needed to apply it without decoding.
    pub list: Vec<Operation>,
    /// Bytes of keys and values.
    pub user_bytes: u64,
    /// Stores whose keyspaces take part; more than one is refused when written.
    pub stores: Vec<StoreId>,
    /// Whether anything is put, as opposed to deleted.
    pub has_puts: bool,
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub keyspace: u64,
    /// The schema by which it has its place: how many the keyspace had had before since the store was opened.
    pub generation: u32,
    pub kind: Kind,
    pub place: KeyPlace,
    /// Where in the payload it stands.
    pub encoded: Encoded,
    /// Whether it can be read from the log by itself.
    pub is_checked: bool,
}

/// Where a key goes: its digest, and the fingerprint that filters know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    pub digest: Digest,
    pub fingerprint: u64,
}

impl KeyPlace {
    fn of(key: &EncodedKey<'_>) -> Self {
        Self { digest: key.digest, fingerprint: key.fingerprint }
    }

    /// The place of all keys whose prefixes share the digest half `hi`.
    fn of_prefix(hi: u64) -> Self {
        Self { digest: Digest { hi, lo: 0 }, fingerprint: 0 }
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put { expires_at_ms: u64 },
    Merge,
    Delete,
    DeletePrefix,
}

impl Kind {
    fn item(self, value: &[u8]) -> Option<Item<'_>> {
        match self {
            Self::Put { expires_at_ms } => Some(Item::Put { value, expires_at_ms }),
            Self::Merge => Some(Item::Operands(value)),
            Self::Delete => Some(Item::Deleted),
            Self::DeletePrefix => None,
        }
    }
}

impl Operations {
    /// Forgets the operations and keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.list.clear();
        self.stores.clear();
        self.user_bytes = 0;
        self.has_puts = false;
    }

    /// Adds a put of `value`, which is gone from `expires_at_ms` on unless that is 0.
    pub fn put(
        &mut self,
        store: StoreId,
        keyspace: &OpenKeyspace,
        key: &[u8],
        value: &[u8],
        expires_at_ms: u64,
    ) -> Result<()> {
        check_value(value)?;
        check_expiry(keyspace, expires_at_ms)?;
        let place = place_for_write(keyspace, key)?;
        self.has_puts = true;
        self.add(store, keyspace, Kind::Put { expires_at_ms }, place, key, value);
        Ok(())
    }

    /// Adds a merge of `operand` into the value of `key`.
    pub fn merge(
        &mut self,
        store: StoreId,
        keyspace: &OpenKeyspace,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        let folder = keyspace.folder.as_ref().ok_or_else(|| {
            Error::invalid(format_args!(
                "keyspace {:?} takes no merges; create one with a merge operator",
                keyspace.name
            ))
        })?;
        check_length(operand, "operand")?;
        folder.check(operand)?;
        let place = place_for_write(keyspace, key)?;
        self.has_puts = true;
        self.add(store, keyspace, Kind::Merge, place, key, &merge_operator::operand(operand));
        Ok(())
    }

    /// Adds a deletion of `key`.
    pub fn delete(&mut self, store: StoreId, keyspace: &OpenKeyspace, key: &[u8]) -> Result<()> {
        let place = place_for_write(keyspace, key)?;
        self.add(store, keyspace, Kind::Delete, place, key, &[]);
        Ok(())
    }

    /// Adds a deletion of every key with `prefix`.
    pub fn delete_prefix(&mut self, store: StoreId, keyspace: &OpenKeyspace, prefix: &[u8]) -> Result<()> {
        keyspace.check_exists()?;
        let place = KeyPlace::of_prefix(keyspace.encode_prefix(prefix)?);
        self.add(store, keyspace, Kind::DeletePrefix, place, prefix, &[]);
        Ok(())
    }

    fn add(
        &mut self,
        store: StoreId,
        keyspace: &OpenKeyspace,
        kind: Kind,
        place: KeyPlace,
        key: &[u8],
        value: &[u8],
    ) {
        let item = kind.item(value);
        let is_checked = WriteBuffer::reads_from_log(&keyspace.design());
        let encoded = operation::encode(&mut self.payload, keyspace.id, key, item, is_checked);
        self.user_bytes += (key.len() + value.len()) as u64;
        let (keyspace, generation) = (keyspace.id, keyspace.generation());
        self.list.push(Operation { keyspace, generation, kind, place, encoded, is_checked });
        if !self.stores.contains(&store) {
            self.stores.push(store);
        }
    }

    /// Returns the same operations with places by the schemas that their keyspaces have now; none where they
    /// have these. `find` returns keyspaces by number; writes to those that are gone are left out.
    ///
    /// # Errors
    /// `BadKey` where a key does not fit the keyspace's schema, `InvalidInput` for a deleted prefix that
    /// means other keys by it.
    pub fn for_present_schemas(
        &self,
        store: StoreId,
        find: impl Fn(u64) -> Option<Arc<OpenKeyspace>>,
    ) -> Result<Option<Self>> {
        let mut keyspaces: BTreeMap<u64, Option<Arc<OpenKeyspace>>> = BTreeMap::new();
        for operation in &self.list {
            keyspaces.entry(operation.keyspace).or_insert_with(|| find(operation.keyspace));
        }
        let of = |operation: &Operation| keyspaces.get(&operation.keyspace).cloned().flatten();
        let is_present = |operation: &Operation| {
            of(operation).is_none_or(|keyspace| keyspace.generation() == operation.generation)
        };
        if self.list.iter().all(is_present) {
            return Ok(None);
        }
        let mut anew = Self::default();
        for operation in &self.list {
            let Some(keyspace) = of(operation) else { continue };
            let key = self.key(operation);
            let place = match operation.kind {
                Kind::DeletePrefix => prefix_place(&keyspace, key, operation.generation)?,
                _ => place_for_write(&keyspace, key)?,
            };
            let value = self.payload.get(operation.encoded.value.clone()).unwrap_or(&[]);
            anew.add(store, &keyspace, operation.kind, place, key, value);
        }
        anew.has_puts = self.has_puts;
        Ok(Some(anew))
    }

    /// Returns the operation's key.
    pub fn key(&self, operation: &Operation) -> &[u8] {
        self.payload.get(operation.encoded.key.clone()).unwrap_or(&[])
    }

    /// Returns the operation's value where that is so large that it is not copied.
    pub fn shared_value(self: &Arc<Self>, operation: &Operation) -> Option<Shared> {
        Shared::of(self, operation.encoded.value.clone())
    }

    /// Returns what the operation writes under its key; nothing for a deleted prefix.
    pub fn item(&self, operation: &Operation) -> Option<Item<'_>> {
        operation.kind.item(self.payload.get(operation.encoded.value.clone()).unwrap_or(&[]))
    }
}

impl AsRef<[u8]> for Operations {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

/// Refuses values that are too long.
#[inline]
pub(in crate::db) fn check_value(value: &[u8]) -> Result<()> {
    check_length(value, "value")
}

/// Refuses items that expire where they would meet merges.
#[inline]
pub(in crate::db) fn check_expiry(keyspace: &OpenKeyspace, expires_at_ms: u64) -> Result<()> {
    if expires_at_ms > 0 && keyspace.folder.is_some() {
        return Err(Error::invalid(format_args!(
            "keyspace {:?} takes merges, so its items can't expire: whether a merge came before or after the expiry \
             would be unknown; put the item without a time to live, or into another keyspace",
            keyspace.name
        )));
    }
    Ok(())
}

fn check_length(bytes: &[u8], what: &str) -> Result<()> {
    if bytes.len() > MAX_VALUE_BYTES {
        return Err(Error::invalid(format_args!(
            "the {what} has {} bytes; {what}s have at most {MAX_VALUE_BYTES} (1 GiB), split it over several keys",
            bytes.len()
        )));
    }
    Ok(())
}

fn place_for_write(keyspace: &OpenKeyspace, key: &[u8]) -> Result<KeyPlace> {
    Ok(KeyPlace::of(&keyspace.place_for_write(key)?))
}

/// Returns the place of a prefix that was deleted by an earlier schema of `keyspace`, if it means the same
/// keys now.
fn prefix_place(keyspace: &OpenKeyspace, prefix: &[u8], generation: u32) -> Result<KeyPlace> {
    let present = keyspace.encoder.schema();
    let then = keyspace.earlier_schemas.get(generation as usize).unwrap_or(present);
    // Of rules that find the end of a prefix in the prefix, it means all keys that begin with it.
    let is_plain = |schema: &Schema| schema.prefix_rule().is_some_and(|rule| rule.is_self_delimiting());
    if then.prefix_rule() != present.prefix_rule() && !(is_plain(then) && is_plain(present)) {
        return Err(Error::invalid(format_args!(
            "keyspace {:?} has got another schema since the batch was made, by which the prefix that it deletes means other \
             keys; make the batch anew",
            keyspace.name
        )));
    }
    Ok(KeyPlace::of_prefix(keyspace.encode_prefix(prefix)?))
}
