//! Named designs.
//!
//! [`siltstone`] is ours, and the default; [`lean`] is what becomes of it where memory is short. [`leveled`]
//! and [`stepped_merge`] have the same write buffer, tables, index and filters; they differ in `runs`, so
//! that what stepped merge saves in writes and costs in reads can be seen by itself. [`slimdb`] mixes layouts
//! by level, and [`slimdb_table_1`] has each of the mixture's parts as a design of its own. [`lsm_trie`] is
//! made of hash tables.

use crate::check::{LOG_STORE_ENTRIES, MAX_TABLE_BYTES};
use crate::design::{
    Compression, Design, Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec, ThirdLevel,
    WriteBufferSpec,
};

const MIB: u64 = 1 << 20;

/// The level the presets are made of.
const LEVEL: LevelSpec = LevelSpec {
    fanout_bits: 3,
    runs: 8,
    format: Format::Block,
    index: IndexSpec::Separators,
    table_filter: TableFilterSpec::Bloom { bits_per_key: 10 },
    region_filter: RegionFilterSpec::None,
    table_bytes: 8 * MIB,
    compression: Compression::None,
};

/// A level of our own: a wide trie with regions of many runs, pages found by cells, a maplet for every
/// region.
const WIDE: LevelSpec = LevelSpec {
    fanout_bits: 4,
    runs: 16,
    index: IndexSpec::Cells,
    table_filter: TableFilterSpec::None,
    region_filter: RegionFilterSpec::Maplet { remainder_bits: 6 },
    ..LEVEL
};

/// The same region with one run of as many bytes as a stepped region's runs.
const LEVELED: LevelSpec = LevelSpec { runs: 1, table_bytes: LEVEL.table_bytes * LEVEL.runs as u64, ..LEVEL };

/// Partial suffixes are as small as tries for groups of up to 32 items, and twice as fast.
const THREE_LEVEL: IndexSpec = IndexSpec::ThreeLevel { third: ThirdLevel::PartialSuffixes };
const CUCKOO: TableFilterSpec = TableFilterSpec::Cuckoo { fingerprint_bits: 13 };
const MULTI_LEVEL_CUCKOO: RegionFilterSpec = RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits: 13 };

/// Our own: a wide trie with regions of many runs, so that few levels write an item, pages found by cells,
/// and a maplet beside every region, so that a get reads one page and a miss one in a hundred at most,
/// however many runs there are.
///
/// Level 1 is where leaves begin: a small store has two levels, and a larger one grows more by itself. A leaf
/// is rewritten when more than a fifth of it is garbage, so that a store that is overwritten stays below one
/// and a half times its items.
pub fn siltstone() -> Design {
    Design {
        max_garbage: 0.22,
        pushes_early: true,
        ..of_levels(&[LevelSpec { fanout_bits: 0, ..WIDE }, WIDE])
    }
}

/// [`siltstone`] for little memory: the leaves, which hold most items, are single runs without a filter, and
/// only the regions above them have maplets. A get reads one page, a key that is absent one too, and all of
/// it takes about two bits of memory an item in stores whose items mostly lie in leaves: from some gigabytes
/// on, or as much less as tables are [smaller](Design::scaled_to).
///
/// The price is writes: a leaf is written again with every push into it, which with 30 million items of 116
/// bytes makes 4 to 5 bytes written per byte in all, and more in proportion in larger stores, whose tables
/// should be larger for it; the smaller a share of the items lies above the leaves, the less memory they take
/// and the more is written.
pub fn lean() -> Design {
    let (top, middle) = (LevelSpec { fanout_bits: 0, ..WIDE }, LevelSpec { runs: 4, ..WIDE });
    let region_filter = RegionFilterSpec::None;
    let leaf = LevelSpec { fanout_bits: 3, runs: 1, region_filter, table_bytes: MAX_TABLE_BYTES, ..WIDE };
    // Two memtables have to fit the least memory that it is for.
    let write_buffer = WriteBufferSpec::MemTable { bytes: LEVEL.table_bytes / 2 };
    Design { write_buffer, ..of_levels(&[top, middle, leaf]) }
}

