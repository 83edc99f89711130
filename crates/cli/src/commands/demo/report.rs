//! What the demo found, as one table or one JSON object.

use super::agreement::Agreement;
use super::files::Stored;
use super::{FEATURES, FILES, features, files};
use crate::failure::{Result, fail};
use crate::measure::{Reads, find, rss_peak_bytes};
use crate::sizes::{self, ratio};
use crate::table::Table;
use serde::Serialize;
use siltstone::{MemoryStats, Stats};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Everything that was measured.
pub struct Facts<'a> {
    /// The tree.
    pub path: &'a Path,
    /// The store.
    pub dir: &'a Path,
    /// Number of features.
    pub features: u64,
    /// Memory the engine may use.
    pub memory_budget_bytes: u64,
    /// The walk.
    pub stored: &'a Stored,
    /// Time it took to write the features.
    pub feature_seconds: f64,
    /// Time the background work took after the last write.
    pub drain_seconds: f64,
    /// Time it took to open the store again.
    pub open_seconds: f64,
    /// When all was written.
    pub after_writing: &'a Stats,
    /// When the store had been opened again.
    pub opened: &'a Stats,
    /// At the end.
    pub after_reading: &'a Stats,
    /// What the checks found before closing.
    pub first: &'a (files::Round, features::Round),
    /// What they found after opening again.
    pub second: &'a (files::Round, features::Round),
    /// Time from start to end.
    pub seconds: f64,
}

/// The figures of one keyspace; reads are those after opening again, with a cold cache.
#[derive(Serialize)]
struct Column {
    items: u64,
    user_bytes: u64,
    table_bytes: u64,
    inserts_per_second: f64,
    write_amplification_by_level: Vec<f64>,
    device_reads_per_get_hit: f64,
    device_reads_per_get_miss: f64,
    gets_per_second_hit: f64,
    gets_per_second_miss: f64,
    scanned_items: u64,
    scanned_items_per_second: f64,
    filter_bits_per_item: f64,
    index_bits_per_item: f64,
    agreement: Agreement,
    agreement_after_reopening: Agreement,
}

#[derive(Serialize)]
struct Tree {
    directories: u64,
    walk_seconds: f64,
    unreadable: u64,
    vanished_during_walk: u64,
    passed_over: Vec<String>,
}

#[derive(Serialize)]
struct Store {
    user_bytes_written: u64,
    device_bytes_written: u64,
    write_amplification: f64,
    wal_write_amplification: f64,
    space_bytes: u64,
    drain_seconds: f64,
    open_seconds: f64,
    memory_bytes: MemoryStats,
    memory_budget_bytes: u64,
    rss_peak_bytes: u64,
}

/// What the demo found.
#[derive(Serialize)]
pub struct Report {
    path: String,
    dir: String,
    preset: String,
    seconds: f64,
    agreement_percent: f64,
    tree: Tree,
    files: Column,
    features: Column,
    store: Store,
}

/// One keyspace's share of the facts.
struct Part<'a> {
    keyspace: &'a str,
    items: u64,
    user_bytes: u64,
    write_seconds: f64,
    hits: u64,
    misses: u64,
    hit_time: Duration,
    miss_time: Duration,
    scanned: u64,
    scan_time: Duration,
    agreement: Agreement,
    agreement_after_reopening: Agreement,
}

