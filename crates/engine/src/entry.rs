//! Entries: what a key maps to, and the cursors that walk them in the store's order.
//!
//! Every source of entries (memtable, log store, table, merge) is a [`Cursor`]: it shows one borrowed entry
//! at a time, so that merging allocates nothing per item. Recency is position: sources are handed over newest
//! first.

use crate::error::Result;
use crate::value::{Value, Wants};
use siltstone_design::{Digest, EncodedKey};
use std::sync::Arc;

/// Number of a write: where in the log its operation begins. Later writes have larger ones.
pub(crate) type Sequence = u64;

/// What a key maps to, borrowed from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A value, with the wall-clock millisecond from which on it is gone (0 = never).
    Put { value: &'a [u8], expires_at_ms: u64 },
    /// A tombstone.
    Deleted,
    /// Operands of merges, as `merge_operator/operands.rs` writes them.
    Operands(&'a [u8]),
}

/// The expiry that tells operands from a tombstone, where a mark says that an entry is no put.
const OPERANDS_EXPIRY_MS: u64 = 1;

/// What an item is written as in all table formats: bytes, an expiry, and a mark. Tombstones expire never;
/// with the mark and an expiry the bytes are operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemParts<'a> {
    pub value: &'a [u8],
    pub expires_at_ms: u64,
    /// It is no put.
    pub deleted: bool,
}

impl<'a> ItemParts<'a> {
    /// The item that is written so.
    #[inline]
    pub fn item(self) -> Item<'a> {
        let Self { value, expires_at_ms, deleted } = self;
        if !deleted {
            Item::Put { value, expires_at_ms }
        } else if expires_at_ms == 0 {
            Item::Deleted
        } else {
            Item::Operands(value)
        }
    }
}

impl<'a> Item<'a> {
    /// What it is written as in tables.
    #[inline]
    pub fn parts(self) -> ItemParts<'a> {
        match self {
            Self::Put { value, expires_at_ms } => ItemParts { value, expires_at_ms, deleted: false },
            Self::Deleted => ItemParts { value: &[], expires_at_ms: 0, deleted: true },
            Self::Operands(value) => ItemParts { value, expires_at_ms: OPERANDS_EXPIRY_MS, deleted: true },
        }
    }

    /// Bytes of its value or operands.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.parts().value
    }

    /// The value if it is one and has not expired at `now_ms`.
    pub fn live_value(self, now_ms: u64) -> Option<&'a [u8]> {
        match self {
            Self::Put { value, expires_at_ms } if expires_at_ms == 0 || now_ms < expires_at_ms => Some(value),
            _ => None,
        }
    }
}

/// One entry, borrowed from its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryRef<'a> {
    pub key: EncodedKey<'a>,
    pub item: Item<'a>,
    /// The table that held the key's next older version when this one was written, as far as the writer
    /// learnt; 0 says nothing. It spares a multi-level cuckoo filter from asking whether two equal
    /// fingerprints are one key (SlimDB §3.2).
    pub older_in: u64,
}

impl EntryRef<'_> {
    /// Bytes of key and value.
    pub fn user_bytes(&self) -> u64 {
        (self.key.key.len() + self.item.bytes().len()) as u64
    }
}

/// What a source says about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Put {
        value: Value,
        expires_at_ms: u64,
    },
    Deleted,
    /// See [`Item::Operands`].
    Operands(Vec<u8>),
    Absent,
}

impl Answer {
    /// The answer of a source that holds `item`.
    #[inline]
    pub fn of(item: Item<'_>, wants: Wants) -> Self {
        match item {
            Item::Put { value, expires_at_ms } => Self::Put { value: wants.take(value), expires_at_ms },
            Item::Deleted => Self::Deleted,
            Item::Operands(operands) => Self::Operands(operands.to_vec()),
        }
    }
}

/// A walk over entries in the store's order, each key once.
pub(crate) trait Cursor: Send {
    /// The entry the cursor stands on; `None` past the end.
    fn peek(&self) -> Option<EntryRef<'_>>;
    /// Moves to the next entry and says its digest; `None` past the end.
    fn advance(&mut self) -> Result<Option<Digest>>;
    /// Reads the current entry's value, where that waits to be asked for since it is
    /// [large](LARGE_VALUE_BYTES), and `peek` shows an empty one until then. So of many sources that are
    /// merged only one holds such a value.
    fn load_value(&mut self) -> Result<()> {
        Ok(())
    }
}

/// From how many bytes on values wait until they are asked for.
pub(crate) const LARGE_VALUE_BYTES: usize = 64 << 10;

/// The range of the store's order that a walk covers: from `(digest, key)` on, up to and including digest
/// `last`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First digest.
    pub first: Digest,
    /// Last digest, inclusive.
    pub last: Digest,
}

impl Span {
    /// Every digest there is.
    pub const ALL: Self =
        Self { first: Digest { hi: 0, lo: 0 }, last: Digest { hi: u64::MAX, lo: u64::MAX } };

    /// All digests whose upper half is from `first` to `last`.
    pub fn of_hi(first: u64, last: u64) -> Self {
        Self { first: Digest { hi: first, lo: 0 }, last: Digest { hi: last, lo: u64::MAX } }
    }

    /// Whether all its digests are of one group.
    pub fn is_within_a_group(&self) -> bool {
        self.first.hi == self.last.hi
    }

    /// Whether any digest from `first` to `last` lies in the span.
    pub fn overlaps(&self, first: Digest, last: Digest) -> bool {
        first <= self.last && self.first <= last
    }
}

/// Prefixes deleted as a whole; they hide what is older than the run or memtable they stand in, never what is
/// in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixTombstones {
    sorted: Vec<PrefixTombstone>,
}

/// One deleted prefix with the digest half its keys share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PrefixTombstone {
    pub hi: u64,
    pub prefix: Arc<[u8]>,
}

impl PrefixTombstones {
    /// A set of `tombstones` in any order, repeats allowed.
    pub fn new(mut tombstones: Vec<PrefixTombstone>) -> Self {
        tombstones.sort_unstable();
        tombstones.dedup();
        Self { sorted: tombstones }
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &PrefixTombstone> {
        self.sorted.iter()
    }

    /// Whether the keys with this prefix are deleted.
    #[inline(never)]
    pub fn covers(&self, hi: u64, prefix: &[u8]) -> bool {
        !self.sorted.is_empty()
            && self.sorted.binary_search_by(|t| t.hi.cmp(&hi).then_with(|| (*t.prefix).cmp(prefix))).is_ok()
    }

    /// Whether this key is deleted with its prefix. A get asks every run that it passes, and most have none.
    #[inline(always)]
    pub fn hides(&self, key: &EncodedKey<'_>) -> bool {
        !self.sorted.is_empty() && self.covers(key.digest.hi, key.prefix())
    }

    /// Those whose digest half is from `first` to `last`.
    pub fn within(&self, first: u64, last: u64) -> Vec<PrefixTombstone> {
        self.between(first, last).to_vec()
    }

    /// The same, borrowed.
    pub fn between(&self, first: u64, last: u64) -> &[PrefixTombstone] {
        let from = self.sorted.partition_point(|t| t.hi < first);
        let to = self.sorted.partition_point(|t| t.hi <= last);
        self.sorted.get(from..to).unwrap_or(&[])
    }
}
