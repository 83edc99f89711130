//! Backups: a directory that holds a store as it was at several moments, each file once.
//!
//! ```text
//! backups/   00000001-5f0c11d2.backup            what backup 1 consists of: record.rs
//!            00000002-9a41e37b.backup
//!            files/00000042-<hash>.table         tables, under names that say what is in them
//!                  00000002-<hash>.manifest      the manifest of backup 2
//!            00000003.last                         backup 3 was the newest, and was deleted
//! ```
//!
//! Files are written under another name until they are whole and synced, and are never changed afterwards; a
//! backup exists once its record does, and is gone once its record is. So whatever is cut short leaves the
//! other backups whole, and the directory can be copied to an object store, or anywhere, file by file:
//! `files/` first, then the records.

mod create;
mod files;
mod info;
mod record;
mod sweep;

pub use info::{BackupInfo, BackupOptions, BackupProgress, BackupReport};

use super::catalog::Pinned;
use super::open::directory::{abandon_store, begin_store, finish_store, take_lock};
use super::store::Store;
use crate::error::{Error, ErrorKind, Result};
use crate::filename;
use crate::io::os::OsDisk;
use crate::io::{DirLock, Disk, File, read_file};
use crate::table::Table;
use crate::table::envelope::TableMeta;
use crate::version::manifest::{self, Manifest, StoreState};
use create::Creation;
use files::{Source, sync_dir};
use record::{FILES, Record, Records, Stored, last_name};
use siltstone_design::{Encoder, HashSecret, Schema};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sweep::sweep;

