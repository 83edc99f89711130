//! Everything a simulated disk holds at one moment: files, names, and which of both would survive a power
//! cut.
//!
//! A file's bytes and a directory's names exist twice: as programs see them (`current`) and as the last sync
//! left them (`durable`). Between the two stands the ordered history of unsynced operations, numbered over
//! the whole disk, from which `crash.rs` picks what survives.
//!
//! Names map to inodes, and inodes live on under open handles after their last name is gone.
//!
//! Invariants:
//! * replaying a directory's history over its durable names gives its current names;
//! * the same holds for a file's bytes, unless one of its syncs has failed;
//! * every inode named in a map or a history exists in `inodes`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::content::Content;
use super::crash::SplitMix64;
use super::history::History;

/// Larger files are a bug in a test: the list of chunk pointers alone would fill memory.
const MAX_FILE_BYTES: u64 = 1 << 36;

pub(super) type InodeId = u64;
pub(super) type Names = BTreeMap<String, InodeId>;

/// An unsynced operation with its place in the order over the whole disk.
#[derive(Debug)]
pub(super) struct Pending<T> {
    pub(super) number: u64,
    pub(super) op: T,
}

/// An unsynced change to a file's bytes.
#[derive(Debug)]
pub(super) enum BytesOp {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLen(u64),
}

impl BytesOp {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(*offset, bytes),
            Self::SetLen(len) => content.set_len(*len),
        }
    }
}

/// An unsynced change to a directory's names.
#[derive(Debug)]
pub(super) enum NameOp {
    /// A new name, of a new file or of an old one (hard link).
    Add {
        name: String,
        inode: InodeId,
    },
    Remove {
        name: String,
        inode: InodeId,
    },
    /// One operation, so that it survives as a whole or not at all.
    Rename {
        from: String,
        to: String,
        inode: InodeId,
    },
}

impl NameOp {
    /// Applies the change, or skips it where an operation that it builds on did not survive.
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Add { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Self::Remove { name, inode } => {
                if names.get(name) == Some(inode) {
                    names.remove(name);
                }
            }
            Self::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) current: Content,
    pub(super) durable: Content,
    pub(super) unsynced: History<Pending<BytesOp>>,
    /// Operations below this number were dropped by a failed sync: a later sync does not write them.
    lost_below: u64,
}

impl Inode {
    pub(super) fn settled(content: Content) -> Self {
        Self { durable: content.clone(), current: content, ..Self::default() }
    }

    fn sync(&mut self) {
        if self.lost_below == 0 {
            self.durable = self.current.clone();
        } else {
            for pending in self.unsynced.oldest_first() {
                if pending.number >= self.lost_below {
                    pending.op.apply(&mut self.durable);
                }
            }
        }
        self.unsynced.clear();
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Dir {
    pub(super) current: Names,
    pub(super) durable: Names,
    pub(super) unsynced: History<Pending<NameOp>>,
}

/// The disk at one moment. Cloning shares every file and directory.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) inodes: BTreeMap<InodeId, Arc<Inode>>,
    /// By normalized path. Directories themselves are durable from birth, as `Disk::create_dir_all`
    /// promises.
    pub(super) dirs: BTreeMap<PathBuf, Arc<Dir>>,
    pub(super) now_ms: u64,
    /// What [`Disk::random_u64`](crate::io::Disk::random_u64) gives next.
    pub(super) random: SplitMix64,
    next_inode: InodeId,
    next_op: u64,
}

impl Image {
    /// An empty disk: a root directory.
    pub(super) fn empty(now_ms: u64) -> Self {
        let dirs = BTreeMap::from([(PathBuf::from("/"), Arc::default())]);
        // Operations count from 1, so that `lost_below: 0` means that no sync has failed.
        let (inodes, random) = (BTreeMap::new(), SplitMix64(0));
        Self { inodes, dirs, now_ms, random, next_inode: 1, next_op: 1 }
    }

