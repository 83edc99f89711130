//! The value that a lookup finds, in the form that whoever asks wants: as a copy, where it lies, or not at
//! all.
//!
//! The idea: a get hands out a copy, which is made while the page is at hand. Whoever only looks at a value
//! is lent the page, and whoever only asks whether there is one needs neither the bytes nor the pages that
//! they overflow into. So a lookup carries what is wanted down the layers ([`Wants`]), and each layer answers
//! with a [`Value`] that is as cheap as that allows.
//!
//! What is short and lies where others may change it (a memtable, the row cache) is copied even where it is
//! to be lent, into memory that each thread keeps: whoever looks at it holds no lock of the store meanwhile.

use crate::memory::Pooled;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Most memory that a thread keeps for values that it looks at.
const MOST_KEPT_BYTES: usize = 64 << 10;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes of a value that is so large that nobody copies it: a part of what `owner` keeps.
#[derive(Clone)]
pub(crate) struct Shared {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    at: Range<usize>,
}

impl Shared {
    /// Values of so many bytes are shared.
    pub const LEAST_BYTES: usize = 1 << 20;

    /// Shares the bytes at `at` of what `owner` keeps; `None` where they are few, alone or beside the rest,
    /// which lasts as long as they do.
    pub fn of<T: AsRef<[u8]> + Send + Sync + 'static>(owner: &Arc<T>, at: Range<usize>) -> Option<Self> {
        let all = owner.as_ref().as_ref().len();
        let is_most = at.len() >= Self::LEAST_BYTES && at.len() >= all / 2 && at.end <= all;
        is_most.then(|| Self { owner: Arc::clone(owner) as Arc<dyn AsRef<[u8]> + Send + Sync>, at })
    }

    /// Shares `part`, which lies in what `owner` keeps; `None` as from [`of`](Self::of), and where it does
    /// not.
    pub fn part_of(owner: &Arc<Vec<u8>>, part: &[u8]) -> Option<Self> {
        let from = part.as_ptr().addr().checked_sub(owner.as_ptr().addr())?;
        Self::of(owner, from..from.checked_add(part.len())?)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.owner.as_ref().as_ref().get(self.at.clone()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} shared bytes", self.at.len())
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Shared {}

/// What a lookup wants of the value that it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wants {
    /// A copy.
    #[default]
    Copy,
    /// To look at it.
    Look,
    /// To know that it is there.
    Presence,
}

/// A value that was found.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Copied(Vec<u8>),
    /// It lies in a page that it keeps.
    InPage(Arc<Pooled>, Range<u32>),
    /// It is there, and its bytes were not wanted.
    Unread,
}

impl Wants {
    /// Whether the bytes are of no use.
    #[inline]
    pub fn nothing(self) -> bool {
        self == Self::Presence
    }

    /// Takes a value that others may change once the caller lets go of it.
    #[inline]
    pub fn take(self, bytes: &[u8]) -> Value {
        match self {
            Self::Copy => Value::Copied(bytes.to_vec()),
            Self::Look => {
                let mut kept = KEPT.take();
                kept.clear();
                kept.extend_from_slice(bytes);
                Value::Copied(kept)
            }
            Self::Presence => Value::Unread,
        }
    }

    /// Takes the value that `decode` puts into an empty vector; `None` where it can't.
    #[inline]
    pub fn decode(self, decode: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<Value> {
        let mut bytes = if self == Self::Look { KEPT.take() } else { Vec::new() };
        bytes.clear();
        decode(&mut bytes)?;
        Some(Value::Copied(bytes))
    }

    /// Takes the value at `at` of a page; `None` where the page ends before.
    #[inline]
    pub fn take_from(self, page: &Arc<Pooled>, at: Range<usize>) -> Option<Value> {
        let bytes = page.get(at.clone())?;
        Some(match self {
            Self::Copy => Value::Copied(bytes.to_vec()),
            // Whoever wants no bytes may keep them for others who do.
            Self::Look | Self::Presence => Value::InPage(Arc::clone(page), at.start as u32..at.end as u32),
        })
    }
}

impl Value {
    /// The bytes; none of one that is unread.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::InPage(page, at) => page.get(at.start as usize..at.end as usize).unwrap_or_default(),
            Self::Unread => &[],
        }
    }

    /// Returns the bytes as a vector.
    #[inline]
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Copied(bytes) => bytes,
            other => other.bytes().to_vec(),
        }
    }

    /// Whether its bytes are at hand.
    pub fn is_read(&self) -> bool {
        !matches!(self, Self::Unread)
    }

    /// Lets `look` see the bytes, then gives the memory back to the thread where it is the thread's.
    pub fn look<R>(self, look: impl FnOnce(&[u8]) -> R) -> R {
        let result = look(self.bytes());
        if let Self::Copied(bytes) = self
            && bytes.capacity() <= MOST_KEPT_BYTES
        {
            KEPT.set(bytes);
        }
        result
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.is_read() == other.is_read() && self.bytes() == other.bytes()
    }
}

impl Eq for Value {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_within_looks_each_see_their_own_bytes() {
        let outer = Wants::Look.take(b"outer");
        let seen = outer.look(|outer| {
            let inner = Wants::Look.take(b"inner").look(<[u8]>::to_vec);
            (outer.to_vec(), inner)
        });
        assert_eq!(seen, (b"outer".to_vec(), b"inner".to_vec()));
        let again = KEPT.take();
        assert!(again.capacity() > 0, "a second look would allocate");
        let Value::Copied(bytes) = Wants::Look.take(&vec![7; 2 * MOST_KEPT_BYTES]) else { unreachable!() };
        Value::Copied(bytes).look(|bytes| assert_eq!(bytes.len(), 2 * MOST_KEPT_BYTES));
        assert_eq!(KEPT.take().capacity(), 0, "a long value's memory was kept");
    }

    #[test]
    fn what_is_not_wanted_is_not_there() {
        assert!(!Wants::Presence.take(b"value").is_read());
        assert_ne!(Wants::Presence.take(b""), Wants::Copy.take(b""));
        assert_eq!(Wants::Copy.take(b"value").into_vec(), b"value");
    }
}
