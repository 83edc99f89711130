//! How user keys become places in the store's order.
//!
//! `Point` keys are ordered by a keyed 128-bit hash of the whole key. `SemiSorted` keys (SlimDB, VLDB'17 §2) are
//! ordered by the hash of their prefix and then by their suffix, so that all items with one prefix are neighbours
//! and one scan lists them. SlimDB hashes the suffix too; `SuffixOrder::Ordered` keeps the suffix bytes instead, so
//! that a group can also be scanned in suffix order and by suffix range.
//!
//! One comparison serves every schema: `(digest.hi, digest.lo, key bytes)`. For an ordered suffix `lo` is the
//! suffix's first eight bytes, big-endian and zero-padded, which never contradicts the order of the full bytes.
//! The full key is stored and compared, so colliding hashes cost a comparison and never an answer.

use crate::digest::{Digest, HashSecret, mix64};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 65_535;

/// How the keys of a keyspace are ordered; fixed when the keyspace is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schema {
    /// Keys are looked up one by one.
    Point,
    /// Keys that share a prefix are stored together and can be scanned together.
    SemiSorted {
        /// Where the prefix ends.
        prefix: PrefixRule,
        /// How the keys of one prefix are ordered.
        suffix: SuffixOrder,
    },
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::SemiSorted { prefix, suffix } = self else { return f.write_str("point") };
        match prefix {
            PrefixRule::Fixed { bytes } => write!(f, "a prefix of {bytes} bytes")?,
            PrefixRule::Delimiter { byte, count: 1 } => {
                write!(f, "a prefix up to the first {:?}", char::from(*byte))?
            }
            PrefixRule::Delimiter { byte, count } => {
                write!(f, "a prefix up to the {:?} number {count}", char::from(*byte))?;
            }
            PrefixRule::WholeKey => f.write_str("the whole key as prefix")?,
        }
        f.write_str(match suffix {
            SuffixOrder::Hashed => ", suffixes hashed",
            SuffixOrder::Ordered => ", suffixes in order",
        })
    }
}

/// Where a semi-sorted key's prefix ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefixRule {
    /// The first `bytes` bytes; shorter keys are refused.
    Fixed {
        /// Length of the prefix in bytes.
        bytes: u16,
    },
    /// Up to and including the `count`-th `byte`; keys with fewer are refused.
    Delimiter {
        /// The delimiter.
        byte: u8,
        /// How many delimiters the prefix holds, from 1.
        count: u8,
    },
    /// The whole key; its suffix is empty.
    WholeKey,
}

/// The order of keys that share a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuffixOrder {
    /// By the suffix's hash, as in SlimDB.
    Hashed,
    /// Bytewise, so that groups can be scanned in order and by range.
    Ordered,
}

/// Why a key or prefix does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// Keys have at least one byte.
    Empty,
    /// The key has more than [`MAX_KEY_BYTES`] bytes.
    TooLong {
        /// The key's length in bytes.
        bytes: usize,
    },
    /// The key is shorter than the fixed prefix.
    ShorterThanPrefix {
        /// The key's length in bytes.
        bytes: usize,
        /// The prefix's length in bytes.
        prefix_bytes: u16,
    },
    /// The key holds too few delimiters.
    NoDelimiter {
        /// The delimiter.
        byte: u8,
        /// How many the prefix needs.
        count: u8,
    },
    /// A prefix was given that no key of this schema can have.
    NotAPrefix(&'static str),
    /// Prefix operations need a semi-sorted keyspace.
    NotSemiSorted,
    /// Suffix ranges need suffixes in byte order.
    NotOrdered,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the key is empty; keys have 1 to {MAX_KEY_BYTES} bytes"),
            Self::TooLong { bytes } => {
                write!(f, "the key has {bytes} bytes; keys have 1 to {MAX_KEY_BYTES} bytes")
            }
            Self::ShorterThanPrefix { bytes, prefix_bytes } => write!(
                f,
                "the key has {bytes} bytes, but this keyspace takes a prefix of {prefix_bytes} bytes from every key"
            ),
            Self::NoDelimiter { byte, count } => write!(
                f,
                "the key has fewer than {count} of the delimiter {:?}, which ends the prefix in this keyspace",
                char::from(*byte)
            ),
            Self::NotAPrefix(rule) => write!(f, "no key of this keyspace has that prefix: {rule}"),
            Self::NotSemiSorted => {
                f.write_str("this keyspace has the point schema; create it semi-sorted to use prefixes")
            }
            Self::NotOrdered => f.write_str(
                "this keyspace hashes its suffixes; create it with ordered suffixes to use suffix ranges",
            ),
        }
    }
}

