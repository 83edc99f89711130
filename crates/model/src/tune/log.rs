//! What a RocksDB LOG tells of the work done: how much was written by whom, and how the tree stood.
//!
//! Source: RocksDB's `LOG` files, versions 5 to 10: events (`EVENT_LOG_v1 {json}`) for exact counts of
//! flushes and compactions, and the statistics that it dumps at intervals (`** DB Stats **`, `** Compaction
//! Stats [family] **`) for totals since the database was opened. *Ours*: events are summed up to the last
//! dump, so that both speak of the same time; two dumps give the later half of that time, in which a store is
//! closer to its steady state. Where less than half of the writes came before the last dump (the first that
//! tells anything comes after ten minutes), the events stand for all (`tune/events.rs`).

use super::events::EventReader;
pub use super::events::Events;
use crate::ModelError;
use serde::Serialize;

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

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
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
    /// Keys that were asked for, all column families together; 0 where the database does not count them
    /// (`Options::statistics`).
    pub gets: f64,
    /// Of these, found.
    pub found: f64,
}

/// What was found in a LOG.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
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
    /// Whether totals and levels are from events alone, since there are no statistics of most of the time.
    pub from_events: bool,
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
    events: EventReader,
    /// Totals after every flush, as events count them, with the bytes of the family's levels.
    flushes: Vec<(Totals, f64)>,
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

/// Dumps, or moments of flushes, remembered at most: every other one is forgotten when there are more.
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
            events: EventReader::new(family),
            flushes: Vec::new(),
            lines_known: 0,
            summary: LogSummary::default(),
        }
    }

    /// Takes the next line. Lines that mean nothing here are passed over.
    pub fn line(&mut self, line: &str) {
        if let Some((_, json)) = line.split_once("EVENT_LOG_v1 ") {
            let (known, flushed) = self.events.event(json);
            self.lines_known += u64::from(known);
            if flushed {
                let moment = (self.events.counted().totals(), self.events.held_bytes());
                remember(&mut self.flushes, moment);
            }
        } else if let Some((_, moved)) = line.split_once("] Moving #") {
            self.events.moved(moved);
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
        let counted = self.events.counted();
        if self.summary.totals.keys < counted.flush_requests / 2.0 {
            self.summary.from_events = true;
            self.summary.totals = counted.totals();
            self.summary.events = counted;
            self.dumps = std::mem::take(&mut self.flushes);
            // Otherwise tables from before the LOG are missing, and what the last dump said is nearer.
            if counted.began_empty == Some(true) || self.summary.levels.is_empty() {
                self.summary.levels = self.events.levels();
            }
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
        } else if let Some((name, count)) = line.split_once(" COUNT : ") {
            let count = number(count).unwrap_or(0.0);
            match name {
                "rocksdb.number.keys.read" | "rocksdb.number.multiget.keys.read" => totals.gets += count,
                "rocksdb.memtable.hit"
                | "rocksdb.get.hit.l0"
                | "rocksdb.get.hit.l1"
                | "rocksdb.get.hit.l2andup" => totals.found += count,
                _ => {}
            }
        }
    }

    fn end_dump(&mut self) {
        if !self.dump.complete {
            return;
        }
        self.dump.complete = false;
        let bytes = self.dump.levels.iter().map(|level| level.bytes).sum();
        remember(&mut self.dumps, (self.dump.totals, bytes));
        self.summary.totals = self.dump.totals;
        self.summary.levels = std::mem::take(&mut self.dump.levels);
        self.summary.events = self.events.counted();
    }
}

/// Adds to a list that forgets every other entry when it is full.
fn remember(list: &mut Vec<(Totals, f64)>, entry: (Totals, f64)) {
    if list.len() == MOST_DUMPS {
        let mut keep = false;
        list.retain(|_| {
            keep = !keep;
            keep
        });
    }
    list.push(entry);
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
