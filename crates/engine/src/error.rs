//! One public error: a kind to branch on, the facts, and a sentence that says what to do.
//!
//! An [`Error`] carries facts, and its sentence is made of them when it is shown. So whoever has to decide
//! asks for a kind, a path or an offset; nobody reads sentences. It is one pointer, since results are
//! returned on hot paths, and clones share what it points to.

use siltstone_design::{DesignError, KeyError};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for code to branch on. "Not found" is `None`, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value, name, option or design that can't be used, or an operation that the schema has no place for.
    /// Nothing was changed.
    InvalidInput,
    /// A key or a prefix that does not fit the keyspace's schema. Nothing was changed.
    BadKey,
    /// The keyspace has been dropped, or there never was one. Nothing was changed.
    NoKeyspace,
    /// A keyspace of this name exists already. Nothing was changed.
    KeyspaceExists,
    /// The store has been closed.
    Closed,
    /// The operating system refused an operation.
    Io,
    /// Bytes on disk are not what was written.
    Corruption,
    /// Another process has the store open.
    Locked,
    /// A position of the log whose record is no longer kept, or not there: see
    /// [`Db::tail`](crate::Db::tail).
    PositionGone,
    /// The disk is full. Nothing is lost; writing resumes once there is room.
    StorageFull,
    /// A write or sync failed earlier, so nothing new can be promised. Reopen the store.
    Poisoned,
    /// The store was opened read-only.
    ReadOnly,
    /// The directory is not a Siltstone store.
    NotAStore,
    /// A merge operator failed to make a value. The old value and the operands are kept.
    MergeFailed,
}

/// An error of the engine.
///
/// Its sentence says all that is known, also what [`source`](StdError::source) would say.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use siltstone::{Db, ErrorKind, KeyspaceOptions, Options};
///
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let items = db.create_keyspace("items", KeyspaceOptions::default())?;
/// let error = items.put(b"", b"value").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::BadKey);
/// assert_eq!(error.to_string(), "keyspace \"items\": the key is empty; keys have 1 to 65535 bytes");
///
/// std::fs::write(dir.path().join("file"), b"text").unwrap();
/// let error = Db::open(dir.path().join("file"), Options::default()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotAStore);
/// assert!(error.path().unwrap().ends_with("file"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error {
    facts: Arc<Facts>,
}

/// What is known of an error.
#[derive(Clone, Debug)]
struct Facts {
    kind: ErrorKind,
    sentence: Sentence,
    path: Option<PathBuf>,
    offset: Option<u64>,
    expected: Option<String>,
    found: Option<String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// What the error is said of, the outermost last.
    subjects: Vec<String>,
    advice: Vec<&'static str>,
    /// What the failed operation was to make good.
    earlier: Option<Error>,
}

/// How the facts are put into words.
#[derive(Clone, Debug)]
enum Sentence {
    /// In these words.
    Said(String),
    /// In the words of the source.
    OfSource,
    /// As an operation on a file that the operating system refused.
    Refused { doing: &'static str },
    /// As bytes of a file that are not what they should be.
    Damaged,
    /// As a file that should be there.
    Missing,
    /// As what an earlier failure, the source, has made impossible.
    Poisoned,
}

impl Facts {
    fn new(kind: ErrorKind, sentence: Sentence) -> Self {
        Self {
            kind,
            sentence,
            path: None,
            offset: None,
            expected: None,
            found: None,
            source: None,
            subjects: Vec::new(),
            advice: Vec::new(),
            earlier: None,
        }
    }
}

impl From<Facts> for Error {
    fn from(facts: Facts) -> Self {
        Self { facts: Arc::new(facts) }
    }
}

impl Error {
    /// Makes an error of `kind`; `context` is one or two sentences that say what happened and what to do.
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Facts::new(kind, Sentence::Said(context.into())).into()
    }

