//! `siltstone stats`: what a store holds, level by level.

use crate::failure::Result;
use crate::output::{print, print_json};
use crate::sizes;
use crate::store;
use crate::table::Table;
use siltstone::{KeyspaceStats, Stats};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Show what a store holds, level by level
///
/// Opens the store for reading only, so it works beside a process that has it open. Written bytes and write
/// amplification by level count since the keyspace was created; memory and reads only since this command opened
/// the store, which is why they are small.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone stats ./store\n  siltstone stats ./store --json | jq '.space_bytes'"
)]
pub struct Args {
    /// Directory of the store
    dir: PathBuf,
    /// Print all statistics as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = store::open_read_only(&args.dir)?;
    let stats = db.stats();
    if args.json {
        return print_json(&stats);
    }
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} on disk, of it {} of log; {} keyspaces",
        args.dir.display(),
        sizes::bytes(stats.space_bytes),
        sizes::bytes(stats.wal_bytes),
        stats.keyspaces.len(),
    );
    let _ = writeln!(text, "memory in use: {}", memory(&stats));
    if let Some(error) = &stats.background_error {
        let _ = writeln!(text, "background error: {error}");
    }
    for keyspace in &stats.keyspaces {
        let _ = write!(text, "\n{}", self::keyspace(keyspace));
    }
    print(&text)
}

/// Memory by holder, in one line.
pub fn memory(stats: &Stats) -> String {
    let m = &stats.memory;
    format!(
        "{} of {} (heads {}, filters {}, indexes {}, cache {}, compaction {})",
        sizes::bytes(m.total),
        sizes::bytes(m.budget),
        sizes::bytes(m.memtable),
        sizes::bytes(m.filter),
        sizes::bytes(m.index),
        sizes::bytes(m.cache),
        sizes::bytes(m.compaction),
    )
}

/// One keyspace with its levels.
pub fn keyspace(k: &KeyspaceStats) -> String {
    let mut text = format!(
        "keyspace {} ({}; preset {})\n  about {} items; {} entries in {} tables, {}; {} in heads, {} of memory; filter {:.1} and index {:.2} bits per item\n",
        k.name,
        store::schema_name(&k.schema),
        k.preset,
        sizes::count(k.items_estimate),
        sizes::count(k.table_entries),
        sizes::count(k.table_count),
        sizes::bytes(k.table_bytes),
        sizes::count(k.head_entries),
        sizes::bytes(k.head_bytes),
        k.filter_bits_per_item,
        k.index_bits_per_item,
    );
    if k.levels.is_empty() {
        return text;
    }
    let mut table = Table::new([
        "level",
        "regions",
        "runs",
        "deepest pile",
        "tables",
        "entries",
        "bytes",
        "written",
        "write amp.",
    ]);
    for level in &k.levels {
        table.row([
            level.level.to_string(),
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
