//! RocksDB's events one by one: exact counts of flushes and compactions, and which tables the store holds.
//!
//! Source: the lines `EVENT_LOG_v1 {json}` of RocksDB's `LOG`, versions 5 to 10, and `Moving #N to level-L`,
//! which is all that tells where a table goes that is moved without being rewritten. *Ours*: RocksDB dumps
//! its statistics every ten minutes at first, so the LOG of a short run has none; the events alone then tell
//! the same, but for how writes were batched.
//!
//! Invariant: tables are known completely only where the LOG begins with an empty store
//! ([`Events::began_empty`]).

use super::log::{LevelState, Totals};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Flushes and compactions counted one by one, of one column family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Events {
    /// Memtables flushed.
    pub flushes: f64,
    /// Writes they had taken.
    pub flush_requests: f64,
    /// Of these, deletions.
    pub flush_deletes: f64,
    /// Bytes of keys and values in them, as memtables count: with a sequence number and two lengths each.
    pub flush_data_bytes: f64,
    /// Flushes of a memtable that was not full: at close, on request, for the log's sake.
    pub early_flushes: f64,
    /// Bytes of memory that full memtables held, and the writes in these.
    pub full_memory_bytes: f64,
    /// Writes that full memtables had taken.
    pub full_requests: f64,
    /// Full memtables flushed.
    pub full_flushes: f64,
    /// Entries of the tables that flushes wrote.
    pub flushed_items: f64,
    /// Bytes of these tables.
    pub flushed_bytes: f64,
    /// Compactions out of level 0.
    pub level0_compactions: f64,
    /// Level-0 tables they took.
    pub level0_tables: f64,
    /// Entries and bytes of all tables written, flushes included.
    pub table_items: f64,
    /// Bytes of all tables written.
    pub table_bytes: f64,
    /// Bytes of the keys in them, each with a sequence number; 0 where the LOG does not say.
    pub key_bytes: f64,
    /// Of all tables' bytes, those that compactions wrote.
    pub compacted_bytes: f64,
    /// Bytes of tables that went a level down without being written again.
    pub moved_bytes: f64,
    /// Whether the store held nothing before the first flush; `None` if there was none.
    pub began_empty: Option<bool>,
}

impl Events {
    /// Bytes of a key, where the LOG says so.
    ///
    /// ```
    /// let events = siltstone_model::tune::log::Events::default();
    /// assert_eq!(events.bytes_of_key(), None);
    /// ```
    pub fn bytes_of_key(&self) -> Option<f64> {
        (self.key_bytes > 0.0 && self.table_items > 0.0)
            .then(|| (self.key_bytes / self.table_items - SEQUENCE_BYTES).max(0.0))
    }

    /// What statistics would say of these flushes and compactions, each write taken to be a batch of its own.
    pub(super) fn totals(&self) -> Totals {
        // A batch has a header of 12 bytes and a tag per item, where a memtable has a sequence number of 8.
        let ingest_bytes = self.flush_data_bytes + self.flush_requests * (12.0 + 1.0 - 8.0);
        Totals {
            keys: self.flush_requests,
            ingest_bytes,
            log_bytes: ingest_bytes,
            table_bytes: self.table_bytes,
            ..Totals::default()
        }
    }
}

/// Bytes of a sequence number, which stands behind each key.
const SEQUENCE_BYTES: f64 = 8.0;

/// A flush or compaction between its first event and its last.
#[derive(Debug, Default)]
struct Job {
    flush: Option<Event>,
    level0_tables: usize,
    compaction: bool,
    foreign: bool,
    items: f64,
    bytes: f64,
    key_bytes: f64,
    tables: Vec<(u64, f64)>,
}

/// The fields of events that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    event: String,
    job: u64,
    cf_name: Option<String>,
    num_entries: f64,
    num_deletes: f64,
    total_data_size: f64,
    memory_usage: f64,
    flush_reason: String,
    file_number: u64,
    file_size: f64,
    output_level: u32,
    lsm_state: Vec<f64>,
    #[serde(rename = "files_L0")]
    files_level0: Vec<u64>,
    table_properties: TableProperties,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TableProperties {
    num_entries: f64,
    raw_key_size: f64,
}

/// Jobs remembered at most; RocksDB runs a few at a time, so more of them only come from a LOG that lost
/// lines.
const MOST_JOBS: usize = 4096;
/// Tables remembered at most; a LOG that never tells of removals has lost lines.
const MOST_TABLES: usize = 1 << 20;
/// Levels that RocksDB can have.
const MOST_LEVELS: u32 = 64;

/// Reads events of one column family.
#[derive(Debug)]
pub(super) struct EventReader {
    family: String,
    jobs: HashMap<u64, Job>,
    counted: Events,
    /// Level and bytes of every table by its number.
    tables: HashMap<u64, (u32, f64)>,
    /// Their bytes together.
    held_bytes: f64,
}