    /// A disk on which everything is durable; contents that no name reaches are left out.
    pub(super) fn settled(
        names: BTreeMap<PathBuf, Names>,
        mut contents: BTreeMap<InodeId, Content>,
        now_ms: u64,
        random: SplitMix64,
    ) -> Self {
        let reached: BTreeSet<InodeId> = names.values().flat_map(|names| names.values().copied()).collect();
        contents.retain(|inode, _| reached.contains(inode));
        let next_inode = reached.last().map_or(1, |last| last + 1);
        let inodes = contents.into_iter().map(|(id, content)| (id, Arc::new(Inode::settled(content))));
        let dirs = names.into_iter().map(|(path, names)| {
            (path, Arc::new(Dir { current: names.clone(), durable: names, unsynced: History::default() }))
        });
        let (inodes, dirs) = (inodes.collect(), dirs.collect());
        Self { inodes, dirs, now_ms, random, next_inode, next_op: 1 }
    }

    pub(super) fn lookup(&self, path: &Path) -> io::Result<InodeId> {
        if self.dirs.contains_key(path) {
            return Err(Errno::ISDIR.into());
        }
        let (parent, name) = split(path)?;
        self.dir(parent)?.current.get(name).copied().ok_or_else(|| Errno::NOENT.into())
    }

    /// The directory at `path`, or the error that the operating system gives.
    pub(super) fn dir(&self, path: &Path) -> io::Result<&Dir> {
        if let Some(dir) = self.dirs.get(path) {
            return Ok(dir);
        }
        let is_file = self.lookup(path).is_ok();
        Err(if is_file { Errno::NOTDIR } else { Errno::NOENT }.into())
    }

    pub(super) fn inode(&self, inode: InodeId) -> io::Result<&Inode> {
        self.inodes.get(&inode).map(Arc::as_ref).ok_or_else(|| Errno::STALE.into())
    }

