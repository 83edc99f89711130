//! What a RocksDB OPTIONS file says about writing: the settings that the model uses, and a remark on every
//! other one that would change what is written.
//!
//! Source: RocksDB's `include/rocksdb/options.h`, `advanced_options.h` and its rules for level sizes
//! (`VersionStorageInfo::CalculateBaseBytes`) and for when a memtable is full (`MemTable::ShouldFlushNow`),
//! versions 5 to 10, described in our own words where they are used. *Invariant*: a setting that matters is
//! modelled or named.

use super::ini::{OptionsFile, nested};
use crate::ModelError;
use serde::Serialize;

/// How the tree is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "style", rename_all = "snake_case")]
pub enum Style {
    /// Levels of one sorted run each.
    Leveled,
    /// Runs by age.
    Universal {
        /// A run joins the younger ones while it is at most so many percent larger than they are.
        size_ratio_percent: f64,
        /// Everything is merged when the younger runs exceed so many percent of the oldest.
        max_size_amplification_percent: f64,
    },
}

/// Which table of a level is compacted next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// `kMinOverlappingRatio`: the one that meets least of the next level.
    LeastOverlap,
    /// `kRoundRobin`: the next in key order.
    RoundRobin,
    /// `kByCompensatedSize`: the largest.
    Largest,
    /// `kOldestLargestSeqFirst`, `kOldestSmallestSeqFirst`: by age.
    Oldest,
}

/// What the model takes from OPTIONS. Sizes in bytes, as in the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// The column family.
    pub family: String,
    /// RocksDB's version, if the file says it.
    pub version: Option<String>,
    /// Compaction style.
    pub style: Style,
    /// A memtable's size, which memory management may cut further.
    pub write_buffer_bytes: f64,
    /// Blocks that a memtable takes its memory in.
    pub arena_block_bytes: f64,
    /// Memtables at most.
    pub write_buffers: f64,
    /// Memtables merged into one flush.
    pub buffers_per_flush: f64,
    /// Level-0 tables that start a compaction.
    pub level0_tables: f64,
    /// Level 1, or the first level in use where sizes are dynamic.
    pub base_bytes: f64,
    /// Growth from level to level.
    pub multiplier: f64,
    /// Further factors, for level 2 on.
    pub multiplier_additional: Vec<f64>,
    /// Levels at most, level 0 included.
    pub levels: usize,
    /// Whether sizes follow from the last level's.
    pub dynamic_level_bytes: bool,
    /// Which table goes next.
    pub priority: Priority,
    /// Whether tables are cut where those of the next level are.
    pub aligned_tables: bool,
    /// Size of tables.
    pub table_bytes: f64,
    /// Whether level 0 is also compacted when its tables take more bytes than level 1 may (RocksDB).
    pub level0_by_size: bool,
    /// Whether a flush writes a key once (RocksDB) or every version of it (LevelDB).
    pub flush_dedup: bool,
    /// What is not modelled, or only in part.
    pub remarks: Vec<Remark>,
}

/// A setting that changes what is written in ways the prediction leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The setting and its value as in the file.
    pub setting: String,
    /// What it does to the prediction.
    pub effect: String,
}

/// One group of settings with RocksDB's defaults for those that are not there.
struct Group<'a> {
    file: &'a OptionsFile,
    section: String,
}

impl Group<'_> {
    fn text(&self, name: &str, default: &str) -> String {
        self.file.get(&self.section, name).unwrap_or(default).to_owned()
    }

    fn number(&self, name: &str, default: f64) -> Result<f64, ModelError> {
        let Some(text) = self.file.get(&self.section, name) else { return Ok(default) };
        text.parse::<f64>()
            .ok()
            .filter(|value| value.is_finite() && *value >= 0.0)
            .ok_or_else(|| self.wrong(name, text, "a number that is not negative"))
    }

    fn positive(&self, name: &str, default: f64) -> Result<f64, ModelError> {
        match self.number(name, default)? {
            value if value > 0.0 => Ok(value),
            value => Err(self.wrong(name, &value.to_string(), "above 0")),
        }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, ModelError> {
        match self.file.get(&self.section, name) {
            None => Ok(default),
            Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(other) => Err(self.wrong(name, other, "true or false")),
        }
    }

    fn wrong(&self, name: &str, value: &str, expected: &str) -> ModelError {
        ModelError::new("OPTIONS", format!("[{}] {name}={value}: expected {expected}", self.section))
    }
}

