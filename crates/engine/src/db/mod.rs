//! The store as users hold it: [`Db`], [`Keyspace`], [`Snapshot`], each method a few lines.

mod advice;
mod batch;
mod checkpoint;
mod clusters;
mod flush;
pub(crate) mod guides;
mod head;
mod indexes;
mod keyspace;
mod limits;
pub(crate) mod metadata;
mod read;
mod recover;
mod report;
mod scan;
mod snapshot;
pub(crate) mod store;
mod verify;
mod worker;
mod write;

pub use batch::{Batch, MAX_VALUE_BYTES};
pub use keyspace::Keyspace;
pub(crate) use recover::{LOCK, parse_owner};
pub use scan::Iter;
pub use snapshot::Snapshot;
pub use verify::{VerifyProgress, VerifyReport};

use crate::error::{Error, Result};
use crate::io::Disk;
use crate::io::direct::DirectDisk;
use crate::io::os::OsDisk;
use crate::options::{KeyspaceOptions, Options, WriteOptions};
use crate::stats::{KeyspaceCounters, Stats};
use crate::version::edit::{Edit, Step};
use crate::version::level::Version;
use arc_swap::ArcSwap;
use head::Head;
use parking_lot::Mutex;
use siltstone_design::Encoder;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use store::{KeyspaceInner, Store, View};

/// Longest keyspace name in bytes.
const MAX_NAME_BYTES: usize = 255;

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
    handle: Arc<Handle>,
}

/// What keeps a store open.
pub(crate) struct Handle {
    pub(crate) store: Arc<Store>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Handle {
    /// Stops the threads, makes everything written survive a power cut, and lets go of the directory.
    fn close(&self) -> Result<()> {
        let store = &self.store;
        if store.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        store.board.wake();
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has nothing left to say.
            let _ = thread.join();
        }
        let synced = if store.is_poisoned() { Ok(()) } else { store.sync_wal() };
        if synced.is_ok() && !store.is_poisoned() {
            store.note_log_end();
        }
        store.empty_trash();
        store.save_guides();
        *store.lock.lock() = None;
        synced
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to tell; whoever wants to know calls `Db::close`.
        let _ = self.close();
    }
}

/// The operating system's disk, used as the options say.
fn disk(options: &Options) -> Arc<dyn Disk> {
    if options.direct_reads { Arc::new(DirectDisk::default()) } else { Arc::new(OsDisk) }
}

