//! Where the prefix of a semi-sorted key ends.
//!
//! A rule looks at a key's bytes and says how many of them are its prefix. Keys with one prefix form a group,
//! which lies together. Most rules are *self-delimiting*: what ends the prefix stands in the prefix, so that
//! two keys that begin with the same prefix bytes have the same prefix. Those that count from the end of the
//! key are not.

use crate::schema::{KeyError, MAX_KEY_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Where a semi-sorted key's prefix ends.
///
/// ```
/// use siltstone_design::PrefixRule;
///
/// // Window stores end their keys in a time and a sequence number, 8 + 4 bytes.
/// let rule = PrefixRule::AllButLast { bytes: 12 };
/// assert_eq!(rule.prefix_len(b"sensor-7\0\0\0\0\0\0\0\x2a\0\0\0\x01").unwrap(), 8);
/// // The directory of an absolute path.
/// let rule = PrefixRule::LastDelimiter { byte: b'/' };
/// assert_eq!(rule.prefix_len(b"/usr/bin/env").unwrap(), 9);
/// ```
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
    /// Up to and including the last `byte`, as the directory of a path; keys without one are refused.
    LastDelimiter {
        /// The delimiter.
        byte: u8,
    },
    /// All but the last `bytes` bytes; shorter keys are refused. The prefix of a key that has no more is
    /// empty.
    AllButLast {
        /// Length of the suffix in bytes.
        bytes: u16,
    },
    /// A length as a big-endian number of `width` bytes, and as many bytes as it says; keys that end before
    /// are refused.
    LengthPrefixed {
        /// Bytes of the length: 1, 2 or 4.
        width: u8,
    },
    /// A *route*, a big-endian number of 2 bytes below `2^bits`, and behind it what [`LengthPrefixed`]
    /// says. The route is what the place of the key begins with, so that all keys of one route lie together,
    /// from position `route << (64 - bits)` on: for stores whose keys are divided among several, as the slots
    /// of a cluster are. Keys that end before, and larger routes, are refused.
    ///
    /// [`LengthPrefixed`]: PrefixRule::LengthPrefixed
    Routed {
        /// Bits of the route, from 1 to 16.
        bits: u8,
        /// Bytes of the length: 1, 2 or 4.
        width: u8,
    },
    /// A rule of the program's own, which it gives whenever it opens the store; see [`PrefixRules`].
    Named(RuleName),
    /// The whole key; its suffix is empty.
    WholeKey,
}

/// The name of a rule of the program's own: 1 to 31 bytes of ASCII letters, digits, `-`, `_` and `.`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RuleName {
    bytes: [u8; Self::MOST_BYTES],
    length: u8,
}

impl RuleName {
    const MOST_BYTES: usize = 31;

    /// Makes a name of `text`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if text.is_empty() || text.len() > Self::MOST_BYTES || !text.bytes().all(is_fine) {
            return Err(format!(
                "{text:?} can't name a prefix rule; names have 1 to {} letters, digits, '-', '_' and '.'",
                Self::MOST_BYTES
            ));
        }
        let mut bytes = [0; Self::MOST_BYTES];
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        Ok(Self { bytes, length: text.len() as u8 })
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl TryFrom<String> for RuleName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl From<RuleName> for String {
    fn from(name: RuleName) -> Self {
        name.as_str().to_owned()
    }
}

/// Returns how many bytes of a key are its prefix; `None` where the key does not fit the rule.
///
/// It must always say the same of the same key, and must be self-delimiting: a key that begins with another's
/// prefix has that prefix.
pub type PrefixFn = fn(&[u8]) -> Option<usize>;

/// The rules of the program's own, by name.
///
/// ```
/// use siltstone_design::PrefixRules;
///
/// /// Up to the first byte that is no digit.
/// fn leading_digits(key: &[u8]) -> Option<usize> {
///     key.iter().position(|byte| !byte.is_ascii_digit()).map(|end| end + 1)
/// }
///
/// let rules = PrefixRules::default().with("leading-digits", leading_digits).unwrap();
/// assert!(rules.with("no spaces, please", leading_digits).is_err());
/// ```
#[derive(Clone, Default)]
pub struct PrefixRules(BTreeMap<RuleName, PrefixFn>);

impl PrefixRules {
    /// Adds a rule; one of the same name is replaced.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn with(mut self, name: &str, rule: PrefixFn) -> Result<Self, String> {
        self.0.insert(RuleName::new(name)?, rule);
        Ok(self)
    }

    /// Returns the rule `name`, if it was given.
    pub fn get(&self, name: RuleName) -> Option<PrefixFn> {
        self.0.get(&name).copied()
    }
}

