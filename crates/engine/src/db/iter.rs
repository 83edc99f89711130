//! Scans: one merge over everything that may hold a group, a range of it, or the whole keyspace.
//!
//! A walk over the whole keyspace goes stretch by stretch (`stretch.rs`). How the same walk is gone backwards
//! is in `reverse.rs`.
//!
//! An item is shown where it lies, and the walk moves on when the next one is asked for. So nothing is copied
//! for whoever only looks ([`Iter::next_ref`]).

use super::catalog::keyspace::OpenKeyspace;
use super::catalog::snapshots::ReadPoint;
use super::catalog::view::View;
use super::store::Store;
use super::stretch::Stretches;
use super::suffix_range::SuffixBounds;
use crate::activity::Count;
use crate::compaction::merge::Merge;
use crate::entry::{Cursor, Item, Span};
use crate::error::{ErrorKind, Result};
use crate::table::Values;
use siltstone_design::{Digest, EncodedKey};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Which keys of the walked digests are wanted.
#[derive(Clone)]
pub(super) enum Wanted {
    Everything,
    /// Keys with this prefix whose suffix lies between the bounds.
    Group {
        prefix: Vec<u8>,
        suffixes: SuffixBounds,
    },
    /// Keys that begin so.
    StartingWith(Vec<u8>),
}

/// A keyspace at the moment that is walked.
#[derive(Clone)]
pub(super) struct Walked {
    pub store: Arc<Store>,
    pub keyspace: Arc<OpenKeyspace>,
    pub view: Arc<View>,
    pub point: Arc<ReadPoint>,
}

/// A place in the store's order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub digest: Digest,
    key: Vec<u8>,
}

impl Place {
    pub fn of(key: &EncodedKey<'_>) -> Self {
        Self { digest: key.digest, key: key.key.to_vec() }
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// How it stands to `key`.
    #[inline]
    pub fn order(&self, key: &EncodedKey<'_>) -> Ordering {
        self.digest.cmp(&key.digest).then_with(|| self.key.as_slice().cmp(key.key))
    }
}

/// Items that are shown from behind; see `reverse.rs`.
pub(super) struct Gathered {
    /// Values, or why there is none, in the order of their keys; the last one is shown next.
    pub items: VecDeque<(Place, Result<Vec<u8>>)>,
    /// The last digest of what is not gathered; none where nothing is left.
    pub last: Option<Digest>,
    /// How many digests the next window has, and how many items it is to hold.
    pub width: u128,
    pub most_items: usize,
}

/// An iterator over a consistent snapshot, in the store's order: by digest, and for semi-sorted keys by
/// prefix hash and then suffix.
///
/// What had not expired when it was made, or when the snapshot was taken that it walks, is in it.
///
/// Items are `(key, value)`. It pins the tables it reads until it is dropped. After an error it ends, but for
/// `MergeFailed`, which is said of a single item; and so it does, with `Closed`, when the store is
/// [closed](crate::Db::close).
///
/// It can be gone from behind: `files.prefix("home/")?.rev()`. What that costs is two to three times a walk
/// forwards, and no more before the first item than before others; of suffixes whose first eight bytes are
/// the same, all are read for each 4 MiB of them. A program that wants no copies asks for
/// [`next_ref`](Self::next_ref), one that wants no values for [`keys`](Self::keys), and one that shows page
/// by page goes on [`after`](Self::after) the last key that it has shown.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # use siltstone::{Db, KeyspaceOptions, Options, Schema};
/// # let db = Db::open(dir.path().join("db"), Options::default())?;
/// let by_path = KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
/// let files = db.create_keyspace("files", by_path)?;
/// for name in ["home/a", "home/b", "home/c", "home/d"] {
///     files.put(name, "")?;
/// }
/// // A page of two, and the next one. A page's last key is all that has to be kept between them.
/// let page: Vec<_> = files.prefix("home/")?.keys().take(2).collect::<Result<_, _>>()?;
/// assert_eq!(page, [b"home/a", b"home/b"]);
/// let page: Vec<_> = files.prefix("home/")?.after(&page[1])?.keys().take(2).collect::<Result<_, _>>()?;
/// assert_eq!(page, [b"home/c", b"home/d"]);
/// // The last item comes first.
/// let (last, _) = files.prefix("home/")?.next_back().unwrap()?;
/// assert_eq!(last, b"home/d");
/// # Ok(())
/// # }
/// ```
pub struct Iter {
    pub(super) walked: Walked,
    pub(super) wanted: Wanted,
    pub(super) values: Values,
    /// What is walked in all, and how.
    pub(super) span: Span,
    stretches: Stretches,
    merge: Option<Merge>,
    /// Whether the item that the merge stands on has been shown.
    is_shown: bool,
    /// What its operands make, if it has any.
    folded: Option<Vec<u8>>,
    /// What lies up to here, or from here on, is not wanted, or was shown.
    pub(super) lower: Option<Place>,
    pub(super) upper: Option<Place>,
    /// Items that are shown from behind.
    pub(super) behind: Option<Gathered>,
}

impl Iter {
    pub(super) fn new(walked: Walked, span: Span, wanted: Wanted) -> Self {
        Self {
            walked,
            wanted,
            values: Values::All,
            stretches: Stretches::new(span.clone()),
            span,
            merge: None,
            is_shown: false,
            folded: None,
            lower: None,
            upper: None,
            behind: None,
        }
    }

