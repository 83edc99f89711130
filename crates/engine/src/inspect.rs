//! What a file of a store holds, decoded without opening the store.

use crate::cache::{CLUSTER, PAGE_BYTES, TableId};
use crate::codec::Decoder;
use crate::db::{LOCK, guides, metadata};
use crate::entry::Item;
use crate::error::{Error, ErrorKind, Result};
use crate::io::os::OsDisk;
use crate::io::{Access, Disk, read_file};
use crate::operation;
use crate::record::{LOG_HEADER_BYTES, LogHeader, LogReader};
use crate::table::envelope::{self, FOOTER_BYTES, PAGE_HEADER_BYTES, TableMeta, decode_footer};
use crate::version::cluster::{self, ClusterFile};
use crate::version::edit::{Edit, Step};
use crate::version::guide;
use crate::version::manifest::{self, parse_current};
use crate::wal;
use serde::Serialize;
use siltstone_succinct::filter::bloom_cluster::RowShape;
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
            Self::Table(table) => !table.damaged_pages.is_empty(),
            Self::Manifest(log) | Self::Wal(log) => log.damaged,
            Self::Guides(guides) => guides.damage.is_some(),
            Self::Cluster(cluster) => cluster.damage.is_some(),
            Self::Current { .. } | Self::Lock { .. } | Self::Clusters { .. } => false,
        }
    }
}

/// A table's properties.
#[derive(Clone, Debug, Serialize)]
pub struct TableInspection {
    /// Its number.
    pub id: u64,
    /// How its bytes lie, its index and its filter.
    pub design: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Prefixes deleted as a whole.
    pub deleted_prefixes: u64,
    /// Bytes of keys and values.
    pub user_bytes: u64,
    /// Entries that expire.
    pub expiring: u64,
    /// Pages, overflow pages included.
    pub pages: u32,
    /// Pages of entries.
    pub data_pages: u32,
    /// Share of the data pages' bytes that entries use, in percent.
    pub fill_percent: f64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the filter.
    pub filter_bytes: u64,
    /// Smallest digest, in hexadecimal.
    pub first_digest: String,
    /// Largest digest, in hexadecimal.
    pub last_digest: String,
    /// Pages whose checksum is wrong.
    pub damaged_pages: Vec<u32>,
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

/// A cluster's header, and what its pages are like.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterInspection {
    /// Its number.
    pub id: u64,
    /// Number of its keyspace.
    pub keyspace: u64,
    /// Level of its region.
    pub level: usize,
    /// The digest bits that the region's keys begin with.
    pub region: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Pages, the header's included.
    pub pages: u32,
    /// Columns that the region's digests are dealt out to.
    pub columns: u32,
    /// Bytes of the filters of all runs for one column.
    pub box_bytes: usize,
    /// The runs whose filters it holds.
    pub rows: Vec<ClusterRowInspection>,
    /// What is wrong, if anything is; then gets ask more runs until the file is made anew.
    pub damage: Option<String>,
    /// Pages whose checksum is wrong.
    pub damaged_pages: Vec<u32>,
}

/// The filters of one run in a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterRowInspection {
    /// The run's number.
    pub run: u64,
    /// Bytes of its filter for a column.
    pub column_bytes: u16,
    /// Positions per key.
    pub hashes: u8,
    /// About how many bits per key so many positions are best for.
    pub bits_per_key: f64,
}

/// A log's records.
#[derive(Clone, Debug, Serialize)]
pub struct LogInspection {
    /// Its number.
    pub number: u64,
    /// Position of its first record.
    pub first_position: u64,
    /// Position after its last good record.
    pub end_position: u64,
    /// Whether a later record proves that a bad one had been synced: the file is damaged, not torn.
    pub damaged: bool,
    /// Records in it.
    pub records: u64,
    /// Each record in words, as far as they were asked for.
    pub contents: Vec<String>,
    /// Records whose words were left out.
    pub left_out: u64,
}

/// Records put into words at most.
const MAX_RECORDS: u64 = 1000;

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
        return log(path, &bytes);
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
    if name.ends_with(".cluster") || head.ends_with(cluster::MAGIC) {
        return clusters(path, name, file.as_ref(), length);
    }
    if name == LOCK {
        let bytes = read_file(&disk, path).map_err(fail)?;
        return Ok(Inspection::Lock { opened_by: String::from_utf8_lossy(&bytes).trim().to_owned() });
    }
    if length >= FOOTER_BYTES as u64 {
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, length - FOOTER_BYTES as u64).map_err(fail)?;
        if footer.starts_with(envelope::MAGIC) {
            return table(path, file.as_ref(), length, &footer);
        }
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