    pub(super) fn inode_mut(&mut self, inode: InodeId) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).map(Arc::make_mut).ok_or_else(|| Errno::STALE.into())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = self.dir(dir)?.current.keys().cloned().collect();
        let children = self.dirs.keys().filter(|path| path.parent() == Some(dir));
        names.extend(children.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())));
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !self.dirs.contains_key(*dir)).collect();
        if missing.iter().any(|path| self.lookup(path).is_ok()) {
            return Err(Errno::EXIST.into());
        }
        self.dirs.extend(missing.into_iter().map(|path| (path.to_owned(), Arc::default())));
        Ok(())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        match self.lookup(path) {
            Ok(inode) => {
                self.set_len(inode, 0)?;
                Ok(inode)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let (parent, name) = split(path)?;
                let inode = self.next_inode;
                self.log_name(parent, NameOp::Add { name: name.to_owned(), inode })?;
                self.next_inode += 1;
                self.inodes.insert(inode, Arc::default());
                Ok(inode)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.lookup(path)?;
        let (parent, name) = split(path)?;
        self.log_name(parent, NameOp::Remove { name: name.to_owned(), inode })
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.lookup(from)?;
        if self.dirs.contains_key(to) || self.lookup(to).is_ok() {
            return Err(Errno::EXIST.into());
        }
        let (parent, name) = split(to)?;
        self.log_name(parent, NameOp::Add { name: name.to_owned(), inode })
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.lookup(from)?;
        if self.dirs.contains_key(to) {
            return Err(Errno::ISDIR.into());
        }
        // POSIX: renaming between two names of one file leaves both.
        if self.lookup(to).is_ok_and(|other| other == inode) {
            return Ok(());
        }
        let ((from_dir, from_name), (to_dir, to_name)) = (split(from)?, split(to)?);
        let (from_name, to_name) = (from_name.to_owned(), to_name.to_owned());
        if from_dir == to_dir {
            return self.log_name(from_dir, NameOp::Rename { from: from_name, to: to_name, inode });
        }
        // The new name first: a crash in between leaves both names, never neither.
        self.log_name(to_dir, NameOp::Add { name: to_name, inode })?;
        self.log_name(from_dir, NameOp::Remove { name: from_name, inode })
    }

    pub(super) fn write(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > MAX_FILE_BYTES) {
            return Err(Errno::FBIG.into());
        }
        self.log_bytes(inode, BytesOp::Write { offset, bytes: bytes.into() })
    }

    pub(super) fn set_len(&mut self, inode: InodeId, len: u64) -> io::Result<()> {
        if len > MAX_FILE_BYTES {
            return Err(Errno::FBIG.into());
        }
        if self.inode(inode)?.current.len() == len {
            return Ok(());
        }
        self.log_bytes(inode, BytesOp::SetLen(len))
    }

    pub(super) fn sync(&mut self, inode: InodeId) -> io::Result<()> {
        self.inode_mut(inode)?.sync();
        Ok(())
    }

    /// Makes a file's bytes durable as they read now, past any failed sync.
    pub(super) fn settle_file(&mut self, inode: InodeId) -> io::Result<()> {
        let inode = self.inode_mut(inode)?;
        *inode = Inode::settled(inode.current.clone());
        Ok(())
    }

    /// What Linux does when writing back fails: the bytes stay readable but count as clean, and are never
    /// written.
    pub(super) fn fail_sync(&mut self, inode: InodeId) {
        let next_op = self.next_op;
        if let Ok(inode) = self.inode_mut(inode) {
            inode.lost_below = next_op;
        }
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        self.dir(path)?;
        if let Some(dir) = self.dirs.get_mut(path).map(Arc::make_mut) {
            dir.durable = dir.current.clone();
            dir.unsynced.clear();
        }
        Ok(())
    }

    /// Makes everything durable, as it reads now.
    pub(super) fn settle(&mut self) {
        for dir in self.dirs.values_mut().map(Arc::make_mut) {
            dir.durable = dir.current.clone();
            dir.unsynced.clear();
        }
        for inode in self.inodes.values_mut() {
            *inode = Arc::new(Inode::settled(inode.current.clone()));
        }
    }

    /// Forgets files that no name reaches, neither now nor after a crash, and that `is_open` does not hold.
    pub(super) fn collect(&mut self, is_open: impl Fn(InodeId) -> bool) {
        let mut reached: BTreeSet<InodeId> = BTreeSet::new();
        for dir in self.dirs.values() {
            reached.extend(dir.current.values());
            reached.extend(dir.durable.values());
            reached.extend(dir.unsynced.oldest_first().into_iter().map(|pending| match &pending.op {
                NameOp::Add { inode, .. } | NameOp::Remove { inode, .. } | NameOp::Rename { inode, .. } => {
                    inode
                }
            }));
        }
        self.inodes.retain(|id, _| reached.contains(id) || is_open(*id));
    }

    /// Bytes in files that have a name or that `is_open` holds.
    pub(super) fn used_bytes(&self, is_open: impl Fn(InodeId) -> bool) -> u64 {
        let named: BTreeSet<InodeId> =
            self.dirs.values().flat_map(|dir| dir.current.values().copied()).collect();
        let used = self.inodes.iter().filter(|(id, _)| named.contains(id) || is_open(**id));
        used.map(|(_, inode)| inode.current.len()).sum()
    }

    /// Operations that a power cut would drop, in bytes and in names.
    pub(super) fn unsynced_ops(&self) -> usize {
        let bytes: usize = self.inodes.values().map(|inode| inode.unsynced.len()).sum();
        bytes + self.dirs.values().map(|dir| dir.unsynced.len()).sum::<usize>()
    }

    fn log_bytes(&mut self, inode: InodeId, op: BytesOp) -> io::Result<()> {
        let number = self.next_op;
        let inode = self.inode_mut(inode)?;
        op.apply(&mut inode.current);
        inode.unsynced.push(Pending { number, op });
        self.next_op += 1;
        Ok(())
    }

    fn log_name(&mut self, dir: &Path, op: NameOp) -> io::Result<()> {
        self.dir(dir)?;
        let number = self.next_op;
        if let Some(dir) = self.dirs.get_mut(dir).map(Arc::make_mut) {
            op.apply(&mut dir.current);
            dir.unsynced.push(Pending { number, op });
        }
        self.next_op += 1;
        Ok(())
    }
}

/// The one spelling of a path: from the root, without `.` and `..`.
pub(super) fn normalize(path: &Path) -> io::Result<PathBuf> {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Normal(name) if name.to_str().is_some() => normal.push(name),
            Component::Normal(_) => return Err(Errno::INVAL.into()),
        }
    }
    Ok(normal)
}

/// A normalized path's directory and name.
fn split(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent().zip(name).ok_or_else(|| Errno::ISDIR.into())
}
