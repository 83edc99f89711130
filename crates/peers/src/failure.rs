//! Why something did not succeed: a sentence, since every failure here ends up in a record or on standard
//! error.

use std::fmt;
use std::path::Path;

/// What fallible functions return.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why something did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// A failure for the reason `why`.
    pub fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }

    /// A failure that concerns a file or directory.
    pub fn at(path: &Path, why: impl fmt::Display) -> Self {
        Self(format!("{}: {why}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Failures that come with a sentence of their own.
macro_rules! from {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        }
    )*};
}

from!(
    String,
    std::io::Error,
    serde_json::Error,
    siltstone::Error,
    siltstone_lab::kit::plot::ChartError,
    fjall::Error,
    heed::Error,
    redb::Error,
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::SetDurabilityError,
    hdrhistogram::CreationError,
    hdrhistogram::AdditionError,
);
