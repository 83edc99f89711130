//! Operands in entries, and how they fold.
//!
//! ```text
//! operands   base u8 · [length varint · value] · (length varint · operand) at least once, the oldest first
//! base       0 whatever older entries say of the key   1 the value that follows   2 nothing
//! ```
//!
//! Operands that wait for older entries are *open*. A base stands there only where an operator failed to
//! fold: then what it failed on is kept, so that it can be read again with a better operator, or overwritten.
//!
//! Invariants: operands that meet a value, or the end, become a value, unless the operator fails; folding
//! says nothing else of the key, whatever is folded first.

use super::MergeOperator;
use crate::codec::{Decoder, put_bytes};
use crate::entry::Item;
use crate::error::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const OPEN: u8 = 0;
const VALUE: u8 = 1;
const NOTHING: u8 = 2;

/// Bytes of a key that errors show.
const SHOWN_KEY_BYTES: usize = 64;
/// Longest value that folding makes; operands of longer ones are kept apart.
const MAX_FOLDED_BYTES: usize = 1 << 30;

/// Returns one operand as it stands in an entry.
pub(crate) fn operand(operand: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(operand.len() + 6);
    out.push(OPEN);
    put_bytes(&mut out, operand);
    out
}

/// Whether operands wait for what older entries say of their key.
#[inline]
pub(crate) fn is_open(operands: &[u8]) -> bool {
    operands.first() == Some(&OPEN)
}

/// Whether bytes are one operand that waits for older entries, as merges write it.
pub(crate) fn is_one(operands: &[u8]) -> bool {
    Parts::decode(operands).is_some_and(|parts| matches!((parts.base, &*parts.operands), (Base::Open, [_])))
}

/// What folding makes of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Folded {
    Value(Vec<u8>),
    /// Operands that wait for older entries, or that the operator failed to fold.
    Operands(Vec<u8>),
}

impl Folded {
    /// Returns it as what an entry maps its key to.
    pub fn item(&self) -> Item<'_> {
        match self {
            Self::Value(value) => Item::Put { value, expires_at_ms: 0 },
            Self::Operands(operands) => Item::Operands(operands),
        }
    }
}

/// The merge operator of a keyspace at work.
pub(crate) struct Folder {
    operator: Arc<dyn MergeOperator>,
    /// The operator's name.
    pub name: String,
    keyspace: String,
}

/// What to write, in this order, for an entry's operands to come about again.
pub(crate) struct Rewritten<'a> {
    /// The value that they are for, `None` where they are for nothing; absent where they wait for older
    /// entries.
    pub base: Option<Option<&'a [u8]>>,
    /// The operands, the oldest first.
    pub operands: Vec<&'a [u8]>,
}

/// Takes the operands of an entry apart; `None` where they are malformed.
pub(crate) fn rewritten(operands: &[u8]) -> Option<Rewritten<'_>> {
    let Parts { base, operands } = Parts::decode(operands)?;
    let base = match base {
        Base::Open => None,
        Base::Value(value) => Some(Some(value)),
        Base::Nothing => Some(None),
    };
    Some(Rewritten { base, operands })
}

/// Operands taken apart.
struct Parts<'a> {
    base: Base<'a>,
    operands: Vec<&'a [u8]>,
}

#[derive(Clone, Copy)]
enum Base<'a> {
    Open,
    Value(&'a [u8]),
    Nothing,
}

impl<'a> Parts<'a> {
    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let base = match from.u8()? {
            OPEN => Base::Open,
            VALUE => Base::Value(from.bytes()?),
            NOTHING => Base::Nothing,
            _ => return None,
        };
        let mut operands = vec![from.bytes()?];
        while !from.is_empty() {
            operands.push(from.bytes()?);
        }
        Some(Self { base, operands })
    }

    fn encode(base: Base<'_>, operands: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        match base {
            Base::Open => out.push(OPEN),
            Base::Value(value) => {
                out.push(VALUE);
                put_bytes(&mut out, value);
            }
            Base::Nothing => out.push(NOTHING),
        }
        operands.iter().for_each(|operand| put_bytes(&mut out, operand.as_ref()));
        out
    }
}

impl Folder {
    pub fn new(operator: Arc<dyn MergeOperator>, name: &str, keyspace: &str) -> Self {
        Self { operator, name: name.to_owned(), keyspace: keyspace.to_owned() }
    }

