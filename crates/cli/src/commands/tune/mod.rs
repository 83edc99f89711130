//! `siltstone tune`: what a RocksDB or LevelDB that is in use writes, and with which settings it would write
//! less.
//!
//! The arithmetic is `siltstone_model::tune`; here files are read, figures shown and a changed OPTIONS file
//! written.

mod report;
mod siltstone;

use crate::failure::{Failure, Result, usage};
use crate::output::{note, print, print_json};
use crate::sizes::{parse_positive, parse_size};
use clap::ValueEnum;
use siltstone_model::tune::ini::{MAX_BYTES, OptionsFile};
use siltstone_model::tune::leveldb::{self, LevelDbLog};
use siltstone_model::tune::log::{LogReader, LogSummary};
use siltstone_model::tune::settings::{Remark, Settings, family_section};
use siltstone_model::tune::suggest::{Advice, advise};
use siltstone_model::tune::workload::{Given, Workload};
use siltstone_model::{Grouping, ModelError, Popularity};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Find settings with which an existing RocksDB or LevelDB writes less
///
/// Reads the store's OPTIONS file and, better, its LOG; the store itself is not touched. Predicts write
/// amplification with the settings as they are, shows beside it what the LOG measured, and searches for level
/// sizes that write less with as many levels and as much memory. What else could be had for more memory or
/// more reads is listed too. Settings that the model leaves out are named. Where the LOG shows an empty store
/// being loaded, which writes less than updates later will, predictions are for such a load.
///
/// One line says what Siltstone would write and read for the same workload with its default design, and the
/// `siltstone advise` command that looks for better ones.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone tune --engine rocksdb /data/db/OPTIONS-000123 --log /data/db/LOG\n  \
    siltstone tune --engine rocksdb OPTIONS-000123 --keys 100M --item-bytes 116 --skew 0.99 --out OPTIONS-tuned\n  \
    siltstone tune --engine leveldb --log /data/db/LOG --keys 10M --item-bytes 116")]
pub struct Args {
    /// The OPTIONS-… file in the store's directory; for LevelDB, which has none, a file of name=value lines,
    /// or nothing
    options: Option<PathBuf>,
    /// The engine that the store belongs to
    #[arg(long, value_enum)]
    engine: Engine,
    /// The LOG in the store's directory: says what was really written, and how large and popular items are
    #[arg(long, value_name = "LOG")]
    log: Option<PathBuf>,
    /// The column family to tune
    #[arg(long, value_name = "NAME", default_value = "default")]
    column_family: String,
    /// Distinct keys in the store [from the LOG]
    #[arg(long, value_parser = parse_positive)]
    keys: Option<u64>,
    /// Bytes of a key and its value together [from the LOG]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    item_bytes: Option<u64>,
    /// Zipf skew of the keys written, 0 for uniform [from the LOG]
    #[arg(long)]
    skew: Option<f64>,
    /// Take the popularity of keys from a file of written keys, one per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "skew"])]
    trace: Option<PathBuf>,
    /// Predict for the load of an empty store [default where the LOG shows one]
    #[arg(long, conflicts_with = "updates")]
    load: bool,
    /// Predict for updates to a store that holds all keys [default otherwise]
    #[arg(long)]
    updates: bool,
    /// Write the OPTIONS file with the changes to this new file; all other lines stay as they are
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Rocksdb,
    Leveldb,
}

/// What the LOG measured, in the terms of both engines.
#[derive(serde::Serialize)]
struct Measured {
    /// Since the store was opened.
    write_amplification: Option<f64>,
    /// In the later half of that.
    later_write_amplification: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rocksdb: Option<LogSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leveldb: Option<LevelDbLog>,
}

/// Everything that is shown.
struct Outcome {
    settings: Settings,
    workload: Workload,
    measured: Option<Measured>,
    advice: Advice,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if let Some(out) = args.out.as_deref().filter(|out| out.exists()) {
        usage!("{} exists; give a file that does not, so that nothing is overwritten", out.display());
    }
    match args.engine {
        Engine::Rocksdb => rocksdb(args),
        Engine::Leveldb => leveldb_engine(args),
    }
}

fn rocksdb(args: &Args) -> Result<()> {
    let Some(path) = &args.options else {
        usage!("give the OPTIONS-… file of the store's directory (the one with the highest number)");
    };
    let mut file = OptionsFile::parse(&read_text(path)?).map_err(|e| at(path, &e))?;
    let settings = Settings::read(&file, &args.column_family).map_err(|e| at(path, &e))?;
    let log = match &args.log {
        Some(log) => {
            let mut reader = LogReader::new(&args.column_family);
            each_line(log, |line| reader.line(line))?;
            Some(reader.finish().map_err(|e| at(log, &e))?)
        }
        None => None,
    };
    let workload = Workload::new(&given(args)?, &settings, log.as_ref()).map_err(parameter)?;
    let advice = advise(&settings, &workload).map_err(parameter)?;
    let measured = log.map(|log| Measured {
        write_amplification: log.write_amplification(),
        later_write_amplification: log.later_write_amplification(),
        rocksdb: Some(log),
        leveldb: None,
    });
    if let Some(out) = &args.out {
        let section = family_section(&args.column_family);
        for change in &advice.changes {
            file.set(&section, &change.name, &change.to);
        }
        std::fs::write(out, file.to_string()).map_err(|e| Failure::at(out, e))?;
        note!("wrote {}: {} settings changed, all else as it was", out.display(), advice.changes.len());
    }
    show(args, &Outcome { settings, workload, measured, advice })
}

