//! The store as users hold it: [`Db`], [`Keyspace`], [`Snapshot`], each method a few lines.

mod background;
mod backup;
mod batch;
mod build;
mod catalog;
mod conditional;
mod env;
mod health;
mod iter;
mod keyspace;
mod keyspaces;
mod lookups;
pub(crate) mod open;
mod read;
mod repair;
mod report;
mod reporter;
mod sidecars;
mod signals;
mod snapshot;
mod store;
mod suffix_range;
mod tail;
#[cfg(test)]
mod tiny_designs;
mod transaction;
mod write;
mod write_buffer;

pub use backup::{BackupInfo, BackupOptions, BackupProgress, BackupReport, Backups};
pub use batch::Batch;
pub use build::{Ingest, IngestOptions, IngestProgress, IngestReport};
pub use conditional::{CompareAndSet, Old, Update};
pub use iter::Iter;
pub use keyspace::Keyspace;
pub use open::verify::{VerifyProgress, VerifyReport};
pub use repair::{Loss, RepairProgress, RepairReport};
pub use snapshot::Snapshot;
pub use suffix_range::{SuffixBounds, SuffixRange};
pub use tail::{Change, Tail, TailBatch, TailOperation};
pub use transaction::Transaction;
pub use write::operations::MAX_VALUE_BYTES;

