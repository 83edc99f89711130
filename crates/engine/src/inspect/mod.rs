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
use crate::io::os::OsDisk;
use crate::io::{Access, Disk, File, read_file};
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
            Self::Current { .. } | Self::Lock { .. } | Self::Clusters { .. } => false,
        }
    }
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
    let opened = Opened { path, disk: &disk, file: file.as_ref(), length };
    if head.starts_with(metadata::MAGIC) {
        return opened.clusters_record();
    }
    if head.starts_with(b"siltstone") {
        return opened.current();
    }
    if head.starts_with(guides::MAGIC) {
        return opened.guides();
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    if name.ends_with(".cluster") || head.ends_with(clusters::MAGIC) {
        return Ok(Inspection::Cluster(cluster::inspect(path, name, file.as_ref(), length)?));
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
    Err(not_what_it_should_be(path, name, length))
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

    /// Decodes CLUSTERS.
    fn clusters_record(&self) -> Result<Inspection> {
        let bytes = self.bytes()?;
        let directory = std::str::from_utf8(&bytes).ok().and_then(metadata::parse);
        let (directory, _) = directory
            .ok_or_else(|| Error::corruption(self.path, 0, "the name of a directory", "something else"))?;
        Ok(Inspection::Clusters { directory: directory.to_owned() })
    }

    /// Decodes CURRENT.
    fn current(&self) -> Result<Inspection> {
        let bytes = self.bytes()?;
        let name = std::str::from_utf8(&bytes).ok().and_then(parse_current);
        let name =
            name.ok_or_else(|| Error::corruption(self.path, 0, "the name of a manifest", "something else"))?;
        Ok(Inspection::Current { manifest: name.to_owned() })
    }

    /// Decodes GUIDES, as far as it is sound.
    fn guides(&self) -> Result<Inspection> {
        let mut found = Vec::new();
        let read = guides::read_records(self.path, self.file, &mut |record| {
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
        Ok(Inspection::Guides(GuidesInspection { bytes: self.length, damage, guides: found }))
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

/// Returns what to say of a file of `length` bytes that looks like none of a store's; its name says what it
/// should be.
fn not_what_it_should_be(path: &Path, name: &str, length: u64) -> Error {
    let expected = match name {
        manifest::CURRENT | manifest::CURRENT_NEW => "the name of a manifest",
        metadata::CLUSTERS => "the name of a directory",
        _ if name.ends_with(".table") => "a table's footer",
        _ if name.ends_with(".wal") || manifest::is_manifest(name) => "a log's header",
        guides::GUIDES => "a header of guides",
        _ => {
            let what = format!(
                "{} is no file of a Siltstone store: it has neither a log header nor a table footer",
                path.display()
            );
            return Error::new(ErrorKind::NotAStore, what).at(path);
        }
    };
    let at = if name.ends_with(".table") { length.saturating_sub(FOOTER_BYTES as u64) } else { 0 };
    let error = Error::corruption(path, at, expected, "something else");
    error.and("a crash may leave such a file, which the next opening removes unless the store needs it")
}