    /// Returns the kind, for code to branch on.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let error = items.get("").unwrap_err();
    /// assert_eq!(error.kind(), siltstone::ErrorKind::BadKey);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.facts.kind
    }

    /// Returns the file or directory that the error is about, where it is about one.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// std::fs::write(dir.path().join("file"), "text").unwrap();
    /// let error = siltstone::Db::open(dir.path().join("file"), siltstone::Options::default()).unwrap_err();
    /// assert!(error.path().unwrap().ends_with("file"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> Option<&Path> {
        self.facts.path.as_deref()
    }

    /// Returns the first byte of the file that is wrong, where bytes are.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// db.close()?;
    /// let current = dir.path().join("db/CURRENT");
    /// std::fs::write(current, "nonsense").unwrap();
    /// let error = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default()).unwrap_err();
    /// assert_eq!(error.offset(), Some(0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn offset(&self) -> Option<u64> {
        self.facts.offset
    }

    /// Returns what should be at [`offset`](Self::offset).
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// db.close()?;
    /// let current = dir.path().join("db/CURRENT");
    /// std::fs::write(current, "nonsense").unwrap();
    /// let error = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default()).unwrap_err();
    /// assert_eq!(error.expected(), Some("the name of a manifest"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn expected(&self) -> Option<&str> {
        self.facts.expected.as_deref()
    }

    /// Returns what is there instead.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// db.close()?;
    /// let current = dir.path().join("db/CURRENT");
    /// std::fs::write(current, "nonsense").unwrap();
    /// let error = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default()).unwrap_err();
    /// assert_eq!(error.found(), Some("something else"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn found(&self) -> Option<&str> {
        self.facts.found.as_deref()
    }

    /// Makes an error of input that can't be used.
    pub(crate) fn invalid(context: impl fmt::Display) -> Self {
        Self::new(ErrorKind::InvalidInput, context.to_string())
    }

    /// Makes an error of `kind` that says what `source` says.
    pub(crate) fn because(kind: ErrorKind, source: impl StdError + Send + Sync + 'static) -> Self {
        Facts { source: Some(Arc::new(source)), ..Facts::new(kind, Sentence::OfSource) }.into()
    }

    /// Makes an error of an operating-system error met while `doing` something to `path`.
    pub(crate) fn io(error: &io::Error, doing: &'static str, path: &Path) -> Self {
        let kind = if is_full_disk(error) { ErrorKind::StorageFull } else { ErrorKind::Io };
        let source: Arc<dyn StdError + Send + Sync> = Arc::new(copy_of(error));
        let facts = Facts::new(kind, Sentence::Refused { doing });
        let made: Self = Facts { path: Some(path.to_owned()), source: Some(source), ..facts }.into();
        if is_out_of_files(error) { made.and(OPEN_FEWER_FILES) } else { made }
    }

    /// Makes an error of bytes of `path` at `offset` that are not what they should be.
    pub(crate) fn corruption(
        path: &Path,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Facts {
            path: Some(path.to_owned()),
            offset: Some(offset),
            expected: Some(expected.to_string()),
            found: Some(found.to_string()),
            ..Facts::new(ErrorKind::Corruption, Sentence::Damaged)
        }
        .into()
    }

    /// Whether it tells of bytes that are lost, as far as anybody can see: damaged, missing, or such that the
    /// device does not give. Where the process lacks memory or open files, another try may read them.
    pub(crate) fn is_loss(&self) -> bool {
        let refusal = self.facts.source.as_ref().and_then(|source| source.downcast_ref::<io::Error>());
        let is_short_of = |e: &io::Error| e.kind() == io::ErrorKind::OutOfMemory || is_out_of_files(e);
        match self.kind() {
            ErrorKind::Corruption => true,
            ErrorKind::Io => !refusal.is_some_and(is_short_of),
            _ => false,
        }
    }

    /// Makes an error of a file that should be there and is not.
    pub(crate) fn missing(path: &Path) -> Self {
        Facts { path: Some(path.to_owned()), ..Facts::new(ErrorKind::Corruption, Sentence::Missing) }.into()
    }

    /// Makes an error of a table that the manifest names and that is not there.
    pub(crate) fn missing_table(path: &Path) -> Self {
        let mut error = Self::missing(path);
        error.change().sentence =
            Sentence::Said(format!("{} is missing, and the store needs it", path.display()));
        error.and("restore the file from a copy")
    }

    /// Makes an error of a keyspace that is gone, or never was.
    pub(crate) fn no_keyspace(context: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NoKeyspace, context.to_string())
    }

    /// Makes the error of a name that no keyspace has; `known` are the names there are, of which it says a
    /// few.
    pub(crate) fn unknown_keyspace(name: &str, known: &[String]) -> Self {
        if known.is_empty() {
            return Self::no_keyspace(format_args!("there is no keyspace {name:?}; there are none yet"));
        }
        let shown: Vec<String> =
            known.iter().take(MOST_NAMES_SHOWN).map(|name| format!("{name:?}")).collect();
        let more = if known.len() > MOST_NAMES_SHOWN {
            format!(", … ({} in all)", known.len())
        } else {
            String::new()
        };
        Self::no_keyspace(format_args!(
            "there is no keyspace {name:?}; there are: {}{more}",
            shown.join(", ")
        ))
    }

    /// Makes the error of a keyspace that was to be new.
    pub(crate) fn keyspace_exists(name: &str) -> Self {
        Self::new(
            ErrorKind::KeyspaceExists,
            format!("keyspace {name:?} exists already; open it, or use another name"),
        )
    }

    /// Makes the error of every use of a store after its end.
    #[cold]
    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the store has been closed")
    }

    /// Makes the error of every write after the failure `cause`.
    pub(crate) fn poisoned(cause: &Error) -> Self {
        let source: Arc<dyn StdError + Send + Sync> = Arc::new(cause.clone());
        let path = cause.path().map(Path::to_owned);
        Facts { path, source: Some(source), ..Facts::new(ErrorKind::Poisoned, Sentence::Poisoned) }.into()
    }

    /// Returns the same error, met while `earlier` was to be made good. So it does not pass, even if the disk
    /// is full.
    pub(crate) fn after(mut self, earlier: &Error) -> Self {
        let facts = self.change();
        facts.kind = ErrorKind::Io;
        facts.earlier = Some(earlier.clone());
        self
    }

    fn change(&mut self) -> &mut Facts {
        Arc::make_mut(&mut self.facts)
    }

    /// Returns the same error with `path` among its facts.
    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.change().path = Some(path.to_owned());
        self
    }

    /// Returns the same error, said of `what`.
    pub(crate) fn of(mut self, what: impl fmt::Display) -> Self {
        self.change().subjects.push(what.to_string());
        self
    }

    /// Returns the same error with a sentence added.
    pub(crate) fn and(mut self, more: &'static str) -> Self {
        self.change().advice.push(more);
        self
    }
}