impl EventReader {
    pub fn new(family: &str) -> Self {
        Self {
            family: family.to_owned(),
            jobs: HashMap::new(),
            counted: Events::default(),
            tables: HashMap::new(),
            held_bytes: 0.0,
        }
    }

    /// Counts so far.
    pub fn counted(&self) -> Events {
        self.counted
    }

    /// Bytes of all tables.
    pub fn held_bytes(&self) -> f64 {
        self.held_bytes
    }

    /// The levels as the tables make them.
    pub fn levels(&self) -> Vec<LevelState> {
        let count = self.tables.values().map(|(level, _)| level + 1).max().unwrap_or(0);
        let mut levels: Vec<_> =
            (0..count).map(|level| LevelState { level, ..LevelState::default() }).collect();
        for (level, bytes) in self.tables.values() {
            if let Some(state) = levels.get_mut(*level as usize) {
                state.files += 1.0;
                state.bytes += bytes;
            }
        }
        levels
    }

    /// Takes the JSON of an event; says whether it was one, and whether it ended a flush.
    pub fn event(&mut self, json: &str) -> (bool, bool) {
        let Ok(event) = serde_json::from_str::<Event>(json.trim()) else { return (false, false) };
        if self.jobs.len() >= MOST_JOBS {
            self.jobs.clear();
        }
        match event.event.as_str() {
            "flush_started" => {
                self.jobs.insert(event.job, Job { flush: Some(event), ..Job::default() });
            }
            "compaction_started" => {
                let level0_tables = event.files_level0.len();
                self.jobs.insert(event.job, Job { compaction: true, level0_tables, ..Job::default() });
            }
            "table_file_creation" => {
                if let Some(job) = self.jobs.get_mut(&event.job) {
                    job.foreign |= event.cf_name.as_ref().is_some_and(|name| *name != self.family);
                    job.items += event.table_properties.num_entries;
                    job.bytes += event.file_size;
                    job.key_bytes += event.table_properties.raw_key_size;
                    job.tables.push((event.file_number, event.file_size));
                }
            }
            "table_file_deletion" => {
                self.held_bytes -= self.tables.remove(&event.file_number).map_or(0.0, |(_, bytes)| bytes);
            }
            "flush_finished" | "compaction_finished" => {
                if let Some(job) = self.jobs.remove(&event.job) {
                    return (true, self.finish(&job, &event));
                }
            }
            _ => {}
        }
        (true, false)
    }

    /// Takes what follows `Moving #`: a table that goes elsewhere as it is.
    pub fn moved(&mut self, text: &str) {
        let Some((number, rest)) = text.split_once(" to level-") else { return };
        let level = rest.split_whitespace().next().and_then(|level| level.parse::<u32>().ok());
        let (Ok(number), Some(level)) = (number.parse::<u64>(), level.filter(|level| *level < MOST_LEVELS))
        else {
            return;
        };
        if let Some((place, bytes)) = self.tables.get_mut(&number) {
            self.counted.moved_bytes += *bytes;
            *place = level;
        }
    }

    /// Counts a job that is done; says whether it was a flush.
    fn finish(&mut self, job: &Job, end: &Event) -> bool {
        // A job without a table does not say whose it was; it wrote nothing either.
        if job.foreign || job.items == 0.0 {
            return false;
        }
        let level = if job.compaction { end.output_level.min(MOST_LEVELS - 1) } else { 0 };
        if self.tables.len() + job.tables.len() <= MOST_TABLES {
            self.held_bytes += job.bytes;
            self.tables.extend(job.tables.iter().map(|(number, bytes)| (*number, (level, *bytes))));
        }
        let events = &mut self.counted;
        events.table_items += job.items;
        events.table_bytes += job.bytes;
        events.key_bytes += job.key_bytes;
        if let Some(flush) = &job.flush {
            if events.began_empty.is_none() && !end.lsm_state.is_empty() {
                events.began_empty = Some(end.lsm_state.iter().sum::<f64>() <= 1.0);
            }
            events.flushes += 1.0;
            events.flush_requests += flush.num_entries;
            events.flush_deletes += flush.num_deletes;
            events.flush_data_bytes += flush.total_data_size;
            events.flushed_items += job.items;
            events.flushed_bytes += job.bytes;
            if flush.flush_reason == "Write Buffer Full" {
                events.full_flushes += 1.0;
                events.full_requests += flush.num_entries;
                events.full_memory_bytes += flush.memory_usage;
            } else {
                events.early_flushes += 1.0;
            }
        } else if job.compaction {
            events.compacted_bytes += job.bytes;
            if job.level0_tables > 0 {
                events.level0_compactions += 1.0;
                events.level0_tables += job.level0_tables as f64;
            }
        }
        job.flush.is_some()
    }
}