impl std::error::Error for KeyError {}

impl Schema {
    /// The length in bytes of `key`'s prefix, or why no keyspace with this schema can hold it.
    #[inline]
    pub fn check_key(&self, key: &[u8]) -> Result<usize, KeyError> {
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(KeyError::TooLong { bytes: key.len() });
        }
        self.prefix_len(key)
    }

    /// The length in bytes of `key`'s prefix under this schema, or why the key does not fit it.
    #[inline]
    pub fn prefix_len(&self, key: &[u8]) -> Result<usize, KeyError> {
        match *self {
            Self::Point | Self::SemiSorted { prefix: PrefixRule::WholeKey, .. } => Ok(key.len()),
            Self::SemiSorted { prefix: PrefixRule::Fixed { bytes }, .. } => {
                if key.len() < usize::from(bytes) {
                    return Err(KeyError::ShorterThanPrefix { bytes: key.len(), prefix_bytes: bytes });
                }
                Ok(usize::from(bytes))
            }
            Self::SemiSorted { prefix: PrefixRule::Delimiter { byte, count }, .. } => key
                .iter()
                .enumerate()
                .filter(|&(_, &b)| b == byte)
                .nth(usize::from(count.saturating_sub(1)))
                .map(|(at, _)| at + 1)
                .ok_or(KeyError::NoDelimiter { byte, count }),
        }
    }

    /// Checks that `prefix` is a whole prefix under this schema.
    pub fn check_prefix(&self, prefix: &[u8]) -> Result<(), KeyError> {
        let Self::SemiSorted { prefix: rule, .. } = self else { return Err(KeyError::NotSemiSorted) };
        match rule {
            PrefixRule::Fixed { bytes } if prefix.len() != usize::from(*bytes) => {
                Err(KeyError::NotAPrefix("its length is not the fixed prefix length"))
            }
            PrefixRule::Delimiter { .. } if self.prefix_len(prefix) != Ok(prefix.len()) => {
                Err(KeyError::NotAPrefix("it does not end with the delimiter that ends a prefix"))
            }
            _ => Ok(()),
        }
    }

    /// Whether suffixes are kept in byte order.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Self::SemiSorted { suffix: SuffixOrder::Ordered, .. })
    }
}

/// A user key and its place in the store, computed once per operation.
#[derive(Clone, Copy, Debug)]
pub struct EncodedKey<'a> {
    /// Place in the store's order; ties are decided by the key's bytes.
    pub digest: Digest,
    /// 64 well-mixed bits, independent of the trie path, for filters and samples.
    pub fingerprint: u64,
    /// The user's key.
    pub key: &'a [u8],
    /// Length in bytes of the key's prefix.
    pub prefix_len: usize,
}

impl<'a> EncodedKey<'a> {
    /// The key's prefix; the whole key under the point schema.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        self.key.get(..self.prefix_len).unwrap_or(self.key)
    }

    /// Compares two keys of one store in the store's order.
    #[inline]
    pub fn order(&self, other: &EncodedKey<'_>) -> Ordering {
        self.digest.cmp(&other.digest).then_with(|| self.key.cmp(other.key))
    }
}

