//! One public error: a kind to branch on and a sentence that says what to do.

use std::fmt;
use std::io;
use std::path::Path;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for code to branch on. "Not found" is `None`, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A key, value, name, option or design that can't be used. Nothing was changed.
    InvalidInput,
    /// The operating system refused an operation.
    Io,
    /// Bytes on disk are not what was written.
    Corruption,
    /// Another process has the store open.
    Locked,
    /// The disk is full. Nothing is lost; writing resumes once there is room.
    StorageFull,
    /// A write or sync failed earlier, so nothing new can be promised. Reopen the store.
    Poisoned,
    /// The store was opened read-only.
    ReadOnly,
    /// The directory is not a Siltstone store.
    NotAStore,
}

/// An error of the engine.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
}

impl Error {
    /// An error of `kind`; `context` is one or two sentences that say what happened and what to do.
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into() }
    }

    /// The kind, for code to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn invalid(context: impl fmt::Display) -> Self {
        Self::new(ErrorKind::InvalidInput, context.to_string())
    }

    /// An operating-system error met while `doing` something to `path`.
    pub(crate) fn io(error: &io::Error, doing: &str, path: &Path) -> Self {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::new(
                ErrorKind::StorageFull,
                format!(
                    "the disk is full ({doing} {path}: {error}); free some space, writing then resumes by itself"
                ),
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::new(
                ErrorKind::Io,
                format!(
                    "{doing} {path}: {error}; check the directory's permissions, or open the store read-only"
                ),
            ),
            _ => Self::new(ErrorKind::Io, format!("{doing} {path}: {error}")),
        }
    }

    /// Bytes of `file` at `offset` that are not what they should be.
    pub(crate) fn corruption(
        file: impl fmt::Display,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::new(
            ErrorKind::Corruption,
            format!("{file} is damaged at byte {offset}: expected {expected}, found {found}"),
        )
    }

    /// A file that the manifest names and that is not there.
    pub(crate) fn missing_table(path: &Path) -> Self {
        Self::new(
            ErrorKind::Corruption,
            format!("{} is missing, and the store needs it; restore the file from a copy", path.display()),
        )
    }

    /// The same error, said of `what`.
    pub(crate) fn of(mut self, what: impl fmt::Display) -> Self {
        self.context.insert_str(0, &format!("{what}: "));
        self
    }

    /// The same error with a sentence added.
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.context.push_str("; ");
        self.context.push_str(more);
        self
    }

    pub(crate) fn poisoned(cause: &Error) -> Self {
        Self::new(
            ErrorKind::Poisoned,
            format!("an earlier write failed, so no later one can be promised ({cause}); reopen the store"),
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}

impl From<siltstone_design::KeyError> for Error {
    fn from(error: siltstone_design::KeyError) -> Self {
        Self::invalid(error)
    }
}

impl From<siltstone_design::DesignError> for Error {
    fn from(error: siltstone_design::DesignError) -> Self {
        Self::invalid(error)
    }
}
