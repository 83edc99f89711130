//! The one error of this crate: bytes that are not what they claim to be.

use std::fmt;

/// Bytes that no `to_bytes` of this crate wrote.
///
/// Says which field of which structure was wrong, what was expected there and what was found. It knows
/// neither file nor offset in the file; the caller, who does, adds them.
///
/// ```
/// use siltstone_succinct::bits::vector::BitVec;
///
/// let error = BitVec::from_bytes(&[1, 2, 3]).unwrap_err();
/// assert_eq!(error.to_string(), "bit vector, header: expected at least 8 bytes, found 3 bytes");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    what: &'static str,
    expected: String,
    found: String,
}

impl DecodeError {
    /// An error about `what` (structure and field), where `expected` should have stood instead of `found`.
    pub fn new(what: &'static str, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        DecodeError { what, expected: expected.to_string(), found: found.to_string() }
    }

    /// The structure and the field of it that could not be decoded.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// What the decoder expected there.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What the decoder found there.
    pub fn found(&self) -> &str {
        &self.found
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.what, self.expected, self.found)
    }
}

impl std::error::Error for DecodeError {}
