//! The names of all files of a store.
//!
//! | file | is |
//! |---|---|
//! | `CURRENT`, `CURRENT.new` | which manifest counts, and the next one of that name before it is renamed |
//! | `MANIFEST-00000001` | the log of edits |
//! | `00000007.wal` | a segment of the write-ahead log |
//! | `00000042.table` | a table |
//! | `00000043.sidecar` | region filters |
//! | `SIDECARS` | the directory that sidecars are in, where that is another |
//! | `EVENTS`, `EVENTS.old` | what the store did lately, where it keeps an event log |
//! | `UNFINISHED` | its directory is to become a store: a checkpoint, a restored backup or a repaired store |
//! | `UNREPAIRED` | a repair is still to finish its store |
//! | `lost+found` | a directory of what a repair could not place |
//! | `BACKUP` | which backup of the store was the last |
//! | `LOCK` | its lock means that the store is open |
//!
//! Earlier programs wrote `GUIDES`, `CLUSTERS` and `00000043.cluster` where there are sidecars now.

use crate::ids::{FileId, SidecarId, TableId};
use std::path::{Path, PathBuf};

/// Names the manifest.
pub(crate) const CURRENT: &str = "CURRENT";
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// Its lock means that a store is open.
pub(crate) const LOCK: &str = "LOCK";
/// Says that a checkpoint, or the like, was begun here; once there is a `CURRENT`, it means nothing.
pub(crate) const UNFINISHED: &str = "UNFINISHED";
/// Says that a repair into this directory is not finished.
pub(crate) const UNREPAIRED: &str = "UNREPAIRED";
/// The directory of what a repair could not place.
pub(crate) const LOST_AND_FOUND: &str = "lost+found";
/// Names the last backup of the store.
pub(crate) const BACKUP: &str = "BACKUP";
pub(crate) const BACKUP_NEW: &str = "BACKUP.new";
/// Names the directory of sidecars.
pub(crate) const SIDECARS: &str = "SIDECARS";
/// The event log, and the part of it before.
pub(crate) const EVENTS: &str = "EVENTS";
pub(crate) const EVENTS_OLD: &str = "EVENTS.old";
/// The same as `SIDECARS`, as earlier programs called it.
pub(crate) const OLD_SIDECARS: &str = "CLUSTERS";
/// Filters in memory, as earlier programs kept them.
pub(crate) const OLD_FILTERS: &str = "GUIDES";

const MANIFEST: &str = "MANIFEST-";
const WAL: &str = ".wal";
const TABLE: &str = ".table";
const SIDECAR: &str = ".sidecar";
const OLD_CLUSTER: &str = ".cluster";

/// Bytes that a segment of the log has at most: it is followed by another once it has a quarter of them, and
/// a batch has less than another quarter.
const MOST_WAL_BYTES: u64 = 16 << 30;
const MOST_MANIFEST_BYTES: u64 = 4 << 30;
/// The same of files of one or a few lines, and of others that are read whole.
const MOST_LINES_BYTES: u64 = 64 << 10;
const MOST_OTHER_BYTES: u64 = 1 << 30;

/// Returns how many bytes the file at `path` has at most, if a store made it and it is one that is read
/// whole.
pub(crate) fn most_bytes(path: &Path) -> u64 {
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        CURRENT | CURRENT_NEW | LOCK | BACKUP | BACKUP_NEW | SIDECARS | OLD_SIDECARS => MOST_LINES_BYTES,
        name if is_wal(name) => MOST_WAL_BYTES,
        name if is_manifest(name) || name.ends_with(".manifest") => MOST_MANIFEST_BYTES,
        name if is_table(name) => u64::MAX,
        _ => MOST_OTHER_BYTES,
    }
}

/// Returns the name of manifest `number`.
pub(crate) fn manifest(number: u64) -> String {
    format!("{MANIFEST}{number:08}")
}

/// Returns the number of the manifest called `name`.
pub(crate) fn manifest_number(name: &str) -> Option<u64> {
    name.strip_prefix(MANIFEST)?.parse().ok()
}

/// Whether `name` is a manifest's or belongs to one.
pub(crate) fn is_manifest(name: &str) -> bool {
    name.starts_with(MANIFEST) || name == CURRENT_NEW
}

/// Returns the name of the log's segment `number`.
pub(crate) fn wal(number: u64) -> String {
    format!("{number:08}{WAL}")
}

/// Returns the number of the log's segment called `name`, if it has its one right name.
pub(crate) fn wal_number(name: &str) -> Option<u64> {
    name.strip_suffix(WAL)?.parse().ok()
}

/// Whether `name` is that of a segment of the log.
pub(crate) fn is_wal(name: &str) -> bool {
    name.ends_with(WAL)
}

/// Returns the name of a table.
pub(crate) fn table(id: TableId) -> String {
    format!("{id:08}{TABLE}")
}

/// Returns the path of a table of the store in `dir`.
pub(crate) fn table_path(dir: &Path, id: TableId) -> PathBuf {
    dir.join(table(id))
}

/// Returns the number of the table called `name`.
pub(crate) fn table_number(name: &str) -> Option<TableId> {
    name.strip_suffix(TABLE)?.parse().ok()
}

/// Whether `name` is that of a table.
pub(crate) fn is_table(name: &str) -> bool {
    name.ends_with(TABLE)
}

/// Returns the name of a sidecar.
pub(crate) fn sidecar(id: SidecarId) -> String {
    format!("{id:08}{SIDECAR}")
}

/// Returns the number of the sidecar called `name`, if a store would call one of that number so.
pub(crate) fn sidecar_number(name: &str) -> Option<SidecarId> {
    let id = name.strip_suffix(SIDECAR)?.parse().ok()?;
    (FileId::sidecar(id).is_some() && sidecar(id) == name).then_some(id)
}

/// Whether `name` is that of a sidecar.
pub(crate) fn is_sidecar(name: &str) -> bool {
    name.ends_with(SIDECAR)
}

/// Whether `name` is that of a file of filters as earlier programs wrote them.
pub(crate) fn is_old_filters(name: &str) -> bool {
    name.ends_with(OLD_CLUSTER) || name == OLD_FILTERS
}

/// Whether the engine makes, or made, files of this name.
pub(crate) fn is_ours(name: &str) -> bool {
    [LOCK, CURRENT, SIDECARS, OLD_SIDECARS, EVENTS, EVENTS_OLD, UNFINISHED, UNREPAIRED, BACKUP, BACKUP_NEW]
        .contains(&name)
        || is_manifest(name)
        || is_table(name)
        || is_wal(name)
        || is_sidecar(name)
        || is_old_filters(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_names() {
        for number in [0, 7, 42, 99_999_999, 1 << 40] {
            assert_eq!(table_number(&table(number)), Some(number));
            assert_eq!(wal_number(&wal(number)), Some(number));
            assert_eq!(manifest_number(&manifest(number)), Some(number));
            assert_eq!(sidecar_number(&sidecar(number)), Some(number));
            for name in [table(number), wal(number), manifest(number), sidecar(number)] {
                assert!(is_ours(&name), "{name}");
            }
        }
        // A number has one name as a sidecar, and the largest have none.
        for name in ["7.sidecar", "9223372036854775808.sidecar", "x.sidecar", ".sidecar", "00000007.cluster"]
        {
            assert_eq!(sidecar_number(name), None, "{name}");
            assert!(is_ours(name), "{name}");
        }
        assert!(!is_ours("notes.txt"));
    }
}
