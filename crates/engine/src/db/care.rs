//! What is done for a store's safety: checkpoints and backups, tails for copies, repair and verification.

use super::open::Purpose;
use super::repair::Repair;
use super::{
    BackupInfo, BackupOptions, BackupProgress, Db, RepairProgress, RepairReport, Tail, VerifyProgress,
    VerifyReport,
};
use super::{disk, open};
use crate::error::Result;
use crate::io::Disk;
use crate::options::{Options, WalRecovery};
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// Makes a store in the new directory `dir` that holds what this one holds now, mostly by hard links:
    /// quick, online, and small until either of them changes.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.checkpoint(dir.path().join("copy"))?;
    /// items.delete("a")?;
    /// let copy = siltstone::Db::open(dir.path().join("copy"), siltstone::Options::default())?;
    /// assert!(copy.get_keyspace("items").unwrap().contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if `dir` holds anything; `Io` where it is on another file system.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.store.env.health.check_open()?;
        self.snapshot().checkpoint(dir.as_ref())
    }

    /// Adds a backup of what the store holds now to the directory of backups `dir`, which is made where there
    /// is none. Only what changed since the last one is brought there; see [`Backups`](crate::Backups) for
    /// what can be done with it.
    ///
    /// What write buffers hold is flushed first where it is more than 64 KiB, so that the next backup finds
    /// it in tables, which it has already. Less than that, and the write buffers of a store that is open for
    /// reading only, are brought as tables of this backup's own.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let made = db.backup(dir.path().join("backups"))?;
    /// assert_eq!(made.number, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Locked` while another backup is made there, `NotAStore` if `dir` holds something else, `Corruption`
    /// where a table that is to be copied is damaged. Earlier backups stay as they are.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupInfo> {
        self.backup_with(dir, &BackupOptions::default(), &mut |_| {})
    }

    /// As [`Db::backup`], with options; `progress` hears of it now and then.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::BackupOptions;
    ///
    /// let mut heard = 0;
    /// db.backup_with(dir.path().join("backups"), &BackupOptions::default(), &mut |_| heard += 1)?;
    /// # Ok(())
    /// # }
    /// ```
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
        self.flush_before_backup();
        self.snapshot().backup(dir.as_ref(), options, progress)
    }

    /// Follows the changes of the store from position `from_lsn` of its log on: batch by batch, as they were
    /// written, for a copy or a cache. A position is one that [`Db::log_position`],
    /// [`Db::oldest_log_position`] or a tail returned, and stays good when the store is opened again. How far
    /// back the log goes, [`Options::tail_retention_bytes`] says. Of a store that is open for reading only,
    /// the changes up to its opening are there.
    ///
    /// What was written to keyspaces that are dropped by now is left out; that one was created or dropped is
    /// not among the changes. Of bulk builds ([`Keyspace::ingest`](crate::Keyspace::ingest)), replacements
    /// ([`Db::replace`]) and clearances ([`Keyspace::clear`](crate::Keyspace::clear)), whose items do not go
    /// through the log, a tail tells that they happened, as [`Change::Replaced`](crate::Change::Replaced):
    /// copy the keyspace, or the store, afresh then.
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
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// let before = db.log_position();
    /// items.put("a", "1")?;
    /// assert!(db.log_position() > before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_position(&self) -> u64 {
        // What is in the log is visible once whoever writes it is done.
        let _commit = self.store.committer.lock();
        self.store.catalog.log.end_to_follow()
    }

    /// Returns the oldest position that a [`tail`](Db::tail) can begin at.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// let mut tail = db.tail(db.oldest_log_position())?.unsynced();
    /// assert!(tail.next_batch(std::time::Duration::ZERO)?.is_some());
    /// # Ok(())
    /// # }
    /// ```
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
    /// let items = Db::open(&whole, Options::default())?.get_keyspace("items").unwrap();
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
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::io::os::OsDisk;
    /// use siltstone::{Db, Options};
    /// use std::sync::Arc;
    ///
    /// items.put("a", "1")?;
    /// db.close()?;
    /// let (damaged, whole) = (dir.path().join("db"), dir.path().join("whole"));
    /// let report = Db::repair_on(Arc::new(OsDisk), damaged, whole, &Options::default(), &mut |_| {})?;
    /// assert!(report.losses.is_empty());
    /// # Ok(())
    /// # }
    /// ```
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
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// items.put("a", "1")?;
    /// db.flush()?;
    /// let report = db.verify(&mut |_| {})?;
    /// assert!(report.problems.is_empty() && report.tables == 1);
    /// # Ok(())
    /// # }
    /// ```
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
    /// `NotAStore` where there is no store, `Io` where the process lacks memory or open files; damage is
    /// reported, not returned as an error, and so is what can't be read.
    pub fn verify_dir(
        dir: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<VerifyReport> {
        Self::verify_dir_on(disk(options), dir, options, progress)
    }

    /// As [`Db::verify_dir`], on any [`Disk`].
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::io::os::OsDisk;
    /// use std::sync::Arc;
    ///
    /// items.put("a", "1")?;
    /// let disk = Arc::new(OsDisk);
    /// let report = siltstone::Db::verify_dir_on(disk, db.path(), &siltstone::Options::default(), &mut |_| {})?;
    /// assert!(report.problems.is_empty());
    /// # Ok(())
    /// # }
    /// ```
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
        let (store, of_log) = match open(WalRecovery::Strict) {
            Ok(store) => (store, None),
            Err(error) if error.is_loss() => match open(WalRecovery::StopAtDamage) {
                Ok(store) => (store, Some(error.to_string())),
                Err(worse) if worse.is_loss() => return Ok(VerifyReport::of(worse.to_string())),
                Err(other) => return Err(other),
            },
            Err(other) => return Err(other),
        };
        let mut report = Self::start(store)?.verify(progress)?;
        report.problems.splice(0..0, of_log);
        report.advise();
        Ok(report)
    }
}
