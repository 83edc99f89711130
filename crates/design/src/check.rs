//! Rejects unsound designs before anything is written, naming the field and what would do.

use crate::design::{
    Design, Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec, WriteBufferSpec,
};
use crate::digest::MAX_DEPTH;
use crate::schema::Schema;
use std::fmt;

/// A field of a [`Design`] that can't work, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DesignError {
    /// Path of the field, such as `levels[1].runs`.
    pub field: String,
    /// What is wrong and what would do.
    pub message: String,
}

impl fmt::Display for DesignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "design.{}: {}", self.field, self.message)
    }
}

impl std::error::Error for DesignError {}

/// Smallest table and memtable, in bytes: one page, so that tests can build deep tries from little data.
pub const MIN_TABLE_BYTES: u64 = 4 << 10;
/// Largest table, in bytes: page numbers in a table are 32-bit, and tables may grow to twice this.
pub const MAX_TABLE_BYTES: u64 = 1 << 40;

const TABLE_BYTES: std::ops::RangeInclusive<u64> = MIN_TABLE_BYTES..=MAX_TABLE_BYTES;

/// Entries that the index of a log store may have room for.
pub const LOG_STORE_ENTRIES: std::ops::RangeInclusive<u32> = 16..=1 << 30;

/// Bits per key of Bloom filters.
pub const BLOOM_BITS: std::ops::RangeInclusive<u8> = 1..=64;
/// Fingerprints of cuckoo filters, in bits.
pub const FINGERPRINT_BITS: std::ops::RangeInclusive<u8> = 8..=20;
/// Fingerprints of multi-level cuckoo filters, in bits: they store three more until they have grown.
pub const MULTI_LEVEL_FINGERPRINT_BITS: std::ops::RangeInclusive<u8> = 8..=17;
/// Most runs per region whose filters a cluster may gather: a staggered region grows to half as many again.
pub const MAX_CLUSTERED_RUNS: u16 = 80;
/// Remainders of maplets, in bits.
pub const REMAINDER_BITS: std::ops::RangeInclusive<u8> = 4..=20;
/// Fragments of sorted stores' keys, in bits.
pub const FRAGMENT_BITS: std::ops::RangeInclusive<u8> = 2..=32;
/// Most runs per region that a multi-level cuckoo filter or a maplet may be asked to tell apart.
pub const MAX_FILTERED_RUNS: u16 = 32;

