//! The layout of a store as a plain value.
//!
//! The papers differ in the *values* below and in how bytes lie inside a table or filter, nowhere else. A
//! level's regions split those of the level above by `fanout_bits` digest bits, so a region overlaps exactly
//! its own children. The last entry of `levels` also describes every level below it: leaves that fill up
//! split, and the trie grows by itself as the data grows.

use serde::{Deserialize, Serialize};

/// The layout of one keyspace: what the engine runs and the model prices.
///
/// ```
/// use siltstone_design::{Design, TableFilterSpec, presets};
///
/// let mut design = presets::stepped_merge();
/// design.levels[0].table_filter = TableFilterSpec::Bloom { bits_per_key: 14 };
/// assert!(design.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// Where writes gather before they become a run of level 0; `head` in designs of earlier programs.
    #[serde(alias = "head")]
    pub write_buffer: WriteBufferSpec,
    /// The levels from the top; the last one repeats below itself where the data outgrows it.
    pub levels: Vec<LevelSpec>,
    /// Share of a leaf region's bytes that may be dead before it is rewritten in place; peak space is 1/(1 −
    /// this).
    pub max_garbage: f64,
    /// Whether regions are pushed early where overwrites make the whole store take more than 1/(1 −
    /// `max_garbage`) times what is live in its leaves, and regions of any level but the first are reclaimed
    /// like leaves until they push something; else each region waits until it is full, as the papers have
    /// it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", alias = "hands_down_early")]
    pub pushes_early: bool,
}

/// Where writes gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WriteBufferSpec {
    /// An ordered in-memory table beside the write-ahead log.
    MemTable {
        /// Memory at which it is sealed and flushed.
        bytes: u64,
    },
    /// The write-ahead log itself: memory holds where in the log each item stands, six bytes for each, and a
    /// get reads the item there (SILT §3.1). For keyspaces whose keys are looked up one by one.
    LogStore {
        /// Entries that its index has room for. It is sealed when 95 in 100 are taken, or earlier if one
        /// finds no room. The paper's tables have 131,072, since its tags name buckets; here there may be
        /// more, and tags stay as long.
        entries: u32,
    },
}

/// Memory of an index entry of a log store: 16 bits for the tag and whether there is one, 32 for the place in
/// the log.
pub const LOG_INDEX_ENTRY_BYTES: u64 = 6;

impl WriteBufferSpec {
    /// Bytes of memory that it takes once it is full.
    pub fn memory_bytes(&self) -> u64 {
        match *self {
            Self::MemTable { bytes } => bytes,
            Self::LogStore { entries } => u64::from(entries) * LOG_INDEX_ENTRY_BYTES,
        }
    }

    /// About how many items of so many bytes it takes until it is full.
    pub fn items(&self, item_bytes: f64) -> f64 {
        match *self {
            Self::MemTable { bytes } => bytes as f64 / item_bytes,
            Self::LogStore { entries } => f64::from(entries) * LOG_STORE_FILL,
        }
    }
}

/// The share of a log store's entries that are taken when it is sealed.
pub const LOG_STORE_FILL: f64 = 0.95;

/// One level of the trie.
///
/// As JSON it has these fields; a design that was written when a level had one field `filter` for both
/// filters is read as well (`stored.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "crate::stored::StoredLevel")]
pub struct LevelSpec {
    /// Digest bits by which this level's regions divide those of the level above (level 0: the whole space).
    pub fanout_bits: u8,
    /// Runs a region may hold: 1 = leveled (a push merges with the run that is there), r = stepped merge.
    pub runs: u16,
    /// How the bytes of its tables lie.
    pub format: Format,
    /// How a key's page is found within a table.
    pub index: IndexSpec,
    /// What each table knows of its own keys, to spare reads of tables that do not hold a key.
    pub table_filter: TableFilterSpec,
    /// What a region knows of the keys of all its runs, to spare reads of runs that do not hold a key.
    pub region_filter: RegionFilterSpec,
    /// Bytes of one run's share of a region: a region is full at `runs × table_bytes`. They are counted as
    /// stored, so tables that compress hold more items.
    pub table_bytes: u64,
    /// Whether, and how, the entries of its tables are compressed.
    #[serde(skip_serializing_if = "Compression::is_none")]
    pub compression: Compression,
}

/// How the entries of a table are compressed: each by itself, so that a lookup still reads one page and
/// decodes one value of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Entries are stored as they are.
    #[default]
    None,
    /// By what a table's first entries have in common: what its pages hold of keys as codes for up to 254
    /// frequent strings (FSST, Boncz et al., VLDB'20), and values with references into a dictionary of 4 KiB
    /// at most (LZ4's block format). A table in which that saves less than a tenth stores its keys, its
    /// values or both as they are.
    Dictionary,
}

