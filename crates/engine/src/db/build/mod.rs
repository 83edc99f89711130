//! Bulk builds: items of any number and in any order become tables where the design would have put them in
//! the end, each written once.
//!
//! Items are gathered in a part of the memory budget. If all of them fit, they are sorted there. If they
//! come in the store's order, they go straight into tables (`stage.rs`). Else they are written to a
//! temporary file, by parts of the digests (`scatter.rs`), and each part is sorted in memory where it comes
//! to stay: written twice in all. Parts that do not fit are sorted by way of temporary tables (`spill.rs`).
//! How deep the leaves lie follows from what was counted meanwhile (`sizes.rs`, `compaction/layout.rs`). One
//! edit of the manifest makes all of it part of the store.
//!
//! All items count as written at the moment when the build began: what the keyspace held then is older, what
//! is written meanwhile is newer.
//!
//! The idea is that of bulk-loaded LSM-trees and of RocksDB's external files; here no files are made by hand,
//! and trie, filters and indexes come out as after a load that was compacted to its end.

mod gather;
pub(super) mod ingest;
mod options;
mod place;
mod replace;
mod scatter;
pub(super) mod site;
mod sizes;
mod spill;
mod stage;

pub use ingest::Ingest;
pub use options::{IngestOptions, IngestProgress, IngestReport};

use super::keyspace::Keyspace;
use super::{Db, KeyspaceOptions, Options};
use crate::error::{Error, Result};
use std::path::Path;

impl Keyspace {
    /// Builds the keyspace's tables of `items`, keys with values, in any order and of any number, and returns
    /// what that took. Of items with one key the last one counts.
    ///
    /// It happens as a whole or not at all, also if the process is killed or the power fails, and is durable
    /// when this returns. Nothing goes through the log or the write buffer, and what is written is written
    /// where it is to stay: once where the items come in the store's order (that of [`Keyspace::iter`]) or
    /// fit an eighth of the memory budget, else twice.
    ///
    /// The items count as written when the build began: they replace what the keyspace held then, and what
    /// is written to it meanwhile replaces them. Readers see them once this returns. Meanwhile the
    /// keyspace is not compacted, so that heavy writing beside a long build is slowed; build another keyspace
    /// and [replace](Db::replace) this one's contents instead. An [`update`](Keyspace::update) meanwhile
    /// sees the keyspace without the items.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let squares = db.create_keyspace("squares", siltstone::KeyspaceOptions::default())?;
    /// let report = squares.ingest((0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes())))?;
    /// assert_eq!(report.items, 1000);
    /// assert_eq!(squares.get(7u32.to_be_bytes())?, Some(49u32.to_be_bytes().to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadKey` or `InvalidInput` where an item can't be stored, with its number, counted from 1;
    /// `StorageFull`, `NoKeyspace`, `ReadOnly`, `Closed` as for a put; `InvalidInput` where the keyspace is
    /// being built already. Nothing is changed then.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        items: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        self.ingest_with(&IngestOptions::default(), |ingest| {
            items.into_iter().try_for_each(|(key, value)| ingest.put(key, value))
        })
    }

    /// As [`Keyspace::ingest`], of the items that `give` puts: from as many places as it likes, with times to
    /// live, and with errors of its own, which leave the keyspace as it was.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use siltstone::{IngestOptions, KeyspaceOptions};
    /// use std::time::Duration;
    ///
    /// let sessions = db.create_keyspace("sessions", KeyspaceOptions::default())?;
    /// let file = "ada\t1\ngrace\t2\n";
    /// sessions.ingest_with(&IngestOptions::default(), |ingest| {
    ///     for line in file.lines() {
    ///         let (key, value) = line.split_once('\t').unwrap_or((line, ""));
    ///         ingest.put_with_ttl(key, value, Duration::from_secs(3600))?;
    ///     }
    ///     Ok::<_, siltstone::Error>(())
    /// })?;
    /// assert_eq!(sessions.get("grace")?.as_deref(), Some(&b"2"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `give`; as [`Keyspace::ingest`].
    pub fn ingest_with<E: From<Error>>(
        &self,
        options: &IngestOptions,
        give: impl FnOnce(&mut Ingest<'_>) -> Result<(), E>,
    ) -> Result<IngestReport, E> {
        ingest::ingest(self.store.builder(), self.current(), options, give)
    }
}

impl Db {
    /// Builds a store in directory `dir` with one keyspace `name` of `items`, and closes it: a directory that
    /// can be copied elsewhere and opened [read-only](Db::open_read_only) by many processes.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let words = ["silt", "stone"].map(|word| (word, word.len().to_string()));
    /// Db::build(dir.path().join("words"), Options::default(), "words", KeyspaceOptions::default(), words)?;
    ///
    /// let db = Db::open_read_only(dir.path().join("words"), Options::default())?;
    /// let words = db.get_keyspace("words").unwrap();
    /// assert_eq!(words.get("stone")?.as_deref(), Some(&b"5"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A build that failed can be repeated, and so can one whose process was killed: a keyspace of that name
    /// that holds nothing is made anew.
    ///
    /// # Errors
    /// As [`Db::open`], [`Db::create_keyspace`] and [`Keyspace::ingest`]; then the store has no keyspace of
    /// that name, unless it had one that holds something.
    pub fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        dir: impl AsRef<Path>,
        options: Options,
        name: &str,
        keyspace: KeyspaceOptions,
        items: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        let db = Self::open(dir, options)?;
        if let Some(left) = db.get_keyspace(name)
            && left.is_empty()?
        {
            db.drop_keyspace(name)?;
        }
        let built = db.create_keyspace(name, keyspace)?.ingest(items);
        if built.is_err() {
            // Where that fails too, it is left empty.
            let _ = db.drop_keyspace(name);
        }
        db.close()?;
        built
    }
}
