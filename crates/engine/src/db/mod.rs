//! The store as users hold it: [`Db`], [`Keyspace`], [`Snapshot`], each method a few lines.

mod background;
mod backup;
mod batch;
mod build;
mod care;
mod catalog;
mod change_schema;
mod clock;
mod conditional;
mod considered;
mod contents;
mod copy;
mod env;
#[cfg(all(test, siltstone_shuttle))]
mod explored_store;
mod follow;
mod health;
mod iter;
mod keyspace;
mod keyspaces;
mod lookups;
pub(crate) mod open;
mod prediction;
mod read;
mod redesign;
mod repair;
mod report;
mod reporter;
mod reverse;
mod sidecars;
mod signals;
mod snapshot;
mod store;
mod stretch;
mod suffix_range;
mod tail;
#[cfg(test)]
mod tiny_designs;
mod transaction;
mod upkeep;
mod workload;
mod write;
mod write_buffer;

pub use background::{CompactProgress, CompactReport};
pub use backup::{BackupInfo, BackupOptions, BackupProgress, BackupReport, Backups};
pub use batch::Batch;
pub use build::{Ingest, IngestOptions, IngestProgress, IngestReport};
pub use conditional::{CompareAndSet, Old, Update};
pub use iter::{Iter, Keys};
pub use keyspace::Keyspace;
pub use open::verify::{VerifyProgress, VerifyReport};
pub use repair::{Loss, RepairProgress, RepairReport};
pub(crate) use report::level_stats;
pub use snapshot::Snapshot;
pub use suffix_range::{SuffixBounds, SuffixRange};
pub use tail::{Change, Tail, TailBatch, TailOperation};
pub use transaction::Transaction;
pub use upkeep::DrainProgress;
pub use write::operations::MAX_VALUE_BYTES;

use crate::error::{Error, Result};
use crate::io::Disk;
use crate::io::direct::DirectDisk;
use crate::io::os::OsDisk;
use crate::options::{Durability, KeyspaceOptions, Options, WriteOptions};
use crate::stats::Stats;
use catalog::keyspace::OpenKeyspace;
use repair::Target;
use siltstone_design::PrefixRules;
use std::path::Path;
use std::sync::Arc;
use store::Store;
use write::Committed;

/// An open store. Clones are handles to the same one; it closes with the last handle.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use siltstone::{Db, KeyspaceOptions, Options, Schema};
///
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let schema = Schema::delimited(b'/');
/// let files = db.keyspace("files", KeyspaceOptions { schema, ..KeyspaceOptions::default() })?;
/// files.put(b"home/notes.txt", b"42 bytes")?;
/// files.put(b"home/ideas.txt", b"7 bytes")?;
/// files.put(b"root/secret", b"1 byte")?;
/// let home: Vec<_> = files.prefix(b"home/")?.collect::<Result<_, _>>()?;
/// assert_eq!(home[0], (b"home/ideas.txt".to_vec(), b"7 bytes".to_vec()));
/// assert_eq!(home.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    store: Arc<Store>,
}

/// The operating system's disk, used as the options say.
fn disk(options: &Options) -> Arc<dyn Disk> {
    if options.direct_reads { Arc::new(DirectDisk::default()) } else { Arc::new(OsDisk) }
}