impl Compression {
    /// Whether entries are stored as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// How the bytes of a table lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Entries in digest order, packed into checksummed 4 KiB pages.
    Block,
    /// A hash table whose buckets are checksummed 4 KiB pages: a key's page is computed (LSM-trie). For point
    /// keys; those of semi-sorted keyspaces cluster too much, and are searched by halves.
    HTable,
    /// SILT's hash store: slots of one size in the order of a partial-key cuckoo table, whose tags are filter
    /// and index (SILT §3.2).
    Hash,
    /// SILT's sorted store: slots of one size in digest order, which an entropy-coded trie leads to; one read
    /// per lookup, hit or miss. For keyspaces whose keys are looked up one by one (SILT §3.3).
    Sorted,
}

/// How a key's page is found within a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum IndexSpec {
    /// None: the format itself says where a key is.
    None,
    /// Shortened separators between pages of one size: LevelDB's index at its smallest (SlimDB Table 3, fixed
    /// block).
    Separators,
    /// The last key of every page in full, with the page's offset and length: LevelDB's default (SlimDB Table
    /// 3).
    LastKeys,
    /// Shortened separators, with every page's offset and length (SlimDB Table 3, key-compressed).
    LocatedSeparators,
    /// SlimDB's three levels: prefixes in an entropy-coded trie, where each prefix's pages end, and a small
    /// index of suffixes per prefix that spans pages (SlimDB §3.1).
    ThreeLevel {
        /// What tells apart the pages of one prefix.
        third: ThirdLevel,
    },
    /// Borders of pages as small integers: the digests are cut into cells, and pages end with a cell where
    /// they can (ours).
    Cells,
    /// Separators in pages of their own on the device; memory holds one per index page. A lookup reads one
    /// page more: the rows of SlimDB's Table 1 without an index in memory.
    Paged,
}

/// The third level of a three-level index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThirdLevel {
    /// Entropy-coded tries of the suffixes: the smallest.
    EntropyTrie,
    /// The shortest distinguishing part of each suffix: larger, and quicker to search.
    PartialSuffixes,
}

/// The filter that a table has of its own, over its own keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TableFilterSpec {
    /// No filter: a lookup reads every table that may hold the key, unless the region's filter rules it out.
    None,
    /// A Bloom filter.
    Bloom {
        /// Filter bits per key.
        bits_per_key: u8,
    },
    /// A cuckoo filter (SlimDB's CF).
    Cuckoo {
        /// Bits of a key's fingerprint.
        fingerprint_bits: u8,
    },
    /// A fragment of each key's hash, in the order of a sorted store's slots: the trie leads to the one that
    /// is compared before the slot is read (SILT §3.3). For sorted stores of which a region holds several.
    Fragments {
        /// Bits of a fragment: an absent key costs a read at a rate of 2 to the minus this.
        fragment_bits: u8,
    },
}

/// The filter that a region has over the keys of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RegionFilterSpec {
    /// No filter: every run is asked.
    None,
    /// A multi-level cuckoo filter, which says in which run a key is (SlimDB §3.2).
    MultiLevelCuckoo {
        /// Bits of a key's fingerprint; the run's number comes on top.
        fingerprint_bits: u8,
    },
    /// A maplet, which says in which runs a key may be, and is merged rather than updated (ours). It is made
    /// of fingerprints that the tables keep.
    Maplet {
        /// Bits of a key's fingerprint beyond those that tell the keys of a full region apart: an absent key
        /// costs a probe at a rate of 2 to the minus this.
        remainder_bits: u8,
    },
    /// A Bloom filter per run and column of digests, those of all runs side by side on the device, so that
    /// one read fetches all that a lookup asks (LSM-trie).
    BloomCluster {
        /// Filter bits per key.
        bits_per_key: u8,
    },
}

impl RegionFilterSpec {
    /// Returns the remainder bits of the fingerprints that tables keep for this filter; `None` if it needs
    /// none of them.
    pub fn kept_remainder_bits(self) -> Option<u8> {
        match self {
            Self::None | Self::MultiLevelCuckoo { .. } | Self::BloomCluster { .. } => None,
            Self::Maplet { remainder_bits } => Some(remainder_bits),
        }
    }