impl Db {
    /// Opens the store in directory `path`, creating it where there is none.
    ///
    /// # Errors
    /// `Locked` if another process has it open, `NotAStore` if the directory holds something else, `Corruption` if files are
    /// damaged, `InvalidInput` for options that can't work.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_on(disk(&options), path, options)
    }

    /// As [`Db::open`], on any [`Disk`].
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let store = recover::open(path.as_ref(), options, disk)?;
        Ok(Self { handle: Handle::start(store)? })
    }

    /// Opens the store as it is now for reading only. Another process may have it open and go on writing; what it writes
    /// later is not seen here.
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
        let store = recover::open_read_only(path.as_ref(), options, disk)?;
        Ok(Self { handle: Handle::start(store)? })
    }

    fn store(&self) -> &Arc<Store> {
        &self.handle.store
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        &self.store().path
    }

    /// The keyspace `name`, created with `options` where there is none. One that exists keeps its design.
    ///
    /// # Errors
    /// `InvalidInput` if it exists with another schema, or if the name or the design can't be used.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let store = self.store();
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(Error::invalid(format_args!(
                "{name:?} can't name a keyspace; names have 1 to {MAX_NAME_BYTES} bytes and no control characters"
            )));
        }
        // Held throughout, so that two creators of one name don't meet.
        let _commit = store.commit.lock();
        if let Some(existing) = self.keyspace(name) {
            if existing.schema() != options.schema {
                return Err(Error::invalid(format_args!(
                    "keyspace {name:?} exists with another schema ({}, not {}); a schema can't be changed, use another name",
                    existing.schema(),
                    options.schema
                )));
            }
            return Ok(existing);
        }
        store.check_writable()?;
        let design = options.design.unwrap_or_else(|| store.options.default_design.clone());
        let checked = store.options.check_design(&design, &options.schema);
        checked.map_err(|error| error.of(format_args!("keyspace {name:?}")))?;
        let json = |e: serde_json::Error| Error::invalid(format_args!("design: {e}"));
        let id = store.next_id();
        let start = store.wal.lock().as_ref().map(|wal| wal.segment()).unwrap_or_default();
        let edit = Edit {
            keyspace: id,
            steps: vec![
                Step::Created {
                    name: name.to_owned(),
                    schema: serde_json::to_string(&options.schema).map_err(json)?,
                    design: serde_json::to_string(&design).map_err(json)?,
                },
                Step::Flushed { start, user_bytes: 0 },
            ],
        };
        let encoder = Encoder::new(options.schema, store.secret);
        let active = Head::new(&design, store.visible(), encoder, &store.memory);
        let view = View { active, sealed: Vec::new(), version: Arc::new(Version::default()) };
        let inner = Arc::new(KeyspaceInner {
            id,
            name: name.to_owned(),
            encoder,
            design,
            view: ArcSwap::from_pointee(view),
            counters: KeyspaceCounters::default(),
            upper_reads: Default::default(),
            pressure: AtomicU64::new(0),
            flushed: Mutex::new(start),
            dropped: AtomicBool::new(false),
        });
        store.commit_keyspace(&edit, || {
            store.keyspaces.write().insert(name.to_owned(), Arc::clone(&inner));
        })?;
        Ok(Keyspace { handle: Arc::clone(&self.handle), inner })
    }

    /// The keyspace `name`, if it exists.
    pub fn keyspace(&self, name: &str) -> Option<Keyspace> {
        let inner = self.store().keyspaces.read().get(name).cloned()?;
        Some(Keyspace { handle: Arc::clone(&self.handle), inner })
    }

    /// Names of the keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.store().keyspaces.read().keys().cloned().collect()
    }

    /// Removes a keyspace with everything in it. Handles to it read what they pinned; and refuse writes.
    ///
    /// # Errors
    /// `InvalidInput` where there is no such keyspace.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let store = self.store();
        store.check_writable()?;
        let _commit = store.commit.lock();
        let inner = store.keyspaces.read().get(name).cloned();
        let Some(inner) = inner else {
            return Err(Error::invalid(format_args!("there is no keyspace {name:?}")));
        };
        let edit = Edit { keyspace: inner.id, steps: vec![Step::Dropped] };
        store.commit_keyspace(&edit, || {
            inner.dropped.store(true, Ordering::Release);
            store.keyspaces.write().remove(name);
            let version = Arc::clone(&inner.view.load().version);
            version.tables().for_each(|table| table.mark_obsolete());
            version.cluster_files().for_each(|file| file.mark_obsolete());
        })?;
        store.board.wake();
        Ok(())
    }

    /// Writes a batch: all of it or nothing.
    ///
    /// # Errors
    /// `StorageFull` while the disk is full, `Poisoned` after a failed sync, `ReadOnly` where the store is.
    pub fn write(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        let durability = options.durability.unwrap_or(self.store().options.durability);
        self.store().write(batch.clone(), durability, None).map(|_| ())
    }

    /// All keyspaces as they are now. It pins the files it may read; see [`Snapshot::age`].
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.handle))
    }

    /// Makes everything written so far survive a power cut.
    ///
    /// # Errors
    /// `Io` if the sync fails, which poisons the store.
    pub fn sync(&self) -> Result<()> {
        self.store().check_writable()?;
        self.store().sync_wal()
    }

    /// Writes the heads of all keyspaces to tables and waits for it.
    ///
    /// # Errors
    /// Those of the write; what is not flushed stays in the log.
    pub fn flush(&self) -> Result<()> {
        let store = self.store();
        store.check_writable()?;
        {
            let _commit = store.commit.lock();
            for keyspace in store.all_keyspaces() {
                store.seal(&keyspace)?;
            }
        }
        self.wait_until(|| store.all_keyspaces().iter().all(|k| k.view.load().sealed.is_empty()))
    }

    /// Waits until no flush or compaction is due.
    ///
    /// # Errors
    /// The error that background work keeps meeting.
    pub fn wait_until_idle(&self) -> Result<()> {
        self.wait_until(|| self.store().is_idle())
    }

    fn wait_until(&self, done: impl Fn() -> bool) -> Result<()> {
        let store = self.store();
        while !done() {
            if store.options.background_threads == 0 {
                if !store.step()? {
                    break;
                }
                continue;
            }
            store.check_writable()?;
            if let Some(error) = &*store.background_error.lock() {
                return Err(error.clone());
            }
            store.board.wake();
            store.board.wait_for_progress(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Runs one due flush or compaction in the calling thread; false where nothing is due. Meant for stores opened with
    /// [`Options::background_threads`] 0.
    ///
    /// # Errors
    /// Those of the work; it is tried again at the next step.
    pub fn step(&self) -> Result<bool> {
        self.store().check_writable()?;
        self.store().step()
    }

    /// Makes a store in the new directory `dir` that holds what this one holds now, mostly by hard links: quick, online,
    /// and small until either of them changes.
    ///
    /// # Errors
    /// `InvalidInput` if `dir` holds anything; `Io` where it is on another file system.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.snapshot().checkpoint(dir.as_ref())
    }

    /// Reads every byte of every table and checks it; `progress` hears of it now and then.
    ///
    /// # Errors
    /// `Io` where files can't be read; damage is reported, not returned as an error.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        self.snapshot().verify(progress)
    }

    /// What the store has done and holds.
    pub fn stats(&self) -> Stats {
        self.store().stats()
    }

    /// Closes the store for all its handles and says how that went; dropping the last handle closes it as well.
    ///
    /// # Errors
    /// `Io` if the last sync fails.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}