impl Design {
    /// Checks that the engine can run this design on keys of `schema`.
    ///
    /// # Errors
    /// As [`Design::check`], or a format that can't hold such keys.
    pub fn check_for(&self, schema: &Schema) -> Result<(), DesignError> {
        self.check()?;
        if matches!(self.write_buffer, WriteBufferSpec::LogStore { .. }) && *schema != Schema::Point {
            return Err(DesignError {
                field: "write_buffer".into(),
                message: "a log store finds keys one by one and can't walk those of one prefix; use the schema \"point\", or \
                          a memtable"
                    .into(),
            });
        }
        let of_points = |level: &LevelSpec| level.format == Format::Sorted;
        match self.levels.iter().position(of_points) {
            Some(level) if *schema != Schema::Point => Err(DesignError {
                field: format!("levels[{level}].format"),
                message: "a sorted store finds keys by a hash of the whole key and can't keep those of one prefix together; \
                          use the schema \"point\", or block tables"
                    .into(),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the engine can run this design.
    ///
    /// # Errors
    /// The first unsound field, by name, with the values it may take.
    pub fn check(&self) -> Result<(), DesignError> {
        let fail = |field: String, message: String| Err(DesignError { field, message });
        match self.write_buffer {
            WriteBufferSpec::MemTable { bytes } if !TABLE_BYTES.contains(&bytes) => {
                return fail(
                    "write_buffer.bytes".into(),
                    format!("{bytes} is out of range; a memtable takes 4 KiB to 1 TiB"),
                );
            }
            WriteBufferSpec::LogStore { entries } if !LOG_STORE_ENTRIES.contains(&entries) => {
                return fail(
                    "write_buffer.entries".into(),
                    format!("{entries} is out of range; a log store indexes 16 to 2^30 entries"),
                );
            }
            WriteBufferSpec::MemTable { .. } | WriteBufferSpec::LogStore { .. } => {}
        }
        if !(0.05..=0.9).contains(&self.max_garbage) {
            return fail(
                "max_garbage".into(),
                format!("{} is out of range; use 0.05 to 0.9", self.max_garbage),
            );
        }
        if self.levels.is_empty() || self.levels.len() > 16 {
            return fail("levels".into(), format!("{} levels; a design has 1 to 16", self.levels.len()));
        }
        let mut depth = 0u32;
        for (i, level) in self.levels.iter().enumerate() {
            let field = |name: &str| format!("levels[{i}].{name}");
            if i == 0 && level.fanout_bits > 8 {
                return fail(field("fanout_bits"), "level 0 may have at most 2^8 regions".into());
            }
            if i > 0 && !(1..=8).contains(&level.fanout_bits) {
                return fail(
                    field("fanout_bits"),
                    format!("{} is out of range; a region has 2^1 to 2^8 children", level.fanout_bits),
                );
            }
            depth += u32::from(level.fanout_bits);
            if depth > u32::from(MAX_DEPTH) {
                return fail(field("fanout_bits"), format!("the trie would be deeper than {MAX_DEPTH} bits"));
            }
            let sound = check_sizes(i, level)
                .and_then(|()| check_format(level))
                .and_then(|()| check_table_filter(level))
                .and_then(|()| check_region_filter(level));
            sound.or_else(|(name, message)| fail(field(name), message))?;
        }
        // Splits repeat the last level below itself, so it has to divide what it holds.
        if self.levels.last().is_some_and(|last| last.fanout_bits == 0) {
            return fail(
                format!("levels[{}].fanout_bits", self.levels.len() - 1),
                "the last level repeats as leaves split and needs at least 1 bit".into(),
            );
        }
        Ok(())
    }
}

/// The name of a level's field, and what is wrong with it.
type Unsound = (&'static str, String);

/// What of the sizes of level `number` is unsound, and what would do.
fn check_sizes(number: usize, level: &LevelSpec) -> Result<(), Unsound> {
    if !(1..=256).contains(&level.runs) {
        return Err(("runs", format!("{} is out of range; use 1 to 256", level.runs)));
    }
    if number == 0 && level.runs < 2 {
        return Err(("runs", "level 0 takes each memtable as a run of its own and needs at least 2".into()));
    }
    if !TABLE_BYTES.contains(&level.table_bytes) {
        return Err(("table_bytes", format!("{} is out of range; use 4 KiB to 1 TiB", level.table_bytes)));
    }
    Ok(())
}

/// What of a level does not go with its format, and what would do.
fn check_format(level: &LevelSpec) -> Result<(), Unsound> {
    match (level.format, level.index) {
        (Format::Block, IndexSpec::None) => {
            return Err(("index", "a block table needs an index; use separators".into()));
        }
        (Format::HTable, index) if index != IndexSpec::None => {
            let message =
                format!("an HTable computes a key's page and has no index; use none instead of {index:?}");
            return Err(("index", message));
        }
        (Format::Hash | Format::Sorted, index) if index != IndexSpec::None => {
            let message = format!(
                "hash stores and sorted stores have an index of their own; use none instead of {index:?}"
            );
            return Err(("index", message));
        }
        (Format::Block | Format::HTable | Format::Hash | Format::Sorted, _) => {}
    }
    let own = "a hash store's index is a filter as well; use none";
    match level.format {
        Format::Hash if level.table_filter != TableFilterSpec::None => Err(("table_filter", own.into())),
        Format::Hash if level.region_filter != RegionFilterSpec::None => Err(("region_filter", own.into())),
        Format::Block | Format::HTable | Format::Hash | Format::Sorted => Ok(()),
    }
}

/// Refuses a number outside of `range`.
fn check_range(field: &'static str, number: u8, range: std::ops::RangeInclusive<u8>) -> Result<(), Unsound> {
    let message = format!("{number} is out of range; use {} to {}", range.start(), range.end());
    if range.contains(&number) { Ok(()) } else { Err((field, message)) }
}

/// The unsound part of the filter that a level's tables have, and what would do.
fn check_table_filter(level: &LevelSpec) -> Result<(), Unsound> {
    match level.table_filter {
        TableFilterSpec::None => Ok(()),
        TableFilterSpec::Bloom { bits_per_key } => {
            check_range("table_filter.bits_per_key", bits_per_key, BLOOM_BITS)
        }
        TableFilterSpec::Cuckoo { fingerprint_bits } => {
            check_range("table_filter.fingerprint_bits", fingerprint_bits, FINGERPRINT_BITS)
        }
        TableFilterSpec::Fragments { .. } if level.format != Format::Sorted => Err((
            "table_filter",
            "fragments stand in the order of a sorted store's slots; use a cuckoo filter for other formats"
                .into(),
        )),
        TableFilterSpec::Fragments { .. } if level.runs < 2 => Err((
            "table_filter",
            "fragments tell the sorted stores of a region apart, and here is only one; use none".into(),
        )),
        TableFilterSpec::Fragments { fragment_bits } => {
            check_range("table_filter.fragment_bits", fragment_bits, FRAGMENT_BITS)
        }
    }
}

/// The unsound part of the filter that a level's regions have, and what would do.
fn check_region_filter(level: &LevelSpec) -> Result<(), Unsound> {
    let check_runs = |most: u16, what: &str, instead: &str| {
        let message = format!("a {what} tells 2 to {most} runs apart; {instead}");
        if (2..=most).contains(&level.runs) { Ok(()) } else { Err(("region_filter", message)) }
    };
    match level.region_filter {
        RegionFilterSpec::None => Ok(()),
        RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits } => {
            let instead = "use a cuckoo filter per table";
            check_runs(MAX_FILTERED_RUNS, "multi-level cuckoo filter", instead)?;
            let range = MULTI_LEVEL_FINGERPRINT_BITS;
            check_range("region_filter.fingerprint_bits", fingerprint_bits, range)
        }
        RegionFilterSpec::Maplet { .. } if level.table_filter != TableFilterSpec::None => Err((
            "table_filter",
            "the fingerprints that a region's maplet is made of stand where a table's own filter would; use none"
                .into(),
        )),
        RegionFilterSpec::Maplet { remainder_bits } => {
            check_runs(MAX_FILTERED_RUNS, "maplet", "use a Bloom or cuckoo filter per table")?;
            check_range("region_filter.remainder_bits", remainder_bits, REMAINDER_BITS)
        }
        RegionFilterSpec::BloomCluster { bits_per_key } => {
            let instead = "use a Bloom filter per table";
            check_runs(MAX_CLUSTERED_RUNS, "Bloom cluster", instead)?;
            check_range("region_filter.bits_per_key", bits_per_key, BLOOM_BITS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn presets_pass() {
        for (name, design) in presets::all().into_iter().chain(presets::slimdb_table_1()) {
            assert_eq!(design.check(), Ok(()), "{name}");
            assert_eq!(Design::preset(name), Some(design.clone()), "{name}");
            assert_eq!(design.preset_name(), name);
            for (bytes, size) in [(64 << 10, "64K"), (1 << 20, "1M"), (5_000_000, "5000000")] {
                let scaled = design.scaled_to(bytes);
                assert_eq!(scaled.check(), Ok(()), "{name}");
                // The rows of a table may be like a preset.
                assert_eq!(scaled.preset_name(), format!("{name}:{size}"));
                assert_eq!(scaled.scaled_to(design.levels[0].table_bytes).levels.len(), design.levels.len());
            }
        }
        assert_eq!(presets::lsm_trie().scaled_to(1 << 20).levels[4].table_bytes, 1 << 20);
        assert_eq!(presets::leveled().scaled_to(1 << 20).levels[1].table_bytes, 8 << 20);
        assert!(presets::lsm_trie().scaled_to(1000).check().is_err());
        let custom = Design { max_garbage: 0.5, ..presets::leveled() };
        assert_eq!(custom.preset_name(), "custom");
    }

    #[test]
    fn each_unsound_field_is_named() {
        type Breakage = fn(&mut Design);
        let cases: &[(&str, Breakage)] = &[
            ("levels", |d| d.levels.clear()),
            ("write_buffer.bytes", |d| d.write_buffer = WriteBufferSpec::MemTable { bytes: 1 }),
            ("write_buffer.entries", |d| d.write_buffer = WriteBufferSpec::LogStore { entries: 8 }),
            ("max_garbage", |d| d.max_garbage = f64::NAN),
            ("max_garbage", |d| d.max_garbage = 1.0),
            ("levels[0].runs", |d| d.levels[0].runs = 1),
            ("levels[1].runs", |d| d.levels[1].runs = 0),
            ("levels[1].runs", |d| d.levels[1].runs = 257),
            ("levels[0].fanout_bits", |d| d.levels[0].fanout_bits = 9),
            ("levels[1].fanout_bits", |d| d.levels[1].fanout_bits = 0),
            ("levels[2].table_bytes", |d| d.levels[2].table_bytes = 1),
            ("levels[1].table_filter.bits_per_key", |d| {
                d.levels[1].table_filter = TableFilterSpec::Bloom { bits_per_key: 0 };
            }),
            ("levels[1].table_filter.fingerprint_bits", |d| {
                d.levels[1].table_filter = TableFilterSpec::Cuckoo { fingerprint_bits: 40 };
            }),
            ("levels[1].index", |d| d.levels[1].format = Format::HTable),
            ("levels[2].index", |d| d.levels[2].index = IndexSpec::None),
            ("levels[1].region_filter", |d| {
                d.levels[1].table_filter = TableFilterSpec::None;
                d.levels[1].region_filter = RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits: 14 };
                d.levels[1].runs = 1;
            }),
            ("levels[1].index", |d| d.levels[1].index = IndexSpec::None),
            ("levels[1].index", |d| d.levels[1].format = Format::Sorted),
            ("levels[1].table_filter", |d| {
                (d.levels[1].format, d.levels[1].index) = (Format::Hash, IndexSpec::None);
            }),
            ("levels[1].region_filter", |d| {
                d.levels[1].table_filter = TableFilterSpec::None;
                d.levels[1].region_filter = RegionFilterSpec::Maplet { remainder_bits: 8 };
                d.levels[1].runs = 1;
            }),
            ("levels[1].table_filter", |d| {
                d.levels[1].region_filter = RegionFilterSpec::Maplet { remainder_bits: 8 };
            }),
            ("levels[1].region_filter", |d| {
                d.levels[1].region_filter = RegionFilterSpec::BloomCluster { bits_per_key: 16 };
                d.levels[1].runs = 81;
            }),
            ("levels[1].region_filter.bits_per_key", |d| {
                d.levels[1].region_filter = RegionFilterSpec::BloomCluster { bits_per_key: 0 };
            }),
            ("levels[1].region_filter.fingerprint_bits", |d| {
                d.levels[1].region_filter = RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits: 18 };
            }),
            ("levels[1].region_filter", |d| {
                d.levels[1].table_filter = TableFilterSpec::None;
                d.levels[1].region_filter = RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits: 14 };
                (d.levels[1].format, d.levels[1].index) = (Format::Hash, IndexSpec::None);
            }),
            ("levels[1].region_filter.remainder_bits", |d| {
                d.levels[1].table_filter = TableFilterSpec::None;
                d.levels[1].region_filter = RegionFilterSpec::Maplet { remainder_bits: 3 };
            }),
            ("levels[1].table_filter", |d| {
                d.levels[1].table_filter = TableFilterSpec::Fragments { fragment_bits: 8 };
            }),
            ("levels[1].table_filter", |d| {
                d.levels[1].table_filter = TableFilterSpec::Fragments { fragment_bits: 8 };
                (d.levels[1].format, d.levels[1].index) = (Format::Sorted, IndexSpec::None);
                d.levels[1].runs = 1;
            }),
            ("levels[1].table_filter.fragment_bits", |d| {
                d.levels[1].table_filter = TableFilterSpec::Fragments { fragment_bits: 33 };
                (d.levels[1].format, d.levels[1].index) = (Format::Sorted, IndexSpec::None);
            }),
            ("levels[0].fanout_bits", |d| {
                d.levels.truncate(1);
                d.levels[0].fanout_bits = 0;
            }),
        ];
        for (field, break_it) in cases {
            let mut design = presets::stepped_merge();
            break_it(&mut design);
            assert_eq!(&design.check().unwrap_err().field, field);
        }
    }

    #[test]
    fn log_stores_are_for_point_keys() {
        let design =
            Design { write_buffer: WriteBufferSpec::LogStore { entries: 1024 }, ..presets::siltstone() };
        assert_eq!(design.check_for(&Schema::Point), Ok(()));
        let prefix = crate::prefix::PrefixRule::WholeKey;
        let schema = Schema::SemiSorted { prefix, suffix: crate::schema::SuffixOrder::Ordered };
        assert_eq!(design.check_for(&schema).unwrap_err().field, "write_buffer");
    }
}