    /// Shows the keys alone. Values that lie apart from their keys are not put together for it; where they
    /// lie among the pages that a long scan reads at once, they are passed over with these.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let films = db.create_keyspace("films", siltstone::KeyspaceOptions::default())?;
    /// films.put("f1", vec![0; 1 << 20])?;
    /// let keys: Vec<_> = films.iter()?.keys().collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"f1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(mut self) -> Keys {
        // Operands fold with the value below them.
        if self.walked.keyspace.folder.is_none() {
            self.values = Values::AtHand;
        }
        Keys { items: self }
    }

    /// Goes on with what comes after `key` in the store's order, whether or not there is such a key: for
    /// pages, and to leap ahead.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.add_many((0..10u8).map(|n| ([n], "")))?;
    /// let (mut shown, mut token) = (0, None);
    /// loop {
    ///     let from = items.iter()?;
    ///     let from = if let Some(token) = &token { from.after(token)? } else { from };
    ///     let page = from.keys().take(3).collect::<Result<Vec<_>, _>>()?;
    ///     shown += page.len();
    ///     token = page.last().cloned();
    ///     if token.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(shown, 10);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` where the keyspace can have no such key.
    pub fn after(mut self, key: impl AsRef<[u8]>) -> Result<Self> {
        let place = Place::of(&self.walked.keyspace.encode(key.as_ref())?);
        self.forget_progress();
        self.stretches.rest = (place.digest <= self.span.last)
            .then(|| Span { first: place.digest.max(self.span.first), last: self.span.last });
        self.lower = Some(place);
        Ok(self)
    }

    /// Leaves out what comes from `key` on in the store's order, whether or not there is such a key: for
    /// pages that are shown from behind.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use siltstone::{Db, KeyspaceOptions, Options, Schema};
    /// # let db = Db::open(dir.path().join("db"), Options::default())?;
    /// # let by_path = KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    /// # let files = db.create_keyspace("files", by_path)?;
    /// for name in ["home/a", "home/b", "home/c"] {
    ///     files.put(name, "")?;
    /// }
    /// let page: Vec<_> = files.prefix("home/")?.before("home/c")?.keys().rev().collect::<Result<_, _>>()?;
    /// assert_eq!(page, [b"home/b", b"home/a"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` where the keyspace can have no such key.
    pub fn before(mut self, key: impl AsRef<[u8]>) -> Result<Self> {
        let place = Place::of(&self.walked.keyspace.encode(key.as_ref())?);
        self.behind = None;
        self.upper = Some(place);
        Ok(self)
    }

    /// Forgets where it stands.
    fn forget_progress(&mut self) {
        (self.merge, self.is_shown, self.folded, self.behind) = (None, false, None, None);
    }

    /// Ends the walk.
    pub(super) fn end(&mut self) {
        self.forget_progress();
        self.stretches.rest = None;
    }

    /// Begins the merge over the next stretch; false at the end.
    fn next_stretch(&mut self) -> Result<bool> {
        let Walked { store, keyspace, view, point } = &self.walked;
        self.merge = None;
        self.merge = self.stretches.next(keyspace, view, point.sequence, self.values, &store.env.reader)?;
        let reads = std::mem::take(&mut self.stretches.reads);
        if let (1.., Wanted::Group { .. }) = (reads, &self.wanted) {
            keyspace.counters.done.add(Count::ReadsByScans, reads);
        }
        Ok(self.merge.is_some())
    }

