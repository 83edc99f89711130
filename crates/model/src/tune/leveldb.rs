//! LevelDB: settings from a list of names and values, and what its LOG tells.
//!
//! Source: LevelDB 1.23. It keeps its options in the program, not in a file, so the file here is ours: lines
//! of `name=value`, `#` for comments, with the names of `leveldb::Options` and of the constants in
//! `db/dbformat.h` and `db/version_set.cc`; what is missing has LevelDB's value. Its LOG counts bytes of
//! tables but neither requests nor keys; since it flushes every version of a key, the bytes flushed stand for
//! the bytes ingested.
//!
//! | name | LevelDB's value |
//! |---|---|
//! | `write_buffer_size` | 4194304 |
//! | `max_file_size` | 2097152 |
//! | `level0_compaction_trigger` (`kL0_CompactionTrigger`) | 4 |
//! | `max_bytes_for_level_base` (`MaxBytesForLevel`) | 10485760 |
//! | `max_bytes_for_level_multiplier` (the same) | 10 |

use super::settings::{Priority, Remark, Settings, Style};
use crate::ModelError;
use serde::Serialize;
use std::collections::BTreeMap;

/// LevelDB's levels, level 0 included.
pub const LEVELS: usize = 7;

/// Reads the list of settings; an empty text is LevelDB as it comes.
///
/// # Errors
/// A line that is not `name=value`, a name that LevelDB does not have, a value that is not a positive number.
///
/// ```
/// let settings = siltstone_model::tune::leveldb::settings("write_buffer_size=8388608\n")?;
/// assert_eq!(settings.write_buffer_bytes, 8_388_608.0);
/// assert_eq!(settings.level_targets(1e9).len(), 3);
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
pub fn settings(text: &str) -> Result<Settings, ModelError> {
    let mut values: BTreeMap<&str, f64> = BTreeMap::from([
        ("write_buffer_size", 4_194_304.0),
        ("max_file_size", 2_097_152.0),
        ("level0_compaction_trigger", 4.0),
        ("max_bytes_for_level_base", 10_485_760.0),
        ("max_bytes_for_level_multiplier", 10.0),
    ]);
    let names: Vec<&str> = values.keys().copied().collect();
    let mut remarks = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let wrong = |why: String| ModelError::new("OPTIONS", format!("line {}: {why}", number + 1));
        let Some((name, value)) = content.split_once('=') else {
            return Err(wrong(
                "expected name=value; LevelDB has no OPTIONS file, so this one is a list".to_owned(),
            ));
        };
        let (name, value) = (name.trim(), value.trim());
        if let Some(effect) = passed_over(name) {
            remarks.push(Remark { setting: content.to_owned(), effect: effect.to_owned() });
            continue;
        }
        let Some(slot) = values.get_mut(name) else {
            return Err(wrong(format!("LevelDB has no {name}; known are {}", names.join(", "))));
        };
        *slot = value
            .parse::<f64>()
            .ok()
            .filter(|parsed| parsed.is_finite() && *parsed > 0.0)
            .ok_or_else(|| wrong(format!("{name}={value}: expected a number above 0")))?;
    }
    let value = |name: &str| values.get(name).copied().unwrap_or(1.0);
    Ok(Settings {
        family: "default".to_owned(),
        version: None,
        style: Style::Leveled,
        write_buffer_bytes: value("write_buffer_size"),
        // Memory is taken in small blocks: a memtable is flushed at its limit.
        arena_block_bytes: 4096.0,
        write_buffers: 2.0,
        buffers_per_flush: 1.0,
        level0_tables: value("level0_compaction_trigger"),
        base_bytes: value("max_bytes_for_level_base"),
        multiplier: value("max_bytes_for_level_multiplier"),
        multiplier_additional: Vec::new(),
        levels: LEVELS,
        dynamic_level_bytes: false,
        priority: Priority::RoundRobin,
        aligned_tables: false,
        table_bytes: value("max_file_size"),
        level0_by_size: false,
        flush_dedup: false,
        remarks,
    })
}

/// Options of LevelDB that change nothing about writes here, and what to say of them.
fn passed_over(name: &str) -> Option<&'static str> {
    match name {
        "compression" | "zstd_compression_level" => Some("compression is left out: sizes are as given"),
        "reuse_logs"
        | "paranoid_checks"
        | "max_open_files"
        | "block_size"
        | "block_restart_interval"
        | "filter_policy"
        | "block_cache"
        | "create_if_missing"
        | "error_if_exists" => Some("changes nothing about what compaction writes"),
        _ => None,
    }
}

/// What a LevelDB LOG counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LevelDbLog {
    /// Tables that memtables became.
    pub flushes: f64,
    /// Their bytes: what the user wrote, about.
    pub flushed_bytes: f64,
    /// Bytes that compactions wrote.
    pub compacted_bytes: f64,
    /// Compactions out of level 0, and the level-0 tables they took.
    pub level0_compactions: f64,
    /// Level-0 tables they took.
    pub level0_tables: f64,
}

impl LevelDbLog {
    /// Bytes written to log and tables per byte flushed, where anything was.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.flushed_bytes > 0.0).then(|| 2.0 + self.compacted_bytes / self.flushed_bytes)
    }

    /// Level-0 tables per compaction.
    pub fn level0_tables_per_compaction(&self) -> Option<f64> {
        (self.level0_compactions > 0.0).then(|| self.level0_tables / self.level0_compactions)
    }

    /// Takes the next line. Lines that mean nothing here are passed over.
    ///
    /// ```
    /// let mut log = siltstone_model::tune::leveldb::LevelDbLog::default();
    /// log.line("2026/01/01-00:00:00.1 1 Level-0 table #5: 1000 bytes OK");
    /// log.line("2026/01/01-00:00:00.2 1 Compacted 4@0 + 1@1 files => 9000 bytes");
    /// assert_eq!(log.write_amplification(), Some(11.0));
    /// ```
    pub fn line(&mut self, line: &str) {
        if let Some((_, rest)) = line.split_once("Level-0 table #") {
            // Twice per flush, "started" first; an empty memtable becomes a table of 0 bytes.
            if let Some(bytes) = number_before(rest, "bytes OK") {
                self.flushes += 1.0;
                self.flushed_bytes += bytes;
            }
        } else if let Some((_, rest)) = line.split_once("Compacted ")
            && let Some(bytes) = number_before(rest, "bytes")
        {
            self.compacted_bytes += bytes;
            if let Some(tables) = rest.split_once("@0 ").and_then(|(tables, _)| tables.parse::<f64>().ok()) {
                self.level0_compactions += 1.0;
                self.level0_tables += tables;
            }
        }
    }

    /// This log, if anything was in it.
    ///
    /// # Errors
    /// Nothing that a LOG of LevelDB contains was in it.
    pub fn finish(self) -> Result<Self, ModelError> {
        if self.flushes == 0.0 {
            let message = "no flush in it; give LevelDB's own LOG (or LOG.old), from the store's directory";
            return Err(ModelError::new("LOG", message));
        }
        Ok(self)
    }
}

/// The number right before some words.
fn number_before(text: &str, words: &str) -> Option<f64> {
    let (before, _) = text.split_once(words)?;
    before.split_whitespace().last()?.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
}
