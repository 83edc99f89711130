//! Repair: every item that can be read of a damaged store, in a fresh one, and what could not be read, in
//! words.
//!
//! The damaged store is only read. Tables are read page by page, the oldest of a key's versions first, so
//! that newer ones overwrite them; then the log, past its damage. What can't be read, or not be put in its
//! place with certainty, is kept as it is in `lost+found` within the new store. Until all is done the new
//! store has a file UNREPAIRED, and does not open.

mod found;
mod kept;
mod report;
mod salvage;
mod target;

pub use report::{Loss, RepairProgress, RepairReport};
pub(super) use target::Target;

use super::open::directory::take_lock;
use crate::error::{Error, ErrorKind, Result};
use crate::filename::{self, LOST_AND_FOUND, UNREPAIRED};
use crate::io::{DirLock, Disk};
use crate::options::Options;
use found::Found;
use salvage::Salvaging;
use std::path::Path;
use std::sync::Arc;

/// A repair that has looked at the damaged store and made the directory of the new one.
pub(super) struct Repair {
    disk: Arc<dyn Disk>,
    found: Found,
    /// Whoever has the damaged store open would go on writing to it.
    _lock: Box<dyn DirLock>,
}

impl Repair {
    /// Looks at the store in `dir`, and begins a new one in `dest`.
    pub fn begin(disk: Arc<dyn Disk>, dir: &Path, dest: &Path, options: &Options) -> Result<Self> {
        if dest.starts_with(dir) || dir.starts_with(dest) {
            let dest = dest.display();
            return Err(Error::invalid(format_args!("{dest} and the damaged store lie within one another")));
        }
        let names = disk.list(dir).map_err(|e| Error::io(&e, "listing", dir))?;
        let is_store = |name: &String| {
            filename::is_table(name) || filename::is_wal(name) || filename::manifest_number(name).is_some()
        };
        if !names.iter().any(is_store) {
            let what = format!("there is nothing of a store in {}: no table, log or manifest", dir.display());
            return Err(Error::new(ErrorKind::NotAStore, what).at(dir));
        }
        let lock = take_lock(disk.as_ref(), dir)?;
        begin(disk.as_ref(), dest)?;
        let found = Found::look(&disk, dir, options)?;
        Ok(Self { disk, found, _lock: lock })
    }

    /// Returns the options of the new store: its keys keep their places.
    pub fn options(&self, options: &Options) -> Options {
        let mut options = Options { create_if_missing: true, ..options.clone() };
        if self.found.state.next_id > 0 {
            options.hash_secret = Some(self.found.state.secret);
        }
        options
    }

    /// Writes what can be read into `target`.
    pub fn fill(
        &self,
        target: &dyn Target,
        progress: &mut dyn FnMut(RepairProgress),
    ) -> Result<RepairReport> {
        Salvaging::new(target, self.disk.as_ref(), &self.found, progress).run()
    }

    /// Says that the store in `dest`, which is closed, is whole.
    pub fn finish(self, dest: &Path) -> Result<()> {
        let disk = self.disk.as_ref();
        disk.sync_dir(dest).map_err(|e| Error::io(&e, "syncing directory", dest))?;
        let marker = dest.join(UNREPAIRED);
        disk.remove(&marker).map_err(|e| Error::io(&e, "removing", &marker))?;
        disk.sync_dir(dest).map_err(|e| Error::io(&e, "syncing directory", dest))
    }
}

/// Makes the directory of the new store, or empties one of a repair that was cut short.
fn begin(disk: &dyn Disk, dest: &Path) -> Result<()> {
    let names = disk.list(dest).unwrap_or_default();
    let is_unfinished = names.iter().any(|name| name == UNREPAIRED)
        && names.iter().all(|name| filename::is_ours(name) || name == LOST_AND_FOUND);
    if !names.is_empty() && !is_unfinished {
        let dest = dest.display();
        return Err(Error::invalid(format_args!(
            "{dest} is not empty; name a new directory for the repaired store"
        )));
    }
    let lost = dest.join(LOST_AND_FOUND);
    disk.create_dir_all(&lost).map_err(|e| Error::io(&e, "creating directory", &lost))?;
    let marker = dest.join(UNREPAIRED);
    disk.create(&marker).map_err(|e| Error::io(&e, "creating", &marker))?;
    disk.sync_dir(dest).map_err(|e| Error::io(&e, "syncing directory", dest))?;
    let old = names.iter().filter(|name| *name != UNREPAIRED && *name != LOST_AND_FOUND);
    let kept = disk.list(&lost).unwrap_or_default();
    for path in old.map(|name| dest.join(name)).chain(kept.iter().map(|name| lost.join(name))) {
        disk.remove(&path).map_err(|e| Error::io(&e, "removing", &path))?;
    }
    Ok(())
}
