//! Merge operators: what makes a new value of an old one and an operand, for writes that do not read.
//!
//! A merge writes an operand and nothing else. The value comes about where operand and older value meet: in
//! the memtable, in a compaction, or in the lookup that asks for it. [`builtin`] has the operators that come
//! with the engine, [`operands`] how operands stand in entries and how they fold.
//!
//! Source: RocksDB's merge operators. Where we differ, and why: an operator is fixed when its keyspace is
//! created and stored by name, so a store can't be opened with another one by mistake; an operator that fails
//! keeps operands as they are, so that nothing is lost by it.

mod builtin;
mod operands;

pub use builtin::{decode_set, encode_set};
pub(crate) use operands::{Folded, Folder, Rewritten, is_one, is_open, operand, rewritten};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Longest name of an operator in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The operator of merges of which nobody knows what is to carry them out.
pub(crate) const UNKNOWN: &str = "unknown";

/// Makes the new value of a key of the old one and an operand.
///
/// Operators are called by writers, readers and compactions, at any time and from any thread, and more often
/// than there are merges; they must always make the same of the same bytes. A panic counts as a failure.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use siltstone::{Db, KeyspaceOptions, MergeOperator, MergeOperators, Options};
///
/// /// Keeps the longest operand.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
///         Ok(value.filter(|value| value.len() >= operand.len()).unwrap_or(operand).to_vec())
///     }
///
///     fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
///         self.apply(Some(older), newer).ok()
///     }
/// }
///
/// let merge_operators = MergeOperators::default().with("longest", Longest).unwrap();
/// let db = Db::open(dir.path().join("db"), Options { merge_operators, ..Options::default() })?;
/// let merge_operator = Some("longest".to_owned());
/// let words = db.create_keyspace("words", KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() })?;
/// words.merge(b"stone", b"silt")?;
/// words.merge(b"stone", b"siltstone")?;
/// words.merge(b"stone", b"clay")?;
/// assert_eq!(words.get(b"stone")?.as_deref(), Some(&b"siltstone"[..]));
/// # Ok(())
/// # }
/// ```
pub trait MergeOperator: Send + Sync + 'static {
    /// Returns the new value of a key that has `value`, or none, after `operand`.
    ///
    /// # Errors
    /// Why there is none. Whoever reads the key is told; the value and all operands are kept.
    fn apply(&self, value: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String>;

    /// Returns one operand that does what `older` and then `newer` do, if there is one.
    ///
    /// The default joins none, and then a key's operands are all kept until they meet a value: each further
    /// merge onto the key copies those before it, so that merges onto one key take time with the square of
    /// their number. Write it wherever operands can be joined, or put a value now and then.
    fn join(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (older, newer);
        None
    }

    /// Refuses operands that can never be applied, before they are written.
    ///
    /// # Errors
    /// What is wrong with the operand.
    fn check(&self, operand: &[u8]) -> Result<(), String> {
        let _ = operand;
        Ok(())
    }
}

/// The merge operators of the program's own, by name.
///
/// Whoever opens a store gives those again that its keyspaces name; see [`MergeOperator`] for an example.
/// These come with the engine, and need not be given:
///
/// | name | operand | value |
/// |---|---|---|
/// | `add` | 8 bytes, little-endian `u64` or `i64` | the sum, which wraps around |
/// | `add-saturating` | 8 bytes, little-endian `u64` | the sum, which stops at the largest number |
/// | `append` | any bytes | all operands, one behind the other |
/// | `append:2c` | any bytes | the same with a delimiter between, given in hexadecimal; here a comma |
/// | `set-union` | a set, as [`encode_set`] writes it | the union, likewise |
/// | `set-union:8` | ids of so many bytes, one behind the other | all ids, ascending, none twice |
/// | `max`, `min` | any bytes | the largest or smallest, compared byte by byte |
/// | `max-u64`, `min-u64` | 8 bytes, little-endian `u64` | the largest or smallest number |
/// | `unknown` | any bytes | none: a repair gives it to merges whose operator was lost, see [`MergeOperators::with_unknown`] |
#[derive(Clone, Default)]
pub struct MergeOperators {
    given: BTreeMap<String, Arc<dyn MergeOperator>>,
    /// What carries out the merges of unknown operators.
    unknown: Option<String>,
}

impl MergeOperators {
    /// Adds an operator; one of the same name is replaced.
    ///
    /// # Errors
    /// What is wrong with the name: it has 1 to 64 ASCII letters, digits, `-`, `_` and `.`, and is none of
    /// the engine's own.
    ///
    /// ```
    /// use siltstone::{MergeOperator, MergeOperators};
    ///
    /// struct Newest;
    ///
    /// impl MergeOperator for Newest {
    ///     fn apply(&self, _: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    ///         Ok(operand.to_vec())
    ///     }
    /// }
    ///
    /// assert!(MergeOperators::default().with("newest", Newest).is_ok());
    /// assert!(MergeOperators::default().with("add", Newest).is_err());
    /// ```
    pub fn with(mut self, name: &str, operator: impl MergeOperator) -> Result<Self, String> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_fine) {
            return Err(format!(
                "{name:?} can't name a merge operator; names have 1 to {MAX_NAME_BYTES} letters, digits, '-', '_' and '.'"
            ));
        }
        if builtin::named(name).is_some() {
            return Err(format!("{name:?} is one of the engine's own merge operators; use another name"));
        }
        self.given.insert(name.to_owned(), Arc::new(operator));
        Ok(self)
    }

    /// Says that operator `name`, the engine's own or one that was given before, made the merges whose
    /// operator is not known.
    ///
    /// Which operator a keyspace has stands in the manifest. A [repair](crate::Db::repair) of a store that
    /// has lost it finds merges and not what they are to be done with. With this in its options it makes
    /// values of them; without, it keeps them under the operator `unknown`, and reading them fails with
    /// `MergeFailed` until the repaired store is opened with this.
    ///
    /// # Errors
    /// What is wrong with the name: there is no such operator.
    ///
    /// ```
    /// use siltstone::MergeOperators;
    ///
    /// assert!(MergeOperators::default().with_unknown("append:2c").is_ok());
    /// assert!(MergeOperators::default().with_unknown("mine").is_err());
    /// ```
    pub fn with_unknown(mut self, name: &str) -> Result<Self, String> {
        if name == UNKNOWN || self.get(name).is_none() {
            return Err(format!("there is no merge operator {name:?}"));
        }
        self.unknown = Some(name.to_owned());
        Ok(self)
    }

    /// Returns the name of the operator of merges that come without one.
    pub(crate) fn unknown(&self) -> &str {
        self.unknown.as_deref().unwrap_or(UNKNOWN)
    }

    /// Returns the operator `name`, whether it was given or is the engine's own.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn MergeOperator>> {
        let name = if name == UNKNOWN { self.unknown() } else { name };
        builtin::named(name).or_else(|| self.given.get(name).cloned())
    }
}

impl fmt::Debug for MergeOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.given.keys()).finish()
    }
}
