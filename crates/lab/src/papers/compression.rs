//! `siltstone-lab compression`: what compression saves and costs, on data that is really about files.
//!
//! Four kinds of items are made of the files below a directory: their metadata as numbers, the same as JSON
//! records, URLs as keys, and vectors of floats, which must neither grow nor slow. Each kind fills a store of
//! a design and one of the same design that compresses. Both are asked in turn, in and out of the cache, so
//! that a busy machine slows both alike, and processor time is counted, not time. The best round counts.

use super::evaluation::{Common, Results, Row};
use crate::kit::generate::mix;
use crate::measure::{Reads, thread_seconds};
use crate::program::failure::{Failure, Result, fail};
use crate::program::output::note;
use siltstone::{Compression, Db, Design, Keyspace, KeyspaceOptions, Options};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Memory of stores that fit their cache, and of stores that don't.
const MUCH_MEMORY_BYTES: u64 = 512 << 20;
const LITTLE_MEMORY_BYTES: u64 = 8 << 20;
/// Tables of level 0, and write buffers.
const TABLE_BYTES: u64 = 1 << 20;
/// How often each store is asked in turn.
const ROUNDS: usize = 5;
/// How often each store is filled.
const FILLS: usize = 3;
/// Components of a vector.
const DIMENSIONS: u64 = 128;

/// Measure what compression saves and costs
///
/// Fills stores with metadata of files, JSON records, URLs and vectors, without and with compression, and
/// counts what they write, hold, read and compute. The stores are written below --dir and removed afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab compression --quick\n  \
    siltstone-lab compression --files /usr --preset lean --json")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Whose files' names and metadata the items are made of
    #[arg(long, value_name = "DIR", default_value = "/usr")]
    files: PathBuf,
    /// The design, without compression
    #[arg(long, value_name = "PRESET", default_value = "siltstone")]
    preset: String,
    /// Most items of a store [default: 300K, with --quick 20K]
    #[arg(long, value_name = "COUNT", value_parser = crate::kit::sizes::parse_positive)]
    items: Option<u64>,
}

type Items = Vec<(Vec<u8>, Vec<u8>)>;

/// A file's path and what the system says of it.
type Described = (PathBuf, std::fs::Metadata);

/// Adds the files below `dir`, until there are `most`.
fn walk(dir: &Path, most: usize, found: &mut Vec<Described>) {
    // What can't be read is left out.
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if found.len() >= most {
            return;
        }
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let is_dir = metadata.is_dir();
        found.push((path.clone(), metadata));
        if is_dir {
            walk(&path, most, found);
        }
    }
}

/// A file's metadata as 88 bytes of numbers.
fn numbers((_, metadata): &Described) -> Vec<u8> {
    let times = [metadata.atime(), metadata.mtime(), metadata.ctime(), metadata.mtime_nsec()];
    let owners = u64::from(metadata.uid()) << 32 | u64::from(metadata.gid());
    let numbers = [metadata.dev(), metadata.ino(), metadata.nlink(), u64::from(metadata.mode()), owners];
    let sizes = [metadata.size(), metadata.blocks()];
    let all = numbers.into_iter().chain(sizes).chain(times.map(|time| time as u64));
    all.flat_map(u64::to_le_bytes).collect()
}

/// The same as a record in JSON, of some 220 bytes.
fn record((path, metadata): &Described) -> Vec<u8> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let record = serde_json::json!({
        "path": path.to_string_lossy(),
        "name": name,
        "kind": if metadata.is_dir() { "directory" } else { "file" },
        "size": metadata.size(),
        "mode": format!("{:o}", metadata.mode()),
        "owner": { "uid": metadata.uid(), "gid": metadata.gid() },
        "modified": metadata.mtime() as f64 + metadata.mtime_nsec() as f64 / 1e9,
        "links": metadata.nlink(),
    });
    record.to_string().into_bytes()
}

/// A vector of floats that stands for item `number`.
fn vector(number: u64) -> Vec<u8> {
    let float = |at: u64| {
        let mixed = mix(number * DIMENSIONS + at);
        ((mixed & 0xffff) as f32 + (mixed >> 16 & 0xffff) as f32) / 65536.0 - 1.0
    };
    (0..DIMENSIONS).flat_map(|at| float(at).to_le_bytes()).collect()
}