    /// Checks an operand that is to be written.
    ///
    /// # Errors
    /// `InvalidInput` where it can never be applied.
    pub fn check(&self, operand: &[u8]) -> Result<()> {
        let checked = catch_unwind(AssertUnwindSafe(|| self.operator.check(operand)));
        checked.unwrap_or_else(|_| Err("the operator panicked".to_owned())).map_err(|why| {
            let Self { name, keyspace, .. } = self;
            Error::invalid(format_args!(
                "keyspace {keyspace:?} can't merge this: {why} (merge operator {name:?})"
            ))
        })
    }

    /// Folds `newer`, which are open operands, over what older entries say of the key.
    ///
    /// # Errors
    /// `Corruption` where bytes make no sense as operands.
    pub fn fold(&self, newer: &[u8], older: Item<'_>) -> Result<Folded> {
        let newer = self.decode(newer)?;
        debug_assert!(matches!(newer.base, Base::Open), "what has a base waits for nothing");
        Ok(match older {
            Item::Put { value, .. } => self.over(Base::Value(value), &newer.operands),
            Item::Deleted => self.over(Base::Nothing, &newer.operands),
            Item::Operands(older) => {
                let Parts { base, mut operands } = self.decode(older)?;
                operands.extend(newer.operands);
                match base {
                    Base::Open => Folded::Operands(Parts::encode(Base::Open, &self.joined(&operands))),
                    base => self.over(base, &operands),
                }
            }
        })
    }

    /// Folds operands where nothing older is.
    ///
    /// # Errors
    /// As [`Folder::fold`].
    pub fn close(&self, operands: &[u8]) -> Result<Folded> {
        let Parts { base, operands } = self.decode(operands)?;
        Ok(self.over(if let Base::Open = base { Base::Nothing } else { base }, &operands))
    }

    /// Returns the value that operands of `key` with nothing older make.
    ///
    /// # Errors
    /// `MergeFailed` where the operator does.
    pub fn value(&self, key: &[u8], operands: &[u8]) -> Result<Vec<u8>> {
        let Parts { base, operands } = self.decode(operands)?;
        self.applied(base, &operands).map_err(|why| {
            let Self { name, keyspace, .. } = self;
            let shown = String::from_utf8_lossy(key.get(..SHOWN_KEY_BYTES).unwrap_or(key)).into_owned();
            let what = format!(
                "the value of key {shown:?} of keyspace {keyspace:?} can't be made: the merge operator {name:?} failed: {why}; \
                 the old value and the operands are kept, put or delete the key to replace them"
            );
            Error::new(ErrorKind::MergeFailed, what)
        })
    }