/// A directory of backups, as [`Db::backup`](crate::Db::backup) makes them.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use siltstone::{Backups, Db, KeyspaceOptions, Options};
///
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// let items = db.create_keyspace("items", KeyspaceOptions::default())?;
/// items.put("a", "1")?;
/// db.backup(dir.path().join("backups"))?;
/// items.put("a", "2")?;
/// db.backup(dir.path().join("backups"))?;
///
/// let backups = Backups::open(dir.path().join("backups"))?;
/// let numbers: Vec<u64> = backups.list()?.iter().map(|backup| backup.number).collect();
/// assert_eq!(numbers, [1, 2]);
/// backups.restore(1, dir.path().join("old"))?;
/// let old = Db::open(dir.path().join("old"), Options::default())?;
/// assert_eq!(old.get_keyspace("items").unwrap().get("a")?.as_deref(), Some(&b"1"[..]));
/// backups.delete(1)?;
/// assert_eq!(backups.list()?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Backups {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl Backups {
    /// Opens the backups in `dir`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::{Backups, Db, Options};
    ///
    /// items.put("a", "1")?;
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open(dir.path().join("backups"))?;
    /// assert_eq!(backups.list()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotAStore` where there is no such directory, or where it holds something else.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(Arc::new(OsDisk), dir)
    }

    /// As [`Backups::open`], on any [`Disk`].
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::Backups;
    /// use siltstone::io::os::OsDisk;
    /// use std::sync::Arc;
    ///
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open_on(Arc::new(OsDisk), dir.path().join("backups"))?;
    /// assert_eq!(backups.list()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Backups::open`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        check_directory(disk.as_ref(), dir)?;
        Ok(Self { disk, dir: dir.to_owned() })
    }

    /// Lists the backups, oldest first, but for those that [`Backups::damaged`] gives.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::{Backups, Db, Options};
    ///
    /// items.put("a", "1")?;
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open(dir.path().join("backups"))?;
    /// assert_eq!(backups.list()?[0].number, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io` where the directory can't be read.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        Ok(Records::read(self.disk.as_ref(), &self.dir)?.good.iter().map(BackupInfo::of).collect())
    }

    /// The numbers of backups whose records are damaged, so that nobody knows what they need. They can't be
    /// restored, and as long as they are there no file is removed.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// use siltstone::Backups;
    ///
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open(dir.path().join("backups"))?;
    /// for number in backups.damaged()? {
    ///     backups.delete(number)?;
    /// }
    /// assert_eq!(backups.list()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Backups::list`].
    pub fn damaged(&self) -> Result<Vec<u64>> {
        let records = Records::read(self.disk.as_ref(), &self.dir)?;
        Ok(records.damaged.iter().map(|(number, _)| *number).collect())
    }

    /// Deletes backup `number`, which may be [damaged](Backups::damaged), and the files that no other needs;
    /// returns how many bytes these had. The number is not given again.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::{Backups, Db, Options};
    ///
    /// items.put("a", "1")?;
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open(dir.path().join("backups"))?;
    /// backups.delete(1)?;
    /// assert!(backups.list()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where there is no such backup, `Locked` while one is being made.
    pub fn delete(&self, number: u64) -> Result<u64> {
        let disk = self.disk.as_ref();
        let _lock = lock(disk, &self.dir)?;
        let records = Records::read(disk, &self.dir)?;
        let damaged = records.damaged.iter().find(|(damaged, _)| *damaged == number);
        let path = match damaged {
            Some((_, path)) => path.clone(),
            None => self.dir.join(records.get(number, &self.dir)?.name()),
        };
        if number == records.last {
            keep_number(disk, &self.dir, number)?;
        }
        disk.remove(&path).map_err(|e| Error::io(&e, "removing", &path))?;
        // Only once it is gone for good may what it needs go.
        sync_dir(disk, &self.dir)?;
        sweep(disk, &self.dir)
    }

    /// Makes a store of backup `number` in the new directory `dest`; every byte is checked on the way.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::{Backups, Db, Options};
    ///
    /// items.put("a", "1")?;
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open(dir.path().join("backups"))?;
    /// backups.restore(1, dir.path().join("again"))?;
    /// let again = Db::open(dir.path().join("again"), Options::default())?;
    /// assert!(again.get_keyspace("items").unwrap().contains("a")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` where there is no such backup or `dest` holds anything, `Corruption` where a file of
    /// the backup is damaged.
    pub fn restore(&self, number: u64, dest: impl AsRef<Path>) -> Result<BackupInfo> {
        self.restore_with(number, dest, &BackupOptions::default(), &mut |_| {})
    }

    /// As [`Backups::restore`], with options; `progress` hears of it now and then.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::{Backups, Db, Options};
    ///
    /// items.put("a", "1")?;
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open(dir.path().join("backups"))?;
    /// let mut heard = 0;
    /// let options = siltstone::BackupOptions::default();
    /// backups.restore_with(1, dir.path().join("again"), &options, &mut |_| heard += 1)?;
    /// assert!(Db::open(dir.path().join("again"), Options::default()).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Backups::restore`].
    pub fn restore_with(
        &self,
        number: u64,
        dest: impl AsRef<Path>,
        options: &BackupOptions,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<BackupInfo> {
        let (disk, dest) = (self.disk.as_ref(), dest.as_ref());
        if dest.starts_with(&self.dir) {
            let dest = dest.display();
            return Err(Error::invalid(format_args!(
                "{dest} lies within the backups; name a directory elsewhere"
            )));
        }
        let records = Records::read(disk, &self.dir)?;
        let record = records.get(number, &self.dir)?;
        begin_store(disk, dest, "restored store")?;
        let restored = self.fill(record, dest, options, progress);
        match &restored {
            Ok(()) => finish_store(disk, dest),
            Err(_) => abandon_store(disk, dest),
        }
        restored.map(|()| BackupInfo::of(record))
    }

    fn fill(
        &self,
        record: &Record,
        dest: &Path,
        options: &BackupOptions,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> Result<()> {
        let (disk, files) = (self.disk.as_ref(), self.dir.join(FILES));
        let mut done = BackupProgress { bytes_total: record.bytes(), ..BackupProgress::default() };
        for stored in record.tables.iter().chain(&record.buffers) {
            let path = files.join(stored.table());
            let file = files::open(disk, &path)?;
            check_length(file.as_ref(), stored, &path)?;
            let source = Source { file: file.as_ref(), path: &path, number: stored.number, table: None };
            let to = filename::table_path(dest, stored.number);
            check_same(&source.link_or_copy(disk, &to, options.hard_links)?, stored, &path)?;
            done.bytes_done += stored.bytes;
            progress(done);
        }
        let path = files.join(record.manifest.manifest());
        self.check_file(&path, &record.manifest)?;
        let state = read_state(disk, &path)?;
        sync_dir(disk, dest)?;
        Manifest::create(Arc::clone(&self.disk), dest, 1, &state).map(|_| ())
    }

    /// Reads every byte of every backup and compares it with what was written; `progress` hears of it.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
    /// # let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
    /// use siltstone::{Backups, Db, Options};
    ///
    /// items.put("a", "1")?;
    /// db.backup(dir.path().join("backups"))?;
    /// let backups = Backups::open(dir.path().join("backups"))?;
    /// assert!(backups.verify(&mut |_| {})?.problems.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Io` where files can't be read; damage is reported, not returned as an error.
    pub fn verify(&self, progress: &mut dyn FnMut(BackupProgress)) -> Result<BackupReport> {
        let records = Records::read(self.disk.as_ref(), &self.dir)?;
        let mut report = BackupReport { backups: records.good.len() as u64, ..BackupReport::default() };
        for (number, path) in &records.damaged {
            let path = path.display();
            report.problems.push(format!("{path} is damaged: nobody knows what backup {number} needs"));
        }
        let mut wanted: BTreeSet<(String, Stored)> = BTreeSet::new();
        for record in &records.good {
            wanted.extend(record.files().map(|(name, stored)| (name, stored.clone())));
        }
        let bytes_total = wanted.iter().map(|(_, stored)| stored.bytes).sum();
        let mut bad: BTreeSet<u64> = records.damaged.iter().map(|(number, _)| *number).collect();
        for (name, stored) in wanted {
            let path = self.dir.join(FILES).join(&name);
            match self.check_file(&path, &stored) {
                Ok(()) => {}
                Err(error) if error.is_loss() => {
                    let needs = |record: &&Record| record.files().any(|(of_record, _)| of_record == name);
                    bad.extend(records.good.iter().filter(needs).map(|record| record.number));
                    report.problems.push(error.to_string());
                }
                Err(error) => return Err(error),
            }
            report.files += 1;
            report.bytes += stored.bytes;
            progress(BackupProgress { bytes_done: report.bytes, bytes_total, bytes_added: 0 });
        }
        report.damaged = bad.into_iter().collect();
        Ok(report)
    }

    /// Reads a file and compares it with what was written.
    fn check_file(&self, path: &Path, stored: &Stored) -> Result<()> {
        let file = files::open(self.disk.as_ref(), path)?;
        check_length(file.as_ref(), stored, path)?;
        let source = Source { file: file.as_ref(), path, number: stored.number, table: None };
        check_same(&source.read(&mut |_, _| Ok(()))?, stored, path)
    }
}

/// Compares the length of the file at `path` with what was written, before all of it is read.
fn check_length(file: &dyn File, expected: &Stored, path: &Path) -> Result<()> {
    let bytes = file.len().map_err(|e| Error::io(&e, "reading", path))?;
    if bytes == expected.bytes {
        return Ok(());
    }
    Err(damaged(path, format!("{} bytes", expected.bytes), format!("{bytes} bytes")))
}

/// Compares what was read of the file at `path` with what was written.
fn check_same(found: &Stored, expected: &Stored, path: &Path) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let in_words = |stored: &Stored| format!("{} bytes with hash {}", stored.bytes, stored.hash);
    Err(damaged(path, in_words(expected), in_words(found)))
}