/// The LevelDB-like baseline: one run per region below level 0, merged with on every push.
///
/// Few runs to search and little space held by old versions; every level rewrites its data several times.
pub fn leveled() -> Design {
    of_levels(&[LevelSpec { fanout_bits: 0, ..LEVEL }, LEVELED, LEVELED])
}

/// The same trie with up to eight runs per region: stepped merge (Jagadish et al., VLDB'97), the growth
/// scheme of LSM-trie and of SlimDB's upper levels. Every level writes its data once.
pub fn stepped_merge() -> Design {
    of_levels(&[LevelSpec { fanout_bits: 0, ..LEVEL }, LEVEL, LEVEL])
}

/// SlimDB's mixture (VLDB'17, Figure 4): stepped merge with multi-level cuckoo filters and three-level
/// indexes in the three upper levels, one run with a filter and an index below, and one run with an index
/// only at the bottom.
///
/// Most lookups that hit read one page; memory goes where most of the saving is, and the bottom level, which
/// holds most of the items, costs about two bits for each. Where all data lies in the upper levels this is
/// [`stepped_merge`] with better filters.
pub fn slimdb() -> Design {
    let (table_filter, region_filter) = (TableFilterSpec::None, MULTI_LEVEL_CUCKOO);
    let stepped = LevelSpec { index: THREE_LEVEL, table_filter, region_filter, ..LEVEL };
    let filtered = LevelSpec { index: THREE_LEVEL, table_filter: CUCKOO, ..LEVELED };
    let bottom = LevelSpec { table_filter: TableFilterSpec::None, ..filtered };
    of_levels(&[LevelSpec { fanout_bits: 0, ..stepped }, stepped, stepped, filtered, bottom])
}

/// SILT (SOSP 2011, Figure 2) in four partitions: a log store as large as the paper's, up to 31 hash stores,
/// whose tags are filter and index, above sorted stores that take two bits of index for an item and one read
/// for a lookup, hit or miss.
///
/// Nearly all items lie in the sorted stores, so that memory is small; a lookup costs 1.01 reads, and a write
/// is rewritten whenever a partition's hash stores are merged into its sorted stores, which never split. For
/// keyspaces whose keys are looked up one by one.
pub fn silt() -> Design {
    let hash = LevelSpec {
        fanout_bits: 2,
        runs: 31,
        format: Format::Hash,
        index: IndexSpec::None,
        table_filter: TableFilterSpec::None,
        region_filter: RegionFilterSpec::None,
        table_bytes: 8 * MIB,
        compression: Compression::None,
    };
    // Each partition's sorted store is cut in two, since a level has to divide the one above it.
    let sorted =
        LevelSpec { fanout_bits: 1, runs: 1, format: Format::Sorted, table_bytes: MAX_TABLE_BYTES, ..hash };
    Design {
        write_buffer: WriteBufferSpec::LogStore { entries: 131_072 },
        levels: vec![hash, sorted],
        max_garbage: 0.33,
        pushes_early: false,
    }
}

/// LSM-trie (Wu et al., ATC'15): hash tables of pages in a trie of regions. The four upper levels grow by the
/// trie's fan-out and keep a Bloom filter per bucket in memory; the fifth grows by runs, and its filters lie
/// in clusters on the device.
///
/// Every level writes its data once; an item of the last level takes two reads, its cluster's and its page's,
/// and hardly any memory. For point keys. Where a fifth of a leaf is garbage it is rewritten: with less,
/// stores of a few gigabytes that are overwritten would write more than 5.6 bytes per byte, and with more
/// they would come closer to one and a half times their items.
pub fn lsm_trie() -> Design {
    let upper = LevelSpec {
        format: Format::HTable,
        index: IndexSpec::None,
        table_filter: TableFilterSpec::Bloom { bits_per_key: 16 },
        ..LEVEL
    };
    let region_filter = RegionFilterSpec::BloomCluster { bits_per_key: 16 };
    let last = LevelSpec { runs: 32, table_filter: TableFilterSpec::None, region_filter, ..upper };
    let levels = vec![LevelSpec { fanout_bits: 0, ..upper }, upper, upper, upper, last];
    Design {
        write_buffer: WriteBufferSpec::MemTable { bytes: LEVEL.table_bytes },
        levels,
        max_garbage: 0.2,
        pushes_early: true,
    }
}

