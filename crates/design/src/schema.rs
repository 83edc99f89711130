//! How user keys become places in the store's order.
//!
//! `Point` keys are ordered by a keyed 128-bit hash of the whole key. `SemiSorted` keys (SlimDB, VLDB'17 §2)
//! are ordered by the hash of their prefix and then by their suffix, so that all items with one prefix are
//! neighbours and one scan lists them. SlimDB hashes the suffix too; `SuffixOrder::Ordered` keeps the suffix
//! bytes instead, so that a group can also be scanned in suffix order and by suffix range.
//!
//! One comparison serves every schema: `(digest.hi, digest.lo, key bytes)`. For an ordered suffix `lo` is the
//! suffix's first eight bytes, big-endian and zero-padded, which never contradicts the order of the full
//! bytes. The full key is stored and compared, so colliding hashes cost a comparison and never an answer.

use crate::digest::{Digest, HashSecret, mix64};
use crate::prefix::{PrefixFn, PrefixRule, PrefixRules, RuleName, split_route};
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
    /// The key is shorter than the suffix that is cut off it.
    ShorterThanSuffix {
        /// The key's length in bytes.
        bytes: usize,
        /// The suffix's length in bytes.
        suffix_bytes: u16,
    },
    /// The key ends before its prefix does, by the length that it begins with.
    EndsWithinPrefix {
        /// The key's length in bytes.
        bytes: usize,
    },
    /// The key begins with a route that is larger than the keyspace has.
    RouteTooLarge {
        /// The route.
        route: u16,
        /// Bits that routes have.
        bits: u8,
    },
    /// A rule of the program's own finds no prefix in the key.
    RefusedByRule(RuleName),
    /// The program has not given the rule of this name.
    UnknownRule(RuleName),
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
            Self::ShorterThanSuffix { bytes, suffix_bytes } => write!(
                f,
                "the key has {bytes} bytes, but this keyspace takes a suffix of {suffix_bytes} bytes off every key"
            ),
            Self::EndsWithinPrefix { bytes } => write!(
                f,
                "the key has {bytes} bytes, fewer than the prefix has by the length that the key begins with"
            ),
            Self::RouteTooLarge { route, bits } => {
                write!(
                    f,
                    "the key begins with the route {route}, but routes of this keyspace have {bits} bits"
                )
            }
            Self::RefusedByRule(name) => {
                write!(f, "the prefix rule {:?} of this keyspace refuses the key", name.as_str())
            }
            Self::UnknownRule(name) => write!(
                f,
                "this keyspace has the prefix rule {:?} of the program's own; give it when the store is opened",
                name.as_str()
            ),
            Self::NotAPrefix(rule) => write!(f, "that is no whole prefix of this keyspace: {rule}"),
            Self::NotSemiSorted => {
                f.write_str("this keyspace has the point schema; create it with another one to use prefixes")
            }
            Self::NotOrdered => f.write_str(
                "this keyspace hashes its suffixes; create it with ordered suffixes to use suffix ranges",
            ),
        }
    }
}

impl std::error::Error for KeyError {}

impl Schema {
    /// Returns the schema whose prefixes end with the first `byte`, suffixes in order.
    ///
    /// ```
    /// use siltstone_design::Schema;
    ///
    /// assert_eq!(Schema::delimited(b'/'), "delim:/".parse().unwrap());
    /// ```
    pub fn delimited(byte: u8) -> Self {
        Self::ordered(PrefixRule::Delimiter { byte, count: 1 })
    }

    /// Returns the schema whose prefixes end with the last `byte`, suffixes in order: for absolute paths,
    /// which all begin with the first.
    ///
    /// ```
    /// use siltstone_design::Schema;
    ///
    /// assert_eq!(Schema::last_delimited(b'/').prefix_len(b"/usr/bin/env"), Ok(9));
    /// ```
    pub fn last_delimited(byte: u8) -> Self {
        Self::ordered(PrefixRule::LastDelimiter { byte })
    }

    /// Returns the same schema with suffixes hashed: the smallest index, and groups in no order.
    ///
    /// ```
    /// use siltstone_design::Schema;
    ///
    /// assert!(!Schema::fixed(8).hashed().is_ordered());
    /// assert_eq!(Schema::Point.hashed(), Schema::Point);
    /// ```
    #[must_use]
    pub fn hashed(self) -> Self {
        match self {
            Self::Point => Self::Point,
            Self::SemiSorted { prefix, .. } => Self::SemiSorted { prefix, suffix: SuffixOrder::Hashed },
        }
    }

