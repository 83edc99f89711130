//! Why a command gets an error for a reply.

use std::borrow::Cow;
use std::fmt;

/// What a client is told instead of a result.
#[derive(Debug)]
pub enum Failure {
    /// The reply, beginning with its code, such as `ERR`.
    Reply(Cow<'static, str>),
    /// The store could not do it.
    Store(siltstone::Error),
}

/// What commands return; replies go to their output.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// An error without a code of its own.
    pub fn new(text: impl fmt::Display) -> Self {
        Self::Reply(format!("ERR {text}").into())
    }

    /// An error whose text begins with its code.
    pub fn new_coded(text: String) -> Self {
        Self::Reply(text.into())
    }

    /// An error that begins with its code.
    pub const fn coded(text: &'static str) -> Self {
        Self::Reply(Cow::Borrowed(text))
    }
}

impl From<siltstone::Error> for Failure {
    fn from(error: siltstone::Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use siltstone::ErrorKind;
        match self {
            Self::Reply(text) => f.write_str(text),
            Self::Store(error) => {
                let code = match error.kind() {
                    ErrorKind::StorageFull => "OOM",
                    ErrorKind::Poisoned | ErrorKind::ReadOnly => "MISCONF",
                    ErrorKind::Closed => "LOADING",
                    _ => "ERR",
                };
                write!(f, "{code} {error}")
            }
        }
    }
}

impl std::error::Error for Failure {}

/// A key holds something else than the command works on.
pub const WRONG_TYPE: Failure =
    Failure::coded("WRONGTYPE Operation against a key holding the wrong kind of value");
/// The arguments make no sense together.
pub const SYNTAX: Failure = Failure::coded("ERR syntax error");
/// Not a 64-bit integer.
pub const NOT_INTEGER: Failure = Failure::coded("ERR value is not an integer or out of range");
/// Not a number.
pub const NOT_FLOAT: Failure = Failure::coded("ERR value is not a valid float");
/// A key that has to be there is not.
pub const NO_SUCH_KEY: Failure = Failure::coded("ERR no such key");
/// A string would grow too long.
pub const TOO_LONG: Failure = Failure::coded("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
