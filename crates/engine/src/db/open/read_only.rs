//! Opening a store for reading, beside whoever has it open for writing.
//!
//! The writer may move files meanwhile. So everything is opened first, and the manifest is then read again:
//! where it says something else, all of it is tried once more.

use super::directory::{Purpose, check_is_store, missing, names};
use super::opening::Opening;
use crate::db::catalog::CatalogParts;
use crate::db::store::Store;
use crate::error::{Error, ErrorKind, Result};
use crate::filename;
use crate::io::Disk;
use crate::io::checked::CheckedDisk;
use crate::options::Options;
use crate::stats::Stopwatch;
use crate::version::manifest::Loaded;
use siltstone_design::HashSecret;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often an opening tries to catch the files of a store that another process is writing, and for how long
/// it goes on where these change each time.
const TRIES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the store in `dir` for reading.
pub(in crate::db) fn open_read_only(dir: &Path, options: Options, disk: Arc<dyn Disk>) -> Result<Store> {
    open_read_only_for(dir, options, disk, Purpose::Use)
}

/// As [`open_read_only`], for one purpose or another: a verification opens a store that lacks tables too.
pub(in crate::db) fn open_read_only_for(
    dir: &Path,
    options: Options,
    disk: Arc<dyn Disk>,
    purpose: Purpose,
) -> Result<Store> {
    options.check()?;
    let disk = Arc::new(CheckedDisk::new(disk, dir));
    let names = names(disk.as_ref(), dir)?.ok_or_else(|| missing(dir))?;
    check_is_store(&names, dir, false)?;
    let started = Stopwatch::start();
    let mut tries = 0;
    loop {
        tries += 1;
        match try_open(dir, &options, &disk, purpose) {
            Ok(Some(store)) => return Ok(store),
            // The writer moved files under us.
            Ok(None) if tries < TRIES || started.elapsed() < PATIENCE => {}
            Ok(None) => {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("{} changes too fast to be opened read-only; try again", dir.display()),
                ));
            }
            // A log that is being reused looks damaged, one that is being removed is not there.
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) && tries < TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes one try; `None` where the files changed meanwhile.
fn try_open(
    dir: &Path,
    options: &Options,
    disk: &Arc<CheckedDisk>,
    purpose: Purpose,
) -> Result<Option<Store>> {
    let opening = Opening::new(Arc::clone(disk), dir, options.clone());
    let Some(loaded) = opening.load()? else { return Err(missing(dir)) };
    let end = loaded.end;
    match open_loaded(opening, loaded, purpose) {
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
            // What was read may have been replaced since, and nothing be damaged or missing.
            let again = Opening::new(Arc::clone(disk), dir, options.clone()).load();
            let has_changed = !matches!(again, Ok(Some(now)) if now.end == end);
            if has_changed { Ok(None) } else { Err(error) }
        }
        opened => opened,
    }
}

fn open_loaded(opening: Opening, loaded: Loaded, purpose: Purpose) -> Result<Option<Store>> {
    let state = loaded.state.clone();
    let tables: Vec<_> = state.keyspaces.values().flat_map(|k| k.version.tables()).cloned().collect();
    let (secret, next_id) = (HashSecret(state.secret), state.next_id);
    let keyspaces = opening.keyspaces(state)?;
    // Held open, the files stay readable when the writer removes their names.
    let sidecars = opening.sidecars(&secret, false)?;
    let files = opening.disk.list(&sidecars.dir).unwrap_or_default();
    let files = files.iter().filter(|name| filename::is_sidecar(name)).count();
    if opening.options.resources.is_none() {
        opening.memory.expect_no_writes();
    }
    // Nobody loads tables in the background here.
    let reader = opening
        .reader_of_kept_files(&sidecars, opening.options.max_open_files.max(tables.len() + files + 16));
    let replayed = opening.replay_log(&loaded, &keyspaces, &reader)?;
    let visible = replayed.end_lsn;
    let mut segments = opening.retained(&loaded, u64::MAX)?;
    segments.extend(replayed.live);
    for table in &tables {
        match reader.file(table.id()) {
            Err(error) if purpose == Purpose::Verify && error.kind() == ErrorKind::Corruption => {}
            file => drop(file.map_err(|error| opening.blame(error, &loaded))?),
        }
    }
    let Some(now) = opening.load()? else { return Ok(None) };
    if (now.end.number, now.state.log_start) != (loaded.end.number, loaded.state.log_start) {
        return Ok(None);
    }
    // The writer may have come further with the manifest before it wrote what was read of the log.
    now.check_end(&opening.dir, replayed.manifest_end)?;
    let catalog = CatalogParts { keyspaces, next_id, visible, wal: None, segments, manifest: None };
    let store = Store::new(opening.into_parts(&loaded.state, None, reader, catalog));
    store.sidecars.load();
    Ok(Some(store))
}