    /// Returns the schema whose prefixes are the first `bytes` bytes, suffixes in order.
    ///
    /// ```
    /// assert_eq!(siltstone_design::Schema::fixed(8), "fixed:8".parse().unwrap());
    /// ```
    pub fn fixed(bytes: u16) -> Self {
        Self::ordered(PrefixRule::Fixed { bytes })
    }

    /// Returns the schema with prefixes by `prefix`, suffixes in order.
    ///
    /// ```
    /// use siltstone_design::{PrefixRule, Schema};
    ///
    /// assert_eq!(Schema::ordered(PrefixRule::AllButLast { bytes: 12 }), "suffix:12".parse().unwrap());
    /// ```
    pub fn ordered(prefix: PrefixRule) -> Self {
        Self::SemiSorted { prefix, suffix: SuffixOrder::Ordered }
    }

    /// Returns the rule that ends prefixes, if keys have any.
    #[inline]
    pub fn prefix_rule(&self) -> Option<PrefixRule> {
        match *self {
            Self::Point => None,
            Self::SemiSorted { prefix, .. } => Some(prefix),
        }
    }

    /// Returns the length in bytes of `key`'s prefix; the whole key's under the point schema. What a
    /// [named](PrefixRule::Named) rule says, only an [`Encoder`] that was given it knows.
    ///
    /// # Errors
    /// Why the key does not fit the schema.
    #[inline]
    pub fn prefix_len(&self, key: &[u8]) -> Result<usize, KeyError> {
        self.prefix_rule().map_or(Ok(key.len()), |rule| rule.prefix_len(key))
    }

    /// Returns the length in bytes of `key`'s prefix, as [`Schema::prefix_len`] does, of a key that any
    /// keyspace can hold.
    ///
    /// # Errors
    /// Why no keyspace with this schema can hold the key.
    pub fn check_key(&self, key: &[u8]) -> Result<usize, KeyError> {
        check_length(key)?;
        self.prefix_len(key)
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
    /// What a named prefix rule says.
    named: Option<PrefixFn>,
    /// Bits of the route that places begin with; 0 where they begin with none.
    route_bits: u8,
}

impl Encoder {
    /// An encoder for keyspaces of `schema` in the store with this `secret`.
    ///
    /// Keys of a schema with a [named](PrefixRule::Named) prefix rule need [`Encoder::with_rules`]; this one
    /// refuses them all.
    pub fn new(schema: Schema, secret: HashSecret) -> Self {
        let route_bits = match schema.prefix_rule() {
            Some(PrefixRule::Routed { bits, .. }) => bits.clamp(1, 16),
            _ => 0,
        };
        Self { schema, secret, named: None, route_bits }
    }

    /// Returns the same encoder for whoever gives `rules`.
    ///
    /// # Errors
    /// [`KeyError::UnknownRule`] where the schema's prefix rule is a named one that is not among them.
    pub fn with_rules(self, rules: &PrefixRules) -> Result<Self, KeyError> {
        let Some(PrefixRule::Named(name)) = self.schema.prefix_rule() else { return Ok(self) };
        let named = Some(rules.get(name).ok_or(KeyError::UnknownRule(name))?);
        Ok(Self { named, ..self })
    }

    /// Returns the length in bytes of `key`'s prefix; the whole key's under the point schema.
    ///
    /// # Errors
    /// Why the key does not fit the schema.
    #[inline]
    pub fn prefix_len(&self, key: &[u8]) -> Result<usize, KeyError> {
        match (self.schema, self.named) {
            (Schema::SemiSorted { prefix: PrefixRule::Named(name), .. }, Some(rule)) => {
                let length = rule(key).filter(|length| *length <= key.len());
                length.ok_or(KeyError::RefusedByRule(name))
            }
            (schema, _) => schema.prefix_len(key),
        }
    }