/// The items of each kind.
fn kinds(files: &[Described]) -> [(&'static str, Items); 4] {
    let path = |file: &Described| file.0.as_os_str().as_bytes().to_vec();
    let number = |number: usize| mix(number as u64).to_be_bytes();
    let url = |file: &Described| [b"https://files.example.org/browse", path(file).as_slice()].concat();
    let numbered = || files.iter().enumerate();
    [
        ("metadata", files.iter().map(|file| (path(file), numbers(file))).collect()),
        ("JSON", numbered().map(|(at, file)| (number(at).to_vec(), record(file))).collect()),
        ("URLs", numbered().map(|(at, file)| (url(file), number(at).to_vec())).collect()),
        ("vectors", numbered().map(|(at, _)| (number(at).to_vec(), vector(at as u64))).collect()),
    ]
}

/// Items in an order that has nothing to do with their keys.
fn shuffled(items: &Items) -> impl Iterator<Item = &(Vec<u8>, Vec<u8>)> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| mix(!(*at as u64)));
    order.into_iter().filter_map(|at| items.get(at))
}

fn options(memory_budget_bytes: u64) -> Options {
    Options { memory_budget_bytes, direct_reads: true, ..Options::default() }
}

/// Fills a store; returns bytes written into tables, bytes of tables, and seconds of processor time.
fn fill(dir: &Path, design: &Design, items: &Items) -> Result<[f64; 3]> {
    // Without threads all work is this thread's, and is counted.
    let db = Db::open(dir, Options { background_threads: 0, ..options(MUCH_MEMORY_BYTES) })?;
    let design = Some(design.clone());
    let keyspace = db.create_keyspace("items", KeyspaceOptions { design, ..KeyspaceOptions::default() })?;
    let started = thread_seconds();
    for (key, value) in shuffled(items) {
        keyspace.put(key, value)?;
    }
    db.flush()?;
    while db.step()? {}
    let seconds = thread_seconds() - started;
    let stats = keyspace.stats();
    let written = stats.levels.iter().map(|level| level.bytes_written).sum::<u64>();
    drop(keyspace);
    db.close()?;
    Ok([written as f64, stats.table_bytes as f64, seconds])
}

/// Fills both stores in turn, some times; returns what [`fill`] does, with the least processor time.
fn filled(dirs: &[PathBuf; 2], designs: [&Design; 2], items: &Items) -> Result<[[f64; 3]; 2]> {
    let mut best = [[f64::INFINITY; 3]; 2];
    for round in 0..FILLS {
        for ((dir, design), best) in dirs.iter().zip(designs).zip(&mut best) {
            if round > 0 {
                std::fs::remove_dir_all(dir).map_err(|e| Failure::at(dir, e))?;
            }
            let [written, held, seconds] = fill(dir, design, items)?;
            *best = [written, held, seconds.min(best[2])];
        }
    }
    Ok(best)
}

/// What gets took: microseconds of processor time and device reads, of hits and of misses.
#[derive(Clone, Copy)]
struct Asked {
    us: f64,
    reads_per_hit: f64,
    reads_per_miss: f64,
}

/// Gets items, and a tenth as many keys that are not there.
fn ask(keyspace: &Keyspace, items: &Items, count: usize) -> Result<Asked> {
    let before = keyspace.stats();
    let started = thread_seconds();
    let mut found = 0;
    for (key, _) in shuffled(items).take(count) {
        found += usize::from(keyspace.get(key)?.is_some());
    }
    let us = (thread_seconds() - started) * 1e6 / count.min(items.len()).max(1) as f64;
    if found < count.min(items.len()) {
        fail!("{} of {count} items were not found", count - found);
    }
    for (key, _) in shuffled(items).take(count / 10) {
        if keyspace.get([key.as_slice(), b"?"].concat())?.is_some() {
            fail!("an item was found that is not there");
        }
    }
    let reads = Reads::between(&before, &keyspace.stats());
    let per = |reads: u64, gets: u64| reads as f64 / gets.max(1) as f64;
    Ok(Asked {
        us,
        reads_per_hit: per(reads.by_hits, reads.hits),
        reads_per_miss: per(reads.by_misses, reads.misses),
    })
}

