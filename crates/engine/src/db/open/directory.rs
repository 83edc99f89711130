//! A store's directory: what is in it, whether it is a store's, and who has it open.

use crate::error::{Error, ErrorKind, Result};
use crate::filename::{self, CURRENT, LOCK, is_ours};
use crate::io::{DirLock, Disk, HeldBy};
use std::path::Path;

/// Returns the names in `dir`; `None` where there is no such directory.
pub(super) fn names(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<String>>> {
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

/// Refuses directories that hold something else.
pub(super) fn check_is_store(names: &[String], dir: &Path) -> Result<()> {
    if names.iter().any(|name| name == CURRENT) {
        return Ok(());
    }
    if let Some(foreign) = names.iter().find(|name| !is_ours(name)) {
        return Err(Error::new(
            ErrorKind::NotAStore,
            format!(
                "{} is not a Siltstone store: it holds {foreign:?} and no {CURRENT} file; name an empty or a new directory",
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
pub(super) fn missing(dir: &Path) -> Error {
    let what = format!(
        "there is no Siltstone store in {}; check the path, or create one by writing to it",
        dir.display()
    );
    Error::new(ErrorKind::NotAStore, what).at(dir)
}

/// Locks the store in `dir` for this process.
pub(super) fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>> {
    let path = dir.join(LOCK);
    let owner = format!("process {}", std::process::id());
    disk.lock(&path, &owner).map_err(|e| match e.kind() {
        std::io::ErrorKind::WouldBlock if owner_of(&e) == owner => Error::new(
            ErrorKind::Locked,
            format!(
                "{} is open in this process already ({owner}); use clones of that Db, close it first, or open it read-only",
                dir.display()
            ),
        )
        .at(&path),
        std::io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::Locked,
            format!("{} is locked by {}; close it there, or open it read-only", dir.display(), owner_of(&e)),
        )
        .at(&path),
        _ => Error::io(&e, "locking", &path),
    })
}

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