use crate::error::{Error, ErrorKind, Result};
use crate::io::Disk;
use crate::io::direct::DirectDisk;
use crate::io::os::OsDisk;
use crate::options::{Durability, KeyspaceOptions, Options, WalRecovery, WriteOptions};
use crate::stats::Stats;
use catalog::keyspace::OpenKeyspace;
use open::Purpose;
use repair::{Repair, Target};
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
/// use siltstone::{Db, KeyspaceOptions, Options, PrefixRule, Schema, SuffixOrder};
///
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let schema = Schema::SemiSorted { prefix: PrefixRule::Delimiter { byte: b'/', count: 1 }, suffix: SuffixOrder::Ordered };
/// let files = db.create_keyspace("files", KeyspaceOptions { schema, ..KeyspaceOptions::default() })?;
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
    /// # Errors
    /// `Locked` if another process has it open, `NotAStore` if the directory holds something else,
    /// `Corruption` if files are damaged, `InvalidInput` for options that can't work.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_on(disk(&options), path, options)
    }

    /// As [`Db::open`], on any [`Disk`].
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::start(open::open(path.as_ref(), options, disk)?)
    }

    /// Opens the store as it is now for reading only. Another process may have it open and go on writing;
    /// what it writes later is not seen here.
    ///
    /// # Errors
    /// As [`Db::open`], but for `Locked`.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_read_only_on(disk(&options), path, options)
    }

    /// As [`Db::open_read_only`], on any [`Disk`].
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

    fn handle(&self, inner: Arc<OpenKeyspace>) -> Keyspace {
        Keyspace { store: Arc::clone(&self.store), inner }
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        &self.store.env.path
    }

    /// Writes a batch: all of it or nothing.
    ///
    /// # Errors
    /// `StorageFull` while the disk is full, `Poisoned` after a failed sync, `ReadOnly` where the store is,
    /// `Closed` after [`Db::close`].
    pub fn write(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        let durability = options.durability.unwrap_or(self.store.env.options.durability);
        self.store.write(batch.operations(), durability, Vec::new()).map(|_| ())
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
            if self.store.write(batch.operations(), durability, conditions)? == Committed::Yes {
                return Ok(result);
            }
        }
    }

    /// All keyspaces as they are now. It pins the files it may read; see [`Snapshot::age`].
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.store))
    }

    /// Makes everything written so far survive a power cut.
    ///
    /// # Errors
    /// `Io` if the sync fails, which poisons the store.
    pub fn sync(&self) -> Result<()> {
        self.store.env.check_writable()?;
        self.store.catalog.log.sync()
    }

    /// Writes the write buffers of all keyspaces to tables and waits for it.
    ///
    /// # Errors
    /// Those of the write; what is not flushed stays in the log.
    pub fn flush(&self) -> Result<()> {
        let Store { env, catalog, committer, .. } = &*self.store;
        env.check_writable()?;
        committer.seal_all()?;
        self.store.wait_until(|| !catalog.any_behind(|keyspace| !keyspace.view.load().sealed.is_empty()))
    }

    /// Waits until no flush or compaction is due.
    ///
    /// # Errors
    /// The error that background work keeps meeting.
    pub fn wait_until_idle(&self) -> Result<()> {
        self.store.wait_until(|| self.store.scheduler.is_idle())
    }

    /// Runs one due flush or compaction in the calling thread; false where nothing is due. Meant for stores
    /// opened with [`Options::background_threads`] 0.
    ///
    /// # Errors
    /// Those of the work; it is tried again at the next step.
    pub fn step(&self) -> Result<bool> {
        self.store.env.check_writable()?;
        self.store.scheduler.step()
    }

    /// Makes a store in the new directory `dir` that holds what this one holds now, mostly by hard links:
    /// quick, online, and small until either of them changes.
    ///
    /// # Errors
    /// `InvalidInput` if `dir` holds anything; `Io` where it is on another file system.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.store.env.health.check_open()?;
        self.snapshot().checkpoint(dir.as_ref())
    }

    /// Adds a backup of what the store holds now to the directory of backups `dir`, which is made where there
    /// is none. Only what changed since the last one is brought there; see [`Backups`] for what can be done
    /// with it.
    ///
    /// # Errors
    /// `Locked` while another backup is made there, `NotAStore` if `dir` holds something else, `Corruption`
    /// where a table that is to be copied is damaged. Earlier backups stay as they are.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupInfo> {
        self.backup_with(dir, &BackupOptions::default(), &mut |_| {})
    }

    /// As [`Db::backup`], with options; `progress` hears of it now and then.
    ///
    /// # Errors
    /// As [`Db::backup`].
    pub fn backup_with(
        &self,
        dir: impl AsRef<Path>,
        options: &BackupOptions,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<BackupInfo> {
        self.store.env.health.check_open()?;
        self.snapshot().backup(dir.as_ref(), options, progress)
    }

    /// Follows the changes of the store from position `from_lsn` of its log on: batch by batch, as they were
    /// written, for a copy or a cache. A position is one that [`Db::log_position`],
    /// [`Db::oldest_log_position`] or a tail returned, and stays good when the store is opened again. How far
    /// back the log goes, [`Options::tail_retention_bytes`] says. Of a store that is open for reading only,
    /// the changes up to its opening are there.
    ///
    /// What was written to keyspaces that are dropped by now is left out; that one was created or dropped is
    /// not among the changes. Nor are bulk builds ([`Keyspace::ingest`]) and replacements ([`Db::replace`]),
    /// which do not go through the log: copy the store afresh after one.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Batch, Db, KeyspaceOptions, Options, WriteOptions};
    /// use std::time::Duration;
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let copy = Db::open(dir.path().join("copy"), Options::default())?;
    /// let items = db.create_keyspace("items", KeyspaceOptions::default())?;
    /// let copied = copy.create_keyspace("items", KeyspaceOptions::default())?;
    ///
    /// let mut tail = db.tail(db.log_position())?;
    /// items.put("a", "1")?;
    /// items.delete("b")?;
    /// db.sync()?;
    /// while let Some(changes) = tail.next_batch(Duration::ZERO)? {
    ///     let mut batch = Batch::new();
    ///     for operation in &changes.operations {
    ///         batch.add(&copied, operation)?;
    ///     }
    ///     copy.write(&batch, &WriteOptions::default())?;
    /// }
    /// assert_eq!(copied.get("a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `PositionGone` where the log no longer goes back so far, or has never come so far.
    pub fn tail(&self, from_lsn: u64) -> Result<Tail> {
        self.store.env.health.check_open()?;
        Tail::new(Arc::clone(&self.store), from_lsn)
    }

    /// Returns the position of the log behind all that readers see now. A [`Db::checkpoint`] or
    /// [`Db::backup`] made afterwards holds all that comes before; a copy begun with it follows from here,
    /// since taking a change that it has already leaves it as it is.
    pub fn log_position(&self) -> u64 {
        // What is in the log is visible once whoever writes it is done.
        let _commit = self.store.committer.lock();
        self.store.catalog.log.bounds().1
    }

    /// Returns the oldest position that a [`tail`](Db::tail) can begin at.
    pub fn oldest_log_position(&self) -> u64 {
        self.store.catalog.log.bounds().0
    }

    /// Salvages the damaged store in `dir` into a new one in the directory `dest`: every item that can be
    /// read of its tables and its log. The damaged store is only read. What of it can't be read, or whose
    /// place is not known, is named in the report and kept in `lost+found` within `dest`. Nothing is to have
    /// the store open.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let damaged = dir.path().join("db");
    /// let db = Db::open(&damaged, Options::default())?;
    /// db.create_keyspace("items", KeyspaceOptions::default())?.put("a", "1")?;
    /// db.close()?;
    /// std::fs::write(damaged.join("CURRENT"), "nonsense").unwrap();
    /// assert!(Db::open(&damaged, Options::default()).is_err());
    ///
    /// let whole = dir.path().join("whole");
    /// let report = Db::repair(&damaged, &whole, &Options::default(), &mut |_| {})?;
    /// assert!(report.manifest.unwrap().contains("CURRENT"));
    /// let items = Db::open(&whole, Options::default())?.keyspace("items").unwrap();
    /// assert_eq!(items.get("a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotAStore` where `dir` has nothing of a store, `InvalidInput` where `dest` holds anything else than a
    /// repair that was cut short, `Locked` where the store is open; `Io` where files can't be read for other
    /// reasons than damage.
    pub fn repair(
        dir: impl AsRef<Path>,
        dest: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(RepairProgress),
    ) -> Result<RepairReport> {
        Self::repair_on(disk(options), dir, dest, options, progress)
    }

    /// As [`Db::repair`], on any [`Disk`].
    ///
    /// # Errors
    /// As [`Db::repair`].
    pub fn repair_on(
        disk: Arc<dyn Disk>,
        dir: impl AsRef<Path>,
        dest: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(RepairProgress),
    ) -> Result<RepairReport> {
        let dest = dest.as_ref();
        let repair = Repair::begin(Arc::clone(&disk), dir.as_ref(), dest, options)?;
        let db = Self::start(open::open_for(dest, repair.options(options), disk, Purpose::Repair)?)?;
        let report = repair.fill(&db, progress)?;
        db.flush()?;
        db.close()?;
        repair.finish(dest)?;
        Ok(report)
    }

    /// Reads every byte of every table and checks it; `progress` hears of it now and then.
    ///
    /// # Errors
    /// `Io` where files can't be read; damage is reported, not returned as an error.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        self.store.env.health.check_open()?;
        self.snapshot().verify(progress)
    }

    /// Verifies the store in `dir`, which may be too damaged to be opened: as [`Db::verify`], and goes on
    /// where tables are missing or the log is damaged. Of a store whose manifest is damaged, that is all
    /// there is to say. The store is only read; another process may have it open.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// db.create_keyspace("items", KeyspaceOptions::default())?.put("a", "1")?;
    /// db.close()?;
    /// let report = Db::verify_dir(dir.path().join("db"), &Options::default(), &mut |_| {})?;
    /// assert!(report.problems.is_empty() && report.advice.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotAStore` where there is no store, `Io` where files can't be read; damage is reported, not returned
    /// as an error.
    pub fn verify_dir(
        dir: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<VerifyReport> {
        Self::verify_dir_on(disk(options), dir, options, progress)
    }

    /// As [`Db::verify_dir`], on any [`Disk`].
    ///
    /// # Errors
    /// As [`Db::verify_dir`].
    pub fn verify_dir_on(
        disk: Arc<dyn Disk>,
        dir: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<VerifyReport> {
        let dir = dir.as_ref();
        let open = |wal_recovery| {
            let options = Options { wal_recovery, ..options.clone() };
            open::open_read_only_for(dir, options, Arc::clone(&disk), Purpose::Verify)
        };
        let is_damage = |error: &Error| error.kind() == ErrorKind::Corruption;
        let (store, of_log) = match open(WalRecovery::Strict) {
            Ok(store) => (store, None),
            Err(error) if is_damage(&error) => match open(WalRecovery::StopAtDamage) {
                Ok(store) => (store, Some(error.to_string())),
                Err(worse) if is_damage(&worse) => return Ok(VerifyReport::of(worse.to_string())),
                Err(other) => return Err(other),
            },
            Err(other) => return Err(other),
        };
        let mut report = Self::start(store)?.verify(progress)?;
        report.problems.splice(0..0, of_log);
        report.advise();
        Ok(report)
    }

    /// What the store has done and holds.
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
        self.create_keyspace(name, options)
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

    fn prefix_rules(&self) -> &PrefixRules {
        &self.store.env.options.prefix_rules
    }
}