    /// Checks that `prefix` is a whole prefix under this schema.
    ///
    /// # Errors
    /// Why no key can have it.
    pub fn check_prefix(&self, prefix: &[u8]) -> Result<(), KeyError> {
        let Some(rule) = self.schema.prefix_rule() else { return Err(KeyError::NotSemiSorted) };
        match (rule, self.named) {
            (PrefixRule::Named(_), Some(_)) if self.prefix_len(prefix) == Ok(prefix.len()) => Ok(()),
            (PrefixRule::Named(_), Some(_)) => {
                Err(KeyError::NotAPrefix("the keyspace's rule ends its prefix elsewhere"))
            }
            (rule, _) => rule.check_prefix(prefix),
        }
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
        check_length(key)?;
        let prefix_len = self.prefix_len(key)?;
        let Schema::SemiSorted { suffix: order, .. } = self.schema else {
            let digest = self.secret.hash128(key);
            return Ok(EncodedKey { digest, fingerprint: digest.lo, key, prefix_len });
        };
        let hi = self.prefix_place(key.get(..prefix_len).unwrap_or(key));
        Ok(self.place(hi, order, key, prefix_len))
    }

    /// The upper digest half of keys with `prefix`: its hash, behind its route where it has one.
    #[inline]
    fn prefix_place(&self, prefix: &[u8]) -> u64 {
        let hash = self.secret.hash64(prefix);
        if self.route_bits == 0 {
            return hash;
        }
        let route = split_route(prefix).map_or(0, |(route, _)| u64::from(route));
        route << (64 - u32::from(self.route_bits)) | hash >> self.route_bits
    }

    /// Encodes `key`, whose first `shared` bytes are those of the key that was encoded before it, as
    /// [`Encoder::encode`] does but without hashing a prefix that both have.
    #[inline]
    pub fn encode_after<'a>(
        &self,
        key: &'a [u8],
        shared: usize,
        (before, before_prefix_len): (Digest, usize),
    ) -> Result<EncodedKey<'a>, KeyError> {
        match self.schema {
            Schema::SemiSorted { prefix, suffix } if prefix.is_self_delimiting() => {
                if before_prefix_len > 0 && shared >= before_prefix_len && key.len() <= MAX_KEY_BYTES {
                    return Ok(self.place(before.hi, suffix, key, before_prefix_len));
                }
                self.encode(key)
            }
            _ => self.encode(key),
        }
    }

    /// Encodes `key`, which has been encoded before with this `digest`, as [`Encoder::encode`] does but
    /// without hashing what the digest tells.
    ///
    /// ```
    /// use siltstone_design::{Encoder, HashSecret, Schema};
    ///
    /// let encoder = Encoder::new(Schema::Point, HashSecret([7; 16]));
    /// let first = encoder.encode(b"key").unwrap();
    /// let again = encoder.encode_again(b"key", first.digest).unwrap();
    /// assert_eq!((again.digest, again.fingerprint), (first.digest, first.fingerprint));
    /// ```
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    #[inline]
    pub fn encode_again<'a>(&self, key: &'a [u8], digest: Digest) -> Result<EncodedKey<'a>, KeyError> {
        let prefix_len = self.prefix_len(key)?;
        let Schema::SemiSorted { suffix: order, .. } = self.schema else {
            return Ok(EncodedKey { digest, fingerprint: digest.lo, key, prefix_len });
        };
        let suffix_hash = match order {
            SuffixOrder::Hashed => digest.lo,
            SuffixOrder::Ordered => self.secret.hash64(key.get(prefix_len..).unwrap_or(&[])),
        };
        Ok(EncodedKey { digest, fingerprint: fingerprint(digest.hi, suffix_hash), key, prefix_len })
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
        EncodedKey { digest: Digest { hi, lo }, fingerprint: fingerprint(hi, suffix_hash), key, prefix_len }
    }

    /// The digest half that all keys with `prefix` share, or why no key can have it.
    pub fn encode_prefix(&self, prefix: &[u8]) -> Result<u64, KeyError> {
        self.check_prefix(prefix)?;
        Ok(self.prefix_place(prefix))
    }

    /// The lower digest half at which suffixes from `suffix` on begin, in an ordered keyspace.
    pub fn encode_suffix_bound(&self, suffix: &[u8]) -> Result<u64, KeyError> {
        if self.schema.is_ordered() { Ok(leading_u64(suffix)) } else { Err(KeyError::NotOrdered) }
    }
}

/// What tells a semi-sorted key from others, given the hashes of its prefix and its suffix.
#[inline]
fn fingerprint(hi: u64, suffix_hash: u64) -> u64 {
    mix64(hi.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ suffix_hash)
}

/// Refuses keys that no keyspace can hold.
#[inline]
fn check_length(key: &[u8]) -> Result<(), KeyError> {
    match key.len() {
        0 => Err(KeyError::Empty),
        1..=MAX_KEY_BYTES => Ok(()),
        bytes => Err(KeyError::TooLong { bytes }),
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
mod tests;
