//! Repair: every item that can be read of a damaged store, in a fresh one, and what could not be read, in
//! words.
//!
//! The damaged store is only read. Tables are read page by page, the oldest of a key's versions first, so that
//! newer ones overwrite them; then the log, past its damage. What can't be read, or not be put in its place
//! with certainty, is kept as it is in `lost+found` within the new store. Until all is done the new store has
//! a file UNREPAIRED, and does not open.

mod found;
mod salvage;

use super::Db;
use super::open::{self, Purpose};
use crate::error::{Error, ErrorKind, Result};
use crate::filename::{self, LOST_AND_FOUND, UNREPAIRED};
use crate::io::Disk;
use crate::options::Options;
use found::Found;
use salvage::Salvaging;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// What a repair did.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RepairReport {
    /// Items and deletions that were read from tables; a key may have several.
    pub entries: u64,
    /// Operations that were read from the log.
    pub operations: u64,
    /// Tables that were read.
    pub tables: u64,
    /// Tables that no manifest names and that were read all the same.
    pub unnamed_tables: u64,
    /// Keyspaces of the new store.
    pub keyspaces: Vec<String>,
    /// What is wrong with the manifest; none where it is whole.
    pub manifest: Option<String>,
    /// What was lost, or may be.
    pub losses: Vec<Loss>,
    /// Files of the damaged store that `lost+found` in the new one keeps.
    pub kept: Vec<String>,
}

/// Something that a repair could not read, or not place.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The file that it was in.
    pub file: String,
    /// The keyspace that it belongs to, where that is known.
    pub keyspace: Option<String>,
    /// Bytes that can't be read, as far as can be told.
    pub bytes: u64,
    /// Entries that are missing, as far as can be told.
    pub entries: u64,
    /// What happened, in a sentence.
    pub what: String,
}

/// How far a repair has come.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RepairProgress {
    /// Bytes of tables and logs that were read.
    pub bytes_done: u64,
    /// Bytes of all tables and logs.
    pub bytes_total: u64,
}

/// Salvages the store in `dir` into a new one in `dest`.
pub(super) fn repair(
    disk: Arc<dyn Disk>,
    dir: &Path,
    dest: &Path,
    options: &Options,
    progress: &mut dyn FnMut(RepairProgress),
) -> Result<RepairReport> {
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
    // Whoever has it open goes on writing to it.
    let _lock = open::directory::take_lock(disk.as_ref(), dir)?;
    begin(disk.as_ref(), dest)?;
    let found = Found::look(&disk, dir, options)?;
    let mut options = options.clone();
    options.create_if_missing = true;
    if found.state.next_id > 0 {
        options.hash_secret = Some(found.state.secret);
    }
    let store = open::open_for(dest, options, Arc::clone(&disk), Purpose::Repair)?;
    let db = Db::start(store)?;
    let report = Salvaging::new(&db, disk.as_ref(), &found, progress).run()?;
    db.flush()?;
    db.close()?;
    disk.sync_dir(dest).map_err(|e| Error::io(&e, "syncing directory", dest))?;
    let marker = dest.join(UNREPAIRED);
    disk.remove(&marker).map_err(|e| Error::io(&e, "removing", &marker))?;
    disk.sync_dir(dest).map_err(|e| Error::io(&e, "syncing directory", dest))?;
    Ok(report)
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
