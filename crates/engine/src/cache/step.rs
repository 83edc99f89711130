//! What an attempt at something that needs pages comes to: its end, or the page that it needs.
//!
//! Why a layer returns `Result<T, Pause>`, and only the lookup itself a [`Step`]: a layer that needs a page
//! has nothing else to say, just as one that failed, so `?` hands both up. Both are values of one type with
//! two names; a page that is needed is never an [`Error`], and no error is ever taken for one.

use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::segment::LogSegment;
use siltstone_design::KeyError;
use std::sync::Arc;

/// What a lookup needs from the device.
#[derive(Clone, Debug)]
pub(crate) enum PageRef {
    /// A page of a table, or of a filter file.
    Page { file: FileId, page: u32 },
    /// Neighbouring pages of a table, read at once.
    Pages { file: FileId, first: u32, count: u32 },
    /// A stretch of the log.
    Log { segment: Arc<LogSegment>, offset: u64, length: usize },
}

/// How far an attempt has come.
#[derive(Debug)]
pub(crate) enum Step<T> {
    /// To its end.
    Done(T),
    /// It goes on once this is in memory.
    Needs(PageRef),
}

/// Why a layer returned nothing.
#[derive(Debug)]
pub(crate) enum Pause {
    /// It is to be called again once this is in memory.
    Needs(PageRef),
    /// It has failed.
    Failed(Error),
}

impl From<Error> for Pause {
    #[inline]
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<KeyError> for Pause {
    fn from(error: KeyError) -> Self {
        Self::Failed(error.into())
    }
}

impl<T> Step<T> {
    /// Tells what is needed from what has failed.
    #[inline]
    pub fn of(outcome: Result<T, Pause>) -> Result<Self> {
        match outcome {
            Ok(value) => Ok(Self::Done(value)),
            Err(Pause::Needs(page)) => Ok(Self::Needs(page)),
            Err(Pause::Failed(error)) => Err(error),
        }
    }
}
