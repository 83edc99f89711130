//! What a RocksDB LOG tells of the work done: how much was written by whom, and how the tree stood.
//!
//! Source: RocksDB's `LOG` files, versions 5 to 10: events (`EVENT_LOG_v1 {json}`) for exact counts of flushes and
//! compactions, and the statistics that it dumps at intervals (`** DB Stats **`, `** Compaction Stats [family] **`)
//! for totals since the database was opened. *Ours*: events are summed up to the last dump, so that both speak of the
//! same time; two dumps give the later half of that time, in which a store is closer to its steady state.

use crate::ModelError;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A level as the last statistics show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LevelState {
    /// The level's number, 0 for the top.
    pub level: u32,
    /// Tables in it.
    pub files: f64,
    /// Their size in bytes.
    pub bytes: f64,
    /// Bytes written into it since the database was opened.
    pub bytes_written: f64,
    /// Keys read by compactions into it; rounded to three digits or so by RocksDB.
    pub keys_in: f64,
    /// Of these, dropped.
    pub keys_dropped: f64,
}

/// Flushes and compactions counted one by one, of one column family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Events {
    /// Memtables flushed.
    pub flushes: f64,
    /// Writes they had taken.
    pub flush_requests: f64,
    /// Of these, deletions.
    pub flush_deletes: f64,
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
    /// Of all tables' bytes, those that compactions wrote.
    pub compacted_bytes: f64,
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Seconds since the database was opened.
    pub seconds: f64,
    /// Keys written by the user, all column families together.
    pub keys: f64,
    /// Bytes of the user's write batches.
    pub ingest_bytes: f64,
    /// Bytes written to the log.
    pub log_bytes: f64,
    /// Bytes that flushes and compactions wrote, all column families together.
    pub table_bytes: f64,
    /// Share of time, 0 to 1, in which writers were held back.
    pub stalled: f64,
}

/// What was found in a LOG.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogSummary {
    /// RocksDB's version, where the LOG's beginning is there.
    pub version: Option<String>,
    /// At the last statistics.
    pub totals: Totals,
    /// At the statistics nearest to half of what was written by then, if there are any in between.
    pub halfway: Option<Totals>,
    /// Bytes of the column family's levels at that moment.
    pub halfway_bytes: Option<f64>,
    /// The column family's levels at the last statistics.
    pub levels: Vec<LevelState>,
    /// Column families that statistics name.
    pub column_families: Vec<String>,
    /// Exact counts for the column family, up to the last statistics.
    pub events: Events,
}

impl LogSummary {
    /// Bytes written to log and tables per byte of the user's batches, all families together, since opening.
    pub fn write_amplification(&self) -> Option<f64> {
        amplification(&self.totals, &Totals::default())
    }

    /// The same for the later half.
    pub fn later_write_amplification(&self) -> Option<f64> {
        amplification(&self.totals, &self.halfway?)
    }
}

fn amplification(now: &Totals, since: &Totals) -> Option<f64> {
    let ingested = now.ingest_bytes - since.ingest_bytes;
    let written = now.log_bytes - since.log_bytes + now.table_bytes - since.table_bytes;
    (ingested > 0.0 && written.is_finite()).then(|| written / ingested)
}

/// Reads a LOG line by line; memory does not grow with the LOG's length, but with the compactions under way.
///
/// ```
/// use siltstone_model::tune::log::LogReader;
///
/// let mut reader = LogReader::new("default");
/// reader.line("2026/01/01-00:00:10 1 [db_impl.cc:1105] ------- DUMPING STATS -------");
/// reader.line("Cumulative writes: 5000K writes, 5000K keys, 5000K commit groups, 1.0 writes per commit group, ingest: 1.00 GB, 8.04 MB/s");
/// reader.line("Cumulative WAL: 5000K writes, 0 syncs, 5000000.00 writes per sync, written: 1.00 GB, 8.04 MB/s");
/// reader.line("** Compaction Stats [default] **");
/// reader.line("Cumulative compaction: 9.00 GB write, 65.19 MB/s write, 9.96 GB read, 64.71 MB/s read, 138.5 seconds");
/// assert_eq!(reader.finish()?.write_amplification(), Some(10.0));
/// # Ok::<(), siltstone_model::ModelError>(())
/// ```
#[derive(Debug)]
pub struct LogReader {
    family: String,
    /// The family whose statistics are being read.
    in_family: Option<String>,
    columns: Vec<String>,
    dump: Dump,
    /// Totals of all statistics, with the bytes of the family's levels.
    dumps: Vec<(Totals, f64)>,
    jobs: HashMap<u64, Job>,
    running: Events,
    lines_known: u64,
    summary: LogSummary,
}

