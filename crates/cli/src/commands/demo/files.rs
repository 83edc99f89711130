//! Stores the metadata of a real directory tree, then checks the store against that tree.

use super::agreement::Agreement;
use super::record::{DirectoryId, PREFIX_BYTES, Record};
use super::tree::{self, Directory, Passed, Testimony, Witness};
use crate::failure::Result;
use crate::generate::permutation::Permutation;
use crate::progress;
use crate::text;
use siltstone::{Batch, Db, Keyspace, WriteOptions};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Items written at once.
const BATCH: usize = 1000;
/// Keys kept for point gets; of larger trees, evenly spread ones.
const MAX_KEYS: u64 = 2_000_000;

/// What the walk stored and what is needed to check it.
pub struct Stored {
    /// The directories, as listed.
    pub directories: Vec<Directory>,
    /// What was handed to the store.
    pub witness: Witness,
    /// What the walk passed over.
    pub passed: Passed,
    /// Keys for point gets.
    keys: Vec<Vec<u8>>,
    /// Every how many-th key is kept.
    key_stride: u64,
    /// Keys and values handed in, in bytes.
    pub user_bytes: u64,
    /// Time in write calls.
    pub write_seconds: f64,
    /// Time of the walk with its writes.
    pub seconds: f64,
}

/// Walks `root` and stores what it finds, leaving out the directory `not`.
pub fn store(db: &Db, keyspace: &Keyspace, root: &Path, not: Option<DirectoryId>) -> Result<Stored> {
    let started = Instant::now();
    let mut stored = Stored {
        directories: Vec::new(),
        witness: Witness::default(),
        passed: Passed::default(),
        keys: Vec::new(),
        key_stride: 1,
        user_bytes: 0,
        write_seconds: 0.0,
        seconds: 0.0,
    };
    let bar = progress::count_bar(None, "walking and storing:");
    let mut batch = Batch::new();
    let mut entries_seen = 0u64;
    let mut passed = Passed::default();
    tree::walk(root, not, &mut passed, |directory, entries| {
        for entry in entries {
            let (key, value) = (directory.id.key(&entry.name), entry.record.encode());
            batch.put(keyspace, &key, &value)?;
            stored.witness.remember(&key, &value);
            stored.user_bytes += (key.len() + value.len()) as u64;
            entries_seen += 1;
            if entries_seen.is_multiple_of(stored.key_stride) {
                stored.keep(key);
            }
            if batch.len() >= BATCH {
                stored.write_seconds += write(db, &mut batch)?;
                bar.set_position(entries_seen);
            }
        }
        stored.directories.push(directory);
        Ok::<(), crate::failure::Failure>(())
    })?;
    stored.write_seconds += write(db, &mut batch)?;
    stored.passed = passed;
    stored.seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    Ok(stored)
}

/// Writes and empties `batch`; returns the seconds it took.
fn write(db: &Db, batch: &mut Batch) -> Result<f64> {
    let started = Instant::now();
    db.write(batch, &WriteOptions::default())?;
    batch.clear();
    Ok(started.elapsed().as_secs_f64())
}

impl Stored {
    /// Keeps `key` for a point get, thinning out the keys when there are too many.
    fn keep(&mut self, key: Vec<u8>) {
        self.keys.push(key);
        if self.keys.len() as u64 > MAX_KEYS {
            let mut nth = 0u64;
            self.keys.retain(|_| {
                nth += 1;
                nth.is_multiple_of(2)
            });
            self.key_stride *= 2;
        }
    }
}

/// Rates of one round of checks.
#[derive(Default)]
pub struct Round {
    /// Lists of directories against the file system.
    pub lists: Agreement,
    /// Gets of entries that are there.
    pub hits: Agreement,
    /// Gets of entries that are not.
    pub misses: Agreement,
    /// Items listed by scans.
    pub scanned: u64,
    /// Time in scans.
    pub scan_time: Duration,
    /// Time in gets that should hit.
    pub hit_time: Duration,
    /// Time in gets that should miss.
    pub miss_time: Duration,
}

impl Round {
    /// All comparisons of the round.
    pub fn agreement(&self) -> Agreement {
        let mut all = Agreement::default();
        for part in [&self.lists, &self.hits, &self.misses] {
            all.add(part);
        }
        all
    }
}