impl fmt::Debug for PrefixRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl PrefixRule {
    /// Whether what ends a prefix stands in it, so that a key that begins with another's prefix has the same
    /// one.
    #[inline]
    pub fn is_self_delimiting(self) -> bool {
        match self {
            Self::Fixed { .. }
            | Self::Delimiter { .. }
            | Self::LengthPrefixed { .. }
            | Self::Routed { .. }
            | Self::Named(_) => true,
            Self::LastDelimiter { .. } | Self::AllButLast { .. } | Self::WholeKey => false,
        }
    }

    /// Returns the length in bytes of `key`'s prefix.
    ///
    /// # Errors
    /// Why the key does not fit the rule. What a [named](Self::Named) rule says, only who has it knows.
    #[inline]
    pub fn prefix_len(self, key: &[u8]) -> Result<usize, KeyError> {
        match self {
            Self::WholeKey => Ok(key.len()),
            Self::Fixed { bytes } => {
                if key.len() < usize::from(bytes) {
                    return Err(KeyError::ShorterThanPrefix { bytes: key.len(), prefix_bytes: bytes });
                }
                Ok(usize::from(bytes))
            }
            _ => self.searched_prefix_len(key),
        }
    }

    /// The prefix's length under rules that look at the key, apart from the path of the others.
    #[inline(never)]
    fn searched_prefix_len(self, key: &[u8]) -> Result<usize, KeyError> {
        match self {
            Self::WholeKey | Self::Fixed { .. } => self.prefix_len(key),
            Self::Delimiter { byte, count } => {
                let delimiters = key.iter().enumerate().filter(|&(_, &b)| b == byte);
                let last = delimiters.map(|(at, _)| at).nth(usize::from(count.saturating_sub(1)));
                last.map(|at| at + 1).ok_or(KeyError::NoDelimiter { byte, count })
            }
            Self::LastDelimiter { byte } => {
                let last = key.iter().rposition(|&b| b == byte);
                last.map(|at| at + 1).ok_or(KeyError::NoDelimiter { byte, count: 1 })
            }
            Self::AllButLast { bytes } => key
                .len()
                .checked_sub(usize::from(bytes))
                .ok_or(KeyError::ShorterThanSuffix { bytes: key.len(), suffix_bytes: bytes }),
            Self::LengthPrefixed { width } => {
                let end = length_prefixed_end(key, width).filter(|end| *end <= key.len());
                end.ok_or(KeyError::EndsWithinPrefix { bytes: key.len() })
            }
            Self::Routed { bits, width } => {
                let (route, rest) =
                    split_route(key).ok_or(KeyError::EndsWithinPrefix { bytes: key.len() })?;
                if u32::from(route) >> bits > 0 {
                    return Err(KeyError::RouteTooLarge { route, bits });
                }
                let end = length_prefixed_end(rest, width).filter(|end| *end <= rest.len());
                end.map(|end| end + ROUTE_BYTES).ok_or(KeyError::EndsWithinPrefix { bytes: key.len() })
            }
            Self::Named(name) => Err(KeyError::UnknownRule(name)),
        }
    }

    /// Checks that `prefix` is a whole prefix under this rule.
    ///
    /// # Errors
    /// Why no key can have it.
    pub fn check_prefix(self, prefix: &[u8]) -> Result<(), KeyError> {
        let is_whole = || self.prefix_len(prefix) == Ok(prefix.len());
        let why = match self {
            Self::Fixed { bytes } if prefix.len() != usize::from(bytes) => {
                "its length is not the fixed prefix length"
            }
            Self::Delimiter { .. } | Self::LastDelimiter { .. } if !is_whole() => {
                "it does not end with the delimiter that ends a prefix"
            }
            Self::AllButLast { bytes } if prefix.len() + usize::from(bytes) > MAX_KEY_BYTES => {
                "it leaves no room for a suffix"
            }
            Self::LengthPrefixed { .. } | Self::Routed { .. } if !is_whole() => {
                "its length is not what its first bytes say"
            }
            Self::Named(name) => return Err(KeyError::UnknownRule(name)),
            _ => return Ok(()),
        };
        Err(KeyError::NotAPrefix(why))
    }

    /// Checks that the rule can work.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(self) -> Result<(), &'static str> {
        match self {
            Self::LengthPrefixed { width } | Self::Routed { width, .. } if ![1, 2, 4].contains(&width) => {
                Err("a length takes 1, 2 or 4 bytes")
            }
            Self::Routed { bits, .. } if !(1..=16).contains(&bits) => Err("a route has 1 to 16 bits"),
            Self::Fixed { bytes: 0 } => Err("a fixed prefix has at least 1 byte"),
            Self::AllButLast { bytes: 0 } => {
                Err("a suffix has at least 1 byte; or take the whole key as prefix")
            }
            Self::Delimiter { count: 0, .. } => Err("a prefix holds at least 1 delimiter"),
            _ => Ok(()),
        }
    }
}

/// Bytes of a route as a key begins with it.
const ROUTE_BYTES: usize = 2;

