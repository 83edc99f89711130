//! What an opening that gives up the end of a damaged log would lose is kept in `lost+found` first.

use crate::error::{Error, Result};
use crate::filename::LOST_AND_FOUND;
use crate::io::{Disk, read_file};
use crate::wal::Replayed;
use std::collections::BTreeSet;
use std::path::Path;

/// Copies the segments of a damaged log, and the tables that no manifest names, into `lost+found` in `dir`.
pub(super) fn keep(disk: &dyn Disk, dir: &Path, replayed: &Replayed, tables: &[String]) -> Result<()> {
    let lost = dir.join(LOST_AND_FOUND);
    disk.create_dir_all(&lost).map_err(|e| Error::io(&e, "creating directory", &lost))?;
    let mut there: BTreeSet<String> =
        disk.list(&lost).map_err(|e| Error::io(&e, "listing", &lost))?.into_iter().collect();
    let segments = replayed.live.iter().map(|segment| &segment.path).chain(&replayed.obsolete);
    let paths = segments.cloned().chain(tables.iter().map(|name| dir.join(name)));
    for from in paths {
        let Some(name) = from.file_name().and_then(|name| name.to_str()) else { continue };
        // Of an earlier opening that gave something up there may be a file of the name.
        let mut to = name.to_owned();
        let mut number = 1;
        while !there.insert(to.clone()) {
            to = format!("{name}.{number}");
            number += 1;
        }
        let fail = |e: std::io::Error| Error::io(&e, "keeping a copy of", &from);
        // Segments are cut or overwritten, so that a second name would not do.
        let bytes = read_file(disk, &from).map_err(fail)?;
        let file = disk.create(&lost.join(&to)).map_err(fail)?;
        file.write_all_at(&bytes, 0).map_err(fail)?;
        file.sync().map_err(fail)?;
    }
    disk.sync_dir(&lost).map_err(|e| Error::io(&e, "syncing directory", &lost))
}
