//! A store's directory: what is in it, whether it is a store's, and who has it open.

use crate::error::{Error, ErrorKind, Result};
use crate::filename::{self, CURRENT, LOCK, UNFINISHED, UNREPAIRED, is_ours};
use crate::io::{DirLock, Disk, HeldBy};
use std::path::Path;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::db) enum Purpose {
    /// To be used.
    Use,
    /// To be filled by a repair.
    Repair,
    /// To be verified, as far as it can be.
    Verify,
}

/// Returns the names in `dir`; `None` where there is no such directory.
pub(crate) fn names(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<String>>> {
    match disk.list(dir) {
        Ok(names) => Ok(Some(names)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => Err(Error::new(
            ErrorKind::NotAStore,
            format!("{} is a file; a store is a directory", dir.display()),
        )
        .at(dir)),
        Err(e) => Err(Error::io(&e, "listing", dir)),
    }
}

/// Refuses directories that hold something else. A store may be made in an empty one if `may_create`.
pub(crate) fn check_is_store(names: &[String], dir: &Path, may_create: bool) -> Result<()> {
    let advice = if may_create { "name an empty or a new directory" } else { "check the path" };
    if names.iter().any(|name| name == UNREPAIRED) {
        return Err(Error::new(
            ErrorKind::NotAStore,
            format!(
                "{} holds a repaired store that was not finished: repair the damaged one into the same directory again",
                dir.display()
            ),
        )
        .at(dir));
    }
    if names.iter().any(|name| name == CURRENT) {
        return Ok(());
    }
    if let Some(foreign) = names.iter().find(|name| !is_ours(name)) {
        return Err(Error::new(
            ErrorKind::NotAStore,
            format!(
                "{} is not a Siltstone store: it holds {foreign:?} and no {CURRENT} file; {advice}",
                dir.display()
            ),
        )
        .at(dir));
    }
    if names.iter().any(|name| name == UNFINISHED) {
        return Err(Error::new(
            ErrorKind::NotAStore,
            format!(
                "{} was to become a store and was not finished: a checkpoint, a restored backup or a repaired store that was \
                 cut short; nothing in it is needed, make it again into the same directory, or remove that",
                dir.display()
            ),
        )
        .at(dir));
    }
    if names.iter().any(|name| filename::is_table(name)) {
        return Err(Error::corruption(
            &dir.join(CURRENT),
            0,
            "the file that names the manifest",
            "no such file, although there are tables",
        )
        .and("restore it from a copy"));
    }
    Ok(())
}

/// Says that there is no store in `dir`.
pub(crate) fn missing(dir: &Path) -> Error {
    let what = format!(
        "there is no Siltstone store in {}; check the path, or create one by writing to it",
        dir.display()
    );
    Error::new(ErrorKind::NotAStore, what).at(dir)
}

/// Locks the store in `dir` for this process.
pub(in crate::db) fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>> {
    let path = dir.join(LOCK);
    let owner = format!("process {}", std::process::id());
    disk.lock(&path, &owner).map_err(|e| not_locked(&e, dir, &path, &owner))
}

/// Says why the store in `dir` could not be locked for `owner`.
fn not_locked(e: &std::io::Error, dir: &Path, path: &Path, owner: &str) -> Error {
    match e.kind() {
        std::io::ErrorKind::WouldBlock if owner_of(e) == owner => Error::new(
            ErrorKind::Locked,
            format!(
                "{} is open in this process already ({owner}); share what is open, close it first, or open it read-only",
                dir.display()
            ),
        )
        .at(path),
        std::io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::Locked,
            format!("{} is locked by {}; close it there, or open it read-only", dir.display(), owner_of(e)),
        )
        .at(path),
        // As file systems of networks may have it.
        std::io::ErrorKind::Unsupported => Error::io(e, "locking", path).and(NEEDS_LOCKS),
        _ => Error::io(e, "locking", path),
    }
}

/// What to do where a file system knows no locks.
const NEEDS_LOCKS: &str = "the file system locks no files, which keeps two processes from writing to one store; put the store on another";

/// Returns who holds a lock, where the text in it is one that [`take_lock`] writes.
fn owner_of(error: &std::io::Error) -> &str {
    let holder = error.get_ref().and_then(|inner| inner.downcast_ref::<HeldBy>());
    holder.and_then(|holder| parse_owner(holder.owner.as_bytes())).unwrap_or("another process")
}

/// Reads LOCK's text, which says who opened the store.
pub(crate) fn parse_owner(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let number = text.strip_prefix("process ")?;
    (number.len() <= 20 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// Begins to make a store in `dir`, which is new, empty, or was left unfinished: until it is
/// [finished](finish_store), opening it says that it was not.
pub(in crate::db) fn begin_store(disk: &dyn Disk, dir: &Path, what: &str) -> Result<()> {
    let names = names(disk, dir)?.unwrap_or_default();
    let is_unfinished = names.iter().any(|name| name == UNFINISHED)
        && names.iter().all(|name| is_ours(name) && name != CURRENT);
    if !names.is_empty() && !is_unfinished {
        let dir = dir.display();
        return Err(Error::invalid(format_args!("{dir} is not empty; name a new directory for the {what}")));
    }
    let fail = |e: std::io::Error| Error::io(&e, "creating directory", dir);
    disk.create_dir_all(dir).map_err(fail)?;
    for name in names.iter().filter(|name| *name != UNFINISHED) {
        let path = dir.join(name);
        disk.remove(&path).map_err(|e| Error::io(&e, "removing", &path))?;
    }
    let marker = dir.join(UNFINISHED);
    disk.create(&marker).map_err(|e| Error::io(&e, "creating", &marker))?;
    disk.sync_dir(dir).map_err(|e| Error::io(&e, "syncing directory", dir))
}

/// Says that the store begun in `dir` is whole, which CURRENT has said already.
pub(in crate::db) fn finish_store(disk: &dyn Disk, dir: &Path) {
    // Left behind, it means nothing, and the next opening removes it.
    let _ = disk.remove(&dir.join(UNFINISHED));
}

/// Removes what was made of a store that could not be finished.
pub(in crate::db) fn abandon_store(disk: &dyn Disk, dir: &Path) {
    // A power cut may keep any of the names that go at once: first goes the one that calls the rest a
    // store, and last the one that says that they are none.
    let names = disk.list(dir).unwrap_or_default();
    let (first, last) = (|name: &str| name == CURRENT, |name: &str| name == UNFINISHED);
    let between = |name: &str| is_ours(name) && !first(name) && !last(name);
    for part in [&first as &dyn Fn(&str) -> bool, &between, &last] {
        // Where a name stays, so does the one that says what they are.
        let mut removed = names.iter().filter(|name| part(name)).map(|name| disk.remove(&dir.join(name)));
        if removed.any(|removed| removed.is_err()) || disk.sync_dir(dir).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_said_to_be_one() {
        let dir = Path::new("/net/db");
        let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
        let error = not_locked(&error, dir, &dir.join(LOCK), "process 7");
        assert_eq!(error.kind(), crate::ErrorKind::Io);
        let said = error.to_string();
        assert!(said.contains("/net/db/LOCK") && said.contains("locks no files"), "{said}");
    }
}
