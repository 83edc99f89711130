//! A store's directory: what is in it, whether it is a store's, and who has it open.

use crate::db::guides::GUIDES;
use crate::db::metadata::CLUSTERS;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{EVENTS, EVENTS_OLD};
use crate::io::{DirLock, Disk};
use crate::version::manifest::{CURRENT, is_manifest};
use std::path::Path;

/// Name of the file whose lock means that a store is open.
pub(crate) const LOCK: &str = "LOCK";

/// Whether the engine makes files of this name.
pub(super) fn is_ours(name: &str) -> bool {
    [LOCK, CURRENT, GUIDES, CLUSTERS, EVENTS, EVENTS_OLD].contains(&name)
        || is_manifest(name)
        || name.ends_with(".table")
        || name.ends_with(".wal")
        || name.ends_with(".cluster")
}

/// Returns the names in `dir`; `None` where there is no such directory.
pub(super) fn names(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<String>>> {
    match disk.list(dir) {
        Ok(names) => Ok(Some(names)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => Err(Error::new(
            ErrorKind::NotAStore,
            format!("{} is a file; a store is a directory", dir.display()),
        )),
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
        ));
    }
    if names.iter().any(|name| name.ends_with(".table")) {
        return Err(Error::corruption(
            dir.join(CURRENT).display(),
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
    let dir = dir.display();
    Error::new(
        ErrorKind::NotAStore,
        format!("there is no Siltstone store in {dir}; check the path, or create one by writing to it"),
    )
}

/// Locks the store in `dir` for this process.
pub(super) fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>> {
    let path = dir.join(LOCK);
    let owner = format!("process {}", std::process::id());
    disk.lock(&path, &owner).map_err(|e| match e.kind() {
        std::io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::Locked,
            format!("{} is locked by {}; close it there, or open it read-only", dir.display(), owner_of(&e)),
        ),
        _ => Error::io(&e, "locking", &path),
    })
}

/// Returns who holds a lock, where its text is one that [`take_lock`] writes.
fn owner_of(text: &impl std::fmt::Display) -> String {
    let text = text.to_string();
    parse_owner(text.as_bytes()).map_or_else(|| "another process".to_owned(), str::to_owned)
}

/// Reads LOCK's text, which says who opened the store.
pub(crate) fn parse_owner(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let number = text.strip_prefix("process ")?;
    (number.len() <= 20 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}
