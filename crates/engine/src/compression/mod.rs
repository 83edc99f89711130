//! What makes entries small: a codec per table, by which each part of an entry is decoded by itself.
//!
//! The idea: pages stay as they are, of 4 KiB and searched in place, and what stands in them becomes shorter.
//! What a page holds of a key is a string of codes for frequent strings ([`symbols`]), which is compared
//! with a wanted key code by code, so that a search decodes no key. A value refers to a dictionary that the
//! table keeps in memory ([`dictionary`]), so that a lookup decodes one value and no neighbours. Both are
//! learnt from the table's first entries ([`trial`]), and either is left out where it saves too little.
//!
//! Source: FSST (Boncz, Neumann and Leis, VLDB'20) and LZ4's block format. The difference to compressed
//! blocks of other engines: a lookup in the cache decodes a value instead of a block, pages of one size stay
//! where an index without offsets finds them, and what is cached is what is stored, so a cache holds more.
//!
//! ```text
//! codec   flags u8 · [symbols, with flag 1] · [dictionary, with flag 2]
//! ```
//!
//! Invariants: `from_bytes` trusts nothing, and no decoder panics or allocates more than its input may stand
//! for: eight bytes per byte of a key's part, 255 of a value.

pub(crate) mod dictionary;
pub(crate) mod symbols;
pub(crate) mod trial;

use crate::codec::Decoder;
use dictionary::Dictionary;
use siltstone_succinct::error::DecodeError;
use symbols::Symbols;

const HAS_SYMBOLS: u8 = 1;
const HAS_DICTIONARY: u8 = 2;

/// What a table's entries are decoded with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Codec {
    /// For what pages hold of keys; `None` where that is stored as it is.
    pub keys: Option<Symbols>,
    /// For values; `None` where they are stored as they are.
    pub values: Option<Dictionary>,
}

impl Codec {
    pub fn to_bytes(&self) -> Vec<u8> {
        let flags = if self.keys.is_some() { HAS_SYMBOLS } else { 0 };
        let mut out = vec![flags | if self.values.is_some() { HAS_DICTIONARY } else { 0 }];
        if let Some(symbols) = &self.keys {
            symbols.to_bytes(&mut out);
        }
        if let Some(dictionary) = &self.values {
            dictionary.to_bytes(&mut out);
        }
        out
    }

    /// The codec that one [`Codec::to_bytes`] wrote.
    ///
    /// # Errors
    /// Bytes that it can't have written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let wrong = |found: &str| DecodeError::new("codec", "symbols and a dictionary", found);
        let mut from = Decoder::new(bytes);
        let flags = from.u8().ok_or_else(|| wrong("nothing"))?;
        if flags == 0 || flags & !(HAS_SYMBOLS | HAS_DICTIONARY) != 0 {
            return Err(wrong("unknown flags"));
        }
        let read = |flag: u8| flags & flag != 0;
        let keys =
            read(HAS_SYMBOLS).then(|| Symbols::decode(&mut from).ok_or_else(|| wrong("other symbols")));
        let keys = keys.transpose()?;
        let values = read(HAS_DICTIONARY)
            .then(|| Dictionary::decode(&mut from).ok_or_else(|| wrong("no sound dictionary")));
        let values = values.transpose()?;
        if !from.is_empty() {
            return Err(wrong("bytes behind them"));
        }
        Ok(Self { keys, values })
    }
}

#[cfg(test)]
mod tests;
