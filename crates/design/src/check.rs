//! Rejects unsound designs before anything is written, naming the field and what would do.

use crate::design::{Design, FilterSpec, Format, Head, IndexSpec, LevelSpec};
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

/// Entries that the index of a log store may have room for.
pub const LOG_STORE_ENTRIES: std::ops::RangeInclusive<u32> = 16..=1 << 30;

/// Fingerprints of cuckoo filters, in bits.
pub const FINGERPRINT_BITS: std::ops::RangeInclusive<u8> = 8..=20;
/// Fingerprints of multi-level cuckoo filters, in bits: they store three more until they have grown.
pub const MULTI_LEVEL_FINGERPRINT_BITS: std::ops::RangeInclusive<u8> = 8..=17;
/// Most runs per region whose filters a cluster may gather: a staggered pile grows to half as many again.
pub const MAX_CLUSTERED_RUNS: u16 = 80;
/// Remainders of maplets, in bits.
pub const REMAINDER_BITS: std::ops::RangeInclusive<u8> = 4..=20;
/// Fragments of sorted stores' keys, in bits.
pub const FRAGMENT_BITS: std::ops::RangeInclusive<u8> = 2..=32;
/// Most runs per region that a multi-level cuckoo filter or a maplet may be asked to tell apart.
pub const MAX_GUIDED_RUNS: u16 = 32;