/// [`lsm_trie`] with tables of `table_bytes`: smaller ones reach five levels with less data.
pub fn lsm_trie_with(table_bytes: u64) -> Design {
    lsm_trie().scaled_to(table_bytes)
}

/// The rows of SlimDB's Table 1, each as a whole design: every level laid out alike.
///
/// Level 0 takes each memtable as a run of its own, so it has several runs in the `lsm` rows too. `cf`:
/// cuckoo filters; `mlcf`: multi-level cuckoo filters; `tl`: three-level indexes. Rows without `tl` keep
/// their index on the device.
pub fn slimdb_table_1() -> Vec<(&'static str, Design)> {
    let on_device = IndexSpec::Paged;
    let none = (TableFilterSpec::None, RegionFilterSpec::None);
    let (cf, mlcf) = ((CUCKOO, none.1), (none.0, MULTI_LEVEL_CUCKOO));
    let row = |below: LevelSpec, filters: (TableFilterSpec, RegionFilterSpec), index: IndexSpec| {
        let (table_filter, region_filter) = filters;
        let below = LevelSpec { table_filter, region_filter, index, ..below };
        let first = LevelSpec { fanout_bits: 0, table_filter, region_filter, index, ..LEVEL };
        of_levels(&[first, below, below])
    };
    vec![
        ("lsm", row(LEVELED, none, on_device)),
        ("lsm+cf", row(LEVELED, cf, on_device)),
        ("lsm+cf+tl", row(LEVELED, cf, THREE_LEVEL)),
        ("lsm+tl", row(LEVELED, none, THREE_LEVEL)),
        ("sm", row(LEVEL, none, on_device)),
        ("sm+mlcf", row(LEVEL, mlcf, on_device)),
        ("sm+mlcf+tl", row(LEVEL, mlcf, THREE_LEVEL)),
        ("sm+tl", row(LEVEL, none, THREE_LEVEL)),
    ]
}

fn of_levels(levels: &[LevelSpec]) -> Design {
    Design {
        write_buffer: WriteBufferSpec::MemTable { bytes: LEVEL.table_bytes },
        levels: levels.to_vec(),
        max_garbage: 0.33,
        pushes_early: false,
    }
}

/// Every preset with its name, default first.
pub fn all() -> Vec<(&'static str, Design)> {
    vec![
        ("siltstone", siltstone()),
        ("lean", lean()),
        ("stepped-merge", stepped_merge()),
        ("leveled", leveled()),
        ("slimdb", slimdb()),
        ("lsm-trie", lsm_trie()),
        ("silt", silt()),
    ]
}