/// Names of keyspaces that an error lists.
const MOST_NAMES_SHOWN: usize = 10;

/// What to do where a process may open no more files.
const OPEN_FEWER_FILES: &str = "no more files can be open at once: raise the limit (`ulimit -n`; a store needs a few files beside \
                                options.max_open_files, and each store of a process its own), or lower max_open_files";

/// Takes what is [lost](Error::is_loss) for nothing found.
pub(crate) fn readable<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_loss() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an operating-system error means that the process, or the system, may open no more files: EMFILE
/// and ENFILE, which have these numbers on every Unix.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// Whether an operating-system error means that there is no room.
pub(crate) fn is_full_disk(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns an error that says the same: they can't be cloned.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None if error.get_ref().is_none() => error.kind().into(),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or(Path::new("a file")).display();
        let source: &dyn fmt::Display = match &self.source {
            Some(source) => source,
            None => &"the cause is not known",
        };
        match &self.sentence {
            Sentence::Said(sentence) => f.write_str(sentence),
            Sentence::OfSource => source.fmt(f),
            Sentence::Refused { doing } if self.kind == ErrorKind::StorageFull => {
                write!(
                    f,
                    "the disk is full ({doing} {path}: {source}); free some space, writing then resumes by itself"
                )
            }
            Sentence::Refused { doing } => {
                write!(f, "{doing} {path}: {source}")?;
                let cause = self.source.as_ref().and_then(|source| source.downcast_ref::<io::Error>());
                match cause.map(io::Error::kind) {
                    Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
                        f.write_str("; check the directory's permissions, or open the store read-only")
                    }
                    _ => Ok(()),
                }
            }
            Sentence::Damaged => {
                let offset = self.offset.unwrap_or(0);
                let [expected, found] =
                    [&self.expected, &self.found].map(|fact| fact.as_deref().unwrap_or(""));
                write!(f, "{path} is damaged at byte {offset}: expected {expected}, found {found}")
            }
            Sentence::Missing => write!(f, "{path} is missing"),
            Sentence::Poisoned => write!(
                f,
                "an earlier write failed, so no later one can be promised ({source}); reopen the store"
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for subject in self.facts.subjects.iter().rev() {
            write!(f, "{subject}: ")?;
        }
        self.facts.fmt(f)?;
        if let Some(earlier) = &self.facts.earlier {
            write!(f, " (after: {earlier})")?;
        }
        self.facts.advice.iter().try_for_each(|more| write!(f, "; {more}"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.facts.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.facts.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        let kind = match error {
            KeyError::NotSemiSorted | KeyError::NotOrdered | KeyError::UnknownRule(_) => {
                ErrorKind::InvalidInput
            }
            _ => ErrorKind::BadKey,
        };
        Self::because(kind, error)
    }
}

impl From<DesignError> for Error {
    fn from(error: DesignError) -> Self {
        Self::because(ErrorKind::InvalidInput, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn facts_are_told_and_put_into_words() {
        let path = Path::new("/db/7.table");
        let damaged = Error::corruption(path, 4096, "a page", format_args!("{:02x}", 7));
        assert_eq!(damaged.kind(), ErrorKind::Corruption);
        assert_eq!((damaged.path(), damaged.offset()), (Some(path), Some(4096)));
        assert_eq!((damaged.expected(), damaged.found()), (Some("a page"), Some("07")));
        let sentence = "/db/7.table is damaged at byte 4096: expected a page, found 07";
        assert_eq!(damaged.to_string(), sentence);
        let more = damaged.clone().and("restore it").of("keyspace \"a\"").of("verify");
        assert_eq!(more.to_string(), format!("verify: keyspace \"a\": {sentence}; restore it"));
        assert_eq!(damaged.to_string(), sentence, "clones share facts until they change");

        let missing = Error::missing_table(path);
        assert_eq!((missing.path(), missing.offset()), (Some(path), None));
        let sentence = "/db/7.table is missing, and the store needs it; restore the file from a copy";
        assert_eq!(missing.to_string(), sentence);
    }

    #[test]
    fn a_source_is_kept_and_said() {
        let path = Path::new("/db/7.table");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Error::io(&denied, "opening", path);
        assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(path)));
        let advice = "check the directory's permissions, or open the store read-only";
        assert_eq!(error.to_string(), format!("opening /db/7.table: {denied}; {advice}"));
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
        assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);

        let full = Error::io(&io::ErrorKind::StorageFull.into(), "writing", path);
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        assert!(full.to_string().starts_with("the disk is full (writing /db/7.table: "), "{full}");

        let poisoned = Error::poisoned(&error);
        assert_eq!((poisoned.kind(), poisoned.path()), (ErrorKind::Poisoned, Some(path)));
        let below = poisoned.source().and_then(|source| source.downcast_ref::<Error>()).unwrap();
        assert_eq!(below.kind(), ErrorKind::Io);
        assert!(poisoned.to_string().contains(&format!("({error}); reopen the store")), "{poisoned}");

        let key = Error::from(KeyError::Empty);
        assert_eq!((key.kind(), key.to_string()), (ErrorKind::BadKey, KeyError::Empty.to_string()));
        assert_eq!(key.source().and_then(|source| source.downcast_ref()), Some(&KeyError::Empty));
        assert_eq!(Error::from(KeyError::NotOrdered).kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn copies_of_system_errors_say_the_same() {
        for error in [
            io::Error::from_raw_os_error(5),
            io::ErrorKind::NotFound.into(),
            io::Error::new(io::ErrorKind::WouldBlock, "process 7"),
        ] {
            let copy = copy_of(&error);
            assert_eq!((copy.kind(), copy.raw_os_error()), (error.kind(), error.raw_os_error()));
            assert_eq!(copy.to_string(), error.to_string());
        }
    }
}