impl Design {
    /// Checks that the engine can run this design on keys of `schema`.
    ///
    /// # Errors
    /// As [`Design::check`], or a format that can't hold such keys.
    pub fn check_for(&self, schema: &Schema) -> Result<(), DesignError> {
        self.check()?;
        if matches!(self.head, Head::LogStore { .. }) && *schema != Schema::Point {
            return Err(DesignError {
                field: "head".into(),
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
        let sizes = MIN_TABLE_BYTES..=MAX_TABLE_BYTES;
        match self.head {
            Head::MemTable { bytes } if !sizes.contains(&bytes) => {
                return fail(
                    "head.bytes".into(),
                    format!("{bytes} is out of range; a memtable takes 4 KiB to 1 TiB"),
                );
            }
            Head::LogStore { entries } if !LOG_STORE_ENTRIES.contains(&entries) => {
                return fail(
                    "head.entries".into(),
                    format!("{entries} is out of range; a log store indexes 16 to 2^30 entries"),
                );
            }
            Head::MemTable { .. } | Head::LogStore { .. } => {}
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
            if !(1..=256).contains(&level.runs) {
                return fail(field("runs"), format!("{} is out of range; use 1 to 256", level.runs));
            }
            if i == 0 && level.runs < 2 {
                return fail(
                    field("runs"),
                    "level 0 takes each memtable as a run of its own and needs at least 2".into(),
                );
            }
            if !sizes.contains(&level.table_bytes) {
                return fail(
                    field("table_bytes"),
                    format!("{} is out of range; use 4 KiB to 1 TiB", level.table_bytes),
                );
            }
            check_format(level).or_else(|(name, message)| fail(field(name), message))?;
            check_filter(level).or_else(|(name, message)| fail(field(name), message))?;
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

/// What of a level does not go with its format, and what would do.
fn check_format(level: &LevelSpec) -> Result<(), (&'static str, String)> {
    match (level.format, level.index, level.filter) {
        (Format::Block, IndexSpec::None, _) => {
            Err(("index", "a block table needs an index; use separators".into()))
        }
        (Format::HTable, index, _) if index != IndexSpec::None => Err((
            "index",
            format!("an HTable computes a key's page and has no index; use none instead of {index:?}"),
        )),
        (Format::Hash | Format::Sorted, index, _) if index != IndexSpec::None => Err((
            "index",
            format!(
                "hash stores and sorted stores have an index of their own; use none instead of {index:?}"
            ),
        )),
        (Format::Hash, _, filter) if filter != FilterSpec::None => {
            Err(("filter", "a hash store's index is a filter as well; use none".into()))
        }
        _ => Ok(()),
    }
}

/// The unsound part of a level's filter, and what would do.
fn check_filter(level: &LevelSpec) -> Result<(), (&'static str, String)> {
    let fingerprints = |bits: u8, range: std::ops::RangeInclusive<u8>| {
        let message = format!("{bits} is out of range; use {} to {}", range.start(), range.end());
        if range.contains(&bits) { Ok(()) } else { Err(("filter.fingerprint_bits", message)) }
    };
    match level.filter {
        FilterSpec::Bloom { bits_per_key } if !(1..=64).contains(&bits_per_key) => {
            Err(("filter.bits_per_key", format!("{bits_per_key} is out of range; use 1 to 64, or no filter")))
        }
        FilterSpec::BloomCluster { bits_per_key } if !(1..=64).contains(&bits_per_key) => {
            Err(("filter.bits_per_key", format!("{bits_per_key} is out of range; use 1 to 64")))
        }
        FilterSpec::BloomCluster { .. } if !(2..=MAX_CLUSTERED_RUNS).contains(&level.runs) => {
            Err(("filter", format!("a cluster gathers the filters of 2 to {MAX_CLUSTERED_RUNS} runs")))
        }
        FilterSpec::None | FilterSpec::Bloom { .. } | FilterSpec::BloomCluster { .. } => Ok(()),
        FilterSpec::Cuckoo { fingerprint_bits } => fingerprints(fingerprint_bits, FINGERPRINT_BITS),
        FilterSpec::Fragments { .. } if level.format != Format::Sorted => Err((
            "filter",
            "fragments stand in the order of a sorted store's slots; use a cuckoo filter for other formats"
                .into(),
        )),
        FilterSpec::Fragments { .. } if level.runs < 2 => Err((
            "filter",
            "fragments tell the sorted stores of a region apart, and here is only one; use none".into(),
        )),
        FilterSpec::Fragments { fragment_bits } if !FRAGMENT_BITS.contains(&fragment_bits) => Err((
            "filter.fragment_bits",
            format!(
                "{fragment_bits} is out of range; use {} to {}",
                FRAGMENT_BITS.start(),
                FRAGMENT_BITS.end()
            ),
        )),
        FilterSpec::Fragments { .. } => Ok(()),
        FilterSpec::MultiLevelCuckoo { .. } if !(2..=MAX_GUIDED_RUNS).contains(&level.runs) => Err((
            "filter",
            format!(
                "a multi-level cuckoo filter tells 2 to {MAX_GUIDED_RUNS} runs apart; use a cuckoo filter per table"
            ),
        )),
        FilterSpec::MultiLevelCuckoo { fingerprint_bits } => {
            fingerprints(fingerprint_bits, MULTI_LEVEL_FINGERPRINT_BITS)
        }
        FilterSpec::Maplet { .. } if !(2..=MAX_GUIDED_RUNS).contains(&level.runs) => Err((
            "filter",
            format!(
                "a maplet tells 2 to {MAX_GUIDED_RUNS} runs apart; use a Bloom or cuckoo filter per table"
            ),
        )),
        FilterSpec::Maplet { remainder_bits } if !REMAINDER_BITS.contains(&remainder_bits) => Err((
            "filter.remainder_bits",
            format!(
                "{remainder_bits} is out of range; use {} to {}",
                REMAINDER_BITS.start(),
                REMAINDER_BITS.end()
            ),
        )),
        FilterSpec::Maplet { .. } => Ok(()),
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
            ("head.bytes", |d| d.head = Head::MemTable { bytes: 1 }),
            ("head.entries", |d| d.head = Head::LogStore { entries: 8 }),
            ("max_garbage", |d| d.max_garbage = f64::NAN),
            ("max_garbage", |d| d.max_garbage = 1.0),
            ("levels[0].runs", |d| d.levels[0].runs = 1),
            ("levels[1].runs", |d| d.levels[1].runs = 0),
            ("levels[1].runs", |d| d.levels[1].runs = 257),
            ("levels[0].fanout_bits", |d| d.levels[0].fanout_bits = 9),
            ("levels[1].fanout_bits", |d| d.levels[1].fanout_bits = 0),
            ("levels[2].table_bytes", |d| d.levels[2].table_bytes = 1),
            ("levels[1].filter.bits_per_key", |d| {
                d.levels[1].filter = FilterSpec::Bloom { bits_per_key: 0 };
            }),
            ("levels[1].filter.fingerprint_bits", |d| {
                d.levels[1].filter = FilterSpec::Cuckoo { fingerprint_bits: 40 };
            }),
            ("levels[1].index", |d| d.levels[1].format = Format::HTable),
            ("levels[2].index", |d| d.levels[2].index = IndexSpec::None),
            ("levels[1].filter", |d| {
                d.levels[1].filter = FilterSpec::MultiLevelCuckoo { fingerprint_bits: 14 };
                d.levels[1].runs = 1;
            }),
            ("levels[1].index", |d| d.levels[1].index = IndexSpec::None),
            ("levels[1].index", |d| d.levels[1].format = Format::Sorted),
            ("levels[1].filter", |d| {
                (d.levels[1].format, d.levels[1].index) = (Format::Hash, IndexSpec::None);
            }),
            ("levels[1].filter", |d| {
                d.levels[1].filter = FilterSpec::Maplet { remainder_bits: 8 };
                d.levels[1].runs = 1;
            }),
            ("levels[1].filter.remainder_bits", |d| {
                d.levels[1].filter = FilterSpec::Maplet { remainder_bits: 3 };
            }),
            ("levels[1].filter", |d| {
                d.levels[1].filter = FilterSpec::Fragments { fragment_bits: 8 };
            }),
            ("levels[1].filter", |d| {
                d.levels[1].filter = FilterSpec::Fragments { fragment_bits: 8 };
                (d.levels[1].format, d.levels[1].index) = (Format::Sorted, IndexSpec::None);
                d.levels[1].runs = 1;
            }),
            ("levels[1].filter.fragment_bits", |d| {
                d.levels[1].filter = FilterSpec::Fragments { fragment_bits: 33 };
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
        let design = Design { head: Head::LogStore { entries: 1024 }, ..presets::siltstone() };
        assert_eq!(design.check_for(&Schema::Point), Ok(()));
        let prefix = crate::schema::PrefixRule::WholeKey;
        let schema = Schema::SemiSorted { prefix, suffix: crate::schema::SuffixOrder::Ordered };
        assert_eq!(design.check_for(&schema).unwrap_err().field, "head");
    }
}
