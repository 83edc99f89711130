//! The store as users hold it: [`Db`], [`Keyspace`], [`Snapshot`], each method a few lines.

mod background;
mod batch;
mod catalog;
mod env;
mod health;
mod iter;
mod keyspace;
pub(crate) mod open;
mod read;
mod report;
mod reporter;
mod sidecars;
mod signals;
mod snapshot;
mod store;
mod suffix_range;
#[cfg(test)]
mod tiny_designs;
mod write;
mod write_buffer;

pub use batch::Batch;
pub use iter::Iter;
pub use keyspace::Keyspace;
pub use open::verify::{VerifyProgress, VerifyReport};
pub use snapshot::Snapshot;
pub use suffix_range::{SuffixBounds, SuffixRange};
pub use write::operations::MAX_VALUE_BYTES;

use crate::error::{Error, Result};
use crate::io::Disk;
use crate::io::direct::DirectDisk;
use crate::io::os::OsDisk;
use crate::options::{KeyspaceOptions, Options, WriteOptions};
use crate::stats::Stats;
use crate::version::Version;
use catalog::keyspace::{KeyspaceParts, OpenKeyspace};
use siltstone_design::Encoder;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use store::Store;

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

    /// The keyspace `name`, created with `options` where there is none. One that exists keeps its design.
    ///
    /// A design that is not given is [`Options::default_design`], with smaller write buffers and tables where
    /// the memory budget is too small for it.
    ///
    /// # Errors
    /// `InvalidInput` if it exists with another schema, or if the name or the design can't be used.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let mut created = self.create_keyspaces([(name, options)])?;
        created.pop().ok_or_else(|| Error::invalid("a keyspace was not created"))
    }

    /// As [`Db::create_keyspace`] for many keyspaces, with one sync for all: thousands take about as long as
    /// one. They are in the order given.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use siltstone::{Db, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path().join("db"), Options::default())?;
    /// let names: Vec<String> = (0..100).map(|tenant| format!("tenant {tenant}")).collect();
    /// let tenants = db.create_keyspaces(names.iter().map(|name| (name, KeyspaceOptions::default())))?;
    /// tenants[41].put(b"key", b"value")?;
    /// assert_eq!(db.keyspaces().len(), 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::create_keyspace`]; none is created then. A crash may leave the first of them.
    pub fn create_keyspaces<N: AsRef<str>>(
        &self,
        keyspaces: impl IntoIterator<Item = (N, KeyspaceOptions)>,
    ) -> Result<Vec<Keyspace>> {
        let Store { env, catalog, committer, .. } = &*self.store;
        // Held throughout, so that two creators of one name don't meet.
        let _commit = committer.lock();
        let (mut all, mut fresh) = (Vec::new(), BTreeMap::new());
        for (name, options) in keyspaces {
            let name = name.as_ref();
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
                return Err(Error::invalid(format_args!(
                    "{name:?} can't name a keyspace; names have 1 to {MAX_NAME_BYTES} bytes and no control characters"
                )));
            }
            let known = catalog.get(name).or_else(|| fresh.get(name).cloned());
            let keyspace = match known {
                Some(existing) => existing,
                None => self.new_keyspace(name, &options)?,
            };
            let schema = *keyspace.encoder.schema();
            if schema != options.schema {
                return Err(Error::invalid(format_args!(
                    "keyspace {name:?} exists with another schema ({schema}, not {}); a schema can't be changed, use another name",
                    options.schema
                )));
            }
            if catalog.by_number(keyspace.id).is_none() {
                fresh.insert(name.to_owned(), Arc::clone(&keyspace));
            }
            all.push(keyspace);
        }
        if !fresh.is_empty() {
            env.check_writable()?;
            let mut fresh: Vec<_> = fresh.into_values().collect();
            fresh.sort_by_key(|keyspace| keyspace.id);
            catalog.create(&fresh)?;
        }
        Ok(all.into_iter().map(|keyspace| self.handle(keyspace)).collect())
    }

    /// Makes a keyspace in memory. The caller holds the commit lock.
    fn new_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<Arc<OpenKeyspace>> {
        let Store { env, catalog, .. } = &*self.store;
        env.check_writable()?;
        let design = env.options.design_for(options);
        let checked = env.options.check_design(&design, &options.schema);
        checked.map_err(|error| error.of(format_args!("keyspace {name:?}")))?;
        let parts = KeyspaceParts {
            id: catalog.next_id(),
            name: name.to_owned(),
            encoder: Encoder::new(options.schema, env.secret).with_rules(&env.options.prefix_rules)?,
            design,
            version: Version::default(),
            flushed: catalog.log.segment(),
        };
        Ok(OpenKeyspace::new(parts, catalog.visible(), env.memory()))
    }

    /// The keyspace `name`, if it exists.
    pub fn keyspace(&self, name: &str) -> Option<Keyspace> {
        Some(self.handle(self.store.catalog.get(name)?))
    }

    /// Names of the keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.store.catalog.names()
    }

    /// Removes a keyspace with everything in it. Handles to it read what they pinned, and refuse writes with
    /// `NoKeyspace`.
    ///
    /// # Errors
    /// `NoKeyspace` where there is no such keyspace.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let Store { env, catalog, committer, .. } = &*self.store;
        env.check_writable()?;
        let _commit = committer.lock();
        let there_is_none = || Error::no_keyspace(format_args!("there is no keyspace {name:?}"));
        catalog.remove(&*catalog.get(name).ok_or_else(there_is_none)?)
    }

    /// Writes a batch: all of it or nothing.
    ///
    /// # Errors
    /// `StorageFull` while the disk is full, `Poisoned` after a failed sync, `ReadOnly` where the store is,
    /// `Closed` after [`Db::close`].
    pub fn write(&self, batch: &Batch, options: &WriteOptions) -> Result<()> {
        let durability = options.durability.unwrap_or(self.store.env.options.durability);
        self.store.write(batch.operations(), durability, None).map(|_| ())
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

    /// Reads every byte of every table and checks it; `progress` hears of it now and then.
    ///
    /// # Errors
    /// `Io` where files can't be read; damage is reported, not returned as an error.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        self.store.env.health.check_open()?;
        self.snapshot().verify(progress)
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
