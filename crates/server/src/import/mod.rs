//! A store filled from Redis: from a database file (RDB), or from a server that runs.
//!
//! No server runs on the store meanwhile. Keys are written as commands would write them, many in one commit;
//! what is there under the same key is replaced. Keys of types that this server has not are counted and left
//! out, and so are those that have expired.

mod live;

pub use live::import as from_server;

use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::keyspace::{PackLimits, Store, Unit};
use crate::rdb::{File, Restored};
use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

/// Keys that are written in one commit.
const KEYS_AT_ONCE: usize = 1_000;
/// Bytes of them.
const BYTES_AT_ONCE: usize = 4 << 20;
/// How often somebody is told how far it is.
const TELL: Duration = Duration::from_secs(5);

/// What became of the keys.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Keys written.
    pub keys: u64,
    /// Elements of hashes and sets among them.
    pub elements: u64,
    /// Keys that had expired.
    pub expired: u64,
    /// Keys that this server can't keep: their names are too long.
    pub too_long: u64,
    /// Keys of types that this server has not, by type.
    pub other: BTreeMap<&'static str, u64>,
    /// Libraries of functions, and what modules keep beside keys.
    pub passed_over: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} keys with {} elements imported, {} had expired",
            self.keys, self.elements, self.expired
        )?;
        if self.too_long > 0 {
            write!(f, "; left out: {} with names over 60,000 bytes", self.too_long)?;
        }
        for (kind, count) in &self.other {
            write!(f, "; left out: {count} of type {kind}")?;
        }
        if self.passed_over > 0 {
            write!(f, "; left out: {} libraries of functions or data of modules", self.passed_over)?;
        }
        Ok(())
    }
}

/// Writes keys to a store.
struct Sink<'a> {
    store: &'a Store,
    unit: Unit<'a>,
    waiting: usize,
    waiting_bytes: usize,
    report: Report,
    began: Instant,
    told: Instant,
}

impl<'a> Sink<'a> {
    fn new(store: &'a Store, limits: PackLimits) -> Self {
        let now = Instant::now();
        let (unit, report) = (Unit::new(store, limits), Report::default());
        Self { store, unit, waiting: 0, waiting_bytes: 0, report, began: now, told: now }
    }

    /// Takes a key in; it is written with others.
    fn put(&mut self, database: usize, key: &[u8], expires_at: u64, value: Restored) -> Outcome {
        if let Restored::Other(kind) = value {
            *self.report.other.entry(kind).or_default() += 1;
            return Ok(());
        }
        if expires_at > 0 && expires_at <= self.unit.now {
            self.report.expired += 1;
            return Ok(());
        }
        if key.len() > crate::keyspace::encoding::MAX_KEY_BYTES {
            self.report.too_long += 1;
            return Ok(());
        }
        if database >= self.store.count() {
            return Err(Failure::new(format!(
                "there is a database {database}: set databases {}",
                database + 1
            )));
        }
        self.waiting_bytes += key.len();
        let state = self.unit.key(database, key)?;
        state.remove();
        match value {
            Restored::String(bytes) => {
                self.waiting_bytes += bytes.len();
                state.set_string(bytes);
            }
            Restored::Collection(kind, entries) => {
                self.waiting_bytes +=
                    entries.iter().map(|(name, value, _)| name.len() + value.len()).sum::<usize>();
                self.report.elements += entries.len() as u64;
                self.unit.fill(database, key, kind, &entries)?;
            }
            Restored::Other(_) => {}
        }
        self.unit.key(database, key)?.expires_at = expires_at;
        self.report.keys += 1;
        self.waiting += 1;
        if self.waiting >= KEYS_AT_ONCE || self.waiting_bytes >= BYTES_AT_ONCE {
            self.commit()
        } else {
            Ok(())
        }
    }

    fn commit(&mut self) -> Outcome {
        self.unit.commit()?;
        self.unit.now = crate::now_ms();
        (self.waiting, self.waiting_bytes) = (0, 0);
        Ok(())
    }

    /// Says how far it is, once in a while.
    fn tell(&mut self, done: u64, all: u64, what: &str) {
        if self.told.elapsed() < TELL {
            return;
        }
        self.told = Instant::now();
        let rate = self.report.keys as f64 / self.began.elapsed().as_secs_f64();
        let share = 100 * done / all.max(1);
        crate::say(format_args!("{} keys, {share} % of {what}, {rate:.0} keys a second", self.report.keys));
    }

    fn finish(mut self) -> Outcome<Report> {
        self.commit()?;
        self.store.db.sync()?;
        Ok(self.report)
    }
}

/// Imports the file `path` into the store that the settings describe.
///
/// # Errors
/// Where the file is damaged: what stands before that is imported then. Those of reading and writing.
pub fn from_file(path: &Path, config: &Config) -> Outcome<Report> {
    let failed = |error| Failure::new(format!("{}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut file = File::open(BufReader::with_capacity(1 << 20, file), bytes)?;
    let store = crate::server::open_store(config)?;
    let mut sink = Sink::new(&store, config.pack_limits());
    loop {
        match file.next_record() {
            Ok(Some(record)) => sink.put(record.database, &record.key, record.expires_at, record.value)?,
            Ok(None) => break,
            Err(failure) => {
                let report = sink.finish()?;
                crate::say(format_args!("{report}"));
                return Err(failure);
            }
        }
        sink.tell(file.read(), bytes, "the file");
    }
    sink.report.passed_over = file.passed_over;
    let report = sink.finish()?;
    store.db.close()?;
    Ok(report)
}
