//! `siltstone stats`: what a store holds, level by level, and what it did lately.

mod tail;
mod watch;

use crate::commands::redesign;
use crate::failure::Result;
use crate::output::{note, print, print_json};
use crate::sizes;
use crate::store;
use crate::table::Table;
use siltstone::{Drift, KeyspaceStats, Stats};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tail::Tail;

/// Show what a store holds, level by level
///
/// Opens the store for reading only, so it works beside a process that has it open. Written bytes and write
/// amplification by level count since the keyspace was created; memory in use is what this command itself
/// takes. Reads for each get and scan are those of whoever had it open for writing, and what is predicted is
/// for the memory budget that they gave.
///
/// With --watch the figures are refreshed until Ctrl-C, and flushes and compactions are shown as they come,
/// if the process that writes keeps an event log: all commands here that write do, other programs where they
/// set `Options::event_log_bytes`. Standard output that is no terminal gets lines, of the figures only what
/// has changed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone stats ./store\n  siltstone stats ./store --json | jq '.space_bytes'\n  \
        siltstone stats ./store --watch\n  siltstone stats ./store --events 5"
)]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Print all statistics as one JSON object; with --watch or --events one object per refresh and event, a
    /// line each
    #[arg(long)]
    json: bool,
    /// Go on showing figures, and events as they come
    #[arg(long)]
    watch: bool,
    /// Time from one refresh of the figures to the next
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "2s", requires = "watch")]
    interval: Duration,
    /// Time after which --watch ends by itself
    #[arg(long = "for", value_name = "TIME", value_parser = sizes::parse_duration, requires = "watch")]
    duration: Option<Duration>,
    /// Show the last N lines of the event log (20 if N is left out) instead of figures; with --watch before
    /// what comes
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20")]
    events: Option<usize>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if args.watch {
        return watch::run(args);
    }
    if let Some(count) = args.events {
        return last_events(args, count);
    }
    let db = store::open_read_only(&args.dir)?;
    let stats = db.stats();
    if args.json {
        return print_json(&stats);
    }
    print(&figures(&args.dir, &stats))
}

/// Parses `--interval`: a watch that never rests would be work for nothing.
fn interval(text: &str) -> std::result::Result<Duration, String> {
    let interval = sizes::parse_duration(text)?;
    let least = Duration::from_millis(50);
    if interval < least { Err("at least 50ms".to_owned()) } else { Ok(interval) }
}

/// Prints the last lines of the event log.
fn last_events(args: &Args, count: usize) -> Result<()> {
    // A directory that holds no store is refused as by every command.
    store::open_read_only(&args.dir)?;
    let mut tail = Tail::new(&args.dir);
    if !tail.exists() {
        note!("{}: there is no event log; the process that wrote kept none", args.dir.display());
    }
    let lines = tail.new_lines();
    let mut text = String::new();
    for line in lines.iter().skip(lines.len().saturating_sub(count)) {
        let shown = if args.json { line.text.clone() } else { line.in_words() };
        if !args.json || line.event.is_some() {
            let _ = writeln!(text, "{shown}");
        }
    }
    print(&text)
}

/// All figures of a store, for people.
fn figures(dir: &Path, stats: &Stats) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} on disk, of it {} of log; {} keyspaces",
        dir.display(),
        sizes::bytes(stats.space_bytes),
        sizes::bytes(stats.wal_bytes),
        stats.keyspaces.len(),
    );
    let _ = writeln!(text, "memory in use: {}", memory(stats));
    if let Some(error) = &stats.background_error {
        let _ = writeln!(text, "background error: {error}");
    }
    for keyspace in &stats.keyspaces {
        let _ = write!(text, "\n{}", self::keyspace(keyspace));
    }
    text
}

/// Memory by holder, in one line.
pub fn memory(stats: &Stats) -> String {
    let m = &stats.memory;
    format!(
        "{} of {} (memtables {}, filters {}, indexes {}, cache {}, compaction {})",
        sizes::bytes(m.total),
        sizes::bytes(m.budget),
        sizes::bytes(m.memtable),
        sizes::bytes(m.filter),
        sizes::bytes(m.index),
        sizes::bytes(m.cache),
        sizes::bytes(m.compaction),
    )
}