fn clusters(path: &Path, name: &str, file: &dyn crate::io::File, length: u64) -> Result<Inspection> {
    let fail = |e: std::io::Error| Error::io(&e, "reading", path);
    let damaged = |expected: &str, found: &str| Error::corruption(path.display(), 0, expected, found);
    let number = name.strip_suffix(".cluster").and_then(|number| number.parse::<u64>().ok());
    let Some(number) = number.filter(|number| *number < CLUSTER) else {
        return Err(Error::invalid(format_args!(
            "{}: a cluster's checksums cover its number; give the file by the name that the store gave it, such as \
             00000042.cluster",
            path.display()
        )));
    };
    let id = number | CLUSTER;
    let mut page = [0; PAGE_BYTES];
    if length < PAGE_BYTES as u64 {
        return Err(damaged("a page of header", &format!("{length} bytes in all")));
    }
    file.read_exact_at(&mut page, 0).map_err(fail)?;
    if !crate::cache::page_is_sound(id, 0, &page) {
        return Err(damaged(
            "a header with its checksum",
            "another checksum, as where the file was never finished",
        ));
    }
    let payload = crate::table::block::page::page_header(&page)
        .and_then(|(used, _)| page.get(PAGE_HEADER_BYTES..used))
        .unwrap_or(&[]);
    let (header, place) = ClusterFile::from_header(id, payload, Default::default())
        .ok_or_else(|| damaged("the header of a cluster", "something else"))?;
    let mut damaged_pages = Vec::new();
    for number in 1..header.pages() {
        let read = file.read_exact_at(&mut page, u64::from(number) * PAGE_BYTES as u64);
        match read {
            Ok(()) if crate::cache::page_is_sound(id, number, &page) => {}
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(fail(error)),
            _ => damaged_pages.push(number),
        }
    }
    let damage = if length == header.bytes() {
        damaged_pages.first().map(|first| format!("{} pages, the first {first}", damaged_pages.len()))
    } else {
        Some(format!("{} bytes expected, and {length} found", header.bytes()))
    };
    let row = |(run, row): (&u64, &RowShape)| ClusterRowInspection {
        run: *run,
        column_bytes: row.width,
        hashes: row.hashes,
        bits_per_key: (f64::from(row.hashes) / std::f64::consts::LN_2 * 10.0).round() / 10.0,
    };
    Ok(Inspection::Cluster(ClusterInspection {
        id: number,
        keyspace: place.keyspace,
        level: place.level,
        region: place.path.to_string(),
        bytes: length,
        pages: header.pages(),
        columns: header.shape.columns(),
        box_bytes: header.shape.box_bytes(),
        rows: header.runs.iter().zip(header.shape.rows()).map(row).collect(),
        damage,
        damaged_pages,
    }))
}

fn table(
    path: &Path,
    file: &dyn crate::io::File,
    length: u64,
    footer: &[u8; FOOTER_BYTES],
) -> Result<Inspection> {
    let fail = |e: std::io::Error| Error::io(&e, "reading", path);
    let damaged =
        |at: u64, expected: &str, found: &str| Error::corruption(path.display(), at, expected, found);
    let footer_at = length - FOOTER_BYTES as u64;
    let footer = decode_footer(footer).map_err(|what| damaged(footer_at, "a footer", &what))?;
    let at = footer.properties.offset;
    if at.checked_add(footer.properties.length).is_none_or(|end| end > footer_at) {
        return Err(damaged(footer_at, "properties within the file", "an offset outside it"));
    }
    let mut properties = vec![0; footer.properties.length as usize];
    file.read_exact_at(&mut properties, at).map_err(fail)?;
    if crc32c::crc32c(&properties) != footer.properties.crc {
        return Err(damaged(at, "properties with the footer's checksum", "another checksum"));
    }
    let meta = TableMeta::decode(&mut Decoder::new(&properties))
        .ok_or_else(|| damaged(at, "properties", "malformed bytes"))?;
    let (mut used, mut damaged_pages) = (0u64, Vec::new());
    let mut page = [0; PAGE_BYTES];
    for number in 0..meta.pages {
        file.read_exact_at(&mut page, u64::from(number) * PAGE_BYTES as u64).map_err(fail)?;
        if !crate::cache::page_is_sound(footer.id as TableId, number, &page) {
            damaged_pages.push(number);
        } else if let Some((bytes, _)) = crate::table::block::page::page_header(&page) {
            used += bytes as u64;
        }
    }
    let data_bytes = f64::from(meta.data_pages.max(1)) * PAGE_BYTES as f64;
    Ok(Inspection::Table(TableInspection {
        id: meta.id,
        design: format!("{:?}, index {:?}, filter {:?}", meta.format, meta.index_spec, meta.filter_spec),
        bytes: length,
        entries: meta.entries,
        tombstones: meta.deleted,
        deleted_prefixes: meta.tombstones.iter().count() as u64,
        user_bytes: meta.user_bytes,
        expiring: meta.expiring,
        pages: meta.pages,
        data_pages: meta.data_pages,
        fill_percent: 100.0 * used as f64 / data_bytes,
        index_bytes: meta.index.length,
        filter_bytes: meta.filter.length,
        first_digest: format!("{:?}", meta.first.0),
        last_digest: format!("{:?}", meta.last.0),
        damaged_pages,
    }))
}

