//! What a file of a store holds, and what a store consists of, decoded without opening the store.

mod log;
mod sidecar;
mod store;
mod table;

pub use log::LogInspection;
pub use sidecar::{ClusterInspection, ClusterRowInspection, RegionFilterInspection, SidecarInspection};
pub use store::{FilesInspection, KeyspaceInspection, StoreInspection, store};
pub use table::TableInspection;

use crate::db::open::directory::parse_owner;
use crate::error::{Error, ErrorKind, Result};
use crate::event_log;
use crate::events::LoggedEvent;
use crate::filename::{self, CURRENT, CURRENT_NEW, EVENTS, EVENTS_OLD, LOCK, OLD_SIDECARS, SIDECARS};
use crate::io::os::OsDisk;
use crate::io::{Access, Disk, File, read_file};
use crate::region_filter::{directory, sidecar as sidecar_file};
use crate::table::envelope::FOOTER_BYTES;
use crate::version::manifest::{self, parse_current};
use crate::wal;
use serde::Serialize;
use std::path::Path;

/// What a file holds.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Inspection {
    /// A table.
    Table(TableInspection),
    /// A manifest.
    Manifest(LogInspection),
    /// A segment of the write-ahead log.
    Wal(LogInspection),
    /// Filters of regions, which can always be made anew.
    Sidecar(SidecarInspection),
    /// What the store did lately; nothing depends on it.
    Events(EventsInspection),
    /// The file that names the directory of sidecars, below `Options::metadata_dir`.
    Sidecars {
        /// The directory's name.
        directory: String,
    },
    /// The file whose lock means that the store is open.
    Lock {
        /// Who opened the store for writing last; whether it still has it open is not said here.
        opened_by: String,
    },
    /// The file that names the manifest.
    Current {
        /// The manifest's name.
        manifest: String,
    },
}

impl Inspection {
    /// Whether the file has damage that no crash explains.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?.close()?;
    /// assert!(!siltstone::inspect::file(&dir.path().join("db/CURRENT"))?.is_damaged());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_damaged(&self) -> bool {
        match self {
            Self::Table(table) => !table.damaged_pages.is_empty() || !table.damage.is_empty(),
            Self::Manifest(log) | Self::Wal(log) => log.damaged,
            Self::Sidecar(sidecar) => sidecar.damage.is_some(),
            // A crash may cut a line of events short anywhere.
            Self::Current { .. } | Self::Lock { .. } | Self::Sidecars { .. } | Self::Events(_) => false,
        }
    }
}

/// A file of the event log.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct EventsInspection {
    /// Bytes of the file.
    pub bytes: u64,
    /// Lines that are no events, as a crash may leave.
    pub unreadable_lines: u64,
    /// The events, the oldest first.
    pub events: Vec<LoggedEvent>,
}

/// Decodes the file at `path`; its first or last bytes say what it is.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
/// let current = siltstone::inspect::file(&dir.path().join("db/CURRENT"))?;
/// assert!(matches!(current, siltstone::inspect::Inspection::Current { .. }));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `NotAStore` for other files, `Corruption` for damaged ones.
pub fn file(path: &Path) -> Result<Inspection> {
    let disk = OsDisk;
    let fail = |e: std::io::Error| Error::io(&e, "reading", path);
    let file = disk.open(path, Access::Read).map_err(fail)?;
    let length = file.len().map_err(fail)?;
    let mut head = vec![0; length.min(16) as usize];
    file.read_exact_at(&mut head, 0).map_err(fail)?;
    if head.starts_with(manifest::MAGIC) || head.starts_with(wal::MAGIC) {
        let bytes = read_file(&disk, path).map_err(fail)?;
        return log::inspect(path, &bytes);
    }
    let opened = Opened { path, disk: &disk, file: file.as_ref(), length };
    if directory::MAGICS.iter().any(|magic| head.starts_with(magic)) {
        return opened.sidecar_directory();
    }
    if head.starts_with(b"siltstone") {
        return opened.current();
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    if head.starts_with(sidecar_file::MAGIC) || filename::is_sidecar(name) {
        return Ok(Inspection::Sidecar(sidecar::inspect(path, file.as_ref(), length)?));
    }
    if name == EVENTS || name == EVENTS_OLD || head.starts_with(event_log::FIRST_BYTES) {
        let bytes = read_file(&disk, path).map_err(fail)?;
        let (events, unreadable_lines) = event_log::parse(&bytes);
        return Ok(Inspection::Events(EventsInspection { bytes: length, unreadable_lines, events }));
    }
    if name == LOCK {
        return opened.lock();
    }
    if let Some((footer, end)) = table::last_footer(file.as_ref(), length).map_err(fail)? {
        let mut table = table::inspect(path, file.as_ref(), end, &footer)?;
        if end < length {
            table.bytes = length;
            table.damage.push(format!("{} bytes follow the table's end at byte {end}", length - end));
        }
        return Ok(Inspection::Table(table));
    }
    Err(unreadable(path, name, length))
}

/// A file that is being inspected.
struct Opened<'a> {
    path: &'a Path,
    disk: &'a OsDisk,
    file: &'a dyn File,
    length: u64,
}