/// Statistics as they come in.
#[derive(Debug, Default)]
struct Dump {
    totals: Totals,
    levels: Vec<LevelState>,
    complete: bool,
}

/// A flush or compaction between its first event and its last.
#[derive(Debug, Default)]
struct Job {
    flush: Option<Event>,
    level0_tables: usize,
    compaction: bool,
    foreign: bool,
    items: f64,
    bytes: f64,
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
    memory_usage: f64,
    flush_reason: String,
    file_size: f64,
    #[serde(rename = "files_L0")]
    files_level0: Vec<u64>,
    table_properties: TableProperties,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TableProperties {
    num_entries: f64,
}

/// Jobs remembered at most; RocksDB runs a few at a time, so more of them only come from a LOG that lost lines.
const MOST_JOBS: usize = 4096;
/// Dumps remembered at most: every other one is forgotten when there are more.
const MOST_DUMPS: usize = 1024;

impl LogReader {
    /// A reader of what concerns this column family.
    pub fn new(family: &str) -> Self {
        Self {
            family: family.to_owned(),
            in_family: None,
            columns: Vec::new(),
            dump: Dump::default(),
            dumps: Vec::new(),
            jobs: HashMap::new(),
            running: Events::default(),
            lines_known: 0,
            summary: LogSummary::default(),
        }
    }

    /// Takes the next line. Lines that mean nothing here are passed over.
    pub fn line(&mut self, line: &str) {
        if let Some((_, json)) = line.split_once("EVENT_LOG_v1 ") {
            if let Ok(event) = serde_json::from_str::<Event>(json.trim()) {
                self.lines_known += 1;
                self.event(event);
            }
        } else if line.contains("DUMPING STATS") {
            self.end_dump();
            self.dump = Dump::default();
            (self.in_family, self.columns) = (None, Vec::new());
        } else if let Some((_, version)) = line.split_once("RocksDB version: ") {
            self.lines_known += 1;
            self.summary.version = Some(version.trim().to_owned());
        } else {
            self.statistics(line);
        }
    }

    /// What was found.
    ///
    /// # Errors
    /// Nothing that a LOG of RocksDB contains was in it.
    pub fn finish(mut self) -> Result<LogSummary, ModelError> {
        self.end_dump();
        if self.lines_known == 0 {
            let message =
                "no statistics and no events in it; give RocksDB's own LOG, from the store's directory";
            return Err(ModelError::new("LOG", message));
        }
        if self.dumps.is_empty() {
            // Opened a short while ago: events are all there is.
            self.summary.events = self.running;
        }
        let half = self.summary.totals.ingest_bytes / 2.0;
        let distance = |totals: &Totals| (totals.ingest_bytes - half).abs();
        let middle = self.dumps.iter().min_by(|a, b| distance(&a.0).total_cmp(&distance(&b.0)));
        if let Some((totals, bytes)) = middle.filter(|(totals, _)| distance(totals) < half / 2.0) {
            self.summary.halfway = Some(*totals);
            self.summary.halfway_bytes = (*bytes > 0.0).then_some(*bytes);
        }
        Ok(self.summary)
    }

    fn statistics(&mut self, line: &str) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("** Compaction Stats [") {
            let family = rest.split(']').next().unwrap_or_default().to_owned();
            if !self.summary.column_families.contains(&family) && self.summary.column_families.len() < 1000 {
                self.summary.column_families.push(family.clone());
            }
            self.in_family = Some(family);
        } else if line.starts_with("Level ") {
            self.columns = line.split_whitespace().map(str::to_owned).collect();
        } else if line.starts_with("Priority ") || line.starts_with("Blob file") {
            self.columns.clear();
        } else if !self.columns.is_empty() && self.in_family.as_ref() == Some(&self.family) {
            self.dump.levels.extend(level_row(&self.columns, line));
        }
        self.totals(line);
    }

