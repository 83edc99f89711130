//! A cluster file, page by page.

use crate::cache::{CLUSTER, PAGE_BYTES};
use crate::error::{Error, Result};
use crate::io::File;
use crate::table::envelope::PAGE_HEADER_BYTES;
use crate::version::cluster::ClusterFile;
use serde::Serialize;
use siltstone_succinct::filter::bloom_cluster::RowShape;
use std::path::Path;

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

/// What the cluster file called `name` holds.
pub(super) fn inspect(path: &Path, name: &str, file: &dyn File, length: u64) -> Result<ClusterInspection> {
    let fail = |e: std::io::Error| Error::io(&e, "reading", path);
    let damaged = |expected: &str, found: &str| Error::corruption(path, 0, expected, found);
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
    Ok(ClusterInspection {
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
    })
}