/// The section of a column family.
pub fn family_section(family: &str) -> String {
    format!("CFOptions \"{family}\"")
}

/// Column families that the file has options for.
pub fn families(file: &OptionsFile) -> Vec<String> {
    file.sections()
        .filter_map(|title| title.strip_prefix("CFOptions \"")?.strip_suffix('"'))
        .map(str::to_owned)
        .collect()
}

impl Settings {
    /// Reads what concerns a column family.
    ///
    /// # Errors
    /// No such family; a value that RocksDB would not take either; a style whose writes no model here
    /// describes.
    pub fn read(file: &OptionsFile, family: &str) -> Result<Self, ModelError> {
        let section = family_section(family);
        if !file.sections().any(|title| title == section) {
            let known = families(file).join(", ");
            let message = if known.is_empty() {
                "no [CFOptions \"…\"] in it; give the OPTIONS-… file that RocksDB wrote".to_owned()
            } else {
                format!("no column family {family:?} in it; there are: {known}")
            };
            return Err(ModelError::new("OPTIONS", message));
        }
        let version = file.get("Version", "rocksdb_version").map(str::to_owned);
        let group = Group { file, section };
        let database = Group { file, section: "DBOptions".to_owned() };
        let mut settings = Self::modelled(&group, family, version)?;
        settings.remarks = remarks(&group, &database, &settings)?;
        Ok(settings)
    }

    fn modelled(group: &Group, family: &str, version: Option<String>) -> Result<Self, ModelError> {
        let write_buffer_bytes = group.positive("write_buffer_size", 67_108_864.0)?;
        let arena = match group.number("arena_block_size", 0.0)? {
            // RocksDB then takes an eighth of the buffer, up to 1 MiB, in whole pages.
            0.0 => (write_buffer_bytes / 8.0).min(1_048_576.0),
            bytes => bytes,
        };
        let levels = group.positive("num_levels", 7.0)?;
        if levels.fract() != 0.0 || !(1.0..=64.0).contains(&levels) {
            return Err(group.wrong("num_levels", &levels.to_string(), "1 to 64"));
        }
        let multiplier = group.positive("max_bytes_for_level_multiplier", 10.0)?;
        Ok(Self {
            family: family.to_owned(),
            aligned_tables: group
                .flag("level_compaction_dynamic_file_size", newer_than_7_7(version.as_deref()))?,
            version,
            style: style(group)?,
            write_buffer_bytes,
            arena_block_bytes: arena,
            write_buffers: group.positive("max_write_buffer_number", 2.0)?,
            buffers_per_flush: group.positive("min_write_buffer_number_to_merge", 1.0)?,
            level0_tables: group.positive("level0_file_num_compaction_trigger", 4.0)?,
            base_bytes: group.positive("max_bytes_for_level_base", 268_435_456.0)?,
            multiplier,
            multiplier_additional: additional(group)?,
            levels: levels as usize,
            dynamic_level_bytes: group.flag("level_compaction_dynamic_level_bytes", false)?,
            priority: priority(group)?,
            table_bytes: group.positive("target_file_size_base", 67_108_864.0)?,
            level0_by_size: true,
            flush_dedup: true,
            remarks: Vec::new(),
        })
    }

    /// Bytes of memory that a memtable holds when it is flushed.
    ///
    /// It takes memory in blocks, and is full when another block would overshoot the limit by more than 0.6
    /// of a block and a quarter of the last one is left.
    pub fn full_memtable_bytes(&self) -> f64 {
        let block = self.arena_block_bytes;
        let blocks = ((self.write_buffer_bytes - 0.4 * block) / block).ceil().max(1.0);
        (blocks - 0.25) * block
    }

    /// Level-0 tables of so many bytes at which a store that keeps up compacts them: the trigger, or fewer if
    /// these take as many bytes as level 1 may.
    pub fn level0_tables_of(&self, table_bytes: f64) -> f64 {
        if !self.level0_by_size || self.style != Style::Leveled || table_bytes <= 0.0 {
            return self.level0_tables;
        }
        (self.base_bytes / table_bytes).ceil().clamp(1.0, self.level0_tables.max(1.0))
    }

