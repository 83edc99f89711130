//! What a file of a store holds, decoded without opening the store.

mod cluster;
mod log;
mod table;

pub use cluster::{ClusterInspection, ClusterRowInspection};
pub use log::LogInspection;
pub use table::TableInspection;

use crate::db::open::directory::{LOCK, parse_owner};
use crate::db::{guides, metadata};
use crate::error::{Error, ErrorKind, Result};
use crate::event_log;
use crate::events::{EVENTS, EVENTS_OLD, LoggedEvent};
use crate::io::os::OsDisk;
use crate::io::{Access, Disk, read_file};
use crate::table::envelope::FOOTER_BYTES;
use crate::version::manifest::{self, parse_current};
use crate::version::{cluster as clusters, guide};
use crate::wal;
use serde::Serialize;
use std::path::Path;

/// What a file holds.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Inspection {
    /// A table.
    Table(TableInspection),
    /// A manifest.
    Manifest(LogInspection),
    /// A segment of the write-ahead log.
    Wal(LogInspection),
    /// Filters of regions, kept while the store is closed; only advice.
    Guides(GuidesInspection),
    /// The Bloom filters of a region's runs, side by side; only advice.
    Cluster(ClusterInspection),
    /// What the store did lately; only advice.
    Events(EventsInspection),
    /// The file that names the directory of clusters, below `Options::metadata_dir`.
    Clusters {
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
    pub fn is_damaged(&self) -> bool {
        match self {
            Self::Table(table) => !table.damaged_pages.is_empty() || !table.damage.is_empty(),
            Self::Manifest(log) | Self::Wal(log) => log.damaged,
            Self::Guides(guides) => guides.damage.is_some(),
            Self::Cluster(cluster) => cluster.damage.is_some(),
            // A crash may cut a line short anywhere.
            Self::Current { .. } | Self::Lock { .. } | Self::Clusters { .. } | Self::Events(_) => false,
        }
    }
}

/// A file of the event log.
#[derive(Clone, Debug, Serialize)]
pub struct EventsInspection {
    /// Bytes of the file.
    pub bytes: u64,
    /// Lines that are no events, as a crash may leave.
    pub unreadable_lines: u64,
    /// The events, the oldest first.
    pub events: Vec<LoggedEvent>,
}

/// A file of guides.
#[derive(Clone, Debug, Serialize)]
pub struct GuidesInspection {
    /// Bytes of the file.
    pub bytes: u64,
    /// Why reading ended before the file did, if it did; what follows is built again from the tables.
    pub damage: Option<String>,
    /// The guides.
    pub guides: Vec<GuideInspection>,
}

/// A guide.
#[derive(Clone, Debug, Serialize)]
pub struct GuideInspection {
    /// Its kind in words.
    pub filter: &'static str,
    /// The runs that it covers.
    pub runs: Vec<u64>,
    /// Number of its keyspace.
    pub keyspace: u64,
    /// Level of its region.
    pub level: usize,
    /// The digest bits that the region's keys begin with.
    pub region: String,
    /// Bytes of its record.
    pub bytes: u64,
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
    if head.starts_with(metadata::MAGIC) {
        let bytes = read_file(&disk, path).map_err(fail)?;
        let directory = std::str::from_utf8(&bytes).ok().and_then(metadata::parse);
        let (directory, _) = directory.ok_or_else(|| {
            Error::corruption(path.display(), 0, "the name of a directory", "something else")
        })?;
        return Ok(Inspection::Clusters { directory: directory.to_owned() });
    }
    if head.starts_with(b"siltstone") {
        let bytes = read_file(&disk, path).map_err(fail)?;
        let name = std::str::from_utf8(&bytes).ok().and_then(parse_current);
        let name = name.ok_or_else(|| {
            Error::corruption(path.display(), 0, "the name of a manifest", "something else")
        })?;
        return Ok(Inspection::Current { manifest: name.to_owned() });
    }
    if head.starts_with(guides::MAGIC) {
        let mut found = Vec::new();
        let read = guides::read_records(path, file.as_ref(), &mut |record| {
            found.push(GuideInspection {
                filter: match record.kind {
                    guide::MULTI_LEVEL_CUCKOO => "multi-level cuckoo filter",
                    guide::MAPLET => "maplet",
                    guides::ROW => "row of a cluster",
                    _ => return Err(()),
                },
                runs: record.runs,
                keyspace: record.keyspace,
                level: record.level,
                region: record.path.to_string(),
                bytes: record.bytes,
            });
            Ok(())
        });
        let damage = match read {
            Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
            read => read.err().map(|error| error.to_string()),
        };
        return Ok(Inspection::Guides(GuidesInspection { bytes: length, damage, guides: found }));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    if name.ends_with(".cluster") || head.ends_with(clusters::MAGIC) {
        return Ok(Inspection::Cluster(cluster::inspect(path, name, file.as_ref(), length)?));
    }
    if name == EVENTS || name == EVENTS_OLD || head.starts_with(event_log::FIRST_BYTES) {
        let bytes = read_file(&disk, path).map_err(fail)?;
        let (events, unreadable_lines) = event_log::parse(&bytes);
        return Ok(Inspection::Events(EventsInspection { bytes: length, unreadable_lines, events }));
    }
    if name == LOCK {
        let mut bytes = vec![0; length.min(64) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(fail)?;
        let opened_by = parse_owner(&bytes).ok_or_else(|| {
            let error = Error::corruption(path.display(), 0, "text such as \"process 7\"", "something else");
            error.and(
                "nothing depends on it: the lock on the file counts, and the next opening writes it anew",
            )
        })?;
        return Ok(Inspection::Lock { opened_by: opened_by.to_owned() });
    }
    if let Some((footer, end)) = table::last_footer(file.as_ref(), length).map_err(fail)? {
        let mut table = table::inspect(path, file.as_ref(), end, &footer)?;
        if end < length {
            table.bytes = length;
            table.damage.push(format!("{} bytes follow the table's end at byte {end}", length - end));
        }
        return Ok(Inspection::Table(table));
    }
    // A file that a store made says by its name what it should be.
    let expected = match name {
        manifest::CURRENT | manifest::CURRENT_NEW => "the name of a manifest",
        metadata::CLUSTERS => "the name of a directory",
        _ if name.ends_with(".table") => "a table's footer",
        _ if name.ends_with(".wal") || manifest::is_manifest(name) => "a log's header",
        guides::GUIDES => "a header of guides",
        _ => {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!(
                    "{} is no file of a Siltstone store: it has neither a log header nor a table footer",
                    path.display()
                ),
            ));
        }
    };
    let at = if name.ends_with(".table") { length.saturating_sub(FOOTER_BYTES as u64) } else { 0 };
    let error = Error::corruption(path.display(), at, expected, "something else");
    Err(error.and("a crash may leave such a file, which the next opening removes unless the store needs it"))
}
