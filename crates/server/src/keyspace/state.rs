//! A key in memory, while commands work on it.

use super::collection::{Body, Collection, Group, Kind};
use super::encoding::{self, Element, Head, HeadKind, Reader};
use super::packed::Packed;
use super::recent::Item;
use super::store::Database;
use crate::failure::{Failure, Outcome, WRONG_TYPE};
use std::sync::Arc;

/// A string as it was read: behind the head of its item.
#[derive(Clone, Debug, Default)]
pub struct Text {
    bytes: Vec<u8>,
    from: usize,
}

impl Text {
    /// The string.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }

    /// The string, to be changed.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.from);
        self.from = 0;
        &mut self.bytes
    }
}

/// What a key holds.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing: there is no such key.
    #[default]
    Absent,
    /// A string.
    String(Text),
    /// A hash or a set.
    Collection(Collection),
}

/// A key: what it holds, and what the store holds of it until the unit of work is committed.
#[derive(Clone, Debug)]
pub struct KeyState {
    value: Value,
    /// When the key is gone, in milliseconds since 1970; 0 = never.
    pub expires_at: u64,
    /// Whether a command has changed it.
    pub is_changed: bool,
    pub(super) stored: Stored,
    now: u64,
}

/// What the store holds of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// Whether there is a head, expired or not.
    pub has_head: bool,
    /// Whether the key was there when the unit of work began.
    pub is_live: bool,
    /// Its expiry.
    pub expires_at: u64,
    /// The soonest expiry of one of its elements.
    pub soonest: u64,
    /// Whether it has items besides the head.
    pub is_large: bool,
}

impl KeyState {
    /// Reads a key of which the store holds `item` as its head.
    ///
    /// # Errors
    /// Where the item is none that this server wrote.
    pub fn read(database: &Arc<Database>, key: &[u8], item: Item, now: u64) -> Outcome<Self> {
        let mut state =
            Self { value: Value::Absent, expires_at: 0, is_changed: false, stored: Stored::default(), now };
        let Item { value: Some(item), elements } = item else { return Ok(state) };
        let damaged = || Failure::new("the stored value can't be read: was it written by something else?");
        let (head, from) = Head::read(&item).ok_or_else(damaged)?;
        let (has_head, is_large) = (true, head.kind.is_large());
        state.stored = Stored { has_head, is_large, expires_at: head.expires_at, ..Stored::default() };
        if head.expires_at > 0 && head.expires_at <= now {
            return Ok(state);
        }
        state.stored.is_live = true;
        state.expires_at = head.expires_at;
        let rest = item.get(from..).unwrap_or_default();
        let kind = match head.kind {
            HeadKind::String => {
                state.value = Value::String(Text { bytes: item, from });
                return Ok(state);
            }
            HeadKind::PackedHash | HeadKind::Hash => Kind::Hash,
            HeadKind::PackedSet | HeadKind::Set => Kind::Set,
        };
        let body = if is_large {
            let mut reader = Reader { bytes: rest };
            let (count, soonest) = reader.u64().zip(reader.u64()).ok_or_else(damaged)?;
            Body::Group(Box::new(Group::stored(database, key, elements, count, soonest)))
        } else {
            Body::Packed(Packed::read(rest).ok_or_else(damaged)?)
        };
        let mut collection = Collection { kind, body, is_table: head.is_table };
        state.stored.soonest = collection.soonest();
        let was_purged = collection.purge(now)?;
        if collection.is_empty() {
            state.expires_at = 0;
        } else {
            state.value = Value::Collection(collection);
        }
        state.is_changed = was_purged;
        Ok(state)
    }

