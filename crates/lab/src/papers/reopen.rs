//! `siltstone-lab reopen`: how long a large store takes to open, after it was closed and after it was killed.
//!
//! A store is filled with items of 16 + 100 bytes and closed. Then it is opened again and again, each time by
//! a new process, which says how long that took, how much of it was processor time, how much it replayed and
//! how much memory it has: this program run again with `--role`. The first opening follows a close; before
//! each other one another process writes, until the log is nearly as long as the budget lets it become, and
//! is killed.
//!
//! Opening reads CURRENT, the manifest, the region filters and the log, and no table; so it takes a time for
//! the first three, which the opening after a close shows, and one for the log, which is the rest.

use super::evaluation::{Common, Results, Row};
use crate::kit::generate::mix;
use crate::measure::{rss_bytes, rss_peak_bytes, thread_seconds};
use crate::program::failure::{Failure, Result, fail};
use crate::program::output::{note, print, print_json};
use serde::{Deserialize, Serialize};
use siltstone::{Db, Keyspace, KeyspaceOptions, Options};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const VALUE_BYTES: usize = 100;
const ITEM_BYTES: u64 = 16 + VALUE_BYTES as u64;
/// Items that are filled in with one bulk build, whose temporary file has all of them once more.
const BUILD_ITEMS: u64 = 4_000_000;
/// How much of the log that the budget allows a process writes before it is killed.
const LOG_SHARE: f64 = 0.9;
/// Items that are looked up after an opening.
const QUESTIONS: u64 = 1_000;

/// Measure how long a large store takes to open, after it was closed and after it was killed
///
/// Fills a store, and opens it in one process after the other; before each opening but the first another
/// process writes and is killed. The store is written below --dir and removed afterwards.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    siltstone-lab reopen --quick\n  \
    siltstone-lab reopen --items 90M --dir /data --json")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Items of the store [default: 90M, which are 10 GB; with --quick 200K]
    #[arg(long, value_name = "COUNT", value_parser = crate::kit::sizes::parse_positive)]
    items: Option<u64>,
    /// Memory budget
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = crate::kit::sizes::parse_size)]
    budget: u64,
    /// How often it is killed
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    kills: u64,
    /// What this process does with a store that another one has filled
    #[arg(long, hide = true)]
    role: Option<Role>,
    /// The store of `--role`
    #[arg(long, hide = true)]
    store: Option<PathBuf>,
}

/// What a process does that this program starts.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Opens the store, says what that took, and closes it.
    Open,
    /// Writes to it until it is killed.
    Write,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Write => "write",
        }
    }
}

/// What an opening took.
#[derive(Debug, Serialize, Deserialize)]
struct Opened {
    seconds: f64,
    processor_seconds: f64,
    replayed_items: u64,
    /// Memory of the process once the store was open, and the most until then.
    memory_bytes: u64,
    peak_bytes: u64,
}

fn key(number: u64) -> [u8; 16] {
    (u128::from(mix(number)) << 64 | u128::from(number)).to_be_bytes()
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let words = value.chunks_mut(8).zip(0..);
    words.for_each(|(chunk, word)| {
        let random = mix(number ^ word << 48).to_le_bytes();
        chunk.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
    });
    value
}

/// Opens the store without threads: they would change what is counted.
fn open(path: &Path, budget: u64) -> Result<(Db, Keyspace)> {
    let options = Options {
        memory_budget_bytes: budget,
        background_threads: 0,
        sync_interval_ms: 0,
        ..Options::default()
    };
    let db = Db::open(path, options)?;
    let keyspace = db.keyspace("items", KeyspaceOptions::default())?;
    Ok((db, keyspace))
}

/// Fills the store with `items` items, a bulk build after the other.
fn fill(path: &Path, args: &Args, items: u64) -> Result<()> {
    let options = Options { memory_budget_bytes: args.budget, ..Options::default() };
    let db = Db::open(path, options)?;
    let keyspace = db.keyspace("items", KeyspaceOptions::default())?;
    for from in (0..items).step_by(BUILD_ITEMS as usize) {
        keyspace.ingest((from..items.min(from + BUILD_ITEMS)).map(|number| (key(number), value(number))))?;
    }
    db.drain()?;
    let space = db.stats().space_bytes;
    note!("{} items, {} of tables and log", items, crate::kit::sizes::bytes(space));
    drop(keyspace);
    Ok(db.close()?)
}

/// Checks that item `number` is there.
fn check(keyspace: &Keyspace, number: u64) -> Result<()> {
    match keyspace.get(key(number))? {
        Some(found) if found == value(number) => Ok(()),
        found => fail!("item {number} is {found:?}"),
    }
}

/// The process that opens: prints what that took.
fn opens(path: &Path, args: &Args, items: u64) -> Result<()> {
    let (started, processor) = (Instant::now(), thread_seconds());
    let (db, keyspace) = open(path, args.budget)?;
    let (seconds, processor_seconds) = (started.elapsed().as_secs_f64(), thread_seconds() - processor);
    let stats = keyspace.stats();
    print_json(&Opened {
        seconds,
        processor_seconds,
        replayed_items: stats.write_buffer_entries,
        memory_bytes: rss_bytes(),
        peak_bytes: rss_peak_bytes(),
    })?;
    let step = (items / QUESTIONS).max(1);
    (0..items).step_by(step as usize).try_for_each(|number| check(&keyspace, number))?;
    db.flush()?;
    while db.step()? {}
    drop(keyspace);
    Ok(db.close()?)
}

