//! Why a command did not succeed, as its exit code will say.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// What commands return.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The operation failed: exit code 1 and this message.
    Failed(String),
    /// The command line asks for something that makes no sense: exit code 2 and this message.
    Usage(String),
    /// The operation failed and the command has said so already: exit code 1.
    Reported,
    /// The reader of standard output went away: exit quietly.
    BrokenPipe,
}

impl Failure {
    /// A failed operation on a file or directory.
    pub fn at(path: &Path, why: impl Display) -> Self {
        Self::Failed(format!("{}: {why}", path.display()))
    }

    /// A failed write to standard output.
    pub fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::Failed(format!("cannot write to standard output: {error}"))
    }
}

impl From<siltstone::Error> for Failure {
    fn from(error: siltstone::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<siltstone_bench_kit::plot::ChartError> for Failure {
    fn from(error: siltstone_bench_kit::plot::ChartError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// `Err(Failure::Failed)` with a formatted message.
macro_rules! fail {
    ($($message:tt)*) => { return Err($crate::failure::Failure::Failed(format!($($message)*))) };
}

/// `Err(Failure::Usage)` with a formatted message.
macro_rules! usage {
    ($($message:tt)*) => { return Err($crate::failure::Failure::Usage(format!($($message)*))) };
}

pub(crate) use {fail, usage};