fn log(path: &Path, bytes: &[u8]) -> Result<Inspection> {
    let is_manifest = bytes.starts_with(manifest::MAGIC);
    let magic = if is_manifest { manifest::MAGIC } else { wal::MAGIC };
    let header = LogHeader::decode(magic, bytes, path)?
        .ok_or_else(|| Error::corruption(path.display(), 0, "a log header", "something else"))?;
    let records = bytes.get(LOG_HEADER_BYTES as usize..).unwrap_or(&[]);
    let mut reader = LogReader::new(records, header.first_lsn, header.epoch);
    let (mut count, mut contents) = (0, Vec::new());
    while let Some((position, payload)) = reader.next_record() {
        count += 1;
        if count <= MAX_RECORDS {
            let words = match payload {
                [] => "a mark that everything before it is synced".to_owned(),
                _ if is_manifest => describe_edit(payload),
                _ => describe_batch(payload),
            };
            contents.push(format!("{position}: {words}"));
        }
    }
    let end = reader.end();
    let inspection = LogInspection {
        number: header.number,
        first_position: header.first_lsn,
        end_position: end.position,
        damaged: end.proven_synced > end.position,
        records: count,
        left_out: count.saturating_sub(MAX_RECORDS),
        contents,
    };
    Ok(if is_manifest { Inspection::Manifest(inspection) } else { Inspection::Wal(inspection) })
}

fn describe_edit(payload: &[u8]) -> String {
    let Some(edit) = Edit::decode(payload) else { return "an edit this program can't read".into() };
    let steps = edit.steps.iter().map(|step| match step {
        Step::AddRun { level, path, run, replaces } => {
            let (tables, bytes) = (run.tables.len(), run.tables.iter().map(|t| t.bytes).sum::<u64>());
            let place = replaces.map_or(String::new(), |old| format!(" in place of run {old}"));
            format!(
                "add run {} ({tables} tables, {bytes} bytes) to region {path} of level {level}{place}",
                run.id
            )
        }
        Step::RemoveRun { level, path, run } => {
            format!("remove run {run} from region {path} of level {level}")
        }
        Step::Pushed { level, path, pushes } => {
            format!("region {path} of level {level} pushed {pushes} times")
        }
        Step::Flushed { start, user_bytes } => {
            format!("flushed up to log segment {} ({user_bytes} user bytes in all)", start.segment)
        }
        Step::Created { name, schema, design } => format!("create keyspace {name:?}: {schema}, {design}"),
        Step::Dropped => "drop the keyspace".into(),
        Step::Written { level, bytes } => format!("{bytes} bytes written into level {level} in all"),
        Step::NextId(id) => format!("next number {id}"),
        Step::Secret(_) => "the hash secret".into(),
        Step::LogEnd(lsn) => format!("the log is synced up to position {lsn} at least"),
        Step::LogStart(start) => format!("the log starts at segment {}", start.segment),
    });
    format!("keyspace {}: {}", edit.keyspace, steps.collect::<Vec<_>>().join("; "))
}

fn describe_batch(payload: &[u8]) -> String {
    let (mut puts, mut deletes, mut prefixes, mut bytes) = (0u64, 0u64, 0u64, 0usize);
    let mut from = Decoder::new(payload);
    while !from.is_empty() {
        let Some(operation) = operation::decode(&mut from) else {
            return "a batch this program can't read".into();
        };
        match operation.item {
            Some(Item::Put { value, .. }) => {
                puts += 1;
                bytes += operation.key.len() + value.len();
            }
            Some(Item::Deleted) => deletes += 1,
            None => prefixes += 1,
        }
    }
    format!("{puts} puts ({bytes} bytes), {deletes} deletes, {prefixes} prefix deletes")
}