/// The process that is killed: overwrites items until the log is as long as it should be, says how many, and
/// waits.
fn writes(path: &Path, args: &Args, items: u64) -> Result<()> {
    let (db, keyspace) = open(path, args.budget)?;
    let allowed = (args.budget / 4).min(Options::default().max_wal_bytes);
    let enough = (allowed as f64 * LOG_SHARE) as u64;
    let (mut written, start) = (0, db.log_position());
    while db.log_position() - start < enough && written < items {
        let end = items.min(written + 1_000);
        for number in written..end {
            keyspace.put(key(number), value(number))?;
        }
        written = end;
    }
    let bytes = db.log_position() - start;
    print(&format!("{}\n", serde_json::json!({ "items": written, "bytes": bytes })))?;
    loop {
        std::thread::park();
    }
}

/// This program run again on the store at `path`.
fn child(role: Role, path: &Path, args: &Args, items: u64) -> Result<Command> {
    let program = std::env::current_exe().map_err(|e| Failure::Failed(format!("this program: {e}")))?;
    let mut command = Command::new(program);
    command.args(["reopen", "--role", role.name(), "--store"]).arg(path);
    command.args(["--budget", &args.budget.to_string(), "--items", &items.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

/// Opens the store in a process of its own.
fn open_once(path: &Path, args: &Args, items: u64) -> Result<Opened> {
    let told = child(Role::Open, path, args, items)?.output();
    let told = told.map_err(|e| Failure::Failed(format!("the process that opens: {e}")))?;
    if !told.status.success() {
        fail!("the process that opens the store ended with {}", told.status);
    }
    serde_json::from_slice(&told.stdout).map_err(|e| Failure::Failed(format!("the process that opens: {e}")))
}

/// What a process wrote before it was killed.
#[derive(Default, Deserialize)]
struct Written {
    items: u64,
    bytes: u64,
}

/// Writes to the store in a process that is killed.
fn write_and_kill(path: &Path, args: &Args, items: u64) -> Result<Written> {
    let fail = |e: std::io::Error| Failure::Failed(format!("the process that writes: {e}"));
    let mut child = child(Role::Write, path, args, items)?.spawn().map_err(fail)?;
    let mut line = String::new();
    if let Some(said) = child.stdout.take() {
        BufReader::new(said).read_line(&mut line).map_err(fail)?;
    }
    child.kill().and_then(|()| child.wait()).map_err(fail)?;
    let told = serde_json::from_str(&line);
    told.map_err(|_| Failure::Failed("the process that writes ended before it was killed".to_owned()))
}

/// The figures of an opening, beside those of one after a close: what it took longer was the log.
fn figures(opened: &Opened, closed: &Opened, written: &Written) -> [(&'static str, f64); 8] {
    let items = opened.replayed_items as f64;
    let rate =
        |took: f64, closed: f64| if items > 0.0 { items / 1e3 / (took - closed).max(1e-9) } else { 0.0 };
    [
        ("open, s", opened.seconds),
        ("open, s of processor time", opened.processor_seconds),
        ("log, MB", written.bytes as f64 / 1e6),
        ("items replayed, K", items / 1e3),
        ("items replayed, K/s", rate(opened.seconds, closed.seconds)),
        ("items replayed, K/s of processor time", rate(opened.processor_seconds, closed.processor_seconds)),
        ("memory when open, MB", opened.memory_bytes as f64 / 1e6),
        ("most memory until then, MB", opened.peak_bytes as f64 / 1e6),
    ]
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let items = args.items.unwrap_or(args.common.scale(200_000, 90_000_000));
    match (args.role, &args.store) {
        (Some(Role::Open), Some(store)) => return opens(store, args, items),
        (Some(Role::Write), Some(store)) => return writes(store, args, items),
        (Some(_), None) => fail!("--role needs --store"),
        (None, _) => {}
    }
    let room = items * ITEM_BYTES * 5 / 4 + 3 * BUILD_ITEMS.min(items) * ITEM_BYTES;
    let scratch = args.common.scratch("reopen")?.with_room_for(room)?;
    let mut results = Results::new(scratch.path(), &args.common)?;
    let store = scratch.path().join("store");
    let started = Instant::now();
    fill(&store, args, items)?;
    note!("filled in {:.0} s", started.elapsed().as_secs_f64());
    // Whoever writes first makes the region filters, which the openings after it load.
    write_and_kill(&store, args, items)?;
    open_once(&store, args, items)?;
    let closed = open_once(&store, args, items)?;
    let mut columns = vec!["after a close".to_owned()];
    let mut rows: Vec<Row> = figures(&closed, &closed, &Written::default())
        .map(|(name, figure)| (name.to_owned(), vec![figure], Vec::new()))
        .into();
    for kill in 1..=args.kills {
        let written = write_and_kill(&store, args, items)?;
        let opened = open_once(&store, args, items)?;
        // The process that wrote may have flushed a part.
        if written.items > 0 && opened.replayed_items == 0 {
            fail!("{} items were written before the kill, and none was replayed", written.items);
        }
        columns.push(format!("after kill {kill}"));
        for (row, (_, figure)) in rows.iter_mut().zip(figures(&opened, &closed, &written)) {
            row.1.push(figure);
        }
    }
    let title = format!("opening a store of {items} items of 16 + {VALUE_BYTES} bytes");
    results.add("Reopen", &title, "as named", &columns, &rows);
    results.print(args.common.json)
}