/// A figure that is far from what was predicted, in a sentence.
pub fn drift(Drift { field, measured, predicted, cause, .. }: &Drift) -> String {
    let figure = |figure: &f64| match field.strip_suffix("_bytes") {
        Some(_) => sizes::bytes(*figure as u64),
        None => format!("{figure:.2}"),
    };
    let (measured, predicted) = (figure(measured), figure(predicted));
    format!("{field} is {measured}, where {predicted} was predicted; likely cause: {cause}")
}

/// What was measured beside what is predicted, in a line, and a line for what is off.
fn predicted(k: &KeyspaceStats) -> String {
    let (measured, predicted) = (&k.measured, &k.predicted);
    let figures = [
        ("bytes written per byte", measured.write_amplification, predicted.write_amplification),
        ("reads per hit", measured.reads_per_hit, predicted.reads_per_hit),
        ("per miss", measured.reads_per_miss, predicted.reads_per_miss),
        ("per scan", measured.reads_per_scan, predicted.reads_per_scan),
        ("space", measured.space_amplification, predicted.space_amplification),
    ];
    let number = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.2}"));
    let pair = |(name, measured, predicted): (&str, Option<f64>, Option<f64>)| {
        predicted.map(|_| format!("{name} {} / {}", number(measured), number(predicted)))
    };
    let mut pairs: Vec<String> = figures.into_iter().filter_map(pair).collect();
    if let (Some(measured), Some(predicted)) = (measured.memory_bytes, predicted.memory_bytes) {
        let [measured, predicted] = [measured, predicted].map(|bytes| sizes::bytes(bytes as u64));
        pairs.push(format!("memory {measured} / {predicted}"));
    }
    let mut text = String::new();
    if !pairs.is_empty() {
        let _ = writeln!(text, "  measured / predicted: {}", pairs.join(", "));
    }
    k.drift.iter().for_each(|drift| _ = writeln!(text, "  {}", self::drift(drift)));
    if let Some(proposed) = &k.proposed {
        let share = 100.0 * proposed.saved_share;
        let _ =
            writeln!(text, "  the design {} would save {share:.0} % of an operation's time", proposed.name);
    }
    text
}

/// One keyspace with its levels.
pub fn keyspace(k: &KeyspaceStats) -> String {
    let mut text = format!(
        "keyspace {} ({}; preset {})\n  about {} items; {} entries in {} tables, {}; {} in write buffers, {} of memory; filter {:.1} and index {:.2} bits per item\n",
        k.name,
        store::schema_name(&k.schema),
        k.preset,
        sizes::count(k.items_estimate),
        sizes::count(k.table_entries),
        sizes::count(k.table_count),
        sizes::bytes(k.table_bytes),
        sizes::count(k.write_buffer_entries),
        sizes::bytes(k.write_buffer_bytes),
        k.filter_bits_per_item,
        k.index_bits_per_item,
    );
    let (before, after) = k.levels.iter().fold((0, 0), |(before, after), level| {
        (before + level.uncompressed_bytes, after + level.compressed_bytes)
    });
    if after > 0 {
        let ratio = before as f64 / after as f64;
        let (before, after) = (sizes::bytes(before), sizes::bytes(after));
        let _ = writeln!(text, "  compressed from {before} to {after}, {ratio:.2} times less");
    }
    if k.largest_group_bytes > k.table_bytes / 2 {
        let share = 100.0 * k.largest_group_bytes as f64 / k.table_bytes.max(1) as f64;
        let _ = writeln!(
            text,
            "  warning: one group has {share:.0} % of it, so its schema hardly divides these keys"
        );
    }
    if let Some(last) = k.redesign.as_ref().filter(|last| last.done < 1.0) {
        let _ = writeln!(text, "  {}", redesign::words(last));
    }
    if let Some(change) = k.schema_change.as_ref().filter(|change| change.done < 1.0) {
        let _ = writeln!(text, "  {}", redesign::schema_words(change));
    }
    text.push_str(&predicted(k));
    if k.levels.is_empty() {
        return text;
    }
    let mut table = Table::new([
        "level",
        "regions",
        "runs",
        "most runs",
        "tables",
        "entries",
        "bytes",
        "written",
        "write amp.",
    ]);
    for level in &k.levels {
        table.row([
            store::level_name(level),
            sizes::count(level.regions),
            sizes::count(level.runs),
            sizes::count(level.max_runs_in_a_region),
            sizes::count(level.tables),
            sizes::count(level.entries),
            sizes::bytes(level.bytes),
            sizes::bytes(level.bytes_written),
            format!("{:.2}", level.write_amplification),
        ]);
    }
    let _ = write!(text, "{table}");
    text
}