    /// Writes the item that the key's head is to be into `item`; whether there is one, as there is not where
    /// the key is gone.
    pub(super) fn head_item(&self, item: &mut Vec<u8>) -> bool {
        item.clear();
        let (kind, is_table) = match &self.value {
            Value::Absent => return false,
            _ if self.expires_at > 0 && self.expires_at <= self.now => return false,
            Value::String(_) => (HeadKind::String, false),
            Value::Collection(Collection { kind, body, is_table }) => {
                let kind = match (kind, body) {
                    (Kind::Hash, Body::Packed(_)) => HeadKind::PackedHash,
                    (Kind::Set, Body::Packed(_)) => HeadKind::PackedSet,
                    (Kind::Hash, Body::Group(_)) => HeadKind::Hash,
                    (Kind::Set, Body::Group(_)) => HeadKind::Set,
                };
                (kind, *is_table)
            }
        };
        Head { kind, expires_at: self.expires_at, is_table }.write(item);
        match &self.value {
            Value::Absent => {}
            Value::String(text) => item.extend_from_slice(text.as_bytes()),
            Value::Collection(collection) => match &collection.body {
                Body::Packed(packed) => packed.write(item),
                Body::Group(group) => {
                    item.extend_from_slice(&group.count.to_le_bytes());
                    item.extend_from_slice(&group.soonest.to_le_bytes());
                }
            },
        }
        true
    }

    /// The elements that are items of their own.
    pub(super) fn group(&self) -> Option<&Group> {
        match &self.value {
            Value::Collection(Collection { body: Body::Group(group), .. }) => Some(group),
            _ => None,
        }
    }

    /// Milliseconds since 1970, the same throughout a unit of work.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether there is such a key.
    pub fn is_live(&self) -> bool {
        !matches!(self.value, Value::Absent)
    }

    /// What it holds.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The name of its type, as `TYPE` says it.
    pub fn type_name(&self) -> &'static str {
        match &self.value {
            Value::Absent => "none",
            Value::String(_) => "string",
            Value::Collection(collection) => match collection.kind {
                Kind::Hash => "hash",
                Kind::Set => "set",
            },
        }
    }

    /// The string that it holds; `None` where there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` where it holds something else.
    pub fn string(&self) -> Outcome<Option<&[u8]>> {
        match &self.value {
            Value::Absent => Ok(None),
            Value::String(text) => Ok(Some(text.as_bytes())),
            Value::Collection(_) => Err(WRONG_TYPE),
        }
    }

    /// The string that it holds, to be changed; an empty one is made where there is none.
    ///
    /// # Errors
    /// As [`KeyState::string`].
    pub fn string_mut(&mut self) -> Outcome<&mut Vec<u8>> {
        if !self.is_live() {
            self.value = Value::String(Text::default());
            self.expires_at = 0;
        }
        self.is_changed = true;
        match &mut self.value {
            Value::String(text) => Ok(text.to_mut()),
            _ => Err(WRONG_TYPE),
        }
    }

    /// Makes it a string, whatever it was, with the expiry that it has.
    pub fn set_string(&mut self, bytes: Vec<u8>) {
        self.value = Value::String(Text { bytes, from: 0 });
        self.is_changed = true;
    }

    /// The collection that it holds; `None` where there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` where it holds something else.
    pub fn collection(&mut self, wanted: Kind) -> Outcome<Option<&mut Collection>> {
        match &mut self.value {
            Value::Absent => Ok(None),
            Value::Collection(collection) if collection.kind == wanted => Ok(Some(collection)),
            _ => Err(WRONG_TYPE),
        }
    }

    /// The collection that it holds; an empty one is made where there is none. Call
    /// [`KeyState::settle`] when it has been changed.
    ///
    /// # Errors
    /// As [`KeyState::collection`].
    pub fn collection_mut(&mut self, wanted: Kind) -> Outcome<&mut Collection> {
        if !self.is_live() {
            self.value = Value::Collection(Collection::new(wanted));
            self.expires_at = 0;
        }
        match &mut self.value {
            Value::Collection(collection) if collection.kind == wanted => Ok(collection),
            _ => Err(WRONG_TYPE),
        }
    }

    /// The collection that it holds, of whichever kind, if it holds one.
    pub(super) fn any_collection(&mut self) -> Option<&mut Collection> {
        match &mut self.value {
            Value::Collection(collection) => Some(collection),
            _ => None,
        }
    }

    /// Makes it a collection, whatever it was, that does not expire.
    pub fn set_collection(&mut self, collection: Collection) {
        self.value = Value::Collection(collection);
        self.expires_at = 0;
        self.is_changed = true;
    }

    /// Sees to it that an empty collection is gone, and that one that has grown too large for one item is
    /// no longer in one.
    pub fn settle(&mut self, database: &Arc<Database>, key: &[u8], limits: &PackLimits) {
        let Value::Collection(collection) = &mut self.value else { return };
        if collection.is_empty() {
            self.remove();
            return;
        }
        let Body::Packed(packed) = &collection.body else { return };
        if !collection.is_table {
            collection.is_table = !limits.is_compact(collection.kind, packed);
        }
        if packed.bytes() > limits.packed_bytes || packed.len() > limits.packed_elements {
            collection.unpack(database, key);
        }
    }

    /// Deletes it.
    pub fn remove(&mut self) {
        self.is_changed |= self.is_live();
        self.value = Value::Absent;
        self.expires_at = 0;
    }

    /// Lets the store forget a large collection that has expired, of which it still has items.
    pub fn clear_expired(&mut self) {
        self.is_changed |= self.stored.has_head && !self.stored.is_live && self.stored.is_large;
    }

    /// Gives it, which is `key`, what `from` holds, which is left as it is.
    ///
    /// # Errors
    /// Those of reading a large collection.
    pub fn copy_from(&mut self, from: &Self, database: &Arc<Database>, key: &[u8]) -> Outcome {
        self.value = match &from.value {
            Value::Collection(collection) if matches!(collection.body, Body::Group(_)) => {
                let mut copy = Collection::new(collection.kind);
                copy.is_table = collection.is_table;
                copy.unpack(database, key);
                let mut failed = None;
                collection.each(|name, element| failed = copy.put(name, element).err().or(failed.take()))?;
                if let Some(failure) = failed {
                    return Err(failure);
                }
                Value::Collection(copy)
            }
            other => other.clone(),
        };
        self.expires_at = from.expires_at;
        self.is_changed = true;
        Ok(())
    }

    /// Sets an element of a collection; whether it is new.
    ///
    /// # Errors
    /// `WRONGTYPE` where it holds something else; those of reading.
    pub fn put(&mut self, kind: Kind, name: &[u8], element: Element<'_>) -> Outcome<bool> {
        self.is_changed = true;
        self.collection_mut(kind)?.put(name, element)
    }

    /// The name of its encoding, as `OBJECT ENCODING` says it.
    pub fn encoding(&self) -> &'static str {
        match &self.value {
            Value::Absent => "",
            Value::String(text) => {
                let bytes = text.as_bytes();
                match crate::number::integer(bytes) {
                    Some(_) => "int",
                    None if bytes.len() <= 44 => "embstr",
                    None => "raw",
                }
            }
            Value::Collection(Collection { is_table: true, .. }) => "hashtable",
            Value::Collection(collection) => match (collection.kind, &collection.body) {
                (_, Body::Group(_)) => "hashtable",
                (Kind::Hash, Body::Packed(_)) => "listpack",
                (Kind::Set, Body::Packed(_)) => "intset",
            },
        }
    }
}