    /// Target sizes of the levels below level 0 for a store whose last level holds `last_bytes`; the last one
    /// is that.
    pub fn level_targets(&self, last_bytes: f64) -> Vec<f64> {
        let most = self.levels.saturating_sub(1).max(1);
        let mut targets =
            if self.dynamic_level_bytes { self.dynamic_targets(last_bytes, most) } else { Vec::new() };
        if !self.dynamic_level_bytes {
            let mut size = self.base_bytes;
            while targets.len() + 1 < most && size < last_bytes {
                targets.push(size);
                // Factors are listed from level 0 on; the one of level 1 is that between levels 1 and 2.
                let additional = self.multiplier_additional.get(targets.len()).copied().unwrap_or(1.0);
                size = (size * self.multiplier * additional).max(1.0);
            }
        }
        targets.push(last_bytes);
        targets
    }

    /// From the last level up, each smaller by the multiplier until one is at most the base; none is below
    /// the base.
    fn dynamic_targets(&self, last_bytes: f64, most: usize) -> Vec<f64> {
        let mut upwards = Vec::new();
        let mut size = last_bytes;
        while size > self.base_bytes && upwards.len() + 1 < most && self.multiplier > 1.0 {
            size /= self.multiplier;
            upwards.push(size.max(self.base_bytes));
        }
        upwards.reverse();
        upwards
    }
}

fn style(group: &Group) -> Result<Style, ModelError> {
    if group.flag("disable_auto_compactions", false)? {
        let message =
            "disable_auto_compactions=true: what is compacted, and so written, depends on who asks for it";
        return Err(ModelError::new("OPTIONS", message));
    }
    let name = group.text("compaction_style", "kCompactionStyleLevel");
    match name.as_str() {
        "kCompactionStyleLevel" => Ok(Style::Leveled),
        "kCompactionStyleUniversal" => {
            let value = group.text("compaction_options_universal", "{}");
            let field = |name: &str, default: f64| match nested(&value, name) {
                None => Ok(default),
                Some(text) => text.parse().map_err(|_| {
                    group.wrong("compaction_options_universal", &format!("{name}={text}"), "a number")
                }),
            };
            Ok(Style::Universal {
                size_ratio_percent: field("size_ratio", 1.0)?,
                max_size_amplification_percent: field("max_size_amplification_percent", 200.0)?,
            })
        }
        "kCompactionStyleFIFO" => {
            let message = "compaction_style=kCompactionStyleFIFO: nothing is compacted there, tables are dropped by age; \
                           each byte is written to the log and once more, and there is nothing to tune";
            Err(ModelError::new("OPTIONS", message))
        }
        other => {
            let message = format!(
                "compaction_style={other} is not known; expected kCompactionStyleLevel or …Universal"
            );
            Err(ModelError::new("OPTIONS", message))
        }
    }
}

fn priority(group: &Group) -> Result<Priority, ModelError> {
    let name = group.text("compaction_pri", "kMinOverlappingRatio");
    match name.as_str() {
        "kMinOverlappingRatio" => Ok(Priority::LeastOverlap),
        "kRoundRobin" => Ok(Priority::RoundRobin),
        "kByCompensatedSize" => Ok(Priority::Largest),
        "kOldestLargestSeqFirst" | "kOldestSmallestSeqFirst" => Ok(Priority::Oldest),
        other => Err(group.wrong(
            "compaction_pri",
            other,
            "one of RocksDB's priorities, such as kMinOverlappingRatio",
        )),
    }
}

fn additional(group: &Group) -> Result<Vec<f64>, ModelError> {
    let text = group.text("max_bytes_for_level_multiplier_additional", "");
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.trim_matches(['{', '}'])
        .split(':')
        .map(|factor| factor.trim().parse::<f64>().ok().filter(|value| *value > 0.0))
        .collect::<Option<_>>()
        .ok_or_else(|| {
            group.wrong("max_bytes_for_level_multiplier_additional", &text, "whole numbers like 1:1:1")
        })
}