    fn decode<'a>(&self, operands: &'a [u8]) -> Result<Parts<'a>> {
        Parts::decode(operands).ok_or_else(|| {
            let what = format!("an entry of keyspace {:?} holds operands that make no sense", self.keyspace);
            Error::new(ErrorKind::Corruption, what)
        })
    }

    fn over(&self, base: Base<'_>, operands: &[&[u8]]) -> Folded {
        match self.applied(base, operands) {
            Ok(value) => Folded::Value(value),
            Err(_) => Folded::Operands(Parts::encode(base, operands)),
        }
    }

    fn applied(&self, base: Base<'_>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let old = if let Base::Value(value) = base { Some(value) } else { None };
        let mut value: Option<Vec<u8>> = None;
        for operand in operands {
            let now = value.as_deref().or(old);
            let applied = catch_unwind(AssertUnwindSafe(|| self.operator.apply(now, operand)));
            let new = applied.unwrap_or_else(|_| Err("it panicked".to_owned()))?;
            if new.len() > MAX_FOLDED_BYTES {
                return Err(format!("the new value has {} bytes, values have at most 1 GiB", new.len()));
            }
            value = Some(new);
        }
        value.ok_or_else(|| "there are no operands".to_owned())
    }

    /// Joins operands with their neighbours where the operator does.
    fn joined(&self, operands: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut joined: Vec<Vec<u8>> = Vec::with_capacity(1);
        for operand in operands {
            let one = joined.last().and_then(|last| {
                catch_unwind(AssertUnwindSafe(|| self.operator.join(last, operand))).ok().flatten()
            });
            match (one.filter(|one| one.len() <= MAX_FOLDED_BYTES), joined.last_mut()) {
                (Some(one), Some(last)) => *last = one,
                _ => joined.push(operand.to_vec()),
            }
        }
        joined
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge_operator::MergeOperators;
    use proptest::prelude::*;

    /// Appends, fails on operands that begin with '!', and panics on those that begin with '?'.
    struct Fussy {
        joins: bool,
    }

    impl MergeOperator for Fussy {
        fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
            assert!(!operand.starts_with(b"?"));
            if operand.starts_with(b"!") {
                return Err("no".to_owned());
            }
            Ok([value.unwrap_or(b"<"), operand].concat())
        }

        fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
            let is_plain = |operand: &[u8]| !operand.starts_with(b"!") && !operand.starts_with(b"?");
            (self.joins && is_plain(older) && is_plain(newer)).then(|| [older, newer].concat())
        }
    }

    fn folder(joins: bool) -> Folder {
        let operators = MergeOperators::default().with("fussy", Fussy { joins }).unwrap();
        Folder::new(operators.get("fussy").unwrap(), "fussy", "letters")
    }

    /// An entry of one key in one run.
    #[derive(Clone, Debug)]
    enum Entry {
        Put(u8),
        Deleted,
        Operand(u8),
    }

    fn folded_of(folder: &Folder, entries: &[Entry]) -> Option<Folded> {
        // Oldest first; an entry's own form.
        entries.iter().fold(None, |older: Option<Folded>, entry| match entry {
            Entry::Put(letter) => Some(Folded::Value(vec![*letter])),
            Entry::Deleted => None,
            Entry::Operand(letter) => {
                let older = older.as_ref().map_or(Item::Deleted, Folded::item);
                Some(folder.fold(&operand(&[*letter]), older).unwrap())
            }
        })
    }

    fn entry() -> impl Strategy<Value = Entry> {
        prop_oneof![
            1 => (b'A'..b'D').prop_map(Entry::Put),
            1 => Just(Entry::Deleted),
            6 => prop_oneof![6 => b'a'..b'd', 1 => Just(b'!'), 1 => Just(b'?')].prop_map(Entry::Operand),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Cut anywhere, with each part folded by itself first: the same value, or the same failure.
        #[test]
        fn it_does_not_matter_what_is_folded_first(
            entries in proptest::collection::vec(entry(), 1..8), cut in any::<prop::sample::Index>(), joins in any::<bool>(),
        ) {
            let folder = folder(joins);
            let value = |folded: Option<Folded>| folded.map(|folded| match folded {
                Folded::Value(value) => Ok(value),
                Folded::Operands(operands) => folder.value(b"k", &operands).map_err(|error| error.kind()),
            });
            let expected = value(folded_of(&folder, &entries));
            let (older, newer) = entries.split_at(cut.index(entries.len()));
            // The newer part alone: open operands, unless a put or a deletion is in it.
            let has_base = newer.iter().any(|entry| !matches!(entry, Entry::Operand(_)));
            let found = if has_base {
                value(folded_of(&folder, newer))
            } else if newer.is_empty() {
                value(folded_of(&folder, older))
            } else {
                let letters: Vec<_> = newer.iter().map(|entry| match entry {
                    Entry::Operand(letter) => operand(&[*letter]),
                    _ => unreachable!(),
                }).collect();
                let open = letters[1..].iter().fold(letters[0].clone(), |all, next| {
                    match folder.fold(next, Item::Operands(&all)).unwrap() {
                        Folded::Operands(all) => { assert!(is_open(&all)); all }
                        Folded::Value(_) => unreachable!(),
                    }
                });
                let older = folded_of(&folder, older);
                value(Some(folder.fold(&open, older.as_ref().map_or(Item::Deleted, Folded::item)).unwrap()))
            };
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn nonsense_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            match Parts::decode(&bytes) {
                Some(parts) => prop_assert!(!parts.operands.is_empty()),
                None => prop_assert_eq!(folder(true).value(b"k", &bytes).unwrap_err().kind(), ErrorKind::Corruption),
            }
        }
    }

    #[test]
    fn a_failure_names_keyspace_and_operator_and_keeps_what_it_failed_on() {
        let folder = folder(false);
        let put = Item::Put { value: b"v", expires_at_ms: 0 };
        let Folded::Operands(kept) = folder.fold(&operand(b"!"), put).unwrap() else { panic!() };
        assert!(!is_open(&kept));
        let error = folder.value(b"k", &kept).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MergeFailed);
        assert!(
            error.to_string().contains("\"letters\"") && error.to_string().contains("\"fussy\""),
            "{error}"
        );
        let parts = Parts::decode(&kept).unwrap();
        assert!(matches!(parts.base, Base::Value(b"v")) && parts.operands == [b"!"]);
    }
}