/// The best of some rounds in which the stores are asked in turn, with so much memory.
fn rounds(dirs: &[PathBuf; 2], memory_bytes: u64, items: &Items, count: usize) -> Result<[Asked; 2]> {
    let open = |dir: &PathBuf| -> Result<(Db, Keyspace)> {
        let db = Db::open(dir, options(memory_bytes))?;
        let Some(keyspace) = db.get_keyspace("items") else { fail!("{} has no items", dir.display()) };
        Ok((db, keyspace))
    };
    let stores = [open(&dirs[0])?, open(&dirs[1])?];
    let mut best: [Option<Asked>; 2] = [None; 2];
    // The first round fills the caches.
    for round in 0..=ROUNDS {
        for (best, (_, keyspace)) in best.iter_mut().zip(&stores) {
            let asked = ask(keyspace, items, count)?;
            let is_best = best.is_none_or(|best| asked.us < best.us);
            if round > 0 && is_best {
                *best = Some(asked);
            }
        }
    }
    for (db, keyspace) in stores {
        drop(keyspace);
        db.close()?;
    }
    match best {
        [Some(plain), Some(small)] => Ok([plain, small]),
        _ => fail!("no round was measured"),
    }
}

/// Measures one kind of items under a design.
fn measure(dir: &Path, design: &Design, items: &Items) -> Result<Vec<f64>> {
    let compressed = design.with_compression(Compression::Dictionary);
    let dirs = [dir.join("plain"), dir.join("compressed")];
    let [plain, small] = filled(&dirs, [design, &compressed], items)?;
    let user_bytes = items.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as f64;
    let cached = rounds(&dirs, MUCH_MEMORY_BYTES, items, items.len())?;
    let read = rounds(&dirs, LITTLE_MEMORY_BYTES, items, items.len().min(50_000))?;
    for dir in &dirs {
        std::fs::remove_dir_all(dir).map_err(|e| Failure::at(dir, e))?;
    }
    let count = items.len().max(1) as f64;
    Ok(vec![
        user_bytes / count,
        plain[0] / user_bytes,
        small[0] / user_bytes,
        plain[1] / user_bytes,
        small[1] / user_bytes,
        plain[1] / small[1],
        plain[2] * 1e6 / count,
        small[2] * 1e6 / count,
        cached[0].us,
        cached[1].us,
        read[0].us,
        read[1].us,
        read[0].reads_per_hit,
        read[1].reads_per_hit,
        read[0].reads_per_miss,
        read[1].reads_per_miss,
    ])
}

const FIGURES: [&str; 16] = [
    "bytes of an item",
    "table bytes written per byte put",
    "  compressed",
    "table bytes held per byte put",
    "  compressed",
    "times less held",
    "us of processor per put",
    "  compressed",
    "us of processor per get in the cache",
    "  compressed",
    "us of processor per get from the device",
    "  compressed",
    "device reads per hit",
    "  compressed",
    "device reads per miss",
    "  compressed",
];

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let Some(design) = Design::preset(&args.preset) else { fail!("there is no preset {}", args.preset) };
    // Two write buffers are to fit the memory of stores that don't fit their cache.
    let design = design.scaled_to(TABLE_BYTES);
    let most = args.items.unwrap_or(args.common.scale(20_000, 300_000));
    let mut files = Vec::new();
    walk(&args.files, most as usize, &mut files);
    if files.is_empty() {
        fail!("there are no files below {}; name another directory with --files", args.files.display());
    }
    let scratch = args.common.scratch("compression")?.with_room_for(3000 * files.len() as u64)?;
    let mut results = Results::new(scratch.path(), &args.common)?;
    let mut rows: Vec<Row> = FIGURES.map(|name| (name.to_owned(), Vec::new(), Vec::new())).to_vec();
    let mut columns = Vec::new();
    for (kind, items) in kinds(&files) {
        note!("{kind}: {} items", items.len());
        for (row, value) in rows.iter_mut().zip(measure(scratch.path(), &design, &items)?) {
            row.1.push(value);
        }
        columns.push(kind.to_owned());
    }
    results.add("Compression", &args.preset, "as named", &columns, &rows);
    results.print(args.common.json)
}