fn damaged(path: &Path, expected: String, found: String) -> Error {
    Error::corruption(path, 0, expected, found).and("backups that do not need the file are not concerned")
}

/// Reads the manifest of a backup.
fn read_state(disk: &dyn Disk, path: &Path) -> Result<StoreState> {
    let bytes = read_file(disk, path).map_err(|e| Error::io(&e, "reading", path))?;
    let mut open = |meta: &TableMeta, schema: &Schema, state: &StoreState| {
        let encoder = Encoder::new(*schema, HashSecret(state.secret));
        Arc::new(Table::new(meta.clone(), encoder, Arc::default()))
    };
    let parsed = manifest::parse(&bytes, path, &mut open)?;
    parsed.damage.map_or(Ok(parsed.state), Err)
}

/// Makes a backup of `pinned` in the directory `dir`.
pub(super) fn backup(
    store: &Store,
    pinned: &Pinned,
    dir: &Path,
    options: &BackupOptions,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupInfo> {
    let disk = store.env.disk.as_ref();
    if dir.starts_with(&store.env.path) {
        return Err(Error::invalid(format_args!(
            "{} lies within the store; name a directory outside it for backups",
            dir.display()
        )));
    }
    let files = dir.join(FILES);
    disk.create_dir_all(dir).map_err(|e| Error::io(&e, "creating directory", dir))?;
    check_directory(disk, dir)?;
    let _lock = lock(disk, dir)?;
    disk.create_dir_all(&files).map_err(|e| Error::io(&e, "creating directory", &files))?;
    Creation { store, dir, options, progress, done: BackupProgress::default() }.run(pinned)
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>> {
    take_lock(disk, dir).map_err(|error| match error.kind() {
        ErrorKind::Locked => {
            let what = format!(
                "a backup is being made in {}, or one of it deleted, by this process or another one; wait until that is done",
                dir.display()
            );
            Error::new(ErrorKind::Locked, what).at(dir)
        }
        _ => error,
    })
}

/// Leaves word in `dir` that `number` has been given, for when its backup is gone.
fn keep_number(disk: &dyn Disk, dir: &Path, number: u64) -> Result<()> {
    let path = dir.join(last_name(number));
    disk.create(&path).map_err(|e| Error::io(&e, "creating", &path))?;
    sync_dir(disk, dir)
}

/// Refuses directories that hold something else than backups.
fn check_directory(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let names = disk.list(dir).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            let what = format!("there are no backups in {}: there is no such directory", dir.display());
            Error::new(ErrorKind::NotAStore, what).at(dir)
        }
        _ => Error::io(&e, "listing", dir),
    })?;
    match names.iter().find(|name| !record::is_ours(name)) {
        None => Ok(()),
        Some(foreign) => {
            let what = format!(
                "{} is no directory of backups: it holds {foreign:?}; name an empty or a new directory",
                dir.display()
            );
            Err(Error::new(ErrorKind::NotAStore, what).at(dir))
        }
    }
}
