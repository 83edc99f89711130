//! Files that no backup needs any more.

use super::files::open;
use super::record::{FILES, NEW, Records, last_number};
use crate::error::{Error, Result};
use crate::io::Disk;
use std::collections::BTreeSet;
use std::path::Path;

/// Removes files that no backup needs, and returns how many bytes they had. Where a record can't be read, all
/// stay: it may need them.
pub(super) fn sweep(disk: &dyn Disk, dir: &Path) -> Result<u64> {
    let records = Records::read(disk, dir)?;
    if !records.damaged.is_empty() {
        return Ok(0);
    }
    let needed: BTreeSet<String> =
        records.good.iter().flat_map(|record| record.files().map(|(name, _)| name)).collect();
    let files = dir.join(FILES);
    let mut freed = 0;
    for name in disk.list(&files).map_err(|e| Error::io(&e, "listing", &files))? {
        if needed.contains(&name) {
            continue;
        }
        let path = files.join(&name);
        freed +=
            open(disk, &path).and_then(|file| file.len().map_err(|e| Error::io(&e, "reading", &path)))?;
        disk.remove(&path).map_err(|e| Error::io(&e, "removing", &path))?;
    }
    let is_over =
        |name: &&String| name.ends_with(NEW) || last_number(name).is_some_and(|number| number < records.last);
    for name in disk.list(dir).unwrap_or_default().iter().filter(is_over) {
        let _ = disk.remove(&dir.join(name));
    }
    Ok(freed)
}
