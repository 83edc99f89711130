//! What a keyspace holds, taken as a whole: counted, listed by the beginning of keys, and cleared.

use super::catalog::PinnedKeyspace;
use super::catalog::keyspace::OpenKeyspace;
use super::catalog::view::View;
use super::iter::{Iter, Wanted};
use super::keyspace::{Held, Keyspace};
use super::snapshot::Snapshot;
use super::store::Store;
use super::suffix_range::SuffixBounds;
use crate::entry::{Sequence, Span};
use crate::error::Result;
use siltstone_design::{Digest, Format};

/// Items of a group that are counted before the rest is reckoned.
const MOST_COUNTED: u64 = 4096;

impl Keyspace {
    /// Removes all items, at once for readers, and in a crash wholly or not at all; it is durable when this
    /// returns. What that takes depends on how many files the keyspace has and not on what is in them: work
    /// on it that is under way is given up, and a few lines are written and synced.
    ///
    /// Handles stay valid, and snapshots and iterators keep what they saw as long as they live. A write
    /// comes either before and is removed, or after and stays. [Tails](crate::Db::tail) are told that it
    /// happened.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let cache = db.create_keyspace("cache", siltstone::KeyspaceOptions::default())?;
    /// cache.put("page", "text")?;
    /// let before = db.snapshot();
    /// cache.clear()?;
    /// assert!(cache.is_empty()?);
    /// assert!(before.contains(&cache, "page")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` while the keyspace is being built or replaced, `NoKeyspace` where it has been dropped;
    /// `ReadOnly`, `Poisoned`, `StorageFull`, `Closed` as for a put.
    pub fn clear(&self) -> Result<()> {
        let Store { env, scheduler, committer, catalog, .. } = &*self.store;
        env.check_writable()?;
        self.current().check_exists()?;
        let hold = scheduler.hold_and_give_up(self.current())?;
        let _open = scheduler.keep_open()?;
        let _commit = committer.lock();
        let _flushing = scheduler.lock_flushes();
        hold.keyspace().check_exists()?;
        catalog.clear(hold.keyspace())
    }

    /// Whether there are no items. What has been deleted or has expired and lies before the first item is
    /// passed over one by one.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// assert!(items.is_empty()?);
    /// items.put("key", "value")?;
    /// assert!(!items.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Keyspace::iter`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter()?.keys().count_up_to(1)? == 0)
    }

    /// Counts the items. That is a walk over all of them, which reads every page of the keyspace.
    /// [`Keyspace::approximate_len`] reads nothing.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.add_many([("a", "1"), ("b", "2"), ("a", "3")])?;
    /// assert_eq!(items.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Keyspace::iter`].
    pub fn len(&self) -> Result<u64> {
        self.iter()?.keys().count_up_to(u64::MAX)
    }

    /// Counts the items whose key has `prefix`, by a walk over them.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use siltstone::{Db, KeyspaceOptions, Options, Schema};
    /// # let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let by_path = KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    /// let files = db.create_keyspace("files", by_path)?;
    /// files.add_many(["home/a", "home/b", "etc/c"].map(|name| (name, "")))?;
    /// assert_eq!((files.len_of("home/")?, files.len_of("usr/")?), (2, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Keyspace::prefix`].
    pub fn len_of(&self, prefix: impl AsRef<[u8]>) -> Result<u64> {
        self.prefix(prefix)?.keys().count_up_to(u64::MAX)
    }

    /// About how many items there are, from what is known of tables and write buffers: nothing is read. Exact
    /// where no key was ever written twice, deleted or expired;
    /// [`items_estimate`](crate::KeyspaceStats::items_estimate) says what else there is to it.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.add_many((0..100u8).map(|n| ([n], "")))?;
    /// assert_eq!(items.approximate_len()?, 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed` after [`Db::close`](crate::Db::close).
    pub fn approximate_len(&self) -> Result<u64> {
        self.store.env.health.check_open()?;
        Ok(self.current().items_estimate(self.store.env.now_ms()))
    }

    /// About how many items have `prefix`: counted up to a few thousand, beyond that reckoned from the pages
    /// that hold them, of which none is read. (In a design with HTables they are counted.)
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use siltstone::{Db, KeyspaceOptions, Options, Schema};
    /// # let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let by_path = KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    /// let files = db.create_keyspace("files", by_path)?;
    /// files.add_many(["home/a", "home/b", "etc/c"].map(|name| (name, "")))?;
    /// assert_eq!(files.approximate_len_of("home/")?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Keyspace::prefix`].
    pub fn approximate_len_of(&self, prefix: impl AsRef<[u8]>) -> Result<u64> {
        let prefix = prefix.as_ref();
        let pinned = self.pin()?;
        let PinnedKeyspace { keyspace, view } = pinned.0.clone();
        let is_block = view.version.tables().all(|table| table.meta().format == Format::Block);
        let most = if is_block { MOST_COUNTED } else { u64::MAX };
        let all = self.prefix_at(prefix, SuffixBounds::ALL, pinned)?;
        let counted = all.keys().count_up_to(most)?;
        if counted < most {
            return Ok(counted);
        }
        let hi = keyspace.encode_prefix(prefix)?;
        let entries = self.entries_within(&keyspace, &view, &Span::of_hi(hi, hi))?;
        let stats = keyspace.stats(self.store.env.now_ms());
        let all = stats.table_entries + stats.write_buffer_entries;
        let live = stats.items_estimate as f64 / all.max(1) as f64;
        Ok(((entries as f64 * live.min(1.0)) as u64).max(counted))
    }

    /// About how many entries of tables, and how many of write buffers, lie within `span`.
    fn entries_within(&self, keyspace: &OpenKeyspace, view: &View, span: &Span) -> Result<u64> {
        let reader = &self.store.env.reader;
        let mut entries = 0;
        for buffer in view.buffers() {
            let scan = buffer.scan(Sequence::MAX, keyspace.encoder, reader, false)?;
            let mut cursor = scan.stream(span)?;
            while cursor.peek().is_some() {
                entries += 1;
                cursor.advance()?;
            }
        }
        for level in &view.version.levels {
            for run in level.region_of(span.first.hi).iter().flat_map(|region| &region.runs) {
                for table in run.tables_in(span) {
                    entries += table.entries_within(span, reader)?;
                }
            }
        }
        Ok(entries)
    }

    /// Every item whose key begins with `start`, which may be any bytes, in the store's order.
    ///
    /// Where `start` holds a whole prefix, this costs what [`Keyspace::prefix_range`] does. Where it is
    /// shorter, under the point schema, and under rules that look for the end of the prefix from the end of
    /// the key, all items of the keyspace are walked: the store has no order between prefixes.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use siltstone::{Db, KeyspaceOptions, Options, Schema};
    /// # let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let by_path = KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    /// let files = db.create_keyspace("files", by_path)?;
    /// files.add_many(["home/notes", "home/news", "home/old", "hosts/a"].map(|name| (name, "")))?;
    /// assert_eq!(files.starting_with("home/n")?.count(), 2);
    /// // No whole prefix: all of the keyspace is walked.
    /// assert_eq!(files.starting_with("ho")?.count(), 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Keyspace::iter`].
    pub fn starting_with(&self, start: impl AsRef<[u8]>) -> Result<Iter> {
        Ok(self.starting_with_at(start.as_ref(), self.pin()?))
    }

    fn starting_with_at(&self, start: &[u8], pinned: Held) -> Iter {
        let span = span_of_start(&pinned.0.keyspace, start);
        self.walk(pinned, span, Wanted::StartingWith(start.to_vec()))
    }
}