fn leveldb_engine(args: &Args) -> Result<()> {
    if args.out.is_some() {
        usage!(
            "--out is for RocksDB: LevelDB has no OPTIONS file, its settings are in the program that uses it"
        );
    }
    let text = args.options.as_deref().map(read_text).transpose()?.unwrap_or_default();
    let place = args.options.clone().unwrap_or_else(|| PathBuf::from("LevelDB's settings"));
    let mut settings = leveldb::settings(&text).map_err(|e| at(&place, &e))?;
    let log = match &args.log {
        Some(path) => {
            let mut log = LevelDbLog::default();
            each_line(path, |line| log.line(line))?;
            Some(log.finish().map_err(|e| at(path, &e))?)
        }
        None => None,
    };
    // LevelDB's LOG counts no keys and no requests: those have to be given.
    if args.item_bytes.is_none() {
        usage!(
            "--item-bytes: missing; give it (key and value together), since LevelDB's LOG counts no items"
        );
    }
    if args.keys.is_none() && args.trace.is_none() {
        usage!("--keys: missing; give --keys or --trace FILE, since LevelDB's LOG counts no keys");
    }
    let mut workload = Workload::new(&given(args)?, &settings, None).map_err(parameter)?;
    workload.level0_tables = log.as_ref().and_then(LevelDbLog::level0_tables_per_compaction);
    let advice = advise(&settings, &workload).map_err(parameter)?;
    if !advice.changes.is_empty() {
        settings.remarks.push(Remark {
            setting: "level sizes".to_owned(),
            effect: "constants in LevelDB's source (config::kL0_… and MaxBytesForLevel): changing them takes a patched build"
                .to_owned(),
        });
    }
    let measured = log.map(|log| Measured {
        write_amplification: log.write_amplification(),
        later_write_amplification: None,
        rocksdb: None,
        leveldb: Some(log),
    });
    show(args, &Outcome { settings, workload, measured, advice })
}

fn given(args: &Args) -> Result<Given> {
    let popularity = match &args.trace {
        None => None,
        Some(path) => {
            let mut keys = Vec::new();
            each_line(path, |line| keys.push(hashed(line.trim_end_matches(['\r', '\n']))))?;
            if keys.is_empty() {
                return Err(Failure::at(path, "is empty; a trace has one written key per line"));
            }
            Some(Popularity::trace(keys, Grouping::default()).map_err(|e| at(path, &e))?)
        }
    };
    Ok(Given {
        keys: args.keys.map(|keys| keys as f64),
        item_bytes: args.item_bytes.map(|bytes| bytes as f64),
        skew: args.skew,
        popularity,
        load: (args.load || args.updates).then_some(args.load),
    })
}

/// A key of a trace in 8 bytes; two of a billion keys that hash alike change nothing.
fn hashed(key: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn show(args: &Args, outcome: &Outcome) -> Result<()> {
    if args.json { print_json(&report::json(outcome)) } else { print(&report::text(outcome)) }
}

/// The text of a small file.
fn read_text(path: &Path) -> Result<String> {
    let file = File::open(path).map_err(|e| Failure::at(path, e))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::at(path, "is a directory; give the OPTIONS-… file in it"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| Failure::at(path, e))?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::at(path, "is no text; give the OPTIONS-… file of the store"))
}

/// Hands over the lines of a file that may be large and may contain anything.
fn each_line(path: &Path, mut take: impl FnMut(&str)) -> Result<()> {
    // A LOG's lines have some KiB; a file without line ends must not fill the memory.
    const LONGEST: u64 = 1 << 20;
    let file = File::open(path).map_err(|e| Failure::at(path, e))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(|e| Failure::at(path, e))? == 0 {
            return Ok(());
        }
        take(&String::from_utf8_lossy(&line));
    }
}

fn at(path: &Path, error: &ModelError) -> Failure {
    Failure::at(path, error.message())
}

/// An error about something that is a flag here.
fn parameter(error: ModelError) -> Failure {
    match error.parameter() {
        "keys" | "item-bytes" | "skew" => Failure::Usage(format!("--{error}")),
        _ => Failure::Failed(error.to_string()),
    }
}