impl Db {
    /// Opens the store in directory `path`, creating it where there is none.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, Options};
    ///
    /// let options = Options { memory_budget_bytes: 64 << 20, ..Options::default() };
    /// let db = Db::open(dir.path().join("db"), options)?;
    /// assert!(db.keyspaces().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Locked` if another process has it open, `NotAStore` if the directory holds something else,
    /// `Corruption` if files are damaged, `InvalidInput` for options that can't work.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_on(disk(&options), path, options)
    }

    /// As [`Db::open`], on any [`Disk`].
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, Options};
    ///
    /// use siltstone::io::os::OsDisk;
    /// use std::sync::Arc;
    ///
    /// let db = Db::open_on(Arc::new(OsDisk), dir.path().join("db"), Options::default())?;
    /// assert!(db.keyspaces().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::start(open::open(path.as_ref(), options, disk)?)
    }

    /// Opens the store as it is now for reading only. Another process may have it open and go on writing;
    /// what it writes later is not seen here.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let reader = Db::open_read_only(dir.path().join("db"), Options::default())?;
    /// assert!(reader.get_keyspace("items").unwrap().contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::open`], but for `Locked`.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_read_only_on(disk(&options), path, options)
    }

    /// As [`Db::open_read_only`], on any [`Disk`].
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, Options};
    ///
    /// use siltstone::io::os::OsDisk;
    /// use std::sync::Arc;
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let disk = Arc::new(OsDisk);
    /// let reader = Db::open_read_only_on(disk, dir.path().join("db"), Options::default())?;
    /// assert!(reader.get_keyspace("items").unwrap().contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::open_read_only`].
    pub fn open_read_only_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::start(open::open_read_only(path.as_ref(), options, disk)?)
    }

    fn start(store: Store) -> Result<Self> {
        store.start()?;
        Ok(Self { store: Arc::new(store) })
    }

    fn handle(&self, opened: Arc<OpenKeyspace>) -> Keyspace {
        Keyspace::new(&self.store, opened)
    }

    /// The store's directory.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// assert_eq!(db.path(), dir.path().join("db"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &Path {
        &self.store.env.path
    }

    /// Writes a batch: all of it or nothing.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::{Batch, Durability, WriteOptions};
    ///
    /// let mut batch = Batch::new();
    /// batch.put(&items, "a", "1")?;
    /// batch.put(&items, "b", "2")?;
    /// db.write(&batch, &WriteOptions { durability: Some(Durability::Synced) })?;
    /// assert_eq!(items.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `StorageFull` while the disk is full, `Poisoned` after a failed sync, `ReadOnly` where the store is,
    /// `Closed` after [`Db::close`].
    pub fn write(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        let durability = options.durability.unwrap_or(self.store.env.options.durability);
        self.store.write(batch.operations(), durability, Vec::new()).map(|_| ())
    }

    /// Whether a write that began now would be slowed or stopped, as flushes or compactions are behind.
    ///
    /// For threads that must not wait, such as those of an event loop: they leave writing to others
    /// meanwhile. It says how things stand, and may have changed when the write begins.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// assert!(!db.is_slowed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_slowed(&self) -> bool {
        self.store.committer.is_slowed()
    }

    /// Runs `change`, which reads and writes through the transaction it is given, and writes what it has
    /// written, as if nobody else wrote meanwhile: all of it or nothing.
    ///
    /// It is optimistic: nothing is locked. Where another writer changes a key that `change` has read before
    /// its writes are done, nothing is written and `change` runs again from the start; so it must not rely on
    /// running once, and should be short. Where it fails, nothing is written, and its error is returned.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options, WriteOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let accounts = db.create_keyspace("accounts", KeyspaceOptions::default())?;
    /// accounts.put("ada", [70])?;
    /// accounts.put("bob", [10])?;
    /// let moved = db.transaction(&WriteOptions::default(), |tx| {
    ///     let balance = |value: Option<Vec<u8>>| value.and_then(|bytes| bytes.first().copied()).unwrap_or(0);
    ///     let (ada, bob) = (balance(tx.get(&accounts, "ada")?), balance(tx.get(&accounts, "bob")?));
    ///     let amount = ada.min(20);
    ///     tx.put(&accounts, "ada", [ada - amount])?;
    ///     tx.put(&accounts, "bob", [bob + amount])?;
    ///     Ok::<_, siltstone::Error>(amount)
    /// })?;
    /// assert_eq!((moved, accounts.get("bob")?), (20, Some(vec![30])));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Db::write`], and that of `change`.
    pub fn transaction<T, E: From<Error>>(
        &self,
        options: &WriteOptions,
        mut change: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let durability = options.durability.unwrap_or(self.store.env.options.durability);
        loop {
            let mut transaction = Transaction::new(self.snapshot());
            let result = change(&mut transaction)?;
            let (batch, conditions) = transaction.into_parts();
            if batch.is_empty() {
                // What it read was so at one moment, and there is nothing to write: a store that is open for
                // reading does as well.
                return Ok(result);
            }
            if self.store.write(batch.operations(), durability, conditions)? == Committed::Yes {
                return Ok(result);
            }
        }
    }

    /// Milliseconds since 1970, by the store's clock, which tells what has expired: that of the system, but
    /// that it never goes back. Where the system's clock is set back, the store's goes on at half the speed
    /// until the other has caught up, also after the store is opened again.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// let before = db.clock_ms();
    /// assert!(db.clock_ms() >= before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock_ms(&self) -> u64 {
        self.store.env.now_ms()
    }

    /// All keyspaces as they are now. It pins the files it may read; see [`Snapshot::age`].
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// items.clear()?;
    /// assert_eq!(snapshot.len(&items)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.store))
    }

    /// Makes everything written so far survive a power cut.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.sync()?; // From here on "a" survives a power cut.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io` if the sync fails, which poisons the store.
    pub fn sync(&self) -> Result<()> {
        self.store.env.check_writable()?;
        self.store.catalog.log.sync()?;
        self.store.catalog.note_synced_segment();
        Ok(())
    }

    /// Runs one due flush or compaction in the calling thread; false where nothing is due. Meant for stores
    /// opened with [`Options::background_threads`] 0.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let options = Options { background_threads: 0, ..Options::default() };
    /// let db = Db::open(dir.path().join("db"), options)?;
    /// db.keyspace("items", KeyspaceOptions::default())?.put("a", "1")?;
    /// while db.step()? {}
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the work; it is tried again at the next step.
    pub fn step(&self) -> Result<bool> {
        self.store.env.check_writable()?;
        self.store.step()
    }

    /// What the store has done and holds.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("key", "value")?;
    /// assert_eq!(db.stats().user_bytes_written, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// Closes the store for all its handles and says how that went; dropping the last handle closes it as
    /// well.
    ///
    /// Whatever is asked of the store afterwards fails with [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    /// That goes for reads as well, those of snapshots and of iterators that have not come to their end among
    /// them: the directory is no longer locked, so another process may remove the files that they would read.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// db.close()?;
    /// assert_eq!(items.get("a").unwrap_err().kind(), siltstone::ErrorKind::Closed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io` if the last sync fails.
    pub fn close(self) -> Result<()> {
        self.store.close()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Target for Db {
    fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        Self::keyspace(self, name, options)
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        self.write(batch, &WriteOptions { durability: Some(Durability::Buffered) })
    }

    fn names(&self) -> Vec<String> {
        self.keyspaces()
    }

    fn dir(&self) -> &Path {
        self.path()
    }

    fn unknown_operator(&self) -> &str {
        self.store.env.options.merge_operators.unknown()
    }

    fn prefix_rules(&self) -> &PrefixRules {
        &self.store.env.options.prefix_rules
    }
}
