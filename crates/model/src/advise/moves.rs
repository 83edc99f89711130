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

/// Which change it is that makes one design of another: the same one of the same level, whatever the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    /// None where it is one of the whole design.
    level: Option<usize>,
    is_of_filters: bool,
    number: usize,
}

/// What moves make of a design, each after the one before.
struct Moved<'a> {
    design: &'a Design,
    next: Move,
    all: Vec<(Move, Design)>,
}

impl<'a> Moved<'a> {
    fn of(design: &'a Design, is_of_filters: bool) -> Self {
        Self { design, next: Move { level: None, is_of_filters, number: 0 }, all: Vec::new() }
    }

    /// The next moves are of this level.
    fn turn_to(&mut self, level: usize) {
        self.next = Move { level: Some(level), number: 0, ..self.next };
    }

    fn with(&mut self, change: impl FnOnce(&mut Design)) {
        let mut changed = self.design.clone();
        change(&mut changed);
        if changed != *self.design && is_sensible(&changed) {
            self.all.push((self.next, changed));
        }
        self.next.number += 1;
    }

    /// Changes the level that it is at.
    fn with_level(&mut self, change: impl FnOnce(&mut LevelSpec)) {
        let level = self.next.level;
        self.with(|design| {
            if let Some(level) = level.and_then(|at| design.levels.get_mut(at)) {
                change(level);
            }
        });
    }
}

/// The designs that differ from `design` in what tables there are and when they are merged, as far as
/// `workload` can tell them apart.
pub(super) fn of_structure(design: &Design, workload: &Workload) -> Vec<(Move, Design)> {
    let mut moved = Moved::of(design, false);
    let table_bytes = design.levels.first().map_or(0, |level| level.table_bytes);
    moved.with(|d| *d = design.scaled_to(table_bytes * 2));
    moved.with(|d| *d = design.scaled_to(table_bytes / 2));
    moved.with(|d| d.write_buffer = scaled(design.write_buffer, 2, 1));
    moved.with(|d| d.write_buffer = scaled(design.write_buffer, 1, 2));
    moved.with(|d| d.write_buffer = exchanged(design.write_buffer, workload));
    for garbage in GARBAGE {
        moved.with(|d| d.max_garbage = garbage);
    }
    let can_be_compressed = workload.compressed_ratio >= LEAST_COMPRESSED_RATIO;
    if can_be_compressed {
        for compression in [Compression::None, Compression::Dictionary] {
            moved.with(|d| *d = design.with_compression(compression));
        }
    }
    moved.with(|d| d.pushes_early = !design.pushes_early);
    for (at, present) in design.levels.iter().enumerate() {
        moved.turn_to(at);
        let mut change = |edit: &dyn Fn(&mut LevelSpec)| {
            moved.with_level(|level| {
                edit(level);
                fit_filter(level);
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
        // What fragments are of is of use with them only.
        for fragment_bits in FRAGMENT_BITS {
            change(&|level| {
                *level = in_format(level, Format::Sorted);
                level.region_filter = RegionFilterSpec::None;
                level.table_filter = TableFilterSpec::Fragments { fragment_bits };
            });
        }
        if can_be_compressed {
            change(&|level| level.compression = other(level.compression));
        }
        moved.with(|d| {
            d.levels.remove(at);
        });
        let below = LevelSpec { fanout_bits: present.fanout_bits.max(3), ..*present };
        moved.with(|d| d.levels.insert(at + 1, below));
    }
    moved.all
}

/// The designs that differ from `design` in the filters or the index of one level.
pub(super) fn of_filters(design: &Design) -> Vec<(Move, Design)> {
    let mut moved = Moved::of(design, true);
    for (at, level) in design.levels.iter().enumerate() {
        moved.turn_to(at);
        let mut with = |changed: LevelSpec| moved.with_level(|level| *level = changed);
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
    moved.all
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