/// A schema together with the store's secret: turns user keys into [`EncodedKey`]s.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    schema: Schema,
    secret: HashSecret,
}

impl Encoder {
    /// An encoder for keyspaces of `schema` in the store with this `secret`.
    pub fn new(schema: Schema, secret: HashSecret) -> Self {
        Self { schema, secret }
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Encodes a key, or says why it does not fit.
    ///
    /// ```
    /// use siltstone_design::{Encoder, HashSecret, PrefixRule, Schema, SuffixOrder};
    ///
    /// let schema = Schema::SemiSorted { prefix: PrefixRule::Fixed { bytes: 8 }, suffix: SuffixOrder::Ordered };
    /// let encoder = Encoder::new(schema, HashSecret([7; 16]));
    /// let (a, b) = (encoder.encode(b"user0001apple").unwrap(), encoder.encode(b"user0001pear").unwrap());
    /// assert_eq!(a.digest.hi, b.digest.hi); // one group
    /// assert!(a.order(&b).is_lt());         // in suffix order
    /// assert!(encoder.encode(b"short").is_err());
    /// ```
    #[inline]
    pub fn encode<'a>(&self, key: &'a [u8]) -> Result<EncodedKey<'a>, KeyError> {
        let prefix_len = self.schema.check_key(key)?;
        let Schema::SemiSorted { suffix: order, .. } = self.schema else {
            let digest = self.secret.hash128(key);
            return Ok(EncodedKey { digest, fingerprint: digest.lo, key, prefix_len });
        };
        let hi = self.secret.hash64(key.get(..prefix_len).unwrap_or(key));
        Ok(self.place(hi, order, key, prefix_len))
    }

    /// Encodes `key`, whose first `shared` bytes are those of the key that was encoded before it, as [`Encoder::encode`]
    /// does but without hashing a prefix that both have.
    #[inline]
    pub fn encode_after<'a>(
        &self,
        key: &'a [u8],
        shared: usize,
        (before, before_prefix_len): (Digest, usize),
    ) -> Result<EncodedKey<'a>, KeyError> {
        match self.schema {
            Schema::SemiSorted { prefix, suffix } if !matches!(prefix, PrefixRule::WholeKey) => {
                if before_prefix_len > 0 && shared >= before_prefix_len && key.len() <= MAX_KEY_BYTES {
                    return Ok(self.place(before.hi, suffix, key, before_prefix_len));
                }
                self.encode(key)
            }
            _ => self.encode(key),
        }
    }

    /// A semi-sorted key's place, given the hash of its prefix.
    #[inline]
    fn place<'a>(&self, hi: u64, order: SuffixOrder, key: &'a [u8], prefix_len: usize) -> EncodedKey<'a> {
        let suffix = key.get(prefix_len..).unwrap_or(&[]);
        let suffix_hash = self.secret.hash64(suffix);
        let lo = match order {
            SuffixOrder::Hashed => suffix_hash,
            SuffixOrder::Ordered => leading_u64(suffix),
        };
        let fingerprint = mix64(hi.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ suffix_hash);
        EncodedKey { digest: Digest { hi, lo }, fingerprint, key, prefix_len }
    }

    /// The digest half that all keys with `prefix` share, or why no key can have it.
    pub fn encode_prefix(&self, prefix: &[u8]) -> Result<u64, KeyError> {
        self.schema.check_prefix(prefix)?;
        Ok(self.secret.hash64(prefix))
    }

    /// The lower digest half at which suffixes from `suffix` on begin, in an ordered keyspace.
    pub fn encode_suffix_bound(&self, suffix: &[u8]) -> Result<u64, KeyError> {
        if self.schema.is_ordered() { Ok(leading_u64(suffix)) } else { Err(KeyError::NotOrdered) }
    }
}