impl Opened<'_> {
    fn bytes(&self) -> Result<Vec<u8>> {
        read_file(self.disk, self.path).map_err(|e| Error::io(&e, "reading", self.path))
    }

    /// Decodes the file that names the directory of sidecars.
    fn sidecar_directory(&self) -> Result<Inspection> {
        let bytes = self.bytes()?;
        let directory = std::str::from_utf8(&bytes).ok().and_then(directory::parse);
        let (directory, _) = directory
            .ok_or_else(|| Error::corruption(self.path, 0, "the name of a directory", "something else"))?;
        Ok(Inspection::Sidecars { directory: directory.to_owned() })
    }

    /// Decodes CURRENT.
    fn current(&self) -> Result<Inspection> {
        let bytes = self.bytes()?;
        let current = std::str::from_utf8(&bytes).ok().and_then(parse_current);
        let current = current.ok_or_else(|| unnamed_manifest(self.path))?;
        Ok(Inspection::Current { manifest: current.manifest.to_owned() })
    }

    /// Reads who locked the store.
    fn lock(&self) -> Result<Inspection> {
        let mut bytes = vec![0; self.length.min(64) as usize];
        self.file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io(&e, "reading", self.path))?;
        let opened_by = parse_owner(&bytes).ok_or_else(|| {
            let error = Error::corruption(self.path, 0, "text such as \"process 7\"", "something else");
            error.and(
                "nothing depends on it: the lock on the file counts, and the next opening writes it anew",
            )
        })?;
        Ok(Inspection::Lock { opened_by: opened_by.to_owned() })
    }
}

/// Says that the CURRENT at `path` names no manifest.
fn unnamed_manifest(path: &Path) -> Error {
    Error::corruption(path, 0, "the name of a manifest", "something else")
}

/// Says what the file at `path`, of `length` bytes, is not; by its name a file that a store made says what it
/// should be.
fn unreadable(path: &Path, name: &str, length: u64) -> Error {
    if filename::is_old_filters(name) {
        let what = format!(
            "{} holds filters as an earlier program wrote them; nothing depends on it, and the next opening for writing \
             removes it",
            path.display()
        );
        return Error::new(ErrorKind::NotAStore, what).at(path);
    }
    let expected = match name {
        CURRENT | CURRENT_NEW => "the name of a manifest",
        SIDECARS | OLD_SIDECARS => "the name of a directory",
        _ if filename::is_table(name) => "a table's footer",
        _ if filename::is_wal(name) || filename::is_manifest(name) => "a log's header",
        _ => {
            let what = format!(
                "{} is no file of a Siltstone store: it has neither a log header nor a table footer",
                path.display()
            );
            return Error::new(ErrorKind::NotAStore, what).at(path);
        }
    };
    let at = if filename::is_table(name) { length.saturating_sub(FOOTER_BYTES as u64) } else { 0 };
    let error = Error::corruption(path, at, expected, "something else");
    error.and("a crash may leave such a file, which the next opening removes unless the store needs it")
}