/// How large a collection may grow in one item, and what Redis calls compact.
#[derive(Clone, Copy, Debug)]
pub struct PackLimits {
    /// Most fields of a hash that Redis would keep as a listpack.
    pub hash_entries: usize,
    /// Most bytes of a field or value in one.
    pub hash_value_bytes: usize,
    /// Most members of a set that Redis would keep as an intset.
    pub intset_entries: usize,
    /// Most bytes of a collection that is one item here.
    pub packed_bytes: usize,
    /// Most elements of one.
    pub packed_elements: usize,
}

impl PackLimits {
    fn is_compact(&self, kind: Kind, packed: &Packed) -> bool {
        match kind {
            Kind::Hash => {
                packed.len() <= self.hash_entries
                    && packed.entries().all(|(_, name, element)| {
                        name.len().max(element.value.len()) <= self.hash_value_bytes
                    })
            }
            Kind::Set => {
                packed.len() <= self.intset_entries
                    && packed.entries().all(|(_, name, _)| crate::number::integer(name).is_some())
            }
        }
    }
}

/// Checks the length of a key.
///
/// # Errors
/// Where it is too long to be stored.
pub fn check_key(key: &[u8]) -> Outcome {
    if key.len() > encoding::MAX_KEY_BYTES {
        let most = encoding::MAX_KEY_BYTES;
        return Err(Failure::new(format!(
            "the key has {} bytes; this server keeps keys up to {most}",
            key.len()
        )));
    }
    Ok(())
}