/// The names of all presets, default first, and of the rows of SlimDB's Table 1, for people to choose from.
pub fn names() -> String {
    named().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// The presets and the rows of SlimDB's Table 1.
fn named() -> impl Iterator<Item = (&'static str, Design)> {
    all().into_iter().chain(slimdb_table_1())
}

impl Design {
    /// The preset called `name` (see [`all`] and [`slimdb_table_1`]).
    pub fn preset(name: &str) -> Option<Self> {
        named().find(|(known, _)| *known == name).map(|(_, design)| design)
    }

    /// The same design with tables of `table_bytes` at level 0, and memtable and other tables in proportion:
    /// with smaller ones a store has as many levels with less data. Tables that may be as large as can be
    /// stay so.
    ///
    /// ```
    /// use siltstone_design::presets;
    ///
    /// let small = presets::lsm_trie().scaled_to(256 << 10);
    /// assert_eq!(small.write_buffer_bytes(), 256 << 10);
    /// assert_eq!(small.preset_name(), "lsm-trie:256K");
    /// ```
    #[must_use]
    pub fn scaled_to(&self, table_bytes: u64) -> Self {
        let base = self.levels.first().map_or(1, |level| level.table_bytes.max(1));
        let scale = |bytes: u64| {
            let scaled = u128::from(bytes) * u128::from(table_bytes) / u128::from(base);
            if bytes == MAX_TABLE_BYTES { bytes } else { u64::try_from(scaled).unwrap_or(u64::MAX) }
        };
        let mut scaled = self.clone();
        scaled.write_buffer = match self.write_buffer {
            WriteBufferSpec::MemTable { bytes } => WriteBufferSpec::MemTable { bytes: scale(bytes) },
            WriteBufferSpec::LogStore { entries } => {
                let (least, most) = (*LOG_STORE_ENTRIES.start(), *LOG_STORE_ENTRIES.end());
                let entries = scale(u64::from(entries)).clamp(u64::from(least), u64::from(most));
                WriteBufferSpec::LogStore { entries: u32::try_from(entries).unwrap_or(most) }
            }
        };
        for level in &mut scaled.levels {
            level.table_bytes = scale(level.table_bytes);
        }
        scaled
    }

    /// The same design with the tables of every level compressed so.
    ///
    /// ```
    /// use siltstone_design::{Compression, presets};
    ///
    /// let design = presets::lean().with_compression(Compression::Dictionary);
    /// assert_eq!(design.preset_name(), "lean+dictionary");
    /// ```
    #[must_use]
    pub fn with_compression(&self, compression: Compression) -> Self {
        let mut design = self.clone();
        design.levels.iter_mut().for_each(|level| level.compression = compression);
        design
    }

    /// The name of the preset equal to this design: with the bytes of level 0's tables, as in `lsm-trie:1M`,
    /// where it is a [scaled](Design::scaled_to) one, and with its
    /// [compression](Design::with_compression), as in `lean+dictionary`, where it has one; or `custom`.
    pub fn preset_name(&self) -> String {
        let plain = self.with_compression(Compression::None);
        if plain != *self {
            let name = plain.preset_name();
            let is_whole = name != "custom" && plain.with_compression(Compression::Dictionary) == *self;
            return if is_whole { format!("{name}+dictionary") } else { "custom".to_owned() };
        }
        if let Some((name, _)) = named().find(|(_, design)| design == self) {
            return name.to_owned();
        }
        let table_bytes = self.levels.first().map_or(0, |level| level.table_bytes);
        let Some((name, _)) = named().find(|(_, design)| design.scaled_to(table_bytes) == *self) else {
            return "custom".to_owned();
        };
        format!("{name}:{}", size(table_bytes))
    }

    /// What tells it from other designs, for people: its [name](Design::preset_name), or of a custom one the
    /// runs of its levels, from level 0 down, and the bytes of level 0's tables.
    ///
    /// ```
    /// use siltstone_design::{Design, presets};
    ///
    /// assert_eq!(presets::lean().summary(), "lean");
    /// let custom = Design { max_garbage: 0.5, ..presets::leveled().scaled_to(1 << 20) };
    /// assert_eq!(custom.summary(), "custom (8/1/1 runs, tables of 1M)");
    /// ```
    pub fn summary(&self) -> String {
        let name = self.preset_name();
        if name != "custom" {
            return name;
        }
        let runs: Vec<String> = self.levels.iter().map(|level| level.runs.to_string()).collect();
        let table_bytes = self.levels.first().map_or(0, |level| level.table_bytes);
        format!("custom ({} runs, tables of {})", runs.join("/"), size(table_bytes))
    }
}

/// Bytes as `--preset` takes them.
fn size(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let whole = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or(bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

impl Default for Design {
    fn default() -> Self {
        siltstone()
    }
}
