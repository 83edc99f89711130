//! Designs that differ from one in one place: each part of a design is changed by some move.

use crate::price::Workload;
use siltstone_design::design::LOG_STORE_FILL;
use siltstone_design::{
    Compression, Design, Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec, ThirdLevel,
    WriteBufferSpec,
};

/// Garbage that leaves may hold, as far as the search tries it.
const GARBAGE: [f64; 6] = [0.1, 0.16, 0.22, 0.33, 0.42, 0.5];
/// Filters of regions that are tried.
const REMAINDER_BITS: [u8; 5] = [4, 5, 6, 8, 10];
const MULTI_LEVEL_BITS: [u8; 2] = [10, 13];
/// Filters of tables that are tried.
const BLOOM_BITS: [u8; 6] = [4, 6, 8, 10, 13, 16];
const CUCKOO_BITS: [u8; 3] = [8, 11, 14];
const FRAGMENT_BITS: [u8; 2] = [4, 8];
/// Formats of tables.
const FORMATS: [Format; 4] = [Format::Block, Format::HTable, Format::Hash, Format::Sorted];
/// How many times smaller compression has to make items for it to be tried.
const LEAST_COMPRESSED_RATIO: f64 = 1.1;
/// Levels that a searched design may have.
const MOST_LEVELS: usize = 6;
/// Runs that a region of a searched design may have: what filters of regions can tell apart.
const MOST_RUNS: u16 = 32;
/// The smallest tables that are proposed: smaller ones make for too many files.
const LEAST_TABLE_BYTES: u64 = 64 << 10;

/// The designs that differ from `design` in what tables there are and when they are merged, as far as
/// `workload` can tell them apart.
pub(super) fn of_structure(design: &Design, workload: &Workload) -> Vec<Design> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Design)| {
        let mut changed = design.clone();
        change(&mut changed);
        all.push(changed);
    };
    let table_bytes = design.levels.first().map_or(0, |level| level.table_bytes);
    with(&|d| *d = design.scaled_to(table_bytes * 2));
    with(&|d| *d = design.scaled_to(table_bytes / 2));
    with(&|d| d.write_buffer = scaled(design.write_buffer, 2, 1));
    with(&|d| d.write_buffer = scaled(design.write_buffer, 1, 2));
    with(&|d| d.write_buffer = exchanged(design.write_buffer, workload));
    for garbage in GARBAGE {
        with(&|d| d.max_garbage = garbage);
    }
    let can_be_compressed = workload.compressed_ratio >= LEAST_COMPRESSED_RATIO;
    if can_be_compressed {
        for compression in [Compression::None, Compression::Dictionary] {
            with(&|d| *d = design.with_compression(compression));
        }
    }
    with(&|d| d.pushes_early = !design.pushes_early);
    for at in 0..design.levels.len() {
        let mut change = |edit: &dyn Fn(&mut LevelSpec)| {
            with(&|d| {
                if let Some(level) = d.levels.get_mut(at) {
                    edit(level);
                    fit_filter(level);
                }
            });
        };
        change(&|level| level.runs = (level.runs * 2).min(MOST_RUNS));
        change(&|level| level.runs = (level.runs / 2).max(1));
        change(&|level| *level = joined(level));
        change(&|level| *level = divided(level));
        change(&|level| level.fanout_bits += 1);
        change(&|level| level.fanout_bits = level.fanout_bits.saturating_sub(1));
        change(&|level| level.table_bytes = level.table_bytes.saturating_mul(2));
        change(&|level| level.table_bytes /= 2);
        for format in FORMATS {
            change(&|level| *level = in_format(level, format));
        }
        if can_be_compressed {
            change(&|level| level.compression = other(level.compression));
        }
        with(&|d| {
            d.levels.remove(at);
        });
        with(&|d| {
            if let Some(level) = d.levels.get(at).copied() {
                d.levels.insert(at + 1, LevelSpec { fanout_bits: level.fanout_bits.max(3), ..level });
            }
        });
    }
    all.retain(|changed| changed != design && is_sensible(changed));
    all
}

