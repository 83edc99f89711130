//! A table file, section by section.

use crate::cache::{PAGE_BYTES, TableId};
use crate::codec::Decoder;
use crate::error::{Error, Result};
use crate::io::File;
use crate::table::envelope::{FOOTER_BYTES, Footer, MAGIC, TableMeta, decode_footer, encode_tail};
use crate::table::filter::KeptKeys;
use serde::Serialize;
use std::path::Path;

/// A table's properties.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
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
    /// How many times smaller its compressed parts are than they were; 1 in a table that stores all as it is.
    pub compression_ratio: f64,
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
    /// What is wrong besides, a sentence each.
    pub damage: Vec<String>,
}

/// Bytes at a file's end among which a footer is looked for that something was appended to.
const MOST_APPENDED_BYTES: u64 = 1 << 20;

/// The footer that `file` ends with, sound or not, or else the last sound one near its end; and where that
/// ends.
pub(super) fn last_footer(
    file: &dyn File,
    length: u64,
) -> std::io::Result<Option<([u8; FOOTER_BYTES], u64)>> {
    let from = length.saturating_sub(MOST_APPENDED_BYTES + FOOTER_BYTES as u64);
    let mut bytes = vec![0; (length - from) as usize];
    file.read_exact_at(&mut bytes, from)?;
    let footers = bytes.windows(FOOTER_BYTES).enumerate().rev();
    let mut footers = footers.filter_map(|(at, footer)| Some((at, footer.first_chunk::<FOOTER_BYTES>()?)));
    let found = footers.find(|(at, footer)| {
        footer.starts_with(MAGIC) && (at + FOOTER_BYTES == bytes.len() || decode_footer(footer).is_ok())
    });
    Ok(found.map(|(at, footer)| (*footer, from + (at + FOOTER_BYTES) as u64)))
}

/// What the table in `file` holds, whose footer has been found, and which ends at byte `length`.
pub(super) fn inspect(
    path: &Path,
    file: &dyn File,
    length: u64,
    footer: &[u8; FOOTER_BYTES],
) -> Result<TableInspection> {
    let fail = |e: std::io::Error| Error::io(&e, "reading", path);
    let damaged = |at: u64, expected: &str, found: &str| Error::corruption(path, at, expected, found);
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
    let damage = damage(file, length, &footer, &meta).map_err(fail)?;
    Ok(TableInspection {
        id: meta.id,
        design: format!("{:?}, index {:?}, {}", meta.format, meta.index_spec, kept_in_words(meta.kept_keys)),
        bytes: length,
        entries: meta.entries,
        tombstones: meta.deleted,
        deleted_prefixes: meta.tombstones.iter().count() as u64,
        user_bytes: meta.user_bytes,
        expiring: meta.expiring,
        pages: meta.pages,
        data_pages: meta.data_pages,
        fill_percent: 100.0 * used as f64 / data_bytes,
        compression_ratio: meta
            .compressed
            .map_or(1.0, |compressed| compressed.raw_bytes as f64 / compressed.stored_bytes.max(1) as f64),
        index_bytes: meta.index.length,
        filter_bytes: meta.filter.length,
        first_digest: format!("{:?}", meta.first.0),
        last_digest: format!("{:?}", meta.last.0),
        damaged_pages,
        damage,
    })
}

/// What a table's filter section holds.
fn kept_in_words(kept: KeptKeys) -> String {
    match kept {
        KeptKeys::Filter(filter) => format!("filter {filter:?}"),
        KeptKeys::Fingerprints { remainder_bits } => {
            format!("fingerprints of {remainder_bits} remainder bits for its region's filter")
        }
        KeptKeys::Noted(noted) => format!("no filter; its region had {noted:?}"),
    }
}

/// What is wrong with what stands outside the pages.
fn damage(file: &dyn File, length: u64, footer: &Footer, meta: &TableMeta) -> std::io::Result<Vec<String>> {
    let mut damage = Vec::new();
    let pages_end = u64::from(meta.pages) * PAGE_BYTES as u64;
    if meta.bytes != length {
        damage.push(format!("the file has {length} bytes, its properties say {}", meta.bytes));
    }
    for (name, section) in meta.sections() {
        let end = section.offset + section.length;
        if section.length > 0 && (section.offset < pages_end || end > footer.properties.offset) {
            damage.push(format!("the {name} lies at bytes {}-{end}, outside its place", section.offset));
            continue;
        }
        let mut bytes = vec![0; section.length as usize];
        file.read_exact_at(&mut bytes, section.offset)?;
        let found = crc32c::crc32c(&bytes);
        if found != section.crc {
            damage.push(format!(
                "the {name}, {} bytes at byte {}, has checksum {found:08x} instead of {:08x}",
                section.length, section.offset, section.crc
            ));
        }
    }
    let at = footer.properties.offset;
    let mut tail = vec![0; (length - at) as usize];
    file.read_exact_at(&mut tail, at)?;
    if tail != encode_tail(meta, at, footer.keyspace) {
        damage.push(format!(
            "the footer, or what stands before it from byte {at} on, does not follow from the properties"
        ));
    }
    Ok(damage)
}