/// Returns the route that a key begins with, and what follows it.
pub(crate) fn split_route(key: &[u8]) -> Option<(u16, &[u8])> {
    let (route, rest) = key.split_first_chunk()?;
    Some((u16::from_be_bytes(*route), rest))
}

/// Returns where a length of `width` bytes and the bytes that it counts end.
fn length_prefixed_end(key: &[u8], width: u8) -> Option<usize> {
    let width = usize::from(width);
    let length = key.get(..width)?.iter().fold(0usize, |length, &byte| length << 8 | usize::from(byte));
    length.checked_add(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_end_prefixes_where_they_say() {
        let cases: &[(PrefixRule, &[u8], Option<usize>)] = &[
            (PrefixRule::Fixed { bytes: 2 }, b"abc", Some(2)),
            (PrefixRule::Fixed { bytes: 2 }, b"a", None),
            (PrefixRule::Delimiter { byte: b'/', count: 2 }, b"a/b/c", Some(4)),
            (PrefixRule::Delimiter { byte: b'/', count: 2 }, b"a/b", None),
            (PrefixRule::LastDelimiter { byte: b'/' }, b"/usr/bin/env", Some(9)),
            (PrefixRule::LastDelimiter { byte: b'/' }, b"env", None),
            (PrefixRule::AllButLast { bytes: 3 }, b"abcd", Some(1)),
            (PrefixRule::AllButLast { bytes: 3 }, b"abc", Some(0)),
            (PrefixRule::AllButLast { bytes: 3 }, b"ab", None),
            (PrefixRule::LengthPrefixed { width: 1 }, b"\x02abc", Some(3)),
            (PrefixRule::LengthPrefixed { width: 2 }, b"\0\x01ab", Some(3)),
            (PrefixRule::LengthPrefixed { width: 4 }, b"\0\0\0\0", Some(4)),
            (PrefixRule::LengthPrefixed { width: 4 }, b"\xff\xff\xff\xffabc", None),
            (PrefixRule::LengthPrefixed { width: 4 }, b"\0\0", None),
            (PrefixRule::Routed { bits: 9, width: 1 }, b"\x01\xff\x02abc", Some(5)),
            (PrefixRule::Routed { bits: 9, width: 1 }, b"\x02\0\x02abc", None),
            (PrefixRule::Routed { bits: 16, width: 2 }, b"\xff\xff\0\x01a", Some(5)),
            (PrefixRule::Routed { bits: 14, width: 2 }, b"\0\0\0\x02a", None),
            (PrefixRule::Routed { bits: 14, width: 2 }, b"\0", None),
            (PrefixRule::WholeKey, b"abc", Some(3)),
        ];
        for (rule, key, expected) in cases {
            assert_eq!(rule.prefix_len(key).ok(), *expected, "{rule} of {key:?}");
            if let Some(length) = expected {
                assert_eq!(rule.check_prefix(&key[..*length]), Ok(()), "{rule}: {:?}", &key[..*length]);
            }
        }
        assert!(PrefixRule::LastDelimiter { byte: b'/' }.check_prefix(b"/usr").is_err());
        assert!(PrefixRule::LengthPrefixed { width: 1 }.check_prefix(b"\x02abc").is_err());
        assert!(PrefixRule::LengthPrefixed { width: 3 }.check().is_err());
        assert!(PrefixRule::AllButLast { bytes: 0 }.check().is_err());
        for (bits, width) in [(0, 2), (17, 2), (14, 3)] {
            assert!(PrefixRule::Routed { bits, width }.check().is_err());
        }
    }

    #[test]
    fn names_survive_the_manifest() {
        let rule = PrefixRule::Named(RuleName::new("tenant.v2").unwrap());
        let json = serde_json::to_string(&rule).unwrap();
        assert_eq!(json, r#"{"named":"tenant.v2"}"#);
        assert_eq!(serde_json::from_str::<PrefixRule>(&json).unwrap(), rule);
        assert!(serde_json::from_str::<PrefixRule>(r#"{"named":"two words"}"#).is_err());
        assert!(RuleName::new(&"x".repeat(32)).is_err() && RuleName::new("").is_err());
    }

    proptest! {
        #[test]
        fn self_delimiting_rules_are(
            key in proptest::collection::vec(0u8..4, 1..12),
            tail in proptest::collection::vec(0u8..4, 0..6),
        ) {
            for rule in [
                PrefixRule::Fixed { bytes: 3 },
                PrefixRule::Delimiter { byte: 1, count: 2 },
                PrefixRule::LengthPrefixed { width: 1 },
                PrefixRule::LengthPrefixed { width: 2 },
                PrefixRule::Routed { bits: 10, width: 1 },
            ] {
                prop_assert!(rule.is_self_delimiting());
                let Ok(length) = rule.prefix_len(&key) else { continue };
                let other = [&key[..length], &tail[..]].concat();
                prop_assert_eq!(rule.prefix_len(&other), Ok(length));
            }
        }
    }
}