/// The first eight bytes as a big-endian number, zero-padded: orders like the bytes, up to ties.
#[inline]
fn leading_u64(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0u8; 8];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_be_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoder(prefix: PrefixRule, suffix: SuffixOrder) -> Encoder {
        Encoder::new(Schema::SemiSorted { prefix, suffix }, HashSecret([9; 16]))
    }

    #[test]
    fn delimiters_end_the_prefix_and_belong_to_it() {
        let e = encoder(PrefixRule::Delimiter { byte: b'/', count: 2 }, SuffixOrder::Ordered);
        assert_eq!(e.encode(b"a/b/c/d").unwrap().prefix(), b"a/b/");
        assert_eq!(e.encode(b"//").unwrap().prefix(), b"//");
        assert_eq!(e.encode(b"a/b").unwrap_err(), KeyError::NoDelimiter { byte: b'/', count: 2 });
        assert!(e.encode_prefix(b"a/b/").is_ok());
        assert!(e.encode_prefix(b"a/").is_err());
        assert!(e.encode_prefix(b"a/b/c").is_err());
    }

    #[test]
    fn bad_keys_say_what_to_do() {
        let e = encoder(PrefixRule::Fixed { bytes: 8 }, SuffixOrder::Hashed);
        assert_eq!(e.encode(b"").unwrap_err(), KeyError::Empty);
        assert_eq!(e.encode(&[0; 65_536]).unwrap_err(), KeyError::TooLong { bytes: 65_536 });
        assert!(e.encode(&[0; 65_535]).is_ok());
        assert!(e.encode(b"seven..").unwrap_err().to_string().contains("prefix of 8 bytes"));
        assert_eq!(e.encode_prefix(b"nine.....").unwrap_err().to_string().matches("prefix").count(), 2);
        assert_eq!(e.encode_suffix_bound(b"x").unwrap_err(), KeyError::NotOrdered);
        let point = Encoder::new(Schema::Point, HashSecret([0; 16]));
        assert_eq!(point.encode_prefix(b"p").unwrap_err(), KeyError::NotSemiSorted);
    }

    proptest! {
        #[test]
        fn ordered_suffixes_keep_byte_order(
            prefix in proptest::collection::vec(any::<u8>(), 4),
            a in proptest::collection::vec(0u8..3, 0..20),
            b in proptest::collection::vec(0u8..3, 0..20),
        ) {
            let e = encoder(PrefixRule::Fixed { bytes: 4 }, SuffixOrder::Ordered);
            let (ka, kb) = ([prefix.clone(), a.clone()].concat(), [prefix, b.clone()].concat());
            prop_assert_eq!(e.encode(&ka).unwrap().order(&e.encode(&kb).unwrap()), a.cmp(&b));
            prop_assert!(e.encode_suffix_bound(&a).unwrap() <= e.encode(&ka).unwrap().digest.lo);
            let (first, second) = (e.encode(&ka).unwrap(), e.encode(&kb).unwrap());
            let shared = ka.iter().zip(&kb).take_while(|(x, y)| x == y).count();
            let after = e.encode_after(&kb, shared, (first.digest, first.prefix_len)).unwrap();
            prop_assert_eq!((after.digest, after.fingerprint, after.prefix_len),
                (second.digest, second.fingerprint, second.prefix_len));
        }

        #[test]
        fn every_schema_orders_totally(keys in proptest::collection::vec(
            proptest::collection::vec(0u8..2, 4..12), 3)
        ) {
            for suffix in [SuffixOrder::Hashed, SuffixOrder::Ordered] {
                let e = encoder(PrefixRule::Fixed { bytes: 3 }, suffix);
                let k: Vec<_> = keys.iter().map(|k| e.encode(k).unwrap()).collect();
                prop_assert_eq!(k[0].order(&k[1]).is_eq(), keys[0] == keys[1]);
                prop_assert_eq!(k[0].order(&k[1]), k[1].order(&k[0]).reverse());
                if k[0].order(&k[1]).is_le() && k[1].order(&k[2]).is_le() {
                    prop_assert!(k[0].order(&k[2]).is_le());
                }
            }
        }
    }
}
