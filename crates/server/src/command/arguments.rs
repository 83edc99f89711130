//! Arguments as commands read them.

use crate::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use crate::number;

/// An integer.
pub fn integer(bytes: &[u8]) -> Outcome<i64> {
    number::integer(bytes).ok_or(NOT_INTEGER)
}

/// Whether `bytes` is `word`, in any case.
pub fn is(bytes: &[u8], word: &str) -> bool {
    bytes.eq_ignore_ascii_case(word.as_bytes())
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// 1000 milliseconds.
    Seconds,
    /// One.
    Milliseconds,
}

impl TimeUnit {
    /// Milliseconds in one.
    pub fn ms(self) -> i64 {
        match self {
            Self::Seconds => 1000,
            Self::Milliseconds => 1,
        }
    }
}

/// A moment, from a number that counts from `base` (0 for a time since 1970) in `unit`s; may be negative.
pub fn moment(amount: i64, unit: TimeUnit, base: u64, command: &str) -> Outcome<i64> {
    let invalid = || Failure::new(format!("invalid expire time in '{}' command", command.to_lowercase()));
    let ms = amount.checked_mul(unit.ms()).ok_or_else(invalid)?;
    ms.checked_add(i64::try_from(base).unwrap_or(i64::MAX)).ok_or_else(invalid)
}

/// The range of indexes from `start` to `end`, both included and negative ones counted from the end, of
/// something of `length`; empty where nothing lies between.
pub fn range(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let (start, end) = (from_end(start).max(0), from_end(end).max(0).min(length - 1));
    if start > end || start >= length {
        return 0..0;
    }
    usize::try_from(start).unwrap_or(0)..usize::try_from(end + 1).unwrap_or(0)
}

/// Takes options from a list of arguments, one after the other.
pub struct Options<'a, I: Iterator<Item = &'a [u8]>> {
    arguments: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Options<'a, I> {
    /// Begins with the first of `arguments`.
    pub fn new(arguments: I) -> Self {
        Self { arguments }
    }

    /// The next option, in upper case.
    pub fn next(&mut self) -> Option<String> {
        self.arguments.next().map(|word| String::from_utf8_lossy(word).to_uppercase())
    }

    /// The value of the option that was taken last.
    pub fn value(&mut self) -> Outcome<&'a [u8]> {
        self.arguments.next().ok_or(SYNTAX)
    }

    /// The same as an integer.
    pub fn integer(&mut self) -> Outcome<i64> {
        integer(self.value()?)
    }
}