    /// Lets the merge stand on the next item; false at the end.
    fn find_next(&mut self) -> Result<bool> {
        self.walked.store.env.health.check_open()?;
        loop {
            let Some(merge) = &mut self.merge else {
                if self.next_stretch()? {
                    continue;
                }
                return Ok(false);
            };
            if std::mem::take(&mut self.is_shown) {
                self.folded = None;
                merge.advance()?;
            }
            let Some(entry) = merge.peek() else {
                self.merge = None;
                continue;
            };
            if self.upper.as_ref().is_some_and(|upper| upper.order(&entry.key).is_le()) {
                (self.merge, self.stretches.rest) = (None, None);
                return Ok(false);
            }
            // Whatever becomes of it, the next look goes on behind it.
            self.is_shown = true;
            if self.lower.as_ref().is_some_and(|lower| lower.order(&entry.key).is_ge())
                || !self.wanted.takes(entry.key.key)
            {
                continue;
            }
            match (entry.item, &self.walked.keyspace.folder) {
                // Nothing older is left: all that may hold the key takes part.
                (Item::Operands(operands), Some(folder)) => {
                    self.folded = Some(folder.value(entry.key.key, operands)?);
                }
                (item, _) if item.live_value(self.walked.point.now_ms).is_none() => continue,
                _ => {}
            }
            return Ok(true);
        }
    }

    /// The item that the merge stands on.
    fn item(&self) -> Option<(&[u8], &[u8])> {
        let entry = self.merge.as_ref()?.peek()?;
        Some((entry.key.key, self.folded.as_deref().unwrap_or(entry.item.bytes())))
    }

    /// The place of the item that was shown last, while the merge stands on it.
    pub(super) fn place_shown(&self) -> Option<Place> {
        let entry = self.merge.as_ref().filter(|_| self.is_shown)?.peek()?;
        Some(Place::of(&entry.key))
    }

    /// Whether all has been walked.
    pub(super) fn has_ended(&self) -> bool {
        self.merge.is_none() && self.stretches.rest.is_none()
    }

    /// The next item as it lies, until the next one is asked for: nothing is copied or allocated for it.
    /// `None` at the end.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let vectors = db.create_keyspace("vectors", siltstone::KeyspaceOptions::default())?;
    /// vectors.put("v1", [1.5f32, 2.5].map(f32::to_le_bytes).concat())?;
    /// vectors.put("v2", [4.0f32, 0.5].map(f32::to_le_bytes).concat())?;
    /// let (mut items, mut sum) = (vectors.iter()?, 0.0);
    /// while let Some((_, value)) = items.next_ref()? {
    ///     sum += value.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).sum::<f32>();
    /// }
    /// assert_eq!(sum, 8.5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading; see [`Iter`].
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.has_ended() {
            return Ok(None);
        }
        match self.find_next() {
            Ok(true) => Ok(self.item()),
            Ok(false) => Ok(None),
            Err(error) => {
                // Where an operator fails, the other items are as they were.
                if error.kind() != ErrorKind::MergeFailed {
                    self.end();
                }
                Err(error)
            }
        }
    }
}

impl Wanted {
    fn takes(&self, key: &[u8]) -> bool {
        match self {
            Self::Everything => true,
            Self::Group { prefix, suffixes } => {
                key.strip_prefix(prefix.as_slice()).is_some_and(|suffix| suffixes.contain(suffix))
            }
            Self::StartingWith(start) => key.starts_with(start),
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_ref() {
            Ok(item) => item.map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(error) => Some(Err(error)),
        }
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take_from_behind().transpose()
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("keyspace", &self.walked.keyspace.name).finish_non_exhaustive()
    }
}

/// The keys of an [`Iter`]; see [`Iter::keys`].
pub struct Keys {
    items: Iter,
}

impl Keys {
    /// The next key as it lies, until the next one is asked for; `None` at the end.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let words = db.create_keyspace("words", siltstone::KeyspaceOptions::default())?;
    /// words.add_many(["silt", "stone"].map(|word| (word, "")))?;
    /// let (mut keys, mut letters) = (words.iter()?.keys(), 0);
    /// while let Some(key) = keys.next_ref()? {
    ///     letters += key.len();
    /// }
    /// assert_eq!(letters, 9);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading; see [`Iter`].
    pub fn next_ref(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.items.next_ref()?.map(|(key, _)| key))
    }

    /// How many keys are left, up to `most`.
    pub(super) fn count_up_to(mut self, most: u64) -> Result<u64> {
        let mut count = 0;
        while count < most && self.next_ref()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_ref().map(|key| key.map(<[u8]>::to_vec)).transpose()
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.items.next_back()?.map(|(key, _)| key))
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("items", &self.items).finish()
    }
}
