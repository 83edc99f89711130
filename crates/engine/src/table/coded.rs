//! Reading entries that may be compressed: a table's codec, kept in memory, and what it makes of stored
//! bytes.
//!
//! Nothing of a compressed table can be read without its codec, a few kilobytes at most. So it is kept
//! whatever the budget says, and a second copy stands at the other end of the sections.

use super::block::page::RawEntry;
use super::envelope::TableMeta;
use super::parts::{Resident, Worth, page_malformed, read_section};
use crate::cache::{Page, Probe, Reader};
use crate::compression::Codec;
use crate::compression::dictionary::Dictionary;
use crate::compression::symbols::Symbols;
use crate::entry::{Item, ItemParts};
use crate::error::{Error, ErrorKind, Result};
use crate::value::{Value, Wants};
use std::borrow::Cow;
use std::ops::Range;

/// A table's codec, once it is loaded.
#[derive(Default)]
pub(crate) struct TableCodec(Resident<Codec>);

impl TableCodec {
    /// The table with what its entries are decoded with.
    #[inline]
    pub fn coded<'a>(&'a self, meta: &'a TableMeta, reader: &Reader) -> Result<Coded<'a>> {
        let codec = if meta.compressed.is_some() { self.codec(meta, reader)? } else { None };
        Ok(Coded { meta, codec })
    }

    fn codec(&self, meta: &TableMeta, reader: &Reader) -> Result<Option<&Codec>> {
        let Some(compressed) = &meta.compressed else { return Ok(None) };
        let load = |section| self.0.load(meta, section, Worth::Needed, reader, Codec::from_bytes);
        match load(&compressed.codec) {
            Err(error) if error.kind() == ErrorKind::Corruption => load(&compressed.copy).map_err(|_| error),
            loaded => loaded,
        }
    }
}

/// The codec of a table that is read once, whichever of its copies is sound; `None` where it needs none.
pub(crate) fn read_codec(meta: &TableMeta, reader: &Reader) -> Result<Option<Codec>> {
    let Some(compressed) = &meta.compressed else { return Ok(None) };
    let read = |section| {
        let bytes = read_section(meta, section, reader)?;
        Codec::from_bytes(&bytes).map_err(|error| super::parts::damaged(meta, section.offset, &error, reader))
    };
    read(&compressed.codec).or_else(|_| read(&compressed.copy)).map(Some)
}

/// A table, and what its entries are decoded with.
#[derive(Clone, Copy)]
pub(crate) struct Coded<'a> {
    pub meta: &'a TableMeta,
    pub codec: Option<&'a Codec>,
}

impl<'a> Coded<'a> {
    /// What pages hold of keys is decoded with this.
    #[inline]
    pub fn keys(&self) -> Option<&'a Symbols> {
        self.codec.and_then(|codec| codec.keys.as_ref())
    }

    #[inline]
    fn values(&self) -> Option<&'a Dictionary> {
        self.codec.and_then(|codec| codec.values.as_ref())
    }

    /// Appends what a page holds of an entry's key to `key`; `None` where it makes no sense.
    #[inline]
    pub fn key_onto(&self, page: &[u8], entry: &RawEntry, key: &mut Vec<u8>) -> Option<()> {
        let part = page.get(entry.tail_at..entry.tail_at + entry.tail_len)?;
        match self.keys() {
            None => key.extend_from_slice(part),
            Some(symbols) => symbols.decode_onto(part, key)?,
        }
        Some(())
    }

    /// What a page holds of an entry's key.
    pub fn key<'p>(&self, page: &'p [u8], entry: &RawEntry) -> Option<Cow<'p, [u8]>> {
        let part = page.get(entry.tail_at..entry.tail_at + entry.tail_len)?;
        let Some(symbols) = self.keys() else { return Some(Cow::Borrowed(part)) };
        let mut key = Vec::with_capacity(2 * part.len());
        symbols.decode_onto(part, &mut key)?;
        Some(Cow::Owned(key))
    }

    /// The value that `stored` bytes stand for.
    pub fn value(&self, stored: Vec<u8>) -> Option<Vec<u8>> {
        let Some(dictionary) = self.values() else { return Some(stored) };
        let mut value = Vec::new();
        dictionary.decode_into(&stored, &mut value)?;
        Some(value)
    }

    /// The value that `stored` bytes stand for: as they are, or in the place of what `buffer` holds.
    #[inline]
    pub fn value_in<'b>(&self, stored: &'b [u8], buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        let Some(dictionary) = self.values() else { return Some(stored) };
        dictionary.decode_into(stored, buffer)?;
        Some(buffer)
    }

    /// Whether values are stored as they are.
    #[inline]
    pub fn has_plain_values(&self) -> bool {
        self.values().is_none()
    }

    /// Takes the value at `at` of a page in the form that is wanted; `None` where it makes no sense.
    #[inline]
    pub fn take_from(&self, wants: Wants, page: &Page, at: Range<usize>) -> Option<Value> {
        match self.values() {
            None => wants.take_from(page, at),
            Some(_) if wants.nothing() => Some(Value::Unread),
            Some(dictionary) => {
                let stored = page.get(at)?;
                wants.decode(|out| dictionary.decode_into(stored, out))
            }
        }
    }

    /// Takes a value that lies elsewhere than in a page.
    pub fn take(&self, wants: Wants, stored: &[u8]) -> Option<Value> {
        match self.values() {
            None => Some(wants.take(stored)),
            Some(_) if wants.nothing() => Some(Value::Unread),
            Some(dictionary) => wants.decode(|out| dictionary.decode_into(stored, out)),
        }
    }

    /// The same item with its value decoded, into `buffer` where it is compressed.
    pub fn item<'b>(&self, item: Item<'b>, buffer: &'b mut Vec<u8>) -> Option<Item<'b>> {
        let ItemParts { value, expires_at_ms, deleted } = item.parts();
        let value = self.value_in(value, buffer)?;
        Some(ItemParts { value, expires_at_ms, deleted }.item())
    }

    /// What to say of a page whose checksum is right and whose entries make no sense.
    pub fn malformed(&self, page: u32, probe: &Probe<'_>) -> Error {
        page_malformed(self.meta, page, probe.reader)
    }
}
