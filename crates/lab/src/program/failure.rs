//! Why a command did not succeed, as its exit code will say.

use crate::kit::plot::ChartError;
use siltstone_model::ModelError;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

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

impl From<ChartError> for Failure {
    fn from(error: ChartError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Turns a question to a model that makes no sense into a usage error that names the flag.
pub fn refused(error: ModelError) -> Failure {
    Failure::Usage(format!("--{error}"))
}

/// Tells the user what went wrong, if anything did, and returns the exit code that says so.
pub fn exit_code(outcome: Result<()>) -> ExitCode {
    let (message, code) = match outcome {
        // Whoever reads our output has seen enough: not an error.
        Ok(()) | Err(Failure::BrokenPipe) => return ExitCode::SUCCESS,
        Err(Failure::Reported) => return ExitCode::from(1),
        Err(Failure::Failed(message)) => (message, 1),
        Err(Failure::Usage(message)) => (message, 2),
    };
    // Standard error may be closed too; there is nobody left to tell.
    let _ = writeln!(io::stderr(), "error: {message}");
    ExitCode::from(code)
}

/// `Err(Failure::Failed)` with a formatted message.
#[macro_export]
macro_rules! fail {
    ($($message:tt)*) => { return Err($crate::program::failure::Failure::Failed(format!($($message)*))) };
}

/// `Err(Failure::Usage)` with a formatted message.
#[macro_export]
macro_rules! usage {
    ($($message:tt)*) => { return Err($crate::program::failure::Failure::Usage(format!($($message)*))) };
}

pub use {fail, usage};