    fn totals(&mut self, line: &str) {
        let totals = &mut self.dump.totals;
        if let Some(rest) = line.strip_prefix("Cumulative writes:") {
            totals.keys = field(rest, "keys").unwrap_or(0.0);
            totals.ingest_bytes = after(rest, "ingest:").unwrap_or(0.0);
            self.dump.complete = true;
            self.lines_known += 1;
        } else if let Some(rest) = line.strip_prefix("Cumulative WAL:") {
            totals.log_bytes = after(rest, "written:").unwrap_or(0.0);
        } else if let Some(rest) = line.strip_prefix("Cumulative stall:") {
            let percent = rest.split(',').nth(1).and_then(|text| text.split_whitespace().next());
            totals.stalled = percent.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
        } else if let Some(rest) = line.strip_prefix("Uptime(secs):") {
            totals.seconds = number(rest).unwrap_or(0.0);
        } else if let Some(rest) = line.strip_prefix("Cumulative compaction:") {
            // One line per family; flushes are part of it.
            totals.table_bytes += size(rest).unwrap_or(0.0);
        }
    }

    fn end_dump(&mut self) {
        if !self.dump.complete {
            return;
        }
        self.dump.complete = false;
        if self.dumps.len() == MOST_DUMPS {
            let mut keep = false;
            self.dumps.retain(|_| {
                keep = !keep;
                keep
            });
        }
        let bytes = self.dump.levels.iter().map(|level| level.bytes).sum();
        self.dumps.push((self.dump.totals, bytes));
        self.summary.totals = self.dump.totals;
        self.summary.levels = std::mem::take(&mut self.dump.levels);
        self.summary.events = self.running;
    }

    fn event(&mut self, event: Event) {
        if self.jobs.len() >= MOST_JOBS {
            self.jobs.clear();
        }
        let family = &self.family;
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
                    job.foreign |= event.cf_name.as_ref().is_some_and(|name| name != family);
                    job.items += event.table_properties.num_entries;
                    job.bytes += event.file_size;
                }
            }
            "flush_finished" | "compaction_finished" => {
                if let Some(job) = self.jobs.remove(&event.job) {
                    self.finish_job(&job);
                }
            }
            _ => {}
        }
    }

    fn finish_job(&mut self, job: &Job) {
        // A job without a table does not say whose it was; it wrote nothing either.
        if job.foreign || job.items == 0.0 {
            return;
        }
        let events = &mut self.running;
        events.table_items += job.items;
        events.table_bytes += job.bytes;
        if let Some(flush) = &job.flush {
            events.flushes += 1.0;
            events.flush_requests += flush.num_entries;
            events.flush_deletes += flush.num_deletes;
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
    }
}

/// A row such as `L1  17/1  8.11 MB  3.1  2.3 …`, read by the header's names. `None` for sums and rulers.
fn level_row(columns: &[String], line: &str) -> Option<LevelState> {
    let mut words = line.split_whitespace();
    let level = words.next()?.strip_prefix('L')?.parse().ok()?;
    let mut row = LevelState { level, ..LevelState::default() };
    for column in columns.iter().skip(1) {
        let word = words.next()?;
        match column.as_str() {
            "Files" => row.files = word.split('/').next()?.parse().ok()?,
            "Size" => row.bytes = word.parse::<f64>().ok()? * unit(words.next()?)?,
            "Write(GB)" => row.bytes_written = word.parse::<f64>().ok()? * GIB,
            "KeyIn" => row.keys_in = count(word)?,
            "KeyDrop" => row.keys_dropped = count(word)?,
            _ => {}
        }
    }
    Some(row)
}

const GIB: f64 = (1u64 << 30) as f64;

/// The factor of `KB`, `MB` …, which RocksDB means in powers of 1,024.
fn unit(text: &str) -> Option<f64> {
    let power = match text.trim_end_matches([',', ';']) {
        "B" => 0,
        "KB" => 1,
        "MB" => 2,
        "GB" => 3,
        "TB" => 4,
        _ => return None,
    };
    Some(1024f64.powi(power))
}

/// `9483K`, `20M`, `1.5G`: RocksDB's counts.
fn count(text: &str) -> Option<f64> {
    let text = text.trim_end_matches(',');
    let (digits, factor) = match text.chars().last()? {
        'K' => (text.strip_suffix('K')?, 1e3),
        'M' => (text.strip_suffix('M')?, 1e6),
        'G' => (text.strip_suffix('G')?, 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| value * factor)
}

/// The first number.
fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The first size, such as `1.24 GB`.
fn size(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    Some(value * unit(words.next()?)?)
}

/// The size after a name, as in `ingest: 1.24 GB`.
fn after(text: &str, name: &str) -> Option<f64> {
    size(text.split_once(name)?.1)
}

/// The count before a name, as in `5000K keys,`.
fn field(text: &str, name: &str) -> Option<f64> {
    let mut before = None;
    for word in text.split_whitespace() {
        if word.trim_end_matches(',') == name {
            return count(before?);
        }
        before = Some(word);
    }
    None
}