fn newer_than_7_7(version: Option<&str>) -> bool {
    let mut parts = version.unwrap_or("0").split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    (major, minor) >= (7, 8)
}

/// (setting, value at which it changes nothing, what it does otherwise)
const INERT: [(&str, &[&str], &str); 12] = [
    (
        "bottommost_compression",
        &["kNoCompression", "kDisableCompressionOption"],
        "sizes of the last level are as the LOG shows them, or as given; without a LOG, compression is left out",
    ),
    (
        "enable_blob_files",
        &["false"],
        "values in blob files are not compacted with their keys; left out, so the prediction is too high",
    ),
    ("compaction_filter", &["nullptr"], "what the filter drops is left out"),
    ("compaction_filter_factory", &["nullptr"], "what the filters drop is left out"),
    ("merge_operator", &["nullptr"], "merge operands are counted as overwrites"),
    ("inplace_update_support", &["false"], "updates in place never reach a table; left out"),
    (
        "periodic_compaction_seconds",
        &["0", "18446744073709551614"],
        "rewriting tables by age is left out; it adds the store's size per period",
    ),
    ("preclude_last_level_data_seconds", &["0"], "keeping recent data out of the last level is left out"),
    ("experimental_mempurge_threshold", &["0", "0.000000"], "memtables cleaned in memory are left out"),
    ("sst_partitioner_factory", &["nullptr"], "cutting tables at partitions is left out"),
    ("max_successive_merges", &["0"], "merging operands at write is left out"),
    ("target_file_size_multiplier", &["1"], "tables that grow from level to level are left out"),
];

fn remarks(group: &Group, database: &Group, settings: &Settings) -> Result<Vec<Remark>, ModelError> {
    let mut remarks = Vec::new();
    let mut remark =
        |setting: String, effect: &str| remarks.push(Remark { setting, effect: effect.to_owned() });
    let compression = group.text("compression", "kSnappyCompression");
    let per_level = group.text("compression_per_level", "");
    if compression != "kNoCompression" || !per_level.is_empty() {
        let effect =
            "table sizes are as the LOG shows them, compressed; without a LOG, compression is left out";
        remark(format!("compression={compression}"), effect);
    }
    for (name, harmless, effect) in INERT {
        let value = group.text(name, harmless.first().copied().unwrap_or_default());
        if !harmless.contains(&value.as_str()) {
            remark(format!("{name}={value}"), effect);
        }
    }
    let ttl = group.number("ttl", 0.0)?;
    // 30 days is the default, and rewrites little next to a store that is written all the time.
    if ttl > 0.0 && ttl < 2_592_000.0 {
        remark(format!("ttl={ttl}"), "rewriting tables older than this is left out");
    }
    if group.text("memtable_factory", "SkipListFactory") != "SkipListFactory" {
        let effect = "a memtable is taken to need as much memory per item as a skip list does";
        remark(format!("memtable_factory={}", group.text("memtable_factory", "")), effect);
    }
    match settings.priority {
        Priority::Oldest => remark(
            format!("compaction_pri={}", group.text("compaction_pri", "")),
            "picking by age is modelled as going round the keys",
        ),
        Priority::LeastOverlap | Priority::RoundRobin | Priority::Largest => {}
    }
    if settings.buffers_per_flush > 1.0 && matches!(settings.style, Style::Universal { .. }) {
        remark("min_write_buffer_number_to_merge".to_owned(), "counted as one larger memtable");
    }
    for (name, effect) in [
        (
            "db_write_buffer_size",
            "a limit on all memtables together may flush them before they are full; left out",
        ),
        ("max_total_wal_size", "a limit on the log may flush memtables before they are full; left out"),
    ] {
        let value = database.number(name, 0.0)?;
        if value > 0.0 {
            remark(format!("{name}={value}"), effect);
        }
    }
    let log_compression = database.text("wal_compression", "kNoCompression");
    if log_compression != "kNoCompression" {
        remark(format!("wal_compression={log_compression}"), "without a LOG the log counts uncompressed");
    }
    if database.number("max_subcompactions", 1.0)? > 1.0 {
        let effect = "splitting compactions among threads changes no bytes but table bounds; left out";
        remark("max_subcompactions".to_owned(), effect);
    }
    Ok(remarks)
}