impl Report {
    /// Puts the figures together.
    pub fn new(facts: &Facts<'_>) -> Result<Self> {
        let written = facts.after_writing;
        let (files, feature) = (&facts.second.0, &facts.second.1);
        let files = Part {
            keyspace: FILES,
            items: facts.stored.witness.len(),
            user_bytes: facts.stored.user_bytes,
            write_seconds: facts.stored.write_seconds,
            hits: files.hits.checked,
            misses: files.misses.checked,
            hit_time: files.hit_time,
            miss_time: files.miss_time,
            scanned: files.scanned,
            scan_time: files.scan_time,
            agreement: facts.first.0.agreement(),
            agreement_after_reopening: files.agreement(),
        };
        let features = Part {
            keyspace: FEATURES,
            items: facts.features,
            user_bytes: facts.features * features::ITEM_BYTES,
            write_seconds: facts.feature_seconds,
            hits: feature.hits,
            misses: feature.misses,
            hit_time: feature.hit_time,
            miss_time: feature.miss_time,
            scanned: feature.scanned,
            scan_time: feature.scan_time,
            agreement: copy(&facts.first.1.agreement),
            agreement_after_reopening: copy(&feature.agreement),
        };
        let mut all = Agreement::default();
        for part in [&files, &features] {
            all.add(&part.agreement);
            all.add(&part.agreement_after_reopening);
        }
        let passed = &facts.stored.passed;
        Ok(Self {
            path: facts.path.display().to_string(),
            dir: facts.dir.display().to_string(),
            preset: find(written, FILES).map_or_else(String::new, |k| k.preset.to_string()),
            seconds: facts.seconds,
            agreement_percent: 100.0 * all.agreed as f64 / all.checked.max(1) as f64,
            tree: Tree {
                directories: facts.stored.directories.len() as u64,
                walk_seconds: facts.stored.seconds,
                unreadable: passed.unreadable,
                vanished_during_walk: passed.vanished,
                passed_over: passed.examples.clone(),
            },
            files: Column::new(facts, files)?,
            features: Column::new(facts, features)?,
            store: Store {
                user_bytes_written: written.user_bytes_written,
                device_bytes_written: written.device_bytes_written,
                write_amplification: ratio(written.device_bytes_written, written.user_bytes_written),
                wal_write_amplification: ratio(written.wal_bytes_written, written.user_bytes_written),
                space_bytes: written.space_bytes,
                drain_seconds: facts.drain_seconds,
                open_seconds: facts.open_seconds,
                memory_bytes: facts.after_reading.memory,
                memory_budget_bytes: facts.memory_budget_bytes,
                rss_peak_bytes: rss_peak_bytes(),
            },
        })
    }

    /// Whether the store was right every time.
    pub fn agrees(&self) -> bool {
        self.agreements().iter().all(|agreement| agreement.is_full())
    }

    fn agreements(&self) -> [&Agreement; 4] {
        let (files, features) = (&self.files, &self.features);
        [
            &files.agreement,
            &files.agreement_after_reopening,
            &features.agreement,
            &features.agreement_after_reopening,
        ]
    }
}

fn copy(agreement: &Agreement) -> Agreement {
    let mut copy = Agreement::default();
    copy.add(agreement);
    copy
}

impl Column {
    fn new(facts: &Facts<'_>, part: Part<'_>) -> Result<Self> {
        let (Some(written), Some(was), Some(is)) = (
            find(facts.after_writing, part.keyspace),
            find(facts.opened, part.keyspace),
            find(facts.after_reading, part.keyspace),
        ) else {
            fail!("the store has no statistics of keyspace {:?}", part.keyspace);
        };
        let reads = Reads::between(was, is);
        let per_second = |count: u64, time: Duration| count as f64 / time.as_secs_f64().max(1e-9);
        Ok(Self {
            items: part.items,
            user_bytes: part.user_bytes,
            table_bytes: is.table_bytes,
            inserts_per_second: part.items as f64 / part.write_seconds.max(1e-9),
            write_amplification_by_level: written
                .levels
                .iter()
                .map(|level| ratio(level.bytes_written, part.user_bytes))
                .collect(),
            device_reads_per_get_hit: ratio(reads.by_hits, reads.hits),
            device_reads_per_get_miss: ratio(reads.by_misses, reads.misses),
            gets_per_second_hit: per_second(part.hits, part.hit_time),
            gets_per_second_miss: per_second(part.misses, part.miss_time),
            scanned_items: part.scanned,
            scanned_items_per_second: per_second(part.scanned, part.scan_time),
            filter_bits_per_item: is.filter_bits_per_item,
            index_bits_per_item: is.index_bits_per_item,
            agreement: part.agreement,
            agreement_after_reopening: part.agreement_after_reopening,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} entries of {} directories below {}, and {} synthetic features of {} each\n\
             preset {}, memory budget {}, one thread\n",
            sizes::count(self.files.items),
            sizes::count(self.tree.directories),
            self.path,
            sizes::count(self.features.items),
            sizes::bytes(features::ITEM_BYTES),
            self.preset,
            sizes::bytes(self.store.memory_budget_bytes),
        )?;
        write!(f, "{}", self.table())?;
        let store = &self.store;
        writeln!(
            f,
            "\nwhole store: {} written for {} of items (write amplification {:.2}, of it log {:.2}); {} on disk;\n\
             opened in {}; memory {} (memtables {}, filters {}, indexes {}, cache {}); process at most {}",
            sizes::bytes(store.device_bytes_written),
            sizes::bytes(store.user_bytes_written),
            store.write_amplification,
            store.wal_write_amplification,
            sizes::bytes(store.space_bytes),
            sizes::seconds(store.open_seconds),
            sizes::bytes(store.memory_bytes.total),
            sizes::bytes(store.memory_bytes.memtable),
            sizes::bytes(store.memory_bytes.filter),
            sizes::bytes(store.memory_bytes.index),
            sizes::bytes(store.memory_bytes.cache),
            sizes::bytes(store.rss_peak_bytes),
        )?;
        self.fmt_exceptions(f)?;
        let mut all = Agreement::default();
        for agreement in self.agreements() {
            all.add(agreement);
        }
        writeln!(
            f,
            "\n{} of {} comparisons agree, before and after reopening; {} in all",
            all.percent(),
            sizes::count(all.checked),
            sizes::seconds(self.seconds)
        )
    }
}