/// Checks everything: point gets in random order first (so that they meet a cold cache), then every
/// directory.
pub fn check(keyspace: &Keyspace, stored: &Stored) -> Result<Round> {
    let mut round = Round::default();
    get_all(keyspace, stored, &mut round)?;
    let bar = progress::count_bar(Some(stored.directories.len() as u64), "listing directories:");
    for (nth, directory) in stored.directories.iter().enumerate() {
        list(keyspace, stored, directory, &mut round)?;
        if nth % 64 == 0 {
            bar.set_position(nth as u64);
        }
    }
    bar.finish_and_clear();
    let (scanned, known) = (round.scanned, stored.witness.len());
    round
        .lists
        .check(scanned == known, || format!("scans listed {scanned} entries in all, not the {known} stored"));
    Ok(round)
}

/// Gets every kept key, and as many names that no directory can hold.
fn get_all(keyspace: &Keyspace, stored: &Stored, round: &mut Round) -> Result<()> {
    let count = stored.keys.len() as u64;
    let order = Permutation::new(count, 1);
    let bar = progress::count_bar(Some(2 * count), "point gets:");
    for nth in 0..count {
        let Some(key) = stored.keys.get(order.at(nth) as usize) else { continue };
        let started = Instant::now();
        let value = keyspace.get(key)?;
        round.hit_time += started.elapsed();
        let right = value.is_some_and(|value| stored.witness.ask(key, &value) == Testimony::Same);
        round.hits.check(right, || format!("get of {} is not what was stored", text::escape(key)));
        if nth % 4096 == 0 {
            bar.set_position(nth);
        }
    }
    let mut absent = Vec::new();
    for nth in 0..count {
        let Some(key) = stored.keys.get(order.at(nth) as usize) else { continue };
        absent.clone_from(key);
        // No file name holds a zero byte.
        absent.extend_from_slice(b"\0absent");
        let started = Instant::now();
        let value = keyspace.get(&absent)?;
        round.miss_time += started.elapsed();
        round.misses.check(value.is_none(), || format!("get of {} finds something", text::escape(&absent)));
        if nth % 4096 == 0 {
            bar.set_position(count + nth);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Lists one directory from the store and compares names and metadata with the file system.
fn list(keyspace: &Keyspace, stored: &Stored, directory: &Directory, round: &mut Round) -> Result<()> {
    let started = Instant::now();
    let listed = keyspace.prefix(directory.id.prefix())?.collect::<std::result::Result<Vec<_>, _>>()?;
    round.scan_time += started.elapsed();
    round.scanned += listed.len() as u64;
    let parent = directory.path.display().to_string();
    let at = |name: &[u8]| format!("{}/{}", parent.trim_end_matches('/'), text::escape(name));
    let ordered = listed.windows(2).all(|pair| matches!(pair, [(a, _), (b, _)] if a < b));
    round.lists.check(ordered, || format!("{}: not in the order of names", directory.path.display()));

    // A directory that is gone or has become unreadable shows nothing: its entries have changed meanwhile.
    let now = tree::list(&directory.path, &mut Passed::default()).unwrap_or_default();
    let mut now: HashMap<Vec<u8>, Record> =
        now.into_iter().map(|(entry, _)| (entry.name, entry.record)).collect();
    for (key, value) in &listed {
        let name = key.get(usize::from(PREFIX_BYTES)..).unwrap_or_default();
        let real = now.remove(name);
        let record = Record::decode(value);
        let differences = match (&record, &real) {
            (Some(record), Some(real)) => record.differences(real),
            (_, None) => vec!["gone"],
            (None, _) => vec!["not a record"],
        };
        if differences.is_empty() {
            round.lists.agree();
        } else if stored.witness.ask(key, value) == Testimony::Same {
            round.lists.changed(|| format!("{}: {}", at(name), differences.join(", ")));
        } else {
            round.lists.disagree(|| format!("{}: {}", at(name), differences.join(", ")));
        }
    }
    for name in now.into_keys() {
        if stored.witness.knows(&directory.id.key(&name)) {
            round.lists.disagree(|| format!("{}: not listed by the store", at(&name)));
        } else {
            round.lists.changed(|| format!("{}: new", at(&name)));
        }
    }
    Ok(())
}