/// The designs that differ from `design` in the filters or the index of one level.
pub(super) fn of_filters(design: &Design) -> Vec<Design> {
    let mut all = Vec::new();
    for (at, level) in design.levels.iter().enumerate() {
        let mut with = |changed: LevelSpec| {
            let mut design = design.clone();
            if let Some(level) = design.levels.get_mut(at) {
                *level = changed;
            }
            all.push(design);
        };
        let (table_filter, region_filter) = (TableFilterSpec::None, RegionFilterSpec::None);
        let bare = LevelSpec { table_filter, region_filter, ..*level };
        with(bare);
        for remainder_bits in REMAINDER_BITS {
            with(LevelSpec { region_filter: RegionFilterSpec::Maplet { remainder_bits }, ..bare });
        }
        for fingerprint_bits in MULTI_LEVEL_BITS {
            with(LevelSpec {
                region_filter: RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits },
                ..bare
            });
        }
        with(LevelSpec { region_filter: RegionFilterSpec::BloomCluster { bits_per_key: 16 }, ..bare });
        for bits_per_key in BLOOM_BITS {
            with(LevelSpec { table_filter: TableFilterSpec::Bloom { bits_per_key }, ..bare });
        }
        for fingerprint_bits in CUCKOO_BITS {
            with(LevelSpec { table_filter: TableFilterSpec::Cuckoo { fingerprint_bits }, ..bare });
        }
        for fragment_bits in FRAGMENT_BITS {
            with(LevelSpec { table_filter: TableFilterSpec::Fragments { fragment_bits }, ..bare });
        }
        if level.format == Format::Block {
            let partial = IndexSpec::ThreeLevel { third: ThirdLevel::PartialSuffixes };
            for index in [IndexSpec::Cells, IndexSpec::Separators, partial, IndexSpec::Paged] {
                with(LevelSpec { index, ..*level });
            }
        }
    }
    all.retain(|changed| changed != design && is_sensible(changed));
    all
}

/// Whether the engine can run it, and a store would not consist of too many files for it.
pub(super) fn is_sensible(design: &Design) -> bool {
    design.check().is_ok()
        && design.levels.len() <= MOST_LEVELS
        && design.write_buffer_bytes() >= LEAST_TABLE_BYTES / 4
        && design.levels.iter().all(|level| {
            // A region that is pushed gives each child a table, which has to be worth a file.
            level.table_bytes >= LEAST_TABLE_BYTES
                && level.region_bytes() >> level.fanout_bits.min(16) >= LEAST_TABLE_BYTES / 4
        })
}

fn scaled(buffer: WriteBufferSpec, times: u64, by: u64) -> WriteBufferSpec {
    match buffer {
        WriteBufferSpec::MemTable { bytes } => WriteBufferSpec::MemTable { bytes: bytes * times / by },
        WriteBufferSpec::LogStore { entries } => {
            let scaled = u64::from(entries) * times / by;
            WriteBufferSpec::LogStore { entries: u32::try_from(scaled).unwrap_or(entries) }
        }
    }
}

/// The other kind of write buffer, which takes as many puts.
fn exchanged(buffer: WriteBufferSpec, workload: &Workload) -> WriteBufferSpec {
    let puts = buffer.items(workload.item_bytes());
    match buffer {
        WriteBufferSpec::MemTable { .. } => WriteBufferSpec::LogStore {
            entries: (puts / LOG_STORE_FILL).clamp(1.0, f64::from(u32::MAX)) as u32,
        },
        WriteBufferSpec::LogStore { .. } => {
            WriteBufferSpec::MemTable { bytes: (puts * workload.item_bytes()) as u64 }
        }
    }
}

fn other(compression: Compression) -> Compression {
    match compression {
        Compression::None => Compression::Dictionary,
        Compression::Dictionary => Compression::None,
    }
}

/// The same level in tables of another format, with the index and the filters that it can have.
fn in_format(level: &LevelSpec, format: Format) -> LevelSpec {
    let index = match (format, level.index) {
        (Format::Block, IndexSpec::None) => IndexSpec::Cells,
        (Format::Block, index) => index,
        (Format::HTable | Format::Hash | Format::Sorted, _) => IndexSpec::None,
    };
    let mut changed = LevelSpec { format, index, ..*level };
    let is_of_sorted = matches!(level.table_filter, TableFilterSpec::Fragments { .. });
    if format == Format::Hash || (is_of_sorted && format != Format::Sorted) {
        changed.table_filter = TableFilterSpec::None;
    }
    if format == Format::Hash {
        changed.region_filter = RegionFilterSpec::None;
    }
    changed
}

/// A region of as many bytes that is one run, or that has runs again.
fn joined(level: &LevelSpec) -> LevelSpec {
    LevelSpec { runs: 1, table_bytes: level.region_bytes(), ..*level }
}

fn divided(level: &LevelSpec) -> LevelSpec {
    if level.runs > 1 {
        return *level;
    }
    LevelSpec { runs: 8, table_bytes: (level.table_bytes / 8).min(64 << 20), ..*level }
}

/// Gives a level whose runs have become one the filter that suits one, and the other way around.
fn fit_filter(level: &mut LevelSpec) {
    if level.runs == 1 {
        level.region_filter = RegionFilterSpec::None;
        if matches!(level.table_filter, TableFilterSpec::Fragments { .. }) {
            level.table_filter = TableFilterSpec::None;
        }
    }
}