/// The digests that keys which begin with `start` may have.
fn span_of_start(keyspace: &OpenKeyspace, start: &[u8]) -> Span {
    let encoder = &keyspace.encoder;
    let is_self_delimiting = encoder.schema().prefix_rule().is_some_and(|rule| rule.is_self_delimiting());
    if !is_self_delimiting {
        return Span::ALL;
    }
    let Some((prefix, suffix)) = encoder.prefix_len(start).ok().and_then(|at| start.split_at_checked(at))
    else {
        return Span::ALL;
    };
    let Ok(hi) = encoder.encode_prefix(prefix) else { return Span::ALL };
    let mut span = Span::of_hi(hi, hi);
    if let Ok(lo) = encoder.encode_suffix_bound(suffix) {
        let any = u64::MAX.checked_shr(8 * suffix.len().min(8) as u32).unwrap_or(0);
        span = Span { first: Digest { hi, lo }, last: Digest { hi, lo: lo | any } };
    }
    span
}

impl Snapshot {
    /// As [`Keyspace::starting_with`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let words = db.create_keyspace("words", siltstone::KeyspaceOptions::default())?;
    /// words.put("stone", "")?;
    /// let snapshot = db.snapshot();
    /// words.put("storm", "")?;
    /// assert_eq!(snapshot.starting_with(&words, "sto")?.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::starting_with`]; `NoKeyspace` where the keyspace did not exist.
    pub fn starting_with(&self, keyspace: &Keyspace, start: impl AsRef<[u8]>) -> Result<Iter> {
        Ok(keyspace.starting_with_at(start.as_ref(), self.pin(keyspace)?))
    }

    /// As [`Keyspace::is_empty`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let snapshot = db.snapshot();
    /// items.put("key", "value")?;
    /// assert!(snapshot.is_empty(&items)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::iter`].
    pub fn is_empty(&self, keyspace: &Keyspace) -> Result<bool> {
        Ok(self.iter(keyspace)?.keys().count_up_to(1)? == 0)
    }

    /// As [`Keyspace::len`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let items = db.create_keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("key", "value")?;
    /// let snapshot = db.snapshot();
    /// items.clear()?;
    /// assert_eq!((snapshot.len(&items)?, items.len()?), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::iter`].
    pub fn len(&self, keyspace: &Keyspace) -> Result<u64> {
        self.iter(keyspace)?.keys().count_up_to(u64::MAX)
    }

    /// As [`Keyspace::len_of`], as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use siltstone::{Db, KeyspaceOptions, Options, Schema};
    /// # let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let by_path = KeyspaceOptions { schema: Schema::delimited(b'/'), ..KeyspaceOptions::default() };
    /// let files = db.create_keyspace("files", by_path)?;
    /// files.put("home/a", "")?;
    /// let snapshot = db.snapshot();
    /// files.put("home/b", "")?;
    /// assert_eq!(snapshot.len_of(&files, "home/")?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::prefix`].
    pub fn len_of(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<u64> {
        self.prefix(keyspace, prefix)?.keys().count_up_to(u64::MAX)
    }
}
