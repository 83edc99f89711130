//! A walk over a directory tree, and the witness that remembers what the walk saw.
//!
//! Symbolic links are not followed and other file systems are entered; a directory that shows up twice (bind
//! mounts) is listed once. Directories that cannot be read and files that vanish are counted and passed over.

use super::record::{DirectoryId, Record};
use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Problems that are kept word by word; the others are counted.
const MAX_KEPT: usize = 5;

/// A directory that was listed.
#[derive(Debug)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// What its entries' keys begin with.
    pub id: DirectoryId,
}

/// One entry of a directory.
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its metadata.
    pub record: Record,
}

/// Remembers, in 16 bytes an entry, which keys and values the walk handed to the store, so that a difference
/// found later is laid at the right door: the store's, or that of somebody who changed the files meanwhile.
#[derive(Default)]
pub struct Witness {
    seen: HashMap<u64, u64>,
}

/// What the witness says about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Testimony {
    /// It was handed to the store like this.
    Same,
    /// It was handed to the store with another value.
    Different,
    /// It was not handed to the store.
    Unknown,
}

impl Witness {
    /// Remembers an item.
    pub fn remember(&mut self, key: &[u8], value: &[u8]) {
        self.seen.insert(hash(key), hash(value));
    }

    /// Number of items remembered.
    pub fn len(&self) -> u64 {
        self.seen.len() as u64
    }

    /// What it knows of `key` with `value`.
    pub fn ask(&self, key: &[u8], value: &[u8]) -> Testimony {
        match self.seen.get(&hash(key)) {
            None => Testimony::Unknown,
            Some(seen) if *seen == hash(value) => Testimony::Same,
            Some(_) => Testimony::Different,
        }
    }

    /// Whether it saw `key`.
    pub fn knows(&self, key: &[u8]) -> bool {
        self.seen.contains_key(&hash(key))
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// What a walk could not see.
#[derive(Debug, Default)]
pub struct Passed {
    /// Directories and files that could not be read.
    pub unreadable: u64,
    /// Files that vanished between being listed and being looked at.
    pub vanished: u64,
    /// The first of them, with the reason.
    pub examples: Vec<String>,
}

impl Passed {
    fn over(&mut self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            self.vanished += 1;
        } else {
            self.unreadable += 1;
        }
        if self.examples.len() < MAX_KEPT {
            self.examples.push(format!("{}: {error}", path.display()));
        }
    }
}

/// Lists `path` as it is now; entries that cannot be read go to `passed`.
pub fn list(path: &Path, passed: &mut Passed) -> io::Result<Vec<(Entry, Metadata)>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                passed.over(path, &error);
                break;
            }
        };
        let path = entry.path();
        let found = std::fs::symlink_metadata(&path)
            .and_then(|metadata| Record::of(&path, &metadata).map(|record| (record, metadata)));
        match found {
            Ok((record, metadata)) => {
                entries.push((Entry { name: entry.file_name().as_bytes().to_vec(), record }, metadata));
            }
            Err(error) => passed.over(&path, &error),
        }
    }
    Ok(entries)
}

/// Walks the tree below `root`, leaving out the directory `not` (the store itself), and hands over every
/// directory with its entries.
pub fn walk<E>(
    root: &Path,
    not: Option<DirectoryId>,
    passed: &mut Passed,
    mut visit: impl FnMut(Directory, Vec<Entry>) -> Result<(), E>,
) -> Result<(), E> {
    let mut open = vec![root.to_owned()];
    let mut listed = HashSet::new();
    while let Some(path) = open.pop() {
        // Looked at again just before it is listed: it may have been replaced since its parent was.
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => {
                passed.over(&path, &error);
                continue;
            }
        };
        let id = DirectoryId::of(&metadata);
        if Some(id) == not || !listed.insert(id) {
            continue;
        }
        let entries = match list(&path, passed) {
            Ok(entries) => entries,
            Err(error) => {
                passed.over(&path, &error);
                continue;
            }
        };
        for (entry, metadata) in &entries {
            if metadata.is_dir() {
                open.push(path.join(std::ffi::OsStr::from_bytes(&entry.name)));
            }
        }
        visit(Directory { path, id }, entries.into_iter().map(|(entry, _)| entry).collect())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn names(root: &Path, not: Option<DirectoryId>) -> Vec<String> {
        let mut passed = Passed::default();
        let mut names = Vec::new();
        walk::<Infallible>(root, not, &mut passed, |_, entries| {
            names.extend(entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()));
            Ok(())
        })
        .unwrap();
        names.sort();
        names
    }

    #[test]
    fn links_are_listed_but_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/loop")).unwrap();
        assert_eq!(names(dir.path(), None), ["a", "b", "file", "loop"]);
        let inner = DirectoryId::of(&std::fs::metadata(dir.path().join("a/b")).unwrap());
        assert_eq!(names(dir.path(), Some(inner)), ["a", "b", "loop"]);
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let mut passed = Passed::default();
        walk::<Infallible>(Path::new("/no/such/place"), None, &mut passed, |_, _| Ok(())).unwrap();
        assert_eq!((passed.vanished, passed.examples.len()), (1, 1));
    }

    #[test]
    fn the_witness_tells_changed_from_unknown() {
        let mut witness = Witness::default();
        witness.remember(b"k", b"v");
        assert_eq!(witness.ask(b"k", b"v"), Testimony::Same);
        assert_eq!(witness.ask(b"k", b"w"), Testimony::Different);
        assert_eq!(witness.ask(b"l", b"v"), Testimony::Unknown);
        assert!(witness.knows(b"k") && !witness.knows(b"l"));
        assert_eq!(witness.len(), 1);
    }
}