    /// Whether the filter uses what a write learnt about older versions of its key.
    pub fn uses_older_versions(self) -> bool {
        match self {
            Self::None | Self::Maplet { .. } | Self::BloomCluster { .. } => false,
            Self::MultiLevelCuckoo { .. } => true,
        }
    }
}

impl LevelSpec {
    /// Bytes of a full region: those of its runs.
    pub fn region_bytes(&self) -> u64 {
        self.table_bytes.saturating_mul(u64::from(self.runs))
    }

    /// How many runs of `run_bytes` each a region takes before it is pushed: as many as it may have, or as
    /// fill it if these are fewer; and more where so many would fill a quarter of it at most and are joined.
    ///
    /// ```
    /// let level = siltstone_design::presets::stepped_merge().levels[0];
    /// let runs = f64::from(level.runs);
    /// assert_eq!(level.runs_per_push(level.table_bytes as f64 / 2.0), runs);
    /// assert_eq!(level.runs_per_push(level.table_bytes as f64 * 2.0), runs / 2.0);
    /// assert_eq!(level.runs_per_push(level.table_bytes as f64 / 8.0), runs * 2.0);
    /// ```
    pub fn runs_per_push(&self, run_bytes: f64) -> f64 {
        let full = self.region_bytes() as f64 / run_bytes.max(1.0);
        let by_count = if self.runs > 1 { f64::from(self.runs).max(full * SMALL_PART) } else { full };
        by_count.min(full).max(1.0)
    }
}

/// The part of a region's bytes up to which its runs are joined, rather than pushed, once there are as many
/// as it may have: partitioned, they would be too small.
pub(crate) const SMALL_PART: f64 = 1.0 / 4.0;

impl Design {
    /// The specification of level `level`; the last entry stands for all levels below it.
    ///
    /// # Panics
    /// If the design has no levels, which [`Design::check`] refuses.
    #[expect(clippy::expect_used, reason = "a checked design has levels")]
    pub fn level(&self, level: usize) -> &LevelSpec {
        self.levels.get(level).or(self.levels.last()).expect("a design has at least one level")
    }

    /// Digest bits fixed by a region of level `level`.
    pub fn depth(&self, level: usize) -> u8 {
        (0..=level)
            .map(|l| u32::from(self.level(l).fanout_bits))
            .sum::<u32>()
            .min(u32::from(crate::digest::MAX_DEPTH)) as u8
    }

    /// The level whose regions fix `depth` digest bits, if the design has one.
    ///
    /// ```
    /// let design = siltstone_design::presets::stepped_merge();
    /// assert_eq!((design.level_at(6), design.level_at(7)), (Some(2), None));
    /// ```
    pub fn level_at(&self, depth: u8) -> Option<usize> {
        let level = self.level_from(depth);
        (self.depth(level) == depth).then_some(level)
    }

    /// The uppermost level whose regions fix at least `depth` digest bits, or as many as there can be.
    pub fn level_from(&self, depth: u8) -> usize {
        let depth = depth.min(crate::digest::MAX_DEPTH);
        let (mut level, mut at) = (0, self.level(0).fanout_bits);
        // The last level of a checked design, which repeats, divides what it holds.
        while at < depth && level < usize::from(crate::digest::MAX_DEPTH) + self.levels.len() {
            level += 1;
            at = at.saturating_add(self.level(level).fanout_bits);
        }
        level
    }

    /// Whether `level` is the last the design names, or below it: where leaves stay until they split.
    pub fn is_leaf_level(&self, level: usize) -> bool {
        level + 1 >= self.levels.len()
    }

    /// Whether a region of `level` is a leaf, which holds what nothing lies below and is reclaimed in place.
    /// In designs that push early any region without children is one, but for level 0's: what has not
    /// come further down is garbage there too.
    pub fn is_leaf(&self, level: usize, has_children: bool) -> bool {
        !has_children && (self.is_leaf_level(level) || (self.pushes_early && level > 0))
    }

    /// Whether a region filter at `level` or anywhere below uses what a write learnt about older versions of
    /// its key: then entries keep that.
    pub fn keeps_older_versions_from(&self, level: usize) -> bool {
        let first = level.min(self.levels.len().saturating_sub(1));
        let mut below = self.levels.iter().skip(first);
        below.any(|spec| spec.region_filter.uses_older_versions())
    }

    /// Whether regions of any level have filters.
    pub fn has_region_filters(&self) -> bool {
        self.levels.iter().any(|spec| spec.region_filter != RegionFilterSpec::None)
    }

    /// Bytes of memory that the write buffer takes once it is full.
    pub fn write_buffer_bytes(&self) -> u64 {
        self.write_buffer.memory_bytes()
    }
}