impl Report {
    fn table(&self) -> Table {
        let columns = [&self.files, &self.features];
        let mut table = Table::new(["", "files", "features"]);
        let mut row = |name: &str, cell: &dyn Fn(&Column) -> String| {
            table.row([name.to_owned(), cell(&self.files), cell(&self.features)]);
        };
        row("items", &|c| sizes::count(c.items));
        row("keys and values", &|c| sizes::bytes(c.user_bytes));
        row("tables", &|c| sizes::bytes(c.table_bytes));
        row("inserts", &|c| sizes::rate(c.inserts_per_second));
        let sum = |c: &Column| c.write_amplification_by_level.iter().sum::<f64>();
        row("write amplification, tables", &|c| format!("{:.2}", sum(c)));
        let levels = columns.iter().map(|c| c.write_amplification_by_level.len()).max().unwrap_or(0);
        for level in 0..levels {
            row(&format!("  level {level}"), &|c| {
                c.write_amplification_by_level
                    .get(level)
                    .map_or_else(|| "–".to_owned(), |wa| format!("{wa:.2}"))
            });
        }
        row("device reads per get, hit", &|c| format!("{:.4}", c.device_reads_per_get_hit));
        row("device reads per get, miss", &|c| format!("{:.4}", c.device_reads_per_get_miss));
        row("gets, hit", &|c| sizes::rate(c.gets_per_second_hit));
        row("gets, miss", &|c| sizes::rate(c.gets_per_second_miss));
        row("items listed by prefix", &|c| sizes::rate(c.scanned_items_per_second));
        row("filter bits per item", &|c| format!("{:.2}", c.filter_bits_per_item));
        row("index bits per item", &|c| format!("{:.2}", c.index_bits_per_item));
        row("agreement", &|c| c.agreement.percent());
        row("agreement after reopening", &|c| c.agreement_after_reopening.percent());
        table
    }

    /// What was passed over, what changed meanwhile, and what is wrong.
    fn fmt_exceptions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree = &self.tree;
        if tree.unreadable + tree.vanished_during_walk > 0 {
            writeln!(
                f,
                "\nnot stored: {} that could not be read, {} that vanished during the walk; for example",
                sizes::count(tree.unreadable),
                sizes::count(tree.vanished_during_walk)
            )?;
            examples(f, &tree.passed_over)?;
        }
        let last = &self.files.agreement_after_reopening;
        if last.changed_meanwhile > 0 {
            writeln!(
                f,
                "\nnot compared: {} entries that somebody changed since they were stored; for example",
                sizes::count(last.changed_meanwhile)
            )?;
            examples(f, &last.changes)?;
        }
        if !self.agrees() {
            writeln!(f, "\nDISAGREEMENTS, for example")?;
            for agreement in self.agreements() {
                examples(f, &agreement.disagreements)?;
            }
        }
        Ok(())
    }
}

fn examples(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
}
