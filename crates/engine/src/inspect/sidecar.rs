//! A sidecar: the region filters that it holds, and its pages if it has some.

use crate::cache::{FileId, PAGE_BYTES};
use crate::error::{Error, Result};
use crate::io::File;
use crate::region_filter::cluster_shape;
use crate::region_filter::sidecar::{self, Malformed, SidecarHeader, SidecarPages, SidecarRecord};
use serde::Serialize;
use siltstone_succinct::filter::bloom_cluster::ClusterShape;
use std::path::Path;

/// A sidecar's filters, and what its pages are like.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SidecarInspection {
    /// Its number.
    pub id: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Pages of a filter that lies on the device.
    pub pages: u32,
    /// The filters, or parts of them.
    pub filters: Vec<RegionFilterInspection>,
    /// What is wrong, if anything is; then gets read more until the file is made anew from the tables.
    pub damage: Option<String>,
    /// Pages whose checksum is wrong.
    pub damaged_pages: Vec<u32>,
}

/// The filter of a region, or a part of it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RegionFilterInspection {
    /// Its kind in words.
    pub filter: &'static str,
    /// The runs that it knows.
    pub runs: Vec<u64>,
    /// Number of its keyspace.
    pub keyspace: u64,
    /// Level of its region.
    pub level: usize,
    /// The digest bits that the region's keys begin with.
    pub region: String,
    /// Bytes of its record.
    pub bytes: u64,
    /// What the filters in the pages are like, of a Bloom cluster.
    #[serde(flatten)]
    pub cluster: Option<ClusterInspection>,
}

/// A Bloom cluster in pages.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ClusterInspection {
    /// Columns that the region's digests are divided into.
    pub columns: u32,
    /// Bytes of the filters of all runs for one column.
    pub box_bytes: usize,
    /// The runs whose filters it holds.
    pub rows: Vec<ClusterRowInspection>,
}

/// The filters of one run in a cluster.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
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

/// What the sidecar at `path`, of `length` bytes, holds; an error where its header makes no sense.
pub(super) fn inspect(path: &Path, file: &dyn File, length: u64) -> Result<SidecarInspection> {
    let mut filters = Vec::new();
    let read = sidecar::read(path, file, &mut |_, record| {
        filters.push(filter(record).ok_or(Malformed)?);
        Ok(())
    })?;
    let Some(header) = read.header else {
        let damage = read.damage;
        return Err(damage.unwrap_or_else(|| Error::corruption(path, 0, "a header", "none")));
    };
    let damaged_pages = damaged_pages(path, file, &header)?;
    let of_pages =
        damaged_pages.first().map(|first| format!("{} pages, the first {first}", damaged_pages.len()));
    Ok(SidecarInspection {
        id: header.number,
        bytes: length,
        pages: header.pages,
        filters,
        damage: read.damage.map(|error| error.to_string()).or(of_pages),
        damaged_pages,
    })
}

fn filter(record: &SidecarRecord<'_>) -> Option<RegionFilterInspection> {
    Some(RegionFilterInspection {
        filter: sidecar::in_words(record.kind)?,
        runs: record.runs.clone(),
        keyspace: record.keyspace,
        level: record.level,
        region: record.path.to_string(),
        bytes: record.bytes(),
        cluster: cluster_shape(record).map(|shape| cluster(&record.runs, &shape)),
    })
}

fn cluster(runs: &[u64], shape: &ClusterShape) -> ClusterInspection {
    let rows = runs.iter().zip(shape.rows()).map(|(run, row)| ClusterRowInspection {
        run: *run,
        column_bytes: row.width,
        hashes: row.hashes,
        bits_per_key: (f64::from(row.hashes) / std::f64::consts::LN_2 * 10.0).round() / 10.0,
    });
    ClusterInspection { columns: shape.columns(), box_bytes: shape.box_bytes(), rows: rows.collect() }
}

/// The pages of a sidecar that are not as they should be, missing ones among them.
fn damaged_pages(path: &Path, file: &dyn File, header: &SidecarHeader) -> Result<Vec<u32>> {
    let Some(pages) = SidecarPages::new(header, Default::default()).filter(|pages| pages.count > 0) else {
        return Ok(Vec::new());
    };
    let length = file.len().map_err(|error| Error::io(&error, "reading", path))?;
    // A header that speaks of more than the file has is damage of its own.
    let end = u32::try_from(length / PAGE_BYTES as u64).unwrap_or(u32::MAX).min(pages.end());
    let mut damaged = Vec::new();
    let mut page = [0; PAGE_BYTES];
    for number in pages.first..end {
        let read = file.read_exact_at(&mut page, u64::from(number) * PAGE_BYTES as u64);
        match read {
            Ok(()) if crate::cache::page_is_sound(FileId::Sidecar(header.number), number, &page) => {}
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(Error::io(&error, "reading", path));
            }
            _ => damaged.push(number),
        }
    }
    Ok(damaged)
}
