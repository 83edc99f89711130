//! `siltstone compact` and `siltstone drain`: background work, now.

use crate::failure::Result;
use crate::output::{print, print_json};
use crate::progress;
use crate::sizes;
use crate::store;
use siltstone::{CompactProgress, Db, DrainProgress, Options};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

/// Merge everything, so that no garbage is left
///
/// Deleted, overwritten and expired items are gone afterwards, and so is their space. A store clears garbage
/// away by itself as far as its design asks; this is for what is to be small or quick to read from now on,
/// such as a copy that is shipped. It may be interrupted, and goes on where it was the next time.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone compact ./store\n  siltstone compact ./store --keyspace files --json"
)]
pub struct CompactArgs {
    /// Directory of the store
    dir: PathBuf,
    /// Compact this keyspace alone
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Memory of the store
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse_size)]
    memory_budget: u64,
    /// Print {"regions": …, "bytes_read": …, "bytes_written": …, "is_complete": …, "space_bytes_before": …,
    /// "space_bytes": …, "seconds": …}
    #[arg(long)]
    json: bool,
}

/// Write everything in the log to tables, and do the background work that is due
///
/// A store that is closed goes on with what is due when it is opened the next time; this does it now.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  siltstone drain ./store\n  siltstone drain ./store --json")]
pub struct DrainArgs {
    /// Directory of the store
    dir: PathBuf,
    /// Memory of the store
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse_size)]
    memory_budget: u64,
    /// Print {"level_0_runs": …, "space_bytes_before": …, "space_bytes": …, "seconds": …}
    #[arg(long)]
    json: bool,
}

/// Runs `siltstone compact`.
pub fn compact(args: &CompactArgs) -> Result<()> {
    let db = open(&args.dir, args.memory_budget)?;
    let keyspace = args.keyspace.as_ref().map(|name| store::keyspace(&db, name)).transpose()?;
    let (started, before) = (Instant::now(), db.stats().space_bytes);
    let spinner = progress::spinner();
    let mut show = |at: CompactProgress| {
        spinner.set_message(format!(
            "{} level {}: {} of {} regions, {} written",
            at.keyspace,
            at.level,
            sizes::count(at.regions_done),
            sizes::count(at.regions_total),
            sizes::bytes(at.bytes_written)
        ));
        spinner.tick();
        ControlFlow::Continue(())
    };
    let outcome = match &keyspace {
        Some(keyspace) => keyspace.compact_with(&mut show),
        None => db.compact_with(&mut show),
    };
    spinner.finish_and_clear();
    let (report, after) = (outcome?, db.stats().space_bytes);
    db.close()?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return print_json(&serde_json::json!({
            "regions": report.regions, "bytes_read": report.bytes_read, "bytes_written": report.bytes_written,
            "is_complete": report.is_complete, "space_bytes_before": before, "space_bytes": after,
            "seconds": seconds,
        }));
    }
    print(&format!(
        "compacted {} regions in {}: {} became {}\n",
        sizes::count(report.regions),
        sizes::seconds(seconds),
        sizes::bytes(before),
        sizes::bytes(after)
    ))
}

/// Runs `siltstone drain`.
pub fn drain(args: &DrainArgs) -> Result<()> {
    let db = open(&args.dir, args.memory_budget)?;
    let (started, before) = (Instant::now(), db.stats().space_bytes);
    wait(&db)?;
    let (level_0_runs, after) = (level_0_runs(&db), db.stats().space_bytes);
    db.close()?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return print_json(&serde_json::json!({
            "level_0_runs": level_0_runs, "space_bytes_before": before, "space_bytes": after,
            "seconds": seconds,
        }));
    }
    print(&format!(
        "drained in {}: {} runs at level 0, {} on disk\n",
        sizes::seconds(seconds),
        sizes::count(level_0_runs),
        sizes::bytes(after)
    ))
}

/// Drains a store, and shows how far it is.
pub fn wait(db: &Db) -> siltstone::Result<()> {
    let spinner = progress::spinner();
    let outcome = db.drain_with(&mut |at: DrainProgress| {
        let (buffers, runs) = (sizes::count(at.write_buffers), sizes::count(at.level_0_runs));
        spinner.set_message(format!("draining: {buffers} write buffers, {runs} runs at level 0"));
        spinner.tick();
        ControlFlow::Continue(())
    });
    spinner.finish_and_clear();
    outcome.map(|_| ())
}

fn level_0_runs(db: &Db) -> u64 {
    let stats = db.stats();
    let tops = stats.keyspaces.iter().filter_map(|keyspace| keyspace.levels.first());
    tops.map(|level| level.runs).sum()
}

fn open(dir: &std::path::Path, memory_budget: u64) -> Result<Db> {
    store::open_existing(dir, Options { memory_budget_bytes: memory_budget, ..Options::default() })
}
